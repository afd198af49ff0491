//! Several profiles as one table: of a fleet, of runs one after another, or of the processes of one server.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use super::blocked::{Blocked, Observed};
use super::gil::Gil;
use super::rows::relate;
use super::striped::{Striped, holders};
use super::table::{Attached, LockId, LockKind, LockRow, LockTable, SiteUse, TableHeader, Untouched, Usage};
use super::warnings::judge_concurrency;
use crate::record::MERGED;

/// Profiles whose own notes are repeated.
const NOTED: usize = 3;

/// What makes rows of several processes, or profiles, one lock.
type Same<'r> = (&'r str, &'r str, Cow<'r, str>, LockKind, bool);

fn same(row: &LockRow) -> Same<'_> {
    (&row.program, &row.file, Cow::Borrowed(&row.name), row.kind, row.merged)
}

/// The sites by which locks are named in some profile, where several have a name: by program and file. A profile that has one of
/// them alone says the shorter name.
struct NamedBySite<'r>(HashSet<(&'r str, &'r str, &'r str)>);

impl<'r> NamedBySite<'r> {
    fn among(rows: impl Iterator<Item = &'r LockRow>) -> Self {
        let by_site = rows.filter(|row| !row.site.is_empty() && row.name.starts_with(&*row.site));
        Self(by_site.map(|row| (&*row.program, &*row.file, &*row.site)).collect())
    }

    /// What makes rows one lock, whichever of its names each has.
    fn same(&self, row: &'r LockRow) -> Same<'r> {
        let mut same = same(row);
        let is_by_site = row.name.starts_with(&*row.site);
        if !is_by_site && self.0.contains(&(&row.program, &row.file, &row.site)) {
            let number = row.name.rfind('#').map_or("", |at| &row.name[at..]);
            same.2 = format!("{}{number}", row.site).into();
        }
        same
    }
}

impl LockTable {
    /// Adds profiles up, each under its name: a lock is the same where the program, the name and the kind are the same, in whichever
    /// process. Rates are for all the time that was recorded, one profile after another. `None` of no profile.
    ///
    /// The kernel's locks are not added up: they are the machine's, whose programs may be in several of the profiles.
    #[must_use]
    pub fn together(tables: &[(String, Self)]) -> Option<Self> {
        let (_, first) = tables.first()?;
        let mut header = headers(tables);
        let intervals = intervals(tables);
        let named = NamedBySite::among(tables.iter().flat_map(|(_, table)| &table.rows));
        let mut rows_of: BTreeMap<Same<'_>, Vec<Part<'_>>> = BTreeMap::new();
        for (interval, (_, table)) in intervals.iter().zip(tables) {
            for row in &table.rows {
                rows_of.entry(named.same(row)).or_default().push(Part { interval, row });
            }
        }
        let several = header.processes > 1;
        let mut rows: Vec<LockRow> = Vec::with_capacity(rows_of.len());
        let mut ids: HashMap<Same<'_>, LockId> = HashMap::with_capacity(rows_of.len());
        for (number, (same, of)) in (1..MERGED).zip(rows_of) {
            let number = if same.4 { MERGED } else { number };
            let id = LockId { section: rows.len() as u64 + 1, number };
            rows.push(LockRow { name: same.2.clone().into_owned(), ..sum(&of, &intervals, id, several) });
            ids.insert(same, id);
        }
        let mut striped = stripes(tables, &intervals, &named, &ids, several);
        for row in rows.iter_mut().chain(striped.iter_mut().map(|striped| &mut striped.row)) {
            let is_known = row.share.is_some();
            relate(row, &header, is_known);
        }
        rows.sort_by(LockRow::cmp_cost);
        judge_concurrency(&mut header, &rows);
        header.gil = Gil::among(&rows, header.threads_ns());
        header.warnings = notes(tables, &header);
        let program = first.program.clone();
        Some(Self { header, rows, striped, kernel: None, program })
    }
}

/// A recording: profiles of the same one are of intervals of it, in which the same processes and threads ran. One that has no number
/// is like no other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Recording {
    Known(u64),
    Alone(usize),
}

