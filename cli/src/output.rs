//! Standard output, which may be a full disk.

use anyhow::Context as _;
use serde::Serialize;
use std::io::{BufWriter, Write as _};

/// Writes to standard output. `print!` would panic where that cannot be.
///
/// # Errors
///
/// Not all of it could be written.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).context("cannot write the output")
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
