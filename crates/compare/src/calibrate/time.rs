//! What the hardware's hand-overs cost, timed on pinned threads.
//!
//! Each quantity is timed in many short batches, so that few of them are interrupted; the figure is the median batch,
//! its range the middle four fifths.

use locks::{RawLock, Ticket};
use machine::{Clock, Integer, Machine, Native, Ordering, PlainCell, Plan, Timeout, Word};
use report::Spread;
use std::sync::Mutex;

type U32 = <Native as Machine>::U32;
type U64 = <Native as Machine>::U64;

/// A word on lines of its own: 128 bytes, since neighbouring lines are fetched in pairs on x86-64.
#[repr(align(128))]
struct Line<W>(W);

fn now_ns() -> u64 {
    Native::clock_ns(Clock::Monotonic)
}

/// The median and the middle four fifths of a sample; none of nothing.
pub fn middle(sample: &[f64]) -> Option<Spread> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted.get((share * (sorted.len() as f64 - 1.0)).round() as usize).copied();
    Some(Spread { low: at(0.1)?, median: at(0.5)?, high: at(0.9)? })
}

/// Cycles of the cycle counter in a nanosecond.
pub fn counter_ghz() -> Vec<f64> {
    const BATCHES: usize = 11;
    const BATCH_NS: u64 = 5_000_000;
    let batch = |_| {
        let (cycles, start_ns) = (Native::now(), now_ns());
        while now_ns() - start_ns < BATCH_NS {
            std::hint::spin_loop();
        }
        Native::now().wrapping_sub(cycles) as f64 / (now_ns() - start_ns) as f64
    };
    (0..BATCHES).map(batch).collect()
}

/// One way of a modified line between two cores, in ns: half of the round trip of a word that two threads change in
/// turn by compare-and-swap, as the public core-to-core matrices time it.
pub fn transfer_ns(cores: [u32; 2]) -> Vec<f64> {
    const BATCHES: u32 = 600;
    const ROUND_TRIPS: u32 = 100;
    let word = Line(U32::ZERO);
    let sample = Mutex::new(Vec::new());
    Native::run(&Plan::on(&cores), &|thread| {
        let mut mine = Vec::new();
        for batch in 0..BATCHES {
            let start_ns = now_ns();
            for trip in 0..ROUND_TRIPS {
                // Even values let thread 0 write, odd ones thread 1. No pause: it would be timed along.
                let turn = 2 * (batch * ROUND_TRIPS + trip) + thread as u32;
                while word.0.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {}
            }
            mine.push((now_ns() - start_ns) as f64 / f64::from(2 * ROUND_TRIPS));
        }
        if thread == 0 {
            // The first batch holds the start of the other thread.
            sample.lock().expect("no holder panics").extend(mine.drain(1..));
        }
    });
    sample.into_inner().expect("no holder panics")
}

/// An atomic addition to a line in the core's own cache, in ns.
pub fn local_atomic_ns(core: u32) -> Vec<f64> {
    const OPERATIONS: u32 = 10_000;
    let word = Line(U64::ZERO);
    batches(core, || {
        for _ in 0..OPERATIONS {
            word.0.fetch_add(1, Ordering::AcqRel);
        }
        OPERATIONS
    })
}

/// A ticket lock's acquisition and release by one core alone, in ns.
pub fn lone_ticket_ns(core: u32) -> Vec<f64> {
    const PAIRS: u32 = 10_000;
    let lock = Line(Ticket::<Native>::NEW);
    batches(core, || {
        for _ in 0..PAIRS {
            lock.0.acquire();
            // SAFETY: acquired above.
            unsafe { lock.0.release() };
        }
        PAIRS
    })
}

/// The hint that a waiter gives between two polls, in ns.
pub fn pause_ns(core: u32) -> Vec<f64> {
    const HINTS: u32 = 2_000;
    batches(core, || {
        (0..HINTS).for_each(|_| std::hint::spin_loop());
        HINTS
    })
}

