//! From a release to the acquisition of the one who waits, timed on both sides; and the least that it can take.
//!
//! # The floor
//!
//! What a hand-over cannot do without is line transfers, one after the other. How many depends on what the release has to know:
//!
//! - Where it knows the word that the waiter polls, one line travels: the release takes it away from the waiter, which then fetches it
//!   back. So do a ticket lock (the word is the lock's), an array lock (the next slot) and a CLH lock (the holder's own node).
//! - Where the waiter polls a word of its own, the release has to learn first who waits. The waiter has written that into the holder's
//!   node, or into the lock where that is the node (K42), after the holder acquired: the release fetches that line, and only then does it
//!   know which line to write. That is the price of MCS for polling in a place of the waiter's choice, and no lock with links can do
//!   without.
//!
//! Both floors are hand-overs between two threads that take turns without any lock, timed as the locks' are: with the same stamps,
//! sections and pauses between two polls. So what is left over them is the lock's.

use super::contenders::{Contender, Measure, Wait};
use super::timing::stamp;
use machine::Ordering::{Acquire, Release};
use machine::{Home, Machine, Native, Placed, PlainCell, Plan, Word};
use std::sync::Mutex;
use workloads::client::Wrong;
use workloads::exclusion::Exclusion;

/// The lock is held so long, so that the others are waiting when it is released: also the first of a local queue of `hclh`, which
/// comes to the global one after a thousand cycles.
const HOLD_CYCLES: u64 = 2_000;

/// A thread comes back so long after its release: the next one has the lock then, whatever the lock's order.
const THINK_CYCLES: u64 = 400;

/// One critical section, on the cycle counter.
#[derive(Debug, Clone, Copy)]
struct Section {
    thread: usize,
    asked: u64,
    acquired: u64,
    releasing: u64,
    /// No other thread was inside.
    alone: bool,
}

/// A lock, and what threads count under it.
#[repr(C, align(128))]
pub(super) struct LockAndCount<S> {
    pub(super) lock: S,
    pub(super) count: <Native as Machine>::Cell<u64>,
}

impl<S: Exclusion> LockAndCount<S> {
    pub(super) fn placed(home: Home) -> Placed<Self, Native> {
        Placed::new(Self { lock: S::new(), count: PlainCell::ZERO }, home)
    }

    #[inline]
    pub(super) fn touch(&self) {
        self.count.set(self.count.get() + 1);
    }

    pub(super) fn adds_up(&self, ran: u64) -> Result<(), Wrong> {
        let counted = self.count.get();
        if ran == counted { Ok(()) } else { Err(Wrong::Lost { ran, counted }) }
    }
}

/// So many hand-overs make a median; threads that did not run together give fewer, and are tried again so often.
const ENOUGH: usize = 100;
const TRIES: u32 = 20;

/// What hand-overs take, in cycles, one stamp taken off. None where the threads that `run` starts never ran together.
fn cycles(
    stamp_cycles: f64,
    run: impl Fn() -> Option<Result<Vec<f64>, Wrong>>,
) -> Option<Result<f64, Wrong>> {
    for _ in 0..TRIES {
        match run()? {
            Err(wrong) => return Some(Err(wrong)),
            Ok(cycles) if cycles.len() >= ENOUGH => {
                return Some(Ok((middle_half_mean(cycles) - stamp_cycles).max(0.0)));
            }
            Ok(_) => {}
        }
    }
    None
}

/// The mean of the middle half: as steady as the median, and finer than the steps in which a cycle counter advances, which may be a
/// fifth of a hand-over.
fn middle_half_mean(mut sample: Vec<f64>) -> f64 {
    sample.sort_by(f64::total_cmp);
    let quarter = sample.len() / 4;
    let middle = &sample[quarter..sample.len() - quarter];
    middle.iter().sum::<f64>() / middle.len() as f64
}

/// The hand-over of a lock between threads on these cores that all want it, in cycles, one stamp taken off. None where the
/// threads never ran together.
pub(super) fn lock_cycles(
    contender: &Contender,
    cores: &[u32],
    turns: u32,
    stamp_cycles: f64,
) -> Option<Result<f64, Wrong>> {
    cycles(stamp_cycles, || contender.measure(Wait::Pure, Handover { cores, turns }))
}

/// What travels between two cores in a hand-over, one line after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Floor {
    /// The line that the waiter polls and the release writes.
    OneLine,
    /// Before it the line in which the waiter has said where it polls.
    TwoLines,
}

