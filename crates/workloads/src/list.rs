//! List add and delete under one global lock: `files_lock` of old Linux kernels, the proof of concept of the 2014
//! talk.
//!
//! Later kernels had a list and a lock for each core (`lglock`, from 2.6.36 on), as nearly all come for their own list alone.

use locks::RawLock;
use machine::{Event, Home, Machine, Placed, PlainCell, Run};

use crate::Load;
use crate::random::Random;
use crate::transactional::{Counted, Exclusion, within};

/// An entry of a list, on a line of its own. Links are entry numbers; the list is a ring through its entry 0.
pub(crate) struct Entry<M: Machine> {
    next: M::Cell<u32>,
    previous: M::Cell<u32>,
}

type List<M> = [Placed<Entry<M>, M>];

/// An empty list with entries for so many users, numbered from 1.
pub(crate) fn empty<M: Machine>(users: usize) -> Vec<Placed<Entry<M>, M>> {
    let entry = || Entry { next: M::Cell::ZERO, previous: M::Cell::ZERO };
    (0..=users).map(|_| Placed::new(entry(), Home::FirstTouch)).collect()
}

/// # Panics
/// A user has not deleted what it added.
pub(crate) fn ends_empty<M: Machine>(list: &List<M>) {
    assert!(list[0].next.get() == 0 && list[0].previous.get() == 0, "everybody has deleted what it added");
}

pub(crate) fn add<M: Machine>(list: &List<M>, mine: usize) {
    let (head, entry) = (&list[0], &list[mine]);
    let first = head.next.get();
    entry.next.set(first);
    entry.previous.set(0);
    list[first as usize].previous.set(mine as u32);
    head.next.set(mine as u32);
}

pub(crate) fn delete<M: Machine>(list: &List<M>, mine: usize) {
    let entry = &list[mine];
    let (next, previous) = (entry.next.get(), entry.previous.get());
    list[previous as usize].next.set(next);
    list[next as usize].previous.set(previous);
}

/// Opens and closes a file for ever: adds the thread's entry to the list, and deletes it after a while. With one lock there is one list,
/// else one for each thread.
pub(crate) fn run<M: Machine, L: RawLock<M>>(load: &Load<'_>, exclusion: Exclusion) -> Run {
    let locks = exclusion.locks::<M, L>(load);
    let (count, users) = if exclusion == Exclusion::OneLock { (1, load.threads) } else { (load.threads, 1) };
    let lists = (0..count).map(|_| empty::<M>(users)).collect::<Vec<_>>();
    let work = load.section_cycles.unwrap_or(50);
    let think = load.think_cycles.unwrap_or(2_000);
    let run = M::run(&load.plan(), &|thread| {
        let mut random = Random::of_thread(load.seed, thread);
        let (list, mine) = (&*lists[thread % count], thread % users + 1);
        while M::running() {
            for change in [add::<M>, delete::<M>] {
                let work = random.time(work, load.section_spread);
                within(&locks, thread, || {
                    change(list, mine);
                    M::delay(work);
                });
                M::delay(random.time(think, load.think_spread));
            }
            M::note(Event::Operation);
        }
    });
    locks.iter().for_each(Counted::add_up);
    lists.iter().for_each(|list| ends_empty::<M>(list));
    run
}
