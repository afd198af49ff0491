//! What carries messages between dies and memory nodes: latencies, and the nodes, which take one request at a time.

use crate::Time;
use crate::hardware::Hardware;
use crate::memory::latency::LatencyTable;

/// The latencies, and until when each memory node is taken.
pub(crate) struct Interconnect {
    pub(crate) latencies: LatencyTable,
    home_occupancy: Time,
    /// By memory node: when it takes the next request.
    nodes_free: Vec<Time>,
}

impl Interconnect {
    pub(crate) fn new(hardware: &Hardware) -> Self {
        Self {
            latencies: LatencyTable::new(hardware),
            home_occupancy: hardware.home_occupancy,
            nodes_free: vec![0; hardware.nodes],
        }
    }

    /// When a memory node begins with a request, and when it has looked the line up.
    pub(crate) fn look_up(&mut self, node: usize, at: Time) -> (Time, Time) {
        let start = at.max(self.nodes_free[node]);
        self.nodes_free[node] = start + self.home_occupancy;
        (start, self.nodes_free[node])
    }

    /// Requests that a memory node refuses take it from now on.
    pub(crate) fn refuse(&mut self, node: usize, now: Time, takes: Time) {
        self.nodes_free[node] = self.nodes_free[node].max(now) + takes;
    }

    /// When a message of a die reaches a node.
    #[inline]
    pub(crate) fn reach_node(&self, die: usize, node: usize, at: Time) -> Time {
        at + self.latencies.to_node(die, node)
    }

    /// When a message of a node reaches a die.
    #[inline]
    pub(crate) fn reach_die(&self, node: usize, die: usize, at: Time) -> Time {
        at + self.latencies.to_node(die, node)
    }

    /// When a message of a die reaches another.
    #[inline]
    pub(crate) fn between_dies(&self, from: usize, to: usize, at: Time) -> Time {
        at + self.latencies.between_dies(from, to)
    }
}