/// A futex call that finds no thread to wake, in ns.
pub fn system_call_ns(core: u32) -> Vec<f64> {
    const CALLS: u32 = 200;
    let word = Line(U32::ZERO);
    batches(core, || {
        for _ in 0..CALLS {
            Native::wake(&raw const word.0, 1);
        }
        CALLS
    })
}

/// A load that the core's own cache answers, in ns.
pub fn cached_load_ns(core: u32) -> Vec<f64> {
    walk_ns(core, 64)
}

/// A line from memory, in ns: of 128 MiB, which is more than most caches hold.
pub fn memory_ns(core: u32) -> Vec<f64> {
    walk_ns(core, 1 << 20)
}

/// A step of a random walk through so many pairs of lines, in ns: each step needs the one before.
fn walk_ns(core: u32, pairs: usize) -> Vec<f64> {
    const STEPS: u32 = 4_000;
    let mut next: Vec<Line<u32>> = (0..pairs as u32).map(Line).collect();
    // One cycle through all (Sattolo's shuffle), by a fixed linear congruential sequence.
    let mut random = 1_u64;
    for last in (1..pairs).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        next.swap(last, (random >> 33) as usize % last);
    }
    let at = Line(U32::ZERO);
    batches(core, || {
        let start = at.0.load(Ordering::Relaxed);
        let end = (0..STEPS).fold(start, |line, _| next[line as usize].0);
        at.0.store(end, Ordering::Relaxed);
        STEPS
    })
}

/// How fast a core computes while another one does, relative to alone: one if nothing is shared, about 0.6 for two hardware
/// threads of a core.
pub fn together(cores: [u32; 2]) -> Option<f64> {
    const STEPS: u64 = 400_000;
    let mixed = |thread: u64| {
        let start_ns = now_ns();
        // Independent chains of multiplications and additions, which keep a core's units busy.
        let mut chains = [thread, 1, 2, 3];
        for step in 0..STEPS {
            for chain in &mut chains {
                *chain = chain.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step) ^ (*chain >> 29);
            }
        }
        std::hint::black_box(chains);
        (now_ns() - start_ns) as f64
    };
    let took = |cores: &[u32]| {
        let sample = Mutex::new(Vec::new());
        Native::run(&Plan::on(cores), &|thread| {
            // The first round starts both, and the last may see the other end.
            let rounds: Vec<_> = (0..5).map(|_| mixed(thread as u64)).collect();
            sample.lock().expect("no holder panics").extend_from_slice(&rounds[1..4]);
        });
        middle(&sample.into_inner().expect("no holder panics")).map(|spread| spread.median)
    };
    let (alone, both) = (took(&cores[..1])?, took(&cores)?);
    Some((alone / both).clamp(0.25, 1.0))
}

/// Nanoseconds for each of the operations that `batch` says it has done, on one core.
fn batches(core: u32, batch: impl Fn() -> u32 + Sync) -> Vec<f64> {
    const BATCHES: usize = 40;
    let sample = Mutex::new(Vec::new());
    Native::run(&Plan::on(&[core]), &|_| {
        batch();
        for _ in 0..BATCHES {
            let start_ns = now_ns();
            let operations = batch();
            let elapsed_ns = (now_ns() - start_ns) as f64;
            sample.lock().expect("no holder panics").push(elapsed_ns / f64::from(operations));
        }
    });
    sample.into_inner().expect("no holder panics")
}

/// A lock and the number of its acquisitions, which it protects, on one line.
#[repr(align(128))]
struct Counted {
    lock: Ticket<Native>,
    acquisitions: <Native as Machine>::Cell<u64>,
}

