//! `contend simulate`: a workload and locks on a simulated machine.

use crate::arguments::{self, Numbers, PlacementName, Section, Span, duration_between};
use crate::output::{self, print_json, tell};
use crate::progress::BARS;
use crate::{interrupt, machines};
use locks::BUCKETS_FOR_EACH_CORE;
use locks::catalogue::Lock;
use report::{Screen, text};
use session::seeds::{SEEDS, Seeds};
use session::{ensure_usage, names};
use simulate::{
    Experiment, SeededRuns, Setup, back_off, run_table, sweep_seeds_or, transaction_table, unstable_locks,
    workload_table,
};
use simulator::Hardware;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use topology::carried;
use workloads::{Variation, Workload};

/// Run workloads under the shipped locks on a simulated machine.
///
/// The locks are the very code that contend ships; every access to shared memory is charged by a simulated cache
/// coherence protocol. Each lock runs with several seeds on each number of cores: the throughput that is shown is the
/// median with its range, and the rest is of the run that has the median. Where one seed gives more than twice what another
/// gives, the row is marked as unstable. The same seeds give the same result on every computer. A lock that lets two
/// threads in, or that no thread gets any more, stops the run with the last events of each core.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "contend simulate [OPTIONS] WORKLOAD\n       contend simulate [OPTIONS] --list",
    after_help = "Examples:
  contend simulate mempop --machine opteron-8x6 --lock ticket,mcs --cores 1..48
  contend simulate cacheline --machine dl580 --lock ticket --cores 15,16 --memory-node 1
  contend simulate counter --lock mcs,futex --cores 8 --threads 32      # more threads than cores
  contend simulate cacheline --machine dl580 --lock qspin --cores 6 --seeds 1 --seed 3  # one run of several
  contend simulate exim --lock ticket --per-acquisition 8     # eight sections for each acquisition
  contend simulate counter --lock futex --cores 8 --threads 32 --buckets default  # sleepers in a table
  contend simulate fig10 --sweep-back-off --cores 8,24,48     # the constant of ticket-proportional
  contend simulate counter --lock ticket --cores 8 --trace collapse.json  # open in ui.perfetto.dev"
)]
pub(crate) struct Args {
    /// What the threads do; --list names them all
    #[arg(value_parser = workload, required_unless_present = "list")]
    workload: Option<&'static Workload>,
    /// List the workloads
    #[arg(long, conflicts_with_all = ["workload", "lock", "cores", "svg", "trace"])]
    list: bool,
    /// A name of `contend machines`, or a machine file
    #[arg(long, value_name = "MACHINE", default_value = "opteron-8x6")]
    machine: String,
    /// Locks by name [default: ticket,mcs]
    #[arg(long, value_name = "LOCK,…", value_delimiter = ',', value_parser = lock)]
    lock: Vec<&'static str>,
    /// Instead of locks: ticket-proportional with its constant, the cycles that a waiter backs off for each one ahead of
    /// it, from far too small to far too large
    #[arg(long, conflicts_with_all = ["lock", "svg", "trace", "host_times"])]
    sweep_back_off: bool,
    /// Cores to run on: `8`, `1,2,4`, `1..48`, or in steps `4..48:4` [default: some numbers up to all]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, simulator::MAX_CORES as u32))]
    cores: Vec<Numbers>,
    /// Threads on those cores, instead of one a core
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Random seed of the first run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = arguments::seed())]
    seed: u64,
    /// Runs of each lock on each number of cores, with this seed and those that follow it; --trace makes one
    #[arg(long, value_name = "N", default_value_t = SEEDS, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    seeds: u32,
    /// Simulated time of each run, after a warm-up [default: 3ms; where threads share cores, 60 turns of a thread on its core]
    #[arg(long, value_name = "DURATION", value_parser = duration_between("1ns", "10s"))]
    duration: Option<Duration>,
    /// Work in the critical section (`1us`, `500cycles`), instead of the workload's; the lines that it touches remain
    #[arg(long, value_name = "SECTION", value_parser = section)]
    section: Option<Span>,
    /// Mean think time between a release and the next acquisition (`10us`, `500cycles`), instead of the workload's
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    think: Option<Span>,
    /// Sections that one acquisition holds the lock for, one behind the other, instead of the workload's; for workloads that have several
    /// in an operation, such as exim
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    per_acquisition: Option<u64>,
    /// How the think time varies
    #[arg(long, value_name = "SPREAD", value_enum, default_value_t = VariationName::Exponential)]
    spread: VariationName,
    /// Which cores come first
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = PlacementName::FillFirst)]
    placement: PlacementName,
    /// Sockets to run on, such as `0,1` or `0..3` [default: all]
    #[arg(long, value_name = "SOCKET,…", value_delimiter = ',', value_parser = Numbers::between(0, 1023))]
    sockets: Vec<Numbers>,
    /// Memory node of the lock
    #[arg(long, value_name = "NODE", default_value_t = 0)]
    memory_node: u32,
    /// Give the machine the transactional memory of xeon-e5-2680v4x2, if it has none
    #[arg(long)]
    transactions: bool,
    /// Keep sleepers in the shipped wait table, with so many buckets, a power of two, or `default`, 256 for each core: its lines and
    /// the locks of its buckets are simulated, instead of sleeps and wake-ups at a fixed cost
    #[arg(long, value_name = "N", value_parser = buckets)]
    buckets: Option<Buckets>,
    /// Poll for real where a waiter would be parked: slower, with the same throughput over many seeds
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

