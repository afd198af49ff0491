//! Sections of this library that neither a signal handler nor a cancellation may interrupt.
//!
//! A handler may call a lock function: POSIX programs try locks there. Where the interrupted thread is half-way through
//! something that the handler's call needs, the handler would wait for it for ever, or find it half done. And the system
//! calls of opening and reading files are points of cancellation, which lock functions are not. So what is done seldom
//! (deciding about an object, taking space in a profile) is done with signals blocked; what is done on every call is written so that
//! a handler may come at any instruction.

use core::ffi::c_int;

use crate::cancellation;

/// What a thread had unblocked before it blocked everything. Zeros are a thread that had blocked nothing.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    signals: SignalMask,
    cancel_state: c_int,
}

/// Runs `body` with the thread's signals blocked and its cancellation off.
pub(crate) fn with_signals_blocked<R>(body: impl FnOnce() -> R) -> R {
    let before = block_signals();
    let result = body();
    unblock_signals(before);
    result
}

/// Blocks the signals and the cancellation of the calling thread.
pub(crate) fn block_signals() -> Before {
    let cancel_state = cancellation::set_state(cancellation::DISABLED);
    Before { signals: set_signal_mask(libc::SIG_BLOCK, BLOCKED), cancel_state }
}

/// Unblocks what was unblocked before.
pub(crate) fn unblock_signals(before: Before) {
    set_signal_mask(libc::SIG_SETMASK, before.signals);
    cancellation::set_state(before.cancel_state);
}

/// A set of signals as the kernel takes it: signal `n` is bit `n - 1`.
type SignalMask = u64;

/// All signals but those that an instruction raises: a program may handle faults of its own memory, in which an object of
/// ours may lie, and one that is blocked ends the process. One of them that the program has blocked stays so.
const BLOCKED: SignalMask = !(bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGFPE)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS));

const fn bit(signal: c_int) -> SignalMask {
    1 << (signal - 1)
}

/// Changes which signals the calling thread blocks, and returns those that it blocked before.
///
/// By the system call itself, since the C library's function leaves the signal of a cancellation through: its handler may
/// end the thread.
fn set_signal_mask(how: c_int, mask: SignalMask) -> SignalMask {
    let mut before: SignalMask = 0;
    // SAFETY: the kernel reads one mask and writes the other, both of the length given; valid ones never fail.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const mask,
            &raw mut before,
            size_of::<SignalMask>(),
        )
    };
    before
}
