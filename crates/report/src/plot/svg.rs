//! A plot as SVG.

use super::{Plot, dashes};
use crate::text::{html, prefixed, printable};
use curve::{Curve, Provenance};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::IntoDynElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Serialize;
use std::ops::Range;

/// Of every document of curves or ranges.
pub(crate) const WIDTH: u32 = 920;
/// At least so high; more where the legend needs it.
const HEIGHT: u32 = 460;
const LEGEND_STEP: u32 = 44;
/// The strip at the right that holds the legend.
const LEGEND_WIDTH: u32 = 290;
/// The length of a curve's line in a legend.
const KEY_WIDTH: u32 = 34;
/// Characters that fit into the legend: of the names, and of the smaller print.
const LEGEND_CHARACTERS: [usize; 2] = [32, 40];
/// At least this many points of the screen between two markers of a curve.
const MARKER_DISTANCE: f64 = 24.0;

/// The size of the letters at the axes; on a page, where a phone shows the picture at three quarters of its size.
const LETTERS: u32 = 14;
const PAGE_LETTERS: u32 = 17;

/// Half the size of the marks of peak and collapse: they are seen around a marker.
const MARK: i32 = 8;

/// With more curves that have ranges than this, each range is a bar at a marker: many bands are one grey.
const MOST_BANDS: usize = 2;

/// Okabe and Ito's colours that can be told apart by everyone, without the yellow that is lost on white.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Stands for the colour of text and axes, which the style sheet chooses.
pub(crate) const INK: RGBColor = RGBColor(1, 2, 3);
const INK_ATTRIBUTE: &str = "\"#010203\"";

/// Colours of paper and ink for both kinds of reader.
pub(crate) const STYLE: &str = ".contend-plot{color:#222}.contend-plot .paper{fill:#fff}\
    @media(prefers-color-scheme:dark){.contend-plot{color:#ddd}.contend-plot .paper{fill:#181818}}";
const PAPER: &str = "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";

pub(super) fn draw(plot: &Plot) -> String {
    let height = HEIGHT.max(60 + LEGEND_STEP * plot.curves.len() as u32);
    document(&plot.title, (WIDTH, height), |area| draw_on(plot, area))
}

/// The chart of a page, without title and legend, so narrow that it is read on a phone.
pub(super) fn draw_without_legend(plot: &Plot) -> String {
    const SIZE: (u32, u32) = (480, 340);
    picture(&plot.title, SIZE, |area| draw_chart(plot, &area.margin(6, 6, 6, 6), PAGE_LETTERS))
}

/// How a curve is drawn, in a legend.
pub(super) fn key(plot: &Plot, index: usize) -> String {
    const HEIGHT: u32 = 14;
    let key = drawn((KEY_WIDTH, HEIGHT), |area| draw_key(plot, index, HEIGHT as i32 / 2, area));
    key.replacen("<svg ", "<svg aria-hidden=\"true\" ", 1)
}

/// A document of this width and height with a title: shown at the top, and told to readers that cannot see it. Its colours
/// follow the reader's choice.
pub(crate) fn document(title: &str, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> DrawResult) -> String {
    picture(title, size, |area| {
        let centred = font(19).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(printable(title), (size.0 as i32 / 2, 12), centred))?;
        draw(area)
    })
}

/// The same with a title that is not shown.
pub(crate) fn picture(title: &str, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> DrawResult) -> String {
    let drawn = drawn(size, draw);
    let (root, body) = drawn.split_once('>').expect("an SVG document has a root");
    let name = html(title);
    let coloured = body.replace(INK_ATTRIBUTE, "\"currentColor\"");
    format!(
        "{root} class=\"contend-plot\" role=\"img\" aria-label=\"{name}\">\n<title>{name}</title>\n\
         <style>{STYLE}</style>\n{PAPER}{coloured}"
    )
}

fn drawn(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> DrawResult) -> String {
    let mut drawn = String::new();
    {
        let area = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
        draw(&area)
            .and_then(|()| area.present())
            // A string takes whatever is written; plotters' error type has no other source here.
            .expect("drawing into memory cannot fail");
    }
    drawn
}

/// Where a document is drawn on, by points of the screen.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
/// What drawing gives.
pub(crate) type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Letters of this size in the colour of ink.
pub(crate) fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// How many colours there are before they repeat.
pub(crate) const fn colours() -> usize {
    COLOURS.len()
}

