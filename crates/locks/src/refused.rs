//! Programs that must not compile: safe code that would get at two `&mut` of one value, or wait for ever. Each stands beside one that differs
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
//! // SAFETY: no thread uses it.
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
//! // SAFETY: no thread uses it.
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
//! use contend_locks::{GaveUp, Timeout, Patient, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
//! struct Open;
//! // SAFETY: no thread uses it.
//! unsafe impl RawLock<Patient> for Open {
//!     const NEW: Self = Self;
//!     fn acquire(&self) {}
//!     unsafe fn release(&self) {}
//! }
//! // SAFETY: no thread uses it.
//! unsafe impl TryLock<Patient> for Open {
//!     fn try_acquire(&self) -> bool {
//!         true
//!     }
//! }
//! // SAFETY: no thread uses it.
//! unsafe impl TimedLock<Patient> for Open {
//!     fn acquire_or(&self, _: Timeout<'_, Patient>) -> Result<(), GaveUp> {
//!         Ok(())
//!     }
//! }
//! // SAFETY: no thread uses it.
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
//! // SAFETY: no thread uses it.
//! unsafe impl TimedRwLock<Patient> for Open {
//!     fn acquire_shared_or(&self, _: bool, _: Timeout<'_, Patient>) -> Result<(), GaveUp> {
//!         Ok(())
//!     }
//! }
//! ```
//!
//! The same for the other abilities:
//!
//! ```compile_fail,E0200
//! use contend_locks::{GaveUp, Timeout, Patient, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
//! struct Open;
//! // SAFETY: no thread uses it.
//! unsafe impl RawLock<Patient> for Open {
//!     const NEW: Self = Self;
//!     fn acquire(&self) {}
//!     unsafe fn release(&self) {}
//! }
//! // SAFETY: no thread uses it.
//! unsafe impl TryLock<Patient> for Open {
//!     fn try_acquire(&self) -> bool {
//!         true
//!     }
//! }
//! impl TimedLock<Patient> for Open {
//!     fn acquire_or(&self, _: Timeout<'_, Patient>) -> Result<(), GaveUp> {
//!         Ok(())
//!     }
//! }
//! ```
//!
//! ```compile_fail,E0200
//! use contend_locks::{Patient, RawLock, RawRwLock};
//! struct Open;
//! // SAFETY: no thread uses it.
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
//! A release of what no thread holds, or of what another thread holds:
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
//!
//! A guard that only its own thread may drop, which others could get:
//!
//! ```compile_fail,E0080
//! use contend_locks::prelude::*;
//! let shared: Mutex<u64, RtMutex> = Mutex::new(0);
//! ```
//!
//! ```
//! use contend_locks::prelude::*;
//! let shared: InheritingMutex<u64> = InheritingMutex::new(0);
//! ```
//!
//! A value that a section may see changed by half:
//!
//! ```compile_fail,E0080
//! use contend_locks::{LazySubscription, Ticket, api::ElidedMutex};
//! let shared: ElidedMutex<u64, Ticket, LazySubscription> = ElidedMutex::new(0);
//! ```
//!
//! ```
//! use contend_locks::{RetryWhenFree, Ticket, api::ElidedMutex};
//! let shared: ElidedMutex<u64, Ticket, RetryWhenFree> = ElidedMutex::new(0);
//! ```
//!
//! A guard that only its own thread may drop, in another one's hands:
//!
//! ```compile_fail,E0277
//! use contend_locks::prelude::*;
//! let guarded: InheritingMutex<u64> = InheritingMutex::new(0);
//! let held = guarded.lock();
//! std::thread::scope(|scope| {
//!     scope.spawn(move || drop(held));
//! });
//! ```
//!
//! A value that threads must not share, shared by a lock or a guard:
//!
//! ```compile_fail,E0277
//! use contend_locks::prelude::*;
//! use std::rc::Rc;
//! let counted: Mutex<Rc<u32>, Mcs> = Mutex::new(Rc::new(1));
//! std::thread::scope(|scope| {
//!     scope.spawn(|| drop(counted.lock()));
//! });
//! ```
//!
//! ```compile_fail,E0277
//! use contend_locks::prelude::*;
//! use std::cell::Cell;
//! let looked_at: RwLock<Cell<u32>> = RwLock::new(Cell::new(1));
//! std::thread::scope(|scope| {
//!     scope.spawn(|| looked_at.read().set(2));
//! });
//! ```
//!
//! ```compile_fail,E0277
//! use contend_locks::prelude::*;
//! use std::cell::Cell;
//! let guarded: Mutex<Cell<u32>> = Mutex::new(Cell::new(1));
//! let held = guarded.lock();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| held.set(2));
//! });
//! ```
//!
//! ```
//! use contend_locks::prelude::*;
//! use std::cell::Cell;
//! let guarded: Mutex<Cell<u32>> = Mutex::new(Cell::new(1));
//! let held = guarded.lock();
//! std::thread::scope(|scope| {
//!     scope.spawn(move || held.set(2));
//! });
//! ```
//!
//! A guard of a transaction that is kept while the transaction gives way: by a place outside, or by what the closure gives.
//!
//! ```compile_fail,E0521
//! use contend_locks::prelude::*;
//! let class = WwClass::wait_die();
//! let (first, second) = (WwMutex::new(&class, 1), WwMutex::new(&class, 2));
//! let mut kept = None;
//! class.transaction(|taken| {
//!     kept = Some(taken.lock(&first)?);
//!     let second = taken.lock(&second)?;
//!     Ok(*second)
//! });
//! ```
//!
//! ```compile_fail
//! use contend_locks::prelude::*;
//! let class = WwClass::wait_die();
//! let (first, second) = (WwMutex::new(&class, 1), WwMutex::new(&class, 2));
//! let held = class.transaction(|taken| {
//!     let first = taken.lock(&first)?;
//!     taken.lock(&second)?;
//!     Ok(first)
//! });
//! ```
//!
//! ```
//! use contend_locks::prelude::*;
//! let class = WwClass::wait_die();
//! let (first, second) = (WwMutex::new(&class, 1), WwMutex::new(&class, 2));
//! let mut kept = None;
//! class.transaction(|taken| {
//!     kept = Some(*taken.lock(&first)?);
//!     let second = taken.lock(&second)?;
//!     Ok(*second)
//! });
//! ```
//!
//! A refusal that the closure does not look at, or that is made up:
//!
//! ```compile_fail
//! #![deny(unused_must_use)]
//! use contend_locks::prelude::*;
//! let class = WwClass::wait_die();
//! let mutex = WwMutex::new(&class, 1);
//! class.transaction(|taken| {
//!     taken.lock(&mutex);
//!     Ok(())
//! });
//! ```
//!
//! ```
//! #![deny(unused_must_use)]
//! use contend_locks::prelude::*;
//! let class = WwClass::wait_die();
//! let mutex = WwMutex::new(&class, 1);
//! class.transaction(|taken| {
//!     let _held = taken.lock(&mutex)?;
//!     Ok(())
//! });
//! ```
//!
//! ```compile_fail,E0451
//! use contend_locks::prelude::*;
//! WwClass::wait_die().transaction(|_| Err::<(), _>(contend_locks::WwDeadlock { transaction: 0 }));
//! ```
//!
//! A guard of a transaction on another thread than the transaction:
//!
//! ```compile_fail,E0277
//! use contend_locks::prelude::*;
//! let class = WwClass::wait_die();
//! let mutex = WwMutex::new(&class, 1);
//! let held = mutex.lock();
//! std::thread::scope(|scope| {
//!     scope.spawn(move || drop(held));
//! });
//! ```
//!
//! ```
//! use contend_locks::prelude::*;
//! let class = WwClass::wait_die();
//! let mutex = WwMutex::new(&class, 1);
//! let held = mutex.lock();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| assert_eq!(*held, 1));
//! });
//! ```
