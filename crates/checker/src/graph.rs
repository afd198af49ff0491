//! Execution graphs: what every thread did, who read from whom, and the order of the writes of each location.

use std::panic::Location as Site;

use machine::{Event as Note, Ordering};

use crate::model::Strength;

/// Threads of a program at most.
pub const MAX_THREADS: usize = 16;
/// Steps of a thread at most; a thread that takes more is cut off and the exploration is incomplete.
pub const MAX_STEPS: usize = 500;

/// The place of a step in its thread.
pub(crate) type StepIndex = u16;

/// How many events of each thread are known: a view, or a set that is closed under program order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock([StepIndex; MAX_THREADS]);

impl Clock {
    /// No event.
    pub(crate) const NOTHING: Self = Self([0; MAX_THREADS]);

    #[inline]
    pub(crate) fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = (*mine).max(theirs);
        }
    }

    #[inline]
    pub(crate) fn has(&self, event: EventId) -> bool {
        event.is_initial() || self.0[event.thread as usize & (MAX_THREADS - 1)] > event.index
    }

    #[inline]
    pub(crate) fn of(&self, thread: usize) -> usize {
        self.0[thread] as usize
    }

    #[inline]
    pub(crate) fn add(&mut self, event: EventId) {
        self.0[event.thread as usize & (MAX_THREADS - 1)] = event.index + 1;
    }
}

/// An event by its place in its thread; it keeps the name when others are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    pub(crate) thread: u8,
    pub(crate) index: StepIndex,
}

impl EventId {
    /// The write that every location starts with.
    pub(crate) const INITIAL: Self = Self { thread: u8::MAX, index: StepIndex::MAX };

    #[inline]
    pub(crate) fn is_initial(self) -> bool {
        self.thread == u8::MAX
    }

    /// The event after it in its thread.
    pub(crate) fn next(self) -> Self {
        Self { index: self.index + 1, ..self }
    }
}

/// A location by its number.
pub(crate) type LocationId = u16;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum EventKind {
    Read {
        from: EventId,
    },
    Write,
    Fence,
    /// A plain access: it reads what happens before it, or it is a race.
    PlainRead,
    PlainWrite,
    /// A choice that no memory makes: a time-out now, or not.
    Choice,
    Note(Note),
    /// A queue node freed into its pool, or taken out of it.
    Free,
    Take,
}

/// One step of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) strength: Strength,
    /// As the program says it, for tables.
    pub(crate) ordering: Ordering,
    pub(crate) location: LocationId,
    /// Read, written or chosen.
    pub(crate) value: u64,
    /// The order in which events were added.
    pub(crate) stamp: u32,
    /// What happens before it, itself included.
    pub(crate) happened: Clock,
    /// What it depends on by program order and reads-from, itself included.
    pub(crate) prefix: Clock,
    /// What a read that acquires gets from it.
    pub(crate) released: Clock,
    /// What relaxed reads so far would have acquired: an acquire fence takes it.
    pub(crate) pending: Clock,
    /// What the last release fence knew: relaxed writes carry it.
    pub(crate) fenced: Clock,
    pub(crate) site: Option<&'static Site<'static>>,
    /// Of a read that writes only if it finds a certain value.
    pub(crate) compare: Option<Compare>,
}

/// What a compare-and-exchange expects, and what its read does in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compare {
    pub(crate) expected: u64,
    pub(crate) success: Strength,
    pub(crate) failure: Strength,
}

impl Event {
    #[inline]
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.kind, EventKind::Write)
    }

    #[inline]
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.kind, EventKind::Read { .. })
    }

    #[inline]
    pub(crate) fn source(&self) -> EventId {
        match self.kind {
            EventKind::Read { from } => from,
            _ => unreachable!("only reads have a source"),
        }
    }

    #[inline]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.strength.has(Strength::EXCLUSIVE)
    }
}

/// The accesses of one location.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses {
    /// Writes in modification order; the initial one is not listed.
    pub(crate) writes: Vec<EventId>,
    pub(crate) reads: Vec<EventId>,
    /// Plain accesses, and the giving and taking of nodes.
    pub(crate) plain: Vec<EventId>,
}

