//! The hardware as a machine.
//!
//! [`Native`] spins as long as it takes. [`Patient`] is for programs with more threads than cores: after a bound a
//! wait yields, then sleeps on the very word that it watches, and every write of a word wakes who sleeps there. The
//! two share all code but [`Patience`].

pub mod counter;
mod futex;
mod inheriting;
mod patience;
mod run;
pub mod thread;
mod topology;
mod transaction;
mod words;
mod yielding;

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;

pub use futex::{Errno, fence_everyone as fence_running_threads};
pub use patience::{
    Patience, Round, SPIN_PAUSES, Sleeping, Spinning, YIELD_CYCLES, YIELDS, forget_sleepers, set_spin_bound,
};
pub use words::{HostCell, HostPtr, HostU32, HostU64};
pub use yielding::YieldCosts;

use crate::transaction::Abort;
use crate::{
    Clock, Denied, Event, GaveUp, Home, Machine, Node, Ordering, Place, Plain, Plan, Poll, Run, Slept,
    THREAD_MEMORY, TakenNode, Timeout, Topology, Which, Word, never_gives_up,
};

/// This computer, with a way of waiting.
pub struct Host<P: Patience>(PhantomData<P>);

/// This computer, spinning.
pub type Native = Host<Spinning>;

/// This computer, where a long wait yields and then sleeps.
pub type Patient = Host<Sleeping>;

impl<P: Patience> Clone for Host<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Patience> Copy for Host<P> {}

/// On this computer, where the standard library's clock is the monotonic one. A fraction of a microsecond late at most, never
/// early.
#[cfg(feature = "std")]
impl From<std::time::Instant> for crate::Deadline {
    fn from(at: std::time::Instant) -> Self {
        // The other clock is read second, so that what passes between the two makes the deadline later.
        let wait = at.saturating_duration_since(std::time::Instant::now());
        Self::after::<Native>(wait)
    }
}

/// A deadline is compared with the clock once in so many polls, since reading a clock costs more than a poll; and after each that went
/// through the scheduler.
const POLLS_PER_CLOCK: u32 = 32;

/// Checks a timeout now and then while a wait goes on.
struct Watch<'a, P: Patience> {
    timeout: Timeout<'a, Host<P>>,
    polls: u32,
}

impl<'a, P: Patience> Watch<'a, P> {
    #[inline]
    fn new(timeout: Timeout<'a, Host<P>>, round: &mut Round) -> Self {
        round.timeout(timeout.deadline, timeout.cancel.is_some(), timeout.spins);
        Self { timeout, polls: 0 }
    }

    #[inline]
    fn reached(&mut self, round: &mut Round) -> bool {
        let rescheduled = round.was_rescheduled();
        if let Some(cancel) = self.timeout.cancel
            && cancel.load(Ordering::Relaxed) != 0
        {
            return true;
        }
        let Some(deadline) = self.timeout.deadline else { return false };
        self.polls = self.polls.wrapping_add(1);
        (rescheduled || self.polls % POLLS_PER_CLOCK == 1) && deadline.passed::<Host<P>>()
    }
}

impl<P: Patience> Host<P> {
    #[inline]
    fn spin<W: Word>(
        mut round: Round,
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        mut ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp> {
        let mut watch = Watch::new(timeout, &mut round);
        loop {
            let value = word.load(ordering);
            if ready(value) {
                return Ok(value);
            }
            if watch.reached(&mut round) {
                return Err(GaveUp);
            }
            P::pause(&mut round, word, value);
        }
    }

    #[inline]
    fn poll_and_back_off<W: Word>(
        mut round: Round,
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        mut next: impl FnMut(W::Value) -> Poll,
    ) -> Result<W::Value, GaveUp> {
        let mut watch = Watch::new(timeout, &mut round);
        loop {
            let value = word.load(ordering);
            let Poll::BackOff(cycles) = next(value) else { return Ok(value) };
            if watch.reached(&mut round) {
                return Err(GaveUp);
            }
            if cycles == 0 {
                P::pause(&mut round, word, value);
            } else if P::back_off(&mut round, cycles, word, value) {
                Self::delay(cycles);
                round.has_passed(cycles);
            }
        }
    }
}

// SAFETY: words and cells are atomics of the hardware; nodes lie in blocks that are never unmapped, each of which belongs to
// one thread at a time; memory comes from the C library or the kernel.
unsafe impl<P: Patience> Machine for Host<P> {
    type U32 = HostU32<P>;
    type U64 = HostU64<P>;
    type Ptr<T: 'static> = HostPtr<T, P>;
    type Cell<T: Plain> = HostCell<T>;

