//! Threads that take turns, one access at a time, for an exploration from state to state.
//!
//! A thread that wants to access memory leaves its request where the machine finds it and is suspended; the machine
//! answers the request when it is the thread's turn. So nothing but the client's and the lock's own code leaves traces
//! on a thread's stack, and a thread is as it was if its stack is. What lies below is wiped before a thread is
//! suspended, so that no traces of what it once did tell two states apart; if some do, a state is visited twice, which
//! costs time alone.

use std::mem::MaybeUninit;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::engine::Engine;
use super::session::{Attempt, Look, STACK_BYTES, Session, session};
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
    fn take(&mut self, fibers: &[Fiber]) {
        let this = session();
        self.is_good = true;
        self.waiting.clone_from(&this.waiting);
        self.fibers.clear();
        self.stacks.clear();
        for (waiting, fiber) in this.waiting.iter().zip(fibers) {
            // SAFETY: a copy that is never used as a coroutine or dropped: its bytes go back where they are from.
            self.fibers.push(unsafe { std::ptr::from_ref(fiber).cast::<MaybeUninit<Fiber>>().read() });
            self.stacks.extend(waiting.words());
        }
        this.walker().save(&mut self.machine);
    }

    fn restore(&self, fibers: &mut [Fiber], fork: usize) {
        let this = session();
        this.waiting.clone_from(&self.waiting);
        let mut words = self.stacks.iter();
        for (thread, (fiber, saved)) in fibers.iter_mut().zip(&self.fibers).enumerate() {
            // SAFETY: both have the same stack, which is now filled again with what it held then; what is overwritten
            // is the same coroutine later, so that nothing is lost that would have to be dropped.
            unsafe { std::ptr::from_mut(fiber).cast::<MaybeUninit<Fiber>>().write(std::ptr::read(saved)) };
            let waiting = &this.waiting[thread];
            for address in waiting.addresses() {
                let word = words.next().expect("as many words as were saved");
                // SAFETY: part of the stack of a coroutine that is suspended.
                unsafe { std::ptr::write_volatile(address as *mut u64, *word) };
            }
            // SAFETY: below it, where a thread that is suspended has wiped too.
            unsafe { std::ptr::write_bytes(waiting.wiped_from() as *mut u8, 0, WIPED_BYTES) };
            this.arena.set_allocated(thread, waiting.allocated);
        }
        this.walker().restore(&self.machine, fork);
    }
}

type Fiber = Coroutine<(), (), (), DefaultStack>;

/// Overwrites what lies below on the stack.
#[inline(never)]
fn wipe() {
    let mut wiped = [0_u64; WIPED_BYTES / 8];
    std::hint::black_box(&mut wiped);
}

