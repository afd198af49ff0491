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
    /// Better in every round.
    Better,
    /// Worse in every round.
    Worse,
    /// Better in some, worse in others, or equal: the runs cannot tell the two apart.
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

/// What the ratios say.
pub(crate) fn verdict(ratios: Spread) -> Verdict {
    if ratios.low > 1.0 {
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
        assert_eq!(ratios(&glibc, &lock, Better::Higher).map(verdict), Some(Verdict::Worse));
    }

    #[test]
    fn no_ratio_where_none_has_a_meaning() {
        assert_eq!(ratios(&[None], &[Some(1.0)], Better::Lower), None);
        assert_eq!(ratios(&[Some(1.0)], &[Some(0.0)], Better::Lower), None);
        assert_eq!(ratios(&[Some(0.0)], &[Some(0.0)], Better::Higher), None);
        assert_eq!(ratios(&[Some(-1.0)], &[Some(1.0)], Better::Higher), None);
    }

    #[test]
    fn a_difference_is_one_beyond_the_range() {
        let verdict = |low, high| verdict(Spread { low, median: 1.0, high });
        assert_eq!(verdict(1.01, 1.2), Verdict::Better);
        assert_eq!(verdict(0.8, 0.99), Verdict::Worse);
        assert_eq!(verdict(0.9, 1.1), Verdict::Alike);
        assert_eq!(verdict(1.0, 1.2), Verdict::Alike);
    }
}
