//! Wound/wait mutexes: transactions exclude each other, all come to their ends, and the oldest is never refused.

use crate::common;

use crate::common::{Client, by_states};
use contend_checker::checked::{Accessed, Change, nodes_out};
use contend_checker::{Checked, Exploration, Model, Mutation, Report, Violation, explore};
use locks::Ww;
use locks::source::FILES;
use workloads::client::transactions::{
    again, all_at_once, one_alone, one_gives_up, one_goes_in_front, opposite, ring, same_order,
    two_and_one_alone, younger_dies,
};
use workloads::client::{self, Shape};

/// Without contexts, as any mutex.
fn exclusive() -> Result<(), String> {
    let shape = Shape { threads: 2, acquisitions: 2 };
    client::exclusive::<Ww<Checked>, Checked>(shape).map(drop).map_err(|wrong| wrong.to_string())
}

fn timed() -> Result<(), String> {
    let shape = Shape { threads: 2, acquisitions: 2 };
    client::timed::<Ww<Checked>, Checked>(shape).map(drop).map_err(|wrong| wrong.to_string())
}

/// Two threads, so that all of them are explored under each model. The small ones first.
const CLIENTS: [(&str, Client); 11] = [
    ("wait-die, the younger", younger_dies::<Checked>),
    ("wait-die, same order", same_order::<false, Checked>),
    ("wound-wait, same order", same_order::<true, Checked>),
    ("wait-die, one alone", one_alone::<false, Checked>),
    ("wound-wait, one alone", one_alone::<true, Checked>),
    ("timed", timed),
    ("exclusive", exclusive),
    ("wait-die, opposite", opposite::<false, Checked>),
    ("wound-wait, opposite", opposite::<true, Checked>),
    ("wait-die, one gives up", one_gives_up::<false, Checked>),
    ("wound-wait, one gives up", one_gives_up::<true, Checked>),
];

/// Two threads that do more.
const LARGER: [(&str, Client); 4] = [
    ("wait-die, again", again::<false, Checked>),
    ("wound-wait, again", again::<true, Checked>),
    ("wait-die, all at once", all_at_once::<false, Checked>),
    ("wound-wait, all at once", all_at_once::<true, Checked>),
];

/// Three threads, which have millions of states: they are followed as far as a test may take.
const OF_THREE: [(&str, Client); 6] = [
    ("wait-die, one goes in front", one_goes_in_front::<false, Checked>),
    ("wound-wait, one goes in front", one_goes_in_front::<true, Checked>),
    ("wait-die, ring", ring::<false, Checked>),
    ("wound-wait, ring", ring::<true, Checked>),
    ("wait-die, two and one alone", two_and_one_alone::<false, Checked>),
    ("wound-wait, two and one alone", two_and_one_alone::<true, Checked>),
];

/// States of three threads that are looked at.
const MOST_STATES: usize = 30_000;
/// The same where a mistake is looked for, and before that the access in which it is made.
const MOST_STATES_TO_A_MISTAKE: usize = 1_000_000;
const MOST_STATES_TO_AN_ACCESS: usize = 100_000;

/// The client, which is to free all its nodes.
fn freeing(client: Client) -> impl Fn() -> Result<(), String> {
    move || {
        client()?;
        if nodes_out() == 0 { Ok(()) } else { Err(format!("{} nodes are not freed", nodes_out())) }
    }
}

fn mutated(model: Model, mutation: Mutation, most_states: Option<usize>, client: Client) -> Report {
    let mutation = Some(mutation);
    explore(&Exploration { mutation, most_states, ..by_states(model) }, &freeing(client))
}

fn is_right(name: &str, model: Model, most_states: Option<usize>, client: Client) {
    common::is_right(name, &Exploration { most_states, ..by_states(model) }, &freeing(client));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation: tests/all runs it in release")]
fn two_come_to_their_ends_under_every_model() {
    for model in Model::ALL {
        for (name, client) in CLIENTS {
            is_right(name, model, None, client);
        }
    }
    for (name, client) in LARGER {
        is_right(name, Model::Sc, None, client);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation: tests/all runs it in release")]
fn three_come_to_their_ends_as_far_as_they_are_followed() {
    for (name, client) in OF_THREE {
        is_right(name, Model::Sc, Some(MOST_STATES), client);
    }
}

/// The accesses of the lock, by these clients.
fn accesses(clients: &[(&str, Client)], model: Model) -> Vec<Accessed> {
    let exploration = Exploration { most_states: Some(MOST_STATES_TO_AN_ACCESS), ..by_states(model) };
    common::accesses(&exploration, clients.iter().map(|&(_, client)| ("src/ww.rs", client)))
}

#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation: tests/all runs it in release")]
fn every_ordering_is_needed() {
    let of = |mutation, client| mutated(Model::Ra, mutation, None, client).counterexample;
    let found = |mutation| CLIENTS.iter().any(|&(_, client)| of(mutation, client).is_some());
    let all = accesses(&CLIENTS, Model::Ra);
    let orderings = all.iter().flat_map(Accessed::mutations).filter(|mutation| mutation.to.is_of_ordering());
    let (needed, survivors): (Vec<_>, Vec<_>) = orderings.partition(|&mutation| found(mutation));
    assert!(survivors.is_empty(), "{}", survivors.iter().map(|one| format!("{one}\n")).collect::<String>());
    assert!(needed.len() >= 10, "{} orderings", needed.len());
}

/// The mutation of the access whose line in `ww.rs` has this text.
fn mutation(clients: &[(&str, Client)], text: &str, to: Change) -> Mutation {
    let (_, source) = FILES.iter().find(|(name, _)| *name == "ww.rs").expect("it is there");
    let all = accesses(clients, Model::Sc);
    let line = |access: &Accessed| source.lines().nth(access.site.line() as usize - 1).expect("a line");
    let mutations = all.iter().filter(|access| line(access).contains(text)).flat_map(Accessed::mutations);
    let mut mutations = mutations.filter(|mutation| mutation.to == to);
    let mutation = mutations.next().unwrap_or_else(|| panic!("no access has {text}"));
    assert!(mutations.next().is_none(), "{text} is not the only one");
    mutation
}

/// What a lock with this mistake does.
fn wrong(client: Client, text: &str, to: Change) -> Option<Violation> {
    let mutation = mutation(&[("", client)], text, to);
    mutated(Model::Sc, mutation, Some(MOST_STATES_TO_A_MISTAKE), client)
        .counterexample
        .map(|found| found.violation)
}

fn is_endless(client: Client, text: &str, to: Change) {
    let found = wrong(client, text, to);
    assert!(matches!(found, Some(Violation::EndlessWait { .. })), "{text}: {found:?}");
}

#[test]
fn a_waiter_that_is_not_woken_is_found() {
    is_endless(one_alone::<false, Checked>, "M::wake(told, 1)", Change::Dropped);
}

#[test]
fn a_wounded_one_that_does_not_give_way_is_a_deadlock() {
    is_endless(opposite::<true, Checked>, "self.told.fetch_or(what, Release)", Change::Dropped);
}

#[test]
fn a_younger_one_that_waits_instead_of_dying_is_a_deadlock() {
    is_endless(opposite::<false, Checked>, "let holds_locks = node.held.get() != 0", Change::ReadsZero);
}

/// An older one that holds a lock waits behind a younger one, which gets the other lock and waits for the older one's.
#[test]
fn a_waiter_out_of_order_is_a_deadlock() {
    is_endless(one_goes_in_front::<true, Checked>, "match waiter.stamp.get()", Change::ReadsZero);
}
