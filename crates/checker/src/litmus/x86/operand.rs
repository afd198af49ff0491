//! The operands of an instruction.

use super::Column;
use crate::litmus::builder::Dialect;
use crate::litmus::program::{Expression, Operator, Value, Width};
use crate::litmus::register::register;
use crate::litmus::token::{At, ParseError, Token, Tokens};

/// An operand of an instruction.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Constant(Value),
    Register(usize, Width),
    Memory {
        address: Expression,
        /// The name and the bytes after it, when no register takes part in the address.
        named: Option<(String, Value)>,
    },
}

impl Operand {
    pub(super) const fn is_memory(&self) -> bool {
        matches!(self, Self::Memory { .. })
    }
}

/// What an address is the sum of.
#[derive(Debug, Default)]
struct Sum<'a> {
    name: Option<&'a Token>,
    number: Value,
    /// Registers, each with what it is multiplied by.
    registers: Vec<(usize, Value)>,
}

impl Sum<'_> {
    fn add(&mut self, register: usize, scale: Value, at: At) -> Result<(), ParseError> {
        if self.registers.len() == 2 {
            return Err(ParseError::unsupported(at, "an address has a base and an index at most"));
        }
        self.registers.push((register, scale));
        Ok(())
    }
}

/// The operands as they stand there, and the width that one of them says.
#[derive(Debug, Default)]
pub(super) struct Operands {
    pub(super) all: Vec<(Operand, At)>,
    pub(super) width: Option<Width>,
    has_percents: bool,
    has_brackets: bool,
}

impl Operands {
    pub(super) fn read(cell: &mut Tokens<'_>, column: &mut Column<'_>) -> Result<Self, ParseError> {
        let mut operands = Self::default();
        while !cell.is_empty() {
            let at = cell.at();
            let operand = operands.operand(cell, column)?;
            operands.all.push((operand, at));
            if !cell.is_empty() {
                cell.expect(",")?;
            }
        }
        Ok(operands)
    }

    /// Whether the destination comes last: as the file's dialect has it, unless every sign of the other one is there and none of its
    /// own. A constant is no destination.
    pub(super) fn are_source_first(&self, dialect: Dialect) -> bool {
        match &self.all[..] {
            [(Operand::Constant(_), _), _, ..] => true,
            [_, .., (Operand::Constant(_), _)] => false,
            _ => match dialect {
                Dialect::X86_64 => self.has_percents || !self.has_brackets,
                Dialect::X86 | Dialect::C => self.has_percents && !self.has_brackets,
            },
        }
    }

    fn operand(&mut self, cell: &mut Tokens<'_>, column: &mut Column<'_>) -> Result<Operand, ParseError> {
        self.size(cell);
        if cell.take("$") {
            if cell.peek().is_some_and(Token::is_name) {
                let sum = displacement(cell, column)?;
                return Ok(Operand::Constant(address_of(&sum, column)?));
            }
            return Ok(Operand::Constant(cell.number()?));
        }
        if cell.take("%") {
            self.has_percents = true;
            return register_operand(cell, column);
        }
        if cell.take("[") {
            self.has_brackets = true;
            let sum = bracketed(cell, column)?;
            return memory(&sum, column);
        }
        let is_register = cell.peek().is_some_and(|token| register(&token.text).is_some());
        if is_register {
            return register_operand(cell, column);
        }
        let mut sum = displacement(cell, column)?;
        let parenthesis = cell.take("(");
        if parenthesis {
            self.has_percents |= cell.peek().is_some_and(|token| token.is("%"));
            indexed(cell, column, &mut sum)?;
        }
        if parenthesis || sum.name.is_some() {
            memory(&sum, column)
        } else {
            Ok(Operand::Constant(sum.number))
        }
    }

    /// `dword ptr`
    fn size(&mut self, cell: &mut Tokens<'_>) {
        let Some(word) = cell.peek() else { return };
        self.width = match word.text.to_ascii_lowercase().as_str() {
            "byte" => Some(Width::Byte),
            "word" => Some(Width::Half),
            "dword" => Some(Width::Word),
            "qword" => Some(Width::Long),
            _ => return,
        };
        cell.next();
        if cell.peek().is_some_and(|token| token.text.eq_ignore_ascii_case("ptr")) {
            cell.next();
        }
    }
}

fn register_number(cell: &mut Tokens<'_>, column: &mut Column<'_>) -> Result<(usize, Width), ParseError> {
    cell.take("%");
    let name = cell.name("a register")?;
    let Some((_, width)) = register(&name.text) else {
        let message = format!("`{}` is no register of x86 that is supported", name.text);
        return Err(ParseError::unsupported(name.at, message));
    };
    Ok((column.builder.register_named(column.thread, &name.text, name.at)?, width))
}

