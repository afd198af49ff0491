//! The simulated kernel's rt_mutexes: who waits for which word, who owns it, and what priorities the owners inherit.
//!
//! As in Linux (`Documentation/locking/rt-mutex-design.rst`) the kernel knows a word only while a thread waits for it. Its owner
//! runs with the highest priority among its own and those of the top waiters of all words that it owns; when that changes and the
//! owner itself waits for another word, the next owner's may change too, and so on along the chain. A release gives the word to
//! no thread yet: it wakes the top waiter, which takes the word when it runs, unless a thread of a strictly higher priority has
//! taken it by then. All functions are one step of the machine; what they cost is the caller's affair.

use std::collections::BTreeMap;

use machine::inheriting::LONGEST_CHAIN;

use super::Scheduler;
use crate::NOBODY;
use crate::clock::Clock;
use crate::memory::Memory;

/// A thread that waits for a word.
#[derive(Clone, Copy)]
struct Waiter {
    thread: u32,
    priority: u8,
}

/// A word that a thread waits for.
struct RtMutex {
    /// None between a release and the next owner's coming. [`NOBODY`] is the simulation's caller, which is not scheduled.
    owner: Option<u32>,
    /// The highest priority first, and first in, first out within a priority. Where there is none, the word is forgotten.
    waiters: Vec<Waiter>,
}

impl RtMutex {
    fn top(&self) -> Option<Waiter> {
        self.waiters.first().copied()
    }

    fn top_priority(&self) -> u8 {
        self.top().map_or(0, |waiter| waiter.priority)
    }

    fn add(&mut self, waiter: Waiter) {
        let behind = self.waiters.iter().position(|other| other.priority < waiter.priority);
        self.waiters.insert(behind.unwrap_or(self.waiters.len()), waiter);
    }

    fn remove(&mut self, thread: u32) {
        self.waiters.retain(|waiter| waiter.thread != thread);
    }
}

/// All words that threads wait for.
#[derive(Default)]
pub(super) struct RtMutexes {
    /// By the address of the word.
    waited_for: BTreeMap<u32, RtMutex>,
    /// By thread: the address of the word that it waits for.
    wanted: BTreeMap<u32, u32>,
}

/// What became of an attempt to get a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The caller owns it.
    Taken,
    /// The caller is one of its waiters now.
    Waits,
    /// The caller would wait for itself.
    Deadlock,
}

/// A chain of owners comes back to the thread that is about to wait, or does not end.
#[derive(Debug)]
struct Endless;

impl Scheduler {
    /// Whether a word is free for this thread although others wait for it: it has no owner yet after its release, and the thread's
    /// priority is higher than that of the waiter that was woken. An equal one does not do.
    fn may_steal(&self, address: u32, thread: u32) -> bool {
        let between_owners = self.rt_mutexes.waited_for.get(&address).filter(|mutex| mutex.owner.is_none());
        between_owners.is_some_and(|mutex| self.thread(thread).priority > mutex.top_priority())
    }

    /// Who owns a word that a thread waits for; none between two owners.
    pub(crate) fn rt_owner(&self, address: u32) -> Option<u32> {
        self.rt_mutexes.waited_for.get(&address).and_then(|mutex| mutex.owner)
    }

    /// Whether a thread waits for a word, so that the kernel knows better than the word who owns it.
    pub(crate) fn rt_knows(&self, address: u32) -> bool {
        self.rt_mutexes.waited_for.contains_key(&address)
    }

    /// Takes a word past its waiters, if that is allowed.
    pub(crate) fn rt_steal(&mut self, address: u32, thread: u32) -> bool {
        let steals = self.may_steal(address, thread);
        if steals && let Some(mutex) = self.rt_mutexes.waited_for.get_mut(&address) {
            mutex.owner = Some(thread); // of a higher priority than all waiters: it inherits nothing
        }
        steals
    }

