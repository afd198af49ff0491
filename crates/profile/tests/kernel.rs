//! The kernel's section of a profile: written, read back, skipped by readers that do not know it, and damaged.

use std::ffi::OsString;
use std::path::Path;

use contend_profile::format::{PAGE, RunValues, TaskValues, Type, UNIT};
use contend_profile::read::{Diff, KernelTable, Profile, to_folded, to_otel, to_pprof};
use contend_profile::session::{KernelSection, KernelWait, LEAST_LIMIT, Overwrite, Recording};
use contend_profile::{LockTable, Options};

const MUTEX: u32 = 32;
const WRITE: u32 = 4;

/// Functions of a stack, innermost first.
const MAP: [(u64, &str); 3] =
    [(0x8110_0000, "down_write"), (0x8110_0100, "vm_mmap"), (0x8110_0200, "do_syscall_64")];
const UNMAP: [(u64, &str); 3] =
    [(0x8110_0000, "down_write"), (0x8110_0100, "vm_mmap"), (0x8110_0300, "exit_mm")];

fn waited(object: u64, spun_ns: u64, slept_ns: u64) -> KernelWait {
    KernelWait { object, spun_ns, slept_ns, acquired: true }
}

/// A profile with two locks of the kernel; the second one costs `mutex_ns`.
fn record(path: &Path, machine: bool, mutex_ns: u64) -> Recording {
    let recording = Recording::create(path, 1 << 20, 1, Overwrite::Profiles).unwrap();
    let command = ["./server", "--users", "8"].map(OsString::from);
    let mut section = KernelSection::begin(&recording, &command, machine).unwrap();
    let mapping = section.stack(MAP[1], false, WRITE, &MAP);
    let unmapping = section.stack(UNMAP[1], false, WRITE, &UNMAP);
    assert_eq!(section.stack(MAP[1], false, WRITE, &MAP), mapping, "it is found again");
    for object in [0x10, 0x20, 0x10] {
        section.count(mapping, &waited(object, 0, 1_000));
    }
    section.count(unmapping, &KernelWait { acquired: false, ..waited(0x10, 0, 7_000) });
    let mutex = section.stack((0x8200_0040, "cgroup_mutex+0x40"), true, MUTEX, &MAP[..1]);
    let wait = waited(0x8200_0040, 300, mutex_ns - 300);
    section.count(mutex, &wait);
    section.count_release(mutex.unwrap(), (0x8110_0400, "cgroup_attach"), &wait);
    section.count_release(mutex.unwrap(), UNMAP[2], &waited(0x8200_0040, 10, 0));
    section.count_release(mutex.unwrap(), UNMAP[2], &waited(0x8200_0040, 0, 10));
    section.watch().events.store(10, std::sync::atomic::Ordering::Relaxed);
    section.watch().cores.store(4, std::sync::atomic::Ordering::Relaxed);
    section.note_time();
    recording
}

fn table(bytes: &[u8]) -> LockTable {
    Profile::parse("kernel.contend", bytes).unwrap().table(&Options::default())
}

fn kernel(table: &LockTable) -> &KernelTable {
    table.kernel.as_ref().expect("the kernel's locks")
}

/// What a program left in its file, and not more.
fn bytes_of(recording: &Recording) -> Vec<u8> {
    std::fs::read(recording.path()).unwrap()
}

