//! The small language that litmus tests of every dialect become, and its interpreter.

use machine::Ordering;

use crate::explorer::{Access, Explorer, Stop};
use crate::graph::{Compare, EventId, LocationId};
use crate::model::{Model, Strength};

/// A value of a register or location.
pub type Value = i64;

/// Addresses are values too: that of location `n` is this plus `16 n`.
const FIRST_ADDRESS: Value = 0x10_0000_0000;

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
}

/// An operator of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // named as what they do
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    And,
    Or,
    Xor,
    Equal,
    Unequal,
    Less,
    AtMost,
}

impl Operator {
    fn apply(self, a: Value, b: Value) -> Value {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::Multiply => a.wrapping_mul(b),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Equal => Value::from(a == b),
            Self::Unequal => Value::from(a != b),
            Self::Less => Value::from(a < b),
            Self::AtMost => Value::from(a <= b),
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
    /// Two expressions joined.
    Binary(Operator, Box<Self>, Box<Self>),
}

impl Expression {
    /// Two expressions joined.
    #[must_use]
    pub fn binary(operator: Operator, a: Self, b: Self) -> Self {
        Self::Binary(operator, Box::new(a), Box::new(b))
    }

    /// Its value.
    #[must_use]
    pub fn value(&self, registers: &[Value]) -> Value {
        match self {
            Self::Constant(value) => *value,
            Self::Register(number) => registers[*number],
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
    /// One or the other.
    If {
        /// Not zero: the first.
        condition: Expression,
        /// The first.
        then: Vec<Self>,
        /// The other.
        otherwise: Vec<Self>,
    },
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

/// All ends of a program under a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finals {
    /// The ends, each once.
    pub states: std::collections::BTreeSet<Final>,
    /// How many executions.
    pub counts: crate::Counts,
    /// Two plain accesses were not ordered: the program has no meaning in C.
    pub race: bool,
    /// A pointer that points to no location was followed, with its thread and value.
    pub wild: Option<(usize, Value)>,
    /// The exploration stopped before its end.
    pub bounded: bool,
}

/// Executions of one litmus test at most.
const MOST_EXECUTIONS: u64 = 20_000_000;

impl Program {
    /// Explores all executions under the model and collects how they end.
    #[must_use]
    pub fn explore(&self, model: Model) -> Finals {
        let mut explorer = Explorer::new(model, self.threads.len());
        for (location, &value) in self.memory.iter().enumerate() {
            explorer.set_initial(location as LocationId, value as u64);
        }
        let mut finals = Finals::default();
        let mut registers = self.registers.clone();
        while explorer.begin() {
            if explorer.counts.all() >= MOST_EXECUTIONS {
                finals.bounded = true;
                break;
            }
            let first = explorer.half_done();
            let others = (0..self.threads.len()).filter(|&thread| first != Some(thread));
            // The thread that a revisit left inside a read-modify-write finishes that before the others run.
            for thread in first.into_iter().chain(others) {
                registers[thread].clone_from(&self.registers[thread]);
                let mut run = Running {
                    thread,
                    registers: &mut registers[thread],
                    explorer: &mut explorer,
                    wild: &mut finals.wild,
                    moves_order: self.moves_order,
                };
                let _ = run.steps(&self.threads[thread]);
            }
            if explorer.finish() {
                finals.race |= has_race(&explorer);
                finals.states.insert(Final {
                    registers: registers.clone(),
                    memory: (0..self.memory.len())
                        .map(|location| explorer.last_value(location as LocationId) as Value)
                        .collect(),
                });
            }
            // A wait that never ends is no final state, and no error of a litmus test either.
            explorer.violation = None;
        }
        finals.counts = explorer.counts;
        finals.bounded |= explorer.cut_off;
        finals
    }
}

/// Whether two accesses of one location, of which one is plain and one writes, are not ordered.
fn has_race(explorer: &Explorer) -> bool {
    let graph = &explorer.graph;
    let conflicts = |a: EventId, b: EventId| {
        let (first, second) = (graph.event(a), graph.event(b));
        a.thread != b.thread
            && (first.is_write() || second.is_write())
            && (first.strength.has(Strength::PLAIN) || second.strength.has(Strength::PLAIN))
            && !first.happened.has(b)
            && !second.happened.has(a)
    };
    graph.locations.iter().any(|accesses| {
        let all = || accesses.reads.iter().chain(&accesses.writes).copied();
        all().any(|a| all().any(|b| conflicts(a, b)))
    })
}

/// One thread of a program in one execution.
struct Running<'a> {
    thread: usize,
    registers: &'a mut [Value],
    explorer: &'a mut Explorer,
    wild: &'a mut Option<(usize, Value)>,
    moves_order: bool,
}

impl Running<'_> {
    fn ordering(&self, ordering: Option<Ordering>, of_moves: Ordering) -> Ordering {
        match ordering.unwrap_or(Ordering::Relaxed) {
            Ordering::Relaxed if self.moves_order && self.explorer.model == Model::Ra => of_moves,
            ordering => ordering,
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Stop> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn value(&self, expression: &Expression) -> Value {
        expression.value(self.registers)
    }

    fn access(
        &mut self,
        address: &Expression,
        ordering: Ordering,
        strength: Strength,
    ) -> Result<Access, Stop> {
        let address = self.value(address);
        let known = location_at(address).filter(|&location| location < self.explorer.initial.len());
        let Some(location) = known else {
            self.wild.get_or_insert((self.thread, address));
            return self.explorer.discard();
        };
        Ok(Access {
            thread: self.thread,
            location: location as LocationId,
            strength,
            ordering,
            site: None,
            compare: None,
        })
    }

    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        let model = self.explorer.model;
        match step {
            Step::Set { register, value } => self.registers[*register] = self.value(value),
            Step::Load { register, address, width, ordering } => {
                let plain = Strength::PLAIN.when(ordering.is_none());
                let ordering = self.ordering(*ordering, Ordering::Acquire);
                let access = self.access(address, ordering, model.load(ordering).with(plain))?;
                let (_, value) = self.explorer.read(access, None)?;
                self.registers[*register] = width.truncate(value as Value);
            }
            Step::Store { address, value, width, ordering } => {
                let value = width.truncate(self.value(value));
                let plain = Strength::PLAIN.when(ordering.is_none());
                let ordering = self.ordering(*ordering, Ordering::Release);
                let access = self.access(address, ordering, model.store(ordering).with(plain))?;
                self.explorer.write(access, value as u64, None)?;
                if model.fence_after_store(ordering) {
                    self.explorer.add_fence(self.thread, Strength::FULL, ordering, None)?;
                }
            }
            Step::ReadModifyWrite { .. } => self.read_modify_write(step)?,
            Step::Fence(ordering) => self.explorer.fence(self.thread, *ordering, None)?,
            Step::Await { register, address, width, ordering, until } => {
                let access = self.access(address, *ordering, model.load(*ordering))?;
                let registers = &mut *self.registers;
                let mut wanted = |value: u64| {
                    registers[*register] = width.truncate(value as Value);
                    until.value(registers) != 0
                };
                let (read, value) = self.explorer.read(access, Some(&mut wanted))?;
                if !wanted(value) {
                    return self.explorer.wait(self.thread, &[read], false, "waits for a value");
                }
            }
            Step::If { condition, then, otherwise } => {
                let branch = if self.value(condition) != 0 { then } else { otherwise };
                self.steps(branch)?;
            }
        }
        Ok(())
    }

    fn read_modify_write(&mut self, step: &Step) -> Result<(), Stop> {
        let Step::ReadModifyWrite { found, wrote, address, update, value, width, ordering } = step else {
            unreachable!("called for read-modify-writes")
        };
        let model = self.explorer.model;
        let operand = self.value(value);
        let expected = match update {
            Update::CompareExchange { expected, .. } => Some(width.truncate(self.value(expected))),
            _ => None,
        };
        let success = model.rmw_read(*ordering);
        let mut access = self.access(address, *ordering, success)?;
        if let (Update::CompareExchange { failure, .. }, Some(expected)) = (update, expected) {
            let failure = model.failed_exchange(*ordering, *failure);
            access.compare = Some(Compare { expected: expected as u64, success, failure });
        }
        let (read, old) = self.explorer.read(access, None)?;
        let old = width.truncate(old as Value);
        let new = match update {
            Update::Exchange => Some(operand),
            Update::With(operator) => Some(operator.apply(old, operand)),
            Update::CompareExchange { .. } => (expected == Some(old)).then_some(operand),
        };
        if let Some(new) = new {
            let access = Access { strength: model.rmw_write(*ordering), compare: None, ..access };
            self.explorer.write(access, width.truncate(new) as u64, Some(read))?;
        }
        self.registers[*found] = old;
        if let Some(wrote) = wrote {
            self.registers[*wrote] = Value::from(new.is_some());
        }
        Ok(())
    }
}
