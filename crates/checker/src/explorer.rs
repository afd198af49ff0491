//! Exploration of all executions of a program, each execution graph once.
//!
//! The algorithm is TruSt (Kokologiannakis, Marmanis, Gladstein, Vafeiadis, POPL 2022). A thread runs until it ends or
//! must wait; every step adds an event to the graph. A read that could read from other writes leaves a copy of the
//! graph for each of them; so does a write that could take another place in its location's order. A write may also
//! *revisit* a read that was added before it: everything added since the read is taken away, but for what the write
//! depends on, and the read reads from the write. To do so only when all that is taken away was added in the one
//! canonical way (see [`Explorer::was_added_last`]) is what makes every graph come up exactly once, with no state to
//! remember but the copies that wait. A copy is an execution to be: it is run again from the start, and what its
//! graph contains already is answered from there.
//!
//! Threads never switch in the middle: the order in which steps of different threads are added means nothing,
//! since a read that came too early is revisited.

use std::panic::Location as Site;

use machine::{Event as Note, Ordering};

use crate::consistency::Checker;
use crate::graph::{Clock, Compare, Event, EventId, Graph, Kind, LocationId, MAX_STEPS, MAX_THREADS};
use crate::model::{Model, Strength};
use crate::script::{Answer, Divergence, Script};
use crate::violation::Violation;

/// Where an access stands in the source.
pub(crate) type SiteOf = Option<&'static Site<'static>>;

/// The thread does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Not in this execution.
    Ended,
    /// What the script wants it to read is not written yet: ask again.
    Later,
}

/// How many executions there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Executions in which every thread came to its end.
    pub explored: u64,
    /// Executions given up early: a thread of theirs waits for a write that another execution gives it.
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
    limited: bool,
    what: &'static str,
}

/// An exploration.
#[derive(Debug)]
pub(crate) struct Explorer {
    pub(crate) model: Model,
    pub(crate) graph: Graph,
    pub(crate) counts: Counts,
    pub(crate) violation: Option<Violation>,
    /// A thread took more than [`MAX_STEPS`] steps.
    pub(crate) cut_off: bool,
    /// Executions with so many events are given up: a shorter one is wanted.
    pub(crate) fewer_than: Option<usize>,
    /// What locations hold at the start.
    pub(crate) initial: Vec<u64>,
    /// The location that stands for the queue node that a location lies in.
    pub(crate) node_of: Vec<Option<LocationId>>,
    alternatives: Vec<Graph>,
    spare: Vec<Graph>,
    /// How many steps of each thread were answered or added in this execution.
    steps: Vec<usize>,
    waits: Vec<Wait>,
    over: bool,
    checker: Checker,
    script: Option<Script>,
    /// Where the code left the script.
    pub(crate) parted: Option<Divergence>,
    /// By thread: the step at which it stands still, since the script says nothing more or not yet.
    halted: Vec<Option<Halt>>,
}

/// A thread that a script holds up.
#[derive(Clone, Debug)]
struct Halt {
    site: SiteOf,
    /// What must be written before it goes on; none at the end of its script.
    source: Option<EventId>,
}

/// What the code is about to do, as far as a script tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Read,
    Choice,
    Other,
}

impl Explorer {
    pub(crate) fn new(model: Model, threads: usize) -> Self {
        Self {
            model,
            graph: Graph::default(),
            counts: Counts::default(),
            violation: None,
            cut_off: false,
            fewer_than: None,
            initial: Vec::new(),
            node_of: Vec::new(),
            alternatives: vec![Graph::new(threads)],
            spare: Vec::new(),
            steps: vec![0; threads],
            waits: Vec::new(),
            over: false,
            checker: Checker::default(),
            script: None,
            parted: None,
            halted: vec![None; threads],
        }
    }

