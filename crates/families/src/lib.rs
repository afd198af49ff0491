//! Families of locks: what sets the cost of a hand-over.
//!
//! The catalogue of locks says of each lock which family it is of, the model has a cost for each family, and the names are
//! what `contend locks` prints and `contend predict --lock` takes. Besides, this crate holds the numbers that the locks run
//! with and that the model counts with. It depends on nothing, so that locks and model need not know each other.
#![no_std]

/// What sets the cost of a hand-over, and how it grows with the waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Family {
    /// All waiters watch one word with loads and are served in order: the hand-over grows with half of the waiters on average.
    Ticket,
    /// All waiters try to change one word, or rush at it at a release: the hand-over grows with all waiters.
    TestAndSet,
    /// All waiters try one word, each after a delay.
    BackOff,
    /// Each waiter watches a word of its own: the hand-over is constant.
    Queue,
    /// Waiters sleep, and every release wakes one.
    Blocking,
    /// Waiters leave the lock's line alone: they poll seldom, then sleep, and one at a time is woken.
    BackOffThenSleep,
}

impl Family {
    /// Every family, in the order in which tables show them.
    pub const ALL: [Self; 6] =
        [Self::Blocking, Self::BackOffThenSleep, Self::TestAndSet, Self::BackOff, Self::Ticket, Self::Queue];

    /// The family's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ticket => "ticket",
            Self::TestAndSet => "test-and-set",
            Self::BackOff => "back-off",
            Self::Queue => "queue",
            Self::Blocking => "blocking",
            Self::BackOffThenSleep => "back-off-then-sleep",
        }
    }

    /// Whether the cost of a hand-over grows without end as waiters come.
    #[must_use]
    pub const fn grows_with_waiters(self) -> bool {
        matches!(self, Self::Ticket | Self::TestAndSet | Self::BackOff)
    }

    /// Whether waiters sleep in the kernel.
    #[must_use]
    pub const fn sleeps(self) -> bool {
        matches!(self, Self::Blocking | Self::BackOffThenSleep)
    }
}

/// Cycles that a waiter of [`Family::BackOffThenSleep`] backs off from an exclusively held lock, poll by poll, before it
/// sleeps: each several times what a hand-over between cores costs.
pub const BACK_OFF_CYCLES: [u64; 4] = [1_500, 3_000, 6_000, 12_000];
