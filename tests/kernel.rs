//! `contend profile --kernel`: the running kernel's own locks beside the program's.
//!
//! Where the kernel shows no tracepoints, as in most containers, these tests say so and pass.

mod common;

use common::{CONTEND, HANG, Outcome, Source, contend, json, run};
use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs that may be needed until threads met each other in the kernel: they may have come one after another.
const ATTEMPTS: usize = 20;

/// Profiles a command; none, and a line that says so, where the kernel shows nothing.
fn profile(file: &Path, flags: &[&str], command: &[&str]) -> Option<(Outcome, Value)> {
    let file = file.to_str().expect("a plain path");
    let mut profile = contend(&["profile", "-q", "-o", file, "--kernel"]);
    profile.args(flags).arg("--").args(command);
    let outcome = run(profile, HANG);
    if let Some(line) = outcome.stderr.lines().find(|line| line.contains("kernel's locks are not recorded")) {
        println!("skipped: {line}");
        return None;
    }
    let report = json(&["report", file, "--json"]);
    Some((outcome, report))
}

fn mapping() -> String {
    Source::program("mapping.c").compile().to_str().expect("a plain path").to_owned()
}

fn rows(report: &Value) -> &[Value] {
    report["kernel"]["rows"].as_array().expect("rows of the kernel")
}

/// Waits for the lock of an address space, where memory is mapped or unmapped.
fn waits_for_mmap_lock(report: &Value) -> u64 {
    let of_mmap_lock = |row: &&Value| {
        let name = row["name"].as_str().expect("a name");
        row["kind"] == "rwsem write" && ["mmap", "munmap"].iter().any(|part| name.contains(part))
    };
    rows(report).iter().filter(of_mmap_lock).map(|row| row["waits"].as_u64().expect("a count")).sum()
}

/// Profiles `mapping` until enough of its threads have met.
fn profile_mapping(file: &Path, threads: &str, least: u64) -> Option<(Outcome, Value)> {
    for _ in 0..ATTEMPTS {
        let (outcome, report) = profile(file, &[], &[&mapping(), threads, "300"])?;
        assert!(outcome.succeeded(), "{outcome}");
        if waits_for_mmap_lock(&report) >= least {
            return Some((outcome, report));
        }
    }
    panic!("in {ATTEMPTS} runs, threads that map memory have not met");
}

#[test]
fn threads_that_map_memory_wait_for_the_lock_of_their_address_space() {
    let directory = tempfile::tempdir().expect("a place for profiles");
    let [few, many] = ["few", "many"].map(|name| directory.path().join(name));
    let Some((outcome, report)) = profile_mapping(&many, "8", 10) else { return };
    assert!(outcome.stdout.contains("\"done\": 8"), "the program's output is its own: {outcome}");
    let kernel = &report["kernel"];
    assert_eq!((&kernel["machine"], &kernel["dropped"]), (&Value::Bool(false), &Value::from(0)));
    for row in rows(&report) {
        let of = |field: &str| row[field].as_f64().expect("a number");
        let waited_ns = row["wait"]["total_ns"].as_f64().expect("a time");
        assert!(of("spun_ns") <= waited_ns && of("waits") >= 1.0 && of("objects") >= 1.0, "{row:#}");
        match row["kind"].as_str() {
            Some("spin") => assert_eq!(of("spun_ns"), waited_ns, "{row:#}"),
            Some("rwsem write") => assert_eq!(of("spun_ns"), 0.0, "{row:#}"),
            _ => {}
        }
        let waits =
            row["calls"].as_array().expect("stacks").iter().map(|calls| calls["waits"].as_u64().unwrap());
        assert_eq!(waits.sum::<u64>(), row["waits"].as_u64().unwrap(), "every wait has a stack: {row:#}");
    }
    let asleep = |row: &Value| row["wait"]["total_ns"].as_f64().unwrap() - row["spun_ns"].as_f64().unwrap();
    let asleep_ns: f64 = rows(&report).iter().map(asleep).sum();
    let told_ns = report["header"]["blocked"]["kernel_locks_ns"].as_f64().expect("a time");
    assert!(
        told_ns > 0.0 && told_ns <= 1.001 * asleep_ns,
        "{told_ns} of {asleep_ns} ns asleep in the kernel's locks"
    );
    // The program's own locks are there as ever, those of its child too.
    assert_eq!(report["header"]["processes"], 2);
    let own = report["rows"].as_array().expect("rows");
    assert!(own.iter().any(|row| row["name"] == "done_lock"), "{report:#}");

    let Some(_) = profile(&few, &[], &[&mapping(), "1", "300"]) else { return };
    let [few, many] = [&few, &many].map(|file| file.to_str().expect("a plain path"));
    let diff = json(&["diff", "--json", few, many]);
    let first = &diff["kernel"][0];
    assert!(
        first["kind"].as_str().is_some_and(|kind| kind.starts_with("rwsem")),
        "what many threads wait for most, and one does not: {diff:#}"
    );
    let text = run(contend(&["diff", "--wide", few, many]), HANG).stdout;
    assert!(
        text.contains("By lock of the kernel") && text.contains(first["name"].as_str().unwrap()),
        "{text}"
    );
    let csv = run(contend(&["report", many, "--csv"]), HANG).stdout;
    assert!(csv.lines().any(|line| line.contains(",kernel,rwsem write,")), "{csv}");
    let pprof = directory.path().join("locks.pb");
    json(&["report", many, "--json", "--pprof", pprof.to_str().unwrap()]);
    let pprof = std::fs::read(pprof).expect("the pprof profile");
    let wanted = b"(rwsem write)";
    assert!(pprof.windows(wanted.len()).any(|part| part == wanted));
}

