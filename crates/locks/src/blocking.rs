//! The word of the locks that sleep: [`Futex`](crate::Futex), [`Rw`](crate::Rw) and [`Adaptive`](crate::Adaptive).
//!
//! | bits    | name       | set by                              | cleared by                                    |
//! |---------|------------|-------------------------------------|-----------------------------------------------|
//! | 0       | `WRITER`   | an exclusive acquirer               | its release                                   |
//! | 1       | `WAKING`   | a holder, before it wakes a sleeper | a waiter that slept: enters, gives up, sleeps |
//! | 2       | `RESERVED` | a waiter that must not be bypassed  | that one: enters or gives up; an entitled writer: enters |
//! | 3       | `SLEEPING` | a waiter, before and after it sleeps | a holder, before it wakes a sleeper          |
//! | 4 | `READERS_SLEEP` | a shared waiter, before it sleeps | a reader, before it wakes all, or a writer that becomes one; a writer that finds no sleeper |
//! | 5 to 31 | `READER`s  | shared acquirers                    | their releases                                |
//!
//! All zero is free. "Held" means that `WRITER` or a reader is there.
//!
//! 1. A thread sleeps only on a value that is held, has `SLEEPING`, and has no `WAKING`; so the release of that hold
//!    wakes one.
//! 2. While `WAKING` is set and the lock is not held by who set it, some thread that has slept is awake and will poll
//!    the word again. Until then releases wake no sleeper: one waiter at a time is on its way, however fast the lock
//!    changes hands.
//! 3. While `RESERVED` is set, a thread that set it waits: a reader that has slept enters past the bit and leaves it, so that it
//!    does not let the readers in that come after it. In a free word an *entitled* thread (it has slept and may have been woken, or set
//!    the bit) is awake, and enters or gives up; then it wakes the next. A newcomer may not enter past it.
//! 4. A release wakes one, who may be a writer that readers keep out. So a reader that enters and finds `READERS_SLEEP`
//!    wakes all sleepers: those readers can be in, and no other release is bound to come that would let them know. So does a reader
//!    that clears its own `RESERVED`: a writer that sleeps may have set it, too, and has to set it again. A writer sleeps behind readers
//!    only on a value that has `RESERVED`.
//! 5. Each waiter changes the word at most once before it sleeps, so waiters cannot invalidate each other's futex value
//!    for ever.
//!
//! A waiter first backs off for longer than a hand-over costs, a few times, then sleeps. That is on purpose: where
//! a lock is hot, the holder releases and re-acquires many times in its own cache before the line moves, and the
//! cost of moving is shared by all these critical sections. `RESERVED` bounds what that does to the waiters: once one
//! has waited for 1 ms, been woken, and found the lock held, a waiter is let in before any newcomer: that one, if the
//! lock is free before it sleeps again, else the first of those that sleep. (To let it in for certain, each of those
//! that sleep before it would have to be woken in turn, while no thread runs in the lock.) A writer that waits for
//! readers keeps newcomers out at once.
//!
//! A lock may give its waiters a place to spin between the back-off and the sleep, its [`Spinners`]. That decides who polls the
//! word when, and nothing of what is said above.
//!
//! Source: the states of Drepper's "Futexes are tricky" 2011; throttled wake-ups and starvation mode as in Go's
//! `sync.Mutex` (2016) and WebKit's locks (2016).

use families::BACK_OFF_CYCLES;
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Clock, GaveUp, Integer, Machine, OWNER_SPIN_NS, Poll, Slept, Timeout, Word};

use crate::spinners::Spinners;

const WRITER: u32 = 1;
const WAKING: u32 = 1 << 1;
const RESERVED: u32 = 1 << 2;
const SLEEPING: u32 = 1 << 3;
const READERS_SLEEP: u32 = 1 << 4;
const READER: u32 = 1 << 5;
const READERS: u32 = !(READER - 1);

/// Readers at most. Those past it wait; the rest of the field is for threads that have added themselves and not yet
/// seen that they may not.
const MOST_READERS: u32 = READERS / 2;

/// How long a waiter may be bypassed, in nanoseconds.
const BYPASS_NS: u64 = 1_000_000;

/// Cycles that a waiter backs off, poll by poll, when newcomers cannot bypass it; the others back off for [`BACK_OFF_CYCLES`].
const NEXT_CYCLES: [u64; 4] = [100, 300, 1_000, 3_000];

