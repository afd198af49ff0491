//! Predictions against measurements: a program is profiled on one thread, predicted on more under several locks, and measured.
//!
//! Nothing here knows any program. What is compared is throughput relative to one thread with the program's own lock.

mod kept;
mod list;
mod page;
mod verdict;

pub use kept::{Evidence, check_folders};
pub use list::{Program, Throughput, read_list};
pub use page::page;
pub use verdict::{Goals, Judgement, goals};

use crate::profiled::Group;
use crate::twin::{self, Blueprint, Plan, Stage, errors};
use crate::{Alternative, profiled};
use anyhow::Context as _;
use compare::calibrate::{Cores, Placement};
use compare::rounds::{LockRuns, measure};
use compare::{swaps, trial};
use curve::{Curve, Point, Provenance, Unit};
use kept::{Measured, profile_file};
use launch::{GLIBC, Launch, Library, Swapped};
use model::{End, Parameters, Variant, predict};
use profile::tally::SharedTally;
use profile::{LockTable, Profile};
use serde::Serialize;
use session::noise::{Noise, Watch};
use session::progress::{Progress, Work};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use topology::MachineFile;

/// How programs are validated.
#[derive(Debug)]
pub struct Setting {
    /// What takes the place of the programs' locks.
    pub library: Library,
    /// The command itself, which records profiles.
    pub contend: std::path::PathBuf,
    /// This machine; not looked at where nothing is run.
    pub machine: MachineFile,
    /// Numbers of threads, ascending, the first of them 1.
    pub threads: Vec<u32>,
    /// Locks of the catalogue to put in place of the programs' own.
    pub locks: Vec<String>,
    /// Runs of each lock at each number of threads, after one to warm up.
    pub runs: u32,
    /// Profile on two threads as well as on one.
    pub two: bool,
    /// When one run is ended.
    pub time_limit: Duration,
    /// Decides everything random in the twin.
    pub seed: u64,
    /// Where what is measured comes from, and whether it stays.
    pub evidence: Evidence,
}

/// A lock at a number of threads.
#[derive(Debug, Clone, Serialize)]
pub struct Validation {
    /// The lock, or `glibc`.
    pub lock: String,
    /// Threads.
    pub threads: u32,
    /// By the twin.
    pub predicted: Option<Point>,
    /// By the chain, which knows no more threads than cores.
    pub chain: Option<f64>,
    /// Measured: median and range.
    pub measured: Option<Point>,
}

impl Validation {
    /// Predicted over measured, less one.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let (predicted, measured) = (self.predicted?, self.measured?);
        (measured.value > 0.0).then(|| predicted.value / measured.value - 1.0)
    }
}

/// What came of a program.
#[derive(Debug, Clone, Serialize)]
pub struct Validated {
    /// The program's name in the list.
    pub program: String,
    /// Its command line.
    pub command: String,
    /// Why there are no rows.
    pub failed: Option<String>,
    /// The lock that the twin took for the hot one.
    pub site: String,
    /// Every lock at every number of threads.
    pub rows: Vec<Validation>,
    /// What the twin doubts.
    pub doubts: Vec<String>,
    /// What disturbed the measurement.
    pub noise: Vec<String>,
    /// One way of a line between two cores during the measurement, ns.
    pub transfer_ns: Option<f64>,
    /// How fast a core computed while another did, relative to alone.
    pub together: Option<f64>,
    /// The machine it was measured on, in a line.
    pub machine: String,
    /// Its cores.
    pub cores: u32,
    /// Runs of each lock at each number of threads.
    pub runs: u32,
    /// Verdict and order, predicted against measured.
    pub judgement: Judgement,
}

impl Validated {
    fn failed(program: &Program, why: String) -> Self {
        Self {
            program: program.name.clone(),
            command: program.command.join(" "),
            failed: Some(why),
            site: String::new(),
            rows: Vec::new(),
            doubts: Vec::new(),
            noise: Vec::new(),
            transfer_ns: None,
            together: None,
            machine: String::new(),
            cores: 0,
            runs: 0,
            judgement: Judgement::default(),
        }
    }
}

