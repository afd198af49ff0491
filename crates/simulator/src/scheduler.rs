//! Threads on cores: who has which core, who waits for it, who sleeps, and time slices.

mod rt_mutex;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::clock::{Clock, Event};
use crate::hardware::Hardware;
use crate::memory::Memory;
use crate::run_queue::{Left, RunQueue};
use crate::{NOBODY, PS_PER_NS, Time};

pub(crate) use rt_mutex::Asked;
use rt_mutex::RtMutexes;

/// A thread that ran a shorter time ago is not taken over by another core: its data may still be where it ran. It is what Linux
/// assumes (`sched_migration_cost`).
const HOT: Time = 500_000 * PS_PER_NS;

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Has its core: it runs, waits for an access, or watches lines.
    Running,
    /// Could run, but another thread has its core.
    Ready,
    /// Sleeps in the kernel.
    Asleep,
    /// Has ended.
    Done,
}

/// A simulated thread, as the scheduler sees it.
#[derive(Clone, Copy)]
pub(crate) struct Thread {
    pub(crate) core: u32,
    pub(crate) activity: Activity,
    /// Its own real-time priority; 0 for a normal thread.
    own_priority: u8,
    /// The priority that it runs with: its own, or a higher one that it has inherited.
    priority: u8,
    /// What it was short of the average of its core's threads when it went to sleep.
    lag: i64,
    /// Tells waits apart.
    wait: u32,
    /// When it was last given a core.
    pub(crate) runs_since: Time,
    /// When the delay ends that it is in; never, if it is in none.
    delay_ends: Time,
    /// What was left of a delay when the thread lost its core.
    pub(crate) delay_left: Time,
    /// The timeout of a sleep was reached.
    pub(crate) timed_out: bool,
    /// Where it sleeps.
    pub(crate) asleep_at: u32,
    /// It is in the kernel, where it keeps its core until it sleeps or leaves.
    in_kernel: bool,
    pub(crate) ended: Time,
}

impl Thread {
    /// What is left of the time that it passes now, or goes on to pass when it has a core again.
    pub(crate) fn delay_left_at(&self, now: Time) -> Time {
        if self.delay_ends == Time::MAX { self.delay_left } else { self.delay_ends.saturating_sub(now) }
    }
}

/// All threads and cores.
pub(crate) struct Scheduler {
    hardware: Rc<Hardware>,
    /// See [`crate::Options::threads_move`].
    threads_move: bool,
    /// Some core has several threads, or may have.
    share_cores: bool,
    cores: Vec<RunQueue>,
    threads: Vec<Thread>,
    /// Threads that wait for a core, of all cores. Mostly none do, and then the cores are not looked at.
    ready: usize,
    /// By the address that they sleep at, in the order of their sleeps.
    sleepers: BTreeMap<u32, VecDeque<u32>>,
    rt_mutexes: RtMutexes,
    /// The thread that runs now; [`NOBODY`] while the caller of the simulation does.
    pub(crate) current: u32,
    pub(crate) current_core: u32,
    /// Threads that gave their core to another.
    pub(crate) context_switches: u64,
    /// Sleeps in the kernel.
    pub(crate) sleeps: u64,
    /// Sleepers woken.
    pub(crate) wakes: u64,
    /// How long threads have had cores, of those times that are over.
    pub(crate) running: Time,
}

impl Scheduler {
    pub(crate) fn new(hardware: &Rc<Hardware>, threads_move: bool) -> Self {
        let core = |_| RunQueue::new(hardware.time_slice, hardware.tick);
        Self {
            hardware: Rc::clone(hardware),
            threads_move,
            share_cores: false,
            cores: (0..hardware.cores()).map(core).collect(),
            threads: Vec::new(),
            ready: 0,
            sleepers: BTreeMap::new(),
            rt_mutexes: RtMutexes::default(),
            current: NOBODY,
            current_core: NOBODY,
            context_switches: 0,
            sleeps: 0,
            wakes: 0,
            running: 0,
        }
    }

