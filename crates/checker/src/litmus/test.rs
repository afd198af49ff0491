//! A litmus file: header, initial state, threads, condition.

use std::collections::BTreeSet;

use super::builder::{Builder, Dialect};
use super::condition::{self, Condition, Observable, Quantifier};
use super::explore::{Finals, Limits};
use super::memory;
use super::program::{Fault, Final, Program, Value};
use super::token::{At, ParseError, Text, Tokens};
use super::{c, initial, x86};
use crate::model::Model;

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
    pub shown: Vec<Observable>,
    /// Where each step of each thread stands in the file.
    pub places: Vec<Vec<At>>,
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
            "X86" => Dialect::X86,
            "X86_64" => Dialect::X86_64,
            "C" | "C11" => Dialect::C,
            "" => {
                let message = "the file is empty; expected `X86`, `X86_64` or `C`, and a name";
                return Err(ParseError::new(at, message));
            }
            _ if architecture.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') => {
                let message = format!("tests for `{architecture}` are not supported; X86, X86_64 and C are");
                return Err(ParseError::unsupported(at, message));
            }
            _ => {
                let message = format!("expected `X86`, `X86_64` or `C`, and a name, found `{architecture}`");
                return Err(ParseError::new(at, message));
            }
        };
        let name = name_in(&text.line());
        if !text.skip_to_brace()? {
            return Err(ParseError::new(text.at(), "expected `{` and the initial state, found the end"));
        }
        if dialect == Dialect::C {
            text.expect_c();
        }
        let tokens = text.tokens()?;
        let end = tokens.last().map_or(at, |last| last.at);
        let mut tokens = Tokens::new(&tokens, end);
        let mut builder = Builder::new(dialect);
        if dialect == Dialect::C {
            c::note_parameters(tokens.clone(), &mut builder);
        }
        initial::state(&mut tokens, &mut builder)?;
        match dialect {
            Dialect::X86 | Dialect::X86_64 => x86::threads(&mut tokens, &mut builder)?,
            Dialect::C => c::threads(&mut tokens, &mut builder)?,
        }
        if builder.registers.len() > builder.program.threads.len() {
            let thread = builder.registers.len() - 1;
            let message = format!("the initial state names thread {thread}, which is not there");
            return Err(ParseError::new(at, message));
        }
        Self::with_condition(tokens, builder, name)
    }

    /// Reads what follows the threads.
    fn with_condition(
        mut tokens: Tokens<'_>,
        mut builder: Builder,
        name: String,
    ) -> Result<Self, ParseError> {
        let locations = builder.lay_memory()?;
        let mut shown = Vec::new();
        let mut filter = Condition::Constant(true);
        let mut asked = None;
        while let Some(token) = tokens.peek() {
            match token.text.as_str() {
                "locations" => {
                    tokens.next();
                    tokens.expect("[")?;
                    while !tokens.take("]") {
                        condition::parse_shown(&mut tokens, &mut builder, &mut shown)?;
                        if shown.len() > MOST_SHOWN {
                            let message = format!("`locations` names more than {MOST_SHOWN} places");
                            return Err(ParseError::unsupported(token.at, message));
                        }
                        while tokens.take(";") || tokens.take(",") {}
                    }
                }
                "filter" => {
                    tokens.next();
                    filter = condition::parse(&mut tokens, &mut builder)?;
                }
                // What other tools are told: how to run the test, which verdicts models give, what to show.
                "<<" => while tokens.next().is_some_and(|token| !token.is(">>")) {},
                "with" if asked.is_some() => skip_verdicts(&mut tokens),
                "show" if asked.is_some() => {
                    while tokens.peek().is_some_and(|next| next.at.line == token.at.line) {
                        tokens.next();
                    }
                }
                _ if asked.is_some() => return Err(tokens.unexpected("the end")),
                "exists" | "forall" | "~" | "not" | "final" | "cond" => {
                    let quantifier = quantifier(&mut tokens)?;
                    asked = Some((quantifier, condition::parse(&mut tokens, &mut builder)?));
                }
                // As herd has it.
                "(" => asked = Some((Quantifier::Exists, condition::parse(&mut tokens, &mut builder)?)),
                _ => {
                    return Err(tokens.unexpected("`exists`, `~exists`, `forall`, `locations` or `filter`"));
                }
            }
            tokens.take(";");
        }
        let (quantifier, condition) = asked.unwrap_or((Quantifier::Exists, Condition::Constant(true)));
        let Builder { dialect, program, registers, places, .. } = builder;
        Ok(Self {
            name,
            dialect,
            program,
            registers,
            locations,
            quantifier,
            condition,
            filter,
            shown,
            places,
        })
    }

    /// The name of a place, as herd would write it.
    #[must_use]
    pub fn name_of(&self, place: Observable) -> String {
        match place {
            Observable::Register(thread, register) => {
                let name = &self.registers[thread][register];
                match (self.dialect, name.strip_prefix('R')) {
                    (Dialect::X86, Some(rest)) if rest.starts_with(char::is_alphabetic) => {
                        format!("{thread}:E{rest}")
                    }
                    (Dialect::X86_64, _) => format!("{thread}:{}", name.to_lowercase()),
                    _ => format!("{thread}:{name}"),
                }
            }
            Observable::Memory(location) => format!("[{}]", self.locations[location]),
        }
    }

    /// A value as the test would write it.
    #[must_use]
    pub fn show(&self, value: Value) -> String {
        let cell = self.program.cells.iter().position(|cell| cell.address == value);
        cell.map_or_else(|| value.to_string(), |location| self.locations[location].clone())
    }

    /// Where a step stands that has no meaning, and why it has none.
    #[must_use]
    pub fn explain(&self, fault: &Fault) -> ParseError {
        let at = self.places.get(fault.thread).and_then(|places| places.get(fault.step));
        let at = at.copied().unwrap_or(At { line: 1, column: 1 });
        ParseError::unsupported(at, memory::fault_message(fault.kind, fault.address))
    }

    /// The places that the test speaks of: those of the condition, and those it wants shown.
    #[must_use]
    pub fn spoken_of(&self) -> Vec<Observable> {
        let mut places = Vec::new();
        self.condition.places(&mut places);
        let mut seen: BTreeSet<Observable> = places.iter().copied().collect();
        places.extend(self.shown.iter().filter(|&&place| seen.insert(place)));
        places
    }

    /// The end as far as the test speaks of it.
    #[must_use]
    pub fn project(&self, end: &Final) -> Vec<Value> {
        self.spoken_of().iter().map(|place| place.value(end)).collect()
    }

    /// All ends under a model, and what they say about the condition.
    #[must_use]
    pub fn judge(&self, model: Model) -> Judgement {
        self.judge_within(model, &Limits::default())
    }

    /// The same, but no further than the limits.
    #[must_use]
    pub fn judge_within(&self, model: Model, limits: &Limits) -> Judgement {
        let mut finals = self.program.explore_within(model, limits);
        finals.states.retain(|end| self.filter.holds(end));
        let spoken_of = self.spoken_of();
        let project = |end: &&Final| spoken_of.iter().map(|place| place.value(end)).collect::<Vec<_>>();
        let (holding, others) = finals.states.iter().partition::<Vec<_>, _>(|end| self.condition.holds(end));
        let count = |ends: Vec<&Final>| ends.iter().map(project).collect::<BTreeSet<_>>().len();
        Judgement { model, holding: count(holding), others: count(others), finals }
    }
}

