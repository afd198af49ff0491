//! Queued reader-writer lock.
//!
//! Who cannot enter at once queues up at a ticket lock, and the head of that queue alone watches the word. So the
//! word is quiet, and readers and writers are served in the order of arrival; readers in a row enter together.
//!
//! | bits    | name      | set by               | meaning                                            |
//! |---------|-----------|----------------------|----------------------------------------------------|
//! | 0 to 7  | `WRITER`  | a writer             | one writes; its release stores this byte           |
//! | 8       | `WAITING` | the head of the queue | a writer waits for the readers to leave; new ones stay out |
//! | 9 to 31 | `READER`s | readers              | that many read, or just look whether they may      |
//!
//! A thread that reads already is let in past a waiting writer, as Linux does for readers in interrupts.
//! Order: first in, first out. Any thread may release either side.
//! Source: Linux 3.16 `kernel/locking/qrwlock.c`; the split of waiting and locked of 2017.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Integer, Machine, Native, Part, Word};

use crate::ticket4::Ticket4;
use crate::{RawLock, RawRwLock, TryLock};

const WRITER: u32 = 1;
const WAITING: u32 = 1 << 8;
const READER: u32 = 1 << 9;
const WRITER_PART: Part = Part::Byte(0);

/// The queued reader-writer lock, 8 bytes.
pub struct RwQueued<M: Machine = Native> {
    word: M::U32,
    queue: Ticket4<M>,
}

const _: () = assert!(size_of::<RwQueued>() == 8);

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
            // Readers that look whether they may enter come and go: each turn follows such a one.
            loop {
                M::spin_until(&self.word, Relaxed, |word| word == WAITING);
                if self.word.compare_exchange(WAITING, WRITER, Acquire, Relaxed).is_ok() {
                    // [1], [2] from both releases
                    break;
                }
            }
        }
        self.queue.release();
    }

    #[cold]
    fn wait_shared(&self) {
        self.word.fetch_sub(READER, Relaxed); // wait outside
        self.queue.acquire();
        self.word.fetch_add(READER, Relaxed); // no other writer can come in: it would have to queue up
        M::spin_until(&self.word, Acquire, |word| word & WRITER == 0); // [1] from the writer's release
        self.queue.release();
    }
}

impl<M: Machine> RawLock<M> for RwQueued<M> {
    const NEW: Self = Self { word: M::U32::ZERO, queue: Ticket4::NEW };

    #[inline]
    fn acquire(&self) {
        if !self.take_when_free() {
            self.wait_exclusive();
        }
    }

    #[inline]
    fn release(&self) {
        self.word.store_part(WRITER_PART, 0, Release); // [1] to whoever enters next
    }
}

impl<M: Machine> TryLock<M> for RwQueued<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.take_when_free()
    }
}

impl<M: Machine> RawRwLock<M> for RwQueued<M> {
    #[inline]
    fn acquire_shared(&self, reads_already: bool) {
        let before = self.word.fetch_add(READER, Acquire); // [1] from a writer's release
        let barred = if reads_already { WRITER } else { WRITER | WAITING };
        if before & barred != 0 {
            self.wait_shared();
        }
    }

    #[inline]
    fn try_acquire_shared(&self, reads_already: bool) -> bool {
        let barred = if reads_already { WRITER } else { WRITER | WAITING };
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
    fn release_shared(&self) {
        self.word.fetch_sub(READER, Release); // [2] to the next writer
    }
}
