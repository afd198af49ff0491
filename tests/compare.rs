//! `contend compare` and `contend calibrate` as a user runs them.

mod common;

use common::{contend, send};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn ran(arguments: &[&str]) -> Output {
    contend(arguments).output().expect("the command starts")
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn every_lock_has_a_row_with_what_the_program_printed() {
    let script = "echo \"ran $CONTEND_MUTEX\"; echo ops: 1,200.5";
    let output =
        ran(&["compare", "--json", "--runs", "2", "--metric", "ops: (\\S+)", "--", "sh", "-c", script]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = json(&output);
    let rows = all["rows"].as_array().expect("rows are an array");
    assert_eq!(rows[0]["lock"], "glibc");
    assert!(rows.len() > 4, "the catalogue has more locks: {rows:?}");
    for row in rows {
        assert_eq!(
            (&row["metric"]["median"], &row["failure"]),
            (&Value::from(1200.5), &Value::Null),
            "{row}"
        );
    }
    // The shell makes no lock, so that there is nothing to compare, and that is said.
    assert_eq!(rows[1]["times_glibc"], Value::Null);
    assert_eq!(rows[1]["verdict"], "no difference seen: nothing swapped");
    assert_eq!(all["swapped"]["mcs"]["mutex"]["swapped"], 0);
    assert_eq!(all["swapped"]["tas"], Value::Null, "history is compared where it is named");
    assert_eq!(all["values"]["glibc"], serde_json::json!([1200.5, 1200.5]));
}

/// Each of them has the whole file; of a pipe only one could have anything.
#[test]
fn every_run_reads_the_same_file() {
    let of = |stdin: Stdio| {
        let line =
            ["compare", "--json", "--lock", "mcs", "--runs", "2", "--metric", "([0-9]+)", "--", "wc", "-c"];
        contend(&line).stdin(stdin).output().expect("the command starts")
    };
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "twelve bytes").expect("a file");
    let read = of(file.reopen().expect("the file").into());
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    assert_eq!(json(&read)["values"]["glibc"], serde_json::json!([12.0, 12.0]));
    let (end, mut start) = std::io::pipe().expect("a pipe");
    start.write_all(b"data").expect("space in the pipe");
    let refused = of(end.into());
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("standard input is a pipe"));
}

