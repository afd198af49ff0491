//! Waiting on one word without a timeout: the engine makes the polls for the waiter.
//!
//! The waiter's coroutine sleeps meanwhile, with its condition in the engine's hands, and goes on when that holds.
//! What the polls cost, and in which order everything happens, is the same as if the coroutine made them itself.

use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use super::{Engine, suspend};
use crate::NOBODY;
use crate::clock::Event;
use crate::directory::Request;
use crate::memory::Watched;
use crate::trace::What;

/// Where a thread's wait stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It does not wait: its coroutine goes on.
    #[default]
    Own,
    /// As before, in a transaction or back to where that began.
    Transaction,
    /// Its condition does not hold for the value that it has polled.
    Unsatisfied,
    /// It watches its line, or has just been woken from that.
    Watching,
    /// It pauses between two polls.
    Pausing,
    /// It is about to poll.
    Poll,
    /// It polls: everything that comes before has happened.
    Turn,
    /// Its poll has missed, and the answer is here.
    Answered,
    /// Its poll has found the line, which is about to leave its core.
    Found,
}

/// The condition that a waiting thread waits for; it lies on the stack of its coroutine, which sleeps.
pub(crate) type Condition = NonNull<dyn FnMut() -> bool>;

/// Polls a line until the condition holds, which reads the value that has just been polled. The first poll has been
/// made, and the condition did not hold.
///
/// # Safety
/// As for [`suspend`].
pub(crate) unsafe fn spin(
    engine: *mut Engine,
    line: u32,
    site: &'static Location<'static>,
    condition: &mut dyn FnMut() -> bool,
) {
    // SAFETY: the caller's; the lifetime ends up in the thread only until this function returns.
    unsafe {
        let current = (*engine).scheduler.current;
        assert!(current != NOBODY, "a wait outside of a run's threads never ends: nobody can end it");
        let watched = &mut (*engine).memory.requesters.get_mut(current).watched;
        *watched = Watched { lines: [line, 0, 0], count: 1, site: Some(site), ..Watched::default() };
        let thread = &mut (&mut (*engine).threads)[current as usize];
        thread.stage = Stage::Unsatisfied;
        thread.condition = Some(std::mem::transmute::<NonNull<dyn FnMut() -> bool + '_>, Condition>(
            NonNull::from(condition),
        ));
        if !go_on(engine, current) {
            suspend(engine);
        }
        let thread = &mut (&mut (*engine).threads)[current as usize];
        thread.stage = Stage::Own;
        thread.condition = None;
        if let Some(payload) = (*engine).condition_panicked.take() {
            resume_unwind(payload);
        }
    }
}

/// Goes on with a thread's wait, at the thread's time; true when it is over, false when an event will go on with it.
///
/// # Safety
/// `engine` is valid, no reference into it is alive, and the current thread is this one, which waits.
pub(crate) unsafe fn go_on(engine: *mut Engine, thread: u32) -> bool {
    // SAFETY: the caller's; no reference is alive while the condition runs.
    unsafe {
        let mut stage = (&(*engine).threads)[thread as usize].stage;
        loop {
            if let Err(later) = (*engine).poll_again(thread, stage) {
                (&mut (*engine).threads)[thread as usize].stage = later;
                return false;
            }
            if holds(engine, thread) {
                return true;
            }
            stage = Stage::Unsatisfied;
        }
    }
}

/// Whether a thread's condition holds.
///
/// # Safety
/// As for [`go_on`].
unsafe fn holds(engine: *mut Engine, thread: u32) -> bool {
    // SAFETY: the condition lies on the stack of a coroutine that waits in `spin`, which lent it.
    unsafe {
        let Some(mut condition) = (&(*engine).threads)[thread as usize].condition else { return true };
        // Should it use the machine, it does so as no thread.
        let current = std::mem::replace(&mut (*engine).scheduler.current, NOBODY);
        let held = catch_unwind(AssertUnwindSafe(|| condition.as_mut()()));
        (*engine).scheduler.current = current;
        held.unwrap_or_else(|payload| {
            (*engine).condition_panicked = Some(payload);
            true
        })
    }
}

