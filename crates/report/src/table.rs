//! Rows built once, shown on a terminal, as JSON objects, as CSV or in a page.

use crate::text::{grouped, html, printable, short};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle};
use serde_json::{Map, Value};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// The least width a column of text is squeezed to before columns of detail are left out.
const TEXT_WIDTH: usize = 20;

/// Blanks between columns: one of padding, one that stands for a line.
const GAP: usize = 2;

/// A median and the range around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The least value.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The greatest value.
    pub high: f64,
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
enum Kind {
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
    kind: Kind,
    detail: bool,
}

impl Column {
    /// Words, at the left. `key` names it in JSON and CSV, `header` on screen.
    pub const fn text(key: &'static str, header: &'static str) -> Self {
        Self { key, header, kind: Kind::Text, detail: false }
    }

    /// Counts and quantities, at the right; the unit stands in `header`, and ends `key`.
    pub const fn number(key: &'static str, header: &'static str) -> Self {
        Self { key, header, kind: Kind::Number, detail: false }
    }

    /// Shares from 0 to 1, shown in per cent; `header` says `%`.
    pub const fn percent(key: &'static str, header: &'static str) -> Self {
        Self { key, header, kind: Kind::Percent, detail: false }
    }

    /// Medians with their ranges. CSV has `key`, `key_low` and `key_high`; JSON an object of `median`, `low`, `high`.
    pub const fn spread(key: &'static str, header: &'static str) -> Self {
        Self { key, header, kind: Kind::Spread, detail: false }
    }

    /// A column that a narrow terminal does without. The last one goes first.
    #[must_use]
    pub const fn detail(self) -> Self {
        Self { detail: true, ..self }
    }

