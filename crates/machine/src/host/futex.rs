//! Linux: sleeping, waking, clocks, yielding, fences in other threads.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use libc::{c_long, timespec};

use crate::{Clock, Deadline, Slept};

/// How often a sleeper with a cancel word polls that, in nanoseconds: a futex watches one word.
pub(super) const CANCEL_CHECK_NS: u64 = 500_000;

const NS_PER_S: u64 = 1_000_000_000;

fn clock_id(clock: Clock) -> libc::clockid_t {
    match clock {
        Clock::Monotonic => libc::CLOCK_MONOTONIC,
        Clock::Realtime => libc::CLOCK_REALTIME,
    }
}

pub(super) fn clock_ns(clock: Clock) -> u64 {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` can be written; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock_id(clock), &raw mut now) };
    // A wall clock before 1970 counts as 1970.
    u64::try_from(now.tv_sec).unwrap_or(0).saturating_mul(NS_PER_S) + now.tv_nsec as u64
}

pub(super) fn yield_now() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

/// Sleeps so long, or until a signal.
pub(super) fn sleep(ns: u64) {
    let errno = Errno::save();
    let time = timespec { tv_sec: 0, tv_nsec: ns as _ };
    #[cfg(miri)] // which knows no raw call of that name
    // SAFETY: the time is read only.
    unsafe {
        libc::nanosleep(&raw const time, core::ptr::null_mut())
    };
    #[cfg(not(miri))]
    // SAFETY: the raw call, because glibc's wrapper is a cancellation point; the time is read only.
    unsafe {
        libc::syscall(
            libc::SYS_clock_nanosleep,
            libc::CLOCK_MONOTONIC,
            0,
            &raw const time,
            core::ptr::null_mut::<timespec>(),
        )
    };
    errno.restore();
}

/// The caller's errno, which a wait inside a lock must not change.
#[derive(Debug)]
#[must_use]
pub struct Errno(i32);

impl Errno {
    /// The value that is to be kept.
    pub fn save() -> Self {
        // SAFETY: the location belongs to the calling thread.
        Self(unsafe { *libc::__errno_location() })
    }

    /// The error of the last call that failed.
    #[must_use]
    pub fn get() -> i32 {
        Self::save().0
    }

    /// Makes errno again what it was.
    pub fn restore(self) {
        // SAFETY: the location belongs to the calling thread, and nothing borrows it.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// The futex bits of a sleeper that any wake-up is for.
pub(super) const ANY: u32 = libc::FUTEX_BITSET_MATCH_ANY as u32;

/// Waits on a private futex for a wake-up of one of these bits, or until the deadline, which is absolute on its clock. An error
/// number otherwise.
fn wait(word: &AtomicU32, expected: u32, deadline: Option<Deadline>, channels: u32) -> Result<(), i32> {
    let time = deadline.map(timespec_of);
    let clock_flag = match deadline {
        Some(Deadline { clock: Clock::Realtime, .. }) => libc::FUTEX_CLOCK_REALTIME,
        _ => 0,
    };
    // SAFETY: word and time outlive the call; WAIT_BITSET takes an absolute time.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG | clock_flag,
            expected,
            time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref),
            core::ptr::null::<u32>(),
            channels,
        )
    };
    if result == 0 { Ok(()) } else { Err(Errno::get()) }
}

pub(super) fn sleep_while(
    word: &AtomicU32,
    expected: u32,
    deadline: Option<Deadline>,
    cancel: Option<&AtomicU32>,
) -> Slept {
    let errno = Errno::save();
    let slept = loop {
        if cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed) != 0) {
            break Slept::GaveUp;
        }
        let slice = cancel.map(|_| within(deadline, CANCEL_CHECK_NS));
        match wait(word, expected, slice.or(deadline), ANY) {
            Ok(()) | Err(libc::EINTR) => break Slept::Woken,
            Err(libc::ETIMEDOUT) if slice.is_some() && deadline != slice => {}
            Err(libc::ETIMEDOUT) => break Slept::GaveUp,
            Err(_) => break Slept::Changed,
        }
    };
    errno.restore();
    slept
}

/// Sleeps on `word` while it holds `seen`, no longer than `bound_ns` if that is given, whatever ends it.
pub(super) fn sleep_bounded(
    word: &AtomicU32,
    seen: u32,
    deadline: Option<Deadline>,
    bound_ns: Option<u64>,
    channels: u32,
) {
    let errno = Errno::save();
    let _ = wait(word, seen, bound_ns.map(|ns| within(deadline, ns)).or(deadline), channels);
    errno.restore();
}

/// The deadline as the kernel takes it.
pub(super) fn timespec_of(deadline: Deadline) -> timespec {
    timespec { tv_sec: (deadline.at_ns / NS_PER_S) as _, tv_nsec: (deadline.at_ns % NS_PER_S) as _ }
}

/// `deadline`, or `ns` from now where that is sooner.
pub(super) fn within(deadline: Option<Deadline>, ns: u64) -> Deadline {
    let clock = deadline.map_or(Clock::Monotonic, |deadline| deadline.clock);
    let at_ns = clock_ns(clock) + ns;
    Deadline { clock, at_ns: deadline.map_or(at_ns, |deadline| deadline.at_ns.min(at_ns)) }
}

/// Wakes sleepers of a private futex. Only the address is used.
pub(super) fn wake(word: *const AtomicU32, count: u32) -> u32 {
    let errno = Errno::save();
    let count = count.min(i32::MAX as u32);
    // SAFETY: the kernel uses the address as a key and reads nothing.
    let woken =
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, count) };
    errno.restore();
    u32::try_from(woken).unwrap_or(0)
}

/// Wakes all sleepers of a private futex that wait for one of these bits. Only the address is used.
pub(super) fn wake_some(word: *const AtomicU32, channels: u32) {
    let errno = Errno::save();
    // SAFETY: a wake-up uses the address as a key and ignores the two null pointers; the kernel reads no memory for it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
            core::ptr::null::<timespec>(),
            core::ptr::null::<u32>(),
            channels,
        )
    };
    errno.restore();
}

const MEMBARRIER_UNKNOWN: u8 = 0;
const MEMBARRIER_READY: u8 = 1;
const MEMBARRIER_REFUSED: u8 = 2;
static MEMBARRIER: AtomicU8 = AtomicU8::new(MEMBARRIER_UNKNOWN);

/// From linux/membarrier.h.
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: c_long = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: c_long = 1 << 4;

/// Puts a full fence into every thread of the process that runs now, so that others can do without one of their own. False
/// where the kernel refuses.
pub fn fence_everyone() -> bool {
    if cfg!(miri) {
        return false; // it has no such call
    }
    let errno = Errno::save();
    let fenced = match MEMBARRIER.load(Ordering::Relaxed) {
        MEMBARRIER_REFUSED => false,
        // A child of fork is registered like its parent, since the kernel copies that with the memory map.
        MEMBARRIER_READY if membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) => true,
        // The first time; or a filter of system calls has come since.
        _ => {
            let ready = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
                && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
            MEMBARRIER.store(if ready { MEMBARRIER_READY } else { MEMBARRIER_REFUSED }, Ordering::Relaxed);
            ready
        }
    };
    errno.restore();
    fenced
}

fn membarrier(command: c_long) -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
