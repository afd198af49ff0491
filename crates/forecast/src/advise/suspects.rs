//! Which locks a program's time goes into, now or on the target, and which others may take their place.

use crate::profiled::{by_cost, preempted_share};
use crate::void::LeftOut;
use launch::support;
use locks::catalogue::{self, Lock};
use profile::{LockKind, LockRow, LockTable, ObjectKind};
use serde::{Deserialize, Serialize};

/// Of the time in which threads ran or waited for locks: less of it lost waiting for one lock is not worth trying others.
pub(super) const WAITED: f64 = 0.02;

/// So many sections at a time, on all cores of the target, make threads wait.
const DEMANDED: f64 = 0.5;

/// Locks that are looked at in one call.
const MOST: usize = 2;

/// A lock that costs time now, or will on the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// Its name, which `--only` takes.
    pub name: String,
    /// What it is.
    #[serde(with = "kind_name")]
    pub kind: ObjectKind,
    /// Where it was first taken, `file:line`, if the program tells.
    pub source: Option<String>,
    /// The part of its threads' time that was lost waiting for it.
    pub waited: f64,
    /// It is no pthread's, and recorded by the program: `contend run` puts no lock in its place, so that none is tried.
    #[serde(default)]
    pub by_hooks: bool,
}

mod kind_name {
    use profile::ObjectKind;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(kind: &ObjectKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectKind, D::Error> {
        let name = String::deserialize(from)?;
        ObjectKind::by_name(&name).ok_or_else(|| D::Error::custom(format!("`{name}` is no kind of lock")))
    }
}

impl Suspect {
    /// What such an object is called in C++ and POSIX.
    #[must_use]
    pub fn kind_in_words(&self) -> &'static str {
        match self.kind {
            ObjectKind::Mutex => "mutex",
            ObjectKind::Rwlock => "reader-writer lock",
            ObjectKind::Spin => "spin lock",
        }
    }

    /// The locks that may take its place.
    #[must_use]
    pub fn candidates(&self) -> Vec<&'static str> {
        candidates(self.kind)
    }

    /// Those of them that are tried: `contend run --only` can put them there.
    #[must_use]
    pub fn tried(&self) -> Vec<&'static str> {
        if self.by_hooks { Vec::new() } else { self.candidates() }
    }
}

/// The locks to try in the place of an object: one of each way to wait, none that does what the C library's does.
pub(crate) fn candidates(kind: ObjectKind) -> Vec<&'static str> {
    let names: &[&str] = match kind {
        ObjectKind::Rwlock => &["adaptive", "rw", "rw-queued"],
        ObjectKind::Mutex => &["adaptive", "futex", "mcs", "ttas-backoff"],
        ObjectKind::Spin => &["qspin", "futex", "ttas-backoff"],
    };
    let fits = |name: &&str| catalogue::find(name).is_some_and(|lock: &Lock| support(lock, kind).is_some());
    names.iter().copied().filter(fits).collect()
}

/// The time in which threads ran, were ready to run, or waited for locks; 1 at least.
fn active_ns(table: &LockTable) -> f64 {
    let header = &table.header;
    (header.cpu_ns + header.queued_ns.unwrap_or(0.0) + waited_ns(table)).max(1.0)
}

fn waited_ns(table: &LockTable) -> f64 {
    table.rows.iter().map(LockRow::waited_ns).sum()
}

/// The part of that time that was lost waiting for any of the locks.
pub(super) fn waited_share(table: &LockTable) -> f64 {
    waited_ns(table) / active_ns(table)
}

/// The locks of a profile that cost time now, the one that costs most first; where none does, the one that will cost most on so
/// many cores, between which a line takes `transfer_ns`, unless what holds the program back is no recorded lock, and will there.
#[must_use]
pub fn suspects(table: &LockTable, cores: u32, transfer_ns: f64) -> Vec<Suspect> {
    let active_ns = active_ns(table);
    let mut found: Vec<(Suspect, f64)> = Vec::new();
    for row in by_cost(table) {
        let LockKind::Object(kind) = row.kind else { continue };
        let name = row.site.clone();
        let waited = row.waited_ns() / active_ns;
        // A section, and the line that brings the lock to the next core.
        let acquisitions = row.acquisitions() as f64;
        let busy_ns = row.exclusive.held_ns() * (1.0 - preempted_share(row)) + transfer_ns * acquisitions;
        let demand = f64::from(cores) * busy_ns / active_ns;
        let is_same = |other: &Suspect| other.name == name && other.by_hooks == row.by_hooks;
        match found.iter_mut().find(|(other, _)| is_same(other)) {
            // Locks that one call made are replaced together; each has its own queue.
            Some((first, most)) => (first.waited, *most) = (first.waited + waited, most.max(demand)),
            None => {
                let source = row.source.clone();
                found.push((Suspect { name, kind, source, waited, by_hooks: row.by_hooks }, demand));
            }
        }
    }
    let (mut now, mut later): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(suspect, _)| suspect.waited >= WAITED);
    now.sort_by(|a, b| b.0.waited.total_cmp(&a.0.waited));
    later.retain(|(_, demand)| *demand >= DEMANDED);
    later.sort_by(|a, b| b.1.total_cmp(&a.1));
    if now.is_empty() && LeftOut::of(table, false).is_none() {
        now.extend(later.into_iter().take(1));
    }
    now.into_iter().take(MOST).map(|(suspect, _)| suspect).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_stand_in_is_tried() {
        for kind in ObjectKind::ALL {
            let all = candidates(kind);
            assert!(all.len() > 1, "{}: {all:?}", kind.name());
            for name in all {
                let text = format!("{}={name}", kind.name());
                assert!(launch::Swaps::parse(&text).is_ok(), "{text}");
            }
        }
        let of_rwlock = candidates(ObjectKind::Rwlock);
        assert!(of_rwlock.contains(&"rw") && !of_rwlock.contains(&"mcs"), "{of_rwlock:?}");
    }

    #[test]
    fn no_lock_is_tried_in_the_place_of_one_that_the_program_records_by_itself() {
        let mut table = crate::void::tests::table_beside_left_out(0.0);
        let of = |table: &LockTable| {
            let all = suspects(table, 192, 1e6);
            all.into_iter()
                .map(|one| (one.name.clone(), one.tried().len(), one.candidates().len()))
                .collect::<Vec<_>>()
        };
        let all = candidates(ObjectKind::Mutex).len();
        assert_eq!(of(&table), [("cold".to_owned(), all, all)]);
        table.rows[0].by_hooks = true;
        assert_eq!(of(&table), [("cold".to_owned(), 0, all)], "it is still the one that costs most");
    }

    /// `measured.json` of before does not tell.
    #[test]
    fn a_suspect_that_was_kept_before_is_one_that_can_be_tried() {
        let kept = r#"{"name": "TABLE", "kind": "rwlock", "source": null, "waited": 0.6}"#;
        let suspect: Suspect = serde_json::from_str(kept).unwrap();
        assert!(!suspect.by_hooks && !suspect.tried().is_empty());
    }

    #[test]
    fn a_lock_that_will_cost_time_is_no_suspect_beside_what_was_left_out() {
        let names = |missed_ns| {
            let table = crate::void::tests::table_beside_left_out(missed_ns);
            suspects(&table, 192, 1e6).into_iter().map(|suspect| suspect.name).collect::<Vec<_>>()
        };
        assert_eq!(names(0.0), ["cold"]);
        assert!(names(8e8).is_empty());
    }
}
