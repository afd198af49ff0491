//! The files that another process has mapped: unwinding its stacks by them, and finding the functions that wait.

use super::effort::Effort;
use super::futex::{Enter, STACK_BYTES, UserStack};
use super::living;
use super::objects::{Function, Memory, SINCE_2_41};
use super::unwinding;
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative, Unwinder as _,
    UnwinderNative,
};
use object::{
    Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, ReadRef, SymbolKind,
};
use profile::read::{Mapping, Mappings, files, printable};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use symbols::wrapper::is_wrapper;

/// Addresses that are kept of a stack, from the innermost.
const DEEPEST: usize = 32;
/// Calls from the innermost on among which the function that waits is looked for.
const NEAR: usize = 12;
/// Code that is in no known file is looked for again after so long: it may be generated code, of which there is always more.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);

/// Bytes that are read of a file, beside its tables for unwinding.
const MOST_OF_A_FILE: u64 = 96 << 20;
/// Bytes that are kept of all files: their tables for unwinding.
const MOST_OF_TABLES: u64 = 64 << 20;
/// CPU time that goes into reading files, all in all. Those of a large program take a tenth of it.
const READING: Duration = Duration::from_secs(5);

/// The modules of a process, as far as they were looked at.
pub(super) struct Modules {
    pid: u32,
    unwinder: UnwinderNative<Rc<[u8]>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// Executable mappings by their start.
    mapped: BTreeMap<u64, Mapped>,
    /// By inode and path.
    files: HashMap<String, Rc<ModuleFile>>,
    /// Lines of the last look that name files.
    lines: Vec<u8>,
    looked: Instant,
    limits: Limits,
    /// What could not be read, or not be used.
    pub(super) remarks: BTreeSet<String>,
}

/// What may still be read.
struct Limits {
    tables: u64,
    time: Duration,
}

/// Build identifiers of files, each with the address at which the file starts.
type BuildIds = Vec<(u64, Vec<u8>)>;

struct Mapped {
    end: u64,
    /// What is added to an address of the file's own.
    bias: u64,
    file: Rc<ModuleFile>,
}

/// What is kept of a file.
#[derive(Default)]
struct ModuleFile {
    is_c_library: bool,
    is_go: bool,
    build_id: Option<Vec<u8>>,
    segments: Vec<Segment>,
    /// Functions that wait, by their start.
    functions: Vec<(Range<u64>, Function)>,
    /// Functions that only wrap locks, by their start.
    wrappers: Vec<Range<u64>>,
    unwinding: Sections,
}

struct Segment {
    offset: u64,
    file_size: u64,
    address: u64,
    has_code: bool,
}

/// Sections by which stacks are unwound, with their addresses.
#[derive(Default)]
struct Sections {
    text: Option<Range<u64>>,
    /// The index that linkers put beside it is not used: it may lead anywhere.
    eh_frame: Option<(Range<u64>, Rc<[u8]>)>,
}

impl Modules {
    /// Those of a process.
    pub(super) fn of(pid: u32) -> Self {
        let mut modules = Self {
            pid,
            unwinder: UnwinderNative::new(),
            cache: CacheNative::new(),
            mapped: BTreeMap::new(),
            files: HashMap::new(),
            lines: Vec::new(),
            looked: Instant::now(),
            limits: Limits { tables: MOST_OF_TABLES, time: READING },
            remarks: BTreeSet::new(),
        };
        modules.look();
        modules
    }

    /// The lines of `/proc/PID/maps` that name files, if they have changed since `before`, and the files' build identifiers.
    pub(super) fn changed_since(&self, before: &[u8]) -> Option<(&[u8], BuildIds)> {
        if self.lines == before {
            return None;
        }
        let lines = self.lines.split(|&byte| byte == b'\n').filter_map(MapsLine::parse);
        let starts = lines.filter(|line| line.offset == 0);
        let id = |line: MapsLine<'_>| Some((line.start, self.files.get(&line.file())?.build_id.clone()?));
        Some((&self.lines, starts.filter_map(id).collect()))
    }

