//! `pthread_mutex_*`.
//!
//! What lies where in the 40 bytes of a mutex of ours on x86-64. glibc's names are those of its `struct __pthread_mutex_s`.
//!
//! | bytes  | glibc's use       | ours                                      | written by               |
//! |--------|-------------------|-------------------------------------------|--------------------------|
//! | 0..4   | `__lock`          | 0: free; else the owner's identity, or [`HELD`] for kinds that do not check | the owner |
//! | 4..8   | `__count`         | further holds of the owner                | the owner                |
//! | 8..16  | `__owner`, `__nusers` | lock state of up to 8 bytes, or number of the arena slot (8..12) | the algorithm; who decides |
//! | 16..18 | `__kind`          | as in glibc; its init and destroy write it | init and destroy        |
//! | 18..20 | `__kind`, unused half | condition waits that will take it back | the holder              |
//! | 20..22 | `__spins`         | generation of the last acquisition        | acquirers after a fork   |
//! | 22..24 | `__elision`       | owner tag                                 | who decides              |
//! | 24..40 | `__list`          | [`Trace`] while recording; else lock state of 9 to 16 bytes | holders; the algorithm |
//!
//! A mutex that stays glibc's keeps all of glibc's uses: its tag lies in `__elision`, which glibc writes on hardware with
//! lock elision switched on only, and its trace in `__list`, which glibc uses for robust mutexes and those that inherit
//! priority only; neither is recorded.
//!
//! On AArch64 `__spins` takes the four bytes of both shorts, and an adaptive mutex of glibc's counts in them. The owner tag
//! lies in bytes 18..20 there, the half of `__kind` that glibc masks off, so that every initialiser still clears it, and the
//! count of condition waits in 22..24. The object is 48 bytes long; no initialiser answers for the last eight, and nothing lies in them.

use core::ffi::c_int;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed};

use libc::{clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};
use pthread::object::{ObjectKind, mutex as layout};

use crate::arena::{self, Reference};
use crate::choice::{self, Choice, IN_ARENA, MUTEXES};
use crate::recorder::{self, Call, Mode, Refusal, Trace};
use crate::state::{self, Entered, Patience, State};
use crate::tag::{Owner, Tag};
use crate::thread::{self, Thread};
use crate::{misuse, real, site};

/// A mutex, ours or glibc's.
#[repr(C, align(8))]
pub(crate) struct Mutex {
    owner: AtomicU32,
    holds: AtomicU32,
    /// State of up to 8 bytes, or in the first word the reference to a slot of the side table.
    words: [AtomicU32; 2],
    /// The half of `__kind` that has bits.
    kind: AtomicU16,
    #[cfg(target_arch = "aarch64")]
    tag: Tag,
    #[cfg(not(target_arch = "aarch64"))]
    waits: AtomicU16,
    generation: AtomicU16,
    #[cfg(target_arch = "aarch64")]
    waits: AtomicU16,
    #[cfg(not(target_arch = "aarch64"))]
    tag: Tag,
    trace: Trace,
    _rest: [u8; size_of::<pthread_mutex_t>() - 40],
}

const _: () = assert!(size_of::<Mutex>() == size_of::<pthread_mutex_t>());
const _: () = assert!(align_of::<Mutex>() <= align_of::<pthread_mutex_t>());
const _: () = assert!(size_of::<Mutex>() == layout::BYTES);
const _: () = assert!(offset_of!(Mutex, words) == layout::STATE && offset_of!(Mutex, kind) == layout::KIND);
const _: () = assert!(offset_of!(Mutex, tag) == layout::TAG && offset_of!(Mutex, trace) == layout::TRACE);
const _: () = assert!(offset_of!(Mutex, generation) == layout::GENERATION);
const _: () = assert!(cfg!(target_endian = "little")); // `kind` is the low half

