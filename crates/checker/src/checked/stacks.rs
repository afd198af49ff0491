//! The stacks of threads that are suspended: what is part of a state, and what is wiped.

use coroutine::saved::{CoroutineBytes, SWITCH_BYTES, UsedStack};
use coroutine::{Coroutine, DefaultStack, Yielder};

use super::progress::{Attempt, PolledLoad, Time};
use super::transactions::Transaction;
use crate::walker::{Key, Saved};

/// Bytes of a coroutine's stack; touched pages only are there.
pub(super) const STACK_BYTES: usize = 256 << 10;

/// Bytes below it that are wiped before.
pub(super) const WIPED_BYTES: usize = 2048;

/// What a thread uses of its stack at most, with what the last run has left there.
pub(super) const USED_BYTES: usize = 32 << 10;

/// A request: true when it is answered.
pub(super) type Request = *mut dyn FnMut() -> bool;

/// A thread between its steps.
#[derive(Clone, Copy, Default)]
pub(super) struct Suspended {
    pub(super) yielder: Option<*const Yielder<(), ()>>,
    pub(super) attempt: Option<Attempt>,
    pub(super) polled: Option<PolledLoad>,
    pub(super) time: Time,
    pub(super) transaction: Transaction,
    pub(super) request: Option<Request>,
    /// The request is answered: the thread can go on.
    pub(super) answered: bool,
    /// The end of its stack, and where it uses it from.
    pub(super) base: usize,
    pub(super) from: usize,
    pub(super) done: bool,
    /// Bytes of memory that it has allocated.
    pub(super) allocated: usize,
    /// The key of its stack, as long as it does not run.
    pub(super) key: Option<u128>,
}

/// Overwrites what lies below on the stack.
#[inline(never)]
pub(super) fn wipe() {
    let mut wiped = [0_u64; WIPED_BYTES / 8];
    std::hint::black_box(&mut wiped);
}

impl Suspended {
    /// The part of its stack that it uses, unless it is done.
    pub(super) fn used(&self) -> Option<UsedStack> {
        (!self.done).then(|| UsedStack::new(self.from, self.base))
    }

    /// Where the part below begins that is wiped.
    pub(super) fn wiped_from(&self) -> usize {
        self.used().and_then(|used| used.addresses().next()).unwrap_or(self.base) - WIPED_BYTES
    }

    /// What lies on its stack.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> + use<> {
        // SAFETY: the stack of a suspended coroutine, which stays mapped.
        self.used().into_iter().flat_map(|used| unsafe { used.words() })
    }

    /// Whether switching has left this byte of its stack as it was wiped.
    fn is_zero(&self, address: usize) -> bool {
        // SAFETY: below the frames of a suspended coroutine, on its stack.
        unsafe { std::ptr::read_volatile(address as *const u8) == 0 }
    }

    /// What the thread is about to do, as the key of its stack and of what the session notes of it.
    fn key(&mut self) -> u128 {
        if let Some(key) = self.key {
            return key;
        }
        let mut key = Key::NEW;
        key.add(
            (self.allocated as u64) << 2
                | u64::from(self.attempt.is_some()) << 1
                | u64::from(self.polled.is_some()),
        );
        if !self.done {
            if let Some(attempt) = &self.attempt {
                attempt.add_to(&mut key);
            }
            if let Some(polled) = &self.polled {
                polled.add_to(&mut key);
            }
            self.time.add_to(&mut key);
            self.transaction.add_to(&mut key);
            debug_assert!(
                (self.from - WIPED_BYTES / 2..self.from - SWITCH_BYTES).all(|address| self.is_zero(address)),
                "switching needs more than {SWITCH_BYTES} bytes"
            );
            self.words().for_each(|word| key.add(word));
        }
        *self.key.insert(key.value())
    }
}

/// Adds what the threads are about to do and, of a client of one thread, how often it has woken others: that is asked of it.
pub(super) fn add_keys(threads: &mut [Suspended], wakes: usize, key: &mut Key) {
    if threads.len() == 1 {
        key.add(wakes as u64);
    }
    for thread in threads {
        let own = thread.key();
        key.add(own as u64);
        key.add((own >> 64) as u64);
    }
}

/// All threads, and the machine, as they were at a fork. It is good until the client's run ends: stacks point to
/// what the client has.
#[derive(Default)]
pub(super) struct Snapshot {
    pub(super) is_good: bool,
    pub(super) suspended: Vec<Suspended>,
    pub(super) fibers: Vec<CoroutineBytes<Fiber>>,
    /// What lies on the stacks, one after another.
    pub(super) stacks: Vec<u64>,
    pub(super) machine: Saved,
    pub(super) wakes: usize,
}

pub(super) type Fiber = Coroutine<(), (), (), DefaultStack>;
