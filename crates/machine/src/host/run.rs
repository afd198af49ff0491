//! Running threads on this computer, and memory on its nodes.

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::futex;
use crate::memory::SMALLEST_PAGE_BYTES;
use crate::{Clock, Counts, Event, Home, Plan, Run, thread_block};

/// What a thread knows of the run that it belongs to.
#[derive(Clone, Copy)]
struct Part {
    counts: Counts,
    /// When `running` turns false, on the monotonic clock; zero: never.
    until_ns: u64,
}

thread_block!(fn part_of_thread -> Cell<Part>, symbol = "contend_machine_run");

fn part() -> &'static Cell<Part> {
    // SAFETY: the thread's own cell, which lives as long as the thread and is not sent elsewhere.
    unsafe { &*part_of_thread() }
}

pub(super) fn running() -> bool {
    let until = part().get().until_ns;
    until == 0 || futex::clock_ns(Clock::Monotonic) < until
}

#[inline]
pub(super) fn note(event: Event) {
    let mut now = part().get();
    now.counts.count(event);
    part().set(now);
}

/// What the threads of a run are told at its start.
const NOT_YET: u32 = 0;
const GO: u32 = 1;
const CALLED_OFF: u32 = 2;

/// One thread of a run and what it is told.
struct Worker<'a> {
    index: usize,
    core: Option<u32>,
    priority: u8,
    body: &'a (dyn Fn(usize) + Sync),
    waiting: &'a AtomicU32,
    /// Whether the system has refused some thread its priority; complete when all wait.
    any_refused: &'a AtomicBool,
    go: &'a AtomicU32,
    until_ns: &'a AtomicU64,
    counts: Counts,
    panicked: bool,
    /// The error with which the system refused the priority; no body runs then.
    refused: Option<i32>,
}

pub(super) fn run(plan: &Plan<'_>, body: &(dyn Fn(usize) + Sync)) -> Run {
    let waiting = AtomicU32::new(0);
    let any_refused = AtomicBool::new(false);
    let go = AtomicU32::new(0);
    let until_ns = AtomicU64::new(0);
    let mut workers = (0..plan.threads)
        .map(|index| Worker {
            index,
            core: plan.cores.get(index).copied(),
            priority: plan.priorities.get(index).copied().unwrap_or(0),
            body,
            waiting: &waiting,
            any_refused: &any_refused,
            go: &go,
            until_ns: &until_ns,
            counts: Counts::default(),
            panicked: false,
            refused: None,
        })
        .collect::<Vec<_>>();
    let mut threads = Vec::with_capacity(plan.threads);
    let mut refused = None;
    for worker in &mut workers {
        match start(worker) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }

    while (waiting.load(Ordering::Acquire) as usize) < threads.len() {
        futex::yield_now();
    }
    let started = threads.len();
    let started_ns = futex::clock_ns(Clock::Monotonic);
    until_ns
        .store(plan.duration_ns.map_or(0, |duration| started_ns.saturating_add(duration)), Ordering::Relaxed);
    // Bodies may wait for each other, so that all run or none.
    let is_whole = refused.is_none() && !any_refused.load(Ordering::Relaxed);
    go.store(if is_whole { GO } else { CALLED_OFF }, Ordering::Release);
    futex::wake(&raw const go, u32::MAX);
    for thread in threads {
        // SAFETY: created by `start` and joined once.
        unsafe { libc::pthread_join(thread, null_mut()) };
    }
    // Only now, since the threads that were started have seen the workers and the body.
    if let Some(error) = refused {
        panic!("cannot start thread {started} of the run: error {error} of pthread_create");
    }
    let elapsed_ns = futex::clock_ns(Clock::Monotonic) - started_ns;
    for Worker { index, priority, refused, .. } in &workers {
        if let Some(error) = refused {
            panic!(
                "thread {index} of the run may not have the real-time priority {priority}: error {error} of sched_setscheduler"
            );
        }
    }
    if let Some(worker) = workers.iter().find(|worker| worker.panicked) {
        panic!("thread {} of the run panicked", worker.index);
    }
    Run { counts: workers.iter().map(|worker| worker.counts).collect(), elapsed_ns }
}

/// Starts the thread of a worker, which outlives it.
///
/// # Errors
/// The error number of `pthread_create`.
fn start(worker: &mut Worker<'_>) -> Result<libc::pthread_t, libc::c_int> {
    let mut thread = 0;
    // SAFETY: the worker outlives the thread, since `run` joins it.
    let error = unsafe {
        libc::pthread_create(&raw mut thread, core::ptr::null(), work, core::ptr::from_mut(worker).cast())
    };
    if error == 0 { Ok(thread) } else { Err(error) }
}

