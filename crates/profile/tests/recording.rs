//! What the recorder counts, read back through the file.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use contend_profile::format::{PAGE, Quantity, Refusal, Type};
use contend_profile::hooks::Use;
use contend_profile::read::{AtEndThread, CallerRecord, Profile};
use contend_profile::record::{Call, Mode, Outcome, PerThread, Trace};
use contend_profile::{LockRow, LockTable, Options};
use pthread::object::ObjectKind;
use support::{
    CORE, DISK, FIRST, File, GONE, LOOKS, NOW, NS_PER_TICK, RAN, STACK, STAYED, SWITCHES, TID, WATCHABLE,
    image, pass,
};

const MIB: u64 = 1 << 20;

fn table(file: &File) -> LockTable {
    Profile::parse("test", &file.bytes()).unwrap().table(&Options { symbols: false, ..Options::default() })
}

fn row(table: &LockTable, address: u64) -> &LockRow {
    table.rows.iter().find(|row| row.address == address).unwrap()
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn counts_and_sums_are_exact() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    for i in 0..1000 {
        file.pair(&t, &lock, 0x1000, 50, 10 + i % 7);
    }
    let table = table(&file);
    let usage = &row(&table, 0x1000).exclusive;
    assert_eq!(usage.acquisitions, 1000);
    assert_eq!(usage.hold().count, 1000);
    assert_eq!(usage.hold().total_ns, (0..1000).map(|i| 10 + i % 7).sum::<u64>() as f64);
    assert_eq!((usage.think.count, usage.think.total_ns), (999, 999.0 * 50.0));
    assert_eq!((usage.contended, usage.owner_changes), (0, 0));
    assert_eq!(table.header.threads, 1);
    // The pair turned warm on the way, so most of it is in the distribution.
    let kept: u64 = usage.hold().buckets.iter().map(|bucket| bucket.count).sum();
    assert!((700..=1000).contains(&kept), "{kept}");
}

#[test]
fn holds_after_another_core_are_apart() {
    let file = File::new(MIB, 1);
    let (a, b, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    for _ in 0..10 {
        CORE.set(0);
        file.pair(&a, &lock, 0x1000, 5, 100);
        file.pair(&a, &lock, 0x1000, 5, 20);
        CORE.set(1);
        file.pair(&b, &lock, 0x1000, 5, 100);
        file.pair(&b, &lock, 0x1000, 5, 20);
    }
    CORE.set(0);
    let table = table(&file);
    let row = row(&table, 0x1000);
    // The first acquisition of all finds a zeroed trace, which says core 0: its own.
    assert_eq!((row.exclusive.hold_other.count, row.exclusive.hold_other.total_ns), (19, 1900.0));
    assert_eq!((row.exclusive.hold_same.count, row.exclusive.hold_same.total_ns), (21, 500.0));
    assert_eq!(row.exclusive.owner_changes, 19);
    assert_eq!(row.threads, 2);
}

#[test]
fn a_hand_over_is_from_release_to_acquisition_of_one_that_waited() {
    let file = File::new(MIB, 1);
    let (a, b, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    recorder.acquired(&a, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
    pass(10);
    let waits_from = NOW.get();
    pass(90);
    recorder.releasing(&a, &lock, Mode::Exclusive);
    pass(7);
    recorder.acquired(&b, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, Some(waits_from));
    recorder.releasing(&b, &lock, Mode::Exclusive);
    pass(40);
    // Waits, but the last release came before that: no hand-over to it.
    let waits_from = NOW.get();
    pass(3);
    recorder.acquired(&a, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, Some(waits_from));
    recorder.releasing(&a, &lock, Mode::Exclusive);
    let table = table(&file);
    let usage = &row(&table, 0x1000).exclusive;
    assert_eq!((usage.contended, usage.wait.total_ns), (2, 100.0));
    assert_eq!((usage.handover.count, usage.handover.total_ns), (1, 7.0));
    assert_eq!(usage.wait.count, 2);
}

#[test]
fn readers_and_writers_are_apart_and_may_nest() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    let read = || recorder.acquired(&t, &lock, ObjectKind::Rwlock, Mode::Shared, 0x1000, None);
    read();
    pass(5);
    read();
    pass(5);
    recorder.releasing(&t, &lock, Mode::Shared);
    pass(5);
    recorder.releasing(&t, &lock, Mode::Shared);
    recorder.acquired(&t, &lock, ObjectKind::Rwlock, Mode::Exclusive, 0x1000, None);
    pass(4);
    recorder.releasing(&t, &lock, Mode::Exclusive);
    // One release too many, as by a thread that took the lock over: nothing happens.
    recorder.releasing(&t, &lock, Mode::Shared);
    let table = table(&file);
    let row = row(&table, 0x1000);
    assert_eq!((row.shared.acquisitions, row.shared.nested, row.shared.holds()), (2, 1, 1));
    assert_eq!((row.shared.hold().count, row.shared.hold().total_ns), (1, 15.0));
    assert_eq!((row.exclusive.acquisitions, row.exclusive.hold().total_ns), (1, 4.0));
}

/// Such as one that came while a writer waited whom readers let go first.
#[test]
fn a_read_within_a_read_that_waited_is_counted_as_waited() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    let read = |waits_from| {
        recorder.acquired(&t, &lock, ObjectKind::Rwlock, Mode::Shared, Call::new(0x1000, 0x5000), waits_from);
    };
    read(None);
    pass(5);
    let waits_from = NOW.get();
    pass(30);
    read(Some(waits_from));
    recorder.releasing(&t, &lock, Mode::Shared);
    recorder.releasing(&t, &lock, Mode::Shared);
    let table = table(&file);
    let row = row(&table, 0x1000);
    assert_eq!((row.shared.acquisitions, row.shared.nested, row.shared.contended), (2, 1, 1));
    assert_eq!((row.shared.wait.count, row.shared.wait.total_ns), (1, 30.0));
    assert_eq!((row.shared.hold().count, row.shared.hold().total_ns), (1, 35.0), "one hold, from the first");
    assert_eq!((row.call_sites[0].waits, row.call_sites[0].waited_ns), (1, 30.0));
}

/// It may lie where a pthread lock of the same calls has lain.
#[test]
fn a_lock_of_the_programs_own_is_told_apart() {
    let file = File::new(MIB, 1);
    let (t, recorder) = (PerThread::new(), &file.recorder);
    let own = |address| Use { address, kind: ObjectKind::Mutex, mode: Mode::Exclusive };
    file.pair(&t, &Trace::new(), 0x1000, 1, 1);
    let again = Trace::new();
    recorder.acquired(&t, &again, ObjectKind::Mutex, Mode::Exclusive, &own(0x1000), None);
    recorder.releasing(&t, &again, Mode::Exclusive);
    for (address, first_call) in [(0x2000, 0), (0x3000, 1), (0x4000, 2)] {
        let (trace, of) = (Trace::new(), own(address));
        match first_call {
            0 => recorder.try_failed(&t, &trace, of.kind, of.mode, &of),
            1 => recorder.timed_out(&t, &trace, of.kind, of.mode, &of),
            _ => recorder.cond_waited(&t, &trace, &of, NOW.get(), None, Outcome::Woken),
        }
    }
    let table = table(&file);
    let mut rows: Vec<_> = table.rows.iter().map(|row| (row.address, row.by_hooks)).collect();
    rows.sort_unstable();
    assert_eq!(rows, [(0x1000, false), (0x1000, true), (0x2000, true), (0x3000, true), (0x4000, true)]);
}

#[test]
fn think_time_ends_at_the_next_acquisition_in_either_mode() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    let hold = |mode: Mode, ticks: u64| {
        file.recorder.acquired(&t, &lock, ObjectKind::Rwlock, mode, 0x1000, None);
        pass(ticks);
        file.recorder.releasing(&t, &lock, mode);
    };
    for _ in 0..10 {
        hold(Mode::Exclusive, 3);
        pass(100);
        for _ in 0..20 {
            hold(Mode::Shared, 10);
            pass(7);
        }
    }
    let table = table(&file);
    let row = row(&table, 0x1000);
    assert_eq!((row.exclusive.think.count, row.exclusive.think.total_ns), (10, 1_000.0));
    assert_eq!((row.shared.think.count, row.shared.think.total_ns), (199, 199.0 * 7.0));
}

