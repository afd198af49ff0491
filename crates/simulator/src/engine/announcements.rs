//! What the running thread announces: whom it makes a holder of which lock, and what is counted.

use machine::Event as Note;

use super::Engine;
use crate::NOBODY;
use crate::locks::Acquirer;
use crate::stopped::Reason;
use crate::trace::What;

impl Engine {
    /// An announcement of the running thread.
    pub(crate) fn note(&mut self, event: Note) {
        self.count_hits();
        let current = self.scheduler.current;
        if current == NOBODY {
            return;
        }
        let (now, core) = (self.clock.now, self.scheduler.current_core);
        let event = self.with_offset(event);
        self.trace.record(now, core, current, What::Note(event));
        let thread = &mut self.threads[current as usize];
        if (self.progress.counted_from..self.progress.running_until).contains(&now) {
            // What ends before or after the plan's duration belongs to no rate.
            thread.counts.count(event);
        }
        match event {
            Note::Operation => {
                self.progress.unproductive_events = 0;
                thread.counted_for = NOBODY;
            }
            Note::Acquiring { lock } => {
                let lock = self.locks.number(lock as u32);
                let waiting = self.locks.get(lock);
                waiting.waiters += 1;
                let thread = &mut self.threads[current as usize];
                thread.counted_for = lock;
                thread.acquiring_since = now;
                thread.met_others = waiting.is_held() || waiting.waiters > 1;
            }
            Note::GaveUp { lock } => {
                let lock = self.locks.number(lock as u32);
                self.locks.get(lock).waiters = self.locks.get(lock).waiters.saturating_sub(1);
                self.locks.get(lock).counts.gave_up += 1;
                self.threads[current as usize].counted_for = NOBODY;
            }
            Note::Acquired { lock, shared } => {
                self.progress.unproductive_events = 0;
                let lock = self.locks.number(lock as u32);
                let thread = &mut self.threads[current as usize];
                thread.counted_for = NOBODY;
                thread.holding_since = now;
                let (since, met_others) = (thread.acquiring_since, thread.met_others);
                let by = Acquirer { thread: current, core, since, met_others };
                let holders = self.locks.get(lock).acquired(by, shared, now);
                if !holders.is_empty() {
                    let lock = self.locks.get(lock).counts.address;
                    self.stop = Some(Reason::Exclusion { lock, taker: current, holders });
                }
            }
            Note::Releasing { lock, shared } => {
                let lock = self.locks.number(lock as u32);
                let held = now - self.threads[current as usize].holding_since;
                self.locks.get(lock).releasing(current, shared, held, now);
                self.threads[current as usize].counted_for = lock;
            }
        }
    }

    /// The same event with the simulated address of its lock.
    fn with_offset(&self, event: Note) -> Note {
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
