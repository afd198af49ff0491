//! A profile while its program runs: who waits for which lock and who holds it at a moment, and what happened between two.
//!
//! The program is not asked for anything: the file is read, and so are its clock and `/proc`. Words of a record are read one
//! after another while their thread may write them, so a figure of one moment may miss what happens in that very moment.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pthread::object::ObjectKind;
use rustix::fs::{FlockOperation, flock};
use rustix::time::ClockId;
use serde::Serialize;

use super::container::{CallerRecord, LockRecord, PairRecord, Section};
use super::names::{printable, thread_name};
use super::stacks::Call;
use super::striped::Striped;
use super::table::{LockId, LockKind, LockRow, Options, SiteUse};
use super::{Error, Profile, files};
use crate::clock::{clock_ns, ticks};
use crate::format::{RunValues, ThreadValues};
use crate::record::MERGED;

/// A way of using a lock: what a row of a live table is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockUse {
    /// The lock.
    pub lock: LockId,
    /// Whether it is acquired with others.
    pub shared: bool,
}

/// What a program did with its locks between two looks, and what its threads are in at the second. The JSON of it is stable:
/// fields are added, not changed.
#[derive(Clone, Debug, Serialize)]
pub struct LiveTable {
    /// About the program as a whole.
    pub header: LiveHeader,
    /// By threads waiting, then by time held, most first.
    pub rows: Vec<LiveRow>,
}

/// About the program as a whole.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LiveHeader {
    /// Version of the JSON; higher numbers may change the meaning of fields.
    pub schema: u32,
    /// The program and its arguments. Safe to print.
    pub command: Vec<String>,
    /// How the program ended; `None` while it runs.
    pub ended: Option<String>,
    /// Since the recording began, ns.
    pub elapsed_ns: f64,
    /// What rates are taken over, ns: from the look before to this one, or the whole run.
    pub span_ns: f64,
    /// Whether rates are those of the whole run: those of the first look.
    pub whole_run: bool,
    /// Process images that record and are there.
    pub processes: u64,
    /// Threads of theirs that touched a lock and have not ended.
    pub threads: u64,
    /// Times are taken on one pair in this many, at random. Where it is more than 1, a holder is known only if its hold is timed.
    pub sample_period: u64,
    /// Whether the recorder notes who waits; else nothing is known of present waits.
    pub marks_waits: bool,
    /// Events that were not recorded, because the file could not grow.
    pub dropped: u64,
}

/// A lock and a way of using it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LiveRow {
    /// What tells the row from others, as long as the file is the same.
    #[serde(skip)]
    pub id: LockUse,
    /// The lock's name, or its address as long as it has none. Safe to print.
    pub lock: String,
    /// Mutex, spin, rwlock read, rwlock write.
    #[serde(rename = "use")]
    pub way: String,
    /// The process, by its identifier.
    pub pid: u64,
    /// The process's program.
    pub program: String,
    /// Acquisitions, 1/s.
    pub acquires_per_s: f64,
    /// The part of them that had to wait, 0 to 1; `None` if there were none.
    pub contended_share: Option<f64>,
    /// Threads that waited for it, on average.
    pub waiting: f64,
    /// Threads that held it, on average: at most 1 unless it is shared.
    pub held: f64,
    /// Mean time from acquisition to release, ns, less what recording adds; `None` if none was timed.
    pub section_ns: Option<f64>,
    /// Threads that wait for it now; `None` if that is not known, or the program has ended.
    pub waiters_now: Option<u64>,
    /// How long the longest of these waits has lasted, ns; `None` if no thread is known to wait.
    pub longest_wait_ns: Option<f64>,
    /// Who waits longest.
    pub longest_waiter: Option<LiveThread>,
    /// Who holds it now, as far as is known: the one who took it first, where several read.
    pub holder: Option<LiveThread>,
    /// For how long, ns; `None` if that hold is not timed.
    pub holder_ns: Option<f64>,
    /// Threads that hold it now, as far as is known.
    pub holders_now: u64,
    /// What happened since the look before.
    #[serde(skip)]
    pub since: Since,
    /// From where it was waited for since the look before, and from where it was held meanwhile: waits that are over. The longest
    /// waits from there and behind it come first. A call that has no name yet is called by its address.
    pub call_sites: Vec<SiteUse>,
    /// The calls that made it, or with which a thread first touched it, innermost first.
    #[serde(skip)]
    pub calls: Arc<[Call]>,
    /// The striped locks that it is one of, as the lock table has them: the first of them, and the name of all.
    #[serde(skip)]
    pub stripe: Option<LiveStripe>,
    /// Its threads, those that waited most first.
    #[serde(skip)]
    pub threads: Vec<ThreadUse>,
}

/// The first lock of a stripe, and the name of all its locks.
pub type LiveStripe = (LockId, Arc<str>);

impl LiveRow {
    /// By threads waiting, then by time held, most first.
    pub(super) fn cmp_cost(&self, other: &Self) -> Ordering {
        let costs = |row: &Self| [row.waiting, row.held, row.acquires_per_s];
        let most_first = costs(other).into_iter().zip(costs(self)).map(|(b, a)| b.total_cmp(&a));
        let most_first = most_first.reduce(Ordering::then).expect("three of them");
        most_first.then_with(|| self.lock.cmp(&other.lock)).then_with(|| self.id.cmp(&other.id))
    }
}

/// What happened between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Since {
    /// Acquisitions.
    pub acquisitions: u64,
    /// Those that had to wait.
    pub contended: u64,
    /// Time waited, summed over threads, ns: waits that are not over included, from the first look on.
    pub waited_ns: f64,
    /// Time held, summed over threads, ns.
    pub held_ns: f64,
}

impl Since {
    /// Adds what happened elsewhere, or later.
    pub fn add(&mut self, more: &Self) {
        self.acquisitions = self.acquisitions.saturating_add(more.acquisitions);
        self.contended = self.contended.saturating_add(more.contended);
        self.waited_ns += more.waited_ns;
        self.held_ns += more.held_ns;
    }
}

