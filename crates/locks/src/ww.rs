//! Linux's wound/wait mutex: a thread takes many locks in any order, and of those that would wait for each other the younger
//! one gives way.
//!
//! | bits of `word` | name      | set by                               | cleared by                           |
//! |----------------|-----------|--------------------------------------|--------------------------------------|
//! | 0              | `BARE`    | an acquirer without a context        | its release                          |
//! | 1              | `WAITERS` | a waiter that has entered the list   | a thread that leaves the list empty  |
//! | 2              | `LIST`    | a thread that reads or changes the list | the same                          |
//! | 3 to 63        | context   | an acquirer in a context: its node   | its release                          |
//!
//! | word            | written by                        | meaning                                                      |
//! |-----------------|-----------------------------------|--------------------------------------------------------------|
//! | `waiters`       | the thread that has `LIST`        | the list of those that wait, see `ring.rs`                   |
//! | node `stamp`    | its owner                         | the age of the context: the smaller, the older; 0: no context |
//! | node `held`     | its owner                         | how many locks the context holds                             |
//! | node `phase`    | its owner                         | `REFUSED`: must release all; `DONE`: goes with its last lock |
//! | node `told`     | its owner clears, others set bits | what the owner sleeps on: `LET_IN`, `DIE`, `WOUNDED`         |
//!
//! | word, from and to                                | by                                                        |
//! |--------------------------------------------------|-----------------------------------------------------------|
//! | 0 → holder                                       | an acquirer                                               |
//! | holder → 0                                       | the release, where no thread waits                        |
//! | holder → holder, `LIST` → holder, `WAITERS` or not | a waiter that enters or leaves, or is refused            |
//! | holder, `WAITERS` → `LIST` → first, `WAITERS` or not | the release, which hands over to the first waiter      |
//!
//! While `LIST` is set only the thread that set it changes the word, so that the holder stays the holder, and the node of its
//! context stays valid.
//!
//! The list holds contexts in the order of their stamps. A waiter without one keeps its place, but for contexts that have to go in
//! front of a younger one. A context takes its stamp when it begins and keeps it until it is done, however often it is refused; so it
//! becomes the oldest some day, and the oldest is never refused, as long as each transaction has a new context. A context that
//! holds nothing is never refused either: no thread can wait for it.
//!
//! - Wait-die: a context that holds a lock waits for younger ones only. If an older one holds the lock or is in the list, it is refused;
//!   if an older one enters the list in front of it, it is taken out of the list and told to `DIE`.
//! - Wound-wait: a context that holds a lock wounds a younger holder. A wounded one is refused when it has to wait, or waits, for
//!   another lock. It does not give way where it need not wait, so that it always knows the lock to wait for afterwards.
//!
//! A context that was refused releases all it holds, waits for the lock that it did not get, which it may since it holds nothing,
//! and goes on.
//!
//! Order: by stamp, others first in, first out. Any thread may release what was acquired without a context.
//! Source: wait-die and wound-wait: Rosenkrantz, Stearns, Lewis 1978; Linux's `ww_mutex` since 3.11, wound-wait since 4.19,
//! `Documentation/locking/ww-mutex-design.rst`. There a lock with waiters may be taken past them.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::null_mut;

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{GaveUp, Integer, Machine, Node, OWNER_SPIN_NS, Patient, PlainCell, Slept, Timeout, Word};

use crate::ring::{Linked, Links, Ring};
use crate::{RawLock, TimedLock, TryLock};

const BARE: usize = 1;
const WAITERS: usize = 1 << 1;
const LIST: usize = 1 << 2;

/// In a node's `told`: the lock is the owner's, who is out of the list.
const LET_IN: u32 = 1;
/// In a node's `told`: the owner is refused, and out of the list.
const DIE: u32 = 1 << 1;
/// In a node's `told`: an older context waits for a lock of the owner's.
const WOUNDED: u32 = 1 << 2;

const OPEN: u32 = 0;
const REFUSED: u32 = 1;
const DONE: u32 = 2;

/// A waiter in the list, and a context, which waits for one lock at a time.
struct WwNode<M: Machine> {
    links: Links<M, WwNode<M>>,
    stamp: M::Cell<u64>,
    held: M::Cell<u32>,
    phase: M::Cell<u32>,
    told: M::U32,
    _padding: M::Cell<u32>, // see `Node`
}

