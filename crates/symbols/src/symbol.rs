//! The short name of a symbol: what C++ calls it, without parameters, template arguments and return type
//! (`kyotocabinet::CacheDB::accept`); what C calls it, without what compilers and linkers append.
//!
//! Mangled names are those of the Itanium C++ ABI, section 5.1. Read is what names are made of; what stands in parameters
//! and template arguments is skipped. A name whose own parts refer back to arguments (rare: methods of closures in
//! templates) has no short form here. Of Rust's two manglings the older one is that of C++; today's (`_R…`) is read too.

use crate::rust_symbol;

/// A part of a name, from the outside in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A namespace, class, function or variable.
    Name(&'a [u8]),
    /// A constructor of the class before it.
    Constructor,
    /// A destructor of the class before it.
    Destructor,
    /// An operator, as it is written in C++.
    Operator(&'static str),
    /// A lambda expression.
    Lambda,
    /// A type without a name.
    Unnamed,
}

/// Calls `each` with the parts of a symbol's name. False if it has no short form.
pub fn visit<'a>(symbol: &'a [u8], each: &mut dyn FnMut(Part<'a>)) -> bool {
    // Such a name says itself where it ends, and in Rust's it may have dots before.
    if let Some(rest) = symbol.strip_prefix(b"_Z") {
        return Reader { rest, depth: 0, each }.name().is_some();
    }
    let symbol = without_version(symbol);
    if let Some(rest) = symbol.strip_prefix(b"_R") {
        // Here a dot begins what a compiler appends.
        return rust_symbol::visit(before(rest, b"."), &mut |name| each(Part::Name(name))).is_some();
    }
    each(Part::Name(without_suffixes(symbol)));
    true
}

/// The name without a version (`@@GLIBC_2.4`).
fn without_version(symbol: &[u8]) -> &[u8] {
    let end = symbol.iter().skip(1).position(|&byte| byte == b'@');
    end.map_or(symbol, |end| &symbol[..=end])
}

/// What compilers append to the names of copies and parts of functions, with a number behind it.
const NUMBERED_SUFFIXES: [&[u8]; 10] = [
    b"constprop", b"isra", b"part", b"cold", b"llvm", b"lto_priv", b"clone", b"simdclone", b"_omp_fn",
    b"__uniq",
];

/// And without a number.
const SUFFIXES: [&[u8]; 4] = [b"cold", b"isra", b"localalias", b"omp_outlined"];

/// The name without all suffixes of compilers: `f` of `f.part.0.isra.1`. Names of Go have dots themselves (`main.(*T).Lock`), and numbers
/// behind them (`main.f.func1.2`), so a number alone, as in C's `lock.3`, is a suffix only of a name without another dot.
fn without_suffixes(mut symbol: &[u8]) -> &[u8] {
    while let Some((name, last)) = at_last_dot(symbol) {
        let is_number = !last.is_empty() && last.iter().all(u8::is_ascii_digit);
        symbol = match at_last_dot(name) {
            Some((name, kind)) if is_number && NUMBERED_SUFFIXES.contains(&kind) => name,
            None if is_number => name,
            _ if SUFFIXES.contains(&last) => name,
            _ => break,
        };
    }
    symbol
}

/// What comes before and behind the last dot; `None` where nothing comes before it.
fn at_last_dot(symbol: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = symbol.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0)?;
    Some((&symbol[..dot], &symbol[dot + 1..]))
}

/// Whether a symbol is a mangled name of C++ or Rust.
pub fn is_mangled(symbol: &[u8]) -> bool {
    symbol.starts_with(b"_Z") || symbol.starts_with(b"_R")
}

/// Whether a symbol's short name is `name`; as it stands in the file counts too.
pub fn is_named(symbol: &[u8], name: &[u8]) -> bool {
    if symbol == name {
        return true;
    }
    let mut match_ = Matcher { rest: Some(name) };
    let known = visit_text(symbol, &mut |text| match_.take(text));
    known && match_.rest.is_some_and(<[u8]>::is_empty)
}

