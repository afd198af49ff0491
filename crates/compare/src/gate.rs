//! Base and candidate of a program, run in turn: whether a ratio got worse. Absolute times are never judged.

mod gated;
mod grown;
mod junit;
mod ratio;
mod shares;

pub use gated::{Failed, Gated, Outcome};
pub use grown::Grown;
pub use ratio::{Kind, Ratio, Verdict};

use crate::rounds::{End, LockRuns, Metric, Trial, measure_until};
use crate::statistics::Better;
use crate::trial;
use anyhow::Context as _;
use launch::{Launch, Library};
use profile::{LockTable, Options};
use regex_lite::Regex;
use report::text;
use session::noise::{Limits, Noise, Watch};
use session::progress::{Progress, Work};
use session::scratch::Scratch;
use session::{ensure_usage, host, interrupt, names};
use shares::{Shares, striped};
use std::cell::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What stands for the number of threads in a command.
pub const THREADS: &str = "{threads}";

/// With fewer runs of each, the range of a ratio holds it less often than it says.
pub const LEAST_RUNS: u32 = crate::statistics::LEAST_RUNS as u32;

/// The program as it was.
#[derive(Debug, Clone)]
pub enum Base {
    /// A command, in which [`THREADS`] stands for the number of threads.
    Command(Vec<OsString>),
    /// Profiles that were taken of it.
    Profiles(Vec<PathBuf>),
}

/// What is run, and what is judged.
#[derive(Debug)]
pub struct Gate {
    /// What the program's locks are recorded with.
    pub library: Library,
    /// The command itself, which records profiles.
    pub contend: PathBuf,
    /// The program as it was.
    pub base: Base,
    /// The program as it is now: a command as the base's.
    pub candidate: Vec<OsString>,
    /// Numbers of threads, ascending. Profiles are taken on the last one; scaling is from the first one.
    pub threads: Vec<u32>,
    /// Runs of each after the warm-up.
    pub runs: u32,
    /// What scaling is a ratio of.
    pub metric: Metric,
    /// Each thread has the same work, however many there are; else all share one work. Matters for times.
    pub per_thread: bool,
    /// A lock whose share is judged.
    pub site: Option<String>,
    /// How many operations a run is, where acquisitions for one are judged.
    pub operations: Option<Operations>,
    /// By how much a ratio may be worse, as a part of it.
    pub worse_by: f64,
    /// How busy the machine may be.
    pub noise_limits: Limits,
    /// When a run is ended.
    pub time_limit: Duration,
    /// A folder in which every profile that is judged stays: `base-1.contend` and so on, by round.
    pub keep: Option<PathBuf>,
}

/// How many operations a run of the program is.
#[derive(Debug, Clone)]
pub enum Operations {
    /// Always so many.
    Fixed(u64),
    /// What it prints last that this matches: the first group is the number.
    Printed(Regex),
}

/// Whose run it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The program as it was.
    Base,
    /// The program as it is now.
    Candidate,
}

impl Side {
    /// A word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Candidate => "candidate",
        }
    }
}

/// One of the runs of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    side: Side,
    /// None if nothing in the command stands for it.
    threads: Option<u32>,
    profiled: bool,
}

impl Case {
    fn name(self) -> String {
        let threads = self.threads.map_or(String::new(), |threads| format!(" on {threads}"));
        format!("{}{threads}{}", self.side.name(), if self.profiled { ", profiled" } else { "" })
    }
}

/// What came of the runs, by case.
struct Measured {
    cases: Vec<Case>,
    rows: Vec<LockRuns>,
    /// Of the profiled cases, by round.
    shares: Vec<Vec<Shares>>,
    profiles: Profiles,
    noise: Noise,
    /// The last round.
    rounds: usize,
}

/// What a profile says, and the names of its locks.
type Seen = (Shares, Vec<String>);

/// Where the profiles of the runs are.
struct Profiles {
    folder: PathBuf,
    /// By round, else the last of each side alone.
    all: bool,
    /// What removes the folder when the gate ends, if it is not to be kept.
    _scratch: Option<Scratch>,
}

impl Profiles {
    fn new(keep: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(folder) = keep {
            let cannot = || format!("cannot make the folder {}", folder.display());
            std::fs::create_dir_all(folder).with_context(cannot)?;
            return Ok(Self { folder: folder.to_owned(), all: true, _scratch: None });
        }
        let scratch = Scratch::new()?;
        Ok(Self { folder: scratch.path().to_owned(), all: false, _scratch: Some(scratch) })
    }

    /// The profile of a side in a round, of which 0 is the warm-up.
    fn file(&self, side: Side, round: usize) -> PathBuf {
        let name = side.name();
        self.folder.join(match round {
            0 => format!("{name}-warm-up.contend"),
            _ if self.all => format!("{name}-{round}.contend"),
            _ => format!("{name}.contend"),
        })
    }
}

