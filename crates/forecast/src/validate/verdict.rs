//! Whether predictions came true.

use super::{Validated, Validation, curves, verdict_of};
use crate::twin::errors;
use model::Verdict;
use serde::Serialize;

/// A lock's verdict against what was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// The lock.
    pub lock: String,
    /// The predicted verdict in a few words.
    pub predicted: String,
    /// What was measured, likewise.
    pub measured: String,
    /// Whether they agree; none where the measurement or the prediction cannot tell.
    pub right: Option<bool>,
}

/// What of a program's predictions came true.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// Of each lock.
    pub verdicts: Vec<Compared>,
    /// Whether the best three locks come in the predicted order at the most threads; none with fewer than three, or where all are
    /// predicted alike.
    pub order: Option<bool>,
}

impl Judgement {
    pub(super) fn of(rows: &[Validation]) -> Self {
        let mut locks: Vec<&str> = Vec::new();
        for row in rows {
            if !locks.contains(&row.lock.as_str()) {
                locks.push(&row.lock);
            }
        }
        let of_lock = |lock: &str| rows.iter().filter(|row| row.lock == lock).collect::<Vec<_>>();
        let verdicts = locks.iter().filter_map(|lock| compared(lock, &of_lock(lock)));
        Self { verdicts: verdicts.collect(), order: order(rows) }
    }
}

fn compared(lock: &str, rows: &[&Validation]) -> Option<Compared> {
    let [predicted, measured] = curves(rows)?.map(|ends| verdict_of(&ends));
    let right = match (&predicted, &measured) {
        (Verdict::CannotTell { .. }, _) | (_, Verdict::CannotTell { .. }) => None,
        (Verdict::Collapses { .. }, other) | (other, Verdict::Collapses { .. }) => {
            Some(matches!((&predicted, other), (Verdict::Collapses { .. }, Verdict::Collapses { .. })))
        }
        (predicted, measured) => Some(predicted == measured),
    };
    Some(Compared { lock: lock.to_owned(), predicted: predicted.words(), measured: measured.words(), right })
}

/// Whether the three locks that are predicted best are measured no worse than those which are predicted behind them, at the most
/// threads. Locks that are predicted alike, or whose measured ranges overlap, come in either order; none where nobody is predicted
/// behind.
fn order(rows: &[Validation]) -> Option<bool> {
    const BEST: usize = 3;
    /// Predicted medians that differ by less come from runs of other seeds.
    const ALIKE: f64 = 1.05;
    let most = rows.iter().map(|row| row.threads).max()?;
    let mut last: Vec<_> = rows
        .iter()
        .filter(|row| row.threads == most)
        .filter_map(|row| Some((row.predicted?, row.measured?)))
        .collect();
    if last.len() < BEST {
        return None;
    }
    last.sort_by(|a, b| b.0.value.total_cmp(&a.0.value));
    let behind = |place: usize| {
        let (best, measured) = last[place];
        let worse = last[place + 1..].iter().filter(move |(other, _)| best.value > ALIKE * other.value);
        worse.map(move |(_, other)| other.low <= measured.high)
    };
    let told: Vec<bool> = (0..BEST).flat_map(behind).collect();
    (!told.is_empty()).then(|| told.iter().all(|&right| right))
}

/// How many predictions of all programs came true, against what they are to come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Goals {
    /// Programs that were validated, and those that could not be.
    pub programs: usize,
    /// See `programs`.
    pub failed: usize,
    /// Predictions on more than one thread.
    pub predictions: usize,
    /// Median of their errors, without sign.
    pub median_error: f64,
    /// Share of them within 40 %.
    pub within: f64,
    /// Programs whose best three locks come in the predicted order, of those with an order that was predicted.
    pub ordered: (usize, usize),
    /// Verdicts that the measurement contradicts, of those that both tell.
    pub contradicted: (usize, usize),
    /// Measurements within the predicted range, of all. Where there are programs enough, the factor that widens a program's ranges is
    /// chosen by all other programs for this.
    pub held: (usize, usize),
    /// The factors that all programs together ask for: of threads with a core each, and of threads that share cores.
    pub factors: [f64; 2],
    /// The factors by which twin and chain were off, at the median of what both have predicted: threads with a core each.
    pub engines: [f64; 2],
}

/// What predictions are to come to.
pub(super) const MEDIAN_ERROR: f64 = 0.15;
/// No error over this, in nine of ten.
pub(super) const LARGE_ERROR: f64 = 0.4;
/// The share of predictions that is to be within [`LARGE_ERROR`].
pub(super) const WITHIN: f64 = 0.9;
/// The share of programs whose order is to be right.
pub(super) const ORDERED: f64 = 0.8;

