//! What happened last on each core, and a trace of a short run.

use std::fmt;
use std::panic::Location;

use curve::trace_events::{Span, TraceEvents, Track};
use machine::{Abort, Event as Note, LINE_BYTES};
use serde_json::{Value, json};

use crate::directory::Request;
use crate::{PS_PER_NS, Time};

/// Records kept for each core.
const LAST: usize = 16;

/// Something that happened to a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Miss { request: Request, line: u32, issued: Time, site: Option<&'static Location<'static>> },
    Watches { line: u32 },
    Note(Note),
    Sleeps { address: u32 },
    Wakes { address: u32, count: u32 },
    Preempted,
    Aborts(Abort),
}

/// One record of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    time: Time,
    core: u32,
    thread: u32,
    what: What,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, thread, .. } = self;
        write!(f, "{:>14}.{:03} ns  thread {thread}: ", time / PS_PER_NS, time % PS_PER_NS)?;
        match self.what {
            What::Miss { request, line, issued, site } => {
                let address = line as usize * LINE_BYTES;
                let ns = (time - issued) / PS_PER_NS;
                write!(f, "{request:?} of line {address:#x} took {ns} ns")?;
                site.map_or(Ok(()), |site| write!(f, " ({}:{})", site.file(), site.line()))
            }
            What::Watches { line } => write!(f, "watches line {:#x}", line as usize * LINE_BYTES),
            What::Note(note) => match lock_of(note) {
                Some(lock) => write!(f, "{} lock {lock:#x}", verb(note)),
                None => f.write_str("operation done"),
            },
            What::Sleeps { address } => write!(f, "sleeps on {address:#x}"),
            What::Wakes { address, count } => write!(f, "wakes {count} on {address:#x}"),
            What::Preempted => f.write_str("loses its core"),
            What::Aborts(abort) => write!(f, "aborts its transaction: {}", abort.cause().name()),
        }
    }
}

fn verb(note: Note) -> &'static str {
    match note {
        Note::Acquiring { .. } => "asks for",
        Note::Acquired { shared: false, .. } => "has",
        Note::Acquired { shared: true, .. } => "shares",
        Note::Releasing { .. } => "releases",
        Note::GaveUp { .. } => "gives up on",
        Note::Operation => "done",
    }
}

/// The last records of each core, and as many of all as were asked for.
pub(crate) struct Trace {
    /// `LAST` places for each core, used in turn.
    last: Box<[Record]>,
    /// How many records each core has made.
    made: Box<[usize]>,
    kept: Vec<Record>,
    keep: usize,
}

impl Trace {
    pub(crate) fn new(cores: usize, keep: usize) -> Self {
        let unused = Record { time: 0, core: 0, thread: 0, what: What::Preempted };
        Self { last: vec![unused; cores * LAST].into(), made: vec![0; cores].into(), kept: Vec::new(), keep }
    }

    /// Inlined, so that the record is written where it stays, and not copied just after that.
    #[inline(always)]
    pub(crate) fn record(&mut self, time: Time, core: u32, thread: u32, what: What) {
        let made = &mut self.made[core as usize];
        let place = core as usize * LAST + *made % LAST;
        *made += 1;
        self.last[place] = Record { time, core, thread, what };
        if self.kept.len() < self.keep {
            self.keep(place);
        }
    }

    #[cold]
    fn keep(&mut self, place: usize) {
        self.kept.push(self.last[place]);
    }

    /// The last records of each core that did anything, oldest first.
    pub(crate) fn by_core(&self) -> Vec<(u32, Vec<String>)> {
        let cores = self.last.chunks(LAST).zip(&self.made).enumerate();
        cores
            .filter(|(_, (_, made))| **made > 0)
            .map(|(core, (last, &made))| {
                let in_order = (made.saturating_sub(LAST)..made).map(|place| last[place % LAST].to_string());
                (core as u32, in_order.collect())
            })
            .collect()
    }

    /// The kept records in the Trace Event Format that Perfetto and Chrome read: a track for each thread, on which
    /// waiting, holding and each miss are spans.
    pub(crate) fn to_chrome(&self) -> Value {
        let us = |time: Time| time as f64 / (1000 * PS_PER_NS) as f64;
        let mut events = TraceEvents::default();
        let mut open = std::collections::BTreeMap::<(u32, usize), (&str, Time)>::new();
        let mut span =
            |name: String, category: &'static str, record: &Record, from: Time, arguments: Value| {
                events.span(&Span {
                    name,
                    category,
                    track: Track { process: record.core.into(), thread: record.thread.into() },
                    begin_us: us(from),
                    duration_us: us(record.time - from),
                    arguments,
                });
            };
        for record in &self.kept {
            match record.what {
                What::Miss { request, line, issued, site } => {
                    let name = format!("{request:?} {:#x}", line as usize * LINE_BYTES);
                    let site = site.map(|site| format!("{}:{}", site.file(), site.line()));
                    span(name, "miss", record, issued, json!({ "site": site }));
                }
                What::Note(note) => {
                    let Some(lock) = lock_of(note) else { continue };
                    let key = (record.thread, lock);
                    if let Some((what, from)) = open.remove(&key) {
                        span(format!("{what} {lock:#x}"), "lock", record, from, Value::Null);
                    }
                    match note {
                        Note::Acquiring { .. } => drop(open.insert(key, ("wait for", record.time))),
                        Note::Acquired { .. } => drop(open.insert(key, ("hold", record.time))),
                        _ => {}
                    }
                }
                what => {
                    let name = match what {
                        What::Watches { .. } => "watches",
                        What::Sleeps { .. } => "sleeps",
                        What::Wakes { .. } => "wakes",
                        What::Aborts(_) => "aborts",
                        _ => "preempted",
                    };
                    span(name.to_owned(), "thread", record, record.time, Value::Null);
                }
            }
        }
        let cores = self.kept.iter().map(|record| record.core).collect::<std::collections::BTreeSet<_>>();
        for core in cores {
            events.process_name(core.into(), &format!("core {core}"));
        }
        events.finish()
    }
}

/// The lock that a note is about.
pub(crate) fn lock_of(note: Note) -> Option<usize> {
    match note {
        Note::Acquiring { lock }
        | Note::Acquired { lock, .. }
        | Note::Releasing { lock, .. }
        | Note::GaveUp { lock } => Some(lock),
        Note::Operation => None,
    }
}
