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
//! | `state`        | bit 0: the last holder was on another core; bit 1: never timed; bits 2 to 5: the caller of the timed hold; from bit 8: read holds |
//!
//! Where one pair in many is timed, each that is looks up how many the launcher wants by then.
//!
//! A sampled pair is timed from its acquisition over its release to the next acquisition, so hold and think times have
//! the same rate. Waits are always timed: a thread that waits has time for a stamp.
//!
//! A signal handler may come between any two instructions, and use locks that are recorded. What is rare (a new pair, space
//! for histograms) is done with signals blocked. On the common path a handler's call is a whole one inside the
//! interrupted one: it may find that one's pair half counted, and the pair of another lock, if it needs it, it makes. So a
//! table that is replaced by a larger one stays, since an interrupted search may go on in it.
//!
//! Past the bounds (of the file, or of lock records) nothing is lost but detail: a thread gives up its coldest of a few
//! records, adding its counts to the thread's row of merged locks.

mod callers;
mod cost;
mod futex_waits;
mod locks;
mod long_holds;
mod off_core;
mod pairs;
mod rate;
mod stacks;
mod table;
mod threads;
mod timeline;

use core::mem::offset_of;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

use pthread::object::ObjectKind;

use crate::arena::{Arena, Block, Grow, Need};
use crate::format::{
    FRAMES, Header, Histograms, Pair, Process, ProcessValues, Quantity, Refusal, Type, UNIT, head,
};
use callers::{CALLER, CALLER_SHIFT, Numbered};
use locks::{REMEMBERED, Sites, Stacks};
use long_holds::LongHolds;
pub(crate) use pairs::place_of;
use pairs::{WARM, note, slot_of};
use rate::Rate;
use stacks::WalkedStacks;
use threads::ThreadPart;
use timeline::Longest;

#[cfg(feature = "read")]
pub(crate) use callers::caller_in;
pub use threads::PerThread;
pub use timeline::LONGEST_WAITS;

/// The number of all locks that have no record of their own.
pub const MERGED: u32 = u32::MAX;

/// How a lock is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Mode {
    /// Alone: mutexes, spin locks, writers.
    Exclusive = 0,
    /// With others: readers.
    Shared = 1,
}

impl Mode {
    const fn other(self) -> Self {
        match self {
            Self::Exclusive => Self::Shared,
            Self::Shared => Self::Exclusive,
        }
    }
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
    /// Stamp of the last release, 0 if it was not timed. While the lock has no number: a note of the stack that made it.
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

/// A call of the lock functions.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Address of the lock's object.
    pub object: usize,
    /// The address that the call returns to; 0 where it is not known.
    pub caller: usize,
    /// The lock is no pthread's: the program tells of the call through [`hooks`](crate::hooks).
    pub by_hooks: bool,
}

impl Call {
    /// A call of the pthread functions.
    #[inline]
    pub const fn new(object: usize, caller: usize) -> Self {
        Self { object, caller, by_hooks: false }
    }
}

