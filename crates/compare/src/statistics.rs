//! Medians, ranges and ratios of runs that were interleaved. Pure.

pub use report::Better;
use report::Spread;

/// What the runs say of a lock beside the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Better by more than chance and the launcher explain.
    Better,
    /// Worse by more than chance and the launcher explain.
    Worse,
    /// The runs do not show that the two differ.
    Alike,
    /// The two look far apart, but so few runs do so by chance too often.
    TooFewRuns,
}

impl Verdict {
    /// A few words for a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Alike => "no difference seen",
            Self::TooFewRuns => "cannot tell: too few runs",
        }
    }
}

/// The median and range of values; none of nothing.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let point = curve::Point::of_runs(1, values)?;
    Some(Spread::from(point))
}

/// The median, and the range that holds the median of as many runs as one likes in 19 of 20 cases, whatever the distribution: what the sign test
/// leaves of the values in order. All of them where they are few; a run that something disturbed widens it only then.
pub fn of_median(values: &[f64]) -> Option<Spread> {
    /// The range misses the median in this share of the cases at most.
    const MISSED: f64 = 0.05;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // So many of the values, or fewer, lie on one side of the median with this probability, which two sides double.
    let (mut at_end, mut exactly, mut left_out) = (0.0, 0.5_f64.powi(count as i32), 0);
    for number in 0..count / 2 {
        at_end += exactly;
        if 2.0 * at_end > MISSED {
            break;
        }
        left_out = number;
        exactly *= (count - number) as f64 / (number + 1) as f64;
    }
    Some(Spread { low: *sorted.get(left_out)?, high: sorted[count - 1 - left_out], ..spread(values)? })
}

/// Why a lock has no ratio to the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoRatio {
    /// No round has a value of both.
    NoRound,
    /// A value is below 0, or it is 0 and divides the other one.
    Value {
        /// The value is the reference's, and not the lock's.
        of_reference: bool,
        /// The round that it is of, from 1.
        round: usize,
        /// The value.
        value: f64,
    },
}

/// How many times as good as the reference a lock was, round by round: the median and range of the ratios of the
/// rounds in which both have a value. More is better whichever way the metric points.
///
/// A ratio within a round cancels what changes from round to round (heat, a neighbour's load), which a ratio of
/// medians does not.
///
/// # Errors
///
/// There is no such round, or a value in one has no ratio: the first of those.
pub fn ratios_or_why(
    reference: &[Option<f64>],
    lock: &[Option<f64>],
    better: Better,
) -> Result<Spread, NoRatio> {
    let mut ratios = Vec::new();
    for (round, (&reference, &lock)) in (1..).zip(reference.iter().zip(lock)) {
        let (Some(reference), Some(lock)) = (reference, lock) else { continue };
        let ratio = match better {
            Better::Lower => reference / lock,
            Better::Higher => lock / reference,
        };
        for (value, of_reference) in [(reference, true), (lock, false)] {
            let divides = of_reference == (better == Better::Higher);
            if value < 0.0 || (divides && !ratio.is_finite()) {
                return Err(NoRatio::Value { of_reference, round, value });
            }
        }
        ratios.push(ratio);
    }
    spread(&ratios).ok_or(NoRatio::NoRound)
}

/// As [`ratios_or_why`], without the reason.
pub fn ratios(reference: &[Option<f64>], lock: &[Option<f64>], better: Better) -> Option<Spread> {
    ratios_or_why(reference, lock, better).ok()
}

/// Differences under this share are what the layout of memory alone can make, so no lock is praised for them.
pub const SMALLEST_DIFFERENCE: f64 = 0.01;

/// A program's own runs differ by this share from day to day for reasons that are not its locks.
const LEAST_EFFECT: f64 = 2.0 * SMALLEST_DIFFERENCE;

/// Two equal locks come out as different in fewer than one comparison in so many.
pub const ODDS: f64 = 100.0;

/// With fewer runs of each, even runs that do not overlap at all are not rare enough: 2 in 70 with four, 2 in 252 with five.
pub const LEAST_RUNS: usize = 5;

/// From this factor on in every round, a difference between too few runs is worth a word.
const STRIKING: f64 = 2.0;

