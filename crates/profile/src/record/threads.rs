//! Threads: what each keeps for recording, and what outlives it.

use core::cell::Cell;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, Ordering, Ordering::Relaxed};

use super::callers::TakenFrom;
use super::off_core::OffCore;
use super::table::{Entry, Table, home};
use super::timeline::LastHolds;
use super::{Host, MERGED, Mode, Recorder, UNTIMED, add, key_of, new_pair};
use crate::arena::{Block, Need};
use crate::format::{Pair, Thread, Type, UNIT, head};

/// What a thread keeps for recording: a part of the thread's own storage. Zeros are a thread never seen.
#[repr(C)]
#[derive(Debug)]
pub struct PerThread {
    pub(super) table: Cell<*mut Entry>,
    pub(super) mask: Cell<usize>,
    /// Number of the thread's slot in its process, modulo 65536 and never 0.
    pub(super) number: Cell<u32>,
    /// Pairs until the next sampled one.
    pub(super) skip: Cell<u32>,
    pub(super) random: Cell<u64>,
    pub(super) slot: Cell<*mut ThreadPart>,
    /// Set while a slow path runs, so that locks taken by what it calls are left alone.
    pub(super) busy: Cell<bool>,
    /// Set when the thread could get no space at all: what it does is counted as dropped.
    refused: Cell<bool>,
    /// Set while the thread has a record for its joins alone.
    only_joined: Cell<bool>,
    /// Key of the outermost timed hold, or 0: what is acquired meanwhile is acquired within it.
    pub(super) section: Cell<u64>,
    pub(super) off_core: OffCore,
}

/// A thread's part that outlives it, in private memory that is never freed.
#[repr(C)]
#[derive(Debug)]
pub(super) struct ThreadPart {
    pub(super) next: *mut ThreadPart,
    pub(super) thread: *const Thread,
    pub(super) block: Block,
    pub(super) table: Table,
    number: u32,
    /// Kernel's identifier of the last thread that used the part.
    pub(super) tid: AtomicU32,
    /// Where the search for a cold record goes on.
    pub(super) hand: usize,
    /// By lock: where it was last taken.
    pub(super) taken_from: TakenFrom,
    /// By which stacks it released locks, as far as these were walked: positions of their records.
    pub(super) released_by: TakenFrom,
    /// By lock: from when to when it was last held, where the longest waits are kept.
    pub(super) held: LastHolds,
    /// 0 while the thread lives, 1 when it has said that it ends, 2 while another thread takes the slot over.
    pub(super) ended: AtomicU32,
    /// 0 while the thread's times are open. Its own end and the process's may come at once, and one of them adds what is missing.
    closed: AtomicU32,
}

/// A thread that lives for less, on a core before its first acquisition or after it in all, is not looked at in `/proc`: the kernel
/// takes several milliseconds longer to end a thread that was, so that a program of many short threads took a hundred times as
/// long. Its time on a core is known without; its name and its time on a run queue are not.
const LOOKED_AT_NS: u64 = 50_000_000;

/// Lines of a thread's first table, which lies in the same page as its slot.
pub(super) const FIRST_TABLE: usize = 128;
/// Memory of a slot with its first table, bytes.
const SLOT_BYTES: usize = 4096;

const _: () = assert!(size_of::<ThreadPart>() + FIRST_TABLE * size_of::<Entry>() <= SLOT_BYTES);

impl PerThread {
    /// A thread never seen.
    pub const fn new() -> Self {
        Self {
            table: Cell::new(null_mut()),
            mask: Cell::new(0),
            number: Cell::new(0),
            skip: Cell::new(0),
            random: Cell::new(0),
            slot: Cell::new(null_mut()),
            busy: Cell::new(false),
            refused: Cell::new(false),
            only_joined: Cell::new(false),
            section: Cell::new(0),
            off_core: OffCore::new(),
        }
    }

    /// The thread's record, once it has one.
    pub(super) fn thread(&self) -> Option<&Thread> {
        let slot = NonNull::new(self.slot.get())?;
        // SAFETY: the thread's own slot; its record lies in the mapping, which stays.
        Some(unsafe { &*(*slot.as_ptr()).thread })
    }

    /// Uses this table from here on.
    pub(super) fn use_table(&self, table: &Table) {
        self.mask.set(table.length() - 1);
        self.table.set(table.lines());
    }

