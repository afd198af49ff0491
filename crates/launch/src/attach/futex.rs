//! A process that runs already, and its calls of futex(2): the waits that locks, condition variables and the like end in.
//!
//! `syscalls:sys_enter_futex` and `syscalls:sys_exit_futex` are opened on every thread of the process, once for each core, and
//! threads that it starts from then on inherit them; other processes do not, its own children included. An enter that waits
//! comes with the registers and the top of the user's stack. Calls that wake come as exits alone: a filter leaves out their
//! enters. Nothing in the process changes, and the events are gone with the process that opened them.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

use perf_event_open_sys::{bindings, ioctls};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, getrlimit, pidfd_open, setrlimit};

use kernel_locks::Missing;
use kernel_locks::event::{Reorder, Timed};
use kernel_locks::records::{Cursor, Record, Records, SAMPLE_TYPE, Sample};
use kernel_locks::ring::Ring;
use kernel_locks::tracepoint::{Field, Tracefs};
use kernel_locks::watch::{call, check, lost_by, now_ns, ring_bytes};

/// Bytes that are kept of a stack, from its top: callers of a lock function are near, and more costs the program more.
const STACK_BYTES: u32 = 2048;

/// Bytes of a ring buffer on a machine with few cores: with its stack, an event takes twenty times what others do.
const LARGEST_RING: usize = 16 << 20;

/// The registers that unwinding begins with, by their numbers in the kernel's `perf_regs.h`; samples have them in this order.
#[cfg(target_arch = "x86_64")]
const REGISTERS: [u32; 3] = [6, 7, 8]; // rbp, rsp, rip
#[cfg(target_arch = "aarch64")]
const REGISTERS: [u32; 4] = [29, 30, 31, 32]; // x29, lr, sp, pc

/// What futex(2) may be asked to wait for, without its flags: `FUTEX_WAIT`, `FUTEX_LOCK_PI`, `FUTEX_WAIT_BITSET`,
/// `FUTEX_WAIT_REQUEUE_PI` and `FUTEX_LOCK_PI2`.
const WAITS: [u32; 5] = [0, 6, 9, 11, 13];
/// The word is not shared between processes.
pub(crate) const PRIVATE: u32 = 128;
const CLOCK_REALTIME: u32 = 256;

/// A call of futex(2), at its beginning or its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FutexEvent {
    /// When, ns of the monotonic clock.
    pub(crate) time_ns: u64,
    /// Who calls.
    pub(crate) tid: u32,
    /// Which of them.
    pub(crate) what: FutexCall,
}

/// Beginning or end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FutexCall {
    /// A call that waits begins.
    Enter(Enter),
    /// A call ends, whether it waited or not.
    Exit {
        /// What it returns: a negated error number below 0.
        result: i64,
    },
}

/// What a call that waits is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Enter {
    /// The futex's address.
    pub(crate) word: u64,
    /// Operation and flags.
    pub(crate) operation: u32,
    /// What the word has to hold for a wait.
    pub(crate) value: u32,
    /// Where the call came from; none if the kernel did not tell.
    pub(crate) stack: Option<UserStack>,
}

/// The registers and the top of the stack of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserStack {
    /// The instruction that runs.
    pub(crate) instruction: u64,
    /// The stack pointer: the address of the first byte of `bytes`.
    pub(crate) pointer: u64,
    /// The frame pointer, if the code uses it as one.
    pub(crate) frame: u64,
    /// The link register; 0 where there is none.
    pub(crate) link: u64,
    /// The stack from there.
    pub(crate) bytes: Box<[u8]>,
}

