//! The latest long holds of each lock: a thread that waited through one finds it even if others have had the lock since.
//!
//! A lock's last releaser need not be what a wait was for. Where one call holds a lock for 4 ms while three threads wait, two of the
//! three get the lock from a thread that had waited like them and held it for 50 ns. So a hold that was long is kept here when it
//! ends, and a wait that ends is divided among the holds that lasted in it.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use super::Host;
use super::callers::{caller_of_lock, word_of_caller};
use super::locks::zeroed_once;
use super::stacks::may_walk;

/// From which on a hold is kept: beside it, it costs little to keep it.
pub(super) const KEPT_FROM_NS: u64 = 3_000;

/// Holds that are kept of one lock: they fill three cache lines with their count, which the holder that has waited reads.
const KEPT: usize = 5;

/// How many locks have a place. Two locks of one place displace each other's holds.
const PLACES: usize = 512;

/// A hold. Readers that release at the same moment may mix two of them, which makes one wait's account wrong, and no other.
#[repr(C)]
struct Hold {
    /// The call that took the lock, and the lock.
    taken: AtomicU64,
    began: AtomicU64,
    ended: AtomicU64,
    /// Position of the record of the stack that released the lock, or 0.
    stack: AtomicU64,
}

#[repr(C, align(64))]
struct OfLock {
    holds: [Hold; KEPT],
    /// Holds so far.
    count: AtomicU64,
    /// When a stack may be walked next after a wait, in ticks.
    next_of_wait: AtomicU64,
    /// When one may be walked next before a release.
    next_of_hold: AtomicU64,
}

const _: () = assert!(size_of::<OfLock>() == 192);

/// A hold that has been long.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// The return address of the call that took the lock.
    pub(super) caller: u64,
    /// Position of the record of the stack that released it, or 0.
    pub(super) stack: u64,
    pub(super) began: u64,
    pub(super) ended: u64,
}

/// The latest long holds of a process's locks.
#[derive(Debug)]
pub(super) struct LongHolds(AtomicPtr<OfLock>);

impl LongHolds {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// The calling thread is about to end a long hold of this lock.
    pub(super) fn keep(&self, host: &impl Host, lock: u32, held: Held) {
        let Some(places) = zeroed_once(&self.0, host, PLACES) else { return };
        let of_lock = &places[lock as usize % PLACES];
        let count = of_lock.count.load(Relaxed);
        of_lock.count.store(count.wrapping_add(1), Relaxed);
        let hold = &of_lock.holds[count as usize % KEPT];
        hold.taken.store(word_of_caller(lock, held.caller), Relaxed);
        hold.began.store(held.began, Relaxed);
        hold.ended.store(held.ended, Relaxed);
        hold.stack.store(held.stack, Relaxed);
    }

    /// Whether the stack of a thread that has waited for this lock may be walked now, where a walk is worth so many ticks of the lock's
    /// time.
    pub(super) fn may_walk_after_wait(&self, host: &impl Host, lock: u32, now: u64, per_walk: u64) -> bool {
        let places = zeroed_once(&self.0, host, PLACES);
        places.is_some_and(|places| may_walk(&places[lock as usize % PLACES].next_of_wait, now, per_walk))
    }

    /// The same of a thread that is about to release this lock.
    pub(super) fn may_walk_before_release(
        &self,
        host: &impl Host,
        lock: u32,
        now: u64,
        per_walk: u64,
    ) -> bool {
        let places = zeroed_once(&self.0, host, PLACES);
        places.is_some_and(|places| may_walk(&places[lock as usize % PLACES].next_of_hold, now, per_walk))
    }

    /// Tells `behind` of each hold of this lock the part that lasted in the wait from `began` to `ended`, and for how many ticks. Returns
    /// the ticks that are left.
    ///
    /// Where more long holds have ended in the wait than are kept, what is known of its last part is taken for the whole of it.
    pub(super) fn divide(
        &self,
        host: &impl Host,
        lock: u32,
        began: u64,
        ended: u64,
        mut behind: impl FnMut(&Held, u64),
    ) -> u64 {
        let whole = ended.saturating_sub(began);
        let Some(places) = zeroed_once(&self.0, host, PLACES) else { return whole };
        let holds = &places[lock as usize % PLACES].holds;
        let parts = || holds.iter().filter_map(|hold| hold.part_of(lock, began, ended));
        let known_from = if parts().count() == KEPT { parts().map(|part| part.began).min() } else { None };
        let known = ended.saturating_sub(known_from.unwrap_or(began)).max(1);
        let mut left = whole;
        for part in parts() {
            let ticks = part.ended.saturating_sub(part.began);
            let ticks = (u128::from(ticks) * u128::from(whole) / u128::from(known)) as u64;
            let ticks = ticks.min(left); // readers hold it at the same time
            left -= ticks;
            behind(&part, ticks);
        }
        left
    }
}

impl Hold {
    fn part_of(&self, lock: u32, began: u64, ended: u64) -> Option<Held> {
        let caller = caller_of_lock(lock, self.taken.load(Relaxed))?;
        let part = Held {
            caller,
            stack: self.stack.load(Relaxed),
            began: self.began.load(Relaxed).max(began),
            ended: self.ended.load(Relaxed).min(ended),
        };
        (part.began < part.ended).then_some(part)
    }
}
