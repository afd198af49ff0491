//! The Markov chain of one lock and n cores.
//!
//! ```text
//!        n/a        (n-1)/a             1/a
//!   ( 0 ) ⇄ ( 1 ) ⇄ ( 2 ) ⇄  …  ⇄ ( n )          state k: k cores hold or wait for the lock
//!       1/t_1     1/t_2             1/t_n
//! ```
//!
//! Each core comes to the lock after a mean think time a; with k cores at the lock a critical section and its
//! hand-over take a mean time t_k. Balance between neighbours gives the probabilities as a product,
//! P_k = P_0 · n!/(n-k)! · t_1 … t_k / a^k, which spans far more than a double holds at thousands of cores: it is
//! scaled while it is made.
//!
//! Times at the lock are exponential in this chain. Think times need not be: a queue of this kind, with an
//! exponential server and cores whose think times do not depend on each other, has the same probabilities for any
//! distribution of think time with the same mean (Baskett, Chandy, Muntz and Palacios, JACM 1975). So less
//! variable think times, alone, move no curve of this model; only less variable times at the lock would.

use crate::{ModelError, ln_sum, positive, valid_cores};

/// The weights of states are kept between this and its inverse, and multiplied by it as often as is noted beside them.
const SCALE: f64 = 1e100;

/// A solved chain.
#[derive(Debug, Clone)]
pub struct Chain {
    think: f64,
    /// t_1 … t_n.
    times: Vec<f64>,
    /// P_0 … P_n.
    probabilities: Vec<f64>,
}

impl Chain {
    /// Solves the chain of `times.len()` cores; `think` is a, `times[k - 1]` is t_k.
    ///
    /// # Errors
    ///
    /// A time that is not finite and above zero; no cores, or more than [`crate::MAX_CORES`].
    pub fn new(think: f64, times: Vec<f64>) -> Result<Self, ModelError> {
        positive("the think time", think)?;
        for &time in &times {
            positive("the time at the lock", time)?;
        }
        let too_many = ModelError::Cores { cores: times.len() as u64 };
        let cores = valid_cores(u32::try_from(times.len()).map_err(|_| too_many)?)?;

        let mut chain = Self { think, times, probabilities: Vec::new() };
        chain.probabilities = chain.by_products(cores).unwrap_or_else(|| chain.by_logarithms());
        Ok(chain)
    }

