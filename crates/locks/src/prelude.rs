//! What most programs need: `Mutex` and `RwLock` with their guards, and every lock to put behind them.
//!
//! ```
//! use contend_locks::prelude::*;
//!
//! static JOBS: Mutex<u32, Mcs> = Mutex::new(0);
//! *JOBS.lock() += 1;
//! ```

pub use crate::api::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
};
pub use crate::{
    Anderson, Clh, ClhTimed, Futex, GlibcAdaptive, GlibcMutex, GlibcRwlock, GlibcRwlockNonrecursive,
    GlibcRwlockWriter, GlibcSpin, Hclh, K42, LinuxMutex, LockRef, Mcs, McsTp, Osq, Qspin, Rw, RwNaive,
    RwQueued, Rwsem, RwsemFifo, RwsemNoSpin, Tas, TasBackoff, Ticket, Ticket4, TicketProportional,
    TicketSelfTuning, TpFutex, Ttas, TtasBackoff, Upgradable,
};
