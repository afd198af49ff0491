//! Striped locks: the many locks of one array, or those that one call made, as one row.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use super::live::{LiveRow, LiveTable, LockUse, Since, ThreadUse};
use super::table::{LockHolder, LockId, LockKind, LockRow, LockTable, SiteUse, Usage};

/// So many locks of one kind are striped; fewer are rows of their own.
const LEAST: usize = 8;

/// Locks of one kind that lie in one array, or that one call made, as hash tables, caches and pools have them.
#[derive(Clone, Debug, Serialize)]
pub struct Striped {
    /// All of them together. Its name has a `*` where theirs have a number.
    pub row: LockRow,
    /// The rows that are added up, those waited for longest first.
    #[serde(skip)]
    pub members: Vec<LockId>,
    /// How many they are.
    pub locks: u64,
}

impl LockTable {
    /// The rows that people look at: striped locks are one row. By time lost waiting, then by time held, most first.
    pub fn folded(&self) -> Vec<&LockRow> {
        let folded: HashSet<LockId> =
            self.striped.iter().flat_map(|striped| striped.members.iter().copied()).collect();
        let alone = self.rows.iter().filter(|row| folded.is_empty() || !folded.contains(&row.id));
        let mut rows: Vec<_> = alone.chain(self.striped.iter().map(|striped| &striped.row)).collect();
        rows.sort_by(|a, b| a.cmp_cost(b));
        rows
    }

    /// The striped locks that a row of [`LockTable::folded`] stands for.
    pub fn striped_of(&self, row: &LockRow) -> Option<&Striped> {
        self.striped.iter().find(|striped| std::ptr::eq(&raw const striped.row, row))
    }
}

impl LiveTable {
    /// The same, with one row for striped locks.
    pub(super) fn folded(self) -> Self {
        let mut stripes: BTreeMap<(LockId, String), Vec<LiveRow>> = BTreeMap::new();
        let mut rows = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            match &row.stripe {
                Some((first, _)) => stripes.entry((*first, row.way.clone())).or_default().push(row),
                None => rows.push(row),
            }
        }
        rows.extend(stripes.into_values().filter_map(|rows| fold_live(&rows)));
        rows.sort_by(LiveRow::cmp_cost);
        Self { header: self.header, rows }
    }
}

/// Adds up rows of the same striped locks, used in the same way. Of present waits and holds it has the longest.
fn fold_live(rows: &[LiveRow]) -> Option<LiveRow> {
    let longest = |ns: fn(&LiveRow) -> Option<f64>| {
        let known = rows.iter().filter_map(|row| Some((ns(row)?, row)));
        known.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, row)| row)
    };
    let wait = longest(|row| row.longest_wait_ns);
    let hold = longest(|row| row.holder.as_ref().map(|_| row.holder_ns.unwrap_or(0.0)));
    let mut since = Since::default();
    let mut threads: BTreeMap<u64, ThreadUse> = BTreeMap::new();
    for row in rows {
        since.add(&row.since);
        for of in &row.threads {
            let sum = threads
                .entry(of.thread.tid)
                .or_insert_with(|| ThreadUse { thread: of.thread.clone(), ..ThreadUse::default() });
            sum.since.add(&of.since);
            sum.waits_ns = [sum.waits_ns, of.waits_ns].into_iter().flatten().reduce(f64::max);
            sum.holds |= of.holds;
        }
    }
    let mut threads: Vec<_> = threads.into_values().collect();
    threads.sort_by(ThreadUse::cmp_cost);
    let acquisitions = |row: &LiveRow| row.since.acquisitions as f64;
    let timed = || rows.iter().filter_map(|row| Some((row.section_ns?, acquisitions(row))));
    let timed_acquisitions: f64 = timed().map(|(_, acquisitions)| acquisitions).sum();
    let first = rows.first()?;
    let (lock, name) = first.stripe.clone()?;
    Some(LiveRow {
        id: LockUse { lock, ..first.id },
        lock: name.to_string(),
        acquires_per_s: rows.iter().map(|row| row.acquires_per_s).sum(),
        contended_share: (since.acquisitions > 0)
            .then(|| (since.contended as f64 / since.acquisitions as f64).min(1.0)),
        waiting: rows.iter().map(|row| row.waiting).sum(),
        held: rows.iter().map(|row| row.held).sum(),
        section_ns: (timed_acquisitions > 0.0)
            .then(|| timed().map(|(ns, acquisitions)| ns * acquisitions).sum::<f64>() / timed_acquisitions),
        waiters_now: rows.iter().filter_map(|row| row.waiters_now).reduce(u64::saturating_add),
        longest_wait_ns: wait.and_then(|row| row.longest_wait_ns),
        longest_waiter: wait.and_then(|row| row.longest_waiter.clone()),
        holder: hold.and_then(|row| row.holder.clone()),
        holder_ns: hold.and_then(|row| row.holder_ns),
        holders_now: rows.iter().fold(0, |sum, row| sum.saturating_add(row.holders_now)),
        call_sites: SiteUse::sum(rows.iter().flat_map(|row| &row.call_sites)),
        since,
        threads,
        ..first.clone()
    })
}

