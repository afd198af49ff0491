//! The launching side of a recording: makes the file, keeps its clock, and adds what only the launcher can see.

mod attached;
mod interval;
mod kernel;

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::ClockId;

use crate::arena::{Arena, Block, Grow, Need, write_header};
use crate::clock::{clock_ns, ticks};
use crate::format::{
    Header, MAGIC, PAGE, Process, ProcessValues, Run, RunValues, Task, TaskValues, Type, UNIT, head,
};
use crate::futex_calls::FutexCalls;
use crate::read::{Error, Profile, merged};
use crate::record::LONGEST_WAITS;

pub use attached::{AttachedBehind, AttachedImage, AttachedSection, AttachedWait};
pub use interval::{Counted, Look, PackedLook};
pub use kernel::{KernelSection, KernelWait, StackOfLock};

/// How large a profile file may grow unless the user says otherwise, bytes.
pub const DEFAULT_LIMIT: u64 = 256 << 20;

/// The least limit that holds the records of a small program, bytes.
pub const LEAST_LIMIT: u64 = 1 << 20;

/// What may be replaced by a new profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Single profiles that no launcher is recording to, and empty files.
    Profiles,
    /// Any regular file, except merged profiles and a profile that a launcher is recording to.
    AnyFile,
}

/// A profile file that programs may record to.
///
/// The file is locked as long as this value lives, so that another launcher does not replace it.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    /// Another name of the file that was in the place of this one.
    replaced: Option<PathBuf>,
    file: File,
    arena: Arena,
    /// The file's ticks are nanoseconds of the monotonic clock.
    counts_nanoseconds: bool,
    /// Ticks of the processor and ns of the monotonic clock when it began.
    first: (u64, u64),
    /// Bytes of the launcher's own blocks.
    own: AtomicU64,
    /// What `arena` uses.
    _map: MmapRaw,
}

