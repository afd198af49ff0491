//! The first client of a lock's plan that fails: what `contend check LOCK` finds, as fast as it can be told.
//!
//! `tests/planted-bugs` builds this with a bug in a lock. All clients get a few executions before any gets many, and
//! executions come before states, since most mistakes show at once; each client ends with the limits of the plan.

use checker::{Exploration, Model, Report, Search};
use locks::catalogue;
use std::time::Duration;
use verify::check::Options;
use verify::check::plan::{self, Limits, Task};

/// Executions, or states, that a client gets in each pass; the last two are the limits of `contend check`.
const PASSES: [(Search, u64); 4] = [
    (Search::Executions, 2_000),
    (Search::States, 20_000),
    (Search::Executions, plan::MOST_EXECUTIONS),
    (Search::States, plan::MOST_STATES as u64),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(seconds)) = (arguments.next(), arguments.next()) else {
        panic!("usage: find_violation LOCK SECONDS [CLIENT]");
    };
    let client = arguments.next();
    let lock = catalogue::find(&name).unwrap_or_else(|| panic!("no lock is called {name}"));
    let time_limit = Duration::from_secs(seconds.parse().expect("a number of seconds"));
    let options = Options {
        model: vec![Model::Ra, Model::Sc, Model::Tso, Model::Pso],
        client: None,
        threads: None,
        acquisitions: None,
        time_limit,
        weaken: None,
    };
    let limits = Limits::new(time_limit, 1);
    let mut unseen = plan::tasks(lock, &options);
    if let Some(client) = client {
        unseen.retain(|task| task.client.name() == client);
    }
    for (search, most) in PASSES {
        let mut cut_off = Vec::new();
        for task in unseen {
            if limits.are_over() {
                println!("out of time");
                std::process::exit(3);
            }
            let report = explore(task, search, most, &limits);
            if let Some(found) = &report.counterexample {
                let (shape, client) = (task.shape, task.client.name());
                println!(
                    "{}: {client} {} x {} under {}",
                    found.violation.name(),
                    shape.threads,
                    shape.acquisitions,
                    task.model
                );
                std::process::exit(1);
            }
            if !report.complete {
                cut_off.push(task);
            }
        }
        unseen = cut_off;
    }
    println!("nothing found, {} clients cut off", unseen.len());
}

fn explore(task: Task, search: Search, most: u64, limits: &Limits) -> Report {
    task.explore(&Exploration {
        search,
        alike: task.client.is_alike(),
        most_executions: (search == Search::Executions).then_some(most),
        most_states: Some(most as usize),
        ..limits.exploration(task.model)
    })
}
