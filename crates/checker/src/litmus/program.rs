//! The small language that litmus tests of every dialect become.

use machine::Ordering;

/// A value of a register or location.
pub type Value = i64;

/// Addresses are values too: that of location `n` is this plus `16 n`, where a program does not say otherwise. They fit
/// into a register of four bytes, and no test writes such numbers.
const FIRST_ADDRESS: Value = 0x5ea0_0000;

/// The address of a location.
#[must_use]
pub const fn address_of(location: usize) -> Value {
    FIRST_ADDRESS + 16 * location as Value
}

/// The location at an address.
#[must_use]
pub const fn location_at(address: Value) -> Option<usize> {
    if address >= FIRST_ADDRESS && (address - FIRST_ADDRESS) % 16 == 0 {
        Some(((address - FIRST_ADDRESS) / 16) as usize)
    } else {
        None
    }
}

/// How wide an access is, and how its value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One byte.
    Byte,
    /// Two bytes.
    Half,
    /// Four bytes.
    Word,
    /// Eight bytes.
    Long,
}

impl Width {
    /// The value that is left of a wider one, sign-extended.
    #[must_use]
    pub const fn truncate(self, value: Value) -> Value {
        match self {
            Self::Byte => value as i8 as Value,
            Self::Half => value as i16 as Value,
            Self::Word => value as i32 as Value,
            Self::Long => value,
        }
    }

    /// How many bytes.
    #[must_use]
    pub const fn bytes(self) -> Value {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
            Self::Long => 8,
        }
    }

    /// How many bits.
    #[must_use]
    pub const fn bits(self) -> Value {
        8 * self.bytes()
    }
}

/// An operator of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // named as what they do
pub enum Operator {
    Add,
    Subtract,
    /// The second less the first.
    SubtractFrom,
    Multiply,
    And,
    Or,
    Xor,
    Equal,
    Unequal,
    Less,
    AtMost,
    /// Less as numbers without sign.
    Below,
    ShiftLeft,
    /// Without regard to the sign.
    ShiftRight,
}

impl Operator {
    pub(super) const fn apply(self, a: Value, b: Value) -> Value {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::SubtractFrom => b.wrapping_sub(a),
            Self::Multiply => a.wrapping_mul(b),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Equal => (a == b) as Value,
            Self::Unequal => (a != b) as Value,
            Self::Less => (a < b) as Value,
            Self::AtMost => (a <= b) as Value,
            Self::Below => ((a as u64) < b as u64) as Value,
            Self::ShiftLeft => a.wrapping_shl(b as u32),
            Self::ShiftRight => (a as u64).wrapping_shr(b as u32) as Value,
        }
    }
}

/// What a thread computes without memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A constant.
    Constant(Value),
    /// A register of the thread, by number.
    Register(usize),
    /// What is left of an expression in so many bytes, sign-extended.
    Narrow(Width, Box<Self>),
    /// Two expressions joined.
    Binary(Operator, Box<Self>, Box<Self>),
}

impl Expression {
    /// Two expressions joined.
    #[must_use]
    pub fn binary(operator: Operator, a: Self, b: Self) -> Self {
        Self::Binary(operator, Box::new(a), Box::new(b))
    }

    /// What is left of an expression in so many bytes.
    #[must_use]
    pub fn narrow(self, width: Width) -> Self {
        match (self, width) {
            (whole, Width::Long) => whole,
            (Self::Constant(value), _) => Self::Constant(width.truncate(value)),
            (other, _) => Self::Narrow(width, Box::new(other)),
        }
    }

    /// Calls `each` with every register that the value depends on.
    pub(super) fn each_register(&self, each: &mut impl FnMut(usize)) {
        match self {
            Self::Constant(_) => {}
            Self::Register(number) => each(*number),
            Self::Narrow(_, inner) => inner.each_register(each),
            Self::Binary(_, a, b) => {
                a.each_register(each);
                b.each_register(each);
            }
        }
    }

    /// Its value.
    #[must_use]
    pub fn value(&self, registers: &[Value]) -> Value {
        match self {
            Self::Constant(value) => *value,
            Self::Register(number) => registers[*number],
            Self::Narrow(width, inner) => width.truncate(inner.value(registers)),
            Self::Binary(operator, a, b) => operator.apply(a.value(registers), b.value(registers)),
        }
    }
}

/// What a read-modify-write does with the word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Writes the value.
    Exchange,
    /// Joins the word and the value.
    With(Operator),
    /// Writes the value if the word is as expected.
    CompareExchange {
        /// What is expected.
        expected: Expression,
        /// How a failed one reads.
        failure: Ordering,
    },
}

