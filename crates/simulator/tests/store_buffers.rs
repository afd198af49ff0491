//! What store buffers do: the orders of TSO, what retires and what waits, and how long a writer keeps its line.

mod common;

use common::{M, hardware, hardware_with};
use contend_simulator::{Hardware, Options, Simulation};
use locks::{RawLock, Ttas};
use machine::{Home, Integer, Machine, Ordering, Ordering::*, Part, Placed, PlainCell, Plan, Timeout, Word};

type U32 = <M as Machine>::U32;
type U64 = <M as Machine>::U64;
type Cell = <M as Machine>::Cell<u64>;

/// The two sockets of the other tests, with these lines in the coherence section.
fn with(keys: &str) -> Hardware {
    hardware_with("protocol = \"MESI\"", &format!("protocol = \"MESI\"\n{keys}"))
}

/// With store buffers of this length.
fn buffers(stores: u32) -> Hardware {
    with(&format!("store_buffer = {stores}"))
}

/// With store buffers of 8, and so many lines under way at once.
fn lines_under_way(lines: u32) -> Hardware {
    with(&format!("store_buffer = 8\nmisses_in_flight = {lines}"))
}

fn word() -> Placed<U32, M> {
    Placed::new(U32::ZERO, Home::Node(0))
}

/// Waits for a time of the machine.
fn at(cycles: u64) {
    M::delay(cycles.saturating_sub(M::now()));
}

/// How often two threads that each store to one word and then load the other's both miss the other's store.
fn both_loads_come_first(hardware: &Hardware, ordering: Ordering, fence: bool) -> u32 {
    const ROUNDS: usize = 50;
    let body = || {
        let words = (0..ROUNDS).map(|_| [word(), word()]).collect::<Vec<_>>();
        let seen = (0..ROUNDS).map(|_| [word(), word()]).collect::<Vec<_>>();
        M::run(&Plan::on(&[0, 4]), &|thread| {
            for round in 0..ROUNDS {
                let (mine, other) = (&words[round][thread], &words[round][1 - thread]);
                at(100_000 * (round as u64 + 1));
                // Both have the other's word, and neither has its own alone.
                mine.load(Relaxed);
                other.load(Relaxed);
                at(100_000 * (round as u64 + 1) + 50_000);
                mine.store(1, ordering);
                if fence {
                    M::fence(SeqCst);
                }
                seen[round][thread].store(other.load(Relaxed), Relaxed);
            }
        });
        seen.iter().filter(|[first, second]| first.load(Relaxed) + second.load(Relaxed) == 0).count() as u32
    };
    Simulation::new(hardware).run(body).unwrap().0
}

#[test]
fn a_load_passes_a_store_before_it_only_in_a_buffer_and_not_over_a_fence() {
    for buffered in [buffers(8), lines_under_way(4)] {
        assert!(both_loads_come_first(&buffered, Release, false) > 0);
        assert_eq!(both_loads_come_first(&buffered, Release, true), 0);
        assert_eq!(both_loads_come_first(&buffered, SeqCst, false), 0);
    }
    assert_eq!(both_loads_come_first(&hardware(), Release, false), 0);
}

/// Whoever sees a flag sees what was stored before it, wherever the lines are and whatever else is in the buffer.
#[test]
fn a_message_is_there_when_its_flag_is() {
    for hardware in [buffers(1), buffers(2), buffers(8), lines_under_way(2), lines_under_way(8)] {
        for seed in 1..6 {
            let body = || {
                let flag = word();
                let data = (0..6).map(|_| Placed::<_, M>::new(Cell::ZERO, Home::Node(1))).collect::<Vec<_>>();
                M::run(&Plan::on(&[0, 1, 4]), &|thread| {
                    for round in 1..=40_u32 {
                        if thread == 0 {
                            data.iter().for_each(|cell| cell.set(u64::from(round)));
                            flag.store(round, Release);
                            M::delay(u64::from(round * 37 % 900));
                        } else if flag.load(Acquire) < round {
                            M::spin_until(&*flag, Acquire, |now| now >= round);
                        }
                        let now = u64::from(flag.load(Acquire));
                        assert!(data.iter().all(|cell| cell.get() >= now));
                    }
                });
            };
            let options = Options { seed, ..Options::default() };
            Simulation::new(&hardware).options(options).run(body).unwrap();
        }
    }
}

