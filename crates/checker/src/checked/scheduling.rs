//! The scheduler of threads, one access at a time, for an exploration from state to state.
//!
//! A thread that wants to access memory leaves its request where the machine finds it and is suspended; the machine
//! answers the request when the thread is scheduled. So nothing but the client's and the lock's own code leaves traces
//! on a thread's stack, and a thread is as it was if its stack is. What lies below is wiped before each access and before
//! a thread is suspended, so that no traces of what it once did tell two states apart; if some do, as in what a compiler
//! leaves in the frames of the client and the lock, a state is visited twice, which costs time alone. (A key made of all
//! that a thread has read instead would need no stack, but tells ten times as many states apart.)

use coroutine::saved::CoroutineBytes;
use coroutine::{CoroutineResult, DefaultStack, Stack};

use super::engine::Engine;
use super::session::{Session, State};
use super::stacks::{Fiber, STACK_BYTES, Snapshot, Suspended, USED_BYTES, WIPED_BYTES, add_keys};
use crate::walker::{End, Move, SchedulingStep, Walker};

impl Snapshot {
    fn take(&mut self, state: &mut State, fibers: &[Fiber]) {
        self.is_good = true;
        self.suspended.clone_from(&state.suspended);
        self.fibers.clear();
        self.stacks.clear();
        for (suspended, fiber) in state.suspended.iter().zip(fibers) {
            self.fibers.push(CoroutineBytes::of(fiber));
            self.stacks.extend(suspended.words());
        }
        self.wakes = state.wakes;
        state.walker().save(&mut self.machine);
    }

    fn restore(&self, state: &mut State, fibers: &mut [Fiber], fork: usize) {
        state.suspended.clone_from(&self.suspended);
        state.wakes = self.wakes;
        let mut words = self.stacks.iter().copied();
        for (thread, (fiber, saved)) in fibers.iter_mut().zip(&self.fibers).enumerate() {
            let suspended = &state.suspended[thread];
            // SAFETY: the same coroutine as when the snapshot was taken, suspended then and now, with its stack.
            unsafe {
                saved.put_back(fiber);
                if let Some(used) = suspended.used() {
                    used.put_back(&mut words);
                }
            }
            // SAFETY: below it, where a thread that is suspended has wiped too.
            unsafe { std::ptr::write_bytes(suspended.wiped_from() as *mut u8, 0, WIPED_BYTES) };
            state.arena.set_allocated(thread, suspended.allocated);
        }
        state.walker().restore(&self.machine, fork);
    }
}

impl Session {
    /// Runs the threads once; true if all came to their end.
    pub(super) fn run_scheduled(&self, threads: usize, body: &(dyn Fn(usize) + Sync)) -> bool {
        self.with(|state| {
            state.suspended.clear();
            state.snapshots.iter_mut().for_each(|snapshot| snapshot.is_good = false);
        });
        let mut fibers = Fibers { session: self, all: Vec::with_capacity(threads) };
        for thread in 0..threads {
            let stack = self.with(|state| state.stack_of(thread));
            let base = stack.base().get();
            // SAFETY: the upper end of a stack that no thread uses.
            unsafe { std::ptr::write_bytes((base - USED_BYTES) as *mut u8, 0, USED_BYTES) };
            fibers.all.push(self.fiber(thread, stack, body));
            self.with(|state| {
                state.suspended.push(Suspended { base, answered: true, ..Suspended::default() });
            });
        }
        self.walk(&mut fibers.all) == End::Complete
    }

    /// Goes all ways from state to state, until all were gone or one comes to its end.
    fn walk(&self, fibers: &mut [Fiber]) -> End {
        let (mut mover, mut again) = (None, false);
        loop {
            let stepped =
                if std::mem::take(&mut again) { self.make_move(fibers) } else { self.step(fibers, mover) };
            match stepped {
                Ok(next) => mover = next,
                Err(End::Complete) => return End::Complete,
                Err(End::Left) if self.with(|state| state.go_back(fibers)) => {
                    // The threads are settled there: only the next move is missing.
                    again = true;
                }
                Err(End::Left) => return End::Left,
            }
        }
    }

