//! Every lock by name: what it is, what it needs, what it can do.
//!
//! The names are what `contend run --lock`, `simulate`, `check` and `bench` take. Facts that follow from the type
//! (size, abilities) are derived from it, so that the table cannot disagree with the code.

use machine::Machine;

use crate::{
    Anderson, Clh, ClhTimed, DowngradeLock, Futex, Hclh, K42, LockRef, Mcs, Osq, Qspin, RawLock, RawRwLock,
    Rw, RwNaive, RwQueued, Tas, TasBackoff, Ticket, Ticket4, TicketProportional, TicketSelfTuning, TimedLock,
    TimedRwLock, TryLock, Ttas, TtasBackoff,
};

pub use families::Family;

/// What a lock is, beyond what its type says.
#[derive(Clone, Copy, Debug)]
pub struct Lock {
    /// The name that commands take.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Where the algorithm comes from.
    pub source: &'static str,
    /// How its hand-over grows.
    pub family: Family,
    /// What bounds how often a waiter is bypassed.
    pub fairness: &'static str,
    /// What each waiting thread needs besides the lock.
    pub per_thread: &'static str,
    /// How many of them a thread may hold at once, to be released in any order, and from where on that costs something.
    pub nested: &'static str,
    /// Another thread than the acquirer may release it.
    pub any_thread_releases: bool,
    /// Size of the lock in bytes.
    pub bytes: usize,
    /// It can be asked for without waiting.
    pub tries: bool,
    /// Its waiters can give up.
    pub timed: bool,
    /// Readers share it.
    pub shared: bool,
    /// It counts acquisitions in words that wrap around.
    pub wraps: bool,
    /// Past some number of readers it lets no other in.
    pub bounds_readers: bool,
}

/// Somebody who wants to use a lock by its name, with its type. Each lock calls the most able of the functions that
/// its type allows; by default an ability that the visitor does not care for is dropped.
pub trait Visitor<M: Machine> {
    /// What the visit gives.
    type Output;
    /// A lock with no other ability.
    fn exclusive<L: RawLock<M>>(self, lock: &Lock) -> Self::Output;
    /// A lock that can be tried.
    fn tried<L: TryLock<M>>(self, lock: &Lock) -> Self::Output;
    /// A lock whose waiters can give up.
    fn timed<L: TimedLock<M>>(self, lock: &Lock) -> Self::Output;
    /// A reader-writer lock that can be tried on both sides, and whose writer can become a reader.
    fn shared<L: DowngradeLock<M> + TryLock<M>>(self, lock: &Lock) -> Self::Output;
    /// A reader-writer lock whose waiters can give up.
    fn timed_shared<L: TimedRwLock<M> + DowngradeLock<M>>(self, lock: &Lock) -> Self::Output;
}

macro_rules! bounds_readers {
    (shared $type:ident) => {
        <$type<machine::Native> as RawRwLock<machine::Native>>::BOUNDS_READERS
    };
    (timed_shared $type:ident) => {
        bounds_readers!(shared $type)
    };
    ($exclusive:ident $type:ident) => {
        false
    };
}

macro_rules! catalogue {
    ($($name:literal: $ability:ident $type:ident {
        summary: $summary:literal, source: $source:literal, family: $family:ident, fairness: $fairness:literal,
        per_thread: $per_thread:literal, nested: $nested:literal, any_thread_releases: $any:literal $(,)?
    })*) => {
        /// Every lock, in the order in which tables show them.
        pub const LOCKS: &[Lock] = &[$(Lock {
            name: $name,
            summary: $summary,
            source: $source,
            family: Family::$family,
            fairness: $fairness,
            per_thread: $per_thread,
            nested: $nested,
            any_thread_releases: $any,
            bytes: size_of::<$type<machine::Native>>(),
            tries: abilities::$ability.tries,
            timed: abilities::$ability.timed,
            shared: abilities::$ability.shared,
            wraps: <$type<machine::Native> as RawLock<machine::Native>>::WRAPS,
            bounds_readers: bounds_readers!($ability $type),
        }),*];

        // A lock is as large whatever its waiters do while they wait, so that one size stands for both.
        $(const _: () = assert!(size_of::<$type<machine::Native>>() == size_of::<$type<machine::Patient>>());)*

        /// Calls the visitor with the type of the lock of this name; none if there is no such lock.
        pub fn visit<M: Machine, V: Visitor<M>>(name: &str, visitor: V) -> Option<V::Output> {
            let lock = find(name)?;
            match name {
                $($name => Some(visitor.$ability::<$type<M>>(lock)),)*
                _ => None,
            }
        }
    };
}