#[test]
fn a_program_that_fails_by_itself_passes_its_code_on() {
    let output = ran(&["compare", "--lock", "ticket", "--", "sh", "-c", "echo why >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert!(String::from_utf8_lossy(&output.stderr).contains("why"), "its output tail is shown");
    assert!(String::from_utf8_lossy(&output.stdout).contains("exit code 7 in the warm-up"));
}

#[test]
fn a_lock_that_fails_or_hangs_is_a_row_and_not_the_end() {
    let script = "case $CONTEND_MUTEX in ticket) kill -SEGV $$;; mcs) sleep 1000;; esac; exit 0";
    let limit = ["--time-limit", "10s", "--runs", "1", "--lock", "ticket,mcs,tas", "--json"];
    let arguments = ["compare"].into_iter().chain(limit).chain(["--", "sh", "-c", script]);
    let output = ran(&arguments.collect::<Vec<_>>());
    assert!(output.status.success(), "one lock that works is enough");
    let all = json(&output);
    assert_eq!(all["rows"][1]["failure"], "killed by signal 11 in the warm-up");
    assert_eq!(all["rows"][2]["failure"], "timed out in the warm-up");
    assert_eq!(all["rows"][3]["failure"], Value::Null);
}

#[test]
fn a_calibrated_machine_is_one_that_the_model_takes() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("here.toml");
    let path = path.to_str().expect("the path is UTF-8");
    let output = ran(&["calibrate", "--json", "-o", path]);
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1) {
        assert!(String::from_utf8_lossy(&output.stderr).contains("needs two"));
        return;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("never ran together") {
        return; // a machine this busy cannot be measured, and the command says so
    }
    assert!(output.status.success(), "{errors}");
    let all = json(&output);
    assert_eq!(all["machine"]["name"], "here");
    let written = std::fs::read_to_string(path).expect("the file was written");
    let machine = topology::MachineFile::parse(&written).expect("the model takes it");
    assert!(machine.handover.wake.source.as_str().starts_with("measured by contend calibrate on 20"));
}

#[test]
fn a_program_compared_with_itself_shows_no_difference() {
    const TRIES: usize = 10;
    for runs in ["2", "5"] {
        let alike = (0..TRIES)
            .filter(|_| {
                let output = ran(&["compare", "--json", "--lock", "mcs", "--runs", runs, "--", "true"]);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                json(&output)["rows"][1]["verdict"]
                    .as_str()
                    .expect("a verdict")
                    .starts_with("no difference seen")
            })
            .count();
        assert!(alike + 1 >= TRIES, "{runs} runs: {alike} of {TRIES}");
    }
}

#[test]
fn an_interrupt_prints_what_is_finished() {
    let line = ["compare", "--json", "--lock", "mcs", "--runs", "10000", "--", "sh", "-c", "sleep 0.01"];
    // The warm-up of both takes longer than their start, and no machine gets through ten thousand rounds.
    let all = json(&interrupted(&line, Duration::from_secs(3)));
    assert_eq!((&all["cut_short"], &all["rows"][0]["lock"]), (&Value::from(true), &Value::from("glibc")));
}

#[test]
fn unknown_names_are_answered_with_the_nearest_and_exit_with_2() {
    for (arguments, near) in [
        (&["compare", "--lock", "tiket", "--", "true"][..], "`ticket`"),
        (&["run", "--lock", "mcss", "--", "true"], "`mcs`"),
        (&["simulate", "mempopp"], "`mempop`"),
        (&["simulate", "mempop", "--lock", "clhh"], "`clh`"),
        (&["simulate", "mempop", "--machine", "opteron-8x5", "--cores", "1"], "`opteron-8x6`"),
        (&["bench", "cost", "--lock", "glibc-mutx"], "`glibc-mutex`"),
        (&["reproduce", "fig33"], "fig3"),
        (&["bench", "throughput", "--lock", "tikcet"], "`ticket`"),
        (&["bench", "regimes", "--lock", "tikcet"], "`ticket`"),
        (&["bench", "aim7", "--mix", "fservr"], "`fserver`"),
        (&["bench", "regimes", "--simulated", "--machine", "dl58"], "`dl580`"),
        (&["predict", "/dev/null", "--lock", "quue"], "`queue`"),
        (&["check", "mcss"], "'mcs'"),
    ] {
        let output = ran(arguments);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {printed}");
        assert!(printed.contains(near), "{arguments:?}: {printed}");
    }
}

#[test]
fn the_version_names_the_commit_and_the_features() {
    let printed = String::from_utf8(ran(&["--version"]).stdout).expect("text");
    assert!(printed.starts_with("contend ") && printed.contains("features: "), "{printed}");
    let package = env!("CARGO_MANIFEST_DIR");
    let git = Command::new("git").args(["-C", package, "rev-parse", "--show-toplevel", "HEAD"]).output();
    let git = git.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let canonical = |path: &str| std::fs::canonicalize(path).ok();
    if let [top, commit] = git.lines().collect::<Vec<_>>()[..]
        && canonical(top) == canonical(package)
    {
        assert!(printed.contains(&commit[..10]), "{printed} is not of {commit}");
    }
}

#[test]
fn wrong_arguments_exit_with_2_and_what_cannot_be_read_with_1() {
    let directory = tempfile::tempdir().expect("a directory");
    let nowhere = directory.path().join("nosuch");
    let nowhere = nowhere.to_str().expect("a plain path");
    let inside = format!("{nowhere}/p.contend");
    let profile = directory.path().join("p.contend");
    let profile = profile.to_str().expect("a plain path");
    let program = [env!("CARGO_BIN_EXE_contend"), "demo-program", "--threads", "1", "--duration", "50ms"];
    let made = ran(&[&["profile", "-q", "-o", profile, "--"], &program[..]].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for (code, arguments) in [
        (2, &["profile", "-q"][..]),
        (2, &["profile", "--sample", "2", "--", "true"]),
        (1, &["profile", "-q", "-o", &inside, "--", "true"]),
        (2, &["report"]),
        (2, &["report", "--top", "many", profile]),
        (1, &["report", nowhere]),
        (1, &["report", "/dev/null"]),
        (2, &["diff", profile]),
        (1, &["diff", profile, nowhere]),
        (1, &["predict", nowhere]),
        (2, &["predict", profile, "--site", "nosuch"]),
        (2, &["predict", profile, "--machine", "nosuch"]),
        (2, &["predict", profile, "--lock", "elided", "--machine", "epyc-9654x2"]),
        (2, &["predict", profile, "--cores", "1..1025"]),
        (2, &["predict", profile, "--what-if", "handover=0.5"]),
        (2, &["predict", profile, "--what-if", "lock=elided"]),
        (2, &["simulate", "counter", "--cores", "49"]),
        (2, &["simulate", "counter", "--buckets", "3"]),
        (2, &["bench", "regimes", "--simulated", "--cores", "49..60", "--machine", "opteron-8x6"]),
        (2, &["bench", "regimes", "--simulated", "--section", "500cycles"]),
        (2, &["bench", "regimes", "--simulated", "--lock", "posix-mutex"]),
        (2, &["bench", "regimes", "--cores", "2"]),
        (1, &["bench", "regimes", "-o", &inside]),
        (1, &["extrapolate", nowhere]),
        // Where 1 says that a verdict is another than expected.
        (2, &["litmus", "--expect", nowhere, env!("CARGO_MANIFEST_DIR")]),
    ] {
        let output = ran(arguments);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{arguments:?}: {printed}");
    }
    let printed = ran(&["predict", profile, "--site", "nosuch"]).stderr;
    let printed = String::from_utf8_lossy(&printed);
    assert!(printed.contains("holds no lock of the site `nosuch`; holds `"), "{printed}");
}

/// `contend bench regimes` with few regimes on a simulated machine, and what else it is asked for.
fn simulated_regimes(more: &[&str]) -> Output {
    let few =
        ["--simulated", "--machine", "opteron-8x6", "--cores", "2", "--section", "empty", "--think", "0"];
    let brief = ["--lock", "ticket,mcs,rw", "--duration", "20us"];
    ran(&[&["bench", "regimes"], &few[..], &brief, more].concat())
}

#[test]
fn simulated_regimes_are_the_same_each_time_and_every_cell_is_in_the_json() {
    let line = ["--json", "--reads", "0,90"];
    let tables = || json(&simulated_regimes(&line))["tables"].take();
    let first = tables();
    assert_eq!(first, tables());
    assert_eq!(first["cells"].as_array().map(Vec::len), Some(2 * 2 * 3), "threads, reads, locks: {first}");
    assert!(first["exclusion"].is_array() && first["reads"].is_array(), "{first}");
    assert_ne!(
        first["cells"],
        json(&simulated_regimes(&[&line[..], &["--seed", "2"]].concat()))["tables"]["cells"]
    );
}

#[test]
fn a_page_of_regimes_has_its_map_beside_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("regimes.md");
    let output = simulated_regimes(&["--reads", "0", "-o", page.to_str().expect("a plain path")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&page).expect("the page");
    assert!(text.contains("](regimes.svg)") && text.contains("### Which lock when"), "{text}");
    let map = std::fs::read_to_string(directory.path().join("regimes.svg")).expect("the map");
    assert!(map.starts_with("<svg ") && map.contains("2 cores, 4 threads"), "{map}");
}

#[test]
fn a_simulation_prints_the_same_bytes_each_time_and_its_workloads_as_json() {
    let line = ["simulate", "counter", "--cores", "1,2", "--duration", "50us", "--lock", "mcs", "--json"];
    assert_eq!(ran(&line).stdout, ran(&line).stdout);
    let with_times = ran(&[&line[..], &["--seeds", "1", "--host-times"]].concat());
    assert!(json(&with_times)["runs"][0]["host"]["seconds"].is_number());
    assert!(json(&with_times)["buckets"].is_null(), "sleepers are in no table");
    let sleeping =
        ["simulate", "counter", "--cores", "2", "--threads", "4", "--duration", "50us", "--seeds", "1"];
    let in_table = ["--lock", "glibc-mutex", "--buckets", "default", "--json"];
    let tables = [(); 2].map(|()| ran(&[&sleeping[..], &in_table].concat()));
    assert_eq!(tables[0].stdout, tables[1].stdout);
    assert_eq!(json(&tables[0])["buckets"], 16_384, "256 for each of 48 cores, as a power of two");
    let all = json(&ran(&["simulate", "--list", "--json"]));
    assert!(all.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "mempop")), "{all}");
}

