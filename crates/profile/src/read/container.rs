//! The container: blocks, records, sections. Everything here may come from a hostile file.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::mem::offset_of;
use std::path::Path;
use std::sync::Arc;

use super::{Error, Profile};
use crate::format::{
    BLOCK_MARK, BlockHeaderValues, FRAMES, HeaderValues, Histograms, LOCK_LENGTH, Lock, LockValues, MAGIC,
    NOTE_SHIFT, NOTED, PAGE, PairValues, ProcessValues, QUANTITIES, Quantity, RunValues, TaskValues,
    ThreadValues, Type, UNIT, VERSION, split_head,
};
use crate::histogram::{BUCKETS, bucket};

/// What one process image wrote.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its number in the file.
    pub number: u64,
    /// Its first record.
    pub process: ProcessValues,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The path of its program.
    pub executable: String,
    /// Files that were mapped; the latest look at them comes first.
    pub mappings: Vec<Mapping>,
    /// Build identifiers of mapped files, by the address at which the file starts.
    pub build_ids: HashMap<u64, Vec<u8>>,
    /// Its threads, by the position of the record.
    pub threads: BTreeMap<u64, ThreadValues>,
    /// The locks that were first touched here, by number.
    pub locks: BTreeMap<u32, LockRecord>,
    /// Its pairs of thread and lock.
    pub pairs: Vec<PairRecord>,
}

/// A mapped stretch of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Where in the file the stretch starts, bytes.
    pub offset: u64,
    /// The file.
    pub path: Arc<str>,
}

/// A lock as it was first touched.
#[derive(Clone, Debug, Default)]
pub struct LockRecord {
    /// The record.
    pub values: LockValues,
    /// Return addresses of the call that first touched it, innermost first.
    pub frames: Vec<u64>,
}

/// What a thread did with a lock.
#[derive(Clone, Debug)]
pub struct PairRecord {
    /// Position of the thread's record.
    pub thread: u64,
    /// The counts.
    pub values: PairValues,
    /// Distributions by [`Quantity`], if the pair turned warm.
    pub histograms: Option<Box<[[u64; BUCKETS]; QUANTITIES]>>,
}

impl PairRecord {
    /// The number of the lock; [`crate::record::MERGED`] for those without a record of their own.
    pub fn lock(&self) -> u32 {
        (self.values.key >> 1) as u32
    }

    /// Whether the pair counts shared acquisitions.
    pub fn shared(&self) -> bool {
        self.values.key & 1 == 1
    }

    /// The bucket counts of a quantity; empty while the pair is cold.
    pub fn buckets(&self, quantity: Quantity) -> &[u64] {
        self.histograms.as_ref().map_or(&[], |histograms| &histograms[quantity as usize])
    }
}

/// The part of a profile file that is in use.
pub(super) fn load(mut file: &File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.by_ref().take(PAGE).read_to_end(&mut bytes)?;
    if bytes.starts_with(&MAGIC) {
        let allocated = HeaderValues::decode(&bytes).allocated;
        file.take(allocated.saturating_sub(PAGE)).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Profile, Error> {
    let header = parse_header(path, bytes)?;
    let mut parser =
        Parser { path, sections: BTreeMap::new(), histograms: HashMap::new(), run: None, tasks: vec![] };
    let mut offset = PAGE;
    let end = header.allocated.min(bytes.len() as u64);
    while offset < end {
        offset = parser.block(&bytes[..end as usize], offset)?;
    }
    let mut sections: Vec<Section> = parser.sections.into_values().map(|(section, _)| section).collect();
    for section in &mut sections {
        for pair in &mut section.pairs {
            // Cleared below; until then the word says where the pair lies.
            pair.histograms = parser.histograms.remove(&pair.values.head);
            pair.values.head = 0;
        }
    }
    inherit_mappings(&mut sections);
    Ok(Profile { path: path.to_owned(), header, sections, run: parser.run, tasks: parser.tasks })
}

/// Mappings that children may inherit in all: enough for thousands of them, and a bound for files that lie.
const INHERITED: usize = 1 << 20;

/// A forked child has its parent's mappings, and notes only what it maps itself.
fn inherit_mappings(sections: &mut [Section]) {
    let mut room = INHERITED;
    for i in 0..sections.len() {
        let (before, rest) = sections.split_at_mut(i);
        let child = &mut rest[0];
        let parent = child.process.parent_section;
        let Ok(parent) = before.binary_search_by_key(&parent, |section| section.number) else { continue };
        let parent = &before[parent];
        if child.locks.is_empty() || parent.mappings.len() > room {
            continue;
        }
        room -= parent.mappings.len();
        child.mappings.extend(parent.mappings.iter().cloned());
        for (start, id) in &parent.build_ids {
            child.build_ids.entry(*start).or_insert_with(|| id.clone());
        }
    }
}

fn parse_header(path: &Path, bytes: &[u8]) -> Result<HeaderValues, Error> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Error::Foreign { path: path.to_owned() });
    }
    let header = HeaderValues::decode(bytes);
    let (version, length) = (header.version & 0xffff_ffff, header.version >> 32);
    if version > VERSION {
        return Err(Error::Newer { path: path.to_owned(), version });
    }
    if (bytes.len() as u64) < PAGE {
        let allocated = header.allocated.max(PAGE);
        return Err(Error::Truncated { path: path.to_owned(), length: bytes.len() as u64, allocated });
    }
    if version == 0 || length != PAGE {
        return Err(damaged(
            path,
            8,
            format!("version {version} with a header of {length} bytes does not exist"),
        ));
    }
    let length = bytes.len() as u64;
    // Where the disk was full, blocks may have been given out that never came to be.
    if length < header.allocated && header.growth_error == 0 {
        return Err(Error::Truncated { path: path.to_owned(), length, allocated: header.allocated });
    }
    Ok(header)
}

fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> Error {
    Error::Damaged { path: path.to_owned(), offset, what: what.into() }
}

struct Parser<'p> {
    path: &'p Path,
    /// By number; the flag says that the process record was read.
    sections: BTreeMap<u64, (Section, bool)>,
    /// By position of the pair.
    histograms: HashMap<u64, Box<[[u64; BUCKETS]; QUANTITIES]>>,
    run: Option<RunValues>,
    tasks: Vec<TaskValues>,
}

impl Parser<'_> {
    /// Reads the block at `offset`; returns where the next one starts.
    fn block(&mut self, bytes: &[u8], offset: u64) -> Result<u64, Error> {
        let rest = &bytes[offset as usize..];
        let header = BlockHeaderValues::decode(rest);
        if header.mark == 0 {
            return Ok(offset + PAGE); // given out to a thread that died before it wrote the header
        }
        let (mark, length) = (header.mark as u32, header.mark >> 32);
        if mark != BLOCK_MARK {
            return Err(damaged(self.path, offset, format!("a block should start here, and {mark:#x} does")));
        }
        if length == 0 || length % PAGE != 0 || length > rest.len() as u64 {
            let left = rest.len();
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
        let records = &rest[UNIT as usize..(UNIT + header.used) as usize];
        self.records(&header, records, offset + UNIT)?;
        Ok(offset + length)
    }

    fn records(&mut self, block: &BlockHeaderValues, records: &[u8], start: u64) -> Result<(), Error> {
        let mut at = 0;
        while at + 8 <= records.len() {
            let (what, length) = split_head(word(&records[at..], 0));
            if what == 0 && length == 0 {
                // Taken, not written. Only lock records are taken by several threads, so only they leave gaps.
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
        let (section, begun) = self.sections.entry(block.section).or_default();
        if is(Type::Process) {
            section.number = block.section;
            section.process = ProcessValues::decode(record);
            *begun = true;
            return Ok(());
        }
        if !*begun {
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
            section.arguments = payload.split_inclusive(|&byte| byte == 0).map(text_to_zero).collect();
        } else if is(Type::Executable) {
            section.executable = String::from_utf8_lossy(payload).into_owned();
        } else if is(Type::Mappings) {
            let lines = payload.split(|&byte| byte == b'\n').filter_map(parse_mapping);
            section.mappings.splice(0..0, lines);
        } else if is(Type::BuildIds) {
            parse_build_ids(payload, &mut section.build_ids);
        } else if is(Type::Thread) {
            section.threads.insert(position, ThreadValues::decode(record));
        } else if is(Type::Lock) {
            let number = u32::try_from(position).unwrap_or(u32::MAX);
            section.locks.insert(number, parse_lock(record));
        } else if is(Type::Pair) {
            let values = PairValues { head: position, ..PairValues::decode(record) };
            section.pairs.push(PairRecord { thread: block.thread, values, histograms: None });
        } else if is(Type::Histograms) {
            self.histograms.insert(word(record, offset_of!(Histograms, pair)), parse_histograms(record));
        }
        Ok(())
    }
}

/// The little-endian word at `at`; zero where the bytes end.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(std::array::from_fn(|i| word[i])))
}

fn text_to_zero(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.strip_suffix(&[0]).unwrap_or(bytes)).into_owned()
}

fn parse_lock(record: &[u8]) -> LockRecord {
    let values = LockValues::decode(&record[..record.len().min(Lock::LENGTH)]);
    let count = values.frames.min(FRAMES as u64) as usize;
    let frames = (0..count).map(|i| word(record, Lock::LENGTH + i * 8)).collect();
    LockRecord { values, frames }
}

fn parse_histograms(record: &[u8]) -> Box<[[u64; BUCKETS]; QUANTITIES]> {
    let notes_start = offset_of!(Histograms, notes);
    let buckets_start = offset_of!(Histograms, buckets);
    let mut histograms = Box::new([[0u64; BUCKETS]; QUANTITIES]);
    for (i, count) in histograms.iter_mut().flatten().enumerate() {
        *count = word(record, buckets_start + i * 8);
    }
    let noted = word(record, offset_of!(Histograms, noted)).min(NOTED as u64) as usize;
    for note in (0..noted).map(|i| word(record, notes_start + i * 8)) {
        if let Some(buckets) = histograms.get_mut(note as usize % (1 << NOTE_SHIFT)) {
            let count = &mut buckets[bucket(note >> NOTE_SHIFT)];
            *count = count.saturating_add(1);
        }
    }
    histograms
}

fn parse_mapping(line: &[u8]) -> Option<Mapping> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let hexadecimal = |digits| u64::from_str_radix(digits, 16).ok();
    let offset = hexadecimal(fields.nth(1)?)?;
    let path = fields.nth(2)?.trim_start().into();
    let mapping = Mapping { start: hexadecimal(start)?, end: hexadecimal(end)?, offset, path };
    (mapping.start < mapping.end).then_some(mapping)
}

fn parse_build_ids(mut bytes: &[u8], ids: &mut HashMap<u64, Vec<u8>>) {
    while bytes.len() > 9 {
        let end = 9 + usize::from(bytes[8]);
        let Some(id) = bytes.get(9..end) else { return };
        ids.insert(word(bytes, 0), id.to_vec());
        bytes = &bytes[end..];
    }
}
