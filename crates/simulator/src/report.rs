//! What a simulation counted.

use machine::transaction::Cause;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::Time;

/// How far away a request found what it asked for; of several dies that it asked, the farthest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// In the caches of its own die.
    SameDie,
    /// On another die of its socket.
    SameSocket,
    /// One link away.
    OneLink,
    /// More than one link away.
    MoreLinks,
    /// In memory.
    Memory,
}

/// Counters of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LineCounts {
    /// Accesses that the core's own cache answered.
    pub hits: u64,
    /// Other accesses, by [`Distance`].
    pub misses: [u64; 5],
    /// Copies taken away from cores.
    pub invalidations: u64,
    /// Requests for which the home asked another die.
    pub probes: u64,
    /// Requests that reached the home.
    pub home_requests: u64,
    /// Requests that found the home taken by an earlier one: the stand-in for re-issued coherence transactions.
    pub home_waits: u64,
    /// From leaving the core until served, of all requests that reached the home, in picoseconds.
    pub home_wait_ps: Time,
    /// Requests that found their die's cache taken by an earlier one.
    pub die_waits: u64,
    /// From issue to completion, of all misses, in picoseconds.
    pub wait_ps: Time,
}

impl LineCounts {
    /// Accesses, hits and misses.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.hits + self.all_misses()
    }

    /// Misses at all distances.
    #[must_use]
    pub fn all_misses(&self) -> u64 {
        self.misses.iter().sum()
    }

    pub(crate) fn count_wait(&mut self, waited: Time) {
        self.die_waits += u64::from(waited > 0);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        for (sum, more) in self.misses.iter_mut().zip(other.misses) {
            *sum += more;
        }
        self.invalidations += other.invalidations;
        self.probes += other.probes;
        self.home_requests += other.home_requests;
        self.home_waits += other.home_waits;
        self.home_wait_ps += other.home_wait_ps;
        self.die_waits += other.die_waits;
        self.wait_ps += other.wait_ps;
    }
}

/// One line that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineReport {
    /// Simulated address of its first byte.
    pub address: u32,
    /// Memory node.
    pub home: u16,
    /// Its counters.
    pub counts: LineCounts,
}

/// Counters of one lock, from what the workload announced. Accesses are those of a thread from its announcement of
/// an acquisition until it has the lock, and from that of a release until its next announcement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LockCounts {
    /// Simulated address.
    pub address: u32,
    /// Acquisitions, shared or not.
    pub acquisitions: u64,
    /// Acquisitions whose last holder ran on another core.
    pub from_other_core: u64,
    /// Acquisitions that found the lock held, or a thread waiting.
    pub contended: u64,
    /// Attempts given up.
    pub gave_up: u64,
    /// From announcement to acquisition, in picoseconds.
    pub wait_ps: Time,
    /// From acquisition to the announcement of the release, in picoseconds.
    pub held_ps: Time,
    /// From that announcement to the next acquisition when a thread was waiting, in picoseconds.
    pub handover_ps: Time,
    /// How many such hand-overs.
    pub handovers: u64,
    /// Accesses that hit.
    pub hits: u64,
    /// Accesses that missed.
    pub misses: u64,
    /// What those misses took, in picoseconds.
    pub miss_ps: Time,
    /// Transactions that were begun between the announcement of an acquisition and the acquisition; absent if there were none.
    #[serde(skip_serializing_if = "TransactionCounts::is_zero")]
    pub transactions: TransactionCounts,
}

/// Counters of transactions. One within another is a part of that one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransactionCounts {
    /// Transactions begun, each attempt counted.
    pub begun: u64,
    /// Those that committed.
    pub committed: u64,
    /// Those that aborted, by [`Cause::ALL`]; by the causes' names where serialised.
    #[serde(serialize_with = "by_cause")]
    pub aborted: [u64; Cause::ALL.len()],
    /// Sections of locks with transactions that held the lock instead.
    pub fallbacks: u64,
    /// What those that aborted took, from the beginning until the thread went on there, in picoseconds.
    pub wasted_ps: Time,
}

impl TransactionCounts {
    /// Whether there were none.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.begun == 0
    }

    /// Those that aborted, whatever the cause.
    #[must_use]
    pub fn all_aborted(&self) -> u64 {
        self.aborted.iter().sum()
    }

    /// Those that aborted for this cause.
    #[must_use]
    pub fn aborted_by(&self, cause: Cause) -> u64 {
        Cause::ALL.iter().zip(self.aborted).filter(|(of, _)| **of == cause).map(|(_, count)| count).sum()
    }

    pub(crate) fn count_abort(&mut self, cause: Cause, wasted: Time) {
        for (of, count) in Cause::ALL.iter().zip(&mut self.aborted) {
            *count += u64::from(*of == cause);
        }
        self.wasted_ps += wasted;
    }
}

fn by_cause<S: Serializer>(aborted: &[u64; Cause::ALL.len()], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(aborted.len()))?;
    for (cause, count) in Cause::ALL.iter().zip(aborted) {
        map.serialize_entry(cause.name(), count)?;
    }
    map.end()
}

/// Counters of the simulation itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Events taken.
    pub events: u64,
    /// Misses completed.
    pub misses: u64,
    /// Polls that parked waiters did not have to make. They would have been hits.
    pub elided_polls: u64,
    /// Threads that gave their core to another.
    pub context_switches: u64,
    /// Sleeps in the kernel.
    pub sleeps: u64,
    /// Sleepers woken.
    pub wakes: u64,
    /// How long threads had cores, in picoseconds: what they slept, and waited for their cores, is not in it.
    pub running_ps: Time,
}

/// What a simulation counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The seed that gives the same again.
    pub seed: u64,
    /// Simulated time, in nanoseconds.
    pub elapsed_ns: u64,
    /// All lines together.
    pub all_lines: LineCounts,
    /// Each line that was used, by address.
    pub lines: Vec<LineReport>,
    /// Each lock that was announced, in the order of the first announcements.
    pub locks: Vec<LockCounts>,
    /// All transactions; absent if there were none.
    #[serde(skip_serializing_if = "TransactionCounts::is_zero")]
    pub transactions: TransactionCounts,
    /// Of the simulation itself.
    pub totals: Totals,
}
