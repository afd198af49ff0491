//! Small clients of every lock have the same verdict in three ways: every execution once, every state once (where
//! threads that do the same may be exchanged), and orders of accesses with no reduction at all, as far as they go.

use contend_checker::{Bound, Checked, Exploration, Model, Report, Search, explore};
use locks::catalogue::LOCKS;
use workloads::client::{self, ClientKind, Shape};

const WAYS: [Search; 3] = [Search::Executions, Search::States, Search::Interleavings];

fn of_lock(lock: &str, kind: ClientKind, shape: Shape, exploration: &Exploration) -> Report {
    explore(exploration, &|| match client::run::<Checked>(lock, kind, shape) {
        Some(result) => result.map(drop).map_err(|wrong| wrong.to_string()),
        None => Err("no such client".to_owned()),
    })
}

/// Locks that ordinary runs of the tests look at: a word, a queue, one that is left, one that sleeps.
const FEW: [&str; 4] = ["ticket4", "mcs", "clh-timed", "futex"];

#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation: tests/all runs it in release")]
fn every_small_client_of_some_locks_has_the_same_verdict_in_all_ways() {
    have_the_same_verdict_in_all_ways(|lock| FEW.contains(&lock));
}

#[test]
#[ignore = "minutes: tests/all runs it"]
fn every_small_client_of_every_lock_has_the_same_verdict_in_all_ways() {
    have_the_same_verdict_in_all_ways(|lock| !FEW.contains(&lock));
}

fn have_the_same_verdict_in_all_ways(which: impl Fn(&str) -> bool) {
    for lock in LOCKS.iter().filter(|lock| which(lock.name)) {
        // The one that backs off, spins in a queue and sleeps takes minutes for the others, and several of it have millions of states.
        let few = [ClientKind::Exclusive, ClientKind::Tried, ClientKind::Mixed, ClientKind::PassedOn];
        let fits = |kind| lock.name != "adaptive" || few.contains(&kind);
        for kind in ClientKind::ALL.into_iter().filter(|&kind| kind.suits(lock) && fits(kind)) {
            // Three locks at once have too many orders to be enumerated.
            let ways = if kind == ClientKind::Nested { 2 } else { 3 };
            // A lock whose waiters spin, then sleep, on two sides, has millions of executions; so has one that
            // sleeps, with a client whose first thread acquires it twice.
            let promise = [ClientKind::Promised, ClientKind::PromisedShared].contains(&kind);
            let has_millions = promise || lock.name == "adaptive" || lock.name.starts_with("rwsem");
            for model in Model::ALL {
                let shape = Shape { threads: 2, acquisitions: 1 };
                for search in WAYS.into_iter().take(ways) {
                    let most_executions = Some(match search {
                        Search::Interleavings => 3_000,
                        Search::Executions if has_millions => 50_000,
                        _ => 500_000,
                    });
                    let alike = if kind == ClientKind::Exclusive { u32::MAX } else { 0 };
                    let exploration =
                        Exploration { search, alike, most_executions, ..Exploration::of(model) };
                    let report = of_lock(lock.name, kind, shape, &exploration);
                    let context = format!("{} {kind:?} under {model} by {search:?}", lock.name);
                    assert!(report.counterexample.is_none(), "{context}: {:?}", report.counterexample);
                    let is_cut_off =
                        search == Search::Interleavings || has_millions && search == Search::Executions;
                    let misses_parts = report.bound == Some(Bound::Parts) && search == Search::Executions;
                    assert!(report.complete || is_cut_off || misses_parts, "{context}: a bound");
                }
            }
        }
    }
}

/// Half of the mutants of a lock fail with this client, the others do not: a verdict that is worth comparing.
#[test]
fn every_mutant_of_some_locks_has_the_same_outcome_from_state_to_state() {
    assert!(mutants_with_the_same_outcome(|lock| FEW.contains(&lock)) >= 5);
}

#[test]
#[ignore = "minutes: tests/all runs it"]
fn every_mutant_of_every_lock_has_the_same_outcome_from_state_to_state() {
    assert!(mutants_with_the_same_outcome(|_| true) > 50);
}

/// How many are found.
fn mutants_with_the_same_outcome(which: impl Fn(&str) -> bool) -> usize {
    let shape = Shape { threads: 2, acquisitions: 1 };
    let plain = Exploration { most_executions: Some(200_000), ..Exploration::of(Model::Ra) };
    let mut found = 0;
    for lock in LOCKS.iter().filter(|lock| which(lock.name)) {
        let noting = Exploration { note_accesses: true, ..plain.clone() };
        let accesses = of_lock(lock.name, ClientKind::Exclusive, shape, &noting).accesses;
        let mutations = accesses.iter().flat_map(contend_checker::checked::Accessed::mutations);
        for mutation in mutations.filter(|mutation| mutation.to.is_of_ordering()) {
            let outcome = |search, alike| {
                let mutation = Some(mutation);
                let exploration = Exploration { mutation, search, alike, ..plain.clone() };
                let report = of_lock(lock.name, ClientKind::Exclusive, shape, &exploration);
                assert!(report.complete || report.counterexample.is_some(), "{} {mutation:?}", lock.name);
                report.counterexample.is_some()
            };
            let by_executions = outcome(Search::Executions, 0);
            for alike in [0, u32::MAX] {
                let same = outcome(Search::States, alike) == by_executions;
                assert!(
                    same,
                    "{} with {mutation}, alike: {alike:#x}; found by executions: {by_executions}",
                    lock.name
                );
            }
            found += usize::from(by_executions);
        }
    }
    found
}
