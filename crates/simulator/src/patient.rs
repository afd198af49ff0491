//! The simulated machine with waits that end in sleep, as the preload library's do ([`machine::Patient`]).
//!
//! After a bound a waiter yields, then sleeps until its word is written; a thread that writes a word looks for sleepers and
//! wakes them. Who sleeps where is noted on the host, as the table that writers look into costs a hit; the yield, the sleep
//! and the wake-up are the simulated kernel's.

use crate::{Hardware, PS_PER_NS, Simulated, SimulatedCell, SimulatedPtr, SimulatedU32, SimulatedU64};
use machine::host::{SPIN_PAUSES, YIELD_CYCLES, YIELDS, YieldCosts};
use machine::{
    Abort, Clock, Deadline, Denied, Event, GaveUp, Home, Integer, Machine, Node, Ordering, Part, Place,
    Plain, Plan, Poll, Run, Slept, THREAD_MEMORY, TakenNode, Timeout, Topology, Which, Word,
};
use std::alloc::Layout;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::rc::Rc;

/// The machine of the current simulation, with waits that end in sleep.
#[derive(Clone, Copy, Debug)]
pub struct Patient;

/// A sleep ends by itself after so long, as it does on a host, where a store that waits in a store buffer is seen by its writer before
/// it is by others.
const LONGEST_SLEEP_NS: u64 = 2_000_000;

/// Who sleeps on which word of the simulation that this host thread runs.
#[derive(Default)]
struct Sleepers {
    /// By the word's address: threads, with the low bits of the value that they wait for where that is known.
    by_word: BTreeMap<usize, Vec<(u32, Option<u32>)>>,
    /// The words that threads sleep on, by thread.
    beds: BTreeMap<u32, usize>,
    /// How long a waiter polls before it yields.
    poll_ns: u64,
    yield_costs: Rc<YieldCosts>,
}

thread_local! {
    static SLEEPERS: RefCell<Sleepers> = RefCell::default();
}

/// Inside a simulation of this hardware: does something by so many threads of this machine.
pub fn with_beds<R>(threads: u32, hardware: &Hardware, run: impl FnOnce() -> R) -> R {
    let _entered = Entered::new(threads, hardware);
    run()
}

/// The beds, while threads may lie in them.
struct Entered(Vec<machine::Placed<SimulatedU32, Simulated>>);

impl Entered {
    /// Starts with no thread asleep.
    fn new(threads: u32, hardware: &Hardware) -> Self {
        // Threads are numbered from 1; 0 is who starts them.
        let beds: Vec<_> =
            (0..=threads).map(|_| machine::Placed::new(SimulatedU32::ZERO, Home::Node(0))).collect();
        SLEEPERS.with_borrow_mut(|sleepers| {
            let address = |bed: &machine::Placed<SimulatedU32, Simulated>| {
                std::ptr::from_ref::<SimulatedU32>(bed) as usize
            };
            *sleepers = Sleepers {
                by_word: BTreeMap::new(),
                beds: (0..).zip(beds.iter().map(address)).collect(),
                poll_ns: u64::from(SPIN_PAUSES) * (hardware.pause + hardware.hit) / PS_PER_NS,
                yield_costs: Rc::default(),
            };
        });
        Self(beds)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = &self.0;
        SLEEPERS.with_borrow_mut(|sleepers| *sleepers = Sleepers::default());
    }
}

/// The bed at an address that [`Sleepers`] knows.
fn bed(address: usize) -> &'static SimulatedU32 {
    // SAFETY: beds are known from `Entered::new` to its drop, which is when the last thread of the simulation has ended.
    unsafe { &*std::ptr::with_exposed_provenance::<SimulatedU32>(address) }
}

/// After a write of the word at `address`, whose low bits are now these if all of it was written.
#[inline]
fn written(address: usize, low_bits: Option<u32>) {
    if Simulated::in_transaction() {
        return wake_would_abort(address);
    }
    let woken: Vec<usize> = SLEEPERS.with_borrow_mut(|sleepers| {
        if sleepers.by_word.is_empty() {
            return Vec::new();
        }
        let Some(there) = sleepers.by_word.get_mut(&address) else { return Vec::new() };
        let wanted = |waits_for: Option<u32>| match (waits_for, low_bits) {
            (Some(waits_for), Some(now)) => waits_for % 32 == now % 32,
            _ => true,
        };
        let woken: Vec<u32> =
            there.iter().filter(|(_, waits_for)| wanted(*waits_for)).map(|&(thread, _)| thread).collect();
        there.retain(|(thread, _)| !woken.contains(thread));
        if there.is_empty() {
            sleepers.by_word.remove(&address);
        }
        woken.iter().filter_map(|thread| sleepers.beds.get(thread).copied()).collect()
    });
    for address in woken {
        let bed = bed(address);
        bed.store(1, Ordering::Relaxed);
        Simulated::wake(bed, 1);
    }
}

