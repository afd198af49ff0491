//! glibc's own functions.
//!
//! They are looked up when the library is loaded. A call that comes before that, from another library's constructor,
//! looks up what it needs itself, so that every path works at any time.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    clockid_t, pthread_attr_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, pthread_mutexattr_t,
    pthread_rwlock_t, pthread_rwlockattr_t, pthread_spinlock_t, pthread_t, timespec, uid_t,
};

/// A condition variable has had the layout of today since this version on x86-64; the architectures that came later
/// never had another, and know no such version.
const COND: Option<&CStr> = if cfg!(target_arch = "x86_64") { Some(c"GLIBC_2.3.2") } else { None };

/// A function of the C library, once it has been looked up.
struct Function {
    /// Ends with a zero.
    name: &'static str,
    version: Option<&'static CStr>,
    address: AtomicPtr<c_void>,
}

impl Function {
    const fn new(name: &'static str, version: Option<&'static CStr>) -> Self {
        Self { name, version, address: AtomicPtr::new(null_mut()) }
    }

    #[inline]
    fn get(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.look_up() } else { address }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let name = self.name.as_ptr().cast::<c_char>();
        // SAFETY: the name ends with a zero, and so does the version.
        let address = unsafe {
            match self.version {
                Some(version) => libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr()),
                None => libc::dlsym(libc::RTLD_NEXT, name),
            }
        };
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) $version:expr;)*) => {
        struct Functions { $($name: Function,)* }

        static FUNCTIONS: Functions =
            Functions { $($name: Function::new(concat!(stringify!($name), "\0"), $version),)* };

        /// Looks all of them up, so that no lock path does.
        pub(crate) fn look_up_all() {
            $(FUNCTIONS.$name.get();)*
        }

        /// Whether the C library's function of this name is at this address, in the version that is called here.
        pub(crate) fn is_at(name: &[u8], address: *mut c_void) -> bool {
            $(if stringify!($name).as_bytes() == name {
                return FUNCTIONS.$name.get() == address;
            })*
            false
        }

        $(
            /// The C library's function of this name; `ENOSYS` where it has none.
            ///
            /// # Safety
            /// As POSIX says.
            #[inline]
            pub(crate) unsafe fn $name($($argument: $type),*) -> c_int {
                let address = FUNCTIONS.$name.get();
                if address.is_null() {
                    return libc::ENOSYS;
                }
                type This = unsafe extern "C-unwind" fn($($type),*) -> c_int;
                // SAFETY: the C library's function of this name has these arguments; the rest is passed on.
                unsafe { transmute::<*mut c_void, This>(address)($($argument),*) }
            }
        )*
    };
}

functions! {
    pthread_create(
        thread: *mut pthread_t, attributes: *const pthread_attr_t, start: *mut c_void, argument: *mut c_void) None;
    thrd_create(thread: *mut pthread_t, start: *mut c_void, argument: *mut c_void) None;
    pthread_join(thread: pthread_t, result: *mut *mut c_void) None;
    pthread_timedjoin_np(thread: pthread_t, result: *mut *mut c_void, time: *const timespec) None;
    pthread_clockjoin_np(
        thread: pthread_t, result: *mut *mut c_void, clock: clockid_t, time: *const timespec) None;
    thrd_join(thread: pthread_t, result: *mut c_int) None;
    setuid(user: uid_t) None;
    seteuid(user: uid_t) None;
    setreuid(real_user: uid_t, effective: uid_t) None;
    setresuid(real_user: uid_t, effective: uid_t, kept: uid_t) None;
    pthread_mutex_init(mutex: *mut pthread_mutex_t, attributes: *const pthread_mutexattr_t) None;
    pthread_mutex_destroy(mutex: *mut pthread_mutex_t) None;
    pthread_mutex_lock(mutex: *mut pthread_mutex_t) None;
    pthread_mutex_trylock(mutex: *mut pthread_mutex_t) None;
    pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, time: *const timespec) None;
    pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, time: *const timespec) None;
    pthread_mutex_unlock(mutex: *mut pthread_mutex_t) None;
    pthread_spin_init(spin: *mut pthread_spinlock_t, shared: c_int) None;
    pthread_spin_lock(spin: *mut pthread_spinlock_t) None;
    pthread_spin_trylock(spin: *mut pthread_spinlock_t) None;
    pthread_spin_unlock(spin: *mut pthread_spinlock_t) None;
    pthread_rwlock_init(lock: *mut pthread_rwlock_t, attributes: *const pthread_rwlockattr_t) None;
    pthread_rwlock_destroy(lock: *mut pthread_rwlock_t) None;
    pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) None;
    pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) None;
    pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) None;
    pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) None;
    pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, time: *const timespec) None;
    pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, time: *const timespec) None;
    pthread_rwlock_clockrdlock(lock: *mut pthread_rwlock_t, clock: clockid_t, time: *const timespec) None;
    pthread_rwlock_clockwrlock(lock: *mut pthread_rwlock_t, clock: clockid_t, time: *const timespec) None;
    pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) None;
    pthread_cond_init(cond: *mut pthread_cond_t, attributes: *const pthread_condattr_t) COND;
    pthread_cond_destroy(cond: *mut pthread_cond_t) COND;
    pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) COND;
    pthread_cond_timedwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, time: *const timespec) COND;
    pthread_cond_clockwait(
        cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, time: *const timespec) None;
    pthread_cond_signal(cond: *mut pthread_cond_t) COND;
    pthread_cond_broadcast(cond: *mut pthread_cond_t) COND;
}
