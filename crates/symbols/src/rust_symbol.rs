//! The short name of a symbol in Rust's mangling of today (RFC 2603, `_R…`): crates, modules, types and functions, without
//! generic arguments and without the hashes of crates.
//!
//! A method is named by its type: `mycrate::Table::insert`, whether the type or a trait has it. Names with letters outside of
//! ASCII have no short form here.

/// Names nest no deeper than this here: lock functions look at symbols on whatever stack the program has.
const DEEPEST: u32 = 24;

/// Steps for one name, which references back could make exponentially many.
const MOST_STEPS: u32 = 2000;

/// Calls `each` with the parts of the name that follows `_R`. `None` if it has no short form.
pub(crate) fn visit<'a>(name: &'a [u8], each: &mut dyn FnMut(&'a [u8])) -> Option<()> {
    let mut reader = Reader { name, at: 0, quiet: 0, depth: 0, steps: 0, each };
    if reader.peek()?.is_ascii_digit() {
        return None; // a version of the mangling that is yet to come
    }
    reader.path()
}

/// Reads a mangled name. Every step answers `None` where the name goes on in a way that is not known.
struct Reader<'a, 'e> {
    name: &'a [u8],
    at: usize,
    /// More than 0 in what is left out.
    quiet: u32,
    depth: u32,
    steps: u32,
    each: &'e mut dyn FnMut(&'a [u8]),
}

