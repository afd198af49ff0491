//! The locks behind [`lock_api`]: guards, `Mutex<T>`, `RwLock<T>`, each with the abilities of its algorithm.
//!
//! ```
//! use contend_locks::api::{Mutex, RwLock};
//! use contend_locks::{Mcs, Rw};
//!
//! static SUM: Mutex<u64, Mcs> = Mutex::new(0);
//! static LIST: RwLock<[u8; 4], Rw> = RwLock::new([0; 4]);
//!
//! *SUM.lock() += u64::from(LIST.read()[0]);
//! assert_eq!(SUM.try_lock().map(|sum| *sum), Some(0));
//! ```

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use lock_api::RawMutex;
use machine::{Deadline, Machine, Patient, Timeout};

use crate::deadlock::{self, Side};
use crate::elided::leave_transaction;
use crate::{
    Adaptive, DowngradeLock, Elided, FairLock, Futex, RawLock, RawRwLock, RetryThenSkip, RtMutex, Rw,
    TimedLock, TimedRwLock, TimedUpgradableLock, TryLock, UpgradableLock,
};

/// A value behind a lock: `Mutex<T, Mcs>`. Without a second argument the lock to start with, [`Adaptive`].
pub type Mutex<T, L = Adaptive, M = Patient> = lock_api::Mutex<Api<L, M>, T>;

/// What [`Mutex::lock`](lock_api::Mutex::lock) gives.
pub type MutexGuard<'a, T, L = Adaptive, M = Patient> = lock_api::MutexGuard<'a, Api<L, M>, T>;

/// A value behind a lock whose owner inherits the priority of the threads that wait for it. Its guards stay with their thread.
///
/// ```
/// use contend_locks::api::InheritingMutex;
///
/// static SET_POINT: InheritingMutex<f64> = InheritingMutex::new(20.0);
/// *SET_POINT.lock() += 0.5;
/// assert_eq!(SET_POINT.try_lock().map(|value| *value), Some(20.5));
/// ```
pub type InheritingMutex<T, M = Patient> = lock_api::Mutex<Api<RtMutex<M>, M, Stay>, T>;

/// What [`InheritingMutex::lock`](lock_api::Mutex::lock) gives.
pub type InheritingMutexGuard<'a, T, M = Patient> = lock_api::MutexGuard<'a, Api<RtMutex<M>, M, Stay>, T>;

/// A value behind an elided lock: on a processor with transactions sections that do not meet run side by side. Its guards stay with
/// their thread.
///
/// ```
/// use contend_locks::Ticket;
/// use contend_locks::api::ElidedMutex;
///
/// static SUM: ElidedMutex<u64, Ticket> = ElidedMutex::new(0);
/// *SUM.lock() += 1;
/// assert_eq!(SUM.try_lock().map(|sum| *sum), Some(1));
/// ```
pub type ElidedMutex<T, L = Futex, P = RetryThenSkip, M = Patient> =
    lock_api::Mutex<Api<Elided<L, P>, M, Stay>, T>;

/// The same with readers.
pub type ElidedRwLock<T, L = Rw, P = RetryThenSkip, M = Patient> =
    lock_api::RwLock<Api<Elided<L, P>, M, Stay>, T>;

/// A value behind a reader-writer lock: `RwLock<T, RwQueued>`. Without a second argument the lock to start with, [`Adaptive`].
pub type RwLock<T, L = Adaptive, M = Patient> = lock_api::RwLock<Api<L, M>, T>;

/// What [`RwLock::read`](lock_api::RwLock::read) gives.
pub type RwLockReadGuard<'a, T, L = Adaptive, M = Patient> = lock_api::RwLockReadGuard<'a, Api<L, M>, T>;

/// What [`RwLock::write`](lock_api::RwLock::write) gives.
pub type RwLockWriteGuard<'a, T, L = Adaptive, M = Patient> = lock_api::RwLockWriteGuard<'a, Api<L, M>, T>;

/// What [`RwLock::upgradable_read`](lock_api::RwLock::upgradable_read) gives, with an [`Upgradable`](crate::Upgradable) lock.
pub type RwLockUpgradableReadGuard<'a, T, L = Adaptive, M = Patient> =
    lock_api::RwLockUpgradableReadGuard<'a, Api<L, M>, T>;

/// A guard of a part of the value.
pub type MappedMutexGuard<'a, T, L = Adaptive, M = Patient> = lock_api::MappedMutexGuard<'a, Api<L, M>, T>;

/// A reading guard of a part of the value.
pub type MappedRwLockReadGuard<'a, T, L = Adaptive, M = Patient> =
    lock_api::MappedRwLockReadGuard<'a, Api<L, M>, T>;

