//! Wound/wait mutexes on the hardware.

use contend_locks as locks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use contend_locks::prelude::*;
use locks::{Deadline, Patient, RawLock, TimedLock, Timeout, TryLock, WwContext, WwError};
use machine::random::Random;
use machine::{Machine, Plan};

const MUTEXES: usize = 6;
const THREADS: usize = 8;
const ROUNDS: usize = if cfg!(miri) { 5 } else { 500 };

type Raw = locks::Ww<Patient>;

const NOT_TIMED: Timeout<'_, Patient> = Timeout::NONE;

fn classes() -> [WwClass; 2] {
    [WwClass::wait_die(), WwClass::wound_wait()]
}

fn below(random: &mut Random, end: usize) -> usize {
    (random.next() % end as u64) as usize
}

/// A few different numbers of mutexes, in any order.
fn some(random: &mut Random) -> Vec<usize> {
    let mut left: Vec<usize> = (0..MUTEXES).collect();
    let count = 1 + below(random, MUTEXES - 1);
    (0..count).map(|_| left.swap_remove(below(random, left.len()))).collect()
}

/// Threads add to a sum that they share between mutexes, in transactions, all at once, or one by one; some panic meanwhile.
#[test]
fn what_is_moved_between_mutexes_stays_the_same() {
    for class in classes() {
        let mutexes: Vec<_> = (0..MUTEXES).map(|_| WwMutex::new(&class, 0_i64)).collect();
        let alone = AtomicU64::new(0);
        Patient::run(&Plan::threads(THREADS), &|thread| {
            let mut random = Random::new(thread as u64 + 1);
            for _ in 0..ROUNDS {
                let order = some(&mut random);
                match below(&mut random, 8) {
                    0 => {
                        *mutexes[order[0]].lock() += 1;
                        alone.fetch_add(1, Relaxed);
                    }
                    1 => {
                        let [first, last] = [order[0], (order[0] + 1) % MUTEXES];
                        let [mut first, mut last] = class.lock_all([&mutexes[first], &mutexes[last]]);
                        *first += 1;
                        *last -= 1;
                    }
                    2 => {
                        let panics = || {
                            class.transaction::<()>(|taken| {
                                let _first = taken.lock(&mutexes[order[0]])?;
                                let _others: Vec<_> =
                                    order[1..].iter().map(|&other| taken.lock(&mutexes[other])).collect();
                                std::panic::resume_unwind(Box::new("on purpose"))
                            });
                        };
                        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
                    }
                    _ => class.transaction(|taken| {
                        let held = order.iter().map(|&one| taken.lock(&mutexes[one]));
                        let mut held = held.collect::<Result<Vec<_>, _>>()?;
                        let each = held.len() as i64 - 1;
                        held.iter_mut().for_each(|value| **value -= 1);
                        *held[0] += each + 1;
                        Ok(())
                    }),
                }
            }
        });
        let sum: i64 = mutexes.into_iter().map(WwMutex::into_inner).sum();
        assert_eq!(sum, alone.into_inner() as i64);
    }
}

/// A younger context that holds the second lock wants the first one, which an older one holds; then the older one wants the second.
fn meet(class: &WwClass, younger: impl Fn(&WwContext<'_>, [&Raw; 2]) + Sync) {
    let [first, second] = [Raw::NEW, Raw::NEW];
    let turn = AtomicU64::new(0);
    let await_turn = |wanted| {
        while turn.load(Relaxed) != wanted {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let context = WwContext::new(class);
            assert_eq!(first.acquire_in(&context, NOT_TIMED), Ok(()));
            turn.store(1, Relaxed);
            await_turn(2);
            assert_eq!(second.acquire_in(&context, NOT_TIMED), Ok(()), "the oldest is never refused");
            assert_eq!(context.held(), 2);
            for lock in [&second, &first] {
                // SAFETY: acquired above.
                unsafe { lock.release() };
            }
        });
        scope.spawn(|| {
            await_turn(1);
            let context = WwContext::new(class);
            assert_eq!(second.acquire_in(&context, NOT_TIMED), Ok(()));
            turn.store(2, Relaxed);
            younger(&context, [&first, &second]);
        });
    });
    assert!(first.is_idle() && second.is_idle());
}

#[test]
fn the_younger_one_is_refused_and_gets_nothing_before_it_has_released_all() {
    for class in classes() {
        meet(&class, |context, [first, second]| {
            let free = Raw::NEW;
            assert_eq!(first.acquire_in(context, NOT_TIMED), Err(WwError::Deadlock));
            assert_eq!(free.acquire_in(context, NOT_TIMED), Err(WwError::Deadlock));
            assert!(!free.try_acquire_in(context));
            assert_eq!(second.acquire_in(context, NOT_TIMED), Err(WwError::AlreadyHeld));
            assert_eq!(context.held(), 1);
            // SAFETY: acquired by `meet`.
            unsafe { second.release() };
            assert_eq!(first.acquire_in(context, NOT_TIMED), Ok(()), "who holds nothing is not refused");
            assert!(free.try_acquire_in(context));
            for lock in [first, &free] {
                // SAFETY: acquired above.
                unsafe { lock.release() };
            }
        });
    }
}

