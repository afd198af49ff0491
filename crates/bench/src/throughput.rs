//! One lock under load.

use super::Common;
use super::contenders::{self, Contender, Measure};
use super::findings::{Drawing, Findings, Goal, Part};
use super::limited;
use super::timing::{Bench, LockRounds, failure_column, interleaved, shown_ns};
use ::report::{Cell, Column, Table};
use compare::statistics::{self, Better};
use curve::{Curve, Point, Provenance, Unit};
use hdrhistogram::Histogram;
use machine::{Home, Machine, Plan};
use serde::{Deserialize, Serialize};
use session::ensure_usage;
use session::noise::{Watch, cpu_of};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;
use workloads::client::Wrong;
use workloads::exclusion::Exclusion;
use workloads::mix::{self, Mix, Outcome, WaitObserver};

/// What is measured. Lists are multiplied: two sections and three think times are six loads.
#[derive(Debug, Clone)]
pub struct Options {
    /// Locks and rounds.
    pub common: Common,
    /// Numbers of threads.
    pub threads: Vec<u16>,
    /// What is done inside.
    pub section: Vec<Section>,
    /// Mean think time between a release and the next acquisition, exponentially distributed.
    pub think_ns: Vec<u64>,
    /// How many of a hundred sections read; a lock that readers cannot share is acquired as for a write.
    pub reads: Vec<u32>,
    /// How long each run lasts; longer where threads share cores.
    pub duration: Duration,
}

/// What is done inside the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Shared lines are read and written.
    Lines(usize),
    /// Time passes.
    Nanoseconds(u64),
}

impl fmt::Display for Section {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Lines(0) => write!(to, "empty"),
            Self::Lines(lines) => write!(to, "{lines} lines"),
            Self::Nanoseconds(ns) => write!(to, "{}", shown_ns(ns)),
        }
    }
}

/// What the threads do, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    pub(super) section: Section,
    pub(super) think_ns: u64,
    pub(super) reads_percent: u32,
    pub(super) threads: usize,
    pub(super) duration_ns: u64,
}

impl Load {
    /// The same for a machine of so many GHz.
    pub(super) fn mix(&self, ghz: f64) -> Mix {
        let cycles = |ns: u64| (ns as f64 * ghz).round() as u64;
        let (lines, section_ns) = match self.section {
            Section::Lines(lines) => (lines, 0),
            Section::Nanoseconds(ns) => (0, ns),
        };
        Mix {
            lines,
            section_cycles: cycles(section_ns),
            think_cycles: cycles(self.think_ns),
            reads_percent: self.reads_percent,
            home: Home::FirstTouch,
        }
    }
}

/// What one round says of one lock under one load.
#[derive(Debug, Serialize, Deserialize)]
struct Sample {
    per_second: f64,
    /// CPU time of the whole process over acquisitions.
    cpu_ns: f64,
    slowest_share: f64,
    jain: f64,
    /// 50th, 99th and 99.9th percentile and the worst, in cycles.
    waits: [u64; 4],
}

/// Waits of one thread, in cycles, to two digits and more.
struct Recorded(Histogram<u64>);

impl Default for Recorded {
    fn default() -> Self {
        // An hour of cycles at 5 GHz; longer waits count as that.
        Self(Histogram::new_with_bounds(1, 18_000_000_000_000, 2).expect("the bounds are valid"))
    }
}

impl WaitObserver for Recorded {
    const TIMED: bool = true;

    fn waited(&mut self, cycles: u64) {
        self.0.saturating_record(cycles);
    }
}

/// Runs the mix and reports each wait to an observer; without clocks inside where that does not want to know.
struct Observed<'a, W>(&'a Mix, &'a Plan<'a>, PhantomData<W>);

/// Decides the random times, the same for every lock.
const SEED: u64 = 1;

impl<W: WaitObserver> Measure for Observed<'_, W> {
    type Output = Result<Outcome<W>, Wrong>;

    fn measure<M: Machine, S: Exclusion>(self) -> Self::Output {
        mix::run::<M, S, W>(self.0, self.1, SEED)
    }
}

/// One run of a lock under a load; none where the lock is missing.
pub(super) fn observed<W: WaitObserver>(
    contender: &Contender,
    bench: &Bench,
    load: &Load,
) -> Option<Result<Outcome<W>, Wrong>> {
    let mix = load.mix(bench.ghz);
    let cores = bench.pinned(load.threads);
    let plan = Plan { cores: &cores, ..Plan::threads(load.threads).lasting(load.duration_ns) };
    contender.measure(contender.wait(load.threads, bench.cores()), Observed(&mix, &plan, PhantomData))
}

