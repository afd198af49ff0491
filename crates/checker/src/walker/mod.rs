//! Exploration from state to state: what [`explorer`](crate::explorer) is for executions, this is for states.
//!
//! A client in which each thread goes for a lock twice has many executions that differ only in what is over: who came
//! first in the first round matters no more in the second. Here the threads move one after another on the machine that
//! the model describes ([`Memory`]), and a state that was seen before is not gone on from. A state is what the threads
//! have on their stacks, what memory and buffers hold, and who knows of what; what the past was like is no part of it.
//! A verdict is as good as the explorer's, and a test compares the two; executions are not counted by this.
//!
//! Three things keep the number of states small, all of which keep every violation and every final state:
//!
//! - *A step that commutes with all steps of other threads is taken at once.* These are: plain accesses and queue
//!   nodes' giving and taking (two that do not commute are a violation, and it is found by what is known to have
//!   happened before, in whichever order they come), announcements (likewise), stores that go to the thread's own
//!   buffer, fences with nothing to wait for, and accesses of a word that only one thread ever uses. The last is
//!   believed until another thread uses the word; then the exploration starts again, and no longer believes it of
//!   this word. (Were there an order of steps in which another thread uses the word first, then the steps before
//!   that use commute with the one taken at once, so that the use comes up here too, and the exploration starts again.)
//! - *A wait is one step*, which is taken when the word holds what is waited for. A thread that has looked in vain at
//!   several words waits for good, and the execution is left as soon as one of them changes: the thread could as well
//!   have looked then, and does so in another execution.
//! - *Threads that do the same are interchangeable.* Of those that have tried no read-modify-write yet, only the one
//!   with the lowest number may try one that others may see. Any execution becomes one of this kind by giving the
//!   threads numbers in the order in which they first try one; nothing else that they do is restricted. It is assumed
//!   only where the client says so ([`Exploration::alike`](crate::Exploration)); of a lock that tells threads apart
//!   otherwise than by their being different, this would not see all.
//!
//! What is kept is the keys of states seen, and the states on the way to where the run is, so that it can go back and go
//! another way. Only after a run that came to its end is the client started again.

mod key;
mod knowledge;
mod memory;

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use machine::{Event as Note, Ordering};

pub(crate) use key::Key;
use knowledge::{Cell, Holds, Node};
use memory::{Memory, Slots};

use crate::explorer::{Access, Counts, Stop, location_name};
use crate::graph::{EventId, Kind, LocationId, MAX_STEPS};
use crate::model::{Model, Strength, releases};
use crate::script::{Answer, Script};
use crate::violation::Violation;

/// States that are remembered at most: some 2 GiB.
pub(crate) const MOST_STATES: usize = 40_000_000;

/// What the thread that is asked may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// What needs no turn; else say what it could do.
    Look,
    /// The step that it said, this one of its ways.
    Go(u8),
    /// Nobody can move: let a wait see that it is in vain.
    LetGo,
}

/// A step of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A thread takes the step that it waits to take, in one of its ways.
    Step {
        /// The thread.
        thread: u8,
        /// The way.
        way: u8,
    },
    /// A buffered store of a thread reaches memory.
    Drain {
        /// The thread.
        thread: u8,
        /// Its place in the buffer.
        index: u8,
    },
    /// All who are left wait, and each of them has missed what it waits for.
    LetGo,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Every thread came to its end.
    Complete,
    /// The state was seen before, or nothing comes of the run.
    Left,
}

/// What a thread waits to do.
#[derive(Debug, Default)]
struct Pending {
    ways: Vec<u8>,
    /// Only this thread may move: its step is a choice and no access.
    alone: bool,
    /// It is a read-modify-write.
    exclusive: bool,
    /// Of a wait: what the word looked like when it was last asked, as its version.
    seen: Option<u32>,
    /// Of a wait: the last value of the word is what is waited for.
    wants_last: bool,
}

impl Clone for Pending {
    fn clone(&self) -> Self {
        let mut pending = Self::default();
        pending.clone_from(self);
        pending
    }

    fn clone_from(&mut self, other: &Self) {
        self.ways.clone_from(&other.ways);
        (self.alone, self.exclusive) = (other.alone, other.exclusive);
        (self.seen, self.wants_last) = (other.seen, other.wants_last);
    }
}

/// A thread that looked in vain.
#[derive(Clone, Copy, Debug)]
struct Wait {
    thread: usize,
    slots: u64,
    limited: bool,
    what: &'static str,
}

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
    answers: Vec<(EventId, Answer)>,
}

