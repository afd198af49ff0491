//! What the page of a profile begins with: how long threads waited, for which locks, and who waited.

use super::name;
use crate::Page;
use crate::call_sites::{behind, percent, waits};
use crate::page::Bar;
use crate::text::{counted, time};
use profile::{LockRow, LockTable};

/// Locks that have a bar of their own.
const BARS: usize = 6;

/// What is said without a wait: what was not recorded may have been one, which the notes below tell.
const NONE: &str = "No wait for a lock of the program was recorded.";

/// A sentence, and a bar of the time waited for each lock.
pub(super) fn first_on_page(page: Page, table: &LockTable) -> Page {
    let mut rows: Vec<_> = table.folded().into_iter().filter(|row| row.waited_ns() > 0.0).collect();
    rows.sort_by(|a, b| b.waited_ns().total_cmp(&a.waited_ns()));
    page.paragraphs(&sentence(table, &rows)).bars(&bars(table, &rows))
}

/// How long threads waited for locks, and for which one most; `rows` are by their waits.
fn sentence(table: &LockTable, rows: &[&LockRow]) -> String {
    let Some(first) = rows.first() else { return NONE.to_owned() };
    let all_ns = total_ns(rows);
    let threads_ns = table.header.threads_ns();
    // Without the time in which threads were blocked, that of their waits is a part of nothing.
    let part = if threads_ns >= all_ns && table.header.blocked.is_some() {
        format!(", {} of their time", percent(all_ns / threads_ns))
    } else {
        String::new()
    };
    let (waited, share) = (time(all_ns), percent(first.waited_ns() / all_ns));
    format!(
        "Threads waited {waited} for locks{part}. Of the waiting, {share} was for {}.",
        name(table, first)
    )
}

fn total_ns(rows: &[&LockRow]) -> f64 {
    rows.iter().map(|row| row.waited_ns()).sum()
}

/// The bars of the locks that were waited for longest, and one of all others together.
fn bars(table: &LockTable, rows: &[&LockRow]) -> Vec<Bar> {
    let (drawn, others) = rows.split_at(rows.len().min(BARS));
    let rest_ns = total_ns(others);
    let longest_ns = drawn.first().map_or(1.0, |row| row.waited_ns()).max(rest_ns);
    let bar = |row: &&LockRow| Bar {
        name: name(table, row),
        value: time(row.waited_ns()),
        length: row.waited_ns() / longest_ns,
        pieces: waits(&row.call_sites).collect(),
        note: behind(&row.call_sites).unwrap_or_default(),
    };
    let mut bars: Vec<Bar> = drawn.iter().map(bar).collect();
    if !others.is_empty() {
        let name = counted(others.len() as u64, "more lock");
        bars.push(Bar { name, value: time(rest_ns), length: rest_ns / longest_ns, ..Bar::default() });
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::super::tests::{header, row, usage};
    use super::*;
    use crate::lock_table::page;
    use profile::read::SiteUse;
    use profile::{LockKind, ObjectKind, Usage};

    fn waited(name: &str, wait_ns: f64) -> LockRow {
        row(name, LockKind::Object(ObjectKind::Mutex), usage(9, wait_ns), Usage::default())
    }

    fn table(rows: Vec<LockRow>) -> LockTable {
        LockTable { header: header(), rows, striped: Vec::new(), kernel: None, program: None }
    }

    #[test]
    fn a_page_begins_with_the_sentence_and_a_bar_for_each_lock_with_its_callers() {
        let mut rows = vec![waited("b::<lock>", 1e6), waited("a::lock", 3e6)];
        let of = |function: &str, waited_ns, behind_ns| SiteUse {
            function: function.into(),
            waited_ns,
            behind_ns,
            ..SiteUse::default()
        };
        rows[1].call_sites = vec![of("get", 2.25e6, 0.0), of("put", 0.75e6, 3e6)];
        let page = page(&table(rows), None).html();
        let main = page.split_once("</h1>").unwrap().1.trim_start();
        assert!(main.starts_with("<p>Threads waited 4.00 ms for locks"), "{main}");
        assert!(main.split_once("</p>").unwrap().0.ends_with("75 % was for a::<wbr>lock."), "{main}");
        let bars = main.split_once("<ol class=\"bars\">").unwrap().1.split_once("</ol>").unwrap().0;
        let (first, second) = bars.split_once("b::<wbr>&lt;lock&gt;").unwrap();
        assert!(first.contains("<b>a::<wbr>lock</b> <span>3.00 ms</span>"), "{first}");
        for part in [
            "<rect class=\"piece0\" x=\"0.00\" width=\"75.00\"",
            "<rect class=\"piece1\" x=\"75.00\" width=\"25.00\"",
            "<rect class=\"rest\" x=\"100.00\" width=\"0.00\"",
            "75 % in get</li>",
            "<li>100 % behind put</li>",
        ] {
            assert!(first.contains(part), "{part}: {first}");
        }
        assert!(second.contains("<rect class=\"rest\" x=\"0.00\" width=\"33.33\""), "{second}");
    }

    #[test]
    fn many_locks_are_a_few_bars_and_one_for_the_rest() {
        let rows = (0..9).map(|number| waited(&format!("lock{number}"), f64::from(number + 1))).collect();
        let page = page(&table(rows), None).html();
        assert_eq!(page.matches("<svg viewBox").count(), BARS + 1);
        assert!(page.contains("<b>3 more locks</b> <span>6.00 ns</span>"), "{page}");
        let calm = page_of_calm();
        assert!(calm.contains(&format!("<p>{NONE}</p>")) && !calm.contains("class=\"bars\""));
    }

    fn page_of_calm() -> String {
        page(&table(vec![waited("calm", 0.0)]), None).html()
    }
}
