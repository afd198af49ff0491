//! What the screen shows: the table, one lock, and what keys do to them. It knows no terminal.

use super::batch::{notes, process, summary, thread_name, wait_sentence};
use super::history::History;
use super::sort::Sort;
use clap::ValueEnum as _;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use profile::read::live::{LiveRow, LiveTable, LockUse, Since};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use report::Screen;
use report::text::{prefixed, printable, short, time};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// What a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Something else is to be shown.
    Draw,
    Nothing,
    Quit,
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct View {
    shown: LiveTable,
    /// The last look, while the screen is halted.
    kept: Option<LiveTable>,
    halted: bool,
    history: History,
    sort: Sort,
    selected: Option<LockUse>,
    /// The first row that is shown.
    first: usize,
    /// Whether the selected lock alone is shown, and from which line on.
    opened: Option<usize>,
    /// Whether the keys are shown instead of it all.
    helps: bool,
    /// Rows on the screen, for keys that move by as many.
    page: usize,
    ascii: bool,
}

impl View {
    pub(super) fn new(table: LiveTable, sort: Sort, ascii: bool) -> Self {
        let mut view = Self {
            shown: LiveTable { header: table.header.clone(), rows: Vec::new() },
            kept: None,
            halted: false,
            history: History::default(),
            sort,
            selected: None,
            first: 0,
            opened: None,
            helps: false,
            page: 1,
            ascii,
        };
        view.look(table);
        view
    }

    /// Takes in another look at the program.
    pub(super) fn look(&mut self, table: LiveTable) {
        self.history.add(&table, self.sort);
        self.kept = Some(table);
        if !self.halted || self.has_ended() {
            self.show_last();
        }
    }

    fn show_last(&mut self) {
        if let Some(last) = self.kept.take() {
            self.shown = last;
            self.sort.apply(&mut self.shown.rows);
        }
    }

    /// Whether the program has ended: what is shown stays.
    pub(super) fn has_ended(&self) -> bool {
        self.kept.as_ref().unwrap_or(&self.shown).header.ended.is_some()
    }

