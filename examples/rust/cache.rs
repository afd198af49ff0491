//! A cache that many threads read and few write, with readers and writers that give up in time, filled by a pool of workers that
//! share a queue of jobs and no condition variable.
//!
//! cargo run -p contend-locks --example cache

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use contend_locks::prelude::*;

const WORKERS: u64 = 4;
const READERS: u64 = 2;
const JOBS: u64 = 400;

/// How long a thread that could do without the cache waits for it.
const PATIENCE: Duration = Duration::from_millis(20);

/// Factors by number. Readers share it, and sleep when they wait long.
struct Cache {
    factors: RwLock<BTreeMap<u64, Vec<u64>>>,
    found: AtomicU64,
    gave_up: AtomicU64,
}

impl Cache {
    const fn new() -> Self {
        Self { factors: RwLock::new(BTreeMap::new()), found: AtomicU64::new(0), gave_up: AtomicU64::new(0) }
    }

    /// The factors of a number: from the cache if it can be read in time and has them, else computed.
    fn factors_of(&self, number: u64) -> Vec<u64> {
        if let Some(cache) = self.factors.try_read_for(PATIENCE) {
            if let Some(known) = cache.get(&number) {
                self.found.fetch_add(1, Relaxed);
                return known.clone();
            }
        } else {
            self.gave_up.fetch_add(1, Relaxed);
        }
        // No thread waits for the computation: it is done without the lock.
        let factors = factorised(number);
        // Who cannot write in time goes on with what it has.
        if let Some(mut cache) = self.factors.try_write_for(PATIENCE) {
            cache.insert(number, factors.clone());
        } else {
            self.gave_up.fetch_add(1, Relaxed);
        }
        factors
    }
}

/// Jobs in the order in which they came. Sections are short, so that a queue lock hands over without the kernel.
struct Pool {
    jobs: Mutex<VecDeque<u64>, Mcs>,
    done: AtomicU64,
}

impl Pool {
    const fn new() -> Self {
        Self { jobs: Mutex::new(VecDeque::new()), done: AtomicU64::new(0) }
    }

    /// Works until nothing is left. All jobs are there before a worker starts, so that no worker has to wait for one.
    fn work(&self, job: impl Fn(u64)) {
        loop {
            let next = self.jobs.lock().pop_front(); // the guard ends here
            let Some(number) = next else { return };
            job(number);
            self.done.fetch_add(1, Relaxed);
        }
    }
}

fn factorised(mut number: u64) -> Vec<u64> {
    let mut factors = Vec::new();
    for factor in 2.. {
        if factor * factor > number {
            break;
        }
        while number.is_multiple_of(factor) {
            factors.push(factor);
            number /= factor;
        }
    }
    if number > 1 {
        factors.push(number);
    }
    factors
}

fn main() {
    static CACHE: Cache = Cache::new();
    static POOL: Pool = Pool::new();
    // Each number is asked for several times.
    POOL.jobs.lock().extend((0..JOBS).map(|job| 1_000 + job % 100));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                POOL.work(|number| assert_eq!(CACHE.factors_of(number).iter().product::<u64>(), number));
            });
        }
        for _ in 0..READERS {
            scope.spawn(|| {
                for _ in 0..JOBS {
                    let cache = CACHE.factors.read();
                    assert!(cache.iter().all(|(number, factors)| factors.iter().product::<u64>() == *number));
                    drop(cache);
                    thread::yield_now();
                }
            });
        }
    });
    assert_eq!(POOL.done.load(Relaxed), JOBS);
    assert!(POOL.jobs.lock().is_empty());
    println!(
        "{} jobs, {} numbers in the cache, {} found there, {} times given up",
        JOBS,
        CACHE.factors.read().len(),
        CACHE.found.load(Relaxed),
        CACHE.gave_up.load(Relaxed)
    );
}
