//! `contend bench aim7`: whatever ends it, nothing of it is left.

mod common;

use common::{contend, send};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

/// More jobs than a test waits for.
const ENDLESS: &str = "100000";

/// Users of the interrupted runs.
const USERS: usize = 3;

/// How long users may take to come and to be gone, on a busy machine.
const LONGEST: Duration = Duration::from_secs(30);

/// A run of a mix that has users by now, and the directory that they work in.
struct Running {
    command: Child,
    users: BTreeSet<u32>,
    directory: PathBuf,
}

impl Running {
    fn start(mix: &str) -> Self {
        let users = USERS.to_string();
        let mut command =
            contend(&["bench", "aim7", "--json", "--mix", mix, "--users", &users, "--jobs", ENDLESS]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("contend starts");
        let begun = Instant::now();
        let users = loop {
            let users = children(command.id());
            if users.len() == USERS {
                break users;
            }
            assert!(begun.elapsed() < LONGEST, "no users come");
            std::thread::sleep(Duration::from_millis(1));
        };
        let directory = directory_of(command.id());
        Self { command, users, directory }
    }

    fn send(&self, signal: libc::c_int) {
        send(self.command.id(), signal);
    }

    fn end(self) -> Output {
        self.command.wait_with_output().expect("the command ends")
    }
}

/// The directory of a command's own.
fn directory_of(command: u32) -> PathBuf {
    let base = if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let begin = format!("contend-bench-{command}-");
    let mut names =
        fs::read_dir(&base).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    base.join(
        names
            .find(|name| name.to_string_lossy().starts_with(&begin))
            .expect("a directory of the command's own"),
    )
}

fn children(process: u32) -> BTreeSet<u32> {
    let list = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Whether a user, or something that one has started, is there: all of them work in the directory.
fn some_work_in(directory: &Path) -> bool {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let mut places = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    places.any(|place| place.to_string_lossy().starts_with(&*directory.to_string_lossy()))
}

/// Whether there is a System V object of a user that is gone: the lower three bytes of its key are the user's number.
fn some_ipc_is_left() -> bool {
    let tables =
        ["sem", "shm"].map(|name| fs::read_to_string(format!("/proc/sysvipc/{name}")).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines());
    let keys =
        lines.filter_map(|line| line.split_whitespace().next()?.parse::<i32>().ok()).map(i32::cast_unsigned);
    let mut users = keys.filter(|key| key >> 24 == 0xC7).map(|key| key & 0xFF_FFFF);
    users.any(|user| !Path::new(&format!("/proc/{user}")).exists())
}

/// Waits until nothing of the users is left. The kernel ends those of a killed command one after the other; and users of the other
/// tests that are just being ended may have an object for a moment.
fn assert_nothing_is_left(directory: &Path) {
    let begun = Instant::now();
    while some_work_in(directory) || some_ipc_is_left() {
        assert!(begun.elapsed() < LONGEST, "users still run, or a System V object is left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupted_run_prints_what_is_finished_and_leaves_nothing() {
    for (mix, signal, after) in
        [("shared", libc::SIGTERM, 300), ("short", libc::SIGTERM, 50), ("short", libc::SIGINT, 90)]
    {
        let running = Running::start(mix);
        let directory = running.directory.clone();
        assert!(some_work_in(&directory));
        std::thread::sleep(Duration::from_millis(after));
        running.send(signal);
        let output = running.end();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{printed}");
        assert!(printed.contains("cut short by an interrupt"), "{printed}");
        let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(all["tables"]["users"][0]["users"], USERS, "{all}");
        assert!(!directory.exists() && !some_work_in(&directory), "{}", directory.display());
        assert_nothing_is_left(&directory);
    }
}

#[test]
fn a_user_that_is_killed_is_a_row_that_says_so_and_leaves_nothing() {
    let running = Running::start("short");
    let directory = running.directory.clone();
    send(*running.users.first().expect("a user"), libc::SIGKILL);
    let output = running.end();
    assert_eq!(
        output.status.code(),
        Some(1),
        "nothing was measured: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = &all["tables"]["users"][0];
    assert_eq!(row["failure"], "a user was ended by the signal 9", "{all}");
    assert!(row["jobs_per_min"].is_null() && !directory.exists(), "{all}");
    assert_nothing_is_left(&directory);
}

#[test]
fn users_end_with_a_killed_command_and_the_next_run_removes_its_directory() {
    let running = Running::start("shared");
    let directory = running.directory.clone();
    std::thread::sleep(Duration::from_millis(100));
    running.send(libc::SIGKILL);
    running.end();
    assert_nothing_is_left(&directory);
    let next = ["bench", "aim7", "--json", "--mix", "short", "--users", "1", "--runs", "1"];
    let output = contend(&next).output().expect("contend starts");
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let jobs = all["tables"]["plateaus"][0]["jobs_per_min"]["median"].as_f64();
    assert!(jobs.is_some_and(|jobs| jobs > 0.0), "{all}");
    assert!(!directory.exists());
}
