//! The profiled program in one piece: its lock in question, what the model and the simulated program take from the profiles, and what
//! these show by themselves.

use crate::profiled::{self, Group, observed};
use crate::question::{MeasuredPoint, Void};
use crate::simulated_program::Blueprint;
use crate::void::{self, LeftOut};
use anyhow::{Context as _, ensure};
use compare::statistics;
use model::{Observed, Parameters};
use profile::{LockRow, LockTable, TableHeader};
use report::text;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use topology::Range;

/// What profiles say of a program and the lock in question.
#[derive(Debug)]
pub(crate) struct Subject {
    /// What tables call the lock: its name, or the site of several locks that the same calls made.
    pub(crate) name: String,
    /// What all locks of that site saw together.
    pub(crate) row: LockRow,
    /// The same in the profile of one thread, if there is one.
    pub(crate) one_thread: Option<LockRow>,
    /// What the chain takes from it.
    pub(crate) observed: Observed,
    pub(crate) parameters: Parameters,
    /// What the simulated program is made from.
    pub(crate) blueprint: Blueprint,
    /// How often the lock was taken, by threads, where there are profiles of several numbers of threads.
    pub(crate) shown: Vec<MeasuredPoint>,
    /// Reservations.
    pub(crate) notes: Vec<String>,
}

/// A profile's table and how many threads ran, or would have.
struct Profiled<'a> {
    table: &'a LockTable,
    threads: u32,
}

/// What is known of the program besides its profiles.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Besides {
    /// Cores that the whole command uses on one thread, with processes that a profile does not see.
    pub(crate) cores_used: Option<f64>,
    /// How many times as long the run on the fewest threads took as without recording.
    pub(crate) stretch: Option<f64>,
}

/// Threads that ran, waited for a lock, or were ready to run, at a time.
pub(crate) fn threads_of(header: &TableHeader) -> u32 {
    let elapsed_ns = header.elapsed_ns.max(1.0);
    let wanted = header.concurrency + header.queued_ns.unwrap_or(0.0) / elapsed_ns;
    (wanted.round() as u32).clamp(1, u32::try_from(header.threads.max(1)).unwrap_or(u32::MAX))
}

/// The tables of the profiles; why there is none, where a forecast is made from none of its kind.
pub(crate) fn open(profiles: &[PathBuf]) -> anyhow::Result<Result<Vec<LockTable>, Void>> {
    ensure!(!profiles.is_empty(), "no profile was given");
    let mut tables = Vec::new();
    for path in profiles {
        match profiled::open(path)? {
            Ok(table) => tables.push(table),
            Err(void) => return Ok(Err(void)),
        }
    }
    Ok(Ok(tables))
}

/// The profiles of a program, and which of them say what.
struct Profiles<'a> {
    /// As they were given.
    tables: &'a [LockTable],
    /// By their threads.
    all: Vec<Profiled<'a>>,
    /// That of one thread, if there is one.
    one: Option<&'a LockTable>,
    /// That of the fewest threads above one, or else of one: the lock is described by it.
    main: &'a LockTable,
}

impl<'a> Profiles<'a> {
    fn new(tables: &'a [LockTable]) -> anyhow::Result<Self> {
        let mut all: Vec<_> =
            tables.iter().map(|table| Profiled { table, threads: threads_of(&table.header) }).collect();
        all.sort_by_key(|profiled| profiled.threads);
        let one = all.first().filter(|profiled| profiled.threads == 1).map(|profiled| profiled.table);
        let main = all.get(usize::from(one.is_some())).or(all.first()).context("no profile was given")?.table;
        Ok(Self { tables, all, one, main })
    }

    /// Why a profile of these carries no forecast, whatever the lock.
    fn of_tables(&self) -> Option<Void> {
        self.all.iter().find_map(|profiled| void::of_table(&profiled.table.header))
    }

    /// Why there is none where a profile left locks out.
    fn left_out(&self) -> Option<Void> {
        self.tables.iter().find_map(|table| LeftOut::of(table, false)).map(|left_out| left_out.void())
    }

    /// Why there is no lock to forecast for: the one that costs most, unless `site` names one.
    fn without_lock(&self, site: Option<&str>) -> Option<Void> {
        let most_costly = profiled::by_cost(self.main).first().copied();
        let left_out = self.left_out();
        let void = void::of_other_locks(self.main, most_costly)
            .filter(|_| site.is_none())
            .or_else(|| left_out.clone().filter(|_| most_costly.is_none()))
            .or_else(|| most_costly.is_none().then(void::no_lock))?;
        // Where nothing was acquired a quiet machine shows no more.
        let is_empty = most_costly.is_none() && left_out.is_none();
        Some(self.of_tables().filter(|_| !is_empty).unwrap_or(void))
    }

