//! `tests/real-programs`, with scripts in the place of contend and of the programs that it runs.

mod common;

use common::HANG;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Waits a little between looks at what another process does.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs its program with the C library's locks.
const CONTEND: &str = r#"while [ "$1" != -- ]; do shift; done; shift; exec "$@""#;

/// Says which process it is, and has its port until it is ended.
const MEMCACHED: &str = r#"echo $$ > server.new && mv server.new server
while [ "$1" != -p ]; do shift; done
exec python3 -c 'import socket, sys, time; s = socket.create_server(("127.0.0.1", int(sys.argv[1]))); time.sleep(1000)' "$2""#;

/// Says that the server has answered, and asks no more of it.
const MEMCASLAP: &str = ": > asked; exec sleep 1000";

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < HANG, "{what}");
        std::thread::sleep(PAUSE);
    }
}

/// Ctrl-C reaches the foreground of a terminal: neither a server in the background, nor what timeout(1) has put into a group of its own.
#[test]
fn an_interrupt_ends_the_script_and_the_server_that_it_has_started() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (name, script) in [("contend", CONTEND), ("memcached", MEMCACHED), ("memcaslap", MEMCASLAP)] {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a command");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is executable");
    }
    let path = std::env::var("PATH").expect("a path");
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real-programs"));
    command.arg("mcs").current_dir(folder.path()).process_group(0);
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    command.env("CONTEND", folder.path().join("contend")).env("PROGRAMS", "memcached").env("LIMIT", "60");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the call is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL); // which is ignored where the tests run in the background
            Ok(())
        });
    }
    let mut script = command.spawn().expect("bash is there");
    let group = -script.id().cast_signed();
    wait_for("the server is not asked", || folder.path().join("asked").exists().then_some(()));
    // SAFETY: the group that this test made, whose leader is not reaped.
    unsafe { libc::kill(group, libc::SIGINT) };
    let ended = wait_for("the script goes on", || script.try_wait().expect("a child"));
    assert_eq!(ended.code(), Some(130), "{ended}");
    let server = fs::read_to_string(folder.path().join("server")).expect("the server has started");
    let server: i32 = server.trim().parse().expect("a process");
    // SAFETY: no signal is sent.
    let is_gone = || (unsafe { libc::kill(server, 0) } != 0).then_some(());
    wait_for("the server lives on", is_gone);
}
