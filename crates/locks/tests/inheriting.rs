//! The mutex whose owner inherits, on the hardware.
#![cfg(not(miri))] // which has no priority-inheriting futexes

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use contend_locks::api::{InheritingMutex, InheritingMutexGuard};
use contend_locks::{Condvar, Denied, Futex, RawLock, RtMutex, TimedLock, TryLock};
use machine::{Clock, Deadline, HIGHEST_PRIORITY, Machine, Native, Patient, Plan, Timeout, Word};

fn for_ms<M: Machine>(ms: u64) -> Timeout<'static, M> {
    Timeout::at(Deadline::after::<M>(Duration::from_millis(ms)))
}

/// Whether another thread can take the lock.
fn is_free<M: Machine>(lock: &RtMutex<M>) -> bool {
    std::thread::scope(|scope| {
        let taken = || {
            let taken = lock.try_acquire();
            if taken {
                // SAFETY: acquired just now.
                unsafe { lock.release() };
            }
            taken
        };
        scope.spawn(taken).join().expect("no panic")
    })
}

fn excludes<M: Machine>() {
    const ROUNDS: u64 = 2_000;
    let (lock, inside, count) = (RtMutex::<M>::NEW, AtomicBool::new(false), AtomicU64::new(0));
    M::run(&Plan::threads(8), &|thread| {
        for round in 0..ROUNDS / 8 {
            let taken = match (thread as u64 + round) % 3 {
                0 => lock.try_acquire(),
                1 => lock.acquire_or(for_ms(1)).is_ok(),
                _ => {
                    lock.acquire();
                    true
                }
            };
            if taken {
                assert!(!inside.swap(true, SeqCst));
                count.fetch_add(1, SeqCst);
                if round % 16 == 0 {
                    std::thread::yield_now();
                }
                inside.store(false, SeqCst);
                // SAFETY: acquired above.
                unsafe { lock.release() };
            }
        }
    });
    assert!(count.into_inner() >= ROUNDS / 3 - 8);
    assert!(is_free(&lock) && lock.is_idle());
}

#[test]
fn it_excludes() {
    excludes::<Native>();
    excludes::<Patient>();
}

#[test]
fn waits_end_at_their_deadlines_and_when_they_are_called_off() {
    let lock = RtMutex::<Patient>::NEW;
    let cancel = <Patient as Machine>::U32::ZERO;
    lock.acquire();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for clock in [Clock::Monotonic, Clock::Realtime] {
                for wait_ns in [0, 2_000_000] {
                    let at_ns = Patient::clock_ns(clock) + wait_ns;
                    assert!(lock.acquire_or(Timeout::at(Deadline { clock, at_ns })).is_err());
                    assert!(Patient::clock_ns(clock) >= at_ns);
                }
            }
            assert!(lock.acquire_or(Timeout::at(Deadline { clock: Clock::Monotonic, at_ns: 0 })).is_err());
            assert!(!lock.try_acquire());
        });
        let called_off = scope.spawn(|| lock.acquire_or(Timeout::cancelled_by(&cancel)));
        std::thread::sleep(Duration::from_millis(3));
        assert!(!called_off.is_finished());
        cancel.store(1, machine::Ordering::Relaxed);
        assert!(called_off.join().expect("no panic").is_err());
    });
    // SAFETY: acquired above.
    unsafe { lock.release() };
    // A free lock is taken whatever the timeout.
    let past = Timeout::at(Deadline { clock: Clock::Monotonic, at_ns: 0 });
    assert!(lock.acquire_or(past).is_ok());
    // SAFETY: acquired above.
    unsafe { lock.release() };
    assert!(lock.is_idle());
}

#[test]
fn a_storm_of_time_outs_leaves_the_lock_free() {
    let lock = RtMutex::<Patient>::NEW;
    let (inside, count) = (AtomicU64::new(0), AtomicU64::new(0));
    let run = Patient::run(&Plan::threads(12), &|thread| {
        for round in 0..60 {
            let wait_ns = (thread as u64 * 7_919 + round * 104_729) % 60_000;
            if lock.acquire_or(Timeout::at(Deadline::after_ns::<Patient>(wait_ns))).is_ok() {
                Patient::note(machine::Event::Operation);
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                count.fetch_add(1, SeqCst);
                Patient::delay(20_000);
                inside.fetch_sub(1, SeqCst);
                // SAFETY: acquired above.
                unsafe { lock.release() };
            }
        }
        lock.acquire();
        Patient::note(machine::Event::Operation);
        count.fetch_add(1, SeqCst);
        // SAFETY: acquired above.
        unsafe { lock.release() };
    });
    assert_eq!(count.into_inner(), run.operations());
    assert!(is_free(&lock));
}

