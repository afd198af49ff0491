//! Locks that sleep: Linux's rw_semaphore in the forms that it had, and a mutex in its place, simulated.

use crate::Reproduction;
use crate::published::{self, Fault, RwsemForm};
use crate::simulated::{lock_name, throughput, workload};
use crate::stability::cut;
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
/// A ratio is met within this factor, as in the other figures.
const FACTOR_WITHIN: f64 = 1.5;
/// Two locks are on par within this factor.
const PAR_WITHIN: f64 = 1.1;

/// Writers only, since the published programs take these locks exclusively, on as many cores as the talk's machine has.
pub(crate) fn sleeping(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = cut("cs900x8", 8, 10)?;
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
    let ratio = |faster: &str, slower: &str, workload: &str| {
        let of = |lock: &str| {
            let runs = measured
                .iter()
                .filter(|one| one.lock == lock && one.workload == workload && one.cores == all);
            let mut rates = runs.map(SimulatedRun::acquisition_rate).collect::<Vec<_>>();
            rates.sort_by(f64::total_cmp);
            rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
        };
        of(faster) / of(slower)
    };
    let mut table = Table::new([
        Column::text("faster", "faster"),
        Column::text("slower", "slower"),
        Column::text("program", "published for"),
        Column::number("published", "published ratio"),
        Column::text("workload", "simulated"),
        Column::number("ratio", "simulated ratio"),
        Column::text("ordering", "ordering"),
        Column::text("factor", "factor"),
        Column::text("source", "source").detail(),
    ]);
    let verdict = |met: bool| if met { "met" } else { "missed" };
    let (mut orderings, mut factors, mut rows) = (0, 0, 0);
    for form in published::rwsem_forms()? {
        for workload in WORKLOADS {
            let RwsemForm { faster, slower, program, ratio: published, source } = &form;
            let simulated = ratio(faster, slower, workload);
            let is_ordered =
                if *published > 1.0 { simulated > 1.0 } else { within(simulated, *published, PAR_WITHIN) };
            let is_met = within(simulated, *published, FACTOR_WITHIN);
            table.row([
                Cell::from(faster.as_str()),
                Cell::from(slower.as_str()),
                Cell::from(program.as_str()),
                Cell::from(*published),
                Cell::from(workload),
                Cell::from(simulated),
                Cell::from(verdict(is_ordered)),
                Cell::from(verdict(is_met)),
                Cell::from(source.as_str()),
            ]);
            rows += 1;
            orderings += usize::from(is_ordered);
            factors += usize::from(is_met);
        }
    }
    let mut plots = Vec::new();
    for workload in WORKLOADS {
        let mut plot = Series::new(workload);
        for lock in LOCKS {
            let runs = measured[..curves].iter().filter(|one| one.lock == lock && one.workload == workload);
            plot.curves.push(throughput(runs, lock)?);
        }
        plots.push(plot);
    }
    Ok(Reproduction {
        title: "Linux's rw_semaphore in its forms and a mutex in its place, 80 cores, simulated",
        table,
        plots,
        notes: vec![
            format!(
                "{orderings} of {rows} orderings are met, and {factors} of {rows} ratios within a factor of {FACTOR_WITHIN}. \
                 Where published is 1, on par, the ordering is met within {PAR_WITHIN}. Simulated are medians of {SEEDS} runs \
                 that differ in their seed."
            ),
            "Published are ratios of whole programs, in which the lock is one cost among others and readers come besides; simulated is \
             the lock alone, taken exclusively, in a loop whose section and think time are of 2012. So the lock alone may show \
             more than the programs, and says of their factors only on which side of 1 they are."
                .into(),
            "What a wake-up costs is assumed on this machine; the two forms without spinning live by it.".into(),
        ],
        faults: vec![Fault(16)],
    })
}

fn within(one: f64, other: f64, factor: f64) -> bool {
    one <= other * factor && other <= one * factor
}
