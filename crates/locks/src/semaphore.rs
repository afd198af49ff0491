//! A counting semaphore.
//!
//! | bits of `word` | name      | meaning                                                                 |
//! |----------------|-----------|-------------------------------------------------------------------------|
//! | 0 to 30        | `TAKEN`   | acquisitions less releases, modulo 2³¹: as many as there were permits at first, and none is left |
//! | 31             | `WAITERS` | a thread sleeps, or is about to: a release wakes as many as it has permits for |
//!
//! A release takes `WAITERS` away. A thread that has slept sets it again as it comes in, since others may sleep still; if there
//! are more permits by then, it wakes the next one, as the release that brought them has seen no waiters. So no permit lies there
//! while a thread sleeps that no other thread is about to wake.
//!
//! Order: the thread that comes first takes the permit. Any thread may release.
//! Source: Dijkstra 1965; Drepper 2011 (a sleeper's mark).

use core::fmt;
use core::time::Duration;

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Deadline, GaveUp, Machine, Patient, Slept, Timeout, Word};

const WAITERS: u32 = 1 << 31;
const TAKEN: u32 = WAITERS - 1;

/// The semaphore, 8 bytes.
///
/// ```
/// use contend_locks::prelude::*;
///
/// static SEATS: Semaphore = Semaphore::new(2);
/// let (first, second) = (SEATS.access(), SEATS.access());
/// assert!(SEATS.try_access().is_none());
/// drop(first);
/// assert!(SEATS.try_access().is_some());
/// # drop(second);
/// ```
#[repr(C)]
pub struct Semaphore<M: Machine = Patient> {
    word: M::U32,
    at_first: u32,
}

const _: () = assert!(size_of::<Semaphore>() == 8);

/// A permit that was taken. It is given back when this is dropped.
#[must_use = "a permit that is dropped is given back"]
pub struct Permit<'a, M: Machine = Patient>(&'a Semaphore<M>);

impl<M: Machine> Drop for Permit<'_, M> {
    fn drop(&mut self) {
        self.0.release(1);
    }
}

impl<M: Machine> Semaphore<M> {
    /// A semaphore with so many permits.
    ///
    /// # Panics
    /// With 2³¹ permits or more.
    #[must_use]
    pub const fn new(permits: u32) -> Self {
        assert!(permits <= TAKEN, "a semaphore counts 2^31 - 1 permits at most");
        Self { word: M::U32::ZERO, at_first: permits }
    }

    /// How many permits are left, as of some moment ago.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.left(self.word.load(Relaxed))
    }

    const fn left(&self, state: u32) -> u32 {
        self.at_first.wrapping_sub(state) & TAKEN
    }

    /// Waits for a permit and takes it, until the guard is dropped.
    pub fn access(&self) -> Permit<'_, M> {
        self.acquire();
        Permit(self)
    }

    /// Takes a permit, if there is one, until the guard is dropped.
    pub fn try_access(&self) -> Option<Permit<'_, M>> {
        self.try_acquire().then(|| Permit(self))
    }

    /// [`access`](Self::access), if a permit comes within this time.
    pub fn access_for(&self, wait: Duration) -> Option<Permit<'_, M>> {
        self.acquire_or(Timeout::at(Deadline::after::<M>(wait))).ok().map(|()| Permit(self))
    }

    /// Waits for a permit and takes it.
    pub fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    /// Takes a permit, if there is one.
    pub fn try_acquire(&self) -> bool {
        self.take(0, self.word.load(Relaxed)).is_ok()
    }

    /// Waits for a permit and takes it.
    ///
    /// # Errors
    /// [`GaveUp`] when `timeout` was reached first.
    pub fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let (mut mark, mut state) = (0, self.word.load(Relaxed));
        loop {
            match self.take(mark, state) {
                Ok(left) => {
                    if mark != 0 && left != 0 {
                        M::wake(&raw const self.word, 1);
                    }
                    return Ok(());
                }
                Err(now) => state = now,
            }
            let asleep = state | WAITERS;
            if asleep != state
                && let Err(now) = self.word.compare_exchange(state, asleep, Relaxed, Relaxed)
            {
                state = now;
                continue;
            }
            if M::sleep_while(&self.word, asleep, timeout) == Slept::GaveUp {
                return Err(GaveUp);
            }
            (mark, state) = (WAITERS, self.word.load(Relaxed));
        }
    }

    /// Takes a permit and leaves a mark. Gives how many are left; else the state in which there is none.
    fn take(&self, mark: u32, mut state: u32) -> Result<u32, u32> {
        while self.left(state) != 0 {
            let taken = state & WAITERS | mark | state.wrapping_add(1) & TAKEN;
            // [1] from the release that brought the permit
            match self.word.compare_exchange(state, taken, Acquire, Relaxed) {
                Ok(_) => return Ok(self.left(taken)),
                Err(now) => state = now,
            }
        }
        Err(state)
    }

    /// Adds permits, whether they were taken before or not.
    ///
    /// # Panics
    /// When there would be 2³¹ permits or more.
    pub fn release(&self, permits: u32) {
        assert!(self.try_release(permits), "a semaphore counts 2^31 - 1 permits at most");
    }

    /// Adds permits, if there are not 2³¹ or more then.
    #[must_use]
    pub fn try_release(&self, permits: u32) -> bool {
        if permits == 0 {
            return true; // the mark of those that sleep stays
        }
        let mut state = self.word.load(Relaxed);
        loop {
            if permits > TAKEN - self.left(state) {
                return false;
            }
            let released = state.wrapping_sub(permits) & TAKEN;
            // [1] to the thread that takes one
            match self.word.compare_exchange(state, released, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        if state & WAITERS != 0 {
            M::wake(&raw const self.word, permits);
        }
        true
    }
}

impl<M: Machine> fmt::Debug for Semaphore<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("permits", &self.permits()).finish()
    }
}
