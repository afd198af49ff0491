//! What threads ask of the checked machine, waiting and sleeping above all.

use std::alloc::Layout;
use std::panic::Location as Site;
use std::ptr::NonNull;

use machine::inheriting::{OWNER, WAITERS};
use machine::{
    Abort, Clock, Denied, Event, GaveUp, Home, Machine, Node, Ordering, Place, Plain, Plan, Poll, Run, Runs,
    Slept, TakenNode, Timeout, Topology, Which, Word,
};

use super::Arrival;
use super::arena::{NAMED_NODES, NodeType};
use super::mutation::{Change, Operation};
use super::progress::Reads;
use super::session::{Session, bits, session};
use super::words::{CheckedCell, CheckedPtr, CheckedU32, CheckedU64};
use crate::graph::EventId;

/// The checked machine. It runs inside [`explore`](crate::explore).
///
/// A deadline is a possibility: every wait with one is explored both ways, at every value that the wait could have seen.
/// So is what the clock says: every read of it by a thread may be the first that finds a long time gone, for good.
/// Cycles stand still. Wake-ups for no reason are not explored.
#[derive(Clone, Copy, Debug)]
pub struct Checked;

/// Whether a value of a word is what a wait wants, after the mutation.
fn wanted<V: Plain>(change: Option<Change>, ready: &mut dyn FnMut(V) -> bool) -> impl FnMut(u64) -> bool {
    move |value| {
        let is_zero = value == 0;
        Change::accepted(change, ready(V::from_bits(value)), is_zero, is_address::<V>())
    }
}

/// Where a thread runs: each on a core of its own, the dies by turns.
fn place_of(thread: usize, dies: usize) -> Place {
    Place { core: thread as u32, die: (thread % dies) as u32, ..Place::default() }
}

/// Whether values of this type are addresses.
fn is_address<V: Plain>() -> bool {
    std::any::type_name::<V>().starts_with('*')
}

/// The timeout of a wait after the mutation.
fn with_mutated_timeout<'a>(
    session: &Session,
    timeout: Timeout<'a, Checked>,
    site: &'static Site<'static>,
) -> Timeout<'a, Checked> {
    let dropped = has_timeout(timeout) && session.change(Operation::Timeout, site) == Some(Change::NoTimeout);
    if dropped { Timeout::NONE } else { timeout }
}

fn address_of<W: Word>(word: &W) -> usize {
    std::ptr::from_ref(word) as usize
}

/// A wait found nothing that it wants: gives up if the timeout may be reached, or waits.
fn give_up_or_wait(
    session: &Session,
    timeout: Timeout<'_, Checked>,
    mut reads: Reads,
    site: &'static Site<'static>,
    what: &'static str,
) -> GaveUp {
    if timeout.deadline.is_some() {
        session.has_passed(timeout.deadline);
        return GaveUp;
    }
    if let Some(cancel) = timeout.cancel {
        let (read, cancelled) = session.load(address_of(cancel), Ordering::Relaxed, site, None);
        if cancelled != 0 {
            return GaveUp;
        }
        if read.is_some_and(|read| !reads.push(read)) {
            session.cannot_follow();
        }
    }
    session.wait(reads, false, what)
}

/// A thread has chosen to give up. Without a deadline it does so only when it is called off.
fn gives_up(session: &Session, timeout: Timeout<'_, Checked>, site: &'static Site<'static>) {
    let (None, Some(cancel)) = (timeout.deadline, timeout.cancel) else { return };
    let mut cancelled = |value| value != 0;
    let (read, value) = session.load(address_of(cancel), Ordering::Relaxed, site, Some(&mut cancelled));
    if !cancelled(value) {
        session.wait(Reads::of(&[read]), true, "is not called off");
    }
}

/// A thread that has chosen not to give up waits for what it has not read. It would give up in another execution if its time
/// is limited, or if it is called off.
fn wait_for_another(
    session: &Session,
    timeout: Timeout<'_, Checked>,
    read: Option<EventId>,
    site: &'static Site<'static>,
    what: &'static str,
) -> ! {
    let mut reads = Reads::of(&[read]);
    let mut ends_by_itself = timeout.deadline.is_some();
    if let (None, Some(cancel)) = (timeout.deadline, timeout.cancel) {
        let (read, value) = session.load(address_of(cancel), Ordering::Relaxed, site, None);
        ends_by_itself = value != 0;
        if read.is_some_and(|read| !reads.push(read)) {
            session.cannot_follow();
        }
    }
    session.wait(reads, ends_by_itself, what)
}