    /// Adds a thread of a core, with a real-time priority or 0, which is not ready yet.
    pub(crate) fn add(&mut self, core: u32, priority: u8) {
        self.share_cores |= match self.threads_move {
            true => self.threads.len() >= self.cores.len(),
            false => self.threads.iter().any(|thread| thread.core == core),
        };
        self.threads.push(Thread {
            core,
            activity: Activity::Ready,
            own_priority: priority,
            priority,
            lag: 0,
            runs_since: 0,
            delay_ends: Time::MAX,
            delay_left: 0,
            wait: 0,
            timed_out: false,
            asleep_at: 0,
            in_kernel: false,
            ended: 0,
        });
    }

    /// Ends a run: every core is idle, and no thread is left. Gives what the threads were.
    pub(crate) fn clear(&mut self) -> Vec<Thread> {
        self.stand_aside();
        self.cores.iter_mut().for_each(RunQueue::clear);
        self.ready = 0;
        self.share_cores = false;
        self.sleepers.clear();
        self.rt_mutexes = RtMutexes::default();
        std::mem::take(&mut self.threads)
    }

    #[inline]
    pub(crate) fn thread(&self, thread: u32) -> &Thread {
        &self.threads[thread as usize]
    }

    pub(crate) fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Makes a thread the one that runs now.
    #[inline]
    pub(crate) fn run(&mut self, thread: u32) {
        self.current = thread;
        self.current_core = self.threads[thread as usize].core;
    }

    /// No thread runs now.
    #[inline]
    pub(crate) fn stand_aside(&mut self) {
        self.current = NOBODY;
        self.current_core = NOBODY;
    }

    /// When the running thread has to give up its core; never, if no other thread wants it.
    #[inline]
    pub(crate) fn slice_end(&self) -> Time {
        if self.ready == 0 || self.in_kernel() {
            return Time::MAX;
        }
        self.cores.get(self.current_core as usize).map_or(Time::MAX, |core| core.slice().1)
    }

    /// Whether the running thread is in the kernel, where it keeps its core.
    pub(crate) fn in_kernel(&self) -> bool {
        self.threads.get(self.current as usize).is_some_and(|thread| thread.in_kernel)
    }

    /// Lets the running thread be in the kernel from now on, or leave it: a slice that has ended meanwhile ends now.
    pub(crate) fn set_in_kernel(&mut self, clock: &mut Clock, inside: bool) {
        self.threads[self.current as usize].in_kernel = inside;
        clock.limit_horizon(self.slice_end());
    }

    /// Whether a thread may lose its core to one that is not ready yet.
    #[inline]
    pub(crate) fn share_cores(&self) -> bool {
        self.share_cores
    }

    /// The core that a thread would run on if it became ready now: its own, or an idle one if its own is taken; and where
    /// none is idle the waker's, if fewer threads want that.
    fn destination(&self, thread: u32) -> u32 {
        let own = self.threads[thread as usize].core;
        if !self.threads_move || self.is_idle(own) {
            return own;
        }
        if let Some(idle) = self.idle_core() {
            return idle;
        }
        if self.current == NOBODY {
            return own;
        }
        let load = |core: u32| self.cores[core as usize].load();
        if load(self.current_core) < load(own) { self.current_core } else { own }
    }

    fn idle_core(&self) -> Option<u32> {
        (0..self.cores.len() as u32).find(|&core| self.is_idle(core))
    }

    fn is_idle(&self, core: u32) -> bool {
        self.cores[core as usize].running() == NOBODY
    }

    /// Moves a thread that is not running to another core.
    fn move_to(&mut self, memory: &mut Memory, thread: u32, core: u32) {
        self.threads[thread as usize].core = core;
        memory.requesters.get_mut(thread).core = core;
    }

