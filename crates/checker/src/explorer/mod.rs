//! Exploration of all executions of a program, each execution graph once.
//!
//! The algorithm is TruSt (Kokologiannakis, Marmanis, Gladstein, Vafeiadis, POPL 2022). A thread runs until it ends or
//! must wait; every step adds an event to the graph. A read that could read from other writes leaves a copy of the
//! graph for each of them; so does a write that could take another place in its location's order. A write may also
//! *revisit* a read that was added before it: everything added since the read is taken away, but for what the write
//! depends on, and the read reads from the write. To do so only when all that is taken away was added in the one
//! canonical way (see [`Explorer::was_added_last`]) is what makes every graph come up exactly once, with no state to
//! remember but the copies that wait. A copy is a pending alternative: it is run again from the start, and
//! what its graph contains already is answered from there.
//!
//! Threads never switch in the middle: the order in which steps of different threads are added means nothing,
//! since a read that came too early is revisited.

mod replayed;
mod revisits;
mod steps;

use std::panic::Location as Site;
use std::time::Instant;

use machine::Ordering;

use crate::consistency::{Checker, Transaction, isolates};
use crate::graph::{Compare, Event, EventId, EventKind, Graph, LocationId, MAX_STEPS, StepIndex};
use crate::model::{Model, Strength};
use crate::trace::{Divergence, ReplayTrace, WrongAt};
use crate::violation::Violation;
use replayed::Halt;

/// Events in alternatives at most: they take some 500 MB.
const MOST_KEPT_EVENTS: usize = 2_000_000;

/// Where an access stands in the source.
pub(crate) type SiteOf = Option<&'static Site<'static>>;

/// The thread does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Not in this execution.
    Ended,
    /// What the trace wants it to read is not written yet: ask again.
    Later,
}

/// How many executions there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Executions in which every thread came to its end.
    pub explored: u64,
    /// Executions given up early, as a thread of theirs waits for a write that another execution gives it; or that are none
    /// because of their transactions.
    pub pruned: u64,
    /// From state to state: runs that came to a state seen before.
    pub merged: u64,
    /// From state to state: states that were gone on from.
    pub states: u64,
}

impl Counts {
    /// All that were begun.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.explored + self.pruned + self.merged
    }
}

/// Why a thread waits.
#[derive(Clone, Debug)]
struct Wait {
    thread: usize,
    /// It goes on if one of these reads something else.
    reads: Vec<EventId>,
    /// It goes on by itself some time.
    timed: bool,
    what: &'static str,
}

/// An exploration.
#[derive(Debug)]
pub(crate) struct Explorer {
    pub(crate) model: Model,
    pub(crate) graph: Graph,
    pub(crate) counts: Counts,
    pub(crate) violation: Option<Violation>,
    /// Where that is, if it is at one place.
    pub(crate) wrong: Option<WrongAt>,
    /// An execution was not followed to its end: a thread took more than [`MAX_STEPS`] steps.
    pub(crate) cut_off: bool,
    /// Or the checked machine is too small for the client.
    pub(crate) is_too_small: bool,
    /// Executions with so many events are given up: a shorter one is wanted.
    pub(crate) fewer_than: Option<usize>,
    /// What locations hold at the start.
    pub(crate) initial: Vec<u64>,
    /// The location that stands for the queue node that a location lies in.
    pub(crate) node_of: Vec<Option<LocationId>>,
    /// When the exploration is to end, also in the middle of an execution.
    pub(crate) deadline: Option<Instant>,
    /// It ended then.
    pub(crate) is_late: bool,
    /// It ended since too many events would have been kept.
    pub(crate) is_full: bool,
    alternatives: Vec<Graph>,
    /// Events in them, and how many there may be.
    kept_events: usize,
    most_kept_events: usize,
    spare: Vec<Graph>,
    /// How many steps of each thread were answered or added in this execution.
    steps: Vec<usize>,
    waits: Vec<Wait>,
    /// The transactions of this execution that have committed.
    pub(crate) transactions: Vec<Transaction>,
    over: bool,
    checker: Checker,
    trace: Option<ReplayTrace>,
    /// Where the code left the trace.
    pub(crate) parted: Option<Divergence>,
    /// By thread: the step at which it stands still, since the trace says nothing more or not yet.
    halted: Vec<Option<Halt>>,
    /// The step of a trace that is wrong waits until all others are done.
    holds_last: bool,
}

impl Explorer {
    pub(crate) fn new(model: Model, threads: usize) -> Self {
        Self {
            model,
            graph: Graph::default(),
            counts: Counts::default(),
            violation: None,
            wrong: None,
            cut_off: false,
            is_too_small: false,
            fewer_than: None,
            initial: Vec::new(),
            node_of: Vec::new(),
            deadline: None,
            is_late: false,
            is_full: false,
            alternatives: vec![Graph::new(threads)],
            kept_events: 0,
            most_kept_events: MOST_KEPT_EVENTS,
            spare: Vec::new(),
            steps: vec![0; threads],
            waits: Vec::new(),
            transactions: Vec::new(),
            over: false,
            checker: Checker::default(),
            trace: None,
            parted: None,
            halted: vec![None; threads],
            holds_last: true,
        }
    }

