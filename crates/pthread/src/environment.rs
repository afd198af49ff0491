//! The environment variables of the preload library, which reach every process that a program starts.

use core::ffi::CStr;

/// Lock of every mutex; [`GLIBC`] or nothing leaves them to glibc.
pub const MUTEX: &str = "CONTEND_MUTEX";
/// Lock of every reader-writer lock, likewise.
pub const RWLOCK: &str = "CONTEND_RWLOCK";
/// Lock of every spin lock, likewise.
pub const SPIN: &str = "CONTEND_SPIN";
/// Lines of `SITE=NAME`: see [`crate::site`].
pub const ONLY: &str = "CONTEND_ONLY";
/// The process that says at its end which sites matched no lock: the one that the command started.
pub const ONLY_PROCESS: &str = "CONTEND_ONLY_PROCESS";
/// `1`: waits that spin do so for ever.
pub const PURE: &str = "CONTEND_PURE";
/// `1`: say at exit what was left to glibc.
pub const VERBOSE: &str = "CONTEND_VERBOSE";
/// The absolute path of the profile file to record to.
pub const PROFILE: &CStr = c"CONTEND_PROFILE";

/// The variables that choose locks: a program that is started without a choice gets none of them.
pub const CHOICES: [&str; 6] = [MUTEX, RWLOCK, SPIN, ONLY, ONLY_PROCESS, PURE];

/// The name that stands for the C library's own locks.
pub const GLIBC: &str = "glibc";
