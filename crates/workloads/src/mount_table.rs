//! A look-up in a hash table, under one lock, one for each bucket, and without: Linux's `lookup_mnt`, which collapsed Exim.
//!
//! Without the lock nothing collapses, but a look-up still takes a reference to the mount that it found, on a line
//! that all cores write: avoiding collapse is not yet scaling.

use locks::RawLock;
use machine::Ordering::{Acquire, Relaxed};
use machine::{Event, Home, Integer, Machine, Placed, Run, Word};

use crate::Load;
use crate::random::Random;
use crate::section::{Tally, critical};

const BUCKETS: usize = 64;
/// Entries that a look-up passes.
const CHAIN: usize = 3;

/// What a look-up holds meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The lock of the table.
    Table,
    /// The lock of the name's bucket.
    Bucket,
    /// Nothing.
    Nothing,
}

/// An entry of a bucket, on a line of its own.
struct Mount<M: Machine> {
    name: M::U64,
    references: M::U64,
}

/// Looks up one of a few mounts for ever.
pub(crate) fn run<M: Machine, L: RawLock<M>>(load: &Load<'_>, held: Held) -> Run {
    let count = match held {
        Held::Table => 1,
        Held::Bucket => BUCKETS,
        Held::Nothing => 0,
    };
    let locks: Vec<_> =
        (0..count).map(|_| (Placed::<_, M>::new(L::NEW, load.home), Tally::default())).collect();
    let table = (0..BUCKETS * CHAIN)
        .map(|index| {
            let mount = Placed::<_, M>::new(
                Mount::<M> { name: M::U64::ZERO, references: M::U64::ZERO },
                Home::FirstTouch,
            );
            mount.name.store(index as u64, Relaxed);
            mount
        })
        .collect::<Vec<_>>();
    let look_up = |name: u64| {
        let bucket = name as usize % BUCKETS;
        let found =
            (0..CHAIN).map(|link| &table[bucket + link * BUCKETS]).find(|m| m.name.load(Acquire) == name);
        let found = found.expect("every name was put into its bucket");
        found.references.fetch_add(1, Relaxed);
    };
    let work = load.section_cycles.unwrap_or(30);
    let think = load.think_cycles.unwrap_or(2_000);
    let run = M::run(&load.plan(), &|thread| {
        let mut random = Random::of_thread(load.seed, thread);
        while M::running() {
            // Most paths lead through the root mount.
            let name = if random.below(4) == 0 { random.below(table.len() as u64) } else { 0 };
            let section = random.time(work, load.section_spread);
            let body = || {
                look_up(name);
                M::delay(section);
            };
            match (name as usize % BUCKETS).checked_rem(count) {
                Some(lock) => critical::<M, _>(&*locks[lock].0, &locks[lock].1, body),
                None => body(),
            }
            M::note(Event::Operation);
            M::delay(random.time(think, load.think_spread));
        }
    });
    locks.iter().for_each(|(_, tally)| tally.add_up());
    run
}
