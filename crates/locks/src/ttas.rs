//! Test-and-test-and-set lock.
//!
//! A waiter reads until it sees "free" and only then swaps, so that waiting is quiet. The release is not: every
//! waiter sees it, and all of them swap at once.
//!
//! | `word` | set by    | meaning |
//! |--------|-----------|---------|
//! | 0      | holder    | free    |
//! | 1      | acquirers | held    |
//!
//! Order: none; a waiter may be bypassed without bound. Any thread may release.
//! Source: Anderson 1990.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{GaveUp, Machine, Patient, Timeout, Word};

use crate::{RawLock, TimedLock, TryLock};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// The test-and-test-and-set lock, 4 bytes.
pub struct Ttas<M: Machine = Patient> {
    word: M::U32,
}

const _: () = assert!(size_of::<Ttas>() == 4);

// SAFETY: between two releases one swap finds the word free.
unsafe impl<M: Machine> RawLock<M> for Ttas<M> {
    const NEW: Self = Self { word: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        // Each turn that does not end the loop is one in which another thread got the lock.
        while self.word.swap(HELD, Acquire) != FREE {
            // [1] from release
            M::spin_until(&self.word, Relaxed, |word| word == FREE); // the swap acquires
        }
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
unsafe impl<M: Machine> TryLock<M> for Ttas<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        // Reads first, so that a failed attempt leaves the line where it is.
        self.word.load(Relaxed) == FREE && self.word.swap(HELD, Acquire) == FREE // [1] from release
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for Ttas<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        while self.word.swap(HELD, Acquire) != FREE {
            // [1] from release
            M::spin_until_or(&self.word, Relaxed, timeout, |word| word == FREE)?;
        }
        Ok(())
    }
}
