//! The locks behind `lock_api`.

use core::time::Duration;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use contend_locks::api::{Api, Mutex, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};
use contend_locks::{
    ClhTimed, DowngradeLock, Futex, K42, Mcs, Osq, Rw, RwNaive, RwQueued, Rwsem, RwsemFifo, Ticket, TryLock,
    Upgradable, UpgradableLock, spinning,
};
use machine::{Clock, Deadline, Machine, Patient, Plan};

/// Rounds of a thread; a multiple of three.
const ROUNDS: u64 = if cfg!(miri) { 6 } else { 300 };

static BLOCKING: Mutex<u64> = Mutex::new(0);
static QUEUED: Mutex<u64, Mcs> = Mutex::new(0);
static TABLE: RwLock<[u64; 2], Rw> = RwLock::new([0; 2]);

#[test]
fn statics_need_no_initialisation_at_run_time() {
    Patient::run(&Plan::threads(4), &|_| {
        for _ in 0..ROUNDS {
            *BLOCKING.lock() += 1;
            *QUEUED.lock() += 1;
            for cell in TABLE.write().iter_mut() {
                *cell += 1;
            }
            let [first, second] = *TABLE.read();
            assert_eq!(first, second);
        }
    });
    assert_eq!((*BLOCKING.lock(), *QUEUED.lock(), *TABLE.read()), (4 * ROUNDS, 4 * ROUNDS, [4 * ROUNDS; 2]));
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

/// Said wrongly, "I read already" waits for the writer as any other reader does.
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
#[cfg_attr(miri, ignore = "millions of readers take hours under Miri")]
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

#[cfg(not(feature = "deadlock_detection"))]
#[test]
fn guards_may_go_to_another_thread() {
    let mutex: Mutex<u32, Mcs> = Mutex::new(1);
    std::thread::scope(|scope| {
        let held = mutex.lock();
        scope.spawn(move || drop(held));
    });
    assert!(mutex.try_lock().is_some());
}

/// Many more threads than cores, which a lock in the order of arrival gets through only if its waiters let each other run.
#[test]
fn more_threads_than_cores_get_through_by_default() {
    const MANY: u64 = if cfg!(miri) { 10 } else { 20_000 };
    let sum: Mutex<u64, Mcs> = Mutex::new(0);
    Patient::run(&Plan::on(&[0; 8]), &|_| {
        for _ in 0..MANY {
            *sum.lock() += 1;
        }
    });
    assert_eq!(sum.into_inner(), 8 * MANY);
}

#[test]
fn spinning_is_asked_for_by_name() {
    static SUM: spinning::Mutex<u64, spinning::Mcs> = spinning::Mutex::new(0);
    static TABLE: spinning::RwLock<u64, spinning::Upgradable> = spinning::RwLock::new(0);
    machine::Native::run(&Plan::threads(2), &|_| {
        for _ in 0..ROUNDS {
            *SUM.lock() += *TABLE.read() + 1;
        }
    });
    assert_eq!(*SUM.lock(), 2 * ROUNDS);
}

/// A writer that turns into a reader lets readers in, and no thread writes in between.
fn downgrades<L: DowngradeLock<Patient> + TryLock<Patient>>() {
    let table: lock_api::RwLock<Api<L, Patient>, [u64; 2]> = lock_api::RwLock::new([0; 2]);
    let reads = lock_api::RwLockWriteGuard::downgrade(table.write());
    assert!(table.try_read().is_some() && table.try_write().is_none());
    drop(reads);
    assert!(table.try_write().is_some());
    Patient::run(&Plan::threads(4), &|thread| {
        for round in 0..ROUNDS {
            if (thread as u64 + round).is_multiple_of(3) {
                let [first, second] = *table.read();
                assert_eq!(first, second);
                continue;
            }
            let mut writes = table.write();
            writes[0] += 1;
            writes[1] += 1;
            let wrote = *writes;
            let reads = lock_api::RwLockWriteGuard::downgrade(writes);
            Patient::delay(200);
            assert_eq!(*reads, wrote, "somebody wrote");
        }
    });
    assert_eq!(*table.read(), [4 * ROUNDS * 2 / 3; 2]);
}

#[test]
fn reader_writer_locks_downgrade() {
    downgrades::<Rw>();
    downgrades::<RwNaive>();
    downgrades::<RwQueued>();
    downgrades::<Rwsem>();
    downgrades::<RwsemFifo>();
    downgrades::<Upgradable>();
}

fn upgrades<L: UpgradableLock<Patient> + TryLock<Patient>>() {
    let set: lock_api::RwLock<Api<L, Patient>, (u64, u64)> = lock_api::RwLock::new((0, 0));
    {
        let looks = set.upgradable_read();
        let reads = set.try_read().expect("readers share it");
        assert!(set.try_upgradable_read().is_none() && set.try_write().is_none());
        let looks = lock_api::RwLockUpgradableReadGuard::try_upgrade(looks).expect_err("another one reads");
        drop(reads);
        let writes = lock_api::RwLockUpgradableReadGuard::upgrade(looks);
        assert!(set.try_read().is_none());
        let looks = lock_api::RwLockWriteGuard::downgrade_to_upgradable(writes);
        assert!(set.try_read().is_some() && set.try_upgradable_read().is_none());
        let reads = lock_api::RwLockUpgradableReadGuard::downgrade(looks);
        let looks = set.try_upgradable_read().expect("the other one has become a reader");
        drop((reads, looks));
        assert!(set.try_write().is_some());
    }
    Patient::run(&Plan::threads(4), &|thread| {
        for round in 0..ROUNDS {
            match (thread as u64 + round) % 3 {
                0 => {
                    let (first, second) = *set.read();
                    assert_eq!(first, second);
                }
                1 => {
                    let looks = set.upgradable_read();
                    let seen = looks.0;
                    Patient::delay(100);
                    let mut writes = match lock_api::RwLockUpgradableReadGuard::try_upgrade(looks) {
                        Ok(writes) => writes,
                        Err(looks) => lock_api::RwLockUpgradableReadGuard::upgrade(looks),
                    };
                    assert_eq!(*writes, (seen, seen), "somebody wrote before the one that looked");
                    *writes = (seen + 1, seen + 1);
                }
                _ => {
                    let mut writes = set.write();
                    writes.0 += 1;
                    writes.1 += 1;
                }
            }
        }
    });
    assert_eq!(*set.read(), (4 * ROUNDS * 2 / 3, 4 * ROUNDS * 2 / 3));
}

#[test]
fn any_reader_writer_lock_can_be_made_upgradable() {
    upgrades::<Upgradable>();
    upgrades::<Upgradable<RwQueued, Mcs>>();
    upgrades::<Upgradable<Rwsem, Mcs>>();
    upgrades::<Upgradable<RwNaive, Ticket>>();
}

#[test]
fn an_upgradable_lock_gives_up_on_either_side() {
    let table: RwLock<u32, Upgradable> = RwLock::new(7);
    let soon = Duration::from_millis(1);
    {
        let _reads = table.read();
        assert!(table.try_write_for(soon).is_none());
    }
    let looks = table.upgradable_read(); // the gate is free again
    assert!(table.try_write_for(soon).is_none());
    assert!(table.try_upgradable_read_for(soon).is_none());
    let reads = table.read();
    let looks = RwLockUpgradableReadGuard::try_upgrade_for(looks, soon).expect_err("another one reads");
    assert!(table.try_read().is_some() && table.try_write().is_none(), "it reads as before");
    drop(reads);
    let writes = RwLockUpgradableReadGuard::try_upgrade_for(looks, soon).expect("nobody else is there");
    assert!(table.try_read_for(soon).is_none() && table.try_upgradable_read_for(soon).is_none());
    drop(writes);
    assert!(table.try_upgradable_read_for(soon).is_some());
    assert!(table.try_write_for(soon).is_some());
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no time of day")]
fn an_instant_is_a_deadline() {
    let mutex: Mutex<u32> = Mutex::new(5);
    let held = mutex.lock();
    let start = Instant::now();
    let at = start + Duration::from_millis(20);
    assert!(mutex.try_lock_until(at.into()).is_none());
    assert!(Instant::now() >= at, "gave up early");
    assert!(mutex.try_lock_until((SystemTime::now() + Duration::from_millis(2)).into()).is_none());
    drop(held);
    assert!(mutex.try_lock_until(start.into()).is_some()); // long past, but free
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(Deadline::from(before_1970), Deadline { clock: Clock::Realtime, at_ns: 0 });
    assert!(mutex.try_lock_until((Instant::now() + Duration::from_secs(1 << 40)).into()).is_some());
}

#[test]
fn a_writer_that_waits_does_not_hold_the_lock() {
    static LOCK: RwLock<u32> = RwLock::new(0);
    let reads = LOCK.read();
    let writer = std::thread::spawn(|| drop(LOCK.write()));
    while LOCK.try_read().is_some() {
        std::thread::yield_now(); // until the writer waits
    }
    assert!(LOCK.is_locked() && !LOCK.is_locked_exclusive());
    drop(reads);
    writer.join().expect("it writes");
    let writes = LOCK.write();
    assert!(LOCK.is_locked_exclusive());
    drop(writes);
}

#[test]
fn locks_and_guards_have_the_common_traits() {
    let mutex = Mutex::<Vec<u32>, Mcs>::default();
    assert_eq!(format!("{mutex:?}"), "Mutex { data: [] }");
    let held = mutex.lock();
    assert_eq!(format!("{held:?}"), "[]");
    assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked> }");
    assert_eq!(format!("{:?}", Mcs::<Patient>::default()), "Mcs { .. }");
    let locks: RwLock<HashSet<u32>> = RwLock::from(HashSet::from([1]));
    let part = RwLockReadGuard::map(locks.read(), |set| set.get(&1).expect("it is there"));
    assert_eq!(*part, 1);
    drop(part);
    RwLockWriteGuard::map(locks.write(), |set| set).clear();
    let _shared: Arc<Mutex<u32>> = Arc::default();
}
