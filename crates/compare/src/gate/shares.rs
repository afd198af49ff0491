//! What a profile says that is judged. Pure.

use super::Kind;
use profile::{LockRow, LockTable};
use pthread::site::Site;

/// What a profile says that is judged.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Shares {
    /// The part of all acquisitions that waited; none without acquisitions.
    contended: Option<f64>,
    /// Acquisitions for one operation; none without acquisitions, or where operations were not counted.
    acquisitions: Option<f64>,
    /// The part of its threads' time in which the lock asked for was held; none if it is not there, or not known.
    held: Option<f64>,
    /// The profile tells of all locks, and none was taken.
    takes_none: bool,
    /// The lock asked for is there.
    pub(super) has_site: bool,
    /// The profile tells of all locks, and the one asked for is not among them.
    lacks_site: bool,
    /// Threads that touched a lock.
    pub(super) threads: u64,
    /// Cores that the program might use.
    pub(super) cores: u64,
}

impl Shares {
    pub(super) fn of(table: &LockTable, site: Option<&str>) -> Self {
        // Of a lock of which only waits are known, no one knows the acquisitions.
        let known = || table.rows.iter().filter(|row| !row.exclusive.waits_only);
        let acquisitions: u64 = known().map(LockRow::acquisitions).sum();
        let contended: u64 = known().map(LockRow::contended).sum();
        let of_any = |value: f64| (acquisitions > 0).then_some(value);
        let operations = table.header.operations.filter(|&operations| operations > 0);
        let row = site.map(|site| row_of(table, site));
        let is_whole = table.header.dropped == 0 && !table.rows.iter().any(|row| row.merged);
        Self {
            contended: of_any(contended as f64 / acquisitions as f64),
            acquisitions: operations.and_then(|operations| of_any(acquisitions as f64 / operations as f64)),
            held: row.flatten().and_then(|row| row.share),
            takes_none: is_whole && acquisitions == 0 && known().count() == table.rows.len(),
            has_site: row.flatten().is_some(),
            lacks_site: is_whole && row.is_some_and(|row| row.is_none()),
            threads: table.header.threads,
            cores: table.header.cores,
        }
    }

    fn value(&self, kind: Kind) -> Option<f64> {
        match kind {
            Kind::Scaling => None,
            Kind::ContendedShare => self.contended,
            Kind::Acquisitions => self.acquisitions,
            Kind::HeldShare => self.held,
        }
    }

    /// Whether there is no value since there is no such lock.
    fn lacks(&self, kind: Kind) -> bool {
        if kind == Kind::HeldShare { self.lacks_site } else { self.takes_none }
    }
}

/// What the profiles of base and candidate say of one kind. A lock that the candidate has and the base has not was taken by the base
/// for no part of anything: there a share is 0. The other way round nothing is known, since the lock may have got another name.
pub(super) fn sides(kind: Kind, base: &[Shares], candidate: &[Shares]) -> [Vec<Option<f64>>; 2] {
    let candidate: Vec<_> = candidate.iter().map(|shares| shares.value(kind)).collect();
    let has_some = candidate.iter().any(Option::is_some);
    let of_base =
        |shares: &Shares| shares.value(kind).or_else(|| (has_some && shares.lacks(kind)).then_some(0.0));
    [base.iter().map(of_base).collect(), candidate]
}

/// The lock of this name, else the one with the greatest share of those that the site covers: that one saturates first.
fn row_of<'a>(table: &'a LockTable, site: &str) -> Option<&'a LockRow> {
    let wanted = Site::parse(Site::without_number(site).as_bytes());
    let named = table.rows.iter().chain(striped(table)).find(|row| row.name == site);
    named.or_else(|| {
        let covered = table.rows.iter().filter(|row| wanted.covers(&Site::parse(row.site.as_bytes())));
        // A share that is not known is the least.
        covered.max_by(|one, other| one.share.unwrap_or(-1.0).total_cmp(&other.share.unwrap_or(-1.0)))
    })
}

/// Each of them has the share of the lock that saturates first.
pub(super) fn striped(table: &LockTable) -> impl Iterator<Item = &LockRow> {
    table.striped.iter().map(|striped| &striped.row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{LockKind, TableHeader, Usage};
    use pthread::object::ObjectKind;

    fn row(name: &str, acquisitions: u64, contended: u64) -> LockRow {
        LockRow {
            exclusive: Usage { acquisitions, contended, ..Usage::default() },
            share: Some(0.25),
            ..LockRow::new(name, LockKind::Object(ObjectKind::Mutex))
        }
    }

    /// A lock of which only waits are known.
    fn waits_only(name: &str) -> LockRow {
        let exclusive = Usage { contended: 5_000, waits_only: true, ..Usage::default() };
        LockRow { exclusive, share: None, ..row(name, 0, 0) }
    }

    fn table(rows: Vec<LockRow>) -> LockTable {
        let header = TableHeader { operations: Some(5), ..TableHeader::default() };
        LockTable { header, rows, striped: Vec::new(), kernel: None, program: None }
    }

    /// What is judged of base and candidate, by the locks of each.
    fn judged(kind: Kind, base: Vec<LockRow>, candidate: Vec<LockRow>) -> [Option<f64>; 2] {
        let [base, candidate] = [base, candidate].map(|rows| [Shares::of(&table(rows), Some("cache"))]);
        sides(kind, &base, &candidate).map(|values| values[0])
    }

    #[test]
    fn locks_whose_acquisitions_are_not_known_are_in_no_share() {
        let both = || vec![row("pool", 10, 1), waits_only("std")];
        assert_eq!(judged(Kind::ContendedShare, both(), both()), [Some(0.1); 2]);
        assert_eq!(judged(Kind::Acquisitions, both(), both()), [Some(2.0); 2]);
    }

    #[test]
    fn a_lock_that_the_base_did_not_have_is_new() {
        let cache = || vec![row("pool", 10, 1), row("cache", 10, 5)];
        let pool = || vec![row("pool", 10, 1)];
        assert_eq!(judged(Kind::HeldShare, pool(), cache()), [Some(0.0), Some(0.25)]);
        assert_eq!(judged(Kind::HeldShare, cache(), pool()), [Some(0.25), None], "it may be another name");
        assert_eq!(judged(Kind::HeldShare, pool(), pool()), [None; 2]);
        let known_by_waits = || vec![waits_only("cache")];
        assert_eq!(judged(Kind::HeldShare, known_by_waits(), cache()), [None, Some(0.25)]);

        for (kind, value) in [(Kind::ContendedShare, 0.3), (Kind::Acquisitions, 4.0)] {
            assert_eq!(judged(kind, vec![], cache()), [Some(0.0), Some(value)]);
            assert_eq!(judged(kind, vec![row("idle", 0, 0)], cache()), [Some(0.0), Some(value)]);
            assert_eq!(
                judged(kind, known_by_waits(), cache()),
                [None, Some(value)],
                "it took an unknown number"
            );
            assert_eq!(judged(kind, cache(), vec![]), [Some(value), None]);
            assert_eq!(judged(kind, vec![], vec![]), [None; 2], "there is nothing to judge");
        }
    }

    #[test]
    fn a_profile_that_does_not_tell_of_all_locks_lacks_none() {
        let merged = LockRow { merged: true, ..row("merged", 10, 1) };
        let cache = vec![row("cache", 10, 5)];
        assert_eq!(judged(Kind::HeldShare, vec![merged], cache), [None, Some(0.25)]);
    }
}