/// What the locks of an array, or of one call, have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Stripe<'r> {
    section: u64,
    kind: LockKind,
    /// The variable, or the function and stack that made them.
    site: &'r str,
    /// Their name, without the number behind it, or with `*` for the numbers in it.
    name: Cow<'r, str>,
    /// One call made them, or they are taken by the same calls; else they lie in one variable.
    by_call: bool,
}

impl<'r> Stripe<'r> {
    /// None if the lock's name has no number.
    fn of(&Touched { ref row, by_call, .. }: &'r Touched) -> Option<Self> {
        if row.merged {
            return None;
        }
        let (site, name) = if by_call {
            (row.site.as_str(), without_ordinal(&row.name).into())
        } else {
            (variable_and_offset(&row.site).0, without_number(&row.name)?.into())
        };
        Some(Self { section: row.id.section, kind: row.kind, site, name, by_call })
    }

    /// The name of all its locks.
    fn full_name(&self) -> String {
        if self.by_call { format!("{}#*", self.name) } else { self.name.clone().into_owned() }
    }

    /// Nothing but the distance from its variable's start tells one lock from the others.
    fn by_offset(&self) -> bool {
        !self.by_call && self.name.ends_with("+*")
    }
}

/// `make_shard#7` without its number.
fn without_ordinal(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((stem, digits)) if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            stem
        }
        _ => name,
    }
}

/// `shards+0x40` is `shards`, and at which byte of it.
pub(super) fn variable_and_offset(site: &str) -> (&str, Option<u64>) {
    match site.rsplit_once("+0x").map(|(variable, digits)| (variable, u64::from_str_radix(digits, 16))) {
        Some((variable, Ok(offset))) => (variable, Some(offset)),
        _ => (site, None),
    }
}

/// A name with `*` for every number in brackets, or for its offset.
pub(super) fn without_number(name: &str) -> Option<String> {
    let name = without_ordinal(name);
    if let (variable, Some(_)) = variable_and_offset(name) {
        return Some(format!("{variable}+*"));
    }
    let mut stem = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('[') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let is_index = digits > 0 && after[digits..].starts_with(']');
        stem.push_str(before);
        stem.push_str(if is_index { "[*" } else { "[" });
        rest = if is_index { &after[digits..] } else { after };
    }
    stem.push_str(rest);
    (stem != name).then_some(stem)
}

/// A row and the numbers of the threads that touched its lock, ascending.
pub(super) struct Touched {
    pub(super) row: LockRow,
    /// One call made it, or it is taken by calls that others are taken by; else it lies in a variable.
    pub(super) by_call: bool,
    pub(super) threads: Box<[u64]>,
}

