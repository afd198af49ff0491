//! Hierarchical MCS lock.
//!
//! The threads of a cluster (cores that share a last-level cache) queue up among themselves, and the first of such a queue
//! queues up for the cluster in a global one. A release goes to the next thread of the cluster, [`MOST_IN_A_ROW`] times at
//! most, then to the next cluster: the lock and the data that it protects cross between clusters once in so many sections.
//!
//! | word           | written by                        | meaning                                                       |
//! |----------------|-----------------------------------|---------------------------------------------------------------|
//! | a `local` tail | the cluster's threads             | the last of the cluster's queue; null: none                   |
//! | `global`       | see [`McsQueue`]                  | the queue of clusters; empty: free                            |
//! | `holder`       | the holder alone                  | its node in the cluster's queue; null: it tried, and has none |
//! | `cluster`      | the holder alone                  | the number of that queue                                      |
//! | `place`        | the first of a cluster's row      | the cluster's node in the global queue                        |
//! | node `next`    | the successor                     | the node behind this one                                      |
//! | node `status`  | owner, then predecessor, owner    | waiting; the cluster's first; or how often the cluster has passed the lock on |
//!
//! A thread leaves its cluster's queue before it releases the global one: it touches nothing of a lock that may be gone. In
//! the original the global queue comes first, since the next of the cluster uses the same node there; here each takes one of
//! its own pool, which may so stand in the queue while the one before is still released.
//! Order: first in, first out inside a cluster and among clusters; a cluster passes the lock on at most 64 times while
//! others wait. Any thread may release.
//! Source: Chabbi, Fagan and Mellor-Crummey 2015, with two levels.

use core::ptr::{from_ref, null_mut};

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{LINE_BYTES, Machine, Node, Patient, PlainCell, Word};

use crate::mcs_queue::{McsNode, McsQueue};
use crate::{RawLock, TryLock};

/// Queues of clusters. Dies are mostly numbered in steps of a power of two, by their first core: a prime keeps them apart.
/// Dies past it share a queue, which is slower, not wrong.
const CLUSTERS: usize = 31;

/// How often a cluster passes the lock on before another one gets it: so many that crossing hardly counts, and few beside
/// the time for which a thread runs.
const MOST_IN_A_ROW: u32 = 64;

/// A node's `status` while its owner waits.
const WAITING: u32 = 0;
/// A node's `status` when its owner has to take the global queue for its cluster.
const FIRST: u32 = 1;
/// A node's `status` when its owner holds the lock: this, and how often the cluster has passed it on.
const HOLDS: u32 = 2;

/// A place in a cluster's queue.
#[repr(C)]
struct HmcsNode<M: Machine> {
    next: M::Ptr<HmcsNode<M>>,
    status: M::U32,
    _padding: M::Cell<u32>, // see `Node`
}

// SAFETY: two words and no padding, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for HmcsNode<M> {}

/// A cluster's queue, on a line of its own.
#[repr(C, align(64))]
struct Cluster<M: Machine> {
    tail: M::Ptr<HmcsNode<M>>,
    _rest: [u64; LINE_BYTES / 8 - 1],
}

impl<M: Machine> Cluster<M> {
    const NEW: Self = Self { tail: M::Ptr::ZERO, _rest: [0; LINE_BYTES / 8 - 1] };

    /// Queues up behind the cluster's last thread and waits for its release. True if that was the lock's, too.
    #[inline]
    fn join(&self, node: &HmcsNode<M>) -> bool {
        node.next.store(null_mut(), Relaxed);
        node.status.store(WAITING, Relaxed);
        // [1] publishes the node to the successor, from the predecessor
        let predecessor = self.tail.swap(from_ref(node).cast_mut(), AcqRel);
        // SAFETY: null or a node whose owner leaves the queue after the link that is stored here.
        let Some(predecessor) = (unsafe { predecessor.as_ref() }) else { return false };
        predecessor.next.store(from_ref(node).cast_mut(), Release); // [2] to the predecessor's release
        M::spin_until(&node.status, Acquire, |status| status != WAITING) != FIRST // [3] from the predecessor's release
    }

