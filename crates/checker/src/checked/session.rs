//! One exploration of a client: what the accesses of the thread that runs now go to.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location as Site, catch_unwind, resume_unwind};
use std::ptr::{NonNull, null};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use coroutine::{Coroutine, CoroutineResult, DefaultStack, GivenUp, Yielder};
use machine::{Deadline, Event as Note, Ordering, Plain, Plan, Run};

use super::arena::{Arena, NodeLocations};
use super::engine::Engine;
use super::mutation::{Accessed, Change, Mutation, Operation};
use super::turns::{Snapshot, Waiting};
use super::{Bound, Search};
use crate::explorer::{Access, Explorer, Stop};
use crate::graph::{Compare, EventId, Kind, LocationId, MAX_THREADS};
use crate::model::{Model, Strength};
use crate::script::Script;
use crate::violation::Violation;
use crate::walker::{Key, MOST_STATES, Walker};

/// Bytes of a coroutine's stack; touched pages only are there.
pub(super) const STACK_BYTES: usize = 256 << 10;

thread_local! {
    static CURRENT: Cell<*const Session> = const { Cell::new(null()) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What leaves the client when nothing is left to run.
struct Finished;

/// What a `spin_rmw` attempt has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempt {
    reads: Reads,
    /// Something was written that was not there before.
    changed: bool,
    /// A read-modify-write that writes what it read, not entered yet.
    pending: Option<(Access, u64, EventId)>,
}

/// A load that a later one may repeat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    location: LocationId,
    read: EventId,
    value: u64,
    /// A delay has passed since.
    delayed: bool,
    repeated: u32,
}

/// What a thread knows of the time. The clock that threads share is not modelled: each has its own, which never goes
/// back, so that all orders of what one thread sees of the time come up, and some more between threads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Time {
    ns: u64,
    /// The clock was looked at: from now on it may have gone on.
    looked: bool,
    /// It went on by as much as matters to anybody. Once in a thread is enough for each of its looks to be the first
    /// that comes too late.
    passed: bool,
}

/// How far the clock of a thread goes on at once: past every limit.
const LONG_NS: u64 = 1 << 40;

impl Time {
    pub(super) fn add_to(&self, key: &mut Key) {
        key.add(self.ns << 2 | u64::from(self.looked) << 1 | u64::from(self.passed));
    }
}

impl Attempt {
    pub(super) fn add_to(&self, key: &mut Key) {
        let pending = self.pending.map_or(0, |(_, value, _)| value.wrapping_add(1));
        key.add(1 << 32 | u64::from(self.changed));
        key.add(pending);
        self.reads.iter().for_each(|read| key.add(u64::from(read.index) << 32));
    }
}

impl Look {
    pub(super) fn add_to(&self, key: &mut Key) {
        key.add(u64::from(self.location) << 33 | u64::from(self.repeated) << 1 | u64::from(self.delayed));
        key.add(self.value);
    }
}

/// Reads that a wait may rest on: few, and none of them on the heap, since a thread that waits is never unwound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    list: [EventId; MOST_READS],
    count: usize,
}

const MOST_READS: usize = 8;

impl Default for Reads {
    fn default() -> Self {
        Self { list: [EventId::INITIAL; MOST_READS], count: 0 }
    }
}

impl Reads {
    pub(super) fn of(reads: &[Option<EventId>]) -> Self {
        let mut all = Self::default();
        reads.iter().copied().flatten().for_each(|read| all.push(read));
        all
    }

    pub(super) fn push(&mut self, read: EventId) {
        assert!(self.count < MOST_READS, "a wait rests on more than {MOST_READS} reads");
        self.list[self.count] = read;
        self.count += 1;
    }

    fn iter(&self) -> impl Iterator<Item = &EventId> {
        self.list[..self.count].iter()
    }
}

/// Looks that a thread takes at a word before it counts as waiting for another value.
const MOST_LOOKS: u32 = 1_000;

