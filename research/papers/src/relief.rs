//! What relieves a lock without another one in its place: several sections for one acquisition; and what those do who come to
//! the next lock sooner.

use crate::Reproduction;
use crate::seeds::{self, BySeed, Repeated, Unstable, throughput_curve};
use crate::simulated::{EIGHTY_CORES, OPTERON, hardware, lock_name, workload};
use anyhow::Context as _;
use curve::Series;
use report::{Cell, Column, Table};
use session::progress::Progress;
use simulate::{Setup, SimulatedRun};

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
    let measured = seeds::run(&setups, progress)?;
    let of = |workload: &str, lock: &str, cores: u32| {
        let runs = measured.iter().find(|runs| runs.is(workload, lock, cores));
        runs.map_or(BySeed::of([]), |runs| runs.by_seed(SimulatedRun::throughput))
    };
    let mut table = Table::new([
        Column::number("cores", "cores"),
        Column::spread("ticket", "ticket, messages/s"),
        Column::spread("ticket_batched", "batched"),
        Column::spread("mcs", "MCS, messages/s"),
        Column::spread("mcs_batched", "batched"),
        Column::spread("batched_over_not", "ticket, batched / not"),
    ]);
    for cores in CORES {
        let [ticket, mcs] = LOCKS.map(|lock| WORKLOADS.map(|name| of(name, lock, cores)));
        table.row([
            Cell::from(cores),
            Cell::from(ticket[0].spread()),
            Cell::from(ticket[1].spread()),
            Cell::from(mcs[0].spread()),
            Cell::from(mcs[1].spread()),
            Cell::from(ticket[1].over(&ticket[0]).spread()),
        ]);
    }
    let mut plot = Series::new("exim");
    for name in WORKLOADS {
        for lock in LOCKS {
            let of = |runs: &&Repeated| (runs.first().workload, runs.first().lock) == (name, lock);
            plot.curves.push(throughput_curve(measured.iter().filter(of), &format!("{name}, {lock}"))?);
        }
    }
    let plots = vec![plot];
    Ok(Reproduction {
        variant: None, title: "Exim's sections one by one and in two batches, simulated",
        table,
        notes: vec![
            Unstable::of_plots(&plots).note(),
            "Linux 3.0 holds the lock of the anonymous mappings along a whole chain, where it took it anew for each mapping before. The work under the lock is the \
             same. That a message's 58 acquisitions become two is assumed; there is no published figure."
                .into(),
        ],
        plots,
        faults: Vec::new(),
        scores: Vec::new(),
    })
}

/// Two locks in series, of which the first is relieved: the hypothesis that it bunches threads at the second.
pub(crate) fn next_lock(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    const LOCKS: [&str; 4] = ["ticket", "ticket-proportional", "ticket-selftuning", "mcs"];
    /// Of the second section, from the same work as the first to so much that it holds every thread up.
    const SECOND_CYCLES: [u64; 5] = [200, 700, 1_200, 2_200, 3_200];
    let hardware = hardware(EIGHTY_CORES)?;
    let series = workload("series")?;
    let mut setups = Vec::new();
    for second in SECOND_CYCLES {
        for lock in LOCKS {
            setups.push(Setup {
                section_cycles: Some(second),
                duration_ns: 10_000_000,
                ..Setup::new(&hardware, series, lock_name(lock)).on_first(80)
            });
        }
    }
    let measured = seeds::run(&setups, progress)?;
    let mut table = Table::new([
        Column::number("second_cycles", "second section, cycles"),
        Column::text("first", "first lock"),
        Column::spread("ops_per_s", "operations/s"),
        Column::spread("over_ticket", "over ticket"),
        Column::spread("first_percent", "waiting at the first, % of time"),
        Column::spread("second_percent", "at the second"),
    ]);
    let (mut tried, mut moved, mut lost) = (0, 0, 0);
    let mut unstable = Unstable::default();
    // The set-ups of one second section follow one another, the ticket lock's first.
    for (setups, measured) in setups.chunks(LOCKS.len()).zip(measured.chunks(LOCKS.len())) {
        let of_ticket = measured.first().context("there are locks")?;
        let ticket = of_ticket.by_seed(SimulatedRun::throughput);
        let waiting = |runs: &Repeated, lock| runs.spread(|run| percent_waiting(run, lock));
        for (setup, runs) in setups.iter().zip(measured) {
            let rates = runs.by_seed(SimulatedRun::throughput);
            let [first, second] = [0, 1].map(|lock| waiting(runs, lock));
            let over_ticket = rates.over(&ticket).spread();
            if setup.lock != LOCKS[0] {
                tried += 1;
                moved += u32::from(second.median > waiting(of_ticket, 1).median);
                lost += u32::from(over_ticket.median < 1.0);
            }
            let (rates, second_cycles) = (rates.spread(), setup.section_cycles);
            unstable.look(rates, || {
                format!("{} before {} cycles", setup.lock, second_cycles.unwrap_or_default())
            });
            table.row([
                Cell::from(second_cycles),
                Cell::from(setup.lock),
                Cell::from(rates),
                Cell::from(over_ticket),
                Cell::from(first),
                Cell::from(second),
            ]);
        }
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
            unstable.note(),
            "The second lock is never anything but a ticket lock; all times are assumed. Think time is 100,000 cycles.".into(),
        ],
        faults: Vec::new(),
        scores: Vec::new(),
    })
}

/// Percent of the threads' time that they wait for the lock of this number, in the order in which they were met.
fn percent_waiting(run: &SimulatedRun, lock: usize) -> f64 {
    run.report.locks.get(lock).map_or(f64::NAN, |lock| 100.0 * run.share_of_time(lock.wait_ps))
}
