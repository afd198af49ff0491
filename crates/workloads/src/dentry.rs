//! A reference count, under the lock that lies beside it, and changed together with it: Linux's dentry before and
//! after `lockref`.

use locks::RawLock;
use machine::Ordering::{AcqRel, Acquire, Relaxed};
use machine::{Event, Machine, Placed, PlainCell, Run, Word};

use crate::Load;
use crate::random::Random;
use crate::section::{Tally, critical};

#[repr(C)]
struct Dentry<M: Machine, L> {
    lock: L,
    count: M::Cell<u32>,
}

/// Takes and drops a reference for ever, each time under the lock.
pub(crate) fn run<M: Machine, L: RawLock<M>>(load: &Load<'_>) -> Run {
    let dentry = Placed::<_, M>::new(Dentry::<M, L> { lock: L::NEW, count: M::Cell::ZERO }, load.home);
    let tally = Tally::default();
    let change = |by: u32| {
        critical::<M, _>(&dentry.lock, &tally, || {
            dentry.count.set(dentry.count.get().wrapping_add(by));
            M::delay(load.section_cycles.unwrap_or(20));
        });
    };
    let run = take_and_drop::<M>(load, &change);
    tally.add_up();
    assert_eq!(dentry.count.get(), 0, "every reference was dropped");
    run
}

/// The same with the count in one word with the lock, changed by compare-and-swap while the lock is free.
pub(crate) fn run_lockref<M: Machine>(load: &Load<'_>) -> Run {
    /// Lower half: the lock, which no thread takes here; upper half: the count.
    const ONE: u64 = 1 << 32;
    let word = Placed::<_, M>::new(M::U64::ZERO, load.home);
    let change = |by: u32| {
        let mut seen = word.load(Acquire);
        while let Err(found) =
            word.compare_exchange(seen, seen.wrapping_add(u64::from(by).wrapping_mul(ONE)), AcqRel, Relaxed)
        {
            seen = found;
        }
    };
    let run = take_and_drop::<M>(load, &change);
    assert_eq!(word.load(Relaxed), 0, "every reference was dropped");
    run
}

fn take_and_drop<M: Machine>(load: &Load<'_>, change: &(dyn Fn(u32) + Sync)) -> Run {
    let think = load.think_cycles.unwrap_or(500);
    M::run(&load.plan(), &|thread| {
        let mut random = Random::of_thread(load.seed, thread);
        while M::running() {
            for by in [1, 1_u32.wrapping_neg()] {
                change(by);
                M::delay(random.time(think, load.think_spread));
            }
            M::note(Event::Operation);
        }
    })
}
