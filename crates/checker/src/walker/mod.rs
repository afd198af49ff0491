//! Exploration from state to state: what [`explorer`](crate::explorer) is for executions, this is for states.
//!
//! A client in which each thread goes for a lock twice has many executions that differ only in what is over: who came
//! first in the first round matters no more in the second. Here the threads move one after another on the machine that
//! the model describes ([`Memory`]), and a state that was seen before is not gone on from. A state is what the threads
//! have on their stacks, what memory and buffers hold, and who knows of what; what the past was like is no part of it.
//! A verdict is as good as the explorer's, and a test compares the two; executions are not counted by this.
//!
//! Five things keep the number of states small, all of which keep every violation and every final state:
//!
//! - *A step that commutes with all steps of other threads is taken at once.* These are: plain accesses and queue
//!   nodes' freeing and taking (two that do not commute are a violation, and it is found by what is known to have
//!   happened before, in whichever order they come), announcements (likewise), stores that go to the thread's own
//!   buffer, fences with nothing to wait for, and accesses of a word that only one thread ever uses. The last is
//!   believed until another thread uses the word; then the exploration starts again, and no longer believes it of
//!   this word. (Were there an order of steps in which another thread uses the word first, then the steps before
//!   that use commute with the one taken at once, so that the use comes up here too, and the exploration starts again.)
//! - *A wait is one step*, which is taken when the word holds what is waited for. A thread that has missed it at
//!   several words waits for good, and the execution is left as soon as one of them changes: the thread could as well
//!   have polled then, and does so in another execution.
//! - *Threads that do the same are interchangeable.* Of those of them that have tried no read-modify-write yet, only the one
//!   with the lowest number may try one that others may see. Any execution becomes one of this kind by giving the
//!   threads numbers in the order in which they first try one; nothing else that they do is restricted. It is assumed
//!   only where the client says so ([`Exploration::alike`](crate::Exploration)); of a lock that tells threads apart
//!   otherwise than by their being different, this would not see all.
//!
//! - *Falling asleep on a futex is one step*, as it is in the kernel: the look at the word and the place among the sleepers.
//! - *What relaxed reads would have acquired* is no part of a state until some thread has a fence that acquires it: then the
//!   exploration starts again.
//!
//! A cycle of states from which no thread gets out is a livelock; see [`livelocks`].
//!
//! What is kept is the keys of states seen, and the states on the way to where the run is, so that it can go back and go
//! another way. Only after a run that came to its end is the client started again.

mod forks;
mod key;
mod knowledge;
mod livelocks;
mod memory;
mod steps;

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use forks::Fork;
pub(crate) use forks::Saved;
use key::AsItIs;
pub(crate) use key::Key;
use knowledge::{Cell, Holds, Node};
use livelocks::{Lone, Pass, Segment};
use memory::{Memory, SEVERAL, Slots};

use crate::explorer::{Counts, Stop};
use crate::graph::{EventId, LocationId, StepIndex};
use crate::model::Model;
use crate::trace::{Answer, ReplayTrace, WrongAt};
use crate::violation::Violation;

/// States that are remembered at most: some 2 GiB.
pub(crate) const MOST_STATES: usize = 40_000_000;

/// The same with what leads from which state to which, where that is taken down.
pub(crate) const MOST_ENTRIES: usize = 2 * MOST_STATES;

/// What the thread that is asked may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulingStep {
    /// What commutes with all others; else it says what it could do.
    Poll,
    /// The step that it said, this alternative of it.
    Take(u8),
    /// No thread can move: each wait blocks for good.
    ForcedBlock,
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
    ForcedBlock,
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
    /// Of a wait: the state of the word when it was last asked, as its version.
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

/// A thread that waits for good.
#[derive(Clone, Copy, Debug)]
struct Wait {
    thread: usize,
    slots: u64,
    timed: bool,
    what: &'static str,
}

