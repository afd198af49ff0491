//! The lock table: what a profile says about each lock, in nanoseconds.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Serialize;

use super::Profile;
use super::container::{LockRecord, PairRecord, Section};
use super::names::printable;
use super::symbols::{Function, Symbols};
use super::times::{Ticks, Times};
use crate::format::{HeaderValues, ProcessValues, Quantity, TaskValues, ThreadValues};
use crate::record::MERGED;
use pthread::site::Stack;

/// How to make a table.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Operations that the program did; instead of what the profile itself says.
    pub operations: Option<u64>,
    /// Whether to read the program's files for symbols and lines.
    pub symbols: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { operations: None, symbols: true }
    }
}

/// What kind of object a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LockKind {
    /// A mutex.
    Mutex,
    /// A spin lock.
    Spin,
    /// A reader-writer lock.
    Rwlock,
    /// Many locks, or a kind that this reader does not know.
    Mixed,
}

impl LockKind {
    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Spin => "spin",
            Self::Rwlock => "rwlock",
            Self::Mixed => "mixed",
        }
    }
}

/// What a profile says about every lock. The JSON of it is stable: fields are added, not changed.
#[derive(Clone, Debug, Serialize)]
pub struct LockTable {
    /// About the run as a whole.
    pub header: TableHeader,
    /// By time lost waiting, then by time held, most first.
    pub rows: Vec<LockRow>,
}

/// About the run as a whole.
#[derive(Clone, Debug, Serialize)]
pub struct TableHeader {
    /// Version of the JSON; higher numbers may change the meaning of fields.
    pub schema: u32,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Process images that recorded.
    pub processes: u64,
    /// Threads that touched a lock.
    pub threads: u64,
    /// Cores that the program might use; 0 if unknown.
    pub cores: u64,
    /// From start to end, ns.
    pub elapsed_ns: f64,
    /// Time on cores, all threads and processes, ns.
    pub cpu_ns: f64,
    /// Time on cores over elapsed time: how many cores it really used.
    pub cores_used: f64,
    /// How many threads ran, or waited for a lock, at a time.
    pub concurrency: f64,
    /// Whether several threads really ran together; if not, contention and hand-over figures mean little.
    pub ran_together: bool,
    /// Time that the hypervisor took from the machine's cores, ns.
    pub stolen_ns: f64,
    /// How much of the blocked time was seen; `None` if the profile cannot tell.
    pub coverage: Option<Coverage>,
    /// What the blocked time was in that was not seen.
    pub unseen: Unseen,
    /// Operations, if they were counted.
    pub operations: Option<u64>,
    /// Time on cores for one operation, ns, without recording; for one second of elapsed time if operations were not
    /// counted.
    pub operation_ns: f64,
    /// Times were taken on one pair in this many, at random.
    pub sample_period: u64,
    /// What recording cost.
    pub own_cost: OwnCost,
    /// Events that were not recorded, because the file could not grow.
    pub dropped: u64,
    /// Pairs of thread and lock that were merged into the row of merged locks.
    pub merged_pairs: u64,
    /// Locks that have no row of their own.
    pub merged_locks: u64,
    /// Objects left to the C library, by reason.
    pub untouched: Untouched,
    /// What to know before believing the table.
    pub warnings: Vec<String>,
}

/// Blocked time, seen and not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Time blocked inside calls that were seen, ns. Where a lock spins this counts spinning too, up to a thread's
    /// off-CPU time.
    pub seen_ns: f64,
    /// Time that threads neither ran nor waited for a core, ns.
    pub off_cpu_ns: f64,
}

impl Coverage {
    /// The part that was seen, 0 to 1; 1 if there was nothing to see.
    pub fn ratio(&self) -> f64 {
        if self.off_cpu_ns > 0.0 { (self.seen_ns / self.off_cpu_ns).min(1.0) } else { 1.0 }
    }
}

/// Blocked time by what the threads were seen in when the launcher looked at them, a few times a second, ns. Zeros where the
/// kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Unseen {
    /// On futexes, but in no call that is recorded: joins, and locks on raw futexes (Rust, Go, static programs).
    pub futex_ns: f64,
    /// Sleeping until a time.
    pub sleep_ns: f64,
    /// Waiting for events: epoll, poll, select.
    pub events_ns: f64,
    /// Input and output: pipes, sockets, files.
    pub io_ns: f64,
    /// Waiting for another process.
    pub child_ns: f64,
    /// Anything else.
    pub other_ns: f64,
}

