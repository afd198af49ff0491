//! `contend gate` as continuous integration runs it. None of these tests depends on whether the machine is at rest: gates judge all the
//! same, but for those beside a program that keeps a core busy.

mod common;

use common::{CONTEND, HANG, Outcome, Source, contend, run, send};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

/// Judge, however busy the machine is.
const ALWAYS: [&str; 2] = ["--noise-limit", "100%"];

/// The fewest runs that there may be.
const FEW: [&str; 4] = ["--runs", "5", "--threads", "1,4"];

fn gate(arguments: &[&str]) -> Outcome {
    run(contend(&[&["gate"], arguments].concat()), HANG)
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

/// The first of the cores that these tests may use, and a program that does nothing but use it until this is dropped.
struct BusyCore {
    core: String,
    program: Child,
}

impl BusyCore {
    fn new() -> Self {
        let status = fs::read_to_string("/proc/self/status").expect("the kernel tells of this process");
        let allowed =
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("its cores");
        let core = allowed.trim().split([',', '-']).next().expect("a core").to_owned();
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &core, "sh", "-c", "while :; do :; done"]);
        Self { program: command.spawn().expect("taskset starts"), core }
    }
}

impl Drop for BusyCore {
    fn drop(&mut self) {
        self.program.kill().expect("it runs");
        self.program.wait().expect("it ends");
    }
}

/// Gates two shell scripts by the number that they print.
fn gate_scripts(more: &[&str], base: &str, candidate: &str) -> Outcome {
    let metric = ["--metric", "ops: ([0-9]+)"];
    let commands = ["--base", "sh", "-c", base, "--", "sh", "-c", candidate];
    gate(&[&FEW[..], &ALWAYS, &metric, more, &commands].concat())
}

const SCALES: &str = "echo ops: $((100 * {threads}))";
const STOPS_SCALING: &str = "echo ops: $((50 + 50 * {threads}))";

#[test]
fn what_scales_worse_fails_and_what_does_not_passes() {
    for (candidate, scaling, verdict, expected) in
        [(SCALES, 4.0, "pass", ("passed", 0)), (STOPS_SCALING, 2.5, "worse", ("worse", 1))]
    {
        let outcome = gate_scripts(&["--json"], SCALES, candidate);
        let all = json(&outcome);
        let row = &all["rows"][0];
        assert_eq!((&row["ratio"], &row["threads"]), (&Value::from("scaling"), &Value::from(4)));
        assert_eq!((&row["base"]["median"], &row["candidate"]["median"]), (&4.0.into(), &scaling.into()));
        assert_eq!(all["values"][0]["candidate"], serde_json::json!(vec![scaling; 5]), "by round");
        let (named, exit) = expected;
        assert_eq!((all["outcome"].as_str(), outcome.code()), (Some(named), Some(exit)), "{outcome}");
        assert_eq!(row["verdict"], verdict);
        assert_eq!(all["rows"][1]["missing"], "base and candidate took no lock", "a shell has none");
    }
}

#[test]
fn a_gate_on_a_busy_machine_ends_early() {
    let busy = BusyCore::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = directory.path().join("runs");
    let script = format!("echo run >> '{}'; sleep 0.02; {SCALES}", log.display());
    let runs = || fs::read_to_string(&log).expect("the log").lines().count();
    let with = |more: &[&str]| {
        let options = ["--pin", &busy.core, "--json", "--threads", "1,4", "--metric", "ops: ([0-9]+)"];
        let commands = ["--base", "sh", "-c", &script, "--", "sh", "-c", &script];
        gate(&[&options[..], more, &commands].concat())
    };

    let outcome = with(&["--runs", "100"]);
    let all = json(&outcome);
    assert_eq!((all["outcome"].as_str(), outcome.code()), (Some("busy"), Some(3)), "{outcome}");
    assert!(all["noise"]["others_share"].as_f64().is_some_and(|share| share > 0.05), "{all:#}");
    assert!(runs() < 6 * 101, "{} runs", runs());
    assert_eq!(all["rows"][1]["missing"], Value::Null, "there were too few rounds for anything");

    fs::remove_file(&log).expect("the log");
    let allowed = with(&[&["--runs", "5"][..], &ALWAYS].concat());
    assert_eq!((json(&allowed)["outcome"].as_str(), allowed.code()), (Some("passed"), Some(0)), "{allowed}");
    assert_eq!(runs(), 6 * 6);
}

