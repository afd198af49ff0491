//! Words of locks whose owner inherits the priority of those that wait: what the kernel's two calls agree on with user space.

/// The bits of such a word that name its owner, as [`Machine::owner`](crate::Machine::owner) has it; zero: the lock is free.
pub const OWNER: u32 = (1 << 30) - 1;

/// The bit that the kernel sets when an owner has ended without a release (`FUTEX_OWNER_DIED`).
pub const OWNER_DIED: u32 = 1 << 30;

/// The bit that the kernel sets when a thread waits (`FUTEX_WAITERS`): the release has to go through the kernel.
pub const WAITERS: u32 = 1 << 31;

/// Why a lock whose owner inherits priorities was not acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The timeout was reached, or a try found the lock taken.
    GaveUp,
    /// The owner waits, perhaps by way of others, for the caller, or is the caller: to wait would be a deadlock. A chain of more
    /// than [`LONGEST_CHAIN`] owners that wait for each other counts as one.
    Deadlock,
    /// The owner has ended without a release.
    OwnerDied,
}

/// Owners that the kernel follows from one lock to the next, and no more: it goes from one to the next 1,024 times (`max_lock_depth`
/// of Linux).
pub const LONGEST_CHAIN: usize = 1_025;