impl Args {
    /// The seeds of each lock's runs on each number of cores. A trace is of the first one.
    fn seeds(&self) -> Seeds {
        Seeds { first: self.seed, count: if self.trace.is_some() { 1 } else { self.seeds } }
    }
}

/// Buckets of the wait table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Buckets {
    Default,
    Number(usize),
}

impl Buckets {
    fn on(self, hardware: &Hardware) -> usize {
        match self {
            Self::Default => (BUCKETS_FOR_EACH_CORE * hardware.cores()).next_power_of_two(),
            Self::Number(number) => number,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum VariationName {
    /// Not at all
    Fixed,
    /// By up to a tenth
    NearlyFixed,
    /// Exponentially
    Exponential,
}

fn workload(name: &str) -> Result<&'static Workload, String> {
    workloads::catalogue::find(name).ok_or_else(|| {
        let known = workloads::WORKLOADS.iter().map(|workload| workload.name);
        names::unknown("workload", name, known, "`contend simulate --list` lists them").to_string()
    })
}

fn lock(name: &str) -> Result<&'static str, String> {
    names::simulated_lock(name).map(|lock| lock.name)
}

/// Reads a number of buckets.
fn buckets(text: &str) -> Result<Buckets, String> {
    /// Each takes a line of the simulation's memory.
    const MOST: usize = 1 << 20;
    match text.parse() {
        Ok(number) if (1..=MOST).contains(&number) && number.is_power_of_two() => Ok(Buckets::Number(number)),
        Err(_) if text == "default" => Ok(Buckets::Default),
        _ => Err(format!("buckets are a power of two up to {MOST}, or `default`: write 1, 16 or 32768")),
    }
}

/// Reads the work of a section. What lines it touches is the workload's own.
fn section(text: &str) -> Result<Span, String> {
    match Section::parse(text) {
        Ok(Section::Lines(_)) => Err(
            "which lines are touched is up to the workload: write a time or cycles, such as 1us or 500cycles"
                .into(),
        ),
        _ => Span::parse(text),
    }
}

/// Runs `contend simulate`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(workload) = args.workload.filter(|_| !args.list) else {
        if args.json {
            print_json(&workload_table().json())?;
        } else {
            print!("{}", workload_table().terminal(Screen::stdout()));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let mut machine = machines::load(&args.machine)?;
    if args.transactions {
        machine.transactions.get_or_insert_with(carried::transactions);
    }
    let hardware = Hardware::new(&machine)?;
    let is_elided = |name: &str| names::simulated_lock(name).is_ok_and(Lock::is_elided);
    if hardware.transactions.is_none() && args.lock.iter().any(|name| is_elided(name)) {
        tell(&format!(
            "{} has no transactions, so that an elided lock is the lock itself there; --transactions lends it some",
            hardware.name
        ));
    }
    let ghz = hardware.mhz as f64 / 1e3;
    let template = Setup {
        memory_node: args.memory_node,
        section_cycles: args.section.map(|section| section.cycles(ghz)),
        think_cycles: args.think.map(|think| think.cycles(ghz)),
        batch: args.per_acquisition,
        spread: args.spread.into(),
        really_poll: args.really_poll,
        futex_buckets: args.buckets.map(|buckets| buckets.on(&hardware)),
        ..Setup::new(&hardware, workload, args.lock.first().copied().unwrap_or(back_off::LOCK))
    };
    ensure_usage!(
        workload.uses_lock() || args.lock.is_empty() && !args.sweep_back_off,
        "{} takes no lock: leave --lock and --sweep-back-off",
        workload.name
    );
    let mut locks: Vec<&str> = Vec::new();
    let asked = if args.lock.is_empty() { &["ticket", "mcs"][..] } else { &args.lock[..] };
    for &name in asked {
        if !locks.contains(&name) {
            locks.push(name);
        }
    }
    let experiment = Experiment {
        template,
        duration_ns: args.duration.map(|duration| duration.as_nanos() as u64),
        locks: &locks,
        sweeps_back_off: args.sweep_back_off,
        cores: Numbers::all(&args.cores),
        threads: args.threads,
        sockets: Numbers::all(&args.sockets),
        placement: args.placement.into(),
        traced: args.trace.is_some(),
    };
    let setups = experiment.setups()?;
    // Whether they can be written is told before the work.
    for path in [&args.svg, &args.trace].into_iter().flatten() {
        output::file(path)?;
    }
    interrupt::keep();
    if args.sweep_back_off {
        return sweep_back_off(args, &experiment, &setups);
    }
    let seeds = args.seeds();
    let measured = sweep_seeds_or(&setups, seeds, &BARS, |finished| {
        let finished: Vec<_> = finished.into_iter().flatten().collect();
        if let Err(error) = show(args, &experiment, &finished) {
            tell(&text::printable(&format!("{error:#}")));
        }
        exit_interrupted(&finished, setups.len() * seeds.count as usize)
    })?;
    if let (Some(path), [only]) = (&args.trace, &measured[..]) {
        output::file(path)?.write(only.median().trace.to_string())?;
    }
    show(args, &experiment, &measured)?;
    Ok(ExitCode::SUCCESS)
}

/// Ends the command after an interrupt, with how many runs of `all` were finished.
fn exit_interrupted<'a>(finished: impl IntoIterator<Item = &'a SeededRuns>, all: usize) -> ! {
    let runs: usize = finished.into_iter().map(SeededRuns::count).sum();
    interrupt::exit(&format!("{runs} of {all} runs were finished"))
}

