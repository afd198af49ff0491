//! Forecasts against measurements: a program is profiled on one thread, forecast on more under several locks, and measured.
//!
//! Nothing here knows any program. What is compared is throughput relative to one thread with the program's own lock.

mod kept;
mod list;
mod made;
mod page;
mod scores;

pub use list::{Program, Throughput, read_list};
pub use made::{MadePrograms, simulated_programs};
pub use page::{Judged, KEPT, Summary, of_random_programs, page};
pub use scores::{ENOUGH, From, Held, MEASURED, Scored, Scores, read_cases, scored, scores, write_cases};

use crate::folder::profile_command;
use crate::simulated_program::{self, Plan, Simulated, Stage};
use crate::subject::{Besides, Subject};
use anyhow::Context as _;
use compare::calibrate::{Cores, Placement};
use compare::comparison::describe;
use compare::rounds::{End, LockRuns, measure};
use compare::{swaps, trial};
use curve::Point;
use kept::{Measured, profile_file};
use launch::{GLIBC, Launch, Library, Swapped};
use profile::tally::SharedTally;
use profile::{LockTable, Profile};
use serde::Serialize;
use session::noise::Watch;
use session::progress::{Progress, Work};
use session::scratch::Scratch;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use topology::MachineFile;

/// How programs are validated.
#[derive(Debug)]
pub struct Setting {
    /// What takes the place of the programs' locks.
    pub library: Library,
    /// The command itself, which records profiles.
    pub contend: std::path::PathBuf,
    /// This machine.
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
    /// The random seed.
    pub seed: u64,
}

/// The outcome of a program's validation.
#[derive(Debug, Clone, Serialize)]
pub struct Validated {
    /// The program's name in the list.
    pub program: String,
    /// Its command line.
    pub command: String,
    /// Why there is nothing to hold against each other.
    pub failed: Option<String>,
    /// The lock in question.
    pub site: String,
    /// What was simulated and measured.
    pub held: Option<Held>,
    /// Reservations.
    pub notes: Vec<String>,
    /// What disturbed the measurement.
    pub noise: Vec<String>,
    /// The machine it was measured on, in a line.
    pub machine: String,
    /// Runs of each lock at each number of threads.
    pub runs: u32,
}

impl Validated {
    fn failed(program: &Program, why: String) -> Self {
        Self {
            program: program.name.clone(),
            command: program.command.join(" "),
            failed: Some(why),
            site: String::new(),
            held: None,
            notes: Vec::new(),
            noise: Vec::new(),
            machine: String::new(),
            runs: 0,
        }
    }
}

/// Profiles, measures and predicts a program. What a program does wrong is in the answer.
///
/// # Errors
///
/// Something that is not the program's fault.
pub fn validate(program: &Program, setting: &Setting, progress: &dyn Progress) -> anyhow::Result<Validated> {
    let folder = Scratch::new()?;
    match profile_and_measure(program, setting, folder.path(), progress)? {
        Ok(measured) => held_against(program, setting, folder.path(), &measured, progress),
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
    /// Clears up whatever comes between.
    struct Prepared<'a>(&'a Program);
    impl Drop for Prepared<'_> {
        fn drop(&mut self) {
            self.0.clear_up();
        }
    }
    let _prepared = Prepared(program);
    if let Some(why) = program.set_up(setting.time_limit)? {
        return Ok(Err(why));
    }
    if let Some(why) = record(program, setting, folder, 1)? {
        return Ok(Err(why));
    }
    if setting.two
        && let Some(why) = record(program, setting, folder, 2)?
    {
        return Ok(Err(format!("on two threads, {why}")));
    }
    measured(program, setting, cores_used(program, setting)?, progress)
}

