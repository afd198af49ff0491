//! What is done with a lock by whole stacks: a wrapper that is not inlined calls the lock functions for all of its callers, so that the
//! return address of the lock call says nothing.
//!
//! A walk of the stack takes some microseconds, in which the calling thread has the lock. So it is done on ways that are slow
//! already, after a wait and before the release of a long hold, and for each lock in [`PER_WALK_NS`] once on average. Who held a lock
//! is told by the release: of the calls that led to the acquisition, nothing is left by then but what they have in common with it.
//!
//! The records are in the file, and all threads of the process add to them. A table of hashes finds them.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering, Ordering::Relaxed};

use super::locks::{PROBES, hash_of, zeroed_once};
use super::{Host, PerThread, Recorder};
use crate::arena::Need;
use crate::format::{BY_STACK_LENGTH, ByStack, FRAMES, Type, UNIT, head};

/// A record, and its stack.
#[repr(C)]
struct WithStack {
    record: ByStack,
    stack: [AtomicU64; FRAMES],
}

const _: () = assert!(size_of::<WithStack>() == BY_STACK_LENGTH);

/// Records in a block, which is 16 KiB long with them and its header.
const IN_BLOCK: usize = 63;

/// Stacks of one process. Further ones are not told apart.
const MOST: usize = 1 << 12;

/// A lock's time for each walk of a stack: a walk is less than one per cent of it. A hold or wait that lasted so long pays for its own.
pub(super) const PER_WALK_NS: u64 = 400_000;

/// Walks that a lock may be behind: those that wait for one long hold end their waits together.
const SAVED: u64 = 8;

/// Whether a stack may be walked now for a lock, which pays so many ticks for it; if so, that is taken off what the lock has saved. Two
/// threads that ask at the same moment may both hear yes.
pub(super) fn may_walk(next: &AtomicU64, now: u64, per_walk: u64) -> bool {
    let at = next.load(Relaxed);
    // Anything but the near future is another file's, or was never written.
    let at = if at > now.saturating_add(per_walk) { 0 } else { at.max(now.saturating_sub(SAVED * per_walk)) };
    if at > now {
        return false;
    }
    next.store(at.saturating_add(per_walk), Relaxed);
    true
}

/// Which call a stack leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum LeadsTo {
    Acquisition = 0,
    Release = 1,
}

/// The records of a process by their stacks.
#[derive(Debug)]
pub(super) struct WalkedStacks {
    table: AtomicPtr<Entry>,
    /// The block of records: the position of its first one in the high half, how many of them are taken in the low half; 0 before the
    /// first.
    block: AtomicU64,
}

#[repr(C)]
struct Entry {
    /// Of lock, call and stack; 0 in one that is free.
    hash: AtomicU64,
    /// Position of the record; 0 until it is written, and where there was no space for it.
    record: AtomicU64,
}

impl WalkedStacks {
    pub(super) const fn new() -> Self {
        Self { table: AtomicPtr::new(null_mut()), block: AtomicU64::new(0) }
    }

    /// Forgets all: the records are another process's. The memory stays.
    pub(super) fn forget(&self) {
        self.table.store(null_mut(), Relaxed);
        self.block.store(0, Relaxed);
    }
}

/// The position of the first record of a block that is unused.
fn unused_record(block: u64) -> Option<u64> {
    const UNITS: u64 = BY_STACK_LENGTH as u64 / UNIT;
    let (first, taken) = (block >> 32, block & u64::from(u32::MAX));
    (first != 0 && taken < IN_BLOCK as u64).then_some(first + taken * UNITS)
}

impl<H: Host> Recorder<H> {
    /// The record of the calling thread's stack for a lock that was acquired by a call which returns to `caller`. `None` where there is no
    /// space for it, and where this call has interrupted a change of the thread's records.
    #[cold]
    #[inline(never)]
    pub(super) fn walk(&self, t: &PerThread, lock: u32, caller: u64, to: LeadsTo) -> Option<&ByStack> {
        let started = H::stamp();
        // Space comes first, so that what makes it and what walks are never on the stack together.
        let walk = || self.by_stack_of_caller(self.space_for_stacks()?, lock, caller, to);
        let found = self.without_reentry(t, walk).flatten();
        self.count_own_cost(started);
        found
    }

    /// The table; there is a block with an unused record for the next stack, unless other threads are faster.
    #[inline(never)]
    fn space_for_stacks(&self) -> Option<&[Entry]> {
        let table = zeroed_once(&self.walked.table, &self.host, MOST)?;
        let current = self.walked.block.load(Ordering::Acquire);
        if unused_record(current).is_none() {
            let fresh = self.block_of_stacks()? << 32;
            // If another thread was faster this block stays unused, which a reader does not mind.
            let _ = self.walked.block.compare_exchange(current, fresh, Ordering::AcqRel, Relaxed);
        }
        Some(table)
    }