    /// Starts the next execution; false when there is none left.
    pub(crate) fn begin(&mut self) -> bool {
        if self.is_late || self.is_full {
            return false;
        }
        let Some(next) = self.alternatives.pop() else { return false };
        self.kept_events -= next.events();
        self.spare.push(std::mem::replace(&mut self.graph, next));
        self.steps.fill(0);
        self.waits.clear();
        self.transactions.clear();
        self.over = false;
        if let Some(read) = self.graph.focus.filter(|&focus| self.graph.event(focus).is_read()) {
            // It was made to read from another write, and may know less by that.
            let _: Result<(), Stop> = self.check_node(read);
        }
        true
    }

    /// The thread that must run until it has finished the read-modify-write that a revisit left half done.
    pub(crate) fn half_done(&self) -> Option<usize> {
        let focus = self.graph.focus?;
        let event = self.graph.event(focus);
        let half = event.is_read() && event.is_exclusive() && self.graph.write_half(focus).is_none();
        half.then_some(focus.thread as usize)
    }

    /// Whether nothing more is to be run in this execution.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Ends the execution; true if every thread came to its end.
    pub(crate) fn finish(&mut self) -> bool {
        if self.violation.is_some() {
            self.counts.explored += 1;
            return false;
        }
        let held_up = self.halted.iter().any(Option::is_some);
        if self.over || held_up || !self.waits.is_empty() {
            self.counts.pruned += 1;
            if !self.over && !held_up && self.waits.iter().all(|wait| self.never_ends(wait)) {
                let waiting = self.waits.iter().map(|wait| (wait.thread, wait.what.to_owned()));
                self.violation = Some(Violation::endless_wait(waiting));
            }
            return false;
        }
        if !isolates(self.model, &self.graph, &self.transactions) {
            self.counts.pruned += 1;
            return false;
        }
        self.counts.explored += 1;
        true
    }

    /// How many steps of a thread were answered or added in this execution.
    pub(crate) fn steps_of(&self, thread: usize) -> usize {
        self.steps[thread]
    }

    fn never_ends(&self, wait: &Wait) -> bool {
        !wait.timed
            && wait.reads.iter().all(|&read| {
                let event = self.graph.event(read);
                event.source() == self.graph.accesses(event.location).last()
            })
    }

    /// What a location holds at the end.
    pub(crate) fn last_value(&self, location: LocationId) -> u64 {
        let accesses = self.graph.locations.get(location as usize);
        match accesses.map_or(EventId::INITIAL, |accesses| accesses.last()) {
            last if last.is_initial() => {
                let plain = accesses.and_then(|accesses| {
                    let written = accesses
                        .plain
                        .iter()
                        .filter(|&&id| self.graph.event(id).kind == EventKind::PlainWrite);
                    written.copied().reduce(|a, b| if self.graph.event(b).happened.has(a) { b } else { a })
                });
                plain.map_or(self.initial_value(location), |id| self.graph.event(id).value)
            }
            last => self.graph.event(last).value,
        }
    }

    fn initial_value(&self, location: LocationId) -> u64 {
        self.initial.get(location as usize).copied().unwrap_or(0)
    }

    pub(crate) fn set_initial(&mut self, location: LocationId, value: u64) {
        if self.initial.len() <= location as usize {
            self.initial.resize(location as usize + 1, 0);
        }
        self.initial[location as usize] = value;
    }

    /// The next step of the thread if the graph has it already.
    #[inline]
    fn known(&mut self, thread: usize) -> Result<Option<EventId>, Stop> {
        if self.over {
            return Err(Stop::Ended);
        }
        let step = self.steps[thread];
        if step < self.graph.threads[thread].len() {
            self.steps[thread] = step + 1;
            return Ok(Some(EventId { thread: thread as u8, index: step as StepIndex }));
        }
        if self.fewer_than.is_some_and(|most| self.graph.events() + 1 >= most) {
            self.over = true;
            return Err(Stop::Ended);
        }
        // A trace holds up a thread that has come to its end, so that the others come to theirs.
        let is_held_up = self.trace.as_ref().is_some_and(|trace| trace.steps(thread) <= step);
        if step >= MAX_STEPS && !is_held_up {
            self.cut_off = true;
            self.over = true;
            return Err(Stop::Ended);
        }
        Ok(None)
    }

    fn spare(&mut self) -> Graph {
        self.spare.pop().unwrap_or_default()
    }

    /// Leaves a copy of the graph as it is now.
    fn leave_alternative(&mut self) {
        let mut copy = self.spare();
        copy.copy_from(&self.graph);
        self.keep(copy);
    }

    /// Keeps an alternative; ends the exploration if there are too many.
    fn keep(&mut self, alternative: Graph) {
        self.kept_events += alternative.events();
        self.alternatives.push(alternative);
        if self.kept_events > self.most_kept_events {
            (self.is_full, self.over) = (true, true);
        }
    }

