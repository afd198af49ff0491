//! `contend simulate`: a workload and locks on a simulated machine.

use crate::arguments::{Numbers, Section, Span, duration_between};
use crate::progress::BARS;
use crate::{interrupt, machines};
use anyhow::Context as _;
use curve::Curve;
use lab::placement::Placement;
use lab::simulate::{Measured, Setup, back_off, sweep_or};
use lab::usage::UsageError;
use lab::{ensure_usage, names};
use machine::Topology;
use report::{Cell, Column, Plot, Screen, Table};
use simulator::Hardware;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use workloads::{Spread, Workload};

/// Run a workload and the shipped locks on a simulated machine of up to 1,024 cores.
///
/// The locks are the very code that contend ships; every access to shared memory is charged by a simulated cache
/// coherence protocol. The same seed gives the same result on every computer. A lock that lets two threads in, or that
/// nobody gets any more, stops the run with the last events of each core.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend simulate mempop --machine opteron-8x6 --lock ticket,mcs --cores 1..48
  contend simulate cacheline --machine dl580 --lock ticket --cores 15,16 --memory-node 1
  contend simulate counter --lock mcs,futex --cores 8 --threads 32      # more threads than cores
  contend simulate fig10 --sweep-back-off --cores 8,24,48     # the constant of ticket-proportional
  contend simulate counter --lock ticket --cores 8 --trace collapse.json  # open in ui.perfetto.dev")]
pub(crate) struct Args {
    /// What the threads do; --list names them all
    #[arg(value_parser = workload, required_unless_present = "list")]
    workload: Option<&'static Workload>,
    /// List the workloads
    #[arg(long)]
    list: bool,
    /// A name of `contend machines`, or a machine file
    #[arg(long, value_name = "MACHINE", default_value = "opteron-8x6")]
    machine: String,
    /// Locks by name
    #[arg(long, value_name = "LOCK,…", value_delimiter = ',', default_value = "ticket,mcs", value_parser = lock)]
    lock: Vec<&'static str>,
    /// Instead of locks: ticket-proportional with its constant, the cycles that a waiter backs off for each one ahead of
    /// it, from far too small to far too large
    #[arg(long, conflicts_with_all = ["lock", "svg", "trace"])]
    sweep_back_off: bool,
    /// Cores to run on: `8`, `1,2,4`, `1..48`, or in steps `4..48:4` [default: some numbers up to all]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, simulator::MAX_CORES as u32))]
    cores: Vec<Numbers>,
    /// Threads on those cores, instead of one a core
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Decides everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Simulated time of each run
    #[arg(long, value_name = "DURATION", default_value = "3ms", value_parser = duration_between("1ns", "10s"))]
    duration: Duration,
    /// Work in the critical section (`1us`, `500cycles`), instead of the workload's; the lines that it touches remain
    #[arg(long, value_name = "SECTION", value_parser = section)]
    section: Option<Span>,
    /// Mean think time between a release and the next acquisition (`10us`, `500cycles`), instead of the workload's
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    think: Option<Span>,
    /// How the think time varies
    #[arg(long, value_name = "SPREAD", value_enum, default_value_t = SpreadName::Exponential)]
    spread: SpreadName,
    /// Which cores come first
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = PlacementName::FillFirst)]
    placement: PlacementName,
    /// Sockets to run on, such as `0,1` or `0..3` [default: all]
    #[arg(long, value_name = "SOCKET,…", value_delimiter = ',', value_parser = Numbers::between(0, 1023))]
    sockets: Vec<Numbers>,
    /// Memory node of the lock
    #[arg(long, value_name = "NODE", default_value_t = 0)]
    memory_node: u32,
    /// Poll for real where a waiter would be parked: slower, with the same outcome
    #[arg(long)]
    really_poll: bool,
    /// Print curves and counters as JSON: the same bytes for the same arguments
    #[arg(long)]
    json: bool,
    /// With --json: add how fast this computer simulated each run, which differs from time to time
    #[arg(long, requires = "json")]
    host_times: bool,
    /// Draw the curves into this file as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a trace of the first run's start, which Perfetto and Chrome read; give one lock and one number of cores
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SpreadName {
    /// Not at all
    Fixed,
    /// By up to a tenth
    NearlyFixed,
    /// Exponentially
    Exponential,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PlacementName {
    /// One socket filled after the other
    FillFirst,
    /// The sockets in turn
    RoundRobin,
}

impl From<PlacementName> for Placement {
    fn from(name: PlacementName) -> Self {
        match name {
            PlacementName::FillFirst => Self::FillFirst,
            PlacementName::RoundRobin => Self::RoundRobin,
        }
    }
}

fn workload(name: &str) -> Result<&'static Workload, String> {
    workloads::catalogue::find(name).ok_or_else(|| {
        let known = workloads::WORKLOADS.iter().map(|workload| workload.name);
        names::unknown("workload", name, known, "`contend simulate --list` lists them").to_string()
    })
}

