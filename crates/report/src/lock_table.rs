//! The lock table of a profile, for people and for spreadsheets.

mod at_end;
mod waits;

use crate::call_sites::{self, held, place};
use crate::page::Unfolded;
use crate::text::{self, grouped, printable, short, time};
use crate::{Cell, Column, Page, Screen, Table};
use profile::read::{
    Attached, Blocked, Call, Gil, KernelRow, KernelTable, LockHolder, SiteStack, SiteUse, Striped,
    TableHeader, Timeline, WhileHeld,
};
use profile::{LockId, LockRow, LockTable, Times, Usage, Within};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The header, the first `top` locks (all if 0) and what is left out, as lines for people.
pub fn text(table: &LockTable, top: usize, screen: Screen) -> String {
    let top = if top == 0 { usize::MAX } else { top };
    let mut lines = screen.fit(&header(table));
    lines.push('\n');
    if table.rows.is_empty() {
        lines.push_str(match table.header.attached {
            Some(_) => "No thread waited for a lock or a condition.\n",
            None => "No lock was touched by a call that is recorded.\n",
        });
    } else {
        let folded = table.folded();
        lines.push_str(&rows(table, top).terminal(screen));
        lines.push_str(&screen.fit(&left_out(&folded, top, |row| row.waited_ns())));
        let shown = &folded[..folded.len().min(top)];
        lines.push_str(&screen.fit(&striped(table, shown)));
        lines.push_str(&screen.fit(&call_sites(table, shown)));
        lines.push_str(&screen.fit(&on_a_new_paragraph(at_end::lines(table))));
        lines.push_str(
            &screen.fit(
                &table.header.gil.as_ref().map_or(String::new(), |gil| format!("\n{}", interpreter(gil))),
            ),
        );
    }
    if let Some(kernel) = &table.kernel {
        lines.push('\n');
        lines.push_str(&kernel_text(kernel, top, screen));
    }
    lines
}

