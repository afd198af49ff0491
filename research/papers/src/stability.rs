//! Back-off that tunes itself, and how a lock falls into its collapsed state, simulated.

use crate::Reproduction;
use crate::native::SUSPECT_MIX;
use crate::published::{self, Fault};
use crate::seeds::{self, BySeed, Unstable, throughput_curve};
use crate::simulated::{EIGHTY_CORES, OPTERON, hardware, lock_name, workload};
use anyhow::Context as _;
use compare::statistics::spread;
use curve::Series;
use locks::CYCLES_PER_WAITER;
use report::{Cell, Column, Table};
use session::progress::Progress;
use simulate::{Setup, SimulatedRun};
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
        Column::spread("ticket", "ticket ops/s"),
        Column::spread("proportional_over_ticket", "proportional / ticket"),
        Column::spread("selftuning_over_ticket", "self-tuning / ticket"),
        Column::spread("selftuning_over_proportional", "self-tuning / proportional"),
        Column::spread("mcs_over_ticket", "MCS / ticket"),
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
        let measured = seeds::run(&setups, progress)?;
        for (section, of_section) in SECTIONS.iter().zip(measured.chunks(LOCKS.len() * cores.len())) {
            let at_all = |lock: &str| {
                let runs = of_section.iter().find(|runs| runs.is(counter.name, lock, all));
                runs.map_or(BySeed::of([]), |runs| runs.by_seed(SimulatedRun::throughput))
            };
            let ratio = |one: &str, other: &str| at_all(one).over(&at_all(other)).spread();
            table.row([
                Cell::from(hardware.name.as_str()),
                Cell::from(all),
                Cell::from(*section),
                Cell::from(at_all("ticket").spread()),
                Cell::from(ratio("ticket-proportional", "ticket")),
                Cell::from(ratio("ticket-selftuning", "ticket")),
                Cell::from(ratio("ticket-selftuning", "ticket-proportional")),
                Cell::from(ratio("mcs", "ticket")),
            ]);
            let mut plot = Series::new(format!("{all} cores, section {section} cycles"));
            for lock in LOCKS {
                let of_lock = of_section.iter().filter(|runs| runs.first().lock == lock);
                plot.curves.push(throughput_curve(of_lock, lock)?);
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
        notes: vec![
            Unstable::of_plots(&plots).note(),
            format!(
                "Think time is four times the section, so that all cores wait. The fixed constant is the lock's default, \
                 {CYCLES_PER_WAITER} cycles a waiter."
            ),
            format!(
                "Published for AIM7 on 80 cores (aim7_backoff.csv), in the middle of the plateaus: {:.2} to {:.2} of the ticket lock's, wild swings in several workloads.",
                published.low, published.high
            ),
        ],
        plots,
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
    const CORES: [u32; 7] = [28, 30, 31, 32, 33, 34, 36];
    const DURATIONS_MS: [u64; 4] = [1, 4, 16, 64];
    let hardware = hardware(OPTERON)?;
    let exim = workload("exim")?;
    let mut setups = Vec::new();
    for cores in CORES {
        for duration_ms in DURATIONS_MS {
            setups.push(Setup {
                duration_ns: duration_ms * 1_000_000,
                ..Setup::new(&hardware, exim, lock_name("ticket")).on_first(cores)
            });
        }
    }
    let measured = seeds::run(&setups, progress)?;
    let mut table = Table::new([
        Column::number("cores", "cores"),
        Column::number("run_ms", "run ms"),
        Column::spread("acquisitions_per_second", "acquisitions/s"),
        Column::number("fallen", "seeds that had fallen"),
    ]);
    let one = Setup { duration_ns: 16_000_000, ..Setup::new(&hardware, exim, lock_name("ticket")) };
    let of_one_core = seeds::run(&[one], progress)?[0].median(SimulatedRun::acquisition_rate);
    let mut unstable = Unstable::default();
    for (setup, runs) in setups.iter().zip(&measured) {
        let rates = runs.by_seed(SimulatedRun::acquisition_rate);
        let (range, run_ms) = (rates.spread(), setup.duration_ns / 1_000_000);
        let unhindered = of_one_core * f64::from(setup.cores);
        let fallen = rates.values().iter().filter(|&&rate| rate < curve::COLLAPSE_SHARE * unhindered).count();
        unstable.look(range, || format!("{} cores for {run_ms} ms", setup.cores));
        table.row([Cell::from(setup.cores), Cell::from(run_ms), Cell::from(range), Cell::from(fallen)]);
    }
    Ok(Reproduction {
        variant: None, title: "Near the collapse a run may stand for a while before it falls, simulated (exim, ticket)",
        table,
        plots: Vec::new(),
        notes: vec![
            format!("Fallen: under nine tenths of what as many cores would do alone, in so many of {} runs that differ in their seed.", seeds::COUNT),
            unstable.note(),
            "The paper and its lecture say that short runs near the collapse do well and long ones fall: contenders that gather by chance slow the lock so that they stay.".into(),
        ],
        faults: Vec::new(),
        scores: Vec::new(),
    })
}
