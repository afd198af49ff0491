//! Clients beyond acquire and release: parking, time-outs, parts of words, and what a report says.

use crate::common::of_parts;
use contend_checker::checked::Operation;
use contend_checker::{Bound, Checked, Exploration, Model, Report, Search, explore};
use locks::{RawLock, TryLock};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Clock, Deadline, Home, Integer, Machine, Part, Placed, PlainCell, Plan, Slept, Timeout, Word};
use workloads::client::{self, ClientKind, Shape};

type U32 = <Checked as Machine>::U32;

fn placed<T: Sync>(value: T) -> Placed<T, Checked> {
    Placed::new(value, Home::FirstTouch)
}

/// A box for one message, as a condition variable would guard it: the reader parks until it is full.
struct Letterbox {
    letter: <Checked as Machine>::Cell<u64>,
    full: U32,
}

/// The reader parks while the box is empty; the writer fills it and, if it `wakes`, unparks the reader.
fn park_and_unpark(model: Model, wakes: bool) -> Report {
    explore(&Exploration::of(model), &|| {
        let letterbox = placed(Letterbox { letter: PlainCell::ZERO, full: Word::ZERO });
        Checked::run(&Plan::threads(2), &|thread| {
            if thread == 0 {
                letterbox.letter.set(7);
                letterbox.full.store(1, Release);
                if wakes {
                    Checked::wake(&raw const letterbox.full, 1);
                }
                return;
            }
            while letterbox.full.load(Acquire) == 0 {
                Checked::sleep_while(&letterbox.full, 0, Timeout::NONE);
            }
            assert_eq!(letterbox.letter.get(), 7);
        });
        Ok(())
    })
}

#[test]
fn a_parked_thread_is_unparked_unless_nobody_does() {
    for model in Model::ALL {
        assert!(park_and_unpark(model, true).is_verified(), "{model}");
        let lost = park_and_unpark(model, false).counterexample.expect("a sleeper that nobody wakes");
        assert_eq!(lost.violation.name(), "endless wait", "{model}");
    }
}

#[test]
fn a_sleeper_with_a_deadline_ends_in_both_ways() {
    let ends = std::sync::Mutex::new(Vec::new());
    let report = explore(&Exploration::of(Model::Ra), &|| {
        let word = placed::<U32>(Word::ZERO);
        Checked::run(&Plan::threads(2), &|thread| {
            if thread == 0 {
                word.store(1, Release);
                Checked::wake(&raw const *word, 1);
            } else {
                let timeout = Timeout::at(Deadline::after_ns::<Checked>(1));
                let slept = Checked::sleep_while(&word, 0, timeout);
                ends.lock().expect("not poisoned").push(slept);
            }
        });
        Ok(())
    });
    assert!(report.is_verified());
    let ends = ends.into_inner().expect("not poisoned");
    for end in [Slept::Woken, Slept::Changed, Slept::GaveUp] {
        assert!(ends.contains(&end), "{end:?} in {ends:?}");
    }
}

/// A lock that lets every thread in.
struct Open(U32);

// SAFETY: a lock that does not exclude; only clients use it, which hand out no reference.
unsafe impl RawLock<Checked> for Open {
    const NEW: Self = Self(Word::ZERO);
    fn acquire(&self) {
        self.0.fetch_add(1, Acquire);
    }
    unsafe fn release(&self) {
        self.0.fetch_sub(1, Release);
    }
}

// SAFETY: a lock that does not exclude; only clients use it, which hand out no reference.
unsafe impl TryLock<Checked> for Open {
    fn try_acquire(&self) -> bool {
        self.acquire();
        true
    }
}

#[test]
fn two_holders_are_found_before_their_data() {
    for model in Model::ALL {
        let shape = Shape { threads: 2, acquisitions: 1 };
        let report = explore(&Exploration::of(model), &|| {
            client::exclusive::<Open, Checked>(shape).map(drop).map_err(|wrong| wrong.to_string())
        });
        let found = report.counterexample.expect("two holders");
        assert_eq!(found.violation.name(), "two holders", "{model}");
        assert!(!report.complete);
    }
}

