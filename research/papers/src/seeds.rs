//! Random seeds of simulated figures: each is run with several, and is a median with its range. Where the seeds disagree, the figure is
//! reported as unstable and no claim is judged by it.

use compare::statistics;
use curve::{Curve, Point, Provenance, Series, Unit};
use rayon::prelude::*;
use report::Spread;
use session::progress::Progress;
use session::seeds::{SEEDS, Seeds, UNSTABLE, disagree};
use simulate::{Setup, SimulatedRun, sweep};

/// The seeds of every simulated figure.
const ALL: Seeds = Seeds { first: 1, count: SEEDS };

/// How many there are.
pub(crate) const COUNT: usize = SEEDS as usize;

/// The least, the median and the greatest; not a number of none.
pub(crate) fn spread(values: &[f64]) -> Spread {
    let none = Spread { low: f64::NAN, median: f64::NAN, high: f64::NAN };
    statistics::spread(values).unwrap_or(none)
}

/// Whether the seeds disagree so much that the median is no result.
pub(crate) fn is_unstable(range: Spread) -> bool {
    disagree(range.low, range.high)
}

/// One figure with each seed, in the order of the seeds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BySeed(Vec<f64>);

impl BySeed {
    /// From the values in the order of the seeds.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        Self(values.into_iter().collect())
    }

    /// The median with its range.
    pub(crate) fn spread(&self) -> Spread {
        spread(&self.0)
    }

    /// The median.
    pub(crate) fn median(&self) -> f64 {
        self.spread().median
    }

    /// The ratio of two figures, seed by seed.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one / other).collect())
    }

    /// Another figure that follows from this one.
    pub(crate) fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().map(|&value| change(value)).collect())
    }

    /// The values in the order of the seeds.
    pub(crate) fn values(&self) -> &[f64] {
        &self.0
    }
}

/// Computes something with each seed, side by side; in the order of the seeds.
pub(crate) fn each<T: Send>(of_seed: impl Fn(u64) -> anyhow::Result<T> + Sync) -> anyhow::Result<Vec<T>> {
    let seeds = ALL.iter().collect::<Vec<_>>();
    seeds.par_iter().map(|&seed| of_seed(seed)).collect()
}

/// Each of these with each seed: the seeds of the first, then those of the second.
pub(crate) fn with_each<T: Copy>(all: &[T]) -> Vec<(T, u64)> {
    all.iter().flat_map(|&one| ALL.iter().map(move |seed| (one, seed))).collect()
}

/// The runs of one set-up, in the order of their seeds; at least one.
#[derive(Debug, Clone)]
pub(crate) struct Repeated(Vec<SimulatedRun>);

impl Repeated {
    /// The first run, for what all have in common.
    pub(crate) fn first(&self) -> &SimulatedRun {
        &self.0[0]
    }

    /// A figure of each run.
    pub(crate) fn by_seed(&self, of: impl Fn(&SimulatedRun) -> f64) -> BySeed {
        BySeed::of(self.0.iter().map(of))
    }

    /// A figure's median with its range.
    pub(crate) fn spread(&self, of: impl Fn(&SimulatedRun) -> f64) -> Spread {
        self.by_seed(of).spread()
    }

    /// A figure's median.
    pub(crate) fn median(&self, of: impl Fn(&SimulatedRun) -> f64) -> f64 {
        self.by_seed(of).median()
    }

    /// The run whose throughput is the median.
    pub(crate) fn median_run(&self) -> &SimulatedRun {
        let mut runs = self.0.iter().collect::<Vec<_>>();
        runs.sort_by(|one, other| one.throughput().total_cmp(&other.throughput()));
        runs[(runs.len() - 1) / 2]
    }

    /// Whether this is of that workload and lock on so many cores.
    pub(crate) fn is(&self, workload: &str, lock: &str, cores: u32) -> bool {
        let first = self.first();
        (first.workload, first.lock, first.cores) == (workload, lock, cores)
    }

    /// The runs in the order of their seeds.
    pub(crate) fn runs(&self) -> &[SimulatedRun] {
        &self.0
    }
}

