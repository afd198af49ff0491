//! `contend merge`: several profiles in one file.

use crate::output;
use anyhow::Context as _;
use profile::read::merged::{self, Merging};
use profile::{Error, Options};
use rayon::prelude::*;
use report::text::{counted, grouped};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Put several profiles into one file, in which they are added up.
///
/// Those of a fleet, of the intervals of a server (contend profile --always-on), or of runs one after another. `contend report`, `diff`,
/// `gate` and `predict` read the file as one profile: a lock is the same where program, name and kind are the same, in whichever
/// process. Each profile stays whole in it, packed, so that merged files are merged with others. Single waits (--timeline) are shown of
/// one profile alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend merge p-20261127T16*.contend -o four-to-five.contend   # what happened in an hour
  contend merge host-*/p.contend -o fleet.contend && contend report fleet.contend
  contend diff yesterday.contend today.contend                   # two merged files
  contend merge p-*.contend --json | jq .acquisitions")]
pub(crate) struct Args {
    /// The profiles, or files that were merged before
    #[arg(value_name = "PROFILE", required = true)]
    profiles: Vec<PathBuf>,

    /// Write the merged file here
    #[arg(short, long, value_name = "FILE", default_value = "merged.contend")]
    output: PathBuf,

    /// Print what was merged as JSON
    #[arg(long)]
    json: bool,
}

/// What was merged.
#[derive(Debug, Serialize)]
struct Merged {
    file: PathBuf,
    bytes: usize,
    acquisitions: u64,
    profiles: Vec<Part>,
    /// Names of those that another of the files has, too: they count once.
    twice: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Part {
    name: String,
    acquisitions: u64,
}

/// Reads a file to see that it is whole, and what it holds.
fn parts_of(path: &Path) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::new();
    let options = Options { symbols: false, ..Options::default() };
    merged::for_each(path, |name, profile| {
        let rows = profile.table(&options).rows;
        let acquisitions = rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.acquisitions()));
        parts.push(Part { name, acquisitions });
        Ok(())
    })?;
    Ok(parts)
}

/// Runs `contend merge`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { profiles: paths, output: to, json } = args;
    let file = output::merged_file(to)?;
    let parts = paths.par_iter().map(|path| parts_of(path)).collect::<Result<Vec<_>, Error>>()?;
    let (mut bytes, mut profiles, mut twice) = (Vec::new(), Vec::new(), Vec::new());
    let mut merging = Merging::begin(&mut bytes)?;
    for (path, parts) in paths.iter().zip(parts) {
        let news = merging.add(path).with_context(|| format!("cannot merge {}", path.display()))?;
        for (part, is_new) in parts.into_iter().zip(news) {
            if is_new { profiles.push(part) } else { twice.push(part.name) }
        }
    }
    let acquisitions = profiles.iter().fold(0, |sum: u64, part| sum.saturating_add(part.acquisitions));
    let merged = Merged { file: to.clone(), bytes: bytes.len(), acquisitions, profiles, twice };
    file.write(bytes)?;
    if *json {
        output::print_json(&merged)?;
    } else {
        output::print(&format!(
            "{} with {} acquisitions: {}. `contend report`, `diff`, `gate` and `predict` read it as one profile.\n",
            counted(merged.profiles.len() as u64, "profile"),
            grouped(acquisitions),
            to.display()
        ))?;
        if !merged.twice.is_empty() {
            output::print(&format!("Given twice, and counted once: {}.\n", merged.twice.join(", ")))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
