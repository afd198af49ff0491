//! A program that runs already, attached to: what its threads wait for in the kernel, as a profile.
//!
//! Nothing changes in the program. What can be had is what ends in futex(2): waits that sleep, with their times, their callers, and
//! who held the lock meanwhile. An acquisition that does not sleep is seen by no other process, so that neither acquisitions nor
//! critical sections are counted.

mod called;
mod effort;
mod futex;
mod futex_waits;
mod modules;
mod objects;
mod unwinding;
mod wakes;

pub(crate) use called::record_called;

use crate::program::MUTEX_PROFILE;
use crate::record::{create, run_values};
use crate::tasks::Tasks;
use futex::{Enter, FutexCall, FutexEvent, FutexWatch, threads};
use futex_waits::{FutexWait, FutexWaits};
use kernel_locks::Missing;
use kernel_locks::rings::now_ns;
use modules::{Modules, asleep};
use objects::{Memory, Object};
use profile::format::TaskValues;
use profile::read::printable;
use profile::session::{AttachedBehind, AttachedImage, AttachedSection, AttachedWait, Overwrite, Recording};
use session::interrupt;
use session::noise::Watch;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wakes::{Releaser, Wakes};

/// The buffers are read so often at least, and so often it is looked at who holds the locks that threads wait for.
const PAUSE: Duration = Duration::from_millis(20);

/// A thread that goes on with a wait for a lock does so before.
const SETTLED_NS: u64 = 1_000_000_000;

/// Bytes that are read of a command line.
const LONGEST_ARGUMENTS: u64 = 1 << 20;

/// What is attached to, and where the profile goes.
#[derive(Debug, Clone, Copy)]
pub struct Attach<'a> {
    /// The process.
    pub pid: u32,
    /// For how long; without it until the program ends or the command is interrupted.
    pub duration: Option<Duration>,
    /// Where the profile goes; without it to the first of `p.contend`, `p-2.contend` and so on that no launcher is recording to.
    pub output: Option<&'a Path>,
    /// What may be replaced there.
    pub overwrite: Overwrite,
    /// Bytes that the profile may grow to.
    pub size_limit: u64,
}

/// How it came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The process has ended.
    Ended,
    /// The process has begun another program by exec.
    Replaced,
    /// The time was over, or the command was interrupted; the program runs on.
    Detached,
}

/// What came of it.
#[derive(Debug)]
pub struct Attached {
    /// The finished profile.
    pub recording: Recording,
    /// How it ended.
    pub end: End,
    /// What the user may not expect.
    pub remarks: Vec<String>,
}

impl Attach<'_> {
    /// Watches the process to the end of the time, or its own. `begun` gets a line that says what is watched. The interrupt has to be kept, see [`interrupt::keep`].
    ///
    /// # Errors
    ///
    /// There is no such process, or the kernel does not show its calls: then no profile is made. Or the profile cannot be made.
    pub fn run(&self, begun: impl FnOnce(&str)) -> anyhow::Result<Attached> {
        let watch = self.watch()?;
        let recording = create(self.output, self.size_limit, 1, self.overwrite)?;
        self.watched(watch, recording, Beginning::FilesRead, begun)
    }

    /// Begins to watch the process.
    ///
    /// # Errors
    ///
    /// The kernel does not show its calls, or the process has ended.
    pub(crate) fn watch(&self) -> anyhow::Result<FutexWatch> {
        FutexWatch::attach(self.pid).map_err(|missing| with_rights(missing, self.pid))
    }

    /// Records what is watched to its end. `begun` gets a line that says what is watched.
    ///
    /// # Errors
    ///
    /// The profile has no space for the process.
    pub(crate) fn watched(
        &self,
        mut watch: FutexWatch,
        mut recording: Recording,
        from: Beginning,
        begun: impl FnOnce(&str),
    ) -> anyhow::Result<Attached> {
        let seen = Seen::of(self.pid);
        let since = match from {
            Beginning::Start => Since::default(),
            Beginning::FilesRead => Since { ns: now_ns(), lost: watch.lost() },
        };
        recording.count_nanoseconds();
        recording.begun();
        let (started, noise) = (Instant::now(), Watch::start());
        let mut tasks = Tasks::from_now_on(self.pid);
        let mut counted = Counted::begin(self.pid, seen, &recording, since)?;
        counted.take_sleeping();
        begun(&counted.begun());
        let end = self.follow(&mut watch, &mut counted, &mut tasks, &recording);
        let (elapsed, now) = (started.elapsed(), now_ns());
        let Finished { mut remarks, lives } = counted.finish(watch, now);
        let tasks = with_lives(tasks.into_values(), self.pid, lives);
        let running_ns = tasks.iter().fold(0_u64, |sum, task| sum.saturating_add(task.running_ns));
        let run = run_values(elapsed, running_ns, noise.stop().stolen_share.unwrap_or(0.0));
        if let Err(error) = recording.finish(run, &tasks) {
            let path = recording.path().display();
            remarks.push(format!("{path}: {error}: run time and coverage are missing"));
        }
        if end == End::Replaced {
            remarks.push(format!(
                "process {} has begun another program by exec, so that attaching ended: attach again",
                self.pid
            ));
        }
        Ok(Attached { recording, end, remarks })
    }

    fn follow(
        &self,
        watch: &mut FutexWatch,
        counted: &mut Counted<'_>,
        tasks: &mut Tasks,
        recording: &Recording,
    ) -> End {
        let started = Instant::now();
        let mut next_look = started;
        loop {
            let left = self.duration.map_or(PAUSE, |duration| duration.saturating_sub(started.elapsed()));
            let runs = watch.sleep(PAUSE.min(left));
            watch.drain(|event| counted.take(event));
            counted.settle();
            if watch.was_replaced() {
                return End::Replaced;
            }
            if !runs {
                return End::Ended;
            }
            counted.look_at_holders();
            if Instant::now() >= next_look {
                next_look = Instant::now() + tasks.look();
                recording.note_time();
            }
            if interrupt::came() || self.duration.is_some_and(|duration| started.elapsed() >= duration) {
                tasks.look();
                return End::Detached;
            }
        }
    }
}

