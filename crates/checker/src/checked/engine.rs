//! What answers the accesses of a client's threads: an exploration of executions, or of states.

use machine::{Event as Note, Ordering};

use crate::explorer::{Access, Counts, Explorer, SiteOf, Stop};
use crate::graph::{EventId, EventKind, LocationId};
use crate::model::Strength;
use crate::violation::Violation;
use crate::walker::Walker;

/// One of the two.
#[allow(clippy::large_enum_variant)] // one a session
pub(super) enum Engine {
    Executions(Explorer),
    States(Walker),
}

use Engine::{Executions, States};

impl Engine {
    /// Starts the next execution or run; false when there is none left.
    pub(super) fn begin(&mut self) -> bool {
        match self {
            Executions(explorer) => explorer.begin(),
            States(walker) => walker.begin(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        match self {
            Executions(explorer) => explorer.counts,
            States(walker) => walker.counts,
        }
    }

    pub(super) fn violation(&mut self) -> &mut Option<Violation> {
        match self {
            Executions(explorer) => &mut explorer.violation,
            States(walker) => &mut walker.violation,
        }
    }

    /// Whether some execution or run was left before its end.
    pub(super) fn cut_off(&self) -> bool {
        match self {
            Executions(explorer) => explorer.cut_off,
            States(walker) => walker.cut_off,
        }
    }

    /// Whether that was since the client is too large, and not since a thread takes too many steps.
    pub(super) fn is_too_small(&self) -> bool {
        match self {
            Executions(explorer) => explorer.is_too_small,
            States(walker) => walker.is_too_small,
        }
    }

    /// The run, or execution, needs more than the checked machine has: it is left, and the exploration is incomplete.
    pub(super) fn cannot_follow(&mut self) {
        let _: Result<(), Stop> = match self {
            Executions(explorer) => {
                (explorer.cut_off, explorer.is_too_small) = (true, true);
                explorer.give_up()
            }
            States(walker) => walker.is_too_large(),
        };
    }

    /// Whether an exploration of executions would keep too many events.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Executions(explorer) if explorer.is_full)
    }

    /// States that are remembered.
    pub(super) fn states(&self) -> usize {
        match self {
            Executions(_) => 0,
            States(walker) => walker.remembered(),
        }
    }

    /// The same with what is taken down of them besides.
    pub(super) fn entries(&self) -> usize {
        match self {
            Executions(_) => 0,
            States(walker) => walker.entries(),
        }
    }

    /// Whether the exploration ended where only the engine could tell that it was to.
    pub(super) fn is_late(&self) -> bool {
        matches!(self, States(walker) if walker.is_late)
    }

    /// A thread has nothing before it and everything that follows to itself. A trace tells what happens in between.
    pub(super) fn begin_transaction(&mut self, thread: usize, site: SiteOf) -> Result<(), Stop> {
        match self {
            Executions(explorer) => explorer.add_fence(thread, Strength::FULL, Ordering::SeqCst, site),
            States(walker) => walker.begin_transaction(thread),
        }
    }

    pub(super) fn commit_transaction(&mut self) {
        if let States(walker) = self {
            walker.commit_transaction();
        }
    }

    /// Nothing comes of the run, or execution.
    pub(super) fn leave(&mut self) {
        match self {
            Executions(_) => {} // a trace has no more steps of the thread
            States(walker) => walker.leave(),
        }
    }

    /// Notes that a location lies in a queue node.
    pub(super) fn lies_in(&mut self, location: LocationId, node: LocationId) {
        let node_of = match self {
            Executions(explorer) => &mut explorer.node_of,
            States(walker) => &mut walker.node_of,
        };
        if node_of.len() <= location as usize {
            node_of.resize(location as usize + 1, None);
        }
        node_of[location as usize] = Some(node);
    }

    /// The queue node that a location lies in.
    pub(super) fn node_of(&self, location: LocationId) -> Option<LocationId> {
        let node_of = match self {
            Executions(explorer) => &explorer.node_of,
            States(walker) => &walker.node_of,
        };
        node_of.get(location as usize).copied().flatten()
    }

    pub(super) fn last_value(&self, location: LocationId) -> u64 {
        match self {
            Executions(explorer) => explorer.last_value(location),
            States(walker) => walker.last_value(location),
        }
    }

    /// A thread is wrong after its last step.
    pub(super) fn violate(&mut self, thread: usize, violation: Violation) {
        let _: Result<(), Stop> = match self {
            Executions(explorer) => explorer.violate(thread, violation),
            States(walker) => walker.violate_at(thread, violation),
        };
    }

    #[inline]
    pub(super) fn read(
        &mut self,
        access: Access,
        wanted: Option<&mut dyn FnMut(u64) -> bool>,
    ) -> Result<(EventId, u64), Stop> {
        match self {
            Executions(explorer) => explorer.read(access, wanted),
            States(walker) => walker.read(access, wanted),
        }
    }

    #[inline]
    pub(super) fn write(
        &mut self,
        access: Access,
        value: u64,
        read_half: Option<EventId>,
    ) -> Result<(), Stop> {
        match self {
            Executions(explorer) => explorer.write(access, value, read_half),
            States(walker) => walker.write(access, value, read_half),
        }
    }

    pub(super) fn fence(&mut self, thread: usize, ordering: Ordering, site: SiteOf) -> Result<(), Stop> {
        match self {
            Executions(explorer) => explorer.fence(thread, ordering, site),
            States(walker) => walker.fence(thread, ordering),
        }
    }

    pub(super) fn add_fence(
        &mut self,
        thread: usize,
        strength: Strength,
        ordering: Ordering,
        site: SiteOf,
    ) -> Result<(), Stop> {
        match self {
            Executions(explorer) => explorer.add_fence(thread, strength, ordering, site),
            States(walker) => walker.add_fence(thread, strength),
        }
    }

    #[inline]
    pub(super) fn plain(&mut self, access: Access, written: Option<u64>) -> Result<u64, Stop> {
        match self {
            Executions(explorer) => explorer.plain(access, written),
            States(walker) => walker.plain(access, written),
        }
    }

    pub(super) fn choose(&mut self, thread: usize, choices: u64, site: SiteOf) -> Result<u64, Stop> {
        match self {
            Executions(explorer) => explorer.choose(thread, choices, site),
            States(walker) => walker.choose(thread, choices),
        }
    }

    /// Whether a thread that is about to fall asleep finds the word changed: 1, or 0. Executions have both, and leave out what
    /// the word does not bear out; from state to state it is one step with what follows, up to `commit_transaction`.
    pub(super) fn fall_asleep(
        &mut self,
        thread: usize,
        word: LocationId,
        expected: u64,
        site: SiteOf,
    ) -> Result<u64, Stop> {
        match self {
            Executions(explorer) => explorer.choose(thread, 2, site),
            States(walker) => walker.fall_asleep(thread, word, expected),
        }
    }

    #[inline]
    pub(super) fn note(&mut self, thread: usize, note: Note, site: SiteOf) -> Result<(), Stop> {
        match self {
            Executions(explorer) => explorer.note(thread, note, site),
            States(walker) => walker.note(thread, note),
        }
    }

    pub(super) fn node(
        &mut self,
        thread: usize,
        node: LocationId,
        kind: EventKind,
        site: SiteOf,
    ) -> Result<(), Stop> {
        match self {
            Executions(explorer) => explorer.node(thread, node, kind, site),
            States(walker) => walker.node(thread, node, kind),
        }
    }

    pub(super) fn wait(&mut self, thread: usize, reads: &[EventId], timed: bool, what: &'static str) {
        match self {
            Executions(explorer) => {
                let _: Result<(), Stop> = explorer.wait(thread, reads, timed, what);
            }
            States(walker) => walker.wait(thread, reads, timed, what),
        }
    }
}
