//! Recording: what happens to the counters at an acquisition and a release.
//!
//! Every pair of a thread and a lock has a [`Pair`] record in the file's mapping, which that thread alone writes, with
//! plain loads and stores. A thread finds its record in a table of its own by the lock's number, which the lock carries
//! in its [`Trace`]. On the way of an uncontended acquisition there is no lock, no allocation, no shared write but the
//! trace that the next holder needs, and one time stamp, or none when the pair is not among the sampled ones.
//!
//! | word of a pair | meaning while it is live |
//! |----------------|--------------------------|
//! | `hold_started` | stamp of the present acquisition, 0 when it is not timed |
//! | `released`     | stamp of the last timed release, 0 once the think time that it starts is taken |
//! | `state`        | bit 0: the last holder was on another core; bit 1: never timed; from bit 8: read holds |
//!
//! A sampled pair is timed from its acquisition over its release to the next acquisition, so hold and think times have
//! the same rate. Waits are always timed: a thread that waits has time for a stamp.
//!
//! Past the bounds (of the file, or of lock records) nothing is lost but detail: a thread gives up its coldest of a few
//! records, adding its counts to the thread's row of merged locks.

use core::cell::Cell;
use core::mem::offset_of;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

use crate::arena::{Arena, Block, Grow, Need};
use crate::format::{
    FRAMES, Header, Histograms, LOCK_LENGTH, Lock, NOTE_SHIFT, NOTED, Pair, Process, ProcessValues, Quantity,
    Refusal, Thread, Type, UNIT, head,
};
use crate::histogram::bucket;

/// The number of all locks that have no record of their own.
pub const MERGED: u32 = u32::MAX;

/// What kind of object a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Kind {
    /// A mutex.
    Mutex = 1,
    /// A spin lock.
    Spin = 2,
    /// A reader-writer lock.
    Rwlock = 3,
}

/// How a lock is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Mode {
    /// Alone: mutexes, spin locks, writers.
    Exclusive = 0,
    /// With others: readers.
    Shared = 1,
}

/// How a condition wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Woken, on purpose or not, or cancelled.
    Woken,
    /// The time was up.
    TimedOut,
}

/// What the next holder must know of the last one. It lies in the lock's own object; zeros are a lock never seen.
///
/// Written by holders only. Readers that release at the same moment overwrite each other, which is harmless: any of
/// them was the last.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Trace {
    /// Number of the lock (32 bits), number of the last holder's thread (16), its core at the release (16).
    place: AtomicU64,
    /// Stamp of the last release, 0 if it was not timed.
    released: AtomicU64,
}

impl Trace {
    /// The trace of a lock never seen.
    pub const fn new() -> Self {
        Self { place: AtomicU64::new(0), released: AtomicU64::new(0) }
    }

    /// The lock's number, 0 if it was never acquired.
    #[inline]
    pub fn lock(&self) -> u32 {
        self.place.load(Relaxed) as u32
    }
}

/// What the recorder asks of the world around it.
pub trait Host: Grow {
    /// The time in ticks: a plain read of the cycle counter.
    fn stamp() -> u64;
    /// The core that the caller runs on.
    fn core() -> u32;
    /// `CLOCK_MONOTONIC`, ns.
    fn monotonic_ns(&self) -> u64;
    /// Private zeroed memory, page-aligned; null if there is none.
    fn zeroed(&self, bytes: usize) -> *mut u8;
    /// Gives back what [`Host::zeroed`] returned.
    ///
    /// # Safety
    /// `start` and `bytes` are those of an earlier call, and the memory is not used any more.
    unsafe fn give_back(&self, start: *mut u8, bytes: usize);
    /// Writes the caller's stack, innermost first, without the recorder's own frames; returns how many there are.
    fn stack(&self, frames: &mut [u64; FRAMES]) -> usize;
    /// The calling thread's identifier and name.
    fn identity(&self) -> (u32, [u8; 16]);
    /// Time on a core and time on a run queue of a thread of this process, ns; `None` if it cannot be told.
    fn schedule(&self, tid: u32) -> Option<(u64, u64)>;
    /// Whether a thread of this process has ended for good.
    fn gone(&self, tid: u32) -> bool;
}

/// What a thread keeps for recording: a part of the thread's own storage. Zeros are a thread never seen.
#[repr(C)]
#[derive(Debug)]
pub struct PerThread {
    table: Cell<*mut Entry>,
    mask: Cell<usize>,
    /// Number of the thread's slot in its process, modulo 65536 and never 0.
    number: Cell<u32>,
    /// Pairs until the next sampled one.
    skip: Cell<u32>,
    random: Cell<u64>,
    slot: Cell<*mut Slot>,
    /// Set while a slow path runs, so that locks taken by what it calls are left alone.
    busy: Cell<bool>,
    /// Set when the thread could get no room at all: what it does is counted as dropped.
    refused: Cell<bool>,
}

/// A line of a thread's table: the key of a pair, and the pair. Key 0 is an empty line.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    pair: *const Pair,
}

/// A thread's part that outlives it, in private memory that is never given back.
#[repr(C)]
#[derive(Debug)]
struct Slot {
    next: *mut Slot,
    thread: *const Thread,
    block: Block,
    table: *mut Entry,
    table_length: usize,
    used: usize,
    number: u32,
    /// Where the search for a cold record goes on.
    hand: usize,
    /// 0 while the thread lives, 1 when it has said that it ends, 2 while another thread takes the slot over.
    ended: AtomicU32,
}

