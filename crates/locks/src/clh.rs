//! CLH queue lock.
//!
//! An acquirer swaps its node into the tail and waits on its predecessor's node, so that the queue needs no links
//! and a release is a store. The predecessor's node is its successor's to use again: here that means to give it
//! back to the pool that it came from. That is the cost of recycling: a line that its owner wrote last is written
//! by another core, and a node is gone from a thread's pool until its successor has been served.
//!
//! | word           | written by                        | meaning                               |
//! |----------------|-----------------------------------|---------------------------------------|
//! | `tail`         | acquirers, the last holder        | the node of the last in the queue; null: free |
//! | `holder`       | the holder alone                  | the holder's node, for its release to find |
//! | node `waiting` | its owner                         | 1 from the owner's arrival to its release |
//!
//! Craig's lock keeps the last node for the next acquirer to find. Here a release that no thread waits for takes it out
//! again, so that a free lock is all zero and owns nothing, at the price of a compare-and-swap.
//! Order: first in, first out; no waiter is bypassed. Any thread may release.
//! Source: Craig 1993; Magnusson, Landin and Hagersten 1994.

use core::ptr::null_mut;

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Machine, Node, Patient, PlainCell, Word};

use crate::{FairLock, RawLock, TryLock};

/// A place in the queue of a CLH lock.
pub(crate) struct ClhNode<M: Machine> {
    waiting: M::U32,
}

// SAFETY: one word, zero is valid.
unsafe impl<M: Machine> Node<M> for ClhNode<M> {}

impl<M: Machine> ClhNode<M> {
    /// A node of the calling thread, waiting.
    #[inline]
    pub(crate) fn take() -> &'static Self {
        let node = M::allocate_node::<Self>().node;
        node.waiting.store(1, Relaxed);
        node
    }

    #[inline]
    pub(crate) fn address(&self) -> *mut Self {
        core::ptr::from_ref(self).cast_mut()
    }

    /// Waits for the owner's release, then frees the node.
    ///
    /// # Safety
    /// The caller is the node's one successor in the queue.
    #[inline]
    pub(crate) unsafe fn await_and_recycle(&'static self) {
        M::spin_until(&self.waiting, Acquire, |waiting| waiting == 0); // [2] from the predecessor's release
        // SAFETY: its owner has released it, and left it to its successor.
        unsafe { M::free_node(self) };
    }

    /// The release of the node's owner: frees the lock whose queue ends at `tail`, or lets the successor in.
    ///
    /// # Safety
    /// The node is that of the holder.
    #[inline]
    pub(crate) unsafe fn release(&'static self, tail: &M::Ptr<Self>) {
        let own = self.address();
        let last = tail.load(Relaxed) == own;
        if last && tail.compare_exchange(own, null_mut(), Release, Relaxed).is_ok() {
            // [1] to the next acquirer
            // SAFETY: out of the queue, without a successor.
            unsafe { M::free_node(self) };
        } else {
            self.waiting.store(0, Release); // [2] to the successor, which frees the node
        }
    }
}

/// The CLH lock, 16 bytes.
pub struct Clh<M: Machine = Patient> {
    tail: M::Ptr<ClhNode<M>>,
    holder: M::Cell<*mut ClhNode<M>>,
}

const _: () = assert!(size_of::<Clh>() == 16);

// SAFETY: a waiter enters when its predecessor in the queue has been released, or when there is none.
unsafe impl<M: Machine> RawLock<M> for Clh<M> {
    const NEW: Self = Self { tail: M::Ptr::ZERO, holder: M::Cell::ZERO };

    #[inline]
    fn acquire(&self) {
        let node = ClhNode::<M>::take();
        // [1] from the release that freed the lock; publishes the node to the successor
        let predecessor = self.tail.swap(node.address(), AcqRel);
        // SAFETY: null or a pool's node, which lives for ever.
        if let Some(predecessor) = unsafe { predecessor.as_ref() } {
            // SAFETY: the swap has made this node its one successor.
            unsafe { predecessor.await_and_recycle() };
        }
        self.holder.set(node.address());
    }

    #[inline]
    unsafe fn release(&self) {
        // SAFETY: the holder's acquisition put its node here; before any acquisition it is null.
        if let Some(node) = unsafe { self.holder.get().as_ref() } {
            // SAFETY: the caller holds the lock with it.
            unsafe { node.release(&self.tail) };
        }
    }

    fn is_idle(&self) -> bool {
        self.tail.load(Relaxed).is_null()
    }
}

impl<M: Machine> FairLock<M> for Clh<M> {}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Clh<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        if !self.tail.load(Relaxed).is_null() {
            return false;
        }
        let node = ClhNode::<M>::take();
        // [1] from the release that freed the lock; publishes the node to the successor
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
