//! How a program is asked to extend the time slices of those that hold its locks: by the environment, and by `--time-slice`. What the
//! kernel makes of it is another question: it is said where it cannot be.

mod common;

use common::{HANG, Outcome, contend, run};
use serde_json::Value;

const VARIABLE: &str = "CONTEND_TIME_SLICE";

/// `contend` with these arguments, and with the variable if it has a value.
fn with(value: Option<&str>, arguments: &[&str]) -> Outcome {
    let mut command = contend(arguments);
    match value {
        Some(value) => command.env(VARIABLE, value),
        None => command.env_remove(VARIABLE),
    };
    run(command, HANG)
}

#[test]
fn a_value_that_is_neither_1_nor_0_is_not_taken_for_either_in_silence() {
    let program = ["run", "--lock", "mutex=mcs", "--", "true"];
    for value in ["yes", "on", "2", "11", " 1"] {
        let outcome = with(Some(value), &program);
        let said = format!(
            "contend: {VARIABLE}: `{value}` is neither 1, for extended time slices, nor 0, for none; left out\n"
        );
        assert!(outcome.succeeded() && outcome.stderr.matches(&said).count() == 1, "{outcome}");
    }
    for value in [None, Some("0"), Some("")] {
        let outcome = with(value, &program);
        assert!(outcome.succeeded() && !outcome.stderr.contains(VARIABLE), "{outcome}");
    }
    let asked = with(Some("1"), &program);
    let refused = asked.stderr.contains(&format!("{VARIABLE}: `1` needs Linux 7.0"));
    assert!(asked.succeeded() && refused == asked.stderr.contains(VARIABLE), "{asked}");
}

#[test]
fn the_flag_asks_for_a_program_whose_locks_are_swapped() {
    let printed = |value: Option<&str>, flags: &[&str]| {
        let program = ["--", "sh", "-c", "echo \"$CONTEND_TIME_SLICE\""];
        let outcome = with(value, &[&["run"], flags, &program].concat());
        assert!(outcome.succeeded(), "{outcome}");
        outcome.stdout
    };
    assert_eq!(printed(None, &["--lock", "mutex=mcs", "--time-slice"]), "1\n");
    assert_eq!(printed(Some("0"), &["--lock", "mutex=mcs", "--time-slice"]), "1\n");
    assert_eq!(printed(Some("0"), &["--lock", "mutex=mcs"]), "0\n", "what the user says is passed on");
    assert_eq!(printed(None, &["--lock", "glibc", "--time-slice"]), "\n", "glibc's own locks do not ask");
}

#[test]
fn a_comparison_with_extended_time_slices_is_one_or_is_refused() {
    let outcome = with(
        None,
        &[
            "compare", "--time-slice", "--json", "--lock", "mcs", "--runs", "1", "--metric", "ops ([0-9]+)",
            "--", "sh", "-c", "echo ops 7",
        ],
    );
    if outcome.code() == Some(2) {
        assert!(outcome.stderr.contains("--time-slice needs Linux 7.0"), "{outcome}");
        assert!(outcome.stderr.contains("compare without it"), "{outcome}");
        return;
    }
    assert!(outcome.succeeded(), "{outcome}");
    let json: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(json["time_slice"], true, "{json}");
}