/// A writing guard of a part of the value.
pub type MappedRwLockWriteGuard<'a, T, L = Adaptive, M = Patient> =
    lock_api::MappedRwLockWriteGuard<'a, Api<L, M>, T>;

/// What [`Mutex::lock_arc`](lock_api::Mutex::lock_arc) gives: a guard that keeps its mutex alive.
#[cfg(feature = "arc_lock")]
pub type ArcMutexGuard<T, L = Adaptive, M = Patient> = lock_api::ArcMutexGuard<Api<L, M>, T>;

/// What [`RwLock::read_arc`](lock_api::RwLock::read_arc) gives.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockReadGuard<T, L = Adaptive, M = Patient> = lock_api::ArcRwLockReadGuard<Api<L, M>, T>;

/// What [`RwLock::write_arc`](lock_api::RwLock::write_arc) gives.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockWriteGuard<T, L = Adaptive, M = Patient> = lock_api::ArcRwLockWriteGuard<Api<L, M>, T>;

/// Whether guards can be sent to other threads: [`Sent`] or [`Stay`].
pub trait Guards: sealed::Sealed + 'static {
    /// What `lock_api` knows it by.
    type Marker;
    /// They stay with the thread that has acquired.
    const STAY: bool;
}

/// Guards can be sent, as any thread may release most locks. With the feature `deadlock_detection` they stay: the table of holders
/// takes the thread that acquired for the holder until the release.
#[derive(Clone, Copy, Debug)]
pub struct Sent;

/// Guards stay with their thread, which alone may release the lock.
#[derive(Clone, Copy, Debug)]
pub struct Stay;

mod sealed {
    /// Guards that stay with no thread and say that they do would be unsound.
    pub trait Sealed {}
    impl Sealed for super::Sent {}
    impl Sealed for super::Stay {}
}

impl Guards for Sent {
    #[cfg(not(feature = "deadlock_detection"))]
    type Marker = lock_api::GuardSend;
    #[cfg(feature = "deadlock_detection")]
    type Marker = lock_api::GuardNoSend;
    const STAY: bool = false;
}

impl Guards for Stay {
    type Marker = lock_api::GuardNoSend;
    const STAY: bool = true;
}

/// A lock as `lock_api` sees it. Its instants are [`Deadline`]s.
pub struct Api<L, M = Patient, G = Sent>(L, PhantomData<fn() -> (M, G)>);

impl<L: RawLock<M>, M: Machine, G: Guards> Api<L, M, G> {
    /// Fails to compile for a lock that only the thread that has acquired it may release, if guards can be sent; and for one whose sections
    /// may see a value that is changed by half.
    const GUARDS_ARE_SOUND: () = {
        assert!(
            G::STAY || !L::OWNER_RELEASES,
            "a guard of this lock must stay with its thread: take InheritingMutex, ElidedMutex or ElidedRwLock"
        );
        assert!(
            L::OPAQUE,
            "a section of this lock may see what another has done by half: take a policy that subscribes eagerly"
        );
    };

    /// The lock itself.
    #[inline]
    pub const fn inner(&self) -> &L {
        &self.0
    }

    /// What the table of holders knows the lock by.
    #[inline]
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Acquires, or ends the program where the lock is denied. `MutexGuard::unlocked` and a condition wait acquire while their guard
    /// lives: to unwind would leave a guard of a lock that the thread does not hold.
    ///
    /// Within a transaction the caller may have the lock already, elided, which an acquisition would not find: so that one ends. A lock
    /// that can be elided has guards that stay; its tries and its waits with a deadline see to it themselves.
    #[inline]
    fn acquire(&self, side: Side, try_acquire: impl FnOnce() -> bool, acquire: impl FnOnce()) {
        if G::STAY {
            leave_transaction::<M>();
        }
        let ends = EndsUnwinding::<M>(PhantomData);
        deadlock::acquire(self.address(), side, try_acquire, acquire);
        core::mem::forget(ends);
    }
}

/// Ends the program when a panic comes this far.
struct EndsUnwinding<M: Machine>(PhantomData<M>);

impl<M: Machine> Drop for EndsUnwinding<M> {
    fn drop(&mut self) {
        M::end_program("an acquisition was denied, and there may be a guard of it already");
    }
}

impl<L: RawLock<M>, M: Machine, G: Guards> Default for Api<L, M, G> {
    /// The lock, free.
    fn default() -> Self {
        let () = Self::GUARDS_ARE_SOUND;
        Self(L::NEW, PhantomData)
    }
}

impl<L: fmt::Debug, M, G> fmt::Debug for Api<L, M, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Api").field(&self.0).finish()
    }
}