fn register_operand(cell: &mut Tokens<'_>, column: &mut Column<'_>) -> Result<Operand, ParseError> {
    register_number(cell, column).map(|(number, width)| Operand::Register(number, width))
}

/// Nothing, or names and numbers with signs between them, before a parenthesis: `x+4`.
fn displacement<'a>(cell: &mut Tokens<'a>, column: &mut Column<'_>) -> Result<Sum<'a>, ParseError> {
    let mut sum = Sum::default();
    if cell.peek().is_some_and(|token| token.is("(")) {
        return Ok(sum);
    }
    loop {
        term(cell, column, &mut sum)?;
        if !cell.take("+") && !cell.peek().is_some_and(|token| token.is("-")) {
            return Ok(sum);
        }
    }
}

/// The address between brackets: `[x]`, `[EAX+4]`, `[x+RBX*4]`.
fn bracketed<'a>(cell: &mut Tokens<'a>, column: &mut Column<'_>) -> Result<Sum<'a>, ParseError> {
    let mut sum = Sum::default();
    loop {
        term(cell, column, &mut sum)?;
        if cell.take("]") {
            return Ok(sum);
        }
        if !cell.take("+") && !cell.peek().is_some_and(|token| token.is("-")) {
            return Err(cell.unexpected("`]`, `+` or `-`"));
        }
    }
}

fn term<'a>(cell: &mut Tokens<'a>, column: &mut Column<'_>, sum: &mut Sum<'a>) -> Result<(), ParseError> {
    let percent = cell.take("%");
    match cell.peek() {
        Some(token) if percent || register(&token.text).is_some() => {
            let (register, _) = register_number(cell, column)?;
            let scale = if cell.take("*") { cell.number()? } else { 1 };
            sum.add(register, scale, cell.at())?;
        }
        Some(token) if token.is_name() => {
            if sum.name.is_some() {
                return Err(ParseError::unsupported(token.at, "an address has one name at most"));
            }
            sum.name = cell.next();
        }
        _ => {
            let number = cell.number()?;
            if cell.take("*") {
                let (register, _) = register_number(cell, column)?;
                sum.add(register, number, cell.at())?;
            } else {
                sum.number = sum.number.wrapping_add(number);
            }
        }
    }
    Ok(())
}

/// What stands between parentheses: `(x)`, `(%rax)`, `(%rax,%rbx,8)`, `(,%rbx,4)`, `(%rip)`.
fn indexed<'a>(cell: &mut Tokens<'a>, column: &mut Column<'_>, sum: &mut Sum<'a>) -> Result<(), ParseError> {
    let relative = |token: &Token| token.text.eq_ignore_ascii_case("rip");
    if cell.peek().is_some_and(relative) || cell.peek_at(1).is_some_and(relative) {
        cell.take("%");
        cell.next();
        return cell.expect(")").map(drop);
    }
    if !cell.peek().is_some_and(|token| token.is(",")) {
        term(cell, column, sum)?;
        while cell.take("+") || cell.peek().is_some_and(|token| token.is("-")) {
            term(cell, column, sum)?;
        }
    }
    if cell.take(",") {
        let (register, _) = register_number(cell, column)?;
        let scale = if cell.take(",") { cell.number()? } else { 1 };
        sum.add(register, scale, cell.at())?;
    }
    cell.expect(")").map(drop)
}

fn address_of(sum: &Sum<'_>, column: &mut Column<'_>) -> Result<Value, ParseError> {
    let base = match sum.name {
        Some(name) => column.builder.memory.address(&name.text, name.at)?,
        None => 0,
    };
    Ok(base.wrapping_add(sum.number))
}

fn memory(sum: &Sum<'_>, column: &mut Column<'_>) -> Result<Operand, ParseError> {
    let mut address = Expression::Constant(address_of(sum, column)?);
    for &(register, scale) in &sum.registers {
        let register = Expression::Register(register);
        let scaled = match scale {
            1 => register,
            _ => Expression::binary(Operator::Multiply, register, Expression::Constant(scale)),
        };
        address = match address {
            Expression::Constant(0) => scaled,
            _ => Expression::binary(Operator::Add, address, scaled),
        };
    }
    let fixed = sum.registers.is_empty();
    let named = sum.name.filter(|_| fixed).map(|name| (name.text.clone(), sum.number));
    Ok(Operand::Memory { address, named })
}
