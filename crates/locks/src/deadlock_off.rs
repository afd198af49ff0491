//! Without the feature `deadlock_detection` no thread writes down who waits for whom.

/// How a lock is held or wanted.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    /// By one thread.
    Exclusive,
    /// Together with readers, by the one that may become the writer.
    Upgradable,
    /// Together with others.
    Shared,
    /// The same, by a thread that says that it reads already.
    SharedAgain,
}

#[inline(always)]
pub(crate) fn acquire(
    _lock: usize,
    _side: Side,
    _try_acquire: impl FnOnce() -> bool,
    acquire: impl FnOnce(),
) {
    acquire();
}

#[inline(always)]
pub(crate) fn acquired(_lock: usize, _side: Side, acquired: bool) -> bool {
    acquired
}

#[inline(always)]
pub(crate) fn changed(_lock: usize, _from: Side, _to: Side) {}

#[inline(always)]
pub(crate) fn release(_lock: usize, _side: Side) {}
