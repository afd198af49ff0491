//! What the commands that record have in common: where the profile goes, and what is said at the end.

use profile::session::{Overwrite, Recording};
use report::Screen;
use report::text::printable;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Destination {
    /// Where the profile goes [default: p.contend, or the first of p-2.contend, p-3.contend, … that no command records to]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Replace a file that is no profile
    #[arg(long)]
    force: bool,

    /// Do not print the table
    #[arg(short, long, display_order = 100)]
    pub(crate) quiet: bool,
}

impl Destination {
    /// Which files the profile may replace.
    pub(crate) fn overwrite(&self) -> Overwrite {
        if self.force { Overwrite::AnyFile } else { Overwrite::Profiles }
    }

    /// Where the profile is, in words for a terminal.
    pub(crate) fn place(&self, recording: &Recording) -> String {
        let place =
            self.output.as_deref().unwrap_or(recording.path().file_name().unwrap_or_default().as_ref());
        printable(&place.to_string_lossy())
    }
}

/// What the user may not expect, a line for each.
pub(crate) fn remarks(remarks: &[String], screen: Screen) -> String {
    remarks.iter().map(|remark| screen.fit(&format!("contend: {}\n", printable(remark)))).collect()
}