#[test]
fn more_acquisitions_for_an_operation_are_worse_on_a_busy_machine_too() {
    let program = Source::program("injected.c").compile();
    let program = program.to_str().expect("a plain path");
    let busy = BusyCore::new();
    let gate_by = |operations: &[&str], every: &str| {
        let options = ["--runs", "10", "--threads", "1,2", "--pin", &busy.core, "--json"];
        let table = format!("table_lock=300,1000,{every}");
        let commands = ["--base", program, "{threads}", "400", "--", program, "{threads}", "400", &table];
        gate(&[&options[..], operations, &commands].concat())
    };
    for operations in [&["--ops", "400"][..], &["--ops-regex", "\"iterations\":([0-9]+)"]] {
        let outcome = gate_by(operations, "1");
        let all = json(&outcome);
        let row = &all["rows"][2];
        assert_eq!((&row["ratio"], &row["verdict"]), (&"acquisitions per operation".into(), &"worse".into()));
        // Two threads: the locks are taken in every iteration, every 16th, every 4th or every one, and every second.
        let expected = [2.0 * (1.0 + 1.0 / 16.0 + 0.25 + 0.5), 2.0 * (1.0 + 1.0 / 16.0 + 1.0 + 0.5)];
        assert_eq!([&row["base"]["median"], &row["candidate"]["median"]], expected);
        assert_eq!((all["outcome"].as_str(), outcome.code()), (Some("worse"), Some(1)), "{outcome}");
        assert_eq!(all["rows"][0]["verdict"], "not judged", "the machine is busy: {all:#}");
        let rounds = all["values"][2]["candidate"].as_array().map(Vec::len);
        assert_eq!(rounds, Some(5), "as few as there may be");
    }
    let same = gate_by(&["--ops", "400"], "4");
    assert_eq!(same.code(), Some(3), "{same}");
}

#[test]
fn a_lock_that_the_base_did_not_have_is_worse() {
    let program = Source::program("injected.c").compile();
    let program = program.to_str().expect("a plain path");
    let options = ["--runs", "5", "--threads", "1,2", "--site", "hot_lock", "--json"];
    // It holds the lock for most of its time, by the clock, so that load does not change that.
    let mostly_held = ["hot_lock=200000,0", "cold_lock=0,0,50", "table_lock=0,0,50", "index_lock=0,0,50"];
    let commands = ["--base", "sh", "-c", "echo {threads}", "--", program, "{threads}", "50"];
    let outcome = gate(&[&options[..], &ALWAYS, &commands, &mostly_held].concat());
    assert_eq!(outcome.code(), Some(1), "{outcome}");
    let all = json(&outcome);
    let held = &all["rows"][2];
    assert_eq!((&held["base"]["median"], &held["verdict"]), (&0.0.into(), &"worse".into()), "{all:#}");
    let contended = &all["rows"][1];
    assert_eq!((&contended["base"]["median"], &contended["missing"]), (&0.0.into(), &Value::Null), "{all:#}");
}

#[test]
fn a_program_that_fails_is_neither_better_nor_worse() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name).to_str().expect("a plain path").to_owned();
    let (junit, page) = (file("gate.xml"), file("gate.md"));
    for (base, candidate, what, why) in [
        (SCALES, "echo 'lost <b> & more' >&2; exit $((6 + {threads}))", "candidate on 1", "exit code 7"),
        ("kill -SEGV $$ {threads}", SCALES, "base on 1", "killed by signal 11"),
        (SCALES, "echo nothing {threads}", "candidate on 1", "printed no metric"),
    ] {
        let outcome = gate_scripts(&["--junit", &junit, "-o", &page], base, candidate);
        assert_eq!(outcome.code(), Some(4), "{outcome}");
        let said = format!("Not judged: {what}: {why} in the warm-up.");
        assert_eq!(outcome.stdout.trim_end(), said, "{outcome}");
        let xml = fs::read_to_string(&junit).expect("the file of test cases");
        assert!(xml.contains("errors=\"1\"") && xml.contains(why), "{xml}");
        assert!(fs::read_to_string(&page).expect("the page").contains(&said));
        if why == "exit code 7" {
            assert!(outcome.stderr.contains("lost <b> & more"), "its output tail is shown: {outcome}");
            assert!(xml.contains("lost &lt;b&gt; &amp; more"), "{xml}");
        }
    }
}

#[test]
fn a_program_that_hangs_is_ended() {
    let outcome = gate_scripts(&["--time-limit", "200ms"], "exec sleep 1000{threads}", SCALES);
    assert_eq!(outcome.code(), Some(4), "{outcome}");
    assert!(outcome.stdout.contains("timed out in the warm-up"), "{outcome}");
}

#[test]
fn a_program_that_cannot_be_started_is_told_as_a_shell_tells_it() {
    for (program, expected) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        for arguments in
            [["--base", program, "--", "true", "{threads}"], ["--base", "true", "--", program, "{threads}"]]
        {
            let outcome = gate(&arguments);
            assert_eq!(outcome.code(), Some(expected), "{arguments:?}: {outcome}");
            assert!(outcome.stderr.contains(program), "{outcome}");
        }
    }
}