impl Gate {
    /// Runs base and candidate: each once to warm up, then interleaved in rounds. Ends at the first run that fails, and after an
    /// interrupt that was noted.
    ///
    /// # Errors
    ///
    /// A command that says nothing of threads or cannot be started, a profile that cannot be read, or a lock that is nowhere.
    pub fn run(self, progress: &dyn Progress) -> anyhow::Result<Gated> {
        self.check()?;
        let stored = match &self.base {
            Base::Command(_) => Vec::new(),
            Base::Profiles(paths) => {
                paths.iter().map(|path| self.read(path)).collect::<anyhow::Result<Vec<_>>>()?
            }
        };
        let measured = self.measure(progress, &stored)?;
        let stored: Vec<Shares> = stored.into_iter().map(|(shares, _)| shares).collect();
        let candidate = measured.shares(Side::Candidate).last().copied();
        let remarks = self.remarks(stored.first().copied().zip(candidate));
        let failed = measured.cases.iter().zip(&measured.rows).find_map(|(case, row)| {
            let why = crate::comparison::describe(row.failure?);
            Some(Failed { what: case.name(), why, output_tail: row.output_tail.clone() })
        });
        let mut gated = Gated {
            ratios: self.ratios(&measured, &stored),
            failed,
            noise: measured.noise,
            cut_short: interrupt::came(),
            remarks,
            grown: None,
            asked: self,
        };
        if gated.outcome() == Outcome::Worse {
            match gated.asked.grown(&measured.profiles, measured.rounds) {
                Ok(grown) => gated.grown = grown,
                Err(error) => gated.remarks.push(format!("which lock grew cannot be told: {error:#}")),
            }
        }
        Ok(gated)
    }

    /// The locks that cost more in the candidate's last profile than in the base's; none where a program took no lock.
    fn grown(&self, profiles: &Profiles, round: usize) -> anyhow::Result<Option<Vec<Grown>>> {
        let base = match &self.base {
            Base::Command(_) => profiles.file(Side::Base, round),
            Base::Profiles(paths) => paths.first().context("no profile of the base was given")?.clone(),
        };
        // Base and candidate do the same work in a run, however long it takes them.
        let options = Options { operations: Some(1), ..Options::default() };
        let candidate = profiles.file(Side::Candidate, round);
        if !base.exists() || !candidate.exists() {
            return Ok(None);
        }
        let table = |path| LockTable::open(path, &options);
        Ok(Some(grown::locks(&table(base)?, &table(candidate)?)))
    }

    /// Whether what is asked for can be run.
    fn check(&self) -> anyhow::Result<()> {
        let mut commands = vec![(Side::Candidate, &self.candidate)];
        if let Base::Command(base) = &self.base {
            // A base of one word gets the candidate's arguments, and with them the number of threads.
            commands.push((Side::Base, base));
            for (side, command) in &commands {
                let line: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
                ensure_usage!(
                    says_threads(command),
                    "the command of the {}, `{}`, does not say where its number of threads goes: write {THREADS} there, as in \
                     `./server --threads {THREADS}`; options of contend stand before --base",
                    side.name(),
                    text::printable(&line.join(" "))
                );
            }
            ensure_usage!(
                self.threads.len() > 1,
                "scaling is from one number of threads to another: give two, such as --threads 1,4"
            );
        } else {
            ensure_usage!(
                self.threads.len() == usize::from(says_threads(&self.candidate)),
                "beside a stored profile, say on how many threads that was taken: write {THREADS} in the command and give one \
                 number, such as --threads 4, or write the number itself and leave out --threads"
            );
        }
        for (_, command) in commands {
            let words = words(command, self.threads.last().copied());
            let (program, arguments) = words.split_first().context("no program was given after `--`")?;
            Launch::new(self.library, program, arguments).check()?;
        }
        Ok(())
    }

    fn table(&self, path: &Path) -> anyhow::Result<LockTable> {
        let operations = match self.operations {
            Some(Operations::Fixed(operations)) => Some(operations),
            _ => None,
        };
        // Without a name to look for, nothing of the program's files is read.
        let options = Options { symbols: self.site.is_some(), operations, ..Options::default() };
        Ok(LockTable::open(path, &options)?)
    }

    /// The runs of a round.
    fn cases(&self) -> Vec<Case> {
        let sides: &[Side] = match self.base {
            Base::Command(_) => &[Side::Base, Side::Candidate],
            Base::Profiles(_) => &[Side::Candidate],
        };
        let of_each = |threads: Option<u32>, profiled: bool| {
            sides.iter().map(move |&side| Case { side, threads, profiled })
        };
        let mut cases = Vec::new();
        if let Base::Command(_) = self.base {
            cases.extend(self.threads.iter().flat_map(|&threads| of_each(Some(threads), false)));
        }
        cases.extend(of_each(self.threads.last().copied(), true));
        cases
    }

