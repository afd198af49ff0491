//! What the configured sites are in a program or library: where their variables and functions lie, and which functions
//! wrap locking. It is read from the file, once for each module, when the first lock has to be decided that lies in it or
//! that a call in it makes. Nothing is asked of the loader and nothing is allocated by the program's allocator: the caller may
//! be inside both, or another thread may be, which waits for the caller.
//!
//! A program may have hundreds of thousands of symbols, and the thread that takes the lock waits until they have been looked
//! at. So a symbol is only compared with a site if its name holds a piece of the site's, which is searched for in all names at
//! once, and a function's name is only read as a wrapper's when a call in that function is asked for.

use core::ffi::CStr;
use core::ptr::{from_ref, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use ::symbols::symbol::piece_of;
use ::symbols::wrapper::is_wrapper;
use machine::host::Errno;
use pthread::site::{Site, Which};

use crate::files::{MapsLine, fresh_memory, read_file};
use crate::unwind::Module;

/// The start of a module's file in memory, which tells whether a file or an earlier look is about this module: it holds the
/// headers and most often the build identifier.
const IDENTITY_BYTES: usize = 1024;

/// What lies from `start` to `end`.
#[derive(Clone, Copy)]
struct Range {
    start: usize,
    end: usize,
    /// The number of a site's place.
    what: usize,
}

/// What is known of a module. It is never freed: others may be reading it.
struct Known {
    next: *mut Known,
    start: usize,
    end: usize,
    bias: usize,
    identity: u64,
    ranges: &'static [Range],
    /// Its functions, of both of the tables that a file may have.
    functions: [Functions; 2],
}

/// All modules looked at, the last one first. Two threads may look at one at the same time, and both entries are right.
static KNOWN: AtomicPtr<Known> = AtomicPtr::new(null_mut());

/// What an address of a module is to the sites.
pub(crate) struct Found {
    known: Option<&'static Known>,
    address: usize,
}

impl Found {
    /// Looks an address up in its module, reading the module's file if no thread has.
    #[inline(never)]
    pub(crate) fn at(address: usize, module: &Module, sites: &[Site<'_>]) -> Self {
        let identity = identity(module);
        let mut next = KNOWN.load(Ordering::Acquire);
        // SAFETY: null or an entry, which stays and does not change.
        while let Some(known) = unsafe { next.as_ref() } {
            if (known.start, known.end, known.identity) == (module.start, module.end, identity) {
                return Self { known: Some(known), address };
            }
            next = known.next;
        }
        Self { known: look_at(module, identity, sites), address }
    }

    /// The numbers of the places that the address belongs to.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let address = self.address;
        let ranges = self.known.map_or(&[][..], |known| known.ranges);
        ranges.iter().filter(move |range| (range.start..range.end).contains(&address)).map(|range| range.what)
    }

    /// Whether the address is in a function that wraps locking.
    pub(crate) fn in_wrapper(&self) -> bool {
        self.known.is_some_and(|known| {
            let in_file = self.address.wrapping_sub(known.bias);
            known.functions.iter().any(|functions| functions.names_at(in_file).any(is_wrapper))
        })
    }
}

/// Tells modules apart that are loaded at one place one after another.
fn identity(module: &Module) -> u64 {
    let mixed = |hash: u64, word: u64| {
        let hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        hash ^ hash >> 29
    };
    let start = start_of(module.start, module.end);
    let loaded = module.loaded.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &word| mixed(hash, word as u64));
    if !start.starts_with(b"\x7fELF") {
        return loaded; // a segment by itself, whose content may change
    }
    start
        .chunks_exact(8)
        .fold(loaded, |hash, word| mixed(hash, u64::from_le_bytes(core::array::from_fn(|i| word[i]))))
}

/// The first bytes of what lies there.
fn start_of<'m>(start: usize, end: usize) -> &'m [u8] {
    let length = IDENTITY_BYTES.min(end - start);
    // SAFETY: the caller has it from the loader, or from the kernel as readable, and uses something in the module, so that it stays.
    unsafe { core::slice::from_raw_parts(start as *const u8, length) }
}

