//! Files and folders that are removed after use. The process that uses one holds a lock on it, which ends with the process: one that is
//! not locked was left behind by a process that was killed.

use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

/// A file or folder that is younger than this may not be marked yet.
const FRESH: Duration = Duration::from_secs(60);

/// Marks an open file or folder as used, until it is closed. Where the file system has no locks, nothing is found to be left behind.
pub fn mark(file: &File) {
    let _ = lock(file);
}

/// Opens and marks the file or folder at a path if it is one of this user's that was left behind; `None` for any other, and for a link.
pub fn left_behind(path: &Path) -> Option<File> {
    let data = path.symlink_metadata().ok()?;
    let is_own = data.uid() == rustix::process::geteuid().as_raw();
    let is_old = data.modified().ok()?.elapsed().is_ok_and(|age| age > FRESH);
    if !(data.is_file() || data.is_dir()) || !is_own || !is_old {
        return None;
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    lock(&file).ok()?;
    Some(file)
}

fn lock(file: &File) -> rustix::io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn what_is_old_and_not_marked_was_left_behind() {
        let place = tempfile::tempdir().expect("a folder");
        let long_ago = SystemTime::now() - 2 * FRESH;
        let [folder, file, link] = ["folder", "file", "link"].map(|name| place.path().join(name));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(&file, "a profile").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        for path in [&folder, &file] {
            assert!(left_behind(path).is_none(), "it is new");
            let user = File::open(path).expect("it is there");
            user.set_modified(long_ago).expect("its time can be set");
            mark(&user);
            assert!(left_behind(path).is_none(), "it is used");
            drop(user);
            let found = left_behind(path);
            assert!(
                found.is_some() && left_behind(path).is_none(),
                "the process that removes it has marked it"
            );
            drop(found);
        }
        assert!(left_behind(&link).is_none() && left_behind(&place.path().join("none")).is_none());
    }
}
