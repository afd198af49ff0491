//! What makes a wait a point of cancellation: clean-up handlers, and a system call that a cancellation cuts short.

use core::ffi::{c_int, c_long, c_void};
use core::hint::black_box;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::algorithm::sleep;

/// glibc's record of a clean-up handler, `struct _pthread_cleanup_buffer`. It lies in the frame whose unwinding runs the
/// handler.
#[repr(C)]
struct Cleanup {
    routine: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    argument: *mut c_void,
    cancel_type: c_int,
    previous: *mut Self,
}

// SAFETY: glibc exports them with these signatures.
unsafe extern "C-unwind" {
    fn _pthread_cleanup_push(
        buffer: *mut Cleanup,
        routine: unsafe extern "C-unwind" fn(*mut c_void),
        argument: *mut c_void,
    );
    fn _pthread_cleanup_pop(buffer: *mut Cleanup, execute: c_int);
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
}

/// The C library's function for any system call.
pub(crate) type Syscall = unsafe extern "C-unwind" fn(c_long, ...) -> c_long;

// From glibc's pthread.h.
const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;
/// The state of a thread that no cancellation touches.
pub(crate) const DISABLED: c_int = 1;

/// Sets the calling thread's state of cancellation, and gives the one before.
pub(crate) fn set_state(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: changes the calling thread's own state.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

/// Runs `body`, and `handler` with `argument` should the thread be cancelled meanwhile.
///
/// A destructor would not do: the compiler may turn the last call of a function into a jump, or abort where unwinding
/// crosses a boundary of C. So nothing here, or in what is called, has one.
#[inline(always)]
pub(crate) fn with_cleanup<R>(
    handler: unsafe extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    body: impl FnOnce() -> R,
) -> R {
    let mut buffer = MaybeUninit::<Cleanup>::uninit();
    // SAFETY: the buffer lies in this frame and is popped before it ends.
    unsafe { _pthread_cleanup_push(buffer.as_mut_ptr(), handler, argument) };
    let result = body();
    // SAFETY: pushed above.
    unsafe { _pthread_cleanup_pop(buffer.as_mut_ptr(), 0) };
    result
}

/// Lets `body` make one system call that a cancellation of the thread cuts short. It does nothing else: it may end anywhere.
///
/// All calls go through addresses taken before: on AArch64 a call by name goes through a stub of the linker's that has no
/// unwind table, and a cancellation that came there would end the thread without unwinding it.
#[inline(always)]
pub(crate) fn point(body: impl FnOnce(Syscall) -> c_long) -> c_long {
    let set_type =
        black_box(pthread_setcanceltype as unsafe extern "C-unwind" fn(c_int, *mut c_int) -> c_int);
    let syscall = black_box(syscall as Syscall);
    let mut before = DEFERRED;
    // SAFETY: changes the calling thread's own type.
    unsafe { set_type(ASYNCHRONOUS, &raw mut before) };
    let answer = body(syscall);
    // SAFETY: changes the calling thread's own type.
    unsafe { set_type(before, &raw mut before) };
    await_signal_under_way();
    answer
}

// Bits of `cancelhandling` in glibc's `struct pthread`, from its nptl/descr.h.
const STATE_DISABLED: u32 = 1;
const TYPE_ASYNCHRONOUS: u32 = 1 << 1;
const CANCELING: u32 = 1 << 2;
const CANCELED: u32 = 1 << 3;

/// So often a wait for a signal that is under way yields before it sleeps.
const MOST_YIELDS: u32 = 100;

/// Where a thread's `cancelhandling` lies behind its thread pointer; 0 if it was not found.
static WORD: AtomicUsize = AtomicUsize::new(0);

/// How far behind the thread pointer it is looked for: inside every version's `struct pthread`.
const SEARCHED_BYTES: usize = 1536;

/// Waits until the signal of a cancellation that found the thread cancellable at once, and is under way, has come.
///
/// glibc's handler of that signal sets the thread's result whatever the thread does by then. In a thread that went on and
/// has ended meanwhile, it would make a value that was returned look like a cancellation; so glibc's own waits do not
/// return before it has come either.
#[inline]
fn await_signal_under_way() {
    let offset = WORD.load(Ordering::Relaxed);
    if offset == 0 {
        return;
    }
    let word = own_word(offset);
    let mut yields = 0;
    while word.load(Ordering::Relaxed) & (CANCELING | CANCELED) == CANCELING {
        if yields < MOST_YIELDS {
            yields += 1;
            // SAFETY: no arguments.
            unsafe { libc::sched_yield() };
        } else {
            sleep(50_000, None); // the thread that sends it may have a lower priority, and need this core
        }
    }
}

/// A word of the calling thread's `struct pthread`.
fn own_word<'a>(offset: usize) -> &'a AtomicU32 {
    // SAFETY: a thread's identity is the address of its `struct pthread`, which is longer than what is searched and lives as
    // long as the thread.
    unsafe { &*(libc::pthread_self() as *const u8).add(offset).cast::<AtomicU32>() }
}

/// Finds a thread's `cancelhandling`, by looking which word changes with the thread's type and state of cancellation.
/// At load, while the process has one thread.
pub(crate) fn find_word() {
    let (mut of_type, mut unused) = (0, 0);
    let snapshot =
        || core::array::from_fn::<_, { SEARCHED_BYTES / 4 }, _>(|i| own_word(4 * i).load(Ordering::Relaxed));
    let plain = snapshot();
    // SAFETY: changes the calling thread's own type, and back.
    let asynchronous = unsafe {
        pthread_setcanceltype(ASYNCHRONOUS, &raw mut of_type);
        let asynchronous = snapshot();
        pthread_setcanceltype(of_type, &raw mut unused);
        asynchronous
    };
    let of_state = set_state(DISABLED);
    let disabled = snapshot();
    set_state(of_state);
    let mut found = (0..plain.len()).filter(|&i| {
        plain[i] ^ asynchronous[i] == TYPE_ASYNCHRONOUS && plain[i] ^ disabled[i] == STATE_DISABLED
    });
    if let (Some(only), None) = (found.next(), found.next()) {
        WORD.store(4 * only, Ordering::Relaxed);
    }
}
