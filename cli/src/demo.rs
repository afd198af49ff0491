//! `contend demo`: the whole story on a program that travels inside the command.
//!
//! Every step is a command of contend's own, printed before it runs, so that a user can repeat it on a program of
//! theirs.

pub(crate) mod program;

use anyhow::{Context as _, bail, ensure};
use curve::{Curve, Point, Provenance, Series, Unit};
use report::text;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Profile, predict, swap and measure: the whole story in a minute, on a small program inside this command.
///
/// Builds nothing and downloads nothing. The program updates a table of four cache lines under one pthread
/// reader-writer lock. Every step is a command that you can type for a program of your own.
///
/// Ends with three lines: what was found, what was predicted, what another lock gave. Fails if the measured curves do not
/// differ beyond their ranges, and says why.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend demo
  contend demo --lock mcs --runs 9      # another lock, more runs")]
pub(crate) struct Args {
    /// The lock to swap in: a name from `contend locks`
    #[arg(long, value_name = "NAME", default_value = "rw")]
    lock: String,
    /// Runs of each lock at each number of threads
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(3..=1000))]
    runs: u32,
    /// Where profiles, curves and the plot go; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "contend-demo")]
    out: PathBuf,
}

/// The program's own lock, as `compare` names it.
const AS_IT_IS: &str = "glibc";

/// Seconds that a profiled and a measured run of the program take.
const PROFILED_SECONDS: &str = "0.6";
const MEASURED_SECONDS: &str = "0.25";

/// Runs `contend demo`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make {}: name another place with --out", args.out.display()))?;
    let contend = Contend { exe: std::env::current_exe().context("cannot find the command itself")? };

    println!("1. Calibrate: what a hand-over costs on this machine.");
    let machine = args.out.join("this.toml");
    contend.show(&["calibrate".into(), "-o".into(), machine.clone().into()])?;

    println!("\n2. Profile the program, on one thread and on two.");
    let one = args.out.join("one-thread.contend");
    let two = args.out.join("two-threads.contend");
    contend.profile(&one, 1)?;
    contend.profile(&two, 2)?;

    println!("\n3. Measure it with its own lock and with `{}`.", args.lock);
    let measured = measure(&contend, args)?;
    let curves = args.out.join("measured.json");
    let file =
        std::fs::File::create(&curves).with_context(|| format!("cannot write {}", curves.display()))?;
    curve::format::write_json(&measured.series(), file)?;

    println!("\n4. Predict more cores than there are here, with the measured curves beside the prediction.");
    let svg = args.out.join("curves.svg");
    let predict: [OsString; 16] = [
        "predict".into(),
        two.into(),
        "--alone".into(),
        one.into(),
        "--machine".into(),
        machine.clone().into(),
        "--profiled-on".into(),
        machine.into(),
        "--cores".into(),
        "1..64".into(),
        "--lock".into(),
        args.lock.clone().into(),
        "--measured".into(),
        curves.into(),
        "--svg".into(),
        svg.clone().into(),
    ];
    contend.show(&predict)?;
    let predicted = contend.json(&predict)?;

    println!("\nPlot: {}", svg.display());
    conclude(&predicted, &measured, &args.lock)
}

/// The command itself, run as a child.
struct Contend {
    exe: PathBuf,
}

impl Contend {
    /// Prints the command line, runs it and shows what it prints.
    fn show(&self, args: &[OsString]) -> anyhow::Result<()> {
        println!("\n$ {}", command_line(args));
        let status =
            Command::new(&self.exe).args(args).status().context("cannot start the command itself")?;
        ensure!(status.success(), "`{}` failed: {status}", command_line(args));
        Ok(())
    }

