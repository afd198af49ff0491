//! Small explorations that use every way in which a checked thread leaves its coroutine, for Miri to look at their
//! references (add `-Zmiri-tree-borrows` for the other model of them):
//!
//! ```text
//! MIRIFLAGS=-Zmiri-permissive-provenance cargo +nightly miri test -p contend-checker --test aliasing
//! ```
//!
//! From state to state the checker copies the stacks of coroutines, of which Miri has none.

use contend_checker::{Checked, Exploration, Model, ReplayTrace, explore, replay};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Home, Machine, Placed, PlainCell, Plan, Word};
use workloads::client::{self, ClientKind, Shape};

/// Every execution of two threads that take a lock once each.
fn verified(lock: &str, kind: ClientKind) {
    let shape = Shape { threads: 2, acquisitions: 1 };
    let report = explore(&Exploration::of(Model::Ra), &|| {
        let ran = client::run::<Checked>(lock, kind, shape).expect("the lock has such a client");
        ran.map(drop).map_err(|wrong| wrong.to_string())
    });
    assert!(report.is_verified(), "{:?}", report.counterexample);
    assert!(report.counts.explored > 1, "{:?}", report.counts);
}

#[test]
fn threads_that_wait() {
    verified("ticket", ClientKind::Exclusive);
}

#[test]
fn queue_nodes() {
    verified("mcs", ClientKind::Exclusive);
}

#[test]
fn attempts_and_limits() {
    verified("tas", ClientKind::Timed);
}

/// Sends a message, with an ordering that publishes it or not.
fn send(ordering: machine::Ordering) -> Result<(), String> {
    let text = Placed::<_, Checked>::new(<Checked as Machine>::Cell::<u64>::ZERO, Home::FirstTouch);
    let sent = Placed::<_, Checked>::new(<Checked as Machine>::U32::ZERO, Home::FirstTouch);
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            text.set(42);
            sent.store(1, ordering);
        } else {
            Checked::spin_until(&*sent, Acquire, |sent| sent == 1);
            assert_eq!(text.get(), 42);
        }
    });
    Ok(())
}

#[test]
fn a_violation_and_its_replay() {
    assert!(explore(&Exploration::of(Model::Ra), &|| send(Release)).is_verified());
    let found = explore(&Exploration::of(Model::Ra), &|| send(Relaxed)).counterexample.expect("a race");
    let text = found.trace.to_string();
    let trace = text.parse::<ReplayTrace>().expect("a trace reads back what it writes");
    let again = replay(Model::Ra, trace, None, &|| send(Relaxed)).expect("fits the code");
    assert_eq!(again.counterexample.expect("the same race").violation, found.violation);
}

#[test]
fn a_panic_of_a_thread() {
    let report = explore(&Exploration::of(Model::Sc), &|| {
        Checked::run(&Plan::threads(2), &|thread| assert_ne!(thread, 1, "the second one"));
        Ok(())
    });
    assert_eq!(report.counterexample.expect("a panic").violation.name(), "panic");
}
