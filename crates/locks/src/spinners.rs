//! Where the waiters of a lock that sleeps spin before they sleep: one at a time watches the lock, the others watch their own nodes.
//!
//! | word        | written by                               | meaning                                                      |
//! |-------------|------------------------------------------|--------------------------------------------------------------|
//! | `queue`     | see [`Osq`]                              | those that spin; the first holds this lock                   |
//! | `stuck`     | a waiter giving up its place; the first  | not 0: a place has ended, and no waiter has become first since |
//! | `let_in_us` | a waiter that newcomers have to let past | when that was last, in microseconds; wraps around            |
//!
//! The queue decides who watches, never who may enter: a lock is right whatever this does.

use machine::Ordering::Relaxed;
use machine::{GaveUp, Machine, Timeout, Word};

use crate::{Osq, RawLock, TimedLock};

/// How long a waiter stays behind others, in nanoseconds: what a few hundred short sections and their hand-overs take, and less
/// than the time slice that the waiter before it may have lost.
const QUEUE_NS: u64 = 500_000;

/// Those who spin for one lock.
pub(crate) struct Spinners<M: Machine> {
    queue: Osq<M>,
    stuck: M::U32,
    let_in_us: M::U32,
}

impl<M: Machine> Spinners<M> {
    pub(crate) const NEW: Self = Self { queue: Osq::NEW, stuck: M::U32::ZERO, let_in_us: M::U32::ZERO };

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Whether the first waiter in the queue has lost its core, by all that is known.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Relaxed) != 0 && !self.queue.is_idle()
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
                self.stuck.store(1, Relaxed);
            }
            return Err(GaveUp);
        }
        if self.stuck.load(Relaxed) != 0 {
            self.stuck.store(0, Relaxed);
        }
        let result = watch();
        // SAFETY: acquired above.
        unsafe { self.queue.release() };
        Ok(result)
    }

    /// Whether a waiter may keep newcomers out now: not before `bypass_ns` have passed since another one did. Where every waiter
    /// has waited for long each of them would, and the lock would go from one that sleeps to the next.
    pub(crate) fn may_bar(&self, now_ns: u64, bypass_ns: u64) -> bool {
        let (now_us, last_us) = ((now_ns / 1_000) as u32, self.let_in_us.load(Relaxed));
        let since_us = now_us.wrapping_sub(last_us) as i32;
        // Negative: the clock was read before another waiter was let in, or the last one was half an hour ago.
        !(-1_000..(bypass_ns / 1_000) as i32).contains(&since_us)
            && self.let_in_us.compare_exchange(last_us, now_us, Relaxed, Relaxed).is_ok()
    }
}
