//! Waits and holds that were not over when a process, or the recording, ended: of a deadlock there is nothing else.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::Profile;
use super::call_sites::{Place, TakenBy, place_of};
use super::container::{PairRecord, Section};
use super::names::thread_name;
use super::symbols::Symbols;
use crate::format::{ProcessValues, TaskValues, ThreadValues};

/// Waits and holds of one way of using a lock that were not over at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Unended {
    /// Waits. They are in no count of contended acquisitions, since they came to none.
    pub waits: u64,
    /// How long they had lasted, ns.
    pub waited_ns: f64,
    /// Holds, which are among the acquisitions.
    pub holds: u64,
    /// How long they had lasted, ns.
    pub held_ns: f64,
    /// How long the condition waits with it had lasted that were not over, ns. Which lock a thread waits with is taken to be the one
    /// with which it has waited longest.
    pub condition_ns: f64,
}

impl Unended {
    pub(super) fn and(&self, more: &Self) -> Self {
        Self {
            waits: self.waits.saturating_add(more.waits),
            waited_ns: self.waited_ns + more.waited_ns,
            holds: self.holds.saturating_add(more.holds),
            held_ns: self.held_ns + more.held_ns,
            condition_ns: self.condition_ns + more.condition_ns,
        }
    }
}

/// The threads that still waited for a lock at the end, and those that held it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AtEnd {
    /// Who waited, the longest wait first.
    pub waiters: Vec<AtEndThread>,
    /// Who held it, as far as that is known, the longest hold first: one thread, or several readers.
    pub holders: Vec<AtEndThread>,
}

/// A thread that waited for a lock, or held it, at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AtEndThread {
    /// The kernel's identifier.
    pub tid: u64,
    /// Its name. Safe to print.
    pub name: String,
    /// Whether it shared the lock, or wanted to.
    pub shared: bool,
    /// For how long, ns; `None` of a hold that is not timed.
    pub for_ns: Option<f64>,
    /// The function that took the lock, or waits for it; empty where it is unknown. Safe to print.
    pub function: String,
    /// Its place in the source, `file:line`.
    pub source: Option<String>,
}

/// When processes ended.
pub(super) struct Ends<'p> {
    profile: &'p Profile,
    ns_per_tick: f64,
    /// By section, the first tick of the program that replaced it in its process.
    replaced: HashMap<u64, u64>,
    /// By process and thread, how long before the launcher's last look at any thread it saw this one for the last time; ns.
    unseen_ns: HashMap<(u64, u64), f64>,
    /// By process, the same of its thread that was seen last.
    gone_ns: HashMap<u64, f64>,
}

impl<'p> Ends<'p> {
    pub(super) fn of(profile: &'p Profile, ns_per_tick: f64) -> Self {
        let mut next: HashMap<u64, u64> = HashMap::new();
        let mut replaced = HashMap::new();
        for section in profile.sections.iter().rev().filter(|section| !section.is_watched()) {
            let process = &section.process;
            if let Some(first) = next.insert(process.pid, process.clock_first_ticks) {
                replaced.insert(section.number, first);
            }
        }
        let seen = || profile.tasks.iter().map(|task| task.started_ns.saturating_add(task.age_ns));
        let last = seen().max().unwrap_or(0);
        let unseen =
            |(task, seen): (&TaskValues, u64)| ((task.pid, task.tid), last.saturating_sub(seen) as f64);
        let unseen_ns: HashMap<(u64, u64), f64> = profile.tasks.iter().zip(seen()).map(unseen).collect();
        let mut gone_ns: HashMap<u64, f64> = HashMap::new();
        for (&(pid, _), &ns) in &unseen_ns {
            let least = gone_ns.entry(pid).or_insert(ns);
            *least = least.min(ns);
        }
        Self { profile, ns_per_tick, replaced, unseen_ns, gone_ns }
    }

