//! Locks and what happens to the threads that use them: signal handlers, forks, ends.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::SeqCst};

use contend_locks as locks;

use locks::catalogue::{LOCKS, Lock, Visitor, visit};
use locks::{Clh, Mcs, RawLock, Rw, TimedRwLock, TryLock};
use machine::{Deadline, Machine, Patient, PlainCell, Timeout, Word};

/// A check of every lock that can be tried, which all can.
trait Check {
    fn check<L: TryLock<Patient>>(name: &'static str);
}

struct Each<C>(C);

impl<C: Check> Visitor<Patient> for Each<C> {
    type Output = ();
    fn tried<L: TryLock<Patient>>(self, lock: &Lock) {
        C::check::<L>(lock.name);
    }
}

fn every_lock<C: Check>(check: fn() -> C) {
    for lock in LOCKS {
        visit::<Patient, _>(lock.name, Each(check())).expect("the catalogue names it");
    }
}

/// A lock and what it protects.
struct Counter<L> {
    lock: L,
    count: <Patient as Machine>::Cell<u64>,
}

impl<L: RawLock<Patient>> Counter<L> {
    fn new() -> Self {
        Self { lock: L::NEW, count: PlainCell::ZERO }
    }

    fn touch(&self) {
        self.count.set(self.count.get() + 1);
    }
}

/// What a signal handler and the thread that it interrupts share.
struct Interrupted<L> {
    /// The interrupted thread is somewhere in its acquisition or release.
    own: Counter<L>,
    /// A third thread is, too.
    other: Counter<L>,
    tried: AtomicU64,
    handled: AtomicU64,
}

static INTERRUPTED: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

extern "C" fn handler<L: TryLock<Patient>>(_: libc::c_int) {
    // SAFETY: set to a value of this type before the handler is, which outlives the signals.
    let shared = unsafe { &*INTERRUPTED.load(SeqCst).cast::<Interrupted<L>>() };
    shared.other.lock.acquire();
    shared.other.touch();
    // SAFETY: acquired above.
    unsafe { shared.other.lock.release() };
    if shared.own.lock.try_acquire() {
        shared.own.touch();
        // SAFETY: acquired above.
        unsafe { shared.own.lock.release() };
        shared.tried.fetch_add(1, SeqCst);
    }
    shared.handled.fetch_add(1, SeqCst);
}

fn install(handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handler takes locks of this crate and touches atomics only.
    unsafe { libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t) };
}

/// Signals of the third thread, which also wants the handler's lock.
const SIGNALS: u64 = 60;

struct HandlersLock;

impl Check for HandlersLock {
    fn check<L: TryLock<Patient>>(name: &'static str) {
        let shared = Interrupted::<L> {
            own: Counter::new(),
            other: Counter::new(),
            tried: AtomicU64::new(0),
            handled: AtomicU64::new(0),
        };
        INTERRUPTED.store((&raw const shared).cast_mut().cast(), SeqCst);
        install(handler::<L>);
        // SAFETY: asks for the caller's own name.
        let interrupted = unsafe { libc::pthread_self() };
        let done = AtomicBool::new(false);
        let (mut inside, between) = (0, AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for signal in 1..=SIGNALS {
                    // SAFETY: the interrupted thread waits for the end of this one.
                    unsafe { libc::pthread_kill(interrupted, libc::SIGUSR1) };
                    // Its lock is wanted while the handler holds it or waits for it.
                    while shared.handled.load(SeqCst) < signal {
                        shared.other.lock.acquire();
                        shared.other.touch();
                        // SAFETY: acquired above.
                        unsafe { shared.other.lock.release() };
                        between.fetch_add(1, SeqCst);
                    }
                }
                done.store(true, SeqCst);
            });
            while !done.load(SeqCst) {
                shared.own.lock.acquire();
                shared.own.touch();
                // SAFETY: acquired above.
                unsafe { shared.own.lock.release() };
                inside += 1;
            }
        });
        assert_eq!(shared.handled.load(SeqCst), SIGNALS, "{name}");
        assert_eq!(shared.other.count.get(), SIGNALS + between.load(SeqCst), "{name}");
        assert_eq!(shared.own.count.get(), inside + shared.tried.load(SeqCst), "{name}");
    }
}

/// A handler that comes in the middle of an acquisition or release may take other locks, leave its nodes in their queues,
/// and try the lock that it interrupted.
#[test]
#[cfg_attr(miri, ignore = "Miri has no signals")]
fn signal_handlers_take_locks_in_the_middle_of_others() {
    every_lock(|| HandlersLock);
}

