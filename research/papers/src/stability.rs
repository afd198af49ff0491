//! Back-off that tunes itself, and how a lock falls into its collapsed state, simulated.

use crate::Reproduction;
use crate::native::SUSPECT_MIX;
use crate::published::{self, Fault};
use crate::simulated::{EIGHTY_CORES, OPTERON, hardware, lock_name, throughput, workload};
use anyhow::Context as _;
use compare::statistics::spread;
use curve::Series;
use locks::CYCLES_PER_WAITER;
use report::{Cell, Column, Table};
use session::progress::Progress;
use simulate::{Setup, SimulatedRun, sweep};
use simulator::Hardware;
use topology::carried;

/// The back-off that tunes itself against a fixed constant, on 4 × 6 and on 80 cores, by the length of the section.
pub(crate) fn self_tuning(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    const LOCKS: [&str; 4] = ["ticket", "ticket-proportional", "ticket-selftuning", "mcs"];
    const SECTIONS: [u64; 4] = [50, 500, 5_000, 50_000];
    let counter = workload("counter")?;
    let machines = [half_of_opteron()?, hardware(EIGHTY_CORES)?];
    let mut table = Table::new([
        Column::text("machine", "machine"),
        Column::number("cores", "cores"),
        Column::number("section_cycles", "section cycles"),
        Column::number("ticket", "ticket ops/s"),
        Column::number("proportional_over_ticket", "proportional / ticket"),
        Column::number("selftuning_over_ticket", "self-tuning / ticket"),
        Column::number("selftuning_over_proportional", "self-tuning / proportional"),
        Column::number("mcs_over_ticket", "MCS / ticket"),
    ]);
    let mut plots = Vec::new();
    for hardware in &machines {
        let all = hardware.cores() as u32;
        let cores = [1, 2, all / 8, all / 4, all / 2, all];
        let mut setups = Vec::new();
        for section in SECTIONS {
            for lock in LOCKS {
                setups.extend(cores.map(|cores| Setup {
                    section_cycles: Some(section),
                    think_cycles: Some(4 * section),
                    duration_ns: 3_000_000 + section * 400,
                    ..Setup::new(hardware, counter, lock_name(lock)).on_first(cores)
                }));
            }
        }
        let measured = sweep(&setups, progress)?;
        for (section, of_section) in SECTIONS.iter().zip(measured.chunks(LOCKS.len() * cores.len())) {
            let at_all = |lock: &str| {
                let run = of_section.iter().find(|one| one.lock == lock && one.cores == all);
                run.map_or(f64::NAN, SimulatedRun::throughput)
            };
            let ticket = at_all("ticket");
            table.row([
                Cell::from(hardware.name.as_str()),
                Cell::from(all),
                Cell::from(*section),
                Cell::from(ticket),
                Cell::from(at_all("ticket-proportional") / ticket),
                Cell::from(at_all("ticket-selftuning") / ticket),
                Cell::from(at_all("ticket-selftuning") / at_all("ticket-proportional")),
                Cell::from(at_all("mcs") / ticket),
            ]);
            let mut plot = Series::new(format!("{all} cores, section {section} cycles"));
            for lock in LOCKS {
                plot.curves.push(throughput(of_section.iter().filter(|one| one.lock == lock), lock)?);
            }
            plots.push(plot);
        }
    }
    let plateaus = published::back_off_plateaus()?;
    let relative = plateaus.iter().filter(|plateau| plateau.workload != SUSPECT_MIX).filter_map(|plateau| {
        let ticket = plateau.vanilla_low? + plateau.vanilla_high?;
        Some((plateau.backoff_low? + plateau.backoff_high?) / ticket)
    });
    let published = spread(&relative.collect::<Vec<_>>()).context("aim7_backoff.csv has plateaus")?;
    Ok(Reproduction {
        variant: None,
        title: "Back-off that tunes itself, simulated",
        table,
        plots,
        notes: vec![
            format!(
                "Think time is four times the section, so that all cores wait. The fixed constant is the lock's default, \
                 {CYCLES_PER_WAITER} cycles a waiter."
            ),
            format!(
                "Published for AIM7 on 80 cores (aim7_backoff.csv), in the middle of the plateaus: {:.2} to {:.2} of the ticket lock's, wild swings in several workloads.",
                published.low, published.high
            ),
        ],
        faults: vec![Fault(15)],
        scores: Vec::new(),
    })
}

/// The paper's machine with 4 of its 8 dies.
pub(crate) fn half_of_opteron() -> anyhow::Result<Hardware> {
    const DIES: usize = 4;
    let mut file = carried::machine(OPTERON);
    file.name = format!("{OPTERON}, {DIES} dies");
    file.topology.sockets = DIES as u32;
    if let Some(coherence) = &mut file.coherence {
        coherence.hops.truncate(DIES);
        coherence.hops.iter_mut().for_each(|row| row.truncate(DIES));
    }
    Ok(Hardware::new(&file)?)
}

/// Throughput near the collapse by the length of the run: a short run may end before it falls.
pub(crate) fn instability(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    const SEEDS: u64 = 4;
    const CORES: [u32; 7] = [28, 30, 31, 32, 33, 34, 36];
    const DURATIONS_MS: [u64; 4] = [1, 4, 16, 64];
    let hardware = hardware(OPTERON)?;
    let exim = workload("exim")?;
    let mut setups = Vec::new();
    for cores in CORES {
        for duration_ms in DURATIONS_MS {
            setups.extend((1..=SEEDS).map(|seed| Setup {
                seed,
                duration_ns: duration_ms * 1_000_000,
                ..Setup::new(&hardware, exim, lock_name("ticket")).on_first(cores)
            }));
        }
    }
    let measured = sweep(&setups, progress)?;
    let mut table = Table::new([
        Column::number("cores", "cores"),
        Column::number("run_ms", "run ms"),
        Column::spread("acquisitions_per_second", "acquisitions/s"),
        Column::number("fallen", "runs of 4 that had fallen"),
    ]);
    let one = Setup { duration_ns: 16_000_000, ..Setup::new(&hardware, exim, lock_name("ticket")) };
    let of_one_core = sweep(&[one], progress)?[0].acquisition_rate();
    for (setups, runs) in setups.chunks(SEEDS as usize).zip(measured.chunks(SEEDS as usize)) {
        let rates = runs.iter().map(SimulatedRun::acquisition_rate).collect::<Vec<_>>();
        let unhindered = of_one_core * f64::from(setups[0].cores);
        let fallen = rates.iter().filter(|&&rate| rate < curve::COLLAPSE_SHARE * unhindered).count();
        table.row([
            Cell::from(setups[0].cores),
            Cell::from(setups[0].duration_ns / 1_000_000),
            spread(&rates).map_or(Cell::Missing, Cell::from),
            Cell::from(fallen),
        ]);
    }
    Ok(Reproduction {
        variant: None, title: "Near the collapse a run may stand for a while before it falls, simulated (exim, ticket)",
        table,
        plots: Vec::new(),
        notes: vec![
            "Fallen: under nine tenths of what as many cores would do alone. Each row is four runs that differ in their seed.".into(),
            "The paper and its lecture say that short runs near the collapse do well and long ones fall: contenders that gather by chance slow the lock so that they stay.".into(),
        ],
        faults: Vec::new(),
        scores: Vec::new(),
    })
}
