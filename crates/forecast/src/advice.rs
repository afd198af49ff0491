//! What to do about a lock: changes to the program, and what each is expected to give.
//!
//! The gain of a change is throughput with it over throughput without it. Of another lock and of another number of threads it is what
//! the rows of the forecast say. Of any other change it is computed on the same number of threads of the target, and its range has the
//! runs of the simulated program with each seed and at both ends of all ranges, each change against the same end without it.

use crate::alternatives;
use crate::answer::{Point, Row};
use crate::simulated_program::{Blueprint, Stage, lock_for};
use crate::subject::Subject;
use locks::catalogue::{self, LOCKS, Lock};
use profile::{LockKind, LockRow, ObjectKind};
use rayon::prelude::*;
use report::text;
use session::ensure_usage;
use session::names::types_of;
use session::usage::UsageError;
use std::collections::{BTreeMap, BTreeSet};
use topology::Range;
use what_if::case::spread;
use what_if::{Alternative, Case, Change, Gain};

/// Reads a change as [`Change::parse`] does, with the locks of the catalogue and their families.
///
/// # Errors
///
/// As that, and a lock that is elided.
pub fn change(text: &str) -> anyhow::Result<Change> {
    let named = |name: &str| lock(name).map_err(|error| format!("{error:#}"));
    Change::parse(text, named).map_err(|error| UsageError::new(error.to_string()).into())
}

fn lock(name: &str) -> anyhow::Result<Alternative> {
    let lock = alternatives(&[name.to_owned()])?.remove(0);
    ensure_usage!(
        lock.elided.is_none(),
        "`lock={name}`: what eliding a lock gives has two ends, which --lock {name} predicts",
        name = text::printable(name)
    );
    Ok(lock)
}

/// Whether `contend run` puts a lock in the place of such an object.
fn replaces(lock: &Lock, kind: LockKind) -> bool {
    match kind {
        LockKind::Object(object) => object.accepts(lock.shared),
        _ => true,
    }
}

/// Whether it can do so with an alternative; of a family, with the lock that represents it.
pub(crate) fn can_be_tried(alternative: &Alternative, kind: LockKind) -> bool {
    let lock = catalogue::find(lock_for(&alternative.name, alternative.family, kind));
    alternative.elided.is_none() && lock.is_some_and(|lock| lock.is_for_programs() && replaces(lock, kind))
}

/// How each lock of the catalogue is put in the place of this row's: for a trial, where `contend run` can replace it, and for good.
pub(crate) fn how_to_swap(site: &str, row: &LockRow) -> BTreeMap<String, String> {
    let kind = row.kind;
    let trial = |lock: &Lock| match kind {
        LockKind::Object(object) if !replaces(lock, kind) => {
            let kind = if object == ObjectKind::Spin { "spin lock" } else { "reader-writer lock" };
            format!("`contend run` does not put it in the place of a {kind}.")
        }
        _ => {
            let swap = format!("{}={}", text::printable(site), lock.name);
            format!("Try it: {} -- CMD.", text::command_line(["contend", "run", "--only", &swap]))
        }
    };
    let has_readers = !matches!(kind, LockKind::Object(ObjectKind::Mutex | ObjectKind::Spin));
    let how = |lock: &Lock| match lock.is_for_programs() {
        true if row.by_hooks => format!("Keep: {}. {NO_PTHREAD}", types_of(lock, has_readers)),
        true => format!("{} For good: {}.", trial(lock), types_of(lock, has_readers)),
        false => "Patents bar it from programs: it is there for study.".to_owned(),
    };
    LOCKS.iter().map(|lock| (lock.name.to_owned(), how(lock))).collect()
}

/// Why nothing is tried in the place of a lock that the program records by itself.
pub(crate) const NO_PTHREAD: &str = "`contend run` tries no lock in its place, since it is no pthread's.";

