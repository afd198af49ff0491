//! Linux's rt_mutex: the owner runs with the highest priority of those that wait.
//!
//! | bits of `word` | name         | set by                                     | cleared by                    |
//! |----------------|--------------|--------------------------------------------|-------------------------------|
//! | 0 to 29        | owner        | an acquirer; the kernel, for a waiter      | the release; 0: free          |
//! | 30             | `OWNER_DIED` | the kernel, when an owner has ended        | never; all other bits are set, too, once a waiter knows |
//! | 31             | `WAITERS`    | the kernel, for a thread that waits        | the kernel, in a release that finds no waiter |
//!
//! 1. Uncontended, acquisition and release are one exchange each: 0 -> owner, owner -> 0.
//! 2. With `WAITERS` set that release fails, and both go through the kernel: a thread that waits lends the owner its
//!    priority, the owner of what that one waits for in turn, and so on along the chain.
//! 3. A release takes back what the caller has inherited, then wakes the waiter of the highest priority. Until that one runs a
//!    thread of a strictly higher priority may take the lock before it; of those that wait the first alone spins, and only while
//!    the owner runs.
//!
//! So a thread of high priority waits for critical sections and no longer: not for threads of middling priority that keep the
//! owner from running (priority inversion). To wait for oneself by way of other threads is a deadlock, which is found.
//! Order: the highest priority first, first in, first out among equals. Only the thread that has acquired it may release it.
//! Source: Sha, Rajkumar and Lehoczky 1990; Linux `Documentation/locking/rt-mutex-design.rst` and futexes of `FUTEX_LOCK_PI`.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::inheriting::{OWNER_DIED, WAITERS};
use machine::{Denied, GaveUp, Machine, Patient, Timeout, Word};

use crate::{RawLock, TimedLock, TryLock};

/// The priority-inheriting mutex, 4 bytes. [`InheritingMutex`](crate::api::InheritingMutex) is the one with a value.
///
/// A thread that ends has not released its locks: no thread acquires them from then on, unless the kernel gives the identifier
/// of the ended thread to a new thread before any thread has asked for the lock; the new thread then counts as the owner. Of the
/// threads that wait when the owner ends one learns of it at once, and the next one when that thread has ended, which keeps their
/// priorities until then; all who come later learn of it at once. In a child of a fork the thread that holds a lock may release
/// it as long as no other thread of the child has begun to wait for it.
pub struct RtMutex<M: Machine = Patient> {
    word: M::U32,
}

const _: () = assert!(size_of::<RtMutex>() == 4);

impl<M: Machine> RtMutex<M> {
    /// Takes a free lock; gives the word if it is not.
    #[inline]
    fn take(&self) -> Result<(), u32> {
        // [1] from the release
        self.word.compare_exchange(0, M::owner(), Acquire, Relaxed).map(|_| ())
    }

    /// [`RawLock::acquire`] with a timeout, for a caller that can go on without the lock.
    ///
    /// # Errors
    /// [`Denied::GaveUp`] at the timeout; [`Denied::Deadlock`] where the caller would wait for itself, by way of timed waits of other
    /// threads, too; [`Denied::OwnerDied`] when the owner has ended without a release.
    #[inline]
    pub fn acquire_unless_denied(&self, timeout: Timeout<'_, M>) -> Result<(), Denied> {
        match self.take() {
            Ok(()) => Ok(()),
            Err(_) => self.wait(timeout),
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, timeout: Timeout<'_, M>) -> Result<(), Denied> {
        M::acquire_inheriting(&self.word, timeout) // [1] from the release
    }
}

/// # Panics
/// When acquiring: where the caller would wait for itself, or the owner has ended without a release. Before that nothing is lost:
/// the lock stays with its owner. The wait of another thread counts even if it would end at a deadline. A try does not panic; it is
/// false. When releasing: in a thread that does not hold the lock, except in a child of a fork.
// SAFETY: the word has one owner at a time, by an exchange of zero or by the kernel, and the next release is the owner's.
unsafe impl<M: Machine> RawLock<M> for RtMutex<M> {
    const NEW: Self = Self { word: M::U32::ZERO };
    const OWNER_RELEASES: bool = true;

    #[inline]
    fn acquire(&self) {
        if let Err(why) = self.acquire_unless_denied(Timeout::NONE) {
            refuse(why);
        }
    }

    #[inline]
    unsafe fn release(&self) {
        // [1] to the next owner. It fails where a thread waits.
        if self.word.compare_exchange(M::owner(), 0, Release, Relaxed).is_err() {
            M::release_inheriting(&self.word); // [1] to the next owner
        }
    }

    fn is_idle(&self) -> bool {
        self.word.load(Relaxed) == 0
    }
}

// SAFETY: true only where the caller has become the owner.
unsafe impl<M: Machine> TryLock<M> for RtMutex<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        match self.take() {
            Ok(()) => true,
            // It may be between two owners, the next of which the caller outranks: the kernel knows.
            Err(state) => {
                state & (WAITERS | OWNER_DIED) != 0 && M::try_acquire_inheriting(&self.word).is_ok()
            }
        }
    }
}

// SAFETY: `Ok` only where the caller has become the owner.
unsafe impl<M: Machine> TimedLock<M> for RtMutex<M> {
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        match self.acquire_unless_denied(timeout) {
            Ok(()) => Ok(()),
            Err(Denied::GaveUp) => Err(GaveUp),
            Err(why) => refuse(why),
        }
    }
}

#[cold]
fn refuse(why: Denied) -> ! {
    match why {
        Denied::Deadlock => panic!("deadlock: the thread would wait for a lock that waits for itself"),
        Denied::OwnerDied => panic!("the thread that held the lock has ended without releasing it"),
        Denied::GaveUp => unreachable!("a wait without a timeout gave up"),
    }
}
