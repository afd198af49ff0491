//! Condition waits of the simulated program. They end by what other threads do, so they last longer where those come to do it later.

use super::durations::Durations;
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Deadline, Home, Machine, Placed, Timeout, Word};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use workloads::Random;

/// How often sections of a lock end in a condition wait, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Waits {
    /// The chance that a visit has one.
    pub(crate) chance: f64,
    /// How long the mean one took, nanoseconds.
    pub(crate) mean_ns: f64,
    /// How often each other thread acquired the lock meanwhile, on average. `None` where a wait ends by itself, or by no
    /// thread that the profile knows: it then takes as long whatever the others do.
    pub(crate) turns: Option<f64>,
}

impl Waits {
    /// Visits of a lock that was acquired so often, by calls and by the ends of condition waits: a visit is a section, and after a
    /// condition wait another one. Where most sections end in a wait, every visit does.
    pub(crate) fn visits(acquisitions: u64, waits: u64) -> u64 {
        acquisitions.saturating_sub(waits).max(acquisitions.div_ceil(2)).max(1)
    }

    /// Of a lock that was acquired so often, the ends of the waits included, in so much time of all threads.
    pub(crate) fn new(
        waits: u64,
        timeouts: u64,
        waits_ns: f64,
        acquisitions: u64,
        threads: u64,
        threads_ns: f64,
    ) -> Option<Self> {
        if waits == 0 || acquisitions == 0 {
            return None;
        }
        let mean_ns = waits_ns / waits as f64;
        let visits = Self::visits(acquisitions, waits);
        let by_others = threads > 1 && timeouts <= waits / 2 && threads_ns > 0.0;
        Some(Self {
            chance: acquisitions.saturating_sub(visits) as f64 / visits as f64,
            mean_ns,
            turns: by_others.then(|| mean_ns * acquisitions as f64 / threads_ns),
        })
    }
}

/// The threads that wait on the condition of one lock, and when: after how many acquisitions of the lock each goes on.
#[derive(Default)]
struct Waiting {
    acquisitions: u64,
    until: BTreeSet<(u64, usize)>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    ended: bool,
}

/// The conditions of all locks of a program, and where each thread sleeps.
///
/// The counts are the host's: a simulated machine pays for the sleep and the wake-up, not for what decides about them.
pub(crate) struct Conditions<M: Machine> {
    state: Mutex<State>,
    gates: Vec<Placed<M::U32, M>>,
}

impl<M: Machine> Conditions<M> {
    pub(crate) fn new(locks: usize, threads: usize, home: Home) -> Self {
        let waiting = (0..locks).map(|_| Waiting::default()).collect();
        Self {
            state: Mutex::new(State { waiting, ended: false }),
            gates: (0..threads).map(|_| Placed::new(M::U32::ZERO, home)).collect(),
        }
    }

    /// Never held while the machine is asked for anything: another thread of it may run then.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In a transaction, ends it: what is noted here is the host's, and no abort takes it back.
    pub(crate) fn leave_transaction(&self) {
        if M::in_transaction() {
            M::wake(&raw const *self.gates[0], 1);
        }
    }

    /// A section of the lock is over: the threads that waited for it go on.
    pub(crate) fn acquired(&self, lock: usize) {
        let mut due = Vec::new();
        {
            let waiting = &mut self.state().waiting[lock];
            waiting.acquisitions += 1;
            while let Some(&(until, thread)) = waiting.until.first()
                && until <= waiting.acquisitions
            {
                waiting.until.pop_first();
                due.push(thread);
            }
        }
        due.into_iter().for_each(|thread| self.open(thread));
    }

    /// The thread waits on the lock's condition, as the profile says; `alone` if it holds another lock: then no other
    /// thread can be relied on to end the wait.
    pub(crate) fn wait(&self, lock: usize, thread: usize, waits: &Waits, alone: bool, random: &mut Random) {
        let gate = &self.gates[thread];
        let turns = waits.turns.filter(|_| !alone && self.gates.len() > 1);
        let Some(turns) = turns else {
            let deadline = Deadline::after_ns::<M>(Durations::Exponential.draw(random, waits.mean_ns));
            let _ = M::sleep_while(gate, 0, Timeout::at(deadline));
            return;
        };
        let others = (self.gates.len() - 1) as f64;
        let acquisitions = Durations::Exponential.draw(random, turns * others).max(1);
        if let Some(first) = self.enlist(lock, thread, acquisitions) {
            return first.into_iter().for_each(|thread| self.open(thread));
        }
        while gate.load(Acquire) == 0 {
            let _ = M::sleep_while(gate, 0, Timeout::NONE);
        }
        gate.store(0, Relaxed);
    }