/// Adds up what became of all programs.
#[must_use]
pub fn goals(all: &[Validated]) -> Goals {
    let done = || all.iter().filter(|one| one.failed.is_none());
    let mut errors: Vec<f64> = done()
        .flat_map(|one| &one.rows)
        .filter(|row| row.threads > 1)
        .filter_map(Validation::error)
        .map(f64::abs)
        .collect();
    errors.sort_by(f64::total_cmp);
    let orders: Vec<bool> = done().filter_map(|one| one.judgement.order).collect();
    let verdicts: Vec<bool> =
        done().flat_map(|one| &one.judgement.verdicts).filter_map(|compared| compared.right).collect();
    let count = |of: &[bool], what: bool| of.iter().filter(|&&one| one == what).count();
    Goals {
        programs: done().count(),
        failed: all.len() - done().count(),
        predictions: errors.len(),
        median_error: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
        within: errors.iter().filter(|&&error| error <= LARGE_ERROR).count() as f64
            / errors.len().max(1) as f64,
        ordered: (count(&orders, true), orders.len()),
        contradicted: (count(&verdicts, false), verdicts.len()),
        held: held(&done().collect::<Vec<_>>()),
        factors: factors(&done().collect::<Vec<_>>()),
        engines: engines(all),
    }
}

/// The factors by which twin and chain were off, at the median.
fn engines(all: &[Validated]) -> [f64; 2] {
    let rows = all.iter().flat_map(|one| &one.rows).filter(|row| row.threads > 1);
    let off = rows.filter_map(|row| {
        let measured = row.measured?.value;
        Some([row.predicted?.value, row.chain?].map(|said| (said / measured).ln().abs()))
    });
    let off: Vec<[f64; 2]> = off.collect();
    [0, 1].map(|engine: usize| {
        let mut of_engine: Vec<f64> = off.iter().map(|both| both[engine]).collect();
        of_engine.sort_by(f64::total_cmp);
        of_engine.get(of_engine.len() / 2).map_or(1.0, |off| off.exp())
    })
}

/// By how much the range of each prediction on more than one thread, as it is without what widens it, would have to grow on both
/// sides to hold what was measured: the logarithm, and whether the threads share cores.
fn beyond(one: &Validated) -> impl Iterator<Item = (f64, bool)> {
    one.rows.iter().filter(|row| row.threads > 1).filter_map(|row| {
        let (predicted, measured) = (row.predicted?, row.measured?);
        let factor = errors::factor(row.threads, one.cores);
        let below = (predicted.low * factor / measured.value).ln();
        let above = (measured.value * factor / predicted.high).ln();
        Some((below.max(above).max(0.0), row.threads > one.cores))
    })
}

/// The factors that let the ranges of these programs hold the part that ranges are to hold.
fn factors(programs: &[&Validated]) -> [f64; 2] {
    [false, true].map(|share_cores| {
        let of_kind =
            programs.iter().flat_map(|one| beyond(one)).filter(|&(_, shared)| shared == share_cores);
        let mut beyond: Vec<f64> = of_kind.map(|(beyond, _)| beyond).collect();
        beyond.sort_by(f64::total_cmp);
        let last_held = (errors::HELD * beyond.len() as f64).ceil() as usize;
        beyond.get(last_held.saturating_sub(1)).map_or(1.0, |beyond| beyond.exp())
    })
}

/// Fewer programs do not show how wide a range has to be.
const ENOUGH_PROGRAMS: usize = 8;

/// How many measurements lie in ranges that are widened by what the other programs ask for, or, with few programs, in those that are
/// predicted; and how many there are.
fn held(all: &[&Validated]) -> (usize, usize) {
    let (mut held, mut count) = (0, 0);
    for &one in all {
        let others: Vec<_> = all.iter().copied().filter(|other| !std::ptr::eq(*other, one)).collect();
        let others = if all.len() < ENOUGH_PROGRAMS {
            [errors::factor(2, 2), errors::factor(2, 1)]
        } else {
            factors(&others)
        };
        for (beyond, shared) in beyond(one) {
            held += usize::from(beyond <= others[usize::from(shared)].ln() + 1e-9);
            count += 1;
        }
    }
    (held, count)
}