    /// A thread asks for a word; `owner` is who has it if the kernel does not know of it yet.
    pub(crate) fn rt_ask(
        &mut self,
        clock: &mut Clock,
        memory: &mut Memory,
        (address, owner): (u32, u32),
        thread: u32,
    ) -> Asked {
        if self.rt_steal(address, thread) {
            return Asked::Taken;
        }
        let priority = self.thread(thread).priority;
        let fresh = || RtMutex { owner: Some(owner), waiters: Vec::new() };
        self.rt_mutexes.waited_for.entry(address).or_insert_with(fresh).add(Waiter { thread, priority });
        self.rt_mutexes.wanted.insert(thread, address);
        if self.pass_on(clock, memory, address, Some(thread)).is_ok() {
            return Asked::Waits;
        }
        self.rt_give_up(clock, memory, address, thread);
        Asked::Deadlock
    }

    /// Whether a thread is the first of those that wait for a word.
    pub(crate) fn rt_is_top(&self, address: u32, thread: u32) -> bool {
        self.rt_mutexes
            .waited_for
            .get(&address)
            .is_some_and(|mutex| mutex.top().is_some_and(|top| top.thread == thread))
    }

    /// Whether a word has come free for this waiter, which is the first.
    pub(crate) fn rt_may_take(&self, address: u32, thread: u32) -> bool {
        self.rt_owner(address).is_none() && self.rt_is_top(address, thread)
    }

    /// A waiter takes the word, if it may.
    pub(crate) fn rt_take(&mut self, address: u32, thread: u32) -> bool {
        let free = self.rt_may_take(address, thread);
        if free {
            self.stop_waiting(address, thread);
            if let Some(mutex) = self.rt_mutexes.waited_for.get_mut(&address) {
                mutex.owner = Some(thread); // the first of all waiters: it inherits nothing
            }
            self.forget_unless_waited_for(address);
        }
        free
    }

    /// A waiter gives up, and takes back what it has passed on; it has seen that the word is not free for it.
    pub(crate) fn rt_give_up(&mut self, clock: &mut Clock, memory: &mut Memory, address: u32, thread: u32) {
        self.stop_waiting(address, thread);
        // Along a chain that the thread is no part of any more.
        let _: Result<(), Endless> = self.pass_on(clock, memory, address, None);
        self.forget_unless_waited_for(address);
    }

    /// The owner releases a word: it loses what it has inherited by it. Gives the waiter that is to be woken.
    pub(crate) fn rt_release(
        &mut self,
        clock: &mut Clock,
        memory: &mut Memory,
        address: u32,
        thread: u32,
    ) -> Option<u32> {
        let mutex = self.rt_mutexes.waited_for.get_mut(&address)?;
        mutex.owner = None;
        let next = mutex.top()?.thread;
        if thread != NOBODY {
            self.set_priority(clock, memory, thread, self.inherited(thread));
        }
        Some(next)
    }

    /// Wakes a waiter that a release has named.
    pub(crate) fn rt_wake(&mut self, clock: &mut Clock, memory: &mut Memory, thread: u32) -> bool {
        self.wake_thread(clock, memory, thread)
    }

    fn stop_waiting(&mut self, address: u32, thread: u32) {
        self.rt_mutexes.wanted.remove(&thread);
        if let Some(mutex) = self.rt_mutexes.waited_for.get_mut(&address) {
            mutex.remove(thread);
        }
    }

    fn forget_unless_waited_for(&mut self, address: u32) {
        if self.rt_mutexes.waited_for.get(&address).is_some_and(|mutex| mutex.waiters.is_empty()) {
            self.rt_mutexes.waited_for.remove(&address);
        }
    }

    /// The priority of a thread by itself and by those that wait for what it owns.
    fn inherited(&self, thread: u32) -> u8 {
        let owned = self.rt_mutexes.waited_for.values().filter(|mutex| mutex.owner == Some(thread));
        let highest = owned.map(RtMutex::top_priority).max().unwrap_or(0);
        highest.max(self.thread(thread).own_priority)
    }

