//! The wait table on the hardware.

use contend_locks::{Deadline, Patient, Timeout, WaitTable};
use machine::{Home, Machine, Slept};
use std::sync::atomic::{AtomicU32, Ordering};

const ROUNDS: u32 = if cfg!(miri) { 20 } else { 2_000 };

type Table = WaitTable<Patient>;

fn set(table: &Table, word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    table.wake(table.key(word), u32::MAX);
}

/// While the word holds this value.
fn wait(table: &Table, word: &AtomicU32, value: u32, timeout: Timeout<'_, Patient>) -> Slept {
    table.wait_if(table.key(word), || word.load(Ordering::Relaxed) == value, timeout)
}

fn await_value(table: &Table, word: &AtomicU32, value: u32) {
    loop {
        let now = word.load(Ordering::Acquire);
        if now == value {
            return;
        }
        wait(table, word, now, Timeout::NONE);
    }
}

/// Pairs of threads pass a number to and fro, all in one bucket, while the table grows.
#[test]
fn nobody_is_left_asleep() {
    const PAIRS: usize = 4;
    let table = Table::with_buckets(1, contend_locks::Spacing::Packed, Home::FirstTouch);
    let words: [AtomicU32; PAIRS] = std::array::from_fn(|_| AtomicU32::new(0));
    std::thread::scope(|scope| {
        for word in &words {
            for side in 0..2 {
                let table = &table;
                scope.spawn(move || {
                    for round in (side..2 * ROUNDS).step_by(2) {
                        await_value(table, word, round);
                        set(table, word, round + 1);
                    }
                });
            }
        }
        for threads in 1..=64 {
            table.grow(threads);
            Patient::delay(10_000);
        }
    });
    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 2 * ROUNDS));
    assert_eq!(table.buckets(), 256, "four for each of 64 threads");
    assert!(words.iter().all(|word| table.wake(table.key(word), u32::MAX) == 0));
}

#[test]
fn a_word_that_holds_something_else_is_not_waited_on_and_a_deadline_ends_a_wait() {
    let (table, word) = (Table::for_threads(1), AtomicU32::new(1));
    assert_eq!(wait(&table, &word, 0, Timeout::NONE), Slept::Changed);
    let deadline = Deadline::after_ns::<Patient>(1_000_000);
    assert_eq!(wait(&table, &word, 1, Timeout::at(deadline)), Slept::GaveUp);
    assert_eq!(table.wake(table.key(&word), 1), 0, "who gave up is not counted");
    assert_eq!(table.key_at(&raw const word), table.key(&word));
}

#[test]
fn a_panic_of_whoever_looks_leaves_the_bucket_free() {
    let (table, word) =
        (Table::with_buckets(1, contend_locks::Spacing::Line, Home::FirstTouch), AtomicU32::new(1));
    let looks = || table.wait_if(table.key(&word), || panic!("on purpose"), Timeout::NONE);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(looks)).is_err());
    assert_eq!(wait(&table, &word, 0, Timeout::NONE), Slept::Changed);
    assert_eq!(table.sleepers(), 0);
}

/// As many as asked for are woken, in the order in which they came.
#[test]
fn the_first_that_came_is_woken_first() {
    let (table, word, order) = (Table::for_threads(3), AtomicU32::new(0), AtomicU32::new(0));
    let key = table.key(&word);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3)
            .map(|number| {
                let (table, word, order) = (&table, &word, &order);
                let waiter = scope.spawn(move || {
                    while wait(table, word, 0, Timeout::NONE) != Slept::Woken {}
                    order.fetch_add(1, Ordering::Relaxed)
                });
                while table.sleepers() <= number {
                    Patient::delay(1_000);
                }
                waiter
            })
            .collect();
        for (place, waiter) in waiters.into_iter().enumerate() {
            assert_eq!(table.wake(key, 1), 1);
            assert_eq!(waiter.join().expect("it does not panic"), place as u32);
        }
    });
}

/// Those that sleep in a bucket of a size that the table had before count among them.
#[test]
fn no_more_are_woken_than_asked_for_when_the_table_has_grown() {
    let (table, word) = (Table::for_threads(1), AtomicU32::new(0));
    let key = table.key(&word);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (table, word) = (&table, &word);
            scope.spawn(move || while wait(table, word, 0, Timeout::NONE) != Slept::Woken {});
            while table.sleepers() <= number {
                Patient::delay(1_000);
            }
            table.grow(64);
        }
        assert_eq!(table.wake(key, 2), 2, "one before it grew, two after");
        assert_eq!(table.sleepers(), 1);
        assert_eq!(table.wake(key, 2), 1);
    });
}
