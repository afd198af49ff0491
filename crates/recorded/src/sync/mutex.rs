//! The mutex.

use super::{Held, any_lock, any_try_lock, guarded, has_a_value, leads_to_the_value, try_guarded};
use crate::Recorded;
use profile::record::Mode;
use pthread::object::ObjectKind;
use std::ops::DerefMut;
use std::sync::{self, LockResult, TryLockResult};

/// [`std::sync::Mutex`], recorded.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    recorded: Recorded<()>,
    inner: sync::Mutex<T>,
}

/// Holds a [`Mutex`] until it is dropped.
#[must_use = "the mutex is released at once if nothing has the guard"]
pub struct MutexGuard<'a, T: ?Sized> {
    held: Held<'a>,
    inner: sync::MutexGuard<'a, T>,
}

impl<T: ?Sized> Mutex<T> {
    /// Acquires the mutex.
    ///
    /// # Errors
    ///
    /// The mutex is poisoned; the error has the guard.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let (try_lock, lock) = (|| self.inner.try_lock(), || self.inner.lock());
        let inner = any_lock(&self.recorded, ObjectKind::Mutex, Mode::Exclusive, try_lock, lock);
        guarded(inner, |inner| self.guard(inner))
    }

    /// Acquires the mutex if it is free.
    ///
    /// # Errors
    ///
    /// It is held; or it is poisoned, and the error has the guard.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let inner =
            any_try_lock(&self.recorded, ObjectKind::Mutex, Mode::Exclusive, || self.inner.try_lock());
        try_guarded(inner, |inner| self.guard(inner))
    }

    fn guard<'a>(&'a self, inner: sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard::of(&self.recorded, inner)
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn of(lock: &'a Recorded<()>, inner: sync::MutexGuard<'a, T>) -> Self {
        Self { held: Held { lock, mode: Mode::Exclusive }, inner }
    }

    /// The recorded hold, which is over, and the guard of `std`, which is not.
    pub(super) fn give_up(self) -> (&'a Recorded<()>, sync::MutexGuard<'a, T>) {
        let Self { held, inner } = self;
        (held.lock, inner)
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

has_a_value!(Mutex);
leads_to_the_value!(MutexGuard);
