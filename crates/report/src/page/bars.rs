//! Bars of a page: one for each thing, as long as its part of the greatest, with what it is made of.

use super::{Page, name};
use crate::call_sites::percent;
use std::fmt::Write as _;

/// How many pieces of a bar have a colour of their own.
const COLOURS: usize = 2;

/// A bar of [`Page::bars`].
#[derive(Debug, Clone, Default)]
pub struct Bar {
    /// What it stands for.
    pub name: String,
    /// Its figure as it is shown.
    pub value: String,
    /// Its length, from 0 to 1.
    pub length: f64,
    /// What it is made of, each with its share of the bar. What is left of the bar has no name.
    pub pieces: Vec<(f64, String)>,
    /// What else is to be said of it.
    pub note: String,
}

impl Page {
    /// Adds bars under each other.
    #[must_use]
    pub fn bars(mut self, bars: &[Bar]) -> Self {
        if !bars.is_empty() {
            let rows: String = bars.iter().map(Bar::html).collect();
            let _ = writeln!(self.body, "<ol class=\"bars\">\n{rows}</ol>");
        }
        self
    }
}

impl Bar {
    fn html(&self) -> String {
        let (mut drawn, mut named, mut from) = (String::new(), String::new(), 0.0);
        for (place, (share, piece)) in self.pieces.iter().enumerate() {
            let class = format!("piece{}", place.min(COLOURS - 1));
            let _ = write!(drawn, "{}", rectangle(&class, from, self.length * share));
            let _ = write!(named, "<li class=\"{class}\">{} in {}</li>", percent(*share), name(piece));
            from += self.length * share;
        }
        drawn.push_str(&rectangle("rest", from, self.length - from));
        let note =
            if self.note.is_empty() { String::new() } else { format!("<li>{}</li>", name(&self.note)) };
        format!(
            "<li><p><b>{}</b> <span>{}</span></p>\n\
             <svg viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{drawn}</svg>\n\
             <ul>{named}{note}</ul></li>\n",
            name(&self.name),
            name(&self.value),
        )
    }
}

/// A part of a bar, in hundredths of the longest.
fn rectangle(class: &str, from: f64, length: f64) -> String {
    let [from, length] = [from, length].map(|share| 100.0 * share.clamp(0.0, 1.0));
    format!("<rect class=\"{class}\" x=\"{from:.2}\" width=\"{length:.2}\" height=\"1\"/>")
}
