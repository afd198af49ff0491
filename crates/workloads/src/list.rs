//! List add and delete under one global lock: `files_lock` of old Linux kernels, the proof of concept of the 2014
//! talk.

use locks::RawLock;
use machine::{Event, Home, Machine, Placed, PlainCell, Run};

use crate::Load;
use crate::random::Random;
use crate::section::{Tally, critical};

/// An entry of the list, on a line of its own. Links are entry numbers; the list is a ring through entry 0.
struct Entry<M: Machine> {
    next: M::Cell<u32>,
    previous: M::Cell<u32>,
}

/// Opens and closes a file for ever: adds the thread's entry to the list, and deletes it after a while.
pub(crate) fn run<M: Machine, L: RawLock<M>>(load: &Load<'_>) -> Run {
    let lock = Placed::<_, M>::new(L::NEW, load.home);
    let entries = (0..=load.threads)
        .map(|_| {
            Placed::<_, M>::new(Entry::<M> { next: M::Cell::ZERO, previous: M::Cell::ZERO }, Home::FirstTouch)
        })
        .collect::<Vec<_>>();
    let add = |mine: u32| {
        let (head, entry) = (&entries[0], &entries[mine as usize]);
        let first = head.next.get();
        entry.next.set(first);
        entry.previous.set(0);
        entries[first as usize].previous.set(mine);
        head.next.set(mine);
    };
    let delete = |mine: u32| {
        let entry = &entries[mine as usize];
        let (next, previous) = (entry.next.get(), entry.previous.get());
        entries[previous as usize].next.set(next);
        entries[next as usize].previous.set(previous);
    };
    let work = load.section_cycles.unwrap_or(50);
    let think = load.think_cycles.unwrap_or(2_000);
    let tally = Tally::default();
    let run = M::run(&load.plan(), &|thread| {
        let mut random = Random::of_thread(load.seed, thread);
        let mine = thread as u32 + 1;
        while M::running() {
            for change in [&add as &dyn Fn(u32), &delete] {
                critical::<M, _>(&*lock, &tally, || {
                    change(mine);
                    M::delay(random.time(work, load.section_spread));
                });
                M::delay(random.time(think, load.think_spread));
            }
            M::note(Event::Operation);
        }
    });
    tally.add_up();
    assert!(
        entries[0].next.get() == 0 && entries[0].previous.get() == 0,
        "everybody has deleted what it added"
    );
    run
}
