//! When a lock is elided, and what follows an abort.
//!
//! | policy               | tries | after an abort                                                        | then                          |
//! |----------------------|-------|-----------------------------------------------------------------------|-------------------------------|
//! | [`RetryThenSkip`]    | 3     | again, if the processor advises it                                    | the next 3 acquisitions do not try |
//! | [`RetryWhenFree`]    | 5     | again when the lock is free, but not after a lack of capacity         | the next one tries            |
//! | [`RetryOneByOne`]    | 11    | again when the lock is free, one thread at a time                     | the next one tries            |
//! | [`RetryLessOften`]   | 3     | again when the lock is free, but not after a lack of capacity         | twice as many do not try as the last time, 256 at most |
//! | [`LazySubscription`] | 5     | again, when the lock is free if it was held; but not after a lack of capacity | the next one tries    |
//!
//! One thread that takes the lock aborts all who elide it. If those take the lock then, too, they abort each other for as long as
//! threads come, and no thread elides any more: the lemming effect (Dice, Lev, Moir, Nussbaum 2009). Against it a policy waits
//! until the lock is free before it tries again, or lets those who have aborted try one by one, so that they cannot abort each
//! other. Or the transaction subscribes to the lock as late as it can, so that a thread that acquires the lock aborts no section
//! that outlasts the hold.

use machine::Ordering::Relaxed;
use machine::transaction::{Cause, LOCK_HELD, NESTED};
use machine::{Abort, Machine, Patient, Word};

use crate::{RawLock, Ticket};

/// What a thread does whose transaction has aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It begins another one.
    TryAgain,
    /// It does so once the lock is free.
    TryWhenFree,
    /// It acquires the lock.
    Acquire,
}

/// When a transaction subscribes to the lock that it elides: looks whether the lock is free, and has its words among those that
/// it has read, so that from then on a thread that acquires the lock aborts the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// As it begins. No section runs beside one that holds the lock.
    Eager,
    /// Before it commits. A section runs beside one that holds the lock, and commits if that is over by then. So it may see what a
    /// holder has done by half, before it aborts: [`OPAQUE`](RawLock::OPAQUE) has what follows.
    Lazy,
}

/// When a lock is elided. What it has to remember lies in words of its own, beside the lock's.
pub trait Policy<M: Machine>: Send + Sync + Sized + 'static {
    /// Nothing has happened yet. All its bits are zero.
    const NEW: Self;

    /// When its transactions look at the lock.
    const SUBSCRIPTION: Subscription = Subscription::Eager;

    /// Whether [`next`](Self::next) waits, or asks for a wait. Then a reader takes the lock after one abort: it may wait for its own
    /// hold, or for that of a reader which waits for it.
    const WAITS: bool = true;

    /// Whether an acquisition begins a transaction at all. Asked outside of it. With a lazy subscription it does within another
    /// transaction: a section that ends in one and finds the lock held takes that for another thread's hold.
    fn tries(&self) -> bool {
        true
    }

    /// What follows the abort number `aborts` of an acquisition, counted from 1.
    fn next(&self, aborts: u32, abort: Abort) -> Next;

    /// An acquisition is over that tried: its section was committed, or the lock is acquired. It may be
    /// called within the transaction of another lock, and takes effect with that.
    fn ended(&self, committed: bool) {
        let _ = committed;
    }

    /// Whether nothing is left of those who have tried. For checks.
    fn is_idle(&self) -> bool {
        true
    }
}

/// Whether another try is of no use: the section is too large, or does what a transaction cannot do.
const fn is_hopeless(abort: Abort) -> bool {
    matches!(abort.cause(), Cause::Capacity | Cause::Refused | Cause::Unavailable)
        || matches!(abort.code(), Some(NESTED))
}

/// glibc's policy: three tries as long as the processor says that one may succeed; otherwise, and after them, the next three
/// acquisitions take the lock. Its tunables have the same numbers.
/// Source: glibc 2.18 to 2.36, "Elision Tunables" in its manual; Kleen 2013.
pub struct RetryThenSkip<M: Machine = Patient> {
    /// Acquisitions that do not try. Threads write it without regard to each other: it is a hint.
    skips: M::U32,
}

impl<M: Machine> RetryThenSkip<M> {
    const TRIES: u32 = 3;
    const SKIPS: u32 = 3;
}

impl<M: Machine> Policy<M> for RetryThenSkip<M> {
    const NEW: Self = Self { skips: M::U32::ZERO };

    const WAITS: bool = false;

    #[inline]
    fn tries(&self) -> bool {
        let skips = self.skips.load(Relaxed);
        if skips != 0 {
            self.skips.store(skips - 1, Relaxed);
        }
        skips == 0
    }

    fn next(&self, aborts: u32, abort: Abort) -> Next {
        if abort.may_succeed() && aborts < Self::TRIES {
            return Next::TryAgain;
        }
        if self.skips.load(Relaxed) != Self::SKIPS {
            self.skips.store(Self::SKIPS, Relaxed); // only if it has to: the line is shared
        }
        Next::Acquire
    }
}

/// Waits until the lock is free before it tries again, and gives up at once where trying is of no use.
/// Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Intel TSX Recommendations".
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryWhenFree;

impl RetryWhenFree {
    const TRIES: u32 = 5;
}

