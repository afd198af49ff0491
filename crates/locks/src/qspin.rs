//! Queued spin lock.
//!
//! An MCS queue behind a word of 32 bits. The first waiter needs no node: it sets `PENDING` and watches the word.
//! Those after it queue up, and the head of the queue watches the word in its place. A node is in use only while its
//! owner waits, so that a held lock owns nothing.
//!
//! | bits     | name      | set by                    | cleared by                          |
//! |----------|-----------|---------------------------|-------------------------------------|
//! | 0 to 7   | `LOCKED`  | acquirers                 | the release, which stores this byte |
//! | 8 to 15  | `PENDING` | the first waiter          | the same, as it enters              |
//! | 16 to 31 | tail      | a waiter that queues up   | the last in the queue, as it enters: name of its node + 1 |
//!
//! | word         | written by                        | meaning                        |
//! |--------------|-----------------------------------|--------------------------------|
//! | node `next`  | the successor                     | the node behind this one       |
//! | node `waits` | its owner sets, predecessor clears | 1 until the owner is the head |
//!
//! A thread has four nodes that a 16-bit name can stand for; past them, and past thread 16,383, it spins on the word.
//! Order: first in, first out, but for those who find the word free between a release and the head's poll, and
//! those who spin without a node. Any thread may release.
//! Source: Linux 4.2 `kernel/locking/qspinlock.c`.

use core::ptr::null_mut;

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Integer, Machine, Node, Part, Patient, TakenNode, Word};

use crate::{Elidable, RawLock, TryLock};

const LOCKED: u32 = 1;
const PENDING: u32 = 1 << 8;
/// The bits of both, whatever their value.
const LOCKED_OR_PENDING: u32 = 0xffff;
const TAIL_SHIFT: u32 = 16;
const LOCKED_PART: Part = Part::Byte(0);
const LOCKED_AND_PENDING_PART: Part = Part::Half(0);

/// A waiter's place in the queue.
struct QspinNode<M: Machine> {
    next: M::Ptr<QspinNode<M>>,
    waits: M::U32,
    _padding: M::Cell<u32>, // see `Node`
}

// SAFETY: two words and no padding, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for QspinNode<M> {}

/// The queued spin lock, 4 bytes.
pub struct Qspin<M: Machine = Patient> {
    word: M::U32,
}

const _: () = assert!(size_of::<Qspin>() == 4);

/// The tail for a node of this name, if 16 bits can hold it.
fn tail_of(name: Option<u32>) -> Option<u32> {
    let tail = u16::try_from(name?).ok()?.checked_add(1)?;
    Some(u32::from(tail) << TAIL_SHIFT)
}

impl<M: Machine> Qspin<M> {
    #[inline]
    fn take_when_free(&self) -> bool {
        self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok() // [1] from release
    }

    #[cold]
    fn wait(&self) {
        if self.word.load(Relaxed) & !LOCKED != 0 || !self.wait_pending() {
            self.queue_up();
        }
    }

    /// Waits as the only waiter. False when another thread waits already.
    fn wait_pending(&self) -> bool {
        let before = self.word.fetch_or(PENDING, Acquire); // [1] from release, when the lock is free by now
        if before & !LOCKED != 0 {
            if before & PENDING == 0 {
                self.word.fetch_and(!PENDING, Relaxed);
            }
            return false;
        }
        if before & LOCKED != 0 {
            M::spin_until(&self.word, Acquire, |word| word & LOCKED == 0); // [1] from release
        }
        // Only the pending waiter may write these two bytes now.
        self.word.store_part(LOCKED_AND_PENDING_PART, LOCKED as u16, Relaxed);
        true
    }

    fn queue_up(&self) {
        let TakenNode { node, name } = M::allocate_node::<QspinNode<M>>();
        match tail_of(name) {
            Some(tail) => {
                self.wait_queued(node, tail);
            }
            None => M::spin_rmw(&self.word, |_| self.take_when_free()),
        }
        // SAFETY: out of the queue, or never in it.
        unsafe { M::free_node(node) };
    }

    fn wait_queued(&self, node: &'static QspinNode<M>, tail: u32) {
        node.next.store(null_mut(), Relaxed);
        node.waits.store(1, Relaxed);
        let before = self.append(tail);
        if before != 0 {
            // SAFETY: the tail is the name of a node of this kind, plus one.
            let before: &QspinNode<M> = unsafe { M::named_node((before >> TAIL_SHIFT) - 1) };
            before.next.store(core::ptr::from_ref(node).cast_mut(), Release); // [3] to the predecessor
            M::spin_until(&node.waits, Acquire, |waits| waits == 0); // [4] from the predecessor
        }
        let seen = M::spin_until(&self.word, Acquire, |word| word & LOCKED_OR_PENDING == 0); // [1] from release
        if seen == tail && self.word.compare_exchange(tail, LOCKED, Relaxed, Relaxed).is_ok() {
            return; // the last in the queue: the tail is gone, too
        }
        self.word.store_part(LOCKED_PART, LOCKED as u16, Relaxed); // no other thread may while there is a queue
        let next = M::spin_until(&node.next, Acquire, |next| !next.is_null()); // [3] from the successor
        // SAFETY: a linked successor waits on its node until the store below.
        unsafe { &*next }.waits.store(0, Release); // [4] to the successor
    }

    /// Sets the tail and gives the one before, shifted as it is.
    fn append(&self, tail: u32) -> u32 {
        let mut now = self.word.load(Relaxed);
        loop {
            let appended = now & LOCKED_OR_PENDING | tail;
            // [2] publishes the node, from the predecessor and to the successor
            match self.word.compare_exchange(now, appended, AcqRel, Relaxed) {
                Ok(_) => return now & !LOCKED_OR_PENDING,
                Err(other) => now = other,
            }
        }
    }
}

// SAFETY: between two releases the byte of the holder is set once: from a free word, by the pending waiter, or, when
// no waiter is pending, by the head of the queue, of which there is one.
unsafe impl<M: Machine> RawLock<M> for Qspin<M> {
    const NEW: Self = Self { word: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        if !self.take_when_free() {
            self.wait();
        }
    }

    #[inline]
    unsafe fn release(&self) {
        self.word.store_part(LOCKED_PART, 0, Release); // [1] to the pending waiter, the head, or a newcomer
    }

    fn is_idle(&self) -> bool {
        self.word.load(Relaxed) == 0
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Qspin<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.take_when_free()
    }
}

// SAFETY: a thread that holds it has written its word, which is free only when no thread does.
unsafe impl<M: Machine> Elidable<M> for Qspin<M> {
    fn await_free(&self) {
        M::spin_until(&self.word, Relaxed, |word| word == 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_fit_have_no_tail() {
        assert_eq!(tail_of(None), None);
        assert_eq!(tail_of(Some(0)), Some(1 << TAIL_SHIFT));
        assert_eq!(tail_of(Some(65_534)), Some(0xffff << TAIL_SHIFT));
        assert_eq!(tail_of(Some(65_535)), None);
    }
}