    /// A thread that is not running can run: on an idle core once that is awake, else it waits in a core's queue. Gives what the
    /// waker's system call takes longer.
    pub(crate) fn make_ready(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32) -> Time {
        let own = self.threads[thread as usize].core;
        let woken = self.cores[own as usize].wake(thread, clock.now);
        if let Some(leaves) = woken {
            return self.waits(clock, memory, own, thread, leaves);
        }
        let (core, Thread { lag, priority, .. }) = (self.destination(thread), self.threads[thread as usize]);
        self.move_to(memory, thread, core);
        if self.is_idle(core) {
            // A thread that starts has not slept.
            let sleeps = self.threads[thread as usize].activity == Activity::Asleep;
            let at = clock.now + if sleeps { self.hardware.wake } else { 0 };
            match priority {
                0 => self.cores[core as usize].start(thread, lag, at),
                _ => self.cores[core as usize].start_realtime(thread, priority),
            }
            self.runs(clock, core, thread, at);
            return if core == self.current_core { 0 } else { self.hardware.wake_call };
        }
        let leaves = match priority {
            0 => self.cores[core as usize].add(thread, lag, clock.now),
            _ => self.cores[core as usize].add_realtime(thread, priority, false, clock.now),
        };
        self.waits(clock, memory, core, thread, leaves)
    }

    /// A thread has come to a core's queue; `leaves` says whether the one that runs has to leave. An interrupt tells another core.
    fn waits(
        &mut self,
        clock: &mut Clock,
        memory: &mut Memory,
        core: u32,
        thread: u32,
        leaves: bool,
    ) -> Time {
        self.threads[thread as usize].activity = Activity::Ready;
        self.ready += 1;
        self.heed_slice(clock, memory, core);
        if leaves && core != self.current_core { self.hardware.wake_call } else { 0 }
    }

    /// The slice of the thread that has a core may end at another time than before.
    fn heed_slice(&self, clock: &mut Clock, memory: &Memory, core: u32) {
        if memory.is_watched(core) || self.delays(core) {
            self.time_slice(clock, core);
        }
        if core == self.current_core {
            clock.limit_horizon(self.cores[core as usize].slice().1);
        }
    }

    /// Lets a thread run with another priority from now on.
    fn set_priority(&mut self, clock: &mut Clock, memory: &Memory, thread: u32, priority: u8) {
        let Thread { core, activity, priority: before, .. } = self.threads[thread as usize];
        if priority == before {
            return;
        }
        let changed = &mut self.threads[thread as usize];
        changed.priority = priority;
        if activity != Activity::Done {
            let queue = &mut self.cores[core as usize];
            queue.set_priority(thread, (before, priority), &mut changed.lag, clock.now);
            self.heed_slice(clock, memory, core);
        }
    }

    /// Whether the thread that has a core passes time.
    fn delays(&self, core: u32) -> bool {
        let running = self.threads.get(self.cores[core as usize].running() as usize);
        running.is_some_and(|running| running.delay_ends != Time::MAX)
    }

    /// The running thread passes time up to an end, unless it loses its core before.
    pub(crate) fn begin_delay(&mut self, clock: &mut Clock, end: Time) {
        self.threads[self.current as usize].delay_ends = end;
        self.begin_wait(clock, Some(end));
        // A slice that ends later takes no core from this delay; one that is cut short meanwhile tells by itself.
        if self.cores[self.current_core as usize].slice().1 <= end {
            self.time_slice(clock, self.current_core);
        }
    }

    /// Ends a thread's delay; what is left of it counts from when it has a core again.
    fn end_delay(&mut self, thread: u32, now: Time) {
        let delaying = &mut self.threads[thread as usize];
        if delaying.delay_ends != Time::MAX {
            delaying.delay_left = delaying.delay_ends.saturating_sub(now);
            delaying.delay_ends = Time::MAX;
            delaying.wait = delaying.wait.wrapping_add(1);
        }
    }

