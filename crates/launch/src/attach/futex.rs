//! A process that runs already, and its calls of futex(2): the waits that locks, condition variables and the like end in.
//!
//! `syscalls:sys_enter_futex` and `syscalls:sys_exit_futex` are opened on every thread of the process, once for each core, and
//! threads that it starts from then on inherit them; other processes do not, its own children included. An enter that waits
//! comes with the registers and the top of the user's stack. Calls that wake come as exits alone: a filter leaves out their
//! enters. Nothing in the process changes, and the events are gone with the process that opened them.

use super::living;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;

use perf_event_open_sys::{bindings, ioctls};
use procfs::process::{Process, StatFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use kernel_locks::event::Timed;
use kernel_locks::records::{Cursor, Record, Sample};
use kernel_locks::rings::{Rings, check, tracepoint_attributes};
use kernel_locks::tracepoint::{Field, Tracefs};
use kernel_locks::{Missing, files, rings};

/// Bytes that are kept of a stack, from its top: callers of a lock function are near, and more costs the program more.
pub(super) const STACK_BYTES: u32 = 2048;

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
    /// What the program itself tells of it, where that does.
    pub(crate) called: Option<Called>,
}

/// What a program tells of its call of the C library's `syscall`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Called {
    /// The addresses on its stack that calls return to, innermost first.
    pub(crate) callers: Box<[u64]>,
    /// What lay before the futex where `parking_lot` has the address of the lock; 0 if that is not known.
    pub(crate) parked_on: u64,
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
        let enter = tracefs.tracepoint("syscalls:sys_enter_futex")?;
        let exit = tracefs.tracepoint("syscalls:sys_exit_futex")?;
        Ok(Self {
            enter: enter.id(),
            exit: exit.id(),
            kind: enter.number("common_type")?, // a common field: it lies at one place in all events
            word: enter.number("uaddr")?,
            operation: enter.number("op")?,
            value: enter.number("val")?,
            result: exit.number("ret")?,
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
                called: None,
            })
        } else if kind == self.exit {
            FutexCall::Exit { result: self.result.read(sample.raw)?.cast_signed() }
        } else {
            return None;
        };
        Some(FutexEvent { time_ns: sample.time_ns, tid: sample.tid, what })
    }
}

/// Whether a process is a thread of the kernel.
fn is_of_kernel(pid: u32) -> bool {
    let stat = Process::new(pid.cast_signed()).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.flags & StatFlags::PF_KTHREAD.bits() != 0)
}

