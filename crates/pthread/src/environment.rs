//! The environment variables of the preload library, which reach every process that a program starts.

use core::ffi::CStr;

use crate::object::ObjectKind;

/// Lock of every mutex; [`GLIBC`] or nothing leaves them to glibc.
pub const MUTEX: &str = "CONTEND_MUTEX";
/// Lock of every reader-writer lock, likewise; [`crate::request`] says how it is asked for.
pub const RWLOCK: &str = "CONTEND_RWLOCK";
/// Lock of every spin lock, likewise.
pub const SPIN: &str = "CONTEND_SPIN";
/// Lines of `SITE=NAME`, with [`crate::site::SEPARATOR`] between the places of one site: see [`crate::site`].
pub const ONLY: &str = "CONTEND_ONLY";
/// `1`: waits that spin do so for ever.
pub const PURE: &str = "CONTEND_PURE";
/// The path of the file in which the command has lock objects counted.
pub const TALLY: &str = "CONTEND_TALLY";
/// `1`: say what goes wrong, and at exit that the library was there, unless there is a tally.
pub const VERBOSE: &str = "CONTEND_VERBOSE";
/// The absolute path of the profile file to record to.
pub const PROFILE: &CStr = c"CONTEND_PROFILE";
/// A number in decimal that the file at [`PROFILE`] has in its header: whatever else has come to the path meanwhile is not
/// recorded to.
pub const IDENTITY: &CStr = c"CONTEND_PROFILE_IDENTITY";

/// The variable that says which lock objects of a kind become.
#[must_use]
pub const fn lock_of(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Mutex => MUTEX,
        ObjectKind::Rwlock => RWLOCK,
        ObjectKind::Spin => SPIN,
    }
}

/// What a command says of one run with other locks: a program that a later one starts gets none of it.
pub const OF_A_RUN: [&str; 7] = [MUTEX, RWLOCK, SPIN, ONLY, PURE, TALLY, VERBOSE];

/// The name that stands for the C library's own locks.
pub const GLIBC: &str = "glibc";
