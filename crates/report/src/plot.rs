//! Curves on one pair of axes, for a terminal or as SVG.

pub(crate) mod svg;
mod terminal;

use crate::Screen;
use crate::text::{prefixed, printable};
use curve::{Curve, Point, Provenance, Unit};

/// From this many cores on, the axis of cores is logarithmic unless told otherwise.
const LOG_FROM_CORES: u32 = 32;

/// Curves that cannot share an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "one curve counts {0} and another {1}, and not all of them have a point at one core to be made relative to; \
     plot them apart"
)]
pub struct IncomparableUnits(pub Unit, pub Unit);

/// Curves under a title. The axis of values starts at zero; ranges are shown as bands; how a curve is drawn says
/// where it comes from (measured curves are solid).
#[derive(Debug, Clone)]
pub struct Plot {
    title: String,
    axis: String,
    unit: Unit,
    curves: Vec<Curve>,
    log_cores: Option<bool>,
}

impl Plot {
    /// A plot of these curves. Curves of different units are made relative to one core each.
    ///
    /// # Errors
    ///
    /// Different units, where a curve has no value at one core.
    pub fn new<'a>(
        title: impl Into<String>,
        curves: impl IntoIterator<Item = &'a Curve>,
    ) -> Result<Self, IncomparableUnits> {
        let mut curves: Vec<Curve> =
            curves.into_iter().filter(|curve| !curve.points().is_empty()).cloned().collect();
        let unit = curves.first().map_or(Unit::Speedup, |curve| curve.unit);
        let mut plotted = unit;
        if let Some(other) = curves.iter().map(|curve| curve.unit).find(|&other| other != unit) {
            let relative: Option<Vec<_>> = curves.iter().map(Curve::relative_to_one_core).collect();
            curves = relative.ok_or(IncomparableUnits(unit, other))?;
            plotted = Unit::Speedup;
        }
        Ok(Self { title: title.into(), axis: "cores".into(), unit: plotted, curves, log_cores: None })
    }

    /// Names the lower axis; `cores` otherwise.
    #[must_use]
    pub fn axis(mut self, name: impl Into<String>) -> Self {
        self.axis = name.into();
        self
    }

    /// Makes the lower axis logarithmic, or not. Without this it is when the cores reach 32.
    #[must_use]
    pub fn log_cores(mut self, log: bool) -> Self {
        self.log_cores = Some(log);
        self
    }

    /// Whether the lower axis is logarithmic.
    pub fn is_log(&self) -> bool {
        self.cores_axis().log
    }

    /// What the lower axis is called.
    pub fn axis_name(&self) -> &str {
        &self.axis
    }

    /// The curves as they are drawn.
    pub fn curves(&self) -> &[Curve] {
        &self.curves
    }

    /// What the plot is called.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Lines for a screen with so many rows between the axes, drawn in braille dots or ASCII, with a legend below.
    /// Sizes too small to read are raised to 40 columns and 6 rows, and both are at most 400.
    pub fn terminal(&self, screen: Screen, rows: usize) -> String {
        terminal::draw(self, screen, rows.clamp(6, 400))
    }

    /// An SVG document that needs nothing else, and follows the reader's choice of light or dark.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }

    /// All points.
    fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.curves.iter().flat_map(|curve| curve.points().iter().copied())
    }

    /// The lower axis; without points from 1 to 2.
    fn cores_axis(&self) -> CoresAxis {
        let least = self.points().map(|point| point.cores).min().unwrap_or(1);
        let most = self.points().map(|point| point.cores).max().unwrap_or(2);
        CoresAxis { least, most: most.max(least + 1), log: self.log_cores.unwrap_or(most >= LOG_FROM_CORES) }
    }

    /// The axis of values: its ticks, from zero to at least the greatest value.
    fn value_ticks(&self, about: usize) -> Vec<f64> {
        let highest = self.points().map(|point| point.high).fold(0.0, f64::max);
        ticks(if highest > 0.0 { highest } else { 1.0 }, about)
    }
}

/// The axis of cores, as a map from cores to 0 at the left and 1 at the right.
#[derive(Debug, Clone, Copy)]
struct CoresAxis {
    least: u32,
    most: u32,
    log: bool,
}

impl CoresAxis {
    fn position(&self, cores: u32) -> f64 {
        let scale = |cores: u32| if self.log { f64::from(cores).ln() } else { f64::from(cores) };
        (scale(cores) - scale(self.least)) / (scale(self.most) - scale(self.least))
    }

