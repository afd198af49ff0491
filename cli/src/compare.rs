//! `contend compare`: one program under several locks, fairly.

use crate::arguments::{self, Numbers};
use crate::output::{self, own_command_line, print_json, tell};
use crate::progress::BARS;
use crate::{PRELOAD, interrupt, progress};
use clap::ArgGroup;
use compare::rounds::{Metric, exit_code};
use compare::statistics::Better;
use compare::{Comparison, candidates, swaps};
use regex_lite::Regex;
use report::{Screen, text};
use session::host;
use session::output_file::OutputFile;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Run a program under several locks in turn and compare them.
///
/// After one run of each lock to warm up, runs are interleaved (A B C, C B A, …), so that a machine that gets slower or
/// busier does so for all. Of each lock you see the median and range, and how many times as good as glibc it was: the
/// median and range of the ratios within each round. A lock is called better or worse if the difference is more than
/// chance explains in 99 of 100 comparisons (an exact rank-sum test, which takes five runs), than 2 %, and than the start
/// of contend's library. Ctrl-C prints what is finished. If standard input is a file, each run reads it from its beginning; else it
/// is empty.
///
/// A program that fails or hangs under one lock is a row that says so. The exit code is the program's own if it fails
/// without a swapped lock (124 if it takes too long, 128 and the signal's number), 1 if it fails under all the others, else 0.
#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("direction").args(["lower_is_better", "higher_is_better"]),
    after_help = "Examples:
  Wall time under every lock:
    contend compare -- kccachetest order -th 2 -rnd 200000
  Two locks, more runs, on four cores, with a plot:
    contend compare --lock mcs,ticket --runs 10 --pin 0..3 --svg locks.svg -- CMD
  A throughput, and a time, that the program prints:
    contend compare --metric '([0-9.]+) ops/sec' -- db_bench --threads=4
    contend compare --metric 'real +([0-9.]+)' --lower-is-better -- CMD
  A page for a browser, in which each lock unfolds to its runs:
    contend compare --html locks.html -- CMD
  For a script:
    contend compare --json -- CMD | jq '.rows[] | {lock, times_glibc}'"
)]
pub(crate) struct Args {
    /// Locks to compare with glibc, each for every kind that it can replace [default: every one of `contend locks` but those
    /// of the groups history, study and glibc]. One kind alone is KIND=LOCK; `+` joins several: mutex=mcs+rwlock=rw
    #[arg(long, value_name = "LOCK,…", value_delimiter = ',', value_parser = parse_candidate)]
    lock: Vec<String>,

    /// Runs of each lock after the warm-up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,

    /// Compare a number that the program prints, instead of wall time: the first capture group of this regular
    /// expression, where it first matches a number. More is better, unless --lower-is-better
    #[arg(long, value_name = "REGEX", value_parser = parse_metric)]
    metric: Option<Regex>,

    /// Less of the metric is better: a time
    #[arg(long, requires = "metric")]
    lower_is_better: bool,

    /// More of the metric is better: a throughput
    #[arg(long, requires = "metric")]
    higher_is_better: bool,

    /// Warn only where other programs use more than this part of the cores, or the hypervisor or a CPU quota takes more
    /// [default: 5% for other programs, 1% for the hypervisor, 0.1% for a quota]
    #[arg(long, value_name = "PERCENT", value_parser = arguments::percent)]
    noise_limit: Option<u32>,

    /// End a run that takes longer [default: ten times what glibc took to warm up, at least 30s]
    #[arg(long, value_name = "DURATION", value_parser = arguments::duration)]
    time_limit: Option<Duration>,

    /// Run the program on these cores only, such as 0..3 or 0,2
    #[arg(long, value_name = "CORE,…", value_delimiter = ',', value_parser = Numbers::between(0, host::LAST_CORE))]
    pin: Vec<Numbers>,

    /// Have the holders of swapped locks ask the kernel not to take their core away for a few microseconds, which needs Linux 7.0 and glibc
    /// 2.41
    #[arg(long)]
    time_slice: bool,

    /// Print rows, every run's value and the noise meanwhile as JSON
    #[arg(long)]
    json: bool,

    /// Draw medians and ranges into this file as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write plot, table and every run's value as a page as well: one file for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn parse_candidate(text: &str) -> Result<String, String> {
    swaps(text).map(|_| text.to_owned())
}

