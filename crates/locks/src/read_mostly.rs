//! A value whose readers share no line: a reader-writer lock for each group of threads.
//!
//! | word    | written by                                        | meaning                          |
//! |---------|---------------------------------------------------|----------------------------------|
//! | a shard | readers with this number modulo the shards, writers | a reader-writer lock, see there |
//!
//! A reader takes the lock of its own shard, on a line that stays with its core; a writer takes all of them, in order, so that two
//! writers do not wait for each other in a circle. So a writer waits for the readers that are in, and they for it; there is one value, which
//! is changed in place, and nothing to reclaim.
//!
//! Order: that of the shard's lock between a writer and the readers of one shard; writers meet at the first.
//! Source: Hsieh and Weihl 1992; Linux's brlock 2.4 and lglock 2.6.36.

use core::cell::UnsafeCell;
use core::fmt;

use machine::{Machine, Patient};

use crate::api::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::own_line::{OwnLine, of_thread};
use crate::{RawRwLock, Rw, TryLock};

type Shard<L, M> = OwnLine<RwLock<(), L, M>>;

/// A value that is read far more often than it is written, 64 bytes for each shard besides. A read costs what an uncontended read of
/// `L` costs on a line of its own while there are as many shards as threads; a write costs an acquisition for each shard.
///
/// A thread that reads must not write, nor read again while another one may wait to write: it would wait for itself.
///
/// ```
/// use contend_locks::prelude::*;
///
/// static ROUTES: ReadMostly<Vec<u32>> = ReadMostly::new(Vec::new());
/// ROUTES.write(|routes| routes.push(7));
/// assert_eq!(ROUTES.read(|routes| routes.len()), 1);
/// ```
#[repr(C)]
pub struct ReadMostly<T, const SHARDS: usize = 32, L: RawRwLock<M> + TryLock<M> = Rw, M: Machine = Patient> {
    shards: [Shard<L, M>; SHARDS],
    value: UnsafeCell<T>,
}

// SAFETY: readers on several threads have `&T` at a time, and a writer on any has `&mut T`.
unsafe impl<T: Send + Sync, const SHARDS: usize, L: RawRwLock<M> + TryLock<M>, M: Machine> Sync
    for ReadMostly<T, SHARDS, L, M>
{
}

impl<T, const SHARDS: usize, L: RawRwLock<M> + TryLock<M>, M: Machine> ReadMostly<T, SHARDS, L, M> {
    /// The value, which no thread reads or writes yet. Without a shard it does not compile.
    #[must_use]
    pub const fn new(value: T) -> Self {
        const { assert!(SHARDS > 0, "there is a shard at least") };
        Self { shards: [const { OwnLine(RwLock::new(())) }; SHARDS], value: UnsafeCell::new(value) }
    }

    /// Runs `look` with the value, beside other readers. If it panics the read ends.
    #[inline]
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        let _shard: RwLockReadGuard<'_, (), L, M> = of_thread::<_, M>(&self.shards).read();
        // SAFETY: a writer would have this shard.
        look(unsafe { &*self.value.get() })
    }

    /// Runs `change` with the value, alone. If it panics the write ends, and the value is as it was left.
    pub fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let _all: [RwLockWriteGuard<'_, (), L, M>; SHARDS] =
            core::array::from_fn(|shard| self.shards[shard].0.write());
        // SAFETY: readers have a shard, and other writers have all.
        change(unsafe { &mut *self.value.get() })
    }

    /// The value, by its only owner.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: Default, const SHARDS: usize, L: RawRwLock<M> + TryLock<M>, M: Machine> Default
    for ReadMostly<T, SHARDS, L, M>
{
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, const SHARDS: usize, L: RawRwLock<M> + TryLock<M>, M: Machine> fmt::Debug
    for ReadMostly<T, SHARDS, L, M>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadMostly").field("shards", &SHARDS).finish_non_exhaustive()
    }
}
