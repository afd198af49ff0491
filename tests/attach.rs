//! `contend attach`: what is told of a program that runs already, and that it is left as it was.
//!
//! Where the kernel shows no system calls, as in most containers, these tests say so and pass.

mod common;

use common::{HANG, Outcome, Source, contend, json, run, send};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that runs until its standard input ends.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(program: &Path) -> Self {
        Self::run(Command::new(program))
    }

    fn run(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self { input: child.stdin.take(), child, output }
    }

    /// `attached.c`, once its threads run.
    fn attached() -> Self {
        let mut running = Self::start(&Source::program("attached.c").compile());
        assert_eq!(running.line(), "ready\n");
        running
    }

    /// The next line that it prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Gives it a byte: then it starts more threads, or measures.
    fn go_on(&mut self) {
        let input = self.input.as_mut().expect("it runs");
        input.write_all(b"m").and_then(|()| input.flush()).expect("it reads");
    }

    /// Ends its input, and gives the numbers that it prints.
    fn end(&mut self) -> HashMap<String, u64> {
        drop(self.input.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("what it prints");
        assert!(self.child.wait().expect("it ends").success(), "it ended as it does alone: {text}");
        let words =
            |line: &str| Some((line.split_once(' ')?.0.to_owned(), line.split_once(' ')?.1.parse().ok()?));
        text.lines().filter_map(words).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `contend attach`; none, and a line that says so, where the kernel shows nothing.
fn attach(arguments: &[&str]) -> Option<Outcome> {
    shown(run(contend(&[&["attach"], arguments].concat()), HANG))
}

fn shown(outcome: Outcome) -> Option<Outcome> {
    let missing = ["tracefs", "tracepoint", "perf_event_open", "another user's", "no right to attach"];
    match outcome.stderr.lines().find(|line| missing.iter().any(|part| line.contains(part))) {
        Some(line) if !outcome.succeeded() => {
            println!("skipped: {line}");
            None
        }
        _ => Some(outcome),
    }
}

fn row<'a>(report: &'a Value, name: &str, kind: &str) -> &'a Value {
    let rows = report["rows"].as_array().expect("rows");
    rows.iter()
        .find(|row| row["name"] == name && row["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind} {name} in {report:#}"))
}

fn file(directory: &tempfile::TempDir) -> (PathBuf, String) {
    let path = directory.path().join("p.contend");
    let name = path.to_str().expect("a plain path").to_owned();
    (path, name)
}

#[test]
fn locks_of_a_running_program_are_named_and_their_waits_counted() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let (_, name) = file(&directory);
    let mut program = Running::attached();
    let Some(outcome) = attach(&[&program.pid(), "--for", "1s", "-o", &name]) else { return };
    assert!(outcome.succeeded() && outcome.stderr.contains("runs on"), "{outcome}");
    assert!(outcome.stderr.contains("attached_mutex"), "{outcome}");
    let counted = program.end();
    let report = json(&["report", &name, "--json"]);
    assert_eq!(report["header"]["attached"]["lost_events"], 0);
    for (lock, kind, way) in [
        ("attached_mutex", "mutex", "exclusive"),
        ("take_from_heap", "mutex", "exclusive"),
        ("attached_rwlock", "rwlock", "shared"),
    ] {
        let row = row(&report, lock, kind);
        let usage = &row[way];
        let waits = usage["contended"].as_u64().expect("a count");
        let printed = counted[if lock == "take_from_heap" { "heap_mutex" } else { lock }];
        assert!((10..=printed).contains(&waits), "{waits} of {printed} waits for {lock}: {row:#}");
        let waited_ns = usage["wait"]["total_ns"].as_f64().expect("a time");
        assert!(waited_ns > 1e3 * waits as f64, "sections sleep: {row:#}");
        assert_eq!(usage["wait"]["count"], waits);
        for unknown in ["acquisitions", "nested", "try_failures", "hold_same", "think", "handover"] {
            assert!(usage[unknown].is_null(), "{unknown} of {row:#}");
        }
        for unknown in ["share", "critical_section_ns", "acquisitions_per_operation"] {
            assert!(row[unknown].is_null(), "{unknown} of {row:#}");
        }
        assert!(!row["caller"].as_str().expect("a caller").starts_with("libc"), "{row:#}");
    }
    let callers = [row(&report, "attached_mutex", "mutex"), row(&report, "attached_rwlock", "rwlock")]
        .map(|row| row["caller"].as_str().expect("a caller"));
    assert_eq!(callers, ["take_static", "read_always"]);
    let held = |row: &Value| row["holders"].as_array().is_some_and(|holders| !holders.is_empty());
    assert!(
        report["rows"].as_array().expect("rows").iter().any(held),
        "holders sleep, and are seen: {report:#}"
    );
    for (object, kind) in [("attached_condition", "condition"), ("attached_semaphore", "semaphore")] {
        let waits = &row(&report, object, kind)["exclusive"];
        assert!(waits["condition_waits"].as_u64() > Some(5) && waits["contended"] == 0, "{waits:#}");
    }
    let joining = report["header"]["blocked"]["joins_ns"].as_f64().expect("a time");
    assert!(joining > 1e8, "a thread joins others: {joining}");
}

