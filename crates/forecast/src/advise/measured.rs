//! What was measured of a program, unrecorded, and the folder that keeps it beside the program's profiles.

use super::suspects::Suspect;
use crate::folder::remove_all;
use crate::{Void, void};
use anyhow::{Context as _, ensure};
use compare::comparison::describe;
use compare::rounds::{LockRuns, Metric, Trial};
use compare::statistics::{self, Better, LikelyRatio, Verdict};
use curve::Point;
use launch::program::Program;
use report::Spread;
use serde::{Deserialize, Serialize};
use session::noise::Noise;
use session::output_file::OutputFile;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The program on a number of threads, with its own locks or with one of them replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The lock that is replaced, as `--only` takes it, and by which; none for the program as it is.
    pub swap: Option<(String, String)>,
    /// How many threads it runs.
    pub threads: u32,
    /// Work for one second, by round, in any unit.
    pub rates: Vec<Option<f64>>,
    /// How many cores it kept busy, by run.
    pub cores_busy: Vec<f64>,
    /// Why it has no more runs.
    pub failure: Option<String>,
    /// The program did not end in what was left of the time limit with this lock: with more time it may.
    #[serde(default)]
    pub is_cut_off: bool,
    /// The lock was found and replaced; true where none was to be.
    pub replaced: bool,
}

impl Case {
    /// What the rounds found. Wall times become work for one second: `work` is what a run does.
    pub(super) fn of(case: &Self, runs: &LockRuns, better: Better, work: f64) -> Self {
        Self {
            rates: runs.values.iter().map(|value| rate(better, (*value)?, work)).collect(),
            cores_busy: runs.cores_busy.clone(),
            failure: case.failure.clone().or_else(|| runs.failure.map(describe)),
            ..case.clone()
        }
    }

    /// Why it has no more runs, and the remedy where there is one.
    pub(super) fn failed(&self) -> Option<String> {
        if self.is_cut_off {
            return Some("had too little time: give it more with --time-limit".into());
        }
        self.failure.clone()
    }

    fn is_of(&self, swap: Option<(&str, &str)>, threads: u32) -> bool {
        let own = self.swap.as_ref().map(|(site, lock)| (site.as_str(), lock.as_str()));
        own == swap && self.threads == threads
    }

    /// Work for one second, in the median.
    fn median(&self) -> Option<f64> {
        let rates: Vec<_> = self.rates.iter().flatten().copied().collect();
        statistics::spread(&rates).map(|rates| rates.median)
    }

    /// How many cores it kept busy, in the median.
    #[must_use]
    pub fn busy(&self) -> Option<f64> {
        statistics::spread(&self.cores_busy).map(|busy| busy.median)
    }
}

/// Work for one second, where a run does `work` in the time `value` or prints its rate; none of a run that did nothing.
fn rate(better: Better, value: f64, work: f64) -> Option<f64> {
    let rate = if better == Better::Lower { work / value.max(1e-9) } else { value };
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// The file of a program, by which it is seen that the program was built anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramFile {
    /// Where it is.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
    /// When it was written, ns since 1970.
    pub modified_ns: u64,
}

impl ProgramFile {
    /// That of the program that is asked about.
    pub(super) fn of(asked: &super::Asked) -> Option<Self> {
        let path = Program::find(asked.command.first()?).ok()?.path().canonicalize().ok()?;
        let data = path.metadata().ok()?;
        let since = data.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Self { path, bytes: data.len(), modified_ns: since.as_nanos() as u64 })
    }
}

/// Threads that took turns for a part of their time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtATime {
    /// How many there are.
    pub threads: u32,
    /// How many of them ran or waited for a lock at a time.
    pub ran: f64,
}

