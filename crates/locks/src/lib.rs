//! Locks, each in one file, generic over the machine that they run on.
//!
//! The interface of a lock says what its algorithm can do and nothing else: every lock is a [`RawLock`]; one that
//! can refuse is a [`TryLock`]; one whose waiters can give up without harm is a [`TimedLock`]; one that lets readers
//! share is a [`RawRwLock`]. The [`catalogue`] names them all.
//!
//! Any thread may release a lock: what its release needs lies in the lock or in memory that outlives threads.
//! No function here is `#[track_caller]`: the machine sees each access at its own line of the lock, so that every
//! ordering has a site.
//! A lock in its initial state is all zero bits, so that zero-filled memory and `NEW` mean the same.

#![no_std]

mod anderson;
pub mod api;
mod backoff;
mod blocking;
pub mod catalogue;
mod clh;
mod clh_timed;
mod futex;
mod hclh;
mod k42;
mod lockref;
mod mcs;
mod osq;
mod qspin;
#[cfg(doctest)]
mod refused;
mod rw;
mod rw_naive;
mod rw_queued;
pub mod serves;
mod tas;
mod tas_backoff;
mod ticket;
mod ticket4;
mod ticket_proportional;
mod ticket_selftuning;
mod ttas;
mod ttas_backoff;

pub use anderson::Anderson;
pub use clh::Clh;
pub use clh_timed::ClhTimed;
pub use futex::Futex;
pub use hclh::Hclh;
pub use k42::K42;
pub use lockref::LockRef;
pub use mcs::{Mcs, McsNode, McsQueue};
pub use osq::Osq;
pub use qspin::Qspin;
pub use rw::Rw;
pub use rw_naive::RwNaive;
pub use rw_queued::RwQueued;
pub use tas::Tas;
pub use tas_backoff::TasBackoff;
pub use ticket::Ticket;
pub use ticket_proportional::{CYCLES_PER_WAITER, TicketProportional};
pub use ticket_selftuning::TicketSelfTuning;
pub use ticket4::Ticket4;
pub use ttas::Ttas;
pub use ttas_backoff::TtasBackoff;

pub use machine::{Clock, Deadline, GaveUp, Limit, Machine, Native, Patient};

/// A lock that one thread at a time holds.
///
/// # Safety
/// [`Mutex`](api::Mutex) hands out `&mut` by it. From one `NEW` on, between a return from `acquire`, or from another way in
/// that says that it succeeded, and the next call of `release` no other thread gets in, and what happened before a release
/// happens before what follows the next way in. That holds for a lock that was moved while it was held, as one whose guard
/// was forgotten may be; nobody waits at it then.
pub unsafe trait RawLock<M: Machine>: Send + Sync + Sized + 'static {
    /// The lock, free. All its bits are zero.
    const NEW: Self;

    /// Waits until the caller holds the lock.
    fn acquire(&self);

    /// Lets the next one in. After the write that does so the lock is not touched any more: its memory may be gone.
    ///
    /// # Safety
    /// The lock is held exclusively, and whoever acquired it takes this for its release.
    unsafe fn release(&self);

    /// Runs `body` while holding the lock. A lock that elides or combines may run it more than once, so it must not
    /// have effects outside the machine. A `body` that panics leaves the lock held.
    #[inline]
    fn critical<R>(&self, mut body: impl FnMut() -> R) -> R {
        self.acquire();
        let result = body();
        // SAFETY: acquired above.
        unsafe { self.release() };
        result
    }
}

/// A lock that can be asked for without waiting.
///
/// # Safety
/// As [`RawLock`]: `true` is a way in.
pub unsafe trait TryLock<M: Machine>: RawLock<M> {
    /// Takes the lock if that needs no waiting.
    fn try_acquire(&self) -> bool;
}

/// A lock that is handed over in the order of arrival.
pub trait FairLock<M: Machine>: RawLock<M> {}

/// A lock whose waiters can give up.
///
/// # Safety
/// As [`RawLock`]: `Ok` is a way in.
pub unsafe trait TimedLock<M: Machine>: TryLock<M> {
    /// Waits until the caller holds the lock or the limit is reached.
    ///
    /// # Errors
    /// [`GaveUp`] at the limit; the lock is as if the caller had never come.
    fn acquire_or(&self, limit: Limit<'_, M>) -> Result<(), GaveUp>;
}

/// A lock that readers share; its exclusive side is that of [`RawLock`].
///
/// # Safety
/// [`RwLock`](api::RwLock) hands out references by it. As [`RawLock`]; a shared way in leaves others that share in, and keeps
/// the exclusive side out until each has been released.
pub unsafe trait RawRwLock<M: Machine>: RawLock<M> {
    /// Waits until the caller holds the lock together with other readers. A thread that reads already may say so,
    /// and is then let in even while a writer waits: it would wait for itself otherwise. Said wrongly, it costs the
    /// writer its turn and nothing else.
    fn acquire_shared(&self, reads_already: bool);

    /// Takes the lock shared if that needs no waiting.
    fn try_acquire_shared(&self, reads_already: bool) -> bool;

    /// Gives up a shared hold.
    ///
    /// # Safety
    /// The lock is held shared, and whoever acquired it so takes this for the release.
    unsafe fn release_shared(&self);
}

/// A reader-writer lock whose waiters can give up; its exclusive side is that of [`TimedLock`].
///
/// # Safety
/// As [`RawRwLock`]: `Ok` is a way in.
pub unsafe trait TimedRwLock<M: Machine>: RawRwLock<M> + TimedLock<M> {
    /// Waits until the caller shares the lock or the limit is reached.
    ///
    /// # Errors
    /// [`GaveUp`] at the limit; the lock is as if the caller had never come.
    fn acquire_shared_or(&self, reads_already: bool, limit: Limit<'_, M>) -> Result<(), GaveUp>;
}