/// Lines of a thread's first table, which lies in the same page as its slot.
const FIRST_TABLE: usize = 128;
/// Memory of a slot with its first table, bytes.
const SLOT_BYTES: usize = 4096;
/// Acquisitions after which a pair is considered for histograms, and again each time that it has done as many.
const WARM: u64 = 256;
/// Records that are looked at for the coldest.
const CANDIDATES: usize = 16;
/// Bytes of a block of lock records.
const LOCK_BLOCK: usize = 16 << 10;
/// Bytes of a thread's second and later blocks.
const PAIR_BLOCK: usize = 16 << 10;
/// Locks remembered by address, for call sites that make one lock after another at the same place.
const REMEMBERED: usize = 4096;

const MOVED: u64 = 1;
const UNTIMED: u64 = 2;
const READ_HOLD: u64 = 1 << 8;

const _: () = assert!(size_of::<Slot>() + FIRST_TABLE * size_of::<Entry>() <= SLOT_BYTES);
const _: () = assert!(size_of::<Trace>() == 16);

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
        }
    }

    #[inline]
    fn find(&self, key: u64) -> Option<&Pair> {
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
    fn draw(&self, period: u32) -> bool {
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

#[inline]
fn home(key: u64) -> usize {
    (key >> 1) as usize
}

#[inline]
fn key_of(lock: u32, mode: Mode) -> u64 {
    u64::from(lock) << 1 | mode as u64
}

#[inline]
fn add(word: &AtomicU64, amount: u64) {
    word.store(word.load(Relaxed).wrapping_add(amount), Relaxed); // a single writer: no read-modify-write
}

/// What a process is, as far as its recorder cannot find out by itself.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// First record of the section; its `head` is filled in.
    pub process: ProcessValues,
    /// Arguments, each ended by a zero.
    pub arguments: &'a [u8],
    /// Path of the program.
    pub executable: &'a [u8],
}

/// The recorder of a process.
#[derive(Debug)]
pub struct Recorder<H> {
    host: H,
    arena: Arena,
    section: AtomicPtr<Process>,
    period: AtomicU32,
    /// More thread records than this are not made while there are ended threads' to take over.
    thread_bound: AtomicU32,
    slots: AtomicPtr<Slot>,
    locks: AtomicPtr<u8>,
    remembered: [AtomicU32; REMEMBERED],
}

impl<H: Host> Recorder<H> {
    /// A recorder without a file: every call is a waste of time, but none is wrong.
    pub const fn new(host: H) -> Self {
        Self {
            host,
            arena: Arena::new(),
            section: AtomicPtr::new(null_mut()),
            period: AtomicU32::new(1),
            thread_bound: AtomicU32::new(512),
            slots: AtomicPtr::new(null_mut()),
            locks: AtomicPtr::new(null_mut()),
            remembered: [const { AtomicU32::new(0) }; REMEMBERED],
        }
    }

    /// Starts a section of the file whose mapping starts at `base`.
    ///
    /// False, and the recorder stays without a file, if the file has no room for a section.
    ///
    /// # Safety
    /// `base` is as [`Arena::attach`] wants it. No other thread uses the recorder.
    pub unsafe fn start(&self, base: *mut u8, image: &Image<'_>) -> bool {
        // SAFETY: the caller promises it.
        unsafe { self.arena.attach(base) };
        let started = self.open_section(image);
        if !started {
            // SAFETY: null is always right.
            unsafe { self.arena.attach(null_mut()) };
        }
        started
    }

    /// Starts a section in a forked child: the parent's records are left alone from here on.
    ///
    /// False, and the recorder is left without a file, if there is no room for a section.
    ///
    /// # Safety
    /// The caller is the only thread, `t` is its storage, and the mapping was inherited from the parent.
    pub unsafe fn start_in_child(&self, t: &PerThread, image: &Image<'_>) -> bool {
        forget_thread(t);
        self.slots.store(null_mut(), Relaxed); // the parent's; the memory stays, nobody else refers to it
        self.locks.store(null_mut(), Relaxed);
        for lock in &self.remembered {
            lock.store(0, Relaxed);
        }
        let parent = self.section_number();
        let mut image = *image;
        image.process.parent_section = parent;
        let started = self.open_section(&image);
        if !started {
            // SAFETY: null is always right.
            unsafe { self.arena.attach(null_mut()) };
        }
        started
    }

    fn open_section(&self, image: &Image<'_>) -> bool {
        self.section.store(null_mut(), Relaxed);
        let Some(header) = self.arena.header() else { return false };
        self.period.store(header.sample_period.load(Relaxed).clamp(1, 1 << 30) as u32, Relaxed);
        let texts = image.arguments.len() + image.executable.len() + 64;
        let Some(block) = self.arena.allocate(&self.host, Need::Essential, 0, 0, Process::LENGTH + texts)
        else {
            return false;
        };
        let section = self.arena.position_of(block.header());
        block.header().section.store(section, Relaxed);
        let Some(start) = block.take(Process::LENGTH) else { return false };
        // SAFETY: `take` gave the room, 8-aligned, and the mapping stays.
        let process = unsafe { &*start.cast::<Process>() };
        process.store(&ProcessValues { head: head(Type::Process, Process::LENGTH), ..image.process });
        block.push_bytes(Type::Arguments, &[image.arguments]);
        block.push_bytes(Type::Executable, &[image.executable]);
        self.section.store(core::ptr::from_ref(process).cast_mut(), Ordering::Release);
        true
    }

    /// The section's first record, if recording has started.
    pub fn process(&self) -> Option<&Process> {
        // SAFETY: null or a record in the mapping, which stays; its words are atomic.
        unsafe { self.section.load(Ordering::Acquire).as_ref() }
    }

    /// The head of the file, if there is one.
    pub fn header(&self) -> Option<&Header> {
        self.arena.header()
    }

    /// The world around.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Whether there is a file to record to.
    #[inline]
    pub fn enabled(&self) -> bool {
        self.arena.attached()
    }

    /// Sets how many thread records a process gets before those of ended threads are taken over.
    pub fn bound_threads(&self, threads: u32) {
        self.thread_bound.store(threads.max(1), Relaxed);
    }

    fn section_number(&self) -> u64 {
        // The process record follows its block's header.
        self.process().map_or(0, |process| self.arena.position_of(process) - 1)
    }

    /// Appends a record of bytes to the section. False if there is no room.
    pub fn append(&self, what: Type, parts: &[&[u8]]) -> bool {
        let length = 8 + parts.iter().map(|part| part.len()).sum::<usize>();
        match self.arena.allocate(&self.host, Need::Detail, self.section_number(), 0, length) {
            Some(block) => block.push_bytes(what, parts),
            None => false,
        }
    }

    /// A lock was acquired. `wait_started` is the stamp at which the caller began to wait, if it had to.
    #[inline]
    pub fn acquired(
        &self,
        t: &PerThread,
        trace: &Trace,
        what: Kind,
        mode: Mode,
        address: usize,
        wait_started: Option<u64>,
    ) {
        let place = trace.place.load(Relaxed);
        let Some(pair) = t.find(key_of(place as u32, mode)) else {
            return self.acquired_first(t, trace, what, mode, address, wait_started);
        };
        self.count_acquisition(t, trace, pair, mode, wait_started);
    }

    #[inline]
    fn count_acquisition(
        &self,
        t: &PerThread,
        trace: &Trace,
        pair: &Pair,
        mode: Mode,
        wait_started: Option<u64>,
    ) {
        let acquisitions = pair.acquisitions.load(Relaxed).wrapping_add(1);
        pair.acquisitions.store(acquisitions, Relaxed);
        if acquisitions.is_multiple_of(WARM) {
            self.warm_up(pair, acquisitions);
        }
        self.begin(t, trace, pair, mode, wait_started);
    }

    #[cold]
    #[inline(never)]
    fn acquired_first(
        &self,
        t: &PerThread,
        trace: &Trace,
        what: Kind,
        mode: Mode,
        address: usize,
        wait_started: Option<u64>,
    ) {
        match self.pair(t, trace, what, mode, address) {
            Some(pair) => self.count_acquisition(t, trace, pair, mode, wait_started),
            None => self.drop_event(),
        }
    }

    /// A mutex that the thread holds already was acquired once more.
    #[inline]
    pub fn acquired_again(&self, t: &PerThread, trace: &Trace) {
        if let Some(pair) = t.find(key_of(trace.lock(), Mode::Exclusive)) {
            add(&pair.acquisitions, 1);
            add(&pair.nested, 1);
        }
    }

    #[inline]
    fn begin(&self, t: &PerThread, trace: &Trace, pair: &Pair, mode: Mode, wait_started: Option<u64>) {
        if mode == Mode::Shared {
            let state = pair.state.load(Relaxed);
            pair.state.store(state.wrapping_add(READ_HOLD), Relaxed);
            if state >= READ_HOLD {
                return add(&pair.nested, 1);
            }
        }
        let place = trace.place.load(Relaxed);
        let owner = (place >> 32) as u16;
        add(&pair.owner_changes, u64::from((owner != 0) & (owner != t.number.get() as u16)));
        let drawn = t.draw(self.period.load(Relaxed));
        let released = pair.released.load(Relaxed);
        if !drawn && released == 0 && wait_started.is_none() {
            return pair.hold_started.store(0, Relaxed);
        }
        self.begin_timed(trace, pair, drawn, place, released, wait_started);
    }

    #[inline]
    fn begin_timed(
        &self,
        trace: &Trace,
        pair: &Pair,
        drawn: bool,
        place: u64,
        released: u64,
        wait_started: Option<u64>,
    ) {
        let now = H::stamp();
        if let Some(started) = wait_started {
            self.waited(trace, pair, started, now);
        }
        let state = pair.state.load(Relaxed);
        if state & UNTIMED != 0 {
            return;
        }
        if released != 0 {
            pair.released.store(0, Relaxed);
            self.measured(
                pair,
                Quantity::Think,
                &pair.think_count,
                &pair.think_ticks,
                now.saturating_sub(released),
            );
        }
        let moved = u64::from((place >> 48) as u32 != H::core());
        pair.state.store(state & !MOVED | moved, Relaxed);
        pair.hold_started.store(if drawn { now } else { 0 }, Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn waited(&self, trace: &Trace, pair: &Pair, started: u64, now: u64) {
        self.measured(pair, Quantity::Wait, &pair.contended, &pair.wait_ticks, now.saturating_sub(started));
        let released = trace.released.load(Relaxed);
        // A release from before the wait was no hand-over to this thread.
        if released >= started && pair.state.load(Relaxed) & UNTIMED == 0 {
            let ticks = now.saturating_sub(released);
            self.measured(pair, Quantity::Handover, &pair.handover_count, &pair.handover_ticks, ticks);
        }
        if pair.contended.load(Relaxed) == WARM / 8 {
            self.warm_up(pair, WARM);
        }
    }

    #[inline]
    fn measured(&self, pair: &Pair, quantity: Quantity, count: &AtomicU64, sum: &AtomicU64, ticks: u64) {
        add(count, 1);
        add(sum, ticks);
        let histograms = pair.histograms.load(Relaxed);
        if histograms != 0 {
            let start = self.arena.base().wrapping_add((histograms.wrapping_mul(UNIT)) as usize);
            // SAFETY: a pair's position of histograms is that of a record which was given to it alone.
            let histograms = unsafe { &*start.cast::<Histograms>() };
            note(histograms, quantity, ticks);
        }
    }

    /// The holder is about to release.
    #[inline]
    pub fn releasing(&self, t: &PerThread, trace: &Trace, mode: Mode) {
        let lock = trace.lock();
        let Some(pair) = t.find(key_of(lock, mode)) else { return };
        let state = pair.state.load(Relaxed);
        if mode == Mode::Shared {
            if state < READ_HOLD {
                return; // acquired by another thread
            }
            pair.state.store(state - READ_HOLD, Relaxed);
            if state >= 2 * READ_HOLD {
                return;
            }
        }
        let place =
            u64::from(lock) | u64::from(t.number.get() as u16) << 32 | u64::from(H::core() as u16) << 48;
        trace.place.store(place, Relaxed);
        let started = pair.hold_started.load(Relaxed);
        if started == 0 {
            return trace.released.store(0, Relaxed);
        }
        let now = H::stamp();
        let ticks = now.saturating_sub(started);
        if state & MOVED == 0 {
            self.measured(pair, Quantity::HoldSame, &pair.hold_same_count, &pair.hold_same_ticks, ticks);
        } else {
            self.measured(pair, Quantity::HoldOther, &pair.hold_other_count, &pair.hold_other_ticks, ticks);
        }
        pair.hold_started.store(0, Relaxed);
        pair.released.store(now, Relaxed);
        trace.released.store(now, Relaxed);
    }

    /// A try call found the lock held.
    #[inline]
    pub fn try_failed(&self, t: &PerThread, trace: &Trace, what: Kind, mode: Mode, address: usize) {
        match self.pair(t, trace, what, mode, address) {
            Some(pair) => add(&pair.try_failures, 1),
            None => self.drop_event(),
        }
    }

    /// A timed call gave up.
    #[cold]
    pub fn timed_out(&self, t: &PerThread, trace: &Trace, what: Kind, mode: Mode, address: usize) {
        match self.pair(t, trace, what, mode, address) {
            Some(pair) => add(&pair.timeouts, 1),
            None => self.drop_event(),
        }
    }

    /// A condition wait that began at `started` is over and the mutex is back, for which the caller had to wait from
    /// `relock_started` if that is given. The mutex's release before the wait was told to [`Recorder::releasing`].
    #[cold]
    pub fn cond_waited(
        &self,
        t: &PerThread,
        trace: &Trace,
        address: usize,
        started: u64,
        relock_started: Option<u64>,
        outcome: Outcome,
    ) {
        let Some(pair) = self.pair(t, trace, Kind::Mutex, Mode::Exclusive, address) else {
            return self.drop_event();
        };
        pair.released.store(0, Relaxed); // the time in the wait is not think time
        self.begin(t, trace, pair, Mode::Exclusive, relock_started);
        add(&pair.condition_waits, 1);
        add(&pair.condition_ticks, H::stamp().saturating_sub(started));
        if outcome == Outcome::TimedOut {
            add(&pair.condition_timeouts, 1);
        }
    }

    /// A lock is gone: whatever comes to its address is another one.
    #[cold]
    pub fn destroyed(&self, trace: &Trace) {
        let number = trace.lock();
        if let Some(lock) = self.lock(number) {
            lock.destroyed_ticks.store(H::stamp(), Relaxed);
        }
        trace.place.store(0, Relaxed);
        trace.released.store(0, Relaxed);
    }

    /// An object was left to the C library.
    #[cold]
    pub fn untouched(&self, reason: Refusal) {
        if let Some(process) = self.process() {
            process.untouched(reason).fetch_add(1, Relaxed);
        }
    }

    #[cold]
    fn drop_event(&self) {
        if let Some(header) = self.arena.header() {
            header.dropped.fetch_add(1, Relaxed);
        }
    }

    fn lock(&self, number: u32) -> Option<&Lock> {
        if number == 0 || number == MERGED || !self.enabled() {
            return None;
        }
        // SAFETY: a number other than these is the position of a lock record in the mapping, which stays.
        Some(unsafe { &*self.arena.base().add(number as usize * UNIT as usize).cast::<Lock>() })
    }

    /// The caller's pair with a lock, made if need be; `None` when it cannot have one.
    fn pair<'t>(
        &self,
        t: &'t PerThread,
        trace: &Trace,
        what: Kind,
        mode: Mode,
        address: usize,
    ) -> Option<&'t Pair> {
        if let Some(pair) = t.find(key_of(trace.lock(), mode)) {
            return Some(pair);
        }
        if t.busy.replace(true) {
            return None;
        }
        let pair = self.make_pair(t, trace, what, mode, address);
        t.busy.set(false);
        // SAFETY: pairs lie in the mapping, which stays.
        pair.map(|pair| unsafe { &*pair.as_ptr() })
    }

    #[cold]
    fn make_pair(
        &self,
        t: &PerThread,
        trace: &Trace,
        what: Kind,
        mode: Mode,
        address: usize,
    ) -> Option<NonNull<Pair>> {
        if t.slot.get().is_null() && !self.enter(t) {
            return None;
        }
        let mut lock = trace.lock();
        if lock == 0 {
            lock = self.register(t, trace, what, address);
        }
        if let Some(pair) = t.find(key_of(lock, mode)) {
            return Some(pair.into()); // merged locks share a pair
        }
        self.insert(t, key_of(lock, mode)).or_else(|| t.find(key_of(MERGED, mode)).map(NonNull::from))
    }

    // Locks.

    fn register(&self, t: &PerThread, trace: &Trace, what: Kind, address: usize) -> u32 {
        let mut frames = [0; FRAMES];
        let depth = self.host.stack(&mut frames).min(FRAMES);
        let number = self.lock_again(what, address, &frames[..depth]).unwrap_or_else(|| {
            self.new_lock(t, what, address, &frames[..depth]).unwrap_or_else(|| {
                if let Some(process) = self.process() {
                    process.merged_locks.fetch_add(1, Relaxed);
                }
                MERGED
            })
        });
        // Readers may come here at the same time; the first number stays.
        match trace.place.compare_exchange(0, u64::from(number), Relaxed, Relaxed) {
            Ok(_) => number,
            Err(place) => place as u32,
        }
    }

    /// The lock of the same kind that the same call path first touched at the same address before, as a new generation.
    fn lock_again(&self, what: Kind, address: usize, frames: &[u64]) -> Option<u32> {
        let number = self.remembered[remembered(address)].load(Relaxed);
        let lock = self.lock(number)?;
        let kind = lock.kind.load(Relaxed);
        let same = lock.address.load(Relaxed) == address as u64
            && kind as u32 == what as u32
            && lock.frames.load(Relaxed) == frames.len() as u64
            && (0..).zip(frames).all(|(i, &frame)| frame_of(lock, i).load(Relaxed) == frame);
        if !same {
            return None;
        }
        lock.kind.store(kind.wrapping_add(1 << 32), Relaxed);
        lock.destroyed_ticks.store(0, Relaxed);
        Some(number)
    }

    fn new_lock(&self, t: &PerThread, what: Kind, address: usize, frames: &[u64]) -> Option<u32> {
        let header = self.arena.header()?;
        // Lock records get a quarter of the file at most: without pairs they say nothing.
        if header.lock_bytes.load(Relaxed) > header.limit.load(Relaxed) / 4 {
            return None;
        }
        let start = self.room_for_lock()?;
        header.lock_bytes.fetch_add(LOCK_LENGTH as u64, Relaxed);
        // SAFETY: the room is this call's alone, long enough and aligned, in the mapping.
        let lock = unsafe { &*start.cast::<Lock>() };
        lock.address.store(address as u64, Relaxed);
        lock.kind.store(what as u64, Relaxed);
        lock.first_ticks.store(H::stamp(), Relaxed);
        // SAFETY: the thread has a slot, and its record lies in the mapping.
        lock.thread.store(self.arena.position_of(unsafe { &*(*t.slot.get()).thread }), Relaxed);
        lock.frames.store(frames.len() as u64, Relaxed);
        for (i, &frame) in frames.iter().enumerate() {
            frame_of(lock, i).store(frame, Relaxed);
        }
        lock.head.store(head(Type::Lock, LOCK_LENGTH), Ordering::Release);
        let number = u32::try_from(self.arena.position_of(lock)).ok().filter(|&number| number != MERGED)?;
        self.remembered[remembered(address)].store(number, Relaxed);
        Some(number)
    }

    fn room_for_lock(&self) -> Option<*mut u8> {
        loop {
            let current = self.locks.load(Ordering::Acquire);
            if !current.is_null() {
                // SAFETY: it was the start of a block, and the mapping stays.
                if let Some(room) = unsafe { Block::from_start(current) }.take(LOCK_LENGTH) {
                    return Some(room);
                }
            }
            let block = self.arena.allocate(
                &self.host,
                Need::Detail,
                self.section_number(),
                0,
                LOCK_BLOCK - UNIT as usize,
            )?;
            // If another thread was faster this block stays empty, which a reader does not mind.
            let _ = self.locks.compare_exchange(current, block.start(), Ordering::AcqRel, Relaxed);
        }
    }

    // Threads.

    /// Gives the calling thread a slot: a new one, or past the bound one of a thread that has ended.
    fn enter(&self, t: &PerThread) -> bool {
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
        let (tid, name) = self.host.identity();
        thread.tid.store(u64::from(tid), Relaxed);
        thread.number.store(u64::from(slot_ref.number), Relaxed);
        thread.started_ns.store(self.host.monotonic_ns(), Relaxed);
        // What it ran before its first acquisition does not count; the end is added when it comes.
        let (running, queued) = self.host.schedule(tid).unwrap_or((0, 0));
        add(&thread.running_ns, running.wrapping_neg());
        add(&thread.queued_ns, queued.wrapping_neg());
        thread.ended_ns.store(0, Relaxed);
        let half = |i: usize| u64::from_le_bytes(core::array::from_fn(|k| name[i * 8 + k]));
        thread.name_0.store(half(0), Relaxed);
        thread.name_1.store(half(1), Relaxed);
        add(&thread.lives, 1);
        thread.head.store(head(Type::Thread, Thread::LENGTH), Ordering::Release);
        t.number.set(slot_ref.number % 0xffff + 1);
        t.random.set(H::stamp() << 16 ^ u64::from(tid) << 1 | 1);
        t.mask.set(slot_ref.table_length - 1);
        t.table.set(slot_ref.table);
        t.slot.set(slot.as_ptr());
        true
    }

    fn new_slot(&self, number: u32) -> Option<NonNull<Slot>> {
        let block = self.arena.allocate(
            &self.host,
            Need::Essential,
            self.section_number(),
            0,
            4096 - UNIT as usize,
        )?;
        let thread = block.take(Thread::LENGTH)?.cast::<Thread>();
        let slot = NonNull::new(self.host.zeroed(SLOT_BYTES).cast::<Slot>())?;
        // SAFETY: the record lies in the mapping.
        block.header().thread.store(self.arena.position_of(unsafe { &*thread }), Relaxed);
        // SAFETY: the page is long enough for the slot and its first table, which starts behind it.
        let table = unsafe { slot.as_ptr().add(1) }.cast::<Entry>();
        let mut value = Slot {
            next: null_mut(),
            thread,
            block,
            table,
            table_length: FIRST_TABLE,
            used: 0,
            number,
            hand: 0,
            ended: AtomicU32::new(0),
        };
        for mode in [Mode::Exclusive, Mode::Shared] {
            let pair = new_pair(&block, key_of(MERGED, mode))?;
            // SAFETY: the pair is in the mapping.
            unsafe { pair.as_ref() }.state.store(UNTIMED, Relaxed);
            put(&mut value, key_of(MERGED, mode), pair.as_ptr());
        }
        // SAFETY: fresh memory of the right size and alignment.
        unsafe { slot.write(value) };
        let mut first = self.slots.load(Relaxed);
        loop {
            // SAFETY: nobody else knows the slot yet.
            unsafe { (*slot.as_ptr()).next = first };
            match self.slots.compare_exchange_weak(first, slot.as_ptr(), Ordering::AcqRel, Relaxed) {
                Ok(_) => return Some(slot),
                Err(now) => first = now,
            }
        }
    }

    /// The slot of a thread that is gone.
    fn take_over(&self) -> Option<NonNull<Slot>> {
        let mut next = self.slots.load(Ordering::Acquire);
        while let Some(slot) = NonNull::new(next) {
            // SAFETY: slots are never given back; `ended` is atomic and `next` constant once it is in the list.
            let (ended, after) = unsafe { (&(*slot.as_ptr()).ended, (*slot.as_ptr()).next) };
            next = after;
            if ended.compare_exchange(1, 2, Ordering::AcqRel, Relaxed).is_err() {
                continue;
            }
            // SAFETY: the slot is claimed, and its thread record lies in the mapping.
            let tid = unsafe { (*(*slot.as_ptr()).thread).tid.load(Relaxed) };
            if self.host.gone(tid as u32) {
                ended.store(0, Relaxed);
                return Some(slot);
            }
            ended.store(1, Ordering::Release); // it still runs its last destructors
        }
        None
    }

    /// The calling thread is about to end. What it does after this is still counted.
    #[cold]
    pub fn thread_ends(&self, t: &PerThread) {
        let Some(slot) = NonNull::new(t.slot.get()) else { return };
        // SAFETY: the thread's own slot; its record lies in the mapping.
        let (thread, ended) = unsafe { (&*(*slot.as_ptr()).thread, &(*slot.as_ptr()).ended) };
        if thread.ended_ns.load(Relaxed) == 0 {
            self.close_thread(thread);
        }
        ended.store(1, Ordering::Release);
    }

    fn close_thread(&self, thread: &Thread) {
        let now = self.host.monotonic_ns();
        let (running, queued) = self.host.schedule(thread.tid.load(Relaxed) as u32).unwrap_or((0, 0));
        add(&thread.running_ns, running);
        add(&thread.queued_ns, queued);
        add(&thread.age_ns, now.saturating_sub(thread.started_ns.load(Relaxed)));
        thread.ended_ns.store(now, Relaxed);
    }

    /// The process is about to exit: stamps the ends of the threads that still live, and of the section.
    #[cold]
    pub fn process_ends(&self) {
        let Some(process) = self.process() else { return };
        let mut next = self.slots.load(Ordering::Acquire);
        while let Some(slot) = NonNull::new(next) {
            // SAFETY: slots are never given back; these two are constant, and `ended` is atomic.
            let (thread, after) = unsafe { (&*(*slot.as_ptr()).thread, (*slot.as_ptr()).next) };
            next = after;
            if thread.ended_ns.load(Relaxed) == 0 {
                self.close_thread(thread);
            }
        }
        process.clock_last_ns.store(self.host.monotonic_ns(), Relaxed);
        process.clock_last_ticks.store(H::stamp(), Relaxed);
    }

    // Pairs.

    fn insert(&self, t: &PerThread, key: u64) -> Option<NonNull<Pair>> {
        // SAFETY: the thread's own slot.
        let slot = unsafe { &mut *t.slot.get() };
        if (slot.used + 1) * 4 > slot.table_length * 3 && !self.grow_table(t, slot) {
            return self.reuse_coldest(slot, key);
        }
        let Some(pair) = self.room_for_pair(slot, key) else { return self.reuse_coldest(slot, key) };
        put(slot, key, pair.as_ptr());
        Some(pair)
    }

    fn room_for_pair(&self, slot: &mut Slot, key: u64) -> Option<NonNull<Pair>> {
        if let Some(pair) = new_pair(&slot.block, key) {
            return Some(pair);
        }
        // SAFETY: the slot's record lies in the mapping.
        let thread = self.arena.position_of(unsafe { &*slot.thread });
        slot.block = self.arena.allocate(
            &self.host,
            Need::Detail,
            self.section_number(),
            thread,
            PAIR_BLOCK - UNIT as usize,
        )?;
        new_pair(&slot.block, key)
    }

    fn grow_table(&self, t: &PerThread, slot: &mut Slot) -> bool {
        let length = slot.table_length * 2;
        let (old, old_length) = (slot.table, slot.table_length);
        let table = self.host.zeroed(length * size_of::<Entry>()).cast::<Entry>();
        if table.is_null() {
            return false;
        }
        (slot.table, slot.table_length, slot.used) = (table, length, 0);
        for i in 0..old_length {
            // SAFETY: the old table has this many lines.
            let entry = unsafe { *old.add(i) };
            if entry.key != 0 {
                put(slot, entry.key, entry.pair);
            }
        }
        t.mask.set(length - 1);
        t.table.set(table);
        if old_length != FIRST_TABLE {
            // SAFETY: it came from `zeroed`, and the new table has replaced it.
            unsafe { self.host.give_back(old.cast(), old_length * size_of::<Entry>()) };
        }
        true
    }

    /// Past the bound: adds one of the thread's coldest records to its row of merged locks and uses it for `key`.
    fn reuse_coldest(&self, slot: &mut Slot, key: u64) -> Option<NonNull<Pair>> {
        let mut coldest: Option<(u64, NonNull<Pair>, u64)> = None;
        let mut seen = 0;
        for _ in 0..slot.table_length {
            slot.hand = (slot.hand + 1) % slot.table_length;
            // SAFETY: the table has this many lines.
            let entry = unsafe { *slot.table.add(slot.hand) };
            let Some(pair) = NonNull::new(entry.pair.cast_mut()) else { continue };
            // SAFETY: pairs lie in the mapping.
            let values = unsafe { pair.as_ref() }.values();
            if entry.key >> 1 == u64::from(MERGED) || values.hold_started != 0 || values.state >= READ_HOLD {
                continue;
            }
            if coldest.is_none_or(|(acquisitions, ..)| values.acquisitions < acquisitions) {
                coldest = Some((values.acquisitions, pair, entry.key));
            }
            seen += 1;
            if seen == CANDIDATES {
                break;
            }
        }
        let (_, pair, old_key) = coldest?;
        let mode = if old_key & 1 == 0 { Mode::Exclusive } else { Mode::Shared };
        let merged = find_in(slot, key_of(MERGED, mode))?;
        // SAFETY: both lie in the mapping and belong to this thread.
        let (pair_ref, merged) = unsafe { (pair.as_ref(), &*merged) };
        self.merge(pair_ref, merged);
        remove(slot, old_key);
        pair_ref.key.store(key, Relaxed);
        put(slot, key, pair.as_ptr());
        if let Some(process) = self.process() {
            process.merged_pairs.fetch_add(1, Relaxed);
        }
        Some(pair)
    }

    /// Adds the counts of `from` to `into` and makes `from` a new record, except for its key.
    fn merge(&self, from: &Pair, into: &Pair) {
        let sums = |pair: &Pair| -> [*const AtomicU64; 17] {
            [
                &pair.acquisitions,
                &pair.owner_changes,
                &pair.hold_same_count,
                &pair.hold_same_ticks,
                &pair.hold_other_count,
                &pair.hold_other_ticks,
                &pair.think_count,
                &pair.think_ticks,
                &pair.contended,
                &pair.wait_ticks,
                &pair.handover_count,
                &pair.handover_ticks,
                &pair.try_failures,
                &pair.timeouts,
                &pair.condition_waits,
                &pair.condition_ticks,
                &pair.condition_timeouts,
            ]
            .map(core::ptr::from_ref)
        };
        for (from, into) in sums(from).into_iter().zip(sums(into)) {
            // SAFETY: they point into the two records.
            let (from, into) = unsafe { (&*from, &*into) };
            add(into, from.load(Relaxed));
            from.store(0, Relaxed);
        }
        add(&into.nested, from.nested.load(Relaxed));
        for word in [&from.nested, &from.hold_started, &from.released, &from.state] {
            word.store(0, Relaxed);
        }
        if let Some(histograms) = self.histograms(from) {
            histograms.noted.store(0, Relaxed);
            for word in histograms.buckets.iter().flatten() {
                word.store(0, Relaxed);
            }
        }
    }

    fn histograms(&self, pair: &Pair) -> Option<&Histograms> {
        let position = pair.histograms.load(Relaxed);
        // SAFETY: see `measured`.
        (position != 0)
            .then(|| unsafe { &*self.arena.base().add((position * UNIT) as usize).cast::<Histograms>() })
    }

    /// Considers a pair for histograms. The more room they have taken, the more acquisitions it needs.
    #[cold]
    #[inline(never)]
    fn warm_up(&self, pair: &Pair, acquisitions: u64) {
        let Some(header) = self.arena.header() else { return };
        if pair.histograms.load(Relaxed) != 0 || pair.state.load(Relaxed) & UNTIMED != 0 {
            return;
        }
        let budget = header.limit.load(Relaxed) / 2;
        let taken = header.histogram_bytes.load(Relaxed);
        if taken >= budget || acquisitions < WARM << (taken * 8 / budget.max(1)) {
            return;
        }
        let length = size_of::<Histograms>();
        let Some(block) = self.arena.allocate(&self.host, Need::Detail, self.section_number(), 0, length)
        else {
            return;
        };
        header.histogram_bytes.fetch_add(block.header().mark.load(Relaxed) >> 32, Relaxed);
        let Some(start) = block.take(length) else { return };
        // SAFETY: the block gave the room, aligned, in the mapping.
        let histograms = unsafe { &*start.cast::<Histograms>() };
        histograms.pair.store(self.arena.position_of(pair), Relaxed);
        histograms.head.store(head(Type::Histograms, length), Ordering::Release);
        pair.histograms.store(self.arena.position_of(histograms), Relaxed);
    }

    /// Measures what recording costs here: for each of the four `cost_*` words of [`Process`], in their order.
    ///
    /// Runs a few thousand pairs on records that are not in the file.
    pub fn measure(&self) -> [u64; 4] {
        const PAIRS: u64 = 256;
        let period = self.period.load(Relaxed);
        let bench = Bench::new();
        let bench = &bench;
        // Positions are relative to the mapping, modulo 2^64; so these histograms have one too.
        let histograms = (&raw const bench.histograms).addr().wrapping_sub(self.arena.base().addr());
        let t = PerThread::new();
        let key = key_of(1, Mode::Exclusive);
        let table =
            [Entry { key: 0, pair: &raw const bench.pair }, Entry { key, pair: &raw const bench.pair }];
        t.table.set(table.as_ptr().cast_mut());
        t.mask.set(1);
        t.number.set(1);
        t.random.set(1);
        let run = |period: u32| {
            self.period.store(period, Relaxed);
            bench.pair.histograms.store(histograms as u64 / UNIT, Relaxed);
            let mut best = [u64::MAX; 3];
            for _ in 0..8 {
                bench.pair.hold_same_ticks.store(0, Relaxed);
                bench.pair.hold_other_ticks.store(0, Relaxed);
                bench.pair.think_ticks.store(0, Relaxed);
                t.skip.set(u32::MAX);
                let start = H::stamp();
                for _ in 0..PAIRS {
                    self.acquired(&t, &bench.trace, Kind::Mutex, Mode::Exclusive, 0, None);
                    self.releasing(&t, &bench.trace, Mode::Exclusive);
                }
                let pair = bench.pair.values();
                let sums = [
                    H::stamp().saturating_sub(start),
                    pair.hold_same_ticks + pair.hold_other_ticks,
                    pair.think_ticks,
                ];
                best = core::array::from_fn(|i| best[i].min(sums[i]));
            }
            best.map(|ticks| ticks * 1024 / PAIRS)
        };
        bench.trace.place.store(1, Relaxed);
        let [untimed, ..] = run(u32::MAX);
        let [timed, in_hold, in_think] = run(1);
        self.period.store(period, Relaxed);
        [timed, untimed, in_hold, in_think]
    }
}

/// Records for [`Recorder::measure`], aligned like those in the file.
#[repr(C, align(64))]
struct Bench {
    histograms: Histograms,
    _pad: [u64; 0],
    pair: Pair,
    trace: Trace,
}

impl Bench {
    const fn new() -> Self {
        Self {
            histograms: Histograms {
                head: AtomicU64::new(0),
                pair: AtomicU64::new(0),
                noted: AtomicU64::new(0),
                reserved: [const { AtomicU64::new(0) }; 5],
                notes: [const { AtomicU64::new(0) }; NOTED],
                buckets: [const { [const { AtomicU64::new(0) }; crate::histogram::BUCKETS] };
                    crate::format::QUANTITIES],
            },
            _pad: [],
            pair: Pair::zeroed(),
            trace: Trace::new(),
        }
    }
}

#[inline]
fn note(histograms: &Histograms, quantity: Quantity, ticks: u64) {
    let noted = histograms.noted.load(Relaxed) as usize % NOTED;
    histograms.notes[noted].store(ticks << NOTE_SHIFT | quantity as u64, Relaxed);
    histograms.noted.store(noted as u64 + 1, Relaxed);
    if noted == NOTED - 1 {
        sort_notes(histograms);
    }
}

#[inline(never)]
fn sort_notes(histograms: &Histograms) {
    for note in &histograms.notes {
        let note = note.load(Relaxed);
        let quantity = note as usize % (1 << NOTE_SHIFT);
        if let Some(buckets) = histograms.buckets.get(quantity) {
            add(&buckets[bucket(note >> NOTE_SHIFT)], 1);
        }
    }
    histograms.noted.store(0, Relaxed);
}

fn forget_thread(t: &PerThread) {
    t.table.set(null_mut());
    t.slot.set(null_mut());
    t.busy.set(false);
    t.refused.set(false);
}

fn remembered(address: usize) -> usize {
    // Fibonacci hashing; the low bits of addresses say little.
    ((address as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % REMEMBERED
}

fn frame_of(lock: &Lock, i: usize) -> &AtomicU64 {
    assert!(i < FRAMES);
    // SAFETY: FRAMES words follow a lock record, see LOCK_LENGTH.
    unsafe { &*core::ptr::from_ref(lock).add(1).cast::<AtomicU64>().add(i) }
}

fn new_pair(block: &Block, key: u64) -> Option<NonNull<Pair>> {
    let start = NonNull::new(block.take(Pair::LENGTH)?.cast::<Pair>())?;
    // SAFETY: the room is the caller's alone, aligned, in the mapping.
    let pair = unsafe { start.as_ref() };
    pair.key.store(key, Relaxed);
    pair.head.store(head(Type::Pair, Pair::LENGTH), Ordering::Release);
    Some(start)
}

fn find_in(slot: &Slot, key: u64) -> Option<*const Pair> {
    let mut index = home(key) % slot.table_length;
    loop {
        // SAFETY: the table has this many lines, at least one of them empty.
        let entry = unsafe { *slot.table.add(index) };
        match entry.key {
            0 => return None,
            found if found == key => return Some(entry.pair),
            _ => index = (index + 1) % slot.table_length,
        }
    }
}

/// Puts a pair into a table that has room and does not have its key.
fn put(slot: &mut Slot, key: u64, pair: *const Pair) {
    let mut index = home(key) % slot.table_length;
    // SAFETY: the table has this many lines, at least one of them empty.
    unsafe {
        while (*slot.table.add(index)).key != 0 {
            index = (index + 1) % slot.table_length;
        }
        *slot.table.add(index) = Entry { key, pair };
    }
    slot.used += 1;
}

/// Removes a key, moving up the lines that a search would no longer reach (Knuth, 6.4, algorithm R).
fn remove(slot: &mut Slot, key: u64) {
    let mask = slot.table_length - 1;
    // SAFETY: a table has table_length lines, a power of two; indices are masked.
    let line = |index: usize| unsafe { &mut *slot.table.add(index & mask) };
    let mut hole = home(key) & mask;
    while line(hole).key != key {
        if line(hole).key == 0 {
            return;
        }
        hole = (hole + 1) & mask;
    }
    let mut index = hole;
    loop {
        index = (index + 1) & mask;
        let entry = *line(index);
        if entry.key == 0 {
            break;
        }
        let distance_of_home = index.wrapping_sub(home(entry.key)) & mask;
        if distance_of_home >= index.wrapping_sub(hole) & mask {
            *line(hole) = entry;
            hole = index;
        }
    }
    *line(hole) = Entry { key: 0, pair: core::ptr::null() };
    slot.used -= 1;
}

const _: () = assert!(offset_of!(Histograms, notes) as u64 == UNIT);
