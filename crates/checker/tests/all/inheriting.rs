//! The mutex whose owner inherits: it excludes, no waiter is forgotten whatever the kernel does, every ordering is
//! needed, and mistakes in its use of the kernel's calls are found.

use crate::common;

use crate::common::{by_states, explored, is_right, violation};
use contend_checker::checked::{Accessed, Operation};
use contend_checker::{Checked, Exploration, Model, Mutation, Report, explore};
use locks::{Denied, RawLock, RtMutex, TryLock};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::inheriting::{OWNER, WAITERS};
use machine::{Clock, Deadline, Home, Machine, Placed, PlainCell, Plan, Timeout, Word};
use workloads::client::{self, Shape, Wrong};

type U32 = <Checked as Machine>::U32;
type Rt = RtMutex<Checked>;
type Client = fn(Shape) -> Result<(), String>;

fn outcome<T>(result: Result<T, Wrong>) -> Result<(), String> {
    result.map(drop).map_err(|wrong| wrong.to_string())
}

/// What the other sleeping locks are checked with.
const CLIENTS: [(&str, Client); 5] = [
    ("exclusive", |shape| outcome(client::exclusive::<Rt, Checked>(shape))),
    ("tried", |shape| outcome(client::tried::<Rt, Checked>(shape))),
    ("timed", |shape| outcome(client::timed::<Rt, Checked>(shape))),
    ("cancelled", |shape| outcome(client::cancelled::<Rt, Checked>(shape))),
    ("nested", |shape| outcome(client::nested::<Rt, Checked>(shape))),
];

#[test]
fn it_excludes_and_hands_over() {
    for model in Model::ALL {
        for (name, client) in CLIENTS {
            for (threads, acquisitions) in [(2, 3), (3, 1)] {
                let shape = Shape { threads, acquisitions };
                is_right(&format!("{name} {shape:?}"), &by_states(model), &|| client(shape));
            }
        }
    }
}

#[test]
fn executions_and_states_agree() {
    for model in Model::ALL {
        for (name, client) in CLIENTS {
            let shape = Shape { threads: 2, acquisitions: 1 };
            is_right(name, &Exploration::of(model), &|| client(shape));
        }
    }
}

/// The accesses of the lock itself.
fn accesses() -> Vec<Accessed> {
    let shape = Shape { threads: 2, acquisitions: 1 };
    common::accesses(
        &Exploration::of(Model::Ra),
        CLIENTS.map(|(_, client)| ("src/rt.rs", move || client(shape))),
    )
}

fn is_found(mutation: Mutation) -> bool {
    let mutated = Exploration { mutation: Some(mutation), ..by_states(Model::Ra) };
    let shape = Shape { threads: 2, acquisitions: 2 };
    CLIENTS.iter().any(|(_, client)| explore(&mutated, &|| client(shape)).counterexample.is_some())
}

#[test]
fn every_ordering_and_the_wake_up_are_needed() {
    let all = accesses();
    let orderings: Vec<_> = all
        .iter()
        .flat_map(Accessed::mutations)
        .filter(|mutation| mutation.to.is_of_ordering() || mutation.of.operation == Operation::Wake)
        .collect();
    assert_eq!(orderings.len(), 3, "taking, releasing, and releasing through the kernel: {orderings:#?}");
    let survivors: Vec<_> = orderings.into_iter().filter(|&mutation| !is_found(mutation)).collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
}

/// What may be wrong with the use of the kernel's calls.
const RIGHT: u8 = 0;
/// The release does not look whether a thread waits.
const FORGETS_WAITERS: u8 = 1;
/// A waiter is content with any answer of the kernel.
const IGNORES_DENIAL: u8 = 2;
/// The release checks whether a thread waits, then frees the word: two steps.
const CHECKS_FIRST: u8 = 3;

