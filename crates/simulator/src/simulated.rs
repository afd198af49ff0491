//! The simulated machine as locks and workloads see it.

use std::alloc::Layout;
use std::panic::{Location, resume_unwind};
use std::ptr::NonNull;

use machine::inheriting::{OWNER, WAITERS};
use machine::{
    Abort, Clock, Denied, Event as Note, GaveUp, HIGHEST_PRIORITY, Home, LINE_BYTES, Machine, Node, Ordering,
    Place, Plain, Plan, Poll, Run, Runs, Slept, THREAD_MEMORY, TakenNode, Timeout, Topology, Which, Word,
};

use crate::engine::{
    Engine, Failure, catch_up, current, pass, spin, suspend, transaction, wait_for_lines, yield_core,
};
use crate::futexes::Futexes;
use crate::nodes::NAMED_NODES;
use crate::scheduler::{Activity, Asked};
use crate::simulation::Unwound;
use crate::trace::What;
use crate::words::{SimulatedCell, SimulatedPtr, SimulatedU32, SimulatedU64};
use crate::{NOBODY, PS_PER_NS, Time};

/// How long a waiter may be late in seeing that the thread that it waits for has lost its core, or others have come before it.
const POLL_EVERY_NS: u64 = 1_000;

/// The machine of the [`Simulation`](crate::Simulation) that the caller runs in.
#[derive(Clone, Copy, Debug)]
pub struct Simulated;

/// The current simulation, for what does not suspend.
macro_rules! engine {
    () => {
        // SAFETY: the current simulation is alive, on this host thread alone, and the reference is not kept.
        unsafe { &mut *current() }
    };
}

impl Simulated {
    /// The running thread gives way, by a system call, to the threads that want its core.
    pub fn yield_now() {
        let way = enter_kernel();
        settle();
        // SAFETY: the current simulation runs the caller, and no reference into it is kept.
        unsafe { yield_core(current()) };
        advance(way);
    }
}

/// Suspends or passes time in the current simulation.
fn advance(time: Time) {
    // SAFETY: the current simulation runs the caller, and no function up the stack has a reference into it.
    unsafe { pass(current(), time) };
}

/// The running thread calls the kernel, which it cannot in a transaction. Gives what the way out takes: as much as the way in, and
/// nothing for a thread that is in the kernel already.
fn enter_kernel() -> Time {
    refuse();
    let engine = engine!();
    let way = if engine.scheduler.in_kernel() { 0 } else { engine.hardware.system_call / 2 };
    advance(way);
    way
}

/// What the kernel does for the running thread besides what the simulation does by itself, if there are such [`Futexes`].
fn call_futexes<R>(what: impl FnOnce(Futexes<'static>) -> R) -> Option<R> {
    let engine = engine!();
    if engine.current() == NOBODY || engine.scheduler.in_kernel() {
        return None;
    }
    let futexes = engine.futexes?;
    engine.scheduler.set_in_kernel(&mut engine.clock, true);
    let done = what(futexes);
    let engine = engine!();
    engine.scheduler.set_in_kernel(&mut engine.clock, false);
    Some(done)
}

/// The running thread is about to do what cannot be done in a transaction: aborts its own, if it is in one.
#[inline]
fn refuse() {
    if engine!().is_in_transaction() {
        // SAFETY: the current simulation runs the caller, and no function up the stack has a reference into it.
        unsafe { transaction::abort(current(), Abort::REFUSED) };
    }
}

/// Whether a wait's timeout is reached; reading the cancel word is an access like any other.
#[track_caller]
fn reached(timeout: &Timeout<'_, Simulated>) -> bool {
    let cancelled = timeout.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed) != 0);
    cancelled || timeout.deadline.is_some_and(|deadline| deadline.passed::<Simulated>())
}

/// When a wait ends. A deadline farther away than a simulation's clock goes never comes.
fn deadline_of(timeout: &Timeout<'_, Simulated>) -> Option<Time> {
    timeout.deadline?.at_ns.checked_mul(PS_PER_NS).filter(|&at| at < Time::MAX / 2)
}

