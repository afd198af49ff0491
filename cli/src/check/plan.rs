//! Which clients a lock is checked with, how large, and what came of it.

use super::Args;
use checker::{Checked, Counterexample, Counts, Exploration, Model, Mutation, explore, shorten};
use locks::Anderson;
use locks::catalogue::Lock;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use workloads::client::{self, Kind, Shape};

/// A kind of client by its name.
pub(super) type Client = Kind;

/// What a client is called on the command line.
pub(super) fn client_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Exclusive => "exclusive",
        Kind::Tried => "tried",
        Kind::Timed => "timed",
        Kind::Cancelled => "cancelled",
        Kind::Shared => "shared",
        Kind::Nested => "nested",
        Kind::PassedOn => "passed-on",
    }
}

/// Reads the name of a client.
pub(super) fn client(name: &str) -> Result<Client, String> {
    let known = Kind::ALL.into_iter().find(|kind| client_name(*kind) == name);
    known.ok_or_else(|| {
        let names = Kind::ALL.map(client_name).join(", ");
        format!("no client is called {name:?}; there are {names}")
    })
}

/// One exploration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) lock: &'static Lock,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    pub(super) model: Model,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { threads, rounds } = self.shape;
        write!(f, "{} {} {threads} × {rounds} under {}", self.lock.name, client_name(self.kind), self.model)
    }
}

/// Executions among which a shorter counterexample is looked for, each time one was found.
const EXECUTIONS_TO_SHORTEN: u64 = 50_000;

impl Task {
    /// Runs the client once on the checked machine.
    pub(super) fn run(&self) -> Result<(), String> {
        if self.lock.name == "anderson" {
            return self.run_with_few_slots();
        }
        match client::run::<Checked>(self.lock.name, self.kind, self.shape) {
            Some(result) => result.map(drop).map_err(|wrong| wrong.to_string()),
            None => Err(format!("{} has no such client", self.lock.name)),
        }
    }

    /// An array lock with two slots: the one of the catalogue has so many that
    /// small clients never come to use a slot again, which is what its orderings are for.
    fn run_with_few_slots(&self) -> Result<(), String> {
        type Small = Anderson<Checked, 2>;
        let run = match self.kind {
            Kind::Tried => client::tried::<Small, Checked>,
            Kind::Nested => client::nested::<Small, Checked>,
            Kind::PassedOn => client::passed_on::<Small, Checked>,
            _ => client::exclusive::<Small, Checked>,
        };
        run(self.shape).map(drop).map_err(|wrong| wrong.to_string())
    }

    pub(super) fn explore(&self, exploration: &Exploration) -> checker::Report {
        explore(exploration, &|| self.run())
    }

    /// Explores the client; where that takes longer than the limit, smaller ones too, down to the first that can be
    /// seen whole.
    pub(super) fn judge(mut self, limit: Duration, mutation: Option<Mutation>) -> Verdict {
        let exploration = Exploration { mutation, most_time: Some(limit), ..Exploration::of(self.model) };
        let mut bounds = Vec::new();
        loop {
            let report = self.explore(&exploration);
            if report.is_verified() || report.counterexample.is_some() {
                let found = report.counterexample.map(|found| self.minimise(&exploration, found));
                let (task, counts, elapsed) = (self, report.counts, report.elapsed);
                let (task, found) = found.map_or((task, None), |(task, found)| (task, Some(found)));
                return Verdict { task, counts, elapsed, complete: report.complete, found, bounds };
            }
            bounds.push((self.shape, report.counts));
            match smaller(self.shape) {
                Some(shape) => self.shape = shape,
                None => {
                    let (counts, elapsed) = (report.counts, report.elapsed);
                    return Verdict { task: self, counts, elapsed, complete: false, found: None, bounds };
                }
            }
        }
    }

