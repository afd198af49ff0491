//! What relieves a lock without another one in its place: several sections for one acquisition; and what those do who come to
//! the next lock sooner.

use crate::Reproduction;
use crate::simulated::{EIGHTY_CORES, OPTERON, hardware, lock_name, throughput, workload};
use anyhow::Context as _;
use compare::statistics;
use curve::Series;
use report::{Cell, Column, Table};
use session::progress::Progress;
use simulate::{Setup, SimulatedRun, sweep};

/// Exim with one section for each acquisition and with several.
pub(crate) fn batching(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    const CORES: [u32; 8] = [1, 8, 16, 24, 30, 36, 42, 48];
    const WORKLOADS: [&str; 2] = ["exim", "exim-batched"];
    const LOCKS: [&str; 2] = ["ticket", "mcs"];
    let hardware = hardware(OPTERON)?;
    let mut setups = Vec::new();
    for name in WORKLOADS {
        for lock in LOCKS {
            let setup =
                Setup { duration_ns: 20_000_000, ..Setup::new(&hardware, workload(name)?, lock_name(lock)) };
            setups.extend(CORES.map(|cores| setup.clone().on_first(cores)));
        }
    }
    let measured = sweep(&setups, progress)?;
    let of = |workload: &str, lock: &str, cores: u32| {
        let run = measured.iter().find(|one| (one.workload, one.lock, one.cores) == (workload, lock, cores));
        run.map_or(f64::NAN, SimulatedRun::throughput)
    };
    let mut table = Table::new([
        Column::number("cores", "cores"),
        Column::number("ticket", "ticket, messages/s"),
        Column::number("ticket_batched", "batched"),
        Column::number("mcs", "MCS, messages/s"),
        Column::number("mcs_batched", "batched"),
        Column::number("batched_over_not", "ticket, batched / not"),
    ]);
    for cores in CORES {
        let [ticket, mcs] = LOCKS.map(|lock| WORKLOADS.map(|name| of(name, lock, cores)));
        table.row([
            Cell::from(cores),
            Cell::from(ticket[0]),
            Cell::from(ticket[1]),
            Cell::from(mcs[0]),
            Cell::from(mcs[1]),
            Cell::from(ticket[1] / ticket[0]),
        ]);
    }
    let mut plot = Series::new("exim");
    for name in WORKLOADS {
        for lock in LOCKS {
            let runs = measured.iter().filter(|one| one.workload == name && one.lock == lock);
            plot.curves.push(throughput(runs, &format!("{name}, {lock}"))?);
        }
    }
    Ok(Reproduction {
        variant: None, title: "Exim's sections one by one and in two batches, simulated",
        table,
        plots: vec![plot],
        notes: vec![
            "Linux 3.0 holds the lock of the anonymous mappings along a whole chain, where it took it anew for each mapping before. The work under the lock is the \
             same. That a message's 58 acquisitions become two is assumed; there is no published figure."
                .into(),
        ],
        faults: Vec::new(),
        scores: Vec::new(),
    })
}

/// Two locks in series, of which the first is relieved: the hypothesis that it bunches threads at the second.
pub(crate) fn next_lock(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    const LOCKS: [&str; 4] = ["ticket", "ticket-proportional", "ticket-selftuning", "mcs"];
    /// Of the second section, from the same work as the first to so much that it holds every thread up.
    const SECOND_CYCLES: [u64; 5] = [200, 700, 1_200, 2_200, 3_200];
    const SEEDS: u64 = 5;
    let hardware = hardware(EIGHTY_CORES)?;
    let series = workload("series")?;
    let mut setups = Vec::new();
    for second in SECOND_CYCLES {
        for lock in LOCKS {
            setups.extend((1..=SEEDS).map(|seed| Setup {
                seed,
                section_cycles: Some(second),
                duration_ns: 10_000_000,
                ..Setup::new(&hardware, series, lock_name(lock)).on_first(80)
            }));
        }
    }
    let measured = sweep(&setups, progress)?;
    let mut table = Table::new([
        Column::number("second_cycles", "second section, cycles"),
        Column::text("first", "first lock"),
        Column::spread("ops_per_s", "operations/s"),
        Column::number("over_ticket", "over ticket"),
        Column::number("first_percent", "waiting at the first, % of time"),
        Column::number("second_percent", "at the second"),
    ]);
    let (mut tried, mut moved, mut lost) = (0, 0, 0);
    let runs_of = measured.chunks(SEEDS as usize);
    let mut ticket = (f64::NAN, f64::NAN);
    for (setup, runs) in setups.iter().step_by(SEEDS as usize).zip(runs_of) {
        let spread = |of: &dyn Fn(&SimulatedRun) -> f64| {
            statistics::spread(&runs.iter().map(of).collect::<Vec<_>>()).context("there are seeds")
        };
        let rates = spread(&SimulatedRun::throughput)?;
        let [first, second] = [0, 1].map(|lock| spread(&|run| percent_waiting(run, lock)));
        let (first, second) = (first?.median, second?.median);
        if setup.lock == LOCKS[0] {
            ticket = (rates.median, second);
        } else {
            tried += 1;
            moved += u32::from(second > ticket.1);
            lost += u32::from(rates.median < ticket.0);
        }
        table.row([
            Cell::from(setup.section_cycles),
            Cell::from(setup.lock),
            Cell::from(rates),
            Cell::from(rates.median / ticket.0),
            Cell::from(first),
            Cell::from(second),
        ]);
    }
    Ok(Reproduction {
        variant: None,
        title: "Two locks in series, the first relieved and the second a ticket lock, 8 sockets x 10 cores, simulated",
        table,
        plots: Vec::new(),
        notes: vec![
            format!(
                "The hypothesis of the LKML thread of 2013 on self-tuned back-off: relieving one lock bunches tasks at the next. In {moved} of {tried} cases \
                 threads wait longer at the second lock when the first is relieved, and in {lost} the two together do less than with the ticket lock: a first \
                 lock that hands over slowly lets threads come to the second one at a time."
            ),
            format!(
                "Medians of {SEEDS} seeds, and the range of the rates. The second lock is never anything but a ticket lock; all times are assumed. Think time is 100,000 cycles."
            ),
        ],
        faults: Vec::new(),
        scores: Vec::new(),
    })
}

/// Percent of the threads' time that they wait for the lock of this number, in the order in which they were met.
fn percent_waiting(run: &SimulatedRun, lock: usize) -> f64 {
    run.report.locks.get(lock).map_or(f64::NAN, |lock| 100.0 * run.share_of_time(lock.wait_ps))
}
