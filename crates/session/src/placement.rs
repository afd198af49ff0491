//! In which order the cores of several sockets or memory nodes are taken.

use machine::Topology;

/// The order in which cores are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// All of one socket, then all of the next.
    FillFirst,
    /// One of each socket in turn.
    RoundRobin,
}

impl Placement {
    /// Its name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::FillFirst => "fill first",
            Self::RoundRobin => "round robin",
        }
    }

    /// The cores of so many threads on these sockets.
    pub fn cores(self, topology: &Topology, sockets: &[u32], threads: usize) -> Vec<u32> {
        match self {
            Self::FillFirst => topology.fill_first(sockets, threads),
            Self::RoundRobin => topology.round_robin(sockets, threads),
        }
    }
}
