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

mod kind;
mod leaving;
mod object;
mod promises;
mod references;
pub mod scalable;
mod several;
mod shared;
pub mod transactions;
mod upgrades;
pub mod waiting;

pub use kind::ClientKind;
pub use leaving::{cancelled, timed};
pub use references::{dying, many_references, not_last, references};
pub use several::{nested, passed_on};
pub use shared::shared;

use core::fmt;

use locks::catalogue::{self, Lock, Visitor};
use locks::{DowngradeLock, RawLock, TimedLock, TimedRwLock, TryLock};
use machine::Ordering::Relaxed;
use machine::{Home, Machine, Placed, Plan, Run, Word};

use leaving::{all_leave, called_off, called_off_each_way, deadline, given_up, mixed, with_deadlines};
use object::{Attempt, Attempts, ClientObject, End, Inside, add_up, ends_free, ends_shared, ends_tried};
use several::{many, nesting, passing_on};
use shared::{
    full, meeting, meeting_left, readers_leave, sharing, tried_shared, writer_leaves_writer, writers_leave,
};

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
    /// A thread gave up although it had no deadline and no thread had called it off.
    GaveUp {
        /// Which thread.
        thread: usize,
    },
    /// No thread uses the lock any more, but it cannot be taken at once.
    NotFree {
        /// Whether it was to be shared.
        shared: bool,
    },
    /// A try succeeded although the lock was held.
    NotHeld {
        /// Whether it was held by readers.
        shared: bool,
    },
    /// No thread uses the lock any more, but its words are not those of a free lock.
    NotIdle,
    /// A thread got the lock although that was promised to a waiter before.
    Bypassed {
        /// Which thread.
        thread: usize,
    },
    /// The lock is said to promise itself to waiters, and no holder in any execution saw that it did.
    NeverPromised,
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
                write!(to, "thread {thread} gave up although no thread had called it off")
            }
            Self::NotFree { shared } => {
                let side = side(shared);
                write!(to, "no thread uses the lock any more, but an attempt to take it ({side}) fails")
            }
            Self::NotHeld { shared } => {
                write!(to, "a try succeeded although the lock was held ({})", side(shared))
            }
            Self::Bypassed { thread } => {
                write!(to, "thread {thread} got the lock before the waiter that it was promised to")
            }
            Self::NeverPromised => {
                write!(
                    to,
                    "the lock is to be promised to a waiter that was passed over, and never was in any execution (this is one of them)"
                )
            }
            Self::NotIdle => {
                write!(to, "no thread uses the lock any more, but something of its users is left in it")
            }
        }
    }
}

impl core::error::Error for Wrong {}

/// Runs a client of the lock with this name; none if there is no such lock, or it cannot do that.
pub fn run<M: Machine>(lock: &str, kind: ClientKind, shape: Shape) -> Option<Result<Run, Wrong>> {
    // The locks' traits do not say which of them keeps promises.
    let promise = [ClientKind::Promised, ClientKind::PromisedShared].contains(&kind);
    if promise && !kind.suits(catalogue::find_in_any_form(lock)?) {
        return None;
    }
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
            ClientKind::Promised => promises::promised::<L, M>(self.shape, end),
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
            ClientKind::PromisedShared => promises::promised_shared::<L, M>(self.shape),
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
        self.of_timed::<L, M>(lock, ends_tried, &[Attempt::EXCLUSIVE])
    }

    fn shared<L: DowngradeLock<M> + TryLock<M>>(self, lock: &Lock) -> Self::Output {
        if self.kind == ClientKind::Full && lock.bounds_readers {
            let waits = |lock: &L, turn: usize| {
                lock.acquire_shared(turn.is_multiple_of(4));
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
            ClientKind::WriterLeavesWriter => Some(writer_leaves_writer::<L, M>(self.shape)),
            ClientKind::MeetingLeft => Some(meeting_left::<L, M>(self.shape)),
            ClientKind::TimedUpgrade => Some(upgrades::timed_upgrade::<L, M>(self.shape)),
            ClientKind::Full if lock.bounds_readers => {
                let may_leave = |lock: &L, turn: usize| {
                    if turn.is_multiple_of(4) {
                        lock.acquire_shared(false);
                        return true;
                    }
                    lock.acquire_shared_or(false, deadline(turn / 2)).is_ok()
                };
                Some(full::<L, M>(self.shape, may_leave))
            }
            _ => self
                .of_shared::<L, M>()
                .or_else(|| self.of_timed::<L, M>(lock, ends_shared, &[Attempt::EXCLUSIVE, Attempt::SHARED])),
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
/// As `exclusive`.
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
    // SAFETY: no thread has used it yet.
    unsafe { guarded.lock.near_wrap() };
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