    /// One step: gives the thread that took it, if it was a thread.
    fn step(&self, fibers: &mut [Fiber], mover: Option<usize>) -> Result<Option<usize>, End> {
        if !self.settle_down(fibers, mover) {
            return Err(End::Left);
        }
        self.with(|state| {
            let all_done = state.suspended.iter().all(|suspended| suspended.done);
            if all_done && !state.walker().has_buffered() { Err(state.come_to_end()) } else { Ok(()) }
        })?;
        self.make_move(fibers)
    }

    fn make_move(&self, fibers: &mut [Fiber]) -> Result<Option<usize>, End> {
        let next = self.with(|state| {
            let next = state.next_move();
            if next.is_some() {
                state.remember_fork(fibers);
            }
            next
        });
        match next {
            Some(Move::Step { thread, way }) => {
                self.ask(thread as usize, SchedulingStep::Take(way));
                Ok(Some(thread as usize))
            }
            Some(Move::Drain { thread, index }) => {
                self.with(|state| state.walker().drain(thread as usize, index as usize));
                Ok(None)
            }
            Some(Move::ForcedBlock) => {
                self.force_blocks(fibers);
                Err(End::Left)
            }
            None => {
                if !self.is_over() {
                    self.force_blocks(fibers);
                }
                Err(End::Left)
            }
        }
    }

    fn is_over(&self) -> bool {
        self.with(|state| state.walker().is_over())
    }

    /// Lets threads do all that needs no scheduling, `first` before the others; false when the run is left.
    fn settle_down(&self, fibers: &mut [Fiber], first: Option<usize>) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            let mut moved = false;
            for thread in first.into_iter().chain(0..fibers.len()) {
                while self.advance(thread, &mut fibers[thread], SchedulingStep::Poll) {
                    moved = true;
                }
                if self.is_over() {
                    return false;
                }
            }
            let settled = self.with(|state| {
                let walker = state.walker();
                moved |= walker.drain_hidden();
                !moved && !walker.forget_old()
            });
            if settled {
                return true;
            }
        }
    }

    /// Answers a thread's request if it needs no scheduling, and lets it run to the next; whether it ran.
    fn advance(&self, thread: usize, fiber: &mut Fiber, step: SchedulingStep) -> bool {
        let (done, asks, answered) = self.with(|state| {
            let suspended = &state.suspended[thread];
            (suspended.done, suspended.request.is_some(), suspended.answered)
        });
        if done || !(answered || asks && self.ask(thread, step)) {
            return false;
        }
        self.resume(thread, fiber);
        !self.is_over()
    }

    fn resume(&self, thread: usize, fiber: &mut Fiber) {
        self.with(|state| {
            let suspended = &mut state.suspended[thread];
            (suspended.request, suspended.answered, suspended.key) = (None, false, None);
            (state.attempt, state.polled) = (suspended.attempt.take(), suspended.polled.take());
            (state.thread, state.time, state.transaction) =
                (Some(thread), suspended.time, suspended.transaction);
        });
        let done = matches!(fiber.resume(()), CoroutineResult::Return(()));
        self.with(|state| {
            state.thread = None;
            let suspended = &mut state.suspended[thread];
            (suspended.attempt, suspended.polled) = (state.attempt.take(), state.polled.take());
            (suspended.time, suspended.transaction) = (state.time, state.transaction);
            suspended.done = done;
            suspended.allocated = state.arena.allocated(thread);
            if done {
                state.walker().end(thread);
            }
        });
    }

    /// Calls a thread's request; whether it was answered.
    fn ask(&self, thread: usize, step: SchedulingStep) -> bool {
        let request = self.with(|state| {
            let (walker, suspended) = state.walker_and_attempts();
            (walker.step, walker.asked) = (step, false);
            suspended[thread].request.expect("a thread that waits to be scheduled")
        });
        // SAFETY: see `await_step`.
        let answered = unsafe { (*request)() };
        self.with(|state| {
            let asked = state.walker().asked;
            let suspended = &mut state.suspended[thread];
            suspended.answered = answered;
            if answered || asked {
                // A wait that was asked may have left something on the stack.
                suspended.key = None;
            }
        });
        answered
    }

    /// No thread can move: every wait sees what there is, and says what it waits for.
    fn force_blocks(&self, fibers: &mut [Fiber]) {
        for (thread, fiber) in fibers.iter_mut().enumerate() {
            while self.advance(thread, fiber, SchedulingStep::ForcedBlock) {}
        }
        self.with(|state| {
            let walker = state.walker();
            if !walker.is_over() {
                walker.deadlocked();
            }
        });
    }
}