/// A run that counts and one that times each wait, each in at most the limit.
fn sample(
    contender: &Contender,
    bench: &Bench,
    load: &Load,
    limit: Duration,
) -> Option<Result<Sample, String>> {
    let counted = limited::measured(limit, || {
        let cpu_before = cpu_of(libc::RUSAGE_SELF);
        let counted = observed::<()>(contender, bench, load)?;
        let cpu = cpu_of(libc::RUSAGE_SELF).saturating_sub(cpu_before);
        Some(counted.map(|counted| Sample {
            per_second: counted.per_second(),
            cpu_ns: cpu.as_nanos() as f64 / counted.total().max(1) as f64,
            slowest_share: counted.slowest_share(),
            jain: counted.jain(),
            waits: [0; 4],
        }))
    })?;
    let Ok(counted) = counted else { return Some(counted) };
    let waits = limited::measured(limit, || {
        let timed = observed::<Recorded>(contender, bench, load)?;
        Some(timed.map(|timed| {
            let mut all = Recorded::default().0;
            for waits in &timed.waits {
                all.add(&waits.0).expect("the bounds are the same");
            }
            let [median, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| all.value_at_quantile(quantile));
            [median, p99, p999, all.max()]
        }))
    })?;
    Some(waits.map(|waits| Sample { waits, ..counted }))
}

/// What a thread of a shared core needs to get its turn: Linux's time slices are 3 to 4 ms.
const TURN_NS: u64 = 5_000_000;

/// How long a run lasts: as asked, but with a turn of so many nanoseconds for each thread of a shared core.
pub(super) fn duration_ns(asked: Duration, threads: usize, cores: usize, turn_ns: u64) -> u64 {
    let shared_by = threads.div_ceil(cores) as u64;
    let turns = if shared_by > 1 { shared_by * turn_ns } else { 0 };
    turns.max(asked.as_nanos() as u64)
}

/// The rows of one load.
struct Loaded {
    load: Load,
    rows: Vec<LockRounds<Sample>>,
}

/// Measures each lock under each load.
fn measure(bench: &Bench, chosen: &[Contender], loads: &[Load], runs: u32, limit: Duration) -> Vec<Loaded> {
    let progress = bench.start(loads.len() * chosen.len() * (runs as usize + 1));
    let measured = loads.iter().map(|&load| {
        let rows = interleaved(chosen, runs, &*progress, |contender| sample(contender, bench, &load, limit));
        Loaded { load, rows }
    });
    let measured = measured.collect();
    drop(progress);
    measured
}

/// Every combination of what was asked for with these numbers of threads.
pub(super) fn loads_of(
    options: &Options,
    threads: impl Iterator<Item = usize>,
) -> impl Iterator<Item = Load> {
    let threads: Vec<usize> = threads.collect();
    let mut loads = Vec::new();
    for &section in &options.section {
        for &think_ns in &options.think_ns {
            for &reads_percent in &options.reads {
                let load = |&threads: &usize| Load {
                    section,
                    think_ns,
                    reads_percent,
                    threads,
                    duration_ns: options.duration.as_nanos() as u64,
                };
                for load in threads.iter().map(load) {
                    if !loads.contains(&load) {
                        loads.push(load);
                    }
                }
            }
        }
    }
    loads.into_iter()
}

/// The same on this machine, with turns for threads that share cores.
fn loads(bench: &Bench, options: &Options) -> Vec<Load> {
    let turns = |load: Load| Load {
        duration_ns: duration_ns(options.duration, load.threads, bench.cores(), TURN_NS),
        ..load
    };
    loads_of(options, options.threads.iter().map(|&threads| threads.into())).map(turns).collect()
}

/// # Errors
///
/// A run that would be ended before it is over.
pub(super) fn ensure_in_time(options: &Options, run: impl fmt::Display, lasts_ns: u64) -> anyhow::Result<()> {
    let limit = options.common.limit;
    ensure_usage!(
        Duration::from_nanos(lasts_ns) < limit,
        "a run with {run} lasts {}, and --time-limit ends it after {limit:?}: give a longer limit",
        shown_ns(lasts_ns)
    );
    Ok(())
}

/// Measures.
///
/// # Errors
///
/// A name that no lock has, or what this machine does not have.
pub fn run(bench: &Bench, options: &Options) -> anyhow::Result<Findings> {
    let chosen = contenders::select(&options.common.lock)?;
    let loads = loads(bench, options);
    for load in &loads {
        ensure_in_time(options, format_args!("{} threads", load.threads), load.duration_ns)?;
    }
    let watch = Watch::start();
    let measured = measure(bench, &chosen, &loads, options.common.runs, options.common.limit);
    let noise = watch.stop();
    let first = loads[0];
    let title = format!(
        "One lock: section {}, think time {}, {} % reads",
        first.section,
        shown_ns(first.think_ns),
        first.reads_percent
    );
    Ok(Findings {
        workload: "throughput",
        parts: vec![part(bench, &measured, options)],
        goals: goals(bench, &measured),
        drawing: Drawing::Curves(title, curves(&measured)?),
        noise,
    })
}

