//! How published claims are judged: one rule for all figures.

use crate::published::{Claim, Printed};
use crate::seeds::is_unstable;
use curve::Curve;
use report::{Cell, Spread};

/// A throughput or ratio is met within this factor.
pub(crate) const FACTOR_WITHIN: f64 = 1.5;
/// A number of cores is met within this share.
pub(crate) const CORES_WITHIN: f64 = 0.2;
/// Two throughputs are on par within this factor.
pub(crate) const PAR_WITHIN: f64 = 1.1;
/// A gain is small under this factor, and a curve flat within it.
const SMALL: f64 = 1.5;
/// Two numbers have an order if they differ by more than this share.
pub(crate) const ORDERED_BY: f64 = 0.01;
/// A number is fitted to a published one if it comes within this share of it.
pub(crate) const FITTED_WITHIN: f64 = 0.02;

/// The outcome for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The computed value is as published, within the tolerance of the figure.
    Met,
    /// It is not.
    Missed,
    /// It is, but the value follows from an input: a check of consistency, not a reproduction.
    Consistent,
    /// Published is that nothing changes, and nothing changes: anything without an effect agrees with that.
    NoChange,
    /// A number is fitted to the claim.
    Fitted,
    /// The seeds of the simulation disagree so much that their median is no result: neither met nor missed.
    Unstable,
}

impl Verdict {
    /// Its word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Consistent => "consistent",
            Self::NoChange => "no change",
            Self::Fitted => "fitted",
            Self::Unstable => "unstable",
        }
    }

    /// Met or missed.
    pub(crate) fn of(met: bool) -> Self {
        if met { Self::Met } else { Self::Missed }
    }

    /// A ratio of two throughputs. A published change is met by a change in the same direction whose logarithm is the published one's
    /// within [`FACTOR_WITHIN`], and whose ratio is within `factor` of it; where nothing is published to change, or less than [`ORDERED_BY`], nothing may.
    pub(crate) fn of_change(published: f64, computed: f64, factor: f64) -> Self {
        if within(published, 1.0, 1.0 + ORDERED_BY) {
            return if within(computed, 1.0, PAR_WITHIN) { Self::NoChange } else { Self::Missed };
        }
        let size = computed.ln() / published.ln();
        Self::of(within(size, 1.0, FACTOR_WITHIN) && within(computed, published, factor))
    }

    /// A number that a claim states; none where it states none.
    pub(crate) fn of_number(claim: &Claim, computed: f64) -> Option<Self> {
        let published = claim.number()?;
        Some(if let Some(holds) = bound_holds(claim, computed) {
            Self::of(holds)
        } else if claim.claim.contains("throughput_ratio") {
            Self::of_change(published, computed, FACTOR_WITHIN)
        } else if claim.claim.ends_with("_cores") {
            Self::of((computed / published - 1.0).abs() <= CORES_WITHIN)
        } else {
            Self::of(within(computed, published, FACTOR_WITHIN))
        })
    }

    /// A number that something is fitted to; missed where the fit does not come within [`FITTED_WITHIN`] of it.
    pub(crate) fn of_fit(published: f64, reached: f64) -> Self {
        if (reached / published - 1.0).abs() <= FITTED_WITHIN { Self::Fitted } else { Self::Missed }
    }

    /// The same of a change, where a share of the time that is fitted, percent, allows a factor that would be met by itself.
    pub(crate) fn unless_by_share(self, published: f64, percent: f64, factor: f64) -> Self {
        match Self::of_change(published, 1.0 / (1.0 - percent / 100.0), factor) {
            Self::Met => self.given_by_input(),
            _ => self,
        }
    }

    /// The same, unless the seeds of the figure that is judged, with this range, disagree.
    pub(crate) fn if_stable(self, range: Spread) -> Self {
        if is_unstable(range) { Self::Unstable } else { self }
    }

    /// The same, where met is no more than consistent.
    pub(crate) fn given_by_input(self) -> Self {
        if self == Self::Met { Self::Consistent } else { self }
    }
}

impl From<Verdict> for Cell {
    fn from(verdict: Verdict) -> Self {
        verdict.name().into()
    }
}

/// Whether two positive numbers are within a factor of each other.
pub(crate) fn within(one: f64, other: f64, factor: f64) -> bool {
    one > 0.0 && one <= other * factor && other <= one * factor
}

/// Whether the bound that a claim states holds of a number: `..._below` and `..._more_than`. None where it states no bound.
pub(crate) fn bound_holds(claim: &Claim, computed: f64) -> Option<bool> {
    let bound = claim.number()?;
    if claim.claim.ends_with("_below") {
        Some(computed < bound)
    } else if claim.claim.ends_with("_more_than") {
        Some(computed > bound)
    } else {
        None
    }
}