/// Time from one acquisition of a ticket lock to the next when every one of `cores` always wants it, in ns: with k
/// cores, k - 1 wait at each release. Empty where some core never got to run together with the others.
pub fn contended_ticket_ns(cores: &[u32]) -> Vec<f64> {
    const DURATION_NS: u64 = 60_000_000;
    const ACQUISITIONS: u64 = 100;
    /// The lock is first in, first out: while one core acquires it once, each of the others does. In a batch with
    /// fewer acquisitions than this share of that, a core was away.
    const PRESENT: f64 = 0.98;
    let counted = Counted { lock: Ticket::NEW, acquisitions: PlainCell::ZERO };
    let acquire = || {
        counted.lock.acquire();
        let number = counted.acquisitions.get() + 1;
        counted.acquisitions.set(number);
        // SAFETY: acquired above.
        unsafe { counted.lock.release() };
        number
    };
    let full = PRESENT * (ACQUISITIONS * cores.len() as u64) as f64;
    let sample = Mutex::new(Vec::new());
    let plan = Plan::on(cores).lasting(DURATION_NS);
    Native::run(&plan, &|thread| {
        let mut mine = Vec::new();
        while Native::running() {
            let (first, start_ns) = (acquire(), now_ns());
            let last = (0..ACQUISITIONS).fold(first, |_, _| acquire());
            let (all, elapsed_ns) = ((last - first) as f64, (now_ns() - start_ns) as f64);
            if all >= full {
                mine.push(elapsed_ns / all);
            }
        }
        if thread == 0 {
            sample.lock().expect("no holder panics").extend(mine);
        }
    });
    sample.into_inner().expect("no holder panics")
}

/// What wake-ups of a sleeper on another core take, in ns.
pub struct WakeUps {
    /// From the call until the sleeper runs.
    pub latency_ns: Vec<f64>,
    /// The call alone: the waker goes on after it.
    pub call_ns: Vec<f64>,
}

/// Wakes a sleeper on the second core from the first, again and again. Whatever else runs there only adds to the latency, so that
/// of some rounds the quietest counts.
pub fn wake_ups(cores: [u32; 2]) -> WakeUps {
    const ROUNDS: usize = 5;
    let median = |sample: &[f64]| middle(sample).map_or(f64::INFINITY, |spread| spread.median);
    let rounds = (0..ROUNDS).map(|_| round_of_wake_ups(cores));
    rounds.min_by(|a, b| median(&a.latency_ns).total_cmp(&median(&b.latency_ns))).expect("there are rounds")
}

fn round_of_wake_ups(cores: [u32; 2]) -> WakeUps {
    const WAKE_UPS: u32 = 100;
    /// How long the sleeper sleeps, in turn: cores that idle longer sleep deeper, but who waits for a lock seldom sleeps long.
    const SLEEPS_NS: [u64; 3] = [20_000, 50_000, 200_000];
    let word = Line(U32::ZERO);
    let called_ns = Line(U64::ZERO);
    let asleep = Line(U32::ZERO);
    let samples = [Mutex::new(Vec::new()), Mutex::new(Vec::new())];
    Native::run(&Plan::on(&cores), &|thread| {
        let mut mine = Vec::new();
        for turn in 1..=WAKE_UPS {
            if thread == 0 {
                Native::spin_until(&asleep.0, Ordering::Acquire, |sleeps| sleeps == turn);
                let until_ns = now_ns() + SLEEPS_NS[turn as usize % SLEEPS_NS.len()];
                while now_ns() < until_ns {
                    std::hint::spin_loop();
                }
                called_ns.0.store(now_ns(), Ordering::Relaxed);
                word.0.store(turn, Ordering::Release);
                let before_ns = now_ns();
                let woken = Native::wake(&raw const word.0, 1);
                if woken == 1 {
                    mine.push(now_ns().saturating_sub(before_ns) as f64);
                }
            } else {
                asleep.0.store(turn, Ordering::Release);
                while word.0.load(Ordering::Acquire) != turn {
                    Native::sleep_while(&word.0, turn - 1, Timeout::NONE);
                }
                mine.push(now_ns().saturating_sub(called_ns.0.load(Ordering::Relaxed)) as f64);
            }
        }
        samples[thread].lock().expect("no holder panics").extend(mine);
    });
    let [call_ns, latency_ns] = samples.map(|sample| sample.into_inner().expect("no holder panics"));
    WakeUps { latency_ns, call_ns }
}

