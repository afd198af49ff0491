//! `contend sweep`: the runs of a grid, which the Python package makes.

use anyhow::Context as _;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Make the runs of a grid: simulations, checks or reproductions, on this computer's cores or on a Dask cluster.
///
/// FILE is TOML: `kind`, and flags and the argument of that subcommand. A list is an axis of the grid, and so is `1..48`. Each
/// run is kept when it is finished; a sweep that was ended goes on where it stopped. DIR/runs.parquet has a row for each run
/// in the end, with the same bytes wherever the runs were made.
///
/// The runs are made by contend's Python package, which has to be there: `pip install contend`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  printf '%s\\n' 'kind = \"simulate\"' 'workload = \"counter\"' 'lock = [\"ticket\", \"mcs\"]' 'cores = \"1..48:4\"' > grid.toml
  contend sweep grid.toml                                    # into the directory grid
  contend sweep grid.toml --scheduler tcp://head:8786 -o far # on a cluster
  printf 'kind = \"check\"\\nmutate = true\\n' > all.toml && contend sweep all.toml   # every lock under every model")]
pub(crate) struct Args {
    /// The grid, as TOML
    #[arg(value_name = "FILE")]
    grid: PathBuf,
    /// Where the results go [default: FILE without its ending]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The scheduler of a Dask cluster to run on, such as tcp://head:8786; its workers need the Python package too [default: this
    /// computer's cores]
    #[arg(long, value_name = "SCHEDULER")]
    scheduler: Option<String>,
    /// Print only where the results are
    #[arg(short, long)]
    quiet: bool,
}

/// The script that the Python package installs.
const SCRIPT: &str = "contend-sweep";

/// Runs `contend sweep`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let exe = std::env::current_exe().context("cannot find the command itself")?;
    // A wheel puts both into one directory, which need not be in PATH.
    let beside = exe.with_file_name(SCRIPT);
    let mut script = Command::new(if beside.exists() { beside } else { SCRIPT.into() });
    script.args(words(args)).env("CONTEND", &exe);
    let error = script.exec();
    Err(match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!(
            "there is no {SCRIPT} beside {} or in PATH: install contend's Python package, by `pip install contend`, or from its sources by `pip install ./python`",
            exe.display()
        ),
        _ => anyhow::Error::new(error).context(format!("cannot start {SCRIPT}")),
    })
}

/// The words behind the script.
fn words(args: &Args) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if let Some(output) = &args.output {
        words.extend(["--output".into(), output.into()]);
    }
    if let Some(scheduler) = &args.scheduler {
        words.extend(["--scheduler".into(), scheduler.into()]);
    }
    if args.quiet {
        words.push("--quiet".into());
    }
    words.extend(["--".into(), args.grid.as_os_str().to_owned()]);
    words
}