#[test]
fn deadlocks_are_denied() {
    let locks = [RtMutex::<Patient>::NEW, RtMutex::<Patient>::NEW, RtMutex::<Patient>::NEW];
    let denied = AtomicU64::new(0);
    let all_hold = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (locks, denied, all_hold) = (&locks, &denied, &all_hold);
            scope.spawn(move || {
                locks[thread].acquire();
                all_hold.wait();
                let next = &locks[(thread + 1) % 3];
                match next.acquire_unless_denied(Timeout::NONE) {
                    // SAFETY: acquired just now.
                    Ok(()) => unsafe { next.release() },
                    Err(why) => {
                        assert_eq!(why, Denied::Deadlock);
                        denied.fetch_add(1, SeqCst);
                    }
                }
                // SAFETY: acquired above.
                unsafe { locks[thread].release() };
            });
        }
    });
    assert!(denied.into_inner() >= 1, "or nobody would have come here");
    assert!(locks.iter().all(is_free));
    let again = catch_unwind(AssertUnwindSafe(|| {
        locks[0].acquire();
        locks[0].acquire();
    }));
    let message = again.expect_err("the thread holds it already");
    assert!(message.downcast_ref::<&str>().is_some_and(|text| text.starts_with("deadlock")));
    // SAFETY: acquired above, once.
    unsafe { locks[0].release() };
    assert!(is_free(&locks[0]));
}

#[test]
fn the_lock_of_a_thread_that_has_ended_lets_nobody_in() {
    let (lock, waited_for) = (RtMutex::<Patient>::NEW, RtMutex::<Patient>::NEW);
    std::thread::scope(|scope| {
        scope.spawn(|| lock.acquire()).join().expect("no panic");
    });
    assert_eq!(lock.acquire_unless_denied(for_ms(1_000)), Err(Denied::OwnerDied));
    assert!(!lock.try_acquire());
    // The same with a waiter that is there before the owner ends.
    let is_held = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            waited_for.acquire();
            is_held.wait();
            std::thread::sleep(Duration::from_millis(5));
        });
        is_held.wait();
        assert_eq!(waited_for.acquire_unless_denied(Timeout::NONE), Err(Denied::OwnerDied));
    });
    assert!(!is_free(&waited_for));
}

/// The first of those that wait learns of the end and lives on, while another one waits already and more come.
#[test]
fn whoever_comes_after_the_owner_has_ended_does_not_wait() {
    let lock = RtMutex::<Patient>::NEW;
    let (is_held, one_knows) = (std::sync::Barrier::new(3), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lock.acquire();
            is_held.wait();
            std::thread::sleep(Duration::from_millis(10));
        });
        let known = AtomicU64::new(0);
        let waits = || {
            is_held.wait();
            assert_eq!(lock.acquire_unless_denied(Timeout::NONE), Err(Denied::OwnerDied));
            if known.fetch_add(1, SeqCst) == 0 {
                one_knows.wait();
                // This thread is not the owner, whatever the kernel takes it for.
                let again = (lock.acquire_unless_denied(Timeout::NONE), lock.try_acquire());
                one_knows.wait();
                assert_eq!(again, (Err(Denied::OwnerDied), false));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(waits);
            scope.spawn(waits);
            scope.spawn(|| {
                one_knows.wait();
                let late = (lock.acquire_unless_denied(for_ms(1_000)), lock.try_acquire());
                one_knows.wait();
                assert_eq!(late, (Err(Denied::OwnerDied), false));
            });
        });
    });
    assert_eq!(lock.acquire_unless_denied(for_ms(1_000)), Err(Denied::OwnerDied));
}

#[test]
fn a_release_by_another_thread_panics_and_changes_nothing() {
    let word = <Patient as Machine>::U32::ZERO;
    assert_eq!(Patient::acquire_inheriting(&word, Timeout::NONE), Ok(()));
    let others = std::thread::scope(|scope| scope.spawn(|| Patient::release_inheriting(&word)).join());
    assert!(others.is_err());
    assert_eq!(word.load(machine::Ordering::Relaxed), Patient::owner());
    Patient::release_inheriting(&word);
    assert_eq!(word.load(machine::Ordering::Relaxed), 0);
}

