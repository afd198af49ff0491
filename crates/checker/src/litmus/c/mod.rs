//! Threads in a subset of C: atomics, fences, plain accesses, locals, conditions, loops and transactions.

mod arithmetic;
mod atomic;
mod call;
mod expression;
mod kernel;

use std::collections::HashMap;

use super::builder::{Builder, ends_threads, starts_condition};
use super::initial::{constant, index};
use super::program::{Expression, Operator, Step, Update};
use super::token::{At, ParseError, Token, Tokens};
use super::types::{Type, is_type, refuse_unknown_type, take_stars, take_type, take_words};
use machine::Ordering;

use arithmetic::{Typed, fetch_operator, scaled};
use expression::Operand;

/// Reads `P0 (atomic_int* x) { … }` and so on.
pub(super) fn threads(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<(), ParseError> {
    while !tokens.is_empty() && !ends_threads(tokens) {
        while tokens.take("static") || tokens.take("void") {}
        // Where the locations lie, for other tools.
        if tokens.peek().is_some_and(|token| token.is("regions")) {
            while !tokens.is_empty() && !starts_condition(tokens) {
                tokens.next();
            }
            break;
        }
        let number = builder.program.threads.len();
        let wanted = format!("`P{number}`");
        let at = tokens.at();
        let name = tokens.name(&wanted)?;
        if name.text != format!("P{number}") {
            return Err(ParseError::new(at, format!("expected {wanted}, found `{}`", name.text)));
        }
        builder.add_thread(number, at)?;
        let mut thread = Thread {
            builder,
            thread: number,
            locals: Vec::new(),
            blocks: Vec::new(),
            blocks_begun: 0,
            parameters: HashMap::new(),
            depth: 0,
            operators: 0,
            loops: Vec::new(),
            returns: Vec::new(),
            labels: HashMap::new(),
            gotos: Vec::new(),
            transaction: None,
        };
        thread.parameters(tokens)?;
        thread.block(tokens)?;
        thread.resolve()?;
    }
    if builder.program.threads.is_empty() {
        return Err(tokens.unexpected("`P0` and the other threads"));
    }
    Ok(())
}

/// Notes what the parameters of all threads say of the locations of their names, for the initial state, which need not say it. What is
/// wrong with one is said where its thread is read.
pub(super) fn note_parameters(mut tokens: Tokens<'_>, builder: &mut Builder) {
    let is_thread = |name: &str| name.strip_prefix('P').is_some_and(|number| number.parse::<usize>().is_ok());
    let mut open = 0_usize;
    while let Some(token) = tokens.next() {
        match token.text.as_str() {
            "{" => open += 1,
            "}" => open = open.saturating_sub(1),
            name if open == 0 && is_thread(name) => {
                let mut list = tokens.clone();
                if !list.take("(") {
                    continue;
                }
                while let Ok(Some((name, kind))) = parameter(&mut list) {
                    if kind.pointed_to().is_said() {
                        builder.memory.note_parameter(&name.text, kind.pointed_to());
                    }
                }
            }
            _ => {}
        }
    }
}

/// The next parameter and its type, that of a pointer to the location of its name; none behind the last one.
fn parameter<'t>(tokens: &mut Tokens<'t>) -> Result<Option<(&'t Token, Type)>, ParseError> {
    let mut kind = take_type(tokens)?;
    if tokens.take(")") {
        return Ok(None);
    }
    refuse_unknown_type(tokens)?;
    let name = tokens.name("a parameter")?;
    // It points to the location of its name, though nothing may say so.
    if index(tokens)?.is_some() || !kind.is_pointer() {
        kind = kind.behind_star();
    }
    if !tokens.peek().is_some_and(|token| token.is(")")) {
        tokens.expect(",")?;
    }
    Ok(Some((name, kind)))
}

/// Blocks and expressions in one another at most.
const DEEPEST: usize = 100;
/// Operators of one statement at most.
const MOST_OPERATORS: usize = 500;

/// A name that a thread declares.
#[derive(Clone, Debug)]
struct Local {
    name: String,
    /// The block that declares it; none if it is only assigned to, which makes it one of the whole thread.
    block: Option<usize>,
    register: usize,
    kind: Type,
}

/// The jumps out of a loop, set when its end is known.
#[derive(Debug, Default)]
struct Loop {
    /// The transaction that it lies in.
    transaction: Option<usize>,
    breaks: Vec<usize>,
    continues: Vec<usize>,
}

