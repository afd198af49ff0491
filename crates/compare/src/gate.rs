//! Base and candidate of a program, run in turn: whether a ratio got worse. Absolute times are never judged.

mod gated;
mod grown;
mod junit;
mod ratio;

pub use gated::{Failed, Gated, Outcome};
pub use grown::Grown;
pub use ratio::{Kind, Ratio, Verdict};

use crate::rounds::{End, LockRuns, Metric, Trial, measure};
use crate::statistics::Better;
use crate::trial;
use anyhow::Context as _;
use launch::{Launch, Library};
use profile::{LockRow, LockTable, Options, Profile};
use pthread::site::Site;
use report::text;
use session::noise::{Noise, Watch};
use session::progress::{Progress, Work};
use session::scratch::Scratch;
use session::{ensure_usage, host, interrupt, names};
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
    /// By how much a ratio may be worse, as a part of it.
    pub worse_by: f64,
    /// When a run is ended.
    pub time_limit: Duration,
    /// A folder in which every profile that is judged stays: `base-1.contend` and so on, by round.
    pub keep: Option<PathBuf>,
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

/// What a profile says that is judged.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Shares {
    /// The part of all acquisitions that waited; none without acquisitions.
    contended: Option<f64>,
    /// The part of its threads' time in which the lock asked for was held; none if it is not there.
    held: Option<f64>,
    /// Threads that touched a lock.
    threads: u64,
    /// Cores that the program might use.
    cores: u64,
}

