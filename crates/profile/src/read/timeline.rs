//! The longest waits of a profile one by one: who waited when, and which hold kept it waiting.
//!
//! A record says which hold ended its wait. That need not be the one that the wait was for: where several threads wait for a slow
//! holder, the next of them is served by the one before, whose hold may be short. So of all holds of the lock that the records tell of, the
//! one that lasted through most of the wait counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Profile;
use super::call_sites::{Place, TakenBy, place_of};
use super::container::{Section, WaitRecord};
use super::debug_info::Contents;
use super::lock_names::caller_of;
use super::names::thread_name;
use super::rows::program_of;
use super::symbols::{Function, Symbols};
use super::table::LockTable;
use crate::record::LONGEST_WAITS;

/// The highest identifier of a process or thread that Linux gives (`PID_MAX_LIMIT`).
pub(super) const HIGHEST_ID: u64 = 1 << 22;

/// The latest time, ns: up to it numbers with a fraction, as traces have, tell one nanosecond from the next.
const LATEST_NS: f64 = (1u64 << 53) as f64;

/// Between the end of a wait and the time at which the hold after it is taken to begin, ns: meanwhile the wait is kept, and the kernel is
/// asked for switches.
const WAIT_TO_HOLD_NS: f64 = 100_000.0;

/// A thread of a process, by their identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Of the process.
    pub pid: u64,
    /// Of the thread.
    pub tid: u64,
}

/// Where a lock is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockSite {
    /// The function, without wrappers of locks; several where the calls do not tell them apart. Safe to print.
    pub function: String,
    /// File and line, as `cache.c:12`.
    pub source: Option<String>,
    /// The calls, innermost first, with file and line where they are known.
    pub stack: Vec<String>,
    /// Whether these are all calls. Else they are those that all known stacks with this call have in common.
    pub whole: bool,
}

/// A wait for a lock. Times are ns from when the first process began to record.
#[derive(Clone, Debug)]
pub struct SingleWait {
    /// Who waited.
    pub thread: ThreadId,
    /// The lock, as the table has it.
    pub lock: Arc<str>,
    /// Whether it was to be shared with others.
    pub shared: bool,
    /// When it began.
    pub begin_ns: u64,
    /// When the thread had the lock.
    pub end_ns: u64,
    /// Where.
    pub site: Arc<LockSite>,
    /// What kept it, as far as that is known.
    pub behind: Option<Behind>,
}

/// What kept a wait.
#[derive(Clone, Debug)]
pub struct Behind {
    /// Who had the lock.
    pub thread: ThreadId,
    /// Where that thread had taken it.
    pub site: Arc<LockSite>,
    /// Index of the hold in [`Timeline::holds`]; `None` if it is not known how long it was.
    pub hold: Option<usize>,
}

/// A hold that others waited for. Times are as those of a [`SingleWait`].
#[derive(Clone, Debug)]
pub struct SingleHold {
    /// Who had the lock.
    pub thread: ThreadId,
    /// The lock.
    pub lock: Arc<str>,
    /// When it was acquired.
    pub begin_ns: u64,
    /// When it was released.
    pub end_ns: u64,
    /// Where it was acquired.
    pub site: Arc<LockSite>,
}

/// The longest waits of all processes together, [`LONGEST_WAITS`] at most, and the holds that they were for.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// By their beginning.
    pub waits: Vec<SingleWait>,
    /// In no order.
    pub holds: Vec<SingleHold>,
    /// Names of processes.
    pub processes: BTreeMap<u64, String>,
    /// Names of threads.
    pub threads: BTreeMap<ThreadId, String>,
    /// Waits that may have been among the longest, and were not kept.
    pub missed: u64,
}