/// The colour of the curve with this number.
pub(crate) fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

fn draw_on(plot: &Plot, area: &Area<'_>) -> DrawResult {
    let (chart_area, legend_area) = area.margin(38, 6, 6, 6).split_horizontally(WIDTH - LEGEND_WIDTH);
    draw_chart(plot, &chart_area, LETTERS)?;
    draw_legend(plot, &legend_area)
}

fn draw_chart(plot: &Plot, area: &Area<'_>, letters: u32) -> DrawResult {
    let axis = plot.cores_axis();
    let ticks = plot.value_ticks(6);
    let highest = ticks.last().copied().unwrap_or(1.0);
    // The axes run over shares, so that any range of values can be drawn.
    let share = |value: f64| (value / highest).clamp(0.0, 1.0);
    let mut chart = ChartBuilder::on(area)
        .margin_right(12)
        .margin_top(6)
        .x_label_area_size(46)
        .y_label_area_size(72)
        .build_cartesian_2d(
            Axis(axis.ticks(10).iter().map(|&tick| (axis.position(tick), tick.to_string())).collect()),
            Axis(ticks.iter().map(|&tick| (share(tick), prefixed(tick))).collect()),
        )?;
    chart
        .configure_mesh()
        .x_desc(printable(&plot.axis))
        .y_desc(plot.unit.to_string())
        .axis_style(INK.mix(0.6))
        .bold_line_style(INK.mix(0.14))
        .light_line_style(TRANSPARENT)
        .label_style(font(letters))
        .axis_desc_style(font(letters + 1))
        .draw()?;

    let with_ranges = plot.curves.iter().filter(|curve| has_ranges(curve)).count();
    for (index, curve) in plot.curves.iter().enumerate() {
        let at = |of: fn(&curve::Point) -> f64| -> Vec<(f64, f64)> {
            curve.points().iter().map(|point| (axis.position(point.cores), share(of(point)))).collect()
        };
        let line = at(|point| point.value);
        let (lows, highs) = (at(|point| point.low), at(|point| point.high));
        if has_ranges(curve) && with_ranges <= MOST_BANDS {
            let outline = lows.iter().copied().chain(highs.iter().copied().rev()).collect::<Vec<_>>();
            chart.draw_series(std::iter::once(Polygon::new(outline, colour(index).mix(0.16))))?;
        }
        let style = line_style(plot, index);
        match dashes(curve.provenance) {
            (_, 0) => chart.draw_series(LineSeries::new(line.clone(), style))?,
            (drawn, gap) => {
                chart.draw_series(DashedLineSeries::new(line.clone(), 2 * drawn, 2 * gap, style))?
            }
        };
        let (width, height) = chart.plotting_area().dim_in_pixel();
        let screen = |point: (f64, f64)| (point.0 * f64::from(width), point.1 * f64::from(height));
        for place in apart(&line, screen) {
            if has_ranges(curve) && with_ranges > MOST_BANDS {
                let range =
                    [lows[place], highs[place]].map(|(x, y)| (x, (y - line[place].1) * f64::from(height)));
                chart.plotting_area().draw(&range_bar(
                    line[place],
                    range.map(|(_, y)| -y.round() as i32),
                    index,
                ))?;
            }
            chart.plotting_area().draw(&marker(line[place], index, curve.provenance))?;
        }
        let place = |point: curve::Point| (axis.position(point.cores), share(point.value));
        if let Some(peak) = curve.peak().filter(|peak| Some(peak) != curve.points().last()) {
            chart.plotting_area().draw(&ring(place(peak), index))?;
        }
        if let Some(collapsed) = curve.collapse_cores().and_then(|cores| curve.at(cores)) {
            chart.plotting_area().draw(&cross(place(collapsed), index))?;
        }
    }
    Ok(())
}

/// Marks the peak of a curve that goes on behind it.
fn ring<'a, C: Clone + 'a>(at: C, index: usize) -> DynElement<'a, SVGBackend<'a>, C> {
    (EmptyElement::at(at) + Circle::new((0, 0), MARK, colour(index).stroke_width(2))).into_dyn()
}

