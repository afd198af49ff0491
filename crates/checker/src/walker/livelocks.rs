//! Livelocks: cycles of states in which every thread that can move does so, and none gets anywhere.
//!
//! A client's threads make a bounded number of attempts, so that a state that comes up again on the way from itself is one
//! in which nothing was gained. That alone is no mistake: a thread that tries again and again while the holder of the lock
//! is never scheduled goes round as well. A cycle is wrong when it may go on for ever under a scheduler and a memory that
//! are fair:
//!
//! - Each thread that can move in some state of the cycle moves in it (strong fairness). A thread that waits by a named wait
//!   for what is not there cannot move.
//! - Each thread's store buffer is empty in some state of the cycle, if there are buffers.
//! - Under release-acquire, loads read the last write of a word and stores come after it: no thread finds old values for ever.
//!
//! Most explorations meet no state again on the way from itself and end after the first pass. Otherwise a second pass takes
//! down which state leads to which ([`StepGraph`]); in that graph a fair cycle is looked for as usual for strong fairness:
//! in each strongly connected part, a thread that can move and does not makes its states useless, and what is left is
//! looked at again. A third pass is guided along the cycle that was found, and becomes the counterexample.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use super::key::AsItIs;
use super::{Move, Walker};
use crate::graph::MAX_THREADS;
use crate::model::Model;
use crate::violation::Violation;

/// Threads, as bits.
type Threads = u16;

const _: () = assert!(MAX_THREADS <= Threads::BITS as usize);

/// What the threads could do at a fork.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Enabled {
    /// Threads that could move. A wait that only an old value would end does not count.
    pub(super) threads: Threads,
    /// Threads with stores in their buffers.
    buffered: Threads,
    /// Threads whose wait only an old value would end.
    misses: Threads,
    /// The moves are those of a choice.
    alone: bool,
}

/// What happened since a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The state; none before the first one.
    from: Option<u32>,
    /// The first move from it; the others had no alternative.
    first: Move,
    moved: Threads,
    /// Threads that could move on the way, those of the state itself left out.
    could: Threads,
    /// An old value was read, or a store came before others.
    is_stale: bool,
}

impl Segment {
    pub(super) const START: Self =
        Self { from: None, first: Move::ForcedBlock, moved: 0, could: 0, is_stale: false };
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    from: u32,
    to: u32,
    first: Move,
    moved: Threads,
    could: Threads,
    is_stale: bool,
}

/// Which state leads to which.
#[derive(Debug, Default)]
pub(super) struct StepGraph {
    numbers: HashMap<u128, u32, BuildHasherDefault<AsItIs>>,
    states: Vec<Enabled>,
    edges: Vec<Edge>,
}

/// A cycle, and the way to it: which way to go at each state that has several.
#[derive(Debug, Default)]
pub(super) struct Lasso {
    pub(super) moves: Vec<Move>,
    /// Where the cycle starts among them.
    pub(super) start: usize,
}

/// The exploration was to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Late;

/// What an exploration does now.
#[derive(Debug, Default)]
pub(super) enum Pass {
    /// It looks for states that were not seen.
    #[default]
    Search,
    /// The same once more, and takes down which leads to which.
    Record(Box<StepGraph>),
    /// It goes along a cycle.
    Guide(Lasso),
}

/// A run in which one thread after another has had no alternative for long.
#[derive(Clone, Debug, Default)]
pub(super) struct Lone {
    moves: u32,
    /// The state some moves ago, how many events each thread had then, and what happened since.
    state: u128,
    events: Vec<usize>,
    moved: Threads,
    could: Threads,
    is_stale: bool,
    is_drained: bool,
}

/// So many moves without an alternative are looked at more closely.
const LONG: u32 = 32;

fn threads_of(a_move: Move) -> Threads {
    match a_move {
        Move::Step { thread, .. } => 1 << thread,
        Move::Drain { .. } | Move::ForcedBlock => 0,
    }
}

impl Walker {
    /// Whether this is the second pass.
    pub(super) fn is_recording(&self) -> bool {
        matches!(self.pass, Pass::Record(_))
    }

    /// What the threads could do now.
    pub(super) fn enabled(&self) -> Enabled {
        let mut enabled = Enabled::default();
        for (thread, pending) in self.pending.iter().enumerate() {
            let misses = pending.seen.is_some() && !pending.wants_last;
            let can_move = !pending.ways.is_empty();
            enabled.threads |= Threads::from(can_move && !misses) << thread;
            enabled.misses |= Threads::from(can_move && misses) << thread;
            enabled.buffered |= Threads::from(self.memory.has_buffered(thread)) << thread;
            enabled.alone |= pending.alone && can_move;
        }
        enabled
    }

