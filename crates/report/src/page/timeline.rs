//! The longest single waits of a page: for each what went on in the threads that waited for its lock, or held it, meanwhile.

use super::{Page, name};
use crate::text::time;
use profile::read::{LockSite, SingleHold, SingleWait, ThreadId, Timeline};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Waits that have a picture.
const PICTURES: usize = 3;

/// Threads in a picture.
const LANES: usize = 12;

/// What is shown before and behind a wait and its hold, as a part of both.
const MARGIN: f64 = 0.05;

/// The part of a wait from which on it was behind the holds of one call, rather than woken late.
const EXPLAINED: f64 = 0.1;

/// A part of the recording, in ns from its beginning.
#[derive(Clone, Copy)]
struct Window {
    begin: f64,
    end: f64,
}

/// What a thread did in a window.
#[derive(Default)]
struct Lane {
    rectangles: String,
    held_ns: u64,
    waited_ns: u64,
}

impl Page {
    /// Adds the longest waits: a sentence for each, and a picture of the threads that waited for its lock, or held it, meanwhile. Adds
    /// nothing if there is none.
    #[must_use]
    pub fn timeline(mut self, timeline: &Timeline) -> Self {
        let shown = apart(timeline);
        if shown.is_empty() {
            return self;
        }
        let pictures: String = shown.iter().map(|&(wait, window)| picture(timeline, wait, window)).collect();
        let id = self.next_id();
        let _ = writeln!(
            self.body,
            "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">The longest waits</h2>\n\
             <ul class=\"key\"><li class=\"piece0\">waits for the lock</li><li class=\"piece1\">holds it</li>\
             <li class=\"rest\">waits for another lock</li></ul>\n{pictures}</section>"
        );
        self
    }
}

/// The longest waits of which none lies in the window of a longer one, and their windows.
fn apart(timeline: &Timeline) -> Vec<(&SingleWait, Window)> {
    let mut waits: Vec<_> = timeline.waits.iter().collect();
    waits.sort_by_key(|wait| (Reverse(wait.end_ns.saturating_sub(wait.begin_ns)), wait.begin_ns));
    let mut shown: Vec<(&SingleWait, Window)> = Vec::new();
    for wait in waits {
        if !shown.iter().any(|(_, window)| window.has(wait.begin_ns, wait.end_ns)) {
            shown.push((wait, Window::around(timeline, wait)));
        }
        if shown.len() == PICTURES {
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
    fn has(self, begin_ns: u64, end_ns: u64) -> bool {
        (begin_ns as f64) < self.end && self.begin < end_ns as f64
    }

    fn rectangle(self, class: &str, begin_ns: u64, end_ns: u64, title: &str) -> String {
        let at = |ns: u64| (100.0 * (ns as f64 - self.begin) / (self.end - self.begin)).clamp(0.0, 100.0);
        let (from, to) = (at(begin_ns), at(end_ns));
        format!(
            "<rect class=\"{class}\" x=\"{from:.3}\" width=\"{:.3}\" height=\"1\"><title>{}</title></rect>",
            (to - from).max(0.1), // so that the shortest are seen
            name(title),
        )
    }
}

fn hold_of<'t>(timeline: &'t Timeline, wait: &SingleWait) -> Option<&'t SingleHold> {
    timeline.holds.get(wait.behind.as_ref()?.hold?)
}

fn picture(timeline: &Timeline, wait: &SingleWait, window: Window) -> String {
    let lanes = lanes(timeline, wait, window);
    let further = lanes.len().saturating_sub(LANES);
    let mut rows = String::new();
    for (thread, lane) in lanes.iter().take(LANES) {
        let _ = writeln!(
            rows,
            "<li><p>{}</p><svg viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{}</svg></li>",
            name(&thread_name(timeline, *thread)),
            lane.rectangles,
        );
    }
    let (length, begin_s) = (time(window.end - window.begin), window.begin / 1e9);
    let threads =
        if further > 0 { format!(" Threads that are not shown: {further}.") } else { String::new() };
    format!(
        "<figure class=\"lanes\">\n<p>{}</p>\n<ol>\n{rows}</ol>\n\
         <figcaption>{length}, from {begin_s:.6} s after the start on.{threads}</figcaption>\n</figure>\n",
        name(&sentence(timeline, wait)),
    )
}

