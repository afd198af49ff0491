//! How a thread learns that it has left its core, without a system call.
//!
//! The kernel clears the word `rseq_cs` of a thread's restartable-sequences area when the thread comes back from a switch, a
//! migration or a signal, and its program counter is outside of the sequence that the word names. So a word that names a sequence in which no thread ever is
//! stays as long as the thread is on its core. Linux 6.19 and later skip that for threads that come back from a system
//! call: there it says nothing of sleep, and is not used. Programs may have sequences of their own; then it is not used either.

use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use machine::host::Errno;

/// `struct rseq_cs`, include/uapi/linux/rseq.h.
#[repr(C, align(32))]
struct Sequence {
    version: u32,
    flags: u32,
    start: *const u32,
    length: u64,
    abort: *const u32,
}

// SAFETY: constants, of which the kernel alone reads what the pointers lead to.
unsafe impl Sync for Sequence {}

/// What the C library has registered as the mark of places at which an aborted sequence goes on.
#[cfg(target_arch = "x86_64")]
const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const SIGNATURE: u32 = 0xd428_bc00;

/// Stands for the code of the sequence. It is data, which no thread executes. The kernel wants the mark in front of the place to abort to.
static NO_CODE: [u32; 4] = [0, 0, SIGNATURE, 0];

static SEQUENCE: Sequence = Sequence {
    version: 0,
    flags: 0,
    start: (&raw const NO_CODE).cast(),
    length: 1,
    abort: (&raw const NO_CODE).cast::<u32>().wrapping_add(3),
};

/// Where a thread's `rseq_cs` lies, relative to the thread pointer; 0 while no threads are watched.
static WORD: AtomicIsize = AtomicIsize::new(0);

/// The word at this place relative to the thread pointer.
#[inline]
fn read(word: isize) -> *const Sequence {
    let found;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the place is that of `rseq_cs` in the C library's own area of this thread.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[{}]", out(reg) found, in(reg) word,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: likewise; the thread pointer is readable.
    unsafe {
        core::arch::asm!("mrs {0}, tpidr_el0", "ldr {0}, [{0}, {1}]", out(reg) found, in(reg) word,
            options(nostack, preserves_flags, readonly));
    }
    found
}

/// Writes the word at this place relative to the thread pointer.
fn write(word: isize, sequence: *const Sequence) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the place is that of `rseq_cs` in the C library's own area of this thread. What is written is null, or a sequence
    // that the kernel accepts, and that is never unmapped.
    unsafe {
        core::arch::asm!("mov qword ptr fs:[{}], {}", in(reg) word, in(reg) sequence, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: likewise; the thread pointer is readable.
    unsafe {
        core::arch::asm!("mrs {0}, tpidr_el0", "str {2}, [{0}, {1}]", out(reg) _, in(reg) word, in(reg) sequence,
            options(nostack, preserves_flags));
    }
}

/// Whether the calling thread has not left its core since [`watch`]; true while no threads are watched.
#[inline]
pub(super) fn stayed() -> bool {
    let word = WORD.load(Relaxed);
    word == 0 || core::ptr::eq(read(word), &raw const SEQUENCE)
}

/// Watches the calling thread from here on. False where the program has named a sequence of its own, which stays.
pub(super) fn watch() -> bool {
    let word = WORD.load(Relaxed);
    if word == 0 {
        return true; // another thread has just found that watching is no use
    }
    let found = read(word);
    if found.is_null() {
        write(word, &raw const SEQUENCE);
    }
    found.is_null() || core::ptr::eq(found, &raw const SEQUENCE)
}

/// No thread is watched any more.
pub(super) fn stop() {
    WORD.store(0, Relaxed);
}

/// Voluntary and involuntary switches of the calling thread so far.
pub(super) fn switches() -> [u64; 2] {
    let saved = Errno::save();
    // SAFETY: all-zero is a valid rusage, and writable for the call. Where a filter of system calls refuses it, it stays zero.
    let usage = unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    saved.restore();
    [usage.ru_nvcsw as u64, usage.ru_nivcsw as u64]
}

/// Begins to watch threads, whose `rseq_cs` lies there relative to the thread pointer. False where this kernel does not tell all
/// switches by it: that is tried, since versions of kernels say little of what is in them.
pub(super) fn start(word: isize) -> bool {
    WORD.store(word, Relaxed);
    let told = read(word).is_null() && tells_sleep(word);
    if !told {
        stop();
    }
    told
}

/// Whether a short sleep of the calling thread is told.
fn tells_sleep(word: isize) -> bool {
    const TRIES: u32 = 5;
    for attempt in 0..TRIES {
        write(word, &raw const SEQUENCE);
        let [before, _] = switches();
        sleep(10_000 << attempt);
        let [after, _] = switches();
        if after > before {
            let told = read(word).is_null();
            write(word, null());
            return told;
        }
    }
    write(word, null());
    false
}

/// Waits for so long for a futex that no thread wakes: a filter of system calls allows that wherever there are locks.
fn sleep(ns: i64) {
    let saved = Errno::save();
    let (futex, time) = (0_u32, libc::timespec { tv_sec: 0, tv_nsec: ns });
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: word and time are valid for the call.
    unsafe {
        libc::syscall(libc::SYS_futex, &raw const futex, operation, 0, &raw const time, null_mut::<u32>(), 0);
    }
    saved.restore();
}
