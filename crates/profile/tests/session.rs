//! A profile file from the launcher's side, with a recorder in the same process.

mod support;

use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use contend_profile::Options;
use contend_profile::format::{RunValues, TaskValues, Type};
use contend_profile::read::merged::Merging;
use contend_profile::read::{Diff, Profile};
use contend_profile::record::Mode;
use contend_profile::session::{
    AttachedImage, AttachedSection, DEFAULT_LIMIT, LEAST_LIMIT, Overwrite, Recording,
};
use pthread::object::ObjectKind;

#[test]
fn only_the_owner_can_read_it_and_only_a_profile_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.contend");
    let create = |path: &Path, overwrite| Recording::create(path, DEFAULT_LIMIT, 1, overwrite);
    std::fs::write(&path, "the only copy of a thesis").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refusal = create(&path, Overwrite::Profiles).unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).unwrap(), b"the only copy of a thesis");
    for overwrite in [Overwrite::Profiles, Overwrite::AnyFile] {
        let of_folder = create(directory.path(), overwrite).unwrap_err();
        assert_eq!(of_folder.to_string(), "there is a folder of that name");
    }
    let recording = create(&path, Overwrite::AnyFile).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(recording.path().is_absolute());
    assert!(!recording.used());
    for overwrite in [Overwrite::Profiles, Overwrite::AnyFile] {
        assert_eq!(
            create(&path, overwrite).unwrap_err().kind(),
            ErrorKind::ResourceBusy,
            "it is being recorded to"
        );
        assert!(create(directory.path(), overwrite).is_err());
        assert!(create(&directory.path().join("no/such"), overwrite).is_err());
    }
    recording.withdraw();
    assert_eq!(std::fs::read(&path).unwrap(), b"the only copy of a thesis", "no program was started");
    std::fs::write(&path, "").unwrap();
    let mut recording = create(&path, Overwrite::Profiles).unwrap();
    recording.begun();
    drop(recording);
    create(&path, Overwrite::Profiles).unwrap().begun();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left over");
}

/// It may hold a year of a fleet, and is replaced by what is merged anew alone.
#[test]
fn merged_profiles_are_replaced_by_no_recording() {
    let directory = tempfile::tempdir().unwrap();
    let [single, merged] = ["p.contend", "merged.contend"].map(|name| directory.path().join(name));
    Recording::create(&single, DEFAULT_LIMIT, 1, Overwrite::Profiles).unwrap().begun();
    let mut bytes = Vec::new();
    Merging::begin(&mut bytes).unwrap().add(&single).unwrap();
    std::fs::write(&merged, &bytes).unwrap();
    for overwrite in [Overwrite::Profiles, Overwrite::AnyFile] {
        let refusal = Recording::create(&merged, DEFAULT_LIMIT, 1, overwrite).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::InvalidInput);
        assert!(refusal.to_string().contains("holds merged profiles"), "{refusal}");
    }
    assert_eq!(std::fs::read(&merged).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing else is left over");
}

/// What has come to the name meanwhile does not matter to the launcher.
#[test]
fn it_is_read_back_whatever_its_name_leads_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.contend");
    let create = || Recording::create(&path, DEFAULT_LIMIT, 1, Overwrite::Profiles).unwrap();
    let (first, run) = (create(), RunValues { operations: 7, ..RunValues::default() });
    std::fs::remove_file(&path).unwrap();
    let second = create();
    assert_ne!(first.identity(), second.identity());
    first.finish(run, &[]).unwrap();
    let operations = |profile: Profile| profile.table(&Options::default()).header.operations;
    assert_eq!(operations(first.read().unwrap()), Some(7));
    assert_eq!(operations(Profile::open(&path).unwrap()), None);
}

#[test]
fn what_the_launcher_saw_is_in_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.contend");
    let recording = Recording::create(&path, DEFAULT_LIMIT, 8, Overwrite::Profiles).unwrap();
    let run = RunValues {
        elapsed_ns: 2_000_000_000,
        cpu_ns: 3_000_000_000,
        stolen_ns: 1_000_000_000,
        cores: 2,
        operations: 1000,
        ended: 1,
        ..RunValues::default()
    };
    let task = TaskValues {
        pid: 5,
        tid: 6,
        age_ns: 100,
        running_ns: 60,
        queued_ns: 10,
        futex_ns: 20,
        sleep_ns: 10,
        ..TaskValues::default()
    };
    recording.finish(run, &[task; 100]).unwrap();
    let profile = Profile::open(&path).unwrap();
    let header = profile.table(&Options::default()).header;
    assert_eq!((header.cores_used, header.operations, header.operation_ns), (1.5, Some(1000), 3_000_000.0));
    assert_eq!(header.sample_period, 8);
    let coverage = header.coverage.unwrap();
    assert_eq!((coverage.off_cpu_ns, coverage.seen_ns), (30.0, 0.0), "one thread, however often it was seen");
    assert!(header.warnings.iter().any(|warning| warning.contains("25 %")), "{:?}", header.warnings);
    let blocked = header.blocked.unwrap();
    assert_eq!((blocked.futex_ns, blocked.sleep_ns, coverage.in_no_lock_ns), (20.0, 10.0, 10.0));
    let asked = profile.table(&Options { operations: Some(3), ..Options::default() });
    assert_eq!(asked.header.operation_ns, 1_000_000_000.0);
}

