//! Random programs that are simulated on the carried machines, profiled there as the recorder would see them, forecast to all cores, and held
//! against their own simulation.
//!
//! What is tried by this is everything between the recorder and the forecast, on machines that are not at hand, where nothing is
//! shared but what the locks guard: an error is one of what a profile leaves out, or of how it is read.

use super::{From, Held};
use crate::question::MeasuredPoint;
use crate::simulated_program::{self, Blueprint, Plan, Run, Simulated, SimulatedPoint, Stage};
use crate::subject::{Besides, Subject};
use curve::Point;
use profile::{LockKind, ObjectKind};
use session::progress::{Progress, Unwatched, Work};
use std::path::Path;
use topology::machine_file::Topology;
use topology::{MachineFile, carried};
use workloads::Random;

/// Runs of each point, of the program and of its forecast.
const RUNS: u32 = 3;

/// Random programs, forecast and simulated.
#[derive(Debug, Default)]
pub struct MadePrograms {
    /// Those that were.
    pub held: Vec<Held>,
    /// How many were drawn: fewer than were asked for where the user interrupted it.
    pub drawn: u32,
    /// Those of which the profiles tell too little.
    pub untold: u32,
    /// Why the simulation of a program stopped.
    pub stopped: Vec<String>,
}

/// So many programs, decided by `seed`. Ends behind the program at hand where the user interrupts it.
#[must_use]
pub fn simulated_programs(count: u32, seed: u64, progress: &dyn Progress) -> MadePrograms {
    session::interrupt::keep();
    let steps = progress.start(Work::Simulations, count as usize);
    let mut all = MadePrograms::default();
    for number in (0..count).take_while(|_| !session::interrupt::came()) {
        let made = Made::draw(number, seed);
        match made.held(seed) {
            Ok(Some(held)) => all.held.push(held),
            Ok(None) => all.untold += 1,
            Err(error) => all.stopped.push(format!("{}: {error:#}", made.name)),
        }
        all.drawn += 1;
        steps.done();
    }
    all
}

/// A random program where it runs.
struct Made {
    name: String,
    program: Blueprint,
    machine: MachineFile,
    threads: Vec<u32>,
    /// Of its runs; the forecast has another one.
    seed: u64,
}

impl Made {
    /// The one of this number.
    fn draw(number: u32, seed: u64) -> Self {
        let mut random = Random::of_thread(seed, number as usize);
        let (machine, threads) = machine(&mut random);
        let program = Blueprint::random(&mut random, machine.costs().transfer_ns(2).likely);
        let name = format!("{} on {}: {}", number + 1, machine.name, described(&program));
        Self { name, program, machine, threads, seed: random.next() >> 1 }
    }

    /// It, simulated, beside what is forecast from its profiles; none where these tell too little.
    fn held(&self, seed: u64) -> anyhow::Result<Option<Held>> {
        let Self { name, program, machine, threads, .. } = self;
        let shares = program.locks[0].kind == LockKind::Object(ObjectKind::Rwlock);
        let others: &[&str] = if shares { &["futex", "rw"] } else { &["futex", "mcs", "ticket"] };
        let others: Vec<String> = others.iter().map(|&name| name.to_owned()).collect();
        let candidates = crate::alternatives(&others)?;

        let plan = Plan { replications: RUNS, everywhere: true, ..Plan::of(threads, seed) };
        let of_program = Plan { ends: false, seed: self.seed, ..plan.clone() };
        let stage = Stage::new(program, machine, machine, &of_program)?;
        let did = simulated_program::run(program, &candidates, &stage, &of_program, &Unwatched)?;
        let profiled = From::FourThreads.threads().iter();
        let tables = profiled.map(|&threads| stage.profile(program, threads));
        let tables = tables.collect::<anyhow::Result<Vec<_>>>()?;

        let transfer_ns = machine.costs().transfer_ns(2);
        let Ok(subject) = Subject::new(&tables, None, transfer_ns, Besides::default(), Path::new(name))?
        else {
            return Ok(None);
        };
        let stage = Stage::new(&subject.blueprint, machine, machine, &plan)?;
        let simulated = simulated_program::run(&subject.blueprint, &candidates, &stage, &plan, &Unwatched)?;
        Ok(Some(Held {
            program: name.clone(),
            cores: machine.topology.cores(),
            most: crate::answer::most_by_locks(&subject),
            simulated,
            measured: measured(&did),
        }))
    }
}

