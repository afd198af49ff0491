//! What a wait does between two polls of its word.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use super::yielding::YieldCosts;
use super::{counter, futex};
use crate::{Deadline, Plain, Word};

/// How far a wait has got.
#[derive(Default)]
pub struct Round {
    /// Pauses so far, then yields.
    pauses: u32,
    /// What the yields have taken.
    yield_cycles: u64,
    /// Sleeps so far that had a bound.
    bounded_sleeps: u32,
    deadline: Option<Deadline>,
    /// A word that no sleeper watches may end the wait, too.
    cancellable: bool,
    /// The futex bits of the value that ends the wait; zero if it is not known.
    channel: u32,
    /// The wait spins until its deadline.
    spins: bool,
    /// A sleep needs a bound: what it rests on was read after the poll that failed.
    bounded: bool,
    /// The last pause was long, or went through the scheduler, so that any time may have passed.
    rescheduled: bool,
}

impl Round {
    /// Notes what besides its word may end the wait.
    #[inline]
    pub(super) fn timeout(&mut self, deadline: Option<Deadline>, cancellable: bool, spins: bool) {
        (self.deadline, self.cancellable, self.spins) = (deadline, cancellable, spins);
    }

    /// Notes a back-off of so many cycles, beside which reading the clock costs little.
    #[inline]
    pub(super) fn has_passed(&mut self, cycles: u64) {
        self.rescheduled |= cycles >= CYCLES_PER_CLOCK;
    }

    /// Bounds the sleeps of a wait by attempts. The word is loaded after an attempt has failed, so that the value slept on may be
    /// one with which the next attempt would succeed, and whose writer found no sleeper yet.
    #[inline]
    pub(super) fn by_attempts(&mut self) {
        self.bounded = true;
    }

    /// Whether any time may have passed in the last pause, so that a deadline has to be compared with the clock now.
    #[inline]
    pub(super) fn was_rescheduled(&mut self) -> bool {
        core::mem::take(&mut self.rescheduled)
    }
}

/// What a wait does between two polls, and what a write does for those who wait.
pub trait Patience: Copy + Send + Sync + 'static {
    /// The start of a wait.
    #[inline]
    fn round() -> Round {
        Round::default()
    }

    /// The start of a wait that ends with the write of a value with these low bits.
    #[inline]
    fn round_for(low_bits: u32) -> Round {
        Round { channel: channel(low_bits), ..Round::default() }
    }

    /// Between two polls of `word`, which held `seen` at the last one.
    fn pause<W: Word>(round: &mut Round, word: &W, seen: W::Value);

    /// Whether the next pause may sleep, so that it has to know what the word held.
    fn may_sleep(round: &Round) -> bool;

    /// Between two polls of more than one word.
    fn pause_between(round: &mut Round);

    /// Instead of a back-off of so many cycles from `word`, which held `seen`; true asks the caller to pass them spinning.
    fn back_off<W: Word>(round: &mut Round, cycles: u64, word: &W, seen: W::Value) -> bool;

    /// The time before an attempt that [`attempt_failed`](Patience::attempt_failed) will be told of.
    fn attempt_begins() -> u64;

    /// After an attempt that began at `started`: it may back off from the word by itself, which is a part of the wait.
    fn attempt_failed(round: &mut Round, started: u64);

    /// After a write of `word`, whose low bits are now these; none if they are as before.
    fn written<W: Word>(word: &W, low_bits: Option<u32>);
}

/// Spins as long as it takes.
#[derive(Clone, Copy)]
pub struct Spinning;

