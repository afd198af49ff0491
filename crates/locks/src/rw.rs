//! A reader-writer lock that sleeps.
//!
//! | state                   | meaning                                                                  |
//! |-------------------------|--------------------------------------------------------------------------|
//! | 0                       | free                                                                     |
//! | `READER`s               | that many read                                                           |
//! | `READER`s, `RESERVED`   | a writer waits for them to leave; new readers stay out, old ones read again |
//! | `WRITER`                | one writes                                                               |
//! | with `SLEEPING`         | a waiter sleeps: the release that frees the lock wakes one               |
//! | with `READERS_SLEEP`    | one of them wants to read: a reader that enters wakes all                |
//!
//! The word, its invariants and the policy of waiting are in [`blocking`](crate::blocking).
//! Order: a waiting writer lets no new reader past; a waiter that has slept may enter first. A thread that reads already
//! is let in whatever waits. Any thread may release either side.
//! Source: Courtois, Heymans and Parnas 1971 (fair to writers); the word is that of [`Futex`](crate::Futex).

use machine::{GaveUp, Machine, Patient, Timeout};

use crate::blocking::BlockingWord;
use crate::{DowngradeLock, Elidable, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};

/// The blocking reader-writer lock, 4 bytes; at most 2²⁶ readers at once, further ones wait.
pub struct Rw<M: Machine = Patient> {
    word: BlockingWord<M>,
}

const _: () = assert!(size_of::<Rw>() == 4);

// SAFETY: a writer enters a word without writer and readers, a reader one without writer.
unsafe impl<M: Machine> RawLock<M> for Rw<M> {
    const NEW: Self = Self { word: BlockingWord::NEW };

    #[inline]
    fn acquire(&self) {
        self.word.acquire(None);
    }

    #[inline]
    unsafe fn release(&self) {
        self.word.release();
    }

    fn is_idle(&self) -> bool {
        self.word.is_idle()
    }

    const PROMISES: bool = true;

    fn is_promised(&self) -> bool {
        self.word.is_promised()
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Rw<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.try_acquire()
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for Rw<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.word.acquire_or(None, timeout)
    }
}

// SAFETY: as for the exclusive side.
unsafe impl<M: Machine> RawRwLock<M> for Rw<M> {
    #[inline]
    fn acquire_shared(&self, reads_already: bool) {
        self.word.acquire_shared(reads_already, None);
    }

    #[inline]
    fn try_acquire_shared(&self, reads_already: bool) -> bool {
        self.word.try_acquire_shared(reads_already)
    }

    #[inline]
    unsafe fn release_shared(&self) {
        self.word.release_shared();
    }

    const BOUNDS_READERS: bool = true;

    unsafe fn near_full(&self) {
        self.word.near_full();
    }

    #[inline]
    fn is_exclusive(&self) -> bool {
        self.word.is_exclusive()
    }
}

// SAFETY: the writer leaves in the step in which the reader comes.
unsafe impl<M: Machine> DowngradeLock<M> for Rw<M> {
    #[inline]
    unsafe fn downgrade(&self) {
        self.word.downgrade();
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedRwLock<M> for Rw<M> {
    #[inline]
    fn acquire_shared_or(&self, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.word.acquire_shared_or(reads_already, None, timeout)
    }
}

// SAFETY: a thread that holds it has written its word, which is free only when no thread does.
unsafe impl<M: Machine> Elidable<M> for Rw<M> {
    fn await_free(&self) {
        self.word.await_free();
    }
}
