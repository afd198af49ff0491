//! Sites: how a lock is named in a profile, and how `--only` names it.
//!
//! | written           | the locks that are meant                                                                |
//! |-------------------|-----------------------------------------------------------------------------------------|
//! | `VARIABLE`        | those that lie in this variable                                                         |
//! | `VARIABLE+OFFSET` | the one that lies so many bytes into it                                                 |
//! | `VARIABLE@UNIT`   | those in the variable of this name that is in this source file, program or library, or that begins at this address of it; with an offset, too |
//! | `FILE+ADDRESS`    | the one at this address of a program or library without symbols, or that a call there makes |
//! | `FUNCTION`        | those that the function initialises or first takes, by itself or through wrappers of locks |
//! | `FUNCTION@STACK`  | those that lie in no variable and that a call with this stack initialises or first takes |
//! | `FUNCTION@`       | those that lie in no variable and that the function initialises                         |
//! | `FILE!ADDRESS`    | those that lie in no variable, that nothing initialises, and that the call instruction which ends before this address first takes |
//!
//! `STACK` stands for the return addresses of the call that initialised the lock, each relative to the start of its program or
//! library, in six hexadecimal digits; for a lock that nothing initialised, for the one return address behind all wrappers of
//! locks that lies lowest of all that it is taken from. So it is the same in every run of the same program with the same libraries,
//! whichever thread comes first. `FUNCTION@` and `FILE!ADDRESS` are written by the command alone, which has from a profile what else the function takes.

use symbols::symbol::{is_mangled, is_named};

/// Sites that the user may ask for in one run.
pub const LIMIT: usize = 15;

/// Places at most that all of them stand for, as a profile tells.
pub const PLACES: usize = 2048;

/// Bytes of their names: the kernel hands no variable of the environment on that has 128 KiB.
pub const PLACES_BYTES: usize = 120 << 10;

/// Comes between the places that one site of the user stands for.
pub const SEPARATOR: u8 = b'\t';

/// Return addresses of a stack that count.
pub const FRAMES: usize = 16;

/// A site, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site<'a> {
    /// Variable, file or function.
    pub name: &'a [u8],
    /// Which variable of the name, if it says so.
    pub unit: Option<Unit<'a>>,
    /// What narrows it down.
    pub which: Which,
}

/// Which of the locks of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// The one at this offset of the variable, or this address of the file.
    At(usize),
    /// Those that were made by a call with this stack.
    By(Stack),
    /// Those that a call in this function initialises, outside all variables.
    Initialised,
    /// Those that are taken by the call that returns to this address of the file.
    Call(usize),
}

/// What tells a variable from others of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit<'a> {
    /// The source file that it is in, as the table of symbols names it, or the program or library.
    File(&'a [u8]),
    /// Where it begins in the program or library.
    Start(usize),
}

impl<'a> Unit<'a> {
    fn parse(text: &'a [u8]) -> Self {
        match text.strip_prefix(b"0x").and_then(|_| number(text)) {
            Some(start) => Self::Start(start),
            None => Self::File(text),
        }
    }
}

impl<'a> Site<'a> {
    /// Reads a site. Numbers are decimal, or hexadecimal after `0x`; what is no number belongs to the name, as in `operator+`.
    pub fn parse(text: &'a [u8]) -> Self {
        let last =
            |mark| text.iter().rposition(|&byte| byte == mark).map(|at| (&text[..at], &text[at + 1..]));
        if let Some((name, digits)) = last(b'@')
            && let Some(stack) = Stack::parse(digits)
        {
            return Self { name, unit: None, which: Which::By(stack) };
        }
        if let Some(name) = text.strip_suffix(b"@") {
            return Self { name, unit: None, which: Which::Initialised };
        }
        if let Some((name, address)) = last(b'!').and_then(|(name, digits)| Some((name, number(digits)?))) {
            return Self { name, unit: None, which: Which::Call(address) };
        }
        let offset = last(b'+').and_then(|(name, digits)| Some((name, number(digits)?)));
        let (variable, which) =
            offset.map_or((text, Which::All), |(variable, offset)| (variable, Which::At(offset)));
        match variable.iter().position(|&byte| byte == b'@').filter(|&at| at > 0) {
            Some(at) => {
                let (name, unit) = (&variable[..at], Unit::parse(&variable[at + 1..]));
                Self { name, unit: Some(unit), which }
            }
            None => Self { name: variable, unit: None, which },
        }
    }

    /// Whether the locks of `other` are among those that this site means.
    pub fn covers(&self, other: &Site<'_>) -> bool {
        let same_name = self.name == other.name || self.unit.is_none() && is_named(other.name, self.name);
        same_name
            && (self.unit.is_none() || self.unit == other.unit)
            && (self.which == Which::All || self.which == other.which)
    }

    /// Whether a variable or function is the one that is named: its symbol, the source file that it is in, the program or library, and
    /// where it begins there.
    pub fn is_of(&self, symbol: &[u8], source: Option<&[u8]>, file: &[u8], start: usize) -> bool {
        match self.unit {
            None => is_named(symbol, self.name),
            Some(Unit::Start(of)) => of == start && is_named(symbol, self.name),
            // The file may have `lock` and, in a function, `lock.0`.
            Some(Unit::File(of)) if source == Some(of) => {
                symbol == self.name || is_mangled(symbol) && is_named(symbol, self.name)
            }
            Some(Unit::File(of)) => (file == of || has_version(symbol, of)) && is_named(symbol, self.name),
        }
    }