impl Engine {
    /// Goes on from a stage until the thread has polled, or gives the stage that an event will find.
    #[inline]
    fn poll_again(&mut self, thread: u32, mut stage: Stage) -> Result<(), Stage> {
        let watched = &self.memory.requesters.get(thread).watched;
        let (line, core) = (watched.lines[0], self.scheduler.current_core);
        if stage == Stage::Watching {
            stage = if watched.polled { Stage::Answered } else { Stage::Poll };
        }
        if stage == Stage::Unsatisfied {
            if self.memory.has(core, line) && !self.options.really_poll {
                self.watch(thread, core);
                return Err(Stage::Watching);
            }
            self.threads[thread as usize].pause_left = self.hardware.pause;
            stage = Stage::Pausing;
        }
        if stage == Stage::Pausing {
            self.pause(thread)?;
            stage = Stage::Poll;
        }
        if stage == Stage::Poll {
            if self.clock.is_behind() && self.gives_way() {
                return Err(Stage::Turn);
            }
            stage = Stage::Turn;
        }
        if stage == Stage::Turn {
            return self.poll(thread, line);
        }
        match stage {
            Stage::Found => self.clock.now += self.hardware.hit,
            _ => self.answered_poll(thread),
        }
        Ok(())
    }

    /// Parks a thread until its line is taken away.
    fn watch(&mut self, thread: u32, core: u32) {
        let (pause, hit) = (self.hardware.pause, self.hardware.hit);
        let watched = &mut self.memory.requesters.get_mut(thread).watched;
        watched.next_poll = self.clock.now + pause;
        watched.period = pause + hit;
        watched.polled = false;
        self.park(thread, core);
    }

    /// Parks a thread until one of the lines that it watches is taken away.
    #[inline]
    pub(super) fn park(&mut self, thread: u32, core: u32) {
        self.memory.watch(core, thread);
        let line = self.memory.requesters.get(thread).watched.lines[0];
        self.record(thread, What::Watches { line });
        self.scheduler.time_slice(&mut self.clock, core);
    }

    /// Passes the rest of the pause between two polls, in which the thread may lose its core.
    #[inline]
    fn pause(&mut self, thread: u32) -> Result<(), Stage> {
        loop {
            let waiting = &mut self.threads[thread as usize];
            let left = self.scheduler.slice_end().saturating_sub(self.clock.now);
            let step = waiting.pause_left.min(left);
            self.clock.now += step;
            waiting.pause_left -= step;
            if waiting.pause_left == 0 {
                return Ok(());
            }
            if self.gives_way() {
                return Err(Stage::Pausing);
            }
        }
    }

    /// Loads the line.
    #[inline]
    fn poll(&mut self, thread: u32, line: u32) -> Result<(), Stage> {
        let (core, now) = (self.scheduler.current_core, self.clock.now);
        if self.memory.hit(core, line, Request::Load) {
            self.locks.hit();
            self.clock.now += self.hardware.hit;
            return Ok(());
        }
        if self.memory.may_still_load(core, line, now) {
            self.memory.uses_unasked(&mut self.clock, line, thread, false);
            // Others of the same time come before the value is looked at.
            if !self.clock.is_free_until(now) {
                self.clock.push(now, Event::Resume(thread));
                return Err(Stage::Found);
            }
            self.clock.now += self.hardware.hit;
            return Ok(());
        }
        let site = self.memory.requesters.get(thread).watched.site;
        self.memory.ask(thread, line, Request::Load, site, self.clock.now);
        match self.issue(thread) {
            // No event lies between.
            Some(done) if self.clock.is_free_until(done) => {
                self.clock.now = done;
                self.answered_poll(thread);
                Ok(())
            }
            Some(done) => {
                self.clock.push(done, Event::Resume(thread));
                Err(Stage::Answered)
            }
            None => Err(Stage::Answered),
        }
    }

    #[inline]
    fn answered_poll(&mut self, thread: u32) {
        self.completed(thread);
        let line = self.memory.requesters.get(thread).watched.lines[0];
        self.memory.uses_unasked(&mut self.clock, line, thread, false);
        self.clock.now += self.hardware.hit;
    }
}