/// A thread of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveThread {
    /// The kernel's identifier.
    pub tid: u64,
    /// Its name. Safe to print.
    pub name: String,
}

/// What one thread did with a lock.
#[derive(Clone, Debug, Default)]
pub struct ThreadUse {
    /// The thread.
    pub thread: LiveThread,
    /// What it did since the look before.
    pub since: Since,
    /// For how long it has been waiting, ns; `None` if it does not.
    pub waits_ns: Option<f64>,
    /// Whether it is known to hold the lock.
    pub holds: bool,
}

impl ThreadUse {
    /// By time waited, then by acquisitions, most first.
    pub(super) fn cmp_cost(&self, other: &Self) -> Ordering {
        let most_first = other.since.waited_ns.total_cmp(&self.since.waited_ns);
        most_first
            .then_with(|| other.since.acquisitions.cmp(&self.since.acquisitions))
            .then_with(|| self.thread.tid.cmp(&other.thread.tid))
    }
}

/// Looks at a profile, one after another.
#[derive(Debug)]
pub struct Watch {
    file: File,
    path: std::path::PathBuf,
    last: Option<Moment>,
    options: Options,
    names: Names,
    folds: bool,
}

impl Watch {
    /// Opens a profile. The file that has the name now is watched, whatever comes to the name later. `symbols` says whether
    /// the program's files are read for the names of locks.
    ///
    /// # Errors
    /// [`Error`], as [`Profile::open`].
    pub fn open(path: &Path, symbols: bool) -> Result<Self, Error> {
        let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
        let why_not = || match path.metadata() {
            Ok(_) => std::io::Error::other("it is no regular file, or may not be read"),
            Err(error) => error,
        };
        // The name may come from a process of another user, who may have put something else there meanwhile.
        let file = files::open(path).ok_or_else(why_not).map_err(unreadable)?;
        let options = Options { symbols, calls: true, ..Options::default() };
        Ok(Self { file, path: path.to_owned(), last: None, options, names: Names::default(), folds: false })
    }

    /// Whether striped locks are one row from now on.
    #[must_use]
    pub fn folding(self, folds: bool) -> Self {
        Self { folds, ..self }
    }

    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks once more. The first look is at the whole run up to now.
    ///
    /// # Errors
    /// [`Error`], as [`Profile::open`]; or the program was attached to.
    pub fn look(&mut self) -> Result<LiveTable, Error> {
        let profile = Profile::read(&self.file, &self.path)?;
        if profile.is_attached() {
            return Err(Error::Attached { path: self.path.clone() });
        }
        // After the reading: what was stamped meanwhile is not in the future.
        let now = Now { ticks: ticks(), ns: clock_ns(ClockId::Monotonic) };
        let moment = Moment::of(&profile, now, is_alive, || self.launcher_holds());
        self.names.learn(&profile, &moment, &self.options);
        let mut table = moment.since(self.last.as_ref(), &self.names);
        self.last = Some(moment);
        name_threads(&mut table);
        Ok(if self.folds { table.folded() } else { table })
    }

    /// Whether the launcher still has the file: it locks it against other launchers.
    fn launcher_holds(&self) -> bool {
        match flock(&self.file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                let _ = flock(&self.file, FlockOperation::Unlock);
                false
            }
            Err(error) => error == rustix::io::Errno::WOULDBLOCK,
        }
    }
}

/// What locks and their callers are called. Finding out reads the files of the program, which may be large, so it takes a tenth of the time at
/// most while new ones keep coming.
#[derive(Debug, Default)]
struct Names {
    known: HashMap<LockId, Named>,
    /// Callers that were looked up, whether or not that gave a name.
    callers: HashSet<(LockId, u64)>,
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct Named {
    name: String,
    kind: LockKind,
    program: String,
    calls: Arc<[Call]>,
    stripe: Option<LiveStripe>,
    /// By return address, the place that it stands for.
    call_sites: HashMap<u64, SiteUse>,
}

impl Named {
    /// The call site that a lock call with this return address belongs to.
    fn site(&self, caller: u64) -> Option<&SiteUse> {
        self.call_sites.get(&caller)
    }
}

impl Names {
    const PART: u32 = 10;

