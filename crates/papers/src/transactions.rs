//! Sections as transactions of the hardware, simulated: what is published of them are shapes, so that orderings are met or missed.

use crate::Reproduction;
use crate::simulated::{hardware, lock_name, throughput, workload};
use curve::Series;
use lab::progress::Progress;
use lab::simulate::{Setup, SimulatedRun, sweep};
use machine::transaction::Cause;
use report::{Cell, Column, Table};

/// A machine that has transactions.
const MACHINE: &str = "xeon-e5-2680v4x2";
const CORES: [u32; 6] = [1, 2, 4, 8, 14, 28];
/// The cores of the published experiment.
const PUBLISHED_CORES: u32 = 8;
const DURATION_NS: u64 = 3_000_000;

const ELIDED: [&str; 4] =
    ["elided:ticket", "elided-when-free:ticket", "elided-one-by-one:ticket", "elided-less-often:ticket"];

/// What runs beside each other in one picture: a workload, and the locks that it is run with.
const PICTURES: [(&str, &[&str]); 5] = [
    ("ipc", &["ticket", "mcs", ELIDED[0], ELIDED[1], ELIDED[2], ELIDED[3]]),
    ("tm-counters-apart", &["ticket", "mcs", ELIDED[0], ELIDED[1], ELIDED[2], ELIDED[3]]),
    ("tm-counters", &["ticket", "mcs", ELIDED[0], ELIDED[1], ELIDED[2], ELIDED[3]]),
    ("tm-counters-one", &["ticket", "mcs", ELIDED[0], ELIDED[1], ELIDED[2], ELIDED[3]]),
    ("mount-table", &["ticket", "mcs", ELIDED[0], ELIDED[3]]),
];
/// What needs no lock, or has one for each thread; the lock of the second is the ticket lock.
const BESIDE: [&str; 3] = ["ipc-unlocked", "ipc-fine", "mount-table-lockless"];

/// One thing that is said of a ratio.
struct Claim {
    what: String,
    one: (&'static str, &'static str),
    other: (&'static str, &'static str),
    cores: u32,
    least: f64,
    most: f64,
    source: &'static str,
}

const LECTURE: &str = "the lecture on transactional memory: a microkernel's messages";
const OF_OURS: &str = "no published figure";

fn claims() -> Vec<Claim> {
    let unlocked = ("ipc-unlocked", "ticket");
    let ipc = |what: String, lock, least, most, source| Claim {
        what,
        one: ("ipc", lock),
        other: unlocked,
        cores: PUBLISHED_CORES,
        least,
        most,
        source,
    };
    let mut claims = vec![
        Claim {
            what: "a lock for each pair scales like no lock".into(),
            one: ("ipc-fine", "ticket"),
            ..ipc(String::new(), "ticket", SCALES_ALIKE, f64::INFINITY, LECTURE)
        },
        ipc("the big lock does not scale".into(), "ticket", 0.0, 0.5, LECTURE),
        ipc("the big lock does not scale as a queue lock either".into(), "mcs", 0.0, 0.5, OF_OURS),
    ];
    for lock in ELIDED {
        claims.push(ipc(format!("{lock} scales like no lock"), lock, SCALES_ALIKE, f64::INFINITY, LECTURE));
    }
    for lock in ELIDED {
        let beside_ticket = |workload, least, most, what: &str| Claim {
            what: format!("{lock} {what}"),
            one: (workload, lock),
            other: (workload, "ticket"),
            cores: PUBLISHED_CORES,
            least,
            most,
            source: OF_OURS,
        };
        claims.push(beside_ticket("tm-counters-apart", 2.0, f64::INFINITY, "gains where nothing conflicts"));
        claims.push(beside_ticket("tm-counters-one", 0.0, 1.1, "gains nothing where all conflict"));
    }
    let look_ups = |what: &str, one, other| Claim {
        what: what.into(),
        one,
        other,
        cores: CORES[CORES.len() - 1],
        least: 1.0,
        most: f64::INFINITY,
        source: "the lecture on transactional memory: avoiding collapse is not yet scaling",
    };
    let lockless = ("mount-table-lockless", "ticket");
    claims.push(look_ups(
        "a queue lock avoids the ticket lock's collapse",
        ("mount-table", "mcs"),
        ("mount-table", "ticket"),
    ));
    claims.push(look_ups(
        "eliding does more than a queue lock",
        ("mount-table", ELIDED[3]),
        ("mount-table", "mcs"),
    ));
    claims.push(look_ups(
        "doing without a lock does more than eliding",
        lockless,
        ("mount-table", ELIDED[3]),
    ));
    claims
}

/// Two curves scale alike within this share.
const SCALES_ALIKE: f64 = 0.9;
/// Extremely few aborts: of a hundred transactions.
const FEW_PERCENT: f64 = 1.0;