    fn order_by(&mut self, sort: Sort) {
        self.sort = sort;
        self.sort.apply(&mut self.shown.rows);
        self.history.add(&self.shown, sort);
        self.first = 0;
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: KeyEvent) -> Then {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Then::Quit } else { Then::Nothing };
        }
        let page = self.page.max(1) as isize;
        if self.helps && key.code != KeyCode::Char('q') {
            self.helps = false;
            return Then::Draw;
        }
        match key.code {
            KeyCode::Char('?') => self.helps = true,
            KeyCode::Char('q') => return Then::Quit,
            KeyCode::Esc if self.opened.is_none() => return Then::Quit,
            KeyCode::Esc => self.opened = None,
            KeyCode::Enter if self.opened.is_some() => self.opened = None,
            KeyCode::Enter => {
                self.selected = self.selected.or(self.shown.rows.first().map(|row| row.id));
                self.opened = self.selected.map(|_| 0);
            }
            KeyCode::Char(' ') => {
                self.halted = !self.halted;
                self.show_last();
            }
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-page),
            KeyCode::PageDown => self.go(page),
            KeyCode::Home => self.go(isize::MIN),
            KeyCode::End => self.go(isize::MAX),
            KeyCode::Char(letter) => match Sort::value_variants().iter().find(|sort| sort.key() == letter) {
                Some(&sort) => self.order_by(sort),
                None => return Then::Nothing,
            },
            _ => return Then::Nothing,
        }
        Then::Draw
    }

    /// Moves the selection by so many rows, or what is shown of one lock by so many lines.
    fn go(&mut self, by: isize) {
        if let Some(first) = &mut self.opened {
            *first = first.saturating_add_signed(by);
            return;
        }
        let Some(last) = self.shown.rows.len().checked_sub(1) else { return };
        let at = match self.selected_index() {
            Some(at) => at.saturating_add_signed(by),
            None if by == 1 => 0, // as if the row above the first one had been selected
            None => 0_usize.saturating_add_signed(by),
        };
        self.selected = Some(self.shown.rows[at.min(last)].id);
    }

    fn selected_index(&self) -> Option<usize> {
        self.shown.rows.iter().position(|row| Some(row.id) == self.selected)
    }

    /// Draws all of it.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let mut canvas = Canvas { frame, area, ascii: self.ascii };
        let header = &self.shown.header;
        canvas.line(0, &header.command.join(" "), Style::new().add_modifier(Modifier::BOLD));
        let halted = if self.halted { " Halted." } else { "" };
        let mut y = 1;
        for sentences in [format!("{}{halted}", summary(header))].into_iter().chain(notes(header)) {
            for line in wrapped(&sentences, usize::from(area.width)) {
                canvas.line(y, &line, Style::new());
                y += 1;
            }
        }
        let last = area.height.saturating_sub(1);
        self.page = usize::from(last.saturating_sub(y + 1));
        match self.opened {
            _ if self.helps => {
                for (line, y) in help().iter().zip(y..last) {
                    canvas.line(y, line, Style::new());
                }
            }
            Some(_) => self.draw_lock(&mut canvas, y, last),
            None => self.draw_table(&mut canvas, y, last),
        }
        if last > y {
            canvas.line(last, &self.keys(), Style::new().add_modifier(Modifier::DIM));
        }
    }

    fn keys(&self) -> String {
        if self.helps {
            return "any key: back  q quit".to_owned();
        }
        if self.opened.is_some() {
            return "Enter the table  arrows more  Space halt  ? all keys  q quit".to_owned();
        }
        format!("By {}. q quit  Enter calls  Space halt  ? all keys and orders", self.sort.name())
    }

    fn draw_table(&mut self, canvas: &mut Canvas<'_, '_>, top: u16, bottom: u16) {
        let several = self.shown.rows.iter().any(|row| row.pid != self.shown.rows[0].pid);
        let columns = fitting(usize::from(canvas.area.width), several);
        let title = Style::new().add_modifier(Modifier::UNDERLINED);
        let mut x = 0;
        for column in &columns {
            let of_order = column.what == What::Figure(self.sort)
                || (self.sort == Sort::Name && column.what == What::Lock);
            let style = if of_order { title.add_modifier(Modifier::BOLD) } else { title };
            canvas.cell(x, top, column, column.title, style);
            x += column.width + GAP;
        }
        let selected = self.selected_index();
        if let Some(selected) = selected {
            self.first = self.first.min(selected).max((selected + 1).saturating_sub(self.page.max(1)));
        }
        self.first = self.first.min(self.shown.rows.len().saturating_sub(1));
        let visible = self.first..self.shown.rows.len().min(self.first + self.page);
        let rows = self.shown.rows.get(visible.clone()).unwrap_or_default();
        let most = self.history.most(rows.iter().map(|row| row.id));
        for ((row, index), y) in rows.iter().zip(visible).zip(top + 1..bottom) {
            let style = if selected == Some(index) {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            if selected == Some(index) {
                canvas.line(y, &" ".repeat(usize::from(canvas.area.width)), style);
            }
            let mut x = 0;
            for column in &columns {
                let text = match column.what {
                    What::LastMinute => self.history.line(row.id, column.width, most, self.ascii),
                    what => what.of(row),
                };
                canvas.cell(x, y, column, &text, style);
                x += column.width + GAP;
            }
        }
        if rows.is_empty() {
            canvas.line(top + 1, "No lock was used.", Style::new());
        }
    }

    fn draw_lock(&mut self, canvas: &mut Canvas<'_, '_>, top: u16, bottom: u16) {
        let lines = match self.selected_index() {
            Some(index) => about(&self.shown.rows[index], &self.shown, usize::from(canvas.area.width)),
            None => vec!["This lock was not used in the last interval.".to_owned()],
        };
        let first = self.opened.unwrap_or(0).min(lines.len().saturating_sub(1));
        self.opened = Some(first);
        for (line, y) in lines[first..].iter().zip(top..bottom) {
            canvas.line(y, line, Style::new());
        }
    }
}

/// The keys, in no more lines than the smallest terminal has.
fn help() -> Vec<String> {
    let keys = [
        ("arrows, k j", "select a lock; PageUp, PageDown, Home, End go further"),
        ("Enter", "the calls and threads of the selected lock, and back"),
        ("Space", "halt, and go on with the present"),
        ("q, Esc", "quit"),
    ];
    let mut lines: Vec<String> = keys.iter().map(|(key, does)| format!("{key:<12}  {does}")).collect();
    lines.push(String::new());
    lines.push("Order by:".to_owned());
    lines.extend(Sort::value_variants().iter().map(|sort| format!("{:<12}  {}", sort.key(), sort.name())));
    lines
}

