//! Locks for programs with many cores: spin, queue, blocking and reader-writer locks, behind guards.
//!
//! ```
//! use contend_locks::prelude::*;
//!
//! static SUM: Mutex<u64> = Mutex::new(0); // sleeps while it waits: the one to begin with
//! static JOBS: Mutex<[u8; 4], Mcs> = Mutex::new([0; 4]); // another lock is the second argument
//! static TABLE: RwLock<[u32; 4]> = RwLock::new([1, 2, 3, 4]); // readers share it
//!
//! std::thread::scope(|scope| {
//!     for worker in 0..4 {
//!         scope.spawn(move || {
//!             JOBS.lock()[worker] += 1;
//!             *SUM.lock() += u64::from(TABLE.read()[worker]);
//!         });
//!     }
//! });
//! assert_eq!((*SUM.lock(), *JOBS.lock()), (10, [1; 4]));
//! ```
//!
//! # Which lock to take
//!
//! | when                                                        | take |
//! |-------------------------------------------------------------|------|
//! | nothing is known                                             | `Mutex<T>` and `RwLock<T>`, which are [`Adaptive`], in 16 bytes: waiters back off, then spin in a queue, then sleep |
//! | nothing is known, and there are many locks                   | `Mutex<T, Futex>` and `RwLock<T, Rw>`, in 4 bytes: waiters back off, then sleep |
//! | many look, and some change                                   | `RwLock<T>`; measure: a reader writes the lock's word, too, so that short reads gain nothing |
//! | one that looks may have to change                            | `RwLock<T, Upgradable>` |
//! | many threads, no more than cores, wait for short sections    | `Mutex<T, Mcs>`; [`K42`] for threads that hold several at once; [`Qspin`] in 4 bytes |
//! | the same, in the order of arrival, and waiters that give up  | `Mutex<T, ClhTimed>` or [`Osq`] |
//! | waiting is rare, and the lock has to be small                | `Mutex<T, Ticket4>` or [`Ttas`] |
//! | threads of real-time priorities share a lock                 | [`InheritingMutex<T>`](api::InheritingMutex), which is [`RtMutex`] |
//! | threads take several locks, in no order of their own         | [`WwMutex<T>`](WwMutex), in a [transaction](WwClass::transaction) |
//! | threads wait for something else than a lock                  | a [`WaitTable`]: the thread that changes it wakes them |
//! | most look, few change, and the value is a few words           | a [`SeqLock`]: readers write nothing |
//! | most look, few change, and the value is large                 | a [`ReadMostly`]: readers share no line, and writers pay for it |
//! | all count, and few ask for the count                          | a [`Counter`] |
//!
//! [`GlibcMutex`] and the other locks of glibc are what programs have without contend, for simulation and comparison.
//! [`Tas`], [`Ticket`] and the rest are what the literature compares with: baselines that collapse, and the steps between
//! them and the queues. `contend predict` and `contend bench` show which one a program needs; the [`catalogue`] names all.
//!
//! Every lock stops spinning after a bound, yields, then sleeps, so that programs with more threads than cores finish. The
//! ones in [`spinning`] never stop.
//!
//! # Coming from `parking_lot` or `std`
//!
//! A variable's type names the lock, since `Mutex::new` alone leaves it open: `let lock: Mutex<_> = Mutex::new(0)` takes the default.
//! [`api`] has the guards and types under the names of [`lock_api`], which is re-exported, and its features `arc_lock`,
//! `serde` and `owning_ref` are features here. Deadlines are [`Deadline`]s, which with the feature `std` an
//! `Instant` turns into: `lock.try_lock_until(instant.into())`. There is no poisoning: a panic releases the lock. A
//! [`Condvar`] works with every mutex here, and [`Once`], [`Barrier`] and [`Semaphore`] sleep as it does. With the feature `deadlock_detection` threads that wait for each other are found by
//! `deadlock::check`; guards then stay with their thread, as they do in `parking_lot` without a feature.
//!
//! # The algorithms
//!
//! Each lock is one file, generic over the [`Machine`] that it runs on: [`Patient`] is the hardware with waits that end in
//! sleep, [`Native`] the hardware with waits that spin; a simulator and a checker of weak memory live in crates of their own.
//!
//! The interface of a lock says what its algorithm can do and nothing else: every lock is a [`RawLock`]; one that
//! can refuse is a [`TryLock`]; one whose waiters can give up without harm is a [`TimedLock`]; one that lets readers
//! share is a [`RawRwLock`]. The [`catalogue`] names them all.
//!
//! Any thread may release a lock, but for [`RtMutex`], and [`Ww`] when it is acquired in a context: what its release needs lies in the lock or in memory that outlives threads.
//! No function here is `#[track_caller]`: the machine sees each access at its own line of the lock, so that every
//! ordering has a site.
//! A lock in its initial state is all zero bits, so that zero-filled memory and `NEW` mean the same.

