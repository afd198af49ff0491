//! Signals of the command: what they do, and which are blocked. The one place for it, by the C library, as rustix has neither
//! handlers nor masks.

use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use libc::c_int;

/// Sets what a signal does to this process.
///
/// # Safety
/// The handler does only what a signal handler may do.
pub unsafe fn handle(signal: c_int, handler: extern "C" fn(c_int)) {
    // SAFETY: the handler is a function of the right type, and by the caller one that may run at any time.
    unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
}

/// Lets a signal do what it does by default. Allowed in a handler, and between fork and exec.
pub fn reset(signal: c_int) {
    // SAFETY: the default action needs no handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Lets a signal do nothing. A program that is started meanwhile inherits that.
pub fn ignore(signal: c_int) {
    // SAFETY: to be ignored needs no handler.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Whether SIGPIPE was ignored when the process began, as services of systemd have it: Rust's runtime ignores it in every process, and
/// sets it to its default in those that it starts.
pub fn pipe_was_ignored() -> bool {
    PIPE_WAS_IGNORED.load(Relaxed)
}

static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Whether the process began without a standard output, as after `>&-`: Rust's runtime opens `/dev/null` in its place.
pub fn output_was_closed() -> bool {
    OUTPUT_WAS_CLOSED.load(Relaxed)
}

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's runtime begins.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_BEGINNING: extern "C" fn() = {
    extern "C" fn note() {
        PIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Relaxed);
        // SAFETY: the call changes nothing.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        OUTPUT_WAS_CLOSED.store(flags == -1, Relaxed);
    }
    note
};

/// How often the process has gone on after it was stopped, since the first call.
pub fn continued() -> u64 {
    static CONTINUED: AtomicU64 = AtomicU64::new(0);
    static COUNTS: Once = Once::new();
    extern "C" fn count(_: c_int) {
        CONTINUED.fetch_add(1, Relaxed);
    }
    // SAFETY: an addition may run in a handler.
    COUNTS.call_once(|| unsafe { handle(libc::SIGCONT, count) });
    CONTINUED.load(Relaxed)
}

/// Whether a signal does nothing, as SIGHUP under nohup(1).
pub fn is_ignored(signal: c_int) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: changes nothing and initialises the answer, unless it is no signal's number.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0
            && now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Ends the process by the default action of a signal, unless that signal is ignored. Allowed in a handler.
///
/// # Safety
/// Nothing that has to be dropped is lost by it.
pub unsafe fn die_of(signal: c_int) {
    let this = Set::of([signal]);
    // SAFETY: a signal's number, and a set of it; the calls are allowed in a handler.
    unsafe {
        if libc::signal(signal, libc::SIG_DFL) == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const this.0, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Whether a signal that is blocked has come.
pub fn is_pending(signal: c_int) -> bool {
    let mut pending = MaybeUninit::uninit();
    // SAFETY: the set is initialised by the first call.
    unsafe {
        libc::sigpending(pending.as_mut_ptr());
        libc::sigismember(pending.as_ptr(), signal) == 1
    }
}

/// A set of signals.
#[derive(Clone, Copy)]
pub struct Set(libc::sigset_t);

impl Set {
    /// These signals.
    pub fn of(signals: impl IntoIterator<Item = c_int>) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the set is initialised by the first call; a number that is no signal changes nothing.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            Self(set.assume_init())
        }
    }

    /// Blocks these signals, too, in the calling thread. Returns those that it blocked before.
    #[must_use]
    pub fn block(&self) -> Self {
        let mut before = MaybeUninit::uninit();
        // SAFETY: reads one set and initialises the other.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const self.0, before.as_mut_ptr());
            Self(before.assume_init())
        }
    }

    /// Blocks these signals and no others in the calling thread. Allowed between fork and exec.
    pub fn block_only(&self) {
        // SAFETY: reads a set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }

    /// Waits for one of these signals, which are blocked. Returns its number and who sent it: the process, or none if it was
    /// the terminal or the kernel. No signal if the wait was interrupted.
    pub fn wait(&self) -> Option<(c_int, Option<libc::pid_t>)> {
        // SAFETY: the set is initialised, and all-zero is a valid siginfo to be overwritten; a process's signal has a sender.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let signal = libc::sigwaitinfo(&raw const self.0, &raw mut info);
            (signal >= 0).then(|| (signal, (info.si_code <= 0).then(|| info.si_pid())))
        }
    }
}
