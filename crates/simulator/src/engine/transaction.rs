//! Transactions of threads: how one begins, what its thread does in it, and how it commits or aborts.
//!
//! Where a transaction begins, the thread's coroutine is suspended and saved: what lies on its stack, and its own value. An abort
//! puts both back, so that the call which has begun the transaction returns a second time. Values are put back at the moment of
//! the abort, by the memory, which finds conflicts; the coroutine is when it would go on the next time: at once where the thread
//! passes time, and where it waits for a line when that has come, since a request under way cannot be called back.
//!
//! The running thread's horizon is zero while it is in a transaction. So each of its accesses takes the way of one that has to let
//! others go first, where transactions are looked for, and those outside of transactions do not pay for them.

use std::panic::Location;

use coroutine::Stack as _;
use coroutine::saved::{CoroutineBytes, UsedStack};
use machine::random::Random;
use machine::{Abort, Event as Note, LINE_BYTES};

use super::spin::Stage;
use super::{Engine, Routine, miss, suspend};
use crate::NOBODY;
use crate::Time;
use crate::clock::Event;
use crate::directory::Request;
use crate::hardware::TransactionalMemory;
use crate::report::TransactionCounts;
use crate::trace::What;

/// How far a thread's transaction is.
#[derive(Clone, Copy)]
enum Phase {
    /// The thread is suspended where it begins.
    Begins,
    /// The thread runs in it.
    Runs,
    /// It has been aborted for this cause, and the thread goes back soon.
    GoesBack(Abort),
    /// It was aborted for this cause.
    Over(Abort),
}

/// A thread's transaction.
pub(super) struct Attempt {
    phase: Phase,
    /// How many there are within one another.
    depth: u32,
    began: Time,
    /// When the core's next interrupt comes.
    interrupted_at: Time,
    /// The number of the lock that the thread is at where it begins.
    lock: u32,
    /// An access has left the core, and its line has not come yet.
    awaits_line: bool,
    /// What was announced, and when.
    notes: Vec<(Time, Note)>,
    /// Nodes that were taken, and those that are to be given back, by their offsets.
    taken: Vec<usize>,
    given: Vec<usize>,
    /// Where the thread was suspended: an address in its frame.
    suspended_at: usize,
    /// Where its stack begins.
    stack_base: usize,
    /// What lay on its stack then, and what its coroutine was.
    stack: Vec<u64>,
    routine: Option<CoroutineBytes<Routine>>,
}

impl Attempt {
    fn new(stack_base: usize) -> Self {
        Self {
            phase: Phase::Begins,
            depth: 0,
            began: 0,
            interrupted_at: 0,
            lock: NOBODY,
            awaits_line: false,
            notes: Vec::new(),
            taken: Vec::new(),
            given: Vec::new(),
            suspended_at: 0,
            stack_base,
            stack: Vec::new(),
            routine: None,
        }
    }

    fn used_stack(&self) -> UsedStack {
        UsedStack::new(self.suspended_at, self.stack_base)
    }
}

/// When each core is interrupted next. Intervals are exponential, so that an interval may be taken to begin
/// whenever this is looked at.
pub(super) struct Interrupts {
    random: Random,
    next: Vec<Time>,
}

impl Interrupts {
    pub(super) fn new(cores: usize, seed: u64) -> Self {
        /// Keeps these numbers apart from those of the memory, which has the same seed.
        const STREAM: u64 = 0x5EED_0F1A_7E55_0001;
        Self { random: Random::new(seed ^ STREAM), next: vec![0; cores] }
    }

    fn after(&mut self, core: u32, now: Time, mean: Time) -> Time {
        let next = &mut self.next[core as usize];
        if *next <= now {
            *next = now + (mean as f64 * self.random.exponential()) as Time;
        }
        *next
    }
}

/// Begins a transaction of the running thread.
///
/// # Errors
/// Why there is none, or no longer: this returns again with each abort.
///
/// # Safety
/// As for [`suspend`].
pub(crate) unsafe fn begin(engine: *mut Engine) -> Result<(), Abort> {
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        let current = (*engine).scheduler.current;
        let Some(TransactionalMemory { begin, .. }) = (*engine).transactional_memory() else {
            return Err(Abort::UNAVAILABLE);
        };
        if current == NOBODY {
            return Err(Abort::REFUSED); // the simulation's caller is no coroutine
        }
        if let Some(outer) = (*engine).attempt() {
            outer.depth += 1;
            return Ok(());
        }
        (*engine).begins();
        (*engine).clock.now += begin;
        let now = (*engine).clock.now;
        (*engine).clock.push(now, Event::Resume(current));
        suspend_to_be_saved(engine);
        match (&(*engine).threads)[current as usize].transaction.as_ref().map(|attempt| attempt.phase) {
            Some(Phase::Over(abort)) => Err(abort),
            _ => Ok(()),
        }
    }
}

