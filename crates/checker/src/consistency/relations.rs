//! Relations between the events of an execution, row by row, and RC11's condition on seq_cst accesses and fences.

use crate::graph::{Event, EventId, EventKind, Graph, StepIndex};
use crate::model::Strength;

/// A set of events by their number in [`Relations::events`].
pub(super) type Row = Vec<u64>;

/// The accesses and fences of an execution, in the order of their names.
pub(super) struct Relations<'a> {
    graph: &'a Graph,
    events: Vec<EventId>,
    /// By thread and place in it: where a write stands in its location's order, or where the write that a read reads from does.
    positions: Vec<Vec<usize>>,
}

/// Whether the condition on seq_cst accesses and fences holds, as far as synchronisation alone makes things happen before others.
pub(super) fn allows_seq_cst(graph: &Graph) -> bool {
    let strong = |threads: &[Vec<Event>]| {
        threads.iter().flatten().filter(|event| event.strength.has(Strength::SEQ_CST)).take(2).count()
    };
    if strong(&graph.threads) < 2 {
        return true;
    }
    let relations = Relations::new(graph);
    relations.psc_has_no_cycle(&relations.synchronised())
}

pub(super) fn contains(row: &Row, number: usize) -> bool {
    row[number / 64] & (1 << (number % 64)) != 0
}

fn meets(a: &Row, b: &Row) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

pub(super) fn add_all(to: &mut Row, from: &Row) {
    for (to, from) in to.iter_mut().zip(from) {
        *to |= from;
    }
}

impl<'a> Relations<'a> {
    pub(super) fn new(graph: &'a Graph) -> Self {
        let events = graph.threads.iter().enumerate().flat_map(|(thread, events)| {
            let counted = |kind| matches!(kind, EventKind::Read { .. } | EventKind::Write | EventKind::Fence);
            let numbered = events.iter().enumerate().filter(move |(_, event)| counted(event.kind));
            numbered.map(move |(index, _)| EventId { thread: thread as u8, index: index as StepIndex })
        });
        let events = events.collect::<Vec<_>>();
        let mut positions = graph.threads.iter().map(|events| vec![0; events.len()]).collect::<Vec<_>>();
        for &id in &events {
            let event = graph.event(id);
            let write = match event.kind {
                EventKind::Read { from } => from,
                EventKind::Write => id,
                _ => continue,
            };
            positions[usize::from(id.thread)][usize::from(id.index)] =
                graph.accesses(event.location).position(write);
        }
        Self { graph, events, positions }
    }

    /// The relation of all pairs that are related.
    pub(super) fn rows(&self, related: impl Fn(EventId, EventId) -> bool) -> Vec<Row> {
        let row = |&from: &EventId| {
            let mut row = vec![0; self.events.len().div_ceil(64)];
            for (number, &to) in self.events.iter().enumerate() {
                if related(from, to) {
                    row[number / 64] |= 1 << (number % 64);
                }
            }
            row
        };
        self.events.iter().map(row).collect()
    }

    /// What is reached by a step of the first relation and one of the second.
    pub(super) fn followed_by(&self, first: &[Row], second: &[Row]) -> Vec<Row> {
        let row = |from: &Row| {
            let mut row = vec![0; from.len()];
            for number in (0..self.events.len()).filter(|&number| contains(from, number)) {
                add_all(&mut row, &second[number]);
            }
            row
        };
        first.iter().map(row).collect()
    }

    /// What is reached by one step or more.
    pub(super) fn closure(&self, mut rows: Vec<Row>) -> Vec<Row> {
        for middle in 0..rows.len() {
            let after = rows[middle].clone();
            rows.iter_mut().filter(|row| contains(row, middle)).for_each(|row| add_all(row, &after));
        }
        rows
    }

    /// The number of an event in every row.
    pub(super) fn number_of(&self, event: EventId) -> Option<usize> {
        self.events.binary_search(&event).ok()
    }

    pub(super) fn is_write(&self, event: EventId) -> bool {
        self.graph.event(event).is_write()
    }

    fn is_fence(&self, event: EventId) -> bool {
        self.graph.event(event).kind == EventKind::Fence
    }

    fn same_location(&self, a: EventId, b: EventId) -> bool {
        !self.is_fence(a) && !self.is_fence(b) && self.graph.event(a).location == self.graph.event(b).location
    }

    /// What happens before what by program order and synchronisation.
    pub(super) fn synchronised(&self) -> Vec<Row> {
        self.rows(|a, b| a != b && self.graph.event(b).happened.has(a))
    }

