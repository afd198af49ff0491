//! Curves on one pair of axes, for a terminal or as SVG.

pub(crate) mod svg;
mod terminal;

use crate::Screen;
use crate::page;
use crate::text::{prefixed, printable};
use curve::axis::{CoresAxis, value_ticks};
use curve::{Curve, Provenance, Unit};
use serde::Serialize;

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
    bold_first: bool,
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
        Ok(Self {
            title: title.into(),
            axis: "cores".into(),
            unit: plotted,
            curves,
            log_cores: None,
            bold_first: false,
        })
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

    /// Draws the first curve in bold: the one that the others are compared with. The legend says nothing of collapses then: the verdict
    /// stands beside such a plot, and knows how likely each is.
    #[must_use]
    pub fn bold_first(mut self) -> Self {
        self.bold_first = true;
        self
    }

    /// Whether the lower axis is logarithmic.
    pub fn is_log(&self) -> bool {
        self.cores_axis().is_log()
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

    /// The same for a page, which has the title and [`Plot::html_legend`] beside it, in letters that are read on a phone.
    pub(crate) fn svg_without_legend(&self) -> String {
        svg::draw_without_legend(self)
    }

    /// The legend as a list of HTML, whose lines are broken where the page is narrow.
    pub(crate) fn html_legend(&self) -> String {
        let line = |(number, curve): (usize, &Curve)| {
            let (name, facts) = self.legend(curve);
            let name = page::name(&name);
            let name = if self.is_bold(number) { format!("<b>{name}</b>") } else { name };
            format!("<li>{} {name} <span>{}</span></li>\n", svg::key(self, number), page::name(&facts))
        };
        let lines: String = self.curves.iter().enumerate().map(line).collect();
        format!("<ul class=\"legend\">\n{lines}</ul>\n")
    }

    /// What a page's script draws the plot from, with the curve of a change in it; nothing for a plot that has no baseline, or whose
    /// curves are no speedups, which the answers of sliders are.
    pub(crate) fn to_draw(&self) -> Option<ToDraw<'_>> {
        let can_be_changed = self.bold_first && self.unit == Unit::Speedup && !self.curves.is_empty();
        let looks = (0..self.curves.len()).map(|number| svg::look(self, number));
        can_be_changed.then(|| ToDraw { axis: &self.axis, curves: &self.curves, looks: looks.collect() })
    }

    /// One line of a legend: label, provenance, and the two facts that a curve is looked at for.
    fn legend(&self, curve: &Curve) -> (String, String) {
        let name = format!("{}, {}", printable(&curve.label), curve.provenance);
        let Some(peak) = curve.peak() else { return (name, String::new()) };
        let mut facts = format!("peak {} at {}", prefixed_short(peak.value), peak.cores);
        match curve.collapse_cores().filter(|_| !self.bold_first) {
            Some(collapse) => facts += &format!(", collapsed from {collapse}"),
            None if self.bold_first => {}
            None => facts += ", no collapse",
        }
        (name, facts)
    }

    fn is_bold(&self, number: usize) -> bool {
        self.bold_first && number == 0
    }

    fn cores_axis(&self) -> CoresAxis {
        CoresAxis::of(&self.curves, self.log_cores)
    }

    fn value_ticks(&self, about: usize) -> Vec<f64> {
        value_ticks(&self.curves, about)
    }
}

/// A plot as a page's script takes it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ToDraw<'a> {
    axis: &'a str,
    curves: &'a [Curve],
    looks: Vec<svg::Look>,
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
    use curve::Point;

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
        let curve = collapsing("a\x1b", Provenance::Predicted);
        let plot = Plot::new("t", [&curve]).unwrap();
        let (name, facts) = plot.legend(&curve);
        assert_eq!(name, "a\\u{1b}, predicted");
        assert_eq!(facts, "peak 4.7 at 6, collapsed from 12");
        assert_eq!(plot.bold_first().legend(&curve).1, "peak 4.7 at 6", "the verdict says the rest");
    }
}
