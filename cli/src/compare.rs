//! `contend compare`: one program under several locks, fairly.

use crate::arguments::{self, Numbers};
use crate::{PRELOAD, interrupt, progress};
use anyhow::Context as _;
use clap::ArgGroup;
use lab::compare::rounds::{self, Failure, Metric, Row, Trial, exit_code, measure};
use lab::compare::statistics::{self, Better, Verdict, ratios};
use lab::compare::trial;
use lab::launch::{GLIBC, Launch, Swapped, Swaps};
use lab::noise::{Noise, Watch};
use locks::catalogue::Lock;
use profile::tally::SharedTally;
use regex::Regex;
use report::{Cell, Column, RangePlot, Screen, Table, text};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The verdict on a lock that stood in for none of the program's.
const NOTHING_SWAPPED: &str = "no difference seen: nothing swapped";

/// The library's start takes at least so long, in seconds, even where noise hides it.
const LEAST_START_S: f64 = 0.000_5;

/// Differences in wall time up to so many starts of the preload library are not a lock's.
const STARTS: f64 = 3.0;

/// Without `--time-limit`: glibc, which the others are compared with, may take so long, and every other lock so many times
/// what glibc took to warm up, but at least the least limit.
const GLIBC_LIMIT: Duration = Duration::from_secs(600);
const LIMIT_FACTOR: u32 = 10;
const LEAST_LIMIT: Duration = Duration::from_secs(30);

/// Run a program under several locks in turn and compare them.
///
/// After one run of each lock to warm up, runs are interleaved (A B C, C B A, …), so that a machine that gets slower or
/// busier does so for all. Of each lock you see the median and range, and how many times as good as glibc it was: the
/// median and range of the ratios within each round. A lock is called better or worse if the difference is more than
/// chance explains in 99 of 100 comparisons (an exact rank-sum test, which takes five runs), than 2 %, and than the start
/// of contend's library. Ctrl-C prints what is finished.
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
    contend compare --lock mcs,ticket --runs 10 --pin 0..3 --svg locks.svg -- CMD
  A throughput, and a time, that the program prints:
    contend compare --metric '([0-9.]+) ops/sec' -- db_bench --threads=4
    contend compare --metric 'real +([0-9.]+)' --lower-is-better -- CMD
  For a script:
    contend compare --json -- CMD | jq '.rows[] | {lock, times_glibc}'"
)]
pub(crate) struct Args {
    /// Locks to compare with glibc, each for every kind that it can serve [default: every one of `contend locks`]. One
    /// kind alone is KIND=LOCK; `+` joins several: mutex=mcs+rwlock=rw
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

    /// End a run that takes longer [default: ten times what glibc took to warm up, at least 30s]
    #[arg(long, value_name = "DURATION", value_parser = arguments::duration)]
    time_limit: Option<Duration>,

    /// Run the program on these cores only, such as 0..3 or 0,2
    #[arg(long, value_name = "CORE,…", value_delimiter = ',', value_parser = Numbers::between(0, LAST_CORE))]
    pin: Vec<Numbers>,

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

/// The last core that a set of them has room for.
const LAST_CORE: u32 = 8 * size_of::<libc::cpu_set_t>() as u32 - 1;

fn parse_candidate(text: &str) -> Result<String, String> {
    Swaps::parse(&text.replace('+', ",")).map(|_| text.to_owned())
}

fn parse_metric(text: &str) -> Result<Regex, String> {
    let regex = Regex::new(text).map_err(|error| error.to_string())?;
    if regex.captures_len() < 2 {
        return Err("it has no capture group; put the number in parentheses, as in 'ops: +([0-9.]+)'".into());
    }
    Ok(regex)
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
    if !args.pin.is_empty() {
        pin(&Numbers::all(&args.pin))?;
    }
    interrupt::keep();
    let start_s = match metric {
        Metric::WallTime => start_cost(&locks)?,
        Metric::Captured { .. } => 0.0,
    };
    let watch = Watch::start();
    let (rows, swapped) = run_all(args, &locks, &metric)?;
    let compared = Compared { rows, swapped, metric, start_s, noise: watch.stop() };

    if let Some(path) = &args.svg {
        std::fs::write(path, compared.plot(args).svg())
            .with_context(|| format!("cannot write the plot to {}", path.display()))?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&compared.json(args))?);
    } else {
        let screen = Screen::stdout();
        print!("{}", compared.table().terminal(screen));
        println!("\n{}", screen.fit(&compared.explanation(args)));
        for line in compared.untouched() {
            println!("{}", screen.fit(&line));
        }
        show_last_words(&compared.rows);
    }
    progress::warn(&compared.noise.warnings());
    let finished = compared.rows.iter().map(|row| row.values.len()).min().unwrap_or(0);
    let finished = format!("{finished} of {} rounds were finished", args.runs);
    Ok(interrupt::exit_code(&finished, ExitCode::from(exit_code(&compared.rows))))
}

