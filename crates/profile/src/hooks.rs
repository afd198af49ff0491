//! How the locks of a program that are no pthread's reach the recorder, which is in the preload library.
//!
//! The library exports one function, [`ENTRY`]. Who has locks of its own looks for it by `dlsym`, where the library may be missing,
//! and gets a table of functions from it if the process records. So a program needs no recorder of its own to be recorded, and its
//! locks come into one profile with the pthread locks of its libraries.

use core::ffi::CStr;

use pthread::object::ObjectKind;

use crate::record::{Call, Mode, Trace};

/// The name of an [`Entry`].
pub const ENTRY: &CStr = c"contend_recorder";

/// The version of [`Hooks`]: one for each layout and meaning of its functions.
pub const VERSION: u32 = 2;

/// Gives the table of this version; null if the process does not record, or the recorder has another version. The answer stays the
/// same as long as the process runs its program.
pub type Entry = unsafe extern "C" fn(version: u32) -> *const Hooks;

/// A lock, and how it is acquired.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Where the lock is.
    pub address: usize,
    /// What stands in its rows as its kind.
    pub kind: ObjectKind,
    /// Alone or with others.
    pub mode: Mode,
}

impl From<&Use> for Call {
    fn from(of: &Use) -> Self {
        Self { by_hooks: true, ..Self::from(of.address) }
    }
}

/// The recorder's functions. Each takes the [`Trace`] of the lock, which is all zeros before the first call for it. What is said of
/// them at [`Recorder`](crate::record::Recorder)'s functions of the same names holds here, too.
#[repr(C)]
#[derive(Debug)]
pub struct Hooks {
    /// The lock was acquired, after a wait that began at this stamp; 0 if it was free.
    pub acquired: extern "C" fn(&Trace, &Use, wait_started: u64),
    /// The holder is about to release.
    pub releasing: extern "C" fn(&Trace, Mode),
    /// The caller begins to wait, at the stamp that comes back.
    pub waits: extern "C" fn(&Trace, &Use) -> u64,
    /// The wait is over, with the lock or without.
    pub waits_no_more: extern "C" fn(),
    /// A try call found the lock held.
    pub try_failed: extern "C" fn(&Trace, &Use),
    /// A timed call gave up.
    pub timed_out: extern "C" fn(&Trace, &Use),
    /// The caller, which has given up a mutex, begins to wait for a condition, at the stamp that comes back.
    pub condition_waits: extern "C" fn() -> u64,
    /// The wait that began at this stamp is over, and the mutex is held again; `timed_out` if its time was over.
    pub condition_waited: extern "C" fn(&Trace, &Use, started: u64, timed_out: bool),
    /// The lock is gone: whatever comes to its address is another one.
    pub destroyed: extern "C" fn(&Trace),
}