// Bits of `__kind`, from glibc's nptl/pthreadP.h.
const TYPE: u16 = 3;
const NORMAL: u16 = 0;
const RECURSIVE: u16 = 1;
const ADAPTIVE: u16 = 3;
const ROBUST: u16 = 16;
const INHERIT: u16 = 32;
const PROTECT: u16 = 64;
const SHARED: u16 = 128;
const LEFT_TO_GLIBC: u16 = ROBUST | INHERIT | PROTECT | SHARED;
/// The owner of a held mutex whose kind does not ask who that is. No thread has this identity.
const HELD: u32 = u32::MAX;
/// What glibc's destroy makes of the kind.
const DESTROYED: u16 = u16::MAX;

/// How a mutex was given up before a condition wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// It is free now.
    Wholly,
    /// It was held more than once, and still is.
    InPart,
}

impl Mutex {
    /// The mutex at an address.
    ///
    /// # Safety
    /// It is one, and lives as long as the result is used.
    #[inline(always)]
    pub(crate) unsafe fn at<'a>(mutex: *mut pthread_mutex_t) -> &'a Self {
        // SAFETY: the caller's promise; sizes and alignments agree, and any bytes are a valid value.
        unsafe { &*mutex.cast::<Self>() }
    }

    #[inline(always)]
    pub(crate) fn object(&self) -> *mut pthread_mutex_t {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    #[inline(always)]
    fn type_of(&self) -> u16 {
        self.kind.load(Relaxed) & TYPE
    }

    /// Whether the kind asks who locks and unlocks it: recursive mutexes, and those that check for errors.
    #[inline(always)]
    fn checks_owner(&self) -> bool {
        !matches!(self.type_of(), NORMAL | ADAPTIVE)
    }

    /// The trace of a recorded mutex.
    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The choice, if the mutex is ours.
    #[inline(always)]
    pub(crate) fn choice(&self) -> Option<&'static Choice> {
        Some(MUTEXES.choice(self.tag.ours()?))
    }

    #[inline(always)]
    fn state<'a>(&'a self, choice: &'a Choice) -> State<'a> {
        let at = if choice.offset == IN_ARENA {
            self.reference().state()
        } else {
            core::ptr::from_ref(self).cast::<u8>().wrapping_add(choice.offset)
        };
        // SAFETY: the mutex is borrowed, its tag says that the state is of this choice, and so does the slot's index.
        unsafe { State::new(at, &self.generation, choice) }
    }

    #[inline(always)]
    fn reference(&self) -> Reference {
        Reference::kept_in(&self.words[0])
    }

    /// What to do with a mutex of ours that was moved or copied here. Where the side table is full, it is glibc's afterwards.
    #[cold]
    #[inline(never)]
    fn find_own_slot(&self) {
        let held = self.owner.load(Relaxed) != 0;
        MUTEXES.find_own_slot(&self.tag, &self.words[0], self.address(), held, || {
            for word in [&self.owner, &self.holds, &self.words[0], &self.words[1]] {
                word.store(0, Relaxed);
            }
            self.waits.store(0, Relaxed);
            self.generation.store(0, Relaxed);
        });
    }

    /// Why this mutex has to stay glibc's.
    fn refusal(&self) -> Option<Refusal> {
        let kind = self.kind.load(Relaxed);
        if kind & LEFT_TO_GLIBC == 0 {
            None
        } else if kind == DESTROYED {
            Some(Refusal::Other)
        } else if kind & ROBUST != 0 {
            Some(Refusal::Robust)
        } else if kind & INHERIT != 0 {
            Some(Refusal::PriorityInheriting)
        } else if kind & PROTECT != 0 {
            Some(Refusal::PriorityProtected)
        } else {
            Some(Refusal::ProcessShared)
        }
    }

