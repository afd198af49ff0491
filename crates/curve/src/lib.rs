//! Curves of throughput against cores, with units and provenance.
//!
//! A [`Curve`] is what every part of contend ends in: one lock under one load, from few cores to many, measured,
//! simulated, predicted or published. A [`Series`] holds curves that belong on one plot. Both are written and
//! read as JSON and as CSV by [`format`](mod@format); nothing here opens a file.
//!
//! ```
//! use contend_curve::{Curve, Point, Provenance, Unit};
//!
//! let curve = Curve::new("ticket", Unit::Speedup, Provenance::Predicted)
//!     .with_points([Point::exact(1, 1.0), Point::exact(8, 4.7), Point::exact(48, 0.35)])
//!     .unwrap();
//! assert_eq!(curve.peak().unwrap().cores, 8);
//! assert_eq!(curve.collapse_cores(), Some(48));
//! ```

pub mod axis;
pub mod format;
pub mod text;
pub mod trace_events;

pub use format::FormatError;

use serde::{Deserialize, Serialize};
use std::fmt;

/// A curve has collapsed once it is under this share of its peak.
pub const COLLAPSE_SHARE: f64 = 0.9;

/// Where the values of a curve come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// Timed on hardware.
    Measured,
    /// Run on the simulated machine.
    Simulated,
    /// Computed by a model.
    Predicted,
    /// Printed by a source.
    Published,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Simulated => "simulated",
            Self::Predicted => "predicted",
            Self::Published => "published",
        })
    }
}

/// What the value of a point counts. More is better in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Operations a second, of all cores together.
    OperationsPerSecond,
    /// Operations a second, of one core.
    OperationsPerSecondPerCore,
    /// Throughput relative to one core.
    Speedup,
    /// A part of all, from 0 to 1.
    Share,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OperationsPerSecond => "operations/s",
            Self::OperationsPerSecondPerCore => "operations/s per core",
            Self::Speedup => "throughput relative to one core",
            Self::Share => "share of all",
        })
    }
}

/// The value at one number of cores, with the range it may lie in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Cores or threads, at least 1.
    pub cores: u32,
    /// The value, in the unit of the curve: a median where there are several runs.
    pub value: f64,
    /// The least value of the range; equal to `value` where no range is known.
    pub low: f64,
    /// The greatest value of the range; equal to `value` where no range is known.
    pub high: f64,
}

impl Point {
    /// A point without a range.
    pub fn exact(cores: u32, value: f64) -> Self {
        Self { cores, value, low: value, high: value }
    }

    /// The point of several runs at one number of cores: their median and their range. `None` without runs.
    pub fn of_runs(cores: u32, runs: &[f64]) -> Option<Self> {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let value =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { cores, value, low, high })
    }

    fn scaled(self, factor: f64) -> Self {
        Self {
            cores: self.cores,
            value: (self.value * factor).min(f64::MAX),
            low: (self.low * factor).min(f64::MAX),
            high: (self.high * factor).min(f64::MAX),
        }
    }
}

/// Points that do not make a curve.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidPoint {
    /// Zero cores.
    #[error("a point has 0 cores; cores are counted from 1")]
    NoCores,
    /// Two points at one number of cores.
    #[error("two points at {0} cores; a curve has one point for each number of cores")]
    Repeated(u32),
    /// A value that is not finite or is negative, or a range that does not hold its value.
    #[error(
        "the point at {cores} cores is {low} <= {value} <= {high}; \
         values are finite and not negative, and lie in their range"
    )]
    Range {
        /// Cores of the point.
        cores: u32,
        /// Its least value.
        low: f64,
        /// Its value.
        value: f64,
        /// Its greatest value.
        high: f64,
    },
}

/// Throughput against cores.
///
/// Points ascend by cores and are valid; both hold for every curve that exists, read ones included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Unchecked")]
pub struct Curve {
    /// What a legend calls this curve.
    pub label: String,
    /// The lock, by its name in `contend locks`; empty where there is no one lock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lock: String,
    /// What was run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload: String,
    /// What it ran on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// Where the values come from.
    pub provenance: Provenance,
    /// What the values count.
    pub unit: Unit,
    points: Vec<Point>,
}

