//! Lock elision: sections run as transactions, and the lock is acquired only where that does not work.
//!
//! | the section is            | begins with                                                 | ends with          |
//! |---------------------------|-------------------------------------------------------------|--------------------|
//! | a transaction             | a look at the lock, in the transaction, which finds it free | a commit           |
//! | one that holds the lock   | an acquisition, where the [policy](crate::Policy) says so   | a release          |
//!
//! A thread that acquires the lock writes its word, which every transaction has read: so it aborts them all, and a section that
//! holds the lock never runs beside one that does not. Sections that write nothing that others read or write run side by side,
//! whatever the lock.
//! A policy with a [lazy subscription](crate::Subscription::Lazy) has the look at the lock before the commit instead. What commits is
//! right all the same: the lock is free then and stays so until it has committed, and whatever a holder changed meanwhile of what it had
//! read has aborted it.
//! A transaction within another is a part of that. If the inner lock is not elided there, it is acquired within the transaction,
//! and released in it: no other thread sees either. A thread that elides a lock and acquires it again, as none may, therefore goes on
//! where it would wait for itself; [`ElidedMutex`](crate::api::ElidedMutex), where safe code could have two guards then, is not elided
//! within another transaction.
//!
//! Order: none among transactions; that of the lock among those that acquire it. Who has acquired releases.
//! Source: Rajwar and Goodman 2001; Intel's Restricted Transactional Memory; glibc 2.18 (2013).

use machine::transaction::{LOCK_HELD, NESTED};
use machine::{Abort, GaveUp, Machine, Patient, Timeout};

use crate::elision::{Next, Policy, RetryThenSkip, Subscription};
use crate::{DowngradeLock, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};

/// A lock that can be elided: it can say whether it is free while others use it.
///
/// # Safety
/// While a thread holds the lock, exclusively or shared, [`is_idle`](RawLock::is_idle) gives false to all threads whose reads are
/// up to date; and from when a transaction has found it idle no thread gets in without writing a word that `is_idle` has read.
pub unsafe trait Elidable<M: Machine>: RawLock<M> {
    /// Waits until the lock has been free at some moment.
    fn await_free(&self);
}

/// The lock `L`, elided: on a machine with transactions its sections run as such, elsewhere it is `L`.
///
/// What is done in a section may be done again after an abort. The hardware undoes whatever a section has done; the simulated and the
/// checked machine undo what was done to their own words and cells, and to the thread's stack.
///
/// [`ElidedMutex`](crate::api::ElidedMutex) is one with a value and guards.
pub struct Elided<L, P = RetryThenSkip<Patient>> {
    lock: L,
    policy: P,
}

impl<L, P> Elided<L, P> {
    /// Begins a section: as a transaction, or as `acquire` does.
    #[inline]
    fn enter<M: Machine>(&self, acquire: impl FnOnce())
    where
        L: Elidable<M>,
        P: Policy<M>,
    {
        let next = |aborts, abort| self.policy.next(aborts, abort);
        _ = self.enter_or::<M>(next, || {
            acquire();
            Ok(())
        });
    }

    /// As [`enter`](Self::enter) for a thread that does not wait for ever: it begins one transaction, since the policy may wait for the
    /// lock or for another thread before a second one. Within a transaction it does as [`try_enter`](Self::try_enter) does.
    #[inline]
    fn enter_in_time<M: Machine>(&self, acquire: impl FnOnce() -> Result<(), GaveUp>) -> Result<(), GaveUp>
    where
        L: Elidable<M>,
        P: Policy<M>,
    {
        leave_transaction::<M>();
        self.enter_or::<M>(|_, _| Next::Acquire, acquire)
    }

    #[inline]
    fn enter_or<M: Machine>(
        &self,
        next: impl Fn(u32, Abort) -> Next,
        acquire: impl FnOnce() -> Result<(), GaveUp>,
    ) -> Result<(), GaveUp>
    where
        L: Elidable<M>,
        P: Policy<M>,
    {
        if !M::has_transactions() || !self.policy.tries() {
            return acquire();
        }
        if self.try_transactions(next) {
            return Ok(());
        }
        let acquired = acquire();
        self.policy.ended(false);
        acquired
    }

    /// One transaction, and if that aborts, or there are none, what `acquire` tries.
    ///
    /// Within a transaction this cannot tell the caller's own section from none, for which the lock is free, too: so that one aborts.
    /// glibc does the same.
    #[inline]
    fn try_enter<M: Machine>(&self, acquire: impl FnOnce() -> bool) -> bool
    where
        L: Elidable<M>,
        P: Policy<M>,
    {
        leave_transaction::<M>();
        M::has_transactions() && self.try_transactions(|_, _| Next::Acquire) || acquire()
    }

    /// Begins transactions as long as they abort and `next` says so. True in one, which has found the lock free if it subscribes eagerly.
    fn try_transactions<M: Machine>(&self, next: impl Fn(u32, Abort) -> Next) -> bool
    where
        L: Elidable<M>,
        P: Policy<M>,
    {
        let mut aborts = 0;
        loop {
            // SAFETY: a section changes what its transaction undoes, as this type demands of it.
            match unsafe { M::begin_transaction() } {
                Ok(()) if Self::is_lazy::<M>() || self.lock.is_idle() => return true,
                Ok(()) => M::abort_transaction::<LOCK_HELD>(),
                Err(abort) => {
                    aborts += 1;
                    match next(aborts, abort) {
                        Next::TryAgain => {}
                        Next::TryWhenFree => self.lock.await_free(),
                        Next::Acquire => return false,
                    }
                }
            }
        }
    }

