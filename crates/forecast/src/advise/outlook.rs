//! What was measured, carried on to the target; and what would have been predicted without measuring.

use super::answer::{Checked, Finding, Row};
use super::measured::Measured;
use super::{Asked, profiles};
use crate::{Alternative, MeasuredPoint, Question, Void, alternatives, forecast as answer, powers_of_two};
use curve::Point;
use report::Spread;
use session::progress::Progress;
use topology::Range;

/// A row's forecast.
pub(super) struct Outlook {
    /// The lock; none for the program as it is.
    pub(super) lock: Option<String>,
    /// Throughput relative to the program as it is on the fewest threads, beyond what was measured.
    pub(super) points: Vec<Point>,
    /// Numbers of threads at which the seeds disagree.
    pub(super) unstable: Vec<u32>,
    /// What becomes of it there, from the fewest measured threads on; none where the target has no more cores than these.
    pub(super) verdict: Option<String>,
    /// How many times the work of the program as it is on the most threads.
    pub(super) gain: Option<Spread>,
}

/// Forecasts the program as it is and with the locks that may take the place of its own to all cores of the target.
pub(super) fn forecast(
    asked: &Asked,
    measured: &Measured,
    finding: &Finding,
    progress: &dyn Progress,
) -> anyhow::Result<Result<Vec<Outlook>, Void>> {
    let (target, most, first) = (&asked.target, measured.most(), measured.threads[0]);
    let cores = powers_of_two(target.topology.cores());
    let tried = finding.rows.iter().filter(|row| row.failure.is_none());
    let locks: Vec<String> = tried.filter_map(|row| row.lock.clone()).collect();
    let known = finding.rows.iter().flat_map(|row| {
        let swap = row.lock.as_deref().map(|lock| (finding.suspect.name.as_str(), lock));
        let lock = row.lock.as_deref();
        measured.medians(swap).into_iter().map(move |point| MeasuredPoint::of(lock, point))
    });
    let question = Question {
        profiles: profiles(&asked.folder, &measured.threads).into_iter().map(|(_, file)| file).collect(),
        measured: known.collect(),
        in_operations: false,
        stretch: measured.stretch,
        machine: target.clone(),
        profiled_on: asked.here.clone(),
        cores,
        threads: Vec::new(),
        from: first,
        candidates: Some(candidates(&locks)?),
        site: Some(finding.suspect.name.clone()),
        seed: 1,
        what_if: None,
        advice: false,
    };
    let forecast = match answer(&question, progress)? {
        Ok(forecast) => forecast,
        Err(void) => return Ok(Err(void)),
    };
    // A forecast is relative to one thread, the answer to the fewest that were measured, whose rate is 1.
    let one = 1.0 / forecast.one_thread.max(f64::MIN_POSITIVE);
    // Seeds that disagree tell nothing of a gain.
    let last =
        |row: &crate::Row| row.points.last().filter(|last| last.threads > most && !last.unstable).copied();
    let own = forecast.row(None).and_then(last);
    let rows = forecast.rows.iter().map(|row| Outlook {
        lock: row.lock.clone(),
        points: row.points.iter().filter(|point| !point.measured).map(|known| point(known, one)).collect(),
        unstable: row.points.iter().filter(|point| point.unstable).map(|point| point.threads).collect(),
        verdict: row.points.last().filter(|last| last.threads > first).map(|_| row.verdict.to_string()),
        gain: own.zip(last(row)).filter(|_| row.lock.is_some()).map(|(own, instead)| {
            let Range { low, likely, high } = instead.over(own);
            Spread { low, median: likely, high }
        }),
    });
    Ok(Ok(rows.collect()))
}

/// The alternatives of these names; no name is no alternative.
fn candidates(locks: &[String]) -> anyhow::Result<Vec<Alternative>> {
    if locks.is_empty() { Ok(Vec::new()) } else { alternatives(locks) }
}

fn point(of: &crate::Point, one: f64) -> Point {
    Point { cores: of.threads, value: of.value / one, low: of.low / one, high: of.high / one }
}

/// What the profile of the fewest threads alone predicts for this machine, beside what was measured: the program as it is and the lock that
/// did most.
pub(super) fn checked(
    asked: &Asked,
    measured: &Measured,
    finding: &Finding,
    progress: &dyn Progress,
) -> anyhow::Result<Vec<Checked>> {
    let (first, most) = (measured.threads[0], measured.most());
    let alone = profiles(&asked.folder, &[first]);
    if first != 1 || most == first || alone.is_empty() {
        return Ok(Vec::new());
    }
    let is_tried = |row: &&Row| row.lock.is_some() && row.failure.is_none() && !row.measured.is_empty();
    let best = finding.rows.iter().find(is_tried);
    let locks: Vec<String> = best.and_then(|row| row.lock.clone()).into_iter().collect();
    let question = Question {
        profiles: alone.into_iter().map(|(_, file)| file).collect(),
        measured: Vec::new(),
        in_operations: false,
        stretch: measured.stretch,
        machine: asked.here.clone(),
        profiled_on: asked.here.clone(),
        cores: powers_of_two(most),
        threads: Vec::new(),
        from: 1,
        candidates: Some(candidates(&locks)?),
        site: Some(finding.suspect.name.clone()),
        seed: 1,
        what_if: None,
        advice: false,
    };
    let Ok(forecast) = answer(&question, progress)? else { return Ok(Vec::new()) };
    let rows = forecast.rows.iter().filter_map(|row| {
        let shown = finding.rows.iter().find(|shown| shown.lock == row.lock)?;
        Some(Checked {
            lock: row.lock.clone(),
            threads: most,
            predicted: point(&row.at(most)?, 1.0),
            measured: *shown.measured.iter().find(|point| point.cores == most)?,
        })
    });
    Ok(rows.collect())
}