    /// Whether there is code of the Go compiler among them: its locks are no pthread's.
    pub(super) fn are_go(&self) -> bool {
        self.files.values().any(|file| file.is_go)
    }

    /// Whether locks of the process are contend's: the library is there that swaps them.
    pub(super) fn are_swapped(&self) -> bool {
        self.files.keys().any(|path| path.contains("libcontend_preload"))
    }

    /// The return addresses of a stack, from the innermost.
    pub(super) fn unwind(&mut self, stack: &UserStack) -> Vec<u64> {
        let addresses = self.try_unwind(stack);
        if self.is_looked_at_for(&addresses) { self.try_unwind(stack) } else { addresses }
    }

    /// These return addresses, whose files have been looked at.
    pub(super) fn known(&mut self, addresses: &[u64]) -> Vec<u64> {
        self.is_looked_at_for(addresses);
        addresses.to_vec()
    }

    /// Looks at the mappings if one of these addresses is in none that is known: a library may have been loaded meanwhile. False if that
    /// was not needed, or has been done just now.
    fn is_looked_at_for(&mut self, addresses: &[u64]) -> bool {
        let is_known = addresses.iter().all(|&address| self.mapped_at(address).is_some());
        let looks = !is_known && self.looked.elapsed() >= REFRESH_INTERVAL;
        if looks {
            self.look();
        }
        looks
    }

    fn try_unwind(&mut self, stack: &UserStack) -> Vec<u64> {
        let mut read = |address: u64| {
            let at = usize::try_from(address.wrapping_sub(stack.pointer)).map_err(drop)?;
            let word = stack.bytes.get(at..at.saturating_add(8)).ok_or(())?;
            word.try_into().map(u64::from_le_bytes).map_err(drop)
        };
        let mut frames =
            self.unwinder.iter_frames(stack.instruction, registers(stack), &mut self.cache, &mut read);
        let mut addresses = Vec::new();
        // An error is the end of what was kept of the stack, or code without a way out.
        while let Ok(Some(frame)) = frames.next()
            && addresses.len() < DEEPEST
        {
            addresses.push(frame.address());
        }
        addresses
    }

