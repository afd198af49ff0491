//! The container: blocks, records, sections. Everything here may come from a hostile file.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::mappings::{Mapping, Mappings, Paths};
use super::names::{printable, printable_up_to};
use super::{Error, Profile};
use crate::format::{
    BLOCK_MARK, BY_STACK_LENGTH, BlockHeaderValues, ByCaller, ByStack, ByStackValues, CALLERS, FRAMES,
    HeaderValues, Histograms, Holder, HolderValues, KERNEL_LOCK_LENGTH, KernelLock, KernelLockValues,
    KernelRelease, KernelReleaseValues, KernelStack, KernelStackValues, KernelWatchValues, LOCK_LENGTH, Lock,
    LockValues, MAGIC, NOTE_SHIFT, NOTED, PAGE, PairValues, ProcessValues, QUANTITIES, Quantity, RunValues,
    Site, SiteValues, TaskValues, ThreadValues, Type, UNIT, VERSION, WAIT_LENGTH, Wait, WaitValues,
    bucket_and_count, split_head, word,
};
use crate::histogram::{BUCKETS, bucket};
use crate::record::caller_in;

/// What one process image wrote.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its number in the file.
    pub number: u64,
    /// Its first record.
    pub process: ProcessValues,
    /// Its arguments, each ended by a zero.
    pub(super) arguments: Vec<u8>,
    /// The path of its program.
    pub executable: String,
    /// Files that were mapped; the latest look at them counts first.
    pub mappings: Mappings,
    /// Build identifiers of mapped files, by the address at which the file starts.
    pub build_ids: HashMap<u64, Vec<u8>>,
    /// Its threads, by the position of the record.
    pub threads: BTreeMap<u64, ThreadValues>,
    /// The locks that were first touched here, by number.
    pub locks: BTreeMap<u32, LockRecord>,
    /// Further stacks with which locks were acquired here: the lock's number, and return addresses,
    /// innermost first.
    pub sites: Vec<(u32, Vec<u64>)>,
    /// What its threads did with its locks by the stacks that were walked.
    pub by_stack: Vec<StackRecord>,
    /// Its pairs of thread and lock.
    pub pairs: Vec<PairRecord>,
    /// Who held its locks while others waited, where it was attached to.
    pub holders: Vec<HolderValues>,
    /// The longest waits of its threads, if they were kept one by one.
    pub waits: Vec<WaitRecord>,
}

impl Section {
    /// Its arguments, safe to print.
    pub fn arguments(&self) -> Vec<String> {
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(bytes.strip_suffix(&[0]).unwrap_or(bytes)).into_owned();
        self.arguments.split_inclusive(|&byte| byte == 0).map(|argument| printable(&text(argument))).collect()
    }

    /// Whether the waits of its process in futexes were watched from outside: then nothing else is in it.
    pub(super) fn is_watched(&self) -> bool {
        self.process.attached != 0
    }

    /// Where an address lies in its file, counted from where the file's beginning is mapped; `None` outside of files.
    pub(super) fn in_its_file(&self, address: u64) -> Option<u64> {
        let mapping = self.mappings.at(address)?;
        Some(address - self.mappings.start_of(&mapping.path, address)?)
    }
}

/// A lock as it was first touched.
#[derive(Clone, Debug, Default)]
pub struct LockRecord {
    /// The record.
    pub values: LockValues,
    /// Return addresses of the call that initialised or first touched it, innermost first.
    pub frames: Vec<u64>,
}

/// What was done with a lock by one stack.
#[derive(Clone, Debug, Default)]
pub struct StackRecord {
    /// The record.
    pub values: ByStackValues,
    /// Return addresses of the calls that acquired or released the lock, innermost first.
    pub frames: Vec<u64>,
}

impl StackRecord {
    /// Whether the stack led to a release of the lock; otherwise to an acquisition.
    pub fn is_of_release(&self) -> bool {
        self.values.frames >> 32 == 1
    }
}

