//! Clients whose threads give up.

use locks::{TimedLock, TryLock};
use machine::Ordering::Relaxed;
use machine::{Deadline, Integer, Machine, Run, Timeout, Word};

use super::object::{Attempt, Attempts, ClientObject, End, Inside, add_up, ends_tried};
use super::{Shape, Wrong, attempts, words};

/// How long the waiters of [`timed`] wait, in nanoseconds. The first one, which is all that a small client has, lets a
/// waiter fall asleep before it gives up.
pub(super) const WAITS_NS: [u64; 4] = [20_000, 0, 1_000, 300_000];

/// The timeout of the `attempt`-th timed attempt.
pub(super) fn deadline<M: Machine>(attempt: usize) -> Timeout<'static, M> {
    Timeout::at(Deadline::after_ns::<M>(WAITS_NS[attempt % WAITS_NS.len()]))
}

/// Every other attempt gives up at a deadline, some of them at once.
///
/// # Errors
/// As `exclusive`.
pub fn timed<L: TimedLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    with_deadlines::<L, M>(shape, ends_tried)
}

pub(super) fn with_deadlines<L: TimedLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    attempts::<L, M>(shape, end, |thread, nth, guarded| {
        let turn = thread + nth as usize;
        if turn.is_multiple_of(2) {
            guarded.acquire();
            return true;
        }
        guarded.attempt(|lock| lock.acquire_or(deadline(turn / 2)).is_ok())
    })
}

/// Every attempt of a thread may be called off by its neighbour, which does so whenever it has been inside.
///
/// # Errors
/// As `exclusive`.
pub fn cancelled<L: TimedLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    called_off::<L, M>(shape, ends_tried)
}

pub(super) fn called_off<L: TimedLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let cancels = words::<M>(shape.threads);
    attempts::<L, M>(shape, end, |thread, _, guarded| {
        let own = &*cancels[thread];
        let got = guarded.attempt(|lock| lock.acquire_or(Timeout::cancelled_by(own)).is_ok());
        if got {
            cancels[(thread + 1) % shape.threads].store(1, Relaxed);
        } else {
            own.store(0, Relaxed);
        }
        got
    })
}

/// The first thread holds the lock until the second has given up, in each way in which it can. All others acquire.
pub(super) fn given_up<L: TimedLock<M>, M: Machine>(
    shape: Shape,
    end: End<L>,
    gives_up: Attempts<'_, L, M>,
) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    let (held, left) = (&words::<M>(1)[0], &words::<M>(1)[0]);
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for round in 1..=shape.acquisitions {
            if thread == 1 {
                M::spin_until(&**held, Relaxed, |held| held >= round);
                inside.give_up(object, gives_up, || deadline(round as usize - 1));
                left.store(round, Relaxed);
                continue;
            }
            object.acquire();
            inside.touch(object);
            if thread == 0 && shape.threads > 1 {
                held.store(round, Relaxed);
                M::spin_until(&**left, Relaxed, |left| left == round);
            }
            object.release();
        }
        inside
    })
}

/// The first thread holds the lock until all others have given up: each meets what those before and behind it leave. Then the
/// second one waits for it, with what it used before.
pub(super) fn all_leave<L: TimedLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    let (held, left) = (&words::<M>(1)[0], &words::<M>(1)[0]);
    let leavers = shape.threads as u32 - 1;
    // Of each round: all have left, and the second has come again.
    let in_round = leavers + u32::from(leavers > 0);
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for round in 1..=shape.acquisitions {
            if thread == 0 {
                object.acquire();
                inside.touch(object);
                held.store(round, Relaxed);
                M::spin_until(&**left, Relaxed, |left| left >= in_round * (round - 1) + leavers);
                object.release();
                M::spin_until(&**left, Relaxed, |left| left == in_round * round);
                continue;
            }
            M::spin_until(&**held, Relaxed, |held| held >= round);
            inside.give_up(object, &[Attempt::EXCLUSIVE], || deadline(round as usize - 1));
            left.fetch_add(1, Relaxed);
            if thread == 1 {
                M::spin_until(&**left, Relaxed, |left| left >= in_round * (round - 1) + leavers);
                inside.write(object);
                left.fetch_add(1, Relaxed);
            }
        }
        inside
    })
}

/// The first thread holds the lock until the second has been called off, in each way in which it can wait. Then the second
/// waits in each way while no thread calls it off, so that it may not give up. All others acquire.
pub(super) fn called_off_each_way<L: TimedLock<M>, M: Machine>(
    shape: Shape,
    end: End<L>,
    gives_up: Attempts<'_, L, M>,
) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    let (held, left, cancel) = (&words::<M>(1)[0], &words::<M>(1)[0], &*words::<M>(1)[0]);
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for round in 1..=shape.acquisitions {
            if thread == 1 {
                M::spin_until(&**held, Relaxed, |held| held >= round);
                inside.give_up(object, gives_up, || Timeout::cancelled_by(cancel));
                cancel.store(0, Relaxed);
                left.store(2 * round - 1, Relaxed);
                for attempt in gives_up {
                    if (attempt.wait)(object, Timeout::cancelled_by(cancel)) {
                        (attempt.section)(&mut inside, object);
                    } else {
                        inside.gave_up = true;
                    }
                }
                left.store(2 * round, Relaxed);
                continue;
            }
            let calls_off = thread == 0 && shape.threads > 1;
            if calls_off {
                M::spin_until(&**left, Relaxed, |left| left >= 2 * (round - 1)); // it waits no more
            }
            object.acquire();
            inside.touch(object);
            if calls_off {
                cancel.store(1, Relaxed);
                held.store(round, Relaxed);
                M::spin_until(&**left, Relaxed, |left| left >= 2 * round - 1);
            }
            object.release();
        }
        inside
    })
}

/// Threads of even number acquire and try by turns; those of odd number give up at a deadline and acquire by turns. So a
/// queue node that was left in one way is used again in another.
pub(super) fn mixed<L: TimedLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    attempts::<L, M>(shape, end, |thread, nth, guarded| match (thread % 2, nth % 2) {
        (1, 0) => guarded.attempt(|lock| lock.acquire_or(deadline(thread / 2)).is_ok()),
        (0, 1) => guarded.attempt(TryLock::try_acquire),
        _ => {
            guarded.acquire();
            true
        }
    })
}
