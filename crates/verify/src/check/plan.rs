//! Which clients a lock is checked with, how large, and what came of it.

use super::Options;
use super::clients::{self, Client};
use checker::{Bound, Counterexample, Counts, Exploration, Model, Mutation, Search, explore, shorten};
use locks::catalogue::Lock;
use rayon::prelude::*;
use serde_json::{Value, json};
use session::interrupt;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use workloads::client::{ClientKind, Shape, Wrong};

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

impl PartialEq for Task {
    fn eq(&self, other: &Self) -> bool {
        (self.lock.name, self.client, self.shape, self.model)
            == (other.lock.name, other.client, other.shape, other.model)
    }
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

    /// Explores the client. A lock that is said to make promises, and makes none in any execution, is wrong in the first.
    pub fn explore(&self, exploration: &Exploration) -> checker::Report {
        let report = explore(exploration, &|| self.run());
        let asks = self.client.sees_promises(self.shape) && report.is_verified();
        if !asks || !explore(exploration, &|| clients::never_promised_at(self.lock, self.shape)).is_verified()
        {
            return report;
        }
        let first = Exploration { search: Search::Executions, ..*exploration };
        let wrong = Err(Wrong::NeverPromised.to_string());
        let found = explore(&first, &|| self.run().and(wrong.clone()));
        checker::Report { complete: false, counterexample: found.counterexample, ..report }
    }

    /// Explores the client up to the limit of a stage, in so much time.
    fn explore_to(
        self,
        stage: Stage,
        time: Duration,
        limits: &Limits,
        mutation: Option<Mutation>,
    ) -> Explored {
        let by_executions = stage.search == Search::Executions;
        let exploration = Exploration {
            mutation,
            search: stage.search,
            alike: self.client.alike(self.shape),
            most_executions: by_executions.then_some(stage.most as u64),
            most_states: (!by_executions).then_some(stage.most),
            most_time: Some(time),
            ..limits.exploration(self.model)
        };
        let report = self.explore(&exploration);
        let limit = report.bound.map(|bound| match bound {
            Bound::Unfollowed | Bound::Parts => Limit::Steps,
            Bound::Capacity => Limit::Capacity,
            Bound::Time if interrupt::came() => Limit::Interrupt,
            Bound::Time => Limit::Time,
            Bound::Executions | Bound::States => Limit::Memory,
        });
        // Nothing is wrong with it, and no execution came to its end.
        let without_end = limit.is_none() && report.counterexample.is_none() && report.counts.explored == 0;
        Explored {
            shape: self.shape,
            search: stage.search,
            counts: report.counts,
            elapsed: report.elapsed,
            limit: limit.or(without_end.then_some(Limit::Steps)),
            found: report.counterexample.map(|found| self.minimise(limits, mutation, found)),
        }
    }

