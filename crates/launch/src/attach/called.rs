//! The waits in futexes that a recorded program hands on, and the calls that woke them: those of `syscall`, by which locks that are no
//! pthread's sleep.
//!
//! They take no rights, and are of all processes that record. What a wait was for is told as where a program is attached to, by
//! files and memory of the process; where that has ended meanwhile, by what was read of it before, or by the mappings that its recorder
//! has noted. A process in a container has another identifier there than here, where `/proc` may have quite another process of that one.

use super::futex::{Called, Enter, FutexCall, FutexEvent};
use super::objects::inside;
use super::{Counted, Seen, Since};
use profile::futex_calls::{FutexCalls, FutexRecord};
use profile::read::Mappings;
use profile::session::Recording;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// So often the ring is read at least.
const PAUSE: Duration = Duration::from_millis(20);
/// The same while so many waits or more come in one of these.
const SHORT_PAUSE: Duration = Duration::from_millis(1);
const MANY: usize = 128;

/// Waits that are kept while files are read.
const KEPT: usize = 1 << 16;

/// Wakes that are kept before the first wait of their image comes.
const MOST_EARLY: usize = 64;

/// A thread that has a slot fills it within, or has been ended.
const SLOWEST: Duration = Duration::from_secs(1);

/// So often it is looked at which processes have ended.
const LOOK: Duration = Duration::from_secs(1);
/// Of one that has ended, no wait comes any more that has not come for so long: those of others may be before it.
const QUIET: Duration = Duration::from_secs(3);

/// Counts these waits, in a section for each image of a process, until the program has ended. Of the process `expected`, if one is,
/// files are read as soon as it records, since it may live shortly. Returns what the user may not expect.
///
/// # Errors
///
/// The profile has no space for a section.
pub(crate) fn record_called(
    recording: &Recording,
    expected: Option<u32>,
    has_ended: &AtomicBool,
) -> io::Result<Vec<String>> {
    let (hand_on, waits) = sync_channel(KEPT);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || read_ring(recording, &hand_on, has_ended));
        let mut counting = Counting {
            recording,
            expected: None,
            images: HashMap::new(),
            early: Vec::new(),
            remarks: Vec::new(),
        };
        if let Some(pid) = expected {
            counting.expect(pid, has_ended);
        }
        let counted = counting.count_all(&waits);
        drop(waits);
        let lost = reader.join().expect("reading does not panic");
        counted.map(|()| counting.finish(lost))
    })
}

/// Reads the ring until the program has ended. Returns how many waits were lost.
fn read_ring(recording: &Recording, hand_on: &SyncSender<FutexRecord>, has_ended: &AtomicBool) -> u64 {
    let mut reader = Reader::default();
    loop {
        let is_last = has_ended.load(Ordering::Relaxed);
        let calls = recording.futex_calls();
        let read = calls.map_or(0, |calls| reader.drain(calls, |wait| hand_on.send(wait).is_ok()));
        if is_last {
            return calls.map_or(0, FutexCalls::lost) + reader.skipped;
        }
        std::thread::sleep(if read < MANY { PAUSE } else { SHORT_PAUSE });
    }
}

/// How far the ring was read.
#[derive(Debug, Default)]
struct Reader {
    /// The number of the next wait.
    next: u64,
    /// Since when that is not whole.
    unwritten: Option<Instant>,
    /// Waits that never were.
    skipped: u64,
}

impl Reader {
    /// Hands out what is there, to the end of the ring at most, until `take` says no. Returns how many waits that were.
    fn drain(&mut self, calls: &FutexCalls, mut take: impl FnMut(FutexRecord) -> bool) -> usize {
        let end = calls.written().min(self.next.saturating_add(FutexCalls::SLOTS));
        let first = self.next;
        while self.next < end {
            match calls.get(self.next) {
                Some(wait) if !take(wait) => break,
                Some(_) => {}
                // Its thread was ended in the middle of it.
                None if self.unwritten.get_or_insert_with(Instant::now).elapsed() > SLOWEST => {
                    self.skipped += 1;
                }
                None => break,
            }
            self.next += 1;
            self.unwritten = None;
            calls.free(self.next);
        }
        (self.next - first) as usize
    }
}

/// An image of a process.
struct Image<'r> {
    counted: Counted<'r>,
    /// What its recorder has noted of its mappings, where it had ended before anything was read of it.
    recorded: Option<Mappings>,
    /// When its last wait came.
    last: Instant,
}

impl Image<'_> {
    /// Looks at what its recorder has noted of where the call's addresses lie, if that is needed.
    fn look_at_recorded(&mut self, call: &FutexRecord) {
        self.last = Instant::now();
        if let Some(recorded) = &self.recorded {
            let callers = call.callers[..usize::from(call.depth)].iter().copied();
            let addresses = callers.chain([call.word, call.parked_on]);
            self.counted.modules.look_at_recorded(recorded, addresses);
        }
    }

    fn take_wake(&mut self, call: &FutexRecord) {
        self.look_at_recorded(call);
        self.counted.take_wake(call.word, call.begun_ns, &call.callers[..usize::from(call.depth)]);
    }
}

