//! Which clients a lock is checked with under every memory model, what came of it, and which of its accesses matter.

pub mod clients;
pub mod mutants;
pub mod page;
pub mod plan;
mod sites;

use checker::{Counterexample, Model};
use clients::Client;
use locks::catalogue::Lock;
use mutants::Mutant;
use plan::{Task, Verdict};
use serde_json::{Value, json};
use std::time::Duration;
use workloads::client::Shape;

/// What is checked.
#[derive(Debug, Clone)]
pub struct Options {
    /// Under these models; all if there is none.
    pub model: Vec<Model>,
    /// With this client alone.
    pub client: Option<Client>,
    /// Threads of the clients.
    pub threads: Option<usize>,
    /// How often each thread goes for the lock.
    pub acquisitions: Option<u32>,
    /// Time for everything.
    pub time_limit: Duration,
    /// The access that is weaker than it is written, and what it becomes.
    pub weaken: Option<String>,
}

/// What was found out about one lock.
pub struct CheckedLock {
    /// The lock.
    pub lock: &'static Lock,
    /// Of each client under each model.
    pub verdicts: Vec<Verdict>,
    /// What became of each change to one of its accesses.
    pub mutants: Vec<Mutant>,
}

impl CheckedLock {
    /// Everything for a script.
    pub fn json(&self) -> Value {
        json!({
            "lock": self.lock.name,
            "explorations": self.verdicts.iter().map(Verdict::json).collect::<Vec<_>>(),
            "mutants": self.mutants.iter().map(Mutant::json).collect::<Vec<_>>(),
        })
    }
}

/// A counterexample with the command that runs it again.
fn tell(task: &Task, found: &Counterexample, weakened: Option<&str>) -> String {
    let weaken = weakened.map_or(String::new(), |site| format!(" --weaken {site}"));
    let Task { lock, client, shape: Shape { threads, acquisitions }, model } = task;
    let client = client.name();
    format!(
        "{found}Run it again:\n  contend check {} --client {client} --threads {threads} --acquisitions {acquisitions} \
         --model {model}{weaken} --replay '{}'\n",
        lock.name, found.trace
    )
}

/// Every client that suits a lock.
fn clients_of(lock: &Lock) -> impl Iterator<Item = Client> + '_ {
    Client::all().filter(|client| client.suits(lock))
}
