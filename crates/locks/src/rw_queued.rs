//! Queued reader-writer lock.
//!
//! Who cannot enter at once queues up at a ticket lock, and the head of that queue alone watches the word. So the
//! word is quiet, and readers and writers are served in the order of arrival; readers in a row enter together.
//!
//! | bits    | name      | set by               | meaning                                            |
//! |---------|-----------|----------------------|----------------------------------------------------|
//! | 0 to 7  | `WRITER`  | a writer             | one writes; its release stores this byte           |
//! | 8       | `WAITING` | the head of the queue | a writer waits for the readers to leave; new ones stay out |
//! | 9 to 31 | `READER`s | readers              | that many read, or find out whether they may       |
//!
//! At most 2²² readers are let in, so that forgotten ones cannot make the count go round; further ones wait. The rest of the
//! field is for those that find out.
//! A thread that reads already is let in past waiting writers, as Linux does for readers in interrupts.
//! Order: first in, first out. Any thread may release either side.
//! Source: Linux 3.16 `kernel/locking/qrwlock.c`; the split of waiting and locked of 2017.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Integer, Machine, Part, Patient, Word};

use crate::ticket4::Ticket4;
use crate::{DowngradeLock, RawLock, RawRwLock, TryLock};

const WRITER: u32 = 1;
const WAITING: u32 = 1 << 8;
const READER: u32 = 1 << 9;
/// The word of as many readers as may be in. The bit is set while there are more.
const FULL: u32 = 1 << 31;
const WRITER_PART: Part = Part::Byte(0);

/// The queued reader-writer lock, 8 bytes.
pub struct RwQueued<M: Machine = Patient> {
    word: M::U32,
    queue: Ticket4<M>,
}

const _: () = assert!(size_of::<RwQueued>() == 8);

/// What keeps a reader out.
#[inline]
const fn barred(reads_already: bool) -> u32 {
    if reads_already { WRITER | FULL } else { WRITER | FULL | WAITING }
}

impl<M: Machine> RwQueued<M> {
    #[inline]
    fn take_when_free(&self) -> bool {
        self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok() // [1], [2] from both releases
    }

    #[cold]
    fn wait_exclusive(&self) {
        self.queue.acquire();
        if !self.take_when_free() {
            self.word.fetch_or(WAITING, Relaxed);
            // Readers that find out whether they may enter add themselves and leave again: each turn follows such a one.
            loop {
                M::spin_until(&self.word, Relaxed, |word| word == WAITING);
                if self.word.compare_exchange(WAITING, WRITER, Acquire, Relaxed).is_ok() {
                    // [1], [2] from both releases
                    break;
                }
            }
        }
        // SAFETY: acquired above.
        unsafe { self.queue.release() };
    }

    /// Waits ahead of the queue, counted as a reader, so that no other writer enters: behind one that waits for the
    /// caller's own hold the caller would wait for itself. The caller has entered and found `before`.
    #[cold]
    fn wait_ahead(&self, mut before: u32) {
        while before & FULL != 0 {
            self.word.fetch_sub(READER, Relaxed);
            M::spin_until(&self.word, Relaxed, |word| word & FULL == 0);
            before = self.word.fetch_add(READER, Relaxed);
        }
        M::spin_until(&self.word, Acquire, |word| word & WRITER == 0); // [1] from the writer's release
    }

    #[cold]
    fn wait_shared(&self) {
        self.word.fetch_sub(READER, Relaxed); // wait outside
        self.queue.acquire();
        // No other writer can enter: it would have to queue up.
        while self.word.fetch_add(READER, Relaxed) & FULL != 0 {
            self.word.fetch_sub(READER, Relaxed);
            M::spin_until(&self.word, Relaxed, |word| word & FULL == 0);
        }
        M::spin_until(&self.word, Acquire, |word| word & WRITER == 0); // [1] from the writer's release
        // SAFETY: acquired above.
        unsafe { self.queue.release() };
    }
}

// SAFETY: a writer enters a word without writer and readers, a reader one without writer.
unsafe impl<M: Machine> RawLock<M> for RwQueued<M> {
    const NEW: Self = Self { word: M::U32::ZERO, queue: Ticket4::NEW };

    #[inline]
    fn acquire(&self) {
        if !self.take_when_free() {
            self.wait_exclusive();
        }
    }

    #[inline]
    unsafe fn release(&self) {
        self.word.store_part(WRITER_PART, 0, Release); // [1] to the thread that enters next
    }

    fn is_idle(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.queue.is_idle()
    }

    /// Free with threads in the queue: the one at its head is about to enter, or has yet to find that it is there.
    fn is_unheld(&self) -> bool {
        self.word.load(Relaxed) & !WAITING == 0
    }

    const WRAPS: bool = true;

    unsafe fn near_wrap(&self) {
        // SAFETY: the caller's.
        unsafe { self.queue.near_wrap() };
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for RwQueued<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.take_when_free()
    }
}

// SAFETY: as for the exclusive side.
unsafe impl<M: Machine> RawRwLock<M> for RwQueued<M> {
    #[inline]
    fn acquire_shared(&self, reads_already: bool) {
        let before = self.word.fetch_add(READER, Acquire); // [1] from a writer's release
        if before & barred(reads_already) == 0 {
            return;
        }
        if reads_already { self.wait_ahead(before) } else { self.wait_shared() }
    }

    #[inline]
    fn try_acquire_shared(&self, reads_already: bool) -> bool {
        let barred = barred(reads_already);
        if self.word.load(Relaxed) & barred != 0 {
            return false;
        }
        let joined = self.word.fetch_add(READER, Acquire) & barred == 0; // [1] from a writer's release
        if !joined {
            self.word.fetch_sub(READER, Relaxed);
        }
        joined
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
unsafe impl<M: Machine> DowngradeLock<M> for RwQueued<M> {
    #[inline]
    unsafe fn downgrade(&self) {
        self.word.fetch_add(READER - WRITER, Release); // [1] to readers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_no_thread_holds_is_unheld_although_some_queue() {
        let lock = RwQueued::<Patient>::NEW;
        lock.queue.acquire(); // as by the head of the queue, whose predecessor has left the lock already
        assert!(!lock.is_idle() && lock.is_unheld());
        lock.word.store(WAITING, Relaxed); // as by a writer at the head, before it enters
        assert!(lock.is_unheld());
        lock.word.store(0, Relaxed);
        assert!(lock.try_acquire() && !lock.is_unheld());
        // SAFETY: acquired above.
        unsafe { lock.release() };
        assert!(lock.is_unheld() && lock.try_acquire_shared(false) && !lock.is_unheld());
    }
}
