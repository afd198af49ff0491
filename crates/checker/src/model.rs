//! The memory models.
//!
//! Each is stated twice. *As a machine*: what a processor of that model does, step by step. *As a condition on an
//! execution graph*: which combinations of `rf` (who reads from which write) and `mo` (the order of the writes of each
//! location) such a machine can produce. The explorer works on the second, because a graph stands for all the
//! orders of steps that differ in nothing a program can see; tests compare both with each other.
//!
//! # Sequential consistency ([`Model::Sc`])
//!
//! *Machine*: one memory; the next step of any thread takes effect at once (Lamport 1979).
//! *Graph*: `po ∪ rf ∪ mo ∪ fr` has no cycle. *C11*: every ordering means the same; every access synchronises.
//!
//! # Total store order ([`Model::Tso`])
//!
//! *Machine*: every thread has a first-in first-out buffer of stores. A load takes the newest buffered store of its
//! location, or reads memory. A buffered store may reach memory at any time. A locked instruction and a full fence
//! wait until the thread's buffer is empty; nothing comes between the read and the write of a locked instruction
//! (Owens, Sarkar, Sewell 2009, x86-TSO).
//! *Graph*: each location is coherent, nothing comes between the halves of a read-modify-write, and
//! `ppo ∪ rfe ∪ mo ∪ fr` has no cycle, where `ppo` is program order but for a store before a load, which counts only
//! if one is locked or a full fence stands between.
//! *C11*: loads and stores are plain moves; a `SeqCst` store is followed by a full fence; every read-modify-write,
//! failed or not, is locked; a `SeqCst` fence is a full fence and all others are nothing.
//!
//! # Partial store order ([`Model::Pso`])
//!
//! *Machine*: as above with one buffer a thread and location, so that stores to different locations reach memory in
//! any order. A store-store barrier lets later stores follow all earlier ones; the one of a release store holds for
//! this store alone. A read-modify-write works on memory
//! and waits for its own location's buffer; with `Release` or stronger a store-store barrier stands before it, with
//! `SeqCst` it waits for all buffers.
//! *Graph*: as above, `ppo` also without a store before a store of another location unless a barrier stands between.
//! *C11*: a `Release` store has a store-store barrier before it, and so do release and acq_rel fences; a `SeqCst`
//! store also has a full fence after it; `SeqCst` fences are full. Loads are never reordered with each other.
//!
//! # Release-acquire with relaxed accesses ([`Model::Ra`])
//!
//! *Machine*: every location has an order of its writes; every thread has a view, a place in each of these orders
//! before which it cannot look back. A read takes any write at or after the view and moves the view there; a write
//! enters the order anywhere after the view, not only at the end; a read-modify-write writes directly after the write
//! that it read, and nothing ever comes between. A release write carries the thread's view, an acquire read joins the
//! view of the write that it reads; a read-modify-write passes on what it read (a release sequence as in C++20:
//! stores of the same thread do not continue one). Fences release for later relaxed writes and acquire for earlier
//! relaxed reads.
//! *Graph*: RC11 (Lahav, Vafeiadis, Kang, Hur, Dreyer 2017): `hb; eco?` is irreflexive, atomicity, the `psc` condition
//! of `SeqCst` accesses and fences has no cycle, and `po ∪ rf` has no cycle.
//! *Limits*: the last condition excludes load buffering, as RC11 does: a store never takes effect before a load that
//! stands before it in the program. ARM and Power can do that for relaxed accesses; this model does not show it.
//!
//! # Transactions
//!
//! *Machine*: a transaction is one step of its thread. Where there are store buffers, its thread's are empty when it begins, and what it
//! stores goes to memory (a full fence stands at either end, as on x86).
//! *Graph*: Chong, Sorensen and Wickerson (PLDI 2018). Under the first three models the order that has no cycle has none either when
//! each transaction is one event. Under [`Model::Ra`] one of two conflicting transactions happens before the other; what happens before
//! one event of a transaction, or after, and is outside of it, happens before all of it, or after; and when each transaction is one
//! event, neither `rf ∪ mo ∪ fr` nor `po ∪ rf` has a cycle. These last two go beyond C++, where an access outside of transactions that
//! conflicts with one is a race. A transaction is no fence there, and a relaxed access in one synchronises with nothing outside.
//!
//! # Of all models
//!
//! A store to part of a word enters the word's order directly after the write whose other bytes it keeps, and is not
//! ordered with the thread's loads by that. A write that itself depends on the part's store does not precede it.
//! While it is in a buffer, a load of its thread finds its bytes, and of the others those in memory. Graphs have no such read,
//! which would be from two writes, and order two such stores of a thread where a machine with partial store order does not: for
//! tso and pso the machine is what counts ([`Bound::Parts`](crate::Bound::Parts)).

use std::fmt;
use std::str::FromStr;

use machine::Ordering;

/// A memory model. The module's documentation states their rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Model {
    /// Sequential consistency.
    Sc,
    /// Total store order, the model of x86.
    Tso,
    /// Partial store order.
    Pso,
    /// Release-acquire, relaxed and seq_cst as in RC11.
    Ra,
}

impl Model {
    /// All of them, the strongest first.
    pub const ALL: [Self; 4] = [Self::Sc, Self::Tso, Self::Pso, Self::Ra];

