//! The initial state of a litmus test: `x=1; [y]=2; int z; uint64_t 0:rax=3; 1:EAX=x; int *p = &x; int t[2] = {1,2};`

use super::builder::{Builder, Dialect};
use super::program::{Value, Width};
use super::register::width_named;
use super::token::{ParseError, Token, Tokens};
use crate::MAX_THREADS;

/// Words that a type is made of, with the width that they mean.
const TYPES: [(&str, Option<Width>); 48] = {
    use Width::{Byte, Half, Long, Word};
    [
        ("char", Some(Byte)),
        ("int8_t", Some(Byte)),
        ("uint8_t", Some(Byte)),
        ("s8", Some(Byte)),
        ("u8", Some(Byte)),
        ("bool", Some(Byte)),
        ("_Bool", Some(Byte)),
        ("atomic_bool", Some(Byte)),
        ("atomic_char", Some(Byte)),
        ("short", Some(Half)),
        ("int16_t", Some(Half)),
        ("uint16_t", Some(Half)),
        ("s16", Some(Half)),
        ("u16", Some(Half)),
        ("atomic_short", Some(Half)),
        ("int", Some(Word)),
        ("int32_t", Some(Word)),
        ("uint32_t", Some(Word)),
        ("s32", Some(Word)),
        ("u32", Some(Word)),
        ("atomic_int", Some(Word)),
        ("atomic_uint", Some(Word)),
        ("atomic_t", Some(Word)),
        ("long", Some(Long)),
        ("int64_t", Some(Long)),
        ("uint64_t", Some(Long)),
        ("s64", Some(Long)),
        ("u64", Some(Long)),
        ("atomic_long", Some(Long)),
        ("atomic_ulong", Some(Long)),
        ("atomic_llong", Some(Long)),
        ("atomic_ullong", Some(Long)),
        ("atomic64_t", Some(Long)),
        ("size_t", Some(Long)),
        ("intptr_t", Some(Long)),
        ("uintptr_t", Some(Long)),
        ("atomic_intptr_t", Some(Long)),
        ("atomic_uintptr_t", Some(Long)),
        ("intptr", Some(Long)),
        ("uintptr", Some(Long)),
        ("unsigned", None),
        ("signed", None),
        ("volatile", None),
        ("const", None),
        ("static", None),
        ("register", None),
        ("_Atomic", None),
        ("atomic", None),
    ]
};

/// Whether a word is part of a type.
pub(super) fn is_type(word: &str) -> bool {
    TYPES.iter().any(|(name, _)| *name == word)
}

/// The value of a word that is a constant of C.
pub(super) fn constant(word: &str) -> Option<Value> {
    match word {
        "true" => Some(1),
        "false" | "NULL" => Some(0),
        _ => None,
    }
}

/// What the words of a type say.
pub(super) struct Type {
    /// The width of what it describes; none if they do not say it.
    width: Option<Width>,
    /// What of it is atomic, and of what it points to.
    pub(super) atomic: Levels,
    /// Stars stand behind them.
    pub(super) is_pointer: bool,
}

/// What of a type is atomic: what it describes, what that points to, what this points to, and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Levels {
    /// As bits, the lowest for what the type describes.
    bits: u32,
    /// Stars so far.
    stars: u32,
}

impl Levels {
    /// Nothing of it.
    pub(super) const NONE: Self = Self { bits: 0, stars: 0 };

    /// Another star: of a pointer to it.
    pub(super) fn behind_star(self) -> Self {
        Self { bits: self.bits << 1, stars: self.stars.saturating_add(1) }
    }

    /// Of what it points to.
    pub(super) fn pointed_to(self) -> Self {
        Self { bits: self.bits >> 1, stars: self.stars.saturating_sub(1) }
    }

    /// Of the type without its stars.
    pub(super) fn without_stars(self) -> Self {
        Self { bits: self.bits.checked_shr(self.stars).unwrap_or(0), stars: 0 }
    }

    pub(super) fn has_stars(self) -> bool {
        self.stars > 0
    }

    /// Whether what it points to is atomic.
    pub(super) fn points_to_atomic(self) -> bool {
        self.bits & 2 != 0
    }
}

/// Takes the words of a type, with its stars.
pub(super) fn take_type(tokens: &mut Tokens<'_>) -> Result<Type, ParseError> {
    take_more(tokens, Levels::NONE)
}