/// Cycles between two polls of the first among the spinners: several times what a hand-over between cores costs, so that a holder
/// that comes back at once finds the lock in its own cache a few times.
const FIRST_CYCLES: u64 = 3_000;

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

/// A waiter sleeps, or may, and no woken waiter is on its way.
const fn wants_waking(state: u32) -> bool {
    state & (SLEEPING | WAKING) == SLEEPING
}

impl Want {
    #[inline]
    const fn shared(reads_already: bool) -> Self {
        if reads_already { Self::SharedAgain } else { Self::Shared }
    }

    /// The state after entering, if the state allows that.
    #[inline]
    fn enter(self, state: u32, waiter_state: WaiterState) -> Option<u32> {
        let barred = state & RESERVED != 0 && !waiter_state.is_entitled();
        let entered = match self {
            Self::Exclusive if is_held(state) || barred => return None,
            Self::Exclusive => state | WRITER,
            Self::Shared if barred => return None,
            Self::Shared | Self::SharedAgain if state & WRITER != 0 || state & READERS >= MOST_READERS => {
                return None;
            }
            Self::Shared | Self::SharedAgain => state + READER,
        };
        let clears = waiter_state.has_reserved || self == Self::Exclusive && waiter_state.has_slept;
        Some(waiter_state.leave(if clears { entered & !RESERVED } else { entered }))
    }
}

/// What a waiter has done so far. After either it may pass `RESERVED`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WaiterState {
    /// It set `RESERVED`.
    has_reserved: bool,
    /// It slept, and may have been woken. The thread that woke it has not said whether others sleep.
    has_slept: bool,
}

impl WaiterState {
    const NEWCOMER: Self = Self { has_reserved: false, has_slept: false };

    #[inline]
    const fn is_entitled(self) -> bool {
        self.has_reserved || self.has_slept
    }

    /// The state, but for `RESERVED`, once a waiter in this state waits no more.
    #[inline]
    const fn leave(self, state: u32) -> u32 {
        if self.has_slept { state & !WAKING | SLEEPING } else { state }
    }
}

/// One waiter on its way in.
struct Waiter<'a, M: Machine> {
    lock: &'a BlockingWord<M>,
    word: &'a M::U32,
    want: Want,
    waiter_state: WaiterState,
    spinners: Option<&'a Spinners<M>>,
    /// Since when it has waited, on the monotonic clock; known once it goes to sleep.
    since_ns: Option<u64>,
}

impl<M: Machine> BlockingWord<M> {
    pub(crate) const NEW: Self = Self { word: M::U32::ZERO };

    pub(crate) fn is_idle(&self) -> bool {
        self.word.load(Relaxed) == 0
    }

    pub(crate) fn is_promised(&self) -> bool {
        self.word.load(Relaxed) & RESERVED != 0
    }

    pub(crate) fn is_unheld(&self) -> bool {
        !is_held(self.word.load(Relaxed))
    }

    /// Waits until no thread holds the lock. What sleepers left in the word may stay there, as no thread writes it.
    pub(crate) fn await_free(&self) {
        M::spin_until(&self.word, Relaxed, |state| !is_held(state));
    }

    pub(crate) fn near_full(&self) {
        self.word.store(MOST_READERS & READERS, Relaxed);
    }

    #[inline]
    pub(crate) fn acquire(&self, spinners: Option<&Spinners<M>>) {
        if !self.take_when_free() {
            self.wait_for_ever(Want::Exclusive, spinners);
        }
    }

    #[inline]
    pub(crate) fn acquire_or(
        &self,
        spinners: Option<&Spinners<M>>,
        timeout: Timeout<'_, M>,
    ) -> Result<(), GaveUp> {
        if self.take_when_free() { Ok(()) } else { self.wait(Want::Exclusive, spinners, timeout) }
    }

    /// Takes a lock that no thread holds and that is not reserved, even if threads sleep.
    #[inline]
    fn take_when_free(&self) -> bool {
        // [1] from the last release
        match self.word.compare_exchange(0, WRITER, Acquire, Relaxed) {
            Ok(_) => true,
            Err(state) => Want::Exclusive
                .enter(state, WaiterState::NEWCOMER)
                .is_some_and(|entered| self.word.compare_exchange(state, entered, Acquire, Relaxed).is_ok()),
        }
    }

