//! The steps of threads: each adds an event to the graph, and leaves alternatives.

use machine::{Event as Note, Ordering};

use super::replayed::Next;
use super::revisits::places_of;
use super::{Access, Explorer, SiteOf, Stop, Wait, location_name};
use crate::graph::{Clock, Event, EventId, EventKind, Graph, LocationId, StepIndex};
use crate::model::Strength;
use crate::trace::Answer;
use crate::violation::Violation;

impl Explorer {
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
        let (id, mut event) = access.prepare(&self.graph, EventKind::Read { from: EventId::INITIAL });
        let initial = self.initial_value(access.location);
        let last = self.graph.accesses(access.location).writes.len();
        if let Some(Answer::From(source)) = self.prescribed(access.thread, Next::Read, access.site)? {
            return self.read_as_prescribed(access, id, event, source);
        }
        for position in self.graph.floor(access.location, &event.happened, id)..last {
            let source = self.graph.accesses(access.location).at(position);
            let mut candidate = event;
            self.graph.read_from(&mut candidate, source, initial);
            if wanted.as_mut().is_some_and(|wanted| !wanted(candidate.value)) {
                continue;
            }
            if self.comes_late() {
                return Err(Stop::Ended);
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
        let (id, mut event) = access.prepare(&self.graph, EventKind::Write);
        event.value = value;
        self.graph.release(&mut event, read_half);
        self.prescribed(access.thread, Next::Other, access.site)?;
        if let Some(trace) = &self.trace {
            let place = trace.place(id, &self.graph.accesses(access.location).writes);
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
            if self.comes_late() {
                return Err(Stop::Ended);
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
        let Some(place) = in_place else {
            // No read-modify-write reads what this one read: it is not in the execution.
            self.graph.pop(id);
            read_half.into_iter().for_each(|read| self.graph.pop(read));
            return self.give_up();
        };
        self.graph.locations[access.location as usize].writes.insert(place - 1, id);
        self.check_node(id)
    }

    /// Whether a write may come to this place: nothing comes between the halves of a read-modify-write.
    fn is_free(&self, location: LocationId, place: usize) -> bool {
        let next = self.graph.accesses(location).writes.get(place - 1);
        next.is_none_or(|&next| !self.graph.event(next).is_exclusive())
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
        self.prescribed(thread, Next::Other, site)?;
        let (id, mut event) = self.graph.prepare(thread, EventKind::Fence, strength);
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
        self.prescribed(access.thread, Next::Other, access.site)?;
        let kind = if written.is_some() { EventKind::PlainWrite } else { EventKind::PlainRead };
        let (id, mut event) = access.prepare(&self.graph, kind);
        let mut latest: Option<EventId> = None;
        let mut race = None;
        for &other in self.graph.accesses(access.location).plain.iter().rev() {
            let known = event.happened.has(other);
            if known && written.is_some() {
                continue;
            }
            let writes = self.graph.event(other).kind == EventKind::PlainWrite;
            if !known {
                if writes || written.is_some() {
                    let other = other.thread as usize;
                    race = Some(race.map_or(other, |earlier: usize| earlier.min(other)));
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
            Some(other) => self.violate_at(
                id,
                Violation::Race { threads: (other, access.thread), cell: location_name(access.location) },
            ),
            None => Ok(event.value),
        }
    }

    /// One of `0..choices`, each in an execution of its own.
    pub(crate) fn choose(&mut self, thread: usize, choices: u64, site: SiteOf) -> Result<u64, Stop> {
        if let Some(id) = self.known(thread)? {
            return Ok(self.graph.event(id).value);
        }
        let (id, mut event) = self.graph.prepare(thread, EventKind::Choice, Strength::NONE);
        event.site = site;
        if let Some(Answer::Choice(value)) = self.prescribed(thread, Next::Choice, site)? {
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
        self.prescribed(thread, Next::Other, site)?;
        let (id, mut event) = self.graph.prepare(thread, EventKind::Note(note), Strength::NONE);
        event.site = site;
        self.add(id, event);
        let Note::Acquired { lock, shared } = note else { return Ok(()) };
        let other = (0..self.graph.threads.len())
            .filter(|&other| other != thread)
            .find(|&other| self.holds_meanwhile(other, lock, shared, &event.prefix));
        match other {
            Some(other) => self.violate_at(id, Violation::TwoHolders { threads: (other, thread) }),
            None => Ok(()),
        }
    }

    /// Whether `other` holds the lock in a way that excludes the one who acquires it now, knowing `prefix`.
    fn holds_meanwhile(&self, other: usize, lock: usize, shared: bool, prefix: &Clock) -> bool {
        let events = &self.graph.threads[other];
        let mut own_releases = 0_usize;
        for (index, event) in events.iter().enumerate().rev() {
            let EventKind::Note(note) = event.kind else { continue };
            match note {
                Note::Releasing { lock: left, .. } if left == lock && index < prefix.of(other) => {
                    own_releases += 1;
                }
                // The thread's last hold that excludes: all before it are over when it is.
                Note::Acquired { lock: held, shared: false } if held == lock => {
                    let acquired = EventId { thread: other as u8, index: index as StepIndex };
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
        let release = EventKind::Note(Note::Releasing { lock, shared: false });
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
        kind: EventKind,
        site: SiteOf,
    ) -> Result<(), Stop> {
        if self.known(thread)?.is_some() {
            return Ok(());
        }
        self.prescribed(thread, Next::Other, site)?;
        self.graph.know(node);
        let (id, mut event) = self.graph.prepare(thread, kind, Strength::NONE);
        (event.location, event.site) = (node, site);
        self.add(id, event);
        self.graph.locations[node as usize].plain.push(id);
        if kind != EventKind::Free {
            return Ok(());
        }
        self.check_life(id, node)?;
        let inside = self.node_of.iter().zip(&self.graph.locations).filter(|(of, _)| **of == Some(node));
        let uses = inside.flat_map(|(_, uses)| uses.reads.iter().chain(&uses.writes).chain(&uses.plain));
        let unknown = uses.copied().filter(|&used| !event.happened.has(used));
        match unknown.min() {
            Some(used) => self.violate_at(
                id,
                Violation::NodeAfterItsReturn { user: used.thread as usize, freed_by: thread },
            ),
            None => Ok(()),
        }
    }

    /// The thread waits: it goes on only in executions where one of `reads` reads something else, or, when it is
    /// `timed`, where it gives up.
    pub(crate) fn wait<T>(
        &mut self,
        thread: usize,
        reads: &[EventId],
        timed: bool,
        what: &'static str,
    ) -> Result<T, Stop> {
        if let Some(&read) = reads.last()
            && self.graph.focus == Some(read)
            && self.trace.is_none()
        {
            let event = self.graph.event(read);
            if event.source() != self.graph.accesses(event.location).last() {
                // Just made to read what it does not want, from a write that others follow: none of them revisits it.
                return self.give_up();
            }
        }
        self.waits.push(Wait { thread, reads: reads.to_vec(), timed, what });
        Err(Stop::Ended)
    }
}