impl Timed for FutexEvent {
    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

/// Where the fields of the two events lie.
#[derive(Debug, Clone)]
struct Layout {
    enter: u64,
    exit: u64,
    kind: Field,
    word: Field,
    operation: Field,
    value: Field,
    result: Field,
}

impl Layout {
    fn of(tracefs: &Tracefs) -> Result<Self, Missing> {
        let (enter, enter_path) = tracefs.tracepoint("syscalls:sys_enter_futex")?;
        let (exit, exit_path) = tracefs.tracepoint("syscalls:sys_exit_futex")?;
        let of_enter =
            |name| enter.number(name).map_err(|what| Missing::Format { path: enter_path.clone(), what });
        let of_exit =
            |name| exit.number(name).map_err(|what| Missing::Format { path: exit_path.clone(), what });
        Ok(Self {
            enter: enter.id,
            exit: exit.id,
            kind: of_enter("common_type")?, // a common field: it lies at one place in all events
            word: of_enter("uaddr")?,
            operation: of_enter("op")?,
            value: of_enter("val")?,
            result: of_exit("ret")?,
        })
    }

    /// The event of a sample; none if it is none of these, or too short.
    fn event(&self, sample: &Sample<'_>) -> Option<FutexEvent> {
        let kind = self.kind.read(sample.raw)?;
        let what = if kind == self.enter {
            FutexCall::Enter(Enter {
                word: self.word.read(sample.raw)?,
                operation: self.operation.read(sample.raw)? as u32,
                value: self.value.read(sample.raw)? as u32,
                stack: user_stack(sample.rest),
            })
        } else if kind == self.exit {
            FutexCall::Exit { result: self.result.read(sample.raw)?.cast_signed() }
        } else {
            return None;
        };
        Some(FutexEvent { time_ns: sample.time_ns, tid: sample.tid, what })
    }
}

/// Whether a process is a thread of the kernel, by the flags of its `stat`, the seventh field behind the name.
fn is_of_kernel(pid: u32) -> bool {
    const PF_KTHREAD: u32 = 0x0020_0000;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields
        .split(' ')
        .nth(6)
        .and_then(|flags| flags.parse().ok())
        .is_some_and(|flags: u32| flags & PF_KTHREAD != 0)
}

/// Reads what `PERF_SAMPLE_REGS_USER` and `PERF_SAMPLE_STACK_USER` add to a sample.
fn user_stack(rest: &[u8]) -> Option<UserStack> {
    let mut rest = Cursor(rest);
    if rest.u64()? == u64::from(bindings::PERF_SAMPLE_REGS_ABI_NONE) {
        return None;
    }
    let mut registers = [0; REGISTERS.len()];
    for register in &mut registers {
        *register = rest.u64()?;
    }
    let length = usize::try_from(rest.u64()?).ok()?;
    let bytes = rest.bytes(length)?;
    // How much of it the kernel could read comes behind it, unless nothing was asked for.
    let filled = if length > 0 { usize::try_from(rest.u64()?).ok()? } else { 0 };
    let bytes = bytes.get(..filled)?.into();
    #[cfg(target_arch = "x86_64")]
    let ([frame, pointer, instruction], link) = (registers, 0);
    #[cfg(target_arch = "aarch64")]
    let [frame, link, pointer, instruction] = registers;
    Some(UserStack { instruction, pointer, frame, link, bytes })
}

/// A core that is watched: its ring buffer, and the event that it belongs to. That one counts nothing, and outlives the threads
/// whose events write into the ring.
#[derive(Debug)]
struct Core {
    number: usize,
    event: OwnedFd,
    ring: Ring,
}

/// The futex calls of a process, as they are told.
#[derive(Debug)]
pub(crate) struct FutexWatch {
    pid: u32,
    process: OwnedFd,
    layout: Layout,
    cores: Vec<Core>,
    events: Vec<OwnedFd>,
    /// What was read of one ring.
    bytes: Vec<u8>,
    reorder: Reorder<FutexEvent>,
    lost: u64,
    /// When the process began another program, whose addresses are others.
    replaced_ns: Option<u64>,
    /// When the last reading of the rings began: whatever happened before has been read.
    read_until_ns: u64,
}

impl FutexWatch {
    /// Begins to watch a process.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub(crate) fn attach(pid: u32) -> Result<Self, Missing> {
        Self::by(&Tracefs::of_this_machine(), pid)
    }

