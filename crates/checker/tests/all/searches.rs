//! Small clients of waits, stores to part of a word and fences, of which it is known how they end: each search says so.

use contend_checker::checked::until_arrived;
use contend_checker::{Bound, Checked, Exploration, Model, Report, Search, explore};
use machine::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use machine::{Home, Integer, Machine, Part, Placed, PlainCell, Plan, Timeout, Word};
use std::collections::BTreeSet;
use std::sync::Mutex;

const WAYS: [Search; 3] = [Search::Executions, Search::States, Search::Interleavings];

type U32 = <Checked as Machine>::U32;

struct Shared {
    x: U32,
    y: U32,
    read: <Checked as Machine>::Cell<u64>,
}

/// What the first thread reads at its end, and what `x` holds then, in every execution of two threads.
fn ends(
    model: Model,
    search: Search,
    first: impl Fn(&Shared) -> u64 + Sync,
    second: impl Fn(&Shared) + Sync,
) -> (BTreeSet<(u64, u32)>, Report) {
    let ends = Mutex::new(BTreeSet::new());
    let report = explore(&Exploration { search, ..Exploration::of(model) }, &|| {
        let shared = Shared { x: Word::ZERO, y: Word::ZERO, read: PlainCell::ZERO };
        let shared = Placed::<_, Checked>::new(shared, Home::FirstTouch);
        Checked::run(&Plan::threads(2), &|thread| match thread {
            0 => shared.read.set(first(&shared)),
            _ => second(&shared),
        });
        ends.lock().expect("not poisoned").insert((shared.read.get(), shared.x.load(Relaxed)));
        Ok(())
    });
    (ends.into_inner().expect("not poisoned"), report)
}

/// Asserts that a search finds an endless wait, and tells it step by step.
fn waits_for_ever(
    model: Model,
    search: Search,
    first: impl Fn(&Shared) -> u64 + Sync,
    second: impl Fn(&Shared) + Sync,
) {
    let (_, report) = ends(model, search, first, second);
    let found = report.counterexample.unwrap_or_else(|| panic!("{search:?} under {model} finds nothing"));
    assert_eq!(found.violation.name(), "endless wait", "{search:?} under {model}");
    assert!(!found.rows.is_empty(), "{search:?} under {model} tells no steps");
}

/// A thread waits for what its own store has made impossible, whenever that store leaves its buffer.
#[test]
fn a_thread_waits_for_ever_behind_its_own_store() {
    for (model, search) in Model::ALL.into_iter().flat_map(|model| WAYS.map(|search| (model, search))) {
        let looks = |shared: &Shared| assert!(shared.x.load(Relaxed) != 1);
        let stores = |shared: &Shared| shared.x.store(2, Release);
        let acquires = |shared: &Shared| {
            stores(shared);
            Checked::spin_rmw(&shared.x, |x| {
                x.load(Relaxed) == 0 && x.compare_exchange(0, 2, Acquire, Relaxed).is_ok()
            });
            0
        };
        let waits_for_either = |shared: &Shared| {
            stores(shared);
            let is_one = |value| value == 1;
            Checked::spin_until_any((&shared.x, Relaxed, is_one), (&shared.y, Relaxed, is_one));
            0
        };
        let is_not_called_off = |shared: &Shared| {
            stores(shared);
            let timeout = Timeout { cancel: Some(&shared.y), ..Timeout::NONE };
            u64::from(Checked::spin_until_or(&shared.x, Acquire, timeout, |value| value == 1).is_ok())
        };
        waits_for_ever(model, search, acquires, looks);
        waits_for_ever(model, search, waits_for_either, looks);
        waits_for_ever(model, search, is_not_called_off, looks);
    }
}

/// The word changes between two reads of one attempt, which is then no attempt to wait by.
#[test]
fn an_attempt_that_reads_a_word_twice_is_told_step_by_step() {
    for (model, search) in Model::ALL.into_iter().flat_map(|model| WAYS.map(|search| (model, search))) {
        let acquires = |shared: &Shared| {
            Checked::spin_rmw(&shared.x, |x| {
                x.load(Relaxed) == 0 && x.compare_exchange(0, 2, Relaxed, Relaxed).is_ok()
            });
            0
        };
        waits_for_ever(model, search, acquires, |shared| shared.x.store(2, Relaxed));
    }
}

