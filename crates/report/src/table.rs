//! Rows built once, shown on a terminal, as JSON objects, as CSV or in a page.

use crate::Screen;
use crate::page::name;
use crate::text::{self, grouped, html, printable, short};
use crate::verdict::Tone;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width};
use curve::Point;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// The key of columns of verdicts, which have a colour where a screen has colours.
const VERDICT: &str = "verdict";

/// A column of sentences is not made narrower than this, as long as columns can be left out instead.
const SENTENCE_WIDTH: usize = 20;

/// Names are broken into lines of at least this width, however narrow the screen.
const LEAST_NAME_WIDTH: usize = 8;

/// Names are broken into lines of this width for columns that tell more than others.
const BROKEN_NAME_WIDTH: usize = 24;

/// Columns of a table that a phone shows beside one another.
const PHONE_COLUMNS: usize = 5;

/// Blanks between columns: one of padding, one that stands for a line.
const GAP: usize = 2;

/// A median and the range around it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, serde::Serialize)]
pub struct Spread {
    /// The least value.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The greatest value.
    pub high: f64,
}

impl From<Point> for Spread {
    fn from(point: Point) -> Self {
        Self { low: point.low, median: point.value, high: point.high }
    }
}

/// What one row says in one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words, a name.
    Text(String),
    /// How many.
    Count(u64),
    /// A quantity in the column's unit.
    Number(f64),
    /// A quantity with its range.
    Spread(Spread),
    /// A quantity that is only known to be below this.
    Below(f64),
    /// A quantity before and after: `1.00 → 2.50`.
    Sides(f64, f64),
    /// Nothing to say: `-` on a terminal, `null` in JSON, empty in CSV.
    Missing,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<Spread> for Cell {
    fn from(spread: Spread) -> Self {
        Self::Spread(spread)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(known: Option<T>) -> Self {
        known.map_or(Self::Missing, Into::into)
    }
}

/// How the cells of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellKind {
    Text,
    Number,
    Percent,
    Spread,
}

/// A column: what it is called and how its cells are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    key: &'static str,
    header: &'static str,
    kind: CellKind,
    rank: Rank,
    only_if_any: bool,
}

/// When a column is left out of a screen that is too narrow, first to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Aside,
    Detail,
    Plain,
    Main,
    Kept,
}

impl Column {
    const fn new(key: &'static str, header: &'static str, kind: CellKind) -> Self {
        Self { key, header, kind, rank: Rank::Plain, only_if_any: false }
    }

    /// Words, at the left. `key` names it in JSON and CSV, `header` on screen.
    pub const fn text(key: &'static str, header: &'static str) -> Self {
        Self::new(key, header, CellKind::Text)
    }

    /// Counts and quantities, at the right; the unit stands in `header`, and ends `key`.
    pub const fn number(key: &'static str, header: &'static str) -> Self {
        Self::new(key, header, CellKind::Number)
    }

    /// Shares from 0 to 1, shown in per cent; `header` says `%`.
    pub const fn percent(key: &'static str, header: &'static str) -> Self {
        Self::new(key, header, CellKind::Percent)
    }

    /// Medians with their ranges. CSV has `key`, `key_low` and `key_high`; JSON an object of `median`, `low`, `high`.
    pub const fn spread(key: &'static str, header: &'static str) -> Self {
        Self::new(key, header, CellKind::Spread)
    }

    /// What names it in JSON and CSV.
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// A column that a narrow screen does without before any other. Of several, the last one goes first.
    #[must_use]
    pub const fn detail(self) -> Self {
        Self { rank: Rank::Detail, ..self }
    }

    /// A column that a narrow screen does without before those of detail.
    #[must_use]
    pub const fn aside(self) -> Self {
        Self { rank: Rank::Aside, ..self }
    }

    /// A column that tells more than others: names are broken into lines before a screen does without it.
    #[must_use]
    pub const fn main(self) -> Self {
        Self { rank: Rank::Main, ..self }
    }

    /// A column that the table is there for: shown however narrow the screen is, as the first one always is.
    #[must_use]
    pub const fn kept(self) -> Self {
        Self { rank: Rank::Kept, ..self }
    }

