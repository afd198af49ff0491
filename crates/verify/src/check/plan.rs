//! Which clients a lock is checked with, how large, and what came of it.

use super::Options;
use super::clients::Client;
use checker::{Bound, Counterexample, Counts, Exploration, Model, Mutation, Search, explore, shorten};
use locks::catalogue::Lock;
use serde_json::{Value, json};
use session::interrupt;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use workloads::client::{ClientKind, Shape};

/// One exploration.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The lock.
    pub lock: &'static Lock,
    /// What the threads do.
    pub client: Client,
    /// How many threads, how often.
    pub shape: Shape,
    /// Under which model.
    pub model: Model,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { threads, acquisitions } = self.shape;
        write!(f, "{} {} {threads} × {acquisitions} under {}", self.lock.name, self.client.name(), self.model)
    }
}

/// Executions among which a shorter counterexample is looked for, each time one was found.
const EXECUTIONS_TO_SHORTEN: u64 = 50_000;

impl Task {
    /// Runs the client once on the checked machine.
    pub fn run(&self) -> Result<(), String> {
        self.client.run(self.lock, self.shape)
    }

    /// Explores the client.
    pub fn explore(&self, exploration: &Exploration) -> checker::Report {
        explore(exploration, &|| self.run())
    }

    /// Explores the client: every execution, and every state where executions are too many. Where states are too many
    /// too, smaller clients besides, down to the first that can be seen whole.
    pub fn judge(self, limits: &Limits, mutation: Option<Mutation>) -> Verdict {
        let asked = self.judge_size(self.shape, limits, mutation);
        let mut verdict = Verdict { task: self, asked, smaller: Vec::new() };
        let mut shape = self.shape;
        while let (false, Some(less)) = (verdict.last().is_settled(), smaller(shape)) {
            if limits.are_over() {
                break;
            }
            shape = less;
            verdict.smaller.push(self.judge_size(shape, limits, mutation));
        }
        verdict
    }

    fn judge_size(self, shape: Shape, limits: &Limits, mutation: Option<Mutation>) -> Explored {
        let task = Self { shape, ..self };
        let begun = !interrupt::came();
        let mut explored = None;
        for search in [Search::Executions, Search::States] {
            let by_executions = search == Search::Executions;
            let exploration = Exploration {
                mutation,
                search,
                alike: self.client.is_alike(),
                most_executions: by_executions.then_some(MOST_EXECUTIONS),
                most_states: Some(MOST_STATES),
                most_time: Some(if by_executions {
                    limits.left()
                } else {
                    limits.share().min(limits.left())
                }),
                ..limits.exploration(self.model)
            };
            let report = task.explore(&exploration);
            let found = report.counterexample.map(|found| task.minimise(limits, mutation, found));
            let now = Explored {
                shape,
                search,
                counts: report.counts,
                elapsed: report.elapsed,
                bound: report.bound,
                found,
                begun,
            };
            if explored.insert(now).is_settled() {
                break;
            }
        }
        explored.expect("explored in two ways")
    }

    /// The smallest client that fails in the same way, and in it the shortest execution.
    fn minimise(
        self,
        limits: &Limits,
        mutation: Option<Mutation>,
        found: Counterexample,
    ) -> (Self, Counterexample) {
        let limited = Exploration {
            mutation,
            most_executions: Some(EXECUTIONS_TO_SHORTEN),
            ..limits.exploration(self.model)
        };
        let (mut task, mut best) = (self, found);
        for (threads, acquisitions) in [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1)] {
            let smaller = Self { shape: Shape { threads, acquisitions }, ..self };
            if threads > self.shape.threads || acquisitions > self.shape.acquisitions {
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
        Shape { threads: 1 | 2, acquisitions: 1 } => None,
        Shape { threads: 3.., acquisitions } if acquisitions > 1 => {
            Some(Shape { threads: shape.threads, acquisitions: acquisitions - 1 })
        }
        Shape { threads: 3.., .. } => Some(Shape { threads: 2, acquisitions: 2 }),
        Shape { threads, acquisitions } => Some(Shape { threads, acquisitions: acquisitions - 1 }),
    }
}

/// Executions that are gone through before states are: some seconds. A number and no time, so that the same is said on
/// every computer; so is that of the states.
pub const MOST_EXECUTIONS: u64 = 200_000;
/// States after which a smaller client is tried: about half a minute.
pub const MOST_STATES: usize = 2_000_000;
/// The least time that is left, so that something small is seen even when time is up.
const LEAST_LEFT: Duration = Duration::from_millis(500);
/// What an exploration gets of the time at least.
const LEAST_SHARE: Duration = Duration::from_secs(5);

/// What the whole command may take, shared by its explorations: what one leaves over, the others have.
pub struct Limits {
    until: Instant,
    waiting: AtomicUsize,
}

impl Limits {
    /// So much time for so many explorations.
    pub fn new(all: Duration, explorations: usize) -> Self {
        Self { until: Instant::now() + all, waiting: AtomicUsize::new(explorations) }
    }

