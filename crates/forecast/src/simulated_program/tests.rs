use super::*;
use crate::Alternative;
use crate::profiled::{Group, observed};
use locks::catalogue;
use model::Parameters;
use profile::{LockKind, ObjectKind};
use profile::{LockRow, Times, Usage};
use session::progress::Unwatched;
use simulate::{Setup, SimulatedRun, sweep};
use simulator::Hardware;
use topology::MachineFile;
use topology::carried;

fn workload() -> &'static workloads::Workload {
    workloads::catalogue::find("counter").unwrap()
}

/// Runs of a workload whose sections and think times are known.
fn simulated(machine: &MachineFile, lock: &'static str, cores: &[u32]) -> Vec<SimulatedRun> {
    let hardware = Hardware::new(machine).unwrap();
    let setups: Vec<_> = cores
        .iter()
        .map(|&cores| {
            let mut setup = Setup::new(&hardware, workload(), lock).on_first(cores);
            (setup.section_cycles, setup.think_cycles) = (Some(600), Some(6_000));
            setup
        })
        .collect();
    sweep(&setups, &Unwatched).unwrap()
}

fn times(count: u64, mean_ns: f64) -> Times {
    Times { count, total_ns: mean_ns * count as f64, ..Times::default() }
}

/// What a profile of one simulated core and one of two would say of the lock.
fn profiled(runs: &[SimulatedRun]) -> (LockRow, LockRow) {
    let counts = |run: &SimulatedRun| *run.report.locks.first().unwrap();
    let ns = |ps: u64, of: u64| ps as f64 / 1_000.0 / of.max(1) as f64;
    let row = |run: &SimulatedRun, hold_same: Times, hold_other: Times| {
        let counts = counts(run);
        let threads = run.run.counts.len() as u64;
        let all_ns = run.report.elapsed_ns as f64 * threads as f64;
        let think = all_ns / counts.acquisitions as f64 - ns(counts.held_ps, counts.acquisitions);
        let exclusive = Usage {
            acquisitions: counts.acquisitions,
            contended: counts.contended,
            wait: times(counts.contended, ns(counts.wait_ps, counts.contended)),
            hold_same,
            hold_other,
            think: times(counts.acquisitions, think),
            ..Usage::default()
        };
        LockRow {
            pid: 1,
            threads,
            exclusive,
            acquisitions_per_operation: Some(0.0),
            critical_section_ns: Some(0.0),
            threads_ns: all_ns,
            share: Some(0.0),
            ..LockRow::new("counter", LockKind::Object(ObjectKind::Mutex))
        }
    };
    let (one, two) = (counts(&runs[0]), counts(&runs[1]));
    let same = ns(one.held_ps, one.acquisitions);
    let share = two.from_other_core as f64 / two.acquisitions as f64;
    let other = same + (ns(two.held_ps, two.acquisitions) - same) / share;
    (
        row(&runs[0], times(one.acquisitions, same), Times::default()),
        row(&runs[1], times(two.acquisitions - two.from_other_core, same), times(two.from_other_core, other)),
    )
}

fn blueprint(runs: &[SimulatedRun], machine: &MachineFile) -> Blueprint {
    let (one, two) = profiled(runs);
    let transfer = machine.costs().transfer_ns(2);
    let mut lock = observed(&two, true);
    let of_one = observed(&one, true);
    (lock.hold_same, lock.think, lock.wait_ns) = (of_one.hold_same, of_one.think, of_one.wait_ns);
    let parameters = Parameters::observed(&lock, transfer).unwrap();
    Blueprint::new(&[Group::of_one(&two)], true, Some(&one), &parameters, transfer)
}

#[test]
fn the_profile_of_a_simulated_run_predicts_itself() {
    for name in ["epyc-9654x2", "dl580"] {
        let machine = carried::machine(name);
        let cores = [1, 2, 8, 24];
        let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
        for lock in [own, "mcs", "ticket"] {
            let known = simulated(&machine, lock, &cores);
            let as_it_is = simulated(&machine, own, &[1, 2]);
            let blueprint = blueprint(&as_it_is, &machine);
            let family = catalogue::find(lock).unwrap().family;
            let alternative = Alternative { name: lock.into(), elided: None, family, shared: false };
            let plan =
                Plan { threads: cores.to_vec(), seed: 1, replications: 3, ends: false, everywhere: false };
            let stage = Stage::new(&blueprint, &machine, &machine, &plan).unwrap();
            let simulated = run(&blueprint, &[alternative], &stage, &plan, &Unwatched).unwrap();
            let of_lock = &simulated.runs[1];
            for run in &known[1..] {
                let expected = run.throughput() / known[0].throughput();
                let found = of_lock.at(run.cores).unwrap().value / of_lock.at(1).unwrap().value;
                println!("{name} {lock} {}: {found:.3} for {expected:.3}", run.cores);
                assert!(
                    (found / expected - 1.0).abs() < 0.05,
                    "{name}, {lock} on {} cores: {found} for {expected}",
                    run.cores
                );
            }
        }
    }
}

