//! Linux's mutex: spin while the owner runs, then sleep, and be handed the lock if that does not help.
//!
//! | bits of `word` | name      | set by                                    | cleared by                                   |
//! |----------------|-----------|-------------------------------------------|----------------------------------------------|
//! | 0              | `WAITERS` | a waiter that has entered the list        | the waiter that leaves it empty              |
//! | 1              | `HANDOFF` | the first waiter, woken and not handed it | the hand-over, an entry, or the last to leave |
//! | 2              | `PICKUP`  | the hand-over, with the new owner         | that owner, when it polls                    |
//! | 3              | `LIST`    | a thread that changes the list            | the same thread                              |
//! | 4 to 31        | owner     | acquirers, with their thread's number + 1 | the release; 0: free                         |
//!
//! | word           | written by                       | meaning                                          |
//! |----------------|----------------------------------|--------------------------------------------------|
//! | `spinners`     | see [`Osq`]                      | the queue of those that spin                     |
//! | `waiters`      | the thread that has `LIST`       | the list of those that sleep, see `ring.rs`      |
//! | node `thread`  | its owner                        | who waits there                                  |
//! | node `woken`   | its owner clears, a release sets | what the owner sleeps on                         |
//!
//! 1. Fast path: one exchange of a word that is zero.
//! 2. Middle path: one thread at a time, the head of `spinners`, watches the word as long as the owner stays the same and
//!    runs. It polls before it exchanges.
//! 3. Slow path: a waiter enters the list and sleeps. A release frees the lock first and wakes the first waiter, which may find
//!    that another thread was faster; then it sets `HANDOFF` and spins beside the queue, while the owner runs. While that bit is
//!    set, only the first waiter gets the lock.
//!
//! A thread that has `LIST` does not free it while the lock is free: it takes the lock, or hands it over where `HANDOFF` is set.
//! So a release that finds `LIST` set by another thread need not wait for it, and a release that sets it frees the lock and the
//! list in one write, after which it touches the lock no more. (Linux frees first and then looks into the list.)
//! Order: none, but the first waiter is bypassed only until it has been woken once. Any thread may release.
//! Source: Linux since 3.16, `Documentation/locking/mutex-design.rst`; hand-off since 4.10.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{GaveUp, Machine, Node, Patient, PlainCell, Runs, Slept, Timeout, Word};

use crate::ring::{Linked, Links, Ring};
use crate::{Elidable, Osq, RawLock, TimedLock, TryLock};

const WAITERS: u32 = 1;
const HANDOFF: u32 = 1 << 1;
const PICKUP: u32 = 1 << 2;
const LIST: u32 = 1 << 3;
const OWNER_SHIFT: u32 = 4;
const OWNER: u32 = u32::MAX << OWNER_SHIFT;

/// A waiter in the list.
struct MutexNode<M: Machine> {
    links: Links<M, MutexNode<M>>,
    thread: M::Cell<u32>,
    woken: M::U32,
}

// SAFETY: words and cells, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for MutexNode<M> {}

/// Linux's mutex, 24 bytes. Without `QUEUED` the middle path has no queue, so that all who spin watch the word, as in Linux before 3.10:
/// to be compared with, and in no catalogue.
pub struct KernelMutex<M: Machine = Patient, const QUEUED: bool = true> {
    word: M::U32,
    spinners: Osq<M>,
    waiters: Ring<M, MutexNode<M>>,
    _padding: M::Cell<u32>, // so that all bytes of a lock are zeros at first
}

const _: () = assert!(size_of::<KernelMutex>() == 24);

/// The caller as an owner. Numbers past the field, which no machine has in earnest, are one.
#[inline]
fn myself<M: Machine>() -> u32 {
    M::thread().saturating_add(1).min(OWNER >> OWNER_SHIFT) << OWNER_SHIFT
}

const fn is_free(state: u32) -> bool {
    state & OWNER == 0
}

impl<M: Machine> Linked<M> for MutexNode<M> {
    fn links(&self) -> &Links<M, Self> {
        &self.links
    }
}

