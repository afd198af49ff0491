//! C11's `mtx_*` and `cnd_*`, which are the POSIX functions under other names and with other answers.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::null;

use libc::{pthread_cond_t, pthread_mutex_t, pthread_mutexattr_t, timespec};

use crate::{cond, mutex};

// glibc's threads.h.
const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;
/// The bit of a mutex type that makes it recursive.
const RECURSIVE: c_int = 1;

fn answer(error: c_int) -> c_int {
    match error {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

// The functions behind the exported names; a last argument `caller` is the address that the call returns to.
//
// SAFETY, of all of them: C asks the callers for objects that are alive, and for times that can be read. glibc's `mtx_t`
// and `cnd_t` are its POSIX objects.

pub(crate) unsafe extern "C-unwind" fn mtx_init(
    mutex: *mut pthread_mutex_t,
    kind: c_int,
    caller: usize,
) -> c_int {
    let mut attributes = MaybeUninit::<pthread_mutexattr_t>::uninit();
    let kind =
        if kind & RECURSIVE != 0 { libc::PTHREAD_MUTEX_RECURSIVE } else { libc::PTHREAD_MUTEX_DEFAULT };
    // SAFETY: attributes are initialised, set, used and destroyed; the rest is passed on.
    unsafe {
        libc::pthread_mutexattr_init(attributes.as_mut_ptr());
        libc::pthread_mutexattr_settype(attributes.as_mut_ptr(), kind);
        let error = mutex::init(mutex, attributes.as_ptr(), caller);
        libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
        answer(error)
    }
}

pub(crate) unsafe extern "C-unwind" fn mtx_destroy(mutex: *mut pthread_mutex_t) {
    // SAFETY: passed on.
    unsafe { mutex::destroy(mutex) };
}

pub(crate) unsafe extern "C-unwind" fn mtx_lock(mutex: *mut pthread_mutex_t, caller: usize) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { mutex::lock(mutex, caller) })
}

pub(crate) unsafe extern "C-unwind" fn mtx_trylock(mutex: *mut pthread_mutex_t, caller: usize) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { mutex::trylock(mutex, caller) })
}

pub(crate) unsafe extern "C-unwind" fn mtx_timedlock(
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
    caller: usize,
) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { mutex::timedlock(mutex, time, caller) })
}

pub(crate) unsafe extern "C-unwind" fn mtx_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { mutex::unlock(mutex) })
}

pub(crate) unsafe extern "C-unwind" fn cnd_init(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { cond::init(cond, null()) })
}

pub(crate) unsafe extern "C-unwind" fn cnd_destroy(cond: *mut pthread_cond_t) {
    // SAFETY: passed on.
    unsafe { cond::destroy(cond) };
}

pub(crate) unsafe extern "C-unwind" fn cnd_wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { cond::wait(cond, mutex) })
}

pub(crate) unsafe extern "C-unwind" fn cnd_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { cond::timedwait(cond, mutex, time) })
}

pub(crate) unsafe extern "C-unwind" fn cnd_signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { cond::signal(cond) })
}

pub(crate) unsafe extern "C-unwind" fn cnd_broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { cond::broadcast(cond) })
}