/// Watches the words at these addresses, the first of which was polled at a time, until it is time to poll again; true if
/// the first, on whose line all are, has been polled.
fn watch(addresses: &[usize], polled_at: Time, timeout: &Timeout<'_, Simulated>) -> bool {
    let engine = current();
    let mut lines = [0; 3];
    let mut count = 0;
    let cancel = timeout.cancel.map(|cancel| std::ptr::from_ref(cancel) as usize);
    for &address in addresses.iter().chain(&cancel) {
        let line = engine!().line_of(address);
        if !lines[..count].contains(&line) {
            lines[count] = line;
            count += 1;
        }
    }
    let polls = addresses.len() + usize::from(cancel.is_some());
    let deadline = deadline_of(timeout);
    // SAFETY: the current simulation runs the caller, and no reference into it is kept.
    unsafe { wait_for_lines(engine, &lines[..count], polls, polled_at, deadline) }
}

// SAFETY: the threads of a simulation run one at a time, each access as a whole; nodes and allocated memory lie in the
// simulation's arena.
unsafe impl Machine for Simulated {
    type U32 = SimulatedU32;
    type U64 = SimulatedU64;
    type Ptr<T: 'static> = SimulatedPtr<T>;
    type Cell<T: Plain> = SimulatedCell<T>;

    fn fence(_: Ordering) {}

    #[inline]
    fn delay(cycles: u64) {
        let time = engine!().hardware.time_of_cycles(cycles);
        advance(time);
    }

    fn now() -> u64 {
        let engine = engine!();
        engine.hardware.cycles_of_time(engine.clock.now)
    }

    fn clock_ns(_: Clock) -> u64 {
        engine!().clock.now / PS_PER_NS
    }

