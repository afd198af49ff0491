//! `contend bench`: locks measured, ours beside those of the libraries that people use.

mod args;

use crate::interrupt;
use crate::output::{self, own_command_line, print_json, tell, write_page};
use crate::progress::{self, BARS};
use args::{Aim7, Aim7User, Cacheline, Cost, Exim, Futex, Kernel, Output, PingPong, Regimes, Throughput};
use bench::{Bench, Findings, cacheline, cost, ping_pong, regimes, throughput};
use loads::{aim7, exim, futex, kernel};
use report::{Screen, text};
use session::ensure_usage;
use session::threads::or_refused;
use std::process::ExitCode;

/// Measure locks on this machine, beside those of other libraries.
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
    after_help = "Examples:
  contend bench cost                              # no thread waits: acquire, release, in cycles
  contend bench ping-pong --lock ticket,mcs       # hand-overs as multiples of a line's way
  contend bench throughput --threads 1,2,8,64     # under load, with more threads than cores too
  contend bench throughput --help                 # sections, think times, reads and writes
  contend bench futex wake --threads 64           # the running kernel's futexes, as perf bench futex
  contend bench aim7 --mix fserver                # AIM7's job mixes, by users
  contend bench regimes --svg regimes.svg         # which lock to start with (about 10 minutes)"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

/// The benchmarks.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Workload {
    Cost(Cost),
    Throughput(Throughput),
    Regimes(Regimes),
    PingPong(PingPong),
    Cacheline(Cacheline),
    /// Every thread opens and closes one file: the kernel's locks for files and names
    Fops(Kernel),
    /// Every thread maps 64 KiB with MAP_POPULATE and unmaps them: the kernel's locks for memory
    Mempop(Kernel),
    /// Every thread runs find(1) over a balanced tree, on tmpfs if there is one: the kernel's locks for directories and pages
    Pfind(Kernel),
    Exim(Exim),
    Futex(Futex),
    Aim7(Aim7),
    /// What `aim7` runs
    #[command(hide = true)]
    Aim7User(Aim7User),
}

impl Workload {
    /// Where the findings go.
    fn output(&self) -> Output {
        match self {
            Self::Fops(args) | Self::Mempop(args) | Self::Pfind(args) => args.output.clone(),
            Self::Aim7User(_) => Output::default(),
            Self::Aim7(args) => args.output.clone(),
            Self::Exim(args) => args.output.clone(),
            Self::Futex(args) => args.output.clone(),
            Self::Cost(args) => args.common.output.clone(),
            Self::Throughput(args) => args.common.output.clone(),
            Self::Regimes(args) => args.common.output.clone(),
            Self::PingPong(args) => args.common.output.clone(),
            Self::Cacheline(args) => args.common.output.clone(),
        }
    }
}

/// Runs a benchmark. That its threads cannot be started is an error.
fn measure(bench: &Bench, workload: &Workload) -> anyhow::Result<Findings> {
    or_refused(|| measure_with_threads(bench, workload))?
}

fn measure_with_threads(bench: &Bench, workload: &Workload) -> anyhow::Result<Findings> {
    match workload {
        Workload::Cost(args) => cost::run(bench, &args.options()),
        Workload::Throughput(args) => throughput::run(bench, &args.options(bench)),
        Workload::Regimes(args) => Ok(regimes(bench, args)?.0.findings),
        Workload::PingPong(args) => ping_pong::run(bench, &args.options()),
        Workload::Cacheline(args) => cacheline::run(bench, &args.options()),
        Workload::Fops(args) => kernel::run(bench, kernel::Load::Fops, &args.options()),
        Workload::Mempop(args) => kernel::run(bench, kernel::Load::Mempop, &args.options()),
        Workload::Pfind(args) => kernel::run(bench, kernel::Load::Pfind, &args.options()),
        Workload::Exim(args) => exim::run(bench, &args.options()),
        Workload::Futex(args) => futex::run(bench, args.load(), &args.options()?),
        Workload::Aim7(args) if args.list => Ok(aim7::list()),
        Workload::Aim7(args) => aim7::run(bench, &args.options()),
        Workload::Aim7User(_) => anyhow::bail!("aim7-user is what `contend bench aim7` runs"),
    }
}

/// The exit code of a run that was too disturbed for a page.
const DISTURBED: u8 = 3;

/// Runs every lock in every regime, and writes the page if there is to be one; with the exit code.
fn regimes(bench: &Bench, args: &Regimes) -> anyhow::Result<(regimes::Regimes, ExitCode)> {
    let (options, machines) = (args.options(bench)?, args.machines()?);
    let pictured = args.output.as_deref().map(|path| (path, path.with_extension("svg")));
    ensure_usage!(
        pictured.as_ref().is_none_or(|(page, picture)| page != picture),
        "the page would be where its picture is written: name it FILE.md"
    );
    let files = pictured
        .as_ref()
        .map(|(path, picture)| anyhow::Ok((output::file(path)?, output::file(picture)?)))
        .transpose()?;
    let plan = regimes::plan(bench, &options, machines.as_ref())?;
    tell(&plan);
    let regimes = regimes::run(bench, &options, machines.as_ref())?;
    let mut code = if regimes.findings.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    if let (Some((page, picture)), Some((path, drawing))) = (files, pictured) {
        let name = drawing.file_name().unwrap_or_default().to_string_lossy();
        match regimes.page(&own_command_line(), &text::printable(&name)) {
            Ok(text) => {
                write_page(page, &text)?;
                picture.write(&regimes.findings.svg()?)?;
                tell(&format!("written to {} and {}", path.display(), drawing.display()));
            }
            Err(_) => {
                tell(&format!("{} is not written, since the runs were disturbed", path.display()));
                code = ExitCode::from(DISTURBED);
            }
        }
    }
    Ok((regimes, code))
}

/// Runs `contend bench`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let workload = &args.workload;
    if let Workload::Aim7User(args) = workload {
        args.run()?;
        return Ok(ExitCode::SUCCESS);
    }
    let Output { json, svg } = workload.output();
    let picture = output::file_at(svg.as_deref())?;
    interrupt::keep();
    let bench = or_refused(|| Bench::new(&BARS))?;
    let (findings, cells, code) = match workload {
        Workload::Regimes(args) => {
            let (regimes, code) = or_refused(|| regimes(&bench, args))??;
            (regimes.findings, Some(regimes.cells), code)
        }
        other => {
            let findings = measure(&bench, other)?;
            let code = if findings.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
            (findings, None, code)
        }
    };
    // Before anything is printed: standard output may be a full disk, which ends the command.
    let drawn = picture.map_or(Ok(()), |file| file.write(findings.svg()?));
    if json {
        let mut all = findings.json();
        if let Some(cells) = cells {
            all["tables"]["cells"] = cells.json();
        }
        print_json(&all)?;
    } else {
        print!("{}", findings.terminal(Screen::stdout()));
    }
    drawn?;
    progress::warn(&findings.noise.warnings());
    Ok(interrupt::exit_code("rows hold the rounds that were finished", code))
}
