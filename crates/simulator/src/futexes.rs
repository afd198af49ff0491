//! What the simulated kernel does for threads that sleep on a word, where the caller says it.
//!
//! By itself a simulation keeps in a list of its own who sleeps at which address. A sleep and a wake-up cost what the machine file
//! says, however many threads are in the kernel at once. [`Futexes`] run the caller's code instead, on the calling thread, between
//! the way into the kernel and the way out: such as the shipped `WaitTable`, whose words and locks are then simulated like all
//! others.
//!
//! | with a table                    | is                                                                       |
//! |---------------------------------|--------------------------------------------------------------------------|
//! | the way in and the way out      | the system call of the machine file, as without                          |
//! | the hash of an address          | free                                                                     |
//! | counts, locks, lists of buckets | accesses to lines, and waits for locks, by the table's own code          |
//! | falling asleep, waking up       | switches, `wake` and `wake_call` of the machine file, as without         |
//! | being in the kernel             | keeps the core until the thread sleeps or leaves, as where the kernel is not preemptible |
//! | locks whose owner inherits      | the rt_mutexes of the simulation, as without: they are in no table       |
//!
//! Traces, and the states of the threads of a stopped run, name the word that the caller's code sleeps on, not the word that it
//! sleeps for.

use std::mem::transmute;

use machine::{Slept, Timeout};

use crate::NOBODY;
use crate::engine::current;
use crate::simulated::Simulated;
use crate::words::SimulatedU32;

/// Sleeps while a word holds a value, as [`sleep_while`](machine::Machine::sleep_while) does.
type Wait<'a> = &'a (dyn Fn(&SimulatedU32, u32, Timeout<'_, Simulated>) -> Slept + Sync);
/// Wakes at most so many sleepers of the word at an address and says how many, as [`wake`](machine::Machine::wake) does.
type Wake<'a> = &'a (dyn Fn(*const SimulatedU32, u32) -> u32 + Sync);

/// How the kernel lets threads sleep on words. What it runs sleeps on other words, at no other cost than that of sleeping, and with
/// no lock of its own held.
#[derive(Clone, Copy)]
pub struct Futexes<'a> {
    /// A thread asks to sleep.
    pub wait: Wait<'a>,
    /// A thread asks to wake others.
    pub wake: Wake<'a>,
}

impl Futexes<'_> {
    /// Runs `body`, all of whose threads sleep and wake in this way.
    ///
    /// # Panics
    /// Outside of a simulation, and in a thread of a simulated run.
    pub fn during<T>(self, body: impl FnOnce() -> T) -> T {
        struct Restores(Option<Futexes<'static>>);
        impl Drop for Restores {
            fn drop(&mut self) {
                set(self.0);
            }
        }
        // SAFETY: the current simulation is alive, on this host thread alone, and the reference is not kept.
        let thread = unsafe { (*current()).current() };
        assert!(
            thread == NOBODY,
            "a thread of a simulated run cannot change how the kernel lets threads sleep"
        );
        // SAFETY: threads of the simulation run within a call of its caller alone, here within `body`, and `Restores` takes it
        // back when that is over.
        let futexes = unsafe { transmute::<Futexes<'_>, Futexes<'static>>(self) };
        let _restores = Restores(set(Some(futexes)));
        body()
    }
}

fn set(futexes: Option<Futexes<'static>>) -> Option<Futexes<'static>> {
    // SAFETY: threads of the simulation run within a call of its caller alone, here within `body`, and
    // `Restores` takes it back when that is over.
    std::mem::replace(unsafe { &mut (*current()).futexes }, futexes)
}