    #[inline]
    #[track_caller]
    fn spin_until_or<W: Word>(
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        mut ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp> {
        let address = std::ptr::from_ref(word) as usize;
        let timed = timeout.cancel.is_some() || timeout.deadline.is_some();
        let mut polled_at = engine!().clock.now;
        let mut value = word.load(ordering);
        if ready(value) {
            return Ok(value);
        }
        refuse();
        if !timed {
            let mut condition = || {
                value = peek(word);
                ready(value)
            };
            let line = engine!().line_of(address);
            // SAFETY: the current simulation runs the caller, and no reference into it is kept.
            unsafe { spin(current(), line, Location::caller(), &mut condition) };
            return Ok(value);
        }
        loop {
            if reached(&timeout) {
                return Err(GaveUp);
            }
            let polled = watch(&[address], polled_at, &timeout);
            polled_at = engine!().clock.now;
            value = if polled { peek(word) } else { word.load(ordering) };
            if ready(value) {
                return Ok(value);
            }
        }
    }

    #[track_caller]
    fn spin_until_any_or<A: Word, B: Word>(
        (first, first_ordering, mut first_ready): (&A, Ordering, impl FnMut(A::Value) -> bool),
        (second, second_ordering, mut second_ready): (&B, Ordering, impl FnMut(B::Value) -> bool),
        timeout: Timeout<'_, Self>,
    ) -> Result<Which<A::Value, B::Value>, GaveUp> {
        let addresses = [std::ptr::from_ref(first) as usize, std::ptr::from_ref(second) as usize];
        let share_line = engine!().line_of(addresses[0]) == engine!().line_of(addresses[1]);
        let mut polled = false;
        loop {
            let polled_at = engine!().clock.now;
            let value = if polled { peek(first) } else { first.load(first_ordering) };
            if first_ready(value) {
                return Ok(Which::First(value));
            }
            let first_polled = engine!().clock.now;
            let value = second.load(second_ordering);
            if second_ready(value) {
                return Ok(Which::Second(value));
            }
            refuse();
            if reached(&timeout) {
                return Err(GaveUp);
            }
            // A line that had to come for the second word may have changed the first.
            if share_line && engine!().clock.now != first_polled + engine!().hardware.hit {
                advance(engine!().hardware.pause);
                polled = false;
            } else {
                polled = watch(&addresses, polled_at, &timeout);
            }
        }
    }

    #[track_caller]
    fn spin_rmw_or<W: Word>(
        word: &W,
        timeout: Timeout<'_, Self>,
        mut attempt: impl FnMut(&W) -> bool,
    ) -> Result<(), GaveUp> {
        loop {
            if attempt(word) {
                return Ok(());
            }
            refuse();
            if reached(&timeout) {
                return Err(GaveUp);
            }
            advance(engine!().hardware.pause);
        }
    }

    #[track_caller]
    fn poll_or<W: Word>(
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        mut next: impl FnMut(W::Value) -> Poll,
    ) -> Result<W::Value, GaveUp> {
        loop {
            let value = word.load(ordering);
            let Poll::BackOff(cycles) = next(value) else { return Ok(value) };
            refuse();
            if reached(&timeout) {
                return Err(GaveUp);
            }
            match cycles {
                0 => advance(engine!().hardware.pause),
                _ => Self::delay(cycles),
            }
        }
    }

    fn runs(thread: u32) -> Runs {
        // A thread that has lost its core by the caller's time has to be known to have done so.
        settle();
        match engine!().scheduler.threads().get(thread.wrapping_sub(1) as usize) {
            None => Runs::CannotTell,
            Some(thread) if thread.activity == Activity::Running => Runs::Yes,
            Some(_) => Runs::No,
        }
    }

    #[track_caller]
    fn spin_while_running_or<W: Word>(
        word: &W,
        ordering: Ordering,
        thread: u32,
        timeout: Timeout<'_, Self>,
        mut ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp> {
        while Self::runs(thread) != Runs::No {
            let slice = timeout.within_ns(POLL_EVERY_NS);
            if let Ok(value) = Self::spin_until_or(word, ordering, slice, &mut ready) {
                return Ok(value);
            }
            if reached(&timeout) {
                break;
            }
        }
        Err(GaveUp)
    }

    #[track_caller]
    fn sleep_while(word: &SimulatedU32, expected: u32, timeout: Timeout<'_, Self>) -> Slept {
        // The kernel reads the word between the ways in and out.
        let way = enter_kernel();
        if let Some(slept) = call_futexes(|futexes| (futexes.wait)(word, expected, timeout)) {
            advance(way);
            return slept;
        }
        if word.load(Ordering::SeqCst) != expected {
            advance(way);
            return Slept::Changed;
        }
        if reached(&timeout) {
            advance(way);
            return Slept::GaveUp;
        }
        // From here on no thread comes between: a waker would find no sleeper yet, and this one not look at the word again.
        settle();
        if peek(word) != expected {
            advance(way);
            return Slept::Changed;
        }
        let address = engine!().offset_of(std::ptr::from_ref(word) as usize);
        let deadline = deadline_of(&timeout);
        let timed_out = sleep(address, deadline, timeout.cancel.is_some());
        advance(way);
        // A thread that was woken says so, however late it is by now: no other thread had that wake-up.
        if timed_out && (timeout.cancel.is_none() || reached(&timeout)) {
            Slept::GaveUp
        } else {
            Slept::Woken
        }
    }

    #[track_caller]
    fn wake(word: *const SimulatedU32, count: u32) -> u32 {
        let way = enter_kernel();
        if let Some(woken) = call_futexes(|futexes| (futexes.wake)(word, count)) {
            advance(way);
            return woken;
        }
        // The sleepers of now are those of this time only when everything before has happened.
        settle();
        let engine = engine!();
        let address = engine.offset_of(word as usize);
        let woken = engine.scheduler.wake(&mut engine.clock, &mut engine.memory, address, count);
        engine.record(engine.current(), What::Wakes { address, count: woken });
        advance(way);
        woken
    }

    fn owner() -> u32 {
        Self::thread() + 1
    }

    #[track_caller]
    fn acquire_inheriting(word: &SimulatedU32, timeout: Timeout<'_, Self>) -> Result<(), Denied> {
        let way = enter_kernel();
        let address = engine!().offset_of(std::ptr::from_ref(word) as usize);
        let mut asked = Asked::Taken;
        word.change(|seen| {
            asked = ask(address, seen);
            match asked {
                Asked::Taken => owned(address),
                Asked::Waits => seen | WAITERS,
                Asked::Deadlock => seen,
            }
        });
        let acquired = match asked {
            Asked::Taken => Ok(()),
            Asked::Waits => wait_for_owner(word, address, timeout),
            Asked::Deadlock => Err(Denied::Deadlock),
        };
        advance(way);
        acquired
    }

    #[track_caller]
    fn try_acquire_inheriting(word: &SimulatedU32) -> Result<(), Denied> {
        let way = enter_kernel();
        let address = engine!().offset_of(std::ptr::from_ref(word) as usize);
        let mut taken = Err(Denied::GaveUp);
        word.change(|seen| {
            let engine = engine!();
            let thread = engine.current();
            let scheduler = &mut engine.scheduler;
            let is_free = seen & OWNER == 0 && !scheduler.rt_knows(address);
            if is_free || scheduler.rt_steal(address, thread) {
                taken = Ok(());
                return owned(address);
            }
            seen
        });
        advance(way);
        taken
    }

    #[track_caller]
    fn release_inheriting(word: &SimulatedU32) {
        let way = enter_kernel();
        word.change(|_| {
            let engine = engine!();
            let (thread, address) = (engine.current(), engine.offset_of(std::ptr::from_ref(word) as usize));
            let (clock, memory) = (&mut engine.clock, &mut engine.memory);
            let Some(next) = engine.scheduler.rt_release(clock, memory, address, thread) else { return 0 };
            // In the same step, or the caller, whose priority may have sunk, could lose its core before it wakes a waiter.
            let woken = engine.scheduler.rt_wake(clock, memory, next);
            engine.record(thread, What::Wakes { address, count: woken.into() });
            owner_of(next) | WAITERS
        });
        advance(way);
    }

    fn has_transactions() -> bool {
        engine!().transactional_memory().is_some()
    }

    unsafe fn begin_transaction() -> Result<(), Abort> {
        // SAFETY: the current simulation runs the caller, and no function up the stack has a reference into it.
        unsafe { transaction::begin(current()) }
    }

    unsafe fn commit_transaction() {
        // SAFETY: the current simulation runs the caller, and no function up the stack has a reference into it.
        unsafe { transaction::commit(current()) };
    }

    #[inline]
    fn in_transaction() -> bool {
        engine!().is_in_transaction()
    }

    fn abort_transaction<const CODE: u8>() -> ! {
        assert!(Self::in_transaction(), "a transaction is aborted outside of any, with the code {CODE}");
        // SAFETY: the current simulation runs the caller, and no function up the stack has a reference into it;
        // it is in one.
        unsafe { transaction::abort(current(), Abort::explicit(CODE)) }
    }

    fn thread() -> u32 {
        // The simulation's caller is number 0, which lives as long as its threads.
        engine!().current().wrapping_add(1)
    }

    fn place() -> Place {
        let engine = engine!();
        engine.hardware.places.get(engine.scheduler.current_core as usize).copied().unwrap_or_default()
    }

    fn topology() -> Topology {
        Topology { places: engine!().hardware.places.clone() }
    }

    fn allocate_node<T: Node<Self>>() -> TakenNode<T> {
        const { assert!(size_of::<T>() <= LINE_BYTES && align_of::<T>() <= LINE_BYTES) };
        let engine = engine!();
        let thread = engine.current().wrapping_add(1);
        let in_transaction = engine.is_in_transaction();
        if in_transaction && !engine.nodes.has_free(thread) {
            refuse();
        }
        let (node, name) = engine.nodes.take(&mut engine.arena, thread);
        if in_transaction {
            engine.note_taken(engine.offset_of(node.as_ptr() as usize) as usize);
        }
        // SAFETY: a line of zeroed memory that stays until the simulation ends, which outlives its locks; what a
        // former user left are words and cells of this machine.
        TakenNode { node: unsafe { node.cast::<T>().as_ref() }, name }
    }

    unsafe fn free_node<T: Node<Self>>(node: &'static T) {
        let engine = engine!();
        let offset = engine.offset_of(std::ptr::from_ref(node) as usize) as usize;
        if engine.is_in_transaction() {
            engine.give_at_commit(offset);
        } else {
            engine.nodes.give(offset);
        }
    }

    unsafe fn named_node<T: Node<Self>>(name: u32) -> &'static T {
        const { assert!(size_of::<T>() <= LINE_BYTES && align_of::<T>() <= LINE_BYTES) };
        // SAFETY: as in `allocate_node`.
        unsafe {
            let engine = &mut *current();
            engine.nodes.named(&mut engine.arena, name).cast::<T>().as_ref()
        }
    }

    fn thread_memory() -> Option<&'static [SimulatedCell<u64>; THREAD_MEMORY]> {
        let engine = engine!();
        let thread = engine.current().wrapping_add(1);
        let memory = engine.nodes.memory(&mut engine.arena, thread);
        // SAFETY: zeroed memory of that size and alignment that stays until the simulation ends, which outlives its
        // locks; only cells of this machine are ever made of it.
        Some(unsafe { memory.cast::<[SimulatedCell<u64>; THREAD_MEMORY]>().as_ref() })
    }

