//! `contend profile`: run a program, record its locks, print the lock table.

use crate::PRELOAD;
use crate::arguments::size_between;
use crate::report::text;
use anyhow::Context as _;
use lab::launch::supervise::{Supervised, exit_code, fail_writes_past_the_limit};
use lab::launch::tasks::Tasks;
use lab::launch::unreached::Lookout;
use lab::launch::{Launch, operations};
use lab::noise::{Watch, cpu_of};
use profile::Options;
use profile::format::RunValues;
use profile::session::{Overwrite, Recording};
use pthread::environment;
use regex::bytes::Regex;
use std::ffi::{CStr, OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Run an unmodified program, record its locks, and print the lock table.
///
/// The program's lock calls are counted, all of them, and timed: every pair of acquire and release, or some at random
/// (--sample). Its locks stay the C library's. Processes that it starts are recorded too, each in a section of its
/// own. The profile can be read while the program runs, and after it was killed.
///
/// Exits as the program does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend profile -- ./server --threads 4
  contend profile -o p.contend --ops-regex 'events: (\\d+)' -- sysbench mutex run
  contend profile -o p.contend --sample 1/64 -- ./hot-loop     # costs less than half as much
  contend predict p.contend                                    # what it will do on more cores")]
pub(crate) struct Args {
    /// Where the profile goes [default: p.contend, or the first of p-2.contend, p-3.contend, … that nobody is recording to]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace a file that is no profile
    #[arg(long)]
    force: bool,

    /// Operations that the program does, so that figures are for one of them
    #[arg(long, value_name = "N", conflicts_with = "ops_regex", value_parser = clap::value_parser!(u64).range(1..))]
    ops: Option<u64>,

    /// Take the operations from the program's output: the number in the first group of the last match
    #[arg(long, value_name = "REGEX", value_parser = regex_with_a_group)]
    ops_regex: Option<Regex>,

    /// Time this part of the pairs, chosen at random: `1`, `1/16`, `0.01`; counts are always exact
    #[arg(long, value_name = "RATE", default_value = "1", value_parser = parse_rate)]
    sample: u32,

    /// The profile may grow to so much; past that the locks used least share one row
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size_between("1M", "1024G"))]
    size_limit: u64,

    /// Do not print the table
    #[arg(short, long)]
    quiet: bool,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// A rate as the number of pairs of which one is timed.
fn regex_with_a_group(text: &str) -> Result<Regex, String> {
    let regex = Regex::new(text).map_err(|error| error.to_string())?;
    // The whole match counts as a group.
    match regex.captures_len() {
        2.. => Ok(regex),
        _ => Err(format!("put the number of operations into a group, such as in `{text} ([0-9]+)`")),
    }
}

fn parse_rate(text: &str) -> Result<u32, String> {
    let refusal = || format!("`{text}` is no rate: give a part of all pairs, such as 1, 1/16 or 0.01");
    let part = match text.split_once('/') {
        Some((above, below)) => {
            let number = |text: &str| text.trim().parse::<f64>().map_err(|_| refusal());
            number(above)? / number(below)?
        }
        None => text.parse().map_err(|_| refusal())?,
    };
    let period = (1.0 / part).round();
    if part > 0.0 && part <= 1.0 && period <= f64::from(1u32 << 30) {
        Ok(period as u32)
    } else {
        Err(refusal())
    }
}

/// Runs `contend profile`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    fail_writes_past_the_limit();
    let (name, arguments) = args.command.split_first().context("no program was given after `--`")?;
    let program = Launch::new(PRELOAD, name, arguments).check()?;
    let mut recording = create(args)?;
    let started = Instant::now();
    let (watch, cpu_before) = (Watch::start(), cpu_of(libc::RUSAGE_CHILDREN));
    let mut program = match start(program, &recording, args.ops_regex.is_some()) {
        Ok(program) => program,
        Err(error) => {
            recording.withdraw();
            return Err(error);
        }
    };
    recording.begun();
    let lookout = Lookout::over(program.id());
    let tasks = Tasks::of(program.id());
    let (counted, status, tasks) = follow(&mut program, args.ops_regex.as_ref(), &recording, tasks)?;
    let elapsed = started.elapsed();
    let unreached = lookout.and_then(Lookout::finish);
    let cpu = cpu_of(libc::RUSAGE_CHILDREN).saturating_sub(cpu_before);
    let stolen_share = watch.stop().stolen_share.unwrap_or(0.0);
    let run = run_record(elapsed, cpu, stolen_share, args.ops.or(counted), status);
    let used = recording.used();
    let path = recording.path().display();
    let mut lines = Vec::new();
    if let Err(error) = recording.finish(run, &tasks.into_values()) {
        lines.push(format!("{path}: {error}: run time and coverage are missing"));
    }
    if args.ops_regex.is_some() && counted.is_none() {
        lines.push(
            "nothing that the program wrote matches --ops-regex: figures are for one second".to_owned(),
        );
    }
    if !used {
        lines.push(format!(
            "{} recorded nothing: it is linked statically, runs with another user's rights, or cleared its environment",
            name.display()
        ));
    }
    if let Some(unreached) = unreached {
        lines.push(format!("not reached, and so not recorded: {unreached}"));
    }
    let mut told = lines.iter().map(|line| format!("contend: {line}\n")).collect::<String>();
    if used && !args.quiet {
        told += &text(&recording.read()?.table(&Options::default()), 20, ::report::Screen::stderr());
        let shown =
            args.output.as_deref().unwrap_or(recording.path().file_name().unwrap_or_default().as_ref());
        told += &format!("\nThe profile is in {} (contend report, contend predict).\n", shown.display());
    }
    // Nobody may be there to read it; the program's end is passed on all the same.
    let _ = std::io::stderr().write_all(told.as_bytes());
    Ok(exit_code(status))
}