#[test]
fn where_no_execution_ends_nothing_is_verified() {
    for search in WAYS {
        let (ends, report) = ends(
            Model::Sc,
            search,
            |_| {
                until_arrived(1);
                0
            },
            |_| (),
        );
        assert!(ends.is_empty() && report.complete && !report.is_verified(), "{search:?}");
    }
}

/// Where an attempt goes on behind a read-modify-write that changes nothing, its write would come too late: that is not followed, and
/// nothing is verified.
#[test]
fn what_an_attempt_does_behind_an_idle_exchange_is_not_followed() {
    for model in Model::ALL {
        let attempts = |shared: &Shared| {
            Checked::spin_rmw(&shared.x, |x| {
                let old = x.fetch_add(0, AcqRel);
                shared.y.swap(7, AcqRel) == 5 && old == 0
            });
            1
        };
        let stores = |shared: &Shared| shared.y.store(5, Release);
        for search in WAYS {
            let (_, report) = ends(model, search, attempts, stores);
            assert_eq!(report.bound, Some(Bound::Capacity), "{search:?} under {model}");
            let idle_twice = |shared: &Shared| {
                Checked::spin_rmw(&shared.x, |x| {
                    x.fetch_add(0, Release) + shared.y.fetch_add(0, Acquire) < 9
                });
                0
            };
            let (_, report) = ends(model, search, idle_twice, |_| ());
            assert_eq!(report.bound, Some(Bound::Capacity), "{search:?} under {model}");
        }
    }
}

/// The other thread knows by `y` that the exchange is over, and acquires from it what came before it, which the cell did not.
#[test]
fn an_idle_exchange_does_not_release_what_follows_it() {
    let explored = |search, exchanges: &(dyn Fn(&Shared) + Sync)| {
        explore(&Exploration { search, ..Exploration::of(Model::Ra) }, &|| {
            let shared = Shared { x: Word::ZERO, y: Word::ZERO, read: PlainCell::ZERO };
            let shared = Placed::<_, Checked>::new(shared, Home::FirstTouch);
            Checked::run(&Plan::threads(2), &|thread| {
                if thread == 0 {
                    exchanges(&shared);
                } else if shared.y.load(Relaxed) == 1 {
                    shared.x.fetch_add(1, Acquire);
                    shared.read.get();
                }
            });
            Ok(())
        })
    };
    let exchanges = |shared: &Shared| {
        shared.x.fetch_add(0, AcqRel);
        shared.read.set(1);
        shared.y.store(1, Relaxed);
        true
    };
    for search in WAYS {
        let report = explored(search, &|shared: &Shared| {
            exchanges(shared);
        });
        let found = report.counterexample.map(|found| found.violation.name());
        assert_eq!(found, Some("data race"), "{search:?}");
        let report = explored(search, &|shared: &Shared| Checked::spin_rmw(&shared.x, |_| exchanges(shared)));
        assert!(!report.is_verified(), "{search:?}");
    }
}

/// An attempt that has failed and changed something is no wait: the next one may do something else.
#[test]
fn what_a_failed_attempt_has_changed_is_there_for_the_next_one() {
    let stores = |shared: &Shared| shared.x.store(1, Relaxed);
    for search in WAYS {
        let counts = |shared: &Shared| {
            Checked::spin_rmw(&shared.x, |x| {
                shared.read.set(shared.read.get() + 1);
                assert!(shared.read.get() < 2, "a second attempt");
                x.load(Relaxed) == 1
            });
            0
        };
        let (_, report) = ends(Model::Sc, search, counts, stores);
        let found = report.counterexample.map(|found| found.violation.name());
        assert_eq!(found, Some("panic"), "{search:?}");
    }
    // The other thread takes back what the first attempt has stored, and waits for the second one.
    let stores_part = |shared: &Shared| {
        Checked::spin_rmw(&shared.y, |y| {
            shared.x.store_part(LOW, 1, Relaxed);
            y.load(Relaxed) == 1
        });
        0
    };
    let (_, report) = ends(Model::Sc, Search::States, stores_part, |shared| {
        Checked::spin_until(&shared.x, Relaxed, |x| x == 1);
        shared.x.store(0, Relaxed);
        Checked::spin_until(&shared.x, Relaxed, |x| x == 1);
        shared.y.store(1, Relaxed);
    });
    assert!(report.counterexample.is_none(), "{:?}", report.counterexample);
}

