//! Which profiles are recorded to now: those that a process has mapped to write to, by `/proc`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::files;
use crate::format::MAGIC;
use crate::session::beside_hidden;

/// A profile that processes have mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The file.
    pub path: PathBuf,
    /// The processes, by their identifiers, ascending: the launcher, and what it started.
    pub pids: Vec<u32>,
}

/// What a search found, and where it looked.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Profiles, by path.
    pub found: Vec<Running>,
    /// Processes whose mappings could be read.
    pub looked_at: usize,
}

/// Looks at the mappings of every process that the caller may look at.
pub fn search() -> Search {
    let mut profiles: BTreeMap<PathBuf, Vec<u32>> = BTreeMap::new();
    let mut looked_at = 0;
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    for pid in pids {
        let Ok(found) = of_process(pid) else { continue };
        looked_at += 1;
        if let Some(path) = found {
            profiles.entry(path).or_default().push(pid);
        }
    }
    Search { found: profiles.into_iter().map(|(path, pids)| Running { path, pids }).collect(), looked_at }
}

/// The profile that a process has mapped, if it has one.
///
/// # Errors
/// There is no such process, or the caller may not look at it.
pub fn of_process(pid: u32) -> std::io::Result<Option<PathBuf>> {
    let maps = std::fs::read(format!("/proc/{pid}/maps"))?;
    let mapped = maps.split(|&byte| byte == b'\n').filter_map(shared_file);
    Ok(mapped.filter_map(Mapped::profile).next())
}

struct Mapped {
    path: PathBuf,
    inode: u64,
}

impl Mapped {
    /// The name of the file, if it begins as a profile does.
    fn profile(self) -> Option<PathBuf> {
        // The launcher has made the file under another name, which is gone.
        let first = || {
            beside_hidden(Path::new(OsStr::from_bytes(
                self.path.as_os_str().as_bytes().strip_suffix(b" (deleted)")?,
            )))
        };
        [Some(self.path.clone()), first()].into_iter().flatten().find(|path| self.is_profile(path))
    }

    fn is_profile(&self, path: &Path) -> bool {
        let Some(file) = files::open(path) else { return false };
        let mut begin = [0; MAGIC.len()];
        file.metadata().is_ok_and(|data| data.ino() == self.inode)
            && file.read_exact_at(&mut begin, 0).is_ok()
            && begin == MAGIC
    }
}

/// The file of a line of `maps`, if it is mapped from its start, to be written by all who map it.
fn shared_file(line: &[u8]) -> Option<Mapped> {
    let mut words = line.splitn(6, |&byte| byte == b' ');
    let (_range, permissions, offset) = (words.next()?, words.next()?, words.next()?);
    let (_device, inode) = (words.next()?, words.next()?);
    let path = words.next()?.trim_ascii_start();
    let shared = permissions.starts_with(b"rw") && permissions.ends_with(b"s");
    let from_start = offset.iter().all(|&digit| digit == b'0');
    let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
    (shared && from_start && path.starts_with(b"/")).then(|| Mapped { path: unescaped(path), inode })
}

/// The kernel writes a line break in a name as `\012`.
fn unescaped(path: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, behind) = rest.strip_prefix(b"\\012").map_or((first, behind), |behind| (b'\n', behind));
        plain.push(byte);
        rest = behind;
    }
    OsString::from_vec(plain).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Overwrite, Recording};

    #[test]
    fn only_files_that_are_shared_from_their_start_are_considered() {
        let path = |line: &str| shared_file(line.as_bytes()).map(|mapped| (mapped.path, mapped.inode));
        let shared = "7f00-7f10 rw-s 00000000 fd:01 4711                       /a b/p.contend";
        assert_eq!(path(shared), Some((PathBuf::from("/a b/p.contend"), 4711)));
        let broken = "7f00-7f10 rw-s 00000000 fd:01 4711 /a\\012b";
        assert_eq!(path(broken), Some((PathBuf::from("/a\nb"), 4711)));
        for other in [
            "7f00-7f10 rw-p 00000000 fd:01 4711 /a",
            "7f00-7f10 r--s 00000000 fd:01 4711 /a",
            "7f00-7f10 rw-s 00001000 fd:01 4711 /a",
            "7f00-7f10 rw-s 00000000 00:00 0",
            "7f00-7f10 rw-s 00000000 00:01 9 [stack]",
            "",
            "\u{fffd} rw-s",
        ] {
            assert_eq!(path(other), None, "{other}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn a_profile_is_found_by_who_maps_it_until_its_name_is_another_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("p.contend");
        let _recording = Recording::create(&path, 0, 1, Overwrite::Profiles).unwrap();
        let own = std::process::id();
        let running = search();
        assert!(
            running.found.iter().any(|found| found.path == path && found.pids.contains(&own)),
            "{running:?}"
        );
        assert!(running.looked_at > 0);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another one").unwrap();
        assert!(search().found.iter().all(|found| found.path != path));
    }
}
