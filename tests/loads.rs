//! Loads on the running kernel end clean when they are interrupted.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The user and the group without rights.
const NOBODY: u32 = 65_534;

/// Directories of the loads of one process.
fn stages(process: u32) -> Vec<PathBuf> {
    let prefix = format!("contend-bench-{process}-");
    let is_of =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
    [PathBuf::from("/dev/shm"), std::env::temp_dir()]
        .iter()
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()).filter(is_of).collect::<Vec<_>>())
        .collect()
}

/// Processes, other than zombies, whose command line names the directory.
fn processes_of(directory: &Path) -> Vec<String> {
    let named = directory.display().to_string();
    let entries = std::fs::read_dir("/proc").expect("the table of processes").flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&named))
        .collect()
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupted_mail_server_leaves_no_process_and_no_file() {
    let is_installed = ["/usr/sbin/exim4", "/usr/sbin/exim"].iter().any(|path| Path::new(path).is_file());
    if !is_installed {
        println!("left out: exim is not installed");
        return;
    }
    let signals = [(libc::SIGTERM, Some(130)), (libc::SIGKILL, None)];
    for user in [Some(NOBODY), None] {
        signals.into_iter().for_each(|(signal, code)| interrupt_mail_server(user, signal, code));
    }
}

/// Starts a mail server, as a user if this is root, and sees that a signal to the command ends all of it.
fn interrupt_mail_server(user: Option<u32>, signal: libc::c_int, code: Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contend"));
    command.args(["bench", "exim", "--threads", "2", "--duration", "60s"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the call takes no pointers.
    let is_root = unsafe { libc::geteuid() } == 0;
    if let Some(user) = user.filter(|_| is_root) {
        command.uid(user).gid(user);
    }
    let mut child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return println!("left out: nobody else may start the command where it was built");
        }
        child => child.expect("the command starts"),
    };
    // In the command's own mounts, if it has some.
    let seen = |path: &Path| PathBuf::from(format!("/proc/{}/root{}", child.id(), path.display()));
    let delivers = || stages(child.id()).iter().any(|stage| seen(&stage.join("1/mail/user1")).is_file());
    wait_for("messages are delivered", delivers);
    let stage = stages(child.id()).remove(0);
    assert!(!processes_of(&stage).is_empty(), "the server names its directory");
    // SAFETY: no pointers are passed, and the child is not waited for yet, so that the number is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    assert_eq!(child.wait().expect("it ends").code(), code);
    wait_for("the server ends with it", || processes_of(&stage).is_empty());
    if signal == libc::SIGTERM {
        assert!(!stage.exists(), "{} is left over", stage.display());
    } else {
        std::fs::remove_dir_all(&stage).expect("nobody else removes it"); // a killed command cannot
    }
}