/// Cycles that a thread on the far socket needs for `body`, with two words that the near one has written.
fn cycles(hardware: &Hardware, body: impl Fn(&U64, &U64) + Sync) -> u64 {
    let run = || {
        let words = [(); 3].map(|()| Placed::<_, M>::new(U64::ZERO, Home::Node(0)));
        M::run(&Plan::on(&[0, 4]), &|thread| {
            if thread == 0 {
                words[..2].iter().for_each(|word| word.store(7, Relaxed));
            } else {
                at(10_000);
                let started = M::now();
                body(&words[0], &words[1]);
                let taken = M::now() - started;
                words[2].store(taken, Relaxed);
            }
        });
        words[2].load(Relaxed)
    };
    Simulation::new(hardware).run(run).unwrap().0
}

#[test]
fn a_store_retires_at_once_and_its_thread_sees_it() {
    let own_store = |first: &U64, _: &U64| {
        first.store(5, Relaxed);
        assert_eq!(first.load(Relaxed), 5);
    };
    let (buffered, complete) = (cycles(&buffers(4), own_store), cycles(&hardware(), own_store));
    assert!(buffered < 20 && complete > 200, "{buffered} and {complete} cycles");
}

#[test]
fn the_store_that_finds_the_buffer_full_waits_and_so_do_atomics() {
    let two_stores = |first: &U64, second: &U64| {
        first.store(5, Relaxed);
        second.store(6, Relaxed);
    };
    let (one, two) = (cycles(&buffers(1), two_stores), cycles(&buffers(2), two_stores));
    assert!(two < 20 && one > 200, "{two} and {one} cycles");
    let atomic = |first: &U64, second: &U64| {
        first.store(5, Relaxed);
        second.fetch_add(1, Relaxed);
        assert_eq!(second.load(Relaxed), 8);
    };
    assert!(cycles(&buffers(8), atomic) > 400);
}

/// Cycles until 8 stores of a thread on the far socket have been made, each to a line that the near one has written.
fn cycles_of_8_stores(hardware: &Hardware) -> f64 {
    let body = || {
        let lines = [(); 8].map(|()| word());
        let taken = word();
        M::run(&Plan::on(&[0, 4]), &|thread| {
            if thread == 0 {
                lines.iter().for_each(|line| line.store(7, Relaxed));
            } else {
                at(20_000);
                let started = M::now();
                lines.iter().for_each(|line| line.store(5, Relaxed));
                M::fence(SeqCst);
                assert!(lines.iter().all(|line| line.load(Relaxed) == 5));
                taken.store((M::now() - started) as u32, Relaxed);
            }
        });
        taken.load(Relaxed)
    };
    Simulation::new(hardware).run(body).unwrap().0.into()
}

/// So many round trips as there are rounds of the lines that may be under way at once, and no fewer.
#[test]
fn lines_under_way_at_once_take_the_time_of_one() {
    let one_by_one = cycles_of_8_stores(&lines_under_way(1));
    assert_eq!(one_by_one, cycles_of_8_stores(&buffers(8)), "the key's default is 1");
    for (lines, round_trips) in [(2, 4.0), (3, 3.0), (4, 2.0), (8, 1.0)] {
        let times = 8.0 * cycles_of_8_stores(&lines_under_way(lines)) / one_by_one;
        assert!((round_trips..1.25 * round_trips).contains(&times), "{lines} lines: {times} round trips");
    }
}

/// A line that has come before its store's turn can be taken away: the store stays unseen, and its line is asked for again.
#[test]
fn a_line_that_came_too_early_is_asked_for_again() {
    let early_line = |lines: u32| {
        let body = || {
            let (far, early, found) = (word(), word(), word());
            M::run(&Plan::on(&[0, 4, 5]), &|thread| {
                match thread {
                    0 => far.store(7, Relaxed),
                    1 => {
                        at(20_000);
                        // This one crosses, while the other line is in the same die.
                        far.store(5, Relaxed);
                        early.store(5, Relaxed);
                    }
                    _ => {
                        early.store(7, Relaxed);
                        at(20_150);
                        found.store(early.fetch_add(1, Relaxed), Relaxed);
                    }
                }
            });
            assert_eq!((found.load(Relaxed), early.load(Relaxed)), (7, 5), "{lines} lines");
            M::address(&*early)
        };
        let (address, report) = Simulation::new(&lines_under_way(lines)).run(body).unwrap();
        report.lines.iter().find(|line| line.address as usize == address).unwrap().counts.all_misses()
    };
    assert_eq!((early_line(1), early_line(2)), (2, 4));
}

