//! Text for people: names made harmless, numbers made short. Whatever shows a name or a number writes it in this way.

use std::fmt::Write;

/// A name as it may be shown: control characters, line breaks and characters that change the direction of text
/// become escapes such as `\u{1b}`.
pub fn printable(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for character in name.chars() {
        if acts(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The same for text of several lines: its line breaks stay.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Whether a character does something other than being seen.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{200e}' | '\u{200f}' | '\u{061c}'       // marks of direction
            | '\u{2028}'..='\u{202e}'                  // line breaks, embeddings and overrides
            | '\u{2066}'..='\u{2069}'                  // isolates
            | '\u{feff}' | '\u{fffe}' | '\u{ffff}') // not characters of a text
}

/// A command line of these words, as a user would type it: a shell reads them back.
///
/// ```
/// assert_eq!(contend_curve::text::command_line(["./mine", "it's", ""]), r"./mine 'it'\''s' ''");
/// ```
pub fn command_line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./,:=+@%".contains(letter);
    let quoted = words.into_iter().map(|word| {
        let word = printable(word);
        let plain = !word.is_empty() && word.chars().all(is_plain);
        if plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// A name as text of Markdown, in a cell of a table too.
pub fn markdown(name: &str) -> String {
    let name = html(name);
    let mut escaped = String::with_capacity(name.len());
    let mut before = ' ';
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        // Within a word it is no markup, and a name that is searched for stays as it is.
        let within = before.is_alphanumeric() && characters.peek().is_some_and(|next| next.is_alphanumeric());
        if "\\|[]*`~".contains(character) || character == '_' && !within {
            escaped.push('\\');
        }
        escaped.push(character);
        before = character;
    }
    escaped
}

/// A name as text or attribute value of HTML.
pub fn html(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for character in printable(name).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A whole number with its thousands apart: `1,234,567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A number with what it counts: `1 thread`, `2 threads`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Three significant digits, more for whole numbers from a thousand on, and powers of ten only at the extremes:
/// `0.0123`, `1.23`, `12,346`, `1.23e-7`. `-` for what is not a number.
pub fn short(value: f64) -> String {
    /// From here on digits stop helping.
    const HUGE: f64 = 1e15;
    if !value.is_finite() {
        return "-".into();
    }
    // Rounded first: 999.6 has four digits, and 0.9996 none behind the point but those of 1.00.
    let scientific = format!("{value:.2e}");
    let exponent =
        scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok()).unwrap_or(0);
    let size = value.abs();
    if size == 0.0 {
        "0".into()
    } else if exponent < -4 || size >= HUGE {
        scientific
    } else if exponent > 2 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", grouped(size.round() as u64))
    } else {
        format!("{value:.*}", usize::try_from(2 - exponent).unwrap_or(0))
    }
}

/// A duration in ns with a fitting unit: `12.3 ns`, `4.56 µs`, `7.89 ms`, `2.50 s`.
pub fn time(ns: f64) -> String {
    /// What is shown as 1,000 of a unit is 1 of the next.
    const ROUNDS_UP: f64 = 0.9995;
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let (unit, name) = units.into_iter().find(|&(unit, _)| ns >= ROUNDS_UP * unit).unwrap_or((1.0, "ns"));
    format!("{} {name}", short(ns / unit))
}

/// A value with a decimal prefix, for axes: `0.5`, `12`, `3.4 k`, `1.2 M`.
pub fn prefixed(value: f64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    /// What is shown as 1,000 of a prefix is 1 of the next.
    const ROUNDS_UP: f64 = 0.999_999_5;
    let size = value.abs();
    let reaches = |&(unit, _): &(f64, &str)| size >= ROUNDS_UP * unit;
    let (unit, prefix) = PREFIXES.into_iter().find(reaches).unwrap_or((1.0, ""));
    let mut shown = format!("{:.3}", value / unit);
    if size != 0.0 && size < 0.01 || size >= 1e15 {
        return format!("{value:.1e}");
    }
    shown.truncate(shown.trim_end_matches('0').trim_end_matches('.').len());
    let _ = write!(shown, "{prefix}");
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_act() {
        assert_eq!(printable("a\x1b[2Jb\n\u{202e}c\u{9b}é"), "a\\u{1b}[2Jb\\n\\u{202e}c\\u{9b}é");
        assert_eq!(html("<b a='\"'>&\x07"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\\u{7}");
    }

    #[test]
    fn numbers_are_short() {
        let shown =
            [0.0, 0.012345, 0.9996, 1.0, 1.234, 9.999, 12.34, 999.4, 999.6, 12345.6, -1234.0, 1.23e-7, 1e300]
                .map(short);
        assert_eq!(
            shown,
            [
                "0", "0.0123", "1.00", "1.00", "1.23", "10.0", "12.3", "999", "1,000", "12,346", "-1,234",
                "1.23e-7", "1.00e300"
            ]
        );
        assert_eq!(short(f64::NAN), "-");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn times_have_a_fitting_unit() {
        assert_eq!(
            [0.0, 12.3, 999.7, 4_560.0, 7.89e6, 999.4e6, 999.7e6, 2.5e9].map(time),
            ["0 ns", "12.3 ns", "1.00 µs", "4.56 µs", "7.89 ms", "999 ms", "1.00 s", "2.50 s"]
        );
    }

    #[test]
    fn axes_have_prefixes() {
        assert_eq!(
            [0.0, 0.25, 1.0, 999.0, 1500.0, 2.5e6, 1e9, 1e300].map(prefixed),
            ["0", "0.25", "1", "999", "1.5 k", "2.5 M", "1 G", "1.0e300"]
        );
        let rounded = [999.9994, 999.9998, 999_999.7, -999_999_999.9].map(prefixed);
        assert_eq!(rounded, ["999.999", "1 k", "1 M", "-1 G"]);
    }
}
