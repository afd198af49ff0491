//! What a run tells a designer of locks: counters by line and by lock, and the trace; and what threads that share a
//! core do to them.

mod common;

use common::{M, count, hardware, hardware_with, with_slices};
use contend_simulator::report::LineCounts;
use contend_simulator::{Distance, Options, PS_PER_NS, Simulation};
use machine::{Clock, Event, Home, Integer, Machine, Ordering::Relaxed, Placed, Plan, Word};
use std::sync::atomic::AtomicU64;

type U64 = <M as Machine>::U64;

#[test]
fn misses_are_counted_by_distance() {
    // Core 0 writes; a neighbour, then a core of the other socket, read.
    let misses = |readers: &'static [usize]| {
        let body = || {
            let word = Placed::<_, M>::new(U64::ZERO, Home::Node(0));
            M::run(&Plan::threads(8), &|core| {
                if core == 0 {
                    word.store(1, Relaxed);
                }
                for (turn, _) in (1..).zip(readers).filter(|(_, reader)| **reader == core) {
                    M::delay(turn * 10_000 - M::now());
                    word.load(Relaxed);
                    word.load(Relaxed);
                }
            });
        };
        Simulation::new(&hardware()).run(body).unwrap().1.all_lines
    };
    let by = |counts: LineCounts, distance| counts.misses[distance as usize];
    let one = misses(&[1]);
    assert_eq!((by(one, Distance::Memory), by(one, Distance::SameDie), one.hits), (1, 1, 1));
    let both = misses(&[1, 4]);
    assert_eq!((by(both, Distance::SameDie), by(both, Distance::OneLink), both.hits), (1, 1, 2));
    assert_eq!((both.all_misses(), both.accesses(), both.home_requests, both.probes), (3, 5, 2, 1));
}

/// A lock is held while another is taken and given back within it.
#[test]
fn of_nested_locks_each_is_held_for_its_own_time() {
    let (_, report) = Simulation::new(&hardware())
        .run(|| {
            let words = [(); 2].map(|()| Placed::<_, M>::new(U64::ZERO, Home::Node(0)));
            M::run(&Plan::threads(1), &|_| {
                let [outer, inner] =
                    [&words[0], &words[1]].map(|word| std::ptr::from_ref::<U64>(word) as usize);
                let hold = |lock: usize, section: &dyn Fn()| {
                    M::note(Event::Acquiring { lock });
                    M::note(Event::Acquired { lock, shared: false });
                    section();
                    M::note(Event::Releasing { lock, shared: false });
                };
                hold(outer, &|| {
                    M::delay(1_000);
                    hold(inner, &|| M::delay(10));
                    M::delay(1_000);
                });
            });
        })
        .unwrap();
    let held = report.locks.iter().map(|lock| lock.held_ps).collect::<Vec<_>>();
    let (most, least) = (held.iter().max().unwrap(), held.iter().min().unwrap());
    assert!(most > &(50 * least), "{held:?}");
}

#[test]
fn locks_and_lines_are_counted() {
    let four_sockets =
        hardware_with("sockets = 2\n    cores_per_die = 4", "sockets = 4\n    cores_per_die = 2");
    let (run, report) = Simulation::new(&four_sockets).run(|| count::<locks::Ticket<M>>(8, 200, 0)).unwrap();
    let [lock] = report.locks[..] else { panic!("one lock was announced: {:?}", report.locks) };
    assert_eq!(lock.acquisitions, run.acquisitions());
    assert_eq!(
        report.lines.iter().map(|line| line.counts.accesses()).sum::<u64>(),
        report.all_lines.accesses()
    );
    assert!(
        report.lines.iter().any(|line| line.address == lock.address),
        "the lock lies on a line that was used"
    );
    // Eight threads that hardly do anything else: nearly all wait, and nearly all hand-overs are to another core.
    assert!(lock.contended > lock.acquisitions * 9 / 10 && lock.handovers > lock.acquisitions * 9 / 10);
    assert!(lock.from_other_core > lock.acquisitions / 2);
    assert!(lock.misses > lock.acquisitions && lock.miss_ps <= lock.wait_ps + lock.handover_ps);
    assert!(lock.wait_ps > lock.held_ps && lock.handover_ps > 0);
    // Sockets that want one line meet at its home.
    let all = report.all_lines;
    assert!(all.home_waits > 0 && all.home_wait_ps > 0 && all.die_waits > 0 && all.invalidations > 0);
    let alone = Simulation::new(&hardware()).run(|| count::<locks::Ticket<M>>(1, 200, 0)).unwrap().1;
    assert_eq!((alone.all_lines.home_waits, alone.locks[0].contended, alone.locks[0].handovers), (0, 0, 0));
}

