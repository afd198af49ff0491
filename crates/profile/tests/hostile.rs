//! Files that are not what they seem: every one of them is an answer or an error that says where, never a panic.

mod support;

use contend_profile::read::merged::Merging;
use contend_profile::read::{
    Diff, Error, Profile, Runtime, RuntimeWaits, to_folded, to_otel, to_pprof, to_trace,
};
use contend_profile::record::{Mode, Outcome, PerThread, Trace};
use contend_profile::{LockRow, LockTable, Options};
use proptest::prelude::*;
use pthread::object::ObjectKind;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use support::trace::check;
use support::{File, NOW, STACK, pass};

/// A small file with records of every type that recorders write.
fn sample() -> Vec<u8> {
    let file = File::keeping(1 << 20, 100);
    let maps = b"1000-9000 r-xp 00000000 08:01 1 /nowhere/lib one.so\n9000-a000 rw-p 00008000 08:01 1 /nowhere/lib one.so\n";
    file.recorder.append(contend_profile::format::Type::Mappings, &[maps]);
    file.recorder
        .append(contend_profile::format::Type::BuildIds, &[&0x1000u64.to_le_bytes(), &[4, 1, 2, 3, 4]]);
    let t = PerThread::new();
    STACK.set(vec![0x1234, 0x2345]);
    for i in 0..5 {
        let lock = Trace::new();
        for _ in 0..300 {
            file.pair(&t, &lock, 0x9000 + i * 64, 3, 7);
        }
    }
    STACK.set(vec![0x6000_0000]);
    let lock = Trace::new();
    file.recorder.acquired(&t, &lock, ObjectKind::Rwlock, Mode::Shared, 0x7000_0000, Some(1));
    // Two waits of another thread, each for a hold that is known.
    let other = PerThread::new();
    for _ in 0..2 {
        pass(50_000);
        file.recorder.releasing(&t, &lock, Mode::Shared);
        file.recorder.acquired(
            &other,
            &lock,
            ObjectKind::Rwlock,
            Mode::Exclusive,
            0x7000_0000,
            Some(NOW.get() - 100),
        );
        file.recorder.releasing(&other, &lock, Mode::Exclusive);
        file.recorder.acquired(&t, &lock, ObjectKind::Rwlock, Mode::Shared, 0x7000_0000, None);
    }
    STACK.take();
    file.recorder.thread_ends(&t);
    file.recorder.process_ends();
    file.bytes()
}

fn table(bytes: &[u8]) -> Result<LockTable, Error> {
    let profile = Profile::parse("file.contend", bytes)?;
    let table = profile.table(&Options::default());
    check(&to_trace(&profile.timeline(&table, true)));
    Ok(table)
}

/// Everything that can be made of a table.
fn use_all(table: &LockTable) {
    to_pprof(table);
    to_otel(table);
    to_folded(table, |sample| sample.waited_ns);
    serde_json::to_string(table).unwrap();
    serde_json::to_string(&Diff::new(table, table)).unwrap();
}

#[test]
fn the_sample_is_a_good_profile() {
    let table = table(&sample()).unwrap();
    assert_eq!(table.rows.len(), 6);
    let timeline = Profile::parse("file.contend", &sample()).unwrap().timeline(&table, true);
    assert_eq!((timeline.waits.len(), timeline.holds.len()), (2, 2));
    let names: Vec<_> = table.rows.iter().map(|row| row.name.as_str()).collect();
    assert!(
        names.contains(&"lib one.so+0x8040"),
        "a lock in a file that is gone has its place there: {names:?}"
    );
    assert!(
        names.iter().any(|name| name.starts_with("code of no file@")),
        "a lock on the heap has its caller, and its stack, since code of no file is none to look for: {names:?}"
    );
    use_all(&table);
}

