//! Real-time priorities on simulated cores, and the mutex whose owner inherits them: who runs, who waits, and for how long.

mod common;

use common::{M, hardware, with_slices};
use contend_simulator::{Hardware, Report, Simulation};
use locks::{Denied, Futex, KernelMutex, RawLock, RtMutex, TryLock};
use machine::Ordering::Relaxed;
use machine::{Clock, Deadline, Event, Home, Integer, Machine, Placed, PlainCell, Plan, Timeout, Word};

const CYCLES_PER_US: u64 = 2_000;
const NS_PER_US: u64 = 1_000;

fn us(us: u64) {
    M::delay(us * CYCLES_PER_US);
}

fn now_us() -> u64 {
    M::clock_ns(Clock::Monotonic) / NS_PER_US
}

/// Sleeps as a thread does that waits for something else than a lock.
fn sleep_until(at_us: u64) {
    let never = Placed::<_, M>::new(<M as Machine>::U32::ZERO, Home::FirstTouch);
    let deadline = Deadline { clock: Clock::Monotonic, at_ns: at_us * NS_PER_US };
    M::sleep_while(&never, 0, Timeout::at(deadline));
}

/// Runs threads of these priorities, on these cores, and gives what each of them says.
fn run(
    hardware: &Hardware,
    cores: &[u32],
    priorities: &[u8],
    body: impl Fn(usize) -> u64 + Sync,
) -> (Vec<u64>, Report) {
    let simulated = Simulation::new(hardware).run(|| {
        let said: Vec<_> =
            cores.iter().map(|_| Placed::<_, M>::new(<M as Machine>::U64::ZERO, Home::FirstTouch)).collect();
        let plan = Plan { threads: cores.len(), cores, duration_ns: None, priorities };
        M::run(&plan, &|thread| said[thread].store(body(thread), Relaxed));
        said.iter().map(|word| word.load(Relaxed)).collect()
    });
    simulated.unwrap_or_else(|stopped| panic!("{stopped}"))
}

fn placed<L: RawLock<M>>() -> Placed<L, M> {
    Placed::new(L::NEW, Home::FirstTouch)
}

/// Uses a lock for so long.
fn section<L: RawLock<M>>(lock: &Placed<L, M>, length_us: u64) {
    let address = M::address(&**lock);
    let at = core::ptr::from_ref(&**lock) as usize;
    assert_ne!(address, 0);
    M::note(Event::Acquiring { lock: at });
    lock.acquire();
    M::note(Event::Acquired { lock: at, shared: false });
    us(length_us);
    M::note(Event::Releasing { lock: at, shared: false });
    // SAFETY: acquired above.
    unsafe { lock.release() };
}

#[test]
fn a_higher_priority_runs_first_and_equals_run_in_the_order_in_which_they_came() {
    let order = |priorities: [u8; 5]| {
        let (ended, _) = run(&with_slices(), &[0; 5], &priorities, |thread| {
            sleep_until(if thread == 0 { 100 } else { 100 + thread as u64 });
            us(50);
            now_us()
        });
        let mut order: Vec<_> = (0..5).collect();
        order.sort_by_key(|&thread| ended[thread]);
        order
    };
    // All come while the first runs, which is over after 50 microseconds.
    assert_eq!(order([9, 1, 5, 1, 5]), [0, 2, 4, 1, 3]);
    // The one that comes second takes the core from the first, which goes on before others of its priority.
    assert_eq!(order([1, 9, 1, 1, 1]), [1, 0, 2, 3, 4]);
    assert_eq!(order([0, 0, 9, 0, 8])[..2], [2, 4]);
}

#[test]
fn a_thread_of_a_real_time_priority_is_not_preempted_by_normal_ones() {
    let (waited, report) = run(&with_slices(), &[0; 3], &[1, 0, 0], |thread| {
        sleep_until(50);
        let from = now_us();
        us(20_000);
        if thread == 0 { now_us() - from } else { now_us() }
    });
    assert!((20_000..20_010).contains(&waited[0]), "{waited:?}");
    assert!(waited[1] > 50_000 && waited[2] > 50_000, "{waited:?}");
    assert!(
        report.totals.context_switches > 4,
        "the normal ones take turns: {}",
        report.totals.context_switches
    );
}

