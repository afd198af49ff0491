//! Runs of the client's threads: each after the other, together along a replay trace, or step by step.

use std::panic::resume_unwind;

use coroutine::CoroutineResult;
use machine::{Plan, Run};

use super::Bound;
use super::session::{Finished, Session, State};
use crate::graph::{LocationId, MAX_THREADS};

impl Session {
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
                state.engine = Some(state.new_engine(self.trace.as_ref(), plan.threads));
                self.scheduled.set(state.is_scheduled());
            }
        });
        let wakes = self.with(|state| state.wakes);
        loop {
            let (goes_on, scheduled) = self.with(|state| {
                state.wakes = wakes;
                let goes_on = !state.stopped() && state.engine().begin();
                if state.engine().is_late() {
                    state.bound.get_or_insert(Bound::Time);
                }
                state.arena.reset_threads();
                (goes_on, state.is_scheduled())
            });
            if !goes_on {
                resume_unwind(Box::new(Finished));
            }
            if scheduled {
                if !self.run_scheduled(plan.threads, body) {
                    continue;
                }
            } else if self.trace.is_some() {
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
                let complete = scheduled || state.explorer().finish();
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
            if self.trace.is_some() {
                resume_unwind(Box::new(Finished));
            }
        }
    }

    fn run_thread(&self, thread: usize, body: &(dyn Fn(usize) + Sync)) {
        let stack = self.with(|state| {
            state.starts(thread);
            state.stack()
        });
        let mut fiber = self.fiber(thread, stack, body);
        if let CoroutineResult::Yield(()) = fiber.resume(()) {
            // SAFETY: nothing drops what lies on the stack: frames of locks and clients own nothing outside
            // the arena while they access it.
            unsafe { fiber.force_reset() };
        }
        self.with(|state| state.stacks.push(fiber.into_stack()));
    }

    /// Runs the threads alternately, as far as the replay trace lets them.
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
            if events() == before && !ended && !self.with(|state| state.explorer().let_last_happen()) {
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
}
