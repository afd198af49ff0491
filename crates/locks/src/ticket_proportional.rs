//! Ticket lock with proportional back-off.
//!
//! A waiter knows how many are ahead of it, and backs off for that many times the cost of one critical section
//! with its hand-over. Too small a constant brings all waiters back to the line too soon; too large a one lets the
//! lock stand idle until its next owner polls.
//!
//! | word      | written by            | meaning                        |
//! |-----------|-----------------------|--------------------------------|
//! | `next`    | acquirers, atomically | the number drawn next          |
//! | `serving` | the holder alone      | the number that holds the lock |
//!
//! Order: first in, first out; no waiter is bypassed. Any thread may release.
//! Source: Mellor-Crummey and Scott 1991.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Integer, Machine, Patient, Poll, Word};

use crate::{FairLock, RawLock, TryLock};

/// The default of the constant, in cycles for each waiter ahead: about what a short critical section and a hand-over take
/// together. Calibrated on simulated machines: of the constants that `contend simulate WORKLOAD --sweep-back-off` tries, on
/// nine machines, with three workloads and 4 to 32 cores, this one comes nearest to each case's best, both on average and
/// at its worst (`docs/locks.md`).
pub const CYCLES_PER_WAITER: u64 = 250;

/// The ticket lock with a back-off of `UNIT_CYCLES` for each waiter ahead, 8 bytes.
pub struct TicketProportional<M: Machine = Patient, const UNIT_CYCLES: u64 = CYCLES_PER_WAITER> {
    next: M::U32,
    serving: M::U32,
}

const _: () = assert!(size_of::<TicketProportional>() == 8);

impl<M: Machine, const UNIT_CYCLES: u64> TicketProportional<M, UNIT_CYCLES> {
    /// How long a waiter with number `mine` backs off when `now` is served.
    #[inline]
    fn patience(mine: u32, now: u32) -> Poll {
        match mine.wrapping_sub(now) {
            0 => Poll::Ready,
            ahead => Poll::BackOff(UNIT_CYCLES.saturating_mul(u64::from(ahead))),
        }
    }
}

// SAFETY: every number is drawn once, and served when the one before has been released.
unsafe impl<M: Machine, const UNIT_CYCLES: u64> RawLock<M> for TicketProportional<M, UNIT_CYCLES> {
    const NEW: Self = Self { next: M::U32::ZERO, serving: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        let mine = self.next.fetch_add(1, Relaxed); // decides the order, publishes nothing
        M::poll_until_written(&self.serving, Acquire, mine, |now| Self::patience(mine, now)); // [1] from release
    }

    #[inline]
    unsafe fn release(&self) {
        let mine = self.serving.load(Relaxed); // only the holder writes it: no read-modify-write
        self.serving.store(mine.wrapping_add(1), Release); // [1] to the next acquirer
    }

    fn is_idle(&self) -> bool {
        self.next.load(Relaxed) == self.serving.load(Relaxed)
    }

    const WRAPS: bool = true;

    unsafe fn near_wrap(&self) {
        self.next.store(u32::MAX, Relaxed);
        self.serving.store(u32::MAX, Relaxed);
    }
}

impl<M: Machine, const UNIT_CYCLES: u64> FairLock<M> for TicketProportional<M, UNIT_CYCLES> {}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine, const UNIT_CYCLES: u64> TryLock<M> for TicketProportional<M, UNIT_CYCLES> {
    #[inline]
    fn try_acquire(&self) -> bool {
        let now = self.serving.load(Acquire); // [1] from release
        self.next.compare_exchange(now, now.wrapping_add(1), Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_is_proportional_and_survives_the_wrap() {
        type Lock = TicketProportional<Patient, 10>;
        assert_eq!(Lock::patience(7, 7), Poll::Ready);
        assert_eq!(Lock::patience(9, 7), Poll::BackOff(20));
        assert_eq!(Lock::patience(1, u32::MAX), Poll::BackOff(20));
    }
}