    #[inline]
    fn fence(ordering: Ordering) {
        core::sync::atomic::fence(ordering);
    }

    #[inline]
    fn has_transactions() -> bool {
        transaction::is_available()
    }

    #[inline]
    unsafe fn begin_transaction() -> Result<(), Abort> {
        transaction::begin()
    }

    #[inline]
    unsafe fn commit_transaction() {
        // SAFETY: the caller's.
        unsafe { transaction::commit() };
    }

    #[inline]
    fn in_transaction() -> bool {
        transaction::is_inside()
    }

    #[cold]
    fn end_program(why: &'static str) -> ! {
        /// A panic that would leave this function, which is not Rust's to unwind, is an abort behind its message.
        extern "C" fn end(why: &&'static str) -> ! {
            panic!("{why}");
        }
        end(&why)
    }

    fn abort_transaction<const CODE: u8>() -> ! {
        transaction::abort::<CODE>();
        panic!("a transaction is aborted outside of any");
    }

    #[inline]
    fn delay(cycles: u64) {
        let start = Self::now();
        while Self::now().wrapping_sub(start) < cycles {
            core::hint::spin_loop();
        }
    }

    #[inline]
    fn now() -> u64 {
        counter::cycles()
    }

    fn clock_ns(clock: Clock) -> u64 {
        futex::clock_ns(clock)
    }