/// All that was measured, of which answers for any target are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The program and its arguments, with `{threads}` where the number goes.
    pub command: Vec<String>,
    /// The file of the program; none if it is not known.
    #[serde(default)]
    pub program: Option<ProgramFile>,
    /// How it is known what a run has done.
    pub counted: String,
    /// Cores that it may use.
    pub cores: u32,
    /// Hardware threads that it may run on, of whose time `noise` has shares, however many of them a quota leaves; none if that is not known.
    #[serde(default)]
    pub hardware_threads: Option<u32>,
    /// Numbers of threads, ascending.
    pub threads: Vec<u32>,
    /// Where the command takes no number of threads: those that took its locks, if fewer of them ran at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_a_time: Option<AtATime>,
    /// Each thread has work of its own, however many there are.
    pub per_thread: bool,
    /// How many times as long it took on the fewest threads while it was recorded.
    pub stretch: Option<f64>,
    /// The locks that were looked at.
    pub suspects: Vec<Suspect>,
    /// What was run.
    pub cases: Vec<Case>,
    /// What else the machine did.
    pub noise: Noise,
    /// Not all rounds were run, because of an interrupt.
    pub cut_short: bool,
    /// All runs were to end after so long, s.
    #[serde(default = "usual_time_limit_s")]
    pub time_limit_s: f64,
}

/// The time limit of what was kept before it was kept itself: the one that is in force where none is given.
fn usual_time_limit_s() -> f64 {
    180.0
}

impl Measured {
    /// The program and its arguments for so many threads.
    pub(super) fn words(&self, threads: u32) -> Vec<String> {
        self.command.iter().map(|word| word.replace(compare::gate::THREADS, &threads.to_string())).collect()
    }

    /// The most threads that have a core each, in words.
    pub(super) fn most_in_words(&self) -> String {
        match self.at_a_time {
            Some(AtATime { threads, .. }) => format!("its {threads} threads"),
            None => super::threads_in_words(self.most()),
        }
    }

    /// The work of a run, in any unit, by its number of threads.
    pub(super) fn work(&self, threads: u32) -> f64 {
        if self.per_thread { f64::from(threads) } else { 1.0 }
    }

    /// Where no round was finished, the runs before them are what is known of the program as it is: one for each number of threads.
    pub(super) fn keep_runs_before(&mut self, metric: &Metric, alone: &[Trial]) {
        for (threads, trial) in self.threads.clone().into_iter().zip(alone) {
            let work = self.work(threads);
            let Some(own) = self.cases.iter_mut().find(|case| case.is_of(None, threads)) else { continue };
            if own.rates.is_empty() {
                let value = metric.of(trial);
                own.rates = vec![value.and_then(|value| rate(metric.better(), value, work))];
                own.cores_busy = trial.cores_busy().into_iter().collect();
            }
        }
    }

    /// A case; none if it was not run.
    #[must_use]
    pub fn case(&self, swap: Option<(&str, &str)>, threads: u32) -> Option<&Case> {
        self.cases.iter().find(|case| case.is_of(swap, threads))
    }

    /// Work relative to the program as it is on the fewest threads: medians of the runs, and the range that these lie in.
    #[must_use]
    pub fn points(&self, swap: Option<(&str, &str)>) -> Vec<Point> {
        self.relative(swap, statistics::spread)
    }

    /// The same with the range in which the median of more runs would lie: what a forecast goes on from. One run that something
    /// disturbed says nothing of how sure the others are.
    pub(super) fn medians(&self, swap: Option<(&str, &str)>) -> Vec<Point> {
        self.relative(swap, statistics::of_median)
    }

    fn relative(&self, swap: Option<(&str, &str)>, range: fn(&[f64]) -> Option<Spread>) -> Vec<Point> {
        let rates = |swap, threads| {
            let case: Option<&Case> = self.case(swap, threads).filter(|case| case.replaced);
            case.map(|case| case.rates.iter().flatten().copied().collect::<Vec<_>>()).unwrap_or_default()
        };
        let Some(base) = statistics::spread(&rates(None, self.threads[0])).filter(|base| base.median > 0.0)
        else {
            return Vec::new();
        };
        let relative = |&threads: &u32| {
            let all: Vec<_> = rates(swap, threads).iter().map(|rate| rate / base.median).collect();
            range(&all).map(|Spread { low, median, high }| Point { cores: threads, value: median, low, high })
        };
        self.threads.iter().filter_map(relative).collect()
    }