#[test]
fn threads_that_start_later_are_followed_and_the_end_of_the_program_ends_it() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let (path, name) = file(&directory);
    let mut program = Running::attached();
    let mut command = contend(&["attach", &program.pid(), "-o", &name]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let attached = command.spawn().expect("contend starts");
    let Some(attached) = once_it_counts(attached, &path) else { return };
    program.go_on();
    let begun = Instant::now();
    while reported(&path).is_none_or(|report| waits_for(&report, "late_mutex") <= 5) {
        assert!(begun.elapsed() < HANG, "the later threads are not followed");
        std::thread::sleep(Duration::from_millis(50));
    }
    let top = run(contend(&["top", &name, "--batch", "-n", "1"]), HANG);
    assert!(!top.succeeded() && top.stderr.contains("contend attach"), "{top}");
    let counted = program.end();
    let output = attached.wait_with_output().expect("it ends with the program");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("has ended"), "{text}");
    let report = json(&["report", &name, "--json"]);
    let waits = waits_for(&report, "late_mutex");
    assert!((6..=counted["late_mutex"]).contains(&waits), "{waits} of {counted:?}");

    let predicted = run(contend(&["predict", &name]), HANG);
    assert_eq!(predicted.status.and_then(|status| status.code()), Some(3), "{predicted}");
    assert!(predicted.stdout.contains("contend profile"), "{predicted}");
    let diff = json(&["diff", &name, &name, "--json"]);
    assert_eq!(diff["waits_only"], true);
    let csv = run(contend(&["report", &name, "--csv"]), HANG);
    assert!(csv.succeeded() && csv.stdout.contains("late_mutex"), "{csv}");
}

#[test]
fn an_interrupt_ends_it_and_writes_the_profile() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let (path, name) = file(&directory);
    let mut program = Running::attached();
    let mut command = contend(&["attach", &program.pid(), "-o", &name]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let attached = command.spawn().expect("contend starts");
    let Some(attached) = once_it_counts(attached, &path) else { return };
    send(attached.id(), libc::SIGINT);
    let output = attached.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("runs on"), "{text}");
    assert!(waits_for(&json(&["report", &name, "--json"]), "attached_mutex") > 0);
    program.end();
}

