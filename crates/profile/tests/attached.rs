//! What is written of a program that was attached to, and what is read of it.

use contend_profile::format::RunValues;
use contend_profile::read::Profile;
use contend_profile::session::{
    AttachedBehind, AttachedImage, AttachedSection, AttachedWait, Overwrite, Recording,
};
use contend_profile::{Diff, LockKind, LockRow, LockTable, ObjectKind, Options};

const MUTEX: LockKind = LockKind::Object(ObjectKind::Mutex);
const RWLOCK: LockKind = LockKind::Object(ObjectKind::Rwlock);

fn wait(tid: u32, kind: LockKind, address: u64, duration_ns: u64) -> AttachedWait<'static> {
    AttachedWait {
        tid,
        kind,
        address,
        shared: false,
        begun_ns: 5,
        duration_ns,
        timed_out: false,
        frames: &[0x7000, 0x8000],
        caller: 0x8000,
        behind: &[],
    }
}

/// A profile whose ticks are nanoseconds, with what `write` writes for a process that does not exist, so that nothing has a name.
fn table(write: impl FnOnce(&mut AttachedSection<'_>)) -> LockTable {
    table_of(Recording::count_nanoseconds, write)
}

fn table_of(begin: impl FnOnce(&mut Recording), write: impl FnOnce(&mut AttachedSection<'_>)) -> LockTable {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.contend");
    let mut recording = Recording::create(&path, 1 << 20, 1, Overwrite::Profiles).unwrap();
    begin(&mut recording);
    recording.begun();
    let image = AttachedImage {
        pid: u32::MAX,
        is_shown: true,
        arguments: b"server\0-v\0",
        executable: b"/bin/server",
    };
    let mut section = AttachedSection::begin(&recording, &image).unwrap();
    write(&mut section);
    section.finish(7);
    recording.finish(RunValues { elapsed_ns: 1_000_000_000, ..RunValues::default() }, &[]).unwrap();
    recording.read().unwrap().table(&Options { calls: true, ..Options::default() })
}

fn row(table: &LockTable, address: u64, kind: LockKind) -> &LockRow {
    table.rows.iter().find(|row| (row.address, row.kind) == (address, kind)).expect("a row")
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files to be shared")]
fn waits_come_back_with_their_times_and_without_what_nobody_saw() {
    let table = table(|section| {
        for (tid, ns) in [(11, 1_000), (12, 3_000), (11, 2_000)] {
            section.count(&wait(tid, MUTEX, 0x1000, ns));
        }
        section.count(&AttachedWait { timed_out: true, ..wait(11, MUTEX, 0x1000, 9_000) });
        section.count(&AttachedWait {
            shared: true,
            frames: &[],
            caller: 0,
            ..wait(11, RWLOCK, 0x2000, 500)
        });
        section.count(&wait(12, LockKind::Condition, 0x3000, 40_000));
        section.count_join(12, 70_000);
        let lock = section.lock(&wait(11, MUTEX, 0x1000, 0)).unwrap();
        for holder in [21, 22, 22] {
            section.note_holder(lock, holder);
        }
    });
    assert_eq!(table.header.command, ["server", "-v"]);
    assert_eq!((table.header.threads, table.header.elapsed_ns), (2, 1e9));
    let attached = table.header.attached.expect("it says so");
    assert_eq!((attached.lost_events, attached.without_callers), (7, 1));
    assert!(
        table.header.warnings.iter().any(|warning| warning.starts_with("7 events")),
        "{:?}",
        table.header.warnings
    );

    let mutex = row(&table, 0x1000, MUTEX);
    let usage = &mutex.exclusive;
    assert_eq!(
        (usage.contended, usage.timeouts, usage.wait.total_ns),
        (3, 1, 6_000.0),
        "ticks are nanoseconds"
    );
    assert_eq!(usage.wait.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 3, "of both threads");
    assert_eq!((mutex.threads, mutex.calls.len()), (2, 2));
    let waits =
        |row: &LockRow| row.call_sites.iter().map(|site| (site.waits, site.waited_ns)).collect::<Vec<_>>();
    assert_eq!(waits(mutex), [(3, 6_000.0)], "of both threads, and without the one that timed out");
    let holders: Vec<_> = mutex.holders.iter().map(|holder| (holder.tid, holder.looks)).collect();
    assert_eq!(holders, [(22, 2), (21, 1)]);
    assert_eq!(
        (mutex.share, mutex.critical_section_ns, mutex.acquisitions_per_operation),
        (None, None, None)
    );
    let rwlock = row(&table, 0x2000, RWLOCK);
    assert_eq!((rwlock.shared.contended, rwlock.exclusive.contended, rwlock.calls.len()), (1, 0, 0));
    assert_eq!(waits(rwlock), [], "its caller is not known");
    let condition = row(&table, 0x3000, LockKind::Condition);
    assert_eq!(
        (condition.exclusive.condition_waits, condition.condition_ns(), condition.waited_ns()),
        (1, 40_000.0, 0.0)
    );
    assert_eq!(table.rows.last().map(|row| row.kind), Some(LockKind::Condition), "no lock: behind the locks");

    let json = serde_json::to_value(&table).unwrap();
    let usage = &json["rows"][0]["exclusive"];
    assert_eq!((&usage["contended"], &usage["wait"]["count"]), (&3.into(), &3.into()));
    for unknown in [
        "acquisitions", "nested", "try_failures", "owner_changes", "hold_same", "hold_other", "think",
        "handover",
    ] {
        assert!(usage[unknown].is_null(), "{unknown}: {usage}");
    }
    let diff = Diff::new(&table, &table);
    assert!(diff.waits_only && diff.locks.iter().all(|change| change.growth_ns() == 0.0));
    assert_eq!(diff.locks.len(), 2, "the mutex and the reader-writer lock, without the condition: {diff:?}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files to be shared")]
fn the_smallest_stack_names_a_lock_whichever_comes_first() {
    let stacks: [&[u64]; 3] = [&[0x9000], &[0x7000, 0x8000], &[]];
    for order in [[0, 1, 2], [1, 0, 2], [2, 0, 1]] {
        let table = table(|section| {
            for frames in order.map(|place| stacks[place]) {
                section.count(&AttachedWait { frames, ..wait(11, MUTEX, 0x1000, 10) });
            }
        });
        let calls = &row(&table, 0x1000, MUTEX).calls;
        assert_eq!(
            calls.iter().map(|call| call.address + 1).collect::<Vec<_>>(),
            [0x7000, 0x8000],
            "{order:?}"
        );
    }
}

/// By where they are in the program, as far as a thread remembers its callers.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no files to be shared")]
fn waits_are_told_by_their_callers() {
    let maps =
        b"1000-9000 r-xp 00000000 08:01 1 /nowhere/one\n9000-a000 r-xp 00000000 08:01 2 /nowhere/two\n";
    let table = table(|section| {
        section.note_mappings(maps, &[]);
        for (tid, caller, ns) in [(11, 0x2000, 1_000), (12, 0x9100, 5_000), (12, 0x2000, 3_000)] {
            section.count(&AttachedWait { caller, ..wait(tid, MUTEX, 0x1000, ns) });
        }
        for caller in 0x3000..0x3100 {
            section.count(&AttachedWait { caller, ..wait(13, RWLOCK, 0x2000, 100) });
        }
    });
    let sites = &row(&table, 0x1000, MUTEX).call_sites;
    let waits: Vec<_> = sites.iter().map(|site| (&*site.file, site.waits, site.waited_ns)).collect();
    assert_eq!(waits, [("two", 1, 5_000.0), ("one", 2, 4_000.0)]);
    let many = row(&table, 0x2000, RWLOCK);
    let told: u64 = many.call_sites.iter().map(|site| site.waits).sum();
    assert_eq!((many.exclusive.contended, told), (256, 8));
}

/// A function that holds a lock and never waits for it is a call site, too.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no files to be shared")]
fn waits_are_behind_those_who_released_the_lock() {
    let maps =
        b"1000-9000 r-xp 00000000 08:01 1 /nowhere/one\n9000-a000 r-xp 00000000 08:01 2 /nowhere/two\n";
    let part = |caller, duration_ns| AttachedBehind { frames: &[0x9100, 0x9200], caller, duration_ns };
    let table = table(|section| {
        section.note_mappings(maps, &[]);
        for behind in [&[part(0x9100, 900), part(0x2000, 100)][..], &[part(0x9100, 1_000)], &[part(0, 10)]] {
            section.count(&AttachedWait { caller: 0x2000, behind, ..wait(11, MUTEX, 0x1000, 1_000) });
        }
    });
    let sites = &row(&table, 0x1000, MUTEX).call_sites;
    let told: Vec<_> = sites.iter().map(|site| (&*site.file, site.waited_ns, site.behind_ns)).collect();
    assert_eq!(told, [("one", 3_000.0, 100.0), ("two", 0.0, 1_900.0)]);
}

/// Exports show them around the call: what wraps locks is left out, and so is what only some of the waits have.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no files to be shared")]
fn waits_of_one_call_have_the_callers_that_are_common_to_all_of_them() {
    let stacks: [&[u64]; 2] = [&[0x2000, 0x2100, 0x2200, 0x2300], &[0x2000, 0x2100, 0x2200, 0x2400]];
    for (waits, common) in [(&stacks[..1], &[0x2100, 0x2200, 0x2300][..]), (&stacks, &[0x2100, 0x2200])] {
        let table = table(|section| {
            section.note_mappings(b"1000-9000 r-xp 00000000 08:01 1 /nowhere/one\n", &[]);
            for &frames in waits.iter().chain(waits) {
                section.count(&AttachedWait { frames, caller: 0x2100, ..wait(11, MUTEX, 0x1000, 1_000) });
            }
        });
        let [site] = &row(&table, 0x1000, MUTEX).call_sites[..] else { panic!("one call: {table:?}") };
        let calls: Vec<_> = site.calls.iter().map(|call| call.address + 1).collect();
        assert_eq!((site.waits, &*calls), (2 * waits.len() as u64, common));
    }
}

/// A full profile loses waits, counts them, and stays one that can be read.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no files to be shared")]
fn what_finds_no_space_is_counted() {
    let table = table(|section| {
        for tid in 0..400 {
            section.count(&wait(tid, MUTEX, 0x1000, 10));
        }
    });
    let counted = row(&table, 0x1000, MUTEX).exclusive.contended;
    assert!(counted > 100 && table.header.dropped > 0);
    assert_eq!(counted + table.header.dropped, 400);
}

/// Beside a recorder in the program, whose ticks are the processor's, the kernel's nanoseconds become ticks, and nanoseconds again.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no files to be shared")]
fn waits_keep_their_times_in_a_profile_of_the_processors_ticks() {
    // Long enough for the ratio of the two clocks.
    let begin = |_: &mut Recording| std::thread::sleep(std::time::Duration::from_millis(20));
    let table = table_of(begin, |section| {
        section.count(&wait(11, MUTEX, 0x1000, 3_000_000));
        section.count(&wait(12, LockKind::Condition, 0x3000, 5_000_000));
    });
    let near = |ns: f64, expected: f64| (ns / expected - 1.0).abs() < 0.01;
    let (mutex, condition) = (row(&table, 0x1000, MUTEX), row(&table, 0x3000, LockKind::Condition));
    assert!(near(mutex.waited_ns(), 3e6), "{}", mutex.waited_ns());
    assert!(near(condition.condition_ns(), 5e6), "{}", condition.condition_ns());
}

/// The first thread that waited for a lock has the distribution of all waits for it, and need not wait in each interval.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no files to be shared")]
fn an_interval_has_the_distribution_of_its_waits_whichever_thread_waited() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.contend");
    let mut recording = Recording::create(&path, 1 << 20, 1, Overwrite::Profiles).unwrap();
    recording.count_nanoseconds();
    recording.begun();
    let image =
        AttachedImage { pid: u32::MAX, is_shown: true, arguments: b"server\0", executable: b"/bin/server" };
    let mut section = AttachedSection::begin(&recording, &image).unwrap();
    section.count(&wait(11, MUTEX, 0x1000, 1_000));
    section.count(&wait(12, MUTEX, 0x1000, 1_000));
    let before = recording.look().unwrap();
    section.count(&wait(12, MUTEX, 0x1000, 3_000));
    let bytes = recording.look().unwrap().since(&before, &RunValues::default(), &[], &[]);
    let table = Profile::parse("interval", &bytes).unwrap().table(&Options::default());
    let told = &row(&table, 0x1000, MUTEX).exclusive.wait;
    assert_eq!((told.count, told.total_ns), (1, 3_000.0));
    assert_eq!(told.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 1, "{told:?}");
}
