//! What a wait does between two looks at its word.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use super::futex;
use crate::{Deadline, Plain, Word};

/// How far a wait has got.
#[derive(Default)]
pub struct Round(u32);

/// What a wait does between two looks, and what a write does for those who wait.
pub trait Patience: Copy + Send + Sync + 'static {
    /// The start of a wait.
    #[inline]
    fn round() -> Round {
        Round::default()
    }

    /// Between two looks at `word`, which held `seen` at the last one.
    fn pause<W: Word>(round: &mut Round, word: &W, seen: W::Value, deadline: Option<Deadline>);

    /// Whether the next pause may sleep, so that it has to know what the word held.
    fn may_sleep(round: &Round) -> bool;

    /// Between two looks at more than one word.
    fn pause_between(round: &mut Round);

    /// Instead of a back-off of so many cycles; true asks the caller to pass them spinning.
    fn back_off(round: &mut Round, cycles: u64) -> bool;

    /// After a write of `word`.
    fn written<W: Word>(word: &W);
}

/// Spins as long as it takes.
#[derive(Clone, Copy)]
pub struct Spinning;

impl Patience for Spinning {
    #[inline]
    fn pause<W: Word>(_: &mut Round, _: &W, _: W::Value, _: Option<Deadline>) {
        spin_loop();
    }

    #[inline]
    fn may_sleep(_: &Round) -> bool {
        false
    }

    #[inline]
    fn pause_between(_: &mut Round) {
        spin_loop();
    }

    #[inline]
    fn back_off(_: &mut Round, _: u64) -> bool {
        true
    }

    #[inline]
    fn written<W: Word>(_: &W) {}
}

/// Spins up to a bound, then yields, then sleeps.
///
/// A sleeper counts itself in a small table by the address of its word, and sleeps on the word itself; whoever
/// writes a word looks into the table and wakes its sleepers. The writer puts no fence between its write and that
/// look, since releases must stay cheap: the sleeper pays instead, by `membarrier`, which puts a fence into every
/// running thread of the process. Where the kernel refuses that, a sleep lasts 2 ms at most.
#[derive(Clone, Copy)]
pub struct Sleeping;

/// Pauses before the first yield. A processor's pause takes 40 to 140 cycles, so this is some microseconds: more
/// than a hand-over between running threads, less than a time slice.
static SPIN_BOUND: AtomicU32 = AtomicU32::new(128);

/// Yields before the first sleep. A yield takes a microsecond at most, waking a sleeper on an idle core tens of them; where
/// threads queue for cores as well as for the lock, the turn comes sooner by yielding.
const YIELDS: u32 = 100;

/// The longest sleep, in nanoseconds. Insurance only: a sleeper is woken by the write that it waits for.
const BACKSTOP_NS: u64 = 2_000_000;

/// Sets how many pauses a wait of [`Sleeping`] makes before it yields; `u32::MAX` never yields.
pub fn set_spin_bound(pauses: u32) {
    SPIN_BOUND.store(pauses, Ordering::Relaxed);
}

const BUCKETS: usize = 256;

/// How many sleep on words that fall into each bucket. Written by sleepers only.
static SLEEPERS: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

#[inline]
fn sleepers_at(address: usize) -> &'static AtomicU32 {
    let mixed = (address >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
    &SLEEPERS[mixed >> (usize::BITS - BUCKETS.ilog2())]
}

/// The four bytes of a word that a sleeper watches: the least significant ones.
#[inline]
fn watched<W: Word>(word: &W) -> *const AtomicU32 {
    let start = core::ptr::from_ref(word).cast::<AtomicU32>();
    if cfg!(target_endian = "big") && size_of::<W>() == 8 { start.wrapping_add(1) } else { start }
}

impl Sleeping {
    /// True while the wait should go on spinning or has just yielded; false when it is time to sleep.
    #[inline]
    fn spin_or_yield(round: &mut Round) -> bool {
        let bound = SPIN_BOUND.load(Ordering::Relaxed);
        if round.0 < bound {
            round.0 = round.0.saturating_add(u32::from(bound != u32::MAX));
            spin_loop();
            return true;
        }
        Self::yield_until_tired(round, bound)
    }

    #[cold]
    fn yield_until_tired(round: &mut Round, bound: u32) -> bool {
        if round.0 - bound < YIELDS {
            round.0 += 1;
            futex::yield_now();
            return true;
        }
        false
    }

    /// Sleeps on `word` while it holds `seen`, as far as the half that is watched can tell.
    #[cold]
    fn sleep_on<W: Word>(word: &W, seen: W::Value, deadline: Option<Deadline>) {
        let at = watched(word);
        let sleepers = sleepers_at(at as usize);
        sleepers.fetch_add(1, Ordering::SeqCst);
        futex::fence_everyone();
        // SAFETY: `at` lies inside the word, which is borrowed.
        futex::sleep_bounded(unsafe { &*at }, seen.to_bits() as u32, deadline, BACKSTOP_NS);
        sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Patience for Sleeping {
    #[inline]
    fn pause<W: Word>(round: &mut Round, word: &W, seen: W::Value, deadline: Option<Deadline>) {
        if !Self::spin_or_yield(round) {
            Self::sleep_on(word, seen, deadline);
        }
    }

    #[inline]
    fn may_sleep(round: &Round) -> bool {
        let bound = SPIN_BOUND.load(Ordering::Relaxed);
        round.0.saturating_sub(bound) >= YIELDS
    }

    #[inline]
    fn pause_between(round: &mut Round) {
        if !Self::spin_or_yield(round) {
            futex::nap(BACKSTOP_NS / 40);
        }
    }

    #[inline]
    fn back_off(round: &mut Round, cycles: u64) -> bool {
        let bound = SPIN_BOUND.load(Ordering::Relaxed);
        if bound == u32::MAX {
            return true;
        }
        // A pause is taken as 64 cycles here; only the order of magnitude matters.
        round.0 = round
            .0
            .saturating_add(u32::try_from(cycles / 64).unwrap_or(u32::MAX / 2).max(1))
            .min(bound.saturating_add(YIELDS));
        if round.0 < bound {
            return true;
        }
        if round.0 < bound + YIELDS {
            futex::yield_now();
        } else {
            futex::nap(BACKSTOP_NS / 40);
        }
        false
    }

    #[inline]
    fn written<W: Word>(word: &W) {
        let at = watched(word);
        compiler_fence(Ordering::SeqCst);
        if sleepers_at(at as usize).load(Ordering::Relaxed) != 0 {
            wake_sleepers(at);
        }
    }
}

#[cold]
#[inline(never)]
fn wake_sleepers(at: *const AtomicU32) {
    futex::wake(at, u32::MAX >> 1);
}
