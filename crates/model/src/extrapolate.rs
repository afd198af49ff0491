//! From a few measured points of a curve to more cores, without a profile.
//!
//! Who has a large machine has throughput at 1, 2, 4, 8 … cores. A law fitted to the first points says what the next ones
//! will be, but no single law is right for every program, and three or four points cannot tell which one is: a law chosen
//! because it predicted the last point best did worse, on the curves of `contend reproduce lock-study`, than the plain
//! mean of three (the "forecast combination puzzle" of Stock and Watson 2004). So the answer is a mean of laws, in logarithms;
//! how far they lie apart, how badly they predicted the last point from those before, and how far ahead the answer lies
//! make its band.
//!
//! Every law but the last says what an operation costs in core time, n / throughput, as a sum of terms that are not
//! negative:
//!
//! | law | core time of an operation on n cores | where it comes from |
//! |---|---|---|
//! | linear | g | no contention |
//! | Amdahl | g + s (n - 1) | work that one core does at a time (1967) |
//! | universal | g + s (n - 1) + k n (n - 1) | pairwise exchange (Gunther, the universal scalability law, 1993 and 2007) |
//! | n log n | g + s (n - 1) + k n log₂ n | exchange by a tree, or with ever fewer others: between the two before |
//! | slope | | throughput goes on as a power of n, with the exponent between the last two points, 1 at most |

use curve::{Curve, Point, Provenance, Unit};

/// A law of throughput against cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Law {
    /// As many times the work as cores.
    Linear,
    /// Part of the work is done by one core at a time.
    Amdahl,
    /// The universal scalability law: serial work and pairwise exchange.
    Universal,
    /// Serial work, and exchange that grows as n log n.
    Logarithmic,
    /// The exponent between the last two points goes on, but for what is more than as many times the work as cores.
    Slope,
}

impl Law {
    /// Every law.
    pub const ALL: [Self; 5] = [Self::Linear, Self::Amdahl, Self::Universal, Self::Logarithmic, Self::Slope];

    /// The name of the law.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Amdahl => "Amdahl",
            Self::Universal => "universal",
            Self::Logarithmic => "n log n",
            Self::Slope => "slope",
        }
    }

    /// Whether the law is part of the answer; the others are shown beside it, since people ask for them.
    fn answers(self) -> bool {
        matches!(self, Self::Universal | Self::Logarithmic | Self::Slope)
    }

    /// The terms of the core time of an operation at `n` cores; none for [`Law::Slope`].
    fn terms(self, n: f64) -> ([f64; MOST_TERMS], usize) {
        match self {
            Self::Linear => ([1.0, 0.0, 0.0], 1),
            Self::Amdahl => ([1.0, n - 1.0, 0.0], 2),
            Self::Universal => ([1.0, n - 1.0, n * (n - 1.0)], 3),
            Self::Logarithmic => ([1.0, n - 1.0, n * n.log2()], 3),
            Self::Slope => ([0.0; MOST_TERMS], 0),
        }
    }

    /// The law with the coefficients that fit `points` best.
    fn fit(self, points: &[Point]) -> Fitted {
        if self == Self::Slope {
            let [.., before, last] = points else { unreachable!("two points at least are asked for") };
            let step = (f64::from(last.cores) / f64::from(before.cores)).ln();
            let exponent = ((last.value.ln() - before.value.ln()) / step).min(1.0);
            return Fitted { law: self, coefficients: [f64::from(last.cores), last.value, exponent] };
        }
        Fitted { law: self, coefficients: least_squares(self, points) }
    }
}

const MOST_TERMS: usize = 3;

/// A law and its coefficients.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fitted {
    law: Law,
    coefficients: [f64; MOST_TERMS],
}

impl Fitted {
    /// ln of the throughput at `cores`.
    fn ln_at(&self, cores: u32) -> f64 {
        let n = f64::from(cores);
        if self.law == Law::Slope {
            let [cores, value, exponent] = self.coefficients;
            return value.ln() + exponent * (n / cores).ln();
        }
        let (terms, count) = self.law.terms(n);
        let time: f64 = (0..count).map(|i| self.coefficients[i] * terms[i]).sum();
        (n / time).ln()
    }
}

