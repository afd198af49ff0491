//! The processor's counter of cycles, or what comes nearest to it.
//!
//! x86-64 has a time stamp counter, which runs at a fixed rate near the processor's own. AArch64 shows user programs no
//! counter of cycles, but a timer whose rate is the maker's choice: 24 MHz here, 1 GHz there (Arm Architecture Reference
//! Manual, "The Generic Timer"). Its ticks are scaled to nanoseconds, so that a cycle of this machine is a nanosecond there:
//! the back-offs of the literature, in cycles of processors of some gigahertz, keep their order of magnitude.

/// Cycles since some moment, nanoseconds on AArch64. The read may be done a little before or after what stands around it.
#[inline]
pub fn cycles() -> u64 {
    // Miri has no counter; a cycle is a nanosecond there, as on AArch64.
    #[cfg(miri)]
    return super::futex::clock_ns(crate::Clock::Monotonic);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: present on every x86-64.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let ticks: u64;
        // SAFETY: Linux lets user programs read the timer.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        scale::scaled(ticks, scale::of_this_computer())
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    compile_error!("delays need a counter that user programs may read: x86-64 and AArch64 are known");
}

/// From ticks to nanoseconds.
#[cfg(any(target_arch = "aarch64", test))]
mod scale {
    /// Nanoseconds a tick of a timer of this rate, with 32 fraction bits.
    pub(super) fn from_hertz(hertz: u64) -> u64 {
        // Firmware that leaves the rate unset has not been seen with a kernel that runs; a tick is a nanosecond then.
        (1_000_000_000 << 32) / if hertz == 0 { 1_000_000_000 } else { hertz }
    }

    #[inline]
    pub(super) fn scaled(ticks: u64, scale: u64) -> u64 {
        ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
    }

    /// The scale of this computer's timer.
    #[cfg(target_arch = "aarch64")]
    #[inline]
    pub(super) fn of_this_computer() -> u64 {
        use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
        static SCALE: AtomicU64 = AtomicU64::new(0);
        match SCALE.load(Relaxed) {
            0 => {
                let hertz: u64;
                // SAFETY: Linux lets user programs read the timer's rate.
                unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack)) };
                let scale = from_hertz(hertz);
                SCALE.store(scale, Relaxed);
                scale
            }
            scale => scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::scale::{from_hertz, scaled};

    #[test]
    fn a_second_of_any_timer_is_a_second() {
        for hertz in [1, 24_000_000, 62_500_000, 121_875_000, 1_000_000_000] {
            let second = scaled(hertz, from_hertz(hertz));
            assert!((999_999_999..=1_000_000_000).contains(&second), "{second} ns at {hertz} Hz");
        }
        assert_eq!(scaled(7, from_hertz(0)), 7);
    }

    #[test]
    fn a_year_does_not_wrap() {
        const YEAR_S: u64 = 365 * 86_400;
        let ns = scaled(YEAR_S * 24_000_000, from_hertz(24_000_000));
        assert!(ns.abs_diff(YEAR_S * 1_000_000_000) < 10_000_000, "{ns}");
    }
}
