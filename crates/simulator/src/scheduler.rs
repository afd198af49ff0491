//! Threads on cores: who has which core, who waits for it, who sleeps, and time slices.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::clock::{Clock, Event};
use crate::hardware::Hardware;
use crate::memory::Memory;
use crate::{NOBODY, Time};

/// A simulated core.
struct Core {
    /// The thread that has the core.
    running: u32,
    /// Threads that wait for it.
    ready: VecDeque<u32>,
    slice_end: Time,
    /// Tells time slices apart.
    slice: u32,
}

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
pub(crate) struct Thread {
    pub(crate) core: u32,
    pub(crate) activity: Activity,
    /// Tells waits apart.
    wait: u32,
    /// The timeout of a sleep was reached.
    pub(crate) timed_out: bool,
    /// Where it sleeps.
    pub(crate) asleep_at: u32,
    pub(crate) ended: Time,
}

/// All threads and cores.
pub(crate) struct Scheduler {
    hardware: Rc<Hardware>,
    /// See [`crate::Options::threads_move`].
    threads_move: bool,
    cores: Vec<Core>,
    threads: Vec<Thread>,
    /// Threads that wait for a core, of all cores. Mostly none do, and then nobody looks at the cores.
    ready: usize,
    /// By the address that they sleep at, in the order of their sleeps.
    sleepers: BTreeMap<u32, VecDeque<u32>>,
    /// The thread that runs now; nobody while the caller of the simulation does.
    pub(crate) current: u32,
    pub(crate) current_core: u32,
    /// Threads that gave their core to another.
    pub(crate) context_switches: u64,
    /// Sleeps in the kernel.
    pub(crate) sleeps: u64,
    /// Sleepers woken.
    pub(crate) wakes: u64,
}

impl Scheduler {
    pub(crate) fn new(hardware: &Rc<Hardware>, threads_move: bool) -> Self {
        let core = |_| Core { running: NOBODY, ready: VecDeque::new(), slice_end: Time::MAX, slice: 0 };
        Self {
            hardware: Rc::clone(hardware),
            threads_move,
            cores: (0..hardware.cores()).map(core).collect(),
            threads: Vec::new(),
            ready: 0,
            sleepers: BTreeMap::new(),
            current: NOBODY,
            current_core: NOBODY,
            context_switches: 0,
            sleeps: 0,
            wakes: 0,
        }
    }

    /// Adds a thread of a core, which is not ready yet.
    pub(crate) fn add(&mut self, core: u32) {
        self.threads.push(Thread {
            core,
            activity: Activity::Ready,
            wait: 0,
            timed_out: false,
            asleep_at: 0,
            ended: 0,
        });
    }