/// One of the carried machines with all of its cores, or with so few that threads share them; and numbers of threads.
fn machine(random: &mut Random) -> (MachineFile, Vec<u32>) {
    const FEW: u32 = 4;
    /// Two numbers between each two powers of two would take thrice as long.
    const BETWEEN: [u32; 6] = [3, 6, 12, 24, 48, 96];
    // This machine is among the names, and not in hand everywhere.
    let all: Vec<MachineFile> = carried::names().filter_map(|name| carried::find(name)?.ok()).collect();
    let mut machine = all[random.below(all.len() as u64) as usize].clone();
    let mut most = machine.topology.cores();
    if random.below(3) == 0 {
        let one_die = Topology { sockets: 1, dies_per_socket: 1, cores_per_die: FEW, ..machine.topology };
        machine =
            MachineFile { name: format!("{FEW} cores of {}", machine.name), topology: one_die, ..machine };
        most = 4 * FEW;
    }
    let powers = (0..).map(|power| 1 << power).take_while(|&threads| threads < most);
    let mut threads: Vec<u32> =
        powers.chain(BETWEEN).chain([most]).filter(|&threads| threads <= most).collect();
    threads.sort_unstable();
    threads.dedup();
    (machine, threads)
}

fn described(program: &Blueprint) -> String {
    let lock = |hot: &simulated_program::Hot| {
        let copies = if hot.copies > 1 { format!("{} × ", hot.copies) } else { String::new() };
        let kind = if hot.reads > 0.0 {
            format!("rwlock, {:.0} % reads", 100.0 * hot.reads)
        } else {
            "mutex".to_owned()
        };
        format!("{copies}{kind}, {:.0} ns", hot.mean_same_ns())
    };
    program.locks.iter().map(lock).collect::<Vec<_>>().join("; ")
}