#[test]
fn a_lock_is_held_once_in_a_context() {
    let (class, lock) = (WwClass::wait_die(), Raw::NEW);
    let context = WwContext::new(&class);
    assert!(!lock.is_held_in(&context));
    assert_eq!(lock.acquire_in(&context, NOT_TIMED), Ok(()));
    assert_eq!(lock.acquire_in(&context, NOT_TIMED), Err(WwError::AlreadyHeld));
    assert!(lock.is_held_in(&context) && !lock.try_acquire_in(&context) && !lock.try_acquire());
    assert_eq!((context.stamp(), context.held()), (1, 1));
    // SAFETY: acquired above.
    unsafe { lock.release() };
    let other = Raw::NEW;
    let twice = [&lock, &other, &lock];
    assert_eq!(context.acquire_all(&twice), Err(WwError::AlreadyHeld));
    assert!(lock.is_idle() && context.held() == 0);
}

#[test]
fn a_wait_in_a_context_ends_at_its_deadline() {
    let (class, lock) = (WwClass::wound_wait(), Raw::NEW);
    let context = WwContext::new(&class);
    let soon = || Timeout::at(Deadline::after_ns::<Patient>(1_000_000));
    lock.acquire();
    assert_eq!(lock.acquire_in(&context, soon()), Err(WwError::TimedOut));
    assert!(lock.acquire_or(soon()).is_err());
    // SAFETY: acquired above.
    unsafe { lock.release() };
    assert!(lock.is_idle() && context.held() == 0);
}

fn message(panics: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(panics)).expect_err("it panics");
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).expect("a message")
}

#[test]
fn misuse_panics_and_leaves_nothing_held() {
    let [class, other] = classes();
    let [mutex, stranger] = [WwMutex::new(&class, 0), WwMutex::new(&other, 0)];
    let lock = |wanted| class.transaction(|taken| taken.lock(wanted).map(|_| ()));
    assert!(message(|| lock(&stranger)).contains("of one class"));
    assert!(message(|| drop(class.lock_all([&mutex, &stranger]))).contains("of one class"));
    assert!(message(|| drop(class.lock_all([&mutex, &mutex]))).contains("once"));
    let twice = || {
        class.transaction(|taken| {
            let _held = taken.lock(&mutex)?;
            assert!(taken.has(&mutex) && taken.try_lock(&mutex).is_none());
            taken.lock(&mutex).map(|_| ())
        });
    };
    assert!(message(twice).contains("once"));
    assert!(mutex.try_lock().is_some() && stranger.try_lock().is_some());
}

#[test]
fn a_transaction_panics_at_the_refusal_of_another() {
    let class = WwClass::wait_die();
    let [first, second, third] = [(); 3].map(|()| WwMutex::new(&class, 0));
    for is_refused_too in [false, true] {
        let nested = || {
            class.transaction(|oldest| {
                let _first = oldest.lock(&first)?;
                class.transaction(|outer| {
                    let _second = outer.lock(&second)?;
                    class.transaction(|inner| {
                        let _third = inner.lock(&third)?;
                        assert!(!is_refused_too || inner.lock(&first).is_err());
                        outer.lock(&first).map(drop)
                    });
                    Ok(())
                });
                Ok(())
            });
        };
        assert!(message(nested).contains("of another one"));
        assert!([&first, &second, &third].into_iter().all(|mutex| mutex.try_lock().is_some()));
    }
}

/// The first call is refused; the second one has the mutex that it did not get, whether it takes it or not.
#[test]
fn a_refused_transaction_waits_for_what_it_did_not_get() {
    for (class, takes) in classes().into_iter().zip([true, false]) {
        let [first, second, third] = [(); 3].map(|()| WwMutex::new(&class, 0));
        let turn = AtomicU64::new(0);
        let (mut calls, mut older_calls) = (0, 0);
        let await_turn = |wanted| {
            while turn.load(Relaxed) < wanted {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                class.transaction(|taken| {
                    older_calls += 1;
                    let mut first = taken.lock(&first)?;
                    turn.store(1, Relaxed);
                    await_turn(2);
                    *taken.lock(&second)? += 1;
                    *first += 1;
                    Ok(())
                });
            });
            await_turn(1);
            class.transaction(|taken| {
                calls += 1;
                if calls == 1 {
                    let _second = taken.lock(&second)?;
                    turn.store(2, Relaxed);
                    let refused = taken.lock(&first).expect_err("the other one is older");
                    assert!(taken.lock(&third).is_err(), "it gets nothing more");
                    return Err(refused);
                }
                assert!(first.try_lock().is_none() && !taken.has(&first), "it is kept, without a guard");
                if takes {
                    assert_eq!(*taken.lock(&first)?, 1);
                    assert_eq!(*taken.lock(&second)?, 1);
                }
                Ok(())
            });
        });
        assert_eq!((calls, older_calls), (2, 1));
        assert!(first.try_lock().is_some() && second.try_lock().is_some());
    }
}

/// Guards that are forgotten keep their mutexes; nothing else happens.
#[test]
fn a_forgotten_guard_is_a_mutex_that_stays_held() {
    let class = WwClass::wait_die();
    let mutex = WwMutex::new(&class, 0);
    class.transaction(|taken| taken.lock(&mutex).map(std::mem::forget));
    let soon = Deadline::after_ns::<Patient>(1_000_000);
    assert!(mutex.try_lock().is_none() && mutex.try_lock_until(soon).is_none());
}