    /// Runs everything; `stored` is what the stored profiles of the base say.
    fn measure(&self, progress: &dyn Progress, stored: &[Seen]) -> anyhow::Result<Measured> {
        let cases = self.cases();
        let labels: Vec<String> = cases.iter().map(|case| case.name()).collect();
        let runs = self.runs as usize;
        let steps = progress.start(Work::Runs { later: Duration::ZERO }, cases.len() * (runs + 1));
        let profiles = Profiles::new(self.keep.as_deref())?;
        let mut shares = vec![Vec::new(); cases.len()];
        let mut warm_up = stored.to_vec();
        let mut ended = false;
        let watch = Watch::start();
        let busy = Cell::new(None);
        let run = |number: usize, round: usize| {
            if ended {
                return Ok(None);
            }
            let case = cases[number];
            steps.begin(&labels[number]);
            let file = profiles.file(case.side, round);
            let trial = self.run_once(case, &file)?;
            if interrupt::came() {
                return Ok(None);
            }
            steps.done();
            ended = trial.end != End::Exited(0) || self.metric.of(&trial).is_none();
            if case.profiled && !ended {
                let seen = self.seen(&file)?;
                if round == 0 {
                    let _ = std::fs::remove_file(&file); // it is not judged
                    warm_up.push(seen);
                    self.find_site(&warm_up, stored.len())?;
                } else {
                    shares[number].push(seen.0);
                }
            }
            Ok(Some(trial))
        };
        let needed = |number: usize, _| busy.get().is_none() || cases[number].profiled;
        let enough = |rows: &[LockRuns]| {
            let round = rows.iter().map(|row| row.values.len()).max().unwrap_or(0);
            if busy.get().is_none() {
                busy.set(self.hopeless(watch.stop(), round));
            }
            let goes_on =
                round < LEAST_RUNS as usize && self.kinds().any(|kind| self.judges_under_load(kind));
            busy.get().is_some() && !goes_on
        };
        let rows = measure_until(&labels, runs, &self.metric, needed, run, enough)?;
        let rounds = rows.iter().map(|row| row.values.len()).max().unwrap_or(0);
        let noise = busy.get().unwrap_or_else(|| watch.stop());
        Ok(Measured { cases, rows, shares, profiles, noise, rounds })
    }

    /// The noise from the warm-up to this round, if it is too much even if all rounds that are left are quiet.
    fn hopeless(&self, noise: Noise, round: usize) -> Option<Noise> {
        let part = (round + 1) as f64 / (f64::from(self.runs) + 1.0);
        (!noise.diluted(part).disturbances_over(&self.noise_limits).is_empty()).then_some(noise)
    }

    /// Whether this is judged on a busy machine. A stored profile was taken under another load.
    fn judges_under_load(&self, kind: Kind) -> bool {
        matches!(self.base, Base::Command(_)) && kind.is_judged_under_load()
    }

    /// What is judged by profiles.
    fn kinds(&self) -> impl Iterator<Item = Kind> {
        let acquisitions = self.operations.as_ref().map(|_| Kind::Acquisitions);
        let held = self.site.as_ref().map(|_| Kind::HeldShare);
        std::iter::once(Kind::ContendedShare).chain(acquisitions).chain(held)
    }

    /// Runs the program once; leaves a profile in the file if it records anything.
    fn run_once(&self, case: Case, file: &Path) -> anyhow::Result<Trial> {
        let command = match (case.side, &self.base) {
            (Side::Base, Base::Command(base)) => base,
            _ => &self.candidate,
        };
        let words = words(command, case.threads);
        let command = if case.profiled {
            let _ = std::fs::remove_file(file); // that of the last run, if there was one
            let mut command = Command::new(&self.contend);
            command.args(["profile", "--quiet", "--output"]).arg(file);
            if let Some(Operations::Printed(regex)) = &self.operations {
                command.args(["--ops-regex", regex.as_str()]);
            }
            command.arg("--").args(&words);
            command
        } else {
            let (program, arguments) = words.split_first().context("no program was given after `--`")?;
            Launch::new(self.library, program, arguments).command()?
        };
        trial::run(command, self.time_limit)
    }

    /// What a profile says, if it is there.
    fn seen(&self, file: &Path) -> anyhow::Result<Seen> {
        if file.exists() { self.read(file) } else { Ok(Seen::default()) }
    }

    fn read(&self, file: &Path) -> anyhow::Result<Seen> {
        let table = self.table(file)?;
        let names = lock_names(&table).into_iter().map(str::to_owned).collect();
        Ok((Shares::of(&table, self.site.as_deref()), names))
    }