impl<M: Machine> Policy<M> for RetryWhenFree {
    const NEW: Self = Self;

    fn next(&self, aborts: u32, abort: Abort) -> Next {
        if is_hopeless(abort) || aborts >= Self::TRIES { Next::Acquire } else { Next::TryWhenFree }
    }
}

/// Those who have aborted try again one by one, in the order in which they aborted: they hold a second lock while they do. So they
/// cannot abort each other, and the lock itself is acquired only by one that aborts for other reasons.
///
/// It lies on a line of its own: on the lock's, which every transaction has read, the second lock would abort all of them at each
/// acquisition, and those who have aborted would come for it in turn.
/// Source: Afek, Levy and Morrison 2014 (software-assisted conflict management).
#[repr(align(64))]
pub struct RetryOneByOne<M: Machine = Patient> {
    one_by_one: Ticket<M>,
    /// The thread that holds `one_by_one`, plus one. Others may see an old one, but never themselves.
    holder: M::U32,
}

impl<M: Machine> RetryOneByOne<M> {
    /// The first one, and ten that hold the second lock.
    const TRIES: u32 = 11;

    fn is_held_by_caller(&self) -> bool {
        self.holder.load(Relaxed) == M::thread().wrapping_add(1)
    }
}

impl<M: Machine> Policy<M> for RetryOneByOne<M> {
    const NEW: Self = Self { one_by_one: Ticket::NEW, holder: M::U32::ZERO };

    fn next(&self, aborts: u32, abort: Abort) -> Next {
        if is_hopeless(abort) || aborts >= Self::TRIES {
            return Next::Acquire;
        }
        if aborts == 1 {
            self.one_by_one.acquire();
            self.holder.store(M::thread().wrapping_add(1), Relaxed);
        }
        Next::TryWhenFree
    }

    fn ended(&self, _committed: bool) {
        if self.is_held_by_caller() {
            self.holder.store(0, Relaxed);
            // SAFETY: acquired by the caller in `next`.
            unsafe { self.one_by_one.release() };
        }
    }

    fn is_idle(&self) -> bool {
        self.one_by_one.is_idle()
    }
}

/// A lock that mostly aborts stops trying for a while: for 2 acquisitions after the first one that came to nothing, for twice as many
/// after each further one, up to 256, and for half as many after each that committed.
pub struct RetryLessOften<M: Machine = Patient> {
    /// Acquisitions that do not try: bits 8 and up how many are left, bits 0 to 7 the logarithm of how many there are next time. A hint,
    /// as in [`RetryThenSkip`].
    skips: M::U32,
}

impl<M: Machine> RetryLessOften<M> {
    const TRIES: u32 = 3;
    const MOST_DOUBLINGS: u32 = 8;
    const LEFT_SHIFT: u32 = 8;
    const LEFT_ONE: u32 = 1 << Self::LEFT_SHIFT;
    const DOUBLINGS: u32 = Self::LEFT_ONE - 1;
}

impl<M: Machine> Policy<M> for RetryLessOften<M> {
    const NEW: Self = Self { skips: M::U32::ZERO };

    #[inline]
    fn tries(&self) -> bool {
        let skips = self.skips.load(Relaxed);
        if skips >= Self::LEFT_ONE {
            self.skips.store(skips - Self::LEFT_ONE, Relaxed);
        }
        skips < Self::LEFT_ONE
    }

    fn next(&self, aborts: u32, abort: Abort) -> Next {
        if is_hopeless(abort) || aborts >= Self::TRIES { Next::Acquire } else { Next::TryWhenFree }
    }

    fn ended(&self, committed: bool) {
        let skips = self.skips.load(Relaxed);
        let doublings = skips & Self::DOUBLINGS;
        if !committed {
            let doublings = (doublings + 1).min(Self::MOST_DOUBLINGS);
            self.skips.store(Self::LEFT_ONE << doublings | doublings, Relaxed);
        } else if doublings != 0 {
            self.skips.store(skips - 1, Relaxed);
        }
    }
}

/// Its transactions subscribe to the lock lazily: a thread that acquires the lock aborts only those that touch what it changes,
/// and those that end before it releases. Software-assisted lock removal.
///
/// A section may see what a holder has done by half, before it aborts. The hardware takes back what it has done to memory by then, and an
/// interrupt ends a loop that would not end; but a jump to where half a change points is made. So this is for sections that come to no
/// harm by any mixture of old and new, and no `Mutex` and no type of C has it.
/// Source: Afek, Levy and Morrison 2014 (software-assisted lock removal); its dangers: Dice, Harris, Kogan, Lev and Moir 2014.
#[derive(Clone, Copy, Debug, Default)]
pub struct LazySubscription;

impl LazySubscription {
    const TRIES: u32 = 5;
}

impl<M: Machine> Policy<M> for LazySubscription {
    const NEW: Self = Self;

    const SUBSCRIPTION: Subscription = Subscription::Lazy;

    fn next(&self, aborts: u32, abort: Abort) -> Next {
        if is_hopeless(abort) || aborts >= Self::TRIES {
            Next::Acquire
        } else if abort.code() == Some(LOCK_HELD) {
            Next::TryWhenFree
        } else {
            Next::TryAgain // beside a holder, too
        }
    }
}
