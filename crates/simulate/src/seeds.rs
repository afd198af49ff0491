//! Each setup run with several seeds, and which of its runs speaks for all.
//!
//! Some setups have two states, of which the seed chooses one, with throughputs that differ by a factor of ten. One run
//! does not tell; the median of several with their range does.

use super::sweep::{Setup, SimulatedRun, sweep_or};
use curve::Point;
use curve::text::short;
use report::{Cell, Column, Spread};
use session::progress::Progress;
use session::seeds::{Seeds, disagree};
use std::convert::Infallible;

/// The runs of one setup, which differ in their seeds alone.
#[derive(Debug, Clone)]
pub struct SeededRuns {
    /// At least one, by ascending throughput; of equal ones by their seeds.
    runs: Vec<SimulatedRun>,
}

impl SeededRuns {
    /// Runs of one setup; none of no runs.
    pub fn of(mut runs: Vec<SimulatedRun>) -> Option<Self> {
        runs.sort_by(|a, b| a.throughput().total_cmp(&b.throughput()));
        (!runs.is_empty()).then_some(Self { runs })
    }

    /// How many runs are finished, at least 1.
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// The run whose throughput is the median. Of an even number it is the slower one of the two in the middle, since a
    /// mean of two states would be none.
    pub fn median(&self) -> &SimulatedRun {
        &self.runs[(self.runs.len() - 1) / 2]
    }

    /// Operations a second of the median run, with their range over the seeds.
    pub fn point(&self) -> Point {
        let median = self.median();
        Point {
            cores: median.cores,
            value: median.throughput(),
            low: self.runs[0].throughput(),
            high: self.runs[self.runs.len() - 1].throughput(),
        }
    }

    /// Whether the seeds disagree so much that the median is no result.
    pub fn is_unstable(&self) -> bool {
        let Point { low, high, .. } = self.point();
        disagree(low, high)
    }

    /// What a table says of the throughput, in operations a second: without a range where there is one run.
    pub(crate) fn throughput_cell(&self) -> Cell {
        match self.count() {
            1 => self.point().value.into(),
            _ => Spread::from(self.point()).into(),
        }
    }

    /// The mark in [`note_column`].
    pub(crate) fn note(&self) -> Option<&'static str> {
        self.is_unstable().then_some("unstable")
    }

    /// Everything of the median run, how many seeds there are, and the range of their throughput in operations a second.
    pub fn json(&self, host_times: bool) -> serde_json::Value {
        let mut all = self.median().json(host_times);
        self.write_throughput(&mut all);
        all
    }

    /// Writes the throughput with its range, and which seeds it is of, into a row of JSON.
    pub(crate) fn write_throughput(&self, row: &mut serde_json::Value) {
        let Point { value, low, high, .. } = self.point();
        row["seed"] = self.median().seed.into();
        row["seeds"] = self.count().into();
        row["operations_per_second"] = value.into();
        row["operations_per_second_low"] = low.into();
        row["operations_per_second_high"] = high.into();
        row["unstable"] = self.is_unstable().into();
    }
}

/// The column for [`SeededRuns::throughput_cell`].
pub(crate) fn throughput_column<'a>(measured: impl IntoIterator<Item = &'a SeededRuns>) -> Column {
    let has_ranges = measured.into_iter().any(|runs| runs.count() > 1);
    let column = if has_ranges { Column::spread } else { Column::number };
    column("operations_per_second", "operations/s").kept()
}

/// The column that marks rows that are unstable, shown if there are any.
pub(crate) fn note_column() -> Column {
    Column::text("note", "note").kept().only_if_any()
}

/// What to say below a table of which rows are no result, each with what it is of; none if all are stable.
pub fn unstable<'a>(
    measured: impl IntoIterator<Item = (String, &'a SeededRuns)>,
    seeds: Seeds,
) -> Option<String> {
    /// What throughputs are shown in; the lower one decides, so that it does not become 0.0.
    const UNITS: [(f64, &str); 3] = [(1e6, "M/s"), (1e3, "k/s"), (1.0, "operations/s")];
    let shown = |(of, runs): (String, &SeededRuns)| {
        let Point { cores, low, high, .. } = runs.point();
        let (unit, name) = UNITS.into_iter().find(|unit| low >= 0.1 * unit.0).unwrap_or(UNITS[2]);
        let cores = if cores == 1 { "1 core".into() } else { format!("{cores} cores") };
        format!("{of} at {cores}, {} to {} {name} by seed", short(low / unit), short(high / unit))
    };
    let all = measured.into_iter().filter(|(_, runs)| runs.is_unstable()).map(shown).collect::<Vec<_>>();
    (!all.is_empty()).then(|| {
        format!(
            "unstable: {}. A median is no result there: look at each with `--seeds 1 --seed N`, {seeds}",
            all.join("; ")
        )
    })
}

