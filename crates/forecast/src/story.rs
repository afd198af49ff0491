//! What the demo ends with: what was found, predicted and measured, each no further than it can be told.

use anyhow::{Context as _, bail};
use curve::{Curve, Series};
use report::{Spread, text};
use serde_json::Value;
use session::names;
use session::noise::Noise;

/// Reads the name of a lock that can stand in for the demo program's.
///
/// # Errors
///
/// A name that nobody has, or that of a lock which cannot stand in for reader-writer locks.
pub fn reader_writer_lock(name: &str) -> Result<String, String> {
    let lock = names::lock(name)?;
    if lock.shared {
        return Ok(name.to_owned());
    }
    let serving = locks::catalogue::LOCKS.iter().filter(|lock| lock.shared);
    let serving: Vec<_> = serving.map(|lock| lock.name).collect();
    Err(format!(
        "the program's lock is a reader-writer lock, for which {name} cannot stand in; {} can",
        serving.join(", ")
    ))
}

/// Numbers of threads to measure: powers of two up to the cores there are.
#[must_use]
pub fn thread_counts() -> Vec<u32> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let mut counts: Vec<u32> = (0..).map(|power| 1 << power).take_while(|&count| count < cores).collect();
    counts.push(cores);
    counts
}

/// The two measured curves, and what the comparison at the most threads says.
#[derive(Debug, Clone)]
pub struct MeasuredSwap {
    /// The program with its own lock.
    pub as_it_is: Curve,
    /// The program with the lock that was swapped in.
    pub swapped: Curve,
    /// Of the rounds at the most threads: how many times as good the swapped lock was.
    pub ratio: Spread,
    /// The verdict of the comparison there.
    pub verdict: String,
    /// CPU time over elapsed time of the program as it is, at the most threads.
    pub cores_busy: f64,
}

impl MeasuredSwap {
    /// Both curves, for a file that `contend predict --measured` reads.
    pub fn series(&self) -> Series {
        let mut series = Series::new("contend demo: one lock around four cache lines");
        series.curves = vec![self.as_it_is.clone(), self.swapped.clone()];
        series
    }

    /// Whether the comparison tells the two locks apart.
    pub fn is_conclusive(&self) -> bool {
        self.verdict == "better" || self.verdict == "worse"
    }
}

/// What the demo ends with.
#[derive(Debug)]
pub struct Story<'a> {
    /// What `predict --json` printed; null where it failed.
    pub predicted: &'a Value,
    /// What was measured.
    pub measured: &'a MeasuredSwap,
    /// The lock that was swapped in.
    pub lock: &'a str,
    /// Whether the two profiled threads ran together.
    pub together: bool,
}

impl Story<'_> {
    /// What was found, predicted and measured, each no further than it can be told, what comes later, and what disturbed it.
    ///
    /// # Errors
    ///
    /// Curves without a point.
    pub fn lines(&self, later: &Later<'_>, noise: &Noise) -> anyhow::Result<String> {
        let Self { predicted, measured, lock, together } = self;
        let points = |curve: &Curve| {
            let points = curve.points();
            Some((*points.first()?, *points.last()?))
        };
        let (one, most) = points(&measured.as_it_is).context("nothing was measured")?;
        let (one_swapped, most_swapped) = points(&measured.swapped).context("nothing was measured")?;
        let site = predicted["lock"].as_str().unwrap_or("one lock");
        let site = text::printable(site);
        let mut disturbances = noise.disturbances();
        // Threads that do not get their cores do no more than one, whatever the lock; less than one they do for the lock.
        let share = if disturbances.is_empty() { SLOWED * f64::from(most.cores) } else { 1.0 };
        let found = if most.cores < 2 {
            format!("{site} is the program's lock; one core shows no contention")
        } else if most.high < share * one.low {
            format!(
                "{site} holds the program back: {} threads do {:.2} times the work of one",
                most.cores,
                most.value / one.value
            )
        } else {
            format!(
                "{site} is the program's lock; whether it holds {} threads back, these runs do not show",
                most.cores
            )
        };
        let Spread { low, median, high } = measured.ratio;
        let swapped = format!(
            "with `{lock}` {} do {median:.2} times the work that they do with their own lock ({low:.2} to {high:.2} by round)",
            if most.cores == 1 { "one thread".into() } else { format!("{} threads", most.cores) }
        );
        let seen = if measured.is_conclusive() {
            format!("{swapped}, and {:.2} times that of one", most_swapped.value / one_swapped.value)
        } else {
            format!("{swapped}: no difference that these runs can tell from chance")
        };
        let mut lines = format!(
            "Found:     {found}.\nPredicted: {}.\nMeasured:  {seen}.",
            prediction_in_words(predicted, lock, most.cores)
        );
        if let (true, Ok(to_use)) = (measured.verdict == "better", names::lock(lock)) {
            lines += &format!(
                "\nTo do:     try it on a program of yours by contend run --only '{site}={lock}' -- CMD; for good, {}.",
                names::types_of(to_use)
            );
        }
        if let Some(later) = later.line() {
            lines += &format!("\n{later}");
        }
        if !together || measured.cores_busy < BUSY * f64::from(most.cores) {
            disturbances.push(format!(
                "of {} cores the program got {:.2} on average",
                most.cores, measured.cores_busy
            ));
        }
        if !disturbances.is_empty() {
            lines +=
                &format!("\nDisturbed: {}. On a quiet machine more can be told.", disturbances.join("; "));
        }
        Ok(lines)
    }
}