/// What came of the runs, and what it was measured under.
struct Compared {
    rows: Vec<Row>,
    /// What became of the program's lock objects in the last run of each row; none where nothing was to be swapped.
    swapped: Vec<Option<Swapped>>,
    metric: Metric,
    /// What the start of a program costs because the preload library is loaded, in seconds; 0 where that does not count.
    start_s: f64,
    noise: Noise,
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
fn pin(cores: &[usize]) -> anyhow::Result<()> {
    // SAFETY: an empty set is valid, the numbers were checked against its size, and its size is passed with it.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &core in cores {
            libc::CPU_SET(core, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error()).with_context(|| {
            format!("cannot run on the cores {cores:?} alone; does the machine have them?")
        });
    }
    Ok(())
}

fn run_all(
    args: &Args,
    locks: &[String],
    metric: &Metric,
) -> anyhow::Result<(Vec<Row>, Vec<Option<Swapped>>)> {
    let mut swapped: Vec<Option<Swapped>> = locks.iter().map(|_| None).collect();
    let runs = args.runs as usize;
    let progress = progress::bar(locks.len() * (runs + 1), "{elapsed}, {eta} left  {wide_msg}");
    let mut limit = args.time_limit.unwrap_or(GLIBC_LIMIT);
    let rows = measure(locks, runs, metric, |number, round| {
        let lock = &locks[number];
        let stage = if round == 0 { "warm-up".into() } else { format!("round {round}") };
        progress.set_message(format!("{stage}, {lock}"));
        let (trial, counted) = run_once(args, lock, limit)?;
        swapped[number] = counted;
        if interrupt::came() {
            return Ok(None);
        }
        progress.inc(1);
        if number == 0 && round == 0 && args.time_limit.is_none() {
            limit = (trial.elapsed * LIMIT_FACTOR).max(LEAST_LIMIT);
        }
        Ok(Some(trial))
    });
    progress.finish_and_clear();
    Ok((rows?, swapped))
}

/// Runs the program once under a lock, and tells what became of its lock objects; the reference runs untouched.
fn run_once(args: &Args, lock: &str, limit: Duration) -> anyhow::Result<(Trial, Option<Swapped>)> {
    let (program, arguments) = args.command.split_first().context("no program was given after `--`")?;
    let swaps = swaps(lock)?;
    let launch = Launch::new(PRELOAD, program, arguments).swaps(swaps.clone());
    if swaps.is_empty() {
        return Ok((trial::run(launch.command()?, limit)?, None));
    }
    let tally = SharedTally::new(false).context("cannot make memory to count in")?;
    let trial = trial::run(launch.counted(&tally).command()?, limit)?;
    Ok((trial, Some(Swapped::read(&tally))))
}