    /// Forgets everything: the records belong to the parent process.
    pub(super) fn forget(&self) {
        self.table.set(null_mut());
        self.slot.set(null_mut());
        self.busy.set(false);
        self.refused.set(false);
        self.only_joined.set(false);
        self.section.set(0);
        self.off_core.forget();
    }

    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<&Pair> {
        let table = self.table.get();
        if table.is_null() {
            return None;
        }
        let mut index = home(key) & self.mask.get();
        loop {
            // SAFETY: a table has mask + 1 lines, at least one of them empty, and belongs to this thread.
            let entry = unsafe { *table.add(index) };
            if entry.key == key {
                // SAFETY: the pair of an occupied line lies in the mapping, which stays. A lock without a number looks
                // like an empty line, whose pair is null.
                return unsafe { entry.pair.as_ref() };
            }
            if entry.key == 0 {
                return None;
            }
            index = (index + 1) & self.mask.get();
        }
    }

    /// Decides whether this pair is timed. The distance between timed pairs is uniform on 1..2·period−1.
    #[inline]
    pub(super) fn draw(&self, period: u32) -> bool {
        if period <= 1 {
            return true;
        }
        let skip = self.skip.get();
        self.skip.set(skip.wrapping_sub(1));
        if skip > 1 {
            return false;
        }
        let mut x = self.random.get();
        x ^= x << 13; // xorshift64, Marsaglia 2003
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        let span = u64::from(period) * 2 - 1;
        self.skip.set(1 + (((x >> 32) * span) >> 32) as u32);
        true
    }
}

impl Default for PerThread {
    fn default() -> Self {
        Self::new()
    }
}

/// What a thread that is gone held, and when it released, is nothing of the next one that uses the pair.
fn end_hold(pair: &Pair) {
    pair.hold_started.store(0, Relaxed);
    pair.released.store(0, Relaxed);
    pair.state.store(pair.state.load(Relaxed) & UNTIMED, Relaxed);
}

impl<H: Host> Recorder<H> {
    /// Gives the calling thread a slot: a new one, or past the bound one of a thread that has ended.
    #[cold]
    #[inline(never)]
    pub(super) fn enter(&self, t: &PerThread) -> bool {
        if t.refused.get() {
            return false;
        }
        let Some(process) = self.process() else { return false };
        let number = process.threads.fetch_add(1, Relaxed);
        let slot = if number >= u64::from(self.thread_bound.load(Relaxed)) { self.take_over() } else { None };
        let Some(slot) = slot.or_else(|| self.new_slot(number as u32)).or_else(|| self.take_over()) else {
            t.refused.set(true);
            return false;
        };
        // SAFETY: the slot is this thread's alone now.
        let slot_ref = unsafe { &*slot.as_ptr() };
        // SAFETY: a slot's thread record lies in the mapping.
        let thread = unsafe { &*slot_ref.thread };
        let tid = self.host.tid();
        slot_ref.tid.store(tid, Relaxed);
        thread.tid.store(u64::from(tid), Relaxed);
        thread.started_ns.store(self.host.monotonic_ns(), Relaxed);
        // What it ran before its first acquisition does not count; the end is added when it comes.
        let running = self.host.running_ns();
        let (running, queued) = if running >= LOOKED_AT_NS || self.host.is_first(tid) {
            self.look_at(thread, tid)
        } else {
            (running, 0)
        };
        add(&thread.running_ns, running.wrapping_neg());
        add(&thread.queued_ns, queued.wrapping_neg());
        thread.ended_ns.store(0, Relaxed);
        slot_ref.closed.store(0, Ordering::Release);
        add(&thread.lives, 1);
        thread.head.store(head(Type::Thread, Thread::LENGTH), Ordering::Release);
        t.number.set(slot_ref.number % 0xffff + 1);
        t.random.set(H::stamp() << 16 ^ u64::from(tid) << 1 | 1);
        t.use_table(&slot_ref.table);
        t.slot.set(slot.as_ptr());
        self.numbered.set(&self.host, t.number.get(), slot);
        true
    }

