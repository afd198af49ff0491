//! What the checked machine takes for granted of a futex, by a lock that takes more for granted and loses a wake-up.

use crate::common::{explored, violation};
use contend_checker::{Checked, Model, Report, Violation};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Clock, Deadline, GaveUp, Home, Integer, Machine, Placed, Plan, Slept, Timeout, Word};

type U32 = <Checked as Machine>::U32;

const WRITER: u32 = 1;
/// A sleeper was woken and is on its way: releases wake no other sleeper.
const WAKING: u32 = 2;
const SLEEPING: u32 = 4;

/// The blocking lock reduced to its wake-ups. With `STALE` a waiter that gives up decides by a load whether it had a
/// wake-up to pass on, and writes nothing when it sees none.
struct Blocking<const STALE: bool> {
    word: U32,
}

/// The word once a waiter that has slept is no longer on its way.
fn left(state: u32) -> u32 {
    state & !WAKING | SLEEPING
}

impl<const STALE: bool> Blocking<STALE> {
    fn new() -> Self {
        Self { word: U32::ZERO }
    }

    fn enter(&self, has_slept: bool) -> Result<(), u32> {
        let mut state = self.word.load(Relaxed);
        while state & WRITER == 0 {
            let entered = if has_slept { left(state) } else { state } | WRITER;
            match self.word.compare_exchange(state, entered, Acquire, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => state = now,
            }
        }
        Err(state)
    }

    fn wait(&self, timeout: Timeout<'_, Checked>) -> Result<(), GaveUp> {
        let mut has_slept = false;
        loop {
            let Err(state) = self.enter(has_slept) else { return Ok(()) };
            if timeout.deadline.is_some_and(|deadline| deadline.passed::<Checked>()) {
                if has_slept {
                    self.give_up();
                }
                return Err(GaveUp);
            }
            let asleep = left(state);
            if asleep == state || self.word.compare_exchange(state, asleep, Relaxed, Relaxed).is_ok() {
                let _: Slept = Checked::sleep_while(&self.word, asleep, timeout);
                has_slept = true;
            }
        }
    }

    fn give_up(&self) {
        let mut state = self.word.load(Relaxed);
        while !(STALE && left(state) == state) {
            match self.word.compare_exchange(state, left(state), Relaxed, Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        if state & WRITER == 0 {
            Checked::wake(&self.word, 1);
        }
    }

    fn release(&self) {
        let mut state = self.word.load(Relaxed);
        while state & (SLEEPING | WAKING) == SLEEPING {
            match self.word.compare_exchange(state, state & !SLEEPING | WAKING, Relaxed, Relaxed) {
                Ok(_) => {
                    if Checked::wake(&self.word, 1) == 0 {
                        self.word.fetch_and(!WAKING, Relaxed);
                    }
                    break;
                }
                Err(now) => state = now,
            }
        }
        if self.word.fetch_sub(WRITER, Release) & (SLEEPING | WAKING) == SLEEPING {
            Checked::wake(&self.word, 1);
        }
    }
}

/// A holder, a waiter that may give up, and others that wait for as long as it takes. Two
/// threads leave no wake-up under way.
fn left_by_one<const STALE: bool>(threads: usize, model: Model) -> Report {
    explored(model, &|| {
        let lock = Placed::<_, Checked>::new(Blocking::<STALE>::new(), Home::FirstTouch);
        Checked::run(&Plan::threads(threads), &|thread| {
            let deadline = Deadline { clock: Clock::Monotonic, at_ns: 500 };
            let timeout = if thread == 1 { Timeout::at(deadline) } else { Timeout::NONE };
            if lock.wait(timeout).is_ok() {
                lock.release();
            }
        });
        let end = lock.word.load(Relaxed);
        // With another thread there whose wake-up it was, the wait that never ends is the finding.
        if threads > 2 || end & WAKING == 0 {
            Ok(())
        } else {
            Err(format!("the word is {end}: a wake-up was kept"))
        }
    })
}

#[test]
fn a_waiter_that_gives_up_by_a_stale_load_loses_a_wake_up() {
    let kept = left_by_one::<true>(2, Model::Ra);
    assert!(matches!(violation(&kept), Violation::Panic { thread: None, .. }), "{:?}", violation(&kept));
    let lost = left_by_one::<true>(3, Model::Ra);
    assert_eq!(violation(&lost).name(), "endless wait");
    // Where a load is never staler than an own read-modify-write, nothing is lost: the mistake needs a weak model.
    for model in [Model::Sc, Model::Tso, Model::Pso] {
        assert!(left_by_one::<true>(2, model).is_verified(), "{model}");
    }
}

#[test]
fn a_waiter_that_gives_up_by_what_it_wrote_passes_its_wake_up_on() {
    for model in Model::ALL {
        assert!(left_by_one::<false>(2, model).is_verified(), "{model}");
    }
    assert!(left_by_one::<false>(3, Model::Sc).is_verified());
}