    /// Whether a move reads an old value or puts a store before others: not the first way of its thread at this fork.
    fn is_stale(&self, enabled: Enabled, moves: &[Move], taken: Move) -> bool {
        let Move::Step { thread, .. } = taken else { return false };
        let first =
            moves.iter().find(|&&other| matches!(other, Move::Step { thread: of, .. } if of == thread));
        self.model == Model::Ra
            && !enabled.alone
            && (enabled.misses & 1 << thread != 0 || first != Some(&taken))
    }

    /// Goes on from the fork `number` by `taken`.
    pub(super) fn pass(&mut self, number: usize, taken: Move) {
        if !self.is_recording() {
            return;
        }
        let fork = self.forks[number];
        let end = self.forks.get(number + 1).map_or(self.moves.len(), |next| next.start as usize);
        let stale = self.is_stale(fork.enabled, &self.moves[fork.start as usize..end], taken);
        let moved = threads_of(taken);
        self.segment = match fork.state {
            Some(state) => Segment { from: Some(state), first: taken, moved, could: 0, is_stale: stale },
            None => Segment {
                moved: fork.arrived.moved | moved,
                could: fork.arrived.could | fork.enabled.threads,
                is_stale: fork.arrived.is_stale | stale,
                ..fork.arrived
            },
        };
    }

    /// The run comes to a state that has several moves; gives its number if such are taken down.
    pub(super) fn arrive(&mut self, state: u128) -> Option<u32> {
        let (segment, enabled) = (self.segment, self.enabled());
        let Pass::Record(graph) = &mut self.pass else { return None };
        let next = graph.states.len() as u32;
        let to = *graph.numbers.entry(state).or_insert(next);
        if to == next {
            graph.states.push(enabled);
        }
        if let Segment { from: Some(from), first, moved, could, is_stale } = segment {
            graph.edges.push(Edge { from, to, first, moved, could, is_stale });
        }
        Some(to)
    }

    /// A state was seen before: whether that was on the way here.
    pub(super) fn note_seen(&mut self, state: u128) {
        self.met_again = self.met_again || self.forks.iter().any(|fork| fork.key == state as u64);
    }

    /// After the last run of a pass: whether there is another one.
    pub(super) fn next_pass(&mut self) -> bool {
        if self.violation.is_some() || !self.merges {
            return false;
        }
        self.pass = match std::mem::take(&mut self.pass) {
            Pass::Search if self.met_again => Pass::Record(Box::default()),
            Pass::Record(graph) => match graph.fair_cycle(|| self.limits.are_over()) {
                Ok(Some(lasso)) => Pass::Guide(lasso),
                Ok(None) => return false,
                Err(Late) => {
                    self.is_late = true;
                    return false;
                }
            },
            Pass::Search | Pass::Guide(_) => return false,
        };
        true
    }

    /// States that are remembered, and what the second pass has taken down besides: about as large as a state, each.
    pub(crate) fn entries(&self) -> usize {
        let of_graph = match &self.pass {
            Pass::Record(graph) => graph.states.len() + graph.edges.len(),
            Pass::Search | Pass::Guide(_) => 0,
        };
        self.remembered() + of_graph
    }

    /// Which of several moves a guided run takes; none at the end of the cycle, which is the violation.
    pub(super) fn guided(&mut self) -> Option<Move> {
        let events = || self.memory.threads.iter().map(|thread| thread.events).collect();
        let Pass::Guide(lasso) = &self.pass else { unreachable!("only guided runs are guided") };
        if self.guided == lasso.start {
            self.cycle_from = events();
        }
        let next = lasso.moves.get(self.guided).copied();
        self.guided += 1;
        if next.is_none() {
            self.violate_livelock();
        }
        next
    }

    pub(super) fn violate_livelock(&mut self) {
        let moved = |&thread: &usize| self.memory.threads[thread].events > self.cycle_from[thread];
        let threads = (0..self.threads).filter(moved).collect();
        let _: Result<(), _> = self.violate::<()>(Violation::Livelock { threads });
    }

    /// There is one move alone: after many of them, looks whether the run has come back to where it was. `state` is the
    /// state, asked for when it is needed.
    pub(super) fn is_lone_cycle(&mut self, only: Move, state: impl FnOnce(&mut Self) -> u128) -> bool {
        self.lone.moves += 1;
        if self.lone.moves < LONG {
            return false;
        }
        let (enabled, now) = (self.enabled(), state(self));
        let came_back = self.lone.moves > LONG && self.lone.state == now;
        let lone = &mut self.lone;
        if came_back && lone.could & !lone.moved == 0 && lone.is_drained && !lone.is_stale {
            self.cycle_from = std::mem::take(&mut lone.events);
            return true;
        }
        // Where a cycle is as long as it may be, some power of two lies in it.
        if lone.moves.is_power_of_two() {
            let events = self.memory.threads.iter().map(|thread| thread.events).collect();
            *lone = Lone { moves: lone.moves, state: now, events, ..Lone::default() };
        }
        lone.moved |= threads_of(only);
        lone.could |= enabled.threads;
        lone.is_stale |= enabled.misses & threads_of(only) != 0;
        lone.is_drained |= enabled.buffered == 0;
        false
    }
}

