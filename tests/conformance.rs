//! Return codes and event traces: each trace program prints one case a line, and has to print under every lock
//! what it prints on glibc alone.

mod common;
#[path = "common/locks.rs"]
mod locks;

use common::{HANG, Source, run};
use locks::{check_recording, choices, recorded, recordings, under, watched};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compares a program's trace to its trace on glibc, under all the choices of locks for `kinds`, watched for a site that it does
/// not have, and under some of the choices recorded.
fn same_trace(program: &Path, kinds: &[&str]) {
    let oracle = run(Command::new(program), HANG);
    assert!(oracle.succeeded(), "{} on glibc alone {oracle}", program.display());
    assert!(oracle.stdout.ends_with("end\n"), "{} on glibc alone printed no end", program.display());

    let mut failures = String::new();
    let mut compare = |command: Command, how: &str| {
        let outcome = run(command, HANG);
        let difference = difference(&oracle.stdout, &outcome.stdout);
        if !difference.is_empty() {
            let _ = writeln!(failures, "--- glibc\n+++ {how}\n{difference}");
        }
        if !outcome.succeeded() {
            let _ = writeln!(failures, "under {how} it {outcome}");
        }
    };
    let choices = choices(kinds);
    for lock in &choices {
        compare(under(lock, program), lock);
    }
    compare(watched(program), "glibc, watched for a site");
    let directory = tempfile::tempdir().expect("a place for profiles");
    let file = directory.path().join("recorded.contend");
    for (lock, rate) in recordings(&choices) {
        compare(recorded(lock, rate, program, &file), &format!("{lock}, recorded at rate {rate}"));
        check_recording(&file)
            .unwrap_or_else(|error| panic!("the recording under {lock} at rate {rate} {error}"));
    }
    assert!(failures.is_empty(), "{} behaves otherwise than on glibc:\n{failures}", program.display());
}

/// The first lines, up to this many, that differ; a lock that hangs early lacks all that follow.
const SHOWN: usize = 40;

/// The lines that are in one trace only, each with its number; empty when there are none.
fn difference(expected: &str, found: &str) -> String {
    let diff = similar::TextDiff::from_lines(expected, found);
    let changes: Vec<String> = diff
        .iter_all_changes()
        .filter(|change| change.tag() != similar::ChangeTag::Equal)
        .map(|change| {
            let line = change.old_index().or(change.new_index()).unwrap_or(0) + 1;
            format!("{}{line:5}: {}", change.tag(), change.value().trim_end())
        })
        .collect();
    let more = changes.len().saturating_sub(SHOWN);
    let mut shown = changes[..changes.len() - more].join("\n");
    if more > 0 {
        let _ = write!(shown, "\n… and {more} lines more");
    }
    shown
}

fn compiled(file: &str) -> PathBuf {
    Source::program(file).compile()
}

#[test]
fn mutexes() {
    same_trace(&compiled("mutex.c"), &["mutex"]);
}

#[test]
fn timed_mutexes() {
    same_trace(&compiled("timed.c"), &["mutex"]);
}

#[test]
fn reader_writer_locks() {
    same_trace(&compiled("rwlock.c"), &["rwlock"]);
}

#[test]
fn condition_variables() {
    same_trace(&compiled("cond.c"), &["mutex"]);
}

#[test]
fn spin_locks() {
    same_trace(&compiled("spin.c"), &["spin"]);
}

#[test]
fn c11_locks() {
    same_trace(&compiled("c11.c"), &["mutex"]);
}

#[test]
fn names_and_versions_of_old_objects() {
    same_trace(&compiled("old_names.c"), &[]);
}

#[test]
fn what_is_left_to_glibc() {
    same_trace(&compiled("left_to_glibc.c"), &[]);
}

#[test]
fn cancellation_unoptimised() {
    same_trace(&Source { options: &["-O0"], ..Source::program("cancel.c") }.compile(), &[]);
}

#[test]
fn cancellation_optimised() {
    same_trace(&compiled("cancel.c"), &[]);
}

#[test]
fn cancellation_by_unwinding() {
    same_trace(&Source { options: &["-fexceptions"], ..Source::program("cancel.c") }.compile(), &[]);
}

/// glibc waits for ever where a thread that reads asks to write, so here there is no oracle but the manual.
#[test]
fn write_after_own_read_is_a_deadlock() {
    let program = compiled("own_read.c");
    for lock in choices(&["rwlock"]).into_iter().filter(|lock| lock != "glibc") {
        let outcome = run(under(&lock, &program), HANG);
        assert!(outcome.succeeded(), "under {lock} own_read {outcome}");
        let expected = "\
            pthread_rwlock_wrlock | default | read-held by self -> EDEADLK\n\
            pthread_rwlock_timedwrlock | default | read-held by self -> EDEADLK\n\
            pthread_rwlock_clockwrlock | default | read-held by self -> EDEADLK\n\
            pthread_rwlock_trywrlock | default | read-held by self -> EBUSY\n\
            pthread_rwlock_wrlock | default | free -> 0\n\
            pthread_rwlock_wrlock | default | read-held and handed on -> 0\n\
            end\n";
        assert!(outcome.stdout == expected, "under {lock}:\n{}", difference(expected, &outcome.stdout));
    }
}

#[test]
fn a_difference_names_its_lines() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), "");
    assert_eq!(difference("a\nb\n", "a\nc\n"), "-    2: b\n+    2: c");
    let long: String = (0..100).map(|i| format!("{i}\n")).collect();
    assert!(difference(&long, "").ends_with("… and 60 lines more"));
}