    /// What all locks of the row's site saw together in the profile of one thread.
    fn of_one_thread(&self, row: &LockRow) -> Option<LockRow> {
        let one = self.one?;
        let groups = Group::all(&profiled::by_cost(one), &one.header);
        groups.into_iter().map(|group| group.row).find(|other| other.site == row.site)
    }
}

impl Subject {
    /// What these tables say of the lock of `site`, or of the one that costs most time; `file` names them in errors.
    pub(crate) fn new(
        tables: &[LockTable],
        site: Option<&str>,
        transfer_ns: Range,
        besides: Besides,
        file: &Path,
    ) -> anyhow::Result<Result<Self, Void>> {
        let profiles = Profiles::new(tables)?;
        if let Some(void) = profiles.without_lock(site) {
            return Ok(Err(void));
        }
        // A lock that is not there is an error of the command, whatever the machine did.
        let groups = chosen(profiles.main, site, transfer_ns, file)?;
        if let Some(void) = profiles.of_tables().or_else(|| profiles.left_out()) {
            return Ok(Err(void));
        }
        let header = &profiles.main.header;
        let row = groups[0].row.clone();
        if let Some(void) = void::of_lock(&row, header).or_else(|| void::of_own_locks(&groups, header)) {
            return Ok(Err(void));
        }
        let one_thread = profiles.of_one_thread(&row);
        let one_header = profiles.one.filter(|_| one_thread.is_some()).map(|one| &one.header);
        let base_header = one_header.unwrap_or(header);
        let mut lock = observed_alone(&row, header, one_thread.as_ref());
        profiled::take_back_queueing(&mut lock, base_header);
        if let Some(stretch) = besides.stretch {
            profiled::take_back_recording(&mut lock, stretch);
        }
        let parameters = match Parameters::observed(&lock, transfer_ns) {
            Ok(parameters) => parameters,
            Err(reason) => return Ok(Err(void::too_little(&row.name, &reason))),
        };
        let mut blueprint =
            Blueprint::new(&groups, header.ran_together, one_thread.as_ref(), &parameters, transfer_ns)
                .with_cores_of(one_thread.as_ref().unwrap_or(&row), base_header, besides.cores_used);
        if let Some(other) = &blueprint.outweighed_by {
            return Ok(Err(void::of_outweighed(&row.name, other)));
        }
        if let Some(one_header) = one_header {
            blueprint = blueprint.with_events_of(one_header.events_share);
        }
        let doubts = parameters.doubts.iter().chain(&blueprint.doubts).cloned();
        let mut notes: Vec<String> = of_several_programs(tables).into_iter().collect();
        notes.extend(reservations(&profiles.all, doubts, profiles.one.map(|_| one_thread.is_some())));
        let name = match groups[0].copies {
            1 => row.name.clone(),
            copies => format!("{}, {copies} locks", row.site),
        };
        let shown = shown(rates(&profiles.all, &row.site));
        Ok(Ok(Self { name, row, one_thread, observed: lock, parameters, blueprint, shown, notes }))
    }
}

/// What the model takes of the lock: the times of its sections, of its waits and between them from the run on one thread, if there is one.
fn observed_alone(row: &LockRow, header: &TableHeader, one_thread: Option<&LockRow>) -> Observed {
    let mut lock = observed(row, header.ran_together);
    if let Some(one_thread) = one_thread {
        let alone = observed(one_thread, true);
        (lock.hold_same, lock.think) = (alone.hold_same.or(lock.hold_same), alone.think.or(lock.think));
        lock.wait_ns = alone.wait_ns;
    }
    lock
}

