//! One answer for a program: which lock holds it back, what another lock in its place gives here, measured, and what that becomes on
//! the target.
//!
//! [`measure`] runs the program and leaves profiles and [`Measured`] in a folder; [`Advice::new`] reads nothing but that folder, so that
//! another target costs no run.

mod answer;
mod measured;
mod outlook;
mod page;
mod reasons;
mod suspects;

pub use answer::{Advice, COLUMNS, Checked, Finding, FoundBy, Row};
pub use measured::{AtATime, Case, Measured, forget};
pub(crate) use suspects::candidates;
pub use suspects::{Suspect, suspects};

use crate::folder::profile_command;
use crate::{AS_IT_IS, Void, profiled, subject, void as voids};
use anyhow::{Context as _, bail};
use compare::gate::THREADS;
use compare::rounds::{End, LockRuns, Metric, Trial, measure_until};
use compare::statistics::{self, Better, Verdict};
use compare::trial;
use launch::places::{Only, Places, ensure_few};
use launch::program::NotStarted;
use launch::{Launch, Library, Swapped, Swaps};
use measured::{ProgramFile, profile_file};
use profile::tally::SharedTally;
use profile::{LockRow, LockTable};
use regex_lite::Regex;
use session::noise::{Noise, Watch};
use session::progress::{Progress, Work};
use session::usage::UsageError;
use session::{ensure_usage, host, interrupt};
use simulator::Hardware;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use topology::MachineFile;

/// A program, and what is asked about it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What takes the place of the program's locks.
    pub library: Library,
    /// The command itself, which records profiles.
    pub contend: PathBuf,
    /// The program and its arguments; `{threads}` stands for the number of threads.
    pub command: Vec<OsString>,
    /// Numbers of threads, ascending.
    pub threads: Vec<u32>,
    /// The user did not name them: a folder may keep others, and a command that takes none runs as many as it does.
    pub usual_threads: bool,
    /// What a run has done in its time.
    pub work: Counted,
    /// The machine that is asked about.
    pub target: MachineFile,
    /// This machine.
    pub here: MachineFile,
    /// All runs end after so long.
    pub time_limit: Duration,
    /// What is measured lies here.
    pub folder: PathBuf,
    /// The folder stays.
    pub is_kept: bool,
}

/// How it is known what a run has done.
#[derive(Debug, Clone)]
pub enum Counted {
    /// Every run does the same work, or the same for each thread, as its locks tell.
    Same,
    /// The program prints its operations: the number in the first group of the last match.
    Operations(Regex),
    /// The program prints its throughput: the number in the first group where it first matches one.
    Throughput(Regex),
}

/// Rounds in which every case runs once: enough for the statistics, and where chance does not decide even then.
const LEAST_ROUNDS: usize = statistics::LEAST_RUNS;
const MOST_ROUNDS: usize = 12;
/// Rounds of runs on other numbers of threads than the one on which it is decided what helps: enough for a median.
const ROUNDS_BESIDE: usize = 3;

/// A profile that something disturbed is taken so often.
const TRIES: usize = 3;

/// A run of another lock may take so many times what the program takes as it is, and at least so long.
const LIMIT_FACTOR: u32 = 10;
const LEAST_LIMIT: Duration = Duration::from_secs(10);

impl Asked {
    /// Numbers of threads that stand for all: powers of two up to the cores that there are; one number where the command takes none.
    #[must_use]
    pub fn usual_threads(command: &[OsString]) -> Vec<u32> {
        let cores = host::cores();
        if !takes_threads(command) {
            return vec![cores];
        }
        crate::powers_of_two(cores.clamp(2, 16))
    }

    fn words(&self) -> Vec<String> {
        self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    fn words_for(&self, threads: u32) -> Vec<OsString> {
        let word = |word: &OsString| match word.to_str() {
            Some(text) => text.replace(THREADS, &threads.to_string()).into(),
            None => word.clone(),
        };
        self.command.iter().map(word).collect()
    }

    /// How its work is counted, for a folder that keeps it.
    fn work_in_words(&self) -> String {
        match &self.work {
            Counted::Same => "wall time".into(),
            Counted::Operations(regex) => format!("operations by {regex}"),
            Counted::Throughput(regex) => format!("throughput by {regex}"),
        }
    }

    fn metric(&self) -> Metric {
        let printed = |regex: &Regex, per_second| Metric::Captured {
            regex: regex.clone(),
            better: Better::Higher,
            per_second,
        };
        match &self.work {
            Counted::Same => Metric::WallTime,
            Counted::Operations(regex) => printed(regex, true),
            Counted::Throughput(regex) => printed(regex, false),
        }
    }

    /// Runs the program once; with a lock replaced, tells whether it was found.
    fn run(&self, case: &Case, limit: Duration) -> anyhow::Result<(Trial, bool)> {
        let words = self.words_for(case.threads);
        let (name, arguments) = words.split_first().context("no program was given after `--`")?;
        let launch = Launch::new(self.library, name, arguments);
        let Some(swap) = &case.swap else { return Ok((trial::run(launch.command()?, limit)?, true)) };
        let tally = SharedTally::new(false).context("cannot make memory to count in")?;
        let (site, lock) = swap.clone();
        let mut only = vec![Only { places: vec![site.clone()], site, lock }];
        Places::read(&profile_file(&self.folder, case.threads))?.find(&mut only)?;
        ensure_few(&only)?;
        let launch = launch.swaps(Swaps { only, ..Swaps::default() });
        let trial = trial::run(launch.counted(&tally).command()?, limit)?;
        Ok((trial, Swapped::read(&tally).any()))
    }

    /// Fails before any run where the program's locks can be neither recorded nor replaced, or the target cannot be simulated. What is not found says so when it is run.
    fn check_program(&self) -> anyhow::Result<()> {
        let words = self.words_for(self.threads[0]);
        let (name, arguments) = words.split_first().context("no program was given after `--`")?;
        if let Err(error) = Hardware::new(&self.target) {
            return Err(UsageError::new(format!("nothing can be forecast for --target: {error}")).into());
        }
        match Launch::new(self.library, name, arguments).check() {
            Err(error) if !error.is::<NotStarted>() => {
                let message = format!("its locks can be neither recorded nor replaced: {error:#}");
                Err(UsageError::new(message).into())
            }
            checked => checked.map(drop),
        }
    }

    /// Runs the program as it is on so many threads; none after an interrupt.
    fn unrecorded(&self, threads: u32, limit: Duration) -> anyhow::Result<Option<Trial>> {
        let (trial, _) = self.run(&Case::own(threads), limit)?;
        if interrupt::came() {
            return Ok(None);
        }
        self.check(&trial, threads, "not recorded")?;
        match self.metric().missing(&trial, self.flag()) {
            Some(missing) => {
                Err(UsageError::new(format!("on {}: {missing}", threads_in_words(threads))).into())
            }
            None => Ok(Some(trial)),
        }
    }

    /// The option that says where the work of a run is printed.
    fn flag(&self) -> &'static str {
        if matches!(self.work, Counted::Throughput(_)) { "--metric" } else { "--ops-regex" }
    }

    /// Profiles the program on so many threads; none after an interrupt.
    fn profile(&self, threads: u32, limit: Duration) -> anyhow::Result<Option<Recorded>> {
        let file = profile_file(&self.folder, threads);
        let mut command = profile_command(&self.contend, &file);
        if let Counted::Operations(regex) = &self.work {
            command.args(["--ops-regex", regex.as_str()]);
        }
        command.arg("--").args(self.words_for(threads));
        let trial = trial::run(command, limit)?;
        if interrupt::came() {
            return Ok(None);
        }
        self.check(&trial, threads, "recorded")?;
        ensure_usage!(
            file.exists(),
            "nothing of it can be recorded: {}",
            trial.output.lines().last().unwrap_or("it leaves no profile")
        );
        Ok(Some(Recorded { table: profiled::open(&file)??, trial }))
    }

