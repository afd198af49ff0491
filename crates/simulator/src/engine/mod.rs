//! The simulation itself: the loop that takes events and the coroutines of the threads, between the clock, the memory and
//! the scheduler, each of which has a file of its own.
//!
//! Each thread runs the real lock and workload code in a coroutine. An access that its core's cache answers is
//! charged and goes on, as long as nothing else happens before it.
//! Any other access becomes an event, and the coroutine is resumed when it is done. All values live in host memory
//! and are read and written in the order of simulated time.
//!
//! The loop and every coroutine reach the one [`Engine`] through a raw pointer. So no reference into it may be alive
//! across a switch, neither a local one nor a parameter of a function further up the stack: whatever may switch is a
//! function of `*mut Engine`, and a method of `&self` or `&mut self` never does. The coroutines themselves, which are
//! borrowed while they run, are no part of the engine.

mod announcements;
mod current;
mod spin;
pub(crate) mod transaction;
mod waits;

use std::any::Any;
use std::panic::Location;
use std::rc::Rc;

use coroutine::{Coroutine, CoroutineResult, GivenUp, Yielder};
use machine::{Abort, Counts, LINE_BYTES};

use self::spin::{Condition, Stage, go_on};
use self::transaction::{Attempt, Interrupts};
use crate::arena::{SimulatedMemory, ThreadStack};
use crate::clock::{Clock, Event};
use crate::directory::Request;
use crate::futexes::Futexes;
use crate::hardware::Hardware;
use crate::locks::Locks;
use crate::memory::{Memory, Miss};
use crate::nodes::NodePools;
use crate::report::{Report, Totals, TransactionCounts};
use crate::scheduler::{Activity, Scheduler};
use crate::stopped::{Reason, Stopped};
use crate::trace::{Trace, What};
use crate::{NOBODY, PS_PER_NS, Time, scheduler};

pub(crate) use self::current::{current, enter};
pub(crate) use self::spin::spin;
pub(crate) use self::waits::{pass, wait_for_lines};

/// Choices of one simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Random seed of the threads' starts, and through workloads of all else.
    pub seed: u64,
    /// Poll for real where a waiter would be parked. Slower, and a single run differs, but not the median of many seeds: the oracle of the fast way.
    pub really_poll: bool,
    /// After so many events without an acquisition or operation, in which every thread has had its core, the run is called a
    /// livelock.
    pub livelock_events: u64,
    /// How many records of a run are kept for a trace file.
    pub trace_records: usize,
    /// A thread that becomes ready while its core is taken goes to an idle one, and a core that has nothing to do takes over a
    /// thread that waits for another core, as the kernel's scheduler does with threads that are not pinned. Else each stays
    /// where it started.
    pub threads_move: bool,
    /// In a run of some duration nothing is counted for so many nanoseconds; at least for some 40 µs.
    pub warm_up_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            really_poll: false,
            livelock_events: 20_000_000,
            trace_records: 0,
            threads_move: false,
            warm_up_ns: 0,
        }
    }
}

type Routine = Coroutine<(), (), (), ThreadStack>;

/// A simulated thread, as far as neither memory nor scheduler has to know it.
struct Thread {
    yielder: *const Yielder<(), ()>,
    counts: Counts,
    /// The lock whose acquisition it has announced, by its number, and when that was.
    acquiring: Option<(u32, Time)>,
    /// Others held the lock, or waited, when it did.
    met_others: bool,
    /// The locks that it holds, by their numbers, and since when.
    holding: Vec<(u32, Time)>,
    /// The number of the lock that its accesses are counted for.
    counted_for: u32,
    /// Where its wait on one word stands, and what it waits for.
    stage: Stage,
    /// How much of the pause between two polls is left.
    pause_left: Time,
    condition: Option<Condition>,
    /// The transaction that it is in, or was in last.
    transaction: Option<Box<Attempt>>,
}

/// How far a run is.
struct Progress {
    /// What threads announce is counted from here.
    counted_from: Time,
    running_until: Time,
    events: u64,
    /// When the last acquisition or operation was.
    productive_at: Time,
    /// Events since then, or since it was last found to be no livelock yet.
    unproductive_events: u64,
    /// Until then some thread passes time.
    busy_until: Time,
    /// What was awaited when there had been too many events for the first time: there is a livelock only if nothing is done after it
    /// either.
    awaited: Option<Time>,
}