impl Timeline {
    pub(super) fn of(profile: &Profile, table: &LockTable, symbols: bool) -> Self {
        let clock = Clock::of(profile);
        let mut kept: Vec<_> = profile
            .sections
            .iter()
            .flat_map(|section| section.waits.iter().filter_map(|record| Kept::of(section, record, &clock)))
            .collect();
        kept.sort_by_key(|kept| (std::cmp::Reverse(kept.end_ns - kept.begin_ns), kept.begin_ns));
        kept.truncate(LONGEST_WAITS);
        kept.sort_by_key(|kept| kept.begin_ns);
        let contents = Contents::default();
        let missed = profile.sections.iter().map(|section| section.process.waits_missed);
        Building {
            clock,
            locks: table.rows.iter().map(|row| ((row.id.section, row.id.number), &*row.name)).collect(),
            symbols: Symbols::new(symbols.then_some(&contents)),
            names: HashMap::new(),
            taken_by: HashMap::new(),
            waited_at: HashMap::new(),
            held_at: HashMap::new(),
            timeline: Self { missed: missed.fold(0, u64::saturating_add), ..Self::default() },
        }
        .finish(&kept)
    }
}

/// Ticks as times.
struct Clock {
    first: u64,
    last: u64,
    ns_per_tick: f64,
}

impl Clock {
    fn of(profile: &Profile) -> Self {
        let ends = profile.sections.iter().map(|section| section.process.clock_last_ticks);
        // The file is made before the program is started.
        let starts = profile.sections.iter().map(|section| section.process.clock_first_ticks);
        Self {
            first: starts.min().unwrap_or(0).max(profile.header.clock_first_ticks),
            last: ends.fold(profile.header.clock_last_ticks, u64::max),
            ns_per_tick: profile.ns_per_tick(),
        }
    }

    /// Ns from when the first process began to record; `None` for what is not within the recording.
    fn ns(&self, ticks: u64) -> Option<u64> {
        let ns = (self.first..=self.last).contains(&ticks).then_some(ticks)?.saturating_sub(self.first)
            as f64
            * self.ns_per_tick;
        (ns <= LATEST_NS).then_some(ns.round() as u64)
    }
}

/// A wait that can have been.
struct Kept<'p> {
    section: &'p Section,
    record: &'p WaitRecord,
    thread: ThreadId,
    lock: u32,
    begin_ns: u64,
    end_ns: u64,
}

impl<'p> Kept<'p> {
    /// `None` of a record that no recorder writes.
    fn of(section: &'p Section, record: &'p WaitRecord, clock: &Clock) -> Option<Self> {
        let values = &record.values;
        let (begin_ns, end_ns) = (clock.ns(values.began)?, clock.ns(values.ended)?);
        let lock = u32::try_from(values.key >> 1).ok()?;
        let thread = thread_id(section, values.tid)?;
        (begin_ns <= end_ns).then_some(Self { section, record, thread, lock, begin_ns, end_ns })
    }
}

/// `None` where no kernel gives such identifiers.
fn thread_id(section: &Section, tid: u64) -> Option<ThreadId> {
    let thread = ThreadId { pid: section.process.pid, tid };
    [thread.pid, thread.tid].iter().all(|id| (1..=HIGHEST_ID).contains(id)).then_some(thread)
}

/// A lock of a process image.
type LockOf = (u64, u32);

/// A timeline that is being made.
struct Building<'p, 't, 'f> {
    clock: Clock,
    /// Names of locks.
    locks: HashMap<LockOf, &'t str>,
    symbols: Symbols<'f>,
    names: HashMap<LockOf, Arc<str>>,
    /// By section.
    taken_by: HashMap<u64, TakenBy<'p>>,
    /// By section and stack.
    waited_at: HashMap<(u64, &'p [u64]), Arc<LockSite>>,
    /// By lock and return address.
    held_at: HashMap<(LockOf, u64), Arc<LockSite>>,
    timeline: Timeline,
}