/// The set-up with each seed.
fn seeded<'a>(setup: &Setup<'a>) -> Vec<Setup<'a>> {
    ALL.iter().map(|seed| Setup { seed, ..setup.clone() }).collect()
}

/// Runs each set-up with each seed, side by side; in the order of the set-ups.
pub(crate) fn run(setups: &[Setup<'_>], progress: &dyn Progress) -> anyhow::Result<Vec<Repeated>> {
    let all = setups.iter().flat_map(seeded).collect::<Vec<_>>();
    let runs = sweep(&all, progress)?;
    Ok(runs.chunks(COUNT).map(|of_setup| Repeated(of_setup.to_vec())).collect())
}

/// The same, by seed: for each seed the runs of all set-ups, in the order of the set-ups.
pub(crate) fn run_by_seed(
    setups: &[Setup<'_>],
    progress: &dyn Progress,
) -> anyhow::Result<Vec<Vec<SimulatedRun>>> {
    let by_setup = run(setups, progress)?;
    Ok((0..COUNT).map(|seed| by_setup.iter().map(|runs| runs.0[seed].clone()).collect()).collect())
}

/// The curve of operations a second, medians with their ranges.
pub(crate) fn throughput_curve<'a>(
    measured: impl IntoIterator<Item = &'a Repeated>,
    label: &str,
) -> anyhow::Result<Curve> {
    let measured = measured.into_iter().collect::<Vec<_>>();
    let Some(first) = measured.first().map(|runs| runs.first()) else { anyhow::bail!("a curve of no runs") };
    let point = |runs: &&Repeated| {
        let Spread { low, median, high } = runs.spread(SimulatedRun::throughput);
        Point { cores: runs.first().cores, value: median, low, high }
    };
    let curve = Curve::new(label, Unit::OperationsPerSecond, Provenance::Simulated)
        .lock(first.lock)
        .workload(first.workload)
        .machine(&*first.machine);
    Ok(curve.with_points(measured.iter().map(point))?)
}

/// The median of the curves of several seeds at each number of cores, with their range.
pub(crate) fn median_curve(curves: &[Curve]) -> anyhow::Result<Curve> {
    let Some(first) = curves.first() else { anyhow::bail!("a curve of no seeds") };
    let at = |curve: &Curve, cores| curve.at(cores).map_or(f64::NAN, |point| point.value);
    let values = |cores| curves.iter().map(|curve| at(curve, cores)).collect::<Vec<_>>();
    let points = first.points().iter().filter_map(|point| Point::of_runs(point.cores, &values(point.cores)));
    Ok(first.clone().with_points(points)?)
}

/// Figures whose seeds disagree, by what they are of.
#[derive(Debug, Default)]
pub(crate) struct Unstable(Vec<String>);

impl Unstable {
    /// Of curves: the numbers of cores at which the seeds disagree.
    pub(crate) fn of_plots(plots: &[Series]) -> Self {
        let mut unstable = Self::default();
        for plot in plots {
            for curve in &plot.curves {
                let apart = curve.points().iter().filter(|point| is_unstable(Spread::from(**point)));
                let apart = apart.map(|point| point.cores.to_string()).collect::<Vec<_>>();
                if !apart.is_empty() {
                    unstable.0.push(format!(
                        "{}, {}, at {} cores",
                        plot.title,
                        curve.label,
                        apart.join(", ")
                    ));
                }
            }
        }
        unstable
    }

    /// Adds a figure if its seeds disagree.
    pub(crate) fn look(&mut self, range: Spread, what: impl FnOnce() -> String) {
        if is_unstable(range) {
            self.0.push(what());
        }
    }

    /// How often each set-up was run, and which figures are no result.
    pub(crate) fn note(&self) -> String {
        let all = if self.0.is_empty() { "none".into() } else { self.0.join("; ") };
        format!(
            "Medians of {COUNT} seeds with their range, and verdicts are of medians, none of them of a figure that is \
             unstable. Unstable, one seed gives more than {UNSTABLE:.0} times what another gives: {all}."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{OPTERON, hardware, workload};
    use session::progress::Unwatched;

    #[test]
    fn each_set_up_has_a_run_of_each_seed_whichever_way_they_are_grouped() {
        let hardware = hardware(OPTERON).unwrap();
        let counter = workload("counter").unwrap();
        let setup =
            |cores| Setup { duration_ns: 20_000, ..Setup::new(&hardware, counter, "ticket") }.on_first(cores);
        let setups = [setup(1), setup(4)];
        let seeds = (1..=u64::from(SEEDS)).collect::<Vec<_>>();
        let by_setup = run(&setups, &Unwatched).unwrap();
        assert_eq!(by_setup.len(), setups.len());
        for (runs, setup) in by_setup.iter().zip(&setups) {
            assert!(runs.is("counter", "ticket", setup.cores));
            assert_eq!(runs.runs().iter().map(|run| run.seed).collect::<Vec<_>>(), seeds);
            assert_eq!(runs.median_run().throughput(), runs.median(SimulatedRun::throughput));
        }
        let by_seed = run_by_seed(&setups, &Unwatched).unwrap();
        let of_runs = by_seed.iter().flatten().map(|run| (run.cores, run.seed)).collect::<Vec<_>>();
        assert_eq!(of_runs, seeds.iter().flat_map(|&seed| [(1, seed), (4, seed)]).collect::<Vec<_>>());
        let point = throughput_curve(&by_setup, "").unwrap().at(4).unwrap();
        let range = by_setup[1].spread(SimulatedRun::throughput);
        assert_eq!([point.low, point.value, point.high], [range.low, range.median, range.high]);
    }

    #[test]
    fn a_ratio_is_taken_seed_by_seed() {
        let one = BySeed::of([2.0, 6.0, 4.0, 8.0, 10.0]);
        let other = BySeed::of([1.0, 2.0, 4.0, 2.0, 5.0]);
        let ratio = one.over(&other);
        assert_eq!(ratio.values(), [2.0, 3.0, 1.0, 4.0, 2.0]);
        assert_eq!(ratio.spread(), Spread { low: 1.0, median: 2.0, high: 4.0 });
        assert_eq!(one.map(|value| value / 2.0).median(), 3.0);
        assert!(spread(&[]).median.is_nan() && !is_unstable(spread(&[])));
    }

    #[test]
    fn each_seed_is_used_once_and_in_order() {
        assert_eq!(each(Ok).unwrap(), [1, 2, 3, 4, 5]);
        assert!(each::<u64>(|_| anyhow::bail!("stopped")).is_err());
        let pairs = with_each(&["a", "b"]);
        assert_eq!((pairs.len(), pairs[0], pairs[COUNT]), (2 * COUNT, ("a", 1), ("b", 1)));
    }

    #[test]
    fn curves_are_medians_and_say_where_the_seeds_disagree() {
        let curve = |value| {
            let curve = Curve::new("ticket", Unit::Speedup, Provenance::Simulated);
            curve.with_points([Point::exact(34, value), Point::exact(36, 15.0)]).unwrap()
        };
        let median = median_curve(&[curve(20.0), curve(30.0), curve(10.0)]).unwrap();
        assert_eq!(median.at(34).unwrap(), Point { cores: 34, value: 20.0, low: 10.0, high: 30.0 });
        assert!(median_curve(&[]).is_err());
        let mut plot = Series::new("exim");
        plot.curves = vec![median];
        assert!(Unstable::of_plots(&[plot]).note().ends_with(": exim, ticket, at 34 cores."));
        let mut unstable = Unstable::of_plots(&[]);
        unstable.look(Spread { low: 1.0, median: 1.5, high: 2.0 }, || "twice".into());
        assert!(unstable.note().ends_with(": none."), "up to the factor they agree");
        unstable.look(Spread { low: 1.0, median: 1.5, high: 2.1 }, || "more".into());
        assert!(unstable.note().ends_with(": more."));
    }
}