    /// Fails if the program did.
    fn check(&self, trial: &Trial, threads: u32, how: &str) -> anyhow::Result<()> {
        let ended = match trial.end {
            End::Exited(0) => return Ok(()),
            End::Exited(code) => format!("ended with exit code {code}"),
            End::Killed(signal) => format!("was killed by signal {signal}"),
            End::TimedOut => {
                "did not end within the time limit: give it less to do, or more with --time-limit".into()
            }
        };
        let last = trial.output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let last = match last.trim() {
            "" => String::new(),
            last => format!("; it wrote last: {}", report::text::printable(last)),
        };
        bail!("on {}, {how}, the program {ended}{last}", threads_in_words(threads))
    }
}

/// A run with its locks recorded.
struct Recorded {
    table: LockTable,
    trial: Trial,
}

/// Whether the command has a place for the number of its threads.
#[must_use]
pub fn takes_threads(command: &[OsString]) -> bool {
    command.iter().any(|word| word.to_string_lossy().contains(THREADS))
}

/// So many threads, in words.
fn threads_in_words(threads: u32) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

/// What is known of a program: from its folder if that has it, else by running it.
///
/// # Errors
///
/// The program fails, or cannot be recorded; an interrupt before anything of its locks is known.
pub fn measure(asked: &Asked, progress: &dyn Progress) -> anyhow::Result<Measured> {
    let mut asked = asked.clone();
    if let Some(kept) = Measured::read(&asked.folder, &asked)? {
        if answers(&kept, &asked)? {
            return Ok(kept);
        }
        asked.threads = kept.threads;
    }
    let asked = &asked;
    asked.check_program()?;
    let begun = Instant::now();
    let left = || asked.time_limit.saturating_sub(begun.elapsed());
    let steps = progress.start(Work::Runs { later: Duration::ZERO }, 2 * asked.threads.len());
    let mut alone = Vec::new();
    for &threads in &asked.threads {
        steps.begin(&format!("as it is, {}", threads_in_words(threads)));
        let Some(trial) = asked.unrecorded(threads, left())? else { break };
        alone.push(trial);
        steps.done();
    }
    let mut all = Vec::new();
    let is_interrupted = alone.len() < asked.threads.len();
    for &threads in asked.threads.iter().filter(|_| !is_interrupted) {
        steps.begin(&format!("recorded, {}", threads_in_words(threads)));
        let Some(recorded) = recorded(asked, threads, left())? else { break };
        all.push(recorded);
        steps.done();
    }
    drop(steps);
    if all.is_empty() {
        bail!("nothing is known of its locks yet{}", so_far(&asked.threads, &alone));
    }
    let mut threads = threads_run(asked, &all)?;
    threads.truncate(all.len());
    let is_void = all.iter().any(|recorded| voids::of_table(&recorded.table.header).is_some());
    let per_thread = if is_void { false } else { per_thread(asked, &threads, &alone, &all)? };
    let cores = host::cores();
    let most = threads.iter().rposition(|&threads| threads <= cores).unwrap_or(0);
    let suspects = profiled_suspects(asked, &all[most].table);
    let mut measured = Measured {
        command: asked.words(),
        program: ProgramFile::of(asked),
        counted: asked.work_in_words(),
        cores,
        hardware_threads: u32::try_from(host::allowed_cores().len()).ok(),
        at_a_time: if takes_threads(&asked.command) { None } else { at_a_time(&all[0].table) },
        threads,
        per_thread,
        stretch: stretch(asked, &alone[0], &all[0]),
        suspects,
        cases: Vec::new(),
        noise: Noise::default(),
        cut_short: false,
        time_limit_s: asked.time_limit.as_secs_f64(),
    };
    if is_void {
        return Ok(measured);
    }
    let longest = alone.iter().map(|trial| trial.elapsed).max().unwrap_or_default();
    rounds(asked, &mut measured, longest, begun, progress)?;
    measured.keep_runs_before(&asked.metric(), &alone);
    if !measured.cut_short && measured.void().is_none() {
        measured.write(&asked.folder)?;
    }
    Ok(measured)
}

/// Whether what a folder keeps answers the question: every profile is there and can carry an answer, and more time than was given would
/// decide nothing.
fn answers(kept: &Measured, asked: &Asked) -> anyhow::Result<bool> {
    let tables = tables(&asked.folder, &kept.threads)?;
    let would_decide = kept.time_limit_s < asked.time_limit.as_secs_f64() && kept.is_any_undecided();
    let is_void = kept.void().is_some() || void(&tables).is_some();
    Ok(tables.len() == kept.threads.len() && !is_void && !would_decide)
}

/// What runs that were not recorded took, for who interrupted the rest.
fn so_far(threads: &[u32], alone: &[Trial]) -> String {
    let took = |(&threads, trial): (&u32, &Trial)| {
        format!("{:.2} s on {}", trial.elapsed.as_secs_f64(), threads_in_words(threads))
    };
    let took: Vec<String> = threads.iter().zip(alone).map(took).collect();
    if took.is_empty() { String::new() } else { format!("; as it is, it took {}", took.join(", ")) }
}

/// Profiles the program, again while something disturbs it so that the profile says nothing; none after an interrupt.
fn recorded(asked: &Asked, threads: u32, left: Duration) -> anyhow::Result<Option<Recorded>> {
    let begun = Instant::now();
    for tried in 1.. {
        let Some(recorded) = asked.profile(threads, left.saturating_sub(begun.elapsed()))? else {
            return Ok(None);
        };
        let carries = voids::of_table(&recorded.table.header).is_none();
        if carries || tried == TRIES || begun.elapsed() > left / 4 {
            return Ok(Some(recorded));
        }
    }
    unreachable!("the last try gives its answer")
}

/// On how many threads the program ran: as many as were asked for, if it takes a number; else as many as its profile shows, whose file
/// is named after them.
fn threads_run(asked: &Asked, recorded: &[Recorded]) -> anyhow::Result<Vec<u32>> {
    let ([one], [asked_for], true) = (recorded, &asked.threads[..], asked.usual_threads) else {
        return Ok(asked.threads.clone());
    };
    if takes_threads(&asked.command) {
        return Ok(asked.threads.clone());
    }
    let ran = subject::threads_of(&one.table.header);
    let [from, to] = [*asked_for, ran].map(|threads| profile_file(&asked.folder, threads));
    std::fs::rename(&from, &to).with_context(|| format!("cannot rename {}", from.display()))?;
    Ok(vec![ran])
}

/// The threads that took a lock, where fewer ran or waited for one at a time: the number that ran is no number of threads then.
fn at_a_time(table: &LockTable) -> Option<AtATime> {
    let took = profiled::by_cost(table).iter().map(|row| row.threads).max()?;
    let threads = u32::try_from(took).ok().filter(|&took| took > subject::threads_of(&table.header))?;
    Some(AtATime { threads, ran: table.header.concurrency })
}

