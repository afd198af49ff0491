//! A condition variable: threads wait, without a lock that they hold, until another thread has changed what it guards.
//!
//! | word      | written by                     | meaning                                             |
//! |-----------|--------------------------------|-----------------------------------------------------|
//! | `number`  | a thread that notifies         | how often waiters were notified: what they sleep on |
//! | `waiters` | waiters, as they come and leave | how many there are                                  |
//!
//! A waiter reads the number and counts itself while it holds the lock. A thread that changes what the lock guards holds it
//! later, so that its notification finds the waiter counted, and changes a number that the waiter has read. Where no thread
//! waits, a notification is one load.
//!
//! Order: the machine's of its sleepers. All that are notified together go for the lock at once.
//! Source: Drepper 2011 (the number); Rust's `std` 2022 (nothing else in the word).

use core::fmt;
use core::time::Duration;

use lock_api::{MutexGuard, RawMutex};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Deadline, GaveUp, Integer, Machine, Patient, Slept, Timeout, Word};

use crate::RawLock;

/// The condition variable, 8 bytes, for every mutex of this crate.
///
/// A wait may end without a notification: look at the condition again, as [`wait_while`](Condvar::wait_while) does. What the
/// condition is made of changes while the mutex is held, which is the same one for all that wait at a time.
///
/// ```
/// use contend_locks::prelude::*;
///
/// static JOBS: Mutex<Vec<u32>> = Mutex::new(Vec::new());
/// static MORE: Condvar = Condvar::new();
///
/// let worker = std::thread::spawn(|| {
///     let mut jobs = JOBS.lock();
///     MORE.wait_while(&mut jobs, |jobs| jobs.is_empty());
///     jobs.pop()
/// });
/// JOBS.lock().push(7);
/// MORE.notify_one();
/// assert_eq!(worker.join().unwrap(), Some(7));
/// ```
pub struct Condvar<M: Machine = Patient> {
    number: M::U32,
    waiters: M::U32,
}

const _: () = assert!(size_of::<Condvar>() == 8);

/// Whether a wait ended at its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether it did.
    #[must_use]
    pub const fn timed_out(self) -> bool {
        self.0
    }
}

impl<M: Machine> Condvar<M> {
    /// A condition variable that no thread waits on.
    #[must_use]
    pub const fn new() -> Self {
        Self { number: M::U32::ZERO, waiters: M::U32::ZERO }
    }

    /// Releases the mutex, waits for a notification, and acquires the mutex again.
    pub fn wait<R: RawMutex, T: ?Sized>(&self, guard: &mut MutexGuard<'_, R, T>) {
        let _: Slept = self.wait_unlocked(guard, Timeout::NONE);
    }

    /// [`wait`](Self::wait), until the condition does not hold any more.
    pub fn wait_while<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// [`wait`](Self::wait), until the deadline at most.
    pub fn wait_until<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        deadline: Deadline,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(self.wait_unlocked(guard, Timeout::at(deadline)) == Slept::GaveUp)
    }

    /// [`wait`](Self::wait), for so long at most.
    pub fn wait_for<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        wait: Duration,
    ) -> WaitTimeoutResult {
        self.wait_until(guard, Deadline::after::<M>(wait))
    }

    /// [`wait_while`](Self::wait_while), for so long at most.
    pub fn wait_while_for<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        wait: Duration,
    ) -> WaitTimeoutResult {
        let deadline = Deadline::after::<M>(wait);
        while condition(&mut **guard) {
            if self.wait_until(guard, deadline).timed_out() {
                return WaitTimeoutResult(condition(&mut **guard));
            }
        }
        WaitTimeoutResult(false)
    }

    fn wait_unlocked<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        timeout: Timeout<'_, M>,
    ) -> Slept {
        let number = self.enter();
        MutexGuard::unlocked(guard, || self.sleep(number, timeout))
    }

    /// [`wait`](Self::wait) for a lock without a guard.
    ///
    /// # Errors
    /// [`GaveUp`] when `timeout` was reached; the lock is held again.
    ///
    /// # Safety
    /// The lock is held exclusively, and its acquirer takes this for its release and its next acquisition.
    pub unsafe fn wait_raw<L: RawLock<M>>(&self, lock: &L, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let number = self.enter();
        // SAFETY: by the caller.
        unsafe { lock.release() };
        let slept = self.sleep(number, timeout);
        lock.acquire();
        if slept == Slept::GaveUp { Err(GaveUp) } else { Ok(()) }
    }

    /// The first half of a wait, for locks of any kind: counts the caller, who holds the lock and releases it next. Gives the number
    /// for [`sleep`](Self::sleep).
    #[must_use = "the thread that enters has to sleep"]
    pub fn enter(&self) -> u32 {
        self.waiters.fetch_add(1, Relaxed); // the lock publishes it, and the number's order with it
        self.number.load(Relaxed)
    }

    /// The second half of a wait, without the lock, which the caller acquires again afterwards.
    pub fn sleep(&self, number: u32, timeout: Timeout<'_, M>) -> Slept {
        let slept = M::sleep_while(&self.number, number, timeout);
        self.leave();
        slept
    }

    /// Ends a wait whose second half does not come.
    pub fn leave(&self) {
        self.waiters.fetch_sub(1, Release); // [1] to an owner that frees the memory
    }

    /// Waits until all that were notified have left, so that its memory can be freed, as C++ allows it for a condition variable whose
    /// waiters were all notified. A borrow tells a Rust program that they have. It waits for ever if a thread was not notified.
    pub fn await_leavers(&self) {
        M::spin_until(&self.waiters, Acquire, |waiters| waiters == 0); // [1] from who left last
    }

    /// Wakes one of those that wait. Says whether any thread waited.
    pub fn notify_one(&self) -> bool {
        self.notify(1)
    }

    /// Wakes all that wait. Says whether any thread waited.
    pub fn notify_all(&self) -> bool {
        self.notify(u32::MAX)
    }

    fn notify(&self, most: u32) -> bool {
        let waited = self.waiters.load(Relaxed) != 0;
        if waited {
            self.number.fetch_add(1, Relaxed);
            M::wake(&raw const self.number, most);
        }
        waited
    }
}

impl<M: Machine> Default for Condvar<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Machine> fmt::Debug for Condvar<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").field("waiters", &self.waiters.load(Relaxed)).finish()
    }
}