/// Prose in lines of so many cells, as far as its words allow.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// What is known of one lock: what is so now, from where it was waited for, its threads, and the calls that made it; prose in lines of
/// so many cells.
fn about(row: &LiveRow, table: &LiveTable, width: usize) -> Vec<String> {
    let mut lines = wrapped(&format!("{}, {} of process {}", row.lock, row.way, process(row)), width);
    lines.push(match (&row.holder, row.holder_ns) {
        (None, _) => "Which thread holds it is not known.".to_owned(),
        (Some(holder), None) => format!("Held by {}.", thread_name(holder)),
        (Some(holder), Some(ns)) => format!("Held by {} for {}.", thread_name(holder), time(ns)),
    });
    if let (Some(waiter), Some(ns)) = (&row.longest_waiter, row.longest_wait_ns) {
        lines.push(format!("{} has waited for {}.", thread_name(waiter), time(ns)));
    }
    if let Some(sentence) = wait_sentence(table, row) {
        lines.extend(wrapped(&sentence, width));
    }
    lines.push(String::new());
    lines.push("Made, or first touched, by these calls:".to_owned());
    for call in row.calls.iter() {
        for line in &call.lines {
            let place = if line.line > 0 { format!("  {}:{}", line.file, line.line) } else { String::new() };
            let module =
                call.module.as_ref().map_or_else(String::new, |module| format!("  in {}", module.path));
            lines.push(format!("  {}{}", line.function, if place.is_empty() { module } else { place }));
        }
    }
    if row.calls.is_empty() {
        lines.push("  no calls are known".to_owned());
    }
    lines.push(String::new());
    lines.push("Threads, those first that waited most:".to_owned());
    let span_ns = table.header.span_ns;
    for of in
        row.threads.iter().filter(|of| of.since != Since::default() || of.waits_ns.is_some() || of.holds)
    {
        let per_second = if span_ns > 0.0 { of.since.acquisitions as f64 * 1e9 / span_ns } else { 0.0 };
        let mut line = format!(
            "  {}: {}/s, waited {}",
            thread_name(&of.thread),
            short(per_second),
            time(of.since.waited_ns)
        );
        if let Some(ns) = of.waits_ns {
            line += &format!(", waits now for {}", time(ns));
        }
        if of.holds {
            line += ", holds it now";
        }
        lines.push(line);
    }
    lines
}

/// Blanks between columns.
const GAP: usize = 1;

/// What a column says of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Lock,
    Process,
    Use,
    /// The figure that an order compares.
    Figure(Sort),
    Section,
    Holder,
    HolderFor,
    LastMinute,
}

impl What {
    fn of(self, row: &LiveRow) -> String {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        match self {
            Self::Lock => row.lock.clone(),
            Self::Process => process(row),
            Self::Use => row.way.clone(),
            Self::Figure(Sort::Contended) => {
                or_dash(row.contended_share.map(|part| format!("{:.1}", 100.0 * part)))
            }
            Self::Figure(Sort::Waiters) => or_dash(row.waiters_now.map(waiters)),
            Self::Figure(Sort::Longest) => or_dash(row.longest_wait_ns.map(time)),
            Self::Figure(sort @ (Sort::Waiting | Sort::Held | Sort::Name)) => threads(sort.figure(row)),
            Self::Figure(Sort::Acquires) => rate(row.acquires_per_s),
            Self::Section => or_dash(row.section_ns.map(time)),
            Self::Holder => or_dash(row.holder.as_ref().map(thread_name)),
            Self::HolderFor => or_dash(row.holder_ns.map(time)),
            Self::LastMinute => String::new(),
        }
    }
}

/// How often something happens in a second, never longer than its column: a number without its middle digits is another one.
fn rate(per_second: f64) -> String {
    if per_second >= 99_999_999.5 { prefixed(per_second) } else { short(per_second) }
}

/// How many threads wait now, never longer than its column.
fn waiters(count: u64) -> String {
    if count < 10_000 { count.to_string() } else { format!("{}k", count / 1_000) }
}

/// A mean number of threads, never longer than its column.
fn threads(mean: f64) -> String {
    match mean {
        0.0 => "0".to_owned(),
        0.0..0.000_5 => "<0.001".to_owned(),
        0.0..0.999_5 => format!("{mean:.3}"),
        _ => short(mean),
    }
}

#[derive(Debug, Clone, Copy)]
struct Column {
    title: &'static str,
    what: What,
    width: usize,
    /// Numbers stand at the right.
    right: bool,
}

