//! Transactions of the checked machine, and locks that are elided by them: what commits does so as a whole, what aborts has never been,
//! and an elided section runs beside none that holds the lock.

use std::cell::{Cell, RefCell};

use crate::common::explored;
use contend_checker::{Checked, Exploration, Model, Report, Violation, explore};
use locks::catalogue::ELIDED;
use locks::{Elidable, Elided, LazySubscription, RawLock, RawRwLock, RetryWhenFree, Rw, Tas};
use machine::Ordering::Relaxed;
use machine::transaction::{Cause, LOCK_HELD};
use machine::{Abort, Home, Integer, Machine, Placed, PlainCell, Plan, Timeout, Word};
use workloads::client::{self, ClientKind, Shape};

type Word32 = <Checked as Machine>::U32;
type PlainWord = <Checked as Machine>::Cell<u32>;

/// The models of processors that may have transactions.
const MODELS: [Model; 3] = [Model::Sc, Model::Tso, Model::Pso];

fn placed<T: Sync>(value: T) -> Placed<T, Checked> {
    Placed::new(value, Home::FirstTouch)
}

fn word() -> Placed<Word32, Checked> {
    placed(Word32::ZERO)
}

fn transaction<R>(body: impl FnOnce() -> R) -> Result<R, Abort> {
    // SAFETY: the bodies of these tests change words and cells of the machine alone.
    unsafe { Checked::transaction(body) }
}

fn verified(report: &Report, what: &str) {
    assert!(report.is_verified(), "{what}: {:?} {:?}", report.bound, report.counterexample);
}

