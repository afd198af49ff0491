//! Regimes on simulated machines.

use super::Longest;
use super::causes::Counts;
use super::hardware::{ROUNDS, lasting};
use super::regime::{Figures, Measured, Regime};
use crate::contenders::{Contender, Measure, Wait};
use crate::throughput::{Options, loads_of};
use crate::timing::{CUT_SHORT, shown_ns};
use compare::statistics;
use machine::{Event, Home, Machine, Plan, Topology};
use rayon::prelude::*;
use session::ensure_usage;
use session::interrupt;
use session::placement::Placement;
use session::progress::{Progress, Steps, Work};
use session::seeds::Seeds;
use simulator::patient::{Patient, with_beds};
use simulator::{Hardware, Simulated, Simulation};
use std::convert::Infallible;
use std::sync::mpsc::{self, Sender};
use workloads::client::Wrong;
use workloads::exclusion::Exclusion;
use workloads::mix::{self, Mix, Outcome};

/// The machines, and what runs on each besides the load.
#[derive(Debug, Clone)]
pub struct Machines {
    /// The simulated machines.
    pub hardware: Vec<Hardware>,
    /// Numbers of cores, on each machine that has as many.
    pub cores: Vec<u32>,
    /// Random seed; a run more has the next one.
    pub seed: u64,
}

/// What a thread of a shared core gets of a run's simulated time: more than a time slice of the machines.
const TURN_NS: u64 = 5_000_000;

impl Machines {
    /// The regimes, machine by machine: on so many cores as many threads and twice as many, or those that were asked for.
    pub(super) fn regimes(&self, options: &Options) -> anyhow::Result<Vec<Regime>> {
        let mut regimes = Vec::new();
        for hardware in &self.hardware {
            let has = hardware.cores();
            let counts: Vec<usize> = self
                .cores
                .iter()
                .map(|&cores| cores as usize)
                .filter(|cores| (1..=has).contains(cores))
                .collect();
            ensure_usage!(
                !counts.is_empty(),
                "{} has {has} cores, fewer than each of --cores: name a smaller number, or another machine",
                hardware.name
            );
            for cores in counts {
                let threads: Vec<usize> = match &options.threads[..] {
                    [] => vec![cores, 2 * cores],
                    asked => asked.iter().map(|&threads| threads.into()).collect(),
                };
                let most = simulator::MAX_THREADS;
                for &threads in &threads {
                    ensure_usage!(
                        threads <= most,
                        "{threads} threads: a simulation runs 1 to {most}; name fewer"
                    );
                }
                regimes.extend(loads_of(options, threads.into_iter()).map(|load| Regime {
                    machine: Some(hardware.name.clone()),
                    cores,
                    load: lasting(load, options.duration, cores, TURN_NS),
                }));
            }
        }
        Ok(regimes)
    }

    /// How it was simulated, for readers of tables.
    pub(super) fn how(&self, runs: u32) -> String {
        let names: Vec<_> = self.hardware.iter().map(|hardware| hardware.name.as_str()).collect();
        let seeds = Seeds { first: self.seed, count: runs };
        format!(
            "Simulated on {}, {seeds}: the locks' own code, threads placed socket by socket, the lock on node 0. A run has \
             at least {} of simulated time for each thread of a shared core and {ROUNDS} rounds of section and think time. \
             Where there are more threads than cores, what spins sleeps after a bound. In regimes with reads the locks \
             take part that readers share, and those others that were best in some regime without reads, acquired as for a \
             write; if locks were named, all of them. Without a range in the seeds there are ties only of equals.",
            names.join(", "),
            shown_ns(TURN_NS),
        )
    }

    /// Runs the locks in regimes, side by side on the host's cores.
    pub(super) fn measure(
        &self,
        progress: &dyn Progress,
        regimes: &[Regime],
        locks: &[Contender],
        runs: u32,
    ) -> Vec<Measured> {
        let jobs: Vec<Job> = regimes
            .iter()
            .flat_map(|regime| locks.iter().map(move |&lock| (regime, lock)))
            .flat_map(|(regime, lock)| {
                Seeds { first: self.seed, count: runs }.iter().map(move |seed| (regime.clone(), lock, seed))
            })
            .collect();
        let steps = progress.start(Work::Simulations, jobs.len());
        let mut given = self.samples(jobs, &*steps).into_iter();
        drop(steps);
        let mut figures = |&lock: &Contender| {
            // All runs are taken, so that those of the next lock come next, even after a failure.
            let runs: Vec<_> = given.by_ref().take(runs as usize).collect();
            Figures::of_samples(lock, runs)
        };
        let measured = |regime: &Regime| Measured {
            regime: regime.clone(),
            locks: locks.iter().map(&mut figures).collect(),
        };
        regimes.iter().map(measured).collect()
    }