/// After a write in a transaction: no thread can be woken there, and what is noted of sleepers would not be taken back. So it
/// aborts where a thread sleeps.
fn wake_would_abort(address: usize) {
    let bed_of_sleeper = SLEEPERS.with_borrow(|sleepers| {
        let &(thread, _) = sleepers.by_word.get(&address)?.first()?;
        sleepers.beds.get(&thread).copied()
    });
    if let Some(address) = bed_of_sleeper {
        Simulated::wake(bed(address), 1);
    }
}

/// Sleeps until the word is written, if it still holds `seen`, or until the deadline.
fn sleep_on<W: Word>(word: &W, seen: W::Value, waits_for: Option<u32>, deadline: Option<Deadline>) {
    let (address, thread) = (std::ptr::from_ref(word) as usize, Simulated::thread());
    let Some(own) = SLEEPERS.with_borrow(|sleepers| sleepers.beds.get(&thread).copied()) else { return };
    let bed = bed(own);
    bed.store(0, Ordering::SeqCst);
    SLEEPERS.with_borrow_mut(|sleepers| {
        sleepers.by_word.entry(address).or_default().push((thread, waits_for));
    });
    if word.load(Ordering::SeqCst) == seen {
        let bound = Deadline::after_ns::<Simulated>(LONGEST_SLEEP_NS);
        let bound = deadline.map_or(bound, |own| if own.at_ns < bound.at_ns { own } else { bound });
        Simulated::sleep_while(bed, 0, Timeout::at(bound));
    }
    SLEEPERS.with_borrow_mut(|sleepers| {
        if let Some(there) = sleepers.by_word.get_mut(&address) {
            there.retain(|&(other, _)| other != thread);
            if there.is_empty() {
                sleepers.by_word.remove(&address);
            }
        }
    });
}

/// The yields of one wait.
struct Yields {
    left: u32,
    cycles: u64,
}

impl Yields {
    /// A wait with a deadline does not yield.
    fn of(timeout: &Timeout<'_, Patient>) -> Self {
        Self { left: if timeout.deadline.is_some() { 0 } else { YIELDS }, cycles: 0 }
    }

    /// Yields, unless it is time to sleep; says so.
    fn one_more(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        // Not borrowed while the machine is asked for anything: another thread of it may run then.
        let costs = SLEEPERS.with_borrow(|sleepers| Rc::clone(&sleepers.yield_costs));
        let took = costs.try_yield(Simulated::now, Simulated::yield_now);
        self.cycles += took.unwrap_or(0);
        let enough = took.is_none() || self.cycles > YIELD_CYCLES;
        self.left = if enough { 0 } else { self.left - 1 };
        true
    }
}

/// The deadline of the polls before the first yield, or the wait's own if that is earlier.
fn polling(timeout: &Timeout<'_, Patient>) -> Timeout<'static, Simulated> {
    let ns = SLEEPERS.with_borrow(|sleepers| sleepers.poll_ns);
    let bound = Deadline::after_ns::<Simulated>(ns);
    let ends_first = |own: &Deadline| timeout.spins || own.at_ns < bound.at_ns;
    Timeout::at(timeout.deadline.filter(ends_first).unwrap_or(bound))
}

/// The same on the machine beneath.
fn simulated(timeout: Timeout<'_, Patient>) -> Timeout<'_, Simulated> {
    let Timeout { deadline, cancel, spins } = timeout;
    Timeout { deadline, cancel: cancel.map(|cancel| &cancel.0), spins }
}

fn reached(timeout: &Timeout<'_, Patient>) -> bool {
    let cancelled = timeout.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed) != 0);
    cancelled || timeout.deadline.is_some_and(|deadline| deadline.passed::<Simulated>())
}