fn recordings(tables: &[(String, LockTable)]) -> impl Iterator<Item = Recording> {
    tables.iter().enumerate().map(|(i, (_, table))| match table.header.recording {
        0 => Recording::Alone(i),
        known => Recording::Known(known),
    })
}

/// The time that a profile tells of.
struct Interval {
    of: Recording,
    elapsed_ns: f64,
    /// What comes next of the recording is among the profiles, too: a wait that is not over at the end goes on there.
    goes_on: bool,
    /// By process, its images with which something was done.
    images: HashMap<u64, BTreeSet<u64>>,
}

impl Interval {
    /// Whether a process image was there, even if nothing was done with its locks.
    fn has(&self, image: (u64, u64)) -> bool {
        self.images.get(&image.0).is_some_and(|images| images.is_empty() || images.contains(&image.1))
    }
}

/// Part of an interval by which the clocks may differ.
const CLOCKS: f64 = 0.02;

/// The times of the profiles, in their order.
fn intervals(tables: &[(String, LockTable)]) -> Vec<Interval> {
    let mut starts: BTreeMap<Recording, Vec<u64>> = BTreeMap::new();
    for (of, (_, table)) in recordings(tables).zip(tables) {
        starts.entry(of).or_default().push(table.header.started_realtime_ns);
    }
    let interval = |(of, (_, table)): (Recording, &(String, LockTable))| {
        let header = &table.header;
        let follows = |start: &u64| {
            let length_ns = start.saturating_sub(header.started_realtime_ns) as f64;
            header.elapsed_ns > 0.0 && (length_ns / header.elapsed_ns - 1.0).abs() <= CLOCKS
        };
        let mut images: HashMap<u64, BTreeSet<u64>> =
            header.observed.keys().map(|&pid| (pid, BTreeSet::new())).collect();
        for row in &table.rows {
            let of_process = images.entry(row.pid).or_default();
            // Those that are watched from outside have a section beside their recorder's.
            of_process.extend((!row.exclusive.waits_only).then_some(row.id.section));
        }
        Interval { of, elapsed_ns: header.elapsed_ns, goes_on: starts[&of].iter().any(follows), images }
    };
    recordings(tables).zip(tables).map(interval).collect()
}

/// A lock's row of a profile.
#[derive(Clone, Copy)]
struct Part<'t> {
    interval: &'t Interval,
    row: &'t LockRow,
}

impl Part<'_> {
    /// The process image in its recording.
    fn image(&self) -> (Recording, u64) {
        (self.interval.of, self.row.id.section)
    }

    /// What was done with the lock, without the waits that another part has: those go on there.
    fn usage(&self, of: fn(&LockRow) -> &Usage) -> Usage {
        let mut usage = of(self.row).on_grid();
        if self.interval.goes_on {
            usage.unended.waits = 0;
        }
        usage
    }
}

