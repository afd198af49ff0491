//! Interrupts of commands that take long, by Ctrl-C, SIGTERM or the end of the terminal: what is finished is printed, marked as cut
//! short, and nothing temporary is left behind.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use machine::{Clock, Machine as _, Native};

use crate::{scratch, signals};

/// Whether the first interrupt is kept, and whether it has come.
static KEPT: AtomicBool = AtomicBool::new(false);
static CAME: AtomicBool = AtomicBool::new(false);

/// When it came; 0 before.
static CAME_AT_NS: AtomicU64 = AtomicU64::new(0);

/// What comes so soon after the first interrupt is a part of it: timeout(1) sends one to the command and one to its group.
const TOGETHER_NS: u64 = 100_000_000;

/// The signals that interrupt.
const SIGNALS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Those that do nothing where the process that started the command has them ignored, as nohup(1) does.
const IGNORABLE: [libc::c_int; 2] = [libc::SIGHUP, libc::SIGQUIT];

/// Keeps the first interrupt from ending the command: [`came`] tells of it. A second one ends the command.
pub fn keep() {
    extern "C" fn note(signal: libc::c_int) {
        if !take(signal) {
            // SAFETY: a user who interrupts a second time wants no more of it.
            unsafe { end(signal) };
        }
    }
    KEPT.store(true, Ordering::Relaxed);
    for signal in SIGNALS {
        if IGNORABLE.contains(&signal) && signals::is_ignored(signal) {
            continue;
        }
        // SAFETY: the handler is a plain function that does what handlers may do.
        unsafe { signals::handle(signal, note) };
    }
}

/// Takes a signal for noted, in a handler: whether it was the first interrupt of a command that keeps it, or one with that.
pub fn take(signal: libc::c_int) -> bool {
    if !SIGNALS.contains(&signal) || !KEPT.load(Ordering::Relaxed) {
        return false;
    }
    CAME.store(true, Ordering::Relaxed);
    let now = Native::clock_ns(Clock::Monotonic).max(1);
    match CAME_AT_NS.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => true,
        Err(first) => now.saturating_sub(first) < TOGETHER_NS,
    }
}

/// Ends the command by a signal; a [`scratch::Scratch`] goes with it. Allowed in a handler.
///
/// # Safety
/// As of [`signals::die_of`].
pub unsafe fn end(signal: libc::c_int) {
    scratch::remove_now();
    // SAFETY: the caller's promise.
    unsafe { signals::die_of(signal) };
}

/// Whether the command was interrupted.
pub fn came() -> bool {
    CAME.load(Ordering::Relaxed)
}

/// Hands on what is received, until all senders are gone; false if the command was interrupted before.
///
/// # Errors
/// The first one of `each`, after which nothing more is received.
pub fn receive_all<T, E>(
    receiver: &Receiver<T>,
    mut each: impl FnMut(T) -> Result<(), E>,
) -> Result<bool, E> {
    /// So long an interrupt may wait to be seen.
    const POLL_EVERY: Duration = Duration::from_millis(50);
    loop {
        match receiver.recv_timeout(POLL_EVERY) {
            Ok(received) => each(received)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(true),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if came() {
            return Ok(false);
        }
    }
}

/// What is set when the command is interrupted, for code that looks often.
pub fn flag() -> &'static AtomicBool {
    &CAME
}