macro_rules! word {
    ($name:ident $(<$of:ident>)?, $inner:ty, $value:ty) => {
        /// A word of the simulated machine whose writers wake who sleeps on it.
        #[repr(transparent)]
        pub struct $name $(<$of: 'static>)? ($inner);

        impl $(<$of: 'static>)? $name $(<$of>)? {
            #[inline]
            fn written(&self, value: $value) {
                written(std::ptr::from_ref(self) as usize, Some(value.to_bits() as u32));
            }
        }

        // SAFETY: transparent over a word of the simulated machine.
        unsafe impl $(<$of: 'static>)? Word for $name $(<$of>)? {
            type Value = $value;
            const ZERO: Self = Self(<$inner as Word>::ZERO);

            #[inline]
            #[track_caller]
            fn load(&self, ordering: Ordering) -> $value {
                self.0.load(ordering)
            }

            #[inline]
            #[track_caller]
            fn store(&self, value: $value, ordering: Ordering) {
                self.0.store(value, ordering);
                self.written(value);
            }

            #[inline]
            #[track_caller]
            fn swap(&self, value: $value, ordering: Ordering) -> $value {
                let old = self.0.swap(value, ordering);
                self.written(value);
                old
            }

            #[inline]
            #[track_caller]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let found = self.0.compare_exchange(current, new, success, failure);
                if found.is_ok() {
                    self.written(new);
                }
                found
            }
        }
    };
}

word!(PatientU32, SimulatedU32, u32);
word!(PatientU64, SimulatedU64, u64);
word!(PatientPtr<T>, SimulatedPtr<T>, *mut T);

macro_rules! integer {
    ($name:ident, $value:ty, $($function:ident: $result:expr),*) => {
        impl Integer for $name {
            $(
                #[inline]
                #[track_caller]
                fn $function(&self, value: $value, ordering: Ordering) -> $value {
                    let old = self.0.$function(value, ordering);
                    let result: fn($value, $value) -> $value = $result;
                    self.written(result(old, value));
                    old
                }
            )*

            #[inline]
            #[track_caller]
            fn store_part(&self, part: Part, value: u16, ordering: Ordering) {
                self.0.store_part(part, value, ordering);
                written(std::ptr::from_ref(self) as usize, None);
            }
        }
    };
}

integer!(
    PatientU32, u32,
    fetch_add: |old, value| old.wrapping_add(value),
    fetch_sub: |old, value| old.wrapping_sub(value),
    fetch_and: |old, value| old & value,
    fetch_or: |old, value| old | value
);
integer!(
    PatientU64, u64,
    fetch_add: |old, value| old.wrapping_add(value),
    fetch_sub: |old, value| old.wrapping_sub(value),
    fetch_and: |old, value| old & value,
    fetch_or: |old, value| old | value
);

/// A node of the simulated machine's own, in whose memory a node of any type is laid.
#[repr(C)]
struct AnyNode([SimulatedU64; 8]);

// SAFETY: words of the machine, as long as a line.
unsafe impl Node<Simulated> for AnyNode {}

