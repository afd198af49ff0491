//! What the tests of the checker share: explorations from state to state, what they find, and the project's litmus tests.

use contend_checker::checked::Accessed;
use contend_checker::{Bound, Exploration, Model, Report, Search, Violation, explore};
use std::path::{Path, PathBuf};

/// What threads do, and whether it came out right.
pub(crate) type Client = fn() -> Result<(), String>;

/// Everything that happens under a model, from state to state.
pub(crate) fn by_states(model: Model) -> Exploration {
    Exploration { search: Search::States, ..Exploration::of(model) }
}

/// Everything that happens under a model where parts of words are stored: execution by execution if those are all.
pub(crate) fn of_parts(model: Model) -> Exploration {
    match model {
        Model::Sc | Model::Ra => Exploration::of(model),
        Model::Tso | Model::Pso => by_states(model),
    }
}

/// Explores a client from state to state.
pub(crate) fn explored(model: Model, client: &dyn Fn() -> Result<(), String>) -> Report {
    explore(&by_states(model), client)
}

/// Asserts that nothing is wrong with a client: in all that it does or, with a limit of states, in as much as is looked at.
pub(crate) fn is_right(name: &str, exploration: &Exploration, client: &dyn Fn() -> Result<(), String>) {
    let report = explore(exploration, client);
    let is_cut_off = exploration.most_states.is_some() && report.bound == Some(Bound::States);
    let found = report.counterexample.as_ref().map(ToString::to_string);
    let (model, search) = (exploration.model, exploration.search);
    assert!(
        found.is_none() && (report.complete || is_cut_off),
        "{name} under {model}, {search:?}: {:?} {}",
        report.bound,
        found.unwrap_or_default()
    );
}

/// The accesses of all these clients, each once, that are in the file which stands beside the client.
pub(crate) fn accesses<C: Fn() -> Result<(), String>>(
    exploration: &Exploration,
    clients: impl IntoIterator<Item = (&'static str, C)>,
) -> Vec<Accessed> {
    let noting = Exploration { note_accesses: true, ..exploration.clone() };
    let mut all: Vec<Accessed> = Vec::new();
    for (file, client) in clients {
        for access in explore(&noting, &client).accesses {
            if access.site.file().ends_with(file) && !all.iter().any(|other| other.same(&access)) {
                all.push(access);
            }
        }
    }
    all
}

/// What is wrong with a client in which a mistake is to be found.
pub(crate) fn violation(report: &Report) -> &Violation {
    &report.counterexample.as_ref().expect("the mistake is found").violation
}

/// The folder of the project's litmus tests.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/litmus")
}

/// The project's litmus tests with their texts.
pub(crate) fn suite() -> Vec<(PathBuf, String)> {
    let files = std::fs::read_dir(folder()).expect("the suite").map(|entry| entry.expect("an entry").path());
    let mut files =
        files.filter(|file| file.extension().is_some_and(|end| end == "litmus")).collect::<Vec<_>>();
    files.sort();
    files.into_iter().map(|file| (file.clone(), std::fs::read_to_string(file).expect("a text"))).collect()
}
