//! Generations of the process: how often it was forked off since the program started.
//!
//! The fork handlers of this library say that a child begins. One that the program makes by the system call itself, past the C
//! library, runs no handlers: so the word of the generation lies in a page that the kernel wipes in a child, and the first lock
//! call that finds it wiped does what the handler would have done.

use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, Ordering};

use crate::algorithm::sleep;
use crate::signals_blocked::with_signals_blocked;

/// The largest page of the architecture.
const PAGE_BYTES: usize = if cfg!(target_arch = "aarch64") { 1 << 16 } else { 1 << 12 };

/// A page of its own, which the kernel wipes in a child.
#[cfg_attr(target_arch = "aarch64", repr(C, align(65536)))]
#[cfg_attr(not(target_arch = "aarch64"), repr(C, align(4096)))]
struct Wiped {
    /// [`KNOWN`] and the generation of this process: how many forks lie between it and the program's start, modulo 2¹⁶. Zero
    /// before this library is loaded, and in a child that has not noticed that it is one.
    generation: AtomicU32,
    /// 1 once a thread of the child has noticed it.
    noticed: AtomicU32,
    _rest: [u8; PAGE_BYTES - 8],
}

static WIPED: Wiped =
    Wiped { generation: AtomicU32::new(0), noticed: AtomicU32::new(0), _rest: [0; PAGE_BYTES - 8] };
const KNOWN: u32 = 1 << 16;

/// Whether the kernel wipes it.
static WIPES: AtomicBool = AtomicBool::new(false);

/// The last generation that was known.
static LAST_GENERATION: AtomicU16 = AtomicU16::new(0);

/// What a child does before its first use of a lock; null until the count has begun.
static CHILD_BEGINS: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Starts the count of generations. A child that finds itself to be one calls `child_begins`, which calls [`next`]. Where the
/// kernel wipes nothing, the fork handlers alone tell.
pub(crate) fn start(child_begins: fn()) {
    let page = (&raw const WIPED).cast_mut().cast();
    // SAFETY: nothing else lies in the page, and what is in it is lost in children on purpose.
    let wipes = unsafe { libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) } == 0;
    WIPES.store(wipes, Ordering::Relaxed);
    WIPED.generation.store(KNOWN, Ordering::Relaxed);
    CHILD_BEGINS.store(child_begins as *mut (), Ordering::Release);
}

/// Whether what was acquired in this generation was acquired in this process, as far as that is known without a closer look.
#[inline(always)]
pub(crate) fn is_now(acquired: u16) -> bool {
    WIPED.generation.load(Ordering::Relaxed) == KNOWN | u32::from(acquired)
}

/// The generation of this process.
#[inline]
pub(crate) fn generation() -> u16 {
    if WIPED.generation.load(Ordering::Relaxed) == 0 {
        notice();
    }
    WIPED.generation.load(Ordering::Relaxed) as u16
}

/// The beginning of a child; nothing before the library is loaded. Of several threads that notice it one begins, and the others
/// wait until it has.
#[cold]
fn notice() {
    const SLEEP_NS: u64 = 50_000;
    let child_begins = CHILD_BEGINS.load(Ordering::Acquire);
    if child_begins.is_null() {
        return;
    }
    // A signal handler that took a lock would wait for the thread that it interrupts.
    with_signals_blocked(|| {
        if WIPED.noticed.swap(1, Ordering::AcqRel) == 0 {
            // SAFETY: `start` stores functions of this type alone.
            unsafe { transmute::<*mut (), fn()>(child_begins)() };
        }
        while WIPED.generation.load(Ordering::Acquire) == 0 {
            sleep(SLEEP_NS, None);
        }
    });
}

/// In a child: what was acquired until now was acquired by the parent.
pub(crate) fn next() {
    let next = LAST_GENERATION.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    WIPED.noticed.store(1, Ordering::Relaxed);
    WIPED.generation.store(KNOWN | u32::from(next), Ordering::Release);
}

/// Whether this process is known to be no child, or the child's beginning has been noticed. False always where the kernel
/// does not wipe.
pub(crate) fn is_noticed() -> bool {
    let known = KNOWN | u32::from(LAST_GENERATION.load(Ordering::Relaxed));
    WIPES.load(Ordering::Relaxed) && WIPED.generation.load(Ordering::Relaxed) == known
}

/// The generation for objects that keep it in a word of their own.
pub(crate) fn generation_word() -> u32 {
    u32::from(generation())
}
