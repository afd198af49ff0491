//! Reads and writes under one lock, counted by every thread for itself, each wait reported to an observer.
//!
//! Where the other workloads announce their events to the machine, this one keeps its counts in the threads' own
//! registers, so that on hardware nothing but the lock is timed.

use std::sync::Mutex;

use machine::{Home, Machine, Placed, PlainCell, Plan, Run};

use crate::client::Wrong;
use crate::exclusion::Exclusion;
use crate::random::Random;
use crate::{SharedLine, random};

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Shared lines that a write changes and a read looks at, besides the counter beside the lock.
    pub lines: usize,
    /// Cycles of work inside.
    pub section_cycles: u64,
    /// Cycles from a release to the same thread's next acquisition, on average, exponentially spread.
    pub think_cycles: u64,
    /// How many of a hundred sections read.
    pub reads_percent: u32,
    /// Where the lock and the lines lie.
    pub home: Home,
}

/// The observer of how long each thread waited. `()` does not want to know, and then no clock is read.
pub trait WaitObserver: Default + Send {
    /// Whether waits are timed, and writers note who they are.
    const TIMED: bool;
    /// One acquisition took so many cycles.
    fn waited(&mut self, cycles: u64);
}

impl WaitObserver for () {
    const TIMED: bool = false;
    fn waited(&mut self, _: u64) {}
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome<W> {
    /// Acquisitions by thread.
    pub acquisitions: Vec<u64>,
    /// The waits by thread.
    pub waits: Vec<W>,
    /// From the common start to the end of the last thread, in nanoseconds of the machine.
    pub elapsed_ns: u64,
    /// All sections that ran, also after the time was over.
    pub sections: Sections,
}

/// Sections of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// Reads and writes.
    pub all: u64,
    /// Those that wrote.
    pub writes: u64,
    /// Writes whose last writer was another thread, if writers noted who they are.
    pub owner_changes: u64,
}

impl<W> Outcome<W> {
    /// Acquisitions of all threads.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.acquisitions.iter().sum()
    }

    /// Acquisitions of all threads in a second of the machine.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.total() as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// Acquisitions of the slowest thread, over those of the mean thread: 1 is fair, 0 starves.
    #[must_use]
    pub fn slowest_share(&self) -> f64 {
        let slowest = self.acquisitions.iter().min().copied().unwrap_or(0);
        slowest as f64 * self.acquisitions.len() as f64 / self.total().max(1) as f64
    }

    /// Jain's index of fairness: 1 when all threads get the same, 1/n when one of n gets everything (Jain, Chiu and
    /// Hawe 1984).
    #[must_use]
    pub fn jain(&self) -> f64 {
        let squares = self.acquisitions.iter().map(|&n| (n as f64).powi(2)).sum::<f64>();
        (self.total() as f64).powi(2) / (self.acquisitions.len() as f64 * squares).max(1.0)
    }
}

/// After so many sections a thread looks whether time is over, since reading a clock costs as much as a short section. It
/// begins with one and doubles, so that a thread which waits longer than the whole run for its first lock stops after it.
const SECTIONS_PER_CLOCK: u32 = 16;

/// Beside a section and think time of so many cycles the clock costs little: it is looked at after each, so that no thread goes on for a
/// batch after the others have left, which would count among what it got of the lock.
const LONG_CYCLES: u64 = 1_000;

/// The bits of the counter below those of the last writer, who is there besides so that noting it takes no access more.
const COUNT_BITS: u32 = 44;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

#[repr(C)]
struct MixObject<S, C> {
    lock: S,
    count: C,
    copy: C,
}

struct ThreadResult<W> {
    thread: usize,
    acquisitions: u64,
    writes: u64,
    owner_changes: u64,
    disturbed: bool,
    waits: W,
}

/// Runs the mix until the plan's time is over.
///
/// # Errors
/// [`Wrong`] when the lock did not exclude: the counter does not add up, or a thread saw another's half-done work.
pub fn run<M: Machine, S: Exclusion, W: WaitObserver>(
    mix: &Mix,
    plan: &Plan<'_>,
    seed: u64,
) -> Result<Outcome<W>, Wrong> {
    let guarded = MixObject { lock: S::new(), count: M::Cell::<u64>::ZERO, copy: M::Cell::<u64>::ZERO };
    let guarded = Placed::<_, M>::new(guarded, mix.home);
    let lines =
        (0..mix.lines).map(|_| Placed::<_, M>::new(SharedLine::<M>::NEW, mix.home)).collect::<Vec<_>>();
    let results = Mutex::new(Vec::new());
    let ran = M::run(plan, &|thread| {
        let mine = acquire_until_over::<M, S, W>(mix, &guarded, &lines, seed, thread);
        results.lock().expect("no holder panics").push(mine);
    });
    add_up(results.into_inner().expect("no holder panics"), guarded.count.get() & COUNT, &ran)
}

