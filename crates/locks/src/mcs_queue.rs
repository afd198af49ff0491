//! MCS queue lock with nodes of the caller.
//!
//! An acquirer appends its node to a queue and waits on a word of that node, which its predecessor clears. So every
//! waiter watches a line of its own, and a hand-over costs the same however many wait.
//!
//! | word           | written by                        | meaning                                     |
//! |----------------|-----------------------------------|---------------------------------------------|
//! | `tail`         | acquirers, the last holder        | the last node of the queue; null: free      |
//! | node `next`    | the successor                     | the node behind this one                    |
//! | node `waiting` | its owner sets, predecessor clears | 1 while the owner has to wait              |
//!
//! Order: first in, first out; no waiter is bypassed. Any thread that has the holder's node may release.
//! Source: Mellor-Crummey and Scott 1991.

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Machine, Node, Patient, PlainCell, Word};

/// A place in the queue of an MCS lock.
#[repr(C)]
pub struct McsNode<M: Machine> {
    next: M::Ptr<McsNode<M>>,
    waiting: M::U32,
    _padding: M::Cell<u32>, // see `Node`
}

// SAFETY: two words and no padding, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for McsNode<M> {}

impl<M: Machine> McsNode<M> {
    /// A node that is in no queue.
    pub const NEW: Self = Self { next: M::Ptr::ZERO, waiting: M::U32::ZERO, _padding: PlainCell::ZERO };
}

/// The MCS lock whose nodes are the caller's, 8 bytes.
///
/// [`critical`](McsQueue::critical) is the scoped form; the others are for nodes that live elsewhere: in a caller's
/// frame, or in a structure whose lock pointer may be exchanged while it is held, so that the holder must keep lock
/// and node itself.
///
/// ```
/// use contend_locks::McsQueue;
///
/// static QUEUE: McsQueue = McsQueue::NEW;
/// assert_eq!(QUEUE.critical(|| 6 * 7), 42);
/// ```
pub struct McsQueue<M: Machine = Patient> {
    tail: M::Ptr<McsNode<M>>,
}

const _: () = assert!(size_of::<McsQueue>() == 8);

impl<M: Machine> McsQueue<M> {
    /// The lock, free.
    pub const NEW: Self = Self { tail: M::Ptr::ZERO };

    /// Runs `body` while holding the lock, with a node in this frame. A panic of `body` releases.
    #[inline]
    pub fn critical<R>(&self, body: impl FnOnce() -> R) -> R {
        let node = McsNode::NEW;
        // SAFETY: the node outlives the guard, which releases even when `body` panics.
        unsafe { self.acquire(&node) };
        let _held = Held(self, &node);
        body()
    }

    /// The same if no thread is in the queue; none otherwise.
    #[inline]
    pub fn try_critical<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        let node = McsNode::NEW;
        // SAFETY: the node outlives the guard, which releases even when `body` panics.
        if !unsafe { self.try_acquire(&node) } {
            return None;
        }
        let _held = Held(self, &node);
        Some(body())
    }

    /// Whether a thread holds the lock, as of some moment ago.
    #[inline]
    pub fn is_held(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }

    /// Appends `node` and waits for its turn.
    ///
    /// # Safety
    /// `node` stays valid, and is used for nothing else, until its `release` has returned.
    #[inline]
    pub unsafe fn acquire(&self, node: &McsNode<M>) {
        node.next.store(core::ptr::null_mut(), Relaxed);
        let own = core::ptr::from_ref(node).cast_mut();
        // [1] from the release that freed the lock; [2] publishes the node to the successor, from the predecessor.
        let predecessor = self.tail.swap(own, AcqRel);
        // SAFETY: null or a node whose release waits for the link that is stored here.
        if let Some(predecessor) = unsafe { predecessor.as_ref() } {
            node.waiting.store(1, Relaxed); // before the predecessor knows of the node
            predecessor.next.store(own, Release); // [3] to the predecessor's release
            M::spin_until(&node.waiting, Acquire, |waiting| waiting == 0); // [4] from the predecessor's release
        }
    }

    /// Waits until no thread is in the queue.
    pub(crate) fn await_free(&self) {
        M::spin_until(&self.tail, Relaxed, |tail| tail.is_null());
    }

    /// Takes the lock if no thread is in the queue.
    ///
    /// # Safety
    /// As `acquire`, if it says true.
    #[inline]
    pub unsafe fn try_acquire(&self, node: &McsNode<M>) -> bool {
        node.next.store(core::ptr::null_mut(), Relaxed);
        let own = core::ptr::from_ref(node).cast_mut();
        // [1] from the release that freed the lock; [2] publishes the node to the successor.
        self.tail.compare_exchange(core::ptr::null_mut(), own, AcqRel, Relaxed).is_ok()
    }

    /// Lets the successor in, or frees the lock. Neither lock nor node is touched by the lock afterwards.
    ///
    /// # Safety
    /// `node` is the one that the holder acquired with.
    #[inline]
    pub unsafe fn release(&self, node: &McsNode<M>) {
        let mut successor = node.next.load(Acquire); // [3] from the successor
        if successor.is_null() {
            let own = core::ptr::from_ref(node).cast_mut();
            if self.tail.compare_exchange(own, core::ptr::null_mut(), Release, Relaxed).is_ok() {
                // [1] to the next acquirer
                return;
            }
            // Another thread is between its swap and its link.
            successor = M::spin_until(&node.next, Acquire, |next| !next.is_null()); // [3] from the successor
        }
        // SAFETY: a linked successor waits on its node until the store below.
        unsafe { &*successor }.waiting.store(0, Release); // [4] to the successor
    }
}

/// A queue that is held with a node of the frame that this lies in.
struct Held<'a, M: Machine>(&'a McsQueue<M>, &'a McsNode<M>);

impl<M: Machine> Drop for Held<'_, M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: made by the thread that acquired with this node.
        unsafe { self.0.release(self.1) };
    }
}