/// The places where the run could have gone on otherwise.
#[derive(Clone, Copy, Debug)]
struct Fork {
    /// Where its moves start in the list of all.
    start: u32,
    taken: u32,
}

/// Keys are spread well as they are.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers")
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

/// An exploration from state to state.
#[derive(Debug)]
pub(crate) struct Walker {
    model: Model,
    /// States are merged and steps are taken at once; otherwise every order of accesses of words comes up.
    merges: bool,
    /// All threads do the same.
    alike: bool,
    pub(crate) counts: Counts,
    pub(crate) violation: Option<Violation>,
    /// Something could not be followed: a thread that takes too many steps, or seq_cst under release-acquire.
    pub(crate) cut_off: bool,
    pub(crate) initial: Vec<u64>,
    pub(crate) node_of: Vec<Option<LocationId>>,
    pub(crate) turn: Turn,
    /// A wait was asked whether it is over.
    pub(crate) asked: bool,
    threads: usize,
    memory: Memory,
    slots: Slots,
    /// The only thread that has used a word, or that there are several.
    users: Vec<Option<u8>>,
    cell_of: Slots,
    cells: Vec<Cell>,
    nodes: Vec<Node>,
    holds: Holds,
    pending: Vec<Pending>,
    /// Threads that have tried a read-modify-write, as bits.
    started: u32,
    /// By thread: words that it has read since it did something else.
    watched: Vec<u64>,
    /// By thread: of these, words that were written since.
    stale: Vec<u64>,
    waits: Vec<Wait>,
    /// The run is left.
    over: bool,
    /// A word turned out to be used by several threads.
    again: bool,
    seen: HashSet<u128, BuildHasherDefault<AsItIs>>,
    forks: Vec<Fork>,
    moves: Vec<Move>,
    /// How many forks of the run are behind it.
    at: usize,
    first: bool,
    /// The last fork has its next way already.
    turned: bool,
    answers: Vec<(EventId, Answer)>,
}

/// More than one thread uses the word.
const SEVERAL: u8 = u8::MAX;

impl Walker {
    pub(crate) fn new(model: Model, threads: usize, merges: bool, alike: bool) -> Self {
        Self {
            model,
            merges,
            alike: alike && merges,
            counts: Counts::default(),
            violation: None,
            cut_off: false,
            initial: Vec::new(),
            node_of: Vec::new(),
            turn: Turn::Look,
            asked: false,
            threads,
            memory: Memory::new(model, threads),
            slots: Slots::default(),
            users: Vec::new(),
            cell_of: Slots::default(),
            cells: Vec::new(),
            nodes: Vec::new(),
            holds: Holds::default(),
            pending: (0..threads).map(|_| Pending::default()).collect(),
            started: 0,
            watched: vec![0; threads],
            stale: vec![0; threads],
            waits: Vec::new(),
            over: false,
            again: false,
            seen: HashSet::default(),
            forks: Vec::new(),
            moves: Vec::new(),
            at: 0,
            first: true,
            turned: false,
            answers: Vec::new(),
        }
    }

