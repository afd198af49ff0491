//! Call sites: from where a lock is waited for, from where it is held, and behind which holds each wait was.
//!
//! A thread that has waited for a lock divides its wait among the [`LongHolds`](super::long_holds::LongHolds) that lasted in it. What
//! is left it counts for the thread that released the lock last, which it finds in the lock's [`Trace`], if that had one of these holds
//! or there was none. From where that thread had
//! taken the lock stands in memory that others may read: each thread notes there where it took a lock last.

use core::mem::offset_of;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering, Ordering::Relaxed};

use super::locks::zeroed_once;
use super::long_holds::{Held, KEPT_FROM_NS};
use super::pairs::place_of;
use super::stacks::{LeadsTo, PER_WALK_NS};
use super::threads::ThreadPart;
use super::{Host, PerThread, Recorder, Trace, add};
use crate::arena::Block;
use crate::format::{ByCaller, ByStack, Pair, Type, head};

/// Where the bits of a pair's `state` begin that say from which of its callers, counted from 1, the timed hold was taken.
pub(super) const CALLER_SHIFT: u32 = 2;
/// Those bits. 0 in them stands for a caller that the pair does not remember.
pub(super) const CALLER: u64 = 0xf << CALLER_SHIFT;

/// From which on a hold is noted by its caller even where its thread has never waited.
const LONG_NS: u64 = 10_000;

/// The caller in a pair's `state`, from 1, or 0.
pub(crate) fn caller_in(state: u64) -> usize {
    ((state & CALLER) >> CALLER_SHIFT) as usize
}

/// Locks of which a thread remembers where it took them. Two of one slot displace each other.
const TAKEN: usize = 16;

/// Where a thread has taken locks, each word written by that thread alone.
#[derive(Debug)]
pub(super) struct TakenFrom([AtomicU64; TAKEN]);

impl TakenFrom {
    /// Notes a return address, or a position in the file.
    fn set(&self, lock: u32, caller: u64) {
        self.0[lock as usize % TAKEN].store(word_of_caller(lock, caller), Relaxed);
    }

    /// The return address of the call by which the thread took this lock last.
    pub(super) fn get(&self, lock: u32) -> Option<u64> {
        caller_of_lock(lock, self.0[lock as usize % TAKEN].load(Relaxed))
    }
}

/// The return address of a lock call (48 bits) over the lowest 16 bits of the lock's number.
pub(super) fn word_of_caller(lock: u32, caller: u64) -> u64 {
    caller << 16 | u64::from(lock as u16)
}

/// The return address in such a word, if it is of this lock.
pub(super) fn caller_of_lock(lock: u32, word: u64) -> Option<u64> {
    (word as u16 == lock as u16 && word >> 16 != 0).then_some(word >> 16)
}

/// Threads by their numbers. Those with higher numbers than there are entries stay unknown.
#[derive(Debug)]
pub(super) struct Numbered(AtomicPtr<AtomicPtr<ThreadPart>>);

/// Entries of [`Numbered`].
const NUMBERS: usize = 4096;

impl Numbered {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Forgets all threads. The memory stays: it was another process's.
    pub(super) fn forget(&self) {
        self.0.store(null_mut(), Relaxed);
    }

    pub(super) fn set(&self, host: &impl Host, number: u32, thread: NonNull<ThreadPart>) {
        if (number as usize) < NUMBERS
            && let Some(threads) = zeroed_once(&self.0, host, NUMBERS)
        {
            threads[number as usize].store(thread.as_ptr(), Ordering::Release);
        }
    }

    fn get(&self, number: u16) -> Option<&ThreadPart> {
        let start = self.0.load(Ordering::Acquire);
        if start.is_null() || usize::from(number) >= NUMBERS {
            return None;
        }
        // SAFETY: as many entries as `zeroed_once` made, which stay; the number is below.
        let thread = unsafe { &*start.add(usize::from(number)) }.load(Ordering::Acquire);
        // SAFETY: null, or a thread's part, which is never freed.
        unsafe { thread.as_ref() }
    }
}

impl PerThread {
    #[inline]
    fn taken_from(&self) -> Option<&TakenFrom> {
        // SAFETY: the thread's own part, which is never freed; others read only these words of it, which are atomic.
        NonNull::new(self.slot.get()).map(|slot| unsafe { &(*slot.as_ptr()).taken_from })
    }

