//! Profiles of real programs, held against what the programs know of themselves and against an independent count.

mod common;
#[path = "profile/hostile.rs"]
mod hostile;
#[path = "../crates/profile/tests/support/trace.rs"]
mod trace;

use common::{CONTEND, HANG, Source, contend, json, run};
use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Profiles a command line, the last words of `arguments`; gives what the program printed and the report.
fn profile(file: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (Value, Value) {
    let file = file.to_str().expect("a plain path");
    let mut command = contend(&["profile", "-q", "-o", file]);
    command.args(arguments).envs(variables.iter().copied());
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "contend profile {}: {outcome}", arguments.join(" "));
    let printed = serde_json::from_str(&outcome.stdout).expect("the program prints JSON");
    (printed, json(&["report", file, "--json"]))
}

/// Acquisitions for writing and for reading of a lock by its name in the program.
fn acquisitions(report: &Value, name: &str) -> [u64; 2] {
    let row = row(report, name);
    ["exclusive", "shared"].map(|side| row[side]["acquisitions"].as_u64().unwrap_or(0))
}

fn row<'a>(report: &'a Value, name: &str) -> &'a Value {
    let rows = report["rows"].as_array().expect("rows");
    let of_lock = |row: &&Value| row["name"].as_str().is_some_and(|found| found.starts_with(name));
    rows.iter().find(of_lock).unwrap_or_else(|| panic!("no row {name} in {report:#}"))
}

/// The locks of `injected.c` and their names in a profile. The one on the heap is named by the function that makes it;
/// `make_table_lock` counts as a wrapper of a lock, so that is its caller.
const NAMES: [(&str, &str); 4] = [
    ("hot_lock", "hot_lock"),
    ("cold_lock", "cold_lock"),
    ("table_lock", "main"),
    ("index_lock", "index_lock"),
];

fn printed_of<'a>(printed: &'a Value, name: &str) -> &'a Value {
    let locks = printed["locks"].as_array().expect("a list of locks");
    locks.iter().find(|lock| lock["name"] == name).expect("a lock that the program names")
}

#[test]
fn every_acquisition_is_counted_once_at_every_rate() {
    let program = Source::program("injected.c").compile();
    let program = program.to_str().expect("a plain path");
    let directory = tempfile::tempdir().expect("a place for profiles");
    for rate in ["1", "1/16"] {
        let file = directory.path().join("counts.contend");
        let workload =
            ["--sample", rate, "--", program, "4", "3000", "hot_lock=50,50", "index_lock=50,50,1,75"];
        let (printed, report) = profile(&file, &workload, &[]);
        for (own, profiled) in NAMES {
            let expected =
                ["writes", "reads"].map(|field| printed_of(&printed, own)[field].as_u64().unwrap());
            assert_eq!(acquisitions(&report, profiled), expected, "{own} at rate {rate}");
        }
    }
}

#[test]
fn an_independent_shim_counts_the_same() {
    let program = Source::program("injected.c").compile();
    let shim = Source { options: &["-shared", "-fPIC"], ..Source::program("count_shim.c") }.compile();
    let directory = tempfile::tempdir().expect("a place for profiles");
    let counts = directory.path().join("counts.json");
    let script = "LD_PRELOAD=\"$0:$LD_PRELOAD\" exec \"$@\"";
    let [shim, program] = [&shim, &program].map(|path| path.to_str().expect("a plain path"));
    let workload = ["--", "sh", "-c", script, shim, program, "3", "2000", "hot_lock=50,50"];
    let variables = [("COUNT_SHIM_OUT", counts.to_str().expect("a plain path"))];
    let (_, report) = profile(&directory.path().join("shim.contend"), &workload, &variables);

    let counted: Value = serde_json::from_str(&std::fs::read_to_string(&counts).expect("the shim's counts"))
        .expect("the shim writes JSON");
    let mut shims: Vec<[u64; 2]> = counted["locks"]
        .as_array()
        .expect("a list of locks")
        .iter()
        .filter(|lock| lock["acquisitions"].as_u64() > Some(0))
        .map(|lock| ["writes", "reads"].map(|field| lock[field].as_u64().expect("a count")))
        .collect();
    let mut ours = NAMES.map(|(_, profiled)| acquisitions(&report, profiled)).to_vec();
    shims.sort_unstable();
    ours.sort_unstable();
    // The program's team waits at a barrier of its own locks, which the shim sees too.
    assert!(ours.iter().all(|lock| shims.contains(lock)), "profiled {ours:?}, counted {shims:?}");
}

/// Signal handlers take locks at every instruction of other lock calls, and at every one of the recorder's that a
/// signal can reach; its counts are still the program's.
#[test]
fn a_handler_at_every_instruction_loses_no_count() {
    let program = Source::program("steps.c").compile();
    let directory = tempfile::tempdir().expect("a place for profiles");
    let file = directory.path().join("steps.contend");
    let file = file.to_str().expect("a plain path");
    let mut command = contend(&["profile", "-q", "-o", file, "--"]);
    command.arg(program);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "steps {outcome}");
    let report = json(&["report", file, "--json"]);
    assert_eq!(report["header"]["dropped"], 0);
    for line in outcome.stdout.lines().filter(|line| !line.starts_with("ok ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let printed: [u64; 2] = [words[1], words[2]].map(|count| count.parse().expect("a count"));
        assert_eq!(acquisitions(&report, words[0]), printed, "{line}");
    }
}

/// Runs of a program whose sections are to be held against their profile: as many as that until one is not disturbed.
const ATTEMPTS: usize = 20;

