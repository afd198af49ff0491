//! Which clients a lock is checked with under every memory model, what came of it, and which of its accesses matter.

pub mod clients;
mod contracts;
mod gated;
pub mod mutants;
pub mod objects;
pub mod page;
pub mod plan;
mod refusals;
mod sites;
pub mod verification;
mod waiting;

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

impl Options {
    /// All clients, of the sizes that are asked for.
    #[must_use]
    pub const fn of_everything() -> Self {
        Self {
            model: Vec::new(),
            client: None,
            threads: None,
            acquisitions: None,
            time_limit: Duration::from_secs(60),
            weaken: None,
        }
    }

    /// Whether nothing is left out.
    #[must_use]
    pub fn is_of_everything(&self) -> bool {
        self.model.is_empty()
            && self.client.is_none()
            && self.threads.is_none()
            && self.acquisitions.is_none()
            && self.weaken.is_none()
    }
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
            "complete": self.verdicts.iter().filter(|one| one.is_verified()).count(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use mutants::Wanted;
    use plan::Limits;
    use workloads::client::ClientKind;

    /// Digits of lines and columns change with every edit of a lock.
    fn without_places(text: &str) -> String {
        let (mut kept, mut in_place) = (String::new(), false);
        for (at, letter) in text.char_indices() {
            in_place = text[..at].ends_with(".rs:") || in_place && (letter.is_ascii_digit() || letter == ':');
            if !in_place {
                kept.push(letter);
            } else if text[..at].ends_with(".rs:") {
                kept.push('…');
            }
        }
        kept
    }

    #[test]
    fn a_counterexample_is_a_column_a_thread_and_ends_with_its_command() {
        let lock = locks::catalogue::find("mcs").expect("a lock");
        let weaken =
            mutants::EXAMPLE.parse::<Wanted>().expect("well formed").mutation(lock).expect("it is there");
        let shape = Shape { threads: 2, acquisitions: 1 };
        let task = Task { lock, client: Client::Of(ClientKind::Exclusive), shape, model: Model::Ra };
        let limits = Limits::new(Duration::from_secs(60));
        let verdict = plan::judge_all(&[task], &limits, Some(weaken), &|_| ()).remove(0);
        let (task, found) = verdict.asked.found.as_ref().expect("it is wrong");
        insta::assert_snapshot!(without_places(&tell(task, found, Some(mutants::EXAMPLE))));
    }
}
