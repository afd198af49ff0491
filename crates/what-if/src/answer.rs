//! A change as a page shows it: sliders to ask by, and the answer with its curves, its figures and what to do.
//!
//! The page's script places what it gets here and computes nothing: words are written, and places on the axes are shares of
//! their lengths.

use crate::case::{Case, Gain, over};
use crate::change::{self, Alternative, Change};
use curve::axis::{CoresAxis, value_ticks};
use curve::text::{prefixed, short};
use curve::{Curve, Point};
use model::{ModelError, Prediction, Verdict, predict};
use serde::{Deserialize, Serialize};

/// More cores than this would not follow a slider at once.
const MOST_CORES: u32 = 1_024;

/// A number of threads in a forecast, and the likely, least and greatest throughput there.
pub type ForecastPoint = (u32, [f64; 3]);

/// What a page asks from: the case as it is, and what can be changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sliders {
    /// The lock as it is.
    pub case: Case,
    /// Cores that the machine has.
    pub machine_cores: u32,
    /// What may be put in the lock's place.
    pub locks: Vec<Alternative>,
    /// The forecast of the baseline, of two points at least, which a change moves by the ratio that the chain gives.
    pub forecast: Vec<ForecastPoint>,
    /// The same of each lock that was simulated in its place, by its label: a change to such a lock needs no ratio.
    pub of_locks: Vec<(String, Vec<ForecastPoint>)>,
    /// What can be changed by numbers; for the page alone.
    #[serde(skip_deserializing)]
    pub controls: Vec<Control>,
}

/// A number that can be changed: what a slider and a field beside it take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Control {
    /// The word of `--what-if`, or `cores`.
    pub name: &'static str,
    /// What the number is.
    pub label: &'static str,
    /// Where the slider stops, ascending.
    pub stops: Vec<f64>,
    /// Where it is without a change.
    pub start: f64,
    /// What the field holds without a change; nothing where the slider's start stands for that.
    pub rest: Option<f64>,
    /// Whether the number is a whole one.
    pub whole: bool,
}

impl Sliders {
    /// Sliders for a case, on whose forecast and those of other locks a change is shown.
    #[must_use]
    pub fn new(
        case: Case,
        machine_cores: u32,
        locks: Vec<Alternative>,
        forecast: Vec<ForecastPoint>,
        of_locks: Vec<(String, Vec<ForecastPoint>)>,
    ) -> Self {
        // Elsewhere the forecast has no figures.
        let threads = || forecast.iter().map(|&(threads, _)| f64::from(threads));
        let last = threads().next_back().unwrap_or(1.0);
        let cores = threads().filter(|&cores| cores > 1.0);
        let tenths = || (1..10).map(|n| f64::from(n) / 10.0);
        let section = tenths().chain([0.05, 1.0]);
        let factors = || tenths().chain([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]);
        let reads = tenths().chain([0.0, 0.95, 0.99, 1.0]);
        let read = case.parameters.read_share.unwrap_or(0.0);
        let (copies, operations) =
            (round_numbers(change::MOST_LOCKS), round_numbers(change::MOST_OPERATIONS));
        let controls = vec![
            Control::new("cores", "Cores", cores, last).whole(),
            Control::new("threads", "Threads, if not one for each core", threads(), last).whole().optional(),
            Control::new("section", "Part of the section left under the lock", section, 1.0),
            Control::new("think", "Think time, times as long", factors(), 1.0),
            Control::new("reads", "Share of sections that only read", reads, read).optional(),
            Control::new("split", "Locks that it is split into", copies, 1.0).whole(),
            Control::new("batch", "Operations in one acquisition", operations, 1.0).whole(),
        ];
        Self { case, machine_cores, locks, forecast, of_locks, controls }
    }

    /// The forecast of the lock that a change puts in the place, if that was simulated.
    fn of_lock(&self, change: &Change) -> Option<&[ForecastPoint]> {
        let label = change.lock.as_ref()?.label();
        self.of_locks.iter().find(|(name, _)| *name == label).map(|(_, points)| points.as_slice())
    }

    /// Whether a change is one that the forecast shows: to a lock that was simulated, or to another number of threads.
    fn is_shown(&self, change: &Change) -> bool {
        let of_rows = Change { lock: change.lock.clone(), threads: change.threads, ..Change::NONE };
        *change == of_rows && (change.lock.is_none() || self.of_lock(change).is_some())
    }

