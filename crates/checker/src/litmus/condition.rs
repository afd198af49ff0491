//! What a litmus test asks of the final states.

use super::builder::{Builder, Dialect};
use super::initial;
use super::program::{Final, Value, Width};
use super::token::{At, ParseError, Token, Tokens};
use super::types::{refuse_unknown_type, take_type};

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
    /// So many bytes of the place, the lowest, hold the value, be that written with a sign or without.
    Is(Observable, Width, Value),
    /// So many bytes of the first place, the lowest, hold what the second one holds, be that read with a sign or without.
    Same(Observable, Width, Observable),
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
            Self::Is(place, width, value) => holds_in(*width, place.value(end), *value),
            Self::Same(a, width, b) => holds_in(*width, a.value(end), b.value(end)),
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
            Self::Is(place, ..) => add(*place),
            Self::Same(a, _, b) => {
                add(*a);
                add(*b);
            }
            Self::Not(inner) => inner.places(places),
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.places(places)),
        }
    }
}

/// Whether so many bytes of what is held are a value, which is written with a sign or without: 255 and -1 are the same in one byte.
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
    let (place, width) = parse_place(tokens, builder)?;
    let is = |value| Condition::Is(place, width, value);
    let equal = tokens.take("=") || tokens.take("==");
    if !equal && !tokens.take("!=") && !tokens.take("<>") {
        return Err(tokens.unexpected("`=`"));
    }
    let atom = match tokens.peek() {
        Some(token)
            if token.is("[") || token.is("*") || tokens.peek_at(1).is_some_and(|next| next.is(":")) =>
        {
            let other = parse_place(tokens, builder)?;
            same(builder.dialect, (place, width), other, at)?
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

/// A place, with how much of it is meant.
type Place = (Observable, Width);

/// That two places hold the same: the same bits if they are equally wide. Others are compared as numbers in C, where both have types. A
/// register of a processor has none: it is the same as a narrower place if it is what that holds, read with a sign or without.
fn same(dialect: Dialect, one: Place, other: Place, at: At) -> Result<Condition, ParseError> {
    let is_part = |(place, width): Place| matches!(place, Observable::Register(..)) && width < Width::Word;
    if dialect != Dialect::C && (is_part(one) || is_part(other)) {
        let message =
            "a part of a register is compared with a number only: two places are compared as a whole";
        return Err(ParseError::unsupported(at, message));
    }
    let (narrow, wide) = if one.1 <= other.1 { (one, other) } else { (other, one) };
    let as_numbers = dialect == Dialect::C && narrow.1 != wide.1;
    Ok(Condition::Same(narrow.0, if as_numbers { Width::Long } else { narrow.1 }, wide.0))
}

/// A register as `0:EAX` or `*0:EAX`, or a location as `x`, `[x]`, `*x`, `t[1]` or `[t[1]]`.
fn parse_place(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<Place, ParseError> {
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
    let location = builder.memory.location(&name.text, index, name.at)?;
    Ok((Observable::Memory(location), builder.program.cells[location].holds.width()))
}

/// A name that neither the initial state nor a thread has is a slip, and would hold 0 for ever.
fn refuse_unknown_location(builder: &Builder, name: &Token) -> Result<(), ParseError> {
    if builder.memory.knows(&name.text) {
        return Ok(());
    }
    Err(ParseError::new(name.at, format!("there is no location `{}`", name.text)))
}

fn parse_register(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<Place, ParseError> {
    let at = tokens.at();
    let thread = tokens.next().map_or("", |token| &token.text);
    let number = thread.trim_start_matches(['P', 'T']).parse::<usize>();
    let number = number.ok().filter(|&number| number < builder.program.threads.len());
    let Some(number) = number else {
        return Err(ParseError::new(at, format!("there is no thread `{thread}`")));
    };
    tokens.expect(":")?;
    tokens.take("%");
    let name = tokens.name("a register")?;
    // A processor has its registers whether the thread names them or not.
    if builder.dialect == Dialect::C && !builder.knows_register(number, &name.text) {
        let message = format!("thread {number} has no register `{}`", name.text);
        return Err(ParseError::new(name.at, message));
    }
    let register = builder.register_named(number, &name.text, name.at)?;
    let width = builder.width_of_register(number, register, &name.text);
    Ok((Observable::Register(number, register), width))
}

/// What stands in `locations [..]`: a place, with its type if the file says it, or a whole array.
pub(super) fn parse_shown(
    tokens: &mut Tokens<'_>,
    builder: &mut Builder,
    shown: &mut Vec<Observable>,
) -> Result<(), ParseError> {
    take_type(tokens)?;
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
                refuse_unknown_type(tokens)?;
            }
            shown.push(parse_place(tokens, builder)?.0);
            // A type may also follow, as in `x int*`; it changes nothing.
            take_type(tokens)?;
            if let Some(word) = tokens.peek().filter(|word| word.is_name()) {
                let message = format!("the type `{}` is not supported", word.text);
                return Err(ParseError::unsupported(word.at, message));
            }
        }
    }
    Ok(())
}