/// The threads that waited for the lock of this wait, or held it, in the window: those that held it longest first.
fn lanes(timeline: &Timeline, of: &SingleWait, window: Window) -> Vec<(ThreadId, Lane)> {
    let mut lanes: BTreeMap<ThreadId, Lane> = BTreeMap::new();
    let pid = of.thread.pid;
    let is_here = |thread: ThreadId, begin_ns, end_ns| thread.pid == pid && window.has(begin_ns, end_ns);
    let waits = timeline.waits.iter().filter(|wait| is_here(wait.thread, wait.begin_ns, wait.end_ns));
    let holds = timeline.holds.iter().filter(|hold| is_here(hold.thread, hold.begin_ns, hold.end_ns));
    for hold in holds.filter(|hold| hold.lock == of.lock) {
        let lane = lanes.entry(hold.thread).or_default();
        lane.held_ns += hold.end_ns.saturating_sub(hold.begin_ns);
        let title =
            format!("holds {}{} for {}", hold.lock, from(&hold.site), lasts(hold.begin_ns, hold.end_ns));
        lane.rectangles += &window.rectangle("piece1", hold.begin_ns, hold.end_ns, &title);
    }
    let (own, others): (Vec<_>, Vec<_>) = waits.partition(|wait| wait.lock == of.lock);
    for wait in own {
        let lane = lanes.entry(wait.thread).or_default();
        lane.waited_ns += wait.end_ns.saturating_sub(wait.begin_ns);
        lane.rectangles += &window.rectangle("piece0", wait.begin_ns, wait.end_ns, &title_of(wait));
    }
    for wait in others {
        if let Some(lane) = lanes.get_mut(&wait.thread) {
            lane.rectangles += &window.rectangle("rest", wait.begin_ns, wait.end_ns, &title_of(wait));
        }
    }
    let mut lanes: Vec<_> = lanes.into_iter().collect();
    lanes.sort_by_key(|(_, lane)| Reverse((lane.held_ns, lane.waited_ns)));
    lanes
}

fn title_of(wait: &SingleWait) -> String {
    format!("waits for {}{} for {}", wait.lock, from(&wait.site), lasts(wait.begin_ns, wait.end_ns))
}

