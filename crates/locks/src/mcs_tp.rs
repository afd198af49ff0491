//! MCS queue lock whose releases pass over waiters that do not run.
//!
//! A waiter publishes the time while it spins. A release that finds an old time in front of the queue takes that waiter for
//! preempted or asleep, takes it out of the queue and goes on to the next one. So a queue of threads that have no core costs the
//! holder a read of each, not a time slice.
//!
//! | word          | written by                           | meaning                                     |
//! |---------------|--------------------------------------|---------------------------------------------|
//! | `tail`        | acquirers, the last holder           | the last node of the queue; null: free      |
//! | `holder`      | the holder alone                     | the holder's node, for its release to find  |
//! | node `next`   | the successor                        | the node behind this one in the queue       |
//! | node `behind` | the thread that has the list         | the node behind this one in a list          |
//! | node `time`   | its owner                            | when the owner last ran, in nanoseconds     |
//! | node `status` | its owner, then a release or recall  | see below                                   |
//! | node `passed` | a release or recall; the owner       | the list that the owner has with the lock, or takes along |
//!
//! | `status`  | meaning                                                                                      |
//! |-----------|----------------------------------------------------------------------------------------------|
//! | `WAITING` | in the queue or in a list                                                                    |
//! | `GRANTED` | `WAITING -> GRANTED`, by a release: the owner holds the lock                                 |
//! | `RECALLED`| `WAITING -> RECALLED`, by the thread that has the list: back into the queue, with the rest of the list |
//! | `LEFT`    | `WAITING -> LEFT`, by its owner, who gave up: the thread that meets the node next frees it    |
//!
//! A waiter that is passed over is not told so: it goes on waiting, in a list instead of in the queue, and costs no wake-up. A
//! release that finds no waiter in the queue frees the lock and recalls the first of the list, which takes the rest of the list
//! along and has it with the lock when it enters. So one waiter at a time is on its way back from a list, however many there are;
//! and each was woken for once that it had queued up: the work is never quadratic in the waiters. While the queue does not become
//! empty, the first of the list is recalled once it has not run for a millisecond. A list belongs to the holder, or to a waiter
//! that was recalled, which hands it on when it gives up: so there is always a thread that has it.
//!
//! A release passes over those that were in the queue when it began. Who has come since then has just run, whatever its time says:
//! so no two threads pass over each other for ever.
//! A waiter that gives up leaves its node where it is until a release meets it: so a lock that is held for long while threads
//! wait with deadlines, again and again, keeps a node of each such wait, and its next release frees them all.
//! Order: first in, first out among those who run and stay. Any thread may release.
//! Source: MCS-TP of He, Scherer and Scott, "Preemption Adaptivity in Time-Published Queue-Based Spin Locks", 2005. There all who
//! are passed over queue up again at once, which they do when they next run; here waiters sleep, and to tell them is to wake them.

use core::ptr::null_mut;

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Clock, GaveUp, Machine, Node, Patient, PlainCell, Timeout, Word};

use crate::{RawLock, TimedLock, TryLock};

const GRANTED: u32 = 0;
const WAITING: u32 = 1;
const RECALLED: u32 = 2;
const LEFT: u32 = 3;

/// A waiter that has not published the time for so long is taken for one that does not run: many times what lies between two
/// stores of one that does, and little of a time slice.
const STALE_NS: u64 = 20_000;

/// A waiter in the list that has not published the time for so long is recalled although others wait in the queue.
const OVERDUE_NS: u64 = 1_000_000;

/// A place in the queue.
struct McsTpNode<M: Machine> {
    next: M::Ptr<McsTpNode<M>>,
    time: M::U64,
    behind: M::Cell<*mut McsTpNode<M>>,
    passed: M::Cell<*mut McsTpNode<M>>,
    status: M::U32,
    _padding: M::Cell<u32>, // see `Node`
}

// SAFETY: words, cells and no padding, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for McsTpNode<M> {}

/// The time-published MCS lock, 16 bytes.
pub struct McsTp<M: Machine = Patient> {
    tail: M::Ptr<McsTpNode<M>>,
    holder: M::Cell<*mut McsTpNode<M>>,
}

const _: () = assert!(size_of::<McsTp>() == 16);

/// Waiters that were passed over, first in, first out: a ring through `behind`, by its last node; null when empty.
#[derive(Clone, Copy)]
struct Passed<M: Machine>(*mut McsTpNode<M>);