/// Whether a ratio says that the first of two numbers is larger.
pub(crate) fn is_more(ratio: f64) -> bool {
    ratio > 1.0 + ORDERED_BY
}

/// Whether it says that the first is smaller.
pub(crate) fn is_less(ratio: f64) -> bool {
    ratio < 1.0 - ORDERED_BY
}

/// What the curves of the ticket lock and of a queue lock say to a claim of their shape: whether it holds, and the number behind it.
pub(crate) fn shape(claim: &str, ticket: &Curve, queue: &Curve) -> Option<(bool, f64)> {
    let at = |curve: &Curve, cores| curve.at(cores).map_or(f64::NAN, |point| point.value);
    let last = |curve: &Curve| curve.points().last().map_or(f64::NAN, |point| point.value);
    Some(match claim {
        "ordering_throughput_2_over_1" => {
            let slower = at(ticket, 2).min(at(queue, 2));
            (is_more(slower), slower)
        }
        "ordering_falls_from_2_to_4_then_flat" => {
            let ratio = at(queue, 4) / at(queue, 2);
            (is_less(ratio) && within(last(queue), at(queue, 4), SMALL), ratio)
        }
        "ordering_small_gain" => {
            // At 48 cores the gain is 3.5 or more in every benchmark: the small one is that of the peaks.
            let peak = |curve: &Curve| curve.peak().map_or(f64::NAN, |peak| peak.value);
            let gain = peak(queue) / peak(ticket);
            (is_more(gain) && gain < SMALL, gain)
        }
        _ => return None,
    })
}

/// Half a unit of the last digit that is printed. Zeros at the end of a whole number count as printed only up to two digits.
pub(crate) fn half_unit(printed: &str) -> Option<f64> {
    printed.parse::<f64>().ok()?;
    let power = match printed.split_once('.') {
        Some((_, decimals)) => -(decimals.len() as i32),
        None => {
            let zeros = printed.len() - printed.trim_end_matches('0').len();
            zeros.min(printed.len().saturating_sub(2)) as i32
        }
    };
    Some(0.5 * 10_f64.powi(power))
}

/// Whether a computed value rounds to the printed one.
pub(crate) fn is_as_printed(printed: &str, computed: f64) -> bool {
    let exact = printed.parse::<f64>().ok().zip(half_unit(printed));
    exact.is_some_and(|(published, half)| (computed - published).abs() <= half)
}

/// Whether a computed ratio is that of two printed numbers, each within its rounding.
pub(crate) fn is_ratio_as_printed(above: &Printed, below: &Printed, computed: f64) -> bool {
    let relative = |printed: &Printed| half_unit(&printed.text).map_or(0.0, |half| half / printed.value);
    let ratio = above.value / below.value;
    (computed - ratio).abs() <= ratio * (relative(above) + relative(below))
}

/// One claim as one row of a figure judges it.
#[derive(Debug, Clone)]
pub struct Score {
    /// Who publishes it.
    pub(crate) source: &'static str,
    /// What computes it: the model or the simulator.
    pub(crate) by: &'static str,
    /// The claim; several rows that judge one claim, in several readings or in several figures, have the same.
    pub(crate) claim: String,
    pub(crate) verdict: Verdict,
    /// Whether the computed value rounds to the published one, or lies in the range of its repeats.
    pub(crate) as_printed: bool,
    /// What is believed to be lacking where the claim is missed.
    pub(crate) mechanism: &'static str,
}

/// The 2012 paper.
pub(crate) const PAPER: &str = "Boyd-Wickizer et al. 2012";
/// Slides on the same work.
pub(crate) const LECTURE: &str = "lecture on the 2012 paper";
/// The 2014 talk.
pub(crate) const TALK: &str = "Bueso and Norton 2014";
/// The 2013 mail on back-off that tunes itself.
pub(crate) const MAIL: &str = "van Riel 2013";
/// Commits and mails on the rw_semaphore.
pub(crate) const COMMITS: &str = "Linux commits and LKML 2013";
/// The lecture on transactional memory, and Afek, Levy and Morrison.
pub(crate) const TRANSACTIONS: &str = "lecture on transactional memory; Afek et al. 2014";

