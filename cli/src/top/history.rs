//! What each lock did in the last minute.

use super::sort::Sort;
use profile::read::live::{LiveTable, LockUse};
use std::collections::{HashMap, VecDeque};

/// How far back it goes, ns.
const SPAN_NS: f64 = 60e9;

/// Heights of a cell, least first: nothing, then eighths.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same where there is nothing but ASCII.
const ASCII_BARS: [char; 6] = [' ', '.', ':', '-', '=', '#'];

/// The figure that rows are ordered by, of each lock and way of using it, at each look of the last minute.
#[derive(Debug, Default)]
pub(super) struct History {
    /// By the time since the recording began, ns.
    figures: HashMap<LockUse, VecDeque<(f64, f64)>>,
    now_ns: f64,
    of: Option<Sort>,
}

impl History {
    /// Adds a look. Figures of another order than before begin anew.
    pub(super) fn add(&mut self, table: &LiveTable, sort: Sort) {
        if self.of.replace(sort) != Some(sort) {
            self.figures.clear();
        }
        self.now_ns = table.header.elapsed_ns;
        // The whole run is no figure of a moment.
        if !table.header.whole_run {
            for row in table.rows.iter().filter(|row| sort.figure(row) > 0.0) {
                self.figures.entry(row.id).or_default().push_back((self.now_ns, sort.figure(row)));
            }
        }
        let first_ns = self.now_ns - SPAN_NS;
        self.figures.retain(|_, figures| {
            while figures.front().is_some_and(|&(at_ns, _)| at_ns <= first_ns) {
                figures.pop_front();
            }
            !figures.is_empty()
        });
    }

    /// The largest figure of these rows, to which their lines are drawn, so that they can be compared.
    pub(super) fn most(&self, rows: impl Iterator<Item = LockUse>) -> f64 {
        let figures = rows.filter_map(|row| self.figures.get(&row)).flatten();
        figures.map(|&(_, figure)| figure).fold(0.0, f64::max)
    }

    /// The last minute of a row in so many cells, each with the largest figure of its part of it, the present at the right.
    pub(super) fn line(&self, row: LockUse, cells: usize, most: f64, ascii: bool) -> String {
        let bars: &[char] = if ascii { &ASCII_BARS } else { &BARS };
        let mut largest = vec![0.0_f64; cells];
        for &(at_ns, figure) in self.figures.get(&row).into_iter().flatten() {
            let age = (self.now_ns - at_ns) / SPAN_NS * cells as f64;
            if let Some(cell) = largest.iter_mut().rev().nth(age.max(0.0) as usize) {
                *cell = cell.max(figure);
            }
        }
        let height = |figure: f64| match figure / most {
            part if part > 0.0 => {
                ((part * (bars.len() - 1) as f64).round() as usize).clamp(1, bars.len() - 1)
            }
            _ => 0,
        };
        largest.into_iter().map(|figure| bars[height(figure)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::read::live::{LiveHeader, LiveRow};

    fn table(seconds: f64, waiting: f64) -> LiveTable {
        let header = LiveHeader { elapsed_ns: seconds * 1e9, ..LiveHeader::default() };
        LiveTable { header, rows: vec![LiveRow { waiting, ..LiveRow::default() }] }
    }

    #[test]
    fn a_minute_is_kept_with_the_present_at_the_right() {
        let row = LockUse::default();
        let mut history = History::default();
        for (second, waiting) in [(1.0, 8.0), (31.0, 1.0), (60.0, 4.0)] {
            history.add(&table(second, waiting), Sort::Waiting);
        }
        assert_eq!(history.line(row, 6, history.most([row].into_iter()), false), "█  ▁ ▄");
        assert_eq!(history.line(row, 6, 8.0, true), "#  . -");
        assert_eq!(history.line(row, 3, 8.0, false), "█▁▄");
        assert_eq!(history.line(row, 0, 8.0, false), "");
        history.add(&table(61.5, 2.0), Sort::Waiting);
        assert_eq!(history.most([row].into_iter()), 4.0, "the first is too old");
        history.add(&table(200.0, 0.0), Sort::Waiting);
        assert!(history.figures.is_empty(), "what did nothing for a minute is forgotten");
        assert_eq!(history.line(row, 4, 0.0, false), "    ");
    }

    #[test]
    fn another_order_begins_anew_and_the_whole_run_is_no_moment() {
        let mut history = History::default();
        let mut whole = table(50.0, 5.0);
        whole.header.whole_run = true;
        history.add(&whole, Sort::Waiting);
        assert!(history.figures.is_empty());
        history.add(&table(51.0, 5.0), Sort::Waiting);
        history.add(&table(52.0, 5.0), Sort::Held);
        assert!(history.figures.is_empty(), "nobody held it");
    }
}
