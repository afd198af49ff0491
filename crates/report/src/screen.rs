//! What text is written to: how wide it is, and which characters it shows.

use crate::text::printable_lines;
use crate::verdict::Tone;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// The width of a terminal that does not tell its own.
const UNKNOWN_COLUMNS: usize = 80;

/// The width of a drawing or a table that goes to a file or a pipe.
const PIPE_COLUMNS: usize = 100;

/// Whether tables on standard output and standard error have all columns.
static WHOLE_TABLES: AtomicBool = AtomicBool::new(false);

/// From now on tables on [`Screen::stdout`] and [`Screen::stderr`] have all columns at any width: what `--wide` asks for.
pub fn show_whole_tables() {
    WHOLE_TABLES.store(true, Ordering::Relaxed); // read by the thread that prints, which has set it
}

/// A stream as a place to read: its width, whether it shows more than ASCII, and whether it shows colours.
///
/// ```
/// use contend_report::Screen;
///
/// let narrow = Screen::wide(20).ascii();
/// assert_eq!(narrow.fit("a wait of 3 µs → a sleep\n"), "a wait of 3 us -> a\nsleep\n");
/// assert_eq!(Screen::FILE.fit("a wait of 3 µs → a sleep\n"), "a wait of 3 µs → a sleep\n");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// The width of prose.
    columns: Option<usize>,
    /// The width of tables.
    table_columns: Option<usize>,
    ascii: bool,
    coloured: bool,
    /// Whether the command that prints has `--csv`.
    has_csv: bool,
}

impl Screen {
    /// A document: lines of any length, and every character.
    pub const FILE: Self =
        Self { columns: None, table_columns: None, ascii: false, coloured: false, has_csv: false };

    /// A pipe or a file without `COLUMNS`: prose in lines of any length, as one searches it; tables as on a terminal of 100
    /// columns, as one reads them.
    pub const PIPE: Self = Self { table_columns: Some(PIPE_COLUMNS), ..Self::FILE };

    /// A terminal of so many columns that shows every character.
    pub const fn wide(columns: usize) -> Self {
        Self { columns: Some(columns), table_columns: Some(columns), ..Self::FILE }
    }

    /// The same with all columns of tables, whatever its width.
    #[must_use]
    pub const fn with_whole_tables(self) -> Self {
        Self { table_columns: None, ..self }
    }

    /// The same for a command that has `--csv`, which tables name beside `--wide` where they leave columns out.
    #[must_use]
    pub const fn with_csv(self) -> Self {
        Self { has_csv: true, ..self }
    }

    /// The same with ASCII characters alone.
    #[must_use]
    pub const fn ascii(self) -> Self {
        Self { ascii: true, ..self }
    }

    /// The same with verdicts in colour, whatever the environment says.
    #[must_use]
    pub fn coloured(self) -> Self {
        crossterm::style::force_color_output(true); // it reads NO_COLOR too
        Self { coloured: true, ..self }
    }

    /// The same with no more than so many columns.
    #[must_use]
    pub fn at_most(self, columns: usize) -> Self {
        let narrower = |own: Option<usize>| Some(own.map_or(columns, |own| own.min(columns)));
        Self { columns: narrower(self.columns), table_columns: narrower(self.table_columns), ..self }
    }

    /// Standard output.
    pub fn stdout() -> Self {
        Self::of(std::io::stdout())
    }

    /// Standard error.
    pub fn stderr() -> Self {
        Self::of(std::io::stderr())
    }

    /// Reads the width of a stream: `COLUMNS` if it is a number above 0, else that of the terminal. A stream that is
    /// no terminal has none, but for tables. The locale says whether it shows more than ASCII, and
    /// the environment whether verdicts are in colour.
    fn of(stream: impl AsFd) -> Self {
        use std::io::IsTerminal as _;
        let set = |name: &str| std::env::var(name).ok();
        let asked = set("COLUMNS").and_then(|text| text.trim().parse().ok()).filter(|&columns| columns > 0);
        let terminal = stream.as_fd().is_terminal().then(|| {
            let size = terminal_size::terminal_size_of(stream.as_fd());
            size.map_or(UNKNOWN_COLUMNS, |(width, _)| usize::from(width.0))
        });
        let screen = asked.or(terminal).map_or(Self::PIPE, Self::wide);
        let screen = if WHOLE_TABLES.load(Ordering::Relaxed) { screen.with_whole_tables() } else { screen };
        Self { ascii: ascii_locale(set), coloured: is_coloured(terminal.is_some(), set), ..screen }
    }

    /// How many columns there are for prose; `None` where lines may have any length.
    pub fn columns(self) -> Option<usize> {
        self.columns
    }

    /// How many columns there are for a table; `None` where it is shown as a whole.
    pub fn table_columns(self) -> Option<usize> {
        self.table_columns
    }

    /// How many columns a drawing takes.
    pub fn drawing_columns(self) -> usize {
        self.columns.unwrap_or(PIPE_COLUMNS)
    }

    /// Whether verdicts are in colour.
    pub fn is_coloured(self) -> bool {
        self.coloured
    }

