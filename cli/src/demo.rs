//! `contend demo`: the whole story on a program that travels inside the command.
//!
//! Every step is a command of contend's own, printed before it runs, so that a user can repeat it on a program of
//! theirs.

pub(crate) mod program;

use crate::output::command_line;
use anyhow::{Context as _, ensure};
use curve::{Curve, Point, Provenance, Unit};
use forecast::story::{Later, MeasuredSwap, Story, reader_writer_lock, row, thread_counts, values};
use launch;
use report::{Screen, text};
use serde_json::Value;
use session::noise::Watch;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Tell the whole story in a minute, on a program of its own.
///
/// Builds nothing and downloads nothing. The program updates a table of four cache lines under one pthread
/// reader-writer lock, which hurts on two cores; and it answers requests and notes each under a pthread spin lock, which
/// hurts on some tens of cores. Every step is a command that you can type for a program of your own.
///
/// Ends with what was found, what was predicted, what another lock gave, and, if that is better, how to use it; and with what
/// the other lock will do on a larger machine. Where other programs keep the machine busy, steps are repeated, and what could not be told is said with what disturbed it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend demo
  contend demo --lock rw-queued --runs 9     # another lock, more runs")]
pub(crate) struct Args {
    /// The lock to swap in: a name from `contend locks` that can stand in for reader-writer locks
    #[arg(long, value_name = "LOCK", default_value = "rw", value_parser = reader_writer_lock)]
    lock: String,
    /// Runs of each lock at each number of threads
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..=1000))]
    runs: u32,
    /// Where profiles, curves, the plot and pages go; made if it is not there
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

/// The larger machine, its cores, and the lock that is predicted for it.
const LARGER: &str = "opteron-8x6";
const LARGER_CORES: u32 = 48;
const SCALABLE: &str = "mcs";

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
    contend.profile(&one, UPDATES, 1)?;
    let locks_page = args.output.join("locks.html");
    let together = contend.profile_together(&two, &locks_page, started)?;

    say(&format!("\n3. Measure it with its own lock and with `{}`.", args.lock));
    let mut measured = measure(&contend, args)?;
    let took = started.elapsed();
    for _ in 1..TRIES {
        // Without contention a swap shows nothing, however often it is measured.
        if measured.is_conclusive() || threads < 2 || started.elapsed() + took.mul_f64(0.5) > LONG {
            break;
        }
        say("\nNo difference was seen: again, as something else may have run.");
        let again = measure(&contend, args)?;
        if again.is_conclusive() || again.cores_busy > measured.cores_busy {
            measured = again;
        }
    }
    let curves = args.output.join("measured.json");
    let file =
        std::fs::File::create(&curves).with_context(|| format!("cannot write {}", curves.display()))?;
    curve::format::write_json(&measured.series(), file)?;

    say("\n4. Predict the same from the two profiles alone, to see how far a prediction can be believed.");
    let cores = format!("1..{}", threads.max(2));
    let predict = question([&one, &two], &machine, [&machine, OsStr::new(&cores), OsStr::new(&args.lock)]);
    let predicted = contend.predict(&predict)?;

    say(&format!(
        "\n5. Predict what does not hurt yet: the part of the program that answers requests, on {LARGER} with \
         its {LARGER_CORES} cores."
    ));
    let requests = [1, 2].map(|threads| (args.output.join(format!("requests-{threads}.contend")), threads));
    for (profile, threads) in &requests {
        contend.profile(profile, REQUESTS, *threads)?;
    }
    let svg = args.output.join("curves.svg");
    let [(one, _), (two, _)] = &requests;
    let cores = format!("1..{LARGER_CORES}");
    let mut predict = question([one, two], &machine, [LARGER, &cores, SCALABLE].map(OsStr::new));
    let curves_page = args.output.join("curves.html");
    predict.extend(["--svg".into(), svg.clone().into(), "--html".into(), curves_page.clone().into()]);
    let larger = contend.predict(&predict)?;
    if !larger.is_null() {
        say(&format!("\nPlot: {}", svg.display()));
    }
    let story = Story { predicted: &predicted, measured: &measured, lock: &args.lock, together };
    let later = Later { predicted: &larger, machine: LARGER, lock: SCALABLE };
    say(&format!("\n{}", story.lines(&later, &watch.stop())?));
    let pages = [Some(&locks_page), (!larger.is_null()).then_some(&curves_page)];
    let pages: Vec<_> = pages.into_iter().flatten().map(|page| page.display().to_string()).collect();
    say(&format!("Pages:     {}; open them in a browser.", pages.join(" and ")));
    Ok(ExitCode::SUCCESS)
}

