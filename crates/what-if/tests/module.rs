//! The module that pages carry stems from the sources as they are.

use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What the module is made of, from the folder of crates; `build-module` lists the same.
const CRATES: [&str; 6] = ["curve", "families", "model", "text", "topology", "what-if"];

const MODULE: &str = "report/src/page/what-if.wasm";

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// As sha256sum writes it.
fn digest(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[test]
fn the_module_of_the_pages_is_made_of_the_sources_as_they_are() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = own.parent().expect("the folder of crates");
    if !crates.join(MODULE).exists() {
        return; // a package by itself, without the crates beside it
    }
    let listed = fs::read_to_string(own.join("module.sha256")).expect("what the module was made of");
    let listed: BTreeMap<_, _> = listed
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(digest, path)| (path, digest))
        .collect();
    let mut paths = vec![crates.join(MODULE)];
    for name in CRATES {
        sources(&crates.join(name).join("src"), &mut paths);
    }
    let present: BTreeMap<_, _> = paths
        .iter()
        .map(|path| (path.strip_prefix(crates).expect("below").to_str().expect("a plain path"), digest(path)))
        .collect();
    let differ = |path: &&&str| listed.get(**path).copied() != present.get(**path).map(String::as_str);
    let changed: BTreeSet<_> = listed.keys().chain(present.keys()).filter(differ).collect();
    assert!(
        changed.is_empty(),
        "{MODULE} was made before these files changed: {changed:?}. Make it anew with crates/what-if/build-module, and commit it and \
         module.sha256 with them."
    );
}
