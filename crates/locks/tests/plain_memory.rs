//! Memory that every lock protects and that is not atomic: Miri and ThreadSanitizer find a data race where an ordering of a lock
//! does not carry what its holder wrote to the next one. In other tests the cells of the machine hide that, as they are
//! relaxed atomics.

use std::cell::UnsafeCell;

use contend_locks as locks;

use locks::catalogue::{LOCKS, Lock, Visitor, visit};
use locks::{RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
use machine::{Deadline, Machine, Native, Patient, Plan, Timeout};

const THREADS: usize = 3;
const ROUNDS: u64 = if cfg!(miri) { 12 } else { 2_000 };

struct Protected<L> {
    lock: L,
    count: UnsafeCell<u64>,
}

// SAFETY: the count is read and written with the lock held.
unsafe impl<L: Sync> Sync for Protected<L> {}

impl<L> Protected<L> {
    /// # Safety
    /// The calling thread holds the lock exclusively.
    unsafe fn touch(&self) {
        // SAFETY: by the caller.
        unsafe { *self.count.get() += 1 };
    }

    /// # Safety
    /// The calling thread holds the lock.
    unsafe fn look(&self) -> u64 {
        // SAFETY: by the caller.
        unsafe { *self.count.get() }
    }
}

/// A way of locking; returns the number of times that it wrote.
type Way<'a, L> = &'a (dyn Fn(&Protected<L>) -> u64 + Sync);

/// Each thread locks in each of these ways in turn.
fn in_turn<L: RawLock<M>, M: Machine>(name: &str, ways: &[Way<'_, L>]) {
    let protected = Protected { lock: L::NEW, count: UnsafeCell::new(0) };
    let run = M::run(&Plan::threads(THREADS), &|thread| {
        for round in 0..ROUNDS {
            let written = ways[(round as usize + thread) % ways.len()](&protected);
            (0..written).for_each(|_| M::note(machine::Event::Operation));
        }
    });
    assert_eq!(protected.count.into_inner(), run.operations(), "{name}");
}

fn exclusive<L: RawLock<M>, M: Machine>(protected: &Protected<L>) -> u64 {
    protected.lock.acquire();
    // SAFETY: acquired above.
    unsafe {
        protected.touch();
        protected.lock.release();
    }
    1
}

fn tried<L: TryLock<M>, M: Machine>(protected: &Protected<L>) -> u64 {
    let taken = protected.lock.try_acquire();
    if taken {
        // SAFETY: acquired above.
        unsafe {
            protected.touch();
            protected.lock.release();
        }
    }
    u64::from(taken)
}

fn timed<L: TimedLock<M>, M: Machine>(protected: &Protected<L>) -> u64 {
    let taken = protected.lock.acquire_or(Timeout::at(Deadline::after_ns::<M>(20_000))).is_ok();
    if taken {
        // SAFETY: acquired above.
        unsafe {
            protected.touch();
            protected.lock.release();
        }
    }
    u64::from(taken)
}

fn shared<L: RawRwLock<M>, M: Machine>(protected: &Protected<L>) -> u64 {
    protected.lock.acquire_shared(false);
    // SAFETY: acquired above.
    unsafe {
        let seen = protected.look();
        assert_eq!(protected.look(), seen);
        protected.lock.release_shared();
    }
    0
}

struct EachWay;

impl<M: Machine> Visitor<M> for EachWay {
    type Output = ();
    fn tried<L: TryLock<M>>(self, lock: &Lock) {
        in_turn::<L, M>(lock.name, &[&exclusive::<L, M>, &tried::<L, M>]);
    }
    fn timed<L: TimedLock<M>>(self, lock: &Lock) {
        in_turn::<L, M>(lock.name, &[&exclusive::<L, M>, &tried::<L, M>, &timed::<L, M>]);
    }
    fn shared<L: RawRwLock<M> + TryLock<M>>(self, lock: &Lock) {
        in_turn::<L, M>(lock.name, &[&exclusive::<L, M>, &shared::<L, M>, &tried::<L, M>]);
    }
    fn timed_shared<L: TimedRwLock<M>>(self, lock: &Lock) {
        let ways: [Way<'_, L>; 4] = [&exclusive::<L, M>, &shared::<L, M>, &timed::<L, M>, &tried::<L, M>];
        in_turn::<L, M>(lock.name, &ways);
    }
}

#[test]
fn every_lock_protects_plain_memory() {
    for lock in LOCKS {
        visit::<Patient, _>(lock.name, EachWay).expect("the catalogue names it");
    }
}

#[test]
fn every_spinning_lock_protects_plain_memory() {
    for lock in LOCKS {
        visit::<Native, _>(lock.name, EachWay).expect("the catalogue names it");
    }
}
