//! A mutex that sleeps.
//!
//! | state                      | meaning                                                      |
//! |----------------------------|--------------------------------------------------------------|
//! | 0                          | free                                                         |
//! | `WRITER`                   | held                                                         |
//! | `WRITER`, `SLEEPING`       | held, and a waiter sleeps: the release wakes one             |
//! | with `WAKING`              | a woken waiter is on its way: releases wake no other         |
//! | with `RESERVED`            | a waiter has been bypassed for too long: newcomers stay out  |
//!
//! The word, its invariants and the policy of waiting are in [`blocking`](crate::blocking).
//! Order: the first thread that finds the lock free enters; of those that sleep one enters in each ms, even if others come. Any
//! thread may release.
//! Source: Drepper 2011 (states); Go `sync.Mutex` 2016 (throttled wake-ups, bounded bypassing).

use machine::{GaveUp, Machine, Patient, Timeout};

use crate::blocking::{BlockingWord, blocking_lock};
use crate::{Elidable, RawLock, TimedLock, TryLock};

/// The blocking mutex, 4 bytes.
pub struct Futex<M: Machine = Patient> {
    word: BlockingWord<M>,
}

const _: () = assert!(size_of::<Futex>() == 4);

blocking_lock!(Futex);
