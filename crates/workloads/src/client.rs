//! Lock clients: the smallest programs that show whether a lock does what it claims.
//!
//! Each client allocates everything that its threads share, runs them on a machine, and adds up what they did. It
//! is deterministic but for the machine's scheduling, so that one client serves running, simulating and checking:
//!
//! ```
//! use contend_workloads::client::{self, Kind, Shape};
//! use machine::Patient;
//!
//! let run = client::run::<Patient>("mcs", Kind::Nested, Shape { threads: 8, rounds: 20 });
//! assert_eq!(run.expect("mcs is in the catalogue and nests").expect("it excludes").acquisitions(), 8 * 20 * 3);
//! ```

use core::fmt;

use locks::catalogue::{self, Lock, Visitor};
use locks::{LockRef, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Deadline, Event, Home, Limit, Machine, Placed, PlainCell, Plan, Run, Word};

/// What the threads of a client do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Acquire, touch, release.
    Exclusive,
    /// The same with every other attempt a try.
    Tried,
    /// The same with attempts that give up at a deadline.
    Timed,
    /// The same with attempts that another thread calls off.
    Cancelled,
    /// Every third thread writes, the others read, twice nested.
    Shared,
    /// Three locks held at once, released in another order.
    Nested,
    /// One thread acquires, the next one releases.
    PassedOn,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Exclusive,
        Self::Tried,
        Self::Timed,
        Self::Cancelled,
        Self::Shared,
        Self::Nested,
        Self::PassedOn,
    ];

    /// Whether the lock can do that.
    #[must_use]
    pub fn suits(self, lock: &Lock) -> bool {
        match self {
            Self::Exclusive | Self::Nested => true,
            Self::Tried => lock.tries,
            Self::Timed | Self::Cancelled => lock.timed,
            Self::Shared => lock.shared,
            Self::PassedOn => lock.any_thread_releases,
        }
    }
}

/// How big a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// How many threads.
    pub threads: usize,
    /// How often each of them goes for the lock.
    pub rounds: u32,
}

/// A lock that did not do what it claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// What the critical sections counted is not how often they ran.
    Lost {
        /// How often they ran.
        ran: u64,
        /// What they counted.
        counted: u64,
    },
    /// A thread in its critical section saw another one's half-done work.
    NotAlone {
        /// Which thread.
        thread: usize,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { ran, counted } => {
                write!(to, "{ran} critical sections ran, but their counter says {counted}")
            }
            Self::NotAlone { thread } => {
                write!(to, "thread {thread} saw another one inside its critical section")
            }
        }
    }
}

impl core::error::Error for Wrong {}

/// Runs a client of the lock with this name; none if there is no such lock, or it cannot do that.
pub fn run<M: Machine>(lock: &str, kind: Kind, shape: Shape) -> Option<Result<Run, Wrong>> {
    catalogue::visit::<M, _>(lock, Chosen { kind, shape })?
}

/// Runs the client that was chosen, if the visited lock has the ability.
struct Chosen {
    kind: Kind,
    shape: Shape,
}

impl<M: Machine> Visitor<M> for Chosen {
    type Output = Option<Result<Run, Wrong>>;

    fn exclusive<L: RawLock<M>>(self, lock: &Lock) -> Self::Output {
        match self.kind {
            Kind::Exclusive => Some(exclusive::<L, M>(self.shape)),
            Kind::Nested => Some(nested::<L, M>(self.shape)),
            Kind::PassedOn if lock.any_thread_releases => Some(passed_on::<L, M>(self.shape)),
            _ => None,
        }
    }

    fn tried<L: TryLock<M>>(self, lock: &Lock) -> Self::Output {
        match self.kind {
            Kind::Tried => Some(tried::<L, M>(self.shape)),
            _ => Visitor::<M>::exclusive::<L>(self, lock),
        }
    }

    fn timed<L: TimedLock<M>>(self, lock: &Lock) -> Self::Output {
        match self.kind {
            Kind::Timed => Some(timed::<L, M>(self.shape)),
            Kind::Cancelled => Some(cancelled::<L, M>(self.shape)),
            _ => Visitor::<M>::tried::<L>(self, lock),
        }
    }

    fn shared<L: RawRwLock<M> + TryLock<M>>(self, lock: &Lock) -> Self::Output {
        match self.kind {
            Kind::Shared => Some(shared::<L, M>(self.shape)),
            _ => Visitor::<M>::tried::<L>(self, lock),
        }
    }

    fn timed_shared<L: TimedRwLock<M>>(self, lock: &Lock) -> Self::Output {
        match self.kind {
            Kind::Shared => Some(shared::<L, M>(self.shape)),
            _ => Visitor::<M>::timed::<L>(self, lock),
        }
    }
}

/// A lock and what it protects: two cells that are equal whenever nobody is inside.
struct Guarded<L, M: Machine> {
    lock: L,
    count: M::Cell<u64>,
    copy: M::Cell<u64>,
}