/// The blueprint after a change.
fn changed(change: &Change, before: &Blueprint) -> Blueprint {
    let mut after = before.clone();
    let batch = f64::from(change.batch);
    let first = &before.locks[0];
    let reads = change.reads.unwrap_or(first.reads);
    let moved_ns = (1.0 - change.section) * first.mean_same_ns();
    after.think_ns = before.think_ns.scaled(change.think).plus(Range::exact(moved_ns)).scaled(batch);
    for (number, hot) in after.locks.iter_mut().enumerate() {
        if number > 0 {
            hot.visits *= batch;
            continue;
        }
        hot.copies = hot.copies.max(1).saturating_mul(change.split);
        hot.reads = reads;
        for held in [&mut hot.exclusive, &mut hot.shared] {
            held.same_ns = held.same_ns.scaled(change.section * batch);
            held.growth_ns = held.growth_ns.scaled(change.section);
        }
    }
    after.batch = before.batch * batch;
    after
}

/// What advice is made of: the case, the simulated program that ran, and the forecast that came of it.
pub(crate) struct Adviser<'a> {
    case: &'a Case,
    blueprint: &'a Blueprint,
    stage: &'a Stage,
    rows: &'a [Row],
    /// The lock is one that `contend run` replaces.
    is_swapped_by_run: bool,
}

/// What the rows say of a change that they show: another lock, or another number of threads. Where the seeds disagree on either side, there
/// is no figure to tell a gain by.
fn shown(rows: &[Row], change: &Change, threads: u32) -> Option<Option<Range>> {
    let of_lock = |lock: Option<String>| rows.iter().find(|row| row.lock == lock);
    let own = of_lock(None)?;
    let after = match (&change.lock, change.threads) {
        (Some(lock), None) if change.is_one_word() => of_lock(Some(lock.label()))?.at(threads)?,
        (None, Some(threads)) if change.is_one_word() => own.at(threads)?,
        _ => return None,
    };
    let before = own.at(threads)?;
    let is_figure = |point: Point| point.measured || !point.unstable;
    Some((is_figure(after) && is_figure(before)).then(|| after.over(before)))
}

/// Less is not worth the work of a change.
pub(crate) const WORTH_IT: f64 = 1.1;

/// What a change takes, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effort {
    /// `contend run` does it.
    Run,
    /// The program is started otherwise.
    Start,
    /// Its source is changed.
    Source,
}

impl Effort {
    /// `is_swapped_by_run` says that `contend run` replaces the lock.
    fn of(change: &Change, is_swapped_by_run: bool) -> Self {
        match change {
            _ if !change.is_one_word() => Self::Source,
            Change { lock: Some(_), .. } if is_swapped_by_run => Self::Run,
            Change { threads: Some(_), .. } => Self::Start,
            _ => Self::Source,
        }
    }
}

/// Gains in the order of what their changes take, then the greatest first. Of several splits, and of alternatives that are the same lock,
/// there is the best.
fn ordered(mut gains: Vec<(&Change, Gain)>, is_swapped_by_run: bool) -> Vec<Gain> {
    let effort = |change: &Change| Effort::of(change, is_swapped_by_run);
    gains.sort_by(|(a, one), (b, other)| {
        effort(a).cmp(&effort(b)).then(likely(other).total_cmp(&likely(one)))
    });
    let mut said = BTreeSet::new();
    gains.retain(|(change, gain)| {
        let is_split = change.is_one_word() && change.split > 1;
        said.insert(if is_split { String::new() } else { gain.instruction.clone() })
    });
    gains.into_iter().map(|(_, gain)| gain).collect()
}

fn likely(gain: &Gain) -> f64 {
    gain.times.map_or(0.0, |times| times.likely)
}

impl<'a> Adviser<'a> {
    /// An adviser on this lock.
    pub(crate) fn new(subject: &'a Subject, case: &'a Case, stage: &'a Stage, rows: &'a [Row]) -> Self {
        Self { case, blueprint: &subject.blueprint, stage, rows, is_swapped_by_run: !subject.row.by_hooks }
    }

