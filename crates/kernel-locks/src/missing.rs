//! What stands between a user and the kernel's tracepoints.

use std::io;
use std::path::PathBuf;

/// Why the kernel's locks cannot be watched, in one line, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// No file system with the tracepoints.
    #[error("there is no tracefs at {}: mount -t tracefs tracefs {}", .0.display(), .0.display())]
    Tracefs(PathBuf),
    /// The file system is there for others.
    #[error("{} cannot be read ({error}): tracefs is root's unless it is mounted with another gid= and mode=", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says; no source of this error, whose message has it.
        error: io::Error,
    },
    /// The kernel is too old, or was built without the tracepoint.
    #[error("this kernel has no tracepoint {0}, which {since}", since = since(.0))]
    Tracepoint(&'static str),
    /// The tracepoint's fields are others than those that are known.
    #[error("{}: {what}: this kernel's tracepoint is not one that contend knows", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The rights are missing.
    #[error(
        "perf_event_open refuses tracepoints ({error}): it wants the capability CAP_PERFMON (root has it), or \
         kernel.perf_event_paranoid below 0{}",
        paranoid.map_or(String::new(), |now| format!(", which is {now} here: sysctl kernel.perf_event_paranoid=-1"))
    )]
    Rights {
        /// What the system says; no source of this error, whose message has it.
        error: io::Error,
        /// The value of `kernel.perf_event_paranoid`, if it can be read.
        paranoid: Option<i32>,
    },
    /// Something else that the kernel does not grant.
    #[error("perf_event_open gives no tracepoints here: {0}")]
    Events(io::Error),
    /// No memory for the ring buffers.
    #[error("the ring buffers of perf_event_open cannot be mapped ({0}): raise kernel.perf_event_mlock_kb")]
    Rings(io::Error),
    /// The process that was asked for is not there.
    #[error("there is no process {0}: `pgrep NAME` tells the number of a program that runs")]
    Process(u32),
    /// The process runs a program of 32 bits.
    #[error("process {0} is a program of 32 bits, whose system calls this kernel does not tell")]
    Architecture(u32),
    /// A thread was asked for that is not its process's first one.
    #[error("{tid} is a thread of process {pid}: attach to that")]
    Thread {
        /// The thread.
        tid: u32,
        /// Its process.
        pid: u32,
    },
    /// The process is one of the kernel's own threads.
    #[error(
        "process {0} is a thread of the kernel, which has no locks of a program: the kernel's contended locks are shown by \
         `contend profile --kernel -a -- sleep 10`"
    )]
    KernelThread(u32),
    /// The process runs with the rights of another user.
    #[error(
        "process {pid} cannot be watched ({error}): it is another user's, or has more rights than you: attach as its user, or as root"
    )]
    Foreign {
        /// The process.
        pid: u32,
        /// What the system says; no source of this error, whose message has it.
        error: io::Error,
    },
    /// Events are open files, and there may not be so many.
    #[error(
        "{wanted_by} on {cores} cores take {files} open files, and no more than {limit} are allowed: ulimit -n {files}"
    )]
    Files {
        /// What is to be watched.
        wanted_by: String,
        /// Cores that are online.
        cores: usize,
        /// Files that the events would be.
        files: usize,
        /// How many there may be.
        limit: u64,
    },
}

/// Which kernels have a tracepoint.
fn since(tracepoint: &str) -> &'static str {
    if tracepoint.starts_with("lock:") {
        "Linux has since 5.19"
    } else {
        "Linux has where it was built with CONFIG_FTRACE_SYSCALLS"
    }
}

impl Missing {
    /// Whether a user with more rights would be granted it.
    pub fn wants_rights(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::Rights { .. } | Self::Foreign { .. })
    }

    /// What a refused perf_event_open means.
    pub fn by(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
                Self::Rights { error, paranoid: paranoid.and_then(|text| text.trim().parse().ok()) }
            }
            _ => Self::Events(error),
        }
    }
}