/// Time of a lock's threads in intervals of their recordings in which nothing was done with it, ns: as many of them as in the others.
fn unused_ns(parts: &[Part<'_>], intervals: &[Interval]) -> f64 {
    let mut used: HashMap<(Recording, u64), (u64, f64, f64)> = HashMap::new();
    for part in parts {
        let row = part.row;
        let (pid, threads_ns, used_ns) = used.entry(part.image()).or_default();
        *pid = row.pid;
        *threads_ns += row.threads_ns + row.waited_ns() + row.all_condition_ns();
        *used_ns += part.interval.elapsed_ns;
    }
    let unused = |((of, section), (pid, threads_ns, used_ns)): ((Recording, u64), (u64, f64, f64))| {
        let there = intervals.iter().filter(|interval| interval.of == of && interval.has((pid, section)));
        let unused_ns = there.map(|interval| interval.elapsed_ns).sum::<f64>() - used_ns;
        if used_ns > 0.0 { unused_ns.max(0.0) * threads_ns / used_ns } else { 0.0 }
    };
    used.into_iter().map(unused).sum()
}

/// Adds up what recordings have, of which profiles of the same one tell in turn.
fn sum_of_recordings<K: Eq + Hash>(of: impl Iterator<Item = (K, u64)>) -> u64 {
    let mut most: HashMap<K, u64> = HashMap::new();
    for (of, count) in of {
        let most = most.entry(of).or_default();
        *most = count.max(*most);
    }
    most.into_values().fold(0, u64::saturating_add)
}

/// One lock's rows in several processes, none of which it is named by.
fn sum(parts: &[Part<'_>], intervals: &[Interval], id: LockId, several: bool) -> LockRow {
    let rows = || parts.iter().map(|part| part.row);
    let worst = rows().min_by(|a, b| a.cmp_cost(b)).expect("a lock has a row");
    let usage = |of: fn(&LockRow) -> &Usage| {
        let all: Vec<_> = parts.iter().map(|part| part.usage(of)).collect();
        Usage::sum(all.iter())
    };
    // A process is one section of a recording.
    let count =
        |of: fn(&LockRow) -> u64| sum_of_recordings(parts.iter().map(|part| (part.image(), of(part.row))));
    LockRow {
        id,
        pid: if several { 0 } else { worst.pid },
        by_hooks: rows().any(|row| row.by_hooks), // older profiles do not say so
        generations: count(|row| row.generations),
        threads: count(|row| row.threads),
        threads_ns: rows().map(|row| row.threads_ns).sum::<f64>() + unused_ns(parts, intervals),
        exclusive: usage(|row| &row.exclusive),
        shared: usage(|row| &row.shared),
        share: rows().find_map(|row| row.share), // until it is known of all of them
        holders: holders(rows()),
        at_end: worst.at_end.clone().filter(|_| parts.len() == 1),
        call_sites: SiteUse::sum(rows().flat_map(|row| &row.call_sites)),
        ..LockRow::clone(worst)
    }
}

/// Striped locks of one name are the same stripe.
fn stripes<'r>(
    tables: &'r [(String, LockTable)],
    intervals: &'r [Interval],
    named: &NamedBySite<'r>,
    ids: &HashMap<Same<'r>, LockId>,
    several: bool,
) -> Vec<Striped> {
    let mut stripes: BTreeMap<Same<'_>, (Vec<Part<'_>>, Vec<LockId>)> = BTreeMap::new();
    for (interval, (_, table)) in intervals.iter().zip(tables) {
        let by_id: HashMap<LockId, &LockRow> = table.rows.iter().map(|row| (row.id, row)).collect();
        for stripe in &table.striped {
            let (rows, members) = stripes.entry(same(&stripe.row)).or_default();
            rows.push(Part { interval, row: &stripe.row });
            let known = stripe.members.iter().filter_map(|member| by_id.get(member));
            members.extend(known.filter_map(|row| ids.get(&named.same(row)).copied()));
        }
    }
    let fold = |(rows, mut members): (Vec<Part<'_>>, Vec<LockId>)| {
        members.sort_unstable();
        members.dedup();
        let locks = members.len() as u64;
        Striped { row: sum(&rows, intervals, rows[0].row.id, several), members, locks }
    };
    stripes.into_values().map(fold).collect()
}

/// One pair in how many has times, of those of all profiles together.
fn sample_period(tables: &[(String, LockTable)]) -> u64 {
    let periods = || tables.iter().map(|(_, table)| table.header.sample_period.max(1));
    let (mut pairs, mut timed) = (0.0, 0.0);
    for ((_, table), period) in tables.iter().zip(periods()) {
        let acquisitions = table.rows.iter().map(|row| row.acquisitions() as f64).sum::<f64>();
        pairs += acquisitions;
        timed += acquisitions / period as f64;
    }
    let (least, most) = (periods().min().unwrap_or(1), periods().max().unwrap_or(1));
    let mean = if timed > 0.0 { (pairs / timed).round() as u64 } else { most };
    // One in one would be every pair.
    mean.clamp(if least < most { least.max(2) } else { least }, most)
}

/// What threads were blocked in; `None` if that is not known of all profiles. What intervals of a recording say of a process is added up
/// before it is judged.
fn blocked(tables: &[(String, LockTable)]) -> Option<Blocked> {
    let mut by_process: BTreeMap<(Recording, u64), Observed> = BTreeMap::new();
    let mut asleep_in_kernel_locks_ns = 0.0;
    for (of, (_, table)) in recordings(tables).zip(tables) {
        asleep_in_kernel_locks_ns += table.header.blocked?.kernel_locks_ns;
        for (&pid, observed) in &table.header.observed {
            by_process.entry((of, pid)).or_default().add(observed);
        }
    }
    let mut sum = Observed::of_processes(by_process.values());
    sum.asleep_in_kernel_locks(asleep_in_kernel_locks_ns);
    Some(sum)
}

