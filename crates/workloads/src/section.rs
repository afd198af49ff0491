//! The pattern behind most workloads: a critical section that touches shared lines, and think time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use locks::RawLock;
use machine::{Event, Machine, Placed, PlainCell, Run};

use crate::client::Wrong;
use crate::random::Random;
use crate::{Load, SharedLine};

/// A critical section under one lock, and think time.
///
/// The section's length is not given by the number of cores: it is the work that one core does, and whatever the
/// shared lines cost where they are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Cycles of work in the section, besides touching lines.
    pub work_cycles: u64,
    /// Cycles of think time between a release and the next acquisition.
    pub think_cycles: u64,
    /// Shared lines that the section writes, each in one access.
    pub lines: usize,
    /// Whether the section also changes a word on the lock's own line, as code does whose lock lies in the object
    /// that it guards.
    pub beside_lock: bool,
    /// Acquisitions of one operation.
    pub acquisitions: u64,
    /// Sections that each acquisition holds the lock for, one behind the other. The think time of all follows.
    pub batch: u64,
}

impl Section {
    /// A section of work alone, one acquisition an operation.
    pub const EMPTY: Self =
        Self { work_cycles: 0, think_cycles: 0, lines: 0, beside_lock: false, acquisitions: 1, batch: 1 };

    /// Sections of one operation.
    #[must_use]
    pub fn sections(&self) -> u64 {
        self.acquisitions * self.batch
    }
}

#[repr(C)]
struct SectionObject<L, C> {
    lock: L,
    beside: C,
}

/// Runs the section on every thread of the load until its time is over.
///
/// # Panics
/// When the lock did not exclude.
pub fn run<M: Machine, L: RawLock<M>>(section: &Section, load: &Load<'_>) -> Run {
    let guarded =
        Placed::<_, M>::new(SectionObject { lock: L::NEW, beside: M::Cell::<u64>::ZERO }, load.home);
    let lines =
        (0..section.lines).map(|_| Placed::<_, M>::new(SharedLine::<M>::NEW, load.home)).collect::<Vec<_>>();
    let work = load.section_cycles.unwrap_or(section.work_cycles);
    let think = load.think_cycles.unwrap_or(section.think_cycles);
    let (sections, batch) = (section.sections(), load.batch.unwrap_or(section.batch).max(1));
    let tally = Tally::default();
    let run = M::run(&load.plan(), &|thread| {
        let mut random = Random::of_thread(load.seed, thread);
        // Threads do not come to the lock all at once.
        M::delay(random.below(think + 1));
        while M::running() {
            let mut left = sections;
            while left > 0 {
                let of_this_acquisition = left.min(batch);
                left -= of_this_acquisition;
                let work = random.time(work, load.section_spread);
                critical::<M, _>(&guarded.lock, &tally, || {
                    for _ in 0..of_this_acquisition {
                        if section.beside_lock {
                            guarded.beside.set(work);
                        }
                        for line in &lines {
                            line.touch();
                        }
                        M::delay(work);
                    }
                });
                M::delay(random.time(think * of_this_acquisition, load.think_spread));
            }
            M::note(Event::Operation);
        }
    });
    tally.add_up();
    run
}

/// Counts critical sections so that those of a lock that does not exclude do not add up.
///
/// Its counters belong to the host, not to the machine: a simulated machine neither sees nor pays for them, and its figures
/// are what they would be without. What a transaction writes there would not be taken back, and need not be written: the
/// machine keeps transactions apart.
#[derive(Default)]
pub(crate) struct Tally {
    ran: AtomicU64,
    counted: AtomicU64,
}

impl Tally {
    /// Counts a section. The count is read before it and written after it, so that any other one in between is lost.
    fn section(&self, body: impl FnOnce()) {
        let counted = self.counted.load(Relaxed);
        body();
        self.counted.store(counted + 1, Relaxed);
        self.ran.fetch_add(1, Relaxed);
    }

    /// Looks whether the sections add up, when the run is over.
    ///
    /// # Panics
    /// When they do not: the lock did not exclude, and whatever was measured is worth nothing.
    pub(crate) fn add_up(&self) {
        let (ran, counted) = (self.ran.load(Relaxed), self.counted.load(Relaxed));
        assert!(ran == counted, "the lock does not exclude: {}", Wrong::Lost { ran, counted });
    }
}

/// A critical section that is announced, and counted unless the lock has made a transaction of it.
pub(crate) fn critical<M: Machine, L: RawLock<M>>(lock: &L, tally: &Tally, mut body: impl FnMut()) {
    let address = std::ptr::from_ref(lock) as usize;
    M::note(Event::Acquiring { lock: address });
    lock.critical(|| {
        M::note(Event::Acquired { lock: address, shared: false });
        match M::in_transaction() {
            true => body(),
            false => tally.section(&mut body),
        }
        M::note(Event::Releasing { lock: address, shared: false });
    });
}
