//! The simulation itself: cores, threads, lines, and the loop that takes events.
//!
//! Each thread runs the real lock and workload code in a coroutine. An access that its core's cache answers is
//! charged and goes on, as long as nothing else happens before it: [`Engine::horizon`] is the time of the next event.
//! Any other access becomes an event, and the coroutine is resumed when it is done. All values live in host memory
//! and are read and written in the order of simulated time.
//!
//! The loop and every coroutine reach the one [`Engine`] through a raw pointer. So no reference into it may be alive
//! across a switch, neither a local one nor a parameter of a function further up the stack: whatever may switch is a
//! function of `*mut Engine`, and a method of `&self` or `&mut self` never does. The coroutines themselves, which are
//! borrowed while they run, are no part of the engine.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;

use coroutine::{Coroutine, CoroutineResult, GivenUp, Yielder};
use machine::{Counts, Event as Note, LINE_BYTES, Place};

use crate::Time;
use crate::arena::{Arena, ThreadStack};
use crate::directory::{Request, State};
use crate::hardware::Hardware;
use crate::holders::Holders;
use crate::legs::Legs;
use crate::lines::{Line, Lines};
use crate::nodes::NodePools;
use crate::report::Totals;
use crate::simulation::enter;
use crate::spin::{Condition, Stage, go_on};
use crate::stopped::{Reason, Stopped};
use crate::trace::{Trace, What};
use crate::wheel::Wheel;

pub(crate) const NOBODY: u32 = u32::MAX;
/// Lines that a core remembers to have lost while the invalidation is still on its way to it.
const LOSSES: usize = 4;

type Routine = Coroutine<(), (), (), ThreadStack>;

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A thread's access is done, or its time has come.
    Resume(u32),
    /// A thread's request leaves its core.
    Issue(u32),
    /// A thread's request reaches the line's home.
    HomeArrival(u32),
    /// The home's probe for a thread's request reaches the line's owner.
    OwnerProbed(u32),
    /// That probe reaches the core that has the line.
    OwnerAnswers(u32),
    /// A line's home can take the next request.
    HomeFree(u32),
    /// A thread may run: it starts, or was woken.
    Ready(u32),
    /// A waiting thread's limit, if it is still the same wait.
    Timer(u32, u32),
    /// The end of a core's time slice, if it is still the same one.
    SliceEnd(u32, u32),
}

/// First and last of the threads in a queue, linked through [`Thread::next`].
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
}

/// A line that a core has lost at its directory but may use until the message has come.
#[derive(Clone, Copy, Default)]
pub(crate) struct Loss {
    line: u32,
    until: Time,
    writable: bool,
}

/// A simulated core.
pub(crate) struct Core {
    pub(crate) die: u32,
    /// The thread that has the core.
    pub(crate) running: u32,
    /// Threads that wait for it.
    pub(crate) ready: VecDeque<u32>,
    pub(crate) slice_end: Time,
    /// Tells time slices apart.
    pub(crate) slice: u32,
    losses: [Loss; LOSSES],
    next_loss: usize,
}

impl Core {
    pub(crate) fn lose(&mut self, line: u32, until: Time, writable: bool) {
        self.losses[self.next_loss] = Loss { line, until, writable };
        self.next_loss = (self.next_loss + 1) % LOSSES;
    }

    /// Whether the core may still use a line that it has lost.
    #[inline]
    pub(crate) fn may_use(&self, line: u32, request: Request, now: Time) -> bool {
        let usable =
            |loss: &Loss| loss.line == line && now < loss.until && (loss.writable || !request.writes());
        self.losses.iter().any(usable)
    }
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Runs, or waits for an access.
    Running,
    /// Watches lines that its core has.
    Watching,
    /// Could run, but another thread has its core.
    Ready,
    /// Sleeps in the kernel.
    Asleep,
    /// Has ended.
    Done,
}

/// The lines that a thread watches, and when it would look at them again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) lines: [u32; 3],
    pub(crate) count: usize,
    /// When the next poll would be.
    pub(crate) next_poll: Time,
    /// From one poll to the next.
    pub(crate) period: Time,
}