    /// Runs simulations side by side, in a thread of their own: those that are under way cannot be ended, and an interrupt leaves them to
    /// the end of the process.
    fn samples(&self, jobs: Vec<Job>, steps: &dyn Steps) -> Vec<Result<Sample, String>> {
        let mut given: Vec<_> = jobs.iter().map(|_| Err(CUT_SHORT.to_owned())).collect();
        if interrupt::came() {
            return given;
        }
        let (machines, (sender, receiver)) = (self.clone(), mpsc::channel());
        let simulating = std::thread::spawn(move || {
            let run = |sender: &mut Sender<_>, (number, job): (usize, &Job)| {
                let (regime, lock, seed) = job;
                sender.send((number, machines.sample(regime, lock, *seed))).map_err(drop)
            };
            // After an interrupt the receiver is gone, and nothing more begins.
            jobs.par_iter().enumerate().try_for_each_with(sender, run).unwrap_or_default();
        });
        let Ok(all) = interrupt::receive_all(&receiver, |(number, sample)| {
            given[number] = sample;
            steps.done();
            Ok::<_, Infallible>(())
        });
        if all && let Err(panic) = simulating.join() {
            std::panic::resume_unwind(panic);
        }
        given
    }

    fn sample(&self, regime: &Regime, lock: &Contender, seed: u64) -> Result<Sample, String> {
        let named = |hardware: &&Hardware| Some(&hardware.name) == regime.machine.as_ref();
        let hardware = self.hardware.iter().find(named).expect("a regime is of one of the machines");
        let ghz = hardware.mhz as f64 / 1e3;
        let (load, cores) = (&regime.load, regime.cores);
        let sockets: Vec<u32> = (0..hardware.hops.len() as u32).collect();
        let topology = Topology { places: hardware.places.clone() };
        let places = Placement::FillFirst.cores(&topology, &sockets, cores);
        let places: Vec<u32> = places.into_iter().cycle().take(load.threads).collect();
        let mix = Mix { home: Home::Node(0), ..load.mix(ghz) };
        let plan = Plan { cores: &places, ..Plan::threads(load.threads).lasting(load.duration_ns) };
        let in_simulation = InSimulation { mix: &mix, plan: &plan, seed };
        let ran = Simulation::new(hardware).seed(seed).run(|| match lock.wait(load.threads, cores) {
            Wait::Pure => lock.measure_on::<Simulated, _>(in_simulation),
            Wait::Patient => {
                let run = || lock.measure_on::<Patient, _>(in_simulation);
                with_beds(load.threads as u32, hardware, run)
            }
        });
        let (outcome, report) = ran.map_err(|stopped| format!("stopped: {}", stopped.reason))?;
        let outcome = outcome.ok_or("it does not run on simulated machines")?;
        let outcome = outcome.map_err(|wrong| format!("wrong result: {wrong}"))?;
        let longest = outcome.waits.iter().map(|waits| waits.0).max().unwrap_or(0);
        Ok(Sample {
            per_second: outcome.per_second(),
            slowest_share: outcome.slowest_share(),
            jain: outcome.jain(),
            longest_wait_ns: longest as f64 / ghz,
            counts: Counts::simulated(outcome.sections, &report),
        })
    }
}

/// A lock in a regime, with a seed.
type Job = (Regime, Contender, u64);

/// What one run says of one lock.
struct Sample {
    per_second: f64,
    slowest_share: f64,
    jain: f64,
    longest_wait_ns: f64,
    counts: Counts,
}

