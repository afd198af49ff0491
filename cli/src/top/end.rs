//! The end of a program, noticed between two looks at it.
//!
//! A look reads the whole profile, so that there is one an interval, and an interval may be an hour. The end shows in less: the launcher
//! holds a lock on the profile until the program has ended, and those that record to it have it mapped.

use profile::read::live::Watch;
use profile::read::running;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How soon the end is noticed.
const PATIENCE: Duration = Duration::from_millis(200);

/// The end of the program that is watched.
#[derive(Debug)]
pub(super) struct End {
    /// The profile; none where it cannot be opened again, so that looks alone tell the end.
    file: Option<File>,
    /// As `/proc` has it.
    path: PathBuf,
    /// Processes that had the profile mapped when the launcher was gone.
    processes: Vec<u32>,
    /// The end was noticed.
    is_noticed: bool,
}

impl End {
    /// That of the program that records to this profile.
    pub(super) fn of(watch: &Watch) -> Self {
        let path = watch.path().canonicalize().unwrap_or_else(|_| watch.path().to_owned());
        Self { file: File::open(&path).ok(), path, processes: Vec::new(), is_noticed: false }
    }

    /// Whether the program seems to have ended, so that a look is due before its time. That is said once: should the look find the program
    /// running, as one of another user may be, later looks are due at their times.
    pub(super) fn has_come(&mut self) -> bool {
        let comes = !self.is_noticed && !self.is_launched() && !self.is_mapped();
        self.is_noticed |= comes;
        comes
    }

    /// Waits for an interval, but not past the end.
    pub(super) fn wait(&mut self, interval: Duration) {
        let until = Instant::now() + interval;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.has_come() {
                return;
            }
            std::thread::sleep(left.min(PATIENCE));
        }
    }

    /// Whether the launcher has the profile.
    fn is_launched(&self) -> bool {
        let Some(file) = &self.file else { return true };
        // SAFETY: both calls take an open descriptor and a number.
        unsafe {
            if libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) == 0 {
                libc::flock(file.as_raw_fd(), libc::LOCK_UN);
                return false;
            }
        }
        std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock
    }

    /// Whether a process has the profile mapped. All of them are looked through only where none is left of those that had it before.
    fn is_mapped(&mut self) -> bool {
        let maps = |&pid: &u32| running::of_process(pid).is_ok_and(|path| path.as_ref() == Some(&self.path));
        if self.processes.iter().any(maps) {
            return true;
        }
        let found = running::search().found.into_iter().find(|running| running.path == self.path);
        self.processes = found.map_or_else(Vec::new, |running| running.pids);
        !self.processes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::session::{Overwrite, Recording};

    /// Another test's child may have the lock for a moment, between its fork and what it executes.
    fn comes(end: &mut End) -> bool {
        const HANG: Duration = Duration::from_secs(60);
        let begun = Instant::now();
        while !end.has_come() {
            if begun.elapsed() > HANG {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    #[test]
    fn the_end_comes_once_when_neither_launcher_nor_program_has_the_profile() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.contend");
        let recording = Recording::create(&path, 0, 1, Overwrite::Profiles).unwrap();
        let mut end = End::of(&Watch::open(&path, false).unwrap());
        assert!(!end.has_come(), "it is recorded to");
        drop(recording);
        assert!(comes(&mut end));
        assert!(!end.has_come(), "it was noticed");
    }

    #[test]
    fn the_end_does_not_come_with_the_launchers_while_a_process_records() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.contend");
        drop(Recording::create(&path, 0, 1, Overwrite::Profiles).unwrap());
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let (length, access) = (4096, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping of a file that is as long.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        let mut end = End::of(&Watch::open(&path, false).unwrap());
        for _ in 0..2 {
            assert!(!end.has_come());
        }
        // SAFETY: the mapping was just made, and nothing refers to it.
        unsafe { libc::munmap(map, length) };
        assert!(comes(&mut end));
    }

    #[test]
    fn an_interval_is_over_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.contend");
        drop(Recording::create(&path, 0, 1, Overwrite::Profiles).unwrap());
        let mut end = End::of(&Watch::open(&path, false).unwrap());
        end.wait(Duration::from_secs(3600));
        assert!(end.is_noticed);
        end.wait(Duration::ZERO);
    }
}
