//! Threads that take turns, one access at a time, for an exploration from state to state.
//!
//! A thread that wants to access memory leaves its request where the machine finds it and is suspended; the machine
//! answers the request when it is the thread's turn. So nothing but the client's and the lock's own code leaves traces
//! on a thread's stack, and a thread is as it was if its stack is. What lies below is wiped before each access and before
//! a thread is suspended, so that no traces of what it once did tell two states apart; if some do, as in what a compiler
//! leaves in the frames of the client and the lock, a state is visited twice, which costs time alone. (A key made of all
//! that a thread has read instead would need no stack, but tells ten times as many states apart.)

use std::mem::MaybeUninit;

use coroutine::{Coroutine, CoroutineResult, DefaultStack, Stack, Yielder};

use super::engine::Engine;
use super::session::{Attempt, Look, STACK_BYTES, Session, State, Time, session};
use crate::explorer::Stop;
use crate::walker::{End, Key, Move, Saved, Turn, Walker};

/// Bytes below a suspended thread's last frame that switching may use.
const SWITCH_BYTES: usize = 512;
/// Bytes below it that are wiped before.
const WIPED_BYTES: usize = 2048;
/// What a thread uses of its stack at most, with what the last run has left there.
const USED_BYTES: usize = 32 << 10;

/// A request: true when it is answered.
type Request = *mut dyn FnMut() -> bool;

/// A thread between its turns.
#[derive(Clone, Copy, Default)]
pub(super) struct Waiting {
    pub(super) yielder: Option<*const Yielder<(), ()>>,
    pub(super) attempt: Option<Attempt>,
    pub(super) look: Option<Look>,
    time: Time,
    request: Option<Request>,
    /// The request is answered: the thread can go on.
    answered: bool,
    /// The end of its stack, and where it uses it from.
    base: usize,
    from: usize,
    done: bool,
    /// Bytes of memory that it has allocated.
    allocated: usize,
    /// The key of its stack, as long as it does not run.
    key: Option<u128>,
}

/// All threads, and the machine, as they were at a fork. It is good until the client's run ends: stacks point to
/// what the client has.
#[derive(Default)]
pub(super) struct Snapshot {
    is_good: bool,
    waiting: Vec<Waiting>,
    fibers: Vec<MaybeUninit<Fiber>>,
    /// What lies on the stacks, one after another.
    stacks: Vec<u64>,
    machine: Saved,
}

impl Snapshot {
    fn take(&mut self, state: &mut State, fibers: &[Fiber]) {
        self.is_good = true;
        self.waiting.clone_from(&state.waiting);
        self.fibers.clear();
        self.stacks.clear();
        for (waiting, fiber) in state.waiting.iter().zip(fibers) {
            // SAFETY: a copy that is never used as a coroutine or dropped: its bytes go back where they are from.
            self.fibers.push(unsafe { std::ptr::from_ref(fiber).cast::<MaybeUninit<Fiber>>().read() });
            self.stacks.extend(waiting.words());
        }
        state.walker().save(&mut self.machine);
    }

    fn restore(&self, state: &mut State, fibers: &mut [Fiber], fork: usize) {
        state.waiting.clone_from(&self.waiting);
        let mut words = self.stacks.iter();
        for (thread, (fiber, saved)) in fibers.iter_mut().zip(&self.fibers).enumerate() {
            // SAFETY: both have the same stack, which is now filled again with what it held then; what is overwritten
            // is the same coroutine later, so that nothing is lost that would have to be dropped.
            unsafe { std::ptr::from_mut(fiber).cast::<MaybeUninit<Fiber>>().write(std::ptr::read(saved)) };
            let waiting = &state.waiting[thread];
            for address in waiting.addresses() {
                let word = words.next().expect("as many words as were saved");
                // SAFETY: part of the stack of a coroutine that is suspended.
                unsafe { std::ptr::write_volatile(address as *mut u64, *word) };
            }
            // SAFETY: below it, where a thread that is suspended has wiped too.
            unsafe { std::ptr::write_bytes(waiting.wiped_from() as *mut u8, 0, WIPED_BYTES) };
            state.arena.set_allocated(thread, waiting.allocated);
        }
        state.walker().restore(&self.machine, fork);
    }
}

type Fiber = Coroutine<(), (), (), DefaultStack>;

