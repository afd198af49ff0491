//! Condition variable, semaphore, barrier and once: no thread sleeps for ever, none goes on too early, and every ordering is
//! needed.

use crate::common;

use crate::common::{Client, by_states, is_right};
use contend_checker::checked::{Accessed, Operation};
use contend_checker::{Checked, Exploration, Model, Mutation, Violation, explore};
use machine::Ordering::Acquire;
use workloads::client::waiting::{
    all_are_notified, it_is_freed, more_than_the_barrier_is_for, nothing_then_a_permit, once, one_gives_up,
    one_is_notified, one_permit, one_times_out, permits_come, two_rounds,
};

/// What each is about, and how it goes.
const CLIENTS: [(&str, &str, Client); 8] = [
    ("src/condvar.rs", "one is notified", one_is_notified::<Checked>),
    ("src/condvar.rs", "one times out", one_times_out::<Checked>),
    ("src/condvar.rs", "it is freed", it_is_freed::<Checked>),
    ("src/semaphore.rs", "one permit", one_permit::<Checked>),
    ("src/semaphore.rs", "one gives up", one_gives_up::<Checked>),
    ("src/semaphore.rs", "nothing, then a permit", nothing_then_a_permit::<Checked>),
    ("src/barrier.rs", "two rounds", two_rounds::<Checked>),
    ("src/once.rs", "once", once::<Checked>),
];

#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation: tests/all runs it in release")]
fn nobody_waits_for_ever_and_nobody_goes_on_too_early() {
    for model in Model::ALL {
        for (_, name, client) in CLIENTS {
            is_right(name, &by_states(model), &client);
        }
    }
    let sc = by_states(Model::Sc);
    is_right("all are notified", &sc, &all_are_notified::<Checked>);
    is_right("permits come", &sc, &permits_come::<Checked>);
    is_right("more than the barrier is for", &sc, &more_than_the_barrier_is_for::<Checked>);
}

/// The accesses of what each client is about.
fn accesses() -> Vec<Accessed> {
    common::accesses(&Exploration::of(Model::Ra), CLIENTS.map(|(file, _, client)| (file, client)))
}

fn found(mutation: Mutation) -> Option<Violation> {
    let about = CLIENTS.into_iter().filter(|(file, ..)| mutation.of.site.file().ends_with(file));
    let mutated = Exploration { mutation: Some(mutation), ..by_states(Model::Ra) };
    about
        .into_iter()
        .find_map(|(_, _, client)| explore(&mutated, &client).counterexample)
        .map(|found| found.violation)
}

/// But for one: what a thread did before it panicked inside `call_once`. In the checker a panic ends everything.
#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation: tests/all runs it in release")]
fn every_ordering_is_needed() {
    let all = accesses();
    let after_panic = |access: &&Accessed| {
        access.site.file().ends_with("src/once.rs")
            && access.operation == Operation::CompareExchange
            && access.ordering == Acquire
    };
    assert_eq!(all.iter().filter(after_panic).count(), 1);
    let others = all.iter().filter(|access| !after_panic(access));
    let orderings = others.flat_map(Accessed::mutations).filter(|mutation| mutation.to.is_of_ordering());
    let survivors: Vec<_> = orderings.filter(|&mutation| found(mutation).is_none()).collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation: tests/all runs it in release")]
fn whoever_is_not_woken_is_found() {
    let all = accesses();
    let wakes = all.iter().filter(|access| access.operation == Operation::Wake);
    let lost = wakes.filter(|wake| matches!(found(wake.mutations()[0]), Some(Violation::EndlessWait { .. })));
    assert!(lost.count() >= 4, "one of each");
}
