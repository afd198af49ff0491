//! The standard library's locks.

use std::sync::PoisonError;

use workloads::exclusion::Exclusion;

/// `std::sync::Mutex`.
pub(crate) struct Mutex(std::sync::Mutex<()>);

impl Exclusion for Mutex {
    fn new() -> Self {
        Self(std::sync::Mutex::new(()))
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        section()
    }
}

/// `std::sync::RwLock`.
pub(crate) struct RwLock(std::sync::RwLock<()>);

impl Exclusion for RwLock {
    const SHARES: bool = true;

    fn new() -> Self {
        Self(std::sync::RwLock::new(()))
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.write().unwrap_or_else(PoisonError::into_inner);
        section()
    }

    #[inline]
    fn shared<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.read().unwrap_or_else(PoisonError::into_inner);
        section()
    }
}