/// The same behind words of which this is known.
pub(super) fn take_more(tokens: &mut Tokens<'_>, mut atomic: Levels) -> Result<Type, ParseError> {
    let mut width = None;
    let mut is_pointer = false;
    let mut parentheses = 0;
    while let Some(token) = tokens.peek() {
        match TYPES.iter().find(|(name, _)| token.is(name)) {
            Some((name, of_word)) => {
                atomic.bits |= u32::from(name.to_ascii_lowercase().contains("atomic"));
                // `long int` is long, `unsigned` alone an int.
                if !(*name == "int" && width.is_some()) {
                    width = of_word
                        .or(width)
                        .or((*name == "unsigned" || *name == "signed").then_some(Width::Word));
                }
                // `_Atomic(int)`
                if (*name == "_Atomic" || *name == "atomic")
                    && tokens.peek_at(1).is_some_and(|next| next.is("("))
                {
                    tokens.next();
                    parentheses += 1;
                }
            }
            None if token.is("*") => {
                (width, is_pointer) = (None, true);
                // `_Atomic(int*)` is an atomic pointer.
                if parentheses == 0 {
                    atomic = atomic.behind_star();
                }
            }
            None if token.is(")") && parentheses > 0 => parentheses -= 1,
            None if token.text.starts_with("__") && token.text.contains("int128") => {
                return Err(ParseError::unsupported(token.at, "values of 128 bits are not supported"));
            }
            None if ["struct", "union", "float", "double"].contains(&token.text.as_str()) => {
                let message = format!("`{}` is not supported; whole numbers and pointers are", token.text);
                return Err(ParseError::unsupported(token.at, message));
            }
            None => break,
        }
        tokens.next();
    }
    Ok(Type { width, atomic, is_pointer })
}

/// Refuses a type that is not known: a word where a type may stand, before a name or stars and a name.
pub(super) fn refuse_unknown_type(tokens: &Tokens<'_>) -> Result<(), ParseError> {
    let Some(word) = tokens.peek().filter(|word| word.is_name() && !is_type(&word.text)) else {
        return Ok(());
    };
    let mut ahead = 1;
    while tokens.peek_at(ahead).is_some_and(|token| token.is("*")) {
        ahead += 1;
    }
    let is_register = tokens.peek_at(ahead + 1).is_some_and(|token| token.is(":"));
    if is_register || tokens.peek_at(ahead).is_some_and(Token::is_name) {
        return Err(ParseError::unsupported(word.at, format!("the type `{}` is not supported", word.text)));
    }
    Ok(())
}

