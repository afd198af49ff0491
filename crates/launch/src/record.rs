//! A program run to its end with its locks recorded.

use super::always_on::{AlwaysOn, Keeper, Prepared};
use super::attach::record_called;
use super::kernel::KernelLocks;
use super::operations::{Passed, pass_through};
use super::program::{MUTEX_PROFILE, OF_OPENMP, Program};
use super::static_program;
use super::supervise::{Held, Supervised};
use super::tasks::Tasks;
use super::unreached::Lookout;
use super::{Launch, Library};
use anyhow::Context as _;
use profile::format::RunValues;
use profile::session::{Overwrite, Recording};
use pthread::environment;
use regex_lite::Regex;
use session::noise::{Watch, cpu_of};
use session::signals;
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

pub use kernel_locks::Scope as KernelScope;

/// What is recorded, and where to.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// What records.
    pub library: Library,
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// Where the profile goes; without it to the first of `p.contend`, `p-2.contend` and so on that no launcher is recording to.
    pub output: Option<&'a Path>,
    /// What may be replaced there.
    pub overwrite: Overwrite,
    /// Bytes that the profile may grow to.
    pub size_limit: u64,
    /// One pair in so many is timed.
    pub sample_period: u32,
    /// Operations that the program does, as the user says.
    pub operations: Option<u64>,
    /// Finds them in what the program writes: the number in the first group of the last match.
    pub operations_regex: Option<&'a Regex>,
    /// Whose waits for the kernel's locks are recorded too, if any are.
    pub kernel: Option<KernelScope>,
    /// Whether each process keeps its longest waits one by one.
    pub timeline: bool,
    /// Whether the program runs on, so that what happens in intervals is kept.
    pub always_on: Option<AlwaysOn>,
}

/// What came of it.
#[derive(Debug)]
pub struct Recorded {
    /// The finished profile.
    pub recording: Recording,
    /// How the program ended.
    pub status: ExitStatus,
    /// Whether anything was recorded.
    pub used: bool,
    /// Whether the system left space for all of it.
    pub complete: bool,
    /// What the user may not expect.
    pub remarks: Vec<String>,
}

