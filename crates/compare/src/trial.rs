//! One run of a program: timed, limited, its output kept.

use super::rounds::{End, Trial};
use launch::supervise::{kill_group, wait_without_reaping};
use launch::{end_group, spawn_group};
use rustix::io::ioctl_fionread;
use session::ensure_usage;
use session::noise::cpu_of;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// So much of each stream's beginning is kept, and as much of its end; the rest is read and dropped, so that the program does not block.
const KEPT_BYTES: usize = 8 << 20;

/// How long output is waited for after the program's end, when something that it started still holds the streams.
const LINGER: Duration = Duration::from_secs(1);

/// Runs a command to its end, or until `limit`: then the command and all of its process group are killed. Whatever it
/// leaves running in its group is killed as well, since it would disturb the next run. Where standard input is a file, each
/// command reads it from its beginning; else its input is empty.
///
/// # Errors
///
/// A command that cannot be started; a pipe with data as standard input, which one run alone could read.
pub fn run(mut command: Command, limit: Duration) -> anyhow::Result<Trial> {
    command.stdin(input()?).stdout(Stdio::piped()).stderr(Stdio::piped());
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
    let (mut output, errors) = (text(output), text(errors));
    if !output.is_empty() && !output.ends_with('\n') && !errors.is_empty() {
        output.push('\n');
    }
    Ok(Trial { end, elapsed, cpu, output: output + &errors })
}

/// What the next command reads.
fn input() -> anyhow::Result<Stdio> {
    let Ok(stdin) = io::stdin().as_fd().try_clone_to_owned().map(File::from) else {
        return Ok(Stdio::null());
    };
    let kind = stdin.metadata().map(|data| data.file_type()).ok();
    if kind.is_some_and(|kind| kind.is_file()) {
        // Opened anew, it has a position of its own.
        let from_beginning = File::open(format!("/proc/self/fd/{}", stdin.as_raw_fd()));
        return Ok(from_beginning.map_or_else(|_| Stdio::null(), Stdio::from));
    }
    let has_data =
        kind.is_some_and(|kind| kind.is_fifo()) && ioctl_fionread(&stdin).is_ok_and(|bytes| bytes > 0);
    ensure_usage!(
        !has_data,
        "standard input is a pipe, of which one run alone could read what is in it: put it into a file and give that with `< FILE`"
    );
    Ok(Stdio::null())
}

/// The beginning and the end of a stream.
#[derive(Default)]
struct Ends {
    beginning: Vec<u8>,
    end: Vec<u8>,
    is_cut: bool,
}

impl Ends {
    fn add(&mut self, bytes: &[u8]) {
        let (beginning, rest) = bytes.split_at(bytes.len().min(KEPT_BYTES - self.beginning.len()));
        self.beginning.extend_from_slice(beginning);
        self.end.extend_from_slice(rest);
        if self.end.len() > 2 * KEPT_BYTES {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let surplus = self.end.len().saturating_sub(KEPT_BYTES);
        self.is_cut |= surplus > 0;
        self.end.drain(..surplus);
    }

    /// Lines that were cut are told apart, and the second of them is left out: a part of a number is another one.
    fn text(&mut self) -> String {
        self.cut();
        let whole_lines = self.end.iter().position(|&byte| byte == b'\n').filter(|_| self.is_cut);
        let mut text = String::from_utf8_lossy(&self.beginning).into_owned();
        text += &String::from_utf8_lossy(&self.end[whole_lines.unwrap_or(0)..]);
        text
    }
}

/// What a stream gave so far.
struct Kept {
    bytes: Arc<Mutex<Ends>>,
    /// Hangs up at the stream's end.
    ended: Receiver<()>,
}

/// Reads a stream to its end in a thread of its own.
fn keep(mut stream: impl Read + Send + 'static) -> Kept {
    let (end, ended) = mpsc::channel();
    let bytes = Arc::<Mutex<Ends>>::default();
    let kept = Arc::clone(&bytes);
    std::thread::spawn(move || {
        let _end = end;
        let mut buffer = [0; 16 << 10];
        loop {
            match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break, // a stream that breaks ends here, with what it gave
                Ok(length) => kept.lock().expect("no holder panics").add(&buffer[..length]),
            }
        }
    });
    Kept { bytes, ended }
}

impl Kept {
    /// All of it, or as much as there is when a process that the program has started holds the stream for longer than the program.
    fn text(self) -> String {
        let _ = self.ended.recv_timeout(LINGER);
        self.bytes.lock().expect("no holder panics").text()
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
    use rustix::process::{Pid, Signal, kill_process};
    use session::noise::cpu_of_started;

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
        assert_eq!(shell("printf 12; echo 34 ops >&2", LONG).output, "12\n34 ops\n");
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
    fn a_daemon_of_the_program_is_no_other_program() {
        const BURNT: Duration = Duration::from_millis(100);
        let before = cpu_of_started();
        // Its number comes once it has left the group.
        let script = "echo $(setsid sh -c 'echo $$; exec > /dev/null 2>&1; while :; do :; done' &)";
        let trial = shell(script, LONG);
        let daemon = Pid::from_raw(trial.output.trim().parse().unwrap()).unwrap();
        let started = Instant::now();
        let mut is_counted = false;
        while !is_counted && started.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(5));
            is_counted = cpu_of_started().saturating_sub(before) > BURNT;
        }
        kill_process(daemon, Signal::KILL).unwrap();
        assert!(is_counted, "it has left the group and the session of the program");
    }

    #[test]
    fn a_flood_of_output_is_cut_and_does_not_block() {
        let trial = shell("head -c 40000000 /dev/zero | tr '\\0' 1; echo; echo ops: 7", LONG);
        assert_eq!((trial.end, trial.output.len()), (End::Exited(0), KEPT_BYTES + "\nops: 7\n".len()));
        assert!(trial.output.ends_with("1\nops: 7\n"));
    }

    #[test]
    fn a_command_that_does_not_exist_is_named() {
        let error = run(Command::new("/nonexistent/program"), LONG).unwrap_err();
        assert!(format!("{error:#}").contains("/nonexistent/program"));
    }
}