impl Progress {
    /// There was an acquisition or an operation.
    fn is_productive(&mut self, now: Time) {
        self.productive_at = now;
        self.unproductive_events = 0;
        self.awaited = None;
    }
}

/// A simulation.
pub(crate) struct Engine {
    pub(crate) hardware: Rc<Hardware>,
    options: Options,
    pub(crate) arena: SimulatedMemory,
    pub(crate) nodes: NodePools,
    pub(crate) clock: Clock,
    pub(crate) memory: Memory,
    pub(crate) scheduler: Scheduler,
    /// What a system call for a sleep or a wake-up does, instead of the scheduler's own lists.
    pub(crate) futexes: Option<Futexes<'static>>,
    locks: Locks,
    threads: Vec<Thread>,
    progress: Progress,
    interrupts: Interrupts,
    transactions: TransactionCounts,
    pub(crate) trace: Trace,
    /// Why the run has to stop, once it has.
    pub(crate) stop: Option<Reason>,
    /// What a thread's body panicked with, or a waiter's condition.
    panicked: Option<Box<dyn Any + Send>>,
    condition_panicked: Option<Box<dyn Any + Send>>,
}

impl Engine {
    pub(crate) fn new(hardware: Hardware, options: Options) -> Self {
        let hardware = Rc::new(hardware);
        Self {
            arena: SimulatedMemory::new(),
            nodes: NodePools::default(),
            clock: Clock::new(),
            memory: Memory::new(&hardware, options.seed),
            scheduler: Scheduler::new(&hardware, options.threads_move),
            futexes: None,
            locks: Locks::new(),
            threads: Vec::new(),
            progress: Progress {
                counted_from: 0,
                running_until: Time::MAX,
                events: 0,
                productive_at: 0,
                unproductive_events: 0,
                busy_until: 0,
                awaited: None,
            },
            interrupts: Interrupts::new(hardware.cores(), options.seed),
            transactions: TransactionCounts::default(),
            trace: Trace::new(hardware.cores(), options.trace_records),
            stop: None,
            panicked: None,
            condition_panicked: None,
            hardware,
            options,
        }
    }

    /// The thread that runs now.
    pub(crate) fn current(&self) -> u32 {
        self.scheduler.current
    }

    /// Whether the run's duration is not over yet.
    pub(crate) fn is_running(&self) -> bool {
        self.clock.now < self.progress.running_until
    }

    fn cost(&self, request: Request) -> Time {
        if request == Request::Atomic { self.hardware.atomic } else { self.hardware.hit }
    }

    #[inline(always)]
    pub(crate) fn record(&mut self, thread: u32, what: What) {
        if thread != NOBODY {
            let core = self.scheduler.thread(thread).core;
            self.trace.record(self.clock.now, core, thread, what);
        }
    }

    /// Whether the running thread has to let others go first: its slice is over, or there are events before its time.
    /// An event will go on with it then.
    fn gives_way(&mut self) -> bool {
        let current = self.scheduler.current;
        let mut slice_end = self.scheduler.slice_end();
        if self.clock.now >= slice_end {
            if self.scheduler.preempt(&mut self.clock, &mut self.memory, current) {
                self.lost_core(current);
                return true;
            }
            slice_end = self.scheduler.slice_end();
        }
        if self.clock.event_is_due() {
            // When this event comes it is the thread's turn: what others do at the same time later comes later.
            self.clock.push(self.clock.now, Event::Resume(current));
        } else {
            self.clock.set_horizon(if self.is_in_transaction() { 0 } else { slice_end });
            return false;
        }
        true
    }

    /// A thread has lost its core to another one.
    fn lost_core(&mut self, thread: u32) {
        self.record(thread, What::Preempted);
        self.memory.abort_transaction(&mut self.clock, thread, Abort::INTERRUPTED);
    }

    /// A thread's request leaves its core. Gives the time of the answer where that is known already.
    fn issue(&mut self, thread: u32) -> Option<Time> {
        self.memory.issue(&mut self.clock, thread)
    }

