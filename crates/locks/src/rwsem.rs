//! Linux's rw_semaphore: a reader-writer lock whose writers spin while the owner runs, then sleep, and are handed the lock if
//! that takes too long.
//!
//! | bits of `count` | name      | set by                                       | cleared by                              |
//! |-----------------|-----------|----------------------------------------------|-----------------------------------------|
//! | 0               | `WRITER`  | a writer, or a thread handing over to one    | its release                             |
//! | 1               | `WAITERS` | a waiter that has entered the list           | the thread that leaves the list empty   |
//! | 2               | `HANDOFF` | the first waiter, a writer that has waited 4 ms | an entry from the list; it, as it gives up |
//! | 3               | `LIST`    | the thread that changes the list             | the same                                |
//! | 8 to 30         | `READER`s | readers, and the thread that lets them in from the list | their releases               |
//! | 31              | `FULL`    | a reader too many                            | the same, as it leaves again            |
//!
//! | word               | written by                       | meaning                                        |
//! |--------------------|----------------------------------|------------------------------------------------|
//! | `owner`            | who enters, lets in or leaves    | bits 2 and up: the writer's thread number plus 1; `READERS_OWN`: readers have it, or had it last; `NOT_WORTH_SPINNING`, until those are gone. A hint |
//! | `spinners`         | see [`Osq`]                      | the queue of the writers that spin             |
//! | `waiters`          | the thread that has `LIST`       | the list of those that sleep, see `ring.rs`    |
//! | node `writer`      | its owner                        | who wants to write; 0: a reader                |
//! | node `told`        | its owner clears, others set     | what the owner sleeps on: `TRY_AGAIN`, or `LET_IN` with the lock |
//!
//! A reader adds itself and reads the word by that. One that finds nothing in its way is in. So is one that finds waiters, but
//! neither a writer nor `HANDOFF`, unless other readers are in already: a stream of readers would keep the first writer out.
//! Else it enters the list and takes itself back.
//!
//! A writer takes a word without holders, past those that wait, unless `HANDOFF` is set. If there are holders, one writer at a
//! time, the head of `spinners`, watches: a writer as long as it runs, readers for a time. When that is over it marks the lock as
//! not worth spinning on and enters the list, as all writers do from then on.
//!
//! A thread that leaves the lock free to waiters takes `LIST` before, unless another has it, and then does one of three things.
//! If a reader is first, the thread
//! lets in every reader of the list, past the writers between them: it counts them in the word, then tells them. If a writer is
//! first the thread wakes it, and it finds the lock free or not; with `HANDOFF` the thread tells it that the lock is its own.
//! A thread that gives the list back does the same if the lock is free by then, or has no writer and a reader is first. So a
//! release that finds `LIST` set by another thread need not wait for it, and one that sets it frees the lock and the list in one
//! write, after which it touches the lock no more. (Linux frees first and then looks into the list, so that writers may steal the
//! lock before readers get in; there readers ask for a hand-off, too, and who steals the lock to read lets in the readers of the
//! list.)
//!
//! | form         | as in Linux | a thread that finds it free  | a writer in its way        | let in together                 |
//! |--------------|-------------|------------------------------|----------------------------|---------------------------------|
//! | [`FIFO`]     | before 3.10 | enters if no thread waits    | sleeps, and is handed over | readers up to the next writer   |
//! | [`STEALING`] | 3.10        | takes it                     | sleeps                     | all readers of the list         |
//! | [`SPINNING`] | 3.16, 5.3   | takes it                     | spins, then sleeps         | all readers of the list         |
//!
//! A thread that reads already is kept out by nothing but a writer that is in, behind which it waits as the first of the list.
//! Order: none, but the first waiter is bypassed for at most 4 ms, or until it is woken next; with `FIFO` that of arrival. Any
//! thread may release either side.
//! Source: Waiman Long's rw_semaphore of Linux 5.3 (2019) as of 6.1, and its forebears: stealing by Alex Shi and Michel Lespinasse
//! (2013), spinning by Tim Chen and Davidlohr Bueso (2014).

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Clock, GaveUp, Integer, Machine, Node, Patient, PlainCell, Runs, Slept, Timeout, Word};