/// A single wait, one of the longest.
#[derive(Clone, Debug, Default)]
pub struct WaitRecord {
    /// The record.
    pub values: WaitValues,
    /// Return addresses of the calls that waited, innermost first.
    pub frames: Vec<u64>,
}

/// What a thread did with a lock.
#[derive(Clone, Debug)]
pub struct PairRecord {
    /// Position of the thread's record.
    pub thread: u64,
    /// The counts; `acquisitions` has those by the ends of condition waits, too.
    pub values: PairValues,
    /// Distributions, if the pair turned warm.
    histograms: Warm,
    /// What was done from each of its callers, if it has waited or held the lock for long.
    by_caller: Vec<CallerRecord>,
}

/// What a pair's thread did from one call site; and what was waited behind one of another thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallerRecord {
    /// The return address of the lock call.
    pub caller: u64,
    /// Acquisitions from there that had to wait.
    pub waits: u64,
    /// Ticks that they waited.
    pub wait_ticks: u64,
    /// Timed holds from there.
    pub holds: u64,
    /// Their ticks.
    pub hold_ticks: u64,
    /// Ticks that the pair's thread waited until a hold was over that another thread had taken from there.
    pub behind_ticks: u64,
    /// Of `hold_ticks`, those in which the thread waited for other locks.
    pub hold_waited_ticks: u64,
    /// Those in which it was off its core by its own doing.
    pub hold_slept_ticks: u64,
    /// Those in which another thread had its core.
    pub hold_preempted_ticks: u64,
    /// Those of holds of which it is not known what the thread did in them.
    pub hold_unknown_ticks: u64,
    /// The key of the lock for which it waited longest in them.
    pub waited_for: u64,
    /// By how many ticks that lock leads among those that were waited for.
    pub waited_for_votes: u64,
}

/// What is kept of a pair that turned warm.
#[derive(Clone, Debug, Default)]
struct Warm {
    buckets: Vec<Counted>,
    /// The key of another lock, and acquisitions within timed holds of such.
    within: (u64, u64),
}

/// A bucket that is not empty: its index among those of all quantities, and its count.
type Counted = (u16, u64);

impl PairRecord {
    /// A record without distributions.
    pub(super) fn cold(thread: u64, values: PairValues) -> Self {
        Self { thread, values, histograms: Warm::default(), by_caller: Vec::new() }
    }

    /// The number of the lock; [`crate::record::MERGED`] for those without a record of their own.
    pub fn lock(&self) -> u32 {
        (self.values.key >> 1) as u32
    }

    /// Whether the pair counts shared acquisitions.
    pub fn shared(&self) -> bool {
        self.values.key & 1 == 1
    }

    /// The buckets of a quantity that are not empty, with their counts; none while the pair is cold.
    pub fn buckets(&self, quantity: Quantity) -> impl Iterator<Item = (usize, u64)> {
        let first = quantity as usize * BUCKETS;
        let inside = move |&(index, count): &Counted| {
            usize::from(index)
                .checked_sub(first)
                .filter(|&bucket| bucket < BUCKETS)
                .map(|bucket| (bucket, count))
        };
        self.histograms.buckets.iter().filter_map(inside)
    }

    /// What was done from each call site, and waited behind each.
    pub fn by_caller(&self) -> &[CallerRecord] {
        &self.by_caller
    }

    /// The return address of the lock call of the present timed hold; 0 where it is not known.
    pub(super) fn held_from(&self) -> u64 {
        let place = caller_in(self.values.state).checked_sub(1);
        place.and_then(|place| callers(&self.values).get(place).copied()).unwrap_or(0)
    }

    /// The key of another lock, and how often this one was acquired within timed holds of such: by what was counted since the pair
    /// turned warm, which of its holds the distributions alone have.
    pub fn within(&self) -> Option<(u64, f64)> {
        let (key, count) = Some(self.histograms.within).filter(|&(_, count)| count > 0)?;
        let holds = [Quantity::HoldSame, Quantity::HoldOther];
        let counted: f64 = holds.iter().flat_map(|&of| self.buckets(of)).map(|(_, count)| count as f64).sum();
        let all = self.timed_holds() as f64;
        Some((key, if counted > 0.0 { count as f64 * (all / counted).max(1.0) } else { count as f64 }))
    }

