//! Ticket lock.
//!
//! An acquirer draws a number and waits until it is served. All waiters watch one word, so a release costs a line
//! transfer for every one of them: this is the lock that collapses.
//!
//! | word      | written by            | meaning                        |
//! |-----------|-----------------------|--------------------------------|
//! | `next`    | acquirers, atomically | the number drawn next          |
//! | `serving` | the holder alone      | the number that holds the lock |
//!
//! Free while `next == serving`; `next - serving - 1` wait.
//! Order: first in, first out; no waiter is bypassed. Any thread may release.
//! Source: Mellor-Crummey and Scott 1991; Linux 2.6.25 to 4.1.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Integer, Machine, Patient, Word};

use crate::{Elidable, FairLock, RawLock, TryLock};

/// The ticket lock in 8 bytes: 2³² threads may wait.
pub struct Ticket<M: Machine = Patient> {
    next: M::U32,
    serving: M::U32,
}

const _: () = assert!(size_of::<Ticket>() == 8);

// SAFETY: every number is drawn once, and served when the one before has been released.
unsafe impl<M: Machine> RawLock<M> for Ticket<M> {
    const NEW: Self = Self { next: M::U32::ZERO, serving: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        let mine = self.next.fetch_add(1, Relaxed); // decides the order, publishes nothing
        M::spin_until_written(&self.serving, Acquire, mine, |now| now == mine); // [1] from release
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

impl<M: Machine> FairLock<M> for Ticket<M> {}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Ticket<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        let now = self.serving.load(Acquire); // [1] from release
        self.next.compare_exchange(now, now.wrapping_add(1), Relaxed, Relaxed).is_ok()
    }
}

// SAFETY: the holder has drawn a number that is not served yet to the end: the two words differ, and drawing writes one of
// them.
unsafe impl<M: Machine> Elidable<M> for Ticket<M> {
    fn await_free(&self) {
        let next = self.next.load(Relaxed);
        // Others may have drawn and been served since.
        M::spin_until(&self.serving, Relaxed, |serving| serving.wrapping_sub(next) < u32::MAX / 2);
    }
}