    /// Ends a run: every core is idle, and no thread is left. Gives what the threads were.
    pub(crate) fn clear(&mut self) -> Vec<Thread> {
        self.stand_aside();
        for core in &mut self.cores {
            core.running = NOBODY;
            core.ready.clear();
        }
        self.ready = 0;
        self.sleepers.clear();
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

    /// When the running thread has to give up its core; never, if nobody else wants it.
    #[inline]
    pub(crate) fn slice_end(&self) -> Time {
        if self.ready == 0 {
            return Time::MAX;
        }
        match self.cores.get(self.current_core as usize) {
            Some(core) if !core.ready.is_empty() => core.slice_end,
            _ => Time::MAX,
        }
    }

    /// The core that a thread would run on if it became ready now: its own, or an idle one if its own is taken.
    fn destination(&self, thread: u32) -> u32 {
        let own = self.threads[thread as usize].core;
        if !self.threads_move || self.cores[own as usize].running == NOBODY {
            return own;
        }
        let idle = self.cores.iter().position(|core| core.running == NOBODY);
        idle.map_or(own, |idle| idle as u32)
    }

    /// Moves a thread that is not running to another core.
    fn move_to(&mut self, memory: &mut Memory, thread: u32, core: u32) {
        self.threads[thread as usize].core = core;
        memory.requesters.get_mut(thread).core = core;
        // Its store buffer, which is empty.
        let (threads, requests) = (self.threads.len() as u32, self.hardware.misses_in_flight);
        for request in 0..requests {
            memory.requesters.get_mut(threads + thread * requests + request).core = core;
        }
    }

    /// A thread can run now, if its core is idle.
    pub(crate) fn make_ready(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32) {
        let core = self.destination(thread);
        self.move_to(memory, thread, core);
        self.threads[thread as usize].activity = Activity::Ready;
        if self.cores[core as usize].running == NOBODY {
            self.give_core(clock, core, thread, clock.now);
            return;
        }
        self.queue(core, thread);
        if memory.is_watched(core) {
            self.time_slice(clock, core);
        }
        if core == self.current_core {
            clock.limit_horizon(self.cores[core as usize].slice_end);
        }
    }

    /// Lets a thread wait for a core.
    fn queue(&mut self, core: u32, thread: u32) {
        self.cores[core as usize].ready.push_back(thread);
        self.ready += 1;
    }

    /// Lets an event take the core from the thread that watches there, once its slice is over and if others wait.
    pub(crate) fn time_slice(&self, clock: &mut Clock, core: u32) {
        let this = &self.cores[core as usize];
        if !this.ready.is_empty() {
            clock.push(this.slice_end.max(clock.now), Event::SliceEnd(core, this.slice));
        }
    }

    fn give_core(&mut self, clock: &mut Clock, core: u32, thread: u32, at: Time) {
        let slice_end = at + self.hardware.time_slice;
        let this = &mut self.cores[core as usize];
        this.running = thread;
        this.slice = this.slice.wrapping_add(1);
        this.slice_end = slice_end;
        self.threads[thread as usize].activity = Activity::Running;
        clock.push(at, Event::Resume(thread));
    }

    /// The thread that has the core leaves it to the next one, which runs after the switch; if there is none, to one that waits
    /// for another core.
    fn leave_core(&mut self, clock: &mut Clock, memory: &mut Memory, core: u32) {
        self.cores[core as usize].running = NOBODY;
        let mut next = self.cores[core as usize].ready.pop_front();
        // A thread that has lost its core may have left stores behind in its buffer.
        if next.is_none() && self.threads_move && self.hardware.store_buffer == 0 {
            let longest = self.cores.iter_mut().max_by_key(|core| core.ready.len());
            next = longest.and_then(|core| core.ready.pop_front());
            if let Some(thread) = next {
                self.move_to(memory, thread, core);
            }
        }
        if let Some(next) = next {
            self.ready -= 1;
            self.context_switches += 1;
            self.give_core(clock, core, next, clock.now + self.hardware.context_switch);
        }
    }

    /// A thread has used up its slice: it goes to the end of its core's queue.
    pub(crate) fn preempt(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32) {
        let core = self.threads[thread as usize].core;
        self.threads[thread as usize].activity = Activity::Ready;
        self.queue(core, thread);
        self.leave_core(clock, memory, core);
    }

    /// A core's time slice is over; gives the thread that watched there and loses the core.
    pub(crate) fn slice_ended(
        &mut self,
        clock: &mut Clock,
        memory: &mut Memory,
        core: u32,
        slice: u32,
    ) -> Option<u32> {
        let this = &self.cores[core as usize];
        if this.slice != slice || this.running == NOBODY || this.ready.is_empty() {
            return None;
        }
        let running = this.running;
        if !memory.end_watch(core) {
            return None;
        }
        // It polls its lines again when it has the core again.
        self.preempt(clock, memory, running);
        Some(running)
    }

    /// The running thread has ended.
    pub(crate) fn end(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32) {
        let ending = &mut self.threads[thread as usize];
        ending.activity = Activity::Done;
        ending.ended = clock.now;
        let core = ending.core;
        self.leave_core(clock, memory, core);
    }

    /// The running thread begins to wait; `at` is its timeout.
    pub(crate) fn begin_wait(&mut self, clock: &mut Clock, at: Option<Time>) {
        let waiting = &mut self.threads[self.current as usize];
        waiting.wait = waiting.wait.wrapping_add(1);
        if let Some(at) = at {
            clock.push(at.max(clock.now), Event::Timer(self.current, waiting.wait));
        }
    }

    /// A wait's timeout is reached.
    pub(crate) fn timed_out(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32, wait: u32) {
        let waiting = &mut self.threads[thread as usize];
        if waiting.wait != wait {
            return;
        }
        match waiting.activity {
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
                let at = clock.now + self.latency(thread);
                clock.push(at, Event::Ready(thread));
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
        self.leave_core(clock, memory, core);
    }

    /// From the end of a sleep until the thread can run: an idle core has to wake up first, a busy one only queues it.
    fn latency(&self, thread: u32) -> Time {
        let core = self.destination(thread);
        if self.cores[core as usize].running == NOBODY { self.hardware.wake } else { 0 }
    }

    /// Wakes sleepers of an address, which takes the caller time for each one on another core; says how many.
    pub(crate) fn wake(&mut self, clock: &mut Clock, address: u32, count: u32) -> u32 {
        let mut woken = 0;
        while woken < count {
            let Some(thread) = self.sleepers.get_mut(&address).and_then(VecDeque::pop_front) else { break };
            woken += 1;
            self.threads[thread as usize].wait += 1;
            let at = clock.now + self.latency(thread);
            clock.push(at, Event::Ready(thread));
            if self.destination(thread) != self.current_core {
                clock.now += self.hardware.wake_call;
            }
        }
        self.wakes += u64::from(woken);
        woken
    }
}
