//! What the published curves rest on comes from the protocol and from the costs in a machine file: a change of either
//! moves the curve.

mod common;

use common::{TWO_SOCKETS, machine};
use contend_simulator as simulator;
use machine::{Home, Topology};
use simulator::{Hardware, Report, Simulated, Simulation};
use topology::machine_file::{Coherence, Figure};
use workloads::catalogue::{self, Body};
use workloads::section::{self, Section};
use workloads::{Load, Variation};

fn scale(figure: &mut Option<Figure>, by: f64) {
    figure.as_mut().unwrap().value *= by;
}

/// Nanoseconds from one acquisition of a ticket lock to the next in a tight loop, the lock's memory on socket 1.
fn tight_loop_ns(hardware: &Hardware, sockets: &[u32], cores: usize, duration_ns: u64) -> f64 {
    let places = Topology { places: hardware.places.clone() }.fill_first(sockets, cores);
    let load = Load { threads: cores, cores: &places, duration_ns, home: Home::Node(1), ..Load::default() };
    let cacheline = catalogue::find("cacheline").unwrap();
    let run =
        Simulation::new(hardware).run(|| catalogue::run::<Simulated>(cacheline, "ticket", &load).unwrap());
    let (run, _) = run.unwrap_or_else(|stopped| panic!("{stopped}"));
    run.elapsed_ns as f64 / run.acquisitions() as f64
}

/// Acquisitions, and mean cycles in the section, of one of the paper's benchmarks with a ticket lock.
fn benchmark(hardware: &Hardware, name: &str, cores: usize, change: impl FnOnce(&mut Section)) -> (u64, f64) {
    let Body::Section(mut section) = catalogue::find(name).unwrap().body else {
        panic!("{name} is no section")
    };
    change(&mut section);
    let load = Load {
        threads: cores,
        duration_ns: 400_000,
        think_spread: Variation::NearlyFixed,
        home: Home::Node(0),
        ..Load::default()
    };
    let run = || section::run::<Simulated, locks::Ticket<Simulated>>(&section, &load);
    let (run, report) = Simulation::new(hardware).run(run).unwrap_or_else(|stopped| panic!("{stopped}"));
    (run.acquisitions(), section_cycles(&report, hardware))
}

fn section_cycles(report: &Report, hardware: &Hardware) -> f64 {
    let lock = &report.locks[0];
    lock.held_ps as f64 / lock.acquisitions as f64 * hardware.mhz as f64 / 1e6
}

#[test]
fn a_section_grows_with_the_cores_by_the_lines_it_touches() {
    let opteron = machine("opteron-8x6", |_| ());
    let (_, alone) = benchmark(&opteron, "mempop", 1, |_| ());
    let (_, with_10) = benchmark(&opteron, "mempop", 10, |_| ());
    assert!((alone - 121.0).abs() < 2.0, "{alone} cycles");
    assert!(with_10 > 1.5 * alone, "{with_10} cycles after {alone}");
    let no_lines = |section: &mut Section| (section.lines, section.beside_lock) = (0, false);
    let (_, nothing_shared) = benchmark(&opteron, "mempop", 10, no_lines);
    assert!(nothing_shared < 1.05 * alone, "{nothing_shared} cycles after {alone}");
    let (_, more_lines) = benchmark(&opteron, "mempop", 10, |section| section.lines += 4);
    assert!(more_lines > with_10 + 20.0, "{more_lines} cycles after {with_10}");
}

#[test]
fn halving_a_latency_of_the_machine_file_moves_section_and_curve() {
    let halved = machine("opteron-8x6", |costs| {
        let costs = [
            &mut costs.local_transfer, &mut costs.local_read, &mut costs.invalidate, &mut costs.link_hop,
            &mut costs.serial_read, &mut costs.refused_try,
        ];
        costs.into_iter().for_each(|figure| scale(figure, 0.5));
    });
    let as_it_is = machine("opteron-8x6", |_| ());
    for name in ["fops", "mempop", "pfind"] {
        let (acquisitions, section) = benchmark(&as_it_is, name, 48, |_| ());
        let (more, shorter) = benchmark(&halved, name, 48, |_| ());
        assert!(more > acquisitions * 3 / 2, "{name}: {more} after {acquisitions}");
        assert!(shorter < section, "{name}: {shorter} cycles after {section}");
    }
}

