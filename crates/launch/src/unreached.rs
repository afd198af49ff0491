//! Processes of a program that the preload library is not loaded into: they run with glibc's locks and record nothing.
//!
//! A thread of the launcher follows the program's descendants in `/proc` while it runs. One that lives for less than the time
//! between two looks may be missed.

use super::library;
use super::program::{Program, Refused};
use procfs::process::Process;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The least time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The processor time of a look is at most this part of the time until the next: with many processes and threads, looks are
/// rarer. Its elapsed time would also count how long others had the cores.
const SHARE: u32 = 200;

/// So many are named at the end.
const NAMED: usize = 8;

/// The C library, in the list of what a process has mapped. The dynamic linker maps what is preloaded before it.
const C_LIBRARY: &str = "/libc.so";

/// The first thread's stack, in the same list: it lies above all libraries.
const STACK: &str = "[stack]";

/// What `/proc` tells of a process; a test says something else.
trait Proc {
    /// The program that it runs.
    fn program(&self, process: u32) -> std::io::Result<PathBuf>;
    /// What it has mapped; as much of that as there was if it ended meanwhile.
    fn mapped(&self, process: u32) -> String;
}

struct Kernel;

impl Proc for Kernel {
    fn program(&self, process: u32) -> std::io::Result<PathBuf> {
        fs::read_link(link(process))
    }

    fn mapped(&self, process: u32) -> String {
        fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default()
    }
}

fn link(process: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/exe"))
}

/// Looks at the descendants of a program until it has ended.
#[derive(Debug)]
pub struct Lookout {
    running: Sender<()>,
    thread: JoinHandle<Processes>,
}

impl Lookout {
    /// Begins to look at a program and its descendants, so many times less often than it could; none if there can be no thread for it.
    pub fn over(program: u32, less_often: u32) -> Option<Self> {
        let (running, ended) = channel();
        let builder = std::thread::Builder::new().name("processes".into());
        let thread = builder.spawn(move || look_until(&ended, program, less_often)).ok()?;
        Some(Self { running, thread })
    }

    /// What was not reached, with the reason for each, as the end of a sentence; none if everything was.
    pub fn finish(self) -> Option<String> {
        drop(self.running);
        let unreached = self.thread.join().ok()?.unreached;
        let (all, more) = (unreached.len(), unreached.len().saturating_sub(NAMED));
        let named: Vec<_> =
            unreached.into_iter().take(NAMED).map(|(name, why)| format!("{name} ({why})")).collect();
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        (all > 0).then(|| format!("{}{rest}", named.join(", ")))
    }
}

fn look_until(ended: &Receiver<()>, program: u32, less_often: u32) -> Processes {
    let mut processes = Processes::default();
    let mut pause = Duration::ZERO;
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let begun = processor_time();
        processes.look(program);
        pause = PAUSE.max(processor_time().saturating_sub(begun) * SHARE) * less_often;
    }
    processes
}

/// What this thread has used.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// What is known of the processes.
#[derive(Debug, Default)]
struct Processes {
    /// The program that each one runs, and whether it is known if the library was loaded into it.
    seen: HashMap<u32, (PathBuf, bool)>,
    /// Name or path, and why.
    unreached: BTreeMap<String, &'static str>,
}

impl Processes {
    /// Looks at a process and all that descend from it, and at those seen before, whose parents may have ended.
    fn look(&mut self, program: u32) {
        let mut alive = HashMap::new();
        let mut pending: Vec<u32> = self.seen.keys().copied().collect();
        pending.push(program);
        while let Some(process) = pending.pop() {
            if alive.contains_key(&process) {
                continue;
            }
            if let Some(now) = self.look_at(process, &Kernel) {
                alive.insert(process, now);
                pending.extend(children(process));
            }
        }
        self.seen = alive;
    }

