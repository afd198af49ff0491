//! Simulated runs, side by side on the host's cores.

use super::futex_table::with_futex_table;
use super::seeds::SeededRuns;
use curve::{Curve, Provenance, Unit};
use machine::{Home, Run};
use rayon::prelude::*;
use session::interrupt;
use session::progress::{Progress, Work};
use simulator::{Hardware, Options, PS_PER_NS, Report, Simulated, Simulation};
use std::convert::Infallible;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use workloads::catalogue::Body;
use workloads::{Load, Variation, Workload};

/// One run to be made.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The machine.
    pub hardware: &'a Hardware,
    /// What the threads do.
    pub workload: &'a Workload,
    /// The lock that they do it under.
    pub lock: &'static str,
    /// The number under which the run stands in a curve.
    pub cores: u32,
    /// The core of each thread.
    pub places: Vec<u32>,
    /// Simulated time, after a warm-up.
    pub duration_ns: u64,
    /// Simulated time before that, at least; the simulator's own warm-up lasts for some 40 µs.
    pub warm_up_ns: u64,
    /// The random seed.
    pub seed: u64,
    /// Memory node of the lock.
    pub memory_node: u32,
    /// Cycles of work in the critical section, instead of the workload's.
    pub section_cycles: Option<u64>,
    /// Cycles of think time, instead of the workload's.
    pub think_cycles: Option<u64>,
    /// Sections that each acquisition holds the lock for, instead of the workload's.
    pub batch: Option<u64>,
    /// How the think time varies.
    pub spread: Variation,
    /// Nanoseconds that each thread sleeps between two operations, on average, where the workload's threads do. Then a thread keeps its
    /// core until it sleeps, as calls of a kernel do that is not preemptible.
    pub sleep_ns: u64,
    /// Polls for real where a waiter would be parked.
    pub really_poll: bool,
    /// Buckets of the table that sleepers are in, a power of two, instead of sleeps at fixed costs.
    pub futex_buckets: Option<usize>,
    /// Records of the trace; 0 for none.
    pub trace_records: usize,
    /// Runs this instead of the lock of that name, for locks with constants of their own.
    pub instead: Option<fn(&Workload, &Load<'_>) -> Run>,
}

impl<'a> Setup<'a> {
    /// One thread on core 0 for 3 ms.
    pub fn new(hardware: &'a Hardware, workload: &'a Workload, lock: &'static str) -> Self {
        Self {
            hardware,
            workload,
            lock,
            cores: 1,
            places: vec![0],
            duration_ns: 3_000_000,
            warm_up_ns: 0,
            seed: 1,
            memory_node: 0,
            section_cycles: None,
            think_cycles: None,
            batch: None,
            spread: Variation::Exponential,
            sleep_ns: 0,
            really_poll: false,
            futex_buckets: None,
            trace_records: 0,
            instead: None,
        }
    }

    /// The same on the first cores, one thread each.
    pub fn on_first(mut self, cores: u32) -> Self {
        self.cores = cores;
        self.places = (0..cores).collect();
        self
    }

    /// Acquisitions that make an operation, where it consists of critical sections alone.
    fn acquisitions_an_operation(&self) -> Option<u64> {
        let Body::Section(section) = self.workload.body else { return None };
        let batch = self.batch.unwrap_or(section.batch).max(1);
        self.workload.uses_lock().then(|| section.sections().div_ceil(batch))
    }

    fn measure(&self) -> anyhow::Result<SimulatedRun> {
        // First in, first out by one priority: no thread takes the core from another.
        let priorities = vec![1; if self.sleep_ns > 0 { self.places.len() } else { 0 }];
        let load = Load {
            threads: self.places.len(),
            cores: &self.places,
            duration_ns: self.duration_ns,
            seed: self.seed,
            home: Home::Node(self.memory_node),
            section_cycles: self.section_cycles,
            think_cycles: self.think_cycles,
            batch: self.batch,
            think_spread: self.spread,
            sleep_ns: self.sleep_ns,
            priorities: &priorities,
            ..Load::default()
        };
        let options = Options {
            seed: self.seed,
            really_poll: self.really_poll,
            trace_records: self.trace_records,
            warm_up_ns: self.warm_up_ns,
            ..Options::default()
        };
        let started = Instant::now();
        let simulation = Simulation::new(self.hardware).options(options);
        let run = || match self.instead {
            Some(run) => Some(run(self.workload, &load)),
            None => workloads::catalogue::run::<Simulated>(self.workload, self.lock, &load),
        };
        let outcome = simulation.traced(|| match self.futex_buckets {
            Some(buckets) => with_futex_table(buckets, run),
            None => run(),
        });
        let stopped = |stopped| anyhow::anyhow!("{} with {} threads: {stopped}", self.lock, load.threads);
        let (run, report, trace) = outcome.map_err(stopped)?;
        let Some(run) = run else { anyhow::bail!("there is no lock {}", self.lock) };
        let host = started.elapsed();
        Ok(SimulatedRun {
            lock: if self.workload.uses_lock() { self.lock } else { NO_LOCK },
            workload: self.workload.name,
            machine: self.hardware.name.clone(),
            cores: self.cores,
            seed: self.seed,
            run,
            report,
            acquisitions_an_operation: self.acquisitions_an_operation(),
            trace,
            host,
        })
    }
}

