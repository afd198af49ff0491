//! Standing in for a running program: signals go through to it, and its end is passed on.
//!
//! The process that started `contend` knows the launcher's process number and not the program's. So what is sent to the launcher
//! is for the program, and the launcher waits for what the program makes of it. Three kinds of signals are not passed on: what
//! the terminal sends, if the program is in the same process group and so has it already; what the program or a descendant
//! of it sent, to its group or to its parent; and what the launcher brought on itself. A timer that was set before the launcher
//! began is the program's: `alarm` and then `exec` is how a script limits its time.

use anyhow::{Context as _, ensure};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process,
    kill_process_group, set_child_subreaper, set_dumpable_behavior, set_parent_process_death_signal,
    setrlimit, waitid,
};
use rustix::stdio::{dup2_stdin, dup2_stdout};
use std::cell::Cell;
use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use session::signals;

/// Signals that are passed on: those that end a process, or that programs give a meaning to. A fault's are not among them,
/// nor those that stop.
const PASSED_ON: [libc::c_int; 14] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGCONT,
    libc::SIGWINCH, // by which Apache's server ends
];

/// Signals that the terminal sends, to a whole process group.
const OF_TERMINAL: [libc::c_int; 5] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGCONT, libc::SIGWINCH];

/// Signals of the terminal that end a process.
const ENDING: [libc::c_int; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];

/// The signals that are passed on, blocked from the first step that is undone where the program does not start. They come on drop,
/// unless the program has started.
pub struct Held {
    before: signals::Set,
    has_started: Cell<bool>,
}

impl Held {
    /// Blocks them. To be called while the launcher has one thread: all later ones leave these signals alone.
    #[must_use]
    pub fn begin() -> Self {
        Self { before: passed_on().block(), has_started: Cell::new(false) }
    }

    /// Whether one has come that ends the launcher. The terminal does not send it again to a program that starts later.
    fn has_come(&self) -> bool {
        ENDING.into_iter().any(|signal| signals::is_pending(signal) && !signals::is_ignored(signal))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.has_started.get() {
            self.before.block_only();
        }
    }
}

/// A program that the launcher waits for, and passes signals on to.
#[derive(Debug)]
pub struct Supervised {
    child: Child,
    /// The program's process number, as long as it is not reaped.
    alive: Arc<Mutex<Option<libc::pid_t>>>,
}

impl Supervised {
    /// Starts a program.
    ///
    /// If the launcher is killed, the program is killed with it.
    ///
    /// # Errors
    ///
    /// It cannot be started, or a signal that was `held` ends the launcher.
    pub fn start(command: &mut Command, held: &Held) -> anyhow::Result<Self> {
        let before = held.before;
        ensure!(!held.has_come(), "interrupted");
        let launcher = getpid();
        let ignored = make_children_waitable();
        let files = kernel_locks::files::before();
        let in_child = move || {
            before.block_only();
            ignored.restore();
            if let Some(files) = files {
                let _ = setrlimit(Resource::Nofile, files); // the launcher may have raised it for itself
            }
            die_with_parent()?;
            if getppid() != Some(launcher) {
                kill_process(getpid(), Signal::KILL)?; // the launcher was killed before that
            }
            Ok(())
        };
        // SAFETY: the closure does nothing that is not allowed between fork and exec.
        let child = unsafe { command.pre_exec(in_child) }.spawn();
        let child = child.map_err(|error| super::program::cannot_start(command, error))?;
        held.has_started.set(true);
        let alive = Arc::new(Mutex::new(Some(child.id().cast_signed())));
        let watched = Arc::clone(&alive);
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || pass_signals_on(&watched))
            .context("cannot start a thread")?;
        // The program goes on, and is recorded, when what it writes by way of the launcher has no reader any more.
        signals::ignore(libc::SIGPIPE);
        Ok(Self { child, alive })
    }

    /// The program's process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The program's output and errors, if they were asked to be pipes.
    pub fn streams(&mut self) -> (Option<std::process::ChildStdout>, Option<std::process::ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits for the program's end. From then on signals do to the launcher what they do by default.
    ///
    /// # Errors
    ///
    /// It cannot be waited for.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        wait_without_reaping(&self.child);
        // Before it is reaped: after that its number may be another's.
        *self.alive.lock().expect("nobody panics with it") = None;
        self.child.wait().context("cannot wait for the program")
    }
}

/// Whether this process was started with SIGCHLD ignored: then the kernel reaps its children, and they cannot be waited for.
#[derive(Debug, Clone, Copy)]
pub struct ChildrenIgnored(bool);