/// Profiles, measures and predicts a program. What a program does wrong is in the answer.
///
/// # Errors
///
/// Something that is not the program's fault.
pub fn validate(program: &Program, setting: &Setting, progress: &dyn Progress) -> anyhow::Result<Validated> {
    let (folder, _temporary) = setting.folder(program)?;
    let measured = match &setting.evidence {
        Evidence::From(_) => Measured::read(&folder, program),
        Evidence::Measured | Evidence::KeptIn(_) => {
            kept::forget(&folder)?;
            let measured = profile_and_measure(program, setting, &folder, progress)?;
            if let (Evidence::KeptIn(_), Ok(measured), false) =
                (&setting.evidence, &measured, session::interrupt::came())
            {
                measured.write(&folder)?;
            }
            measured
        }
    };
    match measured {
        Ok(measured) => held_against(program, setting, &folder, &measured, progress),
        Err(why) => Ok(Validated::failed(program, why)),
    }
}

/// Leaves profiles in the folder. Gives what was measured; why there is nothing, where the program failed.
fn profile_and_measure(
    program: &Program,
    setting: &Setting,
    folder: &Path,
    progress: &dyn Progress,
) -> anyhow::Result<Result<Measured, String>> {
    if let Some(why) = program.set_up(setting.time_limit)? {
        return Ok(Err(why));
    }
    let measured = match record(program, setting, folder, 1)? {
        Some(why) => Err(why),
        None => {
            if setting.two {
                record(program, setting, folder, 2)?;
            }
            measured(program, setting, cores_used(program, setting)?, progress)?
        }
    };
    program.clear_up(setting.time_limit)?;
    Ok(measured)
}

/// What the profiles predict, beside what was measured.
fn held_against(
    program: &Program,
    setting: &Setting,
    folder: &Path,
    measured: &Measured,
    progress: &dyn Progress,
) -> anyhow::Result<Validated> {
    let tables = || {
        let one = table(folder, 1)?;
        let two = if setting.two { table(folder, 2).ok() } else { None };
        // The machine as it was meanwhile: nothing of the program's own is known of the measurement.
        predict(program, setting, &one, two.as_ref(), measured, progress)
    };
    let predicted = match tables() {
        Ok(predicted) => predicted,
        Err(error) => return Ok(Validated::failed(program, format!("{error:#}"))),
    };
    let mut rows = predicted.rows;
    rows.retain(|row| !measured.untouched.contains(&row.lock));
    for row in &mut rows {
        row.measured = measured.at(&row.lock, row.threads);
    }
    let judgement = Judgement::of(&rows);
    let placement = &measured.placement;
    Ok(Validated {
        program: program.name.clone(),
        command: program.command.join(" "),
        failed: None,
        site: predicted.site,
        rows,
        doubts: predicted.doubts,
        noise: measured.noise.disturbances().into_iter().chain(placement.moved()).collect(),
        transfer_ns: placement.transfer_ns().map(|spread| spread.median),
        together: placement.together().map(|spread| spread.median),
        machine: measured.machine.description.clone(),
        cores: measured.machine.topology.cores(),
        runs: measured.runs,
        judgement,
    })
}

/// Profiles a run on so many threads. Gives why there is no profile, where the program failed.
fn record(
    program: &Program,
    setting: &Setting,
    folder: &Path,
    threads: u32,
) -> anyhow::Result<Option<String>> {
    let file = profile_file(folder, threads);
    let mut command = Command::new(&setting.contend);
    command.args(["profile", "--quiet", "--output"]).arg(&file).arg("--").args(program.words(threads));
    let trial = trial::run(command, setting.time_limit)?;
    if trial.end != compare::rounds::End::Exited(0) {
        let last = trial.output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        return Ok(Some(format!("it failed while it was profiled ({:?}): {}", trial.end, last.trim())));
    }
    Ok((!file.exists()).then(|| "it left no profile".to_owned()))
}

/// The lock table of the profile on so many threads.
fn table(folder: &Path, threads: u32) -> anyhow::Result<LockTable> {
    let profile = Profile::open(profile_file(folder, threads)).context("no profile of it can be read")?;
    Ok(profile.table(&profile::Options::default()))
}

/// How many cores the whole command uses on one thread, unprofiled: clients of a server on the same machine are part of it, which a
/// profile of the server does not see.
fn cores_used(program: &Program, setting: &Setting) -> anyhow::Result<Option<f64>> {
    let words = words(program, 1);
    let Ok(trial) = trial::run(launch(&words, setting)?.command()?, setting.time_limit) else {
        return Ok(None);
    };
    let done = trial.end == compare::rounds::End::Exited(0) && !trial.elapsed.is_zero();
    Ok(done.then(|| trial.cpu.as_secs_f64() / trial.elapsed.as_secs_f64()))
}

fn words(program: &Program, threads: u32) -> Vec<OsString> {
    program.words(threads).into_iter().map(OsString::from).collect()
}

