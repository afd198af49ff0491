//! The exported names, unversioned, so that they serve whatever version of a name an object binds.
//!
//! Each is a naked function that loads the address it returns to into the argument after its last one, for those behind
//! it that want to know the caller, and jumps.

use core::arch::naked_asm;

use crate::recorder::rights;
use crate::{c11, cond, mutex, rwlock, spin, thread};

/// Exports `function` under the names; `caller` is the number of its arguments, after which the return address goes.
macro_rules! export {
    ($($($name:ident),+ => $function:path, caller $arguments:tt;)*) => {
        $($(
            // SAFETY: the name is POSIX's, C's or glibc's, and so is the behaviour. The arguments stay where they are.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name() {
                #[cfg(target_arch = "x86_64")]
                naked_asm!(concat!("mov ", register!($arguments), ", [rsp]"), "jmp {}", sym $function);
                #[cfg(target_arch = "aarch64")]
                naked_asm!(concat!("mov x", stringify!($arguments), ", x30"), "b {}", sym $function);
            }
        )+)*

        /// The exported names, and what is there.
        pub(crate) static EXPORTED: &[(&str, unsafe extern "C-unwind" fn())] =
            &[$($((stringify!($name), $name),)+)*];
    };
}

/// The register of the argument after so many, in the calling convention of x86-64.
#[cfg(target_arch = "x86_64")]
macro_rules! register {
    (1) => {
        "rsi"
    };
    (2) => {
        "rdx"
    };
    (3) => {
        "rcx"
    };
    (4) => {
        "r8"
    };
}

export! {
    pthread_mutex_init, __pthread_mutex_init => mutex::init, caller 2;
    pthread_mutex_destroy, __pthread_mutex_destroy => mutex::destroy, caller 1;
    pthread_mutex_lock, __pthread_mutex_lock => mutex::lock, caller 1;
    pthread_mutex_trylock, __pthread_mutex_trylock => mutex::trylock, caller 1;
    pthread_mutex_timedlock => mutex::timedlock, caller 2;
    pthread_mutex_clocklock => mutex::clocklock, caller 3;
    pthread_mutex_unlock, __pthread_mutex_unlock => mutex::unlock, caller 1;

    pthread_spin_init => spin::init, caller 2;
    pthread_spin_destroy => spin::destroy, caller 1;
    pthread_spin_lock => spin::lock, caller 1;
    pthread_spin_trylock => spin::trylock, caller 1;
    pthread_spin_unlock => spin::unlock, caller 1;

    pthread_rwlock_init, __pthread_rwlock_init => rwlock::init, caller 2;
    pthread_rwlock_destroy, __pthread_rwlock_destroy => rwlock::destroy, caller 1;
    pthread_rwlock_rdlock, __pthread_rwlock_rdlock => rwlock::rdlock, caller 1;
    pthread_rwlock_wrlock, __pthread_rwlock_wrlock => rwlock::wrlock, caller 1;
    pthread_rwlock_tryrdlock, __pthread_rwlock_tryrdlock => rwlock::tryrdlock, caller 1;
    pthread_rwlock_trywrlock, __pthread_rwlock_trywrlock => rwlock::trywrlock, caller 1;
    pthread_rwlock_timedrdlock => rwlock::timedrdlock, caller 2;
    pthread_rwlock_timedwrlock => rwlock::timedwrlock, caller 2;
    pthread_rwlock_clockrdlock => rwlock::clockrdlock, caller 3;
    pthread_rwlock_clockwrlock => rwlock::clockwrlock, caller 3;
    pthread_rwlock_unlock, __pthread_rwlock_unlock => rwlock::unlock, caller 1;

    pthread_cond_init => cond::init, caller 2;
    pthread_cond_destroy => cond::destroy, caller 1;
    pthread_cond_wait => cond::wait, caller 2;
    pthread_cond_timedwait => cond::timedwait, caller 3;
    pthread_cond_clockwait => cond::clockwait, caller 4;
    pthread_cond_signal => cond::signal, caller 1;
    pthread_cond_broadcast => cond::broadcast, caller 1;

    pthread_create => thread::create, caller 4;
    thrd_create => thread::create_c11, caller 3;
    pthread_join => thread::join, caller 2;
    pthread_timedjoin_np => thread::timedjoin, caller 3;
    pthread_clockjoin_np => thread::clockjoin, caller 4;
    thrd_join => thread::join_c11, caller 2;

    setuid => rights::setuid, caller 1;
    seteuid => rights::seteuid, caller 1;
    setreuid => rights::setreuid, caller 2;
    setresuid => rights::setresuid, caller 3;

    mtx_init => c11::mtx_init, caller 2;
    mtx_destroy => c11::mtx_destroy, caller 1;
    mtx_lock => c11::mtx_lock, caller 1;
    mtx_trylock => c11::mtx_trylock, caller 1;
    mtx_timedlock => c11::mtx_timedlock, caller 2;
    mtx_unlock => c11::mtx_unlock, caller 1;

    cnd_init => c11::cnd_init, caller 1;
    cnd_destroy => c11::cnd_destroy, caller 1;
    cnd_wait => c11::cnd_wait, caller 2;
    cnd_timedwait => c11::cnd_timedwait, caller 3;
    cnd_signal => c11::cnd_signal, caller 1;
    cnd_broadcast => c11::cnd_broadcast, caller 1;
}