/// Not a test of speed: both sides are the same clock around the same section.
///
/// A thread that loses its core between the lock's clock and its own adds to the profile's side only, a time slice at once,
/// which makes the figure void. So the profile is never below what was injected, and in one run of some it is no more.
#[test]
fn hold_times_add_up_to_the_injected_sections() {
    const TOLERANCE: f64 = 0.05;
    let program = Source::program("injected.c").compile();
    let program = program.to_str().expect("a plain path");
    let directory = tempfile::tempdir().expect("a place for profiles");
    let workload = ["--", program, "2", "1500", "hot_lock=20000,2000,1", "index_lock=20000,2000,2,80"];
    let locks = ["hot_lock", "index_lock"];
    let mut excess = Vec::new();
    while excess.len() < ATTEMPTS && !excess.iter().any(|of: &[f64; 2]| of.iter().all(|&of| of < TOLERANCE)) {
        let (printed, report) = profile(&directory.path().join("holds.contend"), &workload, &[]);
        excess.push(locks.map(|name| held_ns(&report, name) / injected_ns(&printed, name) - 1.0));
        assert!(
            excess.iter().flatten().all(|&of| of > -TOLERANCE),
            "{locks:?}: the profile has less than was injected: {excess:?}"
        );
    }
    assert!(
        excess.last().is_some_and(|of| of.iter().all(|&of| of < TOLERANCE)),
        "{locks:?}: in every run the profile has more than was injected: {excess:?}"
    );
}

/// How long a lock was held, by the profile.
fn held_ns(report: &Value, name: &str) -> f64 {
    let row = row(report, name);
    let parts = [
        ("exclusive", "hold_same"),
        ("exclusive", "hold_other"),
        ("shared", "hold_same"),
        ("shared", "hold_other"),
    ];
    parts.iter().map(|&(side, part)| row[side][part]["total_ns"].as_f64().unwrap_or(0.0)).sum()
}

/// How long a lock was held, by the program.
fn injected_ns(printed: &Value, name: &str) -> f64 {
    printed_of(printed, name)["held_ns"].as_f64().expect("a time")
}

#[test]
fn a_profile_outlives_kill_9() {
    let program = Source::program("injected.c").compile();
    let directory = tempfile::tempdir().expect("a place for profiles");
    let file = directory.path().join("killed.contend");
    let file = file.to_str().expect("a plain path");
    let mut command = contend(&["profile", "-q", "-o", file, "--"]);
    command.arg(program).args(["2", "100000000", "hot_lock=1000,1000"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().expect("contend starts");
    let begun = Instant::now();
    // A live file can be read too; so wait until something is in it.
    loop {
        let outcome = run(contend(&["report", file, "--json"]), HANG);
        let report: Option<Value> = serde_json::from_str(&outcome.stdout).ok();
        let seen = report.is_some_and(|report| {
            report["rows"].as_array().is_some_and(|rows| {
                rows.iter().any(|row| row["exclusive"]["acquisitions"].as_u64() > Some(1000))
            })
        });
        if seen {
            break;
        }
        assert!(begun.elapsed() < HANG, "nothing was recorded: {outcome}");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: the group that this test made.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    child.wait().expect("the killed child is reaped");
    let report = json(&["report", file, "--json"]);
    let [written, _] = acquisitions(&report, "hot_lock");
    assert!(written > 1000, "{written} acquisitions survived");
}

/// A process that was broken into can write anything into the profile. The others go on, and so does the launcher, which says what
/// is wrong with the profile or shows it.
#[test]
fn a_forged_profile_harms_nobody() {
    let program = Source::program("forge.c").compile();
    let directory = tempfile::tempdir().expect("a place for profiles");
    let file = directory.path().join("forged.contend");
    for value in ["0", "0x1000", "0x40000000", "0xffffffffffffffff"] {
        let mut command = contend(&["profile", "-o", file.to_str().expect("a plain path"), "--"]);
        command.arg(&program).arg(value);
        let outcome = run(command, HANG);
        assert_eq!(outcome.stdout, "child 0, master lives\n", "{value}: {outcome}");
        let told = outcome.stderr.contains("forged.contend");
        assert!(outcome.status.is_some_and(|status| status.code().is_some()) && told, "{value}: {outcome}");
    }
}

/// What a server's worker can write to after it has become another user is not what root has mapped.
#[test]
fn who_gives_up_its_rights_leaves_the_profile() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return; // only root can become another user
    }
    let program = Source::program("forge.c").compile();
    let directory = tempfile::tempdir().expect("a place for profiles");
    let file = directory.path().join("left.contend");
    let file = file.to_str().expect("a plain path");
    let mut command = contend(&["profile", "-q", "-o", file, "--"]);
    command.arg(&program).args(["0xffffffffffffffff", "gives-up"]);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded() && outcome.stdout == "child 0, master lives\n", "{outcome}");
    let report = json(&["report", file, "--json"]);
    assert!(warned(&report, "gave up their user's rights"), "{report:#}");
    // The master's, and the child's up to then.
    let rows = report["rows"].as_array().expect("rows");
    let mut counts: Vec<_> =
        rows.iter().filter_map(|row| row["exclusive"]["acquisitions"].as_u64()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1000, 6000]);
}

/// With a filter that ends the program at every system call that neither it nor, by README, recording needs.
#[test]
fn a_sandboxed_program_is_recorded() {
    let program = Source::program("filtered.c").compile();
    let directory = tempfile::tempdir().expect("a place for profiles");
    let file = directory.path().join("filtered.contend");
    let file = file.to_str().expect("a plain path");
    let mut command = contend(&["profile", "-q", "-o", file, "--"]);
    command.arg(&program);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded() && outcome.stdout == "ok 800000\n", "{outcome}");
    assert_eq!(acquisitions(&json(&["report", file, "--json"]), "m"), [800_000, 0]);
}

