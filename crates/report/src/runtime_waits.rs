//! The waits that a language's runtime tells of itself, for people and for spreadsheets.

use crate::text::{counted, time};
use crate::{Column, Screen, Table};
use profile::read::{Runtime, RuntimeRow, RuntimeWaits};
use std::fmt::Write as _;

/// What it tells in all, the first `top` rows (all if 0), and what it cannot tell, as lines for people.
pub fn text(profile: &RuntimeWaits, top: usize, screen: Screen) -> String {
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
            "{}, waited for {waited} in all (--top 0 shows them).",
            counted(rest.len() as u64, "more row")
        );
    }
    lines
}

fn head(profile: &RuntimeWaits) -> String {
    let locks = || profile.rows.iter().filter(|row| row.is_lock());
    let waits = locks().fold(0_u64, |sum, row| sum.saturating_add(row.waits));
    let (nobody, whose, tells) = match profile.runtime {
        Runtime::Go => (
            "No goroutine waited, or the profile was not switched on (runtime.SetMutexProfileFraction, SetBlockProfileRate).",
            "A profile of Go's own: goroutines",
            "Go tells waits alone, and not which lock it was: a row is a line of the program. A mutex profile has the line that released the \
             lock, behind which others waited; a block profile has the line that waited.",
        ),
        Runtime::Java => (
            "No wait is in the recording.",
            "A recording of Java's Flight Recorder: threads",
            "Java tells waits alone, with the class of the lock and the line that waited, and of monitors the thread that had it before.",
        ),
    };
    let mut head = if profile.rows.is_empty() {
        nobody.to_owned()
    } else {
        let waited = time(locks().map(|row| row.waited_ns).sum());
        format!("{whose} waited for locks {}, for {waited}", counted(waits, "time"))
    };
    if let (Some(ns), false) = (profile.duration_ns.filter(|&ns| ns > 0), profile.rows.is_empty()) {
        let _ = write!(head, ", in {}", time(ns as f64));
    }
    if !profile.rows.is_empty() {
        let _ = write!(head, ". {tells}");
    }
    if let Some(ns) = profile.threshold_ns {
        let _ = write!(
            head,
            " Waits under {} are not in it, which may be most: record with \
             -XX:StartFlightRecording:jdk.JavaMonitorEnter#threshold=0ns,jdk.ThreadPark#threshold=0ns, or with lock=1ns of async-profiler.",
            time(ns)
        );
    }
    if profile.cut_off {
        head += " The file ends before the recording does: what was written by then is shown.";
    }
    head + "\n"
}

/// The first `top` rows.
pub fn rows(profile: &RuntimeWaits, top: usize) -> Table {
    let mut shown = Table::new([
        Column::text("use", "use").main(),
        Column::text("class", "lock's class").detail().only_if_any(),
        Column::number("waits", "waits").main(),
        Column::number("waited_ms", "waited ms").kept(),
        Column::number("wait_ns", "wait ns").detail(),
        Column::text("waited_in", "waited in").main().only_if_any(),
        Column::text("behind", "waited behind").main().only_if_any(),
        Column::text("source", "source").detail(),
    ]);
    for row in profile.rows.iter().take(top) {
        let function = Some(row.function.as_str()).filter(|_| !row.behind);
        let behind_thread = row.behind_thread.as_ref().map(|thread| format!("thread {thread}"));
        let behind = if row.behind { Some(row.function.clone()) } else { behind_thread };
        shown.row([
            row.way.into(),
            row.class.as_deref().into(),
            row.waits.into(),
            (row.waited_ns / 1e6).into(),
            mean_ns(row).into(),
            function.into(),
            behind.into(),
            row.source.as_str().into(),
        ]);
    }
    shown
}

fn mean_ns(row: &RuntimeRow) -> Option<f64> {
    (row.waits > 0).then(|| row.waited_ns / row.waits as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_who_waits_and_behind_whom() {
        let row = |way, behind, function: &str, waits, waited_ns| RuntimeRow {
            way,
            class: None,
            behind,
            function: function.into(),
            source: "/src/cache.go:41".into(),
            behind_thread: None,
            waits,
            waited_ns,
        };
        let rows = vec![
            row("mutex", true, "main.slowRebalance", 100, 2e8),
            row("mutex", false, "main.quickLookup", 50, 1e8),
            row("channel", false, "main.main", 1, 5e7),
        ];
        let go = RuntimeWaits {
            runtime: Runtime::Go,
            rows,
            duration_ns: None,
            threshold_ns: None,
            cut_off: false,
        };
        let profile = go.clone();
        let all = text(&profile, 2, Screen::wide(80));
        for told in ["150 times, for 300 ms", "main.slowRebalance", "waited behind", "1 more row,"] {
            assert!(all.split_whitespace().collect::<Vec<_>>().join(" ").contains(told), "{told}: {all}");
        }
        assert!(
            super::rows(&profile, 9)
                .csv()
                .contains("mutex,,50,100,2000000,main.quickLookup,,/src/cache.go:41")
        );
        let empty = RuntimeWaits { rows: Vec::new(), ..go };
        assert!(text(&empty, 9, Screen::wide(80)).contains("SetMutexProfileFraction"));
    }

    #[test]
    fn a_recording_of_javas_says_what_it_lacks() {
        let row = RuntimeRow {
            way: "monitor",
            class: Some("com.example.Cache".into()),
            behind: false,
            function: "com.example.Cache.get".into(),
            source: "com.example.Cache:41".into(),
            behind_thread: Some("rebalancer".into()),
            waits: 30,
            waited_ns: 1e8,
        };
        let java = RuntimeWaits {
            runtime: Runtime::Java,
            rows: vec![row],
            duration_ns: Some(2_000_000_000),
            threshold_ns: Some(20e6),
            cut_off: true,
        };
        let all = text(&java, 2, Screen::wide(160)).split_whitespace().collect::<Vec<_>>().join(" ");
        for told in [
            "threads waited for locks 30 times, for 100 ms, in 2.00 s",
            "com.example.Cache.get thread rebalancer com.example.Cache:41",
            "Waits under 20.0 ms are not in it",
            "jdk.JavaMonitorEnter#threshold=0ns",
            "The file ends before the recording does",
        ] {
            assert!(all.contains(told), "{told}: {all}");
        }
    }
}
