//! Threads that go round for ever without waiting are found from state to state, where every cycle is one that fair
//! schedulers and memories allow; next to each the same client without the mistake.

use crate::common::explored;
use contend_checker::{Bound, Checked, Model, Violation, replay};
use locks::RawLock;
use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Home, Integer, Machine, Placed, Plan, Word};
use workloads::client::{self, Shape};

/// The models under which a word holds one value. Under release-acquire a thread that is not scheduled could still read every
/// value that was ever there, so that no state comes up again until the bound on steps.
const MODELS_OF_ONE_VALUE: [Model; 3] = [Model::Sc, Model::Tso, Model::Pso];

type U32 = <Checked as Machine>::U32;

/// Threads count themselves in, and the thread that was first has the lock; the others count themselves out and try again.
/// With `WAITS` they wait until no thread is counted before. Without, two of them keep each other out for ever after the
/// holder has left.
struct CountedIn<const WAITS: bool>(U32);

// SAFETY: it excludes: the thread that adds the first 1 has the lock until it takes that away.
unsafe impl<const WAITS: bool> RawLock<Checked> for CountedIn<WAITS> {
    const NEW: Self = Self(U32::ZERO);

    fn acquire(&self) {
        while self.0.fetch_add(1, Acquire) != 0 {
            self.0.fetch_sub(1, Relaxed);
            if WAITS {
                Checked::spin_until(&self.0, Relaxed, |count| count == 0);
            }
        }
    }

    unsafe fn release(&self) {
        self.0.fetch_sub(1, Release);
    }
}

fn exclusive<L: RawLock<Checked>>(threads: usize, acquisitions: u32) -> impl Fn() -> Result<(), String> {
    move || match client::exclusive::<L, Checked>(Shape { threads, acquisitions }) {
        Ok(_) => Ok(()),
        Err(wrong) => Err(wrong.to_string()),
    }
}

#[test]
fn two_threads_that_keep_each_other_out_are_a_livelock() {
    for model in Model::ALL {
        let right = explored(model, &exclusive::<CountedIn<true>>(2, 2));
        assert!(right.is_verified(), "{model}: {:?}", right.counterexample.map(|found| found.violation));
    }
    for model in MODELS_OF_ONE_VALUE {
        let wrong = exclusive::<CountedIn<false>>(2, 2);
        let found = explored(model, &wrong).counterexample.unwrap_or_else(|| panic!("{model}: not found"));
        assert_eq!(found.violation, Violation::Livelock { threads: vec![0, 1] }, "{model}");
        assert!(!found.rows.is_empty(), "{model}: the livelock cannot be told");
        let trace = found.trace.to_string().parse().expect("a trace reads back what it writes");
        let again =
            replay(model, trace, None, &wrong).expect("fits").counterexample.expect("the same livelock");
        assert_eq!((again.violation, again.rows), (found.violation, found.rows), "{model}");
    }
}

#[test]
fn a_thread_that_only_tries_again_while_the_holder_could_go_on_is_no_livelock() {
    for model in Model::ALL {
        let report = explored(model, &exclusive::<CountedIn<false>>(2, 1));
        let found = report.counterexample.map(|found| found.violation);
        assert!(found.is_none(), "{model}: {found:?}");
        assert_eq!(report.bound, (model == Model::Ra).then_some(Bound::Capacity), "{model}");
    }
}

/// Each of two threads announces itself, and withdraws while the other has. With `TURN` only one of them withdraws.
fn dekker(turn: bool) -> impl Fn() -> Result<(), String> {
    move || {
        let flags = [0, 1].map(|_| Placed::<U32, Checked>::new(U32::ZERO, Home::FirstTouch));
        Checked::run(&Plan::threads(2), &|thread| {
            let (own, other) = (&flags[thread], &flags[1 - thread]);
            own.swap(1, AcqRel);
            while other.load(Acquire) != 0 {
                if turn && thread == 0 {
                    Checked::spin_until(&**other, Acquire, |other| other == 0);
                    break;
                }
                own.swap(0, AcqRel);
                if turn {
                    Checked::spin_until(&**other, Acquire, |other| other == 0);
                }
                own.swap(1, AcqRel);
            }
            own.store(0, Release);
        });
        Ok(())
    }
}

#[test]
fn two_polite_threads_are_a_livelock_where_stores_are_buffered_too() {
    for model in MODELS_OF_ONE_VALUE {
        let right = explored(model, &dekker(true));
        assert!(right.is_verified(), "{model}: {:?}", right.counterexample.map(|found| found.violation));
        let found = explored(model, &dekker(false)).counterexample.expect("a livelock");
        assert_eq!(found.violation, Violation::Livelock { threads: vec![0, 1] }, "{model}");
    }
}

/// One thread asks again and again for what the other one never says; with `says` it does.
fn asks(says: bool) -> impl Fn() -> Result<(), String> {
    move || {
        let word = Placed::<U32, Checked>::new(U32::ZERO, Home::FirstTouch);
        Checked::run(&Plan::threads(2), &|thread| {
            if thread == 0 {
                while word.fetch_or(0, Relaxed) == 0 {}
            } else {
                word.store(says.into(), Relaxed);
            }
        });
        Ok(())
    }
}

#[test]
fn a_thread_that_is_left_alone_and_goes_round_is_a_livelock() {
    for model in MODELS_OF_ONE_VALUE {
        assert!(explored(model, &asks(true)).is_verified(), "{model}");
        let found = explored(model, &asks(false)).counterexample.expect("a livelock");
        assert_eq!(found.violation, Violation::Livelock { threads: vec![0] }, "{model}");
        let trace = found.trace.to_string().parse().expect("a trace reads back what it writes");
        let again = replay(model, trace, None, &asks(false)).expect("fits");
        assert_eq!(again.counterexample.expect("the same livelock").violation, found.violation, "{model}");
        assert!(replay(model, found.trace, None, &asks(true)).is_err(), "{model}: it does not go round");
    }
    let report = explored(Model::Ra, &asks(false));
    assert!(!report.is_verified() && report.counterexample.is_none(), "{:?}", report.counterexample);
}