    /// The same with tracefs at another place.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub(crate) fn by(tracefs: &Tracefs, pid: u32) -> Result<Self, Missing> {
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Missing::Process(pid))?;
        let process = pidfd_open(process, PidfdFlags::empty()).map_err(|_| Missing::Process(pid))?;
        if is_of_kernel(pid) {
            return Err(Missing::KernelThread(pid));
        }
        let layout = Layout::of(tracefs)?;
        let cores = open_cores()?;
        let mut watch = Self {
            pid,
            process,
            layout,
            cores,
            events: Vec::new(),
            bytes: Vec::new(),
            reorder: Reorder::default(),
            lost: 0,
            replaced_ns: None,
            read_until_ns: 0,
        };
        watch.open_threads()?;
        for event in &watch.events {
            // SAFETY: the descriptor is an open event.
            check(unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) }).map_err(Missing::by)?;
        }
        Ok(watch)
    }

    /// Opens the events on all threads. Threads that come meanwhile inherit them, or else are found by another look; one that does
    /// both has its events twice.
    fn open_threads(&mut self) -> Result<(), Missing> {
        let mut known = BTreeSet::new();
        loop {
            let mut fresh = threads(self.pid)?;
            fresh.retain(|&tid| known.insert(tid));
            if fresh.is_empty() {
                return if self.events.is_empty() { Err(Missing::Process(self.pid)) } else { Ok(()) };
            }
            allow_files(known.len(), self.cores.len())?;
            for tid in fresh {
                match self.open_thread(tid) {
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {} // it has ended
                    Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                        return Err(Missing::Foreign { pid: self.pid, source: error });
                    }
                    opened => opened.map_err(Missing::by)?,
                }
            }
        }
    }

    fn open_thread(&mut self, tid: u32) -> io::Result<()> {
        for core in &self.cores {
            for waits in [true, false] {
                let event = open(&self.layout, waits, tid, core.number)?;
                // SAFETY: both descriptors are open events.
                check(unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), core.event.as_raw_fd()) })?;
                self.events.push(event);
            }
        }
        Ok(())
    }

    /// Sleeps until a buffer is filling up or the process ends, but no longer than this. Whether the process still runs the program
    /// that was attached to.
    pub(crate) fn sleep(&self, longest: Duration) -> bool {
        let mut files: Vec<_> =
            self.cores.iter().map(|core| PollFd::new(&core.event, PollFlags::IN)).collect();
        files.push(PollFd::new(&self.process, PollFlags::IN));
        let timeout =
            Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
        let waited = poll(&mut files, Some(&timeout)); // interrupted, it is over
        let ended = waited.is_ok() && files.last().is_some_and(|process| !process.revents().is_empty());
        !ended && self.replaced_ns.is_none()
    }

    /// Whether the process has begun another program by exec. Its calls are not handed out.
    pub(crate) fn was_replaced(&self) -> bool {
        self.replaced_ns.is_some()
    }

    /// Reads the buffers, and hands out the calls since the last time but one, in order: what happened later on one core may not be in
    /// order with the others yet.
    pub(crate) fn drain(&mut self, take: impl FnMut(FutexEvent)) {
        let begun_ns = now_ns();
        self.read_rings();
        let settled_ns = std::mem::replace(&mut self.read_until_ns, begun_ns);
        self.hand_out(settled_ns, take);
    }

    /// Ends the watch, and hands out the rest.
    ///
    /// Returns how many events found no space in a buffer.
    pub(crate) fn finish(mut self, take: impl FnMut(FutexEvent)) -> u64 {
        for event in &self.events {
            // SAFETY: the descriptor is an open event; at worst it goes on.
            unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) };
        }
        self.read_rings();
        self.hand_out(u64::MAX, take);
        // The buffers tell of a loss when the next event finds space.
        let told: u64 = self.events.iter().map(lost_by).sum();
        self.lost.max(told)
    }

    fn read_rings(&mut self) {
        for core in &mut self.cores {
            self.bytes.clear();
            core.ring.drain(&mut self.bytes);
            for record in Records(&self.bytes) {
                match record {
                    Ok(Record::Sample(sample)) if sample.pid == self.pid => {
                        self.layout.event(&sample).into_iter().for_each(|event| self.reorder.push(event));
                    }
                    Ok(Record::Lost(count)) => self.lost += count,
                    Ok(Record::Exec(time_ns)) => drop(self.replaced_ns.get_or_insert(time_ns)),
                    Ok(Record::Sample(_) | Record::Other) | Err(_) => {}
                }
            }
        }
    }

    fn hand_out(&mut self, until_ns: u64, take: impl FnMut(FutexEvent)) {
        let end_ns = self.replaced_ns.unwrap_or(u64::MAX);
        self.reorder.until(until_ns).filter(|event| event.time_ns < end_ns).for_each(take);
    }
}

