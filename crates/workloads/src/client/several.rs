//! Clients with several locks, and with several threads for one hold.

use locks::{RawLock, TryLock};
use machine::Ordering::{Acquire, Release};
use machine::{Machine, Run, Word};

use super::object::{ClientObject, End, Inside, add_up, ends_free};
use super::{Shape, Wrong, every_other_is_a_try, words};

/// How many locks [`nested`] holds at once.
pub(super) const NESTED: usize = 3;

/// Holds three locks at once and releases them in an order that changes from one acquisition to the next.
///
/// # Errors
/// As `exclusive`.
pub fn nested<L: RawLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    nesting::<L, M>(shape, ends_free)
}

pub(super) fn nesting<L: RawLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let guarded = [(); NESTED].map(|()| ClientObject::<L, M>::placed());
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for nth in 0..shape.acquisitions as usize {
            for one in &guarded {
                one.acquire();
                inside.touch(one);
            }
            for step in 0..NESTED {
                guarded[(thread + nth + step * 2) % NESTED].release();
            }
        }
        inside
    })
}

/// The first thread holds so many locks of its own that its next queue node has no name, and then goes for the lock
/// that all use, by acquisition and by try.
pub(super) fn many<L: TryLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let own = (0..M::NAMED_NODES).map(|_| ClientObject::<L, M>::placed()).collect::<Vec<_>>();
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for nth in 0..shape.acquisitions {
            if thread != 0 {
                inside.write(object);
                continue;
            }
            own.iter().for_each(|one| one.lock.acquire());
            if every_other_is_a_try(thread, nth, object) {
                inside.touch(object);
                object.release();
            }
            // SAFETY: acquired above.
            own.iter().for_each(|one| unsafe { one.lock.release() });
        }
        inside
    })
}

/// Threads in pairs: the first acquires and touches, the second releases, while the first may come again already. An
/// odd thread left over does both.
///
/// # Errors
/// As `exclusive`.
pub fn passed_on<L: RawLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    passing_on::<L, M>(shape, ends_free)
}

pub(super) fn passing_on<L: RawLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let guarded_one = &guarded[0];
    let batons = words::<M>(shape.threads.div_ceil(2));
    add_up(shape, &guarded, end, |thread| {
        let baton = &*batons[thread / 2];
        let mut inside = Inside::default();
        for round in 1..=shape.acquisitions {
            if thread % 2 == 1 {
                M::spin_until(baton, Acquire, |held| held >= round); // [1] from the pair's first
                guarded_one.release();
                continue;
            }
            guarded_one.acquire();
            inside.touch(guarded_one);
            if thread + 1 == shape.threads {
                guarded_one.release();
            } else {
                baton.store(round, Release); // [1] to the pair's second
            }
        }
        inside
    })
}
