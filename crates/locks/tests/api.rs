//! The locks behind `lock_api`.

use core::time::Duration;

use contend_locks::api::{Api, Mutex, RwLock};
use contend_locks::{ClhTimed, Futex, K42, Mcs, Osq, Rw, RwNaive, RwQueued, Ticket};
use machine::{Deadline, Machine, Patient, Plan};

static BLOCKING: Mutex<u64> = Mutex::new(0);
static QUEUED: Mutex<u64, Mcs<Patient>, Patient> = Mutex::new(0);
static TABLE: RwLock<[u64; 2], Rw<Patient>, Patient> = RwLock::new([0; 2]);

#[test]
fn statics_need_no_initialisation_at_run_time() {
    Patient::run(&Plan::threads(4), &|_| {
        for _ in 0..200 {
            *BLOCKING.lock() += 1;
            *QUEUED.lock() += 1;
            for cell in TABLE.write().iter_mut() {
                *cell += 1;
            }
            let [first, second] = *TABLE.read();
            assert_eq!(first, second);
        }
    });
    assert_eq!((*BLOCKING.lock(), *QUEUED.lock(), *TABLE.read()), (800, 800, [800; 2]));
}

#[test]
fn fair_locks_release_fairly_through_the_guard() {
    let fair: Mutex<u32, Ticket> = Mutex::new(1);
    lock_api::MutexGuard::unlock_fair(fair.lock());
    let fair: Mutex<u32, K42> = Mutex::new(1);
    lock_api::MutexGuard::unlock_fair(fair.lock());
    assert!(fair.try_lock().is_some());
}

fn gives_up<L: contend_locks::TimedLock<Patient>>() {
    let mutex: lock_api::Mutex<Api<L, Patient>, u32> = lock_api::Mutex::new(5);
    let held = mutex.lock();
    assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
    assert!(mutex.try_lock_until(Deadline::after_ns::<Patient>(1_000)).is_none());
    drop(held);
    assert_eq!(mutex.try_lock_for(Duration::ZERO).map(|value| *value), Some(5));
    assert_eq!(mutex.try_lock_for(Duration::MAX).map(|value| *value), Some(5));
}

#[test]
fn timed_locks_give_up() {
    gives_up::<Futex<Patient>>();
    gives_up::<ClhTimed<Patient>>();
    gives_up::<Osq<Patient>>();
    gives_up::<Rw<Patient>>();
}

#[test]
fn readers_share_and_read_again() {
    let queued: RwLock<u32, RwQueued> = RwLock::new(7);
    let first = queued.read();
    assert_eq!(*first + *queued.read_recursive(), 14);
    assert!(queued.try_write().is_none());
    drop(first);
    assert!(queued.try_write().is_some());

    let naive: RwLock<u32, RwNaive> = RwLock::new(7);
    let writes = naive.write();
    assert!(naive.try_read_for(Duration::from_millis(1)).is_none());
    assert!(naive.try_read_recursive_for(Duration::from_millis(1)).is_none());
    drop(writes);
    assert!(naive.try_write_for(Duration::ZERO).is_some());
}

/// Said wrongly, "I read already" waits for the writer as anybody else does.
#[test]
fn a_first_read_that_claims_to_be_another_still_waits_for_a_writer() {
    let table: RwLock<u32, Rw> = RwLock::new(7);
    let writes = table.write();
    assert!(table.try_read_recursive().is_none());
    drop(writes);
    assert!(table.try_read_recursive().is_some());
}

/// As many forgotten readers as the word can count, and one more: the count must not go round and let a writer in.
#[test]
fn forgotten_readers_keep_writers_out() {
    let table: RwLock<u32, RwQueued> = RwLock::new(7);
    let reads = table.read();
    let counted = (0..1 << 23).take_while(|_| table.try_read().map(core::mem::forget).is_some()).count();
    assert!(counted > 1 << 21, "only {counted} readers");
    assert!(table.try_read().is_none() && table.try_read_recursive().is_none());
    assert!(table.try_write().is_none());
    drop(reads);
    assert!(table.try_read().is_some());
}

#[test]
fn guards_may_go_to_another_thread() {
    let mutex: Mutex<u32, Mcs> = Mutex::new(1);
    std::thread::scope(|scope| {
        let held = mutex.lock();
        scope.spawn(move || drop(held));
    });
    assert!(mutex.try_lock().is_some());
}
