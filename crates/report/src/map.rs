//! A map of named cells in a grid, as SVG: which of several is the best one where.

use crate::plot::svg::{Area, DrawResult, INK, colour, colours, document, font, shortened};
use crate::text::printable;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Where the first cell begins.
const LEFT: i32 = 190;
const TOP: i32 = 48;
const CELL_WIDTH: i32 = 82;
const CELL_HEIGHT: i32 = 34;
/// Above the cells of a panel: its title and two lines over each column.
const HEAD_HEIGHT: i32 = 66;
/// Between two panels.
const PANEL_GAP: i32 = 18;
const LEGEND_HEIGHT: i32 = 64;
const LEGEND_ENTRY_WIDTH: i32 = 178;
const MARGIN: i32 = 14;
/// A map is at least so wide, so that its legend fits.
const LEAST_WIDTH: i32 = 920;

/// Characters that fit into a line of a cell, and lines that fit into a cell.
const LABEL_CHARACTERS: usize = 14;
const LABEL_LINES: usize = 2;
/// Characters that fit beside a row and over a column.
const ROW_CHARACTERS: usize = 26;
const COLUMN_CHARACTERS: usize = 16;

/// How strong the colour of a cell is: letters have to be read on it, on a screen and on paper.
const CLEAR: f64 = 0.55;
const PALE: f64 = 0.2;

/// What stands in one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapCell {
    /// The name in the cell.
    pub label: String,
    /// The group whose colour it has, by its number in the legend.
    pub group: usize,
    /// The name is only one of several that cannot be told apart: the colour is pale.
    pub tied: bool,
}

/// One grid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Panel {
    /// What its cells have in common.
    pub title: String,
    /// Two lines over each column. The first is written where it differs from that of the column before.
    pub columns: Vec<(String, String)>,
    /// What stands beside each row, and a cell for each column; none where nothing is known.
    pub rows: Vec<(String, Vec<Option<MapCell>>)>,
}

/// Grids under one another, with a legend of the groups above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellMap {
    title: String,
    groups: Vec<String>,
    panels: Vec<Panel>,
}

impl CellMap {
    /// A map of these panels; the groups give the colours, in this order, and those that no cell has are left out of the legend.
    pub fn new(title: impl Into<String>, groups: Vec<String>, panels: Vec<Panel>) -> Self {
        Self { title: title.into(), groups, panels }
    }

    /// An SVG document that needs nothing else, and follows the reader's choice of light or dark.
    pub fn svg(&self) -> String {
        let columns = self.panels.iter().map(|panel| panel.columns.len()).max().unwrap_or(0) as i32;
        let width = (LEFT + columns * CELL_WIDTH + MARGIN).max(LEAST_WIDTH);
        let height =
            TOP + LEGEND_HEIGHT + self.panels.iter().map(|panel| panel.height() + PANEL_GAP).sum::<i32>();
        document(&self.title, (width as u32, height as u32), |area| {
            self.draw_legend(area, width)?;
            let mut top = TOP + LEGEND_HEIGHT;
            for panel in &self.panels {
                panel.draw(area, top)?;
                top += panel.height() + PANEL_GAP;
            }
            Ok(())
        })
    }

    /// Whether some cell has this group.
    fn shows(&self, group: usize) -> bool {
        let rows = self.panels.iter().flat_map(|panel| &panel.rows);
        rows.flat_map(|(_, cells)| cells).flatten().any(|cell| cell.group == group)
    }

    fn draw_legend(&self, area: &Area<'_>, width: i32) -> DrawResult {
        let shown: Vec<_> = self.groups.iter().enumerate().filter(|(group, _)| self.shows(*group)).collect();
        let beside = font(13).pos(Pos::new(HPos::Left, VPos::Center));
        let in_a_line = ((width - 2 * MARGIN) / LEGEND_ENTRY_WIDTH).max(1);
        for (number, (group, name)) in (0..).zip(shown) {
            let (left, top) =
                (MARGIN + number % in_a_line * LEGEND_ENTRY_WIDTH, TOP + number / in_a_line * 20);
            area.draw(&Rectangle::new([(left, top), (left + 22, top + 14)], filled(group, CLEAR)))?;
            let name = shortened(&printable(name), 22);
            area.draw(&Text::new(name, (left + 28, top + 7), beside.clone()))?;
        }
        let note =
            "Each cell names the best one; it is pale where another one's range overlaps with its own.";
        area.draw(&Text::new(note, (MARGIN, TOP + LEGEND_HEIGHT - 14), beside))
    }
}

impl Panel {
    fn height(&self) -> i32 {
        HEAD_HEIGHT + self.rows.len() as i32 * CELL_HEIGHT
    }

