//! The program of the demo: threads that update a table, or that answer requests and note each in a journal.
//!
//! It knows nothing of contend. Its two locks are the C library's, so that they can be profiled and swapped like any other
//! program's. The table's is a reader-writer lock around four counters on four cache lines, as in figure 10 of "Non-scalable
//! locks are dangerous", and is wanted again at once: it hurts on two cores. The journal's is a spin lock around two lines,
//! wanted every few microseconds: it hurts on some tens of cores. Two of the changes that a prediction advises can be made to
//! the table for real: a shorter section, and a split lock.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Counters of an update.
const COUNTERS: usize = 4;

/// Into so many tables the table may be split.
pub const MOST_PARTS: u32 = 16;

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// An update of the table.
    Update,
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
    /// Counters of an update, of the four, that are each thread's own and changed outside of the lock.
    pub own: usize,
    /// Tables, each with its lock and its counters; an update takes any of them.
    pub parts: u32,
}

/// A counter on a cache line of its own.
#[repr(align(64))]
struct Line(UnsafeCell<u64>);

// In this order a lock has its variable's address, and so its name.
#[repr(C)]
struct Table {
    lock: UnsafeCell<libc::pthread_rwlock_t>,
    counters: [Line; COUNTERS],
}

// SAFETY: the lock is made for threads, and the counters are touched under it alone.
unsafe impl Sync for Table {}

static TABLE: [Table; MOST_PARTS as usize] = [const {
    Table {
        lock: UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER),
        counters: [const { Line(UnsafeCell::new(0)) }; COUNTERS],
    }
}; MOST_PARTS as usize];

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
    /// One operation: the counters but for those that are the thread's own.
    #[inline(never)]
    fn update(&self, shared: usize) {
        // SAFETY: a lock that was statically initialised; what it guards is touched between the two calls.
        unsafe {
            libc::pthread_rwlock_wrlock(self.lock.get());
            for Line(counter) in &self.counters[..shared] {
                let counter = counter.get();
                counter.write_volatile(counter.read_volatile() + 1);
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

/// Works until it is to stop; gives the number of operations.
fn work(seed: u64, shape: Shape) -> u64 {
    match shape.work {
        Work::Update => update(seed, shape),
        Work::Request => answer(seed, shape),
    }
}

/// Answers requests, which is to draw random numbers.
fn answer(seed: u64, shape: Shape) -> u64 {
    let mut random = seed;
    let mut answered = 0;
    while !STOP.load(Ordering::Relaxed) {
        for _ in 0..shape.think {
            random = next(random);
        }
        JOURNAL.note(random);
        answered += 1;
    }
    answered
}

fn update(seed: u64, shape: Shape) -> u64 {
    let own: [Line; COUNTERS] = [const { Line(UnsafeCell::new(0)) }; COUNTERS];
    let shared = COUNTERS - shape.own;
    let mut random = seed;
    let mut updates = 0;
    while !STOP.load(Ordering::Relaxed) {
        if shape.parts > 1 {
            random = next(random);
        }
        TABLE[(random >> 32) as usize % shape.parts as usize].update(shared);
        for Line(counter) in &own[shared..] {
            let counter = counter.get();
            // SAFETY: the counters are this thread's alone.
            unsafe { counter.write_volatile(counter.read_volatile() + 1) };
        }
        updates += 1;
        for _ in 0..shape.think {
            random = next(random);
        }
        std::hint::black_box(random);
    }
    updates
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
/// When an operation was lost: the lock did not exclude.
pub fn run(threads: u32, duration: Duration, shape: Shape) -> anyhow::Result<Done> {
    let shape = Shape { own: shape.own.min(COUNTERS), parts: shape.parts.clamp(1, MOST_PARTS), ..shape };
    // SAFETY: no thread has the lock yet.
    unsafe { libc::pthread_spin_init(JOURNAL.lock.get(), libc::PTHREAD_PROCESS_PRIVATE) };
    let started = Instant::now();
    let running: Vec<_> =
        (0..threads).map(|number| std::thread::spawn(move || work(u64::from(number) + 1, shape))).collect();
    std::thread::sleep(duration);
    STOP.store(true, Ordering::Relaxed);
    let mut operations = 0;
    for thread in running {
        operations += thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
    }
    let elapsed_s = started.elapsed().as_secs_f64();
    // SAFETY: all threads have ended.
    let read = |Line(counter): &Line| unsafe { counter.get().read() };
    let shared = COUNTERS - shape.own;
    let counted = match shape.work {
        Work::Update => {
            (0..shared).map(|one| TABLE.iter().map(|table| read(&table.counters[one])).sum()).collect()
        }
        Work::Request => vec![read(&JOURNAL.entries)],
    };
    for counted in counted {
        let counted: u64 = counted;
        anyhow::ensure!(
            counted == operations,
            "{operations} operations were done, but {counted} were counted"
        );
    }
    Ok(Done { operations, elapsed_s })
}