/// Lets children be waited for, from now on, also where this process was started with SIGCHLD ignored.
pub fn make_children_waitable() -> ChildrenIgnored {
    static AT_FIRST: OnceLock<bool> = OnceLock::new();
    ChildrenIgnored(*AT_FIRST.get_or_init(|| {
        let ignored = signals::is_ignored(libc::SIGCHLD);
        if ignored {
            signals::reset(libc::SIGCHLD);
        }
        ignored
    }))
}

impl ChildrenIgnored {
    /// Lets a program have it as this process was given it, and SIGPIPE as well. Allowed between fork and exec.
    pub fn restore(self) {
        if self.0 {
            signals::ignore(libc::SIGCHLD);
        }
        if signals::pipe_was_ignored() {
            signals::ignore(libc::SIGPIPE);
        }
    }
}

/// Makes this process the parent of what its children leave behind, so that daemons of a program are known to be the program's. Those that
/// have left its group are not reaped before this process ends, and their time counts until then.
pub fn adopt_orphans() {
    // Where it cannot be, they are other programs.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Waits for a child's end, and leaves it to be reaped.
pub fn wait_without_reaping(child: &Child) {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(Pid::from_child(child)), how).err() == Some(Errno::INTR) {}
}

/// Kills the process group that a child leads. The child is not reaped yet, so the group is still its own; without a process
/// left in it nothing happens.
pub fn kill_group(child: &Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Lets the kernel kill this process when the thread that started it ends. Allowed after a fork.
///
/// # Errors
///
/// The kernel does not know how.
pub fn die_with_parent() -> std::io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Closes the launcher's own input and output, which are the program's alone now: a reader of the program's output waits
/// until every process has closed it.
pub fn leave_streams_to_program() {
    if let Ok(nothing) = fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&nothing);
        let _ = dup2_stdout(&nothing);
    }
}

/// Ends this process as the program ended: with its code, or by its signal.
pub fn end_as(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable); // the program has left a core of its own
        if signal == libc::SIGPIPE {
            signals::reset(signal); // which the launcher ignored
        }
        // SAFETY: the program has ended, and its profile is written.
        unsafe { signals::die_of(signal) };
    }
    exit_code(status)
}

/// What a command that passes a program's end on exits with: its code, or 128 and the number of the signal.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Lets a write past the limit of file sizes fail, instead of ending the command before it has told what it has.
pub fn fail_writes_past_the_limit() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler is a plain function. A program does not inherit it, as it would an ignored signal.
    unsafe { signals::handle(libc::SIGXFSZ, nothing) };
}

fn passed_on() -> signals::Set {
    signals::Set::of(PASSED_ON.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()))
}

fn pass_signals_on(alive: &Mutex<Option<libc::pid_t>>) {
    /// What comes so soon after the same signal is a part of it: a process that sends one to a group may send one to the launcher, too.
    const TOGETHER: Duration = Duration::from_millis(100);
    let set = passed_on();
    let mut last: Option<(libc::c_int, Instant)> = None;
    loop {
        let Some((signal, sender)) = set.wait() else { continue };
        let again = last.is_some_and(|(before, at)| before == signal && at.elapsed() < TOGETHER);
        last = Some((signal, Instant::now()));
        let alive = alive.lock().expect("nobody panics with it");
        match *alive {
            Some(program)
                if sender.map_or_else(
                    || !OF_TERMINAL.contains(&signal) || has_left_group(program),
                    |sender| !descends(sender, program),
                ) =>
            {
                // By hand, since `rustix` sends no real-time signals.
                // SAFETY: the program is not reaped yet, so the number is its own.
                unsafe { libc::kill(program, signal) };
            }
            // SAFETY: the program has ended, so this is for the launcher.
            None if !again && ![libc::SIGCONT, libc::SIGWINCH].contains(&signal) => unsafe {
                signals::die_of(signal);
            },
            _ => {}
        }
    }
}

/// Whether the program is in another process group than the launcher, as under timeout(1) and setsid(1): the terminal reaches the
/// launcher alone then.
fn has_left_group(program: libc::pid_t) -> bool {
    // SAFETY: the calls take numbers alone.
    let (group, own) = unsafe { (libc::getpgid(program), libc::getpgrp()) };
    group >= 0 && group != own
}

/// Whether a process is the program, or descends from it. One that has ended for good does not.
fn descends(process: libc::pid_t, program: libc::pid_t) -> bool {
    let mut process = process;
    while process > 1 {
        if process == program {
            return true;
        }
        let Some(parent) = parent_of(process) else { return false };
        process = parent;
    }
    false
}

fn parent_of(process: libc::pid_t) -> Option<libc::pid_t> {
    Some(procfs::process::Process::new(process).ok()?.stat().ok()?.ppid)
}
