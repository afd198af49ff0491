//! Small runs that use every way in which a simulated thread leaves its coroutine, for Miri to look at their references:
//!
//! ```text
//! MIRIFLAGS="-Zmiri-ignore-leaks" cargo +nightly miri test -p contend-simulator --test aliasing
//! ```

mod common;

use common::{M, count, hardware, with_slices};
use contend_simulator::Simulation;
use locks::{Futex, Mcs, RawLock, Ticket};
use machine::{Clock, Deadline, Home, Integer, Machine, Ordering::Relaxed, Placed, Plan, Timeout, Word};

type U32 = <M as Machine>::U32;

/// Misses, parked and woken waiters, and hand-overs.
fn counted<L: RawLock<M>>(threads: usize) {
    let (run, report) = Simulation::new(&hardware()).run(|| count::<L>(threads, 6, 20)).unwrap();
    assert_eq!(run.operations(), 6 * threads as u64);
    assert!(report.all_lines.all_misses() > 0);
}

#[test]
fn ticket() {
    counted::<Ticket<M>>(4);
}

#[test]
fn mcs() {
    counted::<Mcs<M>>(4);
}

#[test]
fn sleepers_and_slices() {
    Simulation::new(&with_slices()).run(|| count::<Futex<M>>(10, 3, 20_000)).unwrap();
}

#[test]
fn limits() {
    let (reached, _) = Simulation::new(&hardware())
        .run(|| {
            let word = Placed::<_, M>::new(U32::ZERO, Home::Node(0));
            let given_up = Placed::<_, M>::new(U32::ZERO, Home::Node(0));
            M::run(&Plan::threads(3), &|_| {
                let timeout = Timeout::at(Deadline { clock: Clock::Monotonic, at_ns: 500 });
                if M::spin_until_or(&*word, Relaxed, timeout, |value| value == 1).is_err() {
                    given_up.fetch_add(1, Relaxed);
                }
            });
            given_up.load(Relaxed)
        })
        .unwrap();
    assert_eq!(reached, 3);
}