/// One thread while it is read.
struct Thread<'a, 't> {
    builder: &'a mut Builder,
    thread: usize,
    locals: Vec<Local>,
    /// The blocks that are open, and `for` loops that declare.
    blocks: Vec<usize>,
    blocks_begun: usize,
    /// Parameters with their types: an access of what is atomic that names no order is seq_cst.
    parameters: HashMap<&'t str, Type>,
    depth: usize,
    operators: usize,
    loops: Vec<Loop>,
    returns: Vec<usize>,
    /// There may be any number of them before one step.
    labels: HashMap<&'t str, Label>,
    gotos: Vec<Goto<'t>>,
    /// The step that begins the transaction in which the next one lies.
    transaction: Option<usize>,
}

#[derive(Debug)]
struct Label {
    step: usize,
    transaction: Option<usize>,
}

/// A jump to a label that may stand further down.
#[derive(Debug)]
struct Goto<'t> {
    jump: usize,
    label: &'t Token,
    transaction: Option<usize>,
}

impl<'t> Thread<'_, 't> {
    /// Each parameter points to the location of its name.
    fn parameters(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        tokens.expect("(")?;
        while let Some((name, kind)) = parameter(tokens)? {
            let location = Some(kind.pointed_to()).filter(|kind| kind.is_said());
            self.builder.memory.declare_parameter(&name.text, location, name.at)?;
            self.parameters.entry(name.text.as_str()).or_insert(kind);
        }
        Ok(())
    }

    fn push(&mut self, step: Step, at: At) -> Result<(), ParseError> {
        self.builder.push(self.thread, step, at)
    }

    /// A jump whose target is set later.
    fn jump(&mut self, when: Expression, at: At) -> Result<usize, ParseError> {
        let number = self.next_step();
        self.push(Step::Jump { when, to: number + 1 }, at)?;
        Ok(number)
    }

    /// A jump if the value is zero.
    fn jump_unless(&mut self, value: Expression, at: At) -> Result<usize, ParseError> {
        self.jump(Expression::binary(Operator::Equal, value, Expression::Constant(0)), at)
    }

    fn next_step(&self) -> usize {
        self.builder.next_step(self.thread)
    }

    /// Lets jumps go to the step that comes next.
    fn land(&mut self, jumps: &[usize]) {
        let next = self.next_step();
        jumps.iter().for_each(|&jump| self.builder.set_target(self.thread, jump, next));
    }

    fn resolve(&mut self) -> Result<(), ParseError> {
        let returns = std::mem::take(&mut self.returns);
        self.land(&returns);
        for Goto { jump, label, transaction } in std::mem::take(&mut self.gotos) {
            let Some(target) = self.labels.get(label.text.as_str()) else {
                return Err(ParseError::new(label.at, format!("there is no label `{}`", label.text)));
            };
            self.stay_inside("goto", label.at, transaction, target.transaction)?;
            self.builder.set_target(self.thread, jump, target.step);
        }
        Ok(())
    }

    fn deeper(&mut self, at: At) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let message = format!("the thread is nested deeper than {DEEPEST}");
            return Err(ParseError::unsupported(at, message));
        }
        Ok(())
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().find(|local| local.name == name)
    }

    /// A local of the whole thread, made known if it was not. Without a declaration in the initial state it has the type that is said.
    fn declare(&mut self, name: &Token, otherwise: Type) -> Result<Operand, ParseError> {
        if let Some(local) = self.local(&name.text) {
            return Ok(local.operand());
        }
        if constant(&name.text).is_some() {
            return Err(ParseError::new(name.at, format!("`{}` is a constant", name.text)));
        }
        let register = self.builder.register_named(self.thread, &name.text, name.at)?;
        let kind = self.builder.type_of_register(self.thread, register).unwrap_or(otherwise);
        let local = Local { name: name.text.clone(), block: None, register, kind };
        let operand = local.operand();
        self.locals.push(local);
        Ok(operand)
    }

    /// Declares a local in the innermost block. One name is one register: a local of an enclosing block cannot be hidden.
    fn declare_in_block(&mut self, name: &Token, kind: Type) -> Result<Operand, ParseError> {
        self.declare(name, kind)?;
        let block = self.blocks.last().copied();
        let enclosing = self.blocks.split_last().map_or(&[][..], |(_, enclosing)| enclosing);
        let local = self.locals.iter_mut().find(|local| local.name == name.text);
        let local = local.expect("declared above");
        if local.block.is_some_and(|other| enclosing.contains(&other)) {
            let message = format!(
                "`{}` is declared twice: an enclosing block has a local of this name; give one of them another",
                name.text
            );
            return Err(ParseError::unsupported(name.at, message));
        }
        (local.block, local.kind) = (block, kind);
        self.builder.declare_register(self.thread, local.register, kind, name.at)?;
        Ok(local.operand())
    }

    fn begin_block(&mut self) {
        self.blocks.push(self.blocks_begun);
        self.blocks_begun += 1;
    }

    fn block(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        let start = tokens.expect("{")?;
        self.deeper(start)?;
        self.begin_block();
        while !tokens.take("}") {
            if tokens.is_empty() || asks(tokens) {
                return Err(tokens.unexpected(&format!("`}}` for the `{{` at {start}")));
            }
            self.statement(tokens)?;
        }
        self.blocks.pop();
        self.depth -= 1;
        Ok(())
    }

    fn nested(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        self.deeper(tokens.at())?;
        self.statement(tokens)?;
        self.depth -= 1;
        Ok(())
    }

    fn statement(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        self.operators = 0;
        if tokens.take(";") {
            return Ok(());
        }
        // A label may stand behind all statements of a block, or before the empty one.
        if self.labels(tokens)? && (tokens.peek().is_some_and(|token| token.is("}")) || tokens.take(";")) {
            return Ok(());
        }
        let Some(first) = tokens.peek() else { return Err(tokens.unexpected("a statement")) };
        match first.text.as_str() {
            "{" => return self.block(tokens),
            "if" => return self.condition(tokens),
            "while" => return self.while_loop(tokens),
            "do" => return self.do_loop(tokens),
            "for" => return self.for_loop(tokens),
            "atomic" if begins_block(tokens) => return self.atomic(tokens),
            "goto" | "break" | "continue" | "return" => self.leave(tokens)?,
            "switch" | "case" | "asm" => {
                let message = format!("`{}` is not supported", first.text);
                return Err(ParseError::unsupported(first.at, message));
            }
            "else" => {
                let message = "there is no `if` for this `else`; what follows when an atomic block aborts is `aborted { … }`";
                return Err(ParseError::new(first.at, message));
            }
            "aborted" if tokens.peek_at(1).is_some_and(|next| next.is("{")) => {
                return Err(ParseError::new(first.at, "there is no atomic block before this `aborted`"));
            }
            _ => self.simple_ones(tokens)?,
        }
        tokens.expect(";").map(drop)
    }

    /// The labels of the statement that comes next; whether it has any.
    fn labels(&mut self, tokens: &mut Tokens<'t>) -> Result<bool, ParseError> {
        let start = tokens.at();
        while tokens.peek_at(1).is_some_and(|next| next.is(":")) {
            let label = tokens.name("a label")?;
            tokens.expect(":")?;
            let (step, transaction) = (self.next_step(), self.transaction);
            if self.labels.insert(label.text.as_str(), Label { step, transaction }).is_some() {
                let message = format!("the label `{}` is there twice in thread {}", label.text, self.thread);
                return Err(ParseError::new(label.at, message));
            }
        }
        Ok(start != tokens.at())
    }

    fn leave(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        let Some(word) = tokens.next() else { return Err(tokens.unexpected("a statement")) };
        if word.is("return") && !tokens.peek().is_some_and(|token| token.is(";")) {
            self.expression(tokens)?;
        }
        let label = if word.is("goto") { Some(tokens.name("a label")?) } else { None };
        let jump = self.jump(Expression::Constant(1), word.at)?;
        let from = self.transaction;
        match (&label, self.loops.last(), word.text.as_str()) {
            (Some(_), ..) => {}
            (_, _, "return") => self.stay_inside("return", word.at, from, None)?,
            (_, Some(around), leaves) => self.stay_inside(leaves, word.at, from, around.transaction)?,
            (_, None, _) => {}
        }
        match (label, self.loops.last_mut(), word.text.as_str()) {
            (Some(label), ..) => self.gotos.push(Goto { jump, label, transaction: from }),
            (_, _, "return") => self.returns.push(jump),
            (_, Some(around), "break") => around.breaks.push(jump),
            (_, Some(around), _) => around.continues.push(jump),
            (_, None, _) => return Err(ParseError::new(word.at, format!("`{}` outside a loop", word.text))),
        }
        Ok(())
    }

    /// `(…)` of a condition; the jump is taken when it does not hold.
    fn guard(&mut self, tokens: &mut Tokens<'t>) -> Result<usize, ParseError> {
        let at = tokens.expect("(")?;
        let condition = self.expression(tokens)?;
        tokens.expect(")")?;
        self.jump_unless(condition.value, at)
    }

    fn condition(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        let at = tokens.expect("if")?;
        let otherwise = self.guard(tokens)?;
        self.nested(tokens)?;
        if !tokens.take("else") {
            self.land(&[otherwise]);
            return Ok(());
        }
        let end = self.jump(Expression::Constant(1), at)?;
        self.land(&[otherwise]);
        self.nested(tokens)?;
        self.land(&[end]);
        Ok(())
    }

    fn new_loop(&self) -> Loop {
        Loop { transaction: self.transaction, ..Loop::default() }
    }

    /// The end of a loop that starts at a step: back there, and on from its breaks.
    fn close(&mut self, start: usize, at: At) -> Result<(), ParseError> {
        let back = self.jump(Expression::Constant(1), at)?;
        self.builder.set_target(self.thread, back, start);
        let over = self.loops.pop().unwrap_or_default();
        self.land(&over.breaks);
        Ok(())
    }

    /// Lets what continues the innermost loop go to the step that comes next.
    fn land_continues(&mut self) {
        let continues = self.loops.last_mut().map(|around| std::mem::take(&mut around.continues));
        self.land(&continues.unwrap_or_default());
    }

    fn while_loop(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        let at = tokens.expect("while")?;
        let start = self.next_step();
        let out = self.guard(tokens)?;
        self.loops.push(Loop { breaks: vec![out], ..self.new_loop() });
        self.nested(tokens)?;
        self.land_continues();
        self.close(start, at)
    }

    fn do_loop(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        let at = tokens.expect("do")?;
        let start = self.next_step();
        self.loops.push(self.new_loop());
        self.nested(tokens)?;
        self.land_continues();
        tokens.expect("while")?;
        let out = self.guard(tokens)?;
        tokens.expect(";")?;
        if let Some(around) = self.loops.last_mut() {
            around.breaks.push(out);
        }
        self.close(start, at)
    }

    fn for_loop(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        let at = tokens.expect("for")?;
        self.begin_block();
        tokens.expect("(")?;
        if !tokens.take(";") {
            self.simple_ones(tokens)?;
            tokens.expect(";")?;
        }
        let start = self.next_step();
        let mut around = self.new_loop();
        if !tokens.take(";") {
            let condition = self.expression(tokens)?;
            around.breaks.push(self.jump_unless(condition.value, at)?);
            tokens.expect(";")?;
        }
        self.loops.push(around);
        // What is done after each iteration stands before its body: read it again when its place has come.
        let mut after = tokens.clone();
        let mut open = 1;
        while open > 0 {
            match tokens.next() {
                Some(token) if token.is("(") => open += 1,
                Some(token) if token.is(")") => open -= 1,
                Some(_) => {}
                None => return Err(tokens.unexpected("`)`")),
            }
        }
        self.nested(tokens)?;
        self.land_continues();
        if !after.take(")") {
            self.simple_ones(&mut after)?;
            after.expect(")")?;
        }
        self.blocks.pop();
        self.close(start, at)
    }

    /// What [`Self::simple`] reads, as often as commas stand between.
    fn simple_ones(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        self.simple(tokens)?;
        while tokens.take(",") {
            self.simple(tokens)?;
        }
        Ok(())
    }

    /// A declaration, an assignment or an expression, without what ends it.
    fn simple(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        let at = tokens.at();
        if tokens.peek().is_some_and(|token| is_type(&token.text) || token.text.contains("int128")) {
            return self.declaration(tokens);
        }
        let is_local =
            tokens.peek().is_some_and(|name| name.is_name() && !self.builder.memory.knows(&name.text));
        if is_local && tokens.peek().is_some_and(|name| self.local(&name.text).is_none()) {
            refuse_unknown_type(tokens)?;
        }
        if is_local && tokens.peek_at(1).is_some_and(|next| next.is("=")) {
            let name = tokens.name("a local")?;
            tokens.expect("=")?;
            let value = self.expression(tokens)?;
            let local = self.declare(name, if value.kind.is_pointer() { value.kind } else { Type::LONG })?;
            return self.write(local, value, at);
        }
        let before = [("++", "+"), ("--", "-")].into_iter().find(|(sign, _)| tokens.take(sign));
        let operand = self.operand(tokens)?;
        let one = Typed::int(Expression::Constant(1));
        if let Some((_, operator)) = before {
            return self.change(operand, operator, one, at);
        }
        let Some(operator) = assignment(tokens) else {
            // A value alone: a call whose result is not taken, or a load.
            return self.read(operand, at).map(drop);
        };
        match operator {
            None => {
                let value = self.expression(tokens)?;
                self.write(operand, value, at)
            }
            Some((operator, by_one)) => {
                let by = if by_one { one } else { self.expression(tokens)? };
                self.change(operand, operator, by, at)
            }
        }
    }

    /// Joins what is there with a value: of an atomic location in one step (C11 6.5.16.2).
    fn change(&mut self, operand: Operand, operator: &str, by: Typed, at: At) -> Result<(), ParseError> {
        if let Operand::Memory(address) = &operand
            && address.kind.points_to_atomic()
        {
            let location = address.kind.pointed_to();
            let Some(update) = fetch_operator(operator).map(Update::With) else {
                let message = format!(
                    "`{operator}=` of an atomic location is not supported: write a loop around a \
                     compare-and-exchange"
                );
                return Err(ParseError::unsupported(at, message));
            };
            let by = if location.is_pointer() { scaled(by, location.pointed_to(), at)? } else { by };
            return self.modify(address, update, by, (Ordering::SeqCst, false), at).map(drop);
        }
        let old = self.read(operand.clone(), at)?;
        let new = self.join(operator, old, by, at)?;
        self.write(operand, new, at)
    }

    fn declaration(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        let words = take_words(tokens)?;
        loop {
            let kind = take_stars(tokens, words);
            let name = tokens.name("a local")?;
            if tokens.peek().is_some_and(|next| next.is("[")) {
                let message = format!(
                    "the local array `{}` is not supported: declare it in the initial state",
                    name.text
                );
                return Err(ParseError::unsupported(name.at, message));
            }
            let value = if tokens.take("=") { Some(self.expression(tokens)?) } else { None };
            let local = self.declare_in_block(name, if kind.is_said() { kind } else { Type::LONG })?;
            if let Some(value) = value {
                self.write(local, value, name.at)?;
            }
            if !tokens.take(",") {
                return Ok(());
            }
        }
    }
}