impl From<usize> for Call {
    /// A call of the pthread functions for this object from anywhere.
    fn from(object: usize) -> Self {
        Self::new(object, 0)
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
    /// Frees what [`Host::zeroed`] returned.
    ///
    /// # Safety
    /// `start` and `bytes` are those of an earlier call, and the memory is not used any more.
    unsafe fn free(&self, start: *mut u8, bytes: usize);
    /// Writes the caller's stack, innermost first, without the recorder's own frames; returns how many there are.
    fn stack(&self, frames: &mut [u64; FRAMES]) -> usize;
    /// The calling thread's identifier.
    fn tid(&self) -> u32;
    /// The calling thread's time on a core, ns.
    fn running_ns(&self) -> u64;
    /// Whether the calling thread has not left its core since [`Host::watch_core`]. False if that was never called, true where
    /// the host cannot tell.
    fn stayed_on_core() -> bool;
    /// Watches from here on whether the calling thread leaves its core. False where the program uses itself what tells that.
    fn watch_core(&self) -> bool;
    /// No thread is watched any more.
    fn stop_watching(&self);
    /// The calling thread's switches so far: voluntary, when it slept, and involuntary ones.
    fn switches(&self) -> [u64; 2];
    /// Whether a thread of this process is its first.
    fn is_first(&self, tid: u32) -> bool;
    /// The name of a thread of this process.
    fn name(&self, tid: u32) -> [u8; 16];
    /// Time on a core and time on a run queue of a thread of this process, ns; `None` if it cannot be told.
    fn schedule(&self, tid: u32) -> Option<(u64, u64)>;
    /// Whether a thread of this process has ended for good.
    fn gone(&self, tid: u32) -> bool;
    /// Runs `body` where neither a signal handler nor a cancellation can interrupt the thread: a handler may come to the
    /// recorder too, and must not find a thread's table half changed.
    fn with_signals_blocked<R>(&self, body: impl FnOnce() -> R) -> R;
}

const MOVED: u64 = 1;
const UNTIMED: u64 = 2;
const READ_HOLD: u64 = 1 << 8;

const _: () = assert!(size_of::<Trace>() == 16);

/// What a pair is found by: the lock's number, and the mode in the lowest bit.
#[inline]
pub(crate) fn key_of(lock: u32, mode: Mode) -> u64 {
    u64::from(lock) << 1 | mode as u64
}

/// A new record in a thread's block; none when that is full.
fn new_pair(block: &Block, key: u64) -> Option<NonNull<Pair>> {
    let start = NonNull::new(block.take(Pair::LENGTH)?.cast::<Pair>())?;
    // SAFETY: the space is the caller's alone, aligned, in the mapping.
    let pair = unsafe { start.as_ref() };
    pair.key.store(key, Relaxed);
    pair.head.store(head(Type::Pair, Pair::LENGTH), Ordering::Release);
    Some(start)
}

/// Which of a process's pairs are timed: one in so many.
#[inline]
fn period_in(header: &Header) -> u32 {
    header.sample_period.load(Relaxed).clamp(1, 1 << 30) as u32
}

/// Adds to a word that no other thread writes: there is no read-modify-write.
#[inline]
pub(crate) fn add(word: &AtomicU64, amount: u64) {
    word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
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
    rate: Rate,
    /// More thread records than this are not made while there are ended threads' to take over.
    thread_bound: AtomicU32,
    slots: AtomicPtr<ThreadPart>,
    numbered: Numbered,
    long_holds: LongHolds,
    /// The block of lock records: its position in the high half, bytes taken of it in the low half; 0 before the first.
    locks: AtomicU64,
    remembered: [AtomicU32; REMEMBERED],
    /// Read locks that were given up by another thread than the one that took them, by lock, and whose taker does not know yet.
    handed_over: [AtomicU32; HANDED_OVER],
    stacks: Stacks,
    sites: Sites,
    walked: WalkedStacks,
    longest: Longest,
    futex_calls: futex_waits::Found,
}

/// Counts of read locks given up by other threads; locks share them modulo this many.
const HANDED_OVER: usize = 256;

impl<H: Host> Recorder<H> {
    /// A recorder without a file: every call is a waste of time, but none is wrong.
    pub const fn new(host: H) -> Self {
        Self {
            host,
            arena: Arena::new(),
            section: AtomicPtr::new(null_mut()),
            period: AtomicU32::new(1),
            rate: Rate::new(),
            thread_bound: AtomicU32::new(512),
            slots: AtomicPtr::new(null_mut()),
            numbered: Numbered::new(),
            long_holds: LongHolds::new(),
            locks: AtomicU64::new(0),
            remembered: [const { AtomicU32::new(0) }; REMEMBERED],
            handed_over: [const { AtomicU32::new(0) }; HANDED_OVER],
            stacks: Stacks::new(),
            sites: Sites::new(),
            walked: WalkedStacks::new(),
            longest: Longest::new(),
            futex_calls: futex_waits::Found::new(),
        }
    }

    /// Starts a section of the file whose mapping of `length` bytes starts at `base`, and of which `exist` bytes are there.
    ///
    /// False, and the recorder stays without a file, if the file has no space for a section.
    ///
    /// # Safety
    /// All three are as [`Arena::attach`] wants them. No other thread uses the recorder.
    pub unsafe fn start(&self, base: *mut u8, length: u64, exist: u64, image: &Image<'_>) -> bool {
        // SAFETY: the caller promises it.
        unsafe { self.arena.attach(base, length, exist) };
        let started = self.open_section(image);
        if !started {
            self.arena.detach();
        }
        started
    }