impl Recording {
    /// Makes a profile file that only its owner can read, in place of what `overwrite` allows.
    ///
    /// It may grow to `limit` bytes; times are taken on one pair in `sample_period`, at random. What it replaces is kept until
    /// [`Recording::begun`] or [`Recording::withdraw`] says what becomes of it.
    ///
    /// # Errors
    /// What the system says; `ResourceBusy` if another launcher records to the file of that name; `AlreadyExists` if `overwrite` does
    /// not allow to replace it; `InvalidInput` if nothing does: it holds merged profiles, or is no regular file.
    pub fn create(path: &Path, limit: u64, sample_period: u32, overwrite: Overwrite) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let place = Fresh::beside(&path)?;
        let file = &place.file;
        file.write_all_at(&[0; PAGE as usize], 0)?;
        let limit = limit.max(LEAST_LIMIT);
        let map = MmapOptions::new().len(usize::try_from(limit).unwrap_or(usize::MAX)).map_raw(file)?;
        // SAFETY: the mapping is page-aligned, and its first page exists and is zeroed.
        let header = unsafe { &*map.as_mut_ptr().cast::<Header>() };
        let (now, realtime) = (clock_ns(ClockId::Monotonic), clock_ns(ClockId::Realtime));
        header.identity.store(random(), Relaxed);
        let first = (ticks(), now);
        write_header(header, limit, sample_period, first.0, first.1, realtime);
        let arena = Arena::new();
        // SAFETY: mapped at its limit, with the header just written; `map` lives as long as the arena.
        unsafe { arena.attach(map.as_mut_ptr(), map.len() as u64, PAGE) };
        let _ = lock(file); // a file system without locks has no protection, and still a profile
        let replaced = place.take_place_of(&path, overwrite)?;
        let file = place.keep()?;
        let own = AtomicU64::new(0);
        Ok(Self { path, replaced, file, arena, counts_nanoseconds: false, first, own, _map: map })
    }

    /// Has ticks of a nanosecond of the monotonic clock from here on, as what the kernel tells has. To be called before anything is
    /// recorded.
    pub fn count_nanoseconds(&mut self) {
        self.counts_nanoseconds = true;
        if let Some(header) = self.arena.header() {
            header.clock_first_ticks.store(header.clock_first_ns.load(Relaxed), Relaxed);
        }
        self.note_time();
    }

    /// Has each process keep its longest waits one by one, [`LONGEST_WAITS`] of them at most. To be called before anything is recorded.
    pub fn keep_longest_waits(&self) {
        if let Some(header) = self.arena.header() {
            header.longest_waits.store(LONGEST_WAITS as u64, Relaxed);
        }
    }

    /// From here on one pair in so many is timed, where not every one is: each recorder looks that up when it times the next one.
    pub fn sample_one_in(&self, pairs: u32) {
        if let Some(header) = self.arena.header() {
            header.sample_period.store(u64::from(pairs.max(2)), Relaxed);
        }
    }

    /// The program has started: what this profile replaced is gone for good.
    pub fn begun(&mut self) {
        if let Some(replaced) = self.replaced.take() {
            let _ = std::fs::remove_file(replaced);
        }
    }

    /// The program could not be started: what was in this profile's place is there again.
    pub fn withdraw(mut self) {
        let _ = match self.replaced.take() {
            Some(replaced) => std::fs::rename(replaced, &self.path),
            None => std::fs::remove_file(&self.path),
        };
    }

    /// The number that tells this file from others of its name.
    pub fn identity(&self) -> u64 {
        self.arena.header().map_or(0, |header| header.identity.load(Relaxed))
    }

    /// Reads what was recorded so far, whatever has come to the file's name meanwhile.
    ///
    /// # Errors
    /// As [`Profile::open`].
    pub fn read(&self) -> Result<Profile, Error> {
        Profile::read(&self.file, &self.path)
    }

    /// Process images that found no space in the file.
    pub fn unrecorded(&self) -> u64 {
        self.arena.header().map_or(0, |header| header.unrecorded.load(Relaxed))
    }

    /// What the system said when the file could not grow, if that happened: something is missing in it then.
    pub fn growth_error(&self) -> Option<io::Error> {
        let error = self.arena.header()?.growth_error.load(Relaxed);
        (error != 0).then(|| io::Error::from_raw_os_error(error.min(4095) as i32))
    }

    /// The absolute path, which recorders have to be told.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes what time it is. Called now and then, so that a recorder that is killed need not leave a clock.
    pub fn note_time(&self) {
        if let Some(header) = self.arena.header() {
            let of_processor = ticks();
            let now = clock_ns(ClockId::Monotonic);
            let ticks = if self.counts_nanoseconds { now } else { of_processor };
            header.clock_last_ticks.store(ticks, Relaxed);
            header.clock_last_ns.store(now, Relaxed);
        }
    }

    /// So many of the profile's ticks are a nanosecond, as far as both clocks tell up to now.
    fn ticks_per_ns(&self) -> f64 {
        let (first_ticks, first_ns) = self.first;
        let past =
            (ticks().saturating_sub(first_ticks), clock_ns(ClockId::Monotonic).saturating_sub(first_ns));
        match past {
            _ if self.counts_nanoseconds => 1.0,
            (0, _) | (_, 0) => 1.0,
            (ticks, ns) => ticks as f64 / ns as f64,
        }
    }

    /// A duration in ticks.
    fn ticks_in(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns()).round() as u64
    }

    /// A time of the monotonic clock in ticks.
    fn ticks_at(&self, ns: u64) -> u64 {
        let (first_ticks, first_ns) = self.first;
        if self.counts_nanoseconds {
            return ns;
        }
        let since = ns as f64 - first_ns as f64;
        first_ticks.saturating_add_signed((since * self.ticks_per_ns()) as i64)
    }

    /// Adds what the launcher saw: the run as a whole, and the last sight of each thread. The `head`s are filled in.
    ///
    /// # Errors
    /// When the file cannot grow any more.
    pub fn finish(&self, run: RunValues, tasks: &[TaskValues]) -> io::Result<()> {
        self.note_time();
        let take = |bytes| self.allocate(Need::Essential, 0, bytes);
        let full = || io::Error::new(io::ErrorKind::StorageFull, "the profile cannot grow any more");
        let mut parts = tasks.chunks(TASKS_OF_BLOCK);
        let first = parts.next().unwrap_or_default();
        // The run matters more than its threads.
        let with_first = take(Run::LENGTH + first.len() * Task::LENGTH);
        let block = with_first.or_else(|| take(Run::LENGTH)).ok_or_else(full)?;
        let start = block.take(Run::LENGTH).ok_or_else(full)?;
        // SAFETY: `take` gave the space, aligned, in the mapping.
        unsafe { &*start.cast::<Run>() }.store(&RunValues { head: head(Type::Run, Run::LENGTH), ..run });
        push_tasks(&block, first);
        for part in parts {
            let Some(block) = take(part.len() * Task::LENGTH) else { break };
            push_tasks(&block, part);
        }
        Ok(())
    }

    /// The waits in futexes that programs hand on, once there is one. The one value that the launcher has of it frees its slots.
    pub fn futex_calls(&self) -> Option<&FutexCalls> {
        let position = self.arena.header()?.futex_calls.load(Relaxed);
        // SAFETY: all of its words are atomic.
        unsafe { self.made_by_others(position) }
    }

    /// What the process image says of itself that has this section. It may be any process's that has the profile, so that nothing in it
    /// need be true.
    pub fn image(&self, section: u64) -> Option<ProcessValues> {
        // SAFETY: all of its words are atomic.
        let process: &Process = unsafe { self.made_by_others(section.checked_add(1)?) }?;
        Some(process.values()).filter(|values| values.head == head(Type::Process, Process::LENGTH))
    }

    /// What another process has made at this position; `None` if the file does not have it.
    ///
    /// # Safety
    /// Any words are a `T`, and all of its words are atomic.
    unsafe fn made_by_others<T>(&self, position: u64) -> Option<&T> {
        const { assert!(align_of::<T>() as u64 <= UNIT) };
        let start = position.checked_mul(UNIT).filter(|&start| start > PAGE)?;
        let end = start.checked_add(size_of::<T>() as u64).filter(|&end| end <= self.arena.limit())?;
        if self.file.metadata().ok()?.len() < end {
            return None; // no process of ours has written this
        }
        // SAFETY: inside the mapping, where the file exists, and aligned as positions are. The caller promises the rest.
        Some(unsafe { &*self.arena.base().add(start as usize).cast() })
    }

    /// Whether a program has begun to record: false means that the library was not loaded, or could not start.
    pub fn used(&self) -> bool {
        let Some(header) = self.arena.header() else { return false };
        header.allocated.load(Relaxed).saturating_sub(self.own.load(Relaxed)) >= PAGE + Process::LENGTH as u64
    }

    /// A block of the launcher's own.
    fn allocate(&self, need: Need, section: u64, length: usize) -> Option<Block> {
        let block = self.arena.allocate(self, need, section, 0, length)?;
        self.own.fetch_add(block.length(), Relaxed);
        Some(block)
    }
}