#[test]
fn no_exchange_overtakes_a_fence_that_releases() {
    for (fence, search) in
        [Release, AcqRel, SeqCst].into_iter().flat_map(|fence| WAYS.map(|way| (fence, way)))
    {
        let publishes = |shared: &Shared| {
            shared.x.store(1, Relaxed);
            Checked::fence(fence);
            shared.y.fetch_add(1, Relaxed).into()
        };
        let (_, report) = ends(Model::Pso, search, publishes, |shared| {
            assert!(shared.y.load(Acquire) == 0 || shared.x.load(Relaxed) == 1, "the store is late");
        });
        assert!(report.is_verified(), "{fence:?}, {search:?}: {:?}", report.counterexample);
    }
}

const LOW: Part = Part::Half(0);
const HIGH: Part = Part::Half(1);

#[test]
fn a_store_to_part_of_a_word_reads_nothing_that_a_fence_acquires() {
    let all = WAYS.map(|search| {
        let stores_and_looks = |shared: &Shared| {
            shared.x.store_part(HIGH, 1, Release);
            Checked::fence(AcqRel);
            shared.y.load(Acquire).into()
        };
        let (ends, report) = ends(Model::Ra, search, stores_and_looks, |shared| {
            shared.y.store_part(LOW, 1, Relaxed);
            shared.x.store_part(HIGH, 2, Release);
        });
        assert!(report.is_verified(), "{search:?}");
        ends
    });
    assert!(all[0].contains(&(0, 0x1_0000)), "{:x?}", all[0]);
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
}

#[test]
fn executions_with_stores_to_part_of_a_word_in_a_buffer_are_not_all() {
    for model in [Model::Tso, Model::Pso] {
        let stores_part = |shared: &Shared| {
            shared.x.store_part(HIGH, 1, Relaxed);
            shared.x.load(Relaxed).into()
        };
        let all = WAYS.map(|search| ends(model, search, stores_part, |shared| shared.x.store(1, SeqCst)));
        let [(some, by_executions), (states, by_states), (orders, by_orders)] = all;
        assert_eq!(by_executions.bound, Some(Bound::Parts), "{model}");
        assert!(by_states.is_verified() && by_orders.is_verified(), "{model}");
        assert!(states.contains(&(0x1_0000, 0x1_0001)) && some.is_subset(&states), "{model}: {states:x?}");
        assert_eq!(states, orders, "{model}");
    }
}

/// Deadlines aside, a thread gives up only when another one calls it off.
#[test]
fn no_thread_gives_up_that_is_not_called_off() {
    for (is_called_off, search) in [false, true].into_iter().flat_map(|off| WAYS.map(|way| (off, way))) {
        let adds_twice = |shared: &Shared| {
            let timeout = Timeout { cancel: Some(&shared.y), ..Timeout::NONE };
            Checked::spin_rmw_or(&shared.x, timeout, |x| x.fetch_add(1, Relaxed) == 1).is_err().into()
        };
        let (ends, report) = ends(Model::Sc, search, adds_twice, |shared| {
            if is_called_off {
                shared.y.store(1, Relaxed);
            }
        });
        assert!(report.is_verified(), "{search:?}");
        assert_eq!(ends.contains(&(1, 1)), is_called_off, "{search:?}: {ends:?}");
        assert!(ends.contains(&(0, 2)), "{search:?}: {ends:?}");
    }
}

/// What an attempt does when it has read.
type BehindRead<'a> = &'a (dyn Fn(&Shared) + Sync);

