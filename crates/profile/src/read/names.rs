//! Names of functions and locks: how they are shortened, and what may be printed.

/// A demangled function without its parameters, template arguments and trailing qualifiers.
pub(super) fn without_arguments(function: &str) -> String {
    const PLACEHOLDER: &str = "(anonymous namespace)";
    let function = function.replace(PLACEHOLDER, "{anonymous}");
    let mut bare = String::with_capacity(function.len());
    let mut depth = 0usize;
    let mut is_operator = false;
    let mut rest = function.as_str();
    while let Some(letter) = rest.chars().next() {
        if depth == 0 && begins_operator(&bare, rest) {
            is_operator = true;
            // The parameters begin at the first parenthesis, but for the call operator at the second.
            let name = if rest.starts_with("operator()") { "operator()".len() } else { "operator".len() };
            let end = rest[name..].find('(').map_or(rest.len(), |at| name + at);
            bare.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && !bare.is_empty() => break,
            _ if depth == 0 => bare.push(letter),
            _ => {}
        }
        rest = &rest[letter.len_utf8()..];
    }
    // A template's name begins with its return type.
    let start = bare.rfind(' ').filter(|_| !is_operator).map_or(0, |at| at + 1);
    let bare = &bare[start..];
    if bare.is_empty() { function } else { bare.replace("{anonymous}", PLACEHOLDER) }
}

/// Whether the rest of a name is that of an operator: the word, not a part of another one.
fn begins_operator(before: &str, rest: &str) -> bool {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let behind = rest.strip_prefix("operator");
    behind.is_some_and(|behind| !behind.starts_with(is_of_word) && !before.ends_with(is_of_word))
}

/// A thread's name out of its two halves, safe to print.
pub(super) fn thread_name(first: u64, second: u64) -> String {
    let bytes = [first, second].map(u64::to_le_bytes).concat();
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    printable(&String::from_utf8_lossy(name))
}

/// A name that a file tells, safe to print, and cut after so many bytes. A name is told once, and many rows may have it.
pub(super) fn printable_up_to(most: usize, name: &str) -> String {
    const CUT: &str = "…";
    let boundary =
        |text: &str, most: usize| (0..=most.min(text.len())).rfind(|&at| text.is_char_boundary(at));
    let end = boundary(name, most).unwrap_or(0);
    let mut clean = printable(&name[..end]);
    if clean.len() > most || end < name.len() {
        clean.truncate(boundary(&clean, most - CUT.len()).unwrap_or(0));
        clean.push_str(CUT);
    }
    clean
}

/// Bytes of a name of a program or library: as long as Linux has them, and what it appends to those of files that are gone.
pub(super) const LONGEST_FILE: usize = 255 + " (deleted)".len();

/// Bytes of a name of a function or variable. Without arguments those of programs are shorter.
pub(super) const LONGEST_SYMBOL: usize = 1024;

/// Text that does nothing to a terminal: control characters, and those that reorder or hide text, become escapes.
pub fn printable(text: &str) -> String {
    let harmful = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if harmful(letter) { clean.extend(letter.escape_unicode()) } else { clean.push(letter) }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_and_names_stay() {
        assert_eq!(
            without_arguments("std::vector<int, std::allocator<int> >::push_back(int&&)"),
            "std::vector::push_back"
        );
        assert_eq!(without_arguments("void std::lock<std::mutex>(std::mutex&)"), "std::lock");
        assert_eq!(without_arguments("(anonymous namespace)::work(int)"), "(anonymous namespace)::work");
        assert_eq!(without_arguments("a::operator()(int) const"), "a::operator()");
        assert_eq!(without_arguments("void Cooperator<int>::f<long>(int)"), "Cooperator::f");
        assert_eq!(without_arguments("operators<int>::get()"), "operators::get");
        assert_eq!(without_arguments("plain"), "plain");
        assert_eq!(without_arguments("<<<"), "<<<");
    }

    #[test]
    fn what_is_longer_than_names_are_is_cut() {
        assert_eq!(printable_up_to(8, "eightlng"), "eightlng");
        assert_eq!(printable_up_to(8, "ninebytes"), "nineb…");
        assert_eq!(printable_up_to(8, "éééé"), "éééé");
        assert_eq!(printable_up_to(8, "xéééé"), "xéé…");
        assert_eq!(printable_up_to(8, "\u{1b}\u{1b}"), "\\u{1b…", "what is escaped is longer");
    }

    #[test]
    fn nothing_reaches_the_terminal_that_commands_it() {
        assert_eq!(printable("a\u{1b}[31mb\nc\u{202e}d"), "a\\u{1b}[31mb\\u{a}c\\u{202e}d");
        assert_eq!(printable("<b>naïve</b>"), "<b>naïve</b>");
    }
}
