//! Locks of a Rust program that are no pthread's, under `contend profile`.

mod common;

use common::{HANG, contend, json, run};
use lock_api::{RwLockUpgradableReadGuard, RwLockWriteGuard};
use recorded::{Recorded, sync};
use serde_json::Value;
use std::sync::Barrier;
use std::time::Duration;

type Mutex<T> = lock_api::Mutex<Recorded<parking_lot::RawMutex>, T>;
type RwLock<T> = lock_api::RwLock<Recorded<parking_lot::RawRwLock>, T>;

static COUNTER: Mutex<u64> = Mutex::new(0);
static TABLE: RwLock<u64> = RwLock::new(0);
static INDEX: RwLock<u64> = RwLock::new(0);
static HELD: Mutex<()> = Mutex::new(());
static QUEUE: sync::Mutex<u64> = sync::Mutex::new(0);
static PAGES: sync::RwLock<u64> = sync::RwLock::new(0);
static CHANGED: sync::Condvar = sync::Condvar::new();

const THREADS: u64 = 3;
const TURNS: u64 = 500;

/// What the tests profile: this test, in a process of its own.
#[test]
#[ignore = "it is the program that the other tests profile"]
fn program() {
    let in_a_box = make_a_mutex();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for turn in 0..TURNS {
                    *COUNTER.lock() += 1;
                    if turn % 5 == 0 {
                        *TABLE.write() += 1;
                    } else {
                        assert!(*TABLE.read() <= THREADS * TURNS);
                    }
                    *in_a_box.lock() += 1;
                    *QUEUE.lock().unwrap() += 1;
                    assert!(*PAGES.read().unwrap() == 0);
                }
            });
        }
    });
    assert_eq!((*COUNTER.lock(), *TABLE.read(), *in_a_box.lock()), (1500, 300, 1500));
    wait_give_up_and_fail();
    wait_for_a_change();
    read_again_and_upgrade();
}

/// Two reads at once and a writer who was a reader: six reads and three writes.
fn read_again_and_upgrade() {
    drop((INDEX.read(), INDEX.read_recursive()));
    let reader = INDEX.upgradable_read();
    let other = INDEX.read();
    let reader =
        RwLockUpgradableReadGuard::try_upgrade(reader).expect_err("another thread's read would keep it");
    drop(other);
    let mut writer = RwLockUpgradableReadGuard::upgrade(reader);
    *writer += 1;
    let reader = RwLockWriteGuard::downgrade_to_upgradable(writer);
    let writer = RwLockUpgradableReadGuard::try_upgrade(reader).expect("there is no other reader");
    let reader = RwLockWriteGuard::downgrade_to_upgradable(writer);
    drop(RwLockUpgradableReadGuard::downgrade(reader));
    *INDEX.write() += 1;
}

/// One thread waits until another one has changed what the mutex protects, and then in vain.
fn wait_for_a_change() {
    std::thread::scope(|scope| {
        let guard = QUEUE.lock().unwrap();
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            *QUEUE.lock().unwrap() = 0;
            CHANGED.notify_one();
        });
        let guard = CHANGED.wait_while(guard, |count| *count > 0).unwrap();
        drop(CHANGED.wait_timeout(guard, Duration::from_millis(1)).unwrap());
    });
}

#[inline(never)]
fn make_a_mutex() -> Box<Mutex<u64>> {
    let mutex = Box::new(Mutex::new(0));
    drop(mutex.lock());
    mutex
}

/// One thread holds a lock while another tries it, waits for it in vain, and waits for it.
fn wait_give_up_and_fail() {
    let held = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let guard = HELD.lock();
            held.wait();
            held.wait();
            std::thread::sleep(Duration::from_millis(50));
            drop(guard);
        });
        held.wait();
        assert!(HELD.try_lock().is_none());
        assert!(HELD.try_lock_for(Duration::from_millis(1)).is_none());
        held.wait();
        drop(HELD.lock());
    });
}

fn row<'r>(report: &'r Value, name: &str) -> &'r Value {
    let rows = report["rows"].as_array().expect("rows");
    let is_it = |row: &&Value| row["name"].as_str().is_some_and(|found| found.contains(name));
    rows.iter().find(is_it).unwrap_or_else(|| panic!("no row {name} in {report:#}"))
}