/// What the runs say of a lock. None where there is no ratio to the reference (see [`ratios`]).
///
/// A difference counts if the exact rank-sum test of Mann and Whitney (1947) finds fewer than one in [`ODDS`] ways to deal
/// the same figures to the two locks that set them as far apart, if the ratio within rounds points the same way, and if
/// it is larger than a program's runs differ anyway and than `least`, in the unit of the metric. The test assumes no shape
/// of the noise; runs that are interleaved share what drifts.
pub fn verdict(
    reference: &[Option<f64>],
    lock: &[Option<f64>],
    better: Better,
    least: f64,
) -> Option<Verdict> {
    let rounds = ratios(reference, lock, better)?;
    let ratio = rounds.median;
    let [reference, lock] = [reference, lock].map(|runs| runs.iter().flatten().copied().collect::<Vec<_>>());
    let medians = [spread(&reference)?.median, spread(&lock)?.median];
    let alike = (ratio - 1.0).abs() < LEAST_EFFECT || (medians[0] - medians[1]).abs() <= least;
    let few = reference.len().min(lock.len()) < LEAST_RUNS;
    Some(match rank_sum(&reference, &lock) {
        _ if alike => Verdict::Alike,
        Ranks { apart: true, .. } if few && (rounds.low >= STRIKING || rounds.high <= 1.0 / STRIKING) => {
            Verdict::TooFewRuns
        }
        Ranks { chance, .. } if few || chance * ODDS >= 1.0 => Verdict::Alike,
        Ranks { second_is_more, .. } => match (second_is_more == (better == Better::Higher), ratio > 1.0) {
            (true, true) => Verdict::Better,
            (false, false) => Verdict::Worse,
            _ => Verdict::Alike,
        },
    })
}

/// How the ranks of two samples lie.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ranks {
    /// The chance that as uneven ranks come of dealing the same values out at random, on either side.
    chance: f64,
    /// The second sample has the higher ranks.
    second_is_more: bool,
    /// The samples do not overlap.
    apart: bool,
}

/// The rank-sum test. Ties count half, and are rounded so that they never make a difference more certain.
fn rank_sum(first: &[f64], second: &[f64]) -> Ranks {
    let [m, n] = [first.len(), second.len()];
    // U: the pairs in which the second sample's value is the larger one.
    let larger: f64 = second
        .iter()
        .flat_map(|b| {
            first.iter().map(move |a| {
                if b > a {
                    1.0
                } else if b < a {
                    0.0
                } else {
                    0.5
                }
            })
        })
        .sum();
    let pairs = (m * n) as f64;
    let extreme = larger.max(pairs - larger);
    Ranks { chance: chance_of(m, n, extreme), second_is_more: larger > pairs / 2.0, apart: extreme == pairs }
}

/// The chance that two samples of `m` and `n` values dealt out at random have a U of `extreme`, which is at least half of the pairs,
/// or more, on either side. Exact where one of them has up to `EXACT` values, else by the normal approximation.
fn chance_of(m: usize, n: usize, extreme: f64) -> f64 {
    /// Above this many values in both samples, the normal approximation is good to a thousandth.
    const EXACT: usize = 30;
    /// Of more pairs than this the exact chance takes too long.
    const MOST_PAIRS: usize = 100_000;
    let chance = if m.min(n) <= EXACT && m * n <= MOST_PAIRS {
        let ways = ways_of_u(m.min(n), m.max(n));
        let all: f64 = ways.iter().sum();
        // As rare as so few pairs on the other side, whose sum loses no digits.
        let as_extreme: f64 = ways[..=m * n - extreme.floor() as usize].iter().sum();
        2.0 * as_extreme / all
    } else {
        let pairs = (m * n) as f64;
        let deviation = (pairs * (m + n + 1) as f64 / 12.0).sqrt();
        2.0 * normal_tail((extreme - pairs / 2.0 - 0.5) / deviation)
    };
    chance.min(1.0)
}

/// The ratios to the reference that chance leaves open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LikelyRatio {
    /// How many times as good as the reference: the least and the greatest that are not refuted, and the median of all pairs of
    /// a run of each (Hodges and Lehmann 1963).
    pub range: Spread,
    /// The chance that the true ratio lies outside: under one in [`ODDS`] where there are runs enough for that.
    pub chance: f64,
}

