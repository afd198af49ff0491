//! A recording of Java's Flight Recorder, held against what its program measured, and what becomes of it when it is cut or changed.

use contend_profile::read::{Runtime, RuntimeError, RuntimeRow, RuntimeWaits};
use std::path::Path;

/// `tests/programs/Monitors.java`, recorded by the command in its head.
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/profiles/java-monitors.jfr");

/// What the program printed in that run: how often a function waited, and for how many ns.
const MEASURED: [(&str, &str, f64, f64); 3] = [
    ("Monitors.quickLookup", "monitor", 40.0, 136_345_214.0),
    ("Monitors.note", "mutex", 40.0, 132_591_645.0),
    ("Monitors.look", "rwlock read", 40.0, 125_297_348.0),
];

fn written(bytes: &[u8]) -> Result<RuntimeWaits, RuntimeError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.jfr");
    std::fs::write(&path, bytes).expect("a file");
    RuntimeWaits::open(Runtime::Java, &path)
}

fn row<'a>(waits: &'a RuntimeWaits, function: &str, way: &str) -> &'a RuntimeRow {
    let row = waits.rows.iter().find(|row| row.function == function && row.way == way);
    row.unwrap_or_else(|| panic!("no {way} in {function}: {waits:#?}"))
}

#[test]
fn waits_are_those_that_the_program_measured() {
    assert_eq!(RuntimeWaits::whose(Path::new(RECORDING)), Some(Runtime::Java));
    let waits = RuntimeWaits::open(Runtime::Java, Path::new(RECORDING)).expect("a recording");
    assert!(!waits.cut_off && waits.threshold_ns.is_none(), "{waits:?}");
    for (function, way, count, ns) in MEASURED {
        let row = row(&waits, function, way);
        let near = |seen: f64, told: f64| seen > 0.9 * told && seen < 1.1 * told;
        assert!(near(row.waits as f64, count) && near(row.waited_ns, ns), "{row:?}: {count}, {ns} ns");
        assert!(row.is_lock() && row.source.starts_with("Monitors:"), "{row:?}");
    }
    let monitor = row(&waits, "Monitors.quickLookup", "monitor");
    assert_eq!(
        (monitor.class.as_deref(), monitor.behind_thread.as_deref()),
        (Some("java.lang.Object"), Some("rebalancer"))
    );
}

#[test]
fn a_recording_that_is_cut_is_read_up_to_there_or_refused_with_a_remedy() {
    let whole = std::fs::read(RECORDING).expect("the recording");
    for length in (0..whole.len()).step_by(whole.len() / 200 + 1).chain([67, 68, 69]) {
        match written(&whole[..length]) {
            Ok(waits) => assert!(waits.cut_off || length == 0, "{length} bytes"),
            Err(error) => assert!(error.to_string().contains("JFR.dump"), "{error}"),
        }
    }
    // A second recording behind it, half of which is there.
    let mut two = whole.clone();
    two.extend_from_slice(&whole[..whole.len() / 2]);
    let waits = written(&two).expect("the first one");
    assert!(waits.cut_off);
    assert_eq!(waits.rows.len(), RuntimeWaits::open(Runtime::Java, Path::new(RECORDING)).unwrap().rows.len());
}

#[test]
fn a_recording_that_lies_harms_nobody() {
    let whole = std::fs::read(RECORDING).expect("the recording");
    let mut drawn = 1_u64;
    for _ in 0..400 {
        let mut changed = whole.clone();
        for _ in 0..4 {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (drawn >> 33) as usize % changed.len();
            changed[at] = (drawn >> 20) as u8;
        }
        if let Ok(waits) = written(&changed) {
            assert!(waits.rows.iter().all(|row| row.waited_ns >= 0.0 && !row.function.contains('\u{1b}')));
        }
    }
}
