//! Locks that sleep: Linux's rw_semaphore in the forms that it had, and a mutex in its place, simulated.

use crate::Reproduction;
use crate::published::{self, Fault, RwsemForm};
use crate::seeds::{self, BySeed, Repeated, Unstable, throughput_curve};
use crate::simulated::{EIGHTY_CORES, hardware, lock_name, workload};
use crate::verdict::{
    COMMITS, FACTOR_WITHIN, PAR_WITHIN, SIMULATOR, Score, TALK, Verdict, is_as_printed, is_more, within,
};
use curve::Series;
use locks::KernelMutex;
use machine::Run;
use report::{Cell, Column, Spread, Table};
use session::progress::Progress;
use simulate::{Setup, SimulatedRun};
use simulator::Simulated;
use workloads::catalogue::Body;
use workloads::{Load, Workload};

/// In the order in which the kernel had them, and what it had before.
const LOCKS: [&str; 4] = ["rwsem-fifo", "rwsem-no-spin", "rwsem", "kernel-mutex"];
/// The last of them, and the same without the queue of those that spin.
const QUEUED: &str = LOCKS[3];
const UNQUEUED: &str = "kernel-mutex, no queue";
/// What is guarded in the published programs: the list of an anonymous mapping, which a process adds itself to as it is forked.
const WORKLOADS: [&str; 2] = ["mempop", "exim"];
const CORES: [u32; 6] = [1, 10, 20, 40, 60, 80];
/// Simulated time: an operation of exim takes 0.4 ms.
const DURATION_NS: u64 = 20_000_000;
/// What makes the lock alone differ from the programs.
const LACKING: &str = "the rest of the programs: simulated is their lock alone";

/// A section under the kernel's mutex whose waiters all poll its word while the owner runs.
///
/// # Panics
/// When the workload is no section.
fn unqueued(workload: &Workload, load: &Load<'_>) -> Run {
    let Body::Section(section) = workload.body else { unreachable!("{} is no section", workload.name) };
    workloads::section::run::<Simulated, KernelMutex<Simulated, false>>(&section, load)
}

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
        setups.extend(CORES.map(|cores| Setup {
            duration_ns: DURATION_NS,
            instead: Some(unqueued),
            ..Setup::new(&hardware, workload, UNQUEUED).on_first(cores)
        }));
    }
    let measured = seeds::run(&setups, progress)?;
    let plots = plots(&measured)?;
    let mut unstable = Unstable::of_plots(&plots);
    let mut table = forms_table();
    let mut orderings = 0;
    let mut scores = Vec::new();
    for form in published::rwsem_forms()? {
        for workload in WORKLOADS {
            let RwsemForm { faster, slower, program, ratio: published, source } = &form;
            let range = ratio(&measured, [faster, slower], workload);
            let simulated = range.median;
            let is_ordered =
                if *published > 1.0 { is_more(simulated) } else { within(simulated, *published, PAR_WITHIN) };
            let ordering = Verdict::of(is_ordered).if_stable(range);
            let size = Verdict::of_change(*published, simulated, FACTOR_WITHIN).if_stable(range);
            unstable.look(range, || format!("{faster} over {slower}, {program}, {workload}"));
            table.row([
                Cell::from(faster.as_str()),
                Cell::from(slower.as_str()),
                Cell::from(program.as_str()),
                Cell::from(*published),
                Cell::from(workload),
                Cell::from(range),
                Cell::from(ordering),
                Cell::from(size),
                Cell::from(source.as_str()),
            ]);
            orderings += usize::from(ordering == Verdict::Met);
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
    for workload in WORKLOADS {
        let range = ratio(&measured, [QUEUED, UNQUEUED], workload);
        unstable.look(range, || format!("{QUEUED} over {UNQUEUED}, {workload}"));
        table.row([
            Cell::from(QUEUED),
            Cell::from(UNQUEUED),
            Cell::from(""),
            Cell::Missing,
            Cell::from(workload),
            Cell::from(range),
            Cell::from(""),
            Cell::from(""),
            Cell::from("no published figure"),
        ]);
    }
    let count = |verdict| scores.iter().filter(|score| score.verdict == verdict).count();
    Ok(Reproduction {
        variant: None, title: "Linux's rw_semaphore in its forms and a mutex in its place, 80 cores, simulated",
        table,
        plots,
        notes: vec![
            format!(
                "{orderings} of {} orderings are met. Of the changes {} are met in size, their logarithm and the ratio within a factor of {FACTOR_WITHIN}, and {} missed; \
                 {} published no change, on par, and are so within {PAR_WITHIN}; {} are unstable.",
                scores.len(),
                count(Verdict::Met),
                count(Verdict::Missed),
                count(Verdict::NoChange),
                count(Verdict::Unstable)
            ),
            unstable.note(),
            "Published are ratios of whole programs, in which the lock is one cost among others and readers come besides; simulated is \
             the lock alone, taken exclusively, in a loop whose section and think time are of 2012. So the lock alone may show \
             more than the programs, and says of their factors only on which side of 1 they are."
                .into(),
            "What a wake-up costs is assumed on this machine; the two forms without spinning live by it.".into(),
            "MCS within a sleeping lock: those that spin in `kernel-mutex` and `rwsem` stand in a queue of such nodes \
             (`osq`), as in `adaptive`. The last two rows hold the mutex against the same without that queue, where all that spin poll the \
             lock's word, as in Linux before 3.10. They are not judged: no published figure of it is at hand."
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
        Column::spread("ratio", "simulated ratio"),
        Column::text("ordering", "ordering"),
        Column::text("size", "size"),
        Column::text("source", "source").detail(),
    ])
}

/// A plot of each workload.
fn plots(measured: &[Repeated]) -> anyhow::Result<Vec<Series>> {
    let mut plots = Vec::new();
    for workload in WORKLOADS {
        let mut plot = Series::new(workload);
        for lock in LOCKS.into_iter().chain([UNQUEUED]) {
            let of = |runs: &&Repeated| (runs.first().workload, runs.first().lock) == (workload, lock);
            plot.curves.push(throughput_curve(measured.iter().filter(of), lock)?);
        }
        plots.push(plot);
    }
    Ok(plots)
}

/// Acquisitions a second on all cores, one lock over another.
fn ratio(measured: &[Repeated], [faster, slower]: [&str; 2], workload: &str) -> Spread {
    let all = CORES[CORES.len() - 1];
    let of = |lock: &str| {
        let runs = measured.iter().find(|runs| runs.is(workload, lock, all));
        runs.map_or(BySeed::of([]), |runs| runs.by_seed(SimulatedRun::acquisition_rate))
    };
    of(faster).over(&of(slower)).spread()
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::progress::Unwatched;

    #[test]
    fn the_mutex_without_its_queue_excludes_and_waits_in_another_way() {
        let hardware = hardware(EIGHTY_CORES).unwrap();
        let mempop = workload("mempop").unwrap();
        let setup = |lock| Setup { duration_ns: 200_000, ..Setup::new(&hardware, mempop, lock) }.on_first(20);
        let setups = [setup(QUEUED), Setup { instead: Some(unqueued), ..setup(UNQUEUED) }];
        // A run panics where its sections do not add up.
        let runs = seeds::run(&setups, &Unwatched).unwrap();
        let [queued, unqueued] =
            [0, 1].map(|number| runs[number].by_seed(|run| run.run.acquisitions() as f64));
        assert!(queued.spread().low > 0.0 && unqueued.spread().low > 0.0);
        assert_ne!(queued, unqueued);
    }
}