    /// How many of its holds were timed.
    pub(super) fn timed_holds(&self) -> u64 {
        self.values.hold_same_count.saturating_add(self.values.hold_other_count)
    }

    /// Whether nothing tells within which holds it was acquired.
    pub(super) fn is_cold(&self) -> bool {
        self.histograms.buckets.is_empty() && self.histograms.within.1 == 0
    }
}

/// What was recorded of the kernel's locks.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelRecords {
    /// The watch as a whole.
    pub(crate) watch: KernelWatchValues,
    /// Locks, with the buckets of their waits that are not empty.
    pub(crate) locks: Vec<(KernelLockValues, Vec<(usize, u64)>)>,
    /// Stacks, with the addresses of their functions, innermost first.
    pub(crate) stacks: Vec<(KernelStackValues, Vec<u64>)>,
    /// Releases by lock and function.
    pub(crate) releases: Vec<KernelReleaseValues>,
    /// Names by address.
    pub(crate) symbols: HashMap<u64, String>,
}

/// Where the bytes of a profile come from. A file may be much longer than what is in it.
pub(super) trait Source {
    fn length(&self) -> io::Result<u64>;
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
    /// The first position from `at` on where there may be anything but zeros.
    fn next_data(&self, at: u64) -> u64;
}

impl Source for &[u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let rest = self.get(at as usize..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(rest.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn next_data(&self, at: u64) -> u64 {
        at
    }
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, at)
    }

    fn next_data(&self, at: u64) -> u64 {
        // SAFETY: the descriptor is open; its position is used for nothing else.
        let next = unsafe { libc::lseek(self.as_raw_fd(), at as libc::off_t, libc::SEEK_DATA) };
        match u64::try_from(next) {
            Ok(next) => next,
            // Nothing but a hole is left; or the file system cannot tell.
            Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => u64::MAX,
            Err(_) => at,
        }
    }
}

pub(super) fn parse(path: &Path, source: &impl Source) -> Result<Profile, Error> {
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
    let length = source.length().map_err(unreadable)?;
    let mut page = vec![0; length.min(PAGE) as usize];
    source.read(0, &mut page).map_err(unreadable)?;
    let header = parse_header(path, &page, length)?;
    if let Some(offset) = another_profile(source, &header, length).map_err(unreadable)? {
        return Err(Error::Appended { path: path.to_owned(), offset });
    }
    let mut parser = Parser::new(path);
    let mut offset = PAGE;
    let end = header.allocated.min(length);
    while offset < end {
        offset = parser.block(source, offset, end)?;
    }
    let Parser { mut sections, mut histograms, mut by_caller, run, tasks, space, .. } = parser;
    // The kernel's section is no process image.
    let of_kernel = sections.iter().find(|(_, (_, begun))| begun.watched).map(|(&number, _)| number);
    let kernel = of_kernel.and_then(|number| sections.remove(&number)).map(|(_, begun)| begun.kernel);
    let finish = |(mut section, Begun { mappings, .. }): (Section, Begun)| {
        section.mappings = Mappings::of_looks(mappings);
        let is_watched = section.is_watched();
        for pair in &mut section.pairs {
            // Cleared here; until then the word says where the pair lies.
            pair.histograms = histograms.remove(&pair.values.head).unwrap_or_default();
            pair.by_caller =
                by_caller.remove(&pair.values.head).map_or_else(Vec::new, |record| record.of(&pair.values));
            pair.values.head = 0;
            // The record counts calls. A condition wait takes the mutex back, too; of attached programs only waits are known.
            if !is_watched {
                let p = &mut pair.values;
                p.acquisitions = p.acquisitions.saturating_add(p.condition_waits);
            }
        }
        section
    };
    let mut sections: Vec<Section> = sections.into_values().map(finish).collect();
    inherit_mappings(&mut sections, space);
    Ok(Profile { path: path.to_owned(), header, sections, run, tasks, kernel })
}

