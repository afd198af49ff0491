//! A file whose contents take minutes to make. Whether it can be written is told before, and what stood in its place stays
//! there until the new one is whole: a full disk loses neither.

use anyhow::Context;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The place of a file that is not written yet.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// Beside the path; none where something stands that is no file, such as a terminal.
    fresh: Option<NamedTempFile>,
}

impl OutputFile {
    /// Makes sure that the file can be written.
    ///
    /// # Errors
    ///
    /// It cannot be written there.
    pub fn at(path: &Path) -> anyhow::Result<Self> {
        let fresh = (path.is_file() || !path.exists()).then(|| {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            // As any other file, as far as the user's mask lets it.
            let mut builder = tempfile::Builder::new();
            builder
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(directory.unwrap_or(Path::new(".")))
        });
        let fresh = fresh.transpose().with_context(|| cannot(path))?;
        Ok(Self { path: path.to_owned(), fresh })
    }

    /// Writes the file. What stood there is still there after an error.
    ///
    /// # Errors
    ///
    /// The disk is full, or the like.
    pub fn write(self, text: &str) -> anyhow::Result<()> {
        let Self { path, fresh } = self;
        let written = match fresh {
            None => std::fs::write(&path, text),
            Some(mut file) => file
                .write_all(text.as_bytes())
                .and_then(|()| file.as_file().sync_all())
                .and_then(|()| file.persist(&path).map(drop).map_err(|failed| failed.error)),
        };
        written.with_context(|| cannot(&path))
    }
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_there_stays_until_the_new_file_is_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("page.md");
        std::fs::write(&path, "old").expect("a file");
        drop(OutputFile::at(&path).expect("a place"));
        let page = OutputFile::at(&path).expect("a place");
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
    fn a_place_that_cannot_be_is_told_before() {
        let error = OutputFile::at(Path::new("/no/such/directory/page.md")).expect_err("no place");
        assert!(format!("{error:#}").contains("/no/such/directory/page.md"), "{error:#}");
    }
}
