//! `contend profile` of programs with locks that are no pthread's: their waits in futexes.
//!
//! Where the kernel shows no system calls, as in most containers, the test of a static program says so and passes.

mod common;

use common::{CONTEND, HANG, Source, contend, json, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn a_static_program_is_recorded_by_its_waits_from_its_start() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let profile = directory.path().join("p.contend");
    let profile = profile.to_str().expect("a plain path");
    let program = Source { options: &["-static"], ..Source::program("attached.c") }.compile();
    // Standard input ends after a second, and with it the program.
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 1 | \"$0\" profile -o \"$1\" -- \"$2\"", CONTEND, profile]).arg(&program);
    let outcome = run(command, HANG);
    if !outcome.succeeded() && outcome.stderr.contains("is linked statically") {
        println!("skipped: {}", outcome.stderr);
        return;
    }
    assert!(outcome.succeeded() && outcome.stderr.contains("take_static"), "{outcome}");
    assert!(!outcome.stderr.contains("contend predict"), "{outcome}");
    let report = json(&["report", profile, "--json"]);
    let rows = report["rows"].as_array().expect("rows");
    let mutex = rows.iter().find(|row| row["name"] == "attached_mutex").expect("the static's row");
    let waits = mutex["exclusive"]["contended"].as_u64().expect("a count");
    let counted =
        outcome.stdout.lines().find_map(|line| line.strip_prefix("attached_mutex ")).expect("printed");
    let counted: u64 = counted.trim().parse().expect("a number");
    assert!(waits > 10 && waits <= counted && 2 * waits >= counted, "{waits} of {counted} waits");
    let refused = run(contend(&["predict", profile]), HANG);
    assert!(!refused.succeeded() && refused.stdout.contains("attach"), "{refused}");
}

/// Compiles a Rust program of `tests/programs`; `optimised` is an option.
fn rust_program(name: &str, optimised: &str, directory: &Path) -> PathBuf {
    let program = directory.join(name);
    let mut compile = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.rs"));
    compile.args(["--edition", "2024", "-g", optimised, "-o"]).arg(&program).arg(source);
    let compiled = run(compile, HANG);
    assert!(compiled.succeeded(), "{compiled}");
    program
}

/// Where nothing is inlined, the release is in functions of Rust's own.
#[test]
fn waits_for_a_rust_lock_are_behind_the_function_that_held_it() {
    waits_are_behind_the_holder("-Copt-level=0");
}

#[test]
fn waits_for_a_rust_lock_are_behind_the_holder_whose_release_is_inlined() {
    waits_are_behind_the_holder("-O");
}

