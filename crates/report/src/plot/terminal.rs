//! A plot in braille dots: two columns and four rows of dots to a character.

use super::{Plot, dashes};
use crate::Screen;
use crate::text::{prefixed, printable};
use curve::axis::CoresAxis;
use curve::{Curve, Point};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// What marks the points of each curve in turn.
const MARKERS: [char; 12] = ['●', '▲', '■', '◆', '○', '△', '□', '◇', '★', '☆', '▼', '▽'];

/// At least so many columns between two markers of a curve.
const MARKER_COLUMNS: usize = 6;

/// The markers where there is nothing but ASCII.
const ASCII_MARKERS: [char; 12] = ['*', 'o', '+', 'x', '#', '@', '%', '&', '=', '~', 'A', 'B'];

/// The widest and the narrowest plot.
const COLUMNS: (usize, usize) = (40, 400);

pub(super) fn draw(plot: &Plot, screen: Screen, rows: usize) -> String {
    let columns = screen.drawing_columns().clamp(COLUMNS.0, COLUMNS.1);
    let marker = |index: usize| {
        let markers = if screen.is_ascii() { ASCII_MARKERS } else { MARKERS };
        markers[index % markers.len()]
    };
    let ticks = plot.value_ticks((rows / 3).max(2));
    let labels: Vec<_> = ticks.iter().map(|&tick| prefixed(tick)).collect();
    let gutter = labels.iter().map(|label| label.width()).max().unwrap_or(0);
    let highest = ticks.last().copied().unwrap_or(1.0);
    let mut canvas = Canvas::new(columns - gutter - 2, rows);
    let axis = plot.cores_axis();
    let scale = Scale { axis, highest, dots_across: 2 * canvas.columns - 1, dots_down: 4 * rows - 1 };
    for curve in &plot.curves {
        canvas.line(&scale, curve);
    }
    let mut bands = canvas.bare();
    for curve in &plot.curves {
        bands.band(&scale, curve);
    }
    canvas.put_under(&bands);
    for (index, curve) in plot.curves.iter().enumerate() {
        canvas.markers(&scale, curve, marker(index));
    }

    let mut drawn = screen.fit(&format!("{}\n", printable(&plot.title)));
    let _ = writeln!(drawn, "{}", plot.unit);
    for row in 0..rows {
        let at_row = |tick: &&f64| scale.down(**tick) / 4 == row;
        let label = ticks.iter().rev().find(at_row).map(|&tick| prefixed(tick));
        let edge = if label.is_some() { '┤' } else { '│' };
        let line =
            format!("{:>gutter$} {edge}{}", label.unwrap_or_default(), canvas.row(row, screen.is_ascii()));
        let _ = writeln!(drawn, "{}", line.trim_end());
    }
    drawn.push_str(&lower_axis(&scale, &plot.axis, gutter, canvas.columns));
    for (index, curve) in plot.curves.iter().enumerate() {
        let (name, facts) = plot.legend(curve);
        drawn.push_str(&screen.fit(&format!("{:gutter$}  {} {name}: {facts}\n", "", marker(index))));
    }
    screen.spell(&drawn).into_owned()
}

/// The axis line with its ticks, and their labels with the axis' name at the right.
fn lower_axis(scale: &Scale, name: &str, gutter: usize, columns: usize) -> String {
    let mut line: Vec<char> = vec!['─'; columns];
    let mut labels = String::new();
    let name = printable(name);
    for tick in scale.axis.ticks(columns / 10) {
        let column = scale.across(tick) / 2;
        let label = tick.to_string();
        let start = column.saturating_sub(label.len() / 2).min(columns - label.len());
        line[column] = '┬';
        let written = labels.width();
        if start > written || start == 0 && written == 0 {
            labels.extend(std::iter::repeat_n(' ', start - written));
            labels.push_str(&label);
        }
    }
    if labels.width() + 2 + name.width() <= columns {
        labels.extend(std::iter::repeat_n(' ', columns - labels.width() - name.width()));
        labels.push_str(&name);
    } else {
        let _ = write!(
            labels,
            "\n{:width$}{name}",
            "",
            width = (gutter + 2 + columns).saturating_sub(name.width())
        );
    }
    format!("{:gutter$} └{}\n{:gutter$}  {labels}\n", "", line.iter().collect::<String>(), "")
}