/// Coefficients, none negative, with the least sum of squares of the relative errors of core time, each point weighted by
/// how well its runs agree.
///
/// With three terms at most, every choice of the terms that are not zero can be solved and compared.
fn least_squares(law: Law, points: &[Point]) -> [f64; MOST_TERMS] {
    let (_, count) = law.terms(1.0);
    let weights: Vec<f64> = points
        .iter()
        .map(|point| point.value / f64::from(point.cores) / noise(point).max(LEAST_NOISE))
        .collect();
    let rows: Vec<[f64; MOST_TERMS]> = points
        .iter()
        .zip(&weights)
        .map(|(point, weight)| law.terms(f64::from(point.cores)).0.map(|term| term * weight))
        .collect();
    let targets: Vec<f64> = points.iter().map(|point| 1.0 / noise(point).max(LEAST_NOISE)).collect();
    let mut best = ([0.0; MOST_TERMS], f64::INFINITY);
    // Fewer terms first: a term that adds nothing stays zero.
    let mut choices: Vec<u32> = (1..1 << count).collect();
    choices.sort_by_key(|choice| choice.count_ones());
    for choice in choices {
        let Some(solved) = solve(&rows, &targets, choice) else { continue };
        if solved.iter().any(|&coefficient| coefficient < 0.0) {
            continue;
        }
        let squares: f64 = rows
            .iter()
            .zip(&targets)
            .map(|(row, target)| (row.iter().zip(solved).map(|(a, x)| a * x).sum::<f64>() - target).powi(2))
            .sum();
        if squares < best.1 * (1.0 - 1e-9) - 1e-12 {
            best = (solved, squares);
        }
    }
    best.0
}

/// The least-squares solution with the terms in `choice` alone; `None` where these points do not determine it.
fn solve(rows: &[[f64; MOST_TERMS]], targets: &[f64], choice: u32) -> Option<[f64; MOST_TERMS]> {
    let chosen: Vec<usize> = (0..MOST_TERMS).filter(|&i| choice & 1 << i != 0).collect();
    let size = chosen.len();
    if rows.len() < size {
        return None;
    }
    let mut matrix = [[0.0; MOST_TERMS + 1]; MOST_TERMS];
    for (row, target) in rows.iter().zip(targets) {
        for (i, &a) in chosen.iter().enumerate() {
            for (j, &b) in chosen.iter().enumerate() {
                matrix[i][j] += row[a] * row[b];
            }
            matrix[i][size] += row[a] * target;
        }
    }
    for column in 0..size {
        let pivot =
            (column..size).max_by(|&i, &j| matrix[i][column].abs().total_cmp(&matrix[j][column].abs()))?;
        matrix.swap(column, pivot);
        let scale = matrix[column][column];
        // A vanishing pivot, or one that is not a number.
        if scale.abs().partial_cmp(&1e-12) != Some(std::cmp::Ordering::Greater) {
            return None;
        }
        let pivot_row = matrix[column];
        for (_, row) in matrix.iter_mut().enumerate().take(size).filter(|(i, _)| *i != column) {
            let factor = row[column] / scale;
            row.iter_mut().zip(pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    let mut solved = [0.0; MOST_TERMS];
    for (i, &term) in chosen.iter().enumerate() {
        solved[term] = matrix[i][size] / matrix[i][i];
    }
    Some(solved)
}

/// Half of the range of a point's runs, as a logarithm of their ratio.
fn noise(point: &Point) -> f64 {
    if point.low > 0.0 { (point.high.ln() - point.low.ln()) / 2.0 } else { MOST_NOISE }
}

/// No point is trusted more than one of 5 % of noise, or runs that happen to agree would decide alone.
const LEAST_NOISE: f64 = 0.05;
/// The noise of a point one of whose runs gave nothing.
const MOST_NOISE: f64 = 1.0;

/// A curve that nothing can be said about.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExtrapolateError {
    /// One point has no slope.
    #[error("{0} of the curve's points {be} more than 0; two numbers of cores at least are needed, three to say much", be = if *.0 == 1 { "is" } else { "are" })]
    TooFew(usize),
    /// Nothing is asked for.
    #[error("{upto} cores are not past the last measured point, which is at {last}")]
    NotAhead {
        /// The cores asked for.
        upto: u32,
        /// Of the last point.
        last: u32,
    },
    /// It is no throughput.
    #[error("it counts a share of a whole, which no law of throughput continues")]
    Share,
    /// What is said of it is more than the largest number, or less than the smallest.
    #[error(
        "throughput at {cores} cores is no number that can be written: give the curve in a larger or smaller unit"
    )]
    OutOfRange {
        /// Where it is none.
        cores: u32,
    },
    /// It has stopped altogether.
    #[error("throughput is 0 at {cores} cores: it has collapsed past {last}, and no law goes on from there")]
    Stopped {
        /// Where it is 0.
        cores: u32,
        /// The last point at which it is not.
        last: u32,
    },
}

