//! A litmus file: header, initial state, threads, condition.

use super::condition::{self, Condition, Place, Quantifier};
use super::program::{Final, Finals, Program, Value, address_of};
use super::token::{At, ParseError, Text, Token, Tokens};
use super::{c, x86};
use crate::MAX_THREADS;
use crate::model::Model;

/// The language of a test's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Assembly of x86.
    X86,
    /// C with its atomics.
    C,
}

/// A litmus test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// The language of its threads.
    pub dialect: Dialect,
    /// What its threads do.
    pub program: Program,
    /// Of each thread the names of its registers.
    pub registers: Vec<Vec<String>>,
    /// The names of the locations.
    pub locations: Vec<String>,
    /// Which final states it asks for.
    pub quantifier: Quantifier,
    /// What it asks.
    pub condition: Condition,
    /// States for which this does not hold do not count.
    pub filter: Condition,
    /// What to show besides what the condition looks at.
    pub shown: Vec<Place>,
}

/// Names of registers and locations, known or made known.
pub(super) trait Names {
    fn threads(&self) -> usize;
    fn register(&mut self, thread: usize, name: &Token) -> Result<usize, ParseError>;
    fn location(&mut self, name: &Token) -> Result<usize, ParseError>;
    fn location_known(&self, name: &str) -> bool;
}

/// A test while it is read.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) dialect: Dialect,
    pub(super) program: Program,
    pub(super) registers: Vec<Vec<String>>,
    pub(super) locations: Vec<String>,
}

/// Locations or registers at most.
const MOST_NAMES: usize = 256;

impl Builder {
    fn new(dialect: Dialect) -> Self {
        let (program, registers) = (Program::default(), Vec::new());
        Self { dialect, program, registers, locations: Vec::new() }
    }

    pub(super) fn add_thread(&mut self, thread: usize, at: At) -> Result<(), ParseError> {
        if thread >= MAX_THREADS {
            return Err(ParseError::new(at, format!("thread {thread} is too many: {MAX_THREADS} at most")));
        }
        while self.program.threads.len() <= thread {
            self.program.threads.push(Vec::new());
            if self.registers.len() < self.program.threads.len() {
                self.registers.push(Vec::new());
                self.program.registers.push(Vec::new());
            }
        }
        Ok(())
    }

    fn know_registers_of(&mut self, thread: usize) {
        while self.registers.len() <= thread {
            self.registers.push(Vec::new());
            self.program.registers.push(Vec::new());
        }
    }

    /// The location of this name, made known if it was not.
    pub(super) fn location_named(&mut self, name: &str, at: At) -> Result<usize, ParseError> {
        if let Some(known) = self.locations.iter().position(|known| known == name) {
            return Ok(known);
        }
        if self.locations.len() == MOST_NAMES {
            return Err(ParseError::new(at, format!("more than {MOST_NAMES} locations")));
        }
        self.locations.push(name.to_owned());
        self.program.memory.push(0);
        Ok(self.locations.len() - 1)
    }

    /// The register of this name, made known if it was not.
    pub(super) fn register_named(&mut self, thread: usize, name: &str, at: At) -> Result<usize, ParseError> {
        let name = match self.dialect {
            Dialect::X86 => match x86::register(name) {
                Some((name, _)) => name,
                None => return Err(ParseError::new(at, format!("`{name}` is no register of x86"))),
            },
            Dialect::C => name.to_owned(),
        };
        self.know_registers_of(thread);
        if let Some(known) = self.registers[thread].iter().position(|known| *known == name) {
            return Ok(known);
        }
        if self.registers[thread].len() == MOST_NAMES {
            return Err(ParseError::new(at, format!("more than {MOST_NAMES} registers in thread {thread}")));
        }
        self.registers[thread].push(name);
        self.program.registers[thread].push(0);
        Ok(self.registers[thread].len() - 1)
    }

    /// A register that no program names.
    pub(super) fn fresh_register(&mut self, thread: usize) -> usize {
        self.know_registers_of(thread);
        let number = self.registers[thread].len();
        self.registers[thread].push(format!("_{number}"));
        self.program.registers[thread].push(0);
        number
    }
}

impl Names for Builder {
    fn threads(&self) -> usize {
        self.program.threads.len()
    }

    fn register(&mut self, thread: usize, name: &Token) -> Result<usize, ParseError> {
        self.register_named(thread, &name.text, name.at)
    }

    fn location(&mut self, name: &Token) -> Result<usize, ParseError> {
        self.location_named(&name.text, name.at)
    }

    fn location_known(&self, name: &str) -> bool {
        self.locations.iter().any(|known| known == name)
    }
}

