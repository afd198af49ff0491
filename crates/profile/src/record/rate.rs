//! How fast the counter of ticks runs: what is long, or rare, is a time, whatever a tick is.
//!
//! The counter of x86-64 has some ticks in a nanosecond. The timer of AArch64, which is its counter here, has one in a nanosecond on
//! newer processors, and one in forty on others (Arm Architecture Reference Manual, "The Generic Timer").

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Fraction bits of a rate.
const FRACTION: u32 = 32;

/// A tick a nanosecond.
const ONE: u64 = 1 << FRACTION;

/// What no counter is: slower than a tick in a microsecond, or faster than ten in a nanosecond. A process that shares the file may have
/// written any time there.
const SLOWEST: u64 = ONE / 1_000;
const FASTEST: u64 = 10 * ONE;

/// Ticks in a nanosecond.
#[derive(Debug)]
pub(super) struct Rate(AtomicU64);

impl Rate {
    /// One, until more is known.
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(ONE))
    }

    /// Takes the rate from what the counter and a clock have shown since some moment. In next to no time they show nothing, and the
    /// rate stays what it is.
    pub(super) fn learn(&self, ticks: u64, ns: u64) {
        /// What lies between the readings of two clocks is no part of this that matters.
        const ENOUGH_NS: u64 = 10_000;
        let rate = (u128::from(ticks) << FRACTION) / u128::from(ns.max(1));
        if let Ok(rate @ SLOWEST..=FASTEST) = u64::try_from(rate)
            && ns >= ENOUGH_NS
        {
            self.0.store(rate, Relaxed);
        }
    }

    /// Ticks in so many nanoseconds, which are no more than a tenth of a second.
    #[inline]
    pub(super) fn ticks(&self, ns: u64) -> u64 {
        (self.0.load(Relaxed) * ns) >> FRACTION
    }
}

// The product fits.
const _: () = assert!(FASTEST < u64::MAX / 100_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    /// Of x86-64, and of timers of AArch64.
    #[test]
    fn a_time_is_the_same_by_every_counter() {
        for hertz in [24_000_000, 62_500_000, 1_000_000_000, 2_600_000_000, 5_700_000_000] {
            let rate = Rate::new();
            rate.learn(hertz / 100, 10_000_000);
            let expected = hertz / 10_000; // in 100 µs
            assert!(rate.ticks(100_000).abs_diff(expected) <= 1, "{} at {hertz} Hz", rate.ticks(100_000));
        }
    }

    #[test]
    fn clocks_that_show_nothing_change_nothing() {
        let rate = Rate::new();
        rate.learn(2_000_000, 1_000_000);
        for (ticks, ns) in [(0, 0), (9_000, 9_999), (1, 1_000_000_000), (u64::MAX, 1_000_000), (0, 1 << 40)] {
            rate.learn(ticks, ns);
            assert_eq!(rate.ticks(1_000), 2_000, "after {ticks} ticks in {ns} ns");
        }
    }
}
