//! Why a simulation was stopped, with what happened last.

use std::fmt;

use crate::{PS_PER_NS, Time};

/// So many threads and cores are shown of those that all wait.
const SHOWN: usize = 8;

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
        // One of those that exclude each other no more may be anywhere; those that all wait are alike.
        let shown = if matches!(reason, Reason::Exclusion { .. }) { usize::MAX } else { SHOWN };
        for thread in self.threads.iter().take(shown) {
            writeln!(f, "  {thread}")?;
        }
        left_out(f, "threads", self.threads.len(), shown)?;
        for (core, records) in self.last_events.iter().take(shown) {
            writeln!(f, "core {core}, last events:")?;
            for record in records {
                writeln!(f, "{record}")?;
            }
        }
        left_out(f, "cores", self.last_events.len(), shown)
    }
}

/// Says how many are not shown.
fn left_out(f: &mut fmt::Formatter<'_>, what: &str, all: usize, shown: usize) -> fmt::Result {
    if all <= shown {
        return Ok(());
    }
    writeln!(f, "and {} more {what}", all - shown)
}

impl std::error::Error for Stopped {}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(reason: Reason) -> String {
        let threads = (0..80).map(|thread| format!("thread {thread} runs")).collect();
        let last_events = (0..80).map(|core| (core, vec!["  a load".into()])).collect();
        Stopped { reason, at_ps: 7 * PS_PER_NS, seed: 1, threads, last_events }.to_string()
    }

    #[test]
    fn of_many_that_wait_a_few_are_shown() {
        let said = said(Reason::Livelock { events: 5 });
        assert!(
            said.starts_with("livelock: nothing acquired and no operation done in 5 events, at 7 ns, seed 1")
        );
        assert!(said.contains("thread 7 runs") && !said.contains("thread 8 runs"), "{said}");
        assert!(said.contains("and 72 more threads") && said.ends_with("and 72 more cores\n"), "{said}");
    }

    #[test]
    fn all_are_shown_of_those_that_did_not_exclude_each_other() {
        let said = said(Reason::Exclusion { lock: 64, taker: 79, holders: vec![40] });
        assert!(said.contains("thread 79 runs") && said.contains("core 79, last events:"), "{said}");
    }
}
