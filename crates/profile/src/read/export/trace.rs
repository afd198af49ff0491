//! Single waits as a trace, for Perfetto and Chrome.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use curve::trace_events::{Span, TraceEvents, Track};
use serde_json::{Value, json};

use crate::read::timeline::HIGHEST_ID;
use crate::read::{Behind, LockSite, SingleHold, SingleWait, ThreadId, Timeline};

/// A timeline in the Trace Event Format: a track for each thread, on which its waits are spans, and those of its holds that others waited
/// for; and a flow from each hold to each wait that it kept.
///
/// Holds that overlap, of locks that are not released in the order in which they are taken, have further tracks: viewers refuse spans of
/// one track that overlap without lying inside each other.
pub fn to_trace(timeline: &Timeline) -> Value {
    let mut events = TraceEvents::default();
    for (&process, name) in &timeline.processes {
        events.process_name(process, name);
    }
    let holds = timeline.holds.iter().enumerate().map(|(number, hold)| Drawn::hold(number, hold));
    let waits = timeline.waits.iter().enumerate().map(|(number, wait)| Drawn::wait(number, wait));
    let mut of_threads: BTreeMap<ThreadId, Vec<Drawn>> = BTreeMap::new();
    for drawn in holds.chain(waits) {
        of_threads.entry(drawn.thread).or_default().push(drawn);
    }
    let kept_by = waits_by_hold(timeline);
    let mut tracks = vec![None; timeline.waits.len()];
    let mut further = HIGHEST_ID;
    for (thread, mut drawn) in of_threads {
        let name = timeline.threads.get(&thread).map_or("thread", String::as_str);
        let lanes = lanes_of(&mut drawn);
        let mut lane_tracks: Vec<Track> = Vec::new();
        for (drawn, lane) in drawn.into_iter().zip(lanes) {
            if lane == lane_tracks.len() {
                let track = if lane == 0 { thread.tid } else { further + 1 };
                further = further.max(track);
                let name = if lane == 0 { name.to_owned() } else { format!("{name}, further holds") };
                lane_tracks.push(Track { process: thread.pid, thread: track });
                events.thread_name(lane_tracks[lane], &name);
            }
            let track = lane_tracks[lane];
            match drawn.what {
                What::Wait(number) => {
                    let wait = &timeline.waits[number];
                    events.span(&drawn.span(track, "wait", wait_name(wait), wait_arguments(wait, timeline)));
                    tracks[number] = Some(track);
                }
                What::Hold(number) => {
                    let hold = &timeline.holds[number];
                    events.span(&drawn.span(track, "hold", hold_name(hold), hold_arguments(hold)));
                    for &wait in &kept_by[number] {
                        events.flow_begins(wait as u64 + 1, FLOW, track, us(hold.begin_ns));
                    }
                }
            }
        }
    }
    for (number, wait) in timeline.waits.iter().enumerate() {
        if let Some(hold) = wait.behind.as_ref().and_then(|behind| behind.hold)
            && let Some(track) = tracks[number]
        {
            let at_ns = wait.begin_ns.max(timeline.holds[hold].begin_ns);
            events.flow_ends(number as u64 + 1, FLOW, track, us(at_ns));
        }
    }
    events.finish()
}

/// What is written on a flow.
const FLOW: &str = "keeps waiting";

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// The waits that each hold kept.
fn waits_by_hold(timeline: &Timeline) -> Vec<Vec<usize>> {
    let mut kept_by = vec![Vec::new(); timeline.holds.len()];
    for (number, wait) in timeline.waits.iter().enumerate() {
        if let Some(hold) = wait.behind.as_ref().and_then(|behind| behind.hold) {
            kept_by[hold].push(number);
        }
    }
    kept_by
}

enum What {
    Hold(usize),
    Wait(usize),
}

/// A span of a thread.
struct Drawn {
    thread: ThreadId,
    begin_ns: u64,
    end_ns: u64,
    what: What,
}

impl Drawn {
    fn hold(number: usize, hold: &SingleHold) -> Self {
        let SingleHold { thread, begin_ns, end_ns, .. } = *hold;
        Self { thread, begin_ns, end_ns, what: What::Hold(number) }
    }

    fn wait(number: usize, wait: &SingleWait) -> Self {
        let SingleWait { thread, begin_ns, end_ns, .. } = *wait;
        Self { thread, begin_ns, end_ns, what: What::Wait(number) }
    }

    fn span(&self, track: Track, category: &'static str, name: String, arguments: Value) -> Span {
        let (begin_us, duration_us) = (us(self.begin_ns), us(self.end_ns - self.begin_ns));
        Span { name, category, track, begin_us, duration_us, arguments }
    }
}

/// Sorts the spans of a thread, those that contain others first, and gives each the first lane in which it lies inside the spans that are
/// open there.
fn lanes_of(drawn: &mut [Drawn]) -> Vec<usize> {
    drawn.sort_by_key(|drawn| (drawn.begin_ns, Reverse(drawn.end_ns)));
    // Ends of open spans, the innermost last.
    let mut open: Vec<Vec<u64>> = Vec::new();
    let mut lane_of = |drawn: &Drawn| {
        let fits = |ends: &mut Vec<u64>| {
            while ends.last().is_some_and(|&end| end <= drawn.begin_ns) {
                ends.pop();
            }
            ends.last().is_none_or(|&end| drawn.end_ns <= end)
        };
        let lane = open.iter_mut().position(fits).unwrap_or(open.len());
        if lane == open.len() {
            open.push(Vec::new());
        }
        open[lane].push(drawn.end_ns);
        lane
    };
    drawn.iter().map(&mut lane_of).collect()
}

fn wait_name(wait: &SingleWait) -> String {
    format!("wait for {}", wait.lock)
}

fn hold_name(hold: &SingleHold) -> String {
    format!("hold {}", hold.lock)
}

fn wait_arguments(wait: &SingleWait, timeline: &Timeline) -> Value {
    let mut arguments = site_arguments(&wait.site);
    arguments["lock"] = (*wait.lock).into();
    arguments["mode"] = if wait.shared { "shared" } else { "exclusive" }.into();
    arguments["waited_ns"] = (wait.end_ns - wait.begin_ns).into();
    if let Some(behind) = &wait.behind {
        arguments["behind"] = behind_arguments(behind, timeline);
    }
    arguments
}

fn behind_arguments(behind: &Behind, timeline: &Timeline) -> Value {
    let mut arguments = site_arguments(&behind.site);
    let name = timeline.threads.get(&behind.thread).map_or("thread", String::as_str);
    arguments["thread"] = format!("{name} {}", behind.thread.tid).into();
    if let Some(hold) = behind.hold.map(|hold| &timeline.holds[hold]) {
        arguments["held_ns"] = (hold.end_ns - hold.begin_ns).into();
    }
    arguments
}

fn hold_arguments(hold: &SingleHold) -> Value {
    let mut arguments = site_arguments(&hold.site);
    arguments["lock"] = (*hold.lock).into();
    arguments["held_ns"] = (hold.end_ns - hold.begin_ns).into();
    arguments
}

/// Where it was, as far as that is known.
fn site_arguments(site: &LockSite) -> Value {
    let mut arguments = json!({});
    if !site.function.is_empty() {
        arguments["function"] = site.function.clone().into();
    }
    if let Some(source) = &site.source {
        arguments["source"] = source.clone().into();
    }
    if !site.stack.is_empty() {
        let key = if site.whole { "stack" } else { "stack_in_common" };
        arguments[key] = site.stack.clone().into();
    }
    arguments
}