/// One step of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes.
    Set {
        /// Where the result goes.
        register: usize,
        /// What.
        value: Expression,
    },
    /// Reads memory.
    Load {
        /// Where the value goes.
        register: usize,
        /// From where.
        address: Expression,
        /// How wide.
        width: Width,
        /// With which ordering; none for a plain access.
        ordering: Option<Ordering>,
    },
    /// Writes memory.
    Store {
        /// To where.
        address: Expression,
        /// What.
        value: Expression,
        /// How wide.
        width: Width,
        /// With which ordering; none for a plain access.
        ordering: Option<Ordering>,
    },
    /// Reads and writes memory with nothing between.
    ReadModifyWrite {
        /// Where the value found goes.
        found: usize,
        /// Where goes whether it wrote.
        wrote: Option<usize>,
        /// Which word.
        address: Expression,
        /// What it does.
        update: Update,
        /// The operand.
        value: Expression,
        /// How wide.
        width: Width,
        /// With which ordering.
        ordering: Ordering,
    },
    /// A fence.
    Fence(Ordering),
    /// Sets a register to 0 or to 1, each in executions of its own.
    Choose {
        /// Where the choice goes.
        register: usize,
    },
    /// Goes on only when the location holds a value that satisfies the condition; the value found is in `register`.
    Await {
        /// Where the value goes.
        register: usize,
        /// Which word.
        address: Expression,
        /// How wide.
        width: Width,
        /// With which ordering.
        ordering: Ordering,
        /// Over the registers, the value read included.
        until: Expression,
    },
    /// Goes on elsewhere in the thread.
    Jump {
        /// Only if this is not zero.
        when: Expression,
        /// The number of the step; that of the last plus one ends the thread.
        to: usize,
    },
    /// Begins a transaction: up to its commit nothing of others comes between its accesses, transaction or not. Within
    /// another transaction it is a part of that one.
    Begin {
        /// Where the thread goes on if it aborts, which it may for no reason, and then nothing of it has happened. None: it is
        /// begun again until it commits.
        aborted: Option<usize>,
    },
    /// Commits the transaction, or ends the part of it that began last.
    Commit,
}

impl Step {
    /// The step at which the thread may go on that need not be the next one.
    pub(super) const fn target(&self) -> Option<usize> {
        match self {
            Self::Jump { to, .. } => Some(*to),
            Self::Begin { aborted } => *aborted,
            _ => None,
        }
    }
}

/// A piece of memory that is always accessed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Where it begins.
    pub address: Value,
    /// How wide it is.
    pub width: Width,
}

/// A program of a few threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// What each thread does.
    pub threads: Vec<Vec<Step>>,
    /// What its registers hold at the start.
    pub registers: Vec<Vec<Value>>,
    /// What each location holds at the start.
    pub memory: Vec<Value>,
    /// Where each location lies. If there are none, location `n` lies at [`address_of`] `n` and takes accesses of any
    /// width.
    pub cells: Vec<Cell>,
    /// Of each thread the registers that only the translation needed: no test asks what they hold at the end.
    pub scratch: Vec<Vec<usize>>,
    /// Under release-acquire, relaxed loads acquire and relaxed stores release, as the moves of x86 do. The models of
    /// machines order them by their own rules.
    pub moves_order: bool,
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Final {
    /// Of each thread its registers.
    pub registers: Vec<Vec<Value>>,
    /// Of each location its last value.
    pub memory: Vec<Value>,
}

/// Why an access has no meaning here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The address is none of a location.
    Wild,
    /// The access takes a part of a location, or more than one: mixed sizes are outside the models.
    Overlap,
    /// The step is part of a transaction, which this processor is not asked to run.
    Transaction,
    /// The step commits a transaction that was not begun.
    CommitAlone,
}

/// An access that has no meaning here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which thread.
    pub thread: usize,
    /// Which of its steps.
    pub step: usize,
    /// Where.
    pub address: Value,
    /// What is wrong.
    pub kind: FaultKind,
}

impl Program {
    /// The location that an access takes.
    ///
    /// # Errors
    /// When there is none, or the access does not fit it.
    pub fn location(&self, address: Value, width: Width) -> Result<usize, FaultKind> {
        if self.cells.is_empty() {
            return location_at(address)
                .filter(|&location| location < self.memory.len())
                .ok_or(FaultKind::Wild);
        }
        let overlaps = |cell: &Cell| {
            address < cell.address + cell.width.bytes() && cell.address < address + width.bytes()
        };
        let Some(location) = self.cells.iter().position(overlaps) else { return Err(FaultKind::Wild) };
        let cell = self.cells[location];
        if cell == (Cell { address, width }) { Ok(location) } else { Err(FaultKind::Overlap) }
    }

    /// The end without what only the translation needed.
    #[must_use]
    pub fn without_scratch(&self, mut end: Final) -> Final {
        for (values, scratch) in end.registers.iter_mut().zip(&self.scratch) {
            scratch.iter().for_each(|&register| values[register] = 0);
        }
        end
    }
}