    /// Enters the thread among those that wait. Where all others wait already, or the run is over, it gives whom to wake instead:
    /// the one that is the nearest to its end.
    fn enlist(&self, lock: usize, thread: usize, acquisitions: u64) -> Option<Option<usize>> {
        let mut state = self.state();
        if state.ended {
            return Some(None);
        }
        let asleep: usize = state.waiting.iter().map(|waiting| waiting.until.len()).sum();
        if asleep + 1 < self.gates.len() {
            let waiting = &mut state.waiting[lock];
            waiting.until.insert((waiting.acquisitions + acquisitions, thread));
            return None;
        }
        let left = |waiting: &Waiting| Some(waiting.until.first()?.0 - waiting.acquisitions);
        let nearest = state
            .waiting
            .iter_mut()
            .filter(|waiting| left(waiting).is_some())
            .min_by_key(|waiting| left(waiting));
        Some(nearest.and_then(|waiting| waiting.until.pop_first()).map(|(_, thread)| thread))
    }

    /// The run is over: no thread waits any more.
    pub(crate) fn end(&self) {
        let asleep: Vec<usize> = {
            let mut state = self.state();
            state.ended = true;
            state
                .waiting
                .iter_mut()
                .flat_map(|waiting| std::mem::take(&mut waiting.until))
                .map(|(_, thread)| thread)
                .collect()
        };
        asleep.into_iter().for_each(|thread| self.open(thread));
    }

    fn open(&self, thread: usize) {
        let gate = &self.gates[thread];
        gate.store(1, Release);
        M::wake(&raw const **gate, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::{Guard, Load, Program, Section, Span, Step};
    use super::*;
    use simulator::{Hardware, Simulated, Simulation};
    use topology::carried;

    /// Operations a nanosecond of a program whose sections of 100 ns end in such waits, with 1 µs of think time.
    fn rate(threads: u32, waits: Waits) -> f64 {
        let hardware = Hardware::new(&carried::machine("epyc-9654x2")).expect("a machine");
        let cycles = |ns: f64| ns * hardware.mhz as f64 / 1e3;
        let section = Section { work_cycles: cycles(100.0), spread: Durations::Fixed, lines: 1.0 };
        let guard = Guard {
            lock: "futex",
            copies: 1,
            apart: false,
            reads: 0.0,
            exclusive: section.clone(),
            shared: section,
            waits: Some(waits),
        };
        let program = Program {
            guards: vec![guard],
            steps: vec![Step { guard: 0, chance: 1.0 }],
            nested: [vec![], vec![]],
            think_cycles: cycles(1_000.0),
            think: Durations::Exponential,
        };
        let cores: Vec<u32> = (0..threads).collect();
        let load = Load {
            cores: &cores,
            seed: 7,
            start_at_locks: true,
            warm_up: Span::of_operations(200),
            timed: Span::of_operations(2_000),
            recorder: None,
        };
        let run = || program.run::<Simulated>(&load).rate;
        Simulation::new(&hardware).seed(7).run(run).expect("nobody waits for ever").0
    }

    #[test]
    fn a_wait_counted_in_acquisitions_lasts_as_long_as_it_did_where_it_was_counted() {
        let by_itself = Waits { chance: 0.2, mean_ns: 20_000.0, turns: None };
        let timed = rate(8, by_itself);
        // Each thread acquires 1.2 times an operation, and has an eighth of the operations.
        let turns = by_itself.mean_ns * 1.2 * timed / 8.0;
        let counted = rate(8, Waits { turns: Some(turns), ..by_itself });
        assert!((counted / timed - 1.0).abs() < 0.15, "{counted} for {timed}");
    }

    #[test]
    fn nobody_waits_for_ever_when_everybody_waits() {
        let long = Waits { chance: 1.0, mean_ns: 1_000.0, turns: Some(1e6) };
        for threads in [1, 2, 3] {
            assert!(rate(threads, long) > 0.0, "{threads} threads");
        }
    }

    #[test]
    fn waits_are_counted_in_what_others_do_if_they_end_by_that() {
        // 1,000 acquisitions by 4 threads in 1 ms of each, 100 of them by the ends of waits of 20 µs.
        let waits =
            |timeouts, threads| Waits::new(100, timeouts, 2e6, 1_000, threads, 4e6).expect("there are waits");
        let by_others = waits(0, 4);
        assert_eq!((by_others.chance, by_others.mean_ns), (100.0 / 900.0, 20_000.0));
        // 250 acquisitions of each thread in 1 ms are 5 in 20 µs.
        assert!((by_others.turns.expect("by others") - 5.0).abs() < 1e-9, "{by_others:?}");
        assert_eq!(waits(60, 4).turns, None, "most reach their deadline");
        assert_eq!(waits(0, 1).turns, None, "nobody else touched the lock");
        assert_eq!(Waits::new(0, 0, 0.0, 1_000, 4, 4e6), None);
        let handing_on = Waits::new(3_998, 0, 4e6, 4_000, 2, 4e6).expect("there are waits");
        assert_eq!(
            (handing_on.chance, Waits::visits(4_000, 3_998)),
            (1.0, 2_000),
            "all sections but two end in one"
        );
    }
}
