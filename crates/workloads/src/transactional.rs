//! Critical sections that conflict seldom or often, short or long, under one lock: what lock elision gains, and where it ends.
//!
//! A lock that runs its sections as transactions lets those in together that touch different lines, as long as the cache keeps
//! what they touch. Sections change words of the machine alone, so that they can be taken back.

use std::sync::atomic::AtomicU64;

use locks::RawLock;
use machine::Ordering::Relaxed;
use machine::{Event, Home, Integer, Machine, Placed, Run, Word};

use crate::Load;
use crate::random::Random;
use crate::section::{Tally, critical};

/// Lines of a table that one section goes through, and how many of a hundred sections change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Buckets, each on a line of its own.
    pub buckets: usize,
    /// Of a hundred sections, those that change what they touch; the others read it.
    pub writes_percent: u32,
    /// Buckets that a section touches.
    pub lines: usize,
    /// From one of them to the next; in a cache of as many sets they all fall into one.
    pub apart: usize,
}

/// Each thread adds to a counter of its own, or, in so many of a hundred sections, to one that all share.
///
/// # Panics
/// When the lock did not exclude.
pub fn run_counters<M: Machine, L: RawLock<M>>(load: &Load<'_>, shared_percent: u32) -> Run {
    let counters = lines::<M>(load.threads + 1);
    let run = run::<M, L, _>(load, &SHORT, |thread, random| {
        let is_shared = random.below(100) < u64::from(shared_percent);
        let counter = &counters[if is_shared { 0 } else { thread + 1 }];
        (move || add(&**counter), 1)
    });
    run.add_up(&counters)
}

/// Each thread goes through a part of a table.
pub(crate) fn run_table<M: Machine, L: RawLock<M>>(table: &Table, load: &Load<'_>) -> Run {
    let buckets = lines::<M>(table.buckets);
    let run = run::<M, L, _>(load, &SHORT, |_, random| {
        let first = random.below(table.buckets as u64) as usize;
        let writes = random.below(100) < u64::from(table.writes_percent);
        let touched = buckets.iter().cycle().skip(first).step_by(table.apart).take(table.lines);
        let section = move || {
            touched.clone().for_each(|bucket| match writes {
                true => add(&**bucket),
                false => _ = std::hint::black_box(bucket.load(Relaxed)),
            });
        };
        (section, if writes { table.lines as u64 } else { 0 })
    });
    run.add_up(&buckets)
}

/// What keeps sections apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// One lock.
    OneLock,
    /// A lock for each thread.
    LockOfEach,
    /// Nothing, as nothing is needed.
    None,
}

/// A lock, and a count of its sections.
pub(crate) struct Counted<L: Sync, M: Machine> {
    lock: Placed<L, M>,
    tally: Tally,
}

impl Exclusion {
    /// The locks that keep so many threads apart.
    pub(crate) fn locks<M: Machine, L: RawLock<M>>(self, load: &Load<'_>) -> Vec<Counted<L, M>> {
        let count = match self {
            Self::OneLock => 1,
            Self::LockOfEach => load.threads,
            Self::None => 0,
        };
        let lock = || Counted { lock: Placed::new(L::NEW, load.home), tally: Tally::default() };
        (0..count).map(|_| lock()).collect()
    }
}

impl<L: RawLock<M>, M: Machine> Counted<L, M> {
    /// Looks whether the sections add up, when the run is over.
    ///
    /// # Panics
    /// When they do not: the lock did not exclude.
    pub(crate) fn add_up(&self) {
        self.tally.add_up();
    }
}

/// Runs a section of this thread under its lock, if it has one.
pub(crate) fn within<M: Machine, L: RawLock<M>>(
    locks: &[Counted<L, M>],
    thread: usize,
    mut section: impl FnMut(),
) {
    match thread.checked_rem(locks.len()) {
        Some(own) => critical::<M, _>(&*locks[own].lock, &locks[own].tally, section),
        None => section(),
    }
}

/// Sections and what lies between them, where the load does not say otherwise.
pub(crate) struct Turns {
    /// Cycles of work in a section.
    pub(crate) work: u64,
    /// Cycles of think time.
    pub(crate) think: u64,
    pub(crate) exclusion: Exclusion,
}

const SHORT: Turns = Turns { work: 50, think: 500, exclusion: Exclusion::OneLock };

/// Words on lines of their own.
pub(crate) fn lines<M: Machine>(count: usize) -> Vec<Placed<M::U64, M>> {
    (0..count).map(|_| Placed::new(M::U64::ZERO, Home::FirstTouch)).collect()
}

/// Adds one, in two accesses: only a thread that is alone with the word loses nothing.
pub(crate) fn add<W: Integer<Value = u64>>(word: &W) {
    word.store(word.load(Relaxed) + 1, Relaxed);
}

/// A run whose sections have added so much.
pub(crate) struct Added {
    run: Run,
    sum: u64,
}

impl Added {
    /// Looks whether the words hold what was added.
    ///
    /// # Panics
    /// When they do not: the lock did not exclude.
    pub(crate) fn add_up<W: Word<Value = u64> + Sync, M: Machine>(self, words: &[Placed<W, M>]) -> Run {
        let found = words.iter().map(|word| word.load(Relaxed)).sum::<u64>();
        assert!(
            found == self.sum,
            "the lock does not exclude: {} were added, and there are {found}",
            self.sum
        );
        self.run
    }
}

/// Sections and think time. Before each section `next` says what it does, and how much it adds.
pub(crate) fn run<M: Machine, L: RawLock<M>, S: Fn()>(
    load: &Load<'_>,
    turns: &Turns,
    next: impl Fn(usize, &mut Random) -> (S, u64) + Sync,
) -> Added {
    let locks = turns.exclusion.locks::<M, L>(load);
    let work = load.section_cycles.unwrap_or(turns.work);
    let think = load.think_cycles.unwrap_or(turns.think);
    let sum = AtomicU64::new(0);
    let run = M::run(&load.plan(), &|thread| {
        let mut random = Random::of_thread(load.seed, thread);
        let mut added = 0;
        M::delay(random.below(think + 1));
        while M::running() {
            let (section, adds) = next(thread, &mut random);
            let work = random.time(work, load.section_spread);
            within(&locks, thread, || {
                section();
                M::delay(work);
            });
            added += adds;
            M::note(Event::Operation);
            M::delay(random.time(think, load.think_spread));
        }
        sum.fetch_add(added, Relaxed);
    });
    locks.iter().for_each(Counted::add_up);
    Added { run, sum: sum.into_inner() }
}