    fn learn(&mut self, profile: &Profile, moment: &Moment, options: &Options) {
        let started = Instant::now();
        let callers = moment
            .callers
            .iter()
            .flat_map(|(used, callers)| callers.keys().map(|&caller| (used.lock, caller)));
        let new = moment.pairs.keys().any(|(used, _)| !self.known.contains_key(&used.lock))
            || callers.clone().any(|caller| !self.callers.contains(&caller));
        if !new || self.not_before.is_some_and(|time| started < time) {
            return;
        }
        let table = profile.table(options);
        self.known.extend(table.rows.into_iter().map(|row| {
            let LockRow { id, name, kind, program, calls, call_sites, .. } = row;
            let mut by_caller: HashMap<u64, Vec<&SiteUse>> = HashMap::new();
            for (site, &caller) in
                call_sites.iter().flat_map(|site| site.callers.iter().map(move |of| (site, of)))
            {
                by_caller.entry(caller).or_default().push(site);
            }
            let either = |(caller, sites): (_, Vec<_>)| Some((caller, SiteUse::either(&sites)?));
            let call_sites = by_caller.into_iter().filter_map(either).collect();
            (id, Named { name, kind, program, calls, call_sites, stripe: None })
        }));
        for Striped { row, members, .. } in &table.striped {
            let Some(&first) = members.iter().min() else { continue };
            let stripe: LiveStripe = (first, row.name.clone().into());
            for member in members {
                if let Some(named) = self.known.get_mut(member) {
                    named.stripe = Some(stripe.clone());
                }
            }
        }
        self.callers.extend(callers);
        self.not_before = Some(started + (started.elapsed() * Self::PART).max(Duration::from_millis(1)));
    }
}

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
struct Now {
    ticks: u64,
    /// Of `CLOCK_MONOTONIC`.
    ns: u64,
}

/// A profile at a moment.
#[derive(Debug, Default)]
struct Moment {
    ticks: u64,
    ns_per_tick: f64,
    header: LiveHeader,
    /// By use and by position of the thread's record.
    pairs: HashMap<(LockUse, u64), PairNow>,
    /// By use and by the return address of the lock call.
    callers: HashMap<LockUse, HashMap<u64, CallerRecord>>,
    threads: HashMap<u64, LiveThread>,
    sections: HashMap<u64, SectionNow>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SectionNow {
    pid: u64,
    /// What recording adds to a hold, ticks.
    cost_in_hold: f64,
    /// Whether it notes who waits.
    marks_waits: bool,
}

/// What a thread did with a lock so far, and what it does now.
#[derive(Clone, Copy, Debug, Default)]
struct PairNow {
    counts: Counts,
    address: u64,
    /// Ticks at which its wait began.
    waits_since: Option<u64>,
    holds: Option<Hold>,
}

/// A hold that is not over, as far as the thread knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    /// Ticks at its beginning; `None` if it is not timed.
    since: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    acquisitions: u64,
    /// How often it was held.
    holds: u64,
    contended: u64,
    wait_ticks: u64,
    timed_holds: u64,
    hold_ticks: u64,
}

impl Counts {
    fn of(pair: &PairRecord) -> Self {
        let p = &pair.values;
        Self {
            acquisitions: p.acquisitions,
            holds: p.acquisitions.saturating_sub(p.nested),
            contended: p.contended,
            wait_ticks: p.wait_ticks,
            timed_holds: p.hold_same_count.saturating_add(p.hold_other_count),
            hold_ticks: p.hold_same_ticks.saturating_add(p.hold_other_ticks),
        }
    }

    fn less(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn and(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            acquisitions: of(self.acquisitions, other.acquisitions),
            holds: of(self.holds, other.holds),
            contended: of(self.contended, other.contended),
            wait_ticks: of(self.wait_ticks, other.wait_ticks),
            timed_holds: of(self.timed_holds, other.timed_holds),
            hold_ticks: of(self.hold_ticks, other.hold_ticks),
        }
    }
}

/// Counts of pairs whose records were given to other locks since an earlier look, by the row of merged locks that they have gone to.
/// They were told at that look, as those of their own locks.
#[derive(Default)]
struct Moved(HashMap<(LockUse, u64), Counts>);

impl Moved {
    fn between(before: &Moment, now: &Moment) -> Self {
        let mut moved: HashMap<_, Counts> = HashMap::new();
        for (&(used, thread), then) in &before.pairs {
            let counts = now.pairs.get(&(used, thread)).map(|pair| pair.counts).unwrap_or_default();
            if began_anew(&counts, &then.counts) {
                let merged = LockUse { lock: LockId { number: MERGED, ..used.lock }, ..used };
                let sum = moved.entry((merged, thread)).or_default();
                *sum = sum.and(then.counts);
            }
        }
        Self(moved)
    }

    /// What of a pair's counts was told before.
    fn before(&self, key: (LockUse, u64), now: &Counts, then: Counts) -> Counts {
        match self.0.get(&key) {
            _ if began_anew(now, &then) => Counts::default(),
            Some(&moved) => then.and(moved),
            None => then,
        }
    }
}

/// Counts never fall, but for those of a record that was given to another lock: if the thread uses the first one again, it has a new record.
fn began_anew(now: &Counts, then: &Counts) -> bool {
    now.acquisitions < then.acquisitions
}

impl Moment {
    fn of(
        profile: &Profile,
        now: Now,
        is_alive: impl Fn(u64) -> bool,
        launcher_holds: impl FnOnce() -> bool,
    ) -> Self {
        // A process that executes another program goes on under the same identifier, in a new section.
        let mut seen = HashSet::new();
        // Waits that are watched beside a recorder are another section of that recorder's process.
        let images = || profile.sections.iter().filter(|section| !section.is_watched());
        let present: HashSet<u64> = images()
            .rev()
            .filter(|section| {
                let p = &section.process;
                seen.insert(p.pid) && p.clock_last_ticks == 0 && profile.run.is_none() && is_alive(p.pid)
            })
            .map(|section| section.number)
            .collect();
        let ended = match &profile.run {
            Some(run) => Some(end_of(run)),
            None if present.is_empty() && !launcher_holds() => {
                Some("it is gone, and so is the `contend profile` that started it".to_owned())
            }
            None => None,
        };
        // A finished profile may come from another machine, whose clocks say nothing here.
        let h = &profile.header;
        let now = if ended.is_some() { Now { ticks: h.clock_last_ticks, ns: h.clock_last_ns } } else { now };
        let elapsed_ns = now.ns.saturating_sub(h.clock_first_ns) as f64;
        let elapsed_ticks = now.ticks.saturating_sub(h.clock_first_ticks) as f64;
        let running = ended.is_none() && elapsed_ticks > 0.0;
        let mut moment = Self {
            ticks: now.ticks,
            ns_per_tick: if running { elapsed_ns / elapsed_ticks } else { profile.ns_per_tick() },
            header: LiveHeader {
                schema: 1,
                command: profile.sections.first().map(Section::arguments).unwrap_or_default(),
                ended,
                elapsed_ns,
                processes: present.len() as u64,
                sample_period: h.sample_period.max(1),
                marks_waits: images().all(|section| section.process.marks_waits != 0),
                dropped: h.dropped,
                ..LiveHeader::default()
            },
            pairs: HashMap::new(),
            callers: HashMap::new(),
            threads: HashMap::new(),
            sections: HashMap::new(),
        };
        // A forked child uses its parent's locks, too.
        let locks = profile.sections.iter().flat_map(|section| &section.locks);
        let locks: HashMap<u32, &LockRecord> = locks.map(|(&number, lock)| (number, lock)).collect();
        for section in &profile.sections {
            moment.add(section, present.contains(&section.number), &locks);
        }
        moment
    }

