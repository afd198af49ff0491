//! Who gets a line for which several cores stand in a queue: each in its turn, for one access. A core that kept it for a whole
//! acquisition and release would make the throughput of a lock depend on the seed.

mod common;

use common::{M, hardware_with, machine};
use contend_simulator::{Hardware, Options, Simulated, Simulation};
use machine::{Home, Integer, Machine, Ordering::Relaxed, Placed, Plan, Topology, Word};
use workloads::{Load, catalogue};

type U64 = <M as Machine>::U64;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

/// Acquisitions of a lock in a tight loop, in millions a second, from one seed.
fn rate(hardware: &Hardware, lock: &str, (socket, cores): (u32, usize), seed: u64) -> f64 {
    let places = Topology { places: hardware.places.clone() }.fill_first(&[socket], cores);
    let home = Home::Node(socket);
    let load = Load { threads: cores, cores: &places, duration_ns: 1_000_000, seed, home, ..Load::default() };
    let cacheline = catalogue::find("cacheline").unwrap();
    let ran = Simulation::new(hardware)
        .options(Options { seed, ..Options::default() })
        .run(|| catalogue::run::<Simulated>(cacheline, lock, &load).unwrap());
    let (run, _) = ran.unwrap_or_else(|stopped| panic!("{lock}, seed {seed}: {stopped}"));
    run.acquisitions() as f64 * 1e3 / run.elapsed_ns as f64
}

/// The least and the most of several seeds.
fn range(hardware: &Hardware, lock: &str, at: (u32, usize)) -> (f64, f64) {
    let rates = SEEDS.map(|seed| rate(hardware, lock, at, seed));
    rates.fold((f64::INFINITY, 0.0), |(least, most), rate| (rate.min(least), rate.max(most)))
}

#[test]
fn seeds_agree_on_a_lock_of_several_dies() {
    let epyc = machine("epyc-9654x2", |_| ());
    for lock in ["mcs", "clh", "ticket", "tas"] {
        let (least, most) = range(&epyc, lock, (0, 24));
        assert!(most < 1.5 * least, "{lock}: {least:.2} to {most:.2} M/s");
    }
}

#[test]
fn one_more_core_is_no_step() {
    let epyc = machine("epyc-9654x2", |_| ());
    let (least_13, most_13) = range(&epyc, "mcs", (0, 13));
    let (least_14, most_14) = range(&epyc, "mcs", (0, 14));
    let (least, most) = (least_13.min(least_14), most_13.max(most_14));
    assert!(most < 2.0 * least, "{least_13:.2} to {most_13:.2} and {least_14:.2} to {most_14:.2} M/s");
}

#[test]
fn a_shorter_transfer_is_no_step() {
    let at = (1, 14);
    let (least, most) = range(&machine("dl580", |_| ()), "ticket", at);
    let shorter = machine("dl580", |coherence| {
        coherence.local_transfer.as_mut().expect("the file has it").value = 39.3;
    });
    let (least_shorter, most_shorter) = range(&shorter, "ticket", at);
    // The transfer is shorter by 9 %.
    assert!(
        least_shorter > 0.99 * most && most_shorter < 1.15 * least,
        "{least:.2} to {most:.2}, then {least_shorter:.2} to {most_shorter:.2} M/s"
    );
}

/// Cores that do nothing but add to one word get the line one after another, once for each time that they add; so they take turns.
#[test]
fn a_line_that_others_wait_for_is_used_once() {
    const CORES: u64 = 4;
    const ROUNDS: u64 = 200;
    let hardware = hardware_with("MESI", "MESI");
    let body = || {
        let word = Placed::<_, M>::new(U64::ZERO, Home::Node(0));
        M::run(&Plan::threads(CORES as usize), &|_| {
            let mut before = word.fetch_add(1, Relaxed);
            for round in 1..ROUNDS {
                let now = word.fetch_add(1, Relaxed);
                // Threads do not start at the same time, nor end.
                if (CORES..ROUNDS - CORES).contains(&round) {
                    assert_eq!(now - before, CORES, "round {round}");
                }
                before = now;
            }
        })
    };
    let (run, report) = Simulation::new(&hardware).run(body).unwrap();
    let transfers = run.elapsed_ns * contend_simulator::PS_PER_NS / hardware.local_transfer;
    let adds = CORES * ROUNDS;
    assert!((adds - 50..=adds + 50).contains(&transfers), "{transfers} transfers for {adds} additions");
    assert!(report.all_lines.hits < 50, "{} hits", report.all_lines.hits);
}

/// Who releases and at once tries again finds the line still there, though others wait for it.
#[test]
fn the_access_behind_a_store_finds_its_line() {
    const ROUNDS: u64 = 100;
    let hardware = hardware_with("MESI", "MESI");
    let body = || {
        let word = Placed::<_, M>::new(U64::ZERO, Home::Node(0));
        M::run(&Plan::threads(4), &|_| {
            for _ in 0..ROUNDS {
                word.store(1, Relaxed);
                word.fetch_add(1, Relaxed);
            }
        })
    };
    let lines = Simulation::new(&hardware).run(body).unwrap().1.all_lines;
    let half = 4 * ROUNDS;
    assert!((half..half + 20).contains(&lines.hits), "{lines:?}");
    assert_eq!(lines.hits + lines.all_misses(), 2 * half, "{lines:?}");
}
