//! What the other locks would give at 8 nodes, from glibc's curve to 4 nodes alone.
//!
//! The nearest thing to a prediction without a profile and without a machine: a program's curve with the lock that it has, and
//! what families of locks did, relative to glibc's, in other programs whose curves look alike. The factors are medians over
//! every other program by name; what is printed is of the rest.

use super::{FAR, curves, median};
use crate::Reproduction;
use curve::{Curve, Point, Provenance};
use model::extrapolate::extrapolate;
use report::{Cell, Column, Table};
use std::collections::BTreeMap;

/// The nodes of glibc's curve that are shown, and the number of nodes at which the other locks are asked for.
const SHOWN: [u32; 3] = [1, 2, 4];
const ASKED: u32 = 8;

/// The study's families of locks, with its own names of the locks.
const FAMILIES: [(&str, &[&str]); 7] = [
    ("test-and-set", &["spinlock", "spinlock-ls", "ttas", "ttas-ls"]),
    ("back-off", &["backoff"]),
    ("ticket", &["ticket", "ticket-ls"]),
    (
        "queue",
        &["alock-ls", "clh-ls", "clh_spin", "malth_spin", "mcs-ls", "mcs-timepub", "mcs_spin", "partitioned"],
    ),
    ("hierarchical", &["ahmcs", "c-bo-mcs_spin", "c-ptl-tkt", "c-tkt-tkt", "hmcs", "hticket-ls"]),
    ("queue, then sleep", &["c-bo-mcs_stp", "clh_stp", "malth_stp", "mcs_stp"]),
    ("blocking", &["mutexee", "pthreadadapt"]),
];

/// How glibc's curve goes between the last two points that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trend {
    Falls,
    LevelsOff,
    Grows,
}

impl Trend {
    const ALL: [Self; 3] = [Self::Falls, Self::LevelsOff, Self::Grows];

    fn name(self) -> &'static str {
        match self {
            Self::Falls => "falls",
            Self::LevelsOff => "levels off",
            Self::Grows => "grows",
        }
    }

    /// Of a curve whose last step has this exponent: throughput as a power of the cores.
    fn of_exponent(exponent: f64) -> Self {
        match exponent {
            falls if falls < 0.0 => Self::Falls,
            half if half < 0.5 => Self::LevelsOff,
            _ => Self::Grows,
        }
    }
}

/// One lock in one program.
struct Pair {
    program: String,
    family: &'static str,
    trend: Trend,
    /// What is said of glibc's lock at [`ASKED`] nodes.
    glibc: f64,
    truth: f64,
}

impl Pair {
    /// How far the lock's throughput is from what is said of glibc's, as a logarithm.
    fn ln_ratio(&self) -> f64 {
        (self.truth / self.glibc).ln()
    }
}

/// A pair, and what is said of it without having seen its program.
struct Judged<'a> {
    pair: &'a Pair,
    /// Throughput over glibc's, as a logarithm.
    ln_factor: f64,
}