    /// The size that stands for this one where this one is too large.
    const fn smaller(&self) -> Option<Shape> {
        match self.shape {
            _ if self.client.threads().is_some() => None,
            Shape { threads: 1 | 2, acquisitions: 1 } => None,
            Shape { threads: 3.., acquisitions } if acquisitions > 1 => {
                Some(Shape { threads: self.shape.threads, acquisitions: acquisitions - 1 })
            }
            Shape { threads: 3.., .. } => Some(Shape { threads: 2, acquisitions: 2 }),
            Shape { threads, acquisitions } => Some(Shape { threads, acquisitions: acquisitions - 1 }),
        }
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
            let is_fixed = self.client.threads().is_some();
            if is_fixed || threads > self.shape.threads || acquisitions > self.shape.acquisitions {
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

/// How far an exploration is taken before all others have come as far.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// What it goes through.
    pub search: Search,
    /// Executions, or states, at most.
    pub most: usize,
}

/// The stages of a check. Every exploration is taken through one before any begins the next, the small sizes first, so that
/// what is quickly complete never waits for what is not. The limits are numbers, so that where an exploration ends is the
/// same on every computer that has the time. Executions come first, as they tell two kinds of steps apart that states
/// do not know: accesses that are seq_cst under release-acquire.
pub const STAGES: [Stage; 6] = [
    Stage { search: Search::Executions, most: 2_000 },
    Stage { search: Search::States, most: 20_000 },
    Stage { search: Search::States, most: 300_000 },
    Stage { search: Search::States, most: 3_000_000 },
    Stage { search: Search::Executions, most: 200_000 },
    Stage { search: Search::States, most: 14_000_000 },
];

/// What an exploration gets of the time at least.
const LEAST_SHARE: Duration = Duration::from_millis(500);

/// What the whole command may take, shared by its explorations: what one leaves over, the others have.
pub struct Limits {
    until: Instant,
}

impl Limits {
    /// So much time.
    #[must_use]
    pub fn new(all: Duration) -> Self {
        Self { until: Instant::now() + all }
    }

    /// Whether nothing more may be begun.
    pub fn are_over(&self) -> bool {
        interrupt::came() || Instant::now() >= self.until
    }

    /// An exploration that ends when the command is to.
    pub fn exploration(&self, model: Model) -> Exploration {
        Exploration { stop: Some(interrupt::flag()), most_time: Some(self.left()), ..Exploration::of(model) }
    }

    /// What is left of the time.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// What one of so many waiting explorations may take now.
    fn share(&self, waiting: usize) -> Duration {
        let left = self.left();
        let fair = left * rayon::current_num_threads() as u32 / waiting.max(1) as u32;
        fair.max(LEAST_SHARE).min(left)
    }
}

/// What is told of explorations while they run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The one that begins.
    pub task: &'a Task,
    /// How many are complete, or as complete as they will be.
    pub settled: usize,
    /// Of so many.
    pub of: usize,
}

/// Explores the tasks, and smaller sizes of them besides, stage by stage.
pub fn judge_all(
    tasks: &[Task],
    limits: &Limits,
    mutation: Option<Mutation>,
    tell: &(dyn Fn(Progress<'_>) + Sync),
) -> Vec<Verdict> {
    let mut all = Vec::<Run>::new();
    for &task in tasks {
        let mut shape = Some(task.shape);
        while let Some(now) = shape {
            let task = Task { shape: now, ..task };
            if !all.iter().any(|run| run.task == task) {
                all.push(Run::of(task));
            }
            shape = task.smaller();
        }
    }
    // The sort keeps the order of locks, models and clients within a size.
    all.sort_by_key(|run| {
        (run.task.shape.threads * run.task.shape.acquisitions as usize, run.task.shape.threads)
    });
    let of = all.len();
    for stage in STAGES {
        let open = all.iter_mut().filter(|run| run.goes_on(stage)).collect::<Vec<_>>();
        let settled = of - open.len();
        let (waiting, done) = (AtomicUsize::new(open.len()), AtomicUsize::new(0));
        // In order: a vector would be split, and the second thread begin with the larger half.
        open.into_iter().par_bridge().for_each(|run| {
            let share = limits.share(waiting.fetch_sub(1, Ordering::Relaxed));
            if limits.are_over() {
                return run.stop();
            }
            tell(Progress { task: &run.task, settled: settled + done.load(Ordering::Relaxed), of });
            run.take_through(stage, share, limits, mutation);
            done.fetch_add(usize::from(run.is_settled()), Ordering::Relaxed);
        });
    }
    let explored = |task: Task| all.iter().find(|run| run.task == task).map(|run| &run.explored);
    let verdict = |&task: &Task| {
        let asked = explored(task).expect("it was explored").clone();
        let mut verdict = Verdict { task, asked, smaller: Vec::new() };
        let mut task = task;
        while let (false, Some(shape)) = (verdict.last().is_settled(), task.smaller()) {
            task.shape = shape;
            verdict.smaller.extend(explored(task).cloned());
        }
        verdict
    };
    tasks.iter().map(verdict).collect()
}

/// An exploration on its way through the stages.
struct Run {
    task: Task,
    explored: Explored,
    /// Searches that cannot follow the client to its end, whatever the limits, with what they lack.
    unfollowed: Vec<(Search, Limit)>,
}

impl Run {
    fn of(task: Task) -> Self {
        let explored = Explored {
            shape: task.shape,
            search: Search::Executions,
            counts: Counts::default(),
            elapsed: Duration::ZERO,
            limit: Some(Limit::Time),
            found: None,
        };
        Self { task, explored, unfollowed: Vec::new() }
    }

    fn is_settled(&self) -> bool {
        self.explored.is_settled() || self.unfollowed.len() == 2
    }

    fn goes_on(&self, stage: Stage) -> bool {
        // Where states can be followed, they are fewer than executions.
        let is_second_try = stage.search == Search::Executions && self.explored.begun();
        !self.is_settled()
            && self.lacks(stage.search).is_none()
            && (!is_second_try || self.lacks(Search::States).is_some())
    }

    /// What a search lacks to follow the client to its end.
    fn lacks(&self, search: Search) -> Option<Limit> {
        self.unfollowed.iter().find(|(one, _)| *one == search).map(|&(_, limit)| limit)
    }

    /// It is not taken further: whatever limit a stage had, there was no time for the next one.
    fn stop(&mut self) {
        self.explored.limit = Some(if interrupt::came() { Limit::Interrupt } else { Limit::Time });
    }

    fn take_through(&mut self, stage: Stage, time: Duration, limits: &Limits, mutation: Option<Mutation>) {
        let now = self.task.explore_to(stage, time, limits, mutation);
        if let Some(limit @ (Limit::Steps | Limit::Capacity)) = now.limit
            && self.lacks(stage.search).is_none()
        {
            self.unfollowed.push((stage.search, limit));
        }
        // What was seen in an earlier stage is not less when this one was cut off sooner.
        if now.is_settled() || now.size().0 >= self.explored.size().0 {
            self.explored = now;
        } else {
            self.explored.limit = now.limit;
        }
        // States would be fewer, if they could be followed.
        if self.explored.limit == Some(Limit::Memory) {
            self.explored.limit = self.lacks(Search::States).or(self.explored.limit);
        }
    }
}

/// What ended an exploration before everything was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The time of the command.
    Time,
    /// The executions or states of the last stage.
    Memory,
    /// A thread takes more steps than are followed, or one that the search does not know, or no execution comes to its end: no computer
    /// changes that.
    Steps,
    /// The client uses more words, writes of a word, queue nodes or waiters than are followed: no computer changes that either.
    Capacity,
    /// Ctrl-C, or SIGTERM.
    Interrupt,
}

impl Limit {
    /// As scripts read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Memory => "states",
            Self::Steps => "steps",
            Self::Capacity => "capacity",
            Self::Interrupt => "interrupt",
        }
    }

