//! The program of the demo: threads that update a table under one pthread lock.
//!
//! It knows nothing of contend. The lock is the C library's, so that it can be profiled and swapped like any other
//! program's; the critical section is four counters on four cache lines, as in figure 10 of "Non-scalable locks are
//! dangerous".

use crate::arguments::{self, Span};
use anyhow::ensure;
use std::cell::UnsafeCell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Threads that update one table under one pthread reader-writer lock, for `contend demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many threads update the table
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// For how long
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = arguments::duration)]
    duration: Duration,
    /// Think time between two updates, about: for each nanosecond one random number is drawn
    #[arg(long, value_name = "SPAN", default_value = "20ns", value_parser = Span::parse)]
    think: Span,
}

/// A counter on a cache line of its own.
#[repr(align(64))]
struct Line(UnsafeCell<u64>);

struct Table {
    lock: UnsafeCell<libc::pthread_rwlock_t>,
    counters: [Line; 4],
}

// SAFETY: the lock is made for threads, and the counters are touched under it alone.
unsafe impl Sync for Table {}

static TABLE: Table = Table {
    lock: UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER),
    counters: [const { Line(UnsafeCell::new(0)) }; 4],
};

static STOP: AtomicBool = AtomicBool::new(false);

impl Table {
    /// One operation: all four counters.
    #[inline(never)]
    fn update(&self) {
        // SAFETY: a lock that was statically initialised; what it guards is touched between the two calls.
        unsafe {
            libc::pthread_rwlock_wrlock(self.lock.get());
            for Line(counter) in &self.counters {
                let counter = counter.get();
                counter.write_volatile(counter.read_volatile() + 1);
            }
            libc::pthread_rwlock_unlock(self.lock.get());
        }
    }
}

/// Updates until told to stop; gives the number of updates.
fn work(seed: u64, think: u64) -> u64 {
    let mut random = seed;
    let mut updates = 0;
    while !STOP.load(Ordering::Relaxed) {
        TABLE.update();
        updates += 1;
        for _ in 0..think {
            // Xorshift, Marsaglia 2003.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
        }
        std::hint::black_box(random);
    }
    updates
}

/// Runs the program and prints what it did.
///
/// # Errors
///
/// When an update was lost: the lock did not exclude.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let threads: Vec<_> = (0..args.threads)
        .map(|number| {
            let think = args.think.ns(1.0);
            std::thread::spawn(move || work(u64::from(number) + 1, think))
        })
        .collect();
    std::thread::sleep(args.duration);
    STOP.store(true, Ordering::Relaxed);
    let mut updates = 0;
    for thread in threads {
        updates += thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
    }
    let elapsed = started.elapsed().as_secs_f64();
    // SAFETY: all threads have ended.
    let counted = TABLE.counters.each_ref().map(|Line(counter)| unsafe { counter.get().read() });
    ensure!(counted == [updates; 4], "{updates} updates were made, but the table counts {counted:?}");
    println!("updates: {updates}");
    println!("throughput: {:.0} updates/s", updates as f64 / elapsed);
    Ok(ExitCode::SUCCESS)
}