// SAFETY: words and cells, no padding, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for WwNode<M> {}

const _: () = assert!(align_of::<WwNode<Patient>>() > LIST, "a node's address leaves room for the flags");

impl<M: Machine> Linked<M> for WwNode<M> {
    fn links(&self) -> &Links<M, Self> {
        &self.links
    }
}

impl<M: Machine> WwNode<M> {
    fn take(stamp: u64) -> &'static Self {
        let node = M::allocate_node::<Self>().node;
        node.stamp.set(stamp);
        node.held.set(0);
        node.phase.set(OPEN);
        node.told.store(0, Relaxed);
        node
    }

    fn address(&self) -> *mut Self {
        core::ptr::from_ref(self).cast_mut()
    }

    /// The word of a lock that it holds.
    fn as_holder(&self) -> State<M> {
        if self.has_context() { State(self.address()) } else { State(null_mut()).with(BARE) }
    }

    fn has_context(&self) -> bool {
        self.stamp.get() != 0
    }

    /// Sets a bit of `told`, after which the node may be another one's, and wakes the owner.
    fn tell(&self, what: u32) {
        let told = &raw const self.told;
        self.told.fetch_or(what, Release); // [3] to the owner
        M::wake(told, 1);
    }

    /// A lock of the context was released.
    fn count_release(&'static self) {
        let held = self.held.get() - 1;
        self.held.set(held);
        self.free_if_over();
    }

    fn free_if_over(&'static self) {
        if self.held.get() == 0 && self.phase.get() == DONE {
            // SAFETY: no lock names it, and its context is gone.
            unsafe { M::free_node(self) };
        }
    }
}

/// A value of the word.
#[derive(Clone, Copy)]
struct State<M: Machine>(*mut WwNode<M>);

impl<M: Machine> State<M> {
    fn has(self, flag: usize) -> bool {
        self.0.addr() & flag != 0
    }

    fn with(self, flag: usize) -> Self {
        Self(self.0.map_addr(|address| address | flag))
    }

    fn without(self, flags: usize) -> Self {
        Self(self.0.map_addr(|address| address & !flags))
    }

    /// The context that holds the lock. The caller has the list, or holds the lock.
    fn context(self) -> Option<&'static WwNode<M>> {
        // SAFETY: null, or the node of a context that is not done with the lock.
        unsafe { self.without(BARE | WAITERS | LIST).0.as_ref() }
    }
}

/// Which of two contexts gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Algorithm {
    WaitDie = 0,
    WoundWait = 1,
}

/// A class of [`Ww`] locks, which are taken together: it says how old a context is, and which of two gives way. 16 bytes.
///
/// Both algorithms refuse only the younger of two contexts: wait-die when it comes to wait for the older one, wound-wait when the
/// older one has come to wait for it, and it has to wait itself. Of the two wound-wait refuses fewer where few threads compete,
/// and more where many do.
#[repr(C)]
pub struct WwClass<M: Machine = Patient> {
    stamps: M::U64,
    algorithm: Algorithm,
}

const _: () = assert!(size_of::<WwClass>() == 16);

impl<M: Machine> WwClass<M> {
    /// A class whose younger contexts do not wait for older ones.
    #[must_use]
    pub const fn wait_die() -> Self {
        Self { stamps: M::U64::ZERO, algorithm: Algorithm::WaitDie }
    }

    /// A class whose older contexts have younger ones give way.
    #[must_use]
    pub const fn wound_wait() -> Self {
        Self { stamps: M::U64::ZERO, algorithm: Algorithm::WoundWait }
    }
}

impl<M: Machine> fmt::Debug for WwClass<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WwClass").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Why a lock was not acquired in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WwError {
    /// The context has to give way: it releases all that it holds, acquires this lock, and goes on. While it holds anything it gets
    /// nothing more.
    Deadlock,
    /// The context holds the lock.
    AlreadyHeld,
    /// The timeout was reached first.
    TimedOut,
}

