//! One exploration of a client: what the accesses of the thread that runs now go to.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location as Site, catch_unwind, resume_unwind};
use std::ptr::{NonNull, null_mut};
use std::time::Instant;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use machine::{Event as Note, Ordering, Plain, Plan, Run};

use super::Search;
use super::arena::Arena;
use super::engine::Engine;
use super::mutation::{Accessed, Mutation, Operation};
use super::turns::{Snapshot, Waiting};
use crate::explorer::{Access, Explorer, Stop};
use crate::graph::{Compare, EventId, Kind, LocationId, MAX_THREADS};
use crate::model::{Model, Strength};
use crate::script::Script;
use crate::violation::Violation;
use crate::walker::{Key, Walker};

/// Bytes of a coroutine's stack; touched pages only are there.
pub(super) const STACK_BYTES: usize = 256 << 10;

thread_local! {
    static CURRENT: Cell<*mut Session> = const { Cell::new(null_mut()) };
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

/// The state of an exploration.
pub(super) struct Session {
    pub(super) model: Model,
    pub(super) engine: Option<Engine>,
    pub(super) search: Search,
    /// All threads of the client do the same.
    pub(super) alike: bool,
    pub(super) arena: Arena,
    script: Option<Script>,
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
    pub(super) mutation: Option<Mutation>,
    /// Every access so far, if asked for.
    pub(super) accesses: Option<Vec<Accessed>>,
    pub(super) most_executions: u64,
    pub(super) until: Option<Instant>,
    pub(super) bounded: bool,
    /// Only executions with fewer events are wanted.
    pub(super) fewer_than: Option<usize>,
}

/// The session of this thread.
///
/// # Panics
/// When there is none.
#[inline]
#[allow(clippy::mut_from_ref)]
pub(super) fn session<'a>() -> &'a mut Session {
    let session = CURRENT.get();
    assert!(!session.is_null(), "the checked machine runs only inside checker::explore");
    // SAFETY: set by `Session::explore` for as long as the session lives. It is used by one thread only, and every
    // use ends before the next begins: closures of a lock that run inside one do not call the machine.
    unsafe { &mut *session }
}

impl Session {
    pub(super) fn new(model: Model, script: Option<Script>) -> Self {
        Self {
            model,
            engine: None,
            search: Search::Executions,
            alike: false,
            arena: Arena::new(),
            script,
            settled: Vec::new(),
            thread: None,
            yielder: std::ptr::null(),
            stacks: Vec::new(),
            stacks_by_thread: Vec::new(),
            waiting: Vec::new(),
            snapshots: Vec::new(),
            attempt: None,
            look: None,
            mutation: None,
            accesses: None,
            most_executions: u64::MAX,
            until: None,
            bounded: false,
            fewer_than: None,
        }
    }

    /// Runs the client again and again until all its executions were seen, one was wrong, or a limit was reached.
    pub(super) fn explore(&mut self, client: &dyn Fn() -> Result<(), String>) {
        quieten_panics();
        assert!(CURRENT.get().is_null(), "an exploration inside another one");
        CURRENT.set(self);
        QUIET.set(true);
        loop {
            let this = session();
            this.arena.reset_main();
            this.settled.fill(0);
            this.thread = None;
            let wrong = match catch_unwind(AssertUnwindSafe(client)) {
                Ok(Ok(())) => None,
                Ok(Err(message)) => Some(message),
                Err(payload) if payload.is::<Finished>() => break,
                Err(payload) => Some(message_of(&*payload)),
            };
            let this = session();
            let engine = this.engine.as_mut().expect("a client calls Machine::run");
            if let Some(message) = wrong {
                engine.violation().get_or_insert(Violation::Panic { thread: None, message });
                break;
            }
            if this.script.is_some() {
                break;
            }
        }
        CURRENT.set(null_mut());
        QUIET.set(false);
    }

    pub(super) fn stopped(&mut self) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        let all = engine.counts().all();
        let late = all.is_multiple_of(1024) && self.until.is_some_and(|until| Instant::now() >= until);
        self.bounded |= late || all >= self.most_executions;
        engine.violation().is_some() || engine.is_full() || self.bounded
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

    /// The thread that runs; none: the client's own, which is alone.
    #[inline]
    pub(super) fn thread(&self) -> Option<usize> {
        self.thread
    }

    /// The ordering of an access after the mutation, which is also where accesses are noted down.
    #[inline]
    pub(super) fn ordering(
        &mut self,
        operation: Operation,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) -> Ordering {
        if let Some(accesses) = &mut self.accesses {
            let access = Accessed { site, operation, ordering };
            if !accesses.iter().any(|other| other.same(&access)) {
                accesses.push(access);
            }
        }
        match &self.mutation {
            Some(mutation) if mutation.applies(operation, ordering, site) => mutation.to,
            _ => ordering,
        }
    }

    /// Asks until there is an answer; does not return when the thread does not go on.
    #[inline]
    fn answered<T>(&mut self, mut ask: impl FnMut(&mut Self) -> Result<T, Stop>) -> T {
        self.look = None;
        if self.takes_turns() {
            return self.take_turn(ask);
        }
        loop {
            match ask(self) {
                Ok(answer) => return answer,
                Err(_) => self.suspend(),
            }
        }
    }

    #[cold]
    fn suspend(&mut self) {
        let (thread, yielder, attempt) = (self.thread, self.yielder, self.attempt.take());
        // SAFETY: the yielder of the coroutine that runs, which is alive.
        unsafe { (*yielder).suspend(()) };
        (self.thread, self.yielder, self.attempt, self.look) = (thread, yielder, attempt, None);
    }

    fn access(
        &mut self,
        address: usize,
        strength: Strength,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) -> Access {
        let location = self.location(address);
        self.access_to(location, strength, ordering, site)
    }

    fn access_to(
        &self,
        location: LocationId,
        strength: Strength,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) -> Access {
        let thread = self.thread.expect("the client's own thread has no accesses of its own");
        Access { thread, location, strength, ordering, site: Some(site), compare: None }
    }

    /// Reads a word and says which event that was.
    #[inline]
    pub(super) fn load(
        &mut self,
        address: usize,
        ordering: Ordering,
        site: &'static Site<'static>,
        mut wanted: Option<&mut dyn FnMut(u64) -> bool>,
    ) -> (Option<EventId>, u64) {
        let location = self.location(address);
        if self.thread.is_none() {
            return (None, self.settled(location));
        }
        if let Some(look) =
            self.look.filter(|look| look.delayed && look.location == location && wanted.is_none())
        {
            return self.look_again(look);
        }
        let access = self.access_to(location, self.model.load(ordering), ordering, site);
        let (read, value) = self.answered(|session| {
            let wanted = wanted.as_mut().map(|wanted| &mut **wanted as &mut dyn FnMut(u64) -> bool);
            session.engine().read(access, wanted)
        });
        self.attempted(read);
        self.look = Some(Look { location, read, value, delayed: false, repeated: 0 });
        (Some(read), value)
    }

    /// Loads of one word with nothing but delays between them count as one: what a look found changed nothing, so
    /// the executions in which it was not taken show the same, and have all the looks that are left. A thread that
    /// only goes on looking waits.
    fn look_again(&mut self, look: Look) -> (Option<EventId>, u64) {
        if look.repeated == MOST_LOOKS {
            self.wait(Reads::of(&[Some(look.read)]), false, "polls a word that does not change");
        }
        self.look = Some(Look { repeated: look.repeated + 1, ..look });
        (Some(look.read), look.value)
    }

    /// Time passes.
    pub(super) fn delay(&mut self) {
        if let Some(look) = &mut self.look {
            look.delayed = true;
        }
    }

    fn attempted(&mut self, read: EventId) {
        if let Some(attempt) = &mut self.attempt {
            attempt.reads.push(read);
        }
    }

    #[inline]
    pub(super) fn store(
        &mut self,
        address: usize,
        value: u64,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) {
        let location = self.location(address);
        if self.thread.is_none() {
            return self.settle(location, value);
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.changed = true;
        }
        let access = self.access_to(location, self.model.store(ordering), ordering, site);
        self.answered(|session| session.engine().write(access, value, None));
        if self.model.fence_after_store(ordering) {
            self.answered(|session| {
                session.engine().add_fence(access.thread, Strength::FULL, ordering, Some(site))
            });
        }
    }

    /// Reads a word and writes what `update` makes of it, if anything; gives what was read.
    #[inline]
    pub(super) fn read_modify_write(
        &mut self,
        address: usize,
        ordering: Ordering,
        site: &'static Site<'static>,
        update: impl Fn(u64) -> u64,
    ) -> u64 {
        let location = self.location(address);
        if self.thread.is_none() {
            let old = self.settled(location);
            self.settle(location, update(old));
            return old;
        }
        let read = self.access_to(location, self.model.rmw_read(ordering), ordering, site);
        self.exchange(read, self.model.rmw_write(ordering), |old| Some(update(old)))
    }

    /// The two halves of a read-modify-write.
    fn exchange(&mut self, access: Access, write: Strength, update: impl Fn(u64) -> Option<u64>) -> u64 {
        let (read, old) = self.answered(|session| session.engine().read(access, None));
        self.attempted(read);
        let Some(new) = update(old) else {
            // It changed nothing: a load after a delay may count as the same look.
            self.look =
                Some(Look { location: access.location, read, value: old, delayed: false, repeated: 0 });
            return old;
        };
        let write = Access { strength: write, compare: None, ..access };
        match &mut self.attempt {
            Some(attempt) if new == old => attempt.pending = Some((write, new, read)),
            attempt => {
                if let Some(attempt) = attempt {
                    attempt.changed = true;
                }
                self.answered(|session| session.engine().write(write, new, Some(read)));
            }
        }
        old
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn compare_exchange(
        &mut self,
        address: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
        site: &'static Site<'static>,
    ) -> Result<u64, u64> {
        let location = self.location(address);
        let old = if self.thread.is_none() {
            let old = self.settled(location);
            if old == current {
                self.settle(location, new);
            }
            old
        } else {
            let strength = self.model.rmw_read(success);
            let compare = Compare {
                expected: current,
                success: strength,
                failure: self.model.failed_exchange(success, failure),
            };
            let access =
                Access { compare: Some(compare), ..self.access_to(location, strength, success, site) };
            self.exchange(access, self.model.rmw_write(success), |old| (old == current).then_some(new))
        };
        if old == current { Ok(old) } else { Err(old) }
    }

    /// Writes the bits of `mask` and leaves the others.
    pub(super) fn store_part(
        &mut self,
        address: usize,
        mask: u64,
        bits: u64,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) {
        let location = self.location(address);
        if self.thread.is_none() {
            let old = self.settled(location);
            return self.settle(location, old & !mask | bits);
        }
        let half = Strength::EXCLUSIVE.with(Strength::PART);
        if self.takes_turns() {
            let access = self.access_to(location, self.model.store(ordering).with(half), ordering, site);
            return self.answered(|session| session.walker().write_part(access, mask, bits));
        }
        let access = self.access_to(location, half, ordering, site);
        self.exchange(access, self.model.store(ordering).with(half), |old| Some(old & !mask | bits));
    }

    pub(super) fn fence(&mut self, ordering: Ordering, site: &'static Site<'static>) {
        if let Some(thread) = self.thread {
            self.answered(|session| session.engine().fence(thread, ordering, Some(site)));
        }
    }

    pub(super) fn plain(
        &mut self,
        address: usize,
        written: Option<u64>,
        site: &'static Site<'static>,
    ) -> u64 {
        let location = self.location(address);
        if self.thread.is_none() {
            if let Some(value) = written {
                self.settle(location, value);
            }
            return self.settled(location);
        }
        let access = self.access(address, Strength::NONE, Ordering::Relaxed, site);
        self.answered(|session| session.engine().plain(access, written))
    }

    pub(super) fn note(&mut self, note: Note, site: &'static Site<'static>) {
        if let Some(thread) = self.thread {
            self.answered(|session| session.engine().note(thread, note, Some(site)));
        }
    }

    pub(super) fn choose(&mut self, choices: u64, site: &'static Site<'static>) -> u64 {
        let thread = self.thread.expect("only threads choose");
        self.answered(|session| session.engine().choose(thread, choices, Some(site)))
    }

    /// The thread waits; see [`Explorer::wait`]. Does not return.
    pub(super) fn wait(&mut self, reads: Reads, limited: bool, what: &'static str) -> ! {
        let Some(thread) = self.thread else {
            panic!("the client's own thread {what}, but it is alone and nobody ends that");
        };
        let by_turns = self.takes_turns();
        self.engine().wait(thread, &reads.list[..reads.count], limited, what);
        loop {
            if by_turns {
                self.hand_over(None);
            } else {
                self.suspend();
            }
        }
    }

    /// Whether threads take turns, from state to state.
    #[inline]
    fn takes_turns(&self) -> bool {
        matches!(self.engine, Some(Engine::States(_)))
    }

    /// Runs an attempt of a `spin_rmw`. If it failed and changed nothing, gives what it read, for waiting.
    pub(super) fn attempt(attempt: impl FnOnce() -> bool) -> Result<(), Option<Reads>> {
        session().attempt = Some(Attempt::default());
        let succeeded = attempt();
        let this = session();
        let done = this.attempt.take().expect("attempts do not nest");
        if !succeeded {
            return Err((!done.changed).then_some(done.reads));
        }
        if let Some((access, value, read)) = done.pending {
            this.answered(|session| session.engine().write(access, value, Some(read)));
        }
        Ok(())
    }

    /// Marks a node as taken or given back.
    pub(super) fn mark_node(&mut self, life: LocationId, kind: Kind, site: &'static Site<'static>) {
        let thread = self.thread.expect("only threads take nodes");
        self.answered(|session| session.engine().node(thread, life, kind, Some(site)));
    }

    /// Reads a location that stands for something else than memory.
    pub(super) fn load_hidden(
        &mut self,
        location: LocationId,
        ordering: Ordering,
        site: &'static Site<'static>,
        wanted: Option<&mut dyn FnMut(u64) -> bool>,
    ) -> (EventId, u64) {
        let access = self.access_to(location, self.model.load(ordering), ordering, site);
        let mut wanted = wanted;
        self.answered(|session| {
            let wanted = wanted.as_mut().map(|wanted| &mut **wanted as &mut dyn FnMut(u64) -> bool);
            session.engine().read(access, wanted)
        })
    }

    pub(super) fn store_hidden(
        &mut self,
        location: LocationId,
        value: u64,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) {
        let access = self.access_to(location, self.model.store(ordering), ordering, site);
        self.answered(|session| session.engine().write(access, value, None));
    }

    pub(super) fn update_hidden(
        &mut self,
        location: LocationId,
        site: &'static Site<'static>,
        update: impl Fn(u64) -> u64,
    ) -> u64 {
        let ordering = Ordering::AcqRel;
        let access = self.access_to(location, self.model.rmw_read(ordering), ordering, site);
        self.exchange(access, self.model.rmw_write(ordering), |old| Some(update(old)))
    }

    /// Runs executions until one comes to its end.
    pub(super) fn run(&mut self, plan: &Plan<'_>, body: &(dyn Fn(usize) + Sync)) -> Run {
        assert!(self.thread.is_none(), "a thread of the checked machine cannot run others");
        assert!(
            (1..MAX_THREADS).contains(&plan.threads),
            "the checked machine runs 1 to {} threads, not {}",
            MAX_THREADS - 1,
            plan.threads
        );
        if self.engine.is_none() {
            self.engine = Some(self.new_engine(plan.threads));
        }
        loop {
            if self.stopped() || !self.engine().begin() {
                resume_unwind(Box::new(Finished));
            }
            self.arena.reset_threads();
            if self.takes_turns() {
                if !Self::run_by_turns(plan.threads, body) {
                    continue;
                }
            } else if self.script.is_some() {
                self.run_together(plan.threads, body);
            } else {
                let first = self.explorer().half_done();
                for thread in
                    first.into_iter().chain((0..plan.threads).filter(|&thread| first != Some(thread)))
                {
                    self.run_thread(thread, body);
                    if self.explorer().is_over() {
                        break;
                    }
                }
            }
            self.thread = None;
            if self.takes_turns() || self.explorer().finish() {
                for location in 0..self.arena.offsets.len() as LocationId {
                    let value = self.engine().last_value(location);
                    self.settle(location, value);
                }
                return Run::default();
            }
            if self.script.is_some() {
                resume_unwind(Box::new(Finished));
            }
        }
    }

    fn new_engine(&self, threads: usize) -> Engine {
        let merges = self.search == Search::States;
        match (&self.script, self.search) {
            (None, Search::States | Search::Interleavings) => {
                let mut walker = Walker::new(self.model, threads, merges, self.alike);
                walker.initial.clone_from(&self.settled);
                Engine::States(walker)
            }
            (script, _) => {
                let mut explorer = match script.clone() {
                    Some(script) => Explorer::scripted(self.model, threads, script),
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

    pub(super) fn fiber(
        &mut self,
        thread: usize,
        stack: DefaultStack,
        body: &(dyn Fn(usize) + Sync),
    ) -> Coroutine<(), (), (), DefaultStack> {
        let run = move |yielder: &Yielder<(), ()>, ()| {
            session().yielder = yielder;
            if let Some(waiting) = session().waiting.get_mut(thread) {
                waiting.yielder = Some(yielder);
            }
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(thread))) {
                let message = message_of(&*payload);
                let this = session();
                let violation = Violation::Panic { thread: Some(thread), message };
                this.engine().violate(violation);
            }
        };
        // SAFETY: the coroutine is finished or reset before `run` returns, so before `body` ends.
        unsafe { Coroutine::with_stack_unchecked(stack, run) }
    }

    fn run_thread(&mut self, thread: usize, body: &(dyn Fn(usize) + Sync)) {
        (self.attempt, self.look) = (None, None);
        self.thread = Some(thread);
        let stack = self.stack();
        let mut fiber = self.fiber(thread, stack, body);
        if let CoroutineResult::Yield(()) = fiber.resume(()) {
            // SAFETY: what lies on the stack is dropped by nobody: frames of locks and clients own nothing outside
            // the arena while they access it.
            unsafe { fiber.force_reset() };
        }
        self.stacks.push(fiber.into_stack());
    }

    /// Runs the threads by turns, as far as the script lets them.
    fn run_together(&mut self, threads: usize, body: &(dyn Fn(usize) + Sync)) {
        let mut fibers = Vec::with_capacity(threads);
        for thread in 0..threads {
            let stack = self.stack();
            fibers.push(self.fiber(thread, stack, body));
        }
        loop {
            let events = |this: &mut Self| this.explorer().graph.stamp;
            let before = events(self);
            let mut ended = false;
            for (thread, fiber) in fibers.iter_mut().enumerate() {
                if !fiber.done() && !self.explorer().is_over() {
                    self.thread = Some(thread);
                    (self.attempt, self.look) = (None, None);
                    fiber.resume(());
                    ended |= fiber.done();
                }
            }
            if events(self) == before && !ended {
                break;
            }
        }
        for mut fiber in fibers {
            if !fiber.done() {
                // SAFETY: as in `run_thread`.
                unsafe { fiber.force_reset() };
            }
            self.stacks.push(fiber.into_stack());
        }
    }

    pub(super) fn take_node(
        &mut self,
        of: std::any::TypeId,
        site: &'static Site<'static>,
    ) -> (NonNull<u8>, Option<u32>) {
        let thread = self.thread.expect("only threads take nodes");
        for index in 0..super::arena::POOL_NODES {
            let (node, locations) = self.arena.node(of, thread, index);
            let (_, taken) = self.load_hidden(locations.taken, Ordering::Acquire, site, None);
            if taken == 0 {
                self.store_hidden(locations.taken, 1, Ordering::Relaxed, site);
                self.mark_node(locations.life, Kind::Take, site);
                let named = index < super::arena::NAMED_NODES;
                let name = thread * super::arena::NAMED_NODES + index;
                return (node, named.then_some(name as u32));
            }
        }
        panic!("thread {thread} holds more than {} queue nodes at once", super::arena::POOL_NODES);
    }

    pub(super) fn give_node(&mut self, address: usize, site: &'static Site<'static>) {
        let locations = self.arena.node_of(address);
        self.mark_node(locations.life, Kind::Give, site);
        self.store_hidden(locations.taken, 0, Ordering::Release, site);
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
