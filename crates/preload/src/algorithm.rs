//! Locks of the catalogue behind function pointers, chosen by name when the library is loaded.
//!
//! A timed acquisition that an algorithm lacks is put around it here: it tries after each release until the deadline
//! ([`attempt_until`]).

use core::sync::atomic::{AtomicU32, compiler_fence};
use locks::catalogue::{self, Visitor};
use locks::{RawRwLock, TimedLock, TimedRwLock, TryLock};

use machine::Ordering::{Acquire, Relaxed, Release, SeqCst};
use machine::host::fence_running_threads;
use machine::{Deadline, GaveUp, Integer, Machine, Patient, Timeout, Word};

type Action = unsafe fn(*const u8);
type Attempt = unsafe fn(*const u8) -> bool;

/// A lock algorithm as functions of the address of its state. All-zero state is a free lock.
///
/// Every function wants the address of a state of at least `bytes` bytes, aligned to `align`, that was all zeros at
/// first and has been used with this algorithm only; a release wants the lock to be held in that way.
#[derive(Clone, Copy)]
pub(crate) struct Algorithm {
    pub(crate) bytes: usize,
    pub(crate) align: usize,
    pub(crate) acquire: Action,
    pub(crate) try_acquire: Attempt,
    pub(crate) acquire_until: unsafe fn(*const u8, Deadline) -> bool,
    pub(crate) release: Action,
    /// [`RawLock::is_unheld`](locks::RawLock::is_unheld).
    pub(crate) is_unheld: Attempt,
    /// The shared side; none for a lock that only one thread at a time can hold.
    pub(crate) shared: Option<Shared>,
    /// A timed acquisition is made of attempts.
    pub(crate) emulated: bool,
}

/// The shared side of an algorithm. The flag says that the caller reads already.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    pub(crate) acquire: unsafe fn(*const u8, bool),
    pub(crate) try_acquire: unsafe fn(*const u8, bool) -> bool,
    pub(crate) acquire_until: unsafe fn(*const u8, bool, Deadline) -> bool,
    pub(crate) release: Action,
}

/// The algorithm of this name; none if the catalogue has no such lock for programs.
pub(crate) fn find(name: &str) -> Option<Algorithm> {
    catalogue::find(name).filter(|lock| lock.is_for_programs())?;
    catalogue::visit::<Patient, _>(name, Tabulate)
}

/// A lock that can do what the lock functions need, by itself or with help.
trait PthreadLock: 'static {
    const EMULATED: bool;
    fn address(&self) -> usize
    where
        Self: Sized,
    {
        core::ptr::from_ref(self) as usize
    }
    fn acquire(&self);
    fn try_acquire(&self) -> bool;
    fn acquire_until(&self, deadline: Deadline) -> bool;
    /// # Safety
    /// As [`RawLock::release`].
    unsafe fn release(&self);
    fn is_unheld(&self) -> bool;
}

trait PthreadRwlock: PthreadLock {
    fn acquire_shared(&self, again: bool);
    fn try_acquire_shared(&self, again: bool) -> bool;
    fn acquire_shared_until(&self, again: bool, deadline: Deadline) -> bool;
    /// # Safety
    /// As [`RawRwLock::release_shared`].
    unsafe fn release_shared(&self);
}

struct Tabulate;

impl Visitor<Patient> for Tabulate {
    type Output = Algorithm;

    fn tried<L: TryLock<Patient>>(self, _: &catalogue::Lock) -> Algorithm {
        table::<Tried<L>>()
    }

    fn timed<L: TimedLock<Patient>>(self, _: &catalogue::Lock) -> Algorithm {
        table::<Timed<L>>()
    }

    fn shared<L: RawRwLock<Patient> + TryLock<Patient>>(self, _: &catalogue::Lock) -> Algorithm {
        table_shared::<Tried<L>>()
    }

    fn timed_shared<L: TimedRwLock<Patient>>(self, _: &catalogue::Lock) -> Algorithm {
        table_shared::<Timed<L>>()
    }
}

/// The lock at `state`.
///
/// # Safety
/// As [`Algorithm`] says.
#[inline]
unsafe fn lock_at<'a, S>(state: *const u8) -> &'a S {
    // SAFETY: zeros are a valid lock, and the caller promises that nothing else has been written there.
    unsafe { &*state.cast::<S>() }
}