#[test]
fn every_kind_of_client_of_a_timed_lock_is_verified() {
    for model in Model::ALL {
        for kind in ClientKind::ALL {
            let Some(_) = locks::catalogue::find("tas").filter(|lock| kind.suits(lock)) else { continue };
            let shape = Shape { threads: 2, acquisitions: 2 };
            let report =
                explore(&Exploration::of(model), &|| match client::run::<Checked>("tas", kind, shape) {
                    Some(result) => result.map(drop).map_err(|wrong| wrong.to_string()),
                    None => Err("tas has every client that suits it".to_owned()),
                });
            assert!(report.is_verified(), "{kind:?} under {model}: {:?}", report.counterexample);
            assert!(report.counts.explored > 0);
        }
    }
}

#[test]
fn parts_of_a_word_are_stored_without_losing_the_others() {
    let sums = std::sync::Mutex::new(std::collections::BTreeSet::new());
    for model in Model::ALL {
        let report = explore(&of_parts(model), &|| {
            let word = placed::<U32>(Word::ZERO);
            Checked::run(&Plan::threads(2), &|thread| {
                word.store_part(Part::Half(thread as u8), 0x11 + thread as u16, Relaxed);
            });
            sums.lock().expect("not poisoned").insert(word.load(Relaxed));
            Ok(())
        });
        assert!(report.is_verified(), "{model}");
    }
    assert_eq!(sums.into_inner().expect("not poisoned"), [0x0012_0011].into());
}

#[test]
fn a_failed_assertion_is_told_with_its_message() {
    let report = explore(&Exploration::of(Model::Sc), &|| {
        let word = placed::<U32>(Word::ZERO);
        Checked::run(&Plan::threads(2), &|thread| {
            if thread == 0 {
                word.store(1, Relaxed);
            } else {
                assert_eq!(word.load(Relaxed), 0, "the other was first");
            }
        });
        Ok(())
    });
    let found = report.counterexample.expect("an execution in which the store comes first");
    assert!(found.violation.to_string().contains("the other was first"), "{}", found.violation);
}

#[test]
fn a_limit_makes_a_bound_and_never_a_verification() {
    let shape = Shape { threads: 2, acquisitions: 3 };
    let exploration = Exploration { most_executions: Some(5), ..Exploration::of(Model::Sc) };
    let report = explore(&exploration, &|| {
        client::run::<Checked>("ticket", ClientKind::Exclusive, shape)
            .expect("a ticket")
            .map(drop)
            .map_err(|w| w.to_string())
    });
    assert!(!report.complete && !report.is_verified() && report.counterexample.is_none());
    assert_eq!(report.counts.all(), 5);
}

/// The message of a panic.
fn panic_of(explores: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(explores).expect_err("it panics");
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).expect("a message")
}

#[test]
fn a_thread_can_explore_again_after_a_client_that_runs_nothing() {
    let exploration = Exploration::of(Model::Sc);
    for _ in 0..2 {
        let message = panic_of(|| drop(explore(&exploration, &|| Ok(()))));
        assert_eq!(message, "a client calls Machine::run");
        assert!(park_and_unpark(Model::Sc, true).is_verified());
    }
    let message = panic_of(|| drop(explore(&exploration, &|| drop_report(park_and_unpark(Model::Sc, true)))));
    assert!(message.ends_with("an exploration inside another one"), "{message}");
    assert!(park_and_unpark(Model::Sc, true).is_verified());
}

fn drop_report(_: Report) -> Result<(), String> {
    Ok(())
}

#[test]
fn a_condition_that_uses_the_machine_is_refused_in_every_search() {
    for search in [Search::Executions, Search::States] {
        let exploration = Exploration { search, ..Exploration::of(Model::Sc) };
        let client = || {
            let words = placed::<[U32; 2]>([Word::ZERO, Word::ZERO]);
            Checked::run(&Plan::threads(2), &|thread| {
                words[thread].store(1, Relaxed);
                Checked::spin_until(&words[1 - thread], Acquire, |_| words[thread].load(Relaxed) == 1);
            });
            Ok(())
        };
        for _ in 0..2 {
            let found = explore(&exploration, &client).counterexample.expect("a panic is a violation");
            assert!(found.violation.to_string().contains("may not use the machine"), "{}", found.violation);
        }
        assert!(park_and_unpark(Model::Ra, true).is_verified());
    }
}

