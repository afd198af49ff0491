//! From records to the rows of the lock table: merges what threads did with a lock, and turns ticks into nanoseconds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::Profile;
use super::at_end::{Ends, UnendedOf};
use super::blocked::{Observed, Threads};
use super::call_sites::{Callers, TakenBy};
use super::container::{LockRecord, PairRecord, Section};
use super::debug_info::Contents;
use super::gil::Gil;
use super::kernel::KernelTable;
use super::lock_names::{Classes, Homes, Named, StackOf, Unnamed, finish_names, name_lock};
use super::names::{LONGEST_FILE, printable_up_to, thread_name};
use super::stacks::{Stacks, program_module};
use super::striped::striped;
use super::symbols::Symbols;
use super::table::{
    Attached, LockHolder, LockId, LockKind, LockRow, LockTable, Options, OwnCost, TableHeader, Untouched,
    Usage,
};
use super::times::Ticks;
use super::warnings::{judge_concurrency, of_java, of_unread, warnings};
use super::while_held::WhileHeld;
use crate::format::{HeaderValues, Lock, ProcessValues, Quantity};
use crate::record::MERGED;

/// Ticks of one mode of one lock, on their way to [`Usage`].
struct UsageTicks {
    counts: Usage,
    condition_ticks: u64,
    /// Of the timed holds: waited, slept, preempted, and those of which nothing is known.
    off_core: [u64; 4],
    quantities: [Ticks; 5],
}

