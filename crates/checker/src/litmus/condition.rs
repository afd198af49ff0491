//! What a litmus test asks of the final states.

use super::builder::{Builder, Dialect};
use super::initial;
use super::program::{Final, Value, Width};
use super::register::width_named;
use super::token::{ParseError, Token, Tokens};

/// A register or a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Observable {
    /// A register of a thread.
    Register(usize, usize),
    /// A location.
    Memory(usize),
}

impl Observable {
    /// What it holds at the end.
    #[must_use]
    pub fn value(self, end: &Final) -> Value {
        match self {
            Self::Register(thread, register) => end.registers[thread][register],
            Self::Memory(location) => end.memory[location],
        }
    }
}

/// A condition on a final state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always, or never.
    Constant(bool),
    /// The place holds the value.
    Is(Observable, Value),
    /// So many bytes of a register, the lowest, hold the value.
    Part(Observable, Width, Value),
    /// Two places hold the same.
    Same(Observable, Observable),
    /// Not so.
    Not(Box<Self>),
    /// Every one.
    All(Vec<Self>),
    /// At least one.
    Any(Vec<Self>),
}

impl Condition {
    /// Whether it holds.
    #[must_use]
    pub fn holds(&self, end: &Final) -> bool {
        match self {
            Self::Constant(holds) => *holds,
            Self::Is(place, value) => same(place.value(end), *value),
            Self::Part(place, width, value) => holds_in(*width, place.value(end), *value),
            Self::Same(a, b) => same(a.value(end), b.value(end)),
            Self::Not(inner) => !inner.holds(end),
            Self::All(parts) => parts.iter().all(|part| part.holds(end)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(end)),
        }
    }

    /// The places that it looks at, each once.
    pub fn places(&self, places: &mut Vec<Observable>) {
        let mut add = |place: Observable| {
            if !places.contains(&place) {
                places.push(place);
            }
        };
        match self {
            Self::Constant(_) => {}
            Self::Is(place, _) | Self::Part(place, ..) => add(*place),
            Self::Same(a, b) => {
                add(*a);
                add(*b);
            }
            Self::Not(inner) => inner.places(places),
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.places(places)),
        }
    }

    /// Writes what locations are compared with as these hold it: 255 in a byte is -1.
    pub(super) fn fit(&mut self, widths: &[Width]) {
        match self {
            Self::Is(Observable::Memory(location), value) => {
                let width = widths[*location];
                if width != Width::Long && *value >= 0 && *value < 1 << width.bits() {
                    *value = width.truncate(*value);
                }
            }
            Self::Not(inner) => inner.fit(widths),
            Self::All(parts) | Self::Any(parts) => parts.iter_mut().for_each(|part| part.fit(widths)),
            Self::Constant(_) | Self::Is(..) | Self::Part(..) | Self::Same(..) => {}
        }
    }
}

/// Equal, or equal in the four bytes that a word has: a file may write 4294967295 for -1.
fn same(a: Value, b: Value) -> bool {
    a == b
        || a as u64 >> 32 == 0 && b == Value::from(a as i32)
        || b as u64 >> 32 == 0 && a == Value::from(b as i32)
}

/// Whether so many bytes of a register hold a value, which is written with a sign or without.
fn holds_in(width: Width, held: Value, value: Value) -> bool {
    let low = width.truncate(value);
    let fits = low == value || value >> width.bits() == 0;
    fits && width.truncate(held) == low
}

/// Which final states a test asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// One in which the condition holds.
    Exists,
    /// None in which it holds.
    NotExists,
    /// All.
    Forall,
}

/// Reads a condition: `\/` binds least, then `/\`, then `=>`, then `~`, as herd has it.
pub(super) fn parse(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<Condition, ParseError> {
    disjunction(tokens, builder, 0)
}

/// Parentheses, negations and implications in one another at most.
const DEEPEST: usize = 200;

fn deeper(tokens: &Tokens<'_>, depth: usize) -> Result<usize, ParseError> {
    if depth == DEEPEST {
        let message = format!("the condition is nested deeper than {DEEPEST}");
        return Err(ParseError::unsupported(tokens.at(), message));
    }
    Ok(depth + 1)
}

fn implication(
    tokens: &mut Tokens<'_>,
    builder: &mut Builder,
    depth: usize,
) -> Result<Condition, ParseError> {
    let left = negation(tokens, builder, depth)?;
    if !tokens.take("=>") {
        return Ok(left);
    }
    let right = implication(tokens, builder, deeper(tokens, depth)?)?;
    Ok(Condition::Any(vec![Condition::Not(Box::new(left)), right]))
}

fn disjunction(
    tokens: &mut Tokens<'_>,
    builder: &mut Builder,
    depth: usize,
) -> Result<Condition, ParseError> {
    let mut parts = vec![conjunction(tokens, builder, depth)?];
    while tokens.take("\\/") || tokens.take("||") {
        parts.push(conjunction(tokens, builder, depth)?);
    }
    Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::Any(parts) })
}

fn conjunction(
    tokens: &mut Tokens<'_>,
    builder: &mut Builder,
    depth: usize,
) -> Result<Condition, ParseError> {
    let mut parts = vec![implication(tokens, builder, depth)?];
    while tokens.take("/\\") || tokens.take("&&") {
        parts.push(implication(tokens, builder, depth)?);
    }
    Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::All(parts) })
}