impl<L: RawLock<M>, M: Machine> Guarded<L, M> {
    fn placed() -> Placed<Self, M> {
        Placed::new(Self { lock: L::NEW, count: M::Cell::ZERO, copy: M::Cell::ZERO }, Home::FirstTouch)
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(&self.lock) as usize
    }

    fn acquire(&self) {
        M::note(Event::Acquiring { lock: self.address() });
        self.lock.acquire();
        M::note(Event::Acquired { lock: self.address(), shared: false });
    }

    fn release(&self) {
        M::note(Event::Releasing { lock: self.address(), shared: false });
        // SAFETY: clients release what they hold.
        unsafe { self.lock.release() };
    }

    /// Announces an attempt that may fail; true if it did not.
    fn attempt(&self, attempt: impl FnOnce(&L) -> bool) -> bool {
        M::note(Event::Acquiring { lock: self.address() });
        let got = attempt(&self.lock);
        M::note(if got {
            Event::Acquired { lock: self.address(), shared: false }
        } else {
            Event::GaveUp { lock: self.address() }
        });
        got
    }

    /// One critical section; false when another thread was inside.
    fn touch(&self) -> bool {
        let count = self.count.get();
        let alone = self.copy.get() == count;
        self.count.set(count + 1);
        self.copy.set(count + 1);
        M::note(Event::Operation);
        alone
    }

    /// One reading critical section; false when a writer was inside.
    fn look(&self) -> bool {
        self.count.get() == self.copy.get()
    }
}

impl<L: RawRwLock<M>, M: Machine> Guarded<L, M> {
    fn acquire_shared(&self, reads_already: bool) {
        M::note(Event::Acquiring { lock: self.address() });
        self.lock.acquire_shared(reads_already);
        M::note(Event::Acquired { lock: self.address(), shared: true });
    }

    fn release_shared(&self) {
        M::note(Event::Releasing { lock: self.address(), shared: true });
        // SAFETY: clients release what they hold.
        unsafe { self.lock.release_shared() };
    }
}

/// What a thread tells when the run is over.
struct Told<M: Machine> {
    touches: M::Cell<u64>,
    disturbed: M::Cell<u8>,
}

/// Runs `rounds` on every thread; it gives how often it was inside, and whether always alone. Then adds up.
fn add_up<L: RawLock<M>, M: Machine>(
    shape: Shape,
    guarded: &[Placed<Guarded<L, M>, M>],
    rounds: impl Fn(usize) -> Inside + Sync,
) -> Result<Run, Wrong> {
    let told = || Told::<M> { touches: M::Cell::ZERO, disturbed: M::Cell::ZERO };
    let told = (0..shape.threads).map(|_| Placed::<_, M>::new(told(), Home::FirstTouch)).collect::<Vec<_>>();
    let run = M::run(&Plan::threads(shape.threads), &|thread| {
        let inside = rounds(thread);
        told[thread].touches.set(inside.touches);
        told[thread].disturbed.set(u8::from(inside.disturbed));
    });
    if let Some(thread) = told.iter().position(|told| told.disturbed.get() != 0) {
        return Err(Wrong::NotAlone { thread });
    }
    let ran = told.iter().map(|told| told.touches.get()).sum();
    let counted = guarded.iter().map(|guarded| guarded.count.get()).sum();
    if ran == counted { Ok(run) } else { Err(Wrong::Lost { ran, counted }) }
}

/// What one thread saw of its critical sections.
#[derive(Default)]
struct Inside {
    touches: u64,
    disturbed: bool,
}

impl Inside {
    fn touch<L: RawLock<M>, M: Machine>(&mut self, guarded: &Guarded<L, M>) {
        self.touches += 1;
        self.disturbed |= !guarded.touch();
    }

    fn look<L: RawLock<M>, M: Machine>(&mut self, guarded: &Guarded<L, M>) {
        self.disturbed |= !guarded.look();
    }
}

/// Acquire, touch, release.
///
/// # Errors
/// [`Wrong`] when the lock does not exclude; the same holds for every client below.
pub fn exclusive<L: RawLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [Guarded::<L, M>::placed()];
    add_up(shape, &guarded, |_| {
        let mut inside = Inside::default();
        for _ in 0..shape.rounds {
            guarded[0].acquire();
            inside.touch(&guarded[0]);
            guarded[0].release();
        }
        inside
    })
}

/// Every other attempt is a try, which may fail.
///
/// # Errors
/// As [`exclusive`].
pub fn tried<L: TryLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    attempts::<L, M>(shape, |thread, round, guarded| {
        if (thread + round as usize).is_multiple_of(2) {
            guarded.acquire();
            return true;
        }
        guarded.attempt(|lock| lock.try_acquire())
    })
}

/// How long the waiters of [`timed`] wait, in nanoseconds, from the impatient to the patient.
const WAITS_NS: [u64; 4] = [0, 1_000, 20_000, 300_000];

