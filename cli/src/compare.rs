//! `contend compare`: one program under several locks, fairly.

pub(crate) mod rounds;
pub(crate) mod statistics;
pub(crate) mod trial;

use crate::launch::{GLIBC, Launch, Swaps};
use crate::noise::{self, Noise, Watch};
use crate::progress;
use anyhow::Context as _;
use clap::ArgGroup;
use locks::catalogue::Lock;
use regex::Regex;
use report::{Cell, Column, RangePlot, Screen, Table, text};
use rounds::{Failure, Metric, Row, Trial, exit_code, measure};
use statistics::{Better, ratios, verdict};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Without `--time-limit`: glibc, which the others are compared with, may take so long, and every other lock so many times
/// what glibc took to warm up, but at least the least limit.
const GLIBC_LIMIT: Duration = Duration::from_secs(600);
const LIMIT_FACTOR: u32 = 10;
const LEAST_LIMIT: Duration = Duration::from_secs(30);

/// Run a program under several locks in turn and compare them.
///
/// After one run of each lock to warm up, runs are interleaved (A B C A B C …), so that a machine that gets slower or
/// busier does so for all. Of each lock you see the median and range, and how many times as good as glibc it was: the
/// median and range of the ratios within each round. A lock is called better if it was in every round, and beyond both
/// ranges.
///
/// A program that fails or hangs under one lock is a row that says so. The exit code is the program's own if it fails
/// without a swapped lock, 1 if it fails under all the others, else 0.
#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("direction").args(["lower_is_better", "higher_is_better"]),
    after_help = "Examples:
  Wall time under every lock:
    contend compare -- kccachetest order -th 2 -rnd 200000
  Two locks, more runs, on four cores, with a plot:
    contend compare --lock mcs,ticket --runs 10 --pin 0-3 --svg locks.svg -- CMD
  A throughput, and a time, that the program prints:
    contend compare --metric '([0-9.]+) ops/sec' -- db_bench --threads=4
    contend compare --metric 'real +([0-9.]+)' --lower-is-better -- CMD
  For a script:
    contend compare --json -- CMD | jq '.rows[] | {lock, times_glibc}'"
)]
pub(crate) struct Args {
    /// Locks to compare with glibc, each for every kind that it can serve [default: every one of `contend locks`]. One
    /// kind alone is KIND=NAME; `+` joins several: mutex=mcs+rwlock=rw
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
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

    /// End a run that takes longer than so many seconds [default: ten times what glibc took to warm up, at least 30]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    time_limit: Option<Duration>,

    /// Run the program on these cores only, such as 0-3 or 0,2
    #[arg(long, value_name = "CORES", value_parser = parse_cores)]
    pin: Option<CoreList>,

    /// Print rows, every run's value and the noise meanwhile as JSON
    #[arg(long)]
    json: bool,

    /// Draw medians and ranges into this file as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Cores by number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CoreList(Vec<usize>);

fn parse_metric(text: &str) -> Result<Regex, String> {
    let regex = Regex::new(text).map_err(|error| error.to_string())?;
    if regex.captures_len() < 2 {
        return Err("it has no capture group; put the number in parentheses, as in 'ops: +([0-9.]+)'".into());
    }
    Ok(regex)
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("no program ends in 0 seconds".into()) } else { Ok(duration) }
}

fn parse_cores(text: &str) -> Result<CoreList, String> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |digits: &str| {
            let most = 8 * size_of::<libc::cpu_set_t>();
            digits.trim().parse().ok().filter(|&core: &usize| core < most).ok_or_else(|| {
                format!("`{part}` is no core or range of cores; write 0-3 or 0,2 (cores are numbered under {most})")
            })
        };
        cores.extend(number(first)?..=number(last)?);
    }
    if cores.is_empty() { Err("no cores".into()) } else { Ok(CoreList(cores)) }
}

/// Runs `contend compare`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let locks = candidates(&args.lock)?;
    let metric = match &args.metric {
        None => Metric::WallTime,
        Some(regex) => {
            let better = if args.lower_is_better { Better::Lower } else { Better::Higher };
            Metric::Captured { regex: regex.clone(), better }
        }
    };
    if let Some(cores) = &args.pin {
        pin(cores)?;
    }
    let watch = Watch::start();
    let rows = run_all(args, &locks, &metric)?;
    let noise = watch.stop();

    if let Some(path) = &args.svg {
        std::fs::write(path, plot(args, &rows, &metric).svg())
            .with_context(|| format!("cannot write the plot to {}", path.display()))?;
    }
    if args.json {
        print_json(args, &rows, &metric, noise)?;
    } else {
        let screen = Screen::stdout();
        print!("{}", table(&rows, &metric).terminal(screen));
        println!("\n{}", screen.fit(&explanation(args, &metric)));
        show_last_words(&rows);
    }
    noise::warn(&noise.warnings());
    Ok(ExitCode::from(exit_code(&rows)))
}

