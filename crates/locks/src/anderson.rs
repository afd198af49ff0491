//! Anderson's array lock.
//!
//! An acquirer draws a number; the number names a slot of an array, each slot on a line of its own, and the
//! acquirer waits on that slot for its predecessor's release.
//!
//! | word       | written by                          | meaning                                          |
//! |------------|-------------------------------------|--------------------------------------------------|
//! | `next`     | acquirers, atomically               | the number drawn next                            |
//! | `entered`  | the holder alone                    | how many acquisitions there have been            |
//! | `holder`   | the holder alone                    | the same, for its release to find                |
//! | a slot     | predecessor grants, owner takes back | `granted`: the lock belongs to this slot's owner |
//!
//! The number of threads that hold or wait is bounded by the number of slots, since two in one slot would both
//! enter. That is checked: an acquirer whose slot is still in use waits until it is not. For that it reads `entered`, and
//! what another core has read may be gone from the holder's cache: so the release has `holder`, which nothing else reads.
//! Zero-filled memory must be a free lock, and in a free lock slot 0 is granted: so zero means "granted" there, and
//! "wait" in all others.
//! Order: first in, first out; no waiter is bypassed. Any thread may release.
//! Source: Anderson 1990.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Integer, LINE_BYTES, Machine, Patient, PlainCell, Word};

use crate::{FairLock, RawLock, TryLock};

/// A word or cell on a line of its own.
#[repr(C, align(64))]
struct Line<W> {
    word: W,
    _rest: [u32; LINE_BYTES / 4 - 1],
}

impl<W> Line<W> {
    const fn new(word: W) -> Self {
        Self { word, _rest: [0; LINE_BYTES / 4 - 1] }
    }
}

/// The array lock: one line for each of `SLOTS`, a power of two, and three more.
pub struct Anderson<M: Machine = Patient, const SLOTS: usize = 64> {
    next: Line<M::U32>,
    entered: Line<M::U32>,
    holder: Line<M::Cell<u32>>,
    slots: [Line<M::U32>; SLOTS],
}

const _: () = assert!(size_of::<Anderson>() == 67 * LINE_BYTES);

impl<M: Machine, const SLOTS: usize> Anderson<M, SLOTS> {
    #[inline]
    fn slot(&self, number: u32) -> (&M::U32, u32) {
        let index = number as usize % SLOTS;
        let granted = u32::from(index != 0);
        (&self.slots[index].word, granted)
    }

    /// Takes back the grant of slot `number`, for the next round of the array.
    #[inline]
    fn enter(&self, number: u32) {
        let (slot, granted) = self.slot(number);
        let entered = number.wrapping_add(1);
        slot.store(1 - granted, Relaxed); // [2] publishes it
        self.entered.word.store(entered, Release); // [2] to the slot's next owner
        self.holder.word.set(entered);
    }
}

// SAFETY: every number is drawn once; its slot is its own, and granted when the number before has been released.
unsafe impl<M: Machine, const SLOTS: usize> RawLock<M> for Anderson<M, SLOTS> {
    const NEW: Self = {
        assert!(SLOTS.is_power_of_two(), "numbers wrap at a power of two, so must slots");
        Self {
            next: Line::new(M::U32::ZERO),
            entered: Line::new(M::U32::ZERO),
            holder: Line::new(M::Cell::ZERO),
            slots: [const { Line::new(M::U32::ZERO) }; SLOTS],
        }
    };

    #[inline]
    fn acquire(&self) {
        let mine = self.next.word.fetch_add(1, Relaxed); // decides the order, publishes nothing
        let slot_is_mine = |entered: u32| (mine.wrapping_sub(entered) as usize) < SLOTS;
        let slot_left = mine.wrapping_sub(SLOTS as u32 - 1);
        M::spin_until_written(&self.entered.word, Acquire, slot_left, slot_is_mine); // [2] from the slot's last owner
        let (slot, granted) = self.slot(mine);
        M::spin_until(slot, Acquire, |value| value == granted); // [1] from release
        self.enter(mine);
    }

    #[inline]
    unsafe fn release(&self) {
        let (slot, granted) = self.slot(self.holder.word.get());
        slot.store(granted, Release); // [1] to the next acquirer
    }

    fn is_idle(&self) -> bool {
        let next = self.next.word.load(Relaxed);
        let granted = |number| {
            let (slot, granted) = self.slot(number);
            slot.load(Relaxed) == granted
        };
        next == self.entered.word.load(Relaxed)
            && (0..SLOTS as u32).all(|slot| granted(slot) == (slot as usize == next as usize % SLOTS))
    }

    const WRAPS: bool = true;

    unsafe fn near_wrap(&self) {
        self.slots[0].word.store(1, Relaxed);
        self.slots[SLOTS - 1].word.store(1, Relaxed);
        self.next.word.store(u32::MAX, Relaxed);
        self.entered.word.store(u32::MAX, Relaxed);
    }
}

impl<M: Machine, const SLOTS: usize> FairLock<M> for Anderson<M, SLOTS> {}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine, const SLOTS: usize> TryLock<M> for Anderson<M, SLOTS> {
    #[inline]
    fn try_acquire(&self) -> bool {
        let now = self.entered.word.load(Acquire); // [2] from the slot's last owner
        let (slot, granted) = self.slot(now);
        let free = slot.load(Acquire) == granted; // [1] from release
        let taken =
            free && self.next.word.compare_exchange(now, now.wrapping_add(1), Relaxed, Relaxed).is_ok();
        if taken {
            self.enter(now);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Patient, Plan};

    #[test]
    fn more_threads_than_slots_wait_for_a_slot() {
        const ROUNDS: u32 = if cfg!(miri) { 5 } else { 100 };
        static LOCK: Anderson<Patient, 2> = Anderson::NEW;
        let count = <Patient as Machine>::U32::ZERO;
        Patient::run(&Plan::threads(8), &|_| {
            for _ in 0..ROUNDS {
                LOCK.acquire();
                let before = count.load(Relaxed);
                Patient::delay(100);
                count.store(before + 1, Relaxed);
                // SAFETY: acquired above.
                unsafe { LOCK.release() };
            }
        });
        assert_eq!(count.load(Relaxed), 8 * ROUNDS);
    }
}
