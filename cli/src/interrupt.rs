//! Interrupts of commands that take long: what is finished is printed, marked as cut short.

use report::Screen;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a command exits with that was cut short: 128 and the number of SIGINT, as shells have it.
pub(crate) const CUT_SHORT: u8 = 128 + 2;

/// Whether the first interrupt is kept, and whether it has come.
static KEPT: AtomicBool = AtomicBool::new(false);
static CAME: AtomicBool = AtomicBool::new(false);

/// Keeps the first interrupt (Ctrl-C) from ending the command: [`came`] tells of it. A second one ends the command.
pub(crate) fn keep() {
    extern "C" fn note(signal: libc::c_int) {
        if !take(signal) {
            // SAFETY: these calls are allowed in a handler.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
    KEPT.store(true, Ordering::Relaxed);
    // SAFETY: the handler is a plain function that does what handlers may do.
    unsafe { libc::signal(libc::SIGINT, note as *const () as libc::sighandler_t) };
}

/// Takes a signal for noted, in a handler: whether it was the first interrupt of a command that keeps it.
pub(crate) fn take(signal: libc::c_int) -> bool {
    signal == libc::SIGINT && KEPT.load(Ordering::Relaxed) && !CAME.swap(true, Ordering::Relaxed)
}

/// Whether the command was interrupted.
pub(crate) fn came() -> bool {
    CAME.load(Ordering::Relaxed)
}

/// What is set when the command is interrupted, for whoever looks often.
pub(crate) fn flag() -> &'static AtomicBool {
    &CAME
}

/// Says on standard error that what was printed is not all, if so, and gives the exit code: `otherwise` if the command
/// came to its end.
pub(crate) fn exit_code(finished: &str, otherwise: ExitCode) -> ExitCode {
    if !came() {
        return otherwise;
    }
    say(finished);
    ExitCode::from(CUT_SHORT)
}

/// The same where the process must end here and now.
pub(crate) fn exit(finished: &str) -> ! {
    say(finished);
    std::process::exit(CUT_SHORT.into())
}

fn say(finished: &str) {
    eprint!("{}", Screen::stderr().fit(&format!("contend: cut short by an interrupt: {finished}\n")));
}