/// The thread that forks holds one lock, for which others wait, and another one that no thread wants.
#[test]
fn a_child_of_a_fork_releases_what_its_thread_had_and_goes_on() {
    let (wanted, unwanted, free) =
        (RtMutex::<Patient>::NEW, RtMutex::<Patient>::NEW, RtMutex::<Patient>::NEW);
    std::thread::scope(|scope| {
        wanted.acquire();
        unwanted.acquire();
        scope.spawn(|| {
            wanted.acquire();
            // SAFETY: acquired above.
            unsafe { wanted.release() };
        });
        std::thread::sleep(Duration::from_millis(5));
        // SAFETY: the child takes locks and makes threads, both of which work in a child of glibc's fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the parent's thread had acquired them.
            unsafe {
                wanted.release();
                unwanted.release();
            }
            let all = [&wanted, &unwanted, &free];
            let mut right = all.iter().all(|lock| lock.try_acquire());
            // Held by the child now, as the kernel sees it.
            right &=
                all.iter().all(|lock| lock.acquire_unless_denied(Timeout::NONE) == Err(Denied::Deadlock));
            all.iter().for_each(|lock| {
                // SAFETY: acquired above.
                unsafe { lock.release() };
            });
            right &= all.iter().all(|lock| lock.is_idle());
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if right { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        // SAFETY: acquired above.
        unsafe { wanted.release() };
        // SAFETY: acquired above.
        unsafe { unwanted.release() };
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
    });
    assert!([&wanted, &unwanted, &free].into_iter().all(is_free));
}

#[test]
fn it_protects_a_value_and_a_condition_variable_waits_with_it() {
    let (jobs, lock, more) =
        (InheritingMutex::<Vec<u32>>::default(), RtMutex::<Patient>::NEW, Condvar::<Patient>::new());
    let ready = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lock.acquire();
            while !ready.load(SeqCst) {
                // SAFETY: acquired above.
                unsafe { more.wait_raw(&lock, Timeout::NONE) }.expect("there is no timeout");
            }
            // SAFETY: held again.
            unsafe { lock.release() };
            jobs.lock().push(2);
        });
        jobs.lock().push(1);
        lock.acquire();
        ready.store(true, SeqCst);
        // SAFETY: acquired above.
        unsafe { lock.release() };
        more.notify_one();
    });
    assert!(jobs.try_lock_for(Duration::from_millis(1)).is_some());
    assert_eq!(jobs.into_inner(), [1, 2]);
}

/// Three threads of one core: the low one is inside when the high one comes, and then the middling one, which needs no lock. Whether
/// the middling one came to its end before the high one got in.
fn is_inverted<L: RawLock<Patient>>() -> bool {
    let now = || Patient::clock_ns(Clock::Monotonic);
    let sleep = |ms| std::thread::sleep(Duration::from_millis(ms));
    let (lock, low_is_in, high_waits) = (L::NEW, AtomicBool::new(false), AtomicBool::new(false));
    let (middling_has_run, inverted) = (AtomicBool::new(false), AtomicBool::new(false));
    let core = Patient::topology().places[0].core;
    let lowest = HIGHEST_PRIORITY - 60;
    let plan = Plan {
        threads: 3,
        cores: &[core; 3],
        duration_ns: None,
        priorities: &[lowest, lowest + 1, lowest + 2],
    };
    Patient::run(&plan, &|thread| match thread {
        0 => {
            lock.acquire();
            low_is_in.store(true, SeqCst);
            // Until both others have come, and some work more.
            while !high_waits.load(SeqCst) {
                std::hint::spin_loop();
            }
            let end = now() + 20_000_000;
            while now() < end {}
            // SAFETY: acquired above.
            unsafe { lock.release() };
        }
        1 => {
            while !high_waits.load(SeqCst) {
                sleep(1);
            }
            let end = now() + 50_000_000;
            while now() < end {}
            middling_has_run.store(true, SeqCst);
        }
        _ => {
            while !low_is_in.load(SeqCst) {
                sleep(1);
            }
            high_waits.store(true, SeqCst);
            lock.acquire();
            inverted.store(middling_has_run.load(SeqCst), SeqCst);
            // SAFETY: acquired above.
            unsafe { lock.release() };
        }
    });
    inverted.into_inner()
}

/// Whether this user may have threads of real-time priorities.
fn may_have_priorities() -> bool {
    let run = || Patient::run(&Plan { priorities: &[HIGHEST_PRIORITY], ..Plan::threads(1) }, &|_| ());
    catch_unwind(run).is_ok()
}

#[test]
fn a_high_priority_does_not_wait_for_a_middling_one() {
    if !may_have_priorities() {
        eprintln!(
            "not tested: this user may not have threads of SCHED_FIFO (see RLIMIT_RTPRIO and CAP_SYS_NICE)"
        );
        return;
    }
    assert!(is_inverted::<Futex>(), "with a plain lock the middling thread keeps the low one from running");
    assert!(!is_inverted::<RtMutex>());
}

/// `unlocked` takes the mutex back while its guard lives: caught, a panic would leave two threads inside.
#[test]
fn an_acquisition_by_a_guard_that_is_denied_ends_the_program() {
    const CHILD: &str = "CONTEND_IS_DENIED";
    let name = "an_acquisition_by_a_guard_that_is_denied_ends_the_program";
    if std::env::var_os(CHILD).is_some() {
        let mutex: InheritingMutex<()> = InheritingMutex::new(());
        let mut guard = mutex.lock();
        let denied = catch_unwind(AssertUnwindSafe(|| {
            InheritingMutexGuard::unlocked(&mut guard, || core::mem::forget(mutex.lock()));
        }));
        println!("caught: {}", denied.is_err());
        std::process::exit(0);
    }
    let program = std::env::current_exe().expect("a path");
    let ended =
        std::process::Command::new(program).args(["--exact", name, "--nocapture"]).env(CHILD, "1").output();
    let ended = ended.expect("it starts");
    let (printed, told) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended.status), Some(6), "{printed}{told}");
    assert!(!printed.contains("caught") && told.contains("deadlock"), "{printed}{told}");
}
