//! The side of recording that runs inside the profiled program. The algorithm is [`profile::record`]; here are the
//! process's one recorder and what it asks of Linux.
//!
//! # Contract with the interposed functions
//!
//! - [`PerThread`] lies in the thread's own block, all zeros at first, and is the first argument of every call.
//! - [`Trace`] lies in the lock's own object (or where the object's state lies), all zeros at first. Initialising an
//!   object zeroes it, and [`initialised`] may follow; [`destroyed`] zeroes it too.
//! - Every function may be called at any time, before [`start`] as well, and then does nothing. Asking [`enabled`]
//!   first saves the call.
//! - [`acquired`] comes right after an acquisition by a call of the lock functions, by the thread that now holds the
//!   lock; `wait_started` is the [`stamp`] taken when the first attempt had failed, `None` when it had not. A wait for
//!   one of the C library's locks goes through [`while_waiting`], so that it can be seen while it lasts.
//!   A thread that takes a recursive mutex which it holds already calls [`acquired_again`] instead, and nothing at the
//!   matching unlock. Nested read locks call [`acquired`] and [`releasing`] each time.
//! - [`releasing`] comes right before a release, while the caller still holds the lock; also before a condition wait
//!   gives the mutex up.
//! - [`cond_waited`] comes when the mutex is back after a condition wait, and stands for [`acquired`] there;
//!   `started` is the stamp at the beginning of the wait, `relock_started` that of waiting for the mutex, if it had to.
//! - A release by another thread than the holder's is allowed and costs that hold time, no more.
//! - [`thread_ends`] is called by the thread when its function has ended (what comes after, in destructors, is still
//!   counted), [`process_ends`] at exit, [`forked_child`] in a forked child before any other call.

mod hooks;
mod maps;
mod off_core;
pub(crate) mod rights;
mod system;

use machine::host::Errno;
use machine::{Clock, Machine as _, Native};
use profile::format::{Header, PAGE, Process, ProcessValues};
use profile::record::{Host as _, Image, Recorder};
use pthread::environment;
use pthread::object::ObjectKind;

pub(crate) use profile::format::Refusal;
pub(crate) use profile::futex_calls::FutexRecord;
pub(crate) use profile::record::{Call, Mode, Outcome, PerThread, Trace};
use system::Linux;

use crate::files::{read_file, read_link};
use crate::futexes;
use crate::signals_blocked::with_signals_blocked;

static RECORDER: Recorder<Linux> = Recorder::new(Linux);

/// Whether this process records.
#[inline]
pub(crate) fn enabled() -> bool {
    RECORDER.enabled()
}

/// The time in ticks.
#[inline]
pub(crate) fn stamp() -> u64 {
    profile::clock::ticks()
}

/// A lock was acquired, after a wait that began at `wait_started` if that is given.
#[inline]
pub(crate) fn acquired(
    t: &PerThread,
    trace: &Trace,
    kind: ObjectKind,
    mode: Mode,
    call: Call,
    wait_started: Option<u64>,
) {
    RECORDER.acquired(t, trace, kind, mode, call, wait_started);
}

/// A recursive mutex that the thread holds already was acquired once more.
#[inline]
pub(crate) fn acquired_again(t: &PerThread, trace: &Trace) {
    RECORDER.acquired_again(t, trace);
}

/// The holder is about to release.
#[inline]
pub(crate) fn releasing(t: &PerThread, trace: &Trace, mode: Mode) {
    RECORDER.releasing(t, trace, mode);
}

/// Runs `wait`, which waits for a lock of the C library that the caller found held. Returns the stamp at its beginning, and its
/// result.
pub(crate) fn while_waiting<R>(
    t: &PerThread,
    trace: &Trace,
    kind: ObjectKind,
    mode: Mode,
    call: Call,
    wait: impl FnOnce() -> R,
) -> (u64, R) {
    let started = RECORDER.waits(t, trace, kind, mode, call);
    let result = wait();
    RECORDER.waits_no_more(t);
    (started, result)
}

/// A try call found the lock held.
#[inline]
pub(crate) fn try_failed(t: &PerThread, trace: &Trace, kind: ObjectKind, mode: Mode, address: usize) {
    RECORDER.try_failed(t, trace, kind, mode, address);
}

