//! A core's own cache, as far as the memory has to know it.

use crate::directory::Request;
use crate::{NOBODY, Time};

/// Lines that a core remembers to have lost while the invalidation is still on its way to it.
const IN_FLIGHT: usize = 4;

/// An invalidation that is on its way to a core: the directory has taken the line away, but the core may use it until
/// the message has come.
#[derive(Clone, Copy, Default)]
struct InFlightInvalidation {
    line: u32,
    until: Time,
    writable: bool,
}

/// A core's cache.
pub(crate) struct Cache {
    pub(crate) die: u32,
    /// The thread that watches lines in this cache, if one does.
    pub(crate) watcher: u32,
    /// The thread that is in a transaction on this core, if one is.
    pub(crate) transaction: u32,
    in_flight: [InFlightInvalidation; IN_FLIGHT],
    next: usize,
}

impl Cache {
    pub(crate) fn new(die: u32) -> Self {
        let in_flight = [InFlightInvalidation::default(); IN_FLIGHT];
        Self { die, watcher: NOBODY, transaction: NOBODY, in_flight, next: 0 }
    }

    /// The thread on the core begins a transaction, which uses no line that the core has lost.
    pub(crate) fn begin_transaction(&mut self, thread: u32) {
        self.transaction = thread;
        self.in_flight = [InFlightInvalidation::default(); IN_FLIGHT];
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction != NOBODY
    }

    /// Takes a line away with effect at `until`.
    pub(crate) fn lose(&mut self, line: u32, until: Time, writable: bool) {
        if self.is_in_transaction() {
            return;
        }
        self.in_flight[self.next] = InFlightInvalidation { line, until, writable };
        self.next = (self.next + 1) % IN_FLIGHT;
    }

    /// Whether the core may still use a line that it has lost.
    #[inline]
    pub(crate) fn may_use(&self, line: u32, request: Request, now: Time) -> bool {
        let usable = |lost: &InFlightInvalidation| {
            lost.line == line && now < lost.until && (lost.writable || !request.writes())
        };
        self.in_flight.iter().any(usable)
    }
}
