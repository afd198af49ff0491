//! How far a forecast may be off: the width of its log-normal error, from what is known of the case.
//!
//! The widths are learnt from programs that were measured (`data/measured-programs.csv`). `contend validate` judges each program by widths
//! that are learnt from the others.
//!
//! Whether the lock is saturated, as far as the simulated program falls behind its cores, is no part of the case: widths that depend on it, by
//! a threshold or a slope, foretell the errors of a program that is left out worse than those that do not, and which of the two kinds is the
//! wider depends on the program that is left out. The table of measured programs keeps no share of time in the section.

use compare::statistics::normal_tail;

/// What is known of one point of a forecast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Known {
    /// More threads than cores.
    pub(crate) oversubscribed: bool,
    /// Waiters of the lock sleep in the end, whatever shares their core.
    pub(crate) sleeps: bool,
    /// Half of the width between the ends of what was simulated, in logarithms.
    pub(crate) simulated: f64,
    /// Whether a measurement on several threads fixes the curve.
    pub(crate) anchored: bool,
    /// How often the number of cores doubles from that measurement, or from one thread.
    pub(crate) doublings: f64,
}

/// Standard deviations of the logarithm of measured over forecast throughput, by case; of each the one from one thread's profile, then the
/// one with a measurement of several threads.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub(crate) struct Widths {
    /// One thread a core.
    own_cores: [f64; 2],
    /// Threads share cores, and waiters sleep.
    shared_cores: [f64; 2],
    /// Threads share cores, and waiters spin before they sleep.
    spinning: [f64; 2],
}

/// What each doubling of the cores past the first adds.
const A_DOUBLING: f64 = 0.06;

/// The part of the width of what was simulated that is taken for a standard deviation.
const SIMULATED: f64 = 0.25;

/// Learnt from all programs of `data/measured-programs.csv`; a test holds it to that.
pub(crate) const LEARNT: Widths =
    Widths { own_cores: [0.415, 0.3], shared_cores: [0.489, 0.419], spinning: [0.515, 0.432] };

impl Widths {
    /// No error.
    pub(crate) const NONE: Self = Self { own_cores: [0.0; 2], shared_cores: [0.0; 2], spinning: [0.0; 2] };

    fn of(&mut self, case: usize) -> &mut f64 {
        let widths = match case / 2 {
            0 => &mut self.own_cores,
            1 => &mut self.shared_cores,
            _ => &mut self.spinning,
        };
        &mut widths[case % 2]
    }

    /// The standard deviation of the logarithm of the error.
    pub(crate) fn sigma(mut self, known: &Known) -> f64 {
        let learnt = *self.of(known.case());
        (learnt * learnt + known.variance()).sqrt()
    }
}

impl Known {
    /// Which of the widths it has.
    fn case(&self) -> usize {
        let of = match (self.oversubscribed, self.sleeps) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        2 * of + usize::from(self.anchored)
    }

    /// What is not learnt: the further the wider, and as wide as what was simulated.
    fn variance(&self) -> f64 {
        let far = A_DOUBLING * (self.doublings - 1.0).max(0.0);
        far.powi(2) + (SIMULATED * self.simulated).powi(2)
    }
}

#[derive(Debug)]
struct OneError {
    program: String,
    case: usize,
    square: f64,
}

/// Errors of programs, by case: what widths are learnt from.
#[derive(Debug, Default)]
pub(crate) struct Learning {
    errors: Vec<OneError>,
}

impl Learning {
    /// A program's forecast was off by so much, in logarithms.
    pub(crate) fn add(&mut self, program: &str, known: &Known, error: f64) {
        let square = (error * error).min(MOST);
        self.errors.push(OneError { program: program.to_owned(), case: known.case(), square });
    }

    /// The widths by which these errors are as likely as can be. A program's errors are alike, so that each program counts as much as every
    /// other, however many of its locks were measured.
    pub(crate) fn widths(&self) -> Widths {
        let mut widths = Widths::NONE;
        for case in 0..6 {
            let of_case: Vec<_> = self.errors.iter().filter(|error| error.case == case).collect();
            let mut programs: Vec<&str> = of_case.iter().map(|error| error.program.as_str()).collect();
            programs.sort_unstable();
            programs.dedup();
            let means = programs.iter().map(|program| {
                let own = of_case.iter().filter(|error| error.program == *program);
                let own: Vec<f64> = own.map(|error| error.square).collect();
                own.iter().sum::<f64>() / own.len().max(1) as f64
            });
            let mean = means.sum::<f64>() / programs.len().max(1) as f64;
            *widths.of(case) = mean.max(LEAST).sqrt();
        }
        widths
    }
}

/// The square of an error past which it is another program that was measured than was profiled; and the least variance.
const MOST: f64 = 0.5;
const LEAST: f64 = 0.01;

/// How a drawn probability of a collapse becomes one that comes true as often as it says: a straight line over its log-odds, for forecasts with
/// a measurement of several threads, and a shift of them for forecasts from one thread's profile.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub(crate) struct Calibration {
    /// Log-odds at even odds, and the factor on the log-odds.
    lines: [[f64; 2]; 2],
}

/// Learnt from all programs of `data/measured-programs.csv`; a test holds it to that.
pub(crate) const CALIBRATED: Calibration = Calibration { lines: [[1.186, 1.0], [0.121, 2.551]] };

