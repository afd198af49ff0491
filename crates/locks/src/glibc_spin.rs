//! glibc's spin lock, as x86 has it.
//!
//! | `word` | set by    | meaning                                              |
//! |--------|-----------|------------------------------------------------------|
//! | 0      | holder    | free                                                 |
//! | n      | acquirers | held; n attempts were made since it was free         |
//!
//! An acquirer adds one and has the lock if nothing was there. If not, it reads until it sees the lock free, and adds again:
//! waiting is quiet, a release is a rush of all who wait.
//! Order: none; a waiter may be bypassed without bound. Any thread may release.
//! Source: `pthread_spin_lock` of glibc 2.36 on x86-64, which counts down from 1 where this counts up from 0, so that a lock of
//! zero bytes is free.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Integer, Machine, Patient, Word};

use crate::{RawLock, TryLock};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// glibc's spin lock, 4 bytes.
pub struct GlibcSpin<M: Machine = Patient> {
    word: M::U32,
}

const _: () = assert!(size_of::<GlibcSpin>() == 4);

// SAFETY: between two releases one addition or exchange finds the word free. A waiter adds only after it has seen the lock
// free, so that 2³² additions are not made while one thread holds it.
unsafe impl<M: Machine> RawLock<M> for GlibcSpin<M> {
    const NEW: Self = Self { word: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        // Each turn that does not end the loop is one in which another thread got the lock.
        while self.word.fetch_add(1, Acquire) != FREE {
            // [1] from release
            M::spin_until(&self.word, Relaxed, |word| word == FREE); // the addition acquires
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
unsafe impl<M: Machine> TryLock<M> for GlibcSpin<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok() // [1] from release
    }
}
