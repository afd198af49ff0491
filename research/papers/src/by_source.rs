//! All judged claims, counted by source.

use crate::Reproduction;
use crate::verdict::{CORES_WITHIN, FACTOR_WITHIN, FITTED_WITHIN, ORDERED_BY, Score, Verdict};
use report::{Cell, Column, Table};
use session::seeds::UNSTABLE;
use std::collections::BTreeMap;

/// One claim with all rows that judge it.
#[derive(Debug)]
struct Judged {
    verdict: Verdict,
    as_printed: bool,
}

impl Judged {
    /// A claim that is judged in several readings is as bad as the worst of them: missed is worse than unstable, unstable than fitted.
    fn of(rows: &[&Score]) -> Self {
        use Verdict::{Consistent, Fitted, Met, Missed, NoChange, Unstable};
        let worst = [Missed, Unstable, Fitted, Consistent, NoChange, Met];
        let verdict = worst.into_iter().find(|&worst| rows.iter().any(|row| row.verdict == worst));
        Self { verdict: verdict.unwrap_or(Missed), as_printed: rows.iter().all(|row| row.as_printed) }
    }
}

/// What one source publishes and one means computes.
struct Group<'a> {
    source: &'static str,
    by: &'static str,
    rows: Vec<&'a Score>,
}

impl Group<'_> {
    fn judged(&self) -> Vec<Judged> {
        let mut by_claim = BTreeMap::<&str, Vec<&Score>>::new();
        self.rows.iter().for_each(|row| by_claim.entry(&row.claim).or_default().push(row));
        by_claim.values().map(|rows| Judged::of(rows)).collect()
    }

    /// What is believed to be lacking, each once.
    fn mechanisms(&self) -> String {
        let mut all = Vec::new();
        for row in self.rows.iter().filter(|row| row.verdict == Verdict::Missed) {
            if !all.contains(&row.mechanism) {
                all.push(row.mechanism);
            }
        }
        all.join("; ")
    }
}

/// In the order of the first row of each.
fn groups(scores: &[Score]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for score in scores {
        match groups.iter_mut().find(|group| (group.source, group.by) == (score.source, score.by)) {
            Some(group) => group.rows.push(score),
            None => groups.push(Group { source: score.source, by: score.by, rows: vec![score] }),
        }
    }
    groups
}

/// The table by source.
pub(crate) fn by_source(scores: &[Score]) -> Reproduction {
    let mut table = Table::new([
        Column::text("source", "source"),
        Column::text("computed_by", "computed by"),
        Column::number("rows", "rows"),
        Column::number("claims", "claims"),
        Column::number("fitted", "fitted"),
        Column::number("consistent", "consistent"),
        Column::number("no_change", "no change"),
        Column::number("met", "met"),
        Column::number("as_printed", "of these as printed"),
        Column::number("missed", "missed"),
        Column::number("unstable", "unstable"),
        Column::text("mechanism", "believed to be lacking"),
    ]);
    for group in groups(scores) {
        let judged = group.judged();
        let count = |verdict| judged.iter().filter(|claim| claim.verdict == verdict).count();
        let met = |claim: &&Judged| claim.verdict == Verdict::Met && claim.as_printed;
        table.row([
            Cell::from(group.source),
            Cell::from(group.by),
            Cell::from(group.rows.len()),
            Cell::from(judged.len()),
            Cell::from(count(Verdict::Fitted)),
            Cell::from(count(Verdict::Consistent)),
            Cell::from(count(Verdict::NoChange)),
            Cell::from(count(Verdict::Met)),
            Cell::from(judged.iter().filter(met).count()),
            Cell::from(count(Verdict::Missed)),
            Cell::from(count(Verdict::Unstable)),
            Cell::from(group.mechanisms()),
        ]);
    }
    Reproduction {
        variant: None, title: "Published claims by source: how many are met, and what is believed to be lacking for the rest",
        table,
        plots: Vec::new(),
        notes: vec![
            "A claim that several rows judge, in several readings or workloads, is counted once and is as bad as the worst of them.".into(),
            format!(
                "Met: numbers of cores within {:.0} %, throughputs and ratios within a factor of {FACTOR_WITHIN} (AIM7: 1.25; the talk's contention tables: 8 %), \
                 and a published change only by a change in the same direction and of the same size, its logarithm within a factor of {FACTOR_WITHIN}; orderings by \
                 more than {:.0} %. As \
                 printed: the computed value rounds to the published one, or lies in the range of its repeats; orderings, which print no number, are not \
                 counted there.",
                100.0 * CORES_WITHIN,
                100.0 * ORDERED_BY
            ),
            format!(
                "Fitted, consistent and no change are not met. Fitted: a number of the simulation is sought for it; where a search for a share of the time ends more than \
                 {:.0} % from it, it is missed. Consistent: the value follows from an input, such as a section of one core. No change: published is that nothing changes, with \
                 which anything without an effect agrees. Unstable: one seed of the simulation gives more than {UNSTABLE:.0} times what another gives, so that their \
                 median is no result; neither met nor missed.",
                100.0 * FITTED_WITHIN
            ),
            "Rows without a published figure and forecasts of measured curves (lock-study) are not counted.".into(),
        ],
        faults: Vec::new(),
        scores: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{MODEL, PAPER, SIMULATOR};

    fn score(by: &'static str, claim: &str, verdict: Verdict, as_printed: bool) -> Score {
        Score { source: PAPER, by, claim: claim.into(), verdict, as_printed, mechanism: "waiters' reads" }
    }

    #[test]
    fn a_claim_is_counted_once_and_by_its_worst_row() {
        use Verdict::{Consistent, Fitted, Met, Missed, Unstable};
        let scores = [
            score(MODEL, "start", Met, true),
            score(MODEL, "start", Unstable, true),
            score(MODEL, "peak", Met, true),
            score(MODEL, "peak", Missed, false),
            score(MODEL, "end", Met, true),
            score(MODEL, "limit", Consistent, true),
            score(SIMULATOR, "peak", Met, false),
            score(SIMULATOR, "end", Fitted, true),
            score(SIMULATOR, "limit", Fitted, true),
            score(SIMULATOR, "limit", Missed, false),
        ];
        let json = by_source(&scores).table.json();
        let (model, simulator) = (&json[0], &json[1]);
        assert_eq!((&model["rows"], &model["claims"]), (&6.into(), &4.into()));
        assert_eq!(
            (&model["met"], &model["as_printed"], &model["missed"]),
            (&1.into(), &1.into(), &1.into())
        );
        assert_eq!(model["unstable"], 1, "not met");
        assert_eq!((&model["consistent"], &model["mechanism"]), (&1.into(), &"waiters' reads".into()));
        assert_eq!((&simulator["met"], &simulator["as_printed"]), (&1.into(), &0.into()));
        assert_eq!((&simulator["fitted"], &simulator["missed"]), (&1.into(), &1.into()));
    }
}
