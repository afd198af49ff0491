//! From addresses to names: which file, which symbol, which line.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use ::symbols::symbol::{ShortName, is_mangled};
use ::symbols::wrapper::is_wrapper;
use addr2line::gimli;
use cpp_demangle::DemangleOptions;

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use super::closures::{CLOSURE, Scope};
use super::container::Section;
use super::debug_info::{Contents, DebugInfo, Inlined};
use super::files;
use super::mappings::{LONGEST_PATH, Mapping};
use super::members::Member;
use super::names::{LONGEST_FILE, LONGEST_SYMBOL, printable, printable_up_to, without_arguments};

/// A function that an address belongs to, and its place in the source if debug information tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Without parameters and template arguments.
    pub(super) name: String,
    /// It only wraps locking: its caller says more.
    pub(super) wrapper: bool,
    /// File and line.
    pub(super) source: Option<(String, u32)>,
    /// The name of the program or library that its code is in; empty for code of no file.
    pub(super) file: String,
    /// The name is only the file's and a number: no symbol covers the address.
    pub(super) nameless: bool,
}

/// A call, as `--only` finds it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallSite {
    /// The name of the program or library without its directory, and in it the address that the call returns to.
    pub(super) place: (String, u64),
    /// The function is a wrapper of locks, by its symbol.
    pub(super) in_wrapper: bool,
    /// The file has become another one since it ran.
    pub(super) replaced: bool,
}

/// Reads the files that a profile names, each once.
pub(super) struct Symbols<'f> {
    /// `None`: files are not read at all.
    contents: Option<&'f Contents>,
    /// By path. A profile may name very many files that are not there, so that none of those takes the space of one that is.
    modules: HashMap<Arc<str>, Option<Box<Module<'f>>>>,
    functions: HashMap<(u64, u64), Arc<[Function]>>,
    unread: BTreeSet<Arc<str>>,
}

struct Module<'f> {
    segments: Vec<Segment>,
    /// By start.
    data: Vec<Symbol>,
    code: Vec<Symbol>,
    /// See [`longer_names`]; made when the first variable is named.
    longer_names: OnceCell<HashMap<u64, String>>,
    build_id: Option<Vec<u8>>,
    debug_info: Option<DebugInfo<'f>>,
}

struct Segment {
    offset: u64,
    file_size: u64,
    address: u64,
    size: u64,
}

struct Symbol {
    start: u64,
    size: u64,
    name: String,
    /// The source file that it is in, if others may have one of the same name.
    source: Option<Arc<str>>,
}

/// Where an address lies.
struct Located<'m> {
    path: &'m str,
    /// Address inside the file's own address space, or offset in the file if the file cannot be read.
    address: u64,
    /// The file was read, and is the one that was running.
    known: bool,
    /// Other files were at this address, too: it may be none of this one's.
    reused: bool,
}

const PAGE: u64 = crate::format::PAGE;

impl<'f> Symbols<'f> {
    /// Reads no file without a place for its contents.
    pub(super) fn new(contents: Option<&'f Contents>) -> Self {
        Self { contents, modules: HashMap::new(), functions: HashMap::new(), unread: BTreeSet::new() }
    }

    /// Programs and libraries that a name was looked for in, and that are other ones now, or cannot be read: their paths.
    pub(super) fn unread(&self) -> &BTreeSet<Arc<str>> {
        &self.unread
    }

    /// The name of the variable that an address lies in, as `symbol+0xoffset`, `symbol@source.c` where others have that name, or
    /// `file+0xaddress`; `None` if it lies in no file: on the heap or a stack. Where several files were, the address itself.
    pub(super) fn variable(&mut self, section: &Section, address: u64) -> Option<String> {
        let place = self.locate(section, address)?;
        if place.reused {
            return Some(format!("{address:#x}"));
        }
        let plain = file_and_number(place.path, place.address);
        if !place.known {
            return Some(plain);
        }
        let module = self.modules.get(place.path)?.as_deref()?;
        Some(match covering(&module.data, place.address) {
            Some((symbol, 0)) => module.name_of_variable(symbol),
            Some((symbol, offset)) => format!("{}+{offset:#x}", module.name_of_variable(symbol)),
            None => plain,
        })
    }