#[test]
fn what_is_no_profile_is_named() {
    let directory = tempfile::tempdir().expect("a place for files");
    let file = directory.path().join("foreign.contend");
    std::fs::write(&file, "#!/bin/sh\n".repeat(1000)).expect("a file");
    let outcome = run(contend(&["report", file.to_str().expect("a plain path")]), HANG);
    assert!(!outcome.succeeded());
    assert!(outcome.stderr.contains("foreign.contend"), "{outcome}");
}

/// The report of `blocked.c` with this argument, as JSON and as people read it.
fn blocked(what: &str) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let program = Source::program("blocked.c").compile();
    let file = directory.path().join("p.contend");
    let mut command = contend(&["profile", "--quiet", "-o"]);
    command.arg(&file).arg("--").arg(program).arg(what);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    let text = run(contend(&["report", "--wide", file.to_str().unwrap()]), HANG);
    assert!(text.succeeded(), "{text}");
    (json(&["report", "--json", file.to_str().unwrap()]), text.stdout)
}

/// Time in ns that threads were blocked in this, by the report.
fn blocked_ns(report: &Value, part: &str) -> f64 {
    report["header"]["blocked"][part].as_f64().unwrap()
}

fn warned(report: &Value, of: &str) -> bool {
    let warnings = report["header"]["warnings"].as_array().unwrap();
    warnings.iter().any(|warning| warning.as_str().unwrap().contains(of))
}

#[test]
fn an_idle_pool_is_blocked_in_its_condition_waits() {
    let (report, text) = blocked("pool");
    // Eight workers, 400 ms each.
    assert!(blocked_ns(&report, "conditions_ns") > 2e9, "{text}");
    assert!(blocked_ns(&report, "futex_ns") < 0.1 * blocked_ns(&report, "conditions_ns"), "{text}");
    assert!(!warned(&report, "hardly ran together") && !warned(&report, "may have been"), "{text}");
}

#[test]
fn who_joins_a_worker_misses_no_wait() {
    let (report, text) = blocked("join");
    let joins = blocked_ns(&report, "joins_ns");
    assert!(joins > 0.0 && blocked_ns(&report, "futex_ns") < 0.1 * joins, "{text}");
    assert!(!warned(&report, "hardly ran together") && !warned(&report, "may have been"), "{text}");
    assert_eq!(report["header"]["threads"], 2, "{text}");
}

/// Threads sleep while they hold the lock: the sections take many times as long as the program's time on cores.
#[test]
fn no_share_is_more_than_all() {
    let (report, text) = blocked("inside");
    let share = row(&report, "result_lock")["share"].as_f64().unwrap();
    assert!((0.3..=1.0).contains(&share), "{text}");
}

/// Who does not hold a mutex neither unlocks it nor waits with it for a condition, and has not become its last holder by that.
#[test]
fn an_unlock_that_is_refused_is_no_release() {
    let program = Source::program("refused.c").compile();
    let program = program.to_str().expect("a plain path");
    let directory = tempfile::tempdir().expect("a place for profiles");
    let file = directory.path().join("refused.contend");
    let (printed, report) = profile(&file, &["--sample", "1", "--", program], &[]);
    let rounds = printed["rounds"].as_u64().expect("a number");
    for name in ["checked_mutex", "recursive_mutex"] {
        let row = row(&report, name);
        let counted = ["acquisitions", "owner_changes"].map(|what| row["exclusive"][what].as_u64());
        assert_eq!(counted, [Some(rounds + 1), Some(1)], "the second thread has it once, at first: {row:#}");
        assert_eq!(row["by_hooks"], false, "{row:#}");
    }
}

#[test]
fn rows_of_several_processes_say_which() {
    let (report, text) = blocked("processes");
    let rows = report["rows"].as_array().unwrap();
    let pids: Vec<_> = rows.iter().map(|row| row["pid"].to_string()).collect();
    assert_eq!((pids.len(), pids[0] == pids[1]), (2, false), "{text}");
    for pid in pids {
        assert!(text.lines().any(|line| line.starts_with("result_lock") && line.contains(&pid)), "{text}");
    }
    let (_, one) = blocked("join");
    let header = one.lines().find(|line| line.starts_with("lock ")).unwrap();
    assert!(header.split_whitespace().nth(1) == Some("use") || header.contains("first touched"), "{one}");
}

#[test]
fn profiles_are_added_up_by_the_names_of_locks() {
    let program = Source::program("injected.c").compile();
    let directory = tempfile::tempdir().expect("a place for profiles");
    let files = ["1", "2", "3"].map(|threads| directory.path().join(format!("{threads}.contend")));
    let alone: Vec<Value> = (1..)
        .zip(&files)
        .map(|(threads, file)| {
            let threads = threads.to_string();
            profile(file, &["--", program.to_str().expect("a plain path"), &threads, "500"], &[]).1
        })
        .collect();
    let files = files.each_ref().map(|file| file.to_str().expect("a plain path"));
    let arguments = |more: &[&'static str]| {
        ["report"].into_iter().chain(files).chain(more.iter().copied()).collect::<Vec<_>>()
    };
    let sum = json(&arguments(&["--json"]));
    for (_, name) in NAMES {
        let each = alone.iter().map(|report| acquisitions(report, name));
        let expected = each.reduce(|[a, b], [c, d]| [a + c, b + d]).expect("three of them");
        assert_eq!(acquisitions(&sum, name), expected, "{name}");
        assert_eq!(row(&sum, name)["pid"], 0);
    }
    let elapsed = |report: &Value| report["header"]["elapsed_ns"].as_f64().expect("a time");
    assert!((elapsed(&sum) / alone.iter().map(elapsed).sum::<f64>() - 1.0).abs() < 1e-9);
    let text = run(contend(&arguments(&["--wide"])), HANG);
    assert!(text.succeeded() && text.stdout.contains("\n3 profiles, added up.\n"), "{text}");
    let page = directory.path().join("all.html");
    let mut command = contend(&arguments(&[]));
    command.arg("--html").arg(&page);
    assert!(run(command, HANG).succeeded() && page.is_file());

    for (more, words) in [(&["--timeline", "t.json"], "one profile"), (&["--ops", "100"], "one profile")] {
        let refused = run(contend(&arguments(more)), HANG);
        assert_eq!(refused.status.and_then(|status| status.code()), Some(2), "{refused}");
        assert!(refused.stderr.replace('\n', " ").contains(words), "{refused}");
    }
    let missing = run(contend(&["report", files[0], "nosuch.contend"]), HANG);
    assert!(!missing.succeeded() && missing.stderr.contains("nosuch.contend"), "{missing}");
}