    /// Lets the next of the cluster's queue be its first, if there is one.
    #[inline]
    fn leave(&self, node: &HmcsNode<M>) {
        let mut successor = node.next.load(Acquire); // [2] from the successor
        if successor.is_null() {
            // A later thread finds an empty queue and takes nothing from this one but by the global queue.
            if self.tail.compare_exchange(from_ref(node).cast_mut(), null_mut(), Relaxed, Relaxed).is_ok() {
                return;
            }
            // Another thread is between its swap and its link.
            successor = M::spin_until(&node.next, Acquire, |next| !next.is_null()); // [2] from the successor
        }
        // SAFETY: a linked successor waits on its node until the store below.
        unsafe { &*successor }.status.store(FIRST, Release); // [3] to the successor
    }
}

/// The hierarchical MCS lock, 32 lines.
#[repr(C)]
pub(crate) struct Hmcs<M: Machine = Patient> {
    local: [Cluster<M>; CLUSTERS],
    global: McsQueue<M>,
    place: M::Cell<*mut McsNode<M>>,
    holder: M::Cell<*mut HmcsNode<M>>,
    cluster: M::Cell<u64>,
    _rest: [u64; LINE_BYTES / 8 - 4],
}

const _: () = assert!(size_of::<Hmcs>() == 32 * LINE_BYTES);

// SAFETY: the first in the global queue holds the lock, or the thread of its cluster to which it was passed on; no node is
// first before its predecessor has been released, and the cluster's is released by the last of the row.
unsafe impl<M: Machine> RawLock<M> for Hmcs<M> {
    const NEW: Self = Self {
        local: [const { Cluster::NEW }; CLUSTERS],
        global: McsQueue::NEW,
        place: M::Cell::ZERO,
        holder: M::Cell::ZERO,
        cluster: M::Cell::ZERO,
        _rest: [0; LINE_BYTES / 8 - 4],
    };

    #[inline]
    fn acquire(&self) {
        let cluster = M::place().die as usize % CLUSTERS;
        let node = M::allocate_node::<HmcsNode<M>>().node;
        if !self.local[cluster].join(node) {
            let place = M::allocate_node::<McsNode<M>>().node;
            // SAFETY: a pool's node lives for ever, and is returned after its release.
            unsafe { self.global.acquire(place) };
            self.place.set(from_ref(place).cast_mut());
            node.status.store(HOLDS, Relaxed); // read by this acquisition's release alone
        }
        self.holder.set(from_ref(node).cast_mut());
        self.cluster.set(cluster as u64);
    }

    #[inline]
    unsafe fn release(&self) {
        // SAFETY: the holder's acquisition put its node here, or null.
        let node = unsafe { self.holder.get().as_ref() };
        if let Some(node) = node {
            let status = node.status.load(Relaxed);
            let successor = node.next.load(Acquire); // [2] from the successor
            if status < HOLDS + MOST_IN_A_ROW && !successor.is_null() {
                // SAFETY: a linked successor waits on its node until the store below.
                unsafe { &*successor }.status.store(status + 1, Release); // [3] to the successor
                // SAFETY: its successor is the queue's first now, so that it is in no queue.
                unsafe { M::free_node(node) };
                return;
            }
        }
        // SAFETY: the thread that took the global queue put its node here; before any acquisition it is null.
        let Some(place) = (unsafe { self.place.get().as_ref() }) else { return };
        if let Some(node) = node {
            self.local[self.cluster.get() as usize].leave(node);
            // SAFETY: it has left the only queue that it was in.
            unsafe { M::free_node(node) };
        }
        // SAFETY: the global queue was taken with this node, and it stays there until this release.
        unsafe { self.global.release(place) };
        // SAFETY: released above, so that it is in no queue.
        unsafe { M::free_node(place) };
    }

    fn is_idle(&self) -> bool {
        !self.global.is_held() && self.local.iter().all(|cluster| cluster.tail.load(Relaxed).is_null())
    }
}

// SAFETY: true only when the thread is the first of the global queue.
unsafe impl<M: Machine> TryLock<M> for Hmcs<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        if self.global.is_held() {
            return false;
        }
        let place = M::allocate_node::<McsNode<M>>().node;
        // SAFETY: a pool's node lives for ever, and is returned after its release, or below.
        let taken = unsafe { self.global.try_acquire(place) };
        if taken {
            self.place.set(from_ref(place).cast_mut());
            self.holder.set(null_mut());
        } else {
            // SAFETY: in no queue.
            unsafe { M::free_node(place) };
        }
        taken
    }
}
