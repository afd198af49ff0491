//! A change as a page shows it: sliders to ask by, and the answer with its curves, its figures and what to do.
//!
//! The page's script places what it gets here and computes nothing: words are written, and places on the axes are shares of
//! their lengths.

use crate::case::Case;
use crate::change::{self, Alternative, Change};
use curve::axis::{CoresAxis, value_ticks};
use curve::text::{prefixed, short};
use curve::{Curve, Point};
use model::{ModelError, Prediction, Verdict, predict};
use serde::{Deserialize, Serialize};

/// More cores than this would not follow a slider at once.
const MOST_CORES: u32 = 1_024;

/// What a page asks from: the case as it is, and what can be changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sliders {
    /// The lock as it is.
    pub case: Case,
    /// Cores that the machine has.
    pub machine_cores: u32,
    /// What may be put in the lock's place.
    pub locks: Vec<Alternative>,
    /// The forecast of the baseline, which a change moves by the ratio that the chain gives: cores, and the likely, least and greatest
    /// throughput. Empty where there is none; the chain's own figures are shown then.
    #[serde(default)]
    pub forecast: Vec<(u32, [f64; 3])>,
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
    /// Sliders for a case.
    #[must_use]
    pub fn new(case: Case, machine_cores: u32, locks: Vec<Alternative>) -> Self {
        let last = case.cores.last().copied().unwrap_or(1).clamp(2, MOST_CORES);
        let most = last.max(machine_cores.min(MOST_CORES));
        let tenths = || (1..10).map(|n| f64::from(n) / 10.0);
        let cores = round_numbers(most).into_iter().skip(1).chain([last]);
        let section = tenths().chain([0.05, 1.0]);
        let factors = || tenths().chain([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]);
        let reads = tenths().chain([0.0, 0.95, 0.99, 1.0]);
        let read = case.parameters.read_share.unwrap_or(0.0);
        let (copies, operations) =
            (round_numbers(change::MOST_LOCKS), round_numbers(change::MOST_OPERATIONS));
        let controls = vec![
            Control::new("cores", "Cores", cores, last).whole(),
            Control::new("threads", "Threads, if not one for each core", round_numbers(most), most)
                .whole()
                .optional(),
            Control::new("section", "Part of the section left under the lock", section, 1.0),
            Control::new("think", "Think time, times as long", factors(), 1.0),
            Control::new("reads", "Share of sections that only read", reads, read).optional(),
            Control::new("split", "Locks that it is split into", copies, 1.0).whole(),
            Control::new("batch", "Operations in one acquisition", operations, 1.0).whole(),
            Control::new("handover", "Cost of a hand-over, times as much", factors(), 1.0),
        ];
        Self { case, machine_cores, locks, forecast: Vec::new(), controls }
    }

    /// With a forecast, on whose curve a change is shown.
    #[must_use]
    pub fn on_forecast(mut self, points: impl IntoIterator<Item = (u32, [f64; 3])>) -> Self {
        self.forecast = points.into_iter().collect();
        self
    }

    /// The curves that are shown for these, the first of which is the baseline's: on the forecast's, if there is one.
    fn on_the_forecast(&self, predictions: Vec<Prediction>, cores: u32) -> Vec<Prediction> {
        let points: Vec<_> = self.forecast.iter().filter(|(on, _)| *on <= cores).collect();
        let (Some(baseline), true) = (predictions.first().map(|one| one.curve.clone()), points.len() > 1)
        else {
            return predictions;
        };
        let on_it = |one: Prediction| {
            let point = |&&(on, [value, low, high]): &&(u32, [f64; 3])| {
                let ratio = one.curve.at(on)?.value / baseline.at(on)?.value;
                Some(Point { cores: on, value: ratio * value, low: ratio * low, high: ratio * high })
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
                fall: None,
                curve,
                ..one
            }
        };
        predictions.into_iter().map(on_it).collect()
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
}