#[test]
fn waits_come_back_by_lock_and_by_stack() {
    let directory = tempfile::tempdir().unwrap();
    let recording = record(&directory.path().join("p"), false, 50_000);
    assert!(!recording.used(), "no program has recorded");
    let table = table(&bytes_of(&recording));
    assert_eq!((table.header.processes, table.rows.len()), (0, 0), "the kernel is no process");
    let kernel = kernel(&table);
    assert_eq!((kernel.machine, kernel.events, kernel.waits(), kernel.waited_ns()), (false, 10, 5, 60_000.0));
    let [mutex, rwsem] = &kernel.rows[..] else { panic!("{kernel:#?}") };
    assert_eq!((mutex.name.as_str(), mutex.kind, mutex.variable), ("cgroup_mutex+0x40", "mutex", true));
    assert_eq!((mutex.waits, mutex.wait.total_ns, mutex.spun_ns), (1, 50_000.0, 300.0));
    assert_eq!((rwsem.name.as_str(), rwsem.kind, rwsem.variable), ("vm_mmap", "rwsem write", false));
    assert_eq!((rwsem.waits, rwsem.interrupted, rwsem.objects, rwsem.spun_ns), (4, 1, 2, 0.0));
    let median = rwsem.wait.quantile_ns(0.5).unwrap();
    assert!((750.0..=1_250.0).contains(&median), "{median}");
    let released: Vec<_> =
        mutex.released_by.iter().map(|one| (one.function.as_str(), one.waits, one.waited_ns)).collect();
    assert_eq!(released, [("cgroup_attach", 1, 50_000.0), ("exit_mm", 2, 20.0)]);
    assert!(rwsem.released_by.is_empty());
    let calls: Vec<_> = rwsem.calls.iter().map(|calls| (calls.functions[2].as_str(), calls.waits)).collect();
    assert_eq!(calls, [("exit_mm", 1), ("do_syscall_64", 3)], "by the time waited");
    assert_eq!(rwsem.callers(9), ["exit_mm"]);
    let pprof = to_pprof(&table);
    for name in ["vm_mmap (rwsem write)", "exit_mm", "cgroup_mutex+0x40 (mutex)"] {
        assert!(pprof.windows(name.len()).any(|part| part == name.as_bytes()), "{name}");
    }
    assert_eq!(
        to_folded(&table, |sample| sample.waited_ns),
        "do_syscall_64;vm_mmap;down_write;vm_mmap (rwsem write) 3000\n\
         down_write;cgroup_mutex+0x40 (mutex) 50000\n\
         exit_mm;vm_mmap;down_write;vm_mmap (rwsem write) 7000\n"
    );
    assert_eq!(
        to_folded(&table, |sample| sample.held_ns),
        "",
        "nothing tells how long the kernel's are held"
    );
}

#[test]
fn shares_are_of_the_threads_time_or_of_the_cores() {
    let directory = tempfile::tempdir().unwrap();
    // A thread that touched no lock of the program is known by the launcher's last sight of it.
    let thread = TaskValues { tid: 1, age_ns: 80_000, running_ns: 50_000, ..Default::default() };
    for (machine, threads, threads_ns) in
        [(false, vec![], 100_000.0), (false, vec![thread; 2], 160_000.0), (true, vec![], 0.0)]
    {
        let recording = record(&directory.path().join("p"), machine, 50_000);
        let run = RunValues { cpu_ns: 100_000, ..Default::default() };
        recording.finish(run, &threads).unwrap();
        let table = table(&bytes_of(&recording));
        let kernel = kernel(&table);
        let whole_ns = if machine { 4.0 * kernel.elapsed_ns } else { threads_ns };
        assert_eq!(kernel.rows[0].share, Some(50_000.0 / whole_ns), "{machine}");
    }
}

/// Calls this for each record: where it begins, and its type.
fn each_record(bytes: &[u8], mut see: impl FnMut(usize, u16)) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let mut block = PAGE as usize;
    while block < bytes.len() && word(block) != 0 {
        let (length, used) = ((word(block) >> 32) as usize, word(block + 24) as usize);
        let (mut at, end) = (block + UNIT as usize, block + UNIT as usize + used);
        while at < end {
            see(at, word(at) as u16);
            at += ((word(at) >> 32) as usize).next_multiple_of(8);
        }
        block += length;
    }
}

/// To an older reader the new types are none that it knows. It skips them, as the format has it, and what they lie in is a
/// process image that took no lock.
#[test]
fn readers_that_do_not_know_the_kernels_records_skip_them() {
    let directory = tempfile::tempdir().unwrap();
    let recording = record(&directory.path().join("p"), false, 50_000);
    let mut bytes = bytes_of(&recording);
    let mut of_kernel = Vec::new();
    each_record(&bytes, |at, what| {
        if what >= Type::KernelWatch as u16 {
            of_kernel.push(at);
        }
    });
    assert!(of_kernel.len() > 8, "{of_kernel:?}");
    for at in of_kernel {
        bytes[at] = 0xee; // a type that no reader knows
    }
    let table = table(&bytes);
    assert!(table.kernel.is_none() && table.rows.is_empty());
    assert_eq!(table.header.processes, 1);
    assert_eq!(table.header.command, ["./server", "--users", "8"]);
    assert!(
        !table.header.warnings.iter().any(|warning| warning.contains("did not end")),
        "{:?}",
        table.header
    );
}