    /// Takes the number away by which a profile tells locks of one site apart, as in `worker#2`.
    pub fn without_number(text: &str) -> &str {
        match text.rsplit_once('#') {
            Some((site, number)) if number.parse::<u32>().is_ok() => site,
            _ => text,
        }
    }
}

/// Whether a symbol ends in `@` and this version, as linkers name what they copy from a library.
fn has_version(symbol: &[u8], version: &[u8]) -> bool {
    symbol.strip_suffix(version).is_some_and(|name| name.ends_with(b"@"))
}

fn number(digits: &[u8]) -> Option<usize> {
    let digits = core::str::from_utf8(digits).ok()?;
    match digits.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// Stands for a stack: 24 bits of a hash of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stack(u32);

/// Digits of a [`Stack`].
const DIGITS: usize = 6;

impl Stack {
    /// The stack of these return addresses, innermost first, each relative to the start of the program or library that it
    /// lies in; `None` for one that lies in neither, whose address is another one in each run.
    pub fn of(frames: impl IntoIterator<Item = Option<u64>>) -> Self {
        // FNV-1a, over words: Fowler, Noll and Vo.
        let hash = frames.into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, frame| {
            let hash = (hash ^ frame.unwrap_or(u64::MAX)).wrapping_mul(0x0100_0000_01b3);
            hash ^ hash >> 29
        });
        Self((hash ^ hash >> 24 ^ hash >> 48) as u32 & 0xff_ffff)
    }

    fn parse(digits: &[u8]) -> Option<Self> {
        if digits.len() != DIGITS || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u32::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok().map(Self)
    }
}

impl core::fmt::Display for Stack {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "{:0DIGITS$x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn a_site_is_a_name_an_offset_or_a_stack() {
        let which = |text: &'static str| {
            let site = Site::parse(text.as_bytes());
            (core::str::from_utf8(site.name).unwrap(), site.which)
        };
        assert_eq!(which("cache"), ("cache", Which::All));
        assert_eq!(which("cache+0x40"), ("cache", Which::At(0x40)));
        assert_eq!(which("cache+40"), ("cache", Which::At(40)));
        assert_eq!(which("A::operator+"), ("A::operator+", Which::All));
        assert_eq!(which("worker@00beef"), ("worker", Which::By(Stack(0xbeef))));
        assert_eq!(which("cache@a.c"), ("cache", Which::All));
        assert_eq!(which("cache@a.c+0x40"), ("cache", Which::At(0x40)));
        assert_eq!(which("worker@"), ("worker", Which::Initialised));
        assert_eq!(which("pool!0x1139"), ("pool", Which::Call(0x1139)));
        assert_eq!(which("A::operator!"), ("A::operator!", Which::All));
        assert_eq!(Site::without_number("worker@00beef#12"), "worker@00beef");
        assert_eq!(Site::without_number("a#b"), "a#b");
    }

    #[test]
    fn a_variable_is_told_from_others_of_its_name_by_its_source_file_or_its_start() {
        let is_of = |site: &str, symbol: &str, source: Option<&str>, start| {
            Site::parse(site.as_bytes()).is_of(
                symbol.as_bytes(),
                source.map(str::as_bytes),
                b"plugin.so",
                start,
            )
        };
        assert!(
            is_of("f::m@a.cc", "_ZZ1fvE1m", Some("a.cc"), 8) && !is_of("lock@a.c", "lock.0", Some("a.c"), 8)
        );
        assert!(is_of("lock", "lock", Some("a.c"), 8) && is_of("lock", "lock.3", None, 8));
        assert!(is_of("lock@a.c", "lock", Some("a.c"), 8) && !is_of("lock@a.c", "lock", Some("b.c"), 8));
        assert!(is_of("lock@0x8+0x40", "lock", Some("a.c"), 8) && !is_of("lock@0x8", "lock", Some("a.c"), 9));
        assert!(is_of("lock.3", "lock.3", None, 8) && !is_of("lock.3", "lock.4", None, 8));
        assert!(is_of("lock@V_1", "lock@V_1", None, 8) && is_of("lock@V_1", "lock@@V_1", None, 8));
        assert!(is_of("lock@plugin.so", "lock", None, 8) && !is_of("lock@a.c", "lock", None, 8));
    }

    #[test]
    fn a_name_covers_what_lies_in_it_and_no_part_of_a_name_does() {
        let covers =
            |one: &str, other: &str| Site::parse(one.as_bytes()).covers(&Site::parse(other.as_bytes()));
        assert!(
            covers("cache", "cache") && covers("cache", "cache+0x40") && covers("worker", "worker@00beef")
        );
        assert!(covers("cache+64", "cache+0x40") && covers("worker@00beef", "worker@00beef"));
        assert!(!covers("cache+0x40", "cache") && !covers("worker@00beef", "worker@00feed"));
        assert!(covers("lock", "lock@a.c") && covers("lock", "lock@a.c+0x8") && covers("lock", "lock.0"));
        assert!(
            covers("lock@a.c", "lock@a.c+0x8")
                && !covers("lock@a.c", "lock@b.c")
                && !covers("lock.0", "lock")
        );
        assert!(!covers("cach", "cache") && !covers("cache", "cache_of_names"));
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for frames in [&[][..], &[Some(1)], &[Some(0x1139), None, Some(0x2724a)]] {
            let stack = Stack::of(frames.iter().copied());
            let text = format!("f@{stack}");
            assert_eq!(Site::parse(text.as_bytes()).which, Which::By(stack));
        }
        assert_ne!(Stack::of([Some(1), Some(2)]), Stack::of([Some(2), Some(1)]));
        assert_ne!(Stack::of([Some(1)]), Stack::of([Some(1), None]));
    }
}
