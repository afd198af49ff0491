//! How the values of flags are written, for all commands: durations, cycles, sizes, lists of numbers, percentages.
//!
//! | value    | grammar                                            | examples                         |
//! |----------|----------------------------------------------------|----------------------------------|
//! | duration | a number and `ns`, `us`, `ms`, `s`, `m` or `h`     | `500ns`, `10us`, `90s`, `1.5h`   |
//! | span     | a duration, or a number and `cycles`               | `1us`, `500cycles`, `0`          |
//! | section  | a span, so many shared lines, or `empty`           | `500cycles`, `4-lines`, `empty`  |
//! | size     | a number and `K`, `M` or `G`, in powers of 1,024   | `256M`, `1.5G`                   |
//! | numbers  | a number, `FIRST..LAST`, or `FIRST..LAST:STEP`     | `8`, `1..48`, `4..48:4`          |
//! | percent  | a whole number from 0 to 100, with or without `%`  | `50`, `50%`                      |
//!
//! The section "Flags" of CONTRIBUTING.md says which flag takes which.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use model::Variant;
use session::noise::Limits;
use session::placement::Placement;
use std::time::Duration;

/// Nothing lasts longer, so that no arithmetic with durations overflows.
const LONGEST_S: f64 = 1e8;

/// The units of durations, in seconds.
const TIMES: [(&str, f64); 6] =
    [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// The units of sizes, in bytes.
const SIZES: [(&str, f64); 3] = [("K", 1024.0), ("M", 1_048_576.0), ("G", 1_073_741_824.0)];

const DURATION: &str =
    "a duration is a number and a unit (ns, us, ms, s, m or h), such as 500ms, 90s or 1.5h";

/// The forms of the model by name; for commands that take `--variant`.
pub(crate) fn variants() -> impl TypedValueParser<Value = Variant> {
    let form =
        |variant: Variant| PossibleValue::new(variant.name()).help(format!("t_k = {}", variant.form()));
    PossibleValuesParser::new(Variant::ALL.map(form))
        .map(|name| Variant::named(&name).expect("a possible value is the name of a form"))
}

/// Reads how many rows of a table are shown.
///
/// # Errors
///
/// What is no whole number.
pub(crate) fn rows(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "write a whole number, such as 20; 0 is for all".into())
}

/// Reads how many operations a program did.
///
/// # Errors
///
/// What is no whole number above 0.
pub(crate) fn operations(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "write a whole number of 1 or more, such as 5000".into())
}

/// Reads the number of a process.
///
/// # Errors
///
/// What is none, such as the name of a program.
pub(crate) fn process(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "a process is a number: `pgrep NAME` tells it".into())
}

/// Splits `1.5h` into number and unit; `None` where there is no number, or a negative or infinite one.
fn quantity(text: &str) -> Option<(f64, &str)> {
    let digits = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

/// Reads a number with one of these units, times the unit.
fn in_units(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, unit) = quantity(text)?;
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| number * factor)
}

/// A random seed that leaves room for the seeds that follow it: runs take as many as 1,000.
pub(crate) fn seed() -> impl TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(..=u64::MAX - 1_000)
}

/// Reads a duration above zero.
///
/// # Errors
///
/// What is none, or longer than three years, with the grammar.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let read = time(text).ok_or(DURATION)?;
    if read.is_zero() { Err("a duration is at least 1ns".into()) } else { Ok(read) }
}

fn time(text: &str) -> Option<Duration> {
    let seconds = in_units(text, &TIMES).filter(|&seconds| seconds <= LONGEST_S)?;
    Some(Duration::from_secs_f64(seconds))
}

/// Reads a duration from `least` to `most`, which are written as the command line has them.
pub(crate) fn duration_between(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    let [from, to] = [least, most].map(|bound| duration(bound).expect("a bound is a duration"));
    move |text| {
        let read = duration(text)?;
        if (from..=to).contains(&read) { Ok(read) } else { Err(format!("it is from {least} to {most}")) }
    }
}

/// A time on a processor: in seconds, or in its cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// Cycles, however long one takes.
    Cycles(u64),
    /// A time, however many cycles it takes.
    Time(Duration),
}

