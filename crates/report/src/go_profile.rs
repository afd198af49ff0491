//! The waits of a Go program, for people and for spreadsheets.

use crate::text::{grouped, time};
use crate::{Column, Screen, Table};
use profile::read::{GoProfile, GoRow};
use std::fmt::Write as _;

/// What it tells in all, the first `top` rows (all if 0), and what it cannot tell, as lines for people.
pub fn text(profile: &GoProfile, top: usize, screen: Screen) -> String {
    let top = if top == 0 { usize::MAX } else { top };
    let mut lines = screen.fit(&head(profile));
    if profile.rows.is_empty() {
        return lines;
    }
    lines.push('\n');
    lines.push_str(&rows(profile, top).terminal(screen));
    if let Some(rest) = profile.rows.get(top..).filter(|rest| !rest.is_empty()) {
        let waited = time(rest.iter().map(|row| row.waited_ns).sum());
        let _ = writeln!(
            lines,
            "{} more rows, waited for {waited} in all (--top 0 shows them).",
            grouped(rest.len() as u64)
        );
    }
    lines
}

fn head(profile: &GoProfile) -> String {
    let locks = || profile.rows.iter().filter(|row| row.is_lock());
    let waits = locks().fold(0_u64, |sum, row| sum.saturating_add(row.waits));
    if profile.rows.is_empty() {
        return "No goroutine waited, or the profile was not switched on (runtime.SetMutexProfileFraction, SetBlockProfileRate).\n"
            .to_owned();
    }
    let waited = time(locks().map(|row| row.waited_ns).sum());
    let mut head =
        format!("A profile of Go's own: goroutines waited for locks {} times, for {waited}", grouped(waits));
    if let Some(ns) = profile.duration_ns {
        let _ = write!(head, ", in {}", time(ns as f64));
    }
    head.push_str(
        ". Go tells waits alone, and not which lock it was: a row is a line of the program. A mutex profile has the line that released the \
         lock, behind which others waited; a block profile has the line that waited.\n",
    );
    head
}

/// The first `top` rows.
pub fn rows(profile: &GoProfile, top: usize) -> Table {
    let mut shown = Table::new([
        Column::text("use", "use").main(),
        Column::number("waits", "waits").main(),
        Column::number("waited_ms", "waited ms").kept(),
        Column::number("wait_ns", "wait ns"),
        Column::text("waited_in", "waited in").only_if_any(),
        Column::text("behind", "waited behind").only_if_any(),
        Column::text("source", "source").detail(),
    ]);
    for row in profile.rows.iter().take(top) {
        let function = |is_it: bool| is_it.then_some(row.function.as_str());
        shown.row([
            row.way.into(),
            row.waits.into(),
            (row.waited_ns / 1e6).into(),
            mean_ns(row).into(),
            function(!row.behind).into(),
            function(row.behind).into(),
            row.source.as_str().into(),
        ]);
    }
    shown
}

fn mean_ns(row: &GoRow) -> Option<f64> {
    (row.waits > 0).then(|| row.waited_ns / row.waits as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_who_waits_and_behind_whom() {
        let row = |way, behind, function: &str, waits, waited_ns| GoRow {
            way,
            behind,
            function: function.into(),
            source: "/src/cache.go:41".into(),
            waits,
            waited_ns,
        };
        let rows = vec![
            row("mutex", true, "main.slowRebalance", 100, 2e8),
            row("mutex", false, "main.quickLookup", 50, 1e8),
            row("channel", false, "main.main", 1, 5e7),
        ];
        let profile = GoProfile { rows, duration_ns: None };
        let all = text(&profile, 2, Screen::wide(80));
        for told in ["150 times, for 300 ms", "main.slowRebalance", "waited behind", "1 more rows"] {
            assert!(all.split_whitespace().collect::<Vec<_>>().join(" ").contains(told), "{told}: {all}");
        }
        assert!(
            super::rows(&profile, 9)
                .csv()
                .contains("mutex,50,100,2000000,main.quickLookup,,/src/cache.go:41")
        );
        let empty = GoProfile { rows: Vec::new(), duration_ns: None };
        assert!(text(&empty, 9, Screen::wide(80)).contains("SetMutexProfileFraction"));
    }
}
