//! The checked machine: a client runs on it in every execution that a memory model allows.

mod accesses;
mod answers;
mod arena;
mod counterexample;
mod engine;
mod fibers;
mod mutation;
mod pools;
mod progress;
mod runs;
mod scheduling;
mod session;
mod stacks;
mod threads;
mod transactions;
mod words;

use std::panic::Location as Site;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub use counterexample::{Counterexample, StepRow};
pub use mutation::{Accessed, Change, Mutation, Operation, ordering_name};
pub use threads::Checked;
pub use words::{CheckedCell, CheckedPtr, CheckedU32, CheckedU64};

use crate::explorer::Counts;
use crate::model::Model;
use crate::trace::{Divergence, ReplayTrace};
use crate::walker::{MOST_STATES, TimeLimits};
use engine::Engine;
use session::{Session, State};

/// What an exploration goes through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Search {
    /// Every execution once: orders of steps that differ in nothing else are one.
    #[default]
    Executions,
    /// Every state once: what led to it matters no more. Executions are not counted.
    States,
    /// Every order of accesses of words, with no reduction at all: for small clients and comparisons.
    Interleavings,
}

/// How far an exploration goes, and with what.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// The memory model.
    pub model: Model,
    /// An access of the lock to be made weaker, or wrong.
    pub mutation: Option<Mutation>,
    /// Stop after so many executions.
    pub most_executions: Option<u64>,
    /// Stop when so many states are remembered; [`Search::States`] alone remembers any. Whatever is said here, it stops
    /// at 40 million, which take some 2 GiB.
    pub most_states: Option<usize>,
    /// Stop after so long. How far an exploration comes by then depends on the computer and on what else it does;
    /// the other limits end it at the same place everywhere.
    pub most_time: Option<Duration>,
    /// Stop when this is set.
    pub stop: Option<&'static AtomicBool>,
    /// Note down every access.
    pub note_accesses: bool,
    /// What it goes through.
    pub search: Search,
    /// Threads of the client that do the same, whatever their number, as bits: [`Search::States`] makes use of it.
    pub alike: u32,
}

impl Exploration {
    /// All executions under a model.
    #[must_use]
    pub const fn of(model: Model) -> Self {
        Self {
            model,
            mutation: None,
            most_executions: None,
            most_states: None,
            most_time: None,
            stop: None,
            note_accesses: false,
            search: Search::Executions,
            alike: 0,
        }
    }

    /// What an exploration starts with that has nothing to say about the order in which it goes.
    fn start(&self, now: Instant) -> State {
        let mut state = State::new(self.model);
        state.mutation = self.mutation;
        state.most_executions = self.most_executions.unwrap_or(u64::MAX);
        state.most_states = self.most_states.unwrap_or(MOST_STATES).min(MOST_STATES);
        state.limits = TimeLimits { until: self.most_time.map(|time| now + time), stop: self.stop };
        state
    }
}

/// Why an exploration has not seen everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// There were more executions than were asked for, or than memory has space for.
    Executions,
    /// There were more states than are remembered.
    States,
    /// Some execution was not followed to its end: a thread takes more than [`MAX_STEPS`](crate::MAX_STEPS) steps; an access is
    /// seq_cst under release-acquire or made while its thread unwinds, or an attempt of a wait does more behind a read-modify-write
    /// that changes nothing, none of which [`Search::States`] knows; or a thread begins a transaction, which that search alone knows,
    /// under other models than release-acquire.
    Unfollowed,
    /// Some execution was not followed to its end, as it needs more than there is: [`Search::States`] tells apart 64 words, 64 plain
    /// cells and 250 writes of a word that may be read; the checked machine has 7 waiters for a lock whose owner inherits, 8 queue
    /// nodes and 4 KiB for each thread, and in one attempt of a wait 8 reads and one read-modify-write that changes nothing.
    Capacity,
    /// A store to part of a word waits in a store buffer, and its thread's loads find it beside what the rest of the word holds by then.
    /// A read of an execution graph is from one write: [`Search::Executions`] misses some of these executions, [`Search::States`] none.
    Parts,
    /// The time was up: where that was is a matter of the computer.
    Time,
}