/// The reference, then the locks asked for, each once.
fn candidates(asked: &[String]) -> anyhow::Result<Vec<String>> {
    let mut names = vec![GLIBC.to_owned()];
    if asked.is_empty() {
        let serves = |lock: &&Lock| locks::serves::KINDS.into_iter().any(|kind| lock.serves(kind).is_some());
        names.extend(locks::catalogue::LOCKS.iter().filter(serves).map(|lock| lock.name.to_owned()));
    }
    for name in asked {
        swaps(name)?;
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// Binds this process, and so every program that it starts, to cores.
fn pin(cores: &CoreList) -> anyhow::Result<()> {
    // SAFETY: an empty set is valid, the numbers were checked against its size, and its size is passed with it.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &core in &cores.0 {
            libc::CPU_SET(core, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error()).with_context(|| {
            format!("cannot run on the cores {:?} alone; does the machine have them?", cores.0)
        });
    }
    Ok(())
}

fn run_all(args: &Args, locks: &[String], metric: &Metric) -> anyhow::Result<Vec<Row>> {
    let runs = args.runs as usize;
    let progress = progress::bar(locks.len() * (runs + 1), "{elapsed}, {eta} left  {wide_msg}");
    let mut limit = args.time_limit.unwrap_or(GLIBC_LIMIT);
    let rows = measure(locks, runs, metric, |number, round| {
        let lock = &locks[number];
        let stage = if round == 0 { "warm-up".into() } else { format!("round {round}") };
        progress.set_message(format!("{stage}, {lock}"));
        let trial = run_once(args, lock, limit)?;
        progress.inc(1);
        if number == 0 && round == 0 && args.time_limit.is_none() {
            limit = (trial.elapsed * LIMIT_FACTOR).max(LEAST_LIMIT);
        }
        Ok(trial)
    });
    progress.finish_and_clear();
    rows
}

/// Runs the program once under a lock; the reference runs untouched.
fn run_once(args: &Args, lock: &str, limit: Duration) -> anyhow::Result<Trial> {
    let (program, arguments) = args.command.split_first().context("no program was given after `--`")?;
    let command = Launch::new(program, arguments).swaps(swaps(lock)?).command()?;
    trial::run(command, limit)
}

/// What a candidate swaps: `NAME`, `KIND=NAME`, or several of them joined by `+`.
fn swaps(candidate: &str) -> anyhow::Result<Swaps> {
    Swaps::parse(&candidate.replace('+', ",")).map_err(|wrong| anyhow::anyhow!("--lock {candidate}: {wrong}"))
}

/// What the metric is called, with its unit.
fn metric_name(metric: &Metric) -> &'static str {
    match metric {
        Metric::WallTime => "time s",
        Metric::Captured { .. } => "metric",
    }
}

fn table(rows: &[Row], metric: &Metric) -> Table {
    let key = if matches!(metric, Metric::WallTime) { "elapsed_s" } else { "metric" };
    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::spread(key, metric_name(metric)),
        Column::spread("times_glibc", "times as good as glibc"),
        Column::text("verdict", "verdict"),
        Column::number("cores_busy", "cores busy"),
        Column::text("failure", "failure"),
    ]);
    let reference = &rows[0];
    for row in rows {
        let ratios = ratios(&reference.values, &row.values, metric.better()).filter(|_| row.lock != GLIBC);
        let verdict =
            ratios.and_then(|ratios| Some(verdict(reference.spread()?, row.spread()?, ratios).name()));
        table.row([
            Cell::from(row.lock.as_str()),
            row.spread().into(),
            ratios.into(),
            verdict.into(),
            statistics::spread(&row.cores_busy).map(|busy| busy.median).into(),
            fate(row).into(),
        ]);
    }
    table
}

/// Why a row lacks values, in words.
fn fate(row: &Row) -> Option<String> {
    match row.failure {
        Some(failure) => Some(describe(failure)),
        None if row.values.is_empty() => Some("not run, since glibc failed".into()),
        None => None,
    }
}

/// A failure in words.
fn describe((failure, round): (Failure, usize)) -> String {
    let when = if round == 0 { "in the warm-up".to_owned() } else { format!("in round {round}") };
    match failure {
        Failure::Exited(code) => format!("exit code {code} {when}"),
        Failure::Killed(signal) => format!("killed by signal {signal} {when}"),
        Failure::TimedOut => format!("timed out {when}"),
        Failure::NoMetric => format!("printed no metric {when}"),
    }
}

/// Shows what the program wrote before it failed, since its output is not shown otherwise.
fn show_last_words(rows: &[Row]) {
    for row in rows.iter().filter(|row| !row.last_words.is_empty()) {
        eprintln!("contend: under {} the program wrote last:", row.lock);
        for line in row.last_words.lines() {
            eprintln!("  {}", text::printable(line));
        }
    }
}

/// How to read the table.
fn explanation(args: &Args, metric: &Metric) -> String {
    let direction = match metric.better() {
        Better::Lower => "less is better",
        Better::Higher => "more is better",
    };
    format!(
        "{} runs each, interleaved after a warm-up: median (least to greatest); {direction}. Ratios are taken within \
         a round.",
        args.runs
    )
}

