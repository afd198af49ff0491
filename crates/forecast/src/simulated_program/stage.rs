//! The simulated target with what was found out about the profile once, and single runs on it.

use super::Plan;
use super::blueprint::{Blueprint, own_lock};
use super::program::{self, Load, Outcome, Span};
use super::recorder::Recorder;
use model::End;
use profile::LockTable;
use rayon::prelude::*;
use simulator::patient::{Patient, with_beds};
use simulator::{Hardware, Options, Report, Simulated, Simulation};
use topology::MachineFile;
use topology::machine_file::{Coherence, Figure};

/// The outcome of a run.
pub(super) struct Done {
    /// Operations a nanosecond.
    pub(super) rate: f64,
    /// Of the time of all threads, that in which they wait for each lock.
    pub(super) waiting: Vec<f64>,
}

/// How the names of the C library's own locks begin in the catalogue.
const OWN: &str = "glibc-";

/// Whether a lock of the catalogue is one of the C library's own, elided or not.
fn is_own(lock: &str) -> bool {
    lock.rsplit(':').next().is_some_and(|lock| lock.starts_with(OWN))
}

/// The one-core run that everything is relative to is longer than the others.
const BASE_OPERATIONS: u64 = 30_000;

/// The simulated target with what was found out about the profile once.
#[derive(Debug)]
pub struct Stage {
    /// With all ranges at the optimistic end, the likely values and the pessimistic end.
    hardware: [Hardware; 3],
    /// What of the profiled think time is the locks' own work, ns.
    overhead_ns: f64,
    /// The locks of the program as it is.
    pub(super) own: Vec<&'static str>,
    seed: u64,
    replications: u32,
    ends: bool,
}

/// One of the runs of a point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    pub(super) end: End,
    seed: u64,
    start_at_locks: bool,
}

impl Stage {
    /// Makes the machine ready for a blueprint. `profiled_on` is the machine that the profile was taken on.
    ///
    /// # Errors
    ///
    /// A machine that cannot be simulated, or a simulation that stopped.
    pub fn new(
        blueprint: &Blueprint,
        machine: &MachineFile,
        profiled_on: &MachineFile,
        plan: &Plan,
    ) -> anyhow::Result<Self> {
        let [optimistic, likely, pessimistic] = End::ALL.map(|end| Hardware::new(&at_end(machine, end)));
        let own: Vec<&'static str> = blueprint.locks.iter().map(|hot| own_lock(hot.kind).0).collect();
        let stage = Self {
            hardware: [optimistic?, likely?, pessimistic?],
            overhead_ns: 0.0,
            own,
            seed: plan.seed,
            replications: plan.replications.max(1),
            ends: plan.ends,
        };
        let profiled_on = Hardware::new(profiled_on)?;
        let program = blueprint.program(&stage.own, 0.0, 1, &profiled_on, End::Likely);
        let load = Load {
            cores: &[0],
            seed: plan.seed,
            start_at_locks: false,
            warm_up: Span::of_operations(100),
            timed: Span::of_operations(BASE_OPERATIONS),
            recorder: None,
        };
        let taken_ns = 1.0 / simulate(&program, &profiled_on, &load)?.rate;
        Ok(Self { overhead_ns: (taken_ns - blueprint.operation_ns()).max(0.0), ..stage })
    }

    /// Runs with the likely values, which come first of [`Stage::rates`].
    pub(crate) fn likely(&self) -> usize {
        self.replications as usize
    }

    pub(super) fn draws(&self) -> Vec<Draw> {
        let draw = |end, number: u32| Draw {
            end,
            seed: self.seed + u64::from(number / 2),
            start_at_locks: number % 2 == 1,
        };
        let mut draws: Vec<_> = (0..self.replications).map(|number| draw(End::Likely, number)).collect();
        if self.ends {
            draws.extend([draw(End::Optimistic, 0), draw(End::Pessimistic, 0)]);
        }
        draws
    }

