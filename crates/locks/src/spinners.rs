//! Where the waiters of a lock that sleeps spin before they sleep: one at a time watches the lock, the others watch their own nodes.
//!
//! | word                  | written by                               | meaning                                                      |
//! |-----------------------|------------------------------------------|--------------------------------------------------------------|
//! | `queue`               | see [`Osq`]                              | those that spin; the first holds this lock                   |
//! | `STUCK` of `seen`     | a waiter giving up its place; the first  | a place has ended, and no waiter has become first since      |
//! | the rest of `seen`    | a waiter that newcomers have to let past | when that was last, in microseconds; wraps around            |
//!
//! The queue decides who watches, never who may enter: a lock is right whatever this does.

use machine::Ordering::Relaxed;
use machine::{GaveUp, Integer, Machine, Timeout, Word};

use crate::{Osq, RawLock, TimedLock};

/// How long a waiter stays behind others, in nanoseconds: what a few hundred short sections and their hand-overs take, and less
/// than the time slice that the waiter before it may have lost.
const QUEUE_NS: u64 = 500_000;

/// Those who spin for one lock.
pub(crate) struct Spinners<M: Machine> {
    queue: Osq<M>,
    seen: M::U32,
}

const STUCK: u32 = 1;

impl<M: Machine> Spinners<M> {
    pub(crate) const NEW: Self = Self { queue: Osq::NEW, seen: M::U32::ZERO };

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Whether the first waiter in the queue has lost its core, by all that is known.
    pub(crate) fn is_stuck(&self) -> bool {
        self.seen.load(Relaxed) & STUCK != 0 && !self.queue.is_idle()
    }

    /// Queues up, and does `watch` as the first.
    ///
    /// # Errors
    /// [`GaveUp`] when `timeout` was reached before the caller was the first, or 0.5 ms had passed.
    pub(crate) fn as_first<R>(
        &self,
        timeout: Timeout<'_, M>,
        watch: impl FnOnce() -> R,
    ) -> Result<R, GaveUp> {
        if self.queue.acquire_or(timeout.within_ns(QUEUE_NS)).is_err() {
            // The caller's own timeout says nothing about the queue.
            let gave_up = timeout.deadline.is_some_and(|deadline| deadline.passed::<M>())
                || timeout.cancel.is_some_and(|cancel| cancel.load(Relaxed) != 0);
            if !gave_up {
                self.seen.fetch_or(STUCK, Relaxed);
            }
            return Err(GaveUp);
        }
        if self.seen.load(Relaxed) & STUCK != 0 {
            self.seen.fetch_and(!STUCK, Relaxed);
        }
        let result = watch();
        // SAFETY: acquired above.
        unsafe { self.queue.release() };
        Ok(result)
    }

    /// Whether a waiter may keep newcomers out now: not before `bypass_ns` have passed since another one did. Where every waiter
    /// has waited for long each of them would, and the lock would go from one that sleeps to the next.
    pub(crate) fn may_bar(&self, now_ns: u64, bypass_ns: u64) -> bool {
        let seen = self.seen.load(Relaxed);
        let (now, last) = (((now_ns / 1_000) as u32) << 1, seen & !STUCK);
        let since_us = now.wrapping_sub(last) as i32 >> 1;
        // Negative: the clock was read before another waiter was let in, or the last one was a quarter of an hour ago.
        !(-1_000..(bypass_ns / 1_000) as i32).contains(&since_us)
            && self.seen.compare_exchange(seen, now | seen & STUCK, Relaxed, Relaxed).is_ok()
    }
}