    #[inline]
    pub(crate) fn try_acquire(&self) -> bool {
        self.try_enter(Want::Exclusive)
    }

    #[inline]
    pub(crate) fn acquire_shared(&self, reads_already: bool, spinners: Option<&Spinners<M>>) {
        let want = Want::shared(reads_already);
        if !self.enter(want) {
            self.wait_for_ever(want, spinners);
        }
    }

    #[inline]
    pub(crate) fn acquire_shared_or(
        &self,
        reads_already: bool,
        spinners: Option<&Spinners<M>>,
        timeout: Timeout<'_, M>,
    ) -> Result<(), GaveUp> {
        let want = Want::shared(reads_already);
        if self.enter(want) { Ok(()) } else { self.wait(want, spinners, timeout) }
    }

    /// Enters first and reads the word by that: one line transfer where a load and a swap would be two. False when it had
    /// to leave again.
    #[inline]
    fn enter(&self, want: Want) -> bool {
        let before = self.word.fetch_add(READER, Acquire); // [1] from the last exclusive release
        if want.enter(before, WaiterState::NEWCOMER).is_none() {
            self.release_shared();
            return false;
        }
        if before & READERS_SLEEP != 0 {
            self.wake_all(READERS_SLEEP);
        }
        true
    }

    #[inline]
    pub(crate) fn try_acquire_shared(&self, reads_already: bool) -> bool {
        self.try_enter(Want::shared(reads_already))
    }

    #[inline]
    fn try_enter(&self, want: Want) -> bool {
        let mut state = self.word.load(Relaxed);
        while let Some(entered) = want.enter(state, WaiterState::NEWCOMER) {
            match self.word.compare_exchange(state, entered, Acquire, Relaxed) {
                // [1] from the last release
                Ok(_) => {
                    if want != Want::Exclusive && entered & READERS_SLEEP != 0 {
                        self.wake_all(READERS_SLEEP);
                    }
                    return true;
                }
                Err(now) => state = now,
            }
        }
        false
    }

    #[inline]
    pub(crate) fn release(&self) {
        // Reads before it writes, and asks of what it wrote over only whether it was as seen: a subtraction that gives no
        // value costs less than one that does, and less than a compare-and-exchange.
        let state = self.word.load(Relaxed);
        if wants_waking(state) {
            return self.release_and_wake();
        }
        let may_sleep = if state == WRITER {
            self.word.fetch_sub(WRITER, Release) != WRITER // [1] to the next acquirer
        } else {
            wants_waking(self.word.fetch_sub(WRITER, Release)) // [1]; a sleeper is on its way, or a waiter reserved
        };
        if may_sleep {
            // A thread has come meanwhile, perhaps to sleep.
            self.wake_by_address();
        }
    }

    #[cold]
    #[inline(never)]
    fn release_and_wake(&self) {
        self.wake_one();
        if wants_waking(self.word.fetch_sub(WRITER, Release)) {
            // [1] to the next acquirer
            self.wake_by_address();
        }
    }

    /// Wakes a sleeper of a lock that may be gone by now.
    #[cold]
    fn wake_by_address(&self) {
        M::wake(&raw const self.word, 1);
    }

    #[inline]
    pub(crate) fn release_shared(&self) {
        let before = self.word.fetch_sub(READER, Release); // [2] to the writer that enters next
        if before & (READERS | WRITER) == READER && wants_waking(before) {
            self.wake_by_address();
        }
    }

