//! Threads on one semaphore.

use std::time::Duration;

use super::Common;
use super::contenders::SEMAPHORES;
use super::findings::Findings;
use super::throughput::{self, Section};
use super::timing::Bench;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Locks and rounds; the semaphores if no lock is named.
    pub common: Common,
    /// Numbers of threads.
    pub threads: Vec<u16>,
    /// How long each run lasts.
    pub duration: Duration,
}

/// The load of `throughput` with nothing inside, on semaphores.
///
/// # Errors
///
/// A name that no lock has.
pub fn run(bench: &Bench, options: &Options) -> anyhow::Result<Findings> {
    let mut common = options.common.clone();
    if common.lock.is_empty() {
        common.lock = SEMAPHORES.map(str::to_owned).to_vec();
    }
    let load = throughput::Options {
        common,
        threads: options.threads.clone(),
        section: vec![Section::Lines(0)],
        think_ns: vec![0],
        reads: vec![0],
        duration: options.duration,
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