    /// Starts the next run; false when there is none left.
    pub(crate) fn begin(&mut self) -> bool {
        if self.again {
            // What was believed of a word is not so.
            (self.again, self.first, self.turned) = (false, true, false);
            self.counts = Counts::default();
            self.seen.clear();
            self.forks.clear();
            self.moves.clear();
        }
        if !self.first && !self.turned && !self.turn_round() {
            return false;
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
        self.answers.clear();
        (self.over, self.at) = (false, 0);
        true
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

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// What happens next; none when nothing can. `key` adds what the threads are about to do.
    pub(crate) fn next_move(&mut self, key: impl FnOnce(&mut Key)) -> Option<Move> {
        if let Some(fork) = self.forks.get(self.at) {
            self.at += 1;
            return Some(self.moves[(fork.start + fork.taken) as usize]);
        }
        let start = self.moves.len();
        self.add_moves();
        let count = self.moves.len() - start;
        if count == 0 {
            return None;
        }
        if self.merges && count > 1 {
            let state = self.state(key);
            if !self.seen.insert(state) {
                self.counts.merged += 1;
                self.moves.truncate(start);
                self.over = true;
                return None;
            }
        }
        self.counts.states += 1;
        self.forks.push(Fork { start: start as u32, taken: 0 });
        self.at += 1;
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
        if let Some(thread) = (0..self.threads).find(|&thread| self.pending[thread].alone) {
            self.moves.extend(self.pending[thread].ways.iter().map(|&way| step(thread, way)));
            return;
        }
        let first = self.started.trailing_ones() as usize;
        let mut held_back = false;
        for thread in 0..self.threads {
            if self.alike
                && self.pending[thread].exclusive
                && thread > first
                && self.started & 1 << thread == 0
            {
                held_back = true;
                continue;
            }
            self.moves.extend(self.pending[thread].ways.iter().map(|&way| step(thread, way)));
        }
        for thread in 0..self.threads {
            let drain = |(index, _)| Move::Drain { thread: thread as u8, index: index as u8 };
            self.moves.extend(self.memory.drainable(thread).map(drain));
        }
        if self.moves.len() == start && held_back {
            // An execution that comes up under other numbers.
            self.leave();
        }
        if self.model == Model::Ra && self.moves.len() > start && self.all_may_miss() {
            self.moves.push(Move::LetGo);
        }
    }

    /// Whether all who are left wait for what is not the last value: a thread need not look in between.
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
        state.add(if self.alike { self.started.into() } else { 0 });
        for thread in 0..self.threads {
            state.add(self.stale[thread] & self.watched[thread]);
        }
        for wait in &self.waits {
            state.add(wait.slots << 1 | u64::from(wait.limited));
        }
        state.value()
    }

    /// Stores that nobody can see reach memory at once; whether there was one.
    pub(crate) fn drain_hidden(&mut self) -> bool {
        let mut any = false;
        for thread in 0..self.threads {
            loop {
                let hidden = self.memory.drainable(thread).find(|&(_, slot)| self.is_hidden(slot, thread));
                let Some((index, _)) = hidden else { break };
                self.drain(thread, index);
                any = true;
            }
        }
        any
    }

    pub(crate) fn drain(&mut self, thread: usize, index: usize) {
        let (slot, part) = self.memory.drain(thread, index);
        // The read half of a store to part of a word is the event before it.
        if let Some((write, before)) = part
            && let Some(answer) = self.answers.iter_mut().find(|(id, _)| id.next() == write)
        {
            answer.1 = Answer::From(before);
        }
        self.wrote(slot, thread);
    }

    /// Forgets what no thread can see any more; whether there was something, so that places have other numbers.
    pub(crate) fn forget_old(&mut self) -> bool {
        self.memory.forget_old()
    }

    pub(crate) fn has_buffered(&self) -> bool {
        (0..self.threads).any(|thread| self.memory.has_buffered(thread))
    }

    /// A thread came to its end.
    pub(crate) fn end(&mut self, thread: usize) {
        self.memory.threads[thread].ended = true;
        self.pending[thread].ways.clear();
    }

    /// Nothing can move and not all threads have ended: what came of the run.
    pub(crate) fn in_vain(&mut self) {
        self.over = true;
        self.counts.pruned += 1;
        let running = (0..self.threads).filter(|&thread| !self.memory.threads[thread].ended).count();
        if running == self.waits.len() && self.waits.iter().all(|wait| !wait.limited) {
            let waiting = self.waits.iter().map(|wait| (wait.thread, wait.what.to_owned()));
            self.violation.get_or_insert(Violation::endless_wait(waiting));
        }
    }

    /// The run as a script, which the explorer can run again.
    pub(crate) fn script(&self) -> Script {
        let mut answers = self.answers.clone();
        let mut orders =
            (0..self.slots.locations.len()).map(|slot| self.memory.order(slot)).collect::<Vec<_>>();
        for (slot, write, is_part) in self.memory.under_way() {
            if is_part && let Some((_, answer)) = answers.iter_mut().find(|(id, _)| id.next() == write) {
                *answer = Answer::From(orders[slot].last().copied().unwrap_or(EventId::INITIAL));
            }
            orders[slot].push(write);
        }
        let steps = self.memory.threads.iter().map(|thread| thread.events);
        Script::from_answers(steps, &answers, orders.into_iter())
    }

    pub(crate) fn last_value(&self, location: LocationId) -> u64 {
        if let Some(slot) = self.slots.known(location) {
            return self.memory.last(slot).value;
        }
        match self.cell_of.known(location) {
            Some(cell) => self.cells[cell].value,
            None => self.initial.get(location as usize).copied().unwrap_or(0),
        }
    }

    /// The number of a word.
    fn slot(&mut self, location: LocationId) -> usize {
        let (slot, new) = self.slots.number(location);
        if new {
            self.memory.add_word(self.initial.get(location as usize).copied().unwrap_or(0));
            self.users.push(None);
        }
        slot
    }

    /// Whether no other thread uses the word.
    fn is_hidden(&self, slot: usize, thread: usize) -> bool {
        self.merges && self.users[slot].is_none_or(|user| user as usize == thread)
    }

    /// A thread uses a word.
    fn uses(&mut self, slot: usize, thread: usize) {
        match self.users[slot] {
            None => self.users[slot] = Some(thread as u8),
            Some(user) if user as usize != thread && user != SEVERAL => {
                self.users[slot] = Some(SEVERAL);
                self.again = self.merges;
                self.over |= self.merges;
            }
            Some(_) => {}
        }
    }

    fn wrote(&mut self, slot: usize, thread: usize) {
        for (other, stale) in self.stale.iter_mut().enumerate() {
            if other != thread {
                *stale |= 1 << slot;
            }
        }
        if self.waits.iter().any(|wait| wait.slots & 1 << slot != 0) {
            self.leave();
        }
    }

    fn leave(&mut self) {
        if !self.over {
            self.over = true;
            self.counts.pruned += 1;
        }
    }

    fn give_up<T>(&mut self) -> Result<T, Stop> {
        self.leave();
        Err(Stop::Ended)
    }

    /// States that are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.seen.len()
    }