fn on_a_new_paragraph(lines: String) -> String {
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Locks of which the call sites are told below the table.
const TOLD: usize = 3;
/// The least share of the waits for all locks that a lock is told of for.
const LEAST: f64 = 0.05;

/// Which of striped locks was waited for longest.
fn striped(table: &LockTable, rows: &[&LockRow]) -> String {
    let all = rows.iter().filter_map(|row| table.striped_of(row));
    let lines: Vec<_> = all.take(TOLD).map(|striped| worst_of(table, striped) + "\n").collect();
    if lines.is_empty() { String::new() } else { format!("\n{}", lines.concat()) }
}

fn worst_of(table: &LockTable, striped: &Striped) -> String {
    let Striped { row, members, locks } = striped;
    let mut line = format!("{} stands for {} locks", printable(&row.name), grouped(*locks));
    let waited_ns = row.waited_ns();
    let worst = members.first().and_then(|id| table.rows.iter().find(|row| row.id == *id));
    if let Some(worst) = worst.filter(|_| waited_ns > 0.0) {
        let share = 100.0 * worst.waited_ns() / waited_ns;
        let _ = write!(line, "; {} has {share:.0} % of the waits", printable(&worst.name));
    }
    line + " (`contend report --unfold` shows each)."
}

/// What the interpreter lock cost.
fn interpreter(gil: &Gil) -> String {
    format!(
        "{} is Python's global interpreter lock (GIL): threads waited for it for {}, {:.0} % of their time. One of them runs Python at \
         a time; another lock in its place changes nothing.\n",
        printable(&gil.name),
        time(gil.waited_ns),
        100.0 * gil.share,
    )
}

/// From where the most waited for locks are waited for, and behind whom.
fn call_sites(table: &LockTable, rows: &[&LockRow]) -> String {
    let all_ns: f64 = rows.iter().map(|row| row.waited_ns()).sum();
    let told = rows.iter().filter(|row| row.waited_ns() > LEAST * all_ns && !row.call_sites.is_empty());
    let mut lines = String::new();
    let sentence = |row: &&LockRow| call_sites::sentence(&told_name(table, row), &row.call_sites);
    for row in told.take(TOLD) {
        let Some(sentence) = sentence(row) else { continue };
        if lines.is_empty() {
            lines.push('\n');
        }
        let chain = chain(table, row).map_or_else(String::new, |chain| format!(" {chain}"));
        let _ = writeln!(lines, "{sentence}{chain}");
    }
    lines
}

/// Locks through which is followed what a holder waited for.
const DEEPEST: usize = 3;

/// What the holders of this lock waited for, and behind whom: "in_a waits for b behind in_b, which waits for c behind in_c, held 4.1 ms
/// (sleeping 99 %)." `None` where the one that others waited behind longest waited for no lock for most of its holds, or nothing tells
/// who had that lock.
fn chain(table: &LockTable, row: &LockRow) -> Option<String> {
    let behind = |row: &LockRow| {
        let known = row.call_sites.iter().filter(|site| site.behind_ns > 0.0 && !site.several);
        known.max_by(|a, b| a.behind_ns.total_cmp(&b.behind_ns)).cloned()
    };
    let mut holder = behind(row)?;
    let (mut text, mut seen) = (place(&holder), vec![row.id]);
    while seen.len() <= DEEPEST {
        let waits = holder.while_held.and_then(|held| held.share(|held| held.waiting_ns));
        let Some(name) = holder.waiting_for.as_deref().filter(|_| waits > Some(0.5)) else { break };
        let is_next = |next: &&LockRow| next.name == name && next.pid == row.pid && next.image == row.image;
        let next = table.rows.iter().find(is_next).filter(|next| !seen.contains(&next.id));
        let Some((next, next_holder)) = next.and_then(|next| Some((next, behind(next)?))) else { break };
        let which = if seen.len() == 1 { " waits" } else { ", which waits" };
        let _ =
            write!(text, "{which} for {} behind {}", printable(&told_name(table, next)), place(&next_holder));
        seen.push(next.id);
        holder = next_holder;
    }
    (seen.len() > 1).then(|| format!("{text}{}.", held(&holder)))
}

/// How many rows are not shown, and what was waited for them.
fn left_out<R>(rows: &[R], top: usize, waited_ns: impl Fn(&R) -> f64) -> String {
    let Some(rest) = rows.get(top..).filter(|rest| !rest.is_empty()) else { return String::new() };
    let waited_ns: f64 = rest.iter().map(waited_ns).sum();
    let (more, waited) = (text::counted(rest.len() as u64, "more lock"), time(waited_ns));
    format!("{more}, waited for {waited} in all (--top 0 shows them).\n")
}

/// The kernel's locks, as lines for people.
fn kernel_text(kernel: &KernelTable, top: usize, screen: Screen) -> String {
    let mut lines = screen.fit(&kernel_head(kernel));
    if kernel.rows.is_empty() {
        return lines;
    }
    lines.push('\n');
    lines.push_str(&kernel_rows(kernel, top).terminal(screen));
    lines.push_str(&screen.fit(&left_out(&kernel.rows, top, |row| row.wait.total_ns)));
    lines
}

/// How much was waited for the kernel's locks in all.
fn kernel_head(kernel: &KernelTable) -> String {
    let whose = if kernel.machine { "all processes" } else { "the program and what it started" };
    if kernel.rows.is_empty() {
        return format!("The kernel's locks: {whose} waited for none, in {}.\n", time(kernel.elapsed_ns));
    }
    let mut head = format!(
        "The kernel's locks: in {}, {whose} waited for them {}, for {}.",
        time(kernel.elapsed_ns),
        text::counted(kernel.waits(), "time"),
        time(kernel.waited_ns()),
    );
    let cut = kernel.unbegun.saturating_add(kernel.unended);
    if cut > 0 {
        let _ = write!(head, " Of {}, beginning or end was not seen.", text::counted(cut, "more wait"));
    }
    head.push('\n');
    head
}

/// Callers that are shown of a lock of the kernel.
const CALLERS: usize = 3;

/// The first `top` locks of the kernel.
pub fn kernel_rows(kernel: &KernelTable, top: usize) -> Table {
    let mut shown = Table::new(kernel_columns());
    kernel.rows.iter().take(top).for_each(|row| shown.row(kernel_cells(row)));
    shown
}

fn kernel_columns() -> [Column; 11] {
    [
        Column::text("lock", "kernel lock"),
        Column::text("use", "use"),
        Column::number("waits", "waits"),
        Column::number("waited_ms", "waited ms").kept(),
        Column::percent("waiting_share", "waiting %"),
        Column::number("spinning_ms", "spinning ms"),
        Column::number("wait_ns", "wait ns"),
        Column::number("wait_p99_ns", "wait p99 ns").detail(),
        Column::number("objects", "locks").detail(),
        Column::text("callers", "called by").detail(),
        Column::text("released_by", "released by").detail().only_if_any(),
    ]
}

fn kernel_cells(row: &KernelRow) -> [Cell; 11] {
    [
        row.name.as_str().into(),
        row.kind.into(),
        row.waits.into(),
        (row.wait.total_ns / 1e6).into(),
        row.share.into(),
        (row.spun_ns / 1e6).into(),
        row.wait.mean_ns().into(),
        row.wait.quantile_ns(0.99).into(),
        row.objects.into(),
        row.callers(CALLERS).join(", ").into(),
        row.released_by.first().map(|releaser| releaser.function.as_str()).into(),
    ]
}

fn header(table: &LockTable) -> String {
    let h = &table.header;
    let mut lines = String::new();
    if !h.command.is_empty() {
        let _ = writeln!(lines, "{}", printable(&h.command.join(" ")));
    }
    lines.push_str(&figures(table));
    for warning in &h.warnings {
        let _ = writeln!(lines, "warning: {}", printable(warning));
    }
    lines
}

/// What is said of the run as a whole.
fn figures(table: &LockTable) -> String {
    let h = &table.header;
    let counted = |count: u64, one: &str, many: &str| {
        format!("{} {}", grouped(count), if count == 1 { one } else { many })
    };
    let mut lines = match h.profiles {
        0 | 1 => String::new(),
        profiles => format!("{} profiles, added up.\n", grouped(profiles)),
    };
    let processes = counted(h.processes, "process", "processes");
    let _ = match h.threads {
        threads if h.attached.is_some() => {
            write!(lines, "Attached: {} that waited, in a process ", counted(threads, "thread", "threads"))
        }
        0 => write!(lines, "No thread called a pthread lock function; {processes} "),
        threads => write!(lines, "{} in {processes} ", counted(threads, "thread", "threads")),
    };
    let all = if h.cores > 0 { format!(" of {}", h.cores) } else { String::new() };
    // An attached program may have slept all the time.
    let _ = if h.finished || h.cpu_ns > 0.0 {
        writeln!(
            lines,
            "{}used {}{all} cores for {} ({} of CPU time, {} stolen).",
            if h.attached.is_some() { "that " } else { "" },
            short(h.cores_used),
            time(h.elapsed_ns),
            time(h.cpu_ns),
            time(h.stolen_ns),
        )
    } else {
        let it = if h.attached.is_some() { "attaching" } else { "the program" };
        writeln!(lines, "in {}; the CPU time is told when {it} has ended.", time(h.elapsed_ns))
    };
    let _ = match h.operations {
        None if h.attached.is_some() => Ok(()),
        Some(n) => {
            writeln!(lines, "{} of {} of CPU time.", text::counted(n, "operation"), time(h.operation_ns))
        }
        None => {
            writeln!(lines, "Operations were not counted (--ops, --ops-regex): figures are for one second.")
        }
    };
    match &h.blocked {
        Some(blocked) => {
            let mut line = blocked_in(blocked, h.attached.is_some());
            if let Some(more) = without_a_core(h.queued_ns) {
                line.push(' ');
                line.push_str(&more);
            }
            let _ = writeln!(lines, "{line}");
        }
        None => {
            lines.push_str("Coverage unknown: nothing tells how long the threads were off their cores.\n");
        }
    }
    if let Some(attached) = &h.attached {
        lines.push_str(WAITS_ALONE);
        lines.push_str(&without_callers(attached));
        return lines;
    }
    lines.push_str(&cost(h));
    if let Some(beside) = &h.beside {
        lines.push_str(WAITS_ALONE_BESIDE);
        lines.push_str(&without_callers(beside));
    }
    lines
}

/// What recording cost; nothing where no pair was recorded, since then it was not measured.
fn cost(h: &TableHeader) -> String {
    if h.own_cost.timed_ns == 0.0 {
        return String::new();
    }
    let rate = match h.sample_period {
        1 => "on every pair".to_owned(),
        n => format!("on one pair in {}, at random", grouped(n)),
    };
    let share = if h.cpu_ns > 0.0 { 100.0 * h.own_cost.total_ns.max(0.0) / h.cpu_ns + 0.0 } else { 0.0 };
    /// Of what lies above, a part is time in which a thread that recorded had no core.
    const MOST: f64 = 90.0;
    let share = if share > MOST {
        format!("over {MOST:.0} % of the CPU time")
    } else {
        format!("{share:.1} % of the CPU time")
    };
    format!(
        "Counts on every pair, times {rate}. Recording cost {} ns a pair with times and {} ns without, {share}; it is \
         subtracted.\n",
        short(h.own_cost.timed_ns),
        short(h.own_cost.untimed_ns),
    )
}

/// What a watch from outside cannot know.
const WAITS_ALONE: &str = "Only waits that slept in the kernel (futex) are seen: no acquisitions without contention, no spinning before \
     the sleep, no locks that never sleep, no critical sections.\n";

/// The same of what stands beside what a recorder has seen.
const WAITS_ALONE_BESIDE: &str = "Of locks that are no pthread's (Rust's, C++'s std::atomic::wait) only waits that slept in the kernel \
     are seen, by the program's calls of `syscall`: their other cells are empty.\n";

fn without_callers(watched: &Attached) -> String {
    match watched.without_callers {
        0 => String::new(),
        1 => "Of 1 wait the callers are not known.\n".to_owned(),
        waits => format!("Of {} waits the callers are not known.\n", grouped(waits)),
    }
}

/// What threads were blocked in, and how much of what may have been a wait for a lock was recorded.
fn blocked_in(blocked: &Blocked, attached: bool) -> String {
    const LEAST_NS: f64 = 1e3;
    const HARDLY: f64 = 0.01;
    let mut parts = blocked.parts();
    if attached {
        // Of what is no lock a watch from outside often sees the futex alone.
        let conditions = parts.iter_mut().filter(|(name, _)| *name == "in condition waits");
        conditions.for_each(|(name, _)| *name = "in condition waits, semaphores and other futexes");
    }
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts = parts.iter().filter(|(_, ns)| *ns >= LEAST_NS);
    let parts: Vec<_> = parts.map(|(name, ns)| format!("{} {name}", time(*ns))).collect();
    if parts.is_empty() {
        return "No thread was blocked.".to_owned();
    }
    let total_ns = blocked.total_ns();
    let coverage = if blocked.recorded_ns() + blocked.missed_ns() < HARDLY * total_ns {
        "Hardly any of that can have been waits for the program's own locks.".to_owned()
    } else if blocked.is_mostly_unknown() {
        "Coverage unknown: threads were looked at too rarely for most of that.".to_owned()
    } else {
        let part = 100.0 * blocked.coverage().ratio();
        format!("Coverage {part:.0} %: the recorded part of what may have been waits for locks.")
    };
    format!("Threads were blocked for {}: {}. {coverage}", time(total_ns), parts.join(", "))
}

/// How long threads could have gone on, and had no core.
fn without_a_core(queued_ns: Option<f64>) -> Option<String> {
    const LEAST_NS: f64 = 1e6;
    let queued_ns = queued_ns.filter(|&ns| ns >= LEAST_NS)?;
    Some(format!("Besides, they were ready for {} and had no core.", time(queued_ns)))
}

/// The first `top` locks, a row for each way of using them; striped locks count as one.
pub fn rows(table: &LockTable, top: usize) -> Table {
    let folded = table.folded().into_iter().take(top);
    if has_waits_alone(table) {
        return waits_alone(table, folded);
    }
    let mut shown = Table::new(columns(table));
    for_each_use(folded, |row, way, usage| shown.row(cells(table, row, way, usage)));
    shown
}

/// These locks of a program of which nothing but waits is known.
fn waits_alone<'a>(table: &LockTable, rows: impl IntoIterator<Item = &'a LockRow>) -> Table {
    let mut shown = Table::new(attached_columns());
    for_each_use(rows, |row, way, usage| shown.row(attached_cells(table, row, way, usage)));
    shown
}

