//! glibc's mutex of the default kind.
//!
//! | `word`      | meaning                                                              |
//! |-------------|----------------------------------------------------------------------|
//! | 0           | free                                                                 |
//! | `HELD`      | held; where a thread sleeps, another was woken and sets `CONTENDED`  |
//! | `CONTENDED` | held, and a thread may sleep: the release wakes one                  |
//!
//! An acquirer that finds the word held does not spin. It swaps `CONTENDED` in and sleeps, and does so again after every
//! wake-up, since others may still sleep; so a lock that was contended once is released by a system call until a release
//! finds no sleeper. The thread that has the processor at a release gets in: a woken waiter is mostly late.
//! Order: none; a waiter may be bypassed without bound. Any thread may release.
//! Source: the third mutex of Drepper's "Futexes are tricky" 2011, which glibc has by 2.36 for normal, recursive and
//! error-checking mutexes. The owner and the count of users, which glibc keeps in the same line, are left out.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{GaveUp, Machine, Patient, Slept, Timeout, Word};

use crate::{Elidable, RawLock, TimedLock, TryLock};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// glibc's default mutex, 4 bytes of it.
pub struct GlibcMutex<M: Machine = Patient> {
    word: M::U32,
}

const _: () = assert!(size_of::<GlibcMutex>() == 4);

impl<M: Machine> GlibcMutex<M> {
    #[inline]
    pub(crate) fn take_when_free(&self) -> bool {
        self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok() // [1] from release
    }

    /// Polls before it tries, so that a failed attempt leaves the line where it is.
    #[inline]
    pub(crate) fn poll_and_take(&self) -> bool {
        self.word.load(Relaxed) == FREE && self.take_when_free()
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn sleep_until_taken(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        // Who finds the mark of another sleeper sleeps at once.
        let mut marked = self.word.load(Relaxed) == CONTENDED;
        while marked || self.word.swap(CONTENDED, Acquire) != FREE {
            // [1] from release
            if M::sleep_while(&self.word, CONTENDED, timeout) == Slept::GaveUp {
                return Err(GaveUp);
            }
            marked = false;
        }
        Ok(())
    }
}

// SAFETY: between two releases one exchange or swap finds the word free.
unsafe impl<M: Machine> RawLock<M> for GlibcMutex<M> {
    const NEW: Self = Self { word: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        if self.word.swap(FREE, Release) == CONTENDED {
            // [1] to the next acquirer
            M::wake(&raw const self.word, 1);
        }
    }

    fn is_idle(&self) -> bool {
        self.word.load(Relaxed) == FREE
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for GlibcMutex<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.take_when_free()
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for GlibcMutex<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        if self.take_when_free() { Ok(()) } else { self.sleep_until_taken(timeout) }
    }
}

// SAFETY: a holder has written the lock's word, which is free only when no thread holds the lock.
unsafe impl<M: Machine> Elidable<M> for GlibcMutex<M> {
    fn await_free(&self) {
        M::spin_until(&self.word, Relaxed, |word| word == FREE);
    }
}