// SAFETY: a `RawLock` excludes.
unsafe impl<L: TryLock<M>, M: Machine, G: Guards> RawMutex for Api<L, M, G> {
    #[allow(clippy::declare_interior_mutable_const)] // what the trait asks for
    const INIT: Self = {
        let () = Self::GUARDS_ARE_SOUND;
        Self(L::NEW, PhantomData)
    };
    type GuardMarker = G::Marker;

    #[inline]
    fn lock(&self) {
        self.acquire(Side::Exclusive, || self.0.try_acquire(), || self.0.acquire());
    }

    #[inline]
    fn try_lock(&self) -> bool {
        deadlock::acquired(self.address(), Side::Exclusive, self.0.try_acquire())
    }

    #[inline]
    unsafe fn unlock(&self) {
        deadlock::release(self.address(), Side::Exclusive);
        // SAFETY: by the caller.
        unsafe { self.0.release() };
    }
}

// SAFETY: the lock is handed over in the order of arrival by every release.
unsafe impl<L: TryLock<M> + FairLock<M>, M: Machine, G: Guards> lock_api::RawMutexFair for Api<L, M, G> {
    #[inline]
    unsafe fn unlock_fair(&self) {
        deadlock::release(self.address(), Side::Exclusive);
        // SAFETY: by the caller.
        unsafe { self.0.release() };
    }
}

// SAFETY: true only when the lock was acquired.
unsafe impl<L: TimedLock<M>, M: Machine, G: Guards> lock_api::RawMutexTimed for Api<L, M, G> {
    type Duration = Duration;
    type Instant = Deadline;

    fn try_lock_for(&self, wait: Duration) -> bool {
        self.try_lock_until(Deadline::after::<M>(wait))
    }

    fn try_lock_until(&self, deadline: Deadline) -> bool {
        deadlock::acquired(self.address(), Side::Exclusive, self.0.acquire_or(Timeout::at(deadline)).is_ok())
    }
}

// SAFETY: a `RawRwLock` lets in one writer or many readers.
unsafe impl<L: RawRwLock<M> + TryLock<M>, M: Machine, G: Guards> lock_api::RawRwLock for Api<L, M, G> {
    #[allow(clippy::declare_interior_mutable_const)] // what the trait asks for
    const INIT: Self = {
        let () = Self::GUARDS_ARE_SOUND;
        Self(L::NEW, PhantomData)
    };
    type GuardMarker = G::Marker;

    #[inline]
    fn lock_shared(&self) {
        let try_acquire = || self.0.try_acquire_shared(false);
        self.acquire(Side::Shared, try_acquire, || self.0.acquire_shared(false));
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        deadlock::acquired(self.address(), Side::Shared, self.0.try_acquire_shared(false))
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        deadlock::release(self.address(), Side::Shared);
        // SAFETY: by the caller.
        unsafe { self.0.release_shared() };
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.acquire(Side::Exclusive, || self.0.try_acquire(), || self.0.acquire());
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        deadlock::acquired(self.address(), Side::Exclusive, self.0.try_acquire())
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        deadlock::release(self.address(), Side::Exclusive);
        // SAFETY: by the caller.
        unsafe { self.0.release() };
    }

    /// A waiting writer does not count, though it keeps readers out.
    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.0.is_exclusive()
    }
}

// SAFETY: a waiting writer does not keep the caller out.
unsafe impl<L: RawRwLock<M> + TryLock<M>, M: Machine, G: Guards> lock_api::RawRwLockRecursive
    for Api<L, M, G>
{
    #[inline]
    fn lock_shared_recursive(&self) {
        let try_acquire = || self.0.try_acquire_shared(true);
        self.acquire(Side::SharedAgain, try_acquire, || self.0.acquire_shared(true));
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        deadlock::acquired(self.address(), Side::Shared, self.0.try_acquire_shared(true))
    }
}

// SAFETY: by the safety of `DowngradeLock`.
unsafe impl<L: DowngradeLock<M> + TryLock<M>, M: Machine, G: Guards> lock_api::RawRwLockDowngrade
    for Api<L, M, G>
{
    #[inline]
    unsafe fn downgrade(&self) {
        // SAFETY: by the caller.
        unsafe { self.0.downgrade() };
        deadlock::changed(self.address(), Side::Exclusive, Side::Shared);
    }
}

