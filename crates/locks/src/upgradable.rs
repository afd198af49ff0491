//! A reader-writer lock with a third way in: a reader that may become the writer.
//!
//! A gate in front of the writers' side of any reader-writer lock:
//!
//! | hold       | gate                    | lock        |
//! |------------|-------------------------|-------------|
//! | shared     | -                       | shared      |
//! | upgradable | held                    | shared      |
//! | exclusive  | held                    | exclusively |
//!
//! A thread that wants the lock exclusively waits at the gate first, so that behind the holder of the gate no thread has
//! the lock exclusively or waits for that. So an upgradable reader may let go of the lock and take it exclusively without
//! another thread writing in between, and may take it shared again without waiting.
//! A hold that ends opens the gate first: the release of the lock is the last access, after which its memory may be gone.
//!
//! Order: that of the gate among writers and upgradable readers, that of the lock between the one of them that has come
//! through and readers. Any thread may release.

use machine::{GaveUp, Machine, Timeout};

use crate::{
    DowngradeLock, Futex, RawLock, RawRwLock, Rw, TimedLock, TimedRwLock, TimedUpgradableLock, TryLock,
    UpgradableLock,
};

/// The reader-writer lock `L` with upgradable readers, as large as both together. Readers pay nothing for it; writers take
/// two locks.
///
/// ```
/// use contend_locks::Upgradable;
/// use contend_locks::api::{RwLock, RwLockUpgradableReadGuard};
///
/// static CACHE: RwLock<Option<u32>, Upgradable> = RwLock::new(None);
///
/// fn cached() -> u32 {
///     let looks = CACHE.upgradable_read();
///     if let Some(known) = *looks {
///         return known;
///     }
///     let mut writes = RwLockUpgradableReadGuard::upgrade(looks);
///     *writes.insert(6 * 7)
/// }
/// assert_eq!((cached(), cached()), (42, 42));
/// ```
pub struct Upgradable<L = Rw, G = Futex> {
    gate: G,
    lock: L,
}

// SAFETY: the lock excludes; the gate only keeps some longer away.
unsafe impl<L: RawRwLock<M>, G: RawLock<M>, M: Machine> RawLock<M> for Upgradable<L, G> {
    const NEW: Self = Self { gate: G::NEW, lock: L::NEW };

    #[inline]
    fn acquire(&self) {
        self.gate.acquire();
        self.lock.acquire();
    }

    #[inline]
    unsafe fn release(&self) {
        // SAFETY: an exclusive holder has both.
        unsafe {
            self.gate.release();
            self.lock.release();
        }
    }

    fn is_idle(&self) -> bool {
        self.gate.is_idle() && self.lock.is_idle()
    }

    const OWNER_RELEASES: bool = G::OWNER_RELEASES || L::OWNER_RELEASES;

    const OPAQUE: bool = G::OPAQUE && L::OPAQUE;
}

impl<L, G> Upgradable<L, G> {
    /// Gives the gate back if `entered` says that the lock was not to be had.
    #[inline]
    fn enter<M: Machine>(&self, entered: bool) -> bool
    where
        G: RawLock<M>,
    {
        if !entered {
            // SAFETY: the callers have just acquired it.
            unsafe { self.gate.release() };
        }
        entered
    }
}

// SAFETY: true only if the lock said so.
unsafe impl<L: RawRwLock<M> + TryLock<M>, G: TryLock<M>, M: Machine> TryLock<M> for Upgradable<L, G> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.gate.try_acquire() && self.enter::<M>(self.lock.try_acquire())
    }
}

// SAFETY: `Ok` only if the lock said so.
unsafe impl<L: RawRwLock<M> + TimedLock<M>, G: TimedLock<M>, M: Machine> TimedLock<M> for Upgradable<L, G> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.gate.acquire_or(timeout)?;
        if self.enter::<M>(self.lock.acquire_or(timeout).is_ok()) { Ok(()) } else { Err(GaveUp) }
    }
}