    /// A thread has its line.
    #[inline(always)] // the second of its callers is a seldom one
    fn completed(&mut self, thread: u32) {
        let Some(miss) = self.memory.completed(&mut self.clock, thread) else { return };
        self.locks.count_miss(self.threads[thread as usize].counted_for, miss.waited);
        let Miss { request, line, issued, site, .. } = miss;
        self.record(thread, What::Miss { request, line, issued, site });
    }
}

/// Lets the running thread give way to those that want its core.
///
/// # Safety
/// As for [`suspend`].
pub(crate) unsafe fn yield_core(engine: *mut Engine) {
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        let this = &mut *engine;
        let current = this.scheduler.current;
        if current != NOBODY && this.scheduler.yields(&mut this.clock, &mut this.memory) {
            this.lost_core(current);
            suspend(engine);
        }
    }
}

/// Suspends the running thread until an event resumes it.
///
/// # Safety
/// `engine` is the simulation of the running coroutine, and no reference into it is alive.
pub(crate) unsafe fn suspend(engine: *mut Engine) {
    // SAFETY: the yielder belongs to the coroutine that runs now and lives on its stack.
    unsafe {
        let current = (*engine).scheduler.current as usize;
        let yielder = (&(*engine).threads)[current].yielder;
        (*yielder).suspend(());
    }
}

/// An access of the running thread to the word at a host address. When this returns, it is the thread's turn: it
/// reads or writes the value at once.
///
/// # Safety
/// As for [`suspend`].
#[inline]
pub(crate) unsafe fn access(
    engine: *mut Engine,
    address: usize,
    request: Request,
    site: &'static Location<'static>,
) {
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        if (*engine).scheduler.current == NOBODY {
            return;
        }
        let line = (*engine).line_of(address);
        if (*engine).clock.is_behind() && waits_for_turn(engine, line, request, site) {
            return;
        }
        let this = &mut *engine;
        if this.memory.hit(this.scheduler.current_core, line, request) {
            this.locks.hit();
            this.clock.now += this.cost(request);
        } else {
            miss(engine, line, request, site);
        }
    }
}

/// Lets everything happen that comes before the running thread's access; true if the thread is in a transaction, and the access
/// has been made there.
///
/// # Safety
/// As for [`access`].
#[cold]
#[inline(never)]
unsafe fn waits_for_turn(
    engine: *mut Engine,
    line: u32,
    request: Request,
    site: &'static Location<'static>,
) -> bool {
    // SAFETY: the caller's.
    unsafe {
        if (*engine).is_in_transaction() {
            transaction::access(engine, line, request, site);
            return true;
        }
        if (*engine).gives_way() {
            suspend(engine);
        }
    }
    false
}

/// Lets everything happen that comes before the running thread's next step.
///
/// # Safety
/// As for [`suspend`].
#[cold]
pub(crate) unsafe fn catch_up(engine: *mut Engine) {
    // SAFETY: as in `access`.
    unsafe {
        if (*engine).gives_way() {
            suspend(engine);
        }
    }
}

/// # Safety
/// As for [`suspend`].
#[cold]
#[inline(never)]
unsafe fn miss(engine: *mut Engine, line: u32, request: Request, site: &'static Location<'static>) {
    // SAFETY: as in `access`.
    unsafe {
        let this = &mut *engine;
        let current = this.scheduler.current;
        this.memory.ask(current, line, request, Some(site), this.clock.now);
        match this.issue(current) {
            // No event lies between: no need to leave the coroutine.
            Some(done) if this.clock.is_free_until(done) => this.clock.now = done,
            Some(done) => {
                this.clock.push(done, Event::Resume(current));
                suspend(engine);
            }
            None => suspend(engine),
        }
        let this = &mut *engine;
        this.completed(current);
        this.memory.uses_unasked(&mut this.clock, line, current, request.writes());
        this.clock.now += this.cost(request);
    }
}

impl Engine {
    /// The number of the line at a host address.
    #[inline]
    pub(crate) fn line_of(&self, address: usize) -> u32 {
        match self.arena.offset(address) {
            Some(offset) => (offset / LINE_BYTES) as u32,
            None => not_ours(),
        }
    }

