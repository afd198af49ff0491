//! `contend validate`: predictions against measurements, on this machine.

use crate::PRELOAD;
use crate::arguments::{self, Numbers};
use crate::compare::parse_metric;
use crate::interrupt;
use crate::machines;
use crate::output::{self, own_command_line, print, print_json, write_page};
use crate::progress::{self, BARS};
use anyhow::Context as _;
use compare::statistics::Better;
use forecast::validate::{
    ENOUGH, From, Held, KEPT, MEASURED, MadePrograms, Program, Setting, Summary, Throughput, Validated,
    of_random_programs, page, read_cases, read_list, simulated_programs, validate, write_cases,
};
use launch::program::Program as LaunchedProgram;
use regex_lite::Regex;
use report::{Screen, text};
use session::ensure_usage;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Forecast programs, measure them, and score the forecasts.
///
/// A program is profiled on one thread and rebuilt on the simulated machine; then all of that is measured on this machine,
/// interleaved. Forecasts from one thread, and from one and two with what was measured of both, are held against the measurements: the
/// Brier score of the verdicts, how often what was said to be so likely came true, the share that is decided and of those right, and the
/// median error. The width of each program's error is learnt from all other programs.
///
/// CMD says where its number of threads goes: write {threads} there. Several programs come from a list. With --simulated N, random
/// programs are simulated instead of measured; with --rescore, nothing is run at all.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "contend validate [OPTIONS] -- CMD…\n       contend validate [OPTIONS] --programs FILE\n       contend validate [OPTIONS] --simulated N\n       contend validate [OPTIONS] --rescore FILE",
    after_help = "Examples:
  contend validate --metric 'events per second: +([0-9.]+)' -- sysbench threads --threads={threads} run
  contend validate --two --lock mcs,futex -- ./mine --threads {threads}
  contend validate --programs tests/real-programs.toml -o docs/predictions.md
  contend validate --rescore crates/forecast/data/measured-programs.csv -o docs/predictions.md
  contend validate --simulated 40

A list is TOML with a table for each program:
  [[program]]
  name = \"mine\"
  command = [\"./mine\", \"--threads={threads}\"]
  metric = \"([0-9.]+) ops/s\"   # without it: wall time
  lower_is_better = false       # the metric is a time
  per_thread = false            # every thread has work of its own; else all share one work
  set_up = \"mkdir -p /tmp/m\"     # shell commands before the first run and after the last
  clear_up = \"rm -r /tmp/m\""
)]
pub(crate) struct Args {
    /// A list of programs, instead of CMD
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "metric", "per_thread"])]
    programs: Option<PathBuf>,
    /// Run and simulate nothing: score the forecasts and measurements of a table that --cases wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "programs", "command", "metric", "per_thread", "simulated", "threads", "locks", "runs", "two", "machine", "time_limit", "seed",
    ])]
    rescore: Option<PathBuf>,
    /// Run nothing: simulate so many random programs on the carried machines, profile them there on 1, 2 and 4 cores, forecast them to all
    /// cores, and hold that against their own simulation
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = [
            "programs", "cases", "threads", "locks", "runs", "two", "metric", "per_thread", "machine", "time_limit", "command",
        ],
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    simulated: Option<u32>,
    /// Also write what was simulated and measured as a table, for --rescore
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
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
    /// This machine, for the simulated program [default: what `contend calibrate` left; without it, one of as many cores of which all else
    /// is assumed]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// End a run that takes longer
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = arguments::duration)]
    time_limit: Duration,
    /// The random seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = arguments::seed())]
    seed: u64,
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
    let output = output::file_at(args.output.as_deref())?;
    let cases = output::file_at(args.cases.as_deref())?;
    let mut besides = String::new();
    let (held, failed_ones, preface) = if let Some(file) = &args.rescore {
        let kept = std::fs::read_to_string(file).is_ok_and(|text| text == MEASURED);
        let preface = if kept {
            besides = of_random_programs();
            KEPT.to_owned()
        } else {
            format!("Nothing was run: {} holds what was simulated and measured before.", file.display())
        };
        (read_cases(file)?, Vec::new(), preface)
    } else if let Some(count) = args.simulated {
        let made = simulated_programs(count, args.seed, &BARS);
        let preface = of_made(&made);
        (made.held, Vec::new(), preface)
    } else {
        let all = measured(args)?;
        let failed_ones: Vec<_> = all.iter().filter(|one| one.failed.is_some()).cloned().collect();
        for one in &all {
            progress::warn(&one.noise);
        }
        for one in failed_ones.iter().filter(|_| !args.json) {
            print(&failed(one, Screen::stdout()))?;
        }
        (all.iter().filter_map(|one| one.held.clone()).collect(), failed_ones, preface(&all, args.two))
    };
    let preface = if interrupt::came() { format!("{preface} It was cut short.") } else { preface };
    // What stands there stays if there is nothing to take its place.
    let (output, cases) = if held.is_empty() { (None, None) } else { (output, cases) };
    if let Some(file) = cases {
        file.write(&write_cases(&held)?)?;
    }
    let froms = if args.simulated.is_some() { &From::MADE[..] } else { &From::MEASURED };
    let summary = Summary::of(&held, froms);
    if let Some(file) = output {
        write_page(file, &page(&summary, &own_command_line(), &preface, &besides))?;
    }
    show(args.json, &held, &failed_ones, &summary, &preface)?;
    let otherwise = if held.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    let is = if held.len() == 1 { "is" } else { "are" };
    Ok(interrupt::exit_code(&format!("{} {is} judged", in_words(held.len())), otherwise))
}

