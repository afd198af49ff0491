//! Interleaved rounds: who runs when, and what is kept of each run. Runs nothing itself.

use super::statistics::{self, Better};
use launch::TIMED_OUT;
use launch::operations::operations_in;
use regex_lite::Regex;
use report::{Spread, text};
use std::time::Duration;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Killed(i32),
    /// At the time limit, by contend's hand.
    TimedOut,
}

/// One run of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// How it ended.
    pub end: End,
    /// From start to end.
    pub elapsed: Duration,
    /// CPU time of the program and of those that it started and that ended with it.
    pub cpu: Duration,
    /// What it wrote to standard output, then to standard error.
    pub output: String,
}

impl Trial {
    /// CPU time over elapsed time: how many cores the program kept busy. None of a run that took no time.
    pub fn cores_busy(&self) -> Option<f64> {
        let elapsed = self.elapsed.as_secs_f64();
        (elapsed > 0.0).then(|| self.cpu.as_secs_f64() / elapsed)
    }
}

/// Why a lock has no more runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The program failed with this exit code.
    Exited(i32),
    /// The program was ended by this signal.
    Killed(i32),
    /// The program was still running at the time limit.
    TimedOut,
    /// The metric is not in the program's output.
    NoMetric,
}

impl Failure {
    /// What a command that passes this on exits with: the program's own code, 128 and the signal's number, 124 as
    /// timeout(1) does.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(code).unwrap_or(1),
            Self::Killed(signal) => u8::try_from(128 + signal).unwrap_or(1),
            Self::TimedOut => TIMED_OUT,
            Self::NoMetric => 1,
        }
    }
}

/// What is compared.
#[derive(Debug, Clone)]
pub enum Metric {
    /// Wall time in seconds.
    WallTime,
    /// A number in the program's output.
    Captured {
        /// Its first group is the number.
        regex: Regex,
        /// Which way it points.
        better: Better,
        /// It counts the operations of the run: the last match counts, for one second of wall time.
        per_second: bool,
    },
}

impl Metric {
    /// Which way it points.
    pub fn better(&self) -> Better {
        match self {
            Self::WallTime => Better::Lower,
            Self::Captured { better, .. } => *better,
        }
    }

    /// Its value in a run: the first match that holds a number, or the operations that `contend profile` would count.
    pub fn of(&self, trial: &Trial) -> Option<f64> {
        match self {
            Self::WallTime => Some(trial.elapsed.as_secs_f64()),
            Self::Captured { regex, per_second: true, .. } => {
                Some(operations_in(regex, &trial.output)? / trial.elapsed.as_secs_f64())
            }
            Self::Captured { regex, .. } => {
                // The group is a number as a whole, or the match is another text.
                regex.captures_iter(&trial.output).find_map(|found| {
                    let digits = found.get(1)?.as_str().trim().replace([',', '_'], "");
                    digits.parse().ok().filter(|number: &f64| number.is_finite())
                })
            }
        }
    }

    /// Why a run that ended well has no value, if it has none: the regular expression, as it was given by the option `flag`, and the last
    /// that the program wrote.
    pub fn missing(&self, trial: &Trial, flag: &str) -> Option<String> {
        let regex = self.regex().filter(|_| self.of(trial).is_none())?;
        // Operations that are 0 are none.
        let counts_none =
            matches!(self, Self::Captured { regex, per_second: true, .. } if regex.is_match(&trial.output));
        let number = if counts_none { "no number above 0" } else { "no number" };
        let said =
            format!("{number} in what the program wrote matches {}", text::command_line([flag, regex]));
        let tail = last_lines(&trial.output);
        if tail.is_empty() {
            return Some(format!("{said}: it wrote nothing"));
        }
        let lines: Vec<String> = tail.lines().map(|line| format!("  {}", text::printable(line))).collect();
        Some(format!("{said}; it wrote last:\n{}", lines.join("\n")))
    }

    /// The regular expression, where it is a number in the output.
    pub fn regex(&self) -> Option<&str> {
        match self {
            Self::WallTime => None,
            Self::Captured { regex, .. } => Some(regex.as_str()),
        }
    }
}

