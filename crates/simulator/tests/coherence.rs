//! What the directory, the dies and the links do with single requests.

mod common;

use common::{M, hardware_with};
use contend_simulator::report::LineCounts;
use contend_simulator::{Hardware, PS_PER_NS, Simulation};
use machine::random::Random;
use machine::{Home, Integer, Machine, Ordering::Relaxed, Placed, Plan, Word};
use std::sync::atomic::AtomicU64;
use topology::MachineFile;
use topology::machine_file::Protocol;
use workloads::catalogue;

type U64 = <M as Machine>::U64;

/// One access of a core.
#[derive(Clone, Copy)]
enum Access {
    Load(usize),
    Store(usize),
    Add(usize),
}
use Access::{Add, Load, Store};

/// What the line of one word has counted after these accesses, each long after the one before.
fn counts(hardware: &Hardware, accesses: &[Access]) -> LineCounts {
    let body = || {
        let word = Placed::<_, M>::new(U64::ZERO, Home::Node(0));
        M::run(&Plan::threads(8), &|core| {
            for (turn, access) in (1..).zip(accesses) {
                let at = turn * 100_000;
                match *access {
                    Load(by) if by == core => {
                        M::delay(at - M::now());
                        word.load(Relaxed);
                    }
                    Store(by) if by == core => {
                        M::delay(at - M::now());
                        word.store(1, Relaxed);
                    }
                    Add(by) if by == core => {
                        M::delay(at - M::now());
                        word.fetch_add(1, Relaxed);
                    }
                    _ => {}
                }
            }
        });
    };
    Simulation::new(hardware).run(body).unwrap().1.all_lines
}

/// Every cell of the table of states and requests, as the machine goes through it: a line is brought into the state,
/// then core 4, on the other socket, asks for it.
#[test]
fn every_cell_of_the_protocol_in_the_machine() {
    // Cores 0 and 1 are on the line's socket, cores 4 to 7 on the other; every miss goes to the home.
    let invalid: &[Access] = &[];
    let (shared, exclusive, modified) = (&[Load(0), Load(1)][..], &[Load(0)][..], &[Store(0)][..]);
    let read_after_write = &[Store(0), Load(1)][..];
    // By state: what brings it about, whether a load asks another die, whether a write does, how many copies go.
    let cells = [
        ("MSI", "invalid", invalid, 0, 0, 0),
        ("MSI", "shared", exclusive, 0, 1, 1),
        ("MSI", "shared", shared, 0, 1, 2),
        ("MSI", "modified", modified, 1, 1, 1),
        ("MSI", "shared after a write", read_after_write, 0, 1, 2),
        ("MESI", "invalid", invalid, 0, 0, 0),
        ("MESI", "shared", shared, 0, 1, 2),
        ("MESI", "exclusive", exclusive, 1, 1, 1),
        ("MESI", "modified", modified, 1, 1, 1),
        ("MESI", "shared after a write", read_after_write, 0, 1, 2),
        ("MOESI", "invalid", invalid, 0, 0, 0),
        ("MOESI", "shared", shared, 0, 1, 2),
        ("MOESI", "exclusive", exclusive, 1, 1, 1),
        ("MOESI", "modified", modified, 1, 1, 1),
        ("MOESI", "owned", read_after_write, 1, 1, 2),
    ];
    for (protocol, state, before, load_probes, write_probes, copies) in cells {
        for probes in ["exact", "broadcast"] {
            let machine = hardware_with(
                "protocol = \"MESI\"",
                &format!("protocol = \"{protocol}\"\nprobes = \"{probes}\"\nresolves_locally = false"),
            );
            let first = counts(&machine, before);
            for (request, asked, taken) in
                [(Load(4), load_probes, 0), (Store(4), write_probes, copies), (Add(4), write_probes, copies)]
            {
                let all = counts(&machine, &[before, &[request]].concat());
                let cell = format!("{protocol} {probes} {state}");
                assert_eq!(all.home_requests - first.home_requests, 1, "{cell}: one request");
                assert_eq!(all.probes - first.probes, asked, "{cell}: probes");
                assert_eq!(all.invalidations - first.invalidations, taken, "{cell}: copies taken");
            }
        }
    }
}

