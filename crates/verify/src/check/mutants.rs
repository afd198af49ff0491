//! Making one access of a lock weaker, or wrong, to see whether a client fails.

use super::clients::Client;
use super::clients_of;
use super::plan::{Limits, Task};
use super::sites::{self, Site, place};
use checker::checked::{Accessed, Change, ordering_name};
use checker::{Bound, Exploration, Model, Mutation, Report, Search};
use locks::catalogue::Lock;
use rayon::prelude::*;
use serde_json::{Value, json};
use session::names;
use session::usage::UsageError;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};
use workloads::client::{ClientKind, Shape};

/// A site that is named in help texts and messages.
pub const EXAMPLE: &str = "McsQueue::acquire.swap=acquire";

/// An access, by its name or its place, and what becomes of it: `McsQueue::acquire.swap=acquire`.
#[derive(Clone, Debug)]
pub struct Wanted {
    site: String,
    to: Change,
}

/// As `--weaken` takes it.
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.site, self.to.name())
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((site, change)) = text.split_once('=') else {
            return Err(format!("expected SITE=CHANGE, as {EXAMPLE}"));
        };
        let to = Change::named(change).ok_or_else(|| {
            let names = Change::names().collect::<Vec<_>>().join(", ");
            format!("no change is called {change:?}; there are {names}")
        })?;
        Ok(Self { site: site.to_owned(), to })
    }
}

impl Wanted {
    /// The mutation, if a client of the lock has such an access.
    ///
    /// # Errors
    /// What there is, and the nearest of it.
    pub fn mutation(&self, lock: &'static Lock) -> Result<Mutation, UsageError> {
        self.mutation_within(lock, &Limits::new(LONGEST_LOOK))
    }

    /// The same, looked for within limits: clients are looked through until one has the access, and no other that is called so
    /// can come to light. All clients count, whichever is asked for, since the numbers of accesses are those among all.
    ///
    /// # Errors
    /// As [`Self::mutation`]; also when the limits are over before it is found.
    pub fn mutation_within(&self, lock: &'static Lock, limits: &Limits) -> Result<Mutation, UsageError> {
        let here = |site: &&Site| site.name == self.site || place(&site.access) == self.site;
        let is_changed = |site: &Site| site.mutations().iter().any(|mutation| mutation.to == self.to);
        let is_certain = |site: &Site| place(&site.access) == self.site;
        let (mut accesses, mut sites, mut is_found) = (Vec::new(), Vec::new(), false);
        let mut judges = all_judges(lock);
        while !is_found && let Some(task) = judges.next() {
            if limits.are_over() {
                return Err(UsageError::new(format!(
                    "the time was over before `{}` was found among the accesses of {}: give it more by --time-limit",
                    self.site, lock.name
                )));
            }
            look(&task, limits, &mut accesses);
            sites = sites::of_locks(accesses.iter().copied());
            let mut these = sites.iter().filter(here);
            is_found = these
                .any(|site| is_changed(site) && (is_certain(site) || sites::are_all_known(&sites, site)));
        }
        let found = sites.iter().filter(here).flat_map(Site::mutations);
        match found.into_iter().find(|mutation| mutation.to == self.to) {
            Some(mutation) => Ok(mutation),
            None => {
                let all = sites
                    .iter()
                    .flat_map(|site| site.mutations().into_iter().map(|mutation| name(site, mutation.to)));
                let all = all.collect::<Vec<_>>();
                let listed = format!("{} has\n  {}", lock.name, all.join("\n  "));
                let all = all.iter().map(String::as_str);
                Err(names::unknown("access", &self.to_string(), all, &listed))
            }
        }
    }
}

/// As `--weaken` takes it.
fn name(site: &Site, to: Change) -> String {
    format!("{}={}", site.name, to.name())
}

/// A lock's accesses, and the clients that judge its mutants, the quick ones first.
struct Judged {
    sites: Vec<Site>,
    judges: Vec<Task>,
}

/// How long accesses are looked for at most, where one of them is asked for.
const LONGEST_LOOK: Duration = Duration::from_secs(3600);

