//! What must be known to happen before what: plain cells, queue nodes and holders of locks.

use machine::Event as Note;

use super::key::Key;
use super::memory::{Memory, Thread};
use crate::graph::{Clock, EventId, LocationId, MAX_THREADS, StepIndex};

/// The last thing of a kind that each thread did, while some thread does not know of it.
#[derive(Clone, Copy, Debug, Default)]
struct LastOfEach([StepIndex; MAX_THREADS]);

impl LastOfEach {
    fn set(&mut self, event: EventId) {
        self.0[event.thread as usize] = event.index + 1;
    }

    fn iter(self) -> impl Iterator<Item = EventId> {
        let set = self.0.into_iter().enumerate().filter(|&(_, index)| index > 0);
        set.map(|(thread, index)| EventId { thread: thread as u8, index: index - 1 })
    }

    /// A thread whose last one is not known to `happened`.
    fn unknown_to(self, happened: &Clock) -> Option<usize> {
        self.iter().find(|&event| !happened.has(event)).map(|event| event.thread as usize)
    }

    fn add_to(&mut self, key: &mut Key, memory: &Memory) {
        for event in self.iter().filter(|&event| memory.all_know(event, happened)) {
            self.0[event.thread as usize] = 0;
        }
        key.add(self.iter().count() as u64);
        for event in self.iter() {
            key.add(u64::from(event.thread));
            memory.add_knowledge(key, event);
        }
    }
}

fn happened(thread: &Thread) -> &Clock {
    &thread.view.happened
}

/// A plain cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) value: u64,
    written: EventId,
    /// Since it was written.
    reads: LastOfEach,
}

impl Cell {
    pub(super) fn of(value: u64) -> Self {
        Self { value, written: EventId::INITIAL, reads: LastOfEach::default() }
    }

    /// Reads or writes; gives a thread that this races with.
    pub(super) fn access(&mut self, event: EventId, known: &Clock, written: Option<u64>) -> Option<usize> {
        let mut race = (!known.has(self.written)).then_some(self.written.thread as usize);
        match written {
            Some(value) => {
                race = race.or_else(|| self.reads.unknown_to(known));
                *self = Self { value, written: event, reads: LastOfEach::default() };
            }
            None => self.reads.set(event),
        }
        race
    }

    pub(super) fn add_to(&mut self, key: &mut Key, memory: &Memory) {
        key.add(self.value);
        if !self.written.is_initial() {
            if memory.all_know(self.written, happened) {
                self.written = EventId::INITIAL;
            } else {
                memory.add_knowledge(key, self.written);
            }
        }
        key.add(u64::from(self.written.is_initial()));
        self.reads.add_to(key, memory);
    }
}

/// A queue node and its pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The location that stands for it.
    pub(super) life: LocationId,
    /// Who freed it, and has not seen it taken again.
    freed: Option<EventId>,
    /// The last taking after a freeing.
    taken: EventId,
    /// Since it was freed.
    uses: LastOfEach,
}

impl Node {
    pub(super) const fn of(life: LocationId) -> Self {
        Self { life, freed: None, taken: EventId::INITIAL, uses: LastOfEach([0; MAX_THREADS]) }
    }

    /// A thread uses it; returns who freed it without the user's knowing that it was taken again.
    pub(super) fn used(&mut self, event: EventId, known: &Clock) -> Option<usize> {
        self.uses.set(event);
        match self.freed {
            Some(freeing) => Some(freeing.thread as usize),
            None => (!known.has(self.taken)).then_some(self.taken.thread as usize),
        }
    }

    pub(super) fn take(&mut self, event: EventId) {
        if self.freed.take().is_some() {
            self.taken = event;
        }
    }

    /// It is freed; returns a thread that may still use it.
    pub(super) fn free(&mut self, event: EventId, known: &Clock) -> Option<usize> {
        let user = self.uses.unknown_to(known);
        self.uses = LastOfEach::default();
        self.freed = Some(event);
        user
    }

    pub(super) fn add_to(&mut self, key: &mut Key, memory: &Memory) {
        if memory.all_know(self.taken, happened) {
            self.taken = EventId::INITIAL;
        }
        key.add(u64::from(self.freed.is_some()) << 1 | u64::from(self.taken.is_initial()));
        if !self.taken.is_initial() {
            memory.add_knowledge(key, self.taken);
        }
        self.uses.add_to(key, memory);
    }
}

/// A thread holds a lock, or has held it and not every thread knows that it is over.
#[derive(Clone, Copy, Debug)]
struct Hold {
    lock: usize,
    shared: bool,
    acquired: EventId,
    released: Option<EventId>,
}

/// Who holds which lock.
#[derive(Debug, Default)]
pub(super) struct Holds(Vec<Hold>);

impl Clone for Holds {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    fn clone_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}

impl Holds {
    pub(super) fn reset(&mut self) {
        self.0.clear();
    }

    /// A thread announces something; gives another holder.
    pub(super) fn note(&mut self, event: EventId, note: Note, depends_on: &Clock) -> Option<usize> {
        match note {
            Note::Acquired { lock, shared } => {
                let over = |hold: &Hold| hold.released.is_some_and(|release| depends_on.has(release));
                let other = self.0.iter().find(|hold| {
                    let excludes = !(shared && hold.shared);
                    hold.lock == lock && hold.acquired.thread != event.thread && excludes && !over(hold)
                });
                let other = other.map(|hold| hold.acquired.thread as usize);
                if !shared && other.is_none() {
                    // Who depends on this one's release depends on all that came before it.
                    self.0.retain(|hold| hold.lock != lock || !over(hold));
                }
                self.0.push(Hold { lock, shared, acquired: event, released: None });
                other
            }
            Note::Releasing { lock, shared } => {
                let matches =
                    |hold: &&mut Hold| hold.lock == lock && hold.shared == shared && hold.released.is_none();
                let own = |hold: &&mut Hold| hold.acquired.thread == event.thread;
                let mut all = self.0.iter_mut().rev();
                let hold = match all.find(|hold| matches(hold) && own(hold)) {
                    Some(hold) => Some(hold),
                    // Any thread may release what it knows to be acquired.
                    None => {
                        self.0.iter_mut().rev().find(|hold| matches(hold) && depends_on.has(hold.acquired))
                    }
                };
                if let Some(hold) = hold {
                    hold.released = Some(event);
                }
                None
            }
            _ => None,
        }
    }

    pub(super) fn add_to(&mut self, key: &mut Key, memory: &Memory) {
        let over = |hold: &Hold| hold.released.is_some_and(|by| memory.all_know(by, |thread| &thread.prefix));
        self.0.retain(|hold| !over(hold));
        // Those of several threads stand in no order.
        self.0.sort_by_key(|hold| (hold.lock, hold.acquired.thread));
        key.add(self.0.len() as u64);
        for hold in &self.0 {
            key.add(hold.lock as u64);
            let state = u64::from(hold.released.is_some()) << 1 | u64::from(hold.shared);
            key.add(u64::from(hold.acquired.thread) << 2 | state);
            if let Some(release) = hold.released {
                memory.add_dependence(key, release);
            } else if !memory.all_know(hold.acquired, |thread| &thread.prefix) {
                memory.add_dependence(key, hold.acquired);
            }
        }
    }
}