impl Span {
    /// Reads `10us`, `500cycles` or `0`.
    ///
    /// # Errors
    ///
    /// Anything else, and what is longer than a second or 10 billion cycles.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const MOST_CYCLES: f64 = 1e10;
        const LONGEST: Duration = Duration::from_secs(1);
        if text == "0" {
            return Ok(Self::Cycles(0));
        }
        let span = match in_units(text, &[("cycles", 1.0)]) {
            Some(cycles) if cycles <= MOST_CYCLES && cycles.fract() == 0.0 => {
                Some(Self::Cycles(cycles as u64))
            }
            Some(_) => return Err("cycles are whole numbers up to 10000000000".into()),
            None => time(text).map(Self::Time),
        };
        match span {
            Some(Self::Time(time)) if time > LONGEST => Err("it is at most 1s".into()),
            Some(span) => Ok(span),
            None => Err("write a time or cycles, such as 500ns, 10us, 500cycles or 0".into()),
        }
    }

    /// Cycles of a processor of so many GHz.
    pub(crate) fn cycles(self, ghz: f64) -> u64 {
        match self {
            Self::Cycles(cycles) => cycles,
            Self::Time(time) => (time.as_secs_f64() * 1e9 * ghz).round() as u64,
        }
    }

    /// Nanoseconds on a processor of so many GHz.
    pub(crate) fn ns(self, ghz: f64) -> u64 {
        match self {
            Self::Cycles(cycles) => (cycles as f64 / ghz).round() as u64,
            Self::Time(time) => time.as_nanos() as u64,
        }
    }
}

/// What is done in a critical section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    /// So many shared lines are changed.
    Lines(usize),
    /// Time passes.
    Span(Span),
}

impl Section {
    /// Reads `empty`, `4-lines`, `1us` or `500cycles`.
    ///
    /// # Errors
    ///
    /// Anything else, with what may be written.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const MOST_LINES: usize = 4096;
        if text == "empty" {
            return Ok(Self::Lines(0));
        }
        if let Some(lines) = text.strip_suffix("-lines") {
            let lines = lines.parse().ok().filter(|&lines| lines <= MOST_LINES);
            return lines
                .map(Self::Lines)
                .ok_or_else(|| format!("lines are a number up to {MOST_LINES}, as in 4-lines"));
        }
        Span::parse(text).map(Self::Span).map_err(|error| {
            if error.starts_with("write") {
                "a section is `empty`, so many lines, a time, or cycles, such as 4-lines, 1us or 500cycles"
                    .into()
            } else {
                error
            }
        })
    }
}

/// Reads a size in bytes from `least` to `most`, which are written as the command line has them.
pub(crate) fn size_between(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    let read = |text: &str| {
        let text = text.strip_suffix("iB").or(text.strip_suffix('B')).unwrap_or(text);
        in_units(text, &SIZES).map(|bytes| bytes as u64)
    };
    let [from, to] = [least, most].map(|bound| read(bound).expect("a bound is a size"));
    move |text| {
        let bytes = read(text)
            .ok_or("a size is a number and a unit (K, M or G, in powers of 1024), such as 256M or 1.5G")?;
        if (from..=to).contains(&bytes) { Ok(bytes) } else { Err(format!("it is from {least} to {most}")) }
    }
}

/// One part of a list of numbers: of cores, threads, nodes or sockets. Lists are several of these, with commas between them
/// or by several flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbers {
    first: u32,
    last: u32,
    step: u32,
}

impl Numbers {
    /// Reads `8`, `1..48` or `4..48:4`, all from `least` to `most`.
    pub(crate) fn between(
        least: u32,
        most: u32,
    ) -> impl Fn(&str) -> Result<Self, String> + Clone + Send + Sync + 'static {
        move |text| {
            let Some(numbers) = Self::parse(text) else {
                return Err(
                    "write numbers and ranges: 8, FIRST..LAST or FIRST..LAST:STEP, such as 1,2,4..48:4"
                        .into(),
                );
            };
            if least <= numbers.first && numbers.last <= most {
                Ok(numbers)
            } else {
                Err(format!("it is from {least} to {most}"))
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let Some((first, rest)) = text.split_once("..") else {
            let only = number(text)?;
            return Some(Self { first: only, last: only, step: 1 });
        };
        let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
        let (first, last, step) = (number(first)?, number(last)?, number(step)?);
        (first <= last && step > 0).then_some(Self { first, last, step })
    }

    /// All numbers of a list, ascending, each once.
    pub(crate) fn all<N: TryFrom<u32>>(list: &[Self]) -> Vec<N> {
        let mut all: Vec<u32> =
            list.iter().flat_map(|part| (part.first..=part.last).step_by(part.step as usize)).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().filter_map(|number| number.try_into().ok()).collect()
    }
}

/// Reads a percentage, `50` or `50%`.
///
/// # Errors
///
/// What is no whole number from 0 to 100.
pub(crate) fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|number| (0..=100).contains(number))
        .ok_or_else(|| "a percentage is a whole number from 0 to 100, such as 50 or 50%".into())
}

/// How busy the machine may be: the limit asked for, for every kind of noise, or the usual ones.
pub(crate) fn noise_limits(percent: Option<u32>) -> Limits {
    percent.map_or_else(Limits::default, |percent| Limits::all(f64::from(percent) / 100.0))
}

