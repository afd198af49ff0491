//! Every lock by name: what it is, what it needs, what it can do.
//!
//! The names are what `contend run --lock`, `simulate`, `check` and `bench` take. Facts that follow from the type
//! (size, abilities) are derived from it, so that the table cannot disagree with the code.

use machine::Machine;

use crate::hclh::Hclh;
use crate::hmcs::Hmcs;
use crate::twa::Twa;
use crate::{
    Adaptive, Anderson, Clh, ClhTimed, DowngradeLock, Elided, Futex, GlibcAdaptive, GlibcMutex, GlibcRwlock,
    GlibcRwlockNonrecursive, GlibcRwlockWriter, GlibcSpin, K42, KernelMutex, LazySubscription, LockRef, Mcs,
    McsTp, Osq, Qspin, RawLock, RawRwLock, RetryLessOften, RetryOneByOne, RetryThenSkip, RetryWhenFree, Rw,
    RwNaive, RwQueued, Rwsem, RwsemFifo, RwsemNoSpin, Tas, TasBackoff, Ticket, Ticket4, TicketProportional,
    TicketSelfTuning, TimedLock, TimedRwLock, TpFutex, TryLock, Ttas, TtasBackoff,
};

pub use families::Family;

/// What a lock is there for, by which the catalogue is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// To start with.
    Start,
    /// Spin locks without a queue.
    Spinning,
    /// Spin locks whose waiters queue up.
    Queue,
    /// Reader-writer locks besides those to start with, as Linux has them.
    ReaderWriter,
    /// Locks that sleep, as Linux has them.
    Sleeping,
    /// Locks that others have taken the place of: they reproduce what was published of them.
    History,
    /// Locks under patents: they are simulated, checked and benchmarked, and no program gets them from this library.
    Study,
    /// The C library's algorithms: they simulate what a program has, and check it.
    Glibc,
}

impl Group {
    /// All of them, in the order of the catalogue.
    pub const ALL: [Self; 8] = [
        Self::Start,
        Self::Spinning,
        Self::Queue,
        Self::ReaderWriter,
        Self::Sleeping,
        Self::History,
        Self::Study,
        Self::Glibc,
    ];

    /// As tables say it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start here",
            Self::Spinning => "spinning",
            Self::Queue => "queue",
            Self::ReaderWriter => "reader-writer",
            Self::Sleeping => "sleeping",
            Self::History => "history",
            Self::Study => "study",
            Self::Glibc => "glibc",
        }
    }

    /// What stands above its locks in documents and headers.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Start => "Start here",
            Self::Spinning => "Spin locks without a queue",
            Self::Queue => "Spin locks whose waiters queue up",
            Self::ReaderWriter => "Reader-writer locks, as Linux has them",
            Self::Sleeping => "Locks that sleep, as Linux has them",
            Self::History => "History: what others have taken the place of",
            Self::Study => "For study: under patents, so that programs do not get them from here",
            Self::Glibc => "The C library's algorithms, for comparison",
        }
    }

    /// Whether programs are made with its locks: the others are there to be compared with.
    #[must_use]
    pub const fn is_for_use(self) -> bool {
        !matches!(self, Self::History | Self::Study | Self::Glibc)
    }
}

/// What a lock is, beyond what its type says.
#[derive(Clone, Copy, Debug)]
pub struct Lock {
    /// The name that commands take.
    pub name: &'static str,
    /// What it is there for.
    pub group: Group,
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
    /// Size of the lock in bytes.
    pub bytes: usize,
    /// Its waiters can give up.
    pub timed: bool,
    /// Readers share it.
    pub shared: bool,
    /// Only the thread that has acquired it may release it.
    pub owner_releases: bool,
    /// Its sections see only what whole sections have left; if not, it is for the simulated and the checked machine.
    pub opaque: bool,
    /// It counts acquisitions in words that wrap around.
    pub wraps: bool,
    /// Past some number of readers it lets no other in.
    pub bounds_readers: bool,
    /// There is a state in which it goes to a waiter and to no thread that comes later.
    pub promises: bool,
}