fn part(bench: &Bench, measured: &[Loaded], options: &Options) -> Part {
    Part {
        key: "throughput",
        heading: "One lock under load".into(),
        table: table(bench, measured),
        notes: vec![format!(
            "{} cores, {:?} a run and at least 5 ms for each thread of a shared core, {} runs of each after a warm-up, in turn. A section also changes a counter beside the \
             lock, which must add up. `slowest` is the slowest thread's acquisitions over the mean thread's; Jain's \
             index is 1 when all threads get the same; CPU time is the whole process's.",
            bench.cores(),
            options.duration,
            options.common.runs
        )],
    }
}

fn table(bench: &Bench, measured: &[Loaded]) -> Table {
    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::text("library", "library").detail(),
        Column::number("threads", "threads"),
        Column::spread("acquisitions_per_s", "acquisitions/s"),
        Column::number("wait_p50_ns", "wait ns, 50 %"),
        Column::number("wait_p99_ns", "99 %"),
        Column::number("wait_p999_ns", "99.9 %"),
        Column::number("wait_worst_ns", "worst"),
        Column::number("slowest_share", "slowest"),
        Column::number("jain", "Jain"),
        Column::number("cpu_ns", "CPU ns"),
        Column::text("section", "section").detail(),
        Column::number("think_ns", "think ns").detail(),
        Column::number("reads_percent", "reads %").detail(),
        Column::text("waits", "waiters").detail(),
        failure_column(measured.iter().flat_map(|loaded| &loaded.rows)),
    ]);
    for Loaded { load, rows } in measured {
        for row in rows {
            let wait = row.of.wait(load.threads, bench.cores());
            let median = |figure: &dyn Fn(&Sample) -> f64| row.spread(figure).map(|spread| spread.median);
            let waited = |index: usize| median(&|sample| sample.waits[index] as f64 / bench.ghz);
            table.row([
                Cell::from(row.of.name()),
                row.of.library().into(),
                load.threads.into(),
                row.cell(|sample| sample.per_second),
                waited(0).into(),
                waited(1).into(),
                waited(2).into(),
                row.figures(|sample| sample.waits[3] as f64 / bench.ghz).into_iter().reduce(f64::max).into(),
                median(&|sample| sample.slowest_share).into(),
                median(&|sample| sample.jain).into(),
                median(&|sample| sample.cpu_ns).into(),
                load.section.to_string().into(),
                load.think_ns.into(),
                load.reads_percent.into(),
                row.of.wait_in_words(wait).into(),
                row.failure.clone().into(),
            ]);
        }
    }
    table
}

/// A curve a lock over the threads of the first of several loads.
fn curves(measured: &[Loaded]) -> anyhow::Result<Vec<Curve>> {
    let Some(first) = measured.first() else { return Ok(Vec::new()) };
    let same = |load: &Load| {
        (load.section, load.think_ns, load.reads_percent)
            == (first.load.section, first.load.think_ns, first.load.reads_percent)
    };
    let curve = |index: usize| {
        let name = first.rows[index].of.name();
        let mut points: Vec<Point> = Vec::new();
        for loaded in measured.iter().filter(|loaded| same(&loaded.load)) {
            let runs = loaded.rows[index].figures(|sample| sample.per_second);
            let known = points.iter().any(|point| point.cores as usize == loaded.load.threads);
            points.extend(Point::of_runs(loaded.load.threads as u32, &runs).filter(|_| !known));
        }
        Ok(Curve::new(name, Unit::OperationsPerSecond, Provenance::Measured)
            .lock(name)
            .workload("throughput")
            .with_points(points)?)
    };
    (0..first.rows.len()).map(curve).collect()
}

