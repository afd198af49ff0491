//! What [`std::sync`] has, with its locks recorded: a program has `use contend_recorded::sync::Mutex` for `use std::sync::Mutex`, and
//! its locks have rows under `contend profile`.
//!
//! ```
//! use contend_recorded::sync::{Arc, Condvar, Mutex};
//!
//! let jobs = Arc::new((Mutex::new(vec![1]), Condvar::new()));
//! let (queue, filled) = &*jobs;
//! let mut queue = filled.wait_while(queue.lock().unwrap(), |queue| queue.is_empty()).unwrap();
//! assert_eq!(queue.pop(), Some(1));
//! ```
//!
//! [`Mutex`], [`RwLock`] and [`Condvar`] have the methods of those of `std` that stable Rust 1.88 has and does not deprecate, with its poisoning; everything
//! else is `std`'s own. The locks inside are `std`'s, too: a lock has 16 bytes more, and an acquisition and a release each a load and a
//! branch.

mod condvar;
mod mutex;
mod rwlock;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
#[doc(no_inline)]
pub use std::sync::{
    Arc, Barrier, BarrierWaitResult, LazyLock, LockResult, Once, OnceLock, OnceState, PoisonError,
    TryLockError, TryLockResult, Weak, atomic, mpsc,
};

use crate::Recorded;
use profile::record::Mode;
use pthread::object::ObjectKind;
use std::cell::Cell;

/// The hold of a lock, which ends before the lock inside is released: guards have it as their first field.
struct Held<'a> {
    lock: &'a Recorded<()>,
    mode: Mode,
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.releases(self.mode);
    }
}

/// Acquires a lock of `std` that may be poisoned: its guard comes back either way.
#[inline]
fn any_lock<G>(
    lock: &Recorded<()>,
    kind: ObjectKind,
    mode: Mode,
    try_lock: impl FnOnce() -> TryLockResult<G>,
    wait: impl FnOnce() -> LockResult<G>,
) -> LockResult<G> {
    let acquired = Cell::new(None);
    let tried = || {
        acquired.set(match try_lock() {
            Ok(guard) => Some(Ok(guard)),
            Err(TryLockError::Poisoned(poisoned)) => Some(Err(poisoned)),
            Err(TryLockError::WouldBlock) => return false,
        });
        true
    };
    lock.any_lock(kind, mode, tried, || acquired.set(Some(wait())));
    acquired.into_inner().expect("one of the two has acquired the lock")
}

/// Acquires a lock of `std` if it is free, poisoned or not.
#[inline]
fn any_try_lock<G>(
    lock: &Recorded<()>,
    kind: ObjectKind,
    mode: Mode,
    try_lock: impl FnOnce() -> TryLockResult<G>,
) -> TryLockResult<G> {
    let tried = Cell::new(None);
    lock.any_try_lock(kind, mode, || {
        let result = try_lock();
        let acquired = !matches!(result, Err(TryLockError::WouldBlock));
        tried.set(Some(result));
        acquired
    });
    tried.into_inner().expect("it was tried")
}

/// Makes a guard of this crate from one of `std`, poisoned or not.
#[inline]
fn guarded<G, H>(result: LockResult<G>, guard: impl FnOnce(G) -> H) -> LockResult<H> {
    match result {
        Ok(inner) => Ok(guard(inner)),
        Err(poisoned) => Err(PoisonError::new(guard(poisoned.into_inner()))),
    }
}

/// The same of an attempt.
#[inline]
fn try_guarded<G, H>(result: TryLockResult<G>, guard: impl FnOnce(G) -> H) -> TryLockResult<H> {
    let acquired = match result {
        Ok(inner) => Ok(inner),
        Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
        Err(TryLockError::WouldBlock) => return Err(TryLockError::WouldBlock),
    };
    Ok(guarded(acquired, guard)?)
}

/// What both locks do with their value and their poison.
macro_rules! has_a_value {
    ($lock:ident) => {
        impl<T> $lock<T> {
            /// A lock that no thread holds.
            #[inline]
            pub const fn new(value: T) -> Self {
                Self { recorded: Recorded::new(()), inner: sync::$lock::new(value) }
            }

            /// The value.
            ///
            /// # Errors
            ///
            /// The lock is poisoned; the error has the value.
            pub fn into_inner(self) -> LockResult<T> {
                self.inner.into_inner()
            }
        }

        impl<T: ?Sized> $lock<T> {
            /// Whether a thread panicked while it held the lock alone.
            #[inline]
            pub fn is_poisoned(&self) -> bool {
                self.inner.is_poisoned()
            }

            /// Takes the poison away.
            #[inline]
            pub fn clear_poison(&self) {
                self.inner.clear_poison();
            }

            /// The value, to which there is no other reference.
            ///
            /// # Errors
            ///
            /// The lock is poisoned; the error has the value.
            pub fn get_mut(&mut self) -> LockResult<&mut T> {
                self.inner.get_mut()
            }
        }

        impl<T> From<T> for $lock<T> {
            fn from(value: T) -> Self {
                Self::new(value)
            }
        }

        impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for $lock<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.inner.fmt(f)
            }
        }
    };
}
use has_a_value;

/// What all guards do: they lead to the value, and show it as it shows itself.
macro_rules! leads_to_the_value {
    ($guard:ident) => {
        impl<T: ?Sized> std::ops::Deref for $guard<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                &self.inner
            }
        }

        impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + std::fmt::Display> std::fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}
use leads_to_the_value;
