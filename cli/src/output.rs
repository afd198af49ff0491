//! Standard output, which may be a full disk.

use anyhow::Context as _;
use std::io::Write as _;

/// Writes to standard output. `print!` would panic where that cannot be.
///
/// # Errors
///
/// Not all of it could be written.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).context("cannot write the output")
}