/// What each kind of visit means for the table.
mod abilities {
    #![allow(non_upper_case_globals)] // named as the visitor's functions
    #![allow(dead_code)] // whether some lock stops at an ability changes with the catalogue

    pub(super) struct Abilities {
        pub(super) tries: bool,
        pub(super) timed: bool,
        pub(super) shared: bool,
    }

    pub(super) const exclusive: Abilities = Abilities { tries: false, timed: false, shared: false };
    pub(super) const tried: Abilities = Abilities { tries: true, timed: false, shared: false };
    pub(super) const timed: Abilities = Abilities { tries: true, timed: true, shared: false };
    pub(super) const shared: Abilities = Abilities { tries: true, timed: false, shared: true };
    pub(super) const timed_shared: Abilities = Abilities { tries: true, timed: true, shared: true };
}

/// The lock of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Lock> {
    LOCKS.iter().find(|lock| lock.name == name)
}

catalogue! {
    "tas": timed Tas {
        summary: "swap until the word was free; every attempt takes the line",
        source: "Anderson 1990",
        family: TestAndSet,
        fairness: "none",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "tas-backoff": timed TasBackoff {
        summary: "swap at once, back off twice as long after each failure",
        source: "Anderson 1990",
        family: BackOff,
        fairness: "none; late comers are favoured",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "ttas": timed Ttas {
        summary: "read until the word is free, then swap; all waiters rush at a release",
        source: "Anderson 1990",
        family: TestAndSet,
        fairness: "none",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "ttas-backoff": timed TtasBackoff {
        summary: "look, back off twice as long after each failure, swap when free",
        source: "Anderson 1990",
        family: BackOff,
        fairness: "none; late comers are favoured",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "ticket": tried Ticket {
        summary: "draw a number, wait until it is served; all waiters watch one word",
        source: "Mellor-Crummey and Scott 1991; Linux 2.6.25 to 4.1",
        family: Ticket,
        fairness: "first in, first out",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "ticket4": tried Ticket4 {
        summary: "the ticket lock with 16-bit numbers in one word",
        source: "Linux 2.6.25 to 4.1",
        family: Ticket,
        fairness: "first in, first out; up to 32,768 waiters",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "ticket-proportional": tried TicketProportional {
        summary: "a ticket lock whose waiters back off in proportion to their distance",
        source: "Mellor-Crummey and Scott 1991",
        family: BackOff,
        fairness: "first in, first out",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "ticket-selftuning": tried TicketSelfTuning {
        summary: "a ticket lock whose waiters learn how long to back off",
        source: "van Riel 2012-13",
        family: BackOff,
        fairness: "first in, first out",
        per_thread: "a table of 64 delays",
        nested: "any number",
        any_thread_releases: true,
    }
    "anderson": tried Anderson {
        summary: "an array of slots; every waiter watches its own",
        source: "Anderson 1990",
        family: Queue,
        fairness: "first in, first out",
        per_thread: "one of 64 slots; further threads wait for one",
        nested: "any number",
        any_thread_releases: true,
    }
    "mcs": tried Mcs {
        summary: "a queue of nodes; every waiter watches its own",
        source: "Mellor-Crummey and Scott 1991",
        family: Queue,
        fairness: "first in, first out",
        per_thread: "a node for each lock held or waited for, from the thread's pool",
        nested: "any number; past 4 nodes in use, slower",
        any_thread_releases: true,
    }
    "k42": tried K42 {
        summary: "MCS that needs no node at release",
        source: "Auslander et al. 2003",
        family: Queue,
        fairness: "first in, first out",
        per_thread: "a node for each lock waited for, from the thread's pool",
        nested: "any number",
        any_thread_releases: true,
    }
    "clh": tried Clh {
        summary: "a queue of nodes; every waiter watches its predecessor's",
        source: "Craig 1993",
        family: Queue,
        fairness: "first in, first out",
        per_thread: "a node for each lock held or waited for, from the thread's pool, returned by the successor",
        nested: "any number; past 4 nodes in use, slower",
        any_thread_releases: true,
    }
    "clh-timed": timed ClhTimed {
        summary: "CLH whose waiters can give up",
        source: "Scott and Scherer 2001; Scott 2002",
        family: Queue,
        fairness: "first in, first out among those who stay",
        per_thread: "a node for each lock held or waited for, from the thread's pool, returned by the successor",
        nested: "any number; past 4 nodes in use, slower",
        any_thread_releases: true,
    }
    "hclh": tried Hclh {
        summary: "CLH with a queue for each cluster of cores, moved to the global one as a whole",
        source: "Luchangco, Nussbaum and Shavit 2006",
        family: Queue,
        fairness: "first in, first out inside a cluster, and of whole local queues",
        per_thread: "a node for each lock held or waited for, from the thread's pool, returned by the successor",
        nested: "any number; past 4 nodes in use, slower",
        any_thread_releases: true,
    }
    "osq": timed Osq {
        summary: "MCS linked both ways, whose waiters can leave from anywhere",
        source: "Linux 3.15; Scott and Scherer 2001",
        family: Queue,
        fairness: "first in, first out among those who stay; none past the pool",
        per_thread: "a node for each lock held or waited for, from the thread's pool",
        nested: "any number; past 4 nodes in use, without order",
        any_thread_releases: true,
    }
    "qspin": tried Qspin {
        summary: "4 bytes: one pending waiter on the word, an MCS queue behind it",
        source: "Linux 4.2",
        family: Queue,
        fairness: "first in, first out but for a newcomer that finds the word free; none past the pool",
        per_thread: "a node for each lock waited for, from the thread's pool",
        nested: "any number",
        any_thread_releases: true,
    }
    "lockref": timed LockRef {
        summary: "a lock with a reference count that is changed without it while it is free",
        source: "Linux 3.12",
        family: TestAndSet,
        fairness: "none",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "rw-naive": timed_shared RwNaive {
        summary: "a reader-writer spin lock on one word",
        source: "Linux before 3.16",
        family: TestAndSet,
        fairness: "none; readers keep writers out",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "rw-queued": shared RwQueued {
        summary: "a reader-writer spin lock whose waiters queue up at a ticket lock",
        source: "Linux 3.16, 2017",
        family: Ticket,
        fairness: "first in, first out; up to 32,768 waiters",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "futex": timed Futex {
        summary: "a mutex that backs off while the lock is hot, then sleeps",
        source: "Drepper 2011; Go sync.Mutex 2016",
        family: BackOffThenSleep,
        fairness: "bypassed for at most 1 ms for each that waits, then ahead of newcomers",
        per_thread: "nothing",
        nested: "any number",
        any_thread_releases: true,
    }
    "rw": timed_shared Rw {
        summary: "a reader-writer lock that sleeps; fair to writers, lets a reader read again",
        source: "Courtois, Heymans and Parnas 1971; the word of futex",
        family: BackOffThenSleep,
        fairness: "no new reader passes a waiting writer; bypassed for at most 1 ms for each that waits, then ahead of newcomers",
        per_thread: "nothing; a thread may say that it reads already",
        nested: "any number",
        any_thread_releases: true,
    }
}
