//! Test-and-set lock.
//!
//! An acquirer swaps "held" into the word until it finds "free" there. Every attempt of every waiter takes the line
//! away from the core that has it, the holder's included: the baseline that collapses first.
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

use crate::{Elidable, RawLock, TimedLock, TryLock};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// The test-and-set lock, 4 bytes.
pub struct Tas<M: Machine = Patient> {
    word: M::U32,
}

const _: () = assert!(size_of::<Tas>() == 4);

// SAFETY: between two releases one swap finds the word free.
unsafe impl<M: Machine> RawLock<M> for Tas<M> {
    const NEW: Self = Self { word: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        M::spin_rmw(&self.word, |word| word.swap(HELD, Acquire) == FREE); // [1] from release
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
unsafe impl<M: Machine> TryLock<M> for Tas<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.swap(HELD, Acquire) == FREE // [1] from release
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for Tas<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        M::spin_rmw_or(&self.word, timeout, |word| word.swap(HELD, Acquire) == FREE) // [1] from release
    }
}

// SAFETY: a thread that holds it has written its word, which is free only when no thread does.
unsafe impl<M: Machine> Elidable<M> for Tas<M> {
    fn await_free(&self) {
        M::spin_until(&self.word, Relaxed, |word| word == FREE);
    }
}
