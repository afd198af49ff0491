//! Who holds which lock, from what workloads announce: the check of exclusion, and each lock's counters.

use std::collections::BTreeMap;

use crate::report::{LockCounts, TransactionCounts};
use crate::{NOBODY, Time};

/// The locks that were announced, in the order of their first announcements, and for which of them each access counts.
pub(crate) struct Locks {
    all: Vec<Holders>,
    numbers: BTreeMap<u32, u32>,
    /// The lock that was looked up last, by its offset.
    last: (u32, u32),
    /// Accesses that hit, of all threads, and how many of them have been counted for a lock.
    hits: u64,
    hits_counted: u64,
}

impl Locks {
    pub(crate) fn new() -> Self {
        Self { all: Vec::new(), numbers: BTreeMap::new(), last: (NOBODY, NOBODY), hits: 0, hits_counted: 0 }
    }

    /// The number of the lock at an offset.
    #[inline]
    pub(crate) fn number(&mut self, offset: u32) -> u32 {
        if self.last.0 != offset {
            self.last = (offset, self.find(offset));
        }
        self.last.1
    }

    fn find(&mut self, offset: u32) -> u32 {
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(offset).or_insert(next);
        if number == next {
            self.all.push(Holders::new(offset));
        }
        number
    }

    /// The lock with a number.
    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> &mut Holders {
        &mut self.all[number as usize]
    }

    /// Notes an access of the running thread that hit.
    #[inline]
    pub(crate) fn hit(&mut self) {
        self.hits += 1;
    }

    /// Whether there were hits since they were last counted for a lock.
    #[inline]
    pub(crate) fn has_uncounted_hits(&self) -> bool {
        self.hits != self.hits_counted
    }

    /// Counts the hits since the last call for a lock, if there is one with this number.
    #[inline]
    pub(crate) fn count_hits(&mut self, number: u32) {
        let fresh = self.hits - self.hits_counted;
        self.hits_counted = self.hits;
        if let Some(lock) = self.all.get_mut(number as usize) {
            lock.counts.hits += fresh;
        }
    }

    /// Counts a miss for a lock, if there is one with this number.
    #[inline]
    pub(crate) fn count_miss(&mut self, number: u32, waited: Time) {
        if let Some(lock) = self.all.get_mut(number as usize) {
            lock.counts.misses += 1;
            lock.counts.miss_ps += waited;
        }
    }

    /// Counts something of transactions for a lock, if there is one with this number.
    pub(crate) fn count_transaction(&mut self, number: u32, count: impl Fn(&mut TransactionCounts)) {
        if let Some(lock) = self.all.get_mut(number as usize) {
            count(&mut lock.counts.transactions);
        }
    }

    /// What each lock has counted.
    pub(crate) fn counts(&self) -> Vec<LockCounts> {
        let with_fallbacks = |mut counts: LockCounts| {
            if !counts.transactions.is_zero() {
                counts.transactions.fallbacks =
                    counts.acquisitions.saturating_sub(counts.transactions.committed);
            }
            counts
        };
        self.all.iter().map(|lock| with_fallbacks(lock.counts)).collect()
    }
}

/// A lock that was announced.
#[derive(Debug)]
pub(crate) struct Holders {
    pub(crate) counts: LockCounts,
    exclusive: Option<u32>,
    shared: Vec<u32>,
    /// Threads that have announced an acquisition and neither have the lock nor gave up.
    pub(crate) waiters: u32,
    last_core: u32,
    /// When the last holder announced its release, if a thread was waiting then.
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
        self.waiters -= u32::from(by.since.is_some());
        let counts = &mut self.counts;
        counts.acquisitions += 1;
        counts.contended += u64::from(by.met_others);
        counts.wait_ps += by.since.map_or(0, |since| now - since);
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
    /// When it announced that, if it did.
    pub(crate) since: Option<Time>,
    /// The lock was held then, or a thread was waiting.
    pub(crate) met_others: bool,
}
