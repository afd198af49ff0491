//! The wait table loses no wake-up, and does where a fence is missing.

use crate::common::{Client, accesses, by_states, is_right};
use contend_checker::checked::Accessed;
use contend_checker::{Checked, Exploration, Model, Violation, explore};
use workloads::client::waiting::{
    table_grows, table_grows_twice, table_waiter_gives_up, table_wakes, table_wakes_two,
};

/// From state to state, but for release-acquire: there only executions know what a sequentially consistent fence orders.
fn all_of(model: Model) -> Exploration {
    if model == Model::Ra { Exploration::of(model) } else { by_states(model) }
}

/// Two threads at a time, so that all of them are explored under each model.
const CLIENTS: [(&str, Client); 4] = [
    ("one waits", table_wakes::<Checked>),
    ("one gives up", table_waiter_gives_up::<Checked>),
    ("it grows", table_grows::<Checked>),
    ("both grow", table_grows_twice::<Checked>),
];

#[test]
fn no_wake_up_is_lost() {
    for model in Model::ALL {
        for (name, client) in CLIENTS {
            is_right(name, &all_of(model), &client);
        }
    }
    is_right("two wait", &all_of(Model::Sc), &table_wakes_two::<Checked>);
}

/// Each ordering of the table is needed, its fences among them: without one of these a wake-up is lost.
#[test]
fn whatever_is_weaker_is_found() {
    let all = accesses(&all_of(Model::Ra), CLIENTS.map(|(_, client)| ("src/wait_table.rs", client)));
    // What buckets hold at first is written by no access: the orderings that publish them, where they lie, are not seen here.
    let seen = all.iter().filter(|access| !access.is_address);
    let orderings = seen.flat_map(Accessed::mutations).filter(|mutation| mutation.to.is_of_ordering());
    let mut lost = 0;
    for mutation in orderings {
        let mutated = Exploration { mutation: Some(mutation), ..all_of(Model::Ra) };
        let found = CLIENTS.into_iter().find_map(|(_, client)| explore(&mutated, &client).counterexample);
        let found = found.unwrap_or_else(|| panic!("{mutation} is not found"));
        lost += usize::from(matches!(found.violation, Violation::EndlessWait { .. }));
    }
    assert!(lost >= 2, "{lost} lose a wake-up: one for each fence");
}
