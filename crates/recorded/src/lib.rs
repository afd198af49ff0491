//! The locks of a Rust program in the profiles of contend: those of `std`, and those of [`lock_api`], whichever crate made them.
//!
//! `contend profile` sees pthread locks. A Rust program has others. In the place of `std::sync` there is [`sync`], which has the same
//! names. Of those of `parking_lot`, of `spin`, of `contend-locks`, or its own, [`Recorded`] around the raw lock tells the recorder what happens to it:
//!
//! ```
//! use contend_recorded::Recorded;
//!
//! static JOBS: lock_api::Mutex<Recorded<parking_lot::RawMutex>, Vec<u32>> = lock_api::Mutex::new(Vec::new());
//!
//! JOBS.lock().push(1);
//! ```
//!
//! Under `contend profile` the lock has a row as a pthread lock has, in `contend report`, `top`, `diff` and `predict`: it is named by
//! its variable, or by one of the functions with which threads took it first. Otherwise an acquisition costs a load and a branch
//! more, and a release, too.
//!
//! The recorder is the one in the preload library, which comes into the program with `contend profile`. So a program that is linked
//! statically has no rows.

pub mod sync;
mod upgradable;

use core::mem::transmute;
use core::ptr::{self, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use lock_api::{
    RawMutex, RawMutexFair, RawMutexTimed, RawRwLock, RawRwLockDowngrade, RawRwLockFair, RawRwLockTimed,
};
use profile::hooks::{ENTRY, Entry, Hooks, Use, VERSION};
use profile::record::{Mode, Trace};
use pthread::object::ObjectKind;

/// A raw lock that is recorded.
///
/// While it records, an acquisition tries the lock first, to see whether it has to wait: of a lock that serves in the order of
/// arrival, one that comes just when it is free goes first.
#[derive(Debug, Default)]
pub struct Recorded<R> {
    trace: Trace,
    raw: R,
}

impl<R> Recorded<R> {
    /// A lock that no thread holds.
    pub const fn new(raw: R) -> Self {
        Self { trace: Trace::new(), raw }
    }

    /// The lock itself. What is done to it directly is not recorded.
    pub const fn inner(&self) -> &R {
        &self.raw
    }

    fn used(&self, kind: ObjectKind, mode: Mode) -> Use {
        Use { address: ptr::from_ref(self).addr(), kind, mode }
    }

    // The names of what is on the stack at an acquisition end as those of lock functions do: such functions are no callers that a
    // lock would be named by.

    /// Acquires the lock.
    #[inline]
    fn any_lock(&self, kind: ObjectKind, mode: Mode, try_lock: impl FnOnce() -> bool, lock: impl FnOnce()) {
        match recorder() {
            None => lock(),
            Some(hooks) => {
                let wait = || {
                    lock();
                    true
                };
                self.recorded_lock(hooks, &self.used(kind, mode), try_lock, wait);
            }
        }
    }

    /// Acquires the lock if it is free.
    #[inline]
    fn any_try_lock(&self, kind: ObjectKind, mode: Mode, try_lock: impl FnOnce() -> bool) -> bool {
        let acquired = try_lock();
        if let Some(hooks) = recorder() {
            let of = self.used(kind, mode);
            if acquired {
                (hooks.acquired)(&self.trace, &of, 0);
            } else {
                (hooks.try_failed)(&self.trace, &of);
            }
        }
        acquired
    }

    /// Acquires the lock unless `timed_lock` gives up.
    #[inline]
    fn any_timed_lock(
        &self,
        kind: ObjectKind,
        mode: Mode,
        try_lock: impl FnOnce() -> bool,
        timed_lock: impl FnOnce() -> bool,
    ) -> bool {
        match recorder() {
            None => timed_lock(),
            Some(hooks) => self.recorded_lock(hooks, &self.used(kind, mode), try_lock, timed_lock),
        }
    }

    #[inline(never)]
    fn recorded_lock(
        &self,
        hooks: &Hooks,
        of: &Use,
        try_lock: impl FnOnce() -> bool,
        wait: impl FnOnce() -> bool,
    ) -> bool {
        if try_lock() {
            (hooks.acquired)(&self.trace, of, 0);
            return true;
        }
        let started = (hooks.waits)(&self.trace, of);
        let acquired = wait();
        (hooks.waits_no_more)();
        if acquired {
            (hooks.acquired)(&self.trace, of, started);
        } else {
            (hooks.timed_out)(&self.trace, of);
        }
        acquired
    }

    /// The caller's hold has become one of this mode.
    #[inline]
    fn becomes(&self, mode: Mode) {
        if let Some(hooks) = recorder() {
            (hooks.acquired)(&self.trace, &self.used(ObjectKind::Rwlock, mode), 0);
        }
    }

    /// The caller is about to release what it holds.
    #[inline]
    fn releases(&self, mode: Mode) {
        if let Some(hooks) = recorder() {
            (hooks.releasing)(&self.trace, mode);
        }
    }
}

impl<R> Drop for Recorded<R> {
    fn drop(&mut self) {
        if self.trace.lock() != 0
            && let Some(hooks) = recorder()
        {
            (hooks.destroyed)(&self.trace);
        }
    }
}

/// The recorder's functions: null until they were looked for, [`NOBODY`] if there is no recorder of this version.
static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(null_mut());

const NOBODY: *mut Hooks = ptr::dangling_mut();

#[inline]
fn recorder() -> Option<&'static Hooks> {
    let hooks = HOOKS.load(Ordering::Relaxed); // what it leads to was there before the program began
    if hooks == NOBODY { None } else { found(hooks) }
}

