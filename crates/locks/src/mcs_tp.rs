//! MCS queue lock whose releases pass over waiters that do not run.
//!
//! A waiter publishes the time while it spins. A release that finds an old time in front of the queue takes that waiter for
//! preempted, tells it so and goes on to the next one; who was passed over queues up again once it runs. So a queue of
//! threads that have no core costs the holder a look at each, not a time slice.
//!
//! | word          | written by                           | meaning                                     |
//! |---------------|--------------------------------------|---------------------------------------------|
//! | `tail`        | acquirers, the last holder           | the last node of the queue; null: free      |
//! | `holder`      | the holder alone                     | the holder's node, for its release to find  |
//! | node `next`   | the successor                        | the node behind this one                    |
//! | node `time`   | its owner                            | when the owner last ran, in nanoseconds     |
//! | node `status` | its owner, then whoever releases     | see below                                   |
//!
//! | `status`  | meaning                                                                                      |
//! |-----------|----------------------------------------------------------------------------------------------|
//! | `WAITING` | in the queue                                                                                 |
//! | `GRANTED` | `WAITING -> GRANTED`, by a release: the owner holds the lock                                 |
//! | `PASSED`  | `WAITING -> PASSED`, by a release: out of the queue, the node is its owner's again           |
//! | `LEFT`    | `WAITING -> LEFT`, by its owner, who gave up: the release that meets the node gives it back  |
//!
//! A release passes over those that were in the queue when it began, and takes a node out of the queue before it says `PASSED`, so that the lock is never with a waiter that has been passed
//! over: if all were, it is free.
//! Order: first in, first out among those who run and stay. Any thread may release.
//! Source: MCS-TP of He, Scherer and Scott, "Preemption Adaptivity in Time-Published Queue-Based Spin Locks", 2005. There a
//! waiter that gave up and comes again takes its old place if nobody has come past it; here it queues up anew.

use core::ptr::null_mut;

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Clock, GaveUp, Machine, Node, Patient, PlainCell, Timeout, Word};

use crate::{RawLock, TimedLock, TryLock};

const GRANTED: u32 = 0;
const WAITING: u32 = 1;
const PASSED: u32 = 2;
const LEFT: u32 = 3;

/// A waiter that has not published the time for so long is taken for one that does not run: many times what lies between two
/// looks of one that does, and little of a time slice.
const STALE_NS: u64 = 20_000;

/// A place in the queue.
struct McsTpNode<M: Machine> {
    next: M::Ptr<McsTpNode<M>>,
    time: M::U64,
    status: M::U32,
    _padding: M::Cell<u32>, // see `Node`
}

// SAFETY: three words and no padding, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for McsTpNode<M> {}

/// The time-published MCS lock, 16 bytes.
pub struct McsTp<M: Machine = Patient> {
    tail: M::Ptr<McsTpNode<M>>,
    holder: M::Cell<*mut McsTpNode<M>>,
}

const _: () = assert!(size_of::<McsTp>() == 16);

impl<M: Machine> McsTpNode<M> {
    fn address(&self) -> *mut Self {
        core::ptr::from_ref(self).cast_mut()
    }

    /// Lets the owner in, if it has run of late and still waits.
    #[inline]
    fn grant(&self, now_ns: u64) -> bool {
        // Another processor's clock may be ahead.
        now_ns.saturating_sub(self.time.load(Relaxed)) <= STALE_NS && self.let_in()
    }

    /// Lets the owner in, if it still waits.
    #[inline]
    fn let_in(&self) -> bool {
        self.status.compare_exchange(WAITING, GRANTED, Release, Relaxed).is_ok() // [4] to its owner
    }
}

impl<M: Machine> McsTp<M> {
    /// Queues up until the lock is granted. The node is the caller's to free unless this gives up.
    #[inline]
    fn wait(&self, node: &'static McsTpNode<M>, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        loop {
            node.next.store(null_mut(), Relaxed);
            // [1] from the release that freed the lock; [2] publishes the node to the successor, from the predecessor
            let before = self.tail.swap(node.address(), AcqRel);
            // SAFETY: null or a node whose release waits for the link that is stored here.
            let Some(before) = (unsafe { before.as_ref() }) else { return Ok(()) };
            node.status.store(WAITING, Relaxed);
            node.time.store(M::clock_ns(Clock::Monotonic), Relaxed);
            before.next.store(node.address(), Release); // [3] to whoever releases
            let ended = |status| status != WAITING;
            // [4], [5] from whoever releases
            match M::spin_publishing_or(&node.status, Acquire, &node.time, timeout, ended) {
                Ok(GRANTED) => return Ok(()),
                Ok(_) => {} // passed over: back to the end
                Err(GaveUp) => return self.leave(node),
            }
        }
    }

    /// Leaves the node in the queue, unless a release was faster.
    #[cold]
    fn leave(&self, node: &'static McsTpNode<M>) -> Result<(), GaveUp> {
        // [6] to whoever releases and gives the node back; [4], [5] from it
        match node.status.compare_exchange(WAITING, LEFT, Release, Acquire) {
            Ok(_) => Err(GaveUp),
            Err(GRANTED) => Ok(()),
            Err(_) => {
                // SAFETY: passed over, so in no queue.
                unsafe { M::free_node(node) };
                Err(GaveUp)
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
            // Somebody is between its swap and its link.
            next = M::spin_until(&first.next, Acquire, |next| !next.is_null()); // [3] from the successor
        }
        // SAFETY: a node in the queue, which stays there until whoever releases takes it out.
        unsafe { next.as_ref() }
    }

    /// The node behind the holder's was not let in: looks for one that is to have the lock, or frees it. Who has queued up since
    /// this release began has just run, whatever its time says: so no two threads pass over each other for ever.
    #[cold]
    #[inline(never)]
    fn pass_over(&self, mut first: &'static McsTpNode<M>, now_ns: u64) {
        let last = self.tail.load(Relaxed);
        let mut are_new = false;
        loop {
            let next = self.take_out(first);
            are_new |= first.address() == last;
            // [5] to its owner; [6] from it
            if first.status.swap(PASSED, AcqRel) == LEFT {
                // SAFETY: out of the queue, and its owner has left it.
                unsafe { M::free_node(first) };
            }
            let Some(next) = next else { return };
            let is_let_in = if are_new { next.let_in() } else { next.grant(now_ns) };
            if is_let_in {
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
        if let Some(next) = self.take_out(node) {
            let now_ns = M::clock_ns(Clock::Monotonic);
            if !next.grant(now_ns) {
                self.pass_over(next, now_ns);
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
        self.wait(node, timeout)?;
        self.holder.set(node.address());
        Ok(())
    }
}
