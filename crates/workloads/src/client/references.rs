//! Clients of the lock with a reference count.

use locks::{LockRef, RawLock};
use machine::{Machine, PlainCell, Run};

use super::object::{ClientObject, End, Inside, add_up, ends_tried};
use super::{Shape, Wrong};

/// An object with a reference count. The first thread publishes it under the lock; all use it while they have a
/// reference; the thread that drops the last one finds itself holding the lock, and takes the object down.
///
/// # Errors
/// [`Wrong`] when a thread used an object that was not up, or it went down other than once.
pub fn references<M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<LockRef<M>, M>::placed()];
    let object = &guarded[0];
    add_up(shape, &guarded, ends_tried, |thread| {
        let mut inside = Inside::default();
        if thread == 0 {
            object.acquire();
            object.count.set(1);
            object.copy.set(1);
            object.lock.add_locked(1);
            object.release();
        }
        for nth in 0..shape.acquisitions {
            let first = thread == 0 && nth == 0;
            if !first && !object.lock.get_not_zero() {
                continue;
            }
            inside.disturbed |= object.count.get() != 1 || object.copy.get() != 1;
            if !object.lock.put_or_lock() {
                inside.touch(object);
                object.count.set(1);
                object.lock.mark_dead();
                // SAFETY: `put_or_lock` has acquired it.
                unsafe { object.lock.release() };
            }
        }
        inside
    })
}

/// An object without references that is kept for those who may come. The first thread takes it down and marks it dead,
/// under the lock, unless it finds a reference; the others use it while they have one, and hold the lock where they get none: the
/// mark leaves the lock with the first thread.
///
/// # Errors
/// [`Wrong`] when a thread used an object that was not up, or references are left.
pub fn dying<M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<LockRef<M>, M>::placed()];
    let object = &guarded[0];
    let run = add_up(shape, &guarded, ends_tried, |thread| {
        let mut inside = Inside::default();
        for _ in 0..shape.acquisitions {
            if thread == 0 {
                object.acquire();
                if object.lock.count() == 0 {
                    inside.touch(object);
                    object.lock.mark_dead();
                    inside.touch(object);
                }
                object.release();
            } else if object.lock.get_not_dead() {
                inside.disturbed |= object.count.get() != 0;
                if !object.lock.put_or_lock() {
                    object.lock.add_locked(-1);
                    // SAFETY: `put_or_lock` has acquired it.
                    unsafe { object.lock.release() };
                }
            } else {
                inside.write(object);
            }
        }
        inside
    })?;
    let is_down = object.count.get() != 0;
    let fits = if is_down { object.lock.count() < 0 } else { object.lock.count() == 0 };
    if fits { Ok(run) } else { Err(Wrong::NotIdle) }
}

/// Two references, which the first two threads drop unless they find theirs to be the last. A third one holds the lock,
/// and relies on the count.
///
/// # Errors
/// [`Wrong`] when not exactly one was dropped, or the count changed while the lock was held.
pub fn not_last<M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let end: End<LockRef<M>> = |lock| if lock.count() == 1 { ends_tried(lock) } else { Err(Wrong::NotIdle) };
    let guarded = [ClientObject::<LockRef<M>, M>::placed()];
    let object = &guarded[0];
    let droppers = shape.threads.min(2);
    for _ in 0..droppers {
        object.lock.get();
    }
    object.count.set(droppers as u64 - 1); // how many will be dropped
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for _ in 0..shape.acquisitions {
            if thread < droppers {
                inside.touches += u64::from(object.lock.put_not_last());
                continue;
            }
            object.acquire();
            let count = object.lock.count();
            inside.disturbed |= object.lock.count() != count;
            object.release();
        }
        inside
    })
}

/// A count that takes one reference more, for which every thread tries.
///
/// # Errors
/// [`Wrong`] when not exactly one got it.
pub fn many_references<M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<LockRef<M>, M>::placed()];
    let object = &guarded[0];
    object.lock.acquire();
    object.lock.add_locked(i32::MAX - 1);
    // SAFETY: acquired above.
    unsafe { object.lock.release() };
    object.count.set(1); // how many will be got
    add_up(shape, &guarded, ends_tried, |thread| {
        let mut inside = Inside::default();
        for nth in 0..shape.acquisitions as usize {
            let got = if (thread + nth).is_multiple_of(2) {
                object.lock.get_not_zero()
            } else {
                object.lock.get_not_dead()
            };
            inside.touches += u64::from(got);
        }
        inside
    })
}
