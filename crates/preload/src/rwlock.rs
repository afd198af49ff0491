//! `pthread_rwlock_*`.
//!
//! What lies where in the 56 bytes of a reader-writer lock of ours. glibc's names are those of its
//! `struct __pthread_rwlock_arch_t`.
//!
//! | bytes  | glibc's use                          | ours                                  | written by         |
//! |--------|--------------------------------------|---------------------------------------|--------------------|
//! | 0..16  | `__readers` to `__writers_futex`     | lock state of up to 16 bytes, or number of the arena slot (0..4) | the algorithm; who decides |
//! | 16..20 | `__pad3`                             | [`Writers`] that wait, where readers wait for them | they |
//! | 20..24 | `__pad4`                             | as in glibc                           | glibc's init       |
//! | 24..28 | `__cur_writer`                       | identity of the writer                | the writer         |
//! | 28..32 | `__shared`                           | as in glibc                           | glibc's init       |
//! | 32..48 | padding                              | [`Trace`]                             | holders, while recording |
//! | 48..52 | `__flags`                            | as in glibc                           | glibc's init       |
//! | 52..54 | padding                              | owner tag                             | who decides        |
//! | 54..56 | padding                              | generation of the last acquisition    | acquirers after a fork |
//!
//! This is the layout of x86-64 and of AArch64. Where the sizes differ the static assertions below do not compile.
//!
//! # Readers and writers
//!
//! As glibc's, a lock of any kind but `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP` prefers readers: they wait for a writer
//! that is in and for none that waits, since that one may wait for them, or for a thread that waits for them. A reader of the
//! non-recursive kind waits until no writer waits, whatever the algorithm's own order is. So does a reader of any kind where the
//! lock was chosen for that ([`Choice::writers_first`]), unless its thread reads under the lock already.
//!
//! Each thread has a list of the read locks that it holds ([`crate::thread::Reads`]), so that a write lock on top of an own read
//! lock is refused, and so that a child of a fork keeps its one thread's read locks alone. Once some thread has given up a read
//! lock that it is not known to hold, a list may have a lock that its thread does not read under, or that is gone and whose
//! address is another lock's or no lock's. The lists are not asked any more then, in the whole process: a write lock on top of an
//! own read lock waits, and in a child the reads of threads that do not exist stay, both as with glibc.

use core::ffi::c_int;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering::Relaxed};

use libc::{clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};
use machine::{Clock, Deadline, GaveUp, Integer, Machine, Patient, Timeout, Word};
use pthread::object::{ObjectKind, rwlock as layout};

use crate::arena::{self, Reference};
use crate::choice::{self, Choice, IN_ARENA, RWLOCKS};
use crate::generation::generation_word;
use crate::recorder::{self, Call, Mode, Refusal, Trace};
use crate::state::{self, Entered, Patience, State};
use crate::tag::{Owner, Tag};
use crate::thread::{self, Thread};
use crate::time::Time;
use crate::{misuse, real, site};

/// A reader-writer lock, ours or glibc's.
#[repr(C, align(8))]
struct Rwlock {
    /// State of up to 16 bytes, or in the first word the reference to a slot of the side table.
    words: [AtomicU32; 4],
    writers: Writers,
    _unused: AtomicU32,
    writer: AtomicU32,
    shared: AtomicU32,
    trace: Trace,
    flags: AtomicU32,
    tag: Tag,
    generation: AtomicU16,
}

const _: () = assert!(size_of::<Rwlock>() == size_of::<pthread_rwlock_t>());
const _: () = assert!(align_of::<Rwlock>() <= align_of::<pthread_rwlock_t>());
const _: () = assert!(size_of::<Rwlock>() == layout::BYTES && offset_of!(Rwlock, words) == layout::STATE);
const _: () = assert!(ObjectKind::Rwlock.inline_bytes() <= offset_of!(Rwlock, writers));
const _: () =
    assert!(offset_of!(Rwlock, writer) == layout::WRITER && offset_of!(Rwlock, shared) == layout::SHARED);
const _: () =
    assert!(offset_of!(Rwlock, trace) == layout::TRACE && offset_of!(Rwlock, flags) == layout::FLAGS);
