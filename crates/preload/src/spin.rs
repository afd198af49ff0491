//! `pthread_spin_*`.
//!
//! A spin lock is four bytes, and glibc uses them all. Ours are those that `pthread_spin_init` made, private to the process;
//! their state lies in the arena.
//!
//! | value of the word       | meaning                                                                              |
//! |-------------------------|--------------------------------------------------------------------------------------|
//! | 1, 0, small negatives   | glibc's: free, held, waited for (x86-64; elsewhere 0 is free and 1 held)                |
//! | `01cc ccnn nnnn … nnnn` | ours: choice c (4 bits), reference n to an arena slot (26 bits)                       |
//!
//! A lock that `pthread_spin_init` never saw stays glibc's: its bytes may be those of a lock shared with a process that this
//! library is not in.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use libc::pthread_spinlock_t;
use pthread::object::ObjectKind;

use crate::arena::{self, Reference, StateSlot};
use crate::choice::{CHOICES, Choice, SPINS};
use crate::recorder::{self, Call, Mode, Refusal, Trace};
use crate::state::{self, Entered, Patience, State};
use crate::tag::Initialisation;
use crate::{misuse, real, site, thread};

const OURS: u32 = 1 << 30;
const OURS_MASK: u32 = 3 << 30;
const SLOT_BITS: u32 = 26;
const SLOT: u32 = (1 << SLOT_BITS) - 1;

const _: () = assert!(size_of::<pthread_spinlock_t>() == 4);
const _: () = assert!(arena::REFERENCE_BITS <= SLOT_BITS && CHOICES <= 16);

/// A spin lock, ours or glibc's.
#[repr(transparent)]
struct Spin(AtomicU32);

/// A spin lock of ours.
struct Ours {
    reference: Reference,
    choice: &'static Choice,
}

impl Ours {
    #[inline(always)]
    fn state(&self) -> State<'static> {
        let generation = &self.slot().generation;
        // SAFETY: the word says that the slot is of this choice.
        unsafe { State::new(self.reference.state(), generation, self.choice) }
    }

    #[inline(always)]
    fn slot(&self) -> &'static StateSlot {
        self.reference.slot()
    }
}

impl Spin {
    /// The lock at an address.
    ///
    /// # Safety
    /// It is one, and lives as long as the result is used.
    #[inline(always)]
    unsafe fn at<'a>(spin: *mut pthread_spinlock_t) -> &'a Self {
        // SAFETY: the caller's promise.
        unsafe { &*spin.cast::<Self>() }
    }