/// What stands for the lock of a workload that takes none.
pub const NO_LOCK: &str = "none";

/// One run.
#[derive(Debug, Clone)]
pub struct SimulatedRun {
    /// The lock that they do it under, or [`NO_LOCK`].
    pub lock: &'static str,
    /// The workload.
    pub workload: &'static str,
    /// The machine.
    pub machine: String,
    /// The number under which the run stands in a curve.
    pub cores: u32,
    /// The random seed.
    pub seed: u64,
    /// What the threads counted.
    pub run: Run,
    /// What the simulated machine counted.
    pub report: Report,
    /// Acquisitions that make an operation, where it consists of critical sections alone.
    pub acquisitions_an_operation: Option<u64>,
    /// Null unless asked for.
    pub trace: serde_json::Value,
    host: Duration,
}

impl SimulatedRun {
    /// Operations of all threads; parts of them where an operation is a number of acquisitions. Threads that begin long operations
    /// at one time end them at one time, too: whole ones come in steps, and none in a short run.
    pub fn operations(&self) -> f64 {
        match self.acquisitions_an_operation {
            Some(acquisitions) => self.run.acquisitions() as f64 / acquisitions as f64,
            None => self.run.operations() as f64,
        }
    }

    /// Operations a second, of all threads.
    pub fn throughput(&self) -> f64 {
        self.operations() * 1e9 / self.run.elapsed_ns.max(1) as f64
    }

    /// Acquisitions a second, of all threads.
    pub fn acquisition_rate(&self) -> f64 {
        self.run.acquisitions() as f64 * 1e9 / self.run.elapsed_ns.max(1) as f64
    }

    /// Operations of the slowest thread over those of the fastest.
    pub fn fairness(&self) -> f64 {
        let operations = self.run.counts.iter().map(|counts| counts.operations);
        let (least, most) = (operations.clone().min().unwrap_or(0), operations.max().unwrap_or(0));
        least as f64 / most.max(1) as f64
    }

    /// So many events of the whole simulation, in which the warm-up and what follows the end are, to an operation; no number where there
    /// was none.
    pub fn per_operation(&self, events: u64) -> f64 {
        let counted = (self.run.elapsed_ns as f64 / self.report.elapsed_ns.max(1) as f64).min(1.0);
        events as f64 * counted / self.operations()
    }

    /// What so many picoseconds of threads are of the time of all, 0 to 1.
    pub fn share_of_time(&self, ps: u64) -> f64 {
        let all_ps = self.report.elapsed_ns as f64 * PS_PER_NS as f64 * self.run.counts.len() as f64;
        ps as f64 / all_ps.max(1.0)
    }

    /// What so many picoseconds of threads are of the time that threads had cores, 0 to 1: their share of a profile's samples.
    pub fn share_of_running(&self, ps: u64) -> f64 {
        ps as f64 / self.report.totals.running_ps.max(1) as f64
    }

    /// Everything of the run; with `host_times`, how fast it was simulated too.
    pub fn json(&self, host_times: bool) -> serde_json::Value {
        let mut all = serde_json::json!({
            "lock": self.lock,
            "cores": self.cores,
            "seed": self.seed,
            "threads": self.run.counts.len(),
            "operations": self.operations(),
            "acquisitions": self.run.acquisitions(),
            "elapsed_ns": self.run.elapsed_ns,
            "operations_per_second": self.throughput(),
            "slowest_over_fastest": self.fairness(),
            "report": self.report,
        });
        if host_times {
            let seconds = self.host.as_secs_f64().max(1e-9);
            all["host"] = serde_json::json!({
                "seconds": seconds,
                "accesses_per_second": self.report.all_lines.accesses() as f64 / seconds,
                "events_per_second": self.report.totals.events as f64 / seconds,
            });
        }
        all
    }
}