impl Unseen {
    fn of(profile: &Profile, seen_ns: f64) -> Self {
        let sum =
            |kind: fn(&TaskValues) -> u64| profile.tasks.iter().map(|task| kind(task) as f64).sum::<f64>();
        Self {
            futex_ns: (sum(|task| task.futex_ns) - seen_ns).max(0.0),
            sleep_ns: sum(|task| task.sleep_ns),
            events_ns: sum(|task| task.events_ns),
            io_ns: sum(|task| task.io_ns),
            child_ns: sum(|task| task.child_ns),
            other_ns: sum(|task| task.other_ns),
        }
    }

    /// The kinds that matter, the greatest first, with their shares; empty where nothing was seen.
    fn words(&self) -> String {
        const MATTERS: f64 = 0.05;
        let mut kinds = [
            ("joins, and locks on raw futexes (Rust, Go, static programs)", self.futex_ns),
            ("sleeping", self.sleep_ns),
            ("waiting for events (epoll, poll, select)", self.events_ns),
            ("input and output", self.io_ns),
            ("waiting for other processes", self.child_ns),
            ("other waits", self.other_ns),
        ];
        let total: f64 = kinds.iter().map(|(_, ns)| ns).sum();
        kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
        let matter = kinds.iter().filter(|(_, ns)| total > 0.0 && *ns >= MATTERS * total);
        let shares = matter.map(|(name, ns)| format!("{name} {:.0} %", 100.0 * ns / total));
        shares.collect::<Vec<_>>().join(", ")
    }
}

/// What recording cost: measured at the start of the process that did most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OwnCost {
    /// For a pair with times, ns.
    pub timed_ns: f64,
    /// For a pair without times, ns.
    pub untimed_ns: f64,
    /// The part of `timed_ns` that lies in the hold time, ns. Subtracted there.
    pub in_hold_ns: f64,
    /// The part of `timed_ns` that lies in the think time, ns. Subtracted there.
    pub in_think_ns: f64,
    /// All of it, ns. Subtracted from the operation time.
    pub total_ns: f64,
}

/// Objects left to the C library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Untouched {
    /// Shared between processes.
    pub process_shared: u64,
    /// Robust mutexes.
    pub robust: u64,
    /// Mutexes with priority inheritance.
    pub priority_inheriting: u64,
    /// Mutexes with a priority ceiling.
    pub priority_protected: u64,
    /// Condition variables.
    pub condition: u64,
    /// For another reason.
    pub other: u64,
}

impl Untouched {
    /// All of them.
    pub fn total(&self) -> u64 {
        [
            self.process_shared,
            self.robust,
            self.priority_inheriting,
            self.priority_protected,
            self.condition,
            self.other,
        ]
        .iter()
        .fold(0, |sum, &n| sum.saturating_add(n))
    }
}

/// One lock.
#[derive(Clone, Debug, Serialize)]
pub struct LockRow {
    /// Its name. Where the function alone would stand for several locks it has the stack that made it too, and `#2` and so on
    /// where that made several. Safe to print.
    pub name: String,
    /// What `run --only` takes for it: the same in every run of the program.
    pub site: String,
    /// What it is.
    pub kind: LockKind,
    /// The first function outside locking wrappers that touched it first; empty if unknown.
    pub caller: String,
    /// The program or library that the caller's code is in; empty if unknown.
    pub file: String,
    /// That call's place in the source, `file:line`.
    pub source: Option<String>,
    /// The process, by its identifier.
    pub pid: u64,
    /// The process's program.
    pub program: String,
    /// Where the object was.
    pub address: u64,
    /// Locks that were at this place one after another, made by the same calls.
    pub generations: u64,
    /// Threads that touched it.
    pub threads: u64,
    /// The row stands for all the locks that were merged past the bound.
    pub merged: bool,
    /// Exclusive acquisitions: mutexes, spin locks, writers.
    pub exclusive: Usage,
    /// Shared acquisitions: readers.
    pub shared: Usage,
    /// Acquisitions for one operation; for one second if operations were not counted.
    pub acquisitions_per_operation: f64,
    /// Mean critical section, ns; 0 if none was timed.
    pub critical_section_ns: f64,
    /// Part of the operation's time that is in it, 0 to 1. More than 1 where threads sleep while they hold it.
    pub share: f64,
}

