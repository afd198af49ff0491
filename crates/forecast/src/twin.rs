//! The twin: a program of the profiled one's kind, run on the simulated target machine with the locks' own code.
//!
//! The profile gives each hot lock's section, on the same core and after another one, with its spread; how the think time
//! is spread; the share of reads; and in which ratio the locks are taken. What it does not give is the order of the locks in an
//! operation: one operation is one acquisition of the lock in question, and the others come evenly between, or
//! evenly within its sections where the profile has seen them acquired there, or only they leave time for them. A section
//! grows on another core by what its lines cost, so that the difference of the two times, over the cost of a transfer where
//! the profile was taken, is the number of lines that the twin's section touches.
//!
//! With more threads than cores the locks wait as the preload library has them wait: they sleep after a bound.
//!
//! Runs are repeated with other seeds, every second one from a start with all threads at the locks: where a lock lingers
//! between working and collapsed, the range shows it. Besides, one run each has all ranges (of the profile's times and of the
//! machine's costs) at the optimistic and at the pessimistic end. All of it is decided by profile, machine and seed.

mod blueprint;
mod conditions;
mod durations;
pub(crate) mod errors;
mod program;

pub use blueprint::{Blueprint, Hot, lock_for, own_lock};

use crate::{Alternative, Conflicts};
use curve::{Curve, Point, Provenance, Unit};
use launch::support;
use locks::catalogue;
use model::{End, Verdict, predict::judge};
use profile::{LockKind, ObjectKind};
use program::{Load, Outcome, Span};
use rayon::prelude::*;
use report::{Cell, Column, Spread, Table, text};
use serde::Serialize;
use session::progress::{Progress, Work};
use simulate::patient::{Patient, with_beds};
use simulator::{Hardware, Options, Report, Simulated, Simulation};
use topology::MachineFile;
use topology::machine_file::{Coherence, Figure};

/// How the twin is run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Numbers of threads, ascending, with 1 among them. As many cores are used as there are.
    pub threads: Vec<u32>,
    /// Decides everything random.
    pub seed: u64,
    /// Runs of each point with the likely values.
    pub replications: u32,
    /// Whether the ends of the ranges are run, too.
    pub ends: bool,
    /// An alternative takes the place of every lock that it can stand in for, as `contend run --lock` does it; else of the first alone.
    pub everywhere: bool,
}

impl Plan {
    /// Powers of two, between 8 and 64 the numbers halfway, and the last number, with three replications.
    #[must_use]
    pub fn upto(last: u32) -> Self {
        let powers = (0..32).map(|power| 1 << power);
        let mut threads: Vec<u32> = powers.chain([12, 24, 48]).filter(|&n| n < last).collect();
        threads.push(last.max(1));
        threads.sort_unstable();
        Self { threads, seed: 1, replications: 3, ends: true, everywhere: false }
    }
}

/// A lock of the program under which the twin was run, in place of the lock in question.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// What tables call it.
    pub name: String,
    /// The lock of the catalogue whose code ran.
    pub lock: String,
    /// Whether this is the program's own lock.
    pub as_it_is: bool,
    /// Whether `lock` only stands in for what was asked for: is of a like family, but not that algorithm.
    pub stands_in: bool,
    /// Throughput relative to one core of the program as it is, with its range.
    pub curve: Curve,
    /// Threads of the greatest throughput.
    pub peak_cores: u32,
    /// That throughput.
    pub peak_speedup: f64,
    /// The first number of threads past the peak with less than 90 % of it.
    pub collapse_cores: Option<u32>,
    /// What becomes of throughput.
    pub verdict: Verdict,
    /// The lock that threads wait for most at the most threads, if they wait for locks for a tenth of their time.
    pub limited_by: Option<String>,
    /// Of the time of all threads at the most threads, the part in which they wait for each lock of the program.
    pub waiting: Vec<f64>,
}

/// What the twin says.
#[derive(Debug, Clone, Serialize)]
pub struct Twin {
    /// The machine.
    pub machine: String,
    /// The locks of the program, the one in question first.
    pub locks: Vec<String>,
    /// The program as it is, then with each alternative.
    pub runs: Vec<Run>,
    /// Decides everything random.
    pub seed: u64,
    /// What to know before believing it.
    pub doubts: Vec<String>,
}

/// What came of a run.
struct Done {
    /// Operations a nanosecond.
    rate: f64,
    /// Of the time of all threads, that in which they wait for each lock.
    waiting: Vec<f64>,
}

/// How the names of the C library's own locks begin in the catalogue.
const OWN: &str = "glibc-";

/// Whether a lock of the catalogue is one of the C library's own, elided or not.
fn is_own(lock: &str) -> bool {
    lock.rsplit(':').next().is_some_and(|lock| lock.starts_with(OWN))
}

