//! Expressions of C, and what can be assigned to.

use machine::Ordering;

use super::arithmetic::{Typed, common};
use super::{MOST_OPERATORS, Thread};
use crate::litmus::initial::constant;
use crate::litmus::program::{Expression, Number, Step};
use crate::litmus::token::{At, ParseError, Token, Tokens};
use crate::litmus::types::{Type, is_type, take_type};

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
const OPERATORS: [(&str, usize); 18] = [
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
    (">>", 8),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("/", 10),
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
            if tokens.take("?") { self.choice(tokens, condition, at)? } else { condition }
        };
        self.depth -= 1;
        Ok(result)
    }

    /// `condition ? a : b`
    fn choice(&mut self, tokens: &mut Tokens<'t>, condition: Typed, at: At) -> Result<Typed, ParseError> {
        let register = self.builder.fresh_register(self.thread);
        let otherwise = self.jump_unless(condition.value, at)?;
        let first = self.expression(tokens)?;
        self.push(Step::Set { register, value: first.value }, at)?;
        let end = self.jump(Expression::Constant(1), at)?;
        tokens.expect(":")?;
        self.land(&[otherwise]);
        let second = self.expression(tokens)?;
        self.push(Step::Set { register, value: second.value }, at)?;
        self.land(&[end]);
        // A conversion to the type of both changes neither, so that it may wait until they meet.
        let pointer = [first.kind, second.kind].into_iter().find(|kind| kind.is_pointer());
        let kind = pointer.unwrap_or_else(|| Type::of(common(first.kind.number(), second.kind.number())));
        Ok(Typed { value: Expression::Register(register).convert(kind.number()), kind })
    }

    fn binary(&mut self, tokens: &mut Tokens<'t>, least: usize) -> Result<Typed, ParseError> {
        let mut left = self.unary(tokens)?;
        loop {
            let Some(token) = tokens.peek() else { return Ok(left) };
            let operator = OPERATORS.iter().find(|(text, binds)| token.is(text) && *binds >= least);
            let Some(&(operator, binds)) = operator else { return Ok(left) };
            tokens.next();
            self.count_operator(token.at)?;
            left = match operator {
                "&&" | "||" => self.short_circuit(tokens, left, operator == "&&", token.at)?,
                _ => {
                    let right = self.binary(tokens, binds + 1)?;
                    self.join(operator, left, right, token.at)?
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
        left: Typed,
        is_and: bool,
        at: At,
    ) -> Result<Typed, ParseError> {
        let register = self.builder.fresh_register(self.thread);
        self.push(Step::Set { register, value: left.truth() }, at)?;
        let decided = if is_and {
            self.jump_unless(Expression::Register(register), at)?
        } else {
            self.jump(Expression::Register(register), at)?
        };
        let right = self.binary(tokens, if is_and { 3 } else { 2 })?;
        self.push(Step::Set { register, value: right.truth() }, at)?;
        self.land(&[decided]);
        Ok(Typed::int(Expression::Register(register)))
    }

    pub(super) fn unary(&mut self, tokens: &mut Tokens<'t>) -> Result<Typed, ParseError> {
        let at = tokens.at();
        self.deeper(at)?;
        let result = if tokens.take("!") {
            self.unary(tokens)?.logical_not()
        } else if tokens.take("~") {
            self.unary(tokens)?.complement()
        } else if tokens.take("-") {
            self.unary(tokens)?.minus()
        } else if tokens.take("+") {
            self.unary(tokens)?.plus()
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
        let at = tokens.at();
        if tokens.take("*") {
            let pointer = self.unary(tokens)?;
            if tokens.peek().is_some_and(|next| next.is("++") || next.is("--")) {
                let message =
                    "a pointer that is moved is not supported: for what it points to, write `(*x)++`";
                return Err(ParseError::unsupported(tokens.at(), message));
            }
            return self.memory(pointer, at);
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
            return self.memory(pointer, at);
        }
        if tokens.take("(") {
            if tokens.peek().is_some_and(|token| is_type(&token.text)) {
                let kind = take_type(tokens)?;
                tokens.expect(")")?;
                let value = self.unary(tokens)?;
                // `(void)` says that the value is not used.
                return Ok(Operand::Value(if kind.is_said() { value.convert(kind) } else { value }));
            }
            self.refuse_unknown_cast(tokens)?;
            let inner = self.expression(tokens)?;
            tokens.expect(")")?;
            return Ok(Operand::Value(inner));
        }
        let Some(token) = tokens.peek() else { return Err(tokens.unexpected("an expression")) };
        if !token.is_name() {
            return Ok(Operand::Value(Typed::constant(&token.text, tokens.c_number()?)));
        }
        if tokens.peek_at(1).is_some_and(|next| next.is("(")) {
            return Ok(Operand::Value(self.call(tokens)?));
        }
        if token.text.starts_with("__") && tokens.peek_at(1).is_some_and(|next| next.is("{")) {
            let message = format!(
                "`{}{{…}}` is what herd makes of a function of the kernel: write that function, such as `READ_ONCE`",
                token.text
            );
            return Err(ParseError::unsupported(token.at, message));
        }
        tokens.next();
        let operand = self.name(token)?;
        if !tokens.take("[") {
            return Ok(operand);
        }
        let base = self.read(operand, token.at)?;
        let index = self.expression(tokens)?;
        tokens.expect("]")?;
        let base = self.pointer(base, token.at)?;
        self.join("+", base, index, token.at).map(Operand::Memory)
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
        let value = self.expression(tokens)?;
        self.write(local.clone(), value, name.at)?;
        self.read(local, name.at)
    }

    /// `true`, `false` or `NULL`, a local, or else the address of the location that a parameter stands for.
    fn name(&mut self, name: &Token) -> Result<Operand, ParseError> {
        if self.local(&name.text).is_none() && self.builder.memory.knows(&name.text) {
            let value = Expression::Constant(self.builder.memory.address(&name.text, name.at)?);
            let parameter =
                self.parameters.get(name.text.as_str()).filter(|kind| kind.pointed_to().is_said());
            let kind = parameter.copied();
            let kind = kind.unwrap_or_else(|| self.builder.memory.kind(&name.text).behind_star());
            return Ok(Operand::Value(Typed { value, kind }));
        }
        if let Some(value) = constant(&name.text) {
            return Ok(Operand::Value(Typed::int(Expression::Constant(value))));
        }
        if self.local(&name.text).is_none() && !self.builder.knows_register(self.thread, &name.text) {
            return Err(ParseError::new(name.at, format!("`{}` is not declared", name.text)));
        }
        self.declare(name, Type::LONG)
    }

    /// The value of an operand, loaded if it lies in memory.
    pub(super) fn read(&mut self, operand: Operand, at: At) -> Result<Typed, ParseError> {
        match operand {
            Operand::Value(value) | Operand::Local(_, value) => Ok(value),
            Operand::Memory(address) => self.load(&address, address.ordering(), at),
        }
    }

    /// Assigns to an operand.
    pub(super) fn write(&mut self, operand: Operand, value: Typed, at: At) -> Result<(), ParseError> {
        match operand {
            Operand::Value(_) => Err(ParseError::new(at, "this cannot be assigned to")),
            Operand::Local(register, local) => {
                let value = value.convert(local.kind).value;
                self.push(Step::Set { register, value }, at)
            }
            Operand::Memory(address) => {
                let ordering = address.ordering();
                self.store(&address, value, ordering, at)
            }
        }
    }

    /// The value as an address of something with a type. What is no pointer to such a thing is the address of a number, if only one
    /// type of numbers is in memory.
    pub(super) fn pointer(&self, value: Typed, at: At) -> Result<Typed, ParseError> {
        if value.kind.is_pointer() && value.kind.pointed_to().is_said() {
            return Ok(value);
        }
        let Some(number) = self.builder.memory.only_number() else {
            let message = "it is not known what lies at this address, as locations are of several types: declare a \
                           pointer to what lies there, such as `int *r0`";
            return Err(ParseError::unsupported(at, message));
        };
        Ok(Typed { kind: Type::of(number).behind_star(), ..value })
    }

    /// What lies at an address.
    fn memory(&self, address: Typed, at: At) -> Result<Operand, ParseError> {
        self.pointer(address, at).map(Operand::Memory)
    }

    pub(super) fn load(
        &mut self,
        address: &Typed,
        ordering: Option<Ordering>,
        at: At,
    ) -> Result<Typed, ParseError> {
        let (kind, address) = (address.kind.pointed_to(), address.value.clone());
        let register = self.builder.fresh_register(self.thread);
        self.push(Step::Load { register, address, width: kind.number().width(), ordering }, at)?;
        Ok(found(register, kind))
    }

    pub(super) fn store(
        &mut self,
        address: &Typed,
        value: Typed,
        ordering: Option<Ordering>,
        at: At,
    ) -> Result<(), ParseError> {
        let kind = address.kind.pointed_to();
        let (address, value) = (address.value.clone(), stored(value, kind));
        self.push(Step::Store { address, value, width: kind.number().width(), ordering }, at)
    }
}

/// What a register holds into which a location of this type was read: memory keeps no sign but its highest bit.
pub(super) fn found(register: usize, kind: Type) -> Typed {
    let value = Expression::Register(register);
    let value = match kind.number() {
        Number::Signed(_) => value,
        number => value.convert(number),
    };
    Typed { value, kind }
}

/// What a location of this type gets when the value is written to it, which leaves out what is too wide for it.
pub(super) fn stored(value: Typed, kind: Type) -> Expression {
    if kind.number() == Number::Bool { value.convert(kind).value } else { value.value }
}
