//! MCS queue lock with nodes from the thread's pool.
//!
//! | word     | written by                 | meaning                                    |
//! |----------|----------------------------|--------------------------------------------|
//! | `queue`  | see [`McsQueue`]           | the queue; empty: free                     |
//! | `holder` | the holder alone           | the holder's node, for its release to find |
//!
//! [`McsQueue`] is the algorithm, with nodes of the caller. Here the interface needs none, and a release by another thread
//! finds the holder's.
//! Order: first in, first out; no waiter is bypassed. Any thread may release.
//! Source: Mellor-Crummey and Scott 1991.

use machine::{Machine, Patient, PlainCell};

use crate::mcs_queue::{McsNode, McsQueue};
use crate::{Elidable, FairLock, RawLock, TryLock};

/// The MCS lock with nodes from the thread's pool, 16 bytes.
pub struct Mcs<M: Machine = Patient> {
    queue: McsQueue<M>,
    holder: M::Cell<*mut McsNode<M>>,
}

const _: () = assert!(size_of::<Mcs>() == 16);

// SAFETY: the first in the queue holds the lock, and no node is first before its predecessor has been released.
unsafe impl<M: Machine> RawLock<M> for Mcs<M> {
    const NEW: Self = Self { queue: McsQueue::NEW, holder: M::Cell::ZERO };

    #[inline]
    fn acquire(&self) {
        let node = M::allocate_node::<McsNode<M>>().node;
        // SAFETY: a pool's node lives for ever, and is returned after its release.
        unsafe { self.queue.acquire(node) };
        self.holder.set(core::ptr::from_ref(node).cast_mut());
    }

    #[inline]
    unsafe fn release(&self) {
        M::expect_node(); // waiters have written the lock's line and the node's
        // SAFETY: the holder's acquisition put its node here; before any acquisition it is null.
        let Some(node) = (unsafe { self.holder.get().as_ref() }) else { return };
        // SAFETY: `acquire` queued this node, and it stays in the queue until this release.
        unsafe { self.queue.release(node) };
        // SAFETY: released above, so that it is in no queue.
        unsafe { M::free_node(node) };
    }

    fn is_idle(&self) -> bool {
        !self.queue.is_held()
    }
}

impl<M: Machine> FairLock<M> for Mcs<M> {}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Mcs<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        if self.queue.is_held() {
            return false;
        }
        let node = M::allocate_node::<McsNode<M>>().node;
        // SAFETY: a pool's node lives for ever, and is returned after its release, or below.
        let taken = unsafe { self.queue.try_acquire(node) };
        if taken {
            self.holder.set(core::ptr::from_ref(node).cast_mut());
        } else {
            // SAFETY: in no queue.
            unsafe { M::free_node(node) };
        }
        taken
    }
}

// SAFETY: the tail is not null while a thread holds the lock, and is written by the thread that takes a free lock.
unsafe impl<M: Machine> Elidable<M> for Mcs<M> {
    fn await_free(&self) {
        self.queue.await_free();
    }
}