/// Threads that do less than this share of as many times the work of one are slowed by contention.
const SLOWED: f64 = 0.9;

/// Threads that do this share of as many times the work of one, the start of the program counted, are not.
const NOT_SLOWED: f64 = 0.8;

/// A program whose threads do nothing but run and wait for a lock keeps this share of its cores busy on a quiet machine,
/// as the sleep of waiters costs some.
const BUSY: f64 = 0.6;

/// What was predicted for the baseline and for the swapped lock, on as many threads as were measured.
fn prediction_in_words(predicted: &Value, lock: &str, threads: u32) -> String {
    let words = [None, Some(lock)].into_iter().filter_map(|lock| {
        let foretold = Foretold::of(predicted, lock)?;
        let name = lock.map_or("baseline".to_owned(), |lock| format!("with `{lock}`"));
        let (speedup, verdict) = (foretold.speedup(threads)?, foretold.verdict["words"].as_str()?);
        Some(format!("{name}: {threads} threads do {speedup:.2} times the work of one; {verdict}"))
    });
    let words = words.collect::<Vec<_>>();
    if words.is_empty() {
        return "nothing, since the profile does not hold what a prediction needs".into();
    }
    words.join("; ")
}

/// A row of what `contend predict --json` printed.
struct Foretold<'a> {
    verdict: &'a Value,
    points: &'a [Value],
}

impl<'a> Foretold<'a> {
    /// For a lock; none: the baseline.
    fn of(predicted: &'a Value, lock: Option<&str>) -> Option<Self> {
        let row = predicted["rows"].as_array()?.iter().find(|row| row["lock"].as_str() == lock)?;
        Some(Self { verdict: &row["verdict"], points: row["points"].as_array()? })
    }

    fn speedup(&self, threads: u32) -> Option<f64> {
        self.points.iter().find(|point| point["threads"] == threads)?["value"].as_f64()
    }

    /// The threads and the throughput of the best point.
    fn peak(&self) -> Option<(u64, f64)> {
        let points = self.points.iter().filter_map(threads_and_value);
        points.max_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// The same of the last point.
    fn last(&self) -> Option<(u64, f64)> {
        threads_and_value(self.points.last()?)
    }
}

fn threads_and_value(point: &Value) -> Option<(u64, f64)> {
    Some((point["threads"].as_u64()?, point["value"].as_f64()?))
}

/// A lock that does not hurt on this machine, on one where it does.
#[derive(Debug)]
pub struct Later<'a> {
    /// What `predict --json` printed for the larger machine.
    pub predicted: &'a Value,
    /// The larger machine.
    pub machine: &'a str,
    /// The lock that avoids it.
    pub lock: &'a str,
}

