//! The reference count of `contend_lockref`, besides its lock.

use core::ffi::c_int;

use locks::LockRef;
use machine::Patient;

/// The functions of the reference count, each on a lock that the caller passes.
macro_rules! counted {
    ($($(#[$meta:meta])* $symbol:literal |$lock:ident| $body:expr;)*) => {$(
        const _: () = {
            $(#[$meta])*
            #[unsafe(export_name = $symbol)]
            unsafe extern "C" fn function(lock: *const LockRef<Patient>) -> c_int {
                // SAFETY: the caller passes a lock of this kind.
                let $lock = unsafe { &*lock };
                $body
            }
        };
    )*};
}

counted! {
    "contend_lockref_count" |lock| lock.count();
    "contend_lockref_get" |lock| lock.get();
    "contend_lockref_get_not_zero" |lock| c_int::from(lock.get_not_zero());
    "contend_lockref_get_not_dead" |lock| c_int::from(lock.get_not_dead());
    "contend_lockref_put_or_lock" |lock| c_int::from(lock.put_or_lock());
    "contend_lockref_put_not_last" |lock| c_int::from(lock.put_not_last());
    "contend_lockref_mark_dead" |lock| { lock.mark_dead(); 0 };
}

/// Adds to the count; the caller holds the lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn contend_lockref_add_locked(lock: *const LockRef<Patient>, references: c_int) -> c_int {
    // SAFETY: the caller passes a lock of this kind.
    unsafe { &*lock }.add_locked(references);
    0
}