use crate::ring::{Linked, Links, Ring};
use crate::{DowngradeLock, Osq, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};

const WRITER: u32 = 1;
const WAITERS: u32 = 1 << 1;
const HANDOFF: u32 = 1 << 2;
const LIST: u32 = 1 << 3;
const READER: u32 = 1 << 8;
const READERS: u32 = !(READER - 1);
/// The word of as many readers as may be in. The bit is set while there are more, or find out that they may not.
const FULL: u32 = 1 << 31;

const READERS_OWN: u32 = 1;
const NOT_WORTH_SPINNING: u32 = 1 << 1;
const OWNER_SHIFT: u32 = 2;

/// In a node's `told`: the lock may be free.
const TRY_AGAIN: u32 = 1;
/// In a node's `told`: the lock is the owner's, who is out of the list.
const LET_IN: u32 = 2;
/// As `LET_IN`, for a reader that is to look for more readers in the list.
const LET_IN_TO_WAKE: u32 = 3;

/// How long the first waiter is bypassed, in nanoseconds.
const BYPASS_NS: u64 = 4_000_000;
/// Readers that are let in from the list at once.
const MOST_LET_IN: u32 = 256;
/// How long a writer watches readers, in nanoseconds, and how much longer for each of them, up to so many.
const READERS_NS: u64 = 10_000;
const EACH_READER_NS: u64 = 500;
const MOST_WATCHED: u32 = 30;

/// First in, first out.
pub const FIFO: u8 = 0;
/// A thread that finds the lock free takes it.
pub const STEALING: u8 = 1;
/// The same, and writers spin before they sleep.
pub const SPINNING: u8 = 2;

/// A waiter in the list.
struct RwsemNode<M: Machine> {
    links: Links<M, RwsemNode<M>>,
    writer: M::Cell<u32>,
    told: M::U32,
}

// SAFETY: words and cells, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for RwsemNode<M> {}

/// Linux's rw_semaphore, 24 bytes; at most 2²³ readers at once, further ones wait.
pub struct Rwsem<M: Machine = Patient, const FORM: u8 = SPINNING> {
    count: M::U32,
    owner: M::U32,
    spinners: Osq<M>,
    waiters: Ring<M, RwsemNode<M>>,
}

/// [`Rwsem`] as it was before 3.10: first in, first out.
pub type RwsemFifo<M = Patient> = Rwsem<M, FIFO>;

/// [`Rwsem`] as it was before 3.16: a thread that finds it free takes it, and no thread spins.
pub type RwsemNoSpin<M = Patient> = Rwsem<M, STEALING>;

const _: () = assert!(size_of::<Rwsem>() == 24);

/// The caller as a writer. Numbers past the field, which no machine has in earnest, are one.
#[inline]
fn myself<M: Machine>() -> u32 {
    M::thread().saturating_add(1).min(u32::MAX >> OWNER_SHIFT) << OWNER_SHIFT
}

const fn is_free(state: u32) -> bool {
    state & (WRITER | READERS) == 0
}

/// The word when the list is given back.
const fn without_list(state: u32, is_empty: bool) -> u32 {
    if is_empty { state & !(LIST | WAITERS | HANDOFF) } else { state & !LIST | WAITERS }
}

/// What keeps a reader out at first.
#[inline]
const fn barred(reads_already: bool) -> u32 {
    if reads_already { WRITER | FULL } else { WRITER | FULL | WAITERS | HANDOFF }
}

impl<M: Machine> Linked<M> for RwsemNode<M> {
    fn links(&self) -> &Links<M, Self> {
        &self.links
    }
}

impl<M: Machine> RwsemNode<M> {
    fn reads(&self) -> bool {
        self.writer.get() == 0
    }

