//! What the model needs of a profile's rows.

use crate::question::Void;
use crate::void;
use anyhow::Context as _;
use model::{Family, Mean, Observed, Parameters};
use profile::read::{RuntimeWaits, WhileHeld};
use profile::{LockKind, LockRow, LockTable, ObjectKind, Options, TableHeader, Times, Usage};
use pthread::site::Site;
use session::names;
use std::path::Path;
use topology::Range;

/// The lock table of a profile that a prediction may begin with; none of one that has waits alone.
///
/// # Errors
///
/// The file is no profile.
pub fn open(path: &Path) -> anyhow::Result<Result<LockTable, Void>> {
    if let Some(runtime) = RuntimeWaits::whose(path) {
        return Ok(Err(void::of_runtime(runtime, path)));
    }
    let table = LockTable::open(path, &Options::default())?;
    Ok(match void::of_waits_alone(&table.header, path) {
        Some(void) => Err(void),
        None => Ok(table),
    })
}

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

/// Locks that the same calls made, as one row: shards of a cache, or the locks of a table's slots.
#[derive(Debug, Clone)]
pub struct Group {
    /// What all of them saw. Its think time is from a release of one of them to the same thread's next acquisition of any.
    pub row: LockRow,
    /// So many locks, each used as much, contend as much as these do.
    pub copies: u32,
}

impl Group {
    /// One lock by itself.
    #[must_use]
    pub fn of_one(row: &LockRow) -> Self {
        Self { row: row.clone(), copies: 1 }
    }

    /// The rows by the calls that made their locks, the group that costs most time first. Where several threads ran at a time,
    /// locks that only one thread has touched are no other thread's, and stay by themselves.
    #[must_use]
    pub fn all(rows: &[&LockRow], header: &TableHeader) -> Vec<Self> {
        Self::of_threads(rows, Self::are_apart(header))
    }

    /// Whether several threads ran at a time, so that a lock that only one has touched is no other's.
    pub(crate) fn are_apart(header: &TableHeader) -> bool {
        /// Threads at a time; one that works beside one that mostly waits is less.
        const SEVERAL: f64 = 1.5;
        header.concurrency > SEVERAL
    }