/// The one-core run that everything is relative to is longer than the others.
const BASE_OPERATIONS: u64 = 30_000;

/// The simulated target with what was found out about the profile once.
#[derive(Debug)]
pub struct Stage {
    /// With all ranges at the optimistic end, the likely values and the pessimistic end.
    hardware: [Hardware; 3],
    /// What of the profiled think time is the locks' own work, ns.
    overhead_ns: f64,
    /// The locks of the program as it is.
    own: Vec<&'static str>,
    seed: u64,
    replications: u32,
    ends: bool,
}

/// One of the runs of a point.
#[derive(Debug, Clone, Copy)]
struct Draw {
    end: End,
    seed: u64,
    start_at_locks: bool,
}

impl Stage {
    /// Makes the machine ready for a blueprint. `profiled_on` is the machine that the profile was taken on.
    ///
    /// # Errors
    ///
    /// A machine that cannot be simulated, or a simulation that stopped.
    pub fn new(
        blueprint: &Blueprint,
        machine: &MachineFile,
        profiled_on: &MachineFile,
        plan: &Plan,
    ) -> anyhow::Result<Self> {
        let [optimistic, likely, pessimistic] = End::ALL.map(|end| Hardware::new(&at_end(machine, end)));
        let own: Vec<&'static str> = blueprint.locks.iter().map(|hot| own_lock(hot.kind).0).collect();
        let stage = Self {
            hardware: [optimistic?, likely?, pessimistic?],
            overhead_ns: 0.0,
            own,
            seed: plan.seed,
            replications: plan.replications.max(1),
            ends: plan.ends,
        };
        let profiled_on = Hardware::new(profiled_on)?;
        let program = blueprint.program(&stage.own, 0.0, 1, &profiled_on, End::Likely);
        let load = Load {
            cores: &[0],
            seed: plan.seed,
            start_at_locks: false,
            warm_up: Span::of_operations(100),
            timed: Span::of_operations(BASE_OPERATIONS),
        };
        let taken_ns = 1.0 / simulate(&program, &profiled_on, &load)?.rate;
        Ok(Self { overhead_ns: (taken_ns - blueprint.operation_ns()).max(0.0), ..stage })
    }

    /// Runs with the likely values, which come first of [`Stage::rates`].
    pub(crate) fn likely(&self) -> usize {
        self.replications as usize
    }

    fn draws(&self) -> Vec<Draw> {
        let draw = |end, number: u32| Draw {
            end,
            seed: self.seed + u64::from(number / 2),
            start_at_locks: number % 2 == 1,
        };
        let mut draws: Vec<_> = (0..self.replications).map(|number| draw(End::Likely, number)).collect();
        if self.ends {
            draws.extend([draw(End::Optimistic, 0), draw(End::Pessimistic, 0)]);
        }
        draws
    }

    /// The code that is run for an alternative in place of the blueprint's first lock; `shares` asks for a lock that readers
    /// share.
    pub(crate) fn lock(
        &self,
        alternative: &Alternative,
        blueprint: &Blueprint,
        shares: bool,
    ) -> &'static str {
        let kind = if shares { LockKind::Object(ObjectKind::Rwlock) } else { blueprint.locks[0].kind };
        lock_for(&alternative.name, alternative.family, kind)
    }

    fn one(
        &self,
        blueprint: &Blueprint,
        locks: &[&'static str],
        threads: u32,
        draw: Draw,
    ) -> anyhow::Result<Done> {
        let hardware = match draw.end {
            End::Optimistic => &self.hardware[0],
            End::Likely => &self.hardware[1],
            End::Pessimistic => &self.hardware[2],
        };
        let program =
            blueprint.program(locks, self.overhead_ns * blueprint.batch, threads, hardware, draw.end);
        let alone = threads == 1;
        let [warm_up, timed] = if threads as usize > hardware.cores() {
            of_shared_cores(hardware)
        } else {
            let timed = match alone && draw.end == End::Likely {
                true => BASE_OPERATIONS,
                false => operations(threads, blueprint.operation_ns()),
            };
            [u64::from(2 * threads).max(200), timed].map(Span::of_operations)
        };
        let cores: Vec<u32> = (0..threads).map(|thread| thread % hardware.cores() as u32).collect();
        let load = Load {
            cores: &cores,
            seed: draw.seed,
            start_at_locks: draw.start_at_locks && !alone,
            warm_up,
            timed,
        };
        let done = simulate(&program, hardware, &load)?;
        // A program of one such thread may use several cores, too.
        let together = if alone { 1.0 } else { blueprint.together };
        let cores = (hardware.cores() as f64 * together).max(1.0);
        let cores_give = blueprint.cpu_ns.map_or(f64::INFINITY, |cpu_ns| cores / cpu_ns);
        let asked = blueprint.asked.filter(|_| draw.end != End::Optimistic && !alone);
        let most = cores_give.min(asked.unwrap_or(f64::INFINITY));
        Ok(Done { rate: (done.rate * blueprint.batch).min(most), ..done })
    }

    /// Operations a nanosecond of the program as it was profiled on so many threads: each seed's, then at the optimistic and the pessimistic
    /// end. `first` takes the place of the first lock.
    ///
    /// # Errors
    ///
    /// A simulation that stopped.
    pub(crate) fn rates(
        &self,
        blueprint: &Blueprint,
        first: Option<&'static str>,
        threads: u32,
    ) -> anyhow::Result<Vec<f64>> {
        let mut locks = self.own.clone();
        if let Some(first) = first {
            locks[0] = first;
        }
        let draws = self.draws();
        draws.par_iter().map(|&draw| Ok(self.one(blueprint, &locks, threads, draw)?.rate)).collect()
    }
}

