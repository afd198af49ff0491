//! Hierarchical CLH lock.
//!
//! The threads of a cluster (cores that share a last-level cache) queue up among themselves first. The first of such
//! a queue is its master: it waits a little for others to join, then moves the whole queue to the end of the global
//! one. So the lock goes through a cluster's waiters in a row before it crosses to another cluster.
//!
//! | word            | written by                    | meaning                                                 |
//! |-----------------|-------------------------------|---------------------------------------------------------|
//! | a `local` tail  | the cluster's acquirers       | the last that wait for their master to move them; null: none |
//! | `global`        | masters, the last holder      | the last node of the queue; null: free                  |
//! | `holder`        | the holder alone              | the holder's node, for its release to find              |
//! | node            | as in [`Clh`](crate::Clh)     |                                                         |
//!
//! The cluster is that of [`Machine::place`] at run time. A master takes the local tail out of its word when it moves
//! the queue, so that the next arrival is a master itself; in the original the old tail stays and is marked, which
//! makes its node hard to recycle.
//! Order: first in, first out among queues moved to the global one; inside a cluster, too. Any thread may release.
//! Source: Luchangco, Nussbaum and Shavit 2006.

use core::ptr::null_mut;

use machine::Ordering::{AcqRel, Acquire, Relaxed};
use machine::{LINE_BYTES, Machine, Patient, PlainCell, Word};

use crate::clh::ClhNode;
use crate::{RawLock, TryLock};

/// Local queues. Dies are mostly numbered in steps of a power of two, by their first core: a prime keeps them apart.
/// Dies past it share a queue, which is slower, not wrong.
const CLUSTERS: usize = 31;

/// How long a master waits for others to join, while the lock is not to be had anyway: some hand-overs.
const JOIN_CYCLES: u64 = 1_000;

/// A cluster's queue, on a line of its own.
#[repr(C, align(64))]
struct Cluster<M: Machine> {
    tail: M::Ptr<ClhNode<M>>,
    _rest: [u64; LINE_BYTES / 8 - 1],
}

impl<M: Machine> Cluster<M> {
    const NEW: Self = Self { tail: M::Ptr::ZERO, _rest: [0; LINE_BYTES / 8 - 1] };
}

/// The hierarchical CLH lock, 33 lines.
#[repr(C)]
pub(crate) struct Hclh<M: Machine = Patient> {
    local: [Cluster<M>; CLUSTERS],
    global: Cluster<M>,
    holder: M::Cell<*mut ClhNode<M>>,
    _rest: [u64; LINE_BYTES / 8 - 1],
}

const _: () = assert!(size_of::<Hclh>() == 33 * LINE_BYTES);

// SAFETY: a waiter enters when its predecessor in the global queue has been released, or when there is none.
unsafe impl<M: Machine> RawLock<M> for Hclh<M> {
    const NEW: Self = Self {
        local: [const { Cluster::NEW }; CLUSTERS],
        global: Cluster::NEW,
        holder: M::Cell::ZERO,
        _rest: [0; LINE_BYTES / 8 - 1],
    };

    #[inline]
    fn acquire(&self) {
        let node = ClhNode::<M>::take();
        let local = &self.local[M::place().die as usize % CLUSTERS].tail;
        let mut predecessor = local.swap(node.address(), AcqRel); // [1] publishes the node to the successor
        if predecessor.is_null() {
            if !self.global.tail.load(Relaxed).is_null() {
                M::delay(JOIN_CYCLES);
            }
            let last = local.swap(null_mut(), Acquire); // [1] from those who joined
            // [2] from the release that freed the lock; publishes the last node to its successor
            predecessor = self.global.tail.swap(last, AcqRel);
        }
        // SAFETY: null or a pool's node, which lives for ever.
        if let Some(predecessor) = unsafe { predecessor.as_ref() } {
            // SAFETY: the swap has made a node of this cluster its one successor, and the caller's is that one: it took
            // either the local tail, or as the master's the first place of the queue that it moved.
            unsafe { predecessor.await_and_recycle() };
        }
        self.holder.set(node.address());
    }

    #[inline]
    unsafe fn release(&self) {
        // SAFETY: the holder's acquisition put its node here; before any acquisition it is null.
        if let Some(node) = unsafe { self.holder.get().as_ref() } {
            // SAFETY: the caller holds the lock with it.
            unsafe { node.release(&self.global.tail) };
        }
    }

    fn is_idle(&self) -> bool {
        self.local.iter().chain([&self.global]).all(|cluster| cluster.tail.load(Relaxed).is_null())
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Hclh<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        if !self.global.tail.load(Relaxed).is_null() {
            return false;
        }
        let node = ClhNode::<M>::take();
        // [2] from the release that freed the lock; publishes the node to its successor
        let taken = self.global.tail.compare_exchange(null_mut(), node.address(), AcqRel, Relaxed).is_ok();
        if taken {
            self.holder.set(node.address());
        } else {
            // SAFETY: in no queue.
            unsafe { M::free_node(node) };
        }
        taken
    }
}
