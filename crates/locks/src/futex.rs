//! A mutex that sleeps.
//!
//! | state                      | meaning                                                      |
//! |----------------------------|--------------------------------------------------------------|
//! | 0                          | free                                                         |
//! | `WRITER`                   | held                                                         |
//! | `WRITER`, `SLEEPING`       | held, and a waiter sleeps: the release wakes one             |
//! | with `WAKING`              | a woken waiter is on its way: releases wake no other         |
//! | with `RESERVED`            | a waiter has been bypassed for too long: newcomers stay out  |
//!
//! The word, its invariants and the policy of waiting are in [`blocking`](crate::blocking).
//! Order: the first thread that finds the lock free enters; of those that sleep one enters in each ms, even if others come. Any
//! thread may release.
//! Source: Drepper 2011 (states); Go `sync.Mutex` 2016 (throttled wake-ups, bounded bypassing).

use machine::{GaveUp, Machine, Patient, Timeout};

use crate::blocking::BlockingWord;
use crate::{Elidable, RawLock, TimedLock, TryLock};

/// The blocking mutex, 4 bytes.
pub struct Futex<M: Machine = Patient> {
    word: BlockingWord<M>,
}

const _: () = assert!(size_of::<Futex>() == 4);

// SAFETY: a thread enters a word that no thread holds.
unsafe impl<M: Machine> RawLock<M> for Futex<M> {
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
unsafe impl<M: Machine> TryLock<M> for Futex<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.try_acquire()
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for Futex<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.word.acquire_or(None, timeout)
    }
}

// SAFETY: a holder has written the lock's word, which is free only when no thread holds the lock.
unsafe impl<M: Machine> Elidable<M> for Futex<M> {
    fn await_free(&self) {
        self.word.await_free();
    }
}
