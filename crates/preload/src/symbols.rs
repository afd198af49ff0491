//! The symbols of the loaded objects, read from their files without allocating.

use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;

/// What is done with a symbol: its name as it stands in the file, its address here, its length.
type Each<'a> = &'a mut dyn FnMut(&[u8], usize, usize);

/// How many objects have been loaded since the program started.
pub(crate) fn objects_ever_loaded() -> u64 {
    extern "C" fn one(info: *mut libc::dl_phdr_info, _: usize, adds: *mut c_void) -> c_int {
        // SAFETY: the loader passes its record, and the count of the caller below.
        unsafe { *adds.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut adds = 0u64;
    // SAFETY: the callback gets a place for a number, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut adds).cast()) };
    adds
}

/// Calls `each` with every symbol of every loaded object. A file that cannot be read, or makes no sense, has none.
pub(crate) fn each(mut each: impl FnMut(&[u8], usize, usize)) {
    extern "C" fn object(info: *mut libc::dl_phdr_info, _: usize, each: *mut c_void) -> c_int {
        // SAFETY: the loader passes its record, whose name ends with a zero, and the function of the caller below.
        let (name, base, each) = unsafe {
            (CStr::from_ptr((*info).dlpi_name), (*info).dlpi_addr as usize, &mut *each.cast::<Each<'_>>())
        };
        let path = if name.is_empty() { c"/proc/self/exe" } else { name };
        with_file(path, |file| {
            symbols_of(file, base, *each);
        });
        0
    }
    let mut each: Each<'_> = &mut each;
    // SAFETY: the callback gets a function, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(object), (&raw mut each).cast()) };
}

fn with_file(path: &CStr, body: impl FnOnce(&[u8])) {
    // SAFETY: the descriptor and the mapping are this function's own. A file that is cut short meanwhile would be a fault,
    // but it is one that the program runs from.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
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

/// A structure of the file format, if it lies inside the file.
fn read<T: Copy>(file: &[u8], at: usize) -> Option<T> {
    let bytes = file.get(at..at.checked_add(size_of::<T>())?)?;
    // SAFETY: as many bytes as the structure has, whose fields are all numbers.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

fn symbols_of(file: &[u8], base: usize, each: Each<'_>) -> Option<()> {
    const CLASS_64: u8 = 2;
    let header: libc::Elf64_Ehdr = read(file, 0)?;
    if header.e_ident[..4] != *b"\x7fELF" || header.e_ident[4] != CLASS_64 {
        return None;
    }
    let section = |index: usize| {
        let at = (header.e_shoff as usize).checked_add(index.checked_mul(header.e_shentsize as usize)?)?;
        read::<libc::Elf64_Shdr>(file, at)
    };
    for index in 0..usize::from(header.e_shnum) {
        const SYMBOLS: u32 = 2;
        const DYNAMIC_SYMBOLS: u32 = 11;
        let table = section(index)?;
        if !matches!(table.sh_type, SYMBOLS | DYNAMIC_SYMBOLS) {
            continue;
        }
        let names = section(table.sh_link as usize)?;
        let names = file.get(names.sh_offset as usize..)?.get(..names.sh_size as usize)?;
        let count = table.sh_size as usize / size_of::<libc::Elf64_Sym>();
        for number in 0..count {
            let symbol: libc::Elf64_Sym =
                read(file, (table.sh_offset as usize).checked_add(number * size_of::<libc::Elf64_Sym>())?)?;
            if symbol.st_shndx != 0
                && matches!(symbol.st_info & 15, 1 | 2) // data or code
                && let Some(name) = names.get(symbol.st_name as usize..)
                && let Ok(name) = CStr::from_bytes_until_nul(name)
            {
                each(name.to_bytes(), base.wrapping_add(symbol.st_value as usize), symbol.st_size as usize);
            }
        }
    }
    Some(())
}

/// Whether a symbol has this name: as it stands in the file, or as C++ writes it, without parameters and templates
/// (`kyotocabinet::CacheDB::accept`). The second is told from the first by mangling it.
pub(crate) fn is_named(symbol: &[u8], name: &[u8]) -> bool {
    symbol == name || symbol.strip_prefix(b"_Z").is_some_and(|rest| is_mangled(rest, name))
}

/// The part of the Itanium C++ ABI's mangling (5.1.2) that names without templates and substitutions need.
fn is_mangled(rest: &[u8], name: &[u8]) -> bool {
    let name = name.split(|&byte| byte == b'(').next().unwrap_or(name);
    let nested = rest.strip_prefix(b"N");
    let mut rest = nested.unwrap_or(rest);
    rest = rest.strip_prefix(b"K").unwrap_or(rest);
    let mut last: &[u8] = b"";
    let mut left = name;
    while !left.is_empty() {
        let end = left.windows(2).position(|pair| pair == b"::").unwrap_or(left.len());
        let part = &left[..end];
        left = left.get(end + 2..).unwrap_or(b"");
        let taken = match part {
            _ if part == last && !last.is_empty() => constructor(rest),
            [b'~', class @ ..] if class == last => destructor(rest),
            _ => source_name(rest, part),
        };
        let Some(after) = taken else { return false };
        rest = after;
        last = part;
    }
    nested.is_none() || rest.first() == Some(&b'E')
}

fn constructor(rest: &[u8]) -> Option<&[u8]> {
    rest.strip_prefix(b"C").and_then(|rest| rest.get(1..))
}

fn destructor(rest: &[u8]) -> Option<&[u8]> {
    rest.strip_prefix(b"D").and_then(|rest| rest.get(1..))
}

/// `<length><identifier>`.
fn source_name<'a>(rest: &'a [u8], part: &[u8]) -> Option<&'a [u8]> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length: usize = core::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let identifier = rest.get(digits..digits.checked_add(length)?)?;
    if identifier == part || (part == b"(anonymous namespace)" && identifier == b"_GLOBAL__N_1") {
        rest.get(digits + length..)
    } else {
        None
    }
}
