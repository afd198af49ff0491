//! Threads in the assembly of x86, in both orders of operands.
//!
//! `X86` files write `MOV [x],$1` with the destination first, `X86_64` files `movq $1,(x)` with the destination last; a
//! row that has brackets or percent signs of the other kind is read as that kind.

use machine::Ordering::{AcqRel, SeqCst};

use super::program::{Expression, Operator, Step, Update, Width, address_of};
use super::test::{Builder, starts_condition};
use super::token::{At, ParseError, Token, Tokens};

/// The 64-bit name of a register and the width that its name means.
pub(super) fn register(name: &str) -> Option<(String, Width)> {
    let name = name.to_ascii_uppercase();
    const LETTERS: [&str; 4] = ["A", "B", "C", "D"];
    const WORDS: [&str; 4] = ["SI", "DI", "SP", "BP"];
    for letter in LETTERS {
        for (pattern, width) in [
            (format!("R{letter}X"), Width::Long),
            (format!("E{letter}X"), Width::Word),
            (format!("{letter}X"), Width::Half),
            (format!("{letter}L"), Width::Byte),
        ] {
            if name == pattern {
                return Some((format!("R{letter}X"), width));
            }
        }
    }
    for word in WORDS {
        for (pattern, width) in [
            (format!("R{word}"), Width::Long),
            (format!("E{word}"), Width::Word),
            (word.to_owned(), Width::Half),
            (format!("{word}L"), Width::Byte),
        ] {
            if name == pattern {
                return Some((format!("R{word}"), width));
            }
        }
    }
    let digits = name.strip_prefix('R')?;
    let (digits, width) = match digits.chars().last()? {
        'D' => (&digits[..digits.len() - 1], Width::Word),
        'W' => (&digits[..digits.len() - 1], Width::Half),
        'B' => (&digits[..digits.len() - 1], Width::Byte),
        _ => (digits, Width::Long),
    };
    let number = digits.parse::<u8>().ok().filter(|number| (8..16).contains(number))?;
    Some((format!("R{number}"), width))
}

/// Reads the table of threads: a column a thread, a row an instruction of each.
pub(super) fn threads(tokens: &mut Tokens<'_>, builder: &mut Builder, att: bool) -> Result<(), ParseError> {
    let mut header = tokens.until(";");
    while !header.is_empty() {
        let at = header.at();
        let name = header.next().expect("not empty");
        let number = name.text.strip_prefix('P').and_then(|digits| digits.parse::<usize>().ok());
        let Some(number) = number.filter(|&number| number == builder.program.threads.len()) else {
            let wanted = format!("expected `P{}`", builder.program.threads.len());
            return Err(ParseError::new(at, format!("{wanted}, found `{}`", name.text)));
        };
        builder.add_thread(number, at)?;
        if !header.is_empty() {
            header.expect("|")?;
        }
    }
    if builder.program.threads.is_empty() {
        return Err(tokens.unexpected("`P0` and the other threads"));
    }
    let mut widths = Vec::new();
    while let Some(token) = tokens.peek() {
        if starts_condition(token) {
            break;
        }
        let mut row = tokens.until(";");
        for thread in 0..builder.program.threads.len() {
            let cell = row.until("|");
            if !cell.is_empty() {
                instruction(cell, builder, thread, att, &mut widths)?;
            }
        }
        if !row.is_empty() {
            return Err(ParseError::new(row.at(), "the row has more columns than there are threads"));
        }
    }
    Ok(())
}

/// An operand of an instruction.
#[derive(Clone, Debug)]
enum Operand {
    Constant(i64),
    Register(usize, Width),
    /// The address, and the name when it is a location's.
    Memory(Expression, Option<usize>),
}

struct Parsed<'a> {
    builder: &'a mut Builder,
    thread: usize,
    at: At,
    locked: bool,
    width: Option<Width>,
    widths: &'a mut Vec<(usize, Width)>,
}

fn instruction(
    mut cell: Tokens<'_>,
    builder: &mut Builder,
    thread: usize,
    att: bool,
    widths: &mut Vec<(usize, Width)>,
) -> Result<(), ParseError> {
    if cell.peek_at(1).is_some_and(|next| next.is(":")) {
        return Err(ParseError::new(cell.at(), "labels and jumps are not supported"));
    }
    let at = cell.at();
    let mut mnemonic = cell.name("an instruction")?;
    let locked = mnemonic.text.eq_ignore_ascii_case("lock");
    if locked {
        cell.take(";");
        mnemonic = cell.name("an instruction after `lock`")?;
    }
    let (operation, width) = split_suffix(&mnemonic.text.to_ascii_lowercase());
    let mut parsed = Parsed { builder, thread, at: mnemonic.at, locked, width, widths };
    let mut operands = Vec::new();
    let mut source_first = att;
    while !cell.is_empty() {
        source_first = match cell.peek() {
            Some(token) if token.is("%") || token.is("(") => true,
            Some(token) if token.is("[") => false,
            _ => source_first,
        };
        let at = cell.at();
        let operand = parsed.operand(&mut cell)?;
        operands.push((operand, at));
        if !cell.is_empty() {
            cell.expect(",")?;
        }
    }
    if source_first {
        operands.reverse();
    }
    let lockable = ["add", "sub", "inc", "dec", "xadd", "cmpxchg", "xchg", "and", "or", "xor", "neg", "not"];
    if locked && !lockable.contains(&operation.as_str()) {
        return Err(ParseError::new(at, format!("`{}` cannot be locked", mnemonic.text)));
    }
    parsed.execute(&operation, mnemonic, &operands)
}