/// What was recorded without an end: nothing is in two intervals, and nothing in none.
#[test]
fn intervals_of_a_program_that_runs_on_add_up_to_the_whole() {
    const CODE: &str = r"
        #include <pthread.h>
        #include <time.h>
        #include <unistd.h>
        static pthread_mutex_t early = PTHREAD_MUTEX_INITIALIZER, late = PTHREAD_MUTEX_INITIALIZER;
        static double now(void) {
            struct timespec t;
            clock_gettime(CLOCK_MONOTONIC, &t);
            return t.tv_sec + t.tv_nsec * 1e-9;
        }
        static void *work(void *start) {
            for (;;) {
                double passed = now() - *(double *)start;
                if (passed > 3.3) return 0;
                pthread_mutex_t *lock = passed > 1.5 ? &late : &early;
                for (int i = 0; i < 1000; i++) { pthread_mutex_lock(lock); pthread_mutex_unlock(lock); }
                usleep(1000);
            }
        }
        int main(void) {
            double start = now();
            pthread_t threads[2];
            for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &start);
            for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
        }";
    let directory = tempfile::tempdir().expect("a place");
    let (source, program) = (directory.path().join("p.c"), directory.path().join("p"));
    std::fs::write(&source, CODE).expect("the source is written");
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(run(compile, HANG).succeeded());
    let whole = directory.path().join("x.contend");
    let mut command = contend(&["profile", "-q", "--always-on", "--interval", "1s", "-o"]);
    command.arg(&whole).arg("--").arg(&program);
    let ran = run(command, HANG);
    assert!(
        ran.succeeded() && ran.stderr.replace('\n', " ").contains("of the program's time on cores"),
        "{ran}"
    );
    let report = json(&["report", whole.to_str().expect("a plain path"), "--json"]);

    let entries = std::fs::read_dir(directory.path()).expect("the place").flatten();
    let mut files: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains("x-2")).collect();
    files.sort();
    assert!((3..=5).contains(&files.len()), "{files:?}");
    let files: Vec<&str> = files.iter().map(|path| path.to_str().expect("a plain path")).collect();
    let sum =
        json(&["report"].into_iter().chain(files.iter().copied()).chain(["--json"]).collect::<Vec<_>>());
    for name in ["early", "late"] {
        assert_eq!(acquisitions(&sum, name), acquisitions(&report, name), "{name}");
    }
    let header = &sum["header"];
    assert_eq!((&header["processes"], &header["threads"]), (&1.into(), &2.into()), "{header}");
    let elapsed = |report: &Value| report["header"]["elapsed_ns"].as_f64().expect("a time");
    assert!((elapsed(&sum) / elapsed(&report) - 1.0).abs() < 0.1);
    // A lock is in the intervals in which it was taken.
    let [first, last] = [files[0], files[files.len() - 1]].map(|file| json(&["report", file, "--json"]));
    for (report, name) in [(first, "early"), (last, "late")] {
        let rows = report["rows"].as_array().expect("rows");
        assert_eq!(rows.iter().map(|row| &row["name"]).collect::<Vec<_>>(), [name]);
    }
}

/// Rust's locks call the kernel themselves: a profile of them has no row, and says where the time went.
#[test]
fn a_program_without_recorded_locks_is_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("p.rs"), directory.path().join("p"));
    let code = "use std::{sync::{Arc, Mutex}, thread, time::Duration};
        fn main() {
            let lock = Arc::new(Mutex::new(0));
            let work = |lock: Arc<Mutex<i32>>| for _ in 0..3 {
                let mut held = lock.lock().unwrap();
                thread::sleep(Duration::from_millis(100));
                *held += 1;
            };
            let threads = [0; 3].map(|_| { let lock = lock.clone(); thread::spawn(move || work(lock)) });
            threads.map(|thread| thread.join().unwrap());
        }";
    std::fs::write(&source, code).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(rustc);
    compile.arg("-o").arg(&program).arg(&source);
    let outcome = run(compile, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    let file = directory.path().join("p.contend");
    let mut command = contend(&["profile", "-o"]);
    command.arg(&file).arg("--").arg(program);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    let printed = outcome.stderr;
    // Where the kernel shows who sleeps, waits count for what no pthread function saw.
    let told = ["No thread called a pthread lock function", "Of locks that are no pthread's"];
    assert!(told.iter().any(|told| printed.contains(told)), "{printed}");
    assert!(!printed.contains("0 threads") && !printed.contains("-0.0"), "{printed}");
    assert!(printed.contains("joining threads"), "{printed}");
    assert!(printed.contains("is a Rust program") && printed.contains("contend_recorded"), "{printed}");
}

