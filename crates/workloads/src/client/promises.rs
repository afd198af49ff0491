//! Clients that look at what a lock promises its waiters: once it is to be handed over, no thread that comes later gets it first.

use locks::{RawLock, RawRwLock, TryLock};
use machine::{Home, Machine, Placed, PlainCell, Run};

use super::object::{ClientObject, End, Inside, add_up, ends_shared};
use super::{Shape, Wrong};

/// The first thread acquires once more than the others, who acquire by turns. A thread that releases a lock that is promised to a
/// waiter is not the next to hold it.
pub(super) fn promised<L: RawLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    // The thread that released the lock while it was promised, plus one; 0: none since it was last acquired.
    let broken_by = &Placed::<M::Cell<u64>, M>::new(PlainCell::ZERO, Home::FirstTouch);
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        let own = thread as u64 + 1;
        let rounds = if thread == 0 { shape.acquisitions + 1 } else { shape.acquisitions.div_ceil(2) };
        for _ in 0..rounds {
            object.acquire();
            inside.bypassed |= broken_by.get() == own;
            inside.touch(object);
            broken_by.set(if object.lock.is_promised() { own } else { 0 });
            object.release();
        }
        inside
    })
}

/// The first thread reads again and again, the last one writes once. A reader that leaves a lock which is promised to the writer comes
/// in again after it.
pub(super) fn promised_shared<L: RawRwLock<M> + TryLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    add_up(shape, &guarded, ends_shared, |thread| {
        let mut inside = Inside::default();
        if thread + 1 == shape.threads {
            inside.write(object);
            return inside;
        }
        let mut promised_at = None;
        for _ in 0..=shape.acquisitions {
            object.acquire_shared(false);
            inside.look(object);
            let written = object.count.get();
            // One reader alone: another one may have slept for longer than the writer.
            inside.bypassed |= shape.threads == 2 && promised_at == Some(written);
            promised_at = object.lock.is_promised().then_some(written);
            object.release_shared();
        }
        inside
    })
}
