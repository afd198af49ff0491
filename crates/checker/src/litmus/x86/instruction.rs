//! What the instructions do.

use machine::Ordering::{AcqRel, Relaxed, SeqCst};

use super::Column;
use super::flags::{condition_of, holds};
use super::operand::{Operand, Operands};
use crate::litmus::program::{Expression, Operator, Step, Update, Value, Width};
use crate::litmus::token::{At, ParseError, Token, Tokens};

/// Instructions whose name may end in the letter of their operands' size.
const SIZED: [&str; 24] = [
    "mov", "add", "sub", "inc", "dec", "xadd", "cmpxchg", "xchg", "and", "or", "xor", "neg", "not", "cmp",
    "test", "lea", "bt", "bts", "btr", "btc", "movnti", "ret", "push", "pop",
];
/// Instructions that may be locked.
const LOCKABLE: [&str; 15] = [
    "add", "sub", "inc", "dec", "xadd", "cmpxchg", "xchg", "and", "or", "xor", "neg", "not", "bts", "btr",
    "btc",
];
/// An instruction's name without the letter of its operands' size.
fn split_suffix(name: &str) -> (String, Option<Width>) {
    let stem_of = |stem: &str| SIZED.contains(&stem).then(|| stem.to_owned());
    let last = name.char_indices().last();
    let suffix = last.and_then(|(at, letter)| Some((at, width_of(letter)?)));
    if let Some(stem) = stem_of(name) {
        return (stem, None);
    }
    match suffix.and_then(|(at, width)| Some((stem_of(&name[..at])?, width))) {
        Some((stem, width)) => (stem, Some(width)),
        None => (name.to_owned(), None),
    }
}

fn width_of(letter: char) -> Option<Width> {
    match letter {
        'b' => Some(Width::Byte),
        'w' => Some(Width::Half),
        'l' => Some(Width::Word),
        'q' => Some(Width::Long),
        _ => None,
    }
}

fn mask(width: Width) -> Expression {
    Expression::Constant(if width == Width::Long { -1 } else { (1 << width.bits()) - 1 })
}

fn constant(value: Value) -> Expression {
    Expression::Constant(value)
}

/// One instruction while it becomes steps.
pub(super) struct Instruction<'c, 'a> {
    column: &'c mut Column<'a>,
    mnemonic: &'a Token,
    locked: bool,
    width: Width,
    operands: Vec<(Operand, At)>,
}

