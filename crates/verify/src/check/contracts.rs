//! Clients that hold a lock to one sentence of its contract each.

use super::clients::nodes_are_back;
use super::objects::WW;
use checker::Checked;
use checker::checked::{Arrival, arrive, tell_arrivals, until_arrived};
use locks::catalogue::{self, Lock, Visitor};
use locks::{DowngradeLock, LockRef, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock, Ww};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Deadline, Home, LINE_BYTES, Machine, Node, Placed, PlainCell, Plan, Timeout, Word};
use workloads::client::{Shape, Wrong};

type Cell = <Checked as Machine>::Cell<u32>;

fn placed<T: Sync>(value: T) -> Placed<T, Checked> {
    Placed::new(value, Home::FirstTouch)
}

/// The sentence.
#[derive(Clone, Copy)]
pub(super) enum Contract {
    /// A released lock is not touched any more.
    Freed,
    /// A lock that is dropped frees its queue nodes.
    Dropped,
    /// A holder knows which side it is on.
    AskedSide,
    /// A thread that holds the lock does not get it by a try.
    TriedAgain,
    /// A reader that enters by a try lets those in that sleep.
    LetIn,
    /// A writer that sleeps behind readers keeps new ones out, though one that was woken has come in past it.
    KeptOut,
    /// The thread that queues up first gets the lock first.
    InOrder(Queued),
}

/// The two that queue up, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// Two that exclude each other.
    Writers,
    /// A writer behind a reader.
    ReaderFirst,
    /// A reader behind a writer.
    WriterFirst,
    /// The same while a third one reads.
    BehindReader,
}

impl Queued {
    /// What the thread does that holds the lock, and the two behind it.
    const fn reads(self) -> [bool; 3] {
        match self {
            Self::Writers => [false, false, false],
            Self::ReaderFirst => [false, true, false],
            Self::WriterFirst => [false, false, true],
            Self::BehindReader => [true, false, true],
        }
    }

    /// Whether the lock says so.
    pub(super) fn suits(self, lock: &Lock) -> bool {
        match self {
            // A semaphore of Linux lets readers join those that are in.
            Self::BehindReader => matches!(lock.name, "rw" | "rw-queued" | "rwsem-fifo"),
            // A writer that waits for readers keeps others out, and no other waiter does.
            _ if lock.name == "rw" => false,
            Self::Writers => queues_by(lock).is_some(),
            Self::ReaderFirst | Self::WriterFirst => queues_by(lock).is_some() && lock.shared,
        }
    }
}

/// How a thread queues up at a lock that is acquired in the order of arrival, once it is held: it waits awake, or sleeps. A lock whose
/// waiters do both serves those that sleep in their order.
pub(super) fn queues_by(lock: &Lock) -> Option<Arrival> {
    match lock.name {
        "ticket"
        | "ticket4"
        | "ticket-proportional"
        | "ticket-selftuning"
        | "anderson"
        | "mcs"
        | "k42"
        | "clh"
        | "clh-timed"
        | "osq"
        | "qspin"
        | "rw-queued" => Some(Arrival::Spins),
        "kernel-mutex" | "rw" | "rwsem" | "rwsem-no-spin" | "rwsem-fifo" | "ww-mutex" => {
            Some(Arrival::Sleeps)
        }
        _ => None,
    }
}

/// Runs the client with a lock of the catalogue, or the wound/wait mutex.
pub(super) fn hold(contract: Contract, lock: &Lock, shape: Shape) -> Result<(), String> {
    if lock.name == WW {
        return Holds(contract, shape).tried::<Ww<Checked>>(lock).unwrap_or(Ok(()));
    }
    let known = catalogue::visit::<Checked, _>(lock.name, Holds(contract, shape));
    known.flatten().unwrap_or_else(|| Err(format!("{} has no such client", lock.name)))
}

struct Holds(Contract, Shape);

impl Visitor<Checked> for Holds {
    type Output = Option<Result<(), String>>;

    fn tried<L: TryLock<Checked>>(self, lock: &Lock) -> Self::Output {
        match self.0 {
            Contract::Freed => Some(freed::<L>(self.1)),
            Contract::TriedAgain => Some(tried_again::<L>(self.1, L::try_acquire)),
            Contract::InOrder(_) => Some(in_order::<L>(lock, |_, lock, section| exclusively(lock, section))),
            Contract::Dropped | Contract::AskedSide | Contract::LetIn | Contract::KeptOut => None,
        }
    }

    fn timed<L: TimedLock<Checked>>(self, lock: &Lock) -> Self::Output {
        match self.0 {
            Contract::Dropped => Some(dropped::<L>(self.1)),
            Contract::TriedAgain => {
                Some(tried_again::<L>(self.1, |lock| lock.try_acquire() || lock.acquire_or(soon()).is_ok()))
            }
            _ => self.tried::<L>(lock),
        }
    }