    /// Notes from where the calling thread holds this pair's lock.
    #[inline]
    pub(super) fn holds_from(&self, pair: &Pair, caller: u64) {
        if let Some(taken_from) = self.taken_from() {
            taken_from.set(lock_of(pair), caller);
        }
    }

    /// From which of the pair's callers, counted from 1, the calling thread took its lock last; 0 if that is not known. The pair's
    /// `state` tells it only of the last hold that was timed.
    pub(super) fn holding_from(&self, pair: &Pair) -> usize {
        match self.taken_from().and_then(|taken_from| taken_from.get(lock_of(pair))) {
            Some(caller) => place_of(pair.callers(), caller).0,
            None => caller_in(pair.state.load(Relaxed)),
        }
    }
}

impl<H: Host> Recorder<H> {
    /// The thread that released the lock last, if it was another one than the caller.
    pub(super) fn last_holder(&self, t: &PerThread, trace: &Trace) -> Option<&ThreadPart> {
        let number = (trace.place.load(Relaxed) >> 32) as u16;
        if number == 0 || number == t.number.get() as u16 {
            return None;
        }
        self.numbered.get(number)
    }

    /// The caller, who has the lock now, waited for it from `began` to `ended`. True if its stack was walked, which took time.
    #[cold]
    #[inline(never)]
    pub(super) fn waited_for(
        &self,
        t: &PerThread,
        trace: &Trace,
        pair: &Pair,
        called: usize,
        began: u64,
        ended: u64,
    ) -> bool {
        let Some(by_caller) = self.by_caller(pair).or_else(|| self.give_by_caller(t, pair)) else {
            return false;
        };
        let (lock, ticks) = (trace.lock(), ended.saturating_sub(began));
        if let Some(slot) = called.checked_sub(1) {
            add(&by_caller.waits[slot], 1);
            add(&by_caller.wait_ticks[slot], ticks);
        }
        let last_holder = self.last_holder(t, trace);
        let last = last_holder.and_then(|holder| holder.taken_from.get(lock));
        let behind = |holder, ticks| {
            if let Some(slot) = place_of(&by_caller.behind, holder).0.checked_sub(1) {
                add(&by_caller.behind_ticks[slot], ticks);
            }
        };
        let mut from_last = false;
        let left = self.long_holds.divide(&self.host, lock, began, ended, |held, ticks| {
            from_last |= Some(held.caller) == last;
            behind(held.caller, ticks);
            if let Some(by_stack) = self.by_stack(held.stack) {
                by_stack.behind_ticks.fetch_add(ticks, Relaxed);
            }
        });
        // After long holds, what is left behind short ones of others is the time in which this thread was woken and had no core.
        if let Some(last) = last
            && (from_last || left == ticks)
        {
            behind(last, left);
            // By which stack that thread releases this lock is known from another time.
            let stack = last_holder.and_then(|holder| holder.released_by.get(lock));
            if let Some(by_stack) = stack.and_then(|stack| self.by_stack(stack))
                && by_stack.caller.load(Relaxed) == last
            {
                by_stack.behind_ticks.fetch_add(left, Relaxed);
            }
        }
        let caller = called.checked_sub(1).map_or(0, |slot| pair.callers()[slot].load(Relaxed));
        let per_walk = self.rate.ticks(PER_WALK_NS);
        if caller == 0 || !self.long_holds.may_walk_after_wait(&self.host, lock, ended, per_walk) {
            return false;
        }
        if let Some(by_stack) = self.walk(t, lock, caller, LeadsTo::Acquisition) {
            by_stack.waits.fetch_add(1, Relaxed);
            by_stack.wait_ticks.fetch_add(ticks, Relaxed);
        }
        true
    }

