//! What grew by call site: from where locks are waited for, and behind which holds.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::read::{LockRow, LockTable, SiteUse};

/// What is compared of a call site, for one operation or second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SiteMeasures {
    /// Acquisitions from here that had to wait.
    pub waits: f64,
    /// How long they waited, ns.
    pub waited_ns: f64,
    /// How long other threads waited until a hold from here was over, ns.
    pub behind_ns: f64,
    /// Mean of the timed holds from here, ns; 0 if none was timed.
    pub hold_ns: f64,
}

impl SiteMeasures {
    /// Waits that have to do with the call site: its own, and those of others behind it; ns.
    pub fn cost_ns(&self) -> f64 {
        self.waited_ns + self.behind_ns
    }
}

/// How the waits at a call site changed, and those behind it. All zeros on a side mean that there were none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteChange {
    /// The lock, as among the changes by lock. Safe to print.
    pub lock: String,
    /// The function that takes it. Safe to print.
    pub function: String,
    /// The place in the source, `file:line`, as in the second profile, else in the first; of several that with the longest waits.
    pub source: Option<String>,
    /// In the first profile.
    pub before: SiteMeasures,
    /// In the second profile.
    pub after: SiteMeasures,
}

impl SiteChange {
    /// How much longer is waited at the call site and behind it, ns for one operation or second.
    pub fn growth_ns(&self) -> f64 {
        self.after.cost_ns() - self.before.cost_ns()
    }
}

/// Sums on their way to a [`SiteChange`].
#[derive(Default)]
struct Side {
    measures: SiteMeasures,
    holds: f64,
    held_ns: f64,
}

impl Side {
    fn add(&mut self, site: &SiteUse) {
        self.measures.waits += site.waits as f64;
        self.measures.waited_ns += site.waited_ns;
        self.measures.behind_ns += site.behind_ns;
        self.holds += site.holds as f64;
        self.held_ns += site.held_ns;
    }

    fn per(&self, operations: f64) -> SiteMeasures {
        SiteMeasures {
            waits: self.measures.waits / operations,
            waited_ns: self.measures.waited_ns / operations,
            behind_ns: self.measures.behind_ns / operations,
            hold_ns: if self.holds > 0.0 { self.held_ns / self.holds } else { 0.0 },
        }
    }
}

/// The call sites of both tables with waits at them or behind them, what grew most first; `None` unless both tables have call sites.
pub(super) fn changes(
    tables: [&LockTable; 2],
    name: impl Fn(usize, &LockRow) -> String,
    operations: [f64; 2],
) -> Option<Vec<SiteChange>> {
    if !tables.into_iter().all(knows_call_sites) {
        return None;
    }
    let mut sums: BTreeMap<(String, String), ([Side; 2], Option<String>)> = BTreeMap::new();
    // The second table first: its places in the source are those that a user looks up.
    for side in [1, 0] {
        for row in tables[side].rows.iter().filter(|row| row.kind.is_lock() && !row.call_sites.is_empty()) {
            let lock = name(side, row);
            for site in &row.call_sites {
                let sum = sums.entry((lock.clone(), site.function.clone())).or_default();
                sum.0[side].add(site);
                sum.1 = sum.1.take().or_else(|| site.source.clone());
            }
        }
    }
    let change = |((lock, function), (sides, source)): (_, ([Side; 2], _))| SiteChange {
        lock,
        function,
        source,
        before: sides[0].per(operations[0]),
        after: sides[1].per(operations[1]),
    };
    let mut changes: Vec<_> = sums.into_iter().map(change).collect();
    changes.retain(|change| change.before.cost_ns() > 0.0 || change.after.cost_ns() > 0.0);
    // Stable: in the order of names where nothing grew.
    changes.sort_by(|a, b| b.growth_ns().total_cmp(&a.growth_ns()));
    Some(changes)
}

/// Whether a table has call sites, or no waits that could have any: such a profile is no older than call sites are, as far as it tells.
fn knows_call_sites(table: &LockTable) -> bool {
    let has_sites = table.rows.iter().any(|row| !row.call_sites.is_empty());
    table.header.attached.is_none() && (has_sites || table.rows.iter().all(|row| row.contended() == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HeaderValues;
    use crate::read::{Attached, Diff, Options, Profile, Usage};
    use crate::{LockKind, ObjectKind};

    /// A table of one second with a mutex that was waited for at these call sites.
    fn table(sites: Vec<SiteUse>) -> LockTable {
        let profile = Profile {
            path: "p".into(),
            header: HeaderValues::default(),
            sections: Vec::new(),
            run: None,
            tasks: Vec::new(),
            kernel: None,
        };
        let mut table = profile.table(&Options::default());
        table.header.elapsed_ns = 1e9;
        let contended = sites.iter().map(|site| site.waits).sum();
        table.rows.push(LockRow {
            caller: "serve".into(),
            pid: 1,
            threads: 1,
            exclusive: Usage { contended, ..Usage::default() },
            call_sites: sites,
            ..LockRow::new("pool", LockKind::Object(ObjectKind::Mutex))
        });
        table
    }

    fn site(function: &str, line: u32, waited_ns: f64, behind_ns: f64) -> SiteUse {
        SiteUse {
            function: function.into(),
            source: Some(format!("pool.c:{line}")),
            waits: 2,
            waited_ns,
            behind_ns,
            holds: 4,
            held_ns: 400.0,
            ..SiteUse::default()
        }
    }

    #[test]
    fn a_function_that_is_waited_behind_more_comes_first_with_its_new_place() {
        let before = table(vec![site("get", 10, 50.0, 0.0), site("rebalance", 20, 0.0, 40.0)]);
        let after = table(vec![
            site("rebalance", 25, 0.0, 700.0),
            site("get", 12, 90.0, 0.0),
            site("get", 14, 10.0, 0.0),
            site("idle", 30, 0.0, 0.0),
        ]);
        let changes = Diff::new(&before, &after).call_sites.expect("both have call sites");
        let of = |change: &SiteChange| (change.function.clone(), change.source.clone(), change.growth_ns());
        assert_eq!(
            changes.iter().map(of).collect::<Vec<_>>(),
            [
                ("rebalance".into(), Some("pool.c:25".into()), 660.0),
                ("get".into(), Some("pool.c:12".into()), 50.0)
            ],
            "lines of one function are added up, and what no thread waits for is left out"
        );
        let get = &changes[1];
        assert_eq!((get.before.waits, get.after.waits, get.after.hold_ns), (2.0, 4.0, 100.0));
        assert_eq!(get.lock, "pool");
    }

    #[test]
    fn only_profiles_that_tell_call_sites_are_compared_by_them() {
        let told = || table(vec![site("get", 10, 50.0, 0.0)]);
        let mut older = told();
        older.rows[0].call_sites.clear();
        let mut attached = told();
        attached.header.attached = Some(Attached::default());
        for other in [&older, &attached] {
            assert_eq!(Diff::new(other, &told()).call_sites, None);
            assert_eq!(Diff::new(&told(), other).call_sites, None);
        }
        let alone = table(Vec::new());
        let new = Diff::new(&alone, &told()).call_sites.expect("nobody waited before");
        assert_eq!((new[0].before, new[0].after.waited_ns), (SiteMeasures::default(), 50.0));
    }
}