    #[inline]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.word.load(Relaxed) & WRITER != 0
    }

    /// The writer becomes a reader. It wakes a sleeper, which wakes the next if it enters, too.
    #[inline]
    pub(crate) fn downgrade(&self) {
        let before = self.word.fetch_add(READER - WRITER, Release); // [1] to readers
        if before & READERS_SLEEP != 0 {
            self.wake_all(READERS_SLEEP);
        }
    }

    /// Wakes a sleeper, or finds that there is none. The caller holds the lock, so that it may still write here.
    #[cold]
    #[inline(never)]
    fn wake_one(&self) {
        let mut state = self.word.load(Relaxed);
        while wants_waking(state) {
            // A waiter that is about to sleep on the old value finds it changed; a later waiter sets the bit again,
            // and so does the waiter that is woken, since there may be more sleepers.
            let woken = (state | WAKING) & !SLEEPING;
            match self.word.compare_exchange(state, woken, Relaxed, Relaxed) {
                Ok(_) => {
                    if M::wake(&raw const self.word, 1) == 0 {
                        self.forget_sleepers(woken);
                    }
                    return;
                }
                Err(now) => state = now,
            }
        }
    }

    /// Clears what sleepers left in the word that are gone, after a wake-up that found none. The caller holds the lock
    /// exclusively and has set `WAKING`.
    ///
    /// A waiter that is about to sleep clears `WAKING` in the step in which it sets its own bits, and only the holder sets it
    /// again. So while it is set, no waiter has gone to sleep since the wake-up, and `READERS_SLEEP` is of readers that gave
    /// up: left in the word, it would keep every writer off the short ways through a lock that no other thread uses.
    fn forget_sleepers(&self, mut state: u32) {
        while state & WAKING != 0 {
            let cleared = state & !(WAKING | READERS_SLEEP);
            match self.word.compare_exchange(state, cleared, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    /// Wakes all who sleep, as long as the word has this bit of theirs. The caller reads.
    #[cold]
    #[inline(never)]
    fn wake_all(&self, sleeping: u32) {
        let mut state = self.word.load(Relaxed);
        while state & sleeping != 0 {
            let woken = (state | WAKING) & !(SLEEPING | READERS_SLEEP);
            match self.word.compare_exchange(state, woken, Relaxed, Relaxed) {
                Ok(_) => {
                    if M::wake(&raw const self.word, u32::MAX) == 0 {
                        self.word.fetch_and(!WAKING, Relaxed);
                    }
                    return;
                }
                Err(now) => state = now,
            }
        }
    }

    /// A function of its own, so that a lock taken at once makes no timeout.
    #[cold]
    #[inline(never)]
    fn wait_for_ever(&self, want: Want, spinners: Option<&Spinners<M>>) {
        let _: Result<(), GaveUp> = self.wait(want, spinners, Timeout::NONE); // never gives up
    }

    #[cold]
    #[inline(never)]
    fn wait(
        &self,
        want: Want,
        spinners: Option<&Spinners<M>>,
        timeout: Timeout<'_, M>,
    ) -> Result<(), GaveUp> {
        let waiter_state = WaiterState::NEWCOMER;
        Waiter { lock: self, word: &self.word, want, waiter_state, spinners, since_ns: None }.wait(timeout)
    }
}

impl<M: Machine> Waiter<'_, M> {
    fn wait(mut self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        loop {
            let Some(state) = self.poll_word().and_then(|state| self.spin(state, timeout)) else {
                return Ok(());
            };
            if timeout.cancel.is_some_and(|cancel| cancel.load(Relaxed) != 0)
                || timeout.deadline.is_some_and(|deadline| deadline.passed::<M>())
            {
                self.give_up();
                return Err(GaveUp);
            }
            if state & RESERVED == 0 && self.is_overdue() {
                self.reserve();
            } else {
                self.sleep(state, timeout);
            }
        }
    }

    /// Polls the word a few times with growing pauses. `None` once it has entered, else the state last seen.
    fn poll_word(&mut self) -> Option<u32> {
        let mut state = self.word.load(Relaxed);
        for poll in 0..BACK_OFF_CYCLES.len() {
            state = self.enter(state).err()?;
            let drains = self.want == Want::Exclusive && state & WRITER == 0;
            if drains && state & RESERVED == 0 {
                self.reserve();
            }
            let is_next = drains || self.waiter_state.is_entitled() && state & RESERVED != 0;
            M::delay(if is_next { NEXT_CYCLES[poll] } else { BACK_OFF_CYCLES[poll] });
            state = self.word.load(Relaxed);
        }
        self.enter(state).err()
    }

    /// Spins among the others that do, if the lock has a place for that and it is of use: not where others sleep already. A thread that
    /// is the next to enter spins alone. `None` once it has entered, else the state last seen.
    fn spin(&self, state: u32, timeout: Timeout<'_, M>) -> Option<u32> {
        let Some(spinners) = self.spinners else { return Some(state) };
        let newcomer = !self.waiter_state.is_entitled();
        let watch = || self.watch(timeout.within_ns(OWNER_SPIN_NS));
        if !newcomer && state & RESERVED != 0 {
            return watch();
        }
        if newcomer && state & SLEEPING != 0 || spinners.is_stuck() {
            return Some(state);
        }
        let watched = spinners.as_first(timeout, watch);
        watched.unwrap_or_else(|GaveUp| self.enter(self.word.load(Relaxed)).err())
    }

    /// Polls the word until the timeout. `None` once it has entered, else the state last seen.
    fn watch(&self, timeout: Timeout<'_, M>) -> Option<u32> {
        let may_enter = |state| self.want.enter(state, self.waiter_state).is_some();
        let is_next = |state| self.waiter_state.is_entitled() && state & RESERVED != 0;
        let cycles = |state| if is_next(state) { NEXT_CYCLES[1] } else { FIRST_CYCLES };
        let poll = |state| if may_enter(state) { Poll::Ready } else { Poll::BackOff(cycles(state)) };
        while let Ok(state) = M::poll_or(self.word, Relaxed, timeout, poll) {
            self.enter(state).err()?;
        }
        self.enter(self.word.load(Relaxed)).err()
    }

    /// Enters from `state` or, when it changes meanwhile, from what it has become.
    fn enter(&self, mut state: u32) -> Result<(), u32> {
        while let Some(entered) = self.want.enter(state, self.waiter_state) {
            // [1] from the last exclusive release; a writer also [2] from the readers' releases
            match self.word.compare_exchange(state, entered, Acquire, Relaxed) {
                Ok(_) => {
                    if self.want != Want::Exclusive {
                        let cleared = if self.waiter_state.has_reserved { SLEEPING } else { 0 };
                        let wakes = READERS_SLEEP | cleared;
                        if entered & wakes != 0 {
                            self.lock.wake_all(wakes);
                        }
                    }
                    return Ok(());
                }
                Err(now) => state = now,
            }
        }
        Err(state)
    }

    /// Bars newcomers, since this waiter must not be bypassed any more.
    fn reserve(&mut self) {
        self.waiter_state.has_reserved = true;
        self.word.fetch_or(RESERVED, Relaxed);
    }

    fn is_overdue(&self) -> bool {
        let Some(since_ns) = self.since_ns else { return false };
        let now_ns = M::clock_ns(Clock::Monotonic);
        now_ns.saturating_sub(since_ns) > BYPASS_NS
            && self.spinners.is_none_or(|spinners| spinners.may_bar(now_ns, BYPASS_NS))
    }

    /// Sleeps until it is worth polling again.
    fn sleep(&mut self, state: u32, timeout: Timeout<'_, M>) {
        if !is_held(state) {
            // Reserved for a thread that is awake: there would be no thread to end a sleep. Nor may this thread sleep on the word,
            // as a wait for one does at last: it would take the wake-up of the sleeper that it is reserved for.
            let over = |now| now & RESERVED == 0 || is_held(now);
            let _ = M::spin_until_any_or((self.word, Relaxed, over), (self.word, Relaxed, over), timeout);
            return;
        }
        if self.want != Want::Exclusive && state & READERS >= MOST_READERS {
            // No release wakes a reader that waits for space among readers.
            let over = |now| now & READERS < MOST_READERS;
            let _ = M::spin_until_any_or((self.word, Relaxed, over), (self.word, Relaxed, over), timeout);
            return;
        }
        let sleeping = match self.want {
            Want::Exclusive if state & WRITER == 0 => SLEEPING | RESERVED,
            Want::Exclusive => SLEEPING,
            Want::Shared | Want::SharedAgain => SLEEPING | READERS_SLEEP,
        };
        let asleep = (state | sleeping) & !WAKING;
        if asleep != state && self.word.compare_exchange(state, asleep, Relaxed, Relaxed).is_err() {
            return;
        }
        self.waiter_state.has_reserved |= asleep & !state & RESERVED != 0;
        self.since_ns.get_or_insert_with(|| M::clock_ns(Clock::Monotonic));
        // One that gave up was not woken.
        self.waiter_state.has_slept |= M::sleep_while(self.word, asleep, timeout) != Slept::GaveUp;
    }

    /// Leaves. What this waiter reserved, and a wake-up that it may have had, go to the next one.
    #[cold]
    fn give_up(&self) {
        if !self.waiter_state.is_entitled() {
            return;
        }
        let cleared = if self.waiter_state.has_reserved { RESERVED } else { 0 };
        // Writes even where nothing changes: a plain load may find the state of before the wake-up, since being woken
        // orders nothing, and the wake-up would be lost. What a read-modify-write finds is the last of all.
        let mut state = self.word.load(Relaxed);
        while let Err(now) =
            self.word.compare_exchange(state, self.waiter_state.leave(state & !cleared), Relaxed, Relaxed)
        {
            state = now;
        }
        // A writer's release wakes the next waiter; without a writer, it may be that no thread is about to.
        if state & WRITER == 0 {
            M::wake(self.word, 1);
        }
    }
}

/// The traits of a mutex whose state is a [`BlockingWord`] called `word`, and whose waiters spin in the named field, if in any.
macro_rules! blocking_lock {
    ($Lock:ident $(, $spinners:ident)?) => {
        // SAFETY: a writer enters a word without writer and readers, a reader one without writer.
        unsafe impl<M: Machine> RawLock<M> for $Lock<M> {
            const NEW: Self = Self { word: BlockingWord::NEW $(, $spinners: Spinners::NEW)? };

            #[inline]
            fn acquire(&self) {
                self.word.acquire($crate::blocking::spinners!(self $(, $spinners)?));
            }

            #[inline]
            unsafe fn release(&self) {
                self.word.release();
            }

            fn is_idle(&self) -> bool {
                self.word.is_idle() $(&& self.$spinners.is_idle())?
            }

            const PROMISES: bool = true;

            fn is_promised(&self) -> bool {
                self.word.is_promised()
            }

            fn is_unheld(&self) -> bool {
                self.word.is_unheld()
            }
        }

        // SAFETY: true only after such an entry.
        unsafe impl<M: Machine> TryLock<M> for $Lock<M> {
            #[inline]
            fn try_acquire(&self) -> bool {
                self.word.try_acquire()
            }
        }

        // SAFETY: `Ok` only after such an entry.
        unsafe impl<M: Machine> TimedLock<M> for $Lock<M> {
            #[inline]
            fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
                self.word.acquire_or($crate::blocking::spinners!(self $(, $spinners)?), timeout)
            }
        }

        // SAFETY: a holder has written the word, which is free only when no thread does.
        unsafe impl<M: Machine> Elidable<M> for $Lock<M> {
            fn await_free(&self) {
                self.word.await_free();
            }
        }
    };
}
pub(crate) use blocking_lock;