/// Reads a module's file. `None` where there is no memory.
#[cold]
fn look_at(module: &Module, identity: u64, sites: &[Site<'_>]) -> Option<&'static Known> {
    let errno = Errno::save();
    let Module { start, end, bias, .. } = *module;
    // A module whose file cannot be had has nothing that could be looked for, and is not looked at again.
    let nothing = Known {
        next: null_mut(),
        start,
        end,
        bias,
        identity,
        ranges: &[],
        functions: [Functions::NONE, Functions::NONE],
    };
    let entry = fresh_memory(size_of::<Known>())?.cast::<Known>();
    // SAFETY: fresh memory, long enough and aligned to a page, that no other thread knows yet.
    let known = unsafe {
        entry.write(nothing);
        &mut *entry
    };
    with_file_of(module, |file, name| {
        let tables = tables(file);
        known.ranges = ranges(&tables, name, module, sites);
        known.functions = tables.map(|table| Functions::of(&table));
    });
    let mut first = KNOWN.load(Ordering::Relaxed);
    loop {
        known.next = first;
        let this = from_ref(known).cast_mut();
        match KNOWN.compare_exchange_weak(first, this, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    errno.restore();
    Some(known)
}

/// Calls `body` with the content of a module's file, and the file's name without its directory. Not if it cannot be had.
///
/// The path comes from the kernel's list of mappings, since the loader's may be relative to a directory that the program has
/// left. A program whose file has been deleted still has it.
fn with_file_of(module: &Module, body: impl FnOnce(&[u8], &[u8])) {
    const TEXT: usize = 8 << 20;
    let Some(text) = fresh_memory(TEXT) else { return };
    // SAFETY: fresh memory of this length, used by this function alone; the last byte stays zero.
    let text_bytes = unsafe { core::slice::from_raw_parts_mut(text, TEXT - 1) };
    let length = read_file(c"/proc/self/maps", text_bytes).len();
    if let Some((path, head)) = file_at(&text_bytes[..length], module.start) {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
        // The line ends with a line feed, which this function no longer needs.
        let end = path.as_ptr().addr() - text_bytes.as_ptr().addr() + path.len();
        let (start, name_start) = (end - path.len(), name.as_ptr().addr() - text_bytes.as_ptr().addr());
        let name_length = name.len();
        text_bytes[end] = 0;
        let path = CStr::from_bytes_until_nul(&text_bytes[start..=end]).unwrap_or(c"");
        let name = &text_bytes[name_start..name_start + name_length];
        let mut body = Some(body);
        for path in [path, c"/proc/self/exe"] {
            with_file(path, |file| {
                if let Some(body) = body.take_if(|_| file.starts_with(start_of(head.start, head.end))) {
                    body(file, name);
                }
            });
        }
    }
    // SAFETY: mapped above.
    unsafe { libc::munmap(text.cast(), TEXT) };
}

/// The path of the file that is mapped at this address, by the text of `/proc/self/maps`, and where the file's first bytes are mapped: there, or
/// before it where the loader has a module's segments apart.
fn file_at(maps: &[u8], start: usize) -> Option<(&[u8], core::ops::Range<usize>)> {
    let lines = || maps.split(|&byte| byte == b'\n').filter_map(MapsLine::parse);
    // A segment need not begin with a page.
    let path = lines().find(|line| (line.start..line.end).contains(&start))?.path?;
    let is_head = |line: &MapsLine<'_>| {
        line.start <= start && line.offset == 0 && line.readable && line.path == Some(path)
    };
    let head = lines().rfind(is_head)?;
    Some((path, head.start..head.end))
}

fn with_file(path: &CStr, body: impl FnOnce(&[u8])) {
    // SAFETY: the descriptor and the mapping are this function's own. A file that is cut short meanwhile would be a fault,
    // but it is one that the program runs from.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK);
        if file < 0 {
            return;
        }
        let length = usize::try_from(libc::lseek(file, 0, libc::SEEK_END)).unwrap_or(0);
        let start = libc::mmap(null_mut(), length.max(1), libc::PROT_READ, libc::MAP_PRIVATE, file, 0);
        libc::close(file);
        if start != libc::MAP_FAILED {
            body(core::slice::from_raw_parts(start.cast::<u8>(), length));
            libc::munmap(start, length.max(1));
        }
    }
}

/// What the sites are in a module, by its tables and by its file's name.
fn ranges(tables: &[Table<'_>; 2], name: &[u8], module: &Module, sites: &[Site<'_>]) -> &'static [Range] {
    let marked = [Marks::of(&tables[0], sites), Marks::of(&tables[1], sites)];
    let visit = |add: &mut dyn FnMut(Range)| {
        of_addresses(name, module, sites, add);
        for (table, marks) in tables.iter().zip(&marked) {
            of_symbols(table, marks, name, module, sites, add);
        }
    };
    let mut count = 0;
    visit(&mut |_| count += 1);
    let Some(memory) = fresh_memory(count * size_of::<Range>()).filter(|_| count > 0) else { return &[] };
    let ranges = memory.cast::<Range>();
    let mut filled = 0;
    visit(&mut |range| {
        if filled < count {
            // SAFETY: fresh memory with space for `count`, aligned to a page.
            unsafe { ranges.add(filled).write(range) };
            filled += 1;
        }
    });
    // SAFETY: so many were written; no thread changes or frees them.
    unsafe { core::slice::from_raw_parts(ranges, filled) }
}

/// Calls `add` with the sites that are addresses of this file.
fn of_addresses(name: &[u8], module: &Module, sites: &[Site<'_>], add: &mut dyn FnMut(Range)) {
    for (what, site) in sites.iter().enumerate() {
        let address = match site.which {
            Which::At(address) => address,
            Which::Call(address) => address.wrapping_sub(1),
            Which::All | Which::By(_) | Which::Initialised => continue,
        };
        if site.name == name {
            let start = module.bias.wrapping_add(address);
            add(Range { start, end: start.wrapping_add(1), what });
        }
    }
}

/// Calls `add` with what the sites are by name.
fn of_symbols(
    table: &Table<'_>,
    marks: &Marks,
    file: &[u8],
    module: &Module,
    sites: &[Site<'_>],
    add: &mut dyn FnMut(Range),
) {
    let mut source = None;
    for number in 0..table.count() {
        if let Some(name) = table.source(number) {
            source = Some(name);
        }
        let Some(symbol) = table.symbol(number).filter(|symbol| marks.has(symbol.name_at)) else { continue };
        let Some(name) = table.name(&symbol) else { continue };
        let source = source.filter(|_| symbol.is_local);
        let start = module.bias.wrapping_add(symbol.start);
        for (what, site) in sites.iter().enumerate() {
            let (start, length) = match site.which {
                Which::All | Which::Initialised => (start, symbol.length.max(1)),
                Which::At(offset) => (start.wrapping_add(offset), 1),
                Which::By(_) | Which::Call(_) => continue,
            };
            if site.is_of(name, source, file, symbol.start) {
                add(Range { start, end: start.wrapping_add(length), what });
            }
        }
    }
}

/// Which names of a table may be those of a site: a bit for each [`Marks::STEP`] bytes of its names.
struct Marks {
    bits: &'static mut [u8],
    all: bool,
}

impl Marks {
    const STEP: usize = 32;

    /// Those that hold a piece of a site's name.
    fn of(table: &Table<'_>, sites: &[Site<'_>]) -> Self {
        let names = table.names;
        let length = names.len() / (8 * Self::STEP) + 1;
        let Some(memory) = fresh_memory(length) else { return Self { bits: &mut [], all: true } };
        // SAFETY: fresh memory of this length.
        let mut marks = Self { bits: unsafe { core::slice::from_raw_parts_mut(memory, length) }, all: false };
        let named = |site: &&Site<'_>| matches!(site.which, Which::All | Which::At(_) | Which::Initialised);
        for (number, site) in sites.iter().enumerate().filter(|(_, site)| named(site)) {
            if sites[..number].iter().filter(named).any(|before| before.name == site.name) {
                continue;
            }
            let piece = piece_of(site.name);
            if piece.is_empty() {
                marks.all = true;
                break;
            }
            let (mut from, mut before) = (0, 0);
            while let Some(at) = find(&names[from..], piece).map(|at| from + at) {
                // A symbol's name may begin anywhere in the text before, since names share their ends. What is before the last place is marked.
                let zero = names[before..at].iter().rposition(|&byte| byte == 0);
                let start = zero.map_or(before, |zero| before + zero + 1);
                (start / Self::STEP..=at / Self::STEP).for_each(|bit| marks.bits[bit / 8] |= 1 << (bit % 8));
                (from, before) = (at + piece.len(), at);
            }
        }
        marks
    }

    fn has(&self, name_at: usize) -> bool {
        let bit = name_at / Self::STEP;
        self.all || self.bits.get(bit / 8).is_some_and(|byte| byte & 1 << (bit % 8) != 0)
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        if !self.bits.is_empty() {
            // SAFETY: a mapping of this length, to which there is no other reference.
            unsafe { libc::munmap(self.bits.as_mut_ptr().cast(), self.bits.len()) };
        }
    }
}

/// Where `piece`, which is not empty, first begins in `text`.
fn find(text: &[u8], piece: &[u8]) -> Option<usize> {
    // SAFETY: both are readable for their lengths; nothing is kept.
    let found = unsafe { libc::memmem(text.as_ptr().cast(), text.len(), piece.as_ptr().cast(), piece.len()) };
    (!found.is_null()).then(|| found.addr() - text.as_ptr().addr())
}

/// The functions of a table, to be found by address. They keep a copy of it, since the file does not stay mapped: a program that
/// reads its own mappings finds its files in them once.
struct Functions {
    table: Table<'static>,
    /// The address of each, shifted left by [`Functions::NUMBER_BITS`], with its number in the table; in order.
    keys: &'static [u64],
}

impl Functions {
    const NONE: Self = Self { table: Table::EMPTY, keys: &[] };
    const NUMBER_BITS: u32 = 24;
    /// Functions that may begin between the one that holds an address and that address: parts of it with names of their own.
    const NESTED: usize = 8;

    fn of(table: &Table<'_>) -> Self {
        let functions = || {
            let numbers = 0..table.count().min(1 << Self::NUMBER_BITS);
            numbers.filter_map(|number| {
                let symbol = table.symbol(number).filter(|symbol| symbol.is_code && symbol.length > 0)?;
                let fits = symbol.start >> (u64::BITS - Self::NUMBER_BITS) == 0;
                fits.then_some((symbol.start as u64) << Self::NUMBER_BITS | number as u64)
            })
        };
        let count = functions().count();
        let (Some(keys), Some(scratch)) = (fresh_words(count), fresh_words(count + DIGITS)) else {
            return Self::NONE;
        };
        keys.iter_mut().zip(functions()).for_each(|(key, function)| *key = function);
        sort(keys, scratch, Self::NUMBER_BITS);
        // SAFETY: mapped above, and not used any more.
        unsafe { libc::munmap(scratch.as_mut_ptr().cast(), size_of_val(scratch)) };
        table.copy().map_or(Self::NONE, |table| Self { table, keys })
    }

    /// The names of the functions that an address of the file lies in.
    fn names_at(&self, address: usize) -> impl Iterator<Item = &'static [u8]> {
        let start_of = |key: u64| (key >> Self::NUMBER_BITS) as usize;
        let end = self.keys.partition_point(|&key| start_of(key) <= address);
        let begin = |end: usize| {
            let start = self.keys[..end].last().map_or(0, |&key| start_of(key));
            self.keys[..end].partition_point(|&key| start_of(key) < start)
        };
        let begin = (0..Self::NESTED).fold(end, |end, _| begin(end));
        self.keys[begin..end].iter().filter_map(move |&key| {
            let symbol = self.table.symbol(key as usize & ((1 << Self::NUMBER_BITS) - 1))?;
            (address - symbol.start < symbol.length).then(|| self.table.name(&symbol))?
        })
    }
}

/// Zeros from the kernel, which stay. `None` for no words, and where there is no memory.
fn fresh_words(count: usize) -> Option<&'static mut [u64]> {
    let memory = fresh_memory(count * size_of::<u64>()).filter(|_| count > 0)?;
    // SAFETY: fresh memory of this length, aligned to a page, to which there is no other reference.
    Some(unsafe { core::slice::from_raw_parts_mut(memory.cast::<u64>(), count) })
}