/// The images whose waits are counted, by the sections of their recorders.
struct Counting<'r> {
    recording: &'r Recording,
    /// A process of which nothing has been counted yet.
    expected: Option<Seen>,
    images: HashMap<u64, Image<'r>>,
    /// Wakes of images of which there has been no wait.
    early: Vec<FutexRecord>,
    remarks: Vec<String>,
}

impl Counting<'_> {
    /// Reads the files of a process as soon as it records.
    fn expect(&mut self, pid: u32, has_ended: &AtomicBool) {
        while !self.recording.used() && !has_ended.load(Ordering::Relaxed) {
            std::thread::sleep(SHORT_PAUSE);
        }
        self.expected = Some(Seen::of(pid));
    }

    /// Counts waits until no more come.
    fn count_all(&mut self, waits: &Receiver<FutexRecord>) -> io::Result<()> {
        let mut looked = Instant::now();
        loop {
            match waits.recv_timeout(LOOK) {
                Ok(wait) => self.count(&wait)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look();
            }
        }
    }

    fn count(&mut self, call: &FutexRecord) -> io::Result<()> {
        if !is_wake(call) {
            return self.count_wait(call);
        }
        match self.images.get_mut(&call.section) {
            Some(image) => image.take_wake(call),
            // The thread that it woke may still come to tell of its wait.
            None if self.early.len() < MOST_EARLY => self.early.push(*call),
            None => {}
        }
        Ok(())
    }

    fn count_wait(&mut self, wait: &FutexRecord) -> io::Result<()> {
        if !self.images.contains_key(&wait.section) {
            let shown_as = self.shown_as(wait);
            let seen = self.expected.take_if(|seen| Some(seen.pid) == shown_as);
            let seen = seen.unwrap_or_else(|| shown_as.map_or_else(Seen::nothing, Seen::of));
            let counted = Counted::begin(wait.pid, seen, self.recording, Since::default())?;
            let recorded = if counted.modules.are_unknown() { self.recorded(wait.section) } else { None };
            let mut image = Image { counted, recorded, last: Instant::now() };
            self.early
                .extract_if(.., |call| call.section == wait.section)
                .for_each(|call| image.take_wake(&call));
            self.images.insert(wait.section, image);
        }
        let image = self.images.get_mut(&wait.section).expect("inserted where it was missing");
        image.look_at_recorded(wait);
        events(wait).into_iter().flatten().for_each(|event| image.counted.take(event));
        Ok(())
    }

    /// As which process `/proc` shows the one that waited.
    fn shown_as(&self, wait: &FutexRecord) -> Option<u32> {
        let proc = Path::new("/proc");
        let namespace = self.recording.image(wait.section).map_or(0, |image| image.pid_namespace);
        if namespace == 0 || Some(namespace) == namespace_of(&proc.join("self")) {
            return Some(wait.pid);
        }
        shown_as(proc, namespace, wait.pid)
    }

    fn recorded(&self, section: u64) -> Option<Mappings> {
        let profile = self.recording.read().ok()?;
        profile.sections().iter().find(|known| known.number == section).map(|known| known.mappings.clone())
    }

    /// Counts what is over, and frees what was read of processes that have ended.
    fn look(&mut self) {
        self.images.values_mut().for_each(|image| image.counted.settle());
        let has_ended = |image: &Image<'_>| {
            image.last.elapsed() >= QUIET && !Path::new(&format!("/proc/{}", image.counted.pid)).exists()
        };
        let ended: Vec<_> = self.images.extract_if(|_, image| has_ended(image)).collect();
        for (_, image) in ended {
            self.remarks.extend(image.counted.finish_counted(0));
        }
    }

    fn finish(mut self, mut lost: u64) -> Vec<String> {
        for image in self.images.into_values() {
            self.remarks.extend(image.counted.finish_counted(std::mem::take(&mut lost)));
        }
        if lost > 0 {
            self.remarks.push(format!(
                "{lost} waits in futexes came faster than they could be read, and are missing"
            ));
        }
        self.remarks
    }
}