    fn address<T>(of: &T) -> usize {
        engine!().offset_of(std::ptr::from_ref(of) as usize) as usize
    }

    const NAMED_NODES: u32 = NAMED_NODES;

    fn alloc(layout: Layout, home: Home) -> NonNull<u8> {
        refuse();
        let engine = engine!();
        let offset = engine.arena.lend(layout, home);
        if let Home::Node(node) = home {
            engine.memory.place_block(offset, layout.size(), node);
        }
        engine.arena.at(offset)
    }

    unsafe fn free(memory: NonNull<u8>, layout: Layout, home: Home) {
        refuse();
        let engine = engine!();
        let offset = engine.offset_of(memory.as_ptr() as usize) as usize;
        engine.arena.take_back(offset, layout, home);
    }

    fn run(plan: &Plan<'_>, body: &(dyn Fn(usize) + Sync)) -> Run {
        let engine = current();
        assert!(engine!().current() == NOBODY, "a thread of a simulated run cannot start another run");
        let duration = plan.duration_ns.map(|ns| ns.saturating_mul(PS_PER_NS));
        for (index, &priority) in plan.priorities.iter().take(plan.threads).enumerate() {
            assert!(
                priority <= HIGHEST_PRIORITY,
                "thread {index} of the run may not have the real-time priority {priority}: the highest is {HIGHEST_PRIORITY}"
            );
        }
        match Engine::run(engine, plan.threads, (plan.cores, plan.priorities), duration, body) {
            Ok((counts, elapsed)) => Run { counts, elapsed_ns: elapsed / PS_PER_NS },
            // Not a panic: it carries the report out of the simulation's body without a message on the terminal.
            Err(Failure::Stopped(stopped)) => resume_unwind(Box::new(Unwound(stopped))),
            Err(Failure::Panicked(payload)) => resume_unwind(payload),
        }
    }

