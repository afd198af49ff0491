//! What the configured sites are in a program or library: where their variables and functions lie, and which functions
//! wrap locking. It is read from the file, once for each module, when the first lock has to be decided that lies in it or
//! that a call in it makes. Nothing is asked of the loader and nothing is allocated by the program's allocator: the caller may
//! be inside both, or another thread may be, which waits for the caller.

use core::ffi::CStr;
use core::ptr::{from_ref, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use machine::host::Errno;
use pthread::site::{Site, Which};
use pthread::symbol::is_named;
use pthread::wrapper::is_wrapper;

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
    /// The number of a site's place, or [`WRAPPER`].
    what: usize,
}

const WRAPPER: usize = usize::MAX;

/// What is known of a module. It is never freed: others may be reading it.
struct Known {
    next: *mut Known,
    start: usize,
    end: usize,
    identity: u64,
    ranges: *const Range,
    count: usize,
}

/// All modules looked at, the last one first. Two threads may look at one at the same time, and both entries are right.
static KNOWN: AtomicPtr<Known> = AtomicPtr::new(null_mut());

/// What an address of a module is to the sites.
pub(crate) struct Found {
    ranges: &'static [Range],
    address: usize,
}

impl Found {
    /// Looks an address up in its module, reading the module's file if nobody has.
    #[inline(never)]
    pub(crate) fn at(address: usize, module: &Module, sites: &[Site<'_>]) -> Self {
        let identity = identity(module);
        let mut next = KNOWN.load(Ordering::Acquire);
        // SAFETY: null or an entry, which stays and does not change.
        while let Some(known) = unsafe { next.as_ref() } {
            if (known.start, known.end, known.identity) == (module.start, module.end, identity) {
                return Self { ranges: known.ranges(), address };
            }
            next = known.next;
        }
        Self { ranges: look_at(module, identity, sites), address }
    }

    /// The numbers of the places that the address belongs to.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        self.covering().map(|range| range.what).filter(|&what| what != WRAPPER)
    }

    /// Whether the address is in a function that wraps locking.
    pub(crate) fn in_wrapper(&self) -> bool {
        self.covering().any(|range| range.what == WRAPPER)
    }

    fn covering(&self) -> impl Iterator<Item = &'static Range> {
        let address = self.address;
        self.ranges.iter().filter(move |range| (range.start..range.end).contains(&address))
    }
}

impl Known {
    fn ranges(&self) -> &'static [Range] {
        // SAFETY: the entry's ranges, which stay and do not change.
        unsafe { core::slice::from_raw_parts(self.ranges, self.count) }
    }
}

/// Tells modules apart that are loaded at one place one after another.
fn identity(module: &Module) -> u64 {
    start_of(module).chunks_exact(8).fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        let word = u64::from_le_bytes(core::array::from_fn(|i| word[i]));
        let hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        hash ^ hash >> 29
    })
}

fn start_of(module: &Module) -> &[u8] {
    let length = IDENTITY_BYTES.min(module.end - module.start);
    // SAFETY: a module's first page is mapped readable, and the caller uses something in the module, so that it stays.
    unsafe { core::slice::from_raw_parts(module.start as *const u8, length) }
}