    /// A thread has come to wait for a word, or waits no more: passes the priorities on along the chain of owners.
    ///
    /// # Errors
    /// The chain comes to `caller`, or is longer than the kernel follows.
    fn pass_on(
        &mut self,
        clock: &mut Clock,
        memory: &mut Memory,
        mut address: u32,
        caller: Option<u32>,
    ) -> Result<(), Endless> {
        for _ in 0..LONGEST_CHAIN {
            let Some(mutex) = self.rt_mutexes.waited_for.get(&address) else { return Ok(()) };
            let Some(owner) = mutex.owner else {
                // The waiter that is the first now is to take it.
                if let Some(first) = mutex.top() {
                    self.wake_thread(clock, memory, first.thread);
                }
                return Ok(());
            };
            if Some(owner) == caller {
                return Err(Endless);
            }
            if owner == NOBODY {
                return Ok(());
            }
            let priority = self.inherited(owner);
            let is_changed = priority != self.thread(owner).priority;
            self.set_priority(clock, memory, owner, priority);
            let Some(&next) = self.rt_mutexes.wanted.get(&owner) else { return Ok(()) };
            if is_changed && let Some(mutex) = self.rt_mutexes.waited_for.get_mut(&next) {
                mutex.remove(owner);
                mutex.add(Waiter { thread: owner, priority });
            }
            address = next;
        }
        Err(Endless)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::hardware::Hardware;

    /// Threads of these priorities, none of which runs.
    struct Kernel {
        clock: Clock,
        memory: Memory,
        scheduler: Scheduler,
    }

    impl Kernel {
        fn new(priorities: impl Iterator<Item = u8>) -> Self {
            let hardware = Rc::new(Hardware::new(&topology::carried::machine("dl580")).expect("a machine"));
            let mut scheduler = Scheduler::new(&hardware, false);
            priorities.for_each(|priority| scheduler.add(0, priority));
            // As if they slept: the scheduler looks for them on no core.
            scheduler
                .threads
                .iter_mut()
                .for_each(|thread| thread.activity = crate::scheduler::Activity::Done);
            Self { clock: Clock::new(), memory: Memory::new(&hardware, 1), scheduler }
        }

        /// A thread asks for the word that another one owns.
        fn ask(&mut self, thread: u32, address: u32, owner: u32) -> Asked {
            let Self { clock, memory, scheduler } = self;
            scheduler.rt_ask(clock, memory, (address, owner), thread)
        }

        fn priority(&self, thread: u32) -> u8 {
            self.scheduler.thread(thread).priority
        }
    }

    /// Thread n + 1 waits for the word n, which thread n owns.
    fn chain(links: u32) -> Kernel {
        let mut kernel = Kernel::new((0..=links + 1).map(|_| 1));
        (0..links).for_each(|link| assert_eq!(kernel.ask(link + 1, link, link), Asked::Waits));
        kernel.scheduler.threads[links as usize + 1].priority = 9;
        kernel.scheduler.threads[links as usize + 1].own_priority = 9;
        kernel
    }

    #[test]
    fn a_chain_is_followed_to_its_end_and_taken_back() {
        let mut kernel = chain(3);
        assert_eq!(kernel.ask(4, 3, 3), Asked::Waits);
        assert_eq!([0, 1, 2, 3].map(|thread| kernel.priority(thread)), [9; 4]);
        let Kernel { clock, memory, scheduler } = &mut kernel;
        scheduler.rt_give_up(clock, memory, 3, 4);
        assert_eq!([0, 1, 2, 3].map(|thread| kernel.priority(thread)), [1; 4]);
    }

    #[test]
    fn a_chain_that_comes_back_or_is_too_long_is_a_deadlock_and_leaves_nothing_behind() {
        let mut kernel = chain(3);
        kernel.scheduler.threads[0].own_priority = 5;
        kernel.scheduler.threads[0].priority = 5;
        assert_eq!(kernel.ask(0, 3, 3), Asked::Deadlock);
        assert_eq!([0, 1, 2, 3].map(|thread| kernel.priority(thread)), [5, 1, 1, 1]);
        let longest = LONGEST_CHAIN as u32;
        for (owners, asked) in [(longest, Asked::Waits), (longest + 1, Asked::Deadlock)] {
            let mut kernel = chain(owners - 1);
            assert_eq!(kernel.ask(owners, owners - 1, owners - 1), asked, "{owners} owners");
            assert_eq!(kernel.priority(1), if asked == Asked::Waits { 9 } else { 1 });
        }
    }
}