    #[inline]
    fn running() -> bool {
        let engine = engine!();
        engine.is_running()
    }

    fn note(event: Note) {
        if matches!(event, Note::Acquiring { .. } | Note::Releasing { .. }) {
            // A thread that takes the lock before this time must find it held, and no thread waits before it has come.
            settle();
        }
        let engine = current();
        engine!().note(event);
        if engine!().stop.is_some() {
            // SAFETY: the current simulation runs the caller; it does not resume a stopped thread.
            unsafe { suspend(engine) };
        }
    }
}

/// The value of a word that has just been accessed on the thread's behalf.
fn peek<W: Word>(word: &W) -> W::Value {
    const { assert!(size_of::<W>() == size_of::<W::Value>() && align_of::<W>() == align_of::<W::Value>()) };
    // SAFETY: a word that the simulation has accessed lies in its memory, where only this machine's words lie; they
    // are transparent over their value, to which there is no reference.
    unsafe { std::ptr::from_ref(word).cast::<W::Value>().read() }
}

/// A thread as the owner of a word.
fn owner_of(thread: u32) -> u32 {
    thread.wrapping_add(1) + 1
}

/// What a word holds that the running thread has just got.
fn owned(address: u32) -> u32 {
    Simulated::owner() | if engine!().scheduler.rt_knows(address) { WAITERS } else { 0 }
}