/// A simulated thread.
pub(crate) struct Thread {
    yielder: *const Yielder<(), ()>,
    pub(crate) core: u32,
    pub(crate) activity: Activity,
    pub(crate) line: u32,
    pub(crate) request: Request,
    pub(crate) issued: Time,
    /// When the line's owner sends it.
    pub(crate) sent: Time,
    pub(crate) site: Option<&'static Location<'static>>,
    /// The request was sent to the home on behalf of the whole die.
    pub(crate) for_die: bool,
    /// The next one in the same queue.
    pub(crate) next: u32,
    pub(crate) watched: Watched,
    /// Tells waits apart.
    pub(crate) wait: u32,
    /// The limit of a sleep was reached.
    pub(crate) timed_out: bool,
    /// Where it sleeps.
    pub(crate) asleep_at: u32,
    pub(crate) counts: Counts,
    pub(crate) ended: Time,
    /// When it announced the acquisition that it is at.
    pub(crate) acquiring_since: Time,
    /// Others held the lock, or waited, when it did.
    pub(crate) met_others: bool,
    pub(crate) holding_since: Time,
    /// The lock that its accesses are counted for, by its place among the locks.
    pub(crate) counted_for: u32,
    /// The line that it watched has been looked at on its behalf.
    pub(crate) looked: bool,
    /// Where its wait on one word stands, and what it waits for.
    pub(crate) stage: Stage,
    /// How much of the pause between two polls is left.
    pub(crate) pause_left: Time,
    pub(crate) condition: Option<Condition>,
    pub(crate) condition_site: Option<&'static Location<'static>>,
}

/// Choices of one simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides the threads' starts, and through workloads everything random.
    pub seed: u64,
    /// Poll for real where a waiter would be parked. Slower, with the same outcome: the oracle of the fast way.
    pub really_poll: bool,
    /// After so many events without an acquisition or operation the run is called a livelock.
    pub livelock_events: u64,
    /// How many records of a run are kept for a trace file.
    pub trace_records: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, really_poll: false, livelock_events: 20_000_000, trace_records: 0 }
    }
}

/// A simulation.
pub(crate) struct Engine {
    pub(crate) hardware: Hardware,
    pub(crate) options: Options,
    pub(crate) arena: Arena,
    pub(crate) lines: Lines,
    pub(crate) legs: Legs,
    pub(crate) wheel: Wheel<Event>,
    /// The time of the running thread, or of the event at hand.
    pub(crate) now: Time,
    /// How far the running thread may go before something else happens.
    pub(crate) horizon: Time,
    /// The thread whose coroutine runs; nobody while the caller of the simulation does.
    pub(crate) current: u32,
    pub(crate) current_core: u32,
    pub(crate) cores: Vec<Core>,
    pub(crate) threads: Vec<Thread>,
    /// By memory node: when it takes the next request.
    pub(crate) nodes_free: Vec<Time>,
    /// By pair of sockets: when the link takes the next message.
    pub(crate) links_free: Vec<Time>,
    pub(crate) sleepers: BTreeMap<u32, VecDeque<u32>>,
    /// What threads announce is counted from here.
    pub(crate) counted_from: Time,
    pub(crate) running_until: Time,
    pub(crate) nodes: NodePools,
    pub(crate) locks: Vec<Holders>,
    lock_numbers: BTreeMap<u32, u32>,
    /// The lock that was looked up last, by its offset.
    last_lock: (u32, u32),
    /// Accesses that hit, of all threads.
    pub(crate) hits: u64,
    hits_counted: u64,
    pub(crate) totals: Totals,
    pub(crate) trace: Trace,
    pub(crate) unproductive_events: u64,
    pub(crate) stop: Option<Reason>,
    panicked: Option<Box<dyn Any + Send>>,
    /// What a waiter's condition panicked with.
    pub(crate) condition_panicked: Option<Box<dyn Any + Send>>,
    random: u64,
}

