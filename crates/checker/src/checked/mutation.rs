//! Weakening one access of a lock without editing its source.

use std::fmt;
use std::panic::Location as Site;

use machine::Ordering;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // named as the functions of words and machines
pub enum Operation {
    Load,
    Store,
    Swap,
    CompareExchange,
    FetchAdd,
    FetchSub,
    FetchAnd,
    FetchOr,
    StorePart,
    Fence,
    Wait,
}

impl Operation {
    /// The function's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::Swap => "swap",
            Self::CompareExchange => "compare_exchange",
            Self::FetchAdd => "fetch_add",
            Self::FetchSub => "fetch_sub",
            Self::FetchAnd => "fetch_and",
            Self::FetchOr => "fetch_or",
            Self::StorePart => "store_part",
            Self::Fence => "fence",
            Self::Wait => "wait",
        }
    }
}

/// An access as it stands in the source.
#[derive(Clone, Copy, Debug)]
pub struct Accessed {
    /// Where.
    pub site: &'static Site<'static>,
    /// What.
    pub operation: Operation,
    /// How; of a compare-and-exchange, when it succeeds.
    pub ordering: Ordering,
}

impl Accessed {
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.ordering == other.ordering
            && (std::ptr::eq(self.site, other.site) || self.site == other.site)
    }

    /// The access made weaker by one step, in every way there is.
    #[must_use]
    pub fn mutations(&self) -> Vec<Mutation> {
        use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
        let weaker: &[Ordering] = match (self.ordering, self.operation) {
            (SeqCst, Operation::Load | Operation::Wait) => &[Acquire],
            (SeqCst, Operation::Store | Operation::StorePart) => &[Release],
            (SeqCst, _) => &[AcqRel],
            (AcqRel, _) => &[Acquire, Release],
            (Acquire | Release, _) => &[Relaxed],
            _ => &[],
        };
        weaker.iter().map(|&to| Mutation { of: *self, to }).collect()
    }
}

impl fmt::Display for Accessed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.site.file().rsplit('/').next().unwrap_or_default();
        let (line, column) = (self.site.line(), self.site.column());
        write!(f, "{file}:{line}:{column} {} {:?}", self.operation.name(), self.ordering)
    }
}

/// One access made weaker. A fence that becomes relaxed is taken out.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// Which access.
    pub of: Accessed,
    /// What it becomes.
    pub to: Ordering,
}

impl Mutation {
    #[inline]
    pub(crate) fn applies(
        &self,
        operation: Operation,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) -> bool {
        self.of.site.line() == site.line() && self.of.same(&Accessed { site, operation, ordering })
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {:?}", self.of, self.to)
    }
}
