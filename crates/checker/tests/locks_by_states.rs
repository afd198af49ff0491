//! Small clients of every lock have the same verdict in three ways: every execution once, every state once (where
//! threads that do the same may be exchanged), and orders of accesses with no reduction at all, as far as they go.

use contend_checker::{Checked, Exploration, Model, Report, Search, explore};
use locks::catalogue::LOCKS;
use workloads::client::{self, Kind, Shape};

const WAYS: [Search; 3] = [Search::Executions, Search::States, Search::Interleavings];

fn of_lock(lock: &str, kind: Kind, shape: Shape, exploration: &Exploration) -> Report {
    explore(exploration, &|| match client::run::<Checked>(lock, kind, shape) {
        Some(result) => result.map(drop).map_err(|wrong| wrong.to_string()),
        None => Err("no such client".to_owned()),
    })
}

#[test]
fn every_small_client_of_every_lock_has_the_same_verdict_in_all_ways() {
    for lock in LOCKS {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.suits(lock)) {
            // Three locks at once have too many orders to be enumerated.
            let ways = if kind == Kind::Nested { 2 } else { 3 };
            for model in Model::ALL {
                let shape = Shape { threads: 2, rounds: 1 };
                for search in WAYS.into_iter().take(ways) {
                    let most_executions = Some(if search == Search::Interleavings { 3_000 } else { 500_000 });
                    let alike = kind == Kind::Exclusive;
                    let exploration =
                        Exploration { search, alike, most_executions, ..Exploration::of(model) };
                    let report = of_lock(lock.name, kind, shape, &exploration);
                    let context = format!("{} {kind:?} under {model} by {search:?}", lock.name);
                    assert!(report.counterexample.is_none(), "{context}: {:?}", report.counterexample);
                    assert!(report.complete || search == Search::Interleavings, "{context}: a bound");
                }
            }
        }
    }
}
