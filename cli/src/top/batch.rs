//! Tables for logs, one an interval.

use super::end::End;
use super::sort::Sort;
use crate::output;
use humantime::format_rfc3339_millis;
use profile::read::live::{LiveHeader, LiveRow, LiveTable, LiveThread, Watch};
use report::text::{grouped, printable, time};
use report::{Cell, Column, Screen, Table, call_sites};
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// What to print, and how often.
pub(super) struct Plan {
    /// So many tables; without it until the program ends.
    pub(super) count: Option<u64>,
    pub(super) interval: Duration,
    pub(super) json: bool,
    pub(super) sort: Sort,
    /// Rows of a table.
    pub(super) top: usize,
}

/// Prints a table for each interval, until there are enough or the program has ended.
pub(super) fn run(mut watch: Watch, first: LiveTable, plan: &Plan) -> anyhow::Result<()> {
    let mut table = first;
    let mut end = End::of(&watch);
    for printed in 1.. {
        plan.sort.apply(&mut table.rows);
        let now = SystemTime::now();
        output::print(&if plan.json {
            line(&table, now, plan.top)?
        } else {
            text(&table, now, plan.top, Screen::stdout())
        })?;
        if table.header.ended.is_some() || plan.count == Some(printed) {
            break;
        }
        end.wait(plan.interval);
        table = watch.look()?;
    }
    Ok(())
}

/// A table on one line.
fn line(table: &LiveTable, now: SystemTime, top: usize) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        time: String,
        header: &'a LiveHeader,
        rows: &'a [LiveRow],
    }
    let rows = &table.rows[..top.min(table.rows.len())];
    let line = Line { time: format_rfc3339_millis(now).to_string(), header: &table.header, rows };
    Ok(serde_json::to_string(&line)? + "\n")
}

/// Locks of which it is said from where they are waited for, at most.
const TOLD: usize = 3;

fn text(table: &LiveTable, now: SystemTime, top: usize, screen: Screen) -> String {
    let mut lines = screen.fit(&format!("{} {}\n", format_rfc3339_millis(now), summary(&table.header)));
    for note in notes(&table.header) {
        lines += &screen.fit(&format!("{note}\n"));
    }
    if table.rows.is_empty() {
        lines += "No lock was used.\n";
    } else {
        lines += &rows(table, top).terminal(screen);
        let shown = &table.rows[..table.rows.len().min(top)];
        let told = shown.iter().filter_map(|row| wait_sentence(table, row));
        told.take(TOLD).for_each(|sentence| lines += &screen.fit(&format!("{sentence}\n")));
    }
    if let Some(left_out) = table.rows.len().checked_sub(top).filter(|&count| count > 0) {
        lines += &screen.fit(&format!("{} more (--top 0 prints them).\n", grouped(left_out as u64)));
    }
    lines + "\n"
}

/// What runs, for how long, and what the rates are those of.
pub(super) fn summary(header: &LiveHeader) -> String {
    let counted = |count: u64, one: &str, many: &str| {
        format!("{} {}", grouped(count), if count == 1 { one } else { many })
    };
    let elapsed = time(header.elapsed_ns);
    let state = match &header.ended {
        Some(how) => format!("The program has ended after {elapsed}: {}", printable(how)),
        None => format!(
            "{} of {} after {elapsed}",
            counted(header.threads, "thread", "threads"),
            counted(header.processes, "process", "processes"),
        ),
    };
    let span = if header.whole_run {
        "the whole run".to_owned()
    } else {
        format!("the last {}", time(header.span_ns))
    };
    format!("{state}. Rates are those of {span}.")
}

/// What to know before believing the table.
pub(super) fn notes(header: &LiveHeader) -> Vec<String> {
    let mut notes = Vec::new();
    if header.sample_period > 1 {
        notes.push(format!(
            "One pair in {} is timed (--sample): who holds a lock is known of those alone.",
            grouped(header.sample_period)
        ));
    }
    if !header.marks_waits {
        notes.push("Present waits are not known: the program was started by an older contend.".to_owned());
    }
    if header.dropped > 0 {
        let dropped = grouped(header.dropped);
        notes.push(format!("The profile is full: {dropped} events were not recorded (--size-limit)."));
    }
    notes
}

/// A thread as it is shown: its name and its identifier.
pub(super) fn thread_name(thread: &LiveThread) -> String {
    format!("{} {}", thread.name, thread.tid).trim_start().to_owned()
}

/// The process of a lock as it is shown: its identifier and its program.
pub(super) fn process(row: &LiveRow) -> String {
    format!("{} {}", row.pid, row.program).trim_end().to_owned()
}

/// The sentence about where a lock is waited for, with its process where another one's lock has the same name.
pub(super) fn wait_sentence(table: &LiveTable, row: &LiveRow) -> Option<String> {
    call_sites::shares(&row.call_sites)?; // of most rows there is none, and thousands are not compared with thousands for it
    let of = process(row);
    let is_ambiguous = table.rows.iter().any(|other| other.lock == row.lock && process(other) != of);
    let told_name = if is_ambiguous { format!("{} ({of})", row.lock) } else { row.lock.clone() };
    call_sites::sentence(&told_name, &row.call_sites)
}