    fn shared<L: DowngradeLock<Checked> + TryLock<Checked>>(self, lock: &Lock) -> Self::Output {
        match self.0 {
            Contract::AskedSide => Some(asked_side::<L>(self.1)),
            Contract::LetIn => Some(let_in::<L>()),
            Contract::KeptOut => Some(kept_out::<L>()),
            Contract::InOrder(queued) => Some(in_order::<L>(lock, |thread, lock, section| {
                if queued.reads()[thread] { shared(lock, section) } else { exclusively(lock, section) }
            })),
            _ => self.tried::<L>(lock),
        }
    }

    fn timed_shared<L: TimedRwLock<Checked> + DowngradeLock<Checked>>(self, lock: &Lock) -> Self::Output {
        match self.0 {
            Contract::Dropped | Contract::TriedAgain => self.timed::<L>(lock),
            _ => self.shared::<L>(lock),
        }
    }
}

/// A lock in memory that is freed as queue nodes are, so that an access that comes afterwards is found.
#[repr(transparent)]
pub(super) struct Freeable<L>(pub(super) L);

// SAFETY: its users see to its size; a free lock is of zero bits, and the words and cells of a lock that was freed are valid.
unsafe impl<L: RawLock<Checked>> Node<Checked> for Freeable<L> {}

/// The threads count under the lock, and the one that counts to the end frees the lock after its own release. So no other thread
/// may touch it then: each was in before, and has released it.
fn freed<L: RawLock<Checked>>(shape: Shape) -> Result<(), String> {
    assert!(size_of::<L>() <= LINE_BYTES, "a lock that is freed fits into a line");
    let (lock, count) = (Checked::allocate_node::<Freeable<L>>().node, placed(Cell::ZERO));
    let all = shape.threads as u32 * shape.acquisitions;
    Checked::run(&Plan::threads(shape.threads), &|_| {
        for _ in 0..shape.acquisitions {
            lock.0.acquire();
            let counted = count.get() + 1;
            count.set(counted);
            // SAFETY: acquired above.
            unsafe { lock.0.release() };
            if counted == all {
                // SAFETY: all threads have released it, and none comes again.
                unsafe { Checked::free_node(lock) };
            }
        }
    });
    if count.get() == all { Ok(()) } else { Err(format!("{} sections were counted of {all}", count.get())) }
}

/// A holder, and others that may give up. Then the lock is dropped, and no thread has acquired it since.
fn dropped<L: TimedLock<Checked>>(shape: Shape) -> Result<(), String> {
    let lock = placed(L::NEW);
    Checked::run(&Plan::threads(shape.threads), &|thread| {
        for _ in 0..shape.acquisitions {
            let timeout = if thread == 0 { Timeout::NONE } else { soon() };
            if lock.acquire_or(timeout).is_ok() {
                // SAFETY: acquired above.
                unsafe { lock.release() };
            }
        }
    });
    drop(lock);
    nodes_are_back()
}

/// The first thread writes, the others read, and each asks which side it is on while it holds the lock.
fn asked_side<L: RawRwLock<Checked>>(shape: Shape) -> Result<(), String> {
    let lock = placed(L::NEW);
    Checked::run(&Plan::threads(shape.threads), &|thread| {
        for _ in 0..shape.acquisitions {
            if thread == 0 {
                lock.acquire();
                assert!(lock.is_exclusive(), "a writer is told that no thread has the lock exclusively");
                // SAFETY: acquired above.
                unsafe { lock.release() };
            } else {
                lock.acquire_shared(false);
                assert!(!lock.is_exclusive(), "a reader is told that a thread has the lock exclusively");
                // SAFETY: acquired above.
                unsafe { lock.release_shared() };
            }
        }
    });
    lock.acquire(); // as a writer, who leaves nothing of sleeping readers
    // SAFETY: acquired above.
    unsafe { lock.release() };
    if lock.is_idle() { Ok(()) } else { Err(Wrong::NotIdle.to_string()) }
}

/// A writer sleeps while the first thread holds the lock, and a reader behind it. The release wakes the writer; where the first thread
/// comes back as a reader before that one is in, the other reader can be in, too.
fn let_in<L: RawRwLock<Checked> + TryLock<Checked>>() -> Result<(), String> {
    tell_arrivals(Arrival::Sleeps);
    let (lock, met) = (placed(L::NEW), placed(<Checked as Machine>::U32::ZERO));
    Checked::run(&Plan::threads(3), &|thread| match thread {
        0 => {
            exclusively(&*lock, &|| {
                arrive();
                until_arrived(2);
            });
            if lock.try_acquire_shared(false) {
                Checked::spin_until(&*met, Acquire, |met| met == 1);
                // SAFETY: acquired above.
                unsafe { lock.release_shared() };
            }
        }
        1 => {
            until_arrived(0);
            exclusively(&*lock, &|| {});
        }
        _ => {
            until_arrived(1);
            shared(&*lock, &|| met.store(1, Release));
        }
    });
    if lock.is_unheld() { Ok(()) } else { Err(Wrong::NotIdle.to_string()) }
}