/// What an operation of the program is.
const UPDATES: &str = "update";
const REQUESTS: &str = "request";

/// A command line that predicts from profiles of one thread and of two, for a target: its machine, cores and lock.
fn question(
    [one, two]: [&Path; 2],
    profiled_on: &OsStr,
    [machine, cores, lock]: [&OsStr; 3],
) -> Vec<OsString> {
    let words = [
        OsStr::new("predict"),
        two.as_os_str(),
        OsStr::new("--alone"),
        one.as_os_str(),
        OsStr::new("--machine"),
        machine,
        OsStr::new("--profiled-on"),
        profiled_on,
        OsStr::new("--cores"),
        cores,
        OsStr::new("--lock"),
        lock,
    ];
    words.map(OsStr::to_owned).into()
}

/// The command itself, run as a child.
struct Contend {
    exe: PathBuf,
}

impl Contend {
    /// Prints the command line, runs it and shows what it prints, all of it on standard output: a command that runs a program
    /// leaves that one to the program and prints its tables on standard error. Whether it succeeded.
    fn show(&self, args: &[OsString]) -> anyhow::Result<bool> {
        say(&format!("\n$ {}", command_line(args)));
        let output =
            std::io::stdout().as_fd().try_clone_to_owned().context("cannot share standard output")?;
        let mut command = Command::new(&self.exe);
        let status = command.args(args).stderr(output).status().context("cannot start the command itself")?;
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

    /// Shows a prediction and gives its JSON; null where it failed, for the reason on standard error.
    fn predict(&self, args: &[OsString]) -> anyhow::Result<Value> {
        if self.show(args)? { self.json(args) } else { Ok(Value::Null) }
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

    fn profile(&self, to: &Path, work: &str, threads: u32) -> anyhow::Result<()> {
        let mut args: Vec<OsString> = vec!["profile".into(), "-o".into(), to.into()];
        args.extend(["--ops-regex".into(), format!("{work}s: ([0-9]+)").into()]);
        args.push("--".into());
        args.extend(self.program(work, threads, PROFILED));
        ensure!(self.show(&args)?, "`{}` failed", command_line(&args));
        Ok(())
    }

    /// Profiles two threads, again where they hardly ran together, and writes the page of what was profiled last. Whether they did
    /// in the end.
    fn profile_together(&self, to: &Path, page: &Path, started: Instant) -> anyhow::Result<bool> {
        for number in 1.. {
            self.profile(to, UPDATES, 2)?;
            let table = self.json(&["report".into(), to.into(), "--html".into(), page.into()])?;
            let together = table["header"]["ran_together"] == true;
            if together || number == TRIES || started.elapsed() > LONG / 2 {
                return Ok(together);
            }
            say("\nThe two threads hardly ran together, as something else kept the cores: again.");
        }
        unreachable!("the last try gives its answer")
    }

    fn program(&self, work: &str, threads: u32, duration: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.exe.clone().into()];
        words.extend(["demo-program", "--work", work, "--threads"].map(OsString::from));
        words.push(threads.to_string().into());
        words.extend(["--duration", duration].map(OsString::from));
        words
    }
}

fn measure(contend: &Contend, args: &Args) -> anyhow::Result<MeasuredSwap> {
    let mut points = [Vec::new(), Vec::new()];
    let mut last = None;
    for threads in thread_counts() {
        let mut line: Vec<OsString> = vec!["compare".into(), "--lock".into(), args.lock.clone().into()];
        line.extend(["--runs".into(), args.runs.to_string().into()]);
        line.extend(["--metric", "throughput: ([0-9]+)"].map(OsString::from));
        line.push("--".into());
        line.extend(contend.program(UPDATES, threads, MEASURED));
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
    Ok(MeasuredSwap {
        as_it_is: curve(AS_IT_IS, as_it_is)?,
        swapped: curve(&args.lock, swapped)?,
        ratio: serde_json::from_value(row_of_lock["times_glibc"].clone())
            .context("the comparison has no ratio")?,
        verdict: row_of_lock["verdict"].as_str().unwrap_or_default().to_owned(),
        cores_busy: row(&last, AS_IT_IS)?["cores_busy"].as_f64().unwrap_or(0.0),
    })
}
