//! Users: processes, each of which does the jobs of a mix in an order of its own.
//!
//! A user says on its standard output `ready`, then waits for the end of its standard input, which all users share, so that all
//! begin at once; it says `done` with its CPU time, or `failed` with the reason.

use super::jobs::Session;
use super::mixes::jobs_of_user;
use super::{files, memory};
use anyhow::{Context as _, bail, ensure};
use bench::timing::CUT_SHORT;
use launch::supervise::kill_group;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, set_parent_process_death_signal, waitid};
use session::noise::cpu_of;
use session::{interrupt, signals};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use workloads::aim7::JobMix;

/// The words behind `contend bench` that make the command a user.
const PROGRAM: &str = "aim7-user";

/// A job does one of so many of AIM7's operations, so that a run takes seconds.
pub(super) const DIVISOR: u32 = 10;

/// Between two looks at what happens while users work.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

const READY: &str = "ready";
const DONE: &str = "done";
const FAILED: &str = "failed";

/// What one user does.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// The mix that its jobs are of.
    pub mix: &'static JobMix,
    /// How many jobs.
    pub jobs: u32,
    /// Decides their order, and what is random in them.
    pub seed: u64,
}

/// Is a user: does its task in the directory that it is started in. It ends with its command, the process `parent`.
///
/// # Errors
///
/// A job that fails.
pub fn user(task: Task, parent: u32) -> anyhow::Result<()> {
    if !end_with(parent)? {
        return Ok(());
    }
    memory::remove_ipc(std::process::id()); // of a process that had this number before, and was killed
    let mut session = Session::new(&std::env::current_dir()?, DIVISOR, task.seed);
    let mut jobs = jobs_of_user(task.mix, task.jobs);
    session.shuffle(&mut jobs);
    say(READY)?;
    io::stdin().read_to_end(&mut Vec::new())?;
    let cpu = || cpu_of(libc::RUSAGE_SELF) + cpu_of(libc::RUSAGE_CHILDREN);
    let before = cpu();
    for job in jobs {
        if let Err(error) = (job.run)(&mut session) {
            say(&format!("{FAILED} {}: {error}", job.name))?;
            bail!("the job {} failed: {error}", job.name);
        }
    }
    say(&format!("{DONE} {}", (cpu() - before).as_micros()))
}

/// One line, in one write: lines of several users are not mixed.
fn say(line: &str) -> anyhow::Result<()> {
    io::stdout().write_all(format!("{}\n", line.replace('\n', " ")).as_bytes())?;
    Ok(())
}

/// Sees to it that this process, and what it has started, ends when its parent does, and takes its System V objects with it. False if
/// the parent is gone already.
fn end_with(parent: u32) -> io::Result<bool> {
    extern "C" fn end(_: libc::c_int) {
        memory::remove_ipc(std::process::id());
        // SAFETY: the calls are allowed in a handler. A user leads a group of its own, where its command has started it.
        unsafe {
            if libc::getpgrp() == libc::getpid() {
                libc::kill(0, libc::SIGKILL);
            }
            libc::_exit(128 + libc::SIGTERM);
        }
    }
    // SAFETY: the handler makes system calls only.
    unsafe { signals::handle(libc::SIGTERM, end) };
    set_parent_process_death_signal(Some(Signal::TERM))?;
    Ok(std::os::unix::process::parent_id() == parent)
}

/// What came of the jobs of all users.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Round {
    /// Of all users together.
    pub(super) jobs_per_minute: f64,
    /// Of all users and of what they started.
    pub(super) cpu: Duration,
}

/// Fills a directory with what users need, and removes what users left behind that were killed together with their command.
///
/// # Errors
///
/// It cannot be written there.
pub(super) fn prepare(directory: &Path) -> anyhow::Result<()> {
    memory::remove_left_over_ipc();
    files::prepare(directory).with_context(|| format!("cannot fill {}", directory.display()))
}

