//! One run in a child process, which can be ended when it takes too long.
//!
//! A lock that spins and serves in order may take minutes with more threads than cores, and one that is wrong may never end. A
//! thread cannot be ended from outside, a process can. The child is a fork of the command, so that all locks are measured in
//! the same program at the same addresses.

use super::timing::CUT_SHORT;
use launch::supervise::die_with_parent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use serde::{Serialize, de::DeserializeOwned};
use session::{interrupt, threads};
use std::any::Any;
use std::io::{self, PipeReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use workloads::client::Wrong;

/// The exit code of a child whose answer nothing takes.
const NO_ANSWER: i32 = 1;

/// What the failure of a run that took too long begins with.
pub(super) const OVER: &str = "over ";

/// What the failure of a lock begins with that is wrong.
pub(super) const WRONG: &str = "wrong result: ";

/// The longest answer that is taken from a child.
const ANSWER_BYTES: u64 = 1 << 20;

/// Measures a lock in a child process; none where there was nothing to measure.
///
/// # Errors
///
/// What a row of a table says: a wrong result, `over 3 s`, or how else the child ended.
pub(super) fn measured<T: Serialize + DeserializeOwned>(
    limit: Duration,
    measure: impl FnOnce() -> Option<Result<T, Wrong>>,
) -> Option<Result<T, String>> {
    let answer = within(limit, || measure().map(|result| result.map_err(|wrong| format!("{WRONG}{wrong}"))));
    answer.unwrap_or_else(|failure| Some(Err(failure)))
}

/// Runs the body in a child process, which is killed at the limit.
///
/// # Errors
///
/// `over 3 s` at the limit; that an interrupt cut it short; the message of a panic; else how the child ended without an answer.
fn within<T: Serialize + DeserializeOwned>(limit: Duration, body: impl FnOnce() -> T) -> Result<T, String> {
    if interrupt::came() {
        return Err(CUT_SHORT.into());
    }
    let failed = |what: &str, error: io::Error| format!("{what}: {error}");
    let (reader, writer) = io::pipe().map_err(|error| failed("no pipe to a child process", error))?;
    // SAFETY: the child runs the body, which allocates, starts threads and locks locks of its own; the C library keeps all
    // of that usable in the child. The only other thread is one that prints progress, which holds no more than the lock of standard
    // error: a child whose run panics just then waits for it, and ends at the limit.
    match unsafe { libc::fork() } {
        -1 => {
            let refused = failed("no child process", io::Error::last_os_error());
            Err(format!("{refused}; is there a limit of processes (ulimit -u)?"))
        }
        0 => {
            drop(reader);
            answer(writer, body)
        }
        child => {
            drop(writer);
            let answer = read_until(reader, Instant::now() + limit, interrupt::came);
            let status = Pid::from_raw(child).and_then(end);
            match answer.map_err(|error| failed("cannot read from a child process", error))? {
                None if interrupt::came() => Err(CUT_SHORT.into()),
                None => Err(format!("{OVER}{} s", limit.as_secs_f64())),
                Some(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|_| Err(shown(status))),
            }
        }
    }
}

/// What the first panic of a child says.
static FIRST_PANIC: OnceLock<String> = OnceLock::new();

/// What a panic says.
fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref().copied());
    text.unwrap_or("it does not say why").to_owned()
}

