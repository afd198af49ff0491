//! Every lock of the catalogue, natively: each ability that it claims.

use contend_locks as locks;

use locks::catalogue::{Group, LOCKS, Lock, Visitor, visit};
use locks::{RawLock, RawRwLock, Rwsem, TimedLock, TimedRwLock, TryLock};
use machine::Ordering::Relaxed;
use machine::{Deadline, Home, Integer, Machine, Native, Patient, Placed, PlainCell, Plan, Timeout, Word};

/// A lock and what it protects.
struct Counter<L, M: Machine> {
    lock: L,
    count: M::Cell<u64>,
    again: M::Cell<u64>,
}

impl<L: RawLock<M>, M: Machine> Counter<L, M> {
    fn placed() -> Placed<Self, M> {
        let guarded = Self { lock: L::NEW, count: M::Cell::ZERO, again: M::Cell::ZERO };
        Placed::new(guarded, Home::FirstTouch)
    }

    /// Fails when another thread is in, too.
    fn touch(&self) {
        let count = self.count.get();
        assert_eq!(count, self.again.get());
        self.count.set(count + 1);
        self.again.set(count + 1);
    }

    fn look(&self) {
        assert_eq!(self.count.get(), self.again.get());
    }
}

/// How often something is done: as often as said, or a few times under Miri, which takes milliseconds for each.
const fn times(natively: u64) -> u64 {
    if cfg!(miri) { natively.div_ceil(100) } else { natively }
}

const ROUNDS: u64 = times(2_000);

fn excludes<L: RawLock<M>, M: Machine>(threads: usize) {
    let guarded = Counter::<L, M>::placed();
    let rounds = (ROUNDS / threads as u64).max(times(20));
    M::run(&Plan::threads(threads), &|_| {
        for _ in 0..rounds {
            guarded.lock.acquire();
            guarded.touch();
            // SAFETY: acquired above.
            unsafe { guarded.lock.release() };
        }
    });
    assert_eq!(guarded.count.get(), rounds * threads as u64);
}

fn tries<L: TryLock<M>, M: Machine>() {
    let guarded = Counter::<L, M>::placed();
    assert!(guarded.lock.try_acquire());
    assert!(!guarded.lock.try_acquire());
    // SAFETY: acquired above.
    unsafe { guarded.lock.release() };
    guarded.lock.acquire();
    M::run(&Plan::threads(1), &|_| assert!(!guarded.lock.try_acquire()));
    // SAFETY: acquired above.
    unsafe { guarded.lock.release() };
    let taken = M::run(&Plan::threads(4), &|_| {
        for round in 0..times(200) {
            if round % 3 == 0 {
                guarded.lock.acquire();
            } else if !guarded.lock.try_acquire() {
                continue;
            }
            M::note(machine::Event::Operation);
            guarded.touch();
            // SAFETY: acquired above.
            unsafe { guarded.lock.release() };
        }
    });
    assert_eq!(guarded.count.get(), taken.operations());
    assert!(guarded.lock.try_acquire());
}

fn times_out<L: TimedLock<M>, M: Machine>() {
    let guarded = Counter::<L, M>::placed();
    let past = Timeout::at(Deadline { clock: machine::Clock::Monotonic, at_ns: 0 });
    guarded.lock.acquire();
    assert!(guarded.lock.acquire_or(past).is_err());
    assert!(guarded.lock.acquire_or(Timeout::at(Deadline::after_ns::<M>(2_000_000))).is_err());
    let cancel = Placed::<M::U32, M>::new(Word::ZERO, Home::FirstTouch);
    Word::store(&*cancel, 1, Relaxed);
    assert!(guarded.lock.acquire_or(Timeout::cancelled_by(&*cancel)).is_err());
    // SAFETY: acquired above.
    unsafe { guarded.lock.release() };
    // A free lock is taken whatever the timeout.
    assert!(guarded.lock.acquire_or(past).is_ok());
    // SAFETY: acquired above.
    unsafe { guarded.lock.release() };
    assert!(guarded.lock.try_acquire());
    // SAFETY: acquired above.
    unsafe { guarded.lock.release() };
}