#![no_std]

#[cfg(feature = "deadlock_detection")]
extern crate std;

pub use lock_api;

mod adaptive;
mod anderson;
pub mod api;
mod backoff;
mod barrier;
mod blocking;
pub mod catalogue;
mod clh;
mod clh_timed;
mod condvar;
mod counter;
#[cfg(feature = "deadlock_detection")]
pub mod deadlock;
#[cfg(not(feature = "deadlock_detection"))]
#[path = "deadlock_off.rs"]
mod deadlock;
mod elided;
mod elision;
mod futex;
mod glibc_adaptive;
mod glibc_mutex;
mod glibc_rwlock;
mod glibc_spin;
mod hclh;
mod hmcs;
mod k42;
mod kernel_mutex;
mod lockref;
mod mcs;
mod mcs_queue;
mod mcs_tp;
mod once;
mod osq;
mod own_line;
pub mod prelude;
mod qspin;
mod read_mostly;
#[cfg(doctest)]
#[doc = include_str!("refused.md")]
mod refused {}
mod ring;
mod rt;
mod rw;
mod rw_naive;
mod rw_queued;
mod rwsem;
mod semaphore;
mod seq_lock;
pub mod source;
mod spinners;
pub mod spinning;
mod tas;
mod tas_backoff;
mod ticket;
mod ticket4;
mod ticket_proportional;
mod ticket_selftuning;
mod tp_futex;
mod ttas;
mod ttas_backoff;
mod twa;
mod upgradable;
mod wait_table;
mod ww;
mod ww_mutex;

pub use adaptive::Adaptive;
pub use anderson::Anderson;
pub use barrier::Barrier;
pub use clh::Clh;
pub use clh_timed::ClhTimed;
pub use condvar::{Condvar, WaitTimeoutResult};
pub use counter::Counter;
pub use elided::{Elidable, Elided};
pub use elision::{
    LazySubscription, Next, Policy, RetryLessOften, RetryOneByOne, RetryThenSkip, RetryWhenFree, Subscription,
};
pub use futex::Futex;
pub use glibc_adaptive::GlibcAdaptive;
pub use glibc_mutex::GlibcMutex;
pub use glibc_rwlock::{
    GlibcRwlock, GlibcRwlockNonrecursive, GlibcRwlockWriter, READERS_FIRST, WRITERS_FIRST,
    WRITERS_FIRST_NONRECURSIVE,
};
pub use glibc_spin::GlibcSpin;
pub use k42::K42;
pub use kernel_mutex::KernelMutex;
pub use lockref::LockRef;
pub use mcs::Mcs;
pub use mcs_queue::{McsNode, McsQueue};
pub use mcs_tp::McsTp;
pub use once::Once;
pub use osq::Osq;
pub use qspin::Qspin;
pub use read_mostly::ReadMostly;
pub use rt::RtMutex;
pub use rw::Rw;
pub use rw_naive::RwNaive;
pub use rw_queued::RwQueued;
pub use rwsem::{FIFO, Rwsem, RwsemFifo, RwsemNoSpin, SPINNING, STEALING};
pub use semaphore::{Permit, Semaphore};
pub use seq_lock::SeqLock;
pub use tas::Tas;
pub use tas_backoff::TasBackoff;
pub use ticket::Ticket;
pub use ticket_proportional::{CYCLES_PER_WAITER, TicketProportional};
pub use ticket_selftuning::TicketSelfTuning;
pub use ticket4::Ticket4;
pub use tp_futex::TpFutex;
pub use ttas::Ttas;
pub use ttas_backoff::TtasBackoff;
pub use upgradable::Upgradable;
pub use wait_table::{BUCKETS_FOR_EACH_CORE, Spacing, WaitKey, WaitTable};
pub use ww::{Ww, WwClass, WwContext, WwError};
pub use ww_mutex::{WwDeadlock, WwMutex, WwMutexGuard, WwTransaction};

/// The name that [`Adaptive`] had before.
#[deprecated(note = "it is `Adaptive` now")]
pub type Best<M = Patient> = Adaptive<M>;

/// The name that [`KernelMutex`] had before.
#[deprecated(note = "it is `KernelMutex` now")]
pub type LinuxMutex<M = Patient> = KernelMutex<M>;

pub use machine::{Clock, Deadline, Denied, GaveUp, Machine, Native, Patient, Timeout};