/// An instruction's name without the letter of its operands' size.
fn split_suffix(name: &str) -> (String, Option<Width>) {
    const NAMES: [&str; 19] = [
        "mov", "add", "sub", "inc", "dec", "xadd", "cmpxchg", "xchg", "and", "or", "xor", "neg", "not",
        "mfence", "lfence", "sfence", "nop", "endbr64", "cmp",
    ];
    if NAMES.contains(&name) {
        return (name.to_owned(), None);
    }
    let width = match name.chars().last() {
        Some('b') => Width::Byte,
        Some('w') => Width::Half,
        Some('l') => Width::Word,
        Some('q') => Width::Long,
        _ => return (name.to_owned(), None),
    };
    let stem = &name[..name.len() - 1];
    if NAMES.contains(&stem) { (stem.to_owned(), Some(width)) } else { (name.to_owned(), None) }
}

impl Parsed<'_> {
    fn error<T>(&self, at: At, message: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::new(at, message))
    }

    fn operand(&mut self, cell: &mut Tokens<'_>) -> Result<Operand, ParseError> {
        if cell.take("$") {
            if cell.peek().is_some_and(Token::is_name) {
                let name = cell.next().expect("peeked");
                return Ok(Operand::Constant(address_of(self.builder.location_named(&name.text, name.at)?)));
            }
            return Ok(Operand::Constant(cell.number()?));
        }
        if cell.take("%") {
            let name = cell.name("a register")?;
            return self.register(name);
        }
        for (open, close) in [("[", "]"), ("(", ")")] {
            if cell.take(open) {
                return self.memory(cell, close);
            }
        }
        for size in ["byte", "word", "dword", "qword"] {
            if cell.peek().is_some_and(|token| token.text.eq_ignore_ascii_case(size)) {
                cell.next();
                if cell.peek().is_some_and(|token| token.text.eq_ignore_ascii_case("ptr")) {
                    cell.next();
                }
                self.width = Some(match size {
                    "byte" => Width::Byte,
                    "word" => Width::Half,
                    "dword" => Width::Word,
                    _ => Width::Long,
                });
                return self.operand(cell);
            }
        }
        match cell.peek() {
            Some(token) if token.is_name() && register(&token.text).is_some() => {
                let name = cell.next().expect("peeked");
                self.register(name)
            }
            Some(token) if token.is_name() => {
                let name = cell.next().expect("peeked");
                if cell.take("(") {
                    // `x(%rip)` is x.
                    cell.take("%");
                    let base = cell.name("`rip`")?;
                    if !base.text.eq_ignore_ascii_case("rip") {
                        return self.error(base.at, "an address has one register, or one location and `rip`");
                    }
                    cell.expect(")")?;
                }
                let location = self.builder.location_named(&name.text, name.at)?;
                Ok(Operand::Memory(Expression::Constant(address_of(location)), Some(location)))
            }
            _ => {
                let at = cell.at();
                let number = cell.number()?;
                if cell.take("(") {
                    if number != 0 {
                        return self.error(at, "offsets in addresses are not supported");
                    }
                    return self.memory(cell, ")");
                }
                Ok(Operand::Constant(number))
            }
        }
    }

    fn register(&mut self, name: &Token) -> Result<Operand, ParseError> {
        let Some((_, width)) = register(&name.text) else {
            return self.error(name.at, format!("`{}` is no register of x86", name.text));
        };
        Ok(Operand::Register(self.builder.register_named(self.thread, &name.text, name.at)?, width))
    }

    fn memory(&mut self, cell: &mut Tokens<'_>, close: &str) -> Result<Operand, ParseError> {
        let percent = cell.take("%");
        let name = cell.name("a location or a register")?;
        let operand = if percent || register(&name.text).is_some() {
            let Operand::Register(register, _) = self.register(name)? else { unreachable!("made above") };
            Operand::Memory(Expression::Register(register), None)
        } else {
            let location = self.builder.location_named(&name.text, name.at)?;
            Operand::Memory(Expression::Constant(address_of(location)), Some(location))
        };
        if !cell.peek().is_some_and(|token| token.is(close)) {
            let message = "addresses of one location or one register are supported, without offset or index";
            return self.error(cell.at(), message);
        }
        cell.next();
        Ok(operand)
    }

    /// The width of the instruction: its suffix, its registers, or four bytes.
    fn width(&self, operands: &[(Operand, At)]) -> Result<Width, ParseError> {
        let mut width = self.width;
        for (operand, at) in operands {
            if let Operand::Register(_, of_register) = operand {
                if width.is_some_and(|width| width != *of_register) {
                    return Err(ParseError::new(*at, "operands of different sizes"));
                }
                width = Some(*of_register);
            }
        }
        Ok(width.unwrap_or(Width::Word))
    }

    /// All accesses of a location are of one width.
    fn remember(&mut self, operands: &[(Operand, At)], width: Width) -> Result<(), ParseError> {
        for (operand, at) in operands {
            let Operand::Memory(_, Some(location)) = operand else { continue };
            match self.widths.iter().find(|(known, _)| known == location) {
                Some((_, before)) if *before != width => {
                    let name = &self.builder.locations[*location];
                    let message =
                        format!("`{name}` is accessed with different sizes, which is not supported");
                    return Err(ParseError::new(*at, message));
                }
                Some(_) => {}
                None => self.widths.push((*location, width)),
            }
        }
        Ok(())
    }

    fn push(&mut self, step: Step) {
        self.builder.program.threads[self.thread].push(step);
    }

    /// Brings the operand's value into an expression, loading memory if it must.
    fn value(&mut self, operand: &Operand, width: Width) -> Expression {
        match operand {
            Operand::Constant(value) => Expression::Constant(*value),
            Operand::Register(register, _) => Expression::Register(*register),
            Operand::Memory(address, _) => {
                let register = self.builder.fresh_register(self.thread);
                let ordering = Some(machine::Ordering::Relaxed);
                self.push(Step::Load { register, address: address.clone(), width, ordering });
                Expression::Register(register)
            }
        }
    }

    fn write(&mut self, operand: &Operand, value: Expression, width: Width) -> Result<(), ParseError> {
        match operand {
            Operand::Constant(_) => self.error(self.at, "the destination is a constant"),
            Operand::Register(register, _) => {
                self.push(Step::Set { register: *register, value });
                Ok(())
            }
            Operand::Memory(address, _) => {
                let ordering = Some(machine::Ordering::Relaxed);
                self.push(Step::Store { address: address.clone(), value, width, ordering });
                Ok(())
            }
        }
    }

    fn read_modify_write(
        &mut self,
        address: &Expression,
        update: Update,
        value: Expression,
        width: Width,
    ) -> (usize, usize) {
        let found = self.builder.fresh_register(self.thread);
        let wrote = self.builder.fresh_register(self.thread);
        self.push(Step::ReadModifyWrite {
            found,
            wrote: Some(wrote),
            address: address.clone(),
            update,
            value,
            width,
            ordering: SeqCst,
        });
        (found, wrote)
    }

    fn execute(
        &mut self,
        operation: &str,
        mnemonic: &Token,
        operands: &[(Operand, At)],
    ) -> Result<(), ParseError> {
        let width = self.width(operands)?;
        self.remember(operands, width)?;
        let wanted = match operation {
            "mfence" | "lfence" | "sfence" | "nop" | "endbr64" => 0,
            "inc" | "dec" | "neg" | "not" => 1,
            "mov" | "add" | "sub" | "and" | "or" | "xor" | "xadd" | "cmpxchg" | "xchg" => 2,
            _ => {
                return self.error(mnemonic.at, format!("instruction `{}` is not supported", mnemonic.text));
            }
        };
        if operands.len() != wanted {
            let message = format!("`{}` takes {wanted} operands, not {}", mnemonic.text, operands.len());
            return self.error(mnemonic.at, message);
        }
        let in_memory = operands.iter().filter(|(operand, _)| matches!(operand, Operand::Memory(..))).count();
        if in_memory > 1 {
            return self.error(operands[1].1, "at most one operand lies in memory");
        }
        if self.locked && !matches!(operands.first(), Some((Operand::Memory(..), _))) && operation != "xchg" {
            return self.error(mnemonic.at, "a locked instruction writes memory");
        }
        match operation {
            "mfence" => self.push(Step::Fence(SeqCst)),
            // Both are nothing under the models here: loads are in order, and so are stores but under PSO.
            "sfence" => self.push(Step::Fence(AcqRel)),
            "mov" => {
                let value = self.value(&operands[1].0, width);
                self.write(&operands[0].0, value, width)?;
            }
            "inc" => self.arithmetic(Operator::Add, &operands[0].0, Expression::Constant(1), width)?,
            "dec" => self.arithmetic(Operator::Subtract, &operands[0].0, Expression::Constant(1), width)?,
            "not" => self.arithmetic(Operator::Xor, &operands[0].0, Expression::Constant(-1), width)?,
            "neg" => {
                // 0 - x is (x xor -1) + 1, in one step where it must be one.
                if self.locked {
                    return self.error(mnemonic.at, "`lock neg` is not supported");
                }
                let old = self.value(&operands[0].0, width);
                let negated = Expression::binary(Operator::Subtract, Expression::Constant(0), old);
                self.write(&operands[0].0, negated, width)?;
            }
            "add" | "sub" | "and" | "or" | "xor" => {
                let operator = match operation {
                    "add" => Operator::Add,
                    "sub" => Operator::Subtract,
                    "and" => Operator::And,
                    "or" => Operator::Or,
                    _ => Operator::Xor,
                };
                let value = self.value(&operands[1].0, width);
                self.arithmetic(operator, &operands[0].0, value, width)?;
            }
            "xchg" => self.exchange(operands, width)?,
            "xadd" => {
                let Operand::Register(register, _) = operands[1].0 else {
                    return self.error(operands[1].1, "the second operand of `xadd` is a register");
                };
                let added = Expression::Register(register);
                let old = self.fetch(Operator::Add, &operands[0].0, added, width)?;
                self.push(Step::Set { register, value: Expression::Register(old) });
            }
            "cmpxchg" => self.compare_exchange(operands, width)?,
            _ => {}
        }
        Ok(())
    }

    fn arithmetic(
        &mut self,
        operator: Operator,
        operand: &Operand,
        value: Expression,
        width: Width,
    ) -> Result<(), ParseError> {
        self.fetch(operator, operand, value, width).map(drop)
    }

    /// Joins the operand with the value; gives the register with what was there.
    fn fetch(
        &mut self,
        operator: Operator,
        operand: &Operand,
        value: Expression,
        width: Width,
    ) -> Result<usize, ParseError> {
        if self.locked
            && let Operand::Memory(address, _) = operand
        {
            return Ok(self.read_modify_write(address, Update::With(operator), value, width).0);
        }
        let old = self.value(operand, width);
        let kept = self.builder.fresh_register(self.thread);
        self.push(Step::Set { register: kept, value: old });
        let new = Expression::binary(operator, Expression::Register(kept), value);
        self.write(operand, new, width)?;
        Ok(kept)
    }

    /// An exchange with memory is locked whether it says so or not.
    fn exchange(&mut self, operands: &[(Operand, At)], width: Width) -> Result<(), ParseError> {
        match (&operands[0].0, &operands[1].0) {
            (Operand::Memory(address, _), Operand::Register(register, _))
            | (Operand::Register(register, _), Operand::Memory(address, _)) => {
                let value = Expression::Register(*register);
                let (found, _) = self.read_modify_write(address, Update::Exchange, value, width);
                self.push(Step::Set { register: *register, value: Expression::Register(found) });
                Ok(())
            }
            (Operand::Register(first, _), Operand::Register(second, _)) => {
                let kept = self.builder.fresh_register(self.thread);
                self.push(Step::Set { register: kept, value: Expression::Register(*first) });
                self.push(Step::Set { register: *first, value: Expression::Register(*second) });
                self.push(Step::Set { register: *second, value: Expression::Register(kept) });
                Ok(())
            }
            _ => self.error(operands[0].1, "`xchg` takes registers and memory"),
        }
    }

    fn compare_exchange(&mut self, operands: &[(Operand, At)], width: Width) -> Result<(), ParseError> {
        let accumulator = self.builder.register_named(self.thread, "RAX", self.at)?;
        let expected = Expression::Register(accumulator);
        let Operand::Register(register, _) = operands[1].0 else {
            return self.error(operands[1].1, "the second operand of `cmpxchg` is a register");
        };
        let value = Expression::Register(register);
        let Operand::Memory(address, _) = &operands[0].0 else {
            return self.error(operands[0].1, "the first operand of `cmpxchg` lies in memory");
        };
        if self.locked {
            let update = Update::CompareExchange { expected, failure: SeqCst };
            let (found, _) = self.read_modify_write(address, update, value, width);
            self.push(Step::Set { register: accumulator, value: Expression::Register(found) });
            return Ok(());
        }
        let old = self.value(&operands[0].0, width);
        let equal = Expression::binary(Operator::Equal, old.clone(), expected);
        let store = Step::Store {
            address: address.clone(),
            value,
            width,
            ordering: Some(machine::Ordering::Relaxed),
        };
        let found = Step::Set { register: accumulator, value: old };
        self.push(Step::If { condition: equal, then: vec![store], otherwise: vec![found] });
        Ok(())
    }
}
