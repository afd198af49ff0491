//! `contend diff`: what grew between two profiles.

use crate::arguments::rows;
use crate::output::{self, own_command_line};
use profile::{Diff, LockTable, Options};
use report::{Screen, differences};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what grew between two profiles: locks, callers, call sites.
///
/// Take one profile with few threads and one with many, or one of each version. A lock costs what it makes threads
/// wait and what they do while they hold it; rows are in order of how much that grew. If both profiles counted
/// operations, figures are for one operation, so that a longer run is no difference; otherwise for one second.
///
/// Profiles that `contend merge` has put into one file are added up.
///
/// By call site means: how long threads waited for a lock in a function, and how long others waited behind its holds, each before and
/// after; rows are in order of how much both together grew.
///
/// If both profiles have the kernel's locks (contend profile --kernel), those follow, in order of how much the part of the threads'
/// time grew that went into waits for them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend profile -o one.contend --ops 100000 -- ./server --threads 1
  contend profile -o two.contend --ops 200000 -- ./server --threads 2
  contend diff one.contend two.contend        # a lock that scales costs the same for each operation in both
  contend diff --html grown.html old.contend new.contend   # a page, with the distributions of both side by side
  contend diff --json old.contend new.contend | jq '.locks[0]'")]
pub(crate) struct Args {
    /// The profile to compare with
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// The profile to look at
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// Print the difference as JSON
    #[arg(long)]
    json: bool,

    /// Write all rows as a page as well: one file for a browser, in which rows are sorted, filtered, and unfolded to the
    /// distributions before and after
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Show this many rows of each table; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = rows)]
    top: usize,
}

/// Runs `contend diff`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let page = output::file_at(args.html.as_deref())?;
    let open = |path| LockTable::open(path, &Options::default());
    let [before, after] = [open(args.before)?, open(args.after)?];
    let diff = Diff::new(&before, &after);
    if args.json {
        output::print_json(&diff)?;
    } else {
        output::print(&differences::text(&diff, args.top, Screen::stdout()))?;
    }
    if let Some(file) = page {
        file.write(differences::page(&diff, [&before, &after]).made_by(&own_command_line()).html())?;
    }
    Ok(ExitCode::SUCCESS)
}
