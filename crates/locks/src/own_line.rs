//! A value on cache lines of its own, and one of several for each thread.

use machine::{LINE_BYTES, Machine};

/// A value that shares no line with others.
#[repr(C, align(64))]
pub(crate) struct OwnLine<T>(pub(crate) T);

const _: () = assert!(align_of::<OwnLine<u32>>() == LINE_BYTES);

/// That of the calling thread. Threads share one where there are fewer than threads.
#[inline]
pub(crate) fn of_thread<T, M: Machine>(all: &[OwnLine<T>]) -> &T {
    &all[M::thread() as usize % all.len()].0
}
