//! What was measured of a program, in a folder of its own with its profiles: predictions by another version are held against it
//! without running the program again.

use super::{Program, Setting};
use anyhow::Context as _;
use curve::Point;
use lab::calibrate::Placement;
use lab::noise::Noise;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use topology::MachineFile;

/// Where what is measured comes from, and whether it stays.
#[derive(Debug, Clone)]
pub enum Evidence {
    /// Programs are run, and only what came of it stays.
    Measured,
    /// Programs are run, and what was measured stays in this folder.
    KeptIn(PathBuf),
    /// Nothing is run: this folder has what was measured.
    From(PathBuf),
}

/// The machine on which what a folder has was measured.
#[must_use]
pub fn machine_file(folder: &Path) -> PathBuf {
    folder.join("machine.toml")
}

/// Leaves the machine beside what is measured on it.
///
/// # Errors
///
/// A folder or file that cannot be written.
pub fn keep_machine(folder: &Path, machine: &MachineFile) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let file = machine_file(folder);
    std::fs::write(&file, toml::to_string(machine)?)
        .with_context(|| format!("cannot write {}", file.display()))
}

/// What is known of a program besides its profiles.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    /// Runs of each lock at each number of threads.
    pub(super) runs: u32,
    /// How many cores the whole command uses on one thread.
    pub(super) cores: Option<f64>,
    /// By lock: relative throughput.
    pub(super) points: Vec<(String, Point)>,
    /// Locks that stood in for nothing.
    pub(super) untouched: BTreeSet<String>,
    pub(super) noise: Noise,
    pub(super) placement: Placement,
}

impl Measured {
    pub(super) fn at(&self, lock: &str, threads: u32) -> Option<Point> {
        let found = |(name, point): &&(String, Point)| name == lock && point.cores == threads;
        self.points.iter().find(found).map(|(_, point)| *point)
    }

    fn file(folder: &Path) -> PathBuf {
        folder.join("measured.json")
    }

    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let file = Self::file(folder);
        std::fs::write(&file, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// What a folder has; why that is nothing.
    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let file = Self::file(folder);
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("nothing is kept of it: {}: {error}", file.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
    }
}

/// The profile on so many threads.
pub(super) fn profile_file(folder: &Path, threads: u32) -> PathBuf {
    folder.join(format!("{threads}.contend"))
}

impl Program {
    /// Its folder among those that are kept: its name, of which only letters and digits are left.
    pub(super) fn folder(&self) -> String {
        let words = self.name.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-")
    }
}

impl Setting {
    /// Where profiles and measurements of a program lie, and what removes them afterwards if they do not stay.
    pub(super) fn folder(&self, program: &Program) -> anyhow::Result<(PathBuf, Option<tempfile::TempDir>)> {
        match &self.evidence {
            Evidence::Measured => {
                let folder = tempfile::tempdir().context("cannot make a directory for profiles")?;
                Ok((folder.path().to_owned(), Some(folder)))
            }
            Evidence::KeptIn(all) => {
                let folder = all.join(program.folder());
                std::fs::create_dir_all(&folder)
                    .with_context(|| format!("cannot make the folder {}", folder.display()))?;
                Ok((folder, None))
            }
            Evidence::From(all) => Ok((all.join(program.folder()), None)),
        }
    }
}
