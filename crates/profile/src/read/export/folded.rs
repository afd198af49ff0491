//! Folded stacks: lines of text, for flamegraph.pl, inferno, speedscope and other drawers of flame graphs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Sample, samples};
use crate::read::LockTable;

/// The table as folded stacks: a line for each stack, the calls from the outermost to the lock, separated by semicolons, then a
/// space and the stack's weight. Stacks of no weight are left out.
///
/// Readers take no escapes, so that what would break a line is replaced: a semicolon by a colon, as `stackcollapse-perf.pl` does,
/// white space by single spaces, and the last of those by `_` where a number follows it.
pub fn to_folded(table: &LockTable, weight: impl Fn(&Sample<'_>) -> f64) -> String {
    let mut stacks: BTreeMap<String, f64> = BTreeMap::new();
    for sample in samples(table) {
        *stacks.entry(fold(&sample)).or_default() += weight(&sample);
    }
    let mut lines = String::new();
    for (stack, weight) in stacks {
        let weight = weight.round() as u64;
        if weight > 0 {
            writeln!(lines, "{stack} {weight}").expect("a string takes everything");
        }
    }
    lines
}

fn fold(sample: &Sample<'_>) -> String {
    let mut frames: Vec<String> = Vec::new();
    for call in sample.stack() {
        match &call.lines[..] {
            [] => frames.push(format!("{:#x}", call.address)),
            lines => frames.extend(lines.iter().map(|line| frame(&line.function))),
        }
    }
    frames.reverse();
    frames.join(";")
}

/// A name as a part of a line.
fn frame(name: &str) -> String {
    let mut words: Vec<_> = name
        .split(|letter: char| letter.is_whitespace() || letter.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let last = words.pop().unwrap_or("[unknown]");
    // Readers take two numbers at the end of a line for the weights of two runs.
    let is_number = last.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    let between = match words[..] {
        [] => "",
        _ if is_number => "_",
        _ => " ",
    };
    format!("{}{between}{last}", words.join(" ")).replace(';', ":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_nothing_that_ends_it_or_its_line() {
        for (name, expected) in [
            ("cache", "cache"),
            ("operator new[](unsigned long)", "operator new[](unsigned long)"),
            ("<[u8; 4] as Fill>::fill", "<[u8: 4] as Fill>::fill"),
            ("two\nlines\tand  spaces ", "two lines and spaces"),
            ("queue 7", "queue_7"),
            ("queue of 7.5", "queue of_7.5"),
            ("7", "7"),
            ("queue #7", "queue #7"),
            (" \u{2028}\0", "[unknown]"),
            ("", "[unknown]"),
        ] {
            assert_eq!(frame(name), expected, "{name:?}");
        }
    }
}