/// A piece of text that every symbol holds whose short name is `name`: its longest part of which a symbol has each letter. Empty if there
/// is none.
pub fn piece_of(name: &[u8]) -> &[u8] {
    const SPELT_OTHERWISE: [&[u8]; 7] =
        [b"std", b"allocator", b"basic_string", b"string", b"istream", b"ostream", b"iostream"];
    let is_spelt = |part: &&[u8]| {
        let is_plain = |byte: &u8| !matches!(byte, b'(' | b'{' | b'~' | b' ');
        let is_coded = SPELT_OTHERWISE.contains(part) || rust_symbol::has_code(part);
        !is_coded && !part.starts_with(b"operator") && part.iter().all(is_plain)
    };
    let parts = name.split(|&byte| byte == b':').map(|part| part.strip_prefix(b"~").unwrap_or(part));
    parts.filter(is_spelt).max_by_key(|part| part.len()).unwrap_or_default()
}

struct Matcher<'n> {
    rest: Option<&'n [u8]>,
}

impl Matcher<'_> {
    fn take(&mut self, text: &[u8]) {
        self.rest = self.rest.and_then(|rest| rest.strip_prefix(text));
    }
}

/// Calls `each` with the pieces of the short name's text. False if there is none.
fn visit_text(symbol: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
    let mut before: Option<&[u8]> = None;
    visit(symbol, &mut |part| {
        if before.is_some() {
            if matches!(part, Part::Name(name) if is_hash_of_rust(name)) {
                return;
            }
            each(b"::");
        }
        let class = before.unwrap_or_default();
        let name: &[u8] = match part {
            Part::Name(b"_GLOBAL__N_1") => b"(anonymous namespace)",
            Part::Name(name) => name,
            Part::Constructor => class,
            Part::Destructor => {
                each(b"~");
                class
            }
            Part::Operator(operator) => {
                each(b"operator");
                operator.as_bytes()
            }
            Part::Lambda => b"{lambda}",
            Part::Unnamed => b"{unnamed}",
        };
        each(name);
        before = Some(name);
    })
}

/// Whether this part of a name is what Rust's older mangling appends to it: `h` and 16 hexadecimal digits, another with each
/// compiler.
pub(crate) fn is_hash_of_rust(name: &[u8]) -> bool {
    matches!(name, [b'h', digits @ ..] if digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit))
}

/// The short name of a symbol; displays as nothing where there is none.
#[derive(Clone, Copy, Debug)]
pub struct ShortName<'a>(&'a [u8]);

impl<'a> ShortName<'a> {
    /// Of this symbol; `None` if it has none.
    pub fn of(symbol: &'a [u8]) -> Option<Self> {
        visit(symbol, &mut |_| {}).then_some(Self(symbol))
    }
}

impl core::fmt::Display for ShortName<'_> {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut result = Ok(());
        visit_text(self.0, &mut |text| {
            if result.is_err() {
                return;
            }
            for chunk in text.utf8_chunks() {
                result = result.and_then(|()| out.write_str(chunk.valid()));
                if !chunk.invalid().is_empty() {
                    result = result.and_then(|()| out.write_str("\u{fffd}"));
                }
            }
        });
        result
    }
}

/// Names in one another, and arguments of templates in one another, at most: this runs on whatever stack the program has.
const DEEPEST: usize = 24;

/// Reads a mangled name from its start. Every step answers `None` where the name goes on in a way that is not known.
struct Reader<'a, 'e> {
    rest: &'a [u8],
    /// Names within names.
    depth: usize,
    each: &'e mut dyn FnMut(Part<'a>),
}