/// Threads that take several locks of a class take them in a context each: its age decides who gives way. It stays with its
/// thread. When it is dropped it is done, and ends with the last release of what was acquired in it.
///
/// Each transaction has a new one. A context that is used for one transaction after another stays as old as it is, so that younger ones may
/// be refused again and again.
///
/// [`WwClass::transaction`] does without it: this is what that is made of, and for other languages.
pub struct WwContext<'c, M: Machine = Patient> {
    node: &'static WwNode<M>,
    class: &'c WwClass<M>,
    thread: PhantomData<*const ()>,
}

impl<'c, M: Machine> WwContext<'c, M> {
    /// The youngest context of the class.
    #[must_use]
    pub fn new(class: &'c WwClass<M>) -> Self {
        let stamp = class.stamps.fetch_add(1, Relaxed) + 1; // decides the order, publishes nothing
        Self { node: WwNode::take(stamp), class, thread: PhantomData }
    }

    /// The class that it is of.
    #[must_use]
    pub const fn class(&self) -> &'c WwClass<M> {
        self.class
    }

    /// Its age: older ones of the class have smaller ones. The first is 1.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.node.stamp.get()
    }

    /// How many locks it holds.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.node.held.get()
    }

    /// Whether it may acquire the next lock.
    fn begin(&self) -> Result<(), WwError> {
        if self.held() == 0 {
            self.node.phase.set(OPEN);
            self.node.told.store(0, Relaxed); // no thread wounds a context that holds nothing
        }
        if self.node.phase.get() == REFUSED { Err(WwError::Deadlock) } else { Ok(()) }
    }

    /// Acquires all of the locks, in an order that comes about: whenever the context is refused it gives way and starts again with the
    /// lock that it did not get.
    ///
    /// # Errors
    /// [`WwError::AlreadyHeld`] when a lock is there twice; it holds none of them then.
    ///
    /// # Panics
    /// When the context holds a lock, with which it could not give way.
    pub fn acquire_all(&self, locks: &[&Ww<M>]) -> Result<(), WwError> {
        assert_eq!(self.held(), 0, "a context that acquires a set of locks holds no lock before");
        let mut contended = None;
        loop {
            let others = (0..locks.len()).filter(|&place| Some(place) != contended);
            let wanted = contended.into_iter().chain(others);
            let refused = wanted.clone().find_map(|place| {
                locks[place].acquire_in(self, Timeout::NONE).err().map(|error| (place, error))
            });
            let Some((place, error)) = refused else { return Ok(()) };
            for acquired in wanted.take_while(|&other| other != place) {
                // SAFETY: acquired above.
                unsafe { locks[acquired].release() };
            }
            if error != WwError::Deadlock {
                return Err(error);
            }
            contended = Some(place);
        }
    }
}

impl<M: Machine> Drop for WwContext<'_, M> {
    fn drop(&mut self) {
        self.node.phase.set(DONE);
        self.node.free_if_over();
    }
}

impl<M: Machine> fmt::Debug for WwContext<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WwContext").field("stamp", &self.stamp()).field("held", &self.held()).finish()
    }
}

/// Linux's wound/wait mutex, 16 bytes. [`WwMutex`](crate::WwMutex) is one with a value and guards.
pub struct Ww<M: Machine = Patient> {
    word: M::Ptr<WwNode<M>>,
    waiters: Ring<M, WwNode<M>>,
}

const _: () = assert!(size_of::<Ww>() == 16);

/// The list: all but `lock_list` and `leave`, which take it, are for the thread that has set `LIST`.
impl<M: Machine> Ww<M> {
    /// Takes the list of a lock that is held. None if it is free.
    fn lock_list(&self) -> Option<State<M>> {
        loop {
            let state = State(M::spin_until(&self.word, Relaxed, |state| !State(state).has(LIST)));
            if state.0.is_null() {
                return None;
            }
            // [2] from the thread that had the list, and the holder
            if self.word.compare_exchange(state.0, state.with(LIST).0, Acquire, Relaxed).is_ok() {
                return Some(state);
            }
        }
    }

    /// Gives the list back, with this holder.
    fn unlock_list(&self, holder: State<M>) {
        let holder = holder.without(WAITERS | LIST);
        let state = if self.waiters.is_empty() { holder } else { holder.with(WAITERS) };
        self.word.store(state.0, Release); // [2] to the thread that has the list next
    }