fn rows(table: &LiveTable, top: usize) -> Table {
    let of_process = Column::text("process", "process");
    let several = table.rows.iter().any(|row| row.pid != table.rows[0].pid);
    let mut shown = Table::new([
        Column::text("lock", "lock"),
        if several { of_process.kept() } else { of_process.detail() },
        Column::text("use", "use"),
        Column::number("acquires_per_s", "acquires/s"),
        Column::percent("contended_share", "contended %"),
        Column::number("waiting", "waiting").kept(),
        Column::number("held", "held"),
        Column::number("section_ns", "section ns").detail(),
        Column::number("waiters_now", "waiters now"),
        Column::number("longest_wait_ms", "longest wait ms"),
        Column::text("holder", "held by"),
        Column::number("holder_ms", "for ms"),
    ]);
    for row in table.rows.iter().take(top) {
        let ms = |ns: f64| ns / 1e6;
        shown.row([
            Cell::from(row.lock.as_str()),
            process(row).into(),
            row.way.as_str().into(),
            row.acquires_per_s.into(),
            row.contended_share.into(),
            row.waiting.into(),
            row.held.into(),
            row.section_ns.into(),
            row.waiters_now.into(),
            row.longest_wait_ns.map(ms).into(),
            row.holder.as_ref().map(thread_name).into(),
            row.holder_ns.map(ms).into(),
        ]);
    }
    shown
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use profile::read::SiteUse;

    pub(in crate::top) fn table() -> LiveTable {
        let header = LiveHeader {
            schema: 1,
            command: vec!["./server".into()],
            elapsed_ns: 9.5e9,
            span_ns: 1e9,
            processes: 1,
            threads: 8,
            sample_period: 1,
            marks_waits: true,
            ..LiveHeader::default()
        };
        let row = LiveRow {
            lock: "cache_lock".into(),
            way: "mutex".into(),
            pid: 4711,
            program: "server".into(),
            acquires_per_s: 1e6,
            contended_share: Some(0.25),
            waiting: 2.5,
            held: 0.9,
            section_ns: Some(120.0),
            waiters_now: Some(3),
            longest_wait_ns: Some(2e6),
            holder: Some(LiveThread { tid: 4712, name: "worker".into() }),
            holder_ns: Some(4e3),
            ..LiveRow::default()
        };
        let quiet = LiveRow { lock: "log_lock".into(), waiters_now: Some(0), waiting: 0.0, ..row.clone() };
        LiveTable {
            header,
            rows: vec![row, LiveRow { holder: None, holder_ns: None, longest_wait_ns: None, ..quiet }],
        }
    }

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    #[test]
    fn a_table_says_when_of_what_and_how_much_is_left_out() {
        let mut table = table();
        let all = text(&table, NOW, 20, Screen::FILE);
        assert!(all.starts_with("1970-01-01T00:00:00.000Z 8 threads of 1 process after 9.50 s. Rates are those of the last 1.00 s.\n"), "{all}");
        let row = all.lines().find(|line| line.starts_with("cache_lock")).unwrap();
        for figure in [
            "4711 server", "mutex", "1,000,000", "25.0", "2.50", "0.900", "120", "3", "2.00", "worker 4712",
            "0.00400",
        ] {
            assert!(row.contains(figure), "{figure}: {row}");
        }
        let one = text(&table, NOW, 1, Screen::FILE);
        assert!(!one.contains("log_lock") && one.contains("1 more (--top 0"), "{one}");
        table.header.ended = Some("it exited with 3".into());
        table.header.whole_run = true;
        table.header.sample_period = 16;
        table.header.marks_waits = false;
        table.rows.clear();
        let ended = text(&table, NOW, 1, Screen::FILE);
        for part in [
            "ended after 9.50 s: it exited with 3", "the whole run", "One pair in 16", "older contend",
            "No lock was used",
        ] {
            assert!(ended.contains(part), "{part}: {ended}");
        }
        assert!(!ended.contains("more (--top"), "{ended}");
    }

    #[test]
    fn locks_of_one_name_are_told_with_their_processes() {
        let mut table = table();
        let site = SiteUse { function: "serve".into(), waited_ns: 1e6, ..SiteUse::default() };
        table.rows[0].call_sites = vec![site];
        let told = |table: &LiveTable| wait_sentence(table, &table.rows[0]).unwrap();
        table.rows[1].lock = "cache_lock".into();
        assert_eq!(told(&table), "Waits for cache_lock: 100 % in serve.", "another way to use it");
        table.rows[1].pid = 4800;
        assert_eq!(told(&table), "Waits for cache_lock (4711 server): 100 % in serve.");
        assert!(
            text(&table, NOW, 1, Screen::FILE).contains("cache_lock (4711 server): 100 %"),
            "not shown, and yet there"
        );
        table.rows[1].lock = "log_lock".into();
        assert_eq!(told(&table), "Waits for cache_lock: 100 % in serve.");
    }

    #[test]
    fn json_has_one_line_a_table() {
        let json = line(&table(), NOW, 1).unwrap();
        assert_eq!(json.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["time"], "1970-01-01T00:00:00.000Z");
        assert_eq!(value["rows"].as_array().unwrap().len(), 1);
        let row = &value["rows"][0];
        assert_eq!(
            (&row["use"], &row["waiters_now"], &row["holder"]["tid"]),
            (&"mutex".into(), &3.into(), &4712.into())
        );
        assert_eq!(value["header"]["ended"], serde_json::Value::Null);
    }
}
