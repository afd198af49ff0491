//! Transactions in the caches: which lines each has read or written, and what undoes what it has written.
//!
//! What a transaction writes is written in its place at once, since no other core can see it: a core that wants to has to take
//! the line away from the transaction's core, or to share it, and that aborts the transaction, which puts back what was there. So
//! a conflict is found where a line leaves a core, by line, and it aborts when the core hears of it, which is before any other
//! core has the line: a transaction that has committed by then is out of danger. A line belongs to a set from when the core asks
//! for it, and a transaction does not use one that the directory has taken away, as others may until they hear of it.

use std::collections::BTreeMap;
use std::ptr::NonNull;

use machine::{Abort, LINE_BYTES};
use topology::machine_file::Winner;

use super::Memory;
use super::lines::Line;
use crate::clock::{Clock, Event};
use crate::hardware::TransactionalMemory;
use crate::{NOBODY, Time};

/// What lay on a line.
struct Old {
    at: NonNull<u8>,
    bytes: [u8; LINE_BYTES],
}

/// What a transaction does with a line.
#[derive(Clone, Copy, Default)]
struct Use {
    /// It has asked for the line to write it.
    writes: bool,
    /// It has read or written it.
    used: bool,
    /// It has written it.
    written: bool,
}

/// The transaction that a thread is in, or was in last.
#[derive(Default)]
struct Transaction {
    core: u32,
    /// Tells the transactions of a thread apart.
    number: u32,
    is_active: bool,
    /// Why it is not, if that is so.
    aborted: Option<Abort>,
    lines: BTreeMap<u32, Use>,
    /// Those that it writes, in the order of the first writes.
    written: Vec<u32>,
    /// What lay on each that it has written. Nothing but words and cells lies there, and no other thread can write them.
    old: Vec<Old>,
}

impl Transaction {
    /// Whether it and an access of another core to the line exclude each other.
    fn excludes(&self, line: u32, writes: bool) -> bool {
        self.is_active && self.lines.get(&line).is_some_and(|of| of.writes || writes)
    }

    /// The same of what it has done by now.
    fn has_used(&self, line: u32, writes: bool) -> bool {
        self.is_active && self.lines.get(&line).is_some_and(|of| of.written || of.used && writes)
    }

    /// Adds a line.
    fn add(&mut self, line: u32, writes: bool, limits: &TransactionalMemory) -> Result<(), Abort> {
        let known = self.lines.get(&line).copied();
        if known.is_none() && self.lines.len() >= limits.read_lines as usize {
            return Err(Abort::CAPACITY);
        }
        if writes && !known.is_some_and(|of| of.writes) {
            let set = |line: u32| line % limits.l1_sets;
            let ways = self.written.iter().filter(|&&other| set(other) == set(line)).count();
            if ways >= limits.l1_ways as usize {
                return Err(Abort::CAPACITY);
            }
            self.written.push(line);
        }
        self.lines.entry(line).or_default().writes |= writes;
        Ok(())
    }
}

/// All transactions.
#[derive(Default)]
pub(super) struct Transactions {
    by_thread: Vec<Transaction>,
    /// How many are active.
    active: u32,
}

impl Transactions {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Memory {
    /// The thread on a core begins a transaction.
    pub(crate) fn begin_transaction(&mut self, core: u32, thread: u32) {
        let all = &mut self.transactions.by_thread;
        if all.len() <= thread as usize {
            all.resize_with(thread as usize + 1, Transaction::default);
        }
        let begun = &mut all[thread as usize];
        debug_assert!(!begun.is_active && begun.lines.is_empty() && begun.old.is_empty());
        (begun.core, begun.is_active, begun.aborted) = (core, true, None);
        begun.number = begun.number.wrapping_add(1);
        self.transactions.active += 1;
        self.caches[core as usize].begin_transaction(thread);
    }

    /// A thread's transaction is over: what it has written stays.
    pub(crate) fn commit_transaction(&mut self, thread: u32) {
        let Some(ending) = self.end_transaction(thread) else { return };
        ending.lines.clear();
        ending.written.clear();
        ending.old.clear();
    }

    /// A thread's transaction is over: the values are again what they were, and its core drops what it has written.
    pub(crate) fn abort_transaction(&mut self, clock: &mut Clock, thread: u32, abort: Abort) {
        let Some(ending) = self.end_transaction(thread) else { return };
        ending.aborted = Some(abort);
        for Old { at, bytes } in ending.old.drain(..) {
            // SAFETY: as when it was read, by `use_line`.
            unsafe { at.cast().write(bytes) };
        }
        ending.lines.clear();
        let (core, mut written) = (ending.core, std::mem::take(&mut ending.written));
        for line in written.drain(..) {
            self.lines.get(line).drop_from(core);
        }
        self.transactions.by_thread[thread as usize].written = written; // its memory is used again
        clock.push(clock.now, Event::Aborted(thread));
    }

    fn end_transaction(&mut self, thread: u32) -> Option<&mut Transaction> {
        let ending = self.transactions.by_thread.get_mut(thread as usize)?;
        if !std::mem::take(&mut ending.is_active) {
            return None;
        }
        self.transactions.active -= 1;
        self.caches[ending.core as usize].transaction = NOBODY;
        Some(ending)
    }

