//! What grew between two profiles, for people.

use crate::lock_table::{USE, times};
use crate::page::Unfolded;
use crate::text::{grouped, short};
use crate::{Cell, Column, Page, Screen, Table};
use profile::read::{Change, KernelChange, KernelMeasures, LockId, Measures, SiteChange, SiteMeasures};
use profile::{Diff, LockRow, LockTable, Times};
use std::collections::{BTreeMap, HashMap};

/// The head, then the first `top` locks, callers and call sites (all if 0) by what grew most.
pub fn text(diff: &Diff, top: usize, screen: Screen) -> String {
    let top = if top == 0 { usize::MAX } else { top };
    let mut lines = format!(
        "{}\nBy lock\n{}\nBy the function that touched the lock first\n{}",
        screen.fit(&head(diff)),
        table("lock", &diff.locks, top, diff.waits_only).terminal(screen),
        table("caller", &diff.callers, top, diff.waits_only).terminal(screen),
    );
    if let Some(sites) = diff.call_sites.as_ref().filter(|sites| !sites.is_empty()) {
        lines.push_str(&format!("\n{BY_CALL_SITE}\n{}", sites_table(sites, top).terminal(screen)));
    }
    if let Some(kernel) = &diff.kernel {
        lines.push_str("\nBy lock of the kernel\n");
        lines.push_str(&kernel_table(kernel, top).terminal(screen));
    }
    lines
}

/// What a table of call sites is headed by.
const BY_CALL_SITE: &str = "By the function that waits for the lock, or is waited behind";

/// The two runs as a whole.
fn head(diff: &Diff) -> String {
    let unit = if diff.per_operation { "operation" } else { "second" };
    let [before, after] = diff.operation_ns;
    let ratio = if before > 0.0 { format!(" (× {})", short(after / before)) } else { String::new() };
    let compared = if diff.waits_only {
        "Only waits are compared: one of the programs was attached to, which shows nothing else.\n"
    } else {
        ""
    };
    format!(
        "Threads {} → {}, cores in use {} → {}. CPU time for one {unit}: {} µs → {} µs{ratio}.\n\
         All times are for one {unit}.\n{compared}",
        grouped(diff.threads[0]),
        grouped(diff.threads[1]),
        short(diff.cores_used[0]),
        short(diff.cores_used[1]),
        short(before / 1e3),
        short(after / 1e3),
    )
}

/// What grew between these two tables, in a page. Each lock unfolds to its distributions in both.
pub fn page(diff: &Diff, tables: [&LockTable; 2]) -> Page {
    let mut page = Page::new("What grew between two profiles");
    for (when, table) in ["Before", "After"].into_iter().zip(tables) {
        page = page.paragraphs(&format!("{when}: {}", table.header.command.join(" ")));
        for warning in &table.header.warnings {
            page = page.warning(&format!("{}, {warning}", when.to_lowercase()));
        }
    }
    page = page.paragraphs(&head(diff));
    let by_caller = "By the function that touched the lock first";
    for (heading, what, changes) in [("By lock", "lock", &diff.locks), (by_caller, "caller", &diff.callers)] {
        let sums = added_up(changes, tables);
        page = page.rows(
            heading,
            &table(what, changes, usize::MAX, diff.waits_only),
            &[],
            sums.iter().map(unfolds_to),
        );
    }
    if let Some(sites) = &diff.call_sites {
        let unfolded = sites.iter().map(|_| Unfolded::default());
        page = page.rows(BY_CALL_SITE, &sites_table(sites, usize::MAX), &[], unfolded);
    }
    if let Some(kernel) = &diff.kernel {
        let unfolded = kernel.iter().map(|_| Unfolded::default());
        page = page.rows("By lock of the kernel", &kernel_table(kernel, usize::MAX), &[USE], unfolded);
    }
    page
}

/// The durations of a change, before and after.
type Distributions = Vec<(String, Times)>;

/// The durations of all locks that are added up in each change.
fn added_up(changes: &[Change], tables: [&LockTable; 2]) -> Vec<Distributions> {
    let rows =
        tables.map(|table| table.rows.iter().map(|row| (row.id, row)).collect::<HashMap<LockId, &LockRow>>());
    let of = |change: &Change| {
        let mut sums: BTreeMap<(usize, usize), (String, Times)> = BTreeMap::new();
        for (side, when) in ["before", "after"].into_iter().enumerate() {
            let rows = change.rows[side].iter().filter_map(|id| rows[side].get(id));
            for usage in rows.flat_map(|row| [&row.exclusive, &row.shared]) {
                for (place, (name, times)) in times(usage).into_iter().enumerate() {
                    let sum = sums
                        .entry((place, side))
                        .or_insert_with(|| (format!("{name}, {when}"), Times::default()));
                    sum.1 = sum.1.and(times);
                }
            }
        }
        sums.into_values().collect()
    };
    changes.iter().map(of).collect()
}

fn unfolds_to(sums: &Distributions) -> Unfolded<'_> {
    Unfolded {
        times: sums.iter().map(|(name, times)| (name.clone(), times)).collect(),
        ..Unfolded::default()
    }
}

fn sites_table(changes: &[SiteChange], top: usize) -> Table {
    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::text("function", "taken in").kept(),
        Column::number("growth_us", "growth µs").kept(),
        Column::text("waited_us", "waited µs"),
        Column::text("behind_us", "behind µs"),
        Column::text("hold_ns", "hold ns").detail(),
        Column::text("waits", "waits").detail(),
        Column::text("source", "source").detail().only_if_any(),
    ]);
    for change in changes.iter().take(top) {
        let sides = |value: fn(&SiteMeasures) -> f64, unit: f64| {
            Cell::Sides(value(&change.before) / unit, value(&change.after) / unit)
        };
        table.row([
            change.lock.as_str().into(),
            change.function.as_str().into(),
            (change.growth_ns() / 1e3).into(),
            sides(|m| m.waited_ns, 1e3),
            sides(|m| m.behind_ns, 1e3),
            sides(|m| m.hold_ns, 1.0),
            sides(|m| m.waits, 1.0),
            change.source.clone().into(),
        ]);
    }
    table
}

