//! The hardware's latencies and distances as the memory looks them up: one dense table each.

use crate::Time;
use crate::hardware::Hardware;
use crate::report::Distance;

/// Times and distances between dies and memory nodes.
pub(crate) struct LatencyTable {
    dies: usize,
    nodes: usize,
    /// One way from die to die.
    between_dies: Box<[Time]>,
    /// One way between the two dies that are the nearest to each other.
    pub(super) nearest_die: Time,
    /// One way between a die and a node.
    to_node: Box<[Time]>,
    distance: Box<[Distance]>,
    /// The memory node of each die.
    node_of: Box<[u16]>,
    cores_per_die: usize,
}

impl LatencyTable {
    pub(crate) fn new(hardware: &Hardware) -> Self {
        let (dies, nodes) = (hardware.dies, hardware.nodes);
        let node_of = |die: usize| die / (dies / nodes);
        let distance = |a: usize, b: usize| match hardware.hops[node_of(a)][node_of(b)] {
            _ if a == b => Distance::SameDie,
            0 => Distance::SameSocket,
            1 => Distance::OneLink,
            _ => Distance::MoreLinks,
        };
        let nearest_die = (0..dies * dies)
            .filter(|pair| pair / dies != pair % dies)
            .map(|pair| hardware.die_to_die[pair / dies][pair % dies])
            .min();
        Self {
            dies,
            nodes,
            nearest_die: nearest_die.unwrap_or(Time::MAX),
            between_dies: hardware.die_to_die.concat().into(),
            to_node: hardware.die_to_node.concat().into(),
            distance: (0..dies * dies).map(|pair| distance(pair / dies, pair % dies)).collect(),
            node_of: (0..dies).map(|die| node_of(die) as u16).collect(),
            cores_per_die: hardware.cores() / dies,
        }
    }

    /// The cores of a die among all: words of a set, and what each has of the die.
    #[inline]
    pub(crate) fn cores_of(&self, die: usize) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (first, end) = (die * self.cores_per_die, (die + 1) * self.cores_per_die);
        (first / 64..end.div_ceil(64)).map(move |word| {
            let from = first.max(word * 64) % 64;
            let length = end.min(word * 64 + 64) - (word * 64 + from);
            (word, (u64::MAX >> (64 - length)) << from)
        })
    }

    #[inline]
    pub(crate) fn between_dies(&self, from: usize, to: usize) -> Time {
        self.between_dies[from * self.dies + to]
    }

    #[inline]
    pub(crate) fn to_node(&self, die: usize, node: usize) -> Time {
        self.to_node[die * self.nodes + node]
    }

    #[inline]
    pub(crate) fn distance(&self, a: usize, b: usize) -> Distance {
        self.distance[a * self.dies + b]
    }

    #[inline]
    pub(crate) fn node_of(&self, die: usize) -> usize {
        self.node_of[die] as usize
    }
}
