//! Timeouts of waits, and what a wait ends with.

use core::time::Duration;

use crate::Machine;

/// The clock of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: does not jump.
    Monotonic,
    /// `CLOCK_REALTIME`: the wall clock, which an administrator can set.
    Realtime,
}

/// A point in time on a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deadline {
    /// The clock that decides.
    pub clock: Clock,
    /// Nanoseconds since that clock's zero.
    pub at_ns: u64,
}

impl Deadline {
    /// `wait_ns` from now on the monotonic clock of `M`.
    #[must_use]
    pub fn after_ns<M: Machine>(wait_ns: u64) -> Self {
        let clock = Clock::Monotonic;
        Self { clock, at_ns: M::clock_ns(clock).saturating_add(wait_ns) }
    }

    /// So long from now on the monotonic clock of `M`.
    #[must_use]
    pub fn after<M: Machine>(wait: Duration) -> Self {
        Self::after_ns::<M>(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whether it has passed on `M`.
    #[must_use]
    pub fn passed<M: Machine>(&self) -> bool {
        M::clock_ns(self.clock) >= self.at_ns
    }
}

/// On the wall clock, which an administrator can set. A time before 1970 has passed.
#[cfg(feature = "std")]
impl From<std::time::SystemTime> for Deadline {
    fn from(at: std::time::SystemTime) -> Self {
        let since = at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self { clock: Clock::Realtime, at_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) }
    }
}

/// When a wait gives up.
pub struct Timeout<'a, M: Machine> {
    /// Gives up once this has passed.
    pub deadline: Option<Deadline>,
    /// Gives up once this word is not zero.
    pub cancel: Option<&'a M::U32>,
    /// Does not sleep before the deadline: a bound that a lock sets on spinning, before it sleeps in its own way.
    pub spins: bool,
}

impl<M: Machine> Timeout<'_, M> {
    /// Waits for ever.
    pub const NONE: Self = Self { deadline: None, cancel: None, spins: false };

    /// Gives up at `deadline`.
    #[must_use]
    pub const fn at(deadline: Deadline) -> Self {
        Self { deadline: Some(deadline), cancel: None, spins: false }
    }
}

impl<'a, M: Machine> Timeout<'a, M> {
    /// Gives up once `word` is not zero.
    #[must_use]
    pub const fn cancelled_by(word: &'a M::U32) -> Self {
        Self { deadline: None, cancel: Some(word), spins: false }
    }
}

impl<M: Machine> Timeout<'_, M> {
    /// Gives up `ns` from now, if not before, and spins until then.
    #[must_use]
    pub fn within_ns(self, ns: u64) -> Self {
        let clock = self.deadline.map_or(Clock::Monotonic, |deadline| deadline.clock);
        let at_ns = M::clock_ns(clock).saturating_add(ns);
        let at_ns = self.deadline.map_or(at_ns, |deadline| deadline.at_ns.min(at_ns));
        Self { deadline: Some(Deadline { clock, at_ns }), spins: true, ..self }
    }
}

impl<M: Machine> Clone for Timeout<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Timeout<'_, M> {}

/// Whether a thread is on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// It is.
    Yes,
    /// It is preempted, asleep, or has ended.
    No,
    /// The machine does not know.
    CannotTell,
}

/// A wait ended at its timeout, not because its condition held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp;

/// What a poll does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// The wait is over.
    Ready,
    /// Back off for so many cycles, then poll again; zero polls again at once.
    BackOff(u64),
}

/// Which of two words ended a wait, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<A, B> {
    /// The first.
    First(A),
    /// The second.
    Second(B),
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slept {
    /// A wake-up came, or a signal, or nothing at all: poll the word again.
    Woken,
    /// The word did not hold the expected value to begin with.
    Changed,
    /// The deadline passed or the cancel word was set.
    GaveUp,
}