/// A lock that one thread at a time holds.
///
/// # Safety
/// [`Mutex`](api::Mutex) hands out `&mut` by it. From one `NEW` on, between a return from `acquire`, or from another way in
/// that says that it succeeded, and the next call of `release` no other thread gets in, and what happened before a release
/// happens before what follows the next way in. That holds for a lock that was moved while it was held, as one whose guard
/// was forgotten may be; no thread waits at it then. A lock that is not [`OPAQUE`](RawLock::OPAQUE) owes this to what lasts
/// of a section alone.
pub unsafe trait RawLock<M: Machine>: Send + Sync + Sized + 'static {
    /// The lock, free. All its bits are zero.
    const NEW: Self;

    /// Waits until the caller holds the lock.
    fn acquire(&self);

    /// Lets the next owner in. After the write that does so the lock is not touched any more: its memory may be gone.
    ///
    /// # Safety
    /// The lock is held exclusively, and the thread that acquired it takes this for its release.
    unsafe fn release(&self);

    /// Whether nothing is left in the lock's words of those who have used it. For checks, while no thread uses the lock.
    fn is_idle(&self) -> bool {
        true
    }

    /// Whether there is a state of the lock in which it goes to a waiter and to no thread that comes later.
    const PROMISES: bool = false;

    /// Whether it is in that state. For checks, by the holder.
    fn is_promised(&self) -> bool {
        false
    }

    /// Of a lock that promises, or that may be free while threads queue for it: whether no thread holds it, promised or not. In the child of
    /// a fork none of its waiters is left, and such a lock is to be made anew. Others that are free have no waiters.
    fn is_unheld(&self) -> bool {
        false
    }

    /// Whether only the thread that has acquired the lock may release it.
    const OWNER_RELEASES: bool = false;

    /// Whether a section sees only what whole sections have left, even one that is undone later: opacity (Guerraoui and Kapalka 2008).
    /// By a lock that is not opaque nothing hands out references, since what they refer to may be changed by halves.
    const OPAQUE: bool = true;

    /// Whether the lock counts acquisitions in words that wrap around.
    const WRAPS: bool = false;

    /// Brings the lock to just before its counters wrap around. For checks.
    ///
    /// # Safety
    /// No thread has used the lock.
    unsafe fn near_wrap(&self) {}

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
    /// Takes the lock if that needs no waiting. In [`ClhTimed`], where a try is in the queue for a moment, one that
    /// meets another may fail although no thread holds the lock.
    fn try_acquire(&self) -> bool;
}

/// A lock that is handed over in the order of arrival.
pub trait FairLock<M: Machine>: RawLock<M> {}

/// A lock whose waiters can give up.
///
/// # Safety
/// As [`RawLock`]: `Ok` is a way in.
pub unsafe trait TimedLock<M: Machine>: TryLock<M> {
    /// Waits until the caller holds the lock or the timeout is reached.
    ///
    /// # Errors
    /// [`GaveUp`] at the timeout; the lock is as if the caller had never come.
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp>;
}

/// A lock that readers share; its exclusive side is that of [`RawLock`].
///
/// # Safety
/// [`RwLock`](api::RwLock) hands out references by it. As [`RawLock`]; a shared way in leaves others that share in, and keeps
/// the exclusive side out until each has been released.
pub unsafe trait RawRwLock<M: Machine>: RawLock<M> {
    /// Waits until the caller holds the lock together with other readers. A thread that reads already may say so,
    /// and then waits for none but a writer that is in: behind one that waits for the caller's own hold it would wait for
    /// itself. Said of all readers, it makes the lock one that prefers readers: writers may then wait for ever.
    fn acquire_shared(&self, reads_already: bool);

    /// Takes the lock shared if that needs no waiting.
    fn try_acquire_shared(&self, reads_already: bool) -> bool;

    /// Gives up a shared hold.
    ///
    /// # Safety
    /// The lock is held shared, and the thread that acquired it so takes this for the release.
    unsafe fn release_shared(&self);

    /// Whether the lock is held exclusively. Certain for a thread that holds it, one way or the other; for others as of
    /// some moment ago.
    fn is_exclusive(&self) -> bool;

    /// Whether there is a number of readers past which no other is let in.
    const BOUNDS_READERS: bool = false;

    /// Counts so many readers in the lock that one more is the last. For checks.
    ///
    /// # Safety
    /// No thread has used the lock.
    unsafe fn near_full(&self) {}
}

