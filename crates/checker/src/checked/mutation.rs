//! Mutants: one access of a lock made weaker, or made wrong, without editing the lock's source.

use std::fmt;
use std::panic::Location as Site;

use machine::{Ordering, Plain};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // named as the functions of words, cells and machines
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
    Get,
    Set,
    Fence,
    Wait,
    /// The timeout of a wait or a sleep.
    Timeout,
    Wake,
    FreeNode,
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
            Self::Get => "get",
            Self::Set => "set",
            Self::Fence => "fence",
            Self::Wait => "wait",
            Self::Timeout => "timeout",
            Self::Wake => "wake",
            Self::FreeNode => "free_node",
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
    /// How; of a compare-and-exchange, when it succeeds. Relaxed where an operation has none.
    pub ordering: Ordering,
    /// It is about the address of something, so that a value of its own making would lead nowhere.
    pub is_address: bool,
}

/// What a mutant does differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The access has this ordering. A fence that becomes relaxed is taken out.
    To(Ordering),
    /// Nothing is written, woken or freed.
    Dropped,
    /// One more is written or added.
    OneMore,
    /// One less is written or added.
    OneLess,
    /// The bit above is set or cleared.
    NextBit,
    /// One more is read than there is.
    ReadsOneMore,
    /// One less is read than there is.
    ReadsOneLess,
    /// Zero is read, which is what a word holds before any thread has written it.
    ReadsZero,
    /// A compare-and-exchange that failed says that it succeeded.
    Succeeds,
    /// A compare-and-exchange that succeeded says that it failed.
    Fails,
    /// A wait ends when its condition does not hold.
    Negated,
    /// A wait ends at its first poll.
    NotWaited,
    /// A wait has no timeout.
    NoTimeout,
}

/// An ordering and a change as one number. An enumeration with something in it has bytes without a meaning, which a compiler fills
/// with whatever calls have left behind; in the frame of an access they would tell states apart that are the same.
#[derive(Clone, Copy)]
pub(super) struct Mutated(u64);

impl Mutated {
    const ORDERINGS: [Ordering; 5] =
        [Ordering::Relaxed, Ordering::Acquire, Ordering::Release, Ordering::AcqRel, Ordering::SeqCst];

    pub(super) fn new(ordering: Ordering, change: Option<Change>) -> Self {
        let ordering = Self::ORDERINGS.iter().position(|&one| one == ordering).expect("one of them");
        let change = Change::ALL.iter().position(|&one| Some(one) == change).map_or(0, |number| number + 1);
        Self((change << 8 | ordering) as u64)
    }

    /// Both, from memory in which all bytes are known.
    #[inline]
    pub(super) fn unpack(self) -> (Ordering, Option<Change>) {
        static ORDERINGS: [Ordering; 5] = Mutated::ORDERINGS;
        static CHANGES: [Option<Change>; Change::ALL.len() + 1] = {
            let mut changes = [None; Change::ALL.len() + 1];
            let mut number = 0;
            while number < Change::ALL.len() {
                changes[number + 1] = Some(Change::ALL[number]);
                number += 1;
            }
            changes
        };
        (ORDERINGS[(self.0 & 0xff) as usize], CHANGES[(self.0 >> 8) as usize])
    }
}

impl Change {
    const ALL: [Self; 16] = [
        Self::To(Ordering::Relaxed),
        Self::To(Ordering::Acquire),
        Self::To(Ordering::Release),
        Self::To(Ordering::AcqRel),
        Self::Dropped,
        Self::OneMore,
        Self::OneLess,
        Self::NextBit,
        Self::ReadsOneMore,
        Self::ReadsOneLess,
        Self::ReadsZero,
        Self::Succeeds,
        Self::Fails,
        Self::Negated,
        Self::NotWaited,
        Self::NoTimeout,
    ];

