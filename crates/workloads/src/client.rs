//! Lock clients: the smallest programs that show whether a lock does what it claims.
//!
//! Each client allocates everything that its threads share, runs them on a machine, and adds up what they did. It
//! is deterministic but for the machine's scheduling, so that one client is for running, simulating and checking:
//!
//! ```
//! use contend_workloads::client::{self, ClientKind, Shape};
//! use machine::Patient;
//!
//! let run = client::run::<Patient>("mcs", ClientKind::Nested, Shape { threads: 8, acquisitions: 20 });
//! assert_eq!(run.expect("mcs is in the catalogue and nests").expect("it excludes").acquisitions(), 8 * 20 * 3);
//! ```

mod references;
mod upgrades;

pub use references::{dying, many_references, not_last, references};

use core::fmt;

use locks::catalogue::{self, Lock, Visitor};
use locks::{DowngradeLock, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Deadline, Event, GaveUp, Home, Integer, Machine, Placed, PlainCell, Plan, Run, Timeout, Word};

/// What the threads of a client do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientKind {
    /// Acquire, touch, release.
    Exclusive,
    /// The same with every other attempt a try.
    Tried,
    /// The same with attempts that give up at a deadline.
    Timed,
    /// The same with attempts that another thread calls off.
    Cancelled,
    /// A holder keeps the lock until a waiter has given up; others wait meanwhile.
    GivenUp,
    /// A holder keeps the lock until all others have given up, one of whom then waits for it.
    AllLeave,
    /// As [`Self::GivenUp`] with a waiter that is called off, and then waits again while nobody calls it off.
    CalledOff,
    /// Some threads acquire and try by turns, the others give up at a deadline and acquire.
    Mixed,
    /// Every third thread writes, the others read, twice nested.
    Shared,
    /// Tries on both sides while others read and write.
    TriedShared,
    /// Readers that give up at a deadline while others read and write.
    ReadersLeave,
    /// The same with readers that need not wait for writers that wait.
    PreferredLeave,
    /// Writers that give up at a deadline while others read and write.
    WritersLeave,
    /// Readers that stay inside until all of them are.
    Meeting,
    /// A lock with so many readers that one more is the last to be let in.
    Full,
    /// A writer that becomes a reader, among writers and readers.
    Downgraded,
    /// A writer that becomes a reader and waits inside for the other readers.
    DowngradedMeeting,
    /// An upgradable reader that becomes the writer and a reader again, among writers and readers.
    Upgraded,
    /// The same with attempts that may fail, and with a second upgradable reader.
    TriedUpgrade,
    /// Three locks held at once, released in another order.
    Nested,
    /// A thread that already holds as many locks as its pool has named nodes, among others that do not.
    Many,
    /// One thread acquires, the next one releases.
    PassedOn,
    /// A lock whose counters are about to wrap around.
    Wrapping,
    /// Sections that are judged by what lasts of them alone: for a lock that is not opaque.
    Effects,
}

impl ClientKind {
    /// Every kind.
    pub const ALL: [Self; 24] = [
        Self::Exclusive,
        Self::Tried,
        Self::Timed,
        Self::Cancelled,
        Self::GivenUp,
        Self::AllLeave,
        Self::CalledOff,
        Self::Mixed,
        Self::Shared,
        Self::TriedShared,
        Self::ReadersLeave,
        Self::PreferredLeave,
        Self::WritersLeave,
        Self::Meeting,
        Self::Full,
        Self::Downgraded,
        Self::DowngradedMeeting,
        Self::Upgraded,
        Self::TriedUpgrade,
        Self::Nested,
        Self::Many,
        Self::PassedOn,
        Self::Wrapping,
        Self::Effects,
    ];