/// Values of a digit of [`sort`].
const DIGITS: usize = 1 << u8::BITS;

/// Sorts by the bits from `lowest` on, and leaves the order of what is equal there: digit by digit, without recursion, since the
/// caller's stack may be small. `scratch` has space for as many, and for [`DIGITS`] counts.
fn sort(keys: &mut [u64], scratch: &mut [u64], lowest: u32) {
    let (places, sorted) = scratch.split_at_mut(DIGITS);
    for shift in (lowest..u64::BITS).step_by(u8::BITS as usize) {
        let digit = |key: u64| (key >> shift) as usize % DIGITS;
        places.fill(0);
        keys.iter().for_each(|&key| places[digit(key)] += 1);
        if keys.first().is_some_and(|&first| places[digit(first)] == keys.len() as u64) {
            continue; // they all have the same
        }
        let mut before = 0;
        for place in &mut *places {
            before += core::mem::replace(place, before);
        }
        for &key in &*keys {
            let place = &mut places[digit(key)];
            sorted[*place as usize] = key;
            *place += 1;
        }
        keys.copy_from_slice(sorted);
    }
}

/// A table of symbols.
#[derive(Clone, Copy)]
struct Table<'f> {
    symbols: &'f [u8],
    names: &'f [u8],
}

/// A variable or function that a file defines.
struct Symbol {
    name_at: usize,
    start: usize,
    length: usize,
    is_code: bool,
    /// Other source files may have one of the same name.
    is_local: bool,
}

