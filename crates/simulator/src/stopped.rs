//! Why a simulation was stopped, with what happened last.

use std::fmt;

use crate::{PS_PER_NS, Time};

/// What was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Two threads held a lock that one of them wanted for itself.
    Exclusion {
        /// Simulated address of the lock.
        lock: u32,
        /// Who just took it.
        taker: u32,
        /// Who held it.
        holders: Vec<u32>,
    },
    /// Every thread waits for another.
    Deadlock,
    /// Nothing was acquired and no operation done for so many events.
    Livelock {
        /// The events.
        events: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusion { lock, taker, holders } => {
                write!(f, "exclusion violated: thread {taker} took lock {lock:#x} while thread")?;
                let names = holders.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                write!(f, "{} {names} held it", if holders.len() == 1 { "" } else { "s" })
            }
            Self::Deadlock => f.write_str("deadlock: every thread waits for another"),
            Self::Livelock { events } => {
                write!(f, "livelock: nothing acquired and no operation done in {events} events")
            }
        }
    }
}

/// A simulation that was stopped: why, when, and what each core did last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// What was wrong.
    pub reason: Reason,
    /// When, in picoseconds of the simulation.
    pub at_ps: Time,
    /// The seed that gives the same again.
    pub seed: u64,
    /// What each thread that had not ended was doing.
    pub threads: Vec<String>,
    /// The last records of each core that did anything, oldest first.
    pub last_events: Vec<(u32, Vec<String>)>,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, at_ps, seed, .. } = self;
        writeln!(f, "{reason}, at {} ns, seed {seed}", at_ps / PS_PER_NS)?;
        for thread in &self.threads {
            writeln!(f, "  {thread}")?;
        }
        for (core, records) in &self.last_events {
            writeln!(f, "core {core}, last events:")?;
            for record in records {
                writeln!(f, "{record}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Stopped {}