/// The program that is profiled maps nothing; another one that was there before does.
#[test]
fn all_processes_are_everybodys() {
    let directory = tempfile::tempdir().expect("a place for profiles");
    let mut other = Command::new(mapping()).args(["8", "0"]).spawn().expect("it starts");
    let found = (0..ATTEMPTS).find_map(|_| {
        let profiled = profile(&directory.path().join("all"), &["-a"], &["sleep", "0.2"]);
        let Some((outcome, report)) = profiled else { return Some(0) };
        assert!(outcome.succeeded() && report["kernel"]["machine"] == true, "{outcome}");
        Some(waits_for_mmap_lock(&report)).filter(|&waits| waits > 0)
    });
    let own = profile(&directory.path().join("own"), &[], &["sleep", "0.2"]);
    other.kill().and_then(|()| other.wait()).expect("it ends");
    assert!(found.is_some(), "in {ATTEMPTS} runs the other program did not wait");
    let own = own.map_or(0, |(_, report)| waits_for_mmap_lock(&report));
    assert_eq!(own, 0, "without --all-processes it is another's");
}

#[test]
fn what_was_recorded_outlives_kill_9_and_an_interrupt() {
    let directory = tempfile::tempdir().expect("a place for profiles");
    let Some(_) = profile(&directory.path().join("any"), &[], &["true"]) else { return };
    // The program alone is killed, its group is interrupted as by a terminal, and the whole group is killed, with contend in it.
    for (signal, to_program, status) in
        [(libc::SIGKILL, true, Some(137)), (libc::SIGINT, false, Some(130)), (libc::SIGKILL, false, None)]
    {
        let file = directory.path().join(format!("{signal}-{to_program}"));
        let path = file.to_str().expect("a plain path");
        let mut command = contend(&["profile", "-q", "--kernel", "-o", path, "--"]);
        command.arg(mapping()).args(["4", "0"]).process_group(0).stderr(Stdio::null());
        // Who runs the tests in the background ignores interrupts, and would pass that on.
        let heed_interrupts = || {
            // SAFETY: the call is allowed after a fork.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: the closure does nothing that is not allowed between fork and exec.
        unsafe { command.pre_exec(heed_interrupts) };
        let mut child = command.spawn().expect("contend starts");
        let begun = Instant::now();
        let seen = loop {
            let outcome = run(contend(&["report", path, "--json"]), HANG);
            let report: Option<Value> = serde_json::from_str(&outcome.stdout).ok();
            let waits = report.filter(|report| !report["kernel"].is_null());
            match waits.map_or(0, |report| waits_for_mmap_lock(&report)) {
                0 => {}
                waits => break waits,
            }
            assert!(begun.elapsed() < HANG, "nothing was recorded: {outcome}");
            std::thread::sleep(Duration::from_millis(20));
        };
        let group = child.id() as i32;
        let program = children(group).first().copied().expect("the program");
        // SAFETY: the program and the group that this test started.
        unsafe { libc::kill(if to_program { program } else { -group }, signal) };
        let ended = child.wait().expect("it ends");
        assert_eq!(ended.code(), status, "signal {signal}, {to_program}");
        assert!(waits_for_mmap_lock(&json(&["report", path, "--json"])) >= seen);
    }
}

fn children(process: i32) -> Vec<i32> {
    let list =
        std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Without the rights there is one line that says what is missing, and the program's own locks.
#[test]
fn who_may_not_watch_is_told_what_is_missing() {
    // SAFETY: the call has no conditions.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can become nobody");
    }
    let directory = tempfile::tempdir().expect("a place for profiles");
    let path = directory.path();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(path, everybody).expect("a directory for everybody");
    let (file, program) = (path.join("p.contend"), path.join("mapping"));
    let binary = path.join("contend");
    std::fs::copy(CONTEND, &binary).and_then(|_| std::fs::copy(mapping(), &program)).expect("copies");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(binary);
    command.args(["profile", "-q", "--kernel", "-o"]).arg(&file).arg("--").arg(program).args(["2", "10"]);
    command.env("XDG_CACHE_HOME", path);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded() && outcome.stdout.contains("\"done\": 2"), "{outcome}");
    let lines: Vec<_> = outcome.stderr.lines().collect();
    let [line] = lines[..] else { panic!("{outcome}") };
    assert!(line.starts_with("contend: the kernel's locks are not recorded: "), "{line}");
    let remedies = ["tracefs", "CAP_PERFMON", "Linux has since 5.19"];
    assert!(remedies.iter().any(|remedy| line.contains(remedy)), "{line}");
    let report = json(&["report", file.to_str().expect("a plain path"), "--json"]);
    assert!(report["kernel"].is_null() && report["rows"].as_array().is_some_and(|rows| !rows.is_empty()));
}