/// Suspends the running thread, and notes where.
///
/// # Safety
/// As for [`suspend`].
#[inline(never)]
unsafe fn suspend_to_be_saved(engine: *mut Engine) {
    let here = 0_u8;
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        let current = (*engine).scheduler.current as usize;
        let thread = &mut (&mut (*engine).threads)[current];
        if let Some(attempt) = &mut thread.transaction {
            attempt.suspended_at = std::hint::black_box(std::ptr::from_ref(&here)) as usize;
        }
        let yielder = thread.yielder;
        (*yielder).suspend(());
    }
}

/// Commits the transaction that the running thread has begun last.
///
/// # Panics
/// Outside of any.
///
/// # Safety
/// As for [`suspend`].
pub(crate) unsafe fn commit(engine: *mut Engine) {
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        let Some(attempt) = (*engine).attempt() else { panic!("a transaction is committed outside of any") };
        if attempt.depth > 1 {
            attempt.depth -= 1;
            return;
        }
        let costs = (*engine).transactional_memory().expect("a machine with transactions");
        (*engine).clock.now += costs.commit;
        take_turn(engine);
        (*engine).commits();
        if (*engine).stop.is_some() {
            suspend(engine);
        }
    }
}

/// Aborts the running thread's transaction for this cause.
///
/// # Safety
/// As for [`suspend`]; the thread is in a transaction.
pub(crate) unsafe fn abort(engine: *mut Engine, cause: Abort) -> ! {
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        let this = &mut *engine;
        let current = this.scheduler.current;
        this.memory.abort_transaction(&mut this.clock, current, cause);
        this.clock.push(this.clock.now, Event::Resume(current));
        suspend(engine);
    }
    unreachable!("a thread whose transaction was aborted goes on where that began")
}

/// Lets everything happen that comes before the next step of the running thread, which is in a transaction. Does not return if
/// that aborts it, or an interrupt does.
///
/// # Safety
/// As for [`suspend`].
unsafe fn take_turn(engine: *mut Engine) {
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        if (*engine).gives_way() {
            suspend(engine);
        }
        let now = (*engine).clock.now;
        if (*engine).attempt().is_some_and(|attempt| now >= attempt.interrupted_at) {
            abort(engine, Abort::INTERRUPTED);
        }
    }
}

/// An access of the running thread, which is in a transaction.
///
/// # Safety
/// As for [`suspend`]; the line is one of the simulation's memory.
pub(super) unsafe fn access(
    engine: *mut Engine,
    line: u32,
    request: Request,
    site: &'static Location<'static>,
) {
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        take_turn(engine);
        let this = &mut *engine;
        let (current, core) = (this.scheduler.current, this.scheduler.current_core);
        if let Err(cause) = this.memory.use_in_transaction(current, line, request.writes()) {
            abort(engine, cause);
        }
        if this.memory.hit(core, line, request) {
            this.locks.hit();
            this.clock.now += this.cost(request);
        } else {
            this.awaits_line(true);
            miss(engine, line, request, site);
            (*engine).awaits_line(false);
        }
        let at = (*engine).arena.at(line as usize * LINE_BYTES);
        (*engine).memory.use_line(current, line, request.writes(), at);
    }
}

/// Passes time on the running thread, which is in a transaction. An abort ends it at once.
///
/// # Safety
/// As for [`suspend`].
#[cold]
pub(super) unsafe fn pass(engine: *mut Engine, time: Time) {
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        take_turn(engine);
        let end = (*engine).clock.now + time;
        let interrupted_at = (*engine).attempt().map_or(Time::MAX, |attempt| attempt.interrupted_at);
        let this = &mut *engine;
        this.scheduler.begin_delay(&mut this.clock, end.min(interrupted_at));
        // A thread that loses its core meanwhile does not come back.
        suspend(engine);
        take_turn(engine);
    }
}

impl Engine {
    /// What transactions take, where there are any: a coroutine that is a host thread cannot be saved.
    pub(crate) fn transactional_memory(&self) -> Option<TransactionalMemory> {
        self.hardware.transactions.filter(|_| !cfg!(miri))
    }