impl Engine {
    pub(crate) fn new(hardware: Hardware, options: Options) -> Self {
        let core = |place: &Place| Core {
            die: place.die,
            running: NOBODY,
            ready: VecDeque::new(),
            slice_end: Time::MAX,
            slice: 0,
            losses: [Loss::default(); LOSSES],
            next_loss: 0,
        };
        let cores = hardware.places.iter().map(core).collect::<Vec<_>>();
        let sockets = hardware.hops.len();
        Self {
            arena: Arena::new(),
            lines: Lines::default(),
            legs: Legs::new(&hardware),
            wheel: Wheel::new(),
            now: 0,
            horizon: 0,
            current: NOBODY,
            current_core: NOBODY,
            nodes_free: vec![0; hardware.nodes],
            links_free: vec![0; sockets * sockets],
            trace: Trace::new(cores.len(), options.trace_records),
            cores,
            threads: Vec::new(),
            sleepers: BTreeMap::new(),
            counted_from: 0,
            running_until: Time::MAX,
            nodes: NodePools::default(),
            locks: Vec::new(),
            lock_numbers: BTreeMap::new(),
            last_lock: (NOBODY, NOBODY),
            hits: 0,
            hits_counted: 0,
            totals: Totals::default(),
            unproductive_events: 0,
            stop: None,
            panicked: None,
            condition_panicked: None,
            random: options.seed,
            hardware,
            options,
        }
    }

    #[inline]
    pub(crate) fn line(&mut self, line: u32) -> &mut Line {
        self.lines.get(line)
    }

    /// The next number of a generator whose code is here, so that it is the same everywhere (SplitMix64, Steele,
    /// Lea and Flood 2014).
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn cost(&self, request: Request) -> Time {
        if request == Request::Atomic { self.hardware.atomic } else { self.hardware.hit }
    }

    pub(crate) fn push_back(&mut self, mut queue: Queue, thread: u32) -> Queue {
        self.threads[thread as usize].next = NOBODY;
        match queue.first {
            NOBODY => queue.first = thread,
            _ => self.threads[queue.last as usize].next = thread,
        }
        queue.last = thread;
        queue
    }

    pub(crate) fn pop_front(&mut self, mut queue: Queue) -> (Option<u32>, Queue) {
        let first = queue.first;
        if first == NOBODY {
            return (None, queue);
        }
        queue.first = self.threads[first as usize].next;
        (Some(first), queue)
    }

    /// Takes the thread at a place of a queue that is longer than that.
    pub(crate) fn take_at(&mut self, mut queue: Queue, place: u64) -> (Option<u32>, Queue) {
        if place == 0 {
            return self.pop_front(queue);
        }
        let next = |this: &Self, thread: u32| this.threads[thread as usize].next;
        let before = (1..place).fold(queue.first, |thread, _| next(self, thread));
        let taken = next(self, before);
        self.threads[before as usize].next = next(self, taken);
        if queue.last == taken {
            queue.last = before;
        }
        (Some(taken), queue)
    }

    pub(crate) fn record(&mut self, thread: u32, what: What) {
        if thread != NOBODY {
            let core = self.threads[thread as usize].core;
            self.trace.record(self.now, core, thread, what);
        }
    }

    /// The time up to which the running thread may go without looking at the queue.
    pub(crate) fn refresh_horizon(&mut self) {
        self.horizon = self.wheel.next_time();
        if let Some(core) = self.cores.get(self.current_core as usize)
            && !core.ready.is_empty()
        {
            self.horizon = self.horizon.min(core.slice_end);
        }
    }

    /// Whether the running thread has to let others go first: its slice is over, or there are events before its time.
    /// An event will go on with it then.
    pub(crate) fn gives_way(&mut self) -> bool {
        let (current, core) = (self.current, &self.cores[self.current_core as usize]);
        if !core.ready.is_empty() && self.now >= core.slice_end {
            self.preempt(current);
        } else if self.now >= self.wheel.next_time() {
            // When this event comes it is the thread's turn: what others do at the same time later comes later.
            self.push(self.now, Event::Resume(current));
        } else {
            self.refresh_horizon();
            return false;
        }
        true
    }

    #[inline]
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        self.wheel.push(time, event);
        self.horizon = self.horizon.min(time);
    }
}

impl Queue {
    pub(crate) const EMPTY: Self = Self { first: NOBODY, last: NOBODY };

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.first == NOBODY
    }
}