#[test]
fn a_sweep_of_the_back_off_says_what_ran_where_and_in_how_many_buckets() {
    let line =
        ["simulate", "fig10", "--sweep-back-off", "--cores", "2", "--duration", "20us", "--seeds", "1"];
    let printed = ran(&[&line[..], &["--buckets", "16"]].concat());
    let printed = String::from_utf8_lossy(&printed.stdout);
    assert!(printed.starts_with("fig10 on opteron-8x6, seed 1, sleepers in 16 buckets: "), "{printed}");
    let json = |more: &[&str]| json(&ran(&[&line[..], &["--json"], more].concat()));
    assert_eq!(json(&["--buckets", "16"])["buckets"], 16);
    assert!(json(&[])["buckets"].is_null(), "sleepers are in no table");
}

#[test]
fn a_simulated_row_is_the_median_run_with_the_range_of_all_seeds() {
    let line = ["simulate", "counter", "--cores", "6", "--duration", "50us", "--lock", "ticket", "--json"];
    let of_one =
        |seed: u64| json(&ran(&[&line[..], &["--seeds", "1", "--seed", &seed.to_string()]].concat()));
    let row = |all: &Value| all["runs"][0].clone();
    let rate = |row: &Value| row["operations_per_second"].as_f64().expect("a throughput");
    let all = json(&ran(&[&line[..], &["--seeds", "4", "--seed", "3"]].concat()));
    assert_eq!((&all["seed"], &all["seeds"]), (&3.into(), &4.into()));
    let mut alone = [3, 4, 5, 6].map(|seed| row(&of_one(seed)));
    alone.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let (shown, median) = (row(&all), &alone[1]);
    for field in ["seed", "operations", "elapsed_ns", "operations_per_second", "report"] {
        assert_eq!(shown[field], median[field], "{field}");
    }
    let range = |row: &Value| ["low", "high"].map(|end| row[format!("operations_per_second_{end}")].as_f64());
    assert_eq!(range(&shown), [&alone[0], &alone[3]].map(|row| Some(rate(row))));
    assert_eq!((&shown["seeds"], &shown["unstable"]), (&4.into(), &false.into()));
    assert_eq!((&median["seeds"], range(median)), (&1.into(), [Some(rate(median)); 2]));
    let point = &all["curves"][0]["points"][0];
    assert_eq!(
        ["value", "low", "high"].map(|end| point[end].as_f64()),
        [1, 0, 3].map(|at| Some(rate(&alone[at])))
    );
}

