//! Locks that sleep: Linux's rw_semaphore in the forms that it had, and a mutex in its place, simulated.

use crate::Reproduction;
use crate::published::{self, Fault, RwsemForm};
use crate::simulated::{EIGHTY_CORES, hardware, lock_name, throughput, workload};
use crate::think_time::median;
use crate::verdict::{
    COMMITS, FACTOR_WITHIN, PAR_WITHIN, SIMULATOR, Score, TALK, Verdict, is_as_printed, is_more, within,
};
use curve::Series;
use report::{Cell, Column, Table};
use session::progress::Progress;
use simulate::{Setup, SimulatedRun, sweep};

/// In the order in which the kernel had them, and what it had before.
const LOCKS: [&str; 4] = ["rwsem-fifo", "rwsem-no-spin", "rwsem", "kernel-mutex"];
/// What is guarded in the published programs: the list of an anonymous mapping, which a process adds itself to as it is forked.
const WORKLOADS: [&str; 2] = ["mempop", "exim"];
const CORES: [u32; 6] = [1, 10, 20, 40, 60, 80];
/// Runs on all cores that differ in their seed: who sleeps when is a matter of chance, and stays so for long.
const SEEDS: u64 = 7;
/// Simulated time: an operation of exim takes 0.4 ms.
const DURATION_NS: u64 = 20_000_000;
/// What makes the lock alone differ from the programs.
const LACKING: &str = "the rest of the programs: simulated is their lock alone";

/// Writers only, since the published programs take these locks exclusively, on as many cores as the talk's machine has.
pub(crate) fn sleeping(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = hardware(EIGHTY_CORES)?;
    let mut setups = Vec::new();
    for name in WORKLOADS {
        let workload = workload(name)?;
        for lock in LOCKS {
            setups.extend(CORES.map(|cores| Setup {
                duration_ns: DURATION_NS,
                ..Setup::new(&hardware, workload, lock_name(lock)).on_first(cores)
            }));
        }
    }
    let all = CORES[CORES.len() - 1];
    let of_all = setups.iter().filter(|setup| setup.cores == all).cloned().collect::<Vec<_>>();
    for seed in 2..=SEEDS {
        setups.extend(of_all.iter().map(|setup| Setup { seed, ..setup.clone() }));
    }
    let measured = sweep(&setups, progress)?;
    let curves = WORKLOADS.len() * LOCKS.len() * CORES.len();
    let mut table = forms_table();
    let mut orderings = 0;
    let mut scores = Vec::new();
    for form in published::rwsem_forms()? {
        for workload in WORKLOADS {
            let RwsemForm { faster, slower, program, ratio: published, source } = &form;
            let simulated = ratio(&measured, [faster, slower], workload);
            let is_ordered =
                if *published > 1.0 { is_more(simulated) } else { within(simulated, *published, PAR_WITHIN) };
            let size = Verdict::of_change(*published, simulated, FACTOR_WITHIN);
            table.row([
                Cell::from(faster.as_str()),
                Cell::from(slower.as_str()),
                Cell::from(program.as_str()),
                Cell::from(*published),
                Cell::from(workload),
                Cell::from(simulated),
                Cell::from(Verdict::of(is_ordered)),
                Cell::from(size),
                Cell::from(source.as_str()),
            ]);
            orderings += usize::from(is_ordered);
            scores.push(Score {
                source: if source == TALK { TALK } else { COMMITS },
                by: SIMULATOR,
                claim: format!("{faster} over {slower}, {program}"),
                verdict: size,
                as_printed: is_as_printed(&published.to_string(), simulated),
                mechanism: LACKING,
            });
        }
    }
    let plots = plots(&measured[..curves])?;
    let count = |verdict| scores.iter().filter(|score| score.verdict == verdict).count();
    Ok(Reproduction {
        variant: None, title: "Linux's rw_semaphore in its forms and a mutex in its place, 80 cores, simulated",
        table,
        plots,
        notes: vec![
            format!(
                "{orderings} of {} orderings are met. Of the changes {} are met in size, their logarithm and the ratio within a factor of {FACTOR_WITHIN}, and {} missed; \
                 {} published no change, on par, and are so within {PAR_WITHIN}. Simulated are medians of {SEEDS} runs that differ in their seed.",
                scores.len(),
                count(Verdict::Met),
                count(Verdict::Missed),
                count(Verdict::NoChange)
            ),
            "Published are ratios of whole programs, in which the lock is one cost among others and readers come besides; simulated is \
             the lock alone, taken exclusively, in a loop whose section and think time are of 2012. So the lock alone may show \
             more than the programs, and says of their factors only on which side of 1 they are."
                .into(),
            "What a wake-up costs is assumed on this machine; the two forms without spinning live by it.".into(),
            "MCS within a sleeping lock: those that spin in `kernel-mutex` and `rwsem` stand in a queue of such nodes (`osq`), as in `adaptive`. No published figure \
             compares a sleeping lock with that queue and without it, so that no row does."
                .into(),
        ],
        faults: vec![Fault(16)],
        scores,
    })
}

fn forms_table() -> Table {
    Table::new([
        Column::text("faster", "faster"),
        Column::text("slower", "slower"),
        Column::text("program", "published for"),
        Column::number("published", "published ratio"),
        Column::text("workload", "simulated"),
        Column::number("ratio", "simulated ratio"),
        Column::text("ordering", "ordering"),
        Column::text("size", "size"),
        Column::text("source", "source").detail(),
    ])
}

/// A plot of each workload, from the runs with the first seed.
fn plots(measured: &[SimulatedRun]) -> anyhow::Result<Vec<Series>> {
    let mut plots = Vec::new();
    for workload in WORKLOADS {
        let mut plot = Series::new(workload);
        for lock in LOCKS {
            let runs = measured.iter().filter(|one| one.lock == lock && one.workload == workload);
            plot.curves.push(throughput(runs, lock)?);
        }
        plots.push(plot);
    }
    Ok(plots)
}

/// Acquisitions a second on all cores, one lock over another: medians over the seeds.
fn ratio(measured: &[SimulatedRun], [faster, slower]: [&str; 2], workload: &str) -> f64 {
    let all = CORES[CORES.len() - 1];
    let of = |lock: &str| {
        let runs =
            measured.iter().filter(|one| one.lock == lock && one.workload == workload && one.cores == all);
        median(runs.map(SimulatedRun::acquisition_rate))
    };
    of(faster) / of(slower)
}