/// Mappings, build identifiers and names of the kernel in all, those that children inherit too: enough for thousands of processes, and
/// a bound for files that lie. Those past it are left out, and counts are read all the same.
const BOUND: usize = 1 << 20;

/// Bytes of records in one block. Writers make no block that is nearly as long.
const LONGEST_BLOCK: u64 = 64 << 20;

/// Bytes of arguments, and of a program's path, that are kept. Writers note no more than a page.
const LONGEST_TEXT: usize = 1 << 16;

/// Bytes that are kept of the name of a function of the kernel: as long as it had them until 6.1. Each of the eight bytes of an address in
/// a stack has the whole name in the table.
const LONGEST_KERNEL_SYMBOL: usize = 127;

/// A forked child has its parent's mappings, and notes only what it maps itself.
fn inherit_mappings(sections: &mut [Section], mut space: usize) {
    // Of each section so far: the nearest one with mappings, itself or an ancestor; and the next one after it from which it has not
    // inherited, having no addresses.
    let mut nearest: Vec<Option<usize>> = Vec::with_capacity(sections.len());
    let mut not_inherited: Vec<Option<usize>> = Vec::with_capacity(sections.len());
    for i in 0..sections.len() {
        let (before, rest) = sections.split_at_mut(i);
        let child = &mut rest[0];
        let parent = child.process.parent_section;
        let parent = before.binary_search_by_key(&parent, |section| section.number);
        let mut ancestor = parent.ok().and_then(|parent| nearest[parent]);
        let has_no_addresses = child.locks.is_empty()
            && child.sites.is_empty()
            && child.by_stack.is_empty()
            && child.pairs.is_empty()
            && child.waits.is_empty();
        while let Some(from) = ancestor.filter(|_| !has_no_addresses) {
            let inherited = before[from].mappings.len() + before[from].build_ids.len();
            if inherited > space {
                break;
            }
            space -= inherited;
            inherit(child, &before[from]);
            ancestor = not_inherited[from];
        }
        let is_empty = child.mappings.len() + child.build_ids.len() == 0;
        nearest.push(if is_empty { ancestor } else { Some(i) });
        not_inherited.push(ancestor);
    }
}

fn inherit(child: &mut Section, from: &Section) {
    child.mappings = std::mem::take(&mut child.mappings).and_inherited(&from.mappings);
    for (start, id) in &from.build_ids {
        child.build_ids.entry(*start).or_insert_with(|| id.clone());
    }
}

fn parse_header(path: &Path, bytes: &[u8], length: u64) -> Result<HeaderValues, Error> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Error::Foreign { path: path.to_owned() });
    }
    let header = HeaderValues::decode(bytes);
    let (version, header_length) = (header.version & 0xffff_ffff, header.version >> 32);
    if version > VERSION {
        return Err(Error::Newer { path: path.to_owned(), version });
    }
    if (bytes.len() as u64) < PAGE {
        let allocated = header.allocated.max(PAGE);
        return Err(Error::Truncated { path: path.to_owned(), length: bytes.len() as u64, allocated });
    }
    if version == 0 || header_length != PAGE {
        return Err(damaged(
            path,
            8,
            format!("version {version} with a header of {header_length} bytes does not exist"),
        ));
    }
    // Where the disk was full, or all was killed at once, blocks may have been given out that never came to be.
    if length < header.allocated.min(header.grown) && header.growth_error == 0 {
        return Err(Error::Truncated { path: path.to_owned(), length, allocated: header.allocated });
    }
    Ok(header)
}