    /// What each of these changes gives, what `contend run` does first, then the greatest gain; of several, those that are worth it.
    pub(crate) fn worth(&self, changes: &[Change]) -> anyhow::Result<Vec<Gain>> {
        let before = self.stage.rates(self.blueprint, None, self.case.threads)?;
        let gains = changes.par_iter().map(|change| Ok((change, self.gain(change, &before)?)));
        let mut gains: Vec<(&Change, Gain)> = gains.collect::<anyhow::Result<_>>()?;
        let is_worth_it =
            |gain: &Gain| likely(gain) >= WORTH_IT && gain.times.is_some_and(|times| times.low > 1.0);
        gains.retain(|(_, gain)| changes.len() == 1 || is_worth_it(gain));
        Ok(ordered(gains, self.is_swapped_by_run))
    }

    fn gain(&self, change: &Change, before: &[f64]) -> anyhow::Result<Gain> {
        let Self { blueprint, stage, .. } = self;
        let shares = change.reads.is_some();
        let kind = if shares { LockKind::Object(ObjectKind::Rwlock) } else { blueprint.locks[0].kind };
        let lock = change.lock.as_ref().map(|lock| lock_for(&lock.name, lock.family, kind));
        // Readers need a lock that they can share.
        let swapped = lock.or_else(|| shares.then_some("rw"));
        if let Some(times) = shown(self.rows, change, self.case.threads) {
            return Ok(Gain { times, ..self.case.gain(change, swapped) });
        }
        let threads = change.threads.unwrap_or(self.case.threads);
        let after = stage.rates(&changed(change, blueprint), swapped, threads)?;
        let ratios: Vec<f64> = after.iter().zip(before).map(|(after, before)| after / before).collect();
        Ok(Gain { times: spread(&ratios, stage.likely()), ..self.case.gain(change, swapped) })
    }
}