/// Lock elision.
pub(crate) fn tm(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = hardware(MACHINE)?;
    let mut setups = Vec::new();
    let mut add = |name: &str, lock: &str| -> anyhow::Result<()> {
        let workload = workload(name)?;
        let setup = Setup::new(&hardware, workload, lock_name(lock));
        setups.extend(CORES.map(|cores| Setup { duration_ns: DURATION_NS, ..setup.clone() }.on_first(cores)));
        Ok(())
    };
    for (name, locks) in PICTURES {
        locks.iter().try_for_each(|lock| add(name, lock))?;
    }
    BESIDE.iter().try_for_each(|name| add(name, "ticket"))?;
    let measured = sweep(&setups, progress)?;
    let run = |(workload, lock): (&str, &str), cores: u32| {
        measured.iter().find(|one| one.workload == workload && one.lock == lock && one.cores == cores)
    };
    let rate = |of, cores| run(of, cores).map_or(f64::NAN, SimulatedRun::throughput);

    let mut table = Table::new([
        Column::text("claim", "claim"),
        Column::text("workload", "workload"),
        Column::number("cores", "cores"),
        Column::number("value", "simulated"),
        Column::text("wanted", "wanted"),
        Column::text("verdict", "verdict"),
        Column::text("source", "source").detail(),
    ]);
    let (mut met, mut rows) = (0, 0);
    let mut row =
        |what: &str, workload: &str, cores: u32, value: f64, wanted: String, is_met: bool, source: &str| {
            rows += 1;
            met += usize::from(is_met);
            table.row([
                Cell::from(what),
                Cell::from(workload),
                Cell::from(cores),
                Cell::from(value),
                Cell::from(wanted.as_str()),
                Cell::from(if is_met { "met" } else { "missed" }),
                Cell::from(source),
            ]);
        };
    for claim in claims() {
        let ratio = rate(claim.one, claim.cores) / rate(claim.other, claim.cores);
        let wanted = if claim.most.is_finite() {
            format!("at most {}", claim.most)
        } else {
            format!("at least {}", claim.least)
        };
        let is_met = (claim.least..=claim.most).contains(&ratio);
        row(&claim.what, claim.one.0, claim.cores, ratio, wanted, is_met, claim.source);
    }
    for lock in ELIDED {
        let Some(run) = run(("ipc", lock), PUBLISHED_CORES) else { continue };
        let counts = run.report.transactions;
        let percent = 100.0 * counts.all_aborted() as f64 / counts.begun as f64;
        let wanted = format!("at most {FEW_PERCENT} % abort");
        row(
            &format!("{lock}: extremely few aborts, %"),
            "ipc",
            PUBLISHED_CORES,
            percent,
            wanted,
            percent <= FEW_PERCENT,
            LECTURE,
        );
    }
    let mut plots = Vec::new();
    for (name, locks) in PICTURES {
        let mut plot = Series::new(name);
        for lock in locks {
            let runs = measured.iter().filter(|one| one.lock == *lock && one.workload == name);
            plot.curves.push(throughput(runs, lock)?);
        }
        plots.push(plot);
    }
    for (into, name, label) in [
        (0, "ipc-unlocked", "no lock"),
        (0, "ipc-fine", "a lock for each pair"),
        (4, "mount-table-lockless", "no lock"),
    ] {
        plots[into].curves.push(throughput(measured.iter().filter(|one| one.workload == name), label)?);
    }
    let wasted = |lock| {
        let run = run(("tm-counters", lock), CORES[CORES.len() - 1])?;
        let counts = run.report.transactions;
        let share = counts.wasted_ps as f64 / (run.report.elapsed_ns as f64 * 1e3 * f64::from(run.cores));
        let of_conflicts = counts.aborted_by(Cause::Conflict) as f64 / counts.begun.max(1) as f64;
        Some(format!(
            "{lock} spends {:.0} % of the time of {} cores in transactions that abort, {:.0} % of all for a conflict",
            share * 100.0,
            run.cores,
            of_conflicts * 100.0
        ))
    };
    let wasted = ELIDED.iter().filter_map(|lock| wasted(lock)).collect::<Vec<_>>();
    Ok(Reproduction {
        title: "Sections as transactions: what eliding a lock gives, simulated",
        table,
        plots,
        notes: vec![
            format!("{met} of {rows} are met. What is published are shapes without numbers; the bounds are ours."),
            format!("In tm-counters {}.", wasted.join("; ")),
            "A transaction aborts whoever acquires the lock, and those who abort acquire it: the lemming effect. The four policies \
             differ in what they do against that."
                .into(),
        ],
        faults: Vec::new(),
    })
}
