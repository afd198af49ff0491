//! Two locks, one behind the other: what relieving the first does to those who come to the second.

use locks::{RawLock, Ticket};
use machine::{Event, Machine, Placed, Run};

use crate::random::Random;
use crate::section::{Tally, critical};
use crate::{Load, SharedLine};

/// Cycles of work in the first section, and in the second where the load does not say otherwise.
const WORK: u64 = 200;
const SECOND_WORK: u64 = 1_200;

/// A section under the lock, one under a ticket lock, and think time, for ever. Each section changes a line of its lock's.
pub(crate) fn run<M: Machine, L: RawLock<M>>(load: &Load<'_>) -> Run {
    let first = Placed::<_, M>::new(L::NEW, load.home);
    let second = Placed::<_, M>::new(Ticket::<M>::NEW, load.home);
    let lines = [(); 2].map(|()| Placed::<_, M>::new(SharedLine::<M>::NEW, load.home));
    let tallies = [(); 2].map(|()| Tally::default());
    let second_work = load.section_cycles.unwrap_or(SECOND_WORK);
    let think = load.think_cycles.unwrap_or(100_000);
    let run = M::run(&load.plan(), &|thread| {
        let mut random = Random::of_thread(load.seed, thread);
        M::delay(random.below(think + 1));
        while M::running() {
            let works = [WORK, second_work].map(|work| random.time(work, load.section_spread));
            let section = |of: usize| {
                lines[of].touch();
                M::delay(works[of]);
            };
            critical::<M, _>(&*first, &tallies[0], || section(0));
            critical::<M, _>(&*second, &tallies[1], || section(1));
            M::note(Event::Operation);
            M::delay(random.time(think, load.think_spread));
        }
    });
    tallies.iter().for_each(Tally::add_up);
    run
}