/// Marks the first point at which a curve has collapsed.
fn cross<'a, C: Clone + 'a>(at: C, index: usize) -> DynElement<'a, SVGBackend<'a>, C> {
    let stroke =
        |up: i32| PathElement::new([(-MARK, -up * MARK), (MARK, up * MARK)], colour(index).stroke_width(2));
    (EmptyElement::at(at) + stroke(1) + stroke(-1)).into_dyn()
}

/// An axis from 0 to 1, with its ticks and what is written at them.
struct Axis(Vec<(f64, String)>);

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        start + (value * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.0.iter().map(|(position, _)| *position).collect()
    }

    fn range(&self) -> Range<f64> {
        0.0..1.0
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.0
            .iter()
            .find(|(position, _)| position == value)
            .map(|(_, label)| label.clone())
            .unwrap_or_default()
    }
}

/// The places of the points that markers are set at: the first, the last, and those between that keep their distance on
/// screen.
fn apart(points: &[(f64, f64)], screen: impl Fn((f64, f64)) -> (f64, f64)) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for (place, &point) in points.iter().enumerate() {
        let far = kept.last().is_none_or(|&last| {
            let ((x, y), (last_x, last_y)) = (screen(point), screen(points[last]));
            (x - last_x).hypot(y - last_y) >= MARKER_DISTANCE
        });
        if far || place + 1 == points.len() {
            kept.push(place);
        }
    }
    kept
}

fn has_ranges(curve: &Curve) -> bool {
    curve.points().iter().any(|point| point.low < point.high)
}

/// The range of a point as a bar, where bands would lie over each other. `ends` are points of the screen below and above the
/// value. The bars of the curves stand beside each other.
fn range_bar<'a, C: Clone + 'a>(at: C, ends: [i32; 2], index: usize) -> DynElement<'a, SVGBackend<'a>, C> {
    const BESIDE: [i32; 6] = [0, -3, 3, -6, 6, 9];
    let across = BESIDE[index % BESIDE.len()];
    let style = colour(index).mix(0.7).stroke_width(1);
    let cap = |down: i32| PathElement::new([(across - 2, down), (across + 2, down)], style);
    let bar = PathElement::new([(across, ends[0]), (across, ends[1])], style);
    (EmptyElement::at(at) + bar + cap(ends[0]) + cap(ends[1])).into_dyn()
}

/// The marker of a curve: its shape says which curve, filled says measured.
fn marker<'a, C: Clone + 'a>(
    at: C,
    index: usize,
    provenance: Provenance,
) -> DynElement<'a, SVGBackend<'a>, C> {
    let shape = shape(index);
    match provenance {
        Provenance::Measured => {
            (EmptyElement::at(at) + Polygon::new(shape, colour(index).filled())).into_dyn()
        }
        _ => (EmptyElement::at(at) + PathElement::new(shape, colour(index).stroke_width(1))).into_dyn(),
    }
}

fn shape(index: usize) -> &'static [(i32, i32)] {
    match index % 4 {
        0 => &[(-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2), (-4, -2), (-2, -4)],
        1 => &[(0, -5), (5, 4), (-5, 4), (0, -5)],
        2 => &[(-4, -4), (4, -4), (4, 4), (-4, 4), (-4, -4)],
        _ => &[(0, -5), (5, 0), (0, 5), (-5, 0), (0, -5)],
    }
}

/// How a page's script draws a curve: as it is drawn here.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Look {
    colour: String,
    width: u32,
    /// Empty for a solid line.
    dashes: String,
    marker: &'static [(i32, i32)],
    filled: bool,
    /// Whether its range is a band, rather than bars.
    band: bool,
}

pub(super) fn look(plot: &Plot, index: usize) -> Look {
    let provenance = plot.curves[index].provenance;
    let RGBColor(red, green, blue) = colour(index);
    let with_ranges = plot.curves.iter().filter(|curve| has_ranges(curve)).count();
    Look {
        colour: format!("#{red:02x}{green:02x}{blue:02x}"),
        width: line_style(plot, index).stroke_width,
        dashes: match dashes(provenance) {
            (_, 0) => String::new(),
            (drawn, gap) => format!("{} {}", 2 * drawn, 2 * gap),
        },
        marker: shape(index),
        filled: provenance == Provenance::Measured,
        band: plot.is_bold(index) || with_ranges <= MOST_BANDS,
    }
}