#[test]
fn what_cannot_be_gated_is_a_wrong_argument_with_a_remedy() {
    for (arguments, remedy) in [
        (&[][..], "--base"),
        (&["--", "true"], "--base"),
        (&["--base", "true"], "CMD"),
        (&["--against", "p", "--base", "true", "--", "true"], "cannot be used with"),
        (&["--base", "true", "--", "true"], "write {threads} there"),
        (&["--base", "true", "--runs", "5", "--", "true", "{threads}"], "`true --runs 5`"),
        (&["--threads", "1", "--base", "true", "--", "true", "{threads}"], "--threads 1,4"),
        (&["--runs", "4", "--base", "true", "--", "true", "{threads}"], "5..=1000"),
        (&["--worse-by", "lots", "--base", "true", "--", "true", "{threads}"], "such as 50"),
        (&["--lower-is-better", "--base", "true", "--", "true", "{threads}"], "--metric"),
        (&["--metric", "(x)", "--against", "p", "--", "true"], "cannot be used with"),
        (&["--against", "p", "--", "true", "{threads}"], "on how many threads"),
        (&["--against", "p", "--threads", "4", "--", "true"], "on how many threads"),
        (&["--against", "p", "--threads", "1,4", "--", "true", "{threads}"], "give one number"),
    ] {
        let outcome = gate(arguments);
        assert_eq!(outcome.code(), Some(2), "{arguments:?}: {outcome}");
        assert!(outcome.stderr.contains(remedy), "{arguments:?}: {outcome}");
    }
    let no_place = gate_scripts(&["--junit", "/no/such/folder/gate.xml"], SCALES, SCALES);
    assert_eq!(no_place.code(), Some(1), "before anything is run: {no_place}");
    assert!(no_place.stderr.contains("/no/such/folder/gate.xml"), "{no_place}");
}

/// Profiles the program with known sections into a file.
fn profile(file: &str, program: &str) {
    let mut command = Command::new(CONTEND);
    command.args(["profile", "--quiet", "--output", file, "--", program, "2", "50"]);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
}

#[test]
fn a_stored_profile_is_a_base_for_shares_alone() {
    let program = Source::program("injected.c").compile();
    let program = program.to_str().expect("a plain path");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a plain path").to_owned();
    let (base, other) = (path("base.contend"), path("other.contend"));
    profile(&base, program);
    profile(&other, program);

    let against = |site: &str, files: &str| {
        let options = ["--runs", "5", "--threads", "2", "--site", site, "--against", files, "--json"];
        gate(&[&options[..], &ALWAYS, &["--", program, "{threads}", "50"]].concat())
    };
    let outcome = against("hot_lock", &format!("{base},{other}"));
    let all = json(&outcome);
    let rows = all["rows"].as_array().expect("rows");
    let ratios: Vec<_> = rows.iter().map(|row| row["ratio"].as_str().expect("a name")).collect();
    assert_eq!(ratios, ["contended share", "held share"], "nothing of scaling");
    assert_eq!((&rows[1]["lock"], &rows[1]["threads"]), (&"hot_lock".into(), &2.into()));
    for side in ["base", "candidate"] {
        let held = rows[1][side]["median"].as_f64().expect("a share");
        assert!(0.0 < held && held < 1.0, "{side}: {held}");
    }
    let counts = ["base", "candidate"].map(|side| all["values"][1][side].as_array().map(Vec::len));
    assert_eq!(counts, [Some(2), Some(5)], "{all:#}");

    let unknown = against("hot_luck", &base);
    assert_eq!(unknown.code(), Some(2), "{unknown}");
    assert!(unknown.stderr.contains("`hot_lock`"), "the nearest: {unknown}");

    let bytes = fs::read(&other).expect("a profile");
    fs::write(&other, &bytes[..4096]).expect("a shorter one");
    let truncated = against("hot_lock", &format!("{base},{other}"));
    assert_eq!(truncated.code(), Some(1), "{truncated}");
    assert!(truncated.stderr.contains("other.contend is truncated"), "{truncated}");
}

#[test]
fn a_lock_that_neither_has_is_named_after_the_warm_up() {
    let program = Source::program("injected.c").compile();
    let program = program.to_str().expect("a plain path");
    let options = ["--site", "hot_luck", "--base", program, "--"];
    let outcome = gate(&[&FEW[..], &options, &[program, "{threads}", "50"]].concat());
    assert_eq!(outcome.code(), Some(2), "{outcome}");
    assert!(outcome.stderr.contains("did you mean `hot_lock`"), "{outcome}");
}

