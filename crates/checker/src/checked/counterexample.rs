//! A wrong execution as a table: a column a thread, a row a step.

use std::fmt;

use machine::Event as Note;

use super::arena::ClientMemory;
use super::mutation::ordering_name;
use crate::explorer::Explorer;
use crate::graph::{Event, EventId, EventKind, Graph, LocationId, StepIndex};
use crate::model::{Model, Strength};
use crate::trace::ReplayTrace;
use crate::violation::Violation;

/// One step of a counterexample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRow {
    /// Which thread moves.
    pub thread: usize,
    /// What it does.
    pub step: String,
    /// What the step leaves: the thread's store buffer, or how far behind its view is.
    pub state: String,
    /// Where the step stands in the source, as `file:line:column`.
    pub site: String,
}

/// A wrong execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// What is wrong.
    pub violation: Violation,
    /// How many threads there are.
    pub threads: usize,
    /// The steps, in an order in which they can happen.
    pub rows: Vec<StepRow>,
    /// The execution, for running it again.
    pub trace: ReplayTrace,
    /// How many events it has.
    pub(super) events: usize,
}

impl Counterexample {
    pub(super) fn of(explorer: &Explorer, arena: &ClientMemory, violation: Violation) -> Self {
        let table = Table { model: explorer.model, graph: &explorer.graph, arena };
        let violation = match violation {
            Violation::Race { threads, cell } => {
                let number = cell.trim_matches(['[', ']']).parse();
                let cell = number.map_or(cell, |location| arena.name(location));
                Violation::Race { threads, cell }
            }
            other => other,
        };
        Self {
            violation,
            threads: explorer.graph.threads.len(),
            rows: table.rows(),
            trace: ReplayTrace::of(&explorer.graph, explorer.wrong.clone()),
            events: explorer.graph.events(),
        }
    }
}

impl Counterexample {
    /// One of which only the trace is known.
    pub(super) fn untold(trace: ReplayTrace, violation: Violation) -> Self {
        Self { violation, threads: trace.threads(), rows: Vec::new(), trace, events: usize::MAX }
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.violation)?;
        let mut lines = vec![vec![String::new()]];
        lines[0].extend((0..self.threads).map(|thread| format!("thread {thread}")));
        lines[0].extend(["state".to_owned(), "site".to_owned()]);
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = vec![String::new(); self.threads + 3];
            line[0] = (number + 1).to_string();
            line[1 + row.thread].clone_from(&row.step);
            line[self.threads + 1].clone_from(&row.state);
            line[self.threads + 2].clone_from(&row.site);
            lines.push(line);
        }
        let columns = self.threads + 3;
        let widths = (0..columns)
            .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0));
        let widths = widths.collect::<Vec<_>>();
        for line in lines {
            let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// A step of a machine: an event, or the moment when a buffered store reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Event(EventId),
    Drain(EventId),
}

struct Table<'a> {
    model: Model,
    graph: &'a Graph,
    arena: &'a ClientMemory,
}