/// How a law did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The law.
    pub law: Law,
    /// The last measured point predicted from those before, as the logarithm of predicted over measured; `None` where
    /// two points are all there is.
    pub last_point_error: Option<f64>,
    /// Its share of the answer.
    pub weight: f64,
    /// What it says of the farthest number of cores.
    pub value: f64,
}

/// What is said of more cores.
#[derive(Debug, Clone, PartialEq)]
pub struct Extrapolation {
    /// The answer from the first measured core on: through measured points as measured, then predicted with a band.
    pub curve: Curve,
    /// Every law, those with most weight first.
    pub laws: Vec<Judged>,
    /// Cores of the last measured point.
    pub last_measured: u32,
}

/// Says what comes after the measured points of `curve`, at each of `cores` that lies past them.
///
/// The band is meant to hold four of five true values. What it is made of was chosen on half of the programs of
/// `contend reproduce lock-study`, which prints how often it holds on the other half.
///
/// # Errors
///
/// A share instead of a throughput; fewer than two points above zero; no throughput at more cores than the last of those; no cores past the
/// last point; a throughput that no number holds.
pub fn extrapolate(curve: &Curve, cores: &[u32]) -> Result<Extrapolation, ExtrapolateError> {
    if curve.unit == Unit::Share {
        return Err(ExtrapolateError::Share);
    }
    let curve = curve.clone().of_all_cores();
    let points: Vec<Point> = curve.points().iter().copied().filter(|point| point.value > 0.0).collect();
    let [.., before, last] = points[..] else { return Err(ExtrapolateError::TooFew(points.len())) };
    if let Some(stopped) = curve.points().iter().find(|point| point.cores > last.cores) {
        return Err(ExtrapolateError::Stopped { cores: stopped.cores, last: last.cores });
    }
    let ahead: Vec<u32> = cores.iter().copied().filter(|&cores| cores > last.cores).collect();
    let Some(&farthest) = ahead.iter().max() else {
        let upto = cores.iter().copied().max().unwrap_or(0);
        return Err(ExtrapolateError::NotAhead { upto, last: last.cores });
    };

    let unit = unit(&points);
    let scaled = |point: &Point| Point {
        value: point.value / unit,
        low: point.low / unit,
        high: point.high / unit,
        ..*point
    };
    let points: Vec<Point> = points.iter().map(scaled).collect();
    let errors: Vec<Option<f64>> = Law::ALL.iter().map(|&law| last_point_error(law, &points)).collect();
    let fitted: Vec<Fitted> = Law::ALL.iter().map(|law| law.fit(&points)).collect();
    let weights: Vec<f64> =
        Law::ALL.iter().zip(&errors).map(|(&law, &error)| weight(law, error, points.len())).collect();
    let total: f64 = weights.iter().sum();
    // A law of weight 0 is left out: 0 times infinity is no number.
    let of_laws = |values: &mut dyn Iterator<Item = f64>| {
        values
            .zip(&weights)
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(value, weight)| value * weight)
            .sum::<f64>()
            / total
    };
    // How badly the mean of the laws predicted the last point.
    let missed = of_laws(&mut errors.iter().map(|error| error.unwrap_or(0.0)));

    let predicted = ahead.iter().map(|&cores| {
        let ln: Vec<f64> = fitted.iter().map(|law| law.ln_at(cores)).collect();
        let mean = of_laws(&mut ln.iter().copied());
        let apart = of_laws(&mut ln.iter().map(|ln| (ln - mean).powi(2))).sqrt();
        let doublings = (f64::from(cores) / f64::from(last.cores)).log2();
        let step = (f64::from(last.cores) / f64::from(before.cores)).log2();
        let (down, up) = band(apart, doublings, missed.abs() * doublings / step, points.len());
        let [value, low, high] = [mean, mean - down, mean + up].map(|ln: f64| ln.exp() * unit);
        // A product that is 0, or no number, is told by what is not so of it.
        let is_written = value > 0.0 && high.is_finite();
        if is_written {
            Ok(Point { cores, value, low, high })
        } else {
            Err(ExtrapolateError::OutOfRange { cores })
        }
    });
    let predicted: Vec<Point> = predicted.collect::<Result<_, _>>()?;
    // No law goes through a point of 0, but it was measured.
    let all: Vec<Point> = curve.points().iter().copied().chain(predicted).collect();
    let mut answer = Curve::new(curve.label.clone(), curve.unit, Provenance::Predicted)
        .lock(curve.lock.clone())
        .workload(curve.workload.clone())
        .machine(curve.machine);
    if let Ok(with_points) = answer.clone().with_points(all) {
        answer = with_points;
    }
    let mut laws: Vec<Judged> = Law::ALL
        .iter()
        .enumerate()
        .map(|(i, &law)| Judged {
            law,
            last_point_error: errors[i],
            weight: weights[i] / total,
            value: fitted[i].ln_at(farthest).exp() * unit,
        })
        .collect();
    laws.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    Ok(Extrapolation { curve: answer, laws, last_measured: last.cores })
}