    /// The program or library that an address lies in, without its directory.
    pub(super) fn file_of(&mut self, section: &Section, address: u64) -> Option<String> {
        let place = self.locate(section, address).filter(|place| !place.reused)?;
        Some(printable_up_to(LONGEST_FILE, base_name(place.path)))
    }

    /// The member of a variable that a lock of `lock` bytes at an address is, if debug information tells.
    pub(super) fn member(&mut self, section: &Section, address: u64, lock: u64) -> Option<Member> {
        let place = self.locate(section, address).filter(|place| place.known)?;
        let module = self.modules.get(place.path)?.as_deref()?;
        let (symbol, offset) = covering(&module.data, place.address)?;
        let variable = (symbol.start, &*short_name(&symbol.name));
        let Member { name, place } = module.debug_info.as_ref()?.member(variable, offset, lock)?;
        let place = place.map(|(file, line)| (printable_up_to(LONGEST_PATH, &file), line));
        Some(Member { name: printable_up_to(LONGEST_SYMBOL, &name), place })
    }

    /// The functions that a return address returns into, the innermost inlined one first. Never empty.
    pub(super) fn functions(&mut self, section: &Section, return_address: u64) -> Arc<[Function]> {
        let key = (section.number, return_address);
        if let Some(found) = self.functions.get(&key) {
            return found.clone();
        }
        let found: Arc<[_]> = self.look_up(section, return_address.wrapping_sub(1)).into(); // the call, not what follows it
        self.functions.insert(key, found.clone());
        found
    }

    /// The function whose symbol covers the call that returns to an address, whatever was inlined there, and whether it wraps
    /// locking. This is what the preload library sees of it.
    pub(super) fn symbol(&mut self, section: &Section, return_address: u64) -> Option<(String, bool)> {
        let place = self.locate(section, return_address.wrapping_sub(1)).filter(|place| place.known)?;
        let module = self.modules.get(place.path)?.as_deref()?;
        let (symbol, _) = covering(&module.code, place.address)?;
        Some((short_name(&symbol.name), is_wrapper(symbol.name.as_bytes())))
    }

    /// The call that returns to an address; `None` for code of no file, and where several files were.
    pub(super) fn call_site(&mut self, section: &Section, return_address: u64) -> Option<CallSite> {
        let place = self.locate(section, return_address.wrapping_sub(1)).filter(|place| !place.reused)?;
        let module = self.modules.get(place.path).and_then(Option::as_deref);
        let symbol = module.filter(|_| place.known).and_then(|module| covering(&module.code, place.address));
        Some(CallSite {
            place: (printable_up_to(LONGEST_FILE, base_name(place.path)), place.address.wrapping_add(1)),
            in_wrapper: symbol.is_some_and(|(symbol, _)| is_wrapper(symbol.name.as_bytes())),
            replaced: module.is_some() && !place.known,
        })
    }

    fn look_up(&mut self, section: &Section, address: u64) -> Vec<Function> {
        let without_file =
            |name| vec![Function { name, wrapper: false, source: None, file: String::new(), nameless: true }];
        let Some(place) = self.locate(section, address) else {
            return without_file("code of no file".to_owned()); // generated while the program ran
        };
        if place.reused {
            return without_file(format!("code at {address:#x}"));
        }
        let file = printable_up_to(LONGEST_FILE, base_name(place.path));
        let plain = Function {
            name: file_and_number(place.path, place.address),
            wrapper: false,
            source: None,
            file: file.clone(),
            nameless: true,
        };
        let module = self.modules.get(place.path).and_then(Option::as_deref).filter(|_| place.known);
        let Some(module) = module else { return vec![plain] };
        let mut functions = module.inlined(place.address, &file);
        if functions.is_empty() {
            functions.extend(covering(&module.code, place.address).map(|(symbol, _)| Function {
                name: short_name(&symbol.name),
                wrapper: is_wrapper(symbol.name.as_bytes()),
                source: None,
                file,
                nameless: false,
            }));
        }
        if functions.is_empty() { vec![plain] } else { functions }
    }

