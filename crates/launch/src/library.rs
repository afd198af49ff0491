//! Where a program finds the preload library, which travels inside the command.
//!
//! The dynamic linker of every descendant opens the library by its path, so a user who can change what the path leads to
//! runs code in all of them. Two places are out of the reach of others:
//!
//! - A file under directories of which each, up to the root, belongs to root or to this user and can be written by no other
//!   user. Then no other user can exchange anything on the way, now or later.
//! - A sealed file in memory, `/proc/PID/fd/N` of the launcher. No path can be exchanged and nothing is left on a disk, but
//!   it ends with the launcher: a daemon that goes on starting programs would get nothing, or, once the launcher's process
//!   number is another process's, what that process has open. And only processes with the launcher's own rights can open it.
//!   (Under `/proc/self/fd` it would depend on every program on the way leaving the descriptor open, which `subprocess` of
//!   Python, among others, does not.)
//!
//! So the file is the rule, since it is for descendants of every user for as long as they live, and the memory is the
//! refuge of a launcher that finds no such directory. Root's descendants may be other users: its file is readable by all,
//! and lies in the system's directories, never in `HOME`, which may be another user's.

use anyhow::Context as _;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The bytes of a shared library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Library(pub &'static [u8]);

impl fmt::Debug for Library {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Library({} bytes)", self.0.len())
    }
}

/// The start of the library's file name.
const FILE: &str = "libcontend_preload";

/// The name of the library in memory.
const IN_MEMORY: &str = "contend-preload";

/// Characters that LD_PRELOAD takes for separators or expands.
const NOT_IN_LISTS: [char; 3] = [' ', ':', '$'];

/// Other users can write, and a user who can write can rename and remove what is another user's.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Only the owner of a name in such a directory can rename or remove it.
const STICKY: u32 = 0o1000;

/// Whether a process that has these files mapped, as `/proc/PID/maps` lists them, has the library.
pub(super) fn is_among(mapped: &str) -> bool {
    mapped.contains(FILE) || mapped.contains(IN_MEMORY)
}

impl Library {
    /// A path under which programs, and those that they start, find the library.
    ///
    /// # Errors
    ///
    /// The library can be put nowhere.
    pub fn path(self) -> anyhow::Result<PathBuf> {
        let name = format!("{FILE}-{:016x}.so", self.fingerprint());
        for directory in cache_directories() {
            if let Ok(path) = self.file_in(&directory, &name) {
                return Ok(path);
            }
        }
        self.in_memory().context(
            "cannot put the preload library anywhere: no cache directory can be written, and no memory file made",
        )
    }

    fn fingerprint(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.0);
        hasher.finish()
    }

    /// The library as a file in a directory that no other user can exchange; made if it is not there.
    fn file_in(self, directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
        let (directory_mode, file_mode) = modes();
        let directory = safe_directory(directory, directory_mode)?;
        let path = directory.join(name);
        if !self.is_library(&path, file_mode) {
            self.write(&directory, &path, file_mode)?;
        }
        anyhow::ensure!(
            may_be_executed(&path),
            "{} is on a file system that runs nothing",
            directory.display()
        );
        Ok(path)
    }

    /// Whether the file is the library, byte by byte: the directory is safe, but a disk may have been full.
    fn is_library(self, path: &Path, mode: u32) -> bool {
        let Ok(mut file) = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) else {
            return false;
        };
        let own = file.metadata().is_ok_and(|data| {
            data.uid() == user() && data.mode() & 0o777 == mode && data.len() == self.0.len() as u64
        });
        let mut bytes = Vec::with_capacity(self.0.len());
        own && file.read_to_end(&mut bytes).is_ok() && bytes == self.0
    }

    /// Writes the file beside its place and moves it there, so that no process ever sees a part of it.
    fn write(self, directory: &Path, path: &Path, mode: u32) -> anyhow::Result<()> {
        let mut fresh = tempfile::Builder::new().prefix(".").tempfile_in(directory)?;
        fresh.write_all(self.0)?;
        fresh.as_file().set_permissions(fs::Permissions::from_mode(mode))?; // whatever the user's mask says
        fresh.persist(path)?;
        Ok(())
    }

    /// The library as a sealed file in memory, which lasts as long as this process: made once.
    fn in_memory(self) -> anyhow::Result<PathBuf> {
        static MADE: OnceLock<PathBuf> = OnceLock::new();
        if let Some(path) = MADE.get() {
            return Ok(path.clone());
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create(IN_MEMORY, flags)?);
        file.write_all(self.0)?;
        fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
        let descriptor = file.into_raw_fd(); // stays open as long as the process
        Ok(MADE
            .get_or_init(|| PathBuf::from(format!("/proc/{}/fd/{descriptor}", std::process::id())))
            .clone())
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Who may read the library: descendants of root may be any user.
fn modes() -> (u32, u32) {
    if user() == 0 { (0o755, 0o555) } else { (0o700, 0o500) }
}

/// Where the file may lie, the best place first.
fn cache_directories() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = user();
    let own = if user == 0 {
        Some(PathBuf::from("/var/cache"))
    } else {
        variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))
    };
    // Relative to the directory in which the program starts, but it and its children may go elsewhere.
    let temporary = std::path::absolute(std::env::temp_dir()).ok();
    let shared = [temporary, Some("/tmp".into()), Some("/dev/shm".into())];
    own.map(|cache| cache.join("contend"))
        .into_iter()
        .chain(shared.into_iter().flatten().map(|place| place.join(format!("contend-{user}"))))
        .collect()
}