impl Session {
    /// Leaves a request and is suspended until it is answered.
    pub(super) fn take_turn<T>(&mut self, mut ask: impl FnMut(&mut Self) -> Result<T, Stop>) -> T {
        let mut answer = None;
        let mut request = || match ask(session()) {
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
    pub(super) fn hand_over(&mut self, request: Option<Request>) {
        let thread = self.thread.expect("a thread that runs");
        let waiting = &mut self.waiting[thread];
        (waiting.request, waiting.answered) = (request, false);
        waiting.from = std::ptr::from_ref(&thread) as usize;
        let yielder = waiting.yielder.expect("a thread that has started");
        wipe();
        // SAFETY: the yielder of the coroutine that runs, which is alive.
        unsafe { (*yielder).suspend(()) };
    }

    pub(super) fn walker(&mut self) -> &mut Walker {
        self.walker_and_waiting().0
    }

    fn walker_and_waiting(&mut self) -> (&mut Walker, &mut [Waiting]) {
        match &mut self.engine {
            Some(Engine::States(walker)) => (walker, &mut self.waiting),
            _ => unreachable!("threads take turns from state to state only"),
        }
    }

    /// Runs the threads once; true if all came to their end.
    pub(super) fn run_by_turns(threads: usize, body: &(dyn Fn(usize) + Sync)) -> bool {
        session().waiting.clear();
        session().snapshots.iter_mut().for_each(|snapshot| snapshot.is_good = false);
        let mut fibers = Vec::with_capacity(threads);
        for thread in 0..threads {
            let stack = session().stack_of(thread);
            let base = stack.base().get();
            // SAFETY: the upper end of a stack that nobody uses.
            unsafe { std::ptr::write_bytes((base - USED_BYTES) as *mut u8, 0, USED_BYTES) };
            fibers.push(session().fiber(thread, stack, body));
            session().waiting.push(Waiting { base, answered: true, ..Waiting::default() });
        }
        let end = walk(&mut fibers);
        session().thread = None;
        for (thread, mut fiber) in fibers.into_iter().enumerate() {
            if !fiber.done() {
                // SAFETY: what lies on the stack is dropped by nobody: frames of locks and clients own nothing
                // outside the arena while they access it.
                unsafe { fiber.force_reset() };
            }
            session().stacks_by_thread[thread] = Some(fiber.into_stack());
        }
        end == End::Complete
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
}

// These take no session, but ask for it anew: threads that run in between use it too.

/// Goes all ways from state to state, until all were gone or one comes to its end.
fn walk(fibers: &mut [Fiber]) -> End {
    let (mut mover, mut again) = (None, false);
    loop {
        let stepped = if std::mem::take(&mut again) { make_move(fibers) } else { step(fibers, mover) };
        match stepped {
            Ok(next) => mover = next,
            Err(End::Complete) => return End::Complete,
            Err(End::Left) => {
                let this = session();
                if this.stopped() {
                    return End::Left;
                }
                let Some(fork) = this.walker().next_way() else { return End::Left };
                let snapshots = std::mem::take(&mut this.snapshots);
                let there = snapshots.get(fork).filter(|snapshot| snapshot.is_good);
                there.inspect(|snapshot| snapshot.restore(fibers, fork));
                let started_again = there.is_none();
                session().snapshots = snapshots;
                if started_again {
                    return End::Left;
                }
                // The threads are settled there: only the next move is missing.
                again = true;
            }
        }
    }
}

/// One step: gives the thread that took it, if it was a thread.
fn step(fibers: &mut [Fiber], mover: Option<usize>) -> Result<Option<usize>, End> {
    if !settle_down(fibers, mover) {
        return Err(End::Left);
    }
    let this = session();
    if this.waiting.iter().all(|waiting| waiting.done) && !this.walker().has_buffered() {
        return Err(this.come_to_end());
    }
    make_move(fibers)
}

fn make_move(fibers: &mut [Fiber]) -> Result<Option<usize>, End> {
    let this = session();
    let Some(next) = this.next_move() else {
        if !this.walker().is_over() {
            let_go(fibers);
        }
        return Err(End::Left);
    };
    if let Some(fork) = this.walker().open_fork() {
        let mut snapshots = std::mem::take(&mut this.snapshots);
        if snapshots.len() <= fork {
            snapshots.resize_with(fork + 1, Snapshot::default);
        }
        if !snapshots[fork].is_good || this.walker().is_new(fork) {
            snapshots[fork].take(fibers);
        }
        session().snapshots = snapshots;
    }
    let this = session();
    match next {
        Move::Step { thread, way } => {
            ask(thread as usize, Turn::Go(way));
            Ok(Some(thread as usize))
        }
        Move::Drain { thread, index } => {
            this.walker().drain(thread as usize, index as usize);
            Ok(None)
        }
        Move::LetGo => {
            let_go(fibers);
            Err(End::Left)
        }
    }
}

/// Lets threads do all that needs no turn, `first` before the others; false when the run is left.
fn settle_down(fibers: &mut [Fiber], first: Option<usize>) -> bool {
    loop {
        if session().walker().is_over() {
            return false;
        }
        let mut moved = false;
        for thread in first.into_iter().chain(0..fibers.len()) {
            while advance(thread, &mut fibers[thread], Turn::Look) {
                moved = true;
            }
            if session().walker().is_over() {
                return false;
            }
        }
        let walker = session().walker();
        moved |= walker.drain_hidden();
        if !moved && !walker.forget_old() {
            return true;
        }
    }
}

/// Answers a thread's request if it needs no turn, and lets it run to the next; whether it ran.
fn advance(thread: usize, fiber: &mut Fiber, turn: Turn) -> bool {
    let waiting = &session().waiting[thread];
    let (asks, answered) = (waiting.request.is_some(), waiting.answered);
    if waiting.done || !(answered || asks && ask(thread, turn)) {
        return false;
    }
    resume(thread, fiber);
    !session().walker().is_over()
}

fn resume(thread: usize, fiber: &mut Fiber) {
    let this = session();
    let waiting = &mut this.waiting[thread];
    (waiting.request, waiting.answered, waiting.key) = (None, false, None);
    (this.attempt, this.look) = (waiting.attempt.take(), waiting.look.take());
    this.thread = Some(thread);
    let done = matches!(fiber.resume(()), CoroutineResult::Return(()));
    let this = session();
    this.thread = None;
    let waiting = &mut this.waiting[thread];
    (waiting.attempt, waiting.look) = (this.attempt.take(), this.look.take());
    waiting.done = done;
    waiting.allocated = this.arena.allocated(thread);
    if done {
        this.walker().end(thread);
    }
}

/// Calls a thread's request; whether it was answered.
fn ask(thread: usize, turn: Turn) -> bool {
    let this = session();
    let walker = this.walker();
    (walker.turn, walker.asked) = (turn, false);
    let request = this.waiting[thread].request.expect("a thread that waits for its turn");
    // SAFETY: see `take_turn`.
    let answered = unsafe { (*request)() };
    let this = session();
    let asked = this.walker().asked;
    let waiting = &mut this.waiting[thread];
    waiting.answered = answered;
    if answered || asked {
        // A wait that was asked may have left something on the stack.
        waiting.key = None;
    }
    answered
}

/// Nobody can move: every wait sees what there is, and says what it waits for.
fn let_go(fibers: &mut [Fiber]) {
    for (thread, fiber) in fibers.iter_mut().enumerate() {
        while advance(thread, fiber, Turn::LetGo) {}
    }
    let walker = session().walker();
    if !walker.is_over() {
        walker.in_vain();
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
