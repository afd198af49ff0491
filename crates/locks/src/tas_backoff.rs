//! Test-and-set lock with bounded exponential back-off, swapping at once.
//!
//! A waiter never reads: it swaps, and after each failure backs off twice as long as before. Compare
//! [`TtasBackoff`](crate::TtasBackoff), which reads before it swaps.
//!
//! | `word` | set by    | meaning |
//! |--------|-----------|---------|
//! | 0      | holder    | free    |
//! | 1      | acquirers | held    |
//!
//! Order: none; late comers, whose delays are short, go before those who have waited. Any thread may release.
//! Source: Anderson 1990.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{GaveUp, Machine, Patient, Timeout, Word};

use crate::backoff::Backoff;
use crate::{RawLock, TimedLock, TryLock};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// The test-and-set lock with back-off, 4 bytes.
pub struct TasBackoff<M: Machine = Patient> {
    word: M::U32,
}

const _: () = assert!(size_of::<TasBackoff>() == 4);

// SAFETY: between two releases one swap finds the word free.
unsafe impl<M: Machine> RawLock<M> for TasBackoff<M> {
    const NEW: Self = Self { word: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        self.word.store(FREE, Release); // [1] to the next acquirer
    }

    fn is_idle(&self) -> bool {
        self.word.load(Relaxed) == FREE
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for TasBackoff<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.swap(HELD, Acquire) == FREE // [1] from release
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for TasBackoff<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        if self.try_acquire() {
            return Ok(());
        }
        let mut backoff = Backoff::new();
        M::spin_rmw_or(&self.word, timeout, |word| {
            M::delay(backoff.grow());
            word.swap(HELD, Acquire) == FREE // [1] from release
        })
    }
}
