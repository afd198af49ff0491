//! One exploration of a client: what the accesses of the thread that runs now go to.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location as Site, catch_unwind};
use std::ptr::null;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use coroutine::{DefaultStack, Yielder};
use machine::{Ordering, Plain};

use super::arena::ClientMemory;
use super::engine::Engine;
use super::mutation::{Accessed, Change, Mutated, Mutation, Operation};
use super::progress::{Attempt, PolledLoad, Time};
use super::stacks::{STACK_BYTES, Snapshot, Suspended, wipe};
use super::transactions::Transaction;
use super::{Arrival, Bound, Search};
use crate::explorer::Explorer;
use crate::graph::{EventId, LocationId};
use crate::model::Model;
use crate::trace::ReplayTrace;
use crate::violation::Violation;
use crate::walker::{MOST_ENTRIES, MOST_STATES, TimeLimits, Walker};

thread_local! {
    static CURRENT: Cell<*const Session> = const { Cell::new(null()) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What leaves the client when nothing is left to run.
pub(super) struct Finished;

/// An exploration, as the client's code on any of its stacks sees it.
///
/// Threads of the client are coroutines, so between two lines of a function that suspends one of them, others may have
/// changed everything. Therefore no code has a reference to the state for longer than one access: [`Session::with`]
/// lends it to a closure, and a closure that gets the state cannot switch stacks, since that takes the session. What
/// is lent twice at once is a panic, not a second reference.
pub(super) struct Session {
    state: RefCell<State>,
    pub(super) trace: Option<ReplayTrace>,
    pub(super) scheduled: Cell<bool>,
}

/// States that any exploration may remember, some 20 MB: a few at a time may go on from there, so that what a process
/// remembers is bounded, however many explorations run at once.
const STATES_OF_EACH: usize = 900_000;

/// Runs from state to state between two looks at the clock.
const RUNS_PER_LOOK: u64 = 64;

/// Explorations that may be large at a time.
const LARGE_AT_ONCE: usize = 2;

/// Waits until few other explorations are large; none when that took too long.
fn space(is_late: impl Fn() -> bool) -> Option<MutexGuard<'static, ()>> {
    static LARGE: [Mutex<()>; LARGE_AT_ONCE] = [const { Mutex::new(()) }; LARGE_AT_ONCE];
    loop {
        for one in &LARGE {
            match one.try_lock() {
                Ok(space) => return Some(space),
                Err(TryLockError::Poisoned(space)) => return Some(space.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        if is_late() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The state of an exploration.
pub(super) struct State {
    pub(super) model: Model,
    pub(super) engine: Option<Engine>,
    pub(super) search: Search,
    /// Threads of the client that do the same, as bits.
    pub(super) alike: u32,
    pub(super) arena: ClientMemory,
    /// What locations hold as long as the client's own thread runs alone.
    settled: Vec<u64>,
    /// The thread that runs; none: the client's own.
    pub(super) thread: Option<usize>,
    pub(super) yielder: *const Yielder<(), ()>,
    pub(super) stacks: Vec<DefaultStack>,
    pub(super) stacks_by_thread: Vec<Option<DefaultStack>>,
    /// Threads that the scheduler runs step by step.
    pub(super) suspended: Vec<Suspended>,
    /// By fork: the threads and the machine as they were there.
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) attempt: Option<Attempt>,
    /// The last load of the running thread, while nothing but delays has followed it.
    pub(super) polled: Option<PolledLoad>,
    /// The clock of the running thread.
    pub(super) time: Time,
    /// The transaction of the running thread.
    pub(super) transaction: Transaction,
    pub(super) mutation: Option<Mutation>,
    /// What the mutation makes of the client before its threads begin.
    pub(super) wrong_before: Option<Violation>,
    /// Every access so far, if asked for.
    pub(super) accesses: Option<Vec<Accessed>>,
    pub(super) most_executions: u64,
    pub(super) most_states: usize,
    pub(super) bound: Option<Bound>,
    /// That this exploration may remember more states than [`STATES_OF_EACH`].
    space: Option<MutexGuard<'static, ()>>,
    /// Only executions with fewer events are wanted.
    pub(super) fewer_than: Option<usize>,
    /// When the exploration is to stop.
    pub(super) limits: TimeLimits,
    /// The thread whose nodes have no names.
    pub(super) nameless: Option<usize>,
    /// On how many dies the threads run, by turns.
    pub(super) dies: usize,
    /// What it is to arrive, if the client asks who has.
    pub(super) arrival: Option<Arrival>,
    /// How often threads have woken, or tried to, since the client began. Means something while one thread runs alone.
    pub(super) wakes: usize,
    /// Accesses of the client's own thread since the client began.
    pub(super) own_accesses: u32,
    /// A store to part of a word went into a buffer: see [`Bound::Parts`].
    pub(super) buffers_parts: bool,
}

/// The session of this thread. The reference is good for as long as the client runs: no code keeps it longer.
///
/// # Panics
/// When there is none.
#[inline(always)]
pub(super) fn session<'a>() -> &'a Session {
    let session = CURRENT.get();
    assert!(!session.is_null(), "the checked machine runs only inside checker::explore");
    // SAFETY: set by `Session::explore`, which has borrowed the session until it sets it to null again, however it
    // ends. The client, its threads and what answers them run inside that call and on the same thread. All of them
    // share it; what changes lies behind a `RefCell`.
    let session = unsafe { &*session };
    if session.scheduled.get() {
        wipe();
    }
    session
}

/// Makes a session that of this thread until it is dropped.
struct Current;

impl Current {
    fn set(session: &Session) -> Self {
        assert!(CURRENT.get().is_null(), "an exploration inside another one");
        CURRENT.set(session);
        QUIET.set(true);
        Self
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(null());
        QUIET.set(false);
    }
}

impl State {
    pub(super) fn new(model: Model) -> Self {
        Self {
            model,
            engine: None,
            search: Search::Executions,
            alike: 0,
            arena: ClientMemory::new(),
            settled: Vec::new(),
            thread: None,
            yielder: null(),
            stacks: Vec::new(),
            stacks_by_thread: Vec::new(),
            suspended: Vec::new(),
            snapshots: Vec::new(),
            attempt: None,
            polled: None,
            time: Time::default(),
            transaction: Transaction::default(),
            mutation: None,
            wrong_before: None,
            accesses: None,
            most_executions: u64::MAX,
            most_states: MOST_STATES,
            bound: None,
            space: None,
            fewer_than: None,
            limits: TimeLimits::default(),
            nameless: None,
            dies: 1,
            arrival: None,
            wakes: 0,
            own_accesses: 0,
            buffers_parts: false,
        }
    }

    pub(super) fn stopped(&mut self) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        if engine.violation().is_some() {
            return true;
        }
        let (all, states, entries) = (engine.counts().all(), engine.states(), engine.entries());
        let (is_scheduled, is_full) = (matches!(engine, Engine::States(_)), engine.is_full());
        let limits = self.limits;
        let is_late = || limits.are_over();
        let bound = if all >= self.most_executions || is_full {
            Some(Bound::Executions)
        } else if states >= self.most_states || entries >= MOST_ENTRIES {
            Some(Bound::States)
        } else {
            // An execution is long beside a look at the clock, and a run from state to state, which goes back to its last fork, is not.
            let looks = !is_scheduled || all.is_multiple_of(RUNS_PER_LOOK);
            let late = looks && is_late();
            let no_space = entries > STATES_OF_EACH && self.space.is_none() && {
                self.space = space(is_late);
                self.space.is_none()
            };
            (late || no_space).then_some(Bound::Time)
        };
        self.bound = self.bound.or(bound);
        self.bound.is_some()
    }

    #[inline]
    pub(super) fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("threads run inside an exploration")
    }

    /// The exploration of executions that this is.
    pub(super) fn explorer(&mut self) -> &mut Explorer {
        match self.engine() {
            Engine::Executions(explorer) => explorer,
            Engine::States(_) => unreachable!("threads are scheduled from state to state only"),
        }
    }

    /// Whether threads are scheduled step by step, from state to state.
    #[inline]
    pub(super) fn is_scheduled(&self) -> bool {
        matches!(self.engine, Some(Engine::States(_)))
    }

    /// The location at an address.
    #[inline]
    pub(super) fn location(&mut self, address: usize) -> LocationId {
        let (location, new_in) = self.arena.location(address);
        if let (Some(node), Some(engine)) = (new_in, &mut self.engine) {
            engine.lies_in(location, node);
        }
        location
    }

    pub(super) fn settled(&self, location: LocationId) -> u64 {
        self.settled.get(location as usize).copied().unwrap_or(0)
    }

    pub(super) fn settle(&mut self, location: LocationId, value: u64) {
        if self.settled.len() <= location as usize {
            self.settled.resize(location as usize + 1, 0);
        }
        self.settled[location as usize] = value;
    }

    /// How an access is done after the mutation: its ordering, and what else the mutation changes. This is also where
    /// accesses are noted down.
    #[inline]
    fn mutated(&mut self, access: Accessed) -> Mutated {
        if let Some(accesses) = &mut self.accesses
            && !accesses.iter().any(|other| other.same(&access))
        {
            accesses.push(access);
        }
        match &self.mutation {
            Some(mutation) if mutation.applies(&access) => match mutation.to {
                Change::To(ordering) => Mutated::new(ordering, None),
                change => Mutated::new(access.ordering, Some(change)),
            },
            _ => Mutated::new(access.ordering, None),
        }
    }

    /// A thread starts, or goes on after it was suspended where nothing was kept.
    pub(super) fn starts(&mut self, thread: usize) {
        self.thread = Some(thread);
        (self.attempt, self.polled, self.time, self.transaction) =
            (None, None, Time::default(), Transaction::default());
    }

    /// Notes that the attempt, if there is one, changes something: repeated, it may do something else.
    pub(super) fn attempt_changes(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.changed = true;
        }
    }

    /// Notes a read of an attempt; false if it makes more than are followed.
    pub(super) fn attempted(&mut self, read: EventId) -> bool {
        self.attempt.as_mut().is_none_or(|attempt| attempt.reads.push(read))
    }

    pub(super) fn new_engine(&self, trace: Option<&ReplayTrace>, threads: usize) -> Engine {
        let merges = self.search == Search::States;
        match (trace, self.search) {
            (None, Search::States | Search::Interleavings) => {
                let mut walker = Walker::new(self.model, threads, merges, self.alike);
                walker.initial.clone_from(&self.settled);
                walker.limits = self.limits;
                Engine::States(walker)
            }
            (trace, _) => {
                let mut explorer = match trace {
                    Some(trace) => Explorer::replaying(self.model, threads, trace.clone()),
                    None => Explorer::new(self.model, threads),
                };
                explorer.initial.clone_from(&self.settled);
                explorer.fewer_than = self.fewer_than;
                Engine::Executions(explorer)
            }
        }
    }

    pub(super) fn stack(&mut self) -> DefaultStack {
        self.stacks.pop().unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("memory for the stack of a checked thread")
        })
    }
}

