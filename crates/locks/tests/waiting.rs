//! Condition variable, semaphore, barrier and once on the hardware.

use contend_locks::prelude::*;
use contend_locks::{Deadline, Patient};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const ROUNDS: u32 = if cfg!(miri) { 20 } else { 5_000 };
const THREADS: u32 = 4;

/// A bounded queue between producers and consumers, behind any mutex.
fn queue<L: contend_locks::TryLock<Patient>>() {
    const ROOM: usize = 2;
    let (jobs, not_empty, not_full) = (Mutex::<Vec<u32>, L>::default(), Condvar::new(), Condvar::new());
    let sum = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let mut jobs = jobs.lock();
                    not_full.wait_while(&mut jobs, |jobs| jobs.len() == ROOM);
                    jobs.push(round);
                    drop(jobs);
                    not_empty.notify_one();
                }
            });
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut jobs = jobs.lock();
                    not_empty.wait_while(&mut jobs, |jobs| jobs.is_empty());
                    sum.fetch_add(jobs.pop().expect("it is not empty"), Ordering::Relaxed);
                    drop(jobs);
                    not_full.notify_all();
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), THREADS * (ROUNDS * (ROUNDS - 1) / 2));
    assert!(jobs.into_inner().is_empty());
}

#[test]
fn jobs_come_and_go_behind_every_kind_of_mutex() {
    queue::<Futex>();
    queue::<KernelMutex>();
    queue::<Ticket>();
}

#[test]
fn a_wait_ends_at_its_deadline_with_the_mutex() {
    let (lock, never) = (Mutex::<u32>::new(0), Condvar::new());
    let mut guard = lock.lock();
    assert!(never.wait_for(&mut guard, Duration::from_millis(1)).timed_out());
    assert!(never.wait_until(&mut guard, Deadline::after_ns::<Patient>(0)).timed_out());
    assert!(never.wait_while_for(&mut guard, |value| *value == 0, Duration::from_millis(1)).timed_out());
    assert!(!never.wait_while_for(&mut guard, |value| *value == 1, Duration::ZERO).timed_out());
    assert!(lock.try_lock().is_none());
    assert!(!never.notify_one() && !never.notify_all(), "who gave up is not counted");
}

#[test]
fn no_more_come_in_than_there_are_permits() {
    const PERMITS: u32 = 2;
    let (seats, inside) = (Semaphore::new(PERMITS), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let permit = seats.access();
                    assert!(inside.fetch_add(1, Ordering::Relaxed) < PERMITS);
                    inside.fetch_sub(1, Ordering::Relaxed);
                    drop(permit);
                }
            });
        }
    });
    assert_eq!(seats.permits(), PERMITS);
}

#[test]
fn permits_are_added_and_waits_for_them_end() {
    let seats = Semaphore::new(0);
    assert!(seats.access_for(Duration::from_millis(1)).is_none());
    seats.release(2);
    assert!(seats.try_acquire() && seats.try_acquire() && !seats.try_acquire());
    let full = Semaphore::new(i32::MAX as u32);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| full.release(1))).is_err());
    assert_eq!(full.permits(), i32::MAX as u32);
}

#[test]
fn every_round_has_one_leader() {
    let (barrier, leaders) = (Barrier::new(THREADS), AtomicU32::new(0));
    let rounds = ROUNDS / 10;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 1..=rounds {
                    leaders.fetch_add(u32::from(barrier.wait()), Ordering::Relaxed);
                    barrier.wait();
                    assert_eq!(leaders.load(Ordering::Relaxed), round);
                    barrier.wait();
                }
            });
        }
    });
}

#[test]
fn once_is_once_and_again_after_a_panic() {
    let (once, count) = (Once::new(), AtomicU32::new(0));
    let panics = || once.call_once(|| panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert!(!once.is_completed());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                once.call_once(|| _ = count.fetch_add(1, Ordering::Relaxed));
                assert_eq!(count.load(Ordering::Relaxed), 1);
            });
        }
    });
    assert!(once.is_completed());
}
