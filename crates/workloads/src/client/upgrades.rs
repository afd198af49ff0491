//! Clients of reader-writer locks whose holders change sides: a writer that becomes a reader, and readers that become the
//! writer.

use locks::{
    DowngradeLock, RawRwLock, Tas, TimedRwLock, TimedUpgradableLock, TryLock, Upgradable, UpgradableLock,
};
use machine::Ordering::Relaxed;
use machine::{Event, Integer, Machine, PlainCell, Run, Word};

use super::leaving::deadline;
use super::object::{ClientObject, Inside, add_up, ends_shared};
use super::shared::{Turn, by_turns, reads, writes};
use super::{Shape, Wrong, words};

/// Any lock with upgradable readers. The gate in front of it is the smallest lock, so that what is explored is the lock.
type Gated<L, M> = Upgradable<L, Tas<M>>;

impl<L: RawRwLock<M>, M: Machine> ClientObject<L, M> {
    /// Announces that a hold becomes another one, and turns it; gives what `turn` says.
    fn turned<T>(&self, was_shared: bool, is_shared: impl Fn(&T) -> bool, turn: impl FnOnce(&L) -> T) -> T {
        M::note(Event::Releasing { lock: self.address(), shared: was_shared });
        let turned = turn(&self.lock);
        M::note(Event::Acquired { lock: self.address(), shared: is_shared(&turned) });
        turned
    }
}

/// Writes, becomes a reader, and finds what it has written. Says in between that it is inside.
fn downgrades<L: DowngradeLock<M>, M: Machine>(
    object: &ClientObject<L, M>,
    inside: &mut Inside,
    say: impl FnOnce(),
) {
    object.acquire();
    say();
    let count = object.count.get();
    inside.touch(object);
    // SAFETY: acquired above.
    object.turned(false, |()| true, |lock| unsafe { lock.downgrade() });
    inside.disturbed |= object.count.get() != count + 1;
}

/// A writer that becomes a reader, with a writer and a reader there.
pub(super) fn downgraded<L: DowngradeLock<M> + TryLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let turn: Turn<L, M> = |_, object, inside| {
        downgrades(object, inside, || {});
        object.release_shared();
    };
    by_turns::<L, M, 3>(shape, ends_shared, [turn, writes, reads])
}

/// The first thread writes, becomes a reader, and stays inside until all other threads are, which have come meanwhile to
/// read.
pub(super) fn downgraded_meeting<L: DowngradeLock<M> + TryLock<M>, M: Machine>(
    shape: Shape,
) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    let (held, met) = (&words::<M>(1)[0], &words::<M>(1)[0]);
    add_up(shape, &guarded, ends_shared, |thread| {
        let mut inside = Inside::default();
        for round in 1..=shape.acquisitions {
            if thread == 0 {
                downgrades(object, &mut inside, || held.store(round, Relaxed));
            } else {
                M::spin_until(&**held, Relaxed, |held| held >= round);
                object.acquire_shared(false);
                inside.look(object);
            }
            met.fetch_add(1, Relaxed);
            M::spin_until(&**met, Relaxed, |met| met >= shape.threads as u32 * round);
            object.release_shared();
        }
        inside
    })
}

/// What is asked at the end of a lock with upgradable readers: there is one at a time, beside other readers.
fn ends_upgradable<L: UpgradableLock<M> + TryLock<M>, M: Machine>(lock: &L) -> Result<(), Wrong> {
    if !(lock.try_acquire_upgradable() && lock.try_acquire_shared(false)) {
        return Err(Wrong::NotFree { shared: true });
    }
    if lock.try_acquire_upgradable() || lock.try_acquire() {
        return Err(Wrong::NotHeld { shared: true });
    }
    // SAFETY: acquired above.
    unsafe {
        if lock.try_upgrade() {
            return Err(Wrong::NotHeld { shared: true });
        }
        lock.release_shared();
        if !lock.try_upgrade() {
            return Err(Wrong::NotFree { shared: false });
        }
        if lock.try_acquire_shared(false) {
            return Err(Wrong::NotHeld { shared: false });
        }
        lock.downgrade_to_upgradable();
        lock.downgrade_upgradable();
        lock.release_shared();
    }
    ends_shared(lock)
}

/// An upgradable reader that becomes the writer, an upgradable reader again and then a plain one, with a writer and a
/// reader there.
pub(super) fn upgraded<L: DowngradeLock<M> + TryLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let upgrades: Turn<Gated<L, M>, M> = |turn, object, inside| {
        object.attempt_shared(|lock| {
            lock.acquire_upgradable();
            true
        });
        let count = object.count.get();
        // SAFETY: acquired above.
        object.turned(true, |()| false, |lock| unsafe { lock.upgrade() });
        inside.touch(object);
        // SAFETY: upgraded above.
        object.turned(false, |()| true, |lock| unsafe { lock.downgrade_to_upgradable() });
        inside.disturbed |= object.count.get() != count + 1; // no other thread has written since it reads
        M::note(Event::Releasing { lock: object.address(), shared: true });
        // SAFETY: an upgradable hold, given up whole or in two steps.
        unsafe {
            if turn.is_multiple_of(2) {
                object.lock.downgrade_upgradable();
                object.lock.release_shared();
            } else {
                object.lock.release_upgradable();
            }
        }
    };
    by_turns::<Gated<L, M>, M, 3>(shape, ends_upgradable, [upgrades, writes, reads])
}

/// Attempts to be the upgradable reader, and then the writer, by two threads, with a reader there.
pub(super) fn tried_upgrade<L: DowngradeLock<M> + TryLock<M>, M: Machine>(
    shape: Shape,
) -> Result<Run, Wrong> {
    let tries: Turn<Gated<L, M>, M> = |_, object, inside| {
        if object.attempt_shared(UpgradableLock::try_acquire_upgradable) {
            // SAFETY: acquired above.
            upgrades_or_not(object, inside, |lock| unsafe { lock.try_upgrade() });
        }
    };
    by_turns::<Gated<L, M>, M, 3>(shape, ends_upgradable, [tries, reads, tries])
}

/// The same with deadlines by one thread, with a reader and a writer there.
pub(super) fn timed_upgrade<L: DowngradeLock<M> + TimedRwLock<M>, M: Machine>(
    shape: Shape,
) -> Result<Run, Wrong> {
    let may_give_up: Turn<Gated<L, M>, M> = |turn, object, inside| {
        let timeout = || deadline(turn / 3);
        if object.attempt_shared(|lock| lock.acquire_upgradable_or(timeout()).is_ok()) {
            // SAFETY: acquired above.
            upgrades_or_not(object, inside, |lock| unsafe { lock.upgrade_or(timeout()).is_ok() });
        }
    };
    by_turns::<Gated<L, M>, M, 3>(shape, ends_upgradable, [may_give_up, reads, writes])
}

/// An upgradable reader attempts to be the writer, and releases what it holds then.
fn upgrades_or_not<L: DowngradeLock<M> + TryLock<M>, M: Machine>(
    object: &ClientObject<Gated<L, M>, M>,
    inside: &mut Inside,
    attempt: impl FnOnce(&Gated<L, M>) -> bool,
) {
    let count = object.count.get();
    let upgraded = object.turned(true, |upgraded| !upgraded, attempt);
    inside.disturbed |= object.count.get() != count;
    if upgraded {
        inside.touch(object);
        object.release();
    } else {
        M::note(Event::Releasing { lock: object.address(), shared: true });
        // SAFETY: as it was before.
        unsafe { object.lock.release_upgradable() };
    }
}