/// Whether each thread has work of its own: then more threads take the program's locks more often, and not in less time.
fn per_thread(
    asked: &Asked,
    threads: &[u32],
    alone: &[Trial],
    recorded: &[Recorded],
) -> anyhow::Result<bool> {
    let (Some(first), Some(last)) = (threads.first(), threads.last()) else { return Ok(false) };
    if !matches!(asked.work, Counted::Same) || first == last {
        return Ok(false);
    }
    let taken = |run: &Recorded| run.table.rows.iter().map(LockRow::acquisitions).sum::<u64>();
    let [few, many] = [&recorded[0], &recorded[recorded.len() - 1]].map(taken);
    let grown = many as f64 / few.max(1) as f64;
    let elapsed = |trial: &Trial| trial.elapsed.as_secs_f64();
    let took = elapsed(&alone[recorded.len() - 1]) / elapsed(&alone[0]);
    has_own_work(took, grown, f64::from(*last) / f64::from(*first))
        .ok_or_else(|| UsageError::new(untold_work(alone[0].elapsed, [*first, *last], [few, many])).into())
}

/// Why it is not known what a program has done that runs for as long on the `last` number of threads as on the `first`, and took its
/// locks so many times on each.
fn untold_work(elapsed: Duration, [first, last]: [u32; 2], [few, many]: [u64; 2]) -> String {
    let locks = if few == 0 && many == 0 {
        "no lock that is recorded".to_owned()
    } else {
        format!("its locks {:.2} times as often", many as f64 / few.max(1) as f64)
    };
    format!(
        "the program runs for {} on {} and on {last}, and takes {locks}: what it has done in that time only its output tells. Say where, \
         as in --ops-regex 'operations: ([0-9]+)' or --metric '([0-9.]+) per second'",
        report::text::time(1e9 * elapsed.as_secs_f64()),
        threads_in_words(first),
    )
}

/// Whether each thread has work of its own, where runs on `more` times the threads take so many times as long and take locks so many
/// times as often. None for a program that runs for a time of its own, and does more or less in it.
fn has_own_work(took: f64, grown: f64, more: f64) -> Option<bool> {
    /// Runs that take as long as each other, whatever they do.
    const ALIKE: f64 = 0.03;
    /// Threads that do not hinder each other.
    const FREE: f64 = 0.9;
    /// In less of one thread's time, none of several has done as much as it alone: they share its work.
    const AS_LONG: f64 = 0.9;
    let own_time = (took - 1.0).abs() < ALIKE && (grown - 1.0).abs() > ALIKE && grown < FREE * more;
    (!own_time).then_some(grown >= f64::midpoint(1.0, more) && took > AS_LONG)
}

/// How many times as long the program took for the same work on the fewest threads while it was recorded; `printed` is the rate that
/// it printed then, if it prints one. Where its start is a part of the time, recording makes that longer too.
fn stretch(asked: &Asked, alone: &Trial, recorded: &Recorded) -> Option<f64> {
    let took = recorded.table.header.elapsed_ns / 1e9;
    let stretch = match &asked.work {
        Counted::Same => took / alone.elapsed.as_secs_f64(),
        Counted::Operations(_) => asked.metric().of(alone)? * took / recorded.table.header.operations? as f64,
        Counted::Throughput(_) => asked.metric().of(alone)? / asked.metric().of(&recorded.trial)?,
    };
    (stretch.is_finite() && stretch > 0.0).then_some(stretch)
}

/// The program as it is and with each candidate, on each number of threads.
fn cases_of(measured: &Measured) -> Vec<Case> {
    let mut cases: Vec<Case> = measured.threads.iter().map(|&threads| Case::own(threads)).collect();
    for suspect in &measured.suspects {
        for lock in suspect.tried() {
            let swap = Some((suspect.name.clone(), lock.to_owned()));
            let of = |&threads: &u32| Case { swap: swap.clone(), ..Case::own(threads) };
            cases.extend(measured.threads.iter().map(of));
        }
    }
    cases
}

/// Runs the program as it is and with each candidate in turn until it is decided which are better, or time is up.
fn rounds(
    asked: &Asked,
    measured: &mut Measured,
    longest: Duration,
    begun: Instant,
    progress: &dyn Progress,
) -> anyhow::Result<()> {
    let cases = cases_of(measured);
    let labels: Vec<String> = cases.iter().map(Case::label).collect();
    let limit = || run_limit(longest, asked.time_limit.saturating_sub(begun.elapsed()));
    let most = measured.most();
    let better = asked.metric().better();
    let needed = |number: usize, round: usize| is_needed(&cases[number], round, most);
    let is_late = || begun.elapsed() + longest > asked.time_limit;
    let runs_in = |round| (0..cases.len()).filter(|&number| needed(number, round)).count();
    let runs = (0..=LEAST_ROUNDS).map(runs_in).sum();
    let steps = progress.start(Work::Runs { later: Duration::ZERO }, runs);
    let watch = Watch::start();
    let round_began = std::cell::Cell::new(Instant::now());
    let found = std::cell::RefCell::new(vec![true; cases.len()]);
    let mut hung = Hung::default();
    let runs = measure_until(
        &labels,
        MOST_ROUNDS,
        &asked.metric(),
        // Once time is up, locks are tried on the most threads alone.
        |number, round| {
            let is_beside = cases[number].swap.is_some() && cases[number].threads != most;
            needed(number, round) && !(is_beside && is_late())
        },
        |number, round| {
            // What is out of time leaves the rounds that are finished, and one at least.
            if round > 1 && is_late() || interrupt::came() {
                return Ok(None);
            }
            if let Some(trial) = hung.instead_of(number, &cases[number]) {
                steps.done();
                return Ok(Some(trial));
            }
            steps.begin(&labels[number]);
            let limit = limit();
            let (trial, replaced) = asked.run(&cases[number], limit)?;
            hung.note(&cases[number], &trial, limit < longest * LIMIT_FACTOR);
            if interrupt::came() {
                return Ok(None);
            }
            if round == 0 {
                round_began.set(Instant::now());
            }
            found.borrow_mut()[number] = replaced;
            steps.done();
            Ok(Some(trial))
        },
        |rows| {
            let round = rows[0].values.len();
            let [these, next] = [round, round + 1].map(runs_in);
            let took = round_began.get().elapsed().mul_f64(next as f64 / these as f64);
            round_began.set(Instant::now());
            let decided = |number: usize| is_decided(&cases, rows, number, better);
            let at_most = |number: &usize| cases[*number].threads == most;
            let own_failed = |number: usize| cases[number].swap.is_none() && rows[number].failure.is_some();
            (0..rows.len()).filter(at_most).any(own_failed)
                || round >= LEAST_ROUNDS && (0..rows.len()).filter(at_most).all(decided)
                || begun.elapsed() + took > asked.time_limit
        },
    )?;
    drop(steps);
    measured.noise = watch.stop();
    measured.cut_short = interrupt::came();
    let found = found.into_inner();
    let cases = hung.marked(cases);
    measured.cases = (cases.iter().zip(&runs).zip(found))
        .map(|((case, runs), replaced)| Case {
            replaced,
            ..Case::of(case, runs, better, measured.work(case.threads))
        })
        .collect();
    runs_as_it_is(measured)
}

/// Fails where the program does by itself, on the fewest or the most threads: nothing can be compared with that.
fn runs_as_it_is(measured: &Measured) -> anyhow::Result<()> {
    let ends = [measured.threads[0], measured.most()];
    let mut own = measured.cases.iter().filter(|case| case.swap.is_none() && ends.contains(&case.threads));
    if let Some(Case { failure: Some(why), threads, .. }) = own.find(|case| case.failure.is_some()) {
        bail!("on {} the program failed: {why}", threads_in_words(*threads));
    }
    Ok(())
}

/// How long a run of a case may take: many times what the program takes as it is, but no longer than the time that is left, as far as that
/// is enough for the slowest case as it is.
fn run_limit(longest: Duration, left: Duration) -> Duration {
    let least = (longest * 2).max(LEAST_LIMIT);
    (longest * LIMIT_FACTOR).min(left).max(least)
}