// SAFETY: the lock's.
unsafe impl<L: RawRwLock<M>, G: RawLock<M>, M: Machine> RawRwLock<M> for Upgradable<L, G> {
    #[inline]
    fn acquire_shared(&self, reads_already: bool) {
        self.lock.acquire_shared(reads_already);
    }

    #[inline]
    fn try_acquire_shared(&self, reads_already: bool) -> bool {
        self.lock.try_acquire_shared(reads_already)
    }

    #[inline]
    unsafe fn release_shared(&self) {
        // SAFETY: by the caller.
        unsafe { self.lock.release_shared() };
    }

    #[inline]
    fn is_exclusive(&self) -> bool {
        self.lock.is_exclusive()
    }
}

// SAFETY: `Ok` only if the lock said so.
unsafe impl<L: TimedRwLock<M>, G: TimedLock<M>, M: Machine> TimedRwLock<M> for Upgradable<L, G> {
    #[inline]
    fn acquire_shared_or(&self, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.lock.acquire_shared_or(reads_already, timeout)
    }
}

// SAFETY: the lock's; the gate is opened while the caller shares the lock.
unsafe impl<L: DowngradeLock<M>, G: RawLock<M>, M: Machine> DowngradeLock<M> for Upgradable<L, G> {
    #[inline]
    unsafe fn downgrade(&self) {
        // SAFETY: an exclusive holder has both.
        unsafe {
            self.lock.downgrade();
            self.gate.release();
        }
    }
}

// SAFETY: an upgradable reader has the gate, without which no thread acquires the lock exclusively; one that has it so has opened
// the gate only to release the lock.
unsafe impl<L: DowngradeLock<M> + TryLock<M>, G: TryLock<M>, M: Machine> UpgradableLock<M>
    for Upgradable<L, G>
{
    #[inline]
    fn acquire_upgradable(&self) {
        self.gate.acquire();
        self.lock.acquire_shared(false);
    }

    #[inline]
    fn try_acquire_upgradable(&self) -> bool {
        self.gate.try_acquire() && self.enter::<M>(self.lock.try_acquire_shared(false))
    }

    #[inline]
    unsafe fn release_upgradable(&self) {
        // SAFETY: an upgradable reader has both.
        unsafe {
            self.gate.release();
            self.lock.release_shared();
        }
    }

    #[inline]
    unsafe fn upgrade(&self) {
        // SAFETY: an upgradable reader shares the lock.
        unsafe { self.lock.release_shared() };
        self.lock.acquire();
    }

    #[inline]
    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: an upgradable reader shares the lock.
        unsafe { self.lock.release_shared() };
        let upgraded = self.lock.try_acquire();
        if !upgraded {
            self.lock.acquire_shared(true); // no thread writes or waits to, and the caller has just read
        }
        upgraded
    }

    #[inline]
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: an upgradable reader has the gate.
        unsafe { self.gate.release() };
    }

    #[inline]
    unsafe fn downgrade_to_upgradable(&self) {
        // SAFETY: an exclusive holder has the lock.
        unsafe { self.lock.downgrade() };
    }
}

// SAFETY: `Ok` only if the lock said so.
unsafe impl<L, G, M> TimedUpgradableLock<M> for Upgradable<L, G>
where
    L: DowngradeLock<M> + TimedRwLock<M>,
    G: TimedLock<M>,
    M: Machine,
{
    fn acquire_upgradable_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.gate.acquire_or(timeout)?;
        if self.enter::<M>(self.lock.acquire_shared_or(false, timeout).is_ok()) {
            Ok(())
        } else {
            Err(GaveUp)
        }
    }

    unsafe fn upgrade_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        // SAFETY: an upgradable reader shares the lock.
        unsafe { self.lock.release_shared() };
        let upgraded = self.lock.acquire_or(timeout);
        if upgraded.is_err() {
            self.lock.acquire_shared(true); // no thread writes or waits to, and the caller has just read
        }
        upgraded
    }
}