    /// Puts a context into the list, in the order of the stamps. False if it has to give way.
    fn enter(&self, node: &'static WwNode<M>, algorithm: Algorithm, holder: State<M>) -> bool {
        let stamp = node.stamp.get();
        let holds_locks = node.held.get() != 0;
        // From the end: most who come are younger than all.
        let (mut next, mut behind_older) = (None, false);
        let mut at = self.waiters.last();
        while let Some(waiter) = at.filter(|_| !behind_older) {
            match waiter.stamp.get() {
                0 => {} // without a context: it stays where it is
                other if other < stamp => behind_older = true,
                _ => next = Some(waiter),
            }
            at = self.waiters.before(waiter);
        }
        let holder = holder.context();
        behind_older |= holder.is_some_and(|holder| holder.stamp.get() < stamp);
        if algorithm == Algorithm::WaitDie && holds_locks && behind_older {
            return false;
        }
        match next {
            Some(next) => self.waiters.insert(node, next),
            None => self.waiters.push(node),
        }
        match algorithm {
            Algorithm::WaitDie => self.let_die(next),
            Algorithm::WoundWait => {
                let wounded = holder.filter(|holder| holds_locks && holder.stamp.get() > stamp);
                wounded.inspect(|holder| holder.tell(WOUNDED));
            }
        }
        true
    }

    /// Refuses the contexts with locks from this waiter on, in front of whom an older one has gone.
    fn let_die(&self, mut from: Option<&'static WwNode<M>>) {
        while let Some(waiter) = from {
            from = self.waiters.after(waiter);
            if waiter.has_context() && waiter.held.get() != 0 {
                self.waiters.remove(waiter);
                waiter.tell(DIE);
            }
        }
    }

    /// Leaves the list for this reason, unless it is out of it already.
    fn leave(&self, node: &'static WwNode<M>, why: WwError) -> Result<(), WwError> {
        let left = self.lock_list().is_some_and(|state| {
            let is_in = node.links.are_in_list();
            if is_in {
                self.waiters.remove(node);
            }
            self.unlock_list(state);
            is_in
        });
        if left {
            return Err(why);
        }
        // The thread that has taken it out is about to say why. [3] from that one
        let told = M::spin_until(&node.told, Acquire, |told| told & (LET_IN | DIE) != 0);
        if told & LET_IN != 0 { Ok(()) } else { Err(WwError::Deadlock) }
    }
}

impl<M: Machine> Ww<M> {
    /// Takes the lock if it is free.
    #[inline]
    fn take(&self, me: State<M>) -> bool {
        // [1] from the last release; [2] the stamp, to the thread that has the list while the lock is held
        self.word.compare_exchange(null_mut(), me.0, AcqRel, Relaxed).is_ok()
    }

    /// Waits until the caller, who is in the context, holds the lock or the timeout is reached. The lock is released by the same
    /// thread.
    ///
    /// All contexts in which a lock is acquired are of one class, which is not checked here: those of two classes may have the same
    /// stamp, and then neither gives way to the other.
    ///
    /// # Errors
    /// [`WwError`]; the lock is as if the caller had never come. [`WwError::Deadlock`] comes only if the context holds a lock.
    pub fn acquire_in(&self, context: &WwContext<'_, M>, timeout: Timeout<'_, M>) -> Result<(), WwError> {
        if let Err(refused) = context.begin() {
            return Err(if self.is_held_in(context) { WwError::AlreadyHeld } else { refused });
        }
        let node = context.node;
        if !self.take(node.as_holder()) {
            let waited = self.wait_in(context, timeout);
            if waited == Err(WwError::Deadlock) {
                node.phase.set(REFUSED);
            }
            waited?;
        }
        node.held.set(node.held.get() + 1);
        Ok(())
    }

    /// Takes the lock in the context if that needs no waiting, and the context has not to give way. It is released by the same thread.
    ///
    /// A try that fails refuses no context, nor says that an older context waits for this one. So a context that holds a lock
    /// does not repeat it until it succeeds: two that do may keep each other from it for ever.
    pub fn try_acquire_in(&self, context: &WwContext<'_, M>) -> bool {
        let taken = context.begin().is_ok() && self.take(context.node.as_holder());
        if taken {
            context.node.held.set(context.node.held.get() + 1);
        }
        taken
    }

