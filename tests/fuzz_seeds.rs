//! The seeds of the fuzz targets, and damaged copies of them, through the readers: each returns.

use std::path::Path;

#[allow(unreachable_pub)] // the targets of the fuzzer include the same file, as another package
#[path = "../fuzz/readers.rs"]
mod readers;

/// Every prefix at 16 places, and every seed with one byte in 64 changed, in four ways.
fn damaged(seed: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let cut = (0..16).map(|part| seed[..seed.len() * part / 16].to_vec());
    let changed = (0..4).flat_map(move |way: usize| {
        let step = (seed.len() / 64).max(1);
        (way..seed.len()).step_by(step).map(move |at| {
            let mut bytes = seed.to_vec();
            bytes[at] = [0, 0xff, bytes[at] ^ 1, b'9'][way];
            bytes
        })
    });
    cut.chain(changed)
}

fn each_seed(target: &str, read: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut seeds = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        let seed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        read(&seed);
        if seed.len() < 10_000 {
            damaged(&seed).for_each(|bytes| read(&bytes));
        }
        seeds += 1;
    }
    assert!(seeds > 2, "{target}: {seeds} seeds");
}

#[test]
fn litmus_tests() {
    each_seed("litmus", readers::litmus);
}

#[test]
fn machine_files() {
    each_seed("machine", readers::machine);
}

#[test]
fn sites_and_names() {
    each_seed("site", readers::site);
}

#[test]
fn replay_traces() {
    each_seed("trace", readers::trace);
}

#[test]
fn measured_curves() {
    each_seed("curve", readers::curve);
}

#[test]
fn profiles() {
    each_seed("profile", readers::profile);
}