impl Floor {
    /// Its name in tables and goals.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneLine => "one line",
            Self::TwoLines => "two lines",
        }
    }

    /// Cycles of such a hand-over without a lock, one stamp taken off. None where the threads never ran together.
    pub(super) fn cycles(self, cores: [u32; 2], turns: u32, stamp_cycles: f64) -> Option<f64> {
        cycles(stamp_cycles, || Some(Ok(self.handovers(cores, turns))))?.ok()
    }

    /// Each thread has its turn so many times.
    fn handovers(self, cores: [u32; 2], turns: u32) -> Vec<f64> {
        /// The words of one thread.
        #[repr(align(128))]
        struct Line {
            /// Its owner's turn, which the other thread writes.
            turn: <Native as Machine>::U32,
            /// The turn for which the other thread waits.
            link: <Native as Machine>::U32,
        }
        let line = || Line { turn: Word::ZERO, link: Word::ZERO };
        let lines = Placed::<_, Native>::new([line(), line()], Home::FirstTouch);
        // Even turns are thread 0's. With one line both threads poll the same one.
        let polled = |turn: u32| match self {
            Self::OneLine => &lines[0].turn,
            Self::TwoLines => &lines[turn as usize % 2].turn,
        };
        let last = 2 * turns - 1;
        let all = Mutex::new(Vec::new());
        Native::run(&Plan::on(&cores), &|thread| {
            let mut mine = Vec::with_capacity(turns as usize);
            for turn in (thread as u32..=last).step_by(2) {
                let asked = stamp();
                if self == Self::TwoLines {
                    lines[1 - thread].link.store(turn, Release); // [1] to the other thread
                }
                Native::spin_until(polled(turn), Acquire, |now| now == turn); // [2] from the other thread
                let acquired = stamp();
                Native::delay(HOLD_CYCLES);
                let releasing = stamp();
                let next = if self == Self::TwoLines && turn < last {
                    // [1] from the other thread. Not compared with the next turn: the place of the store below has to come from here.
                    Native::spin_until(&lines[thread].link, Acquire, |link| link > turn)
                } else {
                    turn + 1
                };
                polled(next).store(turn + 1, Release); // [2] to the other thread
                mine.push(Section { thread, asked, acquired, releasing, alone: true });
                Native::delay(THINK_CYCLES);
            }
            all.lock().expect("no holder panics").extend(mine);
        });
        handovers(all.into_inner().expect("no holder panics"))
    }
}

/// Times hand-overs between threads on these cores that all want the lock.
struct Handover<'a> {
    /// One thread each.
    cores: &'a [u32],
    /// Acquisitions of each thread.
    turns: u32,
}

impl Measure for Handover<'_> {
    type Output = Result<Vec<f64>, Wrong>;

    /// Cycles of each hand-over to a thread that was waiting, the cost of the stamp included.
    fn measure<M: Machine, S: Exclusion>(self) -> Self::Output {
        let guarded = LockAndCount::<S>::placed(Home::FirstTouch);
        let all = Mutex::new(Vec::new());
        let plan = Plan::on(self.cores);
        Native::run(&plan, &|thread| {
            let mut mine = Vec::with_capacity(self.turns as usize);
            for _ in 0..self.turns {
                let asked = stamp();
                let (acquired, releasing, alone) = guarded.lock.exclusive(|| {
                    let acquired = stamp();
                    let count = guarded.count.get() + 1;
                    guarded.count.set(count);
                    Native::delay(HOLD_CYCLES);
                    let alone = guarded.count.get() == count;
                    (acquired, stamp(), alone)
                });
                mine.push(Section { thread, asked, acquired, releasing, alone });
                Native::delay(THINK_CYCLES);
            }
            all.lock().expect("no holder panics").extend(mine);
        });
        let sections = all.into_inner().expect("no holder panics");
        if let Some(disturbed) = sections.iter().find(|section| !section.alone) {
            return Err(Wrong::NotAlone { thread: disturbed.thread });
        }
        let (ran, counted) = (sections.len() as u64, guarded.count.get());
        if ran != counted {
            return Err(Wrong::Lost { ran, counted });
        }
        Ok(handovers(sections))
    }
}

/// The times from one thread's release to the acquisition of another that was waiting by then.
fn handovers(mut sections: Vec<Section>) -> Vec<f64> {
    sections.sort_unstable_by_key(|section| section.acquired);
    let waited = sections.windows(2).filter(|pair| {
        let (last, next) = (pair[0], pair[1]);
        last.thread != next.thread && next.asked < last.releasing && last.releasing <= next.acquired
    });
    waited.map(|pair| (pair[1].acquired - pair[0].releasing) as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::open::{Open, caught};

    #[test]
    fn only_waiters_of_another_core_count() {
        let section =
            |thread, asked, acquired, releasing| Section { thread, asked, acquired, releasing, alone: true };
        let sections = vec![
            section(1, 40, 130, 200), // waited for thread 0 from 40 to 100
            section(0, 0, 10, 100),
            section(1, 210, 220, 300), // the same thread again
            section(0, 305, 310, 400), // came when the lock was free
            section(1, 350, 425, 500), // waited
        ];
        assert_eq!(handovers(sections), [30.0, 25.0]);
    }

    #[test]
    fn the_middle_half_is_what_counts() {
        assert!((middle_half_mean(vec![900.0, 20.0, 30.0, 0.0]) - 25.0).abs() < 1e-9);
        assert!((middle_half_mean(vec![7.0]) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn turns_without_a_lock_are_handed_over_in_order() {
        let cores = session::host::allowed_cores();
        let pair = [cores[0], *cores.get(1).unwrap_or(&cores[0])];
        if pair[0] == pair[1] {
            return; // the threads would take turns by time slices
        }
        for floor in [Floor::OneLine, Floor::TwoLines] {
            let handed_over = floor.handovers(pair, 200).len();
            assert!(handed_over < 2 * 200, "{floor:?}: {handed_over}"); // it ended, and no thread handed over the first turn
        }
    }

    #[test]
    fn a_lock_that_does_not_exclude_is_wrong() {
        let wrong = caught(|| Handover { cores: &[0, 1], turns: 2_000 }.measure::<Native, Open>().err());
        assert!(matches!(wrong, Wrong::NotAlone { .. } | Wrong::Lost { .. }), "{wrong}");
    }
}
