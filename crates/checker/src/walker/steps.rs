//! The steps of threads on the machine that the model describes.

use machine::{Event as Note, Ordering};

use super::knowledge::{Cell, Node};
use super::{SchedulingStep, Wait, Walker};
use crate::explorer::{Access, Stop, location_name};
use crate::graph::{EventId, EventKind, LocationId, MAX_STEPS, StepIndex};
use crate::model::{Model, Strength, releases};
use crate::trace::Answer;
use crate::violation::Violation;

impl Walker {
    /// The next event of a thread.
    fn event(&mut self, thread: usize) -> Result<EventId, Stop> {
        if self.memory.is_full() {
            return self.is_too_large();
        }
        if self.memory.threads[thread].events >= MAX_STEPS {
            self.cut_off = true;
            return self.give_up();
        }
        Ok(self.memory.event(thread))
    }

    fn offer(&mut self, thread: usize, ways: impl Iterator<Item = u8>) {
        let pending = &mut self.pending[thread];
        pending.ways.clear();
        pending.ways.extend(ways);
    }

    /// Whether the thread may go on at once, and how; otherwise it is noted what it could do.
    fn may_step(&mut self, thread: usize, hidden: bool) -> Result<u8, Stop> {
        if self.over {
            return Err(Stop::Ended);
        }
        match self.step {
            SchedulingStep::Take(way) => Ok(way),
            SchedulingStep::Poll if hidden && self.pending[thread].ways.len() == 1 => {
                Ok(self.pending[thread].ways[0])
            }
            SchedulingStep::Poll | SchedulingStep::ForcedBlock => Err(Stop::Later),
        }
    }