/// Places that `locations` names at most, each as often as it is named.
const MOST_SHOWN: usize = 100_000;

/// The name that follows the architecture, without a comment behind it.
fn name_in(line: &str) -> String {
    let end = line.find("(*").or_else(|| line.find(';')).unwrap_or(line.len());
    line[..end].trim_end_matches([' ', '\t', '\r', ';']).trim().to_owned()
}

/// `with tso: exists; default: ~exists;`: verdicts of models that have names elsewhere.
fn skip_verdicts(tokens: &mut Tokens<'_>) {
    tokens.next();
    while tokens.peek_at(1).is_some_and(|next| next.is(":")) {
        tokens.until(";");
    }
}

/// `exists`, `~exists` and so on; older files say `final` and `cond`.
fn quantifier(tokens: &mut Tokens<'_>) -> Result<Quantifier, ParseError> {
    if tokens.take("~") || tokens.take("not") {
        tokens.expect("exists")?;
        return Ok(Quantifier::NotExists);
    }
    if tokens.take("final") || tokens.take("cond") {
        let asks =
            tokens.peek().is_some_and(|next| matches!(next.text.as_str(), "exists" | "forall" | "~" | "not"));
        return if asks { quantifier(tokens) } else { Ok(Quantifier::Exists) };
    }
    let forall = tokens.next().is_some_and(|token| token.is("forall"));
    Ok(if forall { Quantifier::Forall } else { Quantifier::Exists })
}

/// What a model says about a test.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The model.
    pub model: Model,
    /// In how many of the final states the condition holds, as far as the test speaks of them.
    pub holding: usize,
    /// In how many it does not.
    pub others: usize,
    /// All final states.
    pub finals: Finals,
}

impl Judgement {
    /// Whether the condition holds in some final state: "Allowed", otherwise "Forbidden".
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.holding > 0
    }

    /// Whether the model does what the test's quantifier asks. None if the exploration stopped before it could tell.
    #[must_use]
    pub const fn satisfies(&self, quantifier: Quantifier) -> Option<bool> {
        let (decides, so) = match quantifier {
            Quantifier::Exists => (self.holding > 0, true),
            Quantifier::NotExists => (self.holding > 0, false),
            Quantifier::Forall => (self.others > 0, false),
        };
        match (decides, self.finals.bounded) {
            (true, _) => Some(so),
            (false, false) => Some(!so),
            (false, true) => None,
        }
    }

    /// Whether the verdict stands although the exploration may have stopped early: what was seen is allowed.
    #[must_use]
    pub const fn is_decided(&self) -> bool {
        !self.finals.bounded || self.holding > 0
    }

    /// How often the condition holds, in herd's words. None if the exploration stopped before it could tell.
    #[must_use]
    pub const fn observation(&self) -> Option<&'static str> {
        match (self.holding, self.others) {
            (1.., 1..) => Some("Sometimes"),
            _ if self.finals.bounded => None,
            (0, _) => Some("Never"),
            (_, 0) => Some("Always"),
        }
    }
}