    /// The callers outside the C library and, where it is linked statically or is none, outside the function that waits.
    pub(super) fn callers<'a>(&self, addresses: &'a [u64]) -> &'a [u64] {
        let inside =
            |&&address: &&u64| self.mapped_at(address).is_some_and(|mapped| mapped.file.is_c_library);
        let of_c_library = addresses.iter().take_while(inside).count();
        let near = &addresses[..addresses.len().min(NEAR)];
        let waits = |&address: &u64| self.function_at(address).is_some();
        let of_function = near.iter().rposition(waits).map_or(0, |last| last + 1);
        &addresses[of_c_library.max(of_function)..]
    }

    /// The first of these callers in a function that does more than wrap locks; the innermost where all do that; 0 if there are none.
    pub(super) fn caller(&self, callers: &[u64]) -> u64 {
        let wraps = |&&address: &&u64| {
            let call = address.wrapping_sub(1);
            self.mapped_at(call).is_some_and(|mapped| mapped.file.is_wrapper(call.wrapping_sub(mapped.bias)))
        };
        callers.iter().find(|address| !wraps(address)).or(callers.first()).copied().unwrap_or(0)
    }

    /// The function that waits, of those that are innermost.
    pub(super) fn function(&self, addresses: &[u64]) -> Option<Function> {
        let near = addresses.iter().take(NEAR);
        near.filter_map(|&address| self.function_at(address)).find(|&function| function != Function::Syscall)
    }

    /// Whether the C library itself waits.
    pub(super) fn is_by_c_library(&self, addresses: &[u64]) -> bool {
        let Some(&innermost) = addresses.first() else { return false };
        self.mapped_at(innermost).is_some_and(|mapped| mapped.file.is_c_library)
            && self.function_at(innermost) != Some(Function::Syscall)
    }

    fn function_at(&self, return_address: u64) -> Option<Function> {
        let call = return_address.wrapping_sub(1); // not what follows it, which may be another function
        let mapped = self.mapped_at(call)?;
        mapped.file.function(call.wrapping_sub(mapped.bias))
    }

    fn mapped_at(&self, address: u64) -> Option<&Mapped> {
        self.mapped
            .range(..=address)
            .next_back()
            .map(|(_, mapped)| mapped)
            .filter(|mapped| address < mapped.end)
    }

    /// Looks at the mappings, and reads files that were not there before.
    fn look(&mut self) {
        self.looked = Instant::now();
        let text = fs::read(living(self.pid).join("maps")).unwrap_or_default();
        let lines: Vec<_> = text.split_inclusive(|&byte| byte == b'\n').collect();
        let named = lines.iter().filter(|line| MapsLine::parse(line).is_some());
        let named: Vec<u8> = named.flat_map(|line| line.iter().copied()).collect();
        if named.is_empty() {
            return; // it has ended
        }
        self.lines = named;
        let effort = Effort::begin(self.limits.time);
        let mut gone = std::mem::take(&mut self.mapped);
        for line in lines.iter().filter_map(|line| MapsLine::parse(line)).filter(|line| line.executable) {
            let mapped = match gone.remove(&line.start) {
                Some(known) if known.end == line.end && self.is_file_of(&known, &line) => known,
                before => {
                    if before.is_some() {
                        self.unwinder.remove_module(line.start);
                    }
                    self.map(&line, &effort)
                }
            };
            self.mapped.insert(line.start, mapped);
        }
        self.limits.time = effort.left();
        if self.limits.time.is_zero() {
            self.remarks
                .insert("reading its files takes too long: some locks have neither name nor caller".into());
        }
        for start in gone.into_keys() {
            self.unwinder.remove_module(start);
        }
    }

    /// Whether what was mapped is the file of this line: another library may have come to its place.
    fn is_file_of(&self, mapped: &Mapped, line: &MapsLine<'_>) -> bool {
        self.files.get(&line.file()).is_some_and(|file| Rc::ptr_eq(file, &mapped.file))
    }

    /// Whether nothing of the process could be read: it has ended.
    pub(super) fn are_unknown(&self) -> bool {
        self.lines.is_empty()
    }

    /// Looks at what its recorder has noted of the mappings that these addresses are in, where the process has ended.
    pub(super) fn look_at_recorded(&mut self, recorded: &Mappings, addresses: impl IntoIterator<Item = u64>) {
        let effort = Effort::begin(self.limits.time);
        for address in addresses {
            let Some(mapping) = recorded.at(address) else { continue };
            let start = recorded.start_of(&mapping.path, address).and_then(|start| recorded.at(start));
            for mapping in start.into_iter().chain([mapping]) {
                let code = if mapping.executable { 'x' } else { '-' };
                let Mapping { start, end, offset, inode, path, .. } = mapping;
                let line =
                    format!("{start:x}-{end:x} r-{code}p {offset:08x} 00:00 {inode} {path}\n").into_bytes();
                if self.lines.windows(line.len()).any(|known| known == line) {
                    continue;
                }
                if let Some(parsed) = MapsLine::parse(&line).filter(|line| line.executable) {
                    let mapped = self.map(&parsed, &effort);
                    self.mapped.insert(parsed.start, mapped);
                }
                self.lines.extend(line);
            }
        }
        self.limits.time = effort.left();
    }

    fn map(&mut self, line: &MapsLine<'_>, effort: &Effort) -> Mapped {
        let known = self.files.get(&line.file()).cloned();
        let file = known.unwrap_or_else(|| {
            let opened = open(self.pid, line);
            let read = |file| ModuleFile::read(&file, Path::new(line.path), &mut self.limits, effort);
            let mut file = opened.and_then(read).unwrap_or_default();
            if let Some(fault) = file.unwinding.check(effort) {
                self.remarks.insert(format!(
                    "{}: its tables for unwinding are not used ({fault}): callers beyond it are missing",
                    printable(line.path)
                ));
            }
            let file = Rc::new(file);
            self.files.insert(line.file(), file.clone());
            file
        });
        let bias = file.bias(line);
        let Sections { text, eh_frame } = &file.unwinding;
        // An index is made of them for each mapping of the file.
        let (eh_frame_svma, eh_frame) = eh_frame.clone().filter(|_| !effort.is_over()).unzip();
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: text.clone(),
            eh_frame_svma,
            eh_frame,
            ..Default::default()
        };
        self.unwinder.add_module(Module::new(line.path.to_owned(), line.start..line.end, bias, sections));
        Mapped { end: line.end, bias, file }
    }
}