/// A timed call gave up.
#[cold]
pub(crate) fn timed_out(t: &PerThread, trace: &Trace, kind: ObjectKind, mode: Mode, address: usize) {
    RECORDER.timed_out(t, trace, kind, mode, address);
}

/// A condition wait begins, whose mutex was given up wholly.
#[cold]
pub(crate) fn cond_waits(t: &PerThread, started: u64) {
    RECORDER.cond_waits(t, started);
}

/// The calling thread begins to wait for the end of another one.
#[cold]
pub(crate) fn joins(t: &PerThread, started: u64) {
    RECORDER.joins(t, started);
}

/// The join that began at `started` is over.
#[cold]
pub(crate) fn joined(t: &PerThread, started: u64) {
    RECORDER.joined(t, started);
}

/// A condition wait is over and the mutex is back.
#[cold]
pub(crate) fn cond_waited(
    t: &PerThread,
    trace: &Trace,
    address: usize,
    started: u64,
    relock_started: Option<u64>,
    outcome: Outcome,
) {
    RECORDER.cond_waited(t, trace, address, started, relock_started, outcome);
}

/// An object was initialised: its lock is named by the call that did it.
#[cold]
pub(crate) fn initialised(trace: &Trace) {
    RECORDER.initialised(trace);
}

/// The lock is gone: whatever comes to its address is another one.
#[cold]
pub(crate) fn destroyed(trace: &Trace) {
    RECORDER.destroyed(trace);
}

/// An object was left to the C library.
#[cold]
pub(crate) fn untouched(reason: Refusal) {
    RECORDER.untouched(reason);
}

/// A page of zeroed memory; null if there is none.
pub(crate) fn page() -> *mut u8 {
    RECORDER.host().zeroed(PAGE as usize)
}

/// Frees a page.
///
/// # Safety
/// [`page`] made it, and it is not used any more.
pub(crate) unsafe fn free_page(page: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { RECORDER.host().free(page, PAGE as usize) };
}

/// A call of futex(2) is over that the program made by `syscall`.
#[cold]
pub(crate) fn futex_called(call: &FutexRecord) {
    RECORDER.futex_called(call);
}

/// Whether calls that wake threads are to be told of.
pub(crate) fn has_space_for_wakes() -> bool {
    RECORDER.has_space_for_wakes()
}

/// Where this library's own code lies. Empty before recording has started.
pub(crate) fn own_code() -> core::ops::Range<usize> {
    let (start, end) = maps::own_range();
    start..end
}

/// The calling thread is about to end.
#[cold]
pub(crate) fn thread_ends(t: &PerThread) {
    RECORDER.thread_ends(t);
}

/// The process is about to exit.
#[cold]
pub(crate) fn process_ends() {
    with_signals_blocked(|| maps::record(&RECORDER));
    RECORDER.process_ends();
}

/// Unloads a library: what it was is noted before, and what is there no more after.
#[cold]
pub(crate) fn around_unloading<R>(unload: impl FnOnce() -> R) -> R {
    note_mappings();
    let result = unload();
    note_mappings();
    result
}

fn note_mappings() {
    let saved = Errno::save();
    with_signals_blocked(|| maps::record(&RECORDER));
    saved.restore();
}