#[test]
fn a_machine_file_cannot_ask_for_more_lines_than_stores() {
    for keys in [
        "misses_in_flight = 2",
        "store_buffer = 8\nmisses_in_flight = 9",
        "store_buffer = 8\nmisses_in_flight = 0",
    ] {
        let text = common::TWO_SOCKETS.replace("\"MESI\"", &format!("\"MESI\"\n{keys}"));
        let error = Hardware::new(&topology::MachineFile::parse(&text).unwrap()).unwrap_err().to_string();
        assert!(error.contains("coherence.misses_in_flight is"), "{keys}: {error}");
    }
}

/// The line comes long before the thread waits for it.
#[test]
fn a_wait_for_the_buffer_does_not_turn_the_clock_back() {
    let later = |first: &U64, second: &U64| {
        first.store(5, Relaxed);
        M::delay(10_000);
        second.fetch_add(1, Relaxed);
    };
    assert!((10_200..11_000).contains(&cycles(&buffers(8), later)));
}

#[test]
fn a_load_of_part_of_what_was_stored_sees_it() {
    let parts = |first: &U64, _: &U64| {
        first.store_part(Part::Half(1), 3, Relaxed);
        assert_eq!(first.load(Relaxed), (3 << 16) + 7);
    };
    assert!(cycles(&buffers(8), parts) > 100);
}

/// Stores that nobody has waited for are there when the run has ended, and when a sleeper looks.
#[test]
fn stores_are_made_before_a_thread_ends_or_sleeps() {
    let body = || {
        let words = [word(), word(), word()];
        M::run(&Plan::on(&[0, 4]), &|thread| {
            if thread == 0 {
                M::sleep_while(&words[0], 0, Timeout::NONE);
                words[1].store(words[0].load(Relaxed) + 1, Relaxed);
            } else {
                M::delay(20_000);
                words[0].store(1, Relaxed);
                M::wake(&*words[0], 1);
                words[2].store(1, Relaxed);
            }
        });
        words.each_ref().map(|word| word.load(Relaxed))
    };
    assert_eq!(Simulation::new(&buffers(8)).run(body).unwrap().0, [1, 2, 1]);
}

/// Every lock keeps exclusion under TSO, and the same seed gives the same.
#[test]
fn every_lock_excludes_with_store_buffers() {
    let counter = workloads::catalogue::find("counter").unwrap();
    let each = |hardware| locks::catalogue::LOCKS.iter().map(move |lock| (lock, hardware));
    for (lock, hardware) in each(&buffers(8)).chain(each(&lines_under_way(8))) {
        let load = workloads::Load { threads: 8, duration_ns: 100_000, ..workloads::Load::default() };
        let run = || workloads::catalogue::run::<M>(counter, lock.name, &load).unwrap().operations();
        let outcome = || Simulation::new(hardware).run(run);
        let (operations, report) = outcome().unwrap_or_else(|stopped| panic!("{}: {stopped}", lock.name));
        assert!(operations > 0, "{}", lock.name);
        assert_eq!(outcome().unwrap(), (operations, report), "{}", lock.name);
    }
}

#[test]
fn a_release_does_not_wait_for_its_line() {
    let release = |hardware: &Hardware| {
        let body = || {
            let (lock, taken) = (Placed::<_, M>::new(Ttas::<M>::NEW, Home::Node(0)), word());
            M::run(&Plan::on(&[0, 4]), &|thread| {
                // The second one waits, and has a copy of the lock's line, when the first releases.
                M::delay(5_000 * thread as u64);
                lock.acquire();
                if thread == 0 {
                    M::delay(20_000);
                }
                let started = M::now();
                // SAFETY: acquired above.
                unsafe { lock.release() };
                let cycles = (M::now() - started) as u32;
                if thread == 0 {
                    taken.store(cycles, Relaxed);
                }
            });
            taken.load(Relaxed)
        };
        Simulation::new(hardware).run(body).unwrap().0
    };
    let (buffered, complete) = (release(&buffers(8)), release(&hardware()));
    assert!(buffered < 20 && complete > 100, "{buffered} and {complete} cycles");
}

/// A writer that keeps its line makes several accesses before the next one has it.
#[test]
fn a_line_stays_with_its_writer_for_the_minimum() {
    let misses = |stay: u64| {
        let figure = format!("minimum_stay = {{ value = {stay}, unit = \"ns\", source = \"assumed\" }}");
        let hardware = with(&figure);
        let body = || {
            let shared = word();
            M::run(&Plan::on(&[0, 4]), &|_| {
                for _ in 0..200 {
                    shared.fetch_add(1, Relaxed);
                }
            });
        };
        Simulation::new(&hardware).run(body).unwrap().1.all_lines.all_misses()
    };
    let (hardly, long) = (misses(1), misses(200));
    assert!(long * 4 < hardly, "{long} misses for {hardly}");
}