/// What loading the preload library adds to the start of a program, in seconds: the difference of the medians of a few
/// runs of this command, which do nothing, with and without it. 0 if no lock is swapped.
fn start_cost(locks: &[String]) -> anyhow::Result<f64> {
    const RUNS: usize = 9;
    let swapped = locks.iter().map(|lock| swaps(lock)).collect::<anyhow::Result<Vec<_>>>()?;
    let Some(swapped) = swapped.into_iter().find(|swaps| !swaps.is_empty()) else { return Ok(0.0) };
    let exe = std::env::current_exe().context("cannot find the command itself")?;
    let nothing = [OsString::from("--version")];
    let mut seconds = [Vec::new(), Vec::new()];
    for round in 0..RUNS {
        for way in rounds::order(2, round) {
            let swaps = if way == 0 { swaps(GLIBC)? } else { swapped.clone() };
            let command = Launch::new(PRELOAD, exe.as_os_str(), &nothing).swaps(swaps).command()?;
            seconds[way].push(trial::run(command, LEAST_LIMIT)?.elapsed.as_secs_f64());
        }
    }
    let [without, with] = seconds.map(|seconds| statistics::spread(&seconds).map_or(0.0, |all| all.median));
    Ok((with - without).max(LEAST_START_S))
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

impl Compared {
    /// Whether a lock that was to be swapped in stood in for no lock of the program: then there is nothing to compare.
    fn touched_nothing(&self, number: usize) -> bool {
        self.swapped[number].as_ref().is_some_and(|swapped| !swapped.any())
    }

    /// Which locks stood in for nothing, and why, in lines that several of them may share.
    fn untouched(&self) -> Vec<String> {
        let mut by_reason: Vec<(String, Vec<&str>)> = Vec::new();
        for (number, row) in self.rows.iter().enumerate().filter(|&(number, _)| self.touched_nothing(number))
        {
            let (Some(swapped), Ok(swaps)) = (&self.swapped[number], swaps(&row.lock)) else { continue };
            let reason = swapped.warnings(&swaps).join("; ");
            match by_reason.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, locks)) => locks.push(&row.lock),
                None => by_reason.push((reason, vec![&row.lock])),
            }
        }
        let line =
            |(reason, locks): (String, Vec<&str>)| format!("Not compared: {}: {reason}.", locks.join(", "));
        by_reason.into_iter().map(line).collect()
    }

    /// The verdict on a lock; none on glibc itself, or without a value of both.
    fn verdict(&self, row: &Row) -> Option<Verdict> {
        let reference = self.rows.first().filter(|reference| reference.lock != row.lock)?;
        statistics::verdict(&reference.values, &row.values, self.metric.better(), STARTS * self.start_s)
    }

    fn table(&self) -> Table {
        let key = if matches!(self.metric, Metric::WallTime) { "elapsed_s" } else { "metric" };
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::spread(key, metric_name(&self.metric)),
            Column::spread("times_glibc", "times as good as glibc"),
            Column::text("verdict", "verdict").kept(),
            Column::number("cores_busy", "cores busy").detail(),
            Column::text("failure", "failure").kept(),
        ]);
        for (number, row) in self.rows.iter().enumerate() {
            let ratios = ratios(&self.rows[0].values, &row.values, self.metric.better());
            let verdict = match self.verdict(row) {
                Some(_) if self.touched_nothing(number) => Some(NOTHING_SWAPPED),
                verdict => verdict.map(Verdict::name),
            };
            table.row([
                Cell::from(row.lock.as_str()),
                row.spread().into(),
                ratios.filter(|_| row.lock != GLIBC && !self.touched_nothing(number)).into(),
                verdict.into(),
                statistics::spread(&row.cores_busy).map(|busy| busy.median).into(),
                fate(row).into(),
            ]);
        }
        table
    }

    /// How to read the table.
    fn explanation(&self, args: &Args) -> String {
        let direction = match self.metric.better() {
            Better::Lower => "lower is better",
            Better::Higher => "higher is better",
        };
        let mut text = format!(
            "{} runs each, interleaved after a warm-up: median (least to greatest); {direction}. Ratios are taken within \
             a round. Equal programs come out as better or worse in fewer than one of 100 comparisons.",
            args.runs
        );
        if (args.runs as usize) < statistics::LEAST_RUNS {
            text += &format!(
                " Fewer than {0} runs cannot tell a difference from chance: --runs {0} or more.",
                statistics::LEAST_RUNS
            );
        }
        if self.start_s > 0.0 {
            text += &format!(
                " Loading contend's library takes about {} ms at the start of a program: differences under {} ms are \
                 not judged.",
                text::short(1e3 * self.start_s),
                text::short(1e3 * STARTS * self.start_s)
            );
        }
        text
    }

    fn plot(&self, args: &Args) -> RangePlot {
        let axis = match &self.metric {
            Metric::WallTime => "wall time s".to_owned(),
            Metric::Captured { regex, .. } => regex.as_str().to_owned(),
        };
        let mut plot = RangePlot::new(command_line(args), axis, self.metric.better());
        for row in &self.rows {
            plot.row(row.lock.as_str(), row.spread());
        }
        plot
    }

    /// Of each lock, how many objects of each kind it stood in for.
    fn swapped_json(&self) -> serde_json::Value {
        let of_row = |(row, swapped): (&Row, &Option<Swapped>)| {
            let swapped = swapped.as_ref()?;
            let kinds = locks::serves::KINDS.map(|kind| (kind.name(), serde_json::json!(swapped.of(kind))));
            Some((
                row.lock.clone(),
                serde_json::Value::Object(kinds.map(|(k, v)| (k.to_owned(), v)).into_iter().collect()),
            ))
        };
        serde_json::Value::Object(self.rows.iter().zip(&self.swapped).filter_map(of_row).collect())
    }

    fn json(&self, args: &Args) -> serde_json::Value {
        let regex = match &self.metric {
            Metric::WallTime => None,
            Metric::Captured { regex, .. } => Some(regex.as_str()),
        };
        let values: serde_json::Map<_, _> =
            self.rows.iter().map(|row| (row.lock.clone(), serde_json::json!(row.values))).collect();
        let failed = self.rows.iter().filter(|row| row.failure.is_some());
        let last_words: serde_json::Map<_, _> =
            failed.map(|row| (row.lock.clone(), row.last_words.as_str().into())).collect();
        serde_json::json!({
            "command": args.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>(),
            "runs": args.runs,
            "cut_short": interrupt::came(),
            "metric": { "regex": regex, "better": self.metric.better() },
            "start_s": self.start_s,
            "rows": self.table().json(),
            "values": values,
            "last_words": last_words,
            "swapped": self.swapped_json(),
            "noise": self.noise,
            "warnings": self.noise.warnings(),
        })
    }
}

