//! The owner tag of an object, and the lock under which it is set once.

use core::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use machine::{Machine, Patient};

use crate::algorithm::sleep;
use crate::signals_blocked::with_signals_blocked;
use crate::thread;

/// Two bytes of an object that glibc does not use. They say whose the object's state is.
///
/// | value      | meaning                                                                     |
/// |------------|-----------------------------------------------------------------------------|
/// | 0          | undecided: not used since it was initialised or destroyed                   |
/// | `6c00`     | glibc's                                                                     |
/// | `6c01`     | glibc's, as it was first taken where no site is: it may prove to be one of a site's |
/// | `c0NN`     | ours, with choice NN of its kind                                            |
/// | `c1NN`     | undecided, but the place that initialised it wants choice NN                |
/// | `c200`     | undecided, and initialised by a call that is no site                        |
///
/// A tag leaves an undecided value once, under [`Initialisation`] (`6c01` becomes `6c00` later), and goes back to undecided when the object is destroyed
/// or initialised. Any other value comes from memory that was never initialised, and counts as undecided.
#[repr(transparent)]
pub(crate) struct Tag(AtomicU16);

/// What a tag says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// No thread has used the object since it was initialised or destroyed.
    Undecided,
    /// As `Undecided`, but it will be ours with this choice.
    Wanted(u8),
    /// As `Undecided`, but the calls that take it are no sites of it.
    Initialised,
    /// The C library.
    Glibc,
    /// The C library, unless a site proves to be one of it.
    Unplaced,
    /// This library, with this choice.
    Ours(u8),
}

const GLIBC: u16 = 0x6c00;
const OURS: u16 = 0xc000;
const WANTED: u16 = 0xc100;
const UNPLACED: u16 = GLIBC | 1;
const INITIALISED: u16 = 0xc200;
const HIGH: u16 = 0xff00;

impl Tag {
    /// The number of the choice, if the object is ours. The one question on every fast path.
    #[inline]
    pub(crate) fn ours(&self) -> Option<usize> {
        let value = self.0.load(Ordering::Acquire); // [1] from `set`: the choice and the arena slot are there
        (value & HIGH == OURS).then_some(usize::from(value & !HIGH))
    }

    /// Whether the object is glibc's, for good.
    #[inline]
    pub(crate) fn is_glibcs(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HIGH == GLIBC
    }

    /// Whether it is still undecided whose the object is.
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self.owner(), Owner::Undecided | Owner::Wanted(_) | Owner::Initialised)
    }

    pub(crate) fn owner(&self) -> Owner {
        let value = self.0.load(Ordering::Acquire); // [1] from `set`
        match value & HIGH {
            OURS => Owner::Ours(value as u8),
            WANTED => Owner::Wanted(value as u8),
            GLIBC if value == UNPLACED => Owner::Unplaced,
            GLIBC => Owner::Glibc,
            INITIALISED => Owner::Initialised,
            _ => Owner::Undecided,
        }
    }

    /// Writes what is there. Where the page may not be written, as some programs have it to see the first write, the fault is here, and its
    /// handler may take locks: it does not interrupt a thread that others wait for.
    pub(crate) fn touch(&self) {
        let value = self.0.load(Ordering::Relaxed);
        let _ = self.0.compare_exchange(value, value, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, owner: Owner) {
        let value = match owner {
            Owner::Undecided => 0,
            Owner::Wanted(choice) => WANTED | u16::from(choice),
            Owner::Initialised => INITIALISED,
            Owner::Glibc => GLIBC,
            Owner::Unplaced => UNPLACED,
            Owner::Ours(choice) => OURS | u16::from(choice),
        };
        self.0.store(value, Ordering::Release); // [1] to `ours` and `owner`
    }
}

/// The right to initialise the ownership of objects (ours, or left to glibc), of one thread at a time: rare and short, once an object.
pub(crate) struct Initialisation(());

/// 1 while a thread initialises an ownership.
static INITIALISING: AtomicU32 = AtomicU32::new(0);

impl Initialisation {
    /// Runs `body` with the right to decide. It must wait for nothing: the next thread that decides waits for it.
    ///
    /// Signals are blocked, since a signal handler may try a lock, and would wait for ever for the decision that it interrupts.
    pub(crate) fn alone<R>(body: impl FnOnce(&Self) -> R) -> R {
        with_signals_blocked(|| {
            if thread::current().forking.get() {
                return body(&Self(())); // in a fork handler: the thread has the right until the fork is over
            }
            crate::generation::generation(); // in a child made past the C library: its parent's thread does not decide here
            Self::begin();
            let result = body(&Self(()));
            Self::end();
            result
        })
    }

    /// Waits until no thread decides, and keeps it so until [`Initialisation::end`]. The caller has blocked signals and
    /// cancellation.
    pub(crate) fn begin() {
        const YIELDS: u32 = 100;
        const SLEEP_NS: u64 = 50_000;
        let mut polls = 0;
        while INITIALISING.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            polls += 1;
            if polls < YIELDS {
                Patient::delay(200);
                // SAFETY: no arguments; never fails on Linux, so that errno stays.
                unsafe { libc::sched_yield() };
            } else {
                sleep(SLEEP_NS, None); // a thread of higher priority than the one that decides never yields to it
            }
        }
    }

    /// Lets others decide. In the child of a fork as well: its parent's thread began before it forked.
    pub(crate) fn end() {
        INITIALISING.store(0, Ordering::Release);
    }
}