/// Starts a command, interrupts it when it has its handler and has worked for so long, and gives what it printed until then. What it
/// does takes longer than that on any machine.
fn interrupted(arguments: &[&str], works_for: Duration) -> Output {
    let mut command = contend(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let listens = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        mask & 1 << (libc::SIGINT - 1) != 0
    };
    while !listens() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(works_for);
    send(child.id(), libc::SIGINT);
    let output = child.wait_with_output().expect("the command ends");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{arguments:?}: {printed}");
    assert!(printed.contains("cut short by an interrupt"), "{arguments:?}: {printed}");
    output
}

#[test]
fn an_interrupted_sweep_of_the_back_off_prints_the_runs_that_are_finished() {
    let line = ["simulate", "fig10", "--sweep-back-off", "--cores", "8,48", "--duration", "10s", "--json"];
    let all = json(&interrupted(&line, Duration::ZERO));
    assert_eq!((&all["cut_short"], &all["verdict"]), (&Value::from(true), &Value::Null));
    assert!(all["back_off"].is_array(), "{all}");
}

#[test]
fn interrupted_regimes_are_printed_as_far_as_they_got() {
    let page = tempfile::tempdir().expect("a directory");
    let path = page.path().join("regimes.md");
    let path = path.to_str().expect("a plain path");
    let all = json(&interrupted(&["bench", "regimes", "--json", "-o", path], Duration::ZERO));
    assert!(all["tables"]["cells"].is_array(), "{all}");
    // Other tests may disturb the runs: then there is no page.
    let is_disturbed = all["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty());
    let written = std::fs::read_to_string(path);
    assert_eq!(written.is_ok(), !is_disturbed, "{all}");
    assert!(written.is_err() || written.is_ok_and(|page| page.contains("**Cut short**")));
}

#[test]
fn interrupted_simulated_regimes_do_not_wait_for_runs_that_are_under_way() {
    // A run takes hours.
    let long = ["--simulated", "--machine", "opteron-8x6", "--cores", "48", "--duration", "60s"];
    let all = json(&interrupted(&[&["bench", "regimes", "--json"], &long[..]].concat(), Duration::ZERO));
    assert_eq!(all["tables"]["cells"], serde_json::json!([]));
}

#[test]
fn advice_says_once_and_first_that_there_is_no_place_for_profiles() {
    let output =
        contend(&["advise", "--", "true"]).env("TMPDIR", "/no/such/place").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot make a folder in /no/such/place: set TMPDIR"), "{said}");
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn an_interrupted_simulation_prints_the_runs_that_are_finished() {
    let line = ["simulate", "counter", "--lock", "mcs", "--duration", "10s", "--cores", "1,48", "--json"];
    let output = interrupted(&line, Duration::from_secs(2));
    assert_eq!(json(&output)["cut_short"], true);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("of 10 runs were finished"), "five seeds on each number of cores: {said}");
}
