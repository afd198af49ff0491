//! The jobs of all mixes, by name.

use super::{arithmetic, communication, files, memory, processes, routines};
use machine::random::Random;
use std::io;
use std::path::{Path, PathBuf};

/// Where it is known from what a job does and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The published sources of re-AIM 7.
    Public,
    /// A part of it is not published, or was not found: it is ours.
    Assumed,
}

/// One kind of job.
#[derive(Debug)]
pub(super) struct Job {
    /// Its name in the mixes.
    pub(super) name: &'static str,
    /// What AIM7 does in one of it.
    pub(super) does: &'static str,
    /// Where that is known from.
    pub(super) source: Source,
    pub(super) run: fn(&mut Session) -> io::Result<()>,
}

/// All jobs.
pub(super) fn all() -> impl Iterator<Item = &'static Job> {
    [arithmetic::JOBS, communication::JOBS, files::JOBS, memory::JOBS, processes::JOBS, routines::JOBS]
        .into_iter()
        .flatten()
}

/// The job of this name, which is one of a mix.
///
/// # Panics
/// There is none.
pub(super) fn find(name: &str) -> &'static Job {
    all().find(|job| job.name == name).expect("every job of the mixes is there")
}

/// What the jobs of one user work with.
#[derive(Debug)]
pub(super) struct Session {
    directory: PathBuf,
    /// A job does one of so many of AIM7's operations.
    divisor: u32,
    /// O_DIRECT, where the directory's file system knows it.
    pub(super) direct: i32,
    pub(super) random: Random,
}

impl Session {
    /// In a directory that [`files::prepare`] has filled.
    pub(super) fn new(directory: &Path, divisor: u32, seed: u64) -> Self {
        let direct = if files::knows_direct(directory) { libc::O_DIRECT } else { 0 };
        Self { directory: directory.to_owned(), divisor, direct, random: Random::new(seed) }
    }

    /// How many operations there are to do where AIM7 does so many.
    pub(super) fn times(&self, aim7: u32) -> u32 {
        (aim7 / self.divisor).max(1)
    }

    /// A path in the directory, which all users share.
    pub(super) fn shared(&self, path: impl AsRef<Path>) -> PathBuf {
        self.directory.join(path)
    }

    /// A path in that directory that begins with this one, and of which no other user and no other call makes use.
    pub(super) fn own(&mut self, path: impl AsRef<Path>) -> PathBuf {
        let mut own = self.shared(path).into_os_string();
        own.push(format!("-{}-{:016x}", std::process::id(), self.random.next()));
        own.into()
    }

    /// A number from zero to below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.random.next() % end as u64) as usize
    }

    /// Puts things in a random order.
    pub(super) fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let other = self.below(last + 1);
            things.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Stage;
    use std::collections::BTreeSet;
    use std::fs;

    /// So small that all jobs take no time.
    const TINY: u32 = 1_000;

    fn names(directory: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    /// Whether a closure comes to its end in a process of one thread, as a user is one. What it panics with is printed.
    fn in_a_process(run: impl FnOnce()) -> bool {
        // SAFETY: the child makes use of nothing that another thread could have locked but the allocator, which the C library
        // makes ready for that; it ends without handing anything back.
        unsafe {
            match libc::fork() {
                0 => {
                    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                    libc::_exit(ran.is_err().into())
                }
                child => {
                    let mut status = 0;
                    child > 0 && libc::waitpid(child, &raw mut status, 0) == child && status == 0
                }
            }
        }
    }

    #[test]
    fn every_job_runs_and_leaves_nothing() {
        let stage = Stage::new().unwrap();
        files::prepare(stage.path()).unwrap();
        let before = names(stage.path());
        for job in all() {
            assert!(in_a_process(|| {
                let run = (job.run)(&mut Session::new(stage.path(), TINY, 1));
                run.unwrap_or_else(|error| panic!("{}: {error}", job.name));
                assert_eq!(names(stage.path()), before, "{}", job.name);
                assert!(!memory::has_ipc(std::process::id()), "{}", job.name);
            }));
        }
        for job in all().filter(|job| job.name.starts_with("disk_dio_")) {
            let mut session = Session { direct: 0, ..Session::new(stage.path(), TINY, 1) };
            (job.run)(&mut session).unwrap_or_else(|error| panic!("{} through the cache: {error}", job.name));
        }
    }

    #[test]
    fn every_job_has_one_name() {
        let mut names = BTreeSet::new();
        assert!(all().all(|job| names.insert(job.name)));
    }
}