    /// The choice of a mutex that is ours, which is decided now if it was not.
    #[cold]
    fn decided(&self, caller: usize) -> Option<&'static Choice> {
        MUTEXES.decided(&self.tag, self.address(), caller, self.refusal(), &self.words[0])
    }

    /// Decides whose the mutex is, if no call has: one that gives it up and takes it back must find it the same.
    #[inline]
    pub(crate) fn decide(&self) {
        if MUTEXES.swaps() && self.tag.is_undecided() {
            let _ = self.decided(0);
        }
    }

    #[inline(always)]
    fn lock(&self, patience: Patience, caller: usize) -> c_int {
        match self.choice() {
            Some(choice) => self.lock_ours(choice, patience, caller),
            None if self.glibc_recorded() => self.lock_glibc_recorded(patience, caller),
            None => self.lock_elsewhere(patience, caller),
        }
    }

    #[inline(always)]
    fn lock_ours(&self, choice: &Choice, patience: Patience, caller: usize) -> c_int {
        if choice.offset == IN_ARENA && !self.reference().is_of(self.address()) {
            self.find_own_slot();
            if self.choice().is_none() {
                return self.lock_elsewhere(patience, caller);
            }
        }
        if recorder::enabled() {
            return self.lock_recorded(choice, patience, caller);
        }
        if !self.checks_owner() {
            return match self.state(choice).enter::<false>(patience) {
                Ok(_) => {
                    self.owner.store(HELD, Relaxed);
                    0
                }
                Err(error) => error,
            };
        }
        self.lock_checked(choice, patience)
    }

    #[inline(never)]
    fn lock_checked(&self, choice: &Choice, patience: Patience) -> c_int {
        let thread = thread::current();
        if let Some(answer) = self.lock_again(thread, patience) {
            return answer;
        }
        match self.enter_checked::<false>(choice, patience, thread) {
            Ok(_) => 0,
            Err(error) => error,
        }
    }

    #[inline(never)]
    fn lock_recorded(&self, choice: &Choice, patience: Patience, caller: usize) -> c_int {
        let thread = thread::current();
        if let Some(answer) = self.lock_again(thread, patience) {
            if answer == 0 {
                recorder::acquired_again(thread.recording(), &self.trace);
            }
            return answer;
        }
        let entered = self.enter_checked::<true>(choice, patience, thread);
        self.record(thread, entered, caller)
    }

    #[inline]
    fn record(&self, thread: &Thread, entered: Entered, caller: usize) -> c_int {
        let call = Call::new(self.address(), caller);
        state::record(entered, thread, &self.trace, ObjectKind::Mutex, Mode::Exclusive, call)
    }

    /// Takes a mutex that the caller does not hold, and notes the owner where the kind wants one.
    #[inline(always)]
    fn enter_checked<const RECORD: bool>(
        &self,
        choice: &Choice,
        patience: Patience,
        thread: &Thread,
    ) -> Entered {
        let waited = self.state(choice).enter::<RECORD>(patience)?;
        self.owner.store(if self.checks_owner() { thread.identity() } else { HELD }, Relaxed);
        Ok(waited)
    }

    /// The answer to a lock call of the thread that holds the mutex; none if it does not, or the kind does not check.
    fn lock_again(&self, thread: &Thread, patience: Patience) -> Option<c_int> {
        if !self.checks_owner() || self.owner.load(Relaxed) != thread.identity() {
            return None;
        }
        if self.type_of() == RECURSIVE {
            let holds = self.holds.load(Relaxed);
            if holds == u32::MAX - 1 {
                return Some(libc::EAGAIN);
            }
            self.holds.store(holds + 1, Relaxed);
            return Some(0);
        }
        Some(if matches!(patience, Patience::Try) { libc::EBUSY } else { libc::EDEADLK })
    }

    #[inline(always)]
    fn unlock(&self) -> c_int {
        let Some(choice) = self.choice() else { return self.unlock_elsewhere() };
        if !recorder::enabled() && !self.checks_owner() {
            if self.owner.load(Relaxed) == 0 {
                return self.unlock_free();
            }
            self.owner.store(0, Relaxed);
            self.state(choice).leave();
            return 0;
        }
        match self.give_up::<false>(choice) {
            Ok(_) => 0,
            Err(error) => error,
        }
    }

    /// Undoes one hold of a mutex of ours, of any kind; for a condition wait, if `WAIT` says so.
    #[inline(never)]
    fn give_up<const WAIT: bool>(&self, choice: &Choice) -> Result<GivenUp, c_int> {
        let thread = thread::current();
        if self.checks_owner() {
            if self.owner.load(Relaxed) != thread.identity() {
                return Err(libc::EPERM);
            }
            let holds = self.holds.load(Relaxed);
            if holds != 0 {
                self.holds.store(holds - 1, Relaxed);
                return Ok(GivenUp::InPart);
            }
        } else if self.owner.load(Relaxed) == 0 {
            self.unlock_free();
            return Ok(GivenUp::Wholly);
        }
        if WAIT {
            // While it is held: afterwards another thread may want to destroy it, and has to be told.
            self.waits.store(self.waits.load(Relaxed).saturating_add(1), Relaxed);
        }
        self.owner.store(0, Relaxed);
        if recorder::enabled() {
            recorder::releasing(thread.recording(), &self.trace, Mode::Exclusive);
        }
        self.state(choice).leave();
        Ok(GivenUp::Wholly)
    }

    /// The answer to an unlock of a mutex of ours that no thread holds, and that does not check: glibc goes on.
    #[cold]
    #[inline(never)]
    fn unlock_free(&self) -> c_int {
        misuse::unlocked_while_free(ObjectKind::Mutex, self.address());
        0
    }

    // glibc's mutexes, and those about which no thread has decided.

    #[inline(never)]
    fn lock_elsewhere(&self, patience: Patience, caller: usize) -> c_int {
        if !MUTEXES.watched() {
            if !choice::known() {
                self.tag.set(Owner::Glibc); // held by glibc before the configuration is known, so glibc's for good
            } else {
                MUTEXES.not_asked_for();
            }
            // SAFETY: the caller's arguments, passed on.
            return unsafe { self.real_lock(patience) };
        }
        if let Some(choice) = self.decided(caller) {
            return self.lock_ours(choice, patience, caller);
        }
        if self.glibc_recorded() {
            return self.lock_glibc_recorded(patience, caller);
        }
        // SAFETY: the caller's arguments, passed on.
        unsafe { self.real_lock(patience) }
    }

    /// Whether the mutex is known to be glibc's and the recorder follows it.
    #[inline(always)]
    fn glibc_recorded(&self) -> bool {
        recorder::enabled() && self.tag.is_glibcs() && self.kind.load(Relaxed) & LEFT_TO_GLIBC == 0
    }

    #[inline(never)]
    fn lock_glibc_recorded(&self, patience: Patience, caller: usize) -> c_int {
        let thread = thread::current();
        // SAFETY: the caller's arguments, passed on.
        let entered = match unsafe { real::pthread_mutex_trylock(self.object()) } {
            0 => Ok(None),
            error => self.real_enter_after(error, patience, caller),
        };
        if entered.is_ok() && self.checks_owner() {
            thread.note_glibc_owner(self.words[0].load(Relaxed));
        }
        if entered.is_ok() && self.glibc_holds_twice() {
            recorder::acquired_again(thread.recording(), &self.trace);
            return 0;
        }
        self.record(thread, entered, caller)
    }

    #[inline(never)]
    fn unlock_elsewhere(&self) -> c_int {
        if self.glibc_recorded() && !self.glibc_holds_twice() && self.glibc_will_unlock() {
            recorder::releasing(thread::current().recording(), &self.trace, Mode::Exclusive);
        }
        if MUTEXES.swaps() && self.is_unused() {
            return if self.checks_owner() { libc::EPERM } else { self.unlock_free() };
        }
        // SAFETY: the caller's argument, passed on.
        unsafe { real::pthread_mutex_unlock(self.object()) }
    }

    /// Whether it may be ours and no thread has locked it, here or in the C library: glibc would write what is not ours to
    /// understand into it.
    fn is_unused(&self) -> bool {
        self.tag.is_undecided() && self.refusal().is_none() && self.owner.load(Relaxed) == 0
    }

    /// Whether the caller, who holds this mutex of glibc's, holds it more than once: `__count` of a recursive one.
    pub(crate) fn glibc_holds_twice(&self) -> bool {
        self.type_of() == RECURSIVE && self.holds.load(Relaxed) > 1
    }

    /// # Safety
    /// As POSIX says.
    #[inline]
    unsafe fn real_lock(&self, patience: Patience) -> c_int {
        // SAFETY: the caller's promise.
        unsafe {
            match patience {
                Patience::Wait => real::pthread_mutex_lock(self.object()),
                Patience::Try => real::pthread_mutex_trylock(self.object()),
                Patience::Until(time) if time.clock == libc::CLOCK_REALTIME => {
                    real::pthread_mutex_timedlock(self.object(), time.raw())
                }
                Patience::Until(time) => real::pthread_mutex_clocklock(self.object(), time.clock, time.raw()),
            }
        }
    }

    /// Goes on with a mutex of glibc's after its trylock has answered with an error, as the first attempt of this call.
    #[cold]
    fn real_enter_after(&self, attempt: c_int, patience: Patience, caller: usize) -> Entered {
        match (attempt, patience) {
            (libc::EBUSY, Patience::Wait | Patience::Until(_)) => {
                let recorded = thread::current().recording();
                let (kind, mode) = (ObjectKind::Mutex, Mode::Exclusive);
                let call = Call::new(self.address(), caller);
                // SAFETY: the caller's arguments, passed on.
                let wait = || unsafe { self.real_lock(patience) };
                match recorder::while_waiting(recorded, &self.trace, kind, mode, call, wait) {
                    (started, 0) => Ok(Some(started)),
                    (_, error) => Err(error),
                }
            }
            (error, _) => Err(error),
        }
    }

    // For condition variables.

    /// Gives the mutex up for a condition wait.
    ///
    /// # Errors
    /// As unlocking.
    pub(crate) fn release_for_wait(&self) -> Result<GivenUp, c_int> {
        match self.choice() {
            Some(choice) => self.give_up::<true>(choice),
            None => {
                let in_part = self.glibc_holds_twice();
                let users = self.glibc_users().filter(|_| !in_part && self.glibc_will_unlock());
                if let Some(users) = users {
                    users.store(users.load(Relaxed).wrapping_add(1), Relaxed);
                }
                match self.unlock_elsewhere() {
                    0 if in_part => Ok(GivenUp::InPart),
                    0 => Ok(GivenUp::Wholly),
                    error => Err(error),
                }
            }
        }
    }

    /// Takes the mutex back after a condition wait. That is recorded as a part of the wait, by the caller; only a hold
    /// on top of another is recorded here.
    pub(crate) fn take_back(&self, given_up: GivenUp) -> Entered {
        if given_up == GivenUp::InPart {
            return match self.lock(Patience::Wait, 0) {
                0 => Ok(None),
                error => Err(error),
            };
        }
        match self.choice() {
            Some(choice) => {
                let thread = thread::current();
                let entered = if recorder::enabled() {
                    self.enter_checked::<true>(choice, Patience::Wait, thread)?
                } else {
                    self.enter_checked::<false>(choice, Patience::Wait, thread)?
                };
                self.waits.store(self.waits.load(Relaxed).saturating_sub(1), Relaxed);
                Ok(entered)
            }
            None => {
                // SAFETY: the caller of the wait function says that the mutex is alive.
                let error = unsafe { real::pthread_mutex_lock(self.object()) };
                if matches!(error, 0 | libc::EOWNERDEAD)
                    && let Some(users) = self.glibc_users()
                {
                    users.store(users.load(Relaxed).wrapping_sub(1), Relaxed);
                }
                if error == 0 { Ok(None) } else { Err(error) }
            }
        }
    }

    /// `__nusers` of a mutex of glibc's, which its holder writes: glibc destroys no mutex that has users, and counts those in
    /// condition waits among them.
    fn glibc_users(&self) -> Option<&AtomicU32> {
        self.tag.is_glibcs().then_some(&self.words[1])
    }

    /// Whether glibc will unlock its mutex for the caller: kinds that check ask for the owner.
    pub(crate) fn glibc_will_unlock(&self) -> bool {
        let unchecked = !self.checks_owner() && self.kind.load(Relaxed) & LEFT_TO_GLIBC == 0;
        unchecked || self.words[0].load(Relaxed) == thread::current().glibc_owner()
    }

    /// Whether the recorder follows this mutex.
    pub(crate) fn recorded(&self) -> bool {
        recorder::enabled() && self.refusal().is_none()
    }

    fn destroy_elsewhere(&self) -> c_int {
        let recorded = self.recorded() && self.tag.is_glibcs();
        // SAFETY: the caller's argument, passed on.
        let error = unsafe { real::pthread_mutex_destroy(self.object()) };
        if error == 0 && MUTEXES.watched() {
            if recorded {
                recorder::destroyed(&self.trace);
            }
            self.tag.set(Owner::Undecided);
        }
        error
    }

    #[cold]
    fn destroy(&self) -> c_int {
        if self.choice().is_some_and(|choice| choice.offset == IN_ARENA)
            && !self.reference().is_of(self.address())
        {
            self.find_own_slot();
        }
        let Some(choice) = self.choice() else { return self.destroy_elsewhere() };
        if self.waits.load(Relaxed) != 0 || !self.state(choice).is_free() {
            return libc::EBUSY;
        }
        if choice.offset == IN_ARENA {
            arena::release(self.reference(), self.address());
        }
        if recorder::enabled() {
            recorder::destroyed(&self.trace);
        }
        self.kind.store(DESTROYED, Relaxed);
        self.tag.set(Owner::Undecided);
        0
    }
}