    /// As a cell says it.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Time => "incomplete: time",
            Self::Memory => "incomplete: states",
            Self::Steps => "incomplete: steps of a thread",
            Self::Capacity => "incomplete: the checker's capacity",
            Self::Interrupt => "interrupted",
        }
    }
}

/// What came of a client of one size.
#[derive(Clone)]
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
    pub limit: Option<Limit>,
    /// What was wrong, in the smallest client that shows it.
    pub found: Option<(Task, Counterexample)>,
}

impl Explored {
    /// Nothing more can come of it.
    const fn is_settled(&self) -> bool {
        self.limit.is_none() || self.found.is_some()
    }

    /// Whether any of it was seen.
    #[must_use]
    pub const fn begun(&self) -> bool {
        self.is_settled() || self.counts.all() + self.counts.states > 0
    }

    /// How much was gone through, and what of it was pruned.
    #[must_use]
    pub const fn size(&self) -> (u64, u64, &'static str) {
        match self.search {
            Search::Executions | Search::Interleavings => {
                (self.counts.explored, self.counts.pruned, "executions")
            }
            Search::States => (self.counts.states, self.counts.merged, "states"),
        }
    }

    /// In a word, with the reason if it is incomplete.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (&self.found, self.limit) {
            (Some((_, found)), _) => found.violation.name(),
            (None, None) => "verified",
            (None, Some(_)) if !self.begun() => "not begun",
            (None, Some(limit)) => limit.reason(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "threads": self.shape.threads,
            "acquisitions": self.shape.acquisitions,
            "by": if self.search == Search::States { "states" } else { "executions" },
            "executions": self.counts,
            "seconds": self.elapsed.as_secs_f64(),
            "complete": self.limit.is_none() && self.found.is_none(),
            "limit": self.limit.filter(|_| self.found.is_none()).map(Limit::name),
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
        self.asked.limit.is_none() && self.asked.found.is_none()
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
    if client == Client::Alone {
        return vec![(1, options.acquisitions.unwrap_or(2))];
    }
    if let Some(threads) = client.threads() {
        return vec![(threads, 1)];
    }
    if options.threads.is_some() || options.acquisitions.is_some() {
        return vec![(options.threads.unwrap_or(2), options.acquisitions.unwrap_or(1))];
    }
    match (client, model) {
        (Client::Of(ClientKind::Exclusive), Model::Ra) => vec![(3, 1), (2, 2)],
        (Client::Of(ClientKind::Exclusive), _) => vec![(3, 2)],
        (Client::Of(ClientKind::Nested), _) => vec![(2, 2)],
        // What one holder is told or gets, and what one release touches.
        (Client::AskedSide | Client::Freed | Client::TriedAgain, _) => vec![(2, 1)],
        // What two waiters leave behind.
        (Client::Dropped, _) => vec![(3, 1)],
        // A holder that comes back twice, and a waiter that has slept meanwhile.
        (Client::Of(ClientKind::Promised | ClientKind::PromisedShared), _) => vec![(2, 2)],
        // Two writers, so that one of them is woken in the place of a reader.
        (Client::PreferredMeeting, Model::Sc) => vec![(4, 1), (3, 1)],
        // Two words and many steps: what three threads find, they find under the weakest model.
        (
            Client::Of(
                ClientKind::Downgraded
                | ClientKind::DowngradedMeeting
                | ClientKind::Upgraded
                | ClientKind::TriedUpgrade
                | ClientKind::TimedUpgrade,
            ),
            Model::Sc | Model::Tso | Model::Pso,
        ) => vec![(2, 2)],
        // Two wait in a queue, or in a list of those that were passed over, while a third leaves it.
        (Client::Of(ClientKind::AllLeave), Model::Sc) => vec![(4, 1), (3, 1), (2, 2)],
        // A thread waits behind one that has given up, and gives up in turn.
        (Client::Of(ClientKind::Timed), Model::Sc) => vec![(3, 2)],
        // A node that was left in a queue must come back and be left in another way, while a thread waits behind it.
        (Client::Of(ClientKind::Mixed), Model::Sc) => vec![(3, 2)],
        // With three threads there is a waiter behind the thread that leaves; in a second round what was left shows.
        _ => vec![(3, 1), (2, 2)],
    }
}

/// An exploration of so many executions in a second, with what cut it off, for tests of what is printed.
#[cfg(test)]
pub(super) fn explored_executions(task: Task, explored: u64, limit: Option<Limit>) -> Explored {
    let counts = Counts { explored, pruned: explored / 3, ..Counts::default() };
    Explored { counts, elapsed: Duration::from_millis(1_234), limit, ..Run::of(task).explored }
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

    /// What is quickly complete never waits for what is not.
    #[test]
    fn every_exploration_comes_through_a_stage_before_any_begins_the_next() {
        let lock = locks::catalogue::find("k42").expect("a lock");
        let options = Options { model: vec![Model::Ra], ..Options::of_everything() };
        let tasks = tasks(lock, &options);
        let begun = std::sync::Mutex::new(Vec::new());
        let limits = Limits::new(Duration::from_secs(600));
        let verdicts = judge_all(&tasks[..6], &limits, None, &|progress| {
            begun.lock().expect("not poisoned").push((*progress.task, progress.of));
        });
        let (begun, all): (Vec<Task>, Vec<usize>) =
            begun.into_inner().expect("not poisoned").into_iter().unzip();
        let of_first_stage = &begun[..all[0]];
        assert!(
            of_first_stage.iter().enumerate().all(|(at, task)| !of_first_stage[..at].contains(task)),
            "some exploration began the second stage before all had begun the first: {begun:?}"
        );
        assert_eq!(verdicts.len(), 6);
        assert!(verdicts.iter().all(Verdict::is_verified), "small clients of a small lock are complete");
    }

    /// Each of two threads takes the smallest exploration that is left, when it is free.
    #[test]
    fn explorations_are_begun_in_the_order_of_their_sizes() {
        let lock = locks::catalogue::find("tas").expect("a lock");
        let tasks = tasks(lock, &Options { model: vec![Model::Sc], ..Options::of_everything() });
        let size = |shape: Shape| shape.threads * shape.acquisitions as usize;
        let begun = std::sync::Mutex::new(Vec::new());
        let both = std::sync::Barrier::new(2);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
        pool.install(|| {
            judge_all(&tasks, &Limits::new(Duration::from_millis(300)), None, &|progress| {
                let mut begun_so_far = begun.lock().expect("not poisoned");
                begun_so_far.push(size(progress.task.shape));
                let is_first = begun_so_far.len() <= 2;
                drop(begun_so_far);
                if is_first {
                    both.wait();
                }
            })
        });
        let mut sizes = tasks.iter().map(|task| size(task.shape)).collect::<Vec<_>>();
        sizes.sort_unstable();
        assert!(sizes[sizes.len() / 2] > 2, "there are larger ones");
        let begun = begun.into_inner().expect("not poisoned");
        assert_eq!(begun[..2], [2, 2], "{begun:?}");
    }

    #[test]
    fn alone_has_one_thread_whichever_number_is_asked_for() {
        let options = Options { threads: Some(3), acquisitions: Some(1), ..Options::of_everything() };
        assert_eq!(sizes(Client::Alone, Model::Sc, &options), [(1, 1)]);
        assert_eq!(sizes(Client::Alone, Model::Sc, &Options::of_everything()), [(1, 2)]);
    }

    #[test]
    fn what_a_client_of_three_threads_finds_is_found_again_by_its_trace() {
        let (mut clients, mut models) = (std::collections::BTreeSet::new(), Model::ALL.into_iter().cycle());
        for lock in LOCKS.iter().chain(super::super::objects::OBJECTS) {
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
        // One thread alone sees no order of memory.
        let of_several = Client::all().filter(|client| client.threads() != Some(1)).map(Client::name);
        let missing: Vec<_> = of_several.filter(|name| !clients.contains(name)).collect();
        assert!(missing.len() <= 2, "no mistake was found by {missing:?}");
    }
}
