//! What the threads of a client do.

use locks::catalogue::Lock;

/// What the threads of a client do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientKind {
    /// Acquire, touch, release.
    Exclusive,
    /// The same with every other attempt a try.
    Tried,
    /// The same with attempts that give up at a deadline.
    Timed,
    /// The same with attempts that another thread calls off.
    Cancelled,
    /// A holder keeps the lock until a waiter has given up; others wait meanwhile.
    GivenUp,
    /// A holder keeps the lock until all others have given up, one of whom then waits for it.
    AllLeave,
    /// As [`Self::GivenUp`] with a waiter that is called off, and then waits again while no thread calls it off.
    CalledOff,
    /// Some threads acquire and try by turns, the others give up at a deadline and acquire.
    Mixed,
    /// Every third thread writes, the others read, twice nested.
    Shared,
    /// Tries on both sides while others read and write.
    TriedShared,
    /// Readers that give up at a deadline while others read and write.
    ReadersLeave,
    /// The same with readers that need not wait for writers that wait.
    PreferredLeave,
    /// Writers that give up at a deadline while others read and write.
    WritersLeave,
    /// A writer that gives up at a deadline while another writes and others read.
    WriterLeavesWriter,
    /// Readers that stay inside until all of them are.
    Meeting,
    /// The same beside a writer that gives up at a deadline.
    MeetingLeft,
    /// A lock with so many readers that one more is the last to be let in.
    Full,
    /// A writer that becomes a reader, among writers and readers.
    Downgraded,
    /// A writer that becomes a reader and waits inside for the other readers.
    DowngradedMeeting,
    /// An upgradable reader that becomes the writer and a reader again, among writers and readers.
    Upgraded,
    /// The same with attempts that may fail, and with a second upgradable reader.
    TriedUpgrade,
    /// The same with attempts that give up at a deadline, with a writer and a reader.
    TimedUpgrade,
    /// Three locks held at once, released in another order.
    Nested,
    /// A thread that already holds as many locks as its pool has named nodes, among others that do not.
    Many,
    /// One thread acquires, the next one releases.
    PassedOn,
    /// A lock whose counters are about to wrap around.
    Wrapping,
    /// Sections that are judged by what lasts of them alone: for a lock that is not opaque.
    Effects,
    /// A holder that comes back at once, and finds that the lock was promised to a waiter.
    Promised,
    /// A reader that comes back at once, and finds that the lock was promised to a writer.
    PromisedShared,
}

impl ClientKind {
    /// Every kind.
    pub const ALL: [Self; 29] = [
        Self::Exclusive,
        Self::Tried,
        Self::Timed,
        Self::Cancelled,
        Self::GivenUp,
        Self::AllLeave,
        Self::CalledOff,
        Self::Mixed,
        Self::Shared,
        Self::TriedShared,
        Self::ReadersLeave,
        Self::PreferredLeave,
        Self::WritersLeave,
        Self::WriterLeavesWriter,
        Self::Meeting,
        Self::MeetingLeft,
        Self::Full,
        Self::Downgraded,
        Self::DowngradedMeeting,
        Self::Upgraded,
        Self::TriedUpgrade,
        Self::TimedUpgrade,
        Self::Nested,
        Self::Many,
        Self::PassedOn,
        Self::Wrapping,
        Self::Effects,
        Self::Promised,
        Self::PromisedShared,
    ];

    /// What commands and tables call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Tried => "tried",
            Self::Timed => "timed",
            Self::Cancelled => "cancelled",
            Self::GivenUp => "given-up",
            Self::AllLeave => "all-leave",
            Self::CalledOff => "called-off",
            Self::Mixed => "mixed",
            Self::Shared => "shared",
            Self::TriedShared => "tried-shared",
            Self::ReadersLeave => "readers-leave",
            Self::PreferredLeave => "preferred-leave",
            Self::WritersLeave => "writers-leave",
            Self::WriterLeavesWriter => "writer-leaves-writer",
            Self::Meeting => "meeting",
            Self::MeetingLeft => "meeting-left",
            Self::Full => "full",
            Self::Downgraded => "downgraded",
            Self::DowngradedMeeting => "downgraded-meeting",
            Self::Upgraded => "upgraded",
            Self::TriedUpgrade => "tried-upgrade",
            Self::TimedUpgrade => "timed-upgrade",
            Self::Nested => "nested",
            Self::Many => "many",
            Self::PassedOn => "passed-on",
            Self::Wrapping => "wrapping",
            Self::Effects => "effects",
            Self::Promised => "promised",
            Self::PromisedShared => "promised-shared",
        }
    }

    /// Whether the lock can do that.
    #[must_use]
    pub fn suits(self, lock: &Lock) -> bool {
        if !lock.opaque {
            return self == Self::Effects; // the others look around in their sections
        }
        match self {
            Self::Effects => false,
            Self::Exclusive | Self::Nested | Self::Tried | Self::Many => true,
            Self::PassedOn => !lock.owner_releases,
            Self::Promised => lock.promises,
            Self::PromisedShared => lock.promises && lock.shared,
            Self::Timed
            | Self::Cancelled
            | Self::GivenUp
            | Self::AllLeave
            | Self::CalledOff
            | Self::Mixed => lock.timed,
            Self::Shared | Self::TriedShared | Self::Meeting => lock.shared,
            Self::Downgraded | Self::DowngradedMeeting | Self::Upgraded | Self::TriedUpgrade => lock.shared,
            Self::ReadersLeave
            | Self::PreferredLeave
            | Self::WritersLeave
            | Self::WriterLeavesWriter
            | Self::MeetingLeft
            | Self::TimedUpgrade => lock.shared && lock.timed,
            Self::Full => lock.bounds_readers,
            Self::Wrapping => lock.wraps,
        }
    }
}