/// Fails if the kernel would not show the futex calls of a program that this process starts: it is asked for this process's own.
///
/// # Errors
///
/// What is missing.
pub(crate) fn check_rights() -> Result<(), Missing> {
    FutexWatch::attach(std::process::id()).map(drop)
}

/// What a command needs to see another program's waits, with the way to give it to one.
pub(crate) const CAPABILITIES: &str = "CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH \
     (setcap cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep $(which contend))";

/// The one remedy for all rights that may be missing, before the one that is.
fn with_rights(missing: Missing, pid: u32) -> anyhow::Error {
    let wants_rights = missing.wants_rights();
    let error = anyhow::Error::new(missing);
    if !wants_rights {
        return error;
    }
    error.context(format!(
        "no right to attach to process {pid}: run as root, or give the command {CAPABILITIES}"
    ))
}

/// Where `/proc` shows a process: by a thread that lives, if the first one has ended before the others.
fn living(pid: u32) -> PathBuf {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let has_memory =
        |directory: &PathBuf| fs::read(directory.join("maps")).is_ok_and(|maps| !maps.is_empty());
    if has_memory(&process) {
        return process;
    }
    let of_threads = threads(pid).unwrap_or_default().into_iter();
    let mut of_threads = of_threads.map(|tid| process.join(format!("task/{tid}")));
    of_threads.find(has_memory).unwrap_or(process)
}

/// From when on a program is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// From its start, at which the watch began.
    Start,
    /// From when its files have been read, which may have taken seconds: of one that runs already.
    FilesRead,
}

/// Where the recorded time begins.
#[derive(Debug, Clone, Copy, Default)]
struct Since {
    /// ns of the monotonic clock.
    ns: u64,
    /// Events that had been lost by then.
    lost: u64,
}

/// The program as it is before its waits are counted.
struct Seen {
    /// As which process `/proc` shows it.
    pid: u32,
    modules: Modules,
    memory: Memory,
}

impl Seen {
    /// Reads the files that the process has mapped.
    fn of(pid: u32) -> Self {
        Self { pid, modules: Modules::of(pid), memory: Memory::of(pid) }
    }

    /// A process that `/proc` does not show, such as one that has ended: nothing is read of it.
    fn nothing() -> Self {
        Self::of(0) // no process has this identifier
    }
}

/// From the beginning of a thread's first wait to the end of its last one, ns.
type Lives = HashMap<u32, Range<u64>>;

/// What remains when all waits are counted.
struct Finished {
    /// What the user may not expect.
    remarks: Vec<String>,
    lives: Lives,
}

/// Adds what the waits tell of threads to what looks at them have seen: a thread may live between two of these.
fn with_lives(mut tasks: Vec<TaskValues>, pid: u32, mut lives: Lives) -> Vec<TaskValues> {
    let length = |life: &Range<u64>| life.end.saturating_sub(life.start);
    for task in &mut tasks {
        if let Some(life) = u32::try_from(task.tid).ok().and_then(|tid| lives.remove(&tid)) {
            task.age_ns = task.age_ns.max(length(&life));
        }
    }
    let of_process = |(tid, life): (u32, Range<u64>)| TaskValues {
        pid: pid.into(),
        tid: tid.into(),
        started_ns: life.start,
        age_ns: length(&life),
        ..TaskValues::default()
    };
    tasks.extend(lives.into_iter().map(of_process));
    tasks
}

