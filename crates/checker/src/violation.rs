//! What can be wrong with an execution.

use std::fmt;

/// What an execution did that no correct lock does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two threads held a lock at once, and not both of them shared it.
    TwoHolders {
        /// The threads.
        threads: (usize, usize),
    },
    /// Two plain accesses of one cell, of which one writes, with no order between them.
    Race {
        /// The threads.
        threads: (usize, usize),
        /// The cell.
        cell: String,
    },
    /// Threads wait and no thread is left that could end it: a deadlock, a lost wake-up, or a wait that never ends.
    EndlessWait {
        /// Those who wait, and for what.
        waiting: Vec<(usize, String)>,
    },
    /// A thread reads a word again and again, with nothing but delays between, instead of waiting for it by name.
    EndlessPolling {
        /// The thread.
        thread: usize,
    },
    /// Threads go round for ever: they come back to the state in which they were, every thread that can move does, and
    /// none gets anywhere.
    Livelock {
        /// The threads.
        threads: Vec<usize>,
    },
    /// A thread used a queue node that had been freed, or nothing ordered the use before the freeing.
    NodeAfterItsReturn {
        /// Who used it.
        user: usize,
        /// Who freed it.
        freed_by: usize,
    },
    /// A thread of the client, or its check at the end, panicked.
    Panic {
        /// The thread; none for the end.
        thread: Option<usize>,
        /// What it said.
        message: String,
    },
}

impl Violation {
    /// [`Violation::EndlessWait`], whichever thread came to wait first.
    pub(crate) fn endless_wait(waiting: impl Iterator<Item = (usize, String)>) -> Self {
        let mut waiting = waiting.collect::<Vec<_>>();
        waiting.sort_unstable();
        Self::EndlessWait { waiting }
    }

    /// A short name: what tables and JSON show.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TwoHolders { .. } => "two holders",
            Self::Race { .. } => "data race",
            Self::EndlessWait { .. } => "endless wait",
            Self::EndlessPolling { .. } => "endless polling",
            Self::Livelock { .. } => "livelock",
            Self::NodeAfterItsReturn { .. } => "node used after its return",
            Self::Panic { .. } => "panic",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoHolders { threads: (a, b) } => {
                write!(f, "two holders: threads {a} and {b} hold the lock at once")
            }
            Self::Race { threads: (a, b), cell } => {
                write!(f, "data race: nothing orders the accesses of threads {a} and {b} to cell {cell}")
            }
            Self::EndlessWait { waiting } => {
                f.write_str("endless wait: ")?;
                for (number, (thread, what)) in waiting.iter().enumerate() {
                    let comma = if number == 0 { "" } else { ", " };
                    write!(f, "{comma}thread {thread} {what}")?;
                }
                f.write_str(", and no thread is left that could end it")
            }
            Self::EndlessPolling { thread } => {
                write!(
                    f,
                    "endless polling: thread {thread} polls a word that does not change, and does not wait for it"
                )
            }
            Self::Livelock { threads } => {
                let names = threads.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let (who, come) = if threads.len() == 1 { ("thread", "comes") } else { ("threads", "come") };
                write!(
                    f,
                    "livelock: {who} {names} {come} back to where the last steps began, and can go on so for ever, though \
                     all threads that can move do"
                )
            }
            Self::NodeAfterItsReturn { user, freed_by } => {
                write!(
                    f,
                    "node used after its return: thread {user} uses a queue node that thread {freed_by} freed"
                )
            }
            Self::Panic { thread: Some(thread), message } => write!(f, "panic in thread {thread}: {message}"),
            Self::Panic { thread: None, message } => write!(f, "panic at the end of the client: {message}"),
        }
    }
}
