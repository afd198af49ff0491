//! Naive reader-writer spin lock: the baseline that the queued one replaced.
//!
//! | bits    | name      | set by    | meaning                    |
//! |---------|-----------|-----------|----------------------------|
//! | 0       | `WRITER`  | a writer  | one writes                 |
//! | 1 to 31 | `READER`s | readers   | that many read, or find out whether they may |
//!
//! At most 2³⁰ readers are let in, so that forgotten ones cannot make the count go round; further ones wait. The rest of the
//! field is for those that find out.
//! Order: none; readers keep a writer out as long as they overlap. Any thread may release either side.
//! Source: the reader-writer spin locks of Linux before 3.16.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{GaveUp, Integer, Machine, Patient, Timeout, Word};

use crate::{DowngradeLock, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};

const WRITER: u32 = 1;
const READER: u32 = 2;
/// The word of as many readers as may be in. The bit is set while there are more.
const FULL: u32 = 1 << 31;
/// What keeps a reader out.
const BARRED: u32 = WRITER | FULL;

/// The naive reader-writer spin lock, 4 bytes.
pub struct RwNaive<M: Machine = Patient> {
    word: M::U32,
}

const _: () = assert!(size_of::<RwNaive>() == 4);

impl<M: Machine> RwNaive<M> {
    #[inline]
    fn take_when_free(&self) -> bool {
        self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok() // [1], [2] from both releases
    }

    /// Enters, and leaves again if a writer is there, or too many readers.
    #[inline]
    fn join(&self) -> bool {
        let joined = self.word.fetch_add(READER, Acquire) & BARRED == 0; // [1] from a writer's release
        if !joined {
            self.word.fetch_sub(READER, Relaxed);
        }
        joined
    }
}

// SAFETY: a writer enters a word without writer and readers, a reader one without writer.
unsafe impl<M: Machine> RawLock<M> for RwNaive<M> {
    const NEW: Self = Self { word: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        self.word.fetch_sub(WRITER, Release); // [1] to the thread that enters next
    }

    fn is_idle(&self) -> bool {
        self.word.load(Relaxed) == 0
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for RwNaive<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.take_when_free()
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for RwNaive<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        // Each turn that does not end the loop is one in which another thread entered.
        while !self.take_when_free() {
            M::spin_until_or(&self.word, Relaxed, timeout, |word| word == 0)?;
        }
        Ok(())
    }
}

// SAFETY: as for the exclusive side.
unsafe impl<M: Machine> RawRwLock<M> for RwNaive<M> {
    #[inline]
    fn acquire_shared(&self, reads_already: bool) {
        let _: Result<(), GaveUp> = self.acquire_shared_or(reads_already, Timeout::NONE); // never gives up
    }

    #[inline]
    fn try_acquire_shared(&self, _reads_already: bool) -> bool {
        self.word.load(Relaxed) & BARRED == 0 && self.join()
    }

    #[inline]
    unsafe fn release_shared(&self) {
        self.word.fetch_sub(READER, Release); // [2] to the next writer
    }

    const BOUNDS_READERS: bool = true;

    unsafe fn near_full(&self) {
        self.word.store(FULL - READER, Relaxed);
    }

    #[inline]
    fn is_exclusive(&self) -> bool {
        self.word.load(Relaxed) & WRITER != 0
    }
}

// SAFETY: the writer leaves in the step in which the reader comes.
unsafe impl<M: Machine> DowngradeLock<M> for RwNaive<M> {
    #[inline]
    unsafe fn downgrade(&self) {
        self.word.fetch_add(READER - WRITER, Release); // [1] to readers
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedRwLock<M> for RwNaive<M> {
    #[inline]
    fn acquire_shared_or(&self, _reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        while !self.join() {
            M::spin_until_or(&self.word, Relaxed, timeout, |word| word & BARRED == 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_lock_lets_no_reader_in_until_one_leaves() {
        let lock = RwNaive::<Patient>::NEW;
        lock.word.store(FULL - READER, Relaxed); // as after that many readers
        assert!(lock.try_acquire_shared(false));
        assert!(!lock.try_acquire_shared(false) && !lock.try_acquire_shared(true) && !lock.try_acquire());
        // SAFETY: acquired above.
        unsafe { lock.release_shared() };
        assert!(lock.try_acquire_shared(false));
    }
}