/// Whether nothing but waits is known of any lock.
fn has_waits_alone(table: &LockTable) -> bool {
    let beside = table.header.beside.is_some() && table.rows.iter().all(|row| row.exclusive.waits_only);
    table.header.attached.is_some() || beside
}

/// What is said of a lock of a program that was attached to.
fn attached_columns() -> [Column; 12] {
    [
        Column::text("lock", "lock"),
        Column::text("use", "use"),
        Column::number("waits", "waits"),
        Column::number("waited_ms", "waited ms").kept(),
        Column::percent("waiting_share", "waiting %"),
        Column::number("wait_ns", "wait ns"),
        Column::number("wait_p99_ns", "wait p99 ns").detail().only_if_any(),
        Column::number("timeouts", "timeouts").detail(),
        Column::number("threads", "threads"),
        Column::text("holder", "held by").detail().only_if_any(),
        Column::text("caller", "waited in").detail(),
        Column::text("source", "source").detail().only_if_any(),
    ]
}

/// The process of a lock; with the number of the program among those that it executed, if that is not the first one.
fn process(row: &LockRow) -> String {
    match (row.pid, row.image) {
        (0, _) => row.program.clone(), // of several processes the row has no number
        (pid, 0 | 1) => format!("{pid} {}", row.program),
        (pid, image) => format!("{pid} {} #{image}", row.program),
    }
}

/// A lock's name in a sentence: with its process, where another one's lock has the same.
fn told_name(table: &LockTable, row: &LockRow) -> String {
    let has_same_name = |other: &LockRow| other.name == row.name && other.id != row.id;
    let is_ambiguous = row.pid != 0 && table.rows.iter().any(has_same_name);
    if is_ambiguous { format!("{} ({})", row.name, process(row)) } else { row.name.clone() }
}

/// A lock's name; of striped locks, how many they are.
fn name(table: &LockTable, row: &LockRow) -> String {
    match table.striped_of(row) {
        Some(striped) => format!("{} ({} locks)", row.name, grouped(striped.locks)),
        None => row.name.clone(),
    }
}

