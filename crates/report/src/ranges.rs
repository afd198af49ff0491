//! Medians and ranges under one another, for a terminal or as SVG: one row for each thing compared.

use crate::plot::svg::{Area, DrawResult, INK, WIDTH, colour, document, font, picture, shortened};
use crate::text::{prefixed, printable, short};
use crate::{Screen, Spread};
use curve::axis::ticks;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr as _;

const ROW_HEIGHT: i32 = 30;
const LABEL_CHARACTERS: usize = 28;

/// Where things lie in a picture, in points of the screen.
struct Layout {
    width: i32,
    top: i32,
    /// Where the values begin.
    left: i32,
    /// What is free behind the values.
    margin: i32,
    letters: u32,
    ticks: usize,
    label_characters: usize,
    /// How far under the axis the direction is written: on a line of its own where the picture is narrow.
    direction_at: i32,
}

impl Layout {
    const WIDE: Self = Self {
        width: WIDTH as i32,
        top: 56,
        left: 220,
        margin: 40,
        letters: 14,
        ticks: 8,
        label_characters: LABEL_CHARACTERS,
        direction_at: 30,
    };

    /// As wide as a phone, so that letters have their size there; without the title, which the page has.
    const NARROW: Self = Self {
        width: 366,
        top: 6,
        left: 140,
        margin: 20,
        letters: 14,
        ticks: 3,
        label_characters: 19,
        direction_at: 48,
    };

    fn right(&self) -> i32 {
        self.width - self.margin
    }
}

/// Which values of a plot are the better ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The lower ones: times and costs.
    Lower,
    /// The higher ones: throughput.
    Higher,
}

/// A plot of medians and their ranges. The axis starts at zero; a broken line marks the first row's median, which the
/// others are compared with.
#[derive(Debug, Clone)]
pub struct RangePlot {
    title: String,
    axis: String,
    better: Better,
    rows: Vec<(String, Option<Spread>)>,
}

impl RangePlot {
    /// A plot without rows; `axis` says what the values are, with their unit, and `better` which way to look.
    pub fn new(title: impl Into<String>, axis: impl Into<String>, better: Better) -> Self {
        Self { title: title.into(), axis: axis.into(), better, rows: Vec::new() }
    }

    /// Adds a row; one without a value says so.
    pub fn row(&mut self, label: impl Into<String>, values: Option<Spread>) {
        let drawable = |spread: &Spread| {
            [spread.low, spread.median, spread.high].iter().all(|value| value.is_finite() && *value >= 0.0)
        };
        self.rows.push((label.into(), values.filter(drawable)));
    }

    /// An SVG document that needs nothing else, and follows the reader's choice of light or dark.
    pub fn svg(&self) -> String {
        let layout = Layout::WIDE;
        document(&self.title, self.size(&layout), |area| self.draw_on(area, &layout))
    }

    /// The same for a page on a phone, which has the title elsewhere.
    pub(crate) fn narrow_svg(&self) -> String {
        let layout = Layout::NARROW;
        picture(&self.title, self.size(&layout), |area| self.draw_on(area, &layout))
    }

    fn size(&self, layout: &Layout) -> (u32, u32) {
        let height = layout.top + ROW_HEIGHT * self.rows.len() as i32 + layout.direction_at + 30;
        (layout.width as u32, height as u32)
    }

    /// Rows of bars for a screen: each from the least to the greatest value, with a mark at the median.
    pub fn terminal(&self, screen: Screen) -> String {
        /// A bar is so wide at least, and a label at most.
        const BAR: usize = 20;
        let columns = screen.drawing_columns().clamp(BAR + LABEL_CHARACTERS + 10, 120);
        let labels: Vec<String> =
            self.rows.iter().map(|(label, _)| shortened(&printable(label), LABEL_CHARACTERS)).collect();
        let gutter = labels.iter().map(|label| label.width()).max().unwrap_or(0);
        let room = columns - gutter - 10;
        let highest = self.rows.iter().filter_map(|(_, spread)| spread.map(|s| s.high)).fold(0.0, f64::max);
        let across =
            |value: f64| (value / highest.max(f64::MIN_POSITIVE) * (room - 1) as f64).round() as usize;
        let mut drawn = format!("{}\n{}\n", printable(&self.title), printable(&self.axis));
        for (label, (_, spread)) in labels.iter().zip(&self.rows) {
            let padding = " ".repeat(gutter - label.width());
            let _ = match spread {
                None => writeln!(drawn, "{label}{padding}  no value"),
                Some(Spread { low, median, high }) => {
                    let mut bar = vec![' '; room];
                    bar[across(*low)..=across(*high)].fill('─');
                    bar[across(*median)] = if screen.is_ascii() { '*' } else { '●' };
                    let bar: String = bar.into_iter().collect();
                    writeln!(drawn, "{label}{padding} {:>7}  {}", short(*median), bar.trim_end())
                }
            };
        }
        screen.spell(&drawn).into_owned()
    }