    /// The predictions for the lock as it is and after the change, if there is one, on the forecast's curves.
    fn on_the_forecast(
        &self,
        predictions: Vec<Prediction>,
        change: &Change,
        case: &Case,
        cores: u32,
    ) -> Result<Vec<Prediction>, ModelError> {
        let points: Vec<_> = up_to(&self.forecast, cores).collect();
        let Some(baseline) = predictions.first().map(|one| one.curve.clone()) else { return Ok(predictions) };
        let after = match self.of_lock(change) {
            Some(points) => {
                let to_lock = Change { lock: change.lock.clone(), ..Change::NONE };
                (up_to(points, cores).collect(), case.prediction(&to_lock)?.curve)
            }
            None => (points.clone(), baseline.clone()),
        };
        let bases = [(points, baseline), after];
        Ok(predictions
            .into_iter()
            .zip(bases)
            .map(|(one, (points, base))| moved(one, &points, &base))
            .collect())
    }

    /// What the curves say that a change gives. Of what the forecast does not show, the range is as wide as the chain's.
    fn gain(&self, case: &Case, change: &Change, curves: &[Curve]) -> Gain {
        let gain = case.gain(change, None);
        let [own, changed] = curves else { return gain };
        let at = |curve: &Curve, threads: u32| {
            curve.points().iter().rfind(|point| point.cores <= threads).copied()
        };
        let after = match change.threads {
            Some(threads) => at(changed, threads),
            // Both curves at one number.
            None => changed
                .points()
                .iter()
                .rfind(|one| one.cores <= case.threads && own.at(one.cores).is_some())
                .copied(),
        };
        let Some(after) = after else { return gain };
        let Some(before) = at(own, change.threads.map_or(after.cores, |_| case.threads)) else { return gain };
        if change.threads.is_some_and(|threads| threads != after.cores) {
            return Gain { times: None, ..gain };
        }
        let times = over(after, before);
        let times = match gain.times {
            _ if self.is_shown(change) => times,
            Some(chain) if chain.likely > 0.0 => chain.scaled(times.likely / chain.likely),
            _ => times,
        };
        Gain { times: Some(times), threads: before.cores, ..gain }
    }

    /// The case on so many cores.
    fn on(&self, cores: u32) -> Case {
        Case { cores: predict::sweep(1, cores), threads: cores.min(self.machine_cores), ..self.case.clone() }
    }

    fn lock(&self, name: &str) -> Result<Alternative, String> {
        let found = self.locks.iter().find(|lock| lock.name == name).cloned();
        found.ok_or_else(|| format!("no lock `{name}` is offered here: choose one from the list"))
    }
}

impl Control {
    fn new(
        name: &'static str,
        label: &'static str,
        stops: impl IntoIterator<Item = impl Into<f64>>,
        start: impl Into<f64>,
    ) -> Self {
        let start = start.into();
        let mut stops: Vec<f64> = stops.into_iter().map(Into::into).chain([start]).collect();
        stops.sort_by(f64::total_cmp);
        stops.dedup();
        Self { name, label, stops, start, rest: Some(start), whole: false }
    }

    fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// Nothing is asked for until a number is chosen.
    fn optional(self) -> Self {
        Self { rest: None, ..self }
    }
}

/// Powers of two and what lies half-way between them, up to `most` and with it.
fn round_numbers(most: u32) -> Vec<u32> {
    let doublings = (0..32).map(|power| 1_u32 << power).take_while(|&number| number < most);
    let mut numbers: Vec<u32> =
        doublings.flat_map(|number| [number, number + number / 2]).filter(|&number| number < most).collect();
    numbers.push(most);
    numbers.dedup();
    numbers
}

/// What a page asks.
#[derive(Debug, Clone, Deserialize)]
pub struct Question {
    /// What the page was given.
    pub sliders: Sliders,
    /// Cores to predict for, from 1.
    pub cores: f64,
    /// As `--what-if` writes it; empty for the lock as it is.
    pub change: String,
    /// The other curves of the plot that the answer is drawn in.
    #[serde(default)]
    pub others: Vec<Curve>,
    /// Whether its lower axis is logarithmic; decided by the number of cores where it is not said.
    #[serde(default)]
    pub log: Option<bool>,
}