/// Threads that are stuck wait since before, and end no wait: they and who holds the lock are told all the same.
#[test]
fn waits_that_began_before_are_told_with_who_holds_the_lock() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let (_, name) = file(&directory);
    let program = Running::start(&Source::program("held.c").compile());
    let pid = program.child.id();
    let begun = Instant::now();
    let sleepers = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let calls = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("syscall")).ok());
        calls.filter(|call| call.starts_with(&format!("{} ", libc::SYS_futex))).count()
    };
    while sleepers() < 3 {
        if begun.elapsed() > Duration::from_secs(20) {
            return println!("skipped: /proc does not tell the system calls of threads");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let Some(outcome) = attach(&[&program.pid(), "--for", "300ms", "-q", "-o", &name]) else { return };
    assert!(outcome.succeeded() && outcome.stderr.is_empty(), "{outcome}");
    let report = json(&["report", &name, "--json"]);
    let mutex = row(&report, "held_mutex", "mutex");
    assert_eq!((&mutex["exclusive"]["contended"], &mutex["caller"]), (&2.into(), &"take_mutex".into()));
    let holder = &mutex["holders"][0];
    assert_eq!(holder["tid"], u64::from(pid), "the main thread holds it: {mutex:#}");
    assert!(holder["looks"].as_u64() > Some(2), "{mutex:#}");
    let rwlock = row(&report, "held_rwlock", "rwlock");
    assert_eq!(rwlock["exclusive"]["contended"], 1, "{rwlock:#}");
}

/// A stranger's program: its tables for unwinding have no end, and it maps a file whose tables are said to be 2 GiB long.
#[test]
fn a_hostile_program_neither_hangs_it_nor_fills_its_memory() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let (_, name) = file(&directory);
    let sparse = directory.path().join("sparse\u{1b}[2J");
    let size: u64 = 2 << 30;
    let words = [3 | 62 << 16 | 1 << 32, 0, 64, 0x200, 64 << 32 | 56 << 48, 1 | 64 << 16 | 3 << 32 | 2 << 48];
    let segment = [1 | 5 << 32, 0, 0, 0, 0x1000, 0x1000, 0x1000];
    let section = [1 | 1 << 32, 2, 0x1000, 0x1000, size, 0, 8, 0];
    let names = [11 | 3 << 32, 0, 0, 0x400, 21, 0, 1, 0];
    let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend(bytes(&words));
    elf.extend(bytes(&segment));
    elf.resize(0x240, 0);
    elf.extend(bytes(&section));
    elf.extend(bytes(&names));
    elf.resize(0x400, 0);
    elf.extend(b"\0.eh_frame\0.shstrtab\0");
    std::fs::write(&sparse, elf).expect("a file");
    let grown = std::fs::OpenOptions::new().write(true).open(&sparse).expect("the file");
    grown.set_len(0x1000 + size).expect("a sparse file");
    let mut command = Command::new(Source::program("endless_tables.c").compile());
    command.arg(&sparse);
    let mut program = Running::run(command);
    assert_eq!(program.line(), "ready\n");
    let mut command = contend(&["attach", &program.pid(), "--for", "1s", "-o", &name]);
    // SAFETY: between fork and exec nothing but a system call is made.
    unsafe {
        command.pre_exec(|| {
            let most = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
            if libc::setrlimit(libc::RLIMIT_DATA, &raw const most) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    let Some(outcome) = shown(run(command, HANG)) else { return };
    assert!(outcome.succeeded() && outcome.stderr.contains("tables for unwinding are not used"), "{outcome}");
    assert!(
        outcome.stderr.contains("attached to process") && !outcome.stderr.contains('\u{1b}'),
        "{outcome}"
    );
    assert!(waits_for(&json(&["report", &name, "--json"]), "endless_mutex") > 0, "{outcome}");
}

#[test]
fn an_exec_ends_it() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let (path, name) = file(&directory);
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line; exec sleep 100"]).stdin(Stdio::piped());
    let mut child = shell.spawn().expect("a shell");
    let mut command = contend(&["attach", &child.id().to_string(), "-o", &name]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let attached = once_it_counts(command.spawn().expect("contend starts"), &path);
    child.stdin.take().expect("its input").write_all(b"go\n").expect("it reads");
    if let Some(attached) = attached {
        let output = attached.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("another program by exec"), "{text}");
    }
    child.kill().and_then(|()| child.wait()).expect("it ends");
}

#[test]
fn what_is_missing_is_named_with_a_remedy_and_no_profile_is_left() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let (path, name) = file(&directory);
    let nobody = i32::MAX.to_string();
    let outcome = run(contend(&["attach", &nobody, "-o", &name]), HANG);
    let told = format!("contend: there is no process {nobody}: `pgrep NAME` tells");
    assert!(outcome.stderr.starts_with(&told), "{outcome}");
    assert_eq!(outcome.status.and_then(|status| status.code()), Some(1), "{outcome}");
    let outcome = run(contend(&["attach", "0"]), HANG);
    assert_eq!(outcome.status.and_then(|status| status.code()), Some(2), "{outcome}");
    assert!(!path.exists());
    // SAFETY: the call has no conditions.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can become nobody");
    }
    let binary = directory.path().join("contend");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), everybody).expect("a directory for everybody");
    std::fs::copy(common::CONTEND, &binary).expect("a copy");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(binary);
    command.args(["attach", &std::process::id().to_string(), "-o", &name]);
    let outcome = run(command, HANG);
    let remedies = [
        "mount -t tracefs", "tracefs is root's", "sysctl kernel.perf_event_paranoid=", "as root",
        "CONFIG_FTRACE_SYSCALLS",
    ];
    assert!(
        !outcome.succeeded() && remedies.iter().any(|remedy| outcome.stderr.contains(remedy)),
        "{outcome}"
    );
    assert!(!path.exists());
}