    #[inline]
    fn spin_until_or<W: Word>(
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp> {
        Self::spin(P::round(), word, ordering, timeout, ready)
    }

    #[inline]
    fn spin_until_written<W: Word>(
        word: &W,
        ordering: Ordering,
        last: W::Value,
        ready: impl FnMut(W::Value) -> bool,
    ) -> W::Value {
        let round = P::round_for(last.to_bits() as u32);
        never_gives_up(Self::spin(round, word, ordering, Timeout::NONE, ready))
    }

    #[inline]
    fn spin_until_any_or<A: Word, B: Word>(
        (first, first_ordering, mut first_ready): (&A, Ordering, impl FnMut(A::Value) -> bool),
        (second, second_ordering, mut second_ready): (&B, Ordering, impl FnMut(B::Value) -> bool),
        timeout: Timeout<'_, Self>,
    ) -> Result<Which<A::Value, B::Value>, GaveUp> {
        let mut round = P::round();
        let mut watch = Watch::new(timeout, &mut round);
        loop {
            let value = first.load(first_ordering);
            if first_ready(value) {
                return Ok(Which::First(value));
            }
            let value = second.load(second_ordering);
            if second_ready(value) {
                return Ok(Which::Second(value));
            }
            if watch.reached(&mut round) {
                return Err(GaveUp);
            }
            P::pause_between(&mut round);
        }
    }

    #[inline]
    fn spin_rmw_or<W: Word>(
        word: &W,
        timeout: Timeout<'_, Self>,
        mut attempt: impl FnMut(&W) -> bool,
    ) -> Result<(), GaveUp> {
        if attempt(word) {
            return Ok(());
        }
        let mut round = P::round();
        round.by_attempts();
        let mut watch = Watch::new(timeout, &mut round);
        loop {
            if watch.reached(&mut round) {
                return Err(GaveUp);
            }
            let started = P::attempt_begins();
            if attempt(word) {
                return Ok(());
            }
            P::attempt_failed(&mut round, started);
            // Only a waiter about to sleep loads the word: one that spins does nothing but read-modify-writes.
            if P::may_sleep(&round) {
                let seen = word.load(Ordering::Relaxed);
                // The word may have come free since the attempt, and no thread would end a sleep on a free one.
                if seen == W::Value::ZERO {
                    continue;
                }
                P::pause(&mut round, word, seen);
            } else {
                P::pause(&mut round, word, W::Value::ZERO);
            }
        }
    }

    #[inline]
    fn poll_or<W: Word>(
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        next: impl FnMut(W::Value) -> Poll,
    ) -> Result<W::Value, GaveUp> {
        Self::poll_and_back_off(P::round(), word, ordering, timeout, next)
    }

    #[inline]
    fn poll_until_written<W: Word>(
        word: &W,
        ordering: Ordering,
        last: W::Value,
        next: impl FnMut(W::Value) -> Poll,
    ) -> W::Value {
        let round = P::round_for(last.to_bits() as u32);
        never_gives_up(Self::poll_and_back_off(round, word, ordering, Timeout::NONE, next))
    }

    #[inline]
    fn spin_publishing_or<W: Word>(
        word: &W,
        ordering: Ordering,
        time: &HostU64<P>,
        timeout: Timeout<'_, Self>,
        mut ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp> {
        Self::poll_and_back_off(P::round(), word, ordering, timeout, |value| {
            if ready(value) {
                return Poll::Ready;
            }
            // No thread sleeps on the time. A write that looks for sleepers would be a system call at each poll where a thousand
            // threads sleep, since their words share the few places at which they are counted.
            time.as_atomic().store(futex::clock_ns(Clock::Monotonic), Ordering::Relaxed);
            Poll::BackOff(0)
        })
    }

    fn sleep_while(word: &HostU32<P>, expected: u32, timeout: Timeout<'_, Self>) -> Slept {
        futex::sleep_while(
            word.as_atomic(),
            expected,
            timeout.deadline,
            timeout.cancel.map(HostU32::as_atomic),
        )
    }

    fn wake(word: *const HostU32<P>, count: u32) -> u32 {
        futex::wake(word.cast(), count)
    }

    #[inline]
    fn owner() -> u32 {
        inheriting::owner()
    }

    fn acquire_inheriting(word: &HostU32<P>, timeout: Timeout<'_, Self>) -> Result<(), Denied> {
        inheriting::acquire(word.as_atomic(), timeout.deadline, timeout.cancel.map(HostU32::as_atomic))
    }

    fn try_acquire_inheriting(word: &HostU32<P>) -> Result<(), Denied> {
        inheriting::try_acquire(word.as_atomic())
    }

    fn release_inheriting(word: &HostU32<P>) {
        inheriting::release(word.as_atomic());
    }

    #[inline]
    fn thread() -> u32 {
        thread::current().number()
    }

    fn place() -> Place {
        topology::place()
    }

    fn topology() -> Topology {
        topology::topology()
    }

    #[inline]
    fn allocate_node<T: Node<Self>>() -> TakenNode<T> {
        const { thread::assert_fits::<T>() };
        let (slot, name) = thread::take_slot();
        // No thread touches a node that was freed, or this is a data race for Miri. And its memory of atomic accesses, which
        // fails where a node of another type has words of other sizes, ends here.
        #[cfg(miri)]
        // SAFETY: a slot is a line of memory, and the caller's alone.
        unsafe {
            slot.write_bytes(0, crate::LINE_BYTES)
        };
        // SAFETY: a slot is zeroed memory of the size and alignment of a line that is never unmapped, and any bit
        // pattern that a former user left is one of words and cells of this machine.
        TakenNode { node: unsafe { slot.cast::<T>().as_ref() }, name }
    }

    #[inline]
    unsafe fn free_node<T: Node<Self>>(node: &'static T) {
        // SAFETY: by the caller.
        unsafe { thread::free_slot(NonNull::from(node).cast()) };
    }

    #[inline]
    fn expect_node() {
        thread::expect_slot();
    }

    #[inline]
    unsafe fn named_node<T: Node<Self>>(name: u32) -> &'static T {
        const { thread::assert_fits::<T>() };
        // SAFETY: by the caller, and as in `allocate_node`.
        unsafe { thread::named_slot(name).cast::<T>().as_ref() }
    }

    #[inline]
    fn thread_memory() -> Option<&'static [HostCell<u64>; THREAD_MEMORY]> {
        Some(thread::current().memory())
    }

    const NAMED_NODES: u32 = thread::SLOTS as u32;

    fn alloc(layout: Layout, home: Home) -> NonNull<u8> {
        run::alloc(layout, home)
    }

    unsafe fn free(memory: NonNull<u8>, layout: Layout, home: Home) {
        // SAFETY: passed on.
        unsafe { run::free(memory, layout, home) }
    }

    fn run(plan: &Plan<'_>, body: &(dyn Fn(usize) + Sync)) -> Run {
        run::run(plan, body)
    }

    fn running() -> bool {
        run::running()
    }

    #[inline]
    fn note(event: Event) {
        run::note(event);
    }
}
