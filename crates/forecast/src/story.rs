//! What the demo ends with: the lock that hurts now, the one that will, and how far the prediction of the first was right.

use crate::advise::{Advice, Finding, Row};
use curve::Point;
use report::{Screen, text};

/// Threads that do less than this share of as many times the work of one wait for a lock, in the demo's program.
const HURT: f64 = 0.7;

/// Threads that do this share of as many times the work of one, the start of the program counted, do not.
const FREE: f64 = 0.75;

/// Both parts of the story.
#[derive(Debug)]
pub struct Story<'a> {
    /// The lock that hurts on this machine.
    pub now: &'a Advice,
    /// The lock that will hurt on a larger one.
    pub later: &'a Advice,
}

/// Whether the runs show that a lock hurts here, and that another does not.
#[must_use]
pub fn is_told_now(now: &Advice) -> bool {
    let most = now.measured.most();
    let speedup = at(now, None, most).map_or(1.0, |own| own.value);
    now.void().is_none()
        && speedup < HURT * f64::from(most)
        && best(now).is_some_and(|row| row.gain.is_some_and(|gain| gain.low > 1.0))
}

/// Whether they show that a lock costs nothing here, and the forecast that it will, and another will not.
#[must_use]
pub fn is_told_later(later: &Advice) -> bool {
    let most = later.measured.most();
    let speedup = at(later, None, most).map_or(0.0, |own| own.value);
    let falls = later.findings.first().and_then(|finding| ends(&finding.rows[0]));
    later.void().is_none()
        && speedup > FREE * f64::from(most)
        && falls.is_some_and(|(peak, last)| last.value < peak.value)
        && best(later).is_some_and(|row| row.gain_there.is_some_and(|gain| gain.low > 1.0))
}

fn best(advice: &Advice) -> Option<&Row> {
    advice.findings.first().and_then(Finding::best)
}

fn at(advice: &Advice, lock: Option<&str>, threads: u32) -> Option<Point> {
    let rows = &advice.findings.first()?.rows;
    let row = rows.iter().find(|row| row.lock.as_deref() == lock)?;
    row.measured.iter().find(|point| point.cores == threads).copied()
}

/// The best and the last point of a row, measured or forecast; where the seeds disagree there is none.
fn ends(row: &Row) -> Option<(Point, Point)> {
    let forecast = || row.forecast.iter().filter(|point| !row.unstable.contains(&point.cores));
    let peak = row.measured.iter().chain(forecast()).max_by(|a, b| a.value.total_cmp(&b.value))?;
    Some((*peak, *forecast().next_back()?))
}

impl Story<'_> {
    /// The answer of the first lock, what comes of the second, and one picture.
    #[must_use]
    pub fn lines(&self, screen: Screen) -> String {
        let mut lines = self.now.terminal(screen);
        lines += &screen.fit(&format!("{}\n", self.later_in_words()));
        if let Some(what) = self.disturbed() {
            lines += &screen.fit(&format!("{what}\n"));
        }
        if let Some(contrast) = self.now.contrast().filter(|_| is_told_now(self.now)) {
            lines += &format!("\n{}", contrast.terminal(screen));
            lines += &screen.fit(&format!("{}\n", self.now.contrast_in_words()));
        }
        lines
    }

    /// The second lock, no further than it can be told.
    fn later_in_words(&self) -> String {
        let later = self.later;
        let Some(finding) = later.findings.first().filter(|_| is_told_later(later)) else {
            return "Later: of the program's other lock these runs show nothing.".into();
        };
        let most = later.measured.most();
        let here = at(later, None, most).map_or(0.0, |own| own.value);
        let (Some((peak, last)), Some(instead)) = (ends(&finding.rows[0]), finding.best()) else {
            return String::new();
        };
        let there = ends(instead).map_or(0.0, |(_, last)| last.value);
        format!(
            "Later: {} costs nothing here, where {most} threads do {here:.2} times the work of one. On {} the program does most on {} cores, \
             {:.0} times, and {:.1} times on {}; with `{}` it does {there:.0} times there.",
            text::printable(&finding.suspect.name),
            later.target,
            peak.cores,
            peak.value,
            last.value,
            last.cores,
            instead.lock.as_deref().unwrap_or_default(),
        )
    }

    /// In one line, what kept a part of the story from being told.
    fn disturbed(&self) -> Option<String> {
        let untold = [
            (!is_told_now(self.now)).then_some(self.now),
            (!is_told_later(self.later)).then_some(self.later),
        ];
        let mut reasons: Vec<String> = Vec::new();
        for advice in untold.into_iter().flatten() {
            let void = advice.void().or(advice.no_forecast.as_ref());
            reasons.extend(void.map(|void| text::printable(&void.reason)));
            reasons.extend(advice.disturbed.iter().cloned());
            let most = advice.measured.most();
            let busy = advice.measured.case(None, most).and_then(crate::advise::Case::busy);
            reasons.extend(busy.map(|busy| format!("of {most} cores the program used {busy:.2}")));
        }
        reasons.dedup();
        (!reasons.is_empty()).then(|| format!("Not all of the story can be told: {}.", reasons.join("; ")))
    }
}