    fn shows(&self, cell: &Cell) -> String {
        let number = |value: f64| match self.kind {
            Kind::Percent if value.is_finite() => format!("{:.1}", 100.0 * value),
            _ => short(value),
        };
        match cell {
            Cell::Text(text) => printable(text),
            Cell::Count(count) => grouped(*count),
            Cell::Number(value) => number(*value),
            Cell::Spread(Spread { low, median, high }) => {
                format!("{} ({} to {})", number(*median), number(*low), number(*high))
            }
            Cell::Missing => "-".into(),
        }
    }
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

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Lines for a terminal of so many columns (see [`text::terminal_columns`](crate::text::terminal_columns)), with
    /// a final line end. Text wraps; columns of detail that do not fit are left out and named below. Without a width
    /// everything is shown, one line a row.
    pub fn terminal(&self, width: Option<usize>) -> String {
        let shown = self.columns_within(width.unwrap_or(usize::MAX));
        let mut drawn = comfy_table::Table::new();
        drawn.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        match width {
            Some(width) => {
                drawn.set_content_arrangement(ContentArrangement::Dynamic);
                drawn.set_width(u16::try_from(width).unwrap_or(u16::MAX));
            }
            None => {
                drawn.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        drawn.set_header(shown.iter().map(|&index| self.columns[index].header));
        for row in &self.rows {
            drawn.add_row(shown.iter().map(|&index| self.columns[index].shows(&row[index])));
        }
        for (place, &index) in shown.iter().enumerate() {
            let column = drawn.column_mut(place).expect("a header was set for each column");
            column.set_padding((0, 1));
            if self.columns[index].kind != Kind::Text {
                column.set_cell_alignment(CellAlignment::Right);
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        let mut lines: String =
            drawn.lines().flat_map(|line| [line.trim_end().to_owned(), "\n".into()]).collect();
        let left_out: Vec<_> = (0..self.columns.len())
            .filter(|index| !shown.contains(index))
            .map(|i| self.columns[i].header)
            .collect();
        if !left_out.is_empty() {
            let _ = writeln!(lines, "Too narrow for: {} (all are in --json).", left_out.join(", "));
        }
        lines
    }

    /// Which columns fit.
    fn columns_within(&self, width: usize) -> Vec<usize> {
        let needs = |index: usize| {
            let column = &self.columns[index];
            let widest = self.rows.iter().map(|row| column.shows(&row[index]).width()).max().unwrap_or(0);
            let content = widest.max(column.header.width());
            GAP + if column.kind == Kind::Text { content.min(TEXT_WIDTH) } else { content }
        };
        let mut total: usize = (0..self.columns.len()).map(needs).sum();
        let mut shown: Vec<_> = (0..self.columns.len()).collect();
        for index in (0..self.columns.len()).rev().filter(|&index| self.columns[index].detail) {
            if total <= width {
                break;
            }
            total -= needs(index);
            shown.retain(|&kept| kept != index);
        }
        shown
    }

    /// An array of one object a row.
    pub fn json(&self) -> Value {
        let number = |value: f64| Value::from(value);
        let value = |cell: &Cell| match cell {
            Cell::Text(text) => Value::from(text.as_str()),
            Cell::Count(count) => Value::from(*count),
            Cell::Number(value) => number(*value),
            Cell::Spread(Spread { low, median, high }) => Value::Object(Map::from_iter([
                ("median".into(), number(*median)),
                ("low".into(), number(*low)),
                ("high".into(), number(*high)),
            ])),
            Cell::Missing => Value::Null,
        };
        let object = |row: &Vec<Cell>| {
            self.columns.iter().zip(row).map(|(column, cell)| (column.key.into(), value(cell))).collect()
        };
        self.rows.iter().map(|row| Value::Object(object(row))).collect()
    }

    /// A header of the keys and one record a row. Control characters in text are escaped, as on a terminal.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = self.columns.iter().flat_map(|column| match column.kind {
            Kind::Spread => {
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
        // Backslashes first, so that none of the text's own makes an escape of ours.
        let escaped = |text: String| text.replace('\\', "\\\\").replace('|', "\\|");
        for column in &self.columns {
            let _ = write!(lines, " {} |", escaped(html(column.header)));
        }
        lines.push_str("\n|");
        for column in &self.columns {
            lines.push_str(if column.kind == Kind::Text { " --- |" } else { " ---: |" });
        }
        for row in &self.rows {
            lines.push_str("\n|");
            for (column, cell) in self.columns.iter().zip(row) {
                let _ = write!(lines, " {} |", escaped(html(&column.shows(cell))));
            }
        }
        lines.push('\n');
        lines
    }

    /// A `<table>` of HTML.
    pub(crate) fn html(&self) -> String {
        let mut page = String::from("<table><thead><tr>");
        let class = |column: &Column| if column.kind == Kind::Text { "" } else { " class=\"n\"" };
        for column in &self.columns {
            let _ = write!(page, "<th scope=\"col\"{}>{}</th>", class(column), html(column.header));
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            page.push_str("<tr>");
            for (column, cell) in self.columns.iter().zip(row) {
                let _ = write!(page, "<td{}>{}</td>", class(column), html(&column.shows(cell)));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody></table>\n");
        page
    }
}

fn csv_fields(kind: Kind, cell: &Cell) -> Vec<String> {
    let number = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
    let mut fields = match cell {
        Cell::Text(text) => vec![printable(text)],
        Cell::Count(count) => vec![count.to_string()],
        Cell::Number(value) => vec![number(*value)],
        Cell::Spread(Spread { low, median, high }) => vec![number(*median), number(*low), number(*high)],
        Cell::Missing => vec![String::new()],
    };
    if kind == Kind::Spread {
        fields.resize(3, String::new());
    }
    fields
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
    fn terminal_lines() {
        assert_eq!(
            table().terminal(None),
            "\
lock                acquires  held %               time s  note
──────────────────────────────────────────────────────────────────
glibc              1,234,567    12.3  2.00 (1.00 to 4.50)  a note
<b>\\u{1b}[31m,\"\\n          -       -                    -
"
        );
    }

    #[test]
    fn a_narrow_terminal_loses_detail_and_says_so() {
        let shown = table().terminal(Some(66));
        assert!(shown.contains("Too narrow for: note"), "{shown}");
        assert!(shown.lines().all(|line| line.width() <= 66), "{shown}");
        assert!(table().terminal(Some(200)).contains("a note"));
        for width in [0, 1, 7, 30] {
            assert!(table().terminal(Some(width)).contains("1,234,567"));
        }
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

    #[test]
    fn markdown_keeps_names_inside_their_cells() {
        let mut table = Table::new([Column::text("lock", "a|b"), Column::number("n", "n")]);
        table.row(["<b>|\\|".into(), 1_u64.into()]);
        assert_eq!(table.markdown(), "| a\\|b | n |\n| --- | ---: |\n| &lt;b&gt;\\|\\\\\\| | 1 |\n");
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
    #[should_panic(expected = "one cell for each column")]
    fn a_short_row_is_refused() {
        table().row([Cell::Missing]);
    }
}