impl Later<'_> {
    /// When it hurts, and what avoids it; none where nothing was predicted.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let Self { predicted, machine, lock } = self;
        let site = text::printable(predicted["lock"].as_str()?);
        let as_it_is = Foretold::of(predicted, None)?;
        let ((peak_cores, peak), (cores, last)) = (as_it_is.peak()?, as_it_is.last()?);
        let instead = Foretold::of(predicted, Some(lock))?.last()?.1;
        let measured =
            as_it_is.points.iter().rev().find(|point| point["measured"] == true && point["threads"] != 1);
        let here = match measured.and_then(threads_and_value) {
            Some((threads, speedup)) if speedup >= NOT_SLOWED * threads as f64 => {
                format!(
                    "{site} does not hurt here, where {threads} threads do {speedup:.2} times the work of one"
                )
            }
            _ => format!(
                "{site} is the lock of another part of the program; what it costs here these runs do not show"
            ),
        };
        let there = if last < SLOWED * peak {
            format!(
                "on {machine} the program is fastest at {peak_cores} cores, with {peak:.1} times the work of one, and falls \
                 to {last:.1} times at {cores}"
            )
        } else {
            format!("on {machine} the program does {last:.1} times the work of one at {cores} cores")
        };
        Some(format!("Later:     {here}; {there}; with `{lock}` it does {instead:.1} times there."))
    }
}

/// A lock's row of what `contend compare --json` printed.
///
/// # Errors
///
/// No such row, or one of a program that failed.
pub fn row<'a>(compared: &'a Value, lock: &str) -> anyhow::Result<&'a Value> {
    let rows = compared["rows"].as_array().context("the comparison has no rows")?;
    let row = rows.iter().find(|row| row["lock"] == lock);
    let row = row.with_context(|| format!("the comparison has no row of {lock}"))?;
    if let Some(failure) = row["failure"].as_str() {
        bail!("the program failed under {lock}: {failure}");
    }
    Ok(row)
}