#[cold]
fn found(hooks: *mut Hooks) -> Option<&'static Hooks> {
    if !hooks.is_null() {
        // SAFETY: `look` got it from the recorder, whose table stays.
        return unsafe { hooks.as_ref() };
    }
    let found = look();
    HOOKS.store(found.map_or(NOBODY, |hooks| ptr::from_ref(hooks).cast_mut()), Ordering::Relaxed);
    found
}

fn look() -> Option<&'static Hooks> {
    // SAFETY: the name ends with a zero; who defines it defines an `Entry`, whose table of this version is one of `Hooks`, and stays.
    unsafe {
        let entry = libc::dlsym(libc::RTLD_DEFAULT, ENTRY.as_ptr());
        if entry.is_null() {
            return None;
        }
        transmute::<*mut libc::c_void, Entry>(entry)(VERSION).as_ref()
    }
}

// SAFETY: every acquisition and release is one of the raw lock.
unsafe impl<R: RawMutex> RawMutex for Recorded<R> {
    #[allow(clippy::declare_interior_mutable_const)] // what the trait asks for
    const INIT: Self = Self::new(R::INIT);
    type GuardMarker = R::GuardMarker;

    #[inline]
    fn lock(&self) {
        self.any_lock(ObjectKind::Mutex, Mode::Exclusive, || self.raw.try_lock(), || self.raw.lock());
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.any_try_lock(ObjectKind::Mutex, Mode::Exclusive, || self.raw.try_lock())
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.releases(Mode::Exclusive);
        // SAFETY: by the caller.
        unsafe { self.raw.unlock() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }
}

// SAFETY: every acquisition and release is one of the raw lock.
unsafe impl<R: RawMutexFair> RawMutexFair for Recorded<R> {
    #[inline]
    unsafe fn unlock_fair(&self) {
        self.releases(Mode::Exclusive);
        // SAFETY: by the caller.
        unsafe { self.raw.unlock_fair() };
    }
}

// SAFETY: every acquisition and release is one of the raw lock.
unsafe impl<R: RawMutexTimed> RawMutexTimed for Recorded<R> {
    type Duration = R::Duration;
    type Instant = R::Instant;

    fn try_lock_for(&self, timeout: R::Duration) -> bool {
        let timed_lock = || self.raw.try_lock_for(timeout);
        self.any_timed_lock(ObjectKind::Mutex, Mode::Exclusive, || self.raw.try_lock(), timed_lock)
    }