impl StepGraph {
    /// A cycle that can go on for ever, with the shortest way to it; an error when it is too late before that is known.
    fn fair_cycle(self, is_late: impl Fn() -> bool) -> Result<Option<Lasso>, Late> {
        let graph = Search::of(self);
        // As long as all states, so that they are made once and not for each part.
        let mut scratch = Scratch::of(graph.states.len());
        let mut inside = vec![false; graph.states.len()];
        let mut parts = vec![((0..graph.states.len() as u32).collect::<Vec<_>>(), 0)];
        while let Some((states, banned)) = parts.pop() {
            if is_late() {
                return Err(Late);
            }
            for part in graph.strongly_connected(&states, banned, &mut scratch) {
                mark(&mut inside, &part, true);
                let edges = || graph.edges_within(&part, &inside, banned);
                let moved = edges().fold(0, |all, edge| all | edge.moved);
                let states = || part.iter().map(|&state| graph.states[state as usize]);
                let could = states().fold(0, |all, state| all | state.threads)
                    | edges().fold(0, |all, edge| all | edge.could);
                let still = could & !moved;
                if still != 0 {
                    let rest = |state: &u32| graph.states[*state as usize].threads & still == 0;
                    parts.push((part.iter().copied().filter(rest).collect(), banned | still));
                    mark(&mut inside, &part, false);
                    continue;
                }
                let buffered = states().fold(0, |all, state| all | state.buffered);
                let never_empty = states().fold(buffered, |all, state| all & state.buffered);
                if never_empty == 0 {
                    return Ok(Some(graph.lasso(&part, &inside, banned, could, buffered)));
                }
                mark(&mut inside, &part, false);
            }
        }
        Ok(None)
    }
}

fn mark(inside: &mut [bool], states: &[u32], is_inside: bool) {
    states.iter().for_each(|&state| inside[state as usize] = is_inside);
}

/// What a search for strongly connected parts notes of each state; between two of them nothing.
struct Scratch {
    inside: Vec<bool>,
    order: Vec<u32>,
    low: Vec<u32>,
    is_open: Vec<bool>,
}

impl Scratch {
    /// The order of a state that was not come to.
    const UNSEEN: u32 = u32::MAX;

    fn of(states: usize) -> Self {
        Self {
            inside: vec![false; states],
            order: vec![Self::UNSEEN; states],
            low: vec![0; states],
            is_open: vec![false; states],
        }
    }
}

/// The graph with the edges of each state together.
struct Search {
    states: Vec<Enabled>,
    edges: Vec<Edge>,
    /// Where the edges of a state start, and at the end how many there are.
    starts: Vec<u32>,
}

impl Search {
    fn of(graph: StepGraph) -> Self {
        let StepGraph { states, mut edges, .. } = graph;
        edges.sort_by_key(|edge| edge.from);
        let start = |state: u32| edges.partition_point(|edge| edge.from < state) as u32;
        let starts = (0..=states.len() as u32).map(start).collect();
        Self { states, edges, starts }
    }

    fn range(&self, state: u32) -> std::ops::Range<usize> {
        self.starts[state as usize] as usize..self.starts[state as usize + 1] as usize
    }

