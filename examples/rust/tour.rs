//! A tour of `contend-locks`: guards, a try, a deadline, readers and writers, an upgradable reader, a node in the caller's
//! frame, a lock that spins, several mutexes in any order.
//!
//! cargo run -p contend-locks --example tour

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use contend_locks::prelude::*;
use contend_locks::{LockRef, McsQueue, spinning};

const THREADS: u64 = 4;
const ROUNDS: u64 = 2_000;

/// Without a second argument, a mutex that sleeps.
static BY_MUTEX: Mutex<u64> = Mutex::new(0);
/// A queue lock in 4 bytes.
static BY_SPIN: Mutex<u64, Qspin> = Mutex::new(0);
/// Waiters of this one may give up.
static BY_QUEUE: Mutex<u64, ClhTimed> = Mutex::new(0);
/// Never yields or sleeps: for programs whose threads have a core each.
static WITHOUT_SLEEP: spinning::Mutex<u64, spinning::Ticket> = spinning::Mutex::new(0);
static TABLE: RwLock<[u64; 2]> = RwLock::new([0; 2]);
/// A reader of this one may become its writer.
static SQUARES: RwLock<BTreeMap<u64, u64>, Upgradable> = RwLock::new(BTreeMap::new());
static QUEUE: McsQueue = McsQueue::NEW;
/// Mutexes of a class are taken in any order, in a transaction.
static ACCOUNTS: WwClass = WwClass::wound_wait();
static SAVINGS: WwMutex<i64> = WwMutex::new(&ACCOUNTS, 0);
static WALLET: WwMutex<i64> = WwMutex::new(&ACCOUNTS, 0);

fn transfer(from: &WwMutex<i64>, to: &WwMutex<i64>) {
    ACCOUNTS.transaction(|accounts| {
        let mut from = accounts.lock(from)?; // refused, it begins again when it may have what it did not get
        let mut to = accounts.lock(to)?;
        *from -= 1;
        *to += 1;
        Ok(())
    });
}

fn square(of: u64) -> u64 {
    if let Some(&known) = SQUARES.read().get(&of) {
        return known;
    }
    // One upgradable reader at a time, beside others that read, so that a square is computed once.
    let looks = SQUARES.upgradable_read();
    if let Some(&known) = looks.get(&of) {
        return known;
    }
    *RwLockUpgradableReadGuard::upgrade(looks).entry(of).or_insert(of * of)
}

fn work(object: &LockRef) {
    for round in 0..ROUNDS {
        *BY_MUTEX.lock() += 1;

        match BY_SPIN.try_lock() {
            Some(mut count) => *count += 1,
            None => *BY_SPIN.lock() += 1,
        }

        let soon = Instant::now() + Duration::from_secs(60);
        *BY_QUEUE.try_lock_until(soon.into()).expect("a minute is enough") += 1;

        if round % 8 == 0 {
            let mut writes = TABLE.write();
            writes.iter_mut().for_each(|count| *count += 1);
            let reads = RwLockWriteGuard::downgrade(writes); // reads on, with other readers
            assert_eq!(reads[0], reads[1], "somebody wrote meanwhile");
        } else {
            let reads = TABLE.read();
            assert_eq!(reads[0], reads[1], "a reader met a writer");
        }

        let (from, to) = if round % 3 == 0 { (&SAVINGS, &WALLET) } else { (&WALLET, &SAVINGS) };
        transfer(from, to);

        assert_eq!(square(round % 10), (round % 10).pow(2));
        QUEUE.critical(|| object.get()); // with the queue's node in this frame
        assert!(object.put_not_last(), "main has a reference");
    }
    *WITHOUT_SLEEP.lock() += 1;
}

fn main() {
    let object: LockRef = LockRef::default();
    object.get();
    thread::scope(|scope| {
        (0..THREADS).for_each(|_| {
            scope.spawn(|| work(&object));
        });
    });
    assert_eq!(*BY_MUTEX.lock(), THREADS * ROUNDS);
    assert_eq!(*BY_SPIN.lock(), THREADS * ROUNDS);
    assert_eq!(*BY_QUEUE.lock(), THREADS * ROUNDS);
    assert_eq!(*WITHOUT_SLEEP.lock(), THREADS);
    assert_eq!(object.count(), 1);
    let [savings, wallet] = ACCOUNTS.lock_all([&SAVINGS, &WALLET]);
    assert_eq!(*savings + *wallet, 0);
    println!("{} writes, {} squares; all is right", TABLE.read()[0], SQUARES.read().len());
}
