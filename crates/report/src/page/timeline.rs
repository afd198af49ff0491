//! The longest single waits of a page: for each what went on in the threads that waited for its lock, or held it, meanwhile.

use super::{Page, name};
use crate::longest_waits::{Window, apart, from, lasts, sentence, thread_name};
use crate::text::time;
use profile::read::{SingleWait, ThreadId, Timeline};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Threads in a picture.
const LANES: usize = 12;

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

/// A part of a lane.
fn rectangle(window: Window, class: &str, begin_ns: u64, end_ns: u64, title: &str) -> String {
    let at = |ns: u64| (100.0 * (ns as f64 - window.begin) / (window.end - window.begin)).clamp(0.0, 100.0);
    let (from, to) = (at(begin_ns), at(end_ns));
    format!(
        "<rect class=\"{class}\" x=\"{from:.3}\" width=\"{:.3}\" height=\"1\"><title>{}</title></rect>",
        (to - from).max(0.1), // so that the shortest are seen
        name(title),
    )
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
    let [half, length] = [0.5, 1.0].map(|share| time(share * (window.end - window.begin)));
    let begin_s = window.begin / 1e9;
    let threads =
        if further > 0 { format!(" Threads that are not shown: {further}.") } else { String::new() };
    format!(
        "<figure class=\"lanes\">\n<p>{}</p>\n<ol>\n{rows}</ol>\n\
         <p class=\"axis\"><span>0</span><span>{half}</span><span>{length}</span></p>\n\
         <figcaption>Time from {begin_s:.6} s after the start on.{threads}</figcaption>\n</figure>\n",
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
        lane.held_ns = lane.held_ns.saturating_add(hold.end_ns.saturating_sub(hold.begin_ns));
        let title =
            format!("holds {}{} for {}", hold.lock, from(&hold.site), lasts(hold.begin_ns, hold.end_ns));
        lane.rectangles += &rectangle(window, "piece1", hold.begin_ns, hold.end_ns, &title);
    }
    let (own, others): (Vec<_>, Vec<_>) = waits.partition(|wait| wait.lock == of.lock);
    for wait in own {
        let lane = lanes.entry(wait.thread).or_default();
        lane.waited_ns = lane.waited_ns.saturating_add(wait.end_ns.saturating_sub(wait.begin_ns));
        lane.rectangles += &rectangle(window, "piece0", wait.begin_ns, wait.end_ns, &title_of(wait));
    }
    for wait in others {
        if let Some(lane) = lanes.get_mut(&wait.thread) {
            lane.rectangles += &rectangle(window, "rest", wait.begin_ns, wait.end_ns, &title_of(wait));
        }
    }
    let mut lanes: Vec<_> = lanes.into_iter().collect();
    lanes.sort_by_key(|(_, lane)| Reverse((lane.held_ns, lane.waited_ns)));
    lanes
}

fn title_of(wait: &SingleWait) -> String {
    format!("waits for {}{} for {}", wait.lock, from(&wait.site), lasts(wait.begin_ns, wait.end_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::read::{Behind, LockSite, SingleHold};

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
            page.contains("<span>0</span><span>27.5 ms</span><span>55.0 ms</span></p>\n<figcaption>Time from 0.007500 s after"),
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
            page.match_indices(" waited ").map(|(at, waited)| &page[at + waited.len()..][..7]).collect();
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
        let mut whole = timeline.waits[0].clone();
        (whole.begin_ns, whole.end_ns) = (0, u64::MAX);
        timeline.waits.extend([whole.clone(), whole]);
        timeline.holds.extend([timeline.holds[0].clone(), timeline.holds[0].clone()]);
        for hold in &mut timeline.holds[1..] {
            hold.end_ns = u64::MAX;
        }
        timeline.waits[1].behind.as_mut().unwrap().hold = Some(1);
        let page = drawn(&timeline);
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}
