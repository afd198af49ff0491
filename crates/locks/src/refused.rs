//! Programs that must not compile: safe code that would get at two `&mut` of one value. Each stands beside one that differs
//! by `unsafe` alone and does compile, so that it is not refused for another reason.
//!
//! A lock that does not exclude, for `Mutex` to hand out references by:
//!
//! ```compile_fail,E0200
//! use contend_locks::{Patient, RawLock};
//! struct Open;
//! impl RawLock<Patient> for Open {
//!     const NEW: Self = Self;
//!     fn acquire(&self) {}
//!     unsafe fn release(&self) {}
//! }
//! ```
//!
//! ```
//! use contend_locks::{Patient, RawLock};
//! struct Open;
//! // SAFETY: nobody uses it.
//! unsafe impl RawLock<Patient> for Open {
//!     const NEW: Self = Self;
//!     fn acquire(&self) {}
//!     unsafe fn release(&self) {}
//! }
//! ```
//!
//! A lock that excludes, with a try that lies:
//!
//! ```compile_fail,E0200
//! use contend_locks::{Patient, RawLock, TryLock};
//! struct Open;
//! // SAFETY: nobody uses it.
//! unsafe impl RawLock<Patient> for Open {
//!     const NEW: Self = Self;
//!     fn acquire(&self) {}
//!     unsafe fn release(&self) {}
//! }
//! impl TryLock<Patient> for Open {
//!     fn try_acquire(&self) -> bool {
//!         true
//!     }
//! }
//! ```
//!
//! ```
//! use contend_locks::{GaveUp, Limit, Patient, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
//! struct Open;
//! // SAFETY: nobody uses it.
//! unsafe impl RawLock<Patient> for Open {
//!     const NEW: Self = Self;
//!     fn acquire(&self) {}
//!     unsafe fn release(&self) {}
//! }
//! // SAFETY: nobody uses it.
//! unsafe impl TryLock<Patient> for Open {
//!     fn try_acquire(&self) -> bool {
//!         true
//!     }
//! }
//! // SAFETY: nobody uses it.
//! unsafe impl TimedLock<Patient> for Open {
//!     fn acquire_or(&self, _: Limit<'_, Patient>) -> Result<(), GaveUp> {
//!         Ok(())
//!     }
//! }
//! // SAFETY: nobody uses it.
//! unsafe impl RawRwLock<Patient> for Open {
//!     fn acquire_shared(&self, _: bool) {}
//!     fn try_acquire_shared(&self, _: bool) -> bool {
//!         true
//!     }
//!     unsafe fn release_shared(&self) {}
//!     fn is_exclusive(&self) -> bool {
//!         false
//!     }
//! }
//! // SAFETY: nobody uses it.
//! unsafe impl TimedRwLock<Patient> for Open {
//!     fn acquire_shared_or(&self, _: bool, _: Limit<'_, Patient>) -> Result<(), GaveUp> {
//!         Ok(())
//!     }
//! }
//! ```
//!
//! The same for the other abilities:
//!
//! ```compile_fail,E0200
//! use contend_locks::{GaveUp, Limit, Patient, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
//! struct Open;
//! // SAFETY: nobody uses it.
//! unsafe impl RawLock<Patient> for Open {
//!     const NEW: Self = Self;
//!     fn acquire(&self) {}
//!     unsafe fn release(&self) {}
//! }
//! // SAFETY: nobody uses it.
//! unsafe impl TryLock<Patient> for Open {
//!     fn try_acquire(&self) -> bool {
//!         true
//!     }
//! }
//! impl TimedLock<Patient> for Open {
//!     fn acquire_or(&self, _: Limit<'_, Patient>) -> Result<(), GaveUp> {
//!         Ok(())
//!     }
//! }
//! ```
//!
//! ```compile_fail,E0200
//! use contend_locks::{Patient, RawLock, RawRwLock};
//! struct Open;
//! // SAFETY: nobody uses it.
//! unsafe impl RawLock<Patient> for Open {
//!     const NEW: Self = Self;
//!     fn acquire(&self) {}
//!     unsafe fn release(&self) {}
//! }
//! impl RawRwLock<Patient> for Open {
//!     fn acquire_shared(&self, _: bool) {}
//!     fn try_acquire_shared(&self, _: bool) -> bool {
//!         true
//!     }
//!     unsafe fn release_shared(&self) {}
//!     fn is_exclusive(&self) -> bool {
//!         false
//!     }
//! }
//! ```
//!
//! A release of what nobody holds, or of what somebody else holds:
//!
//! ```compile_fail,E0133
//! use contend_locks::{Mcs, Patient, RawLock};
//! let lock = Mcs::<Patient>::NEW;
//! lock.acquire();
//! lock.release();
//! ```
//!
//! ```
//! use contend_locks::{Mcs, Patient, RawLock};
//! let lock = Mcs::<Patient>::NEW;
//! lock.acquire();
//! unsafe { lock.release() };
//! ```
//!
//! ```compile_fail,E0133
//! use contend_locks::{Patient, RawLock, RawRwLock, Rw};
//! let lock = Rw::<Patient>::NEW;
//! lock.acquire_shared(false);
//! lock.release_shared();
//! ```
//!
//! ```
//! use contend_locks::{Patient, RawLock, RawRwLock, Rw};
//! let lock = Rw::<Patient>::NEW;
//! lock.acquire_shared(false);
//! unsafe { lock.release_shared() };
//! ```
//!
//! The lock inside of a `Mutex`:
//!
//! ```compile_fail,E0133
//! use contend_locks::api::Mutex;
//! let shared: Mutex<u64> = Mutex::new(0);
//! shared.raw();
//! ```
//!
//! ```
//! use contend_locks::api::Mutex;
//! let shared: Mutex<u64> = Mutex::new(0);
//! unsafe { shared.raw() };
//! ```