fn has_timeout(timeout: Timeout<'_, Checked>) -> bool {
    timeout.deadline.is_some() || timeout.cancel.is_some()
}

/// The sleepers of a futex word, first come first: four bits a thread, the first in the lowest ones.
#[derive(Clone, Copy)]
struct Sleepers(u64);

impl Sleepers {
    fn has(self, thread: usize) -> bool {
        self.iter().any(|sleeper| sleeper == thread)
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        (0..16)
            .map(move |place| (self.0 >> (4 * place)) & 15)
            .take_while(|&nibble| nibble != 0)
            .map(|n| n as usize - 1)
    }

    fn of(threads: impl Iterator<Item = usize>) -> Self {
        Self(threads.enumerate().fold(0, |all, (place, thread)| all | (thread as u64 + 1) << (4 * place)))
    }

    fn with(self, thread: usize) -> Self {
        Self::of(self.iter().chain([thread]))
    }

    fn without(self, thread: usize) -> Self {
        Self::of(self.iter().filter(move |&sleeper| sleeper != thread))
    }

    fn woken(self, count: u32) -> Self {
        Self::of(self.iter().skip(count as usize))
    }
}

/// A word of `acquire_inheriting` with what the kernel knows of it. The location of a 32-bit word holds 64 bits, of which the
/// program sees the lower ones alone; in the upper ones lie the waiters, and whether the word is between two owners: the word
/// names the next one then. So each call of the kernel is one read-modify-write, as its lock of the word makes it one step for
/// other calls, and the exchange of the word one for the program.
#[derive(Clone, Copy)]
struct Inheriting(u64);

impl Inheriting {
    const BETWEEN_OWNERS: u64 = 1 << 63;
    const MOST_WAITERS: usize = 7;

    fn owner(self) -> u32 {
        self.0 as u32 & OWNER
    }

    fn is_between_owners(self) -> bool {
        self.0 & Self::BETWEEN_OWNERS != 0
    }

    fn is_next(self, thread: usize) -> bool {
        self.is_between_owners() && self.owner() == owner_of(thread)
    }

    fn waiters(self) -> Sleepers {
        Sleepers((self.0 & !Self::BETWEEN_OWNERS) >> 32)
    }

    /// Whether the kernel knows no more waiters.
    fn is_full(self) -> bool {
        self.waiters().iter().count() >= Self::MOST_WAITERS
    }

    fn of(visible: u32, waiters: Sleepers) -> Self {
        debug_assert!(waiters.iter().count() <= Self::MOST_WAITERS);
        Self(u64::from(visible) | waiters.0 << 32)
    }

    /// Owned by the thread, for which the word was free, or which was the next, or came before that one.
    fn owned_by(self, thread: usize) -> Self {
        let waiters = self.waiters().without(thread);
        Self::of(owner_of(thread) | if self.0 == 0 { 0 } else { WAITERS }, waiters)
    }

    fn with_waiter(self, thread: usize) -> Self {
        let between = self.0 & Self::BETWEEN_OWNERS;
        Self(Self::of(self.0 as u32 | WAITERS, self.waiters().with(thread)).0 | between)
    }

    fn without_waiter(self, thread: usize) -> Self {
        let between = self.0 & Self::BETWEEN_OWNERS;
        Self(Self::of(self.0 as u32, self.waiters().without(thread)).0 | between)
    }

    /// Released by its owner: the waiter of the highest priority is the next, which may be any; here the first or the last.
    fn released(self, to_last: bool) -> Self {
        let waiters = self.waiters();
        let next = if to_last { waiters.iter().last() } else { waiters.iter().next() };
        next.map_or(Self(0), |next| {
            Self(Self::of(owner_of(next) | WAITERS, waiters).0 | Self::BETWEEN_OWNERS)
        })
    }
}

fn owner_of(thread: usize) -> u32 {
    thread as u32 + 1
}

/// What a call of the kernel does to a word, in one step; gives what was there before. The kernel's own lock orders its calls.
fn in_kernel(
    session: &Session,
    word: &CheckedU32,
    site: &'static Site<'static>,
    change: impl Fn(Inheriting) -> Inheriting,
) -> Inheriting {
    session.calls_kernel();
    let change = |word| change(Inheriting(word)).0;
    Inheriting(session.read_modify_write(address_of(word), Ordering::AcqRel, site, change))
}

