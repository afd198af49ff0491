//! The simulator against the Markov model: figs. 8 and 9 with c measured in the simulator, and a prediction for 48
//! cores from a profile of two.

use crate::Reproduction;
use crate::published::Fault;
use crate::seeds::{self, BySeed, Unstable, median_curve, run_by_seed};
use crate::simulated::{OPTERON, duration_ns, hardware, lock_name, speedup, workload};
use anyhow::Context as _;
use compare::statistics::spread;
use curve::{Curve, Series};
use model::{Handover, LockModel, Service, Variant};
use report::{Cell, Column, Spread, Table};
use session::progress::Progress;
use simulate::{Setup, SimulatedRun};
use simulator::Hardware;
use workloads::Workload;

const CORES: [u32; 16] = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 36, 42, 48];
/// A section's share of one core's time in fig. 9.
const FIG9_SHARE: f64 = 0.02;

/// What a lock with a section of some length costs on a machine, measured with all cores waiting.
struct Costs {
    /// Cycles of an acquisition by the same core again, without the think time.
    same: f64,
    /// The same after another core, with no other core waiting.
    other: f64,
    /// c: what one more waiter adds, twice the mean of what a waiter adds to a hand-over.
    waiter: f64,
}

impl Costs {
    /// From runs without think time at 1, 2 and all cores.
    fn measure(
        hardware: &Hardware,
        workload: &Workload,
        section: u64,
        progress: &dyn Progress,
    ) -> anyhow::Result<Self> {
        let cores = [1, 2, 12, 48];
        let setups = cores.map(|cores| Setup {
            section_cycles: Some(section),
            think_cycles: Some(0),
            duration_ns: 2_000_000 + section * 60,
            ..Setup::new(hardware, workload, lock_name("ticket")).on_first(cores)
        });
        let measured = seeds::run(&setups, progress)?;
        let cycles =
            |index: usize| hardware.mhz as f64 * 1e6 / measured[index].median(SimulatedRun::acquisition_rate);
        // t_k = s + c (k - 1)/2, taken from 12 and 48 cores, where all but the holder wait.
        let waiter = 2.0 * (cycles(3) - cycles(2)) / f64::from(cores[3] - cores[2]);
        Ok(Self { same: cycles(0), other: cycles(1) - waiter / 2.0, waiter })
    }

    fn model(&self, think: f64) -> LockModel {
        LockModel {
            think,
            service: Service { same: self.same, other: self.other.max(self.same) },
            handover: Handover::Ticket { waiter_cost: self.waiter.max(0.0) },
            readers: None,
            variant: Variant::Waiters,
        }
    }
}

/// Figs. 8 and 9: simulated, and as the model gives them with the simulator's c.
pub(crate) fn figs_8_and_9(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = hardware(OPTERON)?;
    let counter = workload("counter")?;
    let of_fig8 = [12_500, 25_000, 50_000, 100_000, 200_000].map(|think| ("fig8", 400_u64, think));
    let of_fig9 = [400_u64, 1_600, 6_400, 25_600]
        .map(|section| ("fig9", section, (section as f64 * (1.0 / FIG9_SHARE - 1.0)) as u64));
    let mut table = Table::new([
        Column::text("figure", "figure"),
        Column::number("section_cycles", "section cycles"),
        Column::number("think_cycles", "think cycles"),
        Column::number("waiter_cycles", "c cycles"),
        Column::spread("simulated_peak", "simulated peak"),
        Column::number("simulated_peak_cores", "at cores"),
        Column::number("model_peak", "model peak"),
        Column::number("model_peak_cores", "at cores"),
        Column::number("simulated_collapse_cores", "simulated collapse"),
        Column::number("model_collapse_cores", "model collapse"),
        Column::percent("median_error", "model's median error %"),
        Column::percent("worst_error", "worst error %"),
    ]);
    let mut plots = vec![Series::new("fig8"), Series::new("fig9")];
    for (figure, section, think) in of_fig8.into_iter().chain(of_fig9) {
        let costs = Costs::measure(&hardware, counter, section, progress)?;
        let setups = CORES.map(|cores| Setup {
            section_cycles: Some(section),
            think_cycles: Some(think),
            duration_ns: duration_ns(&hardware, section + think, cores),
            ..Setup::new(&hardware, counter, lock_name("ticket")).on_first(cores)
        });
        let mut simulated = simulated_curve(&setups, progress)?;
        let mut model = costs.model(think as f64).curve("model", CORES)?;
        let errors = spread(&errors(&model, &simulated)).context("they have cores in common")?;
        table.row([
            Cell::from(figure),
            Cell::from(section),
            Cell::from(think),
            Cell::from(costs.waiter),
            Cell::from(simulated.peak().map(Spread::from)),
            Cell::from(simulated.peak().map(|peak| peak.cores)),
            Cell::from(model.peak().map(|peak| peak.value)),
            Cell::from(model.peak().map(|peak| peak.cores)),
            Cell::from(simulated.collapse_cores()),
            Cell::from(model.collapse_cores()),
            Cell::from(errors.median),
            Cell::from(errors.high),
        ]);
        let (plot, label) = match figure {
            "fig8" => (&mut plots[0], format!("{think} cycles of think time")),
            _ => (&mut plots[1], format!("section {section} cycles")),
        };
        simulated.label = format!("simulated, {label}");
        model.label = format!("model, {label}");
        plot.curves.extend([simulated, model]);
    }
    Ok(Reproduction {
        variant: None, title: "Figs. 8 and 9: the simulator against the model with the simulator's own c",
        table,
        notes: vec![
            Unstable::of_plots(&plots).note(),
            "c is measured with all cores waiting, from 12 to 48 cores; the model's form is t_k = s + c(k-1)/2. Errors are of the model against the simulation at 16 numbers of cores.".into(),
            "Between standing and fallen chance decides how many contend, so the worst error lies at the collapse.".into(),
        ],
        plots,
        faults: [4, 5, 6].map(Fault).to_vec(),
        scores: Vec::new(),
    })
}