/// What was done with a lock in one mode.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Usage {
    /// Successful acquisitions by lock calls.
    pub acquisitions: u64,
    /// Those of a lock that the thread held already.
    pub nested: u64,
    /// Acquisitions that had to wait.
    pub contended: u64,
    /// Try calls that found it held.
    pub try_failures: u64,
    /// Timed calls that gave up.
    pub timeouts: u64,
    /// Acquisitions after another thread's.
    pub owner_changes: u64,
    /// Condition waits with it.
    pub condition_waits: u64,
    /// Those that timed out.
    pub condition_timeouts: u64,
    /// Time in condition waits, ns.
    pub condition_ns: f64,
    /// Waiting, of contended acquisitions: always measured.
    pub wait: Times,
    /// Holding, when the last holder was on the same core.
    pub hold_same: Times,
    /// Holding, when the last holder was on another core.
    pub hold_other: Times,
    /// From a release to the same thread's next acquisition.
    pub think: Times,
    /// From the last holder's release to the acquisition, of contended acquisitions.
    pub handover: Times,
}

impl Usage {
    /// How often it was held: nested acquisitions do not count, the mutex's return after a condition wait does.
    pub fn holds(&self) -> u64 {
        self.acquisitions.saturating_sub(self.nested).saturating_add(self.condition_waits)
    }

    /// Holding, wherever the last holder was.
    pub fn hold(&self) -> Times {
        self.hold_same.and(&self.hold_other)
    }

    /// Time that it was held in all, ns: the measured mean for every time that it was held.
    pub fn held_ns(&self) -> f64 {
        self.hold().mean_ns().unwrap_or(0.0) * self.holds() as f64
    }
}

impl LockRow {
    /// Acquisitions in both modes.
    pub fn acquisitions(&self) -> u64 {
        self.exclusive.acquisitions.saturating_add(self.shared.acquisitions)
    }

    /// Contended acquisitions in both modes.
    pub fn contended(&self) -> u64 {
        self.exclusive.contended.saturating_add(self.shared.contended)
    }

    /// Time lost waiting for it, ns.
    pub fn waited_ns(&self) -> f64 {
        self.exclusive.wait.total_ns + self.shared.wait.total_ns
    }

    /// Time that it was held, summed over threads, ns.
    pub fn held_ns(&self) -> f64 {
        self.exclusive.held_ns() + self.shared.held_ns()
    }
}

/// Ticks of one mode of one lock, on their way to [`Usage`].
struct UsageTicks {
    counts: Usage,
    condition_ticks: u64,
    quantities: [Ticks; 5],
}

impl UsageTicks {
    fn new() -> Self {
        Self { counts: Usage::default(), condition_ticks: 0, quantities: [const { Ticks::NONE }; 5] }
    }

    fn add(&mut self, pair: &PairRecord) {
        let p = &pair.values;
        let counts = &mut self.counts;
        for (into, from) in [
            (&mut counts.acquisitions, p.acquisitions),
            (&mut counts.nested, p.nested),
            (&mut counts.contended, p.contended),
            (&mut counts.try_failures, p.try_failures),
            (&mut counts.timeouts, p.timeouts),
            (&mut counts.owner_changes, p.owner_changes),
            (&mut counts.condition_waits, p.condition_waits),
            (&mut counts.condition_timeouts, p.condition_timeouts),
            (&mut self.condition_ticks, p.condition_ticks),
        ] {
            *into = into.saturating_add(from);
        }
        for (quantity, count, ticks) in [
            (Quantity::HoldSame, p.hold_same_count, p.hold_same_ticks),
            (Quantity::HoldOther, p.hold_other_count, p.hold_other_ticks),
            (Quantity::Think, p.think_count, p.think_ticks),
            (Quantity::Wait, p.contended, p.wait_ticks),
            (Quantity::Handover, p.handover_count, p.handover_ticks),
        ] {
            self.quantities[quantity as usize].add(count, ticks, pair.buckets(quantity));
        }
    }

