//! Weakening one ordered access of a lock, to see whether a client fails.

use super::clients::Client;
use super::plan::Task;
use super::{clients_of, of_locks, tell};
use anyhow::bail;
use checker::checked::Accessed;
use checker::{Exploration, Model, Mutation};
use locks::catalogue::Lock;
use machine::Ordering;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;
use workloads::client::{Kind, Shape};

/// An access by its place, and the ordering that it gets: `mcs.rs:82:51=relaxed`.
#[derive(Clone, Debug)]
pub(super) struct Site {
    place: String,
    to: Ordering,
}

/// As `--weaken` takes it.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.place, ordering_name(self.to))
    }
}

impl FromStr for Site {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("{text:?}: expected FILE:LINE:COLUMN=ORDERING, as mcs.rs:82:51=relaxed");
        let (place, ordering) = text.split_once('=').ok_or_else(wanted)?;
        let to = match ordering {
            "relaxed" => Ordering::Relaxed,
            "acquire" => Ordering::Acquire,
            "release" => Ordering::Release,
            "acq_rel" => Ordering::AcqRel,
            _ => return Err(wanted()),
        };
        Ok(Self { place: place.to_owned(), to })
    }
}

impl Site {
    /// The mutation, if a client of the task has such an access.
    pub(super) fn mutation(&self, task: Task) -> anyhow::Result<Mutation> {
        let all = accesses(task.lock);
        let mutations = || all.iter().flat_map(Accessed::mutations);
        match mutations().find(|mutation| place(&mutation.of) == self.place && mutation.to == self.to) {
            Some(mutation) => Ok(mutation),
            None => {
                let known = mutations().map(|mutation| name(&mutation)).collect::<Vec<_>>();
                bail!("{} has no such access; there are {}", task.lock.name, known.join(", "))
            }
        }
    }
}

fn place(access: &Accessed) -> String {
    let file = access.site.file().rsplit(['/', '\\']).next().unwrap_or_default();
    format!("{file}:{}:{}", access.site.line(), access.site.column())
}

/// As `--weaken` takes it.
fn name(mutation: &Mutation) -> String {
    format!("{}={}", place(&mutation.of), ordering_name(mutation.to))
}

fn ordering_name(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Relaxed => "relaxed",
        Ordering::Acquire => "acquire",
        Ordering::Release => "release",
        Ordering::AcqRel => "acq_rel",
        _ => "seq_cst",
    }
}

/// The clients that judge mutants, the quick ones first.
fn judges(lock: &'static Lock) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (threads, rounds) in [(2, 1), (2, 2), (3, 1)] {
        for client in clients_of(lock) {
            // Two threads already fill the nested and the passed-on client.
            let filled = matches!(client, Client::Of(Kind::Nested | Kind::PassedOn));
            if (threads, rounds) == (3, 1) && filled {
                continue;
            }
            tasks.push(Task { lock, client, shape: Shape { threads, rounds }, model: Model::Ra });
        }
    }
    tasks
}

/// Executions in which accesses are looked for.
const EXECUTIONS_FOR_ACCESSES: u64 = 20_000;

/// Executions in which a client looks for a mutant: a number and no time, so that the same ones are found everywhere.
const EXECUTIONS_FOR_A_MUTANT: u64 = 200_000;

/// Every ordered access of a lock that its clients reach.
fn accesses(lock: &'static Lock) -> Vec<Accessed> {
    let mut all: Vec<Accessed> = Vec::new();
    for task in judges(lock) {
        let exploration = Exploration {
            note_accesses: true,
            most_executions: Some(EXECUTIONS_FOR_ACCESSES),
            ..Exploration::of(Model::Ra)
        };
        for access in of_locks(task.explore(&exploration).accesses) {
            let known = |other: &Accessed| {
                other.site == access.site
                    && other.operation == access.operation
                    && other.ordering == access.ordering
            };
            if !all.iter().any(known) {
                all.push(access);
            }
        }
    }
    all.sort_by_key(|access| (access.site.file(), access.site.line(), access.site.column()));
    all
}

/// What became of a mutant.
pub(super) struct Mutant {
    pub(super) operation: &'static str,
    pub(super) from: &'static str,
    /// As `--weaken` takes it.
    pub(super) name: String,
    /// What the first client that failed found; none for a survivor.
    pub(super) killed: Option<Killed>,
    /// Explorations of a survivor that the time limit cut off.
    pub(super) bounds: usize,
}

/// How a mutant was found.
pub(super) struct Killed {
    pub(super) client: String,
    pub(super) violation: &'static str,
    pub(super) table: String,
}

impl Mutant {
    pub(super) fn json(&self) -> Value {
        json!({
            "weaken": self.name,
            "operation": self.operation,
            "from": self.from,
            "killed": self.killed.as_ref().map(|killed| json!({
                "client": killed.client,
                "violation": killed.violation,
                "counterexample": killed.table,
            })),
            "bounds": self.bounds,
        })
    }
}

/// All mutants of a lock, each with the client that kills it.
pub(super) fn all(lock: &'static Lock) -> Vec<Mutant> {
    let mutations = accesses(lock).iter().flat_map(Accessed::mutations).collect::<Vec<_>>();
    mutations.into_par_iter().map(|mutation| judge(lock, mutation)).collect()
}

fn judge(lock: &'static Lock, mutation: Mutation) -> Mutant {
    let exploration = Exploration {
        mutation: Some(mutation),
        most_executions: Some(EXECUTIONS_FOR_A_MUTANT),
        ..Exploration::of(Model::Ra)
    };
    let mut bounds = 0;
    let killed = judges(lock).into_iter().find_map(|task| {
        let report = task.explore(&exploration);
        bounds += usize::from(!report.complete && report.counterexample.is_none());
        let (task, found) = task.minimise(Some(mutation), report.counterexample?);
        let Shape { threads, rounds } = task.shape;
        Some(Killed {
            client: format!("{} {threads} × {rounds}", task.client.name()),
            violation: found.violation.name(),
            table: tell(&task, &found, Some(&name(&mutation))),
        })
    });
    Mutant {
        operation: mutation.of.operation.name(),
        from: ordering_name(mutation.of.ordering),
        name: name(&mutation),
        killed,
        bounds,
    }
}