#[test]
fn a_trace_has_what_each_core_did() {
    let options = Options { trace_records: 1_000, ..Options::default() };
    let (_, report, trace) =
        Simulation::new(&hardware()).options(options).traced(|| count::<locks::Ticket<M>>(3, 20, 0)).unwrap();
    // What Perfetto and Chrome ask of an event in this format.
    let text = trace.to_string();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let spans = events.iter().filter(|event| event["ph"] == "X").collect::<Vec<_>>();
    let end = report.elapsed_ns as f64 / 1000.0;
    for span in &spans {
        let (from, length) = (span["ts"].as_f64().unwrap(), span["dur"].as_f64().unwrap());
        assert!(from >= 0.0 && length >= 0.0 && from + length <= end + 0.001, "{span}");
        assert_eq!(span["pid"], span["tid"], "thread n is on core n: {span}");
    }
    let of = |category: &str, name: &str| {
        spans.iter().filter(|s| s["cat"] == category && s["name"].as_str().unwrap().starts_with(name)).count()
    };
    assert_eq!((of("lock", "hold"), of("lock", "wait for")), (60, 60));
    assert!(of("miss", "") > 60 && of("thread", "watches") > 0);
    let misses = spans.iter().filter(|span| span["cat"] == "miss").collect::<Vec<_>>();
    assert!(misses.iter().all(|miss| miss["args"]["site"].as_str().unwrap().contains(".rs:")));
    let cores = events.iter().filter(|event| event["name"] == "process_name").count();
    assert_eq!(cores, 3);
    let none = Simulation::new(&hardware()).traced(|| count::<locks::Ticket<M>>(3, 20, 0)).unwrap().2;
    assert!(none.is_null(), "a trace that nobody asked for");
}

/// Twice as many threads as cores: a thread that spins for a lock whose holder has lost its core, or behind a waiter
/// that has, spins until that one has a core again; a thread that sleeps leaves the core to others.
#[test]
fn a_preempted_holder_stops_those_who_spin_and_not_those_who_sleep() {
    let elapsed = |threads, spin| {
        let run = || match spin {
            true => count::<locks::Ticket<M>>(threads, 100, 2_000),
            false => count::<locks::Futex<M>>(threads, 100, 2_000),
        };
        let (run, report) = Simulation::new(&with_slices()).run(run).unwrap();
        (run.elapsed_ns as f64 / threads as f64, report.totals)
    };
    let (spin, _) = elapsed(8, true);
    let (spin_shared, totals) = elapsed(16, true);
    assert!(totals.context_switches > 50 && totals.sleeps == 0, "{totals:?}");
    let (sleep, _) = elapsed(8, false);
    let (sleep_shared, totals) = elapsed(16, false);
    assert!(totals.sleeps > 0 && totals.wakes > 0, "{totals:?}");
    let (worse, better) = (spin_shared / spin, sleep_shared / sleep);
    assert!(worse > 2.0 * better, "spinning: {worse:.2} times as long for a thread; sleeping: {better:.2}");
}