    /// Why a thread's last transaction aborted; none if it goes on or has committed.
    pub(crate) fn aborted_transaction(&self, thread: u32) -> Option<Abort> {
        self.transactions.by_thread.get(thread as usize)?.aborted
    }

    /// A thread's transaction is about to use a line.
    ///
    /// # Errors
    /// The cache cannot keep it.
    pub(crate) fn use_in_transaction(&mut self, thread: u32, line: u32, writes: bool) -> Result<(), Abort> {
        let limits = self.hardware.transactions.as_ref().expect("a machine with transactions");
        self.transactions.by_thread[thread as usize].add(line, writes, limits)
    }

    /// A thread's transaction, whose core has the line, is about to read it, or to write there.
    ///
    /// # Safety
    /// The line lies at this place, in memory of the simulation for as long as its run lasts.
    pub(crate) unsafe fn use_line(&mut self, thread: u32, line: u32, writes: bool, at: NonNull<u8>) {
        let own = &mut self.transactions.by_thread[thread as usize];
        let of = own.lines.entry(line).or_default();
        of.used = true;
        if writes && !std::mem::replace(&mut of.written, true) {
            // SAFETY: the caller's; what no thread has written yet is zero.
            let bytes = unsafe { at.cast().read() };
            own.old.push(Old { at, bytes });
        }
    }

    /// A line leaves a core, or is the core's alone no more, since another one wants to write it or to read it. The core hears of it
    /// at a time.
    #[inline]
    pub(super) fn leaves(&mut self, clock: &mut Clock, core: u32, line: u32, writes: bool, at: Time) {
        let thread = self.caches[core as usize].transaction;
        if thread != NOBODY {
            self.conflict(clock, thread, line, writes, at);
        }
    }

    #[cold]
    fn conflict(&mut self, clock: &mut Clock, thread: u32, line: u32, writes: bool, at: Time) {
        let one = &self.transactions.by_thread[thread as usize];
        if !one.excludes(line, writes) {
        } else if at > clock.now {
            clock.push(at, Event::Conflict(thread, one.number));
        } else {
            self.abort_transaction(clock, thread, Abort::CONFLICT);
        }
    }

    /// A thread's core hears that it has lost a line, in its transaction of this number if it is still the same one.
    pub(crate) fn heard_of_conflict(&mut self, clock: &mut Clock, thread: u32, number: u32) {
        if self.transactions.by_thread.get(thread as usize).is_some_and(|one| one.number == number) {
            self.abort_transaction(clock, thread, Abort::CONFLICT);
        }
    }

    /// A thread is about to read or write a line. Its core may have lost it by now, or not yet have heard that it has, so that the
    /// directory has told no transaction of that: those that have used the line already make way.
    #[inline]
    pub(crate) fn uses_unasked(&mut self, clock: &mut Clock, line: u32, but: u32, writes: bool) {
        if self.transactions.active > 0 {
            self.make_way(clock, line, but, writes);
        }
    }

    #[cold]
    fn make_way(&mut self, clock: &mut Clock, line: u32, but: u32, writes: bool) {
        for thread in 0..self.transactions.by_thread.len() as u32 {
            if thread != but && self.transactions.by_thread[thread as usize].has_used(line, writes) {
                self.abort_transaction(clock, thread, Abort::CONFLICT);
            }
        }
    }

    /// Whether a line of this die's cores belongs to a transaction there, so that it is not taken along by a load.
    pub(super) fn is_used_in_die(&self, line: u32, die: usize) -> bool {
        let is_there = |one: &Transaction| self.caches[one.core as usize].die as usize == die;
        self.transactions.active > 0
            && self.transactions.by_thread.iter().any(|one| one.excludes(line, true) && is_there(one))
    }

    /// Whether a requester gets no line since it is a transaction, another one has the line, and that one goes on. It aborts.
    #[inline]
    pub(super) fn is_denied(&mut self, clock: &mut Clock, requester: u32) -> bool {
        self.transactions.active > 1 && self.deny(clock, requester)
    }

    #[cold]
    fn deny(&mut self, clock: &mut Clock, requester: u32) -> bool {
        let winner = self.hardware.transactions.as_ref().map(|transactions| transactions.winner);
        // A thread that has never begun one may have no entry.
        let own = self.transactions.by_thread.get(requester as usize);
        if winner != Some(Winner::Holder) || !own.is_some_and(|own| own.is_active) {
            return false;
        }
        let asking = self.requesters.get(requester);
        let (line, core, writes) = (asking.line, asking.core, asking.request.writes());
        let entry = self.lines.get(line);
        let mut others = self.transactions.by_thread.iter().filter(|one| one.core != core);
        let denied = others.any(|other| other.excludes(line, writes) && entry.has(other.core));
        if denied {
            self.abort_transaction(clock, requester, Abort::CONFLICT);
        }
        denied
    }
}

impl Line {
    /// A core's copy is gone, with what was written there.
    fn drop_from(&mut self, core: u32) {
        self.remove(core);
        if self.writer == core {
            self.writer = NOBODY;
        }
    }
}
