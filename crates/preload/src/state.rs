//! The lock state of one object: entering and leaving it, across forks too.
//!
//! # Forks
//!
//! A child of a fork has one thread, and the waiters that the parent had queued on a lock do not exist in it. A hand-over to
//! one of them would leave the lock held for good. So the process has a *generation*, one more in each child, and an
//! object remembers the generation in which its lock was last taken:
//!
//! - a release in a later generation than the acquisition's wipes the state, which is a free lock, instead of handing over;
//! - an acquisition of an object of an earlier generation does not queue, since the state may be wiped under it: it tries
//!   until it gets the lock, or until somebody else has brought the object into this generation.

use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use machine::{Deadline, Patient};

use crate::algorithm::nap;
use crate::choice::Choice;
use crate::recorder;
use crate::tag::Deciding;
use crate::time::Time;

/// The generation of this process: how many forks lie between it and the program's start, modulo 2¹⁶.
static GENERATION: AtomicU16 = AtomicU16::new(0);

#[inline]
fn generation() -> u16 {
    GENERATION.load(Ordering::Relaxed)
}

/// In the child of a fork: what was acquired until now was acquired by the parent.
pub(crate) fn next_generation() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The generation for objects that keep it in a word of their own.
pub(crate) fn generation_word() -> u32 {
    u32::from(generation())
}

/// How long an acquisition may wait.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// For ever.
    Wait,
    /// Not at all.
    Try,
    /// Until this time.
    Until(Time),
}

/// What an acquisition came to: the stamp at which waiting began, if it had to and this is recorded; or an error number.
pub(crate) type Entered = Result<Option<u64>, i32>;

/// The lock state of an object.
#[derive(Clone, Copy)]
pub(crate) struct State<'a> {
    /// Address of the state, all zeros at first.
    pub(crate) at: *const u8,
    /// The generation in which the lock was last taken.
    pub(crate) generation: &'a AtomicU16,
    /// The algorithm.
    pub(crate) choice: &'a Choice,
}

