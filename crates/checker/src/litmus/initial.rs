//! The initial state of a litmus test: `x=1; [y]=2; int z; uint64_t 0:rax=3; 1:EAX=x; int *p = &x; int t[2] = {1,2};`

use super::builder::{Builder, Dialect};
use super::program::{Number, Value, Width};
use super::register::width_named;
use super::token::{ParseError, Token, Tokens};
use super::types::{Type, refuse_unknown_type, take_type};
use crate::MAX_THREADS;

/// The value of a word that is a constant of C.
pub(super) fn constant(word: &str) -> Option<Value> {
    match word {
        "true" => Some(1),
        "false" | "NULL" => Some(0),
        _ => None,
    }
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
        let kind = declared(builder.dialect, take_type(tokens)?);
        let typed = before != tokens.at();
        refuse_unknown_type(tokens)?;
        if tokens.peek_at(1).is_some_and(|next| next.is(":")) {
            register(tokens, builder, kind)?;
        } else {
            location(tokens, builder, kind, typed)?;
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
        let Ok(kind) = take_type(&mut tokens) else { return };
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
            builder.memory.note_array(&name.text, declared(builder.dialect, kind), length);
        }
        while tokens.peek().is_some_and(|token| ![";", ",", "}"].contains(&token.text.as_str())) {
            tokens.next();
        }
        if tokens.is_empty() || tokens.take("}") {
            return;
        }
    }
}

/// What a declaration says of a location; none if it does not say it. A processor knows no pointers, and no bytes that are 0 or 1.
fn declared(dialect: Dialect, kind: Type) -> Option<Type> {
    let is_said = kind.is_said() && (dialect == Dialect::C || !kind.is_pointer());
    let kind = match kind.number() {
        Number::Bool if dialect != Dialect::C => Type::of(Number::Unsigned(Width::Byte)),
        _ => kind,
    };
    is_said.then_some(kind)
}

fn register(tokens: &mut Tokens<'_>, builder: &mut Builder, kind: Option<Type>) -> Result<(), ParseError> {
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
    let known = builder.type_of_register(number, register);
    match kind.or(known).filter(|_| builder.dialect == Dialect::C) {
        Some(kind) => builder.declare_register(number, register, kind, name.at),
        None => Ok(()),
    }
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
    kind: Option<Type>,
    typed: bool,
) -> Result<(), ParseError> {
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
            builder.memory.declare(name, kind, None, at)?;
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
    builder.memory.declare(name, kind, Some(length), at)?;
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