    /// Ends a thread's delay, if it is in one, and lets it go on at once.
    pub(crate) fn cut_delay(&mut self, clock: &mut Clock, thread: u32) {
        if self.threads[thread as usize].delay_ends != Time::MAX {
            self.end_delay(thread, clock.now);
            clock.push(clock.now, Event::Resume(thread));
        }
    }

    /// Lets an event take the core from the thread that watches or passes time there, once its slice is over and if others wait.
    pub(crate) fn time_slice(&self, clock: &mut Clock, core: u32) {
        let (number, end) = self.cores[core as usize].slice();
        if end != Time::MAX {
            clock.push(end.max(clock.now), Event::SliceEnd(core, number));
        }
    }

    /// A thread has a core from a time on.
    fn runs(&mut self, clock: &mut Clock, core: u32, thread: u32, at: Time) {
        let running = &mut self.threads[thread as usize];
        (running.core, running.activity, running.runs_since) = (core, Activity::Running, at);
        clock.push(at, Event::Resume(thread));
    }

    /// A thread has left its core: the next thread runs after the switch; if there is none, one that has long waited for
    /// another core.
    fn leave_core(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32) {
        let Thread { core, runs_since, .. } = self.threads[thread as usize];
        self.running += clock.now.saturating_sub(runs_since);
        let at = clock.now + self.hardware.context_switch;
        if let Some(next) = self.cores[core as usize].next(clock.now, at) {
            self.ready -= 1;
            self.context_switches += 1;
            self.runs(clock, core, next, at);
            return;
        }
        self.take_over(clock, memory, core, at);
    }

    /// An idle core takes a thread that has long waited for another.
    fn take_over(&mut self, clock: &mut Clock, memory: &mut Memory, core: u32, at: Time) {
        if !self.threads_move || self.ready == 0 {
            return;
        }
        let cold = clock.now.saturating_sub(HOT);
        let longest = self.cores.iter_mut().max_by_key(|core| core.movable());
        if let Some((thread, lag)) = longest.and_then(|from| from.take_idle_since(cold, clock.now)) {
            self.move_to(memory, thread, core);
            self.ready -= 1;
            self.context_switches += 1;
            self.cores[core as usize].start(thread, lag, at);
            self.runs(clock, core, thread, at);
        }
    }

    /// The running thread has used up its slice. Says whether it has lost its core.
    pub(crate) fn preempt(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32) -> bool {
        let core = self.threads[thread as usize].core;
        if let Some(idle) = self.idle_core() {
            let at = clock.now + self.hardware.wake;
            self.take_over(clock, memory, idle, at);
        }
        let leaves = self.cores[core as usize].lapse(clock.now);
        if leaves {
            self.lost_core(clock, memory, thread);
        }
        leaves
    }

    /// The running thread gives way to those that want its core. Says whether it has lost it.
    pub(crate) fn yields(&mut self, clock: &mut Clock, memory: &mut Memory) -> bool {
        let leaves = self.cores[self.current_core as usize].yields(clock.now);
        if leaves {
            self.lost_core(clock, memory, self.current);
        }
        leaves
    }

    /// A thread waits in its core's queue, and the core goes to the next.
    fn lost_core(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32) {
        let losing = &mut self.threads[thread as usize];
        losing.activity = Activity::Ready;
        self.ready += 1;
        self.leave_core(clock, memory, thread);
    }

    /// A core's time slice is over; gives the thread that watched or passed time there and loses the core.
    pub(crate) fn slice_ended(
        &mut self,
        clock: &mut Clock,
        memory: &mut Memory,
        core: u32,
        slice: u32,
    ) -> Option<u32> {
        let (number, end) = self.cores[core as usize].slice();
        if number != slice || end > clock.now || !memory.is_watched(core) && !self.delays(core) {
            return None;
        }
        let running = self.cores[core as usize].running();
        if self.threads[running as usize].in_kernel {
            return None;
        }
        if !self.preempt(clock, memory, running) {
            self.time_slice(clock, core);
            return None;
        }
        // It polls its lines again when it has the core again.
        memory.end_watch(core);
        self.end_delay(running, clock.now);
        Some(running)
    }

