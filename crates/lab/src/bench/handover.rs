//! From a release to the acquisition of the one who waits, timed on both sides.

use super::contenders::{Contender, Measure, Wait};
use super::timing::stamp;
use crate::calibrate::time::middle;
use machine::{Home, Machine, Native, Placed, PlainCell, Plan};
use std::sync::Mutex;
use workloads::client::Wrong;
use workloads::exclusion::Exclusion;

/// The lock is held so long, so that the others are waiting when it is released.
const HOLD_CYCLES: u64 = 1_000;

/// A thread comes back so long after its release: the next one has the lock then, whatever the lock's order.
const THINK_CYCLES: u64 = 400;

/// One critical section, on the cycle counter.
#[derive(Debug, Clone, Copy)]
struct Section {
    thread: usize,
    asked: u64,
    acquired: u64,
    releasing: u64,
    /// Nobody else was inside.
    alone: bool,
}

/// A lock, and what threads count under it.
#[repr(C, align(128))]
pub(super) struct LockAndCount<S> {
    pub(super) lock: S,
    pub(super) count: <Native as Machine>::Cell<u64>,
}

impl<S: Exclusion> LockAndCount<S> {
    pub(super) fn placed() -> Placed<Self, Native> {
        Placed::new(Self { lock: S::new(), count: PlainCell::ZERO }, Home::FirstTouch)
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

/// The median hand-over of a lock between threads on these cores that all want it, in cycles, one stamp taken off. None
/// where the threads never ran together.
pub(super) fn median_cycles(
    contender: &Contender,
    cores: &[u32],
    turns: u32,
    stamp_cycles: f64,
) -> Option<Result<f64, Wrong>> {
    for _ in 0..TRIES {
        match contender.measure(Wait::Pure, Handover { cores, turns })? {
            Err(wrong) => return Some(Err(wrong)),
            Ok(cycles) if cycles.len() >= ENOUGH => {
                return middle(&cycles).map(|spread| Ok((spread.median - stamp_cycles).max(0.0)));
            }
            Ok(_) => {}
        }
    }
    None
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
        let guarded = LockAndCount::<S>::placed();
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
    use crate::bench::contenders::open::{Open, caught};

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
    fn a_lock_that_does_not_exclude_is_wrong() {
        let wrong = caught(|| Handover { cores: &[0, 1], turns: 2_000 }.measure::<Native, Open>().err());
        assert!(matches!(wrong, Wrong::NotAlone { .. } | Wrong::Lost { .. }), "{wrong}");
    }
}