    /// Lets the owner go, whose node may be another one's afterwards.
    fn tell(&self, what: u32) {
        let told = &raw const self.told;
        self.told.store(what, Release); // [4] to the owner
        M::wake(told, 1);
    }
}

/// The list: `LIST` is set by the caller.
impl<M: Machine, const FORM: u8> Rwsem<M, FORM> {
    /// Takes the list. Gives the word as it is then.
    fn lock_list(&self) -> u32 {
        loop {
            let state = M::spin_until(&self.count, Relaxed, |state| state & LIST == 0);
            // [3] from the thread that had the list
            if self.count.compare_exchange(state, state | LIST, Acquire, Relaxed).is_ok() {
                return state | LIST;
            }
        }
    }

    /// Takes the readers that are let in together out of the list. Gives the first and the last of them, linked by `next`, and
    /// how many they are.
    fn take_readers(&self, first: &'static RwsemNode<M>) -> (&'static RwsemNode<M>, u32) {
        let (mut last, mut count) = (first, 1);
        let mut next = self.waiters.after(first);
        self.waiters.remove(first);
        while let Some(node) = next.filter(|_| !M::is_at_limit(count, MOST_LET_IN)) {
            next = self.waiters.after(node);
            if node.reads() {
                self.waiters.remove(node);
                last.links.lead_to(node);
                last = node;
                count += 1;
            } else if FORM == FIFO {
                break;
            }
        }
        (last, count)
    }

    /// Gives the list back, and with it `hold`, what the caller counts in the word. Lets in who is due, or wakes the first.
    /// `state` is the word as the caller has seen it.
    fn pass_on(&self, hold: u32, mut state: u32) {
        let first = self.waiters.first();
        loop {
            let left = state.wrapping_sub(hold);
            let unlocked = without_list(left, first.is_none());
            state = match first {
                Some(first) if left & WRITER == 0 && first.reads() => {
                    if hold != 0 {
                        return self.let_readers_in(first, hold, state);
                    }
                    // From now on no writer gets in.
                    match self.count.compare_exchange(state, state + READER, Relaxed, Relaxed) {
                        Ok(_) => return self.let_readers_in(first, READER, state + READER),
                        Err(now) => now,
                    }
                }
                Some(first) if is_free(left) && Self::hands_over(state) => {
                    // [1], [2] from the releases
                    match self.count.compare_exchange(state, left | WRITER, Acquire, Relaxed) {
                        Ok(_) => return self.hand_over(first),
                        Err(now) => now,
                    }
                }
                Some(first) if is_free(left) => {
                    let told = &raw const first.told;
                    first.told.store(TRY_AGAIN, Relaxed); // before the write that lets its owner go
                    // [1], [2] to the next owner, [3] to the thread that has the list next
                    match self.count.compare_exchange(state, unlocked, Release, Relaxed) {
                        Ok(_) => {
                            M::wake(told, 1);
                            return;
                        }
                        Err(now) => now,
                    }
                }
                // Held, so that a release follows; or no thread waits. [1], [2], [3] as above
                _ => match self.count.compare_exchange(state, unlocked, Release, Relaxed) {
                    Ok(_) => return,
                    Err(now) => now,
                },
            };
        }
    }