/// Makes all runs of all setups, side by side; the setups' own seeds do not matter. The results are in the order of the
/// setups. After an interrupt that was noted `cut` gets one answer for each setup, of the runs that are finished, and
/// ends the process.
///
/// # Errors
///
/// A simulation that stopped, or a lock that does not exist.
pub fn sweep_seeds_or(
    setups: &[Setup<'_>],
    seeds: Seeds,
    progress: &dyn Progress,
    cut: impl FnOnce(Vec<Option<SeededRuns>>) -> Infallible,
) -> anyhow::Result<Vec<SeededRuns>> {
    let with_seeds = |setup| seeds.iter().map(move |seed| Setup { seed, ..Setup::clone(setup) });
    let by_setup = |finished: Vec<Option<SimulatedRun>>| {
        let mut finished = finished.into_iter();
        let mut of_next =
            |_| SeededRuns::of(finished.by_ref().take(seeds.count as usize).flatten().collect());
        setups.iter().map(&mut of_next).collect::<Vec<_>>()
    };
    let all = setups.iter().flat_map(with_seeds).collect::<Vec<_>>();
    let finished = sweep_or(&all, progress, |finished| cut(by_setup(finished)))?;
    Ok(by_setup(finished.into_iter().map(Some).collect()).into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{run_table, sweep, unstable_locks};
    use machine::{Counts, Run};
    use report::Screen;
    use session::progress::Unwatched;
    use simulator::Hardware;

    fn hardware(name: &str) -> Hardware {
        Hardware::new(&topology::carried::machine(name)).expect("a machine")
    }

    fn setup<'a>(hardware: &'a Hardware, lock: &'static str, cores: u32) -> Setup<'a> {
        let counter = workloads::catalogue::find("counter").expect("a workload");
        Setup { duration_ns: 20_000, ..Setup::new(hardware, counter, lock) }.on_first(cores)
    }

    fn measured(setups: &[Setup<'_>], seeds: Seeds) -> Vec<SeededRuns> {
        sweep_seeds_or(setups, seeds, &Unwatched, |_| unreachable!("nobody interrupts")).expect("runs")
    }

    /// Runs on one core with so many operations in a millisecond, in the order of their seeds.
    fn made_up(operations: &[u64]) -> SeededRuns {
        let hardware = hardware("opteron-8x6");
        let one = sweep(&[setup(&hardware, "mcs", 1)], &Unwatched).expect("a run").remove(0);
        let with = |(seed, &operations): (u64, &u64)| {
            let counts = vec![Counts { operations, ..Counts::default() }];
            let mut run = one.clone();
            run.acquisitions_an_operation = None;
            (run.seed, run.run) = (seed, Run { counts, elapsed_ns: 1_000_000 });
            run
        };
        SeededRuns::of((1..).zip(operations).map(with).collect()).expect("runs")
    }

    #[test]
    fn the_median_is_one_of_the_runs() {
        let seed_of_median = |operations: &[u64]| made_up(operations).median().seed;
        assert_eq!(seed_of_median(&[900, 100, 500]), 3);
        assert_eq!(seed_of_median(&[900, 100, 500, 800]), 3, "the lower one of two in the middle");
        assert_eq!(seed_of_median(&[7, 7, 7]), 2);
        let Point { cores, value, low, high } = made_up(&[900, 100, 500, 800]).point();
        assert_eq!((cores, value, low, high), (1, 500e3, 100e3, 900e3));
        assert!(SeededRuns::of(Vec::new()).is_none());
    }

    #[test]
    fn seeds_that_disagree_are_said_to() {
        let seeds = Seeds { first: 1, count: 3 };
        let (stable, unstable) = (made_up(&[500, 1_000, 700]), made_up(&[2_550, 28_600, 28_000]));
        assert!(!stable.is_unstable() && unstable.is_unstable());
        assert_eq!(unstable_locks(std::slice::from_ref(&stable), seeds), None);
        let both = [stable, unstable];
        assert_eq!(
            unstable_locks(&both, seeds).as_deref(),
            Some(
                "unstable: mcs at 1 core, 2.55 to 28.6 M/s by seed. A median is no result there: \
                 look at each with `--seeds 1 --seed N`, seeds 1 to 3"
            )
        );
        let shown = run_table(&both).terminal(Screen::wide(132));
        let rows = shown.lines().filter(|line| line.starts_with("mcs"));
        assert_eq!(rows.map(|row| row.contains("unstable")).collect::<Vec<_>>(), [false, true], "{shown}");
        let rows = both.map(|runs| runs.json(false));
        assert_eq!(rows.each_ref().map(|row| row["unstable"].as_bool()), [Some(false), Some(true)]);
        assert_eq!(rows[1]["operations_per_second"], 28e6);
        assert_eq!(rows[1]["operations_per_second_low"], 2.55e6);
        assert_eq!(rows[1]["operations_per_second_high"], 28.6e6);
        assert_eq!((&rows[1]["seeds"], &rows[1]["seed"]), (&3.into(), &3.into()));
    }

    #[test]
    fn each_setup_has_the_runs_of_all_seeds() {
        let hardware = hardware("opteron-8x6");
        let setups = [setup(&hardware, "ticket", 2), setup(&hardware, "mcs", 6)];
        let of_seeds = measured(&setups, Seeds { first: 4, count: 3 });
        for (setup, runs) in setups.iter().zip(&of_seeds) {
            let alone = measured(std::slice::from_ref(setup), Seeds { first: runs.median().seed, count: 1 });
            let setup = Setup { seed: runs.median().seed, ..setup.clone() };
            let once = sweep(&[setup], &Unwatched).expect("a run").remove(0);
            assert_eq!(runs.median().json(false), once.json(false));
            assert_eq!(alone[0].median().json(false), once.json(false));
            assert_eq!((runs.count(), alone[0].count()), (3, 1));
            let mut seeds = runs.runs.iter().map(|run| run.seed).collect::<Vec<_>>();
            seeds.sort_unstable();
            assert_eq!(seeds, [4, 5, 6]);
        }
        let again = measured(&setups, Seeds { first: 4, count: 3 });
        let json = |all: &[SeededRuns]| all.iter().map(|runs| runs.json(false)).collect::<Vec<_>>();
        assert_eq!(json(&of_seeds), json(&again));
    }
}
