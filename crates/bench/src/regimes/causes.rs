//! Why a lock is not near the best of a regime, by what was counted in the runs of both.

use super::regime::{Figures, LINE_NS, Measured, NEAR};
use crate::findings::Part;
use curve::text::counted;
use report::{Cell, Column, Table};
use simulator::Report;
use std::fmt;
use workloads::mix::Sections;

/// The lock whose causes are a table of their own: the one to start with.
const LOCK: &str = "adaptive";

/// What falling asleep and being woken count, and a thread that loses its core otherwise, in nanoseconds: their sizes, on whatever machine.
const SLEEP_NS: f64 = 5_000.0;
const SWITCH_NS: f64 = 2_000.0;

/// A count explains a loss if what it counts for is this part of it at least.
const EXPLAINS: f64 = 0.25;

/// What was counted in the runs of a lock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counts {
    /// Sleeps of threads for each acquisition.
    pub(super) sleeps: f64,
    /// How often a thread lost its core, asleep or not, for each acquisition.
    pub(super) switches: f64,
    /// The share of writes whose last writer was another thread.
    pub(super) owner_changes: Option<f64>,
    /// Cache misses for each acquisition, of simulated machines.
    pub(super) lines: Option<f64>,
}

impl Counts {
    pub(super) fn owner_changes(sections: Sections) -> Option<f64> {
        (sections.writes > 0).then(|| sections.owner_changes as f64 / sections.writes as f64)
    }

    /// Those of a simulation.
    pub(super) fn simulated(sections: Sections, report: &Report) -> Self {
        let for_each = |count: u64| count as f64 / sections.all.max(1) as f64;
        Self {
            sleeps: for_each(report.totals.sleeps),
            switches: for_each(report.totals.context_switches),
            owner_changes: Self::owner_changes(sections),
            lines: Some(for_each(report.all_lines.all_misses())),
        }
    }

    /// What is counted between two cores: misses where they are known, else changes of the owner, of which each takes a line along.
    fn moves(&self) -> f64 {
        self.lines.or(self.owner_changes).unwrap_or(0.0)
    }
}

/// What a lock has more of than the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Threads fall asleep and are woken.
    Sleeps,
    /// Threads lose their cores, by yields or preempted.
    Switches,
    /// The lock goes from thread to thread, or its lines from core to core.
    Moves,
    /// Nothing that is counted: waiters back off while the lock is free, or spin on cores that others need.
    Other,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sleeps => "sleeps",
            Self::Switches => "switches",
            Self::Moves => "owner changes",
            Self::Other => "none counted",
        })
    }
}

/// Why a lock is not near the best; none where it is, or where one of both has no figures.
pub(super) fn cause(measured: &Measured, figures: &Figures) -> Option<Cause> {
    if measured.ratio(figures) >= NEAR {
        return None;
    }
    let best = measured.best()?;
    let ns = |figures: &Figures| figures.per_second.map(|spread| 1e9 / spread.median);
    let lost_ns = ns(figures)? - ns(best)?;
    let (own, other) = (figures.counts?, best.counts?);
    let awake = |counts: &Counts| (counts.switches - counts.sleeps).max(0.0);
    let counted_ns = [
        (Cause::Sleeps, SLEEP_NS * (own.sleeps - other.sleeps)),
        (Cause::Switches, SWITCH_NS * (awake(&own) - awake(&other))),
        (Cause::Moves, LINE_NS as f64 * (own.moves() - other.moves())),
    ];
    let (most, ns) = counted_ns.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some(if ns >= EXPLAINS * lost_ns { most } else { Cause::Other })
}

/// Where [`LOCK`] is not near the best, and why; none where it always is, or took no part.
pub(super) fn part(measured: &[Measured]) -> Option<Part> {
    let far: Vec<(&Measured, &Figures)> = measured
        .iter()
        .filter_map(|one| Some((one, one.of(LOCK)?)))
        .filter(|(one, figures)| one.ratio(figures) < NEAR)
        .collect();
    let of =
        |cause_of: Cause| far.iter().filter(|(one, figures)| cause(one, figures) == Some(cause_of)).count();
    let [sleeps, switches, moves, other] =
        [Cause::Sleeps, Cause::Switches, Cause::Moves, Cause::Other].map(of);
    (!far.is_empty()).then(|| Part {
        key: "causes",
        heading: format!("Where {LOCK} is not near the best, and why"),
        table: table(&far),
        notes: vec![format!(
            "{}: {sleeps} by sleeps, {switches} by switches, {moves} by owner changes, {other} by none of what is counted. Sleeps and \
             switches (a thread loses its core, asleep or not) are for each acquisition, of {LOCK} and of the best lock, and owner changes the \
             share of writes whose last writer was another thread. On simulated machines lines are cache misses for each acquisition. \
             The cause is what {LOCK} has more of, a sleep counting {SLEEP_NS:.0} ns, another switch {SWITCH_NS:.0} ns and a line or an owner \
             change {LINE_NS} ns, where that comes to a quarter of the lost time at least; else waiters back off while the lock is \
             free, or spin on cores that others need. Where Jain's index of the best lock is lower, that one is faster at the \
             cost of threads that wait.",
            counted(far.len() as u64, "regime")
        )],
    })
}

