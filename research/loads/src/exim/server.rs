//! Exim with a configuration of its own: on loopback, with spool, log and mailboxes in one directory, as a user without privileges.

use super::client::recipient;
use super::namespaces::{Namespaces, unshare};
use anyhow::Context as _;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What Debian and others call it.
const NAMES: [&str; 2] = ["exim4", "exim"];

/// Where it is, besides the directories of PATH.
const DIRECTORIES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The program, if it is installed.
pub(super) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> =
        std::env::split_paths(&path).chain(DIRECTORIES.map(PathBuf::from)).collect();
    let all = directories.iter().flat_map(|directory| NAMES.map(|name| directory.join(name)));
    all.into_iter().find(|path| path.is_file())
}

/// A user and a group by number.
#[derive(Debug, Clone, Copy)]
struct User {
    user: u32,
    group: u32,
}

impl User {
    /// `nobody` for the superuser, else the caller.
    fn without_privileges() -> Self {
        const NOBODY: u32 = 65_534;
        if rustix::process::geteuid().is_root() {
            return Self { user: NOBODY, group: NOBODY };
        }
        Self { user: rustix::process::getuid().as_raw(), group: rustix::process::getgid().as_raw() }
    }
}

/// A server that runs, and all its processes.
pub(super) struct Server {
    daemon: Child,
    directory: PathBuf,
    pub(super) port: u16,
    /// Keeps the thread alive that started the daemon.
    _keeps: Sender<Infallible>,
}