    /// What commands and tables call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Tried => "tried",
            Self::Timed => "timed",
            Self::Cancelled => "cancelled",
            Self::GivenUp => "given-up",
            Self::AllLeave => "all-leave",
            Self::CalledOff => "called-off",
            Self::Mixed => "mixed",
            Self::Shared => "shared",
            Self::TriedShared => "tried-shared",
            Self::ReadersLeave => "readers-leave",
            Self::PreferredLeave => "preferred-leave",
            Self::WritersLeave => "writers-leave",
            Self::Meeting => "meeting",
            Self::Full => "full",
            Self::Downgraded => "downgraded",
            Self::DowngradedMeeting => "downgraded-meeting",
            Self::Upgraded => "upgraded",
            Self::TriedUpgrade => "tried-upgrade",
            Self::Nested => "nested",
            Self::Many => "many",
            Self::PassedOn => "passed-on",
            Self::Wrapping => "wrapping",
            Self::Effects => "effects",
        }
    }

    /// Whether the lock can do that.
    #[must_use]
    pub fn suits(self, lock: &Lock) -> bool {
        if !lock.opaque {
            return self == Self::Effects; // the others look around in their sections
        }
        match self {
            Self::Effects => false,
            Self::Exclusive | Self::Nested | Self::Tried | Self::Many => true,
            Self::PassedOn => !lock.owner_releases,
            Self::Timed
            | Self::Cancelled
            | Self::GivenUp
            | Self::AllLeave
            | Self::CalledOff
            | Self::Mixed => lock.timed,
            Self::Shared | Self::TriedShared | Self::Meeting => lock.shared,
            Self::Downgraded | Self::DowngradedMeeting | Self::Upgraded | Self::TriedUpgrade => lock.shared,
            Self::ReadersLeave | Self::PreferredLeave | Self::WritersLeave => lock.shared && lock.timed,
            Self::Full => lock.bounds_readers,
            Self::Wrapping => lock.wraps,
        }
    }
}

/// How big a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// How many threads.
    pub threads: usize,
    /// How often each of them goes for the lock.
    pub acquisitions: u32,
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
    /// A thread was let in while another one held the lock until the first had given up.
    LetIn {
        /// Which thread.
        thread: usize,
    },
    /// A thread gave up although it had no deadline and nobody had called it off.
    GaveUp {
        /// Which thread.
        thread: usize,
    },
    /// Nobody uses the lock any more, but it cannot be taken at once.
    NotFree {
        /// Whether it was to be shared.
        shared: bool,
    },
    /// A try succeeded although the lock was held.
    NotHeld {
        /// Whether it was held by readers.
        shared: bool,
    },
    /// Nobody uses the lock any more, but its words are not those of a free lock.
    NotIdle,
}

impl fmt::Display for Wrong {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |shared| if shared { "shared" } else { "exclusive" };
        match *self {
            Self::Lost { ran, counted } => {
                write!(to, "{ran} critical sections ran, but their counter says {counted}")
            }
            Self::NotAlone { thread } => {
                write!(to, "thread {thread} saw another one inside its critical section")
            }
            Self::LetIn { thread } => {
                write!(to, "thread {thread} was let in while another one held the lock")
            }
            Self::GaveUp { thread } => {
                write!(to, "thread {thread} gave up although nobody had called it off")
            }
            Self::NotFree { shared } => {
                let side = side(shared);
                write!(to, "nobody uses the lock any more, but an attempt to take it ({side}) fails")
            }
            Self::NotHeld { shared } => {
                write!(to, "a try succeeded although the lock was held ({})", side(shared))
            }
            Self::NotIdle => {
                write!(to, "nobody uses the lock any more, but something of its users is left in it")
            }
        }
    }
}

impl core::error::Error for Wrong {}

/// Runs a client of the lock with this name; none if there is no such lock, or it cannot do that.
pub fn run<M: Machine>(lock: &str, kind: ClientKind, shape: Shape) -> Option<Result<Run, Wrong>> {
    catalogue::visit::<M, _>(lock, Chosen { kind, shape })?
}

/// The client that was chosen, as a visitor: it gives none for a lock that cannot do what the client does.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// What its threads do.
    pub kind: ClientKind,
    /// How big it is.
    pub shape: Shape,
}

impl Chosen {
    fn of_raw<L: RawLock<M>, M: Machine>(&self, end: End<L>) -> Option<Result<Run, Wrong>> {
        Some(match self.kind {
            ClientKind::Exclusive => exclusively::<L, M>(self.shape, end),
            ClientKind::Nested => nesting::<L, M>(self.shape, end),
            ClientKind::PassedOn => passing_on::<L, M>(self.shape, end),
            _ => return None,
        })
    }

