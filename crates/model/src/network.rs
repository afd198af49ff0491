//! Several locks.
//!
//! Cores go round between the think time and the locks of an operation; each lock is a queue whose service time
//! depends on how many are there. Such a closed network has a product-form solution (Gordon and Newell 1967), and
//! Buzen's convolution (CACM 1973) sums it exactly, here in logarithms. A network of one lock is the chain of
//! [`crate::chain`].
//!
//! One thing is simpler than in [`LockModel`](crate::LockModel): a critical section is a constant, which the caller has
//! taken from the lock's own chain.

use crate::handover::{Contenders, Handover, Variant};
use crate::lock::Readers;
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
    /// Set for a reader-writer lock.
    pub readers: Option<Readers>,
    /// The mean time that a core spends away from this lock between two visits.
    pub away: f64,
}

impl Station {
    /// The mean time from one release to the next with `at_lock` of `cores` cores there.
    fn time(&self, at_lock: u32, cores: u32, variant: Variant) -> f64 {
        let contenders = Contenders { at_lock, away: cores - at_lock, think: self.away };
        let handover = self.handover.time(contenders, variant);
        self.readers.map_or(self.service + handover, |readers| readers.time(at_lock, self.service, handover))
    }
}

/// The locks that an operation passes.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// The think time of one operation.
    pub think: f64,
    /// The locks. One that takes no time at all may be left out.
    pub locks: Vec<Station>,
    /// Which form of the model is used.
    pub variant: Variant,
}

impl Network {
    /// Operations in a unit of time of `cores` cores.
    ///
    /// Time and memory grow with the square and the first power of cores.
    ///
    /// # Errors
    ///
    /// Inputs that are not finite or negative; no cores or too many.
    pub fn throughput(&self, cores: u32) -> Result<f64, ModelError> {
        valid_cores(cores)?;
        positive("the think time", self.think)?;
        // ln G of the cores in their think time, alone: aⁿ/n!.
        let mut ln_total = running_sum(cores, |k| self.think.ln() - f64::from(k).ln());
        for alike in self.locks.chunk_by(PartialEq::eq) {
            let lock = &alike[0];
            not_negative("the acquisitions of an operation", lock.visits)?;
            positive("the critical section", lock.service)?;
            positive("the time away from a lock", lock.away)?;
            lock.readers.map_or(Ok(()), Readers::check)?;
            lock.handover.check()?;
            let ln_lock = running_sum(cores, |k| (lock.visits * lock.time(k, cores, self.variant)).ln());
            ln_total = convolve(&ln_total, &repeated(ln_lock, alike.len()));
        }
        let [.., fewer, all] = ln_total[..] else { return Ok(0.0) }; // there is one core at least
        Ok((fewer - all).exp())
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

/// So many locks alike, convolved: by doubling, since one lock may be split into a thousand.
fn repeated(mut locks: Vec<f64>, mut copies: usize) -> Vec<f64> {
    let mut all: Option<Vec<f64>> = None;
    while copies > 1 {
        if copies % 2 == 1 {
            all = Some(match all {
                None => locks.clone(),
                Some(all) => convolve(&all, &locks),
            });
        }
        locks = convolve(&locks, &locks);
        copies /= 2;
    }
    match all {
        None => locks,
        Some(all) => convolve(&all, &locks),
    }
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
        Station { visits, service, handover: Handover::Ticket { waiter_cost }, readers: None, away: 1000.0 }
    }

    fn network(think: f64, locks: Vec<Station>) -> Network {
        Network { think, locks, variant: Variant::Waiters }
    }

    #[test]
    fn one_lock_is_the_chain() {
        let network = network(1592.0, vec![ticket(1.0, 121.0, 200.0)]);
        let lock = LockModel {
            think: 1592.0,
            service: Service::constant(121.0),
            handover: Handover::Ticket { waiter_cost: 200.0 },
            readers: None,
            variant: Variant::Waiters,
        };
        for cores in [1, 6, 48] {
            let chain = lock.at(cores).unwrap().throughput;
            assert!((network.throughput(cores).unwrap() / chain - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn two_equal_locks_carry_more_than_one_that_is_visited_twice() {
        let one = network(1000.0, vec![ticket(2.0, 100.0, 50.0)]);
        let two = network(1000.0, vec![ticket(1.0, 100.0, 50.0); 2]);
        let at = |network: &Network, cores| network.throughput(cores).unwrap();
        assert!((at(&one, 1) - at(&two, 1)).abs() < 1e-15, "one core meets nobody");
        assert!(at(&two, 64) > 1.5 * at(&one, 64));
    }

    #[test]
    fn locks_that_are_alike_are_what_locks_are_that_hardly_differ() {
        for copies in 1..9 {
            let alike = vec![ticket(0.2, 100.0, 50.0); copies];
            let differ = (0..copies).map(|n| ticket(0.2, 100.0 + n as f64 * 1e-9, 50.0)).collect();
            let [alike, differ] = [alike, differ].map(|locks| network(1000.0, locks).throughput(32).unwrap());
            assert!((alike / differ - 1.0).abs() < 1e-9, "{copies}: {alike} {differ}");
        }
    }

    #[test]
    fn an_idle_lock_changes_nothing() {
        let locks = vec![ticket(1.0, 100.0, 50.0), ticket(1e-9, 100.0, 50.0)];
        let network_of_two = network(1000.0, locks.clone());
        let alone = network(1000.0, locks[..1].to_vec()).throughput(32).unwrap();
        let both = network_of_two.throughput(32).unwrap();
        assert!((alone / both - 1.0).abs() < 1e-6);
    }

    #[test]
    fn without_locks_cores_add_up() {
        let throughput = network(50.0, vec![]).throughput(4096).unwrap();
        assert!((throughput - 4096.0 / 50.0).abs() < 1e-6);
    }
}
