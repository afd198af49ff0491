//! Loads of one word with nothing but delays between them, which count as one where they are by one ordering.

use crate::common::by_states;
use contend_checker::{Checked, Exploration, Model, explore};
use machine::Ordering::{self, Acquire, Relaxed, Release};
use machine::{Home, Machine, Placed, PlainCell, Plan, Word};

/// A reader finds a word written by one ordering, and reads it again by another one before it reads what the word publishes.
fn has_race(exploration: &Exploration, again: Ordering) -> bool {
    let report = explore(exploration, &|| {
        let shared = (<Checked as Machine>::Cell::<u64>::ZERO, <Checked as Machine>::U32::ZERO);
        let shared = Placed::<_, Checked>::new(shared, Home::FirstTouch);
        let (cell, word) = &*shared;
        Checked::run(&Plan::threads(2), &|thread| {
            if thread == 0 {
                cell.set(1);
                word.store(1, Release);
            } else if word.load(Relaxed) == 1 {
                Checked::delay(1);
                if word.load(again) == 1 {
                    cell.get();
                }
            }
        });
        Ok(())
    });
    assert!(report.complete || report.counterexample.is_some());
    report.counterexample.is_some()
}

#[test]
fn a_load_that_acquires_is_no_repeated_relaxed_one() {
    for exploration in [Exploration::of(Model::Ra), by_states(Model::Ra)] {
        assert!(has_race(&exploration, Relaxed));
        assert!(!has_race(&exploration, Acquire));
    }
}