    fn finish(self, ns_per_tick: f64, process: &ProcessValues) -> Usage {
        let own = |cost: u64| cost as f64 / 1024.0;
        // Holds after a holder here and elsewhere have the same recorder in them, and so the same subtracted.
        let shortest = |quantities: &[Quantity]| {
            let each =
                quantities.iter().filter_map(|&quantity| self.quantities[quantity as usize].shortest());
            each.min_by(f64::total_cmp)
        };
        let hold = shortest(&[Quantity::HoldSame, Quantity::HoldOther]);
        let think = shortest(&[Quantity::Think]);
        let times = |quantity: Quantity, own, shortest| {
            self.quantities[quantity as usize].finish(ns_per_tick, own, shortest)
        };
        Usage {
            condition_ns: self.condition_ticks as f64 * ns_per_tick,
            wait: times(Quantity::Wait, 0.0, None),
            hold_same: times(Quantity::HoldSame, own(process.cost_in_hold), hold),
            hold_other: times(Quantity::HoldOther, own(process.cost_in_hold), hold),
            think: times(Quantity::Think, own(process.cost_in_think), think),
            handover: times(Quantity::Handover, 0.0, None),
            ..self.counts
        }
    }
}

struct RowTicks {
    exclusive: UsageTicks,
    shared: UsageTicks,
    threads: HashSet<u64>,
}

pub(super) fn build(profile: &Profile, options: &Options) -> LockTable {
    let ns_per_tick = profile.ns_per_tick();
    let mut symbols = Symbols::new(options.symbols);
    let mut header = build_header(profile, options, ns_per_tick);
    let mut rows = Vec::new();
    let homes: Homes<'_> = profile
        .sections
        .iter()
        .flat_map(|section| section.locks.iter().map(move |(&number, lock)| (number, (section, lock))))
        .collect();
    for section in &profile.sections {
        let mut by_lock: BTreeMap<u32, RowTicks> = BTreeMap::new();
        for pair in &section.pairs {
            let values = &pair.values;
            let touched =
                values.acquisitions | values.try_failures | values.timeouts | values.condition_waits;
            if touched == 0 {
                continue;
            }
            let known = pair.lock() == MERGED || homes.contains_key(&pair.lock());
            let row = by_lock.entry(if known { pair.lock() } else { UNKNOWN }).or_insert_with(|| RowTicks {
                exclusive: UsageTicks::new(),
                shared: UsageTicks::new(),
                threads: HashSet::new(),
            });
            if pair.shared() {
                row.shared.add(pair);
            } else {
                row.exclusive.add(pair);
            }
            row.threads.insert(pair.thread);
        }
        rows.extend(rows_of_section(&homes, section, by_lock, ns_per_tick, &mut symbols));
    }
    let mut rows = finish_names(rows);
    for row in &mut rows {
        relate_to_operation(row, &header);
    }
    let order = |row: &LockRow| (row.waited_ns(), row.held_ns());
    rows.sort_by(|a, b| {
        let (a_lost, a_held) = order(a);
        let (b_lost, b_held) = order(b);
        b_lost.total_cmp(&a_lost).then(b_held.total_cmp(&a_held)).then_with(|| a.name.cmp(&b.name))
    });
    judge_concurrency(&mut header, &rows);
    header.warnings = warnings(profile, &header);
    LockTable { header, rows }
}

/// Stands for all locks of a process whose numbers lead to no record. Position 0 is the file's header.
const UNKNOWN: u32 = 0;

/// A row whose name has only its first part.
struct Unnamed {
    row: LockRow,
    section: u64,
    first_ticks: u64,
    stack: Option<Stack>,
    /// The name alone is none that `--only` would find the lock by.
    by_stack: bool,
}

/// Names each lock by what tells it from the others: its stack, where locks of one name were made by several; a number, in the
/// order in which they were first touched, where one stack made several.
fn finish_names(mut rows: Vec<Unnamed>) -> Vec<LockRow> {
    let mut stacks: HashMap<String, BTreeSet<Stack>> = HashMap::new();
    for unnamed in &rows {
        stacks.entry(unnamed.row.name.clone()).or_default().extend(unnamed.stack);
    }
    rows.sort_by_key(|unnamed| (unnamed.section, unnamed.first_ticks, unnamed.row.address));
    let mut seen: HashMap<(u64, String), usize> = HashMap::new();
    let name = |Unnamed { mut row, section, stack, by_stack, .. }: Unnamed| {
        row.site = stack.map_or_else(|| row.name.clone(), |stack| format!("{}@{stack}", row.name));
        if by_stack || stacks[&row.name].len() > 1 {
            row.name.clone_from(&row.site);
        }
        let times = seen.entry((section, row.name.clone())).or_insert(0);
        *times += 1;
        if *times > 1 {
            row.name = format!("{}#{times}", row.name);
        }
        row
    };
    rows.into_iter().map(name).collect()
}