/// A directory that does not know the sharers waits for the answers of dies that have nothing.
#[test]
fn a_broadcast_waits_for_the_farthest_die() {
    let elapsed = |probes: &str| {
        let machine = hardware_with(
            "protocol = \"MESI\"",
            &format!("protocol = \"MESI\"\nprobes = \"{probes}\"\nresolves_locally = false"),
        );
        let body = || {
            let word = Placed::<_, M>::new(U64::ZERO, Home::Node(0));
            // Shared in one die, then written there: the other die never had it.
            M::run(&Plan::threads(2), &|core| {
                M::delay(1_000 * (core as u64 + 1));
                word.load(Relaxed);
                M::delay(10_000 - M::now());
                if core == 0 {
                    word.store(1, Relaxed);
                }
            })
        };
        Simulation::new(&machine).run(body).unwrap().0.elapsed_ns
    };
    assert!(elapsed("broadcast") > elapsed("exact"), "{} {}", elapsed("broadcast"), elapsed("exact"));
}

/// By hand: two words on an aligned pair of lines. Core 0 writes the second one, core 4 asks for the first, and then each core
/// uses the second one again. Core 4 has it if it came along, and core 0 has to ask before it writes what another core has.
#[test]
fn the_other_line_of_a_pair_comes_along_and_is_lost_to_its_writer() {
    #[repr(align(64))]
    struct Line(U64);
    #[repr(align(128))]
    struct Pair([Line; 2]);
    let run = |line_pairs: bool, reads: bool| {
        let machine = Hardware { line_pairs, ..hardware_with("protocol = \"MESI\"", "protocol = \"MESI\"") };
        let body = || {
            let pair = Placed::<_, M>::new(Pair([Line(U64::ZERO), Line(U64::ZERO)]), Home::Node(0));
            let [first, second] = &pair.0;
            assert_eq!(&raw const *second as usize % 128, 64, "the second line of an aligned pair");
            M::run(&Plan::on(&[0, 4]), &|thread| {
                let at = |turn: u64| M::delay(turn * 100_000 - M::now());
                if thread == 0 {
                    at(1);
                    second.0.store(1, Relaxed);
                    at(3);
                    second.0.store(2, Relaxed);
                } else {
                    at(2);
                    first.0.load(Relaxed);
                    at(4);
                    if reads {
                        assert_eq!(second.0.load(Relaxed), 2);
                    }
                }
            });
        };
        let report = Simulation::new(&machine).run(body).unwrap().1;
        report.all_lines.home_requests
    };
    // One request each for the first use of a line; with pairs the writer's second one.
    assert_eq!((run(false, false), run(true, false)), (2, 3));
    // What the writer has taken back is read with a request in either case.
    assert_eq!((run(false, true), run(true, true)), (3, 4));
}

/// A core that reads one line after the other asks for every second one.
#[test]
fn a_core_that_reads_on_asks_once_for_a_pair_of_lines() {
    const LINES: usize = 64;
    let run = |line_pairs: bool| {
        let machine = Hardware { line_pairs, ..hardware_with("protocol = \"MESI\"", "protocol = \"MESI\"") };
        let body = || {
            #[repr(align(128))]
            struct Lines([[U64; 8]; LINES]);
            let lines =
                Placed::<_, M>::new(Lines([const { [const { U64::ZERO }; 8] }; LINES]), Home::Node(0));
            M::run(&Plan::on(&[4]), &|_| lines.0.iter().for_each(|line| _ = line[0].load(Relaxed)));
        };
        Simulation::new(&machine).run(body).unwrap().1.all_lines.home_requests
    };
    assert_eq!((run(false), run(true)), (LINES as u64, LINES as u64 / 2));
}

/// Locks exclude, and no waiter is left watching, where lines come along.
#[test]
fn locks_run_to_the_end_where_lines_come_along() {
    for more in ["", "\nresolves_locally = false"] {
        let to = format!("protocol = \"MESI\"\nline_pairs = true{more}");
        let machine = hardware_with("protocol = \"MESI\"", &to);
        for lock in ["ticket", "mcs", "kernel-mutex", "clh"] {
            let load = workloads::Load { threads: 8, duration_ns: 300_000, ..Default::default() };
            let workload = catalogue::find("fig10").unwrap();
            let run = Simulation::new(&machine)
                .run(|| catalogue::run::<M>(workload, lock, &load).unwrap())
                .unwrap_or_else(|stopped| panic!("{lock}: {stopped}"));
            assert!(run.0.acquisitions() > 100, "{lock}");
        }
    }
}

fn refusing(try_ns: u64) -> Hardware {
    let hardware = hardware_with("protocol = \"MESI\"", "protocol = \"MESI\"\nresolves_locally = false");
    Hardware { refused_try: try_ns * PS_PER_NS, ..hardware }
}

/// The times of a machine file that is simulated, by section.
const TIMES: [(&str, &[&str]); 4] = [
    ("transfer", &["smt_sibling", "same_l3", "same_socket", "cross_socket"]),
    ("handover", &["wake", "back_off_delay"]),
    (
        "coherence",
        &[
            "hit", "atomic", "pause", "local_transfer", "local_read", "serial_read", "invalidate",
            "home_occupancy", "refused_try", "memory", "link_hop", "controller_hop", "time_slice", "tick",
            "context_switch", "system_call", "wake_call",
        ],
    ),
    ("transactions", &["begin", "commit", "abort", "interrupts"]),
];

