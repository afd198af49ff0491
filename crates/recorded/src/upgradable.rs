//! Reads of a thread that reads already, and reads that may become a write.

use lock_api::{
    RawRwLockRecursive, RawRwLockRecursiveTimed, RawRwLockUpgrade, RawRwLockUpgradeDowngrade,
    RawRwLockUpgradeFair, RawRwLockUpgradeTimed,
};
use profile::record::Mode;
use pthread::object::ObjectKind;

use crate::{Recorded, recorder};

impl<R> Recorded<R> {
    /// The caller, which reads, tries to become the writer, and reads on where it cannot.
    #[inline]
    fn any_try_upgrade(&self, try_upgrade: impl FnOnce() -> bool) -> bool {
        let is_writer = try_upgrade();
        if let Some(hooks) = recorder() {
            if is_writer {
                (hooks.releasing)(&self.trace, Mode::Shared);
                self.becomes(Mode::Exclusive);
            } else {
                (hooks.try_failed)(&self.trace, &self.used(ObjectKind::Rwlock, Mode::Exclusive));
            }
        }
        is_writer
    }

    /// The same, but the caller waits for the other readers until `timed_upgrade` gives up.
    #[inline]
    fn any_timed_upgrade(
        &self,
        try_upgrade: impl FnOnce() -> bool,
        timed_upgrade: impl FnOnce() -> bool,
    ) -> bool {
        self.releases(Mode::Shared);
        let is_writer = self.any_timed_lock(ObjectKind::Rwlock, Mode::Exclusive, try_upgrade, timed_upgrade);
        if !is_writer {
            self.becomes(Mode::Shared);
        }
        is_writer
    }
}

// SAFETY: every acquisition is one of the raw lock, in the same mode.
unsafe impl<R: RawRwLockRecursive> RawRwLockRecursive for Recorded<R> {
    #[inline]
    fn lock_shared_recursive(&self) {
        let lock = || self.raw.lock_shared_recursive();
        self.any_lock(ObjectKind::Rwlock, Mode::Shared, || self.raw.try_lock_shared_recursive(), lock);
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        self.any_try_lock(ObjectKind::Rwlock, Mode::Shared, || self.raw.try_lock_shared_recursive())
    }
}

// SAFETY: every acquisition is one of the raw lock, in the same mode.
unsafe impl<R: RawRwLockRecursiveTimed> RawRwLockRecursiveTimed for Recorded<R> {
    fn try_lock_shared_recursive_for(&self, timeout: R::Duration) -> bool {
        let timed_lock = || self.raw.try_lock_shared_recursive_for(timeout);
        let try_lock = || self.raw.try_lock_shared_recursive();
        self.any_timed_lock(ObjectKind::Rwlock, Mode::Shared, try_lock, timed_lock)
    }

    fn try_lock_shared_recursive_until(&self, timeout: R::Instant) -> bool {
        let timed_lock = || self.raw.try_lock_shared_recursive_until(timeout);
        let try_lock = || self.raw.try_lock_shared_recursive();
        self.any_timed_lock(ObjectKind::Rwlock, Mode::Shared, try_lock, timed_lock)
    }
}

// SAFETY: every acquisition and release is one of the raw lock. An upgradable read is recorded as a read.
unsafe impl<R: RawRwLockUpgrade> RawRwLockUpgrade for Recorded<R> {
    #[inline]
    fn lock_upgradable(&self) {
        let lock = || self.raw.lock_upgradable();
        self.any_lock(ObjectKind::Rwlock, Mode::Shared, || self.raw.try_lock_upgradable(), lock);
    }

    #[inline]
    fn try_lock_upgradable(&self) -> bool {
        self.any_try_lock(ObjectKind::Rwlock, Mode::Shared, || self.raw.try_lock_upgradable())
    }

    #[inline]
    unsafe fn unlock_upgradable(&self) {
        self.releases(Mode::Shared);
        // SAFETY: by the caller.
        unsafe { self.raw.unlock_upgradable() };
    }

    #[inline]
    unsafe fn upgrade(&self) {
        let upgrade = || {
            // SAFETY: by the caller.
            unsafe { self.raw.upgrade() };
            true
        };
        // SAFETY: by the caller.
        self.any_timed_upgrade(|| unsafe { self.raw.try_upgrade() }, upgrade);
    }

    #[inline]
    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: by the caller.
        self.any_try_upgrade(|| unsafe { self.raw.try_upgrade() })
    }
}

// SAFETY: every release is one of the raw lock.
unsafe impl<R: RawRwLockUpgradeFair> RawRwLockUpgradeFair for Recorded<R> {
    #[inline]
    unsafe fn unlock_upgradable_fair(&self) {
        self.releases(Mode::Shared);
        // SAFETY: by the caller.
        unsafe { self.raw.unlock_upgradable_fair() };
    }
}

// SAFETY: every change of the hold is one of the raw lock.
unsafe impl<R: RawRwLockUpgradeDowngrade> RawRwLockUpgradeDowngrade for Recorded<R> {
    #[inline]
    unsafe fn downgrade_upgradable(&self) {
        // The hold is recorded as a read before and after.
        // SAFETY: by the caller.
        unsafe { self.raw.downgrade_upgradable() };
    }

    #[inline]
    unsafe fn downgrade_to_upgradable(&self) {
        self.releases(Mode::Exclusive);
        // SAFETY: by the caller.
        unsafe { self.raw.downgrade_to_upgradable() };
        self.becomes(Mode::Shared);
    }
}

// SAFETY: every acquisition and upgrade is one of the raw lock.
unsafe impl<R: RawRwLockUpgradeTimed> RawRwLockUpgradeTimed for Recorded<R> {
    fn try_lock_upgradable_for(&self, timeout: R::Duration) -> bool {
        let timed_lock = || self.raw.try_lock_upgradable_for(timeout);
        self.any_timed_lock(ObjectKind::Rwlock, Mode::Shared, || self.raw.try_lock_upgradable(), timed_lock)
    }

    fn try_lock_upgradable_until(&self, timeout: R::Instant) -> bool {
        let timed_lock = || self.raw.try_lock_upgradable_until(timeout);
        self.any_timed_lock(ObjectKind::Rwlock, Mode::Shared, || self.raw.try_lock_upgradable(), timed_lock)
    }

    unsafe fn try_upgrade_for(&self, timeout: R::Duration) -> bool {
        // SAFETY: by the caller.
        let timed_upgrade = || unsafe { self.raw.try_upgrade_for(timeout) };
        // SAFETY: by the caller.
        self.any_timed_upgrade(|| unsafe { self.raw.try_upgrade() }, timed_upgrade)
    }

    unsafe fn try_upgrade_until(&self, timeout: R::Instant) -> bool {
        // SAFETY: by the caller.
        let timed_upgrade = || unsafe { self.raw.try_upgrade_until(timeout) };
        // SAFETY: by the caller.
        self.any_timed_upgrade(|| unsafe { self.raw.try_upgrade() }, timed_upgrade)
    }
}
