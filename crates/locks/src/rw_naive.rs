//! Naive reader-writer spin lock: the baseline that the queued one replaced.
//!
//! | bits    | name      | set by    | meaning                    |
//! |---------|-----------|-----------|----------------------------|
//! | 0       | `WRITER`  | a writer  | one writes                 |
//! | 1 to 31 | `READER`s | readers   | that many read, or just look whether they may |
//!
//! Order: none; readers keep a writer out as long as they overlap. Any thread may release either side.
//! Source: the reader-writer spin locks of Linux before 3.16.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{GaveUp, Integer, Limit, Machine, Native, Word};

use crate::{RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};

const WRITER: u32 = 1;
const READER: u32 = 2;

/// The naive reader-writer spin lock, 4 bytes.
pub struct RwNaive<M: Machine = Native> {
    word: M::U32,
}

const _: () = assert!(size_of::<RwNaive>() == 4);

impl<M: Machine> RwNaive<M> {
    #[inline]
    fn take_when_free(&self) -> bool {
        self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok() // [1], [2] from both releases
    }

    /// Comes in, and leaves again if a writer is there.
    #[inline]
    fn join(&self) -> bool {
        let joined = self.word.fetch_add(READER, Acquire) & WRITER == 0; // [1] from a writer's release
        if !joined {
            self.word.fetch_sub(READER, Relaxed);
        }
        joined
    }
}

impl<M: Machine> RawLock<M> for RwNaive<M> {
    const NEW: Self = Self { word: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Limit::NONE); // never gives up
    }

    #[inline]
    fn release(&self) {
        self.word.fetch_sub(WRITER, Release); // [1] to whoever enters next
    }
}

impl<M: Machine> TryLock<M> for RwNaive<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.take_when_free()
    }
}

impl<M: Machine> TimedLock<M> for RwNaive<M> {
    #[inline]
    fn acquire_or(&self, limit: Limit<'_, M>) -> Result<(), GaveUp> {
        // Each turn that does not end the loop is one in which another thread came in.
        while !self.take_when_free() {
            M::spin_until_or(&self.word, Relaxed, limit, |word| word == 0)?;
        }
        Ok(())
    }
}

impl<M: Machine> RawRwLock<M> for RwNaive<M> {
    #[inline]
    fn acquire_shared(&self, reads_already: bool) {
        let _: Result<(), GaveUp> = self.acquire_shared_or(reads_already, Limit::NONE); // never gives up
    }

    #[inline]
    fn try_acquire_shared(&self, _reads_already: bool) -> bool {
        self.word.load(Relaxed) & WRITER == 0 && self.join()
    }

    #[inline]
    fn release_shared(&self) {
        self.word.fetch_sub(READER, Release); // [2] to the next writer
    }
}

impl<M: Machine> TimedRwLock<M> for RwNaive<M> {
    #[inline]
    fn acquire_shared_or(&self, _reads_already: bool, limit: Limit<'_, M>) -> Result<(), GaveUp> {
        while !self.join() {
            M::spin_until_or(&self.word, Relaxed, limit, |word| word & WRITER == 0)?;
        }
        Ok(())
    }
}
