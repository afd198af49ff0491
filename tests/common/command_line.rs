//! Command lines of contend, for the tests that read what it prints.

use std::process::Command;

use serde_json::Value;

use crate::common::{CONTEND, HANG, run};

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
