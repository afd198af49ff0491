//! The preload library that travels inside the command, and where a program finds it.

use anyhow::Context as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{Read as _, Write as _};
use std::os::fd::{FromRawFd as _, IntoRawFd as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The library, as the build script left it.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcontend_preload.so"));

/// A path under which programs, and those that they start, find the library.
///
/// A file of this user's own, named by its content, in a cache directory; made at the first use of each version. Where no
/// such file can be made it is a file in memory, which lasts as long as this process or the program that it becomes.
///
/// # Errors
///
/// Neither can be made.
pub(crate) fn path() -> anyhow::Result<PathBuf> {
    let name = format!("libcontend_preload-{:016x}.so", fingerprint());
    for directory in cache_directories() {
        if let Ok(path) = file_in(&directory, &name) {
            return Ok(path);
        }
    }
    in_memory().context(
        "cannot put the preload library anywhere: no cache directory can be written, and no memory file made",
    )
}

fn fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(LIBRARY);
    hasher.finish()
}

/// Where the file may lie, the best place first.
fn cache_directories() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    let temporary = std::env::temp_dir().join(format!("contend-{user}"));
    cache.map(|cache| cache.join("contend")).into_iter().chain([temporary]).collect()
}

/// The library as a file in a directory that only this user can write; made if it is not there.
fn file_in(directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    let of_directory = fs::symlink_metadata(directory)?;
    // LD_PRELOAD takes spaces and colons as separators.
    let plain = directory.to_str().is_some_and(|path| !path.contains([' ', ':', '$']));
    anyhow::ensure!(
        plain && of_directory.is_dir() && of_directory.uid() == user && of_directory.mode() & 0o022 == 0,
        "{} is not this user's own",
        directory.display()
    );
    let path = directory.join(name);
    if !is_library(&path, user) {
        write(directory, &path)?;
    }
    anyhow::ensure!(may_be_executed(&path), "{} is on a file system that runs nothing", directory.display());
    Ok(path)
}

/// Whether the file is the library, byte by byte: the directory is this user's own, but a disk may have been full.
fn is_library(path: &Path, user: u32) -> bool {
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) else {
        return false;
    };
    let own = file.metadata().is_ok_and(|data| data.uid() == user && data.len() == LIBRARY.len() as u64);
    let mut bytes = Vec::with_capacity(LIBRARY.len());
    own && file.read_to_end(&mut bytes).is_ok() && bytes == LIBRARY
}

/// Writes the file beside its place and moves it there, so that nobody ever sees a part of it.
fn write(directory: &Path, path: &Path) -> anyhow::Result<()> {
    let fresh = directory.join(format!(".{}.{}", std::process::id(), fingerprint()));
    let _ = fs::remove_file(&fresh);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o500).open(&fresh)?;
    let written = file.write_all(LIBRARY).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    Ok(written?)
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
            std::os::fd::AsRawFd::as_raw_fd(&file),
            0,
        );
        page != libc::MAP_FAILED && libc::munmap(page, 1) == 0
    }
}

/// The library as a file in memory, which programs that are started from here inherit.
fn in_memory() -> anyhow::Result<PathBuf> {
    // SAFETY: the name ends with a zero. The descriptor is open for programs, too: no close-on-exec.
    let descriptor = unsafe { libc::memfd_create(c"contend-preload".as_ptr(), 0) };
    anyhow::ensure!(descriptor >= 0, std::io::Error::last_os_error());
    // SAFETY: just opened, and owned by nobody else.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(LIBRARY)?;
    let descriptor = file.into_raw_fd(); // stays open as long as the process
    Ok(PathBuf::from(format!("/proc/{}/fd/{descriptor}", std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_replaced_and_a_sound_one_kept() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let path = file_in(directory.path(), "library.so").unwrap();
        let made = fs::metadata(&path).unwrap().ino();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o500);
        assert_eq!(fs::metadata(file_in(directory.path(), "library.so").unwrap()).unwrap().ino(), made);
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"cut short").unwrap();
        assert!(fs::read(file_in(directory.path(), "library.so").unwrap()).unwrap() == LIBRARY);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(file_in(directory.path(), "library.so").is_err());
    }

    #[test]
    fn a_file_in_memory_can_be_read_by_its_path() {
        assert!(fs::read(in_memory().unwrap()).unwrap() == LIBRARY);
    }
}