    fn locate<'m>(&mut self, section: &'m Section, address: u64) -> Option<Located<'m>> {
        let inside = section.mappings.at(address);
        // Zero-initialised variables lie behind the file's last mapping.
        let mapping = inside.or_else(|| section.mappings.before(address))?;
        let reused = section.mappings.is_reused(if inside.is_some() { address } else { mapping.end - 1 });
        let (own, is_what_ran) = match self.module(section, mapping) {
            Some(module) => (module.address_of(mapping, address), module.is_what_ran(section, mapping)),
            None => (None, self.contents.is_none() || !is_of_a_program(section, mapping)),
        };
        if !is_what_ran && !reused && (own.is_some() || inside.is_some()) {
            self.unread.insert(Arc::clone(&mapping.path));
        }
        if let Some(own) = own {
            let known = !reused && is_what_ran;
            return Some(Located { path: &mapping.path, address: own, known, reused });
        }
        inside.map(|m| Located {
            path: &m.path,
            address: (address - m.start).saturating_add(m.offset),
            known: false,
            reused,
        })
    }

    /// Whether the program of a section has become another one since.
    pub(super) fn is_replaced(&mut self, section: &Section) -> bool {
        let mut mappings = section.mappings.list().iter();
        let Some(mapping) = mappings.find(|mapping| *mapping.path == *section.executable) else {
            return false;
        };
        self.module(section, mapping).is_some_and(|module| !module.is_what_ran(section, mapping))
    }

    fn module(&mut self, section: &Section, mapping: &Mapping) -> Option<&Module<'f>> {
        let contents = self.contents?;
        let path = Path::new(&*mapping.path);
        let read = |file: File| Module::read(contents, &file, path);
        let find = || {
            let here = files::open(path).and_then(read);
            if here.as_ref().is_some_and(|module| module.is_what_ran(section, mapping)) {
                return here.map(Box::new);
            }
            // Deleted, replaced, or in a container: a process that still runs has it.
            let pid = u32::try_from(section.process.pid).ok();
            let there = pid.and_then(|pid| files::open_of_process(pid, path)).and_then(read);
            let is_it =
                |module: &Module<'_>| module.build_id.is_some() && module.is_what_ran(section, mapping);
            there.filter(is_it).or(here).map(Box::new)
        };
        self.modules.entry(Arc::clone(&mapping.path)).or_insert_with(find).as_deref()
    }
}

