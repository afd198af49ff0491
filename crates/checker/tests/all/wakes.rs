//! How often threads wake others, from state to state: neither forgotten where states are merged nor counted on another way.

use crate::common::{by_states, explored};
use contend_checker::checked::wakes;
use contend_checker::{Checked, Exploration, Model, explore};
use machine::Ordering::Relaxed;
use machine::{Deadline, Home, Integer, Machine, Placed, Plan, Timeout, Word};

type U32 = <Checked as Machine>::U32;

#[test]
fn a_way_that_differs_in_a_wake_up_alone_is_gone_to_its_end() {
    let report = explored(Model::Sc, &|| {
        let word = Placed::<U32, Checked>::new(Word::ZERO, Home::FirstTouch);
        Checked::run(&Plan::threads(1), &|_| {
            Checked::sleep_while(&word, 0, Timeout::at(Deadline::after_ns::<Checked>(1)));
            if Checked::is_at_limit(0, 1) {
                Checked::wake(&raw const *word, 1);
            }
        });
        if wakes() == 0 { Ok(()) } else { Err("it wakes".to_owned()) }
    });
    assert!(report.counterexample.is_some());
}

#[test]
fn wake_ups_of_a_way_that_was_left_are_not_counted() {
    for exploration in [Exploration::of(Model::Sc), by_states(Model::Sc)] {
        let report = explore(&exploration, &|| {
            let words = Placed::<[U32; 2], Checked>::new([const { Word::ZERO }; 2], Home::FirstTouch);
            Checked::run(&Plan::threads(2), &|thread| {
                let first = words[0].swap(thread as u32 + 1, Relaxed);
                Checked::wake(&raw const words[1], 1);
                Checked::spin_until(&words[0], Relaxed, |word| word > 0);
                words[0].fetch_add(first, Relaxed);
                words[0].fetch_add(thread as u32, Relaxed);
            });
            if wakes() == 2 { Ok(()) } else { Err(format!("{} wake-ups", wakes())) }
        });
        let found = report.counterexample.map(|found| found.violation.to_string());
        assert_eq!(found, None);
        assert!(report.counts.pruned + report.counts.merged > 0, "some way was left");
    }
}
