//! Threads on cores: watching, sleeping, time slices.

use crate::Time;
use crate::engine::{Activity, Engine, Event, NOBODY, catch_up, suspend};
use crate::trace::What;

impl Engine {
    /// A thread can run from `at` on: now, if its core is idle.
    pub(crate) fn make_ready(&mut self, thread: u32, at: Time) {
        let core = self.threads[thread as usize].core;
        self.threads[thread as usize].activity = Activity::Ready;
        if self.cores[core as usize].running == NOBODY {
            self.give_core(core, thread, at);
            return;
        }
        self.cores[core as usize].ready.push_back(thread);
        let running = self.cores[core as usize].running;
        let (slice, end) = (self.cores[core as usize].slice, self.cores[core as usize].slice_end);
        if self.threads[running as usize].activity == Activity::Watching {
            self.push(end.max(at), Event::SliceEnd(core, slice));
        }
        if core == self.current_core {
            self.horizon = self.horizon.min(end);
        }
    }

    fn give_core(&mut self, core: u32, thread: u32, at: Time) {
        let slice_end = at + self.hardware.time_slice;
        let this = &mut self.cores[core as usize];
        this.running = thread;
        this.slice = this.slice.wrapping_add(1);
        this.slice_end = slice_end;
        self.threads[thread as usize].activity = Activity::Running;
        self.push(at, Event::Resume(thread));
    }

    /// The thread that has the core leaves it to the next one, which runs after the switch.
    pub(crate) fn leave_core(&mut self, core: u32) {
        self.cores[core as usize].running = NOBODY;
        if let Some(next) = self.cores[core as usize].ready.pop_front() {
            let at = self.now + self.hardware.context_switch;
            self.totals.context_switches += 1;
            self.give_core(core, next, at);
        }
    }

    /// The running thread has used up its slice: it goes to the end of its core's queue.
    pub(crate) fn preempt(&mut self, thread: u32) {
        let core = self.threads[thread as usize].core;
        self.record(thread, What::Preempted);
        self.threads[thread as usize].activity = Activity::Ready;
        self.cores[core as usize].ready.push_back(thread);
        self.leave_core(core);
    }

    /// A core's time slice is over while its thread watches.
    pub(crate) fn slice_ended(&mut self, core: u32, slice: u32) {
        let this = &self.cores[core as usize];
        if this.slice != slice || this.running == NOBODY || this.ready.is_empty() {
            return;
        }
        let running = this.running;
        if self.threads[running as usize].activity == Activity::Watching {
            // It looks at its lines again when it has the core again.
            self.threads[running as usize].wait += 1;
            self.preempt(running);
        }
    }

    pub(crate) fn end(&mut self, thread: u32) {
        let core = self.threads[thread as usize].core;
        self.threads[thread as usize].activity = Activity::Done;
        self.threads[thread as usize].ended = self.now;
        self.leave_core(core);
    }

    /// A wait's timeout.
    pub(crate) fn limit_reached(&mut self, thread: u32, wait: u32) {
        let waiting = &mut self.threads[thread as usize];
        if waiting.wait != wait {
            return;
        }
        match waiting.activity {
            Activity::Watching => {
                waiting.activity = Activity::Running;
                waiting.wait += 1;
                self.wake_watcher(thread, self.now);
            }
            Activity::Asleep => {
                waiting.timed_out = true;
                waiting.wait += 1;
                let at = waiting.asleep_at;
                if let Some(sleepers) = self.sleepers.get_mut(&at) {
                    sleepers.retain(|&sleeper| sleeper != thread);
                }
                self.push(self.now + self.hardware.wake, Event::Ready(thread));
            }
            _ => {}
        }
    }

    /// Wakes sleepers of an address; says how many.
    pub(crate) fn wake_sleepers(&mut self, offset: u32, count: u32) -> u32 {
        let mut woken = 0;
        while woken < count {
            let Some(thread) = self.sleepers.get_mut(&offset).and_then(std::collections::VecDeque::pop_front)
            else {
                break;
            };
            woken += 1;
            self.threads[thread as usize].wait += 1;
            let at = self.now + self.hardware.wake;
            self.push(at, Event::Ready(thread));
        }
        self.totals.wakes += u64::from(woken);
        woken
    }
}

/// Passes time on the running thread, which may lose its core meanwhile.
///
/// # Safety
/// As for [`suspend`].
pub(crate) unsafe fn pass(engine: *mut Engine, mut time: Time) {
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        let this = &mut *engine;
        if this.current == NOBODY {
            this.now += time;
            return;
        }
        let core = this.current_core as usize;
        loop {
            let this = &mut *engine;
            if this.cores[core].ready.is_empty() {
                // Should another thread come meanwhile, it waits for the end of this delay.
                this.now += time;
                return;
            }
            let step = time.min(this.cores[core].slice_end.saturating_sub(this.now));
            this.now += step;
            time -= step;
            if time == 0 {
                return;
            }
            catch_up(engine);
        }
    }
}

/// Between two polls of lines: returns when the next poll of a single line has been made, or when it is time to poll
/// several.
///
/// # Safety
/// As for [`suspend`].
pub(crate) unsafe fn wait_for_lines(engine: *mut Engine, lines: &[u32], deadline: Option<Time>) -> bool {
    // SAFETY: as in `pass`.
    unsafe {
        let this = &mut *engine;
        let (current, core) = (this.current, this.current_core);
        let next_poll = this.now + this.hardware.pause;
        let all_here = lines.iter().all(|&line| this.line(line).has(core));
        if this.options.really_poll || !all_here {
            pass(engine, this.hardware.pause);
            return false;
        }
        let period = this.hardware.pause + lines.len() as Time * this.hardware.hit;
        let thread = &mut this.threads[current as usize];
        thread.activity = Activity::Watching;
        thread.wait = thread.wait.wrapping_add(1);
        thread.looked = false;
        thread.watched.next_poll = next_poll;
        thread.watched.period = period;
        thread.watched.count = lines.len();
        thread.watched.lines[..lines.len()].copy_from_slice(lines);
        let wait = thread.wait;
        this.record(current, What::Watches { line: lines[0] });
        if let Some(deadline) = deadline {
            let polls = deadline.saturating_sub(next_poll).div_ceil(period);
            this.push(next_poll + polls * period, Event::Timer(current, wait));
        }
        let slot = &this.cores[core as usize];
        if !slot.ready.is_empty() {
            let (slice, end) = (slot.slice, slot.slice_end);
            this.push(end.max(this.now), Event::SliceEnd(core, slice));
        }
        suspend(engine);
        let this = &mut *engine;
        let looked = this.threads[current as usize].looked;
        if looked {
            this.completed(current);
            this.now += this.hardware.hit;
        }
        looked
    }
}
