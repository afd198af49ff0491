//! `contend demo`: the whole story on a program that travels inside the command.
//!
//! Every step is a command of contend's own, printed before it runs, so that a user can repeat it on a program of
//! theirs.

pub(crate) mod program;

use anyhow::{Context as _, bail, ensure};
use curve::{Curve, Point, Provenance, Series, Unit};
use lab::noise::{Noise, Watch};
use lab::{launch, names};
use locks::serves::Kind;
use report::{Screen, text};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Profile, predict, swap and measure: the whole story in a minute, on a small program inside this command.
///
/// Builds nothing and downloads nothing. The program updates a table of four cache lines under one pthread
/// reader-writer lock. Every step is a command that you can type for a program of your own.
///
/// Ends with three lines: what was found, what was predicted, what another lock gave. Where other programs keep the
/// machine busy, steps are repeated, and what could not be told is said with what disturbed it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend demo
  contend demo --lock rw-queued --runs 9     # another lock, more runs")]
pub(crate) struct Args {
    /// The lock to swap in: a name from `contend locks` that serves reader-writer locks
    #[arg(long, value_name = "LOCK", default_value = "rw", value_parser = reader_writer_lock)]
    lock: String,
    /// Runs of each lock at each number of threads
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..=1000))]
    runs: u32,
    /// Where profiles, curves and the plot go; made if it is not there
    #[arg(short, long, value_name = "DIR", default_value = "contend-demo")]
    output: PathBuf,
}

/// The program's own lock, as `compare` names it.
const AS_IT_IS: &str = launch::GLIBC;

/// How long a profiled and a measured run of the program take.
const PROFILED: &str = "600ms";
const MEASURED: &str = "250ms";

/// What noise spoils is tried so often at most, and not again when the demo has taken so long.
const TRIES: usize = 3;
const LONG: Duration = Duration::from_secs(40);

/// The machine that stands in for this one where it cannot be calibrated.
const TYPICAL: &str = "typical";

/// Reads the name of a lock that can stand in for the program's.
fn reader_writer_lock(name: &str) -> Result<String, String> {
    let lock = names::lock(name)?;
    if lock.serves(Kind::Rwlock).is_some() {
        return Ok(name.to_owned());
    }
    let serving = locks::catalogue::LOCKS.iter().filter(|lock| lock.serves(Kind::Rwlock).is_some());
    let serving: Vec<_> = serving.map(|lock| lock.name).collect();
    Err(format!(
        "the program's lock is a reader-writer lock, for which {name} cannot stand in; {} can",
        serving.join(", ")
    ))
}

/// Prints a paragraph.
fn say(paragraph: &str) {
    println!("{}", Screen::stdout().fit(paragraph));
}

/// Runs `contend demo`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.output).with_context(|| {
        format!("cannot make {}: name another place with --output", args.output.display())
    })?;
    let contend = Contend { exe: std::env::current_exe().context("cannot find the command itself")? };
    let (started, watch) = (Instant::now(), Watch::start());

    say("1. Calibrate: what a hand-over costs on this machine.");
    let machine = contend.calibrate(&args.output)?;

    let threads = *thread_counts().last().context("there is a number of threads")?;
    say("\n2. Profile the program, on one thread and on two.");
    let one = args.output.join("one-thread.contend");
    let two = args.output.join("two-threads.contend");
    contend.profile(&one, 1)?;
    let together = contend.profile_together(&two, started)?;

    say(&format!("\n3. Measure it with its own lock and with `{}`.", args.lock));
    let mut measured = measure(&contend, args)?;
    let took = started.elapsed();
    for _ in 1..TRIES {
        // Without contention a swap shows nothing, however often it is measured.
        if measured.told() || threads < 2 || started.elapsed() + took.mul_f64(0.5) > LONG {
            break;
        }
        say("\nNo difference was seen: again, as something else may have run.");
        let again = measure(&contend, args)?;
        if again.told() || again.cores_busy > measured.cores_busy {
            measured = again;
        }
    }
    let curves = args.output.join("measured.json");
    let file =
        std::fs::File::create(&curves).with_context(|| format!("cannot write {}", curves.display()))?;
    curve::format::write_json(&measured.series(), file)?;

    say("\n4. Predict more cores than there are here, with the measured curves beside the prediction.");
    let svg = args.output.join("curves.svg");
    let predict: [OsString; 16] = [
        "predict".into(),
        two.into(),
        "--alone".into(),
        one.into(),
        "--machine".into(),
        machine.clone(),
        "--profiled-on".into(),
        machine,
        "--cores".into(),
        "1..64".into(),
        "--lock".into(),
        args.lock.clone().into(),
        "--measured".into(),
        curves.into(),
        "--svg".into(),
        svg.clone().into(),
    ];
    let predicted = if contend.show(&predict)? {
        say(&format!("\nPlot: {}", svg.display()));
        contend.json(&predict)?
    } else {
        Value::Null // the reason is on standard error
    };
    let story = Story { predicted: &predicted, measured: &measured, lock: &args.lock, together };
    say(&format!("\n{}", story.lines(&watch.stop())?));
    Ok(ExitCode::SUCCESS)
}

