//! Puts the preload library where the command can embed it, and says what the command was built from.
//!
//! The library is a build-dependency, so cargo has built it for the machine that builds; it lies beside this script's own
//! file. Naming the crate in code would link its pthread functions into this script, so nothing here does. A command for another
//! architecture, or one that is linked statically, gets the library that `CONTEND_PRELOAD_LIBRARY` names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{env, fs};

/// Names a preload library that was built before.
const LIBRARY: &str = "CONTEND_PRELOAD_LIBRARY";

fn main() {
    println!("cargo::rerun-if-changed=cli/build.rs");
    println!("cargo::rustc-env=CONTEND_BUILT_FROM={}", built_from());
    println!("cargo::rerun-if-env-changed={LIBRARY}");
    let library = match env::var_os(LIBRARY).filter(|named| !named.is_empty()) {
        Some(named) => PathBuf::from(named),
        None => library_of_this_build(),
    };
    println!("cargo::rerun-if-changed={}", library.display());
    let copy = PathBuf::from(variable("OUT_DIR")).join("libcontend_preload.so");
    // Not into the file that is there, which may have other names: trees of build results are copied by hard links.
    let _ = fs::remove_file(&copy);
    fs::copy(&library, &copy)
        .unwrap_or_else(|error| panic!("cannot copy {} to {}: {error}", library.display(), copy.display()));
}

/// The version, the commit where this is the tree of one, and the features that it is built with.
fn built_from() -> String {
    let commit = commit().map_or(String::new(), |commit| format!("commit {commit}, "));
    let enabled =
        env::vars().filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_").map(str::to_lowercase));
    let mut features: Vec<_> = enabled.filter(|feature| feature != "default").collect();
    features.sort();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    format!("{} ({commit}features: {features})", variable("CARGO_PKG_VERSION"))
}

/// The commit that is checked out, if the package is the whole of a git tree and no copy inside another one. Looks again
/// only after something else was checked out or committed.
fn commit() -> Option<String> {
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&package).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    let top = fs::canonicalize(git(&["rev-parse", "--show-toplevel"])?).ok()?;
    if top != fs::canonicalize(&package).ok()? {
        return None;
    }
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    for file in ["HEAD", "logs/HEAD"].into_iter().chain(branch.as_deref()) {
        // A file that is not there would make every build run this again.
        let path = git(&["rev-parse", "--git-path", file]).map(|path| package.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set; cargo sets it for build scripts"))
}

/// The library that cargo built last in the directory of this build's dependencies, if the programs of the target can load it.
fn library_of_this_build() -> PathBuf {
    let (host, target) = (variable("HOST"), variable("TARGET"));
    let architecture = |triple: &str| triple.split('-').next().unwrap_or_default().to_owned();
    assert!(
        architecture(&host) == architecture(&target) && target.contains("linux-gnu"),
        "contend carries a library for the programs that it runs, and cargo has built it for {host}: for {target}, build \
         contend-preload for its glibc and name the file in {LIBRARY} (packaging/release does so)"
    );
    // PROFILE/build/contend-HASH/build-script-build, and PROFILE/deps/libcontend_preload*.so.
    let script = env::current_exe().expect("a build script has a file");
    let profile = script.ancestors().nth(3).expect("cargo puts build scripts three levels deep");
    let found = libraries_in(&profile.join("deps")).max_by_key(|(written, _)| *written);
    match found {
        Some((_, library)) => library,
        None => {
            panic!("no libcontend_preload*.so in {}: cargo builds it there", profile.join("deps").display())
        }
    }
}

fn libraries_in(directory: &Path) -> impl Iterator<Item = (SystemTime, PathBuf)> {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", directory.display()));
    entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let name = name.to_str()?;
        let is_library = name.starts_with("libcontend_preload") && name.ends_with(".so");
        is_library.then_some((entry.metadata().ok()?.modified().ok()?, entry.path()))
    })
}
