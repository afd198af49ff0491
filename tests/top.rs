//! `contend top` beside a program that runs: what it says of the present, how it ends, and what it leaves of the terminal.

mod common;
#[path = "common/exposition.rs"]
mod exposition;

use common::{CONTEND, HANG, Outcome, Source, run, send};
use exposition::Sample;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Waits a little between looks at what another process does.
const PAUSE: Duration = Duration::from_millis(20);

/// `held.c` under `contend profile`. It holds its locks until [`Held::end`].
struct Held {
    launcher: Child,
    directory: tempfile::TempDir,
}

impl Held {
    /// Starts it, and waits until all of its threads wait.
    fn start() -> Self {
        let program = Source::program("held.c").compile();
        let directory = tempfile::tempdir().expect("a place for the profile");
        let mut command = Command::new(CONTEND);
        command
            .args(["profile", "-q", "-o"])
            .arg(directory.path().join("held.contend"))
            .arg("--")
            .arg(program);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let held = Self { launcher: command.spawn().expect("contend starts"), directory };
        let begun = Instant::now();
        loop {
            let outcome = held.top(&["--batch", "--json", "-n", "1"]);
            let waiting = |name, way| {
                let table: Option<Value> = serde_json::from_str(&outcome.stdout).ok();
                table.and_then(|table| row(&table, name, way).map(|row| row["waiters_now"].clone()))
            };
            if waiting("held_mutex", "mutex") == Some(2.into())
                && waiting("held_rwlock", "rwlock write") == Some(1.into())
                && waiting("held_spin", "spin") == Some(1.into())
            {
                return held;
            }
            assert!(begun.elapsed() < HANG, "nobody waits: {outcome}");
            std::thread::sleep(PAUSE);
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("held.contend")
    }

    fn top(&self, arguments: &[&str]) -> Outcome {
        let mut command = Command::new(CONTEND);
        command.arg("top").arg(self.file()).args(arguments);
        run(command, HANG)
    }

    /// Lets the program end.
    fn end(&mut self) -> ExitStatus {
        drop(self.launcher.stdin.take());
        self.launcher.wait().expect("the launcher ends")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.launcher.stdin.take());
        if self.launcher.try_wait().is_ok_and(|status| status.is_none()) {
            // SAFETY: the group that this test made, whose leader is not reaped.
            unsafe { libc::kill(-(self.launcher.id() as i32), libc::SIGKILL) };
            let _ = self.launcher.wait();
        }
    }
}

fn row<'a>(table: &'a Value, name: &str, way: &str) -> Option<&'a Value> {
    table["rows"].as_array()?.iter().find(|row| row["lock"] == name && row["use"] == way)
}

