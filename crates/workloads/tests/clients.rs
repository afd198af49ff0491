//! Every lock with every client that suits it, from two threads to many more than cores.

use contend_workloads::client::{self, Chosen, ClientKind, Shape, Wrong};
use locks::catalogue::{self, LOCKS, Visitor};
use locks::{DowngradeLock, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
use machine::Ordering::{Acquire, Release};
use machine::{GaveUp, Machine, Native, Patient, Timeout, Word};

fn runs<M: Machine>(threads: &[usize], attempts: u32) {
    for lock in LOCKS {
        for kind in ClientKind::ALL {
            for &threads in threads {
                let shape = Shape { threads, acquisitions: attempts / threads as u32 };
                let ran = client::run::<M>(lock.name, kind, shape);
                assert_eq!(ran.is_some(), kind.suits(lock), "{} {kind:?}", lock.name);
                if let Some(Err(wrong)) = ran {
                    panic!("{} {kind:?} with {threads} threads: {wrong}", lock.name);
                }
            }
        }
    }
}

#[test]
fn more_threads_than_cores() {
    runs::<Patient>(&[1, 3, 8, 64], 400);
}

#[test]
fn spinning_threads() {
    runs::<Native>(&[1, 2], 60);
}

#[test]
fn references_outlive_their_users() {
    for threads in [1, 2, 8] {
        for _ in 0..50 {
            let ran = client::references::<Patient>(Shape { threads, acquisitions: 20 });
            assert!(ran.is_ok(), "{threads} threads: {ran:?}");
        }
    }
}

/// A lock that does not exclude.
struct Open;

// SAFETY: a lock that does not exclude; only clients use it, which hand out no reference.
unsafe impl RawLock<Patient> for Open {
    const NEW: Self = Self;
    fn acquire(&self) {}
    unsafe fn release(&self) {}
}

// SAFETY: a lock that does not exclude; only clients use it, which hand out no reference.
unsafe impl TryLock<Patient> for Open {
    fn try_acquire(&self) -> bool {
        true
    }
}

// SAFETY: a lock that does not exclude; only clients use it, which hand out no reference.
unsafe impl TimedLock<Patient> for Open {
    fn acquire_or(&self, _: Timeout<'_, Patient>) -> Result<(), GaveUp> {
        Ok(())
    }
}

// SAFETY: a lock that does not exclude; only clients use it, which hand out no reference.
unsafe impl RawRwLock<Patient> for Open {
    fn acquire_shared(&self, _: bool) {}
    fn try_acquire_shared(&self, _: bool) -> bool {
        true
    }
    unsafe fn release_shared(&self) {}
    fn is_exclusive(&self) -> bool {
        false
    }
}

// SAFETY: a lock that does not exclude; only clients use it, which hand out no reference.
unsafe impl TimedRwLock<Patient> for Open {
    fn acquire_shared_or(&self, _: bool, _: Timeout<'_, Patient>) -> Result<(), GaveUp> {
        Ok(())
    }
}

// SAFETY: a lock that does not exclude; only clients use it, which hand out no reference.
unsafe impl DowngradeLock<Patient> for Open {
    unsafe fn downgrade(&self) {}
}

#[test]
fn a_lock_that_does_not_exclude_is_caught_by_what_its_sections_see() {
    let shape = Shape { threads: 4, acquisitions: 20_000 };
    let clients = [
        client::exclusive::<Open, Patient>,
        client::tried::<Open, Patient>,
        client::timed::<Open, Patient>,
        client::cancelled::<Open, Patient>,
        client::shared::<Open, Patient>,
        client::nested::<Open, Patient>,
        client::passed_on::<Open, Patient>,
    ];
    for (number, client) in clients.into_iter().enumerate() {
        let seen = |wrong: &Wrong| matches!(wrong, Wrong::Lost { .. } | Wrong::NotAlone { .. });
        let wrong = (0..500).find_map(|_| client(shape).err().filter(seen));
        assert!(wrong.is_some(), "client {number}: five hundred runs excluded each other by chance");
    }
}

#[test]
fn a_lock_that_does_not_exclude_is_caught_by_every_client_at_its_end() {
    let shape = Shape { threads: 2, acquisitions: 1 };
    let rw = catalogue::find("rw").expect("a lock with every ability");
    for kind in ClientKind::ALL {
        let lock = catalogue::Lock { wraps: true, opaque: kind != ClientKind::Effects, ..*rw };
        let ran = Visitor::<Patient>::timed_shared::<Open>(Chosen { kind, shape }, &lock);
        let wrong = ran.expect("it has every ability").expect_err("it lets everybody in");
        assert!(!matches!(wrong, Wrong::NotFree { .. } | Wrong::NotIdle), "{kind:?}: {wrong}");
    }
}

/// A lock that does its work and leaves something behind.
struct Littering(<Patient as Machine>::U32, <Patient as Machine>::U32);

// SAFETY: it excludes.
unsafe impl RawLock<Patient> for Littering {
    const NEW: Self = Self(Word::ZERO, Word::ZERO);
    fn acquire(&self) {
        Patient::spin_rmw(&self.0, |word| word.swap(1, Acquire) == 0);
    }
    unsafe fn release(&self) {
        self.0.store(0, Release);
        self.1.store(1, Release);
    }
    fn is_idle(&self) -> bool {
        self.1.load(Acquire) == 0
    }
}

#[test]
fn what_is_left_behind_is_caught() {
    let ran = client::exclusive::<Littering, Patient>(Shape { threads: 2, acquisitions: 1 });
    assert!(matches!(ran, Err(Wrong::NotIdle)), "{ran:?}");
}