/// What an exploration found.
#[derive(Clone, Debug)]
pub struct Report {
    /// How many executions there were.
    pub counts: Counts,
    /// All executions were seen. False after a limit, and after a violation, which ends the exploration.
    pub complete: bool,
    /// What ended it before all were seen.
    pub bound: Option<Bound>,
    /// Some execution could not be followed to its end, whatever else ended the exploration.
    pub cut_off: bool,
    /// How long it took.
    pub elapsed: Duration,
    /// The first execution that was wrong.
    pub counterexample: Option<Counterexample>,
    /// Every access of the client, if asked for.
    pub accesses: Vec<Accessed>,
}

impl Report {
    /// Complete and without a violation. Where no execution comes to its end, nothing was seen that could be wrong.
    #[must_use]
    pub const fn is_verified(&self) -> bool {
        self.complete && self.counterexample.is_none() && self.counts.explored > 0
    }
}

/// Runs a client in all its executions.
///
/// The client allocates what its threads share by [`machine::Placed`], calls `Machine::run` once, and says at the end
/// whether what it finds is right. It is called once for every execution that comes to its end, and must do the same
/// each time. Threads that cannot go on are forgotten, not unwound: they own nothing outside the machine's memory.
///
/// # Panics
/// Inside another exploration, and when the client does not call `Machine::run`.
pub fn explore(exploration: &Exploration, client: &dyn Fn() -> Result<(), String>) -> Report {
    if exploration.search != Search::Executions && std::thread::panicking() {
        return on_another_thread(|| explore(exploration, client));
    }
    let started = Instant::now();
    let mut state = exploration.start(started);
    state.accesses = exploration.note_accesses.then(Vec::new);
    (state.search, state.alike) = (exploration.search, exploration.alike);
    report(Session::new(state, None), client, started)
}

/// Looks for the wrong execution with the fewest steps, among so many executions each time one was found.
///
/// # Panics
/// As [`explore`].
pub fn shorten(
    exploration: &Exploration,
    mut found: Counterexample,
    client: &dyn Fn() -> Result<(), String>,
) -> Counterexample {
    loop {
        let started = Instant::now();
        let mut state = exploration.start(started);
        state.fewer_than = Some(found.events);
        match report(Session::new(state, None), client, started).counterexample {
            Some(shorter) if shorter.violation.name() == found.violation.name() => found = shorter,
            _ => return found,
        }
    }
}

/// Runs the one execution that a trace tells.
///
/// # Errors
/// [`Divergence`] when the client has no such execution under the model.
///
/// # Panics
/// As [`explore`].
pub fn replay(
    model: Model,
    trace: ReplayTrace,
    mutation: Option<Mutation>,
    client: &dyn Fn() -> Result<(), String>,
) -> Result<Report, Divergence> {
    let mut state = State::new(model);
    state.mutation = mutation;
    let mut parted = None;
    let report = report_or(Session::new(state, Some(trace)), client, Instant::now(), &mut parted);
    parted.map_or(Ok(report), Err)
}

/// How many queue nodes are out of their pools, for a client that looks whether all were freed, after its run.
///
/// # Panics
/// Outside an exploration.
#[must_use]
pub fn nodes_out() -> usize {
    session::session().nodes_out()
}

/// For a client before its run: the queue nodes of this thread have no names, as past the pool's size.
///
/// # Panics
/// Outside an exploration.
pub fn without_names(thread: usize) {
    session::session().with(|state| state.nameless = Some(thread));
}

/// For a client before its run: its threads run on so many dies, by turns. Otherwise there is one.
///
/// # Panics
/// Outside an exploration.
pub fn on_dies(dies: usize) {
    session::session().with(|state| state.dies = dies.max(1));
}

/// When a thread has arrived at what it waits for, by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// When it first comes to where it waits for another value of a word, awake.
    Spins,
    /// When it first sleeps.
    Sleeps,
}

