//! The bill of materials names what travels inside the command and the libraries, and nothing else; each of it with its terms.

use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

/// Whether this machine can run the script, which says itself what else it needs.
fn has_python() -> bool {
    let ran = Command::new("python3").args(["-c", "import tomllib"]).output();
    ran.is_ok_and(|output| output.status.success())
}

/// The bill and the licences, as the script writes them.
fn written(time: &str) -> (String, String) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/bill-of-materials");
    let output = Command::new(script)
        .arg(folder.path())
        .env("SOURCE_DATE_EPOCH", time)
        .output()
        .expect("the script can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("the script wrote it");
    (read("contend.cdx.json"), read("third-party-licences.txt"))
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_else(|| panic!("no {name} in {of}"))
}

#[test]
fn the_bill_names_what_travels() {
    if !has_python() {
        eprintln!("the bill of materials was left out: Python 3.11 is not installed");
        return;
    }
    let (bill, licences) = written("86400");
    let bill: Value = serde_json::from_str(&bill).expect("the bill is JSON");
    assert_eq!(text(&bill["metadata"], "timestamp"), "1970-01-02T00:00:00Z");
    assert_eq!(text(&bill["metadata"]["component"], "name"), "contend");
    let components = bill["components"].as_array().expect("a list of components");
    let names: HashSet<_> = components.iter().map(|one| text(one, "name")).collect();
    for inside in ["clap", "libc", "contend-locks", "contend-preload", "contend-capi", "rust-std"] {
        assert!(names.contains(inside), "{inside} travels");
    }
    // Tests, macros, and locks of other libraries that only the feature `peers` has.
    for outside in ["insta", "proptest", "syn", "clap_derive", "mcslock", "contend-recorded"] {
        assert!(!names.contains(outside), "{outside} does not travel");
    }
    for one in components {
        let (name, version) = (text(one, "name"), text(one, "version"));
        assert!(!text(&one["licenses"][0], "expression").is_empty(), "{name} has terms");
        let is_own = one["externalReferences"][0]["url"] == env!("CARGO_PKG_REPOSITORY");
        if !is_own {
            assert!(
                licences.contains(&format!("\n{name} {version}: ")),
                "{name} {version} is in the licences"
            );
            let hash = &one["hashes"][0]["content"];
            assert!(
                name == "rust-std" || hash.as_str().is_some_and(|hash| hash.len() == 64),
                "{name} has a hash"
            );
        }
    }
}

#[test]
fn whatever_is_depended_on_is_in_the_bill() {
    if !has_python() {
        eprintln!("the bill of materials was left out: Python 3.11 is not installed");
        return;
    }
    let (bill, _) = written("0");
    let parsed: Value = serde_json::from_str(&bill).expect("the bill is JSON");
    let command = &parsed["metadata"]["component"];
    let known: Vec<_> = parsed["components"]
        .as_array()
        .expect("a list of components")
        .iter()
        .chain([command])
        .map(|one| text(one, "bom-ref"))
        .collect();
    assert_eq!(known.iter().collect::<HashSet<_>>().len(), known.len(), "each has a name of its own");
    let mut used = HashSet::from([text(command, "bom-ref")]);
    for one in parsed["dependencies"].as_array().expect("a list of dependencies") {
        assert!(known.contains(&text(one, "ref")));
        used.extend(one["dependsOn"].as_array().expect("a list").iter().filter_map(Value::as_str));
    }
    // All but the C and C++ libraries, which lie beside the command, are there because something needs them.
    let unused: Vec<_> = known.iter().filter(|name| !used.contains(**name)).collect();
    assert!(matches!(unused[..], [name] if name.starts_with("pkg:cargo/contend-capi@")), "{unused:?}");
    assert!(used.iter().all(|name| known.contains(name)));
    assert_eq!(bill, written("0").0, "it is the same every time");
}