    const fn is_lazy<M: Machine>() -> bool
    where
        P: Policy<M>,
    {
        matches!(P::SUBSCRIPTION, Subscription::Lazy)
    }

    /// Whether the caller's section is a transaction that may commit. One that has subscribed, and finds the lock held, has acquired it
    /// itself; one that subscribes only now aborts then.
    #[inline]
    fn is_elided<M: Machine>(&self) -> bool
    where
        L: Elidable<M>,
        P: Policy<M>,
    {
        if !M::in_transaction() {
            return false;
        }
        let is_free = self.lock.is_idle();
        if !is_free && Self::is_lazy::<M>() {
            M::abort_transaction::<LOCK_HELD>();
        }
        is_free
    }

    /// Ends the section if it is a transaction.
    #[inline]
    fn commit<M: Machine>(&self) -> bool
    where
        L: Elidable<M>,
        P: Policy<M>,
    {
        let is_elided = self.is_elided();
        if is_elided {
            // SAFETY: in one.
            unsafe { M::commit_transaction() };
            self.policy.ended(true); // within an outer transaction, with which all of it takes effect
        }
        is_elided
    }
}

// SAFETY: a section holds the lock, or is a transaction that has found it free; no thread acquires it before the transaction is
// over, or the transaction aborts. Transactions come one after the other wherever they could tell. Where a transaction finds it
// free only at its end, the lock is not opaque.
unsafe impl<L: Elidable<M>, P: Policy<M>, M: Machine> RawLock<M> for Elided<L, P> {
    const NEW: Self = Self { lock: L::NEW, policy: P::NEW };

    #[inline]
    fn acquire(&self) {
        self.enter::<M>(|| self.lock.acquire());
    }

    #[inline]
    unsafe fn release(&self) {
        if !self.commit::<M>() {
            // SAFETY: the caller's.
            unsafe { self.lock.release() };
        }
    }

    fn is_idle(&self) -> bool {
        self.lock.is_idle() && self.policy.is_idle()
    }

    const OWNER_RELEASES: bool = true; // no other thread is in the transaction

    const OPAQUE: bool = L::OPAQUE && !Self::is_lazy::<M>();

    const WRAPS: bool = L::WRAPS;

    unsafe fn near_wrap(&self) {
        // SAFETY: the caller's.
        unsafe { self.lock.near_wrap() };
    }
}

// SAFETY: true only in a transaction that has found the lock free and watches it, or when the lock's own try has acquired it.
unsafe impl<L: Elidable<M> + TryLock<M>, P: Policy<M>, M: Machine> TryLock<M> for Elided<L, P> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.try_enter::<M>(|| self.lock.try_acquire())
    }
}

// SAFETY: `Ok` only in a transaction that has found the lock free and watches it, or when the lock's own wait has acquired it.
unsafe impl<L: Elidable<M> + TimedLock<M>, P: Policy<M>, M: Machine> TimedLock<M> for Elided<L, P> {
    /// Tries a transaction first, however long the timeout is.
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.enter_in_time::<M>(|| self.lock.acquire_or(timeout))
    }
}

// SAFETY: a reader that elides finds no writer, and a writer that comes aborts it; the others hold the lock itself.
unsafe impl<L: Elidable<M> + RawRwLock<M>, P: Policy<M>, M: Machine> RawRwLock<M> for Elided<L, P> {
    #[inline]
    fn acquire_shared(&self, reads_already: bool) {
        let next = |aborts, abort| if P::WAITS { Next::Acquire } else { self.policy.next(aborts, abort) };
        _ = self.enter_or::<M>(next, || {
            self.lock.acquire_shared(reads_already);
            Ok(())
        });
    }

    #[inline]
    fn try_acquire_shared(&self, reads_already: bool) -> bool {
        self.try_enter::<M>(|| self.lock.try_acquire_shared(reads_already))
    }

    #[inline]
    unsafe fn release_shared(&self) {
        if !self.commit::<M>() {
            // SAFETY: the caller's.
            unsafe { self.lock.release_shared() };
        }
    }

    /// Of the lock itself, which no thread holds whose section is a transaction.
    #[inline]
    fn is_exclusive(&self) -> bool {
        self.lock.is_exclusive()
    }

    const BOUNDS_READERS: bool = L::BOUNDS_READERS;

    unsafe fn near_full(&self) {
        // SAFETY: the caller's.
        unsafe { self.lock.near_full() };
    }
}

// SAFETY: `Ok` only in a transaction, which a writer that comes aborts, or when the lock's own wait has acquired a share.
unsafe impl<L: Elidable<M> + TimedRwLock<M>, P: Policy<M>, M: Machine> TimedRwLock<M> for Elided<L, P> {
    #[inline]
    fn acquire_shared_or(&self, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.enter_in_time::<M>(|| self.lock.acquire_shared_or(reads_already, timeout))
    }
}

// SAFETY: a transaction goes on as it is; who holds the lock exclusively turns that into a shared hold.
unsafe impl<L: Elidable<M> + DowngradeLock<M>, P: Policy<M>, M: Machine> DowngradeLock<M> for Elided<L, P> {
    #[inline]
    unsafe fn downgrade(&self) {
        if !self.is_elided() {
            // SAFETY: the caller's.
            unsafe { self.lock.downgrade() };
        }
    }
}

/// Ends the transaction that the caller is in, if it is in one: the section begins again and acquires its lock.
#[inline]
pub(crate) fn leave_transaction<M: Machine>() {
    if M::in_transaction() {
        M::abort_transaction::<NESTED>();
    }
}

impl<L, P> core::fmt::Debug for Elided<L, P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Elided").finish_non_exhaustive()
    }
}