impl Local {
    fn operand(&self) -> Operand {
        Operand::Local(self.register, Typed { value: Expression::Register(self.register), kind: self.kind })
    }
}

/// Whether the condition of the test comes next, which stands behind all threads.
fn asks(tokens: &Tokens<'_>) -> bool {
    let begins = |word: &str, next: &str| {
        tokens.peek().is_some_and(|token| token.is(word))
            && tokens.peek_at(1).is_some_and(|token| token.is(next))
    };
    begins("exists", "(") || begins("forall", "(") || begins("~", "exists") || begins("locations", "[")
}

/// Whether `atomic`, which comes next, is no type: a block follows, or a statement that wants to be one.
fn begins_block(tokens: &Tokens<'_>) -> bool {
    const OTHERS: [&str; 12] =
        ["{", "}", ";", "if", "while", "do", "for", "goto", "break", "continue", "return", "switch"];
    tokens.peek_at(1).is_none_or(|next| OTHERS.iter().any(|word| next.is(word)))
}

/// Takes `=`, `++`, `--`, or `=` behind an operator: by which operator the old value is joined, and whether with one.
fn assignment(tokens: &mut Tokens<'_>) -> Option<Option<(&'static str, bool)>> {
    for (text, meaning) in [
        ("=", None),
        ("|=", Some(("|", false))),
        ("&=", Some(("&", false))),
        ("^=", Some(("^", false))),
        ("*=", Some(("*", false))),
        ("+=", Some(("+", false))),
        ("-=", Some(("-", false))),
        ("/=", Some(("/", false))),
        ("%=", Some(("%", false))),
        ("<<=", Some(("<<", false))),
        (">>=", Some((">>", false))),
        ("++", Some(("+", true))),
        ("--", Some(("-", true))),
    ] {
        if tokens.take(text) {
            return Some(meaning);
        }
    }
    None
}