/// Such times would add up to more than a simulation can count, and waiters would poll for ever what is on its way.
#[test]
fn a_time_that_no_machine_takes_is_refused_by_its_name() {
    let figure =
        |value: &str, unit: &str| format!("{{ value = {value}, unit = \"{unit}\", source = \"assumed\" }}");
    let simulated = |longest: (&str, &str), value: &str, unit: &str| {
        let mut text = String::from("name = \"two\"\ndescription = \"2 x 2 x 4 cores\"\n");
        text += &format!("frequency = {}\n", figure("0.01", "GHz"));
        text += "[topology]\nsockets = 2\ndies_per_socket = 2\ncores_per_die = 4\nsource = \"assumed\"\n";
        for (section, names) in TIMES {
            text += &match section {
                "handover" => format!("[handover]\nwaiter = {}\n", figure("1", "transfers")),
                "coherence" => "[coherence]\nprotocol = \"MESI\"\nsockets_per_controller = 1\n".into(),
                "transactions" => {
                    "[transactions]\nl1_sets = 64\nl1_ways = 8\nread_lines = 1000\nsource = \"assumed\"\n"
                        .into()
                }
                _ => format!("[{section}]\n"),
            };
            for name in names {
                let (value, unit) = if (section, *name) == longest { (value, unit) } else { ("1", "ns") };
                text += &format!("{name} = {}\n", figure(value, unit));
            }
        }
        Hardware::new(&MachineFile::parse(&text).unwrap()).map_err(|error| error.to_string())
    };
    for (section, names) in TIMES {
        for name in names {
            for unit in ["ns", "cycles"] {
                let error = simulated((section, name), "1e12", unit).unwrap_err();
                assert!(error.contains(&format!("{section}.{name} is ")), "{section}.{name}: {error}");
            }
        }
    }
    for (longest, ns, more, most) in [
        (("coherence", "refused_try"), "1e6", "1.001e6", "at most 1000000 ns"),
        (("transfer", "cross_socket"), "1e6", "1.001e6", "at most 1000000 ns"),
        (("coherence", "time_slice"), "1e9", "1.001e9", "at most 1000000000 ns"),
        (("handover", "wake"), "1e9", "1.001e9", "at most 1000000000 ns"),
    ] {
        simulated(longest, ns, "ns").unwrap();
        let error = simulated(longest, more, "ns").unwrap_err();
        assert!(error.contains(most), "{longest:?}: {error}");
    }
}

/// By hand: k cores ask for a line at once. No core waits yet when the first is answered, whose line comes from memory;
/// while the owner is asked for the second, k - 2 are refused, then k - 3, and so on to none.
#[test]
fn an_answer_comes_behind_a_try_of_each_that_is_refused() {
    /// When all threads have started, in cycles.
    const TOGETHER: u64 = 10_000;
    let elapsed = |try_ns, cores| {
        let body = || {
            let word = Placed::<_, M>::new(U64::ZERO, Home::Node(0));
            M::run(&Plan::threads(cores), &|_| {
                M::delay(TOGETHER - M::now());
                word.fetch_add(1, Relaxed);
            })
        };
        Simulation::new(&refusing(try_ns)).run(body).unwrap().0.elapsed_ns
    };
    for cores in 1..=4 {
        let tries = (cores as u64 - 1) * (cores as u64).saturating_sub(2) / 2;
        for try_ns in [100, 700] {
            let longer = elapsed(try_ns, cores) - elapsed(0, cores);
            assert_eq!(longer, tries * try_ns, "{cores} cores, {try_ns} ns a try");
        }
    }
}

/// Who reads other lines waits for a home that refuses requests, and for no other home.
#[test]
fn refused_requests_take_the_home_of_other_lines_too() {
    let reader_ends = |try_ns, home| {
        let end = AtomicU64::new(0);
        let body = || {
            let contended = Placed::<_, M>::new(U64::ZERO, Home::Node(0));
            let others =
                (0..20).map(|_| Placed::<_, M>::new(U64::ZERO, Home::Node(home))).collect::<Vec<_>>();
            M::run(&Plan::threads(5), &|core| match core {
                4 => {
                    others.iter().for_each(|word| _ = word.load(Relaxed));
                    end.store(M::now(), Relaxed);
                }
                _ => (0..100).for_each(|_| _ = contended.fetch_add(1, Relaxed)),
            });
        };
        Simulation::new(&refusing(try_ns)).run(body).unwrap();
        end.into_inner()
    };
    assert!(reader_ends(20, 0) > reader_ends(0, 0) + 20 * 20);
    assert_eq!(reader_ends(20, 1), reader_ends(0, 1));
}

