//! Clients of reader-writer locks.

use locks::{RawRwLock, TimedRwLock, TryLock};
use machine::Ordering::Relaxed;
use machine::{Integer, Machine, Run, Word};

use super::leaving::deadline;
use super::object::{ClientObject, End, Inside, add_up, ends_free, ends_shared};
use super::{Shape, Wrong, words};

/// Every third thread writes. The others read, and read again while they do, whatever writer waits.
///
/// # Errors
/// As `exclusive`.
pub fn shared<L: RawRwLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    sharing::<L, M>(shape, ends_free)
}

pub(super) fn sharing<L: RawRwLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let guarded_one = &guarded[0];
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for _ in 0..shape.acquisitions {
            if thread % 3 == 0 {
                inside.write(guarded_one);
            } else {
                guarded_one.acquire_shared(false);
                inside.look(guarded_one);
                guarded_one.acquire_shared(true);
                inside.look(guarded_one);
                guarded_one.release_shared();
                inside.look(guarded_one);
                guarded_one.release_shared();
            }
        }
        inside
    })
}

/// What a thread of a reader-writer client does at an acquisition, of which it gets the number.
pub(super) type Turn<L, M> = fn(usize, &ClientObject<L, M>, &mut Inside);

/// Each thread does one of these at each acquisition, by turns.
pub(super) fn by_turns<L: RawRwLock<M> + TryLock<M>, M: Machine, const TURNS: usize>(
    shape: Shape,
    end: End<L>,
    turns: [Turn<L, M>; TURNS],
) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for nth in 0..shape.acquisitions as usize {
            turns[(thread + nth) % TURNS](thread + nth, &guarded[0], &mut inside);
        }
        inside
    })
}

pub(super) fn writes<L: RawRwLock<M>, M: Machine>(
    _: usize,
    guarded: &ClientObject<L, M>,
    inside: &mut Inside,
) {
    inside.write(guarded);
}

pub(super) fn reads<L: RawRwLock<M>, M: Machine>(
    _: usize,
    guarded: &ClientObject<L, M>,
    inside: &mut Inside,
) {
    guarded.acquire_shared(false);
    inside.look(guarded);
    guarded.release_shared();
}

/// Tries on both sides, with a writer and a reader there.
pub(super) fn tried_shared<L: RawRwLock<M> + TryLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let tries: Turn<L, M> = |_, guarded, inside| {
        for reads_already in [false, true] {
            if guarded.attempt_shared(|lock| lock.try_acquire_shared(reads_already)) {
                inside.look(guarded);
                guarded.release_shared();
            }
        }
        if guarded.attempt(TryLock::try_acquire) {
            inside.touch(guarded);
            guarded.release();
        }
    };
    by_turns::<L, M, 3>(shape, ends_shared, [writes, tries, reads])
}

/// A reader that may give up, with a writer and a patient reader. `READS_ALREADY` says that it need not wait for writers that
/// wait.
pub(super) fn readers_leave<L: TimedRwLock<M>, M: Machine, const READS_ALREADY: bool>(
    shape: Shape,
) -> Result<Run, Wrong> {
    let may_leave: Turn<L, M> = |turn, guarded, inside| {
        let attempt = |lock: &L| lock.acquire_shared_or(READS_ALREADY, deadline(turn / 3)).is_ok();
        if guarded.attempt_shared(attempt) {
            inside.look(guarded);
            guarded.release_shared();
        }
    };
    by_turns::<L, M, 3>(shape, ends_shared, [writes, may_leave, reads])
}

/// A writer that may give up between readers, who must not wait for it then.
pub(super) fn writers_leave<L: TimedRwLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    by_turns::<L, M, 3>(shape, ends_shared, [reads, writes_or_leaves, reads])
}

/// The same with a reader and another writer, for whom nothing of the one that left may be in the way.
pub(super) fn writer_leaves_writer<L: TimedRwLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    by_turns::<L, M, 3>(shape, ends_shared, [reads, writes_or_leaves, writes])
}

/// Readers stay inside until all of them are, beside a writer that gives up: one that came behind it must not go on waiting.
pub(super) fn meeting_left<L: TimedRwLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    let met = &words::<M>(1)[0];
    let readers = shape.threads as u32 - 1;
    add_up(shape, &guarded, ends_shared, |thread| {
        let mut inside = Inside::default();
        for round in 1..=shape.acquisitions {
            if thread == 1 {
                writes_or_leaves(1, object, &mut inside);
                continue;
            }
            object.acquire_shared(false);
            inside.look(object);
            met.fetch_add(1, Relaxed);
            M::spin_until(&**met, Relaxed, |met| met >= readers * round);
            object.release_shared();
        }
        inside
    })
}

fn writes_or_leaves<L: TimedRwLock<M>, M: Machine>(
    turn: usize,
    guarded: &ClientObject<L, M>,
    inside: &mut Inside,
) {
    if guarded.attempt(|lock| lock.acquire_or(deadline(turn / 3)).is_ok()) {
        inside.touch(guarded);
        guarded.release();
    }
}

/// Readers stay inside until all of them are, which a lock that lets them in one at a time never sees. With three
/// threads and more the last one writes first, so that the readers queue up behind a holder.
pub(super) fn meeting<L: RawRwLock<M> + TryLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    let (held, met) = (&words::<M>(1)[0], &words::<M>(1)[0]);
    let readers = if shape.threads < 3 { shape.threads } else { shape.threads - 1 };
    add_up(shape, &guarded, ends_shared, |thread| {
        let mut inside = Inside::default();
        for round in 1..=shape.acquisitions {
            let all_met = |met| met >= readers as u32 * round;
            if thread == readers {
                object.acquire();
                held.store(round, Relaxed);
                inside.touch(object);
                object.release();
                M::spin_until(&**met, Relaxed, all_met);
                continue;
            }
            if readers < shape.threads {
                M::spin_until(&**held, Relaxed, |held| held >= round);
            }
            object.acquire_shared(false);
            inside.look(object);
            met.fetch_add(1, Relaxed);
            M::spin_until(&**met, Relaxed, all_met);
            object.release_shared();
        }
        inside
    })
}

/// Attempts to share a lock that counts one reader more at most, so that readers exclude each other.
pub(super) fn full<L: RawRwLock<M>, M: Machine>(
    shape: Shape,
    wait: fn(&L, usize) -> bool,
) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    // SAFETY: no thread has used it yet.
    unsafe { object.lock.near_full() };
    let end = |lock: &L| {
        if !lock.try_acquire_shared(false) {
            return Err(Wrong::NotFree { shared: true });
        }
        let one_too_many = lock.try_acquire_shared(false);
        if one_too_many { Err(Wrong::NotHeld { shared: true }) } else { Ok(()) }
    };
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for nth in 0..shape.acquisitions as usize {
            let turn = thread + nth;
            let got = object.attempt_shared(|lock| {
                if turn.is_multiple_of(2) { wait(lock, turn) } else { lock.try_acquire_shared(true) }
            });
            if got {
                inside.touch(object);
                object.release_shared();
            }
        }
        inside
    })
}