/// What the picture shows: who waited when, how long, for what, and behind whom.
fn sentence(timeline: &Timeline, wait: &SingleWait) -> String {
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
    let ns: u64 = parts.iter().sum();
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

fn lasts(begin_ns: u64, end_ns: u64) -> String {
    time(end_ns.saturating_sub(begin_ns) as f64)
}

fn thread_name(timeline: &Timeline, thread: ThreadId) -> String {
    let called = timeline.threads.get(&thread).map_or("thread", String::as_str);
    format!("{called} {}", thread.tid)
}

/// ` in f (file:line)`, or nothing where it is not known.
fn from(site: &LockSite) -> String {
    match &site.source {
        _ if site.function.is_empty() => String::new(),
        Some(source) => {
            let file = source.rsplit('/').next().unwrap_or(source);
            format!(" in {} ({file})", site.function)
        }
        None => format!(" in {}", site.function),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::read::Behind;

    const MS: u64 = 1_000_000;

    fn thread(tid: u64) -> ThreadId {
        ThreadId { pid: 1, tid }
    }

    fn site(function: &str) -> std::sync::Arc<LockSite> {
        let source = Some("/src/cache.c:12".to_owned());
        LockSite { function: function.to_owned(), source, stack: Vec::new(), whole: true }.into()
    }

    /// Waits of so many threads behind each of these holds, from its begin to its end in ms.
    fn timeline(lock: &str, waiters: u64, holds: &[(u64, u64)]) -> Timeline {
        let mut timeline = Timeline::default();
        for (number, &(begin, end)) in holds.iter().enumerate() {
            let (begin_ns, end_ns) = (begin * MS, end * MS);
            let (lock, holder) = (std::sync::Arc::from(lock), thread(1));
            for waiter in 0..waiters {
                let behind = Behind { thread: holder, site: site("rebalance"), hold: Some(number) };
                timeline.waits.push(SingleWait {
                    thread: thread(2 + waiter),
                    lock: std::sync::Arc::clone(&lock),
                    shared: false,
                    begin_ns: begin_ns + MS,
                    end_ns,
                    site: site("look<up>"),
                    behind: Some(behind),
                });
            }
            timeline.holds.push(SingleHold {
                thread: holder,
                lock,
                begin_ns,
                end_ns,
                site: site("rebalance"),
            });
        }
        timeline.threads.insert(thread(1), "holder".to_owned());
        timeline
    }

    fn drawn(timeline: &Timeline) -> String {
        Page::new("").timeline(timeline).html()
    }

    #[test]
    fn a_wait_is_told_and_drawn_with_the_hold_that_it_was_behind() {
        let page = drawn(&timeline("<b>", 2, &[(10, 60)]));
        let told = "11.0 ms after the start thread 2 waited 49.0 ms for &lt;b&gt; in look&lt;up&gt; (cache.c:12), \
                    behind holder 1 in rebalance (cache.c:12), which held it for 50.0 ms.";
        assert!(page.contains(told), "{page}");
        assert_eq!((page.matches("<rect").count(), page.matches("<li><p>").count()), (3, 3), "{page}");
        assert!(page.contains("<li><p>holder 1</p>") && !page.contains("<b>"), "{page}");
        assert!(
            page.contains("<figcaption>55.0 ms, from 0.007500 s after the start on.</figcaption>"),
            "{page}"
        );
    }

    #[test]
    fn a_wait_is_behind_what_explains_it() {
        let mut waits = timeline("m", 1, &[(10, 60)]);
        waits.waits[0].end_ns = 90 * MS;
        let mut again = waits.holds[0].clone();
        (again.begin_ns, again.end_ns) = (65 * MS, 85 * MS);
        waits.holds.push(again);
        assert!(drawn(&waits).contains(
            ", behind holder 1 in rebalance (cache.c:12), which held it for 69.0 ms of that, 2 times."
        ));
        waits.holds.truncate(1);
        waits.holds[0].end_ns = 12 * MS;
        let late = ", in which no known hold took longer than 2.00 ms (holder 1 in rebalance (cache.c:12)).";
        assert!(drawn(&waits).contains(late), "{}", drawn(&waits));
        waits.waits[0].behind.as_mut().unwrap().hold = None;
        assert!(drawn(&waits).contains(" and had it from holder 1 in rebalance (cache.c:12)."));
    }

    #[test]
    fn the_longest_waits_have_pictures_of_their_own() {
        let page = drawn(&timeline("m", 1, &[(0, 50), (100, 190), (300, 360), (400, 480), (185, 199)]));
        let told: Vec<_> =
            page.matches("waited").zip(page.split("waited ").skip(1)).map(|(_, rest)| &rest[..7]).collect();
        assert_eq!(told, ["89.0 ms", "79.0 ms", "59.0 ms"], "{page}");
        assert!(!drawn(&Timeline::default()).contains("<section"));
    }

    #[test]
    fn threads_that_are_not_shown_are_counted() {
        let page = drawn(&timeline("m", 20, &[(10, 60)]));
        assert_eq!(page.matches("<li><p>").count(), LANES);
        assert!(page.contains("Threads that are not shown: 9."), "{page}");
    }

    /// A forged profile may say anything.
    #[test]
    fn times_out_of_order_are_drawn_inside() {
        let mut timeline = timeline("m", 1, &[(10, 60)]);
        timeline.waits[0].begin_ns = u64::MAX;
        timeline.holds[0].end_ns = 0;
        let page = drawn(&timeline);
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}
