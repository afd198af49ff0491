//! Expressions of C, and what can be assigned to.

use machine::Ordering;

use super::{Local, MOST_OPERATORS, Thread};
use crate::litmus::initial::{Levels, constant, is_type, take_type};
use crate::litmus::program::{Expression, Operator, Step, Value, Width};
use crate::litmus::token::{At, ParseError, Token, Tokens};

/// The bytes of every location of C.
const ELEMENT: Value = Width::Long.bytes();

/// A value with what matters of its type.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) value: Expression,
    /// It points to something: sums count in elements.
    pub(super) is_pointer: bool,
    /// What of that is atomic.
    pub(super) atomic: Levels,
}

impl Typed {
    pub(super) const fn plain(value: Expression) -> Self {
        Self { value, is_pointer: false, atomic: Levels::NONE }
    }

    /// How what it points to is accessed that says no order: atomically and seq_cst, or plainly.
    fn ordering(&self) -> Option<Ordering> {
        self.atomic.points_to_atomic().then_some(Ordering::SeqCst)
    }
}

/// A part of an expression, before it is known whether its value is wanted or it is assigned to.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Value(Typed),
    /// A local: its register, and its value.
    Local(usize, Typed),
    /// What lies at an address.
    Memory(Typed),
}

/// Binary operators with how tightly they bind.
const OPERATORS: [(&str, usize); 16] = [
    ("||", 1),
    ("&&", 2),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("==", 6),
    ("!=", 6),
    ("<", 7),
    ("<=", 7),
    (">", 7),
    (">=", 7),
    ("<<", 8),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("%", 10),
];

