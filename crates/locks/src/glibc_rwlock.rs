//! glibc's reader-writer lock, with its three kinds of preference.
//!
//! Two locks in one: one that decides which writer is the *primary* one, and one that alternates between *phases*, in
//! which either readers or primary writers, one after another, may be in.
//!
//! | bits of `readers` | name          | meaning                                                            |
//! |-------------------|---------------|--------------------------------------------------------------------|
//! | 0                 | `WRITE_PHASE` | readers may not be in                                              |
//! | 1                 | `PRIMARY`     | there is a primary writer, which is in or wants to be              |
//! | 2                 | `BARRED`      | readers sleep on this word until the primary writer had its turn   |
//! | 3 to 31           | `READER`s     | readers that are in or want to be                                  |
//!
//! | `WRITE_PHASE` | `PRIMARY` | readers | state                                                               |
//! |---------------|-----------|---------|---------------------------------------------------------------------|
//! | 0             | 0         | 0       | #1 free                                                             |
//! | 0             | 0         | n       | #2 readers are in                                                   |
//! | 0             | 1         | 0       | #3 the primary writer is about to start a write phase               |
//! | 0             | 1         | n       | #4 readers are in; the last one hands over to the writer (#4a: with `BARRED`) |
//! | 1             | 0         | 0       | #5 free; the last holder was a writer                               |
//! | 1             | 0         | n       | #6 readers are about to start a read phase                          |
//! | 1             | 1         | 0       | #7 a writer is in                                                   |
//! | 1             | 1         | n       | #8 a writer is in; it hands over to these readers                   |
//!
//! | word     | values                                                                                      |
//! |----------|---------------------------------------------------------------------------------------------|
//! | `phase`  | 0 or 1: the phase, written after it has changed by the thread that changed it; `SLEEPERS`    |
//! | `writers`| writers that want to be primary, where writers are preferred; `HANDED_OVER`: `PRIMARY` is one of theirs |
//! | `queue`  | 1: writers may sleep here for `PRIMARY`; 0: they may not; `SLEEPERS`                         |
//!
//! Hand-over is *explicit*: who has waited for a phase goes in when `phase` says so, not when `readers` does, since writing
//! `phase` is the last that the one before does with the lock.
//! Order: none among readers or writers. With [`READERS_FIRST`] readers that overlap keep writers out. With [`WRITERS_FIRST`] a
//! writer hands over to a waiting one, past the readers. With [`WRITERS_FIRST_NONRECURSIVE`] new readers besides stay out while
//! the primary writer waits for those who are in. Any thread may release either side.
//! Source: Riegel's reader-writer lock of glibc 2.25 (2016) as it is in 2.36, after the states that its overview describes. Its
//! `cur_writer`, on which only errors depend, is left out. Not in glibc: becoming a reader, and waiting where there are too many
//! readers. A writer that finds the queue neither open nor the lock without a primary writer goes round in glibc until that
//! changes; one that is preferred here watches for `PRIMARY` or a hand-over then, since nothing waits for three words.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{GaveUp, Integer, Machine, Patient, Slept, Timeout, Word};

use crate::{DowngradeLock, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};

const WRITE_PHASE: u32 = 1;
const PRIMARY: u32 = 1 << 1;
const BARRED: u32 = 1 << 2;
const READER: u32 = 1 << 3;
const READERS: u32 = !(READER - 1);
/// More readers than this wait, so that forgotten ones cannot make the count go round.
const MOST_READERS: u32 = 1 << 30;

/// In `phase` and `queue`: a thread sleeps there, or is about to.
const SLEEPERS: u32 = 2;
/// In `writers`: the primary writer has left, and one of those counted is the next.
const HANDED_OVER: u32 = 1 << 31;

/// `PTHREAD_RWLOCK_PREFER_READER_NP`, the default.
pub const READERS_FIRST: u8 = 0;
/// `PTHREAD_RWLOCK_PREFER_WRITER_NP`.
pub const WRITERS_FIRST: u8 = 1;
/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
pub const WRITERS_FIRST_NONRECURSIVE: u8 = 2;

/// glibc's reader-writer lock, 16 bytes of it, for readers first.
pub struct GlibcRwlock<M: Machine = Patient, const PREFERENCE: u8 = READERS_FIRST> {
    readers: M::U32,
    writers: M::U32,
    phase: M::U32,
    queue: M::U32,
}