#[test]
fn a_lock_is_seen_within_another_ones_sections() {
    let file = File::new(4 * MIB, 1);
    let t = PerThread::new();
    let [outer, inner, beside] = [(); 3].map(|()| Trace::new());
    let acquire = |lock: &Trace, kind, mode, address| {
        file.recorder.acquired(&t, lock, kind, mode, address, None);
        pass(10);
    };
    let release = |lock: &Trace, mode| file.recorder.releasing(&t, lock, mode);
    let mutex = (ObjectKind::Mutex, Mode::Exclusive);
    const ROUNDS: u64 = 2_000;
    for round in 0..ROUNDS {
        // Readers take the inner lock, writers do not; every fourth reader lets go of the outer lock first.
        let mode = if round % 2 == 0 { Mode::Shared } else { Mode::Exclusive };
        acquire(&outer, ObjectKind::Rwlock, mode, 0x1000);
        if mode == Mode::Shared {
            acquire(&inner, mutex.0, mutex.1, 0x2000);
        }
        let early = round % 8 == 0;
        if early {
            release(&outer, mode);
        }
        if mode == Mode::Shared {
            release(&inner, mutex.1);
        }
        if !early {
            release(&outer, mode);
        }
        acquire(&beside, mutex.0, mutex.1, 0x3000);
        release(&beside, mutex.1);
    }
    // Once, at the end, a writer does.
    acquire(&outer, ObjectKind::Rwlock, Mode::Exclusive, 0x1000);
    acquire(&inner, mutex.0, mutex.1, 0x2000);
    release(&inner, mutex.1);
    release(&outer, Mode::Exclusive);
    let table = table(&file);
    let within = row(&table, 0x2000).within.clone().expect("it is acquired within the other one's sections");
    assert_eq!((&within.site, within.shared), (&row(&table, 0x1000).site, true));
    assert!((within.acquisitions - 1.0).abs() < 0.01, "but for the writer's one: {within:?}");
    assert_eq!((&row(&table, 0x1000).within, &row(&table, 0x3000).within), (&None, &None));
}

#[test]
fn nothing_is_within_the_sections_of_a_lock_that_other_threads_release() {
    let file = File::new(4 * MIB, 1);
    let [t, other] = [(); 2].map(|()| PerThread::new());
    let [baton, lock] = [(); 2].map(|()| Trace::new());
    let acquire = |lock: &Trace, address| {
        file.recorder.acquired(&t, lock, ObjectKind::Mutex, Mode::Exclusive, address, None);
        pass(10);
    };
    acquire(&baton, 0x1000);
    file.recorder.releasing(&t, &baton, Mode::Exclusive);
    for _ in 0..5 {
        acquire(&baton, 0x1000);
        file.recorder.releasing(&other, &baton, Mode::Exclusive);
        for _ in 0..400 {
            acquire(&lock, 0x2000);
            file.recorder.releasing(&t, &lock, Mode::Exclusive);
        }
    }
    assert_eq!(row(&table(&file), 0x2000).within, None);
}