/// Makes all runs, side by side. The results are in the order of the setups.
///
/// # Errors
///
/// A simulation that stopped, or a lock that does not exist.
pub fn sweep(setups: &[Setup<'_>], progress: &dyn Progress) -> anyhow::Result<Vec<SimulatedRun>> {
    let steps = progress.start(Work::Simulations, setups.len());
    setups
        .par_iter()
        .map(|setup| {
            let measured = setup.measure();
            steps.done();
            measured
        })
        .collect()
}

/// As [`sweep`]; but an interrupt that [`interrupt::keep`] noted ends the process at once: `cut` gets one answer
/// for each setup, of which those that are not finished are missing, and ends it.
///
/// # Errors
///
/// As of [`sweep`].
pub fn sweep_or(
    setups: &[Setup<'_>],
    progress: &dyn Progress,
    cut: impl FnOnce(Vec<Option<SimulatedRun>>) -> Infallible,
) -> anyhow::Result<Vec<SimulatedRun>> {
    let steps = progress.start(Work::Simulations, setups.len());
    let mut finished: Vec<Option<SimulatedRun>> = setups.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            // After a failure the receiver is gone, and nothing more begins.
            let measured =
                setups.par_iter().enumerate().try_for_each_with(sender, |sender, (number, setup)| {
                    sender.send((number, setup.measure())).map_err(drop)
                });
            measured.unwrap_or_default();
        });
        let all = interrupt::receive_all(&receiver, |(number, measured): (usize, anyhow::Result<_>)| {
            finished[number] = Some(measured?);
            steps.done();
            anyhow::Ok(())
        })?;
        if !all {
            drop(steps);
            // Runs that are under way cannot be ended otherwise than with the process.
            match cut(std::mem::take(&mut finished)) {}
        }
        Ok(finished.into_iter().flatten().collect())
    })
}

/// The curve of one lock: operations a second of the median runs, with their ranges over the seeds.
///
/// # Errors
///
/// No runs, or two setups on as many cores.
pub fn curve<'a>(measured: impl IntoIterator<Item = &'a SeededRuns>) -> anyhow::Result<Curve> {
    let measured = measured.into_iter().collect::<Vec<_>>();
    let Some(first) = measured.first().map(|runs| runs.median()) else { anyhow::bail!("a curve of no runs") };
    let points = measured.iter().map(|runs| runs.point());
    let curve = Curve::new(first.lock, Unit::OperationsPerSecond, Provenance::Simulated)
        .lock(first.lock)
        .workload(first.workload)
        .machine(&*first.machine);
    Ok(curve.with_points(points)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::progress::Unwatched;

    #[test]
    fn users_that_sleep_leave_their_cores_and_take_none_from_others() {
        let hardware = Hardware::new(&topology::carried::machine("dl980")).expect("a machine");
        let fserver = workloads::catalogue::find("fserver").expect("a workload");
        let sleepy = |users: u32| Setup {
            places: (0..users).map(|user| user % 4).collect(),
            think_cycles: Some(100_000),
            sleep_ns: 200_000,
            ..Setup::new(&hardware, fserver, "mcs")
        };
        let busy = Setup { sleep_ns: 0, ..sleepy(4) };
        let [busy, few, many] =
            sweep(&[busy, sleepy(4), sleepy(40)], &Unwatched).expect("runs").try_into().expect("three");
        // Of four cores.
        let running = |run: &SimulatedRun| {
            run.report.totals.running_ps as f64 / (4 * run.report.elapsed_ns * PS_PER_NS) as f64
        };
        assert!(running(&busy) > 0.95 && running(&few) < 0.4, "{} {}", running(&busy), running(&few));
        assert!(running(&many) > 0.8 && running(&many) <= 1.0, "ten users fill a core: {}", running(&many));
        let totals = many.report.totals;
        assert!(many.run.operations() > 100 && totals.sleeps > many.run.operations());
        assert!(totals.context_switches <= totals.sleeps + 40, "each follows a sleep or an end: {totals:?}");
    }
}