    /// The thread does something else than to read or write. A wait still rests on what its attempt has read.
    fn watches_attempt_alone(&mut self, thread: usize) {
        self.watched[thread] = self.attempted[thread];
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
        let slot = self.slot(access.location)?;
        let is_wait = wanted.is_some();
        if self.step == SchedulingStep::Poll {
            self.supports(access.strength)?;
            if is_wait {
                self.knows_user(slot, access.thread);
            }
            self.poll_read(access, slot, wanted);
        }
        let place = if self.step == SchedulingStep::ForcedBlock && !self.over {
            self.memory.readable(thread, slot).end - 1
        } else {
            self.may_step(thread, self.is_hidden(slot, thread))? as usize
        };
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
            // An earlier read of the same attempt stays as old as it is.
            if self.attempted[thread] & 1 << slot == 0 {
                self.stale[thread] &= !(1 << slot);
            }
        } else {
            self.stale[thread] |= 1 << slot;
        }
        self.use_node(access.location, id)?;
        Ok((EventId { thread: thread as u8, index: slot as StepIndex }, value))
    }

    fn poll_read(&mut self, access: Access, slot: usize, wanted: Option<&mut dyn FnMut(u64) -> bool>) {
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
        let slot = self.slot(access.location)?;
        self.supports(access.strength)?;
        if self.over {
            return Err(Stop::Ended);
        }
        if read_half.is_some() {
            let id = self.event(thread)?;
            if !self.memory.write_half(id, slot, value, access.strength) {
                // Of an attempt that did more after it: a write that came between may follow it as well.
                self.cannot_follow();
                return Err(Stop::Ended);
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
        if self.step == SchedulingStep::Poll {
            self.offer(thread, places.into_iter());
        }
        let place = self.may_step(thread, self.is_hidden(slot, thread))? as usize;
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
        let slot = self.slot(access.location)?;
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
        if self.step == SchedulingStep::Poll {
            let memory = &self.memory;
            let places = memory.readable(thread, slot).rev();
            let places = places.filter(|&place| memory.may_exchange(thread, slot, place, false));
            let places = places.map(|place| place as u8).collect::<Vec<_>>();
            self.offer(thread, places.into_iter());
        }
        let place = self.may_step(thread, self.is_hidden(slot, thread))? as usize;
        let old = self.memory.value(thread, slot, place);
        let source = self.memory.source(slot, place);
        let read = self.event(thread)?;
        let id = self.event(thread)?;
        self.answers.push((read, Answer::From(source)));
        self.memory.depend(thread, slot, place);
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
        if !self.memory.knows_fence(strength) && self.merges {
            (self.again, self.over) = (true, true);
            return Err(Stop::Ended);
        }
        self.event(thread)?;
        self.memory.fence(thread, strength);
        self.watches_attempt_alone(thread);
        Ok(())
    }

    /// A full fence, behind which a thread has all steps to itself until it commits.
    pub(crate) fn begin_transaction(&mut self, thread: usize) -> Result<(), Stop> {
        if self.step == SchedulingStep::Poll {
            let may_begin = self.transaction.is_none() && !self.memory.has_buffered(thread);
            self.offer(thread, 0..u8::from(may_begin));
        }
        self.may_step(thread, false)?;
        self.add_fence(thread, Strength::FULL)?;
        self.stepped(thread);
        self.transaction = Some(thread as u8);
        Ok(())
    }

    pub(crate) fn plain(&mut self, access: Access, written: Option<u64>) -> Result<u64, Stop> {
        if self.over {
            return Err(Stop::Ended);
        }
        let thread = access.thread;
        let Some((cell, new)) = self.cell_of.number(access.location) else { return self.is_too_large() };
        if new {
            let initial = self.initial.get(access.location as usize).copied().unwrap_or(0);
            self.cells.push(Cell::of(initial));
        }
        let id = self.event(thread)?;
        self.watches_attempt_alone(thread);
        let known = self.memory.threads[thread].view.happened;
        let race = self.cells[cell].access(id, &known, written);
        self.use_node(access.location, id)?;
        match race {
            Some(other) => self.violate_at(
                thread,
                Violation::Race { threads: (other, thread), cell: location_name(access.location) },
            ),
            None => Ok(self.cells[cell].value),
        }
    }

    pub(crate) fn choose(&mut self, thread: usize, choices: u64) -> Result<u64, Stop> {
        if self.step == SchedulingStep::Poll {
            self.offer(thread, 0..choices as u8);
            self.pending[thread].alone = true;
        }
        let value = self.may_step(thread, false)?;
        let id = self.event(thread)?;
        self.watches_attempt_alone(thread);
        self.answers.push((id, Answer::Choice(value.into())));
        self.stepped(thread);
        Ok(value.into())
    }

    /// A thread is about to fall asleep on a word, and either finds it changed (1) or not (0). The kernel looks at the word and
    /// puts the thread among the sleepers under one lock, so that no step of another thread comes between: until
    /// [`Self::commit_transaction`] this thread alone takes steps. One way or the other is offered as the word has it.
    pub(crate) fn fall_asleep(
        &mut self,
        thread: usize,
        word: LocationId,
        expected: u64,
    ) -> Result<u64, Stop> {
        let slot = self.slot(word)?;
        if self.step == SchedulingStep::Poll {
            let memory = &self.memory;
            let holds = |place: usize| memory.value(thread, slot, place) == expected;
            let sleeps = !memory.has_buffered(thread) && memory.readable(thread, slot).any(holds);
            let differs = memory.readable(thread, slot).any(|place| !holds(place));
            let ways = [sleeps, differs].into_iter().zip(0..).filter_map(|(may, way)| may.then_some(way));
            self.offer(thread, ways.collect::<Vec<_>>().into_iter());
        }
        let way = self.may_step(thread, false)?;
        let id = self.event(thread)?;
        self.watched[thread] = 0;
        self.answers.push((id, Answer::Choice(way.into())));
        self.stepped(thread);
        self.transaction = Some(thread as u8);
        Ok(way.into())
    }

    pub(crate) fn note(&mut self, thread: usize, note: Note) -> Result<(), Stop> {
        if self.over {
            return Err(Stop::Ended);
        }
        let id = self.event(thread)?;
        let prefix = self.memory.prefix(thread);
        match self.holds.note(id, note, &prefix) {
            Some(other) => self.violate_at(thread, Violation::TwoHolders { threads: (other, thread) }),
            None => Ok(()),
        }
    }

    pub(crate) fn node(&mut self, thread: usize, life: LocationId, kind: EventKind) -> Result<(), Stop> {
        if self.over {
            return Err(Stop::Ended);
        }
        let id = self.event(thread)?;
        let known = self.memory.threads[thread].view.happened;
        let node = self.node_number(life);
        if kind != EventKind::Free {
            self.nodes[node].take(id);
            return Ok(());
        }
        if let Some(freed_by) = self.nodes[node].used(id, &known) {
            return self.violate_at(thread, Violation::NodeAfterItsReturn { user: thread, freed_by });
        }
        match self.nodes[node].free(id, &known) {
            Some(user) => self.violate_at(thread, Violation::NodeAfterItsReturn { user, freed_by: thread }),
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

    /// Whether the event uses a queue node that was freed.
    fn use_node(&mut self, location: LocationId, id: EventId) -> Result<(), Stop> {
        let Some(life) = self.node_of.get(location as usize).copied().flatten() else { return Ok(()) };
        let known = self.memory.threads[id.thread as usize].view.happened;
        let node = self.node_number(life);
        match self.nodes[node].used(id, &known) {
            Some(freed_by) => {
                let user = id.thread as usize;
                self.violate_at(user, Violation::NodeAfterItsReturn { user, freed_by })
            }
            None => Ok(()),
        }
    }

    /// The thread waits for good, unless one of the words that it read changes: then the run is left.
    pub(crate) fn wait(&mut self, thread: usize, reads: &[EventId], timed: bool, what: &'static str) {
        let slots = reads.iter().fold(0, |slots, read| slots | 1 << read.index);
        self.pending[thread].ways.clear();
        if slots & self.stale[thread] != 0 {
            self.leave();
        } else if !self.over {
            // In the order of threads, whichever came first.
            let place = self.waits.partition_point(|wait| wait.thread < thread);
            self.waits.insert(place, Wait { thread, slots, timed, what });
        }
    }
}
