//! Cancellable MCS lock: Linux's optimistic spin queue.
//!
//! An MCS queue linked both ways, whose waiters can leave from anywhere: at a deadline, or when another thread says
//! that waiting is no use ("the owner does not run any more"). Its tail holds a node's name, not its address.
//!
//! | word           | written by                              | meaning                                         |
//! |----------------|-----------------------------------------|-------------------------------------------------|
//! | `tail`         | acquirers, the last in the queue        | name of the last node + 1; 0: free; `NAMELESS`  |
//! | `holder`       | the holder alone                        | name of the holder's node + 1, for its release  |
//! | node `next`    | the successor; the thread that takes it out | the node behind; null: none, or it is being changed |
//! | node `before`  | its owner, then the holder of its link  | name of the node before + 1; `LEAVING`: its owner watches that node; `GRANTED`: the owner holds the lock |
//!
//! Leaving takes three steps: (A) take the link to oneself out of the predecessor, after which that cannot leave or
//! grant past us; (B) take one's own link out, or the tail back; (C) join the neighbours. Linux's nodes belong to
//! processors, so that step A may read one that has left the queue. Here they are used again elsewhere: step A
//! announces itself by `LEAVING`, and a predecessor that finds that waits for an acknowledgement before it gives its
//! node back.
//! A thread whose pool is used up has no name to leave: it takes the lock only when no other thread is there, as `NAMELESS`,
//! and newcomers wait until that is over.
//! Order: first in, first out among those who stay. Any thread may release.
//! Source: Linux 3.15 `kernel/locking/osq_lock.c` (the algorithm); the doubly linked queue of Scott and Scherer 2001.

use core::ptr::null_mut;

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{GaveUp, Machine, Node, Patient, PlainCell, TakenNode, Timeout, Which, Word};

use crate::{RawLock, TimedLock, TryLock};

const FREE: u32 = 0;
/// In `tail` and `holder`: held by a thread that had no name for its node.
const NAMELESS: u32 = u32::MAX;
/// In a node's `before`: no node is before it any more.
const GRANTED: u32 = u32::MAX;
/// With a name in a node's `before`: the owner watches the node of that name.
const LEAVING: u32 = 1 << 31;

/// A place in the queue.
struct OsqNode<M: Machine> {
    next: M::Ptr<OsqNode<M>>,
    before: M::U32,
    _padding: M::Cell<u32>, // see `Node`
}

// SAFETY: two words and no padding, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for OsqNode<M> {}

/// The cancellable MCS lock, 8 bytes, of which the tail takes 4.
pub struct Osq<M: Machine = Patient> {
    tail: M::U32,
    holder: M::Cell<u32>,
}

const _: () = assert!(size_of::<Osq>() == 8);

/// A thread's place in the queue of one lock.
struct Queued<'a, M: Machine> {
    tail: &'a M::U32,
    name: u32,
    node: &'static OsqNode<M>,
}

/// # Safety
/// `name` is the name of a node of this kind, plus one.
unsafe fn named<M: Machine>(name: u32) -> &'static OsqNode<M> {
    // SAFETY: by the caller.
    unsafe { M::named_node(name - 1) }
}

impl<M: Machine> Queued<'_, M> {
    fn own(&self) -> *mut OsqNode<M> {
        core::ptr::from_ref(self.node).cast_mut()
    }

    /// Takes the link to the successor out of the own node; or, if there is no successor, sets the tail to `last`.
    fn take_next(&self, last: u32) -> Option<&'static OsqNode<M>> {
        loop {
            // [1] to the next acquirer; [4] between one that left and its predecessor: our node is our own again
            if self.tail.load(Relaxed) == self.name
                && self.tail.compare_exchange(self.name, last, AcqRel, Relaxed).is_ok()
            {
                return None;
            }
            // Swapped, since a successor that leaves takes its link out, too: one of the two has it.
            let next = self.node.next.swap(null_mut(), Acquire); // [2] from the successor, or who joined it to us
            // SAFETY: null or a queued node; its owner cannot leave without the link that we have.
            if let Some(next) = unsafe { next.as_ref() } {
                return Some(next);
            }
            M::spin_until_any(
                (&self.node.next, Relaxed, |next: *mut OsqNode<M>| !next.is_null()),
                (self.tail, Relaxed, |tail| tail == self.name),
            );
        }
    }

    /// Step A: takes the link to this node out of the node before it, whose name it gives. None when the lock came
    /// first.
    fn detach(&self) -> Option<u32> {
        loop {
            let name = self.node.before.load(Acquire); // [3] from the predecessor
            if name == GRANTED {
                return None;
            }
            if self.node.before.compare_exchange(name, name | LEAVING, Relaxed, Relaxed).is_err() {
                continue; // granted, or joined to another one
            }
            if self.detach_from(name) {
                return Some(name);
            }
        }
    }

    /// Takes the link out of the node of this name, unless its owner goes first.
    fn detach_from(&self, name: u32) -> bool {
        // SAFETY: a node's `before` is such a name until it is granted.
        let before = unsafe { named::<M>(name) };
        loop {
            // [2] from who joined us to the predecessor, whose write is thereby over before that node goes back to its pool
            if before.next.compare_exchange(self.own(), null_mut(), Acquire, Relaxed).is_ok() {
                return true;
            }
            // Another thread has our link: the predecessor, which grants or leaves; or a thread that was between us
            // and has still to join us to the predecessor.
            let joined = (&before.next, Relaxed, |next: *mut OsqNode<M>| next == self.own());
            // [3] from who had the link, so that our write comes after its own there
            let moved = (&self.node.before, Acquire, |now| now != name | LEAVING);
            if let Which::First(_) = M::spin_until_any(moved, joined) {
                before.next.store(self.own(), Release); // [5] to the predecessor: it may free its node
                return false;
            }
        }
    }

    /// Writes the successor's `before`, after which it may read this node no more.
    fn hand(&self, next: &OsqNode<M>, before: u32) -> bool {
        next.before.swap(before, Release) & LEAVING != 0 // [3] to the successor
    }

    /// Returns the node to its pool, once a successor that watches it has stopped doing so.
    fn retire(&self, looked_at: bool) {
        if looked_at {
            M::spin_until(&self.node.next, Acquire, |next| !next.is_null()); // [5] from the successor
        }
        // SAFETY: out of the queue, and no thread reads it any more.
        unsafe { M::free_node(self.node) };
    }

    /// Leaves the queue. False when the lock came first.
    #[cold]
    fn leave(&self) -> bool {
        let Some(name) = self.detach() else { return false };
        // Step B. The predecessor cannot go meanwhile: it waits for a link, or for the tail.
        let next = self.take_next(name);
        let looked_at = next.is_some_and(|next| {
            // Step C. First the successor: once the predecessor has the link, it may write there itself.
            let looked_at = self.hand(next, name);
            // SAFETY: the name of the predecessor, which cannot go.
            let before = unsafe { named::<M>(name) };
            before.next.store(core::ptr::from_ref(next).cast_mut(), Release); // [2] to the predecessor
            looked_at
        });
        self.retire(looked_at);
        true
    }

    fn release(&self) {
        let looked_at = self.take_next(FREE).is_some_and(|next| self.hand(next, GRANTED));
        self.retire(looked_at);
    }
}