/// Runs the blueprint on a machine, as it is and with each alternative in place of its first lock.
///
/// # Errors
///
/// A simulation that stopped.
pub fn run(
    blueprint: &Blueprint,
    alternatives: &[Alternative],
    machine: &MachineFile,
    stage: &Stage,
    plan: &Plan,
    progress: &dyn Progress,
) -> anyhow::Result<Twin> {
    let mut doubts = blueprint.doubts.clone();
    let stands_in = own_lock(blueprint.locks[0].kind).1;
    let mut variants = vec![Variant {
        name: "as it is".to_owned(),
        locks: stage.own.clone(),
        apart: false,
        as_it_is: true,
        stands_in,
    }];
    let apart = blueprint.apart();
    for alternative in alternatives {
        if alternative.name == model::Family::Blocking.name() {
            continue; // that is the program's own
        }
        let lock = stage.lock(alternative, blueprint, false);
        let mut locks = stage.own.clone();
        let first = if plan.everywhere { 0 } else { 1 };
        for (number, hot) in blueprint.locks.iter().enumerate() {
            let stands_in =
                catalogue::find(lock).is_some_and(|lock| support(lock, object(hot.kind)).is_some());
            if number < first || plan.everywhere && stands_in {
                locks[number] = lock;
            }
        }
        let apart = alternative.elided == Some(Conflicts::None);
        variants.push(Variant { name: alternative.label(), locks, apart, as_it_is: false, stands_in: false });
    }
    if alternatives.iter().any(|alternative| alternative.elided.is_some()) {
        doubts.extend(blueprint.doubts_of_transactions());
    }
    if stands_in {
        doubts.push(format!("as it is, `{}` stands in for the C library's lock", stage.own[0]));
    }
    let mut jobs = Vec::new();
    for variant in 0..variants.len() {
        for &threads in &plan.threads {
            jobs.extend(stage.draws().into_iter().map(|draw| (variant, threads, draw)));
        }
    }
    // The longest first, so that no core is left with them at the end.
    jobs.sort_by_key(|&(_, threads, _)| std::cmp::Reverse(threads));
    let steps = progress.start(Work::Simulations, jobs.len());
    let done = jobs.par_iter().map(|&(variant, threads, draw)| {
        let Variant { locks, apart: is_apart, .. } = &variants[variant];
        let done = stage.one(if *is_apart { &apart } else { blueprint }, locks, threads, draw);
        steps.done();
        done
    });
    let done: Vec<Done> = done.collect::<anyhow::Result<_>>()?;
    drop(steps);
    let found = |variant: usize, threads: u32, end: End| {
        let of_job = move |((of, on, draw), _): &(&(usize, u32, Draw), &Done)| {
            *of == variant && *on == threads && draw.end == end
        };
        jobs.iter().zip(&done).filter(of_job).map(|(_, done)| done).collect::<Vec<_>>()
    };
    let median = |rates: Vec<f64>| Point::of_runs(1, &rates).map_or(0.0, |point| point.value);
    let base = |end: End| median(found(0, 1, end).iter().map(|done| done.rate).collect());
    let one = base(End::Likely);
    let last = *plan.threads.last().unwrap_or(&1);
    let mut runs = Vec::new();
    for (number, variant) in variants.into_iter().enumerate() {
        let curve_of = |end: Option<End>| -> anyhow::Result<Curve> {
            let points = plan.threads.iter().map(|&threads| {
                let rates =
                    |end| found(number, threads, end).iter().map(|done| done.rate).collect::<Vec<_>>();
                let of_runs = Point::of_runs(threads, &rates(end.unwrap_or(End::Likely)));
                let mut point = of_runs.unwrap_or(Point::exact(threads, 0.0));
                let relative_to = end.map_or(one, base);
                for value in [&mut point.value, &mut point.low, &mut point.high] {
                    *value /= relative_to;
                }
                if end.is_none() && plan.ends {
                    for end in [End::Optimistic, End::Pessimistic] {
                        let at_end = median(rates(end)) / base(end);
                        point.low = point.low.min(at_end);
                        point.high = point.high.max(at_end);
                    }
                }
                point
            });
            let curve = Curve::new(format!("{}, twin", variant.name), Unit::Speedup, Provenance::Simulated)
                .lock(variant.locks[0])
                .machine(&*machine.name);
            Ok(curve.with_points(points.collect::<Vec<_>>())?)
        };
        let curve = curve_of(None)?;
        let ends = if plan.ends {
            [curve_of(Some(End::Optimistic))?, curve.clone(), curve_of(Some(End::Pessimistic))?]
        } else {
            [curve.clone(), curve.clone(), curve.clone()]
        };
        let peak = curve.peak().unwrap_or(Point::exact(1, 1.0));
        let waiting =
            found(number, last, End::Likely).first().map_or_else(Vec::new, |done| done.waiting.clone());
        let most = waiting.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        /// Who waits less is not limited by locks.
        const LIMITED: f64 = 0.1;
        runs.push(Run {
            limited_by: most
                .filter(|&(_, &share)| share >= LIMITED)
                .map(|(lock, _)| blueprint.locks[lock].name.clone()),
            waiting,
            lock: variant.locks[0].to_owned(),
            as_it_is: variant.as_it_is,
            stands_in: variant.stands_in,
            name: variant.name,
            peak_cores: peak.cores,
            peak_speedup: peak.value,
            collapse_cores: curve.collapse_cores(),
            verdict: judge(&ends, "what the machine's transfers and the profile's times are"),
            curve,
        });
    }
    Ok(Twin {
        machine: machine.name.clone(),
        locks: blueprint.locks.iter().map(|hot| hot.name.clone()).collect(),
        runs,
        seed: plan.seed,
        doubts,
    })
}