impl Test {
    /// Reads a litmus file.
    ///
    /// # Errors
    /// The place and the reason when it is none, or uses what is not supported.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut text = Text::new(text);
        text.skip_blanks()?;
        let at = text.at();
        let architecture = text.word();
        let dialect = match architecture.to_ascii_uppercase().as_str() {
            "X86" | "X86_64" => Dialect::X86,
            "C" | "C11" => Dialect::C,
            "" => {
                return Err(ParseError::new(
                    at,
                    "the file is empty; expected `X86`, `X86_64` or `C`, and a name",
                ));
            }
            _ => {
                let known = "X86, X86_64 and C are supported";
                return Err(ParseError::new(
                    at,
                    format!("architecture `{architecture}` is not supported; {known}"),
                ));
            }
        };
        let name = text.line().trim().to_owned();
        if !text.skip_to_brace() {
            return Err(ParseError::new(text.at(), "expected `{` and the initial state, found the end"));
        }
        let tokens = text.tokens()?;
        let end = tokens.last().map_or(at, |last| last.at);
        let mut tokens = Tokens::new(&tokens, end);
        let mut builder = Builder::new(dialect);
        builder.program.moves_order = dialect == Dialect::X86;
        tokens.expect("{")?;
        initial_state(&mut tokens, &mut builder)?;
        match dialect {
            Dialect::X86 => {
                let att = architecture.eq_ignore_ascii_case("X86_64");
                x86::threads(&mut tokens, &mut builder, att)?;
            }
            Dialect::C => c::threads(&mut tokens, &mut builder)?,
        }
        if builder.registers.len() > builder.program.threads.len() {
            let thread = builder.registers.len() - 1;
            return Err(ParseError::new(
                at,
                format!("the initial state names thread {thread}, which is not there"),
            ));
        }
        rest(tokens, builder, name)
    }

    /// The name of a place.
    #[must_use]
    pub fn name_of(&self, place: Place) -> String {
        match place {
            Place::Register(thread, register) => format!("{thread}:{}", self.registers[thread][register]),
            Place::Memory(location) => format!("[{}]", self.locations[location]),
        }
    }

    /// A value as the test would write it.
    #[must_use]
    pub fn show(&self, value: Value) -> String {
        let location = super::program::location_at(value).and_then(|location| self.locations.get(location));
        location.map_or_else(|| value.to_string(), Clone::clone)
    }

    /// The end without what only the translation needed.
    pub(super) fn without_scratch(&self, mut end: Final) -> Final {
        for (values, names) in end.registers.iter_mut().zip(&self.registers) {
            values
                .iter_mut()
                .zip(names)
                .filter(|(_, name)| name.starts_with('_'))
                .for_each(|(value, _)| *value = 0);
        }
        end
    }

    /// The places that the test speaks of: those of the condition, and those it wants shown.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        self.condition.places(&mut places);
        for &place in &self.shown {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    /// All ends under a model, and what they say about the condition.
    #[must_use]
    pub fn judge(&self, model: Model) -> Judgement {
        let mut finals = self.program.explore(model);
        finals.states = std::mem::take(&mut finals.states)
            .into_iter()
            .filter(|end| self.filter.holds(end))
            .map(|end| self.without_scratch(end))
            .collect();
        let holding = finals.states.iter().filter(|end| self.condition.holds(end)).count();
        Judgement { model, holding, finals }
    }
}

/// What a model says about a test.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The model.
    pub model: Model,
    /// In how many of the final states the condition holds.
    pub holding: usize,
    /// All final states.
    pub finals: Finals,
}

impl Judgement {
    /// Whether the condition holds in some final state: "Allowed", otherwise "Forbidden".
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.holding > 0
    }

    /// Whether the model does what the test's quantifier asks.
    #[must_use]
    pub fn satisfies(&self, quantifier: Quantifier) -> bool {
        match quantifier {
            Quantifier::Exists => self.holding > 0,
            Quantifier::NotExists => self.holding == 0,
            Quantifier::Forall => self.holding == self.finals.states.len(),
        }
    }

    /// How often the condition holds, in herd's words.
    #[must_use]
    pub fn observation(&self) -> &'static str {
        match self.holding {
            0 => "Never",
            some if some == self.finals.states.len() => "Always",
            _ => "Sometimes",
        }
    }
}

const TYPES: [&str; 32] = [
    "int",
    "long",
    "short",
    "char",
    "unsigned",
    "signed",
    "volatile",
    "const",
    "atomic_int",
    "atomic_uint",
    "atomic_long",
    "atomic_ulong",
    "atomic_bool",
    "atomic_t",
    "_Atomic",
    "bool",
    "_Bool",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "intptr_t",
    "uintptr_t",
    "size_t",
    "spinlock_t",
    "static",
    "register",
    "struct",
];