/// Makes the profile: where the user says, or at the first of the usual names that nobody is recording to.
fn create(args: &Args) -> anyhow::Result<Recording> {
    let overwrite = if args.force { Overwrite::AnyFile } else { Overwrite::Profiles };
    let create = |path: &Path| Recording::create(path, args.size_limit, args.sample, overwrite);
    let explain = |path: &Path, error: std::io::Error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::ResourceBusy => ": give another name with -o",
            std::io::ErrorKind::AlreadyExists => ": give another name with -o, or --force to replace a file",
            std::io::ErrorKind::FileTooLarge => {
                ": the limit of file sizes (ulimit -f) leaves no room for a profile"
            }
            std::io::ErrorKind::StorageFull => ": free some room, or name a place on another disk with -o",
            _ => "",
        };
        anyhow::anyhow!("cannot make the profile {}: {error}{remedy}", path.display())
    };
    if let Some(path) = &args.output {
        return create(path).map_err(|error| explain(path, error));
    }
    let names = std::iter::once("p.contend".to_owned()).chain((2..).map(|n| format!("p-{n}.contend")));
    for name in names {
        match create(Path::new(&name)) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {}
            made => return made.map_err(|error| explain(Path::new(&name), error)),
        }
    }
    unreachable!("there is always another number")
}

fn start(program: Launch<'_>, recording: &Recording, piped: bool) -> anyhow::Result<Supervised> {
    let variable = |name: &'static CStr| OsStr::from_bytes(name.to_bytes());
    let identity = recording.identity().to_string();
    let mut command = program
        .env(variable(environment::PROFILE), recording.path())
        .env(variable(environment::IDENTITY), identity)
        .command()?;
    if piped {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    Supervised::start(&mut command)
}

fn run_record(
    elapsed: Duration,
    cpu: Duration,
    stolen_share: f64,
    operations: Option<u64>,
    status: ExitStatus,
) -> RunValues {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    RunValues {
        elapsed_ns: nanoseconds(elapsed),
        cpu_ns: nanoseconds(cpu),
        stolen_ns: (stolen_share * elapsed.as_nanos() as f64 * cores as f64) as u64,
        cores: cores as u64,
        operations: operations.unwrap_or(0),
        ended: if status.code().is_some() { 1 } else { 2 },
        status: status.code().or(status.signal()).unwrap_or(0) as u64,
        ..RunValues::default()
    }
}

/// Waits for the program, looking at its threads now and then, and counts operations in its output.
fn follow(
    program: &mut Supervised,
    regex: Option<&Regex>,
    recording: &Recording,
    mut tasks: Tasks,
) -> anyhow::Result<(Option<u64>, ExitStatus, Tasks)> {
    let (output, errors) = program.streams();
    std::thread::scope(|scope| {
        let (ended, watched) = mpsc::channel::<()>();
        let watcher = scope.spawn(move || {
            loop {
                let pause = tasks.look();
                recording.note_time();
                if !matches!(watched.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                    return tasks;
                }
            }
        });
        let readers = regex.map(|regex| {
            let of_output = scope.spawn(move || {
                output.map_or(Ok(None), |from| operations::pass_through(from, std::io::stdout(), regex))
            });
            let of_errors = scope.spawn(move || {
                errors.map_or(Ok(None), |from| operations::pass_through(from, std::io::stderr(), regex))
            });
            [of_output, of_errors]
        });
        let status = program.wait();
        drop(ended);
        let tasks = watcher.join().expect("looking does not panic");
        let mut operations = None;
        for reader in readers.into_iter().flatten() {
            // What the program wrote to its output counts before what it wrote to its errors.
            operations = operations.or(reader.join().expect("copying does not panic")?);
        }
        Ok((operations, status?, tasks))
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parts_of_all_pairs() {
        assert_eq!(["1", "1/16", "0.01", "1.0"].map(|text| parse_rate(text).unwrap()), [1, 16, 100, 1]);
        for text in ["0", "2", "-1", "1/0", "x", "", "1/x", "1e-30", "NaN", "inf"] {
            let refusal = parse_rate(text).unwrap_err();
            assert!(refusal.contains(text) && refusal.contains("1/16"), "{refusal}");
        }
    }

    #[test]
    fn operations_need_a_group() {
        assert!(regex_with_a_group("updates: ([0-9]+)").is_ok());
        assert!(regex_with_a_group("updates: [0-9]+").unwrap_err().contains("group"));
        assert!(regex_with_a_group("updates: (").is_err());
    }
}
