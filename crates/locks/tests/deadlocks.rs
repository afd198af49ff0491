//! Threads that wait for each other are found, and no others. With the feature `deadlock_detection` alone; `tests/no_std.rs` runs it.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use contend_locks::deadlock;
use contend_locks::prelude::*;

/// The table is one for the program: one test at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

type Names = BTreeSet<String>;

fn names_of(cycles: &[Vec<deadlock::DeadlockedThread>]) -> Vec<Names> {
    cycles
        .iter()
        .map(|cycle| cycle.iter().filter_map(|thread| thread.name().map(str::to_owned)).collect())
        .collect()
}

/// The deadlocks, once there is one.
fn found() -> Vec<Vec<deadlock::DeadlockedThread>> {
    let begun = Instant::now();
    loop {
        let cycles = deadlock::check();
        if !cycles.is_empty() {
            return cycles;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no deadlock was found");
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread"); // it never ends
}

#[test]
fn deadlocks_of_every_kind() {
    let _alone = ALONE.lock();
    static FIRST: Mutex<(), Mcs> = Mutex::new(());
    static SECOND: RwLock<()> = RwLock::new(());
    static BOTH: Barrier = Barrier::new(2);
    spawn("first", || {
        let _held = FIRST.lock();
        BOTH.wait();
        drop(SECOND.write());
    });
    spawn("second", || {
        let _held = SECOND.read();
        BOTH.wait();
        drop(FIRST.lock());
    });
    let cycles = found();
    assert_eq!(names_of(&cycles), [Names::from(["first".to_owned(), "second".to_owned()])]);
    let printed = cycles[0][0].to_string();
    assert!(printed.contains("waits for the lock at 0x"), "{printed}");
    assert!(printed.contains("deadlocks"), "where it waits: {printed}");

    static OWN: Mutex<()> = Mutex::new(());
    spawn("itself", || {
        let _held = OWN.lock();
        drop(OWN.lock());
    });
    static LOOKED_AT: RwLock<(), Upgradable> = RwLock::new(());
    spawn("looks twice", || {
        let _held = LOOKED_AT.upgradable_read();
        drop(LOOKED_AT.upgradable_read());
    });
    // A reader that reads once more waits behind a writer that waits for its first hold.
    static READ: RwLock<(), RwQueued> = RwLock::new(());
    static HELD: Barrier = Barrier::new(2);
    spawn("reads", || {
        let _held = READ.read();
        HELD.wait();
        while READ.try_read().is_some() {
            thread::yield_now(); // until the writer waits
        }
        drop(READ.read());
    });
    spawn("writes", || {
        HELD.wait();
        drop(READ.write());
    });
    let begun = Instant::now();
    let all = loop {
        let all: Names = names_of(&deadlock::check()).into_iter().flatten().collect();
        if all.len() >= 5 && all.contains("reads") {
            break all;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{all:?}");
    };
    assert!(all.contains("itself") && all.contains("looks twice"), "{all:?}");
}

#[test]
fn threads_that_only_wait_are_no_deadlock() {
    let _alone = ALONE.lock();
    let before = deadlock::check().len();
    static LIST: RwLock<u64, Upgradable> = RwLock::new(0);
    static SUM: Mutex<u64> = Mutex::new(0);
    static OVER: AtomicBool = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !OVER.load(Ordering::Relaxed) {
                    let looks = LIST.upgradable_read();
                    let mut writes = RwLockUpgradableReadGuard::upgrade(looks);
                    *writes += 1;
                    let reads = RwLockWriteGuard::downgrade(writes);
                    *SUM.lock() += *reads;
                    drop(LIST.read_recursive());
                    drop(reads);
                    drop(LIST.try_write_for(Duration::from_micros(10)));
                    drop(LIST.read());
                }
            });
        }
        for _ in 0..20 {
            assert_eq!(deadlock::check().len(), before);
        }
        OVER.store(true, Ordering::Relaxed);
    });
}