/// What is known of one lock.
#[derive(Debug, Clone, PartialEq)]
pub struct LockRuns {
    /// Its name.
    pub lock: String,
    /// The metric, by round; none where it was not run, and from the round on in which it failed.
    pub values: Vec<Option<f64>>,
    /// CPU time over elapsed time of the runs that ended well: how many cores the program kept busy.
    pub cores_busy: Vec<f64>,
    /// Why it has no more runs, and in which round; round 0 is the warm-up.
    pub failure: Option<(Failure, usize)>,
    /// The last that the program wrote in the run that failed.
    pub output_tail: String,
}

impl LockRuns {
    /// No run yet.
    pub fn new(lock: &str) -> Self {
        Self {
            lock: lock.to_owned(),
            values: Vec::new(),
            cores_busy: Vec::new(),
            failure: None,
            output_tail: String::new(),
        }
    }

    /// Median and range of the metric.
    pub fn spread(&self) -> Option<Spread> {
        statistics::spread(&self.values.iter().flatten().copied().collect::<Vec<_>>())
    }

    /// Takes in a run of some round.
    fn add(&mut self, round: usize, trial: &Trial, metric: &Metric) {
        let value = match trial.end {
            End::Exited(0) => metric.of(trial).ok_or(Failure::NoMetric),
            End::Exited(code) => Err(Failure::Exited(code)),
            End::Killed(signal) => Err(Failure::Killed(signal)),
            End::TimedOut => Err(Failure::TimedOut),
        };
        match value {
            Ok(value) if round > 0 => {
                self.values.push(Some(value));
                self.cores_busy.extend(trial.cores_busy());
            }
            Ok(_) => {}
            Err(failure) => {
                self.failure = Some((failure, round));
                self.output_tail = last_lines(&trial.output);
            }
        }
    }
}

/// The last few lines of a text, not more than a screen holds.
fn last_lines(text: &str) -> String {
    const LINES: usize = 5;
    const CHARACTERS: usize = 200;
    let lines: Vec<_> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(LINES).collect();
    let cut = lines.into_iter().rev().map(|line| line.chars().take(CHARACTERS).collect());
    cut.collect::<Vec<String>>().join("\n")
}

/// The order of the locks in a round: every other round backwards (A B C, C B A, …), so that what gets slower from run to
/// run does so for all.
pub fn order(locks: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..locks).map(move |place| if round.is_multiple_of(2) { place } else { locks - 1 - place })
}

/// Runs each lock once to warm up, then all of them in turn, `rounds` times. A lock under which the program fails is
/// not run again. The first lock is the reference: if the program fails under it for another reason than time, there
/// is nothing to compare with and the rounds end. They end too when `run` gives nothing, since the user wants no more.
///
/// # Errors
///
/// Those of `run`, which is given the lock's number and the round.
pub fn measure(
    locks: &[String],
    rounds: usize,
    metric: &Metric,
    run: impl FnMut(usize, usize) -> anyhow::Result<Option<Trial>>,
) -> anyhow::Result<Vec<LockRuns>> {
    measure_until(locks, rounds, metric, |_, _| true, run, |_| false)
}

/// As [`measure`], but ends after the first round with which there is `enough`, and leaves out of a round what is not `needed`, by
/// the lock's number and the round.
///
/// # Errors
///
/// As of [`measure`].
pub fn measure_until(
    locks: &[String],
    rounds: usize,
    metric: &Metric,
    needed: impl Fn(usize, usize) -> bool,
    mut run: impl FnMut(usize, usize) -> anyhow::Result<Option<Trial>>,
    mut enough: impl FnMut(&[LockRuns]) -> bool,
) -> anyhow::Result<Vec<LockRuns>> {
    let mut rows: Vec<_> = locks.iter().map(|lock| LockRuns::new(lock)).collect();
    for round in 0..=rounds {
        for number in order(locks.len(), round) {
            let row = &mut rows[number];
            if row.failure.is_none() && needed(number, round) {
                let Some(trial) = run(number, round)? else { return Ok(rows) };
                row.add(round, &trial, metric);
            }
            if round > 0 {
                row.values.resize(round, None);
            }
            let nothing_to_compare =
                number == 0 && row.failure.is_some_and(|(why, _)| why != Failure::TimedOut);
            if nothing_to_compare {
                return Ok(rows);
            }
        }
        if round > 0 && enough(&rows) {
            break;
        }
    }
    Ok(rows)
}

