//! The transactions of a machine file: what the machine's transactional memory takes, and what it can keep.

use super::Figure;
use crate::Source;
use serde::{Deserialize, Serialize};

/// Who goes on when two transactions get in each other's way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Winner {
    /// The one that asks for the line: the one that has it aborts.
    #[default]
    Requester,
    /// The one that has the line: the one that asks for it aborts.
    Holder,
}

/// Transactional memory in the caches, as Intel's processors have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transactions {
    /// Beginning a transaction.
    pub begin: Figure,
    /// Committing one.
    pub commit: Figure,
    /// From an abort until the thread goes on where it has begun.
    pub abort: Figure,
    /// From one interrupt of a core to the next, on average. Each aborts the transaction of its core.
    pub interrupts: Figure,
    /// Sets of a core's first-level cache, which keeps what a transaction writes.
    pub l1_sets: u32,
    /// Ways of a set: one more written line aborts.
    pub l1_ways: u32,
    /// Lines of the last-level cache, which keeps what a transaction reads: one more aborts.
    pub read_lines: u32,
    /// Who goes on when two transactions get in each other's way. An access outside of transactions always does.
    #[serde(default)]
    pub winner: Winner,
    /// Where the counts are from.
    pub source: Source,
}

impl Transactions {
    /// The section's figures with their names.
    pub(super) fn figures(&self) -> [(&'static str, &Figure); 4] {
        let Self { begin, commit, abort, interrupts, .. } = self;
        [("begin", begin), ("commit", commit), ("abort", abort), ("interrupts", interrupts)]
    }

    /// A count that no cache has, and what it has to be.
    pub(super) fn wrong_count(&self) -> Option<(&'static str, String)> {
        let counts = [("l1_sets", self.l1_sets), ("l1_ways", self.l1_ways), ("read_lines", self.read_lines)];
        let (field, count) =
            counts.into_iter().find(|(_, count)| !(1..=LARGEST_CACHE_LINES).contains(count))?;
        Some((field, format!("is {count}; it is 1 to {LARGEST_CACHE_LINES}")))
    }
}

/// No cache has so many lines.
const LARGEST_CACHE_LINES: u32 = 1 << 28;
