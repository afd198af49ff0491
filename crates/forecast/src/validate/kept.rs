//! What was measured of a program, in a folder of its own with its profiles: predictions by another version are held against it
//! without running the program again.

use super::{Program, Setting, Throughput};
use crate::folder::remove_all;
use crate::question::MeasuredPoint;
use anyhow::{Context as _, bail, ensure};
use compare::calibrate::Placement;
use curve::Point;
use launch::GLIBC;
use serde::{Deserialize, Serialize};
use session::noise::Noise;
use session::output_file::OutputFile;
use std::collections::{BTreeSet, HashMap};
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

/// What is known of a program besides its profiles.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    /// How the program was run, and its throughput read.
    pub(super) load: String,
    /// Where.
    pub(super) machine: MachineFile,
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
    /// What was measured, relative to one thread of the baseline.
    pub(super) fn relative(&self) -> Vec<MeasuredPoint> {
        let point = |(name, point): &(String, Point)| {
            MeasuredPoint::of(Some(name.as_str()).filter(|&name| name != GLIBC), *point)
        };
        self.points.iter().map(point).collect()
    }

    fn file(folder: &Path) -> PathBuf {
        folder.join("measured.json")
    }

    /// Writes it, whole or not at all: without it a folder has nothing.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let file = Self::file(folder);
        OutputFile::at(&file)?.write(&serde_json::to_string_pretty(self)?)
    }

    /// What a folder has of this program; why that is nothing.
    pub(super) fn read(folder: &Path, program: &Program) -> Result<Self, String> {
        let file = Self::file(folder);
        let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", file.display());
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("nothing is kept of it, which --keep does: {}", wrong(&error)))?;
        let measured: Self = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        if measured.load != program.load() {
            return Err(wrong(&format!("kept is another program: {}", measured.load)));
        }
        measured.check().map_err(|what| wrong(&what))?;
        Ok(measured)
    }

    /// Whether all figures are such as can be measured.
    fn check(&self) -> Result<(), String> {
        let is_measured = |value: f64| value.is_finite() && value > 0.0 && value < 1e12;
        let throughputs = self.points.iter().flat_map(|(_, point)| [point.value, point.low, point.high]);
        if let Some(value) = throughputs.chain(self.cores).find(|&value| !is_measured(value)) {
            return Err(format!("{value} is no throughput and no number of cores"));
        }
        self.machine.check().map_err(|error| error.to_string())?;
        self.placement.check()
    }
}

/// Makes a folder forget what it has, before it is measured again.
pub(super) fn forget(folder: &Path) -> anyhow::Result<()> {
    remove_all([Measured::file(folder), profile_file(folder, 1), profile_file(folder, 2)])
}

/// Whether each of these programs has a folder of its own.
///
/// # Errors
///
/// Two that do not, or one whose name makes none.
pub fn check_folders(programs: &[Program]) -> anyhow::Result<()> {
    let mut folders = HashMap::new();
    for program in programs {
        let folder = program.folder();
        ensure!(!folder.is_empty(), "the name {:?} has no letter for a folder: give another", program.name);
        if let Some(other) = folders.insert(folder, &program.name) {
            bail!("{other:?} and {:?} would have one folder: give one of them another name", program.name);
        }
    }
    Ok(())
}

/// The profile on so many threads.
pub(super) fn profile_file(folder: &Path, threads: u32) -> PathBuf {
    folder.join(format!("{threads}.contend"))
}

impl Program {
    /// What its figures mean: the command, and how throughput is read from it.
    pub(super) fn load(&self) -> String {
        let throughput = match &self.throughput {
            Throughput::WallTime => "wall time".to_owned(),
            Throughput::Printed { regex, better } => format!("{regex}, {better:?} is better"),
        };
        let per_thread = if self.per_thread { ", work for each thread" } else { "" };
        format!("{}: {throughput}{per_thread}", self.command.join(" "))
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use compare::calibrate::Placement;
    use topology::carried;

    fn program(name: &str, command: &str) -> Program {
        let command = command.split(' ').map(str::to_owned).collect();
        Program::new(name, command, Throughput::WallTime, false).unwrap()
    }

    fn measured(program: &Program) -> Measured {
        Measured {
            load: program.load(),
            machine: carried::machine("typical"),
            runs: 3,
            cores: Some(1.0),
            points: vec![("mcs".into(), Point::exact(2, 1.5))],
            untouched: BTreeSet::new(),
            noise: Noise::default(),
            placement: Placement::of(None),
        }
    }

    #[test]
    fn what_is_kept_is_read_back_for_the_same_program_alone() {
        let folder = tempfile::tempdir().unwrap();
        let one = program("one", "one -t {threads}");
        assert!(Measured::read(folder.path(), &one).unwrap_err().contains("--keep"));
        measured(&one).write(folder.path()).unwrap();
        let again = Measured::read(folder.path(), &one).unwrap();
        assert_eq!(again.relative()[0].lock.as_deref(), Some("mcs"));
        assert_eq!(again.relative()[0].rate, 1.5);
        let other = Measured::read(folder.path(), &program("one", "one -x -t {threads}")).unwrap_err();
        assert!(other.contains("another program: one -t {threads}: wall time"), "{other}");
        forget(folder.path()).unwrap();
        assert!(Measured::read(folder.path(), &one).is_err());
        forget(folder.path()).unwrap();
    }

    #[test]
    fn figures_that_nobody_can_measure_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let one = program("one", "one -t {threads}");
        let file = folder.path().join("measured.json");
        measured(&one).write(folder.path()).unwrap();
        let good = std::fs::read_to_string(&file).unwrap();
        for (from, to, said) in [
            ("\"value\": 1.5", "\"value\": -1.5", "-1.5 is no throughput"),
            ("\"cores\": 1.0", "\"cores\": 0.0", "0 is no throughput and no number of cores"),
            ("\"transfers_ns\": []", "\"transfers_ns\": [-5.0]", "-5 is no time"),
            ("\"shares\": []", "\"shares\": [0.0]", "0 is no share"),
            ("\"runs\": 3", "\"runs\": \"x\"", "invalid type"),
            ("}", "", "measured.json"),
        ] {
            assert!(good.contains(from), "{from} in {good}");
            std::fs::write(&file, good.replacen(from, to, 1)).unwrap();
            let why = Measured::read(folder.path(), &one).unwrap_err();
            assert!(why.contains(said), "{to}: {why}");
        }
    }

    #[test]
    fn every_program_has_a_folder_of_its_own() {
        let named = |name: &str| program(name, "x {threads}");
        assert_eq!(named("sysbench mutex, 1 mutex").folder(), "sysbench-mutex-1-mutex");
        check_folders(&[named("a b"), named("ab")]).unwrap();
        for (programs, said) in
            [(vec![named("a b"), named("a, b")], "one folder"), (vec![named("..")], "no letter")]
        {
            assert!(check_folders(&programs).unwrap_err().to_string().contains(said));
        }
    }
}