pub(crate) const MODEL: &str = "model";
pub(crate) const SIMULATOR: &str = "simulator";

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Met, Missed, NoChange};
    use curve::{Point, Provenance, Unit};

    fn curve(values: &[(u32, f64)]) -> Curve {
        let points = values.iter().map(|&(cores, value)| Point::exact(cores, value));
        Curve::new("", Unit::Speedup, Provenance::Simulated).with_points(points).unwrap()
    }

    #[test]
    fn a_published_change_is_not_met_by_nothing_changing() {
        assert_eq!(Verdict::of_change(1.05, 1.0, 1.25), Missed);
        assert_eq!(Verdict::of_change(0.82, 1.0, 1.25), Missed);
        assert_eq!(Verdict::of_change(1.05, 0.96, 1.25), Missed, "the other direction");
        assert_eq!(Verdict::of_change(1.2, 1.18, 1.25), Met);
        assert_eq!(Verdict::of_change(9.0, 17.0, 1.5), Missed, "too much of it");
        assert_eq!(Verdict::of_change(1.0, 1.03, 1.25), NoChange);
        assert_eq!(Verdict::of_change(1.0, 1.2, 1.25), Missed);
        assert_eq!(Verdict::of_change(1.005, 1.0, 1.25), NoChange, "a change too small to be one");
        assert_eq!(Verdict::of_change(1.5, f64::NAN, 1.25), Missed);
    }

    #[test]
    fn a_large_gain_is_not_small_and_a_falling_curve_not_flat() {
        let ticket = curve(&[(1, 1.0), (2, 0.9), (4, 0.5), (48, 0.1)]);
        let gains = |queue: &[(u32, f64)]| shape("ordering_small_gain", &ticket, &curve(queue)).unwrap().0;
        assert!(gains(&[(1, 1.0), (48, 1.4)]));
        assert!(!gains(&[(1, 1.0), (48, 8.0)]));
        let flat = |last| {
            let queue = curve(&[(2, 0.9), (4, 0.8), (48, last)]);
            shape("ordering_falls_from_2_to_4_then_flat", &ticket, &queue).unwrap().0
        };
        assert!(flat(0.7));
        assert!(!flat(0.3) && !flat(2.0));
    }

    #[test]
    fn the_precision_is_that_of_the_last_printed_digit() {
        for (printed, half) in [("4.7", 0.05), ("0.35", 0.005), ("9", 0.5), ("10000", 500.0), ("10", 0.5)] {
            assert!((half_unit(printed).unwrap() / half - 1.0).abs() < 1e-9, "{printed}");
        }
        assert!(is_as_printed("4.7", 4.72) && !is_as_printed("4.7", 4.76));
        assert!(is_as_printed("1.0", 1.03) && !is_as_printed("true", 1.0));
        let [above, below] = [390_000.0, 160_000.0].map(Printed::from);
        assert!(is_ratio_as_printed(&above, &below, 2.5));
        assert!(!is_ratio_as_printed(&above, &below, 2.6));
    }

    #[test]
    fn a_bound_is_no_target_and_a_difference_under_one_percent_no_order() {
        let claim = |claim: &str| Claim {
            benchmark: String::new(),
            lock: String::new(),
            claim: claim.into(),
            value: "10".into(),
            place: String::new(),
        };
        let (below, more) = (claim("most_speedup_below"), claim("one_case_more_than"));
        let of = |claim, computed| Verdict::of_number(claim, computed).unwrap();
        assert_eq!([of(&below, 2.0), of(&below, 10.0), of(&below, 10.1)], [Met, Missed, Missed]);
        assert_eq!([of(&more, 40.0), of(&more, 10.0), of(&more, 9.9)], [Met, Missed, Missed]);
        assert_eq!(bound_holds(&claim("critical_section_cycles_above_44"), 20.0), None);
        assert!(is_more(1.02) && !is_more(1.0) && !is_more(1.009) && !is_more(f64::NAN));
        assert!(is_less(0.98) && !is_less(0.999) && !is_less(1.0) && !is_less(f64::NAN));
    }

    #[test]
    fn what_a_fitted_share_gives_by_itself_is_consistent() {
        assert_eq!(Met.unless_by_share(8.0, 84.0, 1.5), Verdict::Consistent);
        assert_eq!(Met.unless_by_share(8.0, 50.0, 1.5), Met, "the share allows 2");
        assert_eq!(Missed.unless_by_share(8.0, 84.0, 1.5), Missed);
    }

    #[test]
    fn a_figure_whose_seeds_disagree_is_neither_met_nor_missed() {
        let range = |high| Spread { low: 1.0, median: 1.5, high };
        assert_eq!(Met.if_stable(range(2.0)), Met);
        assert_eq!(Missed.if_stable(range(2.0)), Missed);
        assert_eq!(Met.if_stable(range(2.1)), Verdict::Unstable);
        assert_eq!(Missed.if_stable(range(2.1)).given_by_input(), Verdict::Unstable);
    }

    #[test]
    fn a_fit_that_does_not_come_near_is_missed() {
        assert_eq!(Verdict::of_fit(34.8657, 34.5), Verdict::Fitted);
        assert_eq!(Verdict::of_fit(34.8657, 29.7), Missed);
        assert_eq!(Verdict::of_fit(34.8657, f64::NAN), Missed);
    }
}
