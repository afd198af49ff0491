//! `pthread_spin_*`.
//!
//! A spin lock is four bytes, and glibc uses them all. Ours are those that `pthread_spin_init` made, private to the process;
//! their state lies in the arena.
//!
//! | value of the word       | meaning                                                                              |
//! |-------------------------|--------------------------------------------------------------------------------------|
//! | 1, 0, small negatives   | glibc's: free, held, waited for (x86-64; elsewhere 0 is free and 1 held)                |
//! | `01cc ccnn nnnn … nnnn` | ours: choice c (4 bits), arena slot n (26 bits)                                       |
//!
//! A lock that `pthread_spin_init` never saw stays glibc's: its bytes may be those of a lock shared with a process that this
//! library is not in.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use libc::pthread_spinlock_t;

use crate::choice::{CHOICES, Choice, SPINS, claim_slot};
use crate::recorder::{self, Kind, Mode, Refusal, Trace};
use crate::state::{Patience, State};
use crate::tag::Deciding;
use crate::{arena, real, thread};

const OURS: u32 = 1 << 30;
const OURS_MASK: u32 = 3 << 30;
const SLOT_BITS: u32 = 26;
const SLOT: u32 = (1 << SLOT_BITS) - 1;

const _: () = assert!(size_of::<pthread_spinlock_t>() == 4);
const _: () = assert!(arena::SLOTS <= 1 << SLOT_BITS && CHOICES <= 16);

/// A spin lock, ours or glibc's.
#[repr(transparent)]
struct Spin(AtomicU32);

/// A spin lock of ours.
struct Ours {
    slot: u32,
    choice: &'static Choice,
}

impl Ours {
    #[inline(always)]
    fn state(&self) -> State<'static> {
        let generation = &arena::slot(self.slot).generation;
        // SAFETY: the word says that the slot is of this choice.
        unsafe { State::new(arena::state(self.slot), generation, self.choice) }
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
        let value = self.0.load(Relaxed);
        if value & OURS_MASK != OURS {
            return None;
        }
        let choice = SPINS.choice((value >> SLOT_BITS & 15) as usize);
        Some(Ours { slot: value & SLOT, choice })
    }

    #[cold]
    fn init(&self, shared: c_int, caller: usize) -> c_int {
        if shared == libc::PTHREAD_PROCESS_PRIVATE && SPINS.swaps() {
            let wanted = SPINS.wanted(self.address(), caller);
            if wanted.is_none() {
                SPINS.not_chosen();
            }
            if let Some(value) = wanted.and_then(|number| Deciding::alone(|_| self.place(number))) {
                self.0.store(value, Relaxed);
                return 0;
            }
        } else if SPINS.watched() && shared != libc::PTHREAD_PROCESS_PRIVATE {
            SPINS.leave(Refusal::ProcessShared);
        } else if !SPINS.swaps() {
            SPINS.not_chosen();
        }
        // SAFETY: the caller's arguments, passed on.
        unsafe { real::pthread_spin_init(self.object(), shared) }
    }

    /// The value of a fresh lock of ours, with this choice; none where there is no room.
    fn place(&self, number: u8) -> Option<u32> {
        let mut value = None;
        let choice = SPINS.choice(usize::from(number));
        claim_slot(choice, self.address(), |slot| value = Some(OURS | u32::from(number) << SLOT_BITS | slot));
        match value {
            Some(_) => SPINS.swapped(choice),
            None => SPINS.leave(Refusal::Other),
        }
        value
    }

    #[inline(always)]
    fn lock(&self, patience: Patience) -> c_int {
        let Some(ours) = self.ours() else { return self.lock_glibc(patience) };
        if recorder::enabled() {
            let entered = ours.state().enter::<true>(patience);
            return self.record(&arena::slot(ours.slot).trace, entered);
        }
        match ours.state().enter::<false>(patience) {
            Ok(_) => 0,
            Err(error) => error,
        }
    }

    fn record(&self, trace: &Trace, entered: crate::state::Entered) -> c_int {
        let recorded = thread::current().recording();
        match entered {
            Ok(waited) => {
                recorder::acquired(recorded, trace, Kind::Spin, Mode::Exclusive, self.address(), waited);
            }
            Err(_) => recorder::try_failed(recorded, trace, Kind::Spin, Mode::Exclusive, self.address()),
        }
        entered.err().unwrap_or(0)
    }

    #[inline(never)]
    fn lock_glibc(&self, patience: Patience) -> c_int {
        let trace = if recorder::enabled() { arena::trace(self.address()) } else { None };
        // SAFETY: the caller's argument, passed on.
        let attempt = || unsafe { real::pthread_spin_trylock(self.object()) };
        // SAFETY: as above.
        let wait = || unsafe { real::pthread_spin_lock(self.object()) };
        let Some(trace) = trace else {
            return if matches!(patience, Patience::Wait) { wait() } else { attempt() };
        };
        let entered = match (attempt(), patience) {
            (0, _) => Ok(None),
            (_, Patience::Wait) => {
                let started = recorder::stamp();
                wait();
                Ok(Some(started))
            }
            (error, _) => Err(error),
        };
        self.record(trace, entered)
    }

    #[inline(always)]
    fn unlock(&self) -> c_int {
        let Some(ours) = self.ours() else { return self.unlock_glibc() };
        if recorder::enabled() {
            let trace = &arena::slot(ours.slot).trace;
            recorder::releasing(thread::current().recording(), trace, Mode::Exclusive);
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
        let slot = match self.ours() {
            Some(ours) => Some(ours.slot),
            None if recorder::enabled() => arena::find(self.address()),
            None => None,
        };
        if let Some(slot) = slot {
            recorder::destroyed(&arena::slot(slot).trace);
            arena::give_back(slot);
        }
        self.0.store(0, Relaxed);
        0
    }
}

// The functions behind the exported names. The last argument of `init` is the address that the call returns to.
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

pub(crate) unsafe extern "C-unwind" fn lock(spin: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { Spin::at(spin) }.lock(Patience::Wait)
}

pub(crate) unsafe extern "C-unwind" fn trylock(spin: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { Spin::at(spin) }.lock(Patience::Try)
}

pub(crate) unsafe extern "C-unwind" fn unlock(spin: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { Spin::at(spin) }.unlock()
}