impl Table<'_> {
    fn ids(&self) -> impl Iterator<Item = EventId> + '_ {
        self.graph.threads.iter().enumerate().flat_map(|(thread, events)| {
            (0..events.len()).map(move |index| EventId { thread: thread as u8, index: index as StepIndex })
        })
    }

    /// Whether a write waits in a buffer after its step.
    fn is_buffered(&self, id: EventId) -> bool {
        let event = self.graph.event(id);
        matches!(self.model, Model::Tso | Model::Pso)
            && event.is_write()
            && !event.strength.has(Strength::FULL.with(Strength::DIRECT))
    }

    fn takes_effect(&self, write: EventId) -> Moment {
        if self.is_buffered(write) { Moment::Drain(write) } else { Moment::Event(write) }
    }

    /// What must have happened before a moment.
    fn before(&self, moment: Moment) -> Vec<Moment> {
        let mut before = Vec::new();
        let id = match moment {
            Moment::Event(id) | Moment::Drain(id) => id,
        };
        let event = self.graph.event(id);
        let earlier = || (0..id.index).map(|index| EventId { index, ..id });
        if moment == Moment::Event(id) {
            before.extend(earlier().next_back().map(Moment::Event));
            if let EventKind::Read { from } = event.kind
                && !from.is_initial()
            {
                let own = from.thread == id.thread;
                before.push(if own { Moment::Event(from) } else { self.takes_effect(from) });
            }
            for write in earlier().filter(|&write| self.is_buffered(write)) {
                let same = self.graph.event(write).location == event.location;
                let exclusive = event.is_exclusive() && !event.strength.has(Strength::PART);
                if event.strength.has(Strength::FULL) || exclusive && same {
                    before.push(Moment::Drain(write));
                }
            }
        } else {
            before.push(Moment::Event(id));
        }
        if event.is_write() && self.takes_effect(id) == moment && self.model != Model::Ra {
            let accesses = self.graph.accesses(event.location);
            let place = accesses.position(id) - 1;
            if let Some(previous) = place.checked_sub(1) {
                before.push(self.takes_effect(accesses.writes[previous]));
            }
            // The reads of what this overwrites come earlier.
            let overwritten = accesses.at(place);
            let readers = accesses.reads.iter().filter(|&&read| {
                self.graph.event(read).source() == overwritten
                    && !self.graph.event(read).strength.has(Strength::PART)
                    && self.graph.write_half(read) != Some(id)
            });
            before.extend(readers.map(|&read| Moment::Event(read)));
            for write in earlier().filter(|&write| self.is_buffered(write)) {
                let ordered = self.model == Model::Tso
                    || event.strength.has(Strength::STORES)
                    || earlier().skip(write.index as usize).any(|between| {
                        let between = self.graph.event(between);
                        between.kind == EventKind::Fence && between.strength.has(Strength::STORES)
                    });
                if ordered {
                    before.push(Moment::Drain(write));
                }
            }
        }
        before
    }

    /// The moments in an order in which they can happen, with few changes of thread.
    fn in_order(&self) -> Vec<Moment> {
        let drains = self.ids().filter(|&id| self.is_buffered(id)).map(Moment::Drain);
        let mut left = self.ids().map(Moment::Event).chain(drains).collect::<Vec<_>>();
        let mut done: Vec<Moment> = Vec::new();
        let mut thread = 0;
        let of = |moment: &Moment| match moment {
            Moment::Event(id) | Moment::Drain(id) => id.thread,
        };
        while !left.is_empty() {
            let ready = |moment: &Moment| self.before(*moment).iter().all(|earlier| done.contains(earlier));
            // The same thread as long as it can go on; buffers drain as late as they can.
            let rank = |moment: &Moment| match moment {
                Moment::Event(_) => (of(moment) != thread, of(moment)),
                Moment::Drain(_) => (true, u8::MAX),
            };
            let next = (0..left.len()).filter(|&n| ready(&left[n])).min_by_key(|&n| rank(&left[n]));
            let Some(next) = next else { break };
            let moment = left.remove(next);
            if let Moment::Event(id) = moment {
                thread = id.thread;
            }
            done.push(moment);
        }
        done
    }

    fn rows(&self) -> Vec<StepRow> {
        let moments = self.in_order();
        let mut rows = Vec::new();
        for (number, &moment) in moments.iter().enumerate() {
            let so_far = &moments[..=number];
            let id = match moment {
                Moment::Event(id) | Moment::Drain(id) => id,
            };
            let event = self.graph.event(id);
            // A read-modify-write is one step, shown at its second half.
            if moment == Moment::Event(id) && event.is_read() && self.graph.write_half(id).is_some() {
                continue;
            }
            let step = match moment {
                Moment::Event(_) => self.step(id, event, so_far),
                Moment::Drain(_) => {
                    format!(
                        "{} := {} reaches memory",
                        self.name(event.location),
                        self.arena.show(event.value)
                    )
                }
            };
            let site = event.site.map_or(String::new(), |site| {
                let file = site.file().rsplit('/').next().unwrap_or_default();
                format!("{file}:{}:{}", site.line(), site.column())
            });
            rows.push(StepRow { thread: id.thread as usize, step, state: self.state(id, so_far), site });
        }
        rows
    }

    fn name(&self, location: LocationId) -> String {
        self.arena.name(location)
    }

    fn step(&self, id: EventId, event: &Event, so_far: &[Moment]) -> String {
        let name = self.name(event.location);
        let value = self.arena.show(event.value);
        let ordering = ordering_name(event.ordering);
        match event.kind {
            EventKind::Read { .. } => {
                let accesses = self.graph.accesses(event.location);
                let newer = &accesses.writes[accesses.position(event.source())..];
                let stale = newer.iter().any(|&write| so_far.contains(&Moment::Event(write)));
                let seen = if self.model == Model::Ra && stale { ", not the last" } else { "" };
                if event.compare.is_some() {
                    return format!("{name} = {value}, no exchange{seen}");
                }
                format!("{name} = {value} {ordering}{seen}")
            }
            EventKind::Write if event.is_exclusive() => {
                let read = self.graph.event(EventId { index: id.index - 1, ..id });
                format!("{name}: {} → {value} {ordering}", self.arena.show(read.value))
            }
            EventKind::Write => format!("{name} := {value} {ordering}"),
            EventKind::Fence => format!("fence {ordering}"),
            EventKind::PlainRead => format!("{name} = {value} plain"),
            EventKind::PlainWrite => format!("{name} := {value} plain"),
            EventKind::Choice => format!("choice {}", event.value),
            EventKind::Free => format!("frees {name}"),
            EventKind::Take => format!("takes {name}"),
            EventKind::Note(Note::Acquiring { .. }) => "acquiring".to_owned(),
            EventKind::Note(Note::Acquired { shared, .. }) => {
                if shared {
                    "ACQUIRED shared".to_owned()
                } else {
                    "ACQUIRED".to_owned()
                }
            }
            EventKind::Note(Note::Releasing { .. }) => "RELEASING".to_owned(),
            EventKind::Note(Note::GaveUp { .. }) => "gave up".to_owned(),
            EventKind::Note(Note::Operation) => "operation".to_owned(),
        }
    }

    /// The buffer of the thread, or what its view lacks.
    fn state(&self, id: EventId, so_far: &[Moment]) -> String {
        match self.model {
            Model::Sc => String::new(),
            Model::Tso | Model::Pso => {
                let buffered = so_far.iter().filter_map(|moment| match moment {
                    Moment::Event(write)
                        if write.thread == id.thread
                            && self.is_buffered(*write)
                            && !so_far.contains(&Moment::Drain(*write)) =>
                    {
                        let event = self.graph.event(*write);
                        Some(format!("{} := {}", self.name(event.location), self.arena.show(event.value)))
                    }
                    _ => None,
                });
                let buffered = buffered.collect::<Vec<_>>();
                if buffered.is_empty() { String::new() } else { format!("buffer: {}", buffered.join(", ")) }
            }
            Model::Ra => {
                let known = &self.graph.event(id).happened;
                let behind = (0..self.graph.locations.len() as LocationId).filter_map(|location| {
                    let written = self.graph.accesses(location).writes.iter().filter(|&&write| {
                        so_far.contains(&Moment::Event(write)) && write.thread != id.thread
                    });
                    let unknown = written.filter(|&&write| !known.has(write)).count();
                    (unknown > 0).then(|| format!("{} -{unknown}", self.name(location)))
                });
                let mut behind = behind.collect::<Vec<_>>();
                behind.sort_unstable(); // locations are numbered as they come up, in a replay in another order
                if behind.is_empty() { String::new() } else { format!("view: {}", behind.join(", ")) }
            }
        }
    }
}