/// The unit in which the throughput of one core is at most between 1 and 2, whatever it was measured in: a power of two, which rounds
/// nothing.
fn unit(points: &[Point]) -> f64 {
    let of_core = points.iter().map(|point| point.value / f64::from(point.cores));
    of_core.fold(0.0, f64::max).log2().floor().exp2()
}

/// The last point predicted from those before it: ln(predicted / measured).
fn last_point_error(law: Law, points: &[Point]) -> Option<f64> {
    let (last, before) = points.split_last()?;
    (before.len() >= 2).then(|| law.fit(before).ln_at(last.cores) - last.value.ln())
}

/// Weight of a law in the mean. From four points on, how well it predicted the last one counts; from three, that one
/// prediction rests on two points and says more about luck.
fn weight(law: Law, last_point_error: Option<f64>, points: usize) -> f64 {
    /// A law that predicted the last point better than this is not trusted more for it.
    const LUCK: f64 = 0.1;
    match last_point_error {
        _ if !law.answers() => 0.0,
        Some(error) if points >= 4 => 1.0 / (error.powi(2) + LUCK.powi(2)),
        _ => 1.0,
    }
}

/// How far the truth may lie below and above the answer, as logarithms of ratios.
///
/// Downwards more than upwards: what programs do past the measured points, and no law knows, is collapse.
fn band(apart: f64, doublings: f64, missed: f64, points: usize) -> (f64, f64) {
    let missed = if points >= 4 { missed } else { 0.0 };
    let (down, up) = BAND;
    (LEAST_NOISE + down * doublings + apart + missed, LEAST_NOISE + up * doublings + apart + missed)
}

/// For each doubling of the cores.
const BAND: (f64, f64) = (0.4, 0.1);

#[cfg(test)]
mod tests {
    use super::*;
    use curve::Unit;
    use proptest::prelude::*;

    fn curve(points: &[(u32, f64)]) -> Curve {
        Curve::new("c", Unit::OperationsPerSecond, Provenance::Measured)
            .with_points(points.iter().map(|&(cores, value)| Point::exact(cores, value)))
            .unwrap()
    }

    fn value(points: &[(u32, f64)], law: Law, at: u32) -> f64 {
        extrapolate(&curve(points), &[at])
            .unwrap()
            .laws
            .iter()
            .find(|judged| judged.law == law)
            .unwrap()
            .value
    }

    #[test]
    fn each_law_finds_its_own_curve_again() {
        for law in Law::ALL.into_iter().filter(|&law| law != Law::Slope) {
            let coefficients = [2.0, 0.3, 0.02];
            let truth = Fitted { law, coefficients };
            let points: Vec<_> = [1, 2, 4, 8].map(|n| (n, truth.ln_at(n).exp())).to_vec();
            let said = value(&points, law, 32);
            assert!((said.ln() - truth.ln_at(32)).abs() < 1e-6, "{}: {said}", law.name());
        }
        assert!((value(&[(1, 1.0), (2, 1.5), (4, 2.25)], Law::Slope, 8) - 3.375).abs() < 1e-9);
    }

    #[test]
    fn coefficients_are_never_negative() {
        // Faster than linear: nothing can be explained but by no contention at all.
        let said = value(&[(1, 1.0), (2, 3.0), (4, 9.0)], Law::Universal, 8);
        assert!(said.is_finite() && said > 9.0, "{said}");
    }

    #[test]
    fn runs_that_disagree_count_less() {
        let with_noise = |high: f64| {
            let mut points = vec![Point::exact(1, 1.0), Point::exact(2, 1.8), Point::exact(4, 3.0)];
            points.push(Point { cores: 8, value: 1.0, low: 1.0 / high, high });
            let curve = Curve::new("c", Unit::Speedup, Provenance::Measured).with_points(points).unwrap();
            let laws = extrapolate(&curve, &[16]).unwrap().laws;
            laws.iter().find(|judged| judged.law == Law::Universal).unwrap().value
        };
        assert!(with_noise(5.0) > with_noise(1.01));
    }