impl<'f> Table<'f> {
    const EMPTY: Self = Self { symbols: &[], names: &[] };

    fn count(&self) -> usize {
        self.symbols.len() / size_of::<libc::Elf64_Sym>()
    }

    fn symbol(&self, number: usize) -> Option<Symbol> {
        const OBJECT: u8 = 1;
        const FUNCTION: u8 = 2;
        let symbol: libc::Elf64_Sym = read(self.symbols, number * size_of::<libc::Elf64_Sym>())?;
        let kind = symbol.st_info & 15;
        (symbol.st_shndx != 0 && matches!(kind, OBJECT | FUNCTION)).then_some(Symbol {
            name_at: symbol.st_name as usize,
            start: symbol.st_value as usize,
            length: symbol.st_size as usize,
            is_code: kind == FUNCTION,
            is_local: symbol.st_info >> 4 == 0,
        })
    }

    /// The name of a source file, whose local variables and functions follow.
    fn source(&self, number: usize) -> Option<&'f [u8]> {
        const SOURCE: u8 = 4;
        let symbol: libc::Elf64_Sym = read(self.symbols, number * size_of::<libc::Elf64_Sym>())?;
        (symbol.st_info & 15 == SOURCE).then(|| self.name_at(symbol.st_name as usize))?
    }

    fn name(&self, symbol: &Symbol) -> Option<&'f [u8]> {
        self.name_at(symbol.name_at)
    }

    fn name_at(&self, at: usize) -> Option<&'f [u8]> {
        Some(CStr::from_bytes_until_nul(self.names.get(at..)?).ok()?.to_bytes())
    }

    /// One that stays. `None` where there is no memory.
    fn copy(&self) -> Option<Table<'static>> {
        let length = self.symbols.len() + self.names.len();
        let words = fresh_words(length.div_ceil(size_of::<u64>()))?;
        // SAFETY: as many bytes or more, to which there is no other reference.
        let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), length) };
        let (symbols, names) = bytes.split_at_mut(self.symbols.len());
        symbols.copy_from_slice(self.symbols);
        names.copy_from_slice(self.names);
        Some(Table { symbols, names })
    }
}