    /// P_0 … P_n as products, scaled on the way. `None` where a factor is too large or too small for that.
    fn by_products(&self, cores: u32) -> Option<Vec<f64>> {
        let (mut weight, mut scale) = (1.0, 0);
        let mut weights = Vec::with_capacity(self.times.len() + 1);
        weights.push((weight, scale));
        for (&time, away) in self.times.iter().zip((1..=cores).rev()) {
            let factor = f64::from(away) * (time / self.think);
            if !(1.0 / SCALE..SCALE).contains(&factor) {
                return None;
            }
            weight *= factor;
            if weight > SCALE {
                (weight, scale) = (weight / SCALE, scale + 1);
            } else if weight < 1.0 / SCALE {
                (weight, scale) = (weight * SCALE, scale - 1);
            }
            weights.push((weight, scale));
        }
        let largest = weights.iter().map(|&(_, scale)| scale).max()?;
        let mut probabilities: Vec<f64> =
            weights.into_iter().map(|(weight, scale)| weight * SCALE.powi(scale - largest)).collect();
        let total: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|weight| *weight /= total);
        Some(probabilities)
    }

    /// The same from their logarithms.
    fn by_logarithms(&self) -> Vec<f64> {
        self.ln_probabilities().into_iter().map(f64::exp).collect()
    }

    /// n.
    pub fn cores(&self) -> u32 {
        self.times.len() as u32 // checked when it was made
    }

    /// P_0 … P_n: the share of time with k cores at the lock.
    pub fn probabilities(&self) -> impl Iterator<Item = f64> + '_ {
        self.probabilities.iter().copied()
    }

    /// The mean number of cores that think: the paper's speed-up n - w, summed so that it stays exact where it is tiny.
    pub fn away(&self) -> f64 {
        self.probabilities().zip((0..=self.cores()).rev()).map(|(p, away)| f64::from(away) * p).sum()
    }

    /// Acquisitions in a unit of time, of all cores.
    pub fn throughput(&self) -> f64 {
        self.away() / self.think
    }

    /// The share of the releases that leave from each state, from 1 to n: P_k/t_k of their sum.
    pub fn releases(&self) -> impl Iterator<Item = f64> + '_ {
        let rates = || self.probabilities[1..].iter().zip(&self.times).map(|(p, time)| p / time);
        let total: f64 = rates().sum();
        rates().map(move |rate| rate / total)
    }

    /// The chance that a core that comes to the lock finds it free.
    pub fn found_free(&self) -> f64 {
        (f64::from(self.cores()) * self.probabilities[0] / self.away()).min(1.0)
    }

    /// ln P_0 … ln P_n, however small they are.
    fn ln_probabilities(&self) -> Vec<f64> {
        let rates = self.times.iter().zip((1..=self.cores()).rev());
        let steps = rates.scan(0.0, |ln, (time, away)| {
            *ln += f64::from(away).ln() + time.ln() - self.think.ln();
            Some(*ln)
        });
        let mut ln: Vec<f64> = std::iter::once(0.0).chain(steps).collect();
        let ln_total = ln_sum(&ln);
        ln.iter_mut().for_each(|ln| *ln -= ln_total);
        ln
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marsaglia's xorshift64*, pinned here so that the tests draw the same numbers for ever.
    struct Xorshift(u64);

    impl Xorshift {
        fn exponential(&mut self, mean: f64) -> f64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
            -mean * ((bits as f64 + 0.5) / (1u64 << 53) as f64).ln()
        }
    }

    fn ticket_times(cores: u32, service: f64, c: f64) -> Vec<f64> {
        (0..cores).map(|waiters| service + c * f64::from(waiters) / 2.0).collect()
    }

    fn assert_close(left: f64, right: f64, relative: f64) {
        assert!((left - right).abs() <= relative * right.abs(), "{left} is not {right} within {relative}");
    }

    #[test]
    fn constant_times_are_the_machine_repairman() {
        // n machines and one repairman (Palm 1947): P_0 = 1 / Σ n!/(n-k)! (s/a)^k.
        let (n, a, s) = (12_u32, 900.0, 100.0);
        let mut term = 1.0;
        let mut total = 1.0;
        for k in 0..n {
            term *= f64::from(n - k) * s / a;
            total += term;
        }
        let chain = Chain::new(a, vec![s; n as usize]).unwrap();
        assert_close(chain.probabilities().next().unwrap(), 1.0 / total, 1e-12);
        assert_close(chain.throughput(), (1.0 - 1.0 / total) / s, 1e-12);
        let at_lock: f64 = (0..=n).zip(chain.probabilities()).map(|(k, p)| f64::from(k) * p).sum();
        assert_close(at_lock + chain.away(), f64::from(n), 1e-12);
    }

    #[test]
    fn products_are_what_logarithms_give_however_far_they_span() {
        for (cores, think, service, c) in [
            (1, 5.0, 1.0, 0.0),
            (48, 1_592.0, 121.0, 200.0),
            (1_024, 3e6, 100.0, 60.0),
            (4_096, 1e9, 1e3, 1e5),
            (64, 1e-9, 1e3, 0.0),
        ] {
            let chain = Chain::new(think, ticket_times(cores, service, c)).unwrap();
            assert!(chain.by_products(cores).is_some(), "{cores} cores, {think}");
            for (product, logarithm) in chain.probabilities().zip(chain.by_logarithms()) {
                assert!(
                    (product - logarithm).abs() <= 1e-9 * logarithm + 1e-200,
                    "{product} is not {logarithm}"
                );
            }
        }
        let extreme = Chain::new(f64::MIN_POSITIVE, ticket_times(8, 1e3, 1.0)).unwrap();
        assert!(extreme.by_products(8).is_none());
        assert_close(8.0 - extreme.away(), 8.0, 1e-12);
    }

    #[test]
    fn one_core_alternates() {
        let chain = Chain::new(300.0, vec![100.0]).unwrap();
        assert_close(chain.away(), 0.75, 1e-15);
        assert_close(chain.found_free(), 1.0, 1e-15);
    }

    /// Runs `cores` cores that think for `think()` and a server whose rate follows the number waiting.
    fn simulated_throughput(
        times: &[f64],
        transitions: u32,
        random: &mut Xorshift,
        mut think: impl FnMut(&mut Xorshift) -> f64,
    ) -> f64 {
        let mut arrivals: Vec<f64> = times.iter().map(|_| think(random)).collect();
        let (mut now, mut at_lock, mut served) = (0.0_f64, 0_usize, 0_u32);
        while served < transitions {
            let next = (0..arrivals.len()).min_by(|&i, &j| arrivals[i].total_cmp(&arrivals[j]));
            // The server is memoryless: its remaining time may be drawn afresh whenever its rate changes.
            let done =
                if at_lock == 0 { f64::INFINITY } else { now + random.exponential(times[at_lock - 1]) };
            match next {
                Some(core) if arrivals[core] < done => {
                    now = arrivals.swap_remove(core);
                    at_lock += 1;
                }
                _ => {
                    now = done;
                    at_lock -= 1;
                    served += 1;
                    arrivals.push(now + think(random));
                }
            }
        }
        f64::from(served) / now
    }

    #[test]
    fn a_monte_carlo_run_of_the_chain_agrees() {
        let mut random = Xorshift(0x9E37_79B9_7F4A_7C15);
        for (cores, c) in [(3, 0.0), (8, 200.0), (16, 80.0)] {
            let times = ticket_times(cores, 121.0, c);
            let run = simulated_throughput(&times, 200_000, &mut random, |random| random.exponential(1592.0));
            assert_close(Chain::new(1592.0, times).unwrap().throughput(), run, 0.02);
        }
    }

    #[test]
    fn the_distribution_of_think_times_does_not_matter() {
        let mut random = Xorshift(0xD1B5_4A32_D192_ED03);
        let times = ticket_times(8, 121.0, 200.0);
        let run = simulated_throughput(&times, 200_000, &mut random, |_| 1592.0);
        assert_close(Chain::new(1592.0, times).unwrap().throughput(), run, 0.02);
    }

    #[test]
    fn impossible_times_are_refused() {
        assert!(Chain::new(0.0, vec![1.0]).is_err());
        assert!(Chain::new(1.0, vec![f64::NAN]).is_err());
        assert!(Chain::new(1.0, vec![]).is_err());
        assert!(Chain::new(1.0, vec![1.0; 4097]).is_err());
    }
}