    fn add(&mut self, section: &Section, present: bool, locks: &HashMap<u32, &LockRecord>) {
        let p = &section.process;
        let of_section = SectionNow {
            pid: p.pid,
            cost_in_hold: p.cost_in_hold as f64 / 1024.0,
            marks_waits: p.marks_waits != 0,
        };
        self.sections.insert(section.number, of_section);
        let used = |key: u64| LockUse {
            lock: LockId { section: section.number, number: (key >> 1) as u32 },
            shared: key & 1 == 1,
        };
        let mut touched = HashSet::new();
        for pair in &section.pairs {
            let values = &pair.values;
            let address = locks.get(&pair.lock()).map_or(0, |lock| lock.values.address);
            let now = self.pairs.entry((used(values.key), pair.thread)).or_default();
            now.counts = now.counts.and(Counts::of(pair));
            if now.counts.acquisitions.max(now.counts.contended) > 0 {
                touched.insert(pair.thread);
            }
            now.address = address;
            for record in pair.by_caller() {
                let callers = self.callers.entry(used(values.key)).or_default();
                callers.entry(record.caller).or_default().add(record);
            }
            // Read holds are counted from bit 8 of the state on.
            let reads = values.key & 1 == 1 && values.state >> 8 != 0;
            if present && (values.hold_started != 0 || reads) {
                now.holds = Some(Hold { since: Some(values.hold_started).filter(|&since| since != 0) });
            }
        }
        for (&position, thread) in &section.threads {
            self.threads.insert(position, name_of(thread));
            if present && thread.ended_ns == 0 {
                // One that has only joined others has a record, too.
                self.header.threads +=
                    u64::from(thread.lock_waited_since != 0 || touched.contains(&position));
                if thread.lock_waited_since != 0 {
                    let now = self.pairs.entry((used(thread.lock_waited), position)).or_default();
                    now.waits_since = Some(thread.lock_waited_since);
                }
            }
        }
    }

    /// The table of what happened since an earlier moment, or since the beginning.
    fn since(&self, before: Option<&Self>, names: &Names) -> LiveTable {
        let whole_run = before.is_none();
        let beginning = Self::default();
        let before = before.unwrap_or(&beginning);
        let span_ns = if whole_run {
            self.header.elapsed_ns
        } else {
            self.ns(self.ticks.saturating_sub(before.ticks) as f64)
        };
        let mut uses: HashMap<LockUse, Vec<u64>> = HashMap::new();
        for &(used, thread) in self.pairs.keys() {
            uses.entry(used).or_default().push(thread);
        }
        let moved = Moved::between(before, self);
        let mut rows: Vec<LiveRow> = uses
            .iter()
            .map(|(&used, threads)| self.row(used, threads, &uses, (before, &moved), span_ns, names))
            .collect();
        rows.retain(|row| row.since != Since::default() || row.waiters_now > Some(0) || row.holders_now > 0);
        rows.iter_mut().for_each(|row| row.call_sites = self.call_sites(row.id, before, names));
        rows.sort_by(LiveRow::cmp_cost);
        LiveTable { header: LiveHeader { span_ns, whole_run, ..self.header.clone() }, rows }
    }

    fn row(
        &self,
        used: LockUse,
        threads: &[u64],
        uses: &HashMap<LockUse, Vec<u64>>,
        (before, moved): (&Self, &Moved),
        span_ns: f64,
        names: &Names,
    ) -> LiveRow {
        let holders = self.holders(used, threads, uses, before);
        let of_section = self.sections.get(&used.lock.section).copied().unwrap_or_default();
        let mut counts = Counts::default();
        let mut since = Since::default();
        let mut of_threads: Vec<ThreadUse> = Vec::with_capacity(threads.len());
        for &thread in threads {
            let key = (used, thread);
            let (now, then) = (self.pairs[&key], before.pairs.get(&key).copied().unwrap_or_default());
            let then_counts = moved.before(key, &now.counts, then.counts);
            let new = now.counts.less(then_counts);
            counts = counts.and(new);
            let holds = holders.iter().any(|&(holder, _)| holder == thread);
            // Waits and holds that are not over are in no count yet; those that were not over then are in one, all of them.
            let waits = self.ongoing(now.waits_since) - before.ongoing(then.waits_since);
            let held = self.held_ticks(now.counts, of_section.cost_in_hold)
                - self.held_ticks(then_counts, of_section.cost_in_hold)
                + self.ongoing_hold_ticks(&now, before, &then, holds);
            let of_thread = Since {
                acquisitions: new.acquisitions,
                contended: new.contended,
                waited_ns: self.ns((new.wait_ticks as f64 + waits).max(0.0)),
                held_ns: self.ns(held.max(0.0)),
            };
            since.add(&of_thread);
            of_threads.push(ThreadUse {
                thread: self.threads.get(&thread).cloned().unwrap_or_default(),
                since: of_thread,
                waits_ns: now.waits_since.map(|since| self.ns(self.ongoing(Some(since)))),
                holds,
            });
        }
        of_threads.sort_by(ThreadUse::cmp_cost);
        let waits = of_threads.iter().filter_map(|of| Some((of.waits_ns?, &of.thread)));
        let longest = waits.clone().max_by(|a, b| a.0.total_cmp(&b.0));
        let first = holders.iter().min_by_key(|&&(_, hold)| hold.since.unwrap_or(u64::MAX));
        let per_second = |amount: f64| if span_ns > 0.0 { amount * 1e9 / span_ns } else { 0.0 };
        let threads_of = |ns: f64| if span_ns > 0.0 { ns / span_ns } else { 0.0 };
        let address = threads.iter().map(|&thread| self.pairs[&(used, thread)].address).max().unwrap_or(0);
        let named = names.known.get(&used.lock);
        let kind = named.map_or(LockKind::Mixed, |named| named.kind);
        let section_ticks = (counts.timed_holds > 0)
            .then(|| counts.hold_ticks as f64 / counts.timed_holds as f64 - of_section.cost_in_hold);
        LiveRow {
            id: used,
            lock: named.map_or_else(|| format!("(lock at {address:#x})"), |named| named.name.clone()),
            way: way(kind, used.shared),
            pid: of_section.pid,
            program: named.map_or_else(String::new, |named| named.program.clone()),
            acquires_per_s: per_second(since.acquisitions as f64),
            contended_share: (since.acquisitions > 0)
                .then(|| (since.contended as f64 / since.acquisitions as f64).min(1.0)),
            waiting: threads_of(since.waited_ns),
            held: threads_of(since.held_ns).min(if used.shared { f64::INFINITY } else { 1.0 }),
            section_ns: section_ticks.map(|ticks| self.ns(ticks.max(0.0))),
            waiters_now: (of_section.marks_waits && self.header.ended.is_none())
                .then(|| waits.count() as u64),
            longest_wait_ns: longest.map(|(ns, _)| ns),
            longest_waiter: longest.map(|(_, thread)| thread.clone()),
            holder: first.and_then(|(thread, _)| self.threads.get(thread).cloned()),
            holder_ns: first.and_then(|(_, hold)| hold.since).map(|since| self.ns(self.ongoing(Some(since)))),
            holders_now: holders.len() as u64,
            since,
            call_sites: Vec::new(),
            calls: named.map_or_else(Arc::default, |named| named.calls.clone()),
            stripe: named.and_then(|named| named.stripe.clone()),
            threads: of_threads,
        }
    }