    /// How long a thread had been in what began at these ticks when its process ended; 0 if it was in nothing. A process that is
    /// killed tells no end: a thread of it ends when the launcher does not see it any more, and the first process with the recording.
    pub(super) fn lasted_ns(&self, section: &Section, thread: &ThreadValues, since: u64) -> f64 {
        let process = &section.process;
        // In a profile of an interval the end of all that have told none is the interval's.
        let of_all = self.profile.header.clock_last_ticks;
        let told = Some(process.clock_last_ticks).filter(|&ticks| ticks != 0 && ticks != of_all);
        let end = told.or_else(|| self.replaced.get(&section.number).copied());
        let lasted_ns = |end: u64| end.saturating_sub(since) as f64 * self.ns_per_tick;
        match end {
            _ if since == 0 => 0.0,
            Some(end) => lasted_ns(end),
            None => {
                let unseen_ns = self.unseen_ns.get(&(process.pid, thread.tid)).copied();
                let early_ns = if self.is_first(process) { 0.0 } else { unseen_ns.unwrap_or(f64::INFINITY) };
                (lasted_ns(of_all) - early_ns).max(0.0)
            }
        }
    }

    fn is_first(&self, process: &ProcessValues) -> bool {
        self.profile.sections.first().is_some_and(|first| first.process.pid == process.pid)
    }

    /// When the threads of a process ended that have not told their end, ns of the monotonic clock: with the process, which they did
    /// something in at the tick `active`. As long as the launcher has not told what it has seen, they may run on.
    pub(super) fn end_ns(&self, section: &Section, active: u64) -> u64 {
        let (process, header) = (&section.process, &self.profile.header);
        if process.clock_last_ns != 0 && process.clock_last_ns != header.clock_last_ns {
            return process.clock_last_ns;
        }
        let before_end_ns =
            |tick: u64| header.clock_last_ticks.saturating_sub(tick) as f64 * self.ns_per_tick;
        let early_ns = match self.replaced.get(&section.number) {
            Some(&first) => before_end_ns(first),
            None if self.profile.tasks.is_empty() || self.is_first(process) => 0.0,
            None => {
                let gone_ns = self.gone_ns.get(&process.pid).copied();
                gone_ns.unwrap_or(f64::INFINITY).min(before_end_ns(active))
            }
        };
        header.clock_last_ns.saturating_sub(early_ns as u64)
    }
}

/// A wait or hold that was not over.
#[derive(Clone, Copy)]
struct Lasting<'p> {
    position: u64,
    thread: &'p ThreadValues,
    shared: bool,
    for_ns: Option<f64>,
    /// The return address of the lock call; 0 if unknown.
    caller: u64,
}

/// Waits and holds of a process that were not over at its end, by the lock's number.
pub(super) struct UnendedOf<'p>(BTreeMap<u32, OfLock<'p>>);

#[derive(Default)]
struct OfLock<'p> {
    waits: Vec<Lasting<'p>>,
    holds: Vec<Lasting<'p>>,
    condition_ns: f64,
}

impl<'p> UnendedOf<'p> {
    pub(super) fn of(section: &'p Section, ends: &Ends<'_>) -> Self {
        let mut by_lock: BTreeMap<u32, OfLock<'p>> = BTreeMap::new();
        for (&position, thread) in &section.threads {
            let lasted_ns = ends.lasted_ns(section, thread, thread.lock_waited_since);
            if lasted_ns > 0.0 {
                by_lock.entry((thread.lock_waited >> 1) as u32).or_default().waits.push(Lasting {
                    position,
                    thread,
                    shared: thread.lock_waited & 1 == 1,
                    for_ns: Some(lasted_ns),
                    caller: thread.lock_waited_from,
                });
            }
        }
        let mut pairs: BTreeMap<u32, Vec<&PairRecord>> = BTreeMap::new();
        let mut waited_with: HashMap<u64, &PairRecord> = HashMap::new();
        for pair in &section.pairs {
            pairs.entry(pair.lock()).or_default().push(pair);
            let longest = waited_with.entry(pair.thread).or_insert(pair);
            let order = |pair: &PairRecord| (pair.values.condition_ticks, pair.values.released);
            if !pair.shared() && order(pair) > order(longest) {
                *longest = pair;
            }
        }
        for (position, pair) in waited_with {
            let Some(thread) = section.threads.get(&position) else { continue };
            let lasted_ns = ends.lasted_ns(section, thread, thread.waiting_since);
            if lasted_ns > 0.0 {
                by_lock.entry(pair.lock()).or_default().condition_ns += lasted_ns;
            }
        }
        for (lock, pairs) in pairs {
            let is_waited_for = by_lock.get(&lock).is_some_and(|of| !of.waits.is_empty());
            let holds =
                lasting_holds(&pairs).into_iter().filter(|pair| is_waited_for || gives_up_itself(pair));
            for pair in holds {
                let Some(thread) = section.threads.get(&pair.thread) else { continue };
                let lasted_ns = ends.lasted_ns(section, thread, pair.values.hold_started);
                by_lock.entry(lock).or_default().holds.push(Lasting {
                    position: pair.thread,
                    thread,
                    shared: pair.shared(),
                    for_ns: (pair.values.hold_started != 0).then_some(lasted_ns),
                    caller: pair.held_from(),
                });
            }
        }
        Self(by_lock)
    }