/// Reads the initial state with both braces, and what ends it.
pub(super) fn state(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<(), ParseError> {
    tokens.expect("{")?;
    note_arrays(tokens.clone(), builder);
    loop {
        while tokens.take(";") || tokens.take(",") {}
        if tokens.take("}") {
            while tokens.take(";") {}
            return Ok(());
        }
        if tokens.is_empty() {
            return Err(tokens.unexpected("`}` after the initial state"));
        }
        let before = tokens.at();
        let Type { width, .. } = take_type(tokens)?;
        let typed = before != tokens.at();
        refuse_unknown_type(tokens)?;
        if tokens.peek_at(1).is_some_and(|next| next.is(":")) {
            register(tokens, builder)?;
        } else {
            location(tokens, builder, width, typed)?;
        }
        if !tokens.peek().is_some_and(|token| token.is(";") || token.is("}") || token.is(",")) {
            return Err(tokens.unexpected("`;` or `}`"));
        }
    }
}

/// Notes the arrays of the initial state, each of which may be pointed to before it is declared. What is wrong with one is said where it
/// stands.
fn note_arrays(mut tokens: Tokens<'_>, builder: &mut Builder) {
    loop {
        while tokens.take(";") || tokens.take(",") {}
        let before = tokens.at();
        let Ok(Type { width, .. }) = take_type(&mut tokens) else { return };
        let typed = before != tokens.at();
        let name = tokens.peek().filter(|name| name.is_name());
        let index = match name {
            Some(_) => {
                tokens.next();
                index(&mut tokens)
            }
            None => Ok(None),
        };
        let Ok(index) = index else { return };
        let has_value = tokens.take("=");
        let mut values = 0;
        let is_list = has_value && tokens.take("{");
        if is_list {
            let mut list = tokens.until("}");
            while !list.is_empty() {
                list.until(",");
                values += 1;
            }
        }
        let is_declaration = is_list || index.is_some() && (typed || !has_value);
        if let Some(name) = name.filter(|_| is_declaration) {
            let length =
                index.flatten().map_or(values, |length| usize::try_from(length).unwrap_or(usize::MAX));
            let width = width_of(builder.dialect, width);
            builder.memory.note_array(&name.text, width, length);
        }
        while tokens.peek().is_some_and(|token| ![";", ",", "}"].contains(&token.text.as_str())) {
            tokens.next();
        }
        if tokens.is_empty() || tokens.take("}") {
            return;
        }
    }
}

/// Every location of C is eight bytes wide here: C has no accesses of mixed sizes.
fn width_of(dialect: Dialect, declared: Option<Width>) -> Option<Width> {
    if dialect == Dialect::C { Some(Width::Long) } else { declared }
}

fn register(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<(), ParseError> {
    let at = tokens.at();
    let thread = tokens.next().map_or("", |token| &token.text);
    let number = thread.trim_start_matches(['P', 'T']).parse::<usize>();
    let Some(number) = number.ok().filter(|&number| number < MAX_THREADS) else {
        return Err(ParseError::new(at, format!("`{thread}` is no thread number")));
    };
    tokens.expect(":")?;
    tokens.take("%");
    let name = tokens.name("a register")?;
    let register = builder.register_named(number, &name.text, name.at)?;
    if tokens.take("=") {
        let value = value(tokens, builder)?;
        let held = &mut builder.program.registers[number][register];
        *held = match builder.dialect {
            Dialect::C => value,
            dialect => written(dialect, *held, value, &name.text),
        };
    }
    Ok(())
}

/// What a register of x86 holds when the initial state gives a value to it, or to a part of it: what an instruction would leave that
/// writes it. In a test of registers of four bytes what is written to all of them stays a number with a sign.
fn written(dialect: Dialect, before: Value, value: Value, name: &str) -> Value {
    let width = width_named(name).unwrap_or(Width::Long);
    match width {
        Width::Long => value,
        Width::Word if dialect == Dialect::X86 => value,
        Width::Word => value & ((1 << width.bits()) - 1),
        Width::Half | Width::Byte => {
            let mask = (1 << width.bits()) - 1;
            before & !mask | value & mask
        }
    }
}

fn location(
    tokens: &mut Tokens<'_>,
    builder: &mut Builder,
    width: Option<Width>,
    typed: bool,
) -> Result<(), ParseError> {
    let width = width_of(builder.dialect, width);
    let bracket = tokens.take("[");
    let name = tokens.name("a location or `thread:register`")?;
    let index = index(tokens)?;
    if bracket {
        tokens.expect("]")?;
    }
    let values = tokens.take("=").then(|| values(tokens, builder)).transpose()?;
    let (at, name) = (name.at, name.text.as_str());
    let is_declaration = match (&index, &values) {
        (Some(_), Some(Values::One(_))) => typed && !builder.memory.is_array(name),
        (Some(_), _) => true,
        (None, Some(Values::Many(_))) => true,
        (None, _) => false,
    };
    if !is_declaration {
        if index.is_none() {
            builder.memory.declare(name, width, None, at)?;
        }
        let location = builder.memory.location(name, index.flatten(), at)?;
        if let Some(Values::One(value)) = values {
            builder.memory.set_initial(location, value);
        }
        return Ok(());
    }
    let values = match values {
        Some(Values::Many(values)) => values,
        Some(Values::One(value)) => vec![value],
        None => Vec::new(),
    };
    let length = index.flatten().map_or(values.len(), |length| usize::try_from(length).unwrap_or(usize::MAX));
    if values.len() > length {
        return Err(ParseError::new(
            at,
            format!("`{name}` has {length} elements, and {} values", values.len()),
        ));
    }
    builder.memory.declare(name, width, Some(length), at)?;
    for (index, value) in values.into_iter().enumerate() {
        let location = builder.memory.location(name, Some(index as Value), at)?;
        builder.memory.set_initial(location, value);
    }
    Ok(())
}

/// `[3]`, or `[]` with nothing in it.
pub(super) fn index(tokens: &mut Tokens<'_>) -> Result<Option<Option<Value>>, ParseError> {
    if !tokens.take("[") {
        return Ok(None);
    }
    if tokens.take("]") {
        return Ok(Some(None));
    }
    let index = tokens.number()?;
    tokens.expect("]")?;
    Ok(Some(Some(index)))
}

enum Values {
    One(Value),
    Many(Vec<Value>),
}

fn values(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<Values, ParseError> {
    if !tokens.take("{") {
        return Ok(Values::One(value(tokens, builder)?));
    }
    let mut values = Vec::new();
    while !tokens.take("}") {
        values.push(value(tokens, builder)?);
        if !tokens.peek().is_some_and(|token| token.is("}")) {
            tokens.expect(",")?;
        }
    }
    Ok(Values::Many(values))
}

/// A number, an address such as `x`, `&x`, `&t[1]` or `x+4`, or one of these in a macro of the kernel's.
fn value(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<Value, ParseError> {
    if tokens.peek().is_some_and(|token| token.text.starts_with("ATOMIC") && token.text.contains("INIT")) {
        tokens.next();
        tokens.expect("(")?;
        let value = tokens.number()?;
        tokens.expect(")")?;
        return Ok(value);
    }
    let ampersand = tokens.take("&");
    let bracket = tokens.take("[");
    let value = match tokens.peek() {
        Some(name) if name.is_name() => {
            tokens.next();
            let constant = constant(&name.text).filter(|_| builder.dialect == Dialect::C && !ampersand);
            constant.map_or_else(|| address(tokens, builder, name), Ok)?
        }
        _ if ampersand || bracket => return Err(tokens.unexpected("a location")),
        _ => tokens.number()?,
    };
    if bracket {
        tokens.expect("]")?;
    }
    Ok(value)
}

/// What follows a name whose address is meant: `[1]` counts elements, `+4` bytes.
pub(super) fn address(
    tokens: &mut Tokens<'_>,
    builder: &mut Builder,
    name: &Token,
) -> Result<Value, ParseError> {
    let base = builder.memory.address(&name.text, name.at)?;
    if let Some(index) = index(tokens)? {
        let element = builder.memory.element(&name.text, name.at)?;
        return Ok(base.wrapping_add(index.unwrap_or(0).wrapping_mul(element)));
    }
    if tokens.take("+") {
        return Ok(base.wrapping_add(tokens.number()?));
    }
    Ok(base)
}
