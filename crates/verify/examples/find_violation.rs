//! The first client of a lock's plan that fails: what `contend check LOCK` finds, as fast as it can be told.
//!
//! `tests/planted-bugs` builds this with a bug in a lock. All clients get a few executions before any gets many, and
//! executions come before states, since most mistakes show at once; each client ends with the limits of the plan.

use checker::{Exploration, Model, Report, Search};
use locks::catalogue;
use std::time::{Duration, Instant};
use verify::check::Options;
use verify::check::objects::OBJECTS;
use verify::check::plan::{self, Limits, Stage, Task};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(seconds)) = (arguments.next(), arguments.next()) else {
        panic!("usage: find_violation LOCK SECONDS [CLIENT]");
    };
    let client = arguments.next();
    let object = || OBJECTS.iter().find(|object| object.name == name);
    let lock = catalogue::find_in_any_form(&name).or_else(object);
    let lock = lock.unwrap_or_else(|| panic!("no lock is called {name}"));
    let time_limit = Duration::from_secs(seconds.parse().expect("a number of seconds"));
    let options = Options {
        model: vec![Model::Ra, Model::Sc, Model::Tso, Model::Pso],
        client: None,
        threads: None,
        acquisitions: None,
        time_limit,
        weaken: None,
    };
    let (limits, until) = (Limits::new(time_limit), Instant::now() + time_limit);
    let mut unseen = plan::tasks(lock, &options);
    if let Some(client) = client {
        unseen.retain(|task| task.client.name() == client);
    }
    for stage in plan::STAGES {
        let mut cut_off = Vec::new();
        for task in unseen {
            if limits.are_over() {
                println!("out of time");
                std::process::exit(3);
            }
            let report = explore(task, stage, &limits, until);
            if let Some(found) = &report.counterexample {
                let (shape, client) = (task.shape, task.client.name());
                println!(
                    "{}: {client} {} x {} under {}",
                    found.violation.name(),
                    shape.threads,
                    shape.acquisitions,
                    task.model
                );
                eprintln!("{found}");
                std::process::exit(1);
            }
            if !report.complete {
                cut_off.push(task);
            }
        }
        unseen = cut_off;
    }
    println!("nothing found, {} clients incomplete", unseen.len());
}

fn explore(task: Task, stage: Stage, limits: &Limits, until: Instant) -> Report {
    let by_executions = stage.search == Search::Executions;
    task.explore(&Exploration {
        search: stage.search,
        alike: task.client.alike(task.shape),
        most_executions: by_executions.then_some(stage.most as u64),
        most_states: (!by_executions).then_some(stage.most),
        most_time: Some(until.saturating_duration_since(Instant::now())),
        ..limits.exploration(task.model)
    })
}
