//! Clients of [`Upgradable`], the gate in front of a reader-writer lock, that use it as any reader-writer lock: those of the locks behind
//! it turn upgradable holds alone.

use super::contracts::Freeable;
use checker::Checked;
use locks::catalogue::{LOCKS, Lock, Visitor as _};
use locks::{RawLock, RawRwLock, RwNaive, Tas, Upgradable};
use machine::{Home, Machine, Placed, PlainCell, Plan};
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