impl Record<'_> {
    /// Runs the program to its end. Its signals, streams and end are its own.
    ///
    /// # Errors
    ///
    /// The profile cannot be made, or the program cannot be started; then no profile is left behind.
    pub fn run(&self) -> anyhow::Result<Recorded> {
        let (name, arguments) = self.command.split_first().context("no program was given after `--`")?;
        let program = match Launch::new(self.library, name, arguments).check() {
            Err(refused) if static_program::is_refused_by(&refused) => {
                return static_program::record(self, &refused);
            }
            checked => checked?,
        };
        let held = Held::begin(); // an interrupted start leaves what the profile replaces
        let mut recording = create(self.output, self.size_limit, self.sample_period, self.overwrite)?;
        if self.timeline {
            recording.keep_longest_waits();
        }
        // Rust's locks are no pthread's. To look takes time, which is not the program's.
        let is_rust = Program::find(name).is_ok_and(|program| program.is_rust());
        let (mut command, keeper) = match self.prepare(program, &recording) {
            Ok(prepared) => prepared,
            Err(error) => {
                recording.withdraw();
                return Err(error);
            }
        };
        let (watch, cpu_before) = (Watch::start(), cpu_of(libc::RUSAGE_CHILDREN));
        let (kernel, missing) = match self.kernel.map(KernelLocks::watch).transpose() {
            Ok(kernel) => (kernel, None),
            Err(missing) => (None, Some(missing)),
        };
        let started = Instant::now();
        let mut program = match Supervised::start(&mut command, &held) {
            Ok(program) => program,
            Err(error) => {
                recording.withdraw();
                return Err(error);
            }
        };
        recording.begun();
        let keeper = keeper.map(|prepared| Keeper::new(&recording, prepared));
        let lookout = Lookout::over(program.id(), self.always_on.map_or(1, |_| AlwaysOn::LESS_OFTEN));
        let tasks = Tasks::of(program.id());
        let Followed { counted, status, ended, tasks, remarks: of_run, kernel, called } =
            self.follow(&mut program, &recording, (tasks, keeper), kernel, is_rust)?;
        let elapsed = ended.duration_since(started);
        signals::reset(libc::SIGPIPE); // from now on the command writes for itself
        let unreached = lookout.and_then(Lookout::finish);
        let cpu = cpu_of(libc::RUSAGE_CHILDREN).saturating_sub(cpu_before);
        let stolen_share = watch.stop().stolen_share.unwrap_or(0.0);
        let run = RunValues {
            operations: self.operations.or(counted).unwrap_or(0),
            ended: if status.code().is_some() { 1 } else { 2 },
            status: status.code().or(status.signal()).unwrap_or(0) as u64,
            ..run_values(elapsed, nanoseconds(cpu), stolen_share)
        };
        let of_kernel = kernel.as_ref().and_then(|kernel| Some(kernel.as_ref().err()?.to_string()));
        let not_recorded = missing.map(|missing| missing.to_string()).or(of_kernel);
        let mut remarks: Vec<String> = not_recorded
            .map(|why| format!("the kernel's locks are not recorded: {why}"))
            .into_iter()
            .collect();
        let reached = recording.used();
        let finished = recording.finish(run, &tasks.into_values());
        if let Err(error) = finished {
            let path = recording.path().display();
            remarks.push(format!("{path}: {error}: run time and coverage are missing"));
        }
        remarks.extend(of_run);
        remarks.extend(self.said_of_recording(&recording, (reached, status.signal()), counted));
        remarks.extend(said_of_called(name, is_rust, called));
        if let Some(unreached) = unreached {
            remarks.push(format!("not reached, and so not recorded: {unreached}"));
        }
        let used = reached || matches!(kernel, Some(Ok(())));
        let complete = recording.growth_error().is_none();
        Ok(Recorded { recording, status, used, complete, remarks })
    }

    /// What a recording that has ended lacks; `reached` says whether the program's recorder wrote to it, and `signal` what ended it.
    fn said_of_recording(
        &self,
        recording: &Recording,
        (reached, signal): (bool, Option<i32>),
        counted: Option<u64>,
    ) -> Vec<String> {
        let (path, name) = (recording.path().display(), self.command[0].display());
        let lost = recording.growth_error();
        let lost_in_words = lost.as_ref().map(|error| {
            let processes = match recording.unrecorded() {
                0 => String::new(),
                unrecorded => format!(", and {unrecorded} processes not at all"),
            };
            format!(
                "{path} could not grow: {error}: the program was not recorded to its end{processes}; record to another place with -o"
            )
        });
        let uncounted = self.operations_regex.is_some() && counted.is_none();
        let uncounted = uncounted.then(|| {
            "nothing that the program wrote matches --ops-regex: figures are for one second".to_owned()
        });
        let unreached = (!reached && lost.is_none()).then(|| {
            match signal {
                Some(signal) => format!("{name} recorded nothing before signal {signal} ended it"),
                None => format!(
                    "{name} recorded nothing: it is linked statically, runs with another user's rights, or cleared its environment"
                ),
            }
        });
        let program = Program::find(&self.command[0]);
        let of_openmp =
            program.as_ref().is_ok_and(Program::uses_openmp).then(|| format!("{name}: {OF_OPENMP}"));
        let of_go = program.is_ok_and(|program| program.is_go()).then(|| {
            format!("{name} is a Go program with C code: the C code's locks are recorded, and Go's own are not: {MUTEX_PROFILE}")
        });
        [lost_in_words, uncounted, unreached, of_openmp, of_go].into_iter().flatten().collect()
    }

    /// The command that starts the program, and what keeps its intervals: all that may fail before the program runs.
    fn prepare(
        &self,
        program: Launch<'_>,
        recording: &Recording,
    ) -> anyhow::Result<(Command, Option<Prepared>)> {
        let variable = |name: &'static CStr| OsStr::from_bytes(name.to_bytes());
        let identity = recording.identity().to_string();
        let mut command = program
            .env(variable(environment::PROFILE), recording.path())
            .env(variable(environment::IDENTITY), identity)
            .command()?;
        if self.operations_regex.is_some() {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let keeper = self.always_on.map(|plan| Prepared::of(recording, plan)).transpose();
        let keeper = keeper.with_context(|| {
            format!("cannot keep profiles of intervals beside {}", recording.path().display())
        })?;
        Ok((command, keeper))
    }

    /// Waits for the program, looking at its threads now and then, and counts operations in its output; meanwhile the waits for
    /// the kernel's locks are recorded, and those in futexes that the program hands on.
    fn follow(
        &self,
        program: &mut Supervised,
        recording: &Recording,
        (mut tasks, mut keeper): (Tasks, Option<Keeper<'_>>),
        kernel: Option<KernelLocks>,
        is_rust: bool,
    ) -> anyhow::Result<Followed> {
        let (output, errors) = program.streams();
        let pid = program.id();
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let has_ended = &has_ended;
            let kernel =
                kernel.map(|kernel| scope.spawn(move || kernel.record(recording, self.command, has_ended)));
            let expected = is_rust.then_some(pid);
            let called = scope.spawn(move || record_called(recording, expected, has_ended));
            let (ended, watched) = mpsc::channel::<()>();
            let watcher = scope.spawn(move || {
                loop {
                    let mut pause = tasks.look();
                    recording.note_time();
                    if let Some(keeper) = &mut keeper {
                        pause = keeper.tend(&mut tasks, pause);
                    }
                    if !matches!(watched.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                        let remarks = keeper.map_or_else(Vec::new, |keeper| keeper.finish(&tasks));
                        return (tasks, remarks);
                    }
                }
            });
            let readers = self.operations_regex.map(|regex| {
                let nothing = || Ok(Passed::default());
                let of_output = scope.spawn(move || {
                    output.map_or_else(nothing, |from| pass_through(from, io::stdout(), regex, has_ended))
                });
                let of_errors = scope.spawn(move || {
                    errors.map_or_else(nothing, |from| pass_through(from, io::stderr(), regex, has_ended))
                });
                [("output", of_output), ("errors", of_errors)]
            });
            let status = program.wait();
            let ended_at = Instant::now();
            has_ended.store(true, Ordering::Relaxed);
            drop(ended);
            let kernel = kernel.map(|kernel| kernel.join().expect("counting does not panic"));
            let called = called.join().expect("counting does not panic");
            let (tasks, mut remarks) = watcher.join().expect("looking does not panic");
            let mut counted = None;
            for (stream, reader) in readers.into_iter().flatten() {
                let passed = reader.join().expect("copying does not panic")?;
                remarks.extend(said_of_stream(stream, &passed));
                // As where a run's output is read as a whole: the last match counts, and the errors come last.
                counted = passed.operations.map(|operations| operations.round() as u64).or(counted);
            }
            Ok(Followed { counted, status: status?, ended: ended_at, tasks, remarks, kernel, called })
        })
    }
}