/// glibc's reader-writer lock that prefers writers to readers that wait.
pub type GlibcRwlockWriter<M = Patient> = GlibcRwlock<M, WRITERS_FIRST>;

/// glibc's reader-writer lock that prefers writers to new readers, too: a reader that reads again may wait for itself.
pub type GlibcRwlockNonrecursive<M = Patient> = GlibcRwlock<M, WRITERS_FIRST_NONRECURSIVE>;

const _: () = assert!(size_of::<GlibcRwlock>() == 16);

/// How a writer came to be the primary one.
enum Primary {
    /// With the word `readers` as it is now.
    Claimed(u32),
    /// By the writer before, inside a write phase.
    HandedOver,
}

impl<M: Machine, const PREFERENCE: u8> GlibcRwlock<M, PREFERENCE> {
    const WRITERS_FIRST: bool = PREFERENCE != READERS_FIRST;
    const BARS_READERS: bool = PREFERENCE == WRITERS_FIRST_NONRECURSIVE;

    /// Whether a new reader leaves the word alone while it is so: state #4, where writers go before new readers.
    const fn bars(state: u32) -> bool {
        Self::BARS_READERS && state & (WRITE_PHASE | PRIMARY) == PRIMARY && state & READERS != 0
    }

    /// Says that the phase has changed, and wakes who waits for that. For those it is the last write of the caller here.
    #[inline]
    fn tell_phase(&self, phase: u32) {
        if self.phase.swap(phase, Relaxed) & SLEEPERS != 0 {
            // [3] `readers` orders what the phases do
            M::wake(&raw const self.phase, u32::MAX);
        }
    }

    /// Waits until a phase is handed over. A thread that gives up leaves at most the mark that threads sleep.
    fn await_phase(&self, phase: u32, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let other = phase ^ WRITE_PHASE;
        loop {
            self.sleep_in_phase(other, timeout)?;
            // The word may be of the phase before the last, not yet written over. Once `readers` shows the phase, the word is
            // that of the phase before, or later.
            let changed = |state| state & WRITE_PHASE == phase;
            if changed(self.readers.load(Acquire)) {
                // [1], [2] from the releases
                return self.sleep_in_phase(other, timeout);
            }
            M::spin_until_any(
                (&self.phase, Relaxed, |now| now & WRITE_PHASE == other),
                (&self.readers, Relaxed, changed),
            );
        }
    }

    /// Sleeps while the word of the phase says this one.
    fn sleep_in_phase(&self, phase: u32, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let mut now = self.phase.load(Relaxed);
        while now & WRITE_PHASE == phase {
            let asleep = phase | SLEEPERS;
            if now != asleep
                && let Err(changed) = self.phase.compare_exchange(now, asleep, Relaxed, Relaxed)
            {
                now = changed;
                continue;
            }
            if M::sleep_while(&self.phase, asleep, timeout) == Slept::GaveUp {
                return Err(GaveUp);
            }
            now = self.phase.load(Relaxed);
        }
        Ok(())
    }

    #[inline]
    fn enter_shared(&self, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        if Self::BARS_READERS && !reads_already {
            self.wait_while_barred(timeout)?;
        }
        loop {
            let state = self.readers.fetch_add(READER, Acquire); // [1] from a writer's release
            if state >= MOST_READERS {
                self.leave_full(timeout)?;
            } else if state & WRITE_PHASE == 0 {
                return Ok(());
            } else {
                return self.start_read_phase(state + READER, timeout);
            }
        }
    }

    /// Takes back a reader too many and waits until there is space.
    #[cold]
    #[inline(never)]
    fn leave_full(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        if !self.withdraw_shared() {
            self.leave_shared();
        }
        M::spin_until_or(&self.readers, Relaxed, timeout, |state| state < MOST_READERS).map(|_| ())
    }

    /// Sleeps while a primary writer waits for the readers that are in.
    fn wait_while_barred(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let mut state = self.readers.load(Relaxed);
        while Self::bars(state) {
            if state & BARRED == 0
                && let Err(now) = self.readers.compare_exchange(state, state | BARRED, Relaxed, Relaxed)
            {
                state = now;
                continue;
            }
            // Readers leave meanwhile, each of which changes the word once.
            if M::sleep_while(&self.readers, state | BARRED, timeout) == Slept::GaveUp {
                return Err(GaveUp);
            }
            state = self.readers.load(Relaxed);
        }
        Ok(())
    }