/// Whether the thread, which has found a word between two owners, has a higher priority than the next one, and takes it: it may
/// be so, or not, as long as the next one has not come.
fn outranks_next(session: &Session, word: &CheckedU32, site: &'static Site<'static>, thread: usize) -> bool {
    let outranks = session.thread().is_some() && session.choose(2, site) == 1;
    outranks
        && in_kernel(session, word, site, |found| match found.is_between_owners() {
            true => found.owned_by(thread),
            false => found,
        })
        .is_between_owners()
}

// SAFETY: values and their order come from the execution graph, which has them as the memory model does; nodes and allocated
// memory lie in the session's arena.
unsafe impl Machine for Checked {
    type U32 = CheckedU32;
    type U64 = CheckedU64;
    type Ptr<T: 'static> = CheckedPtr<T>;
    type Cell<T: Plain> = CheckedCell<T>;

    #[track_caller]
    fn fence(ordering: Ordering) {
        let (session, site) = (session(), Site::caller());
        match session.mutated(Operation::Fence, ordering, site, false).0 {
            Ordering::Relaxed => {} // taken out by a mutation
            ordering => session.fence(ordering, site),
        }
    }

    fn delay(_cycles: u64) {
        session().delay();
    }

    fn now() -> u64 {
        0
    }

    /// A machine whose waiters sleep wakes by the value that is promised to end the wait.
    #[track_caller]
    fn spin_until_written<W: Word>(
        word: &W,
        ordering: Ordering,
        last: W::Value,
        mut ready: impl FnMut(W::Value) -> bool,
    ) -> W::Value {
        assert!(ready(last), "the write that is said to end a wait does not end it");
        Self::spin_until(word, ordering, ready)
    }

    #[track_caller]
    fn clock_ns(_clock: Clock) -> u64 {
        session().clock_ns(Site::caller())
    }

    #[track_caller]
    fn spin_until_or<W: Word>(
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        mut ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp> {
        let (session, site) = (session(), Site::caller());
        let (ordering, change) = session.mutated(Operation::Wait, ordering, site, is_address::<W::Value>());
        let (timeout, mut ready) = (with_mutated_timeout(session, timeout, site), wanted(change, &mut ready));
        session.begins_to_wait(Arrival::Spins, site);
        let filter: Option<&mut dyn FnMut(u64) -> bool> =
            if has_timeout(timeout) { None } else { Some(&mut ready) };
        let (read, value) = session.load(address_of(word), ordering, site, filter);
        if ready(value) {
            return Ok(W::Value::from_bits(value));
        }
        Err(give_up_or_wait(session, timeout, Reads::of(&[read]), site, "waits for another value of a word"))
    }

    #[track_caller]
    fn spin_until_any_or<A: Word, B: Word>(
        (first, first_ordering, mut first_ready): (&A, Ordering, impl FnMut(A::Value) -> bool),
        (second, second_ordering, mut second_ready): (&B, Ordering, impl FnMut(B::Value) -> bool),
        timeout: Timeout<'_, Self>,
    ) -> Result<Which<A::Value, B::Value>, GaveUp> {
        let (session, site) = (session(), Site::caller());
        let timeout = with_mutated_timeout(session, timeout, site);
        let (first_ordering, change) =
            session.mutated(Operation::Wait, first_ordering, site, is_address::<A::Value>());
        let mut first_wanted = wanted(change, &mut first_ready);
        let (second_ordering, change) =
            session.mutated(Operation::Wait, second_ordering, site, is_address::<B::Value>());
        let mut second_wanted = wanted(change, &mut second_ready);
        session.begins_to_wait(Arrival::Spins, site);
        if address_of(first) == address_of(second)
            && first_ordering == second_ordering
            && !has_timeout(timeout)
        {
            // One word: a named wait, as far as the checked machine is concerned.
            let mut either = |value| first_wanted(value) || second_wanted(value);
            let (read, value) = session.load(address_of(first), first_ordering, site, Some(&mut either));
            if first_wanted(value) {
                return Ok(Which::First(A::Value::from_bits(value)));
            }
            if second_wanted(value) {
                return Ok(Which::Second(B::Value::from_bits(value)));
            }
            let what = "waits for another value of a word";
            return Err(give_up_or_wait(session, timeout, Reads::of(&[read]), site, what));
        }
        let (first_read, value) = session.load(address_of(first), first_ordering, site, None);
        if first_wanted(value) {
            return Ok(Which::First(A::Value::from_bits(value)));
        }
        let (second_read, value) = session.load(address_of(second), second_ordering, site, None);
        if second_wanted(value) {
            return Ok(Which::Second(B::Value::from_bits(value)));
        }
        let reads = Reads::of(&[first_read, second_read]);
        Err(give_up_or_wait(session, timeout, reads, site, "waits for another value of two words"))
    }

    #[track_caller]
    fn spin_rmw_or<W: Word>(
        word: &W,
        timeout: Timeout<'_, Self>,
        mut attempt: impl FnMut(&W) -> bool,
    ) -> Result<(), GaveUp> {
        let site = Site::caller();
        let change = session().change(Operation::Wait, site);
        let timeout = with_mutated_timeout(session(), timeout, site);
        session().begins_to_wait(Arrival::Spins, site);
        loop {
            match session().attempt(|| Change::accepted(change, attempt(word), false, false)) {
                Ok(()) => return Ok(()),
                Err(Some(reads)) => {
                    let what = "repeats a read-modify-write that finds the same";
                    return Err(give_up_or_wait(session(), timeout, reads, site, what));
                }
                // A failed attempt that wrote: the next one may find something else by that.
                Err(None) if has_timeout(timeout) && session().choose(2, site) == 1 => {
                    gives_up(session(), timeout, site);
                    session().has_passed(timeout.deadline);
                    return Err(GaveUp);
                }
                Err(None) => {}
            }
        }
    }

    #[track_caller]
    fn poll_or<W: Word>(
        word: &W,
        ordering: Ordering,
        timeout: Timeout<'_, Self>,
        mut next: impl FnMut(W::Value) -> Poll,
    ) -> Result<W::Value, GaveUp> {
        Self::spin_until_or(word, ordering, timeout, |value| next(value) == Poll::Ready)
    }

    /// The time is not stored again: a thread that compares it with its own clock explores that it is old, and
    /// that it is not.
    #[track_caller]
    fn spin_publishing_or<W: Word>(
        word: &W,
        ordering: Ordering,
        _time: &CheckedU64,
        timeout: Timeout<'_, Self>,
        ready: impl FnMut(W::Value) -> bool,
    ) -> Result<W::Value, GaveUp> {
        Self::spin_until_or(word, ordering, timeout, ready)
    }

    /// Both answers are explored, at every question.
    #[track_caller]
    fn is_at_limit(count: u32, limit: u32) -> bool {
        let session = session();
        count >= limit || session.thread().is_some() && session.choose(2, Site::caller()) == 1
    }

    /// Both answers are explored, at every question.
    #[track_caller]
    fn runs(_thread: u32) -> Runs {
        let session = session();
        match session.thread() {
            None => Runs::CannotTell,
            Some(_) if session.choose(2, Site::caller()) == 1 => Runs::No,
            Some(_) => Runs::Yes,
        }
    }

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
        Self::spin_until_or(word, ordering, timeout, ready)
    }