    /// The running thread has ended.
    pub(crate) fn end(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32) {
        let ending = &mut self.threads[thread as usize];
        ending.activity = Activity::Done;
        ending.ended = clock.now;
        let core = ending.core;
        self.cores[core as usize].end(clock.now);
        self.leave_core(clock, memory, thread);
    }

    /// The running thread begins to wait; `at` is its timeout.
    pub(crate) fn begin_wait(&mut self, clock: &mut Clock, at: Option<Time>) {
        let waiting = &mut self.threads[self.current as usize];
        waiting.wait = waiting.wait.wrapping_add(1);
        if let Some(at) = at {
            clock.push(at.max(clock.now), Event::Timer(self.current, waiting.wait));
        }
    }

    /// A thread's wait is over: its timeout is of no wait that follows.
    pub(crate) fn end_wait(&mut self, thread: u32) {
        let waited = &mut self.threads[thread as usize];
        waited.wait = waited.wait.wrapping_add(1);
    }

    /// A wait's timeout is reached.
    pub(crate) fn timed_out(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32, wait: u32) {
        let waiting = &mut self.threads[thread as usize];
        if waiting.wait != wait {
            return;
        }
        match waiting.activity {
            Activity::Running if waiting.delay_ends != Time::MAX => {
                self.end_delay(thread, clock.now);
                clock.push(clock.now, Event::Resume(thread));
            }
            Activity::Running if memory.end_watch(waiting.core) => {
                waiting.wait += 1;
                memory.wake_watcher(clock, thread, clock.now);
            }
            Activity::Asleep => {
                waiting.timed_out = true;
                waiting.wait += 1;
                if let Some(sleepers) = self.sleepers.get_mut(&waiting.asleep_at) {
                    sleepers.retain(|&sleeper| sleeper != thread);
                }
                self.make_ready(clock, memory, thread);
            }
            _ => {}
        }
    }

    /// The running thread goes to sleep at an address and leaves its core; `at` is its timeout.
    pub(crate) fn sleep(&mut self, clock: &mut Clock, memory: &mut Memory, address: u32, at: Option<Time>) {
        let (current, core) = (self.current, self.current_core);
        self.sleepers.entry(address).or_default().push_back(current);
        self.sleeps += 1;
        let sleeping = &mut self.threads[current as usize];
        sleeping.activity = Activity::Asleep;
        sleeping.asleep_at = address;
        sleeping.timed_out = false;
        self.begin_wait(clock, at);
        self.threads[current as usize].lag = match self.cores[core as usize].sleep(clock.now) {
            Left::With(lag) => lag,
            Left::Lingers => 0,
        };
        self.leave_core(clock, memory, current);
    }

    /// Wakes sleepers of an address, which takes the caller time for each that an interrupt tells another core of; says how many.
    pub(crate) fn wake(&mut self, clock: &mut Clock, memory: &mut Memory, address: u32, count: u32) -> u32 {
        let mut woken = 0;
        while woken < count {
            let Some(thread) = self.sleepers.get_mut(&address).and_then(VecDeque::pop_front) else { break };
            woken += 1;
            self.threads[thread as usize].wait += 1;
            clock.now += self.make_ready(clock, memory, thread);
        }
        self.wakes += u64::from(woken);
        woken
    }

    /// Wakes this thread if it sleeps, as [`wake`](Self::wake) does; says so.
    fn wake_thread(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32) -> bool {
        let Thread { activity, asleep_at, .. } = self.threads[thread as usize];
        let sleeps = activity == Activity::Asleep;
        if sleeps {
            let sleepers = self.sleepers.get_mut(&asleep_at);
            sleepers.expect("it sleeps there").retain(|&sleeper| sleeper != thread);
            self.threads[thread as usize].wait += 1;
            clock.now += self.make_ready(clock, memory, thread);
            self.wakes += 1;
        }
        sleeps
    }
}
