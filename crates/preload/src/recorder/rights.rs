//! What becomes of the recording when the process gives up its user's rights.
//!
//! The profile is the user's who started `contend`, and every process that has it mapped can write anything into it. A process
//! that gives up these rights for good, as servers do for their workers, is often one that must not do anything to the others
//! any more. So it leaves the profile: what it has recorded stays in the file, and from then on its records lie in memory of its
//! own. One that goes on as another user by a system call of its own, past the C library, keeps the profile.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::Relaxed};

use libc::uid_t;
use machine::host::Errno;

use super::{RECORDER, store, system};
use crate::{futexes, generation, real};

/// The user whose profile it is.
static USER: AtomicU32 = AtomicU32::new(0);
/// The process that writes the section. A child that shares its parent's memory until it starts a program is another one.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Whether the profile was left.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Notes whose profile it is. Called when recording starts.
pub(super) fn note_user() {
    // SAFETY: no preconditions.
    USER.store(unsafe { libc::geteuid() }, Relaxed);
}

/// Notes which process writes the section that begins.
pub(super) fn note_process(process: c_int) {
    PROCESS.store(process, Relaxed);
}

/// Leaves the profile if the process has given up the right to open it. `changed` is what the C library says of a change, and
/// is returned.
fn leave_if_given_up(changed: c_int) -> c_int {
    if changed == 0 && RECORDER.enabled() {
        generation::generation(); // a child that has not noticed that it is one begins now
        let saved = Errno::save();
        let (mut real, mut effective, mut kept) = (0, 0, 0);
        // SAFETY: the three are writable; the other call has no preconditions.
        let process = unsafe {
            libc::getresuid(&raw mut real, &raw mut effective, &raw mut kept);
            libc::getpid()
        };
        let given_up = ![real, effective, kept].contains(&USER.load(Relaxed));
        if given_up && process == PROCESS.load(Relaxed) && !LEFT.swap(true, Relaxed) {
            leave();
        }
        saved.restore();
    }
    changed
}

#[cold]
fn leave() {
    if let Some(process) = RECORDER.process() {
        store(&process.gave_up_rights, 1);
    }
    futexes::watch(false);
    RECORDER.process_ends();
    RECORDER.leave(|base, length| {
        system::forget_file();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: these bytes are the profile's mapping. Zeros are a right state of whatever record lies there, also for other
        // threads that are writing to it; no reader sees what they write.
        unsafe { libc::mmap(base.cast(), length, access, kind, -1, 0) };
    });
}

pub(crate) unsafe extern "C-unwind" fn setuid(user: uid_t) -> c_int {
    // SAFETY: no preconditions.
    leave_if_given_up(unsafe { real::setuid(user) })
}

pub(crate) unsafe extern "C-unwind" fn seteuid(user: uid_t) -> c_int {
    // SAFETY: no preconditions.
    leave_if_given_up(unsafe { real::seteuid(user) })
}

pub(crate) unsafe extern "C-unwind" fn setreuid(real_user: uid_t, effective: uid_t) -> c_int {
    // SAFETY: no preconditions.
    leave_if_given_up(unsafe { real::setreuid(real_user, effective) })
}

pub(crate) unsafe extern "C-unwind" fn setresuid(real_user: uid_t, effective: uid_t, kept: uid_t) -> c_int {
    // SAFETY: no preconditions.
    leave_if_given_up(unsafe { real::setresuid(real_user, effective, kept) })
}
