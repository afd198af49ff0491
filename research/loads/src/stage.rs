//! The directory in which a load on the kernel works.

use anyhow::Context as _;
use machine::{Machine as _, Native};
use rustix::fs::{FlockOperation, flock, statfs};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What the names of all of them begin with.
const PREFIX: &str = "contend-bench-";

/// A directory of this process's own, removed at the end.
///
/// It is locked by flock(2) for as long as its process lives, and one that is not locked is left over from a process that was
/// killed: the next process removes it.
pub(super) struct Stage {
    path: PathBuf,
    /// Holds the lock.
    _locked: File,
}

impl Stage {
    /// On tmpfs, where there is one that can be written to, else among temporary files.
    ///
    /// # Errors
    ///
    /// The directory cannot be made, or not be locked.
    pub(super) fn new() -> anyhow::Result<Self> {
        Self::below(Path::new("/dev/shm")).or_else(|_| Self::below(&std::env::temp_dir()))
    }

    fn below(base: &Path) -> anyhow::Result<Self> {
        remove_left_over(base);
        loop {
            let now = Native::clock_ns(machine::Clock::Realtime);
            let path = base.join(format!("{PREFIX}{}-{now:x}", std::process::id()));
            let made = DirBuilder::new().mode(0o700).create(&path);
            made.with_context(|| {
                format!("cannot make the directory {}: TMPDIR may name another place", path.display())
            })?;
            // Between the two calls another process may take the new directory for a left-over one, and remove it.
            match lock(&path, FlockOperation::LockExclusive) {
                Ok(locked) if path.is_dir() => return Ok(Self { path, _locked: locked }),
                Err(error) if path.is_dir() => {
                    let _ = fs::remove_dir(&path); // it is empty
                    return Err(error).with_context(|| format!("cannot lock {}", path.display()));
                }
                _ => {}
            }
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where files are and whether that is tmpfs, in words for a note.
    pub(super) fn in_words(&self) -> String {
        /// From linux/magic.h.
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        let base = self.path.parent().unwrap_or(&self.path).display();
        match statfs(&self.path) {
            Ok(of) if of.f_type as u64 == TMPFS_MAGIC => format!("Files are on tmpfs, below {base}."),
            Ok(_) => format!(
                "Files are below {base}, which is not on tmpfs, so that figures hold its file system's work too: /dev/shm cannot be used."
            ),
            Err(_) => format!("Files are below {base}."),
        }
    }

    /// Lets other users reach what is theirs in it.
    ///
    /// # Errors
    ///
    /// Its mode cannot be changed.
    pub(super) fn let_through(&self) -> anyhow::Result<()> {
        let may = fs::Permissions::from_mode(0o711);
        fs::set_permissions(&self.path, may)
            .with_context(|| format!("cannot open {} for others", self.path.display()))
    }

    /// Removes it; what is left over in words.
    pub(super) fn remove(self) -> Option<String> {
        let removed = fs::remove_dir_all(&self.path);
        removed.err().map(|error| format!("{} is left over: {error}", self.path.display()))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path); // what cannot be removed is said by `remove`
    }
}

fn lock(directory: &Path, how: FlockOperation) -> io::Result<File> {
    let file = File::open(directory)?;
    flock(&file, how)?;
    Ok(file)
}

/// Removes the directories whose processes are gone. One that cannot be removed, such as another user's, stays.
fn remove_left_over(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !is_named_so || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if let Ok(_locked) = lock(&entry.path(), FlockOperation::NonBlockingLockExclusive) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_files_are_is_told() {
        let base = std::env::temp_dir();
        let words = Stage::below(&base).unwrap().in_words();
        assert!(words.contains(&format!("below {}", base.display())), "{words}");
        // procfs is never tmpfs.
        let elsewhere =
            Stage { path: "/proc/self".into(), _locked: File::open("/proc/self").unwrap() }.in_words();
        assert!(elsewhere.contains("not on tmpfs"), "{elsewhere}");
    }

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next_one() {
        let first = Stage::new().unwrap();
        fs::write(first.path().join("file"), "").unwrap();
        let left_over = first.path().with_file_name(format!("{PREFIX}killed"));
        fs::create_dir_all(left_over.join("below")).unwrap();
        let second = Stage::new().unwrap();
        assert!(!left_over.exists());
        assert!(first.path().join("file").exists(), "its process still runs");
        let paths = [first.path().to_owned(), second.path().to_owned()];
        assert_eq!(first.remove(), None);
        drop(second);
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