    /// Runs one execution: the one that the script tells.
    pub(crate) fn scripted(model: Model, threads: usize, script: Script) -> Self {
        let mut explorer = Self::new(model, threads);
        let told = script.threads();
        if told != threads {
            explorer.alternatives.clear();
            let what = format!("it has {told} threads, the client {threads}");
            explorer.parted = Some(Divergence { thread: None, step: 0, site: None, what });
        }
        explorer.script = Some(script);
        explorer
    }

    /// Starts the next execution; false when there is none left.
    pub(crate) fn begin(&mut self) -> bool {
        let Some(next) = self.alternatives.pop() else { return false };
        self.spare.push(std::mem::replace(&mut self.graph, next));
        self.steps.fill(0);
        self.waits.clear();
        self.over = false;
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
        self.counts.explored += 1;
        true
    }

    fn never_ends(&self, wait: &Wait) -> bool {
        !wait.limited
            && wait.reads.iter().all(|&read| {
                let event = self.graph.event(read);
                event.source() == self.graph.accesses(event.location).last()
            })
    }

    /// At the end of a scripted run in which nothing was wrong: where it left the script, if it did.
    pub(crate) fn check_script(&mut self) {
        let Some(script) = &self.script else { return };
        if self.violation.is_some() || self.parted.is_some() {
            return;
        }
        let threads = 0..self.graph.threads.len();
        let held_up =
            |thread: &usize| self.halted[*thread].as_ref().is_some_and(|halt| halt.source.is_some());
        // Who reads what was never written has parted, or waits for one that has: which is the one that ended early.
        let short = |thread: &usize| {
            self.halted[*thread].is_none() && self.graph.threads[*thread].len() < script.steps(*thread)
        };
        let what = |thread| match &self.halted[thread] {
            Some(Halt { source: Some(source), .. }) => format!(
                "it reads what event {} of thread {} writes, which is no write of this word",
                source.index, source.thread
            ),
            _ => "it goes on where the code waits or ends".to_owned(),
        };
        let Some(thread) = threads.clone().find(short).or_else(|| threads.clone().find(held_up)) else {
            return;
        };
        let site = self.halted[thread].as_ref().and_then(|halt| halt.site);
        let step = self.graph.threads[thread].len() + 1;
        self.parted = Some(parting(thread, step, site, what(thread)));
    }