impl Sections {
    /// Drops tables that are not to be used, and says why.
    fn check(&mut self, effort: &Effort) -> Option<&'static str> {
        let (range, bytes) = self.eh_frame.as_ref()?;
        let fault = unwinding::fault(bytes, range.start, self.text.as_ref(), effort)?;
        self.eh_frame = None;
        Some(fault)
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(stack: &UserStack) -> UnwindRegsNative {
    UnwindRegsNative::new(stack.instruction, stack.pointer, stack.frame)
}

#[cfg(target_arch = "aarch64")]
fn registers(stack: &UserStack) -> UnwindRegsNative {
    UnwindRegsNative::new(stack.link, stack.pointer, stack.frame)
}

impl ModuleFile {
    fn read(file: &File, path: &Path, limits: &mut Limits, effort: &Effort) -> Option<Self> {
        let cache = ReadCache::new(file.try_clone().ok()?);
        let left = Cell::new(MOST_OF_A_FILE);
        let file = object::File::parse(Parts { cache: &cache, left: &left }).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, file_size) = segment.file_range();
            let has_code = segment.permissions().executable();
            Segment { offset, file_size, address: segment.address(), has_code }
        });
        let section = |name| {
            let section = file.section_by_name(name)?;
            let range = section.address()..section.address().checked_add(section.size())?;
            Some((range, section))
        };
        let tables = section(".eh_frame").filter(|(_, section)| section.size() <= limits.tables);
        let eh_frame = tables.and_then(|(range, section)| {
            left.set(left.get() + section.size());
            let bytes: Rc<[u8]> = section.data().ok()?.into();
            limits.tables -= section.size();
            Some((range, bytes))
        });
        let symbols = file.symbols().chain(file.dynamic_symbols());
        let of_code = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
        let (mut functions, mut wrappers, mut since_2_41) = (Vec::new(), Vec::new(), false);
        for symbol in of_code.take_while(|_| !effort.is_over()) {
            let end = symbol.address().checked_add(symbol.size());
            let (Some(end), Ok(name)) = (end, symbol.name()) else { continue };
            let range = symbol.address()..end;
            since_2_41 |= name == SINCE_2_41;
            match Function::of(name) {
                Some(function) => functions.push((range, function)),
                None if is_wrapper(name.as_bytes()) => wrappers.push(range),
                None => {}
            }
        }
        if since_2_41 && is_c_library(path) {
            functions.iter_mut().for_each(|(_, function)| *function = function.since_2_41());
        }
        functions.sort_by_key(|(range, _): &(Range<u64>, _)| range.start);
        wrappers.sort_by_key(|range| range.start);
        Some(Self {
            is_c_library: is_c_library(path),
            is_go: section(".go.buildinfo").is_some(),
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            segments: segments.collect(),
            functions,
            wrappers,
            unwinding: Sections { text: section(".text").map(|(range, _)| range), eh_frame },
        })
    }

    /// What is added to the file's own addresses where its code is mapped so. Several segments may begin in one page of the file, each
    /// mapped with all of it.
    fn bias(&self, line: &MapsLine<'_>) -> u64 {
        let inside = |segment: &&Segment| {
            let page = segment.offset & !(rustix::param::page_size() as u64 - 1);
            (page..segment.offset.saturating_add(segment.file_size)).contains(&line.offset)
        };
        let segments = self.segments.iter().filter(inside);
        let segment = segments.max_by_key(|segment| (segment.has_code, segment.offset));
        let own = segment.map_or(line.offset, |segment| {
            segment.address.wrapping_add(line.offset).wrapping_sub(segment.offset)
        });
        line.start.wrapping_sub(own)
    }

    fn function(&self, address: u64) -> Option<Function> {
        let after = self.functions.partition_point(|(range, _)| range.start <= address);
        let (range, function) = self.functions[..after].last()?;
        range.contains(&address).then_some(*function)
    }

    fn is_wrapper(&self, address: u64) -> bool {
        let after = self.wrappers.partition_point(|range| range.start <= address);
        self.wrappers[..after].last().is_some_and(|range| range.contains(&address))
    }
}