/// The threads of a run. However it ends, those that have not come to their end are forgotten, not unwound.
struct Fibers<'a> {
    session: &'a Session,
    all: Vec<Fiber>,
}

impl Drop for Fibers<'_> {
    fn drop(&mut self) {
        for (thread, mut fiber) in self.all.drain(..).enumerate() {
            if !fiber.done() {
                // SAFETY: nothing drops what lies on the stack: frames of locks and clients own nothing
                // outside the arena while they access it.
                unsafe { fiber.force_reset() };
            }
            self.session.with(|state| {
                state.thread = None;
                state.stacks_by_thread[thread] = Some(fiber.into_stack());
            });
        }
    }
}

impl State {
    pub(super) fn walker(&mut self) -> &mut Walker {
        self.walker_and_suspended().0
    }

    fn walker_and_suspended(&mut self) -> (&mut Walker, &mut [Suspended]) {
        match &mut self.engine {
            Some(Engine::States(walker)) => (walker, &mut self.suspended),
            _ => unreachable!("threads are scheduled from state to state only"),
        }
    }

    /// The same, when the walker is told what attempts have read.
    fn walker_and_attempts(&mut self) -> (&mut Walker, &mut [Suspended]) {
        let (walker, suspended) = self.walker_and_suspended();
        for (slots, thread) in walker.attempted.iter_mut().zip(suspended.iter()) {
            *slots = thread.attempt.map_or(0, |attempt| attempt.reads.slots());
        }
        (walker, suspended)
    }

    /// Each thread has its own stack, so that addresses on it stay the same.
    fn stack_of(&mut self, thread: usize) -> DefaultStack {
        if self.stacks_by_thread.len() <= thread {
            self.stacks_by_thread.resize_with(thread + 1, || None);
        }
        self.stacks_by_thread[thread].take().unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("memory for the stack of a checked thread")
        })
    }

    fn come_to_end(&mut self) -> End {
        let wakes = self.wakes;
        let (walker, suspended) = self.walker_and_attempts();
        if walker.is_seen(|key| add_keys(suspended, wakes, key)) {
            return End::Left;
        }
        walker.counts.explored += 1;
        End::Complete
    }

    fn next_move(&mut self) -> Option<Move> {
        let wakes = self.wakes;
        let (walker, suspended) = self.walker_and_attempts();
        walker.next_move(|key| add_keys(suspended, wakes, key))
    }

    /// Saves how things are at the fork that was just passed, if the run may come back to it.
    fn remember_fork(&mut self, fibers: &[Fiber]) {
        let Some(fork) = self.walker().open_fork() else { return };
        let is_new = self.walker().is_new(fork);
        if self.snapshots.len() <= fork {
            self.snapshots.resize_with(fork + 1, Snapshot::default);
        }
        let mut snapshot = std::mem::take(&mut self.snapshots[fork]);
        if !snapshot.is_good || is_new {
            snapshot.take(self, fibers);
        }
        self.snapshots[fork] = snapshot;
    }

    /// Goes back to the last fork that has another way; false when there is none, or the client must start again for
    /// it.
    fn go_back(&mut self, fibers: &mut [Fiber]) -> bool {
        if self.stopped() {
            return false;
        }
        let Some(fork) = self.walker().next_way() else { return false };
        let Some(snapshot) = self.snapshots.get_mut(fork).filter(|snapshot| snapshot.is_good) else {
            return false;
        };
        let snapshot = std::mem::take(snapshot);
        snapshot.restore(self, fibers, fork);
        self.snapshots[fork] = snapshot;
        true
    }
}
