//! The word of the locks that sleep: [`Futex`](crate::Futex) and [`Rw`](crate::Rw).
//!
//! | bits     | name       | set by                              | cleared by                                 |
//! |----------|------------|-------------------------------------|--------------------------------------------|
//! | 0        | `WRITER`   | an exclusive acquirer               | its release                                |
//! | 1        | `WAKING`   | the release that wakes a sleeper    | whoever slept: enters, gives up, sleeps again |
//! | 2        | `RESERVED` | a waiter that must not be bypassed  | an entitled waiter: enters or gives up     |
//! | 3 to 16  | `SLEEPER`s | a waiter, before it sleeps          | the same, after it has slept               |
//! | 17 to 31 | `READER`s  | shared acquirers                    | their releases                             |
//!
//! All zero is free. "Held" means that `WRITER` or a reader is there.
//!
//! 1. A thread sleeps only on a value that is held and has no `WAKING`; so the release of that hold looks for
//!    sleepers, finds it, and wakes one.
//! 2. While `WAKING` is set, some thread that has slept is awake and will look at the word again. Until then
//!    releases wake nobody: one waiter at a time is on its way, however fast the lock changes hands.
//! 3. While `RESERVED` is set in a free word, an *entitled* thread (it has slept, or set the bit) is awake and will
//!    enter or clear the bit. A newcomer may not enter past it.
//!
//! A waiter first stays away for longer than a hand-over costs, a few times, then sleeps. That is on purpose: where
//! a lock is hot, the holder releases and re-acquires many times in its own cache before the line moves, and the
//! cost of moving is shared by all these critical sections. `RESERVED` bounds what that does to the waiter: after
//! 1 ms for each waiter it is let in before any newcomer. A waiting writer sets it at once against readers.
//!
//! Source: the states of Drepper's "Futexes are tricky" 2011; throttled wake-ups and starvation mode as in Go's
//! `sync.Mutex` (2016) and WebKit's locks (2016).

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Clock, GaveUp, Integer, Limit, Machine, Slept, Word};

const WRITER: u32 = 1;
const WAKING: u32 = 1 << 1;
const RESERVED: u32 = 1 << 2;
const SLEEPER: u32 = 1 << 3;
const SLEEPERS: u32 = READER - SLEEPER;
const READER: u32 = 1 << 17;
const READERS: u32 = !(READER - 1);

/// Readers at most. Those past it wait; the rest of the field is for threads that have added themselves and not yet
/// seen that they may not.
const MOST_READERS: u32 = (READERS / READER) * READER - 4096 * READER;

/// How long a waiter may be bypassed for each one that waits, in nanoseconds: so that, however many wait, a lock is
/// kept for a waiter about once in so long, and otherwise goes to whoever runs.
const BYPASS_NS: u64 = 1_000_000;

/// Cycles that a waiter stays away from an exclusively held lock, look by look, before it sleeps: each several times
/// what a hand-over between cores costs.
const STAY_AWAY_CYCLES: [u64; 4] = [1_500, 3_000, 6_000, 12_000];

/// The same for a writer that waits for readers to leave. New ones are kept out, so no bypassing is to be had.
const DRAIN_CYCLES: [u64; 4] = [100, 300, 1_000, 3_000];

/// What an acquirer wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Exclusive,
    Shared,
    /// Shared, by a thread that shares it already.
    SharedAgain,
}

/// The state of a lock that sleeps.
pub(crate) struct BlockingWord<M: Machine> {
    word: M::U32,
}

const fn is_held(state: u32) -> bool {
    state & (WRITER | READERS) != 0
}

impl Want {
    /// The state after entering, if the state allows that.
    #[inline]
    fn enter(self, state: u32, entitled: bool) -> Option<u32> {
        let barred = state & RESERVED != 0 && !entitled;
        let entered = match self {
            Self::Exclusive if is_held(state) || barred => return None,
            Self::Exclusive => state | WRITER,
            Self::Shared if barred => return None,
            Self::Shared | Self::SharedAgain if state & WRITER != 0 || state & READERS >= MOST_READERS => {
                return None;
            }
            Self::Shared | Self::SharedAgain => state + READER,
        };
        Some(if entitled { entered & !(WAKING | RESERVED) } else { entered })
    }
}

