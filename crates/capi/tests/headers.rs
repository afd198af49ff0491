//! What the headers say of each lock is made from the catalogue, and they compile without a warning.
//!
//! The headers are the one source of everything else in them: only what stands between marks is made.
//! `CONTEND_WRITE_HEADERS=1 cargo test -p contend-capi --test headers` makes it anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use contend::EXPORTED;
use locks::catalogue::{self, Lock};

// What the headers say of the types that are not in the catalogue.
const _: () = assert!(size_of::<locks::Condvar>() == 8 && size_of::<locks::Semaphore>() == 8);
const _: () = assert!(size_of::<locks::Barrier>() == 8 && size_of::<locks::Once>() == 4);
const _: () = assert!(size_of::<locks::RtMutex>() == 4);
const _: () = assert!(size_of::<locks::McsNode<machine::Patient>>() == 16);
const _: () = assert!(size_of::<locks::McsQueue<machine::Patient>>() == 8);

/// The lock's name as C has it.
fn c_name(lock: &Lock) -> String {
    lock.name.replace(['-', ':'], "_")
}

/// What the lock can do, as [`EXPORTED`] says it.
fn ability(lock: &Lock) -> &'static str {
    match (lock.shared, lock.timed) {
        (true, true) => "timed_shared",
        (true, false) => "shared",
        (false, true) => "timed",
        (false, false) => "tried",
    }
}

/// The lock's type and functions in `contend.h`.
fn c_lock(lock: &Lock) -> String {
    let name = c_name(lock);
    let (word, words, align) = match lock.bytes {
        bytes if bytes % 64 == 0 => ("uint64_t", bytes / 8, "CONTEND_LINE_ALIGNED "),
        bytes if bytes % 8 == 0 => ("uint64_t", bytes / 8, ""),
        bytes => ("uint32_t", bytes / 4, ""),
    };
    let mut text = format!(
        "\n/* {name}: {}.\n   {}. Fairness: {}. */\n\
         typedef struct contend_{name} {{\n    {align}{word} contend_private[{words}];\n}} contend_{name}_t;\n",
        lock.summary, lock.source, lock.fairness,
    );
    for (function, arguments) in c_functions(lock) {
        writeln!(text, "int contend_{name}_{function}(contend_{name}_t *lock{arguments});")
            .expect("writing to a string");
    }
    text
}

/// The functions of the lock, without its name, each with what it takes besides the lock.
fn c_functions(lock: &Lock) -> Vec<(String, &'static str)> {
    let mut functions = Vec::new();
    let sides: &[&str] = if lock.shared { &["wr", "rd"] } else { &[""] };
    for side in sides {
        functions.extend([(format!("{side}lock"), ""), (format!("try{side}lock"), "")]);
        if lock.timed {
            functions.push((format!("timed{side}lock"), ", const struct timespec *at"));
            functions.push((format!("clock{side}lock"), ", int clock, const struct timespec *at"));
        }
        functions.push((format!("{side}unlock"), ""));
    }
    if lock.shared {
        functions.extend(["rdlock_again", "unlock", "downgrade"].map(|function| (function.to_owned(), "")));
    }
    functions
}

/// The locks that had another name before, each with that name as C has it.
fn renamed() -> impl Iterator<Item = (String, &'static Lock)> {
    catalogue::RENAMED.iter().filter_map(|&(before, now)| {
        Some((before.replace(['-', ':'], "_"), catalogue::find_in_any_form(now)?))
    })
}

/// A name that a lock had before, as macros.
fn c_renamed((before, lock): (String, &Lock)) -> String {
    let names = c_functions(lock).into_iter().map(|(function, _)| function).chain(["t".to_owned()]);
    let now = c_name(lock);
    names.map(|name| format!("#define contend_{before}_{name} contend_{now}_{name}\n")).collect()
}