    fn draw(&self, area: &Area<'_>, top: i32) -> DrawResult {
        let title = font(16).pos(Pos::new(HPos::Left, VPos::Top));
        area.draw(&Text::new(printable(&self.title), (MARGIN, top + 6), title))?;
        let over = font(12).pos(Pos::new(HPos::Left, VPos::Top));
        let mut last: Option<&str> = None;
        for (column, (first, second)) in (0..).zip(&self.columns) {
            let left = LEFT + column * CELL_WIDTH + 3;
            let write = |text: &str, down: i32| {
                let text = shortened(&printable(text), COLUMN_CHARACTERS);
                area.draw(&Text::new(text, (left, top + down), over.clone()))
            };
            if last != Some(first) {
                write(first, 30)?;
                last = Some(first);
            }
            write(second, 46)?;
        }
        let beside = font(13).pos(Pos::new(HPos::Right, VPos::Center));
        for (row, (label, cells)) in (0..).zip(&self.rows) {
            let above = top + HEAD_HEIGHT + row * CELL_HEIGHT;
            let label = shortened(&printable(label), ROW_CHARACTERS);
            area.draw(&Text::new(label, (LEFT - 8, above + CELL_HEIGHT / 2), beside.clone()))?;
            for (column, cell) in (0..).zip(cells) {
                draw_cell(area, (LEFT + column * CELL_WIDTH, above), cell.as_ref())?;
            }
        }
        Ok(())
    }
}

/// The colour of a group; those past the last colour are grey.
fn filled(group: usize, strength: f64) -> ShapeStyle {
    if group < colours() { colour(group).mix(strength).filled() } else { INK.mix(strength * 0.4).filled() }
}

fn draw_cell(area: &Area<'_>, (left, top): (i32, i32), cell: Option<&MapCell>) -> DrawResult {
    let corners = [(left, top), (left + CELL_WIDTH, top + CELL_HEIGHT)];
    if let Some(cell) = cell {
        area.draw(&Rectangle::new(corners, filled(cell.group, if cell.tied { PALE } else { CLEAR })))?;
        let lines = lines(&printable(&cell.label));
        let centred = font(13).pos(Pos::new(HPos::Center, VPos::Center));
        let first = top + CELL_HEIGHT / 2 - (lines.len() as i32 - 1) * 7;
        for (line, text) in (0..).zip(lines) {
            area.draw(&Text::new(text, (left + CELL_WIDTH / 2, first + line * 14), centred.clone()))?;
        }
    }
    area.draw(&Rectangle::new(corners, INK.mix(0.35).stroke_width(1)))
}

/// A name in lines that fit into a cell, broken behind hyphens; the last one is cut if it has to be.
fn lines(name: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for part in name.split_inclusive('-') {
        let full = lines.len() == LABEL_LINES;
        let last = lines.last_mut().expect("there is a first line");
        if full || last.is_empty() || last.chars().count() + part.chars().count() <= LABEL_CHARACTERS {
            last.push_str(part);
        } else {
            lines.push(part.to_owned());
        }
    }
    lines.into_iter().map(|line| shortened(&line, LABEL_CHARACTERS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(label: &str, group: usize, tied: bool) -> CellMap {
        let cell = MapCell { label: label.into(), group, tied };
        let panel = Panel {
            title: label.into(),
            columns: vec![("empty".into(), "0".into()), ("empty".into(), label.into())],
            rows: vec![(label.into(), vec![Some(cell), None])],
        };
        CellMap::new(label, vec![label.into(), "unseen".into()], vec![panel])
    }

    #[test]
    fn markup_in_names_stays_text() {
        let svg = map("</svg><script>&\u{1b}", 0, false).svg();
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
        assert!(svg.matches("</svg>").count() == 1 && svg.contains("&lt;script&gt;"), "{svg}");
    }

    #[test]
    fn the_legend_has_the_groups_that_cells_have_and_columns_repeat_nothing() {
        let svg = map("mcs", 0, false).svg();
        assert!(!svg.contains("unseen"), "{svg}");
        assert_eq!(svg.matches("\nempty\n").count(), 1, "{svg}");
        let grey = map("mcs", 17, false).svg();
        assert!(!grey.contains("\"NaN\""), "{grey}");
    }

    #[test]
    fn a_tie_is_paler() {
        assert_ne!(map("mcs", 0, true).svg(), map("mcs", 0, false).svg());
    }

    #[test]
    fn long_names_are_broken_behind_hyphens_and_then_cut() {
        assert_eq!(lines("mcs"), ["mcs"]);
        assert_eq!(lines("ticket-proportional"), ["ticket-", "proportional"]);
        assert_eq!(lines("parking-lot-rwlock"), ["parking-lot-", "rwlock"]);
        assert_eq!(lines("glibc-rwlock-nonrecursive"), ["glibc-rwlock-", "nonrecursive"]);
        assert_eq!(lines("averyveryverylongname"), ["averyveryvery…"]);
    }
}
