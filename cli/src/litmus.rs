//! `contend litmus`: small programs, and what each memory model says about them.

use crate::output::{print_json, tell};
use crate::progress::Way;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use checker::Model;
use checker::litmus::Limits;
use report::Screen;
use report::text::printable;
use serde_json::json;
use verify::litmus::{Expected, Job, Summary, error_json, files};

use crate::arguments;

/// Say which outcomes of a small program each memory model allows.
///
/// Reads tests in herd's format, for x86 and in a subset of C. "Allowed" means that some execution ends in a state that
/// the test's condition describes. The models are sequential consistency, total store order (x86), partial store order,
/// and release-acquire as in RC11; x86 moves count as acquire and release there. In C, `atomic { … }` is a transaction,
/// with `aborted { … }` behind it for what follows when it aborts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend litmus tests/litmus                       # all tests of a directory
  contend litmus 'suite/**/MP*.litmus' suite/@all   # a pattern, and a list of files as herd has them
  contend litmus --model tso --states SB.litmus     # what can be in the registers at the end
  contend litmus --expect kinds.txt suite           # compare with published verdicts
  contend litmus --run SB.litmus                    # what this processor does, beside what TSO allows
  contend litmus tests/litmus --json | jq '.[] | select(.models.tso.verdict == \"Allowed\") | .name'

Exit status: 0 when all went well; 1 when a verdict is not the expected one or the processor did what its model
forbids; else 2 when a file is no litmus test, there is none, or FILE of --expect cannot be read or has no verdict of
these tests; else 3 when a test uses what is not supported.")]
pub(crate) struct Args {
    /// Tests, directories that are searched for files ending in .litmus, patterns, or lists whose name starts with @
    #[arg(value_name = "FILE|DIR|@LIST", required = true)]
    paths: Vec<PathBuf>,

    /// Only these models: sc, tso, pso or ra. In ra a release sequence is that of C++20: later
    /// read-modify-writes of any thread continue it, later plain and relaxed stores of the releasing thread do not, as
    /// they did in C11
    #[arg(long, value_name = "MODEL,…", value_delimiter = ',')]
    model: Vec<Model>,

    /// Print the final states too
    #[arg(long)]
    states: bool,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,

    /// Print only what is not as expected, what could not be read, and the sum
    #[arg(long, short)]
    quiet: bool,

    /// Compare with published verdicts: herd's kinds.txt or log, a CSV table, lines FILE,0 or FILE,1 (the condition
    /// fails or holds), or JSON. Verdicts that name no model are of --model, or of tso
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,

    /// Iterations of a loop that are followed; those that only wait are not counted
    #[arg(long, value_name = "N", default_value_t = 4)]
    unroll: usize,

    /// How long one test may take under one model; what was seen until then is a bound
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = arguments::duration)]
    time_limit: Duration,

    /// Run the tests on this processor too; an outcome that its model forbids is a failure. Says so where nothing weak
    /// was seen, as on one core. Tests with transactions are not run
    #[arg(long)]
    run: bool,

    /// How often, with --run
    #[arg(long, value_name = "N", default_value_t = 200_000, requires = "run", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
}

/// Runs `contend litmus`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let files = match files::find(&args.paths) {
        Ok(files) => files,
        Err(error) => {
            tell(&printable(&format!("{error:#}")));
            return Ok(ExitCode::from(2));
        }
    };
    let job = match job(args) {
        Ok(job) => job,
        Err(error) => {
            tell(&printable(&format!("{error:#}")));
            return Ok(ExitCode::from(2));
        }
    };
    let screen = Screen::stdout();
    let mut summary = Summary::default();
    let mut all = Vec::new();
    let way = Way::new(files.len(), "tests", Duration::ZERO);
    let lines = way.lines();
    for batch in files.chunks(Job::BATCH) {
        for (file, result) in batch.iter().zip(job.judge_all(batch, || way.done())) {
            summary.add(&result);
            match (result, args.json) {
                (Ok(outcome), _) if args.quiet && !outcome.is_failed() => {}
                (Ok(outcome), true) => all.push(outcome.json()),
                (Ok(outcome), false) => print!("{}", screen.fit(&outcome.text(args.states))),
                (Err(error), true) => all.push(json!({ "file": file, "error": error_json(&error) })),
                (Err(error), false) => tell(&printable(&format!("{error:#}"))),
            }
        }
    }
    drop(lines);
    if args.json {
        print_json(&all)?;
    } else if files.len() > 1 || args.quiet || args.expect.is_some() {
        print!("{}", screen.fit(&summary.text(job.expected.as_ref(), started.elapsed())));
    }
    let status = summary.exit_status();
    if let Some(table) = args.expect.as_ref().filter(|_| summary.expects_nothing() && status != 1) {
        let models = job.models.iter().map(|model| model.name()).collect::<Vec<_>>().join(", ");
        let message = format!("{}: names none of these tests with a verdict under {models}", table.display());
        tell(&printable(&message));
        return Ok(ExitCode::from(2));
    }
    Ok(ExitCode::from(status))
}

/// What the arguments ask of every file.
fn job(args: &Args) -> anyhow::Result<Job> {
    let models = if args.model.is_empty() { Model::ALL.to_vec() } else { args.model.clone() };
    let unnamed = if let [only] = args.model[..] { only } else { Model::Tso };
    Ok(Job {
        models,
        limits: Limits { iterations: args.unroll, time: Some(args.time_limit), ..Limits::default() },
        expected: args.expect.as_ref().map(|path| Expected::read(path, unnamed)).transpose()?,
        iterations: args.run.then_some(args.iterations),
    })
}