/// The columns in their order on the screen, each with its rank: where there is less space those of higher ranks are left out.
const COLUMNS: [(u8, Column); 12] = {
    const fn left(title: &'static str, width: usize, what: What) -> Column {
        Column { title, what, width, right: false }
    }
    const fn right(title: &'static str, width: usize, what: What) -> Column {
        Column { title, what, width, right: true }
    }
    [
        (0, left("lock", 16, What::Lock)),
        (2, left("process", 14, What::Process)),
        (9, left("use", 12, What::Use)),
        (1, right("waiting", 7, What::Figure(Sort::Waiting))),
        (10, right("held", 6, What::Figure(Sort::Held))),
        (2, right("acquires/s", 10, What::Figure(Sort::Acquires))),
        (8, right("cont %", 6, What::Figure(Sort::Contended))),
        (11, right("section", 8, What::Section)),
        (3, right("now", 4, What::Figure(Sort::Waiters))),
        (4, right("longest", 8, What::Figure(Sort::Longest))),
        (5, left("held by", 16, What::Holder)),
        (7, right("for", 8, What::HolderFor)),
    ]
};

/// Behind the others, if there is space.
const LAST_MINUTE: Column = Column { title: "last minute", what: What::LastMinute, width: 12, right: false };
/// Its bars are still there on a terminal of 80 cells.
const LAST_MINUTE_RANK: u8 = 6;
/// A cell for two seconds.
const LAST_MINUTE_WIDEST: usize = 30;
/// Longer names are cut.
const NAME_WIDEST: usize = 48;

/// The columns for a screen of so many cells. What is left over goes to the names and the last minute.
fn fitting(width: usize, several_processes: bool) -> Vec<Column> {
    let mut all: Vec<(u8, Column)> = COLUMNS.into_iter().chain([(LAST_MINUTE_RANK, LAST_MINUTE)]).collect();
    all.retain(|(_, column)| several_processes || column.what != What::Process);
    let needed = |all: &[(u8, Column)]| all.iter().map(|(_, column)| column.width + GAP).sum::<usize>() - GAP;
    while all.len() > 1 && needed(&all) > width {
        let most = all.iter().map(|&(rank, _)| rank).max();
        all.retain(|&(rank, _)| Some(rank) != most || rank == 0);
    }
    let mut left = width.saturating_sub(needed(&all));
    for (what, widest) in
        [(What::Lock, NAME_WIDEST / 2), (What::LastMinute, LAST_MINUTE_WIDEST), (What::Lock, NAME_WIDEST)]
    {
        for (_, column) in all.iter_mut().filter(|(_, column)| column.what == what) {
            let more = widest.saturating_sub(column.width).min(left);
            column.width += more;
            left -= more;
        }
    }
    all.iter_mut().for_each(|(_, column)| column.width = column.width.min(width));
    all.into_iter().map(|(_, column)| column).collect()
}

/// Where text is put so that it stays in its cell, whatever it is.
struct Canvas<'f, 'b> {
    frame: &'f mut Frame<'b>,
    area: Rect,
    ascii: bool,
}

impl Canvas<'_, '_> {
    /// A line of prose, which is cut at the edge.
    fn line(&mut self, y: u16, text: &str, style: Style) {
        self.put(0, y, usize::from(self.area.width), &spelt(text, self.ascii), style);
    }

    fn cell(&mut self, x: usize, y: u16, column: &Column, text: &str, style: Style) {
        let text = cut(text, column.width, self.ascii);
        let indent = if column.right { column.width.saturating_sub(text.width()) } else { 0 };
        self.put(x + indent, y, column.width - indent, &text, style);
    }

    fn put(&mut self, x: usize, y: u16, width: usize, text: &str, style: Style) {
        let width = width.min(usize::from(self.area.width).saturating_sub(x));
        if y < self.area.height && width > 0 {
            let (x, y) = (self.area.x + x as u16, self.area.y + y);
            self.frame.buffer_mut().set_stringn(x, y, text, width, style);
        }
    }
}

/// Text that does nothing but being seen.
fn spelt(text: &str, ascii: bool) -> String {
    let printable = printable(text);
    if ascii { Screen::FILE.ascii().spell(&printable).into_owned() } else { printable }
}

