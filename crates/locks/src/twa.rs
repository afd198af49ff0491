//! Ticket lock with a waiting array.
//!
//! A ticket lock of which only the next waiter watches the number that is served. The others wait each at a slot of an array,
//! so that a release reaches two waiters however many there are.
//!
//! | word      | written by                       | meaning                                            |
//! |-----------|----------------------------------|----------------------------------------------------|
//! | `next`    | acquirers, atomically            | the number drawn next                              |
//! | `serving` | the holder alone                 | the number that holds the lock                     |
//! | a slot    | who has released, atomically     | how often a waiter of this slot has become the next |
//!
//! Number n waits at slot n modulo 32. In the original all locks share one array of 4,096 slots, found by a hash of lock and
//! number; here each lock has its own, so that a slot is shared by threads of one lock alone. A release writes a slot after it has
//! served the next: the memory of the lock has to outlive that.
//!
//! Order: first in, first out; no waiter is bypassed. Any thread may release.
//! Source: Dice and Kogan 2019.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Integer, LINE_BYTES, Machine, Patient, Word};

use crate::{FairLock, RawLock, TryLock};

const SLOTS: usize = 32;

/// A waiter with at most so many holds before its own watches `serving`.
const NEAR: u32 = 1;

/// A place to wait, on a line of its own.
#[repr(C, align(64))]
struct Slot<M: Machine> {
    calls: M::U32,
    _rest: [u32; LINE_BYTES / 4 - 1],
}

impl<M: Machine> Slot<M> {
    const NEW: Self = Self { calls: M::U32::ZERO, _rest: [0; LINE_BYTES / 4 - 1] };
}

/// The ticket lock with a waiting array, 33 lines: 2³² threads may wait.
#[repr(C, align(64))]
pub(crate) struct Twa<M: Machine = Patient> {
    next: M::U32,
    serving: M::U32,
    _rest: [u64; LINE_BYTES / 8 - 1],
    slots: [Slot<M>; SLOTS],
}

const _: () = assert!(size_of::<Twa>() == 33 * LINE_BYTES);

impl<M: Machine> Twa<M> {
    #[inline]
    fn slot(&self, number: u32) -> &M::U32 {
        &self.slots[number as usize % SLOTS].calls
    }

    /// Waits until at most [`NEAR`] numbers are before this one.
    #[cold]
    fn wait_far(&self, mine: u32) {
        let slot = self.slot(mine);
        loop {
            // Read before `serving`: a call that is missed here shows the number that it was for.
            let calls = slot.load(Acquire); // [2] from the release that called
            if mine.wrapping_sub(self.serving.load(Relaxed)) <= NEAR {
                return;
            }
            M::spin_until(slot, Relaxed, |now| now != calls);
        }
    }
}

// SAFETY: every number is drawn once, and served when the one before has been released.
unsafe impl<M: Machine> RawLock<M> for Twa<M> {
    const NEW: Self = Self {
        next: M::U32::ZERO,
        serving: M::U32::ZERO,
        _rest: [0; LINE_BYTES / 8 - 1],
        slots: [const { Slot::NEW }; SLOTS],
    };

    #[inline]
    fn acquire(&self) {
        let mine = self.next.fetch_add(1, Relaxed); // decides the order, publishes nothing
        if mine.wrapping_sub(self.serving.load(Relaxed)) > NEAR {
            self.wait_far(mine);
        }
        M::spin_until_written(&self.serving, Acquire, mine, |now| now == mine); // [1] from release
    }

    #[inline]
    unsafe fn release(&self) {
        let next = self.serving.load(Relaxed).wrapping_add(1); // only the holder writes it: no read-modify-write
        self.serving.store(next, Release); // [1] to the next acquirer
        self.slot(next.wrapping_add(NEAR)).fetch_add(1, Release); // [2] to the waiter that is next but one
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

impl<M: Machine> FairLock<M> for Twa<M> {}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Twa<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        let now = self.serving.load(Acquire); // [1] from release
        self.next.compare_exchange(now, now.wrapping_add(1), Relaxed, Relaxed).is_ok()
    }
}