/// Whether a word is part of a type.
pub(super) fn is_type(word: &str) -> bool {
    TYPES.contains(&word)
}

/// `x=1; [y]=2; int z; uint64_t 0:rax=3; 1:EAX=x; int *p = &x;` up to the closing brace.
fn initial_state(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<(), ParseError> {
    loop {
        while tokens.take(";") || tokens.take(",") {}
        if tokens.take("}") {
            return Ok(());
        }
        if tokens.is_empty() {
            return Err(tokens.unexpected("`}` after the initial state"));
        }
        while tokens.peek().is_some_and(|token| is_type(&token.text)) {
            tokens.next();
        }
        while tokens.take("*") {}
        let threaded = tokens.peek_at(1).is_some_and(|next| next.is(":"));
        if threaded {
            let at = tokens.at();
            let thread = tokens.next().expect("peeked");
            let number = thread.text.trim_start_matches(['P', 'T']).parse::<usize>();
            let Some(number) = number.ok().filter(|&number| number < MAX_THREADS) else {
                return Err(ParseError::new(at, format!("`{}` is no thread number", thread.text)));
            };
            tokens.expect(":")?;
            tokens.take("%");
            let register = tokens.name("a register")?;
            let register = builder.register(number, register)?;
            if tokens.take("=") {
                builder.program.registers[number][register] = initial_value(tokens, builder)?;
            }
        } else {
            let bracket = tokens.take("[");
            let name = tokens.name("a location or `thread:register`")?;
            let location = builder.location(name)?;
            if bracket {
                tokens.expect("]")?;
            } else if tokens.peek().is_some_and(|token| token.is("[")) {
                return Err(ParseError::new(tokens.at(), "arrays are not supported"));
            }
            if tokens.take("=") {
                builder.program.memory[location] = initial_value(tokens, builder)?;
            }
        }
        if !tokens.peek().is_some_and(|token| token.is(";") || token.is("}") || token.is(",")) {
            return Err(tokens.unexpected("`;` or `}`"));
        }
    }
}

fn initial_value(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<Value, ParseError> {
    let wrapped = tokens.peek().is_some_and(|token| token.text.starts_with("ATOMIC_"));
    if wrapped {
        tokens.next();
        tokens.expect("(")?;
        let value = tokens.number()?;
        tokens.expect(")")?;
        return Ok(value);
    }
    let ampersand = tokens.take("&");
    let bracket = tokens.take("[");
    let value = match tokens.peek() {
        Some(token) if token.is_name() => address_of(builder.location(tokens.next().expect("peeked"))?),
        _ if ampersand || bracket => return Err(tokens.unexpected("a location")),
        _ => tokens.number()?,
    };
    if bracket {
        tokens.expect("]")?;
    }
    Ok(value)
}

/// Words that end the threads.
pub(super) fn starts_condition(token: &Token) -> bool {
    matches!(token.text.as_str(), "exists" | "~" | "not" | "forall" | "locations" | "filter")
}

/// What follows the threads.
fn rest(mut tokens: Tokens<'_>, mut builder: Builder, name: String) -> Result<Test, ParseError> {
    let mut shown = Vec::new();
    let mut filter = Condition::Constant(true);
    let mut asked = None;
    while let Some(token) = tokens.peek() {
        match token.text.as_str() {
            "locations" => {
                tokens.next();
                tokens.expect("[")?;
                while !tokens.take("]") {
                    shown.push(condition::parse_place(&mut tokens, &mut builder)?);
                    while tokens.take(";") || tokens.take(",") {}
                }
            }
            "filter" => {
                tokens.next();
                filter = condition::parse(&mut tokens, &mut builder)?;
            }
            _ if asked.is_some() => return Err(tokens.unexpected("the end")),
            "exists" => {
                tokens.next();
                asked = Some((Quantifier::Exists, condition::parse(&mut tokens, &mut builder)?));
            }
            "forall" => {
                tokens.next();
                asked = Some((Quantifier::Forall, condition::parse(&mut tokens, &mut builder)?));
            }
            "~" | "not" => {
                tokens.next();
                tokens.expect("exists")?;
                asked = Some((Quantifier::NotExists, condition::parse(&mut tokens, &mut builder)?));
            }
            _ => return Err(tokens.unexpected("`exists`, `~exists`, `forall`, `locations` or `filter`")),
        }
        tokens.take(";");
    }
    let (quantifier, condition) = asked.unwrap_or((Quantifier::Exists, Condition::Constant(true)));
    let Builder { dialect, program, registers, locations, .. } = builder;
    Ok(Test { name, dialect, program, registers, locations, quantifier, condition, filter, shown })
}