#[test]
fn the_clock_of_a_thread_may_go_on_between_two_looks_and_never_goes_back() {
    for search in [Search::Executions, Search::States] {
        let seen = std::sync::Mutex::new(std::collections::BTreeSet::new());
        let report = explore(&Exploration { search, ..Exploration::of(Model::Ra) }, &|| {
            let printed = placed::<[<Checked as Machine>::Cell<u64>; 2]>([PlainCell::ZERO, PlainCell::ZERO]);
            Checked::run(&Plan::threads(2), &|thread| {
                let looks = [(); 3].map(|()| Checked::clock_ns(Clock::Monotonic));
                assert!(looks.is_sorted(), "{looks:?}");
                let went_on = looks.windows(2).map(|two| u64::from(two[1] - two[0] > 1_000_000_000));
                printed[thread].set(went_on.fold(1, |all, one| all << 1 | one));
            });
            seen.lock().expect("not poisoned").insert([printed[0].get(), printed[1].get()]);
            Ok(())
        });
        assert!(report.is_verified(), "{search:?}: {:?}", report.counterexample);
        // Not at all, between the first two, or between the last two; and each thread for itself.
        let one = [0b100, 0b110, 0b101];
        let all = one.iter().flat_map(|&a| one.map(|b| [a, b])).collect();
        assert_eq!(seen.into_inner().expect("not poisoned"), all, "{search:?}");
    }
}

#[test]
fn who_gave_up_at_a_deadline_finds_that_it_has_passed() {
    let report = explore(&Exploration::of(Model::Ra), &|| {
        let words = placed::<[U32; 2]>([Word::ZERO, Word::ZERO]);
        Checked::run(&Plan::threads(2), &|thread| {
            let deadline = Deadline::after_ns::<Checked>(1_000);
            let timeout = Timeout::at(deadline);
            let word = &words[0];
            let gave_up = match thread {
                0 => Checked::spin_until_or(word, Acquire, timeout, |value| value == 1).is_err(),
                _ => Checked::sleep_while(&words[1], 0, timeout) == Slept::GaveUp,
            };
            assert!(!gave_up || deadline.passed::<Checked>());
        });
        Ok(())
    });
    assert!(report.is_verified(), "{:?}", report.counterexample);
}

/// The path of a waiter that was bypassed for too long, which only the clock opens.
#[test]
fn a_starving_waiter_of_a_lock_that_sleeps_is_explored() {
    let shape = Shape { threads: 2, acquisitions: 2 };
    let exploration = Exploration {
        note_accesses: true,
        search: Search::States,
        most_states: Some(100_000),
        ..Exploration::of(Model::Sc)
    };
    let report = explore(&exploration, &|| {
        client::exclusive::<locks::Futex<Checked>, Checked>(shape).map(drop).map_err(|w| w.to_string())
    });
    assert!(report.is_verified(), "{:?}", report.counterexample);
    let reserves = report.accesses.iter().any(|access| access.operation == Operation::FetchOr);
    assert!(reserves, "{:?}", report.accesses);
}

/// A waiter that gives up after it was woken must pass the wake-up on, though a plain load after its sleep may still
/// find the word as it was before.
#[test]
fn a_wake_up_is_not_lost_with_a_waiter_that_gives_up() {
    let shape = Shape { threads: 3, acquisitions: 1 };
    let exploration =
        Exploration { search: Search::States, most_states: Some(120_000), ..Exploration::of(Model::Ra) };
    let report = explore(&exploration, &|| {
        client::cancelled::<locks::Futex<Checked>, Checked>(shape).map(drop).map_err(|w| w.to_string())
    });
    assert!(report.counterexample.is_none(), "{}", report.counterexample.expect("some"));
}

#[test]
fn a_bound_says_what_it_was() {
    let shape = Shape { threads: 2, acquisitions: 2 };
    let bound = |exploration: &Exploration| {
        let report = explore(exploration, &|| {
            client::exclusive::<locks::Futex<Checked>, Checked>(shape).map(drop).map_err(|w| w.to_string())
        });
        assert!(!report.is_verified() && report.counterexample.is_none());
        (report.bound, report.counts)
    };
    let all = Exploration { search: Search::States, ..Exploration::of(Model::Sc) };
    let few = Exploration { most_states: Some(500), ..all };
    assert_eq!(bound(&few).0, Some(Bound::States));
    assert_eq!(bound(&few), bound(&few), "it ends at the same place");
    let five = Exploration { most_executions: Some(5), ..Exploration::of(Model::Sc) };
    assert_eq!(bound(&five).0, Some(Bound::Executions));
    let short = Exploration { most_states: None, most_time: Some(std::time::Duration::ZERO), ..few };
    assert_eq!(bound(&short).0, Some(Bound::Time));
}