/// One waiter on its way in.
struct Waiter<'a, M: Machine> {
    word: &'a M::U32,
    want: Want,
    /// It has slept or reserved, so that it may pass `RESERVED`.
    entitled: bool,
    /// Since when it has waited, on the monotonic clock; known once it has slept.
    since_ns: Option<u64>,
}

impl<M: Machine> BlockingWord<M> {
    pub(crate) const NEW: Self = Self { word: M::U32::ZERO };

    #[inline]
    pub(crate) fn acquire(&self, limit: Limit<'_, M>) -> Result<(), GaveUp> {
        if self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok() {
            // [1] from the last release
            return Ok(());
        }
        self.wait(Want::Exclusive, limit)
    }

    #[inline]
    pub(crate) fn try_acquire(&self) -> bool {
        self.try_enter(Want::Exclusive)
    }

    #[inline]
    pub(crate) fn acquire_shared(&self, reads_already: bool, limit: Limit<'_, M>) -> Result<(), GaveUp> {
        let want = if reads_already { Want::SharedAgain } else { Want::Shared };
        // Comes in at once and looks afterwards: one line transfer where a load and a swap would be two.
        let before = self.word.fetch_add(READER, Acquire); // [1] from the last exclusive release
        if want.enter(before, false).is_some() {
            return Ok(());
        }
        self.release_shared();
        self.wait(want, limit)
    }

    #[inline]
    pub(crate) fn try_acquire_shared(&self, reads_already: bool) -> bool {
        self.try_enter(if reads_already { Want::SharedAgain } else { Want::Shared })
    }