    fn of_tried<L: TryLock<M>, M: Machine>(&self, lock: &Lock, end: End<L>) -> Option<Result<Run, Wrong>> {
        Some(match self.kind {
            ClientKind::Tried => trying::<L, M>(self.shape, end),
            ClientKind::Many => many::<L, M>(self.shape, end),
            ClientKind::Wrapping if lock.wraps => wrapping::<L, M>(self.shape, end),
            ClientKind::Effects if !lock.opaque => effects::<L, M>(self.shape, end),
            _ => return self.of_raw::<L, M>(end),
        })
    }

    fn of_timed<L: TimedLock<M>, M: Machine>(
        &self,
        lock: &Lock,
        end: End<L>,
        gives_up: Attempts<'_, L, M>,
    ) -> Option<Result<Run, Wrong>> {
        Some(match self.kind {
            ClientKind::Timed => with_deadlines::<L, M>(self.shape, end),
            ClientKind::Cancelled => called_off::<L, M>(self.shape, end),
            ClientKind::GivenUp => given_up::<L, M>(self.shape, end, gives_up),
            ClientKind::AllLeave => all_leave::<L, M>(self.shape, end),
            ClientKind::CalledOff => called_off_each_way::<L, M>(self.shape, end, gives_up),
            ClientKind::Mixed => mixed::<L, M>(self.shape, end),
            _ => return self.of_tried::<L, M>(lock, end),
        })
    }

    fn of_shared<L: DowngradeLock<M> + TryLock<M>, M: Machine>(&self) -> Option<Result<Run, Wrong>> {
        Some(match self.kind {
            ClientKind::Shared => sharing::<L, M>(self.shape, ends_shared),
            ClientKind::TriedShared => tried_shared::<L, M>(self.shape),
            ClientKind::Meeting => meeting::<L, M>(self.shape),
            ClientKind::Downgraded => upgrades::downgraded::<L, M>(self.shape),
            ClientKind::DowngradedMeeting => upgrades::downgraded_meeting::<L, M>(self.shape),
            ClientKind::Upgraded => upgrades::upgraded::<L, M>(self.shape),
            ClientKind::TriedUpgrade => upgrades::tried_upgrade::<L, M>(self.shape),
            _ => return None,
        })
    }
}

impl<M: Machine> Visitor<M> for Chosen {
    type Output = Option<Result<Run, Wrong>>;

    fn tried<L: TryLock<M>>(self, lock: &Lock) -> Self::Output {
        self.of_tried::<L, M>(lock, ends_tried)
    }

    fn timed<L: TimedLock<M>>(self, lock: &Lock) -> Self::Output {
        self.of_timed::<L, M>(lock, ends_tried, &[L::acquire_or])
    }

    fn shared<L: DowngradeLock<M> + TryLock<M>>(self, lock: &Lock) -> Self::Output {
        if self.kind == ClientKind::Full && lock.bounds_readers {
            let waits = |lock: &L, _| {
                lock.acquire_shared(false);
                true
            };
            return Some(full::<L, M>(self.shape, waits));
        }
        self.of_shared::<L, M>().or_else(|| self.of_tried::<L, M>(lock, ends_shared))
    }

    fn timed_shared<L: TimedRwLock<M> + DowngradeLock<M>>(self, lock: &Lock) -> Self::Output {
        match self.kind {
            ClientKind::ReadersLeave => Some(readers_leave::<L, M, false>(self.shape)),
            ClientKind::PreferredLeave => Some(readers_leave::<L, M, true>(self.shape)),
            ClientKind::WritersLeave => Some(writers_leave::<L, M>(self.shape)),
            ClientKind::Full if lock.bounds_readers => {
                let may_leave = |lock: &L, turn| lock.acquire_shared_or(false, deadline(turn / 2)).is_ok();
                Some(full::<L, M>(self.shape, may_leave))
            }
            _ => self.of_shared::<L, M>().or_else(|| {
                let gives_up: Attempts<'_, L, M> =
                    &[L::acquire_or, |lock, timeout| lock.acquire_shared_or(false, timeout)];
                self.of_timed::<L, M>(lock, ends_shared, gives_up)
            }),
        }
    }
}