/// The list and what comes with it: `LIST` is set by the caller. It ends with a write of the word.
impl<M: Machine, const QUEUED: bool> KernelMutex<M, QUEUED> {
    fn lock_list(&self) {
        loop {
            let state = M::spin_until(&self.word, Relaxed, |state| state & LIST == 0);
            // [2] from the thread that had the list
            if self.word.compare_exchange(state, state | LIST, Acquire, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// The flags of the list as it is.
    fn flags(&self) -> u32 {
        if self.waiters.is_empty() { 0 } else { WAITERS }
    }

    /// Makes the first waiter the owner, or wakes it to find the lock free. The last that the caller does with the lock.
    fn pass_to(&self, first: &'static MutexNode<M>, hands_over: bool) {
        // Before the write that lets the waiter go, since its node may be another one's afterwards.
        first.woken.store(1, Relaxed);
        let owner = if hands_over { first.thread.get() | PICKUP } else { 0 };
        self.word.store(owner | WAITERS, Release); // [1], [2] to the next owner, and the thread that has the list next
        M::wake(&raw const first.woken, 1);
    }

    /// Takes the lock for a waiter if it is free or was handed to it. A free lock that is to be handed over goes to the first.
    fn claim(&self, node: &'static MutexNode<M>, me: u32) -> Claim {
        loop {
            let state = self.word.load(Relaxed);
            let handed_over = state & (OWNER | PICKUP) == me | PICKUP;
            if !is_free(state) && !handed_over {
                return Claim::Held;
            }
            if is_free(state)
                && state & HANDOFF != 0
                && let Some(first) = self.waiters.first()
                && !self.waiters.is_first(node)
            {
                self.pass_to(first, true);
                return Claim::PassedOn;
            }
            // [1] from the release
            if self.word.compare_exchange(state, me | WAITERS | LIST, Acquire, Relaxed).is_ok() {
                return Claim::Taken;
            }
        }
    }

    /// Gives the list back with these flags besides, unless the lock has become free meanwhile.
    fn unlock_list(&self, flags: u32, dropped: u32) -> bool {
        let mut state = self.word.load(Relaxed);
        while !is_free(state) {
            // [2] to the thread that has the list next
            match self.word.compare_exchange(state, (state | flags) & !dropped & !LIST, Release, Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }
}

/// What a waiter that has the list found.
enum Claim {
    /// Another thread owns the lock.
    Held,
    /// The waiter owns it.
    Taken,
    /// The first waiter was handed the lock, and the list is left.
    PassedOn,
}

impl<M: Machine, const QUEUED: bool> KernelMutex<M, QUEUED> {
    /// Takes a free lock, past those that wait.
    #[inline]
    fn steal(&self, me: u32) -> bool {
        let mut state = self.word.load(Relaxed);
        while is_free(state) && state & HANDOFF == 0 {
            // [1] from the release
            match self.word.compare_exchange(state, state | me, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Watches the word while its owner stays the same and runs, unless the lock is free or was handed to the caller. False when
    /// that is no use any more.
    fn spin_on_owner(&self, me: u32, timeout: Timeout<'_, M>) -> bool {
        let state = self.word.load(Relaxed);
        let owner = state & OWNER;
        if owner == 0 || owner == me {
            return owner == 0 || state & PICKUP != 0; // else the caller's own thread holds the lock
        }
        let thread = (owner >> OWNER_SHIFT) - 1;
        let changed = |state| state & OWNER != owner;
        M::spin_while_running_or(&self.word, Relaxed, thread, timeout, changed).is_ok()
    }

    /// The middle path. False when it is time to sleep.
    fn spin_in_queue(&self, me: u32, timeout: Timeout<'_, M>) -> bool {
        if !self.is_worth_spinning() || QUEUED && self.spinners.acquire_or(timeout).is_err() {
            return false;
        }
        let taken = loop {
            if self.steal(me) {
                break true;
            }
            let state = self.word.load(Relaxed);
            if state & (HANDOFF | PICKUP) != 0 || !self.spin_on_owner(me, timeout) {
                break false; // the lock is another thread's next
            }
        };
        if QUEUED {
            // SAFETY: acquired above.
            unsafe { self.spinners.release() };
        }
        taken
    }

    /// Whether the owner runs, as far as can be told.
    fn is_worth_spinning(&self) -> bool {
        let owner = self.word.load(Relaxed) >> OWNER_SHIFT;
        owner == 0 || M::runs(owner - 1) != Runs::No
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        let me = myself::<M>();
        if self.spin_in_queue(me, timeout) {
            return Ok(());
        }
        let node = M::allocate_node::<MutexNode<M>>().node;
        node.thread.set(me);
        self.lock_list();
        self.waiters.push(node);
        let waited = self.wait_in_list(node, me, timeout);
        // SAFETY: taken out of the list.
        unsafe { M::free_node(node) };
        waited
    }

    /// Waits in the list, which the caller has, and leaves it.
    fn wait_in_list(
        &self,
        node: &'static MutexNode<M>,
        me: u32,
        timeout: Timeout<'_, M>,
    ) -> Result<(), GaveUp> {
        let (mut was_woken, mut gives_up) = (false, false);
        loop {
            node.woken.store(0, Relaxed);
            let asks = was_woken && self.waiters.is_first(node) && !gives_up;
            match self.claim(node, me) {
                Claim::Taken => {
                    self.waiters.remove(node);
                    self.word.store(me | self.flags(), Release); // [2] to the thread that has the list next
                    return Ok(());
                }
                Claim::Held if gives_up => {
                    self.waiters.remove(node);
                    let flags = self.flags();
                    // What it has asked for goes to the next one, if there is any.
                    if self.unlock_list(flags, if flags == 0 { WAITERS | HANDOFF } else { 0 }) {
                        return Err(GaveUp);
                    }
                    self.waiters.push(node); // free: taken in the next turn
                    continue;
                }
                Claim::Held => {
                    if !self.unlock_list(if asks { WAITERS | HANDOFF } else { WAITERS }, 0) {
                        continue;
                    }
                }
                Claim::PassedOn => {}
            }
            if !(asks && self.spin_on_owner(me, timeout)) {
                gives_up = M::sleep_while(&node.woken, 0, timeout) == Slept::GaveUp;
            }
            was_woken |= node.woken.load(Relaxed) != 0;
            self.lock_list();
        }
    }

    /// The release of a lock that others wait for.
    #[cold]
    #[inline(never)]
    fn release_and_wake(&self) {
        loop {
            let state = self.word.load(Relaxed);
            if state & LIST != 0 || state & WAITERS == 0 {
                // [1] to the next owner. Who has the list takes care of the rest.
                if self.word.compare_exchange(state, state & !OWNER, Release, Relaxed).is_ok() {
                    return;
                }
            } else if self.word.compare_exchange(state, state | LIST, Acquire, Relaxed).is_ok() {
                // [2] from the thread that had the list
                let first = self.waiters.first().expect("somebody waits while the word says so");
                return self.pass_to(first, state & HANDOFF != 0);
            }
        }
    }
}

// SAFETY: one thread at a time writes itself, or is written, into a word without an owner, or one that it owns.
unsafe impl<M: Machine, const QUEUED: bool> RawLock<M> for KernelMutex<M, QUEUED> {
    const NEW: Self =
        Self { word: M::U32::ZERO, spinners: Osq::NEW, waiters: Ring::NEW, _padding: M::Cell::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        let state = self.word.load(Relaxed);
        if state & !OWNER != 0 || self.word.compare_exchange(state, 0, Release, Relaxed).is_err() {
            // [1] to the next owner
            self.release_and_wake();
        }
    }

    fn is_idle(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.spinners.is_idle()
    }

    const PROMISES: bool = true;

    fn is_promised(&self) -> bool {
        self.word.load(Relaxed) & HANDOFF != 0
    }

    fn is_unheld(&self) -> bool {
        is_free(self.word.load(Relaxed))
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine, const QUEUED: bool> TryLock<M> for KernelMutex<M, QUEUED> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.steal(myself::<M>())
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine, const QUEUED: bool> TimedLock<M> for KernelMutex<M, QUEUED> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        // [1] from the last release
        if self.word.compare_exchange(0, myself::<M>(), Acquire, Relaxed).is_ok() {
            return Ok(());
        }
        self.wait(timeout)
    }
}

// SAFETY: a holder has written the lock's word, which is free only when no thread holds the lock.
unsafe impl<M: Machine, const QUEUED: bool> Elidable<M> for KernelMutex<M, QUEUED> {
    fn await_free(&self) {
        M::spin_until(&self.word, Relaxed, |state| state == 0);
    }
}
