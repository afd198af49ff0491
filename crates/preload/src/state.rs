//! The lock state of one object: entering and leaving it, across forks too.
//!
//! A child of a fork has one thread, and the waiters that the parent had queued on a lock do not exist in it. A hand-over to
//! one of them would leave the lock held for good. So an object remembers the [generation](crate::generation) of the process in
//! which its lock was last taken:
//!
//! - a release in a later generation than the acquisition's wipes the state, which is a free lock, instead of handing over;
//! - an acquisition of an object of an earlier generation does not queue, since the state may be wiped under it: it tries
//!   until it gets the lock, or until another thread has brought the object into this generation.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use libc::{clockid_t, timespec};
use machine::{Deadline, Patient};
use pthread::object::ObjectKind;

use crate::algorithm::sleep;
use crate::choice::Choice;
use crate::generation::{generation, is_now};
use crate::recorder::{self, Call, Mode, Trace};
use crate::tag::Initialisation;
use crate::thread::Thread;
use crate::time::Time;
use crate::time_slice;

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

impl Patience {
    /// Until a time of the caller's; no time is for ever, as with glibc, which looks at the time only when it has to wait.
    ///
    /// # Errors
    /// `EINVAL` for a clock that waits cannot use.
    ///
    /// # Safety
    /// The time can be read, if there is one.
    #[inline(always)]
    pub(crate) unsafe fn until(clock: clockid_t, time: *const timespec) -> Result<Self, c_int> {
        if time.is_null() {
            return Ok(Self::Wait);
        }
        // SAFETY: the caller's promise.
        unsafe { Time::new(clock, time) }.map(Self::Until)
    }
}

/// What an acquisition came to: the stamp at which waiting began, if it had to and this is recorded; or an error number.
pub(crate) type Entered = Result<Option<u64>, i32>;

/// Tells the recorder what an acquisition came to, and returns the answer of the lock function.
#[inline]
pub(crate) fn record(
    entered: Entered,
    thread: &Thread,
    trace: &Trace,
    kind: ObjectKind,
    mode: Mode,
    call: Call,
) -> c_int {
    let recorded = thread.recording();
    match entered {
        Ok(waited) => recorder::acquired(recorded, trace, kind, mode, call, waited),
        Err(libc::EBUSY) => recorder::try_failed(recorded, trace, kind, mode, call.object),
        Err(libc::ETIMEDOUT) => recorder::timed_out(recorded, trace, kind, mode, call.object),
        Err(_) => {}
    }
    entered.err().unwrap_or(0)
}

/// The lock state of an object.
#[derive(Clone, Copy)]
pub(crate) struct State<'a> {
    at: *const u8,
    generation: &'a AtomicU16,
    choice: &'a Choice,
}