fn attached_cells(table: &LockTable, row: &LockRow, way: String, usage: &Usage) -> [Cell; 12] {
    let (waits, waited_ns, timeouts) = if row.kind.is_lock() {
        (usage.contended, usage.waited_ns(), usage.timeouts)
    } else {
        (usage.condition_waits, usage.condition_ns, usage.condition_timeouts)
    };
    let part = |some: f64, all: f64| (all > 0.0).then(|| some / all);
    [
        name(table, row).into(),
        way.into(),
        waits.into(),
        (waited_ns / 1e6).into(),
        part(waited_ns, table.header.threads_ns()).into(),
        part(waited_ns, waits as f64).into(),
        usage.wait.quantile_ns(0.99).into(),
        timeouts.into(),
        row.threads.into(),
        row.holders.first().map(|holder| format!("{} {}", holder.name, holder.tid)).into(),
        row.caller.as_str().into(),
        row.source.clone().into(),
    ]
}

/// The filter of locks by their kind and how they are used.
pub(crate) const USE: (&str, &str) = ("use", "kind and use");

/// All locks, in a page, with the longest waits where single waits were kept.
pub fn page(table: &LockTable, timeline: Option<&Timeline>) -> Page {
    let command = table.header.command.join(" ");
    let title =
        if command.is_empty() { "Locks of a program".to_owned() } else { format!("Locks of {command}") };
    let mut page = waits::first_on_page(Page::new(&title), table);
    for warning in &table.header.warnings {
        page = page.warning(warning);
    }
    let mut unfolded = Vec::new();
    let by_id = table.rows.iter().map(|row| (row.id, row)).collect();
    for_each_use(table.folded(), |row, _, usage| {
        let members = table.striped_of(row).map(|striped| members(striped, &by_id));
        unfolded.push(unfolds_to(row, usage, members.unwrap_or_default()));
    });
    let filters = [USE, ("file", "program or library")];
    let filters = if has_waits_alone(table) { &filters[..1] } else { &filters };
    let at_end = at_end::lines(table);
    if !at_end.is_empty() {
        page = page.paragraphs(&at_end);
    }
    if let Some(gil) = &table.header.gil {
        page = page.paragraphs(&interpreter(gil));
    }
    if let Some(timeline) = timeline {
        page = page.timeline(timeline);
    }
    page = page.rows("Locks", &rows(table, usize::MAX), filters, unfolded);
    if let Some(kernel) = &table.kernel {
        let unfolded = kernel.rows.iter().map(kernel_unfolds_to);
        page = page.rows("Locks of the kernel", &kernel_rows(kernel, usize::MAX), &[USE], unfolded);
        page = page.paragraphs(&kernel_head(kernel));
    }
    page.heading("The recording").paragraphs(&figures(table))
}

/// The durations of a way of using a lock, under their names.
pub(crate) fn times(usage: &Usage) -> [(&'static str, &Times); 5] {
    [
        ("wait", &usage.wait),
        ("critical section, last holder on this core", &usage.hold_same),
        ("critical section, last holder on another core", &usage.hold_other),
        ("think time (outside the lock)", &usage.think),
        ("hand-over", &usage.handover),
    ]
}

/// Striped locks that a page names.
const NAMED: usize = 50;

/// Striped locks by name, those waited for longest first.
fn members(striped: &Striped, by_id: &HashMap<LockId, &LockRow>) -> Vec<String> {
    let named = striped.members.iter().take(NAMED).filter_map(|id| by_id.get(id));
    let member = |row: &&LockRow| {
        let (waited, acquired) = (time(row.waited_ns()), text::counted(row.acquisitions(), "acquisition"));
        format!("{}: waited {waited}, {acquired}", row.name)
    };
    let mut lines: Vec<_> = named.map(member).collect();
    if let Some(more) = striped.members.len().checked_sub(NAMED).filter(|&more| more > 0) {
        lines.push(format!("{} more (`contend report --unfold` has a row for each)", grouped(more as u64)));
    }
    lines
}

/// `members` are the locks of a row that stands for several.
fn unfolds_to<'a>(row: &'a LockRow, usage: &'a Usage, members: Vec<String>) -> Unfolded<'a> {
    let calls = if usage.waits_only {
        "Waited for by the calls, innermost first"
    } else {
        "Made by the calls, innermost first"
    };
    let looks = row.holders.iter().fold(0_u64, |sum, holder| sum.saturating_add(holder.looks));
    let holder = |holder: &LockHolder| {
        format!(
            "{} {}: {:.0} % of {}",
            holder.name,
            holder.tid,
            100.0 * holder.looks as f64 / looks as f64,
            grouped(looks)
        )
    };
    let holders = ("Held while others waited, of all looks".into(), row.holders.iter().map(holder).collect());
    let site = |site: &SiteUse| {
        format!(
            "{}: waited {} ({}), others waited {} behind it{}",
            place(site),
            time(site.waited_ns),
            text::counted(site.waits, "time"),
            time(site.behind_ns),
            held(site),
        )
    };
    let sites = ("Taken by the calls".into(), row.call_sites.iter().map(site).collect());
    let stacks = ("Waited for through the calls".into(), stacks_of_waits(row));
    let members = ("Striped locks, those waited for longest first".into(), members);
    let lists = [(calls.into(), row.calls.iter().map(call).collect()), holders, sites, stacks, members];
    let names = if row.by_hooks { "name for --site" } else { "name for --site and --only" };
    let mut facts = vec![
        (names, row.site.clone()),
        ("address", format!("{:#x}", row.address)),
        ("locks at this address, one after another", grouped(row.generations)),
    ];
    if row.by_hooks {
        let how = "by its type in the source: `contend run` replaces pthread locks alone";
        facts.push(("another lock in its place", how.to_owned()));
    }
    Unfolded {
        times: times(usage).map(|(name, times)| (name.to_owned(), times)).into(),
        lists: lists
            .into_iter()
            .filter(|(name, lines): &(String, Vec<String>)| name == calls || !lines.is_empty())
            .collect(),
        facts,
    }
}

/// Stacks of waits that are shown of a lock.
const STACKS: usize = 10;

/// The stacks with which a lock was waited for, the longest waits first: "98.4 ms (24 times): get, handle_login, main".
fn stacks_of_waits(row: &LockRow) -> Vec<String> {
    let stacks = row.call_sites.iter().flat_map(|site| &site.stacks);
    let mut stacks: Vec<_> = stacks.filter(|stack| stack.waited_ns > 0.0).collect();
    stacks.sort_by(|a, b| b.waited_ns.total_cmp(&a.waited_ns));
    let functions = |call: &Call| match &call.lines[..] {
        [] => format!("{:#x}", call.address),
        lines => lines.iter().map(|line| &*line.function).collect::<Vec<_>>().join(", "),
    };
    let line = |stack: &SiteStack| {
        let calls: Vec<_> = stack.calls.iter().map(functions).collect();
        let times = text::counted(stack.waits, "time");
        format!("{} ({times}): {}", time(stack.waited_ns), calls.join(", "))
    };
    stacks.into_iter().take(STACKS).map(line).collect()
}

/// A call as a line: its functions, inlined ones first, and where they are.
fn call(call: &Call) -> String {
    let lines = call.lines.iter().map(|line| match (line.file.is_empty(), line.line) {
        (true, _) => line.function.clone(),
        (false, 0) => format!("{} ({})", line.function, line.file),
        (false, number) => format!("{} ({}:{number})", line.function, line.file),
    });
    let functions = lines.collect::<Vec<_>>().join(", inlined into ");
    let module = call.module.as_ref().map_or("no file", |module| &module.path);
    if functions.is_empty() {
        format!("{:#x} in {module}", call.address)
    } else {
        format!("{functions} in {module}")
    }
}

fn kernel_unfolds_to(row: &KernelRow) -> Unfolded<'_> {
    let stack = |calls: &profile::read::KernelCalls| {
        let (waits, waited) = (text::counted(calls.waits, "time"), time(calls.waited_ns));
        (format!("Waited {waits}, {waited} in all, from"), calls.functions.clone())
    };
    let releaser = |one: &profile::read::KernelReleaser| {
        format!("{} ({}, {})", one.function, text::counted(one.waits, "wait"), time(one.waited_ns))
    };
    let releasers = ("Released by".into(), row.released_by.iter().map(releaser).collect());
    Unfolded {
        times: vec![("wait".into(), &row.wait)],
        lists: row.calls.iter().map(stack).chain([releasers]).collect(),
        facts: vec![
            ("interrupted waits", grouped(row.interrupted)),
            ("address", format!("{:#x}", row.address)),
        ],
    }
}

