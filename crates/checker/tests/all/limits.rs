//! What ends an exploration: that it is to stop, and that the checked machine is too small for a client.

use crate::common::by_states;
use contend_checker::{Bound, Checked, Exploration, Model, Report, Search, explore};
use machine::Ordering::Relaxed;
use machine::{Home, Integer, Machine, Node, Placed, Plan, Timeout, Word};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;

type U32 = <Checked as Machine>::U32;

/// Explores threads that do the same.
fn report(exploration: &Exploration, threads: usize, body: &(dyn Fn(usize, &[U32; 80]) + Sync)) -> Report {
    explore(exploration, &|| {
        let words = Placed::<_, Checked>::new([const { U32::ZERO }; 80], Home::FirstTouch);
        Checked::run(&Plan::threads(threads), &|thread| body(thread, &words));
        Ok(())
    })
}

#[test]
fn an_exploration_stops_soon_after_it_is_told_to() {
    static STOP: AtomicBool = AtomicBool::new(false);
    for (search, most) in [(Search::Executions, 10), (Search::States, 80)] {
        STOP.store(false, Relaxed);
        let completed = Cell::new(0);
        let exploration = Exploration { stop: Some(&STOP), search, ..Exploration::of(Model::Sc) };
        let report = explore(&exploration, &|| {
            let words = Placed::<_, Checked>::new([const { U32::ZERO }; 3], Home::FirstTouch);
            Checked::run(&Plan::threads(3), &|thread| {
                words[0].fetch_add(1, Relaxed);
                words[1 + thread % 2].swap(thread as u32, Relaxed);
                words[2 - thread % 2].swap(thread as u32, Relaxed);
            });
            completed.set(completed.get() + 1);
            STOP.store(completed.get() >= 3, Relaxed);
            Ok(())
        });
        assert_eq!(report.bound, Some(Bound::Time), "{search:?}");
        assert!(report.counts.all() <= most, "{search:?}: {:?}", report.counts);
    }
}

fn is_too_small(report: &Report) -> bool {
    report.counterexample.is_none() && report.cut_off && report.bound == Some(Bound::Capacity)
}

#[test]
fn more_words_than_states_tell_apart_are_no_mistake_and_said() {
    let all = |_: usize, words: &[U32; 80]| words.iter().for_each(|word| word.store(1, Relaxed));
    assert!(is_too_small(&report(&by_states(Model::Sc), 2, &all)));
    assert!(report(&Exploration::of(Model::Sc), 1, &all).is_verified());
}

/// The first owner keeps the lock, so that all others come to wait for it.
#[test]
fn more_waiters_than_the_checked_kernel_knows_are_no_mistake() {
    let acquires = |_: usize, words: &[U32; 80]| {
        let deadline = Timeout::at(machine::Deadline::after_ns::<Checked>(1));
        let _ = Checked::acquire_inheriting(&words[0], deadline);
    };
    let first = Exploration { most_executions: Some(30), ..Exploration::of(Model::Sc) };
    let few = report(&first, 8, &acquires);
    assert!(few.counterexample.is_none() && !few.cut_off, "{:?}", few.counterexample);
    for search in [Search::Executions, Search::States] {
        let limits = Exploration { search, most_states: Some(20_000), ..first.clone() };
        let many = report(&limits, 9, &acquires);
        assert!(many.counterexample.is_none() && many.cut_off, "{search:?}: {:?}", many.counterexample);
    }
}

#[repr(C)]
struct QueueNode(U32);

// SAFETY: zero bits are valid, at most a line, nothing to drop, words of the machine only.
unsafe impl Node<Checked> for QueueNode {}

#[test]
fn more_than_a_thread_has_of_anything_is_no_mistake() {
    let nodes = |_: usize, _: &[U32; 80]| {
        (0..9).for_each(|_| {
            Checked::allocate_node::<QueueNode>();
        });
    };
    let memory = |_: usize, _: &[U32; 80]| {
        std::mem::forget(Placed::<_, Checked>::new([const { U32::ZERO }; 2_000], Home::FirstTouch));
    };
    let reads = |_: usize, words: &[U32; 80]| {
        let attempt = |_: &U32| words[..9].iter().all(|word| word.load(Relaxed) == 0);
        let _ = Checked::spin_rmw_or(&words[0], Timeout::NONE, attempt);
    };
    for search in [Search::Executions, Search::States] {
        let exploration = Exploration { search, ..Exploration::of(Model::Sc) };
        assert!(is_too_small(&report(&exploration, 1, &nodes)), "nodes, {search:?}");
        assert!(is_too_small(&report(&exploration, 1, &memory)), "memory, {search:?}");
        assert!(is_too_small(&report(&exploration, 1, &reads)), "reads, {search:?}");
    }
}

/// Adds one when it is dropped.
struct Adds<'a>(&'a U32);

impl Drop for Adds<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// What a thread throws does not lie on its stack, so that it cannot be put back to an access on the way. What is explored afterwards
/// on the same host thread is not mistaken for it.
#[test]
fn a_thread_that_accesses_words_while_it_unwinds_is_followed_by_executions_alone() {
    let unwinds = |_: usize, words: &[U32; 80]| {
        let attempt = || {
            let _adds = Adds(&words[0]);
            resume_unwind(Box::new(words[1].fetch_add(1, Relaxed)));
        };
        drop(catch_unwind(AssertUnwindSafe(attempt)));
    };
    let adds = |_: usize, words: &[U32; 80]| drop(Adds(&words[0]));
    for _ in 0..3 {
        assert!(report(&Exploration::of(Model::Sc), 2, &unwinds).is_verified());
        let by_states = report(&by_states(Model::Sc), 2, &unwinds);
        assert!(by_states.counterexample.is_none() && by_states.cut_off, "{:?}", by_states.counterexample);
        assert_eq!(by_states.bound, Some(Bound::Unfollowed));
    }
    assert!(report(&by_states(Model::Sc), 2, &adds).is_verified());
}