/// What the profiles say of the runs as a whole.
fn headers(tables: &[(String, LockTable)]) -> TableHeader {
    let headers = || tables.iter().map(|(_, table)| &table.header);
    let count =
        |of: fn(&TableHeader) -> u64| headers().fold(0, |sum: u64, header| sum.saturating_add(of(header)));
    let count_each =
        |of: fn(&TableHeader) -> u64| sum_of_recordings(recordings(tables).zip(headers().map(of)));
    let time = |of: fn(&TableHeader) -> f64| headers().map(of).sum::<f64>();
    // Known of all, or not known.
    let known = |of: fn(&TableHeader) -> Option<f64>| headers().map(of).sum::<Option<f64>>();
    let (elapsed_ns, cpu_ns) = (time(|header| header.elapsed_ns), time(|header| header.cpu_ns));
    let operations = headers().map(|header| header.operations).sum::<Option<u64>>();
    let blocked = blocked(tables);
    let mut own_cost =
        headers().map(|header| header.own_cost).max_by(|a, b| a.total_ns.total_cmp(&b.total_ns));
    if let Some(cost) = &mut own_cost {
        cost.total_ns = time(|header| header.own_cost.total_ns);
    }
    let own_cost = own_cost.unwrap_or_default();
    let net_ns = (cpu_ns - own_cost.total_ns).max(0.0);
    let each = operations.filter(|&operations| operations > 0).map_or(elapsed_ns / 1e9, |n| n as f64);
    // Threads weigh by their time on cores.
    let weighed = |share: fn(&TableHeader) -> Option<f64>| {
        let part_ns = headers().map(|header| Some(share(header)? * header.cpu_ns)).sum::<Option<f64>>();
        part_ns.filter(|_| cpu_ns > 0.0).map(|part_ns| part_ns / cpu_ns)
    };
    let attached = |of: fn(&TableHeader) -> Option<Attached>| {
        headers().filter_map(of).reduce(|sum, more| Attached {
            lost_events: sum.lost_events.saturating_add(more.lost_events),
            without_callers: sum.without_callers.saturating_add(more.without_callers),
        })
    };
    TableHeader {
        schema: headers().map(|header| header.schema).max().unwrap_or_default(),
        command: headers().next().map(|header| header.command.clone()).unwrap_or_default(),
        profiles: count(|header| header.profiles.max(1)),
        recording: 0,
        processes: count_each(|header| header.processes),
        threads: count_each(|header| header.threads),
        cores: headers().map(|header| header.cores).max().unwrap_or_default(),
        finished: headers().all(|header| header.finished),
        started_realtime_ns: headers().map(|header| header.started_realtime_ns).min().unwrap_or_default(),
        elapsed_ns,
        cpu_ns,
        cores_used: if elapsed_ns > 0.0 { cpu_ns / elapsed_ns } else { 0.0 },
        concurrency: 0.0,
        ran_together: true,
        stolen_ns: time(|header| header.stolen_ns),
        coverage: blocked.map(|blocked| blocked.coverage()),
        blocked,
        unseen: blocked.unwrap_or_default().unseen(),
        observed: BTreeMap::new(),
        queued_ns: known(|header| header.queued_ns),
        events_share: weighed(|header| header.events_share),
        sleep_share: weighed(|header| header.sleep_share),
        operations,
        operation_ns: if each > 0.0 { net_ns / each } else { 0.0 },
        sample_period: sample_period(tables),
        own_cost,
        dropped: count(|header| header.dropped),
        merged_pairs: count(|header| header.merged_pairs),
        merged_locks: count_each(|header| header.merged_locks),
        untouched: Untouched {
            process_shared: count_each(|header| header.untouched.process_shared),
            robust: count_each(|header| header.untouched.robust),
            priority_inheriting: count_each(|header| header.untouched.priority_inheriting),
            priority_protected: count_each(|header| header.untouched.priority_protected),
            condition: count_each(|header| header.untouched.condition),
            other: count_each(|header| header.untouched.other),
        },
        attached: attached(|header| header.attached),
        beside: attached(|header| header.beside),
        gil: None,
        warnings: Vec::new(),
    }
}

