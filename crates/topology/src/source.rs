//! What stands behind a number.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether a number was measured, or how else it came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// A row of a published table, a vendor's statement, or a command that measured it.
    Cited,
    /// Chosen so that the model gives a published row.
    Fitted,
    /// It has not been measured.
    Assumed,
    /// Recalled and not checked.
    Unverified,
}

impl Basis {
    /// The words with which a source of this kind begins in a file; a cited one has none of its own.
    const WORDS: [(&str, Self); 3] =
        [("fitted to", Self::Fitted), ("assumed", Self::Assumed), ("unverified", Self::Unverified)];

    /// In two words, for a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cited => "its source",
            Self::Fitted => "a fit",
            Self::Assumed => "an assumption",
            Self::Unverified => "unverified",
        }
    }

    /// Whether anything stands behind the number.
    pub fn is_evidence(self) -> bool {
        matches!(self, Self::Cited | Self::Fitted)
    }
}

/// Where a number is from. In a file it is a text that names a row or a command, or that begins with "fitted to",
/// "assumed" or "unverified".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Source {
    basis: Basis,
    text: String,
}

impl Source {
    /// The source that such a row or command is.
    pub fn cited(text: impl Into<String>) -> Self {
        Self { basis: Basis::Cited, text: text.into() }
    }

    /// A number that has not been measured, with the reason for its value.
    pub fn assumed(why: impl fmt::Display) -> Self {
        Self { basis: Basis::Assumed, text: format!("assumed: {why}") }
    }

    /// What kind of source it is.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// The source as a file has it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The source with more detail at its end.
    #[must_use]
    pub fn detailed(&self, detail: &str) -> Self {
        let text = if detail.is_empty() { self.text.clone() } else { format!("{}: {detail}", self.text) };
        Self { basis: self.basis, text }
    }

    /// Whether the file says nothing.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }
}

impl From<String> for Source {
    fn from(text: String) -> Self {
        let known = Basis::WORDS.into_iter().find(|(words, _)| text.starts_with(words));
        Self { basis: known.map_or(Basis::Cited, |(_, basis)| basis), text }
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        source.text
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_begins_with_what_it_is_and_stays_as_it_was_written() {
        for (text, basis) in [
            ("fitted to MEMPOP,ticket,throughput_at_48", Basis::Fitted),
            ("fitted by hand", Basis::Cited),
            ("assumed", Basis::Assumed),
            ("assumed: as dl580", Basis::Assumed),
            ("unverified: recalled", Basis::Unverified),
            ("core_to_core.csv: 2x EPYC 9654, same_l3", Basis::Cited),
        ] {
            let source = Source::from(text.to_owned());
            assert_eq!((source.basis(), source.as_str()), (basis, text));
        }
        assert_eq!(Source::assumed("a guess").as_str(), "assumed: a guess");
        assert_eq!(Source::from("assumed: a guess".to_owned()), Source::assumed("a guess"));
        let detailed = Source::assumed("a guess").detailed("from far");
        assert_eq!((detailed.basis(), detailed.as_str()), (Basis::Assumed, "assumed: a guess: from far"));
    }
}