    fn draw_on(&self, area: &Area<'_>, layout: &Layout) -> DrawResult {
        let (top, left, right) = (layout.top, layout.left, layout.right());
        let highest = self.rows.iter().filter_map(|(_, spread)| spread.map(|s| s.high)).fold(0.0, f64::max);
        let ticks = ticks(if highest > 0.0 { highest } else { 1.0 }, layout.ticks);
        let last = ticks.last().copied().unwrap_or(1.0);
        let across = |value: f64| left + (value / last * f64::from(right - left)).round() as i32;
        let bottom = top + ROW_HEIGHT * self.rows.len() as i32;

        let under = font(layout.letters).pos(Pos::new(HPos::Center, VPos::Top));
        for &tick in &ticks {
            area.draw(&PathElement::new([(across(tick), top), (across(tick), bottom)], INK.mix(0.14)))?;
            area.draw(&Text::new(tick_label(tick, last), (across(tick), bottom + 6), under.clone()))?;
        }
        let axis_at = (i32::midpoint(left, right), bottom + 30);
        area.draw(&Text::new(
            printable(&self.axis),
            axis_at,
            font(layout.letters + 1).pos(Pos::new(HPos::Center, VPos::Top)),
        ))?;
        let (direction, at) = match self.better {
            Better::Lower => ("◀ lower is better", Pos::new(HPos::Left, VPos::Top)),
            Better::Higher => ("higher is better ▶", Pos::new(HPos::Right, VPos::Top)),
        };
        let end = if self.better == Better::Lower { left } else { right };
        area.draw(&Text::new(direction, (end, bottom + layout.direction_at), font(layout.letters).pos(at)))?;
        if let Some((_, Some(reference))) = self.rows.first() {
            let x = across(reference.median);
            for y in (top..bottom).step_by(9) {
                area.draw(&PathElement::new([(x, y), (x, (y + 5).min(bottom))], INK.mix(0.5)))?;
            }
        }

        let beside = font(layout.letters).pos(Pos::new(HPos::Right, VPos::Center));
        for (index, (label, values)) in self.rows.iter().enumerate() {
            let y = top + ROW_HEIGHT * index as i32 + ROW_HEIGHT / 2;
            let label = shortened(&printable(label), layout.label_characters);
            area.draw(&Text::new(label, (left - 10, y), beside.clone()))?;
            let Some(Spread { low, median, high }) = *values else {
                let inside = font(layout.letters - 1).pos(Pos::new(HPos::Left, VPos::Center));
                area.draw(&Text::new("no value", (left + 8, y), inside))?;
                continue;
            };
            let range = [(across(low), y - 5), (across(high).max(across(low) + 1), y + 5)];
            area.draw(&Rectangle::new(range, colour(0).mix(0.45).filled()))?;
            area.draw(&Circle::new((across(median), y), 5, colour(0).filled()))?;
        }
        Ok(())
    }
}

/// What is written at a tick: beside hundredths, thousandths are no power of ten.
fn tick_label(tick: f64, last: f64) -> String {
    if tick >= 0.01 || tick == 0.0 || last < 0.01 {
        return prefixed(tick);
    }
    format!("{tick:.4}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_one_axis_are_written_alike() {
        assert_eq!([0.0, 0.005, 0.01].map(|tick| tick_label(tick, 0.01)), ["0", "0.005", "0.01"]);
        assert_eq!([0.0025, 1e-6].map(|tick| tick_label(tick, tick * 4.0)), ["0.0025", "1.0e-6"]);
    }

    #[test]
    fn rows_with_and_without_values_are_drawn() {
        let mut plot = RangePlot::new("t <b>", "time s", Better::Lower);
        plot.row("glibc", Some(Spread { low: 1.0, median: 1.5, high: 4.0 }));
        plot.row("</svg><script>", None);
        plot.row("nonsense", Some(Spread { low: -1.0, median: f64::NAN, high: f64::INFINITY }));
        let svg = plot.svg();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert_eq!(svg.matches("no value").count(), 2);
        assert!(!svg.contains("<script") && svg.matches("</svg>").count() == 1);
        assert!(svg.contains("lower is better"));
        let narrow = plot.narrow_svg();
        assert!(narrow.contains(" width=\"366\"") && narrow.contains("lower is better"), "{narrow}");
        assert_eq!((narrow.matches("<circle").count(), narrow.matches("no value").count()), (1, 2));
        let drawn = plot.terminal(Screen::wide(60).ascii());
        let bars: Vec<_> = drawn.lines().skip(2).collect();
        assert_eq!(bars[0].find('*'), Some(37), "{drawn}");
        assert!(bars[0].ends_with('-') && bars[0].len() == 60 && bars[1].ends_with("no value"), "{drawn}");
        assert!(RangePlot::new("", "", Better::Higher).svg().contains("higher is better"));
    }
}