#[test]
fn a_switch_and_a_wake_up_cost_what_the_machine_says() {
    let hardware = with_slices();
    // Two threads on one core, 100 us of work each, in slices of 20 us: they take turns.
    let (run, report) = Simulation::new(&hardware)
        .run(|| {
            let own = [0, 1].map(|_| Placed::<_, M>::new(U64::ZERO, Home::Node(0)));
            M::run(&Plan::on(&[0, 0]), &|thread| {
                for _ in 0..200 {
                    M::delay(1_000);
                    own[thread].load(Relaxed);
                }
            })
        })
        .unwrap();
    let switches = report.totals.context_switches;
    assert!((9..=11).contains(&switches), "{switches}");
    let least = 200_000 + switches * hardware.context_switch / PS_PER_NS;
    let most = least + 2_000; // the loads;
    assert!((least..most).contains(&run.elapsed_ns), "{} ns, not {least} to {most}", run.elapsed_ns);
    // A sleeper runs a wake-up's latency after it was woken.
    let (run, _) = Simulation::new(&hardware)
        .run(|| {
            let word = Placed::<_, M>::new(<M as Machine>::U32::ZERO, Home::Node(0));
            M::run(&Plan::threads(2), &|thread| {
                if thread == 0 {
                    while word.load(Relaxed) == 0 {
                        M::sleep_while(&word, 0, machine::Timeout::NONE);
                    }
                } else {
                    M::delay(20_000);
                    word.fetch_add(1, Relaxed);
                    M::wake(&*word, 1);
                }
            })
        })
        .unwrap();
    let woken_ns = 10_000 + (hardware.system_call + hardware.wake) / PS_PER_NS;
    assert!((woken_ns..woken_ns + 1_000).contains(&run.elapsed_ns), "{} ns, not {woken_ns}", run.elapsed_ns);
}

#[test]
fn threads_that_may_move_run_where_nobody_else_does() {
    let hardware = with_slices();
    // Two threads that start on one core, 100 us of work each.
    let elapsed_ns = |threads_move| {
        let simulation = Simulation::new(&hardware).options(Options { threads_move, ..Options::default() });
        let (run, _) = simulation
            .run(|| {
                let own = [0, 1].map(|_| Placed::<_, M>::new(U64::ZERO, Home::Node(0)));
                M::run(&Plan::on(&[0, 0]), &|thread| {
                    for _ in 0..200 {
                        M::delay(1_000);
                        own[thread].load(Relaxed);
                    }
                })
            })
            .unwrap();
        run.elapsed_ns
    };
    let (pinned, moved) = (elapsed_ns(false), elapsed_ns(true));
    assert!((200_000..220_000).contains(&pinned), "{pinned} ns");
    assert!((100_000..103_000).contains(&moved), "{moved} ns");
}

