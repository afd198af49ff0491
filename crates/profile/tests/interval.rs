//! What happened between two looks at a recording.

mod support;

use std::sync::atomic::Ordering::Relaxed;

use contend_profile::format::{HeaderValues, PAGE, RunValues, TaskValues};
use contend_profile::read::{LockRow, LockTable, Profile};
use contend_profile::record::{Call, Mode, Outcome, PerThread, Trace};
use contend_profile::session::Look;
use contend_profile::{Options, format};
use pthread::object::ObjectKind;
use support::{File, NOW, pass};

fn look(file: &File) -> Look {
    let header = file.recorder.header().unwrap();
    header.clock_last_ticks.store(NOW.get(), Relaxed);
    header.clock_last_ns.store(NOW.get(), Relaxed);
    Look::of(file.bytes())
}

fn between(before: &Look, now: Look) -> LockTable {
    let bytes = now.since(
        &before.packed().unpacked(), // as it is kept meanwhile
        &RunValues::default(),
        &[TaskValues { running_ns: 7, ..TaskValues::default() }],
        &[],
    );
    Profile::parse("interval", &bytes).unwrap().table(&Options::default())
}

fn row(table: &LockTable, address: u64) -> Option<&LockRow> {
    table.rows.iter().find(|row| row.address == address)
}

#[test]
fn an_interval_has_what_happened_in_it_alone() {
    let file = File::new(1 << 20, 1);
    let (worker, idler) = (PerThread::new(), PerThread::new());
    let locks = [const { Trace::new() }; 3];
    for _ in 0..1000 {
        file.pair(&worker, &locks[0], 0x1000, 5, 10);
        file.pair(&idler, &locks[1], 0x2000, 5, 10);
    }
    let before = look(&file);
    let started = NOW.get();
    for _ in 0..300 {
        file.pair(&worker, &locks[0], 0x1000, 7, 70);
    }
    pass(40);
    file.recorder.acquired(
        &worker,
        &locks[2],
        ObjectKind::Mutex,
        Mode::Exclusive,
        0x3000,
        Some(NOW.get() - 40),
    );
    file.recorder.releasing(&worker, &locks[2], Mode::Exclusive);
    let passed = (NOW.get() - started) as f64;
    let table = between(&before, look(&file));
    assert!(row(&table, 0x2000).is_none(), "nothing happened with it");
    let warm = &row(&table, 0x1000).unwrap().exclusive;
    assert_eq!((warm.acquisitions, warm.hold().count, warm.hold().total_ns), (300, 300, 21_000.0));
    let buckets = warm.hold().buckets;
    assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 300, "{buckets:?}");
    assert!(buckets.iter().all(|bucket| bucket.from_ns > 10.0), "holds of 10 ns were before: {buckets:?}");
    let new = &row(&table, 0x3000).unwrap().exclusive;
    assert_eq!((new.acquisitions, new.contended, new.wait.total_ns), (1, 1, 40.0));
    let header = &table.header;
    assert_eq!((header.threads, header.elapsed_ns, header.cpu_ns), (1, passed, 7.0));
    assert!(header.warnings.is_empty(), "{:?}", header.warnings);
    assert!(row(&table, 0x1000).unwrap().threads_ns <= passed);
}

