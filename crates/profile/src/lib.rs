//! The profile file: records, container, symbol names, lock table.
//!
//! Two halves. The *writing* half ([`mod@format`], [`histogram`], [`arena`], [`record`]) runs inside the profiled program:
//! no_std, no dependency, nothing allocated on a lock path. The *reading* half (feature `read`, on by default) makes the
//! file for a run ([`session`]), opens a finished or a live one, names its locks and turns it into the lock table,
//! differences and exports ([`mod@read`]).
//!
//! The file is its own journal: threads count straight into the shared mapping of it, so a program that is killed leaves
//! everything it had counted, and nothing is written at exit that a reader could not do without.
#![cfg_attr(not(feature = "read"), no_std)]

pub mod arena;
pub mod clock;
pub mod format;
pub mod futex_calls;
pub mod histogram;
pub mod hooks;
#[cfg(feature = "read")]
pub mod read;
pub mod record;
#[cfg(feature = "read")]
pub mod session;
pub mod tally;

#[cfg(feature = "read")]
pub use pthread::object::ObjectKind;
#[cfg(feature = "read")]
pub use read::{
    Diff, Error, LockId, LockKind, LockRow, LockTable, Options, Profile, TableHeader, Times, Usage, Within,
};