struct Mistaken<const HOW: u8> {
    word: U32,
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const HOW: u8> RawLock<Checked> for Mistaken<HOW> {
    const NEW: Self = Self { word: U32::ZERO };

    fn acquire(&self) {
        if !self.try_acquire() {
            let deadline = Deadline { clock: Clock::Monotonic, at_ns: 1_000 };
            let timeout = if HOW == IGNORES_DENIAL { Timeout::at(deadline) } else { Timeout::NONE };
            let acquired = Checked::acquire_inheriting(&self.word, timeout);
            assert!(acquired.is_ok() || HOW == IGNORES_DENIAL, "{acquired:?}");
        }
    }

    unsafe fn release(&self) {
        match HOW {
            FORGETS_WAITERS => self.word.store(0, Release),
            CHECKS_FIRST if self.word.load(Relaxed) & WAITERS == 0 => self.word.store(0, Release),
            CHECKS_FIRST => Checked::release_inheriting(&self.word),
            _ if self.word.compare_exchange(Checked::owner(), 0, Release, Relaxed).is_ok() => {}
            _ => Checked::release_inheriting(&self.word),
        }
    }
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const HOW: u8> TryLock<Checked> for Mistaken<HOW> {
    fn try_acquire(&self) -> bool {
        self.word.compare_exchange(0, Checked::owner(), Acquire, Relaxed).is_ok()
    }
}

fn mistaken<const HOW: u8>() -> Report {
    let shape = Shape { threads: 2, acquisitions: 1 };
    explore(&Exploration::of(Model::Ra), &|| outcome(client::exclusive::<Mistaken<HOW>, Checked>(shape)))
}

#[test]
fn a_release_that_does_not_look_for_waiters_leaves_them_behind() {
    assert!(mistaken::<RIGHT>().is_verified());
    assert_eq!(violation(&mistaken::<FORGETS_WAITERS>()).name(), "endless wait");
    assert_eq!(violation(&mistaken::<CHECKS_FIRST>()).name(), "endless wait");
}

#[test]
fn a_lock_that_was_denied_is_not_held() {
    let found = mistaken::<IGNORES_DENIAL>();
    assert!(["two holders", "data race"].contains(&violation(&found).name()), "{:?}", violation(&found));
}

fn placed() -> Placed<Rt, Checked> {
    Placed::new(Rt::NEW, Home::FirstTouch)
}

#[test]
fn to_wait_for_oneself_is_denied() {
    is_right("the same lock again", &by_states(Model::Ra), &|| {
        let lock = placed();
        Checked::run(&Plan::threads(2), &|thread| {
            lock.acquire();
            if thread == 0 {
                assert_eq!(lock.acquire_unless_denied(Timeout::NONE), Err(Denied::Deadlock));
                assert!(!lock.try_acquire());
            }
            // SAFETY: acquired above.
            unsafe { lock.release() };
        });
        Ok(())
    });
}

/// Two locks in two orders: here the deadlock is the client's violation.
#[test]
fn two_orders_of_two_locks_are_an_endless_wait() {
    let client = || {
        let locks = [placed(), placed()];
        Checked::run(&Plan::threads(2), &|thread| {
            locks[thread].acquire();
            locks[1 - thread].acquire();
            // SAFETY: acquired above.
            unsafe { locks[1 - thread].release() };
            // SAFETY: acquired above.
            unsafe { locks[thread].release() };
        });
        Ok(())
    };
    let report = explored(Model::Sc, &client);
    assert_eq!(violation(&report).name(), "endless wait");
}

/// One waits, and one comes when the word names that waiter, which has not run yet: only a thread of a higher priority gets in.
#[test]
fn a_word_between_two_owners_may_be_stolen_or_not() {
    let seen = std::cell::Cell::new(0_u32);
    let client = || {
        let lock = Placed::<_, Checked>::new(U32::ZERO, Home::FirstTouch);
        let came_in = cell();
        Checked::run(&Plan::threads(3), &|thread| match thread {
            0 => {
                lock.store(Checked::owner(), Release);
                Checked::spin_until(&*lock, Relaxed, |word| word & WAITERS != 0);
                Checked::release_inheriting(&lock);
            }
            1 => {
                Checked::spin_until(&*lock, Relaxed, |word| word != 0);
                assert_eq!(Checked::acquire_inheriting(&lock, Timeout::NONE), Ok(())); // and never releases it
            }
            _ => {
                Checked::spin_until(&*lock, Relaxed, |word| word & OWNER == 2);
                if Checked::try_acquire_inheriting(&lock).is_ok() {
                    came_in.set(1);
                    Checked::release_inheriting(&lock);
                }
            }
        });
        seen.set(seen.get() | 1 << came_in.get());
        Ok(())
    };
    assert!(explore(&Exploration::of(Model::Sc), &client).is_verified());
    assert_eq!(seen.get(), 0b11);
}

fn cell() -> Placed<<Checked as Machine>::Cell<u32>, Checked> {
    Placed::new(PlainCell::ZERO, Home::FirstTouch)
}