/// Operators: their code, and how they are written.
const OPERATORS: [(&[u8; 2], &str); 49] = [
    (b"nw", " new"),
    (b"na", " new[]"),
    (b"dl", " delete"),
    (b"da", " delete[]"),
    (b"aw", " co_await"),
    (b"ps", "+"),
    (b"ng", "-"),
    (b"ad", "&"),
    (b"de", "*"),
    (b"co", "~"),
    (b"pl", "+"),
    (b"mi", "-"),
    (b"ml", "*"),
    (b"dv", "/"),
    (b"rm", "%"),
    (b"an", "&"),
    (b"or", "|"),
    (b"eo", "^"),
    (b"aS", "="),
    (b"pL", "+="),
    (b"mI", "-="),
    (b"mL", "*="),
    (b"dV", "/="),
    (b"rM", "%="),
    (b"aN", "&="),
    (b"oR", "|="),
    (b"eO", "^="),
    (b"ls", "<<"),
    (b"rs", ">>"),
    (b"lS", "<<="),
    (b"rS", ">>="),
    (b"eq", "=="),
    (b"ne", "!="),
    (b"lt", "<"),
    (b"gt", ">"),
    (b"le", "<="),
    (b"ge", ">="),
    (b"ss", "<=>"),
    (b"nt", "!"),
    (b"aa", "&&"),
    (b"oo", "||"),
    (b"pp", "++"),
    (b"mm", "--"),
    (b"cm", ","),
    (b"pm", "->*"),
    (b"pt", "->"),
    (b"cl", "()"),
    (b"ix", "[]"),
    (b"qu", "?"),
];

impl<'a> Reader<'a, '_> {
    fn take(&mut self, bytes: &[u8]) -> bool {
        let Some(rest) = self.rest.strip_prefix(bytes) else { return false };
        self.rest = rest;
        true
    }

    /// `<name>`.
    fn name(&mut self) -> Option<()> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let read = self.name_within();
        self.depth -= 1;
        read
    }

    fn name_within(&mut self) -> Option<()> {
        if self.take(b"N") {
            while self.take(b"r") || self.take(b"V") || self.take(b"K") || self.take(b"R") || self.take(b"O")
            {
            }
            while !self.take(b"E") {
                self.component()?;
            }
            return Some(());
        }
        if self.take(b"Z") {
            self.name()?;
            skip_to_end(&mut self.rest, 0)?; // the function's parameters
            if self.take(b"s") {
                return None; // a string literal
            }
            if self.take(b"d") {
                skip_number(&mut self.rest); // a default argument
            }
            return self.name();
        }
        if self.rest.starts_with(b"St") {
            self.component()?;
        }
        while self.take(b"L") {} // internal linkage
        self.component()?;
        while let [b'I' | b'B', ..] = self.rest {
            self.component()?;
        }
        Some(())
    }

    /// A namespace, class or function of a nested name, or what is said about the one before.
    fn component(&mut self) -> Option<()> {
        let (&first, after) = self.rest.split_first()?;
        match first {
            b'0'..=b'9' => {
                let name = source_name(&mut self.rest)?;
                visit_identifier(name, self.each);
            }
            b'L' | b'M' => self.rest = after, // internal linkage; the initialiser of a data member
            b'B' => {
                self.rest = after;
                source_name(&mut self.rest)?; // an ABI tag
            }
            b'I' => {
                self.rest = after;
                skip_to_end(&mut self.rest, 0)?;
            }
            b'S' => {
                let (&which, after) = after.split_first()?;
                self.rest = after;
                (self.each)(Part::Name(b"std"));
                (self.each)(Part::Name(match which {
                    b't' => return Some(()),
                    b'a' => b"allocator",
                    b'b' => b"basic_string",
                    b's' => b"string",
                    b'i' => b"istream",
                    b'o' => b"ostream",
                    b'd' => b"iostream",
                    _ => return None, // a back reference
                }));
            }
            b'C' if matches!(after.first(), Some(b'1'..=b'5')) => {
                self.rest = &after[1..];
                (self.each)(Part::Constructor);
            }
            b'D' if matches!(after.first(), Some(b'0'..=b'5')) => {
                self.rest = &after[1..];
                (self.each)(Part::Destructor);
            }
            b'U' => {
                let (&which, after) = after.split_first()?;
                self.rest = after;
                match which {
                    b'l' => {
                        skip_to_end(&mut self.rest, 0)?;
                        (self.each)(Part::Lambda);
                    }
                    b't' => (self.each)(Part::Unnamed),
                    _ => return None,
                }
                skip_number(&mut self.rest);
            }
            b'c' if after.first() == Some(&b'v') => return None, // a conversion: its name is a type
            b'a'..=b'z' => {
                let code = self.rest.get(..2)?;
                let (_, operator) = OPERATORS.iter().find(|(known, _)| known[..] == *code)?;
                self.rest = &self.rest[2..];
                (self.each)(Part::Operator(operator));
            }
            _ => return None,
        }
        Some(())
    }
}