impl<'p> Building<'p, '_, '_> {
    /// `kept` is sorted by the beginnings of the waits.
    fn finish(mut self, kept: &[Kept<'p>]) -> Timeline {
        let own_waits = own_waits(kept);
        // By lock and end, with who had it: readers may have released it at the same moment.
        let mut known: HashMap<(LockOf, u64, ThreadId), usize> = HashMap::new();
        let mut of_lock: HashMap<LockOf, Vec<usize>> = HashMap::new();
        for wait in kept {
            let Some((thread, begin_ns, end_ns)) = self.hold_before(wait) else { continue };
            let lock = (wait.section.number, wait.lock);
            let number = self.timeline.holds.len();
            if *known.entry((lock, wait.record.values.released, thread)).or_insert(number) == number {
                let own = own_waits.get(&(lock, wait.record.values.holder));
                let site = self.site_of_hold(wait, begin_ns, own.map_or(&[], Vec::as_slice));
                let hold = SingleHold { thread, lock: self.name(wait), begin_ns, end_ns, site };
                self.name_thread(wait.section, thread, wait.record.values.holder);
                self.timeline.holds.push(hold);
                of_lock.entry(lock).or_default().push(number);
            }
        }
        for wait in kept {
            let holds = of_lock.get(&(wait.section.number, wait.lock)).map_or(&[][..], Vec::as_slice);
            let single = SingleWait {
                thread: wait.thread,
                lock: self.name(wait),
                shared: wait.record.values.key & 1 != 0,
                begin_ns: wait.begin_ns,
                end_ns: wait.end_ns,
                site: self.site_of_stack(wait),
                behind: self.behind(wait, holds),
            };
            self.name_thread(wait.section, wait.thread, wait.record.values.thread);
            self.timeline.waits.push(single);
        }
        self.timeline
    }

    /// The hold whose release ended a wait: by whom, from when to when.
    fn hold_before(&self, wait: &Kept<'p>) -> Option<(ThreadId, u64, u64)> {
        let values = &wait.record.values;
        let thread = thread_id(wait.section, values.holder_tid)?;
        if !(values.began..=values.ended).contains(&values.released) || values.held_since > values.released {
            return None;
        }
        Some((thread, self.clock.ns(values.held_since)?, self.clock.ns(values.released)?))
    }

    /// What kept a wait: of these holds of its lock the one that lasted through most of it, or else the thread that had the lock
    /// before.
    fn behind(&mut self, wait: &Kept<'p>, holds: &[usize]) -> Option<Behind> {
        let through_ns =
            |hold: &SingleHold| hold.end_ns.min(wait.end_ns).saturating_sub(hold.begin_ns.max(wait.begin_ns));
        let others = holds.iter().map(|&number| (number, &self.timeline.holds[number]));
        let longest = others
            .filter(|(_, hold)| hold.thread != wait.thread && through_ns(hold) > 0)
            .max_by_key(|(_, hold)| through_ns(hold));
        if let Some((number, hold)) = longest {
            return Some(Behind { thread: hold.thread, site: hold.site.clone(), hold: Some(number) });
        }
        let values = &wait.record.values;
        let thread = thread_id(wait.section, values.holder_tid)?;
        self.name_thread(wait.section, thread, values.holder);
        Some(Behind { thread, site: self.site_of_hold(wait, 0, &[]), hold: None })
    }

    fn name(&mut self, wait: &Kept<'p>) -> Arc<str> {
        let lock = (wait.section.number, wait.lock);
        let found = self.locks.get(&lock).copied().unwrap_or("(locks without a record)");
        self.names.entry(lock).or_insert_with(|| found.into()).clone()
    }

    /// `record` is the position of the thread's.
    fn name_thread(&mut self, section: &Section, thread: ThreadId, record: u64) {
        self.timeline.processes.entry(thread.pid).or_insert_with(|| program_of(section));
        let name = section.threads.get(&record).map(|values| thread_name(values.name_0, values.name_1));
        let name = name.filter(|name| !name.is_empty());
        self.timeline.threads.entry(thread).or_insert_with(|| name.unwrap_or_else(|| "thread".into()));
    }

    fn site_of_stack(&mut self, wait: &Kept<'p>) -> Arc<LockSite> {
        let (section, frames) = (wait.section, &*wait.record.frames);
        let symbols = &mut self.symbols;
        let new = || {
            let caller = caller_of(section, frames, symbols);
            Arc::new(LockSite {
                function: caller.as_ref().map_or_else(String::new, |caller| caller.name.clone()),
                source: caller.and_then(|caller| place_in(&caller)),
                stack: stack_of(section, frames, symbols),
                whole: true,
            })
        };
        self.waited_at.entry((section.number, frames)).or_insert_with(new).clone()
    }

    /// Where the lock was taken by the thread that released it before this wait ended. If that thread had waited for it just
    /// before that hold, the stack of that wait is the hold's.
    fn site_of_hold(&mut self, wait: &Kept<'p>, begin_ns: u64, own: &[&Kept<'p>]) -> Arc<LockSite> {
        let caller = wait.record.values.holder_caller;
        let before = own.partition_point(|own| own.end_ns <= begin_ns);
        if let Some(own) = before.checked_sub(1).map(|last| own[last])
            && ((begin_ns - own.end_ns) as f64) < WAIT_TO_HOLD_NS
            && own.record.frames.first() == Some(&caller)
        {
            return self.site_of_stack(own);
        }
        let (section, lock) = (wait.section, (wait.section.number, wait.lock));
        let taken_by = self.taken_by.entry(section.number).or_insert_with(|| TakenBy::of(section));
        let symbols = &mut self.symbols;
        let new = || {
            if caller == 0 {
                return Arc::default();
            }
            let stacks = taken_by.stacks(wait.lock, caller);
            let Place { function, source, .. } = place_of(section, caller, stacks, symbols);
            let frames = in_common(stacks).unwrap_or(std::slice::from_ref(&caller));
            let stack = stack_of(section, frames, symbols);
            Arc::new(LockSite { function, source, stack, whole: stacks.len() == 1 })
        };
        self.held_at.entry((lock, caller)).or_insert_with(new).clone()
    }
}