impl Patience for Spinning {
    #[inline]
    fn pause<W: Word>(_: &mut Round, _: &W, _: W::Value) {
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
    fn back_off<W: Word>(_: &mut Round, _: u64, _: &W, _: W::Value) -> bool {
        true
    }

    #[inline]
    fn attempt_begins() -> u64 {
        0
    }

    #[inline]
    fn attempt_failed(_: &mut Round, _: u64) {}

    #[inline]
    fn written<W: Word>(_: &W, _: Option<u32>) {}
}

/// Spins up to a bound, then yields, then sleeps.
///
/// A sleeper counts itself in a small table by the address of its word, and sleeps on the word itself; a thread that
/// writes a word reads the table and wakes its sleepers. The writer puts no fence between its write and that
/// read, since releases must stay cheap: the sleeper pays instead, by `membarrier`, which puts a fence into every
/// running thread of the process. So either the writer sees the count, or the kernel, which compares the word before it
/// lets the sleeper sleep, sees the write; and a sleep needs no bound. It has one, which doubles from sleep to sleep of a
/// wait, in three cases: where the kernel refuses the barrier; on a word of 64 bits, of which the kernel compares half; and in
/// a wait by attempts, which do not tell what they read.
///
/// Where yields have turned out to take a time slice each, because other threads compute, waits sleep at once for a while.
/// A wait whose deadline is a bound on spinning spins until then.
/// A wait with a deadline does not yield: a thread that yields comes back behind all others, one that sleeps is woken at
/// its deadline.
#[derive(Clone, Copy)]
pub struct Sleeping;

/// From so many cycles on a back-off is worth a look at the clock, which takes some tens of nanoseconds.
const CYCLES_PER_CLOCK: u64 = 1_000;

/// Pauses before the first yield. A processor's pause takes 40 to 140 cycles, so this is some microseconds: more
/// than a hand-over between running threads, less than a time slice.
pub const SPIN_PAUSES: u32 = 128;
static SPIN_BOUND: AtomicU32 = AtomicU32::new(SPIN_PAUSES);

/// Yields before the first sleep. A yield takes a microsecond at most, waking a sleeper on an idle core tens of them; where
/// threads queue for cores as well as for the lock, the turn comes sooner by yielding.
pub const YIELDS: u32 = 100;

/// What all yields of a wait may take, in cycles.
pub const YIELD_CYCLES: u64 = 300_000;

/// Where other threads compute, a yield takes a time slice, and a sleeper that is woken runs sooner than a thread that yields.
static YIELD_COSTS: YieldCosts = YieldCosts::new();

/// The first of the sleeps that have a bound, in nanoseconds, and how often it doubles: up to two seconds, or, where the
/// bound is all that a sleeper can rely on, to 32 ms.
const FIRST_BOUND_NS: u64 = 2_000_000;
const DOUBLINGS: u32 = 10;
const DOUBLINGS_WITHOUT_BARRIER: u32 = 4;

/// The first sleep of a wait for two words, in nanoseconds. Such a wait is for a neighbour in the middle of a few steps, so
/// that it lasts only where the neighbour does not run.
const FIRST_SLEEP_NS: u64 = 50_000;
const SLEEP_DOUBLINGS: u32 = 5;

/// Sets how many pauses a wait of [`Sleeping`] makes before it yields; `u32::MAX` never yields.
pub fn set_spin_bound(pauses: u32) {
    // The yields are counted on top of it, and only the greatest number means for ever.
    let most = u32::MAX - 1 - YIELDS;
    let bound = if pauses == u32::MAX { pauses } else { pauses.min(most) };
    SPIN_BOUND.store(bound, Ordering::Relaxed);
}

const BUCKETS: usize = 256;

/// How many sleep on words that fall into each bucket. Written by sleepers, and in the child of a fork.
static SLEEPERS: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

/// In the child of a fork: the parent's threads sleep there, and not here, where every write would have a system call to wake them.
pub fn forget_sleepers() {
    SLEEPERS.iter().for_each(|sleepers| sleepers.store(0, Ordering::Relaxed));
}

#[inline]
fn sleepers_at(address: usize) -> &'static AtomicU32 {
    let mixed = (address >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
    &SLEEPERS[mixed >> (usize::BITS - BUCKETS.ilog2())]
}

/// What the kernel knows of the value that a sleeper waits for: one of 32 bits. Only the sleepers of the bit that belongs to
/// the value written are woken, so that of a thousand sleepers on a ticket lock a release wakes thirty.
#[inline]
fn channel(low_bits: u32) -> u32 {
    1 << (low_bits % 32)
}

/// The four bytes of a word that a sleeper watches: the least significant ones.
#[inline]
fn watched<W: Word>(word: &W) -> *const AtomicU32 {
    let start = core::ptr::from_ref(word).cast::<AtomicU32>();
    if cfg!(target_endian = "big") && size_of::<W>() == 8 { start.wrapping_add(1) } else { start }
}

/// The pauses that take as long. One is taken as 64 cycles; only the order of magnitude matters.
#[inline]
fn pauses_in(cycles: u64) -> u32 {
    u32::try_from(cycles / 64).unwrap_or(u32::MAX)
}

impl Sleeping {
    /// True while the wait should go on spinning or has just yielded; false when it is time to sleep.
    #[inline]
    fn spin_or_yield(round: &mut Round) -> bool {
        let bound = SPIN_BOUND.load(Ordering::Relaxed);
        if round.pauses < bound || round.spins {
            round.pauses = round.pauses.saturating_add(u32::from(bound != u32::MAX));
            spin_loop();
            return true;
        }
        round.rescheduled = true;
        Self::yield_until_tired(round, bound)
    }

