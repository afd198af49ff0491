//! Ticket lock with self-tuning back-off.
//!
//! As [`TicketProportional`](crate::TicketProportional), but each waiter learns its delay: it adds a little at every
//! poll that comes too early, and takes a little off when the lock was there already. What it has learned about a
//! lock, the thread remembers in a table of 64 delays.
//!
//! | word      | written by            | meaning                        |
//! |-----------|-----------------------|--------------------------------|
//! | `next`    | acquirers, atomically | the number drawn next          |
//! | `serving` | the holder alone      | the number that holds the lock |
//!
//! | part of a table entry | meaning                                             |
//! |-----------------------|-----------------------------------------------------|
//! | high half             | which lock it is about, as a hash of its address    |
//! | low half              | the delay for each waiter ahead, in 1/256 of a loop |
//!
//! Order: first in, first out; no waiter is bypassed. Any thread may release.
//! Source: van Riel, "x86,smp: auto tune spinlock backoff delay factor", LKML 2012-13.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Integer, Machine, Patient, PlainCell, Poll, THREAD_MEMORY, Word};

use crate::{FairLock, RawLock, TryLock};

/// Fraction bits of a delay.
const FRACTION_BITS: u32 = 8;
/// One loop: the shortest delay, and what an unknown lock starts with.
const SHORTEST: u32 = 1 << FRACTION_BITS;
/// 16,000 loops: the longest.
const LONGEST: u32 = 16_000 << FRACTION_BITS;
/// Added at every poll that comes too early: 36/256 of a loop.
const STEP: u32 = 36;
/// A delay that was too long loses one part in 2⁵.
const OVERSLEPT_SHIFT: u32 = 5;

/// What a loop of the source takes: one `pause` of the processors of its time (before 2015), in cycles.
const CYCLES_PER_LOOP: u64 = 10;

/// The ticket lock with self-tuning back-off, 8 bytes.
pub struct TicketSelfTuning<M: Machine = Patient> {
    next: M::U32,
    serving: M::U32,
}

const _: () = assert!(size_of::<TicketSelfTuning>() == 8);

/// The delay of one thread for one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delay(u32);

impl Delay {
    fn after_early_poll(self) -> Self {
        Self((self.0 + STEP).min(LONGEST))
    }

    fn after_oversleeping(self) -> Self {
        Self((self.0 - (self.0 >> OVERSLEPT_SHIFT)).max(SHORTEST))
    }

    /// How long to back off with so many waiters ahead.
    fn cycles(self, waiters_ahead: u32) -> u64 {
        ((u64::from(self.0) * u64::from(waiters_ahead)) >> FRACTION_BITS) * CYCLES_PER_LOOP
    }
}

/// Which table entry a lock has, and how the entry says that it is this lock's.
#[derive(Clone, Copy)]
struct Key {
    entry: usize,
    mark: u32,
}

impl Key {
    fn of<M: Machine, T>(lock: &T) -> Self {
        // Fibonacci hashing (Knuth 6.4); marks are not zero, so that an empty entry is no lock's.
        let hash = (M::address(lock) as u64 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self { entry: (hash >> 32) as usize % THREAD_MEMORY, mark: (hash >> 16) as u32 | 1 }
    }

    /// What is remembered; a collision starts again at the minimum.
    fn recall<M: Machine>(self) -> Delay {
        let entry = M::thread_memory().map_or(0, |memory| memory[self.entry].get());
        let known = (entry >> 32) as u32 == self.mark && entry as u32 >= SHORTEST;
        Delay(if known { entry as u32 } else { SHORTEST })
    }

    fn remember<M: Machine>(self, delay: Delay) {
        if let Some(memory) = M::thread_memory() {
            memory[self.entry].set(u64::from(self.mark) << 32 | u64::from(delay.0));
        }
    }
}

impl<M: Machine> TicketSelfTuning<M> {
    #[cold]
    fn wait(&self, mine: u32) {
        let key = Key::of::<M, _>(self);
        let mut delay = key.recall::<M>();
        let mut slept = false;
        // [1] from release
        M::poll_until_written(&self.serving, Acquire, mine, |now| {
            match mine.wrapping_sub(now) {
                0 => {
                    if slept {
                        delay = delay.after_oversleeping();
                    }
                    Poll::Ready
                }
                1 => {
                    slept = false; // next in line: spins tightly
                    Poll::BackOff(0)
                }
                ahead => {
                    slept = true;
                    delay = delay.after_early_poll();
                    Poll::BackOff(delay.cycles(ahead - 1))
                }
            }
        });
        key.remember::<M>(delay);
    }
}

// SAFETY: every number is drawn once, and served when the one before has been released.
unsafe impl<M: Machine> RawLock<M> for TicketSelfTuning<M> {
    const NEW: Self = Self { next: M::U32::ZERO, serving: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        let mine = self.next.fetch_add(1, Relaxed); // decides the order, publishes nothing
        // [1] from release
        if self.serving.load(Acquire) != mine {
            self.wait(mine);
        }
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

impl<M: Machine> FairLock<M> for TicketSelfTuning<M> {}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for TicketSelfTuning<M> {
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
    fn a_delay_grows_by_a_step_and_shrinks_by_a_part_within_its_bounds() {
        assert_eq!(Delay(SHORTEST).after_early_poll(), Delay(256 + 36));
        assert_eq!(Delay(LONGEST).after_early_poll(), Delay(LONGEST));
        assert_eq!(Delay(3_200).after_oversleeping(), Delay(3_100));
        assert_eq!(Delay(SHORTEST).after_oversleeping(), Delay(SHORTEST));
    }

    #[test]
    fn delays_are_in_proportion_to_the_waiters_ahead() {
        assert_eq!(Delay(SHORTEST + SHORTEST / 2).cycles(1), CYCLES_PER_LOOP);
        assert_eq!(Delay(2 * SHORTEST).cycles(3), 6 * CYCLES_PER_LOOP);
    }

    #[test]
    fn a_thread_remembers_each_lock_until_another_takes_its_entry() {
        let key = Key { entry: 5, mark: 77 };
        assert_eq!(key.recall::<Patient>(), Delay(SHORTEST));
        key.remember::<Patient>(Delay(9_999));
        assert_eq!(key.recall::<Patient>(), Delay(9_999));
        let other = Key { entry: 5, mark: 79 };
        assert_eq!(other.recall::<Patient>(), Delay(SHORTEST));
        other.remember::<Patient>(Delay(SHORTEST));
        assert_eq!(key.recall::<Patient>(), Delay(SHORTEST));
    }
}