/// The rows of a process image.
fn rows_of_section(
    homes: &Homes<'_>,
    section: &Section,
    by_lock: BTreeMap<u32, RowTicks>,
    ns_per_tick: f64,
    symbols: &mut Symbols,
) -> Vec<Unnamed> {
    let mut rows = Vec::with_capacity(by_lock.len());
    for (number, ticks) in by_lock {
        let found = homes.get(&number).copied();
        let named = match found {
            Some((home, lock)) => name_lock(home, lock, symbols),
            None if number == MERGED => Named::plain("(other locks, merged)"),
            None => Named::plain("(locks without a record)"),
        };
        let lock = found.map(|(_, lock)| lock.values).unwrap_or_default();
        let row = LockRow {
            name: named.name,
            site: String::new(),
            kind: kind_of(lock.kind as u32),
            caller: named.caller,
            file: named.file,
            source: named.source,
            pid: section.process.pid,
            program: program_of(section),
            address: lock.address,
            generations: (lock.kind >> 32) + 1,
            threads: ticks.threads.len() as u64,
            merged: number == MERGED,
            exclusive: ticks.exclusive.finish(ns_per_tick, &section.process),
            shared: ticks.shared.finish(ns_per_tick, &section.process),
            acquisitions_per_operation: 0.0,
            critical_section_ns: 0.0,
            share: 0.0,
        };
        let (stack, by_stack) = (named.stack, named.by_stack);
        rows.push(Unnamed { row, section: section.number, first_ticks: lock.first_ticks, stack, by_stack });
    }
    rows
}

fn kind_of(kind: u32) -> LockKind {
    match kind {
        1 => LockKind::Mutex,
        2 => LockKind::Spin,
        3 => LockKind::Rwlock,
        _ => LockKind::Mixed,
    }
}

fn program_of(section: &Section) -> String {
    let path = section.executable.trim_end_matches(" (deleted)");
    printable(path.rsplit('/').next().unwrap_or(path))
}

/// A lock and the section that first touched it: numbers are positions in the file, so no two sections share one.
type Homes<'p> = HashMap<u32, (&'p Section, &'p LockRecord)>;

struct Named {
    name: String,
    caller: String,
    file: String,
    source: Option<String>,
    /// What made the lock, if it lies in no variable.
    stack: Option<Stack>,
    by_stack: bool,
}

impl Named {
    fn plain(name: &str) -> Self {
        let (caller, file) = (String::new(), String::new());
        Self { name: name.to_owned(), caller, file, source: None, stack: None, by_stack: false }
    }
}

fn name_lock(section: &Section, lock: &LockRecord, symbols: &mut Symbols) -> Named {
    let function = caller_of(section, lock, symbols);
    let (caller, file, source) =
        function.map_or_else(Default::default, |function| (function.name, function.file, function.source));
    if let Some(name) = symbols.variable(section, lock.values.address) {
        return Named { name, caller, file, source, stack: None, by_stack: false };
    }
    let name = if caller.is_empty() { "(unknown caller)".to_owned() } else { caller.clone() };
    let stack = Stack::of(lock.frames.iter().map(|&frame| section.in_its_file(frame)));
    let by_stack = site_by_symbols(section, lock, symbols).as_ref() != Some(&name);
    Named { name, caller, file, source, stack: Some(stack), by_stack }
}

/// The function by which `--only` finds a lock: the first one that is no wrapper, by symbols alone. It does not know what was
/// inlined.
fn site_by_symbols(section: &Section, lock: &LockRecord, symbols: &mut Symbols) -> Option<String> {
    let mut innermost = None;
    for &frame in &lock.frames {
        match symbols.symbol(section, frame) {
            Some((name, false)) => return Some(name),
            Some((name, true)) => drop(innermost.get_or_insert(name)),
            None => {
                let function = symbols.functions(section, frame).pop()?;
                return (!function.file.is_empty()).then_some(function.name);
            }
        }
    }
    innermost
}