    #[cold]
    fn yield_until_tired(round: &mut Round, bound: u32) -> bool {
        if round.deadline.is_some() || round.pauses - bound >= YIELDS {
            return false;
        }
        let took = YIELD_COSTS.try_yield(counter::cycles, futex::yield_now);
        round.yield_cycles += took.unwrap_or(0);
        let enough = took.is_none() || round.yield_cycles > YIELD_CYCLES;
        round.pauses += if enough { YIELDS } else { 1 };
        true
    }

    /// Sleeps on `word` while it holds `seen`, as far as the half that is watched can tell.
    #[cold]
    fn sleep_on<W: Word>(round: &mut Round, word: &W, seen: W::Value) {
        let at = watched(word);
        let sleepers = sleepers_at(at as usize);
        sleepers.fetch_add(1, Ordering::SeqCst);
        let doublings = if futex::fence_everyone() {
            (size_of::<W>() == 8 || round.bounded).then_some(DOUBLINGS)
        } else {
            Some(DOUBLINGS_WITHOUT_BARRIER)
        };
        let doubled_ns = doublings.map(|doublings| {
            let doubled = round.bounded_sleeps.min(doublings);
            round.bounded_sleeps += 1;
            FIRST_BOUND_NS << doubled
        });
        let bound_ns = if round.cancellable { Some(futex::CANCEL_CHECK_NS) } else { doubled_ns };
        // SAFETY: `at` lies inside the word, which is borrowed.
        let word = unsafe { &*at };
        let channel = if round.channel == 0 { futex::ANY } else { round.channel };
        futex::sleep_bounded(word, seen.to_bits() as u32, round.deadline, bound_ns, channel);
        // Nothing is left to be taken out in the child of a signal handler that forked during this wait.
        let _ = sleepers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
    }
}

impl Patience for Sleeping {
    #[inline]
    fn pause<W: Word>(round: &mut Round, word: &W, seen: W::Value) {
        if !Self::spin_or_yield(round) {
            Self::sleep_on(round, word, seen);
        }
    }

    #[inline]
    fn may_sleep(round: &Round) -> bool {
        let bound = SPIN_BOUND.load(Ordering::Relaxed);
        let yields = if round.deadline.is_some() { 0 } else { YIELDS };
        !round.spins && round.pauses >= bound.saturating_add(yields)
    }

    #[inline]
    fn pause_between(round: &mut Round) {
        if !Self::spin_or_yield(round) {
            let ns = FIRST_SLEEP_NS << round.bounded_sleeps.min(SLEEP_DOUBLINGS);
            let ns =
                round.deadline.map_or(ns, |end| ns.min(end.at_ns.saturating_sub(futex::clock_ns(end.clock))));
            futex::sleep(if round.cancellable { ns.min(futex::CANCEL_CHECK_NS) } else { ns });
            round.bounded_sleeps += 1;
        }
    }

    #[inline]
    fn back_off<W: Word>(round: &mut Round, cycles: u64, word: &W, seen: W::Value) -> bool {
        let bound = SPIN_BOUND.load(Ordering::Relaxed);
        if bound == u32::MAX || round.spins {
            return true;
        }
        if round.pauses < bound {
            round.pauses = round.pauses.saturating_add(pauses_in(cycles).max(1)).min(bound);
            return true;
        }
        Self::pause(round, word, seen);
        false
    }

    #[inline]
    fn attempt_begins() -> u64 {
        counter::cycles()
    }

    #[inline]
    fn attempt_failed(round: &mut Round, started: u64) {
        let bound = SPIN_BOUND.load(Ordering::Relaxed);
        if bound != u32::MAX {
            let pauses = pauses_in(counter::cycles().wrapping_sub(started));
            round.pauses = round.pauses.saturating_add(pauses).min(bound.saturating_add(YIELDS));
        }
    }

    #[inline]
    fn written<W: Word>(word: &W, low_bits: Option<u32>) {
        let at = watched(word);
        compiler_fence(Ordering::SeqCst);
        if sleepers_at(at as usize).load(Ordering::Relaxed) != 0 {
            wake_sleepers(at, low_bits.unwrap_or(0), low_bits.is_none());
        }
    }
}

#[cold]
#[inline(never)]
fn wake_sleepers(at: *const AtomicU32, low_bits: u32, any: bool) {
    futex::wake_some(at, if any { futex::ANY } else { channel(low_bits) });
}