/// One wait: polls, then yields between polls, then sleeps between polls. `timed` polls within a timeout, `now` once, and gives what
/// it saw if that was not it.
fn wait<W: Word, R>(
    word: &W,
    timeout: &Timeout<'_, Patient>,
    waits_for: Option<u32>,
    timed: &mut dyn FnMut(Timeout<'static, Simulated>) -> Result<R, GaveUp>,
    now: &mut dyn FnMut() -> Result<R, Option<W::Value>>,
) -> Result<R, GaveUp> {
    if let Ok(found) = timed(polling(timeout)) {
        return Ok(found);
    }
    let mut yields = Yields::of(timeout);
    loop {
        if reached(timeout) {
            return Err(GaveUp);
        }
        match now() {
            Ok(found) => return Ok(found),
            Err(Some(_)) if yields.one_more() => {}
            Err(Some(seen)) => sleep_on(word, seen, waits_for, timeout.deadline),
            Err(None) => {}
        }
    }
}

// SAFETY: words, cells and memory are the simulated machine's, and so is what they hold; waits end for the same reasons.
unsafe impl Machine for Patient {
    type U32 = PatientU32;
    type U64 = PatientU64;
    type Ptr<T: 'static> = PatientPtr<T>;
    type Cell<T: Plain> = SimulatedCell<T>;

    fn fence(ordering: Ordering) {
        Simulated::fence(ordering);
    }

    #[inline]
    fn delay(cycles: u64) {
        Simulated::delay(cycles);
    }

    fn now() -> u64 {
        Simulated::now()
    }

    fn clock_ns(clock: Clock) -> u64 {
        Simulated::clock_ns(clock)
    }

    #[track_caller]
    fn spin_until_or<W: Word>(
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp> {
        spin(word, ordering, &timeout, None, ready)
    }

    #[track_caller]
    fn spin_until_written<W: Word>(
        word: &W,
        ordering: Ordering,
        last: W::Value,
        ready: impl FnMut(W::Value) -> bool,
    ) -> W::Value {
        let found = spin(word, ordering, &Timeout::NONE, Some(last.to_bits() as u32), ready);
        found.unwrap_or_else(|GaveUp| unreachable!("a wait without a timeout gave up"))
    }

    #[track_caller]
    fn spin_until_any_or<A: Word, B: Word>(
        (first, first_ordering, mut first_ready): (&A, Ordering, impl FnMut(A::Value) -> bool),
        (second, second_ordering, mut second_ready): (&B, Ordering, impl FnMut(B::Value) -> bool),
        timeout: Timeout<'_, Self>,
    ) -> Result<Which<A::Value, B::Value>, GaveUp> {
        /// A sleep between two polls of two words.
        const BETWEEN_POLLS_NS: u64 = 50_000;
        loop {
            let found = Simulated::spin_until_any_or(
                (first, first_ordering, &mut first_ready),
                (second, second_ordering, &mut second_ready),
                polling(&timeout),
            );
            if let Ok(found) = found {
                return Ok(found);
            }
            if reached(&timeout) {
                return Err(GaveUp);
            }
            let thread = Simulated::thread();
            if let Some(own) = SLEEPERS.with_borrow(|sleepers| sleepers.beds.get(&thread).copied()) {
                let bed = bed(own);
                bed.store(0, Ordering::SeqCst);
                Simulated::sleep_while(
                    bed,
                    0,
                    Timeout::at(Deadline::after_ns::<Simulated>(BETWEEN_POLLS_NS)),
                );
            }
        }
    }

    #[track_caller]
    fn spin_rmw_or<W: Word>(
        word: &W,
        timeout: Timeout<'_, Self>,
        attempt: impl FnMut(&W) -> bool,
    ) -> Result<(), GaveUp> {
        let attempt = RefCell::new(attempt);
        let mut timed = |bound| Simulated::spin_rmw_or(word, bound, |word| attempt.borrow_mut()(word));
        let mut now = || {
            if attempt.borrow_mut()(word) {
                return Ok(());
            }
            let seen = word.load(Ordering::Relaxed);
            // No thread would end a sleep on a free word.
            Err((seen != W::Value::ZERO).then_some(seen))
        };
        wait(word, &timeout, None, &mut timed, &mut now)
    }

    #[track_caller]
    fn poll_or<W: Word>(
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        next: impl FnMut(W::Value) -> Poll,
    ) -> Result<W::Value, GaveUp> {
        poll(word, ordering, &timeout, None, next)
    }

    #[track_caller]
    fn poll_until_written<W: Word>(
        word: &W,
        ordering: Ordering,
        last: W::Value,
        next: impl FnMut(W::Value) -> Poll,
    ) -> W::Value {
        let found = poll(word, ordering, &Timeout::NONE, Some(last.to_bits() as u32), next);
        found.unwrap_or_else(|GaveUp| unreachable!("a wait without a timeout gave up"))
    }

    #[track_caller]
    fn sleep_while(word: &PatientU32, expected: u32, timeout: Timeout<'_, Self>) -> Slept {
        Simulated::sleep_while(&word.0, expected, simulated(timeout))
    }

    #[track_caller]
    fn wake(word: *const PatientU32, count: u32) -> u32 {
        Simulated::wake(word.cast(), count)
    }

    fn owner() -> u32 {
        Simulated::owner()
    }

    #[track_caller]
    fn acquire_inheriting(word: &PatientU32, timeout: Timeout<'_, Self>) -> Result<(), Denied> {
        Simulated::acquire_inheriting(&word.0, simulated(timeout))
    }

    #[track_caller]
    fn try_acquire_inheriting(word: &PatientU32) -> Result<(), Denied> {
        Simulated::try_acquire_inheriting(&word.0)
    }

    #[track_caller]
    fn release_inheriting(word: &PatientU32) {
        Simulated::release_inheriting(&word.0);
    }

    fn has_transactions() -> bool {
        Simulated::has_transactions()
    }

    unsafe fn begin_transaction() -> Result<(), Abort> {
        // SAFETY: by the caller.
        unsafe { Simulated::begin_transaction() }
    }

    unsafe fn commit_transaction() {
        // SAFETY: by the caller.
        unsafe { Simulated::commit_transaction() };
    }

    fn in_transaction() -> bool {
        Simulated::in_transaction()
    }

    fn abort_transaction<const CODE: u8>() -> ! {
        Simulated::abort_transaction::<CODE>()
    }

    fn thread() -> u32 {
        Simulated::thread()
    }

    fn place() -> Place {
        Simulated::place()
    }

    fn topology() -> Topology {
        Simulated::topology()
    }

    fn allocate_node<T: Node<Self>>() -> TakenNode<T> {
        const { assert!(size_of::<T>() <= size_of::<AnyNode>() && align_of::<T>() <= machine::LINE_BYTES) };
        let TakenNode { node, name } = Simulated::allocate_node::<AnyNode>();
        // SAFETY: a line of the simulation's memory, aligned as one; a node of any type may lie in what another left.
        TakenNode { node: unsafe { &*std::ptr::from_ref(node).cast::<T>() }, name }
    }

    unsafe fn free_node<T: Node<Self>>(node: &'static T) {
        // SAFETY: it came from `allocate_node`, as that of an `AnyNode`; the rest is the caller's.
        unsafe { Simulated::free_node(&*std::ptr::from_ref(node).cast::<AnyNode>()) }
    }

    unsafe fn named_node<T: Node<Self>>(name: u32) -> &'static T {
        // SAFETY: by the caller; as in `allocate_node`.
        unsafe { &*std::ptr::from_ref(Simulated::named_node::<AnyNode>(name)).cast::<T>() }
    }

    fn thread_memory() -> Option<&'static [SimulatedCell<u64>; THREAD_MEMORY]> {
        Simulated::thread_memory()
    }

    fn address<T>(of: &T) -> usize {
        Simulated::address(of)
    }

    const NAMED_NODES: u32 = Simulated::NAMED_NODES;

    fn alloc(layout: Layout, home: Home) -> NonNull<u8> {
        Simulated::alloc(layout, home)
    }

    unsafe fn free(memory: NonNull<u8>, layout: Layout, home: Home) {
        // SAFETY: by the caller.
        unsafe { Simulated::free(memory, layout, home) }
    }

    fn run(plan: &Plan<'_>, body: &(dyn Fn(usize) + Sync)) -> Run {
        Simulated::run(plan, body)
    }

    fn running() -> bool {
        Simulated::running()
    }

    fn note(event: Event) {
        Simulated::note(event);
    }
}

