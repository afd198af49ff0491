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

/// How wide an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// A type of whole numbers: how many bytes hold one, and how they are read.
///
/// A [`Value`] has eight bytes and a sign: a larger number without sign stands there as the value of the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// So many bytes, the highest bit of which is a sign.
    Signed(Width),
    /// So many bytes without a sign.
    Unsigned(Width),
    /// One byte that is 0 or 1: `_Bool` of C.
    Bool,
}

impl Number {
    /// How wide it is.
    #[must_use]
    pub const fn width(self) -> Width {
        match self {
            Self::Signed(width) | Self::Unsigned(width) => width,
            Self::Bool => Width::Byte,
        }
    }

    /// What a value becomes that is converted to this type (C11 6.3.1.2 and 6.3.1.3).
    #[must_use]
    pub const fn convert(self, value: Value) -> Value {
        match self {
            Self::Signed(width) => width.truncate(value),
            Self::Unsigned(Width::Long) => value,
            Self::Unsigned(width) => value & ((1 << width.bits()) - 1),
            Self::Bool => (value != 0) as Value,
        }
    }

    /// Whether a conversion from the other type changes no value.
    pub(super) fn holds_all_of(self, other: Self) -> bool {
        match (self, other) {
            (Self::Signed(Width::Long) | Self::Unsigned(Width::Long), _) => true,
            (Self::Signed(width), Self::Signed(other)) | (Self::Unsigned(width), Self::Unsigned(other)) => {
                other <= width
            }
            (Self::Signed(width), Self::Unsigned(other)) => other < width,
            (Self::Unsigned(_), Self::Signed(_)) => false,
            (_, Self::Bool) => true,
            (Self::Bool, _) => false,
        }
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
    /// Rounded towards zero. What is divided by zero has no meaning, and is zero here.
    Divide,
    /// The same as numbers without sign.
    DivideUnsigned,
    /// What [`Self::Divide`] leaves over.
    Remainder,
    /// What [`Self::DivideUnsigned`] leaves over.
    RemainderUnsigned,
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
    /// With the sign in the bits that become free.
    ShiftRightSigned,
}

impl Operator {
    pub(super) const fn apply(self, a: Value, b: Value) -> Value {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::SubtractFrom => b.wrapping_sub(a),
            Self::Multiply => a.wrapping_mul(b),
            Self::Divide | Self::DivideUnsigned | Self::Remainder | Self::RemainderUnsigned if b == 0 => 0,
            Self::Divide => a.wrapping_div(b),
            Self::DivideUnsigned => (a as u64 / b as u64) as Value,
            Self::Remainder => a.wrapping_rem(b),
            Self::RemainderUnsigned => (a as u64 % b as u64) as Value,
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
            Self::ShiftRightSigned => a.wrapping_shr(b as u32),
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
    /// An expression converted to a type.
    Convert(Number, Box<Self>),
    /// Two expressions joined.
    Binary(Operator, Box<Self>, Box<Self>),
}

impl Expression {
    /// Two expressions joined.
    #[must_use]
    pub fn binary(operator: Operator, a: Self, b: Self) -> Self {
        Self::Binary(operator, Box::new(a), Box::new(b))
    }

    /// What is left of an expression in so many bytes, sign-extended.
    #[must_use]
    pub fn narrow(self, width: Width) -> Self {
        self.convert(Number::Signed(width))
    }

    /// An expression converted to a type.
    #[must_use]
    pub fn convert(self, to: Number) -> Self {
        match (self, to) {
            (whole, Number::Signed(Width::Long) | Number::Unsigned(Width::Long)) => whole,
            (Self::Constant(value), _) => Self::Constant(to.convert(value)),
            (other, _) => Self::Convert(to, Box::new(other)),
        }
    }

    /// Calls `each` with every register that the value depends on.
    pub(super) fn each_register(&self, each: &mut impl FnMut(usize)) {
        match self {
            Self::Constant(_) => {}
            Self::Register(number) => each(*number),
            Self::Convert(_, inner) => inner.each_register(each),
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
            Self::Convert(to, inner) => to.convert(inner.value(registers)),
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
    /// Ends the judgement where what follows has no meaning.
    Check {
        /// It has one if this is not zero.
        holds: Expression,
        /// What is wrong otherwise.
        otherwise: FaultKind,
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
    /// What it holds. The explorer keeps its content sign-extended whatever that is; a final state has it as this type reads it.
    pub holds: Number,
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

/// Why a step has no meaning here.
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
    /// A division by zero, or a shift by a number of bits that is negative or not below the width of what is shifted.
    Undefined,
}

/// A step that has no meaning here.
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
            address < cell.address + cell.holds.width().bytes() && cell.address < address + width.bytes()
        };
        let Some(location) = self.cells.iter().position(overlaps) else { return Err(FaultKind::Wild) };
        let cell = self.cells[location];
        let is_whole = cell.address == address && cell.holds.width() == width;
        if is_whole { Ok(location) } else { Err(FaultKind::Overlap) }
    }

    /// What a location holds whose content this is.
    pub(super) fn held(&self, location: usize, content: Value) -> Value {
        self.cells.get(location).map_or(content, |cell| cell.holds.convert(content))
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
