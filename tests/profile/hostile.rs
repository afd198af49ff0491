//! Profiles that lie: what `contend report` takes to read them is bounded by their length.

use super::common::{CONTEND, HANG, Outcome, run};
use profile::format::{BLOCK_MARK, MAGIC, PAGE, Type, UNIT, VERSION, head};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Memory that reading may take beside a multiple of the file's length, KiB: with the command's own code.
const ALLOWED_KIB: u64 = 256 << 10;
const TIMES_LENGTH: u64 = 16;
/// Seconds of CPU time. What is linear takes one or two in a debug build; what is not takes minutes.
const ALLOWED_S: u64 = 30;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(what: Type, payload: &[u8]) -> Vec<u8> {
    let mut bytes = words(&[head(what, 8 + payload.len())]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// The first record of a section.
fn process() -> Vec<u8> {
    record(Type::Process, &words(&[7; 23]))
}

/// A profile of one process with these records after its first one.
fn profile_of(records: &[u8]) -> Vec<u8> {
    let used = (process().len() + records.len()) as u64;
    let length = (UNIT + used).next_multiple_of(PAGE);
    let mut bytes = MAGIC.to_vec();
    let end = PAGE + length;
    bytes.extend(words(&[VERSION | PAGE << 32, end, end, end, 0, 0, 1, 1, 1, 100, 100]));
    bytes.resize(PAGE as usize, 0);
    bytes.extend(words(&[u64::from(BLOCK_MARK) | length << 32, PAGE / UNIT, 0, used, 0, 0, 0, 0]));
    bytes.extend(process());
    bytes.extend(records);
    bytes.resize(end as usize, 0);
    bytes
}

/// The command's answer, if it stays within the bounds for a file of this length.
fn report(path: &Path, length: u64) -> Outcome {
    let mut command = Command::new("sh");
    let kib = TIMES_LENGTH * length / 1024 + ALLOWED_KIB;
    let line =
        format!("ulimit -v {kib}; ulimit -t {ALLOWED_S}; exec {CONTEND} report {} --json", path.display());
    command.args(["-c", &line]);
    run(command, HANG)
}

fn read(name: &str, bytes: &[u8]) -> Outcome {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    let outcome = report(&path, bytes.len() as u64);
    let code = outcome.status.and_then(|status| status.code());
    assert!(matches!(code, Some(0 | 1)), "{name}: {outcome}");
    assert!(code == Some(0) || outcome.stderr.contains("damaged at byte"), "{name}: {outcome}");
    outcome
}

#[test]
fn many_short_records_are_not_many_long_ones() {
    let many = |what, payload: &dyn Fn(u64) -> Vec<u8>| {
        let records: Vec<u8> = (0..100_000).flat_map(|i| record(what, &payload(i))).collect();
        profile_of(&records)
    };
    let histograms = read("histograms", &many(Type::Histograms, &|i| words(&[i])));
    assert!(histograms.stderr.contains("record of type 9"), "{histograms}");
    let pairs = read("pairs", &many(Type::Pair, &|i| words(&[i << 1, 0, 1])));
    assert!(pairs.stderr.contains("record of type 8"), "{pairs}");
    read("tasks", &many(Type::Task, &|_| Vec::new()));
    assert!(read("arguments", &profile_of(&record(Type::Arguments, &vec![0; 8 << 20]))).succeeded());
    let unknown = |i| [words(&[i << 1, 0, 1]), words(&[0; 20])].concat();
    assert!(read("locks", &many(Type::Pair, &unknown)).succeeded());
}

#[test]
fn many_looks_at_the_mappings_take_linear_time() {
    let records: Vec<u8> = (0..200_000).flat_map(|_| record(Type::Mappings, b"0-1 r 0 0 0 /\n")).collect();
    assert!(read("mappings", &profile_of(&records)).succeeded());
}

/// Each lock has an address and a stack of its own, in as many mappings of as many files.
#[test]
fn many_names_take_linear_time() {
    const MAPPINGS: u64 = 200_000;
    const FRAMES: u64 = 16;
    const LOCK: u64 = 192;
    let maps: String =
        (0..MAPPINGS).map(|i| format!("{:x}-{:x} r 0 0 0 /{i:x}\n", i * 16, i * 16 + 8)).collect();
    let mut records = record(Type::Mappings, maps.as_bytes());
    let start = |records: &[u8]| PAGE + UNIT + process().len() as u64 + records.len() as u64;
    let gap = UNIT - start(&records) % UNIT + UNIT;
    let skipped = words(&[99 | gap << 32]);
    records.extend(&skipped);
    records.resize(records.len() + gap as usize - skipped.len(), 0);
    let first = start(&records);
    let numbers = (0..MAPPINGS / FRAMES).map(|i| (i, (first + i * LOCK) / UNIT));
    for (i, _) in numbers.clone() {
        records.extend(record(Type::Lock, &words(&[0xffff_ffff_0000, 1, 1, 0, FRAMES, 0, 0])));
        let end = records.len() - 56 - 8;
        records[end..end + 8].copy_from_slice(&words(&[head(Type::Lock, LOCK as usize)]));
        records.extend((0..FRAMES).flat_map(|frame| words(&[i * 256 + frame * 16 + 5])));
    }
    for (_, number) in numbers {
        records.extend(record(Type::Pair, &[words(&[number << 1, 0, 1]), words(&[0; 20])].concat()));
    }
    let outcome = read("names", &profile_of(&records));
    assert!(outcome.succeeded(), "{outcome}");
}

#[test]
fn a_hole_is_not_read() {
    const LENGTH: u64 = 3_000_000_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("hole.contend");
    let mut header = MAGIC.to_vec();
    header.extend(words(&[VERSION | PAGE << 32, LENGTH, LENGTH, LENGTH, 0, 0, 1, 1, 1, 100, 100]));
    header.resize(PAGE as usize, 0);
    std::fs::write(&path, header).expect("a file");
    File::options().write(true).open(&path).and_then(|file| file.set_len(LENGTH)).expect("a long file");
    let outcome = report(&path, 0);
    assert!(outcome.succeeded(), "{outcome}");
}