/// Whether a process runs a program of 32 bits, whose system calls no tracepoint tells.
fn is_32_bit(pid: u32) -> bool {
    const ELF_OF_32_BITS: [u8; 5] = *b"\x7fELF\x01";
    let mut head = [0; ELF_OF_32_BITS.len()];
    let read = File::open(living(pid).join("exe")).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == ELF_OF_32_BITS
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

/// The futex calls of a process, as they are told.
#[derive(Debug)]
pub(crate) struct FutexWatch {
    pid: u32,
    process: OwnedFd,
    layout: Layout,
    rings: Rings<FutexEvent>,
    /// When the process began another program, whose addresses are others.
    replaced_ns: Option<u64>,
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
        if let Some(of) = process_of(pid).filter(|&of| of != pid) {
            return Err(Missing::Thread { tid: pid, pid: of });
        }
        let process = pidfd_open(process, PidfdFlags::empty()).map_err(|_| Missing::Process(pid))?;
        if is_of_kernel(pid) {
            return Err(Missing::KernelThread(pid));
        }
        if is_32_bit(pid) {
            return Err(Missing::Architecture(pid));
        }
        let layout = Layout::of(tracefs)?;
        let rings = Rings::open(LARGEST_RING)?;
        let mut watch = Self { pid, process, layout, rings, replaced_ns: None };
        watch.open_threads()?;
        watch.rings.enable().map_err(Missing::by)?;
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
                return if self.rings.is_empty() { Err(Missing::Process(self.pid)) } else { Ok(()) };
            }
            let (threads, cores) = (known.len(), self.rings.cores());
            files::allow((2 * threads + 1) * cores, || format!("{threads} threads"), cores)?;
            for tid in fresh {
                match self.open_thread(tid) {
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {} // it has ended
                    Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                        return Err(Missing::Foreign { pid: self.pid, error });
                    }
                    opened => opened.map_err(Missing::by)?,
                }
            }
        }
    }

    fn open_thread(&mut self, tid: u32) -> io::Result<()> {
        let Self { layout, rings, .. } = self;
        [true, false].into_iter().try_for_each(|waits| rings.add(|core| open(layout, waits, tid, core)))
    }

    /// Sleeps until a buffer is filling up or the process ends, but no longer than this. Whether the process still runs the program
    /// that was attached to.
    pub(crate) fn sleep(&self, longest: Duration) -> bool {
        let has_ended = self.rings.sleep(longest, Some(self.process.as_fd()));
        !has_ended && self.replaced_ns.is_none()
    }

    /// Whether the process has begun another program by exec. Its calls are not handed out.
    pub(crate) fn was_replaced(&self) -> bool {
        self.replaced_ns.is_some()
    }

    /// How many events have found no space in a buffer so far, as far as the buffers tell.
    pub(crate) fn lost(&self) -> u64 {
        self.rings.lost()
    }

    /// Reads the buffers, and hands out the calls since the last time but one, in order.
    pub(crate) fn drain(&mut self, take: impl FnMut(FutexEvent)) {
        let Self { pid, layout, rings, replaced_ns, .. } = self;
        let events = rings.drain(|record| event_of(layout, *pid, &record, replaced_ns));
        let end_ns = replaced_ns.unwrap_or(u64::MAX);
        events.filter(|event| event.time_ns < end_ns).for_each(take);
    }

    /// Ends the watch, and hands out the rest.
    ///
    /// Returns how many events found no space in a buffer.
    pub(crate) fn finish(mut self, take: impl FnMut(FutexEvent)) -> u64 {
        let Self { pid, layout, rings, replaced_ns, .. } = &mut self;
        let events = rings.finish(|record| event_of(layout, *pid, &record, replaced_ns));
        let end_ns = replaced_ns.unwrap_or(u64::MAX);
        events.filter(|event| event.time_ns < end_ns).for_each(take);
        self.rings.lost()
    }
}

/// The event of a record; one that tells that the process began another program is noted.
fn event_of(
    layout: &Layout,
    pid: u32,
    record: &Record<'_>,
    replaced_ns: &mut Option<u64>,
) -> Option<FutexEvent> {
    match record {
        Record::Sample(sample) if sample.pid == pid => layout.event(sample),
        Record::Exec(time_ns) => {
            replaced_ns.get_or_insert(*time_ns);
            None
        }
        _ => None,
    }
}

/// The threads of a process, by their identifiers.
pub(super) fn threads(pid: u32) -> Result<Vec<u32>, Missing> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| Missing::Process(pid))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The process that a thread belongs to.
fn process_of(tid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Opens one of the tracepoints on a thread and a core: the enters of calls that wait, or all exits.
fn open(layout: &Layout, waits: bool, tid: u32, core: usize) -> io::Result<OwnedFd> {
    // Without a call chain: frame pointers do not lead out of the C library.
    let mut attributes = tracepoint_attributes(if waits { layout.enter } else { layout.exit });
    attributes.set_inherit(1);
    attributes.set_inherit_thread(1);
    if waits {
        attributes.sample_type |=
            u64::from(bindings::PERF_SAMPLE_REGS_USER | bindings::PERF_SAMPLE_STACK_USER);
        attributes.sample_regs_user = REGISTERS.iter().fold(0, |mask, register| mask | 1 << register);
        attributes.sample_stack_user = STACK_BYTES;
        attributes.set_comm(1);
        attributes.set_comm_exec(1);
    }
    let event = rings::open(attributes, tid.cast_signed(), core)?;
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
    use kernel_locks::records::Records;

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
            let what =
                FutexCall::Enter(Enter { word: 0x4040, operation: PRIVATE, value: 2, stack, called: None });
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
