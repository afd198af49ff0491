//! `contend run`: a program with other locks.

use crate::launch::{Launch, Swaps, parse_site};
use anyhow::Context as _;
use pthread::{environment, site::LIMIT};
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

/// Run an unmodified program with other locks.
///
/// Every mutex, reader-writer lock and spin lock of the pthread functions that the named lock can serve is that lock; the
/// others stay the C library's, and so do robust, priority-inheriting and process-shared ones. Programs that it starts
/// are run in the same way. The command becomes the program, so its exit code, signals and terminal are the program's own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend run --lock mcs -- ./server --threads 64
  contend run --lock mutex=ticket,rwlock=rw -- CMD
  contend run --only 'cache_lock=mcs' -- CMD       # one static lock, or the locks that a function makes
  contend run --lock ticket --pure -- CMD          # really spin, as on a machine with a core for each thread")]
pub(crate) struct Args {
    /// A lock of `contend locks` for every kind of object that it can serve, or one for each kind
    #[arg(long, value_name = "NAME|KIND=NAME,…", value_parser = Swaps::parse)]
    lock: Option<Swaps>,

    /// A lock for one site: a static lock's symbol, or the function that makes or first takes the lock; with +OFFSET
    /// where a profile prints one. All others stay the C library's, or what --lock says. May be given several times
    #[arg(long, value_name = "SITE=NAME", value_parser = parse_site)]
    only: Vec<(String, String)>,

    /// Let waits that spin do so for ever, instead of yielding and then sleeping after a while. With more threads than
    /// cores a program may not end
    #[arg(long)]
    pure: bool,

    /// Say at the end how many locks stayed the C library's, and what was emulated
    #[arg(short, long)]
    verbose: bool,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs `contend run`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (program, arguments) = args.command.split_first().context("no program was given after `--`")?;
    anyhow::ensure!(
        args.only.len() <= LIMIT,
        "--only can be given {LIMIT} times, and is given {} times",
        args.only.len()
    );
    let swaps = Swaps { only: args.only, pure: args.pure, ..args.lock.unwrap_or_default() };
    let only = !swaps.only.is_empty();
    let mut launch = Launch::new(program, arguments).swaps(swaps);
    if only {
        // The command becomes the program, which says at its end what no lock matched.
        launch = launch.env(environment::ONLY_PROCESS, std::process::id().to_string());
    }
    if args.verbose {
        launch = launch.env(environment::VERBOSE, "1");
    }
    let error = launch.command()?.exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