fn table<S: PthreadLock>() -> Algorithm {
    /// # Safety
    /// As [`Algorithm`] says, for these five.
    unsafe fn acquire<S: PthreadLock>(state: *const u8) {
        // SAFETY: passed on.
        unsafe { lock_at::<S>(state) }.acquire();
    }
    unsafe fn try_acquire<S: PthreadLock>(state: *const u8) -> bool {
        // SAFETY: passed on.
        unsafe { lock_at::<S>(state) }.try_acquire()
    }
    unsafe fn acquire_until<S: PthreadLock>(state: *const u8, deadline: Deadline) -> bool {
        // SAFETY: passed on.
        unsafe { lock_at::<S>(state) }.acquire_until(deadline)
    }
    unsafe fn release<S: PthreadLock>(state: *const u8) {
        // SAFETY: passed on.
        unsafe { lock_at::<S>(state).release() };
    }
    unsafe fn is_unheld<S: PthreadLock>(state: *const u8) -> bool {
        // SAFETY: passed on.
        unsafe { lock_at::<S>(state) }.is_unheld()
    }
    Algorithm {
        bytes: size_of::<S>(),
        align: align_of::<S>(),
        acquire: acquire::<S>,
        try_acquire: try_acquire::<S>,
        acquire_until: acquire_until::<S>,
        release: release::<S>,
        is_unheld: is_unheld::<S>,
        shared: None,
        emulated: S::EMULATED,
    }
}

fn table_shared<S: PthreadRwlock>() -> Algorithm {
    /// # Safety
    /// As [`Algorithm`] says, for these four.
    unsafe fn acquire<S: PthreadRwlock>(state: *const u8, again: bool) {
        // SAFETY: passed on.
        unsafe { lock_at::<S>(state) }.acquire_shared(again);
    }
    unsafe fn try_acquire<S: PthreadRwlock>(state: *const u8, again: bool) -> bool {
        // SAFETY: passed on.
        unsafe { lock_at::<S>(state) }.try_acquire_shared(again)
    }
    unsafe fn acquire_until<S: PthreadRwlock>(state: *const u8, again: bool, deadline: Deadline) -> bool {
        // SAFETY: passed on.
        unsafe { lock_at::<S>(state) }.acquire_shared_until(again, deadline)
    }
    unsafe fn release<S: PthreadRwlock>(state: *const u8) {
        // SAFETY: passed on.
        unsafe { lock_at::<S>(state).release_shared() };
    }
    let shared = Shared {
        acquire: acquire::<S>,
        try_acquire: try_acquire::<S>,
        acquire_until: acquire_until::<S>,
        release: release::<S>,
    };
    Algorithm { shared: Some(shared), ..table::<S>() }
}

/// A lock that can be tried, and whose timed acquisitions are attempts.
#[repr(transparent)]
struct Tried<L>(L);

// The lock may be gone after its release, so its address is taken before.
impl<L: TryLock<Patient>> PthreadLock for Tried<L> {
    const EMULATED: bool = true;

    #[inline]
    fn acquire(&self) {
        self.0.acquire();
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        self.0.try_acquire()
    }

    fn acquire_until(&self, deadline: Deadline) -> bool {
        attempt_until(self.address(), deadline, || self.0.try_acquire())
    }

    #[inline]
    unsafe fn release(&self) {
        let address = self.address();
        // SAFETY: by the caller.
        unsafe { self.0.release() };
        released(address);
    }

    fn is_unheld(&self) -> bool {
        self.0.is_unheld()
    }
}

impl<L: RawRwLock<Patient> + TryLock<Patient>> PthreadRwlock for Tried<L> {
    #[inline]
    fn acquire_shared(&self, again: bool) {
        self.0.acquire_shared(again);
    }

    #[inline]
    fn try_acquire_shared(&self, again: bool) -> bool {
        self.0.try_acquire_shared(again)
    }

    fn acquire_shared_until(&self, again: bool, deadline: Deadline) -> bool {
        attempt_until(self.address(), deadline, || self.0.try_acquire_shared(again))
    }

    #[inline]
    unsafe fn release_shared(&self) {
        let address = self.address();
        // SAFETY: by the caller.
        unsafe { self.0.release_shared() };
        released(address);
    }
}

/// A lock that can do everything by itself.
#[repr(transparent)]
struct Timed<L>(L);

impl<L: TimedLock<Patient>> PthreadLock for Timed<L> {
    const EMULATED: bool = false;

    #[inline]
    fn acquire(&self) {
        self.0.acquire();
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        self.0.try_acquire()
    }