/// A gate of a program that does not end, with its temporary files in this folder: it has begun, and has a folder for profiles there.
fn begun(temporary: &Path) -> (Child, PathBuf) {
    // What leaves the group holds the program's output after an interrupt, for which the gate waits a second.
    let hangs = "setsid sleep 5 & echo {threads}; sleep 300";
    let mut command =
        contend(&[&["gate"], &FEW[..], &["--base", "sh", "-c", hangs, "--", "sh", "-c", hangs]].concat());
    command.env("TMPDIR", temporary).stdout(Stdio::null()).stderr(Stdio::null());
    let gate = command.spawn().expect("the command starts");
    let folder = loop {
        let all = fs::read_dir(temporary).expect("the folder").flatten();
        let own = |path: &PathBuf| path.to_string_lossy().contains("/contend-scratch-");
        if let Some(folder) = all.map(|entry| entry.path()).find(own) {
            break folder;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    std::thread::sleep(Duration::from_millis(500)); // the program has its child
    (gate, folder)
}

#[test]
fn a_second_interrupt_leaves_no_profiles_behind() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let (mut gate, folder) = begun(temporary.path());
    fs::write(folder.join("base.contend"), "a profile").expect("space on the disk");
    for _ in 0..2 {
        send(gate.id(), libc::SIGINT);
        std::thread::sleep(Duration::from_millis(300)); // more than what counts as one
    }
    let status = gate.wait().expect("it ends");
    assert_eq!(status.signal(), Some(libc::SIGINT), "the second one has come while the gate was ending");
    assert!(!folder.exists());
}

#[test]
fn what_a_killed_gate_left_behind_is_removed_by_the_next_one() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let (mut gate, folder) = begun(temporary.path());
    let next = || {
        let fails = "exit 1; echo {threads}";
        let commands = ["--base", "sh", "-c", fails, "--", "sh", "-c", fails];
        let mut command = contend(&[&["gate"], &FEW[..], &commands].concat());
        command.env("TMPDIR", temporary.path());
        run(command, HANG)
    };
    let make_old = || {
        let long_ago = SystemTime::now() - Duration::from_secs(3_600);
        fs::File::open(&folder).and_then(|open| open.set_modified(long_ago)).expect("its time can be set");
    };
    make_old();
    next();
    assert!(folder.exists(), "it is used");
    send(gate.id(), libc::SIGKILL);
    gate.wait().expect("it ends");
    next();
    assert!(!folder.exists());
}

/// Where the machine is at rest the gate names the lock; where it is not, it may not see it. The profiles are kept either way.
#[test]
fn a_longer_hold_is_told_with_its_lock_and_who_waits_for_it() {
    let program = Source { options: &["-O2"], ..Source::program("call_sites.cc") }.compile();
    let program = program.to_str().expect("a plain path");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a plain path").to_owned();
    let (junit, kept) = (path("gate.xml"), path("kept/profiles"));
    let options = ["--runs", "5", "--threads", "1,2", "--site", "table_lock", "--json", "--junit", &junit];
    let commands =
        ["--keep", &kept, "--base", program, "50", "{threads}", "--", program, "4000", "{threads}"];
    let outcome = gate(&[&options[..], &ALWAYS, &commands].concat());
    let all = json(&outcome);
    let xml = fs::read_to_string(&junit).expect("the file of test cases");
    if all["outcome"] == "passed" {
        assert!(all["noise"]["others_share"].as_f64().is_some_and(|share| share > 0.05), "{all:#}");
    } else {
        assert_eq!(outcome.code(), Some(1), "{outcome}");
        let grown = &all["grown"][0];
        assert_eq!((&grown["lock"], &grown["kind"]), (&"table_lock".into(), &"mutex".into()), "{all:#}");
        assert!(xml.contains("What costs more") && xml.contains("behind slow_rebalance"), "{xml}");
    }

    let mut names: Vec<_> = fs::read_dir(&kept)
        .expect("the folder")
        .map(|file| file.expect("a file").file_name().into_string().expect("a plain name"))
        .collect();
    names.sort();
    let expected = |side| (1..=5).map(move |round| format!("{side}-{round}.contend"));
    assert_eq!(names, expected("base").chain(expected("candidate")).collect::<Vec<_>>());

    let mut command = Command::new(CONTEND);
    let [base, candidate] = ["base-5", "candidate-5"].map(|name| format!("{kept}/{name}.contend"));
    command.args(["diff", "--json", &base, &candidate]);
    let grown = json(&run(command, HANG));
    let sites = grown["call_sites"].as_array().expect("both have call sites");
    let of = |function: &str| sites.iter().find(|site| site["function"] == function).expect("a call site");
    let grew = |function: &str, what: &str| {
        let [before, after] = ["before", "after"].map(|when| of(function)[when][what].as_f64().expect("ns"));
        after > before
    };
    assert!(grew("quick_lookup", "waited_ns") && grew("slow_rebalance", "behind_ns"), "{grown:#}");
}