    /// Gives the list back and lets in readers from it, the first of which is this one. No writer can get in before.
    fn let_readers_in(&self, first: &'static RwsemNode<M>, hold: u32, mut state: u32) {
        let (last, count) = self.take_readers(first);
        let next = self.waiters.first();
        let goes_on = next.is_some_and(RwsemNode::reads);
        self.owner.store(READERS_OWN, Relaxed);
        loop {
            let counted = state.wrapping_sub(hold) + count * READER;
            let counted = without_list(counted, next.is_none()) & !HANDOFF;
            // [1] from a writer's release; [1], [2] to those who come by the word, [3] to the thread that has the list next
            match self.count.compare_exchange(state, counted, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let mut node = first;
        while !core::ptr::eq(node, last) {
            let next = node.links.next();
            node.tell(LET_IN);
            node = next;
        }
        last.tell(if goes_on { LET_IN_TO_WAKE } else { LET_IN });
    }

    /// Gives the list back and the lock, for which `WRITER` is set, to the first waiter, a writer.
    fn hand_over(&self, first: &'static RwsemNode<M>) {
        self.waiters.remove(first);
        self.owner.store(first.writer.get(), Relaxed);
        self.unlock_list();
        first.tell(LET_IN);
    }

    /// Gives the list back for a writer that has come in from it.
    fn unlock_list(&self) {
        let done = if self.waiters.is_empty() { LIST | HANDOFF | WAITERS } else { LIST | HANDOFF };
        self.count.fetch_and(!done, Release); // [3] to the thread that has the list next
    }
}

impl<M: Machine, const FORM: u8> Rwsem<M, FORM> {
    /// Whether the lock goes to the first waiter and to no other thread.
    const fn hands_over(state: u32) -> bool {
        state & HANDOFF != 0 || FORM == FIFO && state & WAITERS != 0
    }

    /// Takes a free lock, past those that wait. Else the state that is in its way.
    #[inline]
    fn steal(&self, me: u32) -> Result<(), u32> {
        let mut state = self.count.load(Relaxed);
        while is_free(state) && !Self::hands_over(state) {
            // [1], [2] from the last releases
            match self.count.compare_exchange(state, state | WRITER, Acquire, Relaxed) {
                Ok(_) => {
                    self.owner.store(me, Relaxed);
                    return Ok(());
                }
                Err(now) => state = now,
            }
        }
        Err(state)
    }

    /// Gives up `hold`: a writer, a reader, or what is between the two. If that leaves the lock to a waiter in the list, it is
    /// passed on.
    #[cold]
    #[inline(never)]
    fn leave(&self, hold: u32) {
        let mut state = self.count.load(Relaxed);
        loop {
            let left = state.wrapping_sub(hold);
            // Who has the list takes care of those in it.
            let passes_on = state & (WAITERS | LIST) == WAITERS && (hold != READER || is_free(left));
            let result = if passes_on {
                // [2] from the other readers, [3] from the thread that had the list
                self.count.compare_exchange(state, state | LIST, Acquire, Relaxed)
            } else {
                self.count.compare_exchange(state, left, Release, Relaxed) // [1], [2] to the next owner
            };
            match result {
                Ok(_) if passes_on => {
                    if hold == READER && self.owner.load(Relaxed) & NOT_WORTH_SPINNING != 0 {
                        self.owner.store(READERS_OWN, Relaxed);
                    }
                    return self.pass_on(hold, state | LIST);
                }
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    /// Sleeps until told to try again, or let in.
    fn sleep(node: &'static RwsemNode<M>, timeout: Timeout<'_, M>) -> Slept {
        M::sleep_while(&node.told, 0, timeout)
    }

    /// Whether the owner of the node was let in.
    fn is_let_in(node: &'static RwsemNode<M>) -> bool {
        node.told.load(Acquire) >= LET_IN // [4] from the thread that let it in
    }

    /// Waits for what the thread that took the node out of the list is about to say.
    fn await_word(node: &'static RwsemNode<M>) {
        M::spin_until(&node.told, Acquire, |told| told >= LET_IN); // [4] from that one
    }
}

/// Writers.
impl<M: Machine, const FORM: u8> Rwsem<M, FORM> {
    /// Whether the owner runs, as far as can be told.
    fn is_worth_spinning(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        owner & NOT_WORTH_SPINNING == 0
            && (owner >> OWNER_SHIFT == 0 || M::runs((owner >> OWNER_SHIFT) - 1) != Runs::No)
    }

    /// Spins as the one writer that does. False when it is time to sleep.
    fn spin_in_queue(&self, me: u32, timeout: Timeout<'_, M>) -> bool {
        if !self.is_worth_spinning() || self.spinners.acquire_or(timeout).is_err() {
            return false;
        }
        // Readers that follow each other, with no writer between, are watched once.
        let mut while_readers_own = None;
        let taken = loop {
            let Err(state) = self.steal(me) else { break true };
            if !self.spin_on_owner(me, state, timeout, &mut while_readers_own) {
                break false;
            }
        };
        // SAFETY: acquired above.
        unsafe { self.spinners.release() };
        taken
    }

    /// Watches a held lock until its owner has changed. False when that is no use any more.
    fn spin_on_owner<'a>(
        &self,
        me: u32,
        state: u32,
        timeout: Timeout<'a, M>,
        while_readers_own: &mut Option<Timeout<'a, M>>,
    ) -> bool {
        if state & HANDOFF != 0 {
            return false; // the lock is another thread's next
        }
        let owner = self.owner.load(Relaxed);
        if state & WRITER == 0 {
            return owner & NOT_WORTH_SPINNING == 0
                && self.spin_on_readers(state, timeout, while_readers_own);
        }
        *while_readers_own = None;
        let has_changed = |now| now != owner;
        match owner >> OWNER_SHIFT {
            // It is about to say that it has come, or is about to leave.
            0 => {
                let is_left = |state| state & WRITER == 0 || state & HANDOFF != 0;
                let is_left = (&self.count, Relaxed, is_left);
                M::spin_until_any_or((&self.owner, Relaxed, has_changed), is_left, timeout).is_ok()
            }
            _ if owner == me => false, // the caller's own thread has it
            thread => {
                M::spin_while_running_or(&self.owner, Relaxed, thread - 1, timeout, has_changed).is_ok()
            }
        }
    }

    /// Watches readers, of which the caller cannot know whether they run, for a time that starts with the first of them.
    fn spin_on_readers<'a>(
        &self,
        state: u32,
        timeout: Timeout<'a, M>,
        while_readers_own: &mut Option<Timeout<'a, M>>,
    ) -> bool {
        let readers = ((state & READERS) / READER).min(MOST_WATCHED);
        let within_ns = READERS_NS + u64::from(readers) * EACH_READER_NS;
        let bounded = *while_readers_own.get_or_insert_with(|| timeout.within_ns(within_ns));
        let is_over = |state: u32| state & READERS == 0 || state & (WRITER | HANDOFF) != 0;
        let spun = M::spin_until_or(&self.count, Relaxed, bounded, is_over);
        if spun.is_err() && bounded.deadline != timeout.deadline {
            // A writer that has come meanwhile writes over it, or has.
            let _: Result<u32, u32> =
                self.owner.compare_exchange(READERS_OWN, READERS_OWN | NOT_WORTH_SPINNING, Relaxed, Relaxed);
        }
        spun.is_ok()
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let me = myself::<M>();
        if FORM == SPINNING && self.spin_in_queue(me, timeout) {
            return Ok(());
        }
        let node = M::allocate_node::<RwsemNode<M>>().node;
        node.writer.set(me);
        let state = self.lock_list();
        self.waiters.push(node);
        let waited = self.wait_in_list(node, me, state, timeout);
        // SAFETY: taken out of the list.
        unsafe { M::free_node(node) };
        waited
    }

    /// Waits in the list, which the caller has, and leaves it.
    fn wait_in_list(
        &self,
        node: &'static RwsemNode<M>,
        me: u32,
        mut state: u32,
        timeout: Timeout<'_, M>,
    ) -> Result<(), GaveUp> {
        let since_ns = if FORM == FIFO { 0 } else { M::clock_ns(Clock::Monotonic) };
        let (mut has_asked, mut gives_up) = (false, false);
        loop {
            node.told.store(0, Relaxed);
            match self.claim(node, me, state) {
                Ok(()) => return Ok(()),
                Err(now) => state = now,
            }
            if gives_up {
                self.waiters.remove(node);
                if has_asked {
                    state = self.count.fetch_and(!HANDOFF, Relaxed) & !HANDOFF; // was for the caller
                }
                self.pass_on(0, state);
                return Err(GaveUp);
            }
            let asks = FORM != FIFO
                && self.waiters.is_first(node)
                && (state & HANDOFF != 0
                    || M::clock_ns(Clock::Monotonic).saturating_sub(since_ns) > BYPASS_NS);
            if asks && state & HANDOFF == 0 {
                state = self.count.fetch_or(HANDOFF, Relaxed) | HANDOFF;
            }
            has_asked |= asks;
            self.pass_on(0, state);
            if !(FORM == SPINNING && asks && self.spin_until_told(node, timeout)) {
                gives_up = Self::sleep(node, timeout) == Slept::GaveUp;
            }
            if Self::is_let_in(node) {
                return Ok(());
            }
            state = self.lock_list();
            if !node.links.are_in_list() {
                self.pass_on(0, state);
                Self::await_word(node);
                return Ok(());
            }
        }
    }

    /// Takes the lock for a writer in the list if it is free, and gives the list back then.
    fn claim(&self, node: &'static RwsemNode<M>, me: u32, mut state: u32) -> Result<(), u32> {
        loop {
            if !is_free(state) || Self::hands_over(state) && !self.waiters.is_first(node) {
                return Err(state);
            }
            // [1], [2] from the last releases
            match self.count.compare_exchange(state, state | WRITER, Acquire, Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        self.owner.store(me, Relaxed);
        self.waiters.remove(node);
        self.unlock_list();
        Ok(())
    }

    /// Spins for the lock that the caller has asked for, while its owner runs. False when it is time to sleep.
    fn spin_until_told(&self, node: &'static RwsemNode<M>, timeout: Timeout<'_, M>) -> bool {
        let owner = self.owner.load(Relaxed) >> OWNER_SHIFT;
        owner != 0
            && M::spin_while_running_or(&node.told, Relaxed, owner - 1, timeout, |told| told != 0).is_ok()
    }
}

/// Readers.
impl<M: Machine, const FORM: u8> Rwsem<M, FORM> {
    #[inline]
    fn enter_shared(&self, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        loop {
            let before = self.count.fetch_add(READER, Acquire); // [1] from a writer's release
            if before & barred(reads_already) == 0 {
                self.readers_own();
                return Ok(());
            }
            if before & FULL == 0 {
                return self.wait_shared(before, reads_already, timeout);
            }
            self.leave(READER);
            M::spin_until_or(&self.count, Relaxed, timeout, |state| state & FULL == 0)?;
        }
    }

    /// The caller reads.
    #[inline]
    fn readers_own(&self) {
        if self.owner.load(Relaxed) & READERS_OWN == 0 {
            self.owner.store(READERS_OWN, Relaxed);
        }
    }

    /// Whether a reader that has added itself to this state goes past those that wait.
    fn steals_shared(&self, before: u32) -> bool {
        let joins = before & READERS != 0 && self.owner.load(Relaxed) & READERS_OWN != 0;
        before & WRITER == 0 && !Self::hands_over(before) && !joins
    }

    /// A reader that has added itself to this state.
    #[cold]
    #[inline(never)]
    fn wait_shared(&self, before: u32, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        if self.steals_shared(before) {
            self.readers_own();
            return Ok(());
        }
        let node = M::allocate_node::<RwsemNode<M>>().node;
        node.writer.set(0);
        node.told.store(0, Relaxed);
        let state = self.lock_list();
        if reads_already {
            self.waiters.push_first(node);
        } else {
            self.waiters.push(node);
        }
        self.pass_on(READER, state);
        let waited = self.wait_in_list_shared(node, timeout);
        // SAFETY: taken out of the list.
        unsafe { M::free_node(node) };
        waited
    }

    /// Waits in the list and leaves it.
    fn wait_in_list_shared(
        &self,
        node: &'static RwsemNode<M>,
        timeout: Timeout<'_, M>,
    ) -> Result<(), GaveUp> {
        while !Self::is_let_in(node) {
            if Self::sleep(node, timeout) == Slept::GaveUp {
                let state = self.lock_list();
                let is_left = node.links.are_in_list();
                if is_left {
                    self.waiters.remove(node);
                }
                self.pass_on(0, state);
                if is_left {
                    return Err(GaveUp);
                }
                Self::await_word(node);
            }
        }
        if node.told.load(Relaxed) == LET_IN_TO_WAKE {
            let state = self.lock_list();
            self.pass_on(0, state);
        }
        Ok(())
    }
}

// SAFETY: a writer enters a word without writer and readers, or is handed one that has its mark; a reader one without writer.
unsafe impl<M: Machine, const FORM: u8> RawLock<M> for Rwsem<M, FORM> {
    const NEW: Self =
        Self { count: M::U32::ZERO, owner: M::U32::ZERO, spinners: Osq::NEW, waiters: Ring::NEW };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        self.owner.store(0, Relaxed);
        // [1] to the next owner
        if self.count.compare_exchange(WRITER, 0, Release, Relaxed).is_err() {
            self.leave(WRITER);
        }
    }

    fn is_idle(&self) -> bool {
        self.count.load(Relaxed) == 0 && self.spinners.is_idle()
    }

    const PROMISES: bool = true;

    fn is_promised(&self) -> bool {
        Self::hands_over(self.count.load(Relaxed))
    }

    fn is_unheld(&self) -> bool {
        is_free(self.count.load(Relaxed))
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine, const FORM: u8> TryLock<M> for Rwsem<M, FORM> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.steal(myself::<M>()).is_ok()
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine, const FORM: u8> TimedLock<M> for Rwsem<M, FORM> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        // [1], [2] from the last releases
        if self.count.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok() {
            self.owner.store(myself::<M>(), Relaxed);
            return Ok(());
        }
        self.wait(timeout)
    }
}

// SAFETY: as for the exclusive side.
unsafe impl<M: Machine, const FORM: u8> RawRwLock<M> for Rwsem<M, FORM> {
    #[inline]
    fn acquire_shared(&self, reads_already: bool) {
        let _: Result<(), GaveUp> = self.enter_shared(reads_already, Timeout::NONE); // never gives up
    }

    #[inline]
    fn try_acquire_shared(&self, reads_already: bool) -> bool {
        let mut state = self.count.load(Relaxed);
        while state & barred(reads_already) == 0 {
            // [1] from a writer's release
            match self.count.compare_exchange(state, state + READER, Acquire, Relaxed) {
                Ok(_) => {
                    self.readers_own();
                    return true;
                }
                Err(now) => state = now,
            }
        }
        false
    }

    #[inline]
    unsafe fn release_shared(&self) {
        // A guess saves the transfer that a look would be; [2] to the next writer
        if self.count.compare_exchange(READER, 0, Release, Relaxed).is_err() {
            self.leave(READER);
        }
    }

    #[inline]
    fn is_exclusive(&self) -> bool {
        self.count.load(Relaxed) & WRITER != 0
    }

    const BOUNDS_READERS: bool = true;

    unsafe fn near_full(&self) {
        self.count.store(FULL - READER, Relaxed);
    }
}

// SAFETY: the writer leaves in the step in which the reader comes.
unsafe impl<M: Machine, const FORM: u8> DowngradeLock<M> for Rwsem<M, FORM> {
    #[inline]
    unsafe fn downgrade(&self) {
        self.owner.store(READERS_OWN, Relaxed);
        self.leave(WRITER.wrapping_sub(READER));
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine, const FORM: u8> TimedRwLock<M> for Rwsem<M, FORM> {
    #[inline]
    fn acquire_shared_or(&self, reads_already: bool, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        self.enter_shared(reads_already, timeout)
    }
}