    /// What a location holds at the end.
    pub(crate) fn last_value(&self, location: LocationId) -> u64 {
        let accesses = self.graph.locations.get(location as usize);
        match accesses.map_or(EventId::INITIAL, |accesses| accesses.last()) {
            last if last.is_initial() => {
                let plain = accesses.and_then(|accesses| {
                    let written =
                        accesses.plain.iter().filter(|&&id| self.graph.event(id).kind == Kind::PlainWrite);
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

    /// The code does not what the script says, or what the model does not allow.
    fn part<T>(&mut self, id: EventId, site: SiteOf, what: impl Into<String>) -> Result<T, Stop> {
        let parted = parting(id.thread as usize, id.index as usize + 1, site, what.into());
        self.parted.get_or_insert(parted);
        self.give_up()
    }

    /// What the script says of the thread's next step; none without a script, and for steps of which it says nothing.
    #[inline]
    fn told(&mut self, thread: usize, next: Next, site: SiteOf) -> Result<Option<Answer>, Stop> {
        if self.script.is_none() { Ok(None) } else { self.told_by_script(thread, next, site) }
    }

    #[cold]
    fn told_by_script(&mut self, thread: usize, next: Next, site: SiteOf) -> Result<Option<Answer>, Stop> {
        let Some(script) = &self.script else { return Ok(None) };
        let id = EventId { thread: thread as u8, index: self.graph.threads[thread].len() as u8 };
        if id.index as usize >= script.steps(thread) {
            // Whatever was wrong is found in another thread.
            self.halted[thread] = Some(Halt { site, source: None });
            return Err(Stop::Later);
        }
        let answer = script.answer(id);
        match (next, answer) {
            (Next::Read, Some(Answer::From(_)))
            | (Next::Choice, Some(Answer::Choice(_)))
            | (Next::Other, None) => Ok(answer),
            (_, Some(Answer::From(_))) => self.part(id, site, "it reads where the code does not"),
            (_, Some(Answer::Choice(_))) => self.part(id, site, "it makes a choice where the code has none"),
            (_, None) => self.part(id, site, "it neither reads nor chooses where the code does"),
        }
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
            return Ok(Some(EventId { thread: thread as u8, index: step as u8 }));
        }
        if self.fewer_than.is_some_and(|most| self.graph.events() + 1 >= most) {
            self.over = true;
            return Err(Stop::Ended);
        }
        if step >= MAX_STEPS {
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
        self.alternatives.push(copy);
    }

    fn add(&mut self, id: EventId, event: Event) {
        self.graph.push(id, event);
        self.steps[id.thread as usize] = id.index as usize + 1;
    }

    /// Ends the execution because no other can come of it.
    fn give_up<T>(&mut self) -> Result<T, Stop> {
        self.over = true;
        Err(Stop::Ended)
    }

    pub(crate) fn violate<T>(&mut self, violation: Violation) -> Result<T, Stop> {
        self.violation.get_or_insert(violation);
        self.give_up()
    }

    /// Reads a location. With `wanted`, reads that find what is not wanted are left out unless they read from the
    /// last write, which later ones may follow.
    pub(crate) fn read(
        &mut self,
        access: Access,
        mut wanted: Option<&mut dyn FnMut(u64) -> bool>,
    ) -> Result<(EventId, u64), Stop> {
        if let Some(id) = self.known(access.thread)? {
            return Ok((id, self.graph.event(id).value));
        }
        self.graph.know(access.location);
        let (id, mut event) = access.prepare(&self.graph, Kind::Read { from: EventId::INITIAL });
        let initial = self.initial_value(access.location);
        let last = self.graph.accesses(access.location).writes.len();
        if let Some(Answer::From(source)) = self.told(access.thread, Next::Read, access.site)? {
            return self.read_as_told(access, id, event, source);
        }
        for position in self.graph.floor(access.location, &event.happened, id)..last {
            let source = self.graph.accesses(access.location).at(position);
            let mut candidate = event;
            self.graph.read_from(&mut candidate, source, initial);
            if wanted.as_mut().is_some_and(|wanted| !wanted(candidate.value)) {
                continue;
            }
            self.graph.push(id, candidate);
            if self.checker.allows(self.model, &self.graph, id) {
                self.leave_alternative();
            }
            self.graph.pop(id);
        }
        let source = self.graph.accesses(access.location).at(last);
        self.graph.read_from(&mut event, source, initial);
        self.add(id, event);
        self.check_node(id)?;
        Ok((id, event.value))
    }

    fn read_as_told(
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

    /// Writes a location. `read_half` is the read of the same read-modify-write.
    pub(crate) fn write(
        &mut self,
        access: Access,
        value: u64,
        read_half: Option<EventId>,
    ) -> Result<(), Stop> {
        if self.known(access.thread)?.is_some() {
            return Ok(());
        }
        self.graph.know(access.location);
        let (id, mut event) = access.prepare(&self.graph, Kind::Write);
        event.value = value;
        self.graph.release(&mut event, read_half);
        self.told(access.thread, Next::Other, access.site)?;
        if let Some(script) = &self.script {
            let place = script.place(id, &self.graph.accesses(access.location).writes);
            let places = places_of(&self.graph, id, &event, read_half);
            let is_free = self.is_free(access.location, place);
            self.add(id, event);
            self.graph.locations[access.location as usize].writes.insert(place - 1, id);
            if !places.contains(&place) || !is_free || !self.checker.allows(self.model, &self.graph, id) {
                return self.part(id, access.site, "it puts this write where the model does not allow it");
            }
            return self.check_node(id);
        }
        self.revisit(id, &event, read_half);

        let places = places_of(&self.graph, id, &event, read_half);
        let last = self.graph.accesses(access.location).writes.len() + 1;
        self.add(id, event);
        let mut in_place = None;
        for place in places.start..places.end {
            if !self.is_free(access.location, place) {
                continue;
            }
            if place == last {
                in_place = Some(place);
                continue;
            }
            self.graph.locations[access.location as usize].writes.insert(place - 1, id);
            let allowed = self.checker.allows(self.model, &self.graph, id);
            if allowed && read_half.is_none() {
                self.leave_alternative();
            }
            self.graph.locations[access.location as usize].writes.remove(place - 1);
            if allowed && read_half.is_some() {
                in_place = Some(place);
            }
        }
        let Some(place) = in_place else { return self.give_up() };
        self.graph.locations[access.location as usize].writes.insert(place - 1, id);
        self.check_node(id)
    }

    /// Whether a write may come to this place: nothing comes between the halves of a read-modify-write.
    fn is_free(&self, location: LocationId, place: usize) -> bool {
        let next = self.graph.accesses(location).writes.get(place - 1);
        next.is_none_or(|&next| !self.graph.event(next).is_exclusive())
    }

    /// Leaves a graph for every earlier read that could have read from the write, which is not in the graph yet.
    fn revisit(&mut self, id: EventId, event: &Event, read_half: Option<EventId>) {
        for number in 0..self.graph.accesses(event.location).reads.len() {
            let read = self.graph.accesses(event.location).reads[number];
            if !event.prefix.has(read) && self.may_revisit(read, &event.prefix) {
                self.revisit_read(read, id, event, read_half);
            }
        }
    }

    /// Whether the read, and all that would be taken away with it, were added in the canonical way.
    fn may_revisit(&self, read: EventId, prefix: &Clock) -> bool {
        let stamp = self.graph.event(read).stamp;
        self.was_added_last(read, prefix)
            && self.graph.threads.iter().enumerate().all(|(thread, events)| {
                let kept = prefix.of(thread).min(events.len());
                let taken = events.iter().enumerate().skip(kept).filter(|(_, event)| event.stamp > stamp);
                let mut ids = taken.map(|(index, _)| EventId { thread: thread as u8, index: index as u8 });
                ids.all(|other| self.was_added_last(other, prefix))
            })
    }

    /// Whether the event is as if it had been added after all that was there then and all that `prefix` has: a read
    /// reads from the last of those writes, a write is the last and none of those reads reads from it.
    fn was_added_last(&self, id: EventId, prefix: &Clock) -> bool {
        let event = self.graph.event(id);
        let previous = |other: EventId| prefix.has(other) || self.graph.event(other).stamp <= event.stamp;
        let is_last = |write: EventId| {
            let accesses = self.graph.accesses(event.location);
            let later = &accesses.writes[accesses.position(write)..];
            !later.iter().any(|&later| previous(later))
        };
        match event.kind {
            Kind::Choice => event.value == 0,
            Kind::Read { from } => previous(from) && is_last(from),
            Kind::Write => {
                let mut reads = self.graph.accesses(event.location).reads.iter();
                is_last(id) && !reads.any(|&read| previous(read) && self.graph.event(read).source() == id)
            }
            _ => true,
        }
    }

    fn revisit_read(&mut self, read: EventId, id: EventId, event: &Event, read_half: Option<EventId>) {
        let stamp = self.graph.event(read).stamp;
        let mut kept = [0; MAX_THREADS];
        for (thread, kept) in kept.iter_mut().enumerate().take(self.graph.threads.len()) {
            let events = &self.graph.threads[thread];
            let earlier = events.partition_point(|event| event.stamp <= stamp);
            *kept = earlier.max(event.prefix.of(thread)).min(events.len());
        }
        let mut next = self.spare.pop().unwrap_or_default();
        next.copy_prefix_from(&self.graph, |thread| kept[thread]);
        let places = places_of(&next, id, event, read_half);
        next.push(id, *event);
        reread(&mut next, read, id);
        let before_read = (read.index as usize)
            .checked_sub(1)
            .map_or(Clock::default(), |index| next.threads[read.thread as usize][index].happened);
        let lowest = next.floor(event.location, &before_read, read);
        next.focus = Some(read);
        let mut chosen = None;
        for place in places.filter(|&place| place > lowest) {
            let writes = &mut next.locations[event.location as usize].writes;
            writes.insert(place - 1, id);
            let split = next.locations[event.location as usize]
                .writes
                .get(place)
                .is_some_and(|&after| next.event(after).is_exclusive());
            let allowed = !split
                && self.checker.allows(self.model, &next, id)
                && self.checker.allows(self.model, &next, read);
            next.locations[event.location as usize].writes.remove(place - 1);
            if allowed && let Some(earlier) = chosen.replace(place) {
                // The graph itself goes to the last place, which mostly is the only one.
                let mut copy = self.spare.pop().unwrap_or_default();
                copy.copy_from(&next);
                copy.locations[event.location as usize].writes.insert(earlier - 1, id);
                self.alternatives.push(copy);
            }
        }
        match chosen {
            Some(place) => {
                next.locations[event.location as usize].writes.insert(place - 1, id);
                self.alternatives.push(next);
            }
            None => self.spare.push(next),
        }
    }

    pub(crate) fn fence(&mut self, thread: usize, ordering: Ordering, site: SiteOf) -> Result<(), Stop> {
        match self.model.fence(ordering) {
            Some(strength) => self.add_fence(thread, strength, ordering, site),
            None => Ok(()),
        }
    }

    pub(crate) fn add_fence(
        &mut self,
        thread: usize,
        strength: Strength,
        ordering: Ordering,
        site: SiteOf,
    ) -> Result<(), Stop> {
        if self.known(thread)?.is_some() {
            return Ok(());
        }
        self.told(thread, Next::Other, site)?;
        let (id, mut event) = self.graph.prepare(thread, Kind::Fence, strength);
        (event.ordering, event.site) = (ordering, site);
        Graph::apply_fence(&mut event);
        self.add(id, event);
        Ok(())
    }

    /// Reads or writes a plain cell.
    pub(crate) fn plain(&mut self, access: Access, written: Option<u64>) -> Result<u64, Stop> {
        if let Some(id) = self.known(access.thread)? {
            return Ok(self.graph.event(id).value);
        }
        self.graph.know(access.location);
        self.told(access.thread, Next::Other, access.site)?;
        let kind = if written.is_some() { Kind::PlainWrite } else { Kind::PlainRead };
        let (id, mut event) = access.prepare(&self.graph, kind);
        let mut latest: Option<EventId> = None;
        let mut race = None;
        for &other in self.graph.accesses(access.location).plain.iter().rev() {
            let known = event.happened.has(other);
            if known && written.is_some() {
                continue;
            }
            let writes = self.graph.event(other).kind == Kind::PlainWrite;
            if !known {
                if writes || written.is_some() {
                    race = Some(other.thread as usize);
                }
            } else if writes && latest.is_none_or(|latest| self.graph.event(other).happened.has(latest)) {
                latest = Some(other);
            }
        }
        event.value = written.unwrap_or_else(|| match latest {
            Some(write) => self.graph.event(write).value,
            None => self.initial_value(access.location),
        });
        self.add(id, event);
        self.graph.locations[access.location as usize].plain.push(id);
        self.check_node(id)?;
        match race {
            Some(other) => self.violate(Violation::Race {
                threads: (other, access.thread),
                cell: location_name(access.location),
            }),
            None => Ok(event.value),
        }
    }

    /// One of `0..choices`, each in an execution of its own.
    pub(crate) fn choose(&mut self, thread: usize, choices: u64, site: SiteOf) -> Result<u64, Stop> {
        if let Some(id) = self.known(thread)? {
            return Ok(self.graph.event(id).value);
        }
        let (id, mut event) = self.graph.prepare(thread, Kind::Choice, Strength::NONE);
        event.site = site;
        if let Some(Answer::Choice(value)) = self.told(thread, Next::Choice, site)? {
            if value >= choices {
                return self.part(
                    id,
                    site,
                    format!("it chooses {value} of {choices} choices, counted from zero"),
                );
            }
            event.value = value;
            self.add(id, event);
            return Ok(value);
        }
        for value in 1..choices {
            self.graph.push(id, Event { value, ..event });
            self.leave_alternative();
            self.graph.pop(id);
        }
        self.add(id, event);
        Ok(0)
    }

    /// Announces something; finds two holders.
    pub(crate) fn note(&mut self, thread: usize, note: Note, site: SiteOf) -> Result<(), Stop> {
        if self.known(thread)?.is_some() {
            return Ok(());
        }
        self.told(thread, Next::Other, site)?;
        let (id, mut event) = self.graph.prepare(thread, Kind::Note(note), Strength::NONE);
        event.site = site;
        self.add(id, event);
        let Note::Acquired { lock, shared } = note else { return Ok(()) };
        let other = (0..self.graph.threads.len())
            .filter(|&other| other != thread)
            .find(|&other| self.holds_meanwhile(other, lock, shared, &event.prefix));
        match other {
            Some(other) => self.violate(Violation::TwoHolders { threads: (other, thread) }),
            None => Ok(()),
        }
    }

    /// Whether `other` holds the lock in a way that excludes the one who acquires it now, knowing `prefix`.
    fn holds_meanwhile(&self, other: usize, lock: usize, shared: bool, prefix: &Clock) -> bool {
        let events = &self.graph.threads[other];
        let mut own_releases = 0_usize;
        for (index, event) in events.iter().enumerate().rev() {
            let Kind::Note(note) = event.kind else { continue };
            match note {
                Note::Releasing { lock: left, .. } if left == lock && index < prefix.of(other) => {
                    own_releases += 1;
                }
                // The thread's last hold that excludes: all before it are over when it is.
                Note::Acquired { lock: held, shared: false } if held == lock => {
                    let acquired = EventId { thread: other as u8, index: index as u8 };
                    return own_releases == 0 && !self.is_released_by_another(acquired, lock, prefix);
                }
                Note::Acquired { lock: held, shared: true } if held == lock && !shared => {
                    match own_releases.checked_sub(1) {
                        Some(left) => own_releases = left,
                        None => return true,
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// Whether some thread has released, as far as `prefix` knows, what was acquired exclusively: any may.
    fn is_released_by_another(&self, acquired: EventId, lock: usize, prefix: &Clock) -> bool {
        let release = Kind::Note(Note::Releasing { lock, shared: false });
        self.graph.threads.iter().enumerate().any(|(thread, events)| {
            let known = &events[..prefix.of(thread).min(events.len())];
            known.iter().any(|event| event.kind == release && event.prefix.has(acquired))
        })
    }

    /// Gives a queue node back to its pool, or takes it out. `node` is the location that stands for it.
    pub(crate) fn node(
        &mut self,
        thread: usize,
        node: LocationId,
        kind: Kind,
        site: SiteOf,
    ) -> Result<(), Stop> {
        if self.known(thread)?.is_some() {
            return Ok(());
        }
        self.told(thread, Next::Other, site)?;
        self.graph.know(node);
        let (id, mut event) = self.graph.prepare(thread, kind, Strength::NONE);
        (event.location, event.site) = (node, site);
        self.add(id, event);
        self.graph.locations[node as usize].plain.push(id);
        if kind != Kind::Give {
            return Ok(());
        }
        let inside = self.node_of.iter().zip(&self.graph.locations).filter(|(of, _)| **of == Some(node));
        let mut uses = inside.flat_map(|(_, uses)| uses.reads.iter().chain(&uses.writes).chain(&uses.plain));
        match uses.find(|&&used| !event.happened.has(used)).copied() {
            Some(used) => {
                self.violate(Violation::NodeAfterItsReturn { user: used.thread as usize, giver: thread })
            }
            None => Ok(()),
        }
    }

    /// Whether the event, just added, uses a queue node that was given back.
    #[inline]
    fn check_node(&mut self, id: EventId) -> Result<(), Stop> {
        let location = self.graph.event(id).location;
        let Some(node) = self.node_of.get(location as usize).copied().flatten() else { return Ok(()) };
        self.graph.know(node);
        let graph = &self.graph;
        let (event, life) = (graph.event(id), &graph.accesses(node).plain);
        let gone = life.iter().filter(|&&give| graph.event(give).kind == Kind::Give).find(|&&give| {
            let taken_again = |&take: &EventId| {
                let taken = graph.event(take);
                taken.kind == Kind::Take && event.happened.has(take) && taken.happened.has(give)
            };
            !(event.happened.has(give) && life.iter().any(taken_again))
        });
        match gone.copied() {
            Some(give) => self.violate(Violation::NodeAfterItsReturn {
                user: id.thread as usize,
                giver: give.thread as usize,
            }),
            None => Ok(()),
        }
    }

    /// The thread waits: it goes on only in executions where one of `reads` reads something else, or, when it is
    /// `limited`, where it gives up.
    pub(crate) fn wait<T>(
        &mut self,
        thread: usize,
        reads: &[EventId],
        limited: bool,
        what: &'static str,
    ) -> Result<T, Stop> {
        if let Some(&read) = reads.last()
            && self.graph.focus == Some(read)
        {
            let event = self.graph.event(read);
            if event.source() != self.graph.accesses(event.location).last() {
                // Just made to read what it does not want, from a write that others follow: none of them revisits it.
                return self.give_up();
            }
        }
        self.waits.push(Wait { thread, reads: reads.to_vec(), limited, what });
        Err(Stop::Ended)
    }

    /// The execution is none: it stands for something that cannot happen.
    pub(crate) fn discard<T>(&mut self) -> Result<T, Stop> {
        self.give_up()
    }
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
    fn prepare(&self, graph: &Graph, kind: Kind) -> (EventId, Event) {
        let (id, mut event) = graph.prepare(self.thread, kind, self.strength);
        event.location = self.location;
        event.ordering = self.ordering;
        event.site = self.site;
        event.compare = self.compare;
        (id, event)
    }
}

fn parting(thread: usize, step: usize, site: SiteOf, what: String) -> Divergence {
    let site = site.map(|site| {
        let file = site.file().rsplit(['/', '\\']).next().unwrap_or_default();
        format!("{file}:{}:{}", site.line(), site.column())
    });
    Divergence { thread: Some(thread), step, site, what }
}

/// The name of a location in tables and messages.
pub(crate) fn location_name(location: LocationId) -> String {
    format!("[{location}]")
}

/// The places in its location's order that a write may take, which is not in the graph yet.
fn places_of(
    graph: &Graph,
    id: EventId,
    event: &Event,
    read_half: Option<EventId>,
) -> std::ops::Range<usize> {
    let accesses = graph.accesses(event.location);
    let Some(read) = read_half else {
        return graph.floor(event.location, &event.happened, id) + 1..accesses.writes.len() + 2;
    };
    let source = graph.event(read).source();
    let place = accesses.position(source) + 1;
    if graph.taken_by_another(event.location, source, read) { place..place } else { place..place + 1 }
}

/// Lets a read read from another write, and know what that makes it know.
fn reread(graph: &mut Graph, read: EventId, source: EventId) {
    let old = *graph.event(read);
    let own = graph.threads[read.thread as usize].split_off(read.index as usize);
    debug_assert_eq!(own.len(), 1, "nothing follows a read that is revisited");
    let (_, fresh) = graph.prepare(read.thread as usize, old.kind, old.strength);
    let mut event = Event {
        happened: fresh.happened,
        prefix: fresh.prefix,
        pending: fresh.pending,
        fenced: fresh.fenced,
        ..old
    };
    graph.read_from(&mut event, source, 0);
    graph.threads[read.thread as usize].push(event);
}