impl<M: Machine> McsTpNode<M> {
    fn address(&self) -> *mut Self {
        core::ptr::from_ref(self).cast_mut()
    }

    /// Whether the owner has not run for `ns`.
    #[inline]
    fn is_older(&self, ns: u64, now_ns: u64) -> bool {
        // Another processor's clock may be ahead.
        now_ns.saturating_sub(self.time.load(Relaxed)) > ns
    }

    /// Lets the owner in with this list, if it still waits.
    #[inline]
    fn let_in(&self, passed: Passed<M>) -> bool {
        self.passed.set(passed.0);
        self.status.compare_exchange(WAITING, GRANTED, Release, Relaxed).is_ok() // [4] to its owner
    }
}

/// The caller has the list.
impl<M: Machine> Passed<M> {
    const NONE: Self = Self(null_mut());

    fn last(&self) -> Option<&'static McsTpNode<M>> {
        // SAFETY: null or a node in the list, whose owner does not free it.
        unsafe { self.0.as_ref() }
    }

    fn first(&self) -> Option<&'static McsTpNode<M>> {
        // SAFETY: the list is a ring, so that `behind` of its last is its first, whose owner does not free it.
        self.last().and_then(|last| unsafe { last.behind.get().as_ref() })
    }

    fn append(&mut self, node: &'static McsTpNode<M>) {
        node.behind.set(node.address()); // a list of one
        self.append_all(Self(node.address()));
    }

    /// Puts the other list behind this one.
    fn append_all(&mut self, other: Self) {
        let Some(others_last) = other.last() else { return };
        if let Some(last) = self.last() {
            let first = last.behind.get();
            last.behind.set(others_last.behind.get());
            others_last.behind.set(first);
        }
        self.0 = other.0;
    }

    fn take_first(&mut self) -> Option<&'static McsTpNode<M>> {
        let first = self.first()?;
        if first.address() == self.0 {
            self.0 = null_mut();
        } else if let Some(last) = self.last() {
            last.behind.set(first.behind.get());
        }
        Some(first)
    }

    /// Sends the first that has not left back to the queue, with the rest of the list.
    #[cold]
    fn recall(mut self) {
        while let Some(first) = self.take_first() {
            first.passed.set(self.0);
            // [5] to its owner; [6] from it
            if first.status.compare_exchange(WAITING, RECALLED, Release, Acquire).is_ok() {
                return;
            }
            // SAFETY: in no queue and no list, and its owner has left it.
            unsafe { M::free_node(first) };
        }
    }
}

impl<M: Machine> McsTp<M> {
    /// Puts the node at the end of the queue and gives the one before; null when the caller has the lock.
    #[inline]
    fn append(&self, node: &'static McsTpNode<M>) -> *mut McsTpNode<M> {
        node.next.store(null_mut(), Relaxed);
        // [1] from the release that freed the lock; [2] publishes the node to the successor, from the predecessor
        self.tail.swap(node.address(), AcqRel)
    }

    /// Waits behind this node until the lock is granted. The node is the caller's to free unless this gives up.
    #[cold]
    #[inline(never)]
    fn wait(
        &self,
        node: &'static McsTpNode<M>,
        mut before: *mut McsTpNode<M>,
        timeout: Timeout<'_, M>,
    ) -> Result<(), GaveUp> {
        let mut passed = Passed::NONE;
        // SAFETY: null or a node whose release waits for the link that is stored here.
        while let Some(predecessor) = unsafe { before.as_ref() } {
            node.status.store(WAITING, Relaxed);
            node.time.store(M::clock_ns(Clock::Monotonic), Relaxed);
            predecessor.next.store(node.address(), Release); // [3] to the releasing thread
            let ended = |status| status != WAITING;
            // [4], [5] from the thread that grants or recalls
            match M::spin_publishing_or(&node.status, Acquire, &node.time, timeout, ended) {
                Ok(GRANTED) => before = null_mut(),
                Ok(_) => before = self.append(node), // recalled: back to the end
                Err(GaveUp) if self.leave(node, &mut passed) => {
                    passed.recall();
                    return Err(GaveUp);
                }
                Err(GaveUp) => before = null_mut(),
            }
            // Those that this waiter has taken along have waited longer than those of the lock.
            passed.append_all(Passed(node.passed.get()));
        }
        node.passed.set(passed.0);
        Ok(())
    }