/// The striped locks among these, the times of whose threads `age_ns` tells. What relates them to an operation is left to the caller.
pub(super) fn striped(touched: &[Touched], age_ns: impl Fn(u64) -> f64) -> Vec<Striped> {
    let mut stripes: BTreeMap<Stripe<'_>, Vec<&Touched>> = BTreeMap::new();
    for one in touched {
        if let Some(stripe) = Stripe::of(one) {
            stripes.entry(stripe).or_default().push(one);
        }
    }
    let mut locks_in: HashMap<(u64, &str), usize> = HashMap::new();
    for one in touched {
        *locks_in.entry((one.row.id.section, variable_and_offset(&one.row.site).0)).or_default() += 1;
    }
    let mut all = Vec::new();
    for (stripe, members) in stripes {
        let in_variable = locks_in.get(&(stripe.section, stripe.site)).copied().unwrap_or(0);
        let arrays = if stripe.by_offset() { arrays(members) } else { vec![members] };
        for members in arrays.into_iter().filter(|members| members.len() >= LEAST) {
            // Without symbols the variable is the whole file.
            let alone = members.len() == in_variable && members[0].row.file != stripe.site;
            let name = match members.iter().min_by_key(|member| offset(member)) {
                Some(first) if stripe.by_offset() && !alone => {
                    format!("{}[*]", without_ordinal(&first.row.name))
                }
                _ => stripe.full_name(),
            };
            all.push(fold(&stripe, name, members, alone, &age_ns));
        }
    }
    all
}

/// The place in its variable of a lock that is known by that alone.
fn offset(one: &Touched) -> u64 {
    variable_and_offset(without_ordinal(&one.row.name)).1.unwrap_or(0)
}

/// Of locks that are known by their offset alone, those together that lie as the locks of an array do: equally far apart, or several times
/// as far where no thread touched those between.
fn arrays(mut members: Vec<&Touched>) -> Vec<Vec<&Touched>> {
    /// Locks of an array between two that were touched.
    const GAP: u64 = 16;
    members.sort_by_key(|member| offset(member));
    let mut distances: BTreeMap<u64, usize> = BTreeMap::new();
    for two in members.windows(2) {
        *distances.entry(offset(two[1]) - offset(two[0])).or_default() += 1;
    }
    let most_frequent = distances.into_iter().max_by_key(|&(distance, count)| (count, Reverse(distance)));
    let stride = most_frequent.map_or(0, |(distance, _)| distance);
    let together = |a: &&Touched, b: &&Touched| {
        let distance = offset(b) - offset(a);
        stride > 0 && distance.is_multiple_of(stride) && distance <= GAP * stride
    };
    members.chunk_by(together).map(<[&Touched]>::to_vec).collect()
}

/// `alone` says that the variable has no other locks, so that its name means these.
fn fold(
    stripe: &Stripe<'_>,
    name: String,
    mut members: Vec<&Touched>,
    alone: bool,
    age_ns: impl Fn(u64) -> f64,
) -> Striped {
    members.sort_by(|a, b| a.row.cmp_cost(&b.row));
    let worst = &members[0].row;
    let mut threads: Vec<u64> = members.iter().flat_map(|member| member.threads.iter().copied()).collect();
    threads.sort_unstable();
    threads.dedup();
    let rows = || members.iter().map(|member| &member.row);
    let row = LockRow {
        site: if alone || stripe.by_call { stripe.site.to_owned() } else { name.clone() },
        name,
        places: match (stripe.by_call, alone) {
            (true, _) => worst.places.clone(), // those of all, who share the call
            (false, true) => [stripe.site.to_owned()].into(),
            (false, false) => rows().flat_map(|row| row.places.iter().cloned()).collect(),
        },
        generations: rows().fold(0, |sum, row| sum.saturating_add(row.generations)),
        threads: threads.len() as u64,
        threads_ns: threads.iter().map(|&thread| age_ns(thread)).sum(),
        exclusive: Usage::sum(rows().map(|row| &row.exclusive)),
        shared: Usage::sum(rows().map(|row| &row.shared)),
        within: None,
        holders: holders(rows()),
        at_end: None,
        call_sites: SiteUse::sum(rows().flat_map(|row| &row.call_sites)),
        ..worst.clone()
    };
    let locks = members.len() as u64;
    Striped { row, members: members.iter().map(|member| member.row.id).collect(), locks }
}

