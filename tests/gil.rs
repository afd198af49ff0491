//! CPython's global interpreter lock in a profile, held against what a program measures of it itself.

mod common;

use common::{CONTEND, HANG, json, run};
use std::path::Path;
use std::process::Command;

#[test]
fn waits_for_the_interpreter_are_those_that_the_program_measured() {
    // The interpreter itself: what has its name may be a script that starts another one.
    let mut ask = Command::new("python3");
    ask.args(["-c", "import sys; print(sys.executable)"]);
    if !ask.output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3");
        return;
    }
    let python = run(ask, HANG).stdout;
    let directory = tempfile::tempdir().expect("a place for the profile");
    let profile = directory.path().join("p.contend");
    let profile = profile.to_str().expect("a plain path");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/gil.py");
    let mut command = Command::new(CONTEND);
    command.args(["profile", "-o", profile, "--", python.trim()]).arg(program);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    let Ok(measured_ns) = outcome.stdout.trim().parse::<f64>() else {
        println!("skipped: {}", outcome.stdout);
        return;
    };
    let gil = json(&["report", profile, "--json"])["header"]["gil"].take();
    let figure = |of: &str| gil[of].as_f64().unwrap_or_else(|| panic!("no {of}: {gil}\n{outcome}"));
    assert!(gil["name"].as_str().is_some_and(|name| name.starts_with("_PyRuntime")), "{gil}");
    let (waited_ns, share) = (figure("waited_ns"), figure("share"));
    // What the computing thread waits for, and what it takes to be on a core again, is no more than that.
    assert!(
        (waited_ns - measured_ns).abs() < 0.3 * measured_ns,
        "{measured_ns} ns measured: {gil}\n{outcome}"
    );
    assert!((0.1..0.9).contains(&share), "{gil}");
    let told = outcome.stderr.replace('\n', " ");
    assert!(told.contains("global interpreter lock"), "{outcome}");
}