    /// Starts a section in a forked child: the parent's records are left alone from here on.
    ///
    /// False, and the recorder is left without a file, if there is no space for a section.
    ///
    /// # Safety
    /// The caller is the only thread, `t` is its storage, and the mapping was inherited from the parent.
    pub unsafe fn start_in_child(&self, t: &PerThread, image: &Image<'_>) -> bool {
        t.forget();
        self.slots.store(null_mut(), Relaxed); // the parent's; the memory stays, there is no other reference to it
        self.numbered.forget();
        self.sites.forget();
        self.walked.forget();
        self.locks.store(0, Relaxed);
        for lock in &self.remembered {
            lock.store(0, Relaxed);
        }
        let parent = self.section_number();
        let mut image = *image;
        image.process.parent_section = parent;
        let started = self.open_section(&image);
        if !started {
            self.arena.detach();
        } else if image.process.watches_cores != 0 {
            self.look(t, 0); // what the parent's thread found is not this one's
        }
        started
    }

    fn open_section(&self, image: &Image<'_>) -> bool {
        self.section.store(null_mut(), Relaxed);
        let Some(header) = self.arena.header() else { return false };
        self.period.store(period_in(header), Relaxed);
        self.rate.learn(
            H::stamp().saturating_sub(header.clock_first_ticks.load(Relaxed)),
            self.host.monotonic_ns().saturating_sub(header.clock_first_ns.load(Relaxed)),
        );
        self.longest.begin(header.longest_waits.load(Relaxed));
        let texts = image.arguments.len() + image.executable.len() + 64;
        let Some(block) = self.arena.allocate(&self.host, Need::Essential, 0, 0, Process::LENGTH + texts)
        else {
            return false;
        };
        let section = self.arena.position_of(block.header());
        block.header().section.store(section, Relaxed);
        let Some(start) = block.take(Process::LENGTH) else { return false };
        // SAFETY: `take` gave the space, 8-aligned, and the mapping stays.
        let process = unsafe { &*start.cast::<Process>() };
        process.store(&ProcessValues {
            head: head(Type::Process, Process::LENGTH),
            marks_waits: 1,
            ..image.process
        });
        block.push_bytes(Type::Arguments, &[image.arguments]);
        block.push_bytes(Type::Executable, &[image.executable]);
        self.section.store(core::ptr::from_ref(process).cast_mut(), Ordering::Release);
        true
    }

    /// Leaves the file: nothing is appended to it any more, and `replace` puts zeroed memory of this process's own over the
    /// mapping, of which it gets start and length.
    pub fn leave(&self, replace: impl FnOnce(*mut u8, usize)) {
        self.arena.stop();
        replace(self.arena.base(), self.arena.limit() as usize);
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

    /// Runs `body`, which changes the calling thread's records, with signals blocked. `None`, and `body` is not run, where this call
    /// has interrupted such a change.
    #[inline]
    fn without_reentry<R>(&self, t: &PerThread, body: impl FnOnce() -> R) -> Option<R> {
        self.host.with_signals_blocked(|| {
            if t.busy.replace(true) {
                return None;
            }
            let result = body();
            t.busy.set(false);
            Some(result)
        })
    }

    fn section_number(&self) -> u64 {
        // The process record follows its block's header.
        self.process().map_or(0, |process| self.arena.position_of(process) - 1)
    }

    /// Appends a record of bytes to the section. False if there is no space.
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
        kind: ObjectKind,
        mode: Mode,
        call: impl Into<Call>,
        wait_started: Option<u64>,
    ) {
        let call = call.into();
        let place = trace.place.load(Relaxed);
        let Some(pair) = t.find(key_of(place as u32, mode)) else {
            return self.acquired_first(t, trace, kind, mode, call, wait_started);
        };
        self.count_acquisition(t, trace, pair, kind, mode, call.caller as u64, wait_started);
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "all of it is in registers on the only way here")]
    fn count_acquisition(
        &self,
        t: &PerThread,
        trace: &Trace,
        pair: &Pair,
        kind: ObjectKind,
        mode: Mode,
        caller: u64,
        wait_started: Option<u64>,
    ) {
        add(&pair.acquisitions, 1);
        let acquisitions = pair.acquisitions.load(Relaxed);
        if acquisitions.is_multiple_of(WARM) {
            self.now_and_then(t, pair, acquisitions);
        }
        let mut called = 0;
        if caller != 0 {
            called = slot_of(caller) + 1;
            if pair.callers()[called - 1].load(Relaxed) != caller {
                called = self.called_from(t, pair, caller);
            }
            t.holds_from(pair, caller);
        }
        self.begin(t, trace, pair, kind, mode, called, wait_started);
    }