/// The first function outside locking wrappers; the innermost one if all are wrappers.
fn caller_of(section: &Section, lock: &LockRecord, symbols: &mut Symbols) -> Option<Function> {
    let mut innermost = None;
    for &frame in &lock.frames {
        for function in symbols.functions(section, frame) {
            if !function.wrapper {
                return Some(function);
            }
            innermost.get_or_insert(function);
        }
    }
    innermost
}

fn relate_to_operation(row: &mut LockRow, header: &TableHeader) {
    let operations = header.operations.map_or(header.elapsed_ns / 1e9, |n| n as f64);
    let per_operation = |value: f64| if operations > 0.0 { value / operations } else { 0.0 };
    row.acquisitions_per_operation = per_operation(row.acquisitions() as f64);
    let hold = row.exclusive.hold().and(&row.shared.hold());
    row.critical_section_ns = hold.mean_ns().unwrap_or(0.0);
    row.share =
        if header.operation_ns > 0.0 { per_operation(row.held_ns()) / header.operation_ns } else { 0.0 };
}

fn build_header(profile: &Profile, options: &Options, ns_per_tick: f64) -> TableHeader {
    let sum = |field: fn(&ProcessValues) -> u64| -> u64 {
        profile.sections.iter().fold(0, |sum, section| sum.saturating_add(field(&section.process)))
    };
    let run = profile.run.unwrap_or_default();
    let elapsed_ns = if run.elapsed_ns > 0 { run.elapsed_ns as f64 } else { elapsed_of(&profile.header) };
    let cpu_ns = if run.cpu_ns > 0 { run.cpu_ns as f64 } else { running_of_threads(profile) };
    let operations = options.operations.or((run.operations > 0).then_some(run.operations)).filter(|&n| n > 0);
    let own_cost = own_cost(profile, ns_per_tick);
    let net_cpu_ns = (cpu_ns - own_cost.total_ns).max(0.0);
    let coverage = coverage(profile, ns_per_tick);
    let seconds = elapsed_ns / 1e9;
    let operation_ns = match operations {
        Some(n) => net_cpu_ns / n as f64,
        None if seconds > 0.0 => net_cpu_ns / seconds,
        None => 0.0,
    };
    TableHeader {
        schema: 1,
        command: profile
            .sections
            .first()
            .map(|section| section.arguments.iter().map(|argument| printable(argument)).collect())
            .unwrap_or_default(),
        processes: profile.sections.len() as u64,
        threads: sum(|p| p.threads),
        cores: run.cores,
        elapsed_ns,
        cpu_ns,
        cores_used: if elapsed_ns > 0.0 { cpu_ns / elapsed_ns } else { 0.0 },
        concurrency: 0.0,
        ran_together: true,
        stolen_ns: run.stolen_ns as f64,
        coverage,
        unseen: Unseen::of(profile, coverage.map_or(0.0, |coverage| coverage.seen_ns)),
        operations,
        operation_ns,
        sample_period: profile.header.sample_period.max(1),
        own_cost,
        dropped: profile.header.dropped,
        merged_pairs: sum(|p| p.merged_pairs),
        merged_locks: sum(|p| p.merged_locks),
        untouched: Untouched {
            process_shared: sum(|p| p.untouched_process_shared),
            robust: sum(|p| p.untouched_robust),
            priority_inheriting: sum(|p| p.untouched_priority_inheriting),
            priority_protected: sum(|p| p.untouched_priority_protected),
            condition: sum(|p| p.untouched_condition),
            other: sum(|p| p.untouched_other),
        },
        warnings: Vec::new(),
    }
}

fn elapsed_of(header: &HeaderValues) -> f64 {
    header.clock_last_ns.saturating_sub(header.clock_first_ns) as f64
}

/// Time on cores as the threads themselves, or the launcher's last look at them, tell it.
fn running_of_threads(profile: &Profile) -> f64 {
    let tasks: f64 = profile.tasks.iter().map(|task| task.running_ns as f64).sum();
    let threads = profile.sections.iter().flat_map(|section| section.threads.values());
    let ended: f64 = threads.filter(|t| t.ended_ns != 0).map(|t| t.running_ns as f64).sum();
    tasks.max(ended)
}