/// Every other attempt gives up at a deadline, some of them at once.
///
/// # Errors
/// As [`exclusive`].
pub fn timed<L: TimedLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    attempts::<L, M>(shape, |thread, round, guarded| {
        let turn = thread + round as usize;
        if turn.is_multiple_of(2) {
            guarded.acquire();
            return true;
        }
        let limit = Limit::at(Deadline::after_ns::<M>(WAITS_NS[turn / 2 % WAITS_NS.len()]));
        guarded.attempt(|lock| lock.acquire_or(limit).is_ok())
    })
}

/// Every attempt of a thread may be called off by its neighbour, which does so whenever it has been inside.
///
/// # Errors
/// As [`exclusive`].
pub fn cancelled<L: TimedLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let cancels = (0..shape.threads)
        .map(|_| Placed::<M::U32, M>::new(Word::ZERO, Home::FirstTouch))
        .collect::<Vec<_>>();
    attempts::<L, M>(shape, |thread, _, guarded| {
        let own = &*cancels[thread];
        let got = guarded.attempt(|lock| lock.acquire_or(Limit::cancelled_by(own)).is_ok());
        if got {
            cancels[(thread + 1) % shape.threads].store(1, Relaxed);
        } else {
            own.store(0, Relaxed);
        }
        got
    })
}

/// `attempt` says whether the lock was acquired; if so it is used and released.
fn attempts<L: RawLock<M>, M: Machine>(
    shape: Shape,
    attempt: impl Fn(usize, u32, &Guarded<L, M>) -> bool + Sync,
) -> Result<Run, Wrong> {
    let guarded = [Guarded::<L, M>::placed()];
    add_up(shape, &guarded, |thread| {
        let mut inside = Inside::default();
        for round in 0..shape.rounds {
            if attempt(thread, round, &guarded[0]) {
                inside.touch(&guarded[0]);
                guarded[0].release();
            }
        }
        inside
    })
}

/// Every third thread writes. The others read, and read again while they do, whatever writer waits.
///
/// # Errors
/// As [`exclusive`].
pub fn shared<L: RawRwLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [Guarded::<L, M>::placed()];
    let guarded_one = &guarded[0];
    add_up(shape, &guarded, |thread| {
        let mut inside = Inside::default();
        for _ in 0..shape.rounds {
            if thread % 3 == 0 {
                guarded_one.acquire();
                inside.touch(guarded_one);
                guarded_one.release();
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

/// How many locks [`nested`] holds at once.
const NESTED: usize = 3;

/// Holds three locks at once and releases them in an order that changes from round to round.
///
/// # Errors
/// As [`exclusive`].
pub fn nested<L: RawLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [(); NESTED].map(|()| Guarded::<L, M>::placed());
    add_up(shape, &guarded, |thread| {
        let mut inside = Inside::default();
        for round in 0..shape.rounds as usize {
            for one in &guarded {
                one.acquire();
                inside.touch(one);
            }
            for step in 0..NESTED {
                guarded[(thread + round + step * 2) % NESTED].release();
            }
        }
        inside
    })
}

/// An object with a reference count. The first thread publishes it under the lock; all use it while they have a
/// reference; whoever drops the last one finds itself holding the lock, and takes the object down.
///
/// # Errors
/// [`Wrong`] when somebody used an object that was not up, or it went down other than once.
pub fn references<M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [Guarded::<LockRef<M>, M>::placed()];
    let object = &guarded[0];
    add_up(shape, &guarded, |thread| {
        let mut inside = Inside::default();
        if thread == 0 {
            object.acquire();
            object.count.set(1);
            object.copy.set(1);
            object.lock.add_locked(1);
            object.release();
        }
        for round in 0..shape.rounds {
            let first = thread == 0 && round == 0;
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

/// Threads in pairs: the first acquires and touches, the second releases. An odd thread left over does both.
///
/// # Errors
/// As [`exclusive`].
pub fn passed_on<L: RawLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let guarded = [Guarded::<L, M>::placed()];
    let guarded_one = &guarded[0];
    let batons = (0..shape.threads.div_ceil(2))
        .map(|_| Placed::<M::U32, M>::new(Word::ZERO, Home::FirstTouch))
        .collect::<Vec<_>>();
    add_up(shape, &guarded, |thread| {
        let baton = &*batons[thread / 2];
        let mut inside = Inside::default();
        for _ in 0..shape.rounds {
            if thread % 2 == 1 {
                M::spin_until(baton, Acquire, |held| held == 1); // [1] from the pair's first
                guarded_one.release();
                baton.store(0, Release); // [2] to the pair's first
                continue;
            }
            guarded_one.acquire();
            inside.touch(guarded_one);
            if thread + 1 == shape.threads {
                guarded_one.release();
                continue;
            }
            baton.store(1, Release); // [1] to the pair's second
            M::spin_until(baton, Acquire, |held| held == 0); // [2] from the pair's second
        }
        inside
    })
}