/// A low thread is inside when a high one comes, and a middling one that needs no lock: how long the high one waits.
fn inversion<L: RawLock<M>>() -> u64 {
    const SECTION_US: u64 = 100;
    const MIDDLE_US: u64 = 5_000;
    let (waited, _) = {
        let hardware = hardware();
        let simulated = Simulation::new(&hardware).run(|| {
            let lock = placed::<L>();
            let waited = Placed::<_, M>::new(<M as Machine>::U64::ZERO, Home::FirstTouch);
            let plan = Plan { threads: 3, cores: &[0; 3], duration_ns: None, priorities: &[1, 2, 3] };
            M::run(&plan, &|thread| match thread {
                0 => section(&lock, SECTION_US),
                1 => {
                    sleep_until(60);
                    us(MIDDLE_US);
                }
                _ => {
                    sleep_until(50);
                    let from = now_us();
                    section(&lock, 10);
                    waited.store(now_us() - from, Relaxed);
                }
            });
            waited.load(Relaxed)
        });
        simulated.unwrap_or_else(|stopped| panic!("{stopped}"))
    };
    waited
}

#[test]
fn a_high_thread_waits_for_the_section_of_a_low_one_and_not_for_a_middling_one() {
    let (plain, inheriting) = (inversion::<Futex<M>>(), inversion::<RtMutex<M>>());
    assert!(
        plain > 5_000,
        "with a plain lock the middling thread keeps the low one from running: {plain} us"
    );
    assert!((50..300).contains(&inheriting), "{inheriting} us");
    assert!(inversion::<KernelMutex<M>>() > 5_000);
}

/// Low holds a; lower-middling holds b and waits for a; and so on: the high one waits for the last.
#[test]
fn a_priority_is_passed_on_along_a_chain_of_three_locks() {
    let wait = |links: usize| {
        let simulated = Simulation::new(&hardware()).run(|| {
            let locks: Vec<_> = (0..links).map(|_| placed::<RtMutex<M>>()).collect();
            let waited = Placed::<_, M>::new(<M as Machine>::U64::ZERO, Home::FirstTouch);
            let (middle, high) = (links, links + 1);
            let cores = vec![0; links + 2];
            let priorities: Vec<u8> = (1..=links as u8).chain([50, 60]).collect();
            let plan = Plan { threads: links + 2, cores: &cores, duration_ns: None, priorities: &priorities };
            M::run(&plan, &|thread| {
                if thread == middle {
                    sleep_until(2_000);
                    us(50_000);
                } else if thread == high {
                    sleep_until(1_900);
                    let from = now_us();
                    section(&locks[links - 1], 10);
                    waited.store(now_us() - from, Relaxed);
                } else {
                    // Each takes its own lock when those before it hold theirs.
                    sleep_until(100 + 200 * thread as u64);
                    locks[thread].acquire();
                    match thread.checked_sub(1) {
                        None => us(3_000),
                        Some(before) => section(&locks[before], 100),
                    }
                    // SAFETY: acquired above.
                    unsafe { locks[thread].release() };
                }
            });
            waited.load(Relaxed)
        });
        simulated.unwrap_or_else(|stopped| panic!("{stopped}")).0
    };
    let waits: Vec<_> = [1, 2, 3].map(wait).into();
    // Of the first section 1,200 us or more are left; each link adds its section.
    assert!(waits.iter().all(|&waited| (1_100..3_000).contains(&waited)), "{waits:?}");
    assert!(waits[0] < waits[1] && waits[1] < waits[2], "{waits:?}");
}

/// What an owner has inherited ends with its release: a middling thread then comes first.
#[test]
fn what_was_inherited_is_taken_back_at_the_release() {
    let (ended, _) = {
        let simulated = Simulation::new(&hardware()).run(|| {
            let (lock, other) = (placed::<RtMutex<M>>(), placed::<RtMutex<M>>());
            let ended: Vec<_> =
                (0..3).map(|_| Placed::<_, M>::new(<M as Machine>::U64::ZERO, Home::FirstTouch)).collect();
            let plan = Plan { threads: 3, cores: &[0; 3], duration_ns: None, priorities: &[1, 5, 9] };
            M::run(&plan, &|thread| {
                match thread {
                    0 => {
                        other.acquire();
                        section(&lock, 200);
                        us(300); // no more than a low thread now, although it holds another lock
                        // SAFETY: acquired above.
                        unsafe { other.release() };
                    }
                    1 => {
                        sleep_until(60);
                        us(400);
                    }
                    _ => {
                        sleep_until(50);
                        section(&lock, 10);
                    }
                }
                ended[thread].store(now_us(), Relaxed);
            });
            ended.iter().map(|word| word.load(Relaxed)).collect::<Vec<_>>()
        });
        simulated.unwrap_or_else(|stopped| panic!("{stopped}"))
    };
    assert!(ended[2] < 330, "{ended:?}");
    assert!(ended[1] < 800, "{ended:?}");
    assert!(ended[0] > ended[1], "{ended:?}");
}

