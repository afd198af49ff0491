//! Where the locks are taken that `run --only` asks for by the names that a profile prints.
//!
//! What lies in a variable, or is initialised by a call, the preload library finds by its name. Any other lock it finds by the calls
//! that take it, and of these a profile of the program has all that were seen: the profile that the user gives, or the latest one of
//! the program in the current folder.

use super::Program;
use profile::{LockTable, Options, Profile};
use pthread::site::{PLACES, PLACES_BYTES, Site, Which};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Profiles of the current folder that are looked at, the latest first.
const LOOKED_AT: usize = 8;

/// A lock for the objects of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Only {
    /// As the user writes it.
    pub site: String,
    /// The lock.
    pub lock: String,
    /// What the preload library compares with.
    pub places: Vec<String>,
}

/// Makes sure that a program can be told all these places.
///
/// # Errors
///
/// There are too many of them.
pub fn ensure_few(sites: &[Only]) -> anyhow::Result<()> {
    let places = || sites.iter().flat_map(|only| &only.places);
    session::ensure_usage!(
        places().count() <= PLACES && places().map(|place| place.len() + 1).sum::<usize>() <= PLACES_BYTES,
        "the locks of --only are at {} places, where {PLACES} are the most, with {} KiB of names: name fewer at a time",
        places().count(),
        PLACES_BYTES >> 10
    );
    Ok(())
}

/// The locks of a profile, with where each is taken.
#[derive(Debug)]
pub struct Places {
    /// The profile.
    pub path: PathBuf,
    table: LockTable,
}

impl Places {
    /// The locks of the profile at `path`.
    ///
    /// # Errors
    ///
    /// It is no profile.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { path: path.to_owned(), table: Profile::open(path)?.table(&Options::default()) })
    }

    /// The latest profile in the current folder that a run of `program` has made and that belongs to the user.
    pub fn in_current_folder(program: &std::ffi::OsStr) -> Option<Self> {
        let program = std::fs::canonicalize(Program::find(program).ok()?.path()).ok()?;
        // SAFETY: no arguments.
        let user = unsafe { libc::geteuid() };
        let mut files: Vec<_> = std::fs::read_dir(".")
            .ok()?
            .filter_map(|entry| {
                let path = PathBuf::from(entry.ok()?.file_name());
                let data = std::fs::symlink_metadata(&path).ok()?;
                let is_profile = path.extension().is_some_and(|end| end == "contend") && data.is_file();
                (is_profile && data.uid() == user).then_some((data.modified().ok()?, path))
            })
            .collect();
        files.sort();
        files.into_iter().rev().take(LOOKED_AT).find_map(|(_, path)| {
            let profile = Profile::open(&path).ok()?;
            let is_of_program =
                profile.sections().iter().any(|section| Path::new(&section.executable) == program);
            is_of_program.then(|| Self { path, table: profile.table(&Options::default()) })
        })
    }

    /// Says of each site where its locks are, if the profile has some.
    ///
    /// # Errors
    ///
    /// The program has been built anew since the profile.
    pub fn find(&self, sites: &mut [Only]) -> anyhow::Result<()> {
        for only in &mut *sites {
            if let Some(places) = self.places_of(&only.site)? {
                only.places = places;
            }
        }
        Ok(())
    }

    fn places_of(&self, name: &str) -> anyhow::Result<Option<Vec<String>>> {
        let site = Site::parse(name.as_bytes());
        let is_meant = |row: &&profile::LockRow| {
            Site::without_number(&row.name) == name || site.covers(&Site::parse(row.site.as_bytes()))
        };
        let striped = self.table.striped.iter().map(|striped| &striped.row).filter(|row| row.name == name);
        let mut places = Vec::new();
        for row in self.table.rows.iter().filter(is_meant).chain(striped) {
            if row.replaced {
                anyhow::bail!(
                    "the program has been built anew since {} was recorded: record it again by `contend profile`",
                    self.path.display()
                );
            }
            places.extend(row.places.iter().cloned());
            // What a call initialises may be initialised by further ways to the same call.
            let own = Site::parse(row.site.as_bytes());
            let by_initialising = row.places[..] == [row.site.as_str()] && matches!(own.which, Which::By(_));
            places.extend(
                (by_initialising && site.which == Which::All && site.covers(&own))
                    .then(|| format!("{name}@")),
            );
        }
        places.sort();
        places.dedup();
        Ok((!places.is_empty()).then_some(places))
    }
}