/// The child: runs the body, writes what it gave and ends without running anything of the parent's.
fn answer<T: Serialize>(mut writer: io::PipeWriter, body: impl FnOnce() -> T) -> ! {
    // When the parent is killed, no process is left to end a lock that spins for ever.
    let _ = die_with_parent();
    // What the first one says is a part of the row: a thread's panic ends the run with another one, which does not know why.
    std::panic::set_hook(Box::new(|panic| drop(FIRST_PANIC.set(said(panic.payload())))));
    let given = catch_unwind(AssertUnwindSafe(|| serde_json::to_vec(&Ok::<T, String>(body()))));
    let given = given.unwrap_or_else(|panic| {
        let why = FIRST_PANIC.get_or_init(|| said(&*panic));
        let told = threads::refusal(why).unwrap_or_else(|| format!("its run panicked: {why}"));
        serde_json::to_vec(&Err::<T, String>(told))
    });
    let code = match given {
        Ok(bytes) if writer.write_all(&bytes).is_ok() => 0,
        _ => NO_ANSWER,
    };
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// So long an interrupt may wait to be seen.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// What is written until the other end closes; none at the deadline, or when an interrupt came.
fn read_until(
    mut reader: PipeReader,
    deadline: Instant,
    is_interrupted: impl Fn() -> bool,
) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || is_interrupted() {
            return Ok(None);
        }
        let mut watched = [PollFd::new(&reader, PollFlags::IN)];
        let left = Timespec::try_from(left.min(POLL_EVERY)).ok();
        if poll(&mut watched, left.as_ref()).is_ok_and(|ready| ready > 0) {
            let mut some = [0; 4096];
            match reader.read(&mut some)? {
                0 => return Ok(Some(bytes)),
                _ if bytes.len() as u64 > ANSWER_BYTES => return Err(io::Error::other("it is too long")),
                count => bytes.extend_from_slice(&some[..count]),
            }
        }
    }
}

/// Kills the child, if it still runs, and takes note of its end; none if it cannot be had, as when another thread has
/// taken note of it, or the kernel does because SIGCHLD is ignored.
fn end(child: Pid) -> Option<WaitStatus> {
    let _ = kill_process(child, Signal::KILL);
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            ended => return ended.ok().flatten().map(|(_, status)| status),
        }
    }
}

/// How a child ended that gave no answer.
fn shown(status: Option<WaitStatus>) -> String {
    let code = status.and_then(WaitStatus::exit_status);
    match (code, status.and_then(WaitStatus::terminating_signal)) {
        (Some(code), _) => format!("its run ended with status {code} and no answer"),
        (None, Some(signal)) => format!("its run was ended by signal {signal}"),
        (None, None) => "its run ended without an answer".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_answer_comes_through_whole() {
        let numbers: Vec<u64> = (0..20_000).collect();
        assert_eq!(within(LONG, || numbers.clone()), Ok(numbers));
    }

    #[test]
    fn a_run_that_never_ends_is_over_its_limit() {
        let never = || loop {
            std::hint::spin_loop();
        };
        assert_eq!(within::<()>(Duration::from_millis(50), never), Err("over 0.05 s".into()));
    }

    #[test]
    fn an_interrupt_does_not_wait_for_the_limit() {
        let (reader, _writer) = io::pipe().unwrap();
        let looks = std::cell::Cell::new(0);
        let on_second_look = || looks.replace(looks.get() + 1) == 1;
        let begin = Instant::now();
        assert_eq!(read_until(reader, begin + LONG, on_second_look).unwrap(), None);
        assert!(begin.elapsed() < LONG / 2);
    }

    #[test]
    fn a_run_that_dies_is_told_from_one_that_is_wrong() {
        // SAFETY: no pointers are passed.
        let died = within(LONG, || unsafe { libc::raise(libc::SIGKILL) });
        assert_eq!(died, Err("its run was ended by signal 9".into()));
        let panicked = within::<()>(LONG, || {
            let _ = catch_unwind(|| panic!("the lock does not exclude"));
            panic!("thread 1 of the run panicked")
        });
        assert_eq!(panicked, Err("its run panicked: the lock does not exclude".into()));
        let wrong = measured::<u32>(LONG, || Some(Err(Wrong::NotAlone { thread: 3 })));
        assert!(wrong.unwrap().unwrap_err().starts_with("wrong result: thread 3"));
        assert_eq!(measured::<u32>(LONG, || None), None);
    }
}
