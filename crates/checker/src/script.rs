//! One execution as a line of text: who reads from whom, which choices were made, and the order of the writes.
//!
//! `0:i,1.3,c1;1:0.2|5:0.4,1.3` says that thread 0 read the initial value, then what the event 3 of thread 1 wrote,
//! then chose 1; that thread 1 read from event 2 of thread 0; and that the writes of location 5 were event 4 of thread 0, then
//! event 3 of thread 1.

use std::fmt;
use std::str::FromStr;

use crate::graph::{EventId, Graph, Kind};

/// An execution to be run again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Of each thread its reads and choices, by the index of the event.
    threads: Vec<Vec<(u8, Answer)>>,
    orders: Vec<(u16, Vec<EventId>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    From(EventId),
    Choice(u64),
}

impl Script {
    pub(crate) fn of(graph: &Graph) -> Self {
        let answers = |events: &Vec<crate::graph::Event>| {
            let answer = |(index, event): (usize, &crate::graph::Event)| match event.kind {
                Kind::Read { from } => Some((index as u8, Answer::From(from))),
                Kind::Choice => Some((index as u8, Answer::Choice(event.value))),
                _ => None,
            };
            events.iter().enumerate().filter_map(answer).collect()
        };
        let orders = graph.locations.iter().enumerate().filter(|(_, accesses)| accesses.writes.len() > 1);
        Self {
            threads: graph.threads.iter().map(answers).collect(),
            orders: orders.map(|(location, accesses)| (location as u16, accesses.writes.clone())).collect(),
        }
    }

    /// The script of a run that was no graph: its reads and choices, and the orders of its words.
    pub(crate) fn from_answers(
        threads: usize,
        answers: &[(EventId, Answer)],
        orders: impl Iterator<Item = (u16, Vec<EventId>)>,
    ) -> Self {
        let of_thread = |thread| {
            let own = answers.iter().filter(move |(id, _)| id.thread as usize == thread);
            own.map(|(id, answer)| (id.index, *answer)).collect()
        };
        let orders = orders.filter(|(_, order)| order.len() > 1);
        Self { threads: (0..threads).map(of_thread).collect(), orders: orders.collect() }
    }

    /// How many threads it tells of.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    fn answer(&self, id: EventId) -> Option<Answer> {
        let answers = self.threads.get(id.thread as usize)?;
        answers.iter().find(|(index, _)| *index == id.index).map(|(_, answer)| *answer)
    }

    pub(crate) fn source(&self, id: EventId) -> Option<EventId> {
        match self.answer(id)? {
            Answer::From(source) => Some(source),
            Answer::Choice(_) => None,
        }
    }

    pub(crate) fn choice(&self, id: EventId) -> Option<u64> {
        match self.answer(id)? {
            Answer::Choice(value) => Some(value),
            Answer::From(_) => None,
        }
    }

    /// The place of a write among those that are there already, the first being one.
    pub(crate) fn place(&self, id: EventId, present: &[EventId]) -> Option<usize> {
        let Some((_, order)) = self.orders.iter().find(|(_, order)| order.contains(&id)) else {
            return Some(present.len() + 1);
        };
        let earlier = order.iter().take_while(|&&write| write != id);
        Some(1 + earlier.filter(|write| present.contains(write)).count())
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (thread, answers) in self.threads.iter().enumerate() {
            let separator = if thread == 0 { "" } else { ";" };
            write!(f, "{separator}{thread}")?;
            for (index, answer) in answers {
                match answer {
                    Answer::From(source) if source.is_initial() => write!(f, ",{index}=i")?,
                    Answer::From(source) => write!(f, ",{index}={}.{}", source.thread, source.index)?,
                    Answer::Choice(value) => write!(f, ",{index}=c{value}")?,
                }
            }
        }
        for (location, order) in &self.orders {
            write!(f, "|{location}")?;
            for write in order {
                write!(f, ",{}.{}", write.thread, write.index)?;
            }
        }
        Ok(())
    }
}

/// A text that is no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no execution: expected the text that a counterexample ends with")]
pub struct NotAScript(String);

impl FromStr for Script {
    type Err = NotAScript;

    fn from_str(text: &str) -> Result<Self, NotAScript> {
        parse(text).ok_or_else(|| NotAScript(text.chars().take(60).collect()))
    }
}

fn parse(text: &str) -> Option<Script> {
    let mut parts = text.trim().split('|');
    let threads = parts.next()?.split(';').enumerate().map(|(number, thread)| {
        let mut fields = thread.split(',');
        (fields.next()?.parse() == Ok(number)).then_some(())?;
        fields.map(parse_answer).collect::<Option<Vec<_>>>()
    });
    let threads = threads.collect::<Option<Vec<_>>>()?;
    let orders = parts.map(|order| {
        let mut fields = order.split(',');
        let location = fields.next()?.parse().ok()?;
        Some((location, fields.map(parse_event).collect::<Option<Vec<_>>>()?))
    });
    Some(Script { threads, orders: orders.collect::<Option<Vec<_>>>()? })
}

fn parse_answer(text: &str) -> Option<(u8, Answer)> {
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
