//! Traces in the Trace Event Format, which Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open.
//!
//! A trace has tracks, each of a thread of a process, with spans on them. Spans on one track lie inside each other or apart; readers
//! refuse others. Flows lead from one span to another.

use serde_json::{Value, json};

/// The track of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Track {
    /// Number of the process.
    pub process: u64,
    /// Number of the thread, which no other process has.
    pub thread: u64,
}

/// Something that lasts.
#[derive(Debug, Clone)]
pub struct Span {
    /// What is written on it.
    pub name: String,
    /// The kind of thing that it is, by which readers filter.
    pub category: &'static str,
    /// Where it is drawn.
    pub track: Track,
    /// Its beginning, µs.
    pub begin_us: f64,
    /// How long it lasts, µs.
    pub duration_us: f64,
    /// What a reader shows of it when it is selected: an object, or null.
    pub arguments: Value,
}

/// Events of a trace, in the order in which they were added. Readers sort them by time, and keep the order of those of one time.
#[derive(Debug, Clone, Default)]
pub struct TraceEvents(Vec<Value>);

impl TraceEvents {
    /// Adds a span. One that lies inside another of its track comes after that one.
    pub fn span(&mut self, span: &Span) {
        let Span { name, category, track, begin_us, duration_us, arguments } = span;
        self.0.push(json!({
            "name": name, "cat": category, "ph": "X", "pid": track.process, "tid": track.thread,
            "ts": begin_us, "dur": duration_us, "args": arguments,
        }));
    }

    /// Names a process.
    pub fn process_name(&mut self, process: u64, name: &str) {
        self.0.push(json!({ "name": "process_name", "ph": "M", "pid": process, "args": { "name": name } }));
    }

    /// Names a thread.
    pub fn thread_name(&mut self, Track { process, thread }: Track, name: &str) {
        self.0.push(json!({
            "name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": { "name": name },
        }));
    }

    /// Begins the flow of this number in the span of this track that is open at this time, µs. Where a span begins then, the flow
    /// comes right after it.
    pub fn flow_begins(&mut self, number: u64, name: &str, track: Track, at_us: f64) {
        self.0.push(flow("s", number, name, track, at_us));
    }

    /// Ends the flow of this number, likewise. Not before it begins.
    pub fn flow_ends(&mut self, number: u64, name: &str, track: Track, at_us: f64) {
        let mut event = flow("f", number, name, track, at_us);
        event["bp"] = "e".into(); // in the span that is open, not in the next one
        self.0.push(event);
    }

    /// The trace as one JSON object.
    #[must_use]
    pub fn finish(self) -> Value {
        json!({ "displayTimeUnit": "ns", "traceEvents": self.0 })
    }
}

fn flow(phase: &str, number: u64, name: &str, track: Track, at_us: f64) -> Value {
    json!({
        "name": name, "cat": "flow", "ph": phase, "id": number, "pid": track.process, "tid": track.thread, "ts": at_us,
    })
}
