//! The C library's locks.

use std::cell::UnsafeCell;

use workloads::exclusion::Exclusion;

/// An object of the C library that threads share by its own functions.
#[repr(transparent)]
struct Object<T>(UnsafeCell<T>);

// SAFETY: only the C library's functions touch it, and they are made for threads.
unsafe impl<T> Send for Object<T> {}
// SAFETY: only the C library's functions touch it, and they are made for threads.
unsafe impl<T> Sync for Object<T> {}

/// Runs a section between two functions of the C library that say 0 when they did what they are for.
macro_rules! between {
    ($object:expr, $acquire:ident, $section:expr, $release:ident) => {{
        let object = $object.0.get();
        // SAFETY: an initialised object, which is not moved while a thread holds it.
        let error = unsafe { libc::$acquire(object) };
        assert_eq!(error, 0, concat!(stringify!($acquire), " failed"));
        let result = $section();
        // SAFETY: held since the call above.
        unsafe { libc::$release(object) };
        result
    }};
}

macro_rules! mutex {
    ($name:ident, $initial:expr, $doc:literal) => {
        #[doc = $doc]
        pub(crate) struct $name(Object<libc::pthread_mutex_t>);

        impl Exclusion for $name {
            fn new() -> Self {
                Self(Object(UnsafeCell::new($initial)))
            }

            #[inline]
            fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
                between!(self.0, pthread_mutex_lock, section, pthread_mutex_unlock)
            }
        }
    };
}

mutex!(Mutex, libc::PTHREAD_MUTEX_INITIALIZER, "A mutex of the normal kind.");
mutex!(
    Adaptive,
    libc::PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP,
    "A mutex that spins for a while before it sleeps."
);

/// A spin lock.
pub(crate) struct Spin(Object<libc::pthread_spinlock_t>);

impl Exclusion for Spin {
    fn new() -> Self {
        let mut lock = 0;
        // SAFETY: memory for a spin lock.
        let error = unsafe { libc::pthread_spin_init(&raw mut lock, libc::PTHREAD_PROCESS_PRIVATE) };
        assert_eq!(error, 0, "pthread_spin_init failed");
        Self(Object(UnsafeCell::new(lock)))
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        between!(self.0, pthread_spin_lock, section, pthread_spin_unlock)
    }
}

/// A reader-writer lock of the default kind, which prefers readers.
pub(crate) struct RwLock(Object<libc::pthread_rwlock_t>);

impl Exclusion for RwLock {
    const SHARES: bool = true;

    fn new() -> Self {
        Self(Object(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER)))
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        between!(self.0, pthread_rwlock_wrlock, section, pthread_rwlock_unlock)
    }

    #[inline]
    fn shared<R>(&self, section: impl FnOnce() -> R) -> R {
        between!(self.0, pthread_rwlock_rdlock, section, pthread_rwlock_unlock)
    }
}
