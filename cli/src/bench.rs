//! `contend bench`: locks measured, ours beside those of the libraries that people use.

mod cacheline;
mod contenders;
mod cost;
mod document;
mod findings;
mod handover;
mod kernel;
mod limited;
mod pair;
mod ping_pong;
mod semaphore;
mod throughput;
mod timing;

use crate::{interrupt, noise};
use ::report::Screen;
use anyhow::Context as _;
use findings::Findings;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use timing::Bench;

/// Measure locks: ours, the C library's, the standard library's, and other libraries' where they were built in.
///
/// Threads are pinned and count for themselves. Each lock is measured once to warm up and then in turn with the others, so
/// that a machine that gets slower does so for all; you see medians and ranges. Every run counts under its lock, and a
/// lock whose counter does not add up is a row that says so.
///
/// Other libraries than the C and the standard library are there when contend was built with `--features peers`.
/// One that could not be built is a row that says why.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  contend bench cost                              # nobody waiting: acquire, release, in cycles
  contend bench ping-pong --lock ticket,mcs       # hand-overs as multiples of a line's way
  contend bench throughput --threads 1,2,8,64     # under load, with more threads than cores too
  contend bench throughput --help                 # sections, think times, reads and writes
  contend bench --write docs/benchmarks.md        # all of them into one document (about 10 minutes)
  contend bench --write try.md --quick            # the same with a few locks and short runs (half a minute)"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Option<Workload>,

    /// Run every benchmark and write what came of it, with the goals that were met and missed, into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    /// Runs of each after the warm-up, with --write
    #[arg(long, value_name = "N", default_value_t = 3, requires = "write", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,

    /// With --write: a few locks and short runs, to see that it works
    #[arg(long, requires = "write")]
    quick: bool,

    /// With --write: print goals and tables as JSON too
    #[arg(long, requires = "write")]
    json: bool,
}

/// What benchmarks of locks are told.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// Locks of `contend locks`, and of other libraries, such as glibc-mutex, std-rwlock or parking-lot-mutex
    /// [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    lock: Vec<String>,

    /// Runs of each lock after the warm-up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,

    /// End a single run of a lock after so long; its row then says so
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = limit)]
    limit: Duration,

    /// Print tables, goals and the noise meanwhile as JSON
    #[arg(long)]
    json: bool,

    /// Draw the main figures into this file as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Reads a time limit in seconds.
fn limit(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write seconds, from 0.01 to 86400".into())
}

/// The benchmarks.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Workload {
    Cost(cost::Args),
    Throughput(throughput::Args),
    PingPong(ping_pong::Args),
    Cacheline(cacheline::Args),
    Semaphore(semaphore::Args),
    /// Every thread opens and closes one file: the kernel's locks for files and names
    Fops(kernel::Args),
    /// Every thread maps 64 KiB with MAP_POPULATE and unmaps them: the kernel's locks for memory
    Mempop(kernel::Args),
    /// Every thread runs find(1) over a balanced tree on tmpfs: the kernel's locks for directories and pages
    Pfind(kernel::Args),
    Pair(pair::Args),
    /// What `pair` runs
    #[command(hide = true)]
    PairProgram(pair::ProgramArgs),
}

/// A benchmark with its arguments, as they follow `contend bench`.
#[derive(Debug, clap::Parser)]
struct Line {
    #[command(subcommand)]
    workload: Workload,
}

impl Workload {
    /// Whether JSON is asked for, and where a drawing goes.
    fn output(&self) -> (bool, Option<&PathBuf>) {
        let common = match self {
            Self::Fops(args) | Self::Mempop(args) | Self::Pfind(args) => {
                return (args.json, args.svg.as_ref());
            }
            Self::PairProgram(_) => return (false, None),
            Self::Cost(args) => &args.common,
            Self::Throughput(args) => &args.common,
            Self::PingPong(args) => &args.common,
            Self::Cacheline(args) => &args.common,
            Self::Semaphore(args) => &args.common,
            Self::Pair(args) => &args.common,
        };
        (common.json, common.svg.as_ref())
    }
}

/// Runs a benchmark.
fn measure(bench: &Bench, workload: &Workload) -> anyhow::Result<Findings> {
    match workload {
        Workload::Cost(args) => cost::run(bench, args),
        Workload::Throughput(args) => throughput::run(bench, args),
        Workload::PingPong(args) => ping_pong::run(bench, args),
        Workload::Cacheline(args) => cacheline::run(bench, args),
        Workload::Semaphore(args) => semaphore::run(bench, args),
        Workload::Fops(args) => kernel::run(bench, kernel::Load::Fops, args),
        Workload::Mempop(args) => kernel::run(bench, kernel::Load::Mempop, args),
        Workload::Pfind(args) => kernel::run(bench, kernel::Load::Pfind, args),
        Workload::Pair(args) => pair::run(bench, args),
        Workload::PairProgram(_) => anyhow::bail!("pair-program is what `contend bench pair` runs"),
    }
}

/// Runs `contend bench`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.write {
        let findings = document::write(&document::Plan { path, runs: args.runs, quick: args.quick })?;
        if args.json {
            println!("{}", serde_json::to_string_pretty(&findings)?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let workload =
        args.workload.as_ref().context("no benchmark was named; `contend bench --help` lists them")?;
    if let Workload::PairProgram(args) = workload {
        pair::program(args)?;
        return Ok(ExitCode::SUCCESS);
    }
    interrupt::keep();
    let bench = Bench::new();
    let findings = measure(&bench, workload)?;
    let (json, svg) = workload.output();
    if let Some(path) = svg {
        std::fs::write(path, findings.svg()?)
            .with_context(|| format!("cannot write the plot to {}", path.display()))?;
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&findings.json())?);
    } else {
        print!("{}", findings.terminal(Screen::stdout()));
    }
    noise::warn(&findings.noise.warnings());
    Ok(interrupt::exit_code("rows hold the rounds that were finished", ExitCode::SUCCESS))
}
