//! A barrier: threads wait for each other.
//!
//! | bits of `word` | name      | meaning                                                      |
//! |----------------|-----------|--------------------------------------------------------------|
//! | 0 to 15        | `ARRIVED` | how many have come in this round                             |
//! | 16 to 31       | round     | how many rounds are over, modulo 2¹⁶: what waiters sleep on  |
//!
//! The thread that comes last begins the next round in the write in which it arrives. So more threads than the barrier is for
//! may use it: as many as it is for go on together.
//!
//! Order: all that wait go on at once; no thread may be 65,536 rounds late.
//! Source: Hensgen, Finkel, Manber 1988 (the round in place of a sense).

use core::fmt;

use machine::Ordering::{AcqRel, Acquire, Relaxed};
use machine::{Machine, Patient, Timeout, Word};

const ARRIVED: u32 = ROUND - 1;
const ROUND: u32 = 1 << 16;

/// The barrier, 8 bytes. It is used again for the next round as it is.
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
    word: M::U32,
    threads: u32,
}

const _: () = assert!(size_of::<Barrier>() == 8);

impl<M: Machine> Barrier<M> {
    /// A barrier for so many threads; for none as for one.
    ///
    /// # Panics
    /// With 2¹⁶ threads or more.
    #[must_use]
    pub const fn new(threads: u32) -> Self {
        assert!(threads <= ARRIVED, "a barrier counts 2^16 - 1 threads at most");
        Self { word: M::U32::ZERO, threads }
    }

    /// Brings the barrier to just before its count of rounds wraps around. For checks, before any thread has used it.
    pub fn near_wrap(&self) {
        self.word.store(!ARRIVED, Relaxed);
    }

    /// Waits until as many threads have come. True for one of them, which came last.
    pub fn wait(&self) -> bool {
        let mut state = self.word.load(Relaxed);
        loop {
            let is_last = (state & ARRIVED) + 1 >= self.threads;
            let arrived = if is_last { (state & !ARRIVED).wrapping_add(ROUND) } else { state + 1 };
            // [1] from those before, and to those that come later
            match self.word.compare_exchange(state, arrived, AcqRel, Relaxed) {
                Ok(_) if is_last => {
                    M::wake(&raw const self.word, u32::MAX);
                    return true;
                }
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let round = state & !ARRIVED;
        loop {
            let state = self.word.load(Acquire); // [1] from the last
            if state & !ARRIVED != round {
                return false;
            }
            M::sleep_while(&self.word, state, Timeout::NONE);
        }
    }
}

impl<M: Machine> fmt::Debug for Barrier<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("threads", &self.threads).finish_non_exhaustive()
    }
}