/// A curve as it is read, before its points are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    label: String,
    #[serde(default)]
    lock: String,
    #[serde(default)]
    workload: String,
    #[serde(default)]
    machine: String,
    provenance: Provenance,
    unit: Unit,
    points: Vec<Point>,
}

impl TryFrom<Unchecked> for Curve {
    type Error = InvalidPoint;

    fn try_from(read: Unchecked) -> Result<Self, InvalidPoint> {
        let Unchecked { label, lock, workload, machine, provenance, unit, points } = read;
        Self { label, lock, workload, machine, provenance, unit, points: Vec::new() }.with_points(points)
    }
}

/// Values that differ by less than this part of themselves are equal.
const ROUNDING: f64 = 1e-9;

impl Curve {
    /// A curve without points.
    pub fn new(label: impl Into<String>, unit: Unit, provenance: Provenance) -> Self {
        Self {
            label: label.into(),
            lock: String::new(),
            workload: String::new(),
            machine: String::new(),
            provenance,
            unit,
            points: Vec::new(),
        }
    }

    /// Names the lock.
    #[must_use]
    pub fn lock(mut self, lock: impl Into<String>) -> Self {
        self.lock = lock.into();
        self
    }

    /// Names the workload.
    #[must_use]
    pub fn workload(mut self, workload: impl Into<String>) -> Self {
        self.workload = workload.into();
        self
    }

    /// Names the machine.
    #[must_use]
    pub fn machine(mut self, machine: impl Into<String>) -> Self {
        self.machine = machine.into();
        self
    }

    /// Replaces the points, in any order.
    ///
    /// # Errors
    ///
    /// Points with no cores, twice the same cores, or values that are not finite, negative or outside their range.
    pub fn with_points(mut self, points: impl IntoIterator<Item = Point>) -> Result<Self, InvalidPoint> {
        self.points = points.into_iter().collect();
        self.points.sort_by_key(|point| point.cores);
        for point in &self.points {
            let Point { cores, value, low, high } = *point;
            if cores == 0 {
                return Err(InvalidPoint::NoCores);
            }
            if !(0.0 <= low && low <= value && value <= high && high.is_finite()) {
                return Err(InvalidPoint::Range { cores, low, value, high });
            }
        }
        match self.points.windows(2).find(|pair| pair[0].cores == pair[1].cores) {
            Some(pair) => Err(InvalidPoint::Repeated(pair[0].cores)),
            None => Ok(self),
        }
    }

    /// The points, by ascending cores.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The point at exactly this number of cores.
    pub fn at(&self, cores: u32) -> Option<Point> {
        let index = self.points.binary_search_by_key(&cores, |point| point.cores).ok()?;
        Some(self.points[index])
    }

    /// The point of the greatest value, the one of fewest cores where several are equal but for the rounding of what made
    /// them: a computed curve that levels off peaks where it first does.
    pub fn peak(&self) -> Option<Point> {
        let greatest = self.points.iter().map(|point| point.value).reduce(f64::max)?;
        self.points.iter().copied().find(|point| point.value >= greatest * (1.0 - ROUNDING))
    }

    /// The first number of cores past the peak at which the value is under [`COLLAPSE_SHARE`] of the peak.
    ///
    /// Only the cores of the points are considered: a coarse curve gives a coarse answer.
    pub fn collapse_cores(&self) -> Option<u32> {
        let peak = self.peak()?;
        let collapsed =
            |point: &&Point| point.cores > peak.cores && point.value < COLLAPSE_SHARE * peak.value;
        self.points.iter().find(collapsed).map(|point| point.cores)
    }

    /// The total of all cores: [`Unit::OperationsPerSecondPerCore`] times cores, other units as they are.
    #[must_use]
    pub fn of_all_cores(mut self) -> Self {
        if self.unit == Unit::OperationsPerSecondPerCore {
            self.unit = Unit::OperationsPerSecond;
            for point in &mut self.points {
                *point = point.scaled(f64::from(point.cores));
            }
        }
        self
    }