impl<'c, 'a> Instruction<'c, 'a> {
    /// Reads one and adds its steps to the thread.
    pub(super) fn read(mut cell: Tokens<'a>, column: &'c mut Column<'a>) -> Result<(), ParseError> {
        let mut mnemonic = cell.name("an instruction")?;
        let is_prefix = mnemonic.text.eq_ignore_ascii_case("lock");
        if is_prefix && cell.is_empty() {
            column.lock = Some(mnemonic.at); // herd has it on a line of its own, too
            return Ok(());
        }
        if is_prefix {
            mnemonic = cell.name("an instruction after `lock`")?;
        }
        let locked = is_prefix | column.lock.take().is_some();
        let name = mnemonic.text.to_ascii_lowercase();
        if name == "jmp" || name.starts_with('j') && condition_of(&name).is_some() {
            return jump(&name, cell, column, mnemonic);
        }
        let (operation, suffix) = split_suffix(&name);
        if locked && !LOCKABLE.contains(&operation.as_str()) {
            return Err(ParseError::new(mnemonic.at, format!("`{}` cannot be locked", mnemonic.text)));
        }
        let operands = Operands::read(&mut cell, column)?;
        let said = suffix.or(operands.width);
        let source_first = operands.are_source_first(column.builder.dialect);
        let mut all = operands.all;
        if source_first {
            all.reverse();
        }
        // Of these only the first operand can lie in memory: some files write it where a source would be.
        let first_in_memory = matches!(operation.as_str(), "xadd" | "cmpxchg");
        if first_in_memory && all.last().is_some_and(|(operand, _)| operand.is_memory()) {
            all.reverse();
        }
        // And of these only the second, as herd has it: `cmovc %eax,(x)`.
        if operation.starts_with("cmov") && all.first().is_some_and(|(operand, _)| operand.is_memory()) {
            all.reverse();
        }
        let (operands, width) = (all, Width::Word);
        let mut instruction = Self { column, mnemonic, locked, width, operands };
        instruction.width = match said {
            Some(width) => width,
            None => instruction.width_of_operands(&operation)?,
        };
        instruction.execute(&operation)
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::new(self.mnemonic.at, message))
    }

    fn unsupported<T>(&self, message: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::unsupported(self.mnemonic.at, message))
    }

    /// The width of the registers, of what the location was declared as, or four bytes.
    fn width_of_operands(&self, operation: &str) -> Result<Width, ParseError> {
        let mut width = None;
        for (operand, at) in &self.operands {
            let Operand::Register(_, of_register) = operand else { continue };
            let extends = operation.starts_with("movz") || operation.starts_with("movs");
            if width.is_some_and(|width| width != *of_register) && !extends {
                return Err(ParseError::new(*at, "operands of different sizes"));
            }
            width = width.or(Some(*of_register));
        }
        let declared = self.operands.iter().find_map(|(operand, _)| match operand {
            Operand::Memory { named: Some((name, _)), .. } => self.column.builder.memory.declared(name),
            _ => None,
        });
        Ok(width.or(declared).unwrap_or(Width::Word))
    }

    fn expect_operands(&self, wanted: usize) -> Result<(), ParseError> {
        if self.operands.len() != wanted {
            let found = self.operands.len();
            return self.error(format!("`{}` takes {wanted} operands, not {found}", self.mnemonic.text));
        }
        let in_memory = self.operands.iter().filter(|(operand, _)| operand.is_memory()).count();
        if in_memory > 1 {
            return Err(ParseError::new(self.operands[1].1, "at most one operand lies in memory"));
        }
        if self.locked && in_memory == 0
            || self.locked && wanted == 2 && self.operands[1].0.is_memory() && !self.is("xchg")
        {
            return self.error("a locked instruction writes memory");
        }
        Ok(())
    }

    fn is(&self, name: &str) -> bool {
        split_suffix(&self.mnemonic.text.to_ascii_lowercase()).0 == name
    }

    fn push(&mut self, step: Step) -> Result<(), ParseError> {
        self.column.push(step, self.mnemonic.at)
    }

    fn fresh(&mut self) -> usize {
        self.column.builder.fresh_register(self.column.thread)
    }

    /// Tells the memory how wide the access is.
    fn access(&mut self, operand: &Operand, width: Width) -> Result<Expression, ParseError> {
        let Operand::Memory { address, named } = operand else {
            return self.error("a place in memory is wanted");
        };
        let memory = &mut self.column.builder.memory;
        match named {
            Some((name, offset)) => memory.access(name, *offset, width, self.mnemonic.at)?,
            None => memory.access_through_register(width),
        }
        Ok(address.clone())
    }

    /// The operand's value, sign-extended, loaded if it must be.
    fn value(&mut self, number: usize, width: Width) -> Result<Expression, ParseError> {
        let operand = self.operands[number].0.clone();
        match operand {
            Operand::Constant(value) => Ok(constant(width.truncate(value))),
            Operand::Register(register, _) => Ok(Expression::Register(register).narrow(width)),
            Operand::Memory { .. } => {
                let address = self.access(&operand, width)?;
                let register = self.fresh();
                self.push(Step::Load { register, address, width, ordering: Some(Relaxed) })?;
                Ok(Expression::Register(register))
            }
        }
    }

    /// The operand's value in a register of its own, which later writes do not change.
    fn kept(&mut self, number: usize) -> Result<Expression, ParseError> {
        let value = self.value(number, self.width)?;
        let register = self.fresh();
        self.push(Step::Set { register, value })?;
        Ok(Expression::Register(register))
    }

    fn write(&mut self, number: usize, value: Expression) -> Result<(), ParseError> {
        let (operand, at) = self.operands[number].clone();
        match operand {
            Operand::Constant(_) => Err(ParseError::new(at, "the destination is a constant")),
            Operand::Register(register, _) => self.write_register(register, value, self.width),
            Operand::Memory { .. } => {
                let width = self.width;
                let address = self.access(&operand, width)?;
                self.push(Step::Store { address, value, width, ordering: Some(Relaxed) })
            }
        }
    }

    /// Four bytes clear the upper half of a register, one or two leave the rest as it was.
    fn write_register(&mut self, register: usize, value: Expression, width: Width) -> Result<(), ParseError> {
        let low = Expression::binary(Operator::And, value.clone(), mask(width));
        let value = match width {
            Width::Long => value,
            Width::Word => low,
            Width::Half | Width::Byte => {
                let Expression::Constant(bits) = mask(width) else { unreachable!("a mask is a constant") };
                let rest = Expression::binary(Operator::And, Expression::Register(register), constant(!bits));
                Expression::binary(Operator::Or, rest, low)
            }
        };
        self.push(Step::Set { register, value })
    }

    fn execute(&mut self, operation: &str) -> Result<(), ParseError> {
        match operation {
            "mfence" | "sfence" | "lfence" | "nop" | "endbr64" | "endbr32" | "pause" => {
                self.expect_operands(0)?;
            }
            "ret" | "inc" | "dec" | "neg" | "not" => self.expect_operands(usize::from(operation != "ret"))?,
            _ if operation.starts_with("set") => self.expect_operands(1)?,
            "movnti" => {
                let message =
                    "non-temporal stores are outside x86-TSO: they overtake other stores until a fence";
                return self.unsupported(message);
            }
            _ => {}
        }
        match operation {
            "mfence" => self.push(Step::Fence(SeqCst)),
            // Loads are in order here, and so are stores but under PSO.
            "sfence" => self.push(Step::Fence(AcqRel)),
            "lfence" | "nop" | "endbr64" | "endbr32" | "pause" => Ok(()),
            "ret" => {
                let jump = self.column.jump(constant(1), self.mnemonic.at)?;
                self.column.jumps.push((jump, None));
                Ok(())
            }
            "inc" => self.arithmetic(Operator::Add, Ok(constant(1))),
            "dec" => self.arithmetic(Operator::Subtract, Ok(constant(1))),
            "neg" => self.arithmetic(Operator::SubtractFrom, Ok(constant(0))),
            "not" => self.arithmetic(Operator::Xor, Ok(constant(-1))),
            _ if condition_of(operation).is_some() => self.conditional(operation),
            _ => self.with_two_operands(operation),
        }
    }

    fn with_two_operands(&mut self, operation: &str) -> Result<(), ParseError> {
        let known = [
            "mov", "movabs", "add", "sub", "and", "or", "xor", "cmp", "test", "lea", "xadd", "xchg",
            "cmpxchg", "bt", "bts", "btr", "btc",
        ];
        let extends = operation.starts_with("movz") || operation.starts_with("movs");
        if !known.contains(&operation) && !extends {
            return self.unsupported(format!("the instruction `{}` is not supported", self.mnemonic.text));
        }
        self.expect_operands(2)?;
        match operation {
            "mov" | "movabs" => {
                let value = self.value(1, self.width)?;
                self.write(0, value)
            }
            "add" => self.arithmetic(Operator::Add, Err(1)),
            "sub" => self.arithmetic(Operator::Subtract, Err(1)),
            "and" => self.arithmetic(Operator::And, Err(1)),
            "or" => self.arithmetic(Operator::Or, Err(1)),
            "xor" => self.arithmetic(Operator::Xor, Err(1)),
            "cmp" | "test" => {
                let (a, b) = (self.kept(0)?, self.value(1, self.width)?);
                let operator = if operation == "cmp" { Operator::Subtract } else { Operator::And };
                self.set_flags(operator, &a, &b)
            }
            "lea" => match self.operands[1].0.clone() {
                Operand::Memory { address, .. } => self.write(0, address),
                _ => self.error("`lea` takes the address of a place in memory"),
            },
            "xadd" => self.exchange_and_add(),
            "xchg" => self.exchange(),
            "cmpxchg" => self.compare_exchange(),
            "bt" | "bts" | "btr" | "btc" => self.bit(operation),
            _ => self.extend(operation),
        }
    }

    /// Joins the first operand with a value, or with an operand.
    fn arithmetic(&mut self, operator: Operator, value: Result<Expression, usize>) -> Result<(), ParseError> {
        let value = match value {
            Ok(value) => value,
            Err(number) => self.value(number, self.width)?,
        };
        self.fetch(operator, &value).map(drop)
    }

    /// Joins the first operand with the value and sets the flags; gives what was there.
    fn fetch(&mut self, operator: Operator, value: &Expression) -> Result<Expression, ParseError> {
        let width = self.width;
        if self.locked {
            let old = self.read_modify_write(0, Update::With(operator), value.clone())?;
            self.set_flags(operator, &old, value)?;
            return Ok(old);
        }
        let old = self.kept(0)?;
        let new = self.fresh();
        let joined = Expression::binary(operator, old.clone(), value.clone()).narrow(width);
        self.push(Step::Set { register: new, value: joined })?;
        self.set_flags(operator, &old, value)?;
        self.write(0, Expression::Register(new))?;
        Ok(old)
    }

    /// A locked access of an operand in memory; gives what was there.
    fn read_modify_write(
        &mut self,
        number: usize,
        update: Update,
        value: Expression,
    ) -> Result<Expression, ParseError> {
        let operand = self.operands[number].0.clone();
        let address = self.access(&operand, self.width)?;
        let found = self.fresh();
        let (wrote, width, ordering) = (None, self.width, SeqCst);
        self.push(Step::ReadModifyWrite { found, wrote, address, update, value, width, ordering })?;
        Ok(Expression::Register(found))
    }

    fn register(&self, number: usize) -> Result<usize, ParseError> {
        match self.operands[number] {
            (Operand::Register(register, _), _) => Ok(register),
            (_, at) => {
                Err(ParseError::new(at, format!("this operand of `{}` is a register", self.mnemonic.text)))
            }
        }
    }

    fn exchange_and_add(&mut self) -> Result<(), ParseError> {
        let register = self.register(1)?;
        let added = self.kept(1)?;
        let old = self.fetch(Operator::Add, &added)?;
        // The sum wins when both operands are the same register.
        if matches!(self.operands[0].0, Operand::Register(same, _) if same == register) {
            return Ok(());
        }
        self.write_register(register, old, self.width)
    }

    /// An exchange with memory is locked whether it says so or not.
    fn exchange(&mut self) -> Result<(), ParseError> {
        let in_memory = self.operands.iter().position(|(operand, _)| operand.is_memory());
        let Some(place) = in_memory else {
            let (first, second) = (self.kept(0)?, self.kept(1)?);
            self.write(0, second)?;
            return self.write(1, first);
        };
        let register = self.register(1 - place)?;
        let value = Expression::Register(register).narrow(self.width);
        let old = self.read_modify_write(place, Update::Exchange, value)?;
        self.write_register(register, old, self.width)
    }

    fn compare_exchange(&mut self) -> Result<(), ParseError> {
        let width = self.width;
        let (thread, at) = (self.column.thread, self.mnemonic.at);
        let accumulator = self.column.builder.register_named(thread, "RAX", at)?;
        let expected = Expression::Register(accumulator).narrow(width);
        let value = Expression::Register(self.register(1)?).narrow(width);
        if self.locked {
            let update = Update::CompareExchange { expected: expected.clone(), failure: SeqCst };
            let old = self.read_modify_write(0, update, value)?;
            self.set_flags(Operator::Subtract, &expected, &old)?;
            return self.write_register(accumulator, old, width);
        }
        let old = self.kept(0)?;
        self.set_flags(Operator::Subtract, &expected, &old)?;
        let differs = Expression::binary(Operator::Unequal, old.clone(), expected);
        let to_failure = self.column.jump(differs, at)?;
        self.write(0, value)?;
        let to_end = self.column.jump(constant(1), at)?;
        self.column.land(to_failure);
        self.write_register(accumulator, old, width)?;
        self.column.land(to_end);
        Ok(())
    }

    /// Looks at one bit, which goes into the carry, and sets, clears or flips it.
    fn bit(&mut self, operation: &str) -> Result<(), ParseError> {
        let Operand::Constant(number) = self.operands[1].0 else {
            return self.unsupported("the number of a bit has to be a constant");
        };
        let number = number.rem_euclid(self.width.bits());
        let operator = match operation {
            "bts" => Some((Operator::Or, 1 << number)),
            "btr" => Some((Operator::And, !(1 << number))),
            "btc" => Some((Operator::Xor, 1 << number)),
            _ => None,
        };
        // The other flags are left alone by these: what `fetch` makes of them is put right below.
        let flags = self.column.flags.take();
        let old = match operator {
            Some((operator, value)) => self.fetch(operator, &constant(value)),
            None => self.kept(0),
        };
        self.column.flags = flags;
        let (old, Some(flags)) = (old?, flags) else { return Ok(()) };
        let shifted = Expression::binary(Operator::ShiftRight, old, constant(number));
        let value = Expression::binary(Operator::And, shifted, constant(1));
        self.push(Step::Set { register: flags.below, value })
    }

    /// `movzx`, `movsx` and their relatives with two letters, as `movzbl`.
    fn extend(&mut self, operation: &str) -> Result<(), ParseError> {
        let letters = operation.chars().skip("movz".len()).collect::<Vec<_>>();
        let of_register = |operand: &Operand| match operand {
            Operand::Register(_, width) => Some(*width),
            _ => None,
        };
        let (from, to) = match letters[..] {
            [from, to] if width_of(from).is_some() && width_of(to).is_some() => {
                (width_of(from), width_of(to))
            }
            [letter] if letter == 'x' || width_of(letter).is_some() => {
                let source = of_register(&self.operands[1].0).or(width_of(letter));
                (source.or(Some(self.width)), of_register(&self.operands[0].0))
            }
            ['x', 'd'] => (Some(Width::Word), of_register(&self.operands[0].0)),
            _ => (None, None),
        };
        let (Some(from), Some(to)) = (from, to) else {
            return self.unsupported(format!("the instruction `{}` is not supported", self.mnemonic.text));
        };
        let mut value = self.value(1, from)?;
        if operation.starts_with("movz") {
            value = Expression::binary(Operator::And, value, mask(from));
        }
        self.width = to;
        self.write(0, value)
    }

    /// `setcc` and `cmovcc`.
    fn conditional(&mut self, operation: &str) -> Result<(), ParseError> {
        let Some((letters, flags)) = condition_of(operation).zip(self.column.flags) else { return Ok(()) };
        let holds = holds(letters, flags);
        if operation.starts_with("set") {
            self.width = Width::Byte;
            return self.write(0, holds);
        }
        self.expect_operands(2)?;
        let value = self.kept(1)?;
        let not = Expression::binary(Operator::Equal, holds, constant(0));
        let skip = self.column.jump(not, self.mnemonic.at)?;
        self.write(0, value)?;
        self.column.land(skip);
        Ok(())
    }

    /// Sets the flags as after `a operator b`, unless no instruction looks at them.
    fn set_flags(&mut self, operator: Operator, a: &Expression, b: &Expression) -> Result<(), ParseError> {
        let Some(flags) = self.column.flags.filter(|_| !self.is("not")) else { return Ok(()) };
        let keeps_carry = self.is("inc") || self.is("dec");
        for (register, value) in flags.after(operator, a, b, self.width) {
            if !(keeps_carry && register == flags.below) {
                self.push(Step::Set { register, value })?;
            }
        }
        Ok(())
    }
}

fn jump<'a>(
    name: &str,
    mut cell: Tokens<'a>,
    column: &mut Column<'a>,
    mnemonic: &Token,
) -> Result<(), ParseError> {
    let when = match condition_of(name).zip(column.flags) {
        Some((letters, flags)) => holds(letters, flags),
        None => constant(1),
    };
    let Some(label) =
        cell.next().filter(|label| label.text.starts_with(|letter: char| letter != '*' && letter != '%'))
    else {
        return Err(ParseError::unsupported(mnemonic.at, "a jump goes to a label"));
    };
    if !cell.is_empty() {
        return Err(cell.unexpected("the end of the jump"));
    }
    let jump = column.jump(when, mnemonic.at)?;
    column.jumps.push((jump, Some(label)));
    Ok(())
}