/// What random programs are, and those that are left out.
fn of_made(MadePrograms { held, drawn, untold, stopped }: &MadePrograms) -> String {
    let mut said =
        "The programs are random ones, simulated on the carried machines, as are the measurements."
            .to_owned();
    if held.len() < *drawn as usize {
        said += &format!(" Of {drawn} that were drawn, {untold} have profiles that tell too little.");
    }
    for why in stopped {
        said += &format!(" Stopped: {}.", text::printable(why));
    }
    said
}

fn show(
    json: bool,
    held: &[Held],
    failed: &[Validated],
    summary: &Summary,
    preface: &str,
) -> anyhow::Result<()> {
    if json {
        let why = |one: &Validated| serde_json::json!({ "program": one.program, "failed": one.failed });
        let failed: Vec<_> = failed.iter().map(why).collect();
        let cut_short = interrupt::came();
        return print_json(
            &serde_json::json!({ "programs": held, "summary": summary, "failed": failed, "cut_short": cut_short }),
        );
    }
    let screen = Screen::stdout();
    if held.is_empty() {
        return print(&screen.fit(&format!("{preface}\n")));
    }
    let judged =
        if held.len() < ENOUGH { "by what contend has learnt before" } else { "by what the others teach" };
    let each = if held.len() == 1 { "" } else { "each " };
    let programs = format!("{preface}\n\n{}, {each}judged {judged}.\n\n", in_words(held.len()));
    print(&(screen.fit(&programs) + &screen.spell(&summary.terminal())))
}

fn in_words(programs: usize) -> String {
    if programs == 1 { "1 program".into() } else { format!("{programs} programs") }
}

/// Profiles and measures the programs that were asked for.
fn measured(args: &Args) -> anyhow::Result<Vec<Validated>> {
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
    };
    if args.programs.is_none() {
        // Of several programs the others are measured; this one alone is an error of the command.
        LaunchedProgram::find(args.command[0].as_ref())?;
    }
    session::interrupt::keep();
    let mut all = Vec::new();
    for program in &programs {
        let one = validate(program, &setting, &BARS)?;
        if session::interrupt::came() {
            break;
        }
        all.push(one);
    }
    Ok(all)
}

/// How the programs were measured.
fn preface(all: &[Validated], two: bool) -> String {
    let machine =
        all.iter().map(|one| &*one.machine).find(|machine| !machine.is_empty()).unwrap_or("this machine");
    let runs = all.iter().map(|one| one.runs).max().unwrap_or(0);
    let failed: Vec<_> = all.iter().filter(|one| one.failed.is_some()).map(|one| &*one.program).collect();
    let not =
        if failed.is_empty() { String::new() } else { format!(" Not validated: {}.", failed.join(", ")) };
    if runs == 0 {
        return format!("Nothing was measured.{not}");
    }
    format!(
        "Each program was profiled on {}, and measured with {runs} {} of every lock and number of threads, interleaved. The machine: {}.{not}",
        if two { "one thread and on two" } else { "one thread" },
        if runs == 1 { "run" } else { "runs" },
        text::printable(machine)
    )
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

fn failed(one: &Validated, screen: Screen) -> String {
    let why = one.failed.as_deref().unwrap_or_default();
    // Why nothing is forecast is whole sentences.
    let why = text::printable(why.trim_end_matches('.'));
    screen.fit(&format!("{}: not validated: {why}.\n", one.program))
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
    fn a_program_that_is_not_there_has_an_exit_code_of_its_own() {
        let words = ["validate", "--", "./no-such-program", "{threads}"];
        let error = run(&Command::try_parse_from(words).unwrap().args).unwrap_err();
        assert!(error.is::<launch::program::NotStarted>(), "{error:#}");
    }

    #[test]
    fn what_was_measured_is_said_in_whole_sentences() {
        let one = Validated {
            program: "a".into(),
            command: "a".into(),
            failed: None,
            site: String::new(),
            held: None,
            notes: Vec::new(),
            noise: Vec::new(),
            machine: "this computer, not calibrated: every cost is assumed".into(),
            runs: 5,
        };
        let why = "no forecast: no lock in it was acquired. Profile longer.";
        let idle = Validated { failed: Some(why.into()), ..one.clone() };
        assert_eq!(failed(&idle, Screen::FILE), format!("a: not validated: {why}\n"), "one full stop");
        assert_eq!(
            preface(&[one], false),
            "Each program was profiled on one thread, and measured with 5 runs of every lock and number of threads, interleaved. The \
             machine: this computer, not calibrated: every cost is assumed."
        );
        assert_eq!(preface(&[], false), "Nothing was measured.");
        assert_eq!([1, 2].map(in_words), ["1 program", "2 programs"]);
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
        ] {
            let error = format!("{:#}", run(&parse(words)).unwrap_err());
            assert!(error.contains(remedy), "{words:?}: {error}");
        }
    }
}