/// Uses fresh locks and fresh threads; false when they do not add up.
fn works_alone<L: RawLock<Patient>>() -> bool {
    let nested = [(); 6].map(|()| Counter::<L>::new());
    let rounds = |rounds: u64| {
        for _ in 0..rounds {
            nested.iter().for_each(|one| one.lock.acquire());
            nested.iter().for_each(Counter::touch);
            // SAFETY: acquired above.
            nested.iter().for_each(|one| unsafe { one.lock.release() });
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| rounds(20));
        rounds(20);
    });
    nested.iter().all(|one| one.count.get() == 40)
}

struct Forks;

impl Check for Forks {
    fn check<L: TryLock<Patient>>(name: &'static str) {
        let busy = Counter::<L>::new();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        busy.lock.acquire();
                        busy.touch();
                        // SAFETY: acquired above.
                        unsafe { busy.lock.release() };
                    }
                });
            }
            for _ in 0..2 {
                // SAFETY: the child uses locks and threads of its own, then leaves without running anything else.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    let worked = works_alone::<L>();
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(i32::from(!worked)) };
                }
                let mut status = 0;
                // SAFETY: the child made above.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0, "{name}: in the child of a fork");
            }
            done.store(true, SeqCst);
        });
    }
}

/// Threads that do not exist in the child were anywhere in their acquisitions when it was made.
#[test]
#[cfg_attr(miri, ignore = "Miri has no forks")]
fn a_child_of_a_fork_uses_locks_that_were_free() {
    every_lock(|| Forks);
}

struct EndsHolding;

impl Check for EndsHolding {
    fn check<L: TryLock<Patient>>(name: &'static str) {
        const THREADS: u64 = if cfg!(miri) { 3 } else { 40 };
        let one = Counter::<L>::new();
        let mut numbers = Vec::new();
        for _ in 0..THREADS {
            let holder = std::thread::spawn({
                let lock: *const L = &raw const one.lock;
                let address = lock as usize;
                move || {
                    // SAFETY: joined below, while the lock lives.
                    unsafe { &*(address as *const L) }.acquire();
                    Patient::thread()
                }
            });
            numbers.push(holder.join().expect("it locks and ends"));
            one.touch();
            // SAFETY: acquired above.
            unsafe { one.lock.release() };
        }
        assert_eq!(one.count.get(), THREADS);
        numbers.sort_unstable();
        numbers.dedup();
        // Some more than one: other tests of this process start threads, too.
        assert!(
            numbers.len() < 30,
            "{name}: {} numbers for {THREADS} threads, one after another",
            numbers.len()
        );
    }
}

/// What a thread needs lies in memory that outlives it, and is used again even when a node of it is still in use.
#[test]
fn a_thread_may_end_while_it_holds_a_lock() {
    every_lock(|| EndsHolding);
}

/// A node that its thread has left in a queue goes to no other thread, though its own has ended and a new one has its number.
#[test]
fn the_nodes_of_ended_threads_stay_in_use() {
    static LOCKS: ([Clh<Patient>; 3], [Mcs<Patient>; 3]) = ([const { Clh::NEW }; 3], [const { Mcs::NEW }; 3]);
    let taken = <Patient as Machine>::U32::ZERO;
    for index in 0..3 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                LOCKS.0[index].acquire();
                LOCKS.1[index].acquire();
                Word::store(&taken, index as u32 + 1, machine::Ordering::Release);
            });
        });
    }
    assert_eq!(Word::load(&taken, machine::Ordering::Acquire), 3);
    let held = |index: usize| !LOCKS.0[index].try_acquire() && !LOCKS.1[index].try_acquire();
    assert!((0..3).all(held));
    for index in [1, 0, 2] {
        // SAFETY: acquired above.
        unsafe { LOCKS.0[index].release() };
        // SAFETY: acquired above.
        unsafe { LOCKS.1[index].release() };
        assert!(LOCKS.0[index].try_acquire() && LOCKS.1[index].try_acquire());
    }
}

#[test]
fn readers_that_gave_up_leave_nothing_to_the_writers_after_them() {
    let lock = Rw::<Patient>::NEW;
    for give_up_ns in [1_000_000, 5_000_000, 20_000_000] {
        lock.acquire();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let timeout = Timeout::at(Deadline::after_ns::<Patient>(give_up_ns));
                lock.acquire_shared_or(false, timeout).expect_err("a writer is inside");
            });
        });
        // SAFETY: acquired above.
        unsafe { lock.release() };
        assert!(lock.is_idle(), "a later writer must find the lock free at once");
    }
}