pub(super) fn holders<'r>(rows: impl Iterator<Item = &'r LockRow>) -> Vec<LockHolder> {
    let mut by_thread: BTreeMap<u64, LockHolder> = BTreeMap::new();
    for holder in rows.flat_map(|row| &row.holders) {
        let sum = by_thread.entry(holder.tid).or_insert_with(|| LockHolder { looks: 0, ..holder.clone() });
        sum.looks = sum.looks.saturating_add(holder.looks);
    }
    let mut holders: Vec<_> = by_thread.into_values().collect();
    holders.sort_by(|a, b| b.looks.cmp(&a.looks).then(a.tid.cmp(&b.tid)));
    holders
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::read::live::LiveThread;

    #[test]
    fn a_live_table_has_one_row_for_striped_locks() {
        let lock = |number: u32, acquisitions: u64| LiveRow {
            id: LockUse { lock: LockId { section: 1, number }, shared: false },
            lock: format!("shards[{number}]"),
            way: "mutex".into(),
            acquires_per_s: acquisitions as f64,
            section_ns: (number != 2).then_some(100.0 * f64::from(number)),
            waiters_now: Some(1),
            longest_wait_ns: Some(f64::from(number)),
            longest_waiter: Some(LiveThread { tid: u64::from(number), name: String::new() }),
            since: Since { acquisitions, contended: 1, waited_ns: 5.0, held_ns: 7.0 },
            stripe: Some((LockId { section: 1, number: 1 }, "shards[*]".into())),
            threads: vec![ThreadUse { holds: number == 3, ..ThreadUse::default() }],
            ..LiveRow::default()
        };
        let other = LiveRow { lock: "other".into(), ..LiveRow::default() };
        let table =
            LiveTable { header: Default::default(), rows: vec![lock(3, 30), other, lock(2, 5), lock(1, 10)] };
        let folded = table.folded();
        let names: Vec<_> = folded.rows.iter().map(|row| row.lock.as_str()).collect();
        assert_eq!(names, ["shards[*]", "other"]);
        let row = &folded.rows[0];
        assert_eq!(row.id.lock.number, 1, "the same in every look");
        assert_eq!((row.acquires_per_s, row.waiters_now, row.section_ns), (45.0, Some(3), Some(250.0)));
        assert_eq!(
            (row.longest_wait_ns, row.longest_waiter.as_ref().map(|who| who.tid)),
            (Some(3.0), Some(3))
        );
        assert_eq!(row.since, Since { acquisitions: 45, contended: 3, waited_ns: 15.0, held_ns: 21.0 });
        assert_eq!((row.threads.len(), row.threads[0].holds), (1, true));
    }

    pub(in super::super) fn row() -> LockRow {
        LockRow { pid: 1, threads: 1, ..LockRow::new("", LockKind::Mixed) }
    }

    #[test]
    fn what_lies_in_a_file_is_striped_where_it_lies_evenly() {
        let places =
            (0..12).map(|i| 0x1000 + 40 * i).chain([0x4000, 0x4028]).chain((0..9).map(|i| 0x8000 + 80 * i));
        let lock = |(number, place): (u32, u64)| {
            // A call made them one after another.
            let site = format!("server+{place:#x}");
            let row = LockRow {
                id: LockId { section: 1, number },
                name: format!("{site}#{number}"),
                places: [site.clone()].into(),
                site,
                file: "server".into(),
                ..row()
            };
            Touched { row, by_call: false, threads: Box::new([7]) }
        };
        let touched: Vec<_> = (0..).zip(places).map(lock).collect();
        let found = striped(&touched, |_| 3.0);
        let found: Vec<_> = found.iter().map(|one| (&*one.row.name, one.locks, one.row.threads_ns)).collect();
        assert_eq!(found, [("server+0x1000[*]", 12, 3.0), ("server+0x8000[*]", 9, 3.0)]);
    }

    #[test]
    fn a_stripe_is_a_name_without_its_number() {
        for (name, stem) in [
            ("shards[13]", Some("shards[*]")),
            ("Cache::shards[3].locks[0].m", Some("Cache::shards[*].locks[*].m")),
            ("shards+0x1c0", Some("shards+*")),
            ("shards", None),
            ("Pool::m", None),
            ("Map<int [4]>::m", Some("Map<int [*]>::m")),
            ("Map<int[4]>::m", Some("Map<int[*]>::m")),
            ("a[", None),
            ("a[]", None),
            ("ä[7", None),
        ] {
            assert_eq!(without_number(name).as_deref(), stem, "{name}");
        }
        assert_eq!(
            ["make#7", "make", "make#", "make#x"].map(without_ordinal),
            ["make", "make", "make#", "make#x"]
        );
    }
}
