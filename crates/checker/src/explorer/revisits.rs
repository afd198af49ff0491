//! Reads that were added before the write that they read from in another execution.

use super::Explorer;
use crate::graph::{Clock, Event, EventId, EventKind, Graph, MAX_THREADS, StepIndex};

impl Explorer {
    /// Leaves a graph for every earlier read that could have read from the write, which is not in the graph yet.
    pub(super) fn revisit(&mut self, id: EventId, event: &Event, read_half: Option<EventId>) {
        for number in 0..self.graph.accesses(event.location).reads.len() {
            let read = self.graph.accesses(event.location).reads[number];
            if !event.prefix.has(read) && self.may_revisit(read, &event.prefix) && !self.comes_late() {
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
                let mut ids =
                    taken.map(|(index, _)| EventId { thread: thread as u8, index: index as StepIndex });
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
            EventKind::Choice => event.value == 0,
            EventKind::Read { from } => previous(from) && is_last(from),
            EventKind::Write => {
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
                && !self.comes_late()
                && self.checker.allows(self.model, &next, id)
                && self.checker.allows(self.model, &next, read);
            next.locations[event.location as usize].writes.remove(place - 1);
            if allowed && let Some(earlier) = chosen.replace(place) {
                // The graph itself goes to the last place, which mostly is the only one.
                let mut copy = self.spare.pop().unwrap_or_default();
                copy.copy_from(&next);
                copy.locations[event.location as usize].writes.insert(earlier - 1, id);
                self.keep(copy);
            }
        }
        match chosen {
            Some(place) => {
                next.locations[event.location as usize].writes.insert(place - 1, id);
                self.keep(next);
            }
            None => self.spare.push(next),
        }
    }
}

/// The places in its location's order that a write may take, which is not in the graph yet.
pub(super) fn places_of(
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
