//! What a litmus test asks of the final states.

use super::program::{Final, Value, address_of};
use super::test::Names;
use super::token::{ParseError, Tokens};

/// A register or a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A register of a thread.
    Register(usize, usize),
    /// A location.
    Memory(usize),
}

impl Place {
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
    Is(Place, Value),
    /// Two places hold the same.
    Same(Place, Place),
    /// Not so.
    Not(Box<Self>),
    /// Both.
    And(Box<Self>, Box<Self>),
    /// At least one.
    Or(Box<Self>, Box<Self>),
}

impl Condition {
    /// Whether it holds.
    #[must_use]
    pub fn holds(&self, end: &Final) -> bool {
        match self {
            Self::Constant(holds) => *holds,
            Self::Is(place, value) => same(place.value(end), *value),
            Self::Same(a, b) => same(a.value(end), b.value(end)),
            Self::Not(inner) => !inner.holds(end),
            Self::And(a, b) => a.holds(end) && b.holds(end),
            Self::Or(a, b) => a.holds(end) || b.holds(end),
        }
    }

    /// The places that it looks at, each once.
    pub fn places(&self, places: &mut Vec<Place>) {
        let mut add = |place: Place| {
            if !places.contains(&place) {
                places.push(place);
            }
        };
        match self {
            Self::Constant(_) => {}
            Self::Is(place, _) => add(*place),
            Self::Same(a, b) => {
                add(*a);
                add(*b);
            }
            Self::Not(inner) => inner.places(places),
            Self::And(a, b) | Self::Or(a, b) => {
                a.places(places);
                b.places(places);
            }
        }
    }
}

/// Equal, or equal in the four bytes that a word has: a file may write 4294967295 for -1.
fn same(a: Value, b: Value) -> bool {
    a == b
        || a as u64 >> 32 == 0 && b == Value::from(a as i32)
        || b as u64 >> 32 == 0 && a == Value::from(b as i32)
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

/// Reads a condition: `=>` binds least, then `\/`, then `/\`, then `~`.
pub(super) fn parse(tokens: &mut Tokens<'_>, names: &mut dyn Names) -> Result<Condition, ParseError> {
    nested(tokens, names, 0)
}

/// Parentheses and negations in one another at most.
const DEEPEST: usize = 200;

fn nested(tokens: &mut Tokens<'_>, names: &mut dyn Names, depth: usize) -> Result<Condition, ParseError> {
    let mut left = disjunction(tokens, names, depth)?;
    if tokens.take("=>") {
        let right = nested(tokens, names, deeper(tokens, depth)?)?;
        left = Condition::Or(Box::new(Condition::Not(Box::new(left))), Box::new(right));
    }
    Ok(left)
}

fn deeper(tokens: &Tokens<'_>, depth: usize) -> Result<usize, ParseError> {
    if depth == DEEPEST {
        return Err(ParseError::new(tokens.at(), format!("the condition is nested deeper than {DEEPEST}")));
    }
    Ok(depth + 1)
}

fn disjunction(
    tokens: &mut Tokens<'_>,
    names: &mut dyn Names,
    depth: usize,
) -> Result<Condition, ParseError> {
    let mut left = conjunction(tokens, names, depth)?;
    while tokens.take("\\/") || tokens.take("||") {
        left = Condition::Or(Box::new(left), Box::new(conjunction(tokens, names, depth)?));
    }
    Ok(left)
}

fn conjunction(
    tokens: &mut Tokens<'_>,
    names: &mut dyn Names,
    depth: usize,
) -> Result<Condition, ParseError> {
    let mut left = negation(tokens, names, depth)?;
    while tokens.take("/\\") || tokens.take("&&") {
        left = Condition::And(Box::new(left), Box::new(negation(tokens, names, depth)?));
    }
    Ok(left)
}

fn negation(tokens: &mut Tokens<'_>, names: &mut dyn Names, depth: usize) -> Result<Condition, ParseError> {
    if tokens.take("~") || tokens.take("not") || tokens.take("!") {
        let inner = negation(tokens, names, deeper(tokens, depth)?)?;
        return Ok(Condition::Not(Box::new(inner)));
    }
    if tokens.take("(") {
        let inner = nested(tokens, names, deeper(tokens, depth)?)?;
        tokens.expect(")")?;
        return Ok(inner);
    }
    if tokens.take("true") {
        return Ok(Condition::Constant(true));
    }
    if tokens.take("false") {
        return Ok(Condition::Constant(false));
    }
    let place = parse_place(tokens, names)?;
    let equal = tokens.take("=") || tokens.take("==");
    if !equal && !tokens.take("!=") && !tokens.take("<>") {
        return Err(tokens.unexpected("`=`"));
    }
    let atom = match tokens.peek() {
        Some(token) if token.is_name() && names.location_known(&token.text) => {
            let location = names.location(tokens.next().expect("peeked"))?;
            Condition::Is(place, address_of(location))
        }
        Some(token) if token.is("&") => {
            tokens.next();
            let location = names.location(tokens.name("a location")?)?;
            Condition::Is(place, address_of(location))
        }
        Some(token) if token.is("[") || tokens.peek_at(1).is_some_and(|next| next.is(":")) => {
            Condition::Same(place, parse_place(tokens, names)?)
        }
        _ => Condition::Is(place, tokens.number()?),
    };
    Ok(if equal { atom } else { Condition::Not(Box::new(atom)) })
}

/// A register as `0:EAX`, or a location as `x`, `[x]` or `*x`.
pub(super) fn parse_place(tokens: &mut Tokens<'_>, names: &mut dyn Names) -> Result<Place, ParseError> {
    let bracket = tokens.take("[");
    let star = !bracket && tokens.take("*");
    let threaded = tokens.peek_at(1).is_some_and(|next| next.is(":"));
    if !bracket && !star && threaded {
        let at = tokens.at();
        let thread = tokens.next().expect("peeked");
        let digits = thread.text.trim_start_matches(['P', 'T']);
        let number = digits.parse::<usize>().ok().filter(|&number| number < names.threads());
        let Some(number) = number else {
            return Err(ParseError::new(at, format!("there is no thread `{}`", thread.text)));
        };
        tokens.expect(":")?;
        tokens.take("%");
        let register = tokens.name("a register")?;
        return Ok(Place::Register(number, names.register(number, register)?));
    }
    let location = names.location(tokens.name("a location or `thread:register`")?)?;
    if bracket {
        tokens.expect("]")?;
    }
    Ok(Place::Memory(location))
}
