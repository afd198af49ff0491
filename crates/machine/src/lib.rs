//! What a lock may ask of the world, and the hardware's answer.
//!
//! A lock is written once, generic over a [`Machine`]. The machine gives it shared words with the C11 ordering
//! at each access, named ways of waiting, plain cells, memory for queue nodes, places and time. [`Native`] is the
//! hardware: everything inlines to the bare instruction. [`Patient`] is the hardware too, but every wait becomes a
//! yield and then a sleep after a bound, for programs with more threads than cores. Simulated and checked machines
//! live in crates of their own and run the same lock code.
//!
//! The state of a machine is ambient: a lock names the type `M`, never a value of it, so that a lock is nothing but
//! its words and `const fn new()` works on every machine.

#![cfg_attr(not(feature = "std"), no_std)]

/// For [`thread_block!`] under Miri, which has no assembly.
#[cfg(miri)]
#[doc(hidden)]
pub extern crate std;

pub mod host;
pub mod inheriting;
mod memory;
pub mod random;
#[cfg(doctest)]
#[doc = include_str!("refused.md")]
mod refused {}
mod run;
pub mod time_slice;
pub mod transaction;
mod wait;
mod word;

pub use core::sync::atomic::Ordering;

pub use host::{Host, Native, Patient};
pub use inheriting::Denied;
pub use memory::{Home, LINE_BYTES, Node, Placed, THREAD_MEMORY, TakenNode};
pub use run::{Counts, Event, HIGHEST_PRIORITY, Place, Plan, Run, Topology};
pub use transaction::Abort;
pub use wait::{Clock, Deadline, GaveUp, Poll, Runs, Slept, Timeout, Which};
pub use word::{Integer, Part, Plain, PlainCell, Word};

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// What a lock, a workload or a client may ask of the world.
///
/// # Waiting
///
/// A lock waits in no other way than by the functions below, since each machine does something else with them:
///
/// | function         | hardware                   | simulator                            | checker        |
/// |------------------|----------------------------|--------------------------------------|----------------|
/// | [`spin_until`]   | polite spin on one line    | parked until the line is invalidated | an assumption  |
/// | [`spin_rmw`]     | read-modify-writes in a row| every one of them is traffic         | an assumption  |
/// | [`poll`]         | load, back off, load       | sleeps its delay, sees no invalidation | an assumption |
/// | [`spin_until_any`] | polite spin on two lines | parked on either line                | an assumption  |
/// | [`spin_publishing`] | a store of the time at each poll | the same, never parked      | an assumption; the time is not stored again |
/// | [`spin_while_running`] | polite spin for a bound  | parked, until the thread loses its core too | an assumption, or given up |
/// | [`sleep_while`]  | futex                      | parked, pays the wake-up             | blocked        |
/// | [`acquire_inheriting`] | priority-inheriting futex | rt_mutex, its chain walk and its wake-up | blocked |
///
/// Those with a [`Timeout`] give up at a deadline or when a cancel word becomes non-zero.
///
/// [`spin_until`]: Machine::spin_until
/// [`spin_rmw`]: Machine::spin_rmw
/// [`poll`]: Machine::poll
/// [`spin_until_any`]: Machine::spin_until_any
/// [`spin_publishing`]: Machine::spin_publishing_or
/// [`spin_while_running`]: Machine::spin_while_running_or
/// [`sleep_while`]: Machine::sleep_while
/// [`acquire_inheriting`]: Machine::acquire_inheriting
///
/// # Safety
/// Locks keep threads apart, and follow pointers, by what a machine gives them. So its words and cells hold what was
/// last written to them, as their memory model has it, and a read-modify-write is one step; waiting ends only for the
/// reason that it says. [`thread`](Machine::thread) is unique among those alive. A node is taken by one caller at a
/// time, [`named_node`](Machine::named_node) finds the node of that name, and nodes and [`alloc`](Machine::alloc)ated
/// memory are valid, the latter for the layout that was asked for, as long as anything on this machine can run.
pub unsafe trait Machine: Sized + Copy + 'static {
    /// A shared 32-bit word.
    type U32: Integer<Value = u32>;
    /// A shared 64-bit word.
    type U64: Integer<Value = u64>;
    /// A shared pointer-sized word that holds an address.
    type Ptr<T: 'static>: Word<Value = *mut T>;
    /// A shared cell accessed without ordering: two unordered accesses of which one writes are a data race.
    type Cell<T: Plain>: PlainCell<T>;

    /// An ordering fence, as C11's `atomic_thread_fence`. `Relaxed` is not allowed.
    #[track_caller]
    fn fence(ordering: Ordering);

    /// Passes at least `cycles` of this machine without touching shared memory: think time, critical sections,
    /// back-off.
    fn delay(cycles: u64);

    /// The cycle counter of this machine; see [`host::counter`] for what stands in where there is none. Only differences
    /// mean anything.
    fn now() -> u64;

    /// The time of `clock` in nanoseconds, for making a [`Deadline`].
    fn clock_ns(clock: Clock) -> u64;

    /// Watches `word` until `ready` accepts a value read from it with `ordering`; gives that value.
    ///
    /// # Errors
    /// [`GaveUp`] when `timeout` was reached first. A wait whose condition holds at once never gives up.
    #[track_caller]
    fn spin_until_or<W: Word>(
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp>;

    /// [`Machine::spin_until_or`] without a timeout.
    #[inline]
    #[track_caller]
    fn spin_until<W: Word>(word: &W, ordering: Ordering, ready: impl FnMut(W::Value) -> bool) -> W::Value {
        never_gives_up(Self::spin_until_or(word, ordering, Timeout::NONE, ready))
    }

    /// [`Machine::spin_until`] where it is known that the write which ends the wait is one of the value `last`: a machine
    /// whose waiters sleep wakes fewer of them for nothing.
    #[inline]
    #[track_caller]
    fn spin_until_written<W: Word>(
        word: &W,
        ordering: Ordering,
        last: W::Value,
        ready: impl FnMut(W::Value) -> bool,
    ) -> W::Value {
        let _ = last;
        Self::spin_until(word, ordering, ready)
    }

    /// Watches two words; says which one's condition held first, the first of the two when both do.
    ///
    /// # Errors
    /// [`GaveUp`] when `timeout` was reached first.
    #[track_caller]
    fn spin_until_any_or<A: Word, B: Word>(
        first: (&A, Ordering, impl FnMut(A::Value) -> bool),
        second: (&B, Ordering, impl FnMut(B::Value) -> bool),
        timeout: Timeout<'_, Self>,
    ) -> Result<Which<A::Value, B::Value>, GaveUp>;

    /// [`Machine::spin_until_any_or`] without a timeout.
    #[inline]
    #[track_caller]
    fn spin_until_any<A: Word, B: Word>(
        first: (&A, Ordering, impl FnMut(A::Value) -> bool),
        second: (&B, Ordering, impl FnMut(B::Value) -> bool),
    ) -> Which<A::Value, B::Value> {
        never_gives_up(Self::spin_until_any_or(first, second, Timeout::NONE))
    }

    /// Repeats `attempt`, a read-modify-write of `word`, until it says that it succeeded.
    ///
    /// This is how plain test-and-set waits. Every attempt takes the line away from the core that has it; a machine never
    /// parks such a waiter, because that traffic is what collapses. The attempt must succeed where it finds the word zero:
    /// [`Patient`] sleeps on any other value.
    ///
    /// # Errors
    /// [`GaveUp`] when `timeout` was reached first.
    #[track_caller]
    fn spin_rmw_or<W: Word>(
        word: &W,
        timeout: Timeout<'_, Self>,
        attempt: impl FnMut(&W) -> bool,
    ) -> Result<(), GaveUp>;

    /// [`Machine::spin_rmw_or`] without a timeout.
    #[inline]
    #[track_caller]
    fn spin_rmw<W: Word>(word: &W, attempt: impl FnMut(&W) -> bool) {
        never_gives_up(Self::spin_rmw_or(word, Timeout::NONE, attempt));
    }

    /// Reads `word` with `ordering`, asks `next` what to do with the value, and backs off as told: a back-off
    /// sleeps its whole delay and does not wake when the line is invalidated. Gives the value that ended it.
    ///
    /// # Errors
    /// [`GaveUp`] when `timeout` was reached first.
    #[track_caller]
    fn poll_or<W: Word>(
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        next: impl FnMut(W::Value) -> Poll,
    ) -> Result<W::Value, GaveUp>;

    /// [`Machine::poll_or`] without a timeout.
    #[inline]
    #[track_caller]
    fn poll<W: Word>(word: &W, ordering: Ordering, next: impl FnMut(W::Value) -> Poll) -> W::Value {
        never_gives_up(Self::poll_or(word, ordering, Timeout::NONE, next))
    }

    /// [`Machine::poll`] where it is known that the write which ends the wait is one of the value `last`.
    #[inline]
    #[track_caller]
    fn poll_until_written<W: Word>(
        word: &W,
        ordering: Ordering,
        last: W::Value,
        next: impl FnMut(W::Value) -> Poll,
    ) -> W::Value {
        let _ = last;
        Self::poll(word, ordering, next)
    }

    /// Watches `word` as [`Machine::spin_until_or`] does, and writes the monotonic clock's nanoseconds into `time` at each poll,
    /// without ordering: others see by it whether the caller runs. A machine whose waiters sleep writes nothing meanwhile.
    ///
    /// # Errors
    /// [`GaveUp`] when `timeout` was reached first.
    #[inline]
    #[track_caller]
    fn spin_publishing_or<W: Word>(
        word: &W,
        ordering: Ordering,
        time: &Self::U64,
        timeout: Timeout<'_, Self>,
        mut ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp> {
        Self::poll_or(word, ordering, timeout, |value| {
            if ready(value) {
                return Poll::Ready;
            }
            time.store(Self::clock_ns(Clock::Monotonic), Ordering::Relaxed);
            Poll::BackOff(0)
        })
    }

    /// Whether `count` has reached a limit that keeps some work short. What a lock does may be better or worse by the answer, never
    /// right or wrong: the checked machine explores both at any count, since its threads are too few to reach a limit.
    #[inline]
    #[track_caller]
    fn is_at_limit(count: u32, limit: u32) -> bool {
        count >= limit
    }

    /// Whether the thread of this number is on a core at this moment, as far as the machine can tell. What a lock does may be
    /// better or worse by the answer, never right or wrong.
    #[track_caller]
    fn runs(thread: u32) -> Runs {
        let _ = thread;
        Runs::CannotTell
    }

    /// Watches `word` as [`Machine::spin_until_or`] does, while `thread` runs. A machine that cannot tell watches for
    /// [`OWNER_SPIN_NS`] at most.
    ///
    /// # Errors
    /// [`GaveUp`] when `timeout` was reached first, or the thread was seen not to run.
    #[inline]
    #[track_caller]
    fn spin_while_running_or<W: Word>(
        word: &W,
        ordering: Ordering,
        thread: u32,
        timeout: Timeout<'_, Self>,
        ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp> {
        if Self::runs(thread) == Runs::No {
            return Err(GaveUp);
        }
        Self::spin_until_or(word, ordering, timeout.within_ns(OWNER_SPIN_NS), ready)
    }

    /// Sleeps while `word` holds `expected`, until a [`wake`](Machine::wake) of the word or the timeout. May return
    /// early for no reason, so the caller polls the word again.
    #[track_caller]
    fn sleep_while(word: &Self::U32, expected: u32, timeout: Timeout<'_, Self>) -> Slept;

    /// Wakes at most `count` sleepers of the word at this address and says how many. Only the address is used: the
    /// word may be gone by now, as after a release that let the next owner free the lock.
    #[track_caller]
    fn wake(word: *const Self::U32, count: u32) -> u32;

    /// The calling thread as the owner of a word that is given to [`acquire_inheriting`](Machine::acquire_inheriting): not zero,
    /// within [`inheriting::OWNER`], unique among the threads alive. On the hardware it is the kernel's identifier of the thread,
    /// so that it changes in a child of a fork.
    fn owner() -> u32;

    /// The kernel's slow path of a lock whose owner inherits the priority of those that wait: waits until the caller owns the
    /// word, which then holds [`owner`](Machine::owner), and [`WAITERS`](inheriting::WAITERS) if others may wait. Without a kernel's
    /// help a thread changes the word in two ways alone: from zero to its owner, and from that back to zero.
    ///
    /// A wait with a cancel word begins anew at each look at that, behind all of its priority: on the hardware after half a
    /// millisecond, then ever more rarely, at last every 32 ms. One with a deadline alone keeps its place.
    ///
    /// # Errors
    /// [`Denied`]. With [`Denied::OwnerDied`] no thread owns the word from then on, and a thread that asks for it is told the
    /// same. On the hardware those that were asleep already are told one after the other: the next one when a thread that was
    /// told has ended, which keeps their priorities until then.
    ///
    /// # Panics
    /// Where the system has no such locks.
    #[track_caller]
    fn acquire_inheriting(word: &Self::U32, timeout: Timeout<'_, Self>) -> Result<(), Denied>;

    /// [`acquire_inheriting`](Machine::acquire_inheriting) without waiting: takes a word that is free, or that is between two owners
    /// if the caller's priority is higher than the next one's.
    ///
    /// # Errors
    /// As there; [`Denied::GaveUp`] if the word is taken.
    #[track_caller]
    fn try_acquire_inheriting(word: &Self::U32) -> Result<(), Denied>;

    /// Releases a word that the caller owns, through the kernel: takes back what the caller has inherited by it, then wakes the
    /// waiter of the highest priority. In a child of a fork it releases what the parent's thread had acquired, too; by then no
    /// other thread of the child waits for it.
    #[track_caller]
    fn release_inheriting(word: &Self::U32);

    /// Whether the machine has transactions. The answer never changes.
    #[inline]
    #[must_use]
    fn has_transactions() -> bool {
        false
    }

    /// Begins a transaction. From here to [`commit_transaction`](Machine::commit_transaction) all that the thread reads and writes
    /// takes effect at once, for every other thread, whether that one is in a transaction or not; with an abort it has never been.
    ///
    /// **It returns again with every abort**, from wherever the thread is by then: its registers and its stack, and the words and cells
    /// of the machine, are as they were at the call. A transaction within another is a part of that one, and aborts with it.
    ///
    /// # Errors
    /// [`Abort`]: why there is no transaction, or no longer. [`Abort::UNAVAILABLE`] comes at once, and always.
    ///
    /// # Safety
    /// Until it commits, the caller and those it returns to change nothing but words and cells of this machine and the thread's own
    /// stack: what else they write is undone by the hardware, and is not by other machines. They run nothing that has to be undone,
    /// either: no allocation, and no call of the system.
    #[track_caller]
    unsafe fn begin_transaction() -> Result<(), Abort> {
        Err(Abort::UNAVAILABLE)
    }

    /// Commits the transaction that the thread has begun last. An inner one commits with the outer one.
    ///
    /// # Safety
    /// The thread is [in a transaction](Machine::in_transaction).
    #[track_caller]
    unsafe fn commit_transaction() {}

    /// Whether the caller is in a transaction.
    #[inline]
    #[must_use]
    fn in_transaction() -> bool {
        false
    }

    /// Aborts the caller's transaction with a code: [`begin_transaction`](Machine::begin_transaction) returns with
    /// [`Abort::explicit`]. The code is a constant, since it is part of the processor's instruction.
    ///
    /// # Panics
    /// Outside of a transaction.
    #[track_caller]
    fn abort_transaction<const CODE: u8>() -> ! {
        panic!("a transaction is aborted outside of any, with the code {CODE}");
    }

    /// Ends the program with a message: no thread can go on from what has happened, and to unwind would leave a lock that no
    /// thread releases. Machines that run code to find its mistakes panic instead.
    #[cold]
    fn end_program(why: &'static str) -> ! {
        panic!("{why}");
    }

    /// Runs `body` as a transaction. One that panics commits what it has done.
    ///
    /// # Errors
    /// [`Abort`]. `body` has left no trace then, and is not run once more: to try again is the caller's choice.
    ///
    /// # Safety
    /// `body` does what [`begin_transaction`](Machine::begin_transaction) allows.
    #[inline]
    #[track_caller]
    unsafe fn transaction<R>(body: impl FnOnce() -> R) -> Result<R, Abort> {
        struct Commits<M: Machine>(PhantomData<M>);
        impl<M: Machine> Drop for Commits<M> {
            fn drop(&mut self) {
                // SAFETY: begun below.
                unsafe { M::commit_transaction() };
            }
        }
        // SAFETY: the caller's.
        unsafe { Self::begin_transaction()? };
        let _commits = Commits::<Self>(PhantomData);
        Ok(body())
    }

    /// A number of the calling thread, unique among those alive, small, and used again after a thread has ended.
    fn thread() -> u32;

    /// Where the caller runs now.
    fn place() -> Place;

    /// What places there are.
    fn topology() -> Topology;

    /// Takes a free queue node out of the calling thread's pool. The memory outlives the thread. Past the pool's
    /// size it comes from a slower store and has no name. Its words hold what the last user left there.
    #[track_caller]
    fn allocate_node<T: Node<Self>>() -> TakenNode<T>;

    /// Gives a node back to the pool that it came from; any thread may.
    ///
    /// # Safety
    /// `node` came from [`Machine::allocate_node`] of this machine and this type, has not been returned since, and no thread
    /// uses it from now on.
    #[track_caller]
    unsafe fn free_node<T: Node<Self>>(node: &'static T);

    /// A hint: the calling thread is about to use a node of its own pool that a neighbour may have written, and reads
    /// something else first to find out which. Lets the two line transfers overlap where the hardware can.
    #[inline]
    fn expect_node() {}

    /// The node with this name, which a lock keeps where a pointer does not fit. See [`TakenNode::name`].
    ///
    /// # Safety
    /// `name` came with a node of this machine and this type.
    unsafe fn named_node<T: Node<Self>>(name: u32) -> &'static T;

    /// Memory of the calling thread alone, for what its waits have learned, such as how long to back off; zero at
    /// first, later what a former thread left there. A lock makes do without where a machine has none.
    #[must_use]
    fn thread_memory() -> Option<&'static [Self::Cell<u64>; THREAD_MEMORY]> {
        None
    }

    /// The address of something shared as this machine counts addresses, for a lock that hashes it: the same on every
    /// host where memory is simulated.
    #[inline]
    fn address<T>(of: &T) -> usize {
        core::ptr::from_ref(of) as usize
    }

    /// How many nodes of a thread have names.
    const NAMED_NODES: u32;

    /// Memory for shared objects, at `home`, not initialised. [`Placed`] is the safe form.
    fn alloc(layout: Layout, home: Home) -> NonNull<u8>;

    /// Returns memory.
    ///
    /// # Safety
    /// `memory` came from [`Machine::alloc`] with the same `layout` and `home`, and is not used any more.
    unsafe fn free(memory: NonNull<u8>, layout: Layout, home: Home);

    /// Runs `body(0)` to `body(threads - 1)` on threads of this machine, placed as the plan says, and waits for all.
    ///
    /// # Panics
    /// When a body panicked, with the thread's number; where the `std` feature is off the process aborts. When the system refuses a thread
    /// or its priority: no body runs then.
    fn run(plan: &Plan<'_>, body: &(dyn Fn(usize) + Sync)) -> Run;

    /// Whether the plan's duration has not passed yet; always true without one.
    fn running() -> bool;

    /// How a workload or a client announces what it does. Counting is never inside a lock.
    #[track_caller]
    fn note(event: Event);
}

/// How long a waiter watches for the owner of a lock to leave where the machine cannot tell whether that owner runs: about what
/// falling asleep and being woken cost together, so that in the worst case a wait costs twice that (Karlin et al. 1991).
pub const OWNER_SPIN_NS: u64 = 20_000;

fn never_gives_up<T>(waited: Result<T, GaveUp>) -> T {
    match waited {
        Ok(value) => value,
        Err(GaveUp) => unreachable!("a wait without a timeout gave up"),
    }
}
