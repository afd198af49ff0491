//! `docs/locks.md` holds the catalogue as a table, and a section for each lock.
//!
//! `CONTEND_WRITE_DOCS=1 cargo test -p contend-locks --test docs` writes the table anew.

use std::fmt::Write as _;
use std::path::Path;

use contend_locks::catalogue::LOCKS;

const START: &str = "<!-- table of locks: written by crates/locks/tests/docs.rs -->\n";
const END: &str = "<!-- end of the table -->\n";

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

#[test]
fn the_table_is_that_of_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/locks.md");
    let text = std::fs::read_to_string(&path).expect("docs/locks.md is there");
    let (before, rest) = text.split_once(START).expect("docs/locks.md marks the start of its table");
    let (written, after) = rest.split_once(END).expect("docs/locks.md marks the end of its table");
    if std::env::var_os("CONTEND_WRITE_DOCS").is_some() {
        std::fs::write(&path, [before, START, &table(), END, after].concat())
            .expect("docs/locks.md is writable");
        return;
    }
    let remedy = "stale: run CONTEND_WRITE_DOCS=1 cargo test -p contend-locks --test docs";
    assert_eq!(written, table(), "{remedy}");
}

#[test]
fn every_lock_has_a_section() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/locks.md");
    let text = std::fs::read_to_string(&path).expect("docs/locks.md is there");
    for lock in LOCKS {
        let heading = format!("\n### {}\n", lock.name);
        assert_eq!(text.matches(&heading).count(), 1, "docs/locks.md: one section {heading:?}");
    }
}
