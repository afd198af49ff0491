//! What the model needs of a profile's rows.

use anyhow::Context as _;
use lab::names;
use model::{Family, Mean, Observed};
use profile::{LockKind, LockRow, LockTable, ObjectKind, Times};
use pthread::site::Site;
use report::text;
use std::path::Path;
use topology::Range;

/// The rows that are one lock each, the one that costs most time first.
pub fn by_cost(table: &LockTable) -> Vec<&LockRow> {
    let mut rows: Vec<_> = table
        .rows
        .iter()
        .filter(|row| !row.merged && row.kind != LockKind::Mixed && row.acquisitions() > 0)
        .collect();
    let cost = |row: &LockRow| row.waited_ns() + row.held_ns();
    rows.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    rows
}

/// The lock of this name, else the one of the site that costs most time; without a site, the one that does among all.
pub fn choose<'a>(rows: &[&'a LockRow], site: Option<&str>, path: &Path) -> anyhow::Result<&'a LockRow> {
    let Some(site) = site else {
        let first = rows.first().copied();
        return first.with_context(|| {
            format!("{} holds no lock that was acquired: there is nothing to predict", path.display())
        });
    };
    let wanted = Site::parse(Site::without_number(site).as_bytes());
    let covered = |row: &&&LockRow| wanted.covers(&Site::parse(row.site.as_bytes()));
    let named = rows.iter().find(|row| row.name == site).or_else(|| rows.iter().find(covered));
    named.copied().ok_or_else(|| {
        let held: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
        names::unknown_site(site, path, &held).into()
    })
}

/// What the model needs of a row of the lock table.
///
/// The program is taken to have run on the C library's locks: a sleeping mutex and reader-writer lock, a spin lock
/// whose waiters all try one word. `ran_together` says whether its threads had the cores to do so.
pub fn observed(row: &LockRow, ran_together: bool) -> Observed {
    let mean = |times: &Times| {
        let likely = times.mean_ns()?;
        let ns = times.bound_ns().map_or(Range::exact(likely), |bound| Range {
            low: likely,
            likely: f64::midpoint(likely, bound),
            high: bound,
        });
        Some(Mean { ns, samples: times.count })
    };
    let both = |of: fn(&profile::Usage) -> &Times| of(&row.exclusive).and(of(&row.shared));
    let handover = both(|usage| &usage.handover);
    let holds = row.exclusive.holds().saturating_add(row.shared.holds()).max(1);
    Observed {
        name: row.name.clone(),
        family: if row.kind == LockKind::Object(ObjectKind::Spin) {
            Family::TestAndSet
        } else {
            Family::Blocking
        },
        threads: u32::try_from(row.threads).unwrap_or(u32::MAX),
        acquisitions: row.acquisitions(),
        reads: (row.kind == LockKind::Object(ObjectKind::Rwlock)).then_some(row.shared.acquisitions),
        hold_same: mean(&both(|usage| &usage.hold_same)),
        hold_other: mean(&both(|usage| &usage.hold_other)),
        think: mean(&both(|usage| &usage.think)),
        wait_ns: row.waited_ns() / holds as f64,
        handover_ns: range(&handover),
        ran_together,
    }
}

/// Takes from a profile of the same program on one thread what a lock is like when nobody else is there: its critical
/// section after the same core, and the think time. Under contention the latter holds system calls, context
/// switches and waits for other locks, which come from contention and are not what the program does outside.
pub fn alone(lock: Observed, one_thread: &LockTable, path: &Path) -> anyhow::Result<Observed> {
    let row = one_thread.rows.iter().find(|row| row.name == lock.name && !row.merged);
    let row = row.with_context(|| {
        format!(
            "{} holds no lock named {}: is it of the same program?",
            path.display(),
            text::printable(&lock.name)
        )
    })?;
    let of_one = observed(row, one_thread.header.ran_together);
    anyhow::ensure!(
        of_one.think.is_some(),
        "{} has no timed span between two acquisitions of {}: profile longer, or at a higher sampling rate",
        path.display(),
        text::printable(&lock.name)
    );
    Ok(Observed {
        hold_same: of_one.hold_same.or(lock.hold_same),
        think: of_one.think,
        wait_ns: of_one.wait_ns,
        ..lock
    })
}

/// What two profiles of the same program show without any model.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Shown {
    /// Cores that the program ran or waited on.
    pub cores: u32,
    /// How often a second it took the lock there, relative to one thread.
    pub speedup: f64,
}

/// How often the lock was taken under `table` and by one thread. `None` if the profile is of one core too.
pub fn shown(name: &str, table: &LockTable, one_thread: &LockTable) -> Option<Shown> {
    let rate = |table: &LockTable| {
        let row = table.rows.iter().find(|row| row.name == name)?;
        (table.header.elapsed_ns > 0.0).then(|| row.acquisitions() as f64 / table.header.elapsed_ns)
    };
    let cores = (table.header.concurrency.round() as u32).min(table.header.cores as u32);
    let (many, one) = (rate(table)?, rate(one_thread)?);
    (cores > 1 && one > 0.0).then(|| Shown { cores, speedup: many / one })
}

/// The mean of enough durations, in the range that holds four fifths of them.
fn range(times: &Times) -> Option<Range> {
    const ENOUGH: u64 = 30;
    let likely = times.mean_ns().filter(|&ns| times.count >= ENOUGH && ns > 0.0)?;
    let low = times.quantile_ns(0.1).unwrap_or(likely).clamp(f64::MIN_POSITIVE, likely);
    let high = times.quantile_ns(0.9).unwrap_or(likely).max(likely);
    Some(Range { low, likely, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(count: u64, mean_ns: f64) -> Times {
        Times { count, total_ns: mean_ns * count as f64, ..Times::default() }
    }

    #[test]
    fn hand_overs_become_a_range_when_there_are_enough() {
        assert_eq!(range(&times(10, 500.0)), None);
        assert_eq!(range(&times(100, 500.0)), Some(Range::exact(500.0)));
    }
}
