//! The lock to start with: a mutex and a reader-writer lock that backs off, spins in a queue, and sleeps.
//!
//! | word       | written by | meaning                                                  |
//! |------------|------------|----------------------------------------------------------|
//! | `word`     | any thread | the state; its bits are in [`blocking`](crate::blocking) |
//! | `spinners` | waiters    | those that spin, see [`spinners`](crate::spinners)       |
//!
//! Each part answers a regime in which a lock without it fails:
//!
//! 1. A thread that finds the lock free takes it, past all waiters, so that no thread waits for a thread that does not run.
//! 2. A waiter backs off a few times, each for longer than a hand-over: a holder that comes back soon finds the lock in its own
//!    cache.
//! 3. Then it spins in a queue, of which the first alone polls the word. Many cores wait so without touching the lock's line, one
//!    of them is always ready to take it, and no thread pays for a wake-up. A place in the queue lasts 0.5 ms, since the thread
//!    before may have lost its core; when a place has ended so, no thread queues up until the queue moves again. The first polls
//!    for as long as it would take to fall asleep and be woken.
//! 4. Then it sleeps, newcomers at once where others sleep already. One sleeper at a time is on its way. One that finds the lock held
//!    after it has waited for 1 ms keeps newcomers out, one such in each ms, until it or another sleeper is in.
//!
//! Order: the first thread that finds the lock free enters; of those that sleep one enters in each ms, even if others come. A
//! waiting writer lets no new reader past; a thread that reads already is let in whatever waits. Any thread may release either
//! side.
//! Source: composed of `futex`, `rw` and `osq`; that a few spin in a queue and the rest sleep is Linux's mutex since 3.10.

use machine::{GaveUp, Machine, Patient, Timeout};

use crate::blocking::BlockingWord;
use crate::spinners::Spinners;
use crate::{DowngradeLock, Elidable, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};

/// The lock to start with, 20 bytes; at most 2²⁶ readers at once, further ones wait.
pub struct Adaptive<M: Machine = Patient> {
    word: BlockingWord<M>,
    spinners: Spinners<M>,
}

const _: () = assert!(size_of::<Adaptive>() == 20);

// SAFETY: a writer enters a word without writer and readers, a reader one without writer.
unsafe impl<M: Machine> RawLock<M> for Adaptive<M> {
    const NEW: Self = Self { word: BlockingWord::NEW, spinners: Spinners::NEW };

    #[inline]
    fn acquire(&self) {
        self.word.acquire(Some(&self.spinners));
    }

    #[inline]
    unsafe fn release(&self) {
        self.word.release();
    }

    fn is_idle(&self) -> bool {
        self.word.is_idle() && self.spinners.is_idle()
    }

    const PROMISES: bool = true;

    fn is_promised(&self) -> bool {
        self.word.is_promised()
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Adaptive<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.try_acquire()
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for Adaptive<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.word.acquire_or(Some(&self.spinners), timeout)
    }
}

// SAFETY: as for the exclusive side.
unsafe impl<M: Machine> RawRwLock<M> for Adaptive<M> {
    #[inline]
    fn acquire_shared(&self, reads_already: bool) {
        self.word.acquire_shared(reads_already, Some(&self.spinners));
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
unsafe impl<M: Machine> DowngradeLock<M> for Adaptive<M> {
    #[inline]
    unsafe fn downgrade(&self) {
        self.word.downgrade();
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedRwLock<M> for Adaptive<M> {
    #[inline]
    fn acquire_shared_or(&self, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.word.acquire_shared_or(reads_already, Some(&self.spinners), timeout)
    }
}

// SAFETY: a holder has written the lock's word, which is free only when no thread holds the lock.
unsafe impl<M: Machine> Elidable<M> for Adaptive<M> {
    fn await_free(&self) {
        self.word.await_free();
    }
}
