//! One run of a program: timed, limited, its output kept.

use super::rounds::{End, Trial};
use launch::supervise::{kill_group, wait_without_reaping};
use launch::{end_group, spawn_group};
use session::noise::cpu_of;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// So much of each stream is kept; the rest is read and dropped, so that the program does not block.
const KEPT_BYTES: usize = 16 << 20;

/// How long output is waited for after the program's end, when something that it started still holds the streams.
const LINGER: Duration = Duration::from_secs(1);

/// Runs a command to its end, or until `limit`: then the command and all of its process group are killed. Whatever it
/// leaves running in its group is killed as well, since it would disturb the next run. Its input is empty.
///
/// # Errors
///
/// A command that cannot be started.
pub fn run(mut command: Command, limit: Duration) -> anyhow::Result<Trial> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let cpu_before = cpu_of(libc::RUSAGE_CHILDREN);
    let started = Instant::now();
    let mut child = spawn_group(&mut command)?;
    let output = child.stdout.take().map(keep);
    let errors = child.stderr.take().map(keep);
    let timed_out = wait_or_kill(&child, limit);
    let elapsed = started.elapsed();
    let status = end_group(&mut child)?;
    let cpu = cpu_of(libc::RUSAGE_CHILDREN).saturating_sub(cpu_before);

    let end = match status.code() {
        _ if timed_out => End::TimedOut,
        Some(code) => End::Exited(code),
        None => End::Killed(status.signal().unwrap_or(0)),
    };
    let text = |stream: Option<Kept>| stream.map_or_else(String::new, Kept::text);
    Ok(Trial { end, elapsed, cpu, output: text(output) + &text(errors) })
}

/// What a stream gave so far.
struct Kept {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Hangs up at the stream's end.
    ended: Receiver<()>,
}

/// Reads a stream to its end in a thread of its own.
fn keep(mut stream: impl Read + Send + 'static) -> Kept {
    let (end, ended) = mpsc::channel();
    let bytes = Arc::<Mutex<Vec<u8>>>::default();
    let kept = Arc::clone(&bytes);
    std::thread::spawn(move || {
        let _end = end;
        let mut buffer = [0; 16 << 10];
        loop {
            match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break, // a stream that breaks ends here, with what it gave
                Ok(length) => {
                    let mut kept = kept.lock().expect("no holder panics");
                    let room = KEPT_BYTES.saturating_sub(kept.len());
                    kept.extend_from_slice(&buffer[..length.min(room)]);
                }
            }
        }
    });
    Kept { bytes, ended }
}

impl Kept {
    /// All of it, or as much as there is when a process that the program has started holds the stream for longer than the program.
    fn text(self) -> String {
        let _ = self.ended.recv_timeout(LINGER);
        String::from_utf8_lossy(&self.bytes.lock().expect("no holder panics")).into_owned()
    }
}

/// Waits until the child has ended, without reaping it, so that its number stays its own; kills its group at the
/// limit. Whether it came to that.
fn wait_or_kill(child: &Child, limit: Duration) -> bool {
    std::thread::scope(|scope| {
        let (ended, end) = mpsc::channel::<()>();
        let watchdog = scope.spawn(move || {
            let timed_out = end.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if timed_out {
                kill_group(child);
            }
            timed_out
        });
        wait_without_reaping(child);
        drop(ended);
        watchdog.join().expect("the watchdog does not panic")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, limit: Duration) -> Trial {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, limit).unwrap()
    }

    #[test]
    fn ends_and_output_are_kept() {
        let trial = shell("echo to error >&2; echo to output; exit 3", LONG);
        assert_eq!((trial.end, trial.output.as_str()), (End::Exited(3), "to output\nto error\n"));
        assert_eq!(shell("kill -SEGV $$", LONG).end, End::Killed(libc::SIGSEGV));
        assert_eq!(shell("cat", LONG).end, End::Exited(0), "input is empty");
    }

    #[test]
    fn what_a_program_wrote_is_kept_when_another_process_holds_its_stream() {
        assert_eq!(shell("setsid sleep 5 & sleep 0.3; echo ops: 7", LONG).output, "ops: 7\n");
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let trial = shell("sleep 1000 & sleep 1000", Duration::from_millis(50));
        assert_eq!(trial.end, End::TimedOut);
    }

    #[test]
    fn what_a_program_leaves_behind_does_not_hold_the_run() {
        let trial = shell("sleep 1000 & echo $!", LONG);
        assert_eq!(trial.end, End::Exited(0));
        let stat = format!("/proc/{}/stat", trial.output.trim());
        let lives = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        let started = Instant::now();
        while lives() {
            assert!(started.elapsed() < LONG, "what the program left behind was not killed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_flood_of_output_is_cut_and_does_not_block() {
        let trial = shell("head -c 20000000 /dev/zero | tr '\\0' x", LONG);
        assert_eq!((trial.end, trial.output.len()), (End::Exited(0), KEPT_BYTES));
    }

    #[test]
    fn a_command_that_does_not_exist_is_named() {
        let error = run(Command::new("/nonexistent/program"), LONG).unwrap_err();
        assert!(format!("{error:#}").contains("/nonexistent/program"));
    }
}