/// Reads a module's file.
#[cold]
fn look_at(module: &Module, identity: u64, sites: &[Site<'_>]) -> &'static [Range] {
    let errno = Errno::save();
    let mut known = None;
    with_file_of(module, |file, name| {
        let mut count = 0;
        ranges_of(file, name, module, sites, &mut |_| count += 1);
        let Some(entry) = fresh_memory(size_of::<Known>() + count * size_of::<Range>()) else { return };
        let ranges = entry.wrapping_add(size_of::<Known>()).cast::<Range>();
        let mut filled = 0;
        ranges_of(file, name, module, sites, &mut |range| {
            if filled < count {
                // SAFETY: there is space for `count`, aligned as the entry is.
                unsafe { ranges.add(filled).write(range) };
                filled += 1;
            }
        });
        known = Some((entry.cast::<Known>(), ranges.cast_const(), filled));
    });
    // A module whose file cannot be had has nothing that could be looked for, and is not looked at again.
    let known = known.or_else(|| {
        let entry = fresh_memory(size_of::<Known>())?;
        Some((entry.cast::<Known>(), core::ptr::dangling(), 0))
    });
    let found = known.map(|(entry, ranges, count)| {
        let Module { start, end, .. } = *module;
        // SAFETY: fresh memory, long enough and aligned to a page, that nobody else knows yet.
        let known = unsafe {
            entry.write(Known { next: null_mut(), start, end, identity, ranges, count });
            &mut *entry
        };
        let mut first = KNOWN.load(Ordering::Relaxed);
        loop {
            known.next = first;
            let this = from_ref(known).cast_mut();
            match KNOWN.compare_exchange_weak(first, this, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return known.ranges(),
                Err(now) => first = now,
            }
        }
    });
    errno.restore();
    found.unwrap_or(&[])
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
    if let Some(path) = path_at(&text_bytes[..length], module.start) {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
        // The line ends with a line feed, which nobody needs any more.
        let end = path.as_ptr().addr() - text_bytes.as_ptr().addr() + path.len();
        let (start, name_start) = (end - path.len(), name.as_ptr().addr() - text_bytes.as_ptr().addr());
        let name_length = name.len();
        text_bytes[end] = 0;
        let path = CStr::from_bytes_until_nul(&text_bytes[start..=end]).unwrap_or(c"");
        let name = &text_bytes[name_start..name_start + name_length];
        let mut body = Some(body);
        for path in [path, c"/proc/self/exe"] {
            with_file(path, |file| {
                if file.starts_with(start_of(module))
                    && let Some(body) = body.take()
                {
                    body(file, name);
                }
            });
        }
    }
    // SAFETY: mapped above.
    unsafe { libc::munmap(text.cast(), TEXT) };
}

/// The path in the line of `/proc/self/maps` that begins with this address.
fn path_at(maps: &[u8], start: usize) -> Option<&[u8]> {
    let mut lines = maps.split(|&byte| byte == b'\n').filter_map(MapsLine::parse);
    lines.find(|line| line.start == start)?.path
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

/// Calls `add` with what the sites, and wrappers of locks, are in a file.
fn ranges_of(file: &[u8], name: &[u8], module: &Module, sites: &[Site<'_>], add: &mut dyn FnMut(Range)) {
    for (what, site) in sites.iter().enumerate() {
        let address = match site.which {
            Which::At(address) => address,
            Which::Call(address) => address.wrapping_sub(1),
            Which::All | Which::By(_) => continue,
        };
        if site.name == name {
            let start = module.bias.wrapping_add(address);
            add(Range { start, end: start.wrapping_add(1), what });
        }
    }
    symbols_of(file, &mut |symbol, start, length| {
        let start = module.bias.wrapping_add(start);
        for (what, site) in sites.iter().enumerate() {
            if matches!(site.which, Which::By(_) | Which::Call(_)) || !is_named(symbol, site.name) {
                continue;
            }
            match site.which {
                Which::All => add(Range { start, end: start + length.max(1), what }),
                Which::At(offset) => add(Range { start: start + offset, end: start + offset + 1, what }),
                Which::By(_) | Which::Call(_) => {}
            }
        }
        if is_wrapper(symbol) {
            add(Range { start, end: start + length, what: WRAPPER });
        }
    });
}

/// A structure of the file format, if it lies inside the file.
fn read<T: Copy>(file: &[u8], at: usize) -> Option<T> {
    let bytes = file.get(at..at.checked_add(size_of::<T>())?)?;
    // SAFETY: as many bytes as the structure has, whose fields are all numbers.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Calls `each` with the name, address and length of every variable and function that a file defines. One that makes no
/// sense has none.
fn symbols_of(file: &[u8], each: &mut dyn FnMut(&[u8], usize, usize)) -> Option<()> {
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
                each(name.to_bytes(), symbol.st_value as usize, symbol.st_size as usize);
            }
        }
    }
    Some(())
}
