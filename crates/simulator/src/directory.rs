//! The coherence protocol: what a request finds, whom it has to ask, and what it leaves.
//!
//! The states and probes are those of figures 5 and 6 of "Non-scalable locks are dangerous" for MSI, and their usual
//! extensions for the others:
//!
//! | state     | load                        | store                                       |
//! |-----------|-----------------------------|---------------------------------------------|
//! | invalid   | no probe                    | no probe                                    |
//! | shared    | no probe                    | invalidate, broadcast or to the sharers     |
//! | exclusive | direct probe of the owner   | direct invalidate                           |
//! | modified  | direct probe of the owner   | direct invalidate                           |
//! | owned     | direct probe of the owner   | invalidate, broadcast or to the sharers     |

use serde::Serialize;
use topology::machine_file::Protocol;

/// What a core wants from a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// To read it.
    Load,
    /// To write it.
    Store,
    /// To read and write it in one.
    Atomic,
}

impl Request {
    /// Whether the line has to be the core's alone.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Load
    }
}

/// What the directory knows of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// In no cache.
    #[default]
    Invalid,
    /// In one or more caches, as in memory.
    Shared,
    /// In one cache, as in memory, and that cache may write it without asking. Not in MSI.
    Exclusive,
    /// In one cache, newer than memory.
    Modified,
    /// Newer than memory in its owner's cache, and in others. Only in MOESI.
    Owned,
}

/// Whom the home asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// No cache: the home has the data.
    None,
    /// The owner, for the data.
    Direct,
    /// The owner, which loses the line.
    DirectInvalidate,
    /// Every other cache of the machine, since the directory does not know the sharers.
    BroadcastInvalidate,
    /// Each sharer.
    InvalidateSharers,
}

/// Whom `request` of a core that does not own the line has to ask. `broadcasts` says that the directory does not keep
/// the list of sharers, as on the paper's Opteron.
#[must_use]
pub fn probe(request: Request, state: State, broadcasts: bool) -> Probe {
    match (request.writes(), state) {
        (_, State::Invalid) | (false, State::Shared) => Probe::None,
        (false, State::Exclusive | State::Modified | State::Owned) => Probe::Direct,
        (true, State::Exclusive | State::Modified) => Probe::DirectInvalidate,
        (true, State::Shared | State::Owned) if broadcasts => Probe::BroadcastInvalidate,
        (true, State::Shared | State::Owned) => Probe::InvalidateSharers,
    }
}

/// The state that `request` leaves.
#[must_use]
pub fn next_state(protocol: Protocol, request: Request, state: State) -> State {
    if request.writes() {
        return State::Modified;
    }
    match (protocol, state) {
        (Protocol::Msi, State::Invalid) => State::Shared,
        (_, State::Invalid) => State::Exclusive,
        (_, State::Shared | State::Exclusive) => State::Shared,
        (Protocol::Moesi, State::Modified | State::Owned) => State::Owned,
        (_, State::Modified | State::Owned) => State::Shared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Request::{Atomic, Load, Store};
    use State::{Exclusive, Invalid, Modified, Owned, Shared};

    /// Figures 5 and 6 of the paper, and the cells that MESI and MOESI add.
    #[test]
    fn every_cell_of_the_protocol() {
        let cells = [
            (Load, Invalid, Probe::None, Probe::None),
            (Load, Shared, Probe::None, Probe::None),
            (Load, Exclusive, Probe::Direct, Probe::Direct),
            (Load, Modified, Probe::Direct, Probe::Direct),
            (Load, Owned, Probe::Direct, Probe::Direct),
            (Store, Invalid, Probe::None, Probe::None),
            (Store, Shared, Probe::BroadcastInvalidate, Probe::InvalidateSharers),
            (Store, Exclusive, Probe::DirectInvalidate, Probe::DirectInvalidate),
            (Store, Modified, Probe::DirectInvalidate, Probe::DirectInvalidate),
            (Store, Owned, Probe::BroadcastInvalidate, Probe::InvalidateSharers),
        ];
        for (request, state, broadcast, exact) in cells {
            assert_eq!(probe(request, state, true), broadcast, "{request:?} {state:?}");
            assert_eq!(probe(request, state, false), exact, "{request:?} {state:?}");
            if request == Store {
                assert_eq!(probe(Atomic, state, true), broadcast);
                assert_eq!(probe(Atomic, state, false), exact);
            }
        }
    }

    #[test]
    fn every_state_that_a_request_leaves() {
        use Protocol::{Mesi, Moesi, Msi};
        let loads = [
            (Invalid, [Shared, Exclusive, Exclusive]),
            (Shared, [Shared, Shared, Shared]),
            (Exclusive, [Shared, Shared, Shared]),
            (Modified, [Shared, Shared, Owned]),
            (Owned, [Shared, Shared, Owned]),
        ];
        for (state, after) in loads {
            assert_eq!(
                [Msi, Mesi, Moesi].map(|protocol| next_state(protocol, Load, state)),
                after,
                "{state:?}"
            );
            for protocol in [Msi, Mesi, Moesi] {
                assert_eq!(next_state(protocol, Store, state), Modified);
                assert_eq!(next_state(protocol, Atomic, state), Modified);
            }
        }
    }
}