    /// Throughput relative to one core. The range of the one-core point is not carried into the others.
    ///
    /// `None` where the curve has no point at one core, or a value of 0 there.
    pub fn relative_to_one_core(&self) -> Option<Self> {
        let mut curve = self.clone().of_all_cores();
        let one = curve.at(1)?.value;
        if one <= 0.0 {
            return None;
        }
        curve.unit = Unit::Speedup;
        for point in &mut curve.points {
            *point = Point {
                cores: point.cores,
                value: point.value / one,
                low: point.low / one,
                high: point.high / one,
            };
        }
        curve.points.iter().all(|point| point.high.is_finite()).then_some(curve)
    }
}

/// Curves that belong on one plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// What the plot is called.
    pub title: String,
    /// What stands in place of the cores of each point, if something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axis: Option<String>,
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
}

impl Series {
    /// A series without curves.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), axis: None, curves: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u32, f64)]) -> Curve {
        Curve::new("c", Unit::OperationsPerSecond, Provenance::Measured)
            .with_points(points.iter().map(|&(cores, value)| Point::exact(cores, value)))
            .unwrap()
    }

    #[test]
    fn points_are_sorted_and_checked() {
        assert_eq!(curve(&[(4, 1.0), (1, 2.0)]).points()[0].cores, 1);
        let empty = Curve::new("c", Unit::Speedup, Provenance::Published);
        let with = |point| empty.clone().with_points([Point::exact(1, 1.0), point]).unwrap_err();
        assert_eq!(with(Point::exact(1, 2.0)), InvalidPoint::Repeated(1));
        assert_eq!(with(Point::exact(0, 2.0)), InvalidPoint::NoCores);
        for (low, value, high) in [
            (2.0, 1.0, 3.0),
            (0.0, 4.0, 3.0),
            (-1.0, 0.0, 1.0),
            (0.0, f64::NAN, 1.0),
            (f64::NAN, 1.0, 1.0),
            (0.0, 1.0, f64::INFINITY),
        ] {
            assert!(matches!(with(Point { cores: 2, value, low, high }), InvalidPoint::Range { .. }));
        }
    }

    #[test]
    fn peak_is_the_first_of_equals_and_collapse_is_past_it() {
        let levelling_off = curve(&[(1, 1.0), (2, 3.0), (4, 3.0 + 3e-12), (8, 3.0 + 4e-12)]);
        assert_eq!(levelling_off.peak().unwrap().cores, 2);
        let curve = curve(&[(1, 1.0), (2, 0.5), (3, 4.0), (4, 4.0), (5, 3.6), (6, 3.59), (7, 4.0)]);
        assert_eq!(curve.peak().unwrap().cores, 3);
        assert_eq!(curve.collapse_cores(), Some(6), "0.9 of the peak itself is not collapsed");
    }

    #[test]
    fn a_curve_that_never_falls_does_not_collapse() {
        assert_eq!(curve(&[(1, 1.0), (2, 2.0)]).collapse_cores(), None);
        assert_eq!(curve(&[]).collapse_cores(), None);
        assert_eq!(curve(&[]).peak(), None);
    }

    #[test]
    fn values_per_core_are_totalled_before_normalising() {
        let per_core = Curve::new("c", Unit::OperationsPerSecondPerCore, Provenance::Published)
            .with_points([Point::exact(1, 10.0), Point { cores: 4, value: 5.0, low: 4.0, high: 6.0 }])
            .unwrap();
        let relative = per_core.relative_to_one_core().unwrap();
        assert_eq!(relative.unit, Unit::Speedup);
        assert_eq!(relative.at(4).unwrap(), Point { cores: 4, value: 2.0, low: 1.6, high: 2.4 });
    }

    #[test]
    fn nothing_is_relative_to_an_absent_or_idle_core() {
        assert!(curve(&[(2, 1.0)]).relative_to_one_core().is_none());
        assert!(curve(&[(1, 0.0), (2, 1.0)]).relative_to_one_core().is_none());
        assert!(curve(&[(1, 1e-300), (2, 1e300)]).relative_to_one_core().is_none());
    }

    #[test]
    fn runs_give_their_median_and_range() {
        let point = Point::of_runs(2, &[3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!(point, Point { cores: 2, value: 2.5, low: 1.0, high: 10.0 });
        assert_eq!(Point::of_runs(2, &[]), None);
    }
}