/// All locks, the kernel's behind the program's, as comma-separated values.
pub fn csv(table: &LockTable) -> String {
    if has_waits_alone(table) && table.kernel.is_none() {
        return waits_alone(table, &table.rows).csv();
    }
    let of_kernel = kernel_columns().into_iter().filter(|column| !SHARED.contains(&column.key()));
    let mut all = Table::new(columns(table).into_iter().chain(of_kernel));
    let width = kernel_columns().len() - SHARED.len();
    for_each_use(&table.rows, |row, way, usage| {
        let waits = Cell::from(usage.contended);
        all.row(
            cells(table, row, way, usage).into_iter().chain([waits]).chain(vec![Cell::Missing; width - 1]),
        );
    });
    for row in table.kernel.iter().flat_map(|kernel| &kernel.rows) {
        let keys = kernel_columns().map(|column| column.key());
        let process = ("process", Cell::from("kernel"));
        all.row_of(keys.into_iter().zip(kernel_cells(row)).chain([process]));
    }
    all.csv()
}

/// Keys of columns that the program's locks and the kernel's have both.
const SHARED: [&str; 4] = ["lock", "use", "waited_ms", "wait_p99_ns"];

/// What is said of a lock of the program.
fn columns(table: &LockTable) -> [Column; 31] {
    let counted = table.header.operations.is_some();
    let process = Column::text("process", "process");
    let process_of = |row: &LockRow| (row.pid, row.image, row.program.clone());
    let several = table.rows.iter().any(|row| process_of(row) != process_of(&table.rows[0]));
    [
        Column::text("lock", "lock"),
        if several { process.kept() } else { process.aside() },
        Column::text("use", "use").main(),
        if counted {
            Column::number("acquires_per_operation", "acquires/op")
        } else {
            Column::number("acquires_per_s", "acquires/s")
        },
        Column::number("critical_section_ns", "section ns").main(),
        Column::percent("share", "% of time"),
        Column::percent("contended_share", "contended %").main(),
        Column::number("waited_ms", "waited ms").kept(),
        Column::number("handover_ns", "hand-over ns"),
        Column::number("section_same_core_ns", "same core ns").detail(),
        Column::number("section_other_core_ns", "other core ns").detail(),
        Column::number("think_ns", "think ns").detail(),
        Column::percent("owner_changes_share", "owner changes %").detail(),
        Column::number("threads", "threads").detail(),
        Column::text("caller", "first touched in").detail(),
        Column::text("file", "in").detail(),
        Column::text("source", "source").detail(),
        Column::number("acquisitions", "acquisitions").detail(),
        Column::number("wait_p99_ns", "wait p99 ns").detail(),
        Column::number("section_p99_ns", "section p99 ns").detail(),
        Column::number("condition_waits", "cond waits").detail(),
        Column::number("condition_ms", "cond waits ms").detail(),
        Column::number("try_failures", "try failures").detail(),
        Column::number("timeouts", "timeouts").detail(),
        Column::number("nested", "nested").detail(),
        Column::text("within", "acquired within").detail(),
        Column::percent("held_running_share", "held running %").detail().only_if_any(),
        Column::percent("held_preempted_share", "held preempted %").detail().only_if_any(),
        Column::percent("held_sleeping_share", "held sleeping %").detail().only_if_any(),
        Column::percent("held_waiting_share", "held waiting %").detail().only_if_any(),
        Column::text("held_waiting_for", "held waiting for").detail().only_if_any(),
    ]
}