/// How long the first client looks at least: without accesses there are no mutants, not even such as there was no time for.
const LEAST_LOOK: Duration = Duration::from_secs(1);

/// Executions in which accesses are looked for.
const EXECUTIONS_FOR_ACCESSES: u64 = 20_000;

/// Executions of a large client that are looked at before it judges.
const EXECUTIONS_OF_LARGE_JUDGES: u64 = 2_000;

impl Judged {
    fn of(lock: &'static Lock, limits: &Limits) -> Self {
        let (mut accesses, mut judges) = (Vec::new(), Vec::new());
        for task in all_judges(lock) {
            if limits.are_over() && !accesses.is_empty() {
                break;
            }
            let report = look(&task, limits, &mut accesses);
            // A client that fails without a mutation says nothing of one.
            if report.counterexample.is_none() && !report.cut_off {
                judges.push((report.counts.all(), task));
            }
        }
        // The plain client says most plainly what is wrong; after it the quick ones, by what is the same on every computer.
        let is_plain = |task: &Task| {
            task.client == Client::Of(ClientKind::Exclusive)
                && task.shape == Shape { threads: 2, acquisitions: 1 }
        };
        judges.sort_by_key(|(executions, task)| (!is_plain(task), *executions));
        let large = large_judges(lock).filter(|task| says_something(task, limits));
        let judges = judges.into_iter().map(|(_, task)| task).chain(large).collect();
        Self { sites: sites::of_locks(accesses), judges }
    }
}

/// Explores a client without a mutation, and adds its accesses to the others.
fn look(task: &Task, limits: &Limits, accesses: &mut Vec<Accessed>) -> Report {
    let exploration = Exploration {
        note_accesses: true,
        most_executions: Some(EXECUTIONS_FOR_ACCESSES),
        most_time: Some(limits.left().max(LEAST_LOOK)),
        ..limits.exploration(Model::Ra)
    };
    let report = task.explore(&exploration);
    // The lock beside the one that is upgraded is judged where it stands alone.
    if !matches!(
        task.client,
        Client::Of(ClientKind::Upgraded | ClientKind::TriedUpgrade | ClientKind::TimedUpgrade)
    ) {
        accesses.extend(&report.accesses);
    }
    report
}

/// Whether a client comes to its end without a mutation, as far as it is looked at: else it says nothing of one.
fn says_something(task: &Task, limits: &Limits) -> bool {
    if limits.are_over() {
        return false;
    }
    let by_executions = Exploration {
        most_executions: Some(EXECUTIONS_OF_LARGE_JUDGES),
        most_time: Some(limits.left()),
        ..limits.exploration(task.model)
    };
    let report = task.explore(&by_executions);
    report.counterexample.is_none() && !report.cut_off
}

fn all_judges(lock: &'static Lock) -> impl Iterator<Item = Task> {
    [(2, 1), (2, 2), (3, 1)].into_iter().flat_map(move |(threads, acquisitions)| {
        let shape = Shape { threads, acquisitions };
        clients_of(lock)
            .filter(move |client| {
                client.threads().is_none_or(|fixed| (threads, acquisitions) == (fixed.clamp(2, 3), 1))
            })
            // Two threads already fill the nested client.
            .filter(move |client| threads == 2 || *client != Client::Of(ClientKind::Nested))
            .map(move |client| {
                // A thread alone finds in its second attempt what the first has left.
                let shape =
                    if client == Client::Alone { Shape { threads: 1, acquisitions: 2 } } else { shape };
                Task { lock, client, shape, model: Model::Ra }
            })
    })
}

/// Clients large enough that every thread comes to use again what it has left in a queue, or that two writers wait beside
/// readers, where nothing is out of order.
fn large_judges(lock: &'static Lock) -> impl Iterator<Item = Task> {
    let clients = [
        (Client::Of(ClientKind::Exclusive), 3, 2),
        (Client::Of(ClientKind::Mixed), 3, 2),
        (Client::PreferredMeeting, 4, 1),
    ];
    clients.into_iter().filter(|(client, ..)| client.suits(lock)).map(
        move |(client, threads, acquisitions)| Task {
            lock,
            client,
            shape: Shape { threads, acquisitions },
            model: Model::Sc,
        },
    )
}

