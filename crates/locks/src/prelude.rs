//! What most programs need: `Mutex` and `RwLock` with their guards, and every lock to put behind them.
//!
//! ```
//! use contend_locks::prelude::*;
//!
//! static JOBS: Mutex<u32, Mcs> = Mutex::new(0);
//! *JOBS.lock() += 1;
//! ```

use machine::Patient;

pub use crate::api::{
    InheritingMutex, InheritingMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};
pub use crate::{
    Adaptive, Anderson, Clh, ClhTimed, Futex, GlibcAdaptive, GlibcMutex, GlibcRwlock,
    GlibcRwlockNonrecursive, GlibcRwlockWriter, GlibcSpin, K42, KernelMutex, LockRef, Mcs, McsTp, Osq, Qspin,
    RtMutex, Rw, RwNaive, RwQueued, Rwsem, RwsemFifo, RwsemNoSpin, Tas, TasBackoff, Ticket, Ticket4,
    TicketProportional, TicketSelfTuning, TpFutex, Ttas, TtasBackoff, Upgradable,
};

/// [`crate::Barrier`] on the hardware.
pub type Barrier = crate::Barrier<Patient>;

/// [`crate::Condvar`] on the hardware.
pub type Condvar = crate::Condvar<Patient>;

/// [`crate::Counter`] on the hardware.
pub type Counter<const SHARDS: usize = 32> = crate::Counter<SHARDS, Patient>;

/// [`crate::Once`] on the hardware.
pub type Once = crate::Once<Patient>;

/// [`crate::ReadMostly`] on the hardware.
pub type ReadMostly<T, const SHARDS: usize = 32, L = Rw> = crate::ReadMostly<T, SHARDS, L, Patient>;

/// [`crate::Semaphore`] on the hardware.
pub type Semaphore = crate::Semaphore<Patient>;

/// [`crate::SeqLock`] on the hardware.
pub type SeqLock<T, const WORDS: usize, L = Futex> = crate::SeqLock<T, WORDS, L, Patient>;

/// [`crate::WaitTable`] on the hardware.
pub type WaitTable = crate::WaitTable<Patient>;

/// [`crate::WwClass`] on the hardware.
pub type WwClass = crate::WwClass<Patient>;

/// [`crate::WwMutex`] on the hardware.
pub type WwMutex<T> = crate::WwMutex<T, Patient>;
