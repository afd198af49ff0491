//! Counters of threads that share nothing but lines, and the same counters on lines of their own.

use machine::Ordering::Relaxed;
use machine::{Event, Home, Integer, LINE_BYTES, Machine, Placed, Run, Word};

use crate::Load;

/// A line full of counters.
struct Counters<M: Machine>([M::U64; LINE_BYTES / 8]);

/// Each thread counts for ever, in a counter of its own.
pub(crate) fn run<M: Machine>(load: &Load<'_>, padded: bool) -> Run {
    let per_line = if padded { 1 } else { LINE_BYTES / 8 };
    let lines = (0..load.threads.div_ceil(per_line))
        .map(|_| {
            Placed::<_, M>::new(Counters::<M>([const { M::U64::ZERO }; LINE_BYTES / 8]), Home::FirstTouch)
        })
        .collect::<Vec<_>>();
    let think = load.think_cycles.unwrap_or(100);
    M::run(&load.plan(), &|thread| {
        let counter = &lines[thread / per_line].0[thread % per_line];
        while M::running() {
            counter.fetch_add(1, Relaxed);
            M::note(Event::Operation);
            M::delay(think);
        }
    })
}