/// A stripped program with locks on the heap: every run gives the same lock the same name, whatever thread comes first, and
/// differences compare each with itself.
#[test]
fn identical_runs_name_the_locks_of_a_stripped_program_alike() {
    let program = Source { options: &["-s"], ..Source::program("heap_locks.c") }.compile();
    let directory = tempfile::tempdir().unwrap();
    for made_by in ["0", "1"] {
        let files = ["first", "second", "third"].map(|name| directory.path().join(name));
        let named = files.each_ref().map(|file| {
            let mut command = contend(&["profile", "--quiet", "-o", file.to_str().unwrap(), "--"]);
            command.arg(&program).arg(made_by);
            let outcome = run(command, HANG);
            assert!(outcome.succeeded(), "{outcome}");
            let report = json(&["report", "--json", file.to_str().unwrap()]);
            let rows = report["rows"].as_array().unwrap();
            let of_row = |row: &Value| {
                let taken = ["exclusive", "shared"].map(|mode| row[mode]["acquisitions"].as_u64());
                (row["kind"].to_string(), row["name"].to_string(), taken)
            };
            let mut named: Vec<_> = rows.iter().map(of_row).collect();
            named.sort();
            named
        });
        assert_eq!(named[0].len(), 18);
        assert_eq!(named[0], named[1]);
        assert_eq!(named[0], named[2]);
        let [before, after] = [&files[0], &files[1]].map(|file| file.to_str().unwrap());
        let changes = json(&["diff", "--json", before, after]);
        let locks = changes["locks"].as_array().unwrap();
        let acquired = |lock: &Value, side: &str| lock[side]["acquisitions"].as_f64().unwrap() > 0.0;
        assert_eq!(
            locks.len(),
            3,
            "a mutex, a reader-writer lock and a spin lock, each made by one call: {changes}"
        );
        assert!(locks.iter().all(|lock| acquired(lock, "before") && acquired(lock, "after")), "{changes}");
    }
}

/// Whatever the names are like, a line is a stack and a number, and the numbers are the report's.
#[test]
fn folded_stacks_have_the_figures_of_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let [file, folded] = ["p.contend", "p.folded"].map(|name| directory.path().join(name));
    let [file, folded] = [&file, &folded].map(|path| path.to_str().expect("a plain path"));
    let program = Source::program("odd_names.c").compile();
    let profiled = run(contend(&["profile", "-q", "-o", file, "--", program.to_str().unwrap()]), HANG);
    assert!(profiled.succeeded(), "{profiled}");
    let report = json(&["report", file, "--json", "--folded", folded]);
    let odd = row(&report, "odd;lock 7");
    // Three threads sleep inside for most of their lives.
    assert!(odd["exclusive"]["contended"].as_u64() > Some(0), "{report:#}");
    for (of, expected) in [
        ("waiting", odd["exclusive"]["wait"]["total_ns"].as_f64().unwrap().round()),
        ("contended", odd["exclusive"]["contended"].as_f64().unwrap()),
    ] {
        json(&["report", file, "--json", "--folded", folded, "--folded-of", of]);
        let written = std::fs::read_to_string(folded).unwrap();
        let lines: Vec<_> = written.lines().filter(|line| line.contains("odd:lock_7 ")).collect();
        let mut sum = 0.0;
        for line in &lines {
            let (stack, weight) = line.rsplit_once(' ').unwrap();
            let frames: Vec<_> = stack.split(';').collect();
            assert_eq!(frames.last(), Some(&"odd:lock_7"), "{written}");
            assert!(frames.iter().any(|frame| frame.contains("take:the")), "{written}");
            sum += weight.parse::<f64>().unwrap();
        }
        assert_eq!(sum, expected, "{of}: {written}");
    }
}

#[test]
fn a_library_in_the_place_of_another_gives_its_name_to_no_lock_of_that_one() {
    let program = Source::program("reloaded.c").compile();
    let plugin = |lock: &str| {
        let options = &["-shared", "-fPIC", lock];
        Source { options, ..Source::program("reloaded_plugin.c") }.compile()
    };
    let plugins = ["-DLOCK=first_lock", "-DLOCK=second_lock"].map(plugin);
    let directory = tempfile::tempdir().expect("a place for profiles");
    let [program, first, second] =
        [&program, &plugins[0], &plugins[1]].map(|path| path.to_str().expect("a plain path"));
    let recorded = |name: &str, plugins: &[&str]| {
        let file = directory.path().join(name);
        profile(&file, &[&["--", program], plugins].concat(), &[])
    };
    let (_, alone) = recorded("alone.contend", &[first, first]);
    assert_eq!(acquisitions(&alone, "first_lock"), [200, 0], "it is the same library");
    // 8 KB for each time, where the mappings are written again.
    recorded("often.contend", &[first; 1_000]);
    let bytes = std::fs::metadata(directory.path().join("often.contend")).expect("the profile").len();
    assert!(bytes < 4 << 20, "{bytes} bytes");
    let (addresses, report) = recorded("reloaded.contend", &[first, second]);
    assert_eq!(addresses[0], addresses[1], "the kernel maps the second one where the first one was");
    assert_eq!(acquisitions(&report, addresses[0].as_str().expect("an address")), [200, 0]);
    let warnings = report["header"]["warnings"].as_array().expect("warnings");
    let tells = |said: &Value| {
        said.as_str().is_some_and(|said| said.contains("at the same addresses (reloaded_plugin-"))
    };
    assert!(warnings.iter().any(tells), "{warnings:?}");
}