/// Starts recording if the environment names a file. Called once, by the constructor, before there are threads.
///
/// A file that cannot be used is an error line on standard error, and the program runs unrecorded. A file that is full, or that
/// has come to the name after the launcher's, is none: the launcher tells how many processes found no space.
#[cold]
pub(crate) fn start() {
    let Some(path) = system::variable(environment::PROFILE) else { return };
    let watches_cores = u64::from(system::find_core_word());
    let identity = system::variable(environment::IDENTITY).and_then(|text| text.to_str().ok()?.parse().ok());
    let file = match system::map_file(path, identity) {
        Ok(Some(file)) => file,
        Ok(None) => return,
        Err(what) => return system::complain(path, what),
    };
    rights::note_user();
    let (mut arguments, mut executable) = ([0; TEXT], [0; TEXT]);
    let image = Image {
        process: ProcessValues { watches_cores, ..image_of_now() },
        arguments: read_file(c"/proc/self/cmdline", &mut arguments),
        executable: read_link(c"/proc/self/exe", &mut executable),
    };
    // SAFETY: `map_file` has checked the header and mapped the file at its limit; the constructor runs alone.
    if !unsafe { RECORDER.start(file.base, file.length, file.exist, &image) } {
        system::forget_file(); // the program runs unrecorded, and has no descriptor of it
        // SAFETY: the mapping stays, and starts with a header.
        return count_unrecorded(unsafe { &*file.base.cast::<Header>() });
    }
    maps::record(&RECORDER);
    let costs = RECORDER.measure();
    futexes::watch(true);
    if let Some(process) = RECORDER.process() {
        set_costs(process, costs);
        let (start, end) = maps::own_range();
        store(&process.own_start, start as u64);
        store(&process.own_end, end as u64);
    }
}

/// Starts the child's own section. Called by the child of a fork, before it touches a lock.
#[cold]
#[inline(never)]
pub(crate) fn forked_child(t: &PerThread) {
    maps::forget();
    let Some(parent) = RECORDER.process().map(Process::values) else { return };
    let now = image_of_now();
    let process = ProcessValues {
        pid: now.pid,
        parent_pid: now.parent_pid,
        started_realtime_ns: now.started_realtime_ns,
        clock_first_ticks: now.clock_first_ticks,
        clock_first_ns: now.clock_first_ns,
        pid_namespace: now.pid_namespace,
        cost_timed: parent.cost_timed,
        cost_untimed: parent.cost_untimed,
        cost_in_hold: parent.cost_in_hold,
        cost_in_think: parent.cost_in_think,
        own_start: parent.own_start,
        own_end: parent.own_end,
        watches_cores: parent.watches_cores,
        ..ProcessValues::default()
    };
    // Not on the stack, which may be the smallest that a thread can have.
    let texts = RECORDER.host().zeroed(2 * TEXT);
    if texts.is_null() {
        return;
    }
    // SAFETY: fresh memory of this length that no other thread knows.
    let (arguments, executable) =
        unsafe { core::slice::from_raw_parts_mut(texts, 2 * TEXT) }.split_at_mut(TEXT);
    let image = Image {
        process,
        arguments: read_file(c"/proc/self/cmdline", arguments),
        executable: read_link(c"/proc/self/exe", executable),
    };
    let header = RECORDER.header();
    // SAFETY: a forked child has one thread, this one, and inherits the mapping. Without space it goes unrecorded.
    if !unsafe { RECORDER.start_in_child(t, &image) }
        && let Some(header) = header
    {
        count_unrecorded(header);
    }
    // SAFETY: `zeroed` made it, and the slices are not used any more.
    unsafe { RECORDER.host().free(texts, 2 * TEXT) };
}

fn count_unrecorded(header: &Header) {
    header.unrecorded.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
}

/// Bytes of arguments, and of a path, that are kept.
const TEXT: usize = 4096;

fn image_of_now() -> ProcessValues {
    // SAFETY: these calls have no preconditions.
    let (pid, parent_pid) = unsafe { (libc::getpid(), libc::getppid()) };
    rights::note_process(pid);
    ProcessValues {
        pid: pid as u64,
        parent_pid: parent_pid as u64,
        started_realtime_ns: Native::clock_ns(Clock::Realtime),
        clock_first_ticks: profile::clock::ticks(),
        clock_first_ns: Native::clock_ns(Clock::Monotonic),
        pid_namespace: system::pid_namespace(),
        ..ProcessValues::default()
    }
}

fn set_costs(process: &Process, [timed, untimed, in_hold, in_think]: [u64; 4]) {
    store(&process.cost_timed, timed);
    store(&process.cost_untimed, untimed);
    store(&process.cost_in_hold, in_hold);
    store(&process.cost_in_think, in_think);
}

fn store(word: &core::sync::atomic::AtomicU64, value: u64) {
    word.store(value, core::sync::atomic::Ordering::Relaxed);
}