/// In which order the cores of sockets or memory nodes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PlacementName {
    /// All of one, then all of the next.
    FillFirst,
    /// One of each in turn.
    RoundRobin,
}

impl From<PlacementName> for Placement {
    fn from(name: PlacementName) -> Self {
        match name {
            PlacementName::FillFirst => Self::FillFirst,
            PlacementName::RoundRobin => Self::RoundRobin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_or_explained() {
        for (text, ns) in [
            ("500ns", 500),
            ("10us", 10_000),
            ("250ms", 250_000_000),
            ("90s", 90_000_000_000),
            ("1.5m", 90_000_000_000),
            ("2h", 7_200_000_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for text in [
            "", "m", "90", "-1s", "5 parsecs", "5S", "1e3s", "NaN", "inf", ".", "1.2.3s", "99999999999h", "0",
        ] {
            assert!(duration(text).unwrap_err().contains("such as 500ms"), "{text}");
        }
        assert!(duration("0s").unwrap_err().contains("at least 1ns"));
        let between = duration_between("1ms", "60s");
        assert_eq!(between("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(between("61s"), Err("it is from 1ms to 60s".into()));
    }

    #[test]
    fn spans_are_cycles_or_time() {
        assert_eq!(Span::parse("500cycles"), Ok(Span::Cycles(500)));
        assert_eq!(Span::parse("0"), Ok(Span::Cycles(0)));
        assert_eq!(Span::parse("0us"), Ok(Span::Time(Duration::ZERO)));
        for (text, cycles, ns) in [("10us", 25_000, 10_000), ("500cycles", 500, 200), ("0", 0, 0)] {
            let span = Span::parse(text).unwrap();
            assert_eq!((span.cycles(2.5), span.ns(2.5)), (cycles, ns), "{text}");
        }
        for (text, part) in
            [("10", "such as 500ns"), ("x", "500cycles"), ("0.5cycles", "whole"), ("2s", "at most 1s")]
        {
            assert!(Span::parse(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn sections_are_lines_or_spans() {
        assert_eq!(Section::parse("empty"), Ok(Section::Lines(0)));
        assert_eq!(Section::parse("12-lines"), Ok(Section::Lines(12)));
        assert_eq!(Section::parse("250ns"), Ok(Section::Span(Span::Time(Duration::from_nanos(250)))));
        assert_eq!(Section::parse("500cycles"), Ok(Section::Span(Span::Cycles(500))));
        for text in ["", "4", "lines", "1 us", "-1us", "5lines"] {
            assert!(Section::parse(text).unwrap_err().contains("4-lines, 1us"), "{text}");
        }
        assert!(Section::parse("99999-lines").unwrap_err().contains("4096"));
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        let size = size_between("1M", "1024G");
        assert_eq!(size("256M"), Ok(256 << 20));
        assert_eq!(size("1.5G"), Ok(3 << 29));
        for text in ["64MB", "64MiB"] {
            assert_eq!(size(text), Ok(64 << 20));
        }
        for text in ["", "256", "256B", "M", "1T", "-1M"] {
            assert!(size(text).unwrap_err().contains("such as 256M"), "{text}");
        }
        for text in ["1K", "1025G", "0M"] {
            assert_eq!(size(text), Err("it is from 1M to 1024G".into()), "{text}");
        }
    }

    #[test]
    fn numbers_are_lists_and_ranges() {
        let read = Numbers::between(0, 4096);
        let all = |text: &str| {
            let parts: Result<Vec<_>, _> = text.split(',').map(&read).collect();
            parts.map(|parts| Numbers::all::<u32>(&parts))
        };
        assert_eq!(all("8"), Ok(vec![8]));
        assert_eq!(all("4,1..3,2"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(all("1,2,4..12:4"), Ok(vec![1, 2, 4, 8, 12]));
        assert_eq!(all("1..10:4"), Ok(vec![1, 5, 9]));
        for text in ["", "x", "3..1", "1..5:0", "-1", "1...4", "0-3", "1..", "1:2"] {
            assert!(all(text).unwrap_err().contains("1,2,4..48:4"), "{text}");
        }
        assert_eq!(all("1..4097"), Err("it is from 0 to 4096".into()));
        assert!(Numbers::between(1, 8)("0").is_err());
    }

    #[test]
    fn percentages_are_whole() {
        assert_eq!((percent("0"), percent("50%"), percent("100")), (Ok(0), Ok(50), Ok(100)));
        for text in ["", "%", "101", "-1", "1.5", "50 %"] {
            assert!(percent(text).unwrap_err().contains("such as 50"), "{text}");
        }
    }
}
