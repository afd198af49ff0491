//! Where a run could have gone on otherwise: its forks, the moves at each, and the way back to one.

use super::knowledge::{Cell, Holds, Node};
use super::livelocks::{Enabled, Lone, Pass, Segment};
use super::{Key, Move, Pending, Wait, Walker, memory};
use crate::explorer::Counts;
use crate::graph::{EventId, LocationId};
use crate::model::Model;
use crate::trace::Answer;

/// The machine as it was at a fork.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    memory: memory::Saved,
    cells: Vec<Cell>,
    nodes: Vec<Node>,
    holds: Holds,
    pending: Vec<Pending>,
    started: u32,
    watched: Vec<u64>,
    stale: Vec<u64>,
    waits: Vec<Wait>,
    transaction: Option<u8>,
    answers: Vec<(EventId, Answer)>,
}

/// The places where the run could have gone on otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fork {
    /// Where its moves start in the list of all.
    pub(super) start: u32,
    taken: u32,
    /// The half of its state's key, where several moves start.
    pub(super) key: u64,
    /// Of the second pass: the number of that state, what led here, and what the threads could do.
    pub(super) state: Option<u32>,
    pub(super) arrived: Segment,
    pub(super) enabled: Enabled,
}

impl Walker {
    /// Starts the next run; false when there is none left.
    pub(crate) fn begin(&mut self) -> bool {
        if self.again {
            // What was believed of a word is not so.
            self.again = false;
            self.start_again();
        }
        if !self.first && !self.turned && !self.turn_round() {
            if !self.next_pass() {
                return false;
            }
            self.start_again();
        }
        (self.first, self.turned) = (false, false);
        let initial = |location: &LocationId| self.initial.get(*location as usize).copied().unwrap_or(0);
        let words = self.slots.locations.iter().map(initial).collect::<Vec<_>>();
        self.memory.reset(&words);
        for (cell, location) in self.cells.iter_mut().zip(&self.cell_of.locations) {
            *cell = Cell::of(self.initial.get(*location as usize).copied().unwrap_or(0));
        }
        self.nodes.iter_mut().for_each(|node| *node = Node::of(node.life));
        self.holds.reset();
        self.watched.fill(0);
        self.stale.fill(0);
        for pending in &mut self.pending {
            (pending.alone, pending.exclusive, pending.seen) = (false, false, None);
            pending.ways.clear();
        }
        self.started = 0;
        self.waits.clear();
        self.transaction = None;
        self.answers.clear();
        self.hidden_steps.fill(0);
        (self.over, self.at) = (false, 0);
        (self.segment, self.guided, self.lone) = (Segment::START, 0, Lone::default());
        true
    }

    /// Begins the exploration anew.
    fn start_again(&mut self) {
        (self.first, self.turned) = (true, false);
        if !matches!(self.pass, Pass::Guide(_)) {
            self.counts = Counts::default();
        }
        self.seen.clear();
        self.forks.clear();
        self.moves.clear();
    }

    /// Leaves the run for the next way of the last fork that has one; gives the fork's number.
    pub(crate) fn next_way(&mut self) -> Option<usize> {
        self.turned = !self.again && self.turn_round();
        self.turned.then(|| self.forks.len() - 1)
    }

    /// The number of the fork that was just passed, if it has ways left.
    pub(crate) fn open_fork(&self) -> Option<usize> {
        let number = self.at.checked_sub(1)?;
        let fork = self.forks[number];
        let end = self.forks.get(number + 1).map_or(self.moves.len(), |next| next.start as usize);
        (((fork.start + fork.taken + 1) as usize) < end).then_some(number)
    }

    /// Whether no way of a fork was gone to its end.
    pub(crate) fn is_new(&self, fork: usize) -> bool {
        self.forks[fork].taken == 0
    }

