//! `contend gate`: whether a change made a ratio worse, for continuous integration.

use crate::PRELOAD;
use crate::arguments::{self, Numbers};
use crate::compare::{metric, parse_metric, show_output_tail};
use crate::output::{self, print_json, write_page};
use crate::progress::{self, BARS};
use anyhow::Context as _;
use compare::gate::{Base, Gate, LEAST_RUNS, Operations, Outcome, THREADS};
use regex_lite::Regex;
use report::Screen;
use session::{ensure_usage, host, interrupt};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Fail a job when a change makes a program scale worse.
///
/// Base and candidate run interleaved, on one thread and on more. Judged are ratios, since which machine a job gets decides about
/// times: how many times as fast the program is on more threads as on one; which part of all lock acquisitions
/// waited; with --ops or --ops-regex, how many acquisitions an operation takes; and, with --site, in which part of its threads' time
/// one lock was held. A ratio is worse if all of the range that
/// chance leaves open (the exact rank-sum test of `contend compare`) is worse than --worse-by allows. Then the locks follow that cost
/// more in the last profile of the candidate than in that of the base, with where they are waited for and behind whom.
///
/// Where other programs use the machine, the gate ends as soon as quiet rounds can no longer make up for it, and judges only
/// acquisitions per operation, which hardly depend on that.
///
/// Both commands say where their number of threads goes: write {threads} there. A base of one word is a program that gets the
/// arguments of CMD. A stored profile can be the base instead; scaling is not judged then.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "contend gate [OPTIONS] --base CMD… -- CMD…\n       contend gate [OPTIONS] --against PROFILE,… -- CMD…",
    after_help = "Examples:
  contend gate --threads 1,4 --base old/server -- new/server --threads {threads}
  contend gate --metric 'ops: ([0-9.]+)' --base old/bench -t {threads} -- new/bench --workers {threads}
  contend gate --site cache_lock --junit gate.xml -o \"$GITHUB_STEP_SUMMARY\" --base old/server -- new/server -t {threads}
  contend gate --against base.contend --threads 4 -- new/server --threads {threads}