impl<'f> Module<'f> {
    /// What an open file has; `path` is where it was found.
    fn read(contents: &'f Contents, file: &File, path: &Path) -> Option<Self> {
        let file = object::File::parse(contents.keep(file)?).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, file_size) = segment.file_range();
            Segment { offset, file_size, address: segment.address(), size: segment.size() }
        });
        let (mut data, mut code) = (Vec::new(), Vec::new());
        let mut source: Option<Arc<str>> = None;
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let into = match symbol.kind() {
                SymbolKind::Data => &mut data,
                SymbolKind::Text => &mut code,
                SymbolKind::File => {
                    source = symbol.name().ok().map(Arc::from);
                    continue;
                }
                _ => continue,
            };
            let (Ok(name), size) = (symbol.name(), symbol.size()) else { continue };
            if size > 0 && !symbol.is_undefined() && !name.is_empty() {
                let source = source.clone().filter(|_| symbol.is_local());
                into.push(Symbol { start: symbol.address(), size, name: name.to_owned(), source });
            }
        }
        for symbols in [&mut data, &mut code] {
            symbols.sort_by(|a, b| (a.start, a.size, &b.name).cmp(&(b.start, b.size, &a.name)));
        }
        let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
        Some(Self {
            segments: segments.collect(),
            data,
            code,
            longer_names: OnceCell::new(),
            build_id,
            debug_info: DebugInfo::of(contents, &file, path),
        })
    }

    /// What a variable is called: its short name, with more where other variables have it.
    fn name_of_variable(&self, symbol: &Symbol) -> String {
        let names = self.longer_names.get_or_init(|| longer_names(&self.data));
        names.get(&symbol.start).cloned().unwrap_or_else(|| short_name(&symbol.name))
    }

    /// The address in the file's own address space of `address`, which lies in or shortly after `mapping`.
    fn address_of(&self, mapping: &Mapping, address: u64) -> Option<u64> {
        let first_page = |segment: &Segment| segment.offset / PAGE * PAGE;
        let in_file = address.wrapping_sub(mapping.start).wrapping_add(mapping.offset);
        let own = |segment: &Segment| segment.address.wrapping_add(in_file).wrapping_sub(segment.offset);
        let holds = |segment: &Segment, own: u64| own.wrapping_sub(segment.address) < segment.size;
        let segments = self.segments.iter().filter(|segment| {
            first_page(segment) <= mapping.offset
                && mapping.offset < segment.offset.saturating_add(segment.file_size)
        });
        // Several segments may begin in one page of the file, each mapped with all of it.
        let segment = segments.max_by_key(|segment| (holds(segment, own(segment)), first_page(segment)))?;
        let own = own(segment);
        self.segments.iter().any(|segment| holds(segment, own)).then_some(own)
    }

    /// Whether the file now is the one that was mapped, as far as build identifiers tell.
    fn is_what_ran(&self, section: &Section, mapping: &Mapping) -> bool {
        self.has_run(section, mapping).unwrap_or(true)
    }

    /// The same; `None` without build identifiers.
    fn has_run(&self, section: &Section, mapping: &Mapping) -> Option<bool> {
        let first = section.mappings.start_of(&mapping.path, mapping.start)?;
        Some(section.build_ids.get(&first)? == self.build_id.as_ref()?)
    }

    fn inlined(&self, address: u64, file: &str) -> Vec<Function> {
        let found = self.debug_info.as_ref().map(|debug_info| debug_info.functions(address));
        let function = |inlined: Inlined| Function {
            name: match &inlined.scope {
                Some(scope) => in_scope(scope, &inlined.symbol),
                None => short_name(&inlined.symbol),
            },
            wrapper: is_wrapper(inlined.symbol.as_bytes()),
            source: inlined.place.map(|(source, line)| (printable_up_to(LONGEST_PATH, &source), line)),
            file: file.to_owned(),
            nameless: false,
        };
        let mut functions: Vec<_> = found.into_iter().flatten().map(function).collect();
        if let Some(outermost) = functions.last_mut() {
            let symbol = covering(&self.code, address).map(|(symbol, _)| &*symbol.name);
            outermost.name = with_scope(std::mem::take(&mut outermost.name), symbol);
        }
        functions
    }
}

/// Whether a mapping is of the program or of a library, as far as the profile tells: other files that are mapped have no symbols.
fn is_of_a_program(section: &Section, mapping: &Mapping) -> bool {
    let first = section.mappings.start_of(&mapping.path, mapping.start);
    *mapping.path == *section.executable || first.is_some_and(|first| section.build_ids.contains_key(&first))
}

/// The name of a function that is in others, as its symbol would say it.
fn in_scope(Scope { symbol, classes }: &Scope, function: &str) -> String {
    let classes = classes.iter().map(|class| class.as_deref().unwrap_or("{lambda}"));
    let inner: String = classes.map(|class| format!("::{class}::{function}")).collect();
    printable_up_to(LONGEST_SYMBOL, &(short_name(symbol) + &inner))
}

