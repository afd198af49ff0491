//! Every lock with every client that suits it, from two threads to many more than cores.

use contend_workloads::client::{self, Kind, Shape, Wrong};
use locks::catalogue::LOCKS;
use locks::{RawLock, RawRwLock, TimedLock, TryLock};
use machine::{GaveUp, Limit, Machine, Native, Patient};

fn runs<M: Machine>(threads: &[usize], attempts: u32) {
    for lock in LOCKS {
        for kind in Kind::ALL {
            for &threads in threads {
                let shape = Shape { threads, rounds: attempts / threads as u32 };
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
            let ran = client::references::<Patient>(Shape { threads, rounds: 20 });
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
    fn acquire_or(&self, _: Limit<'_, Patient>) -> Result<(), GaveUp> {
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

#[test]
fn a_lock_that_does_not_exclude_is_caught_by_every_client() {
    let shape = Shape { threads: 4, rounds: 20_000 };
    for kind in Kind::ALL {
        let client = match kind {
            Kind::Exclusive => client::exclusive::<Open, Patient>,
            Kind::Tried => client::tried::<Open, Patient>,
            Kind::Timed => client::timed::<Open, Patient>,
            Kind::Cancelled => client::cancelled::<Open, Patient>,
            Kind::Shared => client::shared::<Open, Patient>,
            Kind::Nested => client::nested::<Open, Patient>,
            Kind::PassedOn => client::passed_on::<Open, Patient>,
        };
        let wrong = (0..500).find_map(|_| client(shape).err());
        let wrong =
            wrong.unwrap_or_else(|| panic!("{kind:?}: five hundred runs excluded each other by chance"));
        assert!(matches!(wrong, Wrong::Lost { .. } | Wrong::NotAlone { .. }), "{kind:?}: {wrong}");
    }
}