/// What is asked of a lock that nobody uses any more, so that every call returns at once.
type End<L> = fn(&L) -> Result<(), Wrong>;

/// The ways in which a waiter of a lock can give up.
type Attempts<'a, L, M> = &'a [fn(&L, Timeout<'_, M>) -> Result<(), GaveUp>];

fn ends_idle<L: RawLock<M>, M: Machine>(lock: &L) -> Result<(), Wrong> {
    if lock.is_idle() { Ok(()) } else { Err(Wrong::NotIdle) }
}

fn ends_free<L: RawLock<M>, M: Machine>(lock: &L) -> Result<(), Wrong> {
    lock.acquire();
    // SAFETY: acquired above.
    unsafe { lock.release() };
    ends_idle(lock)
}

/// A try on the free lock succeeds, one on the held lock fails, and then nothing is left of anybody.
fn ends_tried<L: TryLock<M>, M: Machine>(lock: &L) -> Result<(), Wrong> {
    if !lock.try_acquire() {
        return Err(Wrong::NotFree { shared: false });
    }
    if lock.try_acquire() {
        return Err(Wrong::NotHeld { shared: false });
    }
    // SAFETY: acquired above.
    unsafe { lock.release() };
    ends_free(lock)
}

/// The same for both sides; two readers are let in, and a writer only without them.
fn ends_shared<L: RawRwLock<M> + TryLock<M>, M: Machine>(lock: &L) -> Result<(), Wrong> {
    if !(lock.try_acquire_shared(false) && lock.try_acquire_shared(false)) {
        return Err(Wrong::NotFree { shared: true });
    }
    for _ in 0..2 {
        if lock.try_acquire() {
            return Err(Wrong::NotHeld { shared: true });
        }
        // SAFETY: acquired above.
        unsafe { lock.release_shared() };
    }
    if !lock.try_acquire() {
        return Err(Wrong::NotFree { shared: false });
    }
    if lock.try_acquire_shared(false) || lock.try_acquire_shared(true) {
        return Err(Wrong::NotHeld { shared: false });
    }
    // SAFETY: acquired above.
    unsafe { lock.release() };
    ends_tried(lock)
}

/// A lock and what it protects: two cells that are equal whenever nobody is inside.
struct ClientObject<L, M: Machine> {
    lock: L,
    count: M::Cell<u64>,
    copy: M::Cell<u64>,
}

impl<L: RawLock<M>, M: Machine> ClientObject<L, M> {
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

impl<L: RawRwLock<M>, M: Machine> ClientObject<L, M> {
    /// Announces an attempt to share that may fail; true if it did not.
    fn attempt_shared(&self, attempt: impl FnOnce(&L) -> bool) -> bool {
        M::note(Event::Acquiring { lock: self.address() });
        let got = attempt(&self.lock);
        M::note(if got {
            Event::Acquired { lock: self.address(), shared: true }
        } else {
            Event::GaveUp { lock: self.address() }
        });
        got
    }

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
struct ThreadResult<M: Machine> {
    touches: M::Cell<u64>,
    wrong: M::Cell<u8>,
}

/// Runs `body` on every thread; it gives how often it was inside, and whether always alone. Then adds up, and looks
/// whether the locks can be used as ever.
fn add_up<L: RawLock<M>, M: Machine>(
    shape: Shape,
    guarded: &[Placed<ClientObject<L, M>, M>],
    end: End<L>,
    body: impl Fn(usize) -> Inside + Sync,
) -> Result<Run, Wrong> {
    let result = || ThreadResult::<M> { touches: M::Cell::ZERO, wrong: M::Cell::ZERO };
    let results =
        (0..shape.threads).map(|_| Placed::<_, M>::new(result(), Home::FirstTouch)).collect::<Vec<_>>();
    let run = M::run(&Plan::threads(shape.threads), &|thread| {
        let inside = body(thread);
        results[thread].touches.set(inside.touches);
        let wrong = [inside.disturbed, inside.let_in, inside.gave_up];
        results[thread].wrong.set(wrong.iter().position(|&wrong| wrong).map_or(0, |number| number as u8 + 1));
    });
    for (thread, result) in results.iter().enumerate() {
        match result.wrong.get() {
            0 => {}
            1 => return Err(Wrong::NotAlone { thread }),
            2 => return Err(Wrong::LetIn { thread }),
            _ => return Err(Wrong::GaveUp { thread }),
        }
    }
    let ran = results.iter().map(|result| result.touches.get()).sum();
    let counted = guarded.iter().map(|guarded| guarded.count.get()).sum();
    if ran != counted {
        return Err(Wrong::Lost { ran, counted });
    }
    guarded.iter().try_for_each(|guarded| end(&guarded.lock))?;
    Ok(run)
}

/// What one thread saw of its critical sections.
#[derive(Default)]
struct Inside {
    touches: u64,
    disturbed: bool,
    /// It got the lock while another thread had it.
    let_in: bool,
    /// It gave up although it had no deadline and nobody had called it off.
    gave_up: bool,
}

impl Inside {
    fn touch<L: RawLock<M>, M: Machine>(&mut self, guarded: &ClientObject<L, M>) {
        self.touches += 1;
        self.disturbed |= !guarded.touch();
    }

    /// One critical section with its acquisition and release.
    fn write<L: RawLock<M>, M: Machine>(&mut self, guarded: &ClientObject<L, M>) {
        guarded.acquire();
        self.touch(guarded);
        guarded.release();
    }

    fn look<L: RawLock<M>, M: Machine>(&mut self, guarded: &ClientObject<L, M>) {
        self.disturbed |= !guarded.look();
    }

    /// Goes for a lock that another thread has, in each of these ways, with such a timeout.
    fn give_up<'a, L: RawLock<M>, M: Machine>(
        &mut self,
        guarded: &ClientObject<L, M>,
        gives_up: Attempts<'_, L, M>,
        timeout: impl Fn() -> Timeout<'a, M>,
    ) {
        for attempt in gives_up {
            self.let_in |= guarded.attempt(|lock| attempt(lock, timeout()).is_ok());
        }
    }
}

/// Acquire, touch, release.
///
/// # Errors
/// [`Wrong`] when the lock does not exclude, or cannot be used as ever when all have left; the same holds for every
/// client below.
pub fn exclusive<L: RawLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    exclusively::<L, M>(shape, ends_free)
}

fn exclusively<L: RawLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    attempts::<L, M>(shape, end, |_, _, guarded| {
        guarded.acquire();
        true
    })
}

/// Every other attempt is a try, which may fail.
///
/// # Errors
/// As [`exclusive`].
pub fn tried<L: TryLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    trying::<L, M>(shape, ends_tried)
}