/// The command itself, run as a child.
struct Contend {
    exe: PathBuf,
}

impl Contend {
    /// Prints the command line, runs it and shows what it prints. Whether it succeeded.
    fn show(&self, args: &[OsString]) -> anyhow::Result<bool> {
        say(&format!("\n$ {}", command_line(args)));
        let status =
            Command::new(&self.exe).args(args).status().context("cannot start the command itself")?;
        Ok(status.success())
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

    /// Calibrates this machine; the file, or the name of a machine that assumes everything.
    fn calibrate(&self, out: &Path) -> anyhow::Result<OsString> {
        let machine = out.join("this.toml");
        for _ in 1..TRIES {
            if self.show(&["calibrate".into(), "-o".into(), machine.clone().into()])? {
                return Ok(machine.into());
            }
        }
        say(&format!(
            "\nThis machine could not be calibrated: `{TYPICAL}` stands in, which assumes every number in a wide range."
        ));
        Ok(TYPICAL.into())
    }

    fn profile(&self, to: &Path, threads: u32) -> anyhow::Result<()> {
        let mut args: Vec<OsString> =
            vec!["profile".into(), "-o".into(), to.into(), "--ops-regex".into(), "updates: ([0-9]+)".into()];
        args.push("--".into());
        args.extend(self.program(threads, PROFILED));
        ensure!(self.show(&args)?, "`{}` failed", command_line(&args));
        Ok(())
    }

    /// Profiles two threads, again where they hardly ran together. Whether they did in the end.
    fn profile_together(&self, to: &Path, started: Instant) -> anyhow::Result<bool> {
        for number in 1.. {
            self.profile(to, 2)?;
            let table = self.json(&["report".into(), to.into()])?;
            let together = table["header"]["ran_together"] == true;
            if together || number == TRIES || started.elapsed() > LONG / 2 {
                return Ok(together);
            }
            say("\nThe two threads hardly ran together, as something else kept the cores: again.");
        }
        unreachable!("the last try gives its answer")
    }

    fn program(&self, threads: u32, duration: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.exe.clone().into()];
        words.extend(["demo-program", "--threads"].map(OsString::from));
        words.push(threads.to_string().into());
        words.extend(["--duration", duration].map(OsString::from));
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

/// The two measured curves, and what the comparison at the most threads says.
struct Measured {
    as_it_is: Curve,
    swapped: Curve,
    /// Of the rounds at the most threads: how many times as good the swapped lock was.
    ratio: Spread,
    /// The verdict of the comparison there.
    verdict: String,
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

    /// Whether the comparison tells the two locks apart.
    fn told(&self) -> bool {
        self.verdict == "better" || self.verdict == "worse"
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
    let mut points = [Vec::new(), Vec::new()];
    let mut last = None;
    for threads in thread_counts() {
        let mut line: Vec<OsString> = vec!["compare".into(), "--lock".into(), args.lock.clone().into()];
        line.extend(["--runs".into(), args.runs.to_string().into()]);
        line.extend(["--metric", "throughput: ([0-9]+)"].map(OsString::from));
        line.push("--".into());
        line.extend(contend.program(threads, MEASURED));
        say(&format!("\n$ {}", command_line(&line)));
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
    let row_of_lock = row(&last, &args.lock)?;
    Ok(Measured {
        as_it_is: curve(AS_IT_IS, as_it_is)?,
        swapped: curve(&args.lock, swapped)?,
        ratio: serde_json::from_value(row_of_lock["times_glibc"].clone())
            .context("the comparison has no ratio")?,
        verdict: row_of_lock["verdict"].as_str().unwrap_or_default().to_owned(),
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

/// What the demo ends with.
struct Story<'a> {
    /// What `predict --json` printed; null where it failed.
    predicted: &'a Value,
    measured: &'a Measured,
    lock: &'a str,
    /// Whether the two profiled threads ran together.
    together: bool,
}

impl Story<'_> {
    /// What was found, predicted and measured, each no further than it can be told, and what disturbed it.
    fn lines(&self, noise: &Noise) -> anyhow::Result<String> {
        let Self { predicted, measured, lock, together } = self;
        let points = |curve: &Curve| {
            let points = curve.points();
            Some((*points.first()?, *points.last()?))
        };
        let (one, most) = points(&measured.as_it_is).context("nothing was measured")?;
        let (one_swapped, most_swapped) = points(&measured.swapped).context("nothing was measured")?;
        let site = predicted["lock"]["observed"]["name"].as_str().unwrap_or("one lock");
        let site = text::printable(site);
        let mut disturbances = noise.disturbances();
        // Threads that do not get their cores do no more than one, whatever the lock; less than one they do for the lock.
        let share = if disturbances.is_empty() { HELD_BACK * f64::from(most.cores) } else { 1.0 };
        let found = if most.cores < 2 {
            format!("{site} is the program's lock; one core shows no contention")
        } else if most.high < share * one.low {
            format!(
                "{site} holds the program back: {} threads do {:.2} times the work of one",
                most.cores,
                most.value / one.value
            )
        } else {
            format!(
                "{site} is the program's lock; whether it holds {} threads back, these runs do not show",
                most.cores
            )
        };
        let Spread { low, median, high } = measured.ratio;
        let swapped = format!(
            "with `{lock}` {} do {median:.2} times the work that they do with their own lock ({low:.2} to {high:.2} by round)",
            if most.cores == 1 { "one thread".into() } else { format!("{} threads", most.cores) }
        );
        let seen = if measured.told() {
            format!("{swapped}, and {:.2} times that of one", most_swapped.value / one_swapped.value)
        } else {
            format!("{swapped}: no difference that these runs can tell from chance")
        };
        let mut lines = format!(
            "Found:     {found}.\nPredicted: {}.\nMeasured:  {seen}.",
            prediction_in_words(predicted, lock, most.cores)
        );
        if !together || measured.cores_busy < BUSY * f64::from(most.cores) {
            disturbances.push(format!(
                "of {} cores the program got {:.2} on average",
                most.cores, measured.cores_busy
            ));
        }
        if !disturbances.is_empty() {
            lines +=
                &format!("\nDisturbed: {}. On a quiet machine more can be told.", disturbances.join("; "));
        }
        Ok(lines)
    }
}

/// Threads that do less than this share of as many times the work of one are held back.
const HELD_BACK: f64 = 0.9;

/// A program whose threads do nothing but run and wait for a lock keeps this share of its cores busy on a quiet machine,
/// as the sleep of waiters costs some.
const BUSY: f64 = 0.6;

/// What was predicted for the lock as it is and for the swapped one: on as many cores as were measured, and beyond. A
/// prediction that cannot be told has no figure.
fn prediction_in_words(predicted: &Value, lock: &str, cores: u32) -> String {
    let Some(predictions) = predicted["lock"]["predictions"].as_array() else {
        return "nothing, since the profile does not hold what a prediction needs".into();
    };
    let words = predictions.iter().filter_map(|one| {
        let name = if one["as_it_is"] == true { "as it is" } else { one["name"].as_str()? };
        if name != "as it is" && name != lock {
            return None;
        }
        let Some(verdict) = verdict_in_words(&one["verdict"]) else {
            return Some(format!("{name}, that cannot be told from this profile"));
        };
        let points = one["curve"]["points"].as_array()?;
        let speedup = points.iter().find(|point| point["cores"] == cores)?["value"].as_f64()?;
        Some(format!("{name}, {cores} threads do {speedup:.2} times the work of one, and {verdict}"))
    });
    words.collect::<Vec<_>>().join("; ")
}

/// A verdict of the model's JSON in words; none where it cannot be told.
fn verdict_in_words(verdict: &Value) -> Option<String> {
    Some(match (verdict["earliest"].as_u64(), verdict["latest"].as_u64()) {
        (Some(earliest), Some(latest)) if earliest == latest => format!("it collapses at {earliest} cores"),
        (Some(earliest), Some(latest)) => format!("it collapses at {earliest} to {latest} cores"),
        _ => match verdict["is"].as_str() {
            Some("grows") => "it still grows at 64 cores".into(),
            Some("levels_off") => "it levels off".into(),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::every_screen;
    use serde_json::json;

    fn measured(own: &[(f64, f64, f64)], swapped: &[(f64, f64, f64)], verdict: &str) -> Measured {
        let curve = |points: &[(f64, f64, f64)]| {
            let points =
                points.iter().zip(1..).map(|(&(low, value, high), cores)| Point { cores, value, low, high });
            Curve::new("c", Unit::OperationsPerSecond, Provenance::Measured).with_points(points).unwrap()
        };
        Measured {
            as_it_is: curve(own),
            swapped: curve(swapped),
            ratio: Spread { low: 0.7, median: 1.0, high: 1.4 },
            verdict: verdict.to_owned(),
            cores_busy: 1.9,
        }
    }

    fn predicted(verdict: &Value) -> Value {
        let curve = json!({"points": [{"cores": 1, "value": 1.0}, {"cores": 2, "value": 0.01}]});
        let one = |name: &str, as_it_is| json!({"name": name, "as_it_is": as_it_is, "verdict": verdict, "curve": curve});
        json!({"lock": {"observed": {"name": "TABLE"}, "predictions": [one("blocking", true), one("rw", false)]}})
    }

    #[test]
    fn what_cannot_be_told_is_not_told() {
        let noisy = measured(
            &[(1.0, 2.0, 3.0), (1.0, 2.0, 4.0)],
            &[(1.0, 2.0, 3.0), (1.0, 2.0, 4.0)],
            "no difference seen",
        );
        let predicted = predicted(&json!({"is": "cannot_tell", "reason": "x"}));
        let story = Story { predicted: &predicted, measured: &noisy, lock: "rw", together: false };
        let noise = Noise { others_share: Some(0.5), ..Noise::default() };
        let lines = story.lines(&noise).unwrap();
        assert!(lines.contains("these runs do not show") && !lines.contains("0.01"), "{lines}");
        assert!(
            lines.contains("as it is, that cannot be told") && lines.contains("no difference that"),
            "{lines}"
        );
        assert!(
            lines.contains("Disturbed: other programs used 50 %") && lines.contains("the program got 1.90"),
            "{lines}"
        );
    }

    #[test]
    fn what_can_be_told_is_told_with_its_figures() {
        let quiet =
            measured(&[(9.9, 10.0, 10.1), (2.9, 3.0, 3.1)], &[(9.9, 10.0, 10.1), (9.0, 9.0, 9.1)], "better");
        let predicted = predicted(&json!({"is": "collapses", "earliest": 2, "latest": 2}));
        let story = Story { predicted: &predicted, measured: &quiet, lock: "rw", together: true };
        let lines = story.lines(&Noise::default()).unwrap();
        assert!(lines.contains("TABLE holds the program back: 2 threads do 0.30 times"), "{lines}");
        assert!(
            lines.contains("as it is, 2 threads do 0.01 times the work of one, and it collapses at 2 cores"),
            "{lines}"
        );
        assert!(lines.contains("and 0.90 times that of one") && !lines.contains("Disturbed"), "{lines}");
    }

    #[test]
    fn threads_without_cores_are_not_held_back_by_a_lock() {
        let starved =
            measured(&[(9.0, 10.0, 11.0), (10.0, 11.0, 12.0)], &[(9.0, 10.0, 11.0); 2], "no difference seen");
        let story = Story { predicted: &Value::Null, measured: &starved, lock: "rw", together: false };
        let busy = Noise { others_share: Some(0.5), ..Noise::default() };
        assert!(story.lines(&busy).unwrap().contains("these runs do not show"));
        assert!(story.lines(&Noise::default()).unwrap().contains("holds the program back"));
    }

    #[test]
    fn a_prediction_that_failed_is_said() {
        assert!(prediction_in_words(&Value::Null, "rw", 2).starts_with("nothing, since"));
    }

    #[test]
    fn a_lock_that_cannot_stand_in_is_refused_with_those_that_can() {
        assert_eq!(reader_writer_lock("rw"), Ok("rw".to_owned()));
        assert!(reader_writer_lock("mcs").unwrap_err().contains("rw"));
        assert!(reader_writer_lock("nosuch").is_err());
    }

    #[test]
    fn the_end_on_every_screen() {
        let quiet =
            measured(&[(9.9, 10.0, 10.1), (2.9, 3.0, 3.1)], &[(9.9, 10.0, 10.1), (9.0, 9.0, 9.1)], "better");
        let predicted = predicted(&json!({"is": "collapses", "earliest": 2, "latest": 2}));
        let story = Story { predicted: &predicted, measured: &quiet, lock: "rw", together: false };
        let lines = story.lines(&Noise::default()).unwrap();
        insta::assert_snapshot!(every_screen(&[], |screen| screen.fit(&lines)));
    }
}