/// The range of ratios that the rank-sum test of [`verdict`] does not refute, whichever way the metric points: more is better. None
/// where one has no runs, a value is below 0, or one divided by is 0.
pub fn likely_ratio(reference: &[Option<f64>], lock: &[Option<f64>], better: Better) -> Option<LikelyRatio> {
    let [reference, lock] = [reference, lock].map(|runs| runs.iter().flatten().copied().collect::<Vec<_>>());
    let of_pair = |one: f64, other: f64| match better {
        Better::Lower => one / other,
        Better::Higher => other / one,
    };
    let mut ratios: Vec<f64> =
        reference.iter().flat_map(|&one| lock.iter().map(move |&other| of_pair(one, other))).collect();
    let meaningful = ratios.iter().all(|ratio| ratio.is_finite())
        && reference.iter().chain(&lock).all(|&value| value >= 0.0);
    let median = spread(&ratios).filter(|_| meaningful)?.median;
    ratios.sort_unstable_by(f64::total_cmp);
    // A ratio under so many of the sorted ones is refuted if that many pairs on one side are rare enough.
    let chance = |under: usize| chance_of(reference.len(), lock.len(), (ratios.len() - under) as f64);
    let candidates: Vec<usize> = (0..ratios.len().div_ceil(2)).collect();
    let refuted = candidates.partition_point(|&under| chance(under) * ODDS < 1.0);
    // Too few runs refute nothing: then it is the range of all pairs, which holds the ratio less often.
    let last = refuted.saturating_sub(1);
    let range = Spread { low: ratios[last], median, high: ratios[ratios.len() - 1 - last] };
    Some(LikelyRatio { range, chance: chance(last) })
}

/// In how many ways two samples of `m` and `n` different values can lie, by U from 0 to `m n`.
fn ways_of_u(m: usize, n: usize) -> Vec<f64> {
    // The counts are the coefficients of a Gaussian binomial: the product of (1 - q^(n+i)) / (1 - q^i) for i from 1 to m.
    let mut ways = vec![0.0; m * n + 1];
    ways[0] = 1.0;
    for i in 1..=m {
        for u in (n + i..ways.len()).rev() {
            ways[u] -= ways[u - n - i];
        }
        for u in i..ways.len() {
            ways[u] += ways[u - i];
        }
    }
    ways
}