    /// A column that a terminal does without where no row has anything to say in it, such as why a row failed.
    #[must_use]
    pub const fn only_if_any(self) -> Self {
        Self { only_if_any: true, ..self }
    }

    fn shows(&self, cell: &Cell) -> String {
        let number = |value: f64| match self.kind {
            CellKind::Percent if value.is_finite() => format!("{:.1}", 100.0 * value),
            _ => short(value),
        };
        match cell {
            Cell::Text(text) => printable(text),
            Cell::Count(count) => grouped(*count),
            Cell::Number(value) => number(*value),
            Cell::Spread(Spread { low, median, high }) => {
                format!("{} ({} to {})", number(*median), number(*low), number(*high))
            }
            Cell::Below(bound) => format!("< {}", number(*bound)),
            Cell::Sides(before, after) => format!("{} → {}", number(*before), number(*after)),
            Cell::Missing => "-".into(),
        }
    }

    /// The same without the range around a median.
    fn shows_median(&self, cell: &Cell) -> String {
        match cell {
            Cell::Spread(spread) => self.shows(&Cell::Number(spread.median)),
            other => self.shows(other),
        }
    }
}

/// A column as the script of a page takes it.
#[derive(Debug, Serialize)]
pub(crate) struct PageColumn {
    key: &'static str,
    header: &'static str,
    numeric: bool,
    kept: bool,
    detail: bool,
}

impl PageColumn {
    /// What names it.
    pub(crate) fn key(&self) -> &'static str {
        self.key
    }
}

/// A cell as the script of a page takes it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum PageCell {
    /// Words, which are sorted as they are shown.
    Text(String),
    /// A figure as it is shown, and what it is sorted by.
    Figure(String, f64),
    /// Nothing to say.
    Missing,
}