    /// A reader that has added itself in a write phase.
    #[cold]
    #[inline(never)]
    fn start_read_phase(&self, mut state: u32, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        while state & (WRITE_PHASE | PRIMARY) == WRITE_PHASE {
            match self.readers.compare_exchange(state, state ^ WRITE_PHASE, Acquire, Relaxed) {
                // [1] from a writer's release
                Ok(_) => {
                    self.tell_phase(0);
                    return Ok(());
                }
                Err(now) => state = now,
            }
        }
        // A writer hands over, or another reader that has started the phase: both look alike.
        if self.await_phase(0, timeout).is_ok() {
            return Ok(());
        }
        if self.withdraw_shared() { Err(GaveUp) } else { self.await_phase(0, Timeout::NONE) }
    }

    /// Takes back a reader that waits for a read phase. False when that has started.
    fn withdraw_shared(&self) -> bool {
        let mut state = self.readers.load(Relaxed);
        while state & WRITE_PHASE != 0 {
            match self.readers.compare_exchange(state, state - READER, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[inline]
    fn leave_shared(&self) {
        let mut state = self.readers.load(Relaxed);
        let (before, after) = loop {
            let mut left = state - READER;
            if left & READERS == 0 {
                left &= !BARRED;
                if left & PRIMARY != 0 {
                    left |= WRITE_PHASE;
                }
            }
            match self.readers.compare_exchange(state, left, Release, Relaxed) {
                // [2] to the writer that enters next
                Ok(_) => break (state, left),
                Err(now) => state = now,
            }
        };
        if after & WRITE_PHASE != 0 {
            M::fence(Acquire); // [3] from who started the read phase: its word of the phase comes first
            self.tell_phase(WRITE_PHASE);
        }
        if (before ^ after) & BARRED != 0 {
            M::wake(&raw const self.readers, u32::MAX);
        }
    }

    #[inline]
    fn enter(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let before = self.readers.fetch_or(PRIMARY, Acquire); // [1], [2] from both releases
        let mut shared_mark = false;
        let primary = if before & PRIMARY == 0 {
            Primary::Claimed(before | PRIMARY)
        } else {
            self.become_primary(&mut shared_mark, timeout)?
        };
        // Who has slept in the queue may have left others there, whose mark it keeps.
        let open = if shared_mark { 1 | SLEEPERS } else { 1 };
        if let Primary::Claimed(state) = primary
            && !self.start_write_phase(state)
        {
            self.queue.store(open, Relaxed);
            return self.await_readers(timeout);
        }
        self.queue.store(open, Relaxed);
        Ok(())
    }

    /// The primary writer goes in if no reader is. `state` is the word as it has seen it.
    #[inline]
    fn start_write_phase(&self, mut state: u32) -> bool {
        if state & WRITE_PHASE != 0 {
            return true;
        }
        while state & (READERS | WRITE_PHASE) == 0 {
            match self.readers.compare_exchange(state, state | WRITE_PHASE, Acquire, Relaxed) {
                // [2] from the readers' releases
                Ok(_) => {
                    self.phase.store(WRITE_PHASE, Relaxed); // only the caller waits for a write phase
                    return true;
                }
                Err(now) => state = now,
            }
        }
        false // readers are in, or the last of them is about to hand over
    }

    /// The primary writer waits for the last reader.
    #[cold]
    #[inline(never)]
    fn await_readers(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        if self.await_phase(WRITE_PHASE, timeout).is_ok() {
            return Ok(());
        }
        if self.withdraw() { Err(GaveUp) } else { self.await_phase(WRITE_PHASE, Timeout::NONE) }
    }

    /// The primary writer gives that up. False when the write phase has started.
    fn withdraw(&self) -> bool {
        let queue = self.queue.swap(0, Relaxed);
        let mut state = self.readers.load(Relaxed);
        while state & WRITE_PHASE == 0 {
            match self.readers.compare_exchange(state, state & !(PRIMARY | BARRED), Release, Relaxed) {
                // [4] to the next primary writer, which opens the queue after we have closed it
                Ok(_) => {
                    if state & BARRED != 0 {
                        M::wake(&raw const self.readers, u32::MAX);
                    }
                    self.wake_writer(queue);
                    return true;
                }
                Err(now) => state = now,
            }
        }
        self.queue.store(queue, Relaxed);
        false
    }

    /// Wakes a writer that sleeps in the queue, by what the queue held when it was closed. The lock may be gone by now.
    #[inline]
    fn wake_writer(&self, queue: u32) {
        if queue & SLEEPERS != 0 {
            M::wake(&raw const self.queue, 1);
        }
    }

    /// Waits for the primary writer to leave. `shared_mark` becomes true when the caller has slept, since the mark of
    /// `SLEEPERS` is then that of others, too.
    #[cold]
    #[inline(never)]
    fn become_primary(&self, shared_mark: &mut bool, timeout: Timeout<'_, M>) -> Result<Primary, GaveUp> {
        if Self::WRITERS_FIRST {
            self.writers.fetch_add(1, Relaxed);
        }
        loop {
            if Self::WRITERS_FIRST && self.take_over() {
                return Ok(Primary::HandedOver);
            }
            let state = self.readers.load(Relaxed);
            if state & PRIMARY == 0 {
                // [1], [2] from both releases, [4] from a writer that gave up
                if self.readers.compare_exchange(state, state | PRIMARY, Acquire, Relaxed).is_ok() {
                    if Self::WRITERS_FIRST {
                        self.writers.fetch_sub(1, Relaxed);
                    }
                    return Ok(Primary::Claimed(state | PRIMARY));
                }
                continue;
            }
            let queue = self.queue.load(Relaxed);
            if queue == 0 {
                if self.wait_for_queue(timeout).is_err() {
                    let left = self.unregister();
                    if *shared_mark {
                        M::wake(&raw const self.queue, 1); // a wake-up that this one had is another one's now
                    }
                    left?;
                }
                continue;
            }
            if queue & SLEEPERS == 0
                && self.queue.compare_exchange(queue, queue | SLEEPERS, Relaxed, Relaxed).is_err()
            {
                continue;
            }
            *shared_mark = true;
            if M::sleep_while(&self.queue, 1 | SLEEPERS, timeout) == Slept::GaveUp {
                self.unregister()?;
            }
        }
    }

    /// The queue is closed: a writer is about to open it, or to leave.
    fn wait_for_queue(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let left = (&self.readers, Relaxed, |state| state & PRIMARY == 0);
        if Self::WRITERS_FIRST {
            let handed_over = (&self.writers, Relaxed, |writers| writers & HANDED_OVER != 0);
            M::spin_until_any_or(left, handed_over, timeout).map(|_| ())
        } else {
            let open = (&self.queue, Relaxed, |queue| queue != 0);
            M::spin_until_any_or(left, open, timeout).map(|_| ())
        }
    }

    /// Takes over from the primary writer, if it has left that to one of those who are counted.
    fn take_over(&self) -> bool {
        let mut writers = self.writers.load(Relaxed);
        while writers & HANDED_OVER != 0 {
            // [1] from a writer's release
            match self.writers.compare_exchange(writers, writers - HANDED_OVER - 1, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => writers = now,
            }
        }
        false
    }

    /// A writer in the queue gives up. `Ok` if it may not: it is the last one, and the lock has been handed over to it.
    fn unregister(&self) -> Result<(), GaveUp> {
        if Self::WRITERS_FIRST {
            let mut writers = self.writers.load(Relaxed);
            loop {
                if writers == HANDED_OVER + 1 {
                    return Ok(());
                }
                match self.writers.compare_exchange(writers, writers - 1, Relaxed, Relaxed) {
                    Ok(_) => break,
                    Err(now) => writers = now,
                }
            }
        }
        Err(GaveUp)
    }

    #[inline]
    fn leave(&self) {
        let queue = self.queue.swap(0, Relaxed); // before the lock is: its next primary writer opens it again
        if !(Self::WRITERS_FIRST && self.hand_over()) {
            let mut state = self.readers.load(Relaxed);
            let left = loop {
                let readers = if state & READERS == 0 { 0 } else { WRITE_PHASE };
                match self.readers.compare_exchange(state, state ^ PRIMARY ^ readers, Release, Relaxed) {
                    // [1] to the thread that enters next
                    Ok(_) => break state,
                    Err(now) => state = now,
                }
            };
            if left & READERS != 0 {
                self.tell_phase(0);
            }
        }
        self.wake_writer(queue);
    }

    /// Leaves the lock to a writer that waits, if there is one.
    #[inline]
    fn hand_over(&self) -> bool {
        let mut writers = self.writers.load(Relaxed);
        while writers != 0 {
            match self.writers.compare_exchange(writers, writers | HANDED_OVER, Release, Relaxed) {
                // [1] to the writer that takes over
                Ok(_) => return true,
                Err(now) => writers = now,
            }
        }
        false
    }
}

// SAFETY: there is one primary writer at a time, which is in during write phases alone; readers are in during the others.
unsafe impl<M: Machine, const PREFERENCE: u8> RawLock<M> for GlibcRwlock<M, PREFERENCE> {
    const NEW: Self =
        Self { readers: M::U32::ZERO, writers: M::U32::ZERO, phase: M::U32::ZERO, queue: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.enter(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        self.leave();
    }

    fn is_idle(&self) -> bool {
        let phase = self.readers.load(Relaxed);
        let waiting = self.writers.load(Relaxed) | self.queue.load(Relaxed);
        phase & !WRITE_PHASE == 0 && waiting == 0 && self.phase.load(Relaxed) & WRITE_PHASE == phase
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine, const PREFERENCE: u8> TryLock<M> for GlibcRwlock<M, PREFERENCE> {
    #[inline]
    fn try_acquire(&self) -> bool {
        let mut state = self.readers.load(Relaxed);
        loop {
            // Past readers that wait for a read phase, where writers go first.
            let free = state & READERS == 0 || Self::WRITERS_FIRST && state & WRITE_PHASE != 0;
            if state & PRIMARY != 0 || !free {
                return false;
            }
            match self.readers.compare_exchange(state, state | PRIMARY | WRITE_PHASE, Acquire, Relaxed) {
                // [1], [2] from both releases
                Ok(_) => {
                    self.queue.store(1, Relaxed);
                    if state & WRITE_PHASE == 0 {
                        self.phase.store(WRITE_PHASE, Relaxed);
                    }
                    return true;
                }
                Err(now) => state = now,
            }
        }
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine, const PREFERENCE: u8> TimedLock<M> for GlibcRwlock<M, PREFERENCE> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.enter(timeout)
    }
}

// SAFETY: as for the exclusive side.
unsafe impl<M: Machine, const PREFERENCE: u8> RawRwLock<M> for GlibcRwlock<M, PREFERENCE> {
    #[inline]
    fn acquire_shared(&self, reads_already: bool) {
        let _: Result<(), GaveUp> = self.enter_shared(reads_already, Timeout::NONE); // never gives up
    }

    #[inline]
    fn try_acquire_shared(&self, reads_already: bool) -> bool {
        let mut state = self.readers.load(Relaxed);
        loop {
            let barred = if state & WRITE_PHASE == 0 {
                !reads_already && Self::bars(state)
            } else {
                state & PRIMARY != 0
            };
            if barred || state >= MOST_READERS {
                return false;
            }
            let entered = (state + READER) & !WRITE_PHASE;
            match self.readers.compare_exchange(state, entered, Acquire, Relaxed) {
                // [1] from a writer's release
                Ok(_) => {
                    if state & WRITE_PHASE != 0 {
                        self.tell_phase(0);
                    }
                    return true;
                }
                Err(now) => state = now,
            }
        }
    }

    #[inline]
    unsafe fn release_shared(&self) {
        self.leave_shared();
    }

    const BOUNDS_READERS: bool = true;

    unsafe fn near_full(&self) {
        self.readers.store(MOST_READERS - READER, Relaxed);
    }

    #[inline]
    fn is_exclusive(&self) -> bool {
        self.readers.load(Relaxed) & (WRITE_PHASE | PRIMARY) == WRITE_PHASE | PRIMARY
    }
}

// SAFETY: the writer leaves in the step in which the reader comes.
unsafe impl<M: Machine, const PREFERENCE: u8> DowngradeLock<M> for GlibcRwlock<M, PREFERENCE> {
    #[inline]
    unsafe fn downgrade(&self) {
        let queue = self.queue.swap(0, Relaxed);
        // Readers come and go meanwhile, but no thread changes the two bits that are set.
        self.readers.fetch_add(READER - PRIMARY - WRITE_PHASE, Release); // [1] to readers
        self.tell_phase(0);
        self.wake_writer(queue);
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine, const PREFERENCE: u8> TimedRwLock<M> for GlibcRwlock<M, PREFERENCE> {
    #[inline]
    fn acquire_shared_or(&self, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.enter_shared(reads_already, timeout)
    }
}