    /// The name that commands take.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sc => "sc",
            Self::Tso => "tso",
            Self::Pso => "pso",
            Self::Ra => "ra",
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No model has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory model is called {0:?}; there are sc, tso, pso and ra")]
pub struct UnknownModel(String);

impl FromStr for Model {
    type Err = UnknownModel;
    fn from_str(name: &str) -> Result<Self, UnknownModel> {
        let known = Self::ALL.into_iter().find(|model| model.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| UnknownModel(name.to_owned()))
    }
}

/// What an access does beyond reading or writing, after the mapping from C11 to a model: a set of these bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strength(u16);

impl Strength {
    pub(crate) const NONE: Self = Self(0);
    /// Joins the view of what it reads.
    pub(crate) const ACQUIRE: Self = Self(1);
    /// Carries the view of its thread.
    pub(crate) const RELEASE: Self = Self(2);
    /// Takes part in RC11's `psc`.
    pub(crate) const SEQ_CST: Self = Self(4);
    /// Waits until all buffers of its thread are empty, and later accesses wait for it.
    pub(crate) const FULL: Self = Self(8);
    /// A store-store barrier stands before it.
    pub(crate) const STORES: Self = Self(16);
    /// Half of a read-modify-write.
    pub(crate) const EXCLUSIVE: Self = Self(32);
    /// Half of a store to part of a word.
    pub(crate) const PART: Self = Self(64);
    /// A write that goes to memory and not into a buffer.
    pub(crate) const DIRECT: Self = Self(128);
    /// The program says nothing about the order of this access: two of them may race.
    pub(crate) const PLAIN: Self = Self(256);

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }
}

pub(crate) const fn acquires(ordering: Ordering) -> bool {
    matches!(ordering, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

pub(crate) const fn releases(ordering: Ordering) -> bool {
    matches!(ordering, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

const fn seq_cst(ordering: Ordering) -> bool {
    matches!(ordering, Ordering::SeqCst)
}

impl Model {
    pub(crate) const fn load(self, ordering: Ordering) -> Strength {
        match self {
            Self::Sc | Self::Tso | Self::Pso => Strength::ACQUIRE,
            Self::Ra => {
                Strength::ACQUIRE.when(acquires(ordering)).with(Strength::SEQ_CST.when(seq_cst(ordering)))
            }
        }
    }

    pub(crate) const fn store(self, ordering: Ordering) -> Strength {
        match self {
            Self::Sc | Self::Tso => Strength::RELEASE,
            Self::Pso => Strength::RELEASE.with(Strength::STORES).when(releases(ordering)),
            Self::Ra => {
                Strength::RELEASE.when(releases(ordering)).with(Strength::SEQ_CST.when(seq_cst(ordering)))
            }
        }
    }

    /// Whether a full fence follows a store of this ordering.
    pub(crate) const fn fence_after_store(self, ordering: Ordering) -> bool {
        matches!(self, Self::Tso | Self::Pso) && seq_cst(ordering)
    }

    /// The reading half of a read-modify-write, also of one that fails.
    pub(crate) const fn rmw_read(self, ordering: Ordering) -> Strength {
        let half = match self {
            Self::Sc => Strength::ACQUIRE,
            Self::Tso => Strength::ACQUIRE.with(Strength::FULL),
            Self::Pso => Strength::ACQUIRE.with(Strength::FULL.when(seq_cst(ordering))),
            Self::Ra => self.load(ordering),
        };
        half.with(Strength::EXCLUSIVE)
    }

    /// A compare-and-exchange that found another value: a read, locked where the others are.
    pub(crate) const fn failed_exchange(self, success: Ordering, failure: Ordering) -> Strength {
        match self {
            Self::Sc => Strength::ACQUIRE,
            Self::Tso => Strength::ACQUIRE.with(Strength::FULL),
            Self::Pso => Strength::ACQUIRE.with(Strength::FULL.when(seq_cst(success))),
            Self::Ra => self.load(failure),
        }
    }

    pub(crate) const fn rmw_write(self, ordering: Ordering) -> Strength {
        let half = match self {
            Self::Sc => Strength::RELEASE,
            Self::Tso => Strength::RELEASE.with(Strength::FULL),
            Self::Pso => {
                self.store(ordering).with(Strength::FULL.when(seq_cst(ordering))).with(Strength::DIRECT)
            }
            Self::Ra => self.store(ordering),
        };
        half.with(Strength::EXCLUSIVE)
    }

    /// None where the fence does nothing.
    pub(crate) const fn fence(self, ordering: Ordering) -> Option<Strength> {
        match self {
            Self::Sc => None,
            Self::Tso if seq_cst(ordering) => Some(Strength::FULL),
            Self::Tso => None,
            Self::Pso if seq_cst(ordering) => Some(Strength::FULL.with(Strength::RELEASE)),
            Self::Pso if releases(ordering) => Some(Strength::STORES.with(Strength::RELEASE)),
            Self::Pso => None,
            Self::Ra => Some(
                Strength::ACQUIRE
                    .when(acquires(ordering))
                    .with(Strength::RELEASE.when(releases(ordering)))
                    .with(Strength::SEQ_CST.when(seq_cst(ordering))),
            ),
        }
    }
}
