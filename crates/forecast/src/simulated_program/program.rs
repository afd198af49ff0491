//! A program of the kind of the profiled one, for any machine: threads that go round between think time and sections
//! under several locks.

use super::conditions::{Conditions, Waits};
use super::durations::{Durations, even};
use super::recorder::{Place, Recorder};
use locks::catalogue::{self, Lock, Visitor};
use locks::{DowngradeLock, RawLock, RawRwLock, TryLock};
use machine::{Clock, Event, Home, Machine, Placed, PlainCell, Plan};
use std::sync::{Mutex, PoisonError};
use workloads::Random;

/// What happens in a critical section.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    /// Mean work, cycles, besides touching lines.
    pub(crate) work_cycles: f64,
    /// How the work is spread.
    pub(crate) spread: Durations,
    /// Shared lines that it changes, or looks at where it reads; a part of a line is one that some sections touch.
    pub(crate) lines: f64,
}

/// A lock of the program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Guard {
    /// The lock of the catalogue that is run.
    pub(crate) lock: &'static str,
    /// Into so many the lock is split: each section takes one of them, each as likely.
    pub(crate) copies: usize,
    /// Each thread changes lines of its own.
    pub(crate) apart: bool,
    /// Share of the sections that read.
    pub(crate) reads: f64,
    pub(crate) exclusive: Section,
    pub(crate) shared: Section,
    /// How many sections end in a condition wait.
    pub(crate) waits: Option<Waits>,
}

impl Guard {
    /// Of more copies these are enough: where so many are, threads hardly meet, and the memory of a simulation has a bound.
    fn most_copies(&self, threads: usize, guards: usize) -> usize {
        /// Lines of all copies of all guards: half of the memory.
        const LINES: usize = 2 << 20;
        /// Of the largest lock, an array of 1,024 places.
        const OF_A_LOCK: usize = 1_100;
        let parts = if self.apart { threads } else { 1 };
        let of_a_copy = OF_A_LOCK + parts * self.guarded_lines();
        (LINES / guards.max(1) / of_a_copy).max(1)
    }

    /// Lines that a section may touch.
    fn guarded_lines(&self) -> usize {
        self.exclusive.lines.max(self.shared.lines).ceil() as usize
    }
}

/// A visit of a lock in an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    /// Which guard.
    pub(crate) guard: usize,
    /// The chance that an operation takes this step.
    pub(crate) chance: f64,
}

/// What every thread repeats: its steps in order, with the think time in equal parts between them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Program {
    pub(crate) guards: Vec<Guard>,
    pub(crate) steps: Vec<Step>,
    /// Visits within each section of the first guard, in the middle of its work: of its exclusive sections, then of its shared.
    pub(crate) nested: [Vec<Step>; 2],
    /// Mean think time of one operation, cycles.
    pub(crate) think_cycles: f64,
    pub(crate) think: Durations,
}

/// How the program is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load<'a> {
    /// The core of each thread.
    pub(crate) cores: &'a [u32],
    pub(crate) seed: u64,
    /// All threads start at the locks, instead of in their think time.
    pub(crate) start_at_locks: bool,
    /// What is not timed, then what is.
    pub(crate) warm_up: Span,
    pub(crate) timed: Span,
    /// Sees every section, where the run is one that is profiled. It lives on the host, so that it costs no simulated time.
    pub(crate) recorder: Option<&'a Recorder>,
}

/// A part of a run: it is over when so many operations are done, or when so much time has passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) operations: u64,
    pub(crate) ns: u64,
}

impl Span {
    pub(crate) fn of_operations(operations: u64) -> Self {
        Self { operations, ns: u64::MAX }
    }

    /// Whether it is over, where it began at `from` and now is `to`. Threads of a simulation run ahead of each other a little.
    fn is_over(self, from: Moment, to: Moment) -> bool {
        to.operations - from.operations >= self.operations || to.ns.saturating_sub(from.ns) >= self.ns
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, Default)]
struct Moment {
    operations: u64,
    ns: u64,
}

/// The course of a run. It is the host's: a simulated machine neither sees nor pays for it.
#[derive(Debug, Default)]
struct Course {
    now: Moment,
    /// The end of the warm-up.
    began: Option<Moment>,
    ended: bool,
}

impl Course {
    /// An operation was done at this time. After the end nothing counts.
    fn done(&mut self, ns: u64, load: &Load<'_>) {
        if self.ended {
            return;
        }
        self.now = Moment { operations: self.now.operations + 1, ns };
        match self.began {
            None if load.warm_up.is_over(Moment::default(), self.now) => self.began = Some(self.now),
            Some(began) => self.ended = load.timed.is_over(began, self.now),
            None => {}
        }
    }