/// An exploration from state to state.
#[derive(Debug)]
pub(crate) struct Walker {
    model: Model,
    /// States are merged and steps are taken at once; otherwise every order of accesses of words comes up.
    merges: bool,
    /// Threads that do the same, as bits.
    alike: u32,
    pub(crate) counts: Counts,
    pub(crate) violation: Option<Violation>,
    /// The thread whose last step is what is wrong, if it is one step.
    wrong_thread: Option<usize>,
    /// Something could not be followed: a thread that takes too many steps, or seq_cst under release-acquire.
    pub(crate) cut_off: bool,
    /// Or the machine is too small for the client.
    pub(crate) is_too_small: bool,
    pub(crate) initial: Vec<u64>,
    pub(crate) node_of: Vec<Option<LocationId>>,
    pub(crate) step: SchedulingStep,
    /// A wait was asked whether it is over.
    pub(crate) asked: bool,
    threads: usize,
    memory: Memory,
    slots: Slots,
    /// By thread: steps on words that no other uses, since one on another word.
    hidden_steps: Vec<u32>,
    cell_of: Slots,
    cells: Vec<Cell>,
    nodes: Vec<Node>,
    holds: Holds,
    pending: Vec<Pending>,
    /// Threads that have tried a read-modify-write, as bits.
    started: u32,
    /// By thread: words that it has read since it did something else.
    watched: Vec<u64>,
    /// By thread: words that its attempt of a wait has read.
    pub(crate) attempted: Vec<u64>,
    /// By thread: words that were written since it read them.
    stale: Vec<u64>,
    waits: Vec<Wait>,
    /// The thread that is in a transaction, in which no other takes a step.
    transaction: Option<u8>,
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
    pass: Pass,
    /// Some state was met again on the way from itself.
    met_again: bool,
    /// What happened since the last state that has several moves.
    segment: Segment,
    /// How many moves a guided run has taken where there were several.
    guided: usize,
    /// How many events each thread had where the cycle starts that was found.
    cycle_from: Vec<usize>,
    lone: Lone,
    pub(crate) limits: TimeLimits,
    /// It ended for them while a cycle was looked for.
    pub(crate) is_late: bool,
}

/// When an exploration is to end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeLimits {
    pub(crate) until: Option<Instant>,
    /// Set when it is to end.
    pub(crate) stop: Option<&'static AtomicBool>,
}

