//! Processes: forks, programs, shell scripts, signals, and what a process asks about itself.

use super::jobs::{Job, Session, Source::Assumed, Source::Public};
use session::signals;
use std::hint::black_box;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

#[rustfmt::skip] // a table
pub(super) const JOBS: &[Job] = &[
    Job { name: "fork_test", does: "100 processes forked, each of which ends at once", source: Public, run: fork_test },
    Job { name: "exec_test", does: "5 processes forked that execute true(1)", source: Public, run: exec_test },
    Job { name: "shell_rtns_1", does: "a shell script that sleeps (here for 50 ms, not for 5 s)", source: Assumed, run: run_script },
    Job { name: "shell_rtns_2", does: "a shell script that sleeps (here for 50 ms, not for 5 s)", source: Public, run: run_script },
    Job { name: "shell_rtns_3", does: "a shell script that sleeps (here for 50 ms, not for 5 s)", source: Assumed, run: run_script },
    Job { name: "signal_test", does: "1,000 signals to itself, each of them caught", source: Public, run: signal_test },
    Job { name: "misc_rtns_1", does: "10 rounds of questions: users, groups, directory, times, terminal, names", source: Public, run: misc_rtns_1 },
];

fn fork_test(session: &mut Session) -> io::Result<()> {
    for _ in 0..session.times(100) {
        // SAFETY: the child does nothing but end, and the parent waits for just this child.
        let ended = unsafe {
            match libc::fork() {
                -1 => return Err(io::Error::last_os_error()),
                0 => libc::_exit(0),
                child => wait_for(child)?,
            }
        };
        if ended != 0 {
            return Err(io::Error::other(format!("a forked process ended with {ended}")));
        }
    }
    Ok(())
}

/// What a child ended with, as waitpid(2) has it.
fn wait_for(child: libc::pid_t) -> io::Result<libc::c_int> {
    let mut status = 0;
    loop {
        // SAFETY: the status is valid for the call.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn succeed(command: &mut Command) -> io::Result<()> {
    // SAFETY: nothing is done. With something to do after the fork there is one, as in AIM7; else the standard library spawns
    // the program without copying the page tables.
    let status = unsafe { command.pre_exec(|| Ok(())) }.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
}

fn exec_test(session: &mut Session) -> io::Result<()> {
    (0..session.times(5)).try_for_each(|_| succeed(&mut Command::new("true")))
}

fn run_script(_: &mut Session) -> io::Result<()> {
    succeed(Command::new("sh").args([
        "-c",
        "if [ $# -lt 1 ]; then exit 0; fi; sleep 0.05; exit 0",
        "sh",
        "9",
    ]))
}

static CAUGHT: AtomicU32 = AtomicU32::new(0);

fn signal_test(session: &mut Session) -> io::Result<()> {
    extern "C" fn count(_: libc::c_int) {
        CAUGHT.fetch_add(1, Ordering::Relaxed);
    }
    let before = CAUGHT.load(Ordering::Relaxed);
    let signals = session.times(1_000);
    // SAFETY: the handler only counts.
    unsafe { signals::handle(libc::SIGUSR2, count) };
    while CAUGHT.load(Ordering::Relaxed).wrapping_sub(before) < signals {
        // SAFETY: a signal to this process, which has a handler for it.
        if unsafe { libc::kill(libc::getpid(), libc::SIGUSR2) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn misc_rtns_1(session: &mut Session) -> io::Result<()> {
    for _ in 0..session.times(10) {
        black_box((std::env::current_dir()?, std::env::var_os("PATH")));
        black_box(rustix::system::uname().sysname().to_owned());
        // SAFETY: the calls take no pointers, or those of values that live as long as the call. A user process has one thread,
        // so that the functions that give a static place are not in each other's way.
        unsafe {
            let mut groups = [0; 64];
            black_box(libc::getgroups(64, groups.as_mut_ptr()));
            black_box((libc::getuid(), libc::geteuid(), libc::getgid(), libc::getegid()));
            black_box((libc::getpid(), libc::getpgrp(), libc::getppid()));
            black_box((libc::getpwnam(c"root".as_ptr()), libc::getpwuid(libc::getuid())));
            black_box(libc::getgrgid(libc::getgid()));
            let mut times = std::mem::zeroed();
            black_box(libc::times(&raw mut times));
            black_box(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime));
            black_box((libc::isatty(0), libc::ttyname(0)));
        }
    }
    Ok(())
}