impl Accesses {
    fn clone_from(&mut self, other: &Self) {
        self.writes.clone_from(&other.writes);
        self.reads.clone_from(&other.reads);
        self.plain.clone_from(&other.plain);
    }

    fn clear(&mut self) {
        self.writes.clear();
        self.reads.clear();
        self.plain.clear();
    }

    /// The position of a write in the order: zero is the initial write.
    #[inline]
    pub(crate) fn position(&self, write: EventId) -> usize {
        if write.is_initial() {
            return 0;
        }
        1 + self.writes.iter().rposition(|&other| other == write).expect("a write is in its location's order")
    }

    /// The write at a position.
    #[inline]
    pub(crate) fn at(&self, position: usize) -> EventId {
        if position == 0 { EventId::INITIAL } else { self.writes[position - 1] }
    }

    #[inline]
    pub(crate) fn last(&self) -> EventId {
        self.writes.last().copied().unwrap_or(EventId::INITIAL)
    }
}

/// An execution, or the beginning of one.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) threads: Vec<Vec<Event>>,
    pub(crate) locations: Vec<Accesses>,
    pub(crate) stamp: u32,
    /// The event that was added or changed when this graph was made.
    pub(crate) focus: Option<EventId>,
}

impl Graph {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads: vec![Vec::new(); threads], ..Self::default() }
    }

    /// As `other`, in the memory that this one already has.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.copy_prefix_from(other, |thread| other.threads[thread].len());
    }

    /// As `other`, but of each thread only the first so many events.
    pub(crate) fn copy_prefix_from(&mut self, other: &Self, kept: impl Fn(usize) -> usize) {
        self.threads.resize_with(other.threads.len(), Vec::new);
        let mut whole = true;
        for (thread, (mine, theirs)) in self.threads.iter_mut().zip(&other.threads).enumerate() {
            mine.clear();
            mine.extend_from_slice(&theirs[..kept(thread)]);
            whole &= mine.len() == theirs.len();
        }
        self.locations.truncate(other.locations.len());
        self.locations.resize_with(other.locations.len(), Accesses::default);
        for (mine, theirs) in self.locations.iter_mut().zip(&other.locations) {
            if whole {
                mine.clone_from(theirs);
                continue;
            }
            mine.clear();
            let stays = |event: &&EventId| (event.index as usize) < kept(event.thread as usize);
            mine.writes.extend(theirs.writes.iter().filter(stays));
            mine.reads.extend(theirs.reads.iter().filter(stays));
            mine.plain.extend(theirs.plain.iter().filter(stays));
        }
        self.stamp = other.stamp;
        self.focus = other.focus;
    }

    #[inline]
    pub(crate) fn event(&self, id: EventId) -> &Event {
        &self.threads[id.thread as usize][id.index as usize]
    }

    /// How many events there are.
    pub(crate) fn events(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }

    #[inline]
    pub(crate) fn accesses(&self, location: LocationId) -> &Accesses {
        &self.locations[location as usize]
    }

    /// Makes space for a location.
    #[inline]
    pub(crate) fn know(&mut self, location: LocationId) {
        if self.locations.len() <= location as usize {
            self.locations.resize_with(location as usize + 1, Accesses::default);
        }
    }

    /// The event that a thread would add next, with what program order alone gives it.
    #[inline]
    pub(crate) fn prepare(&self, thread: usize, kind: EventKind, strength: Strength) -> (EventId, Event) {
        let events = &self.threads[thread];
        let id = EventId { thread: thread as u8, index: events.len() as StepIndex };
        let mut event = Event {
            kind,
            strength,
            ordering: Ordering::Relaxed,
            location: 0,
            value: 0,
            stamp: self.stamp,
            happened: Clock::default(),
            prefix: Clock::default(),
            released: Clock::default(),
            pending: Clock::default(),
            fenced: Clock::default(),
            site: None,
            compare: None,
        };
        if let Some(last) = events.last() {
            event.happened = last.happened;
            event.prefix = last.prefix;
            event.pending = last.pending;
            event.fenced = last.fenced;
        }
        event.happened.add(id);
        event.prefix.add(id);
        (id, event)
    }

    /// Lets a prepared read, or one whose clocks are those of its predecessor, read from `source`.
    pub(crate) fn read_from(&self, event: &mut Event, source: EventId, initial: u64) {
        event.kind = EventKind::Read { from: source };
        event.value = if source.is_initial() { initial } else { self.event(source).value };
        if let Some(Compare { expected, success, failure }) = event.compare {
            event.strength = if event.value == expected { success } else { failure };
        }
        if source.is_initial() {
            return;
        }
        let write = self.event(source);
        event.prefix.join(&write.prefix);
        if !event.strength.has(Strength::PART) {
            event.pending.join(&write.released); // a store to part of a word reads nothing that a fence could acquire
        }
        if event.strength.has(Strength::ACQUIRE) {
            event.happened.join(&write.released);
        }
    }

    /// Gives a prepared write what readers will get from it.
    pub(crate) fn release(&self, event: &mut Event, read_half: Option<EventId>) {
        event.released = if event.strength.has(Strength::RELEASE) { event.happened } else { event.fenced };
        let passed_on = read_half.map(|read| self.event(read).source()).filter(|source| !source.is_initial());
        if let Some(source) = passed_on {
            event.released.join(&self.event(source).released);
        }
    }

    /// Gives a prepared fence its effect.
    pub(crate) fn apply_fence(event: &mut Event) {
        if event.strength.has(Strength::ACQUIRE) {
            let pending = event.pending;
            event.happened.join(&pending);
        }
        if event.strength.has(Strength::RELEASE) {
            event.fenced = event.happened;
        }
    }

    /// Adds a prepared event at the end of its thread.
    #[inline]
    pub(crate) fn push(&mut self, id: EventId, mut event: Event) {
        debug_assert_eq!(id.index as usize, self.threads[id.thread as usize].len());
        event.stamp = self.stamp;
        self.stamp += 1;
        if event.is_read() {
            self.locations[event.location as usize].reads.push(id);
        }
        self.threads[id.thread as usize].push(event);
        self.focus = Some(id);
    }

    /// Takes the last event of a thread away again. A write must not have a place yet.
    pub(crate) fn pop(&mut self, id: EventId) {
        let event = self.threads[id.thread as usize].pop().expect("an event to take away");
        if event.is_read() {
            self.locations[event.location as usize].reads.retain(|&read| read != id);
        }
        self.stamp -= 1;
    }

    /// The halves of a read-modify-write stand next to each other in their thread.
    #[inline]
    pub(crate) fn write_half(&self, read: EventId) -> Option<EventId> {
        let next = read.next();
        let event = self.threads[read.thread as usize].get(next.index as usize)?;
        (event.is_write() && event.is_exclusive()).then_some(next)
    }

    /// Whether a read-modify-write other than `except` reads from `write` and has written.
    pub(crate) fn taken_by_another(&self, location: LocationId, write: EventId, except: EventId) -> bool {
        self.accesses(location).reads.iter().any(|&read| {
            read != except
                && self.event(read).is_exclusive()
                && self.event(read).source() == write
                && self.write_half(read).is_some()
        })
    }

    /// The lowest position in a location's order that a thread with this view may read from: it cannot look back
    /// behind what it, or what happened before, has read or written.
    pub(crate) fn floor(&self, location: LocationId, view: &Clock, except: EventId) -> usize {
        let accesses = self.accesses(location);
        let written = accesses.writes.iter().rposition(|&write| view.has(write) && write != except);
        let mut floor = written.map_or(0, |index| index + 1);
        // The last read of each thread that the view knows: earlier ones read from earlier writes.
        let mut seen = 0_u32;
        for &read in accesses.reads.iter().rev() {
            let thread = 1 << read.thread;
            if seen & thread != 0 || read == except || !view.has(read) {
                continue;
            }
            let event = self.event(read);
            if !event.strength.has(Strength::PART) {
                seen |= thread;
                if accesses.writes.get(floor..).is_some_and(|later| !later.is_empty()) {
                    floor = floor.max(accesses.position(event.source()));
                }
            }
        }
        floor
    }
}