    /// One exploration less.
    pub fn done(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether nothing more may be begun.
    pub fn are_over(&self) -> bool {
        interrupt::came() || Instant::now() >= self.until
    }

    /// An exploration that ends when the command is to.
    pub fn exploration(&self, model: Model) -> Exploration {
        Exploration { stop: Some(interrupt::flag()), ..Exploration::of(model) }
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now()).max(LEAST_LEFT)
    }

    /// What one may take now: most explorations take next to nothing, so a quarter of all that is left, for two who
    /// work at a time, is seldom too much.
    fn share(&self) -> Duration {
        let waiting = self.waiting.load(Ordering::Relaxed).max(1) as u32;
        let fair = self.left() * rayon::current_num_threads() as u32 / waiting;
        fair.max(self.left() / 8).max(LEAST_SHARE)
    }
}

/// What came of a client of one size.
pub struct Explored {
    /// The size.
    pub shape: Shape,
    /// What was gone through.
    search: Search,
    /// How much was gone through.
    pub counts: Counts,
    /// How long it took.
    pub elapsed: Duration,
    /// What ended the exploration before everything was seen.
    bound: Option<Bound>,
    /// What was wrong, in the smallest client that shows it.
    pub found: Option<(Task, Counterexample)>,
    /// False when the command was to end before.
    pub begun: bool,
}

impl Explored {
    /// Nothing more can come of it.
    fn is_settled(&self) -> bool {
        self.bound.is_none() || self.found.is_some()
    }

    /// How much was gone through, and what of it was left early.
    pub fn size(&self) -> (u64, u64, &'static str) {
        match self.search {
            Search::Executions | Search::Interleavings => {
                (self.counts.explored, self.counts.pruned, "executions")
            }
            Search::States => (self.counts.states, self.counts.merged, "states"),
        }
    }

    /// In a word.
    pub fn word(&self) -> &'static str {
        match &self.found {
            Some((_, found)) => found.violation.name(),
            None if self.bound.is_none() => "verified",
            None if !self.begun => "not begun",
            None if self.bound == Some(Bound::Time) => "out of time",
            None => "a bound",
        }
    }

    fn json(&self) -> Value {
        json!({
            "threads": self.shape.threads,
            "acquisitions": self.shape.acquisitions,
            "by": if self.search == Search::States { "states" } else { "executions" },
            "executions": self.counts,
            "seconds": self.elapsed.as_secs_f64(),
            "complete": self.bound.is_none() && self.found.is_none(),
            "limit": self.bound.map(limit_name),
            "verdict": self.word(),
            "counterexample": self.found.as_ref().map(|(task, found)| counterexample_json(task, found)),
        })
    }
}

/// A counterexample, and the size of the client in which it was found.
pub fn counterexample_json(task: &Task, found: &Counterexample) -> Value {
    json!({
        "threads": task.shape.threads,
        "acquisitions": task.shape.acquisitions,
        "violation": found.violation.to_string(),
        "steps": found.rows.iter().map(|row| json!({
            "thread": row.thread, "step": row.step, "state": row.state, "site": row.site,
        })).collect::<Vec<_>>(),
        "replay": found.trace.to_string(),
    })
}

/// What came of a task.
pub struct Verdict {
    /// The exploration.
    pub task: Task,
    /// Of the size that was asked for: this is the verdict.
    pub asked: Explored,
    /// Smaller clients, which were tried because that one took too long.
    pub smaller: Vec<Explored>,
}

impl Verdict {
    fn last(&self) -> &Explored {
        self.smaller.last().unwrap_or(&self.asked)
    }

    /// Every size that was explored, the one that was asked for first.
    pub fn all(&self) -> impl Iterator<Item = &Explored> {
        std::iter::once(&self.asked).chain(&self.smaller)
    }

    /// Whether something is wrong in any size.
    pub fn is_wrong(&self) -> bool {
        self.all().any(|explored| explored.found.is_some())
    }

    /// Whether the size that was asked for was seen whole, with nothing wrong in it.
    pub const fn is_verified(&self) -> bool {
        self.asked.bound.is_none() && self.asked.found.is_none()
    }

    /// Everything for a script.
    pub fn json(&self) -> Value {
        let mut json = self.asked.json();
        json["client"] = self.task.client.name().into();
        json["model"] = self.task.model.name().into();
        json["smaller"] = self.smaller.iter().map(Explored::json).collect();
        json
    }
}

const fn limit_name(bound: Bound) -> &'static str {
    match bound {
        Bound::Executions => "executions",
        Bound::States => "states",
        Bound::Unfollowed => "steps",
        Bound::Time => "time",
    }
}

