//! Who holds which lock, from what workloads announce: the check of exclusion, and each lock's counters.

use crate::Time;
use crate::engine::NOBODY;
use crate::report::LockCounts;

/// A lock that was announced.
#[derive(Debug)]
pub(crate) struct Holders {
    pub(crate) counts: LockCounts,
    exclusive: Option<u32>,
    shared: Vec<u32>,
    /// Threads that have announced an acquisition and neither have the lock nor gave up.
    pub(crate) waiters: u32,
    last_core: u32,
    /// When the last holder announced its release, if somebody was waiting then.
    released_to_waiter: Option<Time>,
}

impl Holders {
    pub(crate) fn new(address: u32) -> Self {
        Self {
            counts: LockCounts { address, ..LockCounts::default() },
            exclusive: None,
            shared: Vec::new(),
            waiters: 0,
            last_core: NOBODY,
            released_to_waiter: None,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.exclusive.is_some() || !self.shared.is_empty()
    }

    /// A thread has the lock; gives those who should not have held it.
    pub(crate) fn acquired(&mut self, by: Acquirer, shared: bool, now: Time) -> Vec<u32> {
        let mut wrong = self.exclusive.into_iter().collect::<Vec<_>>();
        if shared {
            self.shared.push(by.thread);
        } else {
            wrong.extend(&self.shared);
            self.exclusive = Some(by.thread);
        }
        self.waiters = self.waiters.saturating_sub(1);
        let counts = &mut self.counts;
        counts.acquisitions += 1;
        counts.contended += u64::from(by.met_others);
        counts.wait_ps += now - by.since;
        if self.last_core != NOBODY && self.last_core != by.core {
            counts.from_other_core += 1;
        }
        self.last_core = by.core;
        if let Some(released) = self.released_to_waiter.take() {
            counts.handovers += 1;
            counts.handover_ps += now.saturating_sub(released);
        }
        wrong
    }

    pub(crate) fn releasing(&mut self, thread: u32, shared: bool, held: Time, now: Time) {
        self.counts.held_ps += held;
        if shared {
            if let Some(at) = self.shared.iter().position(|&holder| holder == thread) {
                self.shared.swap_remove(at);
            }
        } else {
            self.exclusive = None;
        }
        self.released_to_waiter = (self.waiters > 0).then_some(now);
    }
}

/// Who takes a lock.
#[derive(Clone, Copy)]
pub(crate) struct Acquirer {
    pub(crate) thread: u32,
    pub(crate) core: u32,
    /// When it announced that.
    pub(crate) since: Time,
    /// The lock was held then, or somebody was waiting.
    pub(crate) met_others: bool,
}
