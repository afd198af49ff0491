//! The mutex whose owner inherits the priority of those that wait.

use core::ffi::c_int;

use locks::{Denied, RawLock, RtMutex, TryLock};
use machine::{Patient, Timeout};

use crate::busy_unless;
use crate::time::{Timespec, until};

type Rt = RtMutex<Patient>;

fn acquire(lock: &Rt, timeout: Timeout<'_, Patient>) -> c_int {
    match lock.acquire_unless_denied(timeout) {
        Ok(()) => 0,
        Err(Denied::GaveUp) => libc::ETIMEDOUT,
        Err(Denied::Deadlock) => libc::EDEADLK,
        Err(Denied::OwnerDied) => libc::ENOTRECOVERABLE,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_rt_lock(lock: *const Rt) -> c_int {
    // SAFETY: the caller passes a lock of this kind.
    acquire(unsafe { &*lock }, Timeout::NONE)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_rt_trylock(lock: *const Rt) -> c_int {
    // SAFETY: the caller passes a lock of this kind.
    busy_unless(unsafe { &*lock }.try_acquire())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_rt_timedlock(lock: *const Rt, at: *const Timespec) -> c_int {
    // SAFETY: passed on.
    unsafe { contend_rt_clocklock(lock, libc::CLOCK_REALTIME, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_rt_clocklock(lock: *const Rt, clock: c_int, at: *const Timespec) -> c_int {
    // SAFETY: the caller passes a lock of this kind.
    let lock = unsafe { &*lock };
    // SAFETY: the caller passes a time.
    unsafe { until(clock, at, |timeout| acquire(lock, timeout)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_rt_unlock(lock: *const Rt) -> c_int {
    // SAFETY: the caller is the thread that holds the lock.
    unsafe { (*lock).release() };
    0
}