fn trying<L: TryLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    attempts::<L, M>(shape, end, every_other_is_a_try)
}

fn every_other_is_a_try<L: TryLock<M>, M: Machine>(
    thread: usize,
    nth: u32,
    guarded: &ClientObject<L, M>,
) -> bool {
    if (thread + nth as usize).is_multiple_of(2) {
        guarded.acquire();
        return true;
    }
    guarded.attempt(TryLock::try_acquire)
}

/// [`tried`] with a lock whose counters are about to wrap around.
fn wrapping<L: TryLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let guarded = ClientObject::<L, M>::placed();
    guarded.lock.near_wrap();
    attempts_at(shape, &[guarded], end, every_other_is_a_try)
}

/// Each section adds to two words, one after the other: what a mixture of old and new does to them lasts. The words are no cells, and the
/// sections are not announced, since a section that is undone may run beside a holder.
fn effects<L: TryLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let lock = Placed::<_, M>::new(L::NEW, Home::FirstTouch);
    let (pair, sections) = (words::<M>(2), words::<M>(shape.threads));
    let run = M::run(&Plan::threads(shape.threads), &|thread| {
        let mut ran = 0;
        for nth in 0..shape.acquisitions as usize {
            if (thread + nth).is_multiple_of(2) {
                lock.acquire();
            } else if !lock.try_acquire() {
                continue;
            }
            let read = [0, 1].map(|at| pair[at].load(Relaxed));
            pair.iter().zip(read).for_each(|(word, read)| word.store(read + 1, Relaxed));
            ran += 1;
            // SAFETY: acquired above.
            unsafe { lock.release() };
        }
        sections[thread].store(ran, Relaxed);
    });
    let ran = sections.iter().map(|ran| u64::from(ran.load(Relaxed))).sum();
    for counted in pair.iter().map(|word| u64::from(word.load(Relaxed))) {
        if counted != ran {
            return Err(Wrong::Lost { ran, counted });
        }
    }
    end(&lock)?;
    Ok(run)
}