/// What a lock is checked with.
pub fn tasks(lock: &'static Lock, options: &Options) -> Vec<Task> {
    let models = match &options.model[..] {
        // Those of the processors that have transactions.
        [] if lock.is_elided() => vec![Model::Sc, Model::Tso],
        [] => Model::ALL.to_vec(),
        asked => asked.iter().copied().filter(|&model| model != Model::Ra || !lock.is_elided()).collect(),
    };
    let mut tasks = Vec::new();
    for model in models {
        for client in
            super::clients_of(lock).filter(|client| options.client.is_none_or(|only| only == *client))
        {
            for (threads, acquisitions) in sizes(client, model, options) {
                tasks.push(Task { lock, client, shape: Shape { threads, acquisitions }, model });
            }
        }
    }
    tasks
}

fn sizes(client: Client, model: Model, options: &Options) -> Vec<(usize, u32)> {
    if options.threads.is_some() || options.acquisitions.is_some() {
        return vec![(options.threads.unwrap_or(2), options.acquisitions.unwrap_or(1))];
    }
    match (client, model) {
        (Client::Of(ClientKind::Exclusive), Model::Ra) => vec![(3, 1), (2, 2)],
        (Client::Of(ClientKind::Exclusive), _) => vec![(3, 2)],
        (Client::Of(ClientKind::Nested), _) => vec![(2, 2)],
        (Client::Alone, _) => vec![(1, 2)],
        // Two writers, so that one of them is woken in the place of a reader.
        (Client::PreferredMeeting, Model::Sc) => vec![(4, 1), (3, 1)],
        // Two words and many steps: what three threads find, they find under the weakest model.
        (
            Client::Of(
                ClientKind::Downgraded
                | ClientKind::DowngradedMeeting
                | ClientKind::Upgraded
                | ClientKind::TriedUpgrade,
            ),
            Model::Sc | Model::Tso | Model::Pso,
        ) => vec![(2, 2)],
        // A node that was left in a queue must come back and be left in another way, while somebody waits behind it.
        (Client::Of(ClientKind::Mixed), Model::Sc) => vec![(3, 2)],
        // With three threads somebody waits behind whoever leaves; in a second round what was left shows.
        _ => vec![(3, 1), (2, 2)],
    }
}

/// An exploration of so many executions in a second, which a limit cut off or not, for tests of what is printed.
#[cfg(test)]
pub(super) fn explored_executions(shape: Shape, explored: u64, bounded: bool) -> Explored {
    Explored {
        shape,
        search: Search::Executions,
        counts: Counts { explored, pruned: explored / 3, ..Counts::default() },
        elapsed: Duration::from_millis(1_234),
        bound: bounded.then_some(Bound::States),
        found: None,
        begun: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use checker::checked::Accessed;
    use checker::{ReplayTrace, replay};
    use locks::catalogue::LOCKS;

    /// A mistake that the client finds, with what it finds: of the mistakes in the lock, one in some, the first.
    fn mistake(task: &Task) -> Option<(Mutation, Counterexample)> {
        let noting =
            Exploration { note_accesses: true, most_executions: Some(100), ..Exploration::of(task.model) };
        let accesses = task.explore(&noting).accesses;
        let mutations = accesses.iter().flat_map(Accessed::mutations).collect::<Vec<_>>();
        let step = mutations.len() / 12 + 1;
        mutations.into_iter().step_by(step).find_map(|mutation| {
            let exploration = Exploration {
                mutation: Some(mutation),
                most_executions: Some(200),
                ..Exploration::of(task.model)
            };
            Some((mutation, task.explore(&exploration).counterexample?))
        })
    }

    #[test]
    fn what_a_client_of_three_threads_finds_is_found_again_by_its_trace() {
        let (mut clients, mut models) = (std::collections::BTreeSet::new(), Model::ALL.into_iter().cycle());
        for lock in LOCKS.iter() {
            for client in super::super::clients_of(lock) {
                let shape = Shape { threads: 3, acquisitions: 1 };
                let model = models.next().expect("without end");
                let task = Task { lock, client, shape, model };
                let Some((mutation, found)) = mistake(&task) else { continue };
                let text = found.trace.to_string();
                let trace: ReplayTrace = text.parse().expect("a trace reads back what it writes");
                let again = replay(model, trace, Some(mutation), &|| task.run());
                let again = again.unwrap_or_else(|why| panic!("{task} with {mutation}: {why}: {text}"));
                let again = again.counterexample.unwrap_or_else(|| {
                    panic!("{task} with {mutation}: {} and nothing wrong again in {text}", found.violation)
                });
                assert_eq!(again.violation, found.violation, "{task} with {mutation}: {text}");
                clients.insert(client.name());
            }
        }
        let missing: Vec<_> =
            Client::all().map(Client::name).filter(|name| !clients.contains(name)).collect();
        assert!(missing.len() <= 2, "no mistake was found by {missing:?}");
    }
}
