//! Wound/wait mutexes, which are taken in contexts.

use core::ffi::c_int;

use locks::{RawLock, TimedLock, TryLock, Ww, WwClass, WwContext, WwError};
use machine::{Patient, Timeout};

use crate::time::{Timespec, until};
use crate::{busy_unless, timed_out_unless};

type Class = WwClass<Patient>;

/// `contend_ww_context_t`: none once it is done.
type Context = Option<WwContext<'static, Patient>>;

const _: () = assert!(size_of::<Context>() == 16 && size_of::<Class>() == 16);

/// `contend_ww_t`.
#[repr(C)]
struct Mutex {
    lock: Ww<Patient>,
    /// To be compared with that of a context.
    class: *const Class,
}

const _: () = assert!(size_of::<Mutex>() == 24);

impl Mutex {
    /// The context, if the mutex may be acquired in it.
    fn context<'c>(&self, context: &'c Context) -> Option<&'c WwContext<'static, Patient>> {
        context.as_ref().filter(|context| core::ptr::eq(context.class(), self.class))
    }

    fn acquire(&self, context: Option<&Context>, timeout: Timeout<'_, Patient>) -> c_int {
        let Some(context) = context else {
            return timed_out_unless(self.lock.acquire_or(timeout));
        };
        match self.context(context) {
            Some(context) => number(self.lock.acquire_in(context, timeout)),
            None => libc::EINVAL,
        }
    }
}

fn number(acquired: Result<(), WwError>) -> c_int {
    match acquired {
        Ok(()) => 0,
        Err(WwError::Deadlock) => libc::EDEADLK,
        Err(WwError::AlreadyHeld) => libc::EALREADY,
        Err(WwError::TimedOut) => libc::ETIMEDOUT,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_ww_context_init(context: *mut Context, class: *const Class) -> c_int {
    // SAFETY: the caller passes memory for a context, and a class that outlives it.
    unsafe { context.write(Some(WwContext::new(&*class))) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_ww_context_done(context: *mut Context) -> c_int {
    // SAFETY: the caller passes a context of its own.
    drop(unsafe { &mut *context }.take());
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_ww_lock(mutex: *const Mutex, context: *const Context) -> c_int {
    // SAFETY: the caller passes a mutex, and a context of its own or none.
    unsafe { (*mutex).acquire(context.as_ref(), Timeout::NONE) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_ww_lock_slow(mutex: *const Mutex, context: *const Context) -> c_int {
    // SAFETY: the caller passes a mutex, and a context of its own or none.
    let (mutex, context) = unsafe { (&*mutex, context.as_ref()) };
    match context {
        Some(Some(in_context)) if in_context.held() == 0 => mutex.acquire(context, Timeout::NONE),
        _ => libc::EINVAL,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_ww_trylock(mutex: *const Mutex, context: *const Context) -> c_int {
    // SAFETY: the caller passes a mutex, and a context of its own or none.
    let (mutex, context) = unsafe { (&*mutex, context.as_ref()) };
    match context.map(|context| mutex.context(context)) {
        None => busy_unless(mutex.lock.try_acquire()),
        Some(Some(context)) => busy_unless(mutex.lock.try_acquire_in(context)),
        Some(None) => libc::EINVAL,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_ww_clocklock(
    mutex: *const Mutex,
    context: *const Context,
    clock: c_int,
    at: *const Timespec,
) -> c_int {
    // SAFETY: the caller passes a mutex, and a context of its own or none.
    let (mutex, context) = unsafe { (&*mutex, context.as_ref()) };
    // SAFETY: the caller passes a time.
    unsafe { until(clock, at, |timeout| mutex.acquire(context, timeout)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_ww_lock_all(
    mutexes: *const *const Mutex,
    count: usize,
    context: *const Context,
) -> c_int {
    // SAFETY: the caller passes a context of its own or none.
    let Some(context @ Some(in_context)) = (unsafe { context.as_ref() }) else {
        return libc::EINVAL;
    };
    if in_context.held() != 0 {
        return libc::EINVAL;
    }
    if count == 0 {
        return 0; // the address may be null, which that of a slice may not
    }
    // SAFETY: the caller passes so many mutexes, which are there while the context holds them.
    let mutexes: &[&Mutex] = unsafe { core::slice::from_raw_parts(mutexes.cast(), count) };
    if !mutexes.iter().all(|mutex| mutex.context(context).is_some()) {
        return libc::EINVAL;
    }
    // SAFETY: the lock is the first in a `Mutex`, so that the address of the one is the address of the other.
    let locks = unsafe { core::slice::from_raw_parts(mutexes.as_ptr().cast::<&Ww<Patient>>(), count) };
    number(in_context.acquire_all(locks))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_ww_unlock(mutex: *const Mutex) -> c_int {
    // SAFETY: the caller holds the mutex, and is the thread of the context if it was acquired in one.
    unsafe { (*mutex).lock.release() };
    0
}