// SAFETY: by the safety of `UpgradableLock`.
unsafe impl<L: UpgradableLock<M> + TryLock<M>, M: Machine, G: Guards> lock_api::RawRwLockUpgrade
    for Api<L, M, G>
{
    #[inline]
    fn lock_upgradable(&self) {
        let try_acquire = || self.0.try_acquire_upgradable();
        self.acquire(Side::Upgradable, try_acquire, || self.0.acquire_upgradable());
    }

    #[inline]
    fn try_lock_upgradable(&self) -> bool {
        deadlock::acquired(self.address(), Side::Upgradable, self.0.try_acquire_upgradable())
    }

    #[inline]
    unsafe fn unlock_upgradable(&self) {
        deadlock::release(self.address(), Side::Upgradable);
        // SAFETY: by the caller.
        unsafe { self.0.release_upgradable() };
    }

    #[inline]
    unsafe fn upgrade(&self) {
        deadlock::release(self.address(), Side::Upgradable);
        // SAFETY: by the caller.
        let upgrade = || unsafe { self.0.upgrade() };
        self.acquire(Side::Exclusive, || false, upgrade);
    }

    #[inline]
    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: by the caller.
        let upgraded = unsafe { self.0.try_upgrade() };
        if upgraded {
            deadlock::changed(self.address(), Side::Upgradable, Side::Exclusive);
        }
        upgraded
    }
}

// SAFETY: by the safety of `UpgradableLock`.
unsafe impl<L: UpgradableLock<M> + TryLock<M>, M: Machine, G: Guards> lock_api::RawRwLockUpgradeDowngrade
    for Api<L, M, G>
{
    #[inline]
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: by the caller.
        unsafe { self.0.downgrade_upgradable() };
        deadlock::changed(self.address(), Side::Upgradable, Side::Shared);
    }

    #[inline]
    unsafe fn downgrade_to_upgradable(&self) {
        // SAFETY: by the caller.
        unsafe { self.0.downgrade_to_upgradable() };
        deadlock::changed(self.address(), Side::Exclusive, Side::Upgradable);
    }
}

// SAFETY: true only when the lock was acquired.
unsafe impl<L: TimedRwLock<M>, M: Machine, G: Guards> lock_api::RawRwLockTimed for Api<L, M, G> {
    type Duration = Duration;
    type Instant = Deadline;

    fn try_lock_shared_for(&self, wait: Duration) -> bool {
        lock_api::RawRwLockTimed::try_lock_shared_until(self, Deadline::after::<M>(wait))
    }

    fn try_lock_shared_until(&self, deadline: Deadline) -> bool {
        let acquired = self.0.acquire_shared_or(false, Timeout::at(deadline)).is_ok();
        deadlock::acquired(self.address(), Side::Shared, acquired)
    }

    fn try_lock_exclusive_for(&self, wait: Duration) -> bool {
        lock_api::RawRwLockTimed::try_lock_exclusive_until(self, Deadline::after::<M>(wait))
    }

    fn try_lock_exclusive_until(&self, deadline: Deadline) -> bool {
        deadlock::acquired(self.address(), Side::Exclusive, self.0.acquire_or(Timeout::at(deadline)).is_ok())
    }
}

// SAFETY: by the safety of `TimedUpgradableLock`.
unsafe impl<L: TimedUpgradableLock<M>, M: Machine, G: Guards> lock_api::RawRwLockUpgradeTimed
    for Api<L, M, G>
{
    fn try_lock_upgradable_for(&self, wait: Duration) -> bool {
        self.try_lock_upgradable_until(Deadline::after::<M>(wait))
    }

    fn try_lock_upgradable_until(&self, deadline: Deadline) -> bool {
        let acquired = self.0.acquire_upgradable_or(Timeout::at(deadline)).is_ok();
        deadlock::acquired(self.address(), Side::Upgradable, acquired)
    }

    unsafe fn try_upgrade_for(&self, wait: Duration) -> bool {
        // SAFETY: by the caller.
        unsafe { self.try_upgrade_until(Deadline::after::<M>(wait)) }
    }

    unsafe fn try_upgrade_until(&self, deadline: Deadline) -> bool {
        // SAFETY: by the caller.
        let upgraded = unsafe { self.0.upgrade_or(Timeout::at(deadline)) }.is_ok();
        if upgraded {
            deadlock::changed(self.address(), Side::Upgradable, Side::Exclusive);
        }
        upgraded
    }
}

// SAFETY: as the two above.
unsafe impl<L: TimedRwLock<M>, M: Machine, G: Guards> lock_api::RawRwLockRecursiveTimed for Api<L, M, G> {
    fn try_lock_shared_recursive_for(&self, wait: Duration) -> bool {
        self.try_lock_shared_recursive_until(Deadline::after::<M>(wait))
    }

    fn try_lock_shared_recursive_until(&self, deadline: Deadline) -> bool {
        let acquired = self.0.acquire_shared_or(true, Timeout::at(deadline)).is_ok();
        deadlock::acquired(self.address(), Side::Shared, acquired)
    }
}