/// What the reader is told beside the forecast.
///
/// `one_has_lock` says whether the profile of one thread has the lock, if there is one.
fn reservations(
    all: &[Profiled<'_>],
    doubts: impl Iterator<Item = String>,
    one_has_lock: Option<bool>,
) -> Vec<String> {
    let warnings = all.iter().flat_map(|profiled| &profiled.table.header.warnings);
    let warnings = warnings.map(|warning| format!("of the profile: {}", text::printable(warning)));
    // What several profiles say is said once.
    let mut notes: Vec<String> = Vec::new();
    for note in warnings.chain(doubts) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let without = match one_has_lock {
        Some(true) => return notes,
        Some(false) => "the profile of one thread does not have this lock",
        None => "no profile is of one thread",
    };
    notes.push(format!(
        "{without}: one would give the think time and the critical section without contention, and the throughput that all else is \
         relative to"
    ));
    notes
}

/// What to say of profiles whose commands run programs of different names.
fn of_several_programs(tables: &[LockTable]) -> Option<String> {
    let program = |table: &LockTable| {
        let path = Path::new(table.header.command.first()?);
        path.file_name().map(|name| text::printable(&name.to_string_lossy()))
    };
    let programs: BTreeSet<String> = tables.iter().filter_map(program).collect();
    (programs.len() > 1).then(|| {
        let names: Vec<String> = programs.into_iter().map(|name| format!("`{name}`")).collect();
        format!(
            "the profiles are of different programs ({}): what they say is taken for one",
            names.join(", ")
        )
    })
}

/// The program's locks by site, the one in question first; there is one at least.
fn chosen(
    table: &LockTable,
    site: Option<&str>,
    transfer_ns: Range,
    file: &Path,
) -> anyhow::Result<Vec<Group>> {
    let rows = profiled::by_cost(table);
    // Striped locks are one row of the table that people look at.
    let striped = |site: &str| table.striped.iter().find(|striped| striped.row.name == site);
    let site = site.map(|site| striped(site).map_or(site, |striped| striped.row.site.as_str()));
    let mut groups = Group::all(&rows, &table.header);
    let tells = |row: &LockRow| profiled::tells(row, table.header.ran_together, transfer_ns);
    let place = match site {
        None => groups.iter().position(|group| tells(&group.row)).unwrap_or(0),
        Some(_) => {
            let row = profiled::choose(&rows, site, file, tells)?;
            let same = |group: &Group| (&group.row.site, group.row.pid) == (&row.site, row.pid);
            groups.iter().position(same).unwrap_or(0)
        }
    };
    let hot = groups.remove(place);
    groups.insert(0, hot);
    Ok(groups)
}

/// How often the locks of a site were taken in each profile, by its number of threads, for one ns.
fn rates(all: &[Profiled<'_>], site: &str) -> impl Iterator<Item = (u32, f64)> {
    all.iter().map(move |Profiled { table, threads }| {
        let taken = table.rows.iter().filter(|row| row.site == site && !row.merged);
        let rate = taken.map(|row| row.acquisitions() as f64).sum::<f64>() / table.header.elapsed_ns.max(1.0);
        (*threads, rate)
    })
}

/// What several profiles show of a lock without a model. Those of as many threads are one point, as wide as they lie apart.
fn shown(rates: impl Iterator<Item = (u32, f64)>) -> Vec<MeasuredPoint> {
    /// Recording slows a run by a part of this.
    const RECORDED: f64 = 0.1;
    let mut by_threads: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (threads, rate) in rates.filter(|&(_, rate)| rate > 0.0) {
        by_threads.entry(threads).or_default().push(rate);
    }
    let point = |(threads, rates): (u32, Vec<f64>)| {
        let spread = statistics::spread(&rates)?;
        let [low, high] = [(1.0 - RECORDED) * spread.low, (1.0 + RECORDED) * spread.high];
        Some(MeasuredPoint { lock: None, threads, rate: spread.median, low, high })
    };
    let points: Vec<MeasuredPoint> = by_threads.into_iter().filter_map(point).collect();
    // One profile alone is relative to nothing.
    if points.len() > 1 { points } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_profiles_say_is_said_once() {
        let header = TableHeader { warnings: vec!["it was built anew".into()], ..TableHeader::default() };
        let table = LockTable { header, rows: Vec::new(), striped: Vec::new(), kernel: None, program: None };
        let all = [1, 2].map(|threads| Profiled { table: &table, threads });
        let doubts = ["a doubt", "a doubt"].map(str::to_owned).into_iter();
        assert_eq!(reservations(&all, doubts, Some(true)), ["of the profile: it was built anew", "a doubt"]);
    }

    #[test]
    fn profiles_of_as_many_threads_are_one_point_that_holds_them_all() {
        let points = shown([(1, 2.0), (4, 1.0), (4, 3.0), (8, 0.0)].into_iter());
        assert_eq!(points.iter().map(|point| point.threads).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(points[1].rate, 2.0);
        assert!(points[1].low <= 0.9 && points[1].high >= 3.3, "{points:?}");
        assert!(shown([(2, 1.0), (2, 1.5)].into_iter()).is_empty(), "they are relative to nothing");
    }
}