    /// The smallest client that fails in the same way, and in it the shortest execution.
    fn minimise(self, exploration: &Exploration, found: Counterexample) -> (Self, Counterexample) {
        let limited = Exploration { most_executions: Some(EXECUTIONS_TO_SHORTEN), ..exploration.clone() };
        let (mut task, mut best) = (self, found);
        for (threads, rounds) in [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1)] {
            let smaller = Self { shape: Shape { threads, rounds }, ..self };
            if threads > self.shape.threads || rounds > self.shape.rounds {
                continue;
            }
            let found = smaller.explore(&limited).counterexample;
            if let Some(found) = found.filter(|found| found.violation.name() == best.violation.name()) {
                (task, best) = (smaller, found);
                break;
            }
        }
        (task, shorten(&limited, best, &|| task.run()))
    }
}

fn smaller(shape: Shape) -> Option<Shape> {
    match shape {
        Shape { threads: 1 | 2, rounds: 1 } => None,
        Shape { threads: 3.., rounds } if rounds > 1 => {
            Some(Shape { threads: shape.threads, rounds: rounds - 1 })
        }
        Shape { threads: 3.., .. } => Some(Shape { threads: 2, rounds: 2 }),
        Shape { threads, rounds } => Some(Shape { threads, rounds: rounds - 1 }),
    }
}

/// What came of an exploration.
pub(super) struct Verdict {
    /// What was explored in the end.
    pub(super) task: Task,
    pub(super) counts: Counts,
    pub(super) elapsed: Duration,
    pub(super) complete: bool,
    pub(super) found: Option<Counterexample>,
    /// Larger clients that took too long, and how far they got.
    pub(super) bounds: Vec<(Shape, Counts)>,
}

impl Verdict {
    pub(super) const fn is_wrong(&self) -> bool {
        self.found.is_some()
    }

    /// In a word.
    pub(super) fn word(&self) -> &'static str {
        match &self.found {
            Some(found) => found.violation.name(),
            None if self.complete => "verified",
            None => "a bound",
        }
    }

    pub(super) fn json(&self) -> Value {
        let shape = |shape: Shape| json!({ "threads": shape.threads, "acquisitions": shape.rounds });
        json!({
            "client": client_name(self.task.kind),
            "model": self.task.model.name(),
            "threads": self.task.shape.threads,
            "acquisitions": self.task.shape.rounds,
            "executions": self.counts,
            "seconds": self.elapsed.as_secs_f64(),
            "complete": self.complete,
            "verdict": self.word(),
            "bounds": self.bounds.iter().map(|(size, counts)| {
                json!({ "client": shape(*size), "executions": counts })
            }).collect::<Vec<_>>(),
            "counterexample": self.found.as_ref().map(|found| json!({
                "violation": found.violation.to_string(),
                "steps": found.rows.iter().map(|row| json!({
                    "thread": row.thread, "step": row.step, "state": row.state, "site": row.site,
                })).collect::<Vec<_>>(),
                "replay": found.script.to_string(),
            })),
        })
    }
}

/// What a lock is checked with.
pub(super) fn tasks(lock: &'static Lock, args: &Args) -> Vec<Task> {
    let models = if args.model.is_empty() { Model::ALL.to_vec() } else { args.model.clone() };
    let mut tasks = Vec::new();
    for model in models {
        for kind in super::kinds(lock).filter(|kind| args.client.is_none_or(|only| only == *kind)) {
            for (threads, rounds) in sizes(kind, model, args) {
                tasks.push(Task { lock, kind, shape: Shape { threads, rounds }, model });
            }
        }
    }
    tasks
}

fn sizes(kind: Kind, model: Model, args: &Args) -> Vec<(usize, u32)> {
    if args.threads.is_some() || args.acquisitions.is_some() {
        return vec![(args.threads.unwrap_or(2), args.acquisitions.unwrap_or(1))];
    }
    match (kind, model) {
        (Kind::Exclusive, Model::Ra) => vec![(3, 1), (2, 2)],
        (Kind::Exclusive, _) => vec![(3, 2)],
        // Two of three threads share; two threads already nest.
        (Kind::Shared, _) => vec![(3, 1), (2, 2)],
        _ => vec![(2, 2)],
    }
}