/// Where another profile was appended to this one, as by `cat`.
fn another_profile(source: &impl Source, header: &HeaderValues, length: u64) -> io::Result<Option<u64>> {
    let mut mark = [0; MAGIC.len()];
    for end in [header.allocated, header.grown] {
        if end >= PAGE && end.checked_add(PAGE).is_some_and(|after| after <= length) {
            source.read(end, &mut mark)?;
            if mark == MAGIC {
                return Ok(Some(end));
            }
        }
    }
    Ok(None)
}

fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> Error {
    Error::Damaged { path: path.to_owned(), offset, what: what.into() }
}

struct Parser<'p> {
    path: &'p Path,
    /// By number.
    sections: BTreeMap<u64, (Section, Begun)>,
    /// By position of the pair.
    histograms: HashMap<u64, Warm>,
    /// Likewise, before the pair's callers are known.
    by_caller: HashMap<u64, Uncalled>,
    run: Option<RunValues>,
    tasks: Vec<TaskValues>,
    /// The records of the present block.
    bytes: Vec<u8>,
    /// Mappings, build identifiers and names of the kernel that there may still be.
    space: usize,
    paths: Paths,
}

/// A section while it is being read.
#[derive(Default)]
struct Begun {
    /// Whether the process record was read.
    known: bool,
    /// Looks at the mappings, in the order of the file.
    mappings: Vec<Vec<Mapping>>,
    /// Whether a watch of the kernel's locks was read, so that it is the kernel's.
    watched: bool,
    kernel: KernelRecords,
}

impl<'p> Parser<'p> {
    fn new(path: &'p Path) -> Self {
        Self {
            path,
            sections: BTreeMap::new(),
            histograms: HashMap::new(),
            by_caller: HashMap::new(),
            run: None,
            tasks: Vec::new(),
            bytes: Vec::new(),
            space: BOUND,
            paths: Paths::default(),
        }
    }