    /// The locks that were put in the place of a suspect.
    pub fn tried<'a>(&'a self, site: &'a str) -> Vec<&'a str> {
        let swaps = self.cases.iter().filter_map(|case| case.swap.as_ref());
        let mut tried: Vec<&str> =
            swaps.filter(|(of, _)| of == site).map(|(_, lock)| lock.as_str()).collect();
        tried.dedup();
        let mut once = Vec::new();
        for lock in tried {
            if !once.contains(&lock) {
                once.push(lock);
            }
        }
        once
    }

    /// How many times the work of the program as it is, on as many threads, and what chance leaves of that.
    ///
    /// The ratio is that of the two medians, which [`points`](Self::points) show, and not the median of the ratios of all pairs
    /// of runs: a user who divides the figures of the table gets the gain that is told. Where runs scatter so that it lies
    /// outside of what chance leaves, it is the end of that range.
    #[must_use]
    pub fn gain(&self, swap: (&str, &str), threads: u32) -> Option<(LikelyRatio, Verdict)> {
        let own = self.case(None, threads)?;
        let swapped = self.case(Some(swap), threads).filter(|case| case.replaced)?;
        let mut likely = statistics::likely_ratio(&own.rates, &swapped.rates, Better::Higher)?;
        let of_medians = swapped.median()? / own.median()?;
        likely.range.median = of_medians.clamp(likely.range.low, likely.range.high);
        Some((likely, statistics::verdict(&own.rates, &swapped.rates, Better::Higher, 0.0)?))
    }

    /// Whether there are so few runs with this lock, on so many threads, that they decide nothing.
    pub(super) fn is_undecided(&self, swap: (&str, &str), threads: u32) -> bool {
        let runs =
            |swap| self.case(swap, threads).map_or(0, |case: &Case| case.rates.iter().flatten().count());
        runs(None).min(runs(Some(swap))) < statistics::LEAST_RUNS
    }

    /// Whether there is any lock that was tried of which this is so, or that had too little time.
    pub(super) fn is_any_undecided(&self) -> bool {
        let most = self.most();
        self.cases.iter().any(|case| {
            let swap = case.swap.as_ref().map(|(site, lock)| (site.as_str(), lock.as_str()));
            let has_few = case.threads == most && case.failure.is_none() && case.replaced;
            case.is_cut_off || has_few && swap.is_some_and(|swap| self.is_undecided(swap, most))
        })
    }

    /// Why nothing is said of what was measured, if the machine was too busy.
    pub(super) fn void(&self) -> Option<Void> {
        // Without a round it tells of next to no time.
        let has_rounds =
            !self.cut_short || self.cases.iter().any(|case| case.swap.is_some() && !case.rates.is_empty());
        let hardware_threads = self.hardware_threads.unwrap_or(self.cores);
        void::of_noise(&self.noise, self.most(), hardware_threads).filter(|_| has_rounds)
    }

    /// The most threads that have a core each.
    #[must_use]
    pub fn most(&self) -> u32 {
        let fitting = self.threads.iter().copied().filter(|&threads| threads <= self.cores);
        fitting.max().unwrap_or(self.threads[0])
    }

    fn file(folder: &Path) -> PathBuf {
        folder.join("measured.json")
    }

