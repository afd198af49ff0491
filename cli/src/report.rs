//! `contend report`: the lock table of a profile.

use crate::output::{self, own_command_line};
use anyhow::Context as _;
use lab::output_file::OutputFile;
use profile::{Options, Profile};
use report::{Screen, lock_table};
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the lock table of a profile.
///
/// One row for each lock and way of using it, by the time lost waiting, then by the time held. The first columns are
/// those of "Non-scalable locks are dangerous", figure 3: how often an operation acquires the lock, how long the
/// critical section is, and which part that makes of the time of the threads that use the lock, without their waits
/// for it: as many threads as it takes to make 100 % of these parts saturate the lock. An operation is what --ops or
/// --ops-regex counted when the profile was taken, or --ops counts now; without them figures are for one second.
///
/// "same core" and "other core" are the critical section after a holder on the same core and on another one: the
/// difference is the cost of moving its data, which is what grows with cores.
///
/// Where the profile has the kernel's locks (contend profile --kernel), a second table has those that threads waited for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend report p.contend                    # the locks that cost most
  contend report p.contend --top 0 --ops 5000 # all of them, for each of 5000 operations
  contend report p.contend --csv > locks.csv  # for a spreadsheet
  contend report p.contend --json | jq '.rows[0].exclusive.hold_other'
  contend report p.contend --html locks.html  # a page to look through, or to send: it needs nothing else
  contend report p.contend --pprof locks.pb   # for pprof, or a profile store that reads it")]
pub(crate) struct Args {
    /// The profile, as `contend profile -o` wrote it; the program may still be running
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,

    /// Print everything as JSON: `header` and `rows`, times in ns with their distributions
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print all rows as comma-separated values
    #[arg(long)]
    csv: bool,

    /// Write all rows as a page as well: one file for a browser, in which rows are sorted, filtered, and unfolded to their
    /// distributions and callers
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the contention as a pprof profile to this file as well
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,

    /// Show this many rows; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Operations that the program did
    #[arg(long, value_name = "N")]
    ops: Option<u64>,

    /// Do not read the program's files: locks are named by file and address
    #[arg(long)]
    no_symbols: bool,
}

/// Runs `contend report`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { profile: path, json, csv, html, pprof, top, ops, no_symbols } = args;
    let page = html.as_deref().map(OutputFile::at).transpose()?;
    let calls = pprof.is_some() || page.is_some();
    let options = Options { operations: ops, symbols: !no_symbols, calls };
    let table = Profile::open(path)?.table(&options);
    if let Some(path) = pprof {
        std::fs::write(&path, profile::read::to_pprof(&table))
            .with_context(|| format!("cannot write the pprof profile {}", path.display()))?;
    }
    if json {
        output::print_json(&table)?;
    } else if csv {
        output::print(&lock_table::csv(&table))?;
    } else {
        output::print(&lock_table::text(&table, top, Screen::stdout()))?;
    }
    if let Some(file) = page {
        file.write(&lock_table::page(&table).made_by(&own_command_line()).html())?;
    }
    Ok(ExitCode::SUCCESS)
}
