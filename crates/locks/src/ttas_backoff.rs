//! Test-and-test-and-set lock with bounded exponential back-off.
//!
//! A waiter reads, and backs off twice as long after each read that finds the lock held; it swaps only when it has
//! seen it free. Compare [`TasBackoff`](crate::TasBackoff), which swaps at once.
//!
//! | `word` | set by    | meaning |
//! |--------|-----------|---------|
//! | 0      | holder    | free    |
//! | 1      | acquirers | held    |
//!
//! Order: none; late comers, whose delays are short, go before those who have waited. Any thread may release.
//! Source: Anderson 1990.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{GaveUp, Machine, Patient, Poll, Timeout, Word};

use crate::backoff::Backoff;
use crate::{Elidable, RawLock, TimedLock, TryLock};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// The test-and-test-and-set lock with back-off, 4 bytes.
pub struct TtasBackoff<M: Machine = Patient> {
    word: M::U32,
}

const _: () = assert!(size_of::<TtasBackoff>() == 4);

// SAFETY: between two releases one swap finds the word free.
unsafe impl<M: Machine> RawLock<M> for TtasBackoff<M> {
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
unsafe impl<M: Machine> TryLock<M> for TtasBackoff<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        // Reads first, so that a failed attempt leaves the line where it is.
        self.word.load(Relaxed) == FREE && self.word.swap(HELD, Acquire) == FREE // [1] from release
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for TtasBackoff<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let mut backoff = Backoff::new();
        // Each turn that does not end the loop is one in which another thread got the lock. [1] from release
        while self.word.swap(HELD, Acquire) != FREE {
            M::poll_or(&self.word, Relaxed, timeout, |word| match word {
                FREE => Poll::Ready,
                _ => Poll::BackOff(backoff.grow()),
            })?;
        }
        Ok(())
    }
}

// SAFETY: a thread that holds it has written its word, which is free only when no thread does.
unsafe impl<M: Machine> Elidable<M> for TtasBackoff<M> {
    fn await_free(&self) {
        M::spin_until(&self.word, Relaxed, |word| word == FREE);
    }
}