/// What to know of the sum, and of its parts.
fn notes(tables: &[(String, LockTable)], sum: &TableHeader) -> Vec<String> {
    let mut notes = Vec::new();
    let headers = || tables.iter().map(|(_, table)| &table.header);
    if headers().any(|header| header.command != sum.command) {
        let commands = headers().map(|header| &header.command).collect::<BTreeSet<_>>().len();
        notes.push(format!("these are profiles of {commands} command lines, of which the first is shown"));
    }
    let period = || headers().map(|header| header.sample_period.max(1));
    if let (Some(least), Some(most)) = (period().min(), period().max())
        && least < most
    {
        notes.push(format!(
            "some profiles were sampled more often than others, from one pair in {least} to one in {most}, and count for more in mean times"
        ));
    }
    if tables.iter().any(|(_, table)| table.kernel.is_some()) {
        notes.push("the kernel's locks are not added up: `contend report` shows those of one profile".into());
    }
    notes.extend(told_twice(tables));
    let noted: Vec<_> = tables.iter().filter(|(_, table)| !table.header.warnings.is_empty()).collect();
    for (name, table) in noted.iter().take(NOTED) {
        notes.extend(table.header.warnings.iter().map(|warning| format!("{name}: {warning}")));
    }
    if noted.len() > NOTED {
        notes.push(format!(
            "{} more of the {} profiles have notes: `contend report` shows them, of one at a time",
            noted.len() - NOTED,
            tables.len()
        ));
    }
    notes
}