#[track_caller]
fn spin<W: Word>(
    word: &W,
    ordering: Ordering,
    timeout: &Timeout<'_, Patient>,
    waits_for: Option<u32>,
    ready: impl FnMut(W::Value) -> bool,
) -> Result<W::Value, GaveUp> {
    let ready = RefCell::new(ready);
    let mut timed =
        |bound| Simulated::spin_until_or(word, ordering, bound, |value| ready.borrow_mut()(value));
    let mut now = || {
        let value = word.load(ordering);
        if ready.borrow_mut()(value) { Ok(value) } else { Err(Some(value)) }
    };
    // Most waits are none.
    let value = word.load(ordering);
    if ready.borrow_mut()(value) {
        return Ok(value);
    }
    wait(word, timeout, waits_for, &mut timed, &mut now)
}

#[track_caller]
fn poll<W: Word>(
    word: &W,
    ordering: Ordering,
    timeout: &Timeout<'_, Patient>,
    waits_for: Option<u32>,
    next: impl FnMut(W::Value) -> Poll,
) -> Result<W::Value, GaveUp> {
    let next = RefCell::new(next);
    let mut timed = |bound| Simulated::poll_or(word, ordering, bound, |value| next.borrow_mut()(value));
    let mut now = || {
        let value = word.load(ordering);
        match next.borrow_mut()(value) {
            Poll::BackOff(_) => Err(Some(value)),
            _ => Ok(value),
        }
    };
    wait(word, timeout, waits_for, &mut timed, &mut now)
}