/// What `compare` exits with: the program's own failure under the reference, 1 if it failed under every other lock, or
/// 0. One lock that fails is a row, not a failure.
pub fn exit_code(rows: &[LockRuns]) -> u8 {
    match rows {
        [LockRuns { failure: Some((failure, _)), .. }, ..] => failure.exit_code().max(1),
        [_, others @ ..] if !others.is_empty() && others.iter().all(|row| row.failure.is_some()) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(end: End, output: &str) -> Trial {
        Trial { end, elapsed: Duration::from_secs(2), cpu: Duration::from_secs(3), output: output.to_owned() }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn rounds_are_interleaved_after_a_warm_up() {
        let mut order = Vec::new();
        let rows = measure(&names(&["a", "b"]), 2, &Metric::WallTime, |lock, round| {
            order.push((round, lock));
            Ok(Some(trial(End::Exited(0), "")))
        });
        assert_eq!(order, [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)]);
        let row = &rows.unwrap()[1];
        assert_eq!(row.values, [Some(2.0), Some(2.0)], "the warm-up is not counted");
        assert_eq!(row.cores_busy, [1.5, 1.5]);
    }

    #[test]
    fn an_end_in_the_middle_keeps_what_is_finished() {
        let mut left = 5;
        let rows = measure(&names(&["a", "b"]), 9, &Metric::WallTime, |_, _| {
            left -= 1;
            Ok((left >= 0).then(|| trial(End::Exited(0), "")))
        });
        let kept: Vec<_> = rows.unwrap().into_iter().map(|row| row.values).collect();
        assert_eq!(kept, [vec![Some(2.0), Some(2.0)], vec![Some(2.0)]]);
    }

    #[test]
    fn rounds_end_with_the_one_that_decides() {
        let run = |_, _| Ok(Some(trial(End::Exited(0), "")));
        let decided = |rows: &[LockRuns]| rows[1].values.len() == 2;
        let needed = |lock: usize, round: usize| lock == 0 || round != 1;
        let rows = measure_until(&names(&["a", "b"]), 9, &Metric::WallTime, needed, run, decided).unwrap();
        let values: Vec<_> = rows.into_iter().map(|row| row.values).collect();
        assert_eq!(values, [[Some(2.0), Some(2.0)], [None, Some(2.0)]], "what is not needed is not run");
    }

    #[test]
    fn a_lock_that_fails_is_not_run_again_and_the_others_are() {
        let mut runs = [0; 3];
        let rows = measure(&names(&["glibc", "hangs", "crashes"]), 3, &Metric::WallTime, |lock, round| {
            runs[lock] += 1;
            let end = match (lock, round) {
                (1, 0) => End::TimedOut,
                (2, 2) => End::Killed(11),
                _ => End::Exited(0),
            };
            Ok(Some(trial(end, "")))
        });
        let rows = rows.unwrap();
        assert_eq!(runs, [4, 1, 3]);
        assert_eq!(rows[1].failure, Some((Failure::TimedOut, 0)));
        assert_eq!(rows[2].failure, Some((Failure::Killed(11), 2)));
        assert_eq!(rows[1].values, [None, None, None]);
        assert_eq!(rows[2].values, [Some(2.0), None, None]);
        assert_eq!(exit_code(&rows), 1, "every other lock failed");
        assert_eq!(exit_code(&rows[..1]), 0);
    }

    #[test]
    fn a_program_that_fails_by_itself_ends_the_rounds_and_passes_its_code_on() {
        let mut runs = 0;
        let rows = measure(&names(&["glibc", "mcs"]), 3, &Metric::WallTime, |_, _| {
            runs += 1;
            Ok(Some(trial(End::Exited(7), "")))
        });
        assert_eq!((runs, exit_code(&rows.unwrap())), (1, 7));
        let failed =
            |failure| exit_code(&[LockRuns { failure: Some((failure, 0)), ..LockRuns::new("glibc") }]);
        assert_eq!(failed(Failure::Killed(11)), 139);
        assert_eq!(failed(Failure::TimedOut), 124);
        assert_eq!(failed(Failure::Exited(256)), 1);
        assert_eq!(failed(Failure::NoMetric), 1);
    }

    #[test]
    fn the_output_tail_is_kept_and_short() {
        let text = format!("1\n2\n3\n4\n\n5\n6{}\n\n", "x".repeat(100_000));
        let rows =
            measure(&names(&["glibc"]), 1, &Metric::WallTime, |_, _| Ok(Some(trial(End::Exited(1), &text))));
        let words = &rows.unwrap()[0].output_tail;
        assert!(words.starts_with("2\n3\n4\n5\n6x") && words.len() < 300, "{words}");
        assert_eq!(last_lines(""), "");
    }

    #[test]
    fn a_metric_that_is_missing_is_named_with_the_output_that_it_is_missing_in() {
        let metric = |regex: &str, per_second| Metric::Captured {
            regex: Regex::new(regex).unwrap(),
            better: Better::Higher,
            per_second,
        };
        let wrote = trial(End::Exited(0), "starting\nops 300 rate\u{1b}7\n");
        let missing = |regex, per_second| metric(regex, per_second).missing(&wrote, "--metric");
        assert_eq!(
            missing("nope ([0-9]+)", false).as_deref(),
            Some(
                "no number in what the program wrote matches --metric 'nope ([0-9]+)'; it wrote last:\n  starting\n  ops 300 rate\\u{1b}7"
            )
        );
        assert!(missing("(ops)", true).is_some(), "it matches, and is no number");
        assert_eq!(missing("ops ([0-9]+)", false), None);
        let zero = trial(End::Exited(0), "ops 0\n");
        let none = metric("ops ([0-9]+)", true).missing(&zero, "--ops-regex").unwrap_or_default();
        assert!(none.starts_with("no number above 0 in what the program wrote matches"), "{none}");
        assert_eq!(metric("ops ([0-9]+)", false).missing(&zero, "--metric"), None);
        let nothing = metric("x ([0-9]+)", true).missing(&trial(End::Exited(0), "\n"), "--ops-regex");
        assert!(nothing.is_some_and(|said| said.ends_with("--ops-regex 'x ([0-9]+)': it wrote nothing")));
        assert_eq!(Metric::WallTime.missing(&wrote, "--metric"), None);
    }

    #[test]
    fn one_lock_that_fails_is_no_failure() {
        let ok = |name| LockRuns { values: vec![Some(1.0)], ..LockRuns::new(name) };
        let failed = LockRuns { failure: Some((Failure::TimedOut, 0)), ..LockRuns::new("ticket") };
        assert_eq!(exit_code(&[ok("glibc"), failed, ok("mcs")]), 0);
    }

    #[test]
    fn the_metric_is_the_first_number_captured() {
        let metric = |regex: &str| Metric::Captured {
            regex: Regex::new(regex).unwrap(),
            better: Better::Higher,
            per_second: false,
        };
        let output = trial(End::Exited(0), "ops: n/a\nops: 1,234.5 per s\nops: 9 per s\n");
        assert_eq!(metric(r"ops: (\S+)").of(&output), Some(1234.5));
        assert_eq!(metric(r"time: (\S+)").of(&output), None);
        assert_eq!(metric("ops").of(&output), None, "no group");
        assert_eq!(metric("(ops)").of(&output), None, "not a number");
        assert_eq!(metric("(inf)").of(&trial(End::Exited(0), "inf")), None);
        let (regex, better) = (Regex::new(r"ops: (\S+)").unwrap(), Better::Higher);
        let rate = Metric::Captured { regex, better, per_second: true };
        assert_eq!(rate.of(&output), Some(4.5), "the last match, over two seconds");
        let rows = measure(&names(&["glibc"]), 1, &metric("x(1)"), |_, _| Ok(Some(output.clone()))).unwrap();
        assert_eq!(rows[0].failure, Some((Failure::NoMetric, 0)));
    }
}
