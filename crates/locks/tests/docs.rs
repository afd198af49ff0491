//! `docs/locks.md` holds the catalogue as a table, the decisions of the pages of regimes, and a section for each lock.
//!
//! `CONTEND_WRITE_DOCS=1 cargo test -p contend-locks --test docs` writes the tables anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use contend_locks::catalogue::LOCKS;

const LOCK_TABLE: &str = "<!-- table of locks: written by crates/locks/tests/docs.rs -->\n";
const END: &str = "<!-- end of the table -->\n";

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(page(name)).unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}

fn table() -> String {
    let mut table = String::from(
        "| name | bytes | family | timed | shared | held at once by a thread | each waiting thread needs | fairness | source |\n\
         |---|--:|---|:-:|:-:|---|---|---|---|\n",
    );
    let yes = |can: bool| if can { "yes" } else { "" };
    for lock in LOCKS {
        writeln!(
            table,
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
    table
}

/// Which lock to start with in each situation, with its mean part of the best one's throughput there, and the next.
fn decisions(regimes: &str) -> String {
    const COLUMNS: [&str; 8] =
        ["reads", "threads", "section", "asked for", "lock", "mean", "next", "mean of next"];
    let (_, rest) = regimes.split_once("### Which lock when\n\n").expect("it says which lock when");
    let cells =
        |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let mut rows = rest.lines().take_while(|line| line.starts_with('|')).map(cells);
    let heading = rows.next().expect("the table has a heading");
    let places = COLUMNS.map(|column| {
        heading.iter().position(|name| name == column).unwrap_or_else(|| panic!("a column {column}"))
    });
    let mut table = format!("| {} |\n|---|---|---|---|---|--:|---|--:|\n", COLUMNS.join(" | "));
    for row in rows.skip(1) {
        let cells = places.map(|place| row[place].as_str());
        writeln!(table, "| {} |", cells.join(" | ")).expect("writing to a string");
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
fn the_table_is_that_of_the_catalogue() {
    is_written(LOCK_TABLE, &table());
}

#[test]
fn the_decisions_are_those_of_the_regimes() {
    for page in ["regimes.md", "regimes-simulated.md"] {
        let start =
            format!("<!-- which lock when: written by crates/locks/tests/docs.rs from docs/{page} -->\n");
        is_written(&start, &decisions(&text(page)));
    }
}

#[test]
fn every_lock_has_a_section() {
    let text = text("locks.md");
    for lock in LOCKS {
        let heading = format!("\n### {}\n", lock.name);
        assert_eq!(text.matches(&heading).count(), 1, "docs/locks.md: one section {heading:?}");
    }
}
