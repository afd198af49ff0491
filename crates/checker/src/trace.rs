//! One execution as a line of text: who reads from whom, which choices were made, the order of the writes, and where it is
//! wrong.
//!
//! `0/9,0=i,2=1.3,6=c1;1/5,1=0.2|0.4,1.3` says that thread 0 took nine steps, of which its event 0 read the initial
//! value, event 2 what event 3 of thread 1 wrote, and event 6 chose 1; that thread 1 took five, of which event 1 read from
//! event 2 of thread 0; and that of one location the writes were event 4 of thread 0, then event 3 of thread 1. At the end
//! `|!1` says that the last step of thread 1 is what is wrong, after all others; `|~0.3,1.2` that thread 0 goes round for
//! ever from its event 3 on, and thread 1 from its event 2.

use std::fmt;
use std::str::FromStr;

use crate::graph::{EventId, EventKind, Graph, StepIndex};

/// An execution to be run again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayTrace {
    threads: Vec<Thread>,
    /// The writes of each location that has several, by their first: what locations are called says nothing.
    orders: Vec<Vec<EventId>>,
    wrong: Option<WrongAt>,
}

/// Where an execution is wrong, if it is at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrongAt {
    /// In the last step of a thread, which comes after the steps of all others.
    LastStep(usize),
    /// In threads that go round for ever from these events on.
    Cycle(Vec<EventId>),
}

/// What one thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Thread {
    /// How many events it has.
    steps: usize,
    /// Its reads and choices, by the index of the event.
    answers: Vec<(StepIndex, Answer)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    From(EventId),
    Choice(u64),
}

impl ReplayTrace {
    pub(crate) fn of(graph: &Graph, wrong: Option<WrongAt>) -> Self {
        let answers = |events: &Vec<crate::graph::Event>| {
            let answer = |(index, event): (usize, &crate::graph::Event)| match event.kind {
                EventKind::Read { from } => Some((index as StepIndex, Answer::From(from))),
                EventKind::Choice => Some((index as StepIndex, Answer::Choice(event.value))),
                _ => None,
            };
            Thread { steps: events.len(), answers: events.iter().enumerate().filter_map(answer).collect() }
        };
        Self {
            threads: graph.threads.iter().map(answers).collect(),
            orders: sorted(graph.locations.iter().map(|accesses| accesses.writes.clone())),
            wrong,
        }
    }

    /// The trace of a run that was no graph: its reads and choices, and the orders of its words.
    pub(crate) fn from_answers(
        steps: impl Iterator<Item = usize>,
        answers: &[(EventId, Answer)],
        orders: impl Iterator<Item = Vec<EventId>>,
        wrong: Option<WrongAt>,
    ) -> Self {
        let of_thread = |(thread, steps)| {
            let own = answers.iter().filter(move |(id, _)| id.thread as usize == thread);
            Thread { steps, answers: own.map(|(id, answer)| (id.index, *answer)).collect() }
        };
        Self { threads: steps.enumerate().map(of_thread).collect(), orders: sorted(orders), wrong }
    }

    /// The trace of a client that is wrong before its threads begin.
    pub(crate) fn of_no_step() -> Self {
        Self { threads: vec![Thread::default()], ..Self::default() }
    }

    /// Where it is wrong, if that is said.
    pub(crate) fn wrong(&self) -> Option<&WrongAt> {
        self.wrong.as_ref()
    }

    /// Whether this is the step that comes after all others.
    pub(crate) fn is_last(&self, id: EventId) -> bool {
        let thread = id.thread as usize;
        self.wrong == Some(WrongAt::LastStep(thread)) && id.index as usize + 1 == self.steps(thread)
    }

    /// How many threads it tells of.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// How many steps a thread takes.
    pub(crate) fn steps(&self, thread: usize) -> usize {
        self.threads.get(thread).map_or(0, |thread| thread.steps)
    }

    /// What a read reads, or a choice chooses; none for an event that is neither.
    pub(crate) fn answer(&self, id: EventId) -> Option<Answer> {
        let answers = &self.threads.get(id.thread as usize)?.answers;
        answers.iter().find(|(index, _)| *index == id.index).map(|(_, answer)| *answer)
    }

    /// The place of a write among those that are there already, the first being one.
    pub(crate) fn place(&self, id: EventId, present: &[EventId]) -> usize {
        let Some(order) = self.orders.iter().find(|order| order.contains(&id)) else {
            return present.len() + 1;
        };
        let earlier = order.iter().take_while(|&&write| write != id);
        1 + earlier.filter(|write| present.contains(write)).count()
    }
}

