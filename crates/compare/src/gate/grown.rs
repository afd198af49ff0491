//! Which locks cost more than before: where to look when a ratio is worse.

use profile::read::{Measures, SiteUse};
use profile::{Diff, LockId, LockRow, LockTable};
use report::text::{printable, time};
use report::{Column, Table, call_sites};
use serde::Serialize;
use std::collections::HashMap;

/// Locks that are named, at most.
const MOST: usize = 3;
/// The least part of all growth that a lock is named for.
const LEAST: f64 = 0.05;

/// A lock that costs more in a run of the candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Grown {
    /// Its name. Safe to print.
    pub lock: String,
    /// What it is.
    pub kind: &'static str,
    /// The function that made it or touched it first; empty if unknown.
    pub caller: String,
    /// The place of that in the source, or of the lock's declaration, `file:line`.
    pub source: Option<String>,
    /// In a run of the base.
    pub before: Measures,
    /// In a run of the candidate.
    pub after: Measures,
    /// From where the candidate takes it, the longest waits first.
    pub call_sites: Vec<SiteUse>,
}

/// The locks that grew most between two tables whose operations are runs.
pub(super) fn locks(base: &LockTable, candidate: &LockTable) -> Vec<Grown> {
    let diff = Diff::new(base, candidate);
    let rows: [HashMap<LockId, &LockRow>; 2] =
        [base, candidate].map(|table| table.rows.iter().map(|row| (row.id, row)).collect());
    let all_ns: f64 = diff.locks.iter().map(|change| change.growth_ns().max(0.0)).sum();
    let grew = diff.locks.iter().filter(|change| {
        let growth_ns = change.growth_ns();
        growth_ns > 0.0 && growth_ns >= LEAST * all_ns
    });
    let grown = grew.take(MOST).map(|change| {
        // Several locks of one name are told about by the one that costs most.
        let costs_ns = |row: &LockRow| row.waited_ns() + row.held_ns();
        let most = |side: usize| {
            let of_side = change.rows[side].iter().filter_map(|id| rows[side].get(id).copied());
            of_side.max_by(|a, b| costs_ns(a).total_cmp(&costs_ns(b)))
        };
        let row = most(1).or_else(|| most(0));
        Grown {
            lock: change.name.clone(),
            kind: row.map_or("lock", |row| row.kind.name()),
            caller: row.map_or_else(String::new, |row| row.caller.clone()),
            source: row.and_then(|row| row.source.clone()),
            before: change.before,
            after: change.after,
            call_sites: row.map_or_else(Vec::new, |row| row.call_sites.clone()),
        }
    });
    grown.collect()
}

impl Grown {
    /// Where it was made or first touched, in words.
    fn place(&self) -> String {
        let source = self.source.as_deref().map(printable);
        match (self.caller.as_str(), source) {
            ("", None) => String::new(),
            ("", Some(source)) => source,
            (caller, None) => caller.to_owned(),
            (caller, Some(source)) => format!("{caller} ({source})"),
        }
    }

    fn waited(&self) -> String {
        sides(self.before.waited_ns, self.after.waited_ns)
    }

    fn held(&self) -> String {
        sides(self.before.held_ns, self.after.held_ns)
    }

    /// All of it in sentences.
    fn line(&self) -> String {
        let place = match self.place() {
            place if place.is_empty() => place,
            place => format!(", first touched in {place}"),
        };
        let mut line = format!(
            "{} ({}{place}): waited {}, held {} in a run.",
            printable(&self.lock),
            self.kind,
            self.waited(),
            self.held()
        );
        if let Some(sentence) = call_sites::sentence(&self.lock, &self.call_sites) {
            line += &format!(" {sentence}");
        }
        line
    }
}

fn sides(before_ns: f64, after_ns: f64) -> String {
    format!("{} → {}", time(before_ns), time(after_ns))
}

/// What is said before the locks, or instead of them.
pub(super) fn heading(grown: &[Grown]) -> &'static str {
    if grown.is_empty() {
        "No lock costs more in the last profile of the candidate than in that of the base: what got worse is no lock that contend \
         profile sees."
    } else {
        "What costs more in a run of the candidate, by the last profile of each:"
    }
}

/// The locks as lines.
pub(super) fn lines(grown: &[Grown]) -> String {
    let lines = grown.iter().map(|lock| format!("  {}\n", lock.line()));
    format!("{}\n{}", heading(grown), lines.collect::<String>())
}

/// The locks as a table.
pub(super) fn table(grown: &[Grown]) -> Table {
    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::text("kind", "kind"),
        Column::text("caller", "first touched in"),
        Column::text("waited", "waited in a run"),
        Column::text("held", "held in a run"),
        Column::text("waits", "waits"),
    ]);
    for lock in grown {
        table.row([
            lock.lock.as_str().into(),
            lock.kind.into(),
            lock.place().into(),
            lock.waited().into(),
            lock.held().into(),
            call_sites::shares(&lock.call_sites).unwrap_or_default().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{LockKind, ObjectKind, Options, Profile, Times, Usage};

    /// A table of one run of a program with these locks, each waited for so long and behind one call.
    fn table(locks: &[(&str, f64)]) -> LockTable {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.contend");
        profile::session::Recording::create(&path, 0, 1, profile::session::Overwrite::Profiles).unwrap();
        let options = Options { operations: Some(1), ..Options::default() };
        let mut table = Profile::open(&path).unwrap().table(&options);
        table.rows =
            (1..).zip(locks).map(|(number, &(name, waited_ns))| row(number, name, waited_ns)).collect();
        table
    }

    fn row(number: u32, name: &str, waited_ns: f64) -> LockRow {
        let wait = Times { count: 5, total_ns: waited_ns, ..Times::default() };
        let site = SiteUse { function: "grow".into(), behind_ns: waited_ns, waited_ns, ..SiteUse::default() };
        LockRow {
            id: LockId { section: 1, number },
            caller: "serve".into(),
            source: Some("server.c:7".into()),
            pid: 1,
            threads: 2,
            exclusive: Usage { contended: 5, wait, ..Usage::default() },
            call_sites: vec![site],
            ..LockRow::new(name, LockKind::Object(ObjectKind::Mutex))
        }
    }

    #[test]
    fn the_locks_that_grew_most_are_named_and_what_hardly_grew_is_not() {
        let base = table(&[("a", 1e6), ("b", 1e6), ("hardly", 1e6), ("shrank", 9e6)]);
        let candidate = table(&[("a", 2e6), ("b", 8e6), ("hardly", 1.1e6), ("shrank", 1e6), ("new", 4e6)]);
        let grown = locks(&base, &candidate);
        assert_eq!(grown.iter().map(|lock| lock.lock.as_str()).collect::<Vec<_>>(), ["b", "new", "a"]);
        let lines = lines(&grown);
        let first = "  b (mutex, first touched in serve (server.c:7)): waited 1.00 ms → 8.00 ms, held 0 ns → 0 ns in a run. \
                     Waits for b: 100 % in grow; 100 % behind grow.";
        assert_eq!(lines.lines().nth(1), Some(first), "{lines}");
        assert!(locks(&candidate, &candidate).is_empty());
    }
}
