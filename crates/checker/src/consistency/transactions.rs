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
use super::{Checker, successors};
use crate::graph::{EventId, Graph};
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
        self.events.clone().map(move |index| EventId { thread, index: index as u8 })
    }
}

impl Checker {
    /// Whether a graph of ended threads, which the model allows, is still allowed when these of its parts are transactions.
    pub(crate) fn isolates(&mut self, model: Model, graph: &Graph, transactions: &[Transaction]) -> bool {
        match model {
            Model::Sc | Model::Tso | Model::Pso => {
                transactions.iter().all(|start| !self.follows_itself(model, graph, transactions, start))
            }
            Model::Ra => transactions.is_empty() || is_isolated_in_release_acquire(graph, transactions),
        }
    }

    /// Whether a transaction reaches itself by the order in which a machine makes things happen, in which each is one.
    fn follows_itself(
        &mut self,
        model: Model,
        graph: &Graph,
        transactions: &[Transaction],
        start: &Transaction,
    ) -> bool {
        self.visited.clear(graph);
        self.work.clear();
        self.work.extend(start.ids());
        while let Some(event) = self.work.pop() {
            let own = transactions.iter().find(|transaction| transaction.has(event));
            let mut reached = false;
            successors(model, graph, event, |next| {
                if own.is_some_and(|own| own.has(next)) {
                    return;
                }
                reached |= start.has(next);
                match transactions.iter().find(|transaction| transaction.has(next)) {
                    Some(whole) => {
                        let members = whole.ids().filter(|&member| self.visited.insert(member));
                        self.work.extend(members);
                    }
                    None if self.visited.insert(next) => self.work.push(next),
                    None => {}
                }
            });
            if reached {
                return true;
            }
        }
        false
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
    let has_no_cycle = |rows: &[Row]| is_irreflexive(&relations.closure(isolation.lifted(rows)));
    has_no_cycle(&communicates)
        && has_no_cycle(&relations.dependent())
        && is_irreflexive(&before)
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