/// Locks under which the program did not end: it is not run with them on other numbers of threads, which would take as long.
#[derive(Default)]
struct Hung {
    swaps: Vec<HungSwap>,
    /// Cases that were left out, and the number of threads on which their lock hung.
    left_out: Vec<(usize, u32)>,
}

/// A replacement under which the program did not end.
struct HungSwap {
    swap: (String, String),
    threads: u32,
    /// It had less time than a run may take: with more it may end.
    is_cut_off: bool,
}

impl Hung {
    fn note(&mut self, case: &Case, trial: &Trial, is_cut_off: bool) {
        if let (Some(swap), End::TimedOut) = (&case.swap, trial.end) {
            self.swaps.push(HungSwap { swap: swap.clone(), threads: case.threads, is_cut_off });
        }
    }

    fn of(&self, case: &Case) -> Option<&HungSwap> {
        self.swaps.iter().find(|hung| case.swap.as_ref() == Some(&hung.swap))
    }

    /// The outcome of a case that is not to be run, since the program hung with its lock.
    fn instead_of(&mut self, number: usize, case: &Case) -> Option<Trial> {
        let threads = self.of(case)?.threads;
        self.left_out.push((number, threads));
        let (elapsed, cpu) = (Duration::ZERO, Duration::ZERO);
        Some(Trial { end: End::TimedOut, elapsed, cpu, output: String::new() })
    }

    /// The cases, of which those that were left out or cut off say so.
    fn marked(&self, mut cases: Vec<Case>) -> Vec<Case> {
        for &(number, threads) in &self.left_out {
            cases[number].failure = Some(format!("timed out on {}", threads_in_words(threads)));
        }
        for (number, case) in cases.iter_mut().enumerate() {
            let is_left_out = self.left_out.iter().any(|&(left_out, _)| left_out == number);
            let ended_it = |hung: &HungSwap| hung.is_cut_off && (is_left_out || hung.threads == case.threads);
            case.is_cut_off = self.of(case).is_some_and(ended_it);
        }
        cases
    }
}

/// Whether a case is run in a round. What takes time is on the most threads that have a core each, where it is decided what helps: there
/// all cases are run in all rounds, since they are compared.
fn is_needed(Case { swap, threads, .. }: &Case, round: usize, most: u32) -> bool {
    match round {
        0 => *threads == most || swap.is_none(),
        _ => *threads == most || round <= ROUNDS_BESIDE,
    }
}

/// Whether chance no longer explains how a case differs from the program as it is, or there is nothing to decide.
fn is_decided(cases: &[Case], rows: &[LockRuns], number: usize, better: Better) -> bool {
    let own = cases.iter().position(|own| own.swap.is_none() && own.threads == cases[number].threads);
    let Some(own) = own.filter(|&own| own != number) else { return true };
    let verdict = statistics::verdict(&rows[own].values, &rows[number].values, better, 0.0);
    rows[number].failure.is_some() || matches!(verdict, Some(Verdict::Better | Verdict::Worse))
}

impl Case {
    /// The program as it is.
    fn own(threads: u32) -> Self {
        let (rates, cores_busy) = (Vec::new(), Vec::new());
        Self { swap: None, threads, rates, cores_busy, failure: None, is_cut_off: false, replaced: true }
    }

    fn label(&self) -> String {
        let lock = self.swap.as_ref().map_or(AS_IT_IS, |(_, lock)| lock);
        format!("{lock}, {}", threads_in_words(self.threads))
    }
}

/// The locks of a profile that cost time now, or will on the machine that is asked about.
fn profiled_suspects(asked: &Asked, table: &LockTable) -> Vec<Suspect> {
    let cores = asked.target.topology.cores();
    suspects(table, cores, asked.target.costs().transfer_ns(cores).likely)
}

/// The tables of a folder's profiles, by number of threads.
fn tables(folder: &Path, threads: &[u32]) -> anyhow::Result<Vec<(u32, LockTable)>> {
    let open = |(threads, file): (u32, PathBuf)| Ok((threads, profiled::open(&file)??));
    profiles(folder, threads).into_iter().map(open).collect()
}

/// Why these profiles carry no answer, if that is so.
fn void(tables: &[(u32, LockTable)]) -> Option<Void> {
    tables.iter().find_map(|(_, table)| voids::of_table(&table.header))
}

