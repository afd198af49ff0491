//! Throughput-optimised futex: a thread that finds the lock free takes it, and one waiter at a time spins while the owner runs.
//!
//! | bits of `word` | name      | set by                                   | cleared by                                   |
//! |----------------|-----------|------------------------------------------|----------------------------------------------|
//! | 0              | `WAITERS` | the first waiter, which is about to sleep | the release that wakes it; it, as it leaves |
//! | 1              | `HANDOFF` | the first waiter, once it has waited 5 ms | it, as it enters or leaves                  |
//! | 2 to 31        | owner     | acquirers, with their thread's number + 1 | the release; 0: free                        |
//!
//! | word      | written by   | meaning                                                                  |
//! |-----------|--------------|--------------------------------------------------------------------------|
//! | `waiters` | see [`Osq`]  | the queue of those that wait; who has acquired it is the first waiter    |
//!
//! | owner, `HANDOFF`, `WAITERS` | by                                                                        |
//! |-----------------------------|---------------------------------------------------------------------------|
//! | `0,0,0 -> n,0,0`            | an acquirer, whether it has waited or not                                 |
//! | `n,h,0 -> n,h,1`            | the first waiter, before it sleeps                                        |
//! | `n,0,0 -> n,1,1`            | the same, when it has waited 5 ms: the next release is to hand over to it |
//! | `n,h,w -> 0,h,0`            | the release                                                               |
//! | `0,1,0 -> n,0,0`            | the first waiter, to which the lock was handed over                       |
//! | `n,h,w -> n,0,0`            | the first waiter, which gives up                                          |
//!
//! There is one first waiter, so that the word need not say who it is: a lock that is free with `HANDOFF` set is its own, and a
//! wake-up of the word is for it. In the kernel the queue belongs to the futex's address, and the hand-over writes the new owner;
//! here the queue lies beside the word.
//! Order: none, but the first waiter is bypassed for at most 5 ms, or until it is woken next. Any thread may release.
//! Source: Waiman Long, "futex: Introducing throughput-optimized (TP) futexes", patches to Linux, 2016-17.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Clock, GaveUp, Integer, Machine, Patient, Slept, Timeout, Word};

use crate::{Osq, RawLock, TimedLock, TryLock};

const WAITERS: u32 = 1;
const HANDOFF: u32 = 1 << 1;
const OWNER_SHIFT: u32 = 2;
const OWNER: u32 = u32::MAX << OWNER_SHIFT;

/// How long the first waiter is bypassed, in nanoseconds.
const BYPASS_NS: u64 = 5_000_000;

/// The throughput-optimised futex, 12 bytes.
pub struct TpFutex<M: Machine = Patient> {
    word: M::U32,
    waiters: Osq<M>,
}

const _: () = assert!(size_of::<TpFutex>() == 12);

/// The caller as an owner. Numbers past the field, which no machine has in earnest, are one.
#[inline]
fn myself<M: Machine>() -> u32 {
    M::thread().saturating_add(1).min(OWNER >> OWNER_SHIFT) << OWNER_SHIFT
}

const fn is_free(state: u32) -> bool {
    state & OWNER == 0
}

impl<M: Machine> TpFutex<M> {
    /// Takes a free lock, past those that wait.
    #[inline]
    fn steal(&self, me: u32) -> bool {
        self.word.compare_exchange(0, me, Acquire, Relaxed).is_ok() // [1] from the last release
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, me: u32, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.waiters.acquire_or(timeout)?;
        let waited = self.wait_first(me, timeout);
        // SAFETY: acquired above.
        unsafe { self.waiters.release() };
        waited
    }

    /// Waits as the first waiter. The flags are its own to set; a release clears `WAITERS`.
    fn wait_first(&self, me: u32, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let since_ns = M::clock_ns(Clock::Monotonic);
        let mut gives_up = false;
        loop {
            let state = self.word.load(Relaxed);
            let owner = state & OWNER;
            if is_free(state) {
                // [1] from the last release
                if self.word.compare_exchange(state, me, Acquire, Relaxed).is_ok() {
                    return Ok(());
                }
            } else if gives_up {
                // A release meanwhile fails this, so that what it hands over is taken.
                if self.word.compare_exchange(state, owner, Relaxed, Relaxed).is_ok() {
                    return Err(GaveUp);
                }
            } else if M::spin_while_running_or(
                &self.word,
                Relaxed,
                (owner >> OWNER_SHIFT) - 1,
                timeout,
                |state| state & OWNER != owner,
            )
            .is_err()
            {
                gives_up = self.sleep(state, since_ns, timeout) == Slept::GaveUp;
            }
        }
    }

    /// Sleeps until the owner of `state` releases, and says that the lock is to be handed over if it has taken too long.
    fn sleep(&self, state: u32, since_ns: u64, timeout: Timeout<'_, M>) -> Slept {
        let is_overdue = M::clock_ns(Clock::Monotonic).saturating_sub(since_ns) > BYPASS_NS;
        let asleep = state | WAITERS | if is_overdue { HANDOFF } else { 0 };
        if asleep != state && self.word.compare_exchange(state, asleep, Relaxed, Relaxed).is_err() {
            return Slept::Changed;
        }
        M::sleep_while(&self.word, asleep, timeout)
    }
}

// SAFETY: a thread that writes itself into a word without an owner has the lock until its release.
unsafe impl<M: Machine> RawLock<M> for TpFutex<M> {
    const NEW: Self = Self { word: M::U32::ZERO, waiters: Osq::NEW };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        if self.word.fetch_and(HANDOFF, Release) & WAITERS != 0 {
            // [1] to the next owner. The lock may be gone by now, so that only its address is used.
            M::wake(&raw const self.word, 1);
        }
    }

    fn is_idle(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.waiters.is_idle()
    }

    const PROMISES: bool = true;

    fn is_promised(&self) -> bool {
        self.word.load(Relaxed) & HANDOFF != 0
    }

    fn is_unheld(&self) -> bool {
        is_free(self.word.load(Relaxed))
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for TpFutex<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.steal(myself::<M>())
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for TpFutex<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let me = myself::<M>();
        if self.steal(me) { Ok(()) } else { self.wait(me, timeout) }
    }
}
