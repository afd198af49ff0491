//! Reader-writer locks whose holders change sides: writers that become readers, and readers that become the writer.

use crate::common::of_parts;
use contend_checker::{Checked, Model, Report, explore};
use locks::{
    DowngradeLock, Rw, RwNaive, RwQueued, Rwsem, RwsemNoSpin, Tas, TryLock, Upgradable, UpgradableLock,
};
use machine::{Event, Home, Machine, Placed, PlainCell, Plan};

struct Guarded<L> {
    lock: L,
    writes: <Checked as Machine>::Cell<u64>,
}

impl<L: DowngradeLock<Checked>> Guarded<L> {
    fn address(&self) -> usize {
        core::ptr::from_ref(&self.lock) as usize
    }

    fn note_acquired(&self, shared: bool) {
        Checked::note(Event::Acquired { lock: self.address(), shared });
    }

    fn note_releasing(&self, shared: bool) {
        Checked::note(Event::Releasing { lock: self.address(), shared });
    }

    fn write(&self) {
        self.writes.set(self.writes.get() + 1);
    }

    /// Two looks of a reader, which must see the same.
    fn look(&self) -> u64 {
        let seen = self.writes.get();
        assert_eq!(self.writes.get(), seen, "somebody wrote while another one read");
        seen
    }

    fn reads(&self) {
        self.lock.acquire_shared(false);
        self.note_acquired(true);
        self.look();
        self.note_releasing(true);
        // SAFETY: acquired above.
        unsafe { self.lock.release_shared() };
    }

    fn writes(&self) {
        self.lock.acquire();
        self.note_acquired(false);
        self.write();
        self.note_releasing(false);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
    }

    fn writes_then_reads(&self) {
        self.lock.acquire();
        self.note_acquired(false);
        self.write();
        let wrote = self.writes.get();
        self.note_releasing(false);
        // SAFETY: acquired above.
        unsafe { self.lock.downgrade() };
        self.note_acquired(true);
        assert_eq!(self.look(), wrote, "somebody wrote as the writer became a reader");
        self.note_releasing(true);
        // SAFETY: shared since the downgrade.
        unsafe { self.lock.release_shared() };
    }
}

impl<L: UpgradableLock<Checked>> Guarded<L> {
    fn looks_then_writes(&self, tries: bool) {
        self.lock.acquire_upgradable();
        self.note_acquired(true);
        let seen = self.look();
        self.note_releasing(true);
        // SAFETY: acquired above; tried only while nothing else has been made of it.
        unsafe {
            if !tries || !self.lock.try_upgrade() {
                self.lock.upgrade();
            }
        }
        self.note_acquired(false);
        assert_eq!(self.writes.get(), seen, "somebody wrote before the reader became the writer");
        self.write();
        self.note_releasing(false);
        // SAFETY: exclusive since the upgrade.
        unsafe { self.lock.release() };
    }
}

fn explored<L: DowngradeLock<Checked>>(
    model: Model,
    threads: usize,
    writers: u64,
    body: impl Fn(usize, &Guarded<L>) + Sync,
) -> Report {
    explore(&of_parts(model), &|| {
        let guarded = Guarded { lock: L::NEW, writes: PlainCell::ZERO };
        let guarded = Placed::<_, Checked>::new(guarded, Home::FirstTouch);
        Checked::run(&Plan::threads(threads), &|thread| body(thread, &guarded));
        if guarded.writes.get() == writers { Ok(()) } else { Err("a write is lost".to_owned()) }
    })
}

fn downgrades<L: DowngradeLock<Checked>>(threads: usize) {
    for model in Model::ALL {
        let report = explored::<L>(model, threads, 2, |thread, guarded| match thread {
            0 => guarded.writes_then_reads(),
            1 => guarded.writes(),
            _ => guarded.reads(),
        });
        assert!(report.is_verified(), "{model}: {report:?}");
        let report = explored::<L>(model, 2, 1, |thread, guarded| match thread {
            0 => guarded.writes_then_reads(),
            _ => guarded.reads(),
        });
        assert!(report.is_verified(), "{model}: {report:?}");
    }
}

#[test]
fn a_writer_may_become_a_reader() {
    downgrades::<RwNaive<Checked>>(3);
    downgrades::<RwQueued<Checked>>(3);
    downgrades::<Rw<Checked>>(2);
    downgrades::<Rwsem<Checked>>(2);
}

fn upgrades<L: UpgradableLock<Checked> + TryLock<Checked>>() {
    for model in Model::ALL {
        let others: [fn(&Guarded<L>); 3] = [Guarded::reads, Guarded::writes, Guarded::writes_then_reads];
        for (writers, other) in [1, 2, 2].into_iter().zip(others) {
            for tries in [false, true] {
                let report = explored::<L>(model, 2, writers, |thread, guarded| match thread {
                    0 => guarded.looks_then_writes(tries),
                    _ => other(guarded),
                });
                assert!(report.is_verified(), "{model}: {report:?}");
            }
        }
        let both = explored::<L>(model, 2, 2, |_, guarded| guarded.looks_then_writes(true));
        assert!(both.is_verified(), "{model}: {both:?}");
    }
}

#[test]
fn a_reader_may_become_the_writer() {
    upgrades::<Upgradable<RwNaive<Checked>, Tas<Checked>>>();
    upgrades::<Upgradable<RwQueued<Checked>, Tas<Checked>>>();
    upgrades::<Upgradable<Rw<Checked>, Tas<Checked>>>();
    upgrades::<Upgradable<RwsemNoSpin<Checked>, Tas<Checked>>>();
}
