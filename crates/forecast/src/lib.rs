//! Forecasts: what a profiled program does on more cores, with its own locks and with others in their place.
//!
//! - [`question`]: what is asked, and what was measured; [`answer`]: what becomes of the program, with ranges and verdicts;
//! - `subject`: the profiled program in one piece; [`void`]: profiles that carry no forecast;
//! - [`simulated_program`]: the profiled program rebuilt and run on the simulated machine, which carries on what was measured;
//!   `anchor`: the ratio from the last measured point;
//! - `uncertainty`: how far a forecast may be off; [`verdict`]: what becomes of throughput, with a probability;
//! - [`extrapolated`]: measured curves on more cores, by laws instead of a profile;
//! - [`advice`]: changes to the program, and what each is expected to give;
//! - [`validate`](mod@validate): forecasts against measurements of real programs, and against simulated ones;
//! - [`story`]: what the demo ends with, and [`demo_program`] the program that it measures.
//!
//! A [`Forecast`] is made from a [`Question`] by [`forecast`]; tables, plots and JSON are values, which the caller prints.

pub mod advice;
pub mod advise;
mod anchor;
pub mod answer;
pub mod demo_program;
pub mod extrapolated;
mod folder;
pub mod profiled;
pub mod question;
mod shown;
pub mod simulated_program;
pub mod story;
mod subject;
mod uncertainty;
pub mod validate;
pub mod verdict;
pub mod void;

pub use answer::{Forecast, Point, Row, forecast};
pub use question::{MeasuredPoint, Question, Void};
/// The simulated program runs on up to so many cores.
pub use simulator::{MAX_CORES, MAX_THREADS};
pub use verdict::{Kind, Verdict};
pub use what_if::{Alternative, Change, Conflicts};

use anyhow::{Context as _, ensure};
use curve::Series;
use curve::format::FormatError;
use model::{Family, family_named};
use profile::format::MAGIC;
use session::names;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// What is given for the elided form of a lock of the program's own kind.
pub const ELIDED: &str = "elided";

/// What tables call the program whose lock stays as it is.
const AS_IT_IS: &str = "as it is";

/// The alternatives of these names, each elided lock at both ends of what its sections may do to each other; every family if there are
/// no names.
///
/// # Errors
///
/// A name that is no lock of the catalogue in any form, no family, and not [`ELIDED`].
pub fn alternatives(names: &[String]) -> anyhow::Result<Vec<Alternative>> {
    if names.is_empty() {
        let of_family = |family: Family| Alternative {
            name: family.name().to_owned(),
            elided: None,
            family,
            shared: true,
        };
        return Ok(Family::ALL.into_iter().map(of_family).collect());
    }
    let mut found = Vec::new();
    for name in names {
        let elided = locks::catalogue::find_in_any_form(name).filter(|lock| lock.is_elided());
        if elided.is_some() || name == ELIDED {
            let (family, shared) = elided.map_or((Family::Blocking, true), |lock| (lock.family, lock.shared));
            let at = |conflicts| Alternative { name: name.clone(), elided: Some(conflicts), family, shared };
            found.extend([Conflicts::None, Conflicts::All].map(at));
            continue;
        }
        let family = family_of(name).ok_or_else(|| {
            let elided = locks::catalogue::ELIDED.iter().map(|lock| lock.name);
            names::unknown_lock(name, Family::ALL.into_iter().map(Family::name).chain([ELIDED]).chain(elided))
        })?;
        let shared = locks::catalogue::find(name).is_none_or(|lock| lock.shared);
        found.push(Alternative { name: name.clone(), elided: None, family, shared });
    }
    Ok(found)
}

/// The family of a lock of the catalogue, or of the literature.
#[must_use]
pub fn family_of(lock: &str) -> Option<Family> {
    let known = locks::catalogue::find(lock).map(|lock| lock.family);
    known.or_else(|| family_named(lock))
}

/// Powers of two below `last`, and `last`.
pub(crate) fn powers_of_two(last: u32) -> Vec<u32> {
    (0..u32::BITS).map(|power| 1 << power).take_while(|&count| count < last).chain([last]).collect()
}

/// Curves from a file of contend's: JSON, or CSV with a column for the curve's label.
///
/// # Errors
///
/// A file that cannot be read, or that holds no curves.
pub fn read_series(path: &Path) -> anyhow::Result<Series> {
    let text = read_text(path)?;
    let series = own_series(&text).unwrap_or_else(|| curve::format::read_csv("measured", text.as_bytes()));
    series.with_context(|| path.display().to_string())
}

/// The text of a file, which may be a pipe: it is read once.
fn read_text(path: &Path) -> anyhow::Result<String> {
    /// Longer ones are no measurements, and some have no end.
    const LONGEST: u64 = 64 << 20;
    read_text_up_to(LONGEST, path)
}

/// The text of a file that has at most so many bytes.
///
/// # Errors
///
/// A file that is longer, that cannot be read, or that is no text, as a profile is.
pub fn read_text_up_to(longest: u64, path: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(longest + 1).read_to_end(&mut bytes));
    let length = read.with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        !bytes.starts_with(&MAGIC),
        "{} is a profile: `contend predict` forecasts from it",
        path.display()
    );
    ensure!(length as u64 <= longest, "{}: it is too long: over {} MiB", path.display(), longest >> 20);
    String::from_utf8(bytes).with_context(|| format!("cannot read {}: it is no text", path.display()))
}

/// Curves in a form of contend's, if the text looks like one.
fn own_series(text: &str) -> Option<Result<Series, FormatError>> {
    if text.trim_start().starts_with('{') {
        return Some(curve::format::read_json(text.as_bytes()));
    }
    let has_labels = text.lines().any(|line| line.starts_with("label,"));
    has_labels.then(|| curve::format::read_csv("measured", text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_the_catalogue_and_families_are_alternatives() {
        let names = ["mcs", "ttas", "queue"].map(str::to_owned);
        let families: Vec<_> = alternatives(&names).unwrap().into_iter().map(|lock| lock.family).collect();
        assert_eq!(families, [Family::Queue, Family::TestAndSet, Family::Queue]);
        assert_eq!(alternatives(&[]).unwrap().len(), Family::ALL.len());
        assert!(alternatives(&["no such".to_owned()]).unwrap_err().to_string().contains("contend locks"));
    }

    #[test]
    fn every_lock_of_the_catalogue_has_a_family_of_the_model() {
        for lock in locks::catalogue::LOCKS {
            assert_eq!(alternatives(&[lock.name.to_owned()]).unwrap()[0].family, lock.family);
        }
        for name in ["futex", "rw"] {
            assert_eq!(alternatives(&[name.to_owned()]).unwrap()[0].family, Family::BackOffThenSleep);
            assert_eq!(family_named(name), Some(Family::BackOffThenSleep), "with the catalogue or without");
        }
    }

    #[test]
    fn a_profile_in_the_place_of_text_is_said_to_be_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.contend");
        std::fs::write(&file, MAGIC).unwrap();
        let message = format!("{:#}", read_text(&file).unwrap_err());
        assert!(
            message.ends_with("p.contend is a profile: `contend predict` forecasts from it"),
            "{message}"
        );
        std::fs::write(&file, [0xff]).unwrap();
        assert!(format!("{:#}", read_text(&file).unwrap_err()).contains("it is no text"));
    }

    #[test]
    fn a_file_of_curves_that_is_none_is_named() {
        let message = format!("{:#}", read_series(Path::new("no/such/file.csv")).unwrap_err());
        assert!(message.contains("no/such/file.csv"), "{message}");
    }
}