/// A waiter that gives up takes back what it has lent. On the owner's own core it could not give up in time: the owner runs with
/// its priority, and equals do not preempt each other.
#[test]
fn what_was_lent_is_taken_back_when_the_waiter_gives_up() {
    let simulated = Simulation::new(&hardware()).run(|| {
        let lock = placed::<RtMutex<M>>();
        let ended: Vec<_> =
            (0..3).map(|_| Placed::<_, M>::new(<M as Machine>::U64::ZERO, Home::FirstTouch)).collect();
        let plan = Plan { threads: 3, cores: &[0, 0, 1], duration_ns: None, priorities: &[1, 5, 9] };
        M::run(&plan, &|thread| {
            match thread {
                0 => section(&lock, 1_000),
                1 => {
                    sleep_until(200);
                    us(500);
                }
                _ => {
                    sleep_until(50);
                    let deadline = Deadline { clock: Clock::Monotonic, at_ns: 300 * NS_PER_US };
                    let timeout = Timeout::at(deadline);
                    assert_eq!(lock.acquire_unless_denied(timeout), Err(Denied::GaveUp));
                    assert!(!lock.try_acquire());
                }
            }
            ended[thread].store(now_us(), Relaxed);
        });
        ended.iter().map(|word| word.load(Relaxed)).collect::<Vec<_>>()
    });
    let (ended, _) = simulated.unwrap_or_else(|stopped| panic!("{stopped}"));
    assert!((300..350).contains(&ended[2]), "{ended:?}");
    assert!((800..900).contains(&ended[1]), "it has the core from then on: {ended:?}");
    assert!(ended[0] > ended[1], "{ended:?}");
}

/// Who gets the lock when its owner has released it, a waiter that was woken is on its way, and another thread comes.
fn first_of(waiter: u8, newcomer: u8) -> usize {
    let simulated = Simulation::new(&hardware()).run(|| {
        let lock = placed::<RtMutex<M>>();
        let first = Placed::<_, M>::new(<M as Machine>::U32::ZERO, Home::FirstTouch);
        // The waiter's core is taken by a thread of a still higher priority when it is woken.
        let plan = Plan {
            threads: 4,
            cores: &[0, 1, 2, 1],
            duration_ns: None,
            priorities: &[1, waiter, newcomer, 99],
        };
        M::run(&plan, &|thread| match thread {
            0 => section(&lock, 300),
            3 => {
                sleep_until(200);
                us(400);
            }
            _ => {
                sleep_until(if thread == 1 { 50 } else { 400 });
                lock.acquire();
                _ = first.compare_exchange(0, thread as u32, Relaxed, Relaxed);
                us(10);
                // SAFETY: acquired above.
                unsafe { lock.release() };
            }
        });
        first.load(Relaxed) as usize
    });
    simulated.unwrap_or_else(|stopped| panic!("{stopped}")).0
}

#[test]
fn only_a_strictly_higher_priority_steals() {
    assert_eq!(first_of(5, 6), 2);
    assert_eq!(first_of(5, 5), 1);
    assert_eq!(first_of(5, 4), 1);
    assert_eq!(first_of(0, 0), 1);
}

#[test]
fn waiters_come_in_by_priority_and_within_one_in_order() {
    let simulated = Simulation::new(&hardware()).run(|| {
        let lock = placed::<RtMutex<M>>();
        let turn = Placed::<_, M>::new(<M as Machine>::U64::ZERO, Home::FirstTouch);
        let turns: Vec<_> =
            (0..6).map(|_| Placed::<_, M>::new(<M as Machine>::U64::ZERO, Home::FirstTouch)).collect();
        let plan = Plan {
            threads: 6,
            cores: &[0, 1, 2, 3, 4, 5],
            duration_ns: None,
            priorities: &[0, 3, 7, 0, 7, 3],
        };
        M::run(&plan, &|thread| {
            sleep_until(50 + 20 * thread as u64);
            lock.acquire();
            turns[thread].store(turn.fetch_add(1, Relaxed), Relaxed);
            us(if thread == 0 { 400 } else { 20 });
            // SAFETY: acquired above.
            unsafe { lock.release() };
        });
        turns.iter().map(|word| word.load(Relaxed)).collect::<Vec<_>>()
    });
    assert_eq!(simulated.unwrap_or_else(|stopped| panic!("{stopped}")).0, [0, 3, 1, 5, 2, 4]);
}

