//! Medians, ranges and ratios of runs that were interleaved. Pure.

use report::Spread;

/// Whether more or less of the metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// Less is: a time.
    Lower,
    /// More is: a throughput.
    Higher,
}

/// What a lock's ratios to glibc's say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Better in every round, and beyond the ranges.
    Better,
    /// Worse in every round, and beyond the ranges.
    Worse,
    /// The runs cannot tell the two apart.
    Alike,
}

impl Verdict {
    /// One word for a table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Alike => "no difference seen",
        }
    }
}

/// The median and range of values; none of nothing.
pub(crate) fn spread(values: &[f64]) -> Option<Spread> {
    let point = curve::Point::of_runs(1, values)?;
    Some(Spread { low: point.low, median: point.value, high: point.high })
}

/// How many times as good as the reference a lock was, round by round: the median and range of the ratios of the
/// rounds in which both have a value. More is better whichever way the metric points. None without such a round, or
/// where a value is 0 or below.
///
/// A ratio within a round cancels what changes from round to round (heat, a neighbour's load), which a ratio of
/// medians does not.
pub(crate) fn ratios(reference: &[Option<f64>], lock: &[Option<f64>], better: Better) -> Option<Spread> {
    let both = reference.iter().zip(lock).filter_map(|(&reference, &lock)| Some((reference?, lock?)));
    let ratios = both.map(|(reference, lock)| match better {
        Better::Lower => reference / lock,
        Better::Higher => lock / reference,
    });
    let ratios: Vec<_> = ratios.collect();
    let meaningful = ratios.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0);
    if meaningful { spread(&ratios) } else { None }
}

/// Differences under this share are what the layout of memory alone can make, so no lock is praised for them.
pub(crate) const SMALLEST_DIFFERENCE: f64 = 0.01;

/// What the runs say of a lock: a difference counts if every round shows it, the two ranges do not overlap and it is
/// not tiny. That two equal locks come out so by chance is as likely as two in 252 with 5 rounds.
pub(crate) fn verdict(reference: Spread, lock: Spread, ratios: Spread) -> Verdict {
    let ranges_overlap = reference.low <= lock.high && lock.low <= reference.high;
    if ranges_overlap || (ratios.median - 1.0).abs() < SMALLEST_DIFFERENCE {
        Verdict::Alike
    } else if ratios.low > 1.0 {
        Verdict::Better
    } else if ratios.high < 1.0 {
        Verdict::Worse
    } else {
        Verdict::Alike
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ranges() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { low: 1.0, median: 2.0, high: 3.0 }));
        assert_eq!(spread(&[1.0, 4.0]).map(|s| s.median), Some(2.5));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine gets twice as slow from round to round; the lock is always twice as fast.
        let glibc = [Some(2.0), Some(4.0), Some(8.0), None, Some(1.0)];
        let lock = [Some(1.0), Some(2.0), Some(4.0), Some(9.0), None];
        let twice = Some(Spread { low: 2.0, median: 2.0, high: 2.0 });
        assert_eq!(ratios(&glibc, &lock, Better::Lower), twice);
        assert_eq!(ratios(&lock, &glibc, Better::Higher), twice);
        assert_eq!(ratios(&glibc, &lock, Better::Higher).map(|ratios| ratios.high), Some(0.5));
    }

    #[test]
    fn no_ratio_where_none_has_a_meaning() {
        assert_eq!(ratios(&[None], &[Some(1.0)], Better::Lower), None);
        assert_eq!(ratios(&[Some(1.0)], &[Some(0.0)], Better::Lower), None);
        assert_eq!(ratios(&[Some(0.0)], &[Some(0.0)], Better::Higher), None);
        assert_eq!(ratios(&[Some(-1.0)], &[Some(1.0)], Better::Higher), None);
    }

    #[test]
    fn a_difference_is_one_beyond_the_ranges() {
        let of = |low, high| Spread { low, median: f64::midpoint(low, high), high };
        let glibc = of(10.0, 12.0);
        assert_eq!(verdict(glibc, of(4.0, 6.0), of(1.7, 3.0)), Verdict::Better);
        assert_eq!(verdict(glibc, of(14.0, 16.0), of(0.6, 0.8)), Verdict::Worse);
        assert_eq!(verdict(glibc, of(9.0, 10.0), of(1.1, 1.2)), Verdict::Alike, "the ranges touch");
        assert_eq!(verdict(glibc, of(9.0, 9.9), of(0.9, 1.3)), Verdict::Alike, "not in every round");
        assert_eq!(verdict(of(10.0, 10.01), of(10.02, 10.03), of(0.997, 0.999)), Verdict::Alike, "tiny");
    }
}
