//! Several locks.
//!
//! Cores go round between the work outside and the locks of an operation; each lock is a queue whose service time
//! depends on how many are there. Such a closed network has a product-form solution (Gordon and Newell 1967), and
//! Buzen's convolution (CACM 1973) sums it exactly, here in logarithms. A network of one lock is the chain of
//! [`crate::chain`].
//!
//! Two things are simpler than in [`LockModel`](crate::LockModel): a critical section is a constant, and waiters of
//! a blocking lock are woken in order (what arrives at one lock depends on all others otherwise).

use crate::handover::{Crowd, Handover, Reading};
use crate::{ModelError, ln_sum, not_negative, positive, valid_cores};

/// One lock of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Station {
    /// Acquisitions of this lock in one operation.
    pub visits: f64,
    /// The mean time in the critical section.
    pub service: f64,
    /// What a hand-over adds.
    pub handover: Handover,
}

/// The locks that an operation passes.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// The time of one operation outside all locks.
    pub outside: f64,
    /// The locks. One that takes no time at all may be left out.
    pub locks: Vec<Station>,
    /// Which form of the model is used.
    pub reading: Reading,
}

impl Network {
    /// Operations in a unit of time at 1 … `cores` cores.
    ///
    /// Time and memory grow with the square and the first power of cores.
    ///
    /// # Errors
    ///
    /// Inputs that are not finite or negative; no cores or too many.
    pub fn throughputs(&self, cores: u32) -> Result<Vec<f64>, ModelError> {
        valid_cores(cores)?;
        positive("the time outside the locks", self.outside)?;
        // ln G of the cores outside alone: aⁿ/n!.
        let mut ln_total = running_sum(cores, |k| self.outside.ln() - f64::from(k).ln());
        for lock in &self.locks {
            not_negative("the acquisitions of an operation", lock.visits)?;
            positive("the critical section", lock.service)?;
            lock.handover.check()?;
            let ln_lock = running_sum(cores, |k| {
                let crowd = Crowd { at_lock: k, away: 0, outside: self.outside };
                (lock.visits * (lock.service + lock.handover.time(crowd, self.reading))).ln()
            });
            ln_total = convolve(&ln_total, &ln_lock);
        }
        Ok(ln_total.windows(2).map(|pair| (pair[0] - pair[1]).exp()).collect())
    }

    /// The lock that limits the operation on `cores` cores if no other does: the one with the longest time at the
    /// lock in an operation when all cores are there. `None` without locks.
    pub fn bottleneck(&self, cores: u32) -> Option<usize> {
        let demand = |lock: &Station| {
            let crowd = Crowd { at_lock: cores, away: 0, outside: self.outside };
            lock.visits * (lock.service + lock.handover.time(crowd, self.reading))
        };
        (0..self.locks.len()).max_by(|&i, &j| demand(&self.locks[i]).total_cmp(&demand(&self.locks[j])))
    }
}

/// 0, f(1), f(1) + f(2), …
fn running_sum(cores: u32, mut f: impl FnMut(u32) -> f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut sums = vec![0.0];
    sums.extend((1..=cores).map(|k| {
        sum += f(k);
        sum
    }));
    sums
}

/// ln Σ_k exp(x_k + y_{n-k}) for each n.
fn convolve(x: &[f64], y: &[f64]) -> Vec<f64> {
    let mut terms = Vec::with_capacity(x.len());
    (0..x.len())
        .map(|n| {
            terms.clear();
            terms.extend((0..=n).map(|k| x[k] + y[n - k]));
            ln_sum(&terms)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockModel, Service};

    fn ticket(visits: f64, service: f64, waiter_cost: f64) -> Station {
        Station { visits, service, handover: Handover::Ticket { waiter_cost } }
    }

    fn network(outside: f64, locks: Vec<Station>) -> Network {
        Network { outside, locks, reading: Reading::Waiters }
    }

    #[test]
    fn one_lock_is_the_chain() {
        let throughputs = network(1592.0, vec![ticket(1.0, 121.0, 200.0)]).throughputs(48).unwrap();
        let lock = LockModel {
            outside: 1592.0,
            service: Service::constant(121.0),
            handover: Handover::Ticket { waiter_cost: 200.0 },
            readers: None,
            reading: Reading::Waiters,
        };
        for cores in [1, 6, 48] {
            let chain = lock.at(cores).unwrap().throughput;
            assert!((throughputs[cores as usize - 1] / chain - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn two_equal_locks_carry_more_than_one_that_is_visited_twice() {
        let one = network(1000.0, vec![ticket(2.0, 100.0, 50.0)]).throughputs(64).unwrap();
        let two = network(1000.0, vec![ticket(1.0, 100.0, 50.0); 2]).throughputs(64).unwrap();
        assert!((one[0] - two[0]).abs() < 1e-15, "one core meets nobody");
        assert!(two[63] > 1.5 * one[63]);
    }

    #[test]
    fn an_idle_lock_changes_nothing_and_the_dearest_is_the_bottleneck() {
        let locks = vec![ticket(1.0, 100.0, 50.0), ticket(1e-9, 100.0, 50.0)];
        let network_of_two = network(1000.0, locks.clone());
        let alone = network(1000.0, locks[..1].to_vec()).throughputs(32).unwrap();
        let both = network_of_two.throughputs(32).unwrap();
        assert!((alone[31] / both[31] - 1.0).abs() < 1e-6);
        assert_eq!(network_of_two.bottleneck(32), Some(0));
        assert_eq!(network(1.0, vec![]).bottleneck(3), None);
    }

    #[test]
    fn without_locks_cores_add_up() {
        let throughputs = network(50.0, vec![]).throughputs(4096).unwrap();
        assert!((throughputs[4095] - 4096.0 / 50.0).abs() < 1e-6);
    }
}
