//! The wait table loses no wake-up, and does where a fence is missing.

use contend_checker::checked::Accessed;
use contend_checker::{Checked, Exploration, Model, Mutation, Report, Search, Violation, explore};
use workloads::client::waiting::{
    table_grows, table_grows_twice, table_waiter_gives_up, table_wakes, table_wakes_two,
};

/// From state to state, but for release-acquire: there only executions know what a sequentially consistent fence orders.
fn explored(model: Model, mutation: Option<Mutation>, client: &dyn Fn() -> Result<(), String>) -> Report {
    let search = if model == Model::Ra { Search::Executions } else { Search::States };
    explore(&Exploration { search, mutation, ..Exploration::of(model) }, client)
}

fn is_right(name: &str, model: Model, client: &dyn Fn() -> Result<(), String>) {
    let report = explored(model, None, client);
    let found = report.counterexample.as_ref().map(|found| &found.violation);
    assert!(report.is_verified(), "{name} under {model}: {found:?}");
}

/// What threads do, and whether it came out right.
type Client = fn() -> Result<(), String>;

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
            is_right(name, model, &client);
        }
    }
    is_right("two wait", Model::Sc, &table_wakes_two::<Checked>);
}

/// Each ordering of the table is needed, its fences among them: without one of these a wake-up is lost.
#[test]
fn whatever_is_weaker_is_found() {
    let of_table = |access: &Accessed| access.site.file().ends_with("src/wait_table.rs");
    let noting = Exploration { note_accesses: true, ..Exploration::of(Model::Ra) };
    let accesses = |client: Client| explore(&noting, &client).accesses;
    let mut all: Vec<Accessed> = Vec::new();
    for access in CLIENTS.into_iter().flat_map(|(_, client)| accesses(client)) {
        if of_table(&access) && !all.iter().any(|other| other.same(&access)) {
            all.push(access);
        }
    }
    // What buckets hold at first is written by no access: the orderings that publish them, where they lie, are not seen here.
    let seen = all.iter().filter(|access| !access.is_address);
    let orderings = seen.flat_map(Accessed::mutations).filter(|mutation| mutation.to.is_of_ordering());
    let mut lost = 0;
    for mutation in orderings {
        let found = CLIENTS
            .into_iter()
            .find_map(|(_, client)| explored(Model::Ra, Some(mutation), &client).counterexample);
        let found = found.unwrap_or_else(|| panic!("{mutation} is not found"));
        lost += usize::from(matches!(found.violation, Violation::EndlessWait { .. }));
    }
    assert!(lost >= 2, "{lost} lose a wake-up: one for each fence");
}
