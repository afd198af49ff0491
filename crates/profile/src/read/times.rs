//! Durations: exact sums, and distributions where pairs were warm.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::histogram::{bucket, lower_bound};

/// Many durations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// How many were measured.
    pub count: u64,
    /// Their exact sum, ns, less what recording itself added.
    pub total_ns: f64,
    /// What recording itself added, ns: subtracted from their sum.
    pub own_ns: f64,
    /// Recording took longer where its cost was measured than the shortest of them did with it. So less was subtracted,
    /// and how much of the rest is the program's is not known.
    pub hidden: bool,
    /// Their distribution, without empty buckets. May hold fewer than `count`: rarely used pairs keep none.
    pub buckets: Vec<Bucket>,
}

/// Durations from `from_ns` up to, but not with, `to_ns`, less what recording itself added.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bucket {
    /// Shortest, ns.
    pub from_ns: f64,
    /// The next bucket's shortest, ns.
    pub to_ns: f64,
    /// How many.
    pub count: u64,
}

impl Times {
    /// Their mean, ns; `None` if there are none.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total_ns / self.count as f64)
    }

    /// What their mean is certainly below, ns, where they are too short to be told from the cost of recording them. Then
    /// [`Times::mean_ns`] is no more than a guess.
    pub fn bound_ns(&self) -> Option<f64> {
        (self.count > 0 && self.hidden && self.total_ns < self.own_ns)
            .then(|| (self.total_ns + self.own_ns) / self.count as f64)
    }

    /// The duration that `part` (0 to 1) of them do not exceed, ns, within the width of its bucket.
    ///
    /// `None` if no distribution was kept.
    pub fn quantile_ns(&self, part: f64) -> Option<f64> {
        let all: u64 = self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.count));
        let mut left = (part.clamp(0.0, 1.0) * all as f64).max(f64::MIN_POSITIVE);
        for bucket in &self.buckets {
            if left <= bucket.count as f64 {
                return Some(bucket.from_ns + (bucket.to_ns - bucket.from_ns) * left / bucket.count as f64);
            }
            left -= bucket.count as f64;
        }
        self.buckets.last().map(|bucket| bucket.to_ns)
    }

    /// The same, with buckets that distributions of several machines have in common: a bucket's durations go where its middle is.
    pub(super) fn on_grid(&self) -> Self {
        let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
        for of in &self.buckets {
            let count = counts.entry(bucket(((of.from_ns + of.to_ns) / 2.0) as u64)).or_default();
            *count = count.saturating_add(of.count);
        }
        let buckets = counts.into_iter().map(|(i, count)| {
            let [from_ns, to_ns] = [i, i + 1].map(|i| lower_bound(i) as f64);
            Bucket { from_ns, to_ns, count }
        });
        Self { buckets: buckets.collect(), ..*self }
    }

    /// Both together.
    pub fn and(&self, other: &Self) -> Self {
        let mut buckets = self.buckets.clone();
        for bucket in &other.buckets {
            match buckets.iter_mut().find(|mine| (mine.from_ns, mine.to_ns) == (bucket.from_ns, bucket.to_ns))
            {
                Some(mine) => mine.count = mine.count.saturating_add(bucket.count),
                None => buckets.push(*bucket),
            }
        }
        buckets.sort_by(|a, b| a.to_ns.total_cmp(&b.to_ns));
        Self {
            count: self.count.saturating_add(other.count),
            total_ns: self.total_ns + other.total_ns,
            own_ns: self.own_ns + other.own_ns,
            hidden: self.hidden || other.hidden,
            buckets,
        }
    }
}

/// Sums of ticks on their way to [`Times`].
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    count: u64,
    sum: u64,
    /// Counts of buckets that are not empty: most locks are cold.
    buckets: BTreeMap<usize, u64>,
}

impl Ticks {
    pub(super) const NONE: Self = Self { count: 0, sum: 0, buckets: BTreeMap::new() };

    pub(super) fn add(&mut self, count: u64, sum: u64, buckets: impl Iterator<Item = (usize, u64)>) {
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(sum);
        for (bucket, count) in buckets {
            let mine = self.buckets.entry(bucket).or_insert(0);
            *mine = mine.saturating_add(count);
        }
    }

    /// How long the shortest of them took, but for one in a hundred; not above their mean. `None` if there are none.
    pub(super) fn shortest(&self) -> Option<f64> {
        let mean = (self.count > 0).then(|| self.sum as f64 / self.count as f64)?;
        let all: u64 = self.buckets.values().fold(0, |sum, &count| sum.saturating_add(count));
        let mut seen = 0_u64;
        let shortest = self.buckets.iter().find(|&(_, &count)| {
            seen = seen.saturating_add(count);
            seen > all / 100
        });
        Some(shortest.map_or(mean, |(&bucket, _)| mean.min(lower_bound(bucket) as f64)))
    }