/// The changes that are tried where none was asked for: the best locks that can be tried, half of the section, splits, batches, and
/// the number of threads at which the program does most as it is.
pub(crate) fn candidates(best: &[Alternative], peak: Option<u32>, read_mostly: bool) -> Vec<Change> {
    let mut changes: Vec<_> =
        best.iter().map(|lock| Change { lock: Some(lock.clone()), ..Change::NONE }).collect();
    changes.push(Change { section: 0.5, ..Change::NONE });
    changes.extend([2, 8].map(|split| Change { split, ..Change::NONE }));
    if !read_mostly {
        changes.push(Change { batch: 8, ..Change::NONE });
    }
    changes.extend(peak.map(|threads| Change { threads: Some(threads), ..Change::NONE }));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    #[test]
    fn a_change_keeps_the_locks_that_there_are() {
        let mut before = Blueprint::random(&mut workloads::Random::of_thread(1, 0), 50.0);
        before.locks[0].copies = 8;
        assert_eq!(changed(&Change::NONE, &before).locks[0].copies, 8);
        assert_eq!(changed(&Change { split: 2, ..Change::NONE }, &before).locks[0].copies, 16);
    }

    #[test]
    fn gains_of_locks_and_of_threads_are_those_of_the_rows() {
        let row = |lock: Option<&str>, values: [f64; 2]| {
            let point = |(threads, value): (u32, f64)| Point {
                threads,
                value,
                low: 0.9 * value,
                high: 1.1 * value,
                measured: true,
                unstable: false,
            };
            Row {
                lock: lock.map(str::to_owned),
                code: "mcs".into(),
                points: [1, 2].into_iter().zip(values).map(point).collect(),
                verdict: Verdict::of(&[1, 2], &[values.to_vec()], |drawn| drawn),
            }
        };
        let rows = [row(None, [1.0, 0.5]), row(Some("mcs"), [0.9, 1.5])];
        let gain = |text: &str| shown(&rows, &change(text).unwrap(), 2).flatten();
        let mcs = gain("lock=mcs").unwrap();
        assert!((mcs.likely - 3.0).abs() < 1e-9 && mcs.low < 2.8 && mcs.high > 3.2, "{mcs:?}");
        assert!((gain("threads=1").unwrap().likely - 2.0).abs() < 1e-9);
        for other in ["lock=ticket", "section=0.5", "section=0.5,lock=mcs", "threads=3"] {
            assert_eq!(gain(other), None, "{other}");
        }
        // The table has a question mark for what `mcs` does on two threads.
        let mut open = rows;
        (open[1].points[1].measured, open[1].points[1].unstable) = (false, true);
        let gain = |text: &str| shown(&open, &change(text).unwrap(), 2);
        assert_eq!(gain("lock=mcs"), Some(None), "it is shown, and no figure");
        assert!(gain("threads=1").is_some_and(|times| times.is_some()));
    }

    #[test]
    fn what_a_command_does_is_said_first_and_of_several_splits_the_best() {
        let changes =
            ["split=8", "split=2", "threads=1", "lock=rw", "section=0.5", "lock=back-off-then-sleep"];
        let changes = changes.map(|text| change(text).unwrap());
        let gain = |(change, likely): (&Change, f64)| Gain {
            change: change.name(),
            // The family is represented by the same lock.
            instruction: change
                .lock
                .as_ref()
                .map_or_else(|| change.name(), |_| "put `rw` in its place".into()),
            how: None,
            threads: 64,
            times: Some(Range::exact(likely)),
        };
        let gains = changes.iter().zip([8.5, 1.8, 105.0, 2.0, 9.0, 2.1]);
        let gains: Vec<_> = gains.map(|(change, likely)| (change, gain((change, likely)))).collect();
        let all = |is_swapped_by_run| {
            let all = ordered(gains.clone(), is_swapped_by_run).into_iter().map(|gain| gain.change);
            all.collect::<Vec<_>>()
        };
        assert_eq!(all(true), ["lock=back-off-then-sleep", "threads=1", "section=0.500", "split=8"]);
        assert_eq!(all(false), ["threads=1", "section=0.500", "split=8", "lock=back-off-then-sleep"]);
    }

    #[test]
    fn a_change_names_locks_of_the_catalogue_and_families_and_none_that_is_elided() {
        assert_eq!(change("lock=mcs,section=0.5").unwrap().name(), "section=0.500,lock=mcs");
        for (text, remedy) in [
            ("lock=nosuch", "no lock `nosuch`"),
            ("lock=elided", "--lock elided"),
            ("split=0", "from 1 to 1024"),
        ] {
            let error = change(text).unwrap_err();
            assert!(
                error.downcast_ref::<UsageError>().is_some() && error.to_string().contains(remedy),
                "{error}"
            );
        }
    }

    #[test]
    fn a_lock_of_the_catalogue_is_tried_by_a_command_that_takes_it_and_put_in_place_by_a_type() {
        let of = |name: &str, kind| how_to_swap(name, &LockRow::new(name, LockKind::Object(kind)));
        let how = of("cache\u{1b}", ObjectKind::Mutex);
        assert!(how["mcs"].starts_with("Try it: contend run --only 'cache\\u{1b}=mcs'"), "{}", how["mcs"]);
        assert!(how["rw"].contains("Mutex<T, Rw>"), "{}", how["rw"]);
        assert_eq!(how["hclh"], "Patents bar it from programs: it is there for study.");
        let how = of("cache", ObjectKind::Rwlock);
        assert!(how["rw"].starts_with("Try it: ") && how["rw"].contains("RwLock<T, Rw>"), "{}", how["rw"]);
        assert!(
            how["mcs"].starts_with(
                "`contend run` does not put it in the place of a reader-writer lock. For good: Mutex<T, Mcs>"
            ),
            "{}",
            how["mcs"]
        );
    }

    #[test]
    fn a_lock_that_the_program_records_by_itself_is_replaced_in_the_source_alone() {
        for (kind, lock, kept) in [
            (ObjectKind::Mutex, "mcs", "Keep: Mutex<T, Mcs> in Rust"),
            (ObjectKind::Rwlock, "rw", "Keep: RwLock<T, Rw> in Rust"),
            (ObjectKind::Rwlock, "mcs", "Keep: Mutex<T, Mcs> in Rust"),
        ] {
            let row = LockRow { by_hooks: true, ..LockRow::new("JOBS", LockKind::Object(kind)) };
            let how = how_to_swap("JOBS", &row);
            assert!(how[lock].starts_with(kept) && how[lock].ends_with(NO_PTHREAD), "{}", how[lock]);
            assert!(how.values().all(|how| !how.contains("--only")), "{how:?}");
            assert_eq!(how["hclh"], "Patents bar it from programs: it is there for study.");
        }
    }
}