    /// Fails once both sides were profiled, of which so many profiles were stored, and neither has the lock that is asked for.
    fn find_site(&self, profiled: &[Seen], stored: usize) -> anyhow::Result<()> {
        let both = profiled.len() == if stored > 0 { stored + 1 } else { 2 };
        let Some(site) = self.site.as_ref().filter(|_| both) else { return Ok(()) };
        if profiled.iter().any(|(shares, _)| shares.has_site) {
            return Ok(());
        }
        let known = profiled.iter().flat_map(|(_, locks)| locks.iter().map(String::as_str));
        Err(names::unknown("lock of the site", site, known, "`contend profile -- CMD` lists them").into())
    }

    /// Everything that can be judged of what was measured.
    fn ratios(&self, measured: &Measured, stored: &[Shares]) -> Vec<Ratio> {
        let ratio = |kind, threads, base, candidate| {
            let better = if kind == Kind::Scaling { Better::Higher } else { Better::Lower };
            let site = if kind == Kind::HeldShare { self.site.clone() } else { None };
            Ratio::judged(kind, site, threads, [base, candidate], better, self.worse_by)
        };
        let mut all = Vec::new();
        if let (Base::Command(_), [one, more @ ..]) = (&self.base, &self.threads[..]) {
            for &threads in more {
                let of = |side| self.speedups(measured, side, [*one, threads]);
                all.push(ratio(Kind::Scaling, Some(threads), of(Side::Base), of(Side::Candidate)));
            }
        }
        let base = if stored.is_empty() { measured.shares(Side::Base) } else { stored };
        let candidate = measured.shares(Side::Candidate);
        all.extend(self.kinds().map(|kind| {
            let [base, candidate] = shares::sides(kind, base, candidate);
            ratio(kind, self.threads.last().copied(), base, candidate)
        }));
        all
    }

    /// How much faster a side got its work done on many threads than on one, by round.
    fn speedups(&self, measured: &Measured, side: Side, [one, many]: [u32; 2]) -> Vec<Option<f64>> {
        let work = if self.per_thread { f64::from(many) / f64::from(one) } else { 1.0 };
        let [of_one, of_many] = [one, many].map(|threads| measured.values(side, threads));
        let speedup = |(&one, &many): (&Option<f64>, &Option<f64>)| {
            let speedup = match self.metric.better() {
                Better::Lower => work * one? / many?,
                // What does no work gets nothing faster, whether it did any on one thread or not.
                Better::Higher if many? == 0.0 => 0.0,
                Better::Higher => many? / one?,
            };
            Some(speedup).filter(|speedup| speedup.is_finite())
        };
        of_one.iter().zip(of_many).map(speedup).collect()
    }

    /// What the user may not expect, of this machine and of a stored profile beside a run of the candidate.
    fn remarks(&self, stored_and_candidate: Option<(Shares, Shares)>) -> Vec<String> {
        let mut remarks = Vec::new();
        let cores = host::allowed_cores().len();
        let threads = self.threads.last().copied().unwrap_or(0);
        if threads as usize > cores {
            remarks.push(format!(
                "{threads} threads take turns on {cores} {}: scaling ends there",
                if cores == 1 { "core" } else { "cores" }
            ));
        }
        if let Some((stored, candidate)) = stored_and_candidate {
            for (what, stored, candidate) in [
                ("threads that took a lock", stored.threads, candidate.threads),
                ("cores", stored.cores, candidate.cores),
            ] {
                if stored != candidate {
                    remarks.push(format!(
                        "the stored profile has {stored} {what}, the candidate's {candidate}: shares depend on that"
                    ));
                }
            }
        }
        remarks
    }
}

impl Measured {
    /// The metric of a side on so many threads, by round.
    fn values(&self, side: Side, threads: u32) -> &[Option<f64>] {
        let case = Case { side, threads: Some(threads), profiled: false };
        let row = self.cases.iter().position(|&known| known == case);
        row.map_or(&[], |row| &self.rows[row].values)
    }

    /// What the profiles of a side say, by round.
    fn shares(&self, side: Side) -> &[Shares] {
        let row = self.cases.iter().position(|case| case.side == side && case.profiled);
        row.map_or(&[], |row| &self.shares[row])
    }
}

fn says_threads(command: &[OsString]) -> bool {
    command.iter().any(|word| word.to_str().is_some_and(|word| word.contains(THREADS)))
}

fn lock_names(table: &LockTable) -> Vec<&str> {
    table.rows.iter().chain(striped(table)).map(|row| row.name.as_str()).collect()
}

/// The words of a command on so many threads. One that is no text stays as it is.
fn words(command: &[OsString], threads: Option<u32>) -> Vec<OsString> {
    let word = |word: &OsString| match (word.to_str(), threads) {
        (Some(text), Some(threads)) => text.replace(THREADS, &threads.to_string()).into(),
        _ => word.clone(),
    };
    command.iter().map(word).collect()
}