/// A structure of the file format, if it lies inside the file.
fn read<T: Copy>(file: &[u8], at: usize) -> Option<T> {
    let bytes = file.get(at..at.checked_add(size_of::<T>())?)?;
    // SAFETY: as many bytes as the structure has, whose fields are all numbers.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The tables of symbols of a file: of all symbols, and of those for the loader. One that makes no sense is empty.
fn tables(file: &[u8]) -> [Table<'_>; 2] {
    const SYMBOLS: u32 = 2;
    const DYNAMIC_SYMBOLS: u32 = 11;
    [SYMBOLS, DYNAMIC_SYMBOLS].map(|kind| table(file, kind).unwrap_or(Table::EMPTY))
}

/// The first table of a kind.
fn table(file: &[u8], kind: u32) -> Option<Table<'_>> {
    const CLASS_64: u8 = 2;
    let header: libc::Elf64_Ehdr = read(file, 0)?;
    if header.e_ident[..4] != *b"\x7fELF" || header.e_ident[4] != CLASS_64 {
        return None;
    }
    let section = |index: usize| {
        let at = (header.e_shoff as usize).checked_add(index.checked_mul(header.e_shentsize as usize)?)?;
        read::<libc::Elf64_Shdr>(file, at)
    };
    let content =
        |section: &libc::Elf64_Shdr| file.get(section.sh_offset as usize..)?.get(..section.sh_size as usize);
    let mut sections = (0..usize::from(header.e_shnum)).map_while(section);
    let symbols = sections.find(|section| section.sh_type == kind)?;
    let names = section(symbols.sh_link as usize)?;
    Some(Table { symbols: content(&symbols)?, names: content(&names)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn keys_are_sorted_by_their_high_bits_and_stay_in_order_among_equals() {
        let mut random = 1_u64;
        for count in [1, 2, 255, 5000] {
            let mut keys: Vec<u64> = (0..count)
                .map(|number| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (((random >> 33) % 3000) << (random % 20) << 24) | number
                })
                .collect();
            let mut expected = keys.clone();
            expected.sort_by_key(|key| key >> 24);
            sort(&mut keys, &mut std::vec![0; count as usize + DIGITS], 24);
            assert_eq!(keys, expected);
        }
    }

    /// This program's own file.
    fn own_file() -> Vec<u8> {
        std::fs::read(std::env::current_exe().expect("a path")).expect("the program")
    }

    #[test]
    fn a_function_is_found_by_each_of_its_addresses() {
        let file = own_file();
        let [table, _] = tables(&file);
        let functions = Functions::of(&table);
        let named = |symbol: &Symbol| table.name(symbol).expect("a name");
        let mut looked_at = 0;
        for symbol in (0..table.count()).filter_map(|number| table.symbol(number)) {
            if !symbol.is_code || symbol.length == 0 {
                continue;
            }
            looked_at += 1;
            for address in [symbol.start, symbol.start + symbol.length - 1] {
                assert!(functions.names_at(address).any(|name| name == named(&symbol)));
            }
        }
        assert!(looked_at > 1000, "{looked_at}");
    }

    #[test]
    fn marked_names_are_those_that_may_be_a_sites() {
        let file = own_file();
        let [table, _] = tables(&file);
        let sites = [Site::parse(b"contend_preload::symbols::tests::own_file"), Site::parse(b"main@000001")];
        let marks = Marks::of(&table, &sites);
        let symbols = || (0..table.count()).filter_map(|number| table.symbol(number));
        let is_site =
            |symbol: &Symbol| sites[0].is_of(table.name(symbol).expect("a name"), None, b"", symbol.start);
        assert!(symbols().any(|symbol| is_site(&symbol)));
        assert!(symbols().all(|symbol| marks.has(symbol.name_at) || !is_site(&symbol)));
        assert!(symbols().any(|symbol| !marks.has(symbol.name_at)));
        assert!(Marks::of(&table, &[Site::parse(b"operator<<")]).all);
    }

    #[test]
    fn names_that_share_their_ends_are_marked_wherever_they_begin() {
        let long = [b'x'; 5 * Marks::STEP];
        let names =
            [b"\0", &long[..], b"needle", &long, b"needle", &long, b"\0other\0", &long, b"needle\0"].concat();
        let marks = Marks::of(&Table { symbols: &[], names: &names }, &[Site::parse(b"needle")]);
        for (at, _) in names.iter().enumerate().filter(|(at, _)| at % Marks::STEP == 0) {
            let end = names[at..].iter().position(|&byte| byte == 0).map_or(names.len(), |zero| at + zero);
            let holds = find(&names[at..end], b"needle").is_some();
            assert!(marks.has(at) || !holds, "{at}");
        }
        let behind_the_second = 1 + 2 * (long.len() + b"needle".len());
        assert!(!marks.has(behind_the_second + 2 * Marks::STEP));
    }
}