#[test]
fn what_is_no_profile_is_foreign() {
    for bytes in [&b""[..], b"x", b"\x7fELF\x02\x01\x01 and so on", &[0; 8192]] {
        assert!(matches!(table(bytes), Err(Error::Foreign { .. })));
    }
    let missing = Profile::open("/nowhere/file.contend").unwrap_err();
    assert!(missing.to_string().contains("/nowhere/file.contend"), "{missing}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri makes no pipes in directories")]
fn a_pipe_and_a_runtimes_own_account_are_said_to_be_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: the name ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    for path in [pipe.as_path(), Path::new("-"), Path::new("/dev/null")] {
        let said = Profile::open(path).unwrap_err().to_string();
        assert!(said.ends_with("a profile is read from a file; save it first"), "{said}");
    }
    let profiles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/profiles");
    for (name, part) in [("go-mutex.pb.gz", "Go's own"), ("java-monitors.jfr", "Java's Flight Recorder")] {
        let said = Profile::open(profiles.join(name)).unwrap_err().to_string();
        assert!(said.contains(part) && said.contains("`contend report` shows"), "{said}");
    }
    let whole = std::fs::read(profiles.join("go-mutex.pb.gz")).unwrap();
    let cut = folder.path().join("cut.pb.gz");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let said = RuntimeWaits::open(Runtime::Go, &cut).unwrap_err().to_string();
    assert!(said.contains("is truncated") && said.ends_with("fetch it again"), "{said}");
}

#[test]
fn a_newer_file_says_so() {
    let mut bytes = sample();
    bytes[8] = 2;
    let error = table(&bytes).unwrap_err();
    assert!(matches!(error, Error::Newer { version: 2, .. }));
    let text = error.to_string();
    assert!(
        text.contains("file.contend") && text.contains("version 2") && text.contains("use the contend"),
        "{text}"
    );
}

#[test]
fn a_truncated_file_says_where() {
    let bytes = sample();
    for length in [8, 100, 4095, 4096, 5000, bytes.len() - 1] {
        let error = table(&bytes[..length]).unwrap_err();
        assert!(
            matches!(error, Error::Truncated { length: l, .. } if l == length as u64),
            "{length}: {error}"
        );
        assert!(error.to_string().contains(&format!("ends at byte {length}")), "{error}");
    }
}

#[test]
fn a_damaged_block_says_where() {
    let mut bytes = sample();
    bytes[4096] ^= 0xff;
    let error = table(&bytes).unwrap_err();
    assert!(matches!(error, Error::Damaged { offset: 4096, .. }), "{error}");
}

/// As by `cat`, whether the first one ends with its last block or with the space that its file has grown to.
#[test]
fn a_profile_behind_another_is_not_passed_over() {
    let first = sample();
    let allocated = u64::from_le_bytes(first[24..32].try_into().unwrap()) as usize;
    for end in [first.len(), allocated.min(first.len())] {
        let error = table(&[&first[..end], &sample()[..]].concat()).unwrap_err();
        assert!(matches!(error, Error::Appended { offset, .. } if offset == end as u64), "{error}");
    }
    let mut grown = sample();
    grown.resize(grown.len() + 8192, 0);
    assert!(table(&grown).is_ok(), "space that nothing was written to");
}

