//! Progress bars on standard error.

use indicatif::{ProgressBar, ProgressStyle};
use report::Screen;

/// A bar of so many steps, followed by `words`, a template of indicatif. Hidden where standard error is no terminal.
pub(crate) fn bar(steps: usize, words: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{{bar:20}} {{pos}}/{{len}} {words}"))
        .expect("templates are constants of this command");
    let style = if Screen::stderr().is_ascii() { style.progress_chars("#-") } else { style };
    ProgressBar::new(steps as u64).with_style(style)
}