/// Two threads have tried, and look whether they are called off. What each will wait for was written since it read it, or not, and only
/// where it was not does it wait: that tells two states apart, whatever the attempt did behind its read.
#[test]
fn a_wait_by_attempts_rests_on_what_they_read_whatever_they_did_then() {
    let nothing = |_: &Shared| ();
    let gets = |shared: &Shared| {
        shared.read.get();
    };
    let fences = |_: &Shared| Checked::fence(SeqCst);
    let chooses = |_: &Shared| {
        let _ = Checked::is_at_limit(0, 1);
    };
    let all: [(&str, BehindRead<'_>); 4] =
        [("nothing", &nothing), ("a plain read", &gets), ("a fence", &fences), ("a choice", &chooses)];
    let finds_the_wait = |model, search, (name, behind_read): (&str, BehindRead<'_>)| {
        let report = explore(&Exploration { search, ..Exploration::of(model) }, &|| {
            let shared = Shared { x: Word::ZERO, y: Word::ZERO, read: PlainCell::ZERO };
            let shared = Placed::<_, Checked>::new(shared, Home::FirstTouch);
            Checked::run(&Plan::threads(3), &|thread| {
                if thread == 2 {
                    shared.x.store(0, Relaxed);
                    return;
                }
                let timeout = Timeout { cancel: Some(&shared.y), ..Timeout::NONE };
                let _ = Checked::spin_rmw_or(&shared.x, timeout, |x| {
                    let is_one = x.load(Relaxed) == 1;
                    behind_read(&shared);
                    is_one
                });
            });
            Ok(())
        });
        let found = report.counterexample.map(|found| found.violation.name());
        assert_eq!(found, Some("endless wait"), "{search:?} under {model} with {name} behind the read");
    };
    for model in [Model::Sc, Model::Tso, Model::Pso] {
        for search in WAYS {
            all.iter().for_each(|&one| finds_the_wait(model, search, one));
        }
    }
}

/// What a wait rests on is read by the wait, whatever was polled before it.
#[test]
fn a_wait_behind_a_poll_is_one_of_its_own() {
    for (model, search) in Model::ALL.into_iter().flat_map(|model| WAYS.map(|search| (model, search))) {
        let polls = |shared: &Shared| {
            let first = shared.x.load(Relaxed);
            Checked::delay(1);
            u64::from(first)
        };
        let is_one = |value| value == 1;
        let repeats = |shared: &Shared| {
            let first = polls(shared);
            Checked::spin_rmw(&shared.x, |x| x.load(Relaxed) == 1);
            first
        };
        let waits_for_either = |shared: &Shared| {
            let first = polls(shared);
            Checked::spin_until_any((&shared.x, Relaxed, is_one), (&shared.y, Relaxed, is_one));
            first
        };
        let either_outcome = |shared: &Shared| {
            let first = polls(shared);
            let timeout = Timeout { cancel: Some(&shared.y), ..Timeout::NONE };
            let waited = Checked::spin_until_or(&shared.x, Relaxed, timeout, is_one);
            first << 1 | u64::from(waited.is_err())
        };
        let stores = |shared: &Shared| shared.x.store(1, Release);
        let both = BTreeSet::from([(0, 1), (1, 1)]);
        for (ends, report) in
            [ends(model, search, repeats, stores), ends(model, search, waits_for_either, stores)]
        {
            assert!(report.is_verified(), "{search:?} under {model}: {:?}", report.counterexample);
            assert_eq!(ends, both, "{search:?} under {model}");
        }
        let (ends, report) = ends(model, search, either_outcome, stores);
        assert!(report.is_verified(), "{search:?} under {model}: {:?}", report.counterexample);
        assert_eq!(ends, BTreeSet::from([(0, 1), (2, 1)]), "{search:?} under {model}");
    }
}

#[test]
fn a_load_repeats_a_poll_only_behind_a_delay() {
    let looks_again = |shared: &Shared| {
        let first = shared.x.load(Relaxed);
        Checked::delay(1);
        let repeated = shared.x.load(Relaxed);
        assert_eq!(first, repeated, "counted as one");
        u64::from(repeated << 1 | shared.x.load(Relaxed))
    };
    for search in WAYS {
        let (ends, _) = ends(Model::Sc, search, looks_again, |shared| shared.x.store(1, Relaxed));
        assert_eq!(ends, BTreeSet::from([(0, 1), (1, 1), (3, 1)]), "{search:?}");
    }
}
