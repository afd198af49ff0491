//! What the tests on real programs share: C programs compiled once, command lines of contend, and runs with a time limit.
#![allow(dead_code)] // each test file uses its part

use serde_json::Value;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The command under test.
pub(crate) const CONTEND: &str = env!("CARGO_BIN_EXE_contend");

/// A run that takes longer hangs. The programs need seconds, and their own alarms end them first, after 300 s: what is
/// above is for slow and busy machines.
pub(crate) const HANG: Duration = Duration::from_secs(400);

/// The C or C++ source, in `tests/programs`, of something to compile, and how.
pub(crate) struct Source<'a> {
    /// File name; C++ where it ends in `.cc`.
    pub(crate) file: &'a str,
    /// Options beside the usual ones, such as `-O0` or `-shared`.
    pub(crate) options: &'a [&'a str],
    /// Files to link in, compiled before.
    pub(crate) with: &'a [&'a Path],
}

impl<'a> Source<'a> {
    /// A program of one file, built as usual.
    pub(crate) fn program(file: &'a str) -> Self {
        Source { file, options: &[], with: &[] }
    }

    /// Compiles it unless that was done before, and gives the path of the result.
    ///
    /// The name of the result contains a hash of all that goes in. The compiler writes elsewhere and the
    /// result is moved into place, so tests may ask for the same one at once.
    pub(crate) fn compile(&self) -> PathBuf {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let source = programs.join(self.file);
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
        fs::create_dir_all(&built).expect("a directory for compiled programs");

        let mut hasher = DefaultHasher::new();
        (self.options, self.with).hash(&mut hasher);
        for input in [source.clone(), programs.join("case.h"), programs.join("stress.h")] {
            fs::read(&input).unwrap_or_else(|error| panic!("{}: {error}", input.display())).hash(&mut hasher);
        }
        let stem = source.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let result = built.join(format!("{stem}-{:016x}", hasher.finish()));
        if !result.exists() {
            let directory = tempfile::tempdir_in(&built).expect("a place to compile in");
            let fresh = directory.path().join(stem);
            self.run_compiler(&source, &fresh);
            fs::rename(&fresh, &result).expect("the compiled program moved into place");
        }
        result
    }

    fn run_compiler(&self, source: &Path, output: &Path) {
        let cxx = source.extension().is_some_and(|extension| extension == "cc");
        let mut compiler = Command::new(if cxx { "c++" } else { "cc" });
        compiler.arg(if cxx { "-std=gnu++17" } else { "-std=gnu17" });
        compiler.args(["-O2", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"]);
        compiler.args(self.options).arg(source).args(self.with).arg("-o").arg(output);
        let outcome = run(compiler, HANG);
        assert!(outcome.succeeded(), "compiling {}: {outcome}", source.display());
    }
}

/// A command line of contend.
pub(crate) fn contend(arguments: &[&str]) -> Command {
    let mut command = Command::new(CONTEND);
    command.args(arguments).env_remove("COLUMNS"); // whatever the terminal of the tests is
    command
}

/// The JSON that a command line of contend prints.
pub(crate) fn json(arguments: &[&str]) -> Value {
    let outcome = run(contend(arguments), HANG);
    assert!(outcome.succeeded(), "contend {}: {outcome}", arguments.join(" "));
    serde_json::from_str(&outcome.stdout).expect("the command prints JSON")
}

/// Sends a signal to a process that this test has started and not waited for, or to one that such a process has.
pub(crate) fn send(process: u32, signal: libc::c_int) {
    // SAFETY: no pointers are passed.
    unsafe { libc::kill(process.cast_signed(), signal) };
}

/// How a run ended and what it printed.
pub(crate) struct Outcome {
    /// `None` when it was killed at its time limit.
    pub(crate) status: Option<ExitStatus>,
    /// Standard output, as text.
    pub(crate) stdout: String,
    /// Standard error, as text.
    pub(crate) stderr: String,
}

impl Outcome {
    /// Its exit status, if it ended by itself.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// Whether it ended by itself, with status 0.
    pub(crate) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.status {
            None => write!(out, "still ran at its time limit")?,
            // The programs set an alarm, so this is how they hang; a shell adds 128 to the signal.
            Some(status) if status.signal() == Some(14) || status.code() == Some(128 + 14) => {
                write!(out, "hung, and was ended by its own alarm")?;
            }
            Some(status) => write!(out, "ended with {status}")?,
        }
        write!(
            out,
            "; the last it printed:\n{}\n{}",
            last_lines(&self.stdout, 5),
            last_lines(&self.stderr, 15)
        )
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Runs a command to its end, or kills it and its children at the limit.
///
/// It gets a process group of its own, since `contend` and the program it runs need not be one process. Output goes
/// to files: a program that outlives its parent could keep a pipe open.
pub(crate) fn run(mut command: Command, limit: Duration) -> Outcome {
    let mut stdout = tempfile::tempfile().expect("a file for standard output");
    let mut stderr = tempfile::tempfile().expect("a file for standard error");
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().expect("a second handle"))
        .stderr(stderr.try_clone().expect("a second handle"))
        .process_group(0);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let status = wait(&mut child, limit);
    Outcome { status, stdout: read_back(&mut stdout), stderr: read_back(&mut stderr) }
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child to wait for") {
            return Some(status);
        }
        if begun.elapsed() > limit {
            let group = format!("-{}", child.id());
            // `kill` takes a group only after `--`.
            let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn read_back(file: &mut fs::File) -> String {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("the output read back");
    String::from_utf8_lossy(&bytes).into_owned()
}
