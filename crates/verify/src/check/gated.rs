//! Clients of [`Upgradable`], the gate in front of a reader-writer lock, that use it as any reader-writer lock: those of the locks behind
//! it turn upgradable holds alone.

use super::contracts::Freeable;
use checker::Checked;
use locks::catalogue::{LOCKS, Lock, Visitor as _};
use locks::{RawLock, RawRwLock, RwNaive, Tas, TimedUpgradableLock, TryLock, Upgradable, UpgradableLock};
use machine::Ordering::{Acquire, Release};
use machine::{Deadline, Home, Machine, Placed, PlainCell, Plan, Timeout, Word};
use workloads::client::{Chosen, ClientKind, Shape};

/// The simplest lock on both sides: what is checked is what stands between them.
type Gated = Upgradable<RwNaive<Checked>, Tas<Checked>>;

const LOCK: Lock = Lock { timed: true, shared: true, opaque: true, ..LOCKS[0] };

fn run(kind: ClientKind, threads: usize, acquisitions: u32) -> Result<(), String> {
    let chosen = Chosen { kind, shape: Shape { threads, acquisitions } };
    let run = chosen.timed_shared::<Gated>(&LOCK).ok_or("it has no such client")?;
    run.map(|_| ()).map_err(|wrong| wrong.to_string())
}

/// Acquisitions and tries by turns.
pub(super) fn tries() -> Result<(), String> {
    run(ClientKind::Tried, 2, 2)
}

/// Attempts that give up at a deadline.
pub(super) fn times_out() -> Result<(), String> {
    run(ClientKind::Timed, 2, 2)
}

/// One holds it until another one has given up, on both sides.
pub(super) fn gives_up() -> Result<(), String> {
    run(ClientKind::GivenUp, 2, 1)
}

/// A reader that may give up, a writer and a reader.
pub(super) fn reader_leaves() -> Result<(), String> {
    run(ClientKind::ReadersLeave, 3, 1)
}

/// A writer that may give up between readers.
pub(super) fn writer_leaves() -> Result<(), String> {
    run(ClientKind::WritersLeave, 3, 1)
}

/// A writer that becomes a reader, a writer and a reader.
pub(super) fn downgrades() -> Result<(), String> {
    run(ClientKind::Downgraded, 3, 1)
}

fn gated() -> Placed<Gated, Checked> {
    Placed::new(Gated::NEW, Home::FirstTouch)
}

fn word() -> Placed<<Checked as Machine>::U32, Checked> {
    Placed::new(Word::ZERO, Home::FirstTouch)
}

fn soon() -> Timeout<'static, Checked> {
    Timeout::at(Deadline::after_ns::<Checked>(1_000))
}

fn is_idle(gated: &Gated) -> Result<(), String> {
    if gated.is_idle() { Ok(()) } else { Err("something is left".to_owned()) }
}

/// A writer that becomes the upgradable reader keeps others from becoming that, and asks on the way on which side it is; the other one asks,
/// too.
pub(super) fn keeps_its_upgradable_hold() -> Result<(), String> {
    let (gated, value) =
        (gated(), Placed::<<Checked as Machine>::Cell<u32>, Checked>::new(PlainCell::ZERO, Home::FirstTouch));
    Checked::run(&Plan::threads(2), &|thread| {
        gated.acquire_upgradable();
        assert!(!gated.is_exclusive(), "an upgradable reader is told that it has the lock exclusively");
        // SAFETY: acquired above, and turned from one hold into the next.
        unsafe {
            gated.upgrade();
            assert!(
                gated.is_exclusive(),
                "a reader that was upgraded is told that it has not the lock exclusively"
            );
            value.set(value.get() + 1);
            if thread == 0 {
                gated.downgrade_to_upgradable();
                assert!(!gated.try_acquire_upgradable(), "a second reader is upgradable");
                assert!(!gated.is_exclusive() && !gated.try_acquire(), "a writer is beside a reader");
                gated.release_upgradable();
            } else {
                gated.release();
            }
        }
    });
    if value.get() == 2 { is_idle(&gated) } else { Err(format!("{} were written of 2", value.get())) }
}

/// A reader stays inside until the upgradable one has given up becoming the writer, and still reads.
pub(super) fn upgrade_gives_up() -> Result<(), String> {
    let (gated, reads, gave_up) = (gated(), word(), word());
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 1 {
            gated.acquire_shared(false);
            reads.store(1, Release);
            Checked::spin_until(&*gave_up, Acquire, |gave_up| gave_up != 0);
            // SAFETY: acquired above.
            return unsafe { gated.release_shared() };
        }
        Checked::spin_until(&*reads, Acquire, |reads| reads != 0);
        gated.acquire_upgradable();
        // SAFETY: acquired above; it is still upgradable, since another one reads.
        unsafe {
            assert!(gated.upgrade_or(soon()).is_err(), "a writer is beside a reader");
            gave_up.store(1, Release);
            gated.release_upgradable();
        }
    });
    is_idle(&gated)
}

/// One is upgradable until the other has given up becoming that.
pub(super) fn second_gives_up() -> Result<(), String> {
    let (gated, held, gave_up) = (gated(), word(), word());
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 1 {
            Checked::spin_until(&*held, Acquire, |held| held != 0);
            assert!(gated.acquire_upgradable_or(soon()).is_err(), "a second reader is upgradable");
            return gave_up.store(1, Release);
        }
        gated.acquire_upgradable();
        held.store(1, Release);
        Checked::spin_until(&*gave_up, Acquire, |gave_up| gave_up != 0);
        // SAFETY: acquired above.
        unsafe { gated.release_upgradable() };
    });
    is_idle(&gated)
}

/// A writer and a reader: the one that comes last frees it after its own release. The reader may do so as soon as the writer's release
/// lets it in, which is then over.
pub(super) fn is_freed() -> Result<(), String> {
    let gated = Checked::allocate_node::<Freeable<Gated>>().node;
    let count = Placed::<<Checked as Machine>::Cell<u32>, Checked>::new(PlainCell::ZERO, Home::FirstTouch);
    Checked::run(&Plan::threads(2), &|thread| {
        let reads = thread == 1;
        if reads {
            gated.0.acquire_shared(false);
        } else {
            gated.0.acquire();
        }
        let counted = count.get() + 1;
        count.set(counted);
        // SAFETY: acquired above.
        unsafe {
            if reads {
                gated.0.release_shared();
            } else {
                gated.0.release();
            }
            if counted == 2 {
                Checked::free_node(gated); // both have released it, and neither comes again
            }
        }
    });
    Ok(())
}
