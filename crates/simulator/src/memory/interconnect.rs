//! What carries messages between dies and memory nodes: latencies, and what can take one message at a time.

use crate::Time;
use crate::hardware::Hardware;
use crate::memory::latency::LatencyTable;

/// The latencies, and until when each memory node and each link is taken.
pub(crate) struct Interconnect {
    pub(crate) latencies: LatencyTable,
    nodes: usize,
    home_occupancy: Time,
    link_occupancy: Time,
    /// By memory node: when it takes the next request.
    nodes_free: Vec<Time>,
    /// By pair of sockets: when the link takes the next message.
    links_free: Vec<Time>,
}

impl Interconnect {
    pub(crate) fn new(hardware: &Hardware) -> Self {
        let sockets = hardware.hops.len();
        Self {
            latencies: LatencyTable::new(hardware),
            nodes: hardware.nodes,
            home_occupancy: hardware.home_occupancy,
            link_occupancy: hardware.link_occupancy,
            nodes_free: vec![0; hardware.nodes],
            links_free: vec![0; sockets * sockets],
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
    pub(crate) fn reach_node(&mut self, die: usize, node: usize, at: Time) -> Time {
        self.cross(self.latencies.node_of(die), node, at) + self.latencies.to_node(die, node)
    }

    /// When a message of a node reaches a die.
    #[inline]
    pub(crate) fn reach_die(&mut self, node: usize, die: usize, at: Time) -> Time {
        self.cross(node, self.latencies.node_of(die), at) + self.latencies.to_node(die, node)
    }

    /// When a message of a die reaches another.
    #[inline]
    pub(crate) fn between_dies(&mut self, from: usize, to: usize, at: Time) -> Time {
        let (near, far) = (self.latencies.node_of(from), self.latencies.node_of(to));
        self.cross(near, far, at) + self.latencies.between_dies(from, to)
    }

    /// When the link between two sockets takes a message.
    #[inline]
    fn cross(&mut self, from: usize, to: usize, at: Time) -> Time {
        if self.link_occupancy == 0 || from == to {
            return at;
        }
        let link = &mut self.links_free[from * self.nodes + to];
        let taken = at.max(*link);
        *link = taken + self.link_occupancy;
        taken
    }
}