#[test]
fn they_have_rows_as_pthread_locks_have() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let file = directory.path().join("p.contend");
    let file = file.to_str().expect("a plain path");
    let own = std::env::current_exe().expect("this test");
    let own = own.to_str().expect("a plain path");
    let profiled = run(
        contend(&[
            "profile", "-q", "-o", file, "--sample", "1", "--", own, "--exact", "program", "--ignored",
        ]),
        HANG,
    );
    assert!(profiled.succeeded(), "{profiled}");
    let report = json(&["report", file, "--json"]);
    let taken = |name: &str| {
        ["exclusive", "shared"].map(|mode| row(&report, name)[mode]["acquisitions"].as_u64().unwrap())
    };
    assert_eq!(taken("COUNTER"), [1501, 0]);
    assert_eq!(taken("TABLE"), [300, 1201]);
    assert_eq!(taken("INDEX"), [3, 6]);
    assert_eq!(row(&report, "INDEX")["exclusive"]["try_failures"], 1, "{report:#}");
    // On the heap, it is named by a function with which a thread took it first: which one depends on where they lie.
    let rows = report["rows"].as_array().expect("rows");
    let on_heap = rows.iter().find(|row| row["exclusive"]["acquisitions"] == 1502);
    let name = on_heap.and_then(|row| row["name"].as_str()).unwrap_or_else(|| panic!("{report:#}"));
    // Line tables alone have no more of a closure that is inlined than its number.
    let takers = ["make_a_mutex", "recorded::program", "{closure#0}"];
    assert!(takers.iter().any(|taker| name.contains(taker)), "{name}");
    let kinds = ["COUNTER", "TABLE"].map(|name| row(&report, name)["kind"].as_str().unwrap());
    assert_eq!(kinds, ["mutex", "rwlock"]);
    for name in ["COUNTER", "TABLE", "INDEX", "HELD", "QUEUE", "PAGES"] {
        assert_eq!(row(&report, name)["by_hooks"], true, "`contend run` does not find it: {report:#}");
    }
    let counted = &row(&report, "COUNTER")["exclusive"];
    let holds = ["hold_same", "hold_other"].map(|hold| counted[hold]["count"].as_u64().unwrap());
    assert_eq!(holds.iter().sum::<u64>(), 1501, "every hold is timed: {report:#}");

    // Twice in the test of the condition, and once at its every end.
    let queue = &row(&report, "QUEUE")["exclusive"];
    let waits = queue["condition_waits"].as_u64().unwrap();
    assert!((2..100).contains(&waits), "{report:#}");
    assert_eq!(queue["acquisitions"].as_u64(), Some(1502 + waits), "{report:#}");
    assert!(queue["condition_ns"].as_f64() > Some(15e6), "{report:#}");
    assert_eq!(queue["condition_timeouts"], 1);
    assert_eq!((taken("PAGES"), row(&report, "PAGES")["kind"].as_str()), ([0, 1500], Some("rwlock")));

    // They sleep at futexes, by a function whose calls are recorded as well.
    let rows_of = |name: &str| rows.iter().filter(|row| row["name"].to_string().contains(name)).count();
    assert_eq!(["HELD", "QUEUE", "CHANGED"].map(rows_of), [1, 1, 0], "no wait is counted twice: {report:#}");
    let held = &row(&report, "HELD")["exclusive"];
    let figures =
        ["acquisitions", "contended", "try_failures", "timeouts"].map(|of| held[of].as_u64().unwrap());
    assert_eq!(figures, [2, 1, 1, 1], "{report:#}");
    assert!(held["wait"]["total_ns"].as_f64() > Some(1e6), "the holder sleeps 50 ms: {report:#}");
}

#[test]
fn without_a_recorder_they_are_the_locks_themselves() {
    program();
    let [mutex, rwlock] = [size_of::<Mutex<()>>(), size_of::<RwLock<()>>()];
    assert_eq!((mutex, rwlock), (24, 24), "the lock, and 16 bytes of its trace");
}