/// One of the two sides of a lock: how to take it.
trait Side: Copy {
    fn acquire(self, state: &State<'_>);
    fn try_acquire(self, state: &State<'_>) -> bool;
    fn acquire_until(self, state: &State<'_>, deadline: Deadline) -> bool;
}

#[derive(Clone, Copy)]
struct Exclusive;

impl Side for Exclusive {
    #[inline(always)]
    fn acquire(self, state: &State<'_>) {
        // SAFETY: the promise of `State::new`.
        unsafe { (state.choice.algorithm.acquire)(state.at) }
    }
    #[inline(always)]
    fn try_acquire(self, state: &State<'_>) -> bool {
        // SAFETY: the promise of `State::new`.
        unsafe { (state.choice.algorithm.try_acquire)(state.at) }
    }
    fn acquire_until(self, state: &State<'_>, deadline: Deadline) -> bool {
        // SAFETY: the promise of `State::new`.
        unsafe { (state.choice.algorithm.acquire_until)(state.at, deadline) }
    }
}

/// The shared side, for a thread that says whether it reads already.
#[derive(Clone, Copy)]
struct ReadSide {
    again: bool,
}

impl Side for ReadSide {
    #[inline(always)]
    fn acquire(self, state: &State<'_>) {
        // SAFETY: the promise of `State::new`.
        unsafe { (state.choice.shared.acquire)(state.at, self.again) }
    }
    #[inline(always)]
    fn try_acquire(self, state: &State<'_>) -> bool {
        // SAFETY: the promise of `State::new`.
        unsafe { (state.choice.shared.try_acquire)(state.at, self.again) }
    }
    fn acquire_until(self, state: &State<'_>, deadline: Deadline) -> bool {
        // SAFETY: the promise of `State::new`.
        unsafe { (state.choice.shared.acquire_until)(state.at, self.again, deadline) }
    }
}

impl<'a> State<'a> {
    /// The state at an address, and the generation in which its lock was last taken.
    ///
    /// # Safety
    /// Both live as long as the result is used. The state was all zeros at first, has been used with this choice only, and
    /// is 8-aligned, in a space of a multiple of 8 bytes.
    #[inline(always)]
    pub(crate) unsafe fn new(at: *const u8, generation: &'a AtomicU16, choice: &'a Choice) -> Self {
        Self { at, generation, choice }
    }

    /// Takes the lock alone. `RECORD` asks for the stamp of a wait.
    #[inline(always)]
    pub(crate) fn enter<const RECORD: bool>(self, patience: Patience) -> Entered {
        let entered = self.take::<RECORD>(Exclusive, patience);
        if entered.is_ok() {
            time_slice::acquired();
        }
        entered
    }

    /// Takes the lock shared; `again` says that the caller reads under it already and must not wait for writers.
    #[inline(always)]
    pub(crate) fn enter_shared<const RECORD: bool>(self, patience: Patience, again: bool) -> Entered {
        self.take::<RECORD>(ReadSide { again }, patience)
    }

    #[inline(always)]
    fn take<const RECORD: bool>(self, side: impl Side, patience: Patience) -> Entered {
        if !is_now(self.generation.load(Ordering::Relaxed)) {
            return self.take_after_fork(side, patience);
        }
        match patience {
            Patience::Wait if !RECORD => {
                side.acquire(&self);
                Ok(None)
            }
            _ if side.try_acquire(&self) => Ok(None),
            Patience::Wait => {
                let started = recorder::stamp();
                side.acquire(&self);
                Ok(Some(started))
            }
            Patience::Try => Err(libc::EBUSY),
            Patience::Until(time) => {
                let deadline = time.deadline().ok_or(libc::EINVAL)?;
                let started = RECORD.then(recorder::stamp);
                if side.acquire_until(&self, deadline) { Ok(started) } else { Err(libc::ETIMEDOUT) }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn take_after_fork(self, side: impl Side, patience: Patience) -> Entered {
        const SLEEP_NS: u64 = 100_000;
        generation(); // notices a child's beginning
        // Together: who gives up a hold of the parent's meanwhile would wipe this one.
        let attempt = || {
            Initialisation::alone(|_| {
                // Those who waited in the parent do not exist, and no thread of this process waits before one was in.
                if self.is_stale_and_unheld() {
                    self.clear();
                }
                let taken = side.try_acquire(&self);
                if taken {
                    self.generation.store(generation(), Ordering::Relaxed);
                }
                taken
            })
        };
        let started = recorder::stamp();
        if attempt() {
            return Ok(None);
        }
        let deadline = match patience {
            Patience::Try => return Err(libc::EBUSY),
            Patience::Until(time) => Some(time.deadline().ok_or(libc::EINVAL)?),
            Patience::Wait => None,
        };
        loop {
            if attempt() {
                return Ok(Some(started));
            }
            if self.generation.load(Ordering::Relaxed) == generation() {
                break;
            }
            if deadline.is_some_and(|deadline| deadline.passed::<Patient>()) {
                return Err(libc::ETIMEDOUT);
            }
            sleep(SLEEP_NS, deadline);
        }
        // The object is of this generation now.
        match deadline {
            None => side.acquire(&self),
            Some(deadline) if side.acquire_until(&self, deadline) => {}
            Some(_) => return Err(libc::ETIMEDOUT),
        }
        Ok(Some(started))
    }

    /// Gives the lock up. Nothing of the object is touched after the next owner can be in.
    #[inline(always)]
    pub(crate) fn leave(self) {
        if is_now(self.generation.load(Ordering::Relaxed)) {
            // SAFETY: the promise of `State::new`.
            unsafe { (self.choice.algorithm.release)(self.at) };
        } else {
            self.leave_after_fork(self.choice.algorithm.release);
        }
        time_slice::released();
    }

    /// Gives up a shared hold.
    #[inline(always)]
    pub(crate) fn leave_shared(self) {
        if !is_now(self.generation.load(Ordering::Relaxed)) {
            return self.leave_after_fork(self.choice.shared.release);
        }
        // SAFETY: the promise of `State::new`.
        unsafe { (self.choice.shared.release)(self.at) }
    }

    /// Gives up a hold of the parent's, unless another thread has taken the lock in this process since.
    #[cold]
    #[inline(never)]
    fn leave_after_fork(self, release: unsafe fn(*const u8)) {
        generation(); // notices a child's beginning
        let is_taken = Initialisation::alone(|_| {
            let is_taken = is_now(self.generation.load(Ordering::Relaxed));
            if !is_taken {
                self.clear();
            }
            is_taken
        });
        if is_taken {
            // SAFETY: the promise of `State::new`.
            unsafe { release(self.at) }
        }
    }

    /// Makes the lock a free one whatever it was.
    #[cold]
    #[inline(never)]
    pub(crate) fn wipe(self) {
        Initialisation::alone(|_| self.clear());
    }

    /// The same, for a thread that has the right to decide.
    fn clear(self) {
        for offset in (0..self.choice.algorithm.bytes).step_by(8).rev() {
            // SAFETY: the promise of `State::new`.
            unsafe { &*self.at.add(offset).cast::<AtomicU64>() }.store(0, Ordering::Release);
        }
    }

    /// In the child of a fork, for a lock under which its one thread reads `count` times: the other readers, and
    /// the threads that waited, do not exist.
    pub(crate) fn keep_reads_only(&self, count: u32) {
        self.wipe();
        self.generation.store(generation(), Ordering::Relaxed);
        for _ in 0..count {
            // SAFETY: the promise of `State::new`.
            unsafe { (self.choice.shared.try_acquire)(self.at, true) };
        }
    }

    /// In the child of a fork, for a lock that it has not used yet: whether no thread held it in the parent, though some may have waited.
    fn is_stale_and_unheld(&self) -> bool {
        // SAFETY: the promise of `State::new`.
        !is_now(self.generation.load(Ordering::Relaxed))
            && unsafe { (self.choice.algorithm.is_unheld)(self.at) }
    }

    /// Whether no thread holds the lock.
    pub(crate) fn is_free(&self) -> bool {
        if self.is_stale_and_unheld() {
            return true;
        }
        // SAFETY: the promise of `State::new`; what was just taken is released.
        unsafe {
            let taken = (self.choice.algorithm.try_acquire)(self.at);
            if taken {
                (self.choice.algorithm.release)(self.at);
            }
            taken
        }
    }
}