impl<'t> Thread<'_, 't> {
    pub(super) fn expression(&mut self, tokens: &mut Tokens<'t>) -> Result<Typed, ParseError> {
        self.deeper(tokens.at())?;
        let at = tokens.at();
        let result = if self.assigns(tokens) {
            self.assigned(tokens)?
        } else {
            let condition = self.binary(tokens, 1)?;
            if tokens.take("?") { self.choice(tokens, condition.value, at)? } else { condition }
        };
        self.depth -= 1;
        Ok(result)
    }

    /// `condition ? a : b`
    fn choice(
        &mut self,
        tokens: &mut Tokens<'t>,
        condition: Expression,
        at: At,
    ) -> Result<Typed, ParseError> {
        let register = self.builder.fresh_register(self.thread);
        let otherwise = self.jump_unless(condition, at)?;
        let first = self.expression(tokens)?;
        self.push(Step::Set { register, value: first.value }, at)?;
        let end = self.jump(Expression::Constant(1), at)?;
        tokens.expect(":")?;
        self.land(&[otherwise]);
        let second = self.expression(tokens)?;
        self.push(Step::Set { register, value: second.value }, at)?;
        self.land(&[end]);
        Ok(Typed { value: Expression::Register(register), ..first })
    }

    fn binary(&mut self, tokens: &mut Tokens<'t>, least: usize) -> Result<Typed, ParseError> {
        let mut left = self.unary(tokens)?;
        loop {
            let Some(token) = tokens.peek() else { return Ok(left) };
            if token.is("/") || token.is(">>") {
                let message = format!("the operator `{}` is not supported", token.text);
                return Err(ParseError::unsupported(token.at, message));
            }
            let operator = OPERATORS.iter().find(|(text, binds)| token.is(text) && *binds >= least);
            let Some(&(operator, binds)) = operator else { return Ok(left) };
            tokens.next();
            self.count_operator(token.at)?;
            left = match operator {
                "&&" | "||" => self.short_circuit(tokens, left.value, operator == "&&", token.at)?,
                _ => {
                    let right = self.binary(tokens, binds + 1)?;
                    join(operator, left, right, token.at)?
                }
            };
        }
    }

    fn count_operator(&mut self, at: At) -> Result<(), ParseError> {
        self.operators += 1;
        if self.operators > MOST_OPERATORS {
            return Err(ParseError::unsupported(
                at,
                format!("more than {MOST_OPERATORS} operators in a statement"),
            ));
        }
        Ok(())
    }

    /// `left && right`, or `||`: the right side counts, and is looked at, only if the left does not decide.
    fn short_circuit(
        &mut self,
        tokens: &mut Tokens<'t>,
        left: Expression,
        is_and: bool,
        at: At,
    ) -> Result<Typed, ParseError> {
        let register = self.builder.fresh_register(self.thread);
        self.push(Step::Set { register, value: truth(left) }, at)?;
        let decided = if is_and {
            self.jump_unless(Expression::Register(register), at)?
        } else {
            self.jump(Expression::Register(register), at)?
        };
        let right = self.binary(tokens, if is_and { 3 } else { 2 })?;
        self.push(Step::Set { register, value: truth(right.value) }, at)?;
        self.land(&[decided]);
        Ok(Typed::plain(Expression::Register(register)))
    }

    pub(super) fn unary(&mut self, tokens: &mut Tokens<'t>) -> Result<Typed, ParseError> {
        let at = tokens.at();
        self.deeper(at)?;
        let result = if tokens.take("!") {
            let inner = self.unary(tokens)?.value;
            Typed::plain(Expression::binary(Operator::Equal, inner, Expression::Constant(0)))
        } else if tokens.take("~") {
            let inner = self.unary(tokens)?.value;
            Typed::plain(Expression::binary(Operator::Xor, inner, Expression::Constant(-1)))
        } else if tokens.take("-") {
            let inner = self.unary(tokens)?.value;
            Typed::plain(Expression::binary(Operator::Subtract, Expression::Constant(0), inner))
        } else if tokens.take("&") {
            match self.operand(tokens)? {
                Operand::Memory(address) | Operand::Value(address) => address,
                Operand::Local(..) => {
                    return Err(ParseError::unsupported(at, "the address of a local is not supported here"));
                }
            }
        } else {
            let operand = self.operand(tokens)?;
            self.read(operand, at)?
        };
        self.depth -= 1;
        Ok(result)
    }

    /// Refuses a cast to a type that is not known: a foreign word or stars behind it in parentheses, before an operand.
    fn refuse_unknown_cast(&self, tokens: &Tokens<'t>) -> Result<(), ParseError> {
        let known = |name: &str| self.local(name).is_some() || self.builder.memory.knows(name);
        let Some(word) = tokens.peek().filter(|word| word.is_name() && !known(&word.text)) else {
            return Ok(());
        };
        let mut ahead = 1;
        while tokens.peek_at(ahead).is_some_and(|token| token.is("*")) {
            ahead += 1;
        }
        let is_operand = |token: &Token| token.is_name() || token.number().is_some() || token.is("(");
        if tokens.peek_at(ahead).is_some_and(|token| token.is(")"))
            && (ahead > 1 || tokens.peek_at(ahead + 1).is_some_and(is_operand))
        {
            let message = format!("the type `{}` is not supported", word.text);
            return Err(ParseError::unsupported(word.at, message));
        }
        Ok(())
    }

    /// A number, a call, a name, an element, what a pointer points to, or an expression in parentheses.
    pub(super) fn operand(&mut self, tokens: &mut Tokens<'t>) -> Result<Operand, ParseError> {
        if tokens.take("*") {
            let pointer = self.unary(tokens)?;
            if tokens.peek().is_some_and(|next| next.is("++") || next.is("--")) {
                let message =
                    "a pointer that is moved is not supported: for what it points to, write `(*x)++`";
                return Err(ParseError::unsupported(tokens.at(), message));
            }
            return Ok(Operand::Memory(pointer));
        }
        let of = |at: usize, is: fn(&Token) -> bool| tokens.peek_at(at).is_some_and(is);
        if of(0, |one| one.is("("))
            && of(1, |one| one.is("*"))
            && of(2, Token::is_name)
            && of(3, |one| one.is(")"))
        {
            tokens.take("(");
            tokens.take("*");
            let pointer = self.unary(tokens)?;
            tokens.expect(")")?;
            return Ok(Operand::Memory(pointer));
        }
        if tokens.take("(") {
            if tokens.peek().is_some_and(|token| is_type(&token.text) || token.is("void")) {
                tokens.take("void");
                take_type(tokens)?;
                tokens.expect(")")?;
                return Ok(Operand::Value(self.unary(tokens)?));
            }
            self.refuse_unknown_cast(tokens)?;
            let inner = self.expression(tokens)?;
            tokens.expect(")")?;
            return Ok(Operand::Value(inner));
        }
        let Some(token) = tokens.peek() else { return Err(tokens.unexpected("an expression")) };
        if !token.is_name() {
            return Ok(Operand::Value(Typed::plain(Expression::Constant(tokens.c_number()?))));
        }
        if tokens.peek_at(1).is_some_and(|next| next.is("(")) {
            return Ok(Operand::Value(self.call(tokens)?));
        }
        tokens.next();
        let operand = self.name(token)?;
        if !tokens.take("[") {
            return Ok(operand);
        }
        let base = self.read(operand, token.at)?;
        let index = self.expression(tokens)?;
        tokens.expect("]")?;
        let base = Typed { is_pointer: true, ..base };
        Ok(Operand::Memory(join("+", base, index, token.at)?))
    }

    /// Whether an assignment to a local comes next.
    fn assigns(&self, tokens: &Tokens<'t>) -> bool {
        let is_local = |token: &Token| token.is_name() && self.local(&token.text).is_some();
        tokens.peek().is_some_and(is_local) && tokens.peek_at(1).is_some_and(|next| next.is("="))
    }

    /// A local that is assigned to within an expression, the value of which is what the local then holds.
    fn assigned(&mut self, tokens: &mut Tokens<'t>) -> Result<Typed, ParseError> {
        let name = tokens.name("a local")?;
        let local = self.name(name)?;
        tokens.expect("=")?;
        let value = self.expression(tokens)?.value;
        self.write(local.clone(), value, name.at)?;
        self.read(local, name.at)
    }

    /// `true`, `false` or `NULL`, a local, or else the address of the location that a parameter stands for.
    fn name(&mut self, name: &Token) -> Result<Operand, ParseError> {
        if self.local(&name.text).is_none() && self.builder.memory.knows(&name.text) {
            let value = Expression::Constant(self.builder.memory.address(&name.text, name.at)?);
            let atomic = self.atomics.get(name.text.as_str()).copied().unwrap_or(Levels::NONE);
            return Ok(Operand::Value(Typed { value, is_pointer: true, atomic }));
        }
        if let Some(value) = constant(&name.text) {
            return Ok(Operand::Value(Typed::plain(Expression::Constant(value))));
        }
        let of = |local: &Local| (local.is_pointer, local.atomic);
        let (is_pointer, atomic) = match self.local(&name.text).map(of) {
            Some(local) => local,
            None if self.builder.knows_register(self.thread, &name.text) => (false, Levels::NONE),
            None => return Err(ParseError::new(name.at, format!("`{}` is not declared", name.text))),
        };
        let register = self.declare(name, is_pointer, atomic)?;
        let value = Expression::Register(register);
        Ok(Operand::Local(register, Typed { value, is_pointer, atomic }))
    }

    /// The value of an operand, loaded if it lies in memory.
    pub(super) fn read(&mut self, operand: Operand, at: At) -> Result<Typed, ParseError> {
        match operand {
            Operand::Value(value) | Operand::Local(_, value) => Ok(value),
            Operand::Memory(address) => {
                let (ordering, atomic) = (address.ordering(), address.atomic.pointed_to());
                let value = self.load(address.value, ordering, at)?;
                // What is loaded through a pointer may be one too; only sums of two would show the difference.
                Ok(Typed { atomic, ..Typed::plain(value) })
            }
        }
    }

    /// Assigns to an operand.
    pub(super) fn write(&mut self, operand: Operand, value: Expression, at: At) -> Result<(), ParseError> {
        match operand {
            Operand::Value(_) => Err(ParseError::new(at, "this cannot be assigned to")),
            Operand::Local(register, _) => self.push(Step::Set { register, value }, at),
            Operand::Memory(address) => {
                let ordering = address.ordering();
                self.store(address.value, value, ordering, at)
            }
        }
    }

    pub(super) fn load(
        &mut self,
        address: Expression,
        ordering: Option<Ordering>,
        at: At,
    ) -> Result<Expression, ParseError> {
        let register = self.builder.fresh_register(self.thread);
        self.push(Step::Load { register, address, width: Width::Long, ordering }, at)?;
        Ok(Expression::Register(register))
    }

    pub(super) fn store(
        &mut self,
        address: Expression,
        value: Expression,
        ordering: Option<Ordering>,
        at: At,
    ) -> Result<(), ParseError> {
        self.push(Step::Store { address, value, width: Width::Long, ordering }, at)
    }
}