/// How long the waiters of [`timed`] wait, in nanoseconds. The first one, which is all that a small client has, lets a
/// waiter fall asleep before it gives up.
const WAITS_NS: [u64; 4] = [20_000, 0, 1_000, 300_000];

/// The timeout of the `attempt`-th timed attempt.
fn deadline<M: Machine>(attempt: usize) -> Timeout<'static, M> {
    Timeout::at(Deadline::after_ns::<M>(WAITS_NS[attempt % WAITS_NS.len()]))
}

/// Every other attempt gives up at a deadline, some of them at once.
///
/// # Errors
/// As [`exclusive`].
pub fn timed<L: TimedLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    with_deadlines::<L, M>(shape, ends_tried)
}

fn with_deadlines<L: TimedLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
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
/// As [`exclusive`].
pub fn cancelled<L: TimedLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    called_off::<L, M>(shape, ends_tried)
}

fn called_off<L: TimedLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
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

/// So many words that threads tell each other something by.
fn words<M: Machine>(count: usize) -> Vec<Placed<M::U32, M>> {
    (0..count).map(|_| Placed::new(Word::ZERO, Home::FirstTouch)).collect()
}

/// `attempt` says whether the lock was acquired; if so it is used and released.
fn attempts<L: RawLock<M>, M: Machine>(
    shape: Shape,
    end: End<L>,
    attempt: impl Fn(usize, u32, &ClientObject<L, M>) -> bool + Sync,
) -> Result<Run, Wrong> {
    attempts_at(shape, &[ClientObject::<L, M>::placed()], end, attempt)
}

fn attempts_at<L: RawLock<M>, M: Machine>(
    shape: Shape,
    guarded: &[Placed<ClientObject<L, M>, M>; 1],
    end: End<L>,
    attempt: impl Fn(usize, u32, &ClientObject<L, M>) -> bool + Sync,
) -> Result<Run, Wrong> {
    add_up(shape, guarded, end, |thread| {
        let mut inside = Inside::default();
        for nth in 0..shape.acquisitions {
            if attempt(thread, nth, &guarded[0]) {
                inside.touch(&guarded[0]);
                guarded[0].release();
            }
        }
        inside
    })
}

