//! `contend advise`: measure, profile, try other locks, forecast; one answer.

use crate::arguments::{self, Numbers};
use crate::compare::parse_metric;
use crate::output::{self, own_command_line, print, print_json, write_page};
use crate::progress::BARS;
use crate::{PRELOAD, interrupt, machines};
use anyhow::Context as _;
use compare::gate::THREADS;
use forecast::advise::{Advice, Asked, Counted, measure, takes_threads};
use regex_lite::Regex;
use report::Screen;
use session::ensure_usage;
use session::scratch::Scratch;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Find the lock that holds a program back, and what helps.
///
/// Runs the program as it is and with its locks recorded, on one thread and on more. Of the locks that cost time now, or will on
/// the target, each is replaced in the running binary by others, that lock alone: runs are interleaved, five rounds and more until
/// chance no longer explains the differences. What was measured is then forecast to the target's cores.
///
/// Nothing is recompiled. The advice names only locks that can be put there and whose gain is more than chance. Of a lock that the program
/// records by itself (contend_recorded), in whose place none can be tried, it names what gains by the forecast. Where nothing helps it says
/// so, and what else holds the program back. Exits with 0 whether or not there is something to do; with 3 where what was measured carries
/// no answer, as where the machine was too busy, which then says why and what to do. Ctrl-C ends with what is known by then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend advise -- ./server --threads {threads}
  contend advise --ops-regex 'requests: ([0-9]+)' -- ./load --threads {threads} --seconds 1
  contend advise -o kept -- ./server -t {threads}
  contend advise -o kept --target altra-q80 -- ./server -t {threads}    # the same for another machine: runs nothing")]
pub(crate) struct Args {
    /// Numbers of threads; {threads} in CMD stands for them [default: powers of two up to the cores of this machine, but at least 2 and at most 16]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, 1_024))]
    threads: Vec<Numbers>,
    /// The machine to forecast for: a name from `contend machines`, or a machine file
    #[arg(long, value_name = "MACHINE", default_value = "epyc-9654x2")]
    target: String,
    /// Take the operations of a run from the program's output: the number in the first group of the last match. Without this
    /// every run is taken to do the same work, or the same work for each thread, as its locks tell
    #[arg(long, value_name = "REGEX", value_parser = parse_metric)]
    ops_regex: Option<Regex>,
    /// Take the throughput from the program's output: the number in the first group, where that first matches a number
    #[arg(long, value_name = "REGEX", conflicts_with = "ops_regex", value_parser = parse_metric)]
    metric: Option<Regex>,
    /// All runs of the program together may take so long; what is decided by then is said. The program and each lock that is tried run
    /// twice at least
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = arguments::duration)]
    time_limit: Duration,
    /// Keep profiles and measurements in this folder; if it has them already, nothing is run, unless they left something undecided and
    /// --time-limit is longer than it was
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print everything that is known as JSON
    #[arg(long)]
    json: bool,
    /// Also write answer, curves and tables as a page: one file for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What `advise` and `predict` exit with where the measurements carry no answer.
pub(crate) const VOID: u8 = 3;

/// Runs `contend advise`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let page = output::file_at(args.html.as_deref())?;
    let is_kept = args.output.is_some();
    let (folder, _scratch) = match args.output {
        Some(folder) => (folder, None),
        None => {
            let scratch = Scratch::new()?;
            (scratch.path().to_owned(), Some(scratch))
        }
    };
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}: name another place with -o", folder.display()))?;
    let mut threads = Numbers::all(&args.threads);
    let usual_threads = threads.is_empty();
    if usual_threads {
        threads = Asked::usual_threads(&args.command);
    }
    ensure_usage!(
        takes_threads(&args.command) || threads.len() == 1,
        "the command does not say where its number of threads goes: write {THREADS} there, as in `./server --threads {THREADS}`"
    );
    let asked = Asked {
        library: PRELOAD,
        contend: std::env::current_exe().context("cannot find the command itself")?,
        command: args.command,
        threads,
        usual_threads,
        work: match (args.ops_regex, args.metric) {
            (Some(operations), _) => Counted::Operations(operations),
            (None, Some(throughput)) => Counted::Throughput(throughput),
            (None, None) => Counted::Same,
        },
        target: machines::load(&args.target)?,
        here: machines::this_or_assumed()?,
        time_limit: args.time_limit,
        folder,
        is_kept,
    };
    interrupt::keep();
    let measured = match measure(&asked, &BARS) {
        Err(nothing) if interrupt::came() => {
            return Ok(interrupt::exit_code(&format!("{nothing:#}"), ExitCode::FAILURE));
        }
        measured => measured?,
    };
    let advice = Advice::new(&asked, measured, &BARS)?;
    if args.json {
        print_json(&advice)?;
    } else {
        print(&advice.terminal(Screen::stdout()))?;
    }
    if let Some(file) = page {
        write_page(file, &advice.page()?.made_by(&own_command_line()).html())?;
    }
    let otherwise = if advice.void().is_some() { ExitCode::from(VOID) } else { ExitCode::SUCCESS };
    Ok(interrupt::exit_code("what was measured by then is said", otherwise))
}