/// Waits by lock and by the record of the thread, in the order in which they ended.
fn own_waits<'k, 'p>(kept: &'k [Kept<'p>]) -> HashMap<(LockOf, u64), Vec<&'k Kept<'p>>> {
    let mut own: HashMap<_, Vec<&Kept<'_>>> = HashMap::new();
    for wait in kept {
        let lock = (wait.section.number, wait.lock);
        own.entry((lock, wait.record.values.thread)).or_default().push(wait);
    }
    for waits in own.values_mut() {
        waits.sort_by_key(|wait| wait.end_ns);
    }
    own
}

/// The calls that begin all of these stacks; `None` if there is no stack.
fn in_common<'p>(stacks: &[&'p [u64]]) -> Option<&'p [u64]> {
    let (first, others) = stacks.split_first()?;
    let common = |other: &&[u64]| std::iter::zip(*first, *other).take_while(|(a, b)| a == b).count();
    Some(&first[..others.iter().map(common).min().unwrap_or(first.len())])
}

fn place_in(function: &Function) -> Option<String> {
    function.source.as_ref().map(|(file, line)| format!("{file}:{line}"))
}

/// The calls of a stack in words, innermost first.
fn stack_of(section: &Section, frames: &[u64], symbols: &mut Symbols<'_>) -> Vec<String> {
    let in_words = |function: &Function| match place_in(function) {
        Some(place) => format!("{} ({place})", function.name),
        None => function.name.clone(),
    };
    let calls = frames.iter().map(|&frame| symbols.functions(section, frame));
    calls.flat_map(|functions| functions.iter().map(in_words).collect::<Vec<_>>()).collect()
}