    /// A verdict in its colour, where there are colours: red where it is bad, green where it is good, yellow where it is open.
    pub fn verdict(self, words: &str) -> Cow<'_, str> {
        match Tone::of(words).filter(|_| self.coloured) {
            Some(tone) => tone.paint(words).into(),
            None => words.into(),
        }
    }

    /// How to see all columns of a table.
    pub(crate) fn remedy(self) -> &'static str {
        if self.has_csv { "--wide or --csv shows all" } else { "--wide shows all" }
    }

    /// Whether nothing but ASCII may be written.
    pub fn is_ascii(self) -> bool {
        self.ascii
    }

    /// Lines of prose as they are shown here: wrapped between words, each at the indentation of its own line. A word
    /// is never broken, so that a path can be copied; and so can a line that is a command of ours, which goes on after a backslash.
    /// Characters that do something other than being seen become escapes: names of files in messages come from any user.
    pub fn fit(self, text: &str) -> String {
        let text = printable_lines(text);
        let text = self.spell(&text);
        let Some(columns) = self.columns else { return text.into_owned() };
        let mut fitted = String::with_capacity(text.len() + text.len() / 16);
        for line in text.split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            let indent = &line[..line.len() - line.trim_start_matches(' ').len()];
            if is_command(line) {
                fitted.push_str(&fit_command(line, indent, columns));
                fitted.push_str(end);
                continue;
            }
            let options = Options::new(columns)
                .subsequent_indent(indent)
                .break_words(false)
                .wrap_algorithm(WrapAlgorithm::FirstFit)
                .word_separator(WordSeparator::AsciiSpace)
                .word_splitter(WordSplitter::NoHyphenation);
            fitted.push_str(&textwrap::fill(line, options));
            fitted.push_str(end);
        }
        fitted
    }

    /// Text with the characters that this screen shows: units, arrows and lines are spelt in ASCII where nothing else
    /// is shown, and letters that have no such spelling become escapes such as `\u{e9}`.
    pub fn spell(self, text: &str) -> Cow<'_, str> {
        if !self.ascii || text.is_ascii() {
            return text.into();
        }
        let mut spelt = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                'µ' | 'μ' => spelt.push('u'),
                '×' => spelt.push('x'),
                '·' => spelt.push('*'),
                '→' => spelt.push_str("->"),
                '←' => spelt.push_str("<-"),
                '≤' => spelt.push_str("<="),
                '≥' => spelt.push_str(">="),
                '≠' => spelt.push_str("!="),
                '±' => spelt.push_str("+-"),
                '−' | '–' | '—' | '─' => spelt.push('-'),
                '│' | '┤' => spelt.push('|'),
                '└' | '┬' => spelt.push('+'),
                '…' => spelt.push_str("..."),
                '‘' | '’' => spelt.push('\''),
                '“' | '”' => spelt.push('"'),
                'ⁿ' => spelt.push_str("^n"),
                '₁' => spelt.push('1'),
                '₂' => spelt.push('2'),
                '∞' => spelt.push_str("inf"),
                ascii if ascii.is_ascii() => spelt.push(ascii),
                other => {
                    let _ = write!(spelt, "{}", other.escape_unicode());
                }
            }
        }
        spelt.into()
    }
}

/// Whether a line is a command of ours, as one types it: after a `$`, or indented. A sentence about a program of this name is none.
fn is_command(line: &str) -> bool {
    let command = line.trim_start_matches(' ');
    let is_indented = command.len() < line.len();
    command.strip_prefix("$ ").or(is_indented.then_some(command)).is_some_and(|it| it.starts_with("contend "))
}

/// A command over several lines, as a shell reads it: each but the last ends with a backslash.
fn fit_command(line: &str, indent: &str, columns: usize) -> String {
    const CONTINUED: &str = " \\";
    /// A space follows it.
    const FURTHER: &str = "   ";
    if display_width(line) <= columns {
        return line.to_owned();
    }
    let mut fitted = indent.to_owned();
    let mut width = indent.len();
    for (number, word) in shell_words(line).enumerate() {
        let wide = display_width(word);
        if number > 0 && width + 1 + wide + CONTINUED.len() > columns {
            fitted.push_str(CONTINUED);
            fitted.push('\n');
            fitted.push_str(indent);
            fitted.push_str(FURTHER);
            width = indent.len() + FURTHER.len();
        }
        if number > 0 {
            fitted.push(' ');
            width += 1;
        }
        fitted.push_str(word);
        width += wide;
    }
    fitted
}

/// What stands between the spaces of a command that are not quoted.
fn shell_words(line: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    let mut escaped = false;
    let words = line.split(move |character| {
        let plain = !std::mem::take(&mut escaped);
        match (quote, character) {
            (None, ' ') if plain => return true,
            (None, '\'' | '"') if plain => quote = Some(character),
            (Some(open), _) if open == character && plain => quote = None,
            (None | Some('"'), '\\') if plain => escaped = true,
            _ => {}
        }
        false
    });
    words.filter(|word| !word.is_empty())
}