/// What a page shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The flags with which `contend predict` simulates the change; nothing where there is none.
    pub flags: String,
    /// What to do, and what that is expected to give.
    pub instruction: String,
    /// What else is to be known.
    pub remarks: Vec<String>,
    /// The heads of the columns of `rows`.
    pub columns: [&'static str; 6],
    /// A row for each curve.
    pub rows: Vec<[String; 6]>,
    /// The curves.
    pub picture: Picture,
    /// Numbers of cores, and what each curve is there.
    pub values: Vec<Vec<String>>,
}

/// Curves over axes. A place is a share of an axis, from the left or from below.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// What is written along the lower axis, and where.
    pub cores: Vec<(f64, String)>,
    /// What is written along the other axis, and where.
    pub throughput: Vec<(f64, String)>,
    /// What that axis counts.
    pub unit: String,
    /// The lock as it is, the other curves of the plot, and the lock after the change if there is one.
    pub curves: Vec<Drawn>,
}

/// A curve in a picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drawn {
    /// What it is called.
    pub name: String,
    /// Across, up, and up to both ends of the range.
    pub points: Vec<[f64; 4]>,
    /// The peak, where the curve goes on behind it.
    pub peak: Option<[f64; 2]>,
    /// The first point at which it has collapsed.
    pub collapsed: Option<[f64; 2]>,
    /// The point that the instruction is about; for the lock as it is and after the change.
    pub compared: Option<[f64; 2]>,
}

impl Question {
    /// The answer.
    ///
    /// # Errors
    ///
    /// A change that is none, or cores that the model does not take, in words for the reader.
    pub fn answer(&self) -> Result<Answer, String> {
        if self.cores.fract() != 0.0 || !(2.0..=f64::from(MOST_CORES)).contains(&self.cores) {
            return Err(format!("`cores={}`: cores is a whole number from 2 to {MOST_CORES}", self.cores));
        }
        let cores = self.cores as u32;
        let change = match self.change.as_str() {
            "" => Change::NONE,
            text => Change::parse(text, |name| self.sliders.lock(name)).map_err(|error| error.to_string())?,
        };
        self.answer_on(cores, &change).map_err(|error| error.to_string())
    }

    fn flags(&self) -> String {
        if self.change.is_empty() { String::new() } else { format!("--what-if {}", self.change) }
    }

    /// The curves of the plot: that of the lock as it is, the others so far as they are shown, and that after the change.
    fn picture(&self, shown: &[Curve], threads: [u32; 2]) -> Picture {
        let last = shown.iter().flat_map(Curve::points).map(|point| point.cores).max().unwrap_or(0);
        let cut = |curve: &Curve| {
            let points = curve.points().iter().filter(|point| point.cores <= last).copied();
            curve.clone().with_points(points.collect::<Vec<_>>()).ok()
        };
        let others: Vec<Curve> = self.others.iter().filter_map(cut).collect();
        let (baseline, changed) = shown.split_at(shown.len().min(1));
        let compared =
            std::iter::once(Some(threads[0])).chain(others.iter().map(|_| None)).chain([Some(threads[1])]);
        let curves: Vec<Curve> = [baseline, &others, changed].concat();
        Picture::of(&curves, self.log, compared)
    }

    fn answer_on(&self, cores: u32, change: &Change) -> Result<Answer, ModelError> {
        let sliders = &self.sliders;
        let mut on = sliders.on(cores);
        // The forecast's points are among those that the chain is asked for.
        on.cores.extend(up_to(&sliders.forecast, cores).map(|(cores, _)| *cores));
        on.cores.sort_unstable();
        on.cores.dedup();
        let case = &on;
        let changed = *change != Change::NONE;
        let mut predictions = vec![case.prediction(&Change::NONE)?];
        if changed {
            predictions.push(case.prediction(change)?);
        }
        let mut remarks = vec![case.times(change)];
        let mut reasons = Vec::new();
        for Prediction { curve, verdict, .. } in &predictions {
            if let Verdict::CannotTell { reason } = verdict
                && !reasons.contains(&reason)
            {
                // The forecast has a verdict of its own: the chain's doubts are of its ratio, and there is none without a change.
                if changed {
                    remarks.push(format!(
                        "The ratio is rough, as the Markov chain cannot tell ({}): {reason}.",
                        curve.label
                    ));
                }
                reasons.push(reason);
            }
        }
        let predictions = sliders.on_the_forecast(predictions, change, case, cores)?;
        let threads = [case.threads, change.threads.unwrap_or(case.threads)];
        let curves: Vec<Curve> = predictions.iter().map(|one| one.curve.clone()).collect();
        Ok(Answer {
            flags: self.flags(),
            instruction: match changed {
                false => "Nothing is changed.".to_owned(),
                true if sliders.is_shown(change) => sliders.gain(case, change, &curves).terminal(),
                true => format!(
                    "Preview, by the Markov chain: {}",
                    sliders.gain(case, change, &curves).terminal()
                ),
            },
            remarks,
            columns: ["lock", "peak cores", "peak", "under 90 % at", "at the last core", "verdict"],
            rows: predictions.iter().map(row).collect(),
            picture: self.picture(&curves, threads),
            values: values(&curves),
        })
    }
}