#[test]
fn locks_for_which_only_the_sections_leave_time_are_taken_within_them() {
    let machine = carried::machine("epyc-9654x2");
    let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
    let (one, _) = profiled(&simulated(&machine, own, &[1, 2]));
    let transfer = machine.costs().transfer_ns(2);
    let parameters = Parameters::observed(&observed(&one, true), transfer).unwrap();
    let other = |section_ns: f64| {
        let acquisitions = one.acquisitions();
        let hold_same = times(acquisitions, section_ns);
        let think = times(acquisitions, parameters.think_ns.likely);
        let exclusive = Usage { acquisitions, hold_same, think, ..Usage::default() };
        LockRow { name: "other".into(), exclusive, ..one.clone() }
    };
    // A section of 600 cycles, think time of 6,000.
    for (section_ns, locks) in [(0.5 * parameters.same_ns.likely, 2), (20_000.0, 1)] {
        let blueprint = Blueprint::new(
            &[&one, &other(section_ns)].map(Group::of_one),
            true,
            Some(&one),
            &parameters,
            transfer,
        );
        assert_eq!(blueprint.locks.len(), locks, "{section_ns} ns");
        assert!(blueprint.locks.iter().all(|hot| hot.nested.is_none()), "{section_ns} ns");
    }
    let elsewhere = LockRow { pid: 2, ..other(0.5 * parameters.same_ns.likely) };
    let groups = [&one, &elsewhere].map(Group::of_one);
    let blueprint = Blueprint::new(&groups, true, Some(&one), &parameters, transfer);
    assert_eq!(blueprint.locks.len(), 1, "another process's lock is none of its");
    let short = Parameters { think_ns: topology::Range::exact(10.0), ..parameters.clone() };
    let inside = other(0.5 * parameters.same_ns.likely);
    let blueprint = Blueprint::new(&[&one, &inside].map(Group::of_one), true, Some(&one), &short, transfer);
    assert_eq!(blueprint.locks.iter().map(|hot| hot.nested.is_some()).collect::<Vec<_>>(), [false, true]);
    let [first, nested] = [0, 1].map(|lock| blueprint.locks[lock].mean_same_ns());
    assert!((first + nested - parameters.same_ns.likely).abs() < 1.0, "{first} and {nested} ns");
}

#[test]
fn an_elided_lock_has_two_ends() {
    let machine = carried::machine("xeon-e5-2680v4x2");
    let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
    let mut blueprint = blueprint(&simulated(&machine, own, &[1, 2]), &machine);
    assert!(blueprint.locks[0].exclusive.growth_ns.likely > 0.0, "the sections touch lines");
    blueprint.think_ns = blueprint.locks[0].exclusive.same_ns; // the lock is all that limits the program
    let plan = Plan { threads: vec![1, 8], seed: 1, replications: 1, ends: false, everywhere: false };
    let stage = Stage::new(&blueprint, &machine, &machine, &plan).unwrap();
    let alternatives = crate::alternatives(&[crate::ELIDED.to_owned()]).unwrap();
    let simulated = run(&blueprint, &alternatives, &stage, &plan, &Unwatched).unwrap();
    let names: Vec<_> = simulated.runs.iter().map(|run| (run.name.as_deref(), run.lock.as_str())).collect();
    let code = "elided:glibc-mutex";
    assert_eq!(
        names,
        [(None, own), (Some("elided, none conflict"), code), (Some("elided, all conflict"), code)]
    );
    let [as_it_is, none, all] = [0, 1, 2].map(|run: usize| simulated.runs[run].at(8).unwrap().value);
    assert!(none > 7.0, "{none} times on 8 cores without a conflict");
    assert!(all < 1.5 * as_it_is, "{all} times on 8 cores if all conflict, {as_it_is} as it is");
    assert!(simulated.doubts.iter().any(|doubt| doubt.contains("two ends")), "{:?}", simulated.doubts);
}