/// The name of a function by debug information, which has no more of a closure of C++: its symbol says what function it is in.
fn with_scope(name: String, symbol: Option<&str>) -> String {
    if name == CLOSURE { symbol.map_or(name, short_name) } else { name }
}

/// The names of those variables, by where they begin, whose short name others have: what a compiler has called one of several in a file
/// (`lock.0`), or the source file with it (`lock@cache.c`), or else the start.
fn longer_names(variables: &[Symbol]) -> HashMap<u64, String> {
    let mut of_name: HashMap<String, Vec<&Symbol>> = HashMap::with_capacity(variables.len());
    for variable in variables {
        of_name.entry(short_name(&variable.name)).or_default().push(variable);
    }
    let mut longer = HashMap::new();
    for (short, variables) in of_name {
        if variables.iter().all(|variable| variable.start == variables[0].start) {
            continue;
        }
        let own_name = |variable: &'_ Symbol| match is_plain(&variable.name) {
            true => variable.name.clone(),
            false => short.clone(),
        };
        let alone = |part: &dyn Fn(&Symbol) -> Option<String>| -> HashSet<u64> {
            let mut starts: HashMap<String, BTreeSet<u64>> = HashMap::new();
            for &variable in &variables {
                if let Some(part) = part(variable) {
                    starts.entry(part).or_default().insert(variable.start);
                }
            }
            starts.into_values().filter(|starts| starts.len() == 1).flatten().collect()
        };
        let in_source = |variable: &Symbol| {
            let source = variable.source.as_ref().filter(|source| is_plain(source))?;
            Some(format!("{}@{source}", own_name(variable)))
        };
        let by_symbol = alone(&|variable| Some(own_name(variable)).filter(|name| *name != short));
        let by_source = alone(&in_source);
        for variable in &variables {
            let name = match in_source(variable) {
                _ if by_symbol.contains(&variable.start) => variable.name.clone(),
                Some(in_source) if by_source.contains(&variable.start) => in_source,
                _ => format!("{short}@{:#x}", variable.start),
            };
            longer.insert(variable.start, name);
        }
    }
    longer
}

/// Whether a name is none of a mangled symbol, and has nothing that means something in a site.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !is_mangled(name.as_bytes()) && name.bytes().all(is_plain)
}

/// The symbol that covers an address, and how far inside.
fn covering(symbols: &[Symbol], address: u64) -> Option<(&Symbol, u64)> {
    let after = symbols.partition_point(|symbol| symbol.start <= address);
    // Symbols may nest or repeat; a few steps back are enough to find the one that reaches far enough.
    symbols[..after].iter().rev().take(16).find_map(|symbol| {
        let inside = address - symbol.start;
        (inside < symbol.size).then_some((symbol, inside))
    })
}

/// Bytes of a symbol that is demangled. The demanglers go as deep as it says.
const LONGEST_MANGLED: usize = 8 << 10;

/// Bytes of a demangled name. What refers back to its own parts may say that it is longer than any memory.
const LONGEST_DEMANGLED: usize = 1 << 16;