/// Which pairs a client comes to, in order.
fn outcomes(model: Model, client: &dyn Fn() -> (u32, u32)) -> Vec<(u32, u32)> {
    let found = RefCell::new(Vec::new());
    let report = explored(model, &|| {
        found.borrow_mut().push(client());
        Ok(())
    });
    verified(&report, "a client without a claim");
    let mut found = found.into_inner();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn a_thread_that_ends_inside_a_transaction_is_wrong() {
    for model in MODELS {
        let report = explored(model, &|| {
            let first = word();
            Checked::run(&Plan::threads(1), &|_| {
                // SAFETY: what follows changes a word of the machine alone.
                if unsafe { Checked::begin_transaction() }.is_ok() {
                    first.store(1, Relaxed);
                }
            });
            Ok(())
        });
        let found = report.counterexample.expect("it is never committed");
        assert!(found.violation.to_string().contains("inside a transaction"), "{}", found.violation);
        assert!(!found.rows.is_empty(), "it is told step by step");
    }
}

/// Both are system calls, which abort on hardware, and between which others would see half of the transaction.
#[test]
fn nobody_sleeps_or_wakes_others_in_a_transaction() {
    for model in MODELS {
        let found = outcomes(model, &|| {
            let (sleeps_on, came_past, seen) = (word(), word(), word());
            Checked::run(&Plan::threads(2), &|thread| {
                let ended = transaction(|| {
                    came_past.fetch_add(1, Relaxed);
                    if thread == 0 {
                        Checked::sleep_while(&sleeps_on, 0, Timeout::NONE);
                    } else {
                        sleeps_on.store(1, Relaxed);
                        Checked::wake(&raw const *sleeps_on, 1);
                    }
                });
                seen.fetch_add(u32::from(ended.is_ok()), Relaxed);
            });
            (came_past.load(Relaxed), seen.load(Relaxed))
        });
        assert_eq!(found, [(0, 0)], "{model:?}");
    }
}

/// Nor is a lock taken whose owner inherits: that is a call of the kernel, too.
#[test]
fn the_kernels_lock_is_not_taken_in_a_transaction() {
    for model in MODELS {
        let found = outcomes(model, &|| {
            let (lock, seen) = (word(), word());
            Checked::run(&Plan::threads(1), &|_| {
                let ended = transaction(|| {
                    let _ = Checked::try_acquire_inheriting(&lock);
                });
                seen.fetch_add(u32::from(ended.is_ok()), Relaxed);
            });
            (lock.load(Relaxed), seen.load(Relaxed))
        });
        assert_eq!(found, [(0, 0)], "{model:?}");
    }
}

/// Of the locks within each other some are elided, and others held in earnest and slept for.
#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation: tests/all runs it in release")]
fn elided_locks_that_sleep_may_be_held_within_each_other() {
    let shape = Shape { threads: 2, acquisitions: 2 };
    for lock in ["elided:glibc-mutex", "elided:futex"] {
        for model in [Model::Sc, Model::Tso] {
            let report = explored(model, &|| {
                let ran = client::run::<Checked>(lock, ClientKind::Nested, shape).expect("the lock is taken");
                ran.map(drop).map_err(|wrong| wrong.to_string())
            });
            assert!(report.counterexample.is_none(), "{lock} under {model:?}: {:?}", report.counterexample);
        }
    }
}

#[test]
fn what_commits_takes_effect_at_once_for_plain_accesses_too() {
    for model in MODELS {
        let found = outcomes(model, &|| {
            let (first, second, seen) = (word(), word(), (word(), word()));
            Checked::run(&Plan::threads(2), &|thread| {
                if thread == 0 {
                    let _ = transaction(|| {
                        first.store(1, Relaxed);
                        second.store(1, Relaxed);
                    });
                } else {
                    seen.0.store(first.load(Relaxed), Relaxed);
                    seen.1.store(second.load(Relaxed), Relaxed);
                }
            });
            (seen.0.load(Relaxed), seen.1.load(Relaxed))
        });
        assert_eq!(found, [(0, 0), (0, 1), (1, 1)], "{model:?}");
    }
}

#[test]
fn what_a_transaction_reads_is_of_one_moment() {
    for model in MODELS {
        let found = outcomes(model, &|| {
            let (first, second, seen) = (word(), word(), (word(), word()));
            Checked::run(&Plan::threads(2), &|thread| {
                if thread == 0 {
                    first.fetch_add(1, Relaxed);
                    second.fetch_add(1, Relaxed);
                    first.fetch_add(1, Relaxed);
                } else {
                    let read = transaction(|| (first.load(Relaxed), second.load(Relaxed)));
                    let (first, second) = read.unwrap_or((9, 9));
                    seen.0.store(first, Relaxed);
                    seen.1.store(second, Relaxed);
                }
            });
            (seen.0.load(Relaxed), seen.1.load(Relaxed))
        });
        assert_eq!(found, [(0, 0), (1, 0), (1, 1), (2, 1), (9, 9)], "{model:?}");
    }
}

/// Store buffering: each transaction is a full fence.
#[test]
fn transactions_have_an_order() {
    for model in MODELS {
        let found = outcomes(model, &|| {
            let (words, seen) = ([word(), word()], [word(), word()]);
            Checked::run(&Plan::threads(2), &|thread| {
                words[thread].store(1, Relaxed);
                let other = &words[1 - thread];
                // A thread that aborts would read for itself, behind a fence: the 2 stands for any value.
                let read = transaction(|| other.load(Relaxed)).unwrap_or(2);
                seen[thread].store(read, Relaxed);
            });
            (seen[0].load(Relaxed), seen[1].load(Relaxed))
        });
        assert!(!found.contains(&(0, 0)), "{model:?}: {found:?}");
        assert_eq!(found.len(), 8, "{model:?}: {found:?}");
    }
}

#[test]
fn every_cause_comes_up_and_leaves_no_trace() {
    let causes = RefCell::new(Vec::new());
    let report = explored(Model::Tso, &|| {
        let (value, cause) = (word(), word());
        Checked::run(&Plan::threads(1), &|_| {
            let body = || {
                value.store(7, Relaxed);
                if value.load(Relaxed) == 7 {
                    Checked::abort_transaction::<LOCK_HELD>();
                }
            };
            let abort = transaction(body).expect_err("it asks for it");
            let number = Cause::ALL.iter().position(|&cause| cause == abort.cause());
            cause.store(number.expect("one of them") as u32, Relaxed);
        });
        causes.borrow_mut().push(Cause::ALL[cause.load(Relaxed) as usize]);
        if value.load(Relaxed) == 0 { Ok(()) } else { Err("a trace".to_owned()) }
    });
    verified(&report, "aborts");
    for cause in [Cause::Conflict, Cause::Capacity, Cause::Other, Cause::Explicit] {
        assert!(causes.borrow().contains(&cause), "{cause:?} in {causes:?}");
    }
}

#[test]
fn a_transaction_within_another_commits_with_it() {
    let found = outcomes(Model::Tso, &|| {
        let (outer, inner) = (word(), word());
        let seen = (word(), word());
        Checked::run(&Plan::threads(2), &|thread| {
            if thread == 0 {
                let _ = transaction(|| {
                    outer.store(1, Relaxed);
                    transaction(|| inner.store(1, Relaxed)).expect("it has begun");
                    assert!(Checked::in_transaction());
                    outer.store(2, Relaxed);
                });
                assert!(!Checked::in_transaction());
            } else {
                seen.0.store(inner.load(Relaxed), Relaxed);
                seen.1.store(outer.load(Relaxed), Relaxed);
            }
        });
        (seen.0.load(Relaxed), seen.1.load(Relaxed))
    });
    assert_eq!(found, [(0, 0), (0, 2), (1, 2)]);
}

/// What cannot be followed is a bound of the exploration, and never "verified".
#[test]
fn where_transactions_are_not_followed_nothing_is_verified() {
    let client = || {
        let value = word();
        Checked::run(&Plan::threads(2), &|_| _ = transaction(|| value.store(1, Relaxed)));
        Ok(())
    };
    assert!(!explored(Model::Ra, &client).is_verified());
    assert!(!explore(&Exploration::of(Model::Tso), &client).is_verified());
    assert!(explored(Model::Tso, &client).is_verified());
}

#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation: tests/all runs it in release")]
fn every_small_client_of_every_elided_lock_is_verified() {
    for lock in ELIDED {
        for kind in ClientKind::ALL.into_iter().filter(|kind| kind.suits(lock)) {
            for model in [Model::Sc, Model::Tso] {
                let shape = Shape { threads: 2, acquisitions: 1 };
                let report = explored(model, &|| {
                    let ran =
                        client::run::<Checked>(lock.name, kind, shape).expect("the lock has such a client");
                    ran.map(drop).map_err(|wrong| wrong.to_string())
                });
                verified(&report, &format!("{} {} under {model:?}", lock.name, kind.name()));
            }
        }
    }
}

/// A try while another lock is elided ends the transaction.
#[test]
fn elided_locks_are_tried_within_each_other() {
    let shape = Shape { threads: 2, acquisitions: 2 };
    let report = explored(Model::Sc, &|| {
        let ran =
            client::run::<Checked>("elided:tas", ClientKind::Many, shape).expect("it has such a client");
        ran.map(drop).map_err(|wrong| wrong.to_string())
    });
    assert!(report.counterexample.is_none(), "{:?}", report.counterexample);
}

/// What a section does to the words of a test.
type Section = fn(&dyn Fn(usize) -> u32, &dyn Fn(usize, u32));

/// Sections whose order can be seen from what they leave.
const SECTIONS: [Section; 3] = [
    |get, set| set(0, get(1) + 1),
    |get, set| {
        set(1, get(0) + get(2) + 2);
        set(2, 5);
    },
    |get, set| {
        set(2, get(0) * 3 + get(1));
        set(0, 7);
    },
];

/// What sections leave that run one after another.
fn serial(order: &[usize]) -> [u32; 3] {
    let words: [Cell<u32>; 3] = Default::default();
    for &section in order {
        SECTIONS[section](&|at| words[at].get(), &|at, value| words[at].set(value));
    }
    words.map(Cell::into_inner)
}

fn permutations(of: usize) -> Vec<Vec<usize>> {
    let longer = |orders: Vec<Vec<usize>>, next: usize| -> Vec<Vec<usize>> {
        let with = |order: &Vec<usize>, at: usize| [&order[..at], &[next], &order[at..]].concat();
        orders.iter().flat_map(|order| (0..=order.len()).map(move |at| with(order, at))).collect()
    };
    (0..of).fold(vec![Vec::new()], longer)
}

/// What sections share, and how they read and write it.
type Accesses<T> = (T, fn(&T) -> u32, fn(&T, u32));

fn cells() -> Accesses<PlainWord> {
    (PlainWord::ZERO, PlainWord::get, PlainWord::set)
}

fn words() -> Accesses<Word32> {
    (Word32::ZERO, |word| word.load(Relaxed), |word, value| word.store(value, Relaxed))
}

/// Runs one section a thread under the lock, and says whether what they leave is what some order of them leaves.
fn is_serialisable<L: RawLock<Checked>>(threads: usize) -> Result<(), String> {
    is_serialisable_by::<L, _>(cells, threads)
}

fn is_serialisable_by<L: RawLock<Checked>, T: Sync>(
    accesses: fn() -> Accesses<T>,
    threads: usize,
) -> Result<(), String> {
    let (_, read, write) = accesses();
    let lock = placed(L::NEW);
    let shared = [0; 3].map(|_| placed(accesses().0));
    Checked::run(&Plan::threads(threads), &|thread| {
        lock.acquire();
        SECTIONS[thread](&|at| read(&shared[at]), &|at, value| write(&shared[at], value));
        // SAFETY: acquired above.
        unsafe { lock.release() };
    });
    let left = [0, 1, 2].map(|at| read(&shared[at]));
    let orders = permutations(threads);
    match orders.iter().any(|order| serial(order) == left) {
        true => Ok(()),
        false => Err(format!("no order of the sections leaves {left:?}")),
    }
}

#[test]
fn what_elided_sections_leave_is_what_some_order_of_them_leaves() {
    let serial_results: std::collections::HashSet<_> =
        permutations(3).iter().map(|order| serial(order)).collect();
    assert!(serial_results.len() >= 5, "orders can be told apart: {serial_results:?}");
    for model in MODELS {
        verified(
            &explored(model, &|| is_serialisable::<Elided<Tas<Checked>, RetryWhenFree>>(2)),
            "two threads",
        );
    }
    let three = explored(Model::Tso, &|| is_serialisable::<Elided<Tas<Checked>, RetryWhenFree>>(3));
    verified(&three, "three threads");
}

/// Under lazy subscription, too, what commits comes one after the other, though sections run beside a holder.
#[test]
fn what_lasts_of_lazily_subscribed_sections_is_what_some_order_of_them_leaves() {
    type Lazy = Elided<Tas<Checked>, LazySubscription>;
    for model in MODELS {
        verified(&explored(model, &|| is_serialisable_by::<Lazy, _>(words, 2)), "two threads");
    }
    verified(&explored(Model::Tso, &|| is_serialisable_by::<Lazy, _>(words, 3)), "three threads");
}

/// One section changes two words, the other one looks whether they are alike.
fn looks_around<L: RawLock<Checked>>() -> Result<(), String> {
    let (lock, pair) = (placed(L::NEW), [word(), word()]);
    Checked::run(&Plan::threads(2), &|thread| {
        lock.acquire();
        if thread == 0 {
            pair.iter().for_each(|word| word.store(1, Relaxed));
        } else {
            let [one, other] = [0, 1].map(|at| pair[at].load(Relaxed));
            assert_eq!(one, other, "half of what another section does");
        }
        // SAFETY: acquired above.
        unsafe { lock.release() };
    });
    Ok(())
}

/// Why nothing hands out references by such a lock: a section meets what no section has left, before it is undone.
#[test]
fn a_lazily_subscribed_section_sees_what_a_holder_has_done_by_half() {
    type Eager = Elided<Tas<Checked>, RetryWhenFree>;
    type Lazy = Elided<Tas<Checked>, LazySubscription>;
    const { assert!(<Eager as RawLock<Checked>>::OPAQUE && !<Lazy as RawLock<Checked>>::OPAQUE) };
    for model in MODELS {
        verified(&explored(model, &looks_around::<Eager>), "eager subscription");
        let found = explored(model, &looks_around::<Lazy>).counterexample.expect("half-done work");
        assert!(matches!(found.violation, Violation::Panic { .. }), "{model:?}: {}", found.violation);
        // What is no word of the machine is read while it is written.
        let found = explored(model, &|| is_serialisable::<Lazy>(2)).counterexample.expect("a race");
        assert!(matches!(found.violation, Violation::Race { .. }), "{model:?}: {}", found.violation);
    }
}

/// A lock that begins or ends a transaction as it should not.
struct Wrong<L, const BUG: u8>(L);

/// It does not look at the lock.
const NOT_READ: u8 = 0;
/// It looks at the lock before the transaction.
const READ_BEFORE: u8 = 1;
/// It acquires the lock where it aborts, and commits as if it had not.
const HALF_DONE: u8 = 2;
/// It looks at the lock at the end, and releases what it finds held, as one may that has looked at the beginning.
const TAKEN_FOR_OWN: u8 = 3;

// SAFETY: it is not; that is what is tested.
unsafe impl<L: Elidable<Checked>, const BUG: u8> RawLock<Checked> for Wrong<L, BUG> {
    const NEW: Self = Self(L::NEW);

    fn acquire(&self) {
        let free_before = self.0.is_idle();
        // SAFETY: as in `transaction`.
        match unsafe { Checked::begin_transaction() } {
            Ok(()) if BUG == NOT_READ || BUG == TAKEN_FOR_OWN || BUG == READ_BEFORE && free_before => {}
            Ok(()) if BUG == HALF_DONE && self.0.is_idle() => {}
            Ok(()) => Checked::abort_transaction::<LOCK_HELD>(),
            Err(_) if BUG == HALF_DONE => {} // neither
            Err(_) => self.0.acquire(),
        }
    }

    unsafe fn release(&self) {
        if Checked::in_transaction() {
            if BUG == TAKEN_FOR_OWN && !self.0.is_idle() {
                // SAFETY: it is not.
                unsafe { self.0.release() };
            }
            // SAFETY: in one.
            unsafe { Checked::commit_transaction() };
        } else if BUG != HALF_DONE {
            // SAFETY: the caller's.
            unsafe { self.0.release() };
        }
    }
}

#[test]
fn seeded_bugs_are_found() {
    for model in MODELS {
        let reports = [
            (
                "the lock is not read",
                explored(model, &|| is_serialisable::<Wrong<Tas<Checked>, NOT_READ>>(2)),
            ),
            (
                "it is read before",
                explored(model, &|| is_serialisable::<Wrong<Tas<Checked>, READ_BEFORE>>(2)),
            ),
            (
                "nothing after an abort",
                explored(model, &|| is_serialisable::<Wrong<Tas<Checked>, HALF_DONE>>(2)),
            ),
            (
                "another one's hold is released",
                explored(model, &|| is_serialisable_by::<Wrong<Tas<Checked>, TAKEN_FOR_OWN>, _>(words, 2)),
            ),
            (
                "the lock is never read, over words",
                explored(model, &|| is_serialisable_by::<Wrong<Tas<Checked>, NOT_READ>, _>(words, 2)),
            ),
        ];
        for (bug, report) in reports {
            let found =
                report.counterexample.unwrap_or_else(|| panic!("{bug} under {model:?}: {:?}", report.bound));
            assert!(!found.rows.is_empty(), "{bug} under {model:?}: {} cannot be told", found.violation);
        }
    }
}

/// An elided writer that looks for writers alone.
struct BlindWriter(Rw<Checked>);

#[test]
fn a_writer_that_does_not_conflict_with_readers_is_found() {
    let client = || {
        let (lock, value) = (placed(BlindWriter(Rw::NEW)), placed(PlainWord::ZERO));
        let lock = &lock.0;
        let seen = word();
        Checked::run(&Plan::threads(2), &|thread| {
            if thread == 0 {
                let begun = transaction(|| {
                    if lock.is_exclusive() {
                        Checked::abort_transaction::<LOCK_HELD>();
                    }
                    value.set(1);
                });
                let _ = begun;
            } else {
                lock.acquire_shared(false);
                let first = value.get();
                seen.store(u32::from(first != value.get()), Relaxed);
                // SAFETY: acquired above.
                unsafe { lock.release_shared() };
            }
        });
        if seen.load(Relaxed) == 0 { Ok(()) } else { Err("a reader saw the value change".to_owned()) }
    };
    let found = explored(Model::Tso, &client).counterexample.expect("a reader beside a writer");
    assert!(
        matches!(found.violation, Violation::Race { .. } | Violation::Panic { .. }),
        "{}",
        found.violation
    );
}
