//! Random times from code that is here, so that a seed means the same on every computer and in every version.

/// How a time varies about its mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Variation {
    /// Not at all.
    Fixed,
    /// Evenly, by up to a tenth up or down.
    NearlyFixed,
    /// Exponentially: many short ones and few long ones, as the model assumes.
    #[default]
    Exponential,
}

/// A generator of random numbers, of times among them.
#[derive(Clone, Debug)]
pub struct Random(machine::random::Random);

impl Random {
    /// The generator of one thread of a run with this seed.
    #[must_use]
    pub fn of_thread(seed: u64, thread: usize) -> Self {
        let mut of_run = machine::random::Random::new(seed);
        let of_thread = (thread as u64).wrapping_mul(0xA24B_AED4_963E_E407);
        Self(machine::random::Random::new(of_run.next().wrapping_add(of_thread)))
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)] // a generator is no iterator: it does not end
    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A whole number under `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A time with this mean.
    pub fn time(&mut self, mean: u64, spread: Variation) -> u64 {
        match spread {
            Variation::Fixed => mean,
            Variation::NearlyFixed => mean - mean / 10 + self.below(mean / 5 + 1),
            Variation::Exponential => (mean as f64 * self.0.exponential()).round() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_thread_give_these_numbers_for_ever() {
        let mut random = Random::of_thread(1, 2);
        assert_eq!([random.next(), random.next()], [1_137_921_248_127_825_140, 18_229_783_881_051_748_370]);
        let times = [0; 4].map(|_| random.time(1000, Variation::Exponential));
        assert_eq!(times, [236, 842, 620, 345]);
    }

    #[test]
    fn times_have_their_mean_and_spread() {
        for (spread, deviation) in
            [(Variation::Fixed, 0.0), (Variation::NearlyFixed, 57.7), (Variation::Exponential, 1000.0)]
        {
            let mut random = Random::of_thread(3, 0);
            let times = (0..100_000).map(|_| random.time(1000, spread) as f64).collect::<Vec<_>>();
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            let variance = times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / times.len() as f64;
            assert!((mean - 1000.0).abs() < 10.0, "{spread:?}: {mean}");
            assert!((variance.sqrt() - deviation).abs() <= 0.02 * deviation, "{spread:?}: {variance}");
        }
    }
}
