//! Extended time slices of the threads that hold locks of ours alone: mutexes, spin locks, and reader-writer locks for writing. See
//! [`machine::time_slice`]; here is Linux's side of it.
//!
//! They are used where [`VARIABLE`] asks for them, and the kernel and the C library have them: Linux 7.0, glibc 2.41. Elsewhere a lock and
//! an unlock read a byte that is zero, and nothing else. They are not used unasked:
//! - each thread makes a call of `prctl` at its first lock, and `rseq_slice_yield` where an extension was granted. A program that
//!   filters its system calls does not expect either, and `docs/limits.md` does not name them.
//! - no kernel that has them has run the tests yet.
//!
//! Locks that stay glibc's ask for nothing; nor do readers, of whom a writer waits for all. The core is given up when the release is
//! over. But any system call ends an extension at once: where a release wakes a sleeper, the thread loses its core before that, and
//! the sleeper is woken when the thread runs again. Without an extension it would have lost its core with the lock held.
//!
//! The recorder uses another word of the same area (`recorder/off_core.rs`). It finds out by itself that Linux clears that word less often
//! where areas are registered for extensions, and does without.

use core::ffi::{c_long, c_ulong};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, Ordering::Relaxed};

use machine::host::Errno;
use machine::time_slice::{CONTROL_OFFSET, Control, Kernel, reaches_control};

use crate::thread::{self, Thread};

/// The environment variable that asks for extended time slices: `1`; `0` is as if it were not set.
pub(crate) const VARIABLE: &str = "CONTEND_TIME_SLICE";

/// Of a value that is neither, what a complaint says.
const NO_VALUE: &str = "is neither 1, for extended time slices, nor 0, for none";

/// What extended time slices need, as a complaint says it.
const NEEDS: &str = "needs Linux 7.0 with time slice extensions, and glibc 2.41";

/// Whether holds ask. Set by the constructor alone.
static ON: AtomicBool = AtomicBool::new(false);

/// Where a thread's area of restartable sequences lies, relative to the thread pointer.
static AREA: AtomicIsize = AtomicIsize::new(0);

// From Linux: include/uapi/linux/auxvec.h, prctl.h, rseq.h and asm-generic/unistd.h. The number of the call is the same on x86-64.
const AT_RSEQ_FEATURE_SIZE: c_ulong = 27;
const PR_RSEQ_SLICE_EXTENSION: c_ulong = 79;
const GET: c_ulong = 1;
const SET: c_ulong = 2;
const ENABLE: c_ulong = 1;
const FLAGS_OFFSET: usize = 16;
/// `RSEQ_CS_FLAG_SLICE_EXT_AVAILABLE`
const AVAILABLE: u32 = 1 << 4;
const SYS_RSEQ_SLICE_YIELD: c_long = 471;

/// The running kernel.
struct Linux;

// SAFETY: the word is in the C library's block of the thread, from before its first lock until after its last.
unsafe impl Kernel for Linux {
    fn enable(&self) -> Option<NonNull<Control>> {
        let area = thread_pointer().wrapping_offset(AREA.load(Relaxed));
        // SAFETY: `start` has found that the C library registers such areas, each with this word, for all threads.
        let flags = unsafe { &*area.wrapping_add(FLAGS_OFFSET).cast::<AtomicU32>() };
        // A thread without the flag has not registered its area for extensions, and the kernel may end the program that enables them.
        if flags.load(Relaxed) & AVAILABLE == 0 || prctl(SET, ENABLE) != 0 {
            return None;
        }
        NonNull::new(area.wrapping_add(CONTROL_OFFSET).cast())
    }

    #[cold]
    fn relinquish(&self) {
        give_core_up();
    }
}

/// Address of the calling thread's control block.
fn thread_pointer() -> *mut u8 {
    let pointer;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the first word of the block is its own address.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the thread pointer is readable.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// The kernel's answer; an error is negative. errno stays.
fn prctl(command: c_ulong, argument: c_ulong) -> c_long {
    const UNUSED: c_ulong = 0; // all of its 64 bits are looked at
    let errno = Errno::save();
    // SAFETY: numbers alone.
    let answer =
        unsafe { libc::syscall(libc::SYS_prctl, PR_RSEQ_SLICE_EXTENSION, command, argument, UNUSED, UNUSED) };
    errno.restore();
    answer
}

/// Gives the core up if the time slice was extended; negative where there is no such call. errno stays.
fn give_core_up() -> c_long {
    let errno = Errno::save();
    // SAFETY: no arguments, and no effect on memory but the thread's own control word.
    let answer = unsafe { libc::syscall(SYS_RSEQ_SLICE_YIELD) };
    errno.restore();
    answer
}

/// Where the C library keeps the areas, relative to the thread pointer, if they have a control word.
fn find_area() -> Option<isize> {
    // SAFETY: plain look-ups; the two objects are constants of the C library, a ptrdiff_t and an unsigned int.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        let found = !offset.is_null()
            && !size.is_null()
            && reaches_control(u64::from(*size), libc::getauxval(AT_RSEQ_FEATURE_SIZE));
        found.then(|| *offset)
    }
}

/// Does as the variable's value says. Where that cannot be, nothing is different, and the answer is the end of a sentence about the
/// value. Called by the constructor.
pub(crate) fn read(value: &[u8]) -> Result<(), &'static str> {
    match value {
        b"1" if start() => Ok(()),
        b"1" => Err(NEEDS),
        b"0" => Ok(()),
        _ => Err(NO_VALUE),
    }
}

/// Begins to extend time slices; false where that cannot be.
fn start() -> bool {
    let Some(area) = find_area() else { return false };
    AREA.store(area, Relaxed);
    let extends = prctl(GET, 0) >= 0 && Linux.enable().is_some() && give_core_up() >= 0;
    ON.store(extends, Relaxed);
    extends
}

#[inline(always)]
fn is_on() -> bool {
    ON.load(Relaxed)
}

/// The calling thread has acquired a lock of ours, alone.
#[inline(always)]
pub(crate) fn acquired() {
    if is_on() {
        begin_hold();
    }
}

/// The calling thread has released a lock of ours that was held alone.
#[inline(always)]
pub(crate) fn released() {
    if is_on() {
        end_hold();
    }
}

/// The calling thread is about to sleep in a wait for a condition.
#[inline]
pub(crate) fn about_to_sleep() {
    if is_on() {
        thread::current().slice.sleep();
    }
}

/// In the child of a fork, by the thread that it has.
pub(crate) fn forked(thread: &Thread) {
    if is_on() {
        thread.slice.forked();
    }
}

#[inline(never)]
fn begin_hold() {
    thread::current().slice.begin(&Linux);
}

#[inline(never)]
fn end_hold() {
    thread::current().slice.end(&Linux);
}