/// Suspends the running thread until an event resumes it.
///
/// # Safety
/// `engine` is the simulation of the running coroutine, and no reference into it is alive.
pub(crate) unsafe fn suspend(engine: *mut Engine) {
    // SAFETY: the yielder belongs to the coroutine that runs now and lives on its stack.
    unsafe {
        let current = (*engine).current as usize;
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
        if (*engine).current == NOBODY {
            return;
        }
        let line = (*engine).line_of(address);
        if (*engine).now >= (*engine).horizon {
            catch_up(engine);
        }
        let this = &mut *engine;
        let core = this.current_core;
        let entry = this.line(line);
        if entry.answers(core, request) {
            entry.counts.hits += 1;
            if request.writes() {
                entry.state = State::Modified;
            }
            this.hits += 1;
            this.now += this.cost(request);
        } else {
            miss(engine, line, request, site);
        }
    }
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
        let thread = &mut this.threads[this.current as usize];
        thread.line = line;
        thread.request = request;
        thread.site = Some(site);
        thread.issued = this.now;
        let (current, now) = (this.current, this.now);
        if let Some(done) = this.issue(current, now) {
            // Nobody else can come in between: no need to leave the coroutine.
            if done < this.horizon {
                this.now = done;
                this.completed(current);
            } else {
                this.push(done, Event::Resume(current));
                suspend(engine);
                (*engine).completed(current);
            }
        } else {
            suspend(engine);
            (*engine).completed(current);
        }
        (*engine).now += (*engine).cost(request);
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
        cores: &[u32],
        duration: Option<Time>,
        body: &(dyn Fn(usize) + Sync),
    ) -> Result<(Vec<Counts>, Time), Failure> {
        // SAFETY: the engine outlives the run; every reference made here ends before a coroutine is resumed.
        unsafe {
            let started = (*engine).now;
            let (start_skew, warm_up) = match duration {
                Some(_) if count > 1 => (WARM_UP / 2, WARM_UP),
                _ => (START_SKEW, 0),
            };
            let counted_from = started.saturating_add(warm_up);
            (*engine).counted_from = counted_from;
            (*engine).running_until =
                duration.map_or(Time::MAX, |duration| counted_from.saturating_add(duration));
            (*engine).unproductive_events = 0;
            (*engine).threads.clear();
            let mut routines = (0..count)
                .map(|index| Self::start(engine, index, cores, start_skew, body))
                .collect::<Vec<_>>();
            let ended = Self::take_events(engine, &mut routines);
            let this = &mut *engine;
            this.current = NOBODY;
            this.current_core = NOBODY;
            this.wheel = Wheel::new();
            for core in &mut this.cores {
                core.running = NOBODY;
                core.ready.clear();
            }
            this.sleepers.clear();
            let threads = std::mem::take(&mut this.threads);
            for routine in &mut routines {
                if routine.started() && !routine.done() {
                    // What a stopped thread had on its stack is left as it is, like a killed thread's.
                    routine.force_reset();
                }
            }
            ended?;
            let last = threads.iter().map(|thread| thread.ended).max().unwrap_or(started);
            // The wheel starts again where this run has ended.
            this.now = last;
            let counted_until = last.min(this.running_until);
            let counts = threads.iter().map(|thread| thread.counts).collect();
            Ok((counts, counted_until.saturating_sub(counted_from)))
        }
    }

    /// # Safety
    /// `engine` is valid, and `body` outlives the coroutine: `run` resets those that have not ended.
    unsafe fn start(
        engine: *mut Self,
        index: usize,
        cores: &[u32],
        start_skew: Time,
        body: &(dyn Fn(usize) + Sync),
    ) -> Routine {
        // SAFETY: the caller's.
        unsafe {
            let this = &mut *engine;
            let stack = this.arena.stack(index);
            let core = match cores.get(index) {
                Some(&core) => core % this.cores.len() as u32,
                None => (index % this.cores.len()) as u32,
            };
            let routine: Routine =
                Coroutine::with_stack_unchecked(stack, move |yielder: &Yielder<(), ()>, ()| {
                    let _entered = enter(engine); // under Miri this is another host thread
                    (&mut (*engine).threads)[index].yielder = yielder;
                    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(index)));
                    if let Err(payload) = caught
                        && !payload.is::<GivenUp>()
                    {
                        (*engine).panicked.get_or_insert(payload);
                    }
                });
            this.threads.push(Thread::new(core));
            let skew = this.next_random() % start_skew;
            let thread = index as u32;
            this.push(this.now + skew, Event::Ready(thread));
            routine
        }
    }

    /// # Safety
    /// `engine` is valid, no reference into it is alive, and the routines are those of its threads.
    unsafe fn take_events(engine: *mut Self, routines: &mut [Routine]) -> Result<(), Failure> {
        // SAFETY: the caller's; `this` ends before a coroutine, or a waiter's condition, runs.
        unsafe {
            let mut alive = (*engine).threads.len();
            while alive > 0 {
                let this = &mut *engine;
                let Some((time, event)) = this.wheel.pop() else {
                    return Err(Failure::Stopped(this.stopped(Reason::Deadlock)));
                };
                this.now = time;
                this.totals.events += 1;
                this.unproductive_events += 1;
                if this.unproductive_events > this.options.livelock_events {
                    let events = this.options.livelock_events;
                    return Err(Failure::Stopped(this.stopped(Reason::Livelock { events })));
                }
                let Some(thread) = this.handle(event) else { continue };
                this.current = thread;
                this.current_core = this.threads[thread as usize].core;
                this.refresh_horizon();
                if this.threads[thread as usize].stage != Stage::Own && !go_on(engine, thread) {
                    (*engine).flush_hits();
                    (*engine).current = NOBODY;
                    continue;
                }
                let result = routines[thread as usize].resume(());
                let this = &mut *engine;
                this.flush_hits();
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
                    this.end(thread);
                }
                this.current = NOBODY;
            }
            Ok(())
        }
    }

    /// Handles an event; gives the thread whose coroutine goes on.
    fn handle(&mut self, event: Event) -> Option<u32> {
        let now = self.now;
        match event {
            Event::Resume(thread) => Some(thread),
            Event::Ready(thread) => {
                self.make_ready(thread, now);
                None
            }
            Event::Issue(thread) => {
                if let Some(done) = self.issue(thread, now) {
                    self.push(done, Event::Resume(thread));
                }
                None
            }
            Event::HomeArrival(thread) => {
                self.arrive_home(thread, now);
                None
            }
            Event::OwnerProbed(thread) => {
                self.owner_probed(thread, now);
                None
            }
            Event::OwnerAnswers(thread) => {
                self.owner_answers(thread, now);
                None
            }
            Event::HomeFree(line) => {
                self.serve_next(line, now);
                None
            }
            Event::Timer(thread, wait) => {
                self.limit_reached(thread, wait);
                None
            }
            Event::SliceEnd(core, slice) => {
                self.slice_ended(core, slice);
                None
            }
        }
    }

    /// Counts the hits since the last call for the lock that the running thread is at.
    #[inline]
    pub(crate) fn flush_hits(&mut self) {
        let fresh = self.hits - self.hits_counted;
        if fresh == 0 {
            return;
        }
        self.hits_counted = self.hits;
        let Some(thread) = self.threads.get(self.current as usize) else { return };
        if let Some(lock) = self.locks.get_mut(thread.counted_for as usize) {
            lock.counts.hits += fresh;
        }
    }

    /// The place among the locks of the one at an offset.
    #[inline]
    pub(crate) fn lock_at(&mut self, offset: u32) -> u32 {
        if self.last_lock.0 != offset {
            self.last_lock = (offset, self.find_lock(offset));
        }
        self.last_lock.1
    }

    fn find_lock(&mut self, offset: u32) -> u32 {
        let next = self.locks.len() as u32;
        let number = *self.lock_numbers.entry(offset).or_insert(next);
        if number == next {
            self.locks.push(Holders::new(offset));
        }
        number
    }

    fn stopped(&self, reason: Reason) -> Box<Stopped> {
        Box::new(Stopped::new(self, reason))
    }
}

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
    fn new(core: u32) -> Self {
        Self {
            yielder: std::ptr::null(),
            core,
            activity: Activity::Ready,
            line: 0,
            request: Request::Load,
            issued: 0,
            sent: 0,
            site: None,
            for_die: false,
            next: NOBODY,
            watched: Watched::default(),
            wait: 0,
            timed_out: false,
            asleep_at: 0,
            counts: Counts::default(),
            ended: 0,
            acquiring_since: 0,
            met_others: false,
            holding_since: 0,
            counted_for: NOBODY,
            looked: false,
            stage: Stage::Own,
            pause_left: 0,
            condition: None,
            condition_site: None,
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

/// The lock that a note is about.
pub(crate) fn lock_of(note: Note) -> Option<usize> {
    match note {
        Note::Acquiring { lock }
        | Note::Acquired { lock, .. }
        | Note::Releasing { lock, .. }
        | Note::GaveUp { lock } => Some(lock),
        Note::Operation => None,
    }
}