/// The runs of a lock in what `contend compare --json` printed.
///
/// # Errors
///
/// As of [`row`].
pub fn values(compared: &Value, lock: &str) -> anyhow::Result<Vec<f64>> {
    row(compared, lock)?;
    let values = compared["values"][lock].as_array().context("the comparison has no values")?;
    Ok(values.iter().filter_map(Value::as_f64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve::{Point, Provenance, Unit};
    use report::every_screen;
    use serde_json::json;

    const NOTHING_LATER: Later<'_> = Later { predicted: &Value::Null, machine: "m", lock: "mcs" };

    fn measured(own: &[(f64, f64, f64)], swapped: &[(f64, f64, f64)], verdict: &str) -> MeasuredSwap {
        let curve = |points: &[(f64, f64, f64)]| {
            let points =
                points.iter().zip(1..).map(|(&(low, value, high), cores)| Point { cores, value, low, high });
            Curve::new("c", Unit::OperationsPerSecond, Provenance::Measured).with_points(points).unwrap()
        };
        MeasuredSwap {
            as_it_is: curve(own),
            swapped: curve(swapped),
            ratio: Spread { low: 0.7, median: 1.0, high: 1.4 },
            verdict: verdict.to_owned(),
            cores_busy: 1.9,
        }
    }

    fn row(lock: Option<&str>, points: &[(u32, f64)], words: &str) -> Value {
        let points: Vec<_> =
            points.iter().map(|(threads, value)| json!({"threads": threads, "value": value})).collect();
        json!({"lock": lock, "verdict": {"words": words}, "points": points})
    }

    fn predicted(words: &str) -> Value {
        let points = [(1, 1.0), (2, 0.01)];
        json!({"lock": "TABLE", "rows": [row(None, &points, words), row(Some("rw"), &points, words)]})
    }

    #[test]
    fn what_cannot_be_told_is_not_told() {
        let noisy = measured(
            &[(1.0, 2.0, 3.0), (1.0, 2.0, 4.0)],
            &[(1.0, 2.0, 3.0), (1.0, 2.0, 4.0)],
            "no difference seen",
        );
        let predicted = predicted("uncertain: 60 % collapses");
        let story = Story { predicted: &predicted, measured: &noisy, lock: "rw", together: false };
        let noise = Noise { others_share: Some(0.5), ..Noise::default() };
        let lines = story.lines(&NOTHING_LATER, &noise).unwrap();
        assert!(
            lines.contains("these runs do not show")
                && lines.contains("uncertain: 60 % collapses; with `rw`: 2 threads")
                && lines.contains("no difference that"),
            "{lines}"
        );
        assert!(
            lines.contains("Disturbed: other programs used 50 %") && lines.contains("the program got 1.90"),
            "{lines}"
        );
    }

    #[test]
    fn what_can_be_told_is_told_with_its_figures() {
        let quiet =
            measured(&[(9.9, 10.0, 10.1), (2.9, 3.0, 3.1)], &[(9.9, 10.0, 10.1), (9.0, 9.0, 9.1)], "better");
        let predicted = predicted("collapses at 2, 95 %");
        let story = Story { predicted: &predicted, measured: &quiet, lock: "rw", together: true };
        let lines = story.lines(&NOTHING_LATER, &Noise::default()).unwrap();
        assert!(lines.contains("TABLE holds the program back: 2 threads do 0.30 times"), "{lines}");
        assert!(
            lines.contains("baseline: 2 threads do 0.01 times the work of one; collapses at 2, 95 %"),
            "{lines}"
        );
        assert!(lines.contains("and 0.90 times that of one") && !lines.contains("Disturbed"), "{lines}");
    }

    #[test]
    fn threads_without_cores_are_not_slowed_by_a_lock() {
        let starved =
            measured(&[(9.0, 10.0, 11.0), (10.0, 11.0, 12.0)], &[(9.0, 10.0, 11.0); 2], "no difference seen");
        let story = Story { predicted: &Value::Null, measured: &starved, lock: "rw", together: false };
        let busy = Noise { others_share: Some(0.5), ..Noise::default() };
        assert!(story.lines(&NOTHING_LATER, &busy).unwrap().contains("these runs do not show"));
        assert!(story.lines(&NOTHING_LATER, &Noise::default()).unwrap().contains("holds the program back"));
    }

    #[test]
    fn a_lock_that_hurts_later_is_said_with_what_avoids_it() {
        let points = |values: [f64; 3]| -> Vec<_> { [1, 16, 48].into_iter().zip(values).collect() };
        let rows = [
            row(None, &points([1.0, 11.0, 5.0]), "collapses at 48, 90 %"),
            row(Some("mcs"), &points([1.0, 15.0, 31.0]), "still rises at 48, 90 %"),
        ];
        let predicted = json!({"lock": "JOURNAL", "rows": rows});
        let line = Later { predicted: &predicted, machine: "m", lock: "mcs" }.line().unwrap();
        assert!(line.contains("fastest at 16 cores, with 11.0 times"), "{line}");
        assert!(line.contains("falls to 5.0 times at 48; with `mcs` it does 31.0 times there"), "{line}");
        assert_eq!(Later { predicted: &Value::Null, machine: "m", lock: "mcs" }.line(), None);
    }

    #[test]
    fn a_prediction_that_failed_is_said() {
        assert!(prediction_in_words(&Value::Null, "rw", 2).starts_with("nothing, since"));
    }

    #[test]
    fn a_lock_that_cannot_stand_in_is_refused_with_those_that_can() {
        assert_eq!(reader_writer_lock("rw"), Ok("rw".to_owned()));
        assert!(reader_writer_lock("mcs").unwrap_err().contains("rw"));
        assert!(reader_writer_lock("nosuch").is_err());
    }

    #[test]
    fn the_end_on_every_screen() {
        let quiet =
            measured(&[(9.9, 10.0, 10.1), (2.9, 3.0, 3.1)], &[(9.9, 10.0, 10.1), (9.0, 9.0, 9.1)], "better");
        let predicted = predicted("collapses at 2, 95 %");
        let story = Story { predicted: &predicted, measured: &quiet, lock: "rw", together: false };
        let lines = story.lines(&NOTHING_LATER, &Noise::default()).unwrap();
        insta::assert_snapshot!(every_screen(&[], |screen| screen.fit(&lines)));
    }
}