/// The program measures its own waits, and says which function made them long.
fn waits_are_behind_the_holder(optimised: &str) {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let program = rust_program("rust_holders", optimised, directory.path());
    let profile = directory.path().join("p.contend");
    let [program, profile] = [&program, &profile].map(|path| path.to_str().expect("a plain path"));
    let outcome = run(contend(&["profile", "-o", profile, "--", program]), HANG);
    let flat = outcome.stderr.replace('\n', " ");
    assert!(outcome.succeeded() && flat.contains("behind rust_holders::slow_rebalance"), "{outcome}");
    let measured_ns: f64 = outcome.stdout.trim().parse().expect("a number");
    let report = json(&["report", profile, "--json"]);
    let rows = report["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["name"].to_string().contains("TABLE")).expect("the mutex's row");
    let sum = |function: &str, what: &str| -> f64 {
        let sites = row["call_sites"].as_array().expect("call sites").iter();
        let of_function = sites.filter(|site| site["function"].to_string().contains(function));
        of_function.map(|site| site[what].as_f64().expect("a time")).sum()
    };
    let near = |seen: f64| (seen - measured_ns).abs() < 0.2 * measured_ns;
    assert!(near(sum("quick_lookup", "waited_ns")), "{measured_ns} ns\n{row:#}");
    assert!(near(sum("slow_rebalance", "behind_ns")), "{measured_ns} ns\n{row:#}");
    assert!(sum("quick_lookup", "behind_ns") < 0.2 * measured_ns, "{row:#}");
}

#[test]
fn a_rust_programs_own_locks_stand_beside_those_of_the_c_library() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let program = rust_program("rust_locks", "-O", directory.path());
    let profile = directory.path().join("p.contend");
    let [program, profile] = [&program, &profile].map(|path| path.to_str().expect("a plain path"));
    let outcome = run(contend(&["profile", "-o", profile, "--", program]), HANG);
    assert!(outcome.succeeded() && outcome.stderr.contains("by its calls of `syscall`"), "{outcome}");
    let report = json(&["report", profile, "--json"]);
    let rows = report["rows"].as_array().expect("rows");
    let counted = |name: &str| -> [f64; 2] {
        let line = outcome.stdout.lines().find_map(|line| line.strip_prefix(name)).expect("printed");
        let mut numbers = line.split_whitespace().map(|number| number.parse().expect("a number"));
        std::array::from_fn(|_| numbers.next().expect("two"))
    };
    let waits = |name: &str, mode: &str| -> [f64; 2] {
        let of_name: Vec<_> = rows.iter().filter(|row| row["name"].to_string().contains(name)).collect();
        let [row] = of_name[..] else { panic!("one row for {name}: {rows:#?}") };
        [&row[mode]["contended"], &row[mode]["wait"]["total_ns"]].map(|value| value.as_f64().expect("known"))
    };
    for (name, mode, told) in [
        ("RUST_MUTEX", "exclusive", "take_rust_mutex"),
        ("RUST_RWLOCK", "shared", "read_rust_rwlock"),
        ("C_MUTEX", "exclusive", "C_MUTEX"),
    ] {
        let ([count, ns], [told_count, told_ns]) = (waits(name, mode), counted(told));
        // The program does not count what was short, and on a busy machine there are few waits.
        let near = |seen: f64, told: f64, few: f64| (seen - told).abs() < (0.3 * told).max(few);
        assert!(
            near(count, told_count, 5.0) && near(ns, told_ns, 1e7),
            "{name}: {count}, {ns} ns\n{outcome}"
        );
    }
    let row = |name: &str| rows.iter().find(|row| row["name"].to_string().contains(name)).expect("its row");
    assert_eq!(row("C_MUTEX")["exclusive"]["acquisitions"], 60, "recorded once, from inside");
    assert_eq!(row("RUST_MUTEX")["exclusive"]["acquisitions"], Value::Null);
    assert_eq!((&report["header"]["attached"], &report["header"]["processes"]), (&Value::Null, &1.into()));
    let refused = run(contend(&["predict", profile]), HANG);
    let code = refused.status.and_then(|status| status.code());
    assert!(code == Some(3) && refused.stdout.contains("No forecast"), "{refused}");
}

/// The program is not the one that the command starts, and no Rust program is.
#[test]
fn locks_of_a_programs_child_have_rows() {
    locks_have_rows(&["sh", "-c", "\"$0\" --exact waits_at_a_mutex_of_parking_lot --ignored; true"]);
}

/// As in a container. The program has a number there that another process has here.
#[test]
fn locks_of_a_program_in_another_pid_namespace_have_rows() {
    let unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let mut probe = Command::new(unshare[0]);
    probe.args(&unshare[1..]).arg("true");
    if !probe.output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: this system lets no process enter a PID namespace");
    }
    let mut other = Command::new("sleep").arg("300").spawn().expect("another process");
    // Without the file, which some kernels do not have, the program has the next number.
    let next = format!("{{ echo {} > /proc/sys/kernel/ns_last_pid; }} 2>/dev/null", other.id() - 1);
    let run_it = format!("{next}; \"$0\" --exact waits_at_a_mutex_of_parking_lot --ignored; true");
    let outcome =
        std::panic::catch_unwind(|| locks_have_rows(&[&unshare[..], &["sh", "-c", &run_it]].concat()));
    let _ = other.kill();
    let _ = other.wait();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// Records a command that runs the program below, which is its last argument.
fn locks_have_rows(launcher: &[&str]) {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let profile = directory.path().join("p.contend");
    let profile = profile.to_str().expect("a plain path");
    let own = std::env::current_exe().expect("this program");
    let mut command = contend(&["profile", "-o", profile, "--"]);
    command.args(launcher).arg(own);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    let report = json(&["report", profile, "--json"]);
    let rows = report["rows"].as_array().expect("rows");
    let parked: Vec<_> = rows.iter().filter(|row| row["name"].to_string().contains("PARKED")).collect();
    let [row] = parked[..] else {
        panic!("one row of one lock, at which each thread has a futex: {rows:#?}")
    };
    let usage = &row["exclusive"];
    let waited_ns = usage["wait"]["total_ns"].as_f64().expect("known");
    assert!((1..=4).contains(&usage["contended"].as_u64().expect("known")) && waited_ns > 0.0, "{row:#}");
    assert_eq!((&row["kind"], &usage["acquisitions"]), (&"mutex".into(), &Value::Null), "{row:#}");
    let sites = row["call_sites"].as_array().expect("call sites");
    let is_holder = |site: &&Value| site["function"].to_string().contains("waits_at_a_mutex_of_parking_lot");
    let behind_ns: f64 = sites.iter().filter(is_holder).filter_map(|site| site["behind_ns"].as_f64()).sum();
    assert!(behind_ns > 0.5 * waited_ns, "{row:#}");
}