fn negation(tokens: &mut Tokens<'_>, builder: &mut Builder, depth: usize) -> Result<Condition, ParseError> {
    if tokens.take("~") || tokens.take("not") || tokens.take("!") {
        let inner = negation(tokens, builder, deeper(tokens, depth)?)?;
        return Ok(Condition::Not(Box::new(inner)));
    }
    if tokens.take("(") {
        let inner = disjunction(tokens, builder, deeper(tokens, depth)?)?;
        tokens.expect(")")?;
        return Ok(inner);
    }
    if tokens.take("true") {
        return Ok(Condition::Constant(true));
    }
    if tokens.take("false") {
        return Ok(Condition::Constant(false));
    }
    let at = tokens.at();
    let (place, part) = parse_place(tokens, builder)?;
    let is = |value| part.map_or(Condition::Is(place, value), |width| Condition::Part(place, width, value));
    let equal = tokens.take("=") || tokens.take("==");
    if !equal && !tokens.take("!=") && !tokens.take("<>") {
        return Err(tokens.unexpected("`=`"));
    }
    let atom = match tokens.peek() {
        Some(token)
            if token.is("[") || token.is("*") || tokens.peek_at(1).is_some_and(|next| next.is(":")) =>
        {
            let (other, part_of_other) = parse_place(tokens, builder)?;
            if part.into_iter().chain(part_of_other).any(|width| width != Width::Word) {
                let message =
                    "a part of a register is compared with a number only: two places are compared as a whole";
                return Err(ParseError::unsupported(at, message));
            }
            Condition::Same(place, other)
        }
        Some(token) if builder.dialect == Dialect::C && initial::constant(&token.text).is_some() => {
            tokens.next();
            is(initial::constant(&token.text).unwrap_or_default())
        }
        Some(token) if token.is("&") || token.is_name() => {
            tokens.take("&");
            let name = tokens.name("a location")?;
            refuse_unknown_location(builder, name)?;
            is(initial::address(tokens, builder, name)?)
        }
        _ => is(tokens.number()?),
    };
    Ok(if equal { atom } else { Condition::Not(Box::new(atom)) })
}

/// A register as `0:EAX` or `*0:EAX`, with the width that its name means if that is not all of it, or a location as `x`, `[x]`, `*x`,
/// `t[1]` or `[t[1]]`.
fn parse_place(
    tokens: &mut Tokens<'_>,
    builder: &mut Builder,
) -> Result<(Observable, Option<Width>), ParseError> {
    if tokens.peek_at(2).is_some_and(|next| next.is(":")) {
        tokens.take("*");
    }
    if !tokens.peek().is_some_and(|token| token.is("[") || token.is("*"))
        && tokens.peek_at(1).is_some_and(|next| next.is(":"))
    {
        return parse_register(tokens, builder);
    }
    let bracket = tokens.take("[");
    if !bracket {
        tokens.take("*");
    }
    let name = tokens.name("a location or `thread:register`")?;
    let index = initial::index(tokens)?.flatten();
    if bracket {
        tokens.expect("]")?;
    }
    refuse_unknown_location(builder, name)?;
    Ok((Observable::Memory(builder.memory.location(&name.text, index, name.at)?), None))
}

/// A name that neither the initial state nor a thread has is a slip, and would hold 0 for ever.
fn refuse_unknown_location(builder: &Builder, name: &Token) -> Result<(), ParseError> {
    if builder.memory.knows(&name.text) {
        return Ok(());
    }
    Err(ParseError::new(name.at, format!("there is no location `{}`", name.text)))
}

fn parse_register(
    tokens: &mut Tokens<'_>,
    builder: &mut Builder,
) -> Result<(Observable, Option<Width>), ParseError> {
    let at = tokens.at();
    let thread = tokens.next().map_or("", |token| &token.text);
    let number = thread.trim_start_matches(['P', 'T']).parse::<usize>();
    let number = number.ok().filter(|&number| number < builder.program.threads.len());
    let Some(number) = number else {
        return Err(ParseError::new(at, format!("there is no thread `{thread}`")));
    };
    tokens.expect(":")?;
    tokens.take("%");
    let register = tokens.name("a register")?;
    // A processor has its registers whether the thread names them or not.
    if builder.dialect == Dialect::C && !builder.knows_register(number, &register.text) {
        let message = format!("thread {number} has no register `{}`", register.text);
        return Err(ParseError::new(register.at, message));
    }
    let place = Observable::Register(number, builder.register_named(number, &register.text, register.at)?);
    let width = width_named(&register.text).filter(|_| builder.dialect != Dialect::C);
    Ok((place, width.filter(|&width| width != Width::Long)))
}

/// What stands in `locations [..]`: a place, with its type if the file says it, or a whole array.
pub(super) fn parse_shown(
    tokens: &mut Tokens<'_>,
    builder: &mut Builder,
    shown: &mut Vec<Observable>,
) -> Result<(), ParseError> {
    initial::take_type(tokens)?;
    match tokens.peek() {
        Some(array)
            if builder.memory.is_array(&array.text)
                && !tokens.peek_at(1).is_some_and(|next| next.is("[")) =>
        {
            tokens.next();
            let length = builder.memory.elements(&array.text);
            for index in 0..length {
                shown.push(Observable::Memory(builder.memory.location(
                    &array.text,
                    Some(index),
                    array.at,
                )?));
            }
        }
        _ => {
            if !tokens.peek().is_some_and(|name| builder.memory.knows(&name.text)) {
                initial::refuse_unknown_type(tokens)?;
            }
            shown.push(parse_place(tokens, builder)?.0);
            // A type may also follow, as in `x int*`; it changes nothing.
            initial::take_type(tokens)?;
            if let Some(word) = tokens.peek().filter(|word| word.is_name()) {
                let message = format!("the type `{}` is not supported", word.text);
                return Err(ParseError::unsupported(word.at, message));
            }
        }
    }
    Ok(())
}
