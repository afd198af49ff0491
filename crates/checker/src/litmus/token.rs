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

/// Why a file is no litmus test, or not one that can be run here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {message}")]
pub struct ParseError {
    /// Where.
    pub at: At,
    /// What is wrong and what was expected.
    pub message: String,
}

impl ParseError {
    pub(super) fn new(at: At, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
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

    /// The number, decimal or hexadecimal.
    pub(super) fn number(&self) -> Option<i64> {
        let digits = self.text.trim_end_matches(['u', 'U', 'l', 'L']);
        match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(|value| value as i64),
            None => {
                digits.parse::<i64>().ok().or_else(|| digits.parse::<u64>().ok().map(|value| value as i64))
            }
        }
    }
}

/// A file with a position in it.
pub(super) struct Text<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    at: At,
}

impl<'a> Text<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.chars().peekable(), at: At { line: 1, column: 1 } }
    }

    pub(super) fn at(&self) -> At {
        self.at
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        if next == '\n' {
            self.at = At { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
        Some(next)
    }

    fn peek_second(&self) -> Option<char> {
        self.rest.clone().nth(1)
    }

    /// Skips blanks and comments: `(* *)`, which nest, `/* */` and `//`.
    pub(super) fn skip_blanks(&mut self) -> Result<(), ParseError> {
        while let Some(&next) = self.rest.peek() {
            let start = self.at;
            match (next, self.peek_second()) {
                (c, _) if c.is_whitespace() || c == '\u{feff}' => {
                    self.next();
                }
                ('(', Some('*')) if !self.is_pointer_cast() => self.skip_comment("(*", "*)", start)?,
                ('/', Some('*')) => self.skip_comment("/*", "*/", start)?,
                ('/', Some('/')) => while self.next().is_some_and(|c| c != '\n') {},
                _ => break,
            }
        }
        Ok(())
    }

    /// In C, `(*x` is an expression. A comment has a blank or a star after its opening, or ends in `*)`.
    fn is_pointer_cast(&self) -> bool {
        let line = self.rest.clone().take_while(|&c| c != '\n').collect::<String>();
        let inside = &line[2..];
        let named = inside.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let closes = inside.find(')');
        named && !inside.contains("*)") && closes.is_some()
    }

    fn skip_comment(&mut self, open: &str, close: &str, start: At) -> Result<(), ParseError> {
        let mut depth = 0;
        loop {
            let ahead = self.rest.clone().take(2).collect::<String>();
            if ahead.is_empty() {
                return Err(ParseError::new(start, format!("the comment that starts here has no `{close}`")));
            }
            if ahead == close {
                depth -= 1;
            } else if ahead == open && (depth == 0 || open == "(*") {
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
        while let Some(next) = self.next() {
            if next == '\n' {
                break;
            }
            line.push(next);
        }
        line
    }

    /// A word up to a blank.
    pub(super) fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(&next) = self.rest.peek() {
            if next.is_whitespace() {
                break;
            }
            word.push(next);
            self.next();
        }
        word
    }

    /// Skips everything before the next `{`; says whether there is one.
    pub(super) fn skip_to_brace(&mut self) -> bool {
        while let Some(&next) = self.rest.peek() {
            if next == '{' {
                return true;
            }
            if next == '"' {
                self.skip_string();
            } else {
                self.next();
            }
        }
        false
    }

    fn skip_string(&mut self) {
        let line = self.at.line;
        self.next();
        while self.at.line == line && self.next().is_some_and(|c| c != '"') {}
    }

    /// All tokens up to the end.
    pub(super) fn tokens(mut self) -> Result<Vec<Token>, ParseError> {
        let mut tokens = Vec::new();
        loop {
            self.skip_blanks()?;
            let at = self.at;
            let Some(&first) = self.rest.peek() else { return Ok(tokens) };
            let mut text = String::new();
            if first == '"' {
                self.skip_string();
                continue;
            }
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
            if is_word(first) {
                while let Some(&next) = self.rest.peek().filter(|&&c| is_word(c)) {
                    text.push(next);
                    self.next();
                }
            } else {
                text.push(first);
                self.next();
                const PAIRS: [&str; 12] =
                    ["/\\", "\\/", "==", "!=", "<=", ">=", "&&", "||", "->", "=>", "++", "--"];
                if let Some(&second) = self.rest.peek()
                    && PAIRS.contains(&format!("{first}{second}").as_str())
                {
                    text.push(second);
                    self.next();
                }
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
        let negative = self.take("-");
        match self.peek().and_then(Token::number) {
            Some(number) => {
                self.next();
                Ok(if negative { number.wrapping_neg() } else { number })
            }
            None => Err(self.unexpected("a number")),
        }
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
