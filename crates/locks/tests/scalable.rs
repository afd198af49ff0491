//! Sequence lock, counter and read-mostly value on the hardware.

use contend_locks::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const ROUNDS: u64 = if cfg!(miri) { 20 } else { 5_000 };

#[test]
fn readers_of_a_sequence_lock_see_whole_values() {
    static VALUE: SeqLock<[u64; 3], 3> = SeqLock::new();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    VALUE.update(|value| value.map(|word| word + 1));
                }
            });
            scope.spawn(|| {
                let mut last = 0;
                for _ in 0..ROUNDS {
                    let found = VALUE.read();
                    assert!(found == [found[0]; 3] && found[0] >= last, "{found:?} after {last}");
                    last = found[0];
                }
            });
        }
    });
    assert_eq!((VALUE.read(), VALUE.try_read()), ([2 * ROUNDS; 3], Some([2 * ROUNDS; 3])));
}

#[test]
fn a_change_that_panics_leaves_the_value_and_the_lock() {
    let value = SeqLock::<[u64; 1], 1>::new();
    value.write([1]);
    assert!(catch_unwind(AssertUnwindSafe(|| value.update(|_| panic!("on purpose")))).is_err());
    value.update(|[one]| [one + 1]);
    assert_eq!(value.try_read(), Some([2]));
}

#[test]
fn a_reader_inside_a_change_does_not_see_it_and_does_not_wait() {
    let value = SeqLock::<[u64; 1], 1>::new();
    value.update(|_| {
        assert_eq!((value.try_read(), value.read()), (Some([0]), [0]), "nothing is written yet");
        [1]
    });
    assert_eq!(value.read(), [1]);
}

#[test]
fn a_counter_counts_on_more_threads_than_shards() {
    let counter = contend_locks::Counter::<3>::new();
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    counter.add(2);
                    counter.subtract(1);
                }
            });
        }
    });
    assert_eq!(counter.sum(), 5 * ROUNDS);
    counter.subtract(5 * ROUNDS + 1);
    assert_eq!(counter.sum(), u64::MAX, "modulo 2^64");
}

#[test]
fn a_read_mostly_value_changes_as_a_whole() {
    let value = ReadMostly::<Vec<u64>, 4>::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS / 10 {
                    value.write(|values| {
                        values.push(0);
                        values.push(0);
                    });
                }
            });
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    assert_eq!(value.read(|values| values.len() % 2), 0, "half of a write");
                }
            });
        }
    });
    assert!(catch_unwind(AssertUnwindSafe(|| value.write(|_| panic!("on purpose")))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| value.read(|_| panic!("on purpose")))).is_err());
    value.write(Vec::clear);
    assert!(value.into_inner().is_empty());
}