#[test]
fn a_wake_up_costs_the_waker_and_a_busy_core_need_not_wake_first() {
    let hardware = with_slices();
    let woken_ns = |busy: bool| {
        let (waker_ns, sleeper_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        let run = || {
            let word = Placed::<_, M>::new(<M as Machine>::U32::ZERO, Home::Node(0));
            let own = Placed::<_, M>::new(U64::ZERO, Home::Node(0));
            let plan = Plan::on(&[0, 1, 0]);
            M::run(&plan, &|thread| match thread {
                0 => {
                    while word.load(Relaxed) == 0 {
                        M::sleep_while(&word, 0, machine::Timeout::NONE);
                    }
                    sleeper_ns.store(M::clock_ns(Clock::Monotonic), Relaxed);
                }
                1 => {
                    M::delay(80_000);
                    word.store(1, Relaxed);
                    let before = M::clock_ns(Clock::Monotonic);
                    M::wake(&*word, 1);
                    waker_ns.store(M::clock_ns(Clock::Monotonic) - before, Relaxed);
                }
                _ => {
                    for _ in 0..if busy { 200 } else { 0 } {
                        M::delay(1_000);
                        own.load(Relaxed);
                    }
                }
            });
        };
        Simulation::new(&hardware).run(run).unwrap();
        (waker_ns.into_inner(), sleeper_ns.into_inner())
    };
    let ns = |time: u64| time / PS_PER_NS;
    let call_ns = ns(hardware.system_call + hardware.wake_call);
    let ((call_idle, after_idle), (call_busy, after_busy)) = (woken_ns(false), woken_ns(true));
    assert!(
        (call_ns..call_ns + 2).contains(&call_idle) && call_busy == call_idle,
        "{call_idle}, {call_busy}"
    );
    // The busy core's thread has used up its slice.
    let sooner = after_idle - after_busy;
    let expected = ns(hardware.wake - hardware.context_switch);
    assert!(sooner.abs_diff(expected) < 1_000, "{sooner} ns sooner, not {expected}");
}

/// A thread that mostly sleeps and one that computes, on one core: each wake-up gives the sleeper the core at once, and not at the
/// end of the other's slice.
#[test]
fn who_mostly_sleeps_takes_the_core_when_it_is_woken() {
    let hardware = with_slices();
    const ROUNDS: u32 = 20;
    let latest_ns = AtomicU64::new(0);
    let run = || {
        let [asked, told] = [0, 1].map(|_| Placed::<_, M>::new(<M as Machine>::U32::ZERO, Home::Node(0)));
        let own = Placed::<_, M>::new(U64::ZERO, Home::Node(0));
        let asked_ns = AtomicU64::new(0);
        let plan = Plan::on(&[0, 1, 0]);
        M::run(&plan, &|thread| match thread {
            0 => {
                for round in 0..ROUNDS {
                    while asked.load(Relaxed) == round {
                        M::sleep_while(&asked, round, machine::Timeout::NONE);
                    }
                    let late_ns = M::clock_ns(Clock::Monotonic) - asked_ns.load(Relaxed);
                    // At first it has to wait for its turn.
                    if round > 1 {
                        latest_ns.fetch_max(late_ns, Relaxed);
                    }
                    told.fetch_add(1, Relaxed);
                }
            }
            1 => {
                for round in 0..ROUNDS {
                    M::delay(30_000);
                    asked_ns.store(M::clock_ns(Clock::Monotonic), Relaxed);
                    asked.fetch_add(1, Relaxed);
                    M::wake(&*asked, 1);
                    while told.load(Relaxed) == round {
                        M::delay(100);
                    }
                }
            }
            _ => {
                while told.load(Relaxed) < ROUNDS {
                    M::delay(500_000);
                    own.load(Relaxed);
                }
            }
        });
    };
    Simulation::new(&hardware).run(run).unwrap();
    let most_ns = (2 * hardware.context_switch + hardware.system_call + hardware.wake_call) / PS_PER_NS;
    assert!(latest_ns.load(Relaxed) < most_ns, "{latest_ns:?} ns, not {most_ns}");
}

/// A thread that loses its core on its way into the kernel's sleep is not missed by the thread that wakes it meanwhile.
#[test]
fn no_wake_up_is_lost_to_one_that_loses_its_core_before_it_sleeps() {
    let hardware = with_slices();
    // It sleeps about when its first slice ends, and is woken while the core's other thread runs.
    for offset in 0..2_000 {
        let run = || {
            let word = Placed::<_, M>::new(<M as Machine>::U32::ZERO, Home::Node(0));
            let plan = Plan::on(&[0, 1, 0]);
            M::run(&plan, &|thread| match thread {
                0 => {
                    M::delay(39_000 + offset);
                    while word.load(Relaxed) == 0 {
                        M::sleep_while(&word, 0, machine::Timeout::NONE);
                    }
                }
                1 => {
                    M::delay(60_000);
                    word.store(1, Relaxed);
                    M::wake(&*word, 1);
                }
                _ => M::delay(200_000),
            });
        };
        let done = Simulation::new(&hardware).run(run);
        assert!(done.is_ok(), "{offset}: {}", done.unwrap_err());
    }
}