/// What each client goes through when it looks for a mutant, before any goes further: at first a little of everything, where most
/// mutants show at once, and at last so much that survivors have earned the name. Numbers and no times, so that the same ones
/// are found everywhere.
const PASSES: [(Search, u64); 4] = [
    (Search::Executions, 300),
    (Search::States, 3_000),
    (Search::Executions, 30_000),
    (Search::States, 300_000),
];

/// How long all clients try to find a mutant at most, on a computer on which they do not come to their ends. Those of `futex`
/// that are found are found in ten seconds at most.
const FOR_A_MUTANT: Duration = Duration::from_secs(40);

/// What became of a mutant.
pub struct Mutant {
    /// The lock.
    pub of: &'static str,
    /// The operation of the access.
    pub operation: &'static str,
    /// The ordering that is written.
    pub from: &'static str,
    /// What it becomes.
    pub to: Change,
    /// As `--weaken` takes it.
    pub name: String,
    /// Where the access stands today.
    pub place: String,
    /// What the clients made of it.
    pub outcome: Outcome,
    /// How long they took.
    pub elapsed: Duration,
}

/// How a mutant was found, or not.
pub enum Outcome {
    /// By this client, as this.
    Found {
        /// The client that fails.
        client: String,
        /// How it fails.
        violation: &'static str,
    },
    /// Clients saw nothing wrong; of some, the limit cut off so many explorations.
    Survives {
        /// Explorations that a limit cut off.
        bounds: usize,
    },
    /// There was no time for it, or no client that comes to its end without it.
    NotJudged,
}

/// A mutant that is still to be judged.
struct Pending {
    lock: &'static Lock,
    mutation: Mutation,
    name: String,
    /// Clients that saw nothing wrong, and did not come to their end.
    unseen: Vec<Task>,
    /// How long clients have tried.
    elapsed: Duration,
    /// `None` until it is found, or every client has come to its end or through the last pass.
    outcome: Option<Outcome>,
}

/// What a client found that never comes to its end.
const ENDLESS: &str = "no end";

/// How far [`judge_all`] has come.
pub enum Progress<'a> {
    /// So many mutants are to be judged.
    Begun(usize),
    /// The clients of a pass look for this one.
    Tries(&'a str),
    /// One more is judged.
    Judged,
}