    /// What a process runs now, and whether it is settled; none if it has ended.
    fn look_at(&mut self, process: u32, proc: &impl Proc) -> Option<(PathBuf, bool)> {
        let path = match proc.program(process) {
            Ok(path) => path,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                if is_of_another_user(process)? {
                    self.unreached.insert(name(process)?, "runs with another user's rights");
                }
                return Some((PathBuf::new(), true));
            }
            Err(_) => return None,
        };
        match self.seen.get(&process) {
            Some((before, true)) if *before == path => return Some((path, true)),
            Some((before, false)) if *before == path => {}
            _ => {
                if let Err(error) = Program::at(link(process)).check_preloadable() {
                    let refused = error.downcast_ref::<Refused>();
                    let why = refused.map_or("cannot be read", |refused| refused.why.in_short());
                    self.unreached.insert(path.display().to_string(), why);
                    return Some((path, true));
                }
            }
        }
        // The list is read in pieces. Who ends in between, or runs another program, has no more of it; and what is mapped meanwhile is
        // missing where the pieces before have passed it. So the absence counts in a second list, read after the C library was there.
        let is_whole = |mapped: &str| mapped.contains(C_LIBRARY) && mapped.contains(STACK);
        let mut mapped = proc.mapped(process);
        let mut reached = library::is_among(&mapped);
        if !reached && is_whole(&mapped) {
            mapped = proc.mapped(process);
            reached = library::is_among(&mapped);
        }
        let complete = is_whole(&mapped) && proc.program(process).is_ok_and(|now| now == path);
        if complete && !reached {
            self.unreached.insert(path.display().to_string(), "got no LD_PRELOAD in its environment");
        }
        Some((path, reached || complete))
    }
}

fn children(process: u32) -> Vec<u32> {
    let Some(threads) = running(process).and_then(|process| process.tasks().ok()) else { return Vec::new() };
    threads.flatten().filter_map(|thread| thread.children().ok()).flatten().collect()
}

/// The name that the kernel has for a process, which any user may read.
fn name(process: u32) -> Option<String> {
    Some(running(process)?.stat().ok()?.comm)
}

/// Whether a process runs as another user than the launcher; none if it has ended.
fn is_of_another_user(process: u32) -> Option<bool> {
    Some(running(process)?.status().ok()?.euid != geteuid().as_raw())
}

fn running(process: u32) -> Option<Process> {
    Process::new(process.cast_signed()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::io;

    /// This process, with lists that are said one after another, the last of them from then on. It may end after some of them.
    struct Said {
        lists: RefCell<Vec<String>>,
        read: Cell<usize>,
        ends_after: usize,
    }

    impl Proc for Said {
        fn program(&self, process: u32) -> io::Result<PathBuf> {
            if self.read.get() >= self.ends_after {
                Err(ErrorKind::NotFound.into())
            } else {
                Kernel.program(process)
            }
        }

        fn mapped(&self, _process: u32) -> String {
            self.read.set(self.read.get() + 1);
            let mut lists = self.lists.borrow_mut();
            if lists.len() > 1 { lists.remove(0) } else { lists[0].clone() }
        }
    }

    /// Who is named, and whether that is settled, after a look at such lists.
    fn looked(lists: &[&str], ends_after: usize) -> (usize, bool) {
        let mut processes = Processes::default();
        let lists = RefCell::new(lists.iter().map(|&list| list.to_owned()).collect());
        let said = Said { lists, read: Cell::new(0), ends_after };
        let (_, settled) = processes.look_at(std::process::id(), &said).expect("this process runs");
        (processes.unreached.len(), settled)
    }

    const PROGRAM: &str = "1000-2000 r-xp 00000000 08:01 1 /usr/bin/worker\n";
    const LIBC: &str = "7000-8000 r-xp 00000000 08:01 2 /usr/lib/libc.so.6\n";
    const PRELOADED: &str = "9000-a000 r-xp 00000000 08:01 3 /var/cache/libcontend_preload-00.so\n";
    const END: &str = "f000-f800 rw-p 00000000 00:00 0 [stack]\n";

    #[test]
    fn whoever_ends_between_two_pieces_of_the_list_is_not_named() {
        let never = usize::MAX;
        let cut = [PROGRAM, LIBC].concat();
        let whole = [PROGRAM, LIBC, END].concat();
        let with_library = [PROGRAM, LIBC, PRELOADED, END].concat();
        assert_eq!(looked(&[&whole], never), (1, true), "it got no library");
        assert_eq!(looked(&[&with_library], never), (0, true));
        assert_eq!(looked(&[&cut], never), (0, false), "cut short, by an exec of the same program for one");
        assert_eq!(looked(&[&whole, &cut], never), (0, false));
        assert_eq!(looked(&[&whole, ""], never), (0, false));
        assert_eq!(looked(&[&whole], 2), (0, false), "it has ended after the second list");
        assert_eq!(looked(&[PROGRAM], never), (0, false), "the linker is still at work");
        assert_eq!(looked(&[&whole, &with_library], never), (0, true), "mapped below what was read already");
    }
}