    /// Operations a nanosecond of those that were timed.
    fn rate(&self) -> f64 {
        let began = self.began.unwrap_or_default();
        let elapsed_ns = self.now.ns.saturating_sub(began.ns).max(1);
        (self.now.operations - began.operations) as f64 / elapsed_ns as f64
    }
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    /// Operations a nanosecond of all threads, of those that were timed.
    pub(crate) rate: f64,
    /// The simulated addresses of each guard's locks.
    pub(crate) addresses: Vec<Vec<usize>>,
}

/// A lock of any type.
trait AnyLock: Sync {
    fn exclusive(&self, section: &mut dyn FnMut());
    fn shared(&self, section: &mut dyn FnMut());
    /// Where it lies on this computer.
    fn address(&self) -> usize;
    /// Where it lies on its machine.
    fn place(&self) -> usize;
}

struct Exclusive<L: Sync, M: Machine>(Placed<L, M>);

impl<L: RawLock<M>, M: Machine> AnyLock for Exclusive<L, M> {
    fn exclusive(&self, section: &mut dyn FnMut()) {
        self.0.critical(section);
    }

    fn shared(&self, section: &mut dyn FnMut()) {
        self.exclusive(section);
    }

    fn address(&self) -> usize {
        std::ptr::from_ref::<L>(&self.0) as usize
    }

    fn place(&self) -> usize {
        M::address::<L>(&self.0)
    }
}

struct Shared<L: Sync, M: Machine>(Placed<L, M>);

impl<L: RawRwLock<M>, M: Machine> AnyLock for Shared<L, M> {
    fn exclusive(&self, section: &mut dyn FnMut()) {
        self.0.critical(section);
    }

    fn shared(&self, section: &mut dyn FnMut()) {
        self.0.acquire_shared(false);
        section();
        // SAFETY: acquired above.
        unsafe { self.0.release_shared() };
    }

    fn address(&self) -> usize {
        std::ptr::from_ref::<L>(&self.0) as usize
    }

    fn place(&self) -> usize {
        M::address::<L>(&self.0)
    }
}

/// Makes a lock of a name.
struct Maker;

/// All memory lies here, as that of a program's main thread does.
const HOME: Home = Home::Node(0);

impl<M: Machine> Visitor<M> for Maker {
    type Output = Box<dyn AnyLock>;

    fn tried<L: TryLock<M>>(self, _: &Lock) -> Self::Output {
        Box::new(Exclusive::<L, M>(Placed::new(L::NEW, HOME)))
    }

    fn shared<L: DowngradeLock<M> + TryLock<M>>(self, _: &Lock) -> Self::Output {
        Box::new(Shared::<L, M>(Placed::new(L::NEW, HOME)))
    }
}

/// A lock and the lines that it guards.
struct GuardedLines<M: Machine> {
    place: Place,
    lock: Box<dyn AnyLock>,
    /// Those of all threads, or of each thread.
    lines: Vec<Vec<Placed<M::Cell<u64>, M>>>,
}

impl<M: Machine> GuardedLines<M> {
    fn new(place: Place, guard: &Guard, threads: usize) -> Self {
        let lock = catalogue::visit::<M, _>(guard.lock, Maker).expect("guards name locks of the catalogue");
        let lines = |_| (0..guard.guarded_lines()).map(|_| Placed::new(M::Cell::<u64>::ZERO, HOME)).collect();
        Self { place, lock, lines: (0..if guard.apart { threads } else { 1 }).map(lines).collect() }
    }

    /// The lines that a thread's sections touch.
    fn lines_of(&self, thread: usize) -> &[Placed<M::Cell<u64>, M>] {
        &self.lines[thread % self.lines.len()]
    }

    /// One section, announced to the machine, with `within` in the middle of its work.
    fn section(
        &self,
        World { thread, recorder, .. }: World<'_, M>,
        section: &Section,
        reads: bool,
        random: &mut Random,
        within: &mut dyn FnMut(&mut Random),
    ) {
        let touched = (section.lines + even(random)) as usize;
        let work = section.spread.draw(random, section.work_cycles);
        let (address, lines) = (self.lock.address(), self.lines_of(thread));
        let now = || M::clock_ns(Clock::Monotonic);
        M::note(Event::Acquiring { lock: address });
        if let Some(recorder) = recorder {
            recorder.acquiring(thread, now());
        }
        let mut body = || {
            M::note(Event::Acquired { lock: address, shared: reads });
            if let Some(recorder) = recorder {
                recorder.acquired(self.place, thread, reads, now());
            }
            for line in &lines[..touched.min(lines.len())] {
                if reads {
                    std::hint::black_box(line.get());
                } else {
                    line.set(1);
                }
            }
            M::delay(work / 2);
            within(random);
            M::delay(work - work / 2);
            if let Some(recorder) = recorder {
                recorder.releasing(thread, now());
            }
            M::note(Event::Releasing { lock: address, shared: reads });
        };
        if reads { self.lock.shared(&mut body) } else { self.lock.exclusive(&mut body) }
    }
}