    /// What a futex orders is what Linux documents, and no more. Reading the word and falling asleep are one step,
    /// and all steps of sleepers and wakers of a word have one order (futex(2): "atomic and totally ordered with respect
    /// to other futex operations on the same futex word"). That holds for a waker that finds no sleeper, too: a full barrier
    /// stands in `FUTEX_WAKE` before it looks for sleepers, and one in `FUTEX_WAIT` between its entry and its look at the
    /// word (kernel/futex: "ordering guarantees"). Here both sides update the location that stands for the queue, so that
    /// the side that comes later knows what the earlier one knew. A sleeper that gives up takes itself out of the queue in the
    /// same order.
    ///
    /// That a sleeper who was woken sees what its waker wrote is promised nowhere: with the common memory barriers of
    /// sleeping and waking it does, but one that is taken out of the queue before it has slept returns past all of them.
    /// So it is not taken for granted here: a lock decides by read-modify-writes after a sleep, or acquires.
    ///
    /// The caller enters the queue first and reads the word then; executions in which the word has changed by then are left out,
    /// since they are those where the caller finds the change and does not sleep. From state to state the two are one step, as
    /// they are in the kernel.
    #[track_caller]
    fn sleep_while(word: &CheckedU32, expected: u32, timeout: Timeout<'_, Self>) -> Slept {
        let (session, site) = (session(), Site::caller());
        let timeout = with_mutated_timeout(session, timeout, site);
        let (address, expected) = (address_of(word), bits(expected));
        let Some(thread) = session.thread() else {
            let (_, value) = session.load(address, Ordering::Relaxed, site, None);
            if value != expected {
                return Slept::Changed;
            }
            if timeout.deadline.is_some() {
                return Slept::GaveUp;
            }
            session.wait(Reads::default(), false, "sleeps")
        };
        session.calls_kernel();
        let (relaxed, found_changed) = (Ordering::Relaxed, session.finds_changed(address, expected, site));
        if found_changed {
            let mut differs = |value| value != expected;
            let (read, value) = session.load(address, relaxed, site, Some(&mut differs));
            session.has_looked();
            if differs(value) {
                return Slept::Changed;
            }
            session.wait(Reads::of(&[read]), true, "does not sleep");
        }
        let queue = session.queue_of(address);
        session.update_hidden(queue, site, |sleepers| Sleepers(sleepers).with(thread).0);
        let mut as_expected = |value| value == expected;
        let (read, value) = session.load(address, relaxed, site, Some(&mut as_expected));
        session.has_looked();
        if !as_expected(value) {
            session.wait(Reads::of(&[read]), true, "does not sleep");
        }
        session.begins_to_wait(Arrival::Sleeps, site);
        if has_timeout(timeout) && session.choose(2, site) == 1 {
            gives_up(session, timeout, site);
            let sleepers =
                session.update_hidden(queue, site, |sleepers| Sleepers(sleepers).without(thread).0);
            if !Sleepers(sleepers).has(thread) {
                return Slept::Woken;
            }
            session.has_passed(timeout.deadline);
            return Slept::GaveUp;
        }
        let mut awake = |sleepers| !Sleepers(sleepers).has(thread);
        let (read, sleepers) = session.load_hidden(queue, relaxed, site, Some(&mut awake));
        if awake(sleepers) {
            return Slept::Woken;
        }
        wait_for_another(session, timeout, Some(read), site, "sleeps")
    }