/// The start of a program by these words.
fn launch<'a>(words: &'a [OsString], setting: &'a Setting) -> anyhow::Result<Launch<'a>> {
    let (name, arguments) = words.split_first().context("the program has no name")?;
    Ok(Launch::new(setting.library, name, arguments))
}

struct Predicted {
    site: String,
    rows: Vec<Validation>,
    doubts: Vec<String>,
}

/// What the twin and the chain say of every lock at every number of threads. Of what was measured, only the machine and how many
/// cores the whole command uses on one thread are looked at.
fn predict(
    program: &Program,
    setting: &Setting,
    one: &LockTable,
    two: Option<&LockTable>,
    measured: &Measured,
    progress: &dyn Progress,
) -> anyhow::Result<Predicted> {
    let table = two.unwrap_or(one);
    let mut groups = Group::all(&profiled::by_cost(table), &table.header);
    let machine = measured.placement.applied(&measured.machine);
    let costs = machine.costs();
    let transfer_ns = costs.transfer_ns(2);
    let tells = |group: &Group| profiled::tells(&group.row, table.header.ran_together, transfer_ns);
    if let Some(telling) = groups.iter().position(tells) {
        let hot = groups.remove(telling);
        groups.insert(0, hot);
    }
    let of_one = Group::all(&profiled::by_cost(one), &one.header);
    let row = &groups.first().context("it took no lock")?.row;
    let of_one = of_one.iter().map(|group| &group.row).find(|of_one| of_one.site == row.site);
    let mut lock = profiled::observed(row, table.header.ran_together);
    if let (Some(of_one), true) = (of_one, two.is_some()) {
        let alone = profiled::observed(of_one, true);
        (lock.hold_same, lock.think) = (alone.hold_same.or(lock.hold_same), alone.think.or(lock.think));
        lock.wait_ns = alone.wait_ns;
    }
    let parameters = Parameters::observed(&lock, transfer_ns).map_err(anyhow::Error::msg)?;
    let blueprint = Blueprint::new(&groups, table.header.ran_together, of_one, &parameters, transfer_ns);
    let mut blueprint = blueprint
        .with_cores_of(of_one.unwrap_or(row), &one.header, measured.cores)
        .with_events_of(one.header.events_share);
    blueprint.together = measured.placement.together().map_or(1.0, |share| share.median);
    let alternatives = crate::alternatives(&setting.locks)?;
    let plan = Plan {
        threads: setting.threads.clone(),
        seed: setting.seed,
        replications: 3,
        ends: true,
        everywhere: true,
    };
    let stage = Stage::new(&blueprint, &machine, &machine, &plan)?;
    let twin = twin::run(&blueprint, &alternatives, &machine, &stage, &plan, progress)?;
    let share = program.locked_share(row, &one.header);
    let cores = machine.topology.cores();
    let mut found = Vec::new();
    for run in &twin.runs {
        let lock = if run.as_it_is { GLIBC } else { run.name.as_str() };
        let family = |one: &&Alternative| one.name == run.name;
        let family = alternatives.iter().find(family).map_or_else(|| lock_family(row), |one| one.family);
        for &threads in &setting.threads {
            let chain = (threads <= cores).then(|| {
                let model = parameters.likely_model(family, &costs, threads, Variant::default());
                model.at(threads).map(|steady| whole(steady.speedup, share, program, threads))
            });
            found.push(Validation {
                lock: lock.to_owned(),
                threads,
                predicted: run.curve.at(threads).map(|point| {
                    let whole = |speedup| whole(speedup, share, program, threads);
                    let [value, low, high] = [point.value, point.low, point.high].map(whole);
                    // What does not belong to the lock's round is uncertain, too.
                    errors::widened(Point { cores: threads, value, low, high }, cores)
                }),
                chain: chain.transpose().ok().flatten(),
                measured: None,
            });
        }
    }
    let site = match groups[0].copies {
        1 => row.name.clone(),
        copies => format!("{}, {copies} locks", row.site),
    };
    Ok(Predicted { site, rows: found, doubts: twin.doubts })
}

fn lock_family(row: &profile::LockRow) -> model::Family {
    profiled::observed(row, true).family
}

/// The throughput of the whole program, of which a share of one thread's time goes as the twin does and the rest does not get
/// faster with threads: Amdahl's law, or Gustafson's where every thread has work of its own.
fn whole(speedup: f64, share: f64, program: &Program, threads: u32) -> f64 {
    let work = if program.per_thread { f64::from(threads) } else { 1.0 };
    work / ((1.0 - share) + share * work / speedup.max(f64::MIN_POSITIVE))
}