/// For a client before its run: its threads arrive, so that [`until_arrived`] tells in which order they have queued up.
///
/// # Panics
/// Outside an exploration.
pub fn tell_arrivals(arrival: Arrival) {
    session::session().with(|state| state.arrival = Some(arrival));
}

/// The calling thread has arrived, whatever it does next.
///
/// # Panics
/// Outside an exploration, and outside its run.
#[track_caller]
pub fn arrive() {
    let (session, site) = (session::session(), Site::caller());
    session.arrive(session.thread().expect("a thread arrives while threads run"), site);
}

/// Waits until a thread has arrived. Executions in which it never does are left out, so that a client should be seen to have others.
///
/// # Panics
/// Outside an exploration, and outside its run.
#[track_caller]
pub fn until_arrived(thread: usize) {
    session::session().until_arrived(thread, Site::caller());
}

/// How often threads have woken sleepers, or tried to, for a client of one thread: others may be interrupted.
///
/// # Panics
/// Outside an exploration.
#[must_use]
pub fn wakes() -> usize {
    session::session().with(|state| state.wakes)
}

/// Explores on a new host thread. A thread of an earlier client that was forgotten while it unwound has left this one panicking, by
/// what `std` counts, so that it does not tell which thread of this client unwinds.
fn on_another_thread(explore: impl FnOnce() -> Report) -> Report {
    /// What one host thread uses while the other waits for it.
    struct Lent<T>(T);
    // SAFETY: `lent` is used by the new thread alone, while the one that it is from waits for that to end.
    unsafe impl<T> Send for Lent<T> {}
    let lent = Lent(explore);
    let explore = move || {
        let lent = lent; // all of it, not the field alone
        Lent((lent.0)())
    };
    let ended = std::thread::scope(|scope| scope.spawn(explore).join());
    ended.map_or_else(|why| std::panic::resume_unwind(why), |report| report.0)
}

fn report(session: Session, client: &dyn Fn() -> Result<(), String>, started: Instant) -> Report {
    report_or(session, client, started, &mut None)
}

fn report_or(
    session: Session,
    client: &dyn Fn() -> Result<(), String>,
    started: Instant,
    parted: &mut Option<Divergence>,
) -> Report {
    session.explore(client);
    let elapsed = started.elapsed();
    let mut session = session.into_state();
    if let Some(violation) = session.wrong_before.take() {
        return Report {
            counts: Counts::default(),
            complete: false,
            bound: None,
            cut_off: false,
            elapsed,
            counterexample: Some(Counterexample::untold(ReplayTrace::of_no_step(), violation)),
            accesses: session.accesses.take().unwrap_or_default(),
        };
    }
    let mut engine = session.engine.take().expect("a client calls Machine::run");
    if let Engine::Executions(explorer) = &mut engine {
        explorer.check_trace();
        *parted = explorer.parted.take();
    }
    let (counts, violation) = (engine.counts(), engine.violation().clone());
    let cut_off = if engine.is_too_small() { Bound::Capacity } else { Bound::Unfollowed };
    let misses_parts = session.buffers_parts && matches!(engine, Engine::Executions(_));
    let bound = session.bound.or_else(|| engine.cut_off().then_some(cut_off));
    let bound = bound.or(misses_parts.then_some(Bound::Parts));
    let counterexample = violation.map(|violation| match &engine {
        Engine::Executions(explorer) => Counterexample::of(explorer, &session.arena, violation),
        // A run from state to state becomes an execution by being run again.
        Engine::States(walker) => {
            let again = replay(session.model, walker.trace(), session.mutation, client);
            let again = again.ok().and_then(|report| report.counterexample);
            again.unwrap_or_else(|| Counterexample::untold(walker.trace(), violation))
        }
    });
    Report {
        counts,
        complete: bound.is_none() && counterexample.is_none(),
        bound: bound.filter(|_| counterexample.is_none()),
        cut_off: engine.cut_off(),
        elapsed,
        counterexample,
        accesses: session.accesses.take().unwrap_or_default(),
    }
}
