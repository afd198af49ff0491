//! Transactions of the hardware: what they abort with.
//!
//! A thread begins a transaction, reads and writes, and commits: all of it takes effect at once. If another thread gets in its way,
//! or the processor cannot keep what it has written, it aborts instead, and leaves no trace but an [`Abort`].
//! Source: Herlihy and Moss 1993; Intel's Restricted Transactional Memory (software developer's manual, volume 1, chapter 16).

use core::fmt;

/// Why a transaction aborted: Intel's status word, and two causes that it does not know.
///
/// None of the causes may be set: an interrupt, a page fault, or an instruction that cannot run in a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Abort(u32);

const EXPLICIT: u32 = 1;
const MAY_SUCCEED: u32 = 1 << 1;
const CONFLICT: u32 = 1 << 2;
const CAPACITY: u32 = 1 << 3;
const WITHIN: u32 = 1 << 5;
/// Bits that the status word does not use.
const UNAVAILABLE: u32 = 1 << 16;
const REFUSED: u32 = 1 << 17;
const CODE_SHIFT: u32 = 24;

/// The code of a transaction that finds the lock held that it elides, as glibc has it.
pub const LOCK_HELD: u8 = 255;

/// The code of a transaction in which a lock is acquired that may be the one that it elides, as glibc has it.
pub const NESTED: u8 = 253;

impl Abort {
    /// The machine has no transactions, and never will.
    pub const UNAVAILABLE: Self = Self(UNAVAILABLE);
    /// Another thread wrote what the transaction has read or written, or read what it has written.
    pub const CONFLICT: Self = Self(CONFLICT | MAY_SUCCEED);
    /// The processor could not keep all that was read or written.
    pub const CAPACITY: Self = Self(CAPACITY);
    /// An interrupt.
    pub const INTERRUPTED: Self = Self(0);
    /// The transaction did what it cannot do: it slept, waited for another thread, or allocated. The machines of software say so; on
    /// the hardware it is one of [`INTERRUPTED`](Self::INTERRUPTED).
    pub const REFUSED: Self = Self(REFUSED);

    /// [`Machine::abort_transaction`](crate::Machine::abort_transaction) was called with this code.
    #[must_use]
    pub const fn explicit(code: u8) -> Self {
        Self(EXPLICIT | (code as u32) << CODE_SHIFT)
    }

    /// From the status word of the processor.
    #[must_use]
    pub const fn from_status(status: u32) -> Self {
        Self(status & !(UNAVAILABLE | REFUSED))
    }

    /// The same in a transaction within another one, which aborted both.
    #[must_use]
    pub const fn nested(self) -> Self {
        Self(self.0 | WITHIN)
    }

    /// The code of an abort that the transaction asked for.
    #[must_use]
    pub const fn code(self) -> Option<u8> {
        if self.0 & EXPLICIT != 0 { Some((self.0 >> CODE_SHIFT) as u8) } else { None }
    }

    /// The processor's advice: the same transaction may commit when it is tried again.
    #[must_use]
    pub const fn may_succeed(self) -> bool {
        self.0 & MAY_SUCCEED != 0
    }

    /// Whether it happened in a transaction within another one.
    #[must_use]
    pub const fn is_nested(self) -> bool {
        self.0 & WITHIN != 0
    }

    /// The kind of cause, of which there is one.
    #[must_use]
    pub const fn cause(self) -> Cause {
        match self.0 {
            bits if bits & UNAVAILABLE != 0 => Cause::Unavailable,
            bits if bits & REFUSED != 0 => Cause::Refused,
            bits if bits & EXPLICIT != 0 => Cause::Explicit,
            bits if bits & CAPACITY != 0 => Cause::Capacity,
            bits if bits & CONFLICT != 0 => Cause::Conflict,
            _ => Cause::Other,
        }
    }
}

/// The kinds of causes, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The transaction asked for it.
    Explicit,
    /// Another thread got in the way.
    Conflict,
    /// Too much was read or written.
    Capacity,
    /// It did what it cannot do.
    Refused,
    /// An interrupt, or what the hardware does not tell.
    Other,
    /// There are no transactions.
    Unavailable,
}

impl Cause {
    /// Every one, in the order of tables.
    pub const ALL: [Self; 6] =
        [Self::Conflict, Self::Capacity, Self::Explicit, Self::Refused, Self::Other, Self::Unavailable];

    /// What tables call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Conflict => "conflict",
            Self::Capacity => "capacity",
            Self::Refused => "refused",
            Self::Other => "other",
            Self::Unavailable => "unavailable",
        }
    }
}

impl fmt::Debug for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Abort")
            .field("cause", &self.cause())
            .field("code", &self.code())
            .field("may_succeed", &self.may_succeed())
            .field("nested", &self.is_nested())
            .finish()
    }
}
