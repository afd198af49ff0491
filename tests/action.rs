//! The steps of `action.yml`, run by bash as the runner of GitHub runs them.

mod common;

use common::{CONTEND, HANG, Outcome, run};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

/// The script of the step of this name.
fn step(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("action.yml");
    let action = fs::read_to_string(file).expect("action.yml");
    let (_, step) = action.split_once(&format!("- name: {name}\n")).expect("a step of this name");
    let (_, script) = step.split_once("run: |\n").expect("a script");
    let lines = script.lines().map_while(|line| line.strip_prefix("        "));
    let script: String = lines.flat_map(|line| [line, "\n"]).collect();
    assert!(!script.contains("${{"), "what a workflow says is no part of a script: {script}");
    script
}

/// A folder of commands that come before the system's. Those that are scripts write their arguments into `log`.
struct Runner {
    folder: tempfile::TempDir,
}

impl Runner {
    fn new(commands: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (name, then) in commands {
            let path = folder.path().join(name);
            let log = folder.path().join("log");
            let script = format!("#!/bin/sh\necho {name} \"$@\" >> '{}'\n{then}\n", log.display());
            fs::write(&path, script).expect("a command");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is executable");
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a plain path").to_owned()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn run(&self, name: &str, inputs: &[(&str, &str)]) -> Outcome {
        let script = self.path("step.sh");
        fs::write(&script, step(name)).expect("the script");
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", &script]);
        let path = std::env::var("PATH").expect("a path");
        command.env("PATH", format!("{}:{path}", self.folder.path().display()));
        command.env("RUNNER_TEMP", self.folder.path()).env("GITHUB_STEP_SUMMARY", self.path("summary.md"));
        command.envs(inputs.iter().copied());
        run(command, HANG)
    }
}

#[test]
fn a_release_is_installed_and_without_one_contend_is_built() {
    let built = "cargo install --locked --path /action\n";
    for (version, curl, expected) in [
        ("1.2.3", "exit 0", "sudo apt-get install --yes RUNNER_TEMP/contend.deb\n"),
        ("v1.2.3", "exit 0", "sudo apt-get install --yes RUNNER_TEMP/contend.deb\n"),
        ("1.2.3", "exit 22", built),
        ("", "exit 0", built),
    ] {
        let commands = [("dpkg", "echo arm64"), ("curl", curl), ("sudo", ""), ("cargo", "")];
        let runner = Runner::new(&commands);
        let outcome = runner.run("Install contend", &[("VERSION", version), ("SOURCE", "/action")]);
        assert!(outcome.succeeded(), "{outcome}");
        let log = runner.log();
        let expected = expected.replace("RUNNER_TEMP", runner.folder.path().to_str().expect("a plain path"));
        assert!(log.ends_with(&expected), "{log}");
        let asked = "/releases/download/v1.2.3/contend_1.2.3-1_arm64.deb\n";
        assert_eq!(log.contains(asked), !version.is_empty(), "{log}");
    }
}

#[test]
fn a_runner_without_packages_builds() {
    for version in ["", "1.2.3"] {
        let commands = [("dpkg", "exit 127"), ("curl", ""), ("sudo", ""), ("cargo", "")];
        let runner = Runner::new(&commands);
        let outcome = runner.run("Install contend", &[("VERSION", version), ("SOURCE", "/action")]);
        assert!(outcome.succeeded(), "{outcome}");
        assert!(!runner.log().contains("curl") && runner.log().contains("cargo install"), "{}", runner.log());
        assert_eq!(outcome.stdout.contains("::warning::"), !version.is_empty(), "{outcome}");
    }
}

/// Half of the words would be another gate than the one that was asked for.
#[test]
fn inputs_that_cannot_be_read_end_the_step_before_the_gate() {
    for (arguments, attempts, part) in [
        ("--threads 1,4 --metric 'ops: ([0-9]+) --base a -- b", "2", "quote"),
        ("--base sh -c \"a\nb\" -- c", "2", "quote"),
        ("--base a -- b", "two", "attempts"),
        ("--base a -- b", "0", "attempts"),
        ("--base a -- b", "", "attempts"),
    ] {
        let runner = Runner::new(&[("contend", "")]);
        let outcome = runner.run("Gate", &[("ARGUMENTS", arguments), ("ATTEMPTS", attempts)]);
        assert_eq!(outcome.code(), Some(2), "{arguments}: {outcome}");
        assert!(outcome.stdout.contains("::error::") && outcome.stdout.contains(part), "{outcome}");
        assert_eq!(runner.log(), "", "{arguments}");
    }
    let runner = Runner::new(&[("contend", "exit 2")]);
    let outcome = runner.run("Gate", &[("ARGUMENTS", " "), ("ATTEMPTS", "2")]);
    assert_eq!((outcome.code(), runner.log().lines().count()), (Some(2), 1), "{outcome}");
    assert!(runner.log().ends_with("summary.md\n"), "no word is no empty word: {}", runner.log());
}

#[test]
fn the_gate_is_run_with_words_as_a_shell_quotes_them() {
    let runner = Runner::new(&[]);
    symlink(CONTEND, runner.path("contend")).expect("a link to the command");
    let arguments = r#"
        --threads 1,4 --runs 5 --noise-limit 100%
        --metric 'ops: ([0-9]+)'
        --base sh -c "echo ops: $((100 * {threads}))"
        -- sh -c 'echo ops: $((50 + 50 * {threads}))'"#;
    let outcome = runner.run("Gate", &[("ARGUMENTS", arguments), ("ATTEMPTS", "2")]);
    assert_eq!(outcome.code(), Some(1), "{outcome}");
    assert!(outcome.stdout.contains("Worse: scaling, 4 threads."), "{outcome}");
    let summary = fs::read_to_string(runner.path("summary.md")).expect("the summary of the job");
    assert!(summary.contains("contend gate: worse"), "{summary}");
}

#[test]
fn a_gate_on_a_busy_machine_is_run_again() {
    for (code, runs) in [(0, 1), (1, 1), (3, 3), (4, 1)] {
        let runner = Runner::new(&[("contend", &format!("exit {code}"))]);
        let outcome = runner.run("Gate", &[("ARGUMENTS", "--base a -- b"), ("ATTEMPTS", "3")]);
        assert_eq!((outcome.code(), runner.log().lines().count()), (Some(code), runs), "{outcome}");
        assert!(runner.log().ends_with("--base a -- b\n"), "{}", runner.log());
    }
}