/// The points of a forecast up to so many cores: two at least, which are a curve.
fn up_to(forecast: &[ForecastPoint], cores: u32) -> impl Iterator<Item = &ForecastPoint> {
    let points = forecast.iter().enumerate();
    points.filter(move |(place, (on, _))| *place < 2 || *on <= cores).map(|(_, point)| point)
}

/// A prediction on a forecast's curve: each point by the ratio of the chain's curves there, and no more than its threads do that have a lock
/// each.
fn moved(one: Prediction, points: &[&ForecastPoint], base: &Curve) -> Prediction {
    let ratio = |on: u32| Some(one.curve.at(on)?.value / base.at(on)?.value);
    let of_each = |value: f64, on: u32| Some(ratio(on)? * value / f64::from(on));
    let most =
        points.first().and_then(|&&(on, [value, _, high])| Some([of_each(value, on)?, of_each(high, on)?]));
    let point = |&&(on, of): &&ForecastPoint| {
        let ratio = ratio(on)?;
        let [most, most_high] = most?.map(|each| each * f64::from(on));
        let [value, low, high] = of.map(|of| ratio * of);
        let value = value.min(most);
        Some(Point { cores: on, value, low: low.min(value), high: high.min(most_high).max(value) })
    };
    let Ok(curve) = one.curve.clone().with_points(points.iter().filter_map(point)) else {
        return one;
    };
    let Some(peak) = curve.peak() else { return one };
    let likely = [curve.clone(), curve.clone(), curve.clone()];
    Prediction {
        peak_cores: peak.cores,
        peak_speedup: peak.value,
        collapse_cores: curve.collapse_cores(),
        verdict: predict::judge(&likely, "the forecast"),
        curve,
        ..one
    }
}

fn row(prediction: &Prediction) -> [String; 6] {
    let Prediction { curve, peak_cores, peak_speedup, collapse_cores, verdict, .. } = prediction;
    [
        curve.label.clone(),
        peak_cores.to_string(),
        short(*peak_speedup),
        collapse_cores.map_or_else(|| "-".to_owned(), |cores| cores.to_string()),
        curve.points().last().map_or_else(String::new, ranged),
        verdict.words(),
    ]
}

fn ranged(point: &Point) -> String {
    format!("{} ({} to {})", short(point.value), short(point.low), short(point.high))
}

/// One row for each number of cores that all curves have.
fn values(curves: &[Curve]) -> Vec<Vec<String>> {
    let fewest = curves.iter().min_by_key(|curve| curve.points().len());
    let cores = fewest.into_iter().flat_map(|curve| curve.points()).map(|point| point.cores);
    let row = |cores: u32| {
        let values = curves.iter().map(|curve| curve.at(cores).map(|point| ranged(&point)));
        std::iter::once(Some(cores.to_string())).chain(values).collect::<Option<Vec<_>>>()
    };
    cores.filter_map(row).collect()
}