    /// Reads the block at `offset`; returns where the next one starts.
    fn block(&mut self, source: &impl Source, offset: u64, file_end: u64) -> Result<u64, Error> {
        let unreadable = |source| Error::Unreadable { path: self.path.to_owned(), source };
        let left = file_end - offset;
        let mut head = [0; UNIT as usize];
        let known = left.min(UNIT) as usize;
        source.read(offset, &mut head[..known]).map_err(unreadable)?;
        let header = BlockHeaderValues::decode(&head);
        if header.mark == 0 {
            // Given out to a thread that died before it wrote the header, or a hole.
            return Ok((offset + PAGE).max(source.next_data(offset) / PAGE * PAGE));
        }
        let (mark, length) = (header.mark as u32, header.mark >> 32);
        if mark != BLOCK_MARK {
            return Err(damaged(self.path, offset, format!("a block should start here, and {mark:#x} does")));
        }
        if length == 0 || length % PAGE != 0 || length > left {
            return Err(damaged(
                self.path,
                offset,
                format!("a block of {length} bytes, with {left} left in the file"),
            ));
        }
        if header.used > length - UNIT {
            let used = header.used;
            return Err(damaged(
                self.path,
                offset,
                format!("{used} bytes of records in a block of {length} bytes"),
            ));
        }
        if header.used > LONGEST_BLOCK {
            let used = header.used;
            return Err(damaged(
                self.path,
                offset,
                format!("a block with {used} bytes of records, where {LONGEST_BLOCK} is the bound"),
            ));
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(header.used as usize, 0);
        source.read(offset + UNIT, &mut bytes).map_err(unreadable)?;
        self.records(&header, &bytes, offset + UNIT)?;
        self.bytes = bytes;
        Ok(offset + length)
    }

    fn records(&mut self, block: &BlockHeaderValues, records: &[u8], start: u64) -> Result<(), Error> {
        let mut at = 0;
        while at + 8 <= records.len() {
            let (what, length) = split_head(word(&records[at..], 0));
            if what == 0 && length == 0 {
                // Taken, not written. Only records of locks and of their sites, which are as long, are taken by several threads
                // and leave gaps.
                at += LOCK_LENGTH;
                continue;
            }
            let offset = start + at as u64;
            if length < 8 || length > (records.len() - at) as u64 {
                let left = records.len() - at;
                return Err(damaged(
                    self.path,
                    offset,
                    format!("a record of {length} bytes, with {left} left in its block"),
                ));
            }
            let least = least_length(what);
            if length < least as u64 {
                return Err(damaged(
                    self.path,
                    offset,
                    format!("a record of type {what} with {length} bytes, where {least} are the least"),
                ));
            }
            let record = &records[at..at + length as usize];
            self.record(block, what, record, offset)?;
            at += (length as usize).next_multiple_of(8);
        }
        Ok(())
    }

    fn record(
        &mut self,
        block: &BlockHeaderValues,
        what: u16,
        record: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        let is = |kind: Type| what == kind as u16;
        if is(Type::Run) {
            self.run = Some(RunValues::decode(record));
            return Ok(());
        }
        if is(Type::Task) {
            self.tasks.push(TaskValues::decode(record));
            return Ok(());
        }
        if is(Type::Distributions) {
            self.histograms.insert(word(record, 8), parse_distributions(record));
            return Ok(());
        }
        let (section, begun) = self.sections.entry(block.section).or_default();
        if is(Type::Process) {
            section.number = block.section;
            section.process = ProcessValues::decode(record);
            begun.known = true;
            return Ok(());
        }
        if !begun.known {
            let number = block.section;
            return Err(damaged(
                self.path,
                offset,
                format!("a record of section {number}, which does not begin before it"),
            ));
        }
        let payload = &record[8..];
        let position = offset / UNIT;
        if is(Type::Arguments) {
            let payload = &payload[..payload.len().min(LONGEST_TEXT)];
            section.arguments = payload.to_vec();
        } else if is(Type::Executable) {
            let payload = &payload[..payload.len().min(LONGEST_TEXT)];
            section.executable = String::from_utf8_lossy(payload).into_owned();
        } else if is(Type::Mappings) {
            begun.mappings.push(self.paths.parse_mappings(payload, &mut self.space));
        } else if is(Type::BuildIds) {
            parse_build_ids(payload, &mut section.build_ids, &mut self.space);
        } else if is(Type::Thread) {
            section.threads.insert(position, ThreadValues::decode(record));
        } else if is(Type::Lock) {
            let number = u32::try_from(position).unwrap_or(u32::MAX);
            section.locks.insert(number, parse_lock(record));
        } else if is(Type::Site) {
            let values = SiteValues::decode(&record[..record.len().min(Site::LENGTH)]);
            let number = u32::try_from(values.lock).unwrap_or(u32::MAX);
            section.sites.push((number, stack(record, Site::LENGTH, values.frames)));
        } else if is(Type::Pair) {
            let values = PairValues { head: position, ..PairValues::decode(record) };
            section.pairs.push(PairRecord::cold(block.thread, values));
        } else if is(Type::Histograms) {
            self.histograms.insert(word(record, offset_of!(Histograms, pair)), parse_histograms(record));
        } else if is(Type::ByCaller) {
            self.by_caller.insert(word(record, offset_of!(ByCaller, pair)), Uncalled::parse(record));
        } else if is(Type::ByStack) {
            section.by_stack.extend(parse_by_stack(record));
        } else if is(Type::Wait) {
            section.waits.extend(parse_wait(record));
        } else if is(Type::Holder) {
            section.holders.push(HolderValues::decode(record));
        } else {
            self.kernel_record(block, what, record);
        }
        Ok(())
    }

    /// A record of what was watched in the kernel; or of a type that a later version writes, which is passed over.
    fn kernel_record(&mut self, block: &BlockHeaderValues, what: u16, record: &[u8]) {
        let is = |kind: Type| what == kind as u16;
        let (_, begun) = self.sections.entry(block.section).or_default();
        if is(Type::KernelWatch) {
            begun.watched = true;
            begun.kernel.watch = KernelWatchValues::decode(record);
        } else if is(Type::KernelLock) {
            let (values, buckets) = record.split_at(KernelLock::LENGTH);
            let counts = words(buckets).take(BUCKETS).enumerate().filter(|&(_, count)| count > 0);
            begun.kernel.locks.push((KernelLockValues::decode(values), counts.collect()));
        } else if is(Type::KernelStack) {
            let (values, functions) = record.split_at(KernelStack::LENGTH);
            begun.kernel.stacks.push((KernelStackValues::decode(values), words(functions).collect()));
        } else if is(Type::KernelRelease) {
            begun.kernel.releases.push(KernelReleaseValues::decode(record));
        } else if is(Type::KernelSymbol)
            && let Some(rest) = self.space.checked_sub(1)
        {
            self.space = rest;
            let payload = &record[8..];
            let name = payload.get(8..).unwrap_or_default();
            let name = String::from_utf8_lossy(&name[..name.len().min(2 * LONGEST_KERNEL_SYMBOL)]);
            begun.kernel.symbols.insert(word(payload, 0), printable_up_to(LONGEST_KERNEL_SYMBOL, &name));
        }
    }
}

/// The little-endian words of a record, one after another.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|bytes| word(bytes, 0))
}

