//! What the rows are ordered by.

use profile::read::live::LiveRow;
use std::cmp::Ordering;

/// An order of the rows, most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// Threads that waited, on average
    Waiting,
    /// Acquisitions
    Acquires,
    /// The part of acquisitions that had to wait
    Contended,
    /// Threads that held the lock, on average
    Held,
    /// Threads that wait now
    Waiters,
    /// The longest wait that is not over
    Longest,
    /// The name, in the order of the alphabet
    Name,
}

impl Sort {
    /// The letter that chooses it.
    pub(super) fn key(self) -> char {
        match self {
            Self::Waiting => 'w',
            Self::Acquires => 'a',
            Self::Contended => 'c',
            Self::Held => 'h',
            Self::Waiters => 'n',
            Self::Longest => 'l',
            Self::Name => 'm',
        }
    }

    /// What it compares, in words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Acquires => "acquires",
            Self::Contended => "contended",
            Self::Held => "held",
            Self::Waiters => "waiters now",
            Self::Longest => "longest wait",
            Self::Name => "name",
        }
    }

    /// The figure that it compares; that of [`Sort::Waiting`] for names, which have none.
    pub(super) fn figure(self, row: &LiveRow) -> f64 {
        match self {
            Self::Waiting | Self::Name => row.waiting,
            Self::Acquires => row.acquires_per_s,
            Self::Contended => row.contended_share.unwrap_or(0.0),
            Self::Held => row.held,
            Self::Waiters => row.waiters_now.unwrap_or(0) as f64,
            Self::Longest => row.longest_wait_ns.unwrap_or(0.0),
        }
    }

    /// Brings rows into this order; those with equal figures stay as they are, by the time lost waiting.
    pub(super) fn apply(self, rows: &mut [LiveRow]) {
        rows.sort_by(|a, b| match self {
            Self::Name => a.lock.cmp(&b.lock).then_with(|| a.id.cmp(&b.id)),
            _ => self.figure(b).partial_cmp(&self.figure(a)).unwrap_or(Ordering::Equal),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;
    use std::collections::HashSet;

    #[test]
    fn each_order_has_a_key_of_its_own_that_does_nothing_else() {
        let keys: HashSet<char> = Sort::value_variants().iter().map(|sort| sort.key()).collect();
        assert_eq!(keys.len(), Sort::value_variants().len());
        assert!(keys.is_disjoint(&HashSet::from(['q', 'j', 'k', ' '])));
    }

    #[test]
    fn rows_come_most_first_or_by_name() {
        let row = |lock: &str, waiting, acquires_per_s, longest_wait_ns| LiveRow {
            lock: lock.into(),
            waiting,
            acquires_per_s,
            longest_wait_ns,
            ..LiveRow::default()
        };
        let all = [row("b", 2.0, 10.0, None), row("a", 1.0, 30.0, Some(5.0)), row("c", 0.0, 20.0, Some(9.0))];
        for (sort, order) in [
            (Sort::Waiting, ["b", "a", "c"]),
            (Sort::Acquires, ["a", "c", "b"]),
            (Sort::Longest, ["c", "a", "b"]),
            (Sort::Held, ["b", "a", "c"]),
            (Sort::Name, ["a", "b", "c"]),
        ] {
            let mut rows = all.clone();
            sort.apply(&mut rows);
            assert_eq!(rows.each_ref().map(|row| row.lock.as_str()), order, "{sort:?}");
        }
    }
}
