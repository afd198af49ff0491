//! Whether it is worth giving the processor away in a wait.
//!
//! Where the threads that want this core wait for locks as well, a yield comes back after some microseconds. Where one of them
//! computes, in this program or in another, it comes back after a time slice; and if the lock is handed over to the waiter
//! meanwhile, every waiter behind it waits as long. A sleeper that is woken runs sooner than that. So a yield that took a time
//! slice keeps all waits of the process from yielding, for a multiple of what it took; then one thread tries again.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Cycles from which on a yield counts as having taken a time slice, of which the shortest that Linux gives is 0.7 ms.
const SLICE_CYCLES: u64 = 1_000_000;

/// For how many times as long as the yield took, none follows: what yields may waste is one part in so many.
const PAUSE: u64 = 64;

/// The longest pause in cycles, some seconds. A counter that says more has been set back, as by hibernation.
const LONGEST_PAUSE: u64 = 1 << 34;

/// What the last yields of the process, or of a simulated one, have cost.
#[derive(Debug, Default)]
pub struct YieldCosts {
    /// When to try again, by the cycle counter; 0 while yields cost little.
    again_at: AtomicU64,
}

impl YieldCosts {
    /// Yields are taken to cost little.
    pub const fn new() -> Self {
        Self { again_at: AtomicU64::new(0) }
    }

    /// Yields, if that is worth it now; gives the cycles that it took.
    #[inline]
    pub fn try_yield(&self, cycles: impl Fn() -> u64, yield_now: impl FnOnce()) -> Option<u64> {
        let started = cycles();
        if !self.may_yield(started) {
            return None;
        }
        yield_now();
        let now = cycles();
        let took = now.wrapping_sub(started);
        self.note(now, took);
        Some(took)
    }

    /// Whether a wait may yield `now`. Of those who ask at the end of a pause, one may.
    #[inline]
    fn may_yield(&self, now: u64) -> bool {
        let again_at = self.again_at.load(Relaxed);
        again_at == 0 || self.is_next(again_at, now)
    }

    #[cold]
    fn is_next(&self, again_at: u64, now: u64) -> bool {
        let left = again_at.wrapping_sub(now);
        if (1..=LONGEST_PAUSE).contains(&left) {
            return false;
        }
        let meanwhile = pause_until(now, SLICE_CYCLES);
        self.again_at.compare_exchange(again_at, meanwhile, Relaxed, Relaxed).is_ok()
    }

    /// Notes that a yield took so many cycles, until `now`.
    #[inline]
    fn note(&self, now: u64, took: u64) {
        if took >= SLICE_CYCLES {
            self.again_at.store(pause_until(now, took), Relaxed);
        } else if self.again_at.load(Relaxed) != 0 {
            self.again_at.store(0, Relaxed);
        }
    }
}

/// The end of the pause after a yield that took so many cycles. Never 0, which stands for no pause.
fn pause_until(now: u64, took: u64) -> u64 {
    now.wrapping_add(took.saturating_mul(PAUSE).min(LONGEST_PAUSE)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: u64 = 3_000;
    const SLICE: u64 = 10_000_000;

    #[test]
    fn yields_go_on_while_they_are_short() {
        let costs = YieldCosts::new();
        for now in (1..100).map(|step| step * SHORT) {
            assert!(costs.may_yield(now));
            costs.note(now + SHORT, SHORT);
        }
    }

    #[test]
    fn one_that_took_a_time_slice_is_followed_by_a_pause_and_one_attempt() {
        let costs = YieldCosts::new();
        costs.note(SLICE, SLICE);
        let end = SLICE + PAUSE * SLICE;
        assert!(!costs.may_yield(SLICE + 1) && !costs.may_yield(end - 1));
        assert!(costs.may_yield(end));
        assert!(!costs.may_yield(end), "another thread is trying");
        costs.note(end + SLICE, SLICE);
        assert!(!costs.may_yield(end + SLICE + 1));
        let end = end + SLICE + PAUSE * SLICE;
        assert!(costs.may_yield(end));
        costs.note(end + SHORT, SHORT);
        assert!(costs.may_yield(end + SHORT) && costs.may_yield(end + SHORT));
    }

    #[test]
    fn a_pause_ends_when_the_counter_was_set_back() {
        let costs = YieldCosts::new();
        costs.note(1 << 50, SLICE);
        assert!(costs.may_yield(1));
        costs.note(1 << 50, u64::MAX);
        assert!(!costs.may_yield((1 << 50) + 1) && costs.may_yield((1 << 50) + LONGEST_PAUSE));
    }

    #[test]
    fn who_never_comes_back_from_the_attempt_keeps_no_one_from_the_next() {
        let costs = YieldCosts::new();
        costs.note(SLICE, SLICE);
        let end = SLICE + PAUSE * SLICE;
        assert!(costs.may_yield(end));
        assert!(costs.may_yield(end + PAUSE * SLICE_CYCLES));
    }
}
