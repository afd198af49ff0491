//! A recorder over plain memory, with a clock and a core that the test sets.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod trace;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicU64;

use contend_profile::arena::{Grow, write_header};
use contend_profile::format::{FRAMES, Header, PAGE, ProcessValues};
use contend_profile::record::{Host, Image, Mode, PerThread, Recorder, Trace};
use pthread::object::ObjectKind;

thread_local! {
    /// Ticks.
    pub(crate) static NOW: Cell<u64> = const { Cell::new(1_000) };
    /// How long a tick is.
    pub(crate) static NS_PER_TICK: Cell<u64> = const { Cell::new(1) };
    /// The core that the thread is on.
    pub(crate) static CORE: Cell<u32> = const { Cell::new(0) };
    /// Stack of the next lock that is touched first.
    pub(crate) static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// Bytes that the disk has space for.
    pub(crate) static DISK: Cell<u64> = const { Cell::new(u64::MAX) };
    /// Whether threads are their process's first.
    pub(crate) static FIRST: Cell<bool> = const { Cell::new(true) };
    /// How often threads were looked at in `/proc`.
    pub(crate) static LOOKS: Cell<u32> = const { Cell::new(0) };
    /// Ticks that threads have run; half of all without.
    pub(crate) static RAN: Cell<Option<u64>> = const { Cell::new(None) };
    /// Whether the thread has not left its core since it was last watched.
    pub(crate) static STAYED: Cell<bool> = const { Cell::new(true) };
    /// Whether the program leaves to the recorder what tells that.
    pub(crate) static WATCHABLE: Cell<bool> = const { Cell::new(true) };
    /// Voluntary and involuntary switches so far.
    pub(crate) static SWITCHES: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
    /// The thread's identifier.
    pub(crate) static TID: Cell<u32> = const { Cell::new(1234) };
    /// Whether all threads that the recorder asks about are gone.
    pub(crate) static GONE: Cell<bool> = const { Cell::new(false) };
}

/// Lets `ticks` pass.
pub(crate) fn pass(ticks: u64) {
    NOW.set(NOW.get() + ticks);
}

fn now_ns() -> u64 {
    NOW.get() * NS_PER_TICK.get()
}

pub(crate) struct Fake;

impl Grow for Fake {
    fn grow(&self, _start: u64, end: u64) -> Result<u64, i32> {
        if end > DISK.get() { Err(28) } else { Ok(end) }
    }
}

impl Host for Fake {
    fn stamp() -> u64 {
        NOW.get()
    }
    fn core() -> u32 {
        CORE.get()
    }
    fn monotonic_ns(&self) -> u64 {
        now_ns()
    }
    fn zeroed(&self, bytes: usize) -> *mut u8 {
        // SAFETY: the layout is not empty.
        unsafe { alloc_zeroed(Layout::from_size_align(bytes, 4096).unwrap()) }
    }
    unsafe fn free(&self, start: *mut u8, bytes: usize) {
        // SAFETY: as the caller promises.
        unsafe { dealloc(start, Layout::from_size_align(bytes, 4096).unwrap()) }
    }
    fn stack(&self, frames: &mut [u64; FRAMES]) -> usize {
        STACK.with_borrow(|stack| {
            frames[..stack.len()].copy_from_slice(stack);
            stack.len()
        })
    }
    fn tid(&self) -> u32 {
        TID.get()
    }
    fn running_ns(&self) -> u64 {
        RAN.get().unwrap_or(NOW.get() / 2)
    }
    fn stayed_on_core() -> bool {
        STAYED.get()
    }
    fn watch_core(&self) -> bool {
        STAYED.set(WATCHABLE.get());
        WATCHABLE.get()
    }
    fn stop_watching(&self) {
        STAYED.set(true);
    }
    fn switches(&self) -> [u64; 2] {
        SWITCHES.get()
    }
    fn is_first(&self, _tid: u32) -> bool {
        FIRST.get()
    }
    fn name(&self, _tid: u32) -> [u8; 16] {
        LOOKS.set(LOOKS.get() + 1);
        *b"worker\0\0\0\0\0\0\0\0\0\0"
    }
    fn schedule(&self, _tid: u32) -> Option<(u64, u64)> {
        Some((NOW.get() / 2, NOW.get() / 10))
    }
    fn gone(&self, _tid: u32) -> bool {
        GONE.get()
    }