    fn edges_within<'a>(
        &'a self,
        states: &'a [u32],
        inside: &'a [bool],
        banned: Threads,
    ) -> impl Iterator<Item = &'a Edge> {
        let all = states.iter().flat_map(|&state| &self.edges[self.range(state)]);
        all.filter(move |edge| !edge.is_stale && edge.could & banned == 0 && inside[edge.to as usize])
    }

    /// The strongly connected parts of these states that have an edge (Tarjan 1972), without recursion.
    fn strongly_connected(&self, states: &[u32], banned: Threads, scratch: &mut Scratch) -> Vec<Vec<u32>> {
        const UNSEEN: u32 = Scratch::UNSEEN;
        mark(&mut scratch.inside, states, true);
        let Scratch { inside, order, low, is_open } = &mut *scratch;
        let mut open = Vec::new();
        let (mut parts, mut next) = (Vec::new(), 0);
        let mut calls: Vec<(u32, usize)> = Vec::new();
        for &root in states {
            if order[root as usize] != UNSEEN {
                continue;
            }
            calls.push((root, self.range(root).start));
            while let Some((state, edge)) = calls.pop() {
                let at = state as usize;
                if order[at] == UNSEEN {
                    (order[at], low[at]) = (next, next);
                    next += 1;
                    open.push(state);
                    is_open[at] = true;
                }
                let range = edge..self.range(state).end;
                let mut deeper = None;
                for number in range {
                    let Edge { to, could, is_stale, .. } = self.edges[number];
                    let to_at = to as usize;
                    if is_stale || could & banned != 0 || !inside[to_at] {
                        continue;
                    }
                    if order[to_at] == UNSEEN {
                        deeper = Some((number, to));
                        break;
                    }
                    if is_open[to_at] {
                        low[at] = low[at].min(low[to_at]);
                    }
                }
                if let Some((number, to)) = deeper {
                    // The edge is looked at again, when what lies behind it is known.
                    calls.extend([(state, number), (to, self.range(to).start)]);
                    continue;
                }
                if low[at] == order[at] {
                    let place = open.iter().rposition(|&other| other == state).expect("it was opened");
                    let part = open.split_off(place);
                    part.iter().for_each(|&other| is_open[other as usize] = false);
                    let to_itself =
                        |edge: &Edge| edge.to == state && !edge.is_stale && edge.could & banned == 0;
                    if part.len() > 1 || self.edges[self.range(state)].iter().any(to_itself) {
                        parts.push(part);
                    }
                }
            }
        }
        mark(&mut scratch.inside, states, false);
        states.iter().for_each(|&state| scratch.order[state as usize] = UNSEEN);
        parts
    }

    /// The shortest way from a state by such edges to one that is wanted, or by an edge that is: the edges.
    fn way(
        &self,
        from: u32,
        may: impl Fn(&Edge) -> bool,
        wanted: impl Fn(&Edge) -> bool,
    ) -> Option<Vec<usize>> {
        let mut before = vec![None; self.states.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(state) = queue.pop_front() {
            for number in self.range(state) {
                let edge = &self.edges[number];
                if !may(edge) {
                    continue;
                }
                if wanted(edge) {
                    let mut way = vec![number];
                    let mut state = state;
                    while state != from {
                        let number: usize = before[state as usize].expect("it was come to");
                        way.push(number);
                        state = self.edges[number].from;
                    }
                    way.reverse();
                    return Some(way);
                }
                if edge.to != from && before[edge.to as usize].is_none() {
                    before[edge.to as usize] = Some(number);
                    queue.push_back(edge.to);
                }
            }
        }
        None
    }

    /// A cycle in a part in which every thread moves that could, and every buffer is empty once.
    fn lasso(
        &self,
        part: &[u32],
        inside: &[bool],
        banned: Threads,
        mut to_move: Threads,
        mut to_empty: Threads,
    ) -> Lasso {
        let to_part = self.way(0, |_| true, |edge| inside[edge.to as usize]).unwrap_or_default();
        let home = if inside[0] { 0 } else { to_part.last().map_or(part[0], |&edge| self.edges[edge].to) };
        let to_part = if inside[0] { Vec::new() } else { to_part };
        let within = |edge: &Edge| !edge.is_stale && edge.could & banned == 0 && inside[edge.to as usize];
        let (mut at, mut cycle) = (home, Vec::new());
        to_empty &= self.states[at as usize].buffered;
        loop {
            let useful = |edge: &Edge| {
                edge.moved & to_move != 0 || to_empty & !self.states[edge.to as usize].buffered != 0
            };
            let done = to_move == 0 && to_empty == 0;
            if done && at == home && !cycle.is_empty() {
                break;
            }
            let wanted = |edge: &Edge| if done { edge.to == home } else { useful(edge) };
            let way = self.way(at, within, wanted).expect("the part is strongly connected");
            for &number in &way {
                let edge = &self.edges[number];
                to_move &= !edge.moved;
                to_empty &= self.states[edge.to as usize].buffered;
                at = edge.to;
            }
            cycle.extend(way);
        }
        let start = to_part.len();
        let moves = to_part.into_iter().chain(cycle).map(|edge| self.edges[edge].first).collect();
        Lasso { moves, start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that goes from one state to itself, and to nothing else.
    fn round() -> StepGraph {
        let first = Move::Step { thread: 0, way: 0 };
        StepGraph {
            states: vec![Enabled { threads: 1, ..Enabled::default() }],
            edges: vec![Edge { from: 0, to: 0, first, moved: 1, could: 1, is_stale: false }],
            ..StepGraph::default()
        }
    }

    #[test]
    fn a_cycle_is_not_looked_for_when_the_exploration_is_to_end() {
        assert!(round().fair_cycle(|| false).is_ok_and(|cycle| cycle.is_some()));
        assert!(round().fair_cycle(|| true).is_err());
    }

    #[test]
    fn what_is_taken_down_of_states_counts_as_they_do() {
        let mut walker = Walker::new(Model::Sc, 1, true, 0);
        assert_eq!(walker.entries(), 0);
        walker.pass = Pass::Record(Box::new(round()));
        assert_eq!((walker.remembered(), walker.entries()), (0, 2));
    }
}