/// An identifier. Rust's older mangling has types in them: of `_$LT$a..B$LT$T$GT$$u20$as$u20$c..D$GT$`, an implementation of a trait,
/// the parts are `a` and `B`, as in today's mangling, and of `Mutex$LT$T$GT$` it is `Mutex`.
fn visit_identifier<'a>(name: &'a [u8], each: &mut dyn FnMut(Part<'a>)) {
    if name.starts_with(b"_$u7b$$u7b$closure") {
        return each(Part::Name(b"{closure}"));
    }
    let Some(implementation) = name.strip_prefix(b"_$LT$") else {
        return each(Part::Name(before(before(name, b"$LT$"), b"$u7b$")));
    };
    const FOR: &[u8] = b"$u20$for$u20$";
    let of = position(implementation, FOR).map_or(implementation, |at| &implementation[at + FOR.len()..]);
    let mut rest = before(before(before(of, b"$u20$as$u20$"), b"$LT$"), b"$GT$");
    while let Some(at) = position(rest, b"..") {
        each(Part::Name(&rest[..at]));
        rest = &rest[at + 2..];
    }
    each(Part::Name(rest));
}

/// What comes before the first `end`; all of it if there is none.
fn before<'a>(text: &'a [u8], end: &[u8]) -> &'a [u8] {
    position(text, end).map_or(text, |at| &text[..at])
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// `<length><identifier>`.
fn source_name<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length: usize = core::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let name = rest.get(digits..digits.checked_add(length)?)?;
    *rest = &rest[digits + length..];
    Some(name)
}

/// `[<number>] _`.
fn skip_number(rest: &mut &[u8]) {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if rest.get(digits) == Some(&b'_') {
        *rest = &rest[digits + 1..];
    }
}