    /// What it is called on the command line and in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::To(ordering) => ordering_name(ordering),
            Self::Dropped => "dropped",
            Self::OneMore => "one-more",
            Self::OneLess => "one-less",
            Self::NextBit => "next-bit",
            Self::ReadsOneMore => "reads-one-more",
            Self::ReadsOneLess => "reads-one-less",
            Self::ReadsZero => "reads-zero",
            Self::Succeeds => "succeeds",
            Self::Fails => "fails",
            Self::Negated => "negated",
            Self::NotWaited => "not-waited",
            Self::NoTimeout => "no-timeout",
        }
    }

    /// The change of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|change| change.name() == name)
    }

    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().map(Self::name)
    }

    /// Whether it makes an ordering weaker and leaves the logic as it is.
    #[must_use]
    pub const fn is_of_ordering(self) -> bool {
        matches!(self, Self::To(_))
    }

    /// What is written instead of a value.
    pub(crate) fn written(of: Option<Self>, value: u64) -> u64 {
        match of {
            Some(Self::OneMore) => value.wrapping_add(1),
            Some(Self::OneLess) => value.wrapping_sub(1),
            _ => value,
        }
    }

    /// What is read instead of a value.
    pub(crate) fn read<V: Plain>(of: Option<Self>, value: u64) -> V {
        V::from_bits(match of {
            Some(Self::ReadsOneMore) => value.wrapping_add(1),
            Some(Self::ReadsOneLess) => value.wrapping_sub(1),
            Some(Self::ReadsZero) => 0,
            _ => value,
        })
    }

    /// What a wait takes for the answer of its condition.
    pub(crate) fn accepted(of: Option<Self>, accepted: bool, is_zero: bool, is_address: bool) -> bool {
        match of {
            // A thread that waits for an address follows it: a wait for another one than null does not give null.
            Some(Self::Negated) => !(accepted || is_address && is_zero),
            Some(Self::NotWaited) => true,
            _ => accepted,
        }
    }
}

/// The ordering's name in commands.
#[must_use]
pub const fn ordering_name(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Relaxed => "relaxed",
        Ordering::Acquire => "acquire",
        Ordering::Release => "release",
        Ordering::AcqRel => "acq_rel",
        _ => "seq_cst",
    }
}

impl Accessed {
    /// Whether both are one access of the source.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.ordering == other.ordering
            && (std::ptr::eq(self.site, other.site) || self.site == other.site)
    }

    /// The access made weaker by one step, and made wrong, in every way there is.
    #[must_use]
    pub fn mutations(&self) -> Vec<Mutation> {
        let orderings = self.weaker().iter().map(|&ordering| Change::To(ordering));
        orderings.chain(self.wrong()).map(|to| Mutation { of: *self, to }).collect()
    }

    fn weaker(&self) -> &'static [Ordering] {
        use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
        match (self.ordering, self.operation) {
            (SeqCst, Operation::Load | Operation::Wait) => &[Acquire],
            (SeqCst, Operation::Store | Operation::StorePart) => &[Release],
            (SeqCst, _) => &[AcqRel],
            (AcqRel, _) => &[Acquire, Release],
            (Acquire | Release, _) => &[Relaxed],
            _ => &[],
        }
    }

    fn wrong(&self) -> Vec<Change> {
        use Change::{
            Dropped, Fails, Negated, NextBit, NoTimeout, NotWaited, OneLess, OneMore, ReadsOneLess,
            ReadsOneMore, ReadsZero, Succeeds,
        };
        let all: &[Change] = match self.operation {
            Operation::Load => &[ReadsOneMore, ReadsOneLess, ReadsZero],
            Operation::Store | Operation::StorePart => &[Dropped, OneMore, OneLess],
            Operation::Swap | Operation::FetchAdd | Operation::FetchSub => {
                &[Dropped, OneMore, OneLess, ReadsOneMore, ReadsOneLess, ReadsZero]
            }
            Operation::CompareExchange => &[Dropped, OneMore, OneLess, Succeeds, Fails],
            Operation::FetchAnd | Operation::FetchOr => {
                &[Dropped, NextBit, ReadsOneMore, ReadsOneLess, ReadsZero]
            }
            Operation::Get => &[ReadsZero],
            Operation::Set | Operation::Wake | Operation::FreeNode => &[Dropped],
            Operation::Wait => &[Negated, NotWaited],
            Operation::Timeout => &[NoTimeout],
            Operation::Fence => &[],
        };
        let leads_nowhere = [OneMore, OneLess, ReadsOneMore, ReadsOneLess, NotWaited];
        all.iter().copied().filter(|change| !(self.is_address && leads_nowhere.contains(change))).collect()
    }
}

impl fmt::Display for Accessed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.site.file().rsplit('/').next().unwrap_or_default();
        let (line, column) = (self.site.line(), self.site.column());
        write!(f, "{file}:{line}:{column} {} {:?}", self.operation.name(), self.ordering)
    }
}

/// One access made weaker, or wrong.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// Which access.
    pub of: Accessed,
    /// What it becomes.
    pub to: Change,
}

impl Mutation {
    #[inline]
    pub(crate) fn applies(&self, access: &Accessed) -> bool {
        self.of.site.line() == access.site.line() && self.of.same(access)
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.of, self.to.name())
    }
}