/// The profiles of a folder, by number of threads.
fn profiles(folder: &Path, threads: &[u32]) -> Vec<(u32, PathBuf)> {
    let all = threads.iter().map(|&threads| (threads, profile_file(folder, threads)));
    all.filter(|(_, file)| file.exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::measured::tests::{about, case};
    use super::*;
    use crate::void::LeftOut;
    use curve::Point;
    use profile::ObjectKind;
    use report::{Screen, every_screen};

    pub(super) fn measured(cases: Vec<Case>, cores: u32) -> Measured {
        Measured {
            command: ["./server", "--threads", THREADS].map(str::to_owned).to_vec(),
            program: None,
            counted: "wall time".into(),
            cores,
            hardware_threads: None,
            threads: vec![1, 2],
            at_a_time: None,
            per_thread: false,
            stretch: None,
            suspects: vec![Suspect {
                name: "TABLE".into(),
                kind: ObjectKind::Rwlock,
                source: Some("src/server.cpp:41".into()),
                waited: 0.6,
                by_hooks: false,
            }],
            cases,
            noise: Noise::default(),
            cut_short: false,
            time_limit_s: 60.0,
        }
    }

    fn target(name: &str) -> (String, u32) {
        (name.to_owned(), 64)
    }

    fn swap(lock: &str) -> Option<(&str, &str)> {
        Some(("TABLE", lock))
    }

    #[test]
    fn rounds_are_made_where_they_decide() {
        let cases: Vec<Case> = [None, swap("mcs"), swap("rw")]
            .into_iter()
            .flat_map(|swap| [1, 2].map(|threads| case(swap, threads, &[])))
            .collect();
        let run = |round| -> Vec<usize> {
            (0..cases.len()).filter(|&number| is_needed(&cases[number], round, 2)).collect()
        };
        assert_eq!(run(0), [0, 1, 3, 5]);
        assert_eq!(run(ROUNDS_BESIDE), [0, 1, 2, 3, 4, 5]);
        assert_eq!(run(LEAST_ROUNDS), [1, 3, 5]);
        assert_eq!(run(MOST_ROUNDS), [1, 3, 5]);
    }

    /// A lock that halves two threads' work, one that does not, and one under which the program hangs.
    pub(super) fn advice() -> Advice {
        let mut cases = vec![
            case(None, 1, &about(100.0)),
            case(None, 2, &about(23.0)),
            case(swap("adaptive"), 1, &about(100.0)),
            case(swap("adaptive"), 2, &about(131.0)),
            case(swap("rw"), 1, &about(100.0)),
            case(swap("rw"), 2, &about(119.0)),
            case(swap("rw-queued"), 1, &about(90.0)),
            case(swap("rw-queued"), 2, &[]),
        ];
        cases[7].failure = Some("timed out in the warm-up".into());
        let mut advice = Advice::measured(target("epyc-9654x2"), measured(cases, 2));
        let forecast = |values: [f64; 3]| {
            let points = [4, 16, 64].into_iter().zip(values);
            points.map(|(cores, value)| Point { cores, value, low: 0.8 * value, high: 1.2 * value }).collect()
        };
        let rows = &mut advice.findings[0].rows;
        (rows[0].forecast, rows[0].verdict) =
            (forecast([0.21, 0.2, 0.18]), Some("collapses at 2, measured".into()));
        (rows[1].forecast, rows[1].verdict) =
            (forecast([1.3, 1.2, 1.1]), Some("uncertain: 60 % collapses".into()));
        rows[1].gain_there = Some(report::Spread { low: 4.2, median: 6.1, high: 7.4 });
        advice
    }

    #[test]
    fn of_locks_that_are_as_good_here_one_that_holds_on_the_target_is_advised() {
        let of = |two: f64, there: [f64; 2]| {
            let mut finding = advice().findings.remove(0);
            let gain =
                |value: f64| Some(report::Spread { low: 0.9 * value, median: value, high: 1.1 * value });
            for (row, (here, there)) in finding.rows[1..3].iter_mut().zip([(1.30, there[0]), (two, there[1])])
            {
                (row.gain, row.gain_there) = (gain(here), gain(there));
            }
            finding.best().and_then(|row| row.lock.clone())
        };
        let is = |lock: &str| Some(lock.to_owned());
        assert_eq!(of(1.28, [0.4, 1.2]), is("rw"));
        assert_eq!(of(1.28, [0.4, 0.4]), is("adaptive"), "both lose there");
        assert_eq!(
            of(0.9, [0.4, 1.2]),
            is("adaptive"),
            "it gives more here, and what it costs there is said"
        );
    }

    /// Every lock that gains on two threads loses on 64.
    #[test]
    fn what_is_forecast_to_lose_on_the_target_is_advised_for_this_machine_alone() {
        let mut advice = advice();
        let said = |advice: &Advice| advice.terminal(Screen::FILE).replace('\n', " ");
        assert!(said(&advice).contains("Do: put `adaptive` in its place: 5.7 times"), "{}", said(&advice));
        advice.findings[0].rows[1].gain_there = Some(report::Spread { low: 0.19, median: 0.44, high: 1.0 });
        advice.findings[0].rows[2].gain_there = Some(report::Spread { low: 0.1, median: 0.14, high: 0.3 });
        let alone = said(&advice);
        assert!(
            alone.contains("Do, on this machine alone: put `adaptive` in its place: 5.7 times"),
            "{alone}"
        );
        assert!(
            alone.contains(
                "measured). On 64 it probably loses: about 0.44 times the work (0.19 to 1.0). Try:"
            ),
            "{alone}"
        );
    }

    #[test]
    fn a_lock_that_is_found_by_its_calls_is_tried_with_their_profile() {
        let mut advice = advice();
        advice.findings[0].found_by = Some(FoundBy::Kept("kept/threads-2.contend".into()));
        let said = advice.terminal(Screen::FILE);
        let words = "--only TABLE=adaptive --profile kept/threads-2.contend --";
        assert!(said.contains(words), "{said}");
        advice.findings[0].found_by = Some(FoundBy::ToRecord);
        let said = advice.terminal(Screen::FILE);
        assert!(said.contains("  contend profile -- ./server --threads 2\n  contend run --only"), "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    }

    #[test]
    fn an_answer_fits_into_twenty_lines_of_eighty_columns() {
        let mut advice = advice();
        advice.besides = Some(
            "Besides, its threads keep 1.9 cores busy for 1.3 times the work: they share data outside of locks, or their cores share a \
             cache."
                .into(),
        );
        advice.disturbed = vec!["other programs used 12 % of the cores meanwhile".into()];
        advice.measured.cut_short = true;
        for screen in [Screen::wide(200), Screen::FILE, Screen::FILE.ascii(), Screen::wide(80).ascii()] {
            let said = advice.terminal(screen);
            assert!(said.lines().count() <= 20, "{} lines: {said}", said.lines().count());
            assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
            assert!(!screen.is_ascii() || said.is_ascii(), "{said}");
        }
        insta::assert_snapshot!(every_screen(&[], |screen| advice.terminal(screen)));
    }

    #[test]
    fn verdicts_are_in_colour_and_nothing_else_changes() {
        let advice = advice();
        let coloured = advice.terminal(Screen::wide(80).coloured());
        let (bad, open, end) = ("\u{1b}[38;5;1m", "\u{1b}[38;5;3m", "\u{1b}[39m");
        for words in
            [format!("{bad}collapses at 2, measured{end}"), format!("{open}uncertain: 60 % collapses{end}")]
        {
            assert!(coloured.contains(&words), "{words:?}: {coloured:?}");
        }
        let plain = [bad, open, end].iter().fold(coloured, |said, colour| said.replace(colour, ""));
        assert_eq!(plain, advice.terminal(Screen::wide(80)));
    }

    #[test]
    fn the_lock_that_did_most_is_advised_with_its_measured_gain() {
        let advice = advice();
        let said = advice.terminal(Screen::FILE);
        for words in [
            "TABLE (server.cpp:41, reader-writer lock) holds ./server back.",
            "Do: put `adaptive` in its place: 5.7 times the work on 2 threads (5.",
            "about 6.1 times on 64 (4.2 to 7.4)",
            "Try: contend run --only TABLE=adaptive -- ./server --threads 2",
            "timed out in the warm-up",
        ] {
            assert!(said.replace('\n', " ").contains(words), "{words}: {said}");
        }
        assert_eq!(said.matches("Do:").count(), 1);
    }

    #[test]
    fn a_void_profile_is_said_alone() {
        let mut advice = advice();
        advice.void = Some(Void {
            reason: "2 threads hardly ran together".into(),
            remedy: "Profile on an otherwise idle machine".into(),
            of_lock: false,
        });
        let said = advice.terminal(Screen::FILE);
        assert_eq!(
            said,
            "Nothing is said of ./server: 2 threads hardly ran together.\nProfile on an otherwise idle machine.\n"
        );
        let page = advice.page().unwrap().html();
        assert!(
            page.contains("hardly ran together") && !page.contains("<svg") && !page.contains("<table"),
            "{page}"
        );
    }

    /// The table has it that `adaptive` collapses with 60 %.
    #[test]
    fn no_legend_decides_what_the_verdict_beside_it_leaves_open() {
        let page = advice().page().unwrap().html();
        assert!(page.contains("adaptive, predicted") && page.contains("uncertain: 60 % collapses"), "{page}");
        assert!(!page.contains(", no collapse") && !page.contains("collapsed from"), "{page}");
    }

    /// Its type in the source is what can be changed.
    #[test]
    fn a_lock_that_the_program_records_by_itself_is_forecast_and_not_tried() {
        let cases = vec![case(None, 1, &about(100.0)), case(None, 2, &about(23.0))];
        let mut measured = measured(cases, 2);
        measured.suspects[0].by_hooks = true;
        assert!(cases_of(&measured).iter().all(|case| case.swap.is_none()));
        let mut advice = Advice::measured(target("epyc-9654x2"), measured);
        let said = |advice: &Advice| {
            let said = advice.terminal(Screen::FILE);
            assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
            said.replace('\n', " ")
        };
        let without = said(&advice);
        assert!(
            without.starts_with("./server waits for TABLE (server.cpp:41, reader-writer lock)."),
            "{without}"
        );
        assert!(
            without.contains(crate::advice::NO_PTHREAD) && !without.contains("Too few runs"),
            "{without}"
        );
        let gain = |low: f64| Some(report::Spread { low, median: 6.1, high: 7.4 });
        let rows = &mut advice.findings[0].rows;
        rows[1].forecast = vec![Point::exact(64, 1.4)];
        rows[1].gain_there = gain(0.9);
        let unsure = said(&advice);
        assert!(unsure.contains("`adaptive` is not sure to gain on epyc-9654x2."), "{unsure}");
        advice.findings[0].rows[1].gain_there = gain(4.2);
        let sure = said(&advice);
        assert!(
            sure.contains("Do: put `adaptive` in its place: about 6.1 times on 64 (4.2 to 7.4)."),
            "{sure}"
        );
        assert!(sure.contains("Keep: RwLock<T, Adaptive> in Rust") && !sure.contains("--only"), "{sure}");
        assert!(sure.contains(crate::advice::NO_PTHREAD), "{sure}");
    }

    #[test]
    fn what_chance_explains_is_not_advised() {
        let cases = vec![
            case(None, 1, &about(100.0)),
            case(None, 2, &about(120.0)),
            case(swap("rw"), 1, &about(100.0)),
            case(swap("rw"), 2, &about(120.5)),
        ];
        let advice = Advice::measured(target("typical"), measured(cases, 2));
        let said = advice.terminal(Screen::FILE);
        assert!(
            !said.contains("Do:") && said.contains("`rw` does no more in its place than chance"),
            "{said}"
        );
        assert!(said.contains("waits for TABLE"), "{said}");
        let quiet = Measured {
            suspects: Vec::new(),
            ..measured(vec![case(None, 1, &about(1.0)), case(None, 2, &about(1.0))], 2)
        };
        let said = Advice::measured(target("typical"), quiet).terminal(Screen::FILE);
        assert!(said.starts_with("No lock holds ./server back."), "{said}");
    }

    #[test]
    fn where_no_lock_could_be_tried_none_is_said_not_to_help() {
        let mut cases = vec![
            case(None, 1, &about(100.0)),
            case(None, 2, &about(120.0)),
            case(swap("rw"), 1, &[]),
            case(swap("rw"), 2, &[]),
        ];
        for case in &mut cases[2..] {
            case.failure = Some("timed out in the warm-up".into());
        }
        let said = Advice::measured(target("typical"), measured(cases, 2)).terminal(Screen::FILE);
        assert!(!said.contains("no other lock in its place helps"), "{said}");
        assert!(said.contains("No other lock could be tried in its place."), "{said}");
    }

    #[test]
    fn a_lock_under_which_the_program_fails_on_any_threads_is_no_advice() {
        let cases = || {
            vec![
                case(None, 1, &about(100.0)),
                case(None, 2, &about(23.0)),
                case(swap("rw"), 1, &about(100.0)),
                case(swap("rw"), 2, &about(131.0)),
            ]
        };
        let advice = |cases| Advice::measured(target("typical"), measured(cases, 2));
        let mut crashes = cases();
        crashes[2].failure = Some("killed by signal 11 in round 3".into());
        let crashes = advice(crashes);
        let said = crashes.terminal(Screen::FILE);
        assert!(!said.contains("Do:") && said.contains("killed by signal 11"), "{said}");
        assert!(crashes.findings[0].rows[1].gain.is_none());
        // A lock that only several threads make is found by the runs of these.
        let mut late = cases();
        late[2].replaced = false;
        let said = advice(late).terminal(Screen::FILE);
        assert!(said.contains("Do: put `rw`") && !said.contains("not found"), "{said}");
        let mut lost = cases();
        lost[3].replaced = false;
        let said = advice(lost).terminal(Screen::FILE);
        assert!(!said.contains("Do:") && said.contains("not found"), "{said}");
    }

    #[test]
    fn what_was_measured_is_said_where_nothing_can_be_forecast() {
        let mut advice = advice();
        advice.no_forecast = Some(crate::void::too_little("TABLE", "it was acquired 60 times"));
        let said = advice.terminal(Screen::FILE).replace('\n', " ");
        assert!(said.contains("Do: put `adaptive`"), "{said}");
        assert!(said.contains("No forecast for epyc-9654x2: TABLE was seen too little"), "{said}");
        assert!(!said.contains("--site"), "{said}");
    }

    #[test]
    fn a_lock_that_hangs_takes_no_more_than_the_time_that_is_left() {
        let seconds = Duration::from_secs;
        assert_eq!(run_limit(seconds(20), seconds(500)), seconds(200));
        assert_eq!(run_limit(seconds(20), seconds(90)), seconds(90));
        assert_eq!(run_limit(seconds(20), seconds(0)), seconds(40), "twice what it takes as it is");
        assert_eq!(run_limit(seconds(1), seconds(0)), LEAST_LIMIT);
        let cases =
            [("rw", 1), ("rw", 2), ("adaptive", 2)].map(|(lock, threads)| case(swap(lock), threads, &[]));
        let mut hung = Hung::default();
        assert_eq!(hung.instead_of(0, &cases[0]), None);
        let elapsed = seconds(1);
        let timed_out = Trial { end: End::TimedOut, elapsed, cpu: elapsed, output: String::new() };
        hung.note(&cases[0], &timed_out, true);
        assert!(hung.instead_of(1, &cases[1]).is_some_and(|trial| trial.end == End::TimedOut));
        assert_eq!(hung.instead_of(2, &cases[2]), None);
        let marked = hung.marked(cases.to_vec());
        assert_eq!(marked[1].failure.as_deref(), Some("timed out on 1 thread"));
        assert!(marked[0].failure.is_none() && marked[2].failure.is_none());
        assert_eq!(marked.iter().map(|case| case.is_cut_off).collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn what_was_not_decided_is_no_finding() {
        let few = |swap, threads, rates: &[f64]| case(swap, threads, rates);
        let cases = |own: &[f64], other: &[f64]| {
            vec![
                case(None, 1, &about(100.0)),
                few(None, 2, own),
                case(swap("rw"), 1, &about(100.0)),
                few(swap("rw"), 2, other),
            ]
        };
        let said = |own: &[f64], other: &[f64]| {
            let advice = Advice::measured(target("typical"), measured(cases(own, other), 2));
            advice.terminal(Screen::FILE).replace('\n', " ")
        };
        let undecided = said(&[20.0, 21.0], &[30.0, 33.0]);
        assert!(undecided.contains("Too few runs were made to tell whether rw helps"), "{undecided}");
        assert!(!undecided.contains("None of") && !undecided.contains("no other lock"), "{undecided}");
        let mut two = measured(cases(&[20.0, 21.0], &[30.0, 33.0]), 2);
        two.cases.push(case(swap("adaptive"), 2, &[30.0, 33.0]));
        assert!(two.is_any_undecided());
        let two = Advice::measured(target("typical"), two).terminal(Screen::FILE).replace('\n', " ");
        assert!(
            two.contains("whether adaptive, rw help:") || two.contains("whether rw, adaptive help:"),
            "{two}"
        );
        assert!(!measured(cases(&about(20.0), &about(20.1)), 2).is_any_undecided());
        let unknown = said(&[], &[]);
        assert!(unknown.starts_with("Too little of ./server was run to tell"), "{unknown}");
    }

    #[test]
    fn what_can_be_done_comes_first() {
        let mut measured = measured(
            vec![
                case(None, 1, &about(100.0)),
                case(None, 2, &about(120.0)),
                case(swap("rw"), 2, &about(120.5)),
                case(Some(("JOURNAL", "futex")), 1, &about(100.0)),
                case(Some(("JOURNAL", "futex")), 2, &about(180.0)),
            ],
            2,
        );
        let name = "JOURNAL".into();
        let journal = Suspect { name, kind: ObjectKind::Mutex, source: None, waited: 0.1, by_hooks: false };
        measured.suspects.push(journal);
        let said = Advice::measured(target("typical"), measured).terminal(Screen::FILE);
        assert!(said.starts_with("JOURNAL (mutex) holds ./server back."), "{said}");
        assert!(said.contains("contend run --only JOURNAL=futex"), "{said}");
    }

    #[test]
    fn threads_that_share_cores_are_not_counted_as_cores() {
        let mut measured = measured(vec![case(None, 4, &about(100.0))], 2);
        measured.threads = vec![4];
        let said = Advice::measured(target("typical"), measured).terminal(Screen::FILE);
        assert!(said.contains("1.00 is the program as it is on 4 threads."), "{said}");
    }

    #[test]
    fn a_forecast_of_which_the_seeds_disagree_is_no_figure() {
        let mut advice = advice();
        advice.findings[0].rows[0].unstable = vec![64];
        let said = advice.terminal(Screen::FILE);
        assert!(said.contains('?') && said.contains("with other random numbers"), "{said}");
        assert!(said.lines().count() <= 20, "{said}");
        assert!(advice.page().unwrap().html().contains("forecast, unstable"));
    }

    #[test]
    fn a_lock_that_hurts_on_the_target_alone_is_advised_for_there() {
        let cases = vec![
            case(None, 1, &about(100.0)),
            case(None, 2, &about(198.0)),
            case(swap("rw"), 1, &about(100.0)),
            case(swap("rw"), 2, &about(198.0)),
        ];
        let mut advice = Advice::measured(target("opteron-8x6"), measured(cases, 2));
        advice.findings[0].suspect.waited = 0.0;
        advice.findings[0].rows[1].gain_there = Some(report::Spread { low: 5.0, median: 20.0, high: 40.0 });
        advice.findings[0].rows[1].forecast = vec![Point::exact(48, 40.0)];
        let said = advice.terminal(Screen::FILE).replace('\n', " ");
        assert!(
            said.contains("does not hold ./server back here; on opteron-8x6 it probably will."),
            "{said}"
        );
        assert!(said.contains("put `rw` in its place: about 20 times on 48 (5.0 to 40)."), "{said}");
    }

    /// No lock that was tried gains anything there, or the seeds disagree on how much.
    #[test]
    fn a_program_that_is_to_collapse_there_is_not_said_to_have_no_lock_that_limits_it() {
        let cases = vec![
            case(None, 1, &about(100.0)),
            case(None, 2, &about(198.0)),
            case(swap("rw"), 2, &about(198.0)),
        ];
        let mut advice = Advice::measured(target("opteron-8x6"), measured(cases, 2));
        advice.findings[0].suspect.waited = 0.0;
        let mut said = |verdict: &str| {
            advice.findings[0].rows[0].verdict = Some(verdict.into());
            advice.terminal(Screen::FILE).replace('\n', " ")
        };
        let falls = said("collapses at 16 (8 to 32), 93 %");
        assert!(falls.contains("does not hold ./server back here; on opteron-8x6 it may."), "{falls}");
        for other in ["collapses at 2, measured", "still rises at 48, 90 %", "uncertain: 60 % collapses"] {
            assert!(said(other).starts_with("No lock holds ./server back."), "{}", said(other));
        }
    }

    #[test]
    fn another_lock_is_named_with_the_gain_that_it_is_named_for() {
        let mut advice = advice();
        let mut other = advice.findings[0].clone();
        other.suspect.name = "INDEX".into();
        other.rows[1].gain_there = Some(report::Spread { low: 1.3, median: 1.5, high: 2.0 });
        advice.findings.push(other);
        let said = |advice: &Advice| advice.terminal(Screen::FILE).replace('\n', " ");
        let here = said(&advice);
        assert!(here.contains("5.7 times the work on 2 threads") && here.contains(", measured)."), "{here}");
        for row in &mut advice.findings[1].rows[1..] {
            row.is = None;
        }
        let there = said(&advice);
        let (_, there) = there.split_once("Also: ").expect("another lock");
        assert!(there.contains("`adaptive` in the place of INDEX"), "{there}");
        assert!(there.contains("about 1.5 times on 64 (1.3 to 2.0)."), "{there}");
        assert!(!there.contains("2 threads"), "{there}");
    }

    #[test]
    fn a_prediction_that_was_wrong_is_said_to_be() {
        let mut advice = advice();
        let checked = |low, value, high, measured| Checked {
            lock: None,
            threads: 2,
            predicted: Point { cores: 2, value, low, high },
            measured: Point::exact(2, measured),
        };
        advice.findings[0].checked = vec![checked(0.2, 0.3, 0.5, 0.23)];
        assert!(advice.contrast_in_words().contains("lies in the range"), "{}", advice.contrast_in_words());
        advice.findings[0].checked.push(checked(0.8, 1.0, 1.3, 0.23));
        let said = advice.contrast_in_words();
        assert!(
            said.starts_with("The prediction was wrong:")
                && said.contains("1.00 times")
                && said.contains("0.23 was measured"),
            "{said}"
        );
    }

    #[test]
    fn whose_the_work_is_is_told_by_how_often_locks_are_taken() {
        assert_eq!(has_own_work(0.6, 1.0, 2.0), Some(false), "two threads share it");
        assert_eq!(has_own_work(10.0, 2.0, 2.0), Some(true), "each has its own, and they hinder each other");
        assert_eq!(has_own_work(1.0, 2.0, 2.0), Some(true), "each has its own");
        assert_eq!(has_own_work(1.0, 1.0, 2.0), Some(false), "one thread does it all");
        assert_eq!(has_own_work(0.55, 3.0, 2.0), Some(false), "they share it, and take locks to do so");
        assert_eq!(has_own_work(1.0, 1.3, 2.0), None, "it runs for a time of its own");
        assert_eq!(has_own_work(1.0, 0.3, 2.0), None, "and does less in it");
    }

    #[test]
    fn a_program_without_locks_takes_none_as_often() {
        let said = |elapsed, taken| untold_work(Duration::from_millis(elapsed), [1, 2], taken);
        let without = said(20, [0, 0]);
        let words =
            "the program runs for 20.0 ms on 1 thread and on 2, and takes no lock that is recorded: what it";
        assert!(without.starts_with(words), "{without}");
        let some = said(1_000, [1_000, 1_300]);
        assert!(some.contains("for 1.00 s on 1 thread and on 2, and takes its locks 1.30 times"), "{some}");
    }

    pub(super) fn asked(command: &[&str], folder: &Path) -> Asked {
        Asked {
            library: Library(&[]),
            contend: PathBuf::new(),
            command: command.iter().map(OsString::from).collect(),
            threads: vec![1, 2],
            usual_threads: false,
            work: Counted::Same,
            target: topology::carried::machine("typical"),
            here: topology::carried::machine("typical"),
            time_limit: Duration::from_secs(10),
            folder: folder.to_owned(),
            is_kept: true,
        }
    }

    /// Why an argument is wrong, told before or with the first run of the program.
    fn refused(asked: &Asked) -> String {
        let error = measure(asked, &session::progress::Unwatched).unwrap_err();
        assert!(error.is::<UsageError>(), "{error:#}");
        format!("{error:#}")
    }

    #[test]
    fn a_metric_that_matches_nothing_is_an_error_of_the_first_run() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let script = format!("echo x >> {}; echo ops 5", runs.display());
        let regex = Regex::new("nope ([0-9]+)").unwrap();
        for (work, flag) in
            [(Counted::Throughput(regex.clone()), "--metric"), (Counted::Operations(regex), "--ops-regex")]
        {
            let said = refused(&Asked { work, ..asked(&["sh", "-c", &script, THREADS], folder.path()) });
            assert_eq!(
                said,
                format!(
                    "on 1 thread: no number in what the program wrote matches {flag} 'nope ([0-9]+)'; it wrote last:\n  ops 5"
                )
            );
        }
        assert_eq!(std::fs::read_to_string(runs).unwrap().lines().count(), 2, "one run each");
    }

    #[test]
    fn a_target_that_cannot_be_simulated_is_refused_before_any_run() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let mut asked =
            asked(&["sh", "-c", &format!("echo x >> {}", runs.display()), THREADS], folder.path());
        asked.target.topology.cores_per_die = 2_048;
        let said = refused(&asked);
        assert!(said.contains("--target") && said.contains("2048 cores"), "{said}");
        assert!(!runs.exists());
    }

    #[test]
    fn threads_of_which_fewer_ran_at_a_time_are_told_from_those_that_ran() {
        let mut table = voids::tests::table_beside_left_out(0.0);
        assert_eq!(at_a_time(&table), None, "its two threads ran together");
        table.header.concurrency = 1.2;
        assert_eq!(at_a_time(&table), Some(AtATime { threads: 2, ran: 1.2 }));
    }

    #[test]
    fn a_static_program_is_refused_before_any_run() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("static");
        let mut elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        elf.truncate(4096);
        elf[56..58].copy_from_slice(&[0, 0]); // no segments: no dynamic linker
        std::fs::write(&program, elf).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let said = refused(&asked(&[program.to_str().unwrap(), THREADS], folder.path()));
        assert!(said.starts_with("its locks can be neither recorded nor replaced: "), "{said}");
        assert!(said.ends_with(
            "is linked statically, so that no library can be loaded into it: link it dynamically"
        ));
        let missing = asked(&["./no-such-program", THREADS], folder.path());
        let error = measure(&missing, &session::progress::Unwatched).unwrap_err();
        assert!(error.is::<NotStarted>(), "it has an exit code of its own: {error:#}");
    }

    #[test]
    fn what_was_left_to_the_c_library_is_said_first_and_nothing_is_forecast() {
        let left_out = |missed_ns| LeftOut::of(&voids::tests::table_beside_left_out(missed_ns), true);
        let mut advice = advice();
        advice.left_out = left_out(8e8);
        assert!(advice.left_out.is_some());
        let said = advice.terminal(Screen::FILE).replace('\n', " ");
        let first = "1 mutex was left to the C library (priority-inheriting), which is neither recorded nor replaced: it may be what \
                     holds ./server back. TABLE (server.cpp:41, reader-writer lock) holds ./server back.";
        assert!(said.starts_with(first), "{said}");
        assert!(said.contains("No forecast for epyc-9654x2: its threads were blocked for 40 %"), "{said}");
        assert!(said.contains("`contend attach PID` shows waits for it"), "{said}");
        let cold = |own: f64| {
            let cases = vec![case(None, 1, &about(100.0)), case(None, 2, &about(own))];
            let mut measured = measured(cases, 2);
            measured.suspects[0].waited = 0.0;
            let mut advice = Advice::measured(target("epyc-9654x2"), measured);
            advice.left_out = left_out(8e8);
            advice
        };
        let said = cold(40.0).terminal(Screen::FILE).replace('\n', " ");
        assert!(said.contains("back. Of the locks that were recorded, TABLE"), "{said}");
        assert!(!said.contains("No lock holds"), "{said}");
        let mut none = cold(195.0);
        none.findings.clear();
        let said = none.terminal(Screen::FILE).replace('\n', " ");
        assert!(said.contains("it may hold ./server back on epyc-9654x2, though nothing does on 2 threads."));
        assert!(!said.contains("probably no lock will"), "{said}");
    }

    /// As without a site, which advice always names.
    #[test]
    fn nothing_is_forecast_of_a_lock_beside_longer_waits_for_one_that_is_no_pthreads() {
        let mut table = voids::tests::table_beside_left_out(0.0);
        let mut other = LockRow { name: "QUEUE".into(), ..table.rows[0].clone() };
        (other.exclusive.waits_only, other.exclusive.acquisitions) = (true, 0);
        other.exclusive.wait = profile::Times { count: 10, total_ns: 5e8, ..profile::Times::default() };
        table.rows.push(other);
        assert_eq!(advice().what_holds_back_besides(&table), None, "nothing was watched beside the recorder");
        table.header.beside = Some(profile::read::Attached::default());
        let void = advice().what_holds_back_besides(&table).expect("QUEUE takes more time");
        assert!(void.reason.contains("QUEUE, which is no pthread's lock"), "{void}");
    }

    #[test]
    fn a_loss_that_recorded_waits_explain_is_no_left_out_locks() {
        let table = voids::tests::table_beside_left_out(0.0);
        let of = |own: f64| {
            let cases = vec![case(None, 1, &about(100.0)), case(None, 2, &about(own))];
            Advice::measured(target("typical"), measured(cases, 2))
        };
        assert!(of(40.0).is_loss_unexplained(&table) && !of(196.0).is_loss_unexplained(&table));
        let mut waited = table;
        waited.rows[0].exclusive.wait =
            profile::Times { count: 10, total_ns: 2e9, ..profile::Times::default() };
        assert!(!of(40.0).is_loss_unexplained(&waited));
    }

    #[test]
    fn a_folder_keeps_one_command_and_nothing_that_cannot_be() {
        let folder = tempfile::tempdir().unwrap();
        let kept = measured(vec![case(None, 1, &about(1.0)), case(None, 2, &about(1.5))], 2);
        let asked = |last: &str| asked(&["./server", "--threads", last], folder.path());
        assert_eq!(Measured::read(folder.path(), &asked(THREADS)).unwrap(), None);
        kept.write(folder.path()).unwrap();
        assert!(!answers(&kept, &asked(THREADS)).unwrap(), "its profiles are not there");
        let kept_again = kept.clone();
        assert_eq!(Measured::read(folder.path(), &asked(THREADS)).unwrap(), Some(kept));
        let printed =
            Asked { work: Counted::Throughput(Regex::new("([0-9]+)/s").unwrap()), ..asked(THREADS) };
        let by_metric = format!("{:#}", Measured::read(folder.path(), &printed).unwrap_err());
        assert!(by_metric.contains("of wall time") && by_metric.contains("same --metric"), "{by_metric}");
        let other = format!("{:#}", Measured::read(folder.path(), &asked("x")).unwrap_err());
        assert!(other.contains("another command") && other.contains("-o"), "{other}");
        let program = folder.path().join("server");
        let built = |bytes: &str| {
            std::fs::write(&program, bytes).unwrap();
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            Asked { command: vec![program.clone().into()], ..asked(THREADS) }
        };
        let first = built("first");
        let of_first =
            Measured { command: first.words(), program: ProgramFile::of(&first), ..kept_again.clone() };
        of_first.write(folder.path()).unwrap();
        assert!(Measured::read(folder.path(), &first).is_ok());
        let anew = format!("{:#}", Measured::read(folder.path(), &built("another")).unwrap_err());
        assert!(anew.contains("was built anew") && anew.contains("-o"), "{anew}");
        kept_again.write(folder.path()).unwrap();
        let fewer = Asked { threads: vec![1], ..asked(THREADS) };
        let of_threads = format!("{:#}", Measured::read(folder.path(), &fewer).unwrap_err());
        assert!(of_threads.contains("on 1, 2 threads") && of_threads.contains("--threads"), "{of_threads}");
        assert!(Measured::read(folder.path(), &Asked { usual_threads: true, ..fewer }).is_ok());
        let file = folder.path().join("measured.json");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replacen("1.47", "-1.47", 1)).unwrap();
        assert!(Measured::read(folder.path(), &asked(THREADS)).is_err());
        forget(folder.path(), &[1, 2]).unwrap();
        assert_eq!(Measured::read(folder.path(), &asked(THREADS)).unwrap(), None);
    }
}