/// Goes through the ways of using locks, each with its name.
fn for_each_use<'a>(
    rows: impl IntoIterator<Item = &'a LockRow>,
    mut take: impl FnMut(&'a LockRow, String, &'a Usage),
) {
    for row in rows {
        let name = row.kind.name();
        let is_used = |usage: &Usage| {
            let counts = [
                usage.acquisitions, usage.contended, usage.try_failures, usage.timeouts,
                usage.condition_waits, usage.unended.waits,
            ];
            counts.iter().any(|&count| count > 0)
        };
        let both = is_used(&row.shared);
        let write = if both || name == "rwlock" { format!("{name} write") } else { name.to_owned() };
        for (way, usage) in [(write, &row.exclusive), (format!("{name} read"), &row.shared)] {
            if is_used(usage) {
                take(row, way, usage);
            }
        }
    }
}

fn cells(table: &LockTable, row: &LockRow, way: String, usage: &Usage) -> Vec<Cell> {
    let h = &table.header;
    let operations = h.operations.map_or(h.elapsed_ns / 1e9, |n| n as f64);
    let part = |some: f64, all: f64| (all > 0.0).then(|| some / all);
    let of_acquisitions = |count: u64| part(count as f64, usage.acquisitions as f64);
    let mean = |times: &Times| match times.bound_ns() {
        Some(bound) => Cell::Below(bound),
        None => times.mean_ns().into(),
    };
    let hold = usage.hold();
    let known = |cell: Cell| if usage.waits_only { Cell::Missing } else { cell };
    // What a wait was for is not known of a futex; its time is that of a condition wait.
    let waited = if usage.waits_only && !row.kind.is_lock() {
        Cell::Missing
    } else {
        (usage.waited_ns() / 1e6).into()
    };
    let is_known = row.threads_ns > 0.0 && !usage.held_unknown();
    let share_held = is_known.then(|| row.share_of(usage.held_ns()));
    let held = |part: fn(&WhileHeld) -> f64| usage.while_held.and_then(|held| held.share(part)).into();
    vec![
        name(table, row).into(),
        process(row).into(),
        way.into(),
        known(part(usage.acquisitions as f64, operations).into()),
        mean(&hold),
        known(share_held.into()),
        usage.contended_share().filter(|_| !usage.waits_only).into(),
        waited,
        mean(&usage.handover),
        mean(&usage.hold_same),
        mean(&usage.hold_other),
        mean(&usage.think),
        of_acquisitions(usage.owner_changes).into(),
        row.threads.into(),
        row.caller.as_str().into(),
        row.file.as_str().into(),
        row.source.clone().into(),
        known(usage.acquisitions.into()),
        usage.wait.quantile_ns(0.99).into(),
        hold.quantile_ns(0.99).into(),
        usage.condition_waits.into(),
        (usage.condition_ns / 1e6).into(),
        known(usage.try_failures.into()),
        usage.timeouts.into(),
        known(usage.nested.into()),
        row.within.as_ref().map(within).into(),
        held(|held| held.running_ns),
        held(|held| held.preempted_ns),
        held(|held| held.sleeping_ns),
        held(|held| held.waiting_ns),
        row.waiting_for().into(),
    ]
}

