//! One execution again: what a replay trace says of each step, and where the code parts from it.

use super::{Access, Explorer, SiteOf, Stop};
use crate::graph::{Event, EventId, StepIndex};
use crate::model::Model;
use crate::trace::{Answer, Divergence, ReplayTrace, WrongAt};
use crate::violation::Violation;

/// A thread that a trace holds up.
#[derive(Clone, Debug)]
pub(super) struct Halt {
    site: SiteOf,
    /// What must be written before it goes on; none at the end of its trace.
    source: Option<EventId>,
}

/// What the code is about to do, as far as a trace tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Read,
    Choice,
    Other,
}

impl Explorer {
    /// Runs one execution: the one that the trace tells.
    pub(crate) fn replaying(model: Model, threads: usize, trace: ReplayTrace) -> Self {
        let mut explorer = Self::new(model, threads);
        let traced = trace.threads();
        if traced != threads {
            explorer.alternatives.clear();
            let what = format!("it has {traced} threads, the client {threads}");
            explorer.parted = Some(Divergence { thread: None, step: 0, site: None, what });
        }
        explorer.trace = Some(trace);
        explorer
    }

    /// No thread can go on: lets the step that is wrong happen, if it waits for others that need it; false if it does not.
    pub(crate) fn let_last_happen(&mut self) -> bool {
        std::mem::replace(&mut self.holds_last, false)
    }

    /// At the end of a replay in which nothing was wrong: where it left the trace, if it did.
    pub(crate) fn check_trace(&mut self) {
        let Some(trace) = &self.trace else { return };
        if self.violation.is_some() || self.parted.is_some() {
            return;
        }
        let threads = 0..self.graph.threads.len();
        let held_up =
            |thread: &usize| self.halted[*thread].as_ref().is_some_and(|halt| halt.source.is_some());
        // Who reads what was never written has parted, or waits for one that has: which is the one that ended early.
        let short = |thread: &usize| {
            self.halted[*thread].is_none() && self.graph.threads[*thread].len() < trace.steps(*thread)
        };
        let what = |thread| match &self.halted[thread] {
            Some(Halt { source: Some(source), .. }) => format!(
                "it reads what event {} of thread {} writes, which is no write of this word",
                source.index, source.thread
            ),
            _ => "it goes on where the code waits or ends".to_owned(),
        };
        let Some(thread) = threads.clone().find(short).or_else(|| threads.clone().find(held_up)) else {
            return self.check_cycle();
        };
        let site = self.halted[thread].as_ref().and_then(|halt| halt.site);
        let step = self.graph.threads[thread].len() + 1;
        self.parted = Some(parting(thread, step, site, what(thread)));
    }

    /// At the end of a replay that threads have followed to its end: whether they go round as it says, each about to do
    /// again what it did at the start of its cycle.
    fn check_cycle(&mut self) {
        let Some(WrongAt::Cycle(starts)) = self.trace.as_ref().and_then(ReplayTrace::wrong).cloned() else {
            return;
        };
        for &start in &starts {
            let events = self.graph.threads.get(start.thread as usize);
            let then = events.and_then(|events| events.get(start.index as usize)).map(|event| event.site);
            let now =
                self.halted.get(start.thread as usize).and_then(|halt| halt.as_ref()).map(|halt| halt.site);
            if then.is_none() || then != now {
                let step = events.map_or(0, Vec::len) + 1;
                let what = "it goes round where the code goes on or ends".to_owned();
                self.parted = Some(parting(start.thread as usize, step, now.flatten(), what));
                return;
            }
        }
        let threads = starts.iter().map(|start| start.thread as usize).collect();
        self.violation = Some(Violation::Livelock { threads });
        self.wrong = Some(WrongAt::Cycle(starts));
    }

    /// The code does not what the trace says, or what the model does not allow.
    pub(super) fn part<T>(&mut self, id: EventId, site: SiteOf, what: impl Into<String>) -> Result<T, Stop> {
        let parted = parting(id.thread as usize, id.index as usize + 1, site, what.into());
        self.parted.get_or_insert(parted);
        self.give_up()
    }

    /// What the trace says of the thread's next step; none without a trace, and for steps of which it says nothing.
    #[inline]
    pub(super) fn prescribed(
        &mut self,
        thread: usize,
        next: Next,
        site: SiteOf,
    ) -> Result<Option<Answer>, Stop> {
        if self.trace.is_none() { Ok(None) } else { self.prescribed_by_trace(thread, next, site) }
    }

    #[cold]
    fn prescribed_by_trace(
        &mut self,
        thread: usize,
        next: Next,
        site: SiteOf,
    ) -> Result<Option<Answer>, Stop> {
        let Some(trace) = &self.trace else { return Ok(None) };
        let id = EventId { thread: thread as u8, index: self.graph.threads[thread].len() as StepIndex };
        if id.index as usize >= trace.steps(thread) {
            // Whatever was wrong is found in another thread.
            self.halted[thread] = Some(Halt { site, source: None });
            return Err(Stop::Later);
        }
        let is_at_end =
            |other: usize| other == thread || self.graph.threads[other].len() >= trace.steps(other);
        if self.holds_last && trace.is_last(id) && !(0..self.graph.threads.len()).all(is_at_end) {
            self.halted[thread] = Some(Halt { site, source: None });
            return Err(Stop::Later);
        }
        let answer = trace.answer(id);
        match (next, answer) {
            (Next::Read, Some(Answer::From(_)))
            | (Next::Choice, Some(Answer::Choice(_)))
            | (Next::Other, None) => Ok(answer),
            (_, Some(Answer::From(_))) => self.part(id, site, "it reads where the code does not"),
            (_, Some(Answer::Choice(_))) => self.part(id, site, "it makes a choice where the code has none"),
            (_, None) => self.part(id, site, "it neither reads nor chooses where the code does"),
        }
    }

    pub(super) fn read_as_prescribed(
        &mut self,
        access: Access,
        id: EventId,
        mut event: Event,
        source: EventId,
    ) -> Result<(EventId, u64), Stop> {
        let accesses = self.graph.accesses(access.location);
        if !source.is_initial() && !accesses.writes.contains(&source) {
            self.halted[access.thread] = Some(Halt { site: access.site, source: Some(source) });
            return Err(Stop::Later);
        }
        self.halted[access.thread] = None;
        let lowest = self.graph.floor(access.location, &event.happened, id);
        let is_new = accesses.position(source) >= lowest;
        self.graph.read_from(&mut event, source, self.initial_value(access.location));
        self.add(id, event);
        if !is_new || !self.checker.allows(self.model, &self.graph, id) {
            return self.part(id, access.site, "it reads what the model does not allow this load to find");
        }
        self.check_node(id)?;
        Ok((id, event.value))
    }
}

fn parting(thread: usize, step: usize, site: SiteOf, what: String) -> Divergence {
    let site = site.map(|site| {
        let file = site.file().rsplit(['/', '\\']).next().unwrap_or_default();
        format!("{file}:{}:{}", site.line(), site.column())
    });
    Divergence { thread: Some(thread), step, site, what }
}