fn command_line(args: &Args) -> String {
    let words = args.command.iter().map(|word| text::printable(&word.to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}

fn plot(args: &Args, rows: &[Row], metric: &Metric) -> RangePlot {
    let axis = match metric {
        Metric::WallTime => "wall time s".to_owned(),
        Metric::Captured { regex, .. } => regex.as_str().to_owned(),
    };
    let mut plot = RangePlot::new(command_line(args), axis);
    for row in rows {
        plot.row(row.lock.as_str(), row.spread());
    }
    plot
}

fn print_json(args: &Args, rows: &[Row], metric: &Metric, noise: Noise) -> anyhow::Result<()> {
    let regex = match metric {
        Metric::WallTime => None,
        Metric::Captured { regex, .. } => Some(regex.as_str()),
    };
    let values: serde_json::Map<_, _> =
        rows.iter().map(|row| (row.lock.clone(), serde_json::json!(row.values))).collect();
    let failed = rows.iter().filter(|row| row.failure.is_some());
    let last_words: serde_json::Map<_, _> =
        failed.map(|row| (row.lock.clone(), row.last_words.as_str().into())).collect();
    let all = serde_json::json!({
        "command": args.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>(),
        "runs": args.runs,
        "metric": { "regex": regex, "better": metric.better() },
        "rows": table(rows, metric).json(),
        "values": values,
        "last_words": last_words,
        "noise": noise,
        "warnings": noise.warnings(),
    });
    println!("{}", serde_json::to_string_pretty(&all)?);
    Ok(())
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

    fn rows() -> Vec<Row> {
        let row = |lock: &str, values: &[f64], failure| Row {
            lock: lock.into(),
            values: values.iter().map(|&value| Some(value)).collect(),
            cores_busy: values.iter().map(|_| 1.9).collect(),
            failure,
            last_words: String::new(),
        };
        vec![
            row("glibc", &[4.0, 5.0, 6.0], None),
            row("mcs", &[0.5, 0.5, 1.0], None),
            row("ticket", &[], Some((Failure::TimedOut, 0))),
        ]
    }

    #[test]
    fn rows_say_how_many_times_as_good_or_why_not() {
        let json = table(&rows(), &Metric::WallTime).json();
        assert_eq!(json[1]["times_glibc"], serde_json::json!({"median": 8.0, "low": 6.0, "high": 10.0}));
        assert_eq!(json[1]["verdict"], "better");
        assert_eq!(json[0]["verdict"], serde_json::Value::Null, "nothing is compared with itself");
        assert_eq!(json[2]["failure"], "timed out in the warm-up");
        assert_eq!(json[2]["elapsed_s"], serde_json::Value::Null);
        let regex = Regex::new("(x)").unwrap();
        let captured = table(&rows(), &Metric::Captured { regex, better: Better::Higher }).json();
        assert_eq!(captured[1]["verdict"], "worse");
    }

    #[test]
    fn glibc_comes_first_and_nothing_twice() {
        let names =
            |asked: &[&str]| candidates(&asked.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["ticket", "glibc", "ticket"]).unwrap(), ["glibc", "ticket"]);
        assert_eq!(
            names(&[]).unwrap().last().map(String::as_str),
            locks::catalogue::LOCKS.last().map(|lock| lock.name)
        );
        assert_eq!(names(&["mutex=ticket+rwlock=rw"]).unwrap()[1], "mutex=ticket+rwlock=rw");
        let error = names(&["<b>"]).unwrap_err().to_string();
        assert!(error.contains("`<b>`") && error.contains("contend locks"));
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused_with_a_remedy() {
        assert_eq!(parse(&["--runs", "3", "--", "a", "--lock"]).unwrap().command, ["a", "--lock"]);
        for (words, remedy) in [
            (&["--metric", "ops", "--", "a"][..], "parentheses"),
            (&["--metric", "(", "--", "a"], "unclosed group"),
            (&["--lower-is-better", "--", "a"], "--metric"),
            (
                &["--metric", "(a)", "--lower-is-better", "--higher-is-better", "--", "a"],
                "cannot be used with",
            ),
            (&["--time-limit=-1", "--", "a"], "--time-limit"),
            (&["--time-limit", "0", "--", "a"], "0 seconds"),
            (&["--time-limit", "1e99", "--", "a"], "--time-limit"),
            (&["--pin", "0-x", "--", "a"], "write 0-3"),
            (&["--pin", "99999999", "--", "a"], "write 0-3"),
            (&["--pin", "3-1", "--", "a"], "no cores"),
            (&["--runs", "0", "--", "a"], "--runs"),
            (&[], "CMD"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(remedy), "{words:?}: {error}");
        }
        assert_eq!(parse_cores("0-2,5").unwrap(), CoreList(vec![0, 1, 2, 5]));
    }
}
