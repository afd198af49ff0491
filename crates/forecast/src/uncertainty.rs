//! How far a forecast may be off: the width of its log-normal error, from what is known of the case.
//!
//! The widths are learnt from programs that were measured (`data/measured-programs.csv`) and from simulated ones
//! (`contend validate --simulated`). `contend validate` judges each program by widths that are learnt from the others.

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

/// The part of the width of what was simulated that is taken for a standard deviation, likewise.
const SIMULATED: [f64; 2] = [0.5, 0.25];

/// Learnt from all programs of `data/measured-programs.csv`; a test holds it to that.
pub(crate) const LEARNT: Widths =
    Widths { own_cores: [0.45, 0.2], shared_cores: [0.7, 0.35], spinning: [0.9, 0.6] };

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
        far.powi(2) + (SIMULATED[usize::from(self.anchored)] * self.simulated).powi(2)
    }
}

/// Errors of programs, by case: what widths are learnt from.
#[derive(Debug, Default)]
pub(crate) struct Learning {
    /// Program, case, the square of the error, and of it what is not learnt.
    errors: Vec<(String, usize, f64, f64)>,
}

impl Learning {
    /// A program's forecast was off by so much, in logarithms.
    pub(crate) fn add(&mut self, program: &str, known: &Known, error: f64) {
        self.errors.push((program.to_owned(), known.case(), error * error, known.variance()));
    }

    /// The widths by which these errors are as likely as can be. A program's errors are alike, so that each program counts as much as every
    /// other, however many of its locks were measured.
    pub(crate) fn widths(&self) -> Widths {
        let mut widths = Widths::NONE;
        for case in 0..6 {
            let of_case: Vec<_> = self.errors.iter().filter(|(_, of, ..)| *of == case).collect();
            let mut programs: Vec<&str> = of_case.iter().map(|(program, ..)| program.as_str()).collect();
            programs.sort_unstable();
            programs.dedup();
            let means = programs.iter().map(|program| {
                let own: Vec<f64> = of_case
                    .iter()
                    .filter(|(of, ..)| of == program)
                    .map(|(_, _, square, known)| (square - known).clamp(0.0, MOST))
                    .collect();
                own.iter().sum::<f64>() / own.len().max(1) as f64
            });
            let mean = means.sum::<f64>() / programs.len().max(1) as f64;
            *widths.of(case) = mean.max(LEAST).sqrt();
        }
        widths
    }
}

/// The square of an error past which it is another program that was measured than was profiled; and the least variance.
const MOST: f64 = 1.0;
const LEAST: f64 = 0.01;

/// Standard normal quantiles in the middle of as many equally likely parts.
pub(crate) fn normal_quantiles(parts: usize) -> Vec<f64> {
    (0..parts).map(|part| quantile((part as f64 + 0.5) / parts as f64)).collect()
}

/// The quantile of the standard normal distribution, by bisection of its distribution function.
fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if normal(middle) < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The standard normal distribution function (Zelen and Severo 1964, 26.2.17; off by less than 1e-7).
fn normal(x: f64) -> f64 {
    const B: [f64; 5] = [0.319_381_53, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let tail = B.iter().rev().fold(0.0, |sum, b| (sum + b) * t) * (-0.5 * x * x).exp()
        / (2.0 * std::f64::consts::PI).sqrt();
    if x > 0.0 { 1.0 - tail } else { tail }
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