impl Twin {
    /// With ranges that four of five measurements lie in, by how far the twin has been off, and verdicts that these ranges allow. The
    /// machine has so many cores.
    pub(crate) fn widened(mut self, cores: u32) -> Self {
        for run in &mut self.runs {
            let points: Vec<_> =
                run.curve.points().iter().map(|&point| errors::widened(point, cores)).collect();
            let end =
                |of: fn(&Point) -> f64| points.iter().map(move |point| Point::exact(point.cores, of(point)));
            let with = |points: Vec<Point>| run.curve.clone().with_points(points);
            let ends = [end(|point| point.high), end(|point| point.value), end(|point| point.low)];
            let [Ok(optimistic), Ok(likely), Ok(pessimistic)] = ends.map(|points| with(points.collect()))
            else {
                continue; // it has a point that is no number, and no verdict either
            };
            let widened = judge(&[optimistic, likely, pessimistic], "what this program does there");
            run.verdict = match (&run.verdict, widened) {
                (known, Verdict::CannotTell { .. }) if !matches!(known, Verdict::CannotTell { .. }) => {
                    Verdict::CannotTell { reason: errors::reason(known) }
                }
                (Verdict::CannotTell { .. }, _) => run.verdict.clone(),
                (_, widened) => widened,
            };
            run.curve = with(points).unwrap_or_else(|_| run.curve.clone());
        }
        self
    }

    /// What becomes of the program as it is and with each alternative.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("lock", "by the twin"),
            Column::text("code", "code").detail(),
            Column::number("peak_cores", "peak cores"),
            Column::number("peak_speedup", "peak"),
            Column::number("collapse_cores", "under 90 % at"),
            Column::spread("speedup_at_last", "at the last core"),
            Column::text("verdict", "verdict").kept(),
        ]);
        for run in &self.runs {
            let end = run.curve.points().last();
            table.row([
                Cell::from(run.name.as_str()),
                Cell::from(run.lock.as_str()),
                Cell::from(run.peak_cores),
                Cell::from(run.peak_speedup),
                Cell::from(run.collapse_cores),
                Cell::from(end.copied().map(Spread::from)),
                Cell::from(run.verdict.words()),
            ]);
        }
        table
    }

    /// What limits the program, what will limit it then, and what makes this doubtful; a line each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let name = |lock: &Option<String>| lock.as_deref().map(text::printable);
        if let Some(own) = self.runs.first()
            && let Some(limit) = name(&own.limited_by)
        {
            let end = |run: &Run| run.curve.points().last().map_or(0.0, |point| point.value);
            let best = self.runs.iter().skip(1).max_by(|a, b| end(a).total_cmp(&end(b)));
            let mut line = format!("At the most threads the program is limited by {limit}");
            if let Some(best) = best.filter(|best| end(best) > end(own)) {
                line += &match name(&best.limited_by) {
                    Some(next) if next == limit => {
                        format!("; with {} it still is", text::printable(&best.name))
                    }
                    Some(next) => format!("; with {} there, by {next}", text::printable(&best.name)),
                    None => format!("; with {} there, by no lock", text::printable(&best.name)),
                };
            }
            lines.push(line + ".");
        }
        lines.extend(self.doubts.iter().map(|doubt| format!("Of the twin: {}.", text::printable(doubt))));
        lines
    }
}