/// Most waiters give up, from the front, the middle and the end of whatever they wait in.
fn survives_a_storm_of_cancellations<L: TimedLock<M>, M: Machine>() {
    let guarded = Counter::<L, M>::placed();
    let run = M::run(&Plan::threads(8), &|thread| {
        for round in 0..times(60) {
            let wait_ns = (thread as u64 * 7_919 + round * 104_729) % 60_000;
            if guarded.lock.acquire_or(Timeout::at(Deadline::after_ns::<M>(wait_ns))).is_ok() {
                M::note(machine::Event::Operation);
                guarded.touch();
                M::delay(20_000);
                // SAFETY: acquired above.
                unsafe { guarded.lock.release() };
            }
        }
        guarded.lock.acquire();
        M::note(machine::Event::Operation);
        guarded.touch();
        // SAFETY: acquired above.
        unsafe { guarded.lock.release() };
    });
    assert_eq!(guarded.count.get(), run.operations());
}

/// Readers meet, writers are alone, and a reader reads again past a waiting writer.
fn shares<L: RawRwLock<M> + TryLock<M>, M: Machine>() {
    let guarded = Counter::<L, M>::placed();
    guarded.lock.acquire_shared(false);
    assert!(guarded.lock.try_acquire_shared(true));
    assert!(!guarded.lock.try_acquire());
    // SAFETY: acquired above.
    unsafe { guarded.lock.release_shared() };
    // SAFETY: acquired above.
    unsafe { guarded.lock.release_shared() };
    assert!(guarded.lock.try_acquire());
    assert!(!guarded.lock.try_acquire_shared(false));
    // SAFETY: acquired above.
    unsafe { guarded.lock.release() };

    let writes = M::run(&Plan::threads(8), &|thread| {
        for round in 0..times(150) {
            if (thread as u64 + round).is_multiple_of(4) {
                guarded.lock.acquire();
                M::note(machine::Event::Operation);
                guarded.touch();
                // SAFETY: acquired above.
                unsafe { guarded.lock.release() };
            } else {
                guarded.lock.acquire_shared(false);
                guarded.look();
                guarded.lock.acquire_shared(true);
                guarded.look();
                // SAFETY: acquired above.
                unsafe { guarded.lock.release_shared() };
                // SAFETY: acquired above.
                unsafe { guarded.lock.release_shared() };
            }
        }
    });
    assert_eq!(guarded.count.get(), writes.operations());
}

/// Holds more locks at once than the pool has nodes, and releases them in another order.
fn nests<L: RawLock<M>, M: Machine>() {
    let many = M::NAMED_NODES as usize + 3;
    let all = (0..many).map(|_| Counter::<L, M>::placed()).collect::<Vec<_>>();
    M::run(&Plan::threads(3), &|thread| {
        for round in 0..times(30) {
            all.iter().for_each(|guarded| guarded.lock.acquire());
            all.iter().for_each(|guarded| guarded.touch());
            for index in 0..many {
                // SAFETY: acquired above.
                unsafe { all[(index * 3 + thread + round as usize) % many].lock.release() };
            }
        }
    });
    assert!(all.iter().all(|guarded| guarded.count.get() == 3 * times(30)));
}

/// Another thread than the acquirer releases.
fn passes_on<L: RawLock<M>, M: Machine>() {
    let guarded = Counter::<L, M>::placed();
    for _ in 0..times(10) {
        guarded.lock.acquire();
        // SAFETY: acquired above; any thread may release.
        M::run(&Plan::threads(1), &|_| unsafe { guarded.lock.release() });
    }
    guarded.lock.acquire();
}

/// Moves the lock while it is held, as safe code can once it has forgotten a guard, and waits for it at its new place.
fn goes_on_after_a_move<L: RawLock<M>, M: Machine>() {
    let lock = L::NEW;
    lock.acquire();
    let moved = Placed::<L, M>::new(lock, Home::FirstTouch);
    M::run(&Plan::threads(3), &|thread| {
        if thread == 0 {
            M::delay(300_000); // so that the others wait
        } else {
            moved.acquire();
        }
        // SAFETY: acquired above, by the first thread before the move.
        unsafe { moved.release() };
    });
}