    /// Keeps it in a folder.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        OutputFile::at(&Self::file(folder))?.write(&serde_json::to_string_pretty(self)?)
    }

    /// What a folder keeps; none if that is nothing yet.
    ///
    /// # Errors
    ///
    /// It keeps another program, or what cannot have been measured.
    pub(super) fn read(folder: &Path, asked: &super::Asked) -> anyhow::Result<Option<Self>> {
        let file = Self::file(folder);
        let text = match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", file.display()))?,
        };
        let remedy = || format!("{}: name another folder with -o, or remove this one", file.display());
        let kept: Self = serde_json::from_str(&text).with_context(remedy)?;
        let figures = kept.cases.iter().flat_map(|case| case.rates.iter().flatten());
        let is_measured = |rate: &f64| rate.is_finite() && *rate > 0.0;
        ensure!(
            kept.threads.first().is_some_and(|&first| first > 0)
                && kept.threads.is_sorted()
                && figures.clone().all(is_measured),
            "{} holds what cannot have been measured: name another folder with -o, or remove this one",
            file.display()
        );
        ensure!(
            kept.command == asked.words(),
            "{} keeps what was measured of another command, `{}`: name another folder with -o",
            folder.display(),
            report::text::printable(&kept.command.join(" "))
        );
        // Another machine may have it elsewhere, or not at all.
        let now = ProgramFile::of(asked);
        let is_another = |(now, then): (&ProgramFile, &ProgramFile)| now.path == then.path && now != then;
        ensure!(
            !now.as_ref().zip(kept.program.as_ref()).is_some_and(is_another),
            "{} keeps what was measured before {} was built anew: name another folder with -o, or remove this one",
            folder.display(),
            report::text::printable(&kept.command[0])
        );
        ensure!(
            kept.counted == asked.work_in_words(),
            "{} keeps measurements of {}, and this asks for {}: name another folder with -o, or ask with the same --metric or --ops-regex",
            folder.display(),
            report::text::printable(&kept.counted),
            report::text::printable(&asked.work_in_words())
        );
        ensure!(
            asked.usual_threads || kept.threads == asked.threads,
            "{} keeps what was measured on {} threads: leave out --threads, or name another folder with -o",
            folder.display(),
            kept.threads.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
        );
        Ok(Some(kept))
    }
}

/// Makes a folder forget what it keeps of a program, so that this is measured again.
///
/// # Errors
///
/// A file cannot be removed.
pub fn forget(folder: &Path, threads: &[u32]) -> anyhow::Result<()> {
    let profiles = threads.iter().map(|&threads| profile_file(folder, threads));
    remove_all(profiles.chain([Measured::file(folder)]))
}