fn lock(name: &str) -> Result<&'static str, String> {
    names::lock(name).map(|lock| lock.name)
}

/// Reads the work of a section. What lines it touches is the workload's own.
fn section(text: &str) -> Result<Span, String> {
    match Section::parse(text)? {
        Section::Span(span) => Ok(span),
        Section::Lines(_) => Err(
            "which lines are touched is up to the workload: write a time or cycles, such as 1us or 500cycles"
                .into(),
        ),
    }
}

/// Runs `contend simulate`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(workload) = args.workload.filter(|_| !args.list) else {
        if args.json {
            println!("{}", serde_json::to_string_pretty(&workload_table().json())?);
        } else {
            print!("{}", workload_table().terminal(Screen::stdout()));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let hardware = Hardware::new(&machines::load(&args.machine)?)?;
    let sockets: Vec<u32> = match &args.sockets[..] {
        [] => (0..hardware.hops.len() as u32).collect(),
        named => Numbers::all(named),
    };
    if let Some(wrong) = sockets.iter().find(|&&socket| socket as usize >= hardware.hops.len()) {
        return Err(UsageError::new(format!(
            "{} has no socket {wrong}: it has {} from 0",
            hardware.name,
            hardware.hops.len()
        ))
        .into());
    }
    let here = hardware.cores() / hardware.hops.len() * sockets.len();
    let cores = match &args.cores[..] {
        [] => spaced(here as u32),
        named => Numbers::all(named),
    };
    if let Some(wrong) = cores.iter().find(|&&cores| cores == 0 || cores as usize > here) {
        return Err(UsageError::new(format!(
            "{wrong} cores: {} has 1 to {here} on the named sockets",
            hardware.name
        ))
        .into());
    }
    if let Some(threads) = args.threads {
        let most = simulator::MAX_THREADS;
        ensure_usage!((1..=most).contains(&threads), "{threads} threads: a simulation runs 1 to {most}");
    }
    ensure_usage!(
        (args.memory_node as usize) < hardware.nodes,
        "{} has no memory node {}: it has {} from 0",
        hardware.name,
        args.memory_node,
        hardware.nodes
    );

    let ghz = hardware.mhz as f64 / 1e3;
    let topology = Topology { places: hardware.places.clone() };
    let mut setups = Vec::new();
    let locks = if args.sweep_back_off { &[back_off::LOCK][..] } else { &args.lock };
    for &lock in locks {
        for &cores in &cores {
            let threads = args.threads.unwrap_or(cores as usize);
            let places = Placement::from(args.placement).cores(&topology, &sockets, cores as usize);
            setups.push(Setup {
                places: places.iter().copied().cycle().take(threads).collect(),
                duration_ns: args.duration.as_nanos() as u64,
                seed: args.seed,
                memory_node: args.memory_node,
                section_cycles: args.section.map(|section| section.cycles(ghz)),
                outside_cycles: args.think.map(|think| think.cycles(ghz)),
                spread: args.spread.into(),
                really_poll: args.really_poll,
                trace_records: if args.trace.is_some() { TRACE_RECORDS } else { 0 },
                cores,
                ..Setup::new(&hardware, workload, lock)
            });
        }
    }
    ensure_usage!(
        args.trace.is_none() || setups.len() == 1,
        "--trace is of one run: give one lock and one number of cores"
    );
    interrupt::keep();
    if args.sweep_back_off {
        return sweep_back_off(args, &setups);
    }
    let title = format!("{} on {}", workload.name, hardware.name);
    let measured = sweep_or(&setups, &BARS, |finished| {
        let finished: Vec<_> = finished.into_iter().flatten().collect();
        if let Err(error) = show(args, workload, &hardware, &title, &finished) {
            eprintln!("contend: {error:#}");
        }
        interrupt::exit(&format!("{} of {} runs were finished", finished.len(), setups.len()))
    })?;
    if let (Some(path), [only]) = (&args.trace, &measured[..]) {
        std::fs::write(path, only.trace.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    show(args, workload, &hardware, &title, &measured)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints runs, and draws their curves.
fn show(
    args: &Args,
    workload: &Workload,
    hardware: &Hardware,
    title: &str,
    measured: &[Measured],
) -> anyhow::Result<()> {
    let run = |lock: &&&str| measured.iter().any(|one| one.lock == **lock);
    let locks = args.lock.iter().filter(run);
    let curves = locks.map(|lock| curve_of(measured, lock)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(path) = &args.svg {
        std::fs::write(path, Plot::new(title, &curves)?.log_cores(false).svg())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        let out = serde_json::json!({
            "workload": workload.name,
            "source": workload.source,
            "machine": hardware.name,
            "seed": args.seed,
            "curves": curves,
            "runs": measured.iter().map(|one| one.json(args.host_times)).collect::<Vec<_>>(),
            "cut_short": interrupt::came(),
        });
        println!("{}", serde_json::to_string_pretty(&out)?);
    } else {
        let screen = Screen::stdout();
        println!("{}", screen.fit(&format!("{title}, seed {}: {}\n", args.seed, workload.summary)));
        print!("{}", run_table(measured).terminal(screen));
        if curves.iter().any(|curve| curve.points().len() > 1) {
            let plot = Plot::new(title, &curves)?.log_cores(false);
            print!("\n{}", plot.terminal(screen, 20));
        }
    }
    Ok(())
}

/// Sweeps the constant of ticket-proportional instead.
fn sweep_back_off(args: &Args, setups: &[Setup<'_>]) -> anyhow::Result<ExitCode> {
    let swept = back_off::measure_or(setups, &BARS, |finished| {
        if let Err(error) = show_back_off(args, setups, &finished) {
            eprintln!("contend: {error:#}");
        }
        let runs = finished.iter().map(|(_, runs)| runs.len()).sum::<usize>();
        interrupt::exit(&format!("{runs} of {} runs were finished", setups.len() * finished.len()))
    })?;
    show_back_off(args, setups, &swept)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what came of the constants. The best of them is not said of runs that are not all there.
fn show_back_off(args: &Args, setups: &[Setup<'_>], swept: &[(u64, Vec<Measured>)]) -> anyhow::Result<()> {
    let table = back_off::table(swept);
    let verdict = (!interrupt::came()).then(|| back_off::verdict(swept));
    if args.json {
        let out = serde_json::json!({
            "workload": setups[0].workload.name,
            "machine": setups[0].hardware.name,
            "seed": args.seed,
            "back_off": table.json(),
            "verdict": verdict,
            "cut_short": interrupt::came(),
        });
        println!("{}", serde_json::to_string_pretty(&out)?);
    } else {
        let screen = Screen::stdout();
        print!("{}", table.terminal(screen));
        if let Some(verdict) = verdict {
            print!("\n{}", screen.fit(&format!("{verdict}\n")));
        }
    }
    Ok(())
}

/// Enough for some hundred hand-overs.
const TRACE_RECORDS: usize = 20_000;

/// Some numbers of cores up to all: each of the first few, then ever fewer.
fn spaced(all: u32) -> Vec<u32> {
    let mut cores = vec![1];
    while let Some(&last) = cores.last()
        && last < all
    {
        cores.push((last + 1).max(last + last / 6).min(all));
    }
    cores
}

fn curve_of(measured: &[Measured], lock: &str) -> anyhow::Result<Curve> {
    let of_lock = measured.iter().filter(|measured| measured.lock == lock);
    lab::simulate::curve(of_lock)
}

fn run_table(measured: &[Measured]) -> Table {
    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::number("cores", "cores"),
        Column::number("threads", "threads").detail(),
        Column::number("operations_per_second", "operations/s").kept(),
        Column::number("ns_per_operation", "ns/operation"),
        Column::number("misses_per_operation", "misses/operation"),
        Column::number("home_waits_per_operation", "waits at a home/operation"),
        Column::percent("fairness", "slowest/fastest %").detail(),
    ]);
    for one in measured {
        let operations = one.run.operations() as f64;
        let lines = &one.report.all_lines;
        table.row([
            Cell::from(one.lock),
            Cell::from(one.cores),
            Cell::from(one.run.counts.len()),
            Cell::from(one.throughput()),
            Cell::from(one.run.elapsed_ns as f64 / operations.max(1.0)),
            Cell::from(lines.all_misses() as f64 / operations.max(1.0)),
            Cell::from(lines.home_waits as f64 / operations.max(1.0)),
            Cell::from(one.fairness()),
        ]);
    }
    table
}

fn workload_table() -> Table {
    let mut table = Table::new([
        Column::text("name", "workload"),
        Column::text("summary", "what it does").kept(),
        Column::text("source", "source").detail(),
    ]);
    for workload in workloads::WORKLOADS {
        table.row([workload.name, workload.summary, workload.source].map(Cell::from));
    }
    table
}

impl From<SpreadName> for Spread {
    fn from(name: SpreadName) -> Self {
        match name {
            SpreadName::Fixed => Self::Fixed,
            SpreadName::NearlyFixed => Self::NearlyFixed,
            SpreadName::Exponential => Self::Exponential,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Counts, Run};
    use report::every_screen;

    #[test]
    fn a_section_is_work_and_not_lines() {
        assert_eq!(section("500cycles"), Ok(Span::Cycles(500)));
        assert!(section("4-lines").unwrap_err().contains("500cycles"));
    }

    #[test]
    fn spaced_cores_end_with_all() {
        assert_eq!(spaced(1), [1]);
        assert_eq!(spaced(8), [1, 2, 3, 4, 5, 6, 7, 8]);
        let many = spaced(1024);
        assert!(many.last() == Some(&1024) && many.len() < 50);
    }

    #[test]
    fn runs_on_every_screen() {
        let hardware = Hardware::new(&machines::load("opteron-8x6").unwrap()).unwrap();
        let workload = workloads::catalogue::find("counter").unwrap();
        let setup = |lock| Setup { duration_ns: 1_000, ..Setup::new(&hardware, workload, lock) };
        let setups = [setup("ticket-proportional"), setup("mcs")];
        let mut measured = lab::simulate::sweep(&setups, &lab::progress::Unwatched).unwrap();
        // What the simulator counts is its own matter: the figures are fixed.
        for (one, operations) in measured.iter_mut().zip([2_000, 1_500]) {
            let counts = |operations| Counts { operations, ..Counts::default() };
            one.run = Run { counts: vec![counts(operations), counts(operations / 2)], elapsed_ns: 1_000_000 };
            one.report.all_lines =
                simulator::LineCounts { home_waits: 700, ..simulator::LineCounts::default() };
        }
        let text = |screen: Screen| run_table(&measured).terminal(screen);
        insta::assert_snapshot!(every_screen(&["ticket-proportional", "mcs"], text));
    }
}