const _: () =
    assert!(offset_of!(Rwlock, tag) == layout::TAG && offset_of!(Rwlock, generation) == layout::GENERATION);

/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`, the one kind whose readers may not read again past a writer.
const NONRECURSIVE: u32 = 2;

/// How long a thread that reads waits as a writer before it is told that it waits for itself.
const DEADLOCK_NS: u64 = 1_000_000_000;

/// Some thread has given up a read lock that it was not known to hold.
static HANDED_ON: AtomicBool = AtomicBool::new(false);

/// How many writers wait, in the low half; in the high half the generation of the process in which they do, so that a child
/// of a fork knows that its parent's do not.
#[repr(transparent)]
struct Writers(<Patient as Machine>::U32);

impl Writers {
    const COUNT: u32 = 0xffff;

    fn waiting(word: u32) -> u32 {
        if word & !Self::COUNT == generation_word() << 16 { word & Self::COUNT } else { 0 }
    }

    fn any(&self) -> bool {
        Self::waiting(self.0.load(Relaxed)) != 0
    }

    fn enter(&self) {
        let mut found = self.0.load(Relaxed);
        loop {
            let one_more = generation_word() << 16 | (Self::waiting(found) + 1);
            match self.0.compare_exchange(found, one_more, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => found = now,
            }
        }
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    fn wait_for_none(&self, timeout: Timeout<'_, Patient>) -> Result<(), GaveUp> {
        Patient::spin_until_or(&self.0, Relaxed, timeout, |word| Self::waiting(word) == 0).map(drop)
    }
}

impl Rwlock {
    /// The lock at an address.
    ///
    /// # Safety
    /// It is one, and lives as long as the result is used.
    #[inline(always)]
    unsafe fn at<'a>(lock: *mut pthread_rwlock_t) -> &'a Self {
        // SAFETY: the caller's promise; sizes and alignments agree, and any bytes are a valid value.
        unsafe { &*lock.cast::<Self>() }
    }

    #[inline(always)]
    fn object(&self) -> *mut pthread_rwlock_t {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    #[inline(always)]
    fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    #[inline(always)]
    fn choice(&self) -> Option<&'static Choice> {
        Some(RWLOCKS.choice(self.tag.ours()?))
    }

    #[inline(always)]
    fn state<'a>(&'a self, choice: &'a Choice) -> State<'a> {
        let at = if choice.offset == IN_ARENA {
            self.reference().state()
        } else {
            core::ptr::from_ref(self).cast::<u8>().wrapping_add(choice.offset)
        };
        // SAFETY: the lock is borrowed, its tag says that the state is of this choice, and so does the slot's index.
        unsafe { State::new(at, &self.generation, choice) }
    }

    #[inline(always)]
    fn reference(&self) -> Reference {
        Reference::kept_in(&self.words[0])
    }

    /// What to do with a lock of ours that was moved or copied here. Where the side table is full, it is glibc's afterwards.
    #[cold]
    #[inline(never)]
    fn find_own_slot(&self) {
        let held = self.writer.load(Relaxed) != 0;
        RWLOCKS.find_own_slot(&self.tag, &self.words[0], self.address(), held, || self.clear());
    }

    /// Makes it a free lock, ours or glibc's.
    fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
        self.writers.0.store(0, Relaxed);
        self.writer.store(0, Relaxed);
    }

    fn refusal(&self) -> Option<Refusal> {
        (self.shared.load(Relaxed) != 0).then_some(Refusal::ProcessShared)
    }

    /// The choice of a lock that is ours, which is decided now if it was not.
    #[cold]
    fn decided(&self, caller: usize) -> Option<&'static Choice> {
        RWLOCKS.decided(&self.tag, self.address(), caller, self.refusal(), &self.words[0])
    }

    #[inline(always)]
    fn lock(&self, mode: Mode, patience: Patience, caller: usize) -> c_int {
        match self.choice() {
            Some(choice) => self.lock_ours(choice, mode, patience, caller),
            // SAFETY: the caller's arguments, passed on.
            None if RWLOCKS.passed_on() => unsafe { self.real_lock(mode, patience) },
            None => self.lock_elsewhere(mode, patience, caller),
        }
    }

    #[inline(always)]
    fn lock_ours(&self, choice: &Choice, mode: Mode, patience: Patience, caller: usize) -> c_int {
        if choice.offset == IN_ARENA && !self.reference().is_of(self.address()) {
            self.find_own_slot();
            if self.choice().is_none() {
                return self.lock_elsewhere(mode, patience, caller);
            }
        }
        // glibc checks the time first, whether or not it will be needed.
        if let Patience::Until(time) = patience
            && time.deadline().is_none()
        {
            return libc::EINVAL;
        }
        let thread = thread::current();
        if recorder::enabled() {
            let entered = self.enter::<true>(choice, mode, patience, thread);
            return self.record(thread, mode, entered, caller);
        }
        match self.enter::<false>(choice, mode, patience, thread) {
            Ok(_) => 0,
            Err(error) => error,
        }
    }

    #[inline(always)]
    fn enter<const RECORD: bool>(
        &self,
        choice: &Choice,
        mode: Mode,
        patience: Patience,
        thread: &Thread,
    ) -> Entered {
        let own_lock = if matches!(patience, Patience::Try) { libc::EBUSY } else { libc::EDEADLK };
        if self.writer.load(Relaxed) == thread.identity() {
            return Err(own_lock);
        }
        let (state, address) = (self.state(choice), self.address());
        match mode {
            Mode::Shared => {
                let behind_writers = self.flags.load(Relaxed) == NONRECURSIVE
                    || choice.writers_first && !thread.reads.may_hold(address);
                let waited = if behind_writers {
                    self.enter_behind_writers::<RECORD>(state, patience)?
                } else {
                    state.enter_shared::<RECORD>(patience, true)?
                };
                thread.reads.add(address);
                Ok(waited)
            }
            Mode::Exclusive => {
                let waited = if thread.reads.holds(address) && !HANDED_ON.load(Relaxed) {
                    let waited = self.enter_after_own_read::<RECORD>(choice, state, patience)?;
                    thread.reads.forget(address); // the list was wrong
                    waited
                } else {
                    self.enter_exclusive::<RECORD>(choice, state, patience)?
                };
                self.writer.store(thread.identity(), Relaxed);
                Ok(waited)
            }
        }
    }

    /// A reader that waits for writers that wait.
    #[inline(never)]
    fn enter_behind_writers<const RECORD: bool>(&self, state: State<'_>, patience: Patience) -> Entered {
        let timeout = match patience {
            _ if !self.writers.any() => return state.enter_shared::<RECORD>(patience, false),
            Patience::Try => return Err(libc::EBUSY),
            Patience::Wait => Timeout::NONE,
            Patience::Until(time) => Timeout::at(time.deadline().ok_or(libc::EINVAL)?),
        };
        let started = RECORD.then(recorder::stamp);
        self.writers.wait_for_none(timeout).map_err(|GaveUp| libc::ETIMEDOUT)?;
        state.enter_shared::<RECORD>(patience, false)?;
        Ok(started)
    }

    #[inline(always)]
    fn enter_exclusive<const RECORD: bool>(
        &self,
        choice: &Choice,
        state: State<'_>,
        patience: Patience,
    ) -> Entered {
        if choice.writers_first || self.flags.load(Relaxed) == NONRECURSIVE {
            self.enter_before_readers::<RECORD>(state, patience)
        } else {
            state.enter::<RECORD>(patience)
        }
    }

    /// A writer that reads, by its thread's list: it waits for itself. But the list is wrong where there was another lock at this address,
    /// and where another thread is to give up the read lock and has not come to it. So this waits for a while, and then it is a deadlock.
    #[cold]
    #[inline(never)]
    fn enter_after_own_read<const RECORD: bool>(
        &self,
        choice: &Choice,
        state: State<'_>,
        patience: Patience,
    ) -> Entered {
        let own = match patience {
            Patience::Try => return self.enter_exclusive::<RECORD>(choice, state, patience),
            Patience::Wait => None,
            Patience::Until(time) => Some(time.deadline().ok_or(libc::EINVAL)?),
        };
        let clock = own.map_or(Clock::Monotonic, |deadline| deadline.clock);
        let late = Deadline { clock, at_ns: Patient::clock_ns(clock).saturating_add(DEADLOCK_NS) };
        let first = own.filter(|own| own.at_ns < late.at_ns);
        match self.enter_exclusive::<RECORD>(choice, state, Patience::Until(Time::at(first.unwrap_or(late))))
        {
            Err(libc::ETIMEDOUT) if first.is_some() => Err(libc::ETIMEDOUT),
            Err(libc::ETIMEDOUT) if HANDED_ON.load(Relaxed) => {
                self.enter_exclusive::<RECORD>(choice, state, patience)
            }
            Err(libc::ETIMEDOUT) => Err(libc::EDEADLK),
            entered => entered,
        }
    }

    /// A writer that readers wait for.
    #[inline(never)]
    fn enter_before_readers<const RECORD: bool>(&self, state: State<'_>, patience: Patience) -> Entered {
        let attempt = state.enter::<RECORD>(Patience::Try);
        if attempt.is_ok() || matches!(patience, Patience::Try) {
            return attempt;
        }
        self.writers.enter();
        let entered = state.enter::<RECORD>(patience);
        self.writers.leave();
        entered
    }

    #[inline(never)]
    fn record(&self, thread: &Thread, mode: Mode, entered: Entered, caller: usize) -> c_int {
        let call = Call::new(self.address(), caller);
        state::record(entered, thread, &self.trace, ObjectKind::Rwlock, mode, call)
    }

    /// In which mode the caller holds the lock. While a thread writes no other thread can be in.
    #[inline(always)]
    fn mode(&self) -> Mode {
        if self.writer.load(Relaxed) != 0 { Mode::Exclusive } else { Mode::Shared }
    }

    #[inline(always)]
    fn unlock(&self) -> c_int {
        let Some(choice) = self.choice() else {
            if RWLOCKS.passed_on() {
                // SAFETY: the caller's argument, passed on.
                return unsafe { real::pthread_rwlock_unlock(self.object()) };
            }
            return self.unlock_elsewhere();
        };
        let state = self.state(choice);
        match self.mode() {
            Mode::Exclusive => {
                self.note_release(Mode::Exclusive);
                self.writer.store(0, Relaxed);
                state.leave();
            }
            Mode::Shared if !thread::current().reads.remove(self.address()) => self.give_up_unknown(state),
            Mode::Shared => {
                self.note_release(Mode::Shared);
                state.leave_shared();
            }
        }
        0
    }

    /// The caller, who holds the lock so, is about to give it up.
    #[inline(always)]
    fn note_release(&self, mode: Mode) {
        if recorder::enabled() {
            recorder::releasing(thread::current().recording(), &self.trace, mode);
        }
    }

    /// Gives up a read lock that the caller is not known to hold.
    #[cold]
    #[inline(never)]
    fn give_up_unknown(&self, state: State<'_>) {
        if state.is_free() {
            return misuse::unlocked_while_free(ObjectKind::Rwlock, self.address());
        }
        HANDED_ON.store(true, Relaxed);
        self.note_release(Mode::Shared);
        state.leave_shared();
    }

    #[inline(never)]
    fn lock_elsewhere(&self, mode: Mode, patience: Patience, caller: usize) -> c_int {
        if !RWLOCKS.watched() {
            if !choice::known() {
                self.tag.set(Owner::Glibc); // as with mutexes
            } else {
                RWLOCKS.not_asked_for();
            }
            // SAFETY: the caller's arguments, passed on.
            return unsafe { self.real_lock(mode, patience) };
        }
        if let Some(choice) = self.decided(caller) {
            return self.lock_ours(choice, mode, patience, caller);
        }
        if !recorder::enabled() || self.refusal().is_some() {
            // SAFETY: the caller's arguments, passed on.
            return unsafe { self.real_lock(mode, patience) };
        }
        // SAFETY: the caller's arguments, passed on.
        let entered = unsafe { self.real_enter(mode, patience, caller) };
        self.record(thread::current(), mode, entered, caller)
    }

    #[inline(never)]
    fn unlock_elsewhere(&self) -> c_int {
        if self.tag.is_glibcs() && self.refusal().is_none() {
            self.note_release(self.mode());
        }
        if RWLOCKS.swaps() && self.is_unused() {
            misuse::unlocked_while_free(ObjectKind::Rwlock, self.address());
            return 0;
        }
        // SAFETY: the caller's argument, passed on.
        unsafe { real::pthread_rwlock_unlock(self.object()) }
    }

    /// Whether no thread has locked it, here or in the C library: glibc would write what is not ours to understand into it.
    fn is_unused(&self) -> bool {
        self.tag.is_undecided() && self.words.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// # Safety
    /// As POSIX says.
    #[inline(always)]
    unsafe fn real_lock(&self, mode: Mode, patience: Patience) -> c_int {
        let lock = self.object();
        // SAFETY: the caller's promise.
        unsafe {
            match (mode, patience) {
                (Mode::Shared, Patience::Wait) => real::pthread_rwlock_rdlock(lock),
                (Mode::Shared, Patience::Try) => real::pthread_rwlock_tryrdlock(lock),
                (Mode::Shared, Patience::Until(time)) if time.clock == libc::CLOCK_REALTIME => {
                    real::pthread_rwlock_timedrdlock(lock, time.raw())
                }
                (Mode::Shared, Patience::Until(time)) => {
                    real::pthread_rwlock_clockrdlock(lock, time.clock, time.raw())
                }
                (Mode::Exclusive, Patience::Wait) => real::pthread_rwlock_wrlock(lock),
                (Mode::Exclusive, Patience::Try) => real::pthread_rwlock_trywrlock(lock),
                (Mode::Exclusive, Patience::Until(time)) if time.clock == libc::CLOCK_REALTIME => {
                    real::pthread_rwlock_timedwrlock(lock, time.raw())
                }
                (Mode::Exclusive, Patience::Until(time)) => {
                    real::pthread_rwlock_clockwrlock(lock, time.clock, time.raw())
                }
            }
        }
    }

    /// # Safety
    /// As POSIX says.
    unsafe fn real_enter(&self, mode: Mode, patience: Patience, caller: usize) -> Entered {
        if let Patience::Until(time) = patience
            && time.deadline().is_none()
        {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let enter = |patience| unsafe { self.real_lock(mode, patience) };
        match (enter(Patience::Try), patience) {
            (0, _) => Ok(None),
            (libc::EBUSY, Patience::Wait | Patience::Until(_)) => {
                let recorded = thread::current().recording();
                let call = Call::new(self.address(), caller);
                let wait = || enter(patience);
                match recorder::while_waiting(recorded, &self.trace, ObjectKind::Rwlock, mode, call, wait) {
                    (started, 0) => Ok(Some(started)),
                    (_, error) => Err(error),
                }
            }
            (error, _) => Err(error),
        }
    }

    #[cold]
    fn destroy(&self) -> c_int {
        let choice = self.choice();
        if recorder::enabled() && (choice.is_some() || self.tag.is_glibcs()) && self.refusal().is_none() {
            recorder::destroyed(&self.trace);
        }
        let Some(choice) = choice else {
            // SAFETY: the caller's argument, passed on.
            let error = unsafe { real::pthread_rwlock_destroy(self.object()) };
            if RWLOCKS.watched() {
                self.tag.set(Owner::Undecided);
            }
            return error;
        };
        thread::current().reads.forget(self.address());
        if choice.offset == IN_ARENA {
            arena::release(self.reference(), self.address());
        }
        // As glibc's, a lock that was destroyed while free is a fresh one.
        self.clear();
        self.tag.set(Owner::Undecided);
        0
    }
}

/// In the child of a fork, of whose threads the one that forked is left: of the readers of the locks that it reads under, too.
/// Where the thread's list may be wrong, they stay what they were.
pub(crate) fn keep_own_reads(thread: &Thread) {
    if HANDED_ON.load(Relaxed) {
        return;
    }
    thread.reads.each(|address, count| {
        // SAFETY: the lock is held, since no thread but its readers has given up a read lock: so it is alive.
        let lock = unsafe { Rwlock::at(address as *mut pthread_rwlock_t) };
        if let Some(choice) = lock.choice() {
            let state = lock.state(choice);
            // A lock that was assigned anew meanwhile is free, and not read by any thread.
            if !state.is_free() {
                state.keep_reads_only(count);
            }
        }
    });
}

// The functions behind the exported names. The last argument of each is the address that the call returns to.
//
// SAFETY, of all of them: POSIX asks the callers for a lock that is alive, and for times that can be read.

pub(crate) unsafe extern "C-unwind" fn init(
    lock: *mut pthread_rwlock_t,
    attributes: *const pthread_rwlockattr_t,
    caller: usize,
) -> c_int {
    // SAFETY: passed on.
    let error = unsafe { real::pthread_rwlock_init(lock, attributes) };
    if error == 0 && RWLOCKS.watched() {
        // SAFETY: see above. glibc has zeroed it but for its attributes.
        let lock = unsafe { Rwlock::at(lock) };
        thread::current().reads.forget(lock.address()); // what was there before
        let wanted = site::choice(ObjectKind::Rwlock, lock.address(), caller, site::Call::Initialises);
        lock.tag.set(wanted.map_or(Owner::Initialised, Owner::Wanted));
        if recorder::enabled() && lock.refusal().is_none() {
            recorder::initialised(&lock.trace);
        }
    }
    error
}

pub(crate) unsafe extern "C-unwind" fn destroy(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { Rwlock::at(lock) }.destroy()
}

pub(crate) unsafe extern "C-unwind" fn rdlock(lock: *mut pthread_rwlock_t, caller: usize) -> c_int {
    // SAFETY: see above.
    unsafe { Rwlock::at(lock) }.lock(Mode::Shared, Patience::Wait, caller)
}

pub(crate) unsafe extern "C-unwind" fn wrlock(lock: *mut pthread_rwlock_t, caller: usize) -> c_int {
    // SAFETY: see above.
    unsafe { Rwlock::at(lock) }.lock(Mode::Exclusive, Patience::Wait, caller)
}

pub(crate) unsafe extern "C-unwind" fn tryrdlock(lock: *mut pthread_rwlock_t, caller: usize) -> c_int {
    // SAFETY: see above.
    unsafe { Rwlock::at(lock) }.lock(Mode::Shared, Patience::Try, caller)
}

pub(crate) unsafe extern "C-unwind" fn trywrlock(lock: *mut pthread_rwlock_t, caller: usize) -> c_int {
    // SAFETY: see above.
    unsafe { Rwlock::at(lock) }.lock(Mode::Exclusive, Patience::Try, caller)
}

pub(crate) unsafe extern "C-unwind" fn timedrdlock(
    lock: *mut pthread_rwlock_t,
    time: *const timespec,
    caller: usize,
) -> c_int {
    // SAFETY: passed on.
    unsafe { clockrdlock(lock, libc::CLOCK_REALTIME, time, caller) }
}

pub(crate) unsafe extern "C-unwind" fn timedwrlock(
    lock: *mut pthread_rwlock_t,
    time: *const timespec,
    caller: usize,
) -> c_int {
    // SAFETY: passed on.
    unsafe { clockwrlock(lock, libc::CLOCK_REALTIME, time, caller) }
}

pub(crate) unsafe extern "C-unwind" fn clockrdlock(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    time: *const timespec,
    caller: usize,
) -> c_int {
    // SAFETY: see above.
    let (lock, patience) = unsafe { (Rwlock::at(lock), Patience::until(clock, time)) };
    patience.map_or_else(|error| error, |patience| lock.lock(Mode::Shared, patience, caller))
}

pub(crate) unsafe extern "C-unwind" fn clockwrlock(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    time: *const timespec,
    caller: usize,
) -> c_int {
    // SAFETY: see above.
    let (lock, patience) = unsafe { (Rwlock::at(lock), Patience::until(clock, time)) };
    patience.map_or_else(|error| error, |patience| lock.lock(Mode::Exclusive, patience, caller))
}

pub(crate) unsafe extern "C-unwind" fn unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { Rwlock::at(lock) }.unlock()
}