impl Goals {
    /// A line for each goal: what it is, what came of it, and whether that is met.
    #[must_use]
    pub fn lines(&self) -> Vec<(String, String, bool)> {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let (ordered, programs) = self.ordered;
        let (wrong, verdicts) = self.contradicted;
        let (held, measured) = self.held;
        let share_held = held as f64 / measured.max(1) as f64;
        let chosen =
            if self.programs < ENOUGH_PROGRAMS { "" } else { ", its width chosen by the other programs" };
        let any = self.predictions > 0;
        vec![
            (
                format!("median error at most {}", percent(MEDIAN_ERROR)),
                percent(self.median_error),
                any && self.median_error <= MEDIAN_ERROR,
            ),
            (
                format!("{} within {}", percent(WITHIN), percent(LARGE_ERROR)),
                percent(self.within),
                any && self.within >= WITHIN,
            ),
            (
                "order of the best three locks right in four of five programs".to_owned(),
                format!("{ordered} of {programs}"),
                programs > 0 && ordered as f64 >= ORDERED * programs as f64,
            ),
            (
                "no verdict contradicted by the measurement".to_owned(),
                format!("{wrong} of {verdicts}"),
                verdicts > 0 && wrong == 0,
            ),
            (
                format!("{} of the measurements in the predicted range", percent(errors::HELD)),
                format!("{} ({held} of {measured}{chosen})", percent(share_held)),
                measured > 0 && share_held >= errors::HELD,
            ),
        ]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use curve::Point;

    pub(in crate::validate) fn validated(rows: Vec<Validation>) -> Validated {
        let judgement = Judgement::of(&rows);
        Validated {
            program: "p".into(),
            command: "p -t {threads}".into(),
            failed: None,
            site: "s".into(),
            rows,
            doubts: Vec::new(),
            noise: Vec::new(),
            transfer_ns: None,
            together: None,
            machine: "a machine".into(),
            cores: 2,
            runs: 5,
            judgement,
        }
    }

    pub(in crate::validate) fn row(lock: &str, threads: u32, predicted: f64, measured: f64) -> Validation {
        let point = |value: f64| Some(Point { cores: threads, value, low: 0.98 * value, high: 1.02 * value });
        Validation {
            lock: lock.into(),
            threads,
            predicted: point(predicted),
            chain: None,
            measured: point(measured),
        }
    }

    #[test]
    fn a_collapse_that_did_not_come_is_wrong() {
        let rows = |measured: [f64; 3]| {
            [1, 2, 4]
                .iter()
                .zip([1.0, 0.5, 0.3])
                .zip(measured)
                .map(|((&n, p), m)| row("a", n, p, m))
                .collect::<Vec<_>>()
        };
        let right = |measured| Judgement::of(&rows(measured)).verdicts[0].right;
        assert_eq!(right([1.0, 0.4, 0.2]), Some(true));
        assert_eq!(right([1.0, 1.9, 2.0]), Some(false));
    }

    #[test]
    fn the_order_of_the_best_counts_where_ranges_do_not_overlap() {
        let of = |predicted: [f64; 4], measured: [f64; 4]| {
            let rows: Vec<_> = ["a", "b", "c", "d"]
                .iter()
                .zip(predicted)
                .zip(measured)
                .map(|((lock, p), m)| row(lock, 8, p, m))
                .collect();
            Judgement::of(&rows).order
        };
        let with = |measured| of([4.0, 3.0, 2.0, 1.0], measured);
        assert_eq!(of([2.0, 2.01, 2.02, 2.0], [1.0, 4.0, 2.0, 3.0]), None, "no order was predicted");
        assert_eq!(of([2.0, 2.01, 2.02, 1.0], [2.0, 4.0, 3.0, 1.0]), Some(true));
        assert_eq!(of([2.0, 2.01, 2.02, 1.0], [2.0, 4.0, 3.0, 2.5]), Some(false));
        assert_eq!(with([4.0, 3.0, 2.0, 1.0]), Some(true));
        assert_eq!(with([3.0, 3.05, 2.0, 1.0]), Some(true), "these two cannot be told apart");
        assert_eq!(with([3.0, 4.0, 2.0, 1.0]), Some(false));
        assert_eq!(with([4.0, 3.0, 2.0, 2.5]), Some(false), "another one is among the best");
    }

    #[test]
    fn a_range_is_as_wide_as_the_other_programs_ask_for() {
        // What the rows' ranges of 2 % do not hold, and the widening of the prediction taken back.
        let off = |factor: f64| {
            let rows = [2, 4].map(|threads| {
                let widened = 1.02 * errors::factor(threads, 2);
                let mut row = row("a", threads, 1.0, factor);
                row.predicted = Some(Point { cores: threads, value: 1.0, low: 1.0 / widened, high: widened });
                row
            });
            validated(rows.to_vec())
        };
        let alike: Vec<_> = [1.0, 1.5].into_iter().chain([1.5; 8]).map(off).collect();
        let found = goals(&alike);
        assert!(found.factors.iter().all(|factor| (factor - 1.5 / 1.02).abs() < 1e-9), "{found:?}");
        assert_eq!(found.held, (20, 20));
        let one_far_off: Vec<_> = [3.0; 1].into_iter().chain([1.1; 9]).map(off).collect();
        assert_eq!(goals(&one_far_off).held, (18, 20), "the others do not ask for so much");
        assert_eq!(
            goals(&one_far_off[..2]).held,
            (2, 4),
            "few programs: the range is that of the prediction"
        );
        assert_eq!(goals(&[]).held, (0, 0));
    }

    #[test]
    fn goals_are_met_or_missed() {
        let rows = vec![row("a", 1, 1.0, 1.0), row("a", 2, 1.9, 2.0), row("a", 4, 2.0, 4.0)];
        let found = goals(&[validated(rows)]);
        assert_eq!((found.predictions, found.within), (2, 0.5));
        let mut of_both = row("a", 2, 1.0, 2.0);
        of_both.chain = Some(6.0);
        let [twin, chain] = goals(&[validated(vec![of_both, row("a", 4, 1.0, 9.0)])]).engines;
        assert!((twin - 2.0).abs() < 1e-9 && (chain - 3.0).abs() < 1e-9, "{twin} and {chain}");
        assert!(!found.lines()[1].2 && !goals(&[]).lines()[0].2);
    }
}