/// Code that wants to use a lock by its name, with its type. Each lock calls the most able of the functions that
/// its type allows; by default an ability that the visitor does not care for is dropped.
pub trait Visitor<M: Machine> {
    /// What the visit gives.
    type Output;
    /// A lock that can be tried, as every lock can.
    fn tried<L: TryLock<M>>(self, lock: &Lock) -> Self::Output;
    /// A lock whose waiters can give up.
    fn timed<L: TimedLock<M>>(self, lock: &Lock) -> Self::Output
    where
        Self: Sized,
    {
        self.tried::<L>(lock)
    }
    /// A reader-writer lock that can be tried on both sides, and whose writer can become a reader.
    fn shared<L: DowngradeLock<M> + TryLock<M>>(self, lock: &Lock) -> Self::Output
    where
        Self: Sized,
    {
        self.tried::<L>(lock)
    }
    /// A reader-writer lock whose waiters can give up.
    fn timed_shared<L: TimedRwLock<M> + DowngradeLock<M>>(self, lock: &Lock) -> Self::Output
    where
        Self: Sized,
    {
        self.shared::<L>(lock)
    }
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
    ($($group:ident { $($name:literal: $ability:ident $type:ident {
        summary: $summary:literal, source: $source:literal, family: $family:ident, fairness: $fairness:literal,
        per_thread: $per_thread:literal, nested: $nested:literal $(,)?
    })* })*) => {
        /// Every lock, in the order in which tables show them: group after group.
        pub const LOCKS: &[Lock] = &[$($(Lock {
            name: $name,
            group: Group::$group,
            summary: $summary,
            source: $source,
            family: Family::$family,
            fairness: $fairness,
            per_thread: $per_thread,
            nested: $nested,
            bytes: size_of::<$type<machine::Native>>(),
            timed: abilities::$ability.timed,
            shared: abilities::$ability.shared,
            owner_releases: <$type<machine::Native> as RawLock<machine::Native>>::OWNER_RELEASES,
            opaque: <$type<machine::Native> as RawLock<machine::Native>>::OPAQUE,
            wraps: <$type<machine::Native> as RawLock<machine::Native>>::WRAPS,
            bounds_readers: bounds_readers!($ability $type),
            promises: <$type<machine::Native> as RawLock<machine::Native>>::PROMISES,
        }),*),*];

        // A lock is as large whatever its waiters do while they wait, so that one size stands for both.
        $($(const _: () = assert!(size_of::<$type<machine::Native>>() == size_of::<$type<machine::Patient>>());)*)*

        /// Calls the visitor with the type of the lock of this name, which may be one of [`ELIDED`]; none if there is no such lock.
        pub fn visit<M: Machine, V: Visitor<M>>(name: &str, visitor: V) -> Option<V::Output> {
            let Some(lock) = find(name) else { return visit_elided(name, visitor) };
            match lock.name {
                $($($name => Some(visitor.$ability::<$type<M>>(lock)),)*)*
                _ => None,
            }
        }
    };
}

macro_rules! elided {
    ($($name:literal: $ability:ident $type:ident $base:literal by $policy:ident $(<$machine:ident>)?)*) => {
        /// Elided forms of some locks, in the order in which tables show them. A lock is elided on a machine with transactions alone, which
        /// few processors are: so they are in no other table.
        pub const ELIDED: &[Lock] = &[$({
            type M = machine::Native;
            Lock {
                name: $name,
                summary: concat!("sections are transactions, and ", $base, " where they abort; ", stringify!($policy)),
                source: "Rajwar and Goodman 2001; glibc since 2.18",
                fairness: "none among transactions; that of the lock among those that acquire it",
                owner_releases: true,
                promises: false, // sections that are transactions pass all waiters
                opaque: <Elided<$type<M>, $policy $(<$machine>)?> as RawLock<M>>::OPAQUE,
                bytes: size_of::<Elided<$type<M>, $policy $(<$machine>)?>>(),
                ..*named($base)
            }
        }),*];

        fn visit_elided<M: Machine, V: Visitor<M>>(name: &str, visitor: V) -> Option<V::Output> {
            let lock = find_elided(name)?;
            match lock.name {
                $($name => Some(visitor.$ability::<Elided<$type<M>, $policy $(<$machine>)?>>(lock)),)*
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
        pub(super) timed: bool,
        pub(super) shared: bool,
    }

    pub(super) const tried: Abilities = Abilities { timed: false, shared: false };
    pub(super) const timed: Abilities = Abilities { timed: true, shared: false };
    pub(super) const shared: Abilities = Abilities { timed: false, shared: true };
    pub(super) const timed_shared: Abilities = Abilities { timed: true, shared: true };
}

/// The algorithms of glibc's lock objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Glibc {
    /// A mutex of the normal (default), recursive or error-checking kind. Robust and priority-inheriting ones are others.
    Mutex,
    /// A mutex of the kind `PTHREAD_MUTEX_ADAPTIVE_NP`.
    AdaptiveMutex,
    /// A spin lock.
    Spin,
    /// A reader-writer lock of the default kind, `PTHREAD_RWLOCK_PREFER_READER_NP`.
    Rwlock,
    /// A reader-writer lock of the kind `PTHREAD_RWLOCK_PREFER_WRITER_NP`.
    RwlockWriter,
    /// A reader-writer lock of the kind `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
    RwlockNonrecursive,
}

impl Glibc {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Mutex,
        Self::AdaptiveMutex,
        Self::Spin,
        Self::Rwlock,
        Self::RwlockWriter,
        Self::RwlockNonrecursive,
    ];

    /// The name of the lock that stands for it.
    #[must_use]
    pub const fn lock_name(self) -> &'static str {
        match self {
            Self::Mutex => "glibc-mutex",
            Self::AdaptiveMutex => "glibc-adaptive",
            Self::Spin => "glibc-spin",
            Self::Rwlock => "glibc-rwlock",
            Self::RwlockWriter => "glibc-rwlock-writer",
            Self::RwlockNonrecursive => "glibc-rwlock-nonrecursive",
        }
    }

    /// The lock that stands for it.
    ///
    /// ```
    /// use contend_locks::catalogue::Glibc;
    /// assert_eq!(Glibc::AdaptiveMutex.lock().name, "glibc-adaptive");
    /// ```
    #[must_use]
    pub fn lock(self) -> &'static Lock {
        find(self.lock_name()).expect("the catalogue has it")
    }
}