    /// The simulated address of something in the arena.
    pub(crate) fn offset_of(&self, address: usize) -> u32 {
        // The arena is under 4 GiB.
        self.arena.offset(address).unwrap_or_else(|| not_ours()) as u32
    }

    /// Runs bodies on simulated threads until all have ended; gives what they announced, and in how long, both up to
    /// the duration if there is one.
    pub(crate) fn run(
        engine: *mut Self,
        count: usize,
        (cores, priorities): (&[u32], &[u8]),
        duration: Option<Time>,
        body: &(dyn Fn(usize) + Sync),
    ) -> Result<(Vec<Counts>, Time), Failure> {
        // SAFETY: the engine outlives the run; every reference made here ends before a coroutine is resumed.
        unsafe {
            let started = (*engine).clock.now;
            let (start_skew, warm_up) = match duration {
                Some(_) if count > 1 => (WARM_UP / 2, WARM_UP.max((*engine).options.warm_up_ns * PS_PER_NS)),
                _ => (START_SKEW, 0),
            };
            let counted_from = started.saturating_add(warm_up);
            let progress = &mut (*engine).progress;
            progress.counted_from = counted_from;
            progress.running_until =
                duration.map_or(Time::MAX, |duration| counted_from.saturating_add(duration));
            progress.is_productive(started);
            let mut routines = (0..count)
                .map(|index| Self::start(engine, index, (cores, priorities), start_skew, body))
                .collect::<Vec<_>>();
            let ended = Self::take_events(engine, &mut routines);
            let this = &mut *engine;
            this.clock.clear();
            this.memory.clear_requesters();
            let scheduled = this.scheduler.clear();
            let threads = std::mem::take(&mut this.threads);
            for routine in &mut routines {
                if routine.started() && !routine.done() {
                    // What a stopped thread had on its stack is left as it is, like a killed thread's.
                    routine.force_reset();
                }
            }
            ended?;
            let last = scheduled.iter().map(|thread| thread.ended).max().unwrap_or(started);
            // The wheel starts again where this run has ended.
            this.clock.now = last;
            let counted_until = last.min(this.progress.running_until);
            let counts = threads.iter().map(|thread| thread.counts).collect();
            Ok((counts, counted_until.saturating_sub(counted_from)))
        }
    }