#[test]
fn a_read_lock_given_up_by_another_thread_nests_nothing() {
    let file = File::new(MIB, 1);
    let (taker, giver, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    let read = || recorder.acquired(&taker, &lock, ObjectKind::Rwlock, Mode::Shared, 0x1000, None);
    read();
    recorder.releasing(&giver, &lock, Mode::Shared);
    for _ in 0..10 {
        read();
        pass(5);
        recorder.releasing(&taker, &lock, Mode::Shared);
    }
    let table = table(&file);
    let shared = &row(&table, 0x1000).shared;
    assert_eq!((shared.acquisitions, shared.nested, shared.holds()), (11, 0, 11));
    assert_eq!((shared.hold().count, shared.hold().total_ns), (10, 50.0));
}

#[test]
fn failures_conditions_and_refusals_are_counted() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    recorder.try_failed(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000);
    recorder.timed_out(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000);
    recorder.acquired(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
    recorder.acquired_again(&t, &lock);
    pass(10);
    recorder.releasing(&t, &lock, Mode::Exclusive);
    let started = NOW.get();
    pass(1000);
    recorder.cond_waited(&t, &lock, 0x1000, started, None, Outcome::TimedOut);
    pass(20);
    recorder.releasing(&t, &lock, Mode::Exclusive);
    recorder.untouched(Refusal::Robust);
    let table = table(&file);
    let usage = &row(&table, 0x1000).exclusive;
    assert_eq!((usage.try_failures, usage.timeouts, usage.acquisitions, usage.nested), (1, 1, 3, 1));
    assert_eq!((usage.condition_waits, usage.condition_timeouts, usage.condition_ns), (1, 1, 1000.0));
    assert_eq!((usage.hold().count, usage.hold().total_ns, usage.holds()), (2, 30.0, 2));
    assert_eq!(usage.think.count, 0, "time in a condition wait is not think time");
    assert_eq!(table.header.untouched.robust, 1);
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn sampling_leaves_counts_exact_and_means_unbiased() {
    let file = File::new(MIB, 16);
    let (t, lock) = (PerThread::new(), Trace::new());
    for i in 0..100_000 {
        file.pair(&t, &lock, 0x1000, 30, if i % 2 == 0 { 10 } else { 90 });
    }
    let table = table(&file);
    let usage = &row(&table, 0x1000).exclusive;
    assert_eq!(usage.acquisitions, 100_000);
    let timed = usage.hold().count;
    assert!((5_500..7_000).contains(&timed), "{timed} of 100000 timed at one in 16");
    let mean = usage.hold().mean_ns().unwrap();
    // 6,250 samples of 10 or 90: the mean's standard deviation is 0.5.
    assert!((mean - 50.0).abs() < 4.0, "mean {mean}, a period that resonates would give 10 or 90");
    assert_eq!(usage.think.mean_ns(), Some(30.0));
    assert!((usage.held_ns() - 5e6).abs() < 4e5);
    assert_eq!(table.header.sample_period, 16);
}

#[test]
fn an_address_that_another_lock_uses_is_another_lock() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    STACK.set(vec![0x10, 0x20]);
    file.pair(&t, &lock, 0x1000, 1, 5);
    file.recorder.destroyed(&lock);
    // The same calls make a mutex there again: the same lock, second generation.
    file.pair(&t, &lock, 0x1000, 1, 5);
    // Other calls do: another lock.
    file.recorder.destroyed(&lock);
    STACK.set(vec![0x10, 0x30]);
    file.pair(&t, &lock, 0x1000, 1, 5);
    // Memory that is reused without destroying starts with zeros as well. Another kind is another lock.
    let reused = Trace::new();
    file.recorder.acquired(&t, &reused, ObjectKind::Spin, Mode::Exclusive, 0x1000, None);
    STACK.take();
    let table = table(&file);
    let mut generations: Vec<_> =
        table.rows.iter().map(|row| (row.kind.name(), row.generations, row.acquisitions())).collect();
    generations.sort_unstable();
    assert_eq!(generations, [("mutex", 1, 1), ("mutex", 2, 2), ("spin", 1, 1)]);
}

#[test]
fn a_forked_child_counts_in_a_section_of_its_own() {
    let file = File::new(MIB, 1);
    let maps = b"1000-3000 rw-p 00000000 08:01 1 /nowhere/program\n";
    file.recorder.append(Type::Mappings, &[maps]);
    let (t, inherited) = (PerThread::new(), Trace::new());
    file.pair(&t, &inherited, 0x1000, 1, 5);
    file.recorder.acquired(&t, &inherited, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
    // SAFETY: this thread stands for the child's only one.
    assert!(unsafe { file.recorder.start_in_child(&t, &image(78)) });
    file.recorder.releasing(&t, &inherited, Mode::Exclusive); // what an atfork handler does
    file.pair(&t, &inherited, 0x1000, 1, 5);
    let before_own = Profile::parse("test", &file.bytes()).unwrap();
    assert_eq!(before_own.sections()[1].mappings.len(), 1, "a pair has return addresses, too");
    let own = Trace::new();
    file.pair(&t, &own, 0x2000, 1, 5);
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    assert_eq!(profile.sections().len(), 2);
    assert_eq!(profile.sections()[1].process.parent_section, profile.sections()[0].number);
    let table = profile.table(&Options { symbols: false, ..Options::default() });
    let mut counts: Vec<_> =
        table.rows.iter().map(|row| (row.pid, row.name.as_str(), row.acquisitions())).collect();
    counts.sort_unstable();
    let (old, new) = ("program+0x0", "program+0x1000");
    assert_eq!(counts, [(77, old, 2), (78, old, 1), (78, new, 1)], "what was mapped at the fork still is");
}

/// Each once: the one that a pair is made with, and that of a call that waits after a try from elsewhere has failed.
#[test]
fn stacks_of_calls_that_wait_are_noted() {
    let file = File::new(MIB, 1);
    let [holder, tries, waits] = [const { PerThread::new() }; 3];
    let lock = Trace::new();
    file.recorder.acquired(&holder, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
    let from = |caller: u64| Call::new(0x1000, caller as usize);
    STACK.set(vec![0x5001, 0x5002]);
    file.recorder.try_failed(&tries, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000);
    STACK.set(vec![0x6001, 0x6002]);
    file.recorder.waits(&tries, &lock, ObjectKind::Mutex, Mode::Exclusive, from(0x6001));
    file.recorder.waits_no_more(&tries);
    STACK.set(vec![0x7001, 0x7002]);
    file.recorder.waits(&waits, &lock, ObjectKind::Mutex, Mode::Exclusive, from(0x7001));
    STACK.take();
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    let noted: Vec<_> = profile.sections()[0].sites.iter().map(|(_, stack)| &stack[..]).collect();
    for stack in [[0x5001, 0x5002], [0x6001, 0x6002], [0x7001, 0x7002]] {
        assert_eq!(noted.iter().filter(|noted| **noted == stack).count(), 1, "{stack:x?}: {noted:x?}");
    }
}

#[test]
fn a_forked_child_notes_the_stacks_that_its_parent_has_noted() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    STACK.set(vec![0x5001, 0x5002]);
    file.pair(&t, &lock, 0x1000, 1, 5);
    // SAFETY: this thread stands for the child's only one.
    assert!(unsafe { file.recorder.start_in_child(&t, &image(78)) });
    file.pair(&t, &lock, 0x1000, 1, 5);
    STACK.take();
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    assert_eq!(profile.sections()[1].sites, [(lock.lock(), vec![0x5001, 0x5002])]);
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn locks_past_the_bound_are_merged_and_no_count_is_lost() {
    let file = File::new(256 << 10, 1);
    let t = PerThread::new();
    let hot = Trace::new();
    let locks: Vec<Trace> = (0..2000).map(|_| Trace::new()).collect();
    for round in 0..3 {
        for (i, lock) in locks.iter().enumerate() {
            file.pair(&t, lock, 0x10_0000 + i * 64, 1, 5);
            file.pair(&t, &hot, 0x1000, 1, 5);
        }
        assert!(file.bytes().len() <= 256 << 10, "round {round}");
    }
    let table = table(&file);
    assert_eq!(table.rows.iter().map(LockRow::acquisitions).sum::<u64>(), 12_000);
    assert_eq!(row(&table, 0x1000).acquisitions(), 6_000, "the hot lock keeps its row");
    let merged: Vec<_> = table.rows.iter().filter(|row| row.merged).collect();
    assert_eq!(merged.len(), 1);
    assert!(merged[0].acquisitions() > 0 && merged[0].name.contains("merged"));
    assert!(table.header.merged_locks > 0);
    assert!(
        table.header.warnings.iter().any(|warning| warning.contains("merged")),
        "{:?}",
        table.header.warnings
    );
    assert_eq!(table.header.dropped, 0);
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn past_the_bound_a_thread_gives_up_its_coldest_records() {
    let file = File::new(256 << 10, 1);
    let locks: Vec<Trace> = (0..300).map(|_| Trace::new()).collect();
    for _ in 0..8 {
        let t = PerThread::new();
        for round in 0..2 {
            for (i, lock) in locks.iter().enumerate() {
                file.pair(&t, lock, 0x10_0000 + i * 64, 1, 5);
                file.pair(&t, &locks[7], 0x10_0000 + 7 * 64, 1, 5 + round);
            }
        }
    }
    let table = table(&file);
    assert_eq!(table.rows.iter().map(LockRow::acquisitions).sum::<u64>(), 8 * 2 * 600);
    assert_eq!(row(&table, 0x10_0000 + 7 * 64).acquisitions(), 8 * 2 * 301, "what is hot keeps its row");
    assert!(table.header.merged_pairs > 100, "{}", table.header.merged_pairs);
    assert_eq!((table.header.merged_locks, table.header.dropped), (0, 0));
    let held: f64 = table.rows.iter().map(|row| row.exclusive.hold().total_ns).sum();
    assert_eq!(held, (8 * (600 * 5 + 300 * 5 + 300 * 6)) as f64, "sums survive merging");
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn a_hundred_thousand_locks_and_512_threads_fit_into_256_mib() {
    const THREADS: usize = 512;
    const LOCKS: usize = 100_000;
    let file = File::new(256 * MIB, 1);
    let locks: Vec<Trace> = (0..LOCKS).map(|_| Trace::new()).collect();
    for thread in 0..THREADS {
        let t = PerThread::new();
        // Every lock is touched by four threads, and every thread touches one lock in 128.
        for i in (thread % 128..LOCKS).step_by(128) {
            file.pair(&t, &locks[i], 0x10_0000 + i * 64, 1, 5);
        }
    }
    assert!(file.bytes().len() as u64 <= 256 * MIB);
    let table = table(&file);
    assert_eq!(table.rows.len(), LOCKS, "nothing had to be merged");
    assert_eq!(table.header.merged_pairs + table.header.merged_locks + table.header.dropped, 0);
    assert!(table.rows.iter().all(|row| row.threads == 4));
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn a_full_disk_stops_the_recording_and_is_reported() {
    let file = File::new(8 * MIB, 1);
    DISK.set(64 << 10);
    let t = PerThread::new();
    let locks: Vec<Trace> = (0..2000).map(|_| Trace::new()).collect();
    for (i, lock) in locks.iter().enumerate() {
        file.pair(&t, lock, 0x10_0000 + i * 64, 1, 5);
    }
    // A thread that comes now gets nothing.
    file.pair(&PerThread::new(), &locks[0], 0x10_0000, 1, 5);
    DISK.set(u64::MAX);
    let mut bytes = file.bytes();
    bytes.truncate(64 << 10); // what the disk has
    let profile = Profile::parse("test", &bytes).unwrap();
    let table = profile.table(&Options { symbols: false, ..Options::default() });
    assert_eq!(table.rows.iter().map(LockRow::acquisitions).sum::<u64>(), 2000);
    assert_eq!(table.header.dropped, 1);
    assert!(table.header.warnings.iter().any(|w| w.contains("No space left")), "{:?}", table.header.warnings);
}

#[test]
fn records_of_ended_threads_are_taken_over_past_the_bound() {
    let file = File::new(8 * MIB, 1);
    file.recorder.bound_threads(4);
    GONE.set(true);
    let lock = Trace::new();
    const ENDED: u64 = if cfg!(miri) { 12 } else { 100 };
    for _ in 0..ENDED {
        let t = PerThread::new();
        file.pair(&t, &lock, 0x1000, 1, 5);
        file.recorder.thread_ends(&t);
        file.pair(&t, &lock, 0x1000, 1, 5); // in a later destructor
    }
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    assert_eq!(profile.sections()[0].threads.len(), 4);
    let table = profile.table(&Options { symbols: false, ..Options::default() });
    assert_eq!(row(&table, 0x1000).acquisitions(), 2 * ENDED);
    let think = &row(&table, 0x1000).exclusive.think;
    assert_eq!((think.count, think.total_ns), (ENDED, ENDED as f64), "none from one thread to the next");
    assert_eq!(table.header.threads, ENDED);
    // A thread that has said that it ends may still run: its records are its own until it is gone.
    GONE.set(false);
    file.pair(&PerThread::new(), &lock, 0x1000, 1, 5);
    GONE.set(true);
    assert_eq!(Profile::parse("test", &file.bytes()).unwrap().sections()[0].threads.len(), 5);
}

/// The system tells the launcher nothing of a child that was not waited for.
#[test]
fn the_cpu_time_is_no_less_than_that_of_the_threads() {
    for (of_children, told) in [(7_u64, 5_000.0), (6_000, 6_000.0)] {
        let file = File::new(1 << 20, 1);
        let (t, lock) = (PerThread::new(), Trace::new());
        file.pair(&t, &lock, 0x1000, 0, 0);
        pass(10_000);
        file.recorder.process_ends(); // the fake thread runs for half of its time
        file.recorder.append(Type::Run, &[&10_000_u64.to_le_bytes(), &of_children.to_le_bytes()]);
        assert_eq!(table(&file).header.cpu_ns, told);
    }
}

/// As those that the C library starts for a timer: the recorder is called by no end of theirs.
#[test]
fn threads_that_end_without_a_word_are_taken_over_and_were_not_blocked_since() {
    let file = File::new(8 * MIB, 1);
    file.recorder.bound_threads(4);
    let lock = Trace::new();
    const ENDED: u64 = if cfg!(miri) { 12 } else { 100 };
    for _ in 0..ENDED {
        GONE.set(true);
        let t = PerThread::new();
        file.pair(&t, &lock, 0x1000, 1, 5);
        pass(1_000_000);
    }
    GONE.set(false);
    let lives = PerThread::new();
    file.pair(&lives, &lock, 0x1000, 1, 5);
    GONE.set(true);
    file.recorder.process_ends();
    GONE.set(false);
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    assert_eq!(profile.sections()[0].threads.len(), 5);
    let table = profile.table(&Options { symbols: false, ..Options::default() });
    assert_eq!((row(&table, 0x1000).acquisitions(), table.header.threads), (ENDED + 1, ENDED + 1));
    let blocked = table.header.blocked.map_or(0.0, |blocked| blocked.total_ns());
    assert!(blocked < 1_000.0, "{blocked} ns, of threads that were gone");
}

/// An idle pool: its threads are in condition waits when the program ends.
#[test]
fn a_condition_wait_that_is_not_over_is_seen() {
    let file = File::new(1 << 20, 1);
    let (t, mutex) = (PerThread::new(), Trace::new());
    file.pair(&t, &mutex, 0x1000, 1, 1);
    let started = NOW.get();
    file.recorder.cond_waits(&t, started);
    pass(1000);
    file.recorder.process_ends();
    let coverage = table(&file).header.coverage.expect("a thread that has ended");
    assert!(coverage.seen_ns > 0.99 * coverage.off_cpu_ns && coverage.off_cpu_ns > 0.0, "{coverage:?}");
}

/// `main` starts workers and joins them; it touches no lock, or one before.
#[test]
fn a_join_is_no_blocking_that_was_missed() {
    for touches in [false, true] {
        for over in [false, true] {
            let file = File::new(1 << 20, 1);
            let (t, lock) = (PerThread::new(), Trace::new());
            if touches {
                file.pair(&t, &lock, 0x1000, 0, 0);
            }
            let started = NOW.get();
            file.recorder.joins(&t, started);
            pass(10_000);
            if over {
                file.recorder.joined(&t, started);
            }
            file.recorder.process_ends();
            let header = table(&file).header;
            assert_eq!(header.threads, u64::from(touches), "threads that touched a lock");
            // The fake thread runs for half of its time and is queued for a tenth.
            let blocked = header.blocked.unwrap();
            assert_eq!((blocked.joins_ns, blocked.total_ns()), (4_000.0, 4_000.0));
            assert_eq!(header.coverage.unwrap().ratio(), 1.0);
            assert!(!header.warnings.iter().any(|warning| warning.contains("may have been")), "{header:?}");
        }
    }
    let file = File::new(1 << 20, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    file.recorder.joins(&t, NOW.get());
    file.recorder.joined(&t, NOW.get());
    file.pair(&t, &lock, 0x1000, 0, 0);
    assert_eq!(table(&file).header.threads, 1, "it touched a lock after a join");
}

/// Sections are elapsed time, and so is what they are a share of: that of the threads that use the lock, less their waits.
#[test]
fn a_share_is_of_the_threads_time_and_never_more_than_all_of_it() {
    let file = File::new(1 << 20, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    for _ in 0..10 {
        file.pair(&t, &lock, 0x1000, 10, 30);
        let waits_from = NOW.get();
        pass(1000);
        file.recorder.acquired(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, Some(waits_from));
        file.recorder.releasing(&t, &lock, Mode::Exclusive);
    }
    file.recorder.process_ends();
    let table = table(&file);
    let row = row(&table, 0x1000);
    // The first touch is the first release of think time: nothing before it counts.
    assert_eq!((row.held_ns(), row.threads_ns), (300.0, 390.0));
    assert!(row.share.is_some_and(|share| (share - 300.0 / 390.0).abs() < 1e-9), "{:?}", row.share);
}

/// Locks that one call makes in a loop are numbered in the order of their making, whichever of them is taken first.
#[test]
fn names_do_not_depend_on_who_comes_first() {
    let names = |order: [usize; 3]| {
        let file = File::new(1 << 20, 1);
        STACK.set(vec![0x5001, 0x5002]);
        let locks = [Trace::new(), Trace::new(), Trace::new()];
        locks.iter().for_each(|lock| file.recorder.initialised(lock));
        STACK.set(vec![0x6001]);
        let t = PerThread::new();
        for lock in order {
            file.pair(&t, &locks[lock], 0x9000 - lock * 0x100, 1, 1);
        }
        STACK.take();
        let mut names: Vec<_> = table(&file).rows.iter().map(|row| (row.address, row.name.clone())).collect();
        names.sort();
        names
    };
    assert_eq!(names([0, 1, 2]), names([2, 0, 1]));
    assert_eq!(names([0, 1, 2])[0].1.rsplit_once('#').unwrap().1, "3", "the last one that was made");
    let only_the_last = names([2, 2, 2]);
    assert_eq!(only_the_last[0], names([0, 1, 2])[0], "whatever others are used");
}

/// The kernel takes long to end threads that were looked at in `/proc`, which is no way to treat a program of 200,000 short ones.
#[test]
fn threads_that_live_shortly_are_not_looked_at() {
    for (lives_ns, looks) in [(1_000_000, 0), (60_000_000, 1)] {
        let file = File::new(MIB, 1);
        FIRST.set(false);
        LOOKS.set(0);
        NOW.set(1_000);
        let t = PerThread::new();
        file.pair(&t, &Trace::new(), 0x1000, 0, lives_ns);
        file.recorder.thread_ends(&t);
        assert_eq!(LOOKS.get(), looks, "{lives_ns}");
        let profile = Profile::parse("test", &file.bytes()).unwrap();
        let threads: Vec<_> = profile.sections()[0].threads.values().collect();
        assert_eq!((threads[0].running_ns, threads[0].age_ns), (lives_ns / 2, lives_ns));
    }
    FIRST.set(true);
}

/// As workers do that compute for long and then put down what came of it.
#[test]
fn a_thread_that_ran_long_before_its_first_lock_is_not_queued_for_ever() {
    let file = File::new(MIB, 1);
    FIRST.set(false);
    NOW.set(60_000_000);
    RAN.set(Some(60_000_000));
    let t = PerThread::new();
    file.pair(&t, &Trace::new(), 0x1000, 0, 1_000);
    RAN.set(Some(60_001_000));
    file.recorder.thread_ends(&t);
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    let thread = profile.sections()[0].threads.values().next().unwrap();
    assert_eq!(thread.queued_ns, 100, "a tenth of the time since the first lock");
    RAN.set(None);
    FIRST.set(true);
}

#[test]
fn blocked_time_is_set_against_off_cpu_time() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    file.pair(&t, &lock, 0x1000, 0, 0);
    let waits_from = NOW.get();
    pass(10_000);
    file.recorder.acquired(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, Some(waits_from));
    file.recorder.process_ends();
    let coverage = table(&file).header.coverage.unwrap();
    // The fake thread runs for half of its time and is queued for a tenth.
    assert_eq!(coverage.off_cpu_ns, 4_000.0);
    assert_eq!(coverage.seen_ns, 4_000.0, "no more than the thread was off its core");
    assert_eq!(coverage.ratio(), 1.0);
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn own_cost_is_measured_without_a_trace_in_the_file() {
    let file = File::new(MIB, 1);
    let before = file.bytes();
    let costs = file.recorder.measure();
    assert_eq!(costs, [0; 4], "the fake clock stands still");
    assert_eq!(before, file.bytes());
}

#[test]
fn without_a_file_every_call_does_nothing() {
    let recorder = contend_profile::record::Recorder::new(support::Fake);
    let (t, lock) = (PerThread::new(), Trace::new());
    recorder.acquired(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, Some(1));
    recorder.releasing(&t, &lock, Mode::Exclusive);
    recorder.cond_waited(&t, &lock, 0x1000, 1, None, Outcome::Woken);
    recorder.destroyed(&lock);
    recorder.thread_ends(&t);
    recorder.process_ends();
    assert!(!recorder.enabled());
    assert_eq!(lock.lock(), 0);
}

/// Two threads hand work to each other and back on one condition: each acquires the mutex once by a call, and else by the ends
/// of its waits.
#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn the_mutexes_return_after_a_condition_wait_is_an_acquisition() {
    const ROUNDS: u64 = 1000;
    let file = File::new(4 * MIB, 1);
    let (a, b, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    for t in [&a, &b] {
        recorder.acquired(t, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
        pass(10);
        recorder.releasing(t, &lock, Mode::Exclusive);
    }
    for _ in 0..ROUNDS {
        for t in [&a, &b] {
            let started = NOW.get();
            pass(5);
            recorder.cond_waited(t, &lock, 0x1000, started, None, Outcome::Woken);
            pass(10);
            recorder.releasing(t, &lock, Mode::Exclusive);
        }
    }
    let table = table(&file);
    let row = row(&table, 0x1000);
    let usage = &row.exclusive;
    assert_eq!((usage.acquisitions, usage.calls(), usage.holds()), (2 * ROUNDS + 2, 2, 2 * ROUNDS + 2));
    assert_eq!((usage.condition_waits, usage.owner_changes), (2 * ROUNDS, 2 * ROUNDS + 1));
    assert_eq!(usage.hold().total_ns, (2 * ROUNDS + 2) as f64 * 10.0);
    let kept: u64 = usage.hold().buckets.iter().map(|bucket| bucket.count).sum();
    assert!(kept > ROUNDS, "they turn warm by condition waits, too: {kept}");
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn distributions_are_given_to_warm_pairs_only() {
    let file = File::new(4 * MIB, 1);
    let t = PerThread::new();
    let (cold, warm) = (Trace::new(), Trace::new());
    file.pair(&t, &cold, 0x1000, 1, 5);
    for _ in 0..300 {
        file.pair(&t, &warm, 0x2000, 1, 5);
    }
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    let pairs = &profile.sections()[0].pairs;
    let of = |acquisitions| pairs.iter().find(|pair| pair.values.acquisitions == acquisitions).unwrap();
    assert!(of(1).buckets(Quantity::HoldSame).next().is_none());
    // From the 256th acquisition on, with those that are noted but not sorted yet.
    assert_eq!(of(300).buckets(Quantity::HoldSame).map(|(_, count)| count).sum::<u64>(), 45);
    assert_eq!(of(300).buckets(Quantity::Think).map(|(_, count)| count).sum::<u64>(), 45);
}

#[test]
fn who_waits_is_noted_from_the_first_lock_on() {
    let file = File::new(MIB, 1);
    let (holder, waiter, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    let waits = || {
        let profile = Profile::parse("test", &file.bytes()).unwrap();
        let section = &profile.sections()[0];
        assert_eq!(section.process.marks_waits, 1);
        let key =
            section.pairs.iter().map(|pair| pair.values.key).find(|key| key >> 1 == u64::from(lock.lock()));
        let threads = section.threads.values();
        let waiting = threads.filter(|thread| thread.lock_waited_since != 0);
        waiting.map(|thread| (Some(thread.lock_waited) == key, thread.lock_waited_since)).collect::<Vec<_>>()
    };
    recorder.acquired(&holder, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
    assert_eq!(waits(), []);
    pass(10);
    // The thread has no record yet, nor one with this lock.
    let since = recorder.waits(&waiter, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000);
    pass(5);
    assert_eq!(waits(), [(true, since)]);
    recorder.releasing(&holder, &lock, Mode::Exclusive);
    recorder.waits_no_more(&waiter);
    recorder.acquired(&waiter, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, Some(since));
    assert_eq!(waits(), []);
    let table = table(&file);
    let row = row(&table, 0x1000);
    assert_eq!((row.exclusive.contended, row.exclusive.wait.total_ns, row.threads), (1, 5.0, 2));
    // A lock that has no number yet: only the time is told.
    let unknown = Trace::new();
    assert_eq!(recorder.waits(&waiter, &unknown, ObjectKind::Mutex, Mode::Exclusive, 0x2000), NOW.get());
    assert_eq!((waits(), unknown.lock()), (vec![], 0));
    // A thread that ends in a wait, cancelled, waits no more.
    recorder.waits(&waiter, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000);
    recorder.thread_ends(&waiter);
    assert_eq!(waits(), []);
}

/// The end of the recording, of which a process that is killed tells nothing.
fn table_at_end(file: &File) -> LockTable {
    let header = file.recorder.header().unwrap();
    header.clock_last_ticks.store(NOW.get(), Relaxed);
    header.clock_last_ns.store(NOW.get(), Relaxed);
    table(file)
}

#[test]
fn a_deadlock_is_in_the_table() {
    const FORWARD: usize = 0x10_0010;
    const BACKWARD: usize = 0x10_0110;
    let file = File::new(MIB, 1);
    let threads = [const { PerThread::new() }; 2];
    let locks = [const { Trace::new() }; 2];
    for i in [0, 1] {
        TID.set(50 + i as u32);
        let call = Call::new(0x1000 * (i + 1), FORWARD);
        file.recorder.acquired(&threads[i], &locks[i], ObjectKind::Mutex, Mode::Exclusive, call, None);
    }
    pass(1_000);
    for i in [0, 1] {
        let call = Call::new(0x1000 * (2 - i), BACKWARD);
        file.recorder.waits(&threads[i], &locks[1 - i], ObjectKind::Mutex, Mode::Exclusive, call);
    }
    pass(4_000);
    let table = table_at_end(&file);
    let first = row(&table, 0x1000);
    let usage = &first.exclusive;
    assert_eq!((usage.acquisitions, usage.contended, usage.contended_share()), (1, 0, Some(0.5)));
    assert_eq!((first.waited_ns(), first.held_ns(), first.threads), (4_000.0, 5_000.0, 2));
    assert!(first.share.is_some_and(|share| share > 0.8), "{:?}", first.share);
    let end = first.at_end.as_ref().expect("a thread waits for it");
    let of = |threads: &[AtEndThread]| threads.iter().map(|of| (of.tid, of.for_ns)).collect::<Vec<_>>();
    assert_eq!(of(&end.waiters), [(51, Some(4_000.0))]);
    assert_eq!(of(&end.holders), [(50, Some(5_000.0))]);
    let functions = [&end.holders[0].function, &end.waiters[0].function];
    assert!(functions.iter().all(|name| !name.is_empty()), "both calls are known: {functions:?}");
    file.recorder.process_ends();
    pass(1_000_000); // of other processes
    assert_eq!(row(&table_at_end(&file), 0x1000).waited_ns(), 4_000.0);
    let blocked = table_at_end(&file).header.blocked.expect("the threads' times are known");
    assert!(blocked.locks_ns > 0.0, "{blocked:?}");
    TID.set(1234);
}

#[test]
fn a_reader_that_waits_for_good_has_a_row_of_its_own_and_knows_the_writer() {
    let file = File::new(MIB, 1);
    let (writer, reader, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    file.recorder.acquired(&writer, &lock, ObjectKind::Rwlock, Mode::Exclusive, 0x1000, None);
    file.recorder.waits(&reader, &lock, ObjectKind::Rwlock, Mode::Shared, 0x1000);
    pass(70);
    let table = table_at_end(&file);
    let row = row(&table, 0x1000);
    assert_eq!((row.shared.waited_ns(), row.shared.contended_share()), (70.0, Some(1.0)));
    assert_eq!((row.exclusive.waited_ns(), row.exclusive.held_ns()), (0.0, 70.0));
    let end = row.at_end.as_ref().unwrap();
    assert_eq!((end.waiters[0].shared, end.holders[0].shared), (true, false));
}

#[test]
fn how_long_a_lock_is_held_that_other_threads_release_is_not_known() {
    let file = File::new(MIB, 1);
    let (taker, giver, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    for _ in 0..5 {
        file.recorder.acquired(&taker, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
        pass(50);
        file.recorder.releasing(&giver, &lock, Mode::Exclusive);
    }
    pass(100_000);
    let table = table_at_end(&file);
    let row = row(&table, 0x1000);
    assert_eq!((row.share, row.held_ns(), row.exclusive.held_unknown()), (None, 0.0, true));
    // One that is released by its own threads is known.
    file.pair(&taker, &Trace::new(), 0x2000, 1, 5);
    assert!(table_at_end(&file).rows.iter().any(|row| row.address == 0x2000 && row.share.is_some()));
}

/// What the recorder knows of a thread begins after the wait for its first lock.
#[test]
fn the_part_of_a_threads_time_is_unknown_where_it_hardly_did_more_than_wait_for_its_first_lock() {
    let share = |more: u64| {
        let file = File::new(MIB, 1);
        let (t, lock) = (PerThread::new(), Trace::new());
        let began = NOW.get();
        pass(400);
        file.recorder.acquired(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, Some(began));
        pass(2);
        file.recorder.releasing(&t, &lock, Mode::Exclusive);
        pass(more);
        file.recorder.thread_ends(&t);
        let table = table(&file);
        assert_eq!((row(&table, 0x1000).waited_ns(), row(&table, 0x1000).held_ns()), (400.0, 2.0));
        row(&table, 0x1000).share
    };
    assert_eq!(share(0), None, "it is not held all the time");
    assert!(share(1_000).is_some_and(|share| share < 0.01));
}

#[test]
fn a_lock_that_was_always_released_is_held_to_the_end() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    file.pair(&t, &lock, 0x1000, 1, 50);
    file.recorder.acquired(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
    pass(1_000);
    let table = table_at_end(&file);
    let row = row(&table, 0x1000);
    assert_eq!((row.held_ns(), &row.at_end), (1_050.0, &None));
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn acquisitions_before_a_pair_is_warm_count_within_sections_too() {
    let file = File::new(4 * MIB, 1);
    let threads = [const { PerThread::new() }; 3];
    let (outer, inner) = (Trace::new(), Trace::new());
    // The last one does not turn warm: nothing tells of its sections.
    for (t, sections) in threads.iter().zip([300, 400, 100]) {
        for _ in 0..sections {
            file.recorder.acquired(t, &outer, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
            file.pair(t, &inner, 0x2000, 1, 5);
            file.recorder.releasing(t, &outer, Mode::Exclusive);
        }
    }
    let within = row(&table(&file), 0x2000).within.clone().expect("it is acquired within the other one's");
    assert!((within.acquisitions - 1.0).abs() < 1e-9, "{within:?}");
}

#[test]
fn a_daemon_has_the_mappings_of_the_process_that_forked_twice() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    assert!(file.recorder.append(Type::Mappings, &[b"1000-2000 r-xp 00000000 08:01 7 /bin/daemon\n"]));
    for pid in [78, 79] {
        // SAFETY: no other thread uses the recorder.
        assert!(unsafe { file.recorder.start_in_child(&t, &image(pid)) });
    }
    file.pair(&t, &lock, 0x1000, 1, 5);
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    let mappings = profile.sections().iter().map(|section| section.mappings.len());
    assert_eq!(mappings.collect::<Vec<_>>(), [1, 0, 1]);
    assert_eq!(table(&file).rows[0].image, 1);
}

/// Another library came to where the first one had been unloaded, and a lock of each lies at the same place.
#[test]
fn where_one_library_came_after_another_a_lock_has_the_name_of_neither() {
    let file = File::new(MIB, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    let look = |name: &str, inode: u32| {
        let maps = format!(
            "1000-3000 r-xp 00000000 08:01 {inode} /nowhere/{name}\n5000-6000 r-xp 00000000 08:01 9 /nowhere/program\n"
        );
        assert!(file.recorder.append(Type::Mappings, &[maps.as_bytes()]));
    };
    look("libfirst.so", 7);
    file.pair(&t, &lock, 0x2000, 1, 5);
    let before = table(&file);
    assert_eq!(before.rows[0].name, "libfirst.so+0x1000");
    look("libsecond.so", 8);
    let table = table(&file);
    assert_eq!(table.rows[0].name, "0x2000");
    let warning = "(libfirst.so, libsecond.so): locks and calls there are named by their address";
    assert!(table.header.warnings.iter().any(|said| said.contains(warning)), "{:?}", table.header.warnings);
    assert!(
        !before.header.warnings.iter().any(|said| said.contains("libfirst")),
        "{:?}",
        before.header.warnings
    );
}

/// Without a word, a lock would have lost its name.
#[test]
fn a_program_that_is_gone_or_another_one_is_said_to_be() {
    let warnings = |path: &str, symbols: bool| {
        let file = File::new(MIB, 1);
        let (t, lock) = (PerThread::new(), Trace::new());
        let maps = format!("1000-3000 r-xp 00000000 08:01 7 {path}\n");
        assert!(file.recorder.append(Type::Mappings, &[maps.as_bytes()]));
        assert!(file.recorder.append(Type::BuildIds, &[&0x1000u64.to_le_bytes(), &[4, 1, 2, 3, 4]]));
        file.pair(&t, &lock, 0x2000, 1, 5);
        let profile = Profile::parse("test", &file.bytes()).unwrap();
        profile.table(&Options { symbols, ..Options::default() }).header.warnings.join("\n")
    };
    let said = warnings("/nowhere/server", true);
    let whole = "server was built anew since the profile, or is gone: its locks and calls are named by address; record again";
    assert!(said.contains(whole), "{said}");
    assert!(!warnings("/nowhere/server", false).contains("built anew"), "names were not asked for");
    if cfg!(not(miri)) {
        let this = std::env::current_exe().unwrap();
        let said = warnings(this.to_str().unwrap(), true);
        assert!(said.contains("was built anew since the profile"), "it has another identifier: {said}");
    }
}

#[test]
fn a_process_that_executes_another_program_is_one_process() {
    let processes = |ends: bool, pid: u64| {
        let file = File::new(MIB, 1);
        let (t, lock) = (PerThread::new(), Trace::new());
        file.pair(&t, &lock, 0x1000, 1, 5);
        if ends {
            file.recorder.process_ends();
        }
        pass(10);
        // SAFETY: no other thread uses the recorder.
        assert!(unsafe { file.recorder.start_in_child(&t, &image(pid)) });
        file.pair(&t, &Trace::new(), 0x2000, 1, 5);
        table(&file).header.processes
    };
    assert_eq!(processes(false, 77), 1, "its first program tells no end");
    assert_eq!(processes(false, 78), 2);
    assert_eq!(processes(true, 77), 2, "another process has its identifier now");
}

#[test]
fn a_wait_that_came_to_nothing_is_no_row() {
    let file = File::new(MIB, 1);
    let (holder, waiter, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    file.recorder.acquired(&holder, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
    file.recorder.waits(&waiter, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000);
    let table = table(&file);
    assert_eq!((table.rows.len(), table.rows[0].threads, table.rows[0].exclusive.acquisitions), (1, 1, 1));
}

#[test]
fn a_wait_is_counted_where_it_was_and_behind_the_call_that_held_the_lock() {
    const QUICK: usize = 0x10_0010;
    const SLOW: usize = 0x20_0010;
    let file = File::new(MIB, 1);
    let (a, b, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    let call = |caller| Call::new(0x1000, caller);
    let acquired = |t: &PerThread, caller, since| {
        recorder.acquired(t, &lock, ObjectKind::Mutex, Mode::Exclusive, call(caller), since);
    };
    for _ in 0..3 {
        acquired(&b, QUICK, None);
        recorder.releasing(&b, &lock, Mode::Exclusive);
        acquired(&a, SLOW, None);
        let waits_from = NOW.get();
        pass(50_000);
        recorder.releasing(&a, &lock, Mode::Exclusive);
        pass(10);
        acquired(&b, QUICK, Some(waits_from));
        pass(20);
        recorder.releasing(&b, &lock, Mode::Exclusive);
    }
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    let mut seen: Vec<_> =
        profile.sections()[0].pairs.iter().flat_map(|pair| pair.by_caller().to_vec()).collect();
    seen.sort_by_key(|record| (record.caller, record.behind_ticks));
    let [quick, slow] =
        [QUICK, SLOW].map(|caller| CallerRecord { caller: caller as u64, ..CallerRecord::default() });
    let expected = [
        // Its first hold was over before the thread had waited.
        CallerRecord { waits: 3, wait_ticks: 150_030, holds: 5, hold_ticks: 60, ..quick },
        CallerRecord { holds: 3, hold_ticks: 150_000, ..slow },
        CallerRecord { behind_ticks: 150_030, ..slow },
    ];
    assert_eq!(seen, expected);
    let table = table(&file);
    let sites = &row(&table, 0x1000).call_sites;
    assert_eq!(sites.iter().map(|site| site.waits).sum::<u64>(), 3);
}

#[test]
fn waits_and_long_holds_are_counted_by_their_stacks() {
    const WRAPPER: usize = 0x10_0010;
    let file = File::new(MIB, 1);
    let (a, b, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    let acquired = |t: &PerThread, since| {
        let call = Call::new(0x1000, WRAPPER);
        recorder.acquired(t, &lock, ObjectKind::Mutex, Mode::Exclusive, call, since);
    };
    let released = |t: &PerThread| recorder.releasing(t, &lock, Mode::Exclusive);
    let from = |frames: &[u64]| STACK.set(frames.to_vec());
    for _ in 0..3 {
        from(&[WRAPPER as u64, 0x21]);
        acquired(&a, None);
        let waits_from = NOW.get();
        pass(2_000_000); // longer than a lock saves for a walk
        from(&[0x12, 0x22]);
        released(&a);
        from(&[WRAPPER as u64, 0x31]);
        acquired(&b, Some(waits_from));
        from(&[0x12, 0x32]);
        released(&b);
    }
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    let sum = |frames: &[u64]| {
        let all = profile.sections()[0].by_stack.iter();
        let of: Vec<_> = all.filter(|record| record.frames == frames).collect();
        let [record] = of[..] else { panic!("{frames:x?}: {of:?}") };
        assert_eq!((record.values.lock, record.values.caller), (u64::from(lock.lock()), WRAPPER as u64));
        let of = record.values;
        (record.is_of_release(), [of.waits, of.wait_ticks, of.holds, of.hold_ticks, of.behind_ticks])
    };
    assert_eq!(sum(&[WRAPPER as u64, 0x31]), (false, [3, 6_000_000, 0, 0, 0]));
    assert_eq!(sum(&[0x12, 0x22]), (true, [0, 0, 3, 6_000_000, 6_000_000]));
    let sites = profile.sections()[0].sites.iter();
    assert!(sites.clone().all(|(_, stack)| stack[0] == WRAPPER as u64), "no release takes the lock");
}

/// Ticks are of any length: those of a timer of AArch64 may take 40 ns.
#[test]
fn which_hold_is_long_is_told_by_its_time() {
    for ns_per_tick in [1, 40] {
        NS_PER_TICK.set(ns_per_tick);
        let file = File::new(MIB, 1);
        let (t, lock) = (PerThread::new(), Trace::new());
        pass(1_000_000); // the clocks of the launcher tell how long a tick is
        // SAFETY: this is the only thread, and the mapping stays.
        assert!(unsafe { file.recorder.start_in_child(&t, &image(78)) });
        for hold_ns in [4_000, 40_000] {
            let call = Call::new(0x1000, 0x5000);
            file.recorder.acquired(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, call, None);
            pass(hold_ns / ns_per_tick);
            file.recorder.releasing(&t, &lock, Mode::Exclusive);
        }
        let profile = Profile::parse("test", &file.bytes()).unwrap();
        let pairs = profile.sections().iter().flat_map(|section| &section.pairs);
        let noted: Vec<_> = pairs.flat_map(|pair| pair.by_caller()).map(|of| of.holds).collect();
        assert_eq!(noted, [1], "the longer one, where a tick takes {ns_per_tick} ns");
    }
}

/// Return addresses that come first at the same place among a pair's callers.
const CALLERS_OF_ONE_PLACE: [usize; 2] = [0x5000, 0x5100];

#[test]
fn a_hold_after_a_condition_wait_is_of_the_call_that_took_the_lock() {
    let [first, second] = CALLERS_OF_ONE_PLACE;
    let file = File::new(MIB, 1 << 20);
    let (t, lock) = (PerThread::new(), Trace::new());
    // The first one is timed, and so is the think time that the second one ends; the third one is not.
    for caller in [first, second, first] {
        let call = Call::new(0x1000, caller);
        file.recorder.acquired(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, call, None);
        file.recorder.releasing(&t, &lock, Mode::Exclusive);
    }
    let started = NOW.get();
    pass(100);
    file.recorder.cond_waited(&t, &lock, 0x1000, started, Some(NOW.get() - 40), Outcome::Woken);
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    let records = profile.sections()[0].pairs.iter().flat_map(|pair| pair.by_caller());
    let waited: Vec<_> = records.filter(|of| of.waits > 0).map(|of| (of.caller, of.wait_ticks)).collect();
    assert_eq!(waited, [(first as u64, 40)]);
}

#[test]
fn the_first_call_for_a_lock_leaves_the_callers_of_its_record_alone() {
    let file = File::new(MIB, 1);
    file.recorder.header().unwrap().lock_bytes.store(MIB, Relaxed); // there is no space for locks: one record is of all
    let (t, locks) = (PerThread::new(), [Trace::new(), Trace::new(), Trace::new()]);
    for (lock, caller) in locks.iter().zip(CALLERS_OF_ONE_PLACE.into_iter().chain([0])) {
        let call = Call::new(0x1000, caller);
        file.recorder.acquired(&t, lock, ObjectKind::Mutex, Mode::Exclusive, call, Some(NOW.get() - 40));
        file.recorder.releasing(&t, lock, Mode::Exclusive);
    }
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    let records = profile.sections()[0].pairs.iter().flat_map(|pair| pair.by_caller());
    let mut waited: Vec<_> = records.map(|of| (of.caller, of.waits)).collect();
    waited.sort_unstable();
    assert_eq!(waited, CALLERS_OF_ONE_PLACE.map(|caller| (caller as u64, 1)));
}

#[test]
fn a_call_site_holds_a_lock_for_no_longer_than_its_row_says() {
    let file = File::new(MIB, 1);
    file.recorder.process().unwrap().cost_in_hold.store(300 * 1024, Relaxed);
    let (t, lock) = (PerThread::new(), Trace::new());
    for _ in 0..10 {
        let call = Call::new(0x1000, 0x5000);
        file.recorder.acquired(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, call, None);
        pass(100_000);
        file.recorder.releasing(&t, &lock, Mode::Exclusive);
    }
    let table = table(&file);
    let row = row(&table, 0x1000);
    assert_eq!((row.held_ns(), row.call_sites[0].held_ns), (997_000.0, 997_000.0));
}

/// How long one wait was behind each call, in ticks: it lasted from `began` to the end of these holds, each by a thread of its own, as
/// (call, begin, end).
fn behind(holds: &[(usize, u64, u64)], began: u64) -> BTreeMap<u64, u64> {
    let file = File::new(MIB, 1);
    let recorder = &file.recorder;
    let lock = Trace::new();
    let start = NOW.get();
    let at = |ticks: u64| NOW.set(start + ticks);
    let acquired = |t: &PerThread, caller, since| {
        let call = Call::new(0x1000, caller);
        recorder.acquired(t, &lock, ObjectKind::Mutex, Mode::Exclusive, call, since);
    };
    for &(caller, begin, end) in holds {
        let holder = PerThread::new();
        at(begin);
        acquired(&holder, caller, None);
        at(end);
        recorder.releasing(&holder, &lock, Mode::Exclusive);
    }
    acquired(&PerThread::new(), 0x9999, Some(start + began));
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    let records = profile.sections()[0].pairs.iter().flat_map(|pair| pair.by_caller().to_vec());
    let mut behind = BTreeMap::new();
    for record in records.filter(|record| record.behind_ticks > 0) {
        *behind.entry(record.caller).or_default() += record.behind_ticks;
    }
    behind
}

#[test]
fn a_wait_is_behind_the_holds_that_lasted_in_it_whoever_released_last() {
    let (quick, slow, slower) = (0x10, 0x20, 0x30);
    let told = |holds: &[_], began| behind(holds, began).into_iter().collect::<Vec<_>>();
    let then_quick = |begin, end| [(slow, 0, 50_000), (quick, begin, end)];
    assert_eq!(told(&[(slow, 0, 50_000)], 0), [(0x20, 50_000)]);
    assert_eq!(told(&then_quick(50_010, 50_030), 0), [(0x20, 50_000)]);
    assert_eq!(told(&[(quick, 0, 30)], 0), [(0x10, 30)]);
    assert_eq!(told(&then_quick(50_010, 95_000), 49_000), [(0x10, 45_000), (0x20, 1_000)]);
    assert_eq!(told(&then_quick(60_000, 61_000), 50_000), [(0x10, 11_000)], "it was over before the wait");
    let three = [(slow, 0, 40_000), (slower, 40_000, 80_000), (slow, 80_000, 120_000)];
    assert_eq!(told(&three, 35_000), [(0x20, 45_000), (0x30, 40_000)]);
    // More long holds than are kept, with short ones between them: the latest stand for all.
    let pairs = (0..100).map(|pair| 40_000 * pair);
    let many: Vec<_> =
        pairs.flat_map(|from| [(slow, from, from + 38_000), (quick, from + 38_000, from + 40_000)]).collect();
    assert_eq!(told(&many, 0), [(0x20, 100 * 38_000)]);
}

#[test]
fn a_forged_call_site_is_read_as_what_it_is() {
    let file = File::new(MIB, 1);
    let (a, b, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    let call = Call::new(0x1000, 0x10_0010);
    let round = |t: &PerThread, since| {
        recorder.acquired(t, &lock, ObjectKind::Mutex, Mode::Exclusive, call, since);
        pass(40_000);
        recorder.releasing(t, &lock, Mode::Exclusive);
    };
    for forged in [1, u64::from(u32::MAX), u64::MAX, u64::MAX / 64] {
        round(&a, None);
        round(&b, Some(NOW.get()));
        for word in file.words().iter().skip(PAGE as usize / 8) {
            if word.load(Relaxed) != 0 {
                word.store(forged, Relaxed);
            }
        }
        round(&a, None);
        round(&b, Some(NOW.get()));
        assert!(file.is_inside());
    }
}

/// Lets the thread leave its core for so many ticks, by itself or not.
fn leave_core(ticks: u64, kind: usize) {
    RAN.set(Some(RAN.get().unwrap_or_default())); // it does not run meanwhile
    pass(ticks);
    let mut switches = SWITCHES.get();
    switches[kind] += 1;
    SWITCHES.set(switches);
    STAYED.set(false);
}

/// Lets the thread run for so many ticks.
fn runs(ticks: u64) {
    RAN.set(Some(RAN.get().unwrap_or_default() + ticks));
    pass(ticks);
}

#[test]
fn what_a_holder_did_is_told_by_lock_and_call_site() {
    const INNER_CALL: usize = 0x7000;
    let file = File::new(MIB, 1);
    let recorder = &file.recorder;
    recorder.process().unwrap().watches_cores.store(1, Relaxed);
    STAYED.set(false);
    let (t, outer, inner) = (PerThread::new(), Trace::new(), Trace::new());
    let take = |lock: &Trace, object, caller, waited| {
        let call = Call::new(object, caller);
        recorder.acquired(&t, lock, ObjectKind::Mutex, Mode::Exclusive, call, waited);
    };
    let give = |lock: &Trace| recorder.releasing(&t, lock, Mode::Exclusive);
    leave_core(500_000, 0); // before any hold
    take(&outer, 0x1000, 0x6000, None);
    runs(10_000);
    leave_core(40_000, 0);
    take(&inner, 0x2000, INNER_CALL, None);
    leave_core(3_000, 1);
    runs(1_000);
    give(&inner);
    leave_core(5_000, 1);
    let started = recorder.waits(&t, &inner, ObjectKind::Mutex, Mode::Exclusive, 0x2000);
    leave_core(20_000, 0);
    recorder.waits_no_more(&t);
    take(&inner, 0x2000, INNER_CALL, Some(started));
    give(&inner);
    give(&outer);
    let table = table(&file);
    let held = |address| {
        let held = row(&table, address).exclusive.while_held.expect("it is watched");
        [held.running_ns, held.sleeping_ns, held.preempted_ns, held.waiting_ns]
    };
    assert_eq!(held(0x1000), [11_000.0, 40_000.0, 8_000.0, 20_000.0]);
    assert_eq!(held(0x2000), [1_000.0, 0.0, 3_000.0, 0.0]);
    let site = &row(&table, 0x1000).call_sites[0];
    assert_eq!(site.while_held.map(|held| (held.waiting_ns, held.total_ns())), Some((20_000.0, 79_000.0)));
    assert_eq!(site.waiting_for.as_ref(), Some(&row(&table, 0x2000).name));
}

/// A thread that has looked a moment ago does not look again for each hold: what happens in these is unknown, and no part of the shares.
#[test]
fn a_thread_that_sleeps_at_each_hand_over_looks_now_and_then() {
    let file = File::new(MIB, 1);
    let recorder = &file.recorder;
    recorder.process().unwrap().watches_cores.store(1, Relaxed);
    STAYED.set(false);
    let (t, lock) = (PerThread::new(), Trace::new());
    let hold = |away: u64| {
        recorder.acquired(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, Call::new(0x1000, 0x6000), None);
        runs(1_000);
        leave_core(away, 0);
        recorder.releasing(&t, &lock, Mode::Exclusive);
        leave_core(50, 0);
    };
    leave_core(500, 0); // before any hold
    hold(3_000); // its first look tells of it
    hold(5_000); // not long after that
    hold(5_000);
    pass(1_000_000);
    hold(7_000);
    let held = row(&table(&file), 0x1000).exclusive.while_held.expect("it is watched");
    assert_eq!((held.running_ns, held.sleeping_ns, held.total_ns()), (2_000.0, 10_000.0, 12_000.0));
}

#[test]
fn nothing_is_told_of_holders_where_the_program_uses_the_word_itself() {
    let file = File::new(MIB, 1);
    file.recorder.process().unwrap().watches_cores.store(1, Relaxed);
    STAYED.set(false);
    WATCHABLE.set(false);
    file.pair(&PerThread::new(), &Trace::new(), 0x1000, 5, 100);
    assert_eq!(row(&table(&file), 0x1000).exclusive.while_held, None);
}