    pub(super) fn one(
        &self,
        blueprint: &Blueprint,
        locks: &[&'static str],
        threads: u32,
        draw: Draw,
    ) -> anyhow::Result<Done> {
        let hardware = match draw.end {
            End::Optimistic => &self.hardware[0],
            End::Likely => &self.hardware[1],
            End::Pessimistic => &self.hardware[2],
        };
        let program =
            blueprint.program(locks, self.overhead_ns * blueprint.batch, threads, hardware, draw.end);
        let alone = threads == 1;
        let [warm_up, timed] = if threads as usize > hardware.cores() {
            of_shared_cores(hardware)
        } else {
            let timed = match alone && draw.end == End::Likely {
                true => BASE_OPERATIONS,
                false => operations(threads, blueprint.operation_ns()),
            };
            [u64::from(2 * threads).max(200), timed].map(Span::of_operations)
        };
        let cores: Vec<u32> = (0..threads).map(|thread| thread % hardware.cores() as u32).collect();
        let load = Load {
            cores: &cores,
            seed: draw.seed,
            start_at_locks: draw.start_at_locks && !alone,
            warm_up,
            timed,
            recorder: None,
        };
        let done = simulate(&program, hardware, &load)?;
        // A program of one such thread may use several cores, too.
        let together = if alone { 1.0 } else { blueprint.together };
        let cores = (hardware.cores() as f64 * together).max(1.0);
        let cores_give = blueprint.cpu_ns.map_or(f64::INFINITY, |cpu_ns| cores / cpu_ns);
        let asked = blueprint.asked.filter(|_| draw.end != End::Optimistic && !alone);
        let most = cores_give.min(asked.unwrap_or(f64::INFINITY));
        Ok(Done { rate: (done.rate * blueprint.batch).min(most), ..done })
    }

    /// What a profile of the blueprint's program on so many threads, with a core each, would say.
    ///
    /// # Errors
    ///
    /// A simulation that stopped.
    pub(crate) fn profile(&self, blueprint: &Blueprint, threads: u32) -> anyhow::Result<LockTable> {
        let [_, hardware, _] = &self.hardware;
        let program =
            blueprint.program(&self.own, self.overhead_ns * blueprint.batch, threads, hardware, End::Likely);
        let cores: Vec<u32> = (0..threads).collect();
        let recorder = Recorder::new(&blueprint.locks, cores.len());
        let load = Load {
            cores: &cores,
            seed: self.seed,
            start_at_locks: false,
            warm_up: Span::of_operations(1),
            timed: Span::of_operations(BASE_OPERATIONS),
            recorder: Some(&recorder),
        };
        simulate(&program, hardware, &load)?;
        Ok(recorder.table(&blueprint.locks, hardware.cores() as u32))
    }

    /// Operations a nanosecond of the program as it was profiled on so many threads: each seed's, then at the optimistic and the pessimistic
    /// end. `first` takes the place of the first lock.
    ///
    /// # Errors
    ///
    /// A simulation that stopped.
    pub(crate) fn rates(
        &self,
        blueprint: &Blueprint,
        first: Option<&'static str>,
        threads: u32,
    ) -> anyhow::Result<Vec<f64>> {
        let mut locks = self.own.clone();
        if let Some(first) = first {
            locks[0] = first;
        }
        let draws = self.draws();
        draws.par_iter().map(|&draw| Ok(self.one(blueprint, &locks, threads, draw)?.rate)).collect()
    }
}

/// Timed operations of a run: enough for a mean within some percent, fewer where each costs the work of many waiters; and more
/// where they are short, so that a run sees many sleeps.
fn operations(threads: u32, operation_ns: f64) -> u64 {
    const LASTS_NS: f64 = 5_000_000.0;
    let threads = u64::from(threads);
    let enough = (600_000 / (threads + 30)).clamp(500, 6_000);
    enough.max(((LASTS_NS / operation_ns) as u64).min(60_000 / threads))
}

/// The warm-up and the timed part of a run in which threads share cores. What decides there begins when a thread loses its core
/// at the lock, which most slices end without: so a run lasts for many slices, and as many operations as it takes to see some
/// of them where operations are short.
fn of_shared_cores(hardware: &Hardware) -> [Span; 2] {
    const SLICES: [u64; 2] = [12, 60];
    const OPERATIONS: [u64; 2] = [100_000, 400_000];
    const PS_PER_NS: u64 = 1_000;
    [0, 1].map(|part| Span {
        operations: OPERATIONS[part],
        ns: SLICES[part] * (hardware.time_slice + hardware.tick) / PS_PER_NS,
    })
}

fn simulate(program: &program::Program, hardware: &Hardware, load: &Load<'_>) -> anyhow::Result<Done> {
    let options = Options { seed: load.seed, threads_move: true, ..Options::default() };
    let (threads, cores) = (load.cores.len() as u32, hardware.cores() as u32);
    let outcome = Simulation::new(hardware).options(options).run(|| {
        // The C library's own locks wait as they are written.
        let own = program.guards.iter().all(|guard| is_own(guard.lock));
        if threads <= cores || own {
            return program.run::<Simulated>(load);
        }
        with_beds(threads, hardware, || program.run::<Patient>(load))
    });
    let (outcome, report) = outcome.map_err(|stopped| {
        anyhow::anyhow!(
            "the simulated program with {} threads under {}: {stopped}",
            load.cores.len(),
            program.guards[0].lock
        )
    })?;
    Ok(Done { rate: outcome.rate, waiting: waiting(&outcome, &report, load.cores.len()) })
}

/// Of the time of all threads, the part in which they wait for each lock.
fn waiting(outcome: &Outcome, report: &Report, threads: usize) -> Vec<f64> {
    let all_ps = report.elapsed_ns as f64 * 1_000.0 * threads as f64;
    let of_lock = |addresses: &Vec<usize>| {
        let counts = report.locks.iter().filter(|lock| addresses.contains(&(lock.address as usize)));
        counts.map(|lock| lock.wait_ps as f64).sum::<f64>() / all_ps.max(1.0)
    };
    outcome.addresses.iter().map(of_lock).collect()
}

/// The machine with all of its ranges at one end, but for that of a pause: whether a longer one helps depends on the lock.
fn at_end(machine: &MachineFile, end: End) -> MachineFile {
    let mut machine = machine.clone();
    let at = |figure: &mut Option<Figure>| {
        if let Some(figure) = figure {
            figure.value = match end {
                End::Optimistic => figure.low.unwrap_or(figure.value),
                End::Likely => figure.value,
                End::Pessimistic => figure.high.unwrap_or(figure.value),
            };
        }
    };
    let transfer = &mut machine.transfer;
    for tier in [
        &mut transfer.smt_sibling, &mut transfer.same_l3, &mut transfer.same_socket,
        &mut transfer.cross_socket,
    ] {
        at(tier);
    }
    let mut wake = Some(machine.handover.wake.clone());
    at(&mut wake);
    machine.handover.wake = wake.expect("it was put there");
    if let Some(Coherence {
        local_transfer,
        local_read,
        serial_read,
        invalidate,
        memory,
        hit,
        atomic,
        home_occupancy,
        refused_try,
        link_hop,
        controller_hop,
        context_switch,
        system_call,
        wake_call,
        ..
    }) = &mut machine.coherence
    {
        for figure in [
            local_transfer, local_read, serial_read, invalidate, memory, hit, atomic, home_occupancy,
            refused_try, link_hop, controller_hop, context_switch, system_call, wake_call,
        ] {
            at(figure);
        }
    }
    machine
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Source;
    use topology::machine_file::FigureUnit;

    #[test]
    fn an_atomic_has_both_of_its_ends() {
        let mut machine = topology::carried::machine("dl580");
        let (unit, source) = (FigureUnit::Nanoseconds, Source::assumed("test"));
        let figure = Figure { value: 10.0, low: Some(5.0), high: Some(20.0), unit, source };
        machine.coherence.as_mut().expect("it has them").atomic = Some(figure);
        let atomic = |end| Hardware::new(&at_end(&machine, end)).expect("a machine").atomic;
        assert_eq!(End::ALL.map(atomic), [5_000, 10_000, 20_000]);
    }
}
