//! Linux's priority-inheriting futexes: the kernel's side of [`crate::inheriting`].

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use libc::timespec;

use super::futex::{CANCEL_CHECK_NS, Errno, clock_ns, timespec_of, within};
use crate::inheriting::{Denied, OWNER_DIED};
use crate::{Clock, Deadline, thread_block};

thread_block!(fn kernel_thread -> Cell<u32>, symbol = "contend_machine_kernel_thread");

fn known_number() -> &'static Cell<u32> {
    // SAFETY: the thread's own cell, which lives as long as the thread and is not sent elsewhere.
    unsafe { &*kernel_thread() }
}

/// The kernel's identifier of the calling thread, which it compares with the owner in the word.
#[inline]
pub(super) fn owner() -> u32 {
    let known = known_number().get();
    if known != 0 { known } else { ask() }
}

/// Whether a child of a fork, whose only thread has another identifier than in the parent, forgets what that was.
static CHILDREN_FORGET: AtomicBool = AtomicBool::new(false);

#[cold]
fn ask() -> u32 {
    if !CHILDREN_FORGET.load(Ordering::Acquire) {
        // SAFETY: the handler touches the thread's own cell alone. Two threads may both get here, which does no harm.
        let registered = unsafe { libc::pthread_atfork(None, None, Some(forget)) } == 0;
        CHILDREN_FORGET.store(registered, Ordering::Release);
    }
    // SAFETY: a system call without arguments, which does not fail.
    let number = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    if CHILDREN_FORGET.load(Ordering::Acquire) {
        known_number().set(number);
    }
    number
}

/// This process is the child of a fork that the C library knows of, where words may hold identifiers of the parent's threads.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn forget() {
    known_number().set(0);
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// One of the kernel's calls for a private futex; gives the error.
fn call(word: &AtomicU32, operation: libc::c_int, time: Option<&timespec>) -> Result<(), i32> {
    // SAFETY: word and time outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            0,
            time.map_or(core::ptr::null(), core::ptr::from_ref),
            core::ptr::null::<u32>(),
            0,
        )
    };
    if result == 0 { Ok(()) } else { Err(Errno::get()) }
}

/// The kernel has no `FUTEX_LOCK_PI2` (Linux before 5.14).
static IS_OLD: AtomicBool = AtomicBool::new(false);

/// Waits until the caller owns the word, or the deadline.
fn wait(word: &AtomicU32, deadline: Option<Deadline>) -> Result<(), i32> {
    if !IS_OLD.load(Ordering::Relaxed) {
        let clock_flag = match deadline {
            Some(Deadline { clock: Clock::Realtime, .. }) => libc::FUTEX_CLOCK_REALTIME,
            _ => 0,
        };
        match call(word, libc::FUTEX_LOCK_PI2 | clock_flag, deadline.map(timespec_of).as_ref()) {
            Err(libc::ENOSYS) => IS_OLD.store(true, Ordering::Relaxed),
            answered => return answered,
        }
    }
    call(word, libc::FUTEX_LOCK_PI, deadline.map(on_wall_clock).map(timespec_of).as_ref())
}

/// The same time on the only clock that `FUTEX_LOCK_PI` knows, as the two stand now.
fn on_wall_clock(deadline: Deadline) -> Deadline {
    let left = deadline.at_ns.saturating_sub(clock_ns(deadline.clock));
    match deadline.clock {
        Clock::Realtime => deadline,
        Clock::Monotonic => {
            Deadline { clock: Clock::Realtime, at_ns: clock_ns(Clock::Realtime).saturating_add(left) }
        }
    }
}

/// What the word holds from when a thread has learnt that its owner has ended: an owner that cannot exist, so that the kernel
/// denies the word to all who come.
///
/// To let a thread know, the kernel has made it the owner, and knows it as that until it ends: it runs with the priorities of those that
/// were asleep already, and those learn of it, the first of them as this one did, when it ends.
const NOBODYS: u32 = u32::MAX;

/// What the kernel's answer means; nothing if it is to be asked again.
fn answer(word: &AtomicU32, answered: Result<(), i32>) -> Option<Result<(), Denied>> {
    match answered {
        Ok(()) if word.load(Ordering::Relaxed) & OWNER_DIED != 0 => {
            word.store(NOBODYS, Ordering::Relaxed); // nothing is handed over
            Some(Err(Denied::OwnerDied))
        }
        Ok(()) => Some(Ok(())),
        Err(libc::ETIMEDOUT | libc::EWOULDBLOCK) => Some(Err(Denied::GaveUp)),
        Err(libc::EDEADLK) => Some(Err(Denied::Deadlock)),
        // No thread of that identifier; the kernel's own record names another one than the word does, which holds while others wait
        // for a thread that has ended, and for `NOBODYS`; or the identifier is a kernel thread's now.
        Err(libc::ESRCH | libc::EINVAL | libc::EPERM) => Some(Err(Denied::OwnerDied)),
        Err(libc::EINTR) => None,
        Err(libc::ENOSYS) => panic!("this kernel has no priority-inheriting futexes (FUTEX_LOCK_PI)"),
        Err(error) => panic!("the kernel refuses a priority-inheriting futex: error {error}"),
    }
}

/// A wait with a cancel word looks at that every so often: each look costs it its place among the waiters, and the owner what it has
/// inherited from it, for a moment. So the looks become rarer, up to this.
const LONGEST_SLICE_NS: u64 = 32_000_000;

pub(super) fn acquire(
    word: &AtomicU32,
    deadline: Option<Deadline>,
    cancel: Option<&AtomicU32>,
) -> Result<(), Denied> {
    let errno = Errno::save();
    let mut slice_ns = CANCEL_CHECK_NS;
    let acquired = loop {
        if cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed) != 0) {
            break Err(Denied::GaveUp);
        }
        let end = cancel.map(|_| within(deadline, slice_ns)).or(deadline);
        match wait(word, end) {
            Err(libc::EAGAIN) => {} // an owner that is just ending
            // A time to look at the cancel word, or one on the wall clock, which has been set.
            Err(libc::ETIMEDOUT)
                if deadline.is_none_or(|deadline| clock_ns(deadline.clock) < deadline.at_ns) =>
            {
                slice_ns = (2 * slice_ns).min(LONGEST_SLICE_NS);
            }
            answered => {
                if let Some(answer) = answer(word, answered) {
                    break answer;
                }
            }
        }
    };
    errno.restore();
    acquired
}

pub(super) fn try_acquire(word: &AtomicU32) -> Result<(), Denied> {
    let errno = Errno::save();
    let tried = loop {
        if let Some(answer) = answer(word, call(word, libc::FUTEX_TRYLOCK_PI, None)) {
            break answer;
        }
    };
    errno.restore();
    tried
}

pub(super) fn release(word: &AtomicU32) {
    let errno = Errno::save();
    loop {
        match call(word, libc::FUTEX_UNLOCK_PI, None) {
            Ok(()) => break,
            Err(libc::EINTR | libc::EAGAIN) => {}
            // A child of a fork, where the holder has another identifier than the word says. The kernel knows of no waiter here:
            // those of the parent are none of this process.
            Err(libc::EPERM) if IS_CHILD.load(Ordering::Relaxed) => {
                word.store(0, Ordering::Release);
                break;
            }
            Err(libc::EPERM) => {
                panic!("a lock whose owner inherits is released by a thread that does not hold it")
            }
            Err(error) => panic!("the kernel refuses to release a priority-inheriting futex: error {error}"),
        }
    }
    errno.restore();
}
