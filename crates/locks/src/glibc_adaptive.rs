//! glibc's adaptive mutex.
//!
//! | word    | written by          | meaning                                                              |
//! |---------|---------------------|----------------------------------------------------------------------|
//! | `mutex` |                     | the word of [`GlibcMutex`]                                           |
//! | `spins` | the holder alone    | moving average of the pauses that acquirers made before they got in, an eighth of the way at a time |
//!
//! An acquirer that finds the lock held pauses and polls, for twice the average and ten pauses at most, and never for more than
//! 100 in all; then it sleeps as at the plain mutex. Between two polls lie 1, 2, 4, 8, then always 16 pauses, and up to as many
//! again by chance.
//! Order: none; a waiter may be bypassed without bound. Any thread may release.
//! Source: `PTHREAD_MUTEX_ADAPTIVE_NP` of glibc 2.36 on x86-64, whose limit is the tunable `glibc.pthread.mutex_spin_count`; the
//! back-off between polls came with 2.36 (2022). There a timed acquisition polls after every pause; here both are alike.

use machine::Ordering::Relaxed;
use machine::{GaveUp, Machine, Patient, Timeout, Word};

use crate::{GlibcMutex, RawLock, TimedLock, TryLock};

/// Pauses of one acquisition at most: the default of the tunable.
const MOST_SPINS: u32 = 100;

/// Pauses between two polls at most, but for those by chance.
const MOST_BACK_OFF: u32 = 16;

/// What a `pause` takes: 40 to 140 cycles on x86-64 processors since 2015, less on earlier ones.
const PAUSE_CYCLES: u64 = 64;

/// glibc's adaptive mutex, 8 bytes of it.
pub struct GlibcAdaptive<M: Machine = Patient> {
    mutex: GlibcMutex<M>,
    spins: M::U32,
}

const _: () = assert!(size_of::<GlibcAdaptive>() == 8);

impl<M: Machine> GlibcAdaptive<M> {
    #[cold]
    #[inline(never)]
    fn spin_then_sleep(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let most = self.spins.load(Relaxed).saturating_mul(2).saturating_add(10).min(MOST_SPINS);
        let chance = M::now() as u32; // low bits of a counter that other threads read at another time
        let (mut spun, mut back_off) = (0, 1);
        loop {
            let pauses = back_off + (chance & (back_off - 1));
            spun += pauses;
            if spun >= most {
                self.mutex.acquire_or(timeout)?;
                break;
            }
            M::delay(u64::from(pauses) * PAUSE_CYCLES);
            back_off = (2 * back_off).min(MOST_BACK_OFF);
            if self.mutex.poll_and_take() {
                break;
            }
        }
        // Relaxed: an estimate that nothing but the length of a wait depends on.
        let average = self.spins.load(Relaxed).cast_signed();
        let moved = average + (spun.cast_signed() - average) / 8;
        self.spins.store(moved.cast_unsigned(), Relaxed);
        Ok(())
    }
}

// SAFETY: held while the mutex is.
unsafe impl<M: Machine> RawLock<M> for GlibcAdaptive<M> {
    const NEW: Self = Self { mutex: GlibcMutex::NEW, spins: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        // SAFETY: by the caller.
        unsafe { self.mutex.release() };
    }

    fn is_idle(&self) -> bool {
        self.mutex.is_idle()
    }
}

// SAFETY: true only if the mutex, which excludes, was acquired.
unsafe impl<M: Machine> TryLock<M> for GlibcAdaptive<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.mutex.try_acquire()
    }
}

// SAFETY: `Ok` only if the mutex, which excludes, was acquired.
unsafe impl<M: Machine> TimedLock<M> for GlibcAdaptive<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        if self.mutex.take_when_free() { Ok(()) } else { self.spin_then_sleep(timeout) }
    }
}
