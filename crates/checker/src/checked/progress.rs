//! What a thread has done so far, as far as waits and the clock depend on it.

use machine::Ordering;

use crate::explorer::Access;
use crate::graph::{EventId, LocationId};
use crate::walker::Key;

/// What a `spin_rmw` attempt has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempt {
    pub(super) reads: Reads,
    /// Something was written that was not there before, to memory, to a plain cell or to a pool of queue nodes.
    pub(super) changed: bool,
    /// A read-modify-write that writes what it read, not entered yet.
    pub(super) pending: Option<(Access, u64, EventId)>,
    /// The attempt went on behind it. What follows would come before its write, which would release it as well.
    pub(super) went_on: bool,
}

/// A load that a later one may repeat.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolledLoad {
    pub(super) location: LocationId,
    pub(super) ordering: Ordering,
    pub(super) read: EventId,
    pub(super) value: u64,
    /// A delay has passed since.
    pub(super) delayed: bool,
    pub(super) repeated: u32,
}

/// What a thread knows of the time. The clock that threads share is not modelled: each has its own, which never goes
/// back, so that all orders of what one thread sees of the time come up, and some more between threads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Time {
    pub(super) ns: u64,
    /// The clock was read: from now on it may have gone on.
    pub(super) is_read: bool,
    /// It went on by as much as matters to any deadline. Once in a thread is enough for each of its reads to be the first
    /// that comes too late.
    pub(super) passed: bool,
}

/// How far the clock of a thread goes on at once: past every deadline.
pub(super) const LONG_NS: u64 = 1 << 40;

impl Time {
    pub(super) fn add_to(&self, key: &mut Key) {
        key.add(self.ns << 2 | u64::from(self.is_read) << 1 | u64::from(self.passed));
    }
}

impl Attempt {
    pub(super) fn add_to(&self, key: &mut Key) {
        let pending = self.pending.map_or(0, |(_, value, _)| value.wrapping_add(1));
        key.add((self.reads.count as u64) << 2 | u64::from(self.went_on) << 1 | u64::from(self.changed));
        key.add(pending);
        self.reads.iter().for_each(|read| key.add(u64::from(read.index) << 32));
    }
}

impl PolledLoad {
    pub(super) fn add_to(&self, key: &mut Key) {
        key.add(u64::from(self.location) << 33 | u64::from(self.repeated) << 1 | u64::from(self.delayed));
        key.add(self.ordering as u64);
        key.add(self.value);
    }
}

/// Reads that a wait may rest on: few, and none of them on the heap, since a thread that waits is never unwound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    pub(super) list: [EventId; MOST_READS],
    pub(super) count: usize,
}

const MOST_READS: usize = 8;

impl Default for Reads {
    fn default() -> Self {
        Self { list: [EventId::INITIAL; MOST_READS], count: 0 }
    }
}

impl Reads {
    pub(super) fn of(reads: &[Option<EventId>]) -> Self {
        let mut all = Self::default();
        for read in reads.iter().copied().flatten() {
            let has_space = all.push(read);
            assert!(has_space, "a wait of its own rests on few reads");
        }
        all
    }

    /// Adds a read; false if there is no space for it.
    #[must_use]
    pub(super) fn push(&mut self, read: EventId) -> bool {
        let has_space = self.count < MOST_READS;
        if has_space {
            self.list[self.count] = read;
            self.count += 1;
        }
        has_space
    }

    /// From state to state: the words that were read, as bits.
    pub(super) fn slots(&self) -> u64 {
        self.iter().fold(0, |slots, read| slots | 1 << read.index)
    }

    fn iter(&self) -> impl Iterator<Item = &EventId> {
        self.list[..self.count].iter()
    }
}

/// Polls of a word by a thread, with nothing but delays between, before that is wrong: locks wait by the named waits of the
/// machine, and a lock that sleeps polls a few times only.
pub(super) const MOST_POLLS: u32 = 1_000;

/// Accesses of the client's own thread, before and after its threads run, after which it counts as one that goes on for ever:
/// with what a mistake has left in it, a lock may try again and again what no other thread is there to change.
pub(super) const MOST_OWN_ACCESSES: u32 = 100_000;