    /// `own_ticks` is what recording added to each, as it was measured; `shortest` limits what of it is subtracted, since
    /// no duration is shorter than the part of it that is recording.
    pub(super) fn finish(&self, ns_per_tick: f64, own_ticks: f64, shortest: Option<f64>) -> Times {
        let hidden = shortest.is_some_and(|shortest| shortest < own_ticks);
        let own_ticks = shortest.unwrap_or(own_ticks).min(own_ticks);
        let own = (self.count as f64 * own_ticks).min(self.sum as f64);
        let net = self.sum as f64 - own;
        let mut buckets: Vec<Bucket> = Vec::new();
        for (&i, &count) in &self.buckets {
            let left_ns = |ticks: u64| (ticks as f64 - own_ticks).max(0.0) * ns_per_tick;
            let bucket =
                Bucket { from_ns: left_ns(lower_bound(i)), to_ns: left_ns(lower_bound(i + 1)), count };
            match buckets.last_mut() {
                // Recording took all of the last bucket, whose durations are the shortest of this one.
                Some(last) if last.to_ns == 0.0 => {
                    *last = Bucket { count: last.count.saturating_add(count), ..bucket };
                }
                _ => buckets.push(bucket),
            }
        }
        Times { count: self.count, total_ns: net * ns_per_tick, own_ns: own * ns_per_tick, hidden, buckets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ticks: &[u64]) -> Times {
        let mut sums = Ticks::NONE;
        for &value in ticks {
            sums.add(1, value, std::iter::once((bucket(value), 1)));
        }
        sums.finish(0.5, 0.0, None)
    }

    #[test]
    fn sums_do_not_depend_on_buckets() {
        let times = times(&[1001, 1002, 1003]);
        assert_eq!((times.count, times.total_ns), (3, 1503.0));
        assert_eq!(times.mean_ns(), Some(501.0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes many minutes under Miri")]
    fn quantiles_are_within_a_bucket() {
        let times = times(&(1..=1000).collect::<Vec<_>>());
        for part in [0.1, 0.5, 0.9, 1.0] {
            let found = times.quantile_ns(part).unwrap();
            let right = part * 500.0;
            assert!((found - right).abs() <= right * 0.25, "{part}: {found} ns, should be near {right} ns");
        }
        assert_eq!(Times::default().quantile_ns(0.5), None);
    }

    #[test]
    fn own_cost_is_subtracted_but_never_below_zero() {
        let mut sums = Ticks::NONE;
        sums.add(10, 1000, std::iter::empty());
        assert_eq!(sums.finish(1.0, 30.0, None).total_ns, 700.0);
        assert_eq!(sums.finish(1.0, 300.0, None).total_ns, 0.0);
        sums.add(1, 100, std::iter::once((bucket(100), 1)));
        let shifted = sums.finish(1.0, 30.0, None).buckets[0];
        assert!(shifted.from_ns <= 70.0 && 70.0 < shifted.to_ns, "{shifted:?}");
    }

    #[test]
    fn a_bucket_that_recording_took_all_of_is_part_of_the_next() {
        let mut sums = Ticks::NONE;
        for ticks in [10, 20, 40] {
            sums.add(1, ticks, std::iter::once((bucket(ticks), 1)));
        }
        let times = sums.finish(1.0, lower_bound(bucket(20) + 1) as f64, None);
        assert!(times.buckets.iter().all(|bucket| bucket.from_ns < bucket.to_ns), "{:?}", times.buckets);
        assert_eq!(times.buckets.iter().map(|bucket| bucket.count).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn sections_that_are_shorter_than_recording_have_a_bound_and_no_figure() {
        let mut sums = Ticks::NONE;
        for ticks in [18, 20, 22] {
            sums.add(100, 100 * ticks, std::iter::once((bucket(ticks), 100)));
        }
        let shortest = sums.shortest();
        assert!(shortest.is_some_and(|shortest| shortest <= 18.0 && shortest > 12.0), "{shortest:?}");
        let times = sums.finish(1.0, 25.0, shortest);
        assert!((times.bound_ns().unwrap() - 20.0).abs() < 1e-9, "all of it may be the program's: {times:?}");
        assert!(times.mean_ns().unwrap() > 0.0);
        let longer = sums.finish(1.0, 10.0, shortest);
        assert_eq!((longer.bound_ns(), longer.mean_ns()), (None, Some(10.0)));
        // Together with longer ones they have a mean again.
        let mut long = Ticks::NONE;
        long.add(300, 300 * 500, std::iter::empty());
        assert_eq!(times.and(&long.finish(1.0, 25.0, long.shortest())).bound_ns(), None);
    }
}