/// The threads of a process, by their identifiers.
fn threads(pid: u32) -> Result<Vec<u32>, Missing> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| Missing::Process(pid))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Lets this process have as many open files as the events are, if it may.
fn allow_files(threads: usize, cores: usize) -> Result<(), Missing> {
    /// Files that the rest of this process may have open.
    const OTHERS: usize = 256;
    let files = threads * cores * 2 + cores + OTHERS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < files as u64) {
        if let Some(limit) = limit.maximum.filter(|&maximum| maximum < files as u64) {
            return Err(Missing::Files { threads, cores, files, limit });
        }
        limit.current = limit.maximum;
        // Refused, the events tell how many files there may be.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    Ok(())
}

/// A ring buffer for each core that is online.
fn open_cores() -> Result<Vec<Core>, Missing> {
    // SAFETY: the call takes no pointers.
    let all = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize;
    let bytes = ring_bytes(all, LARGEST_RING);
    let mut cores = Vec::new();
    for number in 0..all {
        let mut attributes = bindings::perf_event_attr {
            type_: bindings::PERF_TYPE_SOFTWARE,
            config: u64::from(bindings::PERF_COUNT_SW_DUMMY),
            ..plain_attributes()
        };
        attributes.__bindgen_anon_2.wakeup_watermark = (bytes / 4) as u32;
        attributes.set_watermark(1);
        attributes.set_exclude_kernel(1); // so that it needs no permission
        let event = match call(&mut attributes, 0, number) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue, // offline
            event => event.map_err(Missing::by)?,
        };
        let ring = Ring::map(event.as_fd(), bytes).map_err(Missing::Rings)?;
        cores.push(Core { number, event, ring });
    }
    Ok(cores)
}

