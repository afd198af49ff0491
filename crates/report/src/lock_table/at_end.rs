//! Who still waited for a lock when the program ended, and who held it: a sentence for each such lock.

use super::told_name;
use crate::call_sites::place_of;
use crate::text::{counted, grouped, printable, time};
use profile::LockTable;
use profile::read::{AtEnd, AtEndThread};
use std::fmt::Write as _;

/// Locks that are told of.
const TOLD: usize = 10;

/// Shorter waits than this are those of any busy program that is ended, where they are not most of its time.
const LEAST_NS: f64 = 1e8;

/// A line for each lock that threads still waited for.
pub(super) fn lines(table: &LockTable) -> String {
    let least_ns = LEAST_NS.min(0.5 * table.header.elapsed_ns);
    let told = table.rows.iter().filter_map(|row| Some((row, row.at_end.as_ref()?)));
    let told = told.filter(|(_, end)| longest_ns(end) >= least_ns);
    let mut lines = String::new();
    for (row, end) in told.clone().take(TOLD) {
        let _ = writeln!(lines, "{}", sentence(&told_name(table, row), end));
    }
    if let Some(more) = told.count().checked_sub(TOLD).filter(|&more| more > 0) {
        let _ = writeln!(
            lines,
            "At the end threads waited for {} (--json has them).",
            counted(more as u64, "more lock")
        );
    }
    lines
}

/// The longest wait comes first.
fn longest_ns(end: &AtEnd) -> f64 {
    end.waiters.first().and_then(|waiter| waiter.for_ns).unwrap_or(0.0)
}

fn sentence(lock: &str, end: &AtEnd) -> String {
    let (lock, longest) = (printable(lock), time(longest_ns(end)));
    let mut line = match &*end.waiters {
        [waiter] => {
            format!("At the end {} waited for {lock}{}, for {longest}", name(waiter), place(" in ", waiter))
        }
        waiters => {
            let count = grouped(waiters.len() as u64);
            let place = waiters.first().map(|longest| place(" in ", longest)).unwrap_or_default();
            format!("At the end {count} threads waited for {lock}, for up to {longest}{place}")
        }
    };
    if let Some(holder) = end.holders.first() {
        let _ = write!(line, ", which {}", name(holder));
        if let Some(more) = end.holders.len().checked_sub(1).filter(|&more| more > 0) {
            let _ = write!(line, " and {} more", grouped(more as u64));
        }
        line.push_str(if holder.shared { " held for reading" } else { " held" });
        if let Some(for_ns) = holder.for_ns {
            let _ = write!(line, " for {}", time(for_ns));
        }
        match &*place(", from ", holder) {
            "" => {}
            place => line += &format!("{place} on"),
        }
    }
    line.push('.');
    line
}

/// After a word, the function that waits for the lock or took it, if that is known.
fn place(after: &str, thread: &AtEndThread) -> String {
    match &*thread.function {
        "" => String::new(),
        function => format!("{after}{}", place_of(&printable(function), thread.source.as_deref())),
    }
}

fn name(thread: &AtEndThread) -> String {
    match &*thread.name {
        "" => format!("thread {}", thread.tid),
        name => format!("thread {} ({})", thread.tid, printable(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{header, row, usage};
    use super::*;
    use crate::lock_table::{Screen, page, text};
    use profile::{LockKind, ObjectKind, Usage};

    fn thread(tid: u64, for_ns: f64) -> AtEndThread {
        AtEndThread { tid, name: "worker".into(), for_ns: Some(for_ns), ..AtEndThread::default() }
    }

    #[test]
    fn a_deadlock_is_a_line_below_the_table_for_each_lock() {
        let holder = AtEndThread {
            function: "forward".into(),
            source: Some("/src/dead.c:4".into()),
            ..thread(7, 2e9)
        };
        let waiter = AtEndThread {
            function: "backward".into(),
            source: Some("/src/dead.c:9".into()),
            ..thread(8, 1.9e9)
        };
        let end = AtEnd { waiters: vec![waiter], holders: vec![holder] };
        let expected = "At the end thread 8 (worker) waited for first in backward (dead.c:9), for 1.90 s, which thread 7 (worker) held for 2.00 s, from forward (dead.c:4) on.";
        assert_eq!(sentence("first", &end), expected);
        let mut lock = row("first", LockKind::Object(ObjectKind::Mutex), usage(1, 0.0), Usage::default());
        lock.at_end = Some(end);
        let table = LockTable {
            header: header(),
            rows: vec![lock],
            striped: Vec::new(),
            kernel: None,
            program: None,
        };
        let text = text(&table, 20, Screen::FILE).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(expected), "{text}");
        assert!(page(&table, None).html().contains("At the end thread 8"));
    }

    #[test]
    fn several_waiters_and_readers_are_counted() {
        let mut readers = vec![thread(1, 5e9), thread(2, 4e9)];
        for reader in &mut readers {
            (reader.shared, reader.name) = (true, String::new());
        }
        let end = AtEnd { waiters: vec![thread(3, 2e6), thread(4, 1e6)], holders: readers };
        let expected = "At the end 2 threads waited for rw, for up to 2.00 ms, which thread 1 and 1 more held for reading for 5.00 s.";
        assert_eq!(sentence("rw", &end), expected);
        let end = AtEnd { holders: Vec::new(), ..end };
        assert!(sentence("\u{1b}", &end).ends_with("waited for \\u{1b}, for up to 2.00 ms."));
    }
}