extern "C" fn work(worker: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `start` passed a worker that no other thread touches until the thread is joined.
    let worker = unsafe { &mut *worker.cast::<Worker<'_>>() };
    if let Some(core) = worker.core {
        pin_to(core);
    }
    if worker.priority > 0 {
        worker.refused = give_priority(worker.priority).err();
    }
    if worker.refused.is_some() {
        worker.any_refused.store(true, Ordering::Relaxed); // counted with those that wait
    }
    worker.waiting.fetch_add(1, Ordering::Release);
    while worker.go.load(Ordering::Acquire) == NOT_YET {
        futex::sleep_while(worker.go, NOT_YET, None, None);
    }
    if worker.go.load(Ordering::Relaxed) == CALLED_OFF {
        return null_mut();
    }
    part().set(Part { counts: Counts::default(), until_ns: worker.until_ns.load(Ordering::Relaxed) });
    worker.panicked = panics(|| (worker.body)(worker.index));
    worker.counts = part().get().counts;
    null_mut()
}

#[cfg(feature = "std")]
fn panics(body: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err()
}

#[cfg(not(feature = "std"))]
fn panics(body: impl FnOnce()) -> bool {
    body();
    false
}

/// Binds the calling thread to a core; a core that does not exist, or is not allowed, leaves it where it is.
fn pin_to(core: u32) {
    // SAFETY: an empty set is a valid set, and the number is inside it.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        if (core as usize) < 8 * size_of::<libc::cpu_set_t>() {
            libc::CPU_SET(core as usize, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}

/// Makes the calling thread one of `SCHED_FIFO`.
///
/// # Errors
/// The error number of `sched_setscheduler`.
fn give_priority(priority: u8) -> Result<(), i32> {
    // SAFETY: all fields are numbers.
    let mut parameters: libc::sched_param = unsafe { core::mem::zeroed() };
    parameters.sched_priority = priority.into();
    // SAFETY: the caller's own thread, and parameters that outlive the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(futex::Errno::get()) }
}

pub(super) fn alloc(layout: Layout, home: Home) -> NonNull<u8> {
    let memory = match home {
        Home::FirstTouch => {
            // SAFETY: a layout's alignment is a power of two, and at least a pointer's after this.
            unsafe {
                let mut memory = null_mut();
                let align = layout.align().max(size_of::<usize>());
                let error = libc::posix_memalign(&raw mut memory, align, layout.size().max(1));
                if error == 0 { memory } else { null_mut() }
            }
        }
        Home::Node(node) => {
            assert!(
                layout.align() <= SMALLEST_PAGE_BYTES,
                "memory on a node is aligned to a page, not to more"
            );
            map_on(node, layout.size())
        }
    };
    match NonNull::new(memory.cast()) {
        Some(memory) => memory,
        None => panic!("no memory for {} bytes", layout.size()),
    }
}

/// Fresh pages bound to a memory node. Where the kernel refuses the binding the pages lie where it likes.
fn map_on(node: u32, bytes: usize) -> *mut libc::c_void {
    /// From linux/mempolicy.h.
    const MPOL_BIND: libc::c_long = 2;
    // SAFETY: a fresh private mapping; the mask outlives the call.
    unsafe {
        let memory = libc::mmap(
            null_mut(),
            bytes.max(1),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if memory == libc::MAP_FAILED {
            return null_mut();
        }
        // Miri knows no memory nodes.
        if node < u64::BITS && !cfg!(miri) {
            let mask = 1_u64 << node;
            libc::syscall(
                libc::SYS_mbind,
                memory,
                bytes.max(1),
                MPOL_BIND,
                &raw const mask,
                u64::BITS + 1,
                0,
            );
        }
        memory
    }
}

/// # Safety
/// As [`Machine::free`](crate::Machine::free).
pub(super) unsafe fn free(memory: NonNull<u8>, layout: Layout, home: Home) {
    // SAFETY: each kind of memory goes back where it came from.
    unsafe {
        match home {
            Home::FirstTouch => libc::free(memory.as_ptr().cast()),
            Home::Node(_) => {
                libc::munmap(memory.as_ptr().cast(), layout.size().max(1));
            }
        }
    }
}