/// What a thread of the program finds.
struct World<'a, M: Machine> {
    guarded: &'a [Vec<GuardedLines<M>>],
    conditions: &'a Conditions<M>,
    thread: usize,
    recorder: Option<&'a Recorder>,
}

impl<M: Machine> Clone for World<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for World<'_, M> {}

impl Program {
    /// Runs the program on the machine `M` until the load's operations are done.
    pub(crate) fn run<M: Machine>(&self, load: &Load<'_>) -> Outcome {
        let guarded: Vec<Vec<GuardedLines<M>>> = self
            .guards
            .iter()
            .enumerate()
            .map(|(number, guard)| {
                let copy = |copy| GuardedLines::new((number, copy), guard, load.cores.len());
                let most = guard.most_copies(load.cores.len(), self.guards.len());
                (0..guard.copies.min(most)).map(copy).collect()
            })
            .collect();
        let conditions = Conditions::<M>::new(self.guards.len(), load.cores.len(), HOME);
        let course = Mutex::new(Course::default());
        // Never held while the machine is asked for anything: another thread of it may run then.
        let course_now = || course.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = Plan::on(load.cores);
        M::run(&plan, &|thread| {
            let mut random = Random::of_thread(load.seed, thread);
            let world = World { guarded: &guarded, conditions: &conditions, thread, recorder: load.recorder };
            if !load.start_at_locks {
                M::delay(random.below(self.think_cycles as u64 + 1));
            }
            while !course_now().ended {
                self.operation::<M>(world, &mut random);
                M::note(Event::Operation);
                let ns = M::clock_ns(Clock::Monotonic);
                course_now().done(ns, load);
            }
            conditions.end();
        });
        Outcome {
            rate: course.into_inner().unwrap_or_else(PoisonError::into_inner).rate(),
            addresses: guarded
                .iter()
                .map(|copies| copies.iter().map(|one| one.lock.place()).collect())
                .collect(),
        }
    }

    /// One operation: the steps that it takes, with equal parts of the think time after each.
    fn operation<M: Machine>(&self, world: World<'_, M>, random: &mut Random) {
        let think = self.think.draw(random, self.think_cycles);
        let taken: Vec<&Step> = self.steps.iter().filter(|step| step.is_taken(random)).collect();
        if taken.is_empty() {
            return M::delay(think);
        }
        let part = think / taken.len() as u64;
        for step in &taken {
            self.visit(step.guard, world, false, random);
            M::delay(part);
        }
        M::delay(think - part * taken.len() as u64);
    }

    /// A section of a guard, with those within it, and another one after a condition wait.
    fn visit<M: Machine>(
        &self,
        number: usize,
        world: World<'_, M>,
        within_another: bool,
        random: &mut Random,
    ) {
        let guard = &self.guards[number];
        let copies = &world.guarded[number];
        let copy = if copies.len() > 1 { random.below(copies.len() as u64) as usize } else { 0 };
        let reads = guard.reads > 0.0 && even(random) < guard.reads;
        let section = if reads { &guard.shared } else { &guard.exclusive };
        copies[copy].section(world, section, reads, random, &mut |random| {
            let nested = if number == 0 { &self.nested[usize::from(reads)][..] } else { &[] };
            for step in nested {
                if step.is_taken(random) {
                    self.visit(step.guard, world, true, random);
                }
            }
        });
        let Some(waits) = &guard.waits else { return };
        world.conditions.leave_transaction();
        world.conditions.acquired(number);
        if even(random) < waits.chance {
            world.conditions.wait(number, world.thread, waits, within_another, random);
            copies[copy].section(world, section, reads, random, &mut |_| ());
            world.conditions.acquired(number);
        }
    }
}

impl Step {
    fn is_taken(self, random: &mut Random) -> bool {
        self.chance >= 1.0 || even(random) < self.chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_as_many_as_a_simulation_has_memory_for() {
        let section = |lines: f64| Section { work_cycles: 10.0, spread: Durations::Fixed, lines };
        let guard = |apart, lines| Guard {
            lock: "mcs",
            copies: 20_000,
            apart,
            reads: 0.0,
            exclusive: section(lines),
            shared: section(0.0),
            waits: None,
        };
        assert!(guard(false, 1.5).most_copies(1_024, 1) > 1_024);
        assert!(guard(false, 1.5).most_copies(1_024, 3) > 512);
        assert!(guard(true, 200.0).most_copies(1_024, 1) < 16);
        assert_eq!(guard(true, 1e6).most_copies(1_024, 1), 1);
    }
}