fn table(far: &[(&Measured, &Figures)]) -> Table {
    let mut table = Table::new([
        Column::text("regime", "regime"),
        Column::number("ratio", "ratio"),
        Column::text("best", "best"),
        Column::text("cause", "cause"),
        Column::number("sleeps_per_acquisition", "sleeps"),
        Column::number("best_sleeps_per_acquisition", "of best"),
        Column::number("switches_per_acquisition", "switches"),
        Column::number("best_switches_per_acquisition", "of best"),
        Column::number("owner_change_share", "owner changes"),
        Column::number("best_owner_change_share", "of best"),
        Column::number("lines_per_acquisition", "lines").only_if_any(),
        Column::number("best_lines_per_acquisition", "of best").only_if_any(),
        Column::number("jain", "Jain"),
        Column::number("best_jain", "of best"),
    ]);
    for (one, own) in far {
        let best = one.best();
        let both = |figure: fn(&Figures) -> Option<f64>| [figure(own), best.and_then(figure)].map(Cell::from);
        let [sleeps, best_sleeps] = both(|figures| Some(figures.counts?.sleeps));
        let [switches, best_switches] = both(|figures| Some(figures.counts?.switches));
        let [changes, best_changes] = both(|figures| figures.counts?.owner_changes);
        let [lines, best_lines] = both(|figures| figures.counts?.lines);
        let [jain, best_jain] = both(|figures| figures.jain);
        table.row([
            one.regime.to_string().into(),
            one.ratio(own).into(),
            best.map(|best| best.lock.name()).into(),
            cause(one, own).map(|cause| cause.to_string()).or(own.failure.clone()).into(),
            sleeps,
            best_sleeps,
            switches,
            best_switches,
            changes,
            best_changes,
            lines,
            best_lines,
            jain,
            best_jain,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::regime::tests::{failed, figures, measured};
    use super::*;

    fn with_counts(lock: &str, median: f64, [sleeps, switches, changes]: [f64; 3]) -> Figures {
        let counts = Counts { sleeps, switches, owner_changes: Some(changes), lines: None };
        Figures { counts: Some(counts), ..figures(lock, median) }
    }

    /// An acquisition of the best takes 1 µs, one of the other 2 µs.
    fn against(best: [f64; 3], own: [f64; 3]) -> Measured {
        measured(0, vec![with_counts("futex", 1e6, best), with_counts(LOCK, 5e5, own)])
    }

    fn cause_of(one: &Measured) -> Option<Cause> {
        cause(one, one.of(LOCK).expect("it took part"))
    }

    #[test]
    fn the_cause_is_what_explains_most_of_the_lost_time() {
        assert_eq!(
            cause_of(&against([0.0; 3], [0.2, 0.3, 1.0])),
            Some(Cause::Sleeps),
            "1,000, 200 and 100 ns"
        );
        assert_eq!(cause_of(&against([0.2, 0.2, 0.0], [0.2, 0.5, 1.0])), Some(Cause::Switches));
        assert_eq!(
            cause_of(&against([0.0; 3], [0.02, 0.02, 1.0])),
            Some(Cause::Other),
            "less than 250 of 1,000 ns"
        );
        assert_eq!(cause_of(&against([0.5, 0.5, 1.0], [0.0; 3])), Some(Cause::Other), "it has less of all");
        let mut lines = against([0.0; 3], [0.02, 0.02, 0.0]);
        for (figures, misses) in lines.locks.iter_mut().zip([1.0, 4.0]) {
            figures.counts.as_mut().expect("counts").lines = Some(misses);
        }
        assert_eq!(cause_of(&lines), Some(Cause::Moves), "three lines more, of 100 ns each");
    }

    #[test]
    fn there_is_no_cause_near_the_best_and_none_without_figures() {
        let near =
            measured(0, vec![with_counts("futex", 100.0, [0.0; 3]), with_counts(LOCK, 90.0, [1.0; 3])]);
        assert_eq!(cause_of(&near), None);
        assert!(part(&[near]).is_none());
        let failure = measured(0, vec![with_counts("futex", 100.0, [0.0; 3]), failed(LOCK)]);
        assert_eq!(cause_of(&failure), None);
        assert_eq!(part(&[failure]).expect("a row").table.json()[0]["cause"], "over 1 s");
    }

    #[test]
    fn the_note_counts_causes() {
        let far = [against([0.0; 3], [0.2, 0.3, 1.0]), against([0.0; 3], [0.0, 0.0, 1.0])];
        let part = part(&far).expect("two rows");
        assert!(
            part.notes[0].starts_with("2 regimes: 1 by sleeps, 0 by switches, 0 by owner changes, 1 by none")
        );
    }
}