    fn object(&self) -> *mut pthread_spinlock_t {
        self.0.as_ptr().cast()
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    #[inline(always)]
    fn ours(&self) -> Option<Ours> {
        let value = self.0.load(Acquire); // [1] from `find_own_slot`
        if value & OURS_MASK != OURS {
            return None;
        }
        let choice = SPINS.choice((value >> SLOT_BITS & 15) as usize);
        Some(Ours { reference: Reference(value & SLOT), choice })
    }

    /// A lock that was moved or copied refers to the slot of the one that it was. It counts as free: its word does not say
    /// whether it was held then, since a word that is written at each acquisition would cost a line transfer. Where the side
    /// table is full, it is glibc's from now on.
    #[cold]
    #[inline(never)]
    fn find_own_slot(&self) -> Option<Ours> {
        Initialisation::alone(|_| {
            let ours = self.ours()?;
            if let Some(own) = ours.reference.moved_to(self.address(), false) {
                let value = self.0.load(Relaxed) & !SLOT | own.0;
                self.0.store(value, Release); // [1] to `ours`: the slot is a free lock
            } else {
                SPINS.leave(Refusal::Other);
                // SAFETY: the lock is alive; this writes the word of a free lock.
                unsafe { real::pthread_spin_init(self.object(), libc::PTHREAD_PROCESS_PRIVATE) };
            }
            self.ours()
        })
    }

    /// The lock if it is ours, to be acquired.
    #[inline(always)]
    fn ours_here(&self) -> Option<Ours> {
        let ours = self.ours()?;
        if ours.reference.is_of(self.address()) { Some(ours) } else { self.find_own_slot() }
    }

    #[cold]
    fn init(&self, shared: c_int, caller: usize) -> c_int {
        if shared == libc::PTHREAD_PROCESS_PRIVATE && SPINS.swaps() {
            let wanted = SPINS.wanted(self.address(), caller, site::Call::Initialises);
            if wanted.is_none() {
                SPINS.not_chosen();
            }
            if let Some(value) = wanted.and_then(|number| Initialisation::alone(|_| self.value(number))) {
                self.0.store(value, Relaxed);
                if recorder::enabled()
                    && let Some(ours) = self.ours()
                {
                    recorder::initialised(&ours.slot().trace);
                }
                return 0;
            }
        } else if SPINS.watched() && shared != libc::PTHREAD_PROCESS_PRIVATE {
            SPINS.leave(Refusal::ProcessShared);
        } else if !SPINS.swaps() {
            SPINS.not_chosen();
        }
        // SAFETY: the caller's arguments, passed on.
        let error = unsafe { real::pthread_spin_init(self.object(), shared) };
        if error == 0
            && recorder::enabled()
            && let Some(trace) = arena::trace_of_new(self.address())
        {
            recorder::initialised(trace);
        }
        error
    }

    /// The value of a fresh lock of ours, with this choice; `None` where the side table is full.
    fn value(&self, number: u8) -> Option<u32> {
        let mut value = None;
        SPINS.make_ours(SPINS.choice(usize::from(number)), self.address(), |slot| {
            value = Some(OURS | u32::from(number) << SLOT_BITS | slot.0);
        });
        value
    }

    #[inline(always)]
    fn lock(&self, patience: Patience, caller: usize) -> c_int {
        let Some(ours) = self.ours_here() else { return self.lock_glibc(patience, caller) };
        let entered = if recorder::enabled() {
            ours.state().enter::<true>(patience)
        } else {
            ours.state().enter::<false>(patience)
        };
        if entered.is_ok() {
            ours.slot().held.store(1, Relaxed);
        }
        if recorder::enabled() {
            return self.record(&ours.slot().trace, entered, caller);
        }
        entered.err().unwrap_or(0)
    }

    fn record(&self, trace: &Trace, entered: Entered, caller: usize) -> c_int {
        let call = Call::new(self.address(), caller);
        state::record(entered, thread::current(), trace, ObjectKind::Spin, Mode::Exclusive, call)
    }

    #[inline(never)]
    fn lock_glibc(&self, patience: Patience, caller: usize) -> c_int {
        let trace = if recorder::enabled() { arena::trace(self.address()) } else { None };
        // SAFETY: the caller's argument, passed on.
        let attempt = || unsafe { real::pthread_spin_trylock(self.object()) };
        // SAFETY: the caller's argument, passed on.
        let wait = || unsafe { real::pthread_spin_lock(self.object()) };
        let Some(trace) = trace else {
            return if matches!(patience, Patience::Wait) { wait() } else { attempt() };
        };
        let entered = match (attempt(), patience) {
            (0, _) => Ok(None),
            (_, Patience::Wait) => {
                let recorded = thread::current().recording();
                let (kind, mode) = (ObjectKind::Spin, Mode::Exclusive);
                let call = Call::new(self.address(), caller);
                let (started, _) = recorder::while_waiting(recorded, trace, kind, mode, call, wait);
                Ok(Some(started))
            }
            (error, _) => Err(error),
        };
        self.record(trace, entered, caller)
    }

    #[inline(always)]
    fn unlock(&self) -> c_int {
        let Some(ours) = self.ours() else { return self.unlock_glibc() };
        let slot = ours.slot();
        if slot.held.load(Relaxed) == 0 {
            misuse::unlocked_while_free(ObjectKind::Spin, self.address());
            return 0; // as glibc
        }
        slot.held.store(0, Relaxed);
        if recorder::enabled() {
            recorder::releasing(thread::current().recording(), &slot.trace, Mode::Exclusive);
        }
        ours.state().leave();
        0
    }

    #[inline(never)]
    fn unlock_glibc(&self) -> c_int {
        if recorder::enabled()
            && let Some(trace) = arena::trace(self.address())
        {
            recorder::releasing(thread::current().recording(), trace, Mode::Exclusive);
        }
        // SAFETY: the caller's argument, passed on.
        unsafe { real::pthread_spin_unlock(self.object()) }
    }

    #[cold]
    fn destroy(&self) -> c_int {
        match self.ours() {
            Some(ours) => {
                if ours.reference.is_of(self.address()) {
                    recorder::destroyed(&ours.slot().trace);
                    arena::release(ours.reference, self.address());
                }
                self.0.store(0, Relaxed);
            }
            None if recorder::enabled() => {
                if let Some(trace) = arena::known_trace(self.address()) {
                    recorder::destroyed(trace);
                    arena::forget(self.address());
                }
            }
            None => {} // glibc's destroy writes nothing: another process may use it still
        }
        0
    }
}

// The functions behind the exported names. The last argument of those that have `caller` is the address that the call returns to.
//
// SAFETY, of all of them: POSIX asks the callers for a lock that is alive.

pub(crate) unsafe extern "C-unwind" fn init(
    spin: *mut pthread_spinlock_t,
    shared: c_int,
    caller: usize,
) -> c_int {
    // SAFETY: see above.
    unsafe { Spin::at(spin) }.init(shared, caller)
}

pub(crate) unsafe extern "C-unwind" fn destroy(spin: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { Spin::at(spin) }.destroy()
}

pub(crate) unsafe extern "C-unwind" fn lock(spin: *mut pthread_spinlock_t, caller: usize) -> c_int {
    // SAFETY: see above.
    unsafe { Spin::at(spin) }.lock(Patience::Wait, caller)
}

pub(crate) unsafe extern "C-unwind" fn trylock(spin: *mut pthread_spinlock_t, caller: usize) -> c_int {
    // SAFETY: see above.
    unsafe { Spin::at(spin) }.lock(Patience::Try, caller)
}

pub(crate) unsafe extern "C-unwind" fn unlock(spin: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { Spin::at(spin) }.unlock()
}