    /// What was done from each call site since an earlier moment.
    fn call_sites(&self, used: LockUse, before: &Self, names: &Names) -> Vec<SiteUse> {
        let named = names.known.get(&used.lock);
        let own_ns = self.sections.get(&used.lock.section).map_or(0.0, |of| self.ns(of.cost_in_hold));
        let mut sites: BTreeMap<(String, Option<String>), SiteUse> = BTreeMap::new();
        for (&caller, &now) in self.callers.get(&used).into_iter().flatten() {
            let then = before.callers.get(&used).and_then(|callers| callers.get(&caller));
            let new = now.less(then.copied().unwrap_or_default());
            if !new.is_busy() {
                continue;
            }
            let site = named.and_then(|named| named.site(caller));
            let (function, source, file) = site.map_or_else(
                || (format!("{caller:#x}"), None, String::new()),
                |site| (site.function.clone(), site.source.clone(), site.file.clone()),
            );
            let several = site.is_some_and(|site| site.several);
            let site = sites.entry((function.clone(), source.clone())).or_insert_with(|| SiteUse {
                function,
                source,
                file,
                several,
                ..SiteUse::default()
            });
            site.add(&new, own_ns, |ticks| self.ns(ticks as f64));
        }
        let mut sites: Vec<_> = sites.into_values().collect();
        sites.sort_by(SiteUse::most_first);
        sites
    }

    /// Threads that hold a lock in this way. A thread does not notice that another one gives up what it holds; so of several
    /// that seem to hold it alone the last one counts, and none whose hold is from before the look before this one if others have
    /// had the lock since.
    fn holders(
        &self,
        used: LockUse,
        threads: &[u64],
        uses: &HashMap<LockUse, Vec<u64>>,
        before: &Self,
    ) -> Vec<(u64, Hold)> {
        let holds = threads.iter().filter_map(|&thread| Some((thread, self.pairs[&(used, thread)].holds?)));
        if used.shared {
            return holds.collect();
        }
        let last = holds.max_by_key(|(_, hold)| hold.since);
        let had_by_others = |holder: u64| {
            [false, true].into_iter().any(|shared| {
                let used = LockUse { shared, ..used };
                uses.get(&used).into_iter().flatten().filter(|&&thread| thread != holder).any(|&thread| {
                    let then = before.pairs.get(&(used, thread)).map_or(0, |pair| pair.counts.acquisitions);
                    self.pairs[&(used, thread)].counts.acquisitions > then
                })
            })
        };
        let is_stale = |&(thread, hold): &(u64, Hold)| {
            before.pairs.get(&(used, thread)).is_some_and(|then| then.holds == Some(hold))
                && had_by_others(thread)
        };
        last.filter(|hold| !is_stale(hold)).into_iter().collect()
    }

    /// How long what began at these ticks has lasted, ticks.
    fn ongoing(&self, since: Option<u64>) -> f64 {
        since.map_or(0.0, |since| self.ticks.saturating_sub(since) as f64)
    }

    /// Ticks since `before` of a pair's hold that is not over, which belongs to the pair if it `holds`; 0 where not every hold is timed.
    fn ongoing_hold_ticks(&self, now: &PairNow, before: &Self, then: &PairNow, holds: bool) -> f64 {
        if self.header.sample_period > 1 {
            return 0.0;
        }
        let held_now = now.holds.filter(|_| holds).and_then(|hold| hold.since);
        let held_then = then.holds.filter(|_| holds || then.holds != now.holds).and_then(|hold| hold.since);
        self.ongoing(held_now) - before.ongoing(held_then)
    }

    /// Ticks of all holds of a pair so far, by those that were timed. What is new since an earlier look is the difference, since the
    /// holds that are timed between two looks are none of those that begin there, or too few to tell of them.
    fn held_ticks(&self, counts: Counts, cost_in_hold: f64) -> f64 {
        let timed = counts.timed_holds as f64;
        let ticks = (counts.hold_ticks as f64 - cost_in_hold * timed).max(0.0);
        if self.header.sample_period <= 1 {
            return ticks;
        }
        if timed > 0.0 { ticks * (counts.holds as f64 / timed).max(1.0) } else { 0.0 }
    }