#[test]
fn a_lock_is_waited_for_in_one_function_behind_another() {
    for options in [&["-O2"][..], &["-O0"]] {
        let program = Source { options, ..Source::program("call_sites.cc") }.compile();
        let directory = tempfile::tempdir().expect("a place for a profile");
        let file = directory.path().join("sites.contend");
        let program = program.to_str().expect("a plain path");
        let (_, report) = profile(&file, &["--", program], &[]);
        let sites = row(&report, "table_lock")["call_sites"].as_array().expect("call sites").clone();
        let of = |function: &str, what: &str| -> f64 {
            let named =
                sites.iter().filter(|site| site["function"].as_str().is_some_and(|f| f.contains(function)));
            named.map(|site| site[what].as_f64().expect("a number")).sum()
        };
        let all = |what| -> f64 { sites.iter().map(|site| site[what].as_f64().expect("a number")).sum() };
        let shown = format!("{options:?}: {sites:#?}");
        let (waited, behind) = (of("quick_lookup", "waited_ns"), of("slow_rebalance", "behind_ns"));
        assert!(waited > 0.0 && behind > 0.0, "{shown}");
        assert!(options == ["-O0"] || (0.9..1.1).contains(&(behind / waited)), "{shown}");
        assert!(all("behind_ns") > 0.9 * all("waited_ns"), "{shown}");
        assert!(of("slow_rebalance", "held_ns") > 25.0 * 4e6, "{shown}");
        let text = run(contend(&["report", file.to_str().expect("a plain path")]), HANG);
        let told = text.stdout.replace('\n', " ");
        assert!(told.contains("Waits for table_lock: "), "{text}");
        // Without optimisation both call one wrapper.
        let (waiting, holding) = ("quick_lookup (call_sites.cc:13)", "slow_rebalance (call_sites.cc:18)");
        assert!(told.contains(&format!(" in {waiting}")), "{text}");
        assert!(told.contains(&format!(" behind {holding}, held ")), "{text}");

        let folded = directory.path().join("sites.folded");
        let folded = folded.to_str().expect("a plain path");
        let all_ns: f64 = sites.iter().map(|site| site["behind_ns"].as_f64().expect("ns").round()).sum();
        json(&["report", file.to_str().unwrap(), "--json", "--folded", folded, "--folded-of", "behind"]);
        let written = std::fs::read_to_string(folded).expect("folded stacks");
        let mut held_behind_ns = 0.0;
        for line in written.lines() {
            let (stack, weight) = line.rsplit_once(' ').expect("a weight");
            let [.., taken_in, "table_lock"] = stack.split(';').collect::<Vec<_>>()[..] else {
                panic!("the lock above who took it: {written}")
            };
            held_behind_ns += weight.parse::<f64>().expect("ns");
            assert!(["quick_lookup", "slow_rebalance"].contains(&taken_in), "{written}");
        }
        assert!((held_behind_ns - all_ns).abs() <= 1.0, "{written}");
    }
}

#[test]
fn a_wrapper_that_is_not_inlined_is_seen_through() {
    for option in ["-O2", "-O0"] {
        let program = Source { options: &[option], ..Source::program("wrapped.c") }.compile();
        let directory = tempfile::tempdir().expect("a place for a profile");
        let [file, folded] = ["wrapped.contend", "wrapped.folded"].map(|name| directory.path().join(name));
        let [file, folded] = [&file, &folded].map(|path| path.to_str().expect("a plain path"));
        let program = program.to_str().expect("a plain path");
        let (_, report) = profile(Path::new(file), &["--", program], &[]);
        let sites = row(&report, "table_lock")["call_sites"].as_array().expect("call sites").clone();
        let shown = format!("{option}: {sites:#?}");
        let number = |site: &Value, what: &str| site[what].as_f64().expect("a number");
        let of = |function: &str, what: &str| -> f64 {
            sites.iter().filter(|site| site["function"] == function).map(|site| number(site, what)).sum()
        };
        let all = |what: &str| -> f64 { sites.iter().map(|site| number(site, what)).sum() };
        let [quick, slow] = ["quick_lookup", "slow_rebalance"].map(|function| of(function, "waited_ns"));
        assert!(quick > 0.0 && quick + slow > 0.99 * all("waited_ns"), "{shown}");
        assert!(of("slow_rebalance", "behind_ns") > 0.9 * quick, "{shown}");
        assert!(of("slow_rebalance", "held_ns") / of("slow_rebalance", "holds") > 4e6, "{shown}");
        let slow = sites.iter().find(|site| site["function"] == "slow_rebalance").expect("it is waited for");
        assert!(slow["while_held"]["sleeping_ns"].as_f64() > Some(25.0 * 3e6), "{shown}");
        json(&["report", file, "--json", "--folded", folded]);
        let written = std::fs::read_to_string(folded).expect("folded stacks");
        let lookups: Vec<_> = written.lines().filter(|line| line.contains("quick_lookup")).collect();
        let is_of_request = |line: &&str| {
            ["login", "search"]
                .iter()
                .any(|of| line.contains(&format!(";main;handle_{of};quick_lookup;table_lock ")))
        };
        assert!(!lookups.is_empty() && lookups.iter().all(is_of_request), "{option}: {written}");
    }
}