impl TimeLimits {
    pub(crate) fn are_over(self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
            || self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// So many steps on words of its own may a thread take at once.
const MOST_HIDDEN_STEPS: u32 = 100;

impl Walker {
    pub(crate) fn new(model: Model, threads: usize, merges: bool, alike: u32) -> Self {
        Self {
            model,
            merges,
            alike: if merges { alike } else { 0 },
            counts: Counts::default(),
            violation: None,
            wrong_thread: None,
            cut_off: false,
            is_too_small: false,
            initial: Vec::new(),
            node_of: Vec::new(),
            step: SchedulingStep::Poll,
            asked: false,
            threads,
            memory: Memory::new(model, threads),
            slots: Slots::default(),
            hidden_steps: vec![0; threads],
            cell_of: Slots::default(),
            cells: Vec::new(),
            nodes: Vec::new(),
            holds: Holds::default(),
            pending: (0..threads).map(|_| Pending::default()).collect(),
            started: 0,
            watched: vec![0; threads],
            attempted: vec![0; threads],
            stale: vec![0; threads],
            waits: Vec::new(),
            transaction: None,
            over: false,
            again: false,
            seen: HashSet::default(),
            forks: Vec::new(),
            moves: Vec::new(),
            at: 0,
            first: true,
            turned: false,
            answers: Vec::new(),
            pass: Pass::default(),
            met_again: false,
            segment: Segment::START,
            guided: 0,
            cycle_from: Vec::new(),
            lone: Lone::default(),
            limits: TimeLimits::default(),
            is_late: false,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Stores that no other thread can see reach memory at once; whether there was one.
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
        self.memory.forget_old(self.merges)
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
    pub(crate) fn deadlocked(&mut self) {
        self.over = true;
        self.counts.pruned += 1;
        let running = (0..self.threads).filter(|&thread| !self.memory.threads[thread].ended).count();
        if running == self.waits.len() && self.waits.iter().all(|wait| !wait.timed) {
            let waiting = self.waits.iter().map(|wait| (wait.thread, wait.what.to_owned()));
            self.violation.get_or_insert(Violation::endless_wait(waiting));
        }
    }

    /// The run as a trace, which the explorer can run again.
    pub(crate) fn trace(&self) -> ReplayTrace {
        let mut answers = self.answers.clone();
        let mut orders =
            (0..self.slots.locations.len()).map(|slot| self.memory.order(slot)).collect::<Vec<_>>();
        for (slot, write, is_part) in self.memory.under_way(self.wrong_thread) {
            if is_part && let Some((_, answer)) = answers.iter_mut().find(|(id, _)| id.next() == write) {
                *answer = Answer::From(orders[slot].last().copied().unwrap_or(EventId::INITIAL));
            }
            orders[slot].push(write);
        }
        let steps = self.memory.threads.iter().map(|thread| thread.events);
        ReplayTrace::from_answers(steps, &answers, orders.into_iter(), self.wrong())
    }

    /// Where the violation is, if it is at one place.
    fn wrong(&self) -> Option<WrongAt> {
        match self.violation.as_ref()? {
            Violation::Livelock { threads } => {
                let start = |&thread: &usize| EventId {
                    thread: thread as u8,
                    index: self.cycle_from[thread] as StepIndex,
                };
                Some(WrongAt::Cycle(threads.iter().map(start).collect()))
            }
            _ => self.wrong_thread.map(WrongAt::LastStep),
        }
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

    /// The number of a word. An execution that uses too many is not followed.
    fn slot(&mut self, location: LocationId) -> Result<usize, Stop> {
        let Some((slot, new)) = self.slots.number(location) else { return self.is_too_large() };
        if new {
            self.memory.add_word(self.initial.get(location as usize).copied().unwrap_or(0));
            self.memory.users.push(None);
        }
        Ok(slot)
    }

    /// Whether no other thread uses the word.
    fn is_hidden(&self, slot: usize, thread: usize) -> bool {
        self.merges && self.memory.users[slot].is_none_or(|user| user as usize == thread)
    }

    /// A thread uses a word.
    fn uses(&mut self, slot: usize, thread: usize) {
        self.hidden_steps[thread] =
            if self.is_hidden(slot, thread) { self.hidden_steps[thread] + 1 } else { 0 };
        if self.hidden_steps[thread] > MOST_HIDDEN_STEPS {
            // Perhaps it goes round until another thread writes the word, which must come to its turn for that.
            self.memory.users[slot] = Some(SEVERAL);
            (self.again, self.over) = (true, true);
            return;
        }
        self.knows_user(slot, thread);
    }

    /// A thread uses a word, or waits for what it will hold: what the only user of a word writes in between would be missed.
    fn knows_user(&mut self, slot: usize, thread: usize) {
        match self.memory.users[slot] {
            None => self.memory.users[slot] = Some(thread as u8),
            Some(user) if user as usize != thread && user != SEVERAL => {
                self.memory.users[slot] = Some(SEVERAL);
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
        // What its own buffer holds, a thread had seen when it began to wait.
        if self.waits.iter().any(|wait| wait.thread != thread && wait.slots & 1 << slot != 0) {
            self.leave();
        }
    }

    /// Nothing comes of the run.
    pub(crate) fn leave(&mut self) {
        if !self.over {
            self.over = true;
            self.counts.pruned += 1;
        }
    }

    pub(crate) fn commit_transaction(&mut self) {
        self.transaction = None;
    }

    /// A thread does what is not followed from state to state.
    pub(crate) fn cannot_follow(&mut self) {
        self.cut_off = true;
        self.leave();
    }

    /// The client needs more than the machine has.
    pub(crate) fn is_too_large<T>(&mut self) -> Result<T, Stop> {
        (self.cut_off, self.is_too_small) = (true, true);
        self.give_up()
    }

    fn give_up<T>(&mut self) -> Result<T, Stop> {
        self.leave();
        Err(Stop::Ended)
    }

    /// States that are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.seen.len()
    }

    /// The step that a thread has just taken is wrong.
    pub(crate) fn violate_at<T>(&mut self, thread: usize, violation: Violation) -> Result<T, Stop> {
        if !self.over && self.violation.is_none() {
            self.wrong_thread = Some(thread);
        }
        self.violate(violation)
    }

    fn violate<T>(&mut self, violation: Violation) -> Result<T, Stop> {
        if !self.over {
            self.violation.get_or_insert(violation);
        }
        self.over = true;
        Err(Stop::Ended)
    }
}
