//! A barrier: threads wait for each other.
//!
//! | word         | written by                 | meaning                                                     |
//! |--------------|----------------------------|-------------------------------------------------------------|
//! | `arrived`    | whoever arrives            | how many have, in this round; whoever is last clears it     |
//! | `round`      | whoever is last            | how many rounds are over: what those that wait sleep on     |
//!
//! Order: all that wait go on at once.
//! Source: Hensgen, Finkel, Manber 1988 (the round in place of a sense).

use core::fmt;

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Integer, Machine, Patient, Timeout, Word};

/// The barrier, 12 bytes. It is used again for the next round as it is.
///
/// ```
/// use contend_locks::prelude::*;
///
/// let barrier = Barrier::new(2);
/// std::thread::scope(|scope| {
///     let other = scope.spawn(|| barrier.wait());
///     assert_ne!(barrier.wait(), other.join().unwrap(), "one of them is the leader");
/// });
/// ```
#[repr(C)]
pub struct Barrier<M: Machine = Patient> {
    arrived: M::U32,
    round: M::U32,
    threads: u32,
}

const _: () = assert!(size_of::<Barrier>() == 12);

impl<M: Machine> Barrier<M> {
    /// A barrier for so many threads; for none as for one.
    #[must_use]
    pub const fn new(threads: u32) -> Self {
        Self { arrived: M::U32::ZERO, round: M::U32::ZERO, threads }
    }

    /// Waits until as many threads have come. True for one of them, which came last.
    pub fn wait(&self) -> bool {
        let round = self.round.load(Relaxed); // no later one: it needs the caller
        // [1] from those before, to the last; the next round begins behind [2]
        if self.arrived.fetch_add(1, AcqRel) + 1 >= self.threads {
            self.arrived.store(0, Relaxed);
            self.round.store(round.wrapping_add(1), Release); // [2] to all
            M::wake(&raw const self.round, u32::MAX);
            return true;
        }
        // [2] from the last
        while self.round.load(Acquire) == round {
            M::sleep_while(&self.round, round, Timeout::NONE);
        }
        false
    }
}

impl<M: Machine> fmt::Debug for Barrier<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("threads", &self.threads).finish_non_exhaustive()
    }
}