/// Overwrites what lies below on the stack.
#[inline(never)]
pub(super) fn wipe() {
    let mut wiped = [0_u64; WIPED_BYTES / 8];
    std::hint::black_box(&mut wiped);
}

impl Session {
    /// Leaves a request and is suspended until it is answered.
    pub(super) fn take_turn<T>(&self, mut ask: impl FnMut(&mut State) -> Result<T, Stop>) -> T {
        let mut answer = None;
        let mut request = || match session().with(&mut ask) {
            Ok(answered) => {
                answer = Some(answered);
                true
            }
            // Not even `None` is written: that would leave what happens to lie around on the stack.
            Err(_) => false,
        };
        let request: &mut dyn FnMut() -> bool = &mut request;
        // SAFETY: the request is called only while the thread is suspended in `hand_over` below, and forgotten when
        // it was answered or the run ends; its frame is alive all the while.
        let request = unsafe { std::mem::transmute::<&mut dyn FnMut() -> bool, Request>(request) };
        self.hand_over(Some(request));
        answer.expect("a thread goes on when its request is answered")
    }

    /// The thread is suspended, for good if it asks for nothing.
    #[inline(never)]
    pub(super) fn hand_over(&self, request: Option<Request>) {
        let here = 0_u8;
        let from = std::ptr::from_ref(&here) as usize;
        let yielder = self.with(|state| {
            let waiting = &mut state.waiting[state.thread.expect("a thread that runs")];
            (waiting.request, waiting.answered, waiting.from) = (request, false, from);
            waiting.yielder.expect("a thread that has started")
        });
        wipe();
        // SAFETY: the yielder of the coroutine that runs, which is alive.
        unsafe { (*yielder).suspend(()) };
    }