    pub(crate) fn violate<T>(&mut self, violation: Violation) -> Result<T, Stop> {
        if !self.over {
            self.violation.get_or_insert(violation);
        }
        self.over = true;
        Err(Stop::Ended)
    }

    /// The next event of a thread.
    fn event(&mut self, thread: usize) -> Result<EventId, Stop> {
        if self.memory.threads[thread].events >= MAX_STEPS {
            self.cut_off = true;
            return self.give_up();
        }
        Ok(self.memory.event(thread))
    }

    fn look(&mut self, thread: usize, ways: impl Iterator<Item = u8>) {
        let pending = &mut self.pending[thread];
        pending.ways.clear();
        pending.ways.extend(ways);
    }

    /// Whether the thread may go on at once, and how; otherwise it is noted what it could do.
    fn turn(&mut self, thread: usize, hidden: bool) -> Result<u8, Stop> {
        if self.over {
            return Err(Stop::Ended);
        }
        match self.turn {
            Turn::Go(way) => Ok(way),
            Turn::Look if hidden && self.pending[thread].ways.len() == 1 => Ok(self.pending[thread].ways[0]),
            Turn::Look | Turn::LetGo => Err(Stop::Later),
        }
    }

    fn stepped(&mut self, thread: usize) {
        let pending = &mut self.pending[thread];
        pending.ways.clear();
        (pending.alone, pending.exclusive, pending.seen) = (false, false, None);
    }

    fn supports(&mut self, strength: Strength) -> Result<(), Stop> {
        if self.model == Model::Ra && strength.has(Strength::SEQ_CST) {
            self.cut_off = true;
            return self.give_up();
        }
        Ok(())
    }

    pub(crate) fn read(
        &mut self,
        access: Access,
        wanted: Option<&mut dyn FnMut(u64) -> bool>,
    ) -> Result<(EventId, u64), Stop> {
        let thread = access.thread;
        let slot = self.slot(access.location);
        let is_wait = wanted.is_some();
        if self.turn == Turn::Look {
            self.supports(access.strength)?;
            self.look_at_read(access, slot, wanted);
        }
        let place = if self.turn == Turn::LetGo && !self.over {
            self.memory.readable(thread, slot).end - 1
        } else {
            self.turn(thread, self.is_hidden(slot, thread))? as usize
        };
        debug_assert!(self.turn != Turn::LetGo || is_wait || !self.pending.is_empty());
        let value = self.memory.value(thread, slot, place);
        let latest = place + 1 == self.memory.readable(thread, slot).end;
        let strength = match access.compare {
            Some(compare) if value == compare.expected => compare.success,
            Some(compare) => compare.failure,
            None => access.strength,
        };
        self.supports(strength)?;
        let id = self.event(thread)?;
        let source = self.memory.read(thread, slot, place, strength);
        self.answers.push((id, Answer::From(source)));
        self.started |= u32::from(access.strength.has(Strength::EXCLUSIVE)) << thread;
        self.stepped(thread);
        self.uses(slot, thread);
        self.watched[thread] |= 1 << slot;
        if latest {
            self.stale[thread] &= !(1 << slot);
        } else {
            self.stale[thread] |= 1 << slot;
        }
        self.use_node(access.location, id)?;
        Ok((EventId { thread: thread as u8, index: slot as u8 }, value))
    }