/// While the owner runs, the first waiter alone stays awake.
#[test]
fn the_first_waiter_alone_spins_and_only_while_the_owner_runs() {
    let sleeps = |waiters: usize, owner_is_preempted: bool| {
        let (_, report) = {
            let simulated = Simulation::new(&hardware()).run(|| {
                let lock = placed::<RtMutex<M>>();
                let mut cores: Vec<u32> = (0..=waiters as u32).collect();
                let mut priorities = vec![0; waiters + 1];
                if owner_is_preempted {
                    cores.push(0);
                    priorities.push(9);
                }
                let threads = cores.len();
                let plan = Plan { threads, cores: &cores, duration_ns: None, priorities: &priorities };
                M::run(&plan, &|thread| match thread {
                    0 => section(&lock, 300),
                    thread if thread > waiters => {
                        us(0);
                        sleep_until(20);
                        us(200);
                    }
                    _ => {
                        us(50 + 20 * thread as u64);
                        section(&lock, 5);
                    }
                });
            });
            simulated.unwrap_or_else(|stopped| panic!("{stopped}"))
        };
        report.totals.sleeps - u64::from(owner_is_preempted)
    };
    assert_eq!(sleeps(1, false), 0);
    assert_eq!(sleeps(3, false), 2);
    assert_eq!(sleeps(1, true), 1);
}

#[test]
fn a_deadlock_of_three_is_denied_to_the_thread_that_would_close_it() {
    let (denied, _) = {
        let simulated = Simulation::new(&hardware()).run(|| {
            let locks: Vec<_> = (0..3).map(|_| placed::<RtMutex<M>>()).collect();
            let denied = Placed::<_, M>::new(<M as Machine>::U64::ZERO, Home::FirstTouch);
            let plan = Plan { threads: 3, cores: &[0, 1, 2], duration_ns: None, priorities: &[3, 2, 1] };
            M::run(&plan, &|thread| {
                locks[thread].acquire();
                us(100 * (thread as u64 + 1));
                let next = &locks[(thread + 1) % 3];
                match next.acquire_unless_denied(Timeout::NONE) {
                    // SAFETY: acquired just now.
                    Ok(()) => unsafe { next.release() },
                    Err(why) => {
                        assert_eq!(why, Denied::Deadlock);
                        denied.fetch_add(1 << (8 * thread), Relaxed);
                    }
                }
                // SAFETY: acquired above.
                unsafe { locks[thread].release() };
            });
            assert!(locks.iter().all(|lock| lock.try_acquire()));
            denied.load(Relaxed)
        });
        simulated.unwrap_or_else(|stopped| panic!("{stopped}"))
    };
    assert_eq!(denied, 1 << 16, "the third comes last");
    let again = Simulation::new(&hardware()).run(|| {
        let lock = placed::<RtMutex<M>>();
        lock.acquire();
        lock.acquire_unless_denied(Timeout::NONE)
    });
    assert_eq!(again.unwrap_or_else(|stopped| panic!("{stopped}")).0, Err(Denied::Deadlock));
}

/// Many threads of all priorities that share cores, some of which give up: no thread gets in beside another, and all come to
/// their end.
#[test]
fn a_storm_of_time_outs_leaves_the_lock_free() {
    for seed in 1..=5 {
        let run = Simulation::new(&with_slices()).seed(seed).run(|| {
            let locks: Vec<_> = (0..3).map(|_| placed::<RtMutex<M>>()).collect();
            let count = Placed::<<M as Machine>::Cell<u64>, M>::new(PlainCell::ZERO, Home::FirstTouch);
            let cores: Vec<u32> = (0..16).map(|thread| thread % 5).collect();
            let priorities: Vec<u8> = (0..16).map(|thread| [0, 3, 1, 7][thread % 4]).collect();
            let plan = Plan { threads: 16, cores: &cores, duration_ns: None, priorities: &priorities };
            let run = M::run(&plan, &|thread| {
                for round in 0..20 {
                    let wait_ns = (thread as u64 * 7_919 + round * 104_729) % 60_000;
                    let timeout = Timeout::at(Deadline::after_ns::<M>(wait_ns));
                    // Always in one order, so that no thread waits for itself.
                    let held =
                        locks.iter().map(|lock| lock.acquire_unless_denied(timeout)).collect::<Vec<_>>();
                    if held[2].is_ok() {
                        M::note(Event::Operation);
                        count.set(count.get() + 1);
                        M::delay(7_000);
                    }
                    for (lock, held) in locks.iter().zip(held).rev() {
                        match held {
                            // SAFETY: acquired above.
                            Ok(()) => unsafe { lock.release() },
                            Err(why) => assert_eq!(why, Denied::GaveUp),
                        }
                    }
                }
            });
            assert!(locks.iter().all(|lock| lock.try_acquire()));
            assert_eq!(count.get(), run.operations());
            run.operations()
        });
        let (operations, _) = run.unwrap_or_else(|stopped| panic!("seed {seed}: {stopped}"));
        assert!((20..320).contains(&operations), "{operations}");
    }
}

#[test]
#[should_panic(expected = "thread 1 of the run may not have the real-time priority 100")]
fn a_priority_above_the_highest_is_refused() {
    run(&hardware(), &[0, 1], &[99, 100], |_| 0);
}
