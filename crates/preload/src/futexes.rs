//! The C library's function `syscall`, by which locks that are no pthread's sleep and wake: those of Rust's `std` and `parking_lot`,
//! oneTBB's, Abseil's, folly's, `std::atomic::wait` of libstdc++. glibc's own functions make their calls themselves, and so do Go's
//! runtime and other code with the instruction in it: these do not come here.
//!
//! While the process records, each wait in a futex is handed on when it is over, with its times and its stack ([`profile::futex_calls`]);
//! so is each call that woke a thread, as long as there is space, since by such a call the holder of a lock releases it. That is after
//! the critical section, and no release without a sleeping waiter walks a stack. Every other call, and every one where nothing is recorded, is the bare instruction, in a function that leaves stack and
//! registers as glibc's does: the child of a `clone` returns on its new stack, a `rt_sigreturn` finds its frame, and a
//! cancellation is unwound from here. That costs a comparison of the number.
//!
//! The functions that record allocate nothing, wait for nothing and change nothing but errno as the call does, so that they may run in
//! signal handlers, before the constructor, and in children that share their parent's memory. A wait that is not over when the process
//! ends is not told; nor is the time of one that has been cancelled. This library's own calls come here, too, since a name has one
//! definition, and are told by the address they return to. Nor is a wait counted twice that a lock of the program's tells of itself
//! ([`profile::hooks`]).

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use machine::host::Errno;
use machine::{Clock, Machine as _, Native};
use profile::futex_calls::CALLERS_OF_WAIT;

use crate::recorder::{self, FutexRecord};
use crate::{thread, unwind};

/// Whether waits are recorded.
static WATCHES: AtomicBool = AtomicBool::new(false);

/// Begins or ends to record waits.
pub(crate) fn watch(watches: bool) {
    WATCHES.store(watches, Relaxed);
}

// From linux/futex.h; each may have the flags.
const FLAGS: usize = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as usize;
/// `FUTEX_WAIT`, `FUTEX_LOCK_PI`, `FUTEX_WAIT_BITSET`, `FUTEX_WAIT_REQUEUE_PI` and `FUTEX_LOCK_PI2`.
const WAITS: [usize; 5] = [0, 6, 9, 11, 13];
/// `FUTEX_WAKE` and `FUTEX_WAKE_BITSET`, by which locks are released.
const WAKES: [usize; 2] = [1, 10];

/// Errors are the numbers from here on.
const FIRST_ERROR: usize = -4095_isize as usize;

/// glibc's `syscall`. The number of futex(2) is known where it is told apart, so that its register has the return address on.
///
/// # Safety
/// As the system call says.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn syscall() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        ".cfi_startproc",
        "cmp rdi, {futex_number}",
        "je 3f",
        "2:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, {first_error}",
        "jae 4f",
        "ret",
        "3:",
        "cmp byte ptr [rip + {watches}], 0",
        "je 2b",
        "mov rdi, [rsp]",
        "jmp {futex}",
        "4:",
        "mov rdi, rax",
        "jmp {answer}",
        ".cfi_endproc",
        futex_number = const libc::SYS_futex,
        first_error = const FIRST_ERROR as isize,
        watches = sym WATCHES,
        futex = sym futex,
        answer = sym answer,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        ".cfi_startproc",
        "cmp x0, #{futex_number}",
        "b.eq 3f",
        "2:",
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc #0",
        "cmn x0, #4095",
        "b.cs 4f",
        "ret",
        "3:",
        "adrp x16, {watches}",
        "ldrb w16, [x16, :lo12:{watches}]",
        "cbz w16, 2b",
        "mov x0, x30",
        "b {futex}",
        "4:",
        "b {answer}",
        ".cfi_endproc",
        futex_number = const libc::SYS_futex,
        watches = sym WATCHES,
        futex = sym futex,
        answer = sym answer,
    );
}

/// What the C library's function returns where the kernel answered so.
extern "C-unwind" fn answer(result: usize) -> isize {
    if result < FIRST_ERROR {
        return result.cast_signed();
    }
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() = result.wrapping_neg() as i32 };
    -1
}