static PARKED: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

#[test]
#[ignore = "the program that another test records"]
fn waits_at_a_mutex_of_parking_lot() {
    let held = PARKED.lock();
    let begun = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                begun.fetch_add(1, Ordering::Relaxed);
                drop(PARKED.lock());
            });
        }
        while begun.load(Ordering::Relaxed) < 4 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(100)); // they sleep by then
        drop(held);
    });
}

#[test]
fn system_calls_by_the_c_librarys_function_stay_what_they_are() {
    let program = Source { options: &["-pthread"], ..Source::program("system_calls.c") }.compile();
    let plain = run(Command::new(&program), HANG);
    assert!(plain.succeeded(), "{plain}");
    let directory = tempfile::tempdir().expect("a place for the profile");
    let profile = directory.path().join("p.contend");
    let profile = profile.to_str().expect("a plain path");
    let program = program.to_str().expect("a plain path");
    let outcome = run(contend(&["profile", "-o", profile, "--", program]), HANG);
    assert!(outcome.succeeded() && outcome.stdout == plain.stdout, "{outcome}");
    let rows = json(&["report", profile, "--json"])["rows"].take();
    let rows = rows.as_array().expect("rows");
    let row = rows.iter().find(|row| row["name"] == "waited_for").unwrap_or_else(|| panic!("{rows:#?}"));
    assert_eq!(row["kind"], "futex", "{row:#}");
    // One that timed out, one in a signal handler and one in a child that shares the memory; EAGAIN is no sleep but a call that waits.
    assert_eq!(row["exclusive"]["condition_waits"], 4, "{row:#}");
}

#[test]
fn a_program_with_openmp_is_told_what_is_not_seen_of_it() {
    let directory = tempfile::tempdir().expect("a place for the profile");
    let profile = directory.path().join("p.contend");
    let profile = profile.to_str().expect("a plain path");
    let program = Source { options: &["-fopenmp"], ..Source::program("openmp.c") }.compile();
    let program = program.to_str().expect("a plain path");
    let outcome = run(contend(&["profile", "-o", profile, "--", program]), HANG);
    assert!(outcome.succeeded() && outcome.stdout.contains("1000 rounds"), "{outcome}");
    assert!(outcome.stderr.contains("critical sections and locks of OpenMP"), "{outcome}");
}

/// The profile is of a program whose `slowRebalance` holds a mutex for 2 ms, a hundred times, while another goroutine waits.
#[test]
fn a_go_programs_own_profile_has_a_table() {
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profiles/go-mutex.pb.gz");
    let rows = json(&["report", profile, "--json"])["rows"].take();
    let first = &rows[0];
    assert_eq!(
        (&first["way"], &first["function"]),
        (&"mutex".into(), &"main.slowRebalance".into()),
        "{rows:#}"
    );
    assert_eq!((&first["behind"], &first["waits"]), (&true.into(), &100.into()), "{rows:#}");
    let printed = run(contend(&["report", profile]), HANG);
    assert!(printed.succeeded() && printed.stdout.contains("main.slowRebalance"), "{printed}");
    let refused = run(contend(&["report", profile, "--html", "/dev/null"]), HANG);
    assert!(!refused.succeeded() && refused.stderr.contains("go tool pprof"), "{refused}");
}

/// The recording is of `programs/Monitors.java`, whose `quickLookup` waits for a monitor that another thread holds.
#[test]
fn a_recording_of_javas_has_a_table() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profiles/java-monitors.jfr");
    let report = json(&["report", recording, "--json"]);
    let rows = report["rows"].as_array().expect("rows");
    let monitor = rows.iter().find(|row| row["way"] == "monitor").expect("the monitor");
    assert_eq!(
        (&monitor["function"], &monitor["behind_thread"]),
        (&"Monitors.quickLookup".into(), &"rebalancer".into())
    );
    let printed = run(contend(&["report", recording]), HANG);
    assert!(printed.succeeded() && printed.stdout.contains("thread rebalancer"), "{printed}");
    let refused = run(contend(&["report", recording, "--pprof", "/dev/null"]), HANG);
    assert!(!refused.succeeded() && refused.stderr.contains("JDK Mission Control"), "{refused}");
}