#[test]
fn all_processes_are_for_the_kernels_locks_only() {
    let outcome = run(contend(&["profile", "-a", "--", "true"]), HANG);
    assert_eq!(outcome.status.and_then(|status| status.code()), Some(2), "{outcome}");
    assert!(outcome.stderr.contains("--kernel"), "{outcome}");
}

/// perf(1) watches the same run through buffers of its own.
#[test]
#[ignore = "needs perf (Debian: linux-perf), and root"]
fn perf_counts_the_same_waits() {
    let directory = tempfile::tempdir().expect("a place for profiles");
    let data = directory.path().join("perf.data");
    let data = data.to_str().expect("a plain path");
    let events = ["-e", "lock:contention_begin", "-e", "lock:contention_end"];
    let program = mapping();
    let mut command = vec!["perf", "record", "-q", "-m", "16M", "-o", data];
    command.extend(events);
    command.extend(["--", &program, "8", "20000"]);
    let (outcome, report) = profile(&directory.path().join("p"), &[], &command).expect("the kernel's locks");
    assert!(outcome.succeeded(), "{outcome}");
    let mut script = Command::new("perf");
    script.args(["script", "--show-lost-events", "-F", "comm,event,trace", "-i", data]);
    let script = run(script, HANG);
    assert!(script.succeeded(), "{script}");
    let lost_by_perf = script.stdout.lines().filter(|line| line.contains("PERF_RECORD_LOST")).count() as u64;
    let lost = lost_by_perf + report["kernel"]["lost"].as_u64().expect("a count");
    // perf itself has one thread, and waits for no rw_semaphore of its own; a wait for one has one beginning.
    for (flags, kind) in [("WRITE", "rwsem write"), ("READ", "rwsem read")] {
        let begun = format!("(flags={flags})");
        let of_perf =
            script.stdout.lines().filter(|line| line.contains("contention_begin:") && line.contains(&begun));
        let of_perf = of_perf.count() as u64;
        let ours = rows(&report).iter().filter(|row| row["kind"] == kind);
        let ours: u64 = ours.map(|row| row["waits"].as_u64().expect("a count")).sum();
        println!("{kind}: {ours} waits by contend, {of_perf} by perf, {lost} events lost by either");
        assert!(ours.abs_diff(of_perf) <= lost, "{kind}: {ours} waits by contend, {of_perf} by perf");
    }
}