/// Profiles of one recording that tell of the same time, if there are any.
fn told_twice(tables: &[(String, LockTable)]) -> Option<String> {
    let mut known: Vec<_> =
        recordings(tables).zip(tables).filter(|(of, _)| matches!(of, Recording::Known(_))).collect();
    known.sort_by_key(|(of, (_, table))| (*of, table.header.started_realtime_ns));
    known.windows(2).find_map(|pair| {
        let [(first_of, (first_name, first)), (next_of, (next_name, next))] = pair else { return None };
        let between_ns = next.header.started_realtime_ns
            - first.header.started_realtime_ns.min(next.header.started_realtime_ns);
        let is_over = between_ns as f64 >= first.header.elapsed_ns * (1.0 - CLOCKS);
        (first_of == next_of && !is_over).then(|| {
            format!("{first_name} and {next_name} tell of the same time: what happened then is counted twice")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::striped::tests::row as any_row;
    use super::super::times::{Bucket, Times};
    use super::*;

    /// A table of one lock, taken and waited for so often, in runs of a second.
    fn table(name: &str, acquisitions: u64, waited_ns: f64) -> LockTable {
        let buckets = vec![Bucket { from_ns: waited_ns, to_ns: waited_ns, count: 1 }];
        let wait = Times { count: 1, total_ns: waited_ns, buckets, ..Times::default() };
        let row = LockRow {
            id: LockId { section: 7, number: 3 },
            name: name.into(),
            program: "server".into(),
            threads: 2,
            threads_ns: 1e9,
            share: Some(0.0),
            exclusive: Usage { acquisitions, contended: 1, wait, ..Usage::default() },
            ..any_row()
        };
        let header = TableHeader {
            command: vec!["server".into()],
            processes: 1,
            threads: 2,
            elapsed_ns: 1e9,
            cpu_ns: 1.5e9,
            operations: Some(10),
            sample_period: 1,
            warnings: vec!["it was short".into()],
            ..TableHeader::default()
        };
        LockTable { header, rows: vec![row], striped: Vec::new(), kernel: None, program: None }
    }

    fn named(tables: impl IntoIterator<Item = LockTable>) -> Vec<(String, LockTable)> {
        tables.into_iter().enumerate().map(|(i, table)| (format!("{i}.contend"), table)).collect()
    }

    #[test]
    fn a_lock_is_the_same_where_its_name_is() {
        let tables = named([table("TABLE", 100, 50.0), table("LOG", 5, 10.0), table("TABLE", 300, 70.0)]);
        let sum = LockTable::together(&tables).expect("three profiles");
        let rows: Vec<_> =
            sum.rows.iter().map(|row| (&*row.name, row.acquisitions(), row.waited_ns())).collect();
        assert_eq!(rows, [("TABLE", 400, 120.0), ("LOG", 5, 10.0)]);
        let row = &sum.rows[0];
        assert_eq!((row.pid, row.threads, row.threads_ns), (0, 4, 2e9));
        assert_eq!(row.exclusive.wait.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 2);
        assert!(row.id != sum.rows[1].id);
        let header = &sum.header;
        assert_eq!((header.profiles, header.processes, header.threads), (3, 3, 6));
        assert_eq!(header.operations, Some(30));
        assert_eq!((header.elapsed_ns, header.cores_used), (3e9, 1.5));
        assert_eq!(row.acquisitions_per_operation, Some(400.0 / 30.0));
    }

    /// A recorder of before does not tell.
    #[test]
    fn a_lock_is_the_programs_own_if_one_of_its_profiles_says_so() {
        let [older, mut newer] = [table("TABLE", 300, 70.0), table("TABLE", 100, 50.0)];
        newer.rows[0].by_hooks = true;
        let sum = LockTable::together(&named([older, newer, table("LOG", 5, 10.0)])).expect("three profiles");
        let rows: Vec<_> = sum.rows.iter().map(|row| (&*row.name, row.by_hooks)).collect();
        assert_eq!(rows, [("TABLE", true), ("LOG", false)]);
    }

    /// An interval in which one of two locks of a name was used says the name, the others say the site.
    #[test]
    fn a_lock_is_the_same_by_its_name_and_by_its_site() {
        let of = |name: &str| {
            let mut table = table(name, 100, 50.0);
            table.rows[0].site = "make@0a".into();
            table
        };
        let tables = named([of("make@0a"), of("make"), of("make@0a#2"), of("make#2")]);
        let sum = LockTable::together(&tables).expect("four profiles");
        let rows: Vec<_> = sum.rows.iter().map(|row| (&*row.name, row.acquisitions())).collect();
        assert_eq!(rows, [("make@0a", 200), ("make@0a#2", 200)]);
    }

    /// Which shard is the worst, whose number the stripe's row has, is another one in each interval.
    #[test]
    fn threads_of_a_stripe_are_counted_once_a_process() {
        let interval = |worst: u32| {
            let mut table = table("shards[0]", 10, 5.0);
            table.header.recording = 77;
            let id = LockId { section: 7, number: worst };
            let row = LockRow { id, name: "shards[*]".into(), ..table.rows[0].clone() };
            table.striped.push(Striped { row, members: vec![table.rows[0].id], locks: 1 });
            table
        };
        let sum = LockTable::together(&named([interval(3), interval(4)])).expect("two intervals");
        assert_eq!(sum.striped[0].row.threads, 2);
    }

    /// Looks see the threads of one interval on futexes too often, and those of the next too rarely.
    #[test]
    fn looks_and_recorded_waits_of_intervals_are_added_up_before_they_are_compared() {
        let interval = |futex_ns, recording| {
            let mut table = table("TABLE", 1, 50.0);
            let process = Observed::of_waits(50.0, 100.0, futex_ns);
            table.header.recording = recording;
            table.header.blocked = Some(Observed::of_processes([&process]));
            table.header.observed.insert(1, process);
            table
        };
        let missed_ns = |tables: [LockTable; 2]| {
            let blocked = LockTable::together(&named(tables)).and_then(|sum| sum.header.blocked);
            blocked.expect("known of both").futex_ns
        };
        assert_eq!(missed_ns([interval(60, 77), interval(40, 77)]), 0.0);
        assert_eq!(missed_ns([interval(60, 77), interval(40, 78)]), 10.0, "of two processes");
        assert_eq!(missed_ns([interval(60, 77), interval(60, 77)]), 20.0);
    }

    /// An interval of a second that begins at this one, of the same recording as the others.
    fn interval(start_s: u64, row: Option<LockRow>) -> LockTable {
        let mut table = table("TABLE", 100, 50.0);
        (table.header.recording, table.header.started_realtime_ns) = (77, start_s * 1_000_000_000);
        table.header.observed.insert(1, Observed::default());
        table.rows = row.into_iter().collect();
        table
    }

    fn held(acquisitions: u64, held_ns: f64, threads_ns: f64) -> LockRow {
        let hold = Times { count: 1, total_ns: held_ns / acquisitions as f64, ..Times::default() };
        let exclusive = Usage { acquisitions, hold_same: hold, ..Usage::default() };
        LockRow { threads_ns, exclusive, ..table("TABLE", 1, 0.0).rows[0].clone() }
    }

    #[test]
    fn intervals_without_a_use_of_the_lock_are_time_of_its_threads_too() {
        let used = || interval(0, Some(held(10, 5e8, 1e9)));
        let unused = |start_s| interval(start_s, None);
        let share = |tables: Vec<LockTable>| {
            LockTable::together(&named(tables)).expect("intervals").rows[0].share.expect("holds were timed")
        };
        assert_eq!(share(vec![used()]), 0.5);
        assert_eq!(share(vec![used(), unused(1), unused(2), unused(3)]), 0.125);
        let mut of_others = unused(1);
        of_others.header.observed.clear();
        assert_eq!(share(vec![used(), of_others]), 0.5, "the process had ended");
        let mut of_next_image = interval(1, Some(held(10, 5e8, 1e9)));
        (of_next_image.rows[0].id.section, of_next_image.rows[0].name) = (8, "OTHER".into());
        assert_eq!(share(vec![used(), of_next_image]), 0.5, "the process had executed another program");
    }

    /// Few holds were timed in one interval, and those lasted long.
    #[test]
    fn a_lock_is_never_held_for_more_than_all_the_time() {
        let tables = [interval(0, Some(held(1, 9e8, 1e9))), interval(1, Some(held(1_000, 1e6, 1e9)))];
        let sum = LockTable::together(&named(tables)).expect("intervals");
        let row = &sum.rows[0];
        assert!(row.held_ns() > 2e9, "an estimate: {}", row.held_ns());
        assert_eq!(row.share, Some(1.0));
    }

    #[test]
    fn a_share_that_no_profile_knows_is_unknown_of_all() {
        let share = |shares: [Option<f64>; 2]| {
            let row = |share| LockRow { share, ..held(10, 5e8, 1e9) };
            let tables = [interval(0, Some(row(shares[0]))), interval(1, Some(row(shares[1])))];
            LockTable::together(&named(tables)).expect("intervals").rows[0].share
        };
        assert_eq!((share([None, None]), share([None, Some(0.5)])), (None, Some(0.5)));
    }

    #[test]
    fn a_wait_across_the_end_of_an_interval_is_one_wait() {
        let waiting = |start_s, acquisitions, unended: u64| {
            let mut row = table("TABLE", acquisitions, 50.0).rows[0].clone();
            row.exclusive.contended = acquisitions;
            row.exclusive.unended.waits = unended;
            row.exclusive.unended.waited_ns = 30.0 * unended as f64;
            interval(start_s, Some(row))
        };
        let sum = |tables: Vec<LockTable>| {
            let usage = LockTable::together(&named(tables)).expect("intervals").rows[0].exclusive.clone();
            (usage.contended, usage.unended.waits, usage.waited_ns())
        };
        assert_eq!(sum(vec![waiting(0, 1, 1), waiting(1, 1, 0)]), (2, 0, 130.0));
        assert_eq!(
            sum(vec![waiting(1, 1, 1), waiting(0, 1, 1)]),
            (2, 1, 160.0),
            "the last one's is not over"
        );
        assert_eq!(
            sum(vec![waiting(0, 1, 1), waiting(9, 1, 0)]),
            (2, 1, 130.0),
            "what came next is not known"
        );
    }

    #[test]
    fn the_sampling_rate_is_that_of_all_pairs() {
        let period = |tables: &[(u64, u64)]| {
            let sampled = |&(acquisitions, period): &(u64, u64)| {
                let mut table = table("TABLE", acquisitions, 50.0);
                table.header.sample_period = period;
                table
            };
            let sum = LockTable::together(&named(tables.iter().map(sampled))).expect("profiles");
            sum.header.sample_period
        };
        assert_eq!(period(&[(1_000, 4), (1_000, 4)]), 4);
        assert_eq!(period(&[(1_000, 10), (9_000, 30)]), 25);
        assert_eq!(period(&[(1_000_000, 1), (10, 1_000)]), 2, "not every pair");
        assert_eq!(period(&[(0, 1), (0, 8)]), 8);
    }

    #[test]
    fn operations_that_one_profile_did_not_count_are_not_known_of_all() {
        let mut uncounted = table("TABLE", 100, 50.0);
        uncounted.header.operations = None;
        let sum = LockTable::together(&named([table("TABLE", 100, 50.0), uncounted])).expect("two profiles");
        assert_eq!((sum.header.operations, sum.rows[0].acquisitions_per_operation), (None, Some(100.0)));
    }

    #[test]
    fn locks_of_an_array_are_one_stripe_in_all_profiles() {
        let shards = |acquisitions| {
            let mut table = table("shards[0]", acquisitions, 5.0);
            let mut second = table.rows[0].clone();
            (second.name, second.id.number) = ("shards[1]".into(), 4);
            let stripe = LockRow { name: "shards[*]".into(), ..table.rows[0].clone() };
            let members = vec![table.rows[0].id, second.id];
            table.rows.push(second);
            table.striped.push(Striped { row: stripe, members, locks: 2 });
            table
        };
        let sum = LockTable::together(&named([shards(10), shards(20)])).expect("two profiles");
        assert_eq!(sum.folded().len(), 1);
        let stripe = &sum.striped[0];
        assert_eq!((&*stripe.row.name, stripe.locks, stripe.row.acquisitions()), ("shards[*]", 2, 30));
        let ids: BTreeSet<_> = sum.rows.iter().map(|row| row.id).collect();
        assert_eq!(ids, stripe.members.iter().copied().collect());
    }

    #[test]
    fn intervals_of_a_recording_are_of_the_same_threads() {
        let interval = |start_s: u64| {
            let mut table = table("TABLE", 100, 50.0);
            table.header.recording = 77;
            table.header.started_realtime_ns = start_s * 1_000_000_000;
            (table.header.merged_locks, table.header.untouched.robust) = (3, 2);
            table
        };
        let other = table("TABLE", 100, 50.0);
        let sum = LockTable::together(&named([interval(1), interval(0), other.clone()])).expect("profiles");
        let (header, row) = (&sum.header, &sum.rows[0]);
        assert_eq!((header.profiles, header.processes, header.threads), (3, 2, 4));
        assert_eq!((header.merged_locks, header.untouched.robust), (3, 2));
        assert_eq!((row.threads, row.threads_ns, row.acquisitions()), (4, 3e9, 300));
        let notes = |tables: Vec<LockTable>| {
            let sum = LockTable::together(&named(tables)).expect("profiles");
            sum.header
                .warnings
                .iter()
                .filter(|note| note.contains("counted twice"))
                .cloned()
                .collect::<Vec<_>>()
        };
        assert!(notes(vec![interval(1), interval(0), other.clone(), other]).is_empty());
        let twice = "1.contend and 0.contend tell of the same time: what happened then is counted twice";
        assert_eq!(
            notes(vec![interval(0), interval(0)]),
            [twice.replace("1.", "x.").replace("0.", "1.").replace("x.", "0.")]
        );
    }

    #[test]
    fn notes_are_those_of_few_profiles() {
        let mut tables = named((0..5).map(|_| table("TABLE", 1, 1.0)));
        tables[2].1.header.command = vec!["client".into()];
        tables[4].1.header.sample_period = 16;
        let notes = LockTable::together(&tables).expect("profiles").header.warnings;
        assert_eq!(
            notes,
            [
                "these are profiles of 2 command lines, of which the first is shown",
                "some profiles were sampled more often than others, from one pair in 1 to one in 16, and count for more in mean times",
                "0.contend: it was short",
                "1.contend: it was short",
                "2.contend: it was short",
                "2 more of the 5 profiles have notes: `contend report` shows them, of one at a time",
            ]
        );
        assert!(LockTable::together(&[]).is_none());
    }
}