impl<'a> Reader<'a, '_> {
    fn peek(&self) -> Option<u8> {
        self.name.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    fn tell(&mut self, part: &'a [u8]) {
        if self.quiet == 0 {
            (self.each)(part);
        }
    }

    fn quietly(&mut self, read: fn(&mut Self) -> Option<()>) -> Option<()> {
        self.quiet += 1;
        let done = read(self);
        self.quiet -= 1;
        done
    }

    fn nested(&mut self, read: fn(&mut Self, u8) -> Option<()>) -> Option<()> {
        self.depth += 1;
        self.steps += 1;
        if self.depth > DEEPEST || self.steps > MOST_STEPS {
            return None;
        }
        let first = self.next()?;
        let done = read(self, first);
        self.depth -= 1;
        done
    }

    /// `<path>`.
    fn path(&mut self) -> Option<()> {
        self.nested(Self::path_of)
    }

    #[inline(never)]
    fn path_of(&mut self, first: u8) -> Option<()> {
        match first {
            b'C' => {
                let name = self.identifier()?;
                self.tell(name);
            }
            b'N' => {
                let namespace = self.next()?;
                self.path()?;
                match (self.identifier()?, namespace) {
                    (b"", b'C') => self.tell(b"{closure}"),
                    (b"", b'S') => self.tell(b"{shim}"),
                    (b"", _) => {}
                    (name, _) => self.tell(name),
                }
            }
            b'M' => {
                self.quietly(Self::place_of_implementation)?;
                self.of_type()?;
            }
            b'X' => {
                self.quietly(Self::place_of_implementation)?;
                self.of_type()?;
                self.quietly(Self::path)?;
            }
            b'Y' => {
                self.of_type()?;
                self.quietly(Self::path)?;
            }
            b'I' => {
                self.path()?;
                self.quietly(Self::arguments)?;
            }
            b'B' => self.again(Self::path)?,
            _ => return None,
        }
        Some(())
    }

    /// `<impl-path>`.
    fn place_of_implementation(&mut self) -> Option<()> {
        self.disambiguator()?;
        self.path()
    }

    /// `{<generic-arg>} "E"`.
    fn arguments(&mut self) -> Option<()> {
        while !self.take(b'E') {
            match self.peek()? {
                b'L' => self.lifetime()?,
                b'K' => {
                    self.at += 1;
                    self.constant()?;
                }
                _ => self.of_type()?,
            }
        }
        Some(())
    }

    /// `<type>`.
    fn of_type(&mut self) -> Option<()> {
        self.nested(Self::type_of)
    }

    #[inline(never)]
    fn type_of(&mut self, first: u8) -> Option<()> {
        match first {
            b'a'..=b'z' => self.tell(basic(first)?),
            b'A' => {
                self.of_type()?;
                self.quietly(Self::constant)?;
            }
            b'S' | b'P' | b'O' => self.of_type()?,
            b'R' | b'Q' => {
                self.lifetime()?;
                self.of_type()?;
            }
            b'T' => {
                self.tell(b"(tuple)");
                self.quietly(Self::types)?;
            }
            b'F' => {
                self.tell(b"fn");
                self.quietly(Self::signature)?;
            }
            b'D' => {
                self.binder()?;
                self.of_trait()?;
                self.quietly(Self::traits)?;
                self.lifetime()?;
            }
            b'B' => self.again(Self::of_type)?,
            _ => {
                self.at -= 1;
                self.path()?;
            }
        }
        Some(())
    }

    /// `{<type>} "E"`.
    fn types(&mut self) -> Option<()> {
        while !self.take(b'E') {
            self.of_type()?;
        }
        Some(())
    }

    /// `<fn-sig>`.
    fn signature(&mut self) -> Option<()> {
        self.binder()?;
        self.take(b'U');
        if self.take(b'K') && !self.take(b'C') {
            self.plain_identifier()?;
        }
        self.types()?;
        self.of_type()
    }

    /// `{<dyn-trait>} "E"`.
    fn traits(&mut self) -> Option<()> {
        while !self.take(b'E') {
            self.of_trait()?;
        }
        Some(())
    }

    /// `<dyn-trait>`.
    fn of_trait(&mut self) -> Option<()> {
        self.path()?;
        while self.take(b'p') {
            self.plain_identifier()?;
            self.quietly(Self::of_type)?;
        }
        Some(())
    }

    /// `<const>`.
    fn constant(&mut self) -> Option<()> {
        if self.take(b'p') {
            return Some(());
        }
        if self.take(b'B') {
            return self.again(Self::constant);
        }
        self.of_type()?;
        self.take(b'n');
        while self.next()? != b'_' {}
        Some(())
    }

    /// `["G" <base-62-number>]`.
    fn binder(&mut self) -> Option<()> {
        if self.take(b'G') { self.number().map(drop) } else { Some(()) }
    }

    /// `["L" <base-62-number>]`.
    fn lifetime(&mut self) -> Option<()> {
        if self.take(b'L') { self.number().map(drop) } else { Some(()) }
    }

    /// `["s" <base-62-number>]`.
    fn disambiguator(&mut self) -> Option<()> {
        if self.take(b's') { self.number().map(drop) } else { Some(()) }
    }

    /// `<base-62-number>`.
    fn number(&mut self) -> Option<usize> {
        let mut value: usize = 0;
        if self.take(b'_') {
            return Some(0);
        }
        loop {
            let digit = match self.next()? {
                b'_' => return value.checked_add(1),
                digit @ b'0'..=b'9' => digit - b'0',
                digit @ b'a'..=b'z' => digit - b'a' + 10,
                digit @ b'A'..=b'Z' => digit - b'A' + 36,
                _ => return None,
            };
            value = value.checked_mul(62)?.checked_add(usize::from(digit))?;
        }
    }

    /// What a reference back stands for, read again.
    #[inline(never)]
    fn again(&mut self, read: fn(&mut Self) -> Option<()>) -> Option<()> {
        let from = self.at - 1;
        let to = self.number().filter(|&to| to < from)?;
        self.depth += 1;
        self.steps += 1;
        if self.depth > DEEPEST || self.steps > MOST_STEPS {
            return None;
        }
        let after = core::mem::replace(&mut self.at, to);
        read(self)?;
        self.at = after;
        self.depth -= 1;
        Some(())
    }

    /// `<identifier>`.
    fn identifier(&mut self) -> Option<&'a [u8]> {
        self.disambiguator()?;
        self.plain_identifier()
    }

    fn plain_identifier(&mut self) -> Option<&'a [u8]> {
        let rest = self.name.get(self.at..)?;
        let digits = match rest.first()? {
            b'0' => 1, // a number does not begin with a zero, so what follows is another one
            _ => rest.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        };
        let length: usize = core::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        // What is encoded (`u`) has no digits here.
        self.at += digits;
        self.take(b'_');
        let name = self.name.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(name)
    }
}

