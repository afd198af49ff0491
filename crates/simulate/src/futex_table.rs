//! The shipped wait table as the simulated kernel's table of futexes.

use locks::{Spacing, WaitTable};
use machine::Home;
use simulator::{Futexes, Simulated};

/// Runs `body`, whose threads sleep and wake each other by way of a table of so many buckets, on a line each.
///
/// # Panics
/// Outside of a simulation, and in a thread of a simulated run.
pub fn with_futex_table<R>(buckets: usize, body: impl FnOnce() -> R) -> R {
    let table = WaitTable::<Simulated>::with_buckets(buckets, Spacing::Line, Home::FirstTouch);
    let futexes = Futexes {
        wait: &|word, expected, timeout| table.wait(word, expected, timeout),
        wake: &|word, count| table.wake(table.key_at(word), count),
    };
    futexes.during(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setup, sweep};
    use locks::{BUCKETS_FOR_EACH_CORE, Barrier, Condvar, Futex, GlibcMutex, RawLock, Semaphore, Timeout};
    use machine::Ordering::Relaxed;
    use machine::{Clock, Deadline, Event, Integer, Machine, Placed, PlainCell, Plan, Slept, Word};
    use session::progress::Unwatched;
    use simulator::{Hardware, PS_PER_NS, Simulation};
    use std::sync::Mutex;
    use topology::carried;

    type Word32 = <Simulated as Machine>::U32;
    type Cell = <Simulated as Machine>::Cell<u64>;

    const NS_PER_US: u64 = 1_000;

    fn machine(name: &str) -> Hardware {
        Hardware::new(&carried::machine(name)).expect("a machine")
    }

    fn simulated<R>(hardware: &Hardware, body: impl FnOnce() -> R) -> R {
        Simulation::new(hardware).run(body).unwrap_or_else(|stopped| panic!("{stopped}")).0
    }

    fn at_us(us: u64) -> Timeout<'static, Simulated> {
        Timeout::at(Deadline { clock: Clock::Monotonic, at_ns: us * NS_PER_US })
    }

    /// Lets the calling thread sleep until a time.
    fn sleep_until(us: u64) {
        let never = Placed::<_, Simulated>::new(Word32::ZERO, Home::FirstTouch);
        assert_eq!(Simulated::sleep_while(&never, 0, at_us(us)), Slept::GaveUp);
    }

    /// A thread sleeps for 20 µs at most, and another one wakes it at a time. Gives how the sleep ended, and how many were woken.
    fn woken_at_us(us: u64) -> (Slept, u32) {
        let (slept, woken) = (Mutex::new(None), Mutex::new(0));
        simulated(&machine("opteron-8x6"), || {
            with_futex_table(1, || {
                let word = Placed::<_, Simulated>::new(Word32::ZERO, Home::Node(0));
                Simulated::run(&Plan::threads(2), &|thread| {
                    if thread == 0 {
                        *slept.lock().unwrap() = Some(Simulated::sleep_while(&word, 0, at_us(20)));
                        assert_eq!(Simulated::wake(&raw const *word, 1), 0, "nobody is left in the list");
                    } else {
                        sleep_until(us);
                        *woken.lock().unwrap() = Simulated::wake(&raw const *word, 1);
                    }
                });
            });
        });
        (slept.into_inner().unwrap().expect("it has slept"), woken.into_inner().unwrap())
    }

    #[test]
    fn either_the_deadline_ends_a_sleep_or_a_wake_up() {
        let ends: Vec<_> = (0..40).map(woken_at_us).collect();
        let is_either = |&end: &_| end == (Slept::Woken, 1) || end == (Slept::GaveUp, 0);
        assert!(ends.iter().all(is_either), "{ends:?}");
        assert_eq!((ends[10].0, ends[39].0), (Slept::Woken, Slept::GaveUp));
        assert_eq!(ends[16].0, Slept::Woken, "its time is over, but it is not out of the list yet");
    }

    #[test]
    fn of_two_words_in_one_bucket_the_sleepers_of_one_are_woken() {
        let awake = Mutex::new(Vec::new());
        simulated(&machine("opteron-8x6"), || {
            with_futex_table(1, || {
                let words = Placed::<_, Simulated>::new([const { Word32::ZERO }; 2], Home::Node(0));
                Simulated::run(&Plan::threads(3), &|thread| {
                    if let Some(word) = words.get(thread) {
                        assert_eq!(Simulated::sleep_while(word, 0, Timeout::NONE), Slept::Woken);
                        awake.lock().unwrap().push(thread);
                        return;
                    }
                    for (number, word) in words.iter().enumerate().rev() {
                        sleep_until(50 * (2 - number as u64));
                        assert_eq!(Simulated::wake(word, u32::MAX), 1);
                    }
                });
            });
        });
        assert_eq!(awake.into_inner().unwrap(), [1, 0]);
    }

    #[test]
    fn threads_wait_in_it_for_conditions_permits_and_each_other() {
        const THREADS: usize = 12;
        const CORES: usize = 6;
        const ROUNDS: usize = 5;
        struct Shared {
            lock: Futex<Simulated>,
            next: Condvar<Simulated>,
            turn: Cell,
            permits: Semaphore<Simulated>,
            inside: Word32,
            round: Barrier<Simulated>,
        }
        let cores: [u32; THREADS] = std::array::from_fn(|thread| (thread % CORES) as u32);
        for buckets in [1, BUCKETS_FOR_EACH_CORE] {
            let turns = simulated(&machine("opteron-8x6"), || {
                with_futex_table(buckets, || {
                    let shared = Shared {
                        lock: Futex::NEW,
                        next: Condvar::new(),
                        turn: Cell::ZERO,
                        permits: Semaphore::new(2),
                        inside: Word32::ZERO,
                        round: Barrier::new(THREADS as u32),
                    };
                    let shared = Placed::<_, Simulated>::new(shared, Home::Node(0));
                    Simulated::run(&Plan::on(&cores), &|thread| {
                        for _ in 0..ROUNDS {
                            shared.permits.acquire();
                            assert!(shared.inside.fetch_add(1, Relaxed) < 2, "two permits");
                            Simulated::delay(5_000);
                            shared.inside.fetch_sub(1, Relaxed);
                            shared.permits.release(1);
                            shared.lock.acquire();
                            while shared.turn.get() % THREADS as u64 != thread as u64 {
                                // SAFETY: acquired above.
                                let waited = unsafe { shared.next.wait_raw(&shared.lock, Timeout::NONE) };
                                waited.expect("there is no deadline");
                            }
                            shared.turn.set(shared.turn.get() + 1);
                            shared.next.notify_all();
                            // SAFETY: acquired above, or by the wait.
                            unsafe { shared.lock.release() };
                            shared.round.wait();
                        }
                    });
                    shared.turn.get()
                })
            });
            assert_eq!(turns, (THREADS * ROUNDS) as u64);
        }
    }

    #[test]
    fn locks_that_sleep_run_on_it_with_more_threads_than_cores_the_same_way_each_time() {
        const LOCKS: [&str; 8] =
            ["futex", "adaptive", "rw", "kernel-mutex", "tp-futex", "rwsem", "glibc-mutex", "glibc-rwlock"];
        let counter = workloads::catalogue::find("counter").unwrap();
        let mut hardware = machine("opteron-8x6");
        // Threads lose their cores while they hold the lock, so that those that spin while the owner runs sleep, too.
        (hardware.time_slice, hardware.tick) = (10 * NS_PER_US * PS_PER_NS, 0);
        let setups = LOCKS.map(|lock| Setup {
            places: (0..24).map(|thread| thread % 8).collect(),
            duration_ns: 800_000,
            futex_buckets: Some(2),
            ..Setup::new(&hardware, counter, lock)
        });
        let [once, again] = [(); 2].map(|()| sweep(&setups, &Unwatched).expect("every lock runs"));
        for (one, other) in once.iter().zip(&again) {
            assert!(one.run.operations() > 0, "{}", one.lock);
            assert!(one.report.totals.sleeps > 0, "nobody sleeps for {}", one.lock);
            assert_eq!(one.json(false), other.json(false));
        }
    }

    /// Sections of 40 pairs of threads, each pair with a lock of its own.
    fn sections_of_pairs(buckets: Option<usize>) -> u64 {
        /// Of a section, and of the time between two of a thread.
        const CYCLES: u64 = 4_000;
        #[repr(align(64))]
        struct OnLine(GlibcMutex<Simulated>);
        let hardware = machine("cs900x8");
        let cores: Vec<u32> = (0..80).collect();
        let run = || {
            let lock = |_| Placed::<_, Simulated>::new(OnLine(GlibcMutex::NEW), Home::FirstTouch);
            let locks: Vec<_> = (0..cores.len() / 2).map(lock).collect();
            let run = Simulated::run(&Plan::on(&cores).lasting(500 * NS_PER_US), &|core| {
                while Simulated::running() {
                    locks[core / 2].0.critical(|| Simulated::delay(CYCLES));
                    Simulated::note(Event::Operation);
                    Simulated::delay(CYCLES);
                }
            });
            run.operations()
        };
        simulated(&hardware, || match buckets {
            Some(buckets) => with_futex_table(buckets, run),
            None => run(),
        })
    }

    #[test]
    fn locks_that_share_a_bucket_slow_each_other_down() {
        let many = BUCKETS_FOR_EACH_CORE * 128;
        let [one, some, many] = [1, 16, many].map(|buckets| sections_of_pairs(Some(buckets)) as f64);
        let fixed = sections_of_pairs(None) as f64;
        assert!(1.1 * one < some && 1.1 * some < many, "{one}, {some} and {many} sections");
        assert!((many / fixed - 1.0).abs() < 0.05, "{many} sections, {fixed} at fixed costs");
    }
}