/// Why a row lacks values, in words.
fn fate(row: &Row) -> Option<String> {
    match row.failure {
        Some(failure) => Some(describe(failure)),
        None if row.values.is_empty() && interrupt::came() => Some("not run: cut short".into()),
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

fn command_line(args: &Args) -> String {
    let words = args.command.iter().map(|word| text::printable(&word.to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use report::every_screen;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Result<Args, String> {
        let words = ["compare"].iter().chain(words);
        Command::try_parse_from(words).map(|command| command.args).map_err(|error| error.to_string())
    }

    fn compared(metric: Metric) -> Compared {
        Compared {
            rows: rows(),
            swapped: vec![None, None, None],
            metric,
            start_s: 0.0,
            noise: Noise::default(),
        }
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
            row("glibc", &[4.0, 5.0, 6.0, 5.0, 5.0], None),
            row("mcs", &[0.5, 0.5, 1.0, 0.5, 0.5], None),
            row("ticket", &[], Some((Failure::TimedOut, 0))),
        ]
    }

    #[test]
    fn rows_say_how_many_times_as_good_or_why_not() {
        let json = compared(Metric::WallTime).table().json();
        assert_eq!(json[1]["times_glibc"], serde_json::json!({"median": 10.0, "low": 6.0, "high": 10.0}));
        assert_eq!(json[1]["verdict"], "better");
        assert_eq!(json[0]["verdict"], serde_json::Value::Null, "nothing is compared with itself");
        assert_eq!(json[2]["failure"], "timed out in the warm-up");
        assert_eq!(json[2]["elapsed_s"], serde_json::Value::Null);
        let regex = Regex::new("(x)").unwrap();
        let captured = compared(Metric::Captured { regex, better: Better::Higher }).table().json();
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

    #[test]
    fn a_comparison_on_every_screen() {
        let args = parse(&["--", "./server", "--threads", "8"]).unwrap();
        let regex = Regex::new("ops: ([0-9]+)").unwrap();
        let compared = compared(Metric::Captured { regex, better: Better::Higher });
        let text = |screen: Screen| {
            format!("{}\n{}\n", compared.table().terminal(screen), screen.fit(&compared.explanation(&args)))
        };
        insta::assert_snapshot!(every_screen(&["glibc", "mcs", "ticket"], text));
    }
}
