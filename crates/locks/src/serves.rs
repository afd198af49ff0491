//! Which kinds of pthread object a lock can stand in for, and with what help.
//!
//! The preload library is built after these rules, and `contend locks` prints them.

use crate::catalogue::Lock;

/// A kind of pthread object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `pthread_mutex_t`, and C11's `mtx_t`.
    Mutex,
    /// `pthread_rwlock_t`.
    Rwlock,
    /// `pthread_spinlock_t`.
    Spin,
}

/// All kinds, in the order in which tables show them.
pub const KINDS: [Kind; 3] = [Kind::Mutex, Kind::Rwlock, Kind::Spin];

/// Bytes around a lock that cannot be tried: the outer word, and what its alignment costs.
const OUTER_WORD_BYTES: usize = 8;

/// How a lock comes to an ability that the pthread functions need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ability {
    /// The algorithm has it.
    Native,
    /// It is put around the algorithm: a lock that cannot be tried sits behind an outer word; a timed acquisition is a
    /// sequence of attempts and sleeps.
    Emulated,
}

/// How a lock serves a kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    /// Acquiring without waiting.
    pub tried: Ability,
    /// Acquiring until a deadline.
    pub timed: Ability,
    /// Its state lies in the program's own object; else in memory of the library, which the object refers to.
    pub in_object: bool,
}

impl Kind {
    /// The name that commands take and print.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Rwlock => "rwlock",
            Self::Spin => "spin",
        }
    }

    /// The bytes of the object that a lock state may use. Of a mutex a recorded one has 8 less.
    #[must_use]
    pub const fn room(self) -> usize {
        match self {
            Self::Mutex => 16,
            Self::Rwlock => 16,
            Self::Spin => 0,
        }
    }

    /// Whether locks that readers share, or those that they do not, can serve this kind. A mutex takes the exclusive side
    /// of a reader-writer lock.
    #[must_use]
    pub const fn takes(self, shared: bool) -> bool {
        match self {
            Self::Mutex => true,
            Self::Rwlock => shared,
            Self::Spin => !shared,
        }
    }
}

impl Lock {
    /// How this lock serves a kind of object; none if it cannot.
    #[must_use]
    pub const fn serves(&self, kind: Kind) -> Option<Service> {
        if !kind.takes(self.shared) {
            return None;
        }
        let bytes = if self.tries { self.bytes } else { self.bytes + OUTER_WORD_BYTES };
        Some(Service {
            tried: if self.tries { Ability::Native } else { Ability::Emulated },
            timed: if self.timed { Ability::Native } else { Ability::Emulated },
            in_object: bytes <= kind.room(),
        })
    }
}
