//! K42's variant of MCS: no node is needed at release.
//!
//! The lock itself is the first node of its queue: while it is held without waiters the tail says so. It says it by a
//! constant, where the original has the lock's own address, which would point nowhere if a held lock were moved.
//! A waiter's node leaves the queue when its owner gets the lock, which copies the node's link into the lock.
//!
//! | word           | written by                          | meaning                                            |
//! |----------------|-------------------------------------|----------------------------------------------------|
//! | `tail`         | acquirers, the last holder          | null: free; `HELD`: held; a node: the last waiter   |
//! | `next`         | the holder, or the first waiter     | the first waiter                                   |
//! | node `tail`    | its owner sets, predecessor clears  | not null while the owner has to wait               |
//! | node `next`    | the successor                       | the waiter behind this one                         |
//!
//! Order: first in, first out; no waiter is bypassed. Any thread may release.
//! Source: Auslander, Edelsohn, Krieger, Rosenburg and Wisniewski 2003.

use core::ptr::{null_mut, without_provenance_mut};

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Machine, Node, Patient, Word};

use crate::{FairLock, RawLock, TryLock};

/// A waiter's place in the queue; the lock is one, too.
#[repr(C)]
struct K42Node<M: Machine> {
    tail: M::Ptr<K42Node<M>>,
    next: M::Ptr<K42Node<M>>,
}

// SAFETY: two words, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for K42Node<M> {}

/// The K42 lock, 16 bytes.
#[repr(transparent)]
pub struct K42<M: Machine = Patient> {
    node: K42Node<M>,
}

const _: () = assert!(size_of::<K42>() == 16);

impl<M: Machine> K42<M> {
    /// The tail of a held lock without waiters: no node has this address.
    const HELD: *mut K42Node<M> = without_provenance_mut(1);

    /// Queues up behind `tail`, waits, and makes the lock the head of the queue again. False when `tail` was not the
    /// tail any more.
    fn wait_behind(&self, tail: *mut K42Node<M>) -> bool {
        let taken = M::allocate_node::<K42Node<M>>().node;
        let own = core::ptr::from_ref(taken).cast_mut();
        taken.next.store(null_mut(), Relaxed);
        taken.tail.store(own, Relaxed);
        // [2] publishes the node, from the predecessor and to the successor
        let queued = self.node.tail.compare_exchange(tail, own, AcqRel, Relaxed).is_ok();
        if queued {
            // SAFETY: the lock, or the node of a waiter, whose link its owner awaits before it leaves the queue.
            let before = if tail == Self::HELD { &self.node } else { unsafe { &*tail } };
            before.next.store(own, Release); // [3] to the thread that follows the link
            M::spin_until(&taken.tail, Acquire, |waiting| waiting.is_null()); // [4] from the predecessor's release
            self.leave_queue(taken);
        }
        // SAFETY: out of the queue, or never in it.
        unsafe { M::free_node(taken) };
        queued
    }

    /// The holder's node becomes free: its link moves into the lock.
    fn leave_queue(&self, held: &K42Node<M>) {
        let own = core::ptr::from_ref(held).cast_mut();
        let mut successor = held.next.load(Acquire); // [3] from the successor
        if successor.is_null() {
            self.node.next.store(null_mut(), Relaxed);
            // [2] publishes the empty link to the next waiter, which writes it
            if self.node.tail.compare_exchange(own, Self::HELD, Release, Relaxed).is_ok() {
                return;
            }
            successor = M::spin_until(&held.next, Acquire, |next| !next.is_null()); // [3] from the successor
        }
        self.node.next.store(successor, Relaxed); // read by this holder's release alone
    }
}

// SAFETY: the first in the queue holds the lock, and no thread is first before its predecessor has been released.
unsafe impl<M: Machine> RawLock<M> for K42<M> {
    const NEW: Self = Self { node: K42Node { tail: M::Ptr::ZERO, next: M::Ptr::ZERO } };

    #[inline]
    fn acquire(&self) {
        // Each turn that does not end the loop is one in which another thread queued up or left.
        while !self.try_acquire() {
            let tail = self.node.tail.load(Relaxed);
            if !tail.is_null() && self.wait_behind(tail) {
                return;
            }
        }
    }

    #[inline]
    unsafe fn release(&self) {
        let mut successor = self.node.next.load(Acquire); // [3] from the first waiter
        if successor.is_null() {
            if self.node.tail.compare_exchange(Self::HELD, null_mut(), Release, Relaxed).is_ok() {
                return; // [1] to the next acquirer
            }
            successor = M::spin_until(&self.node.next, Acquire, |next| !next.is_null()); // [3] from the first waiter
        }
        // SAFETY: a linked waiter waits on its node until the store below.
        unsafe { &*successor }.tail.store(null_mut(), Release); // [4] to the successor
    }

    fn is_idle(&self) -> bool {
        self.node.tail.load(Relaxed).is_null()
    }
}

impl<M: Machine> FairLock<M> for K42<M> {}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for K42<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        // [1] from release. Acquires only: what a waiter needs to know of the link, the release published.
        self.node.tail.compare_exchange(null_mut(), Self::HELD, Acquire, Relaxed).is_ok()
    }
}