    /// Whether the time is up, which ends the exploration: asked before each question to the model, which may take long.
    fn comes_late(&mut self) -> bool {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            (self.is_late, self.over) = (true, true);
        }
        self.is_late
    }

    fn add(&mut self, id: EventId, event: Event) {
        self.graph.push(id, event);
        self.steps[id.thread as usize] = id.index as usize + 1;
    }

    /// Ends the execution because no other can come of it.
    pub(crate) fn give_up<T>(&mut self) -> Result<T, Stop> {
        self.over = true;
        Err(Stop::Ended)
    }

    /// Whether the event, just added, uses a queue node that was freed.
    #[inline]
    fn check_node(&mut self, id: EventId) -> Result<(), Stop> {
        let location = self.graph.event(id).location;
        let Some(node) = self.node_of.get(location as usize).copied().flatten() else { return Ok(()) };
        self.graph.know(node);
        self.check_life(id, node)
    }

    /// Whether the event uses this queue node, which is known, or frees it, after it was freed.
    fn check_life(&mut self, id: EventId, node: LocationId) -> Result<(), Stop> {
        let graph = &self.graph;
        let (event, life) = (graph.event(id), &graph.accesses(node).plain);
        let frees = |&freeing: &EventId| freeing != id && graph.event(freeing).kind == EventKind::Free;
        let gone = life.iter().copied().filter(frees);
        let gone = gone.filter(|&freeing| {
            let taken_again = |&take: &EventId| {
                let taken = graph.event(take);
                taken.kind == EventKind::Take && event.happened.has(take) && taken.happened.has(freeing)
            };
            !(event.happened.has(freeing) && life.iter().any(taken_again))
        });
        match gone.min() {
            Some(freeing) => self.violate_at(
                id,
                Violation::NodeAfterItsReturn { user: id.thread as usize, freed_by: freeing.thread as usize },
            ),
            None => Ok(()),
        }
    }

    /// A thread is wrong, in no step of its own. A replay goes on to the end of its trace, since the execution that it
    /// tells had the other threads' steps as well.
    pub(crate) fn violate<T>(&mut self, thread: usize, violation: Violation) -> Result<T, Stop> {
        self.record(thread, violation);
        if self.trace.is_some() { Err(Stop::Ended) } else { self.give_up() }
    }

    /// The event that was just added is wrong.
    fn violate_at<T>(&mut self, id: EventId, violation: Violation) -> Result<T, Stop> {
        self.record(id.thread as usize, violation);
        self.give_up()
    }

    /// Takes down what is wrong: the first in an exploration, in a replay that of the thread which the trace names.
    fn record(&mut self, thread: usize, violation: Violation) {
        let wrong = Some(WrongAt::LastStep(thread));
        let is_named = self.trace.as_ref().is_some_and(|trace| trace.wrong() == wrong.as_ref());
        if self.violation.is_none() || is_named && self.wrong != wrong {
            (self.violation, self.wrong) = (Some(violation), wrong);
        }
    }
}

/// The name of a location in tables and messages.
pub(crate) fn location_name(location: LocationId) -> String {
    format!("[{location}]")
}

/// What an access is, but for its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) thread: usize,
    pub(crate) location: LocationId,
    pub(crate) strength: Strength,
    pub(crate) ordering: Ordering,
    pub(crate) site: SiteOf,
    pub(crate) compare: Option<Compare>,
}

impl Access {
    fn prepare(&self, graph: &Graph, kind: EventKind) -> (EventId, Event) {
        let (id, mut event) = graph.prepare(self.thread, kind, self.strength);
        event.location = self.location;
        event.ordering = self.ordering;
        event.site = self.site;
        event.compare = self.compare;
        (id, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one execution in which two threads write a word and read it.
    fn run(explorer: &mut Explorer) -> Result<(), Stop> {
        for thread in 0..2 {
            let access = Access {
                thread,
                location: 0,
                strength: Strength::NONE,
                ordering: Ordering::Relaxed,
                site: None,
                compare: None,
            };
            for value in 1..4 {
                explorer.write(access, value, None)?;
                explorer.read(access, None)?;
            }
        }
        Ok(())
    }

    #[test]
    fn an_exploration_ends_when_too_many_events_would_be_kept() {
        let mut explorer = Explorer::new(Model::Ra, 2);
        explorer.most_kept_events = 50;
        while explorer.begin() {
            let _ = run(&mut explorer);
            assert!(explorer.kept_events <= 50 + 12, "one alternative more at most");
            explorer.finish();
        }
        assert!(explorer.is_full && !explorer.alternatives.is_empty());
        let mut explorer = Explorer::new(Model::Ra, 2);
        while explorer.begin() {
            let _ = run(&mut explorer);
            explorer.finish();
        }
        assert!(!explorer.is_full && explorer.kept_events == 0, "what is gone on from is not kept");
    }

    #[test]
    fn an_execution_ends_when_the_time_is_up() {
        let mut explorer = Explorer::new(Model::Ra, 2);
        assert!(explorer.begin());
        explorer.deadline = Some(Instant::now());
        assert_eq!(run(&mut explorer), Err(Stop::Ended));
        assert!(explorer.is_late && !explorer.finish() && !explorer.begin());
    }
}
