//! The constant of the ticket lock with proportional back-off, swept on a simulated machine.

use super::seeds::{SeededRuns, sweep_seeds_or, throughput_column, unstable};
use super::sweep::Setup;
use locks::{CYCLES_PER_WAITER, TicketProportional};
use machine::Run;
use report::{Cell, Column, Table};
use session::progress::Progress;
use session::seeds::Seeds;
use session::usage::UsageError;
use simulator::Simulated;
use std::convert::Infallible;
use workloads::catalogue::Body;
use workloads::{Load, Workload};

/// The lock that has the constant.
pub const LOCK: &str = "ticket-proportional";

/// A workload under the lock with one value of the constant.
pub type Proportional = fn(&Workload, &Load<'_>) -> Run;

/// Runs a workload that is a section under the lock with this constant, in cycles for each waiter ahead.
///
/// # Panics
/// When the workload is no section.
pub fn proportional<const UNIT_CYCLES: u64>(workload: &Workload, load: &Load<'_>) -> Run {
    let Body::Section(section) = workload.body else { unreachable!("{} is no section", workload.name) };
    workloads::section::run::<Simulated, TicketProportional<Simulated, UNIT_CYCLES>>(&section, load)
}

macro_rules! constants {
    ($($cycles:literal)*) => {
        /// What is swept: far too small, about right, far too large, by steps of about the square root of two.
        const CONSTANTS: &[(u64, Proportional)] = &[$(($cycles, proportional::<$cycles>)),*];
    };
}
constants!(10 50 100 150 200 250 350 500 700 1_000 1_400 2_000 4_000 8_000);

/// Each constant in cycles for each waiter ahead, with its runs on each number of cores.
pub type Swept = Vec<(u64, Vec<SeededRuns>)>;

/// Runs each of these setups, which differ in their cores, with every constant and seed; in the order of the constants.
/// After an interrupt that was noted `cut` gets the runs that are finished, and ends the process.
///
/// # Errors
/// A workload that is no section under one lock; a simulation that stopped.
pub fn measure_or(
    setups: &[Setup<'_>],
    seeds: Seeds,
    progress: &dyn Progress,
    cut: impl FnOnce(Swept) -> Infallible,
) -> anyhow::Result<Swept> {
    if let Some(other) = setups.iter().find(|setup| !matches!(setup.workload.body, Body::Section(_))) {
        return Err(UsageError::new(format!(
            "`{}` is no critical section with think time: sweep the back-off of counter, fig10 or another that is",
            other.workload.name
        ))
        .into());
    }
    let with = |&(_, run): &(u64, Proportional)| {
        setups.iter().map(move |setup| Setup { instead: Some(run), lock: LOCK, ..setup.clone() })
    };
    let by_constant = |all: Vec<Option<SeededRuns>>| {
        let mut all = all.into_iter();
        let mut of_next = || all.by_ref().take(setups.len()).flatten().collect();
        CONSTANTS.iter().map(|&(cycles, _)| (cycles, of_next())).collect::<Swept>()
    };
    let all = CONSTANTS.iter().flat_map(with).collect::<Vec<_>>();
    let all = sweep_seeds_or(&all, seeds, progress, |finished| cut(by_constant(finished)))?;
    Ok(by_constant(all.into_iter().map(Some).collect()))
}

/// Median throughput with each constant, as a share of the best constant's on as many cores.
fn shares(swept: &[(u64, Vec<SeededRuns>)]) -> Vec<Vec<f64>> {
    let points = || swept.iter().flat_map(|(_, of_cores)| of_cores).map(SeededRuns::point);
    let best = |cores: u32| {
        points()
            .filter(|point| point.cores == cores)
            .map(|point| point.value)
            .fold(f64::MIN_POSITIVE, f64::max)
    };
    let share = |runs: &SeededRuns| runs.point().value / best(runs.point().cores);
    swept.iter().map(|(_, of_cores)| of_cores.iter().map(share).collect()).collect()
}

/// A row for each constant and number of cores: the median run, and the range of the throughput over the seeds.
pub fn table(swept: &[(u64, Vec<SeededRuns>)]) -> Table {
    let mut table = Table::new([
        Column::number("cycles_per_waiter", "cycles a waiter ahead"),
        Column::number("cores", "cores"),
        throughput_column(swept.iter().flat_map(|(_, of_cores)| of_cores)),
        Column::percent("share_of_best", "of the best %"),
        Column::number("misses_per_operation", "misses/operation"),
        Column::text("note", "note").kept(),
    ]);
    for ((cycles, of_cores), shares) in swept.iter().zip(shares(swept)) {
        for (runs, share) in of_cores.iter().zip(shares) {
            let run = runs.median();
            let default = (*cycles == CYCLES_PER_WAITER).then_some("the default");
            let notes: Vec<_> = default.into_iter().chain(runs.note()).collect();
            table.row([
                Cell::Count(*cycles),
                run.cores.into(),
                runs.throughput_cell(),
                share.into(),
                run.per_operation(run.report.all_lines.all_misses()).into(),
                notes.join(", ").into(),
            ]);
        }
    }
    table
}

/// The rows of the table, with the fields about seeds that the runs of locks have (see [`SeededRuns::json`]).
pub fn json(swept: &[(u64, Vec<SeededRuns>)]) -> serde_json::Value {
    let mut rows = table(swept).json();
    let all = swept.iter().flat_map(|(_, of_cores)| of_cores);
    for (row, runs) in rows.as_array_mut().into_iter().flatten().zip(all) {
        runs.write_throughput(row);
    }
    rows
}

/// What to say below the table of constants that are unstable.
pub fn unstable_constants(swept: &[(u64, Vec<SeededRuns>)], seeds: Seeds) -> Option<String> {
    let all = swept.iter().flat_map(|(cycles, of_cores)| {
        of_cores.iter().map(move |runs| (format!("{cycles} cycles a waiter ahead"), runs))
    });
    unstable(all, seeds)
}

/// The constant whose worst share of the best is best, with that share; and the default's. Of medians. Of constants that are as good the
/// one nearest to the default.
pub fn verdict(swept: &[(u64, Vec<SeededRuns>)]) -> String {
    let worst = |shares: &[f64]| shares.iter().copied().fold(1.0, f64::min);
    let worsts: Vec<(u64, f64)> =
        swept.iter().zip(shares(swept)).map(|((cycles, _), shares)| (*cycles, worst(&shares))).collect();
    let of = |cycles: u64| worsts.iter().find(|one| one.0 == cycles).map_or(f64::NAN, |one| 100.0 * one.1);
    let apart = |one: &(u64, f64)| one.0.abs_diff(CYCLES_PER_WAITER);
    let better = |a: &(u64, f64), b: &(u64, f64)| a.1.total_cmp(&b.1).then(apart(b).cmp(&apart(a)));
    let best = worsts.iter().copied().max_by(better).map_or(CYCLES_PER_WAITER, |one| one.0);
    let (first, last) = (CONSTANTS[0].0, CONSTANTS[CONSTANTS.len() - 1].0);
    format!(
        "Best over these cores: {best} cycles for each waiter ahead, nowhere below {:.0} % of the best. The default, \
         {CYCLES_PER_WAITER}: {:.0} %. Too small, {first}: {:.0} %; too large, {last}: {:.0} %.",
        of(best),
        of(CYCLES_PER_WAITER),
        of(first),
        of(last)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_among_the_constants_and_not_at_an_end() {
        let at = CONSTANTS.iter().position(|&(cycles, _)| cycles == CYCLES_PER_WAITER);
        assert!(at.is_some_and(|at| at > 1 && at + 2 < CONSTANTS.len()));
    }

    #[test]
    fn too_small_and_too_large_a_constant_cost_throughput_and_the_default_costs_little() {
        let file = topology::carried::machine("opteron-8x6");
        let hardware = simulator::Hardware::new(&file).unwrap();
        let workload = workloads::catalogue::find("fig10").unwrap();
        let setup = Setup { duration_ns: 200_000, ..Setup::new(&hardware, workload, LOCK).on_first(24) };
        let swept = measure_or(&[setup], Seeds { first: 1, count: 1 }, &session::progress::Unwatched, |_| {
            unreachable!("nobody interrupts")
        })
        .unwrap();
        let shares: Vec<f64> = shares(&swept).into_iter().map(|shares| shares[0]).collect();
        let at = swept.iter().position(|one| one.0 == CYCLES_PER_WAITER).unwrap();
        assert!(shares[at] > shares[0] && shares[at] > shares[shares.len() - 1], "{shares:?}");
    }

    #[test]
    fn a_sweep_on_every_screen() {
        let file = topology::carried::machine("opteron-8x6");
        let hardware = simulator::Hardware::new(&file).unwrap();
        let workload = workloads::catalogue::find("fig10").unwrap();
        let setup = Setup { duration_ns: 1_000, ..Setup::new(&hardware, workload, LOCK).on_first(24) };
        let measured = crate::sweep(&[setup], &session::progress::Unwatched).unwrap();
        // What the simulator counts is its own matter: the figures are fixed.
        let constants = CONSTANTS.iter().enumerate();
        let swept: Vec<_> = constants
            .map(|(at, &(cycles, _))| {
                let mut run = measured[0].clone();
                let operations = 1_000 - 50 * at.abs_diff(4) as u64;
                run.acquisitions_an_operation = None;
                run.run = Run {
                    counts: vec![machine::Counts { operations, ..machine::Counts::default() }],
                    elapsed_ns: 1_000_000,
                };
                run.report.all_lines = simulator::LineCounts::default();
                (cycles, vec![SeededRuns::of(vec![run]).unwrap()])
            })
            .collect();
        let rows = json(&swept);
        assert_eq!(rows[4]["operations_per_second"], 1e6);
        assert_eq!(rows[4]["operations_per_second_low"], rows[4]["operations_per_second"]);
        let text = |screen: report::Screen| {
            format!("{}\n{}\n", table(&swept).terminal(screen), screen.fit(&verdict(&swept)))
        };
        insta::assert_snapshot!(report::every_screen(&[], text));
    }
}
