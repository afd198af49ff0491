//! The reader-writer lock.

use super::{Held, any_lock, any_try_lock, guarded, has_a_value, leads_to_the_value, try_guarded};
use crate::Recorded;
use profile::record::Mode;
use pthread::object::ObjectKind;
use std::ops::DerefMut;
use std::sync::{self, LockResult, TryLockResult};

/// [`std::sync::RwLock`], recorded.
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    recorded: Recorded<()>,
    inner: sync::RwLock<T>,
}

/// Holds an [`RwLock`] with other readers until it is dropped.
#[must_use = "the lock is released at once if nothing has the guard"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    _held: Held<'a>,
    inner: sync::RwLockReadGuard<'a, T>,
}

/// Holds an [`RwLock`] alone until it is dropped.
#[must_use = "the lock is released at once if nothing has the guard"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    _held: Held<'a>,
    inner: sync::RwLockWriteGuard<'a, T>,
}

impl<T: ?Sized> RwLock<T> {
    /// Acquires the lock with other readers.
    ///
    /// # Errors
    ///
    /// The lock is poisoned; the error has the guard.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let (try_lock, lock) = (|| self.inner.try_read(), || self.inner.read());
        let inner = any_lock(&self.recorded, ObjectKind::Rwlock, Mode::Shared, try_lock, lock);
        guarded(inner, |inner| self.read_guard(inner))
    }

    /// Acquires the lock alone.
    ///
    /// # Errors
    ///
    /// The lock is poisoned; the error has the guard.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let (try_lock, lock) = (|| self.inner.try_write(), || self.inner.write());
        let inner = any_lock(&self.recorded, ObjectKind::Rwlock, Mode::Exclusive, try_lock, lock);
        guarded(inner, |inner| self.write_guard(inner))
    }

    /// Acquires the lock with other readers if it can be had at once.
    ///
    /// # Errors
    ///
    /// It is held; or it is poisoned, and the error has the guard.
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let inner = any_try_lock(&self.recorded, ObjectKind::Rwlock, Mode::Shared, || self.inner.try_read());
        try_guarded(inner, |inner| self.read_guard(inner))
    }

    /// Acquires the lock alone if it is free.
    ///
    /// # Errors
    ///
    /// It is held; or it is poisoned, and the error has the guard.
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let inner =
            any_try_lock(&self.recorded, ObjectKind::Rwlock, Mode::Exclusive, || self.inner.try_write());
        try_guarded(inner, |inner| self.write_guard(inner))
    }

    fn read_guard<'a>(&'a self, inner: sync::RwLockReadGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard { _held: Held { lock: &self.recorded, mode: Mode::Shared }, inner }
    }

    fn write_guard<'a>(&'a self, inner: sync::RwLockWriteGuard<'a, T>) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard { _held: Held { lock: &self.recorded, mode: Mode::Exclusive }, inner }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

has_a_value!(RwLock);
leads_to_the_value!(RwLockReadGuard);
leads_to_the_value!(RwLockWriteGuard);