#[test]
fn no_more_is_done_than_the_cores_give() {
    let machine = carried::machine("epyc-9654x2");
    let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
    let blueprint = blueprint(&simulated(&machine, own, &[1, 2]), &machine);
    let cores = f64::from(machine.topology.cores());
    let plan = Plan { threads: vec![1, 8], seed: 1, replications: 1, ends: false, everywhere: false };
    let eight = |cpu_ns| {
        let blueprint = Blueprint { cpu_ns, ..blueprint.clone() };
        let stage = Stage::new(&blueprint, &machine, &machine, &plan).unwrap();
        stage.rates(&blueprint, None, 8).unwrap()[0]
    };
    let free = eight(None);
    assert_eq!(eight(Some(0.5 * cores / free)), free);
    let held = eight(Some(2.0 * cores / free));
    assert!((held - 0.5 * free).abs() < 1e-9 * free, "{held} of {free}");
}

#[test]
fn who_waits_for_events_is_not_asked_for_more_unless_all_goes_well() {
    let machine = carried::machine("epyc-9654x2");
    let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
    let busy = blueprint(&simulated(&machine, own, &[1, 2]), &machine);
    assert_eq!(busy.clone().with_events_of(Some(0.05)), busy);
    let waits = busy.clone().with_events_of(Some(0.4));
    assert!(waits.doubts.iter().any(|doubt| doubt.contains("for 40 % of their time")), "{:?}", waits.doubts);
    let plan = Plan { threads: vec![1, 8], seed: 1, replications: 1, ends: true, everywhere: false };
    let stage = Stage::new(&waits, &machine, &machine, &plan).unwrap();
    let of = |blueprint| run(blueprint, &[], &stage, &plan, &Unwatched).unwrap().runs[0].at(8).unwrap();
    let (waits, busy) = (of(&waits), of(&busy));
    assert!(busy.value > 2.0, "{} times as much", busy.value);
    assert!((0.9..1.1).contains(&waits.value), "{} times as much", waits.value);
    assert!(waits.ends[1] > 2.0, "at most {} times as much", waits.ends[1]);
}

#[test]
fn a_queue_of_more_threads_than_cores_is_seen_to_stall() {
    let machine = carried::machine("epyc-9654x2");
    let small = two_cores(&machine);
    let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
    let mut blueprint = blueprint(&simulated(&small, own, &[1, 2]), &small);
    blueprint.think_ns = blueprint.think_ns.scaled(2.0); // the lock is in use for a small part of the time
    let plan = Plan { threads: vec![1, 2, 6], seed: 1, replications: 1, ends: false, everywhere: false };
    let stage = Stage::new(&blueprint, &small, &small, &plan).unwrap();
    let queue = crate::alternatives(&["mcs".to_owned()]).unwrap();
    let simulated = run(&blueprint, &queue, &stage, &plan, &Unwatched).unwrap();
    let [two, six] = [2, 6].map(|threads| simulated.runs[1].at(threads).unwrap().value);
    assert!(six < 0.7 * two, "{six} with six threads on two cores, {two} with two");
}

fn two_cores(machine: &MachineFile) -> MachineFile {
    let topology = topology::machine_file::Topology {
        sockets: 1,
        dies_per_socket: 1,
        cores_per_die: 2,
        ..machine.topology.clone()
    };
    MachineFile { topology, ..machine.clone() }
}

#[test]
fn threads_without_a_core_sleep_and_all_of_it_is_decided_by_the_seed() {
    let machine = carried::machine("epyc-9654x2");
    let small = two_cores(&machine);
    let (own, _) = own_lock(LockKind::Object(ObjectKind::Mutex));
    let blueprint = blueprint(&simulated(&small, own, &[1, 2]), &small);
    let names = ["mcs", "ticket", "ttas", "tas", "clh", "ticket-proportional", "hclh", "futex"];
    let alternatives = crate::alternatives(&names.map(str::to_owned)).unwrap();
    let plan = Plan { threads: vec![1, 2, 6], seed: 1, replications: 2, ends: false, everywhere: false };
    let simulated = |seed| {
        let plan = Plan { seed, ..plan.clone() };
        let stage = Stage::new(&blueprint, &small, &small, &plan).unwrap();
        run(&blueprint, &alternatives, &stage, &plan, &Unwatched).unwrap()
    };
    let one = simulated(1);
    for run in &one.runs {
        let [two, six] = [2, 6].map(|threads| run.at(threads).unwrap().value);
        // Where the first comes first, one that has no core holds up all behind.
        let fairness = catalogue::find(&run.lock).expect("it is in the catalogue").fairness;
        let least = if fairness.starts_with("first in, first out") { 0.01 * two } else { 0.3 * two };
        assert!(six > least, "{:?} does {six} with six threads on two cores, {two} with two", run.name);
        assert!(six < 2.1, "{:?}: {six} on two cores", run.name);
    }
    let json = |run: &Simulated| serde_json::to_string(run).unwrap();
    assert_eq!(json(&one), json(&simulated(1)));
    assert_ne!(json(&one), json(&simulated(2)));
}
