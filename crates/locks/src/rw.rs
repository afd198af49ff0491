//! A reader-writer lock that sleeps.
//!
//! | state                   | meaning                                                                  |
//! |-------------------------|--------------------------------------------------------------------------|
//! | 0                       | free                                                                     |
//! | `READER`s               | that many read                                                           |
//! | `READER`s, `RESERVED`   | a writer waits for them to leave; new readers stay out, old ones read again |
//! | `WRITER`                | one writes                                                               |
//! | with `SLEEPING`         | a waiter sleeps: the release that frees the lock wakes one               |
//! | with `READERS_SLEEP`    | one of them wants to read: a reader that enters wakes all                |
//!
//! The word, its invariants and the policy of waiting are in [`blocking`](crate::blocking).
//! Order: a waiting writer lets no new reader past; a waiter that has slept may enter first. A thread that reads already
//! is let in whatever waits. Any thread may release either side.
//! Source: Courtois, Heymans and Parnas 1971 (fair to writers); the word is that of [`Futex`](crate::Futex).

use machine::{GaveUp, Machine, Patient, Timeout};

use crate::blocking::{BlockingWord, blocking_lock, blocking_rw_lock};
use crate::{DowngradeLock, Elidable, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};

/// The blocking reader-writer lock, 4 bytes; at most 2²⁶ readers at once, further ones wait.
pub struct Rw<M: Machine = Patient> {
    word: BlockingWord<M>,
}

const _: () = assert!(size_of::<Rw>() == 4);

blocking_lock!(Rw);
blocking_rw_lock!(Rw);
