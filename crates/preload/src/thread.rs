//! What this library keeps for each thread, in initial-exec thread-local storage.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use libc::{clockid_t, pthread_attr_t, pthread_t, timespec};
use machine::time_slice::Holds;

use crate::cancellation::with_cleanup;
use crate::signals_blocked::Before;
use crate::{real, recorder};

/// Read locks that a thread can hold at once and have them known by address.
const READS: usize = 16;

/// A thread's own storage. All zeros at first.
#[repr(C)]
pub(crate) struct Thread {
    /// See [`Thread::identity`]; 0 until it is asked for.
    identity: Cell<u32>,
    /// See [`Thread::glibc_owner`]; 0 until it is known.
    glibc_owner: Cell<u32>,
    /// The read locks that the thread holds.
    pub(crate) reads: Reads,
    /// It has woken others at a futex by `syscall` since it last waited at one by it.
    pub(crate) woke: Cell<bool>,
    /// It waits for a lock of the program's own that is recorded by itself, so that what it sleeps at is not recorded again.
    pub(crate) is_in_told_wait: Cell<bool>,
    /// It forks, and decides alone meanwhile.
    pub(crate) forking: Cell<bool>,
    /// What it let through before it began to fork.
    pub(crate) before_fork: Cell<Before>,
    /// The locks of ours that it holds alone, where time slices are extended.
    pub(crate) slice: Holds,
    /// The recorder's part.
    pub(crate) recorded: recorder::PerThread,
}

machine::thread_block!(fn block -> Thread, symbol = "contend_preload_thread");

/// The last identity given out.
static IDENTITIES: AtomicU32 = AtomicU32::new(0);

/// The calling thread's storage.
#[inline]
pub(crate) fn current() -> &'static Thread {
    // SAFETY: zeros are a valid value. The block lives as long as the thread, which is where the reference stays.
    unsafe { &*block() }
}

impl Thread {
    /// A number that no other thread of the process ever has, never 0. It is the same before and after a fork, and
    /// from the thread's first call to its last destructor.
    #[inline]
    pub(crate) fn identity(&self) -> u32 {
        let identity = self.identity.get();
        if identity != 0 { identity } else { self.new_identity() }
    }

    #[cold]
    fn new_identity(&self) -> u32 {
        self.identity.set(IDENTITIES.fetch_add(1, Ordering::Relaxed) + 1);
        self.identity.get()
    }

    /// Whom glibc's mutexes name as their owner while this thread holds them.
    pub(crate) fn glibc_owner(&self) -> u32 {
        match self.glibc_owner.get() {
            // SAFETY: no arguments.
            0 => unsafe { libc::gettid() }.cast_unsigned(),
            known => known,
        }
    }

    /// A mutex of glibc's that this thread holds names this owner. So the kernel need not be asked at each release; 0 has it asked again.
    pub(crate) fn note_glibc_owner(&self, owner: u32) {
        self.glibc_owner.set(owner);
    }

    /// The recorder's part.
    #[inline]
    pub(crate) fn recording(&self) -> &recorder::PerThread {
        &self.recorded
    }
}

// Ends of threads. The recorder wants to know of them while the kernel still tells what the thread has run. A key with a
// destructor would be one of the 1,024 that programs have, and some use all; so the functions that threads start with are
// called by one of ours.

/// What a thread starts with, in a page of its own that the thread frees.
struct Start {
    function: *mut c_void,
    argument: *mut c_void,
}

impl Start {
    /// `None` if the thread is to start without this: the recorder is off, or there is no memory.
    fn keep(function: *mut c_void, argument: *mut c_void) -> Option<NonNull<Self>> {
        if !recorder::enabled() {
            return None;
        }
        let start = NonNull::new(recorder::page().cast::<Self>())?;
        // SAFETY: a fresh page, which no other thread knows.
        unsafe { start.write(Self { function, argument }) };
        Some(start)
    }

    /// # Safety
    /// [`Start::keep`] made it, and no thread uses it any more.
    unsafe fn take(start: *mut c_void) -> Self {
        let start = start.cast::<Self>();
        // SAFETY: the caller's promise.
        unsafe {
            let value = start.read();
            recorder::free_page(start.cast());
            value
        }
    }
}

/// `pthread_create`.
///
/// # Safety
/// As POSIX says.
pub(crate) unsafe extern "C-unwind" fn create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    function: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: passed on; the start is that of a function for threads.
    unsafe {
        started(function, argument, run::<*mut c_void> as *mut c_void, |function, argument| {
            real::pthread_create(thread, attributes, function, argument)
        })
    }
}

/// C11's `thrd_create`.
///
/// # Safety
/// As C says.
pub(crate) unsafe extern "C-unwind" fn create_c11(
    thread: *mut pthread_t,
    function: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: passed on; the start is that of a function for threads of C11.
    unsafe {
        started(function, argument, run::<c_int> as *mut c_void, |function, argument| {
            real::thrd_create(thread, function, argument)
        })
    }
}

/// Creates a thread that begins in `run`, or in its own function where its start cannot be kept.
///
/// # Safety
/// `run` is for functions of the type of `function`.
unsafe fn started(
    function: *mut c_void,
    argument: *mut c_void,
    run: *mut c_void,
    create: impl FnOnce(*mut c_void, *mut c_void) -> c_int,
) -> c_int {
    let Some(start) = Start::keep(function, argument) else {
        return create(function, argument);
    };
    let error = create(run, start.as_ptr().cast());
    if error != 0 {
        // SAFETY: no thread has it.
        unsafe { Start::take(start.as_ptr().cast()) };
    }
    error
}