/// The figures by family and by what glibc's curve does.
pub(crate) fn across_locks() -> anyhow::Result<Reproduction> {
    let pairs = pairs(&curves()?);
    let judged = judged(&pairs);

    let mut table = Table::new([
        Column::text("family", "family"),
        Column::text("trend", "glibc's curve"),
        Column::number("pairs", "pairs"),
        Column::percent("median_error", "median error %"),
        Column::percent("far", "over 1.5 times off %"),
        Column::percent("same_median_error", "same as glibc: median error %"),
        Column::percent("same_far", "over 1.5 times off %"),
    ]);
    let mut helps = Vec::new();
    let mut row = |family: &str, trend: Option<Trend>| {
        let of: Vec<&Judged<'_>> = judged
            .iter()
            .filter(|judged| family == ALL || judged.pair.family == family)
            .filter(|judged| trend.is_none_or(|trend| judged.pair.trend == trend))
            .collect();
        let errors = |said: &dyn Fn(&Judged<'_>) -> f64| {
            let ln: Vec<f64> = of.iter().map(|judged| said(judged) - judged.pair.ln_ratio()).collect();
            let far = ln.iter().filter(|ln| ln.abs() > FAR.ln()).count() as f64 / ln.len().max(1) as f64;
            [median(ln.iter().map(|ln| ln.exp_m1().abs()).collect()), far]
        };
        let [ours, ours_far] = errors(&|judged| judged.ln_factor);
        let [same, same_far] = errors(&|_| 0.0);
        if let Some(trend) = trend.filter(|_| family != ALL && ours < same) {
            helps.push(format!("{family} where it {}", trend.name()));
        }
        table.row([
            Cell::from(family),
            Cell::from(trend.map_or("any", Trend::name)),
            Cell::from(of.len()),
            Cell::from(ours),
            Cell::from(ours_far),
            Cell::from(same),
            Cell::from(same_far),
        ]);
    };
    for (family, _) in FAMILIES {
        Trend::ALL.into_iter().for_each(|trend| row(family, Some(trend)));
    }
    Trend::ALL.into_iter().for_each(|trend| row(ALL, Some(trend)));
    row(ALL, None);

    Ok(Reproduction {
        title: "Programs under 28 locks on 64 cores: the other locks at 8 nodes, from glibc's curve to 4",
        table,
        plots: Vec::new(),
        notes: vec![
            "Said of a lock: what contend extrapolate says of glibc's, times the median factor of its family among the programs in which \
             glibc's curve goes alike from 2 to 4 nodes. Baseline: the same as glibc's, without a factor. Errors are \
             |predicted / measured - 1|."
                .into(),
            "The factor for a program is learned from all programs but that one: the median over programs of their medians.".into(),
            format!("The factor of the family beats the baseline, by median error, in {} of {} rows: {}.", helps.len(), FAMILIES.len() * Trend::ALL.len(), helps.join(", ")),
            ranks_note(&judged),
        ],
        faults: Vec::new(),
        scores: Vec::new(),
    })
}

const ALL: &str = "all";

/// Rank correlation of what is said and what was measured among the locks of a program, one for each program in which locks differ.
fn rank_correlations(judged: &[Judged<'_>]) -> BTreeMap<Trend, Vec<f64>> {
    let mut by_program: BTreeMap<(Trend, &str), Vec<&Judged<'_>>> = BTreeMap::new();
    for judged in judged {
        by_program.entry((judged.pair.trend, &judged.pair.program)).or_default().push(judged);
    }
    let mut by_trend: BTreeMap<Trend, Vec<f64>> = BTreeMap::new();
    for ((trend, _), locks) in by_program {
        let said: Vec<f64> = locks.iter().map(|judged| judged.ln_factor).collect();
        let truth: Vec<f64> = locks.iter().map(|judged| judged.pair.truth).collect();
        by_trend.entry(trend).or_default().extend(rank_correlation(&said, &truth));
    }
    by_trend
}

/// Whether the order of the locks within a program was right.
fn ranks_note(judged: &[Judged<'_>]) -> String {
    let trends: Vec<String> = rank_correlations(judged)
        .into_iter()
        .map(|(trend, correlations)| {
            let (least, most) =
                correlations.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &one| {
                    (least.min(one), most.max(one))
                });
            format!(
                "{:.2} ({least:.2} to {most:.2}) in the {} where glibc's {}",
                median(correlations.clone()),
                correlations.len(),
                trend.name()
            )
        })
        .collect();
    format!(
        "Order of the locks within a program, rank correlation of said and measured (Spearman), median and range over programs: {}. \
         The baseline has no order.",
        trends.join(", ")
    )
}

/// Spearman's rank correlation; `None` where one side is all ties. Equal values share the mean of their ranks.
fn rank_correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let ranks = |values: &[f64]| -> Vec<f64> {
        let rank = |value: f64| {
            let below = values.iter().filter(|&&other| other < value).count();
            let equal = values.iter().filter(|&&other| other == value).count();
            below as f64 + (equal as f64 - 1.0) / 2.0
        };
        values.iter().map(|&value| rank(value)).collect()
    };
    let middle = (a.len() as f64 - 1.0) / 2.0;
    let from_middle = |values| ranks(values).into_iter().map(|rank| rank - middle).collect::<Vec<f64>>();
    let (a, b) = (from_middle(a), from_middle(b));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let scale = (dot(&a, &a) * dot(&b, &b)).sqrt();
    (scale > 0.0).then(|| dot(&a, &b) / scale)
}