/// Whether the locale that the environment names has no characters beyond ASCII: `C`, `POSIX`, or one whose character
/// set is not UTF-8. An environment that names none is that of a container or a service, and taken to show UTF-8.
fn ascii_locale(set: impl Fn(&str) -> Option<String>) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let Some(locale) = names.into_iter().find_map(|name| set(name).filter(|value| !value.is_empty())) else {
        return false;
    };
    let charset = locale.split_once('.').map_or("", |(_, charset)| charset).split('@').next().unwrap_or("");
    !matches!(charset.to_ascii_lowercase().as_str(), "utf-8" | "utf8")
}

/// Whether colours are shown: on a terminal that has them, or anywhere with `CLICOLOR_FORCE`; not with `NO_COLOR`
/// (<https://no-color.org>, <https://bixense.com/clicolors>).
fn is_coloured(terminal: bool, set: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| set(name).is_some_and(|value| !value.is_empty());
    let is = |name: &str, value: &str| set(name).is_some_and(|is| is == value);
    let forced = is_set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0");
    let can = terminal && is_set("TERM") && !is("TERM", "dumb") && !is("CLICOLOR", "0");
    !is_set("NO_COLOR") && (forced || can)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_have_them_and_for_who_asks() {
        let coloured = |terminal, variables: &[(&str, &str)]| {
            is_coloured(terminal, |name| {
                variables.iter().find(|(known, _)| *known == name).map(|&(_, value)| value.to_owned())
            })
        };
        let xterm = ("TERM", "xterm");
        assert!(coloured(true, &[xterm]));
        assert!(coloured(true, &[xterm, ("NO_COLOR", ""), ("CLICOLOR", "1")]));
        assert!(coloured(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(coloured(true, &[("TERM", "dumb"), ("CLICOLOR", "0"), ("CLICOLOR_FORCE", "1")]));
        assert!(!coloured(false, &[xterm]));
        assert!(!coloured(false, &[xterm, ("CLICOLOR_FORCE", "0")]));
        assert!(!coloured(true, &[]));
        assert!(!coloured(true, &[("TERM", "dumb")]));
        assert!(!coloured(true, &[xterm, ("CLICOLOR", "0")]));
        assert!(!coloured(true, &[xterm, ("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
    }

    #[test]
    fn a_screen_is_made_narrower_and_never_wider() {
        assert_eq!(Screen::wide(100).at_most(80), Screen::wide(80));
        assert_eq!(Screen::wide(60).ascii().at_most(80), Screen::wide(60).ascii());
        assert_eq!(Screen::FILE.at_most(80), Screen::wide(80));
        assert_eq!(Screen::PIPE.at_most(80).coloured(), Screen::wide(80).coloured());
    }

    #[test]
    fn prose_is_wrapped_between_words_only() {
        let text = "one two\n  three four five\n\n/a/path/that/is/wider/than/the/screen end\n";
        assert_eq!(
            Screen::wide(12).fit(text),
            "one two\n  three four\n  five\n\n/a/path/that/is/wider/than/the/screen\nend\n"
        );
        assert_eq!(Screen::FILE.fit(text), text);
        assert_eq!(Screen::wide(1).fit("a b"), "a\nb");
        assert_eq!(Screen::wide(80).fit(""), "");
    }

    #[test]
    fn a_command_can_be_copied() {
        let text = "Again:\n  $ contend run --metric 'a b: ([0-9]+)' -- ./a\\ b \"c d\" e\n";
        let fitted = Screen::wide(34).fit(text);
        assert_eq!(
            fitted,
            "Again:\n  $ contend run --metric \\\n      'a b: ([0-9]+)' -- ./a\\ b \\\n      \"c d\" e\n"
        );
        assert_eq!(fitted.replace("\\\n      ", ""), text, "a shell reads the same");
        assert_eq!(Screen::wide(80).fit(text), text);
        assert_eq!(Screen::wide(20).fit("contend waits for the lock\n"), "contend waits for\nthe lock\n");
    }

    #[test]
    fn ascii_is_ascii_whatever_comes() {
        let all: String = ('\u{0}'..='\u{2fff}').collect();
        assert!(Screen::FILE.ascii().spell(&all).is_ascii());
        assert_eq!(Screen::FILE.ascii().spell("1 → 2 µs, × 3, é"), "1 -> 2 us, x 3, \\u{e9}");
        assert_eq!(Screen::FILE.spell("é"), "é");
    }

    #[test]
    fn the_locale_says_which_characters_there_are() {
        let ascii = |variables: &[(&str, &str)]| {
            let variables: Vec<(String, String)> =
                variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            ascii_locale(|name| {
                variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            })
        };
        assert!(ascii(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(ascii(&[("LC_ALL", "POSIX")]));
        assert!(ascii(&[("LANG", "de_DE.ISO-8859-1")]));
        assert!(ascii(&[("LANG", "de_DE@euro")]));
        assert!(ascii(&[("LC_CTYPE", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!ascii(&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")]));
        assert!(!ascii(&[("LC_ALL", "C.utf8")]));
        assert!(!ascii(&[("LANG", "ca_ES.UTF-8@valencia")]));
        assert!(!ascii(&[]));
    }
}