impl UsageTicks {
    fn new() -> Self {
        Self {
            counts: Usage::default(),
            condition_ticks: 0,
            off_core: [0; 4],
            quantities: [const { Ticks::NONE }; 5],
        }
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
        let off_core =
            [p.hold_waited_ticks, p.hold_slept_ticks, p.hold_preempted_ticks, p.hold_unknown_ticks];
        for (into, from) in self.off_core.iter_mut().zip(off_core) {
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
        let [hold_same, hold_other] = [Quantity::HoldSame, Quantity::HoldOther]
            .map(|quantity| times(quantity, own(process.cost_in_hold), hold));
        let held_ns = hold_same.total_ns + hold_other.total_ns;
        let [waited, slept, preempted, unknown] = self.off_core.map(|ticks| ticks as f64 * ns_per_tick);
        let while_held = WhileHeld::of(held_ns - unknown, [waited, slept, preempted]);
        Usage {
            while_held: (process.watches_cores != 0).then_some(while_held),
            condition_ns: self.condition_ticks as f64 * ns_per_tick,
            waits_only: process.attached != 0,
            wait: times(Quantity::Wait, 0.0, None),
            hold_same,
            hold_other,
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
    /// Acquisitions within timed holds, by the key of the other lock.
    within: BTreeMap<u64, f64>,
    /// Threads of which nothing tells that.
    cold: HashSet<u64>,
    callers: Callers,
}

pub(super) fn build(profile: &Profile, options: &Options) -> LockTable {
    let ns_per_tick = profile.ns_per_tick();
    let contents = Contents::default();
    let mut stacks = options.calls.then(Stacks::default);
    let mut symbols = Symbols::new(options.symbols.then_some(&contents));
    let classes = Classes::of(profile, &mut symbols);
    let ends = Ends::of(profile, ns_per_tick);
    let threads = Threads::of(profile, &ends, ns_per_tick);
    let mut header = build_header(profile, options, ns_per_tick, &threads);
    let mut rows = Vec::new();
    let homes: Homes<'_> = profile
        .sections
        .iter()
        .flat_map(|section| section.locks.iter().map(move |(&number, lock)| (number, (section, lock))))
        .collect();
    let images = image_numbers(profile);
    for section in &profile.sections {
        let unended = UnendedOf::of(section, &ends);
        let of_section = rows_of_section(
            &homes,
            section,
            by_lock(section, &homes, &unended),
            &unended,
            ns_per_tick,
            &threads,
            &classes,
            &mut symbols,
            &mut stacks,
        );
        let image = images.get(&section.number).copied().unwrap_or(1);
        rows.extend(
            of_section
                .into_iter()
                .map(|unnamed| Unnamed { row: LockRow { image, ..unnamed.row }, ..unnamed }),
        );
    }
    let touched = finish_names(rows);
    let mut striped = striped(&touched, |thread| threads.age_ns(thread));
    let mut rows: Vec<_> = touched.into_iter().map(|touched| touched.row).collect();
    for row in rows.iter_mut().chain(striped.iter_mut().map(|striped| &mut striped.row)) {
        relate_to_operation(row, &header);
    }
    rows.sort_by(LockRow::cmp_cost);
    judge_concurrency(&mut header, &rows);
    // What the recorder says of a thread begins at its first lock, which for the kernel's locks is too late.
    let seen_ns: f64 = profile.tasks.iter().map(|task| task.age_ns as f64).sum();
    let threads_ns = header.threads_ns().max(seen_ns);
    let kernel = profile.kernel.as_ref().map(|records| records.table(threads_ns));
    if let Some(asleep_ns) = kernel.as_ref().and_then(KernelTable::asleep_ns)
        && let Some(blocked) = &mut header.blocked
    {
        blocked.asleep_in_kernel_locks(asleep_ns);
        (header.coverage, header.unseen) = (Some(blocked.coverage()), blocked.unseen());
    }
    header.gil = Gil::among(&rows, header.threads_ns());
    header.warnings = warnings(profile, &header);
    header.warnings.extend(of_unread(symbols.unread()));
    header.warnings.extend(of_java(&rows));
    let program = profile.sections.first().and_then(program_module);
    LockTable { header, rows, striped, kernel, program }
}

/// Stands for all locks of a process whose numbers lead to no record. Position 0 is the file's header.
const UNKNOWN: u32 = 0;

/// What the pairs of a process image add up to, by lock.
fn by_lock(section: &Section, homes: &Homes<'_>, unended: &UnendedOf<'_>) -> BTreeMap<u32, RowTicks> {
    let mut by_lock: BTreeMap<u32, RowTicks> = BTreeMap::new();
    let row_of = |lock: u32| if lock == MERGED || homes.contains_key(&lock) { lock } else { UNKNOWN };
    for pair in &section.pairs {
        let values = &pair.values;
        let touched = values.acquisitions
            | values.contended
            | values.try_failures
            | values.timeouts
            | values.condition_waits
            | pair.timed_holds(); // in an interval of a recording: of holds that began before it
        if touched == 0 {
            continue;
        }
        let row = by_lock.entry(row_of(pair.lock())).or_insert_with(RowTicks::new);
        if pair.shared() {
            row.shared.add(pair);
        } else {
            row.exclusive.add(pair);
        }
        row.threads.insert(pair.thread);
        row.callers.add(pair.by_caller());
        if let Some((key, within)) = pair.within() {
            *row.within.entry(key).or_default() += within;
        }
        if pair.is_cold() {
            row.cold.insert(pair.thread);
        }
    }
    for (lock, [exclusive, shared], waiting) in unended.sums() {
        let row = by_lock.entry(row_of(lock)).or_insert_with(RowTicks::new);
        for (usage, unended) in [(&mut row.exclusive, exclusive), (&mut row.shared, shared)] {
            usage.counts.unended = usage.counts.unended.and(&unended);
        }
        row.threads.extend(waiting);
    }
    by_lock
}

/// The pairs of each lock and mode, by its key.
fn pairs_by_key(section: &Section) -> HashMap<u64, Vec<&PairRecord>> {
    let mut pairs: HashMap<u64, Vec<_>> = HashMap::new();
    for pair in &section.pairs {
        pairs.entry(pair.values.key).or_default().push(pair);
    }
    pairs
}

impl RowTicks {
    fn new() -> Self {
        Self {
            exclusive: UsageTicks::new(),
            shared: UsageTicks::new(),
            threads: HashSet::new(),
            within: BTreeMap::new(),
            cold: HashSet::new(),
            callers: Callers::default(),
        }
    }

    /// In whose sections it was acquired most, and how often in one of them, on average.
    fn within(&self, pairs: &HashMap<u64, Vec<&PairRecord>>) -> Option<(u64, f64)> {
        let (&key, &count) = self.within.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let acquisitions = self.exclusive.counts.acquisitions.saturating_add(self.shared.counts.acquisitions);
        let sections = pairs.get(&key)?;
        let told = sections.iter().filter(|pair| !self.cold.contains(&pair.thread));
        let timed = told.fold(0, |sum: u64, pair| sum.saturating_add(pair.timed_holds()));
        let all = sections.iter().fold(0, |sum: u64, pair| sum.saturating_add(pair.values.acquisitions));
        let in_one = Some(count / timed as f64).filter(|_| timed > 0)?;
        // More than there were: that lock is released by other threads than take it, so that its sections seemed to last.
        (in_one * all as f64 <= 2.0 * acquisitions as f64).then_some((key, in_one))
    }
}

fn named(
    number: u32,
    found: Option<(&Section, &LockRecord)>,
    classes: &Classes<'_>,
    symbols: &mut Symbols<'_>,
) -> Named {
    match found {
        Some((home, lock)) => name_lock(home, number, lock, classes, symbols),
        None if number == MERGED => Named::plain("(other locks, merged)"),
        None => Named::plain("(locks without a record)"),
    }
}

/// The rows of a process image.
#[expect(clippy::too_many_arguments, reason = "what all sections of a profile have in common")]
fn rows_of_section<'p>(
    homes: &Homes<'p>,
    section: &Section,
    by_lock: BTreeMap<u32, RowTicks>,
    unended: &UnendedOf<'_>,
    ns_per_tick: f64,
    threads: &Threads,
    classes: &Classes<'p>,
    symbols: &mut Symbols<'_>,
    stacks: &mut Option<Stacks<'p>>,
) -> Vec<Unnamed> {
    let mut rows = Vec::with_capacity(by_lock.len());
    let taken_by = TakenBy::of(section);
    let pairs = pairs_by_key(section);
    for (number, ticks) in by_lock {
        let within = ticks.within(&pairs);
        let found = homes.get(&number).copied();
        let named = named(number, found, classes, symbols);
        let lock = found.map(|(_, lock)| lock.values).unwrap_or_default();
        let [exclusive, shared] =
            [ticks.exclusive, ticks.shared].map(|usage| usage.finish(ns_per_tick, &section.process));
        let holds = exclusive.hold().and(&shared.hold());
        let own_ns = holds.own_ns / holds.count.max(1) as f64;
        let row = LockRow {
            id: LockId { section: section.number, number },
            name: named.name,
            site: named.site.unwrap_or_default(),
            places: named.places,
            replaced: named.replaced,
            kind: LockKind::by_number(lock.kind as u32),
            by_hooks: lock.flags & Lock::BY_HOOKS != 0,
            caller: named.caller,
            file: named.file,
            source: named.source,
            calls: match (found, &mut *stacks) {
                (Some((section, lock)), Some(stacks)) => {
                    let made = StackOf { section, frames: &lock.frames };
                    let StackOf { section, frames } = classes.first_call(number).unwrap_or(made);
                    stacks.of(section, frames, symbols)
                }
                _ => Arc::default(),
            },
            pid: section.process.pid,
            image: 1,
            program: program_of(section),
            address: lock.address,
            generations: (lock.kind >> 32) + 1,
            threads: ticks.threads.len() as u64,
            merged: number == MERGED,
            threads_ns: ticks.threads.iter().map(|&thread| threads.age_ns(thread)).sum(),
            exclusive,
            shared,
            within: None,
            holders: holders(section, number),
            at_end: unended.finish(section, number, &taken_by, symbols),
            call_sites: ticks
                .callers
                .finish(section, number, &taken_by, ns_per_tick, own_ns, symbols, stacks),
            acquisitions_per_operation: None,
            critical_section_ns: None,
            share: None,
        };
        let mut threads: Box<[u64]> = ticks.threads.into_iter().collect();
        threads.sort_unstable();
        let (stack, by_stack, ordinal) = (named.stack, named.by_stack, lock.origin >> 32);
        let section = section.number;
        rows.push(Unnamed { row, section, number, within, stack, by_stack, ordinal, threads });
    }
    rows
}

pub(super) fn program_of(section: &Section) -> String {
    let path = section.executable.trim_end_matches(" (deleted)");
    printable_up_to(LONGEST_FILE, path.rsplit('/').next().unwrap_or(path))
}

/// Who held a lock while others waited for it.
fn holders(section: &Section, number: u32) -> Vec<LockHolder> {
    let of_lock = section.holders.iter().filter(|holder| holder.lock == u64::from(number));
    let mut holders: Vec<_> = of_lock
        .map(|holder| LockHolder {
            tid: holder.tid,
            name: thread_name(holder.name_0, holder.name_1),
            looks: holder.looks,
        })
        .collect();
    holders.sort_by(|a, b| b.looks.cmp(&a.looks).then(a.tid.cmp(&b.tid)));
    holders
}

fn relate_to_operation(row: &mut LockRow, header: &TableHeader) {
    let waits_ns = row.waited_ns() + row.all_condition_ns();
    // A thread's first wait may begin before the recorder knows the thread: where threads did little else, their time outside of waits is
    // unknown. Holds that are as long as what is missing bound it.
    let is_known = row.threads_ns + row.held_ns() >= waits_ns;
    row.threads_ns -= waits_ns;
    relate(row, header, is_known);
}

/// The same where the threads' time is without their waits; `is_known` says whether that time is known.
pub(super) fn relate(row: &mut LockRow, header: &TableHeader, is_known: bool) {
    // Held times are estimates where they are sampled; and who holds several merged locks at a time counts more than once.
    row.threads_ns = row.threads_ns.max(row.held_ns());
    let operations = header.operations.map_or(header.elapsed_ns / 1e9, |n| n as f64);
    let acquisitions = row.acquisitions() as f64;
    if row.exclusive.waits_only {
        return;
    }
    row.acquisitions_per_operation = Some(if operations > 0.0 { acquisitions / operations } else { 0.0 });
    let hold = row.exclusive.hold().and(&row.shared.hold());
    row.critical_section_ns = Some(hold.mean_ns().unwrap_or(0.0));
    // What is timed of one side tells more than nothing of the few of the other.
    let unknown = (row.exclusive.held_unknown() || row.shared.held_unknown()) && hold.mean_ns().is_none();
    row.share = (is_known && !unknown).then(|| row.share_of(row.held_ns()));
}

fn build_header(profile: &Profile, options: &Options, ns_per_tick: f64, threads: &Threads) -> TableHeader {
    let sum = |field: fn(&ProcessValues) -> u64| -> u64 {
        profile.sections.iter().fold(0, |sum, section| sum.saturating_add(field(&section.process)))
    };
    let run = profile.run.unwrap_or_default();
    let elapsed_ns = if run.elapsed_ns > 0 { run.elapsed_ns as f64 } else { elapsed_of(&profile.header) };
    // The system tells the launcher of children that were waited for, and the threads of all that were recorded or looked at.
    let cpu_ns = (run.cpu_ns as f64).max(running_of_threads(profile));
    let operations = options.operations.or((run.operations > 0).then_some(run.operations)).filter(|&n| n > 0);
    let own_cost = own_cost(profile, ns_per_tick);
    let net_cpu_ns = (cpu_ns - own_cost.total_ns).max(0.0);
    let watched = profile.sections.iter().any(Section::is_watched).then(|| Attached {
        lost_events: sum(|p| p.lost_events),
        without_callers: sum(|p| p.without_callers),
    });
    let blocked = threads.observed.as_ref().map(|observed| Observed::of_processes(observed.values()));
    let seconds = elapsed_ns / 1e9;
    let operation_ns = match operations {
        Some(n) => net_cpu_ns / n as f64,
        None if seconds > 0.0 => net_cpu_ns / seconds,
        None => 0.0,
    };
    TableHeader {
        schema: 2,
        profiles: 1,
        recording: profile.header.identity,
        command: profile.sections.first().map(Section::arguments).unwrap_or_default(),
        processes: processes(profile),
        threads: threads.count,
        cores: run.cores,
        finished: profile.run.is_some(),
        started_realtime_ns: profile.header.started_realtime_ns,
        elapsed_ns,
        cpu_ns,
        cores_used: if elapsed_ns > 0.0 { cpu_ns / elapsed_ns } else { 0.0 },
        concurrency: 0.0,
        ran_together: true,
        stolen_ns: run.stolen_ns as f64,
        coverage: blocked.map(|blocked| blocked.coverage()),
        blocked,
        unseen: blocked.unwrap_or_default().unseen(),
        observed: threads.observed.clone().unwrap_or_default(),
        queued_ns: threads.queued_ns,
        events_share: threads.events_share,
        sleep_share: threads.sleep_share,
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
        attached: watched.filter(|_| profile.is_attached()),
        beside: watched.filter(|_| !profile.is_attached()),
        gil: None,
        warnings: Vec::new(),
    }
}

/// By section, the number of its program among those that its process has executed, from 1.
fn image_numbers(profile: &Profile) -> HashMap<u64, u64> {
    let mut of_process: HashMap<u64, u64> = HashMap::new();
    let number = |section: &Section| {
        let count = of_process.entry(section.process.pid).or_default();
        // A child that touched no lock before it executed another program is no image of its own.
        if section.process.parent_section != 0 && section.pairs.is_empty() && !section.is_watched() {
            return (section.number, (*count).max(1));
        }
        // One that is watched beside a recorder is that one's image.
        *count = if section.is_watched() { (*count).max(1) } else { *count + 1 };
        (section.number, *count)
    };
    profile.sections.iter().map(number).collect()
}

/// The sections that are process images: one that was watched beside the recorder is that recorder's image.
fn images(profile: &Profile) -> impl Iterator<Item = &Section> {
    let all_are_watched = profile.is_attached();
    profile.sections.iter().filter(move |section| all_are_watched || !section.is_watched())
}

/// How many processes recorded. An image that another one has replaced tells no end.
fn processes(profile: &Profile) -> u64 {
    let of_all = profile.header.clock_last_ticks;
    let mut present: HashSet<u64> = HashSet::new();
    let mut count = 0;
    for section in images(profile) {
        let process = &section.process;
        count += u64::from(!present.remove(&process.pid));
        // In a profile of an interval the end of all that have told none is the interval's.
        if [0, of_all].contains(&process.clock_last_ticks) {
            present.insert(process.pid);
        }
    }
    count
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
        acquisitions(section) * pair + section.process.records_ticks as f64 * ns_per_tick
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