/// Rows under columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// When it has another number of cells than the table has columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<_> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row has one cell for each column");
        self.rows.push(cells);
    }

    /// Adds a row that says something in the columns of these keys, and nothing in the others.
    ///
    /// # Panics
    ///
    /// When no column has the key.
    pub fn row_of(&mut self, cells: impl IntoIterator<Item = (&'static str, Cell)>) {
        let mut row = vec![Cell::Missing; self.columns.len()];
        for (key, cell) in cells {
            let place = self.columns.iter().position(|column| column.key == key);
            row[place.expect("a column has the key")] = cell;
        }
        self.rows.push(row);
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Lines for a screen, with a final line end.
    ///
    /// What does not fit is left out and named below, before a word is broken: columns of detail first, then the ranges
    /// around medians, then other columns. Sentences are wrapped between words, and so are headers. Only a name that is too
    /// wide beside the columns that tell most is broken. Where tables may have any width, everything is shown, one
    /// line a row, but for columns that say nothing.
    pub fn terminal(&self, screen: Screen) -> String {
        self.without_silent_columns().lines(screen)
    }

    /// The table without the columns that are shown only if they say anything, where they do not.
    pub(crate) fn without_silent_columns(&self) -> Cow<'_, Self> {
        let silent = |index: usize| self.rows.iter().all(|row| row[index] == Cell::Missing);
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|&index| !(self.columns[index].only_if_any && silent(index)))
            .collect();
        if shown.len() == self.columns.len() {
            return Cow::Borrowed(self);
        }
        let rows = self.rows.iter().map(|row| shown.iter().map(|&index| row[index].clone()).collect());
        Cow::Owned(Self {
            columns: shown.iter().map(|&index| self.columns[index]).collect(),
            rows: rows.collect(),
        })
    }

    fn lines(&self, screen: Screen) -> String {
        let spelt = |text: &str| screen.spell(text).into_owned();
        let mut contents: Vec<Contents> = (0..self.columns.len())
            .map(|index| {
                let column = &self.columns[index];
                let cells = self.rows.iter().map(|row| spelt(&column.shows(&row[index]))).collect();
                let medians = self.rows.iter().map(|row| spelt(&column.shows_median(&row[index])));
                Contents {
                    header: spelt(column.header),
                    cells,
                    text: column.kind == CellKind::Text,
                    without_range: (column.kind == CellKind::Spread).then(|| medians.collect()),
                }
            })
            .collect();
        let (widths, without_range) = match screen.table_columns() {
            Some(columns) => self.widths_within(&mut contents, columns),
            None => (contents.iter().map(|column| Some(column.whole())).collect(), Vec::new()),
        };
        let shown: Vec<_> =
            widths.iter().enumerate().filter_map(|(index, width)| Some((index, (*width)?))).collect();

        let mut drawn = comfy_table::Table::new();
        let rule = if screen.is_ascii() { '-' } else { '─' };
        drawn.load_style(TableStyle::new().header_separator(LineStyle::none().fill(rule).junction(rule)));
        drawn.set_content_arrangement(ContentArrangement::Disabled);
        if screen.is_coloured() {
            drawn.enforce_styling().style_text_only();
        }
        drawn.set_header(shown.iter().map(|&(index, _)| &contents[index].header));
        for row in 0..self.rows.len() {
            drawn.add_row(shown.iter().map(|&(index, _)| {
                let text = &contents[index].cells[row];
                let cell = comfy_table::Cell::new(text);
                // A cell with a colour is drawn in it on any terminal, whatever the screen has.
                let coloured = screen.is_coloured() && self.columns[index].key == VERDICT;
                let tone = Tone::of(text).filter(|_| coloured);
                tone.map_or(cell.clone(), |tone| cell.fg(tone.cell_colour()))
            }));
        }
        for (place, &(index, width)) in shown.iter().enumerate() {
            let column = drawn.column_mut(place).expect("a header was set for each column");
            column.set_padding((0, 1));
            let with_padding = u16::try_from(width + 1).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(with_padding)));
            if self.columns[index].kind != CellKind::Text {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        // The rule below the header would reach over the edge by the padding of the last column.
        let edge = screen.table_columns().unwrap_or(usize::MAX).max(total(&widths));
        let mut lines = String::new();
        for line in drawn.lines() {
            let over = line.char_indices().nth(edge).filter(|_| line.starts_with(rule));
            let _ = writeln!(lines, "{}", over.map_or(&*line, |(over, _)| &line[..over]).trim_end());
        }
        let header = |index: usize| contents[index].header.as_str();
        let left_out: Vec<_> =
            (0..contents.len()).filter(|&index| widths[index].is_none()).map(header).collect();
        let without_range: Vec<_> =
            without_range.into_iter().filter(|&index| widths[index].is_some()).map(header).collect();
        lines.push_str(&screen.fit(&missing(&left_out, &without_range, edge, screen.remedy())));
        lines
    }

    /// How wide each column is on a screen of so many columns, `None` for one that is left out; and the columns that have
    /// lost the ranges around their medians.
    fn widths_within(&self, contents: &mut [Contents], columns: usize) -> (Vec<Option<usize>>, Vec<usize>) {
        let mut widths: Vec<_> = contents.iter().map(|column| Some(column.comfortable())).collect();
        let ranked = |rank| (1..self.columns.len()).filter(move |&index| self.columns[index].rank == rank);
        let details = [Rank::Aside, Rank::Detail];
        for index in details.into_iter().flat_map(|rank| ranked(rank).rev()) {
            if total(&widths) > columns {
                widths[index] = None;
            }
        }
        let mut without_range = Vec::new();
        let with_ranges = [Rank::Plain, Rank::Main, Rank::Kept];
        for index in with_ranges.into_iter().flat_map(|rank| ranked(rank).rev()) {
            if total(&widths) > columns && contents[index].swap_range() {
                widths[index] = Some(contents[index].comfortable());
                without_range.push(index);
            }
        }
        for index in ranked(Rank::Plain).rev() {
            if total(&widths) > columns {
                widths[index] = None;
            }
        }
        for index in ranked(Rank::Main).rev() {
            if total(&broken(&widths, contents)) > columns {
                widths[index] = None;
            }
        }
        // Where something wide was left out, there may be space again for something narrow.
        let restore = |index: usize, widths: &mut Vec<Option<usize>>, contents: &[Contents]| {
            if widths[index].is_none() {
                widths[index] = Some(contents[index].comfortable());
                if total(widths) > columns {
                    widths[index] = None;
                }
            }
        };
        ranked(Rank::Plain).for_each(|index| restore(index, &mut widths, contents));
        without_range.retain(|&index| {
            let narrow = widths[index];
            contents[index].swap_range();
            widths[index] = narrow.map(|_| contents[index].comfortable());
            let still = total(&widths) > columns;
            if still {
                contents[index].swap_range();
                widths[index] = narrow;
            }
            still
        });
        let details = details.into_iter().rev().flat_map(ranked);
        details.for_each(|index| restore(index, &mut widths, contents));
        // Of what is kept in any case, sentences give way first, then names; figures never do.
        if total(&widths) > columns {
            for (width, column) in widths.iter_mut().zip(&*contents) {
                *width = width.map(|_| column.tight());
            }
        }
        while total(&widths) > columns
            && let Some(widest) = widths
                .iter_mut()
                .zip(&*contents)
                .filter_map(|(width, column)| width.as_mut().filter(|_| column.text))
                .max()
                .filter(|widest| **widest > LEAST_NAME_WIDTH)
        {
            *widest -= 1;
        }
        share_out(columns.saturating_sub(total(&widths)), &mut widths, contents);
        (widths, without_range)
    }

    /// An array of one object a row.
    pub fn json(&self) -> Value {
        let number = |value: f64| Value::from(value);
        let value = |cell: &Cell| match cell {
            Cell::Text(text) => Value::from(text.as_str()),
            Cell::Count(count) => Value::from(*count),
            Cell::Number(value) => number(*value),
            Cell::Spread(Spread { median: known, .. }) | Cell::Below(known) if !known.is_finite() => {
                Value::Null
            }
            Cell::Spread(Spread { low, median, high }) => Value::Object(Map::from_iter([
                ("median".into(), number(*median)),
                ("low".into(), number(*low)),
                ("high".into(), number(*high)),
            ])),
            Cell::Below(bound) => Value::Object(Map::from_iter([("below".into(), number(*bound))])),
            Cell::Sides(before, after) => Value::Object(Map::from_iter([
                ("before".into(), number(*before)),
                ("after".into(), number(*after)),
            ])),
            Cell::Missing => Value::Null,
        };
        let object = |row: &Vec<Cell>| {
            self.columns.iter().zip(row).map(|(column, cell)| (column.key.into(), value(cell))).collect()
        };
        self.rows.iter().map(|row| Value::Object(object(row))).collect()
    }

    /// A header of the keys and one record a row. Control characters in text are escaped, as on a terminal, and text that a
    /// spreadsheet would take for a formula has an apostrophe before it, which spreadsheets show as text.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = self.columns.iter().flat_map(|column| match column.kind {
            CellKind::Spread => {
                vec![column.key.to_owned(), format!("{}_low", column.key), format!("{}_high", column.key)]
            }
            _ => vec![column.key.to_owned()],
        });
        let record = |row: &Vec<Cell>| -> Vec<String> {
            self.columns.iter().zip(row).flat_map(|(column, cell)| csv_fields(column.kind, cell)).collect()
        };
        let lines = std::iter::once(header.collect()).chain(self.rows.iter().map(record));
        for line in lines {
            writer.write_record(line).expect("memory takes what is written, and all rows are of one length");
        }
        let bytes = writer.into_inner().expect("memory takes what is written");
        String::from_utf8(bytes).expect("only strings were written")
    }

    /// A table of Markdown, as GitHub and rustdoc show it.
    pub fn markdown(&self) -> String {
        let mut lines = String::from("|");
        for column in &self.columns {
            let _ = write!(lines, " {} |", text::markdown(column.header));
        }
        lines.push_str("\n|");
        for column in &self.columns {
            lines.push_str(if column.kind == CellKind::Text { " --- |" } else { " ---: |" });
        }
        for row in &self.rows {
            lines.push_str("\n|");
            for (column, cell) in self.columns.iter().zip(row) {
                let _ = write!(lines, " {} |", text::markdown(&column.shows(cell)));
            }
        }
        lines.push('\n');
        lines
    }

    /// The columns, for the script of a page. The first one is kept on every screen.
    pub(crate) fn page_columns(&self) -> Vec<PageColumn> {
        let columns = self.columns.iter().enumerate();
        let column = |(index, column): (usize, &Column)| PageColumn {
            key: column.key,
            header: column.header,
            numeric: column.kind != CellKind::Text,
            kept: index == 0 || column.rank == Rank::Kept,
            detail: column.rank <= Rank::Detail,
        };
        columns.map(column).collect()
    }

    /// The cells of each row, for the script of a page.
    pub(crate) fn page_rows(&self) -> impl Iterator<Item = Vec<PageCell>> + '_ {
        let cell = |(column, cell): (&Column, &Cell)| {
            let shown = column.shows(cell);
            match *cell {
                Cell::Text(_) => PageCell::Text(shown),
                Cell::Count(count) => PageCell::Figure(shown, count as f64),
                Cell::Number(value) | Cell::Below(value) | Cell::Sides(_, value) => {
                    PageCell::Figure(shown, value)
                }
                Cell::Spread(spread) => PageCell::Figure(shown, spread.median),
                Cell::Missing => PageCell::Missing,
            }
        };
        self.rows.iter().map(move |row| self.columns.iter().zip(row).map(cell).collect())
    }

    /// The same table with no more than so many rows.
    pub(crate) fn first(&self, rows: usize) -> Self {
        Self { columns: self.columns.clone(), rows: self.rows.iter().take(rows).cloned().collect() }
    }

    /// A `<table>` of HTML. On a phone each row of one that is too wide for it is a block with a line for each cell, which begins with the
    /// header of its column.
    pub(crate) fn html(&self) -> String {
        let is_wide = self.columns.len() > PHONE_COLUMNS;
        let mut page = format!("<table{}><thead><tr>", if is_wide { " class=\"blocks\"" } else { "" });
        let class = |column: &Column| if column.kind == CellKind::Text { "" } else { " class=\"n\"" };
        for column in &self.columns {
            let _ = write!(page, "<th scope=\"col\"{}>{}</th>", class(column), html(column.header));
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            page.push_str("<tr>");
            for (column, cell) in self.columns.iter().zip(row) {
                let _ = write!(page, "<td{}", class(column));
                if is_wide {
                    let _ = write!(page, " data-header=\"{}\"", html(column.header));
                }
                let _ = write!(page, ">{}</td>", name(&column.shows(cell)));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody></table>\n");
        page
    }
}

/// The columns of a table whose columns are so wide, with the blanks between them.
fn total(widths: &[Option<usize>]) -> usize {
    widths.iter().flatten().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// As wide as columns are when names are broken, though into no more pieces than are read well.
fn broken(widths: &[Option<usize>], contents: &[Contents]) -> Vec<Option<usize>> {
    let all = widths.iter().zip(contents);
    all.map(|(width, column)| {
        width.map(|width| if column.text { width.min(BROKEN_NAME_WIDTH) } else { width })
    })
    .collect()
}

/// A line about what a screen of so many columns does not show, with the remedy; as many headers as it has space for.
fn missing(left_out: &[&str], without_range: &[&str], columns: usize, remedy: &str) -> String {
    let named = |most: usize| {
        let mut parts = Vec::new();
        for (what, headers) in [("Left out", left_out), ("without ranges", without_range)] {
            let named = headers.get(..most).unwrap_or(headers);
            let more = headers.len() - named.len();
            match (named.is_empty(), more) {
                (true, 0) => {}
                (true, _) => parts.push(format!("{what}: {more} columns")),
                (false, 0) => parts.push(format!("{what}: {}", named.join(", "))),
                (false, _) => parts.push(format!("{what}: {} and {more} more", named.join(", "))),
            }
        }
        parts.join("; ")
    };
    let most = left_out.len().max(without_range.len());
    if most == 0 {
        return String::new();
    }
    // One column is named in any case.
    let lines = (usize::from(most == 1)..=most).rev().map(|most| format!("{} ({remedy})", named(most)));
    let fits = |line: &String| line.width() <= columns;
    let line = lines.clone().find(fits).or_else(|| lines.clone().next_back()).unwrap_or_default();
    let (first, rest) = line.split_at(1);
    format!("{}{rest}\n", first.to_uppercase())
}

/// What a column shows, as it is spelt on a screen.
struct Contents {
    header: String,
    cells: Vec<String>,
    /// Words rather than figures: cells may be wrapped, not only the header.
    text: bool,
    /// The cells without the ranges around medians, where there are any.
    without_range: Option<Vec<String>>,
}

impl Contents {
    /// Leaves ranges out, or puts them back; false where there are none.
    fn swap_range(&mut self) -> bool {
        match &mut self.without_range {
            Some(medians) => {
                std::mem::swap(&mut self.cells, medians);
                true
            }
            None => false,
        }
    }

    /// As wide as its widest cell.
    fn whole(&self) -> usize {
        self.cells_width().max(self.header.width())
    }

    /// As narrow as no word breaks and no figure.
    fn tight(&self) -> usize {
        let words = |text: &str| text.split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0);
        let cells = if self.text {
            self.cells.iter().map(|cell| words(cell)).max().unwrap_or(0)
        } else {
            self.cells_width()
        };
        cells.max(words(&self.header)).max(1)
    }

    /// As narrow as is read without effort.
    fn comfortable(&self) -> usize {
        let cells = if self.text { self.cells_width().min(SENTENCE_WIDTH) } else { 0 };
        self.tight().max(cells)
    }

    fn cells_width(&self) -> usize {
        self.cells.iter().map(|cell| cell.width()).max().unwrap_or(0)
    }
}

fn csv_fields(kind: CellKind, cell: &Cell) -> Vec<String> {
    let number = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
    let mut fields = match cell {
        Cell::Text(text) => vec![no_formula(printable(text))],
        Cell::Count(count) => vec![count.to_string()],
        Cell::Number(value) => vec![number(*value)],
        Cell::Spread(Spread { low, median, high }) => vec![number(*median), number(*low), number(*high)],
        Cell::Below(bound) => vec![format!("<{}", number(*bound))],
        // As it is shown: the two together are no number.
        Cell::Sides(before, after) => vec![no_formula(format!("{} → {}", short(*before), short(*after)))],
        Cell::Missing => vec![String::new()],
    };
    if kind == CellKind::Spread {
        fields.resize(3, String::new());
    }
    fields
}

/// The same text, with an apostrophe before it where a spreadsheet would take it for a formula.
fn no_formula(text: String) -> String {
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

/// Gives the columns that are `left` over first to those that need least to be whole.
fn share_out(mut left: usize, widths: &mut [Option<usize>], contents: &[Contents]) {
    let mut needs: Vec<_> = widths
        .iter_mut()
        .zip(contents)
        .filter_map(|(width, column)| {
            let width = width.as_mut()?;
            Some((column.whole().saturating_sub(*width), width))
        })
        .collect();
    needs.sort_by_key(|(need, _)| *need);
    for (need, width) in needs {
        let given = need.min(left);
        *width += given;
        left -= given;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table() -> Table {
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::number("acquires", "acquires"),
            Column::percent("held", "held %"),
            Column::spread("wall_s", "time s"),
            Column::text("note", "note").detail(),
        ]);
        let spread = Spread { low: 1.0, median: 2.0, high: 4.5 };
        table.row(["glibc".into(), 1_234_567_u64.into(), 0.1234.into(), spread.into(), "a note".into()]);
        table.row(["<b>\x1b[31m,\"\n".into(), Cell::Missing, f64::NAN.into(), Cell::Missing, "".into()]);
        table
    }

    #[test]
    fn a_file_has_a_line_for_each_row() {
        assert_eq!(
            table().terminal(Screen::FILE),
            "\
lock                acquires  held %               time s  note
──────────────────────────────────────────────────────────────────
glibc              1,234,567    12.3  2.00 (1.00 to 4.50)  a note
<b>\\u{1b}[31m,\"\\n          -       -                    -
"
        );
    }

    #[test]
    fn what_stands_aside_is_left_out_before_details_that_follow_it() {
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::text("process", "process").aside(),
            Column::number("threads", "threads").detail(),
        ]);
        table.row(["order".into(), "4711 server".into(), 4_u32.into()]);
        let shown = |columns| table.terminal(Screen::wide(columns));
        assert!(shown(40).starts_with("lock   process      threads\n"), "{}", shown(40));
        assert!(shown(20).starts_with("lock   threads\n"), "{}", shown(20));
    }

    #[test]
    fn columns_are_left_out_by_rank_before_a_word_is_broken() {
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::number("section_ns", "section ns"),
            Column::number("waited_ms", "waited ms").kept(),
            Column::number("threads", "threads").detail(),
            Column::text("why", "why").detail(),
        ]);
        table.row([
            "kyotocabinet::order".into(),
            12.5.into(),
            1.5.into(),
            4_u32.into(),
            "a sentence that is longer than the screen".into(),
        ]);
        assert_eq!(
            table.terminal(Screen::wide(74)),
            "\
lock                 section ns  waited ms  threads  why
──────────────────────────────────────────────────────────────────────────
kyotocabinet::order        12.5       1.50        4  a sentence that is
                                                     longer than the
                                                     screen
"
        );
        assert_eq!(
            table.terminal(Screen::wide(40).ascii()),
            "\
lock                 section ns   waited
                                      ms
----------------------------------------
kyotocabinet::order        12.5     1.50
Left out: 2 columns (--wide shows all)
"
        );
        assert_eq!(
            table.terminal(Screen::wide(20).ascii()),
            "\
lock          waited
                  ms
--------------------
kyotocabinet    1.50
::order
Left out: 3 columns
(--wide shows all)
"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_screen_and_figures_are_whole() {
        for columns in [30, 40, 60, 66, 80, 132] {
            let shown = table().terminal(Screen::wide(columns));
            assert!(shown.lines().all(|line| line.width() <= columns), "{columns}: {shown}");
        }
        for columns in [0, 1, 7, 30] {
            assert!(table().terminal(Screen::wide(columns)).contains("glibc"), "{columns}");
        }
        assert!(table().terminal(Screen::wide(58)).contains("Left out: note ("));
        let with_csv = table().terminal(Screen::wide(58).with_csv());
        assert!(with_csv.ends_with("\nLeft out: note (--wide or --csv shows all)\n"), "{with_csv}");
        assert_eq!(table().terminal(Screen::wide(30).with_whole_tables()), table().terminal(Screen::FILE));
    }

    #[test]
    fn ranges_are_left_out_before_columns_that_are_no_detail() {
        let shown = table().terminal(Screen::wide(50));
        assert!(shown.contains("2.00") && !shown.contains("4.50"), "{shown}");
        assert!(shown.contains("12.3") && shown.contains("Without ranges: time s ("), "{shown}");
        // Where a range was left out, there may be space again for what is worth less.
        assert!(shown.contains("a note"), "{shown}");
    }

    #[test]
    fn verdicts_are_in_colour_where_there_are_colours_and_no_column_is_wider() {
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::text("verdict", "verdict").kept(),
            Column::number("peak", "peak"),
        ]);
        for (lock, verdict) in [
            ("worse", "collapses at 8 (2 to 8), 93 %"),
            ("mcs", "rises to 2, then level, 88 %"),
            ("ticket", "uncertain: 60 % collapses"),
            ("tas", "no difference seen"),
        ] {
            table.row([lock.into(), verdict.into(), 8_u32.into()]);
        }
        for columns in [30, 40, 80] {
            let screen = Screen::wide(columns);
            let shown = table.terminal(screen.coloured());
            for (colour, words) in [(1, "collapses"), (2, "rises"), (3, "uncertain:")] {
                assert!(shown.contains(&format!("\u{1b}[38;5;{colour}m{words}")), "{columns}: {shown:?}");
            }
            assert!(!shown.contains("mworse") && !shown.contains("mno difference"), "{shown:?}");
            let mut plain = shown.replace("\u{1b}[39m", "");
            for colour in 1..=3 {
                plain = plain.replace(&format!("\u{1b}[38;5;{colour}m"), "");
            }
            assert_eq!(plain, table.terminal(screen), "{columns}");
            assert!(!table.terminal(screen).contains('\u{1b}'));
        }
    }

    #[test]
    fn a_column_that_says_nothing_is_for_scripts_alone() {
        let columns = [Column::text("lock", "lock"), Column::text("failure", "failure").kept().only_if_any()];
        let mut table = Table::new(columns);
        table.row(["mcs".into(), Cell::Missing]);
        assert_eq!(table.terminal(Screen::FILE), "lock\n─────\nmcs\n");
        assert_eq!(table.json(), json!([{"lock": "mcs", "failure": null}]));
        table.row(["ticket".into(), "timed out".into()]);
        assert!(table.terminal(Screen::FILE).contains("failure"));
    }

    #[test]
    fn json_has_whole_values() {
        assert_eq!(
            table().json(),
            json!([
                {"lock": "glibc", "acquires": 1_234_567, "held": 0.1234,
                 "wall_s": {"median": 2.0, "low": 1.0, "high": 4.5}, "note": "a note"},
                {"lock": "<b>\u{1b}[31m,\"\n", "acquires": null, "held": null, "wall_s": null, "note": ""},
            ])
        );
    }

    /// As of a run without an operation, to which nothing can be so much.
    #[test]
    fn what_is_no_number_is_null_in_json_with_a_range_too() {
        let mut table = Table::new([Column::spread("per_op", "per op"), Column::number("below", "below")]);
        let nothing = Spread { low: f64::NAN, median: f64::NAN, high: f64::INFINITY };
        table.row([nothing.into(), Cell::Below(f64::INFINITY)]);
        assert_eq!(table.json(), json!([{"per_op": null, "below": null}]));
    }

    #[test]
    fn markdown_keeps_names_inside_their_cells() {
        let mut table = Table::new([Column::text("lock", "a|b"), Column::number("n", "n")]);
        table.row(["<b>|\\|".into(), 1_u64.into()]);
        assert_eq!(table.markdown(), "| a\\|b | n |\n| --- | ---: |\n| &lt;b&gt;\\|\\\\\\| | 1 |\n");
        let mut table = Table::new([Column::text("lock", "lock")]);
        table.row(["_M_lock of cache_lock, *p[3]".into()]);
        assert_eq!(table.markdown(), "| lock |\n| --- |\n| \\_M_lock of cache_lock, \\*p\\[3\\] |\n");
    }

    /// Names of locks and functions come from the program.
    #[test]
    fn no_text_is_a_formula_in_a_spreadsheet_and_numbers_stay_numbers() {
        let mut table = Table::new([Column::text("lock", "lock"), Column::number("ns", "ns")]);
        for text in ["=cmd|' /C calc'!A0", "+1", "-1+2", "@sum(a1)", "\t=1", "a=b"] {
            table.row([text.into(), (-1.5).into()]);
        }
        let csv = table.csv();
        let cells: Vec<_> = csv.lines().skip(1).map(|line| line.rsplit_once(',').unwrap()).collect();
        assert!(cells.iter().all(|&(_, number)| number == "-1.5"), "{csv}");
        let texts: Vec<_> = cells.iter().map(|&(text, _)| text).collect();
        assert_eq!(texts, ["'=cmd|' /C calc'!A0", "'+1", "'-1+2", "'@sum(a1)", "\\t=1", "a=b"]);
        let mut sides = Table::new([Column::number("change", "change")]);
        sides.row([Cell::Sides(-1.0, 2.5)]);
        sides.row([Cell::Sides(f64::NAN, 2.5)]);
        sides.row([Cell::Sides(1.0, -2.5)]);
        assert_eq!(sides.csv(), "change\n'-1.00 → 2.50\n'- → 2.50\n1.00 → -2.50\n");
    }

    #[test]
    fn csv_has_a_column_for_each_end_of_a_range() {
        assert_eq!(
            table().csv(),
            "lock,acquires,held,wall_s,wall_s_low,wall_s_high,note\n\
             glibc,1234567,0.1234,2,1,4.5,a note\n\
             \"<b>\\u{1b}[31m,\"\"\\n\",,,,,,\n"
        );
    }

    #[test]
    fn a_bound_is_no_figure() {
        let mut table = Table::new([Column::number("ns", "ns")]);
        table.row([Cell::Below(12.0)]);
        assert_eq!(table.terminal(Screen::FILE), "    ns\n───────\n< 12.0\n");
        assert_eq!((table.csv().as_str(), table.json()), ("ns\n<12\n", json!([{"ns": {"below": 12.0}}])));
    }

    #[test]
    #[should_panic(expected = "one cell for each column")]
    fn a_short_row_is_refused() {
        table().row([Cell::Missing]);
    }
}
