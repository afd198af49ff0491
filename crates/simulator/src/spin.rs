//! Waiting on one word without a timeout: the engine makes the polls for the waiter.
//!
//! The waiter's coroutine sleeps meanwhile, with its condition in the engine's hands, and goes on when that holds.
//! What the polls cost, and in which order everything happens, is the same as if the coroutine made them itself.

use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use crate::directory::Request;
use crate::engine::{Activity, Engine, Event, NOBODY, suspend};
use crate::trace::What;

/// Where a thread's wait stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It does not wait: its coroutine goes on.
    #[default]
    Own,
    /// It has looked in vain.
    InVain,
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
}

/// The condition that a waiting thread waits for; it lies on the stack of its coroutine, which sleeps.
pub(crate) type Condition = NonNull<dyn FnMut() -> bool>;

/// Polls a line until the condition holds, which reads the value that has just been polled. The first poll has been
/// made, in vain.
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
        let current = (*engine).current;
        assert!(current != NOBODY, "a wait outside of a run's threads never ends: nobody can end it");
        let thread = &mut (&mut (*engine).threads)[current as usize];
        thread.watched.lines[0] = line;
        thread.watched.count = 1;
        thread.stage = Stage::InVain;
        thread.condition_site = Some(site);
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
            if let Err(later) = (*engine).look_again(thread, stage) {
                (&mut (*engine).threads)[thread as usize].stage = later;
                return false;
            }
            if holds(engine, thread) {
                return true;
            }
            stage = Stage::InVain;
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
        // Should it use the machine, it does so as nobody.
        let current = std::mem::replace(&mut (*engine).current, NOBODY);
        let held = catch_unwind(AssertUnwindSafe(|| condition.as_mut()()));
        (*engine).current = current;
        held.unwrap_or_else(|payload| {
            (*engine).condition_panicked = Some(payload);
            true
        })
    }
}

impl Engine {
    /// Goes on from a stage until the thread has polled, or gives the stage that an event will find.
    #[inline]
    fn look_again(&mut self, thread: u32, mut stage: Stage) -> Result<(), Stage> {
        let waiting = &mut self.threads[thread as usize];
        let (line, core) = (waiting.watched.lines[0], self.current_core);
        if stage == Stage::Watching {
            stage = if waiting.looked { Stage::Answered } else { Stage::Poll };
        }
        if stage == Stage::InVain {
            if self.lines.get(line).has(core) && !self.options.really_poll {
                self.watch(thread, line);
                return Err(Stage::Watching);
            }
            waiting.pause_left = self.hardware.pause;
            stage = Stage::Pausing;
        }
        if stage == Stage::Pausing {
            self.pause(thread, core)?;
            stage = Stage::Poll;
        }
        if stage == Stage::Poll {
            if self.now >= self.horizon && self.gives_way() {
                return Err(Stage::Turn);
            }
            stage = Stage::Turn;
        }
        if stage == Stage::Turn {
            return self.poll(thread, line);
        }
        self.answered_poll(thread);
        Ok(())
    }

    /// Parks a thread until its line is taken away.
    fn watch(&mut self, thread: u32, line: u32) {
        let (now, pause, hit) = (self.now, self.hardware.pause, self.hardware.hit);
        let watching = &mut self.threads[thread as usize];
        watching.activity = Activity::Watching;
        watching.wait = watching.wait.wrapping_add(1);
        watching.looked = false;
        watching.watched.next_poll = now + pause;
        watching.watched.period = pause + hit;
        let core = watching.core;
        self.record(thread, What::Watches { line });
        let this = &self.cores[core as usize];
        if !this.ready.is_empty() {
            let (slice, end) = (this.slice, this.slice_end);
            self.push(end.max(now), Event::SliceEnd(core, slice));
        }
    }

    /// Passes the rest of the pause between two polls, in which the thread may lose its core.
    #[inline]
    fn pause(&mut self, thread: u32, core: u32) -> Result<(), Stage> {
        loop {
            let (this, waiting) = (&self.cores[core as usize], &mut self.threads[thread as usize]);
            if this.ready.is_empty() {
                self.now += waiting.pause_left;
                return Ok(());
            }
            let step = waiting.pause_left.min(this.slice_end.saturating_sub(self.now));
            self.now += step;
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
        let entry = self.lines.get(line);
        if entry.has(self.current_core) {
            entry.counts.hits += 1;
            self.hits += 1;
            self.now += self.hardware.hit;
            return Ok(());
        }
        let now = self.now;
        let polling = &mut self.threads[thread as usize];
        polling.line = line;
        polling.request = Request::Load;
        polling.issued = now;
        polling.site = polling.condition_site;
        match self.issue(thread, now) {
            // Nobody else can come in between.
            Some(done) if done < self.horizon => {
                self.now = done;
                self.answered_poll(thread);
                Ok(())
            }
            Some(done) => {
                self.push(done, Event::Resume(thread));
                Err(Stage::Answered)
            }
            None => Err(Stage::Answered),
        }
    }

    #[inline]
    fn answered_poll(&mut self, thread: u32) {
        self.completed(thread);
        self.now += self.hardware.hit;
    }
}