    /// Leaves the node in the queue or list in which it is, unless a release was faster.
    #[cold]
    fn leave(&self, node: &'static McsTpNode<M>, passed: &mut Passed<M>) -> bool {
        // [6] to the thread that meets the node and frees it; [4], [5] from the thread that grants or recalls
        match node.status.compare_exchange(WAITING, LEFT, Release, Acquire) {
            Ok(_) => true,
            Err(GRANTED) => false,
            Err(_) => {
                passed.append_all(Passed(node.passed.get()));
                // SAFETY: recalled, so in no queue and no list.
                unsafe { M::free_node(node) };
                true
            }
        }
    }

    /// Takes the first node out of the queue and gives the next one; none when the lock is free now.
    #[inline]
    fn take_out(&self, first: &'static McsTpNode<M>) -> Option<&'static McsTpNode<M>> {
        let mut next = first.next.load(Acquire); // [3] from the successor
        if next.is_null() {
            if self.tail.compare_exchange(first.address(), null_mut(), Release, Relaxed).is_ok() {
                // [1] to the next acquirer
                return None;
            }
            // Another thread is between its swap and its link.
            next = M::spin_until(&first.next, Acquire, |next| !next.is_null()); // [3] from the successor
        }
        // SAFETY: a node in the queue, which stays there until the releasing thread takes it out.
        unsafe { next.as_ref() }
    }

    /// The release of a lock with a list. `first` is the holder's node, or one behind it that is to be passed over.
    #[cold]
    #[inline(never)]
    fn pass_over(
        &self,
        mut first: &'static McsTpNode<M>,
        mut passed: Passed<M>,
        mut is_holder: bool,
        now_ns: u64,
    ) {
        let newest = self.tail.load(Relaxed);
        let mut are_new = false;
        // Not those that are passed over now, since one of them after the other would be recalled.
        if passed.first().is_some_and(|first| first.is_older(OVERDUE_NS, now_ns)) {
            core::mem::replace(&mut passed, Passed::NONE).recall();
        }
        loop {
            are_new |= first.address() == newest;
            let next = self.take_out(first);
            if is_holder {
                is_holder = false; // its owner frees it
            } else if first.status.load(Acquire) == LEFT {
                // [6] from its owner
                // SAFETY: out of the queue, and its owner has left it.
                unsafe { M::free_node(first) };
            } else {
                passed.append(first);
            }
            let Some(next) = next else { return passed.recall() };
            if (are_new || !next.is_older(STALE_NS, now_ns)) && next.let_in(passed) {
                return;
            }
            first = next;
        }
    }
}

// SAFETY: the first in the queue holds the lock: it found none before it, or was granted the lock by the one before.
unsafe impl<M: Machine> RawLock<M> for McsTp<M> {
    const NEW: Self = Self { tail: M::Ptr::ZERO, holder: M::Cell::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        M::expect_node(); // waiters have written the lock's line and the node's
        // SAFETY: the holder's acquisition put its node here; before any acquisition it is null.
        let Some(node) = (unsafe { self.holder.get().as_ref() }) else { return };
        let passed = Passed(node.passed.get());
        if passed.last().is_some() {
            self.pass_over(node, passed, true, M::clock_ns(Clock::Monotonic));
        } else if let Some(next) = self.take_out(node) {
            let now_ns = M::clock_ns(Clock::Monotonic);
            if next.is_older(STALE_NS, now_ns) || !next.let_in(passed) {
                self.pass_over(next, passed, false, now_ns);
            }
        }
        // SAFETY: taken out of the queue above.
        unsafe { M::free_node(node) };
    }

    fn is_idle(&self) -> bool {
        self.tail.load(Relaxed).is_null()
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for McsTp<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        if !self.tail.load(Relaxed).is_null() {
            return false;
        }
        let node = M::allocate_node::<McsTpNode<M>>().node;
        node.next.store(null_mut(), Relaxed);
        // [1] from the release that freed the lock; [2] publishes the node to the successor
        let taken = self.tail.compare_exchange(null_mut(), node.address(), AcqRel, Relaxed).is_ok();
        if taken {
            node.passed.set(null_mut());
            self.holder.set(node.address());
        } else {
            // SAFETY: in no queue.
            unsafe { M::free_node(node) };
        }
        taken
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for McsTp<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let node = M::allocate_node::<McsTpNode<M>>().node;
        let before = self.append(node);
        if before.is_null() {
            node.passed.set(null_mut());
        } else {
            self.wait(node, before, timeout)?;
        }
        self.holder.set(node.address());
        Ok(())
    }
}