    /// # Safety
    /// `engine` is valid, and `body` outlives the coroutine: `run` resets those that have not ended.
    unsafe fn start(
        engine: *mut Self,
        index: usize,
        (cores, priorities): (&[u32], &[u8]),
        start_skew: Time,
        body: &(dyn Fn(usize) + Sync),
    ) -> Routine {
        // SAFETY: the caller's.
        unsafe {
            let this = &mut *engine;
            let stack = this.arena.stack(index);
            let cores_of_machine = this.hardware.cores();
            let core = match cores.get(index) {
                Some(&core) => core % cores_of_machine as u32,
                None => (index % cores_of_machine) as u32,
            };
            let priority = priorities.get(index).copied().unwrap_or(0);
            let routine: Routine =
                Coroutine::with_stack_unchecked(stack, move |yielder: &Yielder<(), ()>, ()| {
                    let _entered = enter(engine); // under Miri this is another host thread
                    (&mut (*engine).threads)[index].yielder = yielder;
                    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        body(index);
                        assert!(!(*engine).is_in_transaction(), "thread {index} ends in a transaction");
                    }));
                    if let Err(payload) = caught
                        && !payload.is::<GivenUp>()
                    {
                        (*engine).panicked.get_or_insert(payload);
                    }
                });
            this.threads.push(Thread::new());
            this.memory.requesters.add(core);
            this.scheduler.add(core, priority);
            let skew = this.memory.next_random() % start_skew;
            this.clock.push(this.clock.now + skew, Event::Ready(index as u32));
            routine
        }
    }

    /// How long it takes until every thread that has not ended, the holder of a lock among them, has had its core [`TURNS`] times; nothing where
    /// each has a core of its own.
    fn turns_of_all(&self) -> Time {
        TURNS * self.most_others() * (self.hardware.time_slice + self.hardware.tick)
    }

    /// With how many others a thread that has not ended shares its core at most.
    fn most_others(&self) -> u64 {
        let mut on_core = vec![0_u64; self.hardware.cores()];
        (0..self.threads.len() as u32).for_each(|thread| {
            let thread = self.scheduler.thread(thread);
            on_core[thread.core as usize] += u64::from(thread.activity != Activity::Done);
        });
        on_core.into_iter().max().unwrap_or(0).saturating_sub(1)
    }

    /// When what threads pass time with now is over, also where each shares its core with others meanwhile.
    fn busy_until(&self) -> Time {
        let threads = self.scheduler.threads();
        let left = threads.iter().map(|thread| thread.delay_left_at(self.clock.now)).max().unwrap_or(0);
        let turns = 2 * (1 + self.most_others());
        self.progress.busy_until.max(self.clock.now.saturating_add(turns.saturating_mul(left)))
    }

    /// # Safety
    /// `engine` is valid, no reference into it is alive, and the routines are those of its threads.
    unsafe fn take_events(engine: *mut Self, routines: &mut [Routine]) -> Result<(), Failure> {
        // SAFETY: the caller's; `this` ends before a coroutine, or a waiter's condition, runs.
        unsafe {
            let mut alive = (*engine).threads.len();
            while alive > 0 {
                let this = &mut *engine;
                let Some(event) = this.clock.pop() else {
                    return Err(Failure::Stopped(this.stopped(Reason::Deadlock)));
                };
                this.progress.events += 1;
                this.progress.unproductive_events += 1;
                if this.progress.unproductive_events > this.options.livelock_events {
                    let events = this.options.livelock_events;
                    let now = this.clock.now;
                    let busy_until = this.busy_until();
                    let awaited = *this.progress.awaited.get_or_insert(busy_until);
                    let since = this.progress.productive_at.max(awaited);
                    if now > awaited && now.saturating_sub(since) >= this.turns_of_all() {
                        return Err(Failure::Stopped(this.stopped(Reason::Livelock { events })));
                    }
                    this.progress.unproductive_events = 0;
                }
                let Some(thread) = this.handle(event) else { continue };
                this.scheduler.run(thread);
                this.clock.set_horizon(this.scheduler.slice_end());
                let stage = this.threads[thread as usize].stage;
                if stage != Stage::Own && !goes_on(engine, thread, stage, &mut routines[thread as usize]) {
                    (*engine).count_hits();
                    (*engine).scheduler.current = NOBODY;
                    continue;
                }
                let result = routines[thread as usize].resume(());
                let this = &mut *engine;
                this.count_hits();
                if this.stop.is_some()
                    && let Some(reason) = this.stop.take()
                {
                    return Err(Failure::Stopped(this.stopped(reason)));
                }
                if let CoroutineResult::Return(()) = result {
                    if let Some(payload) = this.panicked.take() {
                        return Err(Failure::Panicked(payload));
                    }
                    alive -= 1;
                    this.scheduler.end(&mut this.clock, &mut this.memory, thread);
                }
                this.scheduler.current = NOBODY;
            }
            Ok(())
        }
    }

    /// Handles an event; gives the thread whose coroutine goes on.
    fn handle(&mut self, event: Event) -> Option<u32> {
        let Self { clock, memory, scheduler, .. } = self;
        match event {
            Event::Resume(thread) => return Some(thread),
            // A thread that starts was woken by no thread.
            Event::Ready(thread) => _ = scheduler.make_ready(clock, memory, thread),
            Event::Issue(thread) => {
                if let Some(done) = memory.issue(clock, thread) {
                    clock.push(done, Event::Resume(thread));
                }
            }
            Event::HomeArrival(thread) => memory.arrive_home(clock, thread),
            Event::OwnerProbed(thread) => memory.owner_probed(clock, thread),
            Event::OwnerAnswers(thread) => memory.owner_answers(clock, thread),
            Event::HomeFree(line) => memory.serve_next(clock, line),
            Event::Timer(thread, wait) => scheduler.timed_out(clock, memory, thread, wait),
            Event::SliceEnd(core, slice) => {
                if let Some(preempted) = scheduler.slice_ended(clock, memory, core, slice) {
                    self.lost_core(preempted);
                }
            }
            Event::Conflict(thread, transaction) => memory.heard_of_conflict(clock, thread, transaction),
            Event::Aborted(thread) => scheduler.cut_delay(clock, thread),
        }
        None
    }

    /// Counts the hits since the last call for the lock that the running thread is at.
    #[inline]
    fn count_hits(&mut self) {
        if self.locks.has_uncounted_hits() {
            let thread = self.threads.get(self.scheduler.current as usize);
            self.locks.count_hits(thread.map_or(NOBODY, |thread| thread.counted_for));
        }
    }

    /// What the simulation has counted.
    pub(crate) fn report(&self) -> Report {
        let (all_lines, lines) = self.memory.report();
        let Scheduler { context_switches, sleeps, wakes, running: running_ps, .. } = self.scheduler;
        let locks = self.locks.counts();
        let fallbacks = locks.iter().map(|lock| lock.transactions.fallbacks).sum();
        let totals = Totals {
            events: self.progress.events,
            misses: self.memory.misses,
            elided_polls: self.memory.elided_polls,
            context_switches,
            sleeps,
            wakes,
            running_ps,
        };
        Report {
            seed: self.options.seed,
            elapsed_ns: self.clock.now / PS_PER_NS,
            all_lines,
            lines,
            locks,
            transactions: TransactionCounts { fallbacks, ..self.transactions },
            totals,
        }
    }

    fn stopped(&self, reason: Reason) -> Box<Stopped> {
        let doing = |(index, thread): (usize, &scheduler::Thread)| {
            let what = match thread.activity {
                Activity::Done => return None,
                Activity::Running => match self.memory.watched_by(thread.core) {
                    Some(lines) => {
                        let lines = lines.iter().map(|line| format!("{:#x}", line * LINE_BYTES as u32));
                        format!("watches {}", lines.collect::<Vec<_>>().join(" and "))
                    }
                    None => "runs".to_owned(),
                },
                Activity::Ready => "waits for its core".to_owned(),
                Activity::Asleep => format!("sleeps on {:#x}", thread.asleep_at),
            };
            let holds = if self.threads[index].holding.is_empty() { "" } else { " and holds a lock" };
            Some(format!("thread {index} on core {} {what}{holds}", thread.core))
        };
        Box::new(Stopped {
            reason,
            at_ps: self.clock.now,
            seed: self.options.seed,
            threads: self.scheduler.threads().iter().enumerate().filter_map(doing).collect(),
            last_events: self.trace.by_core(),
        })
    }
}