/// Whether a symbol has a code in the place of this name: that of a type which the language has.
pub(crate) fn has_code(name: &[u8]) -> bool {
    name == b"fn" || (b'a'..=b'z').any(|letter| basic(letter) == Some(name))
}

/// `<basic-type>`.
fn basic(letter: u8) -> Option<&'static [u8]> {
    Some(match letter {
        b'a' => b"i8",
        b'b' => b"bool",
        b'c' => b"char",
        b'd' => b"f64",
        b'e' => b"str",
        b'f' => b"f32",
        b'h' => b"u8",
        b'i' => b"isize",
        b'j' => b"usize",
        b'l' => b"i32",
        b'm' => b"u32",
        b'n' => b"i128",
        b'o' => b"u128",
        b's' => b"i16",
        b't' => b"u16",
        b'u' => b"()",
        b'v' => b"...",
        b'x' => b"i64",
        b'y' => b"u64",
        b'z' => b"!",
        b'p' => b"_",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::symbol::tests::assert_holds_its_piece;
    use crate::symbol::{ShortName, is_named};
    use std::string::{String, ToString};
    use std::{format, vec};

    fn short(symbol: &str) -> Option<String> {
        ShortName::of(symbol.as_bytes()).map(|name| name.to_string())
    }

    /// The symbols are rustc's; the names on the right are what it demangles them to, without arguments and traits.
    #[test]
    fn names_are_as_they_were_written() {
        for (symbol, name) in [
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_RNvCs1234_7mycrate4main", "mycrate::main"),
            ("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure}::{closure}"),
            (
                "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
                "alloc::alloc::box_free",
            ),
            ("_RNvMC0INtC8arrayvec8ArrayVechKj7b_E3new", "arrayvec::ArrayVec::new"),
            ("_RNvMs_Cs4Cv8Wi1oAIB_7mycrateNtB4_7Example3foo", "mycrate::Example::foo"),
            ("_RNvXs0_Cs4Cv8Wi1oAIB_7mycrateNtB5_7ExampleNtB5_5Trait3foo", "mycrate::Example::foo"),
            ("_RNvXCs4Cv8Wi1oAIB_7mycrateRShNtB2_5Trait3foo", "u8::foo"),
            ("_RNvYNtCs4Cv8Wi1oAIB_7mycrate7ExampleNtB4_5Trait3foo", "mycrate::Example::foo"),
            ("_RNvCs1234_7mycrate4main.llvm.123", "mycrate::main"),
        ] {
            assert_eq!(short(symbol).as_deref(), Some(name), "{symbol}");
            assert!(is_named(symbol.as_bytes(), name.as_bytes()), "{symbol}");
            assert!(is_named(symbol.as_bytes(), symbol.as_bytes()), "{symbol}");
            assert!(!is_named(symbol.as_bytes(), &name.as_bytes()[1..]), "{symbol}");
            assert_holds_its_piece(symbol.as_bytes());
        }
    }

    #[test]
    fn what_is_no_name_has_no_short_form() {
        let deep = format!("_R{}C1a", "Nv".repeat(1000));
        // Each reference stands for both before it.
        let bomb = format!("_RINvC1a1b{}E", "TB_B_E".repeat(40));
        for symbol in
            ["_R", "_RNv", "_RNvC", "_RNvB_", "_R1NvC1a1b", "_RNvC99999999999999999999a1b", &deep, &bomb]
        {
            assert_eq!(short(symbol), None, "{symbol}");
        }
        let punycode = "_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y";
        assert_eq!(short(punycode), None);
        for length in 0..punycode.len() {
            let _ = short(&punycode[..length]);
        }
    }

    #[test]
    fn any_bytes_end_somewhere() {
        let mut random = 1_u64;
        for _ in 0..20_000 {
            let symbol: vec::Vec<u8> = (0..40)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    b"CNMXYIBEvs0123_abTRDFKLGpn"[(random >> 33) as usize % 26]
                })
                .collect();
            assert_holds_its_piece(&[b"_R".as_slice(), &symbol].concat());
        }
    }
}