/// With more threads than cores, the lock to start with is at least as good as the best of those that people use.
fn goals(bench: &Bench, measured: &[Loaded]) -> Vec<Goal> {
    const RIVALS: [&str; 3] = ["glibc", "std", "parking_lot"];
    /// Which locks are meant: those that sleep; all readers-writers are left to their own loads.
    fn best(rows: &[LockRounds<Sample>], is: impl Fn(&Contender) -> bool) -> Option<&LockRounds<Sample>> {
        let median = |row: &LockRounds<Sample>| {
            row.spread(|sample| sample.per_second).map_or(0.0, |spread| spread.median)
        };
        rows.iter()
            .filter(|row| row.of.blocks() && is(&row.of) && !row.values.is_empty())
            .max_by(|a, b| median(a).total_cmp(&median(b)))
    }
    let oversubscribed = measured.iter().filter(|loaded| loaded.load.threads > bench.cores());
    let goal = |loaded: &Loaded| {
        let is_ours =
            |contender: &Contender| matches!(contender, Contender::Own(lock) if lock.name == "adaptive");
        let ours = best(&loaded.rows, is_ours)?;
        let theirs = best(&loaded.rows, |contender| RIVALS.contains(&contender.library()))?;
        let per_second =
            |row: &LockRounds<Sample>| row.values.iter().map(|s| Some(s.per_second)).collect::<Vec<_>>();
        Some(Goal {
            goal: if loaded.load.reads_percent == 0 {
                "writes by more threads than cores: adaptive, times the best of glibc, std, parking_lot"
            } else {
                "reads and writes by more threads than cores: likewise, times the best of glibc, std, parking_lot"
            },
            subject: format!(
                "{} against {}, {} threads, section {}, think {}, {} % reads",
                ours.of.name(),
                theirs.of.name(),
                loaded.load.threads,
                loaded.load.section,
                shown_ns(loaded.load.think_ns),
                loaded.load.reads_percent
            ),
            figure: statistics::ratios(&per_second(theirs), &per_second(ours), Better::Higher)?,
            bound: 1.0,
            at_least: true,
            noise_counts: true,
        })
    };
    oversubscribed.filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Bench;
    use ::report::every_screen;
    use machine::{Place, Topology};
    use session::progress::Unwatched;

    #[test]
    fn threads_that_share_a_core_get_their_turns() {
        assert_eq!(duration_ns(Duration::from_millis(50), 2, 2, TURN_NS), 50_000_000);
        assert_eq!(duration_ns(Duration::from_millis(1), 2, 2, TURN_NS), 1_000_000);
        assert_eq!(duration_ns(Duration::from_millis(50), 64, 2, TURN_NS), 160_000_000);
    }

    #[test]
    fn a_lock_that_does_not_exclude_is_wrong() {
        use crate::contenders::open::{Open, caught};
        let load = |reads_percent| Load {
            section: Section::Lines(4),
            think_ns: 0,
            reads_percent,
            threads: 3,
            duration_ns: 2_000_000,
        };
        let plan = Plan::threads(3).lasting(2_000_000);
        for mix in [0, 50].map(|reads| load(reads).mix(1.0)) {
            caught(|| Observed::<()>(&mix, &plan, PhantomData).measure::<machine::Native, Open>().err());
            caught(|| {
                Observed::<Recorded>(&mix, &plan, PhantomData).measure::<machine::Native, Open>().err()
            });
        }
    }

    #[test]
    fn a_load_is_measured_and_its_figures_hang_together() {
        let places = vec![Place::default()];
        let bench =
            Bench { ghz: 1.0, topology: Topology { places }, later: Duration::ZERO, progress: &Unwatched };
        let load = Load {
            section: Section::Lines(1),
            think_ns: 0,
            reads_percent: 50,
            threads: 3,
            duration_ns: 2_000_000,
        };
        for name in ["ticket", "rw", "std-mutex"] {
            let chosen = [contenders::find(name).unwrap()];
            let measured = measure(&bench, &chosen, &[load], 1, Duration::from_secs(60));
            let row = &measured[0].rows[0];
            assert_eq!(row.failure, None, "{name}");
            let sample = &row.values[0];
            assert!(sample.per_second > 0.0 && sample.slowest_share <= 1.0, "{name}: {sample:?}");
            assert!(sample.jain >= 0.33 && sample.jain <= 1.0 + 1e-9, "{name}: {sample:?}");
            assert!(sample.waits.is_sorted(), "{name}: {sample:?}");
            assert_eq!(curves(&measured).unwrap()[0].points().len(), 1);
        }
    }

    #[test]
    fn the_table_on_every_screen() {
        let place = |core| Place { core, ..Place::default() };
        let bench = Bench {
            ghz: 2.5,
            topology: Topology { places: (0..2).map(place).collect() },
            later: Duration::ZERO,
            progress: &Unwatched,
        };
        let sample = |per_second| Sample {
            per_second,
            cpu_ns: 123.4,
            slowest_share: 0.75,
            jain: 0.98,
            waits: [250, 12_500, 2_500_000, 250_000_000],
        };
        let load = Load {
            threads: 8,
            section: Section::Lines(4),
            think_ns: 1_000,
            reads_percent: 90,
            duration_ns: 50_000_000,
        };
        let row = |name: &str, failure: Option<&str>| LockRounds {
            of: contenders::find(name).unwrap(),
            values: if failure.is_some() { Vec::new() } else { vec![sample(1.0e6), sample(1.5e6)] },
            failure: failure.map(str::to_owned),
        };
        let rows =
            vec![row("ticket-proportional", None), row("posix-rwlock", None), row("mcs", Some("over 3 s"))];
        let measured = [Loaded { load, rows }];
        let names = ["ticket-proportional", "posix-rwlock", "mcs"];
        insta::assert_snapshot!(every_screen(&names, |screen| table(&bench, &measured).terminal(screen)));
    }
}