/// One of the two sides of a lock: how to take it.
trait Side: Copy {
    /// # Safety
    /// The state is that of an object that is alive.
    unsafe fn acquire(self, state: &State<'_>);
    /// # Safety
    /// As above.
    unsafe fn try_acquire(self, state: &State<'_>) -> bool;
    /// # Safety
    /// As above.
    unsafe fn acquire_until(self, state: &State<'_>, deadline: Deadline) -> bool;
}

#[derive(Clone, Copy)]
struct Exclusive;

impl Side for Exclusive {
    #[inline(always)]
    unsafe fn acquire(self, state: &State<'_>) {
        // SAFETY: the caller's promise.
        unsafe { (state.choice.algorithm.acquire)(state.at) }
    }
    #[inline(always)]
    unsafe fn try_acquire(self, state: &State<'_>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (state.choice.algorithm.try_acquire)(state.at) }
    }
    unsafe fn acquire_until(self, state: &State<'_>, deadline: Deadline) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (state.choice.algorithm.acquire_until)(state.at, deadline) }
    }
}

/// The shared side, for a thread that says whether it reads already.
#[derive(Clone, Copy)]
struct Reading {
    again: bool,
}

impl Side for Reading {
    #[inline(always)]
    unsafe fn acquire(self, state: &State<'_>) {
        // SAFETY: the caller's promise.
        unsafe { (state.choice.shared.acquire)(state.at, self.again) }
    }
    #[inline(always)]
    unsafe fn try_acquire(self, state: &State<'_>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (state.choice.shared.try_acquire)(state.at, self.again) }
    }
    unsafe fn acquire_until(self, state: &State<'_>, deadline: Deadline) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (state.choice.shared.acquire_until)(state.at, self.again, deadline) }
    }
}

impl State<'_> {
    /// Takes the lock alone. `RECORD` asks for the stamp of a wait.
    ///
    /// # Safety
    /// The state is that of an object that is alive.
    #[inline(always)]
    pub(crate) unsafe fn enter<const RECORD: bool>(&self, patience: Patience) -> Entered {
        // SAFETY: the caller's promise.
        unsafe { self.take::<RECORD>(Exclusive, patience) }
    }

    /// Takes the lock shared; `again` says that the caller reads under it already and must not wait for writers.
    ///
    /// # Safety
    /// As [`State::enter`]; the algorithm has a shared side.
    #[inline(always)]
    pub(crate) unsafe fn enter_shared<const RECORD: bool>(&self, patience: Patience, again: bool) -> Entered {
        // SAFETY: the caller's promise.
        unsafe { self.take::<RECORD>(Reading { again }, patience) }
    }

    /// # Safety
    /// The state is that of an object that is alive.
    #[inline(always)]
    unsafe fn take<const RECORD: bool>(&self, side: impl Side, patience: Patience) -> Entered {
        if self.generation.load(Ordering::Relaxed) != generation() {
            // SAFETY: the caller's promise.
            return unsafe { self.take_after_fork(side, patience) };
        }
        // SAFETY: the caller's promise, thrice.
        match patience {
            Patience::Wait if !RECORD => {
                unsafe { side.acquire(self) };
                Ok(None)
            }
            _ if unsafe { side.try_acquire(self) } => Ok(None),
            Patience::Wait => {
                let started = recorder::stamp();
                unsafe { side.acquire(self) };
                Ok(Some(started))
            }
            Patience::Try => Err(libc::EBUSY),
            Patience::Until(time) => {
                let deadline = time.deadline().ok_or(libc::EINVAL)?;
                let started = RECORD.then(recorder::stamp);
                if unsafe { side.acquire_until(self, deadline) } { Ok(started) } else { Err(libc::ETIMEDOUT) }
            }
        }
    }

    /// # Safety
    /// The state is that of an object that is alive.
    #[cold]
    unsafe fn take_after_fork(&self, side: impl Side, patience: Patience) -> Entered {
        const NAP_NS: u64 = 100_000;
        // SAFETY: the caller's promise.
        let attempt = || Deciding::alone(|_| unsafe { side.try_acquire(self) });
        let started = recorder::stamp();
        if attempt() {
            self.generation.store(generation(), Ordering::Relaxed);
            return Ok(None);
        }
        let deadline = match patience {
            Patience::Try => return Err(libc::EBUSY),
            Patience::Until(time) => Some(time.deadline().ok_or(libc::EINVAL)?),
            Patience::Wait => None,
        };
        loop {
            if attempt() {
                self.generation.store(generation(), Ordering::Relaxed);
                return Ok(Some(started));
            }
            if self.generation.load(Ordering::Relaxed) == generation() {
                break;
            }
            if deadline.is_some_and(|deadline| deadline.passed::<Patient>()) {
                return Err(libc::ETIMEDOUT);
            }
            nap(NAP_NS, deadline);
        }
        // SAFETY: the caller's promise, twice. The object is of this generation now.
        match deadline {
            None => unsafe { side.acquire(self) },
            Some(deadline) if unsafe { side.acquire_until(self, deadline) } => {}
            Some(_) => return Err(libc::ETIMEDOUT),
        }
        Ok(Some(started))
    }

    /// Gives the lock up. Nothing of the object is touched after the next owner can be in.
    ///
    /// # Safety
    /// As [`State::enter`]; the caller holds the lock alone.
    #[inline(always)]
    pub(crate) unsafe fn leave(&self) {
        if self.generation.load(Ordering::Relaxed) != generation() {
            return self.wipe();
        }
        // SAFETY: the caller's promise.
        unsafe { (self.choice.algorithm.release)(self.at) }
    }

    /// Gives up a shared hold.
    ///
    /// # Safety
    /// As [`State::enter`]; the caller holds the lock shared.
    #[inline(always)]
    pub(crate) unsafe fn leave_shared(&self) {
        if self.generation.load(Ordering::Relaxed) != generation() {
            return self.wipe();
        }
        // SAFETY: the caller's promise.
        unsafe { (self.choice.shared.release)(self.at) }
    }

    /// Makes the lock a free one whatever it was.
    #[cold]
    pub(crate) fn wipe(&self) {
        Deciding::alone(|_| {
            for offset in (0..self.choice.algorithm.bytes).step_by(8).rev() {
                // SAFETY: a state is 8-aligned, and its room a multiple of 8 bytes.
                unsafe { &*self.at.add(offset).cast::<AtomicU64>() }.store(0, Ordering::Release);
            }
        });
    }

    /// In the child of a fork, for a lock under which its one thread reads `count` times: the other readers, and whoever
    /// waited, do not exist.
    ///
    /// # Safety
    /// As [`State::enter_shared`].
    pub(crate) unsafe fn keep_reads_only(&self, count: u32) {
        self.wipe();
        self.generation.store(generation(), Ordering::Relaxed);
        for _ in 0..count {
            // SAFETY: the caller's promise.
            unsafe { (self.choice.shared.try_acquire)(self.at, true) };
        }
    }

    /// Whether nobody holds the lock.
    ///
    /// # Safety
    /// As [`State::enter`].
    pub(crate) unsafe fn is_free(&self) -> bool {
        // SAFETY: the caller's promise, and a release of what was just taken.
        unsafe {
            let taken = (self.choice.algorithm.try_acquire)(self.at);
            if taken {
                (self.choice.algorithm.release)(self.at);
            }
            taken
        }
    }
}
