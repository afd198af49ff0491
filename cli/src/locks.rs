//! `contend locks`: what there is, one line each, the name first.

use crate::output::print_json;
use launch::{GLIBC, support};
use locks::catalogue::{ELIDED, LOCKS, Lock};
use pthread::object::ObjectKind;
use pthread::support::Ability;
use report::{Cell, Column, Screen, Table};
use std::process::ExitCode;

/// List the locks, the name first.
///
/// They are in groups: those to start with; spin locks without a queue, and with one; reader-writer locks and locks that sleep, as Linux has
/// them. The groups history (what others have taken the place of) and glibc (the C library's algorithms) are there to be compared with, and
/// those of the group study are under patents: no program gets them.
///
/// A lock is good for the kinds of pthread object that are listed with it. `emulated` says that the waiters of
/// the algorithm itself cannot give up, so that attempts and sleeps in turn replace timed waits. `arena` lists the
/// kinds whose objects are too small for the lock's state, which then lies in memory of the preload library.
/// Ticket and queue locks hand over in the order of arrival, whatever the real-time priorities of the waiters.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print every property as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `contend locks`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { json } = *args;
    if json {
        let mut all: Vec<_> = LOCKS.iter().map(json_of).collect();
        all.push(serde_json::json!({
            "name": GLIBC,
            "summary": GLIBC_SUMMARY,
            "kinds": ObjectKind::ALL.map(ObjectKind::name),
        }));
        print_json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let screen = Screen::stdout();
    print!("{}", table(LOCKS).terminal(screen));
    // A pipe has a line for each lock, and nothing else.
    if screen.columns().is_some() {
        let elided = ELIDED.iter().map(|lock| lock.name).collect::<Vec<_>>().join(", ");
        let text = format!(
            "For check, and for simulate and predict on machines that have transactions, too: {elided}.\n"
        );
        print!("\n{}", screen.fit(&text));
    }
    Ok(ExitCode::SUCCESS)
}

/// A row for each of these locks, and one for the C library's.
fn table<'a>(locks: impl IntoIterator<Item = &'a Lock>) -> Table {
    let mut table = Table::new([
        Column::text("name", "name"),
        Column::text("kinds", "kinds"),
        Column::text("group", "group"),
        Column::text("family", "family").detail(),
        Column::number("bytes", "bytes").detail(),
        Column::text("emulated", "emulated").detail(),
        Column::text("arena", "arena").detail(),
        Column::text("summary", "summary").kept(),
    ]);
    for lock in locks {
        table.row([
            Cell::from(lock.name),
            kinds(lock).join(" ").into(),
            lock.group.name().into(),
            lock.family.name().into(),
            Cell::from(lock.bytes),
            emulated(lock).join(" ").into(),
            in_arena(lock).join(" ").into(),
            Cell::from(lock.summary),
        ]);
    }
    table.row([
        Cell::from(GLIBC),
        ObjectKind::ALL.map(ObjectKind::name).join(" ").into(),
        Cell::from(""),
        Cell::from(""),
        None::<usize>.into(),
        Cell::from(""),
        Cell::from(""),
        Cell::from(GLIBC_SUMMARY),
    ]);
    table
}

const GLIBC_SUMMARY: &str = "the C library's own: what a program has without contend";

fn kinds(lock: &Lock) -> Vec<&'static str> {
    ObjectKind::ALL.into_iter().filter(|&kind| support(lock, kind).is_some()).map(ObjectKind::name).collect()
}

fn emulated(lock: &Lock) -> Vec<&'static str> {
    let support = ObjectKind::ALL.into_iter().find_map(|kind| support(lock, kind));
    support.filter(|support| support.timed == Ability::Emulated).map(|_| "timed").into_iter().collect()
}

fn in_arena(lock: &Lock) -> Vec<&'static str> {
    let outside = |&kind: &ObjectKind| support(lock, kind).is_some_and(|support| !support.inline);
    ObjectKind::ALL.into_iter().filter(outside).map(ObjectKind::name).collect()
}

fn json_of(lock: &Lock) -> serde_json::Value {
    let ability = |native: bool| if native { "native" } else { "emulated" };
    serde_json::json!({
        "name": lock.name,
        "group": lock.group.name(),
        "summary": lock.summary,
        "source": lock.source,
        "family": lock.family.name(),
        "fairness": lock.fairness,
        "per_thread": lock.per_thread,
        "nested": lock.nested,
        "bytes": lock.bytes,
        "shared": lock.shared,
        "timed": ability(lock.timed),
        "kinds": kinds(lock),
        "arena": in_arena(lock),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::every_screen;

    #[test]
    fn locks_on_every_screen() {
        let names = ["ticket-proportional", "mcs", "rw"];
        let locks = names.map(|name| locks::catalogue::find(name).unwrap());
        let names = [&names[..], &[GLIBC]].concat();
        insta::assert_snapshot!(every_screen(&names, |screen| table(locks).terminal(screen)));
    }
}
