//! A counter that threads change without taking a line from each other.
//!
//! | word      | written by                              | meaning                                     |
//! |-----------|-----------------------------------------|---------------------------------------------|
//! | a shard   | threads with this number modulo the shards | what they have added less what they have taken away |
//!
//! Each shard has a line of its own, so that threads of different shards do not wait for each other. A shard of one thread is changed
//! by a read-modify-write all the same: another thread may have the same shard, and a number goes to a new thread when its
//! owner ends. The sum reads all shards, one line transfer for each that has changed since.
//!
//! Source: per-CPU counters of operating systems; McKenney, "Is Parallel Programming Hard", chapter 5 (statistical counters).

use core::fmt;

use machine::Ordering::Relaxed;
use machine::{Integer, Machine, Patient, Word};

use crate::own_line::{OwnLine, of_thread};

/// The counter, 64 bytes for each shard. A change costs an atomic addition on a line that stays with its core while there are
/// as many shards as threads; a sum costs as many reads as there are shards.
///
/// A sum has all changes that happened before it, and none that comes after it; of those that happen meanwhile it has some. So it is
/// exact when no thread changes the counter, and while threads only add it is between the count at its start and that at its end.
/// It is modulo 2⁶⁴. The counter orders nothing else: what a thread did before it added may not be seen by one that reads the sum.
///
/// ```
/// use contend_locks::prelude::*;
///
/// static REQUESTS: Counter = Counter::new();
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| REQUESTS.add(2));
///     }
/// });
/// REQUESTS.subtract(1);
/// assert_eq!(REQUESTS.sum(), 7);
/// ```
#[repr(C)]
pub struct Counter<const SHARDS: usize = 32, M: Machine = Patient> {
    shards: [OwnLine<M::U64>; SHARDS],
}

const _: () = assert!(size_of::<Counter<32>>() == 32 * machine::LINE_BYTES);

impl<const SHARDS: usize, M: Machine> Counter<SHARDS, M> {
    /// The counter at zero. Without a shard it does not compile.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(SHARDS > 0, "a counter has a shard at least") };
        Self { shards: [const { OwnLine(M::U64::ZERO) }; SHARDS] }
    }

    /// Adds so many.
    #[inline]
    pub fn add(&self, many: u64) {
        of_thread::<_, M>(&self.shards).fetch_add(many, Relaxed); // counts, and publishes nothing
    }

    /// Takes so many away.
    #[inline]
    pub fn subtract(&self, many: u64) {
        of_thread::<_, M>(&self.shards).fetch_sub(many, Relaxed); // as above
    }

    /// The sum of all shards.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.shards.iter().fold(0, |sum, shard| sum.wrapping_add(shard.0.load(Relaxed)))
    }
}

impl<const SHARDS: usize, M: Machine> Default for Counter<SHARDS, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SHARDS: usize, M: Machine> fmt::Debug for Counter<SHARDS, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("sum", &self.sum()).finish()
    }
}