/// Where points lie, in dots from the top left.
struct Scale {
    axis: CoresAxis,
    highest: f64,
    dots_across: usize,
    dots_down: usize,
}

impl Scale {
    fn across(&self, cores: u32) -> usize {
        (self.axis.position(cores) * self.dots_across as f64).round() as usize
    }

    fn down(&self, value: f64) -> usize {
        let share = (value / self.highest).clamp(0.0, 1.0);
        self.dots_down - (share * self.dots_down as f64).round() as usize
    }
}

/// Dots, and markers that cover them.
struct Canvas {
    columns: usize,
    rows: usize,
    dots: Vec<u8>,
    markers: Vec<Option<char>>,
}

impl Canvas {
    fn new(columns: usize, rows: usize) -> Self {
        Self { columns, rows, dots: vec![0; columns * rows], markers: vec![None; columns * rows] }
    }

    /// A canvas of this size with nothing on it.
    fn bare(&self) -> Self {
        Self::new(self.columns, self.rows)
    }

    /// Shows another canvas of this size wherever this one is empty.
    fn put_under(&mut self, other: &Self) {
        for (dots, &under) in self.dots.iter_mut().zip(&other.dots) {
            if *dots == 0 {
                *dots = under;
            }
        }
    }

    fn dot(&mut self, across: usize, down: usize) {
        /// Bits of the dots of a braille character, by row and column.
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        if across < 2 * self.columns && down < 4 * self.rows {
            self.dots[down / 4 * self.columns + across / 2] |= BITS[down % 4][across % 2];
        }
    }

    /// Visits the dots of the polyline through `points`, neighbours without gaps, with a running number.
    fn path(
        scale: &Scale,
        points: impl Iterator<Item = (u32, f64)>,
        mut visit: impl FnMut(u32, usize, usize),
    ) {
        let mut number = 0;
        let mut last: Option<(usize, usize)> = None;
        for (cores, value) in points {
            let (across, down) = (scale.across(cores), scale.down(value));
            let (from_across, from_down) = last.unwrap_or((across, down));
            let steps = across.abs_diff(from_across).max(down.abs_diff(from_down)).max(1);
            for step in (if last.is_some() { 1 } else { steps })..=steps {
                let share = step as f64 / steps as f64;
                let between = |from: usize, to: usize| {
                    (from as f64 + share * (to as f64 - from as f64)).round() as usize
                };
                visit(number, between(from_across, across), between(from_down, down));
                number += 1;
            }
            last = Some((across, down));
        }
    }

    fn line(&mut self, scale: &Scale, curve: &Curve) {
        let (drawn, gap) = dashes(curve.provenance);
        Self::path(scale, values(curve, |point| point.value), |number, across, down| {
            if number % (drawn + gap) < drawn {
                self.dot(across, down);
            }
        });
    }

    /// One dot to a character between the ends of the ranges.
    fn band(&mut self, scale: &Scale, curve: &Curve) {
        let across_all = 2 * self.columns;
        let mut lowest = vec![0; across_all];
        let mut highest = vec![usize::MAX; across_all];
        Self::path(scale, values(curve, |point| point.low), |_, across, down| {
            lowest[across] = lowest[across].max(down);
        });
        Self::path(scale, values(curve, |point| point.high), |_, across, down| {
            highest[across] = highest[across].min(down);
        });
        for across in 0..across_all {
            if across % 2 == 0 && highest[across] != usize::MAX {
                let between = highest[across]..=lowest[across];
                between.filter(|down| down % 4 == 2).for_each(|down| self.dot(across, down));
            }
        }
    }

