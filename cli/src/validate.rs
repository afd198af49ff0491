//! `contend validate`: predictions against measurements, on this machine.

use crate::PRELOAD;
use crate::arguments::{self, Numbers};
use crate::compare::parse_metric;
use crate::machines;
use crate::output::{own_command_line, write_page};
use crate::progress::BARS;
use anyhow::Context as _;
use compare::statistics::Better;
use forecast::validate::{
    Evidence, Program, Setting, Throughput, Validated, check_folders, goals, page, read_list, validate,
};
use regex::Regex;
use report::{Screen, text};
use session::ensure_usage;
use session::output_file::OutputFile;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Predict a program on more threads from a profile of one, measure it, and compare.
///
/// The program is profiled on one thread. The twin, a program of the same kind on the simulated machine, says what it would do
/// on each number of threads under its own lock and under others. Then all of that is measured on this machine, interleaved. You
/// see predicted against measured throughput relative to one thread with the program's own lock, and whether the verdicts were
/// right.
///
/// CMD says where its number of threads goes: write {threads} there. Several programs come from a list.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend validate --metric 'events per second: +([0-9.]+)' -- sysbench threads --threads={threads} run
  contend validate --two --lock mcs,futex -- ./mine --threads {threads}
  contend validate --programs tests/real-programs.toml -o docs/predictions.md
  contend validate --programs mine.toml --keep measured   # once, then with each new version:
  contend validate --programs mine.toml --again measured

A list is TOML with a table for each program:
  [[program]]
  name = \"mine\"
  command = [\"./mine\", \"--threads={threads}\"]
  metric = \"([0-9.]+) ops/s\"   # without it: wall time
  lower_is_better = false       # the metric is a time
  per_thread = false            # every thread has work of its own; else all share one work
  set_up = \"mkdir -p /tmp/m\"     # shell commands before the first run and after the last
  clear_up = \"rm -r /tmp/m\"")]
