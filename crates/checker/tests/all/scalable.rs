//! Sequence lock, counter and read-mostly value: no reader sees half of a write, no count is lost, and every ordering is needed.

use crate::common::{self, Client, by_states, is_right};
use contend_checker::checked::Accessed;
use contend_checker::{Checked, Exploration, Model, explore};
use workloads::client::scalable::{
    counts_add_up, readers_beside_a_writer, readers_meet, reads_are_whole, sums_grow, tries_are_whole,
    updates_add_up, writers_meet,
};

const SEQ_LOCK: &str = "src/seq_lock.rs";

/// Those of the sequence lock, whose orderings are its own; the others have none but those of an addition and of the locks in them.
const OF_SEQ_LOCK: [(&str, &str, Client); 3] = [
    (SEQ_LOCK, "reads are whole", reads_are_whole::<Checked>),
    (SEQ_LOCK, "updates add up", updates_add_up::<Checked>),
    (SEQ_LOCK, "tries are whole", tries_are_whole::<Checked>),
];

#[test]
fn readers_see_whole_values_and_no_count_is_lost() {
    let others: [(&str, Client); 5] = [
        ("counts add up", counts_add_up::<Checked>),
        ("sums grow", sums_grow::<Checked>),
        ("writers meet", writers_meet::<Checked>),
        ("readers meet", readers_meet::<Checked, 2>),
        ("readers of one shard meet", readers_meet::<Checked, 1>),
    ];
    for model in Model::ALL {
        for (name, client) in OF_SEQ_LOCK.map(|(_, name, client)| (name, client)).into_iter().chain(others) {
            is_right(name, &by_states(model), &client);
        }
    }
    is_right("readers beside a writer", &by_states(Model::Sc), &readers_beside_a_writer::<Checked>);
}

#[test]
fn every_ordering_of_the_sequence_lock_is_needed() {
    let all =
        common::accesses(&Exploration::of(Model::Ra), OF_SEQ_LOCK.map(|(file, _, client)| (file, client)));
    let orderings = all.iter().flat_map(Accessed::mutations).filter(|mutation| mutation.to.is_of_ordering());
    let is_found = |mutation| {
        let mutated = Exploration { mutation: Some(mutation), ..by_states(Model::Ra) };
        OF_SEQ_LOCK.into_iter().any(|(_, _, client)| explore(&mutated, &client).counterexample.is_some())
    };
    let (found, survivors): (Vec<_>, Vec<_>) = orderings.partition(|&mutation| is_found(mutation));
    assert!(survivors.is_empty(), "{survivors:#?}");
    assert!(found.len() >= 5, "two acquire loads, two fences and a release: {found:#?}");
}
