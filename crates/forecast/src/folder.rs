//! What a folder keeps of a program, and the command that leaves profiles in it.

use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Removes these files, as far as they are there.
///
/// # Errors
///
/// A file cannot be removed.
pub(crate) fn remove_all(files: impl IntoIterator<Item = PathBuf>) -> anyhow::Result<()> {
    for file in files {
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", file.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// `contend profile` with this file for its profile; its options and the program are still to come.
pub(crate) fn profile_command(contend: &Path, file: &Path) -> Command {
    let mut command = Command::new(contend);
    command.args(["profile", "--quiet", "--output"]).arg(file);
    command
}