fn sorted(orders: impl Iterator<Item = Vec<EventId>>) -> Vec<Vec<EventId>> {
    let mut orders = orders.filter(|order| order.len() > 1).collect::<Vec<_>>();
    orders.sort_unstable_by_key(|order| (order[0].thread, order[0].index));
    orders
}

impl fmt::Display for ReplayTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Thread { steps, answers }) in self.threads.iter().enumerate() {
            let separator = if number == 0 { "" } else { ";" };
            write!(f, "{separator}{number}/{steps}")?;
            for (index, answer) in answers {
                match answer {
                    Answer::From(source) if source.is_initial() => write!(f, ",{index}=i")?,
                    Answer::From(source) => write!(f, ",{index}={}.{}", source.thread, source.index)?,
                    Answer::Choice(value) => write!(f, ",{index}=c{value}")?,
                }
            }
        }
        for order in &self.orders {
            for (number, write) in order.iter().enumerate() {
                let separator = if number == 0 { '|' } else { ',' };
                write!(f, "{separator}{}.{}", write.thread, write.index)?;
            }
        }
        match &self.wrong {
            None => {}
            Some(WrongAt::LastStep(thread)) => write!(f, "|!{thread}")?,
            Some(WrongAt::Cycle(starts)) => {
                for (number, start) in starts.iter().enumerate() {
                    let separator = if number == 0 { "|~" } else { "," };
                    write!(f, "{separator}{}.{}", start.thread, start.index)?;
                }
            }
        }
        Ok(())
    }
}

/// A trace and a client that do not belong together: the code, or what was weakened in it, was another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Divergence {
    /// Which thread left the trace; none when the number of threads differs.
    pub thread: Option<usize>,
    /// Before which of its steps, counted from one.
    pub step: usize,
    /// Where that stands in the source, as `file:line:column`.
    pub site: Option<String>,
    /// What the trace says, and what the code does.
    pub what: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this execution is not one of the code as it is")?;
        if let Some(thread) = self.thread {
            write!(f, ": they part at step {} of thread {thread}", self.step)?;
        }
        if let Some(site) = &self.site {
            write!(f, " ({site})")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// A text that is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no execution: expected the text that a counterexample ends with")]
pub struct NotATrace(String);

impl FromStr for ReplayTrace {
    type Err = NotATrace;

    fn from_str(text: &str) -> Result<Self, NotATrace> {
        parse(text).ok_or_else(|| NotATrace(text.chars().take(60).collect()))
    }
}

fn parse(text: &str) -> Option<ReplayTrace> {
    let mut parts = text.trim().split('|').collect::<Vec<_>>();
    let wrong = parts.pop_if(|part| part.starts_with(['!', '~']));
    let mut parts = parts.into_iter();
    let threads = parts.next()?.split(';').enumerate().map(|(number, thread)| {
        let mut fields = thread.split(',');
        let (own_number, steps) = fields.next()?.split_once('/')?;
        (own_number.parse() == Ok(number)).then_some(())?;
        let answers = fields.map(parse_answer).collect::<Option<Vec<_>>>()?;
        Some(Thread { steps: steps.parse().ok()?, answers })
    });
    let threads = threads.collect::<Option<Vec<_>>>()?;
    let orders = parts.map(parse_events).collect::<Option<Vec<_>>>()?;
    let wrong = match wrong.map(|wrong| wrong.split_at(1)) {
        None => None,
        Some(("!", thread)) => Some(WrongAt::LastStep(thread.parse().ok()?)),
        Some((_, starts)) => Some(WrongAt::Cycle(parse_events(starts)?)),
    };
    Some(ReplayTrace { threads, orders, wrong })
}

fn parse_events(text: &str) -> Option<Vec<EventId>> {
    text.split(',').map(parse_event).collect()
}

fn parse_answer(text: &str) -> Option<(StepIndex, Answer)> {
    let (index, answer) = text.split_once('=')?;
    let answer = match answer.strip_prefix('c') {
        Some(choice) => Answer::Choice(choice.parse().ok()?),
        None if answer == "i" => Answer::From(EventId::INITIAL),
        None => Answer::From(parse_event(answer)?),
    };
    Some((index.parse().ok()?, answer))
}

fn parse_event(text: &str) -> Option<EventId> {
    let (thread, index) = text.split_once('.')?;
    Some(EventId { thread: thread.parse().ok()?, index: index.parse().ok()? })
}