/// Prints runs, and draws their curves.
fn show(args: &Args, experiment: &Experiment<'_>, measured: &[SeededRuns]) -> anyhow::Result<()> {
    let Setup { workload, hardware, .. } = experiment.template;
    let curves = experiment.curves(measured)?;
    if let Some(path) = &args.svg {
        output::file(path)?.write(experiment.plot(measured)?.svg())?;
    }
    if args.json {
        let out = serde_json::json!({
            "workload": workload.name,
            "source": workload.source,
            "machine": hardware.name,
            "seed": args.seed,
            "seeds": args.seeds().count,
            "curves": curves,
            "runs": measured.iter().map(|runs| runs.json(args.host_times)).collect::<Vec<_>>(),
            "cut_short": interrupt::came(),
        });
        print_json(&with_buckets(out, experiment))?;
    } else {
        let (screen, seeds) = (Screen::stdout(), args.seeds());
        println!("{}", screen.fit(&heading(experiment, seeds)));
        print!("{}", run_table(measured).terminal(screen));
        if let Some(unstable) = unstable_locks(measured, seeds) {
            print!("\n{}", screen.fit(&format!("{unstable}\n")));
        }
        if measured.iter().any(|runs| runs.median().operations() == 0.0) {
            let hint = "Where no operation is counted, none ended within --duration: simulate a longer time.";
            print!("\n{}", screen.fit(&format!("{hint}\n")));
        }
        if let Some(table) = transaction_table(measured) {
            print!("\n{}", table.terminal(screen));
        }
        if curves.iter().any(|curve| curve.points().len() > 1) {
            print!("\n{}", experiment.plot(measured)?.terminal(screen, 20));
        }
    }
    Ok(())
}