/// The first thread holds the lock until the second has given up, in each way in which it can. All others acquire.
fn given_up<L: TimedLock<M>, M: Machine>(
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
fn all_leave<L: TimedLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
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
            inside.give_up(object, &[L::acquire_or], || deadline(round as usize - 1));
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
/// waits while nobody calls it off, so that it may not give up. All others acquire.
fn called_off_each_way<L: TimedLock<M>, M: Machine>(
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
                if object.attempt(|lock| lock.acquire_or(Timeout::cancelled_by(cancel)).is_ok()) {
                    inside.touch(object);
                    object.release();
                } else {
                    inside.gave_up = true;
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
fn mixed<L: TimedLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    attempts::<L, M>(shape, end, |thread, nth, guarded| match (thread % 2, nth % 2) {
        (1, 0) => guarded.attempt(|lock| lock.acquire_or(deadline(thread / 2)).is_ok()),
        (0, 1) => guarded.attempt(TryLock::try_acquire),
        _ => {
            guarded.acquire();
            true
        }
    })
}

/// Every third thread writes. The others read, and read again while they do, whatever writer waits.
///
/// # Errors
/// As [`exclusive`].
pub fn shared<L: RawRwLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    sharing::<L, M>(shape, ends_free)
}

fn sharing<L: RawRwLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
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
type Turn<L, M> = fn(usize, &ClientObject<L, M>, &mut Inside);

/// Each thread does one of these at each acquisition, by turns.
fn by_turns<L: RawRwLock<M> + TryLock<M>, M: Machine, const TURNS: usize>(
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

fn writes<L: RawRwLock<M>, M: Machine>(_: usize, guarded: &ClientObject<L, M>, inside: &mut Inside) {
    inside.write(guarded);
}

fn reads<L: RawRwLock<M>, M: Machine>(_: usize, guarded: &ClientObject<L, M>, inside: &mut Inside) {
    guarded.acquire_shared(false);
    inside.look(guarded);
    guarded.release_shared();
}

/// Tries on both sides, with a writer and a reader there.
fn tried_shared<L: RawRwLock<M> + TryLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
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
fn readers_leave<L: TimedRwLock<M>, M: Machine, const READS_ALREADY: bool>(
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
fn writers_leave<L: TimedRwLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    let may_leave: Turn<L, M> = |turn, guarded, inside| {
        if guarded.attempt(|lock| lock.acquire_or(deadline(turn / 3)).is_ok()) {
            inside.touch(guarded);
            guarded.release();
        }
    };
    by_turns::<L, M, 3>(shape, ends_shared, [reads, may_leave, reads])
}

/// Readers stay inside until all of them are, which a lock that lets them in one at a time never sees. With three
/// threads and more the last one writes first, so that the readers queue up behind a holder.
fn meeting<L: RawRwLock<M> + TryLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
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
fn full<L: RawRwLock<M>, M: Machine>(shape: Shape, wait: fn(&L, usize) -> bool) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    object.lock.near_full();
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

/// How many locks [`nested`] holds at once.
const NESTED: usize = 3;

/// Holds three locks at once and releases them in an order that changes from one acquisition to the next.
///
/// # Errors
/// As [`exclusive`].
pub fn nested<L: RawLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    nesting::<L, M>(shape, ends_free)
}

fn nesting<L: RawLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let guarded = [(); NESTED].map(|()| ClientObject::<L, M>::placed());
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for nth in 0..shape.acquisitions as usize {
            for one in &guarded {
                one.acquire();
                inside.touch(one);
            }
            for step in 0..NESTED {
                guarded[(thread + nth + step * 2) % NESTED].release();
            }
        }
        inside
    })
}

/// The first thread holds so many locks of its own that its next queue node has no name, and then goes for the lock
/// that all use, by acquisition and by try.
fn many<L: TryLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let own = (0..M::NAMED_NODES).map(|_| ClientObject::<L, M>::placed()).collect::<Vec<_>>();
    let guarded = [ClientObject::<L, M>::placed()];
    let object = &guarded[0];
    add_up(shape, &guarded, end, |thread| {
        let mut inside = Inside::default();
        for nth in 0..shape.acquisitions {
            if thread != 0 {
                inside.write(object);
                continue;
            }
            own.iter().for_each(|one| one.lock.acquire());
            if every_other_is_a_try(thread, nth, object) {
                inside.touch(object);
                object.release();
            }
            // SAFETY: acquired above.
            own.iter().for_each(|one| unsafe { one.lock.release() });
        }
        inside
    })
}

/// Threads in pairs: the first acquires and touches, the second releases, while the first may come again already. An
/// odd thread left over does both.
///
/// # Errors
/// As [`exclusive`].
pub fn passed_on<L: RawLock<M>, M: Machine>(shape: Shape) -> Result<Run, Wrong> {
    passing_on::<L, M>(shape, ends_free)
}

fn passing_on<L: RawLock<M>, M: Machine>(shape: Shape, end: End<L>) -> Result<Run, Wrong> {
    let guarded = [ClientObject::<L, M>::placed()];
    let guarded_one = &guarded[0];
    let batons = words::<M>(shape.threads.div_ceil(2));
    add_up(shape, &guarded, end, |thread| {
        let baton = &*batons[thread / 2];
        let mut inside = Inside::default();
        for round in 1..=shape.acquisitions {
            if thread % 2 == 1 {
                M::spin_until(baton, Acquire, |held| held >= round); // [1] from the pair's first
                guarded_one.release();
                continue;
            }
            guarded_one.acquire();
            inside.touch(guarded_one);
            if thread + 1 == shape.threads {
                guarded_one.release();
            } else {
                baton.store(round, Release); // [1] to the pair's second
            }
        }
        inside
    })
}