    /// Runs a command line with `--json` after its first word and gives what it prints.
    fn json(&self, args: &[OsString]) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.exe);
        command.arg(&args[0]).arg("--json").args(&args[1..]).stderr(Stdio::inherit());
        let output = command.output().context("cannot start the command itself")?;
        ensure!(output.status.success(), "`{}` failed: {}", command_line(args), output.status);
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`{}` printed no JSON", command_line(args)))
    }

    fn profile(&self, to: &Path, threads: u32) -> anyhow::Result<()> {
        let mut args: Vec<OsString> =
            vec!["profile".into(), "-o".into(), to.into(), "--ops-regex".into(), "updates: ([0-9]+)".into()];
        args.push("--".into());
        args.extend(self.program(threads, PROFILED_SECONDS));
        self.show(&args)
    }

    fn program(&self, threads: u32, seconds: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.exe.clone().into()];
        words.extend(["demo-program", "--threads"].map(OsString::from));
        words.push(threads.to_string().into());
        words.extend(["--seconds", seconds].map(OsString::from));
        words
    }
}

/// A command line as a user would type it.
fn command_line(args: &[OsString]) -> String {
    let quoted = args.iter().map(|word| {
        let word = text::printable(&word.to_string_lossy());
        if word.contains([' ', '(', '*', '$']) { format!("'{word}'") } else { word }
    });
    format!("contend {}", quoted.collect::<Vec<_>>().join(" "))
}

/// The two measured curves, and the rounds of the last point.
struct Measured {
    as_it_is: Curve,
    swapped: Curve,
    /// Of the rounds at the most threads: how many times as good the swapped lock was.
    ratio: Spread,
    /// CPU time over elapsed time of the program as it is, at the most threads.
    cores_busy: f64,
}

/// Median and range.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Measured {
    fn series(&self) -> Series {
        let mut series = Series::new("contend demo: one lock around four cache lines");
        series.curves = vec![self.as_it_is.clone(), self.swapped.clone()];
        series
    }
}

/// Numbers of threads to measure: powers of two up to the cores there are.
fn thread_counts() -> Vec<u32> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let mut counts: Vec<u32> = (0..).map(|power| 1 << power).take_while(|&count| count < cores).collect();
    counts.push(cores);
    counts
}

fn measure(contend: &Contend, args: &Args) -> anyhow::Result<Measured> {
    let counts = thread_counts();
    ensure!(
        counts.len() > 1,
        "this machine lets the demo run on one core only, where threads do not contend; give it two"
    );
    let mut points = [Vec::new(), Vec::new()];
    let mut last = None;
    for threads in counts {
        let mut line: Vec<OsString> = vec!["compare".into(), "--lock".into(), args.lock.clone().into()];
        line.extend(["--runs".into(), args.runs.to_string().into()]);
        line.extend(["--metric", "throughput: ([0-9]+)"].map(OsString::from));
        line.push("--".into());
        line.extend(contend.program(threads, MEASURED_SECONDS));
        println!("\n$ {}", command_line(&line));
        let compared = contend.json(&line)?;
        for (points, lock) in points.iter_mut().zip([AS_IT_IS, &args.lock]) {
            let runs = values(&compared, lock)?;
            let point = Point::of_runs(threads, &runs).context("no runs")?;
            println!(
                "{lock:>8}: {} updates/s ({} to {})",
                text::prefixed(point.value),
                text::prefixed(point.low),
                text::prefixed(point.high)
            );
            points.push(point);
        }
        last = Some(compared);
    }
    let last = last.context("nothing was measured")?;
    let curve = |lock: &str, points| {
        Curve::new(format!("the program with {lock}"), Unit::OperationsPerSecond, Provenance::Measured)
            .lock(lock)
            .workload("demo-program")
            .with_points(points)
    };
    let [as_it_is, swapped] = points;
    Ok(Measured {
        as_it_is: curve(AS_IT_IS, as_it_is)?,
        swapped: curve(&args.lock, swapped)?,
        ratio: serde_json::from_value(row(&last, &args.lock)?["times_glibc"].clone())
            .context("the comparison has no ratio")?,
        cores_busy: row(&last, AS_IT_IS)?["cores_busy"].as_f64().unwrap_or(0.0),
    })
}