/// Every pair with what the other programs say of it.
fn judged(pairs: &[Pair]) -> Vec<Judged<'_>> {
    let mut ratios: BTreeMap<_, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for pair in pairs {
        let of_kind = ratios.entry((pair.family, pair.trend)).or_default();
        of_kind.entry(&pair.program).or_default().push(pair.ln_ratio());
    }
    // A program counts once, however many locks of a family it was run with.
    let medians: BTreeMap<_, BTreeMap<&str, f64>> = ratios
        .into_iter()
        .map(|(key, programs)| {
            (key, programs.into_iter().map(|(program, ln)| (program, median(ln))).collect())
        })
        .collect();
    pairs
        .iter()
        .map(|pair| {
            let others =
                medians[&(pair.family, pair.trend)].iter().filter(|(program, _)| **program != pair.program);
            let others: Vec<f64> = others.map(|(_, &ln)| ln).collect();
            Judged { pair, ln_factor: if others.is_empty() { 0.0 } else { median(others) } }
        })
        .collect()
}

/// Every lock but glibc's in every program that has glibc's curve.
fn pairs(curves: &[Curve]) -> Vec<Pair> {
    let glibc: BTreeMap<&str, (f64, Trend)> = curves
        .iter()
        .filter(|curve| curve.lock == "pthread")
        .filter_map(|curve| {
            let points: Vec<Point> = SHOWN.iter().map(|&nodes| curve.at(nodes)).collect::<Option<_>>()?;
            let exponent = (points[2].value / points[1].value).log2();
            let cut = Curve::new("", curve.unit, Provenance::Published).with_points(points).ok()?;
            let said = extrapolate(&cut, &[ASKED]).ok()?.curve.at(ASKED)?.value;
            Some((&*curve.workload, (said, Trend::of_exponent(exponent))))
        })
        .collect();
    curves
        .iter()
        .filter_map(|curve| {
            let (glibc, trend) = *glibc.get(&*curve.workload)?;
            let (family, _) = FAMILIES.iter().find(|(_, locks)| locks.contains(&&*curve.lock))?;
            let truth = curve.at(ASKED)?.value;
            (truth > 0.0).then(|| Pair { program: curve.workload.clone(), family, trend, glibc, truth })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_lock_of_the_study_but_glibcs_has_a_family() {
        let curves = curves().unwrap();
        let without: BTreeSet<&str> = curves
            .iter()
            .map(|curve| &*curve.lock)
            .filter(|lock| !FAMILIES.iter().any(|(_, locks)| locks.contains(lock)))
            .collect();
        assert_eq!(without, BTreeSet::from(["pthread"]));
        let families: BTreeSet<&str> = pairs(&curves).iter().map(|pair| pair.family).collect();
        assert_eq!(families.len(), FAMILIES.len());
    }

    #[test]
    fn ranks_of_the_same_order_agree() {
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[0.1, 0.2, 7.0]), Some(1.0));
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(rank_correlation(&[1.0, 1.0], &[3.0, 2.0]), None);
    }

    #[test]
    fn the_order_of_locks_is_told_best_where_glibcs_curve_falls() {
        let pairs = pairs(&curves().unwrap());
        let judged = judged(&pairs);
        let median_rank = |trend| median(rank_correlations(&judged).remove(&trend).unwrap());
        assert!(median_rank(Trend::Falls) > 0.3);
        assert!(median_rank(Trend::Falls) > median_rank(Trend::LevelsOff));
    }

    #[test]
    fn a_program_says_nothing_of_itself() {
        let pair = |program: &str, truth| Pair {
            program: program.into(),
            family: "queue",
            trend: Trend::Grows,
            glibc: 1.0,
            truth,
        };
        let pairs = [pair("a", 2.0), pair("b", 8.0), pair("c", 4.0)];
        let said: Vec<f64> = judged(&pairs).iter().map(|judged| judged.ln_factor.exp().round()).collect();
        assert_eq!(said, [6.0, 3.0, 4.0]);
    }
}