    /// Cores to be written at the axis, about so many.
    fn ticks(&self, about: usize) -> Vec<u32> {
        let span = self.most - self.least;
        if self.log {
            let doublings =
                (0..32).map(|power| 1_u32 << power).filter(|tick| (self.least..=self.most).contains(tick));
            let doublings: Vec<_> = doublings.collect();
            let step = doublings.len().div_ceil(about.max(1)).max(1);
            doublings.into_iter().step_by(step).collect()
        } else {
            let step = (round_up(f64::from(span) / about.max(1) as f64) as u32).max(1);
            let multiples = (self.least.div_ceil(step) * step..=self.most).step_by(step as usize);
            let mut ticks: Vec<_> = multiples.filter(|tick| tick - self.least >= step / 2).collect();
            if ticks.first() != Some(&self.least) {
                ticks.insert(0, self.least);
            }
            ticks
        }
    }
}

/// The least of 1, 2, 5, 10, 20, … that is not under `step`.
fn round_up(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|&round| round >= step * 0.999)
        .unwrap_or(10.0 * power)
}

/// Multiples of a round number from zero to the first that is not under `highest`, about so many.
pub(crate) fn ticks(highest: f64, about: usize) -> Vec<f64> {
    let step = round_up(highest / about.max(1) as f64);
    if !(step > 0.0 && step.is_finite()) {
        return vec![0.0, highest];
    }
    let count = (highest / step * 0.999).ceil().max(1.0) as usize;
    (0..=count).map(|index| index as f64 * step).collect()
}

/// One line of a legend: label, provenance, and the two facts that a curve is looked at for.
fn legend(curve: &Curve) -> (String, String) {
    let name = format!("{}, {}", printable(&curve.label), curve.provenance);
    let Some(peak) = curve.peak() else { return (name, String::new()) };
    let mut facts = format!("peak {} at {}", prefixed_short(peak.value), peak.cores);
    match curve.collapse_cores() {
        Some(collapse) => facts += &format!(", collapsed from {collapse}"),
        None => facts += ", no collapse",
    }
    (name, facts)
}

/// A value with three digits and a prefix.
fn prefixed_short(value: f64) -> String {
    if value == 0.0 || !(0.01..1e15).contains(&value) {
        return prefixed(value);
    }
    let digit = 10_f64.powf(value.log10().floor() - 2.0);
    prefixed((value / digit).round() * digit)
}

/// How a line of some provenance is broken: so much drawn, so much left out; nothing left out is solid.
fn dashes(provenance: Provenance) -> (u32, u32) {
    match provenance {
        Provenance::Measured => (1, 0),
        Provenance::Predicted => (6, 4),
        Provenance::Simulated => (3, 3),
        Provenance::Published => (1, 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn collapsing(label: &str, provenance: Provenance) -> Curve {
        let points = [(1, 1.0), (2, 1.9), (4, 3.4), (6, 4.7), (12, 3.0), (24, 1.1), (48, 0.35)];
        Curve::new(label, Unit::Speedup, provenance)
            .with_points(points.map(|(cores, value)| Point {
                cores,
                value,
                low: 0.9 * value,
                high: 1.1 * value,
            }))
            .unwrap()
    }

    #[test]
    fn ticks_are_round_and_cover() {
        assert_eq!(ticks(4.7, 5), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(ticks(5.0, 5), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(ticks(0.013, 4), [0.0, 0.005, 0.01, 0.015]);
        for highest in [1e-300, 5e-324, 1e300, f64::MAX] {
            assert!(*ticks(highest, 5).last().unwrap() >= 0.99 * highest, "{highest}");
        }
    }

    #[test]
    fn cores_are_written_where_they_are() {
        let axis = |least, most, log| CoresAxis { least, most, log };
        assert_eq!(axis(1, 48, true).ticks(8), [1, 2, 4, 8, 16, 32]);
        assert_eq!(axis(1, 48, false).ticks(5), [1, 10, 20, 30, 40]);
        assert_eq!(axis(1, 4, false).ticks(8), [1, 2, 3, 4]);
        assert_eq!(axis(3, u32::MAX, false).ticks(2)[0], 3);
        assert_eq!(axis(1, 48, true).position(1), 0.0);
        assert_eq!(axis(1, 48, true).position(48), 1.0);
    }

    #[test]
    fn different_units_become_relative_or_are_refused() {
        let absolute = Curve::new("m", Unit::OperationsPerSecond, Provenance::Measured);
        let from_one = absolute.clone().with_points([Point::exact(1, 10.0), Point::exact(2, 5.0)]).unwrap();
        let predicted = collapsing("p", Provenance::Predicted);
        let plot = Plot::new("t", [&from_one, &predicted]).unwrap();
        assert_eq!(plot.curves()[0].at(2).unwrap().value, 0.5);
        let from_two = absolute.with_points([Point::exact(2, 10.0)]).unwrap();
        assert!(Plot::new("t", [&from_two, &predicted]).is_err());
    }

    #[test]
    fn legend_gives_peak_and_collapse() {
        let (name, facts) = legend(&collapsing("a\x1b", Provenance::Predicted));
        assert_eq!(name, "a\\u{1b}, predicted");
        assert_eq!(facts, "peak 4.7 at 6, collapsed from 12");
    }
}