impl Picture {
    /// The curves, those with a number of threads with the point there marked.
    fn of(curves: &[Curve], log: Option<bool>, threads: impl Iterator<Item = Option<u32>>) -> Self {
        let axis = CoresAxis::of(curves, log);
        let ticks = value_ticks(curves, 6);
        let highest = ticks.last().copied().unwrap_or(1.0);
        let up = |value: f64| (value / highest).clamp(0.0, 1.0);
        let place = |point: Point| [axis.position(point.cores), up(point.value)];
        let drawn = curves.iter().zip(threads).map(|(curve, threads)| Drawn {
            name: curve.label.clone(),
            points: curve
                .points()
                .iter()
                .map(|point| [axis.position(point.cores), up(point.value), up(point.low), up(point.high)])
                .collect(),
            peak: curve.peak().filter(|peak| Some(peak) != curve.points().last()).map(place),
            collapsed: curve.collapse_cores().and_then(|cores| curve.at(cores)).map(place),
            compared: threads
                .and_then(|threads| curve.points().iter().rfind(|point| point.cores <= threads))
                .copied()
                .map(place),
        });
        Self {
            cores: axis.ticks(8).into_iter().map(|tick| (axis.position(tick), tick.to_string())).collect(),
            throughput: ticks.iter().map(|&tick| (up(tick), prefixed(tick))).collect(),
            unit: curve::Unit::Speedup.to_string(),
            curves: drawn.collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::case::tests::case;
    use model::Family;

    pub(crate) fn sliders() -> Sliders {
        let locks = Family::ALL.map(|family| Alternative {
            name: family.name().to_owned(),
            elided: None,
            family,
            shared: true,
        });
        Sliders::new(case(Family::Blocking, 64), 192, locks.into(), FORECAST.to_vec(), Vec::new())
    }

    const FORECAST: [ForecastPoint; 3] = [(1, [1.0, 1.0, 1.0]), (8, [2.0, 1.5, 3.0]), (64, [0.5, 0.2, 0.9])];

    pub(crate) fn question(sliders: Sliders, cores: f64, change: &str) -> Question {
        Question { sliders, cores, change: change.to_owned(), others: Vec::new(), log: None }
    }

    fn ask(cores: f64, change: &str) -> Result<Answer, String> {
        question(sliders(), cores, change).answer()
    }

    #[test]
    fn sliders_start_where_nothing_is_changed_and_stay_within_what_a_change_takes() {
        for Control { name, stops, start, rest, whole, .. } in sliders().controls {
            assert!(stops.is_sorted_by(|a, b| a < b) && stops.contains(&start), "{name}: {stops:?}");
            assert!(rest.is_none_or(|rest| rest == start), "{name}");
            for stop in stops {
                assert!(!whole || stop.fract() == 0.0, "{name}={stop}");
                if name != "cores" {
                    ask(4.0, &format!("{name}={stop}")).unwrap_or_else(|error| panic!("{error}"));
                }
            }
        }
    }

    #[test]
    fn a_change_moves_the_forecast_by_the_ratio_of_the_chain_and_shows_no_second_figure() {
        let sliders = sliders();
        let ask = |change: &str| question(sliders.clone(), 64.0, change).answer().unwrap();
        let unchanged = ask("");
        assert_eq!(unchanged.values[2][1], ranged(&Point { cores: 64, value: 0.5, low: 0.2, high: 0.9 }));
        assert_eq!(unchanged.rows[0][5], "collapses at 64");
        let case = sliders.on(64);
        let ratio = case.gain(&crate::case::tests::change("section=0.5"), None).times.unwrap().likely;
        let changed = ask("section=0.5");
        let doubts = |answer: &Answer| answer.remarks.iter().any(|remark| remark.contains("Cannot be told"));
        assert!(!doubts(&unchanged) && !doubts(&changed), "the forecast has a verdict: {changed:?}");
        assert!(changed.instruction.starts_with("Preview, by the Markov chain: "), "{changed:?}");
        assert!(changed.remarks[0].starts_with("Critical section 30 ns"), "{:?}", changed.remarks);
        assert!(changed.values[2][2].starts_with(&short(0.5 * ratio)), "{:?} by {ratio}", changed.values);
        assert_eq!(changed.values.len(), 3);
        assert_eq!((unchanged.flags.as_str(), changed.flags.as_str()), ("", "--what-if section=0.5"));
        let few = question(sliders.clone(), 2.0, "section=0.5").answer().unwrap();
        assert_eq!(few.values.len(), 2, "the forecast's points, not the chain's: {:?}", few.values);
        let cores = &sliders.controls[0];
        assert_eq!((cores.name, cores.stops.last()), ("cores", Some(&64.0)), "no further than the forecast");
    }

    /// A lock that was simulated has its own curve; what else is changed moves that. No curve is steeper than its threads.
    #[test]
    fn a_lock_that_was_simulated_and_fewer_threads_are_shown_as_in_the_table() {
        let of_queue = [(1, [0.9, 0.8, 1.0]), (8, [4.0, 3.0, 5.0]), (64, [4.0, 2.0, 6.0])];
        let sliders = Sliders { of_locks: vec![("queue".to_owned(), of_queue.to_vec())], ..sliders() };
        let ask = |change: &str| question(sliders.clone(), 64.0, change).answer().unwrap();
        let queue = ask("lock=queue");
        let shown = of_queue.map(|(cores, [value, low, high])| ranged(&Point { cores, value, low, high }));
        assert_eq!([0, 1, 2].map(|at| queue.values[at][2].clone()), shown[..], "the simulated curve");
        assert!(queue.instruction.contains(": 8.00 times ("), "4 over 0.5: {}", queue.instruction);
        let alone = ask("threads=1");
        assert!(alone.instruction.contains(": 2.00 times ("), "1 over 0.5: {}", alone.instruction);
        assert_eq!(alone.values[2][1], alone.values[2][2], "the curve goes on");
        let between = question(sliders.clone(), 12.0, "section=0.5").answer().unwrap();
        assert!(
            between.instruction.contains("at 8 threads"),
            "where both have figures: {}",
            between.instruction
        );
        assert!(ask("threads=4").instruction.contains("not known"), "the forecast has no 4 threads");
        for change in ["lock=ticket", "split=8", "lock=queue,section=0.1"] {
            for row in &ask(change).values {
                let values = row[2].split(' ').next().unwrap().replace(',', "").parse::<f64>().unwrap();
                let alone = ask(change).values[0][2].split(' ').next().unwrap().parse::<f64>().unwrap();
                let cores: f64 = row[0].parse().unwrap();
                assert!(values <= 1.01 * alone * cores, "{change}: {row:?}");
            }
        }
    }

    #[test]
    fn an_answer_is_drawn_among_the_other_curves_of_the_plot_on_axes_that_hold_all() {
        let other = Curve::new("other", curve::Unit::Speedup, curve::Provenance::Simulated);
        let other = other.with_points([Point::exact(1, 1.0), Point::exact(64, 40.0)]).unwrap();
        let ask = |cores: f64, change: &str, log: bool| {
            let asked = question(sliders(), cores, change);
            Question { others: vec![other.clone()], log: Some(log), ..asked }.answer().unwrap().picture
        };
        let picture = ask(64.0, "split=8", true);
        let [baseline, other, changed] = &picture.curves[..] else { panic!("{picture:?}") };
        assert_eq!([&baseline.points, &other.points, &changed.points].map(Vec::len), [3, 2, 3]);
        assert!(baseline.compared.is_some() && other.compared.is_none() && changed.compared.is_some());
        assert!(
            (baseline.points[2][1] - 0.5 / 40.0).abs() < 1e-9,
            "the axis holds the other curve: {picture:?}"
        );
        assert!(changed.points[2][1] > baseline.points[2][1]);
        assert!(
            (baseline.points[1][0] - 0.5).abs() < 1e-9,
            "8 lies half-way on a logarithmic axis from 1 to 64"
        );
        assert!(ask(64.0, "", false).curves[0].points[1][0] < 0.2);
        let cut = ask(8.0, "", true);
        assert_eq!(cut.curves[1].points.len(), 1, "no further than is asked for: {cut:?}");
    }

    #[test]
    fn a_picture_lies_within_its_axes() {
        for change in ["", "lock=ticket", "split=8", "threads=3"] {
            let Picture { cores, throughput, curves, .. } = ask(48.0, change).unwrap().picture;
            assert!(cores.len() > 3 && throughput.len() > 3);
            assert_eq!(curves.len(), if change.is_empty() { 1 } else { 2 });
            let mut shares = curves.iter().flat_map(|curve| curve.points.iter().flatten());
            assert!(shares.all(|share| (0.0..=1.0).contains(share)), "{change}");
            assert!(curves.iter().all(|curve| curve.compared.is_some()));
        }
    }

    #[test]
    fn what_cannot_be_answered_is_said() {
        for (cores, change, words) in [
            (1.0, "", "whole number from 2"),
            (2.5, "", "whole number from 2"),
            (1e9, "", "whole number from 2"),
            (8.0, "lock=nosuch", "no lock `nosuch`"),
            (8.0, "section=7", "from 0.01 to 1"),
        ] {
            let error = ask(cores, change).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