fn own_cost(profile: &Profile, ns_per_tick: f64) -> OwnCost {
    let acquisitions =
        |section: &Section| section.pairs.iter().map(|pair| pair.values.acquisitions as f64).sum::<f64>();
    let ns = |cost: u64| cost as f64 / 1024.0 * ns_per_tick;
    let total = profile.sections.iter().map(|section| {
        let timed = 1.0 / profile.header.sample_period.max(1) as f64;
        let pair = ns(section.process.cost_timed) * timed + ns(section.process.cost_untimed) * (1.0 - timed);
        acquisitions(section) * pair
    });
    let busiest = profile.sections.iter().max_by(|a, b| acquisitions(a).total_cmp(&acquisitions(b)));
    let process = busiest.map(|section| section.process).unwrap_or_default();
    OwnCost {
        timed_ns: ns(process.cost_timed),
        untimed_ns: ns(process.cost_untimed),
        in_hold_ns: ns(process.cost_in_hold),
        in_think_ns: ns(process.cost_in_think),
        total_ns: total.sum(),
    }
}

fn coverage(profile: &Profile, ns_per_tick: f64) -> Option<Coverage> {
    let tasks: HashMap<(u64, u64), &TaskValues> =
        profile.tasks.iter().map(|task| ((task.pid, task.tid), task)).collect();
    let mut accounted: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut known = false;
    let mut sums = Coverage { seen_ns: 0.0, off_cpu_ns: 0.0 };
    let mut add = |off_cpu_ns: f64, seen_ns: f64| {
        known = true;
        sums.off_cpu_ns += off_cpu_ns.max(0.0);
        sums.seen_ns += seen_ns.min(off_cpu_ns.max(0.0));
    };
    let mut unended: Vec<((u64, u64), f64)> = Vec::new();
    for section in &profile.sections {
        let mut blocked: HashMap<u64, f64> = HashMap::new();
        for pair in &section.pairs {
            let ticks = pair.values.wait_ticks as f64 + pair.values.condition_ticks as f64;
            *blocked.entry(pair.thread).or_default() += ticks * ns_per_tick;
        }
        for (position, thread) in &section.threads {
            let who = (section.process.pid, thread.tid);
            let seen_ns = blocked.get(position).copied().unwrap_or(0.0);
            let seen_ns = seen_ns + pending_ns(profile, section, thread, ns_per_tick);
            if thread.ended_ns != 0 {
                add(off_cpu(thread), seen_ns);
                accounted.insert(who);
            } else {
                unended.push((who, seen_ns));
            }
        }
    }
    for (who, seen_ns) in unended {
        if let Some(task) = tasks.get(&who).filter(|_| accounted.insert(who)) {
            add(off_cpu_of_task(task), seen_ns);
        }
    }
    for task in &profile.tasks {
        if accounted.insert((task.pid, task.tid)) {
            add(off_cpu_of_task(task), 0.0);
        }
    }
    known.then_some(sums)
}

/// How long a thread has been in a condition wait that was not over at the end.
fn pending_ns(profile: &Profile, section: &Section, thread: &ThreadValues, ns_per_tick: f64) -> f64 {
    let of_process = section.process.clock_last_ticks;
    let end = if of_process != 0 { of_process } else { profile.header.clock_last_ticks };
    match thread.waiting_since {
        0 => 0.0,
        since => end.saturating_sub(since) as f64 * ns_per_tick,
    }
}

fn off_cpu(thread: &ThreadValues) -> f64 {
    thread.age_ns as f64 - thread.running_ns as f64 - thread.queued_ns as f64
}

fn off_cpu_of_task(task: &TaskValues) -> f64 {
    task.age_ns as f64 - task.running_ns as f64 - task.queued_ns as f64
}

/// With fewer threads than this running or waiting for a lock at a time, several threads did not run together.
const TOGETHER: f64 = 1.2;
/// Stolen time that disturbs, as a part of the time of all cores.
const STOLEN: f64 = 0.05;
/// Coverage below which most of what blocks is not in the table.
const COVERED: f64 = 0.5;

/// A thread that waits for a lock would run if it could: one lock that blocks everybody is no lack of concurrency.
fn judge_concurrency(header: &mut TableHeader, rows: &[LockRow]) {
    let waited_ns: f64 = rows.iter().map(LockRow::waited_ns).sum();
    if header.elapsed_ns > 0.0 && header.cpu_ns > 0.0 {
        header.concurrency = (header.cpu_ns + waited_ns) / header.elapsed_ns;
        header.ran_together = header.threads <= 1 || header.concurrency >= TOGETHER;
    }
}