    #[inline(never)]
    fn new_slot(&self, number: u32) -> Option<NonNull<ThreadPart>> {
        let block = self.arena.allocate(
            &self.host,
            Need::Essential,
            self.section_number(),
            0,
            4096 - UNIT as usize,
        )?;
        let thread = block.take(Thread::LENGTH)?.cast::<Thread>();
        let slot = NonNull::new(self.host.zeroed(SLOT_BYTES).cast::<ThreadPart>())?;
        // SAFETY: the record lies in the mapping.
        block.header().thread.store(self.arena.position_of(unsafe { &*thread }), Relaxed);
        // SAFETY: the page is long enough for the slot and its first table, which starts behind it.
        let table = unsafe { Table::over(slot.as_ptr().add(1).cast(), FIRST_TABLE) };
        // Made in its place: a copy would be half a kilobyte of a stack that may have two.
        let part = slot.as_ptr();
        // SAFETY: fresh zeros of the right size and alignment, which no other thread knows; zeros are valid in all other fields.
        let part = unsafe {
            (&raw mut (*part).thread).write(thread);
            (&raw mut (*part).block).write(block);
            (&raw mut (*part).table).write(table);
            (&raw mut (*part).number).write(number);
            (&raw mut (*part).closed).write(AtomicU32::new(1)); // until its thread has begun
            &mut *part
        };
        for mode in [Mode::Exclusive, Mode::Shared] {
            let pair = new_pair(&part.block, key_of(MERGED, mode))?;
            // SAFETY: the pair is in the mapping.
            unsafe { pair.as_ref() }.state.store(UNTIMED, Relaxed);
            part.table.put(key_of(MERGED, mode), pair.as_ptr());
        }
        let mut first = self.slots.load(Relaxed);
        loop {
            // SAFETY: no other thread knows the slot yet.
            unsafe { (*slot.as_ptr()).next = first };
            match self.slots.compare_exchange_weak(first, slot.as_ptr(), Ordering::AcqRel, Relaxed) {
                Ok(_) => return Some(slot),
                Err(now) => first = now,
            }
        }
    }

    /// The slot of a thread that is gone, whether it has said that it ends or not.
    #[inline(never)]
    fn take_over(&self) -> Option<NonNull<ThreadPart>> {
        /// Threads that have not said so which one search asks the kernel about.
        const ASKED_ABOUT: usize = 8;
        let mut asked = 0;
        let mut next = self.slots.load(Ordering::Acquire);
        while let Some(slot) = NonNull::new(next) {
            let part = slot.as_ptr();
            // SAFETY: these parts are never freed; `thread` and `next` are constant once it is in the list, and the others atomic.
            let (thread, ended, closed, tid, after) =
                unsafe { (&*(*part).thread, &(*part).ended, &(*part).closed, &(*part).tid, (*part).next) };
            next = after;
            let said = ended.load(Relaxed);
            if said > 1 || said == 0 && asked == ASKED_ABOUT {
                continue;
            }
            asked += usize::from(said == 0);
            if ended.compare_exchange(said, 2, Ordering::AcqRel, Relaxed).is_err() {
                continue;
            }
            // One that is not begun yet has the identifier of the thread before.
            let has_begun = said == 1 || closed.load(Ordering::Acquire) == 0;
            if has_begun && self.host.gone(tid.load(Relaxed)) {
                if closed.swap(1, Ordering::AcqRel) == 0 {
                    self.close_thread(thread, tid.load(Relaxed), false);
                }
                // SAFETY: `ended` says that this call alone uses the part.
                unsafe { slot.as_ref() }.table.pairs().for_each(end_hold);
                ended.store(0, Relaxed);
                return Some(slot);
            }
            // It runs, or runs its last destructors; and it may have said meanwhile that it ends.
            let _ = ended.compare_exchange(2, said, Ordering::Release, Relaxed);
        }
        None
    }

    /// The calling thread begins to wait for the end of another one. A thread that has touched no lock gets a record by this.
    #[cold]
    pub fn joins(&self, t: &PerThread, started: u64) {
        if t.slot.get().is_null() {
            let Some(process) = self.process() else { return };
            if self.without_reentry(t, || self.enter(t)) == Some(true) {
                process.only_joined.fetch_add(1, Relaxed);
                t.only_joined.set(true);
            }
        }
        if let Some(thread) = t.thread() {
            thread.joining_since.store(started, Relaxed);
        }
    }