/// A lock's row of a comparison.
fn row<'a>(compared: &'a Value, lock: &str) -> anyhow::Result<&'a Value> {
    let rows = compared["rows"].as_array().context("the comparison has no rows")?;
    let row = rows.iter().find(|row| row["lock"] == lock);
    let row = row.with_context(|| format!("the comparison has no row of {lock}"))?;
    if let Some(failure) = row["failure"].as_str() {
        bail!("the program failed under {lock}: {failure}");
    }
    Ok(row)
}

/// The runs of a lock in a comparison.
fn values(compared: &Value, lock: &str) -> anyhow::Result<Vec<f64>> {
    row(compared, lock)?;
    let values = compared["values"][lock].as_array().context("the comparison has no values")?;
    Ok(values.iter().filter_map(Value::as_f64).collect())
}

/// Prints the three lines, or fails where nothing was shown.
fn conclude(predicted: &Value, measured: &Measured, lock: &str) -> anyhow::Result<ExitCode> {
    let (one, most) = match measured.as_it_is.points() {
        [one, .., most] => (*one, *most),
        _ => bail!("nothing was measured on more than one thread"),
    };
    let swapped = measured.swapped.points().last().context("nothing was measured with another lock")?;
    let site = predicted["lock"]["observed"]["name"].as_str().unwrap_or("the lock");
    println!(
        "\nFound:     {} holds the program back: {} threads do {:.2} times the work of one.",
        text::printable(site),
        most.cores,
        most.value / one.value
    );
    println!("Predicted: {}.", prediction_in_words(predicted, lock, most.cores)?);
    let one_swapped = measured.swapped.points().first().map_or(swapped.value, |point| point.value);
    println!(
        "Measured:  with `{lock}` {} threads do {:.2} times the work that they do with their own lock \
         ({:.2} to {:.2} by round), and {:.2} times that of one.",
        most.cores,
        measured.ratio.median,
        measured.ratio.low,
        measured.ratio.high,
        swapped.value / one_swapped
    );
    if swapped.low <= most.high && most.low <= swapped.high {
        bail!(
            "the measured curves do not differ beyond their ranges: {} updates/s ({} to {}) against {} ({} to {}) \
             on {} threads. The program kept {:.2} cores busy with its own lock: where that is far under {}, something \
             else ran here and there was little contention; run it again on a quiet machine, or with more --runs",
            text::prefixed(most.value),
            text::prefixed(most.low),
            text::prefixed(most.high),
            text::prefixed(swapped.value),
            text::prefixed(swapped.low),
            text::prefixed(swapped.high),
            most.cores,
            measured.cores_busy,
            most.cores,
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// What was predicted for the lock as it is and for the swapped one: on as many cores as were measured, and beyond.
fn prediction_in_words(predicted: &Value, lock: &str, cores: u32) -> anyhow::Result<String> {
    let predictions = predicted["lock"]["predictions"].as_array().context("the prediction is empty")?;
    let words = predictions.iter().filter_map(|one| {
        let name = if one["as_it_is"] == true { "as it is" } else { one["name"].as_str()? };
        let points = one["curve"]["points"].as_array()?;
        let speedup = points.iter().find(|point| point["cores"] == cores)?["value"].as_f64()?;
        let verdict = verdict_in_words(&one["verdict"]);
        (name == "as it is" || name == lock)
            .then(|| format!("{name}, {cores} threads do {speedup:.2} times the work of one, and {verdict}"))
    });
    Ok(words.collect::<Vec<_>>().join("; "))
}

/// A verdict of the model's JSON in words.
fn verdict_in_words(verdict: &Value) -> String {
    match (verdict["earliest"].as_u64(), verdict["latest"].as_u64()) {
        (Some(earliest), Some(latest)) if earliest == latest => format!("it collapses at {earliest} cores"),
        (Some(earliest), Some(latest)) => format!("it collapses at {earliest} to {latest} cores"),
        _ => match verdict["is"].as_str() {
            Some("grows") => "it still grows at 64 cores".into(),
            Some("levels_off") => "it levels off".into(),
            _ => "that cannot be told".into(),
        },
    }
}