fn acquire_until_over<M: Machine, S: Exclusion, W: WaitObserver>(
    mix: &Mix,
    guarded: &MixObject<S, M::Cell<u64>>,
    lines: &[Placed<SharedLine<M>, M>],
    seed: u64,
    thread: usize,
) -> ThreadResult<W> {
    let mut random = Random::of_thread(seed, thread);
    let mut result = ThreadResult {
        thread,
        acquisitions: 0,
        writes: 0,
        owner_changes: 0,
        disturbed: false,
        waits: W::default(),
    };
    let own = if W::TIMED { (thread as u64 + 1) << COUNT_BITS } else { 0 };
    let is_long = mix.section_cycles + mix.think_cycles > LONG_CYCLES;
    let most = if is_long { 1 } else { SECTIONS_PER_CLOCK };
    // One section at least, however late the thread starts.
    let mut sections = 1;
    loop {
        for _ in 0..sections {
            let reads = mix.reads_percent != 0 && random.below(100) < u64::from(mix.reads_percent);
            let asked = if W::TIMED { M::now() } else { 0 };
            let enter = || if W::TIMED { M::now().wrapping_sub(asked) } else { 0 };
            let (waited, alone, passed_on) = if reads {
                guarded.lock.shared(|| {
                    let waited = enter();
                    lines.iter().for_each(|line| line.look());
                    work::<M>(mix.section_cycles);
                    (waited, guarded.count.get() == guarded.copy.get(), false)
                })
            } else {
                guarded.lock.exclusive(|| {
                    let waited = enter();
                    let count = guarded.count.get();
                    let alone = guarded.copy.get() == count;
                    let next = own | ((count & COUNT) + 1);
                    guarded.count.set(next);
                    lines.iter().for_each(|line| line.touch());
                    work::<M>(mix.section_cycles);
                    guarded.copy.set(next);
                    (waited, alone, W::TIMED && count & !COUNT != own)
                })
            };
            result.acquisitions += 1;
            result.writes += u64::from(!reads);
            result.owner_changes += u64::from(passed_on);
            result.disturbed |= !alone;
            if W::TIMED {
                result.waits.waited(waited);
            }
            if mix.think_cycles > 0 {
                M::delay(random.time(mix.think_cycles, random::Variation::Exponential));
            }
        }
        if !M::running() {
            return result;
        }
        sections = most.min(2 * sections);
    }
}

/// Passes the cycles of a section; with none not even a clock is read.
#[inline]
fn work<M: Machine>(cycles: u64) {
    if cycles > 0 {
        M::delay(cycles);
    }
}

fn add_up<W>(mut results: Vec<ThreadResult<W>>, counted: u64, ran: &Run) -> Result<Outcome<W>, Wrong> {
    if let Some(one) = results.iter().find(|one| one.disturbed) {
        return Err(Wrong::NotAlone { thread: one.thread });
    }
    let sum = |of: fn(&ThreadResult<W>) -> u64| results.iter().map(of).sum();
    let sections = Sections {
        all: sum(|one| one.acquisitions),
        writes: sum(|one| one.writes),
        owner_changes: sum(|one| one.owner_changes),
    };
    let writes = sections.writes;
    if writes != counted {
        return Err(Wrong::Lost { ran: writes, counted });
    }
    results.sort_by_key(|one| one.thread);
    // A machine that was told of the sections has counted those within the time; the threads count those before and after, too.
    let was_told = ran.operations() > 0;
    let acquisitions = |one: &ThreadResult<W>| {
        if was_told { ran.counts[one.thread].operations } else { one.acquisitions }
    };
    Ok(Outcome {
        acquisitions: results.iter().map(acquisitions).collect(),
        elapsed_ns: ran.elapsed_ns,
        sections,
        waits: results.into_iter().map(|one| one.waits).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exclusion::Own;
    use locks::Futex;
    use machine::Patient;

    #[derive(Default)]
    struct Timed;

    impl WaitObserver for Timed {
        const TIMED: bool = true;
        fn waited(&mut self, _: u64) {}
    }

    /// Of threads that write once at least, however late they start.
    fn sections<W: WaitObserver>(threads: usize) -> Sections {
        let mix =
            Mix { lines: 0, section_cycles: 0, think_cycles: 0, reads_percent: 0, home: Home::FirstTouch };
        let plan = Plan::threads(threads).lasting(100_000);
        let ran = run::<Patient, Own<Futex, Patient>, W>(&mix, &plan, 1);
        ran.expect("the lock excludes").sections
    }

    #[test]
    fn the_owner_changes_when_another_thread_writes() {
        assert_eq!(sections::<Timed>(1).owner_changes, 1, "no thread has written before the first write");
        let two = sections::<Timed>(2);
        assert!((2..=two.writes).contains(&two.owner_changes) && two.all == two.writes, "{two:?}");
        assert_eq!(sections::<()>(2).owner_changes, 0, "no writer notes who it is");
    }
}