pub(crate) struct Args {
    /// A list of programs, instead of CMD
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "metric", "per_thread"])]
    programs: Option<PathBuf>,
    /// Numbers of threads, from 1 on
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8", value_parser = Numbers::between(1, 1_024))]
    threads: Vec<Numbers>,
    /// Locks to put in place of the program's own: names of `contend locks`
    #[arg(
        long = "lock",
        value_name = "LOCK,…",
        value_delimiter = ',',
        default_value = "futex,rw,mcs,ticket,ttas-backoff"
    )]
    locks: Vec<String>,
    /// Runs of each lock at each number of threads, after one to warm up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    /// Profile on two threads as well as on one: shows which locks threads really share
    #[arg(long)]
    two: bool,
    /// Compare a number that the program prints, instead of wall time: the first capture group of this regular expression
    #[arg(long, value_name = "REGEX", value_parser = parse_metric)]
    metric: Option<Regex>,
    /// Less of the metric is better: a time
    #[arg(long, requires = "metric")]
    lower_is_better: bool,
    /// Each thread has the same work, however many there are; else all share one work. Matters for times
    #[arg(long)]
    per_thread: bool,
    /// This machine, for the twin [default: what `contend calibrate` left; without it, one of as many cores of which all else
    /// is assumed]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// End a run that takes longer
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = arguments::duration)]
    time_limit: Duration,
    /// Decides everything random in the twin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep profiles and measurements in this folder, for --again
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Run no program: predict from the profiles that --keep left, beside what was measured then
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "runs", "time_limit", "machine"])]
    again: Option<PathBuf>,
    /// Also write the page of all programs, as Markdown
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print rows, verdicts and goals as JSON
    #[arg(long)]
    json: bool,
    /// The program and its arguments, with {threads} for the number of threads
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Runs `contend validate`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let programs = programs(args)?;
    for lock in &args.locks {
        session::names::lock(lock).map_err(session::usage::UsageError::new)?;
    }
    let mut threads = Numbers::all(&args.threads);
    threads.push(1);
    threads.sort_unstable();
    threads.dedup();
    let machine = match &args.machine {
        Some(name) => machines::load(name)?,
        None => machines::this_or_assumed()?,
    };
    let evidence = evidence(args, &programs)?;
    let output = args.output.as_deref().map(OutputFile::at).transpose()?;
    let setting = Setting {
        library: PRELOAD,
        contend: std::env::current_exe().context("cannot find the command itself")?,
        machine,
        threads,
        locks: args.locks.clone(),
        runs: args.runs,
        two: args.two,
        time_limit: args.time_limit,
        seed: args.seed,
        evidence,
    };
    session::interrupt::keep();
    let screen = Screen::stdout();
    let mut all: Vec<Validated> = Vec::new();
    for program in &programs {
        let one = validate(program, &setting, &BARS)?;
        if session::interrupt::came() {
            break;
        }
        if !args.json {
            print!("{}", shown(&one, screen));
        }
        all.push(one);
    }
    let goals = goals(&all);
    if let Some(file) = output {
        write_page(file, &page(&all, &own_command_line()))?;
    }
    if args.json {
        let machine = args.again.is_none().then_some(&setting.machine);
        let out = serde_json::json!({ "machine": machine, "programs": all, "goals": goals });
        println!("{}", serde_json::to_string_pretty(&out)?);
    } else if goals.programs > 0 {
        for (goal, found, met) in goals.lines() {
            let met = if met { "met" } else { "missed" };
            println!("{}", screen.fit(&format!("Goal: {goal}: {found}, {met}.")));
        }
    }
    Ok(if goals.programs == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Where what is measured comes from, and whether it stays.
fn evidence(args: &Args, programs: &[Program]) -> anyhow::Result<Evidence> {
    let evidence = match (&args.keep, &args.again) {
        (Some(folder), _) => Evidence::KeptIn(folder.clone()),
        (None, Some(folder)) => Evidence::From(folder.clone()),
        (None, None) => return Ok(Evidence::Measured),
    };
    check_folders(programs)?;
    Ok(evidence)
}

fn programs(args: &Args) -> anyhow::Result<Vec<Program>> {
    if let Some(file) = &args.programs {
        return read_list(file);
    }
    ensure_usage!(
        !args.command.is_empty(),
        "no program was given: name one after `--`, such as -- ./mine --threads {{threads}}, or a list by --programs FILE"
    );
    let throughput = match &args.metric {
        None => Throughput::WallTime,
        Some(regex) => {
            let better = if args.lower_is_better { Better::Lower } else { Better::Higher };
            Throughput::Printed { regex: regex.clone(), better }
        }
    };
    let name = args.command[0].rsplit('/').next().unwrap_or_default();
    let program = Program::new(name, args.command.clone(), throughput, args.per_thread);
    program.map(|one| vec![one]).map_err(|error| session::usage::UsageError::new(error.to_string()).into())
}

fn shown(one: &Validated, screen: Screen) -> String {
    let mut shown = screen.fit(&format!("{}: {}\n", one.program, text::printable(&one.command)));
    if let Some(why) = &one.failed {
        return shown + &screen.fit(&format!("Not validated: {}.\n\n", text::printable(why)));
    }
    shown += &screen.fit(&format!("Hot lock: {}.\n", text::printable(&one.site)));
    shown += &one.table().terminal(screen);
    for line in one.lines() {
        shown += &screen.fit(&format!("{line}\n"));
    }
    shown + "\n"
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

    #[test]
    fn commands_that_cannot_be_validated_are_refused_with_a_remedy() {
        let parse = |words: &[&str]| {
            Command::try_parse_from(["validate"].iter().chain(words)).map(|command| command.args).unwrap()
        };
        for (words, remedy) in [
            (&["--", "./mine"][..], "write {threads} there"),
            (&[], "after `--`"),
            (&["--lock", "nosuch", "--", "a{threads}"], "no lock `nosuch`"),
            (&["--programs", "no/such.toml"], "no/such.toml"),
            (&["--keep", "no/such", "--metric", "(x)", "--", "..", "{threads}"], "no letter for a folder"),
        ] {
            let error = format!("{:#}", run(&parse(words)).unwrap_err());
            assert!(error.contains(remedy), "{words:?}: {error}");
        }
    }
}
