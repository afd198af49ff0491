//! The longest single waits in sentences: who waited when, how long, for what, and behind whom.

use crate::Screen;
use crate::call_sites::place_of;
use crate::text::time;
use profile::read::{LockSite, SingleHold, SingleWait, ThreadId, Timeline};
use std::cmp::Reverse;
use std::fmt::Write as _;

/// Waits that are told of.
const TOLD: usize = 3;

/// What belongs to a wait before and behind it and its hold, as a part of both.
const MARGIN: f64 = 0.05;

/// The part of a wait from which on it was behind the holds of one call, rather than woken late.
const EXPLAINED: f64 = 0.1;

/// A part of the recording, in ns from its beginning.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) begin: f64,
    pub(crate) end: f64,
}

/// The longest waits below a table, each in a sentence of its own; nothing where there is none.
pub fn text(timeline: &Timeline, screen: Screen) -> String {
    let waits = apart(timeline);
    let mut text = String::new();
    if !waits.is_empty() {
        text.push_str("\nThe longest waits:\n");
    }
    for (wait, _) in waits {
        let _ = writeln!(text, "  {}", sentence(timeline, wait));
    }
    screen.fit(&text)
}

/// The longest waits of which none lies in the window of a longer one, and their windows.
pub(crate) fn apart(timeline: &Timeline) -> Vec<(&SingleWait, Window)> {
    let mut waits: Vec<_> = timeline.waits.iter().collect();
    waits.sort_by_key(|wait| (Reverse(wait.end_ns.saturating_sub(wait.begin_ns)), wait.begin_ns));
    let mut shown: Vec<(&SingleWait, Window)> = Vec::new();
    for wait in waits {
        if !shown.iter().any(|(_, window)| window.has(wait.begin_ns, wait.end_ns)) {
            shown.push((wait, Window::around(timeline, wait)));
        }
        if shown.len() == TOLD {
            break;
        }
    }
    shown
}

impl Window {
    /// The wait, the hold that it was behind, and a little on both sides.
    fn around(timeline: &Timeline, wait: &SingleWait) -> Self {
        let hold = hold_of(timeline, wait);
        let begin = hold.map_or(wait.begin_ns, |hold| hold.begin_ns.min(wait.begin_ns)) as f64;
        let end = hold.map_or(wait.end_ns, |hold| hold.end_ns.max(wait.end_ns)) as f64;
        let margin = ((end - begin) * MARGIN).max(1.0);
        Self { begin: (begin - margin).max(0.0), end: end + margin }
    }

    /// Whether any of that time lies in it.
    pub(crate) fn has(self, begin_ns: u64, end_ns: u64) -> bool {
        (begin_ns as f64) < self.end && self.begin < end_ns as f64
    }
}

fn hold_of<'t>(timeline: &'t Timeline, wait: &SingleWait) -> Option<&'t SingleHold> {
    timeline.holds.get(wait.behind.as_ref()?.hold?)
}

/// Who waited when, how long, for what, and behind whom.
pub(crate) fn sentence(timeline: &Timeline, wait: &SingleWait) -> String {
    let mut sentence = format!(
        "{} after the start {} waited {} for {}{}",
        time(wait.begin_ns as f64),
        thread_name(timeline, wait.thread),
        lasts(wait.begin_ns, wait.end_ns),
        wait.lock,
        from(&wait.site),
    );
    if let Some(behind) = &wait.behind {
        sentence += &match hold_of(timeline, wait) {
            Some(hold) => behind_hold(timeline, wait, hold),
            None => {
                format!(" and had it from {}{}", thread_name(timeline, behind.thread), from(&behind.site))
            }
        };
    }
    sentence + "."
}

/// What the sentence says of the thread that had the lock for most of the wait. A thread that is woken late may have waited for long
/// although the lock was held for moments.
fn behind_hold(timeline: &Timeline, wait: &SingleWait, hold: &SingleHold) -> String {
    let whose = format!("{}{}", thread_name(timeline, hold.thread), from(&hold.site));
    let alike = |other: &&SingleHold| {
        (&other.lock, other.thread, &other.site.function) == (&hold.lock, hold.thread, &hold.site.function)
    };
    let part =
        |hold: &SingleHold| hold.end_ns.min(wait.end_ns).saturating_sub(hold.begin_ns.max(wait.begin_ns));
    let parts: Vec<u64> = timeline.holds.iter().filter(alike).map(part).filter(|&ns| ns > 0).collect();
    let ns = parts.iter().copied().fold(0, u64::saturating_add);
    if (ns as f64) < EXPLAINED * wait.end_ns.saturating_sub(wait.begin_ns) as f64 {
        return format!(
            ", in which no known hold took longer than {} ({whose})",
            lasts(hold.begin_ns, hold.end_ns)
        );
    }
    match parts.len() {
        1 => format!(", behind {whose}, which held it for {}", lasts(hold.begin_ns, hold.end_ns)),
        times => format!(", behind {whose}, which held it for {} of that, {times} times", time(ns as f64)),
    }
}

pub(crate) fn lasts(begin_ns: u64, end_ns: u64) -> String {
    time(end_ns.saturating_sub(begin_ns) as f64)
}

pub(crate) fn thread_name(timeline: &Timeline, thread: ThreadId) -> String {
    let called = timeline.threads.get(&thread).map_or("thread", String::as_str);
    format!("{called} {}", thread.tid)
}

/// ` in f (file:line)`, or nothing where it is not known.
pub(crate) fn from(site: &LockSite) -> String {
    if site.function.is_empty() {
        return String::new();
    }
    format!(" in {}", place_of(&site.function, site.source.as_deref()))
}
