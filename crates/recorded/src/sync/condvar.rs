//! The condition variable.

use super::MutexGuard;
use crate::{Recorded, recorder};
use profile::record::Mode;
use pthread::object::ObjectKind;
use std::fmt;
use std::sync::{self, LockResult, PoisonError};
use std::time::{Duration, Instant};

/// [`std::sync::Condvar`] for a recorded [`Mutex`](super::Mutex): waits stand in the row of the mutex.
#[derive(Default)]
pub struct Condvar {
    inner: sync::Condvar,
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Whether a wait ended because its time was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was over.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// What a wait that may time out gives back.
type Timed<'a, T> = LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>;

impl Condvar {
    /// A condition that no thread waits for.
    #[must_use]
    pub const fn new() -> Self {
        Self { inner: sync::Condvar::new() }
    }

    /// Gives the mutex up, waits until another thread notifies, and takes the mutex back. It may end without a notification.
    ///
    /// # Errors
    ///
    /// The mutex is poisoned; the error has the guard.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (lock, inner) = guard.give_up();
        let started = begun();
        let woken = self.inner.wait(inner);
        over(lock, started, false);
        super::guarded(woken, |inner| MutexGuard::of(lock, inner))
    }

    /// Waits as long as `condition` holds.
    ///
    /// # Errors
    ///
    /// The mutex is poisoned; the error has the guard.
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits for so long at most.
    ///
    /// # Errors
    ///
    /// The mutex is poisoned; the error has the guard.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, time: Duration) -> Timed<'a, T> {
        let (lock, inner) = guard.give_up();
        let started = begun();
        let woken = self.inner.wait_timeout(inner, time);
        let timed_out = match &woken {
            Ok((_, result)) => result.timed_out(),
            Err(poisoned) => poisoned.get_ref().1.timed_out(),
        };
        over(lock, started, timed_out);
        super::guarded(woken, |(inner, _)| (MutexGuard::of(lock, inner), WaitTimeoutResult(timed_out)))
    }

    /// Waits as long as `condition` holds, for so long at most.
    ///
    /// # Errors
    ///
    /// The mutex is poisoned; the error has the guard.
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        time: Duration,
        mut condition: F,
    ) -> Timed<'a, T>
    where
        F: FnMut(&mut T) -> bool,
    {
        let started = Instant::now();
        loop {
            if !condition(&mut guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            let Some(left) = time.checked_sub(started.elapsed()) else {
                return Ok((guard, WaitTimeoutResult(true)));
            };
            guard = match self.wait_timeout(guard, left) {
                Ok((guard, _)) => guard,
                Err(poisoned) => return Err(PoisonError::new(poisoned.into_inner())),
            };
        }
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}

/// A condition wait begins: its stamp, 0 without a recorder.
fn begun() -> u64 {
    recorder().map_or(0, |hooks| (hooks.condition_waits)())
}

/// It is over, and the mutex is held again.
fn over(lock: &Recorded<()>, started: u64, timed_out: bool) {
    if let Some(hooks) = recorder() {
        let of = lock.used(ObjectKind::Mutex, Mode::Exclusive);
        (hooks.condition_waited)(&lock.trace, &of, started, timed_out);
    }
}
