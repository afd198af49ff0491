//! A file whose contents take minutes to make. Whether it can be written is told before, and what stood in its place stays
//! there until the new one is whole: a full disk loses neither. Nothing lies beside it meanwhile, whatever ends the command.

use anyhow::Context;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The place of a file that is not written yet.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// Something stands there that is no file, such as a terminal, or that leads to what is open, as `/dev/stdout` does: it is written
    /// through.
    is_special: bool,
}

impl OutputFile {
    /// Makes sure that the file can be written.
    ///
    /// # Errors
    ///
    /// It cannot be written there; a directory stands there.
    pub fn at(path: &Path) -> anyhow::Result<Self> {
        if path.is_dir() {
            anyhow::bail!(
                "{}: it is a directory; name a file, such as {}",
                cannot(path),
                path.join("FILE").display()
            );
        }
        let is_link = path.is_symlink();
        let leads_to_open = is_link && (path.starts_with("/dev") || path.starts_with("/proc"));
        let is_special = leads_to_open || path.exists() && !path.is_file();
        let target = if is_link && !is_special { led_to(path) } else { None };
        let file = Self { path: target.unwrap_or_else(|| path.to_owned()), is_special };
        if !file.is_special {
            drop(file.fresh().with_context(|| cannot(path))?);
        }
        Ok(file)
    }

    /// A file beside the path, to take its place.
    fn fresh(&self) -> std::io::Result<NamedTempFile> {
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        // As any other file, as far as the user's mask lets it. Errors are the system's, without the name of the fresh file.
        let open = |path: &Path| File::options().write(true).create_new(true).mode(0o666).open(path);
        tempfile::Builder::new().make_in(directory.unwrap_or(Path::new(".")), open)
    }

    /// Writes the file. What stood there is still there after an error.
    ///
    /// # Errors
    ///
    /// The disk is full, or the like.
    pub fn write(self, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let written = if self.is_special {
            std::fs::write(&self.path, contents)
        } else {
            self.fresh().and_then(|mut file| {
                file.as_file_mut().write_all(contents.as_ref())?;
                if let Ok(before) = self.path.metadata() {
                    file.as_file().set_permissions(before.permissions())?;
                }
                file.as_file().sync_all()?;
                file.persist(&self.path).map(drop).map_err(|failed| failed.error)
            })
        };
        written.with_context(|| cannot(&self.path))
    }
}

/// What a link leads to, which is replaced, not the link: a file, or the place of one that is not there yet.
fn led_to(link: &Path) -> Option<PathBuf> {
    link.canonicalize().ok().or_else(|| Some(link.parent()?.join(link.read_link().ok()?)))
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_stood_there_stays_until_the_new_file_is_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("page.md");
        std::fs::write(&path, "old").expect("a file");
        drop(OutputFile::at(&path).expect("a place"));
        let page = OutputFile::at(&path).expect("a place");
        assert_eq!(directory.path().read_dir().expect("a directory").count(), 1, "nothing lies beside it");
        assert_eq!(std::fs::read_to_string(&path).expect("the page"), "old");
        page.write("new").expect("space on the disk");
        assert_eq!(std::fs::read_to_string(&path).expect("the page"), "new");
        assert_eq!(
            std::fs::read_dir(directory.path()).expect("a directory").count(),
            1,
            "nothing is left over"
        );
    }

    #[test]
    fn a_private_file_stays_private() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("page.html");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::write(&path, "old").expect("a file");
        std::fs::set_permissions(&path, private).expect("an own file");
        OutputFile::at(&path).expect("a place").write("new").expect("space on the disk");
        assert_eq!(path.metadata().expect("the page").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let [link, page] = ["latest.md", "page.md"].map(|name| directory.path().join(name));
        std::fs::write(&page, "old").expect("a file");
        std::os::unix::fs::symlink(&page, &link).expect("a link");
        OutputFile::at(&link).expect("a place").write("new").expect("space on the disk");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&page).expect("the page"), "new");
    }

    #[test]
    fn a_link_to_what_is_not_there_yet_stays_too() {
        let directory = tempfile::tempdir().expect("a directory");
        let [link, page] = ["latest.md", "page.md"].map(|name| directory.path().join(name));
        std::os::unix::fs::symlink("page.md", &link).expect("a link");
        OutputFile::at(&link).expect("a place").write("new").expect("space on the disk");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&page).expect("the page"), "new");
        std::os::unix::fs::symlink("none/page.md", directory.path().join("lost.md")).expect("a link");
        let error = OutputFile::at(&directory.path().join("lost.md")).expect_err("no place").to_string();
        assert!(error.contains("lost.md"), "{error}");
    }

    #[test]
    fn a_directory_is_refused_before() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = OutputFile::at(directory.path()).expect_err("no place").to_string();
        assert!(error.starts_with(&cannot(directory.path())) && error.contains("name a file"), "{error}");
    }

    #[test]
    fn a_place_that_cannot_be_is_told_before() {
        let error = OutputFile::at(Path::new("/no/such/directory/page.md")).expect_err("no place");
        let told = "cannot write /no/such/directory/page.md: No such file or directory (os error 2)";
        assert_eq!(format!("{error:#}"), told, "and no other name");
    }
}
