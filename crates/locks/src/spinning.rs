//! The locks with waiters that spin until they are let in: for programs whose threads each have a core of their own.
//!
//! With more threads than cores a lock that serves in the order of arrival then waits a time slice for each hand-over, since
//! the next owner is mostly not running: such a program takes minutes where the locks of the crate's root take a moment.
//! (`Futex` and `Rw` sleep in the kernel here, too.)
//!
//! ```
//! use contend_locks::spinning::{Mcs, Mutex};
//!
//! static JOBS: Mutex<u32, Mcs> = Mutex::new(0);
//! *JOBS.lock() += 1;
//! ```

use machine::Native;

/// A value behind a spinning lock: [`api::Mutex`](crate::api::Mutex) on [`Native`].
pub type Mutex<T, L> = crate::api::Mutex<T, L, Native>;

/// A value behind a spinning reader-writer lock: [`api::RwLock`](crate::api::RwLock) on [`Native`].
pub type RwLock<T, L> = crate::api::RwLock<T, L, Native>;

macro_rules! spinning {
    ($($lock:ident $(<$of:ident: $kind:ty>)?),* $(,)?) => {$(
        #[doc = concat!("[`", stringify!($lock), "`](crate::", stringify!($lock), ") that spins.")]
        pub type $lock = crate::$lock<Native>;
    )*};
}

crate::of_each_lock!(spinning);

/// [`Upgradable`](crate::Upgradable) of spinning locks.
pub type Upgradable<L = Rw, G = Futex> = crate::Upgradable<L, G>;
