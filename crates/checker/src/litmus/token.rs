//! Words and signs of a litmus file, each with its place.

use std::fmt;

/// A place in a file, both counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a file cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is no litmus test, or a damaged one.
    Malformed,
    /// It may well be one, but uses what is not supported here.
    Unsupported,
}

/// Why a file is no litmus test, or not one that can be run here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {message}")]
pub struct ParseError {
    /// Where.
    pub at: At,
    /// What is wrong and what was expected. Signs of the file that act on a terminal are escaped.
    pub message: String,
    /// Whose fault it is.
    pub trouble: Trouble,
}

impl ParseError {
    pub(super) fn new(at: At, message: impl Into<String>) -> Self {
        Self { at, message: harmless(&message.into()), trouble: Trouble::Malformed }
    }

    /// The file may be right; it asks for what is not there.
    pub(super) fn unsupported(at: At, message: impl Into<String>) -> Self {
        Self { trouble: Trouble::Unsupported, ..Self::new(at, message) }
    }
}

/// Letters of a message at most that come from the file.
const LONGEST_MESSAGE: usize = 300;

fn harmless(message: &str) -> String {
    let mut clean = String::new();
    for letter in message.chars().take(LONGEST_MESSAGE) {
        let is_plain = letter == ' ' || letter.is_ascii_graphic() || letter.is_alphanumeric();
        if is_plain { clean.push(letter) } else { clean.extend(letter.escape_default()) }
    }
    clean
}

/// One word or sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) at: At,
}

impl Token {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(super) fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }

    /// The number, decimal or hexadecimal; those above 2^63 - 1 are negative.
    pub(super) fn number(&self) -> Option<i64> {
        self.magnitude().map(|value| value as i64)
    }

    fn magnitude(&self) -> Option<u64> {
        let digits = self.digits();
        match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        }
    }

    /// Without the type that C writes behind a number.
    fn digits(&self) -> &str {
        self.text.trim_end_matches(['u', 'U', 'l', 'L'])
    }
}

/// A file with a position in it.
pub(super) struct Text {
    letters: Vec<char>,
    next: usize,
    at: At,
    /// The body is C: between braces after the first ones, `(*` starts no comment.
    is_c: bool,
    /// Braces that are open, and pairs of them that are over.
    braces: (usize, usize),
}

impl Text {
    pub(super) fn new(text: &str) -> Self {
        let at = At { line: 1, column: 1 };
        Self { letters: text.chars().collect(), next: 0, at, is_c: false, braces: (0, 0) }
    }

    /// From here on the threads are in C.
    pub(super) fn expect_c(&mut self) {
        self.is_c = true;
    }

    pub(super) fn at(&self) -> At {
        self.at
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.next).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.next += 1;
        if next == '\n' {
            self.at = At { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
        Some(next)
    }

    fn is_ahead(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, letter)| self.letters.get(self.next + index) == Some(&letter))
    }

    fn in_code(&self) -> bool {
        let (open, over) = self.braces;
        self.is_c && open > 0 && over > 0
    }

    /// Skips blanks and comments: `(* *)`, which nest, `/* */` and `//`.
    pub(super) fn skip_blanks(&mut self) -> Result<(), ParseError> {
        while let Some(next) = self.peek() {
            if next.is_whitespace() || next == '\u{feff}' {
                self.next();
            } else if self.is_ahead("(*") && !self.in_code() {
                self.skip_comment("(*", "*)")?;
            } else if self.is_ahead("/*") {
                self.skip_comment("/*", "*/")?;
            } else if self.is_ahead("//") {
                while self.next().is_some_and(|letter| letter != '\n') {}
            } else {
                break;
            }
        }
        Ok(())
    }

    fn skip_comment(&mut self, open: &str, close: &str) -> Result<(), ParseError> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            if self.peek().is_none() {
                return Err(ParseError::new(start, format!("the comment that starts here has no `{close}`")));
            }
            if self.is_ahead(close) {
                depth -= 1;
            } else if self.is_ahead(open) && (depth == 0 || open == "(*") {
                depth += 1;
            } else {
                self.next();
                continue;
            }
            self.next();
            self.next();
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// The rest of the line.
    pub(super) fn line(&mut self) -> String {
        let mut line = String::new();
        while let Some(next) = self.next().filter(|&letter| letter != '\n') {
            line.push(next);
        }
        line
    }

    /// A word up to a blank.
    pub(super) fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(next) = self.peek().filter(|letter| !letter.is_whitespace()) {
            word.push(next);
            self.next();
        }
        word
    }

    /// Skips what stands before the initial state: comments, a quoted one, and lines such as `Orig=PodWW Rfe`.
    /// Says whether there is a `{`.
    pub(super) fn skip_to_brace(&mut self) -> Result<bool, ParseError> {
        loop {
            self.skip_blanks()?;
            match self.peek() {
                None => return Ok(false),
                Some('{') => return Ok(true),
                Some('"') => self.skip_string(),
                Some(_) => {
                    self.word();
                }
            }
        }
    }

    fn skip_string(&mut self) {
        let line = self.at.line;
        self.next();
        while self.at.line == line && self.next().is_some_and(|c| c != '"') {}
    }

    /// All tokens up to the end.
    pub(super) fn tokens(mut self) -> Result<Vec<Token>, ParseError> {
        const SIGNS: [&str; 25] = [
            "<<=", ">>=", "/\\", "\\/", "==", "!=", "<>", "<=", ">=", "&&", "||", "->", "=>", "++", "--",
            "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<", ">>",
        ];
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let mut tokens = Vec::new();
        loop {
            self.skip_blanks()?;
            let at = self.at;
            let Some(first) = self.peek() else { return Ok(tokens) };
            if first == '"' {
                self.skip_string();
                continue;
            }
            let mut text = String::new();
            if is_word(first) {
                while let Some(next) = self.peek().filter(|&letter| is_word(letter)) {
                    text.push(next);
                    self.next();
                }
            } else {
                let sign = SIGNS.iter().find(|sign| self.is_ahead(sign));
                for _ in 0..sign.map_or(1, |sign| sign.len()) {
                    text.extend(self.next());
                }
            }
            match text.as_str() {
                "{" => self.braces.0 += 1,
                "}" => {
                    self.braces.0 = self.braces.0.saturating_sub(1);
                    self.braces.1 += usize::from(self.braces.0 == 0);
                }
                _ => {}
            }
            tokens.push(Token { text, at });
        }
    }
}