    fn try_lock_until(&self, timeout: R::Instant) -> bool {
        let timed_lock = || self.raw.try_lock_until(timeout);
        self.any_timed_lock(ObjectKind::Mutex, Mode::Exclusive, || self.raw.try_lock(), timed_lock)
    }
}

// SAFETY: every acquisition and release is one of the raw lock, in the same mode.
unsafe impl<R: RawRwLock> RawRwLock for Recorded<R> {
    #[allow(clippy::declare_interior_mutable_const)] // what the trait asks for
    const INIT: Self = Self::new(R::INIT);
    type GuardMarker = R::GuardMarker;

    #[inline]
    fn lock_shared(&self) {
        let lock = || self.raw.lock_shared();
        self.any_lock(ObjectKind::Rwlock, Mode::Shared, || self.raw.try_lock_shared(), lock);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.any_try_lock(ObjectKind::Rwlock, Mode::Shared, || self.raw.try_lock_shared())
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.releases(Mode::Shared);
        // SAFETY: by the caller.
        unsafe { self.raw.unlock_shared() };
    }

    #[inline]
    fn lock_exclusive(&self) {
        let lock = || self.raw.lock_exclusive();
        self.any_lock(ObjectKind::Rwlock, Mode::Exclusive, || self.raw.try_lock_exclusive(), lock);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.any_try_lock(ObjectKind::Rwlock, Mode::Exclusive, || self.raw.try_lock_exclusive())
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.releases(Mode::Exclusive);
        // SAFETY: by the caller.
        unsafe { self.raw.unlock_exclusive() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.raw.is_locked_exclusive()
    }
}

// SAFETY: every acquisition and release is one of the raw lock, in the same mode.
unsafe impl<R: RawRwLockFair> RawRwLockFair for Recorded<R> {
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        self.releases(Mode::Shared);
        // SAFETY: by the caller.
        unsafe { self.raw.unlock_shared_fair() };
    }

    #[inline]
    unsafe fn unlock_exclusive_fair(&self) {
        self.releases(Mode::Exclusive);
        // SAFETY: by the caller.
        unsafe { self.raw.unlock_exclusive_fair() };
    }
}

// SAFETY: every acquisition and release is one of the raw lock, in the same mode.
unsafe impl<R: RawRwLockTimed> RawRwLockTimed for Recorded<R> {
    type Duration = R::Duration;
    type Instant = R::Instant;

    fn try_lock_shared_for(&self, timeout: R::Duration) -> bool {
        let timed_lock = || self.raw.try_lock_shared_for(timeout);
        self.any_timed_lock(ObjectKind::Rwlock, Mode::Shared, || self.raw.try_lock_shared(), timed_lock)
    }

    fn try_lock_shared_until(&self, timeout: R::Instant) -> bool {
        let timed_lock = || self.raw.try_lock_shared_until(timeout);
        self.any_timed_lock(ObjectKind::Rwlock, Mode::Shared, || self.raw.try_lock_shared(), timed_lock)
    }

    fn try_lock_exclusive_for(&self, timeout: R::Duration) -> bool {
        let timed_lock = || self.raw.try_lock_exclusive_for(timeout);
        self.any_timed_lock(ObjectKind::Rwlock, Mode::Exclusive, || self.raw.try_lock_exclusive(), timed_lock)
    }

    fn try_lock_exclusive_until(&self, timeout: R::Instant) -> bool {
        let timed_lock = || self.raw.try_lock_exclusive_until(timeout);
        self.any_timed_lock(ObjectKind::Rwlock, Mode::Exclusive, || self.raw.try_lock_exclusive(), timed_lock)
    }
}

// SAFETY: every acquisition and release is one of the raw lock, in the same mode.
unsafe impl<R: RawRwLockDowngrade> RawRwLockDowngrade for Recorded<R> {
    unsafe fn downgrade(&self) {
        self.releases(Mode::Exclusive);
        // SAFETY: by the caller.
        unsafe { self.raw.downgrade() };
        self.becomes(Mode::Shared);
    }
}