    #[inline]
    fn try_enter(&self, want: Want) -> bool {
        let mut state = self.word.load(Relaxed);
        while let Some(entered) = want.enter(state, false) {
            match self.word.compare_exchange(state, entered, Acquire, Relaxed) {
                // [1] from the last release
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[inline]
    pub(crate) fn release(&self) {
        if self.word.compare_exchange(WRITER, 0, Release, Relaxed).is_err() {
            // [1] to the next acquirer
            self.release_and_wake();
        }
    }

    #[cold]
    fn release_and_wake(&self) {
        let mut state = self.word.load(Relaxed);
        loop {
            let wakes = state & SLEEPERS != 0 && state & WAKING == 0;
            let free = state & !WRITER | if wakes { WAKING } else { 0 };
            match self.word.compare_exchange(state, free, Release, Relaxed) {
                // [1] to the next acquirer
                // From here on the lock may be gone: only its address is used.
                Ok(_) => {
                    if wakes {
                        M::wake(&raw const self.word, 1);
                    }
                    return;
                }
                Err(now) => state = now,
            }
        }
    }

    #[inline]
    pub(crate) fn release_shared(&self) {
        let before = self.word.fetch_sub(READER, Release); // [2] to the writer that enters next
        let last = before & (READERS | WRITER) == READER;
        // `WAKING` cannot be set afterwards, since the lock may be gone; without it a wake-up too many is possible.
        if last && before & SLEEPERS != 0 && before & WAKING == 0 {
            M::wake(&raw const self.word, 1);
        }
    }

    #[cold]
    fn wait(&self, want: Want, limit: Limit<'_, M>) -> Result<(), GaveUp> {
        Waiter { word: &self.word, want, entitled: false, since_ns: None }.wait(limit)
    }
}

impl<M: Machine> Waiter<'_, M> {
    fn wait(mut self, limit: Limit<'_, M>) -> Result<(), GaveUp> {
        loop {
            let Some(state) = self.look_in() else { return Ok(()) };
            if limit.cancel.is_some_and(|cancel| cancel.load(Relaxed) != 0)
                || limit.deadline.is_some_and(|deadline| deadline.passed::<M>())
            {
                self.give_up();
                return Err(GaveUp);
            }
            self.sleep(state, limit);
        }
    }

    /// Looks a few times with growing pauses; none once it has entered, else the state last seen.
    fn look_in(&mut self) -> Option<u32> {
        let mut state = self.word.load(Relaxed);
        for look in 0..STAY_AWAY_CYCLES.len() {
            match self.enter(state) {
                Ok(()) => return None,
                Err(now) => state = now,
            }
            state = self.reserve(state);
            let drains = self.want == Want::Exclusive && state & WRITER == 0;
            M::delay(if drains { DRAIN_CYCLES[look] } else { STAY_AWAY_CYCLES[look] });
            state = self.word.load(Relaxed);
        }
        self.enter(state).err()
    }

    /// Enters from `state` or, when it changes meanwhile, from what it has become.
    fn enter(&self, mut state: u32) -> Result<(), u32> {
        while let Some(entered) = self.want.enter(state, self.entitled) {
            // One reader wakes the next: they can all be in.
            let wakes = self.want != Want::Exclusive && self.entitled && entered & SLEEPERS != 0;
            let entered = if wakes { entered | WAKING } else { entered };
            // [1] from the last exclusive release; a writer also [2] from the readers' releases
            match self.word.compare_exchange(state, entered, Acquire, Relaxed) {
                Ok(_) => {
                    if wakes {
                        M::wake(self.word, 1);
                    }
                    return Ok(());
                }
                Err(now) => state = now,
            }
        }
        Err(state)
    }

    /// Bars newcomers where this waiter must not be bypassed any more.
    fn reserve(&mut self, state: u32) -> u32 {
        let among_readers = self.want == Want::Exclusive && state & READERS != 0 && state & WRITER == 0;
        if state & RESERVED == 0 && (among_readers || self.is_overdue(state)) {
            self.entitled = true;
            return self.word.fetch_or(RESERVED, Relaxed) | RESERVED;
        }
        state
    }

    fn is_overdue(&self, state: u32) -> bool {
        let bound_ns = BYPASS_NS * u64::from(1 + (state & SLEEPERS) / SLEEPER);
        self.since_ns.is_some_and(|since| M::clock_ns(Clock::Monotonic).saturating_sub(since) > bound_ns)
    }

    /// Sleeps until it is worth looking again.
    fn sleep(&mut self, state: u32, limit: Limit<'_, M>) {
        if !is_held(state) {
            // Reserved for a thread that is awake: there would be nobody to end a sleep.
            let over = |now| now & RESERVED == 0 || is_held(now);
            let _ = M::spin_until_or(self.word, Relaxed, limit, over);
            return;
        }
        if state & SLEEPERS == SLEEPERS {
            let _ = M::spin_until_or(self.word, Relaxed, limit, |now| now != state);
            return;
        }
        let asleep = (state & !WAKING) + SLEEPER;
        if self.word.compare_exchange(state, asleep, Relaxed, Relaxed).is_err() {
            return;
        }
        self.since_ns.get_or_insert_with(|| M::clock_ns(Clock::Monotonic));
        let _: Slept = M::sleep_while(self.word, asleep, limit);
        self.word.fetch_sub(SLEEPER, Relaxed);
        self.entitled = true;
    }

    /// Leaves. What this waiter held back, and a wake-up that it may have had, go to the next one.
    #[cold]
    fn give_up(&self) {
        if !self.entitled {
            return;
        }
        let mut state = self.word.load(Relaxed);
        loop {
            let wakes = state & SLEEPERS != 0 && state & WRITER == 0;
            let left = state & !(WAKING | RESERVED) | if wakes { WAKING } else { 0 };
            match self.word.compare_exchange(state, left, Relaxed, Relaxed) {
                Ok(_) => {
                    if wakes {
                        M::wake(self.word, 1);
                    }
                    return;
                }
                Err(now) => state = now,
            }
        }
    }
}
