//! Where the locks are taken that `run --only` asks for by the names that a profile prints.
//!
//! What lies in a variable, or is initialised by a call, the preload library finds by its name. Any other lock it finds by the calls
//! that take it, and of these a profile of the program has all that were seen: the profile that the user gives, or the latest one of
//! the program in the current folder.

use super::{Program, cannot_be, known, support};
use profile::read::Section;
use profile::{LockKind, LockRow, LockTable, Options, Profile};
use pthread::site::{PLACES, PLACES_BYTES, Site, Which};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
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
    profile: Profile,
    table: LockTable,
}

impl Places {
    /// The locks of the profile at `path`.
    ///
    /// # Errors
    ///
    /// It is no profile.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let profile = Profile::open(path)?;
        Ok(Self { path: path.to_owned(), table: profile.table(&Options::default()), profile })
    }

    /// Makes sure that a profile which the user has named tells of this program. One that starts others, such as a shell, may be known
    /// by their names among its arguments.
    ///
    /// # Errors
    ///
    /// The program has been built anew since the profile, or is none of the profile's.
    pub fn ensure_of(&self, program: &OsStr, arguments: &[OsString]) -> anyhow::Result<()> {
        let found = Program::find(program).ok();
        let path = found.as_ref().and_then(|program| std::fs::canonicalize(program.path()).ok());
        let sections = self.profile.sections();
        let is_of_program = |section: &&Section| path.as_deref() == Some(Path::new(&section.executable));
        let own: Vec<&Section> = sections.iter().filter(is_of_program).collect();
        let sections: Vec<&Section> = if own.is_empty() { sections.iter().collect() } else { own };
        if sections.iter().any(|section| self.profile.is_replaced(section)) {
            return Err(self.replaced());
        }
        let words: Vec<_> =
            std::iter::once(program).chain(arguments.iter().map(OsString::as_os_str)).collect();
        let is_named = |section: &&Section| {
            let name = Path::new(&section.executable).file_name().unwrap_or_default().to_string_lossy();
            words.iter().any(|word| word.to_string_lossy().contains(&*name))
        };
        let is_script = found.is_none_or(|program| !program.is_elf());
        session::ensure_usage!(
            is_script || sections.iter().any(|section| is_of_program(section) || is_named(section)),
            "{} is a profile of {}, not of {}: give one of this program, or leave --profile out",
            self.path.display(),
            sections.first().map_or_else(String::new, |section| report::text::printable(&section.executable)),
            report::text::printable(&program.to_string_lossy())
        );
        Ok(())
    }

    fn replaced(&self) -> anyhow::Error {
        session::usage::UsageError::new(format!(
            "the program has been built anew since {} was recorded: record it again by `contend profile`",
            self.path.display()
        ))
        .into()
    }

    /// Makes sure that the lock of each site can be one of the site's, as far as the profile knows these.
    ///
    /// # Errors
    ///
    /// It cannot: readers cannot share it, or the like.
    pub fn ensure_fits(&self, sites: &[Only]) -> anyhow::Result<()> {
        for Only { site, lock, .. } in sites {
            let Ok(known) = known(lock) else { continue };
            let fits = |row: &LockRow| match row.kind {
                LockKind::Object(kind) => support(known, kind).ok_or(kind).map(drop),
                _ => Ok(()),
            };
            let fit: Vec<_> = self.rows_of(site).into_iter().map(fits).collect();
            if let [Err(kind), rest @ ..] = &fit[..] {
                session::ensure_usage!(
                    rest.iter().any(Result::is_ok),
                    "--only `{}`: {}",
                    report::text::printable(site),
                    cannot_be(lock, *kind)
                );
            }
        }
        Ok(())
    }

    /// What there is instead of a lock of this name, if the profile has none.
    pub fn unknown(&self, site: &str) -> Option<String> {
        let mut seen = HashSet::new();
        let names = self.table.rows.iter().map(|row| Site::without_number(&row.name));
        let names: Vec<_> = names.filter(|name| seen.insert(*name)).collect();
        let is_known = !self.rows_of(site).is_empty();
        (!is_known).then(|| session::names::unknown_site(site, &self.path, &names).to_string())
    }

    /// The latest profile in the current folder that a run of `program` has made and that belongs to the user.
    pub fn in_current_folder(program: &OsStr) -> Option<Self> {
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
            is_of_program.then(|| Self { path, table: profile.table(&Options::default()), profile })
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

    /// The rows of the locks that a name means.
    fn rows_of(&self, name: &str) -> Vec<&LockRow> {
        let site = Site::parse(name.as_bytes());
        let is_meant = |row: &&LockRow| {
            Site::without_number(&row.name) == name || site.covers(&Site::parse(row.site.as_bytes()))
        };
        let striped = self.table.striped.iter().map(|striped| &striped.row).filter(|row| row.name == name);
        self.table.rows.iter().filter(is_meant).chain(striped).collect()
    }

    fn places_of(&self, name: &str) -> anyhow::Result<Option<Vec<String>>> {
        let site = Site::parse(name.as_bytes());
        let mut places = Vec::new();
        for row in self.rows_of(name) {
            if row.replaced {
                return Err(self.replaced());
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