/// What was counted so far.
struct Counted<'r> {
    /// As which process `/proc` shows the program.
    pid: u32,
    /// What the process calls itself.
    own_pid: u32,
    since: Since,
    waits: FutexWaits,
    section: AttachedSection<'r>,
    modules: Modules,
    memory: Memory,
    lives: Lives,
    /// The mappings that are in the profile.
    noted: Vec<u8>,
    /// What is at a futex, as the last wait for it told.
    objects: HashMap<u64, Object>,
    /// Of a program that is attached to, none are seen.
    wakes: Wakes,
}

impl<'r> Counted<'r> {
    /// Begins with nothing. The process calls itself `own_pid`, as its recorder and its waits do, which call its threads likewise.
    fn begin(own_pid: u32, seen: Seen, recording: &'r Recording, since: Since) -> std::io::Result<Self> {
        let Seen { pid, modules, memory } = seen;
        let mut arguments = Vec::new();
        // A process says itself where in its memory they are, and how long.
        let directory = living(pid);
        let file = fs::File::open(directory.join("cmdline"));
        let _ = file.and_then(|file| file.take(LONGEST_ARGUMENTS).read_to_end(&mut arguments));
        let executable = fs::read_link(directory.join("exe")).unwrap_or_default();
        let image = AttachedImage {
            pid: own_pid,
            is_shown: own_pid == pid,
            arguments: &arguments,
            executable: executable.as_os_str().as_bytes(),
        };
        let mut counted = Self {
            pid,
            own_pid,
            since,
            waits: FutexWaits::default(),
            section: AttachedSection::begin(recording, &image)?,
            modules,
            memory,
            lives: Lives::new(),
            noted: Vec::new(),
            objects: HashMap::new(),
            wakes: Wakes::default(),
        };
        counted.note_mappings();
        Ok(counted)
    }

    /// Takes what the threads wait for now.
    fn take_sleeping(&mut self) {
        for tid in threads(self.pid).unwrap_or_default() {
            if let Some(call) = asleep(self.pid, tid, &self.memory) {
                self.take(FutexEvent { time_ns: now_ns(), tid, what: FutexCall::Enter(call) });
            }
        }
    }

    /// What is watched, and what will not be seen.
    fn begun(&self) -> String {
        let pid = self.pid;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        let mut text = format!(
            "attached to process {pid} ({}), which has {threads} thread{}; Ctrl-C ends it",
            printable(name.trim_end()),
            if threads == 1 { "" } else { "s" }
        );
        if self.modules.are_swapped() {
            text += ". Its locks are contend's (`contend run`), of which only waits that sleep are seen, without names and holders: `contend \
                profile` records them with those of the C library";
        }
        if self.modules.are_go() {
            text += &format!(
                ". It is a Go program: its locks are Go's own, of which only sleeping threads are seen: {MUTEX_PROFILE}"
            );
        }
        text
    }

    fn take(&mut self, event: FutexEvent) {
        if let Some(wait) = self.waits.event(event) {
            self.count(&wait);
        }
    }

    /// Takes in that a thread began to wake others at this time, by a call with these return addresses.
    fn take_wake(&mut self, word: u64, at_ns: u64, addresses: &[u64]) {
        let modules = &mut self.modules;
        self.wakes.add(word, at_ns, addresses, || {
            let known = modules.known(addresses);
            let frames = modules.callers(&known).to_vec();
            Releaser { caller: modules.caller(&frames), frames }
        });
    }

    /// Counts the waits that ended some time ago.
    fn settle(&mut self) {
        let now = now_ns();
        for wait in self.waits.settle(now.saturating_sub(SETTLED_NS)) {
            self.count(&wait);
        }
        self.wakes.settle(now);
    }

    /// Counts what of a wait is in the recorded time.
    fn count(&mut self, wait: &FutexWait) {
        if wait.ended_ns < self.since.ns {
            return;
        }
        let wait = &FutexWait { begun_ns: wait.begun_ns.max(self.since.ns), ..wait.clone() };
        let life = self.lives.entry(wait.tid).or_insert(wait.begun_ns..wait.ended_ns);
        *life = life.start.min(wait.begun_ns)..life.end.max(wait.ended_ns);
        let (object, addresses) = self.object(&wait.call);
        match object {
            Object::Thread => self.section.count_join(wait.tid, wait.duration_ns()),
            Object::Memory { kind, address, shared, .. } => {
                let frames = self.modules.callers(&addresses);
                let parts = self.wakes.behind(wait);
                let behind = parts.iter().map(|(by, duration_ns)| AttachedBehind {
                    frames: &by.frames,
                    caller: by.caller,
                    duration_ns: *duration_ns,
                });
                self.section.count(&AttachedWait {
                    tid: wait.tid,
                    kind,
                    address,
                    shared,
                    begun_ns: wait.begun_ns,
                    duration_ns: wait.duration_ns(),
                    timed_out: wait.timed_out(),
                    frames,
                    caller: self.modules.caller(frames),
                    behind: &behind.collect::<Vec<_>>(),
                });
            }
        }
    }