fn warnings(profile: &Profile, header: &TableHeader) -> Vec<String> {
    let mut warnings = Vec::new();
    if !header.ran_together {
        warnings.push(format!(
            "{} threads used {:.2} cores at a time, and {:.2} ran or waited for a lock: they hardly ran together, so contention and hand-over figures cannot be trusted",
            header.threads, header.cores_used, header.concurrency
        ));
    }
    if header.cores == 1 {
        warnings.push(
            "the program could use one core only: nothing here tells how its locks behave on more".into(),
        );
    }
    if header.stolen_ns > STOLEN * header.elapsed_ns * header.cores.max(1) as f64 {
        let part = header.stolen_ns / (header.elapsed_ns * header.cores.max(1) as f64) * 100.0;
        warnings.push(format!("the hypervisor took {part:.0} % of the cores' time: times are too long"));
    }
    let missed = |coverage: &Coverage| {
        // Who sleeps until a time, or waits for input, waits for no lock.
        let Unseen { futex_ns, sleep_ns, events_ns, io_ns, child_ns, other_ns } = header.unseen;
        let no_locks = sleep_ns + events_ns + io_ns + child_ns;
        let looked_at = futex_ns + coverage.seen_ns + no_locks + other_ns;
        let part = if looked_at > 0.0 { 1.0 - no_locks / looked_at } else { 1.0 };
        coverage.seen_ns < COVERED * part * coverage.off_cpu_ns
    };
    if let Some(coverage) = header.coverage.filter(missed) {
        let rest = match header.unseen.words() {
            words if words.is_empty() => {
                "is input and output, sleeping, joining, or locks on raw futexes (Rust, Go, static programs)"
                    .to_owned()
            }
            words => format!("was, by looks at the threads now and then: {words}"),
        };
        warnings.push(format!(
            "{:.0} % of the blocked time is in calls that are recorded; the rest {rest}",
            coverage.ratio() * 100.0
        ));
    }
    if header.dropped > 0 || profile.header.growth_error != 0 {
        let reason = match profile.header.growth_error {
            0 => "its limit was reached".to_owned(),
            error => std::io::Error::from_raw_os_error(error.min(4095) as i32).to_string(),
        };
        warnings.push(format!(
            "the profile could not grow ({reason}): {} events are missing; {}",
            header.dropped,
            room(profile)
        ));
    }
    if header.merged_pairs > 0 || header.merged_locks > 0 {
        warnings.push(format!(
            "past the file's bound, {} locks and {} pairs of thread and lock were merged into one row; {} to keep them apart",
            header.merged_locks,
            header.merged_pairs,
            room(profile)
        ));
    }
    if profile.header.unrecorded > 0 {
        warnings.push(format!(
            "{} processes found no room in the profile and are not in the table; {}",
            profile.header.unrecorded,
            room(profile)
        ));
    }
    if header.untouched.total() > 0 {
        warnings.push(format!(
            "{} objects were left to the C library and are not in the table",
            header.untouched.total()
        ));
    }
    let recorded = || profile.sections.iter().filter(|section| !section.pairs.is_empty());
    let unended = recorded().filter(|section| section.process.clock_last_ns == 0).count();
    if unended > 0 {
        warnings.push(format!(
            "{unended} of {} process images that took locks did not end by themselves (killed, left by _exit, replaced by exec, or still running)",
            recorded().count()
        ));
    }
    if profile.ns_per_tick() == 1.0 && header.elapsed_ns == 0.0 {
        warnings.push("no two readings of the clock: times are in ticks, not nanoseconds".into());
    }
    warnings
}

/// How to get more room for a profile that could not grow.
fn room(profile: &Profile) -> &'static str {
    match i32::try_from(profile.header.growth_error) {
        Ok(0) => "record with a higher --limit",
        Ok(libc::ENOSPC) => "free some room on the disk, or record to another one with -o",
        Ok(libc::EDQUOT) => "free some of your quota, or record to another disk with -o",
        Ok(libc::EFBIG) => "record with a larger limit of file sizes (ulimit -f)",
        _ => "record to another place with -o",
    }
}