/// Goes on with a thread that waits or is in a transaction; false if an event will.
///
/// # Safety
/// As for [`go_on`], and the routine is the thread's.
unsafe fn goes_on(engine: *mut Engine, thread: u32, stage: Stage, routine: &mut Routine) -> bool {
    // SAFETY: the caller's.
    unsafe {
        if stage == Stage::Transaction {
            return (*engine).goes_on_in_transaction(thread, routine);
        }
        go_on(engine, thread)
    }
}

/// So many turns of every thread without an acquisition or operation are no matter of who has a core: what one turn ends, such
/// as a wake-up, another may have to go on with.
const TURNS: Time = 4;

/// Threads start within so many picoseconds of each other, as released threads do.
const START_SKEW: u64 = 200_000;
/// In a run of some duration they start within half of this time, so that each joins the others at work and their order
/// at a lock has nothing to do with where they sit; the duration begins after it.
const WARM_UP: u64 = 40_000_000;

/// Why a run gave no result.
pub(crate) enum Failure {
    /// The simulation was stopped.
    Stopped(Box<Stopped>),
    /// A body panicked with this.
    Panicked(Box<dyn Any + Send>),
}

impl Thread {
    fn new() -> Self {
        Self {
            yielder: std::ptr::null(),
            counts: Counts::default(),
            acquiring: None,
            met_others: false,
            holding: Vec::new(),
            counted_for: NOBODY,
            stage: Stage::Own,
            pause_left: 0,
            condition: None,
            transaction: None,
        }
    }
}

#[cold]
fn not_ours() -> ! {
    panic!(
        "a word of the simulated machine lies outside the simulation's memory; put what threads share into \
         `Placed`, made inside the simulation"
    )
}