    fn look_at_read(&mut self, access: Access, slot: usize, wanted: Option<&mut dyn FnMut(u64) -> bool>) {
        let (thread, memory) = (access.thread, &self.memory);
        let places = memory.readable(thread, slot);
        let places_end = places.end;
        let pending = &mut self.pending[thread];
        if let Some(wanted) = wanted {
            // Asked only when there is something new: it may count how often it was asked.
            if pending.seen != Some(memory.version(slot)) {
                pending.seen = Some(memory.version(slot));
                self.asked = true;
                pending.ways.clear();
                let found = places.rev().filter(|&place| wanted(memory.value(thread, slot, place)));
                let last = places_end - 1;
                pending.ways.extend(found.map(|place| place as u8));
                pending.wants_last = pending.ways.first() == Some(&(last as u8));
            }
            return;
        }
        pending.ways.clear();
        let full = access.strength.has(Strength::FULL) && memory.has_buffered(thread);
        let exclusive = access.strength.has(Strength::EXCLUSIVE);
        pending.exclusive = exclusive;
        let may = |&place: &usize| {
            let writes =
                access.compare.is_none_or(|compare| compare.expected == memory.value(thread, slot, place));
            !exclusive || !writes || memory.may_exchange(thread, slot, place, releases(access.ordering))
        };
        if !full {
            pending.ways.extend(places.rev().filter(may).map(|place| place as u8));
        }
    }

    pub(crate) fn write(
        &mut self,
        access: Access,
        value: u64,
        read_half: Option<EventId>,
    ) -> Result<(), Stop> {
        let thread = access.thread;
        let slot = self.slot(access.location);
        self.supports(access.strength)?;
        if self.over {
            return Err(Stop::Ended);
        }
        if read_half.is_some() {
            let id = self.event(thread)?;
            if !self.memory.write_half(id, slot, value, access.strength) {
                return self.give_up();
            }
            return self.written(access, slot, id);
        }
        if matches!(self.model, Model::Tso | Model::Pso) {
            let id = self.event(thread)?;
            self.memory.buffer(id, slot, u64::MAX, value, access.strength);
            self.watched[thread] = 0;
            self.uses(slot, thread);
            return self.use_node(access.location, id);
        }
        let places = self.memory.places(thread, slot).map(|place| place as u8).collect::<Vec<_>>();
        if self.turn == Turn::Look {
            self.look(thread, places.into_iter());
        }
        let place = self.turn(thread, self.is_hidden(slot, thread))? as usize;
        let id = self.event(thread)?;
        self.memory.write(id, slot, place, value, access.strength);
        self.written(access, slot, id)
    }

    fn written(&mut self, access: Access, slot: usize, id: EventId) -> Result<(), Stop> {
        self.stepped(access.thread);
        self.uses(slot, access.thread);
        self.watched[access.thread] = 0;
        self.wrote(slot, access.thread);
        self.use_node(access.location, id)
    }

    /// Writes some bits of a word: two events, as a read-modify-write, but buffered as a store.
    pub(crate) fn write_part(&mut self, access: Access, mask: u64, bits: u64) -> Result<(), Stop> {
        let thread = access.thread;
        let slot = self.slot(access.location);
        self.supports(access.strength)?;
        if self.over {
            return Err(Stop::Ended);
        }
        if matches!(self.model, Model::Tso | Model::Pso) {
            let read = self.event(thread)?;
            let id = self.event(thread)?;
            self.answers.push((read, Answer::From(self.memory.last(slot).by)));
            self.memory.buffer(id, slot, mask, bits, access.strength);
            self.watched[thread] = 0;
            self.uses(slot, thread);
            return self.use_node(access.location, id);
        }
        if self.turn == Turn::Look {
            let memory = &self.memory;
            let places = memory.readable(thread, slot).rev();
            let places = places.filter(|&place| memory.may_exchange(thread, slot, place, false));
            let places = places.map(|place| place as u8).collect::<Vec<_>>();
            self.look(thread, places.into_iter());
        }
        let place = self.turn(thread, self.is_hidden(slot, thread))? as usize;
        let old = self.memory.value(thread, slot, place);
        let source = self.memory.source(slot, place);
        let read = self.event(thread)?;
        let id = self.event(thread)?;
        self.answers.push((read, Answer::From(source)));
        self.memory.write_after(id, slot, place, old & !mask | bits, access.strength);
        self.written(access, slot, id)
    }

