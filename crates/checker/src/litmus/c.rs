//! Threads in a subset of C: atomics, fences, plain accesses, locals, `if`, and loops that wait for a value.

use machine::Ordering;

use super::program::{Expression, Operator, Step, Update, Width, address_of};
use super::test::{Builder, is_type, starts_condition};
use super::token::{At, ParseError, Token, Tokens};

/// Reads `P0 (atomic_int* x) { … }` and so on.
pub(super) fn threads(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<(), ParseError> {
    while tokens.peek().is_some_and(|token| !starts_condition(token)) {
        let static_or_void = ["static", "void"];
        while tokens.peek().is_some_and(|token| static_or_void.contains(&token.text.as_str())) {
            tokens.next();
        }
        let wanted = format!("`P{}`", builder.program.threads.len());
        let at = tokens.at();
        let name = tokens.name(&wanted)?;
        let number = builder.program.threads.len();
        if name.text != format!("P{number}") {
            return Err(ParseError::new(at, format!("expected {wanted}, found `{}`", name.text)));
        }
        builder.add_thread(number, at)?;
        let mut thread = Thread { builder, thread: number, locals: Vec::new(), depth: 0 };
        thread.parameters(tokens)?;
        let mut steps = Vec::new();
        thread.block(tokens, &mut steps)?;
        thread.builder.program.threads[number] = steps;
    }
    if builder.program.threads.is_empty() {
        return Err(tokens.unexpected("`P0` and the other threads"));
    }
    Ok(())
}

/// Blocks and expressions in one another at most.
const DEEPEST: usize = 100;

struct Thread<'a> {
    builder: &'a mut Builder,
    thread: usize,
    /// Names that are locals and not locations.
    locals: Vec<String>,
    depth: usize,
}