// The functions behind the exported names. The last argument of each is the address that the call returns to.
//
// SAFETY, of all of them: POSIX asks the callers for a mutex that is alive, and for times that can be read.

pub(crate) unsafe extern "C-unwind" fn init(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
    caller: usize,
) -> c_int {
    // SAFETY: passed on.
    let error = unsafe { real::pthread_mutex_init(mutex, attributes) };
    if error == 0 && MUTEXES.watched() {
        // SAFETY: see above. glibc has zeroed it but for the kind.
        let mutex = unsafe { Mutex::at(mutex) };
        let wanted = site::choice(ObjectKind::Mutex, mutex.address(), caller, site::Call::Initialises);
        mutex.tag.set(wanted.map_or(Owner::Initialised, Owner::Wanted));
        if mutex.recorded() {
            recorder::initialised(&mutex.trace);
        }
    }
    error
}

pub(crate) unsafe extern "C-unwind" fn destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: see above.
    unsafe { Mutex::at(mutex) }.destroy()
}

pub(crate) unsafe extern "C-unwind" fn lock(mutex: *mut pthread_mutex_t, caller: usize) -> c_int {
    // SAFETY: see above.
    unsafe { Mutex::at(mutex) }.lock(Patience::Wait, caller)
}

pub(crate) unsafe extern "C-unwind" fn trylock(mutex: *mut pthread_mutex_t, caller: usize) -> c_int {
    // SAFETY: see above.
    unsafe { Mutex::at(mutex) }.lock(Patience::Try, caller)
}

pub(crate) unsafe extern "C-unwind" fn timedlock(
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
    caller: usize,
) -> c_int {
    // SAFETY: passed on.
    unsafe { clocklock(mutex, libc::CLOCK_REALTIME, time, caller) }
}

pub(crate) unsafe extern "C-unwind" fn clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
    caller: usize,
) -> c_int {
    // SAFETY: see above.
    let (mutex, patience) = unsafe { (Mutex::at(mutex), Patience::until(clock, time)) };
    patience.map_or_else(|error| error, |patience| mutex.lock(patience, caller))
}

pub(crate) unsafe extern "C-unwind" fn unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: see above.
    unsafe { Mutex::at(mutex) }.unlock()
}