    #[track_caller]
    fn wake(word: *const CheckedU32, count: u32) -> u32 {
        let (session, site) = (session(), Site::caller());
        if session.change(Operation::Wake, site) == Some(Change::Dropped) || session.thread().is_none() {
            return 0;
        }
        session.calls_kernel();
        session.with(|state| state.wakes += 1);
        let queue = session.queue_of(word as usize);
        let sleepers = session.update_hidden(queue, site, |sleepers| Sleepers(sleepers).woken(count).0);
        (Sleepers(sleepers).iter().count() as u32).min(count)
    }

    fn has_transactions() -> bool {
        session().has_transactions()
    }

    #[track_caller]
    unsafe fn begin_transaction() -> Result<(), Abort> {
        session().begin_transaction(Site::caller())
    }

    #[track_caller]
    unsafe fn commit_transaction() {
        session().commit_transaction(Site::caller());
    }

    fn in_transaction() -> bool {
        session().in_transaction()
    }

    fn abort_transaction<const CODE: u8>() -> ! {
        session().abort_transaction(CODE)
    }

    fn owner() -> u32 {
        owner_of(session().thread().unwrap_or(crate::MAX_THREADS))
    }

    /// Threads have no priorities here: a thread that comes while the word is between two owners may have a higher one than the
    /// next owner, or not, and both are explored; so is which of the waiters comes first. A deadlock by way of other words is
    /// not denied: it is the violation that it would be of the client, an endless wait.
    #[track_caller]
    fn acquire_inheriting(word: &CheckedU32, timeout: Timeout<'_, Self>) -> Result<(), Denied> {
        let (session, site) = (session(), Site::caller());
        let timeout = with_mutated_timeout(session, timeout, site);
        let Some(thread) = session.thread() else {
            let found = in_kernel(session, word, site, |found| match found.owner() {
                0 => Inheriting(Self::owner().into()),
                _ => found,
            });
            return match found.owner() {
                0 => Ok(()),
                _ if has_timeout(timeout) => Err(Denied::GaveUp),
                owner if owner == Self::owner() => Err(Denied::Deadlock),
                _ => session.wait(Reads::default(), false, "waits for a lock whose owner inherits"),
            };
        };
        let may_take = move |found: Inheriting| found.owner() == 0 || found.is_next(thread);
        let found = in_kernel(session, word, site, |found| match found.owner() {
            _ if may_take(found) => found.owned_by(thread),
            owner if owner == owner_of(thread) => found,
            _ if found.is_full() => session.cannot_follow(),
            _ => found.with_waiter(thread),
        });
        if may_take(found) || found.is_between_owners() && outranks_next(session, word, site, thread) {
            return Ok(());
        }
        if found.owner() == owner_of(thread) {
            return Err(Denied::Deadlock);
        }
        if has_timeout(timeout) && session.choose(2, site) == 1 {
            gives_up(session, timeout, site);
            let found = in_kernel(session, word, site, |found| match found.is_next(thread) {
                true => found.owned_by(thread),
                false => found.without_waiter(thread),
            });
            if found.is_next(thread) {
                return Ok(());
            }
            session.has_passed(timeout.deadline);
            return Err(Denied::GaveUp);
        }
        loop {
            let mut is_next = |value| Inheriting(value).is_next(thread);
            let (read, value) = session.load(address_of(word), Ordering::Acquire, site, Some(&mut is_next));
            if !is_next(value) {
                wait_for_another(session, timeout, read, site, "waits for a lock whose owner inherits");
            }
            let found = in_kernel(session, word, site, |found| match found.is_next(thread) {
                true => found.owned_by(thread),
                false => found, // a thread of a higher priority was faster
            });
            if found.is_next(thread) {
                return Ok(());
            }
        }
    }