/// A reader-writer lock whose waiters can give up; its exclusive side is that of [`TimedLock`].
///
/// # Safety
/// As [`RawRwLock`]: `Ok` is a way in.
pub unsafe trait TimedRwLock<M: Machine>: RawRwLock<M> + TimedLock<M> {
    /// Waits until the caller shares the lock or the timeout is reached.
    ///
    /// # Errors
    /// [`GaveUp`] at the timeout; the lock is as if the caller had never come.
    fn acquire_shared_or(&self, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp>;
}

/// A reader-writer lock whose writer can become a reader.
///
/// # Safety
/// As [`RawRwLock`]: between the exclusive hold and the shared one no other thread has it exclusively.
pub unsafe trait DowngradeLock<M: Machine>: RawRwLock<M> {
    /// Turns the exclusive hold into a shared one, which is released by [`release_shared`](RawRwLock::release_shared).
    /// Lets other readers in.
    ///
    /// # Safety
    /// The lock is held exclusively, and the thread that acquired it takes this for its release.
    unsafe fn downgrade(&self);
}

/// A reader-writer lock one of whose readers may become the writer. Such an *upgradable* reader shares the lock with other
/// readers, but not with another upgradable one. [`Upgradable`] makes one of any that can downgrade.
///
/// # Safety
/// As [`DowngradeLock`], and no thread has the lock exclusively between an upgradable hold and what it is turned into.
pub unsafe trait UpgradableLock<M: Machine>: DowngradeLock<M> {
    /// Waits until the caller shares the lock and is its only upgradable reader.
    fn acquire_upgradable(&self);

    /// Becomes the upgradable reader if that needs no waiting.
    fn try_acquire_upgradable(&self) -> bool;

    /// Gives up the upgradable hold.
    ///
    /// # Safety
    /// The lock is held so, and the thread that acquired it so takes this for its release. The same holds for what follows.
    unsafe fn release_upgradable(&self);

    /// Turns the upgradable hold into the exclusive one; waits for the readers to leave.
    ///
    /// # Safety
    /// As [`release_upgradable`](UpgradableLock::release_upgradable).
    unsafe fn upgrade(&self);

    /// Turns the upgradable hold into the exclusive one if there is no other reader; else it stays as it is.
    ///
    /// # Safety
    /// As [`release_upgradable`](UpgradableLock::release_upgradable), if it says true.
    unsafe fn try_upgrade(&self) -> bool;

    /// Turns the upgradable hold into a shared one.
    ///
    /// # Safety
    /// As [`release_upgradable`](UpgradableLock::release_upgradable).
    unsafe fn downgrade_upgradable(&self);

    /// Turns the exclusive hold into the upgradable one.
    ///
    /// # Safety
    /// As [`downgrade`](DowngradeLock::downgrade).
    unsafe fn downgrade_to_upgradable(&self);
}

/// A lock with an upgradable reader whose waiters can give up.
///
/// # Safety
/// As [`UpgradableLock`]: `Ok` is a way in.
pub unsafe trait TimedUpgradableLock<M: Machine>: UpgradableLock<M> + TimedRwLock<M> {
    /// Waits until the caller is the upgradable reader or the timeout is reached.
    ///
    /// # Errors
    /// [`GaveUp`] at the timeout; the lock is as if the caller had never come.
    fn acquire_upgradable_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp>;

    /// Turns the upgradable hold into the exclusive one when the readers have left.
    ///
    /// # Errors
    /// [`GaveUp`] at the timeout; the hold is upgradable as before.
    ///
    /// # Safety
    /// As [`upgrade`](UpgradableLock::upgrade), if it says `Ok`.
    unsafe fn upgrade_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp>;
}

/// `Default` and `Debug` of the locks: free, and a name without a state, which would be one of the past.
macro_rules! common {
    ($($lock:ident $(<$of:ident: $kind:ty>)?),* $(,)?) => {$(
        impl<M: Machine $(, const $of: $kind)?> Default for $lock<M $(, $of)?> {
            /// The lock, free.
            fn default() -> Self {
                Self::NEW
            }
        }

        impl<M: Machine $(, const $of: $kind)?> core::fmt::Debug for $lock<M $(, $of)?> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($lock)).finish_non_exhaustive()
            }
        }
    )*};
}

/// Calls a macro with the name of every type of lock and of its nodes.
macro_rules! of_each_lock {
    ($macro:ident) => {
        $macro!(
            Anderson<SLOTS: usize>,
            Clh,
            ClhTimed,
            Futex,
            GlibcAdaptive,
            GlibcMutex,
            GlibcRwlock<PREFERENCE: u8>,
            GlibcSpin,
            K42,
            KernelMutex,
            LockRef,
            Mcs,
            McsNode,
            McsQueue,
            McsTp,
            Osq,
            Qspin,
            RtMutex,
            Rw,
            RwNaive,
            RwQueued,
            Rwsem<FORM: u8>,
            Tas,
            TasBackoff,
            Ticket,
            Ticket4,
            TicketProportional<UNIT_CYCLES: u64>,
            TicketSelfTuning,
            TpFutex,
            Ttas,
            TtasBackoff,
            Ww,
        );
    };
}

pub(crate) use of_each_lock;

of_each_lock!(common);