/// The lock's type in `contend.hpp`.
fn cpp_lock(lock: &Lock) -> String {
    let name = c_name(lock);
    let function = |suffix: &str| format!("contend_{name}_{suffix}");
    let (write, all) = (if lock.shared { "wr" } else { "" }, ability(lock));
    let mut parts = vec![
        format!("contend_{name}_t"),
        function(&format!("{write}lock")),
        function(&format!("{write}unlock")),
        function(&format!("try{write}lock")),
    ];
    if lock.shared {
        parts.extend(["rdlock", "rdunlock", "tryrdlock", "downgrade"].map(function));
    }
    if lock.timed {
        parts.push(function(&format!("clock{write}lock")));
    }
    if lock.timed && lock.shared {
        parts.push(function("clockrdlock"));
    }
    format!("\n/// {}.\nusing {name} = detail::{all}<{}>;\n", lock.summary, parts.join(", "))
}

/// A name that a lock had before, as a type.
fn cpp_renamed((before, lock): (String, &Lock)) -> String {
    let now = c_name(lock);
    format!("\nusing {before} [[deprecated(\"it is {now} now\")]] = {now};\n")
}

/// What stands above the locks of its group.
fn heading(lock: &Lock) -> &'static str {
    if lock.is_elided() {
        "Elided: in transactions, where the processor has them"
    } else {
        lock.group.heading()
    }
}

/// What a header says of each lock, with a heading above the first of each group.
fn in_groups(of: fn(&Lock) -> String) -> String {
    let locks = catalogue::for_programs().collect::<Vec<_>>();
    let groups = locks.chunk_by(|one, next| heading(one) == heading(next));
    let group = |group: &[&Lock]| {
        let locks = group.iter().map(|lock| of(lock)).collect::<String>();
        format!("\n/* == {} == */\n{locks}", heading(group[0]))
    };
    groups.map(group).collect()
}

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// The header with `made` between the marks of `part`.
fn with_part(header: &str, part: &str, made: &str) -> String {
    let start = format!("/* {part}, from the catalogue: */\n");
    let end = "\n/* End of what is made. */\n";
    let (before, rest) = header.split_once(&start).unwrap_or_else(|| panic!("a mark of {part}"));
    let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("a mark at the end of {part}"));
    [before, &start, made, end, after].concat()
}

#[test]
fn every_lock_is_exported_with_its_abilities() {
    let catalogue = catalogue::for_programs().map(|lock| (c_name(lock), ability(lock))).collect::<Vec<_>>();
    let exported = EXPORTED.iter().map(|&(name, ability)| (name.to_owned(), ability)).collect::<Vec<_>>();
    assert_eq!(exported, catalogue, "the list in crates/capi/src/lib.rs is not the catalogue's");
}

#[test]
fn the_headers_are_those_of_the_catalogue() {
    let parts = [
        ("contend.h", "Locks", in_groups(c_lock)),
        ("contend.h", "Names of before", renamed().map(c_renamed).collect()),
        ("contend.hpp", "Locks", in_groups(cpp_lock)),
        ("contend.hpp", "Names of before", renamed().map(cpp_renamed).collect()),
    ];
    for (name, part, made) in parts {
        let path = include().join(name);
        let committed = std::fs::read_to_string(&path).expect("the header is there");
        let text = with_part(&committed, part, &made);
        if std::env::var_os("CONTEND_WRITE_HEADERS").is_some() {
            std::fs::write(&path, &text).expect("the header is writable");
        } else {
            let remedy = "stale: run CONTEND_WRITE_HEADERS=1 cargo test -p contend-capi --test headers";
            assert!(committed == text, "{part} of {name}: {remedy}");
        }
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
    compiles("cc", "c", "c2x", "contend.h");
    compiles("c++", "c++", "c++17", "contend.h");
    compiles("c++", "c++", "c++17", "contend.hpp");
    compiles("c++", "c++", "c++20", "contend.hpp");
    compiles("c++", "c++", "c++23", "contend.hpp");
}