/// Machines that a test makes by chance.
const FUZZED: u64 = 300;

/// One socket of `dies` dies with `cores` cores each, whose dies are this far from its centre.
fn one_socket(dies: u32, cores: u32, die_hop: u64) -> Hardware {
    let topology = format!("sockets = 1\n    dies_per_socket = {dies}\n    cores_per_die = {cores}");
    let mut hardware = hardware_with("sockets = 2\n    cores_per_die = 4", &topology);
    for (one, to) in hardware.die_to_die.iter_mut().enumerate() {
        to.iter_mut().enumerate().filter(|(other, _)| *other != one).for_each(|(_, way)| *way = 2 * die_hop);
    }
    hardware.die_to_node.iter_mut().for_each(|to| to.fill(die_hop));
    hardware
}

/// A core that watches a line sees the last value, however others of its die and of another one come for the line meanwhile: all wait
/// for the last of those that draw a number, and no core writes afterwards.
#[test]
fn nobody_keeps_a_copy_past_the_last_write() {
    let two_sockets = Hardware::new(&topology::carried::machine("xeon-e5-2680v4x2")).unwrap();
    for hardware in [two_sockets, one_socket(2, 4, 0)] {
        keeps_no_copy_past_the_last_write(&hardware);
    }
}

fn keeps_no_copy_past_the_last_write(hardware: &Hardware) {
    const ROUNDS: u64 = 20;
    for seed in 1..=200 {
        let body = || {
            let line = Placed::<[U64; 2], M>::new([U64::ZERO, U64::ZERO], Home::Node(0));
            let threads = hardware.cores() as u64;
            M::run(&Plan::threads(threads as usize), &|thread| {
                let mut random = Random::new(seed << 8 | thread as u64);
                let [next, serving] = &*line;
                for round in 1..=ROUNDS {
                    M::delay(random.next() % 2_000);
                    let drawn = next.load(Relaxed);
                    M::spin_until(serving, Relaxed, |now| now >= drawn);
                    let mine = next.fetch_add(1, Relaxed);
                    M::spin_until(serving, Relaxed, |now| now == mine);
                    serving.store(mine + 1, Relaxed);
                    M::spin_until(serving, Relaxed, |now| now >= round * threads);
                }
            });
        };
        let ran = Simulation::new(hardware).seed(seed).run(body);
        let stopped = ran.err().map(|stopped| stopped.to_string()).unwrap_or_default();
        assert!(stopped.is_empty(), "{}, seed {seed}: {stopped}", hardware.name);
    }
}

/// The same with locks, on machines whose dies are nearer to each other than an atomic takes: a line is in another die while a core
/// may still use it that has not heard.
#[test]
fn no_lock_deadlocks_where_dies_are_near_each_other() {
    let mempop = catalogue::find("mempop").unwrap();
    for seed in 1..=FUZZED {
        let mut random = Random::new(seed);
        let mut up_to = |most: u64| random.next() % (most + 1);
        let (dies, cores) = (2 + up_to(2) as u32, 1 + up_to(3) as u32);
        let atomic = 1 + up_to(20_000);
        let die_hop = if up_to(2) == 0 { 0 } else { up_to(atomic) };
        let protocols = [Protocol::Mesi, Protocol::Msi, Protocol::Moesi];
        let hardware = Hardware {
            atomic,
            protocol: protocols[up_to(2) as usize],
            local_transfer: 1 + up_to(100_000),
            local_read: 1 + up_to(50_000),
            serial_read: 1 + up_to(10_000),
            invalidate: 1 + up_to(100_000),
            home_occupancy: up_to(5_000),
            memory: 1 + up_to(100_000),
            ..one_socket(dies, cores, die_hop)
        };
        for lock in ["ticket", "mcs", "futex"] {
            let load = workloads::Load {
                threads: (dies * cores) as usize,
                duration_ns: 10_000,
                seed,
                section_cycles: Some(1),
                think_cycles: Some(1 + up_to(50)),
                ..workloads::Load::default()
            };
            let ran = Simulation::new(&hardware)
                .seed(seed)
                .run(|| catalogue::run::<M>(mempop, lock, &load).unwrap());
            let stopped = ran.err().map(|stopped| stopped.to_string()).unwrap_or_default();
            assert!(stopped.is_empty(), "{lock}, seed {seed}: {stopped}\n{hardware:?}");
        }
    }
}