/// What stands above a table: what ran where, with which seeds, and where sleepers were kept.
fn heading(experiment: &Experiment<'_>, seeds: Seeds) -> String {
    let sleepers = experiment.template.futex_buckets.map_or(String::new(), |buckets| {
        format!(", sleepers in {buckets} bucket{}", if buckets == 1 { "" } else { "s" })
    });
    format!("{}, {seeds}{sleepers}: {}\n", experiment.title(), experiment.template.workload.summary)
}

/// The JSON of runs with the buckets of the wait table, where one was simulated.
fn with_buckets(mut out: serde_json::Value, experiment: &Experiment<'_>) -> serde_json::Value {
    if let Some(buckets) = experiment.template.futex_buckets {
        out["buckets"] = buckets.into();
    }
    out
}

/// Sweeps the constant of ticket-proportional instead.
fn sweep_back_off(
    args: &Args,
    experiment: &Experiment<'_>,
    setups: &[Setup<'_>],
) -> anyhow::Result<ExitCode> {
    let swept = back_off::measure_or(setups, args.seeds(), &BARS, |finished| {
        if let Err(error) = show_back_off(args, experiment, &finished) {
            tell(&text::printable(&format!("{error:#}")));
        }
        let all = finished.len() * setups.len() * args.seeds as usize;
        exit_interrupted(finished.iter().flat_map(|(_, of_cores)| of_cores), all)
    })?;
    show_back_off(args, experiment, &swept)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what came of the constants. The best of them is not said of runs that are not all there.
fn show_back_off(
    args: &Args,
    experiment: &Experiment<'_>,
    swept: &[(u64, Vec<SeededRuns>)],
) -> anyhow::Result<()> {
    let verdict = (!interrupt::came()).then(|| back_off::verdict(swept));
    if args.json {
        let out = serde_json::json!({
            "workload": experiment.template.workload.name,
            "source": experiment.template.workload.source,
            "machine": experiment.template.hardware.name,
            "seed": args.seed,
            "seeds": args.seeds,
            "back_off": back_off::json(swept),
            "verdict": verdict,
            "cut_short": interrupt::came(),
        });
        print_json(&with_buckets(out, experiment))?;
    } else {
        let screen = Screen::stdout();
        println!("{}", screen.fit(&heading(experiment, args.seeds())));
        print!("{}", back_off::table(swept).terminal(screen));
        if let Some(unstable) = back_off::unstable_constants(swept, args.seeds()) {
            print!("\n{}", screen.fit(&format!("{unstable}\n")));
        }
        if let Some(verdict) = verdict {
            print!("\n{}", screen.fit(&format!("{verdict}\n")));
        }
    }
    Ok(())
}

impl From<VariationName> for Variation {
    fn from(name: VariationName) -> Self {
        match name {
            VariationName::Fixed => Self::Fixed,
            VariationName::NearlyFixed => Self::NearlyFixed,
            VariationName::Exponential => Self::Exponential,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_work_and_not_lines() {
        assert_eq!(section("500cycles"), Ok(Span::Cycles(500)));
        assert!(section("4-lines").unwrap_err().contains("500cycles"));
    }
}
