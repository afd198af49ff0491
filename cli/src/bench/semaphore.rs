//! `contend bench semaphore`: threads on one semaphore.

use super::Common;
use super::contenders::SEMAPHORES;
use super::findings::Findings;
use super::throughput::{self, Section};
use super::timing::Bench;

/// Threads on one System V or POSIX semaphore with one unit, which is taken and given back in a loop.
///
/// Each call of the System V semaphore goes to the kernel; the POSIX one goes there only to sleep and to wake.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend bench semaphore
  contend bench semaphore --threads 1,2,4,8,16 --svg semaphore.svg
  contend bench semaphore --lock sysv-semaphore,glibc-mutex")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,

    /// Threads
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8,16,32,64",
        value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) threads: Vec<u16>,

    /// How long each run lasts
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) millis: u64,
}

/// Runs `contend bench semaphore`: the load of `throughput` with nothing inside, on semaphores.
pub(crate) fn run(bench: &Bench, args: &Args) -> anyhow::Result<Findings> {
    let mut common = args.common.clone();
    if common.lock.is_empty() {
        common.lock = SEMAPHORES.map(str::to_owned).to_vec();
    }
    let load = throughput::Args {
        common,
        threads: args.threads.clone(),
        section: vec![Section::Lines(0)],
        think_ns: vec![0],
        reads: vec![0],
        millis: args.millis,
    };
    let mut findings = throughput::run(bench, &load)?;
    findings.workload = "semaphore";
    for part in &mut findings.parts {
        part.key = "semaphore";
        part.heading = "One semaphore".into();
    }
    findings.goals.clear();
    Ok(findings)
}
