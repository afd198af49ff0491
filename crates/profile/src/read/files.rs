//! Opening files that a profile or a process names. The user who made it chose the names, and the reader may be root.

use std::fs::{File, OpenOptions, read_dir, read_link};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// Opens a regular file for reading; nothing that blocks, acts or shows another process by being opened.
///
/// The file is looked at before it is opened for reading, through a descriptor that does nothing else, so that it is the
/// one which was looked at.
pub fn open(path: &Path) -> Option<File> {
    regular(&OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path).ok()?)
}

/// The same for a name as it is seen where `root` is the root: links in it do not lead out of there. A link of a process, such
/// as `/proc/PID/root`, would not keep absolute links inside.
pub fn open_below(root: &Path, path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    let root = options.read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(root).ok()?;
    let resolved = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let named = openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolved).ok()?;
    regular(&named.into())
}

/// What the kernel appends to the path of a mapped file that is there no more.
pub const DELETED: &str = " (deleted)";

/// The same for a file that a process has mapped, by the path in its mappings: as the process sees it, or though it has been deleted.
pub fn open_of_process(pid: u32, path: &Path) -> Option<File> {
    let process = Path::new("/proc").join(pid.to_string());
    if !path.as_os_str().as_bytes().ends_with(DELETED.as_bytes()) {
        return open_below(&process.join("root"), path);
    }
    let leads_there = |link: &PathBuf| read_link(link).is_ok_and(|to| to == path);
    let mapped = read_dir(process.join("map_files")).into_iter().flatten().flatten();
    let mut links = mapped.map(|entry| entry.path()).chain([process.join("exe")]);
    open(&links.find(leads_there)?)
}

fn regular(named: &File) -> Option<File> {
    if !named.metadata().ok()?.is_file() || is_of_a_process(named)? {
        return None;
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let again = format!("/proc/self/fd/{}", named.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(flags).open(again).ok()
}

/// Whether a file lies in `/proc` or another file system of that kind, whose files do something when they are read.
fn is_of_a_process(file: &File) -> Option<bool> {
    const KERNELS: [libc::__fsword_t; 5] = [
        0x9fa0,      // proc
        0x6265_6572, // sysfs
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x0027_e0eb, // cgroup
    ];
    // SAFETY: all-zero is a valid statfs, and the pointer is valid for the call.
    unsafe {
        let mut data: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &raw mut data) == 0).then(|| KERNELS.contains(&data.f_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no programs")]
    fn a_file_that_was_deleted_while_a_process_runs_it_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("sleeper");
        // By another process: a child of another test, forked meanwhile, would keep the file open for writing.
        assert!(std::process::Command::new("cp").arg("/bin/sleep").arg(&path).status().unwrap().success());
        let mut child = std::process::Command::new(&path).arg("1000").spawn().unwrap();
        let seen_whole = open_of_process(child.id(), &path).is_some();
        std::fs::remove_file(&path).unwrap();
        let deleted = PathBuf::from(format!("{}{DELETED}", path.display()));
        let (seen, other) = (open_of_process(child.id(), &deleted), open_of_process(child.id(), &path));
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_eq!(
            seen.map(|file| file.metadata().unwrap().len()),
            Some(std::fs::metadata("/bin/sleep").unwrap().len())
        );
        assert!(seen_whole && other.is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri makes no pipes in directories")]
    fn only_regular_files_are_opened_and_nothing_blocks() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        std::fs::write(place("regular"), "text").unwrap();
        symlink(place("regular"), place("link")).unwrap();
        let mut text = String::new();
        open(&place("link")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        let pipe = CString::new(place("pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let _socket = std::os::unix::net::UnixListener::bind(place("socket")).unwrap();
        symlink("/proc/self/maps", place("maps")).unwrap();
        let refused = ["pipe", "socket", "maps", "", "none"].map(place);
        let below = |name: &str| open_below(directory.path(), Path::new(name));
        let links = [
            "/regular", "/etc/hostname", "../../../../../../etc/hostname", "/pipe", "/link", "/proc/self/exe",
        ];
        for (number, to) in links.into_iter().enumerate() {
            symlink(to, place(&number.to_string())).unwrap();
        }
        assert!(below("/regular").is_some() && below("0").is_some(), "absolute links are those of the root");
        for name in ["1", "2", "3", "4", "5", "/etc/hostname", "/../../../../etc/hostname", "none"] {
            assert!(below(name).is_none(), "{name}");
        }
        for path in
            refused.iter().map(|path| path.as_path()).chain(["/dev/null", "/proc/1/status"].map(Path::new))
        {
            assert!(open(path).is_none(), "{}", path.display());
        }
    }
}
