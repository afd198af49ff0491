//! Namespaces of the benchmark's own, so that what the mail server does stays among its own files, connections and processes.
//!
//! The command itself enters them and stays there until it ends: its clients connect over the same loopback interface. Root needs
//! no user namespace. Another user enters one first, where the system allows it, and has the right to the others in it. Each that
//! is not to be had is left out, and the notes under the table say why.

use anyhow::Context as _;
use rustix::fs::{Mode, OFlags};
use rustix::process::{getgid, getuid};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The namespaces that the command is in.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    had: Vec<&'static str>,
    /// Each with the reason.
    missing: Vec<String>,
    /// Where the tmpfs is mounted.
    mounted: Option<CString>,
    /// Whether a server can have a namespace for its processes.
    pub(super) processes: bool,
}

impl Namespaces {
    /// Enters those that are to be had, and mounts at the directory a tmpfs that no process outside sees.
    ///
    /// The calling thread enters them, and what it starts from now on. A process that is not root enters none unless this is its only
    /// thread.
    ///
    /// # Errors
    ///
    /// The command is in a network namespace in which no loopback interface comes up, which it cannot leave.
    pub(super) fn enter(directory: &Path) -> anyhow::Result<Self> {
        let mut namespaces = Self::default();
        if !rustix::process::geteuid().is_root() {
            let entered = UserMap::of_this_user().enter_if_that_can_work();
            namespaces.note("users", entered);
            if namespaces.had.is_empty() {
                namespaces
                    .missing
                    .push("mounts, the network and processes (they want a namespace for users)".into());
                return Ok(namespaces);
            }
        }
        let mounted = mount_tmpfs(directory).map(|at| namespaces.mounted = Some(at));
        namespaces.note("mounts", mounted);
        let network = unshare(libc::CLONE_NEWNET);
        if network.is_ok() {
            bring_up_loopback()
                .context("the loopback interface of a new network namespace does not come up")?;
        }
        namespaces.note("the network", network);
        // In a thread that ends: only its children would be in the new namespace.
        let processes = std::thread::spawn(|| unshare(libc::CLONE_NEWPID)).join().expect("one system call");
        namespaces.processes = processes.is_ok();
        namespaces.note("processes", processes);
        Ok(namespaces)
    }

    fn note(&mut self, what: &'static str, entered: io::Result<()>) {
        match entered {
            Ok(()) => self.had.push(what),
            Err(error) => self.missing.push(format!("{what} ({})", reason(what, &error))),
        }
    }

    /// Which there are, and which not.
    pub(super) fn in_words(&self) -> String {
        let mut words = match &self.had[..] {
            [] => "Exim had no namespaces of its own".to_owned(),
            had => format!("Exim had namespaces of its own ({})", had.join(", ")),
        };
        if self.mounted.is_some() {
            words += ", and its files were on a tmpfs that no other process saw";
        }
        if !self.missing.is_empty() {
            words += &format!("; it had none for {}", self.missing.join("; "));
        }
        words + "."
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        if let Some(at) = &self.mounted {
            // SAFETY: the path ends with a zero. At worst the file system lives as long as the command.
            unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

/// What the system's refusal means, and what helps.
fn reason(what: &str, error: &io::Error) -> String {
    let remedy = match (what, error.raw_os_error()) {
        ("users", Some(libc::ENOSPC)) => "the sysctl user.max_user_namespaces has to be above 0",
        ("users", Some(libc::EPERM | libc::EACCES)) => {
            "a container's seccomp filter, the sysctl kernel.unprivileged_userns_clone or a security module forbids it"
        }
        ("users", Some(libc::EINVAL)) => {
            "the process has several threads, or the kernel knows no user namespaces"
        }
        (_, Some(libc::EPERM | libc::EACCES)) => {
            "it wants the capability CAP_SYS_ADMIN, and that no seccomp filter forbids it"
        }
        (_, Some(libc::ENOSPC)) => "a sysctl user.max_*_namespaces is used up",
        _ => return error.to_string(),
    };
    format!("{error}: {remedy}")
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts the calling thread into a new namespace; into one for processes, only what it starts.
pub(super) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::unshare(flags) })
}

/// The lines that map a user and a group to themselves in a user namespace.
struct UserMap {
    user: String,
    group: String,
}

impl UserMap {
    fn of_this_user() -> Self {
        let line = |number: u32| format!("{number} {number} 1");
        Self { user: line(getuid().as_raw()), group: line(getgid().as_raw()) }
    }

    /// Enters a user namespace; allocates nothing.
    fn enter(&self) -> io::Result<()> {
        unshare(libc::CLONE_NEWUSER)?;
        let files = [
            (c"/proc/self/setgroups", "deny"),
            (c"/proc/self/uid_map", &*self.user),
            (c"/proc/self/gid_map", &*self.group),
        ];
        files.into_iter().try_for_each(|(path, text)| write(path, text))
    }

    /// The same, after a child has tried it: where a security module lets a process into a user namespace and gives it no right there,
    /// the command could not go back.
    fn enter_if_that_can_work(&self) -> io::Result<()> {
        let map = Self::of_this_user();
        let mut child = Command::new("true");
        child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: system calls alone, between fork and exec.
        unsafe { child.pre_exec(move || map.enter()) };
        child.status()?;
        self.enter()
    }
}

fn write(path: &CStr, text: &str) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, text.as_bytes())?;
    Ok(())
}

/// Mounts a tmpfs at a directory in a mount namespace of its own; the path as C has it.
fn mount_tmpfs(directory: &Path) -> io::Result<CString> {
    let at = CString::new(directory.as_os_str().as_bytes())?;
    unshare(libc::CLONE_NEWNS)?;
    let mount = |what: &CStr, at: &CStr, kind: &CStr, flags, options: &CStr| {
        // SAFETY: all strings end with a zero.
        check(unsafe {
            libc::mount(what.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
        })
    };
    // Else what is mounted here would be mounted outside.
    mount(c"none", c"/", c"", libc::MS_REC | libc::MS_PRIVATE, c"")?;
    mount(c"tmpfs", &at, c"tmpfs", libc::MS_NOSUID | libc::MS_NODEV, c"mode=0711")?;
    Ok(at)
}

/// Lets the network namespace have 127.0.0.1.
fn bring_up_loopback() -> io::Result<()> {
    // SAFETY: the call takes no pointers, and the descriptor has no other owner.
    let socket = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        check(socket.min(0))?;
        OwnedFd::from_raw_fd(socket)
    };
    // SAFETY: numbers and bytes, for which zeros stand.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the request is one of an interface, which the call reads.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_the_reason() {
        let mut namespaces = Namespaces::default();
        let refused = |number| Err(io::Error::from_raw_os_error(number));
        namespaces.note("users", refused(libc::ENOSPC));
        let words = namespaces.in_words();
        assert!(words.starts_with("Exim had no namespaces of its own; it had none for users ("), "{words}");
        assert!(words.contains("user.max_user_namespaces"), "{words}");
        namespaces.note("the network", Ok(()));
        namespaces.note("processes", refused(libc::EPERM));
        let words = namespaces.in_words();
        assert!(
            words.starts_with("Exim had namespaces of its own (the network); it had none for users ("),
            "{words}"
        );
        assert!(words.contains("CAP_SYS_ADMIN"), "{words}");
    }
}
