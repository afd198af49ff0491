//! What runs in the simulated kernel, instead of its own lists of sleepers.

mod common;

use common::{M, with_slices};
use contend_simulator::{Futexes, Simulated, Simulation};
use machine::{Clock, Home, Machine, Placed, Plan, Slept, Timeout, Word};
use std::sync::Mutex;

type Word32 = <M as Machine>::U32;

/// Far longer than a slice.
const CYCLES: u64 = 400_000;

fn now_ns() -> u64 {
    M::clock_ns(Clock::Monotonic)
}

/// Runs `first` on a core, and on the same one a thread that has little to do: when that one is done, in nanoseconds.
fn other_is_done_ns(first: impl Fn() + Sync) -> u64 {
    let done = Mutex::new(0);
    M::run(&Plan::on(&[0, 0]), &|thread| {
        if thread == 0 {
            first();
        } else {
            M::delay(1);
            *done.lock().unwrap() = now_ns();
        }
    });
    done.into_inner().unwrap()
}

#[test]
fn a_thread_keeps_its_core_in_the_kernel_and_may_sleep_there() {
    let run = Simulation::new(&with_slices()).run(|| {
        let word = Placed::<_, M>::new(Word32::ZERO, Home::Node(0));
        let over = Mutex::new(0);
        let compute = || {
            M::delay(CYCLES);
            *over.lock().unwrap() = now_ns();
        };
        let other = other_is_done_ns(compute);
        assert!(other < *over.lock().unwrap(), "it loses its core outside");
        let wait = |_: &Word32, _, _: Timeout<'_, M>| {
            compute();
            Slept::Changed
        };
        let computes = Futexes { wait: &wait, wake: &|_, _| 0 };
        let sleep = || assert_eq!(M::sleep_while(&word, 0, Timeout::NONE), Slept::Changed);
        let other = computes.during(|| other_is_done_ns(sleep));
        assert!(other > *over.lock().unwrap(), "it keeps its core in the kernel");
        let sleeps = Futexes {
            wait: &|word, expected, timeout| M::sleep_while(word, expected, timeout),
            wake: &|word, count| M::wake(word, count),
        };
        let woken = Mutex::new(0);
        sleeps.during(|| {
            M::run(&Plan::on(&[0, 0]), &|thread| {
                if thread == 0 {
                    assert_eq!(M::sleep_while(&word, 0, Timeout::NONE), Slept::Woken);
                } else {
                    M::delay(CYCLES);
                    *woken.lock().unwrap() = M::wake(&raw const *word, 1);
                }
            });
        });
        assert_eq!(woken.into_inner().unwrap(), 1);
    });
    run.unwrap_or_else(|stopped| panic!("{stopped}"));
}

/// A sleep and a wake-up whose kernel does nothing else take as long as those of the simulation itself.
#[test]
fn the_way_into_the_kernel_is_paid_once() {
    let elapsed_ns = |futexes: Option<Futexes<'_>>| {
        let run = || {
            let word = Placed::<_, M>::new(Word32::ZERO, Home::Node(0));
            let run = Simulated::run(&Plan::threads(2), &|thread| {
                if thread == 0 {
                    M::sleep_while(&word, 0, Timeout::NONE);
                } else {
                    M::delay(CYCLES);
                    M::wake(&raw const *word, 1);
                }
            });
            run.elapsed_ns
        };
        let run = Simulation::new(&with_slices()).run(|| match futexes {
            Some(futexes) => futexes.during(run),
            None => run(),
        });
        run.unwrap_or_else(|stopped| panic!("{stopped}")).0
    };
    let sleeps = Futexes {
        wait: &|word, expected, timeout| M::sleep_while(word, expected, timeout),
        wake: &|word, count| M::wake(word, count),
    };
    assert_eq!(elapsed_ns(Some(sleeps)), elapsed_ns(None));
}