    // A frame of its own would be one more on a stack that may be 2 KB.
    #[inline(always)]
    fn by_stack_of_caller(&self, table: &[Entry], lock: u32, caller: u64, to: LeadsTo) -> Option<&ByStack> {
        let mut frames = [0; FRAMES];
        let depth = self.host.stack(&mut frames).min(FRAMES);
        let frames = frames.get(..depth).filter(|frames| !frames.is_empty())?;
        let of_lock = hash_of(&[u64::from(lock), caller, to as u64]);
        let hash = (hash_of(frames) ^ of_lock.rotate_left(32)).max(1);
        for entry in (0..PROBES).map(|probe| &table[(hash as usize + probe) % MOST]) {
            match entry.hash.compare_exchange(0, hash, Relaxed, Relaxed) {
                Ok(_) => {
                    let record = self.new_by_stack()?;
                    record.write(lock, caller, to, frames);
                    entry.record.store(self.arena.position_of(record), Ordering::Release);
                    return Some(&record.record);
                }
                Err(found) if found == hash => return self.by_stack(entry.record.load(Ordering::Acquire)),
                Err(_) => {}
            }
        }
        None
    }

    /// The record at this position, if there is one.
    pub(super) fn by_stack(&self, position: u64) -> Option<&ByStack> {
        if position == 0 {
            return None;
        }
        let start = self.arena.at(position, BY_STACK_LENGTH)?;
        // SAFETY: inside the file, aligned as positions are; all words of the file are atomic.
        let record = unsafe { &*start.cast::<ByStack>() };
        (record.head.load(Relaxed) == head(Type::ByStack, BY_STACK_LENGTH)).then_some(record)
    }

    /// The position of such a record.
    pub(super) fn position_of_stack(&self, record: &ByStack) -> u64 {
        self.arena.position_of(record)
    }

    /// A record that was not used so far. Any thread may come here at any time, so that the block is two numbers in a word.
    fn new_by_stack(&self) -> Option<&WithStack> {
        let next = |current| unused_record(current).map(|_| current + 1);
        let taken = self.walked.block.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok()?;
        let start = self.arena.at(unused_record(taken)?, BY_STACK_LENGTH)?;
        // SAFETY: one of a block's records, in the mapping, which stays; its words are atomic.
        Some(unsafe { &*start.cast::<WithStack>() })
    }

    /// The position of the first of as many records as a block has. They share the bound of the stacks that locks are taken with.
    #[inline(never)]
    fn block_of_stacks(&self) -> Option<u64> {
        let header = self.arena.header().filter(|_| self.has_space_for_locks())?;
        let length = IN_BLOCK * BY_STACK_LENGTH;
        let block = self.arena.allocate(&self.host, Need::Detail, self.section_number(), 0, length)?;
        let start = block.take(length)?.cast::<WithStack>();
        header.lock_bytes.fetch_add(block.length(), Relaxed);
        for number in 0..IN_BLOCK {
            // SAFETY: the block gave the space of so many records, aligned, in the mapping.
            let record = unsafe { &(*start.add(number)).record };
            record.head.store(head(Type::ByStack, BY_STACK_LENGTH), Ordering::Release);
        }
        // SAFETY: the first of them.
        let first = self.arena.position_of(unsafe { &*start });
        Some(first).filter(|&first| first <= u64::from(u32::MAX))
    }
}

impl WithStack {
    fn write(&self, lock: u32, caller: u64, to: LeadsTo, frames: &[u64]) {
        for (word, &frame) in self.stack.iter().zip(frames) {
            word.store(frame, Relaxed);
        }
        self.record.caller.store(caller, Relaxed);
        self.record.frames.store(frames.len() as u64 | (to as u64) << 32, Relaxed);
        self.record.lock.store(u64::from(lock), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_pays_for_its_walks_in_time_and_saves_for_a_few() {
        const PER_WALK: u64 = 1_000;
        let next = AtomicU64::new(0);
        let may = |now: u64| may_walk(&next, now, PER_WALK);
        let walks = |now: u64| core::iter::repeat_with(|| may(now)).take_while(|&may| may).count() as u64;
        let start = 100 * PER_WALK;
        assert_eq!(walks(start), SAVED + 1);
        assert_eq!(walks(start + PER_WALK - 1), 0);
        assert_eq!(walks(start + PER_WALK), 1);
        assert_eq!(walks(start + 3 * PER_WALK), 2);
        assert_eq!(walks(2 * start), SAVED + 1);
        next.store(u64::MAX, Relaxed);
        assert!(walks(start) > 0, "anything may be in the word");
    }
}