/// A row of tokens that is read from its start.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    tokens: &'a [Token],
    end: At,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(tokens: &'a [Token], end: At) -> Self {
        Self { tokens, end }
    }

    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.tokens.first()
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<&'a Token> {
        self.tokens.get(ahead)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn at(&self) -> At {
        self.peek().map_or(self.end, |token| token.at)
    }

    pub(super) fn next(&mut self) -> Option<&'a Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    /// Takes the next token if it is this one.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let there = self.peek().is_some_and(|token| token.is(text));
        if there {
            self.next();
        }
        there
    }

    pub(super) fn expect(&mut self, text: &str) -> Result<At, ParseError> {
        let at = self.at();
        if self.take(text) {
            return Ok(at);
        }
        Err(self.unexpected(&format!("`{text}`")))
    }

    pub(super) fn unexpected(&self, wanted: &str) -> ParseError {
        let found = self.peek().map_or("the end".to_owned(), |token| format!("`{}`", token.text));
        ParseError::new(self.at(), format!("expected {wanted}, found {found}"))
    }

    pub(super) fn name(&mut self, what: &str) -> Result<&'a Token, ParseError> {
        match self.peek() {
            Some(token) if token.is_name() => Ok(self.next().expect("peeked")),
            _ => Err(self.unexpected(what)),
        }
    }

    /// A number with an optional sign.
    pub(super) fn number(&mut self) -> Result<i64, ParseError> {
        let at = self.at();
        let negative = self.take("-");
        match self.peek().and_then(Token::magnitude) {
            Some(magnitude) if negative && magnitude > 1 << 63 => {
                Err(ParseError::new(at, format!("-{magnitude} does not fit into 64 bits")))
            }
            Some(magnitude) => {
                self.next();
                let number = magnitude as i64;
                Ok(if negative { number.wrapping_neg() } else { number })
            }
            None => Err(self.unexpected("a number")),
        }
    }

    /// A number of C: with a zero before it, octal.
    pub(super) fn c_number(&mut self) -> Result<i64, ParseError> {
        let octal = |token: &Token| {
            let digits = token.digits().strip_prefix('0')?;
            digits.starts_with(|digit: char| digit.is_ascii_digit()).then(|| u64::from_str_radix(digits, 8))
        };
        match self.peek().and_then(octal) {
            None => self.number(),
            Some(Ok(value)) => {
                self.next();
                Ok(value as i64)
            }
            Some(Err(_)) => Err(self.unexpected("an octal number, as the 0 before it says")),
        }
    }

    /// Whether this token is still to come.
    pub(super) fn has(&self, text: &str) -> bool {
        self.tokens.iter().any(|token| token.is(text))
    }

    /// The tokens before the next `end`, which is taken too; to the end of all if there is none.
    pub(super) fn until(&mut self, end: &str) -> Tokens<'a> {
        let length = self.tokens.iter().position(|token| token.is(end));
        let (part, rest) = self.tokens.split_at(length.unwrap_or(self.tokens.len()));
        let end_at = rest.first().map_or(self.end, |token| token.at);
        self.tokens = rest.get(1..).unwrap_or(&[]);
        Tokens { tokens: part, end: end_at }
    }
}
