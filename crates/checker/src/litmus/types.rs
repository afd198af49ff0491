//! The types that initial states and threads in C write.

use super::program::{Number, Width};
use super::token::{ParseError, Token, Tokens};

/// The types of whole numbers with the words that name them. `char` has a sign, as on x86-64.
const NUMBERS: [(Number, &[&str]); 9] = {
    use Number::{Bool, Signed, Unsigned};
    use Width::{Byte, Half, Long, Word};
    [
        (Bool, &["bool", "_Bool", "atomic_bool", "atomic_flag"]),
        (Signed(Byte), &["char", "int8_t", "s8", "__s8", "atomic_char", "atomic_schar"]),
        (Unsigned(Byte), &["uint8_t", "u8", "__u8", "atomic_uchar"]),
        (Signed(Half), &["short", "int16_t", "s16", "__s16", "atomic_short"]),
        (Unsigned(Half), &["uint16_t", "u16", "__u16", "atomic_ushort"]),
        (Signed(Word), &["int", "int32_t", "s32", "__s32", "atomic_int", "atomic_t"]),
        (Unsigned(Word), &["uint32_t", "u32", "__u32", "atomic_uint"]),
        (
            Signed(Long),
            &[
                "long", "int64_t", "s64", "__s64", "atomic_long", "atomic_llong", "atomic64_t",
                "atomic_long_t", "intptr_t", "intptr", "ptrdiff_t", "ssize_t", "intmax_t", "atomic_intptr_t",
                "atomic_ptrdiff_t", "atomic_intmax_t",
            ],
        ),
        (
            Unsigned(Long),
            &[
                "uint64_t", "u64", "__u64", "atomic_ulong", "atomic_ullong", "uintptr_t", "uintptr",
                "size_t", "uintmax_t", "atomic_uintptr_t", "atomic_size_t", "atomic_uintmax_t",
            ],
        ),
    ]
};

/// Words that stand beside the word for a number, or behind a star.
const QUALIFIERS: [&str; 7] = ["volatile", "const", "static", "register", "restrict", "_Atomic", "atomic"];

fn number_named(word: &str) -> Option<Number> {
    NUMBERS.iter().find(|(_, names)| names.contains(&word)).map(|(number, _)| *number)
}

/// Whether a word is part of a type.
pub(super) fn is_type(word: &str) -> bool {
    ["signed", "unsigned", "void"].contains(&word)
        || QUALIFIERS.contains(&word)
        || number_named(word).is_some()
}

/// A type of C: numbers, or a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    /// The numbers at the end of all stars; none if nothing says what these are, as of `void *`.
    number: Option<Number>,
    levels: Levels,
}

impl Type {
    /// `int`, the type of what has none.
    pub(super) const INT: Self = Self::of(Number::Signed(Width::Word));
    /// The type of a local that no declaration gives a type: it holds every number as it is.
    pub(super) const LONG: Self = Self::of(Number::Signed(Width::Long));

    pub(super) const fn of(number: Number) -> Self {
        Self { number: Some(number), levels: Levels::NONE }
    }

    /// The numbers that hold its values. Addresses are numbers, too.
    pub(super) fn number(self) -> Number {
        match self.number {
            _ if self.is_pointer() => Number::Unsigned(Width::Long),
            Some(number) => number,
            None => Number::Signed(Width::Word),
        }
    }

    /// Whether its words say what it is.
    pub(super) fn is_said(self) -> bool {
        self.is_pointer() || self.number.is_some()
    }

    pub(super) fn is_pointer(self) -> bool {
        self.levels.stars > 0
    }

    /// The type of a pointer to it.
    pub(super) fn behind_star(self) -> Self {
        Self { levels: self.levels.behind_star(), ..self }
    }

    /// The type of what it points to.
    pub(super) fn pointed_to(self) -> Self {
        Self { levels: self.levels.pointed_to(), ..self }
    }

    /// The same type with nothing atomic in it.
    pub(super) fn plain(self) -> Self {
        Self { levels: Levels { bits: 0, ..self.levels }, ..self }
    }

    /// Whether what it points to is atomic.
    pub(super) fn points_to_atomic(self) -> bool {
        self.levels.bits & 2 != 0
    }
}

/// What of a type is atomic: what it describes, what that points to, what this points to, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Levels {
    /// As bits, the lowest for what the type describes.
    bits: u32,
    /// Stars so far.
    stars: u32,
}

impl Levels {
    /// Nothing of it.
    const NONE: Self = Self { bits: 0, stars: 0 };

    /// Another star: of a pointer to it.
    fn behind_star(self) -> Self {
        Self { bits: self.bits << 1, stars: self.stars.saturating_add(1) }
    }

    /// A star within the parentheses of `_Atomic(int*)`: the pointer is what the word before them makes atomic.
    fn behind_star_in_parentheses(self) -> Self {
        Self { bits: ((self.bits & !1) << 1) | (self.bits & 1), stars: self.stars.saturating_add(1) }
    }

    /// Of what it points to.
    fn pointed_to(self) -> Self {
        Self { bits: self.bits >> 1, stars: self.stars.saturating_sub(1) }
    }
}

/// Takes the words of a type, with its stars.
pub(super) fn take_type(tokens: &mut Tokens<'_>) -> Result<Type, ParseError> {
    let kind = take_words(tokens)?;
    Ok(take_stars(tokens, kind))
}

/// Takes the words of a type before its stars, which several declarations may share.
pub(super) fn take_words(tokens: &mut Tokens<'_>) -> Result<Type, ParseError> {
    let (mut number, mut is_signed) = (None, None);
    let mut levels = Levels::NONE;
    let mut parentheses = 0;
    while let Some(token) = tokens.peek() {
        let word = token.text.as_str();
        if is_type(word) {
            levels.bits |= u32::from(word.to_ascii_lowercase().contains("atomic"));
            match word {
                "signed" | "unsigned" => is_signed = Some(word == "signed"),
                "int" if number.is_some() => {} // `long int` is long
                _ => number = number_named(word).or(number),
            }
            // `_Atomic(int)`
            if (word == "_Atomic" || word == "atomic") && tokens.peek_at(1).is_some_and(|next| next.is("(")) {
                tokens.next();
                parentheses += 1;
            }
        } else if word == "*" && parentheses > 0 {
            levels = levels.behind_star_in_parentheses();
        } else if word == ")" && parentheses > 0 {
            parentheses -= 1;
        } else if word.starts_with("__") && word.contains("int128") {
            return Err(ParseError::unsupported(token.at, "values of 128 bits are not supported"));
        } else if ["struct", "union", "float", "double"].contains(&word) {
            let message = format!("`{word}` is not supported; whole numbers and pointers are");
            return Err(ParseError::unsupported(token.at, message));
        } else {
            break;
        }
        tokens.next();
    }
    let number = match (is_signed, number) {
        (None, number) | (_, number @ Some(Number::Bool)) => number,
        (Some(true), number) => Some(Number::Signed(number.map_or(Width::Word, Number::width))),
        (Some(false), number) => Some(Number::Unsigned(number.map_or(Width::Word, Number::width))),
    };
    Ok(Type { number, levels })
}

/// Takes the stars of a type, with the words that qualify the pointers.
pub(super) fn take_stars(tokens: &mut Tokens<'_>, mut kind: Type) -> Type {
    while let Some(token) = tokens.peek() {
        if token.is("*") {
            kind = kind.behind_star();
        } else if kind.is_pointer() && QUALIFIERS.contains(&token.text.as_str()) {
            kind.levels.bits |= u32::from(token.is("_Atomic"));
        } else {
            break;
        }
        tokens.next();
    }
    kind
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