/// Speed-ups over one core, medians with their ranges.
fn simulated_curve(setups: &[Setup<'_>], progress: &dyn Progress) -> anyhow::Result<Curve> {
    let by_seed = run_by_seed(setups, progress)?;
    let curves = by_seed.iter().map(|runs| speedup(runs, "ticket", "counter"));
    median_curve(&curves.collect::<anyhow::Result<Vec<_>>>()?)
}

/// The model's relative errors, by point.
fn errors(model: &Curve, simulated: &Curve) -> Vec<f64> {
    let pairs =
        simulated.points().iter().filter_map(|point| Some((model.at(point.cores)?.value, point.value)));
    pairs.map(|(model, simulated)| (model / simulated - 1.0).abs()).collect()
}

/// From a profile on two simulated cores to 48: what `contend profile` and `predict` do on hardware.
pub(crate) fn end_to_end(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = hardware(OPTERON)?;
    let counter = workload("counter")?;
    let mut table = Table::new([
        Column::number("section_cycles", "section cycles"),
        Column::number("think_cycles", "think cycles"),
        Column::number("profiled_section_cycles", "profiled section"),
        Column::number("profiled_think_cycles", "profiled think"),
        Column::number("predicted_at_48", "predicted at 48"),
        Column::spread("simulated_at_48", "simulated at 48"),
        Column::number("ratio", "predicted / simulated"),
        Column::number("predicted_peak_cores", "predicted peak cores"),
        Column::number("simulated_peak_cores", "simulated peak cores"),
    ]);
    let mut plots = vec![Series::new("end-to-end")];
    for (section, think) in [(200_u64, 4_000_u64), (400, 12_500), (1_000, 50_000)] {
        let setup = |cores| Setup {
            section_cycles: Some(section),
            think_cycles: Some(think),
            duration_ns: duration_ns(&hardware, section + think, cores),
            ..Setup::new(&hardware, counter, lock_name("ticket")).on_first(cores)
        };
        let profiled = seeds::run(&[setup(2)], progress)?;
        let profile = Profile::of_seeds(profiled[0].runs(), &hardware);
        // What a second waiter costs cannot be seen on two cores: c belongs to the machine.
        let costs = Costs::measure(&hardware, counter, section, progress)?;
        let model = LockModel {
            service: Service { same: profile.section, other: profile.section + profile.handover },
            ..costs.model(profile.think)
        };
        let mut predicted = model.curve("predicted", CORES)?;
        let mut simulated = simulated_curve(&CORES.map(setup), progress)?;
        let at_48 = |curve: &Curve| curve.at(48).map_or(f64::NAN, |point| point.value);
        table.row([
            Cell::from(section),
            Cell::from(think),
            Cell::from(profile.section),
            Cell::from(profile.think),
            Cell::from(at_48(&predicted)),
            Cell::from(simulated.at(48).map(Spread::from)),
            Cell::from(at_48(&predicted) / at_48(&simulated)),
            Cell::from(predicted.peak().map(|peak| peak.cores)),
            Cell::from(simulated.peak().map(|peak| peak.cores)),
        ]);
        predicted.label = format!("predicted, {section} of {}", section + think);
        simulated.label = format!("simulated, {section} of {}", section + think);
        plots[0].curves.extend([predicted, simulated]);
    }
    Ok(Reproduction {
        variant: None,
        title: "From a profile on two simulated cores to 48",
        table,
        notes: vec![
            "Section, think time and hand-over are what two cores show; c is measured on the target machine."
                .into(),
            Unstable::of_plots(&plots).note(),
        ],
        plots,
        faults: Vec::new(),
        scores: Vec::new(),
    })
}

/// What a profile of a run says of its lock, in cycles.
struct Profile {
    section: f64,
    think: f64,
    handover: f64,
}

impl Profile {
    /// Medians over the seeds.
    fn of_seeds(runs: &[SimulatedRun], hardware: &Hardware) -> Self {
        let all = runs.iter().map(|run| Self::of(run, hardware)).collect::<Vec<_>>();
        let median = |of: fn(&Self) -> f64| BySeed::of(all.iter().map(of)).median();
        Self {
            section: median(|profile| profile.section),
            think: median(|profile| profile.think),
            handover: median(|profile| profile.handover),
        }
    }

    fn of(run: &SimulatedRun, hardware: &Hardware) -> Self {
        let cycles = |ps: u64, count: u64| ps as f64 / count.max(1) as f64 * hardware.mhz as f64 / 1e6;
        let lock = run.report.locks.first().copied().unwrap_or_default();
        let threads = run.run.counts.len() as u64;
        let section = cycles(lock.held_ps, lock.acquisitions);
        // Both are of the whole simulation.
        let whole = cycles(run.report.elapsed_ns * simulator::PS_PER_NS * threads, lock.acquisitions);
        let think = whole - section - cycles(lock.wait_ps, lock.acquisitions);
        Self { section, think, handover: cycles(lock.handover_ps, lock.handovers) }
    }
}