/// The directory without symbolic links, made if it is not there. Only root and this user can exchange a part of it.
fn safe_directory(directory: &Path, mode: u32) -> anyhow::Result<PathBuf> {
    let missing: Vec<&Path> =
        directory.ancestors().take_while(|path| fs::symlink_metadata(path).is_err()).collect();
    let there = missing.last().map_or(Some(directory), |path| path.parent()).context("no directory")?;
    let mut safe = fs::canonicalize(there)?;
    // From the root down: what lies in a safe directory stays what it is while the next one is looked at.
    for ancestor in safe.ancestors().collect::<Vec<_>>().into_iter().rev() {
        check_ancestor(ancestor)?;
    }
    for name in missing.iter().rev().filter_map(|path| path.file_name()) {
        safe.push(name);
        DirBuilder::new().mode(mode).create(&safe).or_else(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Ok(()), // another launcher was faster
            _ => Err(error),
        })?;
    }
    let data = fs::symlink_metadata(&safe)?;
    let own = data.is_dir() && data.uid() == user() && data.mode() & WRITABLE_BY_OTHERS == 0;
    anyhow::ensure!(own, "{} is not this user's own", safe.display());
    let plain = safe.to_str().is_some_and(|path| !path.contains(NOT_IN_LISTS));
    anyhow::ensure!(plain, "LD_PRELOAD cannot name {}", safe.display());
    if data.mode() & 0o777 != mode {
        fs::set_permissions(&safe, fs::Permissions::from_mode(mode))?;
    }
    Ok(safe)
}

/// Refuses a directory in which a user other than root and this one could exchange a name.
fn check_ancestor(directory: &Path) -> anyhow::Result<()> {
    let data = fs::symlink_metadata(directory)?;
    let owned = data.uid() == 0 || data.uid() == user();
    let closed = data.mode() & WRITABLE_BY_OTHERS == 0 || data.mode() & STICKY != 0;
    anyhow::ensure!(data.is_dir() && owned && closed, "others can change {}", directory.display());
    Ok(())
}

/// Whether the file system lets code be mapped from this file.
fn may_be_executed(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // SAFETY: a fresh mapping of one page, unmapped at once.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            1,
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        );
        page != libc::MAP_FAILED && libc::munmap(page, 1) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    const LIBRARY: Library = Library(&[0x7f; 100_000]);

    /// A directory in which the library may lie: temporary ones are, as long as `TMPDIR` is sound.
    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .expect("the directory is this test's own");
    }

    #[test]
    fn a_damaged_file_is_replaced_and_a_sound_one_kept() {
        let above = directory();
        let directory = above.path().join("not/there/yet");
        let path = LIBRARY.file_in(&directory, "library.so").unwrap();
        let made = fs::metadata(&path).unwrap().ino();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, modes().1);
        assert_eq!(fs::metadata(LIBRARY.file_in(&directory, "library.so").unwrap()).unwrap().ino(), made);
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"cut short").unwrap();
        assert!(fs::read(LIBRARY.file_in(&directory, "library.so").unwrap()).unwrap() == LIBRARY.0);
        set_mode(&path, 0o777);
        LIBRARY.file_in(&directory, "library.so").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, modes().1, "others could have written it");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_below_one_that_others_can_write_is_not_used() {
        let above = directory();
        let below = above.path().join("below");
        fs::create_dir(&below).unwrap();
        set_mode(&below, 0o700);
        for (mode, used) in [(0o777, false), (0o770, false), (0o1777, true), (0o755, true)] {
            set_mode(above.path(), mode);
            assert_eq!(LIBRARY.file_in(&below, "library.so").is_ok(), used, "{mode:o}");
            let new = above.path().join(format!("new-{mode:o}"));
            assert_eq!(LIBRARY.file_in(&new, "library.so").is_ok(), used, "{mode:o}");
            assert_eq!(new.exists(), used, "nothing is left in it");
        }
        set_mode(above.path(), 0o700);
        set_mode(&below, 0o777);
        assert!(LIBRARY.file_in(&below, "library.so").is_err());
    }

    /// As root with `HOME` in another user's hands.
    #[test]
    fn a_directory_below_somebody_elses_is_not_used() {
        const NOBODY: u32 = 65534;
        if user() != 0 {
            return; // only root can give a directory away
        }
        let above = directory();
        let below = above.path().join("cache");
        fs::create_dir(&below).unwrap();
        chown(above.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        assert!(LIBRARY.file_in(&below, "library.so").is_err());
        assert!(LIBRARY.file_in(&above.path().join("new"), "library.so").is_err());
        let link = directory();
        symlink(&below, link.path().join("link")).unwrap();
        assert!(LIBRARY.file_in(&link.path().join("link"), "library.so").is_err());
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 1, "nothing is left in it");
    }

    #[test]
    fn root_uses_no_home_and_places_are_absolute() {
        let places = cache_directories();
        assert!(places.iter().all(|place| place.is_absolute()), "{places:?}");
        assert!(user() != 0 || places[0] == Path::new("/var/cache/contend"), "{places:?}");
    }

    #[test]
    fn a_file_in_memory_can_be_read_by_its_path_and_not_changed() {
        let path = LIBRARY.in_memory().unwrap();
        assert!(fs::read(&path).unwrap() == LIBRARY.0);
        let changed = OpenOptions::new().write(true).open(&path).and_then(|mut file| file.write_all(b"x"));
        assert_eq!(changed.unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert_eq!(LIBRARY.in_memory().unwrap(), path);
    }
}
