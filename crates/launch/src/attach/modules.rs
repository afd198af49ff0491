//! The files that another process has mapped: unwinding its stacks by them, and finding the functions that wait.

use super::futex::{Enter, UserStack};
use super::objects::{Function, Memory};
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative, Unwinder as _,
    UnwinderNative,
};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SymbolKind};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Addresses that are kept of a stack, from the innermost.
const DEEPEST: usize = 32;
/// Calls from the innermost on among which the function that waits is looked for.
const NEAR: usize = 8;
/// Code that is in no known file is looked for again after so long: it may be generated code, of which there is always more.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);

/// The modules of a process, as far as they were looked at.
pub(super) struct Modules {
    pid: u32,
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// Executable mappings by their start.
    mapped: BTreeMap<u64, Mapped>,
    /// By path.
    files: HashMap<String, Rc<ModuleFile>>,
    /// Lines of the last look that name files.
    lines: Vec<u8>,
    looked: Instant,
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
    build_id: Option<Vec<u8>>,
    segments: Vec<Segment>,
    /// Functions that wait, by their start.
    functions: Vec<(Range<u64>, Function)>,
    unwinding: Sections,
}

struct Segment {
    offset: u64,
    file_size: u64,
    address: u64,
}

/// Sections by which stacks are unwound, with their addresses.
#[derive(Default)]
struct Sections {
    text: Option<Range<u64>>,
    eh_frame: Option<(Range<u64>, Vec<u8>)>,
    eh_frame_hdr: Option<(Range<u64>, Vec<u8>)>,
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
        let ids = starts.filter_map(|line| Some((line.start, self.files.get(line.path)?.build_id.clone()?)));
        Some((&self.lines, ids.collect()))
    }

    /// The return addresses of a stack, from the innermost.
    pub(super) fn unwind(&mut self, stack: &UserStack) -> Vec<u64> {
        let addresses = self.try_unwind(stack);
        let is_known = addresses.iter().all(|&address| self.mapped_at(address).is_some());
        if is_known || self.looked.elapsed() < REFRESH_INTERVAL {
            return addresses;
        }
        self.look(); // a library may have been loaded meanwhile
        self.try_unwind(stack)
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
        let text = fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let lines: Vec<_> = text.split_inclusive(|&byte| byte == b'\n').collect();
        let named = lines.iter().filter(|line| MapsLine::parse(line).is_some());
        let named: Vec<u8> = named.flat_map(|line| line.iter().copied()).collect();
        if named.is_empty() {
            return; // it has ended
        }
        self.lines = named;
        let mut gone = std::mem::take(&mut self.mapped);
        for line in lines.iter().filter_map(|line| MapsLine::parse(line)).filter(|line| line.executable) {
            let mapped = match gone.remove(&line.start) {
                Some(known) if known.end == line.end => known,
                before => {
                    if before.is_some() {
                        self.unwinder.remove_module(line.start);
                    }
                    self.map(&line)
                }
            };
            self.mapped.insert(line.start, mapped);
        }
        for start in gone.into_keys() {
            self.unwinder.remove_module(start);
        }
    }

    fn map(&mut self, line: &MapsLine<'_>) -> Mapped {
        let pid = self.pid;
        let read = || Rc::new(ModuleFile::read(pid, line).unwrap_or_default());
        let file = self.files.entry(line.path.to_owned()).or_insert_with(read).clone();
        let bias = file.bias(line);
        let Sections { text, eh_frame, eh_frame_hdr } = &file.unwinding;
        let split = |section: &Option<(Range<u64>, Vec<u8>)>| section.clone().unzip();
        let ((eh_frame_svma, eh_frame), (eh_frame_hdr_svma, eh_frame_hdr)) =
            (split(eh_frame), split(eh_frame_hdr));
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: text.clone(),
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..Default::default()
        };
        self.unwinder.add_module(Module::new(line.path.to_owned(), line.start..line.end, bias, sections));
        Mapped { end: line.end, bias, file }
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
    fn read(pid: u32, line: &MapsLine<'_>) -> Option<Self> {
        let cache = ReadCache::new(open(pid, line)?);
        let file = object::File::parse(&cache).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, file_size) = segment.file_range();
            Segment { offset, file_size, address: segment.address() }
        });
        let mut functions: Vec<_> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .filter_map(|symbol| {
                let range = symbol.address()..symbol.address().checked_add(symbol.size())?;
                Some((range, Function::of(symbol.name().ok()?)?))
            })
            .collect();
        functions.sort_by_key(|(range, _)| range.start);
        let section = |name| {
            let section = file.section_by_name(name)?;
            let range = section.address()..section.address().checked_add(section.size())?;
            Some((range, section))
        };
        let contents =
            |name| section(name).and_then(|(range, section)| Some((range, section.data().ok()?.to_vec())));
        Some(Self {
            is_c_library: is_c_library(Path::new(line.path)),
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            segments: segments.collect(),
            functions,
            unwinding: Sections {
                text: section(".text").map(|(range, _)| range),
                eh_frame: contents(".eh_frame"),
                eh_frame_hdr: contents(".eh_frame_hdr"),
            },
        })
    }

    /// What is added to the file's own addresses where it is mapped so.
    fn bias(&self, line: &MapsLine<'_>) -> u64 {
        let inside = |segment: &&Segment| {
            let page = segment.offset & !0xfff;
            (page..segment.offset.saturating_add(segment.file_size)).contains(&line.offset)
        };
        let segment = self.segments.iter().rev().find(inside);
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
    let named = PathBuf::from(format!("/proc/{pid}/root{}", line.path));
    [mapped, named].iter().find_map(|path| {
        let is_file = fs::metadata(path).is_ok_and(|data| data.is_file());
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        is_file.then(|| options.open(path).ok()).flatten()
    })
}

/// A line of `/proc/PID/maps` that names a file.
struct MapsLine<'a> {
    start: u64,
    end: u64,
    offset: u64,
    executable: bool,
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
        let path = fields.nth(2)?.trim_start();
        path.starts_with('/').then_some(Self {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            offset,
            executable,
            path,
        })
    }
}

/// The call of futex(2) that a thread is asleep in, as `/proc` tells it: the word, and where it came from.
pub(super) fn asleep(pid: u32, tid: u32, memory: &Memory) -> Option<Enter> {
    /// Bytes that are read of a stack, from its top.
    const STACK: usize = 2048;
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let mut words = text.split_whitespace();
    if words.next()?.parse::<i64>().ok()? != libc::SYS_futex {
        return None;
    }
    let numbers: Vec<u64> =
        words.map_while(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).collect();
    let &[word, operation, value, _, _, _, pointer, instruction] = numbers.as_slice() else { return None };
    let bytes = memory.bytes(pointer, STACK).into();
    let stack = UserStack { instruction, pointer, frame: 0, link: 0, bytes };
    Some(Enter { word, operation: operation as u32, value: value as u32, stack: Some(stack) })
}