/// Runs the program under every lock on every number of threads, all interleaved.
/// Gives why there is nothing to compare with, where the program failed.
fn measured(
    program: &Program,
    setting: &Setting,
    cores: Option<f64>,
    progress: &dyn Progress,
) -> anyhow::Result<Result<Measured, String>> {
    let locks = [GLIBC.to_owned()].into_iter().chain(setting.locks.iter().cloned());
    let cases: Vec<(String, u32)> =
        locks.flat_map(|lock| setting.threads.iter().map(move |&threads| (lock.clone(), threads))).collect();
    let labels: Vec<String> = cases.iter().map(|(lock, threads)| format!("{lock} on {threads}")).collect();
    let metric = program.throughput.metric();
    let steps =
        progress.start(Work::Runs { later: Duration::ZERO }, cases.len() * (setting.runs as usize + 1));
    let mut touched: BTreeSet<String> = [GLIBC.to_owned()].into();
    let watch = Watch::start();
    // Who may use one core alone has none to compare it with.
    let mut placement = Placement::of(Cores::usable().ok().as_ref());
    let runs = measure(&labels, setting.runs as usize, &metric, |number, _| {
        let (lock, threads) = &cases[number];
        steps.begin(&format!("{}, {}", program.name, labels[number]));
        placement.sample();
        let words = words(program, *threads);
        let swaps = swaps(lock).map_err(anyhow::Error::msg)?;
        let launch = launch(&words, setting)?.swaps(swaps.clone());
        let trial = if swaps.is_empty() {
            trial::run(launch.command()?, setting.time_limit)?
        } else {
            let tally = SharedTally::new(false).context("cannot make memory to count in")?;
            let trial = trial::run(launch.counted(&tally).command()?, setting.time_limit)?;
            if Swapped::read(&tally).any() {
                touched.insert(lock.clone());
            }
            trial
        };
        steps.done();
        Ok((!session::interrupt::came()).then_some(trial))
    })?;
    drop(steps);
    // The load at the start is that of the program before; who else runs meanwhile is measured.
    let noise = Noise { load_before: None, ..watch.stop() };
    let values = |runs: &LockRuns, threads: u32| -> Vec<f64> {
        runs.values
            .iter()
            .flatten()
            .map(|&value| program.throughput.of(value, program.per_thread, threads))
            .collect()
    };
    let base = Point::of_runs(1, &values(&runs[0], 1)).map_or(0.0, |point| point.value);
    if base <= 0.0 {
        let why = match runs[0].failure {
            Some((failure, _)) => format!("it failed on one thread: {failure:?} {}", runs[0].output_tail),
            None => "it was not run to its end".to_owned(),
        };
        return Ok(Err(why));
    }
    let points = cases.iter().zip(&runs).filter_map(|((lock, threads), runs)| {
        let relative: Vec<_> = values(runs, *threads).iter().map(|value| value / base).collect();
        Some((lock.clone(), Point::of_runs(*threads, &relative)?))
    });
    let untouched = setting.locks.iter().filter(|lock| !touched.contains(*lock)).cloned().collect();
    let points = points.collect();
    let (load, machine) = (program.load(), setting.machine.clone());
    Ok(Ok(Measured { load, machine, runs: setting.runs, cores, points, untouched, noise, placement }))
}

/// The curves of a lock's rows: predicted with its ends, and measured with its ends, optimistic end first.
pub(crate) fn curves(rows: &[&Validation]) -> Option<[[Curve; 3]; 2]> {
    let curve = |of: fn(&Validation) -> Option<Point>, end: End| {
        let points: Option<Vec<_>> = rows
            .iter()
            .map(|row| {
                let point = of(row)?;
                let value = match end {
                    End::Optimistic => point.high,
                    End::Likely => point.value,
                    End::Pessimistic => point.low,
                };
                Some(Point::exact(row.threads, value))
            })
            .collect();
        Curve::new("", Unit::Speedup, Provenance::Measured).with_points(points?).ok()
    };
    let ends = |of: fn(&Validation) -> Option<Point>| {
        let [optimistic, likely, pessimistic] = End::ALL.map(|end| curve(of, end));
        Some([optimistic?, likely?, pessimistic?])
    };
    Some([ends(|row| row.predicted)?, ends(|row| row.measured)?])
}

/// What becomes of throughput by three curves.
pub(crate) fn verdict_of(ends: &[Curve; 3]) -> model::Verdict {
    predict::judge(ends, "its range")
}