fn kernel_table(changes: &[KernelChange], top: usize) -> Table {
    let mut table = Table::new([
        Column::text("lock", "kernel lock"),
        Column::text("use", "use"),
        Column::percent("growth_share", "growth %").kept(),
        Column::text("waiting_share", "waiting %"),
        Column::text("waited_us", "waited µs"),
        Column::text("spun_us", "spinning µs").detail(),
        Column::text("waits", "waits").detail(),
    ]);
    for change in changes.iter().take(top) {
        let sides = |value: fn(&KernelMeasures) -> f64, unit: f64| {
            Cell::Sides(value(&change.before) / unit, value(&change.after) / unit)
        };
        table.row([
            change.name.as_str().into(),
            change.kind.into(),
            change.growth().into(),
            sides(|m| m.share, 0.01),
            sides(|m| m.waited_ns, 1e3),
            sides(|m| m.spun_ns, 1e3),
            sides(|m| m.waits, 1.0),
        ]);
    }
    table
}

fn table(what: &'static str, changes: &[Change], top: usize, waits_only: bool) -> Table {
    let mut table = Table::new([
        Column::text(what, what),
        Column::number("growth_us", "growth µs").kept(),
        Column::number("ratio", "×"),
        Column::text("waited_us", "waited µs"),
        Column::text("held_us", "held µs").only_if_any(),
        Column::text("section_ns", "section ns").detail().only_if_any(),
        Column::text("handover_ns", "hand-over ns").detail().only_if_any(),
        Column::text("acquisitions", "acquires").detail().only_if_any(),
    ]);
    for change in changes.iter().take(top) {
        let sides = |value: fn(&Measures) -> f64, unit: f64| {
            Cell::Sides(value(&change.before) / unit, value(&change.after) / unit)
        };
        let known = |cell: Cell| if waits_only || change.waits_only { Cell::Missing } else { cell };
        let ratio = Some(change.ratio()).filter(|ratio| ratio.is_finite());
        table.row([
            change.name.as_str().into(),
            (change.growth_ns() / 1e3).into(),
            ratio.into(),
            sides(|m| m.waited_ns, 1e3),
            known(sides(|m| m.held_ns, 1e3)),
            known(sides(|m| m.critical_section_ns, 1.0)),
            known(sides(|m| m.handover_ns, 1.0)),
            known(sides(|m| m.acquisitions, 1.0)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::every_screen;

    #[test]
    fn what_grew_most_comes_first_and_new_locks_have_no_ratio() {
        let measures = |waited_ns| Measures { waited_ns, ..Measures::default() };
        let change = |name: &str, before, after| Change {
            name: name.into(),
            before: measures(before),
            after: measures(after),
            waits_only: false,
            rows: Default::default(),
        };
        let shown = table("lock", &[change("grown", 1e3, 5e3), change("new", 0.0, 2e3)], 1, false)
            .terminal(Screen::FILE);
        assert!(shown.contains("grown") && shown.contains("4.00") && shown.contains("5.00"), "{shown}");
        assert!(!shown.contains("new"), "{shown}");
        let all = table("lock", &[change("new", 0.0, 2e3)], 9, false).csv();
        assert!(all.contains("new,2,,0 → 2.00"), "{all}");
    }

    #[test]
    fn a_difference_on_every_screen() {
        let measures = |cost: f64| Measures {
            acquisitions: 1.5e5,
            contended: 2e4,
            waited_ns: cost,
            held_ns: 0.2 * cost,
            critical_section_ns: 120.0,
            handover_ns: 5_300.0,
        };
        let change = |name: &str, before: f64, after: f64| Change {
            name: name.into(),
            before: measures(before),
            after: measures(after),
            waits_only: false,
            rows: Default::default(),
        };
        let diff = Diff {
            waits_only: false,
            per_operation: true,
            operation_ns: [5_000.0, 12_500.0],
            threads: [1, 8],
            cores_used: [0.99, 5.4],
            locks: vec![change("cache::Table::tune_logger", 1e3, 9e3), change("log_lock", 4e2, 3e2)],
            callers: vec![change("serve_request", 1.4e3, 9.3e3)],
            call_sites: Some(vec![SiteChange {
                lock: "cache::Table::tune_logger".into(),
                function: "cache::Table::rebalance(unsigned long)".into(),
                source: Some("/src/cache/table.cpp:188".into()),
                before: SiteMeasures { waits: 1.5, waited_ns: 2e2, behind_ns: 0.0, hold_ns: 880.0 },
                after: SiteMeasures { waits: 2.5, waited_ns: 3e2, behind_ns: 8.1e3, hold_ns: 4_120.0 },
            }]),
            kernel: Some(vec![KernelChange {
                name: "vm_mmap_pgoff".into(),
                kind: "rwsem write",
                before: KernelMeasures { waits: 12.0, waited_ns: 1.5e4, spun_ns: 0.0, share: 0.015 },
                after: KernelMeasures { waits: 31.0, waited_ns: 4.2e5, spun_ns: 0.0, share: 0.42 },
            }]),
        };
        let names = ["cache::Table::tune_logger", "log_lock", "serve_request", "rebalance", "vm_mmap_pgoff"];
        insta::assert_snapshot!(every_screen(&names, |screen| text(&diff, 0, screen)));
    }
}