    fn ns(&self, ticks: f64) -> f64 {
        ticks * self.ns_per_tick
    }
}

/// How a row's use is called, as in the lock table.
fn way(kind: LockKind, shared: bool) -> String {
    match (kind, shared) {
        (_, true) => format!("{} read", kind.name()),
        (LockKind::Object(ObjectKind::Rwlock), false) => format!("{} write", kind.name()),
        _ => kind.name().to_owned(),
    }
}

fn name_of(thread: &ThreadValues) -> LiveThread {
    LiveThread { tid: thread.tid, name: thread_name(thread.name_0, thread.name_1) }
}

/// Asks the kernel for the names of threads that their recorder has not looked at.
fn name_threads(table: &mut LiveTable) {
    let mut names: HashMap<(u64, u64), String> = HashMap::new();
    for row in &mut table.rows {
        let threads = row
            .threads
            .iter_mut()
            .map(|of| &mut of.thread)
            .chain(&mut row.holder)
            .chain(&mut row.longest_waiter);
        for thread in threads.filter(|thread| thread.name.is_empty() && thread.tid != 0) {
            let (pid, tid) = (row.pid, thread.tid);
            let name = names.entry((pid, tid)).or_insert_with(|| {
                let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
                printable(name.unwrap_or_default().trim_end_matches('\n'))
            });
            thread.name.clone_from(name);
        }
    }
}

fn end_of(run: &RunValues) -> String {
    match run.ended {
        1 => format!("it exited with {}", run.status),
        2 => format!("it was ended by signal {}", run.status),
        _ => "it is over".to_owned(),
    }
}

/// Whether there is a process of this identifier that is not only waited for.
fn is_alive(pid: u64) -> bool {
    match std::fs::read_link(format!("/proc/{pid}/exe")) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{HeaderValues, PairValues, ProcessValues};

    /// A tick is a nanosecond in all of these.
    const TICKS: fn(u64) -> Now = |ticks| Now { ticks, ns: ticks };

    /// A process of two threads, at positions 1 and 2 of the file, that is there.
    fn profile(pairs: &[(u64, PairValues)], waits: [Option<u64>; 2]) -> Profile {
        let thread = |tid: u64, since: Option<u64>| ThreadValues {
            tid,
            name_0: u64::from_le_bytes(*b"wor\x1bker\0"),
            lock_waited_since: since.unwrap_or(0),
            lock_waited: KEY,
            ..ThreadValues::default()
        };
        let section = Section {
            number: 7,
            process: ProcessValues { pid: 40, marks_waits: 1, ..ProcessValues::default() },
            arguments: b"server\x1b[2J\0".to_vec(),
            threads: [(1, thread(41, waits[0])), (2, thread(42, waits[1]))].into(),
            pairs: pairs.iter().map(|&(thread, values)| PairRecord::cold(thread, values)).collect(),
            ..Section::default()
        };
        let header = HeaderValues { sample_period: 1, ..HeaderValues::default() };
        Profile {
            path: "p".into(),
            header,
            sections: vec![section],
            run: None,
            tasks: Vec::new(),
            kernel: None,
        }
    }

    const KEY: u64 = 20;

    fn pair(acquisitions: u64, wait_ticks: u64, hold_ticks: u64, hold_started: u64) -> PairValues {
        let contended = u64::from(wait_ticks > 0);
        let (hold_same_count, hold_same_ticks) = (acquisitions - u64::from(hold_started > 0), hold_ticks);
        PairValues {
            key: KEY,
            acquisitions,
            contended,
            wait_ticks,
            hold_same_count,
            hold_same_ticks,
            hold_started,
            ..PairValues::default()
        }
    }

    fn moment(profile: &Profile, ticks: u64) -> Moment {
        Moment::of(profile, TICKS(ticks), |pid| pid == 40, || false)
    }

    fn only(table: LiveTable) -> LiveRow {
        let [row] = <[LiveRow; 1]>::try_from(table.rows).unwrap();
        row
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let names = Names::default();
        let first =
            moment(&profile(&[(1, pair(10, 0, 500, 0)), (2, pair(5, 100, 250, 0))], [None; 2]), 2_000);
        let second =
            moment(&profile(&[(1, pair(30, 0, 900, 0)), (2, pair(5, 100, 250, 0))], [None; 2]), 4_000);
        let whole = first.since(None, &names);
        assert_eq!((whole.header.whole_run, whole.header.span_ns, whole.header.threads), (true, 2_000.0, 2));
        assert_eq!(whole.header.command, ["server\\u{1b}[2J"]);
        let row = only(whole);
        assert_eq!(row.since, Since { acquisitions: 15, contended: 1, waited_ns: 100.0, held_ns: 750.0 });
        assert_eq!((row.acquires_per_s, row.waiting, row.held), (7.5e6, 0.05, 0.375));
        assert_eq!((row.contended_share, row.section_ns), (Some(1.0 / 15.0), Some(50.0)));
        let then = second.since(Some(&first), &names);
        assert!(!then.header.whole_run);
        let row = only(then);
        assert_eq!(row.since, Since { acquisitions: 20, contended: 0, waited_ns: 0.0, held_ns: 400.0 });
        assert_eq!((row.acquires_per_s, row.contended_share, row.section_ns), (1e7, Some(0.0), Some(20.0)));
        assert_eq!((row.waiters_now, row.holder, row.holders_now), (Some(0), None, 0));
        assert!(
            second.since(Some(&second), &names).rows.is_empty(),
            "nothing happened, and no span is no division by it"
        );
    }

    /// What is known of a lock's callers, and one that has no name yet.
    #[test]
    fn call_sites_are_those_between_two_looks() {
        let site = SiteUse { function: "get".into(), ..SiteUse::default() };
        let named = Named {
            stripe: None,
            name: "cache".into(),
            kind: LockKind::Object(ObjectKind::Mutex),
            program: String::new(),
            calls: Arc::default(),
            call_sites: [(0x50, site.clone()), (0x51, site)].into(),
        };
        let lock = LockId { section: 7, number: 10 };
        let names = Names { known: [(lock, named)].into(), ..Names::default() };
        let look = |ticks, waited: u64| {
            let mut profile = profile(&[(1, pair(waited, 0, 500, 0))], [None; 2]);
            profile.sections[0].process.cost_in_hold = 3 * 1024;
            let mut moment = moment(&profile, ticks);
            let record = |caller, wait_ticks, behind_ticks| {
                let held = CallerRecord { holds: 2, hold_ticks: 20, ..CallerRecord::default() };
                (caller, CallerRecord { caller, waits: 1, wait_ticks, behind_ticks, ..held })
            };
            let mut records =
                HashMap::from([record(0x50, 100, 0), record(0x51, waited, 0), record(0x60, 7, waited)]);
            if waited > 10 {
                records.values_mut().for_each(|record| record.waits += 2);
            }
            moment.callers.insert(LockUse { lock, shared: false }, records);
            moment
        };
        let (first, second) = (look(1_000, 10), look(2_000, 400));
        let of = |row: LiveRow| -> Vec<_> {
            let sites = row.call_sites.into_iter();
            sites.map(|site| (site.function, site.waits, site.waited_ns, site.behind_ns)).collect()
        };
        let held = only(first.since(None, &names)).call_sites.iter().map(|site| site.held_ns).sum::<f64>();
        assert_eq!(held, 3.0 * 14.0, "without what recording adds");
        assert_eq!(
            of(only(first.since(None, &names))),
            [("get".to_owned(), 2, 110.0, 0.0), ("0x60".to_owned(), 1, 7.0, 10.0)]
        );
        assert_eq!(
            of(only(second.since(Some(&first), &names))),
            [("0x60".to_owned(), 2, 0.0, 390.0), ("get".to_owned(), 4, 390.0, 0.0)]
        );
        let third = look(3_000, 400);
        assert!(third.since(Some(&second), &names).rows.iter().all(|row| row.call_sites.is_empty()));
    }

    #[test]
    fn what_is_not_over_counts_in_the_span_that_it_falls_into() {
        let names = Names::default();
        let waits = |ticks, since| {
            moment(&profile(&[(1, pair(1, 0, 0, 1_000)), (2, pair(0, 0, 0, 0))], [None, since]), ticks)
        };
        let (first, second) = (waits(2_000, Some(1_500)), waits(4_000, Some(1_500)));
        let row = only(first.since(None, &names));
        assert_eq!(
            (row.waiters_now, row.longest_wait_ns, row.since.waited_ns),
            (Some(1), Some(500.0), 500.0)
        );
        assert_eq!((row.holder_ns, row.since.held_ns), (Some(1_000.0), 1_000.0));
        let row = only(second.since(Some(&first), &names));
        assert_eq!((row.waiting, row.held, row.longest_wait_ns), (1.0, 1.0, Some(2_500.0)));
        let thread = |tid| Some(LiveThread { tid, name: "wor\\u{1b}ker".into() });
        assert_eq!((row.holder, row.longest_waiter), (thread(41), thread(42)));
        assert_eq!(
            (row.threads[0].thread.tid, row.threads[0].waits_ns, row.threads[1].holds),
            (42, Some(2_500.0), true)
        );
        // Over at 5,000: all of it is in the counts at once.
        let over =
            moment(&profile(&[(1, pair(1, 0, 4_000, 0)), (2, pair(1, 3_500, 0, 5_000))], [None; 2]), 6_000);
        let row = only(over.since(Some(&second), &names));
        assert_eq!((row.since.waited_ns, row.since.held_ns), (1_000.0, 2_000.0));
        assert_eq!(row.holder.map(|thread| thread.tid), Some(42));
    }

    /// Thread 1 takes the lock and another thread gives it up: its record still says that it holds it.
    #[test]
    fn a_hold_that_others_followed_is_over() {
        let names = Names::default();
        let look = |ticks, others| {
            moment(&profile(&[(1, pair(1, 0, 0, 1_000)), (2, pair(others, 0, 0, 0))], [None; 2]), ticks)
        };
        let (first, second, third) = (look(2_000, 0), look(3_000, 4), look(4_000, 4));
        assert_eq!(only(first.since(None, &names)).holders_now, 1);
        let row = only(second.since(Some(&first), &names));
        assert_eq!((row.holders_now, row.holder, row.holder_ns, row.since.held_ns), (0, None, None, 0.0));
        let newer =
            moment(&profile(&[(1, pair(1, 0, 0, 1_000)), (2, pair(5, 0, 0, 3_500))], [None; 2]), 4_000);
        assert_eq!(only(newer.since(Some(&second), &names)).holder.unwrap().tid, 42);
        assert_eq!(
            third.since(Some(&second), &names).rows[0].holders_now,
            1,
            "no thread had it since: it may be held again"
        );
    }

    #[test]
    fn who_is_gone_neither_waits_nor_holds() {
        let held = profile(&[(1, pair(1, 0, 0, 1_000))], [None, Some(1_500)]);
        let names = Names::default();
        let look = |profile: &Profile, launcher| Moment::of(profile, TICKS(2_000), |_| false, || launcher);
        let gone = look(&held, false).since(None, &names);
        assert!(gone.header.ended.as_deref().is_some_and(|why| why.contains("gone")), "{:?}", gone.header);
        assert_eq!((gone.rows[0].holders_now, gone.rows[0].waiters_now), (0, None));
        assert_eq!(look(&held, true).header.ended, None);
        let mut finished = held.clone();
        finished.run = Some(RunValues { ended: 2, status: 9, elapsed_ns: 1, ..RunValues::default() });
        assert_eq!(moment(&finished, 2_000).header.ended.as_deref(), Some("it was ended by signal 9"));
        // The same process with another program.
        let mut replaced = held.clone();
        replaced.sections.push(Section {
            number: 9,
            ..Section { threads: Default::default(), pairs: Vec::new(), ..held.sections[0].clone() }
        });
        assert_eq!(moment(&replaced, 2_000).since(None, &names).rows[0].holders_now, 0);
        // A recorder of before says nothing of waits.
        let mut old = held;
        old.sections[0].process.marks_waits = 0;
        assert_eq!(only(moment(&old, 2_000).since(None, &names)).waiters_now, None);
    }

    #[test]
    fn waits_that_are_watched_beside_the_recorder_are_no_process_of_their_own() {
        let mut both = profile(&[(1, pair(100, 0, 500, 0))], [None; 2]);
        let (mut watched, known) = (both.sections[0].clone(), both.sections[0].process);
        watched.number = 8;
        watched.process = ProcessValues { attached: 1, marks_waits: 0, ..known };
        both.sections.push(watched);
        let table = moment(&both, 10_000).since(None, &Names::default());
        assert_eq!((table.header.processes, table.header.threads, table.header.marks_waits), (1, 1, true));
        let waiters =
            |section| table.rows.iter().find(|row| row.id.lock.section == section).unwrap().waiters_now;
        assert_eq!((waiters(7), waiters(8)), (Some(0), None));
    }

    #[test]
    fn sampled_holds_stand_for_all() {
        let mut sampled =
            profile(&[(1, PairValues { hold_same_count: 10, ..pair(100, 0, 500, 0) })], [None; 2]);
        sampled.header.sample_period = 10;
        sampled.sections[0].process.cost_in_hold = 20 * 1024;
        let row = only(moment(&sampled, 10_000).since(None, &Names::default()));
        assert_eq!((row.since.held_ns, row.section_ns), (3_000.0, Some(30.0)));
    }

    /// Which of them are timed is chance, and what a look has timed began before it.
    #[test]
    fn a_sampled_hold_counts_when_it_ends_and_rare_ones_in_the_mean() {
        let look = |acquisitions, timed, ticks| {
            let pair =
                PairValues { hold_same_count: timed, hold_same_ticks: ticks, ..pair(acquisitions, 0, 0, 0) };
            let mut sampled = profile(&[(1, pair)], [None; 2]);
            sampled.header.sample_period = 64;
            moment(&sampled, 10_000)
        };
        let looks = [look(0, 0, 0), look(1, 0, 0), look(1, 1, 5_000), look(20, 1, 5_000), look(20, 2, 6_000)];
        let names = Names::default();
        let held = looks.windows(2).map(|pair| {
            let table = pair[1].since(Some(&pair[0]), &names);
            table.rows.first().map_or(0.0, |row| row.since.held_ns)
        });
        let held: Vec<f64> = held.collect();
        assert_eq!(held, [0.0, 5_000.0, 95_000.0, 0.0]);
    }

    #[test]
    fn what_moves_to_the_merged_row_is_not_counted_again() {
        let merged = |acquisitions| PairValues { key: u64::from(MERGED) << 1, ..pair(acquisitions, 0, 0, 0) };
        let other = |acquisitions| PairValues { key: KEY + 2, ..pair(acquisitions, 0, 0, 0) };
        let first = moment(&profile(&[(1, pair(1_000, 0, 0, 0)), (1, merged(10))], [None; 2]), 1_000);
        // Its record is another lock's, and five more of its acquisitions were counted before.
        let second = moment(&profile(&[(1, other(3)), (1, merged(1_017))], [None; 2]), 2_000);
        let table = second.since(Some(&first), &Names::default());
        let counted = |key: u64| {
            let number = (key >> 1) as u32;
            table.rows.iter().find(|row| row.id.lock.number == number).map(|row| row.since.acquisitions)
        };
        assert_eq!(
            (counted(KEY), counted(KEY + 2), counted(u64::from(MERGED) << 1)),
            (None, Some(3), Some(7))
        );
        let third = moment(&profile(&[(1, pair(2, 0, 0, 0)), (1, merged(1_020))], [None; 2]), 3_000);
        let again = third.since(Some(&second), &Names::default());
        assert_eq!(again.rows.iter().map(|row| row.since.acquisitions).sum::<u64>(), 2, "{:?}", again.rows);
    }

    #[test]
    fn a_file_that_lies_gives_figures_all_the_same() {
        const ALL: u64 = u64::MAX;
        let lies = PairValues {
            acquisitions: ALL,
            contended: ALL,
            wait_ticks: ALL,
            hold_same_count: ALL,
            hold_same_ticks: ALL,
            hold_other_count: ALL,
            hold_other_ticks: ALL,
            condition_waits: ALL,
            hold_started: ALL,
            ..pair(1, 0, 0, 1)
        };
        for period in [0, 1, 1_000] {
            let mut file = profile(&[(1, lies), (2, lies), (3, lies), (1, lies)], [Some(ALL), Some(1)]);
            file.header =
                HeaderValues { sample_period: period, clock_first_ns: ALL, dropped: ALL, ..file.header };
            let (first, second) = (moment(&file, 2_000), moment(&file, 1_000));
            for table in [first.since(None, &Names::default()), second.since(Some(&first), &Names::default())]
            {
                let figures = table.rows.iter().flat_map(|row| [row.waiting, row.held, row.acquires_per_s]);
                assert!(
                    figures.clone().all(|figure| figure.is_finite() && figure >= 0.0),
                    "{:?}",
                    table.rows
                );
            }
        }
    }

    #[test]
    fn readers_hold_together() {
        let reader = PairValues { key: KEY | 1, state: 1 << 8, ..pair(1, 0, 0, 0) };
        let timed = PairValues { hold_started: 1_200, ..reader };
        let row = only(
            moment(&profile(&[(1, reader), (2, timed)], [None; 2]), 2_000).since(None, &Names::default()),
        );
        assert_eq!((row.holders_now, row.holder.unwrap().tid, row.holder_ns), (2, 42, Some(800.0)));
        assert!(row.way.ends_with(" read"), "{}", row.way);
    }
}