/// The number of the PID namespace of the process with this directory in `/proc`.
fn namespace_of(process: &Path) -> Option<u64> {
    let link = fs::read_link(process.join("ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// As which process `proc` shows the one that has this identifier in a PID namespace of this number; none if it shows none.
fn shown_as(proc: &Path, namespace: u64, pid: u32) -> Option<u32> {
    let is_it = |shown: &u32| {
        let process = proc.join(shown.to_string());
        // The second takes the rights to the process, and most are told apart by the first.
        inside(&process) == Some(pid) && namespace_of(&process) == Some(namespace)
    };
    let shown = fs::read_dir(proc).ok()?.flatten();
    shown.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_it)
}

/// Whether the call woke threads, and is no wait.
fn is_wake(call: &FutexRecord) -> bool {
    [libc::FUTEX_WAKE, libc::FUTEX_WAKE_BITSET].contains(&(call.operation as i32 & libc::FUTEX_CMD_MASK))
}

/// The calls of a thread that end with this wait.
fn events(wait: &FutexRecord) -> [Option<FutexEvent>; 3] {
    let event = |time_ns, what| FutexEvent { time_ns, tid: wait.tid, what };
    let callers = wait.callers[..usize::from(wait.depth)].into();
    let call = Enter {
        word: wait.word,
        operation: wait.operation,
        value: wait.value,
        stack: None,
        called: Some(Called { callers, parked_on: wait.parked_on }),
    };
    let woke = wait.woke.then(|| event(wait.begun_ns, FutexCall::Exit { result: 0 }));
    let exit = FutexCall::Exit { result: wait.result.into() };
    [
        woke,
        Some(event(wait.begun_ns, FutexCall::Enter(call))),
        Some(event(wait.ended_ns.max(wait.begun_ns), exit)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::futex_waits::FutexWaits;
    use super::*;
    use profile::format::{PAGE, Process, ProcessValues, Type, UNIT, head};
    use profile::session::Overwrite;
    use std::os::unix::fs::FileExt as _;

    fn wait(begun_ns: u64, ended_ns: u64, woke: bool) -> FutexRecord {
        FutexRecord {
            tid: 1,
            word: 0x1000,
            operation: 128,
            value: 2,
            begun_ns,
            ended_ns,
            woke,
            ..FutexRecord::default()
        }
    }

    /// Two containers, each with a process 1, and the launcher's own, where that is another one.
    #[test]
    fn a_process_is_found_by_its_namespace_and_what_it_is_called_there() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, namespace, identifiers) in
            [(1, 7, "1"), (41, 8, "41 1"), (42, 8, "42 2"), (51, 9, "51 1"), (61, 10, "61 3 1")]
        {
            let process = proc.path().join(pid.to_string());
            fs::create_dir_all(process.join("ns")).unwrap();
            std::os::unix::fs::symlink(format!("pid:[{namespace}]"), process.join("ns/pid")).unwrap();
            fs::write(
                process.join("status"),
                format!("Name:\tx\nNSpid:\t{}\n", identifiers.replace(' ', "\t")),
            )
            .unwrap();
        }
        fs::create_dir(proc.path().join("sys")).unwrap();
        let of = |namespace, pid| shown_as(proc.path(), namespace, pid);
        assert_eq!([of(7, 1), of(8, 1), of(8, 2), of(9, 1)], [Some(1), Some(41), Some(42), Some(51)]);
        assert_eq!((of(10, 1), of(10, 3)), (Some(61), None), "its innermost namespace counts");
        assert_eq!((of(8, 41), of(11, 1)), (None, None), "it has ended");
    }

    /// Nothing is read of the launcher's process with the number that another one has in its container.
    #[test]
    fn a_process_of_another_namespace_is_not_taken_for_one_of_this() {
        let Some(namespace) = namespace_of(Path::new("/proc/self")) else {
            return println!("skipped: /proc does not tell namespaces");
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.contend");
        let recording = Recording::create(&path, 1 << 20, 1, Overwrite::Profiles).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let own = std::process::id();
        let shown_as = |pid_namespace| {
            let head = head(Type::Process, Process::LENGTH);
            let process = ProcessValues { head, pid: own.into(), pid_namespace, ..ProcessValues::default() };
            let bytes: Vec<u8> = process.words().iter().flat_map(|word| word.to_le_bytes()).collect();
            file.write_all_at(&bytes, PAGE + UNIT).unwrap();
            let counting = Counting {
                recording: &recording,
                expected: None,
                images: HashMap::new(),
                early: Vec::new(),
                remarks: Vec::new(),
            };
            counting.shown_as(&FutexRecord { section: PAGE / UNIT, pid: own, ..FutexRecord::default() })
        };
        assert_eq!([shown_as(namespace), shown_as(0), shown_as(1)], [Some(own), Some(own), None]);
    }

    /// A thread that lost the lock to another one sleeps again; one that has released it has woken the next.
    #[test]
    fn sleeps_of_one_acquisition_are_one_wait() {
        let mut waits = FutexWaits::default();
        let calls = [wait(10, 20, false), wait(21, 40, false), wait(60, 70, true)];
        let mut over: Vec<_> =
            calls.iter().flat_map(events).flatten().filter_map(|event| waits.event(event)).collect();
        let (rest, pending) = waits.finish();
        over.extend(rest);
        let times: Vec<_> = over.iter().map(|wait| (wait.begun_ns, wait.ended_ns)).collect();
        assert_eq!((times, pending.len()), (vec![(10, 40), (60, 70)], 0));
    }
}