/// What came of the runs, by case.
struct Measured {
    cases: Vec<Case>,
    rows: Vec<LockRuns>,
    /// Of the profiled cases, by round.
    shares: Vec<Vec<Shares>>,
    profiles: Profiles,
    noise: Noise,
}

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
                paths.iter().map(|path| self.stored(path)).collect::<anyhow::Result<_>>()?
            }
        };
        let measured = self.measure(progress)?;
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
            match gated.asked.grown(&measured.profiles) {
                Ok(grown) => gated.grown = grown,
                Err(error) => gated.remarks.push(format!("which lock grew cannot be told: {error:#}")),
            }
        }
        Ok(gated)
    }

    /// The locks that cost more in the candidate's last profile than in the base's; none where a program took no lock.
    fn grown(&self, profiles: &Profiles) -> anyhow::Result<Option<Vec<Grown>>> {
        let base = match &self.base {
            Base::Command(_) => profiles.file(Side::Base, self.runs as usize),
            Base::Profiles(paths) => paths.first().context("no profile of the base was given")?.clone(),
        };
        // Base and candidate do the same work in a run, however long it takes them.
        let options = Options { operations: Some(1), ..Options::default() };
        let candidate = profiles.file(Side::Candidate, self.runs as usize);
        if !base.exists() || !candidate.exists() {
            return Ok(None);
        }
        let table = |path| Ok::<_, profile::Error>(Profile::open(path)?.table(&options));
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

    /// What a stored profile of the base says.
    fn stored(&self, path: &Path) -> anyhow::Result<Shares> {
        let table = self.table(path)?;
        let shares = Shares::of(&table, self.site.as_deref());
        match &self.site {
            Some(site) if shares.held.is_none() => {
                Err(names::unknown_site(site, path, &lock_names(&table)).into())
            }
            _ => Ok(shares),
        }
    }

    fn table(&self, path: &Path) -> anyhow::Result<LockTable> {
        // Without a name to look for, nothing of the program's files is read.
        let options = Options { symbols: self.site.is_some(), ..Options::default() };
        Ok(Profile::open(path)?.table(&options))
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

    fn measure(&self, progress: &dyn Progress) -> anyhow::Result<Measured> {
        let cases = self.cases();
        let labels: Vec<String> = cases.iter().map(|case| case.name()).collect();
        let runs = self.runs as usize;
        let steps = progress.start(Work::Runs { later: Duration::ZERO }, cases.len() * (runs + 1));
        let profiles = Profiles::new(self.keep.as_deref())?;
        let mut shares = vec![Vec::new(); cases.len()];
        let mut warm_up = Vec::new();
        let mut ended = false;
        let watch = Watch::start();
        let rows = measure(&labels, runs, &self.metric, |number, round| {
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
                let (seen, locks) = self.seen(&file)?;
                if round == 0 {
                    let _ = std::fs::remove_file(&file); // it is not judged
                    warm_up.push((seen, locks));
                    self.find_site(&warm_up)?;
                } else {
                    shares[number].push(seen);
                }
            }
            Ok(Some(trial))
        })?;
        Ok(Measured { cases, rows, shares, profiles, noise: watch.stop() })
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
            command.args(["profile", "--quiet", "--output"]).arg(file).arg("--").args(&words);
            command
        } else {
            let (program, arguments) = words.split_first().context("no program was given after `--`")?;
            Launch::new(self.library, program, arguments).command()?
        };
        trial::run(command, self.time_limit)
    }

    /// What the profile of the last run says, if there is one, and the names of its locks.
    fn seen(&self, file: &Path) -> anyhow::Result<(Shares, Vec<String>)> {
        if !file.exists() {
            return Ok((Shares::default(), Vec::new()));
        }
        let table = self.table(file)?;
        let names = lock_names(&table).into_iter().map(str::to_owned).collect();
        Ok((Shares::of(&table, self.site.as_deref()), names))
    }

    /// Fails once both sides were profiled and neither has the lock that is asked for.
    fn find_site(&self, profiled: &[(Shares, Vec<String>)]) -> anyhow::Result<()> {
        let both = matches!(self.base, Base::Command(_)) && profiled.len() == 2;
        let Some(site) = self.site.as_ref().filter(|_| both) else { return Ok(()) };
        if profiled.iter().any(|(shares, _)| shares.held.is_some()) {
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
        let shares = |kind, of: fn(&Shares) -> Option<f64>| {
            let base = if stored.is_empty() { measured.shares(Side::Base) } else { stored };
            let [base, candidate] =
                [base, measured.shares(Side::Candidate)].map(|shares| shares.iter().map(of).collect());
            ratio(kind, self.threads.last().copied(), base, candidate)
        };
        all.push(shares(Kind::ContendedShare, |shares| shares.contended));
        if self.site.is_some() {
            all.push(shares(Kind::HeldShare, |shares| shares.held));
        }
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

impl Shares {
    fn of(table: &LockTable, site: Option<&str>) -> Self {
        // Of a lock of which only waits are known, no one knows the acquisitions.
        let known = || table.rows.iter().filter(|row| !row.exclusive.waits_only);
        let acquisitions: u64 = known().map(LockRow::acquisitions).sum();
        let contended: u64 = known().map(LockRow::contended).sum();
        Self {
            contended: (acquisitions > 0).then(|| contended as f64 / acquisitions as f64),
            held: site.and_then(|site| held_share(table, site)),
            threads: table.header.threads,
            cores: table.header.cores,
        }
    }
}

/// The share of the lock of this name, else the greatest of those that the site covers: that one saturates first.
fn held_share(table: &LockTable, site: &str) -> Option<f64> {
    let wanted = Site::parse(Site::without_number(site).as_bytes());
    if let Some(named) = table.rows.iter().chain(striped(table)).find(|row| row.name == site) {
        return named.share;
    }
    let covered = table.rows.iter().filter(|row| wanted.covers(&Site::parse(row.site.as_bytes())));
    covered.filter_map(|row| row.share).max_by(f64::total_cmp)
}

fn says_threads(command: &[OsString]) -> bool {
    command.iter().any(|word| word.to_str().is_some_and(|word| word.contains(THREADS)))
}

/// Each of them has the share of the lock that saturates first.
fn striped(table: &LockTable) -> impl Iterator<Item = &LockRow> {
    table.striped.iter().map(|striped| &striped.row)
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

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{LockKind, TableHeader, Usage};
    use pthread::object::ObjectKind;

    #[test]
    fn locks_whose_acquisitions_are_not_known_are_in_no_share() {
        let row = |name: &str, acquisitions, contended, waits_only| LockRow {
            exclusive: Usage { acquisitions, contended, waits_only, ..Usage::default() },
            ..LockRow::new(name, LockKind::Object(ObjectKind::Mutex))
        };
        let rows = vec![row("pool", 10, 1, false), row("std", 0, 5_000, true)];
        let table = LockTable {
            header: TableHeader::default(),
            rows,
            striped: Vec::new(),
            kernel: None,
            program: None,
        };
        assert_eq!(Shares::of(&table, None).contended, Some(0.1));
    }
}