/// The program with one lock in place of the first.
struct Variant {
    name: String,
    locks: Vec<&'static str>,
    /// Each thread has its own part of what the first lock guards.
    apart: bool,
    as_it_is: bool,
    stands_in: bool,
}

/// The kind of pthread object; what is of no one kind is taken for a mutex.
fn object(kind: LockKind) -> ObjectKind {
    match kind {
        LockKind::Object(kind) => kind,
        _ => ObjectKind::Mutex,
    }
}

/// Timed operations of a run: enough for a mean within some percent, fewer where each costs the work of many waiters; and more
/// where they are short, so that a run sees many sleeps.
fn operations(threads: u32, operation_ns: f64) -> u64 {
    const LASTS_NS: f64 = 5_000_000.0;
    let threads = u64::from(threads);
    let enough = (600_000 / (threads + 30)).clamp(500, 6_000);
    enough.max(((LASTS_NS / operation_ns) as u64).min(60_000 / threads))
}

/// The warm-up and the timed part of a run in which threads share cores. What decides there begins when a thread loses its core
/// at the lock, which most slices end without: so a run lasts for many slices, and as many operations as it takes to see some
/// of them where operations are short.
fn of_shared_cores(hardware: &Hardware) -> [Span; 2] {
    const SLICES: [u64; 2] = [12, 60];
    const OPERATIONS: [u64; 2] = [100_000, 400_000];
    const PS_PER_NS: u64 = 1_000;
    [0, 1].map(|part| Span {
        operations: OPERATIONS[part],
        ns: SLICES[part] * (hardware.time_slice + hardware.tick) / PS_PER_NS,
    })
}

fn simulate(program: &program::Program, hardware: &Hardware, load: &Load<'_>) -> anyhow::Result<Done> {
    let options = Options { seed: load.seed, threads_move: true, ..Options::default() };
    let (threads, cores) = (load.cores.len() as u32, hardware.cores() as u32);
    let outcome = Simulation::new(hardware).options(options).run(|| {
        // The C library's own locks wait as they are written.
        let own = program.guards.iter().all(|guard| is_own(guard.lock));
        if threads <= cores || own {
            return program.run::<Simulated>(load);
        }
        with_beds(threads, hardware, || program.run::<Patient>(load))
    });
    let (outcome, report) = outcome.map_err(|stopped| {
        anyhow::anyhow!(
            "the twin with {} threads under {}: {stopped}",
            load.cores.len(),
            program.guards[0].lock
        )
    })?;
    Ok(Done { rate: outcome.rate, waiting: waiting(&outcome, &report, load.cores.len()) })
}

/// Of the time of all threads, the part in which they wait for each lock.
fn waiting(outcome: &Outcome, report: &Report, threads: usize) -> Vec<f64> {
    let all_ps = report.elapsed_ns as f64 * 1_000.0 * threads as f64;
    let of_lock = |addresses: &Vec<usize>| {
        let counts = report.locks.iter().filter(|lock| addresses.contains(&(lock.address as usize)));
        counts.map(|lock| lock.wait_ps as f64).sum::<f64>() / all_ps.max(1.0)
    };
    outcome.addresses.iter().map(of_lock).collect()
}

