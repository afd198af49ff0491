//! The launching side of a recording: makes the file, keeps its clock, and adds what only the launcher can see.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use memmap2::{MmapOptions, MmapRaw};

use crate::arena::{Arena, Grow, Need, write_header};
use crate::clock::ticks;
use crate::format::{Header, PAGE, Process, Run, RunValues, Task, TaskValues, Type, head};

/// The environment variable that tells a recorder the absolute path of its file.
pub const FILE_VARIABLE: &str = "CONTEND_PROFILE";

/// How large a profile file may grow unless the user says otherwise, bytes.
pub const DEFAULT_LIMIT: u64 = 256 << 20;

/// The least limit that holds the records of a small program, bytes.
pub const LEAST_LIMIT: u64 = 1 << 20;

/// A profile file that programs may record to.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    file: File,
    arena: Arena,
    /// What `arena` uses.
    _map: MmapRaw,
}

impl Recording {
    /// Makes a profile file that nobody but its owner can read, in place of a regular file of that name.
    ///
    /// It may grow to `limit` bytes; times are taken on one pair in `sample_period`, at random.
    ///
    /// # Errors
    /// What the system says, or that the name is taken by something that is no regular file.
    pub fn create(path: &Path, limit: u64, sample_period: u32) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(data) if data.is_file() => std::fs::remove_file(path)?,
            Ok(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "the name is taken by no regular file",
                ));
            }
            Err(_) => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all_at(&[0; PAGE as usize], 0)?;
        let limit = limit.max(LEAST_LIMIT);
        let map = MmapOptions::new().len(usize::try_from(limit).unwrap_or(usize::MAX)).map_raw(&file)?;
        // SAFETY: the mapping is page-aligned, and its first page exists and is zeroed.
        let header = unsafe { &*map.as_mut_ptr().cast::<Header>() };
        let (now, realtime) = (clock_ns(libc::CLOCK_MONOTONIC), clock_ns(libc::CLOCK_REALTIME));
        write_header(header, limit, sample_period, ticks(), now, realtime);
        let arena = Arena::new();
        // SAFETY: mapped at its limit, with the header just written; `map` lives as long as the arena.
        unsafe { arena.attach(map.as_mut_ptr()) };
        Ok(Self { path: std::path::absolute(path)?, file, arena, _map: map })
    }

    /// The absolute path, for [`FILE_VARIABLE`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes what time it is. Called now and then, so that a recorder that is killed need not leave a clock.
    pub fn note_time(&self) {
        if let Some(header) = self.arena.header() {
            header.clock_last_ticks.store(ticks(), Relaxed);
            header.clock_last_ns.store(clock_ns(libc::CLOCK_MONOTONIC), Relaxed);
        }
    }

    /// Adds what the launcher saw: the run as a whole, and the last sight of each thread. The `head`s are filled in.
    ///
    /// # Errors
    /// When the file cannot grow any more.
    pub fn finish(&self, run: RunValues, tasks: &[TaskValues]) -> io::Result<()> {
        self.note_time();
        let length = Run::LENGTH + tasks.len() * Task::LENGTH;
        let room = |bytes| self.arena.allocate(self, Need::Essential, 0, 0, bytes);
        let full = || io::Error::new(io::ErrorKind::StorageFull, "the profile cannot grow any more");
        // The run matters more than its threads.
        let block = room(length).or_else(|| room(Run::LENGTH)).ok_or_else(full)?;
        let start = block.take(Run::LENGTH).ok_or_else(full)?;
        // SAFETY: `take` gave the room, aligned, in the mapping.
        unsafe { &*start.cast::<Run>() }.store(&RunValues { head: head(Type::Run, Run::LENGTH), ..run });
        for task in tasks {
            let Some(start) = block.take(Task::LENGTH) else { break };
            // SAFETY: as above.
            unsafe { &*start.cast::<Task>() }
                .store(&TaskValues { head: head(Type::Task, Task::LENGTH), ..*task });
        }
        Ok(())
    }

    /// Whether a program has begun to record: false means that the library was not loaded, or could not start. To be
    /// asked before [`Recording::finish`].
    pub fn used(&self) -> bool {
        let Some(header) = self.arena.header() else { return false };
        header.allocated.load(Relaxed) >= PAGE + Process::LENGTH as u64
    }
}

impl Grow for Recording {
    /// Writes the range: that makes it exist on every file system.
    fn grow(&self, known: u64, start: u64, end: u64) -> Result<u64, i32> {
        let zeros = vec![0; (end - start) as usize];
        let wrote = self.file.write_all_at(&zeros, start);
        wrote.map(|()| known).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// The time of a clock of the system, ns; 0 if it does not exist.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