impl Lock {
    /// The lock object of glibc that this lock stands for: what programs have today, there for comparison and not for use.
    #[must_use]
    pub fn stands_for(&self) -> Option<Glibc> {
        Glibc::ALL.into_iter().find(|object| object.lock_name() == self.name)
    }
}

impl Lock {
    /// Whether something bounds how often, or for how long, a waiter is bypassed: its [`fairness`](Self::fairness) is more than none.
    ///
    /// ```
    /// use contend_locks::catalogue::find;
    /// assert!(find("mcs").unwrap().bounds_bypassing() && !find("tas-backoff").unwrap().bounds_bypassing());
    /// ```
    #[must_use]
    pub fn bounds_bypassing(&self) -> bool {
        let first = self.fairness.split(';').next();
        first != Some("none")
    }
}

/// Names that locks had before, each with the one of today. They are accepted for one more release.
pub const RENAMED: &[(&str, &str)] =
    &[("best", "adaptive"), ("mutex", "kernel-mutex"), ("elided:best", "elided:adaptive")];

/// The name that a lock has today, if this is one that it had before.
///
/// ```
/// use contend_locks::catalogue::renamed;
/// assert_eq!((renamed("best"), renamed("mcs")), (Some("adaptive"), None));
/// ```
#[must_use]
pub fn renamed(name: &str) -> Option<&'static str> {
    RENAMED.iter().find(|&&(before, _)| before == name).map(|&(_, now)| now)
}

/// The lock of this name, which may be one that it had before.
#[must_use]
pub fn find(name: &str) -> Option<&'static Lock> {
    let name = renamed(name).unwrap_or(name);
    LOCKS.iter().find(|lock| lock.name == name)
}

impl Lock {
    /// Whether programs can have it: it is opaque, and nothing bars its use.
    #[must_use]
    pub fn is_for_programs(&self) -> bool {
        self.opaque && self.group != Group::Study
    }

    /// Whether it is an elided form, one of [`ELIDED`].
    #[must_use]
    pub fn is_elided(&self) -> bool {
        find_elided(self.name).is_some()
    }
}

fn find_elided(name: &str) -> Option<&'static Lock> {
    let name = renamed(name).unwrap_or(name);
    ELIDED.iter().find(|lock| lock.name == name)
}

/// The locks that a program can have in Rust, C and C++, in the order in which headers name them: elided or not.
pub fn for_programs() -> impl Iterator<Item = &'static Lock> {
    LOCKS.iter().chain(ELIDED).filter(|lock| lock.is_for_programs())
}

/// The lock of this name, elided or not: what machines can run that have transactions.
#[must_use]
pub fn find_in_any_form(name: &str) -> Option<&'static Lock> {
    find(name).or_else(|| find_elided(name))
}

/// The lock of this name, as a constant.
const fn named(name: &str) -> &'static Lock {
    let mut number = 0;
    while !same(LOCKS[number].name, name) {
        number += 1;
    }
    &LOCKS[number]
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