/// Everything up to and with the `E` that ends what has just been opened: types, template arguments, expressions. `within` counts the calls
/// in one another.
fn skip_to_end(rest: &mut &[u8], within: usize) -> Option<()> {
    if within == DEEPEST {
        return None;
    }
    let mut depth = 1usize;
    while depth > 0 {
        let (&first, after) = rest.split_first()?;
        let second = after.first().copied().unwrap_or(0);
        match first {
            b'E' => {
                *rest = after;
                depth -= 1;
            }
            b'N' | b'I' | b'X' | b'J' | b'F' | b'Z' => {
                *rest = after;
                depth += 1;
            }
            b'0'..=b'9' => {
                source_name(rest)?;
            }
            b'S' | b'T' if second == b'_' || second.is_ascii_digit() || second.is_ascii_uppercase() => {
                *rest = &rest[rest.iter().position(|&byte| byte == b'_')? + 1..];
            }
            b'S' | b'T' => *rest = after.get(1..)?,
            b'L' if second == b'_' => {
                *rest = after.get(2..)?; // `L_Z<encoding>E`
                depth += 1;
            }
            b'L' => {
                // `L<type><value>E`: the value is digits, which would look like the length of a name.
                *rest = after;
                match second {
                    b'N' => {
                        *rest = &after[1..];
                        skip_to_end(rest, within + 1)?;
                    }
                    b'0'..=b'9' => {
                        source_name(rest)?;
                    }
                    _ => {}
                }
                *rest = &rest[rest.iter().position(|&byte| byte == b'E')? + 1..];
            }
            b'D' => {
                *rest = after.get(1..)?;
                match second {
                    b't' | b'T' | b'O' | b'w' => depth += 1,
                    b'v' | b'F' => *rest = &rest[rest.iter().position(|&byte| byte == b'_')? + 1..],
                    _ => {}
                }
            }
            b'U' if second == b'l' => {
                *rest = &after[1..];
                skip_to_end(rest, within + 1)?;
                skip_number(rest);
            }
            b'U' if second == b't' => {
                *rest = &after[1..];
                skip_number(rest);
            }
            // A constructor, in which a lambda is.
            b'C' if matches!(second, b'1'..=b'5') => *rest = &after[1..],
            b'A' => {
                let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
                *rest = &after[digits..];
                *rest = rest.strip_prefix(b"_").unwrap_or(rest);
            }
            // The number of a name among those of a function: `_1`, or `__12_`.
            b'_' if second == b'_' => {
                *rest = &after[1..];
                skip_number(rest);
            }
            b'_' => *rest = &after[usize::from(second.is_ascii_digit())..],
            _ => *rest = after,
        }
    }
    Some(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::format;
    use std::string::ToString;

    /// What is searched for in place of a name is in the symbol, if that has a name at all.
    pub(crate) fn assert_holds_its_piece(symbol: &[u8]) {
        let Some(name) = ShortName::of(symbol).map(|name| name.to_string()) else { return };
        let piece = piece_of(name.as_bytes());
        let holds = piece.is_empty() || position(symbol, piece).is_some();
        assert!(holds, "{}: {name}, {}", symbol.escape_ascii(), piece.escape_ascii());
    }

    #[test]
    fn the_piece_of_a_name_is_its_longest_part_that_no_code_stands_for() {
        for (name, piece) in [
            ("kyotocabinet::CacheDB::accept", "kyotocabinet"),
            ("(anonymous namespace)::work", "work"),
            ("Cache::~Cache", "Cache"),
            ("basic_string::at", "at"),
            ("usize::get", "get"),
            ("main::{lambda}::operator()", "main"),
            ("operator<<", ""),
            ("", ""),
        ] {
            assert_eq!(piece_of(name.as_bytes()), piece.as_bytes(), "{name}");
        }
    }

    #[test]
    fn names_in_one_another_without_end_have_no_short_name() {
        for piece in ["Z", "LN", "Ul", "N", "IJ", "LNUl"] {
            for begin in ["_Z", "_ZN1aI", "_ZZ1aI"] {
                let _ = ShortName::of(format!("{begin}{}", piece.repeat(200_000)).as_bytes());
            }
        }
        // Each constant stands for the one before it.
        let mut chain = std::string::String::from("_RIC1aKB_");
        for _ in 0..100_000 {
            chain += "KB0_";
        }
        let _ = ShortName::of(chain.as_bytes());
    }

    /// The names on the right are those of `c++filt`, without arguments.
    #[test]
    fn names_are_as_they_were_written() {
        for (symbol, name) in [
            ("main", "main"),
            ("_ZL5cache", "cache"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            (
                "_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJZN10ThreadPoolC4EmEUlvE_EEEEE6_M_runEv",
                "std::thread::_State_impl::_M_run",
            ),
            ("_ZNSt10unique_ptrIA_4NodeSt14default_deleteIS1_EED2Ev", "std::unique_ptr::~unique_ptr"),
            ("_ZN3BoxIZ4mainE4Node__12_E3getEv", "Box::get"),
            (
                "_ZN81_$LT$contend_recorded..Recorded$LT$R$GT$$u20$as$u20$lock_api..mutex..RawMutex$GT$4lock17h0123456789abcdefE",
                "contend_recorded::Recorded::lock",
            ),
            (
                "_ZN8lock_api6rwlock19RwLock$LT$R$C$T$GT$4read17h0123456789abcdefE.llvm.17",
                "lock_api::rwlock::RwLock::read",
            ),
            (
                "_ZN61_$LT$impl$u20$core..fmt..Debug$u20$for$u20$serving..Table$GT$3fmt17h0123456789abcdefE",
                "serving::Table::fmt",
            ),
            (
                "_ZN7serving4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
                "serving::main::{closure}",
            ),
            ("copy.constprop.0", "copy"),
            ("copy.part.0.isra.1", "copy"),
            ("copy.cold", "copy"),
            ("copy.llvm.123", "copy"),
            ("lock.3", "lock"),
            ("lock.3.lto_priv.0", "lock"),
            ("main._omp_fn.0", "main"),
            (".omp_outlined.", ".omp_outlined."),
            ("runtime.futexsleep", "runtime.futexsleep"),
            ("runtime.futexsleep.abi0", "runtime.futexsleep.abi0"),
            ("main.(*T).Lock", "main.(*T).Lock"),
            ("main.main.func1.2", "main.main.func1.2"),
            ("sync.(*Pool).part", "sync.(*Pool).part"),
            ("pthread_create@@GLIBC_2.34", "pthread_create"),
            ("_Z3fooi", "foo"),
            ("_Z3fooIiEvT_", "foo"),
            ("_ZN12kyotocabinet7CacheDB6acceptEPKcmPNS_2DB7VisitorEb", "kyotocabinet::CacheDB::accept"),
            ("_ZN12_GLOBAL__N_14workEi", "(anonymous namespace)::work"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector::push_back"),
            ("_ZNSt10lock_guardISt5mutexEC2ERS0_", "std::lock_guard::lock_guard"),
            ("_ZN5CacheD1Ev", "Cache::~Cache"),
            ("_ZNK3KeyeqERKS_", "Key::operator=="),
            ("_ZlsRSoRK3Key", "operator<<"),
            ("_ZNK3KeyclEv", "Key::operator()"),
            ("_ZZN5Cache3getEiE4lock", "Cache::get::lock"),
            ("_ZZ4mainENKUlvE_clEv", "main::{lambda}::operator()"),
            ("_ZZ4mainENKUliE0_clEi", "main::{lambda}::operator()"),
            ("_ZN1AILi16ELb1EE1fEv", "A::f"),
            ("_ZN1AILN2ns1EE3EE1fEv", "A::f"),
            ("_ZN1AIXadL_ZN1B1gEvEEE1fEv", "A::f"),
            ("_ZN3FooB5cxx113barEv", "Foo::bar"),
            ("_ZNSs6appendEPKc", "std::string::append"),
            ("_ZSt4lockISt5mutexS0_JEEvRT_RT0_DpRT1_", "std::lock"),
            (
                "_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJPFvvEEEEEE6_M_runEv",
                "std::thread::_State_impl::_M_run",
            ),
            ("_ZZ4workvEN5Local3runEv", "work::Local::run"),
        ] {
            let short = ShortName::of(symbol.as_bytes()).map(|name| name.to_string());
            assert_eq!(short.as_deref(), Some(name), "{symbol}");
            assert!(is_named(symbol.as_bytes(), name.as_bytes()), "{symbol}");
            assert!(is_named(symbol.as_bytes(), symbol.as_bytes()), "{symbol}");
            assert!(!is_named(symbol.as_bytes(), &name.as_bytes()[1..]), "{symbol}");
            assert_holds_its_piece(symbol.as_bytes());
        }
    }

    #[test]
    fn what_is_not_understood_has_no_short_name() {
        for symbol in [
            "_Z", "_ZN", "_ZN3foo", "_ZN9fooE", "_ZN99999999999999999999fE", "_ZNS_3fooE", "_RNvC1a",
            "_ZTV3Foo", "_ZN1AIE",
        ] {
            assert!(ShortName::of(symbol.as_bytes()).is_none(), "{symbol}");
            assert!(!is_named(symbol.as_bytes(), b"foo"), "{symbol}");
        }
    }

    /// Whatever the bytes, reading ends and does not panic.
    #[test]
    fn any_bytes_are_read() {
        let alphabet = b"_ZNSILDEUTAXJFC019lt_vst";
        let mut random = 1u64;
        for _ in 0..200_000 {
            let mut symbol = [0; 24];
            symbol[..2].copy_from_slice(b"_Z");
            for byte in &mut symbol[2..] {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = alphabet[(random >> 33) as usize % alphabet.len()];
            }
            assert_holds_its_piece(&symbol);
        }
    }
}