/// Threads in one block: readers refuse a block that is as long as no other writer makes one.
const TASKS_OF_BLOCK: usize = 1 << 13;

/// Writes what was seen of threads, as far as the block has space.
fn push_tasks(block: &Block, tasks: &[TaskValues]) {
    for task in tasks {
        let Some(start) = block.take(Task::LENGTH) else { break };
        // SAFETY: `take` gave the space, aligned, in the mapping.
        unsafe { &*start.cast::<Task>() }
            .store(&TaskValues { head: head(Type::Task, Task::LENGTH), ..*task });
    }
}

/// A file beside the place that it is to take.
struct Fresh {
    path: PathBuf,
    file: File,
}

impl Fresh {
    fn beside(path: &Path) -> io::Result<Self> {
        loop {
            let fresh = hidden_beside(path);
            match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&fresh) {
                Ok(file) => return Ok(Self { path: fresh, file }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the file the name `path`. Returns another name of the file that had it.
    fn take_place_of(&self, path: &Path, overwrite: Overwrite) -> io::Result<Option<PathBuf>> {
        loop {
            let data = match std::fs::symlink_metadata(path) {
                Ok(data) => data,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match std::fs::hard_link(&self.path, path) {
                        Ok(()) => return Ok(None),
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                        // A file system without links.
                        Err(_) => return std::fs::rename(&self.path, path).map(|()| None),
                    }
                }
                Err(error) => return Err(error),
            };
            let refusal = |kind, why: &str| Err(io::Error::new(kind, why));
            if !data.is_file() {
                let what = if data.is_dir() { "a folder" } else { "a device, a link or the like" };
                return refusal(io::ErrorKind::InvalidInput, &format!("there is {what} of that name"));
            }
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            let old = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
                Ok(old) => old,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if lock(&old) == Err(Errno::WOULDBLOCK) {
                return refusal(io::ErrorKind::ResourceBusy, "another `contend profile` is recording to it");
            }
            if std::fs::symlink_metadata(path).ok().map(|data| data.ino()) != Some(old.metadata()?.ino()) {
                continue; // another process was faster
            }
            if merged::begins(&old) {
                let why = "the file there holds merged profiles, which would be written over";
                return refusal(io::ErrorKind::InvalidInput, why);
            }
            if overwrite == Overwrite::Profiles && !may_go(&old)? {
                return refusal(io::ErrorKind::AlreadyExists, "the file there is no profile of contend");
            }
            let kept = hidden_beside(path);
            let kept = std::fs::hard_link(path, &kept).is_ok().then_some(kept);
            if let Err(error) = std::fs::rename(&self.path, path) {
                kept.map(std::fs::remove_file);
                return Err(error);
            }
            return Ok(kept);
        }
    }

    /// The file without its first name.
    fn keep(self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A name that no other process would choose, in the same directory.
fn hidden_beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{:016x}", random()))
}

/// The name beside which [`hidden_beside`] made this one, if it did.
pub(crate) fn beside_hidden(hidden: &Path) -> Option<PathBuf> {
    let name = hidden.file_name()?.as_bytes().strip_prefix(b".")?;
    let (name, number) = name.split_at_checked(name.len().checked_sub(17)?)?;
    let is_number = number[0] == b'.' && number[1..].iter().all(u8::is_ascii_hexdigit);
    (is_number && !name.is_empty()).then(|| hidden.with_file_name(OsStr::from_bytes(name)))
}

/// Whether nothing is lost with a file but an earlier profile.
fn may_go(file: &File) -> io::Result<bool> {
    let mut begin = [0; MAGIC.len()];
    match file.read_exact_at(&mut begin, 0) {
        Ok(()) => Ok(begin == MAGIC),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(file.metadata()?.len() == 0),
        Err(error) => Err(error),
    }
}

/// Locks the open file against other launchers, until it is closed.
fn lock(file: &File) -> rustix::io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // The time is as good a name.
        _ => ticks() ^ clock_ns(ClockId::Realtime) << 20,
    }
}

impl Grow for Recording {
    /// Writes the range: that makes it exist on every file system.
    fn grow(&self, start: u64, end: u64) -> Result<u64, i32> {
        let zeros = vec![0; (end - start) as usize];
        let wrote = self.file.write_all_at(&zeros, start);
        wrote.map(|()| end).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
    }
}