/// Makes the profile: where the user says, or at the first of the usual names that no launcher is recording to.
pub(crate) fn create(
    output: Option<&Path>,
    size_limit: u64,
    sample_period: u32,
    overwrite: Overwrite,
) -> anyhow::Result<Recording> {
    let create = |path: &Path| Recording::create(path, size_limit, sample_period, overwrite);
    let explain = |path: &Path, error: io::Error| {
        let remedy = match error.kind() {
            io::ErrorKind::ResourceBusy | io::ErrorKind::InvalidInput => ": give another name with -o",
            io::ErrorKind::AlreadyExists => ": give another name with -o, or --force to replace a file",
            io::ErrorKind::FileTooLarge => {
                ": the limit of file sizes (ulimit -f) leaves no space for a profile"
            }
            io::ErrorKind::StorageFull => ": free some space, or name a place on another disk with -o",
            _ => "",
        };
        anyhow::anyhow!("cannot make the profile {}: {error}{remedy}", path.display())
    };
    if let Some(path) = output {
        return create(path).map_err(|error| explain(path, error));
    }
    let names = std::iter::once("p.contend".to_owned()).chain((2..).map(|n| format!("p-{n}.contend")));
    for name in names {
        match create(Path::new(&name)) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            made => return made.map_err(|error| explain(Path::new(&name), error)),
        }
    }
    unreachable!("there is always another number")
}

/// A program that has ended.
struct Followed {
    /// Operations in its output.
    counted: Option<u64>,
    status: ExitStatus,
    /// When it ended.
    ended: Instant,
    tasks: Tasks,
    /// What is to be said of its output and of the profiles of intervals.
    remarks: Vec<String>,
    /// Whether the kernel's locks were recorded, if they were to be.
    kernel: Option<io::Result<()>>,
    /// What is to be said of the waits in futexes that the program has handed on.
    called: io::Result<Vec<String>>,
}

/// How much is known of locks that are no pthread's, and what would tell more of those of a Rust program.
fn said_of_called(name: &OsStr, is_rust: bool, called: io::Result<Vec<String>>) -> Vec<String> {
    let name = name.display();
    let (known, mut remarks) = match called {
        Ok(remarks) => ("waits alone are recorded, by its calls of `syscall`".to_owned(), remarks),
        Err(error) if is_rust => (format!("nothing is recorded to the end: {error}"), Vec::new()),
        Err(error) => {
            return vec![format!(
                "waits for locks that are no pthread's are not recorded to the end: {error}"
            )];
        }
    };
    if is_rust {
        remarks.push(format!(
            "{name} is a Rust program, whose own locks are no pthread's: of them {known}; to have critical sections, put \
             `contend_recorded::sync` in the place of `std::sync`, and `contend_recorded::Recorded` around those of parking_lot"
        ));
    }
    remarks
}

/// What the user may not expect of a stream of the program's that went through the launcher.
fn said_of_stream(stream: &str, passed: &Passed) -> Vec<String> {
    let unwritten = passed.unwritten.as_ref();
    let unwritten = unwritten.map(|error| format!("the program's {stream} could not be passed on: {error}"));
    let held = passed.is_held.then(|| {
        format!("something that the program started still has its {stream}, of which no more is passed on")
    });
    unwritten.into_iter().chain(held).collect()
}

/// What is known of a time as a whole: how long it was, how long the program ran on cores, and what the hypervisor took.
pub(crate) fn run_values(elapsed: Duration, cpu_ns: u64, stolen_share: f64) -> RunValues {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let elapsed_ns = nanoseconds(elapsed);
    RunValues {
        elapsed_ns,
        cpu_ns,
        stolen_ns: (stolen_share * elapsed_ns as f64 * cores as f64) as u64,
        cores: cores as u64,
        ..RunValues::default()
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
