//! Puts the preload library where the command can embed it.
//!
//! The library is a build-dependency, so cargo has built it for the machine that builds; it lies beside this script's own
//! file. Naming the crate in code would link its pthread functions into this script, so nothing here does.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=cli/build.rs");
    let (host, target) = (variable("HOST"), variable("TARGET"));
    let architecture = |triple: &str| triple.split('-').next().unwrap_or_default().to_owned();
    assert!(
        architecture(&host) == architecture(&target) && target.contains("linux-gnu"),
        "contend carries a library for the programs that it runs, which is built for the machine that builds it: \
         {host} cannot build contend for {target}; build it on such a machine"
    );
    let library = newest_library();
    println!("cargo::rerun-if-changed={}", library.display());
    let copy = PathBuf::from(variable("OUT_DIR")).join("libcontend_preload.so");
    // Not into the file that is there, which may have other names: trees of build results are copied by hard links.
    let _ = fs::remove_file(&copy);
    fs::copy(&library, &copy)
        .unwrap_or_else(|error| panic!("cannot copy {} to {}: {error}", library.display(), copy.display()));
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set; cargo sets it for build scripts"))
}

/// The library that cargo built last in the directory of this build's dependencies.
fn newest_library() -> PathBuf {
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