impl Figures {
    fn of_samples(lock: Contender, runs: Vec<Result<Sample, String>>) -> Self {
        let mut samples = Vec::new();
        let mut failure = None;
        for run in runs {
            match run {
                Ok(sample) => samples.push(sample),
                Err(why) => failure = failure.or(Some(why)),
            }
        }
        let spread =
            |figure: fn(&Sample) -> f64| statistics::spread(&samples.iter().map(figure).collect::<Vec<_>>());
        Self {
            lock,
            // A lock that failed in one run has failed.
            per_second: spread(|sample| sample.per_second).filter(|_| failure.is_none()),
            slowest_share: spread(|sample| sample.slowest_share).map(|spread| spread.median),
            jain: spread(|sample| sample.jain).map(|spread| spread.median),
            longest_wait_ns: spread(|sample| sample.longest_wait_ns).map(|spread| spread.high),
            counts: samples.first().map(|sample| sample.counts),
            failure,
        }
    }
}

/// The mix in the current simulation.
#[derive(Clone, Copy)]
struct InSimulation<'a> {
    mix: &'a Mix,
    plan: &'a Plan<'a>,
    seed: u64,
}

impl Measure for InSimulation<'_> {
    type Output = Result<Outcome<Longest>, Wrong>;

    fn measure<M: Machine, S: Exclusion>(self) -> Self::Output {
        mix::run::<M, Told<S>, Longest>(self.mix, self.plan, self.seed)
    }
}

/// A lock whose sections the simulation is told of, which takes threads that do nothing else for a livelock.
struct Told<S>(S);

impl<S: Exclusion> Exclusion for Told<S> {
    const SHARES: bool = S::SHARES;

    fn new() -> Self {
        Self(S::new())
    }

    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        let result = self.0.exclusive(section);
        Simulated::note(Event::Operation);
        result
    }

    fn shared<R>(&self, section: impl FnOnce() -> R) -> R {
        let result = self.0.shared(section);
        Simulated::note(Event::Operation);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::Section;
    use crate::timing::Bench;
    use crate::{Common, regimes};
    use session::progress::Unwatched;
    use std::time::Duration;
    use topology::carried;

    fn options(threads: Vec<u16>) -> Options {
        Options {
            common: Common {
                lock: ["ticket", "mcs", "futex", "rw"].map(str::to_owned).to_vec(),
                runs: 2,
                limit: Duration::from_secs(60),
            },
            threads,
            section: vec![Section::Lines(0), Section::Nanoseconds(200)],
            think_ns: vec![0],
            reads: vec![0, 90],
            duration: Duration::from_micros(20),
        }
    }

    fn machines(cores: Vec<u32>) -> Machines {
        let hardware = Hardware::new(&carried::machine("opteron-8x6")).expect("a machine");
        Machines { hardware: vec![hardware], cores, seed: 7 }
    }

    #[test]
    fn the_same_seed_gives_the_same_cells() {
        let bench =
            Bench { ghz: 1.0, topology: Topology::default(), later: Duration::ZERO, progress: &Unwatched };
        let run = || {
            let machines = machines(vec![2, 1_000]);
            let regimes = regimes::run(&bench, &options(Vec::new()), Some(&machines)).expect("it runs");
            (regimes.cells.json(), regimes.findings.svg().expect("a map"))
        };
        let first = run();
        assert_eq!(first, run());
        let cells = first.0.as_array().expect("rows");
        assert_eq!(cells.len(), 2 * 2 * 2 * 4, "threads, sections, reads, locks");
        for cell in cells {
            assert!(cell["failure"].is_null() && cell["ratio"].as_f64() > Some(0.0), "{cell}");
        }
    }

    #[test]
    fn cores_that_no_machine_has_are_refused() {
        let regimes = |cores, threads| machines(cores).regimes(&options(threads));
        let refused = |given: anyhow::Result<Vec<Regime>>| given.expect_err("refused").to_string();
        assert!(refused(regimes(vec![96], vec![])).contains("opteron-8x6 has 48 cores"));
        assert!(refused(regimes(vec![2], vec![u16::MAX])).contains("65535 threads"));
        let threads: Vec<_> =
            regimes(vec![2, 48], vec![]).unwrap().iter().map(|regime| regime.load.threads).collect();
        assert_eq!((threads[0], threads.last()), (2, Some(&96)));
    }
}
