//! The program of the demo: threads that update a table under one pthread lock.
//!
//! It knows nothing of contend. The lock is the C library's, so that it can be profiled and swapped like any other
//! program's; the critical section is four counters on four cache lines, as in figure 10 of "Non-scalable locks are
//! dangerous". Two of the changes that a prediction advises can be made to it for real: a shorter section, and a split lock.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Counters of an update.
const COUNTERS: usize = 4;

/// Into so many tables the table may be split.
pub const MOST_PARTS: u32 = 16;

/// What the threads do.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Random numbers that are drawn between two updates.
    pub think: u64,
    /// Counters of an update, of the four, that are each thread's own and changed outside of the lock.
    pub own: usize,
    /// Tables, each with its lock and its counters; an update takes any of them.
    pub parts: u32,
}

/// A counter on a cache line of its own.
#[repr(align(64))]
struct Line(UnsafeCell<u64>);

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

/// Updates until told to stop; gives the number of updates.
fn work(seed: u64, shape: Shape) -> u64 {
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
pub struct Updated {
    /// Updates of all threads.
    pub updates: u64,
    /// From the start of the first thread to the end of the last, s.
    pub elapsed_s: f64,
}

/// Lets `threads` threads update the table for `duration`. One run a process: the tables are counted from their start.
///
/// # Errors
///
/// When an update was lost: the lock did not exclude.
pub fn run(threads: u32, duration: Duration, shape: Shape) -> anyhow::Result<Updated> {
    let shape = Shape { own: shape.own.min(COUNTERS), parts: shape.parts.clamp(1, MOST_PARTS), ..shape };
    let started = Instant::now();
    let running: Vec<_> =
        (0..threads).map(|number| std::thread::spawn(move || work(u64::from(number) + 1, shape))).collect();
    std::thread::sleep(duration);
    STOP.store(true, Ordering::Relaxed);
    let mut updates = 0;
    for thread in running {
        updates += thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
    }
    let elapsed_s = started.elapsed().as_secs_f64();
    for counter in 0..COUNTERS - shape.own {
        // SAFETY: all threads have ended.
        let counted: u64 = TABLE.iter().map(|table| unsafe { table.counters[counter].0.get().read() }).sum();
        anyhow::ensure!(
            counted == updates,
            "{updates} updates were made, but counter {counter} of the table stands at {counted}"
        );
    }
    Ok(Updated { updates, elapsed_s })
}
