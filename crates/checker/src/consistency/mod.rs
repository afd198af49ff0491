//! Whether a memory model allows an execution graph.
//!
//! The explorer asks only about what it has just changed. Coherence is kept by construction (see
//! [`Graph::floor`]), and so is atomicity; what remains is the order of a machine with store buffers, a cycle of which
//! must pass through a changed event, and RC11's `psc`. Transactions are judged when all threads have ended.

mod relations;
mod transactions;

use crate::graph::{Event, EventId, EventKind, Graph, MAX_STEPS, MAX_THREADS};
use crate::model::{Model, Strength};
pub(crate) use transactions::{Transaction, happens_before, isolates};

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
            Model::Ra => relations::allows_seq_cst(graph),
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