fn draw_legend(plot: &Plot, area: &Area<'_>) -> DrawResult {
    for (index, curve) in plot.curves.iter().enumerate() {
        let top = (16 + LEGEND_STEP * index as u32) as i32;
        draw_key(plot, index, top, area)?;
        let (name, facts) = plot.legend(curve);
        area.draw(&Text::new(shortened(&name, LEGEND_CHARACTERS[0]), (42, top - 6), font(14)))?;
        area.draw(&Text::new(shortened(&facts, LEGEND_CHARACTERS[1]), (42, top + 11), font(12)))?;
    }
    Ok(())
}

/// The line and the marker of a curve, at this height.
fn draw_key(plot: &Plot, index: usize, top: i32, area: &Area<'_>) -> DrawResult {
    let provenance = plot.curves[index].provenance;
    let style = line_style(plot, index);
    let (drawn, gap) = dashes(provenance);
    for start in (0..KEY_WIDTH as i32).step_by((2 * (drawn + gap)) as usize) {
        let end = (start + 2 * drawn as i32).min(KEY_WIDTH as i32);
        area.draw(&PathElement::new([(start, top), (end, top)], style))?;
    }
    area.draw(&marker((KEY_WIDTH as i32 / 2, top), index, provenance))
}

fn line_style(plot: &Plot, index: usize) -> ShapeStyle {
    colour(index).stroke_width(if plot.is_bold(index) { 4 } else { 2 })
}

/// A label cut to so many characters.
pub(crate) fn shortened(label: &str, characters: usize) -> String {
    if label.chars().count() <= characters {
        return label.to_owned();
    }
    label.chars().take(characters - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::collapsing;
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        let hostile = "</text><script>alert(1)</script>&\u{0}\u{1b}";
        let curve = collapsing(hostile, Provenance::Measured);
        let svg = Plot::new(hostile, [&curve]).unwrap().axis(hostile).svg();
        assert!(!svg.contains("<script") && !svg.contains(['\u{0}', '\u{1b}']), "{svg}");
        assert!(svg.contains("&lt;script&gt;"));
    }

    #[test]
    fn a_plot_needs_nothing_else() {
        let curves = [Provenance::Measured, Provenance::Predicted].map(|from| collapsing("ticket", from));
        let svg = Plot::new("t", &curves).unwrap().svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("http").count(), 1, "the name space alone");
        assert!(!svg.contains(INK_ATTRIBUTE));
    }

    #[test]
    fn peak_and_collapse_are_marked() {
        let falling = collapsing("a", Provenance::Measured);
        let of = |points: &[curve::Point]| falling.clone().with_points(points.to_vec()).unwrap();
        let marks = |curve: &Curve| {
            let svg = Plot::new("t", [curve]).unwrap().svg();
            let bold = |line: &&str| line.starts_with("<polyline") && line.contains("stroke-width=\"2\"");
            (svg.matches("<circle").count(), svg.lines().filter(bold).count())
        };
        let line_and_legend = marks(&of(&falling.points()[..4])).1;
        assert_eq!(marks(&of(&falling.points()[..4])).0, 0, "it still rises at its last point");
        assert_eq!(marks(&falling), (1, line_and_legend + 2));
    }

    #[test]
    fn two_ranges_are_bands_and_more_are_bars() {
        let curves = ["a", "b", "c"].map(|label| collapsing(label, Provenance::Measured));
        let polygons = |curves: &[Curve]| Plot::new("t", curves).unwrap().svg().matches("<polygon").count();
        let markers = polygons(&curves[..1]) - 1;
        assert_eq!(polygons(&curves[..2]), 2 * markers + 2);
        assert_eq!(polygons(&curves), 3 * markers, "no band");
    }

    #[test]
    fn few_or_extreme_points_are_drawn() {
        let curve = |points: Vec<curve::Point>| {
            Curve::new("c", curve::Unit::Speedup, Provenance::Published).with_points(points).unwrap()
        };
        let point = curve::Point::exact;
        for curve in
            [curve(vec![]), curve(vec![point(7, 0.0)]), curve(vec![point(1, f64::MAX), point(u32::MAX, 1.0)])]
        {
            assert!(Plot::new("", [&curve]).unwrap().svg().contains("</svg>"));
        }
    }
}
