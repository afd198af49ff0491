//! What a verdict is coloured by: whether it is bad, good or open.

use crossterm::style::{Color, Stylize as _};

/// What a verdict means to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// It gets worse, or something is wrong.
    Bad,
    /// It gets better, or nothing is wrong.
    Good,
    /// It is not known.
    Open,
}

/// What verdicts of each tone begin with. The words are those of `contend predict`, `compare`, `gate`, `check`, `reproduce` and
/// `bench`; a verdict that begins with none of them, such as `no difference seen`, has no colour.
const BEGINNINGS: &[(Tone, &[&str])] = &[
    (
        Tone::Bad,
        &[
            "collapses", "falls", "worse", "missed", // What `check` finds.
            "two holders", "data race", "endless wait", "endless polling", "livelock",
            "node used after its return", "panic",
        ],
    ),
    (
        Tone::Good,
        &[
            "rises", "still rises", "grows", "level", "levels off", "no collapse", "better", "pass",
            "verified", "met",
        ],
    ),
    (
        Tone::Open,
        &[
            "uncertain", "inconclusive", "void", "cannot tell", "cannot be told", "not judged", "not begun",
            "incomplete", "interrupted",
        ],
    ),
];

impl Tone {
    /// The tone of a verdict in words.
    pub(crate) fn of(verdict: &str) -> Option<Self> {
        let begins = |word: &&str| {
            verdict.strip_prefix(*word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        BEGINNINGS.iter().find(|(_, words)| words.iter().any(begins)).map(|&(tone, _)| tone)
    }

    /// The terminal's own red, green or yellow.
    const fn colour(self) -> Color {
        match self {
            Self::Bad => Color::DarkRed,
            Self::Good => Color::DarkGreen,
            Self::Open => Color::DarkYellow,
        }
    }

    /// The same for a cell of a table.
    pub(crate) const fn cell_colour(self) -> comfy_table::Color {
        match self {
            Self::Bad => comfy_table::Color::DarkRed,
            Self::Good => comfy_table::Color::DarkGreen,
            Self::Open => comfy_table::Color::DarkYellow,
        }
    }

    /// Text in this tone's colour.
    pub(crate) fn paint(self, text: &str) -> String {
        text.with(self.colour()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_known_by_the_words_that_it_begins_with() {
        for (verdict, tone) in [
            ("collapses at 8 (2 to 8), 93 %", Some(Tone::Bad)),
            ("worse", Some(Tone::Bad)),
            ("data race", Some(Tone::Bad)),
            ("rises to 2, then level, 88 %", Some(Tone::Good)),
            ("still rises at 64, measured", Some(Tone::Good)),
            ("levels off", Some(Tone::Good)),
            ("verified", Some(Tone::Good)),
            ("uncertain: 60 % collapses", Some(Tone::Open)),
            ("cannot tell: too few runs", Some(Tone::Open)),
            ("incomplete: time", Some(Tone::Open)),
            ("no difference seen", None),
            ("metered", None),
            ("", None),
        ] {
            assert_eq!(Tone::of(verdict), tone, "{verdict}");
        }
    }
}
