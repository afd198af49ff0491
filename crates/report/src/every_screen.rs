//! One text on every kind of screen, for the snapshots of tables in tests.

use crate::Screen;

/// The screens on which tables are compared: terminals, a pipe, all columns, and a terminal whose locale has nothing but ASCII.
const SCREENS: [(&str, Screen); 6] = [
    ("60 columns", Screen::wide(60)),
    ("80 columns", Screen::wide(80)),
    ("132 columns", Screen::wide(132)),
    ("a pipe", Screen::PIPE),
    ("a pipe with --wide", Screen::FILE),
    ("80 columns of ASCII", Screen::wide(80).ascii()),
];

/// What `show` gives for terminals of 60, 80 and 132 columns, for a pipe, with all columns, and for a terminal without more
/// than ASCII, each under a heading.
///
/// # Panics
///
/// On a line that is wider than its screen, on one of `names` that is broken on some screen, and on a character
/// beyond ASCII where there is nothing else: what holds of every table, whatever its snapshot says.
pub fn every_screen(names: &[&str], show: impl Fn(Screen) -> String) -> String {
    let mut all = String::new();
    for (title, screen) in SCREENS {
        let shown = show(screen);
        if let Some(columns) = screen.columns() {
            let wide = shown.lines().find(|line| unicode_width::UnicodeWidthStr::width(*line) > columns);
            assert!(wide.is_none(), "on {title} this line is too wide: {wide:?}\n{shown}");
        }
        for name in names {
            let spelt = screen.spell(name);
            assert!(shown.contains(&*spelt), "{spelt} is broken on {title}:\n{shown}");
        }
        assert!(!screen.is_ascii() || shown.is_ascii(), "more than ASCII on {title}:\n{shown}");
        all.push_str(&format!("==== {title}\n{}\n", shown.trim_end()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn texts_that_do_not_fit_their_screen_are_refused() {
        let shown = every_screen(&["a → b"], |screen| screen.fit("a → b and so on\n"));
        assert!(shown.starts_with("==== 60 columns\na → b and so on\n==== 80"), "{shown}");
        assert!(shown.ends_with("of ASCII\na -> b and so on\n"), "{shown}");
        for wrong in [format!("name {}", "x".repeat(61)), "name µ".into(), "na\nme".into()] {
            assert!(catch_unwind(|| every_screen(&["name"], |_| wrong.clone())).is_err(), "{wrong}");
        }
    }
}