    /// Whether the context holds the lock.
    #[must_use]
    pub fn is_held_in(&self, context: &WwContext<'_, M>) -> bool {
        State(self.word.load(Relaxed)).without(WAITERS | LIST).0 == context.node.address()
    }

    #[cold]
    #[inline(never)]
    fn wait_in(&self, context: &WwContext<'_, M>, timeout: Timeout<'_, M>) -> Result<(), WwError> {
        if self.is_held_in(context) {
            return Err(WwError::AlreadyHeld);
        }
        // What was told when it last waited is over; a wound is not.
        if context.node.told.fetch_and(WOUNDED, Relaxed) & WOUNDED != 0 {
            return Err(WwError::Deadlock);
        }
        self.wait(context.node, Some(context.class.algorithm), timeout)
    }

    #[cold]
    #[inline(never)]
    fn wait_without_context(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let node = WwNode::take(0);
        let waited = self.wait(node, None, timeout);
        // SAFETY: out of the list.
        unsafe { M::free_node(node) };
        waited.map_err(|_| GaveUp)
    }

    fn wait(
        &self,
        node: &'static WwNode<M>,
        algorithm: Option<Algorithm>,
        timeout: Timeout<'_, M>,
    ) -> Result<(), WwError> {
        let state = loop {
            match self.lock_list() {
                Some(state) => break state,
                None if self.take(node.as_holder()) => return Ok(()),
                None => {}
            }
        };
        let is_in = match algorithm {
            Some(algorithm) => self.enter(node, algorithm, state),
            None => {
                self.waiters.push(node);
                true
            }
        };
        self.unlock_list(state);
        if is_in { self.wait_in_list(node, timeout) } else { Err(WwError::Deadlock) }
    }

    fn wait_in_list(&self, node: &'static WwNode<M>, timeout: Timeout<'_, M>) -> Result<(), WwError> {
        // At first awake, since a hand-over to a sleeper takes long. What it finds is read again below.
        let spins = timeout.within_ns(OWNER_SPIN_NS);
        let _ = M::spin_until_or(&node.told, Relaxed, spins, |told| told != 0);
        loop {
            let told = node.told.load(Acquire); // [3] from the thread that told it
            if told & LET_IN != 0 {
                return Ok(());
            }
            if told & DIE != 0 {
                return Err(WwError::Deadlock);
            }
            if told & WOUNDED != 0 {
                return self.leave(node, WwError::Deadlock);
            }
            if M::sleep_while(&node.told, 0, timeout) == Slept::GaveUp {
                return self.leave(node, WwError::TimedOut);
            }
        }
    }

    /// The release of a lock that others wait for, or look at.
    #[cold]
    #[inline(never)]
    fn hand_over(&self) {
        self.lock_list().expect("the caller holds the lock");
        let Some(first) = self.waiters.first() else {
            self.word.store(null_mut(), Release); // [1] to the next owner
            return;
        };
        self.waiters.remove(first);
        self.unlock_list(first.as_holder());
        first.tell(LET_IN); // [1] to it, too
    }
}

// SAFETY: one thread at a time writes itself into a word that is zero, or is written into it by the holder, which leaves.
unsafe impl<M: Machine> RawLock<M> for Ww<M> {
    const NEW: Self = Self { word: M::Ptr::ZERO, waiters: Ring::NEW };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        let state = State(self.word.load(Relaxed));
        let context = state.context();
        // [1] to the next acquirer; [2] from those who have looked at the context, whose node may be another one's next
        if state.has(WAITERS | LIST)
            || self.word.compare_exchange(state.0, null_mut(), AcqRel, Relaxed).is_err()
        {
            self.hand_over();
        }
        context.inspect(|context| context.count_release());
    }

    fn is_idle(&self) -> bool {
        self.word.load(Relaxed).is_null()
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Ww<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.take(State(null_mut()).with(BARE))
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for Ww<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        if self.try_acquire() { Ok(()) } else { self.wait_without_context(timeout) }
    }
}