    fn markers(&mut self, scale: &Scale, curve: &Curve, marker: char) {
        let mut free_from = 0;
        let last = curve.points().last().map(|point| scale.across(point.cores) / 2);
        for point in curve.points() {
            let column = scale.across(point.cores) / 2;
            if column >= free_from || Some(column) == last {
                self.markers[scale.down(point.value) / 4 * self.columns + column] = Some(marker);
                free_from = column + MARKER_COLUMNS;
            }
        }
    }

    fn row(&self, row: usize, ascii: bool) -> String {
        let character = |index: usize| match (self.markers[index], self.dots[index]) {
            (Some(marker), _) => marker,
            (None, 0) => ' ',
            (None, _) if ascii => '.',
            (None, dots) => char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
        };
        (row * self.columns..(row + 1) * self.columns).map(character).collect()
    }
}

fn values<'a>(curve: &'a Curve, of: impl Fn(&Point) -> f64 + 'a) -> impl Iterator<Item = (u32, f64)> + 'a {
    curve.points().iter().map(move |point| (point.cores, of(point)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::collapsing;
    use super::*;
    use curve::{Provenance, Unit};

    #[test]
    fn a_plot_has_axes_curve_and_legend() {
        let straight = Curve::new("up", Unit::Speedup, Provenance::Measured)
            .with_points((1..=4).map(|cores| Point::exact(cores, f64::from(cores))))
            .unwrap();
        assert_eq!(
            Plot::new("t", [&straight]).unwrap().terminal(Screen::wide(40), 6),
            "\
t
throughput relative to one core
4 ┤                              ⣀⣀⠤⠤⠒⠒●
  │                     ⣀⣀⡠●⠤⠒⠒⠉⠉
2 ┤           ⢀●⡠⠤⠤⠒⠒⠊⠉⠉
  │   ⢀⣀⡠⠤⠔⠒⠊⠉⠁
  │●⠊⠉⠁
0 ┤
  └┬───────────┬───────────┬───────────┬
   1           2           3           4
                                   cores
   ● up, measured: peak 4 at 4, no
   collapse
"
        );
    }

    #[test]
    fn an_ascii_plot_is_ascii() {
        let curves = [collapsing("ticket", Provenance::Predicted), collapsing("mcs", Provenance::Measured)];
        let drawn = Plot::new("t", &curves).unwrap().terminal(Screen::wide(60).ascii(), 10);
        assert!(
            drawn.is_ascii() && drawn.contains("* ticket, predicted") && drawn.contains("o mcs"),
            "{drawn}"
        );
    }

    #[test]
    fn nothing_is_wider_than_asked() {
        let curves = [collapsing("ticket", Provenance::Predicted), collapsing("mcs", Provenance::Measured)];
        for (columns, rows) in [(0, 0), (40, 6), (80, 20), (211, 50)] {
            for log in [false, true] {
                let drawn =
                    Plot::new("t", &curves).unwrap().log_cores(log).terminal(Screen::wide(columns), rows);
                let plot_lines = drawn.lines().filter(|line| line.contains(['│', '┤', '└']));
                assert!(plot_lines.clone().all(|line| line.width() <= columns.max(40)), "{drawn}");
                assert_eq!(plot_lines.count(), rows.max(6) + 1);
            }
        }
    }

    #[test]
    fn curves_at_the_extremes_are_drawn() {
        let of = |points: Vec<Point>| {
            Curve::new("\x1b[2J", Unit::Speedup, Provenance::Published).with_points(points).unwrap()
        };
        for curve in [
            of(vec![]),
            of(vec![Point::exact(u32::MAX - 1, 0.0)]),
            of(vec![Point::exact(1, f64::MAX), Point::exact(u32::MAX - 1, 5e-324)]),
        ] {
            let drawn = Plot::new("\x1b[2J", [&curve]).unwrap().terminal(Screen::wide(60), 10);
            assert!(!drawn.contains('\x1b'));
        }
    }
}