    fn position(&self, id: EventId) -> usize {
        self.positions[usize::from(id.thread)][usize::from(id.index)]
    }

    /// The closure of `po ∪ rf`.
    pub(super) fn dependent(&self) -> Vec<Row> {
        self.rows(|a, b| a != b && self.graph.event(b).prefix.has(a))
    }

    /// `rf ∪ mo ∪ fr`, closed.
    pub(super) fn communicates(&self, a: EventId, b: EventId) -> bool {
        if a == b || !self.same_location(a, b) {
            return false;
        }
        let (first, second) = (self.position(a), self.position(b));
        first < second || first == second && self.graph.event(a).is_write() && self.graph.event(b).is_read()
    }

    /// `mo ∪ fr`.
    fn overwrites(&self, a: EventId, b: EventId) -> bool {
        a != b
            && self.same_location(a, b)
            && self.graph.event(b).is_write()
            && self.position(a) < self.position(b)
    }

    /// Whether RC11's `psc` has no cycle, where this happens before that.
    pub(super) fn psc_has_no_cycle(&self, happens_before: &[Row]) -> bool {
        let in_order = |a: EventId, b: EventId| a.thread == b.thread && a.index < b.index;
        let elsewhere = self.rows(|a, b| in_order(a, b) && !self.same_location(a, b));
        let around = self.followed_by(&self.followed_by(&elsewhere, happens_before), &elsewhere);
        let mut base = self.rows(|a, b| in_order(a, b) || self.overwrites(a, b));
        base.iter_mut().zip(&around).for_each(|(row, more)| add_all(row, more));
        let same_location = self.rows(|a, b| self.same_location(a, b));
        for (row, (later, same)) in base.iter_mut().zip(happens_before.iter().zip(&same_location)) {
            row.iter_mut().zip(later.iter().zip(same)).for_each(|(to, (later, same))| *to |= later & same);
        }
        acyclic(self.psc(&base, happens_before))
    }

    /// The edges of `psc` from each seq_cst access and fence.
    fn psc(&self, base: &[Row], happens_before: &[Row]) -> Vec<(usize, Row)> {
        let strong = (0..self.events.len())
            .filter(|&number| self.graph.event(self.events[number]).strength.has(Strength::SEQ_CST))
            .collect::<Vec<_>>();
        let before = |&number: &usize| self.row_of(number, |other| contains(&happens_before[other], number));
        let after = |number: usize| self.row_of(number, |other| contains(&happens_before[number], other));
        let ends = strong.iter().map(before).collect::<Vec<_>>();
        let is_fence = |number: usize| self.is_fence(self.events[number]);
        // Between fences alone; without any there is nothing to compute.
        let between = if strong.iter().any(|&number| is_fence(number)) {
            let communicates = self.rows(|a, b| self.communicates(a, b));
            self.followed_by(&self.followed_by(happens_before, &communicates), happens_before)
        } else {
            Vec::new()
        };
        let reaches = |&from: &usize| {
            let (mut row, mut reached) = (vec![0; ends[0].len()], vec![0; ends[0].len()]);
            let starts = after(from);
            let members = (0..self.events.len()).filter(|&member| contains(&starts, member));
            members.for_each(|member| add_all(&mut reached, &base[member]));
            for (&to, ends) in strong.iter().zip(&ends) {
                let both_fences = is_fence(from) && is_fence(to);
                if meets(&reached, ends)
                    || both_fences && (contains(&happens_before[from], to) || contains(&between[from], to))
                {
                    row[to / 64] |= 1 << (to % 64);
                }
            }
            (from, row)
        };
        strong.iter().map(reaches).collect()
    }

    /// An access alone, or a fence with all that `related` adds.
    fn row_of(&self, number: usize, related: impl Fn(usize) -> bool) -> Row {
        let mut row = vec![0; self.events.len().div_ceil(64)];
        row[number / 64] |= 1 << (number % 64);
        if self.is_fence(self.events[number]) {
            for other in (0..self.events.len()).filter(|&other| related(other)) {
                row[other / 64] |= 1 << (other % 64);
            }
        }
        row
    }
}

/// Takes away those that nothing follows until none is left, or all that are left lie on or before a cycle.
fn acyclic(mut edges: Vec<(usize, Row)>) -> bool {
    loop {
        let left = edges.len();
        let alive = edges.iter().map(|&(number, _)| number).collect::<Vec<_>>();
        edges.retain(|(_, row)| alive.iter().any(|&number| contains(row, number)));
        if edges.is_empty() {
            return true;
        }
        if edges.len() == left {
            return false;
        }
    }
}
