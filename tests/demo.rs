//! The first command of the README, on a machine that others keep busy.

use std::process::{Child, Command, Output};

fn demo(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contend"));
    command.arg("demo").args(arguments).env("LC_ALL", "C").output().expect("the command starts")
}

/// A program that keeps a core busy until this is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let spin = ["-c", "while :; do :; done"];
        Self(Command::new("sh").args(spin).spawn().expect("a shell starts"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_busy_machine_is_said_and_fails_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let out = directory.path().to_str().expect("a path of text");
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let busy: Vec<_> = (0..cores.min(16)).map(|_| Busy::start()).collect();
    let output = demo(&["--output", out, "--runs", "5"]);
    drop(busy);
    let shown = String::from_utf8_lossy(&output.stdout);
    let elsewhere = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}{elsewhere}");
    assert!(
        shown.contains("acquires") && !elsewhere.contains("acquires"),
        "a table went elsewhere: {elsewhere}"
    );
    let last: Vec<_> = shown.lines().rev().take(8).collect();
    for word in ["Found: ", "Predicted: ", "Measured: ", "Later: ", "Pages: "] {
        assert!(last.iter().any(|line| line.starts_with(word)), "{word}: {shown}");
    }
    if cores <= 16 {
        assert!(last.iter().any(|line| line.starts_with("Disturbed: other programs used")), "{shown}");
    }
}

#[test]
fn a_lock_that_cannot_stand_in_fails_at_once() {
    for (lock, words) in [("nosuch", "no lock `nosuch`"), ("rw-quued", "`rw-queued`"), ("mcs", "rw-queued")] {
        let output = demo(&["--lock", lock, "--output", "/nonexistent/never/made"]);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{printed}");
        assert!(printed.contains(words), "{printed}");
    }
}
