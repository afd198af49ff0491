//! CLH queue lock with time-out.
//!
//! A waiter that gives up leaves its node in the queue, marked, with a pointer to its predecessor; its successor
//! follows that pointer and frees the node. The last in the queue takes itself out instead, if it can.
//!
//! | word               | written by                 | meaning                                              |
//! |--------------------|----------------------------|------------------------------------------------------|
//! | `tail`             | acquirers, the last in the queue | the node of the last in the queue; null: free  |
//! | `holder`           | the holder alone           | the holder's node, for its release to find           |
//! | node `state`       | its owner                  | waiting or holding, released, or abandoned           |
//! | node `predecessor` | its owner, when it gives up | whom the successor has to wait for instead          |
//!
//! A free lock has a null tail, or one whose node is released: when the holder released just before its last
//! waiter left. The next acquirer frees that node, or the drop of the lock. Nodes are in memory that is never
//! unmapped, so no waiter waits for a neighbour in order to give up.
//! A try is in the queue for a moment: one behind it fails, although no thread may hold the lock.
//! Order: first in, first out among those who stay. Any thread may release.
//! Source: Scott and Scherer 2001; Scott 2002 (giving up without waiting for the neighbours).

use core::ptr::null_mut;

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Clock, Deadline, GaveUp, Machine, Node, Patient, PlainCell, Timeout, Word};

use crate::{FairLock, RawLock, TimedLock, TryLock};

/// The owner waits or holds the lock.
const WAITING: u32 = 0;
/// The owner has released the lock.
const RELEASED: u32 = 1;
/// The owner has given up.
const ABANDONED: u32 = 2;

/// A place in the queue.
struct TimedNode<M: Machine> {
    state: M::U32,
    _padding: M::Cell<u32>, // see `Node`
    predecessor: M::Ptr<TimedNode<M>>,
}

// SAFETY: two words and no padding, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for TimedNode<M> {}

/// The CLH lock with time-out, 16 bytes.
pub struct ClhTimed<M: Machine = Patient> {
    tail: M::Ptr<TimedNode<M>>,
    holder: M::Cell<*mut TimedNode<M>>,
}

const _: () = assert!(size_of::<ClhTimed>() == 16);

impl<M: Machine> ClhTimed<M> {
    /// Gives up the place of `node` behind `predecessor`.
    #[cold]
    fn leave(&self, node: &'static TimedNode<M>, predecessor: &'static TimedNode<M>) {
        let own = core::ptr::from_ref(node).cast_mut();
        let before = core::ptr::from_ref(predecessor).cast_mut();
        // [3] publishes the predecessor's node, which we have by the same edge, to the next in the queue; [4] from
        // the waiter that was behind us and left
        if self.tail.load(Relaxed) == own && self.tail.compare_exchange(own, before, AcqRel, Relaxed).is_ok()
        {
            // SAFETY: out of the queue, without a successor.
            unsafe { M::free_node(node) };
            return;
        }
        node.predecessor.store(before, Relaxed);
        node.state.store(ABANDONED, Release); // [2] to the successor, which frees the node
    }
}

// SAFETY: a waiter enters when its predecessors in the queue have been released or have left, or when there are
// none.
unsafe impl<M: Machine> RawLock<M> for ClhTimed<M> {
    const NEW: Self = Self { tail: M::Ptr::ZERO, holder: M::Cell::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        let own = self.holder.get();
        // SAFETY: the holder's acquisition put its node here; before any acquisition it is null.
        let Some(node) = (unsafe { own.as_ref() }) else { return };
        let last = self.tail.load(Relaxed) == own;
        // [1] to the next acquirer; [4] from the waiter that was behind us and left
        if last && self.tail.compare_exchange(own, null_mut(), AcqRel, Relaxed).is_ok() {
            // SAFETY: out of the queue, without a successor.
            unsafe { M::free_node(node) };
        } else {
            node.state.store(RELEASED, Release); // [2] to the successor, which frees the node
        }
    }

    fn is_idle(&self) -> bool {
        self.tail.load(Relaxed).is_null()
    }
}

impl<M: Machine> Drop for ClhTimed<M> {
    /// Frees the node of a holder that released the lock just before its last waiters left, and theirs.
    fn drop(&mut self) {
        // The thread that drops the lock has seen all that was done with it.
        let mut last = self.tail.load(Relaxed);
        // SAFETY: null or a pool's node, which lives for ever.
        while let Some(node) = unsafe { last.as_ref() } {
            last = match node.state.load(Relaxed) {
                RELEASED => null_mut(),
                ABANDONED => node.predecessor.load(Relaxed),
                _ => return, // that of a lock that was never released: its holder's
            };
            // SAFETY: its owner has released or left it, and no thread comes behind it any more.
            unsafe { M::free_node(node) };
        }
    }
}

impl<M: Machine> FairLock<M> for ClhTimed<M> {}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for ClhTimed<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        // The tail does not say whether the lock is free: its node may be a released one. So queue up, poll once, and leave.
        self.acquire_or(Timeout::at(Deadline { clock: Clock::Monotonic, at_ns: 0 })).is_ok()
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for ClhTimed<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let node = M::allocate_node::<TimedNode<M>>().node;
        node.state.store(WAITING, Relaxed);
        let own = core::ptr::from_ref(node).cast_mut();
        // [1] from the release that freed the lock; [3] publishes the node to the next in the queue
        let mut predecessor = self.tail.swap(own, AcqRel);
        // SAFETY: null or a pool's node, which lives for ever and is returned by its successor alone: by us.
        while let Some(before) = unsafe { predecessor.as_ref() } {
            // [2] from the predecessor's release or leave
            let state = M::spin_until_or(&before.state, Acquire, timeout, |state| state != WAITING);
            match state {
                Err(GaveUp) => {
                    self.leave(node, before);
                    return Err(GaveUp);
                }
                Ok(ABANDONED) => predecessor = before.predecessor.load(Relaxed),
                Ok(_) => predecessor = null_mut(),
            }
            // SAFETY: its owner has released or left it, and it had one successor.
            unsafe { M::free_node(before) };
        }
        self.holder.set(own);
        Ok(())
    }
}