Exit codes:
  0    no ratio is shown to be worse
  1    a ratio is worse; or, as everywhere, an error such as a file that cannot be read
  2    an argument is wrong
  3    other programs or the hypervisor used the machine, or a CPU quota held the program back: not judged
  4    base or candidate failed, took too long, or printed no metric: not judged
  126  base or candidate is not executable
  127  base or candidate was not found
  130  interrupted: not judged"
)]
pub(crate) struct Args {
    /// The program as it was, up to `--`: a command with {threads}, or a program alone, which gets the arguments of CMD. Other
    /// options come before it
    #[arg(
        long,
        value_name = "CMD",
        num_args = 1..,
        action = clap::ArgAction::Set,
        allow_hyphen_values = true,
        value_terminator = "--",
        conflicts_with = "against",
        required_unless_present = "against"
    )]
    base: Vec<OsString>,

    /// Profiles of the program as it was, on as many threads, instead of --base
    #[arg(long, value_name = "PROFILE,…", value_delimiter = ',')]
    against: Vec<PathBuf>,

    /// Numbers of threads; 1 is always among them. Profiles are taken on the greatest [default: as many as there are cores, at
    /// least 2; with --against what the command says]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, 1_024))]
    threads: Vec<Numbers>,

    /// Runs of each after the warm-up. More make ranges narrower
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(i64::from(LEAST_RUNS)..=1_000))]
    runs: u32,

    /// Scaling is of a number that the program prints, instead of wall time: the first capture group of this regular expression,
    /// where it first matches a number. More is better, unless --lower-is-better
    #[arg(long, value_name = "REGEX", value_parser = parse_metric, conflicts_with = "against")]
    metric: Option<Regex>,

    /// Less of the metric is better: a time
    #[arg(long, requires = "metric")]
    lower_is_better: bool,

    /// Each thread has the same work, however many there are; else all share one work. Matters for times
    #[arg(long, conflicts_with = "against")]
    per_thread: bool,

    /// Judge the share of this lock too, as `contend profile` prints its name. A function or variable without @STACK or +OFFSET
    /// stands for the lock there that is held most
    #[arg(long, value_name = "SITE")]
    site: Option<String>,

    /// Judge acquisitions per operation too, where a run on the most threads does N operations: 1 if all that is known is that each does
    /// the same
    #[arg(long, value_name = "N", conflicts_with = "ops_regex", value_parser = arguments::operations)]
    ops: Option<u64>,

    /// Judge acquisitions per operation too, where the program prints its operations: the number in the first group of the last match
    #[arg(long, value_name = "REGEX", value_parser = parse_metric)]
    ops_regex: Option<Regex>,

    /// How much worse than the base a ratio may be
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = arguments::percent)]
    worse_by: u32,

    /// Judge as long as other programs use no more than this part of the cores, and the hypervisor and a CPU quota each take no more
    /// [default: 5% for other programs, 1% for the hypervisor, 0.1% for a quota]
    #[arg(long, value_name = "PERCENT", value_parser = arguments::percent)]
    noise_limit: Option<u32>,

    /// End a run that takes longer
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = arguments::duration)]
    time_limit: Duration,

    /// Run the programs on these cores only, such as 0..3 or 0,2
    #[arg(long, value_name = "CORE,…", value_delimiter = ',', value_parser = Numbers::between(0, host::LAST_CORE))]
    pin: Vec<Numbers>,

    /// Also write the outcome and the table as Markdown, as for the summary of a job
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Also write a test case for each ratio as JUnit's XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Keep the profile of every judged run in this folder: base-1.contend, candidate-1.contend and so on, for `contend diff`. Those of
    /// an earlier gate are replaced
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Print the outcome, rows, every round's ratios and the noise meanwhile as JSON
    #[arg(long)]
    json: bool,

    /// The program as it is now, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs `contend gate`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.pin.is_empty() {
        host::run_on(&Numbers::all(&args.pin))?;
    }
    let gate = Gate {
        library: PRELOAD,
        contend: std::env::current_exe().context("cannot find the command itself")?,
        base: base(args),
        candidate: args.command.clone(),
        threads: threads(args),
        runs: args.runs,
        metric: metric(args.metric.as_ref(), args.lower_is_better),
        per_thread: args.per_thread,
        site: args.site.clone(),
        operations: match (args.ops, &args.ops_regex) {
            (Some(operations), _) => Some(Operations::Fixed(operations)),
            (None, regex) => regex.clone().map(Operations::Printed),
        },
        worse_by: f64::from(args.worse_by) / 100.0,
        noise_limits: arguments::noise_limits(args.noise_limit),
        time_limit: args.time_limit,
        keep: args.keep.clone(),
    };
    let kept = args.keep.as_deref().and_then(|folder| folder.canonicalize().ok());
    let is_kept = |profile: &&PathBuf| {
        let folder = profile.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
        kept.is_some() && folder == kept
    };
    ensure_usage!(
        !args.against.iter().any(|profile| is_kept(&profile)),
        "--keep: the profiles of --against are in this folder, and those of this gate may replace them: keep these in another folder"
    );
    let place = |path: &Option<PathBuf>| output::file_at(path.as_deref());
    let (page, junit) = (place(&args.output)?, place(&args.junit)?);
    interrupt::keep();
    let gated = gate.run(&BARS)?;

    // A disk that is full keeps neither the answer nor the other file back.
    let page = page.map_or(Ok(()), |file| write_page(file, &gated.markdown()));
    let junit = junit.map_or(Ok(()), |file| file.write(gated.junit()));
    if args.json {
        print_json(&gated.json())?;
    } else {
        print!("{}", gated.terminal(Screen::stdout()));
    }
    if let Some(failed) = &gated.failed {
        show_output_tail(&failed.what, &failed.output_tail);
    }
    progress::warn(&gated.remarks);
    page?;
    junit?;
    let outcome = gated.outcome();
    if outcome == Outcome::CutShort {
        return Ok(crate::interrupt::exit_code("nothing is judged", ExitCode::SUCCESS));
    }
    Ok(ExitCode::from(outcome.exit_code()))
}

/// What the candidate is held against. A program alone gets the candidate's arguments.
fn base(args: &Args) -> Base {
    let command = match &args.base[..] {
        [] => return Base::Profiles(args.against.clone()),
        [program] if !program.to_string_lossy().contains(THREADS) => {
            std::iter::once(program).chain(&args.command[1..]).cloned().collect()
        }
        command => command.to_vec(),
    };
    Base::Command(command)
}

/// Numbers of threads, ascending: with 1, from which scaling is, unless only profiles are compared.
fn threads(args: &Args) -> Vec<u32> {
    let mut threads = Numbers::all(&args.threads);
    if args.base.is_empty() {
        return threads;
    }
    if threads.is_empty() {
        let cores = host::allowed_cores().len();
        threads.push(u32::try_from(cores.clamp(2, 1_024)).unwrap_or(2));
    }
    threads.push(1);
    threads.sort_unstable();
    threads.dedup();
    threads
}