impl<M: Machine> Osq<M> {
    /// Puts the node at the end of the queue and gives the name of the one before.
    fn append(&self, queued: &Queued<'_, M>, timeout: Timeout<'_, M>) -> Result<u32, GaveUp> {
        queued.node.next.store(null_mut(), Relaxed);
        let mut tail = self.tail.load(Relaxed);
        loop {
            if tail == NAMELESS {
                tail = M::spin_until_or(&self.tail, Relaxed, timeout, |tail| tail != NAMELESS)?;
            }
            queued.node.before.store(tail, Relaxed);
            // [1] from the release that freed the lock; publishes the node to the next in the queue
            match self.tail.compare_exchange(tail, queued.name, AcqRel, Relaxed) {
                Ok(_) => return Ok(tail),
                Err(now) => tail = now,
            }
        }
    }

    /// Waits in the queue.
    fn wait(&self, queued: &Queued<'_, M>, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let before = match self.append(queued, timeout) {
            Ok(before) => before,
            Err(GaveUp) => {
                // SAFETY: in no queue.
                unsafe { M::free_node(queued.node) };
                return Err(GaveUp);
            }
        };
        if before == FREE {
            return Ok(());
        }
        // SAFETY: the tail was the name of the predecessor, which waits for this link.
        unsafe { named::<M>(before) }.next.store(queued.own(), Release); // [2] to the predecessor
        let granted = M::spin_until_or(&queued.node.before, Acquire, timeout, |before| before == GRANTED); // [3] from it
        if granted.is_err() && queued.leave() { Err(GaveUp) } else { Ok(()) }
    }

    #[inline]
    fn take_when_free(&self, name: u32) -> bool {
        self.tail.load(Relaxed) == FREE && self.tail.compare_exchange(FREE, name, AcqRel, Relaxed).is_ok() // [1] from release
    }
}

// SAFETY: the first in the queue holds the lock, and is told so by its predecessor or finds none.
unsafe impl<M: Machine> RawLock<M> for Osq<M> {
    const NEW: Self = Self { tail: M::U32::ZERO, holder: M::Cell::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        M::expect_node(); // waiters have written the lock's line and the node's
        match self.holder.get() {
            FREE => {}                                  // never acquired
            NAMELESS => self.tail.store(FREE, Release), // [1] to the next acquirer; no thread queues behind it
            // SAFETY: the holder's acquisition put the name of its node here.
            name => Queued { tail: &self.tail, name, node: unsafe { named::<M>(name) } }.release(),
        }
    }

    fn is_idle(&self) -> bool {
        self.tail.load(Relaxed) == FREE
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Osq<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        let TakenNode { node, name } = M::allocate_node::<OsqNode<M>>();
        node.next.store(null_mut(), Relaxed);
        let name = name.map_or(NAMELESS, |name| name + 1);
        let taken = self.take_when_free(name);
        if taken {
            self.holder.set(name);
        }
        if !taken || name == NAMELESS {
            // SAFETY: in no queue.
            unsafe { M::free_node(node) };
        }
        taken
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for Osq<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let TakenNode { node, name } = M::allocate_node::<OsqNode<M>>();
        let name = match name {
            Some(name) => {
                self.wait(&Queued { tail: &self.tail, name: name + 1, node }, timeout)?;
                name + 1
            }
            None => {
                // SAFETY: in no queue.
                unsafe { M::free_node(node) };
                M::spin_rmw_or(&self.tail, timeout, |_| self.take_when_free(NAMELESS))?;
                NAMELESS
            }
        };
        self.holder.set(name);
        Ok(())
    }
}