    pub(crate) fn save(&self, to: &mut Saved) {
        self.memory.save(&mut to.memory);
        to.cells.clone_from(&self.cells);
        to.nodes.clone_from(&self.nodes);
        to.holds.clone_from(&self.holds);
        to.pending.clone_from(&self.pending);
        to.started = self.started;
        to.watched.clone_from(&self.watched);
        to.stale.clone_from(&self.stale);
        to.waits.clone_from(&self.waits);
        to.transaction = self.transaction;
        to.answers.clone_from(&self.answers);
    }

    /// Goes back to a fork.
    pub(crate) fn restore(&mut self, from: &Saved, fork: usize) {
        let (slots, initial) = (&self.slots.locations, &self.initial);
        let at_start = |location: LocationId| initial.get(location as usize).copied().unwrap_or(0);
        self.memory.restore(&from.memory, |slot| at_start(slots[slot]));
        self.cells.truncate(from.cells.len());
        self.cells.copy_from_slice(&from.cells);
        for &location in &self.cell_of.locations[self.cells.len()..] {
            self.cells.push(Cell::of(at_start(location)));
        }
        for (number, node) in self.nodes.iter_mut().enumerate() {
            *node = from.nodes.get(number).copied().unwrap_or(Node::of(node.life));
        }
        self.holds.clone_from(&from.holds);
        self.pending.clone_from(&from.pending);
        self.started = from.started;
        self.watched.copy_from_slice(&from.watched);
        self.stale.copy_from_slice(&from.stale);
        self.waits.clone_from(&from.waits);
        self.transaction = from.transaction;
        self.answers.clone_from(&from.answers);
        (self.over, self.at, self.turned) = (false, fork, false);
    }

    /// Goes back to the last fork with a way not taken.
    fn turn_round(&mut self) -> bool {
        while let Some(fork) = self.forks.last_mut() {
            fork.taken += 1;
            if ((fork.start + fork.taken) as usize) < self.moves.len() {
                return true;
            }
            self.moves.truncate(fork.start as usize);
            self.forks.pop();
        }
        false
    }

    /// What happens next; none when nothing can. `key` adds what the threads are about to do.
    pub(crate) fn next_move(&mut self, key: impl FnOnce(&mut Key)) -> Option<Move> {
        if let Some(fork) = self.forks.get(self.at) {
            self.at += 1;
            let next = self.moves[(fork.start + fork.taken) as usize];
            self.lone = Lone::default();
            self.pass(self.at - 1, next);
            return Some(next);
        }
        let start = self.moves.len();
        self.add_moves();
        let count = self.moves.len() - start;
        if count == 0 {
            return None;
        }
        let mut fork = Fork {
            start: start as u32,
            taken: 0,
            key: 0,
            state: None,
            arrived: self.segment,
            enabled: if self.is_recording() { self.enabled() } else { Enabled::default() },
        };
        if self.merges && count > 1 {
            if matches!(self.pass, Pass::Guide(_)) {
                let next = self.guided();
                self.moves.truncate(start);
                self.moves.extend(next);
                next?;
            } else {
                let state = self.state(key);
                fork.key = state as u64;
                fork.state = self.arrive(state);
                self.lone = Lone::default();
                if !self.seen.insert(state) {
                    self.note_seen(state);
                    self.counts.merged += 1;
                    self.moves.truncate(start);
                    self.over = true;
                    return None;
                }
            }
        } else if self.merges && self.is_lone_cycle(self.moves[start], |walker| walker.state(key)) {
            self.moves.truncate(start);
            self.violate_livelock();
            return None;
        }
        self.counts.states += u64::from(!matches!(self.pass, Pass::Guide(_)));
        self.forks.push(fork);
        self.at += 1;
        self.pass(self.at - 1, self.moves[start]);
        Some(self.moves[start])
    }

    /// Whether the run has come to an end that was seen before.
    pub(crate) fn is_seen(&mut self, key: impl FnOnce(&mut Key)) -> bool {
        if !self.merges || self.at < self.forks.len() {
            return false;
        }
        let state = self.state(key);
        let seen = !self.seen.insert(state);
        self.counts.merged += u64::from(seen);
        seen
    }

