//! What the running thread announces: whom it makes a holder of which lock, and what is counted.

use machine::Event as Note;

use super::Engine;
use crate::locks::Acquirer;
use crate::stopped::Reason;
use crate::trace::What;
use crate::{NOBODY, Time};

impl Engine {
    /// An announcement of the running thread.
    pub(crate) fn note(&mut self, event: Note) {
        self.count_hits();
        let current = self.scheduler.current;
        if current == NOBODY {
            return;
        }
        if self.is_in_transaction() {
            return self.keep_back(event);
        }
        self.announce(self.with_offset(event), self.clock.now);
    }

    /// The lock, by its number, that a thread's accesses count for after this announcement.
    pub(super) fn counted_for_after(&mut self, event: Note) -> u32 {
        match event {
            Note::Acquiring { lock } | Note::Releasing { lock, .. } => self.locks.number(lock as u32),
            Note::Acquired { .. } | Note::GaveUp { .. } | Note::Operation => NOBODY,
        }
    }

    /// What the running thread has announced at a time takes effect. Its lock has its simulated address.
    #[inline(always)] // but for transactions it is called in one place
    pub(super) fn announce(&mut self, event: Note, now: Time) {
        let (current, core) = (self.scheduler.current, self.scheduler.current_core);
        self.trace.record(now, core, current, What::Note(event));
        let counted_for = self.counted_for_after(event);
        let thread = &mut self.threads[current as usize];
        thread.counted_for = counted_for;
        if (self.progress.counted_from..self.progress.running_until).contains(&now) {
            // What ends before or after the plan's duration belongs to no rate.
            thread.counts.count(event);
        }
        match event {
            Note::Operation => {
                self.progress.is_productive(now);
            }
            Note::Acquiring { .. } => {
                let waiting = self.locks.get(counted_for);
                waiting.waiters += 1;
                thread.acquiring = Some((counted_for, now));
                thread.met_others = waiting.is_held() || waiting.waiters > 1;
            }
            Note::GaveUp { lock } => {
                let lock = self.locks.number(lock as u32);
                let waited = thread.acquiring.take_if(|(of, _)| *of == lock).is_some();
                let lock = self.locks.get(lock);
                lock.waiters -= u32::from(waited);
                lock.counts.gave_up += 1;
            }
            Note::Acquired { lock, shared } => {
                self.progress.is_productive(now);
                let lock = self.locks.number(lock as u32);
                thread.holding.push((lock, now));
                // One that has not said that it waits did not.
                let waited = thread.acquiring.take_if(|(of, _)| *of == lock);
                let met_others = waited.is_some() && thread.met_others;
                let by =
                    Acquirer { thread: current, core, since: waited.map(|(_, since)| since), met_others };
                let holders = self.locks.get(lock).acquired(by, shared, now);
                if !holders.is_empty() {
                    let lock = self.locks.get(lock).counts.address;
                    self.stop = Some(Reason::Exclusion { lock, taker: current, holders });
                }
            }
            Note::Releasing { shared, .. } => {
                // A lock may be released by another thread than its owner.
                let at = thread.holding.iter().rposition(|&(lock, _)| lock == counted_for);
                let held = at.map_or(0, |at| now - thread.holding.remove(at).1);
                self.locks.get(counted_for).releasing(current, shared, held, now);
            }
        }
    }

    /// The same event with the simulated address of its lock.
    pub(super) fn with_offset(&self, event: Note) -> Note {
        let at = |lock| self.offset_of(lock) as usize;
        match event {
            Note::Acquiring { lock } => Note::Acquiring { lock: at(lock) },
            Note::Acquired { lock, shared } => Note::Acquired { lock: at(lock), shared },
            Note::Releasing { lock, shared } => Note::Releasing { lock: at(lock), shared },
            Note::GaveUp { lock } => Note::GaveUp { lock: at(lock) },
            Note::Operation => Note::Operation,
        }
    }
}