/// Judges all mutants of these locks, pass by pass: every mutant is taken through one before any begins the next, and then
/// those first whose clients were quick, so that a lock with large clients leaves time for the others.
pub fn judge_all(
    locks: &[&'static Lock],
    limits: &Limits,
    tell: &(dyn Fn(Progress<'_>) + Sync),
) -> Vec<Mutant> {
    let mut all = locks.par_iter().flat_map_iter(|lock| pending(lock, limits)).collect::<Vec<_>>();
    tell(Progress::Begun(all.len()));
    for (search, most) in PASSES {
        let mut open = all.iter_mut().filter(|one| one.outcome.is_none()).collect::<Vec<_>>();
        open.sort_by_key(|one| one.elapsed);
        // In order: a vector would be split, and the second thread begin with the slow half.
        open.into_iter().par_bridge().for_each(|one| {
            if limits.are_over() {
                return;
            }
            tell(Progress::Tries(&format!("{} with {}", one.lock.name, one.name)));
            one.take_through(search, most, limits);
            if one.outcome.is_some() {
                tell(Progress::Judged);
            }
        });
    }
    all.into_iter().map(Mutant::of).collect()
}

/// All mutants of a lock.
fn pending(lock: &'static Lock, limits: &Limits) -> Vec<Pending> {
    let Judged { sites, judges } = Judged::of(lock, limits);
    let of_site = |site: &Site| {
        let pending = |mutation: Mutation| Pending {
            lock,
            mutation,
            name: name(site, mutation.to),
            unseen: judges.clone(),
            elapsed: Duration::ZERO,
            outcome: None,
        };
        site.mutations().into_iter().map(pending).collect::<Vec<_>>()
    };
    sites.iter().flat_map(of_site).collect()
}

impl Pending {
    /// Has every client that did not come to its end in an earlier pass look for it in this one.
    fn take_through(&mut self, search: Search, most: u64, limits: &Limits) {
        // What no client judges is no survivor.
        if self.unseen.is_empty() {
            return;
        }
        let (started, left) = (Instant::now(), FOR_A_MUTANT.saturating_sub(self.elapsed));
        let by_executions = search == Search::Executions;
        let mut cut_off = Vec::new();
        for task in std::mem::take(&mut self.unseen) {
            if limits.are_over() {
                self.elapsed += started.elapsed();
                return;
            }
            let exploration = Exploration {
                mutation: Some(self.mutation),
                search,
                alike: task.client.alike(task.shape),
                most_executions: by_executions.then_some(most),
                most_states: (!by_executions).then_some(most as usize),
                most_time: Some(left.saturating_sub(started.elapsed()).min(limits.left())),
                ..limits.exploration(task.model)
            };
            let report = task.explore(&exploration);
            let Shape { threads, acquisitions } = task.shape;
            let violation = match &report.counterexample {
                Some(found) => Some(found.violation.name()),
                None => (report.bound == Some(Bound::Unfollowed) && by_executions).then_some(ENDLESS),
            };
            if let Some(violation) = violation {
                let client = format!("{} {threads} × {acquisitions}", task.client.name());
                self.outcome = Some(Outcome::Found { client, violation });
                break;
            }
            if !report.complete {
                cut_off.push(task);
            }
        }
        self.elapsed += started.elapsed();
        let is_last = PASSES.last().is_some_and(|last| *last == (search, most));
        let is_tried = (is_last || self.elapsed >= FOR_A_MUTANT) && !limits.are_over();
        if self.outcome.is_none() && (cut_off.is_empty() || is_tried) {
            self.outcome = Some(Outcome::Survives { bounds: cut_off.len() });
        }
        self.unseen = cut_off;
    }
}

impl Mutant {
    fn of(pending: Pending) -> Self {
        let Pending { lock, mutation, name, elapsed, outcome, .. } = pending;
        Self {
            of: lock.name,
            operation: mutation.of.operation.name(),
            from: ordering_name(mutation.of.ordering),
            to: mutation.to,
            name,
            place: place(&mutation.of),
            outcome: outcome.unwrap_or(Outcome::NotJudged),
            elapsed,
        }
    }

    /// Whether a client failed.
    pub const fn is_found(&self) -> bool {
        matches!(self.outcome, Outcome::Found { .. })
    }

    /// In words.
    pub fn outcome(&self) -> String {
        match &self.outcome {
            Outcome::Found { client, violation } => format!("{violation} in {client}"),
            Outcome::Survives { bounds: 0 } => "survives".to_owned(),
            Outcome::Survives { bounds } => format!("survives, {bounds} clients cut off"),
            Outcome::NotJudged => "not judged".to_owned(),
        }
    }

    /// Everything for a script.
    pub fn json(&self) -> Value {
        let killed = match &self.outcome {
            Outcome::Found { client, violation } => json!({ "client": client, "violation": violation }),
            _ => Value::Null,
        };
        json!({
            "weaken": self.name,
            "place": self.place,
            "operation": self.operation,
            "from": self.from,
            "change": self.to.name(),
            "killed": killed,
            "bounds": match self.outcome { Outcome::Survives { bounds } => bounds, _ => 0 },
            "seconds": self.elapsed.as_secs_f64(),
            "judged": !matches!(self.outcome, Outcome::NotJudged),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A lock with large clients leaves time for the others.
    #[test]
    fn every_mutant_comes_through_a_pass_before_any_begins_the_next() {
        let lock = locks::catalogue::find("tas").expect("a lock");
        let (mut of, mut judged) = (0, 0);
        let told = Mutex::new((Vec::new(), &mut of, &mut judged));
        let mutants = judge_all(&[lock], &Limits::new(Duration::from_secs(600)), &|progress| {
            let (tries, of, judged) = &mut *told.lock().expect("not poisoned");
            match progress {
                Progress::Begun(count) => **of = count,
                Progress::Tries(mutant) => tries.push(mutant.to_owned()),
                Progress::Judged => **judged += 1,
            }
        });
        let (tries, ..) = told.into_inner().expect("not poisoned");
        let first = tries[..of].iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(
            first.len(),
            of,
            "a mutant began the second pass before all had begun the first: {tries:?}"
        );
        assert!(tries.len() > of, "none was taken further: the test says nothing");
        assert_eq!((mutants.len(), judged), (of, of));
        assert!(mutants.iter().any(Mutant::is_found) && mutants.iter().any(|one| !one.is_found()));
    }

    /// An access that the first client has is found without all others, and so within a short time.
    #[test]
    fn an_access_is_looked_for_within_limits_and_no_further_than_it_is_found() {
        let lock = locks::catalogue::find("rw").expect("a lock");
        let mut accesses = Vec::new();
        let first = all_judges(lock).next().expect("a client");
        look(&first, &Limits::new(Duration::from_secs(600)), &mut accesses);
        let sites = sites::of_locks(accesses);
        let site = sites.iter().find(|site| sites::are_all_known(&sites, site)).expect("one that is known");
        let of = |mutation: Mutation| name(site, mutation.to).parse::<Wanted>().expect("well formed");
        let wanted = of(site.mutations()[0]);
        let found =
            wanted.mutation_within(lock, &Limits::new(Duration::from_secs(600))).expect("it is there");
        assert_eq!((found.of.site, found.to), (site.access.site, wanted.to));
        let error = wanted.mutation_within(lock, &Limits::new(Duration::ZERO)).expect_err("there is no time");
        assert!(error.to_string().contains("--time-limit"), "{error}");
    }

    #[test]
    fn judges_say_something_and_each_is_there_once() {
        for lock in ["mcs", "rw"] {
            let lock = locks::catalogue::find(lock).expect("a lock");
            let all = all_judges(lock).collect::<Vec<_>>();
            assert!(all.iter().enumerate().all(|(at, task)| !all[..at].contains(task)));
            let alone = all.iter().filter(|task| task.client == Client::Alone).map(|task| task.shape);
            assert_eq!(alone.collect::<Vec<_>>(), [Shape { threads: 1, acquisitions: 2 }]);
        }
        let lock = locks::catalogue::find("mcs").expect("a lock");
        let limits = Limits::new(Duration::from_secs(600));
        let shape = Shape { threads: 3, acquisitions: 2 };
        let task = Task { lock, client: Client::Of(ClientKind::Exclusive), shape, model: Model::Sc };
        assert!(says_something(&task, &limits));
        // Nine threads have more waiters than the checked kernel knows.
        let lock =
            super::super::objects::OBJECTS.iter().find(|lock| lock.name == "rt-mutex").expect("a lock");
        let shape = Shape { threads: 9, acquisitions: 1 };
        let cut_off = Task { lock, client: Client::Of(ClientKind::GivenUp), shape, ..task };
        assert!(!says_something(&cut_off, &limits));
    }

    #[test]
    fn what_there_was_no_time_for_is_not_called_a_survivor() {
        let lock = locks::catalogue::find("tas").expect("a lock");
        let mutants = judge_all(&[lock], &Limits::new(Duration::ZERO), &|_| ());
        assert!(!mutants.is_empty());
        assert!(mutants.iter().all(|one| matches!(one.outcome, Outcome::NotJudged)));
    }

    #[test]
    fn what_no_client_judges_is_not_called_a_survivor() {
        let lock = locks::catalogue::find("tas").expect("a lock");
        let limits = Limits::new(Duration::from_secs(600));
        let mut one = pending(lock, &limits).swap_remove(0);
        one.unseen.clear();
        for (search, most) in PASSES {
            one.take_through(search, most, &limits);
        }
        assert!(matches!(Mutant::of(one).outcome, Outcome::NotJudged));
    }
}
