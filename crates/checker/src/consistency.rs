//! Whether a memory model allows an execution graph.
//!
//! The explorer asks only about what it has just changed. Coherence is kept by construction (see
//! [`Graph::floor`]), and so is atomicity; what remains is the order of a machine with store buffers, a cycle of which
//! must pass through a changed event, and RC11's `psc`.

use crate::graph::{Event, EventId, EventKind, Graph, MAX_STEPS, MAX_THREADS};
use crate::model::{Model, Strength};

/// Scratch memory of the check.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    visited: Visited,
    work: Vec<EventId>,
}

/// A set of events.
#[derive(Debug, Default)]
struct Visited([[u64; MAX_STEPS.div_ceil(64)]; MAX_THREADS]);

impl Visited {
    /// False if it was there.
    fn insert(&mut self, event: EventId) -> bool {
        let word = &mut self.0[event.thread as usize][event.index as usize / 64];
        let bit = 1 << (event.index % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

impl Checker {
    /// Whether the model allows the graph, which it did before `changed` was added or changed.
    pub(crate) fn allows(&mut self, model: Model, graph: &Graph, changed: EventId) -> bool {
        match model {
            Model::Sc | Model::Tso | Model::Pso => !self.in_cycle(model, graph, changed),
            Model::Ra => seq_cst::allows(graph),
        }
    }

    /// Whether the event reaches itself by the order in which a machine with store buffers makes it happen.
    fn in_cycle(&mut self, model: Model, graph: &Graph, start: EventId) -> bool {
        self.visited.0.iter_mut().take(graph.threads.len()).for_each(|words| words.fill(0));
        self.work.clear();
        self.work.push(start);
        while let Some(event) = self.work.pop() {
            let mut reached = false;
            successors(model, graph, event, |next| {
                reached |= next == start;
                if self.visited.insert(next) {
                    self.work.push(next);
                }
            });
            if reached {
                return true;
            }
        }
        false
    }
}

/// Calls `each` with events that follow directly, enough of them that the others follow from these.
fn successors(model: Model, graph: &Graph, id: EventId, mut each: impl FnMut(EventId)) {
    let event = graph.event(id);
    let later = &graph.threads[id.thread as usize][id.index as usize + 1..];
    for (index, other) in (id.index + 1..).zip(later) {
        if program_order_counts(model, event, other) {
            each(EventId { thread: id.thread, index });
            if orders_all_later(model, other) {
                break;
            }
        }
    }
    let accesses = match event.kind {
        EventKind::Read { .. } | EventKind::Write => graph.accesses(event.location),
        _ => return,
    };
    match event.kind {
        EventKind::Read { from } => {
            if let Some(&next) = accesses.writes.get(accesses.position(from))
                && next != id
            {
                each(next);
            }
        }
        EventKind::Write => {
            if let Some(&next) = accesses.writes.get(accesses.position(id)) {
                each(next);
            }
            for &read in &accesses.reads {
                if read.thread != id.thread && graph.event(read).source() == id {
                    each(read);
                }
            }
        }
        _ => {}
    }
}

/// Whether what follows `event` in its thread also follows it on the machine.
fn orders_all_later(model: Model, event: &Event) -> bool {
    match model {
        Model::Sc => true,
        _ if event.strength.has(Strength::PART) => false,
        _ => match event.kind {
            EventKind::Read { .. } => true,
            EventKind::Write => event.strength.has(Strength::FULL.with(Strength::DIRECT)),
            EventKind::Fence => event.strength.has(Strength::FULL),
            _ => false,
        },
    }
}

/// Whether `first`, which stands before `second` in its thread, also happens before it on the machine.
fn program_order_counts(model: Model, first: &Event, second: &Event) -> bool {
    let on_memory =
        |event: &Event| matches!(event.kind, EventKind::Read { .. } | EventKind::Write | EventKind::Fence);
    if model == Model::Sc {
        return true;
    }
    if !on_memory(first) || !on_memory(second) {
        return false;
    }
    // The half that keeps the other bytes of a partly stored word is no load of the program.
    if (first.is_read() && first.strength.has(Strength::PART))
        || (second.is_read() && second.strength.has(Strength::PART))
    {
        return false;
    }
    if orders_all_later(model, first) || second.strength.has(Strength::FULL) {
        return true;
    }
    match (first.kind, second.kind) {
        (EventKind::Fence, second) => !matches!(second, EventKind::Read { .. }),
        (EventKind::Write, EventKind::Write) => {
            model == Model::Tso || second.strength.has(Strength::STORES) || first.location == second.location
        }
        (EventKind::Write, EventKind::Fence) => true,
        (EventKind::Write, EventKind::Read { .. }) => {
            second.strength.has(Strength::EXCLUSIVE) && first.location == second.location
        }
        _ => true,
    }
}

/// RC11's condition on seq_cst accesses and fences.
mod seq_cst {
    use super::{EventId, EventKind, Graph, Strength};

    /// A set of events by their number in [`Relations::events`].
    type Row = Vec<u64>;

    struct Relations<'a> {
        graph: &'a Graph,
        events: Vec<EventId>,
    }

    pub(super) fn allows(graph: &Graph) -> bool {
        let strong = |threads: &[Vec<super::Event>]| {
            threads.iter().flatten().filter(|event| event.strength.has(Strength::SEQ_CST)).take(2).count()
        };
        strong(&graph.threads) < 2 || Relations::new(graph).psc_has_no_cycle()
    }

    fn contains(row: &Row, number: usize) -> bool {
        row[number / 64] & (1 << (number % 64)) != 0
    }

    fn meets(a: &Row, b: &Row) -> bool {
        a.iter().zip(b).any(|(a, b)| a & b != 0)
    }

    fn add_all(to: &mut Row, from: &Row) {
        for (to, from) in to.iter_mut().zip(from) {
            *to |= from;
        }
    }

    impl<'a> Relations<'a> {
        fn new(graph: &'a Graph) -> Self {
            let events = graph.threads.iter().enumerate().flat_map(|(thread, events)| {
                let counted =
                    |kind| matches!(kind, EventKind::Read { .. } | EventKind::Write | EventKind::Fence);
                let numbered = events.iter().enumerate().filter(move |(_, event)| counted(event.kind));
                numbered.map(move |(index, _)| EventId { thread: thread as u8, index: index as u8 })
            });
            Self { graph, events: events.collect() }
        }

        fn rows(&self, related: impl Fn(EventId, EventId) -> bool) -> Vec<Row> {
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

        fn followed_by(&self, first: &[Row], second: &[Row]) -> Vec<Row> {
            let row = |from: &Row| {
                let mut row = vec![0; from.len()];
                for number in (0..self.events.len()).filter(|&number| contains(from, number)) {
                    add_all(&mut row, &second[number]);
                }
                row
            };
            first.iter().map(row).collect()
        }

        fn is_fence(&self, event: EventId) -> bool {
            self.graph.event(event).kind == EventKind::Fence
        }

        fn same_location(&self, a: EventId, b: EventId) -> bool {
            !self.is_fence(a)
                && !self.is_fence(b)
                && self.graph.event(a).location == self.graph.event(b).location
        }

        fn happens_before(&self, a: EventId, b: EventId) -> bool {
            a != b && self.graph.event(b).happened.has(a)
        }

        /// Where a write stands in its order, or where the write that a read reads from does.
        fn position(&self, id: EventId) -> usize {
            let event = self.graph.event(id);
            let write = if event.is_read() { event.source() } else { id };
            self.graph.accesses(event.location).position(write)
        }

        /// `rf ∪ mo ∪ fr`, closed.
        fn communicates(&self, a: EventId, b: EventId) -> bool {
            if a == b || !self.same_location(a, b) {
                return false;
            }
            let (first, second) = (self.position(a), self.position(b));
            first < second
                || first == second && self.graph.event(a).is_write() && self.graph.event(b).is_read()
        }

        /// `mo ∪ fr`.
        fn overwrites(&self, a: EventId, b: EventId) -> bool {
            a != b
                && self.same_location(a, b)
                && self.graph.event(b).is_write()
                && self.position(a) < self.position(b)
        }

        fn psc_has_no_cycle(&self) -> bool {
            let happens_before = self.rows(|a, b| self.happens_before(a, b));
            let in_order = |a: EventId, b: EventId| a.thread == b.thread && a.index < b.index;
            let elsewhere = self.rows(|a, b| in_order(a, b) && !self.same_location(a, b));
            let around = self.followed_by(&self.followed_by(&elsewhere, &happens_before), &elsewhere);
            let mut base = self.rows(|a, b| {
                in_order(a, b)
                    || self.same_location(a, b) && self.happens_before(a, b)
                    || self.overwrites(a, b)
            });
            base.iter_mut().zip(&around).for_each(|(row, more)| add_all(row, more));
            let communicates = self.rows(|a, b| self.communicates(a, b));
            let between =
                self.followed_by(&self.followed_by(&happens_before, &communicates), &happens_before);

            let strong = (0..self.events.len())
                .filter(|&number| self.graph.event(self.events[number]).strength.has(Strength::SEQ_CST))
                .collect::<Vec<_>>();
            let before =
                |number: usize| self.row_of(number, |other| contains(&happens_before[other], number));
            let after = |number: usize| self.row_of(number, |other| contains(&happens_before[number], other));
            let reaches = |&from: &usize| {
                let mut row = vec![0; self.events.len().div_ceil(64)];
                let starts = after(from);
                for &to in &strong {
                    let ends = before(to);
                    let mut members = (0..self.events.len()).filter(|&member| contains(&starts, member));
                    let both_fences = self.is_fence(self.events[from]) && self.is_fence(self.events[to]);
                    if members.any(|member| meets(&base[member], &ends))
                        || both_fences
                            && (contains(&happens_before[from], to) || contains(&between[from], to))
                    {
                        row[to / 64] |= 1 << (to % 64);
                    }
                }
                (from, row)
            };
            let edges = strong.iter().map(reaches).collect::<Vec<_>>();
            acyclic(edges)
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
}