impl Session {
    /// Makes a session that of this host thread: under Miri each of the client's threads is one.
    pub(super) fn adopt(session: *const Self) {
        CURRENT.set(session);
        QUIET.set(true);
    }

    pub(super) fn new(state: State, trace: Option<ReplayTrace>) -> Self {
        Self { state: RefCell::new(state), trace, scheduled: Cell::new(false) }
    }

    pub(super) fn into_state(self) -> State {
        self.state.into_inner()
    }

    /// Lends the state.
    ///
    /// What uses it has a frame of its own, which is wiped afterwards: it spills addresses of the host's heap, and a
    /// slot of the lock's frame that still holds one would tell apart states that are the same.
    ///
    /// # Panics
    /// When it is lent already: what a wait asks of a value, or makes of it, must not use the machine.
    #[inline]
    pub(super) fn with<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
        let result = self.lend(use_it);
        if self.scheduled.get() {
            wipe(); // frames of the lock come to lie here, with holes that nothing is written to
        }
        result
    }

    #[inline(never)]
    fn lend<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.try_borrow_mut().expect("a condition on a value may not use the machine");
        use_it(&mut state)
    }

    /// Runs the client again and again until all its executions were seen, one was wrong, or a limit was reached.
    pub(super) fn explore(&self, client: &dyn Fn() -> Result<(), String>) {
        quieten_panics();
        let current = Current::set(self);
        loop {
            self.with(|state| {
                state.arena.reset_main();
                state.settled.fill(0);
                (state.thread, state.nameless, state.dies, state.wakes) = (None, None, 1, 0);
                (state.arrival, state.own_accesses) = (None, 0);
            });
            let wrong = match catch_unwind(AssertUnwindSafe(client)) {
                Ok(Ok(())) => None,
                Ok(Err(message)) => Some(message),
                Err(payload) if payload.is::<Finished>() => break,
                Err(payload) => Some(message_of(&*payload)),
            };
            let without_a_run = self.with(|state| match (&mut state.engine, &wrong) {
                (Some(engine), Some(message)) => {
                    let violation = Violation::Panic { thread: None, message: message.clone() };
                    engine.violation().get_or_insert(violation);
                    false
                }
                (None, Some(message)) if state.mutation.is_some() => {
                    let violation = Violation::Panic { thread: None, message: message.clone() };
                    state.wrong_before = Some(violation);
                    false
                }
                (engine, _) => engine.is_none(),
            });
            if without_a_run {
                drop(current);
                panic!(
                    "a client calls Machine::run{}",
                    wrong.map_or(String::new(), |why| format!(": {why}"))
                );
            }
            if wrong.is_some() || self.trace.is_some() {
                break;
            }
        }
    }

    /// The thread that runs; none: the client's own, which is alone.
    #[inline]
    pub(super) fn thread(&self) -> Option<usize> {
        self.with(|state| state.thread)
    }

    /// How an access is done after the mutation: its ordering, and what else the mutation changes.
    #[inline]
    pub(super) fn mutated(
        &self,
        operation: Operation,
        ordering: Ordering,
        site: &'static Site<'static>,
        is_address: bool,
    ) -> (Ordering, Option<Change>) {
        self.with(|state| state.mutated(Accessed { site, operation, ordering, is_address })).unpack()
    }

    /// What a mutation changes of something that has no ordering.
    #[inline]
    pub(super) fn change(&self, operation: Operation, site: &'static Site<'static>) -> Option<Change> {
        self.mutated(operation, Ordering::Relaxed, site, false).1
    }

    pub(super) fn settle(&self, location: LocationId, value: u64) {
        self.with(|state| state.settle(location, value));
    }
}

/// A value of a word as bits.
#[inline]
pub(super) fn bits<T: Plain>(value: T) -> u64 {
    value.to_bits()
}

pub(super) fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// Lets panics inside explorations be silent: they are findings, reported with their table.
fn quieten_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                earlier(info);
            }
        }));
    });
}