/// What the profiles foretell, beside what was measured.
fn held_against(
    program: &Program,
    setting: &Setting,
    folder: &Path,
    measured: &Measured,
    progress: &dyn Progress,
) -> anyhow::Result<Validated> {
    let tables = || {
        let one = table(folder, 1)?;
        let two = setting.two.then(|| table(folder, 2).context("on two threads")).transpose()?;
        // The machine as it was meanwhile: nothing of the program's own is known of the measurement.
        simulated(program, setting, one, two, measured, progress)
    };
    let (mut held, subject) = match tables() {
        Ok(done) => done,
        Err(error) => return Ok(Validated::failed(program, format!("{error:#}"))),
    };
    held.simulated.runs.retain(|run| run.name.as_ref().is_none_or(|name| !measured.untouched.contains(name)));
    held.measured = measured.relative();
    Ok(Validated {
        site: subject.name,
        held: Some(held),
        notes: subject.notes,
        noise: measured.noise.disturbances().into_iter().chain(measured.placement.moved()).collect(),
        machine: measured.machine.description.clone(),
        runs: measured.runs,
        failed: None,
        ..Validated::failed(program, String::new())
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
    let mut command = profile_command(&setting.contend, &file);
    command.arg("--").args(program.words(threads));
    let trial = trial::run(command, setting.time_limit)?;
    if trial.end != End::Exited(0) {
        let how = match trial.end {
            End::Exited(code) => format!("exit code {code}"),
            End::Killed(signal) => format!("signal {signal}"),
            End::TimedOut => "the time limit".to_owned(),
        };
        let last = trial.output.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map_or(String::new(), |last| format!(": {}", last.trim()));
        return Ok(Some(format!("it failed while it was profiled ({how}){last}")));
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
    let done = trial.end == End::Exited(0) && !trial.elapsed.is_zero();
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

/// What the simulated program does under every lock at every number of threads. Of what was measured, only the machine and how many
/// cores the whole command uses on one thread are looked at.
fn simulated(
    program: &Program,
    setting: &Setting,
    one: LockTable,
    two: Option<LockTable>,
    measured: &Measured,
    progress: &dyn Progress,
) -> anyhow::Result<(Held, Subject)> {
    let tables: Vec<LockTable> = [one].into_iter().chain(two).collect();
    let machine = measured.placement.applied(&measured.machine);
    let besides = Besides { cores_used: measured.cores, stretch: None };
    let transfer_ns = machine.costs().transfer_ns(2);
    let subject = Subject::new(&tables, None, transfer_ns, besides, Path::new(&program.name))?;
    let mut subject = subject.map_err(anyhow::Error::new)?;
    subject.blueprint.together = measured.placement.together().map_or(1.0, |share| share.median);
    let candidates = crate::alternatives(&setting.locks)?;
    let plan = Plan { everywhere: true, ..Plan::of(&setting.threads, setting.seed) };
    let stage = Stage::new(&subject.blueprint, &machine, &machine, &plan)?;
    let mut simulated = simulated_program::run(&subject.blueprint, &candidates, &stage, &plan, progress)?;
    let row = subject.one_thread.as_ref().unwrap_or(&subject.row);
    let share = program.locked_share(row, &tables[0].header);
    of_the_whole(&mut simulated, |speedup, threads| whole(speedup, share, program, threads));
    let held = Held {
        program: program.name.clone(),
        cores: machine.topology.cores(),
        most: whole(crate::answer::most_by_locks(&subject), share, program, machine.topology.cores()),
        simulated,
        measured: Vec::new(),
    };
    Ok((held, subject))
}

/// Makes of the throughput of the part that takes locks that of the whole program.
fn of_the_whole(simulated: &mut Simulated, whole: impl Fn(f64, u32) -> f64) {
    for point in simulated.runs.iter_mut().flat_map(|run| &mut run.points) {
        let [pessimistic, optimistic] = &mut point.ends;
        for value in [&mut point.value, &mut point.low, &mut point.high, pessimistic, optimistic] {
            *value = whole(*value, point.threads);
        }
    }
}

/// The throughput of the whole program, of which a share of one thread's time goes as the simulated program does and the rest does not get
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
    let noise = watch.stop();
    let values = |runs: &LockRuns, threads: u32| -> Vec<f64> {
        runs.values
            .iter()
            .flatten()
            .map(|&value| program.throughput.of(value, program.per_thread, threads))
            .collect()
    };
    let base = Point::of_runs(1, &values(&runs[0], 1)).map_or(0.0, |point| point.value);
    if base <= 0.0 {
        return Ok(Err(nothing_to_compare(&runs[0])));
    }
    let points = cases.iter().zip(&runs).filter_map(|((lock, threads), runs)| {
        let relative: Vec<_> = values(runs, *threads).iter().map(|value| value / base).collect();
        Some((lock.clone(), Point::of_runs(*threads, &relative)?))
    });
    let untouched = setting.locks.iter().filter(|lock| !touched.contains(*lock)).cloned().collect();
    let (points, machine) = (points.collect(), setting.machine.clone());
    Ok(Ok(Measured { machine, runs: setting.runs, cores, points, untouched, noise, placement }))
}

/// Why nothing can be relative to these runs, on one thread with the program's own locks.
fn nothing_to_compare(runs: &LockRuns) -> String {
    match runs.failure {
        Some(failure) => {
            let tail = match &*runs.output_tail {
                "" => String::new(),
                tail => format!(": {tail}"),
            };
            format!("on one thread it failed ({}){tail}", describe(failure))
        }
        None if runs.values.iter().any(Option::is_some) => {
            "on one thread its metric is 0 or less, to which nothing is relative".to_owned()
        }
        None => "it was not run to its end".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::rounds::Failure;

    #[test]
    fn why_nothing_is_relative_to_one_thread_is_said_in_words() {
        let runs = LockRuns::new(GLIBC);
        assert_eq!(nothing_to_compare(&runs), "it was not run to its end");
        let failed = LockRuns {
            failure: Some((Failure::NoMetric, 0)),
            output_tail: "ops: none".into(),
            ..runs.clone()
        };
        assert_eq!(
            nothing_to_compare(&failed),
            "on one thread it failed (printed no metric in the warm-up): ops: none"
        );
        let idle = LockRuns { values: vec![Some(0.0); 5], ..runs };
        assert!(nothing_to_compare(&idle).contains("its metric is 0"), "{}", nothing_to_compare(&idle));
    }
}