/// An exploration, as the client's code on any of its stacks sees it.
///
/// Threads of the client are coroutines, so between two lines of a function that suspends one of them, others may have
/// changed everything. Therefore nobody has a reference to the state for longer than one access: [`Session::with`]
/// lends it to a closure, and a closure that gets the state cannot switch stacks, since that takes the session. What
/// is lent twice at once is a panic, not a second reference.
pub(super) struct Session {
    state: RefCell<State>,
    script: Option<Script>,
    by_turns: Cell<bool>,
}

/// States that any exploration may remember, some 20 MB: one at a time may go on from there, so that what a process
/// remembers is bounded, however many explorations run at once.
const STATES_OF_EACH: usize = 900_000;

/// Waits until no other exploration is large; none when that took too long.
fn room(is_late: impl Fn() -> bool) -> Option<MutexGuard<'static, ()>> {
    static LARGE: Mutex<()> = Mutex::new(());
    loop {
        match LARGE.try_lock() {
            Ok(room) => return Some(room),
            Err(TryLockError::Poisoned(room)) => return Some(room.into_inner()),
            Err(TryLockError::WouldBlock) if is_late() => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The state of an exploration.
pub(super) struct State {
    pub(super) model: Model,
    pub(super) engine: Option<Engine>,
    pub(super) search: Search,
    /// All threads of the client do the same.
    pub(super) alike: bool,
    pub(super) arena: Arena,
    /// What locations hold as long as the client's own thread runs alone.
    settled: Vec<u64>,
    /// The thread that runs; none: the client's own.
    pub(super) thread: Option<usize>,
    yielder: *const Yielder<(), ()>,
    stacks: Vec<DefaultStack>,
    pub(super) stacks_by_thread: Vec<Option<DefaultStack>>,
    /// Threads that take turns.
    pub(super) waiting: Vec<Waiting>,
    /// By fork: the threads and the machine as they were there.
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) attempt: Option<Attempt>,
    /// The last load of the running thread, while nothing but delays has followed it.
    pub(super) look: Option<Look>,
    /// The clock of the running thread.
    pub(super) time: Time,
    pub(super) mutation: Option<Mutation>,
    /// Every access so far, if asked for.
    pub(super) accesses: Option<Vec<Accessed>>,
    pub(super) most_executions: u64,
    pub(super) most_states: usize,
    pub(super) until: Option<Instant>,
    pub(super) bound: Option<Bound>,
    /// That this exploration may remember more states than [`STATES_OF_EACH`].
    room: Option<MutexGuard<'static, ()>>,
    /// Only executions with fewer events are wanted.
    pub(super) fewer_than: Option<usize>,
    /// Whoever wants the exploration to stop sets it.
    pub(super) stop: Option<&'static AtomicBool>,
    /// The thread whose nodes have no names.
    pub(super) nameless: Option<usize>,
}

/// The session of this thread. The reference is good for as long as the client runs: nobody keeps it longer.
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
    if session.by_turns.get() {
        super::turns::wipe();
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
            alike: false,
            arena: Arena::new(),
            settled: Vec::new(),
            thread: None,
            yielder: null(),
            stacks: Vec::new(),
            stacks_by_thread: Vec::new(),
            waiting: Vec::new(),
            snapshots: Vec::new(),
            attempt: None,
            look: None,
            time: Time::default(),
            mutation: None,
            accesses: None,
            most_executions: u64::MAX,
            most_states: MOST_STATES,
            until: None,
            bound: None,
            room: None,
            fewer_than: None,
            stop: None,
            nameless: None,
        }
    }

    pub(super) fn stopped(&mut self) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        if engine.violation().is_some() {
            return true;
        }
        let (all, states) = (engine.counts().all(), engine.states());
        let is_late = || {
            self.until.is_some_and(|until| Instant::now() >= until)
                || self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
        };
        let bound = if all >= self.most_executions {
            Some(Bound::Executions)
        } else if states >= self.most_states {
            Some(Bound::States)
        } else {
            let late = all.is_multiple_of(1024) && is_late();
            let crowded = states > STATES_OF_EACH && self.room.is_none() && {
                self.room = room(is_late);
                self.room.is_none()
            };
            (late || crowded).then_some(Bound::Time)
        };
        self.bound = self.bound.or(bound);
        self.bound.is_some()
    }

    #[inline]
    pub(super) fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("threads run inside an exploration")
    }

    /// The exploration of executions that this is.
    fn explorer(&mut self) -> &mut Explorer {
        match self.engine() {
            Engine::Executions(explorer) => explorer,
            Engine::States(_) => unreachable!("threads take turns from state to state"),
        }
    }

    /// Whether threads take turns, from state to state.
    #[inline]
    fn takes_turns(&self) -> bool {
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

    fn settled(&self, location: LocationId) -> u64 {
        self.settled.get(location as usize).copied().unwrap_or(0)
    }

    fn settle(&mut self, location: LocationId, value: u64) {
        if self.settled.len() <= location as usize {
            self.settled.resize(location as usize + 1, 0);
        }
        self.settled[location as usize] = value;
    }

    /// How an access is done after the mutation: its ordering, and what else the mutation changes. This is also where
    /// accesses are noted down.
    #[inline]
    fn mutated(&mut self, access: Accessed) -> (Ordering, Option<Change>) {
        if let Some(accesses) = &mut self.accesses
            && !accesses.iter().any(|other| other.same(&access))
        {
            accesses.push(access);
        }
        match &self.mutation {
            Some(mutation) if mutation.applies(&access) => match mutation.to {
                Change::To(ordering) => (ordering, None),
                change => (access.ordering, Some(change)),
            },
            _ => (access.ordering, None),
        }
    }

    /// A thread starts, or goes on after it was suspended where nothing was kept.
    fn starts(&mut self, thread: usize) {
        self.thread = Some(thread);
        (self.attempt, self.look, self.time) = (None, None, Time::default());
    }

    fn attempted(&mut self, read: EventId) {
        if let Some(attempt) = &mut self.attempt {
            attempt.reads.push(read);
        }
    }

    fn new_engine(&self, script: Option<&Script>, threads: usize) -> Engine {
        let merges = self.search == Search::States;
        match (script, self.search) {
            (None, Search::States | Search::Interleavings) => {
                let mut walker = Walker::new(self.model, threads, merges, self.alike);
                walker.initial.clone_from(&self.settled);
                Engine::States(walker)
            }
            (script, _) => {
                let mut explorer = match script {
                    Some(script) => Explorer::scripted(self.model, threads, script.clone()),
                    None => Explorer::new(self.model, threads),
                };
                explorer.initial.clone_from(&self.settled);
                explorer.fewer_than = self.fewer_than;
                Engine::Executions(explorer)
            }
        }
    }

    fn stack(&mut self) -> DefaultStack {
        self.stacks.pop().unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("memory for the stack of a checked thread")
        })
    }
}