pub(crate) fn parse_metric(text: &str) -> Result<Regex, String> {
    let regex = Regex::new(text).map_err(|error| error.to_string())?;
    if regex.captures_len() < 2 {
        return Err("it has no capture group; put the number in parentheses, as in 'ops: +([0-9.]+)'".into());
    }
    Ok(regex)
}

/// What is compared: wall time, or what the program prints.
pub(crate) fn metric(regex: Option<&Regex>, lower_is_better: bool) -> Metric {
    match regex {
        None => Metric::WallTime,
        Some(regex) => {
            let better = if lower_is_better { Better::Lower } else { Better::Higher };
            Metric::Captured { regex: regex.clone(), better, per_second: false }
        }
    }
}

/// Runs `contend compare`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let metric = metric(args.metric.as_ref(), args.lower_is_better);
    let comparison = Comparison {
        library: PRELOAD,
        command: &args.command,
        locks: candidates(&args.lock)?,
        runs: args.runs,
        metric,
        time_limit: args.time_limit,
        noise_limits: arguments::noise_limits(args.noise_limit),
        time_slice: args.time_slice,
    };
    let page = output::file_at(args.html.as_deref())?;
    let picture = output::file_at(args.svg.as_deref())?;
    if !args.pin.is_empty() {
        host::run_on(&Numbers::all(&args.pin))?;
    }
    interrupt::keep();
    let compared = comparison.run(&BARS)?;

    // Before anything is printed: standard output may be a full disk, which ends the command.
    let pages = write_pages(picture, page, &compared);
    if args.json {
        print_json(&compared.json())?;
    } else {
        let screen = Screen::stdout();
        print!("{}", compared.table().terminal(screen));
        println!("\n{}", screen.fit(&compared.explanation()));
        for line in compared.not_compared() {
            println!("{}", screen.fit(&line));
        }
        if let Some(instruction) = compared.instruction() {
            println!("{}", screen.fit(&instruction));
        }
        for row in &compared.rows {
            show_output_tail(&format!("under {} the program", row.lock), &row.output_tail);
        }
    }
    progress::warn(&compared.warnings());
    pages?;
    let finished = compared.rows.iter().map(|row| row.values.len()).min().unwrap_or(0);
    let finished = format!("{finished} of {} rounds were finished", args.runs);
    Ok(interrupt::exit_code(&finished, ExitCode::from(exit_code(&compared.rows))))
}

fn write_pages(
    picture: Option<OutputFile>,
    page: Option<OutputFile>,
    compared: &compare::comparison::Compared<'_>,
) -> anyhow::Result<()> {
    if let Some(file) = picture {
        file.write(compared.plot().svg())?;
    }
    if let Some(file) = page {
        file.write(compared.page().made_by(&own_command_line()).html())?;
    }
    Ok(())
}

/// Shows what a program wrote before it failed, since its output is not shown otherwise.
pub(crate) fn show_output_tail(whose: &str, output_tail: &str) {
    if output_tail.is_empty() {
        return;
    }
    tell(&format!("{whose} wrote last:"));
    for line in output_tail.lines() {
        // Standard error may be a full disk.
        let _ = writeln!(std::io::stderr(), "  {}", text::printable(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Result<Args, String> {
        let words = ["compare"].iter().chain(words);
        Command::try_parse_from(words).map(|command| command.args).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused_with_a_remedy() {
        assert_eq!(parse(&["--runs", "3", "--", "a", "--lock"]).unwrap().command, ["a", "--lock"]);
        for (words, remedy) in [
            (&["--metric", "ops", "--", "a"][..], "parentheses"),
            (&["--metric", "(", "--", "a"], "open group without closing"),
            (&["--lower-is-better", "--", "a"], "--metric"),
            (
                &["--metric", "(a)", "--lower-is-better", "--higher-is-better", "--", "a"],
                "cannot be used with",
            ),
            (&["--time-limit=-1s", "--", "a"], "such as 500ms"),
            (&["--time-limit", "10", "--", "a"], "such as 500ms"),
            (&["--time-limit", "0s", "--", "a"], "at least 1ns"),
            (&["--pin", "0-3", "--", "a"], "FIRST..LAST"),
            (&["--pin", "99999999", "--", "a"], "from 0 to 1023"),
            (&["--pin", "3..1", "--", "a"], "FIRST..LAST"),
            (&["--runs", "0", "--", "a"], "--runs"),
            (&[], "CMD"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(remedy), "{words:?}: {error}");
        }
    }
}
