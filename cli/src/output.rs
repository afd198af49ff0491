//! Standard output and standard error, either of which may be a full disk.

use anyhow::Context as _;
use profile::format::MAGIC;
use profile::read::merged::is_merged;
use report::{Screen, text};
use serde::Serialize;
use session::output_file::OutputFile;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;

/// Writes to standard output. `print!` would panic where that cannot be.
///
/// # Errors
///
/// Not all of it could be written.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).context("cannot write the output")
}

/// Says a line on standard error, as wide as the screen. It may be a full disk, which ends no command.
pub(crate) fn tell(line: &str) {
    let line = Screen::stderr().fit(&format!("contend: {line}\n"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Writes a value to standard output as JSON for people, which for a large profile need not be in memory as a whole.
///
/// # Errors
///
/// Not all of it could be written.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut output = BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer_pretty(&mut output, value).context("cannot write the output")?;
    output.write_all(b"\n").and_then(|()| output.flush()).context("cannot write the output")
}

/// The place of a file that is to be written, where one is: see [`file`].
pub(crate) fn file_at(path: Option<&Path>) -> anyhow::Result<Option<OutputFile>> {
    path.map(file).transpose()
}

/// The place of a file that is to be written. A profile, which may have taken a day to record, is not written over: its
/// path stands there by mistake.
///
/// # Errors
///
/// A profile or a file of merged profiles is there, or the file cannot be written.
pub(crate) fn file(path: &Path) -> anyhow::Result<OutputFile> {
    session::ensure_usage!(
        !path.is_file() || !is_merged(path),
        "{} holds merged profiles, which would be written over: give the file that is to be written another name",
        path.display()
    );
    merged_file(path)
}

/// The place of a file that profiles are merged into, where what was merged before is replaced: see [`file`].
///
/// # Errors
///
/// A single profile is there, or the file cannot be written.
pub(crate) fn merged_file(path: &Path) -> anyhow::Result<OutputFile> {
    let mut mark = [0; MAGIC.len()];
    let is_profile =
        path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut mark)).is_ok();
    session::ensure_usage!(
        !is_profile || mark != MAGIC,
        "{} is a profile, which would be written over: give the file that is to be written another name",
        path.display()
    );
    OutputFile::at(path)
}

/// Writes a page that took minutes to make. It comes out on standard output where its file cannot be written after all.
///
/// # Errors
///
/// The disk is full, or the like.
pub(crate) fn write_page(file: OutputFile, page: &str) -> anyhow::Result<()> {
    file.write(page).inspect_err(|_| drop(print(page)))
}

/// The command as it was given, for pages that say what made them.
pub(crate) fn own_command_line() -> String {
    command_line(&std::env::args_os().skip(1).collect::<Vec<_>>())
}

/// A command line of these arguments, as a user would type it: a shell reads them back.
pub(crate) fn command_line(args: &[OsString]) -> String {
    let words: Vec<_> = args.iter().map(|word| word.to_string_lossy()).collect();
    format!("contend {}", text::command_line(words.iter().map(|word| &**word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_profiles_are_replaced_by_merged_ones_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let [merged, single] = ["merged.contend", "single.contend"].map(|name| directory.path().join(name));
        std::fs::write(&merged, b"\x89cntmrg1").expect("a file");
        std::fs::write(&single, MAGIC).expect("a file");
        let said = file(&merged).expect_err("merged profiles").to_string();
        assert!(said.contains("holds merged profiles, which would be written over"), "{said}");
        assert!(merged_file(&merged).is_ok(), "merging again replaces it");
        assert!(file(&single).is_err() && merged_file(&single).is_err());
    }

    #[test]
    fn a_command_can_be_given_again_as_it_is_printed() {
        let words = ["validate", "--metric", "it's ([0-9.]+)", "", "--", "./mine", "-t{threads}"];
        let line = command_line(&words.map(OsString::from));
        assert_eq!(line, r"contend validate --metric 'it'\''s ([0-9.]+)' '' -- ./mine '-t{threads}'");
    }
}