/// Lets so many users do a task, all at once and each in an order of its own.
///
/// # Errors
///
/// A user that cannot be started, or ends before its jobs are done, or an interrupt. None of them is left running.
pub(super) fn round(task: Task, users: u32, directory: &Path) -> anyhow::Result<Round> {
    let (gate, opener) = io::pipe()?;
    let mut crowd = Crowd::start(task, users, directory, &gate)?;
    drop(gate);
    crowd.wait_for_all(READY)?;
    let began = Instant::now();
    drop(opener);
    let cpu_us = crowd.wait_for_all(DONE)?;
    let elapsed = began.elapsed();
    crowd.finish()?;
    let jobs = f64::from(users) * f64::from(task.jobs);
    Ok(Round {
        jobs_per_minute: jobs * 60.0 / elapsed.as_secs_f64(),
        cpu: Duration::from_micros(cpu_us.iter().sum()),
    })
}

/// Users that were started. Those that still run when it is dropped are killed.
struct Crowd {
    children: Vec<Child>,
    said: PipeReader,
    /// What was said and not yet read to the end of a line.
    text: String,
}

impl Crowd {
    fn start(task: Task, users: u32, directory: &Path, gate: &PipeReader) -> anyhow::Result<Self> {
        let (said, speaker) = io::pipe()?;
        let mut crowd = Self { children: Vec::new(), said, text: String::new() };
        for number in 0..users {
            ensure!(!interrupt::came(), CUT_SHORT);
            let seed = task.seed.wrapping_mul(1 << 20).wrapping_add(u64::from(number));
            let child = start(Task { seed, ..task }, directory, gate, &speaker);
            crowd.children.push(child.with_context(|| {
                format!(
                    "cannot start user {} of {users}: is there a limit of processes (`ulimit -u`)?",
                    number + 1
                )
            })?);
        }
        Ok(crowd)
    }

    /// Waits until every user has said this word; the numbers behind it.
    fn wait_for_all(&mut self, word: &str) -> anyhow::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        while numbers.len() < self.children.len() {
            ensure!(!interrupt::came(), CUT_SHORT);
            self.read_or_look()?;
            while let Some((line, rest)) = self.text.split_once('\n') {
                match line.split_once(' ').unwrap_or((line, "0")) {
                    (said, number) if said == word => numbers.push(number.parse().unwrap_or(0)),
                    (_, what) => bail!("a user's job failed: {what}"),
                }
                self.text = rest.to_owned();
            }
        }
        Ok(numbers)
    }

    /// Reads what is said; if nothing is said for a while, sees whether a user has ended that should not have.
    fn read_or_look(&mut self) -> anyhow::Result<()> {
        let mut waiting = [PollFd::new(&self.said, PollFlags::IN)];
        let readable = match poll(&mut waiting, Some(&PAUSE)) {
            Ok(ready) => ready > 0,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut buffer = [0; 4096];
        let length = if readable { self.said.read(&mut buffer)? } else { 0 };
        self.text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        if length == 0 { self.look_for_the_dead() } else { Ok(()) }
    }

    fn look_for_the_dead(&self) -> anyhow::Result<()> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        for child in &self.children {
            if let Ok(Some(end)) = waitid(WaitId::Pid(Pid::from_child(child)), how) {
                match (end.terminating_signal(), end.exit_status()) {
                    (Some(signal), _) => bail!("a user was ended by the signal {signal}"),
                    (_, Some(status)) if status != 0 => bail!("a user ended with the exit status {status}"),
                    _ => {} // what it said last is still to be read
                }
            }
        }
        Ok(())
    }

    /// Waits until all users have ended, which they are about to.
    fn finish(mut self) -> anyhow::Result<()> {
        for mut child in self.children.drain(..) {
            child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.children.iter().for_each(kill_group);
        for child in &mut self.children {
            let _ = child.wait(); // it was killed
            memory::remove_ipc(child.id());
        }
    }
}

fn start(task: Task, directory: &Path, gate: &PipeReader, speaker: &PipeWriter) -> anyhow::Result<Child> {
    let this = std::env::current_exe().context("the command cannot find itself")?;
    let mut command = Command::new(this);
    command.args(["bench", PROGRAM, task.mix.name, &task.jobs.to_string(), &task.seed.to_string()]);
    command.arg(std::process::id().to_string());
    command.current_dir(directory).stdin(gate.try_clone()?).stdout(speaker.try_clone()?);
    // A group of its own: Ctrl-C is for the command, and what a user starts ends with it.
    Ok(command.process_group(0).spawn()?)
}