/// A build of an hour has as many threads as fit into no block that a reader takes.
#[test]
fn very_many_threads_are_in_several_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.contend");
    let recording = Recording::create(&path, DEFAULT_LIMIT, 1, Overwrite::Profiles).unwrap();
    let task = TaskValues { running_ns: 3, ..TaskValues::default() };
    recording.finish(RunValues::default(), &vec![task; 20_000]).unwrap();
    assert!(support::longest_block(&std::fs::read(&path).unwrap()) <= 1 << 20);
    let header = Profile::open(&path).unwrap().table(&Options::default()).header;
    assert!(header.finished);
    assert_eq!(header.cpu_ns, 60_000.0);
}

#[test]
fn threads_that_did_not_run_together_are_doubted() {
    let doubt = |elapsed_ns, wait, queued_ns: Option<u64>| {
        let file = support::File::new(1 << 20, 1);
        let trace = contend_profile::record::Trace::new();
        for t in [contend_profile::record::PerThread::new(), contend_profile::record::PerThread::new()] {
            let started = support::NOW.get();
            support::pass(wait);
            file.recorder.acquired(&t, &trace, ObjectKind::Mutex, Mode::Exclusive, 0x1000, Some(started));
            file.recorder.releasing(&t, &trace, Mode::Exclusive);
        }
        let run = RunValues { elapsed_ns, cpu_ns: 1000, ..RunValues::default() };
        file.recorder.append(Type::Run, &[&run.elapsed_ns.to_le_bytes(), &run.cpu_ns.to_le_bytes()]);
        if let Some(queued_ns) = queued_ns {
            // Process, thread, start, age, time on a core and on a run queue; no blocked time.
            let task = [1, 2, 0, queued_ns, 0, queued_ns, 0, 0, 0, 0, 0, 0].map(u64::to_le_bytes).concat();
            file.recorder.append(Type::Task, &[&task]);
        }
        let table = Profile::parse("test", &file.bytes()).unwrap().table(&Options::default());
        table.header.warnings.iter().any(|warning| warning.contains("cannot be trusted"))
    };
    assert!(doubt(1000, 0, None), "one core's worth of work by two threads, and nothing says why");
    assert!(doubt(1000, 0, Some(900)), "both wanted to run");
    assert!(!doubt(1000, 0, Some(10)), "one ran after the other, as where a thread joins a worker");
    assert!(!doubt(600, 0, None), "two cores were used");
    assert!(!doubt(1000, 400, None), "one waited for the other");
}

#[test]
fn a_difference_is_for_one_operation_and_names_what_grew() {
    let table = |hold, threads: u64, operations| {
        let file = support::File::new(1 << 20, 1);
        for _ in 0..threads {
            let t = contend_profile::record::PerThread::new();
            for (i, lock) in [0x1000usize, 0x2000].into_iter().enumerate() {
                support::STACK.set(vec![0x5002 + i as u64]); // return addresses: the calls end before them
                let trace = contend_profile::record::Trace::new();
                for _ in 0..100 {
                    file.pair(&t, &trace, lock, 1, if i == 0 { hold } else { 10 });
                }
            }
        }
        support::STACK.take();
        let maps =
            b"1000-3000 rw-p 00000000 08:01 1 /nowhere/data\n5000-6000 r-xp 00000000 08:01 1 /nowhere/code\n";
        file.recorder.append(Type::Mappings, &[maps]);
        let options = Options { operations: Some(operations), ..Options::default() };
        Profile::parse("test", &file.bytes()).unwrap().table(&options)
    };
    let (before, after) = (table(20, 1, 100), table(300, 2, 200));
    let diff = Diff::new(&before, &after);
    assert!(diff.per_operation);
    assert_eq!(diff.threads, [1, 2]);
    let grew = &diff.locks[0];
    assert_eq!((grew.name.as_str(), grew.before.held_ns, grew.after.held_ns), ("data+0x0", 20.0, 300.0));
    assert_eq!((grew.growth_ns(), grew.ratio()), (280.0, 15.0));
    assert_eq!(diff.callers.len(), 2);
    assert_eq!((diff.callers[0].name.as_str(), diff.callers[0].growth_ns()), ("code+0x1", 280.0));
    assert_eq!(diff.locks[1].growth_ns(), 0.0, "twice the threads and twice the operations are no growth");
}

#[test]
fn the_launcher_survives_whatever_others_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.contend");
    let (limit, words) = (LEAST_LIMIT, 2..17);
    for lie in [0, 1, 0x1000, limit - 4096, limit, u64::MAX - 4095, u64::MAX] {
        let recording = Recording::create(&path, limit, 1, Overwrite::Profiles).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        for word in words.clone() {
            file.write_all_at(&lie.to_le_bytes(), word * 8).unwrap();
        }
        let finished = recording.finish(RunValues::default(), &[TaskValues::default(); 10]);
        assert_eq!(finished.is_ok(), (0x1000..=limit - 4096).contains(&lie), "{lie:#x}: {finished:?}");
        let _ = (recording.used(), recording.read());
        let _ = [0, 63, 64, lie / 64, lie, u64::MAX].map(|section| recording.image(section));
        let image = AttachedImage { pid: 1, is_shown: true, arguments: b"", executable: b"" };
        if let Ok(section) = AttachedSection::begin(&recording, &image) {
            section.finish(0);
        }
    }
}