/// One thread wakes another on its own core and goes to sleep, in ns: half of the round trip.
pub fn context_switch_ns(core: u32) -> Vec<f64> {
    const BATCHES: u32 = 30;
    const ROUND_TRIPS: u32 = 200;
    let word = Line(U32::ZERO);
    let sample = Mutex::new(Vec::new());
    Native::run(&Plan::on(&[core, core]), &|thread| {
        let mut mine = Vec::new();
        for batch in 0..BATCHES {
            let start_ns = now_ns();
            for trip in 0..ROUND_TRIPS {
                let turn = 2 * (batch * ROUND_TRIPS + trip) + thread as u32;
                loop {
                    match word.0.load(Ordering::Acquire) {
                        value if value == turn => break,
                        value => drop(Native::sleep_while(&word.0, value, Timeout::NONE)),
                    }
                }
                word.0.store(turn + 1, Ordering::Release);
                Native::wake(&raw const word.0, 1);
            }
            mine.push((now_ns() - start_ns) as f64 / f64::from(2 * ROUND_TRIPS));
        }
        if thread == 0 {
            sample.lock().expect("no holder panics").extend(mine.drain(1..));
        }
    });
    sample.into_inner().expect("no holder panics")
}

/// c by least squares through (cores that want the lock, ns an acquisition) under t_k = s + c (k - 1)/2: twice the
/// slope. None with fewer than two different numbers of cores, or where the time does not rise.
pub fn waiter_cost_ns(times: &[(u32, f64)]) -> Option<f64> {
    let count = times.len() as f64;
    let (mean_cores, mean_ns) =
        times.iter().fold((0.0, 0.0), |(cores, ns), &(k, t)| (cores + f64::from(k) / count, ns + t / count));
    let (mut together, mut alone) = (0.0, 0.0);
    for &(cores, ns) in times {
        together += (f64::from(cores) - mean_cores) * (ns - mean_ns);
        alone += (f64::from(cores) - mean_cores).powi(2);
    }
    Some(2.0 * together / alone).filter(|cost| cost.is_finite() && *cost > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_leaves_out_what_was_interrupted() {
        let mut sample: Vec<f64> = (0..=20).map(f64::from).collect();
        sample[20] = 1e9;
        assert_eq!(middle(&sample), Some(Spread { low: 2.0, median: 10.0, high: 18.0 }));
        assert_eq!(middle(&[]), None);
        assert_eq!(middle(&[3.0]).map(|s| (s.low, s.high)), Some((3.0, 3.0)));
    }

    #[test]
    fn waiter_cost_is_twice_the_slope() {
        let line = |k: u32| (k, 50.0 + 12.0 * (f64::from(k) - 1.0) / 2.0);
        let cost = waiter_cost_ns(&[line(2), line(3), line(8)]).unwrap();
        assert!((cost - 12.0).abs() < 1e-9);
        assert_eq!(waiter_cost_ns(&[line(2)]), None);
        assert_eq!(waiter_cost_ns(&[line(2), line(2)]), None);
        assert_eq!(waiter_cost_ns(&[(2, 50.0), (3, 40.0)]), None, "a falling time has no cost");
        assert_eq!(waiter_cost_ns(&[]), None);
    }

    /// Two cores are needed, and not more; what is measured is not asserted.
    #[test]
    fn every_measurement_ends_with_values() {
        let places = Native::topology().places;
        let first = places[0].core;
        for sample in [
            local_atomic_ns(first),
            lone_ticket_ns(first),
            context_switch_ns(first),
            pause_ns(first),
            system_call_ns(first),
            memory_ns(first),
            cached_load_ns(first),
        ] {
            assert!(!sample.is_empty() && sample.iter().all(|ns| *ns > 0.0));
        }
        if let [a, b, ..] = places[..] {
            let cores = [a.core, b.core];
            let WakeUps { latency_ns, call_ns } = wake_ups(cores);
            for sample in [transfer_ns(cores), latency_ns, call_ns] {
                assert!(!sample.is_empty() && sample.iter().all(|ns| *ns >= 0.0));
            }
            assert!(together(cores).is_some_and(|share| share > 0.0));
            // Empty where the two never run together.
            assert!(contended_ticket_ns(&cores).iter().all(|ns| *ns > 0.0));
        }
    }
}