/// The chance that a standard normal variable is above `z`, to 7 digits: formula 26.2.17 of Abramowitz and Stegun.
pub fn normal_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() * series;
    if z >= 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn medians_and_ranges() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { low: 1.0, median: 2.0, high: 3.0 }));
        assert_eq!(spread(&[1.0, 4.0]).map(|s| s.median), Some(2.5));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn one_run_in_twelve_does_not_widen_where_the_median_lies() {
        let mut twelve: Vec<f64> = (1..=12).map(f64::from).collect();
        assert_eq!(
            of_median(&twelve),
            Some(Spread { low: 3.0, median: 6.5, high: 10.0 }),
            "tables of the sign test"
        );
        twelve[11] = 1_000.0;
        assert_eq!(of_median(&twelve).map(|range| range.high), Some(10.0));
        assert_eq!(
            of_median(&[1.0, 2.0, 3.0, 4.0, 50.0]),
            Some(Spread { low: 1.0, median: 3.0, high: 50.0 })
        );
        let six = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0];
        assert_eq!(of_median(&six), Some(Spread { low: 1.0, median: 3.5, high: 6.0 }));
        assert_eq!(of_median(&[]), None);
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
        let twice_as_bad = ratios(&[Some(-1.0)], &[Some(-2.0)], Better::Higher);
        assert_eq!(twice_as_bad, None, "that is not twice as good");
    }

    #[test]
    fn a_ratio_that_is_not_there_is_for_a_value_in_a_round() {
        let why = |reference: &[f64], lock: &[f64], better| {
            ratios_or_why(&some(reference), &some(lock), better).map(|ratios| ratios.median)
        };
        let value = |of_reference, round, value| Err(NoRatio::Value { of_reference, round, value });
        assert_eq!(why(&[2.0, 0.0], &[1.0, 1.0], Better::Higher), value(true, 2, 0.0));
        assert_eq!(why(&[2.0, 1.0], &[0.0, 1.0], Better::Lower), value(false, 1, 0.0));
        assert_eq!(why(&[1.0, 1.0], &[1.0, -3.0], Better::Higher), value(false, 2, -3.0));
        assert_eq!(why(&[0.0], &[0.0], Better::Higher), value(true, 1, 0.0));
        assert_eq!(why(&[1.0], &[0.0], Better::Higher), Ok(0.0), "nothing is done, which is a figure");
        assert_eq!(why(&[0.0], &[1.0], Better::Lower), Ok(0.0));
        assert_eq!(why(&[], &[1.0], Better::Lower), Err(NoRatio::NoRound));
    }

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn ranks_are_counted_as_tables_have_them() {
        assert_eq!(ways_of_u(3, 2), [1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0]);
        assert_eq!(ways_of_u(5, 5).iter().sum::<f64>(), 252.0);
        let apart = rank_sum(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((apart.chance - 2.0 / 252.0).abs() < 1e-12 && apart.second_is_more && apart.apart);
        let equal = rank_sum(&[1.0; 4], &[1.0; 4]);
        assert!(equal.chance == 1.0 && !equal.apart);
        // Mann and Whitney's table for n = m = 8: U of 51 or more, or 13 or less, has a chance of 2 x 0.0249.
        let ways = ways_of_u(8, 8);
        let tail: f64 = ways[51..].iter().sum::<f64>() / ways.iter().sum::<f64>();
        assert!((tail - 0.0249).abs() < 5e-4, "{tail}");
        let many: Vec<f64> = (0..31).map(f64::from).collect();
        let later: Vec<f64> = many.iter().map(|value| value + 9.5).collect();
        assert!(
            (normal_tail(1.959_964) - 0.025).abs() < 1e-6 && (normal_tail(-1.0) - 0.841_344_7).abs() < 1e-6
        );
        assert!(rank_sum(&many, &later).chance < 0.001 && rank_sum(&many, &many).chance > 0.9);
    }

    #[test]
    fn a_difference_is_beyond_chance_effect_and_start() {
        let judge = |reference: &[f64], lock: &[f64], least| {
            verdict(&some(reference), &some(lock), Better::Lower, least).unwrap()
        };
        let glibc = [10.0, 10.5, 11.0, 11.5, 12.0];
        assert_eq!(judge(&glibc, &[4.0, 5.0, 4.5, 6.0, 5.5], 0.0), Verdict::Better);
        assert_eq!(judge(&glibc, &[14.0, 15.0, 14.5, 16.0, 15.5], 0.0), Verdict::Worse);
        assert_eq!(
            judge(&glibc, &[14.0, 15.0, 14.5, 16.0, 15.5], 4.5),
            Verdict::Alike,
            "no more than a start costs"
        );
        assert_eq!(judge(&glibc, &[9.0, 10.2, 10.0, 11.0, 9.5], 0.0), Verdict::Alike, "the ranges overlap");
        assert_eq!(
            judge(&[10.0, 10.01, 10.02, 10.03, 10.04], &[10.1, 10.11, 10.12, 10.13, 10.14], 0.0),
            Verdict::Alike,
            "one per cent"
        );
        assert_eq!(judge(&glibc[..4], &[4.0, 4.0, 4.0, 4.0], 0.0), Verdict::TooFewRuns);
        assert_eq!(judge(&glibc[..4], &[9.0, 9.0, 9.0, 9.0], 0.0), Verdict::Alike);
        assert_eq!(verdict(&[None], &some(&[1.0]), Better::Lower, 0.0), None);
        let more = verdict(&some(&glibc), &some(&[14.0, 15.0, 14.5, 16.0, 15.5]), Better::Higher, 0.0);
        assert_eq!(more, Some(Verdict::Better));
    }

    /// Draws that are the same in every run of the test.
    pub(crate) struct Draws(machine::random::Random);

    impl Draws {
        pub(crate) fn new(seed: u64) -> Self {
            Self(machine::random::Random::new(seed))
        }

        /// From 0 to 1.
        fn uniform(&mut self) -> f64 {
            (self.0.next() >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// Box and Muller 1958.
        fn normal(&mut self) -> f64 {
            let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
            radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
        }
    }

    /// A kind of noise: the time of the run with this number among all runs.
    pub(crate) type Noise = fn(&mut Draws, f64) -> f64;

    pub(crate) const KINDS_OF_NOISE: [(&str, Noise); 7] = [
        ("normal, 3 %", |draws, _| 1.0 + 0.03 * draws.normal()),
        ("log-normal, wide", |draws, _| (0.2 * draws.normal()).exp()),
        ("two modes", |draws, _| if draws.uniform() < 0.5 { 1.0 } else { 1.5 } + 0.01 * draws.normal()),
        ("now and then three times as long", |draws, _| {
            if draws.uniform() < 0.15 { 3.0 } else { 1.0 + 0.02 * draws.normal() }
        }),
        ("slower with each run", |draws, run| 1.0 + 0.03 * run + 0.01 * draws.normal()),
        ("faster with each run", |draws, run| 4.0 - 0.03 * run + 0.01 * draws.normal()),
        ("slow and fast spells", |draws, run| 1.0 + 0.3 * (run * 0.4).sin() + 0.02 * draws.normal()),
    ];

    /// Runs of two programs as [`super::super::rounds::order`] interleaves them; the second takes `factor` times as long.
    pub(crate) fn interleaved(
        draws: &mut Draws,
        noise: Noise,
        runs: usize,
        factor: f64,
    ) -> [Vec<Option<f64>>; 2] {
        let mut values = [Vec::new(), Vec::new()];
        let mut number = (20.0 * draws.uniform()).floor();
        for round in 1..=runs {
            for lock in super::super::rounds::order(2, round) {
                let time = noise(draws, number) * if lock == 1 { factor } else { 1.0 };
                values[lock].push(Some(time));
                number += 1.0;
            }
        }
        values
    }

    #[test]
    fn equal_programs_are_alike_whatever_the_noise_and_the_number_of_runs() {
        const TRIES: usize = 400;
        for (kind, noise) in KINDS_OF_NOISE {
            for runs in [2, 3, 4, 5, 7, 10, 40] {
                let mut draws = Draws::new(runs as u64);
                let alike = (0..TRIES)
                    .filter(|_| {
                        let [reference, lock] = interleaved(&mut draws, noise, runs, 1.0);
                        verdict(&reference, &lock, Better::Lower, 0.0) == Some(Verdict::Alike)
                    })
                    .count();
                assert!(alike >= TRIES * 95 / 100, "{kind}, {runs} runs: {alike} of {TRIES}");
            }
        }
    }

    #[test]
    fn a_program_that_is_faster_is_seen() {
        for (runs, factor) in [(5, 1.0 / 1.2), (7, 1.0 / 1.1), (20, 1.0 / 1.05)] {
            let mut draws = Draws::new(1);
            let seen = (0..100)
                .filter(|_| {
                    let [reference, lock] = interleaved(&mut draws, KINDS_OF_NOISE[0].1, runs, factor);
                    verdict(&reference, &lock, Better::Lower, 0.0) == Some(Verdict::Better)
                })
                .count();
            assert!(seen >= 90, "{factor} with {runs} runs: {seen} of 100");
        }
    }

    #[test]
    fn the_likely_ratios_are_those_that_the_test_does_not_refute() {
        let five = likely_ratio(
            &some(&[10.0, 11.0, 12.0, 13.0, 14.0]),
            &some(&[20.0, 21.0, 22.0, 23.0, 24.0]),
            Better::Lower,
        )
        .unwrap();
        assert_eq!((five.range.low, five.range.high), (10.0 / 24.0, 14.0 / 20.0), "five runs: all pairs");
        assert!((five.chance - 2.0 / 252.0).abs() < 1e-12);
        for runs in [5, 7, 10, 31] {
            let mut draws = Draws::new(runs as u64);
            for _ in 0..50 {
                let [one, other] = interleaved(&mut draws, KINDS_OF_NOISE[1].1, runs, 1.2);
                let likely = likely_ratio(&one, &other, Better::Higher).unwrap();
                let values = [&one, &other].map(|side| side.iter().flatten().copied().collect::<Vec<_>>());
                let refuted = rank_sum(&values[0], &values[1]).chance * ODDS < 1.0;
                let outside = likely.range.low > 1.0 || likely.range.high < 1.0;
                assert_eq!(refuted, outside, "{runs} runs: {likely:?}");
                assert!(likely.chance * ODDS < 1.0);
            }
        }
        let one = likely_ratio(&some(&[2.0]), &some(&[1.0, 4.0, 2.0]), Better::Higher).unwrap();
        assert_eq!(one.range, Spread { low: 0.5, median: 1.0, high: 2.0 });
        assert!((one.chance - 0.5).abs() < 1e-12, "one of four is the least or the greatest");
        assert_eq!(likely_ratio(&[None], &some(&[1.0]), Better::Lower), None);
        assert_eq!(likely_ratio(&some(&[0.0]), &some(&[1.0]), Better::Higher), None);
        assert_eq!(likely_ratio(&some(&[-1.0; 5]), &some(&[-2.0; 5]), Better::Higher), None);
    }

    #[test]
    fn the_true_ratio_is_among_the_likely_ones_whatever_the_noise() {
        const TRIES: usize = 300;
        for (kind, noise) in KINDS_OF_NOISE {
            let mut draws = Draws::new(3);
            let held = (0..TRIES)
                .filter(|_| {
                    let [reference, lock] = interleaved(&mut draws, noise, 10, 1.3);
                    let range = likely_ratio(&reference, &lock, Better::Lower).unwrap().range;
                    (range.low..=range.high).contains(&(1.0 / 1.3))
                })
                .count();
            assert!(held >= TRIES * 95 / 100, "{kind}: {held} of {TRIES}");
        }
    }
}
