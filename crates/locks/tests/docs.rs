//! `docs/locks.md` holds the catalogue as a table, the decisions of the pages of regimes, and a section for each lock.
//!
//! `CONTEND_WRITE_DOCS=1 cargo test -p contend-locks --test docs` writes the tables anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use contend_locks::catalogue::{Group, LOCKS};

const LOCK_TABLE: &str = "<!-- table of locks: written by crates/locks/tests/docs.rs -->\n";
const DECISIONS: &str = "<!-- which lock when: written by crates/locks/tests/docs.rs -->\n";
const END: &str = "<!-- end of the table -->\n";

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(page(name)).unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}

/// A table for each group of the catalogue.
fn tables() -> String {
    let mut tables = String::new();
    let yes = |can: bool| if can { "yes" } else { "" };
    for group in Group::ALL {
        write!(
            tables,
            "{}**{}**\n\n\
             | name | bytes | family | timed | shared | held at once by a thread | each waiting thread needs | fairness | source |\n\
             |---|--:|---|:-:|:-:|---|---|---|---|\n",
            if tables.is_empty() { "" } else { "\n" },
            group.heading(),
        )
        .expect("writing to a string");
        for lock in LOCKS.iter().filter(|lock| lock.group == group) {
            writeln!(
                tables,
                "| [`{name}`](#{name}) | {} | {} | {} | {} | {} | {} | {} | {} |",
                lock.bytes,
                lock.family.name(),
                yes(lock.timed),
                yes(lock.shared),
                lock.nested,
                lock.per_thread,
                lock.fairness,
                lock.source,
                name = lock.name,
            )
            .expect("writing to a string");
        }
    }
    tables
}

/// The situations of a page of regimes in which the lock is asked for often: reads, threads and section, and what comes of them: the lock
/// to take, with its mean part of the best one's throughput, and the next.
fn asked_for_often(regimes: &str) -> Vec<(String, String)> {
    const SITUATION: [&str; 3] = ["reads", "threads", "section"];
    const OUTCOME: [&str; 4] = ["lock", "mean", "next", "mean of next"];
    let (_, rest) = regimes.split_once("### Which lock when\n\n").expect("it says which lock when");
    let cells =
        |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let mut rows = rest.lines().take_while(|line| line.starts_with('|')).map(cells);
    let heading = rows.next().expect("the table has a heading");
    let of = |row: &[String], column: &str| {
        let place = heading.iter().position(|name| name == column);
        row[place.unwrap_or_else(|| panic!("a column {column}"))].clone()
    };
    let joined = |row: &[String], columns: &[&str]| {
        columns.iter().map(|column| of(row, column)).collect::<Vec<_>>().join(" | ")
    };
    rows.skip(1)
        .filter(|row| of(row, "asked for") == "often")
        .map(|row| (joined(&row, &SITUATION), joined(&row, &OUTCOME)))
        .collect()
}

/// What was measured beside what was simulated, a row for each situation.
fn decisions() -> String {
    let [measured, simulated] =
        ["regimes.md", "regimes-simulated.md"].map(|page| asked_for_often(&text(page)));
    let mut table = String::from(
        "| reads | threads | section | measured | mean | next | mean of next | simulated | mean | next | mean of next |\n\
         |---|---|---|---|--:|---|--:|---|--:|---|--:|\n",
    );
    assert_eq!(measured.len(), simulated.len(), "both pages have the same situations");
    for ((situation, here), (same, there)) in measured.into_iter().zip(simulated) {
        assert_eq!(situation, same, "both pages have the same situations in the same order");
        writeln!(table, "| {situation} | {here} | {there} |").expect("writing to a string");
    }
    table
}

/// Compares a table of `docs/locks.md` with what it should be, or writes it.
fn is_written(start: &str, table: &str) {
    /// Two tables of one page.
    static WRITES: Mutex<()> = Mutex::new(());
    let _one = WRITES.lock().unwrap_or_else(PoisonError::into_inner);
    let text = text("locks.md");
    let (before, rest) = text.split_once(start).expect("docs/locks.md marks the start of its table");
    let (written, after) = rest.split_once(END).expect("docs/locks.md marks the end of its table");
    if std::env::var_os("CONTEND_WRITE_DOCS").is_some() {
        std::fs::write(page("locks.md"), [before, start, table, END, after].concat())
            .expect("docs/locks.md is writable");
        return;
    }
    assert_eq!(written, table, "stale: run CONTEND_WRITE_DOCS=1 cargo test -p contend-locks --test docs");
}

#[test]
fn the_tables_are_those_of_the_catalogue() {
    is_written(LOCK_TABLE, &tables());
}

#[test]
fn the_decisions_are_those_of_the_regimes() {
    is_written(DECISIONS, &decisions());
}

#[test]
fn every_lock_has_a_section() {
    let text = text("locks.md");
    for lock in LOCKS {
        let heading = format!("\n### {}\n", lock.name);
        assert_eq!(text.matches(&heading).count(), 1, "docs/locks.md: one section {heading:?}");
    }
}