    /// Each lock's, by the two ways of using it, with the positions of the waiting threads.
    pub(super) fn sums(&self) -> impl Iterator<Item = (u32, [Unended; 2], impl Iterator<Item = u64>)> {
        self.0.iter().map(|(&lock, of)| {
            let sum = [false, true].map(|shared| {
                let ours = |all: &[Lasting<'_>]| {
                    let timed = all.iter().filter(|one| one.shared == shared).filter_map(|one| one.for_ns);
                    timed.fold((0, 0.0), |(count, ns), for_ns| (count + 1, ns + for_ns))
                };
                let ((waits, waited_ns), (holds, held_ns)) = (ours(&of.waits), ours(&of.holds));
                let condition_ns = if shared { 0.0 } else { of.condition_ns };
                Unended { waits, waited_ns, holds, held_ns, condition_ns }
            });
            (lock, sum, of.waits.iter().map(|wait| wait.position))
        })
    }

    /// Who waited for this lock and who held it; `None` if no thread waited.
    pub(super) fn finish(
        &self,
        section: &Section,
        lock: u32,
        taken_by: &TakenBy<'_>,
        symbols: &mut Symbols<'_>,
    ) -> Option<AtEnd> {
        let of = self.0.get(&lock).filter(|of| !of.waits.is_empty())?;
        let mut threads = |all: &[Lasting<'_>]| {
            let mut threads: Vec<_> =
                all.iter().map(|one| one.finish(section, lock, taken_by, symbols)).collect();
            let for_ns = |thread: &AtEndThread| thread.for_ns.unwrap_or(0.0);
            threads.sort_by(|a, b| for_ns(b).total_cmp(&for_ns(a)).then(a.tid.cmp(&b.tid)));
            threads
        };
        Some(AtEnd { waiters: threads(&of.waits), holders: threads(&of.holds) })
    }
}

impl Lasting<'_> {
    fn finish(
        &self,
        section: &Section,
        lock: u32,
        taken_by: &TakenBy<'_>,
        symbols: &mut Symbols<'_>,
    ) -> AtEndThread {
        let (function, source) = match self.caller {
            0 => (String::new(), None),
            caller => {
                let stacks = taken_by.stacks(lock, caller);
                let Place { function, source, .. } = place_of(section, caller, stacks, symbols);
                (function, source)
            }
        };
        AtEndThread {
            tid: self.thread.tid,
            name: thread_name(self.thread.name_0, self.thread.name_1),
            shared: self.shared,
            for_ns: self.for_ns,
            function,
            source,
        }
    }
}

/// The pairs of a lock whose threads seem to hold it. A thread does not notice that another one gives up what it holds: of several that
/// seem to hold it alone the last one counts, and none if another thread has released it since.
fn lasting_holds<'p>(pairs: &[&'p PairRecord]) -> Vec<&'p PairRecord> {
    let released = pairs.iter().map(|pair| pair.values.released).max().unwrap_or(0);
    let alone = pairs.iter().filter(|pair| !pair.shared() && pair.values.hold_started != 0);
    let last = alone.max_by_key(|pair| pair.values.hold_started);
    if let Some(last) = last.filter(|pair| pair.values.hold_started >= released) {
        return vec![last];
    }
    // Read holds are counted from bit 8 of the state on.
    pairs.iter().copied().filter(|pair| pair.shared() && pair.values.state >> 8 != 0).collect()
}

/// Whether the thread has given up itself what it held before, each time: then it will not be another one that gives this up.
fn gives_up_itself(pair: &PairRecord) -> bool {
    let (p, over) = (&pair.values, pair.timed_holds());
    over > 0 && p.acquisitions.saturating_sub(p.nested) == over.saturating_add(1)
}