    /// Runs the threads once; true if all came to their end.
    pub(super) fn run_by_turns(&self, threads: usize, body: &(dyn Fn(usize) + Sync)) -> bool {
        self.with(|state| {
            state.waiting.clear();
            state.snapshots.iter_mut().for_each(|snapshot| snapshot.is_good = false);
        });
        let mut fibers = Fibers { session: self, all: Vec::with_capacity(threads) };
        for thread in 0..threads {
            let stack = self.with(|state| state.stack_of(thread));
            let base = stack.base().get();
            // SAFETY: the upper end of a stack that nobody uses.
            unsafe { std::ptr::write_bytes((base - USED_BYTES) as *mut u8, 0, USED_BYTES) };
            fibers.all.push(self.fiber(thread, stack, body));
            self.with(|state| {
                state.waiting.push(Waiting { base, answered: true, ..Waiting::default() });
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
            let all_done = state.waiting.iter().all(|waiting| waiting.done);
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
                self.ask(thread as usize, Turn::Go(way));
                Ok(Some(thread as usize))
            }
            Some(Move::Drain { thread, index }) => {
                self.with(|state| state.walker().drain(thread as usize, index as usize));
                Ok(None)
            }
            Some(Move::LetGo) => {
                self.let_go(fibers);
                Err(End::Left)
            }
            None => {
                if !self.is_over() {
                    self.let_go(fibers);
                }
                Err(End::Left)
            }
        }
    }

    fn is_over(&self) -> bool {
        self.with(|state| state.walker().is_over())
    }

    /// Lets threads do all that needs no turn, `first` before the others; false when the run is left.
    fn settle_down(&self, fibers: &mut [Fiber], first: Option<usize>) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            let mut moved = false;
            for thread in first.into_iter().chain(0..fibers.len()) {
                while self.advance(thread, &mut fibers[thread], Turn::Look) {
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

    /// Answers a thread's request if it needs no turn, and lets it run to the next; whether it ran.
    fn advance(&self, thread: usize, fiber: &mut Fiber, turn: Turn) -> bool {
        let (done, asks, answered) = self.with(|state| {
            let waiting = &state.waiting[thread];
            (waiting.done, waiting.request.is_some(), waiting.answered)
        });
        if done || !(answered || asks && self.ask(thread, turn)) {
            return false;
        }
        self.resume(thread, fiber);
        !self.is_over()
    }

    fn resume(&self, thread: usize, fiber: &mut Fiber) {
        self.with(|state| {
            let waiting = &mut state.waiting[thread];
            (waiting.request, waiting.answered, waiting.key) = (None, false, None);
            (state.attempt, state.look) = (waiting.attempt.take(), waiting.look.take());
            (state.thread, state.time) = (Some(thread), waiting.time);
        });
        let done = matches!(fiber.resume(()), CoroutineResult::Return(()));
        self.with(|state| {
            state.thread = None;
            let waiting = &mut state.waiting[thread];
            (waiting.attempt, waiting.look) = (state.attempt.take(), state.look.take());
            waiting.time = state.time;
            waiting.done = done;
            waiting.allocated = state.arena.allocated(thread);
            if done {
                state.walker().end(thread);
            }
        });
    }

    /// Calls a thread's request; whether it was answered.
    fn ask(&self, thread: usize, turn: Turn) -> bool {
        let request = self.with(|state| {
            let walker = state.walker();
            (walker.turn, walker.asked) = (turn, false);
            state.waiting[thread].request.expect("a thread that waits for its turn")
        });
        // SAFETY: see `take_turn`.
        let answered = unsafe { (*request)() };
        self.with(|state| {
            let asked = state.walker().asked;
            let waiting = &mut state.waiting[thread];
            waiting.answered = answered;
            if answered || asked {
                // A wait that was asked may have left something on the stack.
                waiting.key = None;
            }
        });
        answered
    }

    /// Nobody can move: every wait sees what there is, and says what it waits for.
    fn let_go(&self, fibers: &mut [Fiber]) {
        for (thread, fiber) in fibers.iter_mut().enumerate() {
            while self.advance(thread, fiber, Turn::LetGo) {}
        }
        self.with(|state| {
            let walker = state.walker();
            if !walker.is_over() {
                walker.in_vain();
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
                // SAFETY: what lies on the stack is dropped by nobody: frames of locks and clients own nothing
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
        self.walker_and_waiting().0
    }

    fn walker_and_waiting(&mut self) -> (&mut Walker, &mut [Waiting]) {
        match &mut self.engine {
            Some(Engine::States(walker)) => (walker, &mut self.waiting),
            _ => unreachable!("threads take turns from state to state only"),
        }
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
        let (walker, waiting) = self.walker_and_waiting();
        if walker.is_seen(|key| add_keys(waiting, key)) {
            return End::Left;
        }
        walker.counts.explored += 1;
        End::Complete
    }

    fn next_move(&mut self) -> Option<Move> {
        let (walker, waiting) = self.walker_and_waiting();
        walker.next_move(|key| add_keys(waiting, key))
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

impl Waiting {
    /// The part of its stack that it uses, by words.
    fn addresses(&self) -> impl Iterator<Item = usize> + use<> {
        let from = if self.done { self.base } else { (self.from - SWITCH_BYTES) & !7 };
        (from..self.base).step_by(8)
    }

    /// Where the part below begins that is wiped.
    fn wiped_from(&self) -> usize {
        self.addresses().next().unwrap_or(self.base) - WIPED_BYTES
    }

    /// What lies on its stack.
    fn words(&self) -> impl Iterator<Item = u64> + use<> {
        // SAFETY: part of the stack of a suspended coroutine, which is mapped and which nobody else uses; volatile,
        // since the compiler does not know what lies there.
        self.addresses().map(|address| unsafe { std::ptr::read_volatile(address as *const u64) })
    }

    /// Whether switching has left this byte of its stack as it was wiped.
    fn is_zero(&self, address: usize) -> bool {
        // SAFETY: below the frames of a suspended coroutine, on its stack.
        unsafe { std::ptr::read_volatile(address as *const u8) == 0 }
    }

    /// What the thread is about to do, as the key of its stack and of what the session notes of it.
    fn key(&mut self) -> u128 {
        if let Some(key) = self.key {
            return key;
        }
        let mut key = Key::NEW;
        key.add(self.allocated as u64);
        if !self.done {
            if let Some(attempt) = &self.attempt {
                attempt.add_to(&mut key);
            }
            if let Some(look) = &self.look {
                look.add_to(&mut key);
            }
            self.time.add_to(&mut key);
            debug_assert!(
                (self.from - WIPED_BYTES / 2..self.from - SWITCH_BYTES).all(|address| self.is_zero(address)),
                "switching needs more than {SWITCH_BYTES} bytes"
            );
            self.words().for_each(|word| key.add(word));
        }
        *self.key.insert(key.value())
    }
}

fn add_keys(threads: &mut [Waiting], key: &mut Key) {
    for thread in threads {
        let own = thread.key();
        key.add(own as u64);
        key.add((own >> 64) as u64);
    }
}