/// Two values joined by an operator that always looks at both.
pub(super) fn join(operator: &str, left: Typed, right: Typed, at: At) -> Result<Typed, ParseError> {
    let (mut a, mut b) = (left.value, right.value);
    let scaled =
        |count: Expression| Expression::binary(Operator::Multiply, count, Expression::Constant(ELEMENT));
    let sum = matches!(operator, "+" | "-");
    if sum && left.is_pointer && !right.is_pointer {
        b = scaled(b);
    } else if operator == "+" && right.is_pointer && !left.is_pointer {
        a = scaled(a);
    } else if sum && left.is_pointer && right.is_pointer {
        return Err(ParseError::unsupported(at, "the difference of two pointers is not supported"));
    }
    let is_pointer = sum && (left.is_pointer || right.is_pointer);
    if matches!(operator, ">" | ">=") {
        std::mem::swap(&mut a, &mut b);
    }
    let operator = operator_of(operator, at)?;
    let atomic = match (sum, left.is_pointer, right.is_pointer) {
        (true, true, _) => left.atomic,
        (true, false, true) => right.atomic,
        _ => Levels::NONE,
    };
    Ok(Typed { value: Expression::binary(operator, a, b), is_pointer, atomic })
}

/// The operator of this sign; of `>` and `>=` the one for operands that change places.
pub(super) fn operator_of(sign: &str, at: At) -> Result<Operator, ParseError> {
    Ok(match sign {
        "|" => Operator::Or,
        "^" => Operator::Xor,
        "&" => Operator::And,
        "==" => Operator::Equal,
        "!=" => Operator::Unequal,
        "<" | ">" => Operator::Less,
        "<=" | ">=" => Operator::AtMost,
        "<<" => Operator::ShiftLeft,
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        _ => return Err(ParseError::unsupported(at, format!("the operator `{sign}` is not supported"))),
    })
}

fn truth(value: Expression) -> Expression {
    Expression::binary(Operator::Unequal, value, Expression::Constant(0))
}
