//! Something that is done once, by the thread that comes first, while the others wait.
//!
//! | state     | meaning                                             |
//! |-----------|-----------------------------------------------------|
//! | `TO_DO`   | no thread has begun, or the one that had panicked   |
//! | `BEGUN`   | a thread is at it                                   |
//! | `WAITED`  | the same, and a waiter sleeps until it is over      |
//! | `DONE`    | it is done                                          |
//!
//! Order: of those that wait after a panic, the thread that comes first does it.
//! Source: Rust's `std` 2022.

use core::fmt;

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Machine, Patient, Timeout, Word};

const TO_DO: u32 = 0;
const BEGUN: u32 = 1;
const WAITED: u32 = 2;
const DONE: u32 = 3;

/// Does something once, 4 bytes.
///
/// ```
/// use contend_locks::prelude::*;
///
/// static INITIALISED: Once = Once::new();
/// let mut count = 0;
/// INITIALISED.call_once(|| count += 1);
/// INITIALISED.call_once(|| count += 1);
/// assert_eq!((count, INITIALISED.is_completed()), (1, true));
/// ```
pub struct Once<M: Machine = Patient> {
    state: M::U32,
}

const _: () = assert!(size_of::<Once>() == 4);

impl<M: Machine> Once<M> {
    /// Nothing is done yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: M::U32::ZERO }
    }

    /// Whether it is done. What it did can be seen then.
    #[inline]
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.state.load(Acquire) == DONE // [1] from the thread that did it
    }

    /// Does it if no thread has, and waits for a thread that is at it. If `what` panics the next caller tries again. It must not
    /// call this for the same `Once`, which would wait for itself.
    #[inline]
    pub fn call_once(&self, what: impl FnOnce()) {
        if !self.is_completed() {
            self.begin_or_wait(what);
        }
    }

    #[cold]
    fn begin_or_wait(&self, what: impl FnOnce()) {
        let mut state = self.state.load(Acquire); // [1] as above
        loop {
            let next = match state {
                DONE => return,
                // [2] from the thread that has panicked
                TO_DO => match self.state.compare_exchange(TO_DO, BEGUN, Acquire, Acquire) {
                    Ok(_) => break,
                    Err(now) => now,
                },
                BEGUN => match self.state.compare_exchange(BEGUN, WAITED, Relaxed, Acquire) {
                    Ok(_) => WAITED,
                    Err(now) => now,
                },
                _ => {
                    M::sleep_while(&self.state, WAITED, Timeout::NONE);
                    self.state.load(Acquire) // [1] as above
                }
            };
            state = next;
        }
        let mut end = End { once: self, state: TO_DO };
        what();
        end.state = DONE;
    }
}

/// Says how it ended, also when that is by a panic.
struct End<'a, M: Machine> {
    once: &'a Once<M>,
    state: u32,
}

impl<M: Machine> Drop for End<'_, M> {
    fn drop(&mut self) {
        // [1] to all, [2] to the next one that tries
        if self.once.state.swap(self.state, Release) == WAITED {
            M::wake(&raw const self.once.state, u32::MAX);
        }
    }
}

impl<M: Machine> Default for Once<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Machine> fmt::Debug for Once<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("done", &self.is_completed()).finish()
    }
}
