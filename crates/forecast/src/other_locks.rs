//! The other locks of the program, and all of them together.

use crate::one_lock::{LockPrediction, predict_lock};
use crate::{Target, powers_of_two};
use curve::Curve;
use model::predict::{self, Part};
use model::{Observed, Parameters, Prediction, Verdict};
use report::{Cell, Column, Screen, Table, text};
use serde::Serialize;

/// Another lock of the program: what becomes of it as it is.
#[derive(Debug, Serialize)]
pub struct Other {
    name: String,
    peak_cores: Option<u32>,
    collapse_cores: Option<u32>,
    verdict: Verdict,
}

/// Predicts another lock as it is; what cannot be told is its verdict.
pub fn as_it_is(lock: &Observed, target: &Target) -> Other {
    let name = lock.name.clone();
    match predict_lock(lock, &[], target) {
        Ok(LockPrediction { predictions, .. }) => {
            let Prediction { peak_cores, collapse_cores, ref verdict, .. } = predictions[0].prediction;
            Other { name, peak_cores: Some(peak_cores), collapse_cores, verdict: verdict.clone() }
        }
        Err(error) => {
            let verdict = Verdict::CannotTell { reason: format!("{error:#}") };
            Other { name, peak_cores: None, collapse_cores: None, verdict }
        }
    }
}

/// The program's hottest locks, as they are, one after another in each operation.
#[derive(Debug, Serialize)]
pub struct Together {
    curve: Curve,
    limited_by: String,
}

/// Takes one acquisition of the predicted lock as the operation, and all its threads to do the same work. `None` if
/// there is one lock, or if the others were held longer than the operation took, so that this cannot be.
pub fn together(
    main: &LockPrediction,
    others: &[Observed],
    target: &Target,
) -> anyhow::Result<Option<Together>> {
    let usable = others
        .iter()
        .filter_map(|lock| Some((lock, Parameters::observed(lock, target.profiled_transfer_ns).ok()?)));
    let others: Vec<_> = usable.collect();
    if others.is_empty() {
        return Ok(None);
    }
    let visits = |lock: &Observed| lock.acquisitions as f64 / main.observed.acquisitions as f64;
    let at_lock = |lock: &Observed| visits(lock) * (mean_hold_ns(lock) + lock.wait_ns);
    let elsewhere: f64 = others.iter().map(|(lock, _)| at_lock(lock)).sum();
    let think_ns = main.parameters.think_ns.likely - elsewhere;
    if think_ns <= 0.0 {
        return Ok(None);
    }
    let mut parts = vec![Part { visits: 1.0, family: main.observed.family, parameters: &main.parameters }];
    parts.extend(others.iter().map(|(lock, parameters)| Part {
        visits: visits(lock),
        family: lock.family,
        parameters,
    }));
    let last = target.cores[target.cores.len() - 1];
    let cores = powers_of_two(last);
    let (curve, limit) = predict::together(&parts, think_ns, &target.costs, &cores, target.variant)?;
    let limited_by = match limit {
        Some(place) if place > 0 => others[place - 1].0.name.clone(),
        _ => main.observed.name.clone(),
    };
    Ok(Some(Together { curve, limited_by }))
}

fn mean_hold_ns(lock: &Observed) -> f64 {
    let holds = [lock.hold_same, lock.hold_other];
    let samples: u64 = holds.iter().flatten().map(|mean| mean.samples).sum();
    holds.iter().flatten().map(|mean| mean.ns.likely * mean.samples as f64).sum::<f64>()
        / samples.max(1) as f64
}

impl Together {
    /// The line that a terminal shows.
    pub fn terminal(&self) -> String {
        let values: Vec<_> = self
            .curve
            .points()
            .iter()
            .map(|point| format!("{} at {}", text::short(point.value), point.cores))
            .collect();
        format!(
            "All of these locks together, as they are: {}; limited by {}.",
            values.join(", "),
            text::printable(&self.limited_by)
        )
    }
}

/// The table of the other locks; empty if there are none.
pub fn others_terminal(others: &[Other], screen: Screen) -> String {
    if others.is_empty() { String::new() } else { format!("\n{}", others_table(others).terminal(screen)) }
}

/// What becomes of the other locks as they are.
pub(crate) fn others_table(others: &[Other]) -> Table {
    let mut table = Table::new([
        Column::text("name", "other locks, as they are"),
        Column::number("peak_cores", "peak cores"),
        Column::number("collapse_cores", "under 90 % at"),
        Column::text("verdict", "verdict").kept(),
    ]);
    for other in others {
        table.row([
            Cell::from(other.name.as_str()),
            Cell::from(other.peak_cores),
            Cell::from(other.collapse_cores),
            Cell::from(other.verdict.words()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_lock::tests::{lock, target};
    use model::Mean;
    use report::every_screen;
    use topology::Range;

    #[test]
    fn an_unusable_lock_is_open_and_says_why() {
        let other = as_it_is(&Observed { think: None, ..lock() }, &target(8));
        let Verdict::CannotTell { reason } = &other.verdict else { panic!("{other:?}") };
        assert!(reason.contains("profile longer"), "{reason}");
    }

    #[test]
    fn readers_go_together_among_several_locks_too() {
        let target = target(16);
        let read_mostly = Observed { reads: Some(1_000_000), handover_ns: None, ..lock() };
        let main = predict_lock(&read_mostly, &[], &target).unwrap();
        // A lock that is hardly used changes nothing.
        let idle = Observed { name: "idle".into(), acquisitions: 1000, ..lock() };
        let together = together(&main, &[idle], &target).unwrap().expect("two locks");
        let [all, alone] =
            [&together.curve, &main.predictions[0].prediction.curve].map(|c| c.at(16).unwrap().value);
        assert!((all / alone - 1.0).abs() < 0.05, "{all} {alone}");
    }

    #[test]
    fn locks_together_do_less_than_the_first_alone() {
        let target = target(64);
        let main = predict_lock(&lock(), &[], &target).unwrap();
        let other = Observed {
            name: "other".into(),
            think: Some(Mean { ns: Range::exact(400.0), samples: 1000 }),
            ..lock()
        };
        let together = together(&main, &[other], &target).unwrap().expect("two locks");
        let alone = main.predictions[0].prediction.curve.at(4).unwrap().value;
        assert!(together.curve.at(4).unwrap().value < alone * 1.2);
        assert_eq!(together.curve.points()[0].value, 1.0);
        assert!(super::together(&main, &[], &target).unwrap().is_none());
    }

    #[test]
    fn other_locks_and_all_together_on_every_screen() {
        let target = target(64);
        let read_mostly =
            Observed { name: "settings_lock".into(), reads: Some(900_000), handover_ns: None, ..lock() };
        let main = predict_lock(&read_mostly, &[], &target).unwrap();
        let other = |name: &str, acquisitions| Observed { name: name.into(), acquisitions, ..lock() };
        let others = [other("cache::Table::tune_logger", 50_000), other("log_lock", 10_000)];
        let together = together(&main, &others, &target).unwrap().expect("three locks");
        // What cannot be told has no figures.
        let unknown = Observed { think: None, ..other("seldom_used", 1_000) };
        let shown: Vec<_> = others.iter().chain([&unknown]).map(|lock| as_it_is(lock, &target)).collect();
        let text = |screen: Screen| {
            format!("{}{}\n", others_terminal(&shown, screen), screen.fit(&together.terminal()))
        };
        let names = ["cache::Table::tune_logger", "log_lock", "seldom_used"];
        insta::assert_snapshot!(every_screen(&names, text));
    }
}
