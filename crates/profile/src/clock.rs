//! The cycle counter; on AArch64, which shows programs none, the timer, a tick of which takes 1 to 40 ns. A profile holds ticks
//! and says how many there were in its time, so that their length does not matter to a reader.
//!
//! Not `machine`'s counter: that one is scaled to nanoseconds where it is a timer, which a record does not need, and recording
//! depends on nothing but `pthread`.

/// The counter's present value. Only differences mean anything; the same rate on every core.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the counter, and Linux leaves it readable unless a process forbids it to itself.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: the virtual counter is readable from user space under Linux.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    compile_error!("recording needs a cycle counter that user space may read: x86-64 and AArch64 are known");
}

/// The present time by one of the kernel's clocks, ns.
#[cfg(feature = "read")]
pub(crate) fn clock_ns(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