struct Everything;

impl Everything {
    fn exclusive<L: RawLock<M>, M: Machine>(lock: &Lock) {
        eprintln!("{}", lock.name);
        // Zero-filled memory is a free lock.
        let fresh = L::NEW;
        // SAFETY: all bytes are initialised: a lock is words and cells without padding.
        let bytes = unsafe { core::slice::from_raw_parts((&raw const fresh).cast::<u8>(), size_of::<L>()) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        excludes::<L, M>(2);
        nests::<L, M>();
        goes_on_after_a_move::<L, M>();
        passes_on::<L, M>();
    }
}

impl<M: Machine> Visitor<M> for Everything {
    type Output = ();
    fn tried<L: TryLock<M>>(self, lock: &Lock) {
        Self::exclusive::<L, M>(lock);
        for threads in if cfg!(miri) { [4, 8] } else { [8, 64] } {
            excludes::<L, M>(threads);
        }
        tries::<L, M>();
    }
    fn timed<L: TimedLock<M>>(self, lock: &Lock) {
        <Self as Visitor<M>>::tried::<L>(self, lock);
        times_out::<L, M>();
        survives_a_storm_of_cancellations::<L, M>();
    }
    fn shared<L: RawRwLock<M> + TryLock<M>>(self, lock: &Lock) {
        <Self as Visitor<M>>::tried::<L>(self, lock);
        shares::<L, M>();
    }
    fn timed_shared<L: TimedRwLock<M>>(self, lock: &Lock) {
        <Self as Visitor<M>>::timed::<L>(self, lock);
        shares::<L, M>();
    }
}

/// Tables show a group as one block, and what stands for an object of glibc is none to use.
#[test]
fn the_catalogue_is_in_groups() {
    let mut groups = LOCKS.iter().map(|lock| lock.group).collect::<Vec<_>>();
    groups.dedup();
    assert_eq!(groups, Group::ALL);
    for lock in LOCKS {
        assert_eq!(lock.group == Group::Glibc, lock.stands_for().is_some(), "{}", lock.name);
    }
    assert_eq!(LOCKS[0].name, "adaptive", "the first is the one to start with");
}

#[test]
fn every_lock_does_what_it_claims() {
    for lock in LOCKS {
        visit::<Patient, _>(lock.name, Everything).expect("the catalogue names it");
    }
}

/// Two spinning threads on the hardware itself.
struct TwoSpinning;

impl Visitor<Native> for TwoSpinning {
    type Output = ();
    fn tried<L: TryLock<Native>>(self, _: &Lock) {
        excludes::<L, Native>(2);
    }
}

#[test]
fn every_lock_excludes_while_spinning() {
    for lock in LOCKS {
        visit::<Native, _>(lock.name, TwoSpinning).expect("the catalogue names it");
    }
}

/// More readers than a release lets in at once queue up behind a writer, and stay inside until all of them are.
#[test]
#[cfg_attr(miri, ignore = "too many threads")]
fn readers_that_queue_up_meet_however_many_they_are() {
    const READERS: u32 = 600;
    let lock = Rwsem::<Patient>::NEW;
    let [came, met] = [(); 2].map(|()| <Patient as Machine>::U32::ZERO);
    Patient::run(&Plan::threads(READERS as usize + 1), &|thread| {
        if thread == 0 {
            lock.acquire();
            came.fetch_add(1, Relaxed);
            Patient::spin_until(&came, Relaxed, |came| came > READERS);
            Patient::delay(30_000_000); // most have fallen asleep by then
            // SAFETY: acquired above.
            unsafe { lock.release() };
            return;
        }
        Patient::spin_until(&came, Relaxed, |came| came > 0);
        came.fetch_add(1, Relaxed);
        lock.acquire_shared(thread.is_multiple_of(2));
        met.fetch_add(1, Relaxed);
        Patient::spin_until(&met, Relaxed, |met| met == READERS);
        // SAFETY: acquired above.
        unsafe { lock.release_shared() };
    });
    assert!(RawLock::<Patient>::is_idle(&lock));
}