#[test]
fn the_longest_waits_are_drawn_behind_the_holds_that_they_were_for() {
    for option in ["-O2", "-O0"] {
        let program = Source { options: &[option], ..Source::program("slow_holder.c") }.compile();
        let program = program.to_str().expect("a plain path");
        let directory = tempfile::tempdir().expect("a place for a profile");
        let [file, drawn] = ["waits.contend", "waits.json"].map(|name| directory.path().join(name));
        let drawn = drawn.to_str().expect("a plain path");
        let (_, report) = profile(&file, &["--timeline", "--", program], &[]);
        // Two of the three waits end with a release in `quick_lookup`, and were for the same hold as the first.
        let sites = row(&report, "table_lock")["call_sites"].as_array().expect("call sites");
        let behind_ns = |site: &Value| site["behind_ns"].as_f64().expect("ns");
        let all_ns: f64 = sites.iter().map(behind_ns).sum();
        let of_slow =
            sites.iter().filter(|site| site["function"].as_str().is_some_and(|f| f.contains("slow")));
        assert!(of_slow.map(behind_ns).sum::<f64>() > 0.95 * all_ns, "{option}: {sites:#?}");
        json(&["report", file.to_str().expect("a plain path"), "--json", "--timeline", drawn]);
        let told = run(contend(&["report", file.to_str().expect("a plain path")]), HANG).stdout;
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, longest) = told.split_once("The longest waits: ").expect("they are told");
        assert!(longest.contains(" for table_lock in quick_lookup"), "{option}: {told}");
        assert!(
            longest.contains(" in slow_rebalance") && longest.contains(", which held it for "),
            "{option}: {told}"
        );
        let written = std::fs::read_to_string(drawn).expect("a trace");
        let drawn: Value = serde_json::from_str(&written).expect("JSON");
        trace::check(&drawn);
        let lasts_ns = |span: &Value| trace::times_ns(span).1 - trace::times_ns(span).0;
        let waits = trace::spans(&drawn, "wait");
        assert!((1..=3).contains(&waits.len()), "{option}: {drawn:#}");
        let longest = waits.into_iter().max_by_key(|wait| lasts_ns(wait)).expect("it waited");
        let (arguments, shown) = (&longest["args"], format!("{option}: {longest:#}"));
        assert!(longest["name"] == "wait for table_lock" && lasts_ns(longest) > 20_000_000, "{shown}");
        let elapsed_ns = report["header"]["elapsed_ns"].as_f64().expect("a time");
        // The trace begins with the recording, a little before the program.
        assert!(trace::times_ns(longest).1 as f64 <= elapsed_ns + 1e9, "{shown}");
        let has = |stack: &Value, function: &str| {
            let calls = stack.as_array().unwrap_or_else(|| panic!("no stack: {shown}"));
            calls.iter().any(|call| call.as_str().is_some_and(|call| call.starts_with(function)))
        };
        assert!(arguments["function"] == "quick_lookup" && has(&arguments["stack"], "look_up"), "{shown}");
        let behind = &arguments["behind"];
        assert_eq!(behind["function"], "slow_rebalance", "{shown}");
        assert!(has(&behind["stack"], "rebalance"), "{shown}");
        let flows = trace::flows(&drawn);
        let (hold, _) = flows.iter().find(|(_, wait)| *wait == longest).expect("a flow to the wait");
        assert_eq!(hold["args"]["function"], "slow_rebalance", "{shown}");
        assert!(trace::track(hold) != trace::track(longest), "{shown}");
    }
}

#[test]
fn a_profile_without_single_waits_says_how_they_are_kept() {
    let program = Source::program("slow_holder.c").compile();
    let directory = tempfile::tempdir().expect("a place for a profile");
    let file = directory.path().join("sums.contend");
    profile(&file, &["--", program.to_str().expect("a plain path"), "1"], &[]);
    let outcome = run(
        contend(&["report", file.to_str().expect("a plain path"), "--timeline", "/nowhere/waits.json"]),
        HANG,
    );
    assert_eq!(outcome.status.and_then(|status| status.code()), Some(2), "{outcome}");
    assert!(outcome.stderr.contains("contend profile --timeline"), "{outcome}");
}

/// Where a file may grow to, in the blocks of the shell's `ulimit`, some size has space for the locks and none for single waits.
#[test]
fn waits_without_space_are_not_said_to_be_none() {
    let program = Source::program("slow_holder.c").compile();
    let place = tempfile::tempdir().expect("a place for profiles");
    let reported = |blocks: u32| {
        let mut command = Command::new("sh");
        let line = format!(
            "(ulimit -f {blocks}; {CONTEND} profile -q --timeline -o {blocks}.contend -- {} 1 > /dev/null; \
             {CONTEND} report {blocks}.contend --timeline {blocks}.json > /dev/null) 2>&1 | cat",
            program.display()
        );
        command.args(["-c", &line]).current_dir(place.path());
        run(command, HANG).stdout
    };
    let all: Vec<String> = (1..=10).map(|size| reported(16 * size)).collect();
    assert!(all.iter().any(|said| said.contains("had no space for single waits")), "{all:#?}");
}

/// Many locks of an array, and many that one call made, are one row each, which says which of them is waited for; and can be swapped by
/// the name of that row.
#[test]
fn striped_locks_are_one_row() {
    for (options, array, hot) in
        [(&["-O2"][..], "shards[*].lock", "shards[3].lock"), (&["-g0"][..], "shards+*", "shards+0x")]
    {
        let program = Source { options, ..Source::program("striped.cc") }.compile();
        let directory = tempfile::tempdir().expect("a place for a profile");
        let file = directory.path().join("striped.contend");
        let program = program.to_str().expect("a plain path");
        let (_, report) = profile(&file, &["--", program], &[]);
        let file = file.to_str().expect("a plain path");
        let text = |more: &[&str]| {
            run(contend(&[&["report", "--wide", file], more].concat()), HANG).stdout.replace('\n', " ")
        };
        let (folded, unfolded) = (text(&[]), text(&["--unfold", "--top", "0"]));
        assert_eq!(report["rows"].as_array().map(Vec::len), Some(32), "{report:#}");
        for (name, worst) in [(array, hot), ("make_bucket#*", "make_bucket#4")] {
            let striped = report["striped"].as_array().expect("striped locks").iter();
            let one = striped.clone().find(|one| one["row"]["name"] == name).expect(name);
            assert_eq!((&one["locks"], &one["row"]["threads"]), (&16.into(), &2.into()), "{one:#}");
            // Twenty rounds of one of them, and each of both threads once.
            assert_eq!(one["row"]["exclusive"]["acquisitions"], 20 * 2 + 16 * 2, "{one:#}");
            assert_eq!(folded.matches(&format!("{name} (16 locks)")).count(), 1, "{folded}");
            assert!(folded.contains(&format!("{name} stands for 16 locks; {worst}")), "{folded}");
            assert!(!unfolded.contains(name) && unfolded.contains(worst), "{unfolded}");
            let only = format!("{name}=mcs");
            let swapped = run(contend(&["run", "--profile", file, "--only", &only, "--", program]), HANG);
            assert!(swapped.succeeded() && !swapped.stderr.contains("matched"), "{swapped}");
        }
    }
}