#[test]
fn a_full_file_drops_waits_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let recording =
        Recording::create(&directory.path().join("p"), LEAST_LIMIT, 1, Overwrite::Profiles).unwrap();
    let mut section = KernelSection::begin(&recording, &[], false).unwrap();
    let mut kept = 0;
    for address in 1..2_000 {
        let place = section.stack((address, "somebody"), false, WRITE, &[(address, "somebody")]);
        kept += u64::from(place.is_some());
        section.count(place, &waited(1, 0, 10));
    }
    assert!((500..1_000).contains(&kept), "{kept}");
    let table = table(&bytes_of(&recording));
    assert_eq!((kernel(&table).rows.len() as u64, kernel(&table).dropped), (kept, 1_999 - kept));
    let dropped = format!("{} waits", 1_999 - kept);
    assert!(table.header.warnings.iter().any(|warning| warning.starts_with(&dropped)), "{:?}", table.header);
}

#[test]
fn lost_events_and_hidden_names_are_said() {
    let directory = tempfile::tempdir().unwrap();
    let recording = Recording::create(&directory.path().join("p"), 1 << 20, 1, Overwrite::Profiles).unwrap();
    let section = KernelSection::begin(&recording, &[], false).unwrap();
    let set =
        |word: &std::sync::atomic::AtomicU64, value| word.store(value, std::sync::atomic::Ordering::Relaxed);
    set(&section.watch().events, 90);
    set(&section.watch().lost, 10);
    set(&section.watch().nameless, 1);
    let warnings = table(&bytes_of(&recording)).header.warnings;
    assert!(warnings.iter().any(|warning| warning.starts_with("10 of 100 events")), "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("kptr_restrict")), "{warnings:?}");
}

#[test]
fn a_difference_ranks_by_the_growth_of_the_share() {
    let directory = tempfile::tempdir().unwrap();
    let read = |mutex_ns, cpu_ns| {
        let recording = record(&directory.path().join("p"), false, mutex_ns);
        let run = RunValues { cpu_ns, elapsed_ns: 1_000_000_000, ..Default::default() };
        recording.finish(run, &[]).unwrap();
        table(&bytes_of(&recording))
    };
    let (few, many) = (read(10_000, 100_000), read(90_000, 200_000));
    let changes = Diff::new(&few, &many).kernel.unwrap();
    let [mutex, rwsem] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(
        (mutex.name.as_str(), mutex.before.share, mutex.after.share),
        ("cgroup_mutex+0x40", 0.1, 0.45)
    );
    assert_eq!((mutex.before.waited_ns, mutex.after.waited_ns), (10_000.0, 90_000.0), "for one second");
    assert_eq!((rwsem.before.share, rwsem.after.share), (0.1, 0.05), "as much, of twice the time");
    let back = Diff::new(&many, &few).kernel.unwrap();
    assert_eq!(back[0].name, "vm_mmap");
    let mut without = few;
    without.kernel = None;
    assert_eq!(Diff::new(&without, &many).kernel, None);
}

#[test]
fn damaged_sections_are_an_answer_or_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let whole = bytes_of(&record(&directory.path().join("p"), false, 50_000));
    let mut starts = Vec::new();
    each_record(&whole, |at, _| starts.push(at));
    let mut errors = 0;
    for at in starts.into_iter().flat_map(|start| start..start + 40) {
        for byte in [0, 0xff, 1, 13, 14, 15] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            match Profile::parse("kernel.contend", &bytes) {
                Ok(profile) => {
                    let table = profile.table(&Options::default());
                    to_pprof(&table);
                    to_otel(&table);
                    serde_json::to_string(&Diff::new(&table, &table)).unwrap();
                }
                Err(_) => errors += 1,
            }
        }
    }
    assert!(errors > 100, "{errors}");
}
