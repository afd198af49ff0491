//! MCS with the caller's nodes: the patterns that retrofits of MCS into kernels met.

use contend_locks::{McsNode, McsQueue};
use machine::{Machine, Ordering, Patient, Plan, Word};

/// Rounds of a thread.
const ROUNDS: usize = if cfg!(miri) { 5 } else { 100 };

type Queue = McsQueue<Patient>;
type Node = McsNode<Patient>;

fn counter() -> <Patient as Machine>::U32 {
    <Patient as Machine>::U32::ZERO
}

fn bump(count: &<Patient as Machine>::U32) {
    let before = count.load(Ordering::Relaxed);
    Patient::delay(50);
    count.store(before + 1, Ordering::Relaxed);
}

#[test]
fn a_scope_holds_the_node() {
    let queue = Queue::NEW;
    let count = counter();
    Patient::run(&Plan::threads(8), &|_| (0..ROUNDS).for_each(|_| queue.critical(|| bump(&count))));
    assert_eq!(count.load(Ordering::Relaxed) as usize, 8 * ROUNDS);
    assert!(!queue.is_held());
}

#[test]
fn a_panic_inside_the_scope_releases() {
    let queue = Queue::NEW;
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| queue.critical(|| panic!("on purpose"))));
    assert!(panicked.is_err());
    assert!(!queue.is_held());
}

/// A function locks with the node of its caller's caller, another one unlocks.
#[test]
fn a_node_in_an_ancestors_frame() {
    let queue = Queue::NEW;
    let count = counter();
    fn lock_deep_below(queue: &Queue, node: &Node) {
        // SAFETY: the node lives in the frame of the thread's body, past the release.
        unsafe { queue.acquire(node) };
    }
    fn unlock_elsewhere(queue: &Queue, node: &Node) {
        // SAFETY: acquired with this node.
        unsafe { queue.release(node) };
    }
    Patient::run(&Plan::threads(6), &|_| {
        let node = Node::NEW;
        for _ in 0..ROUNDS {
            lock_deep_below(&queue, &node);
            bump(&count);
            unlock_elsewhere(&queue, &node);
        }
    });
    assert_eq!(count.load(Ordering::Relaxed) as usize, 6 * ROUNDS);
}

/// A structure points to its lock; the holder exchanges that pointer. Its release must go to the lock, and by the
/// node, that it acquired with.
#[test]
fn a_lock_pointer_exchanged_while_held() {
    let queues = [Queue::NEW, Queue::NEW];
    let counts = [counter(), counter()];
    let current = counter();
    Patient::run(&Plan::threads(6), &|thread| {
        for round in 0..ROUNDS {
            let node = Node::NEW;
            let held = loop {
                let seen = current.load(Ordering::Acquire) as usize;
                // SAFETY: released below, or at once, with this node.
                unsafe { queues[seen].acquire(&node) };
                if current.load(Ordering::Acquire) as usize == seen {
                    break seen;
                }
                // SAFETY: acquired with this node, above.
                unsafe { queues[seen].release(&node) };
            };
            bump(&counts[held]);
            if (thread + round) % 7 == 0 {
                current.store(1 - held as u32, Ordering::Release);
            }
            // SAFETY: acquired with this node; the structure may point to the other lock by now.
            unsafe { queues[held].release(&node) };
        }
    });
    let sum = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u32>();
    assert_eq!(sum as usize, 6 * ROUNDS);
    assert!(queues.iter().all(|queue| !queue.is_held()));
}

#[test]
fn a_try_finds_the_queue_empty_or_not() {
    let queue = Queue::NEW;
    let (first, second) = (Node::NEW, Node::NEW);
    // SAFETY: both nodes outlive their releases; each is released only if its try said true.
    unsafe {
        assert!(queue.try_acquire(&first));
        assert!(!queue.try_acquire(&second));
        queue.release(&first);
        assert!(queue.try_acquire(&second));
        queue.release(&second);
    }
    assert_eq!(queue.try_critical(|| queue.try_critical(|| ())), Some(None));
    assert_eq!(queue.try_critical(|| 5), Some(5));
}
