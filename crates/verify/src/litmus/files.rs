//! Which files `contend litmus` reads.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Lists in one another at most.
const DEEPEST: usize = 16;
/// A list is not read beyond this.
const MOST_BYTES: u64 = 64 << 20;

/// The files that paths stand for: a file itself, all tests of a directory, what a pattern such as `tests/*.litmus`
/// matches, or what a list as herd's `@all` names. Each comes once, in the order of the paths.
pub fn find(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Found::default();
    for path in paths {
        found.matched = 0;
        found.collect(path, 0)?;
        if found.matched == 0 {
            bail!("{}: there is no litmus test, no file whose name ends in .litmus", path.display());
        }
    }
    Ok(found.files)
}

/// The text of a file, which may be a pipe; what is no UTF-8 is replaced.
///
/// # Errors
///
/// It cannot be read, or has more bytes than what it should be can have.
pub(super) fn read(path: &Path, most: u64, what: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    file.with_context(|| format!("{}: cannot be read", path.display()))?;
    if bytes.len() as u64 > most {
        bail!("{}: more than {most} bytes are too many for {what}", path.display());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    seen: HashSet<PathBuf>,
    /// Files that a path stands for, those that came before included.
    matched: usize,
}

impl Found {
    fn add(&mut self, file: PathBuf) {
        self.matched += 1;
        if self.seen.insert(file.clone()) {
            self.files.push(file);
        }
    }

    fn collect(&mut self, path: &Path, depth: usize) -> anyhow::Result<()> {
        let Ok(about) = std::fs::metadata(path) else { return self.pattern(path, depth) };
        if about.is_dir() {
            return self.directory(path);
        }
        if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"@")) {
            return self.list(path, depth);
        }
        self.add(path.to_owned());
        Ok(())
    }

    fn directory(&mut self, path: &Path) -> anyhow::Result<()> {
        let entries =
            std::fs::read_dir(path).with_context(|| format!("{}: cannot be listed", path.display()))?;
        let mut entries = entries.flatten().collect::<Vec<_>>();
        entries.sort_by_key(std::fs::DirEntry::path);
        for entry in entries {
            // Links are not followed, so that no circle is.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.directory(&entry.path())?,
                Ok(_)
                    if entry.path().extension().is_some_and(|extension| extension == "litmus")
                        && entry.path().is_file() =>
                {
                    self.add(entry.path());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn pattern(&mut self, path: &Path, depth: usize) -> anyhow::Result<()> {
        let text = path.to_string_lossy();
        if !text.contains(['*', '?', '[']) {
            bail!("{}: there is no such litmus test, directory or list", path.display());
        }
        let matches = glob::glob(&text).with_context(|| format!("{text}: cannot be read as a pattern"))?;
        let mut matches = matches.flatten().peekable();
        if matches.peek().is_none() {
            bail!("{text}: no file matches");
        }
        matches.try_for_each(|path| self.collect(&path, depth))
    }

    /// A file a line, from the directory of the list; `#` starts a comment.
    fn list(&mut self, path: &Path, depth: usize) -> anyhow::Result<()> {
        if depth == DEEPEST {
            bail!("{}: more than {DEEPEST} lists name each other", path.display());
        }
        let text = read(path, MOST_BYTES, "a list")?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for (number, line) in text.lines().enumerate() {
            let name = line.split('#').next().unwrap_or("").trim();
            if !name.is_empty() {
                self.collect(&directory.join(name), depth + 1)
                    .with_context(|| format!("{}:{}", path.display(), number + 1))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_patterns_and_lists_name_each_file_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("deep")).expect("a directory");
        for name in ["b.litmus", "a.litmus", "deep/c.litmus", "notes.txt"] {
            std::fs::write(at(name), "").expect("a file");
        }
        std::fs::write(at("@all"), "# all\nb.litmus # twice\n\nb.litmus\n@more\n").expect("a list");
        std::fs::write(at("@more"), "deep\n").expect("a list");
        let names = |paths: &[&str]| {
            let paths = paths.iter().map(|name| at(name)).collect::<Vec<_>>();
            let found = find(&paths).expect("found");
            let short =
                |path: &PathBuf| path.strip_prefix(directory.path()).map(|path| path.display().to_string());
            found.iter().map(|path| short(path).expect("inside")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&[""]), "a.litmus b.litmus deep/c.litmus");
        assert_eq!(names(&["*.litmus", "a.litmus"]), "a.litmus b.litmus");
        assert_eq!(names(&["**/c.litmus"]), "deep/c.litmus");
        assert_eq!(names(&["@all"]), "b.litmus deep/c.litmus");
        std::fs::write(at("@more"), "@all\n").expect("a list");
        assert!(find(&[at("@all")]).is_err(), "lists that name each other");
        std::fs::write(at("@more"), "gone.litmus\n").expect("a list");
        let error = find(&[at("@more")]).expect_err("a file that is not there");
        assert!(format!("{error:#}").contains("@more:1"), "{error:#}");
        assert!(find(&[at("*.none")]).is_err() && find(&[at("none")]).is_err());
        std::os::unix::fs::symlink("/dev/zero", at("deep/zero.litmus")).expect("a link");
        assert_eq!(names(&["deep"]), "deep/c.litmus");
        let error = read(&at("deep/zero.litmus"), 100, "a test").expect_err("it has no end");
        assert!(error.to_string().contains("more than 100 bytes"), "{error}");
        std::fs::create_dir(at("empty")).expect("a directory");
        std::fs::write(at("@none"), "# nothing\nempty\n").expect("a list");
        for nothing in ["empty", "@none"] {
            let error = find(&[at("a.litmus"), at(nothing)]).expect_err("no test in it").to_string();
            assert!(error.contains(nothing) && error.contains("no litmus test"), "{error}");
        }
    }
}