    /// Whether the running thread is in a transaction.
    #[inline]
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.clock.is_held() && self.is_stage_transaction()
    }

    #[cold]
    fn is_stage_transaction(&self) -> bool {
        let thread = self.threads.get(self.scheduler.current as usize);
        thread.is_some_and(|thread| thread.stage == Stage::Transaction)
    }

    /// The running thread's transaction, if it is in one.
    #[inline]
    fn attempt(&mut self) -> Option<&mut Attempt> {
        if !self.is_in_transaction() {
            return None;
        }
        self.threads[self.scheduler.current as usize].transaction.as_deref_mut()
    }

    fn awaits_line(&mut self, awaits: bool) {
        if let Some(attempt) = self.attempt() {
            attempt.awaits_line = awaits;
        }
    }

    /// The running thread begins a transaction, as soon as it is suspended.
    fn begins(&mut self) {
        let now = self.clock.now;
        let current = self.scheduler.current as usize;
        let stack_base = self.arena.stack(current).base().get();
        let thread = &mut self.threads[current];
        thread.stage = Stage::Transaction;
        let lock = thread.counted_for;
        let attempt = thread.transaction.get_or_insert_with(|| Box::new(Attempt::new(stack_base)));
        (attempt.phase, attempt.depth, attempt.began, attempt.lock) = (Phase::Begins, 1, now, lock);
        self.count_transaction(lock, |counts| counts.begun += 1);
    }

    /// The running thread's transaction takes effect, and so does what it has announced.
    fn commits(&mut self) {
        let current = self.scheduler.current;
        self.memory.commit_transaction(current);
        let Some(attempt) = self.attempt() else { return };
        let lock = attempt.lock;
        let (mut notes, given) = (std::mem::take(&mut attempt.notes), std::mem::take(&mut attempt.given));
        attempt.taken.clear();
        self.threads[current as usize].stage = Stage::Own;
        self.clock.set_horizon(self.scheduler.slice_end());
        self.count_transaction(lock, |counts| counts.committed += 1);
        given.into_iter().for_each(|node| self.nodes.give(node));
        for (at, note) in notes.drain(..) {
            self.announce(note, at);
        }
        if let Some(attempt) = &mut self.threads[current as usize].transaction {
            attempt.notes = notes; // its memory is used again
        }
    }

    /// Goes on with a thread that is in a transaction, or was when it was aborted; false if an event will.
    #[cold]
    pub(super) fn goes_on_in_transaction(&mut self, thread: u32, routine: &mut Routine) -> bool {
        self.clock.limit_horizon(0);
        let (now, core) = (self.clock.now, self.scheduler.current_core);
        let Some(costs) = self.transactional_memory() else { return true };
        let Some(attempt) = self.threads[thread as usize].transaction.as_deref_mut() else { return true };
        match attempt.phase {
            Phase::Begins => {
                attempt.phase = Phase::Runs;
                attempt.interrupted_at = self.interrupts.after(core, now, costs.interrupts);
                attempt.routine = Some(CoroutineBytes::of(routine));
                attempt.stack.clear();
                // SAFETY: the thread is suspended there.
                attempt.stack.extend(unsafe { attempt.used_stack().words() });
                self.memory.begin_transaction(core, thread);
                true
            }
            Phase::GoesBack(cause) => {
                self.goes_back(thread, cause, routine);
                true
            }
            Phase::Runs | Phase::Over(_) => {
                let Some(cause) = self.memory.aborted_transaction(thread) else { return true };
                let nested = attempt.depth > 1;
                attempt.phase = Phase::GoesBack(if nested { cause.nested() } else { cause });
                let awaited = std::mem::take(&mut attempt.awaits_line);
                self.clock.push(now + costs.abort, Event::Resume(thread));
                if awaited {
                    self.completed(thread);
                }
                false
            }
        }
    }

    /// A thread is again where its transaction began.
    fn goes_back(&mut self, thread: u32, cause: Abort, routine: &mut Routine) {
        let now = self.clock.now;
        let going = &mut self.threads[thread as usize];
        let Some(attempt) = going.transaction.as_deref_mut() else { return };
        // SAFETY: the coroutine was suspended when it was saved, at this place, and it is suspended now.
        unsafe {
            attempt.used_stack().put_back(&mut attempt.stack.iter().copied());
            attempt.routine.take().expect("saved when it began").put_back(routine);
        }
        attempt.phase = Phase::Over(cause);
        attempt.notes.clear();
        attempt.given.clear();
        let (lock, wasted) = (attempt.lock, now - attempt.began);
        let taken = std::mem::take(&mut attempt.taken);
        (going.stage, going.counted_for) = (Stage::Own, lock);
        taken.into_iter().for_each(|node| self.nodes.give(node));
        self.clock.set_horizon(self.scheduler.slice_end());
        self.count_transaction(lock, |counts| counts.count_abort(cause.cause(), wasted));
        self.record(thread, What::Aborts(cause));
    }

    /// Keeps back what the running thread announces in its transaction, until that commits.
    #[cold]
    pub(super) fn keep_back(&mut self, note: Note) {
        let (now, note) = (self.clock.now, self.with_offset(note));
        if let Some(attempt) = self.attempt() {
            attempt.notes.push((now, note));
        }
        self.threads[self.scheduler.current as usize].counted_for = self.counted_for_after(note);
    }

    /// Notes that the running thread has taken a node in its transaction.
    #[cold]
    pub(crate) fn note_taken(&mut self, node: usize) {
        if let Some(attempt) = self.attempt() {
            attempt.taken.push(node);
        }
    }

    /// The running thread gives back a node in its transaction: when that commits, unless the node has been taken in it.
    #[cold]
    pub(crate) fn give_at_commit(&mut self, node: usize) {
        let Some(attempt) = self.attempt() else { return };
        match attempt.taken.iter().position(|&taken| taken == node) {
            Some(at) => {
                attempt.taken.swap_remove(at);
                self.nodes.give(node);
            }
            None => attempt.given.push(node),
        }
    }

    /// Counts something of transactions, for a lock too, if there is one with this number.
    fn count_transaction(&mut self, lock: u32, count: impl Fn(&mut TransactionCounts)) {
        count(&mut self.transactions);
        self.locks.count_transaction(lock, count);
    }
}