#[test]
fn a_wait_for_a_lock_counts_in_each_interval_that_it_falls_into() {
    let file = File::new(1 << 20, 1);
    let (holder, waiter, lock) = (PerThread::new(), PerThread::new(), Trace::new());
    let recorder = &file.recorder;
    let first = look(&file);
    recorder.acquired(&holder, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
    let call = Call::new(0x1000, 0x5000);
    let since = recorder.waits(&waiter, &lock, ObjectKind::Mutex, Mode::Exclusive, call);
    pass(30);
    let second = look(&file);
    pass(500);
    let third = look(&file);
    pass(7);
    recorder.releasing(&holder, &lock, Mode::Exclusive);
    recorder.waits_no_more(&waiter);
    recorder.acquired(&waiter, &lock, ObjectKind::Mutex, Mode::Exclusive, call, Some(since));
    recorder.releasing(&waiter, &lock, Mode::Exclusive);
    let fourth = look(&file);
    let waited = |before: &Look, now: &Look| {
        let table = between(before, now.clone());
        let row = row(&table, 0x1000).expect("it was waited for");
        (row.waited_ns(), row.contended(), row.exclusive.unended.waits)
    };
    assert_eq!(waited(&first, &second), (30.0, 0, 1));
    assert_eq!(waited(&second, &third), (500.0, 0, 1));
    assert_eq!(waited(&third, &fourth), (7.0, 1, 0));
    let of_site = row(&between(&third, fourth), 0x1000).map(|row| row.call_sites[0].waited_ns);
    assert_eq!(of_site, Some(7.0));
}

/// It is known at its end how long it lasted, and that counts there.
#[test]
fn a_hold_that_began_before_an_interval_is_time_that_the_lock_was_held() {
    let file = File::new(1 << 20, 1);
    let (holder, lock) = (PerThread::new(), Trace::new());
    file.pair(&holder, &lock, 0x1000, 5, 10);
    file.recorder.acquired(&holder, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000, None);
    pass(30);
    let before = look(&file);
    pass(500);
    file.recorder.releasing(&holder, &lock, Mode::Exclusive);
    let table = between(&before, look(&file));
    assert_eq!(row(&table, 0x1000).map(|row| (row.acquisitions(), row.held_ns())), Some((0, 530.0)));
}

#[test]
fn intervals_add_up_to_the_whole_past_the_bound_too() {
    const LOCKS: usize = 300;
    let file = File::new(256 << 10, 1);
    let locks: Vec<Trace> = (0..LOCKS).map(|_| Trace::new()).collect();
    let threads: Vec<PerThread> = (0..8).map(|_| PerThread::new()).collect();
    let mut before = look(&file);
    for turn in 0..3 {
        for t in &threads {
            for (i, lock) in locks.iter().enumerate().skip(turn * 50) {
                file.pair(t, lock, 0x10_0000 + i * 64, 1, 5);
                file.pair(t, &locks[299], 0x10_0000 + 299 * 64, 1, 5);
            }
        }
        let now = look(&file);
        let table = between(&before, now.clone());
        let (all, hot) = (8 * 2 * (LOCKS - turn * 50) as u64, row(&table, 0x10_0000 + 299 * 64));
        assert_eq!(table.rows.iter().map(LockRow::acquisitions).sum::<u64>(), all, "turn {turn}");
        assert_eq!(hot.unwrap().acquisitions(), all / 2 + 8, "turn {turn}");
        let held: f64 = table.rows.iter().map(|row| row.exclusive.hold().total_ns).sum();
        assert_eq!(held, 5.0 * all as f64, "turn {turn}");
        before = now;
    }
    let whole = Profile::parse("whole", &file.bytes()).unwrap().table(&Options::default());
    assert!(whole.header.merged_pairs > 100, "the file was too large for the test");
}

#[test]
fn a_rate_that_changes_is_followed_and_told() {
    let file = File::new(1 << 20, 64);
    let (t, lock) = (PerThread::new(), Trace::new());
    let pairs = |count| (0..count).for_each(|_| file.pair(&t, &lock, 0x1000, 3, 10));
    pairs(20_000);
    let before = look(&file);
    file.recorder.header().unwrap().sample_period.store(4, Relaxed);
    pairs(20_000);
    let table = between(&before, look(&file));
    assert!((4..=5).contains(&table.header.sample_period), "one in {}", table.header.sample_period);
    let timed = row(&table, 0x1000).unwrap().exclusive.hold().count;
    assert!((4_000..6_000).contains(&timed), "{timed} of 20000 timed at one in 4");
}

/// A thread that wakes in an interval may have slept since long before it.
#[test]
fn a_condition_wait_counts_for_the_part_that_is_in_the_interval() {
    let file = File::new(1 << 20, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    file.pair(&t, &lock, 0x1000, 5, 10);
    let started = NOW.get();
    file.recorder.cond_waits(&t, started);
    pass(1_000_000);
    let before = look(&file);
    let waiting = Profile::parse("waiting", &file.bytes()).unwrap().table(&Options::default());
    let waiting = row(&waiting, 0x1000).unwrap();
    assert_eq!((waiting.exclusive.condition_ns, waiting.exclusive.unended.condition_ns), (0.0, 1_000_000.0));
    assert!(
        waiting.threads_ns < 1_000.0,
        "the wait is no time in which it could be held: {}",
        waiting.threads_ns
    );
    pass(40);
    file.recorder.cond_waited(&t, &lock, 0x1000, started, None, Outcome::Woken);
    pass(10);
    file.recorder.releasing(&t, &lock, Mode::Exclusive);
    pass(950);
    let table = between(&before, look(&file));
    let row = row(&table, 0x1000).unwrap();
    assert_eq!(row.exclusive.condition_ns, 40.0);
    assert!(row.share.unwrap() < 0.05, "{:?}", row.share);
}

/// What takes the mutex back after a wait is timed as often as a lock call.
#[test]
fn condition_waits_are_acquisitions_of_which_one_in_so_many_is_timed() {
    let file = File::new(1 << 20, 4);
    let (t, lock) = (PerThread::new(), Trace::new());
    let turns = |count| {
        for _ in 0..count {
            file.pair(&t, &lock, 0x1000, 3, 10);
            file.recorder.cond_waited(&t, &lock, 0x1000, NOW.get(), None, Outcome::Woken);
            pass(10);
            file.recorder.releasing(&t, &lock, Mode::Exclusive);
        }
    };
    turns(20_000);
    let before = look(&file);
    turns(20_000);
    assert_eq!(between(&before, look(&file)).header.sample_period, 4);
}

/// What is left to the C library is missing in every interval; what was lost was lost once.
#[test]
fn an_interval_has_the_losses_in_it_alone() {
    let file = File::new(1 << 20, 1);
    let process = file.recorder.process().unwrap();
    let (t, lock) = (PerThread::new(), Trace::new());
    process.attached.store(1, Relaxed);
    process.untouched_robust.store(2, Relaxed);
    process.merged_locks.store(4, Relaxed);
    let lost = [&process.lost_events, &process.without_callers, &process.merged_pairs];
    lost.iter().for_each(|word| word.store(5, Relaxed));
    let before = look(&file);
    lost.iter().for_each(|word| word.store(8, Relaxed));
    file.recorder.timed_out(&t, &lock, ObjectKind::Mutex, Mode::Exclusive, 0x1000);
    let header = between(&before, look(&file)).header;
    let attached = header.attached.unwrap();
    assert_eq!((attached.lost_events, attached.without_callers, header.merged_pairs), (3, 3, 3));
    assert_eq!((header.merged_locks, header.untouched.robust), (4, 2));
}

#[test]
fn waits_that_are_watched_from_outside_are_no_acquisitions_without_times() {
    let file = File::new(1 << 20, 1);
    let (t, lock) = (PerThread::new(), Trace::new());
    file.recorder.cond_waited(&t, &lock, 0x1000, NOW.get(), None, Outcome::Woken);
    assert_eq!(look(&file).counted().acquisitions, 1);
    file.recorder.process().unwrap().attached.store(1, Relaxed);
    assert_eq!(look(&file).counted().acquisitions, 0);
}

#[test]
fn very_many_threads_and_locks_are_in_several_blocks() {
    let file = File::new(8 << 20, 1);
    let (t, locks) = (PerThread::new(), [const { Trace::new() }; 8]);
    let before = look(&file);
    for (i, lock) in locks.iter().enumerate() {
        (0..600).for_each(|_| file.pair(&t, lock, 0x1000 + i * 64, 3, 10));
    }
    let task = TaskValues { running_ns: 7, ..TaskValues::default() };
    let bytes = look(&file).since(&before, &RunValues::default(), &vec![task; 20_000], &[]);
    assert!(support::longest_block(&bytes) <= 1 << 20);
    let table = Profile::parse("interval", &bytes).unwrap().table(&Options::default());
    assert_eq!(table.header.cpu_ns, 140_000.0);
    let told = table.rows.iter().filter(|row| !row.exclusive.hold().buckets.is_empty()).count();
    assert_eq!(told, locks.len(), "their distributions come behind the threads");
}

/// Programs may write anything to the file, at any time.
#[test]
fn forged_files_harm_nobody() {
    let file = File::new(1 << 20, 1);
    let locks = [const { Trace::new() }; 8];
    let t = PerThread::new();
    let pairs = || {
        for (i, lock) in locks.iter().enumerate() {
            (0..600).for_each(|_| file.pair(&t, lock, 0x1000 + i * 64, 3, 10));
        }
    };
    pairs();
    let before = look(&file);
    pairs();
    let now = file.bytes();
    let mut random = 1u64;
    for turn in 0..400 {
        let mut forged = now.clone();
        for _ in 0..1 + turn % 20 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = (random as usize % (forged.len() - PAGE as usize) + PAGE as usize) / 8 * 8;
            let value = match random >> 61 {
                0 => u64::MAX,
                1 => 0,
                2 => random >> 40,
                3 => format::head(format::Type::Pair, 8),
                4 => format::head(format::Type::Histograms, 16),
                _ => random,
            };
            forged[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (first, second) in [(before.clone(), Look::of(forged.clone())), (Look::of(forged), look(&file))] {
            let bytes = second.since(&first, &RunValues::default(), &[], &[]);
            let header = HeaderValues::decode(&bytes);
            assert_eq!(header.allocated, bytes.len() as u64);
            let _ = Profile::parse("forged", &bytes).map(|profile| profile.table(&Options::default()));
        }
    }
    for length in [0, 8, 64, 4096, 5000] {
        let cut = Look::of(now[..length].to_vec());
        let _ = look(&file).since(&cut, &RunValues::default(), &[], &[]);
        let _ = cut.since(&before, &RunValues::default(), &[], &[]);
    }
}