/// The same in so many cells: what is too long loses its middle, since both ends tell names apart.
fn cut(text: &str, width: usize, ascii: bool) -> String {
    let text = spelt(text, ascii);
    if text.width() <= width {
        return text;
    }
    let mark = if ascii { '~' } else { '…' };
    let Some(left) = width.checked_sub(1) else { return String::new() };
    let take = |letters: &mut dyn Iterator<Item = char>, cells: usize| {
        let mut used = 0;
        let fit = |letter: &char| {
            used += letter.width().unwrap_or(0);
            used <= cells
        };
        letters.take_while(fit).collect::<Vec<char>>()
    };
    let begin = take(&mut text.chars(), left.div_ceil(2));
    let end = take(&mut text.chars().rev(), left / 2);
    begin.into_iter().chain([mark]).chain(end.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::batch::tests::table;
    use profile::LockId;
    use profile::read::live::{LiveThread, ThreadUse};
    use profile::read::{Call, SiteUse, SourceLine};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// Two locks, one of which has a name that a hostile program would give it.
    fn hostile() -> LiveTable {
        let mut table = table();
        table.header.command = vec!["./server".into(), "\u{1b}]0;title\u{7}".into()];
        table.rows[0].id = id(1);
        table.rows[1].id = id(2);
        table.rows[1].lock = "\u{1b}[2J\u{202e}evil\r\n<b>{{red}}[x](y)\u{9b}31m\u{200f}".into();
        table.rows[1].holder = Some(LiveThread { tid: 9, name: "\u{1b}[31mred".into() });
        let call = |function: &str, line| Call {
            address: 0,
            lines: vec![SourceLine { function: function.into(), file: "server.c".into(), line }],
            module: None,
        };
        table.rows[0].calls = [call("serve_request", 12), call("\u{1b}[5mmain", 0)].into();
        table.rows[0].call_sites = vec![
            SiteUse { function: "serve_request".into(), waited_ns: 9e6, ..SiteUse::default() },
            SiteUse { function: "rebalance".into(), behind_ns: 9e6, ..SiteUse::default() },
        ];
        let since = Since { acquisitions: 500, ..Since::default() };
        let thread = LiveThread { tid: 4713, name: "worker".into() };
        table.rows[0].threads = vec![ThreadUse { thread, since, waits_ns: Some(2e6), holds: false }];
        table
    }

    fn id(number: u32) -> LockUse {
        LockUse { lock: LockId { section: 1, number }, shared: false }
    }

    fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer.cell((x, y)).unwrap().symbol()).collect::<String>();
        (0..height).map(line).collect()
    }

    fn view() -> View {
        View::new(hostile(), Sort::Waiting, false)
    }

    fn press(view: &mut View, code: KeyCode) -> Then {
        view.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn the_screen_at_80_columns_and_at_200() {
        let mut view = view();
        let mut later = hostile();
        later.header.elapsed_ns += 1e9;
        view.look(later);
        insta::assert_snapshot!(drawn(&mut view, 80, 8).join("\n"));
        insta::assert_snapshot!(drawn(&mut view, 200, 8).join("\n"));
    }

    #[test]
    fn a_terminal_of_80_by_24_shows_the_whole_header_and_every_key() {
        let mut table = hostile();
        table.header.sample_period = 16;
        table.header.dropped = 7;
        let mut view = View::new(table.clone(), Sort::Waiting, false);
        let words = |lines: &[String]| lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        let screen = drawn(&mut view, 80, 24);
        let shown = words(&screen);
        for sentence in [summary(&table.header)].into_iter().chain(notes(&table.header)) {
            assert!(shown.contains(&words(std::slice::from_ref(&sentence))), "{sentence}: {screen:#?}");
        }
        assert!(screen.iter().any(|line| line.contains("last minute")), "a lock's history: {screen:#?}");
        assert!(
            screen[23].contains("q quit") && screen[23].trim_end().ends_with("? all keys and orders"),
            "{screen:#?}"
        );
        assert_eq!(press(&mut view, KeyCode::Char('?')), Then::Draw);
        let screen = drawn(&mut view, 80, 24);
        let shown = words(&screen);
        for sort in Sort::value_variants() {
            assert!(shown.contains(&format!("{} {}", sort.key(), sort.name())), "{screen:#?}");
        }
        for key in ["Enter", "Space", "PageDown", "Esc", "any key: back"] {
            assert!(shown.contains(key), "{key}: {screen:#?}");
        }
        assert_eq!(press(&mut view, KeyCode::Char('x')), Then::Draw);
        assert!(words(&drawn(&mut view, 80, 24)).contains("cache_lock"), "any key leads back");
    }

    #[test]
    fn whatever_the_size_nothing_breaks_out_of_its_cell() {
        for opened in [false, true] {
            for width in (1..100).chain([200, 500]) {
                for height in [1, 2, 3, 4, 5, 8, 30] {
                    let mut view = view();
                    press(&mut view, KeyCode::Down);
                    if opened {
                        press(&mut view, KeyCode::Enter);
                    }
                    for line in drawn(&mut view, width, height) {
                        assert!(
                            !line.contains(char::is_control) && !line.contains(['\u{202e}', '\u{200f}']),
                            "{line:?}"
                        );
                    }
                }
            }
        }
        let lines = drawn(&mut view(), 120, 10);
        let evil = lines.iter().position(|line| line.starts_with("\\u{1b}")).unwrap();
        let columns = fitting(120, false);
        // The figures of the row stand where those of the other one do.
        let from = columns[0].width;
        let digits = |line: &str| line.chars().skip(from).take(20).collect::<String>();
        assert_eq!(digits(&lines[evil]).len(), digits(&lines[evil - 1]).len());
        assert!(lines[evil].contains("1,000,000") && lines[evil - 1].contains("1,000,000"), "{lines:#?}");
    }

    #[test]
    fn mean_numbers_of_threads_fit_into_their_columns() {
        for (mean, shown) in [
            (0.0, "0"),
            (0.000_112, "<0.001"),
            (0.008_71, "0.009"),
            (0.999_6, "1.00"),
            (1.654, "1.65"),
            (12_345.6, "12,346"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(threads(mean), shown);
            assert!(shown.len() <= 6);
        }
    }

    #[test]
    fn large_numbers_keep_their_digits_in_their_columns() {
        for (per_second, shown) in [
            (0.0, "0"),
            (99_999_999.4, "99,999,999"),
            (99_999_999.6, "100 M"),
            (1_234_567_890.0, "1.235 G"),
            (999_999_999_999.0, "1 T"),
            (f64::NAN, "-"),
        ] {
            let row = LiveRow { acquires_per_s: per_second, ..LiveRow::default() };
            assert_eq!(What::Figure(Sort::Acquires).of(&row), shown);
        }
        for (count, shown) in [(0, "0"), (9_999, "9999"), (10_000, "10k"), (512_345, "512k")] {
            let row = LiveRow { waiters_now: Some(count), ..LiveRow::default() };
            assert_eq!(What::Figure(Sort::Waiters).of(&row), shown);
        }
    }

    #[test]
    fn columns_go_by_rank_and_fit() {
        for width in 1..300 {
            for several in [false, true] {
                let columns = fitting(width, several);
                let needed: usize = columns.iter().map(|column| column.width + GAP).sum();
                assert!(needed - GAP <= width, "{width}: {columns:?}");
                assert_eq!(columns[0].what, What::Lock);
            }
        }
        let shown = |width| fitting(width, false).iter().map(|column| column.title).collect::<Vec<_>>();
        assert_eq!(shown(80), ["lock", "waiting", "acquires/s", "now", "longest", "held by", "last minute"]);
        assert_eq!(shown(40), ["lock", "waiting", "acquires/s", "now"]);
        assert_eq!(shown(200).len(), 12);
        assert!(fitting(200, true).iter().any(|column| column.what == What::Process));
    }

    #[test]
    fn keys_select_open_order_halt_and_quit() {
        let mut view = view();
        assert_eq!(press(&mut view, KeyCode::Down), Then::Draw);
        assert_eq!(view.selected, Some(id(1)));
        press(&mut view, KeyCode::Down);
        press(&mut view, KeyCode::Down);
        assert_eq!(view.selected, Some(id(2)), "the last row is the last");
        press(&mut view, KeyCode::Home);
        assert_eq!(view.selected, Some(id(1)));
        press(&mut view, KeyCode::Enter);
        let shown = drawn(&mut view, 80, 20).join("\n");
        for part in [
            "Held by worker 4712 for 4.00 µs",
            "Waits for cache_lock: 100 % in serve_request; 100 % behind rebalance.",
            "serve_request  server.c:12",
            "worker 4713: 500/s",
            "waits now for 2.00 ms",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        press(&mut view, KeyCode::End);
        assert!(drawn(&mut view, 80, 20)[2].contains("worker 4713"), "scrolled to the last line");
        assert_eq!(press(&mut view, KeyCode::Esc), Then::Draw);
        assert!(drawn(&mut view, 80, 20).join("\n").contains("acquires/s"));
        press(&mut view, KeyCode::Char('m'));
        assert!(
            view.shown.rows[0].lock.starts_with('\u{1b}') && view.selected == Some(id(1)),
            "the selection stays"
        );
        assert_eq!(press(&mut view, KeyCode::Char('z')), Then::Nothing);
        press(&mut view, KeyCode::Char(' '));
        let mut later = hostile();
        later.rows.truncate(1);
        view.look(later);
        assert_eq!(view.shown.rows.len(), 2, "halted");
        press(&mut view, KeyCode::Char(' '));
        assert_eq!(view.shown.rows.len(), 1, "the last look is shown");
        assert_eq!(press(&mut view, KeyCode::Esc), Then::Quit);
        assert_eq!(press(&mut view, KeyCode::Char('q')), Then::Quit);
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        assert_eq!([view.press(control('c')), view.press(control('q'))], [Then::Quit, Then::Nothing]);
    }

    #[test]
    fn a_lock_is_told_with_its_process_where_another_ones_has_its_name() {
        let mut table = hostile();
        (table.rows[1].lock, table.rows[1].pid) = (table.rows[0].lock.clone(), 4800);
        let mut view = View::new(table, Sort::Waiting, false);
        press(&mut view, KeyCode::Enter);
        let shown = drawn(&mut view, 80, 20).join("\n");
        assert!(shown.contains("Waits for cache_lock (4711 server): 100 % in serve_request"), "{shown}");
    }

    #[test]
    fn a_long_name_hides_nothing_else_that_is_told_of_its_lock() {
        let mut table = hostile();
        table.rows[0].lock = "name_".repeat(30);
        let mut view = View::new(table, Sort::Waiting, false);
        press(&mut view, KeyCode::Enter);
        let shown = drawn(&mut view, 80, 20).join("\n");
        assert!(shown.contains("name_name_") && shown.contains("mutex of process 4711 server"), "{shown}");
    }

    #[test]
    fn an_end_is_said_even_to_a_halted_screen_and_an_empty_one_draws() {
        let mut view = view();
        press(&mut view, KeyCode::Char(' '));
        let mut last = hostile();
        last.header.ended = Some("it exited with 0".into());
        view.look(last);
        assert!(view.has_ended());
        assert!(
            drawn(&mut view, 80, 10)[1].starts_with("The program has ended after 9.50 s: it exited with 0.")
        );
        let mut empty = View::new(LiveTable { rows: Vec::new(), ..hostile() }, Sort::Held, true);
        for key in [KeyCode::Down, KeyCode::Up, KeyCode::Enter, KeyCode::End, KeyCode::PageUp] {
            press(&mut empty, key);
        }
        assert!(drawn(&mut empty, 80, 10).join("\n").contains("No lock was used"));
    }

    #[test]
    fn the_selected_row_is_on_the_screen() {
        let mut many = hostile();
        let row = many.rows[0].clone();
        many.rows = (0..100)
            .map(|number| LiveRow { id: id(number), lock: format!("lock {number}"), ..row.clone() })
            .collect();
        let mut view = View::new(many, Sort::Waiting, false);
        for (key, shown) in
            [(KeyCode::End, "lock 99"), (KeyCode::PageUp, "lock 93"), (KeyCode::Home, "lock 0 ")]
        {
            press(&mut view, key);
            let lines = drawn(&mut view, 80, 10);
            assert!(lines.iter().any(|line| line.starts_with(shown)), "{shown}: {lines:#?}");
        }
    }

    #[test]
    fn names_lose_their_middle() {
        assert_eq!(cut("kyotocabinet::CacheDB@0e01d8", 15, false), "kyotoca…@0e01d8");
        assert_eq!(cut("kyotocabinet::CacheDB@0e01d8", 15, true), "kyotoca~@0e01d8");
        assert_eq!(
            [cut("lock", 4, false), cut("lock", 3, false), cut("lock", 1, false), cut("lock", 0, false)],
            ["lock", "l…k", "…", ""]
        );
        assert_eq!(cut("漢字漢字", 6, false).width(), 5, "a wide letter is never halved");
        assert!(cut("µs → é", 40, true).is_ascii());
    }
}