/// The part of the timed holds of a lock in which its holders did this, 0 to 1.
fn held_share(report: &Value, name: &str, part: &str) -> f64 {
    let held = &row(report, name)["exclusive"]["while_held"];
    let ns = |part: &str| held[part].as_f64().unwrap_or_else(|| panic!("no {part} of {name}: {held}"));
    let total: f64 = ["running_ns", "preempted_ns", "sleeping_ns", "waiting_ns"].into_iter().map(ns).sum();
    ns(part) / total
}

#[test]
fn why_a_holder_was_slow_is_told() {
    let program = Source::program("holders.c").compile();
    let directory = tempfile::tempdir().expect("a place for profiles");
    let file = directory.path().join("holders.contend");
    let (printed, report) = profile(&file, &["--", program.to_str().expect("a plain path")], &[]);
    if row(&report, "running_lock")["exclusive"]["while_held"].is_null() {
        eprintln!("skipped: this kernel or C library does not tell threads that they left their cores");
        return;
    }
    let share = |name: &str, part: &str| held_share(&report, name, part);
    assert!(share("sleeping_lock", "sleeping_ns") > 0.8, "{report:#}");
    assert!(share("waiting_lock", "waiting_ns") > 0.6, "{report:#}");
    let waiting = row(&report, "waiting_lock")["call_sites"].as_array().expect("call sites");
    assert!(waiting.iter().any(|site| site["waiting_for"] == "inner_lock"), "{waiting:#?}");
    // What the program knows by itself of the two that others may disturb.
    let [running, preempted] = ["running", "preempted"].map(|what| printed[what].as_f64().expect("a share"));
    let [ran, lost] = [share("running_lock", "running_ns"), share("preempted_lock", "preempted_ns")];
    assert!((ran - running).abs() < 0.1, "{ran}, and the program says {running}");
    assert!((lost - preempted).abs() < 0.1, "{lost}, and the program says {preempted}");
    assert!(lost > 0.25, "{lost} of the time on a core that three threads share");
}

/// The time for which the kernel kept threads of this name off their cores while they could run, and while they could not, in ns; of a
/// trace of `sched_switch`.
fn off_core(trace: &str, name: &str) -> [f64; 2] {
    let (mut off, mut left) = ([0.0; 2], None);
    for line in trace.lines() {
        let Some((head, event)) = line.split_once(": sched_switch: ") else { continue };
        let seconds = head.rsplit(' ').next().and_then(|time| time.parse::<f64>().ok()).expect("a time");
        if event.contains(&format!("prev_comm={name} ")) {
            left = Some((seconds, usize::from(!event.contains("prev_state=R"))));
        } else if let Some((from, state)) = left.take() {
            off[state] += (seconds - from) * 1e9;
        }
    }
    off
}

/// What contend learns from restartable sequences and counters of switches, beside the events of the kernel's scheduler.
#[test]
fn preempted_time_is_what_the_scheduler_says() {
    const TRACED: &str = r#"
        mkdir t && mount -t tracefs none t && cd t/instances && mkdir "$NAME" && cd "$NAME" && echo mono >trace_clock &&
            echo "prev_comm == \"$NAME\" || next_comm == \"$NAME\"" >events/sched/sched_switch/filter &&
            echo 1 >events/sched/sched_switch/enable || exit 77
        "$@"; code=$?
        echo 0 >events/sched/sched_switch/enable; cat trace >"$TRACE"; cd ..; rmdir "$NAME"
        exit $code"#;
    let name = format!("held-{}", std::process::id());
    let program = Source::program("holders.c").compile();
    let directory = tempfile::tempdir().expect("a place for profiles");
    let [file, trace] = ["holders.contend", "trace"].map(|name| directory.path().join(name));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", TRACED, "sh"]).arg(contend(&[]).get_program());
    command.args(["profile", "-q", "-o"]).arg(&file).arg("--").arg(program).arg(&name);
    command.current_dir(directory.path()).env("TRACE", &trace).env("NAME", &name);
    let outcome = run(command, HANG);
    if outcome.status.and_then(|status| status.code()) == Some(77) || outcome.stderr.starts_with("unshare: ")
    {
        return eprintln!(
            "skipped: no events of the scheduler without root's rights and tracefs: {}",
            outcome.stderr
        );
    }
    assert!(outcome.succeeded(), "{outcome}");
    let report = json(&["report", "--json", file.to_str().expect("a plain path")]);
    let held = &row(&report, "preempted_lock")["exclusive"]["while_held"];
    if held.is_null() {
        return eprintln!(
            "skipped: this kernel or C library does not tell threads that they left their cores"
        );
    }
    let ns = |part: &str| held[part].as_f64().expect("a time");
    let trace = std::fs::read_to_string(&trace).expect("the trace");
    let total = ns("running_ns") + ns("preempted_ns") + ns("sleeping_ns") + ns("waiting_ns");
    let [preempted, slept] = off_core(&trace, &name);
    for (of_kernel, part) in [(preempted, "preempted_ns"), (slept, "sleeping_ns")] {
        let ours = ns(part);
        assert!(
            (of_kernel - ours).abs() < 0.1 * total,
            "{part} {ours}, and the kernel says {of_kernel}, of {total}"
        );
    }
    assert!(preempted > 0.25 * total, "{preempted} of {total} on a core that three threads share");
}
