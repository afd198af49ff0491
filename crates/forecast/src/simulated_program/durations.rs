//! Times that are drawn as a profile found them: not their mean alone, but how they are spread.

use profile::Times;
use workloads::Random;

/// A distribution of durations, as shares of their mean.
///
/// What is longer than [`Durations::LONGEST`] times the mean is drawn as several pauses of that length: a run of some
/// milliseconds would meet one pause of a second once or never, and its mean would be either wrong. In a closed system
/// throughput hardly depends on more of a pause than its mean.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Durations {
    /// All alike.
    Fixed,
    /// Exponentially spread: many short ones and few long ones.
    Exponential,
    /// As a histogram has them.
    Spread {
        /// Cumulated share of each bucket, its least and its greatest value in means.
        buckets: Vec<(f64, f64, f64)>,
        /// The chance of a long pause besides.
        pause: f64,
    },
}

impl Durations {
    /// In means; see the type.
    const LONGEST: f64 = 30.0;

    /// The distribution of these times, or `otherwise` where none was kept.
    pub(crate) fn of(times: &Times, otherwise: Self) -> Self {
        let kept = times.buckets.iter().filter(|bucket| bucket.count > 0);
        let middle = |from: f64, to: f64| f64::midpoint(from, to);
        let (mut count, mut total) = (0.0, 0.0);
        for bucket in kept.clone() {
            count += bucket.count as f64;
            total += bucket.count as f64 * middle(bucket.from_ns, bucket.to_ns);
        }
        // Fewer do not show a shape.
        const ENOUGH: f64 = 30.0;
        if count < ENOUGH || total <= 0.0 {
            return otherwise;
        }
        let mean = total / count;
        let short = |from: f64, to: f64| middle(from, to) <= Self::LONGEST * mean;
        let body: Vec<_> = kept.clone().filter(|bucket| short(bucket.from_ns, bucket.to_ns)).collect();
        let (body_count, body_total) = body.iter().fold((0.0, 0.0), |(count, total), bucket| {
            let number = bucket.count as f64;
            (count + number, total + number * middle(bucket.from_ns, bucket.to_ns))
        });
        let pause = (total - body_total) / count / (Self::LONGEST * mean);
        // What is not in pauses is in the body, which is drawn every time.
        let scale = (body_total / count) / (body_total / body_count).max(f64::MIN_POSITIVE) / mean;
        let mut cumulated = 0.0;
        let buckets = body.iter().map(|bucket| {
            cumulated += bucket.count as f64 / body_count;
            (cumulated, bucket.from_ns * scale, bucket.to_ns * scale)
        });
        Self::Spread { buckets: buckets.collect(), pause }
    }

    /// A time of a distribution with this mean, rounded at random so that the mean stays.
    pub(crate) fn draw(&self, random: &mut Random, mean: f64) -> u64 {
        if mean <= 0.0 {
            return 0;
        }
        let share = match self {
            Self::Fixed => 1.0,
            Self::Exponential => {
                /// Fine enough for the mean of an exponential distribution.
                const UNIT: u64 = 1 << 20;
                random.time(UNIT, workloads::Variation::Exponential) as f64 / UNIT as f64
            }
            Self::Spread { buckets, pause } => {
                let at = even(random);
                let found =
                    buckets.partition_point(|&(cumulated, ..)| cumulated <= at).min(buckets.len() - 1);
                let (_, from, to) = buckets[found];
                let body = from + (to - from) * even(random);
                if *pause > 0.0 && even(random) < *pause { body + Self::LONGEST } else { body }
            }
        };
        (share * mean + even(random)) as u64
    }
}

/// Evenly in [0, 1).
pub(crate) fn even(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::read::Bucket;

    fn mean_of(durations: &Durations, mean: f64) -> f64 {
        let mut random = Random::of_thread(7, 0);
        const DRAWS: u64 = 400_000;
        (0..DRAWS).map(|_| durations.draw(&mut random, mean)).sum::<u64>() as f64 / DRAWS as f64
    }

    #[test]
    fn every_distribution_keeps_its_mean() {
        let bucket = |from_ns, to_ns, count| Bucket { from_ns, to_ns, count };
        let times = Times {
            count: 1_010,
            // Most are short, a hundredth takes nearly all of the time.
            buckets: vec![bucket(10.0, 20.0, 1_000), bucket(9_000.0, 11_000.0, 10)],
            ..Times::default()
        };
        let spread = Durations::of(&times, Durations::Fixed);
        assert!(matches!(&spread, Durations::Spread { pause, .. } if *pause > 0.0), "{spread:?}");
        for durations in [Durations::Fixed, Durations::Exponential, spread] {
            for mean in [2.5, 400.0] {
                let found = mean_of(&durations, mean);
                assert!((found / mean - 1.0).abs() < 0.01, "{durations:?}: {found} for {mean}");
            }
        }
    }

    #[test]
    fn a_few_samples_show_no_shape() {
        let times = Times {
            count: 3,
            buckets: vec![Bucket { from_ns: 1.0, to_ns: 2.0, count: 3 }],
            ..Times::default()
        };
        assert_eq!(Durations::of(&times, Durations::Exponential), Durations::Exponential);
        assert_eq!(Durations::of(&Times::default(), Durations::Fixed), Durations::Fixed);
        assert_eq!(mean_of(&Durations::Fixed, 0.0), 0.0);
    }
}
