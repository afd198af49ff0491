//! The lock to start with: a mutex and a reader-writer lock that backs off, spins in a queue, and sleeps.
//!
//! | word       | written by | meaning                                                  |
//! |------------|------------|----------------------------------------------------------|
//! | `word`     | any thread | the state; its bits are in [`blocking`](crate::blocking) |
//! | `spinners` | waiters    | those that spin, see [`spinners`](crate::spinners)       |
//!
//! Each part answers a regime in which a lock without it fails:
//!
//! 1. A thread that finds the lock free takes it, past all waiters, so that no thread waits for a thread that does not run.
//! 2. A waiter backs off a few times, each for longer than a hand-over: a holder that comes back soon finds the lock in its own
//!    cache.
//! 3. Then it spins in a queue, of which the first alone polls the word. Many cores wait so without touching the lock's line, one
//!    of them is always ready to take it, and no thread pays for a wake-up. A place in the queue lasts 0.5 ms, since the thread
//!    before may have lost its core; when a place has ended so, no thread queues up until the queue moves again. The first polls
//!    for as long as it would take to fall asleep and be woken.
//! 4. Then it sleeps, newcomers at once where others sleep already. One sleeper at a time is on its way. One that finds the lock held
//!    after it has waited for 1 ms forbids barging, one such in each ms, until it or another sleeper is in.
//!
//! Order: the first thread that finds the lock free enters; of those that sleep one enters in each ms, even if others come. A
//! waiting writer lets no new reader past; a thread that reads already is let in whatever waits. Any thread may release either
//! side.
//! Source: composed of `futex`, `rw` and `osq`; that a few spin in a queue and the rest sleep is Linux's mutex since 3.10.

use machine::{GaveUp, Machine, Patient, Timeout};

use crate::blocking::{BlockingWord, blocking_lock, blocking_rw_lock};
use crate::spinners::Spinners;
use crate::{DowngradeLock, Elidable, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};

/// The lock to start with, 16 bytes; at most 2²⁶ readers at once, further ones wait.
pub struct Adaptive<M: Machine = Patient> {
    word: BlockingWord<M>,
    spinners: Spinners<M>,
}

const _: () = assert!(size_of::<Adaptive>() == 16);

blocking_lock!(Adaptive, spinners);
blocking_rw_lock!(Adaptive, spinners);