    #[test]
    fn what_says_nothing_is_refused() {
        let refused = |points: &[(u32, f64)], at: u32| extrapolate(&curve(points), &[at]).unwrap_err();
        assert_eq!(refused(&[], 8), ExtrapolateError::TooFew(0));
        assert_eq!(refused(&[(1, 1.0), (2, 0.0)], 8), ExtrapolateError::TooFew(1));
        assert_eq!(refused(&[(1, 1.0), (4, 2.0)], 4), ExtrapolateError::NotAhead { upto: 4, last: 4 });
    }

    #[test]
    fn what_no_number_holds_is_an_error() {
        let said = |points: &[(u32, f64)], at: u32| extrapolate(&curve(points), &[at]);
        let large = said(&[(1, 1e308), (2, 1.7e308), (4, 1.5e308)], 8);
        assert!(large.is_ok_and(|large| large.curve.at(8).is_some_and(|point| point.value > 1e307)));
        let too_large = said(&[(1, 1e308), (2, 1.7e308)], 64);
        assert_eq!(too_large, Err(ExtrapolateError::OutOfRange { cores: 64 }));
        let small = said(&[(1, 1e-320), (2, 1.7e-320), (4, 1.5e-320)], 8);
        assert!(small.is_ok_and(|small| small.curve.at(8).is_some_and(|point| point.value > 1e-321)));
        let too_small = said(&[(1, 1e-320), (2, 5e-324)], 64);
        assert_eq!(too_small, Err(ExtrapolateError::OutOfRange { cores: 64 }));
    }

    #[test]
    fn throughput_grows_no_faster_than_cores_do() {
        // The second point is from somewhere else: a power of 68 would go on to 5e14.
        let said = extrapolate(&curve(&[(1000, 1.0), (1024, 5.0)]), &[4096]).unwrap();
        assert!(said.curve.at(4096).is_some_and(|point| point.value <= 20.0), "{said:?}");
    }

    #[test]
    fn a_share_is_no_throughput() {
        let points = [(1, 0.5), (2, 0.4)].map(|(cores, value)| Point::exact(cores, value));
        let share = Curve::new("c", Unit::Share, Provenance::Measured).with_points(points).unwrap();
        assert_eq!(extrapolate(&share, &[4]), Err(ExtrapolateError::Share));
    }

    #[test]
    fn the_unit_changes_nothing() {
        let said = |unit: f64| {
            let points = [(1, 1.1), (2, 2.0), (4, 3.3), (8, 4.1)].map(|(cores, value)| (cores, value * unit));
            extrapolate(&curve(&points), &[16, 64]).unwrap()
        };
        let same = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        let plain = said(1.0);
        assert!(plain.curve.collapse_cores().is_some());
        for unit in [1e-300, 1e-200, 1e-9, 1e-8, 1e9, 1e200, 1e300] {
            let scaled = said(unit);
            assert_eq!(scaled.curve.collapse_cores(), plain.curve.collapse_cores(), "{unit}");
            for (a, b) in scaled.curve.points().iter().zip(plain.curve.points()) {
                let [value, low, high] = [a.value, a.low, a.high].map(|figure| figure / unit);
                assert!(
                    same(value, b.value) && same(low, b.low) && same(high, b.high),
                    "{unit}: {a:?} {b:?}"
                );
            }
            for (a, b) in scaled.laws.iter().zip(&plain.laws) {
                assert!(a.law == b.law && (a.weight - b.weight).abs() < 1e-9, "{unit}: {a:?} {b:?}");
                assert!(same(a.value / unit, b.value), "{unit}: {a:?} {b:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_curve_gives_finite_answers_in_their_band(
            values in proptest::collection::vec(1e-9..1e12_f64, 2..8),
            first in 1..4_u32,
            upto in 2..16_u32,
        ) {
            let points: Vec<_> = values.iter().enumerate().map(|(i, &value)| (first << i, value)).collect();
            let last = points[points.len() - 1].0;
            let answer = extrapolate(&curve(&points), &[last * upto]).unwrap();
            if let Some(said) = answer.curve.at(last * upto) {
                prop_assert!(said.low <= said.value && said.value <= said.high && said.high.is_finite());
            }
            prop_assert!((answer.laws.iter().map(|judged| judged.weight).sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}
