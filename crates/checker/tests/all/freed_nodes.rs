//! Queue nodes that are freed twice, found in both searches, and that no lock keeps once it is dropped.

use crate::common;

use crate::common::{by_states, violation};
use contend_checker::checked::nodes_out;
use contend_checker::{Checked, Exploration, Model, explore};
use locks::catalogue::{LOCKS, Lock, Visitor, visit};
use locks::{RawLock, TryLock};
use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Home, Machine, Node, Placed, PlainCell, Plan, Word};
use workloads::client::{self, Shape};

type U32 = <Checked as Machine>::U32;
type Ptr<T> = <Checked as Machine>::Ptr<T>;
type Cell<T> = <Checked as Machine>::Cell<T>;

#[repr(C)]
struct QueueNode {
    is_held: U32,
}

// SAFETY: zero bits are valid, at most a line, nothing to drop, words of the machine only.
unsafe impl Node<Checked> for QueueNode {}

/// A CLH lock, whose holder frees the node of its predecessor. With `TWICE` it does so again when it releases.
struct Clh<const TWICE: bool> {
    tail: Ptr<QueueNode>,
    holder: Cell<*mut QueueNode>,
    predecessor: Cell<*mut QueueNode>,
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const TWICE: bool> RawLock<Checked> for Clh<TWICE> {
    const NEW: Self = Self { tail: Ptr::ZERO, holder: Cell::ZERO, predecessor: Cell::ZERO };

    fn acquire(&self) {
        let node = Checked::allocate_node::<QueueNode>().node;
        node.is_held.store(1, Relaxed);
        let own = std::ptr::from_ref(node).cast_mut();
        let predecessor = self.tail.swap(own, AcqRel);
        // SAFETY: null or a node of the machine's memory.
        if let Some(before) = unsafe { predecessor.as_ref() } {
            Checked::spin_until(&before.is_held, Acquire, |is_held| is_held == 0);
            // SAFETY: no other thread waits on it.
            unsafe { Checked::free_node(before) };
        }
        self.holder.set(own);
        self.predecessor.set(predecessor);
    }

    unsafe fn release(&self) {
        // SAFETY: the holder's node.
        let node = unsafe { &*self.holder.get() };
        // SAFETY: null or a node of the machine's memory.
        if let (true, Some(before)) = (TWICE, unsafe { self.predecessor.get().as_ref() }) {
            // SAFETY: wrong on purpose.
            unsafe { Checked::free_node(before) };
        }
        let own = std::ptr::from_ref(node).cast_mut();
        if self.tail.compare_exchange(own, std::ptr::null_mut(), Release, Relaxed).is_ok() {
            // SAFETY: no longer the lock's.
            return unsafe { Checked::free_node(node) };
        }
        node.is_held.store(0, Release);
    }
}

#[test]
fn a_node_that_is_freed_twice_is_found() {
    let shape = Shape { threads: 2, acquisitions: 1 };
    for model in Model::ALL {
        for exploration in [Exploration::of(model), by_states(model)] {
            let right = explore(&exploration, &|| run::<false>(shape));
            let found = right.counterexample.as_ref().map(ToString::to_string);
            assert!(right.is_verified(), "{model}: {}", found.unwrap_or_default());
            let wrong = explore(&exploration, &|| run::<true>(shape));
            assert_eq!(violation(&wrong).name(), "node used after its return", "{model}");
        }
    }
}

fn run<const TWICE: bool>(shape: Shape) -> Result<(), String> {
    client::exclusive::<Clh<TWICE>, Checked>(shape).map(drop).map_err(|wrong| wrong.to_string())
}

/// A failed attempt that has freed a node is no wait: the next one frees it again.
#[test]
fn a_node_that_every_attempt_frees_is_freed_twice() {
    for exploration in [Exploration::of(Model::Sc), by_states(Model::Sc)] {
        let report = explore(&exploration, &|| {
            let word = Placed::<_, Checked>::new(U32::ZERO, Home::FirstTouch);
            Checked::run(&Plan::threads(2), &|thread| {
                if thread == 1 {
                    word.store(1, Relaxed);
                    return;
                }
                let node = Checked::allocate_node::<QueueNode>().node;
                Checked::spin_rmw(&*word, |word| {
                    // SAFETY: no lock has it; wrong on purpose when the first attempt has failed.
                    unsafe { Checked::free_node(node) };
                    word.load(Relaxed) == 1
                });
            });
            Ok(())
        });
        assert_eq!(violation(&report).name(), "node used after its return");
    }
}

/// What the client's own thread frees twice, with no other thread left.
#[test]
fn a_node_that_the_client_itself_frees_twice_is_found() {
    for exploration in [Exploration::of(Model::Sc), by_states(Model::Sc)] {
        let report = explore(&exploration, &|| {
            Checked::run(&Plan::threads(1), &|_| {});
            let node = Checked::allocate_node::<QueueNode>().node;
            // SAFETY: no lock has it.
            unsafe { Checked::free_node(node) };
            // SAFETY: wrong on purpose.
            unsafe { Checked::free_node(node) };
            Ok(())
        });
        assert_eq!(violation(&report).name(), "panic");
    }
}

/// One thread holds the lock, and another tries to. Then the lock is dropped.
struct Dropped;

impl Visitor<Checked> for Dropped {
    type Output = Result<(), String>;

    fn tried<L: TryLock<Checked>>(self, _: &Lock) -> Self::Output {
        let lock = Placed::<L, Checked>::new(L::NEW, Home::FirstTouch);
        Checked::run(&Plan::threads(2), &|thread| {
            let holds = if thread == 0 {
                lock.try_acquire()
            } else {
                lock.acquire();
                true
            };
            if holds {
                // SAFETY: acquired above.
                unsafe { lock.release() };
            }
        });
        drop(lock);
        if nodes_out() == 0 { Ok(()) } else { Err(format!("{} nodes are not freed", nodes_out())) }
    }
}

#[test]
fn a_dropped_lock_keeps_no_node() {
    for lock in LOCKS {
        let client = || visit::<Checked, _>(lock.name, Dropped).expect("a lock of the catalogue");
        common::is_right(lock.name, &by_states(Model::Sc), &client);
    }
}
