//! Calls of futex(2) that the program makes by `syscall`, handed on to the launcher: see [`crate::futex_calls`].

use core::sync::atomic::{AtomicPtr, Ordering, Ordering::Relaxed};

use super::{Host, Recorder};
use crate::arena::Need;
use crate::futex_calls::{FutexCalls, FutexRecord};

/// What the header's `futex_calls` says while a process makes the ring.
const BEING_MADE: u64 = 1;
/// The same where there was no space for it.
const NO_SPACE: u64 = u64::MAX;

/// The ring, as far as this process has found it.
#[derive(Debug)]
pub(super) struct Found(AtomicPtr<FutexCalls>);

impl Found {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }
}

impl<H: Host> Recorder<H> {
    /// A call is over; its section is filled in. May be called anywhere, in signal handlers as well.
    #[cold]
    pub fn futex_called(&self, call: &FutexRecord) {
        match self.futex_calls() {
            Some(calls) => calls.push(&FutexRecord { section: self.section_number(), ..*call }),
            None => self.drop_event(),
        }
    }

    /// Whether a call that wakes threads may be told of beside the waits.
    #[cold]
    pub fn has_space_for_wakes(&self) -> bool {
        self.futex_calls().is_some_and(FutexCalls::has_space_for_wakes)
    }

    fn futex_calls(&self) -> Option<&FutexCalls> {
        let known = self.futex_calls.0.load(Ordering::Acquire);
        let start = if known.is_null() { self.find_futex_calls()? } else { known };
        // SAFETY: in the mapping, which stays, where the file exists; aligned as positions are, and all of its words are atomic.
        Some(unsafe { &*start })
    }

    /// Finds the ring in the profile, or makes it.
    #[inline(never)]
    fn find_futex_calls(&self) -> Option<*mut FutexCalls> {
        let place = &self.arena.header()?.futex_calls;
        if place.compare_exchange(0, BEING_MADE, Relaxed, Relaxed).is_ok() {
            let block =
                self.arena.allocate(&self.host, Need::Detail, self.section_number(), 0, FutexCalls::LENGTH);
            // It holds no records, and is never full.
            let position = block.map_or(NO_SPACE, |block| self.arena.position_of(block.header()) + 1);
            place.store(position, Ordering::Release);
        }
        let position = place.load(Ordering::Acquire);
        if matches!(position, BEING_MADE | NO_SPACE) {
            return None;
        }
        let start = self.arena.at_of_others(&self.host, position, FutexCalls::LENGTH)?.cast();
        self.futex_calls.0.store(start, Ordering::Release);
        Some(start)
    }
}