fn parse_lock(record: &[u8]) -> LockRecord {
    let values = LockValues::decode(&record[..record.len().min(Lock::LENGTH)]);
    LockRecord { values, frames: stack(record, Lock::LENGTH, values.frames) }
}

/// `None` of one that is not used.
fn parse_by_stack(record: &[u8]) -> Option<StackRecord> {
    let values = ByStackValues::decode(&record[..record.len().min(ByStack::LENGTH)]);
    let frames = stack(record, ByStack::LENGTH, values.frames);
    (values.lock != 0).then_some(StackRecord { values, frames })
}

/// `None` of space for a wait, or one that is being written: neither has ended.
fn parse_wait(record: &[u8]) -> Option<WaitRecord> {
    let values = WaitValues::decode(&record[..record.len().min(Wait::LENGTH)]);
    let frames = stack(record, Wait::LENGTH, values.frames);
    (values.ended != 0).then_some(WaitRecord { values, frames })
}

/// The return addresses that follow the values of a record.
fn stack(record: &[u8], values: usize, frames: u64) -> Vec<u64> {
    let count = (frames as u32 as usize).min(FRAMES);
    (0..count).map(|i| word(record, values + i * 8)).collect()
}

fn parse_histograms(record: &[u8]) -> Warm {
    let notes_start = offset_of!(Histograms, notes);
    let buckets_start = offset_of!(Histograms, buckets);
    let mut counted: BTreeMap<u16, u64> = BTreeMap::new();
    let mut add = |index: usize, count: u64| {
        let so_far = counted.entry(index as u16).or_insert(0);
        *so_far = so_far.saturating_add(count);
    };
    let words = record.len().saturating_sub(buckets_start) / 8;
    for index in 0..words.min(QUANTITIES * BUCKETS) {
        match word(record, buckets_start + index * 8) {
            0 => {}
            count => add(index, count),
        }
    }
    let noted = word(record, offset_of!(Histograms, noted)).min(NOTED as u64) as usize;
    let notes = record.len().saturating_sub(notes_start) / 8;
    for note in (0..noted.min(notes)).map(|i| word(record, notes_start + i * 8)) {
        let quantity = note as usize % (1 << NOTE_SHIFT);
        if quantity < QUANTITIES {
            add(quantity * BUCKETS + bucket(note >> NOTE_SHIFT), 1);
        }
    }
    let within = [offset_of!(Histograms, within), offset_of!(Histograms, within_count)];
    let [key, count] = within.map(|at| word(record, at));
    Warm { buckets: counted.into_iter().collect(), within: (key, count) }
}

fn parse_distributions(record: &[u8]) -> Warm {
    let mut counted: BTreeMap<u16, u64> = BTreeMap::new();
    for (index, count) in words(record.get(32..).unwrap_or_default()).map(bucket_and_count) {
        if usize::from(index) < QUANTITIES * BUCKETS {
            counted.insert(index, count);
        }
    }
    Warm { buckets: counted.into_iter().collect(), within: (word(record, 16), word(record, 24)) }
}