    fn of_threads(rows: &[&LockRow], several: bool) -> Vec<Self> {
        let private = |row: &LockRow| several && row.threads == 1;
        let mut groups: Vec<Vec<&LockRow>> = Vec::new();
        for &row in rows {
            let alike = |group: &&mut Vec<&LockRow>| {
                let first = group[0];
                (&first.site, first.kind, first.pid) == (&row.site, row.kind, row.pid)
                    && !private(first)
                    && !private(row)
            };
            match groups.iter_mut().find(alike) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        let mut groups: Vec<_> = groups.iter().map(|rows| Self::of(rows)).collect();
        let cost = |group: &Self| group.row.waited_ns() + group.row.held_ns();
        groups.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        groups
    }

    fn of(rows: &[&LockRow]) -> Self {
        let [first, others @ ..] = rows else { unreachable!("a group has rows") };
        if others.is_empty() {
            return Self::of_one(first);
        }
        let mut row = (*first).clone();
        for other in others {
            if let Some(within) = &other.within {
                match &mut row.within {
                    Some(all) if (&all.site, all.shared) == (&within.site, within.shared) => {
                        all.acquisitions += within.acquisitions;
                    }
                    Some(_) => {}
                    none => *none = Some(within.clone()),
                }
            }
            add(&mut row.exclusive, &other.exclusive);
            add(&mut row.shared, &other.shared);
            row.threads = row.threads.max(other.threads);
            row.threads_ns = row.threads_ns.max(other.threads_ns);
        }
        let acquisitions = |row: &LockRow| row.acquisitions() as f64;
        let (sum, squares) = rows.iter().fold((0.0, 0.0), |(sum, squares), row| {
            (sum + acquisitions(row), squares + acquisitions(row).powi(2))
        });
        // Each lock's own rounds last as long as its threads do; in the group's, all of the locks share that time.
        let round_ns = |row: &LockRow| {
            let think = row.exclusive.think.and(&row.shared.think).mean_ns().unwrap_or(0.0);
            think * acquisitions(row) + row.held_ns()
        };
        let threads_ns = rows.iter().map(|row| round_ns(row) * acquisitions(row)).sum::<f64>() / sum.max(1.0);
        let think_ns = ((threads_ns - row.held_ns()) / sum.max(1.0)).max(f64::MIN_POSITIVE);
        for usage in [&mut row.exclusive, &mut row.shared] {
            let count = usage.think.count;
            usage.think = Times { count, total_ns: think_ns * count as f64, ..Times::default() };
        }
        row.critical_section_ns = Some(row.held_ns() / sum.max(1.0));
        Self { copies: (sum * sum / squares.max(1.0)).round().max(1.0) as u32, row }
    }
}

fn add(all: &mut Usage, one: &Usage) {
    let Usage {
        waits_only: _,
        unended: _, // what is counted here was over
        acquisitions,
        nested,
        contended,
        try_failures,
        timeouts,
        owner_changes,
        condition_waits,
        condition_timeouts,
        condition_ns,
        wait,
        hold_same,
        hold_other,
        think,
        handover,
        while_held,
    } = one;
    all.while_held = WhileHeld::both(
        (all.while_held, all.hold().count),
        (*while_held, hold_same.count.saturating_add(hold_other.count)),
    );
    for (sum, count) in [
        (&mut all.acquisitions, acquisitions),
        (&mut all.nested, nested),
        (&mut all.contended, contended),
        (&mut all.try_failures, try_failures),
        (&mut all.timeouts, timeouts),
        (&mut all.owner_changes, owner_changes),
        (&mut all.condition_waits, condition_waits),
        (&mut all.condition_timeouts, condition_timeouts),
    ] {
        *sum = sum.saturating_add(*count);
    }
    all.condition_ns += condition_ns;
    for (sum, times) in [
        (&mut all.wait, wait),
        (&mut all.hold_same, hold_same),
        (&mut all.hold_other, hold_other),
        (&mut all.think, think),
        (&mut all.handover, handover),
    ] {
        *sum = sum.and(times);
    }
}

/// Whether a row has what a prediction needs: a lock that is held long and hardly ever acquired has not.
pub(crate) fn tells(row: &LockRow, ran_together: bool, transfer_ns: Range) -> bool {
    Parameters::observed(&observed(row, ran_together), transfer_ns).is_ok()
}

/// The lock of this name, else the one of the site that costs most time; without a site, the one that does among those of which
/// something can be predicted, as `tells` says.
pub fn choose<'a>(
    rows: &[&'a LockRow],
    site: Option<&str>,
    path: &Path,
    tells: impl Fn(&LockRow) -> bool,
) -> anyhow::Result<&'a LockRow> {
    let Some(site) = site else {
        let telling = rows.iter().find(|row| tells(row)).or(rows.first()).copied();
        return telling.with_context(|| {
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

/// Of a run's time, the part in which its one thread goes round between this lock and its work: without what comes before the first
/// acquisition and after the last. All of it where the profile does not tell.
pub(crate) fn share_in_use(row: &LockRow, header: &TableHeader) -> f64 {
    let usages = [&row.exclusive, &row.shared];
    let elapsed_ns = header.elapsed_ns - header.own_cost.total_ns;
    let Some(think_ns) = usages[0].think.and(&usages[1].think).mean_ns().filter(|_| elapsed_ns > 0.0) else {
        return 1.0;
    };
    // No think time comes before what takes the lock back after a condition wait.
    let calls = (usages[0].calls() + usages[1].calls()) as f64;
    let rounds_ns = think_ns * calls + row.critical_section_ns.unwrap_or(0.0) * row.acquisitions() as f64;
    let conditions_ns = usages.map(|usage| usage.condition_ns).iter().sum::<f64>();
    ((rounds_ns + conditions_ns) / elapsed_ns).clamp(0.0, 1.0)
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
    let both = |of: fn(&Usage) -> &Times| of(&row.exclusive).and(of(&row.shared));
    // A holder that another thread has taken the core from is no longer critical section, and gone on a machine with cores enough.
    let on_core = |mean: Mean| Mean { ns: mean.ns.scaled(1.0 - preempted_share(row)), ..mean };
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
        hold_same: mean(&both(|usage| &usage.hold_same)).map(on_core),
        hold_other: mean(&both(|usage| &usage.hold_other)).map(on_core),
        think: mean(&both(|usage| &usage.think)),
        wait_ns: row.waited_ns() / holds as f64,
        handover_ns: range(&handover),
        ran_together,
    }
}

/// The part of the time that a lock was held in which its holders were preempted, 0 to 1; 0 where nothing tells.
pub(crate) fn preempted_share(row: &LockRow) -> f64 {
    let [exclusive, shared] =
        [&row.exclusive, &row.shared].map(|usage| (usage.while_held, usage.hold().count));
    let while_held = WhileHeld::both(exclusive, shared);
    while_held.and_then(|held| held.share(|held| held.preempted_ns)).unwrap_or(0.0)
}

/// Takes out of the think time what threads waited for a core: think time is time on a core.
pub(crate) fn take_back_queueing(lock: &mut Observed, header: &TableHeader) {
    let queued_ns = header.queued_ns.unwrap_or(0.0);
    let ready_ns = header.cpu_ns + queued_ns;
    if let Some(think) = lock.think.as_mut().filter(|_| ready_ns > 0.0) {
        think.ns = think.ns.scaled(header.cpu_ns.max(0.1 * ready_ns) / ready_ns);
    }
}

/// Takes out of hold and think time what recording added, where a run took `stretch` times as long as without.
pub(crate) fn take_back_recording(lock: &mut Observed, stretch: f64) {
    /// Half of what recording does is done with the lock held; of a critical section this part is left at the least.
    const LEFT: f64 = 0.3;
    let mean = |of: &Option<Mean>| of.map_or(0.0, |mean| mean.ns.likely);
    let operation_ns = mean(&lock.hold_same) + mean(&lock.think);
    if stretch <= 1.0 || operation_ns <= 0.0 {
        return;
    }
    let added_ns = operation_ns * (1.0 - 1.0 / stretch);
    let shorten = |of: &mut Option<Mean>, by_ns: f64| {
        let Some(mean) = of else { return 0.0 };
        let taken_ns = by_ns.min((1.0 - LEFT) * mean.ns.likely);
        mean.ns = mean.ns.scaled(1.0 - taken_ns / mean.ns.likely.max(f64::MIN_POSITIVE));
        taken_ns
    };
    let held_ns = shorten(&mut lock.hold_same, 0.5 * added_ns);
    shorten(&mut lock.hold_other, held_ns);
    shorten(&mut lock.think, added_ns - held_ns);
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

    fn row(site: &str, threads: u64, acquisitions: u64, think_ns: f64) -> LockRow {
        let exclusive = Usage {
            acquisitions,
            hold_same: times(acquisitions, 100.0),
            think: times(acquisitions, think_ns),
            ..Usage::default()
        };
        LockRow {
            pid: 1,
            threads,
            exclusive,
            acquisitions_per_operation: Some(0.0),
            critical_section_ns: Some(100.0),
            share: Some(0.0),
            ..LockRow::new(site, LockKind::Object(ObjectKind::Mutex))
        }
    }

    #[test]
    fn a_lock_that_tells_nothing_is_predicted_only_if_it_is_asked_for() {
        let (seldom, often) = (row("seldom", 1, 3, 1e6), row("often", 1, 10_000, 1_000.0));
        let chosen = |rows: &[&LockRow], site: Option<&str>| {
            choose(rows, site, Path::new("p"), |row| tells(row, true, Range::exact(50.0)))
                .unwrap()
                .name
                .clone()
        };
        let rows = [&seldom, &often];
        assert_eq!(chosen(&rows, None), "often");
        assert_eq!(chosen(&rows, Some("seldom")), "seldom");
        assert_eq!(chosen(&rows[..1], None), "seldom", "its prediction says why there is none");
    }

    #[test]
    fn locks_of_one_site_are_a_group_whose_think_time_is_between_any_of_them() {
        // A thread goes round four shards, with 500 ns of work after each section of 100 ns.
        let shards: Vec<_> = (0..4).map(|_| row("shard", 2, 50, 4.0 * 600.0 - 100.0)).collect();
        let other = row("other", 2, 10, 5_000.0);
        let groups = Group::of_threads(&shards.iter().chain([&other]).collect::<Vec<_>>(), true);
        let [shard, other] = &groups[..] else { panic!("{} groups", groups.len()) };
        assert_eq!((shard.copies, shard.row.acquisitions(), other.copies), (4, 200, 1));
        let think = shard.row.exclusive.think.mean_ns().unwrap();
        assert!((think - 500.0).abs() < 1e-6, "{think} ns");
        assert_eq!(shard.row.exclusive.hold_same.mean_ns(), Some(100.0));

        // One that is used nine times as often as each of the three others contends like fewer than four.
        let skewed: Vec<_> = [90, 10, 10, 10].map(|count| row("shard", 2, count, 900.0)).into();
        assert_eq!(Group::of_threads(&skewed.iter().collect::<Vec<_>>(), true)[0].copies, 2);

        // Where several threads run, a lock of one thread is no other thread's.
        let own = [row("own", 1, 50, 900.0), row("own", 1, 50, 900.0), row("all", 2, 50, 900.0)];
        let copies = |several| {
            let groups = Group::of_threads(&own.iter().collect::<Vec<_>>(), several);
            groups.iter().map(|group| group.copies).max()
        };
        assert_eq!((copies(true), copies(false)), (Some(1), Some(2)));
    }

    #[test]
    fn think_time_is_time_on_a_core() {
        let think_ns = |queued_ns| {
            let mut lock = observed(&row("a", 1, 1_000, 37_000.0), true);
            let header = TableHeader { cpu_ns: 7e6, queued_ns, ..TableHeader::default() };
            take_back_queueing(&mut lock, &header);
            lock.think.unwrap().ns.likely
        };
        // Its threads were ready for 37 ms, and had a core for 7 of them.
        assert!((think_ns(Some(30e6)) - 7_000.0).abs() < 1e-6);
        assert_eq!(think_ns(None), 37_000.0);
    }

    #[test]
    fn hand_overs_become_a_range_when_there_are_enough() {
        assert_eq!(range(&times(10, 500.0)), None);
        assert_eq!(range(&times(100, 500.0)), Some(Range::exact(500.0)));
    }
}