    fn add_moves(&mut self) {
        let start = self.moves.len();
        let step = |thread: usize, way: u8| Move::Step { thread: thread as u8, way };
        if let Some(thread) = self.transaction.map(usize::from) {
            self.moves.extend(self.pending[thread].ways.iter().map(|&way| step(thread, way)));
            if self.moves.len() == start {
                self.leave(); // it waits for another thread, so that it aborts: another way of its beginning
            }
            return;
        }
        if let Some(thread) = (0..self.threads).find(|&thread| self.pending[thread].alone) {
            self.moves.extend(self.pending[thread].ways.iter().map(|&way| step(thread, way)));
            return;
        }
        let first = (self.alike & !self.started).trailing_zeros() as usize;
        let mut deferred = false;
        for thread in 0..self.threads {
            if self.alike & 1 << thread != 0
                && self.pending[thread].exclusive
                && thread > first
                && self.started & 1 << thread == 0
            {
                deferred = true;
                continue;
            }
            self.moves.extend(self.pending[thread].ways.iter().map(|&way| step(thread, way)));
        }
        for thread in 0..self.threads {
            let drain = |(index, _)| Move::Drain { thread: thread as u8, index: index as u8 };
            self.moves.extend(self.memory.drainable(thread).map(drain));
        }
        if self.moves.len() == start && deferred {
            // An execution that comes up under other numbers.
            self.leave();
        }
        if self.model == Model::Ra && self.moves.len() > start && self.all_may_miss() {
            self.moves.push(Move::ForcedBlock);
        }
    }

    /// Whether all who are left wait for what is not the last value: a thread need not poll in between.
    fn all_may_miss(&self) -> bool {
        let misses = |thread: usize| {
            let pending = &self.pending[thread];
            let parked = self.waits.iter().any(|wait| wait.thread == thread);
            self.memory.threads[thread].ended || parked || pending.seen.is_some() && !pending.wants_last
        };
        (0..self.threads).all(misses)
    }

    fn state(&mut self, key: impl FnOnce(&mut Key)) -> u128 {
        let mut state = Key::NEW;
        key(&mut state);
        self.memory.add_to(&mut state);
        for cell in &mut self.cells {
            cell.add_to(&mut state, &self.memory);
        }
        for node in &mut self.nodes {
            node.add_to(&mut state, &self.memory);
        }
        self.holds.add_to(&mut state, &self.memory);
        state.add((self.started & self.alike).into());
        state.add(self.transaction.map_or(0, |thread| u64::from(thread) + 1));
        for thread in 0..self.threads {
            // A wait rests on what its thread has read since it did something else, or in all of an attempt.
            state.add(self.stale[thread] & (self.watched[thread] | self.attempted[thread]));
        }
        state.add(self.waits.len() as u64);
        for wait in &self.waits {
            state.add(wait.slots);
            state.add((wait.thread as u64) << 1 | u64::from(wait.timed));
        }
        state.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A walker of two threads, of which so much has happened.
    fn state(change: impl FnOnce(&mut Walker)) -> u128 {
        let mut walker = Walker::new(Model::Sc, 2, true, 0);
        change(&mut walker);
        walker.state(|_| ())
    }

    fn waits(slots: u64, timed: bool) -> Wait {
        Wait { thread: 0, slots, timed, what: "waits" }
    }

    #[test]
    fn states_differ_by_all_words_that_a_wait_rests_on() {
        let last = state(|walker| walker.waits.push(waits(1 << 63, false)));
        assert_ne!(last, state(|walker| walker.waits.push(waits(0, false))));
        assert_ne!(last, state(|walker| walker.waits.push(waits(1 << 63, true))));
    }

    #[test]
    fn states_differ_by_what_was_written_since_an_attempt_read_it() {
        let after_attempt = |stale| {
            state(|walker| {
                walker.attempted[0] = 1;
                walker.stale[0] = stale;
            })
        };
        assert_ne!(after_attempt(0), after_attempt(1));
        assert_eq!(
            state(|_| ()),
            state(|walker| walker.stale[0] = 1),
            "what no wait rests on does not matter"
        );
    }
}