/// The attaching process once its profile has begun; none where it ends at once, since the kernel shows nothing.
fn once_it_counts(mut attached: Child, path: &Path) -> Option<Child> {
    let begun = Instant::now();
    while reported(path).is_none_or(|report| report["header"]["attached"].is_null()) {
        if let Some(status) = attached.try_wait().expect("a child") {
            let mut stderr = String::new();
            attached.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("its errors");
            let outcome = shown(Outcome { status: Some(status), stdout: String::new(), stderr });
            assert!(outcome.is_none(), "it ended early: {}", outcome.expect("one"));
            return None;
        }
        assert!(begun.elapsed() < HANG, "nothing is written");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Events are counted from before the profile is made; waits come soon.
    std::thread::sleep(Duration::from_millis(200));
    Some(attached)
}

fn reported(path: &Path) -> Option<Value> {
    let outcome = run(contend(&["report", path.to_str()?, "--json"]), HANG);
    serde_json::from_str(&outcome.stdout).ok()
}

fn waits_for(report: &Value, name: &str) -> u64 {
    let rows = report["rows"].as_array().into_iter().flatten().filter(|row| row["name"] == name);
    rows.filter_map(|row| row["exclusive"]["contended"].as_u64()).sum()
}

/// Prints docs/profile.md's figures of the cost. CPU time, so that what else the machine does matters little.
#[test]
#[ignore = "measures: cargo test --test attach what_it_costs -- --ignored --nocapture"]
fn what_it_costs() {
    const ROUNDS: usize = 9;
    let directory = tempfile::tempdir().expect("a place for the profile");
    let program = Source::program("futex_calls.c").compile();
    let [mut attached_to, mut other] = [(); 2].map(|()| Running::start(&program));
    let mut figures: [Vec<[f64; 3]>; 4] = Default::default();
    for running in [&mut attached_to, &mut other] {
        running.line();
    }
    for round in 0..ROUNDS {
        let mut take = |place: usize, running: &mut Running| {
            running.go_on();
            let line = running.line();
            let numbers: Vec<f64> =
                line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
            figures[place].push(numbers.try_into().expect("three of them"));
        };
        take(0, &mut attached_to);
        take(1, &mut other);
        let path = directory.path().join(round.to_string());
        let name = path.to_str().expect("a plain path");
        let mut command = contend(&["attach", "-q", &attached_to.pid(), "-o", name]);
        let attached = command.stderr(Stdio::piped()).spawn().expect("contend starts");
        let Some(mut attached) = once_it_counts(attached, &path) else { return };
        take(2, &mut attached_to);
        take(3, &mut other);
        send(attached.id(), libc::SIGINT);
        assert!(attached.wait().expect("it ends").success());
    }
    let names = ["alone", "another, alone", "attached to", "another meanwhile"];
    for (name, figures) in names.iter().zip(figures) {
        let medians = [0, 1, 2].map(|column| {
            let mut column: Vec<f64> = figures.iter().map(|row| row[column]).collect();
            column.sort_by(f64::total_cmp);
            format!("{} ({} to {})", column[ROUNDS / 2], column[0], column[ROUNDS - 1])
        });
        println!(
            "{name}: a wait that ends at once {} ns, a hand-over {} ns, getppid {} ns",
            medians[0], medians[1], medians[2]
        );
    }
}
