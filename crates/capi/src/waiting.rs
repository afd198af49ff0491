//! Condition variables, semaphores, barriers, and what is done once.

use core::ffi::{c_int, c_uint};

use locks::{Barrier, Condvar, Once, Semaphore};
use machine::{Patient, Slept, Timeout};

use crate::time::{Timespec, until};
use crate::{busy_unless, timed_out_unless};

type Cond = Condvar<Patient>;
type Sem = Semaphore<Patient>;

/// What `contend_barrier_wait` gives the last thread, as `PTHREAD_BARRIER_SERIAL_THREAD`.
const LEADER: c_int = -1;

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_condvar_enter(condvar: *const Cond) -> c_uint {
    // SAFETY: the caller passes a condition variable.
    unsafe { &*condvar }.enter()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_condvar_sleep(condvar: *const Cond, number: c_uint) -> c_int {
    // SAFETY: the caller passes a condition variable.
    let _: Slept = unsafe { &*condvar }.sleep(number, Timeout::NONE);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_condvar_clocksleep(
    condvar: *const Cond,
    number: c_uint,
    clock: c_int,
    at: *const Timespec,
) -> c_int {
    // SAFETY: the caller passes a condition variable.
    let condvar = unsafe { &*condvar };
    let mut has_slept = false;
    // SAFETY: the caller passes a time.
    let slept = unsafe {
        until(clock, at, |timeout| {
            has_slept = true;
            if condvar.sleep(number, timeout) == Slept::GaveUp { libc::ETIMEDOUT } else { 0 }
        })
    };
    if !has_slept {
        condvar.leave(); // it was no time, and the caller has entered
    }
    slept
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_condvar_signal(condvar: *const Cond) -> c_int {
    // SAFETY: the caller passes a condition variable.
    unsafe { &*condvar }.notify_one();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_condvar_broadcast(condvar: *const Cond) -> c_int {
    // SAFETY: the caller passes a condition variable.
    unsafe { &*condvar }.notify_all();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_condvar_destroy(condvar: *const Cond) -> c_int {
    // SAFETY: the caller passes a condition variable.
    unsafe { &*condvar }.await_leavers();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_semaphore_wait(semaphore: *const Sem) -> c_int {
    // SAFETY: the caller passes a semaphore.
    unsafe { &*semaphore }.acquire();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_semaphore_trywait(semaphore: *const Sem) -> c_int {
    // SAFETY: the caller passes a semaphore.
    busy_unless(unsafe { &*semaphore }.try_acquire())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_semaphore_clockwait(
    semaphore: *const Sem,
    clock: c_int,
    at: *const Timespec,
) -> c_int {
    // SAFETY: the caller passes a semaphore.
    let semaphore = unsafe { &*semaphore };
    // SAFETY: the caller passes a time.
    unsafe { until(clock, at, |timeout| timed_out_unless(semaphore.acquire_or(timeout))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_semaphore_post(semaphore: *const Sem, permits: c_uint) -> c_int {
    // SAFETY: the caller passes a semaphore.
    if unsafe { &*semaphore }.try_release(permits) { 0 } else { libc::EOVERFLOW }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_barrier_wait(barrier: *const Barrier<Patient>) -> c_int {
    // SAFETY: the caller passes a barrier.
    if unsafe { &*barrier }.wait() { LEADER } else { 0 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_once_call(once: *const Once<Patient>, what: extern "C" fn()) -> c_int {
    // SAFETY: the caller passes what is done once.
    unsafe { &*once }.call_once(|| what());
    0
}