/// Text that takes no more than so many bytes.
struct Bounded {
    text: String,
    most: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > self.most - self.text.len() {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// What `write` writes; none if that is longer.
fn up_to(most: usize, write: impl FnOnce(&mut Bounded) -> fmt::Result) -> Option<String> {
    let mut bounded = Bounded { text: String::new(), most };
    write(&mut bounded).ok().map(|()| bounded.text)
}

/// C++ and Rust names as they were written. Only what begins as a mangled name is one: the demangler would take a
/// variable of C that is called `m` for C++'s short form of a type.
fn demangled(name: &str) -> String {
    let mangled = ["_Z", "__Z", "_R"].iter().any(|start| name.starts_with(start));
    let of_cpp = || {
        let symbol = cpp_demangle::Symbol::new(name).ok()?;
        up_to(LONGEST_DEMANGLED, |text| symbol.structured_demangle(text, &DemangleOptions::default()))
    };
    // Rust's has a bound of its own.
    let demangled = mangled.then(|| addr2line::demangle(name, gimli::DW_LANG_Rust).or_else(of_cpp));
    printable(&demangled.flatten().unwrap_or_else(|| name.to_owned()))
}

/// What is printed of a symbol, and taken by `--only`.
pub(super) fn short_name(symbol: &str) -> String {
    if symbol.len() > LONGEST_MANGLED {
        return printable_up_to(LONGEST_SYMBOL, symbol);
    }
    let name = ShortName::of(symbol.as_bytes());
    let name = name.map(|name| up_to(LONGEST_DEMANGLED, |text| write!(text, "{name}")));
    let name = match name {
        Some(Some(name)) => name,
        Some(None) => symbol.to_owned(),
        None => without_arguments(&demangled(symbol)),
    };
    printable_up_to(LONGEST_SYMBOL, &name)
}

fn file_and_number(path: &str, address: u64) -> String {
    format!("{}+{address:#x}", printable_up_to(LONGEST_FILE, base_name(path)))
}

/// The name of a file without its directory.
pub(super) fn base_name(path: &str) -> &str {
    let path = path.strip_suffix(files::DELETED).unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mangled_names_are_demangled() {
        assert_eq!(demangled("m"), "m");
        assert_eq!(demangled("w"), "w");
        assert_eq!(demangled("_ZN2kc6RWLock11lock_readerEv"), "kc::RWLock::lock_reader()");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_Z\u{1b}[0m"), "_Z\\u{1b}[0m");
        assert_eq!(short_name("_RNvMs_Cs4Cv8Wi1oAIB_7mycrateNtB4_7Example3foo"), "mycrate::Example::foo");
    }

    #[test]
    fn a_closure_has_the_name_of_its_function_before_it() {
        let symbol = Some("_ZZ4mainENKUlvE_clEv");
        assert_eq!(with_scope("operator()".into(), symbol), "main::{lambda}::operator()");
        assert_eq!(with_scope("Less::operator()".into(), symbol), "Less::operator()");
        assert_eq!(with_scope("operator()".into(), None), "operator()");
    }

    /// Each of these names says that it is much longer than the symbol.
    #[test]
    fn names_that_grow_are_cut() {
        let constructors = format!("_ZN4000{}{}E", "n".repeat(4000), "C1".repeat(2000));
        let operators = format!("_ZN{}E", "aw".repeat(4000));
        // A conversion to a class template whose argument is such a class again, and the second one refers back to the first: with each,
        // the name is twice as long.
        let digits: Vec<char> = ('0'..='9').chain('A'..='Z').collect();
        let reference = |index: usize| match index.checked_sub(1) {
            None => "S_".to_owned(),
            Some(below) if below < 36 => format!("S{}_", digits[below]),
            Some(below) => format!("S{}{}_", digits[below / 36], digits[below % 36]),
        };
        let doubled = |depth: usize| {
            let first = "1bIiE".to_owned();
            let class =
                (1..depth).fold(first, |class, inner| format!("1bI{class}{}E", reference(depth + inner)));
            format!("_ZN1acv{class}Ev")
        };
        assert_eq!(demangled(&doubled(3)), "a::operator b<b<b<int>, b<int> >, b<b<int>, b<int> > >()");
        let conversion = doubled(30);
        assert_eq!(demangled(&conversion), conversion, "it would be gigabytes");
        for symbol in [constructors, operators, conversion, "_Z".repeat(1 << 20), "Z".repeat(1 << 20)] {
            let name = short_name(&symbol);
            assert!(name.len() <= LONGEST_SYMBOL, "{} bytes", name.len());
        }
        for deep in ["Z", "LN", "I", "Ul", "1aILN", "N1aI"] {
            short_name(&format!("_Z{}", deep.repeat(LONGEST_MANGLED / deep.len() - 2)));
        }
    }

    /// Symbols and debug information come from the file that was checked, not from what has its name afterwards: here a pipe,
    /// which would block who opens it.
    #[test]
    #[cfg_attr(miri, ignore = "Miri makes no pipes in directories")]
    fn what_was_opened_is_read_whatever_has_come_to_its_name() {
        use std::os::unix::ffi::OsStrExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let file = files::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for pipe in ["program", "program.dwp"] {
            let name = directory.path().join(pipe);
            let name = std::ffi::CString::new(name.as_os_str().as_bytes()).unwrap();
            // SAFETY: the name ends with a zero.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        }
        let contents = Contents::default();
        let module = Module::read(&contents, &file, &path).expect("a program");
        let this = module.code.iter().find(|symbol| short_name(&symbol.name).ends_with("::has_its_own_line"));
        let functions = module.inlined(this.expect("its symbol").start, "program");
        assert!(has_its_own_line() > 0);
        let sources = functions.iter().filter_map(|function| function.source.as_ref());
        let here = sources.filter(|(file, _)| file.ends_with("symbols.rs")).count();
        assert!(here > 0 || cfg!(not(debug_assertions)), "the tests have debug information: {functions:?}");
    }

    #[inline(never)]
    fn has_its_own_line() -> u32 {
        std::hint::black_box(line!())
    }

    #[test]
    fn variables_of_one_name_are_told_apart() {
        let symbol = |start, name: &str, source: Option<&str>| Symbol {
            start,
            size: 8,
            name: name.into(),
            source: source.map(Arc::from),
        };
        let names = longer_names(&[
            symbol(0x10, "lock", Some("a.c")),
            symbol(0x20, "lock", Some("b.c")),
            symbol(0x28, "lock", None),
            symbol(0x30, "lock.0", Some("b.c")),
            symbol(0x40, "lock.1", Some("c.c")),
            symbol(0x50, "lock.1", Some("d.c")),
            symbol(0x60, "lock.2", Some("e.c")),
            symbol(0x68, "lock.2", Some("e.c")),
            symbol(0x70, "table", Some("a.c")),
            symbol(0x80, "_ZZ1fvE1m", Some("a.cc")),
            symbol(0x88, "_ZZ1fiE1m", Some("b.cc")),
        ]);
        let mut names: Vec<_> = names.iter().map(|(start, name)| (*start, &**name)).collect();
        names.sort_unstable();
        let expected = [
            (0x10, "lock@a.c"),
            (0x20, "lock@b.c"),
            (0x28, "lock@0x28"),
            (0x30, "lock.0"),
            (0x40, "lock.1@c.c"),
            (0x50, "lock.1@d.c"),
            (0x60, "lock@0x60"),
            (0x68, "lock@0x68"),
            (0x80, "f::m@a.cc"),
            (0x88, "f::m@b.cc"),
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_symbol_covers_its_bytes_and_no_more() {
        let symbol = |start, size, name: &str| Symbol { start, size, name: name.into(), source: None };
        let symbols = [symbol(0x10, 0x40, "outer"), symbol(0x20, 8, "inner"), symbol(0x60, 4, "last")];
        let found =
            |address| covering(&symbols, address).map(|(symbol, inside)| (symbol.name.as_str(), inside));
        assert_eq!(found(0x10), Some(("outer", 0)));
        assert_eq!(found(0x24), Some(("inner", 4)));
        assert_eq!(found(0x30), Some(("outer", 0x20)));
        assert_eq!(found(0x58), None);
        assert_eq!(found(0x63), Some(("last", 3)));
        assert_eq!(found(0x64), None);
        assert_eq!(found(0), None);
    }
}