fn tables(outcome: &Outcome) -> Vec<Value> {
    assert!(outcome.succeeded(), "{outcome}");
    outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

#[test]
fn the_present_is_told_while_the_program_runs_and_the_end_when_it_ends() {
    let mut held = Held::start();
    let looks = tables(&held.top(&["--batch", "--json", "--interval", "200ms", "-n", "2"]));
    assert_eq!(looks.len(), 2);
    let [first, second] = [&looks[0], &looks[1]];
    assert_eq!(
        (&first["header"]["whole_run"], &second["header"]["whole_run"]),
        (&true.into(), &false.into())
    );
    let mutex = row(second, "held_mutex", "mutex").expect("a row");
    assert_eq!(mutex["waiters_now"], 2, "{mutex:#}");
    // The thread that holds it is the first of its process.
    assert_eq!(mutex["holder"]["tid"], mutex["pid"], "{mutex:#}");
    assert_ne!(mutex["longest_waiter"]["tid"], mutex["pid"], "{mutex:#}");
    let figure = |row: &Value, name: &str| row[name].as_f64().unwrap_or(-1.0);
    // Nothing was acquired meanwhile; two waited all the time, and one held it.
    assert_eq!(figure(mutex, "acquires_per_s"), 0.0, "{mutex:#}");
    assert!(
        (figure(mutex, "waiting") - 2.0).abs() < 1e-6 && (figure(mutex, "held") - 1.0).abs() < 1e-6,
        "{mutex:#}"
    );
    let before = row(first, "held_mutex", "mutex").expect("a row");
    assert!(
        figure(mutex, "longest_wait_ns") >= figure(before, "longest_wait_ns") + 1e8,
        "{before:#} {mutex:#}"
    );
    assert!(figure(mutex, "holder_ns") > figure(mutex, "longest_wait_ns"), "{mutex:#}");
    let read = row(second, "held_rwlock", "rwlock read").expect("a row");
    assert_eq!((&read["holders_now"], &read["waiters_now"]), (&1.into(), &0.into()), "{read:#}");

    let pid = mutex["pid"].to_string();
    let mut by_process = Command::new(CONTEND);
    by_process.args(["top", &pid, "--batch", "--wide", "--interval", "100ms"]).stdout(Stdio::piped());
    let mut follower = by_process.spawn().expect("contend starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let seen = lines.find(|line| line.starts_with("held_mutex")).expect("a table comes at once");
    // The kernel cuts a thread's name.
    assert!(seen.contains(" held-") && seen.contains(&format!(" {pid} ")), "{seen}");
    assert!(held.end().success());
    let rest: Vec<String> = lines.collect();
    assert!(follower.wait().expect("top ends").success());
    let last = rest.iter().rfind(|line| line.contains("Rates are")).expect("a last table");
    assert!(last.contains("The program has ended") && last.contains("it exited with 0"), "{last}");
    assert_eq!(rest.iter().filter(|line| line.contains("has ended")).count(), 1, "{rest:?}");

    let finished = tables(&held.top(&["--batch", "--json"]));
    assert_eq!((finished.len(), &finished[0]["header"]["ended"]), (1, &"it exited with 0".into()));
    let mutex = row(&finished[0], "held_mutex", "mutex").expect("a row");
    assert_eq!((&mutex["waiters_now"], &mutex["holder"]), (&Value::Null, &Value::Null), "{mutex:#}");
    assert!((figure(mutex, "contended_share") - 2.0 / 3.0).abs() < 1e-9, "{mutex:#}");
}

#[test]
fn what_is_no_profile_is_refused_as_by_report() {
    let directory = tempfile::tempdir().expect("a place for files");
    let mut header = vec![0_u8; 4096];
    header[..8].copy_from_slice(b"\x89contend");
    let mut newer = header.clone();
    newer[8] = 99;
    let mut damaged = header.clone();
    damaged[8] = 1;
    for (name, bytes) in [
        ("foreign", b"#!/bin/sh\n".repeat(500)),
        ("newer", newer),
        ("truncated", header[..100].to_vec()),
        ("damaged", damaged),
    ] {
        let file = directory.path().join(name);
        std::fs::write(&file, bytes).expect("a file");
        let [top, report] = [&["top", "--batch"][..], &["report"]].map(|words| {
            let mut command = Command::new(CONTEND);
            command.args(words).arg(&file);
            run(command, HANG)
        });
        assert_eq!(top.status.and_then(|status| status.code()), Some(1), "{name}: {top}");
        assert_eq!((top.stderr, top.stdout), (report.stderr, report.stdout), "{name}");
    }
    let mut none = Command::new(CONTEND);
    none.args(["top", "/nowhere/p.contend"]);
    let none = run(none, HANG);
    assert!(none.stderr.contains("cannot read the profile /nowhere/p.contend"), "{none}");
}

/// The page that is served, by a client that knows nothing of contend.
fn scrape(address: &str) -> Vec<Sample> {
    let mut stream = TcpStream::connect(address).expect("a server");
    stream.set_read_timeout(Some(HANG)).expect("a limit");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (header, page) = answer.split_once("\r\n\r\n").expect("a header");
    assert!(header.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{header}");
    exposition::parse(page).unwrap_or_else(|wrong| panic!("{wrong} in\n{page}"))
}

#[test]
fn prometheus_reads_it_until_the_program_ends() {
    let mut held = Held::start();
    let mut command = Command::new(CONTEND);
    command
        .arg("top")
        .arg(held.file())
        .args(["--prometheus", "0", "--interval", "100ms"])
        .stderr(Stdio::piped());
    let mut server = command.spawn().expect("contend starts");
    let mut said = BufReader::new(server.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let line = said.next().expect("it says where it serves");
    let address =
        line.strip_prefix("contend: serving http://").and_then(|line| line.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{line}"));
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let of = |samples: &[Sample], name: &str, lock: &str, way: &str| {
        let right = |sample: &&Sample| {
            sample.name == name
                && sample.labels.get("lock").is_some_and(|label| label == lock)
                && sample.labels["use"] == way
        };
        samples.iter().find(right).map(|sample| sample.value)
    };
    let first = scrape(address);
    assert_eq!(of(&first, "contend_lock_waiters", "held_mutex", "mutex"), Some(2.0), "{first:?}");
    assert_eq!(of(&first, "contend_lock_acquisitions_total", "held_mutex", "mutex"), Some(1.0), "{first:?}");
    let waited = |samples: &[Sample]| {
        of(samples, "contend_lock_wait_seconds_total", "held_mutex", "mutex").expect("a figure")
    };
    let begun = Instant::now();
    // Waits that are not over count as they go on.
    while waited(&scrape(address)) <= waited(&first) {
        assert!(begun.elapsed() < HANG, "the waits stand still");
        std::thread::sleep(PAUSE);
    }
    assert!(held.end().success());
    assert_eq!(said.next().as_deref(), Some("contend: the program has ended: it exited with 0"));
    assert!(server.wait().expect("top ends").success());
}

/// Waits for a child's end, and ends it where it hangs.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < HANG {
        if let Some(status) = child.try_wait().expect("a child") {
            return Some(status);
        }
        std::thread::sleep(PAUSE);
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[test]
fn an_interval_does_not_outlast_the_program() {
    let mut held = Held::start();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(CONTEND);
        command.arg("top").arg(held.file()).args(arguments).args(["--interval", "1h"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("contend starts")
    };
    let [mut tables, mut server] = [&["--batch"][..], &["--prometheus", "0"]].map(start);
    let mut printed = BufReader::new(tables.stdout.take().expect("a pipe"));
    let mut said = BufReader::new(server.stderr.take().expect("a pipe"));
    // Each has looked at the program once, and waits for its next look.
    let mut first = String::new();
    printed.read_line(&mut first).expect("a table");
    said.read_line(&mut first).expect("where it serves");
    assert!(first.contains("Rates are") && first.contains("serving http://"), "{first}");
    assert!(held.end().success());
    for follower in [&mut tables, &mut server] {
        assert!(ended(follower).is_some_and(|status| status.success()), "it outlasts the program");
    }
    let mut last = String::new();
    printed.read_to_string(&mut last).expect("text");
    said.read_to_string(&mut last).expect("text");
    for part in ["The program has ended", "contend: the program has ended: it exited with 0"] {
        assert!(last.contains(part), "{part}: {last}");
    }
}

/// `contend top` on a terminal of its own.
struct OnTerminal {
    /// Our side; without it the terminal is closed.
    ours: Option<File>,
    /// Kept open so that the terminal and its settings outlive the command.
    theirs: Option<OwnedFd>,
    before: libc::termios,
    child: Child,
    columns: u16,
    shown: Vec<u8>,
}

impl OnTerminal {
    fn start(file: &Path) -> Self {
        let columns = 80;
        let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut ours, mut theirs) = (-1, -1);
        // SAFETY: the two results and the size are valid for the call; name and settings may be null.
        let result = unsafe {
            libc::openpty(
                &raw mut ours,
                &raw mut theirs,
                std::ptr::null_mut(),
                std::ptr::null(),
                &raw const size,
            )
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: both were just opened and have no other owner.
        let (ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        for descriptor in [ours.as_raw_fd(), theirs.as_raw_fd()] {
            // SAFETY: an open descriptor. Without this every child would keep the terminal open.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        let before = settings(theirs.as_raw_fd());
        let terminal = || Stdio::from(theirs.try_clone().expect("another handle of the terminal"));
        let mut command = Command::new(CONTEND);
        command
            .arg("top")
            .arg(file)
            .args(["--interval", "100ms"])
            .env("LANG", "en_US.UTF-8")
            .env_remove("LC_ALL");
        command.env("TERM", "xterm").stdin(terminal()).stdout(terminal()).stderr(terminal());
        // SAFETY: both calls are allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                let made = libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) >= 0;
                if made { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        let child = command.spawn().expect("contend starts");
        Self { ours: Some(ours), theirs: Some(theirs), before, child, columns, shown: Vec::new() }
    }

    /// Adds what is shown within a moment.
    fn read(&mut self) {
        const MOMENT_MS: i32 = 300;
        let ours = self.ours.as_mut().expect("the terminal is open");
        let mut ready = libc::pollfd { fd: ours.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut some = [0; 4096];
        // SAFETY: one descriptor, which is open.
        if unsafe { libc::poll(&raw mut ready, 1, MOMENT_MS) } == 1
            && let Ok(read) = ours.read(&mut some)
        {
            self.shown.extend_from_slice(&some[..read]);
        }
    }

    /// Waits until this is shown, behind what was waited for before.
    fn wait_for(&mut self, what: &[u8]) {
        let begun = Instant::now();
        let at = loop {
            if let Some(at) = self.shown.windows(what.len()).position(|window| window == what) {
                break at;
            }
            let shown = String::from_utf8_lossy(&self.shown);
            assert!(begun.elapsed() < HANG, "{:?} was not shown: {shown}", String::from_utf8_lossy(what));
            self.read();
        };
        self.shown.drain(..at);
    }

    /// Waits until this word is on the screen. Only letters that change are drawn, so all of them are drawn anew by and by.
    fn wait_for_word(&mut self, word: &str) {
        let begun = Instant::now();
        let there = |shown: &[u8]| shown.windows(word.len()).any(|window| window == word.as_bytes());
        self.shown.clear();
        for turn in 0.. {
            self.resize(24 + turn % 2);
            self.read();
            if there(&self.shown) {
                return;
            }
            let shown = String::from_utf8_lossy(&self.shown);
            assert!(begun.elapsed() < HANG, "{word} was not shown: {shown}");
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.ours.as_mut().expect("the terminal is open").write_all(keys).expect("keys are taken");
    }

    fn resize(&self, rows: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: self.columns, ws_xpixel: 0, ws_ypixel: 0 };
        let ours = self.ours.as_ref().expect("the terminal is open");
        // SAFETY: an open terminal, and a size. The kernel tells the command by a signal.
        assert_eq!(unsafe { libc::ioctl(ours.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }, 0);
    }

    /// How the command ended; the terminal is as it was before.
    fn ended(mut self) -> Option<i32> {
        self.wait_for(b"\x1b[?25h"); // the cursor is shown again
        self.wait_for(b"\x1b[?1049l"); // and what was on the terminal before
        let status = self.child.wait().expect("the command ends");
        let after = settings(self.theirs.as_ref().expect("kept").as_raw_fd());
        let flags = |of: &libc::termios| (of.c_iflag, of.c_oflag, of.c_cflag, of.c_lflag, of.c_cc);
        assert_eq!(flags(&after), flags(&self.before), "the settings are those of before");
        status.code()
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn settings(terminal: i32) -> libc::termios {
    // SAFETY: all-zero is a valid termios, and the descriptor is that of a terminal.
    unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal, &raw mut settings), 0, "{}", std::io::Error::last_os_error());
        settings
    }
}

/// Keys lead from the table to a lock's calls and out, and the terminal is as it was, however the screen ends.
#[test]
fn the_terminal_is_as_it_was() {
    let held = Held::start();
    let mut quit = OnTerminal::start(&held.file());
    quit.wait_for_word("held_mutex");
    let raw = settings(quit.theirs.as_ref().expect("kept").as_raw_fd());
    assert_eq!(raw.c_lflag & (libc::ICANON | libc::ECHO), 0, "keys come one by one and unseen");
    quit.press(b"m\r");
    quit.wait_for_word("touched,");
    quit.press(b"\x1b");
    quit.columns = 40;
    quit.wait_for_word("acquires/s");
    quit.press(b"q");
    assert_eq!(quit.ended(), Some(0));

    let mut interrupted = OnTerminal::start(&held.file());
    interrupted.wait_for_word("held_mutex");
    interrupted.press(b"\x03");
    assert_eq!(interrupted.ended(), Some(0));

    let mut ended = OnTerminal::start(&held.file());
    ended.wait_for_word("held_mutex");
    send(ended.child.id(), libc::SIGTERM);
    assert_eq!(ended.ended(), Some(130));
}

#[test]
fn the_screen_says_that_the_program_has_ended_and_goes_with_its_terminal() {
    let mut held = Held::start();
    let mut screen = OnTerminal::start(&held.file());
    screen.wait_for_word("held_mutex");
    assert!(held.end().success());
    screen.wait_for_word("exited");
    // The window is closed.
    drop(screen.theirs.take());
    drop(screen.ours.take());
    let begun = Instant::now();
    while screen.child.try_wait().expect("a child").is_none() {
        assert!(begun.elapsed() < HANG, "it goes on without a terminal");
        std::thread::sleep(PAUSE);
    }
}

#[test]
fn a_screen_needs_a_terminal() {
    let directory = tempfile::tempdir().expect("a place for a profile");
    let file = directory.path().join("p.contend");
    let mut command = Command::new(CONTEND);
    command.args(["profile", "-q", "-o"]).arg(&file).args(["--", "true"]);
    assert!(run(command, HANG).succeeded());
    let mut command = Command::new(CONTEND);
    command.arg("top").arg(&file);
    let outcome = run(command, HANG);
    assert_eq!(outcome.status.and_then(|status| status.code()), Some(1), "{outcome}");
    assert!(outcome.stderr.contains("--batch"), "{outcome}");
}