impl Thread<'_> {
    /// Each parameter points to the location of its name.
    fn parameters(&mut self, tokens: &mut Tokens<'_>) -> Result<(), ParseError> {
        tokens.expect("(")?;
        while !tokens.take(")") {
            while tokens.peek().is_some_and(|token| is_type(&token.text) || token.is("*") || token.is("void"))
            {
                tokens.next();
            }
            if tokens.take(")") {
                return Ok(());
            }
            let name = tokens.name("a parameter")?;
            self.builder.location_named(&name.text, name.at)?;
            if !tokens.peek().is_some_and(|token| token.is(")")) {
                tokens.expect(",")?;
            }
        }
        Ok(())
    }

    fn deeper(&mut self, at: At) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(ParseError::new(at, format!("the thread is nested deeper than {DEEPEST}")));
        }
        Ok(())
    }

    fn block(&mut self, tokens: &mut Tokens<'_>, steps: &mut Vec<Step>) -> Result<(), ParseError> {
        self.deeper(tokens.expect("{")?)?;
        while !tokens.take("}") {
            if tokens.is_empty() {
                return Err(tokens.unexpected("`}`"));
            }
            self.statement(tokens, steps)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn block_or_statement(&mut self, tokens: &mut Tokens<'_>) -> Result<Vec<Step>, ParseError> {
        let mut steps = Vec::new();
        if tokens.peek().is_some_and(|token| token.is("{")) {
            self.block(tokens, &mut steps)?;
        } else {
            self.deeper(tokens.at())?;
            self.statement(tokens, &mut steps)?;
            self.depth -= 1;
        }
        Ok(steps)
    }

    fn local(&mut self, name: &Token) -> Result<usize, ParseError> {
        if !self.locals.contains(&name.text) {
            self.locals.push(name.text.clone());
        }
        self.builder.register_named(self.thread, &name.text, name.at)
    }

    fn statement(&mut self, tokens: &mut Tokens<'_>, steps: &mut Vec<Step>) -> Result<(), ParseError> {
        if tokens.take(";") {
            return Ok(());
        }
        let Some(first) = tokens.peek() else { return Err(tokens.unexpected("a statement")) };
        match first.text.as_str() {
            "{" => return self.block(tokens, steps),
            "if" => {
                tokens.next();
                tokens.expect("(")?;
                let condition = self.expression(tokens, steps)?;
                tokens.expect(")")?;
                let then = self.block_or_statement(tokens)?;
                let otherwise =
                    if tokens.take("else") { self.block_or_statement(tokens)? } else { Vec::new() };
                steps.push(Step::If { condition, then, otherwise });
                return Ok(());
            }
            "while" | "do" => return self.waiting_loop(tokens, steps),
            "for" | "goto" | "switch" | "return" | "break" | "continue" => {
                return Err(ParseError::new(first.at, format!("`{}` is not supported", first.text)));
            }
            "*" => {
                tokens.next();
                let name = tokens.name("a location")?;
                let address = self.pointer(name)?;
                tokens.expect("=")?;
                let value = self.expression(tokens, steps)?;
                steps.push(Step::Store { address, value, width: Width::Long, ordering: None });
            }
            word if is_type(word) => {
                while tokens.peek().is_some_and(|token| is_type(&token.text) || token.is("*")) {
                    tokens.next();
                }
                loop {
                    let name = tokens.name("a local")?;
                    let register = self.local(name)?;
                    if tokens.take("=") {
                        let value = self.expression(tokens, steps)?;
                        steps.push(Step::Set { register, value });
                    }
                    if !tokens.take(",") {
                        break;
                    }
                }
            }
            _ if tokens.peek_at(1).is_some_and(|next| next.is("=")) => {
                let name = tokens.name("a local")?;
                tokens.expect("=")?;
                let register = self.local(name)?;
                let value = self.expression(tokens, steps)?;
                steps.push(Step::Set { register, value });
            }
            _ => {
                self.expression(tokens, steps)?;
            }
        }
        tokens.expect(";").map(drop)
    }

    /// `while (condition with one load);` waits until it is false; so does `do { r = load; } while (condition);`.
    fn waiting_loop(&mut self, tokens: &mut Tokens<'_>, steps: &mut Vec<Step>) -> Result<(), ParseError> {
        let at = tokens.at();
        let mut body = Vec::new();
        let condition = if tokens.take("do") {
            body = self.block_or_statement(tokens)?;
            tokens.expect("while")?;
            tokens.expect("(")?;
            let condition = self.expression(tokens, &mut body)?;
            tokens.expect(")")?;
            tokens.expect(";")?;
            condition
        } else {
            tokens.expect("while")?;
            tokens.expect("(")?;
            let condition = self.expression(tokens, &mut body)?;
            tokens.expect(")")?;
            let inside = self.block_or_statement(tokens)?;
            if !inside.is_empty() {
                let message = "a loop with a body is not supported; one that only waits for a value is";
                return Err(ParseError::new(at, message));
            }
            condition
        };
        let (load, sets) = match body.split_first() {
            Some((Step::Load { register, address, width, ordering }, rest))
                if rest.iter().all(|step| matches!(step, Step::Set { .. })) =>
            {
                ((*register, address.clone(), *width, ordering.unwrap_or(Ordering::Relaxed)), rest)
            }
            _ => {
                let message = "this loop is not supported; one that only waits for a value is";
                return Err(ParseError::new(at, message));
            }
        };
        let (register, address, width, ordering) = load;
        let condition = sets.iter().rev().fold(condition, |condition, step| match step {
            Step::Set { register, value } => substitute(condition, *register, value),
            _ => condition,
        });
        let until = Expression::binary(Operator::Equal, condition, Expression::Constant(0));
        steps.push(Step::Await { register, address, width, ordering, until });
        steps.extend(sets.iter().cloned());
        Ok(())
    }

    /// What a name points to: a local holds an address, a parameter is one.
    fn pointer(&mut self, name: &Token) -> Result<Expression, ParseError> {
        if self.locals.contains(&name.text) {
            return Ok(Expression::Register(self.local(name)?));
        }
        Ok(Expression::Constant(address_of(self.builder.location_named(&name.text, name.at)?)))
    }

    /// An argument that is an address: `x`, `&x`, `(x)`, and in the kernel's macros `*x`.
    fn address(&mut self, tokens: &mut Tokens<'_>) -> Result<Expression, ParseError> {
        if tokens.take("(") {
            self.deeper(tokens.at())?;
            let inner = self.address(tokens)?;
            self.depth -= 1;
            tokens.expect(")")?;
            return Ok(inner);
        }
        while tokens.take("&") || tokens.take("*") {}
        let name = tokens.name("a location")?;
        self.pointer(name)
    }

    fn expression(
        &mut self,
        tokens: &mut Tokens<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<Expression, ParseError> {
        self.deeper(tokens.at())?;
        let mut left = self.sum(tokens, steps)?;
        loop {
            let operator = match tokens.peek().map(|token| token.text.as_str()) {
                Some("==") => Operator::Equal,
                Some("!=") => Operator::Unequal,
                Some("<") => Operator::Less,
                Some("<=") => Operator::AtMost,
                Some(">" | ">=") => {
                    let strict = tokens.next().is_some_and(|token| token.is(">"));
                    let right = self.sum(tokens, steps)?;
                    let operator = if strict { Operator::Less } else { Operator::AtMost };
                    left = Expression::binary(operator, right, left);
                    continue;
                }
                Some("&&") => {
                    tokens.next();
                    let right = self.sum(tokens, steps)?;
                    left = Expression::binary(Operator::And, truth(left), truth(right));
                    continue;
                }
                Some("||") => {
                    tokens.next();
                    let right = self.sum(tokens, steps)?;
                    left = Expression::binary(Operator::Or, truth(left), truth(right));
                    continue;
                }
                _ => break,
            };
            tokens.next();
            let right = self.sum(tokens, steps)?;
            left = Expression::binary(operator, left, right);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn sum(&mut self, tokens: &mut Tokens<'_>, steps: &mut Vec<Step>) -> Result<Expression, ParseError> {
        let mut left = self.factor(tokens, steps)?;
        loop {
            let operator = match tokens.peek().map(|token| token.text.as_str()) {
                Some("+") => Operator::Add,
                Some("-") => Operator::Subtract,
                Some("*") => Operator::Multiply,
                Some("&") => Operator::And,
                Some("|") => Operator::Or,
                Some("^") => Operator::Xor,
                _ => return Ok(left),
            };
            tokens.next();
            let right = self.factor(tokens, steps)?;
            left = Expression::binary(operator, left, right);
        }
    }

    fn factor(&mut self, tokens: &mut Tokens<'_>, steps: &mut Vec<Step>) -> Result<Expression, ParseError> {
        if tokens.take("(") {
            if tokens.peek().is_some_and(|token| is_type(&token.text)) {
                while !tokens.take(")") {
                    if tokens.next().is_none() {
                        return Err(tokens.unexpected("`)`"));
                    }
                }
                return self.factor(tokens, steps);
            }
            let inner = self.expression(tokens, steps)?;
            tokens.expect(")")?;
            return Ok(inner);
        }
        if tokens.take("!") {
            self.deeper(tokens.at())?;
            let inner = self.factor(tokens, steps)?;
            self.depth -= 1;
            return Ok(Expression::binary(Operator::Equal, inner, Expression::Constant(0)));
        }
        if tokens.take("&") {
            let name = tokens.name("a location")?;
            return self.pointer(name);
        }
        if tokens.take("*") {
            let name = tokens.name("a location")?;
            let address = self.pointer(name)?;
            return Ok(self.load(steps, address, None));
        }
        let Some(token) = tokens.peek() else { return Err(tokens.unexpected("an expression")) };
        if !token.is_name() {
            return Ok(Expression::Constant(tokens.number()?));
        }
        if tokens.peek_at(1).is_some_and(|next| next.is("(")) {
            return self.call(tokens, steps);
        }
        let name = tokens.next().expect("peeked");
        if !self.locals.contains(&name.text) && self.builder.locations.contains(&name.text) {
            return self.pointer(name);
        }
        Ok(Expression::Register(self.local(name)?))
    }

    fn load(&mut self, steps: &mut Vec<Step>, address: Expression, ordering: Option<Ordering>) -> Expression {
        let register = self.builder.fresh_register(self.thread);
        steps.push(Step::Load { register, address, width: Width::Long, ordering });
        Expression::Register(register)
    }

    fn call(&mut self, tokens: &mut Tokens<'_>, steps: &mut Vec<Step>) -> Result<Expression, ParseError> {
        let function = tokens.next().expect("peeked");
        tokens.expect("(")?;
        let name = function.text.as_str();
        let explicit = name.ends_with("_explicit");
        let stem = name.strip_suffix("_explicit").unwrap_or(name);
        let result = match stem {
            "atomic_thread_fence" => {
                let ordering = self.ordering(tokens)?;
                if ordering != Ordering::Relaxed {
                    steps.push(Step::Fence(ordering));
                }
                Expression::Constant(0)
            }
            "smp_mb" | "smp_wmb" | "smp_rmb" => {
                let ordering = match stem {
                    "smp_mb" => Ordering::SeqCst,
                    "smp_wmb" => Ordering::Release,
                    _ => Ordering::Acquire,
                };
                steps.push(Step::Fence(ordering));
                Expression::Constant(0)
            }
            "atomic_load" | "READ_ONCE" | "smp_load_acquire" => {
                let address = self.address(tokens)?;
                let ordering = match stem {
                    "READ_ONCE" => Ordering::Relaxed,
                    "smp_load_acquire" => Ordering::Acquire,
                    _ => self.ordering_argument(tokens, explicit)?,
                };
                if matches!(ordering, Ordering::Release | Ordering::AcqRel) {
                    return Err(ParseError::new(function.at, "a load does not release"));
                }
                self.load(steps, address, Some(ordering))
            }
            "atomic_store" | "WRITE_ONCE" | "smp_store_release" | "atomic_init" => {
                let address = self.address(tokens)?;
                tokens.expect(",")?;
                let value = self.expression(tokens, steps)?;
                let ordering = match stem {
                    "WRITE_ONCE" | "atomic_init" => Ordering::Relaxed,
                    "smp_store_release" => Ordering::Release,
                    _ => self.ordering_argument(tokens, explicit)?,
                };
                if matches!(ordering, Ordering::Acquire | Ordering::AcqRel) {
                    return Err(ParseError::new(function.at, "a store does not acquire"));
                }
                steps.push(Step::Store { address, value, width: Width::Long, ordering: Some(ordering) });
                Expression::Constant(0)
            }
            "atomic_exchange" | "atomic_fetch_add" | "atomic_fetch_sub" | "atomic_fetch_and"
            | "atomic_fetch_or" | "atomic_fetch_xor" | "xchg" => {
                let address = self.address(tokens)?;
                tokens.expect(",")?;
                let value = self.expression(tokens, steps)?;
                let ordering = self.ordering_argument(tokens, explicit)?;
                let update = match stem {
                    "atomic_exchange" | "xchg" => Update::Exchange,
                    "atomic_fetch_add" => Update::With(Operator::Add),
                    "atomic_fetch_sub" => Update::With(Operator::Subtract),
                    "atomic_fetch_and" => Update::With(Operator::And),
                    "atomic_fetch_or" => Update::With(Operator::Or),
                    _ => Update::With(Operator::Xor),
                };
                let found = self.builder.fresh_register(self.thread);
                let (wrote, width) = (None, Width::Long);
                steps.push(Step::ReadModifyWrite { found, wrote, address, update, value, width, ordering });
                Expression::Register(found)
            }
            "atomic_compare_exchange_strong" | "atomic_compare_exchange_weak" => {
                self.compare_exchange(tokens, steps, explicit)?
            }
            _ => {
                return Err(ParseError::new(function.at, format!("function `{name}` is not supported")));
            }
        };
        tokens.expect(")")?;
        Ok(result)
    }

    /// The expected value lies in a local or a location, which gets what was found when that is another.
    fn compare_exchange(
        &mut self,
        tokens: &mut Tokens<'_>,
        steps: &mut Vec<Step>,
        explicit: bool,
    ) -> Result<Expression, ParseError> {
        let address = self.address(tokens)?;
        tokens.expect(",")?;
        tokens.take("&");
        let name = tokens.name("where the expected value lies")?;
        let is_local = self.locals.contains(&name.text);
        let (expected, holder) = if is_local {
            let register = self.local(name)?;
            (Expression::Register(register), Err(register))
        } else {
            let holder = self.pointer(name)?;
            (self.load(steps, holder.clone(), None), Ok(holder))
        };
        tokens.expect(",")?;
        let value = self.expression(tokens, steps)?;
        let success = self.ordering_argument(tokens, explicit)?;
        let failure = self.ordering_argument(tokens, explicit)?;
        let found = self.builder.fresh_register(self.thread);
        let wrote = self.builder.fresh_register(self.thread);
        steps.push(Step::ReadModifyWrite {
            found,
            wrote: Some(wrote),
            address,
            update: Update::CompareExchange { expected, failure },
            value,
            width: Width::Long,
            ordering: success,
        });
        let found = Expression::Register(found);
        let keep = match holder {
            Err(register) => Step::Set { register, value: found },
            Ok(address) => Step::Store { address, value: found, width: Width::Long, ordering: None },
        };
        let condition = Expression::Register(wrote);
        steps.push(Step::If { condition, then: Vec::new(), otherwise: vec![keep] });
        Ok(Expression::Register(wrote))
    }

    fn ordering_argument(&self, tokens: &mut Tokens<'_>, explicit: bool) -> Result<Ordering, ParseError> {
        if !explicit {
            return Ok(Ordering::SeqCst);
        }
        tokens.expect(",")?;
        self.ordering(tokens)
    }

    fn ordering(&self, tokens: &mut Tokens<'_>) -> Result<Ordering, ParseError> {
        let token = tokens.name("a memory order")?;
        match token.text.strip_prefix("memory_order_").unwrap_or(&token.text) {
            "relaxed" => Ok(Ordering::Relaxed),
            // Stronger than consume, as every compiler has it.
            "acquire" | "consume" => Ok(Ordering::Acquire),
            "release" => Ok(Ordering::Release),
            "acq_rel" => Ok(Ordering::AcqRel),
            "seq_cst" => Ok(Ordering::SeqCst),
            _ => Err(ParseError::new(token.at, format!("`{}` is no memory order", token.text))),
        }
    }
}

fn truth(value: Expression) -> Expression {
    Expression::binary(Operator::Unequal, value, Expression::Constant(0))
}

fn substitute(expression: Expression, register: usize, value: &Expression) -> Expression {
    match expression {
        Expression::Register(number) if number == register => value.clone(),
        Expression::Binary(operator, a, b) => {
            Expression::binary(operator, substitute(*a, register, value), substitute(*b, register, value))
        }
        other => other,
    }
}