/// The running thread asks the kernel for a word in which it has seen this.
fn ask(address: u32, seen: u32) -> Asked {
    let engine = engine!();
    let thread = engine.current();
    if !engine.scheduler.rt_knows(address) {
        match seen & OWNER {
            0 => return Asked::Taken,
            owner if owner == Simulated::owner() => return Asked::Deadlock,
            _ => {}
        }
    }
    assert!(
        thread != NOBODY,
        "the simulation's caller waits for a lock, but it is alone, and no thread ends that"
    );
    let owner = (seen & OWNER).wrapping_sub(2);
    engine.scheduler.rt_ask(&mut engine.clock, &mut engine.memory, (address, owner), thread)
}

/// The running thread waits for a word as one of its waiters: the first of them watches it while its owner runs, all others sleep.
#[track_caller]
fn wait_for_owner(word: &SimulatedU32, address: u32, timeout: Timeout<'_, Simulated>) -> Result<(), Denied> {
    let thread = engine!().current();
    let take = || {
        // What comes before the thread's time may give it the word, or another thread the first place.
        settle();
        let scheduler = &mut engine!().scheduler;
        if peek(word) & OWNER == owner_of(thread) {
            return scheduler.rt_take(address, thread);
        }
        if !scheduler.rt_may_take(address, thread) {
            return false;
        }
        // The word names the waiter that was woken, which is another one. To take it and to say so is one step; what happens while the
        // word comes here may give it to a third.
        let mut taken = false;
        word.change(|seen| {
            taken = engine!().scheduler.rt_take(address, thread);
            if taken { owned(address) } else { seen }
        });
        taken
    };
    let deadline = deadline_of(&timeout);
    let (mut taken, mut gives_up) = (take(), false);
    while !taken && !gives_up {
        let owner = engine!().scheduler.rt_owner(address).map(|owner| owner.wrapping_add(1));
        let is_top = engine!().scheduler.rt_is_top(address, thread);
        gives_up = match owner.filter(|_| is_top) {
            Some(owner) if Simulated::runs(owner) == Runs::Yes => {
                let is_mine = |value| value & OWNER == owner_of(thread);
                let round = timeout.within_ns(POLL_EVERY_NS);
                let watched = Simulated::spin_until_or(word, Ordering::Relaxed, round, is_mine);
                watched.is_err() && reached(&timeout)
            }
            _ if reached(&timeout) => true,
            _ => {
                settle();
                // Once more: what happened meanwhile may have been its wake-up.
                let sleeps = !engine!().scheduler.rt_may_take(address, thread);
                sleeps && sleep(address, deadline, timeout.cancel.is_some()) && reached(&timeout)
            }
        };
        taken = take();
    }
    if taken {
        return Ok(());
    }
    let engine = engine!();
    engine.scheduler.rt_give_up(&mut engine.clock, &mut engine.memory, address, thread);
    Err(Denied::GaveUp)
}

/// Lets everything happen that comes before the running thread's time.
fn settle() {
    let engine = engine!();
    if engine.current() != NOBODY && engine.clock.is_behind() {
        // SAFETY: the current simulation runs the caller, and no reference into it is kept.
        unsafe { catch_up(current()) };
    }
}

/// Sleeps on an address until woken or the deadline; says whether it was the deadline. The caller has let everything happen that
/// comes before.
fn sleep(address: u32, deadline: Option<Time>, cancellable: bool) -> bool {
    /// How often a sleeper with a cancel word polls it: nothing wakes it when the word is set.
    const CANCEL_CHECK: Time = 50_000 * PS_PER_NS;
    let engine = engine!();
    let current_thread = engine.current();
    engine.record(current_thread, What::Sleeps { address });
    let check = cancellable.then_some(engine.clock.now + CANCEL_CHECK);
    let timeout = [deadline, check].into_iter().flatten().min();
    engine.scheduler.sleep(&mut engine.clock, &mut engine.memory, address, timeout);
    // SAFETY: the current simulation runs the caller, and no reference into it is kept.
    unsafe { suspend(current()) };
    engine!().scheduler.thread(current_thread).timed_out
}