    /// The join that began at `started` is over.
    #[cold]
    pub fn joined(&self, t: &PerThread, started: u64) {
        if let Some(thread) = t.thread() {
            thread.joining_since.store(0, Relaxed);
            add(&thread.join_ticks, H::stamp().saturating_sub(started));
        }
    }

    /// The thread touches its first lock, or the first one since it got a record for its joins.
    pub(super) fn touches_a_lock(&self, t: &PerThread) {
        if t.only_joined.replace(false)
            && let Some(process) = self.process()
        {
            process.only_joined.fetch_sub(1, Relaxed);
        }
    }

    /// The calling thread is about to end. What it does after this is still counted.
    #[cold]
    pub fn thread_ends(&self, t: &PerThread) {
        let Some(slot) = NonNull::new(t.slot.get()) else { return };
        // SAFETY: the thread's own slot; its record lies in the mapping.
        let (thread, slot) = unsafe { (&*(*slot.as_ptr()).thread, slot.as_ref()) };
        // A cancelled wait or join.
        thread.waiting_since.store(0, Relaxed);
        thread.joining_since.store(0, Relaxed);
        thread.lock_waited_since.store(0, Relaxed);
        if slot.closed.swap(1, Ordering::AcqRel) == 0 {
            self.host.with_signals_blocked(|| self.close_thread(thread, slot.tid.load(Relaxed), true));
        }
        slot.ended.store(1, Ordering::Release);
    }

    /// What is told of a thread in `/proc`: its time on a core and on a run queue. Its name is noted.
    #[inline(never)]
    fn look_at(&self, thread: &Thread, tid: u32) -> (u64, u64) {
        let name = self.host.name(tid);
        let half = |i: usize| u64::from_le_bytes(core::array::from_fn(|k| name[i * 8 + k]));
        thread.name_0.store(half(0), Relaxed);
        thread.name_1.store(half(1), Relaxed);
        self.host.schedule(tid).unwrap_or((0, 0))
    }

    /// `own` says that it is the caller's. Of one that has ended without saying so, as those that the C library starts for timers do,
    /// no times are known: this life of it is left out.
    #[inline(never)]
    fn close_thread(&self, thread: &Thread, tid: u32, own: bool) {
        let now = self.host.monotonic_ns();
        if !own && self.host.gone(tid) {
            return self.add_times(thread, now, [0; 3]);
        }
        let age = now.saturating_sub(thread.started_ns.load(Relaxed));
        // One that had run for long before its first acquisition was looked at then: so is its end.
        let ran = if own && age < LOOKED_AT_NS && !self.host.is_first(tid) {
            Some(self.host.running_ns()).filter(|&ran| ran < LOOKED_AT_NS)
        } else {
            None
        };
        let (running, queued) = ran.map_or_else(|| self.look_at(thread, tid), |ran| (ran, 0));
        self.add_times(thread, now, [age, running, queued]);
    }

    fn add_times(&self, thread: &Thread, now: u64, [age, running, queued]: [u64; 3]) {
        add(&thread.running_ns, running);
        add(&thread.queued_ns, queued);
        // Where `/proc` could be read at the beginning and cannot be now.
        for time in [&thread.running_ns, &thread.queued_ns] {
            if time.load(Relaxed).cast_signed() < 0 {
                time.store(0, Relaxed);
            }
        }
        add(&thread.age_ns, age);
        thread.ended_ns.store(now, Relaxed);
    }

    /// The process is about to exit: stamps the ends of the threads that still live, and of the section.
    #[cold]
    pub fn process_ends(&self) {
        let Some(process) = self.process() else { return };
        self.host.with_signals_blocked(|| self.close_threads());
        process.clock_last_ns.store(self.host.monotonic_ns(), Relaxed);
        process.clock_last_ticks.store(H::stamp(), Relaxed);
    }

    #[inline(never)]
    fn close_threads(&self) {
        let mut next = self.slots.load(Ordering::Acquire);
        while let Some(slot) = NonNull::new(next) {
            let part = slot.as_ptr();
            // SAFETY: these parts are never freed; two of these are constant, and the others are atomic.
            let (thread, tid, closed, after) =
                unsafe { (&*(*part).thread, &(*part).tid, &(*part).closed, (*part).next) };
            next = after;
            if closed.swap(1, Ordering::AcqRel) == 0 {
                self.close_thread(thread, tid.load(Relaxed), false);
            }
        }
    }
}