    #[cold]
    #[inline(never)]
    fn acquired_first(
        &self,
        t: &PerThread,
        trace: &Trace,
        kind: ObjectKind,
        mode: Mode,
        call: Call,
        wait_started: Option<u64>,
    ) {
        match self.pair(t, trace, kind, mode, call) {
            Some(pair) => {
                let caller = call.caller as u64;
                if caller != 0 {
                    place_of(pair.callers(), caller); // not new: the pair was made with its stack
                }
                self.count_acquisition(t, trace, pair, kind, mode, caller, wait_started);
            }
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
    #[expect(clippy::too_many_arguments, reason = "all of it is in registers on the only way here")]
    fn begin(
        &self,
        t: &PerThread,
        trace: &Trace,
        pair: &Pair,
        kind: ObjectKind,
        mode: Mode,
        called: usize,
        wait_started: Option<u64>,
    ) {
        if mode == Mode::Shared {
            let state = pair.state.load(Relaxed);
            if state < READ_HOLD || !self.was_handed_over(trace) {
                pair.state.store(state.wrapping_add(READ_HOLD), Relaxed);
                if state >= READ_HOLD {
                    if let Some(started) = wait_started {
                        self.waited(t, trace, pair, called, started, H::stamp());
                    }
                    return add(&pair.nested, 1);
                }
            }
        }
        let section = t.section.get();
        if section != 0 {
            self.within(t, pair, section);
        }
        let place = trace.place.load(Relaxed);
        let owner = (place >> 32) as u16;
        add(&pair.owner_changes, u64::from((owner != 0) & (owner != t.number.get() as u16)));
        let drawn = t.draw(self.period.load(Relaxed));
        let mut released_in = pair;
        if kind == ObjectKind::Rwlock
            && pair.released.load(Relaxed) == 0
            && let Some(other) = t.find(key_of(place as u32, mode.other()))
        {
            released_in = other;
        }
        if !drawn && released_in.released.load(Relaxed) == 0 && wait_started.is_none() {
            return pair.hold_started.store(0, Relaxed);
        }
        self.begin_timed(t, trace, pair, drawn, place, released_in, called, wait_started);
    }

    /// The launcher may time fewer pairs or more, where it does not time them all.
    #[inline]
    fn follow_rate(&self) {
        let period = self.period.load(Relaxed);
        if period > 1
            && let Some(header) = self.arena.header()
        {
            let wanted = period_in(header);
            if wanted != period {
                self.period.store(wanted, Relaxed);
            }
        }
    }

    /// A lock was acquired in a timed section.
    #[cold]
    #[inline(never)]
    fn within(&self, t: &PerThread, pair: &Pair, section: u64) {
        if pair.key.load(Relaxed) == section {
            // Another thread had released it.
            return t.section.set(0);
        }
        if let Some(histograms) = self.histograms(pair) {
            add(&histograms.within_count, 1);
            let votes = histograms.within_votes.load(Relaxed);
            if votes == 0 {
                histograms.within.store(section, Relaxed);
            }
            // A signal handler may have voted in between.
            let agrees = histograms.within.load(Relaxed) == section;
            let votes = if agrees { votes.saturating_add(1) } else { votes.saturating_sub(1) };
            histograms.within_votes.store(votes, Relaxed);
        }
    }

    /// The think time that ends here is counted for the mode of the release that it began with.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "all of it is in registers on the only way here")]
    fn begin_timed(
        &self,
        t: &PerThread,
        trace: &Trace,
        pair: &Pair,
        drawn: bool,
        place: u64,
        released_in: &Pair,
        called: usize,
        wait_started: Option<u64>,
    ) {
        let now = H::stamp();
        let mut began = now;
        if let Some(started) = wait_started
            && self.waited(t, trace, pair, called, started, now)
        {
            began = H::stamp(); // noting the wait is no part of the hold
        }
        let state = pair.state.load(Relaxed);
        if state & UNTIMED != 0 {
            return;
        }
        let released = released_in.released.load(Relaxed);
        if released != 0 {
            released_in.released.store(0, Relaxed);
            self.measured(
                released_in,
                Quantity::Think,
                &released_in.think_count,
                &released_in.think_ticks,
                now.saturating_sub(released),
            );
        }
        let moved = u64::from((place >> 48) as u32 != H::core());
        pair.state.store(state & !(MOVED | CALLER) | moved | (called as u64) << CALLER_SHIFT, Relaxed);
        if !drawn {
            return pair.hold_started.store(0, Relaxed);
        }
        self.follow_rate();
        let within = t.section.get() != 0;
        if !within {
            t.section.set(pair.key.load(Relaxed));
        }
        if !(H::stayed_on_core() && t.off_core.is_known()) && self.look_at_beginning(t, within, now) {
            began = H::stamp(); // looking is no part of the hold
        }
        t.off_core.begins(pair);
        pair.hold_started.store(began, Relaxed);
    }

    /// True if the wait was kept as one of the longest, or its stack walked, which took time.
    #[cold]
    #[inline(never)]
    fn waited(
        &self,
        t: &PerThread,
        trace: &Trace,
        pair: &Pair,
        called: usize,
        started: u64,
        now: u64,
    ) -> bool {
        self.measured(pair, Quantity::Wait, &pair.contended, &pair.wait_ticks, now.saturating_sub(started));
        let walked = self.waited_for(t, trace, pair, called, started, now);
        let section = t.section.get();
        if section != 0 {
            self.waited_within(t, pair, section, now.saturating_sub(started));
        }
        let released = trace.released.load(Relaxed);
        // A release from before the wait was no hand-over to this thread.
        if released >= started && pair.state.load(Relaxed) & UNTIMED == 0 {
            let ticks = now.saturating_sub(released);
            self.measured(pair, Quantity::Handover, &pair.handover_count, &pair.handover_ticks, ticks);
        }
        if pair.contended.load(Relaxed) == WARM / 8 {
            self.warm_up(pair, WARM);
        }
        self.keep_wait(t, trace, pair, started, now) | walked
    }

    #[inline]
    fn measured(&self, pair: &Pair, quantity: Quantity, count: &AtomicU64, sum: &AtomicU64, ticks: u64) {
        add(count, 1);
        add(sum, ticks);
        if let Some(histograms) = self.histograms(pair) {
            note(histograms, quantity, ticks);
        }
    }

    /// Another thread than the caller has acquired what the caller is about to release.
    #[cold]
    fn hand_over(&self, lock: u32, mode: Mode) {
        if mode == Mode::Shared && lock != 0 {
            self.handed_over[lock as usize % HANDED_OVER].fetch_add(1, Relaxed);
        }
    }

    /// Whether the hold that the calling thread seems to have was given up by another one. Each such release is the answer once.
    fn was_handed_over(&self, trace: &Trace) -> bool {
        let count = &self.handed_over[trace.lock() as usize % HANDED_OVER];
        count.load(Relaxed) != 0 && count.fetch_update(Relaxed, Relaxed, |now| now.checked_sub(1)).is_ok()
    }

    /// The holder is about to release.
    #[inline]
    pub fn releasing(&self, t: &PerThread, trace: &Trace, mode: Mode) {
        let lock = trace.lock();
        let Some(pair) = t.find(key_of(lock, mode)) else { return self.hand_over(lock, mode) };
        let state = pair.state.load(Relaxed);
        if mode == Mode::Shared {
            if state < READ_HOLD {
                return self.hand_over(lock, mode);
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
        let by_stack = self.held_from(t, pair, state, ticks);
        let mut released = now;
        let explain = !H::stayed_on_core() || t.off_core.lost.get() != pair.lost_before.load(Relaxed);
        if explain || by_stack.is_some() {
            if explain {
                self.explain_hold(t, pair, state, ticks, by_stack);
            }
            released = H::stamp(); // that took time, in which no thread waited for a hand-over
            self.remember_hold(t, pair, started, released);
        }
        pair.hold_started.store(0, Relaxed);
        if t.section.get() == pair.key.load(Relaxed) {
            t.section.set(0);
        }
        pair.released.store(released, Relaxed);
        trace.released.store(released, Relaxed);
    }

    /// The caller begins to wait for a lock that it found held. Returns the stamp at which it does, for
    /// [`Recorder::acquired`]; [`Recorder::waits_no_more`] comes first.
    ///
    /// A lock that has no number yet has just been taken for the first time: that wait is not noted.
    #[cold]
    pub fn waits(
        &self,
        t: &PerThread,
        trace: &Trace,
        kind: ObjectKind,
        mode: Mode,
        call: impl Into<Call>,
    ) -> u64 {
        let call = call.into();
        // A thread that waits at its first lock gets its record now instead of afterwards, while it holds the lock. That takes
        // time, which is no waiting.
        let known = trace.lock() != 0;
        let is_new = t.find(key_of(trace.lock(), mode)).is_none();
        let pair = if known { self.pair(t, trace, kind, mode, call) } else { None };
        let caller = call.caller as u64;
        if caller != 0
            && let Some(pair) = pair
        {
            if is_new {
                place_of(pair.callers(), caller); // not new: the pair was made with its stack
            } else {
                self.called_from(t, pair, caller);
            }
        }
        if t.section.get() != 0 && !H::stayed_on_core() {
            self.look(t, 0); // so that what the wait finds is the wait's
        }
        let started = H::stamp();
        if let Some(pair) = pair
            && let Some(thread) = t.thread()
        {
            thread.lock_waited.store(pair.key.load(Relaxed), Relaxed);
            thread.lock_waited_from.store(caller, Relaxed);
            thread.lock_waited_since.store(started, Ordering::Release); // who sees it sees whose wait it is
        }
        started
    }

    /// The wait is over, with the lock or without.
    #[cold]
    pub fn waits_no_more(&self, t: &PerThread) {
        if let Some(thread) = t.thread() {
            thread.lock_waited_since.store(0, Relaxed);
        }
    }

    /// A try call found the lock held.
    #[inline]
    pub fn try_failed(
        &self,
        t: &PerThread,
        trace: &Trace,
        kind: ObjectKind,
        mode: Mode,
        call: impl Into<Call>,
    ) {
        match self.pair(t, trace, kind, mode, call.into()) {
            Some(pair) => add(&pair.try_failures, 1),
            None => self.drop_event(),
        }
    }

    /// A timed call gave up.
    #[cold]
    pub fn timed_out(
        &self,
        t: &PerThread,
        trace: &Trace,
        kind: ObjectKind,
        mode: Mode,
        call: impl Into<Call>,
    ) {
        match self.pair(t, trace, kind, mode, call.into()) {
            Some(pair) => add(&pair.timeouts, 1),
            None => self.drop_event(),
        }
    }

    /// A condition wait begins: the mutex has been given up, which was told to [`Recorder::releasing`].
    pub fn cond_waits(&self, t: &PerThread, started: u64) {
        if let Some(thread) = t.thread() {
            thread.waiting_since.store(started, Relaxed);
        }
    }

    /// A condition wait that began at `started` is over and the mutex is back, for which the caller had to wait from
    /// `relock_started` if that is given. The mutex's release before the wait was told to [`Recorder::releasing`].
    #[cold]
    pub fn cond_waited(
        &self,
        t: &PerThread,
        trace: &Trace,
        call: impl Into<Call>,
        started: u64,
        relock_started: Option<u64>,
        outcome: Outcome,
    ) {
        let Some(pair) = self.pair(t, trace, ObjectKind::Mutex, Mode::Exclusive, call.into()) else {
            return self.drop_event();
        };
        pair.released.store(0, Relaxed); // the time in the wait is not think time
        let called = t.holding_from(pair); // the hold goes on that the wait interrupted
        self.begin(t, trace, pair, ObjectKind::Mutex, Mode::Exclusive, called, relock_started);
        self.cond_waits(t, 0);
        add(&pair.condition_waits, 1);
        let acquisitions = pair.acquisitions.load(Relaxed).wrapping_add(pair.condition_waits.load(Relaxed));
        if acquisitions.is_multiple_of(WARM) {
            self.warm_up(pair, acquisitions);
        }
        add(&pair.condition_ticks, H::stamp().saturating_sub(started));
        if outcome == Outcome::TimedOut {
            add(&pair.condition_timeouts, 1);
        }
    }

    /// A lock is gone: whatever comes to its address is another one.
    #[cold]
    pub fn destroyed(&self, trace: &Trace) {
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
}

const _: () = assert!(offset_of!(Histograms, notes) as u64 == UNIT);