/// The futex call with these arguments, from a call that returns to `caller`.
///
/// # Safety
/// As futex(2) says.
unsafe extern "C-unwind" fn futex(
    caller: usize,
    word: usize,
    operation: usize,
    value: usize,
    time: usize,
    second: usize,
    third: usize,
) -> isize {
    let arguments = [word, operation, value, time, second, third];
    // SAFETY: passed on.
    let call = || unsafe { futex_call(arguments) };
    let thread = thread::current();
    if recorder::own_code().contains(&caller) || thread.is_in_told_wait.get() {
        return answer(call());
    }
    let kind = operation & !FLAGS & 0xffff_ffff;
    let waits = WAITS.contains(&kind);
    if !waits {
        thread.woke.set(true);
    }
    if !waits && !WAKES.contains(&kind) {
        return answer(call());
    }
    let begun_ns = Native::clock_ns(Clock::Monotonic);
    let mut callers = [0; CALLERS_OF_WAIT];
    let walk = |callers: &mut [u64; CALLERS_OF_WAIT]| unwind::stack(callers) as u8;
    // A wait sleeps anyway; those that a release wakes are not to wait for the walk.
    let depth = if waits { walk(&mut callers) } else { 0 };
    let result = call();
    let has_woken = (1..FIRST_ERROR).contains(&result);
    if !(waits || has_woken && recorder::has_space_for_wakes()) {
        return answer(result);
    }
    let saved = Errno::save();
    // SAFETY: these have no preconditions.
    let (pid, tid) = unsafe { (libc::getpid(), libc::gettid()) };
    recorder::futex_called(&FutexRecord {
        section: 0,
        pid: pid.cast_unsigned(),
        tid: tid.cast_unsigned(),
        word: word as u64,
        operation: operation as u32,
        value: value as u32,
        begun_ns,
        ended_ns: Native::clock_ns(Clock::Monotonic),
        result: result as i32,
        woke: if waits { thread.woke.replace(false) } else { true },
        parked_on: if waits { parked_on(word, result) } else { 0 },
        depth: if waits { depth } else { walk(&mut callers) },
        callers,
    });
    saved.restore();
    answer(result)
}

/// Makes the call.
///
/// # Safety
/// As futex(2) says.
#[inline(always)]
unsafe fn futex_call([word, operation, value, time, second, third]: [usize; 6]) -> usize {
    let result;
    // SAFETY: the caller's promise. The kernel changes these registers alone.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("syscall", inlateout("rax") libc::SYS_futex as usize => result, in("rdi") word, in("rsi") operation, in("rdx") value,
            in("r10") time, in("r8") second, in("r9") third, lateout("rcx") _, lateout("r11") _, options(nostack));
        #[cfg(target_arch = "aarch64")]
        asm!("svc #0", in("x8") libc::SYS_futex, inlateout("x0") word => result, in("x1") operation, in("x2") value,
            in("x3") time, in("x4") second, in("x5") third, options(nostack));
    }
    result
}

/// Where `parking_lot`'s threads have the address of what they wait for, before the futex; bytes.
const PARKED_ON: usize = 32;
/// Thread-local variables of the program lie so near to the thread pointer.
const NEAR: usize = 1 << 16;
/// Bytes of a page, where pages are smallest.
const SMALLEST_PAGE: usize = 4096;

/// What lies where `parking_lot` would have the address of the lock, if the futex is a thread-local variable of the calling thread;
/// otherwise 0. `result` is that of the wait, which tells whether there is memory.
fn parked_on(futex: usize, result: usize) -> u64 {
    let was_read = [0, -libc::EAGAIN, -libc::ETIMEDOUT, -libc::EINTR].contains(&(result as i32));
    let pointer: usize;
    // SAFETY: reads the thread pointer, which every thread has.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly));
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    let distance =
        if cfg!(target_arch = "x86_64") { pointer.wrapping_sub(futex) } else { futex.wrapping_sub(pointer) };
    let is_own = distance < NEAR;
    if !was_read || !is_own || futex % SMALLEST_PAGE < PARKED_ON {
        return 0;
    }
    // SAFETY: the kernel has read the futex, and this is the same page, of the calling thread's own memory.
    unsafe { ((futex - PARKED_ON) as *const u64).read_unaligned() }
}