/// The machine with all of its ranges at one end.
fn at_end(machine: &MachineFile, end: End) -> MachineFile {
    let mut machine = machine.clone();
    let at = |figure: &mut Option<Figure>| {
        if let Some(figure) = figure {
            figure.value = match end {
                End::Optimistic => figure.low.unwrap_or(figure.value),
                End::Likely => figure.value,
                End::Pessimistic => figure.high.unwrap_or(figure.value),
            };
        }
    };
    let transfer = &mut machine.transfer;
    for tier in [
        &mut transfer.smt_sibling,
        &mut transfer.same_l3,
        &mut transfer.same_socket,
        &mut transfer.cross_socket,
    ] {
        at(tier);
    }
    let mut wake = Some(machine.handover.wake.clone());
    at(&mut wake);
    machine.handover.wake = wake.expect("it was put there");
    if let Some(Coherence {
        local_transfer,
        local_read,
        serial_read,
        invalidate,
        memory,
        die_hop,
        link_hop,
        controller_hop,
        context_switch,
        system_call,
        wake_call,
        ..
    }) = &mut machine.coherence
    {
        for figure in [
            local_transfer,
            local_read,
            serial_read,
            invalidate,
            memory,
            die_hop,
            link_hop,
            controller_hop,
            context_switch,
            system_call,
            wake_call,
        ] {
            at(figure);
        }
    }
    machine
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiled::{Group, observed};
    use model::Parameters;
    use profile::{LockRow, Times, Usage};
    use session::progress::Unwatched;
    use simulate::{Setup, SimulatedRun, sweep};
    use topology::carried;

    fn workload() -> &'static workloads::Workload {
        workloads::catalogue::find("counter").unwrap()
    }

    /// Runs of a workload whose sections and think times are known.
    fn simulated(machine: &MachineFile, lock: &'static str, cores: &[u32]) -> Vec<SimulatedRun> {
        let hardware = Hardware::new(machine).unwrap();
        let setups: Vec<_> = cores
            .iter()
            .map(|&cores| {
                let mut setup = Setup::new(&hardware, workload(), lock).on_first(cores);
                (setup.section_cycles, setup.think_cycles) = (Some(600), Some(6_000));
                setup
            })
            .collect();
        sweep(&setups, &Unwatched).unwrap()
    }

    fn times(count: u64, mean_ns: f64) -> Times {
        Times { count, total_ns: mean_ns * count as f64, ..Times::default() }
    }

    /// What a profile of one simulated core and one of two would say of the lock.
    fn profiled(runs: &[SimulatedRun]) -> (LockRow, LockRow) {
        let counts = |run: &SimulatedRun| *run.report.locks.first().unwrap();
        let ns = |ps: u64, of: u64| ps as f64 / 1_000.0 / of.max(1) as f64;
        let row = |run: &SimulatedRun, hold_same: Times, hold_other: Times| {
            let counts = counts(run);
            let threads = run.run.counts.len() as u64;
            let all_ns = run.report.elapsed_ns as f64 * threads as f64;
            let think = all_ns / counts.acquisitions as f64 - ns(counts.held_ps, counts.acquisitions);
            let exclusive = Usage {
                acquisitions: counts.acquisitions,
                contended: counts.contended,
                wait: times(counts.contended, ns(counts.wait_ps, counts.contended)),
                hold_same,
                hold_other,
                think: times(counts.acquisitions, think),
                ..Usage::default()
            };
            LockRow {
                id: profile::LockId::default(),
                name: "counter".into(),
                site: "counter".into(),
                kind: LockKind::Object(ObjectKind::Mutex),
                caller: String::new(),
                file: String::new(),
                source: None,
                calls: Vec::new().into(),
                pid: 1,
                program: String::new(),
                address: 0,
                generations: 1,
                threads,
                merged: false,
                exclusive,
                shared: Usage::default(),
                within: None,
                holders: Vec::new(),
                acquisitions_per_operation: Some(0.0),
                critical_section_ns: Some(0.0),
                threads_ns: all_ns,
                share: Some(0.0),
            }
        };
        let (one, two) = (counts(&runs[0]), counts(&runs[1]));
        let same = ns(one.held_ps, one.acquisitions);
        let share = two.from_other_core as f64 / two.acquisitions as f64;
        let other = same + (ns(two.held_ps, two.acquisitions) - same) / share;
        (
            row(&runs[0], times(one.acquisitions, same), Times::default()),
            row(
                &runs[1],
                times(two.acquisitions - two.from_other_core, same),
                times(two.from_other_core, other),
            ),
        )
    }

    fn blueprint(runs: &[SimulatedRun], machine: &MachineFile) -> Blueprint {
        let (one, two) = profiled(runs);
        let transfer = machine.costs().transfer_ns(2);
        let mut lock = observed(&two, true);
        let of_one = observed(&one, true);
        (lock.hold_same, lock.think, lock.wait_ns) = (of_one.hold_same, of_one.think, of_one.wait_ns);
        let parameters = Parameters::observed(&lock, transfer).unwrap();
        Blueprint::new(&[Group::of_one(&two)], true, Some(&one), &parameters, transfer)
    }

    #[test]
    fn the_profile_of_a_simulated_run_predicts_itself() {
        for name in ["epyc-9654x2", "dl580"] {
            let machine = carried::machine(name);
            let cores = [1, 2, 8, 24];
            let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
            for lock in [own, "mcs", "ticket"] {
                let known = simulated(&machine, lock, &cores);
                let as_it_is = simulated(&machine, own, &[1, 2]);
                let blueprint = blueprint(&as_it_is, &machine);
                let family = catalogue::find(lock).unwrap().family;
                let alternative = Alternative { name: lock.into(), elided: None, family, shared: false };
                let plan = Plan {
                    threads: cores.to_vec(),
                    seed: 1,
                    replications: 3,
                    ends: false,
                    everywhere: false,
                };
                let stage = Stage::new(&blueprint, &machine, &machine, &plan).unwrap();
                let twin = run(&blueprint, &[alternative], &machine, &stage, &plan, &Unwatched).unwrap();
                let of_lock = &twin.runs[1];
                for run in &known[1..] {
                    let expected = run.throughput() / known[0].throughput();
                    let found =
                        of_lock.curve.at(run.cores).unwrap().value / of_lock.curve.at(1).unwrap().value;
                    println!("{name} {lock} {}: {found:.3} for {expected:.3}", run.cores);
                    assert!(
                        (found / expected - 1.0).abs() < 0.05,
                        "{name}, {lock} on {} cores: {found} for {expected}",
                        run.cores
                    );
                }
            }
        }
    }

    #[test]
    fn locks_for_which_only_the_sections_leave_time_are_taken_within_them() {
        let machine = carried::machine("epyc-9654x2");
        let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
        let (one, _) = profiled(&simulated(&machine, own, &[1, 2]));
        let transfer = machine.costs().transfer_ns(2);
        let parameters = Parameters::observed(&observed(&one, true), transfer).unwrap();
        let other = |section_ns: f64| {
            let acquisitions = one.acquisitions();
            let hold_same = times(acquisitions, section_ns);
            let think = times(acquisitions, parameters.think_ns.likely);
            let exclusive = Usage { acquisitions, hold_same, think, ..Usage::default() };
            LockRow { name: "other".into(), exclusive, ..one.clone() }
        };
        // A section of 600 cycles, think time of 6,000.
        for (section_ns, locks) in [(0.5 * parameters.same_ns.likely, 2), (20_000.0, 1)] {
            let blueprint = Blueprint::new(
                &[&one, &other(section_ns)].map(Group::of_one),
                true,
                Some(&one),
                &parameters,
                transfer,
            );
            assert_eq!(blueprint.locks.len(), locks, "{section_ns} ns");
            assert!(blueprint.locks.iter().all(|hot| hot.nested.is_none()), "{section_ns} ns");
        }
        let short = Parameters { think_ns: topology::Range::exact(10.0), ..parameters.clone() };
        let inside = other(0.5 * parameters.same_ns.likely);
        let blueprint =
            Blueprint::new(&[&one, &inside].map(Group::of_one), true, Some(&one), &short, transfer);
        assert_eq!(blueprint.locks.iter().map(|hot| hot.nested.is_some()).collect::<Vec<_>>(), [false, true]);
        let [first, nested] = [0, 1].map(|lock| blueprint.locks[lock].mean_same_ns());
        assert!((first + nested - parameters.same_ns.likely).abs() < 1.0, "{first} and {nested} ns");
    }

    #[test]
    fn an_elided_lock_has_two_ends() {
        let machine = carried::machine("xeon-e5-2680v4x2");
        let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
        let mut blueprint = blueprint(&simulated(&machine, own, &[1, 2]), &machine);
        assert!(blueprint.locks[0].exclusive.growth_ns.likely > 0.0, "the sections touch lines");
        blueprint.think_ns = blueprint.locks[0].exclusive.same_ns; // the lock is all that limits the program
        let plan = Plan { threads: vec![1, 8], seed: 1, replications: 1, ends: false, everywhere: false };
        let stage = Stage::new(&blueprint, &machine, &machine, &plan).unwrap();
        let alternatives = crate::alternatives(&[crate::ELIDED.to_owned()]).unwrap();
        let twin = run(&blueprint, &alternatives, &machine, &stage, &plan, &Unwatched).unwrap();
        let names: Vec<_> = twin.runs.iter().map(|run| (run.name.as_str(), run.lock.as_str())).collect();
        let code = "elided:glibc-mutex";
        assert_eq!(
            names,
            [("as it is", own), ("elided, none conflict", code), ("elided, all conflict", code)]
        );
        let [as_it_is, none, all] = [0, 1, 2].map(|run: usize| twin.runs[run].curve.at(8).unwrap().value);
        assert!(none > 7.0, "{none} times on 8 cores without a conflict");
        assert!(all < 1.5 * as_it_is, "{all} times on 8 cores if all conflict, {as_it_is} as it is");
        assert!(twin.doubts.iter().any(|doubt| doubt.contains("two ends")), "{:?}", twin.doubts);
    }

    #[test]
    fn no_more_is_done_than_the_cores_give() {
        let machine = carried::machine("epyc-9654x2");
        let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
        let blueprint = blueprint(&simulated(&machine, own, &[1, 2]), &machine);
        let cores = f64::from(machine.topology.cores());
        let plan = Plan { threads: vec![1, 8], seed: 1, replications: 1, ends: false, everywhere: false };
        let eight = |cpu_ns| {
            let blueprint = Blueprint { cpu_ns, ..blueprint.clone() };
            let stage = Stage::new(&blueprint, &machine, &machine, &plan).unwrap();
            stage.rates(&blueprint, None, 8).unwrap()[0]
        };
        let free = eight(None);
        assert_eq!(eight(Some(0.5 * cores / free)), free);
        let held = eight(Some(2.0 * cores / free));
        assert!((held - 0.5 * free).abs() < 1e-9 * free, "{held} of {free}");
    }

    #[test]
    fn who_waits_for_events_is_not_asked_for_more_unless_all_goes_well() {
        let machine = carried::machine("epyc-9654x2");
        let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
        let busy = blueprint(&simulated(&machine, own, &[1, 2]), &machine);
        assert_eq!(busy.clone().with_events_of(Some(0.05)), busy);
        let waits = busy.clone().with_events_of(Some(0.4));
        assert!(
            waits.doubts.iter().any(|doubt| doubt.contains("for 40 % of their time")),
            "{:?}",
            waits.doubts
        );
        let plan = Plan { threads: vec![1, 8], seed: 1, replications: 1, ends: true, everywhere: false };
        let stage = Stage::new(&waits, &machine, &machine, &plan).unwrap();
        let of = |blueprint| {
            run(blueprint, &[], &machine, &stage, &plan, &Unwatched).unwrap().runs[0].curve.at(8).unwrap()
        };
        let (waits, busy) = (of(&waits), of(&busy));
        assert!(busy.value > 2.0, "{} times as much", busy.value);
        assert!((0.9..1.1).contains(&waits.value), "{} times as much", waits.value);
        assert!(waits.high > 2.0, "at most {} times as much", waits.high);
    }

    #[test]
    fn a_queue_of_more_threads_than_cores_is_seen_to_stall() {
        let machine = carried::machine("epyc-9654x2");
        let small = two_cores(&machine);
        let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
        let mut blueprint = blueprint(&simulated(&small, own, &[1, 2]), &small);
        blueprint.think_ns = blueprint.think_ns.scaled(2.0); // the lock is in use for a small part of the time
        let plan = Plan { threads: vec![1, 2, 6], seed: 1, replications: 1, ends: false, everywhere: false };
        let stage = Stage::new(&blueprint, &small, &small, &plan).unwrap();
        let queue = crate::alternatives(&["mcs".to_owned()]).unwrap();
        let twin = run(&blueprint, &queue, &small, &stage, &plan, &Unwatched).unwrap();
        let [two, six] = [2, 6].map(|threads| twin.runs[1].curve.at(threads).unwrap().value);
        assert!(six < 0.7 * two, "{six} with six threads on two cores, {two} with two");
    }

    fn two_cores(machine: &MachineFile) -> MachineFile {
        let topology = topology::machine_file::Topology {
            sockets: 1,
            dies_per_socket: 1,
            cores_per_die: 2,
            ..machine.topology.clone()
        };
        MachineFile { topology, ..machine.clone() }
    }

    #[test]
    fn threads_without_a_core_sleep_and_all_of_it_is_decided_by_the_seed() {
        let machine = carried::machine("epyc-9654x2");
        let small = two_cores(&machine);
        let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
        let blueprint = blueprint(&simulated(&small, own, &[1, 2]), &small);
        let names = ["mcs", "ticket", "ttas", "tas", "clh", "ticket-proportional", "hclh", "futex"];
        let alternatives = crate::alternatives(&names.map(str::to_owned)).unwrap();
        let plan = Plan { threads: vec![1, 2, 6], seed: 1, replications: 2, ends: false, everywhere: false };
        let twin = |seed| {
            let plan = Plan { seed, ..plan.clone() };
            let stage = Stage::new(&blueprint, &small, &small, &plan).unwrap();
            run(&blueprint, &alternatives, &small, &stage, &plan, &Unwatched).unwrap()
        };
        let one = twin(1);
        for run in &one.runs {
            let [two, six] = [2, 6].map(|threads| run.curve.at(threads).unwrap().value);
            // Where the first comes first, one that has no core holds up all behind.
            let fairness = catalogue::find(&run.lock).expect("it is in the catalogue").fairness;
            let least = if fairness.starts_with("first in, first out") { 0.01 * two } else { 0.3 * two };
            assert!(six > least, "{} does {six} with six threads on two cores, {two} with two", run.name);
            assert!(six < 2.1, "{}: {six} on two cores", run.name);
        }
        let json = |twin: &Twin| serde_json::to_string(twin).unwrap();
        assert_eq!(json(&one), json(&twin(1)));
        assert_ne!(json(&one), json(&twin(2)));
    }
}