    fn with_signals_blocked<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

/// Bytes of zeros behind a file, which the recorder is not to write to.
const GUARD: usize = 1 << 16;

/// A file in memory with a recorder on it.
pub(crate) struct File {
    pub(crate) recorder: Recorder<Fake>,
    base: *mut u8,
    layout: Layout,
}

impl File {
    pub(crate) fn new(limit: u64, period: u32) -> Self {
        Self::of(limit, period, 0)
    }

    /// A file in which every pair is timed and so many of the longest waits are kept one by one.
    pub(crate) fn keeping(limit: u64, waits: u64) -> Self {
        Self::of(limit, 1, waits)
    }

    fn of(limit: u64, period: u32, waits: u64) -> Self {
        let layout = Layout::from_size_align(limit as usize + GUARD, PAGE as usize).unwrap();
        // SAFETY: not empty.
        let base = unsafe { alloc_zeroed(layout) };
        // SAFETY: page-aligned zeros, longer than a header.
        let header = unsafe { &*base.cast::<Header>() };
        write_header(header, limit, period, NOW.get(), now_ns(), 0);
        header.longest_waits.store(waits, std::sync::atomic::Ordering::Relaxed);
        let recorder = Recorder::new(Fake);
        // SAFETY: the memory is as long as the limit in its header; it outlives the recorder.
        assert!(unsafe { recorder.start(base, limit, PAGE, &image(77)) });
        Self { recorder, base, layout }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    /// The words of the file up to its limit, which any process may write at any time.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: inside the memory, which lives as long as the file; all of it is words that are only used as atomic ones.
        unsafe { std::slice::from_raw_parts(self.base.cast(), (self.layout.size() - GUARD) / 8) }
    }

    /// Whether nothing was written behind the limit.
    pub(crate) fn is_inside(&self) -> bool {
        let start = self.base.wrapping_add(self.layout.size() - GUARD);
        // SAFETY: inside the memory; the test's threads are at rest.
        unsafe { std::slice::from_raw_parts(start, GUARD) }.iter().all(|&byte| byte == 0)
    }

    /// What a reader would find on the disk.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let used = self.recorder.header().unwrap().allocated.load(std::sync::atomic::Ordering::Relaxed);
        // SAFETY: inside the memory; the test's threads are at rest.
        unsafe { std::slice::from_raw_parts(self.base, used as usize) }.to_vec()
    }

    /// An uncontended pair that holds for `hold` ticks, `think` ticks after now.
    pub(crate) fn pair(&self, t: &PerThread, lock: &Trace, address: usize, think: u64, hold: u64) {
        pass(think);
        self.recorder.acquired(t, lock, ObjectKind::Mutex, Mode::Exclusive, address, None);
        pass(hold);
        self.recorder.releasing(t, lock, Mode::Exclusive);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base, self.layout) };
    }
}

/// Bytes of the longest block of a profile.
pub(crate) fn longest_block(bytes: &[u8]) -> u64 {
    let (mut at, mut longest) = (PAGE, 0);
    while let Some(mark) = bytes.get(at as usize..at as usize + 8) {
        let length = u64::from_le_bytes(mark.try_into().unwrap()) >> 32;
        longest = longest.max(length);
        at += length.max(PAGE); // without a mark it is a page that was not used
    }
    longest
}

pub(crate) fn image(pid: u64) -> Image<'static> {
    Image {
        process: ProcessValues {
            pid,
            parent_pid: 1,
            clock_first_ticks: NOW.get(),
            clock_first_ns: now_ns(),
            ..ProcessValues::default()
        },
        arguments: b"program\0argument\0",
        executable: b"/nowhere/program",
    }
}
