//! The headers are those of the catalogue, and compile without a warning.
//!
//! `CONTEND_WRITE_HEADERS=1 cargo test -p contend-capi --test headers` writes them anew.

use std::path::{Path, PathBuf};
use std::process::Command;

use contend::{EXPORTED, header};
use locks::catalogue;

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

#[test]
fn every_lock_is_exported_with_its_abilities() {
    let catalogue = catalogue::for_programs()
        .map(|lock| (header::c_name(lock), header::ability(lock)))
        .collect::<Vec<_>>();
    let exported = EXPORTED.iter().map(|&(name, ability)| (name.to_owned(), ability)).collect::<Vec<_>>();
    assert_eq!(exported, catalogue, "the list in crates/capi/src/lib.rs is not the catalogue's");
}

#[test]
fn the_headers_are_those_of_the_catalogue() {
    for (name, text) in [("contend.h", header::c()), ("contend.hpp", header::cpp())] {
        let path = include().join(name);
        if std::env::var_os("CONTEND_WRITE_HEADERS").is_some() {
            std::fs::write(&path, &text).expect("the header is writable");
        }
        let committed = std::fs::read_to_string(&path).expect("the header is there");
        let remedy = "stale: run CONTEND_WRITE_HEADERS=1 cargo test -p contend-capi --test headers";
        assert_eq!(committed, text, "{name} is {remedy}");
    }
}

/// Compiles the header alone, with all warnings as errors.
fn compiles(compiler: &str, language: &str, standard: &str, header: &str) {
    let output = Command::new(compiler)
        .args(["-x", language, &format!("-std={standard}"), "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(["-Wshadow", "-Wconversion", "-fsyntax-only", "-include", header, "-I"])
        .args([include().as_os_str(), Path::new("/dev/null").as_os_str()])
        .output()
        .unwrap_or_else(|error| panic!("cannot run {compiler}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{header} as {standard}:\n{said}");
}

#[test]
fn the_headers_compile_alone() {
    compiles("cc", "c", "c11", "contend.h");
    compiles("cc", "c", "c17", "contend.h");
    compiles("c++", "c++", "c++17", "contend.h");
    compiles("c++", "c++", "c++17", "contend.hpp");
    compiles("c++", "c++", "c++20", "contend.hpp");
}
