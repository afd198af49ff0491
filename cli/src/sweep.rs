//! `contend sweep`: the runs of a grid, which the Python package makes.

use anyhow::Context as _;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Make the runs of a grid, on this machine or on a cluster.
///
/// FILE is TOML: `kind`, and flags and the argument of that subcommand. A list is an axis of the grid, and so is `1..48`. Each
/// run is kept when it is finished; a sweep that was ended goes on where it stopped. DIR/runs.parquet has a row for each run
/// in the end, with the same bytes wherever the runs were made.
///
/// The runs are made by contend's Python package, which has to be there: `pip install ./python` in a clone of contend.
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

/// What Python is given to do. Arguments are those of this command. `-c` puts the current folder on the path, and so does an empty part
/// of `PYTHONPATH`: code that another user may have put into that folder must not be run.
const START: &str = "\
import sys, os
sys.path = [place for place in sys.path if os.path.realpath(place) != os.getcwd()]
try:
    from contend.sweeps import main
except ModuleNotFoundError as missing:
    sys.exit(
        f'contend: {sys.executable}: {missing}: install contend\\'s Python package for it: '
        '`pip install ./python` in a clone of contend'
    )
sys.exit(main())
";

/// Runs `contend sweep`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let exe = std::env::current_exe().context("cannot find the command itself")?;
    // A wheel puts the command into the directory of the Python that it was installed for, which need not be in PATH.
    let beside = exe.with_file_name("python3");
    let python = if beside.exists() { beside } else { "python3".into() };
    let error = Command::new(&python).args(["-c", START]).args(words(args)).env("CONTEND", &exe).exec();
    let remedy = "sweeps are made by contend's Python package: install Python 3.10 or later, and `pip install ./python` in a clone of contend";
    Err(error).with_context(|| format!("cannot start {} ({remedy})", python.display()))
}

/// The arguments of Python's part.
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