#[test]
fn an_unknown_record_is_skipped() {
    let file = File::new(1 << 20, 1);
    let t = PerThread::new();
    file.pair(&t, &Trace::new(), 0x1000, 1, 1);
    file.recorder.append(contend_profile::format::Type::Run, &[&[0xff; 100]]);
    let mut bytes = file.bytes();
    let record = bytes.len() - 4096 + 64;
    bytes[record] = 200; // a type of the future
    assert_eq!(table(&bytes).unwrap().rows.len(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn names_past_the_bound_are_left_out_and_counts_are_read() {
    let file = File::new(32 << 20, 1);
    let ids: Vec<u8> =
        (0..1_u64 << 12).flat_map(|start| [&start.to_le_bytes()[..], &[1, 7]].concat()).collect();
    for _ in 0..=1 << 8 {
        file.recorder.append(contend_profile::format::Type::BuildIds, &[&ids]);
    }
    let symbol: [&[u8]; 2] = [&7_u64.to_le_bytes(), b"futex_wait"];
    file.recorder.append(contend_profile::format::Type::KernelSymbol, &symbol);
    file.pair(&PerThread::new(), &Trace::new(), 0x1000, 1, 1);
    assert_eq!(table(&file.bytes()).unwrap().rows.len(), 1);
}

#[test]
fn a_thread_that_died_while_it_got_room_spoils_nothing() {
    let file = File::new(1 << 20, 1);
    let t = PerThread::new();
    file.pair(&t, &Trace::new(), 0x1000, 1, 1);
    let header = file.recorder.header().unwrap();
    header.allocated.fetch_add(3 * 4096, Relaxed);
    file.pair(&PerThread::new(), &Trace::new(), 0x2000, 1, 1);
    assert_eq!(table(&file.bytes()).unwrap().rows.len(), 2);
}

#[test]
fn names_with_commands_for_the_terminal_are_harmless_everywhere() {
    let file = File::new(1 << 20, 1);
    let maps = b"1000-9000 r-xp 00000000 08:01 1 /nowhere/\x1b]0;owned\x07<b>\xff\xe2\x80\xae,=\"x\n";
    file.recorder.append(contend_profile::format::Type::Mappings, &[maps]);
    let t = PerThread::new();
    file.pair(&t, &Trace::new(), 0x2000, 1, 1);
    let table = table(&file.bytes()).unwrap();
    let name = &table.rows[0].name;
    assert!(name.starts_with("\\u{1b}]0;owned\\u{7}<b>\u{fffd}\\u{202e},=\"x+0x1000"), "{name}");
    let json = serde_json::to_string(&table).unwrap();
    assert!(!json.chars().any(|letter| letter.is_control() || letter == '\u{202e}'), "{json:?}");
}

#[test]
fn a_profile_names_files_that_must_not_be_read() {
    let file = File::new(1 << 20, 1);
    file.recorder.append(
        contend_profile::format::Type::Mappings,
        &[b"1000-9000 r-xp 00000000 08:01 1 /dev/zero\na000-b000 r-xp 00000000 08:01 1 /dev/stdin\n"],
    );
    let t = PerThread::new();
    file.pair(&t, &Trace::new(), 0x2000, 1, 1);
    file.pair(&t, &Trace::new(), 0xa010, 1, 1);
    let table = table(&file.bytes()).unwrap();
    let mut names: Vec<_> = table.rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["stdin+0x10", "zero+0x1000"]);
}

/// Any process with the profile mapped may write anything into it at any time, and some of them have fewer rights than others.
#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn a_writer_survives_whatever_others_write() {
    const LIMIT: u64 = 1 << 19;
    let lies =
        [0, 1, 64, 0x1234_5678, LIMIT / 64 - 1, LIMIT, LIMIT - 4096, 1 << 62, u64::MAX - 4095, u64::MAX];
    for (lie, first) in lies.into_iter().flat_map(|lie| [(lie, 0), (lie, 512)]) {
        let file = File::keeping(LIMIT, 100);
        let (t, lock) = (PerThread::new(), Trace::new());
        let recorder = &file.recorder;
        let record = |t: &PerThread, lock: &Trace, address| {
            for _ in 0..300 {
                file.pair(t, lock, address, 3, 7);
                recorder.cond_waited(t, lock, address, 1, Some(2), Outcome::Woken);
                recorder.releasing(t, lock, Mode::Exclusive);
            }
        };
        record(&t, &lock, 0x1000);
        for word in &file.words()[first..] {
            word.store(lie, Relaxed);
        }
        record(&t, &lock, 0x1000);
        record(&PerThread::new(), &lock, 0x1000);
        for address in 0..200 {
            file.pair(&t, &Trace::new(), 0x2000 + 64 * address, 1, 1);
        }
        recorder.append(contend_profile::format::Type::Run, &[&[1; 5000]]);
        recorder.thread_ends(&t);
        recorder.process_ends();
        let child = PerThread::new();
        // SAFETY: this is the only thread, and the mapping stays.
        if unsafe { recorder.start_in_child(&child, &support::image(78)) } {
            record(&child, &lock, 0x1000);
        }
        assert!(file.is_inside(), "{lie:#x} from word {first}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bits_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut bytes = sample();
        for (place, value) in flips {
            let at = place.index(bytes.len() - 16) + 16; // the mark and the version have tests of their own
            bytes[at] ^= value;
        }
        if let Ok(table) = table(&bytes) {
            use_all(&table);
        }
    }

    #[test]
    fn words_of_any_value_never_panic(words in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 1..20)) {
        let mut bytes = sample();
        for (place, value) in words {
            let at = 16 + place.index(bytes.len() / 8 - 2) * 8;
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        if let Ok(table) = table(&bytes) {
            use_all(&table);
        }
    }

    #[test]
    fn any_length_never_panics(length in any::<prop::sample::Index>(), lie in any::<bool>()) {
        let mut bytes = sample();
        bytes.truncate(length.index(bytes.len()));
        if lie && bytes.len() > 112 {
            // The header claims that this was all there was space for.
            bytes[112] = 28;
        }
        if let Ok(table) = table(&bytes) {
            use_all(&table);
        }
    }
}

/// Profiles that were merged, cut or changed at many places: an error, or tables of what is whole.
#[test]
#[cfg_attr(miri, ignore = "Miri takes minutes for so many files")]
fn merged_profiles_that_are_damaged_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let [profile, other, merged] =
        ["p.contend", "q.contend", "merged.contend"].map(|name| directory.path().join(name));
    std::fs::write(&profile, sample()).unwrap();
    // What lies behind the last record is not read, and yet it is another file.
    std::fs::write(&other, [sample(), vec![0]].concat()).unwrap();
    let (mut first, mut whole) = (Vec::new(), Vec::new());
    assert_eq!(Merging::begin(&mut first).unwrap().add(&profile).unwrap(), [true]);
    let mut merging = Merging::begin(&mut whole).unwrap();
    let news = [&profile, &other, &profile].map(|path| merging.add(path).unwrap());
    assert_eq!(news.concat(), [true, true, false]);
    let options = Options { symbols: false, ..Options::default() };
    let tables = |bytes: &[u8]| {
        std::fs::write(&merged, bytes).unwrap();
        LockTable::each(&merged, &options)
    };
    let acquisitions = |table: &LockTable| table.rows.iter().map(LockRow::acquisitions).sum::<u64>();
    let known: Vec<_> = tables(&whole).unwrap().iter().map(|(_, table)| acquisitions(table)).collect();
    assert!(known.len() == 2 && known[0] == known[1] && known[0] > 1_500, "{known:?}");
    let second = first.len();
    for length in (8..whole.len()).step_by(whole.len() / 60 + 1).chain([8, 9, 19, 20, 21]) {
        // Between two profiles the file is whole.
        assert_eq!(tables(&whole[..length]).is_ok(), length == 8 || length == second, "{length} bytes");
    }
    for at in (8..whole.len()).step_by(whole.len() / 120 + 1).chain(8..24) {
        for changed in [0, 0xff, whole[at] ^ 1] {
            let mut bytes = whole.clone();
            bytes[at] = changed;
            let _ = tables(&bytes);
        }
    }
    assert!(matches!(Profile::open(&merged), Err(Error::Merged { .. })));
    std::fs::write(&merged, &whole).unwrap();
    let sum = LockTable::open(&merged, &options).unwrap();
    assert_eq!((acquisitions(&sum), sum.header.profiles), (2 * known[0], 2));
    std::fs::write(&merged, &whole[..8]).unwrap();
    assert!(LockTable::open(&merged, &options).is_err(), "none was merged into it");
}