/// Whether a file is the C library, whose own calls say nothing about where a wait comes from.
fn is_c_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["libc.so", "libc-2", "libpthread", "ld-linux", "ld-musl", "libc.musl"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Opens a mapped file: the one that is mapped, or what has its name where the process sees it.
fn open(pid: u32, line: &MapsLine<'_>) -> Option<File> {
    let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", line.start, line.end));
    let root = living(pid).join("root");
    let path = Path::new(line.path);
    // Of a process that has ended, the path is the launcher's.
    files::open(&mapped)
        .or_else(|| files::open_below(&root, path))
        .or_else(|| if root.exists() { None } else { files::open(path) })
}

/// A file that is read part by part, up to a limit: headers of files, which may be sparse ones, ask for any size.
#[derive(Clone, Copy)]
struct Parts<'a> {
    cache: &'a ReadCache<File>,
    left: &'a Cell<u64>,
}

impl<'a> ReadRef<'a> for Parts<'a> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.left.set(self.left.get().checked_sub(size).ok_or(())?);
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        /// Bytes that the cache takes for a string, beside those of the string.
        const OF_A_STRING: u64 = 64;
        let text = self.cache.read_bytes_at_until(range, delimiter)?;
        let left = self.left.get().checked_sub(OF_A_STRING + text.len() as u64);
        left.map(|left| self.left.set(left)).ok_or(())?;
        Ok(text)
    }
}

/// A line of `/proc/PID/maps` that names a file.
struct MapsLine<'a> {
    start: u64,
    end: u64,
    offset: u64,
    executable: bool,
    /// The number of the file in its file system: another file of the path has another one.
    inode: &'a str,
    path: &'a str,
}

impl<'a> MapsLine<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?.trim_end_matches('\n');
        let mut fields = line.splitn(6, ' ');
        let hexadecimal = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let (start, end) = fields.next()?.split_once('-')?;
        let executable = fields.next()?.contains('x');
        let offset = hexadecimal(fields.next()?)?;
        let (inode, path) = (fields.nth(1)?, fields.next()?.trim_start());
        path.starts_with('/').then_some(Self {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            offset,
            executable,
            inode,
            path,
        })
    }

    /// What tells its file from others, and stays the same when the file is deleted.
    fn file(&self) -> String {
        format!("{} {}", self.inode, self.path.strip_suffix(files::DELETED).unwrap_or(self.path))
    }
}