impl Calibration {
    /// Probabilities as they are drawn.
    pub(crate) const NONE: Self = Self { lines: [[0.0, 1.0]; 2] };

    /// The calibrated probability.
    pub(crate) fn of(&self, drawn: f64, anchored: bool) -> f64 {
        let [shift, factor] = self.lines[usize::from(anchored)];
        1.0 / (1.0 + (-(shift + factor * log_odds(drawn))).exp())
    }

    /// The calibration under which what happened is likeliest, where each program counts alike: of each forecast whether it was anchored, its
    /// program, its drawn probability, and whether it came true. Few programs hardly move it.
    pub(crate) fn learn(forecasts: &[Drawn]) -> Self {
        Self { lines: [false, true].map(|anchored| line(forecasts, anchored)) }
    }
}

/// A drawn probability and what happened.
#[derive(Debug, Clone)]
pub(crate) struct Drawn {
    pub(crate) program: String,
    pub(crate) anchored: bool,
    pub(crate) probability: f64,
    pub(crate) collapsed: bool,
}

/// Far from certain: a distribution of some hundred curves shows no more.
fn log_odds(probability: f64) -> f64 {
    const FEW: f64 = 1.0 / 453.0;
    let kept = FEW + (1.0 - 2.0 * FEW) * probability;
    (kept / (1.0 - kept)).ln()
}

/// Logistic regression by Newton's method, held to the identity by a ridge. From one thread alone the factor stays 1: the measured programs
/// do not tell it from that, and one that is learnt from other programs makes the forecasts of a program worse, as does a monotone step
/// function in the place of the line.
fn line(forecasts: &[Drawn], anchored: bool) -> [f64; 2] {
    const RIDGE: f64 = 0.3;
    const FIXED: f64 = 1e6;
    let of_factor = if anchored { RIDGE } else { FIXED };
    let own: Vec<&Drawn> = forecasts.iter().filter(|one| one.anchored == anchored).collect();
    let (mut shift, mut factor) = (0.0, 1.0);
    for _ in 0..200 {
        let (mut slope, mut curvature) =
            ([RIDGE * shift, of_factor * (factor - 1.0)], [RIDGE, 0.0, of_factor]);
        for one in &own {
            let of_program = own.iter().filter(|other| other.program == one.program).count();
            let weight = 1.0 / of_program as f64;
            let x = log_odds(one.probability);
            let said = 1.0 / (1.0 + (-(shift + factor * x)).exp());
            let off = weight * (said - f64::from(u8::from(one.collapsed)));
            let bend = weight * said * (1.0 - said);
            slope = [slope[0] + off, slope[1] + off * x];
            curvature = [curvature[0] + bend, curvature[1] + bend * x, curvature[2] + bend * x * x];
        }
        let [a, b, c] = curvature;
        let determinant = a * c - b * b;
        let step = [(c * slope[0] - b * slope[1]) / determinant, (a * slope[1] - b * slope[0]) / determinant];
        shift -= step[0].clamp(-1.0, 1.0);
        factor -= step[1].clamp(-1.0, 1.0);
    }
    [shift, factor]
}

/// Standard normal quantiles in the middle of as many equally likely parts.
pub(crate) fn normal_quantiles(parts: usize) -> Vec<f64> {
    (0..parts).map(|part| quantile((part as f64 + 0.5) / parts as f64)).collect()
}

/// The quantile of the standard normal distribution, by bisection of its distribution function.
fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if 1.0 - normal_tail(middle) < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_normal_distribution() {
        for (share, expected) in [(0.5, 0.0), (0.1, -1.281_551_6), (0.975, 1.959_964)] {
            assert!((quantile(share) - expected).abs() < 1e-5, "{share}: {}", quantile(share));
        }
        let all = normal_quantiles(31);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]) && all.iter().sum::<f64>().abs() < 1e-6);
    }

    #[test]
    fn a_calibrated_probability_is_what_came_true_as_often() {
        let of = |probability, came: [bool; 4], number: usize| {
            came.map(|collapsed| Drawn {
                program: number.to_string(),
                anchored: true,
                probability,
                collapsed,
            })
        };
        // What is drawn with 30 % comes in half of the cases, and what is drawn with 70 % always.
        let drawn: Vec<Drawn> = (0..40)
            .flat_map(|number| [of(0.3, [true, true, false, false], number), of(0.7, [true; 4], number)])
            .flatten()
            .collect();
        let learnt = Calibration::learn(&drawn);
        assert!((0.4..0.6).contains(&learnt.of(0.3, true)), "{learnt:?}");
        assert!(learnt.of(0.7, true) > 0.9, "{learnt:?}");
        assert!((learnt.of(0.3, false) - 0.3).abs() < 0.01, "nothing was seen of these");
    }

    #[test]
    fn a_measurement_narrows_and_shared_cores_widen() {
        let alone =
            Known { oversubscribed: false, sleeps: true, simulated: 0.1, anchored: false, doublings: 1.0 };
        let sigma = |known| LEARNT.sigma(&known);
        assert!(sigma(Known { anchored: true, ..alone }) < sigma(alone));
        assert!(sigma(Known { oversubscribed: true, ..alone }) > sigma(alone));
        assert!(
            sigma(Known { oversubscribed: true, sleeps: false, ..alone })
                > sigma(Known { oversubscribed: true, ..alone })
        );
        assert!(sigma(Known { doublings: 6.0, ..alone }) > sigma(alone));
    }
}