impl Session {
    pub(super) fn new(state: State, script: Option<Script>) -> Self {
        Self { state: RefCell::new(state), script, by_turns: Cell::new(false) }
    }

    pub(super) fn into_state(self) -> State {
        self.state.into_inner()
    }

    /// Lends the state.
    ///
    /// # Panics
    /// When it is lent already: what a wait asks of a value, or makes of it, must not use the machine.
    #[inline]
    pub(super) fn with<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
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
                (state.thread, state.nameless) = (None, None);
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
                (engine, _) => engine.is_none(),
            });
            if without_a_run {
                drop(current);
                panic!(
                    "a client calls Machine::run{}",
                    wrong.map_or(String::new(), |why| format!(": {why}"))
                );
            }
            if wrong.is_some() || self.script.is_some() {
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
        self.with(|state| state.mutated(Accessed { site, operation, ordering, is_address }))
    }

    /// What a mutation changes of something that has no ordering.
    #[inline]
    pub(super) fn change(&self, operation: Operation, site: &'static Site<'static>) -> Option<Change> {
        self.mutated(operation, Ordering::Relaxed, site, false).1
    }

    /// Asks until there is an answer; does not return when the thread does not go on.
    #[inline]
    fn answered<T>(&self, mut ask: impl FnMut(&mut State) -> Result<T, Stop>) -> T {
        let by_turns = self.with(|state| {
            state.look = None;
            state.takes_turns()
        });
        if by_turns {
            return self.take_turn(ask);
        }
        loop {
            let asked = self.with(&mut ask);
            if let Ok(answer) = asked {
                return answer;
            }
            self.suspend();
        }
    }

    #[cold]
    fn suspend(&self) {
        let (thread, yielder, attempt, time) =
            self.with(|state| (state.thread, state.yielder, state.attempt.take(), state.time));
        // SAFETY: the yielder of the coroutine that runs, which is alive.
        unsafe { (*yielder).suspend(()) };
        self.with(|state| {
            (state.thread, state.yielder, state.attempt, state.look) = (thread, yielder, attempt, None);
            state.time = time;
        });
    }

    /// A prepared access of the running thread; the client's own thread makes none: it gets what the location holds.
    #[inline]
    fn access(
        &self,
        address: usize,
        strength: impl FnOnce(Model) -> Strength,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) -> Result<Access, (LocationId, u64)> {
        self.with(|state| {
            let location = state.location(address);
            let Some(thread) = state.thread else { return Err((location, state.settled(location))) };
            let strength = strength(state.model);
            Ok(Access { thread, location, strength, ordering, site: Some(site), compare: None })
        })
    }

    fn settle(&self, location: LocationId, value: u64) {
        self.with(|state| state.settle(location, value));
    }

    /// Reads a word and says which event that was.
    #[inline]
    pub(super) fn load(
        &self,
        address: usize,
        ordering: Ordering,
        site: &'static Site<'static>,
        mut wanted: Option<&mut dyn FnMut(u64) -> bool>,
    ) -> (Option<EventId>, u64) {
        let access = match self.access(address, |model| model.load(ordering), ordering, site) {
            Ok(access) => access,
            Err((_, value)) => return (None, value),
        };
        let location = access.location;
        if let Some(look) = self.with(|state| state.look)
            && look.delayed
            && look.location == location
            && wanted.is_none()
        {
            return self.look_again(look);
        }
        let (read, value) = self.answered(|state| {
            let wanted = wanted.as_mut().map(|wanted| &mut **wanted as &mut dyn FnMut(u64) -> bool);
            state.engine().read(access, wanted)
        });
        self.with(|state| {
            state.attempted(read);
            state.look = Some(Look { location, read, value, delayed: false, repeated: 0 });
        });
        (Some(read), value)
    }

    /// Loads of one word with nothing but delays between them count as one: what a look found changed nothing, so
    /// the executions in which it was not taken show the same, and have all the looks that are left. A thread that
    /// only goes on looking waits.
    fn look_again(&self, look: Look) -> (Option<EventId>, u64) {
        if look.repeated == MOST_LOOKS {
            self.wait(Reads::of(&[Some(look.read)]), false, "polls a word that does not change");
        }
        self.with(|state| state.look = Some(Look { repeated: look.repeated + 1, ..look }));
        (Some(look.read), look.value)
    }

    /// Time passes.
    pub(super) fn delay(&self) {
        self.with(|state| {
            if let Some(look) = &mut state.look {
                look.delayed = true;
            }
        });
    }

    #[inline]
    pub(super) fn store(&self, address: usize, value: u64, ordering: Ordering, site: &'static Site<'static>) {
        let access = match self.access(address, |model| model.store(ordering), ordering, site) {
            Ok(access) => access,
            Err((location, _)) => return self.settle(location, value),
        };
        let fenced = self.with(|state| {
            if let Some(attempt) = &mut state.attempt {
                attempt.changed = true;
            }
            state.model.fence_after_store(ordering)
        });
        self.answered(|state| state.engine().write(access, value, None));
        if fenced {
            self.answered(|state| {
                state.engine().add_fence(access.thread, Strength::FULL, ordering, Some(site))
            });
        }
    }

    /// Reads a word and writes what `update` makes of it, if anything; gives what was read.
    #[inline]
    pub(super) fn read_modify_write(
        &self,
        address: usize,
        ordering: Ordering,
        site: &'static Site<'static>,
        update: impl Fn(u64) -> u64,
    ) -> u64 {
        match self.access(address, |model| model.rmw_read(ordering), ordering, site) {
            Ok(read) => self.exchange(read, |model| model.rmw_write(ordering), |old| Some(update(old))),
            Err((location, old)) => {
                self.settle(location, update(old));
                old
            }
        }
    }

    /// The two halves of a read-modify-write.
    fn exchange(
        &self,
        access: Access,
        write: impl FnOnce(Model) -> Strength,
        update: impl Fn(u64) -> Option<u64>,
    ) -> u64 {
        let (read, old) = self.answered(|state| state.engine().read(access, None));
        let new = update(old);
        let write = self.with(|state| {
            state.attempted(read);
            let Some(new) = new else {
                // It changed nothing: a load after a delay may count as the same look.
                state.look =
                    Some(Look { location: access.location, read, value: old, delayed: false, repeated: 0 });
                return None;
            };
            let write = Access { strength: write(state.model), compare: None, ..access };
            match &mut state.attempt {
                Some(attempt) if new == old => {
                    attempt.pending = Some((write, new, read));
                    None
                }
                attempt => {
                    if let Some(attempt) = attempt {
                        attempt.changed = true;
                    }
                    Some((write, new))
                }
            }
        });
        if let Some((write, new)) = write {
            self.answered(|state| state.engine().write(write, new, Some(read)));
        }
        old
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn compare_exchange(
        &self,
        address: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
        site: &'static Site<'static>,
    ) -> Result<u64, u64> {
        let old = match self.access(address, |model| model.rmw_read(success), success, site) {
            Ok(access) => {
                let failure = self.with(|state| state.model.failed_exchange(success, failure));
                let compare = Compare { expected: current, success: access.strength, failure };
                let access = Access { compare: Some(compare), ..access };
                self.exchange(access, |model| model.rmw_write(success), |old| (old == current).then_some(new))
            }
            Err((location, old)) => {
                if old == current {
                    self.settle(location, new);
                }
                old
            }
        };
        if old == current { Ok(old) } else { Err(old) }
    }

    /// Writes the bits of `mask` and leaves the others.
    pub(super) fn store_part(
        &self,
        address: usize,
        mask: u64,
        bits: u64,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) {
        let half = Strength::EXCLUSIVE.with(Strength::PART);
        let write = move |model: Model| model.store(ordering).with(half);
        let access = match self.access(address, |_| half, ordering, site) {
            Ok(access) => access,
            Err((location, old)) => return self.settle(location, old & !mask | bits),
        };
        let by_turns = self.with(|state| state.takes_turns().then(|| write(state.model)));
        if let Some(strength) = by_turns {
            let access = Access { strength, ..access };
            return self.answered(|state| state.walker().write_part(access, mask, bits));
        }
        self.exchange(access, write, |old| Some(old & !mask | bits));
    }

    pub(super) fn fence(&self, ordering: Ordering, site: &'static Site<'static>) {
        if let Some(thread) = self.thread() {
            self.answered(|state| state.engine().fence(thread, ordering, Some(site)));
        }
    }

    pub(super) fn plain(&self, address: usize, written: Option<u64>, site: &'static Site<'static>) -> u64 {
        match self.access(address, |_| Strength::NONE, Ordering::Relaxed, site) {
            Ok(access) => self.answered(|state| state.engine().plain(access, written)),
            Err((location, old)) => {
                let value = written.unwrap_or(old);
                self.settle(location, value);
                value
            }
        }
    }

    pub(super) fn note(&self, note: Note, site: &'static Site<'static>) {
        if let Some(thread) = self.thread() {
            self.answered(|state| state.engine().note(thread, note, Some(site)));
        }
    }

    pub(super) fn choose(&self, choices: u64, site: &'static Site<'static>) -> u64 {
        let thread = self.thread().expect("only threads choose");
        self.answered(|state| state.engine().choose(thread, choices, Some(site)))
    }

    /// The clock: of each two looks of a thread the second may come too late for anything.
    pub(super) fn clock_ns(&self, site: &'static Site<'static>) -> u64 {
        if self.thread().is_none() {
            return 0;
        }
        let may_pass =
            self.with(|state| std::mem::replace(&mut state.time.looked, true) && !state.time.passed);
        if may_pass && self.choose(2, site) == 1 {
            self.with(|state| {
                state.time.passed = true;
                state.time.ns += LONG_NS;
            });
        }
        self.with(|state| state.time.ns)
    }

    /// A wait of the running thread ended since its deadline has passed, which its clock now says too.
    pub(super) fn has_passed(&self, deadline: Option<Deadline>) {
        if let Some(deadline) = deadline {
            self.with(|state| state.time.ns = state.time.ns.max(deadline.at_ns));
        }
    }

    /// The thread waits; see [`Explorer::wait`]. Does not return.
    pub(super) fn wait(&self, reads: Reads, limited: bool, what: &'static str) -> ! {
        let Some(thread) = self.thread() else {
            panic!("the client's own thread {what}, but it is alone and nobody ends that");
        };
        let by_turns = self.with(|state| {
            state.engine().wait(thread, &reads.list[..reads.count], limited, what);
            state.takes_turns()
        });
        loop {
            if by_turns {
                self.hand_over(None);
            } else {
                self.suspend();
            }
        }
    }

    /// Runs an attempt of a `spin_rmw`. If it failed and changed nothing, gives what it read, for waiting.
    pub(super) fn attempt(&self, attempt: impl FnOnce() -> bool) -> Result<(), Option<Reads>> {
        self.with(|state| state.attempt = Some(Attempt::default()));
        let succeeded = attempt();
        let done = self.with(|state| state.attempt.take()).expect("attempts do not nest");
        if !succeeded {
            return Err((!done.changed).then_some(done.reads));
        }
        if let Some((access, value, read)) = done.pending {
            self.answered(|state| state.engine().write(access, value, Some(read)));
        }
        Ok(())
    }

    /// The location that stands for the sleepers of the futex word at an address.
    pub(super) fn queue_of(&self, address: usize) -> LocationId {
        self.with(|state| {
            let word = state.location(address);
            state.arena.queue_of(word)
        })
    }

    /// Marks a node as taken or given back.
    fn mark_node(&self, life: LocationId, kind: Kind, site: &'static Site<'static>) {
        let thread = self.thread().expect("only threads take nodes");
        self.answered(|state| state.engine().node(thread, life, kind, Some(site)));
    }

    fn hidden(
        &self,
        location: LocationId,
        strength: impl FnOnce(Model) -> Strength,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) -> Access {
        let (thread, strength) = self.with(|state| (state.thread, strength(state.model)));
        let thread = thread.expect("the client's own thread has no accesses of its own");
        Access { thread, location, strength, ordering, site: Some(site), compare: None }
    }

    /// Reads a location that stands for something else than memory.
    pub(super) fn load_hidden(
        &self,
        location: LocationId,
        ordering: Ordering,
        site: &'static Site<'static>,
        mut wanted: Option<&mut dyn FnMut(u64) -> bool>,
    ) -> (EventId, u64) {
        let access = self.hidden(location, |model| model.load(ordering), ordering, site);
        self.answered(|state| {
            let wanted = wanted.as_mut().map(|wanted| &mut **wanted as &mut dyn FnMut(u64) -> bool);
            state.engine().read(access, wanted)
        })
    }

    fn store_hidden(
        &self,
        location: LocationId,
        value: u64,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) {
        let access = self.hidden(location, |model| model.store(ordering), ordering, site);
        self.answered(|state| state.engine().write(access, value, None));
    }

    pub(super) fn update_hidden(
        &self,
        location: LocationId,
        site: &'static Site<'static>,
        update: impl Fn(u64) -> u64,
    ) -> u64 {
        let ordering = Ordering::AcqRel;
        let access = self.hidden(location, |model| model.rmw_read(ordering), ordering, site);
        self.exchange(access, |model| model.rmw_write(ordering), |old| Some(update(old)))
    }

    /// Runs executions until one comes to its end.
    pub(super) fn run(&self, plan: &Plan<'_>, body: &(dyn Fn(usize) + Sync)) -> Run {
        assert!(self.thread().is_none(), "a thread of the checked machine cannot run others");
        assert!(
            (1..MAX_THREADS).contains(&plan.threads),
            "the checked machine runs 1 to {} threads, not {}",
            MAX_THREADS - 1,
            plan.threads
        );
        self.with(|state| {
            if state.engine.is_none() {
                state.engine = Some(state.new_engine(self.script.as_ref(), plan.threads));
                self.by_turns.set(state.takes_turns());
            }
        });
        loop {
            let (goes_on, by_turns) = self.with(|state| {
                let goes_on = !state.stopped() && state.engine().begin();
                state.arena.reset_threads();
                (goes_on, state.takes_turns())
            });
            if !goes_on {
                resume_unwind(Box::new(Finished));
            }
            if by_turns {
                if !self.run_by_turns(plan.threads, body) {
                    continue;
                }
            } else if self.script.is_some() {
                self.run_together(plan.threads, body);
            } else {
                let first = self.with(|state| state.explorer().half_done());
                for thread in
                    first.into_iter().chain((0..plan.threads).filter(|&thread| first != Some(thread)))
                {
                    self.run_thread(thread, body);
                    if self.with(|state| state.explorer().is_over()) {
                        break;
                    }
                }
            }
            let complete = self.with(|state| {
                state.thread = None;
                let complete = by_turns || state.explorer().finish();
                if complete {
                    for location in 0..state.arena.offsets.len() as LocationId {
                        let value = state.engine().last_value(location);
                        state.settle(location, value);
                    }
                }
                complete
            });
            if complete {
                return Run::default();
            }
            if self.script.is_some() {
                resume_unwind(Box::new(Finished));
            }
        }
    }

    pub(super) fn fiber(
        &self,
        thread: usize,
        stack: DefaultStack,
        body: &(dyn Fn(usize) + Sync),
    ) -> Coroutine<(), (), (), DefaultStack> {
        let own = std::ptr::from_ref(self);
        let run = move |yielder: &Yielder<(), ()>, ()| {
            // Under Miri this is another host thread.
            CURRENT.set(own);
            QUIET.set(true);
            session().with(|state| {
                state.yielder = yielder;
                if let Some(waiting) = state.waiting.get_mut(thread) {
                    waiting.yielder = Some(yielder);
                }
            });
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(thread)))
                && !payload.is::<GivenUp>()
            {
                let message = message_of(&*payload);
                let violation = Violation::Panic { thread: Some(thread), message };
                session().with(|state| state.engine().violate(violation));
            }
        };
        // SAFETY: the coroutine is finished or reset before `run` returns, so before `body` ends.
        unsafe { Coroutine::with_stack_unchecked(stack, run) }
    }

    fn run_thread(&self, thread: usize, body: &(dyn Fn(usize) + Sync)) {
        let stack = self.with(|state| {
            state.starts(thread);
            state.stack()
        });
        let mut fiber = self.fiber(thread, stack, body);
        if let CoroutineResult::Yield(()) = fiber.resume(()) {
            // SAFETY: what lies on the stack is dropped by nobody: frames of locks and clients own nothing outside
            // the arena while they access it.
            unsafe { fiber.force_reset() };
        }
        self.with(|state| state.stacks.push(fiber.into_stack()));
    }

    /// Runs the threads by turns, as far as the script lets them.
    fn run_together(&self, threads: usize, body: &(dyn Fn(usize) + Sync)) {
        let mut fibers = (0..threads)
            .map(|thread| {
                let stack = self.with(State::stack);
                self.fiber(thread, stack, body)
            })
            .collect::<Vec<_>>();
        loop {
            let events = || self.with(|state| state.explorer().graph.stamp);
            let before = events();
            let mut ended = false;
            for (thread, fiber) in fibers.iter_mut().enumerate() {
                if fiber.done() || self.with(|state| state.explorer().is_over()) {
                    continue;
                }
                self.with(|state| state.starts(thread));
                fiber.resume(());
                ended |= fiber.done();
            }
            if events() == before && !ended {
                break;
            }
        }
        for mut fiber in fibers {
            if !fiber.done() {
                // SAFETY: as in `run_thread`.
                unsafe { fiber.force_reset() };
            }
            self.with(|state| state.stacks.push(fiber.into_stack()));
        }
    }

    pub(super) fn take_node(&self, of: TypeId, site: &'static Site<'static>) -> (NonNull<u8>, Option<u32>) {
        // No thread has the last number, so that the client's own may use its pool.
        let thread = self.thread().unwrap_or(MAX_THREADS - 1);
        for index in 0..super::arena::POOL_NODES {
            let (node, locations) = self.with(|state| state.arena.node(of, thread, index));
            if self.claim(locations, site) {
                let nameless = self.with(|state| state.nameless == Some(thread));
                let is_named = index < super::arena::NAMED_NODES && !nameless;
                let name = thread * super::arena::NAMED_NODES + index;
                return (node, is_named.then_some(name as u32));
            }
        }
        panic!("thread {thread} holds more than {} queue nodes at once", super::arena::POOL_NODES);
    }

    /// Takes a node unless somebody has it.
    fn claim(&self, node: NodeLocations, site: &'static Site<'static>) -> bool {
        if self.thread().is_none() {
            return self.with(|state| {
                let is_free = state.settled(node.taken) == 0;
                state.settle(node.taken, 1);
                is_free
            });
        }
        let (_, taken) = self.load_hidden(node.taken, Ordering::Acquire, site, None);
        if taken == 0 {
            self.store_hidden(node.taken, 1, Ordering::Relaxed, site);
            self.mark_node(node.life, Kind::Take, site);
        }
        taken == 0
    }

    pub(super) fn give_node(&self, address: usize, site: &'static Site<'static>) {
        let locations = self.with(|state| state.arena.node_of(address));
        if self.thread().is_none() {
            return self.settle(locations.taken, 0);
        }
        self.mark_node(locations.life, Kind::Give, site);
        self.store_hidden(locations.taken, 0, Ordering::Release, site);
    }

    /// How many nodes are out of their pools while the client's own thread runs alone.
    pub(super) fn nodes_out(&self) -> usize {
        self.with(|state| state.arena.taken().filter(|&taken| state.settled(taken) != 0).count())
    }
}

/// A value of a word as bits.
#[inline]
pub(super) fn bits<T: Plain>(value: T) -> u64 {
    value.to_bits()
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// Lets panics inside explorations be silent: they are findings, told with their table.
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