/// What the program did, as measurements.
fn measured(did: &Simulated) -> Vec<MeasuredPoint> {
    let of_run = |run: &Run| {
        let lock = run.name.as_deref();
        let points =
            run.points.iter().map(move |&SimulatedPoint { threads: cores, value, low, high, .. }| {
                MeasuredPoint::of(lock, Point { cores, value, low, high })
            });
        points.collect::<Vec<_>>()
    };
    did.runs.iter().flat_map(of_run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated_program::Hot;
    use crate::validate::page::SIMULATED;
    use crate::validate::{Summary, scored, scores, write_cases};

    #[test]
    fn a_random_program_is_held_against_its_own_simulation() {
        let made = || Made { threads: vec![1, 2, 4, 8], ..Made::draw(0, 3) };
        let held = made().held(1).unwrap().expect("its profiles tell enough");
        let runs = held.simulated.runs.len();
        assert!(runs > 2 && held.measured.len() == 4 * runs, "{} points", held.measured.len());
        let scores = scores(&scored(&[held], From::FourThreads, &From::MADE));
        assert!(scores.points >= 10 && scores.median_error < 0.1, "{scores:?}");
        assert_eq!(made().seed, Made::draw(0, 3).seed);
    }

    #[test]
    fn random_programs_are_the_same_byte_for_byte_when_they_are_made_again() {
        let made = || {
            let of_number =
                |number| Made { threads: vec![1, 2, 4, 8], ..Made::draw(number, 1) }.held(1).unwrap();
            let held: Vec<Held> = (0..2).filter_map(of_number).collect();
            (write_cases(&held).unwrap(), Summary::of(&held, &From::MADE).terminal())
        };
        let (cases, scores) = made();
        assert!(cases.lines().count() > 20, "{cases}");
        assert_eq!((cases, scores), made());
    }

    #[test]
    #[ignore = "takes minutes: tests/all runs it in release"]
    fn the_page_shows_the_scores_of_random_programs() {
        let held = simulated_programs(12, 1, &Unwatched).held;
        let scores = Summary::of(&held, &From::MADE).terminal();
        assert!(SIMULATED.contains(&scores), "{scores}");
    }

    #[test]
    fn what_a_profile_says_of_a_random_program_is_what_the_program_is() {
        for number in 0..4 {
            let drawn = || Random::of_thread(7, number);
            let machine = carried::machine("epyc-9654x2");
            let transfer_ns = machine.costs().transfer_ns(2);
            let truth = Blueprint::random(&mut drawn(), transfer_ns.likely);
            assert_eq!(truth, Blueprint::random(&mut drawn(), transfer_ns.likely));
            let stage = Stage::new(&truth, &machine, &machine, &Plan::of(&[1], 1)).unwrap();
            let tables = [1, 2].map(|threads| stage.profile(&truth, threads).unwrap());
            let subject = Subject::new(&tables, None, transfer_ns, Besides::default(), Path::new("p"));
            let found = subject.unwrap().expect("it tells enough").blueprint;
            let lock = &found.locks[0];
            let same =
                truth.locks.iter().find(|hot| lock.name.starts_with(&hot.name)).expect("it has its name");
            assert_eq!((lock.kind, lock.copies), (same.kind, same.copies));
            assert!((lock.reads - same.reads).abs() < 0.02, "{} reads of {}", lock.reads, same.reads);
            let operation = |blueprint: &Blueprint, visits: f64| blueprint.operation_ns() / visits;
            for (found, expected) in [
                (lock.mean_same_ns(), same.mean_same_ns()),
                (operation(&found, lock.visits), operation(&truth, same.visits)),
            ] {
                assert!((found / expected - 1.0).abs() < 0.15, "{number}: {found} ns for {expected}");
            }
        }
    }

    /// A lock that is taken a hundred times for one acquisition of the one in question is part of the program, whose throughput is the same
    /// whichever lock is asked about.
    #[test]
    fn a_lock_that_is_rarely_taken_is_asked_about_beside_the_one_that_is_taken_often() {
        let machine = carried::machine("epyc-9654x2");
        let transfer_ns = machine.costs().transfer_ns(2);
        let mut drawn =
            (0..).map(|number| Blueprint::random(&mut Random::of_thread(7, number), transfer_ns.likely));
        let is_plain = |hot: &Hot| hot.copies == 1 && hot.nested.is_none() && hot.reads == 0.0;
        let mut truth =
            drawn.find(|truth| truth.locks.len() == 2 && truth.locks.iter().all(is_plain)).unwrap();
        truth.locks[1].visits = 0.01;
        let stage = Stage::new(&truth, &machine, &machine, &Plan::of(&[1], 1)).unwrap();
        let tables = [1, 2].map(|threads| stage.profile(&truth, threads).unwrap());
        let [often, rarely] = [0, 1].map(|asked| {
            let name =
                tables[1].rows.iter().find(|row| row.name.starts_with(&truth.locks[asked].name)).unwrap();
            let site = Some(name.site.as_str());
            let subject = Subject::new(&tables, site, transfer_ns, Besides::default(), Path::new("p"));
            let found = subject.unwrap().expect("it tells enough").blueprint;
            // What is rarely taken may be too little beside the other.
            assert!(asked == 0 || found.locks.len() == 2, "both are in it");
            let stage = Stage::new(&found, &machine, &machine, &Plan::of(&[1], 1)).unwrap();
            let rate = |threads| stage.rates(&found, None, threads).unwrap()[0];
            let each = found.operation_ns() / found.locks[0].visits;
            (each, rate(16) / rate(1))
        });
        assert!((rarely.0 / (100.0 * often.0) - 1.0).abs() < 0.15, "{rarely:?} {often:?}");
        assert!((rarely.1 / often.1 - 1.0).abs() < 0.1, "{rarely:?} {often:?}");
    }

    #[test]
    fn every_carried_machine_is_tried() {
        let names = (0..400).map(|number| machine(&mut Random::of_thread(1, number)).0.name);
        let mut names: Vec<String> = names.filter(|name| !name.contains(" cores of ")).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), carried::names().filter(|name| carried::find(name).is_some()).count());
    }
}