/// The same for readers.
macro_rules! blocking_rw_lock {
    ($Lock:ident $(, $spinners:ident)?) => {
        // SAFETY: as for the exclusive side.
        unsafe impl<M: Machine> RawRwLock<M> for $Lock<M> {
            #[inline]
            fn acquire_shared(&self, reads_already: bool) {
                self.word.acquire_shared(reads_already, $crate::blocking::spinners!(self $(, $spinners)?));
            }

            #[inline]
            fn try_acquire_shared(&self, reads_already: bool) -> bool {
                self.word.try_acquire_shared(reads_already)
            }

            #[inline]
            unsafe fn release_shared(&self) {
                self.word.release_shared();
            }

            const BOUNDS_READERS: bool = true;

            unsafe fn near_full(&self) {
                self.word.near_full();
            }

            #[inline]
            fn is_exclusive(&self) -> bool {
                self.word.is_exclusive()
            }
        }

        // SAFETY: the writer leaves in the step in which the reader comes.
        unsafe impl<M: Machine> DowngradeLock<M> for $Lock<M> {
            #[inline]
            unsafe fn downgrade(&self) {
                self.word.downgrade();
            }
        }

        // SAFETY: `Ok` only after such an entry.
        unsafe impl<M: Machine> TimedRwLock<M> for $Lock<M> {
            #[inline]
            fn acquire_shared_or(&self, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
                self.word.acquire_shared_or(reads_already, $crate::blocking::spinners!(self $(, $spinners)?), timeout)
            }
        }
    };
}
pub(crate) use blocking_rw_lock;

/// Where waiters of the lock spin.
macro_rules! spinners {
    ($lock:ident) => {
        None
    };
    ($lock:ident, $spinners:ident) => {
        Some(&$lock.$spinners)
    };
}
pub(crate) use spinners;