/// The call of futex(2) that a thread is asleep in, as `/proc` tells it: the word, and where it came from.
pub(super) fn asleep(pid: u32, tid: u32, memory: &Memory) -> Option<Enter> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let mut words = text.split_whitespace();
    if words.next()?.parse::<i64>().ok()? != libc::SYS_futex {
        return None;
    }
    let numbers: Vec<u64> =
        words.map_while(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).collect();
    let &[word, operation, value, _, _, _, pointer, instruction] = numbers.as_slice() else { return None };
    let bytes = memory.bytes(pointer, STACK_BYTES as usize).into();
    let stack = UserStack { instruction, pointer, frame: 0, link: 0, bytes };
    Some(Enter { word, operation: operation as u32, value: value as u32, stack: Some(stack), called: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek as _, SeekFrom, Write as _};
    use std::os::fd::AsRawFd as _;

    /// An ELF file whose section has this name and size, of which the disk has next to nothing.
    fn sparse(section: &str, size: u64) -> File {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let names = format!("\0{section}\0.shstrtab\0");
        let second = section.len() as u32 + 2;
        let mut file = tempfile::tempfile().unwrap();
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend(words(&[
            pair(3 | 62 << 16, 1),
            0,
            64,
            0x200,
            pair(0, 64 | 56 << 16),
            pair(1 | 64 << 16, 3 | 2 << 16),
        ]));
        bytes.extend(words(&[pair(1, 5), 0, 0, 0, 0x1000, 0x1000, 0x1000]));
        bytes.resize(0x200, 0);
        bytes.extend([0; 64]);
        let kind = if section == ".symtab" { 2 } else { 1 };
        bytes.extend(words(&[pair(1, kind), 2, 0x1000, 0x1000, size, pair(2, 0), 8, 24]));
        bytes.extend(words(&[pair(second, 3), 0, 0, 0x400, names.len() as u64, 0, 1, 0]));
        bytes.resize(0x400, 0);
        bytes.extend(names.as_bytes());
        file.write_all(&bytes).unwrap();
        file.set_len(0x1000 + size).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file
    }

    /// A library may be unloaded, and another one, or a newer one of its name, be loaded to where it was.
    #[test]
    fn what_comes_to_the_place_of_another_file_is_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("plugin.so");
        let map = |place: *mut libc::c_void, flags| {
            let _ = fs::remove_file(&path);
            fs::write(&path, [0_u8; 4096]).unwrap();
            let file = File::open(&path).unwrap();
            let access = libc::PROT_READ | libc::PROT_EXEC;
            // SAFETY: a place of the kernel's choice, or one that this test has mapped.
            unsafe { libc::mmap(place, 4096, access, libc::MAP_PRIVATE | flags, file.as_raw_fd(), 0) }
        };
        let place = map(std::ptr::null_mut(), 0);
        if place == libc::MAP_FAILED {
            return println!("skipped: {} is on a file system that runs nothing", path.display());
        }
        let mut modules = Modules::of(std::process::id());
        let file = |modules: &Modules| Rc::clone(&modules.mapped_at(place as u64).unwrap().file);
        let first = file(&modules);
        fs::remove_file(&path).unwrap();
        modules.look();
        assert!(Rc::ptr_eq(&file(&modules), &first), "it is deleted, and still there");
        assert_eq!(map(place, libc::MAP_FIXED), place);
        modules.look();
        assert!(!Rc::ptr_eq(&file(&modules), &first));
        // SAFETY: mapped above, and not used any more.
        unsafe { libc::munmap(place, 4096) };
    }

    #[test]
    fn parts_of_a_file_are_read_up_to_a_limit() {
        let effort = Effort::begin(Duration::from_secs(600));
        let read = |section: &str, size| {
            let mut limits = Limits { tables: MOST_OF_TABLES, time: READING };
            let file = ModuleFile::read(&sparse(section, size), Path::new("/a"), &mut limits, &effort);
            (file, MOST_OF_TABLES - limits.tables)
        };
        let (file, kept) = read(".eh_frame", 4096);
        assert_eq!((file.unwrap().unwinding.eh_frame.unwrap().1.len(), kept), (4096, 4096));
        let (file, kept) = read(".eh_frame", 2 << 30);
        assert!(file.is_some_and(|file| file.unwinding.eh_frame.is_none()) && kept == 0);
        assert!(read(".symtab", 24 << 10).0.is_some());
        assert!(read(".symtab", 24 << 28).0.is_none(), "all symbols are read at once");
    }
}
