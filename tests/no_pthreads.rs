//! `contend profile` of programs without a library's pthread locks: their waits in futexes.
//!
//! Where the kernel shows no system calls, as in most containers, these tests say so and pass.

#[path = "common/command_line.rs"]
mod command_line;
mod common;

use command_line::{contend, json};
use common::{CONTEND, HANG, Source, run};
use std::process::Command;

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
    assert!(!refused.succeeded() && refused.stderr.contains("attach"), "{refused}");
}
