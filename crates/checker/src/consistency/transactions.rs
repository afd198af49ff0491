//! Whether a model allows an execution of which parts are transactions.
//!
//! The conditions are those of Chong, Sorensen and Wickerson (PLDI 2018). *Lifting* a relation to transactions lets what holds of
//! one event of a transaction and an event outside of it hold of the whole transaction; what holds within one is left out.
//!
//! - Under the models of machines the order in which things happen, lifted, has no cycle. A transaction so comes as a whole before
//!   or after everything else. Their full fences at both ends are events of the execution.
//! - Under release-acquire one transaction happens before another when an access of it comes before a conflicting one of the other.
//!   Happening before is lifted, and so are `rf ∪ mo ∪ fr`, which must have no cycle, so that accesses outside of transactions do not
//!   come between those of one (strong isolation), and `po ∪ rf`: a machine that never loads from the future takes a transaction in
//!   one step.
//!
//! These conditions are asked when all threads have ended: the explorer comes to some executions by way of unfinished ones that the
//! conditions forbid already.

use super::relations::{Relations, Row, add_all, contains};
use super::successors;
use crate::graph::{EventId, Graph, StepIndex};
use crate::model::Model;

/// A transaction that has committed: events of a thread, one behind the other.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) thread: usize,
    /// The places of its events in the thread.
    pub(crate) events: std::ops::Range<usize>,
}

impl Transaction {
    fn has(&self, event: EventId) -> bool {
        usize::from(event.thread) == self.thread && self.events.contains(&usize::from(event.index))
    }

    fn ids(&self) -> impl Iterator<Item = EventId> + use<> {
        let thread = self.thread as u8;
        self.events.clone().map(move |index| EventId { thread, index: index as StepIndex })
    }
}

/// Whether a graph of ended threads, which the model allows, is still allowed when these of its parts are transactions.
pub(crate) fn isolates(model: Model, graph: &Graph, transactions: &[Transaction]) -> bool {
    transactions.is_empty()
        || match model {
            Model::Sc | Model::Tso | Model::Pso => is_ordered_on_machine(model, graph, transactions),
            Model::Ra => is_isolated_in_release_acquire(graph, transactions),
        }
}

/// Whether the order in which a machine makes things happen has no cycle of transactions and events outside of them: takes away
/// those that nothing is before until none is left, or all that are left lie on or behind a cycle.
fn is_ordered_on_machine(model: Model, graph: &Graph, transactions: &[Transaction]) -> bool {
    let wholes = Wholes::of(graph, transactions);
    let mut before = vec![0_usize; wholes.all.len()];
    for whole in 0..before.len() {
        wholes.each_successor(model, graph, whole, |next| before[next] += 1);
    }
    let mut first = (0..before.len()).filter(|&whole| before[whole] == 0).collect::<Vec<_>>();
    let mut left = before.len();
    while let Some(whole) = first.pop() {
        left -= 1;
        wholes.each_successor(model, graph, whole, |next| {
            before[next] -= 1;
            if before[next] == 0 {
                first.push(next);
            }
        });
    }
    left == 0
}

/// The transactions, and each event outside of them for itself.
struct Wholes {
    all: Vec<Transaction>,
    /// Of each event of each thread the number of what it belongs to.
    numbers: Vec<Vec<usize>>,
}

impl Wholes {
    fn of(graph: &Graph, transactions: &[Transaction]) -> Self {
        let mut all = transactions.to_vec();
        let mut numbers = Vec::new();
        for (thread, events) in graph.threads.iter().enumerate() {
            let mut own = vec![usize::MAX; events.len()];
            for (number, whole) in transactions.iter().enumerate().filter(|(_, one)| one.thread == thread) {
                own[whole.events.clone()].fill(number);
            }
            for (index, number) in own.iter_mut().enumerate().filter(|(_, number)| **number == usize::MAX) {
                *number = all.len();
                all.push(Transaction { thread, events: index..index + 1 });
            }
            numbers.push(own);
        }
        Self { all, numbers }
    }

    /// Calls `each` with what follows directly, as often as an event of the one is before an event of the other.
    fn each_successor(&self, model: Model, graph: &Graph, whole: usize, mut each: impl FnMut(usize)) {
        for event in self.all[whole].ids() {
            successors(model, graph, event, |next| {
                let number = self.numbers[usize::from(next.thread)][usize::from(next.index)];
                if number != whole {
                    each(number);
                }
            });
        }
    }
}

/// The relations of an execution with transactions.
struct Isolation<'a> {
    relations: Relations<'a>,
    /// Of each event those of its transaction, or itself alone.
    wholes: Vec<Row>,
}

impl<'a> Isolation<'a> {
    fn new(graph: &'a Graph, transactions: &[Transaction]) -> Self {
        let relations = Relations::new(graph);
        let together = |a, b| a == b || transactions.iter().any(|one| one.has(a) && one.has(b));
        let wholes = relations.rows(together);
        Self { relations, wholes }
    }

    /// What holds of one event of a transaction and another event holds of the whole transaction.
    fn lifted(&self, rows: &[Row]) -> Vec<Row> {
        let across = |(row, whole): (&Row, &Row)| row.iter().zip(whole).map(|(to, own)| to & !own).collect();
        let across = rows.iter().zip(&self.wholes).map(across).collect::<Vec<Row>>();
        self.relations.followed_by(&self.relations.followed_by(&self.wholes, &across), &self.wholes)
    }

    /// What happens before what: of two transactions with conflicting accesses one does.
    fn happens_before(&self, transactions: &[Transaction]) -> Vec<Row> {
        let relations = &self.relations;
        let in_transaction = |event| transactions.iter().any(|one| one.has(event));
        let conflicts = |a, b| {
            relations.communicates(a, b)
                && (relations.is_write(a) || relations.is_write(b))
                && in_transaction(a)
                && in_transaction(b)
        };
        let mut before = relations.synchronised();
        let add = |to: &mut Vec<Row>, from: &[Row]| {
            to.iter_mut().zip(from).for_each(|(to, from)| add_all(to, from));
        };
        let mut across = relations.rows(conflicts);
        add(&mut across, &before);
        add(&mut before, &self.lifted(&across));
        relations.closure(before)
    }
}

fn is_irreflexive(rows: &[Row]) -> bool {
    rows.iter().enumerate().all(|(number, row)| !contains(row, number))
}

fn is_isolated_in_release_acquire(graph: &Graph, transactions: &[Transaction]) -> bool {
    let isolation = Isolation::new(graph, transactions);
    let relations = &isolation.relations;
    let communicates = relations.rows(|a, b| relations.communicates(a, b));
    let before = isolation.happens_before(transactions);
    // So happening before has no cycle either: one with a conflict in it is not coherent, one without is of `po ∪ rf`.
    let has_no_cycle = |rows: &[Row]| is_irreflexive(&relations.closure(isolation.lifted(rows)));
    has_no_cycle(&communicates)
        && has_no_cycle(&relations.dependent())
        && is_irreflexive(&relations.followed_by(&before, &communicates))
        && relations.psc_has_no_cycle(&before)
}

/// Whether one access happens before another, where transactions synchronise with each other.
pub(crate) fn happens_before(
    graph: &Graph,
    transactions: &[Transaction],
) -> impl Fn(EventId, EventId) -> bool {
    let isolation = Isolation::new(graph, transactions);
    let before = isolation.happens_before(transactions);
    move |a, b| {
        let numbers = isolation.relations.number_of(a).zip(isolation.relations.number_of(b));
        numbers.is_some_and(|(a, b)| contains(&before[a], b))
    }
}