/// Published: 138 ns with 15 cores of one socket, 483 with the first of a second.
#[test]
fn one_core_of_a_second_socket_slows_all() {
    let dl580 = machine("dl580", |_| ());
    let ns = |sockets: &[u32], cores| tight_loop_ns(&dl580, sockets, cores, 500_000);
    let (one_socket, and_one) = (ns(&[0, 1], 15), ns(&[0, 1], 16));
    assert!(and_one > 2.5 * one_socket, "{and_one} ns after {one_socket}");
    let all_of_two = ns(&[0, 1], 30);
    assert!(all_of_two < 1.3 * and_one, "{all_of_two} ns after {and_one}");
}

/// Published: 725 ns with the lock's memory on a third socket, 482 with it on one of the two; none of it within a socket.
#[test]
fn memory_on_a_socket_without_threads_is_dear_only_across_sockets() {
    let dl580 = machine("dl580", |_| ());
    let ns = |sockets: &[u32], cores| tight_loop_ns(&dl580, sockets, cores, 500_000);
    assert!(ns(&[2, 3], 30) > 1.25 * ns(&[0, 1], 30));
    let (near, far) = (ns(&[1], 15), ns(&[0], 15));
    assert!((far / near - 1.0).abs() < 0.1, "{far} ns after {near}");
}

#[test]
fn every_fitted_cost_moves_the_contention_tables() {
    type Change = fn(&mut Coherence);
    let costlier: [(&str, &str, &[u32], usize, Change); 2] = [
        ("local_transfer", "dl580", &[1], 2, |costs| scale(&mut costs.local_transfer, 2.0)),
        ("controller_hop", "cs900x8", &[0, 1, 2, 3, 4, 5, 6, 7], 120, |costs| {
            scale(&mut costs.controller_hop, 2.0);
        }),
    ];
    for (name, on, sockets, cores, change) in costlier {
        let before = tight_loop_ns(&machine(on, |_| ()), sockets, cores, 200_000);
        let after = tight_loop_ns(&machine(on, change), sockets, cores, 200_000);
        assert!(after > 1.2 * before, "{name}: {after} ns after {before}");
    }
}

#[test]
fn a_large_machine_gives_the_same_however_long_it_runs() {
    let cs900 = machine("cs900x16", |_| ());
    let sockets = (0..16).collect::<Vec<_>>();
    let (short, long) =
        (tight_loop_ns(&cs900, &sockets, 240, 1_000_000), tight_loop_ns(&cs900, &sockets, 240, 4_000_000));
    assert!((long / short - 1.0).abs() < 0.1, "{short} and {long} ns");
}

/// What a public latency matrix measures: a line that two cores write in turn, per write.
#[test]
fn a_line_to_and_fro_takes_the_transfers_of_the_machine_file() {
    use machine::{Integer, Machine, Ordering::Relaxed, Placed, Plan, Word};
    type Turn = <Simulated as Machine>::U64;
    const TURNS: u64 = 400;
    let tiers = TWO_SOCKETS.replace("cores_per_die = 4", "dies_per_socket = 2\ncores_per_die = 2").replace(
        "[handover]",
        "same_socket = { value = 100, unit = \"ns\", source = \"assumed\" }\n[handover]",
    );
    let hardware = Hardware::new(&topology::MachineFile::parse(&tiers).unwrap()).unwrap();
    for (other, expected) in [(2, 100.0), (4, 120.0)] {
        let body = || {
            let turn = Placed::<_, Simulated>::new(Turn::ZERO, Home::Node(0));
            Simulated::run(&Plan::on(&[0, other]), &|thread| {
                let mine = thread as u64;
                for _ in 0..TURNS {
                    Simulated::spin_until(&*turn, Relaxed, |turn| turn % 2 == mine);
                    turn.fetch_add(1, Relaxed);
                }
            })
            .elapsed_ns
        };
        let took = Simulation::new(&hardware).run(body).unwrap().0 as f64 / (2 * TURNS) as f64;
        // A poll, an addition and the home's own time come on top.
        assert!((expected..1.2 * expected).contains(&took), "core {other}: {took} ns for {expected}");
    }
}