    pub(crate) fn fence(&mut self, thread: usize, ordering: Ordering) -> Result<(), Stop> {
        match self.model.fence(ordering) {
            Some(strength) => self.add_fence(thread, strength),
            None => Ok(()),
        }
    }

    pub(crate) fn add_fence(&mut self, thread: usize, strength: Strength) -> Result<(), Stop> {
        self.supports(strength)?;
        if self.over {
            return Err(Stop::Ended);
        }
        if strength.has(Strength::FULL) && self.memory.has_buffered(thread) {
            self.pending[thread].ways.clear();
            return Err(Stop::Later);
        }
        self.event(thread)?;
        self.memory.fence(thread, strength);
        self.watched[thread] = 0;
        Ok(())
    }

    pub(crate) fn plain(&mut self, access: Access, written: Option<u64>) -> Result<u64, Stop> {
        if self.over {
            return Err(Stop::Ended);
        }
        let thread = access.thread;
        let (cell, new) = self.cell_of.number(access.location);
        if new {
            let initial = self.initial.get(access.location as usize).copied().unwrap_or(0);
            self.cells.push(Cell::of(initial));
        }
        let id = self.event(thread)?;
        self.watched[thread] = 0;
        let known = self.memory.threads[thread].view.happened;
        let race = self.cells[cell].access(id, &known, written);
        self.use_node(access.location, id)?;
        match race {
            Some(other) => self
                .violate(Violation::Race { threads: (other, thread), cell: location_name(access.location) }),
            None => Ok(self.cells[cell].value),
        }
    }

    pub(crate) fn choose(&mut self, thread: usize, choices: u64) -> Result<u64, Stop> {
        if self.turn == Turn::Look {
            self.look(thread, 0..choices as u8);
            self.pending[thread].alone = true;
        }
        let value = self.turn(thread, false)?;
        let id = self.event(thread)?;
        self.watched[thread] = 0;
        self.answers.push((id, Answer::Choice(value.into())));
        self.stepped(thread);
        Ok(value.into())
    }

    pub(crate) fn note(&mut self, thread: usize, note: Note) -> Result<(), Stop> {
        if self.over {
            return Err(Stop::Ended);
        }
        let id = self.event(thread)?;
        let prefix = self.memory.threads[thread].prefix;
        match self.holds.note(id, note, &prefix) {
            Some(other) => self.violate(Violation::TwoHolders { threads: (other, thread) }),
            None => Ok(()),
        }
    }

    pub(crate) fn node(&mut self, thread: usize, life: LocationId, kind: Kind) -> Result<(), Stop> {
        if self.over {
            return Err(Stop::Ended);
        }
        let id = self.event(thread)?;
        let known = self.memory.threads[thread].view.happened;
        let node = self.node_number(life);
        if kind != Kind::Give {
            self.nodes[node].take(id);
            return Ok(());
        }
        match self.nodes[node].give(id, &known) {
            Some(user) => self.violate(Violation::NodeAfterItsReturn { user, giver: thread }),
            None => Ok(()),
        }
    }

    fn node_number(&mut self, life: LocationId) -> usize {
        let known = self.nodes.iter().position(|node| node.life == life);
        known.unwrap_or_else(|| {
            self.nodes.push(Node::of(life));
            self.nodes.len() - 1
        })
    }

    /// Whether the event uses a queue node that was given back.
    fn use_node(&mut self, location: LocationId, id: EventId) -> Result<(), Stop> {
        let Some(life) = self.node_of.get(location as usize).copied().flatten() else { return Ok(()) };
        let known = self.memory.threads[id.thread as usize].view.happened;
        let node = self.node_number(life);
        match self.nodes[node].used(id, &known) {
            Some(giver) => self.violate(Violation::NodeAfterItsReturn { user: id.thread as usize, giver }),
            None => Ok(()),
        }
    }

    /// The thread waits for good, unless one of the words that it read changes: then the run is left.
    pub(crate) fn wait(&mut self, thread: usize, reads: &[EventId], limited: bool, what: &'static str) {
        let slots = reads.iter().fold(0, |slots, read| slots | 1 << read.index);
        self.pending[thread].ways.clear();
        if slots & self.stale[thread] != 0 {
            self.leave();
        } else if !self.over {
            self.waits.push(Wait { thread, slots, limited, what });
        }
    }
}