/// The return addresses of the lock calls that a pair remembers.
fn callers(pair: &PairValues) -> [u64; CALLERS] {
    [
        pair.caller_0, pair.caller_1, pair.caller_2, pair.caller_3, pair.caller_4, pair.caller_5,
        pair.caller_6, pair.caller_7,
    ]
}

/// A [`ByCaller`] whose pair may come later.
struct Uncalled {
    own: [CallerRecord; CALLERS],
    behind: [CallerRecord; CALLERS],
}

impl Uncalled {
    fn parse(record: &[u8]) -> Self {
        let at = |array: usize, slot: usize| word(record, array + slot * 8);
        Self {
            own: std::array::from_fn(|slot| CallerRecord {
                waits: at(offset_of!(ByCaller, waits), slot),
                wait_ticks: at(offset_of!(ByCaller, wait_ticks), slot),
                holds: at(offset_of!(ByCaller, holds), slot),
                hold_ticks: at(offset_of!(ByCaller, hold_ticks), slot),
                hold_waited_ticks: at(offset_of!(ByCaller, hold_waited_ticks), slot),
                hold_slept_ticks: at(offset_of!(ByCaller, hold_slept_ticks), slot),
                hold_preempted_ticks: at(offset_of!(ByCaller, hold_preempted_ticks), slot),
                hold_unknown_ticks: at(offset_of!(ByCaller, hold_unknown_ticks), slot),
                waited_for: at(offset_of!(ByCaller, waited_for), slot),
                waited_for_votes: at(offset_of!(ByCaller, waited_for_votes), slot),
                ..CallerRecord::default()
            }),
            behind: std::array::from_fn(|slot| CallerRecord {
                caller: at(offset_of!(ByCaller, behind), slot),
                behind_ticks: at(offset_of!(ByCaller, behind_ticks), slot),
                ..CallerRecord::default()
            }),
        }
    }

    /// With the callers of its pair, those that there are.
    fn of(mut self, pair: &PairValues) -> Vec<CallerRecord> {
        for (record, caller) in self.own.iter_mut().zip(callers(pair)) {
            record.caller = caller;
        }
        self.own.into_iter().chain(self.behind).filter(|record| record.caller != 0).collect()
    }
}

/// The length of a record in the first version of the file, for those of which there may be many: what a reader makes of one
/// is longer than the least of them could be.
fn least_length(what: u16) -> usize {
    let of = |kind: Type, length| if what == kind as u16 { length } else { 0 };
    of(Type::Pair, 192)
        | of(Type::Lock, 64)
        | of(Type::Site, LOCK_LENGTH)
        | of(Type::Histograms, offset_of!(Histograms, notes))
        | of(Type::Distributions, 32)
        | of(Type::Thread, 120)
        | of(Type::Task, 104)
        | of(Type::Holder, Holder::LENGTH)
        | of(Type::Wait, WAIT_LENGTH)
        | of(Type::ByStack, BY_STACK_LENGTH)
        | of(Type::ByCaller, ByCaller::FIRST_LENGTH)
        | of(Type::KernelLock, KERNEL_LOCK_LENGTH)
        | of(Type::KernelStack, KernelStack::LENGTH)
        | of(Type::KernelRelease, KernelRelease::LENGTH)
}

/// The build identifiers of a record, as far as there is `space` for them.
fn parse_build_ids(mut bytes: &[u8], ids: &mut HashMap<u64, Vec<u8>>, space: &mut usize) {
    while bytes.len() > 9 {
        let end = 9 + usize::from(bytes[8]);
        let (Some(id), Some(rest)) = (bytes.get(9..end), space.checked_sub(1)) else { break };
        *space = rest;
        ids.insert(word(bytes, 0), id.to_vec());
        bytes = &bytes[end..];
    }
}