fn within(within: &Within) -> String {
    let sections = if within.shared { "read section" } else { "section" };
    format!("{}: {:.2} a {sections}", within.lock, within.acquisitions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::every_screen;
    use profile::read::{KernelCalls, OwnCost};
    use profile::{LockKind, ObjectKind, Options, Profile};

    #[test]
    fn every_column_is_documented() {
        let document = include_str!("../../../docs/profile.md");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.contend");
        profile::session::Recording::create(&path, 0, 1, profile::session::Overwrite::Profiles).unwrap();
        let mut table = Profile::open(&path).unwrap().table(&Options::default());
        for operations in [None, Some(1)] {
            table.header.operations = operations;
            let csv = csv(&table);
            let keys: Vec<_> = csv.lines().next().unwrap().split(',').collect();
            assert!(keys.len() > 20, "{csv}");
            for key in keys {
                assert!(document.contains(&format!("`{key}`")), "docs/profile.md lacks {key}");
            }
        }
    }

    #[test]
    fn an_empty_profile_has_a_header_and_says_that_it_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.contend");
        let recording =
            profile::session::Recording::create(&path, 0, 1, profile::session::Overwrite::Profiles).unwrap();
        recording.finish(profile::format::RunValues::default(), &[]).unwrap();
        let table = Profile::open(&path).unwrap().table(&Options::default());
        let text = text(&table, 20, Screen::FILE);
        assert!(text.contains("No lock was touched") && text.contains("Coverage unknown"), "{text}");
        assert!(rows(&table, 20).is_empty());
    }

    pub(super) fn header() -> TableHeader {
        TableHeader {
            schema: 1,
            command: vec!["./server".into(), "--threads".into(), "8".into()],
            processes: 1,
            threads: 8,
            cores: 4,
            started_realtime_ns: 1_700_000_000_000_000_000,
            elapsed_ns: 2e9,
            cpu_ns: 7.2e9,
            cores_used: 3.6,
            concurrency: 4.0,
            ran_together: true,
            stolen_ns: 1.5e7,
            queued_ns: Some(1e6),
            operations: Some(500_000),
            operation_ns: 14_400.0,
            sample_period: 64,
            own_cost: OwnCost {
                timed_ns: 28.0,
                untimed_ns: 11.0,
                in_hold_ns: 12.0,
                in_think_ns: 9.0,
                total_ns: 9e7,
            },
            warnings: vec!["the file was full: 12 locks are merged into one row".into()],
            ..TableHeader::default()
        }
    }

    pub(super) fn usage(acquisitions: u64, wait_ns: f64) -> Usage {
        let times = |count: u64, total_ns: f64| Times { count, total_ns, ..Times::default() };
        Usage {
            acquisitions,
            contended: acquisitions / 5,
            owner_changes: acquisitions / 2,
            wait: times(acquisitions / 5, wait_ns),
            hold_same: times(1_000, 1_000.0 * 80.0),
            hold_other: times(2_000, 2_000.0 * 190.0),
            think: times(3_000, 3_000.0 * 1_250.0),
            handover: times(500, 500.0 * 5_200.0),
            ..Usage::default()
        }
    }

    pub(super) fn row(name: &str, kind: LockKind, exclusive: Usage, shared: Usage) -> LockRow {
        LockRow {
            caller: "serve_request".into(),
            file: "server".into(),
            source: Some("server.c:120".into()),
            pid: 4_711,
            program: "server".into(),
            address: 0x4040,
            threads: 8,
            exclusive,
            shared,
            acquisitions_per_operation: Some(2.0),
            critical_section_ns: Some(150.0),
            threads_ns: 1.5e10,
            share: Some(0.01),
            ..LockRow::new(name, kind)
        }
    }

    #[test]
    fn a_profile_on_every_screen() {
        let rows = vec![
            row(
                "cache::Table::tune_logger",
                LockKind::Object(ObjectKind::Mutex),
                usage(1_000_000, 1.1e9),
                Usage::default(),
            ),
            row(
                "settings_lock",
                LockKind::Object(ObjectKind::Rwlock),
                usage(2_000, 4e5),
                usage(400_000, 2.5e7),
            ),
            row("log_lock", LockKind::Object(ObjectKind::Spin), usage(900, 1.2e4), Usage::default()),
        ];
        let table = LockTable { header: header(), rows, striped: Vec::new(), kernel: None, program: None };
        let names = ["cache::Table::tune_logger", "settings_lock"];
        insta::assert_snapshot!(every_screen(&names, |screen| text(&table, 2, screen)));
    }

    /// A program that was attached to: two locks, of which one is known to be held by a thread, and a condition.
    fn attached() -> LockTable {
        let waits = |contended: u64, total_ns: f64| Usage {
            waits_only: true,
            contended,
            wait: Times { count: contended, total_ns, ..Times::default() },
            ..Usage::default()
        };
        let condition =
            Usage { waits_only: true, condition_waits: 12, condition_ns: 9e9, ..Usage::default() };
        let mutex = LockKind::Object(ObjectKind::Mutex);
        let mut rows = vec![
            row("cache::Table::tune_logger", mutex, waits(4_200, 1.1e9), Usage::default()),
            row(
                "settings_lock",
                LockKind::Object(ObjectKind::Rwlock),
                Usage { waits_only: true, ..Usage::default() },
                waits(30, 4e5),
            ),
            row("work_condition", LockKind::Condition, condition, Usage::default()),
        ];
        rows[0].holders.push(LockHolder { tid: 4_713, name: "writer".into(), looks: 80 });
        for row in &mut rows {
            (row.acquisitions_per_operation, row.critical_section_ns, row.share) = (None, None, None);
        }
        let attached = Some(Attached { lost_events: 0, without_callers: 3 });
        LockTable {
            header: TableHeader { attached, operations: None, ..header() },
            rows,
            striped: Vec::new(),
            kernel: None,
            program: None,
        }
    }

    #[test]
    fn an_attached_program_on_every_screen() {
        let table = attached();
        let names = ["cache::Table::tune_logger", "settings_lock", "work_condition"];
        insta::assert_snapshot!(every_screen(&names, |screen| text(&table, 3, screen)));
    }

    /// As after a `kill -9` of what was attached.
    #[test]
    fn attaching_that_has_not_ended_tells_no_cpu_time() {
        let mut table = attached();
        table.header.cpu_ns = 0.0;
        let figures = figures(&table);
        let first = "Attached: 8 threads that waited, in a process in 2.00 s; the CPU time is told when attaching has ended.";
        assert_eq!(figures.lines().next(), Some(first));
        table.header.finished = true;
        table.header.cores_used = 0.0;
        let figures = super::figures(&table);
        let first = "Attached: 8 threads that waited, in a process that used 0 of 4 cores for 2.00 s (0 ns of CPU time, 15.0 ms stolen).";
        assert_eq!(figures.lines().next(), Some(first), "it slept all the time");
    }

    #[test]
    fn an_attached_program_has_its_waits_as_comma_separated_values() {
        let csv = csv(&attached());
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let keys = lines.next().unwrap();
        let rows: Vec<_> = lines.collect();
        let of = |row: usize, key: &str| rows[row][keys.iter().position(|known| *known == key).unwrap()];
        assert!(!keys.contains(&"acquisitions") && !keys.contains(&"critical_section_ns"), "{csv}");
        let first = ["waits", "waited_ms", "timeouts", "holder", "wait_p99_ns"].map(|key| of(0, key));
        assert_eq!(first, ["4200", "1100", "0", "writer 4713", ""]);
        assert_eq!((of(2, "lock"), of(2, "waits"), of(2, "waited_ms")), ("work_condition", "12", "9000"));
        let page = page(&attached(), None).html();
        assert!(page.contains("writer 4713: 100 % of 80"), "{page}");
    }

    #[test]
    fn programs_that_one_process_executed_are_told_apart() {
        let mut rows: Vec<_> = (1..3)
            .map(|image| LockRow {
                id: LockId { section: image, number: 3 },
                image,
                call_sites: vec![SiteUse { function: "w".into(), waited_ns: 5e8, ..SiteUse::default() }],
                ..row("m", LockKind::Object(ObjectKind::Mutex), usage(9, 5e8), Usage::default())
            })
            .collect();
        let table =
            |rows| LockTable { header: header(), rows, striped: Vec::new(), kernel: None, program: None };
        let both = text(&table(rows.clone()), 20, Screen::FILE);
        for part in
            ["4711 server #2", "Waits for m (4711 server): 100 %", "Waits for m (4711 server #2): 100 %"]
        {
            assert!(both.contains(part), "{part}: {both}");
        }
        rows.truncate(1);
        assert!(text(&table(rows), 20, Screen::FILE).contains("Waits for m: 100 %"));
    }

    /// Three locks, each of whose holders waits for the next one; and the last one's for the first, where they are in a circle.
    fn chained(last_waits: bool) -> LockTable {
        let names = ["a", "b", "c"];
        let row_of = |number: usize| {
            let waits = number < 2 || last_waits;
            let held = WhileHeld {
                sleeping_ns: if waits { 1.0 } else { 99.0 },
                waiting_ns: if waits { 99.0 } else { 1.0 },
                ..WhileHeld::default()
            };
            let site = SiteUse {
                function: format!("in_{}", names[number]),
                waited_ns: 5e8,
                behind_ns: 5e8,
                holds: 1,
                held_ns: 4e6,
                while_held: Some(held),
                waiting_for: waits.then(|| names[(number + 1) % 3].into()),
                ..SiteUse::default()
            };
            LockRow {
                id: LockId { section: 1, number: number as u32 },
                call_sites: vec![site],
                ..row(names[number], LockKind::Object(ObjectKind::Mutex), usage(9, 5e8), Usage::default())
            }
        };
        let rows = (0..3).map(row_of).collect();
        LockTable { header: header(), rows, striped: Vec::new(), kernel: None, program: None }
    }

    #[test]
    fn what_a_holder_waits_for_is_followed_to_who_holds_that() {
        let table = chained(false);
        let told = |row: usize| chain(&table, &table.rows[row]);
        let [first, last] = [
            "in_a waits for b behind in_b, which waits for c behind in_c, held 4.00 ms (sleeping 99 %, waiting for other locks 1 %).",
            "in_b waits for c behind in_c, held 4.00 ms (sleeping 99 %, waiting for other locks 1 %).",
        ];
        assert_eq!([told(0), told(1), told(2)], [Some(first.into()), Some(last.into()), None]);
        let circle = chained(true);
        let told = chain(&circle, &circle.rows[0]).unwrap();
        assert!(
            told.starts_with("in_a waits for b behind in_b, which waits for c behind in_c, held"),
            "{told}"
        );
    }

    #[test]
    fn a_lock_that_the_program_records_by_itself_has_no_name_for_a_command_that_does_not_swap_it() {
        let own = |by_hooks| {
            let mutex = LockKind::Object(ObjectKind::Mutex);
            let row = LockRow { by_hooks, ..row("JOBS", mutex, usage(9, 5e8), Usage::default()) };
            let rows = vec![row];
            let table =
                LockTable { header: header(), rows, striped: Vec::new(), kernel: None, program: None };
            page(&table, None).html()
        };
        assert!(own(false).contains("name for --site and --only"));
        let page = own(true);
        assert!(page.contains("name for --site") && !page.contains("--only"), "{page}");
        assert!(page.contains("by its type in the source"), "{page}");
    }

    #[test]
    fn one_wait_is_no_waits() {
        let without = |waits| without_callers(&Attached { lost_events: 0, without_callers: waits });
        assert_eq!([without(0), without(1)], ["", "Of 1 wait the callers are not known.\n"]);
        assert!(without(1_000).starts_with("Of 1,000 waits"));
        let once = kernel_row("vm_mmap_pgoff", "rwsem write", 1, 2.0, 0.0);
        assert_eq!(kernel_unfolds_to(&once).lists[0].0, "Waited 1 time, 2.00 ns in all, from");
    }

    fn kernel_row(name: &str, kind: &'static str, waits: u64, wait_ns: f64, spun_ns: f64) -> KernelRow {
        let functions = ["_raw_spin_lock", name, "d_alloc_parallel", "lookup_open.isra.0", "path_openat"];
        KernelRow {
            name: name.into(),
            kind,
            variable: false,
            address: 0xffff_ffff_8100_0000,
            objects: 1,
            waits,
            interrupted: 0,
            wait: Times { count: waits, total_ns: wait_ns, ..Times::default() },
            spun_ns,
            share: Some(wait_ns / 1.5e10),
            calls: vec![KernelCalls {
                functions: functions.map(String::from).into(),
                addresses: vec![1, 2, 3, 4, 5],
                waits,
                waited_ns: wait_ns,
            }],
            released_by: Vec::new(),
        }
    }

    fn with_kernel() -> LockTable {
        let rows =
            vec![row("log_lock", LockKind::Object(ObjectKind::Spin), usage(900, 1.2e4), Usage::default())];
        let kernel = KernelTable {
            machine: false,
            elapsed_ns: 2e9,
            events: 123_456,
            lost: 0,
            unbegun: 2,
            unended: 3,
            dropped: 0,
            rows: vec![
                kernel_row("vm_mmap_pgoff", "rwsem write", 61_000, 1.9e9, 0.0),
                kernel_row("lockref_get_not_dead", "spin", 700, 4.1e5, 4.1e5),
                kernel_row("ext4_evict_inode [ext4]", "mutex", 28, 1.2e4, 9e3),
            ],
        };
        LockTable { header: header(), rows, striped: Vec::new(), kernel: Some(kernel), program: None }
    }

    #[test]
    fn the_kernels_locks_on_every_screen() {
        let table = with_kernel();
        let names = ["log_lock", "vm_mmap_pgoff", "lockref_get_not_dead"];
        insta::assert_snapshot!(every_screen(&names, |screen| text(&table, 2, screen)));
    }

    #[test]
    fn a_page_has_the_kernels_locks_with_all_their_stacks() {
        let page = page(&with_kernel(), None).html();
        for part in [
            "<h1>Locks of ./<wbr>server --threads 8</h1>",
            "Warning: the file was full",
            "Locks of the kernel</h2>",
            "ext4_evict_inode [ext4]",
            r#"{"name":"Waited 700 times, 410 µs in all, from","lines":["_raw_spin_lock","lockref_get_not_dead","#,
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn comma_separated_values_have_the_kernels_locks_in_the_same_columns() {
        let csv = csv(&with_kernel());
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let keys = lines.next().unwrap();
        let rows: Vec<_> = lines.collect();
        assert_eq!(rows.len(), 4, "{csv}");
        let of = |row: usize, key: &str| rows[row][keys.iter().position(|known| *known == key).unwrap()];
        assert_eq!((of(0, "lock"), of(0, "waits"), of(0, "spinning_ms")), ("log_lock", "180", ""));
        assert_eq!(
            (of(1, "lock"), of(1, "process"), of(1, "use")),
            ("vm_mmap_pgoff", "kernel", "rwsem write")
        );
        assert_eq!((of(1, "waited_ms"), of(1, "waits"), of(1, "acquisitions")), ("1900", "61000", ""));
        assert_eq!((of(2, "spinning_ms"), of(2, "objects")), ("0.41", "1"));
    }

    #[test]
    fn a_kernel_without_contention_is_said() {
        let mut table = with_kernel();
        let kernel = table.kernel.as_mut().unwrap();
        kernel.rows.clear();
        kernel.machine = true;
        let text = text(&table, 2, Screen::FILE);
        assert!(text.contains("all processes waited for none, in 2.00 s."), "{text}");
    }
}