    /// What a call waits for, and the return addresses of its stack.
    fn object(&mut self, call: &Enter) -> (Object, Vec<u64>) {
        let addresses = match (&call.called, &call.stack) {
            (Some(called), _) => self.modules.known(&called.callers),
            (None, Some(stack)) => self.modules.unwind(stack),
            (None, None) => Vec::new(),
        };
        self.note_mappings();
        let known = self.objects.get(&call.word).filter(|_| !self.memory.is_there(call.word));
        let object = known.copied().unwrap_or_else(|| {
            let by_c_library = self.modules.is_by_c_library(&addresses);
            self.memory.object(call, self.modules.function(&addresses), by_c_library)
        });
        self.objects.insert(call.word, object);
        (object, addresses)
    }

    fn note_mappings(&mut self) {
        if let Some((lines, build_ids)) = self.modules.changed_since(&self.noted) {
            self.section.note_mappings(lines, &build_ids);
            self.noted = lines.to_vec();
        }
    }

    /// Notes who holds the locks that threads wait for, one look at each lock.
    fn look_at_holders(&mut self) {
        let unknown = self.waits.pending().filter(|wait| !self.objects.contains_key(&wait.call.word));
        let unknown: Vec<Enter> = unknown.map(|wait| wait.call.clone()).collect();
        for call in unknown {
            self.object(&call);
        }
        let mut looked_at = HashSet::new();
        let pending: Vec<(u32, u64, u64)> =
            self.waits.pending().map(|wait| (wait.tid, wait.call.word, wait.begun_ns)).collect();
        for (tid, word, begun_ns) in pending {
            let Some(&Object::Memory { kind, address, shared, of_glibc }) = self.objects.get(&word) else {
                continue;
            };
            if !of_glibc || !kind.is_lock() || !looked_at.insert(address) {
                continue;
            }
            let holder = self.memory.holder(kind, address).filter(|&holder| holder != tid);
            // What was told is a little old: the thread may have acquired the lock meanwhile.
            let still = asleep(self.pid, tid, &self.memory).is_some_and(|call| call.word == word);
            let Some(holder) = holder.filter(|_| still) else { continue };
            let wait = AttachedWait {
                tid,
                kind,
                address,
                shared,
                begun_ns,
                duration_ns: 0,
                timed_out: false,
                frames: &[],
                caller: 0,
                behind: &[],
            };
            if let Some(lock) = self.section.lock(&wait) {
                self.section.note_holder(lock, holder);
            }
        }
    }

    /// Counts the rest, up to this time: to end the watch takes longer.
    fn finish(mut self, watch: FutexWatch, now: u64) -> Finished {
        let mut rest = Vec::new();
        let waits = &mut self.waits;
        let lost = watch.finish(|event| rest.extend(waits.event(event)));
        let lost = lost.saturating_sub(self.since.lost);
        let (over, pending) = std::mem::take(&mut self.waits).finish();
        // Where events were lost, the end of a wait may be among them.
        let lasts = |wait: &FutexWait| {
            let now = asleep(self.pid, wait.tid, &self.memory);
            now.map_or(lost == 0, |call| lost == 0 || call.word == wait.call.word)
        };
        let pending = pending.into_iter().filter(lasts).map(|wait| FutexWait { ended_ns: now, ..wait });
        let pending: Vec<_> = pending.collect();
        let before = |wait: &FutexWait| wait.begun_ns <= now;
        for wait in rest.into_iter().chain(over).chain(pending).filter(before) {
            self.count(&FutexWait { ended_ns: wait.ended_ns.min(now), ..wait });
        }
        let lives = std::mem::take(&mut self.lives);
        Finished { remarks: self.finish_counted(lost), lives }
    }

    /// Counts the waits that are over, and ends the section; `lost` events are missing. Returns what the user may not expect.
    fn finish_counted(mut self, lost: u64) -> Vec<String> {
        let (over, _) = std::mem::take(&mut self.waits).finish();
        over.iter().for_each(|wait| self.count(wait));
        self.section.finish(lost);
        let of_process = |remark| format!("process {}: {remark}", self.own_pid);
        self.modules.remarks.into_iter().map(of_process).collect()
    }
}