    fn acquire_until(&self, deadline: Deadline) -> bool {
        self.0.acquire_or(Timeout::at(deadline)).is_ok()
    }

    #[inline]
    unsafe fn release(&self) {
        // SAFETY: by the caller.
        unsafe { self.0.release() };
    }

    fn is_unheld(&self) -> bool {
        self.0.is_unheld()
    }
}

impl<L: TimedRwLock<Patient>> PthreadRwlock for Timed<L> {
    #[inline]
    fn acquire_shared(&self, again: bool) {
        self.0.acquire_shared(again);
    }

    #[inline]
    fn try_acquire_shared(&self, again: bool) -> bool {
        self.0.try_acquire_shared(again)
    }

    fn acquire_shared_until(&self, again: bool, deadline: Deadline) -> bool {
        self.0.acquire_shared_or(again, Timeout::at(deadline)).is_ok()
    }

    #[inline]
    unsafe fn release_shared(&self) {
        // SAFETY: by the caller.
        unsafe { self.0.release_shared() };
    }
}

/// What threads that attempt until a deadline sleep on, by the address of the lock.
static RELEASE_COUNTS: [ReleaseCount; 64] =
    [const { ReleaseCount { sleepers: AtomicU32::new(0), releases: <Patient as Machine>::U32::ZERO } }; 64];

/// A release reads whether a thread has gone to sleep since a release last woke all, and wakes all if so. It puts no fence
/// between its write to the lock and that read: the sleeper pays, as in [`machine::host::Sleeping`].
struct ReleaseCount {
    /// How many have gone to sleep since then.
    sleepers: AtomicU32,
    /// Counts the times that all were woken; what they watch.
    releases: <Patient as Machine>::U32,
}

fn release_count(lock: usize) -> &'static ReleaseCount {
    // Fibonacci hashing: the low bits of addresses say little.
    &RELEASE_COUNTS[((lock as u64 >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize]
}

/// How long the first sleep lasts at most, ns, and how often that doubles. An attempt may fail because of another one that fails,
/// and then no release follows; and the kernel may refuse the fence.
const FIRST_SLEEP_NS: u64 = 2_000_000;
const DOUBLINGS: u32 = 7;

/// Attempts after each release of the lock at this address, until an attempt succeeds or the deadline has passed.
fn attempt_until(lock: usize, deadline: Deadline, mut attempt: impl FnMut() -> bool) -> bool {
    let ReleaseCount { sleepers, releases } = release_count(lock);
    for sleep in 0.. {
        // Before it counts itself: a release that takes it out of the count changes this (tests/litmus/C-counted-sleeper.litmus).
        let seen = releases.load(Acquire);
        sleepers.fetch_add(1, SeqCst);
        let doublings = if fence_running_threads() { DOUBLINGS.min(sleep) } else { 0 };
        if attempt() {
            return true;
        }
        if deadline.passed::<Patient>() {
            break;
        }
        let until = sooner(deadline, FIRST_SLEEP_NS << doublings);
        // Whichever it is, another attempt follows.
        let _: Result<u32, GaveUp> =
            Patient::spin_until_or(releases, Acquire, Timeout::at(until), |now| now != seen);
    }
    false
}

/// After a release of the lock at this address, which may be gone by now.
#[inline]
fn released(lock: usize) {
    compiler_fence(SeqCst);
    let ReleaseCount { sleepers, releases } = release_count(lock);
    if sleepers.load(Relaxed) != 0 {
        wake_attempters(sleepers, releases);
    }
}

#[cold]
#[inline(never)]
fn wake_attempters(sleepers: &AtomicU32, releases: &<Patient as Machine>::U32) {
    if sleepers.swap(0, Relaxed) != 0 {
        releases.fetch_add(1, Release);
    }
}

/// The deadline, or so long from now where that is sooner.
fn sooner(deadline: Deadline, ns: u64) -> Deadline {
    let end_ns = Patient::clock_ns(deadline.clock).saturating_add(ns);
    Deadline { at_ns: deadline.at_ns.min(end_ns), ..deadline }
}

/// Sleeps so long, or until the deadline where that is sooner. No cancellation point; errno stays.
pub(crate) fn sleep(ns: u64, deadline: Option<Deadline>) {
    let end = deadline.map_or_else(|| Deadline::after_ns::<Patient>(ns), |deadline| sooner(deadline, ns));
    let nobody_writes_this = <Patient as Machine>::U32::ZERO;
    Patient::sleep_while(&nobody_writes_this, 0, Timeout::at(end));
}
