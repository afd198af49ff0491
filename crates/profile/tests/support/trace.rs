//! What the Trace Event Format, and Perfetto beside it, ask of a trace.

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// The spans of a category.
pub(crate) fn spans<'t>(trace: &'t Value, category: &str) -> Vec<&'t Value> {
    events(trace).iter().filter(|event| event["ph"] == "X" && event["cat"] == category).collect()
}

/// The track of an event.
pub(crate) fn track(event: &Value) -> (u64, u64) {
    (event["pid"].as_u64().expect("a process"), event["tid"].as_u64().expect("a thread"))
}

/// Beginning and end of a span, ns.
pub(crate) fn times_ns(span: &Value) -> (u64, u64) {
    let begin = ns(&span["ts"]);
    (begin, begin + ns(&span["dur"]))
}

/// The spans in which each flow begins and ends, as a reader that knows the format finds them: the innermost one that is open on the track
/// then, of those that come before in the order of the file.
pub(crate) fn flows(trace: &Value) -> Vec<(&Value, &Value)> {
    let mut events: Vec<_> = events(trace).iter().filter(|event| event["ph"] != "M").collect();
    events.sort_by_key(|event| ns(&event["ts"]));
    let mut latest: HashMap<(u64, u64), Vec<&Value>> = HashMap::new();
    let mut begun: HashMap<u64, &Value> = HashMap::new();
    let mut flows = Vec::new();
    for event in events {
        let open = latest.entry(track(event)).or_default();
        let at = ns(&event["ts"]);
        open.retain(|span| times_ns(span).1 >= at);
        let innermost = || *open.last().unwrap_or_else(|| panic!("no span is open: {event}"));
        match event["ph"].as_str().expect("a phase") {
            "X" => open.push(event),
            "s" => assert!(begun.insert(id(event), innermost()).is_none(), "begins twice: {event}"),
            "f" => {
                assert_eq!(event["bp"], "e", "the end of a flow is in the span that is open");
                let from = begun.remove(&id(event)).unwrap_or_else(|| panic!("ends unbegun: {event}"));
                flows.push((from, innermost()));
            }
            other => panic!("an event of kind {other}"),
        }
    }
    assert!(begun.is_empty(), "flows without an end: {begun:?}");
    flows
}

/// Panics if the trace is none, or a viewer would leave out any of it.
pub(crate) fn check(trace: &Value) {
    let mut by_track: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for event in events(trace) {
        assert!(event["name"].is_string() && event["pid"].is_u64(), "{event}");
        match event["ph"].as_str().expect("a phase") {
            "M" => assert!(event["args"]["name"].is_string(), "{event}"),
            "X" => by_track.entry(track(event)).or_default().push(times_ns(event)),
            "s" | "f" => assert!(event["ts"].is_number() && event["tid"].is_u64(), "{event}"),
            other => panic!("an event of kind {other}"),
        }
    }
    for (track, mut spans) in by_track {
        spans.sort_by_key(|&(begin, end)| (begin, std::cmp::Reverse(end)));
        let mut open: Vec<u64> = Vec::new();
        for (begin, end) in spans {
            open.retain(|&open_end| open_end > begin);
            let fits = open.iter().all(|&open_end| end <= open_end);
            assert!(fits, "spans of track {track:?} overlap at {begin} ns");
            open.push(end);
        }
    }
    flows(trace);
}

fn events(trace: &Value) -> &Vec<Value> {
    trace["traceEvents"].as_array().expect("a list of events")
}

fn id(event: &Value) -> u64 {
    event["id"].as_u64().expect("the number of a flow")
}

/// As Perfetto rounds times.
fn ns(us: &Value) -> u64 {
    let ns = (us.as_f64().expect("a time in µs") * 1000.0).round();
    assert!(ns >= 0.0, "{us} µs");
    ns as u64
}