impl Server {
    /// Starts one for so many recipients, in a directory that is empty.
    ///
    /// # Errors
    /// It does not start, or accepts no connection within some seconds.
    pub(super) fn start(
        program: &Path,
        directory: &Path,
        recipients: usize,
        namespaces: &Namespaces,
    ) -> anyhow::Result<Self> {
        let user = User::without_privileges();
        let port = free_port().context("there is no free port on loopback")?;
        let made =
            [directory.to_owned(), directory.join("spool"), directory.join("log"), directory.join("mail")];
        for directory in &made {
            fs::create_dir_all(directory)
                .and_then(|()| chown(directory, Some(user.user), Some(user.group)))
                .with_context(|| format!("cannot make {} for exim's user", directory.display()))?;
        }
        let users: String = (0..recipients).map(recipient).map(|name| format!("{name}: {name}\n")).collect();
        let configuration = directory.join("exim.conf");
        for (path, text) in [
            (directory.join("users"), users),
            (configuration.clone(), configuration_text(directory, user, port)),
        ] {
            // Exim's user reads them, whatever the umask.
            fs::write(&path, text)
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o644)))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let output = fs::File::create(directory.join("output"))?;
        let mut command = Command::new(program);
        command.arg("-C").arg(&configuration).args(["-bdf"]).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output).current_dir("/").env_clear();
        // SAFETY: system calls alone, between fork and exec.
        unsafe { command.pre_exec(move || become_unprivileged(user)) };
        let (daemon, keeps) = start_in_thread(command, namespaces.processes);
        let daemon = daemon.with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Self { daemon, directory: directory.to_owned(), port, _keeps: keeps };
        server.await_ready()?;
        Ok(server)
    }

    fn await_ready(&mut self) -> anyhow::Result<()> {
        const LONGEST: Duration = Duration::from_secs(10);
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let ended = self.daemon.try_wait()?;
            anyhow::ensure!(
                ended.is_none() && began.elapsed() < LONGEST,
                "exim accepts no connection: {}",
                self.complaint()
            );
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// What it has said of what went wrong.
    pub(super) fn complaint(&self) -> String {
        let text = |name: &str| fs::read_to_string(self.directory.join(name)).unwrap_or_default();
        let all = text("log/paniclog") + &text("output");
        match all.lines().next() {
            Some(line) => line.to_owned(),
            None => "it says nothing".to_owned(),
        }
    }

    /// What the log says by now.
    pub(super) fn log(&self) -> Log {
        Log(fs::read_to_string(self.directory.join("log/mainlog")).unwrap_or_default())
    }

    /// Messages that are accepted and not delivered.
    pub(super) fn queued(&self) -> usize {
        fn headers(directory: &Path) -> usize {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries
                .map(|entry| match entry.file_type() {
                    Ok(kind) if kind.is_dir() => headers(&entry.path()),
                    _ => usize::from(entry.file_name().to_string_lossy().ends_with("-H")),
                })
                .sum()
        }
        headers(&self.directory.join("spool/input"))
    }

    /// The text of a recipient's mailbox.
    pub(super) fn mailbox(&self, client: usize) -> String {
        let bytes = fs::read(self.directory.join("mail").join(recipient(client))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Server {
    /// Ends the daemon, and whatever it has started.
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        const LONGEST: Duration = Duration::from_secs(5);
        let began = Instant::now();
        while end_processes_of(&self.directory) > 0 && began.elapsed() < LONGEST {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Exim's main log.
pub(super) struct Log(String);

impl Log {
    /// Messages that were delivered.
    pub(super) fn delivered(&self) -> usize {
        self.0.lines().filter(|line| line.ends_with(" Completed")).count()
    }
}

/// Ends every process whose command line names the directory; how many there were.
pub(super) fn end_processes_of(directory: &Path) -> usize {
    let named = directory.display().to_string();
    let processes = procfs::process::all_processes().into_iter().flatten().flatten();
    let is_of = |process: &procfs::process::Process| {
        process.pid() != std::process::id() as i32
            && process.stat().is_ok_and(|stat| stat.state != 'Z')
            && process.cmdline().is_ok_and(|words| {
                let is_exim = words.first().is_some_and(|program| program.contains("exim"));
                is_exim && words.iter().any(|word| word.starts_with(&named))
            })
    };
    let ours: Vec<_> = processes.filter(is_of).collect();
    for process in &ours {
        if let Some(pid) = rustix::process::Pid::from_raw(process.pid()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL); // it may have ended
        }
    }
    ours.len()
}

/// Starts the daemon from a thread that lives until the sender is dropped: the daemon ends with it, as its parent, and only the
/// children of that thread are in a new namespace for processes. The daemon is the first process there, with which all others end.
fn start_in_thread(mut command: Command, own_processes: bool) -> (io::Result<Child>, Sender<Infallible>) {
    let (started, daemon) = channel();
    let (keeps, dropped) = channel();
    thread::spawn(move || {
        let entered = if own_processes { unshare(libc::CLONE_NEWPID) } else { Ok(()) };
        let _ = started.send(entered.and_then(|()| command.spawn())); // the receiver waits for it
        let _ = dropped.recv(); // nothing comes
    });
    (daemon.recv().expect("the thread sends before it waits"), keeps)
}

/// Gives up what a process between fork and exec may do, for good, and has it end with its parent.
fn become_unprivileged(user: User) -> io::Result<()> {
    let done = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: system calls with numbers and no memory.
    unsafe {
        if libc::geteuid() == 0 {
            done(libc::setgroups(0, std::ptr::null()))?;
            done(libc::setgid(user.group))?;
            done(libc::setuid(user.user))?;
        }
        // exim is set-user-ID, which would also let it outlive its parent.
        done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64))?;
        done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong))
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn configuration_text(directory: &Path, User { user, group }: User, port: u16) -> String {
    let directory = directory.display();
    format!(
        "exim_user = {user}
exim_group = {group}
spool_directory = {directory}/spool
log_file_path = {directory}/log/%slog
primary_hostname = localhost
local_interfaces = 127.0.0.1
daemon_smtp_ports = {port}
pid_file_path = {directory}/pid
acl_smtp_rcpt = accept
acl_smtp_data = accept
never_users =
deliver_drop_privilege = true
host_lookup =
helo_lookup_domains =
rfc1413_query_timeout = 0s
tls_advertise_hosts =
smtp_accept_max = 100000
smtp_accept_queue_per_connection = 0
smtp_connect_backlog = 4096
split_spool_directory = true
message_logs = false
keep_environment =
begin routers
local:
  driver = accept
  local_parts = lsearch;{directory}/users
  transport = mailbox
begin transports
mailbox:
  driver = appendfile
  file = {directory}/mail/$local_part_data
  use_lockfile = false
  lock_fcntl_timeout = 60s
  user = {user}
  group = {group}
"
    )
}