/// The start of a thread; also of one that is cancelled or calls `pthread_exit`, which unwind to here.
unsafe extern "C-unwind" fn run<R>(start: *mut c_void) -> R {
    // SAFETY: `started` made it for this thread, from a function of this type.
    unsafe {
        let Start { function, argument } = Start::take(start);
        let function = transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut c_void) -> R>(function);
        let result = with_cleanup(ended, null_mut(), || function(argument));
        ended(null_mut());
        result
    }
}

unsafe extern "C-unwind" fn ended(_: *mut c_void) {
    recorder::thread_ends(&current().recorded);
}

// Joins. They are recorded so that the time in them is not taken for waits that the recorder misses.

/// Records `join` as one, unless the recorder is off. It may be cancelled, and then does not come back.
#[inline]
fn recorded_join(join: impl FnOnce() -> c_int) -> c_int {
    if !recorder::enabled() {
        return join();
    }
    let (recorded, started) = (current().recording(), recorder::stamp());
    recorder::joins(recorded, started);
    let error = join();
    recorder::joined(recorded, started);
    error
}

/// `pthread_join`.
///
/// # Safety
/// As POSIX says.
pub(crate) unsafe extern "C-unwind" fn join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: passed on.
    recorded_join(|| unsafe { real::pthread_join(thread, result) })
}

/// `pthread_timedjoin_np`.
///
/// # Safety
/// As glibc says.
pub(crate) unsafe extern "C-unwind" fn timedjoin(
    thread: pthread_t,
    result: *mut *mut c_void,
    time: *const timespec,
) -> c_int {
    // SAFETY: passed on.
    recorded_join(|| unsafe { real::pthread_timedjoin_np(thread, result, time) })
}

/// `pthread_clockjoin_np`.
///
/// # Safety
/// As glibc says.
pub(crate) unsafe extern "C-unwind" fn clockjoin(
    thread: pthread_t,
    result: *mut *mut c_void,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: passed on.
    recorded_join(|| unsafe { real::pthread_clockjoin_np(thread, result, clock, time) })
}

/// C11's `thrd_join`.
///
/// # Safety
/// As C says.
pub(crate) unsafe extern "C-unwind" fn join_c11(thread: pthread_t, result: *mut c_int) -> c_int {
    // SAFETY: passed on.
    recorded_join(|| unsafe { real::thrd_join(thread, result) })
}

/// Read locks held by a thread: how often each, as many as fit.
///
/// A signal handler may come between any two writes, and try and give up read locks of its own, this very one included. So
/// a line in use is whole at any moment, or has no lock yet, and lines that are not in use have none.
#[repr(C)]
pub(crate) struct Reads {
    holds: [Hold; READS],
    /// Lines in use.
    used: Cell<usize>,
    /// Holds that found no line.
    more: Cell<u32>,
}

#[repr(C)]
struct Hold {
    /// Address of the lock; 0 in a line that is not in use.
    lock: Cell<usize>,
    count: Cell<u32>,
}

/// What a handler on this thread sees of the writes before and after this is in that order.
#[inline(always)]
fn in_order() {
    compiler_fence(Ordering::SeqCst);
}

impl Reads {
    fn line(&self, lock: usize) -> Option<(usize, &Hold)> {
        self.holds[..self.used.get().min(READS)].iter().enumerate().find(|(_, hold)| hold.lock.get() == lock)
    }

    /// Whether the thread reads under this lock, as far as is known.
    #[inline]
    pub(crate) fn holds(&self, lock: usize) -> bool {
        self.used.get() != 0 && self.line(lock).is_some()
    }

    /// Whether the thread may read under this lock: it does, or it has holds that found no line.
    #[inline]
    pub(crate) fn may_hold(&self, lock: usize) -> bool {
        self.more.get() != 0 || self.holds(lock)
    }

    /// Counts a hold.
    #[inline]
    pub(crate) fn add(&self, lock: usize) {
        if let Some((_, hold)) = self.line(lock) {
            return hold.count.set(hold.count.get() + 1);
        }
        let used = self.used.get();
        match self.holds.get(used) {
            Some(hold) => {
                self.used.set(used + 1); // the line is taken: a handler's goes behind it
                in_order();
                hold.count.set(1);
                in_order();
                hold.lock.set(lock);
            }
            None => self.more.set(self.more.get() + 1),
        }
    }

    /// Counts a hold less. False if the lock is in no line: the hold is another thread's, or one of those that found no line,
    /// or there is none.
    #[inline]
    pub(crate) fn remove(&self, lock: usize) -> bool {
        match self.line(lock) {
            Some((_, hold)) if hold.count.get() > 1 => hold.count.set(hold.count.get() - 1),
            Some((index, _)) => self.remove_line(index),
            None => {
                self.more.set(self.more.get().saturating_sub(1));
                return false;
            }
        }
        true
    }

    /// The lock is gone, or was found not to be read by this thread.
    pub(crate) fn forget(&self, lock: usize) {
        if let Some((index, _)) = self.line(lock) {
            self.remove_line(index);
        }
    }

    /// Moves the last line to this place. Where both say the same lock, the first is the one that counts.
    fn remove_line(&self, index: usize) {
        let (hold, last) = (&self.holds[index], self.used.get() - 1);
        hold.lock.set(self.holds[last].lock.get());
        in_order();
        hold.count.set(self.holds[last].count.get());
        in_order();
        self.holds[last].lock.set(0);
        in_order();
        self.used.set(last);
    }

    /// Calls `each` with every known lock and how often the thread reads under it.
    pub(crate) fn each(&self, mut each: impl FnMut(usize, u32)) {
        for hold in &self.holds[..self.used.get().min(READS)] {
            each(hold.lock.get(), hold.count.get());
        }
    }
}
