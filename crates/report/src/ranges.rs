//! Medians and ranges under one another, for a terminal or as SVG: one row for each thing compared.

use crate::plot::svg::{Area, DrawResult, INK, WIDTH, colour, document, font, shortened};
use crate::text::{prefixed, printable, short};
use crate::{Screen, Spread};
use curve::axis::ticks;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr as _;

const ROW_HEIGHT: i32 = 30;
const TOP: i32 = 56;
const BOTTOM: i32 = 60;
/// Where the values begin and end.
const LEFT: i32 = 220;
const RIGHT: i32 = WIDTH as i32 - 40;
const LABEL_CHARACTERS: usize = 28;

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
        let height = TOP + BOTTOM + ROW_HEIGHT * self.rows.len() as i32;
        document(&self.title, (WIDTH, height as u32), |area| self.draw_on(area))
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

    fn draw_on(&self, area: &Area<'_>) -> DrawResult {
        let highest = self.rows.iter().filter_map(|(_, spread)| spread.map(|s| s.high)).fold(0.0, f64::max);
        let ticks = ticks(if highest > 0.0 { highest } else { 1.0 }, 8);
        let last = ticks.last().copied().unwrap_or(1.0);
        let across = |value: f64| LEFT + (value / last * f64::from(RIGHT - LEFT)).round() as i32;
        let bottom = TOP + ROW_HEIGHT * self.rows.len() as i32;

        let under = font(14).pos(Pos::new(HPos::Center, VPos::Top));
        for &tick in &ticks {
            area.draw(&PathElement::new([(across(tick), TOP), (across(tick), bottom)], INK.mix(0.14)))?;
            area.draw(&Text::new(prefixed(tick), (across(tick), bottom + 6), under.clone()))?;
        }
        let axis_at = (i32::midpoint(LEFT, RIGHT), bottom + 30);
        area.draw(&Text::new(
            printable(&self.axis),
            axis_at,
            font(15).pos(Pos::new(HPos::Center, VPos::Top)),
        ))?;
        let (direction, at) = match self.better {
            Better::Lower => ("◀ lower is better", Pos::new(HPos::Left, VPos::Top)),
            Better::Higher => ("higher is better ▶", Pos::new(HPos::Right, VPos::Top)),
        };
        let end = if self.better == Better::Lower { LEFT } else { RIGHT };
        area.draw(&Text::new(direction, (end, bottom + 30), font(14).pos(at)))?;
        if let Some((_, Some(reference))) = self.rows.first() {
            let x = across(reference.median);
            for y in (TOP..bottom).step_by(9) {
                area.draw(&PathElement::new([(x, y), (x, (y + 5).min(bottom))], INK.mix(0.5)))?;
            }
        }

        let beside = font(14).pos(Pos::new(HPos::Right, VPos::Center));
        for (index, (label, values)) in self.rows.iter().enumerate() {
            let y = TOP + ROW_HEIGHT * index as i32 + ROW_HEIGHT / 2;
            let label = shortened(&printable(label), LABEL_CHARACTERS);
            area.draw(&Text::new(label, (LEFT - 14, y), beside.clone()))?;
            let Some(Spread { low, median, high }) = *values else {
                let inside = font(13).pos(Pos::new(HPos::Left, VPos::Center));
                area.draw(&Text::new("no value", (LEFT + 8, y), inside))?;
                continue;
            };
            let range = [(across(low), y - 5), (across(high).max(across(low) + 1), y + 5)];
            area.draw(&Rectangle::new(range, colour(0).mix(0.3).filled()))?;
            area.draw(&Circle::new((across(median), y), 5, colour(0).filled()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let drawn = plot.terminal(Screen::wide(60).ascii());
        let bars: Vec<_> = drawn.lines().skip(2).collect();
        assert_eq!(bars[0].find('*'), Some(37), "{drawn}");
        assert!(bars[0].ends_with('-') && bars[0].len() == 60 && bars[1].ends_with("no value"), "{drawn}");
        assert!(RangePlot::new("", "", Better::Higher).svg().contains("higher is better"));
    }
}
