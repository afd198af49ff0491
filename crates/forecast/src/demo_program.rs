//! The program of the demo: threads that look into a table and now and then change it, or that answer requests and note each in
//! a journal.
//!
//! It knows nothing of contend. Its two locks are the C library's, so that they can be profiled and swapped like any other
//! program's. The table's is a reader-writer lock. One operation in twenty writes, and then readers and writers make each other
//! sleep: it hurts on two cores, however far these are apart. The journal's is a spin lock around two cache lines, wanted every
//! few microseconds: it hurts on some tens of cores. Two of the changes that a prediction advises can be made to the table for
//! real: a shorter section, and a split lock.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Words of the table, which fit into a core's first cache.
const WORDS: usize = 4096;

/// Of 1,024 operations, those that change the table.
const WRITES: u64 = 51;

/// Steps of an operation on the table, each of which looks at one word or changes one.
pub const STEPS: u64 = 100;

/// Into so many tables the table may be split.
pub const MOST_PARTS: u32 = 16;

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A look into the table, or a change of it.
    Lookup,
    /// A request, noted in the journal.
    Request,
}

/// What the threads do.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// What they do again and again.
    pub work: Work,
    /// Random numbers that are drawn between two operations.
    pub think: u64,
    /// Steps of an operation on the table, of the [`STEPS`], that are done outside of the lock.
    pub own: u64,
    /// Tables, each with its lock and its words; an operation takes any of them.
    pub parts: u32,
}

// In this order a lock has its variable's address, and so its name.
#[repr(C)]
struct Table {
    lock: UnsafeCell<libc::pthread_rwlock_t>,
    words: [UnsafeCell<u64>; WORDS],
}

// SAFETY: the lock is made for threads, and the words are touched under it alone.
unsafe impl Sync for Table {}

static TABLE: [Table; MOST_PARTS as usize] = [const {
    Table {
        lock: UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER),
        words: [const { UnsafeCell::new(0) }; WORDS],
    }
}; MOST_PARTS as usize];

/// A counter on a cache line of its own.
#[repr(align(64))]
struct Line(UnsafeCell<u64>);

#[repr(C)]
struct Journal {
    lock: UnsafeCell<libc::pthread_spinlock_t>,
    entries: Line,
    sum: Line,
}

// SAFETY: as of the table.
unsafe impl Sync for Journal {}

static JOURNAL: Journal = Journal {
    lock: UnsafeCell::new(0), // initialised by `run`
    entries: Line(UnsafeCell::new(0)),
    sum: Line(UnsafeCell::new(0)),
};

static STOP: AtomicBool = AtomicBool::new(false);

impl Table {
    /// Adds up so many words.
    #[inline(never)]
    fn look(&self, random: u64, steps: u64) -> u64 {
        let mut at = random;
        let mut sum = 0_u64;
        // SAFETY: a lock that was statically initialised; under it no thread changes the words.
        unsafe {
            libc::pthread_rwlock_rdlock(self.lock.get());
            for _ in 0..steps {
                at = next(at);
                sum = sum.wrapping_add(self.words[at as usize % WORDS].get().read_volatile());
            }
            libc::pthread_rwlock_unlock(self.lock.get());
        }
        sum
    }

    /// Counts up so many words.
    #[inline(never)]
    fn change(&self, random: u64, steps: u64) {
        let mut at = random;
        // SAFETY: a lock that was statically initialised; under it no other thread touches the words.
        unsafe {
            libc::pthread_rwlock_wrlock(self.lock.get());
            for _ in 0..steps {
                at = next(at);
                let word = self.words[at as usize % WORDS].get();
                word.write_volatile(word.read_volatile() + 1);
            }
            libc::pthread_rwlock_unlock(self.lock.get());
        }
    }
}

impl Journal {
    /// Notes a request.
    #[inline(never)]
    fn note(&self, answer: u64) {
        // SAFETY: `run` has initialised the lock; what it guards is touched between the two calls.
        unsafe {
            libc::pthread_spin_lock(self.lock.get());
            let (entries, sum) = (self.entries.0.get(), self.sum.0.get());
            entries.write_volatile(entries.read_volatile() + 1);
            sum.write_volatile(sum.read_volatile().wrapping_add(answer));
            libc::pthread_spin_unlock(self.lock.get());
        }
    }
}

/// What a thread did.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    operations: u64,
    /// Words that it counted up in the tables, or entries that it made in the journal.
    changes: u64,
}

/// Works until it is to stop.
fn work(seed: u64, shape: Shape) -> Count {
    match shape.work {
        Work::Lookup => look_up(seed, shape),
        Work::Request => answer(seed, shape),
    }
}

/// Answers requests, which is to draw random numbers.
fn answer(seed: u64, shape: Shape) -> Count {
    let mut random = seed;
    let mut answered = 0;
    while !STOP.load(Ordering::Relaxed) {
        for _ in 0..shape.think {
            random = next(random);
        }
        JOURNAL.note(random);
        answered += 1;
    }
    Count { operations: answered, changes: answered }
}

/// Looks into the tables, and changes them now and then.
fn look_up(seed: u64, shape: Shape) -> Count {
    // Small seeds have their first numbers in common.
    let mut random = (0..32).fold(seed, |random, _| next(random));
    let steps = STEPS - shape.own;
    let mut count = Count::default();
    while !STOP.load(Ordering::Relaxed) {
        random = next(random);
        let table = &TABLE[(random >> 40) as usize % shape.parts as usize];
        if (random >> 20) % 1024 < WRITES {
            table.change(random, steps);
            count.changes += steps;
        } else {
            std::hint::black_box(table.look(random, steps));
        }
        count.operations += 1;
        for _ in 0..shape.own + shape.think {
            random = next(random);
        }
    }
    count
}

/// Xorshift, Marsaglia 2003.
fn next(mut random: u64) -> u64 {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    random
}

/// What a run of the program did.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// Operations of all threads.
    pub operations: u64,
    /// From the start of the first thread to the end of the last, s.
    pub elapsed_s: f64,
}

/// Lets `threads` threads work for `duration`. One run a process: operations are counted from its start.
///
/// # Errors
///
/// When a change was lost: the lock did not exclude.
pub fn run(threads: u32, duration: Duration, shape: Shape) -> anyhow::Result<Done> {
    let shape = Shape { own: shape.own.min(STEPS), parts: shape.parts.clamp(1, MOST_PARTS), ..shape };
    // SAFETY: no thread has the lock yet.
    unsafe { libc::pthread_spin_init(JOURNAL.lock.get(), libc::PTHREAD_PROCESS_PRIVATE) };
    let started = Instant::now();
    let running: Vec<_> =
        (0..threads).map(|number| std::thread::spawn(move || work(u64::from(number) + 1, shape))).collect();
    std::thread::sleep(duration);
    STOP.store(true, Ordering::Relaxed);
    let mut done = Count::default();
    for thread in running {
        let Count { operations, changes } =
            thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
        done.operations += operations;
        done.changes += changes;
    }
    let elapsed_s = started.elapsed().as_secs_f64();
    // SAFETY: all threads have ended.
    let read = |word: &UnsafeCell<u64>| unsafe { word.get().read() };
    let kept: u64 = match shape.work {
        Work::Lookup => TABLE.iter().flat_map(|table| &table.words).map(read).sum(),
        Work::Request => read(&JOURNAL.entries.0),
    };
    anyhow::ensure!(kept == done.changes, "{} changes were made, of which {kept} were kept", done.changes);
    Ok(Done { operations: done.operations, elapsed_s })
}
