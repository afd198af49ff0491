//! A folder for what a command makes for itself, such as the profiles of its runs.
//!
//! It is removed when the command is done with it, and by a signal that ends the command earlier: see [`remove_now`]. A command that is
//! killed leaves its folder behind. The next command that makes one removes it, since it is not [marked](in_use) as used.

use crate::in_use;
use anyhow::Context as _;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom, open, rmdir, seek, unlinkat};
use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use tempfile::TempDir;

/// What the names of all such folders begin with.
const PREFIX: &str = "contend-scratch-";

/// The folder that a signal removes: a path that is never freed, since a handler may be reading it; null without one.
static REMOVED_BY_SIGNAL: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

/// The folder, until it is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    /// Whether a signal removes this one.
    is_registered: bool,
    /// The folder again, marked as used as long as it is open.
    _marked: File,
}

impl Scratch {
    /// Makes a folder where temporary files go, and removes those that commands which were killed have left there.
    ///
    /// # Errors
    ///
    /// It cannot be made there.
    pub fn new() -> anyhow::Result<Self> {
        let place = std::env::temp_dir();
        remove_left(&place);
        let cannot = || {
            format!("cannot make a folder in {}: set TMPDIR to a folder that can be written", place.display())
        };
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&place).with_context(cannot)?;
        let marked = File::open(folder.path()).with_context(cannot)?;
        in_use::mark(&marked);
        let is_registered = register(folder.path());
        Ok(Self { folder, is_registered, _marked: marked })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_registered {
            REMOVED_BY_SIGNAL.store(null_mut(), Ordering::Relaxed);
        }
    }
}

/// Has a signal remove the folder, and returns whether it will: not if it is to remove another one already.
fn register(folder: &Path) -> bool {
    let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else { return false };
    let (none, path) = (null_mut(), path.into_raw());
    REMOVED_BY_SIGNAL.compare_exchange(none, path, Ordering::Release, Ordering::Relaxed).is_ok() // [1] to the handler
}

/// Removes the command's folder and the files in it. Allowed in a handler.
pub fn remove_now() {
    let path = REMOVED_BY_SIGNAL.load(Ordering::Acquire); // [1] from the command
    if !path.is_null() {
        // SAFETY: a path of `register`, which ends with a zero and is never freed.
        remove_with_files(unsafe { CStr::from_ptr(path) });
    }
}

/// Removes a folder that has files alone, by system calls that are allowed in a handler.
fn remove_with_files(path: &CStr) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = open(path, flags, Mode::empty()) else { return };
    // Some file systems pass entries over when others are removed meanwhile: until no entry is left, and not for ever.
    for _ in 0..8 {
        let mut buffer = [MaybeUninit::uninit(); 2048];
        let mut entries = RawDir::new(&folder, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            let _ = unlinkat(&folder, entry.file_name(), AtFlags::empty()); // fails for `.` and `..`
        }
        if rmdir(path).is_ok() || seek(&folder, SeekFrom::Start(0)).is_err() {
            return;
        }
    }
}

/// Removes the folders that were left behind at this place.
fn remove_left(place: &Path) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let has_own_name = entry.file_name().as_bytes().starts_with(PREFIX.as_bytes());
        if has_own_name && let Some(_marked) = in_use::left_behind(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path()); // else by the next command
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_folder_that_no_command_uses_is_removed_by_the_next_one() {
        let place = tempfile::tempdir().expect("a folder");
        let long_ago = SystemTime::now() - Duration::from_secs(3_600);
        let make = |name: &str, made: SystemTime| {
            let path = place.path().join(name);
            std::fs::create_dir(&path).expect("a folder");
            std::fs::write(path.join("base.contend"), "a profile").expect("a file");
            let folder = File::open(path).expect("the folder");
            folder.set_modified(made).expect("its time can be set");
            folder
        };
        let used = make("contend-scratch-used", long_ago);
        in_use::mark(&used);
        for name in ["contend-scratch-left", "another"] {
            make(name, long_ago);
        }
        make("contend-scratch-new", SystemTime::now());
        let names = || {
            let all = std::fs::read_dir(place.path()).expect("the folder").flatten();
            let mut names: Vec<_> = all.map(|entry| entry.file_name().into_string().expect("text")).collect();
            names.sort_unstable();
            names
        };
        remove_left(place.path());
        assert_eq!(names(), ["another", "contend-scratch-new", "contend-scratch-used"]);
        drop(used);
        remove_left(place.path());
        assert_eq!(names(), ["another", "contend-scratch-new"]);
    }

    #[test]
    fn a_signal_removes_the_folder_with_all_its_files() {
        let scratch = Scratch::new().expect("a place for temporary files");
        for number in 0..500 {
            let name = format!("{number}-{}.contend", "n".repeat(100));
            std::fs::write(scratch.path().join(name), "a profile").expect("a file");
        }
        // Not by `remove_now`, which removes the folder of whichever test was the first to have one.
        let path = CString::new(scratch.path().as_os_str().as_bytes()).expect("a path");
        remove_with_files(&path);
        assert!(!scratch.path().exists());
    }

    #[test]
    fn nothing_is_left_when_the_command_is_done() {
        let path = Scratch::new().expect("a place for temporary files").path().to_owned();
        assert!(!path.exists());
    }
}