/// What a page shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The flags with which `contend predict` says the same.
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
    /// The lock as it is, and after the change if there is one.
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
    /// The point that the instruction is about.
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
        let flags = match self.change.as_str() {
            "" => format!("--cores 1..{cores}"),
            text => format!("--cores 1..{cores} --what-if {text}"),
        };
        answer(&self.sliders, cores, &change, flags).map_err(|error| error.to_string())
    }
}

fn answer(sliders: &Sliders, cores: u32, change: &Change, flags: String) -> Result<Answer, ModelError> {
    let mut on = sliders.on(cores);
    // The forecast's points are among those that the chain is asked for.
    on.cores.extend(sliders.forecast.iter().map(|(cores, _)| *cores).filter(|&at| at <= cores));
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
            remarks.push(format!("Cannot be told from this profile ({}): {reason}.", curve.label));
            reasons.push(reason);
        }
    }
    let predictions = sliders.on_the_forecast(predictions, cores);
    let threads = [case.threads, change.threads.unwrap_or(case.threads)];
    let curves: Vec<Curve> = predictions.iter().map(|one| one.curve.clone()).collect();
    Ok(Answer {
        flags,
        instruction: if changed {
            case.gain(change, None).terminal()
        } else {
            "Nothing is changed.".to_owned()
        },
        remarks,
        columns: ["lock", "peak cores", "peak", "under 90 % at", "at the last core", "verdict"],
        rows: predictions.iter().map(row).collect(),
        picture: Picture::of(&curves, threads),
        values: values(&curves),
    })
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
    /// The curves, each with the point at so many threads marked.
    fn of(curves: &[Curve], threads: [u32; 2]) -> Self {
        let axis = CoresAxis::of(curves, None);
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
            compared: curve.points().iter().rfind(|point| point.cores <= threads).copied().map(place),
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
        Sliders::new(case(Family::Blocking, 64), 192, locks.into())
    }

    fn ask(cores: f64, change: &str) -> Result<Answer, String> {
        Question { sliders: sliders(), cores, change: change.to_owned() }.answer()
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
    fn an_answer_has_the_figures_of_the_command() {
        let answer = ask(64.0, "section=0.5,lock=queue").unwrap();
        assert_eq!(answer.flags, "--cores 1..64 --what-if section=0.5,lock=queue");
        let [before, after] = &answer.rows[..] else { panic!("{:?}", answer.rows) };
        assert_eq!(
            (before[0].as_str(), after[0].as_str()),
            ("blocking as it is", "section=0.500,lock=queue")
        );
        let case = sliders().on(64);
        let change = crate::case::tests::change("section=0.5,lock=queue");
        assert_eq!(answer.instruction, case.gain(&change, None).terminal());
        assert_eq!(after[5], case.prediction(&change).unwrap().verdict.words());
        assert_eq!(answer.values.len(), 64);
        assert_eq!(answer.values[63][2], after[4], "the last value is that at the last core");
        assert!(answer.remarks[0].starts_with("Critical section 30 ns"), "{:?}", answer.remarks);
    }

    #[test]
    fn a_change_moves_the_forecast_by_the_ratio_of_the_chain_and_shows_no_second_figure() {
        let forecast = [(1, [1.0, 1.0, 1.0]), (8, [2.0, 1.5, 3.0]), (64, [0.5, 0.2, 0.9])];
        let sliders = sliders().on_forecast(forecast);
        let ask = |change: &str| {
            Question { sliders: sliders.clone(), cores: 64.0, change: change.to_owned() }.answer().unwrap()
        };
        let unchanged = ask("");
        assert_eq!(unchanged.values[2][1], ranged(&Point { cores: 64, value: 0.5, low: 0.2, high: 0.9 }));
        assert_eq!(unchanged.rows[0][5], "collapses at 64");
        let case = sliders.on(64);
        let ratio = case.gain(&crate::case::tests::change("section=0.5"), None).times.unwrap().likely;
        let changed = ask("section=0.5");
        assert!(changed.values[2][2].starts_with(&short(0.5 * ratio)), "{:?} by {ratio}", changed.values);
        assert_eq!(changed.values.len(), 3);
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