elided! {
    "elided:tas": timed Tas "tas" by RetryThenSkip<M>
    "elided:ticket": tried Ticket "ticket" by RetryThenSkip<M>
    "elided:mcs": tried Mcs "mcs" by RetryThenSkip<M>
    "elided:glibc-mutex": timed GlibcMutex "glibc-mutex" by RetryThenSkip<M>
    "elided:futex": timed Futex "futex" by RetryThenSkip<M>
    "elided:adaptive": timed_shared Adaptive "adaptive" by RetryThenSkip<M>
    "elided:rw": timed_shared Rw "rw" by RetryThenSkip<M>
    "elided-when-free:ticket": tried Ticket "ticket" by RetryWhenFree
    "elided-one-by-one:ticket": tried Ticket "ticket" by RetryOneByOne<M>
    "elided-less-often:ticket": tried Ticket "ticket" by RetryLessOften<M>
    "elided-lazy:ticket": tried Ticket "ticket" by LazySubscription
}

catalogue! {
    Start {
        "adaptive": timed_shared Adaptive {
            summary: "the lock to start with: backs off while the lock is hot, spins in a queue, then sleeps",
            source: "composed of futex, rw and osq; Linux mutex since 3.10",
            family: BackOffThenSleep,
            fairness: "of those that sleep one enters in each ms, ahead of newcomers",
            per_thread: "a node for each lock waited for, from the thread's pool",
            nested: "any number",
        }
        "futex": timed Futex {
            summary: "a mutex that backs off while the lock is hot, then sleeps",
            source: "Drepper 2011; Go sync.Mutex 2016",
            family: BackOffThenSleep,
            fairness: "of those that sleep one enters in each ms, ahead of newcomers",
            per_thread: "nothing",
            nested: "any number",
        }
        "rw": timed_shared Rw {
            summary: "a reader-writer lock that sleeps; fair to writers, lets a reader read again",
            source: "Courtois, Heymans and Parnas 1971; the word of futex",
            family: BackOffThenSleep,
            fairness: "no new reader passes a waiting writer; of those that sleep one enters in each ms, ahead of newcomers",
            per_thread: "nothing; a thread may say that it reads already",
            nested: "any number",
        }
    }
    Spinning {
        "ttas-backoff": timed TtasBackoff {
            summary: "read, back off twice as long after each failure, swap when free",
            source: "Anderson 1990",
            family: BackOff,
            fairness: "none; late comers are favoured",
            per_thread: "nothing",
            nested: "any number",
        }
        "ticket-proportional": tried TicketProportional {
            summary: "a ticket lock whose waiters back off in proportion to their distance",
            source: "Mellor-Crummey and Scott 1991",
            family: BackOff,
            fairness: "first in, first out",
            per_thread: "nothing",
            nested: "any number",
        }
        "lockref": timed LockRef {
            summary: "a lock with a reference count that is changed without it while it is free",
            source: "Linux 3.12",
            family: TestAndSet,
            fairness: "none",
            per_thread: "nothing",
            nested: "any number",
        }
    }
    Queue {
        "mcs": tried Mcs {
            summary: "a queue of nodes; every waiter watches its own",
            source: "Mellor-Crummey and Scott 1991",
            family: Queue,
            fairness: "first in, first out",
            per_thread: "a node for each lock held or waited for, from the thread's pool",
            nested: "any number; past 4 nodes in use, slower",
        }
        "mcs-tp": timed McsTp {
            summary: "MCS whose releases pass over waiters that do not run",
            source: "He, Scherer and Scott 2005",
            family: Queue,
            fairness: "first in, first out among those who run and stay",
            per_thread: "a node for each lock held or waited for, from the thread's pool",
            nested: "any number; past 4 nodes in use, slower",
        }
        "k42": tried K42 {
            summary: "MCS that needs no node at release",
            source: "Auslander et al. 2003",
            family: Queue,
            fairness: "first in, first out",
            per_thread: "a node for each lock waited for, from the thread's pool",
            nested: "any number",
        }
        "clh": tried Clh {
            summary: "a queue of nodes; every waiter watches its predecessor's",
            source: "Craig 1993",
            family: Queue,
            fairness: "first in, first out",
            per_thread: "a node for each lock held or waited for, from the thread's pool, returned by the successor",
            nested: "any number; past 4 nodes in use, slower",
        }
        "clh-timed": timed ClhTimed {
            summary: "CLH whose waiters can give up",
            source: "Scott and Scherer 2001; Scott 2002",
            family: Queue,
            fairness: "first in, first out among those who stay",
            per_thread: "a node for each lock held or waited for, from the thread's pool, returned by the successor",
            nested: "any number; past 4 nodes in use, slower",
        }
        "osq": timed Osq {
            summary: "MCS linked both ways, whose waiters can leave from anywhere",
            source: "Linux 3.15; Scott and Scherer 2001",
            family: Queue,
            fairness: "first in, first out among those who stay; none past the pool",
            per_thread: "a node for each lock held or waited for, from the thread's pool",
            nested: "any number; past 4 nodes in use, without order",
        }
        "qspin": tried Qspin {
            summary: "4 bytes: one pending waiter on the word, an MCS queue behind it",
            source: "Linux 4.2",
            family: Queue,
            fairness: "first in, first out but for a newcomer that finds the word free; none past the pool",
            per_thread: "a node for each lock waited for, from the thread's pool",
            nested: "any number",
        }
    }
    ReaderWriter {
        "rw-queued": shared RwQueued {
            summary: "a reader-writer spin lock whose waiters queue up at a ticket lock",
            source: "Linux 3.16, 2017",
            family: Ticket,
            fairness: "first in, first out; up to 32,768 waiters",
            per_thread: "nothing",
            nested: "any number",
        }
        "rwsem": timed_shared Rwsem {
            summary: "a reader-writer lock whose writers spin in a queue while the owner runs, then sleep; handed over to a writer after 4 ms",
            source: "Long 2019; Linux 6.1",
            family: Blocking,
            fairness: "none, but the first waiter is bypassed for at most 4 ms, or until it is woken next",
            per_thread: "two nodes for each lock waited for, from the thread's pool; a thread may say that it reads already",
            nested: "any number",
        }
    }
    Sleeping {
        "kernel-mutex": timed KernelMutex {
            summary: "spins in a queue while the owner runs, then sleeps; handed over to a waiter that was woken and found it taken",
            source: "Linux 3.16, 4.10",
            family: Blocking,
            fairness: "none, but the first of those that sleep is bypassed only until it has been woken once",
            per_thread: "two nodes for each lock waited for, from the thread's pool",
            nested: "any number",
        }
        "tp-futex": timed TpFutex {
            summary: "taken by the thread that finds it free; the first waiter spins while the owner runs, then sleeps, and is handed the lock after 5 ms",
            source: "Long 2016-17",
            family: Blocking,
            fairness: "none, but the first waiter is bypassed for at most 5 ms, or until it is woken next",
            per_thread: "a node for each lock waited for, from the thread's pool",
            nested: "any number",
        }
    }
    History {
        "tas": timed Tas {
            summary: "swap until the word was free; every attempt takes the line",
            source: "Anderson 1990",
            family: TestAndSet,
            fairness: "none",
            per_thread: "nothing",
            nested: "any number",
        }
        "tas-backoff": timed TasBackoff {
            summary: "swap at once, back off twice as long after each failure",
            source: "Anderson 1990",
            family: BackOff,
            fairness: "none; late comers are favoured",
            per_thread: "nothing",
            nested: "any number",
        }
        "ttas": timed Ttas {
            summary: "read until the word is free, then swap; all waiters rush at a release",
            source: "Anderson 1990",
            family: TestAndSet,
            fairness: "none",
            per_thread: "nothing",
            nested: "any number",
        }
        "ticket": tried Ticket {
            summary: "draw a number, wait until it is served; all waiters watch one word",
            source: "Mellor-Crummey and Scott 1991; Linux 2.6.25 to 4.1",
            family: Ticket,
            fairness: "first in, first out",
            per_thread: "nothing",
            nested: "any number",
        }
        "ticket4": tried Ticket4 {
            summary: "the ticket lock with 16-bit numbers in one word",
            source: "Linux 2.6.25 to 4.1",
            family: Ticket,
            fairness: "first in, first out; up to 32,768 waiters",
            per_thread: "nothing",
            nested: "any number",
        }
        "ticket-selftuning": tried TicketSelfTuning {
            summary: "a ticket lock whose waiters learn how long to back off",
            source: "van Riel 2012-13",
            family: BackOff,
            fairness: "first in, first out",
            per_thread: "a table of 64 delays",
            nested: "any number",
        }
        "anderson": tried Anderson {
            summary: "an array of slots; every waiter watches its own",
            source: "Anderson 1990",
            family: Queue,
            fairness: "first in, first out",
            per_thread: "one of 64 slots; further threads wait for one",
            nested: "any number",
        }
        "rw-naive": timed_shared RwNaive {
            summary: "a reader-writer spin lock on one word",
            source: "Linux before 3.16",
            family: TestAndSet,
            fairness: "none; readers keep writers out",
            per_thread: "nothing",
            nested: "any number",
        }
        "rwsem-no-spin": timed_shared RwsemNoSpin {
            summary: "rwsem as it was before writers spun: the thread that finds it free takes it, all others sleep",
            source: "Linux 3.10",
            family: Blocking,
            fairness: "none, but the first waiter is bypassed for at most 4 ms, or until it is woken next",
            per_thread: "a node for each lock waited for, from the thread's pool; a thread may say that it reads already",
            nested: "any number",
        }
        "rwsem-fifo": timed_shared RwsemFifo {
            summary: "rwsem as it was before newcomers could steal it: handed over to sleepers in the order of arrival",
            source: "Linux before 3.10",
            family: Blocking,
            fairness: "first in, first out; readers in a row enter together",
            per_thread: "a node for each lock waited for, from the thread's pool; a thread may say that it reads already",
            nested: "any number",
        }
    }
    Study {
        "hclh": tried Hclh {
            summary: "CLH with a queue for each cluster of cores, moved to the global one as a whole",
            source: "Luchangco, Nussbaum and Shavit 2006",
            family: Queue,
            fairness: "first in, first out inside a cluster, and of whole local queues",
            per_thread: "a node for each lock held or waited for, from the thread's pool, returned by the successor",
            nested: "any number; past 4 nodes in use, slower",
        }
        "hmcs": tried Hmcs {
            summary: "MCS with a queue for each cluster of cores, in which the lock goes round before another cluster gets it",
            source: "Chabbi, Fagan and Mellor-Crummey 2015",
            family: Queue,
            fairness: "first in, first out inside a cluster and among clusters; a cluster has the lock 65 times in a row at most",
            per_thread: "a node for each lock held or waited for, and one for the first of its cluster, from the thread's pool",
            nested: "any number; past 2 locks, slower",
        }
        "twa": tried Twa {
            summary: "a ticket lock whose waiters, but for the next, wait at slots of an array",
            source: "Dice and Kogan 2019",
            family: Queue,
            fairness: "first in, first out",
            per_thread: "a slot of the lock, which more than 32 waiters share",
            nested: "any number",
        }
    }
    Glibc {
        "glibc-mutex": timed GlibcMutex {
            summary: "glibc's default mutex: sleeps at once while the lock is held",
            source: "Drepper 2011; glibc 2.36",
            family: Blocking,
            fairness: "none",
            per_thread: "nothing",
            nested: "any number",
        }
        "glibc-adaptive": timed GlibcAdaptive {
            summary: "glibc's adaptive mutex: polls for up to 100 pauses, then sleeps",
            source: "glibc 2.36",
            family: Blocking,
            fairness: "none",
            per_thread: "nothing",
            nested: "any number",
        }
        "glibc-spin": tried GlibcSpin {
            summary: "glibc's spin lock: adds when it has seen the lock free; all waiters rush at a release",
            source: "glibc 2.36 on x86-64",
            family: TestAndSet,
            fairness: "none",
            per_thread: "nothing",
            nested: "any number",
        }
        "glibc-rwlock": timed_shared GlibcRwlock {
            summary: "glibc's reader-writer lock of the default kind",
            source: "Riegel 2016; glibc 2.36",
            family: Blocking,
            fairness: "none; readers keep writers out",
            per_thread: "nothing",
            nested: "any number",
        }
        "glibc-rwlock-writer": timed_shared GlibcRwlockWriter {
            summary: "glibc's reader-writer lock whose writers hand over to waiting writers",
            source: "Riegel 2016; glibc 2.36",
            family: Blocking,
            fairness: "none; readers that overlap keep writers out, writers keep waiting readers out",
            per_thread: "nothing",
            nested: "any number",
        }
        "glibc-rwlock-nonrecursive": timed_shared GlibcRwlockNonrecursive {
            summary: "glibc's reader-writer lock whose new readers let waiting writers go first",
            source: "Riegel 2016; glibc 2.36",
            family: Blocking,
            fairness: "none; writers keep readers out",
            per_thread: "nothing; a thread may say that it reads already",
            nested: "any number",
        }
    }
}