    /// A timed hold ends that lasted so long; `state` is the pair's. Returns the record of the stack that releases it, if that was walked,
    /// which took time.
    #[inline]
    pub(super) fn held_from(&self, t: &PerThread, pair: &Pair, state: u64, ticks: u64) -> Option<&ByStack> {
        if pair.by_caller.load(Relaxed) != 0 || ticks >= self.rate.ticks(LONG_NS) {
            return self.note_hold(t, pair, state, ticks);
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn note_hold(&self, t: &PerThread, pair: &Pair, state: u64, ticks: u64) -> Option<&ByStack> {
        let began = pair.hold_started.load(Relaxed);
        let ended = began.wrapping_add(ticks);
        self.remember_hold(t, pair, began, ended);
        let mut held = 0;
        if let Some(slot) = caller_in(state).checked_sub(1)
            && let Some(by_caller) = self.by_caller(pair).or_else(|| self.give_by_caller(t, pair))
            // The bits may be any: a process that shares the file may have written them.
            && let (Some(holds), Some(sum)) = (by_caller.holds.get(slot), by_caller.hold_ticks.get(slot))
        {
            add(holds, 1);
            add(sum, ticks);
            held = holds.load(Relaxed);
        }
        // What is not long is looked at ever more rarely: it tells who takes the lock through a wrapper.
        let kept = ticks >= self.rate.ticks(KEPT_FROM_NS);
        if !kept && !held.is_power_of_two() {
            return None;
        }
        let lock = lock_of(pair);
        let caller = t.taken_from().and_then(|taken_from| taken_from.get(lock))?;
        let per_walk = self.rate.ticks(PER_WALK_NS);
        let may_walk =
            ticks >= per_walk || self.long_holds.may_walk_before_release(&self.host, lock, ended, per_walk);
        let by_stack = if may_walk { self.walk(t, lock, caller, LeadsTo::Release) } else { None };
        if let Some(by_stack) = by_stack {
            by_stack.holds.fetch_add(1, Relaxed);
            by_stack.hold_ticks.fetch_add(ticks, Relaxed);
            if let Some(slot) = NonNull::new(t.slot.get()) {
                // SAFETY: the thread's own part, which is never freed; others read only these words of it, which are atomic.
                unsafe { &(*slot.as_ptr()).released_by }.set(lock, self.position_of_stack(by_stack));
            }
        }
        if kept {
            let stack = by_stack.map_or(0, |by_stack| self.position_of_stack(by_stack));
            self.long_holds.keep(&self.host, lock, Held { caller, stack, began, ended });
        }
        by_stack
    }

    /// The record by call site of a pair, if it has one.
    #[inline]
    pub(super) fn by_caller(&self, pair: &Pair) -> Option<&ByCaller> {
        let position = pair.by_caller.load(Relaxed);
        if position == 0 {
            return None;
        }
        let start = self.arena.at(position, ByCaller::LENGTH)?;
        // SAFETY: inside the file, where all words are atomic, and aligned as positions are. It is the record that was given to
        // this pair alone, unless a process has forged the profile.
        Some(unsafe { &*start.cast::<ByCaller>() })
    }

    pub(super) fn give_by_caller(&self, t: &PerThread, pair: &Pair) -> Option<&ByCaller> {
        let slot = NonNull::new(t.slot.get())?;
        self.without_reentry(t, || {
            if pair.by_caller.load(Relaxed) == 0 {
                // SAFETY: the thread's own part, whose block no interrupted call is changing.
                let block = unsafe { &mut *slot.as_ptr() };
                if let Some(record) = self.room_in(block, new_by_caller) {
                    // SAFETY: taken just now, in the mapping.
                    let record = unsafe { record.as_ref() };
                    record.pair.store(self.arena.position_of(pair), Relaxed);
                    record.head.store(head(Type::ByCaller, ByCaller::LENGTH), Ordering::Release);
                    pair.by_caller.store(self.arena.position_of(record), Relaxed);
                }
            }
        });
        self.by_caller(pair)
    }
}

fn lock_of(pair: &Pair) -> u32 {
    (pair.key.load(Relaxed) >> 1) as u32
}

/// The space of a record in a thread's block; none when that is full.
fn new_by_caller(block: &Block) -> Option<NonNull<ByCaller>> {
    NonNull::new(block.take(ByCaller::LENGTH)?.cast::<ByCaller>())
}

const _: () = assert!(
    offset_of!(ByCaller, waits).is_multiple_of(64)
        && (CALLER >> CALLER_SHIFT) as usize >= crate::format::CALLERS
);