/// What all events of the watch have in common: one clock, without which they could not share a buffer.
fn plain_attributes() -> bindings::perf_event_attr {
    let mut attributes = bindings::perf_event_attr {
        size: size_of::<bindings::perf_event_attr>() as u32,
        sample_type: SAMPLE_TYPE,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attributes.set_use_clockid(1);
    attributes.set_sample_id_all(1);
    attributes.set_disabled(1);
    attributes
}

/// Opens one of the tracepoints on a thread and a core: the enters of calls that wait, or all exits.
fn open(layout: &Layout, waits: bool, tid: u32, core: usize) -> io::Result<OwnedFd> {
    let mut attributes = bindings::perf_event_attr {
        type_: bindings::PERF_TYPE_TRACEPOINT,
        config: if waits { layout.enter } else { layout.exit },
        read_format: u64::from(bindings::PERF_FORMAT_LOST),
        ..plain_attributes()
    };
    attributes.__bindgen_anon_1.sample_period = 1;
    attributes.set_inherit(1);
    attributes.set_inherit_thread(1);
    // Samples have a call chain, which is empty: frame pointers do not lead out of the C library.
    attributes.set_exclude_callchain_user(1);
    attributes.set_exclude_callchain_kernel(1);
    if waits {
        attributes.sample_type |=
            u64::from(bindings::PERF_SAMPLE_REGS_USER | bindings::PERF_SAMPLE_STACK_USER);
        attributes.sample_regs_user = REGISTERS.iter().fold(0, |mask, register| mask | 1 << register);
        attributes.sample_stack_user = STACK_BYTES;
        attributes.set_comm(1);
        attributes.set_comm_exec(1);
    }
    let thread = tid.cast_signed();
    let invalid = |opened: &io::Result<_>| {
        opened.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
    };
    let mut opened = call(&mut attributes, thread, core);
    if invalid(&opened) {
        attributes.read_format = 0; // before Linux 6.0
        opened = call(&mut attributes, thread, core);
    }
    if invalid(&opened) {
        attributes.set_inherit_thread(0); // before Linux 5.13: calls of children come too, and are left out
        opened = call(&mut attributes, thread, core);
    }
    let event = opened?;
    if waits {
        let filter = std::ffi::CString::new(filter()).expect("no zero");
        // SAFETY: the descriptor is an open event, and the text ends with a zero.
        check(unsafe { ioctls::SET_FILTER(event.as_raw_fd(), filter.as_ptr().cast_mut()) })?;
    }
    Ok(event)
}

/// Lets those calls through that wait.
fn filter() -> String {
    let flags = [0, PRIVATE, CLOCK_REALTIME, PRIVATE | CLOCK_REALTIME];
    let operations = WAITS.iter().flat_map(|wait| flags.map(|flags| format!("op == {}", wait | flags)));
    operations.collect::<Vec<_>>().join(" || ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_locks::made::sample;
    use kernel_locks::made::write_format;

    /// The layout of Linux 5 and 6 on machines of 64 bits.
    fn layout(directory: &std::path::Path) -> Result<Layout, Missing> {
        let enter = "\tfield:u32 * uaddr;\toffset:16;\tsize:8;\tsigned:0;
\tfield:int op;\toffset:24;\tsize:8;\tsigned:0;
\tfield:u32 val;\toffset:32;\tsize:8;\tsigned:0;\n";
        let exit = "\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n";
        write_format(directory, "syscalls/sys_enter_futex", 501, enter);
        write_format(directory, "syscalls/sys_exit_futex", 500, exit);
        Layout::of(&Tracefs::at(directory))
    }

    fn event(layout: &Layout, raw: &[u8], rest: &[u8]) -> Option<FutexEvent> {
        let mut bytes = sample(8, 5, 3, &[], raw);
        bytes.extend(rest);
        let length = (bytes.len() as u16).to_le_bytes();
        bytes[6..8].copy_from_slice(&length);
        match Records(&bytes).next() {
            Some(Ok(Record::Sample(sample))) => layout.event(&sample),
            other => panic!("{other:?}"),
        }
    }

    fn raw(id: u64, words: &[u64]) -> Vec<u8> {
        [&[id, 0], words].concat().iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn an_enter_has_its_arguments_and_the_stack_and_an_exit_the_result() {
        let directory = tempfile::tempdir().unwrap();
        let layout = layout(directory.path()).unwrap();
        let registers: Vec<u64> = (1..=REGISTERS.len() as u64).collect();
        let stack = [&[2], &registers[..], &[16, 0xaa, 0xbb, 8]].concat();
        let rest: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
        let enter = raw(501, &[0x4040, u64::from(PRIVATE), 2]);
        let expected = UserStack {
            instruction: REGISTERS.len() as u64,
            pointer: REGISTERS.len() as u64 - 1,
            frame: 1,
            link: if REGISTERS.len() == 4 { 2 } else { 0 },
            bytes: 0xaa_u64.to_le_bytes().into(), // the kernel could read only half of it
        };
        let told = |stack| {
            let what = FutexCall::Enter(Enter { word: 0x4040, operation: PRIVATE, value: 2, stack });
            Some(FutexEvent { time_ns: 5, tid: 8, what })
        };
        assert_eq!(event(&layout, &enter, &rest), told(Some(expected)));
        for end in 0..rest.len() {
            assert_eq!(event(&layout, &enter, &rest[..end]), told(None), "cut at {end}");
        }
        let exit = raw(500, &[u64::MAX - 109]);
        let what = FutexCall::Exit { result: -110 };
        assert_eq!(event(&layout, &exit, &[]), Some(FutexEvent { time_ns: 5, tid: 8, what }));
        assert_eq!(event(&layout, &exit[..20], &[]), None, "too short");
        assert_eq!(event(&layout, &raw(9, &[0; 3]), &[]), None, "another tracepoint");
    }

    #[test]
    fn calls_that_wake_are_filtered() {
        let filter = filter();
        let passes = |operation: u32| filter.split(" || ").any(|term| term == format!("op == {operation}"));
        assert!([0, 128, 9, 137, 265, 393, 6, 134, 141].into_iter().all(passes), "{filter}");
        assert!(![1, 129, 4, 132, 7, 135].into_iter().any(passes), "{filter}");
    }

    #[test]
    fn what_is_missing_is_named_with_a_remedy() {
        let own = std::process::id();
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("tracing");
        let missing = |pid| FutexWatch::by(&Tracefs::at(&place), pid).unwrap_err().to_string();
        assert_eq!(
            missing(own),
            format!("there is no tracefs at {0}: mount -t tracefs tracefs {0}", place.display())
        );
        std::fs::create_dir_all(place.join("events")).unwrap();
        let text = missing(own);
        assert!(
            text.contains("syscalls:sys_enter_futex") && text.contains("CONFIG_FTRACE_SYSCALLS"),
            "{text}"
        );
        if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            let text = missing(2);
            assert!(text.contains("thread of the kernel") && text.contains("profile --kernel"), "{text}");
        }
        assert!(!is_of_kernel(own));
        for nobody in [0, u32::MAX, i32::MAX as u32] {
            let text = missing(nobody);
            assert!(text.contains(&format!("no process {nobody}:")) && text.contains("pgrep"), "{text}");
        }
    }

    /// This process waits for a word that no thread wakes, until its time is over; a thread that came later does as well.
    #[test]
    fn waits_of_a_process_and_its_later_threads_are_told() {
        let word = std::sync::atomic::AtomicU32::new(7);
        let mut watch = match FutexWatch::attach(std::process::id()) {
            Ok(watch) => watch,
            Err(missing) => return println!("skipped: {missing}"),
        };
        let address = word.as_ptr() as u64;
        let wait = || {
            let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            // SAFETY: the word and the time live as long as the call.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    7,
                    &raw const time,
                )
            };
            assert_eq!(result, -1, "nobody wakes");
            // SAFETY: the call takes nothing.
            unsafe { libc::gettid() }.cast_unsigned()
        };
        let tids = [wait(), std::thread::scope(|scope| scope.spawn(wait).join().expect("it waits"))];
        let mut events = Vec::new();
        assert!(watch.sleep(Duration::ZERO), "this process runs");
        watch.drain(|event| events.push(event));
        assert!(!watch.was_replaced());
        let lost = watch.finish(|event| events.push(event));
        assert_eq!(lost, 0);
        for tid in tids {
            let mut own = events.iter().filter(|event| event.tid == tid).skip_while(|event| {
                !matches!(&event.what, FutexCall::Enter(enter) if enter.word == address && enter.value == 7)
            });
            let Some(FutexEvent { what: FutexCall::Enter(enter), time_ns, .. }) = own.next() else {
                panic!("thread {tid} waited: {events:?}")
            };
            let stack = enter.stack.as_ref().expect("a stack");
            assert!(stack.bytes.len() >= 64 && stack.pointer.is_multiple_of(8), "{stack:?}");
            let end = own.next().expect("the end of the wait");
            assert_eq!(end.what, FutexCall::Exit { result: i64::from(-libc::ETIMEDOUT) });
            assert!(end.time_ns >= time_ns + 1_000_000);
        }
    }
}