    #[track_caller]
    fn try_acquire_inheriting(word: &CheckedU32) -> Result<(), Denied> {
        let (session, site) = (session(), Site::caller());
        let thread = session.thread().unwrap_or(crate::MAX_THREADS);
        let found = in_kernel(session, word, site, |found| match found.owner() {
            0 => found.owned_by(thread),
            _ => found,
        });
        let taken =
            found.owner() == 0 || found.is_between_owners() && outranks_next(session, word, site, thread);
        if taken { Ok(()) } else { Err(Denied::GaveUp) }
    }

    /// What it does is told by the word that it leaves: with [`Operation::Wake`] dropped no thread is the next.
    #[track_caller]
    fn release_inheriting(word: &CheckedU32) {
        let (session, site) = (session(), Site::caller());
        if session.change(Operation::Wake, site) == Some(Change::Dropped) {
            return;
        }
        session.with(|state| state.wakes += 1);
        let found = in_kernel(session, word, site, |found| found.released(false));
        if found.waiters().iter().count() > 1 && session.choose(2, site) == 1 {
            // The last of them is the first by its priority, if the next owner has not come by now.
            in_kernel(session, word, site, |now| match now.is_between_owners() {
                true => now.released(true),
                false => now,
            });
        }
    }

    fn thread() -> u32 {
        session().thread().map_or(u32::MAX, |thread| thread as u32)
    }

    fn place() -> Place {
        let session = session();
        place_of(session.thread().unwrap_or(0), session.with(|state| state.dies))
    }

    fn topology() -> Topology {
        let dies = session().with(|state| state.dies);
        let places = (0..crate::MAX_THREADS).map(|core| place_of(core, dies));
        Topology { places: places.collect() }
    }

    #[track_caller]
    fn allocate_node<T: Node<Self>>() -> TakenNode<T> {
        let (node, name) = session().allocate_node(NodeType::of::<T>(), Site::caller());
        // SAFETY: a slot is a zeroed line of the arena that only nodes of this type use.
        TakenNode { node: unsafe { node.cast::<T>().as_ref() }, name }
    }

    #[track_caller]
    unsafe fn free_node<T: Node<Self>>(node: &'static T) {
        let (session, site) = (session(), Site::caller());
        if session.change(Operation::FreeNode, site) != Some(Change::Dropped) {
            session.free_node(std::ptr::from_ref(node) as usize, site);
        }
    }

    unsafe fn named_node<T: Node<Self>>(name: u32) -> &'static T {
        let (thread, index) = (name as usize / NAMED_NODES, name as usize % NAMED_NODES);
        assert!(thread < crate::MAX_THREADS, "no queue node is called {name}");
        let (node, _) = session().with(|state| state.arena.node(NodeType::of::<T>(), thread, index));
        // SAFETY: as in `allocate_node`.
        unsafe { node.cast::<T>().as_ref() }
    }

    const NAMED_NODES: u32 = NAMED_NODES as u32;

    fn alloc(layout: Layout, _home: Home) -> NonNull<u8> {
        let session = session();
        let memory = session.with(|state| state.arena.alloc(state.thread, layout));
        memory.unwrap_or_else(|| session.cannot_follow())
    }

    unsafe fn free(_memory: NonNull<u8>, _layout: Layout, _home: Home) {
        // An execution's memory is taken back as a whole.
    }

    fn run(plan: &Plan<'_>, body: &(dyn Fn(usize) + Sync)) -> Run {
        session().run(plan, body)
    }

    fn running() -> bool {
        true
    }

    #[track_caller]
    fn note(event: Event) {
        session().note(event, Site::caller());
    }
}