/// A reader sleeps behind the first thread, which becomes a reader. Before or after the one that sleeps is in, a writer goes to sleep.
fn kept_out<L: DowngradeLock<Checked> + TryLock<Checked>>() -> Result<(), String> {
    tell_arrivals(Arrival::Sleeps);
    let lock = placed(L::NEW);
    let [reads, inside] = [(); 2].map(|()| placed(<Checked as Machine>::U32::ZERO));
    Checked::run(&Plan::threads(3), &|thread| match thread {
        0 => {
            lock.acquire();
            arrive();
            until_arrived(1);
            // SAFETY: acquired above.
            unsafe { lock.downgrade() };
            reads.store(1, Relaxed);
            until_arrived(2);
            Checked::spin_until(&*inside, Relaxed, |inside| inside == 1);
            // A reader that had waited for too long may have kept newcomers out, too, and ended that for both: then the writer is awake.
            Checked::spin_rmw(&*inside, |_| lock.is_promised());
            // SAFETY: a reader since the downgrade.
            unsafe { lock.release_shared() };
        }
        1 => {
            until_arrived(0);
            shared(&*lock, &|| inside.store(1, Relaxed));
        }
        _ => {
            Checked::spin_until(&*reads, Relaxed, |reads| reads == 1);
            exclusively(&*lock, &|| {});
        }
    });
    if lock.is_unheld() { Ok(()) } else { Err(Wrong::NotIdle.to_string()) }
}

fn soon() -> Timeout<'static, Checked> {
    Timeout::at(Deadline::after_ns::<Checked>(1_000))
}

/// Each holder tries the lock, which may be elided: the try fails, and so does an attempt with a deadline. It is looked at only afterwards, since a section that is a
/// transaction may be undone.
fn tried_again<L: TryLock<Checked>>(shape: Shape, again: impl Fn(&L) -> bool + Sync) -> Result<(), String> {
    let (lock, got) = (placed(L::NEW), placed(Cell::ZERO));
    Checked::run(&Plan::threads(shape.threads), &|_| {
        for _ in 0..shape.acquisitions {
            lock.acquire();
            let got_again = again(&lock);
            got.set(got.get() + u32::from(got_again));
            if got_again {
                // SAFETY: acquired above.
                unsafe { lock.release() };
            }
            // SAFETY: acquired above.
            unsafe { lock.release() };
        }
    });
    match got.get() {
        0 => Ok(()),
        times => Err(format!("a thread that held the lock got it by a try, {times} times")),
    }
}

fn exclusively<L: RawLock<Checked>>(lock: &L, section: &dyn Fn()) {
    lock.acquire();
    section();
    // SAFETY: acquired above.
    unsafe { lock.release() };
}

fn shared<L: RawRwLock<Checked>>(lock: &L, section: &dyn Fn()) {
    lock.acquire_shared(false);
    section();
    // SAFETY: acquired above.
    unsafe { lock.release_shared() };
}

/// The first thread holds the lock until the second has queued up, and the third behind it.
fn in_order<L: RawLock<Checked>>(
    lock: &Lock,
    hold: impl Fn(usize, &L, &dyn Fn()) + Sync,
) -> Result<(), String> {
    tell_arrivals(queues_by(lock).ok_or("its waiters have no order")?);
    let (lock, before) = (placed(L::NEW), placed(Cell::ZERO));
    Checked::run(&Plan::threads(3), &|thread| {
        if thread > 0 {
            until_arrived(thread - 1);
        }
        hold(thread, &lock, &|| {
            assert_eq!(before.get(), thread as u32, "a thread that queued up later was let in before");
            before.set(thread as u32 + 1);
            if thread == 0 {
                arrive();
                until_arrived(2);
            }
        });
    });
    if lock.is_idle() { Ok(()) } else { Err(Wrong::NotIdle.to_string()) }
}

/// The first thread takes one more reference and drops it, the others hold the lock, under which the count does not change.
pub(super) fn held_count(shape: Shape) -> Result<(), String> {
    let entry = placed(LockRef::<Checked>::NEW);
    entry.get();
    Checked::run(&Plan::threads(shape.threads), &|thread| {
        for _ in 0..shape.acquisitions {
            if thread == 0 {
                entry.get();
                assert!(entry.put_not_last(), "one of two references was the last");
                continue;
            }
            entry.acquire();
            let count = entry.count();
            assert_eq!(entry.count(), count, "the count changed while the lock was held");
            // SAFETY: acquired above.
            unsafe { entry.release() };
        }
    });
    match (entry.count(), entry.is_idle()) {
        (1, true) => Ok(()),
        (count, _) => Err(format!("{count} references are left, and one was to be")),
    }
}