/// The profile on so many threads.
pub(super) fn profile_file(folder: &Path, threads: u32) -> PathBuf {
    folder.join(format!("threads-{threads}.contend"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::advise) fn case(swap: Option<(&str, &str)>, threads: u32, rates: &[f64]) -> Case {
        Case {
            swap: swap.map(|(site, lock)| (site.to_owned(), lock.to_owned())),
            threads,
            rates: rates.iter().copied().map(Some).collect(),
            cores_busy: rates.iter().map(|_| f64::from(threads) * 0.9).collect(),
            failure: None,
            is_cut_off: false,
            replaced: true,
        }
    }

    /// Five rounds that differ a little.
    pub(in crate::advise) fn about(rate: f64) -> [f64; 5] {
        [0.98, 0.99, 1.0, 1.01, 1.02].map(|share| share * rate)
    }

    fn trial(output: &str) -> Trial {
        let elapsed = std::time::Duration::from_secs(2);
        Trial { end: compare::rounds::End::Exited(0), elapsed, cpu: elapsed, output: output.to_owned() }
    }

    #[test]
    fn before_the_first_round_the_runs_as_it_is_are_what_is_known() {
        let own = |threads| case(None, threads, &[]);
        let cases = vec![own(1), own(2), case(Some(("TABLE", "rw")), 2, &[])];
        let mut measured = super::super::tests::measured(cases, 2);
        let alone = [trial(""), trial("")];
        measured.keep_runs_before(&Metric::WallTime, &alone);
        assert_eq!(measured.points(None).iter().map(|point| point.value).collect::<Vec<_>>(), [1.0, 1.0]);
        assert_eq!(measured.cases[0].busy(), Some(1.0));
        assert!(
            measured.points(Some(("TABLE", "rw"))).is_empty() && measured.is_undecided(("TABLE", "rw"), 2)
        );
        measured.cases[0].rates = vec![Some(7.0)];
        measured.keep_runs_before(&Metric::WallTime, &alone);
        assert_eq!(measured.cases[0].rates, [Some(7.0)], "a round is better");
    }

    #[test]
    fn a_lock_that_had_too_little_time_is_measured_again_with_more() {
        let few = |is_cut_off| Case {
            failure: Some("timed out in round 3".into()),
            is_cut_off,
            ..case(Some(("TABLE", "rw")), 1, &[])
        };
        let measured = |swapped| {
            let cases = vec![case(None, 1, &about(100.0)), case(None, 2, &about(20.0)), swapped];
            super::super::tests::measured(cases, 2)
        };
        assert!(!measured(few(false)).is_any_undecided(), "it hung");
        assert!(measured(few(true)).is_any_undecided());
    }

    #[test]
    fn what_was_measured_beside_other_programs_is_void() {
        let swap = Some(("TABLE", "rw"));
        let cases = vec![case(None, 2, &about(20.0)), case(swap, 2, &[])];
        let mut measured = super::super::tests::measured(cases, 2);
        assert_eq!(measured.void(), None);
        measured.noise.others_share = Some(0.58);
        assert!(measured.void().is_some_and(|void| void.reason.contains("58 %")));
        measured.hardware_threads = Some(64);
        assert_eq!(measured.void(), None, "a quota leaves it two of the many cores");
        (measured.hardware_threads, measured.cut_short) = (None, true);
        assert_eq!(measured.void(), None, "no round was run");
        measured.cases[1].rates = vec![Some(30.0)];
        assert!(measured.void().is_some());
    }

    #[test]
    fn a_run_that_did_nothing_has_no_rate() {
        assert_eq!(rate(Better::Higher, 0.0, 1.0), None);
        assert_eq!(rate(Better::Higher, -1.0, 1.0), None);
        assert_eq!(rate(Better::Lower, 0.5, 2.0), Some(4.0));
    }

    #[test]
    fn points_are_relative_to_the_program_on_the_fewest_threads() {
        let swap = Some(("TABLE", "rw"));
        let measured = Measured {
            cases: vec![
                case(None, 1, &about(100.0)),
                case(None, 2, &about(20.0)),
                case(swap, 1, &about(100.0)),
                case(swap, 2, &about(150.0)),
            ],
            ..super::super::tests::measured(Vec::new(), 2)
        };
        assert!((measured.points(swap)[1].value - 1.5).abs() < 1e-9);
        assert_eq!(measured.tried("TABLE"), ["rw"]);
        let (ratio, verdict) = measured.gain(("TABLE", "rw"), 2).unwrap();
        assert!(verdict == Verdict::Better && ratio.range.low > 7.0 && ratio.range.high < 8.0, "{ratio:?}");
        assert_eq!(measured.most(), 2);
    }

    #[test]
    fn a_disturbed_run_in_twelve_leaves_the_forecast_as_it_was() {
        let mut twelve: Vec<f64> = (0..12).map(|number| 20.0 + 0.1 * f64::from(number)).collect();
        let measured = |two: &[f64]| Measured {
            cases: vec![case(None, 1, &about(100.0)), case(None, 2, two)],
            ..super::super::tests::measured(Vec::new(), 2)
        };
        let before = measured(&twelve).medians(None)[1];
        twelve[11] = 90.0;
        assert_eq!(measured(&twelve).medians(None)[1], before);
        assert!(measured(&twelve).points(None)[1].high > 0.8, "what is shown holds all runs");
    }

    #[test]
    fn a_gain_is_the_ratio_of_the_medians_that_are_shown() {
        // Runs of two kinds each: most pairs are of a fast run of one and a slow run of the other, and no median is.
        let own = [28.0, 28.0, 28.0, 130.0, 130.0];
        let swapped = [40.0, 40.0, 141.0, 141.0, 141.0];
        let swap = ("TABLE", "rw");
        let measured = Measured {
            cases: vec![
                case(None, 1, &about(100.0)),
                case(None, 2, &own),
                case(Some(swap), 1, &about(100.0)),
                case(Some(swap), 2, &swapped),
            ],
            ..super::super::tests::measured(Vec::new(), 2)
        };
        let shown = |swap| measured.points(swap)[1].value;
        let (likely, _) = measured.gain(swap, 2).unwrap();
        assert!((likely.range.median - shown(Some(swap)) / shown(None)).abs() < 1e-9, "{likely:?}");
        let of_pairs = statistics::likely_ratio(&own.map(Some), &swapped.map(Some), Better::Higher).unwrap();
        assert!(of_pairs.range.median < 2.0 && likely.range.median > 5.0, "{of_pairs:?} {likely:?}");
    }
}
