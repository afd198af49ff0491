//! The files that a process had mapped, by address.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;

/// A mapped stretch of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Where in the file the stretch starts, bytes.
    pub offset: u64,
    /// Whether there is code in it.
    pub executable: bool,
    /// The number of the file in its file system: another file of the path has another one.
    pub inode: u64,
    /// The file.
    pub path: Arc<str>,
}

impl Mapping {
    /// What tells its file from others.
    fn file(&self) -> (&str, u64) {
        (self.path.strip_suffix(" (deleted)").unwrap_or(&self.path), self.inode)
    }
}

/// Addresses at which several files were mapped one after another, at least one of them with code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reused {
    start: u64,
    end: u64,
    /// Their paths, each once.
    pub(super) files: BTreeSet<Arc<str>>,
}

/// Mappings, of which a later look at the same addresses counts before an earlier one.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    /// In order of importance.
    list: Vec<Mapping>,
    /// Stretches of addresses that do not overlap, in order, each with the index of the mapping that counts there.
    stretches: Vec<(u64, u64, u32)>,
    /// Indices in order of the mappings' ends.
    by_end: Vec<u32>,
    /// Where a file's start is mapped, in order.
    starts: HashMap<Arc<str>, Vec<u64>>,
    /// In order; they do not overlap.
    reused: Vec<Reused>,
}

impl Mappings {
    /// The mappings of these looks, the last of which counts most.
    pub(super) fn of_looks(looks: Vec<Vec<Mapping>>) -> Self {
        let reused = reused(&looks);
        Self { reused, ..Self::new(looks.into_iter().rev().flatten().collect()) }
    }

    /// These, and behind them those of a process that had its memory before.
    pub(super) fn and_inherited(self, from: &Self) -> Self {
        let Self { mut list, mut reused, .. } = self;
        list.extend(from.list.iter().cloned());
        for more in &from.reused {
            let (before, after) = (
                reused.partition_point(|known| known.end <= more.start),
                reused.partition_point(|known| known.start < more.end),
            );
            if before == after {
                reused.insert(before, more.clone());
            }
        }
        Self { reused, ..Self::new(list) }
    }

    /// Where several files were, in order.
    pub(super) fn reused(&self) -> &[Reused] {
        &self.reused
    }

    /// Whether several files were at an address, so that it does not tell which one is meant.
    pub(super) fn is_reused(&self, address: u64) -> bool {
        let after = self.reused.partition_point(|reused| reused.start <= address);
        self.reused[..after].last().is_some_and(|reused| address < reused.end)
    }

    /// The mappings with those first that count most.
    pub(super) fn new(list: Vec<Mapping>) -> Self {
        let starts = starts(&list);
        let mut by_end: Vec<u32> = (0..list.len() as u32).collect();
        by_end.sort_by_key(|&index| list[index as usize].end);
        Self { stretches: stretches(&list), by_end, starts, reused: Vec::new(), list }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// In order of importance.
    pub(super) fn list(&self) -> &[Mapping] {
        &self.list
    }

    /// The mapping that an address lies in.
    pub fn at(&self, address: u64) -> Option<&Mapping> {
        let after = self.stretches.partition_point(|&(start, ..)| start <= address);
        let &(_, end, index) = self.stretches[..after].last()?;
        (address < end).then(|| &self.list[index as usize])
    }

    /// The mapping that ends last of those that end at an address or before it.
    pub fn before(&self, address: u64) -> Option<&Mapping> {
        let after = self.by_end.partition_point(|&index| self.list[index as usize].end <= address);
        self.by_end[..after].last().map(|&index| &self.list[index as usize])
    }

    /// The last address at or before `address` where the start of a file is mapped.
    pub fn start_of(&self, path: &str, address: u64) -> Option<u64> {
        let starts = self.starts.get(path)?;
        starts[..starts.partition_point(|&start| start <= address)].last().copied()
    }
}

/// Where the files' starts are mapped. Several parts of a small file, or of one whose linker saves space, begin in the file's first page:
/// of those that follow each other the first one is the start.
fn starts(list: &[Mapping]) -> HashMap<Arc<str>, Vec<u64>> {
    let mut in_order: Vec<&Mapping> = list.iter().collect();
    in_order.sort_by_key(|mapping| mapping.start);
    let mut starts: HashMap<Arc<str>, Vec<u64>> = HashMap::new();
    let mut before: Option<&Mapping> = None;
    for mapping in in_order {
        let follows = before.is_some_and(|before| before.offset == 0 && before.file() == mapping.file());
        if mapping.offset == 0 && !follows {
            starts.entry(Arc::clone(&mapping.path)).or_default().push(mapping.start);
        }
        before = Some(mapping);
    }
    starts
}

/// Goes through the files of all looks in the order of their addresses. What of them overlaps, each with the next one, is one place.
fn reused(looks: &[Vec<Mapping>]) -> Vec<Reused> {
    let is_next = |a: &Mapping, b: &Mapping| a.file() == b.file() && a.end == b.start;
    let mut files: Vec<&[Mapping]> = looks.iter().flat_map(|look| look.chunk_by(is_next)).collect();
    files.sort_by_key(|parts| parts[0].start);
    let end_of = |parts: &[Mapping]| parts.last().map_or(0, |last| last.end);
    let mut found = Vec::new();
    let mut rest = files.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut end = end_of(first);
        let mut place = vec![first];
        while let Some(next) = rest.next_if(|next| next[0].start < end) {
            end = end.max(end_of(next));
            place.push(next);
        }
        let has_code = place.iter().flat_map(|parts| *parts).any(|mapping| mapping.executable);
        if has_code && place.iter().any(|parts| parts[0].file() != first[0].file()) {
            let files = place.iter().map(|parts| Arc::clone(&parts[0].path)).collect();
            found.push(Reused { start: first[0].start, end, files });
        }
    }
    found
}

/// Goes through the addresses from below, and keeps the mappings that an address lies in, the one that counts on top.
fn stretches(list: &[Mapping]) -> Vec<(u64, u64, u32)> {
    let mut by_start: Vec<u32> = (0..list.len() as u32).collect();
    by_start.sort_by_key(|&index| list[index as usize].start);
    let mut starting = by_start.into_iter().peekable();
    let mut open: BinaryHeap<std::cmp::Reverse<u32>> = BinaryHeap::new();
    let mut found: Vec<(u64, u64, u32)> = Vec::with_capacity(list.len());
    let mut at = 0;
    loop {
        while open.peek().is_some_and(|top| list[top.0 as usize].end <= at) {
            open.pop();
        }
        let next = starting.peek().map(|&index| list[index as usize].start);
        let Some(top) = open.peek().map(|top| top.0) else {
            let Some(start) = next else { return found };
            at = start;
            while let Some(index) = starting.next_if(|&index| list[index as usize].start == at) {
                open.push(std::cmp::Reverse(index));
            }
            continue;
        };
        let end = list[top as usize].end.min(next.unwrap_or(u64::MAX));
        match found.last_mut() {
            Some(last) if last.1 == at && last.2 == top => last.1 = end,
            _ if at < end => found.push((at, end, top)),
            _ => {}
        }
        at = end;
        while let Some(index) = starting.next_if(|&index| list[index as usize].start <= at) {
            open.push(std::cmp::Reverse(index));
        }
    }
}

/// Bytes of a path, with what the kernel appends to that of a file that is gone.
pub(super) const LONGEST_PATH: usize = libc::PATH_MAX as usize + " (deleted)".len();

/// Paths of which each is kept once.
#[derive(Debug, Default)]
pub(super) struct Paths(BTreeMap<Arc<str>, ()>);

impl Paths {
    fn keep(&mut self, path: &str) -> Arc<str> {
        if let Some((kept, ())) = self.0.get_key_value(path) {
            return Arc::clone(kept);
        }
        let kept: Arc<str> = path.into();
        self.0.insert(Arc::clone(&kept), ());
        kept
    }

    /// The mappings that the lines of `/proc/PID/maps` tell, as far as there is `space` for them.
    pub(super) fn parse_mappings(&mut self, lines: &[u8], space: &mut usize) -> Vec<Mapping> {
        let mut mappings = Vec::new();
        for mapping in lines.split(|&byte| byte == b'\n').filter_map(|line| self.parse_mapping(line)) {
            // What is no longer named is still counted.
            let Some(rest) = space.checked_sub(1) else { break };
            *space = rest;
            mappings.push(mapping);
        }
        mappings
    }

    fn parse_mapping(&mut self, line: &[u8]) -> Option<Mapping> {
        let line = String::from_utf8_lossy(line);
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let hexadecimal = |digits| u64::from_str_radix(digits, 16).ok();
        let (access, offset) = (fields.next()?, hexadecimal(fields.next()?)?);
        let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
        // The kernel writes a line's end within a path so, and nothing else.
        let (inode, path) = (fields.nth(1)?, fields.next()?.trim_start().replace("\\012", "\n"));
        (start < end && path.len() <= LONGEST_PATH).then(|| Mapping {
            start,
            end,
            offset,
            executable: access.contains('x'),
            inode: inode.parse().unwrap_or(0),
            path: self.keep(&path),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mappings(list: &[(u64, u64)]) -> Mappings {
        let path: Arc<str> = "/file".into();
        let mapping = |(i, &(start, end)): (usize, &(u64, u64))| Mapping {
            start,
            end,
            offset: i as u64,
            executable: false,
            inode: 1,
            path: Arc::clone(&path),
        };
        Mappings::new(list.iter().enumerate().map(mapping).collect())
    }

    fn looks(looks: &[&str]) -> Mappings {
        let (mut paths, mut space) = (Paths::default(), 100);
        Mappings::of_looks(
            looks.iter().map(|look| paths.parse_mappings(look.as_bytes(), &mut space)).collect(),
        )
    }

    #[test]
    fn a_path_may_have_a_line_end() {
        let of = looks(&["1000-2000 r-xp 00000000 08:01 1 /a\\012b c"]);
        assert_eq!(of.at(0x1000).map(|mapping| &*mapping.path), Some("/a\nb c"));
    }

    #[test]
    fn where_several_files_were_an_address_tells_none() {
        let first = "1000-2000 r-xp 00000000 08:01 1 /a.so\n2000-3000 rw-p 00001000 08:01 1 /a.so";
        let other = "1000-1800 r--p 00000000 08:01 2 /b.so\n1800-3800 r-xp 00000800 08:01 2 /b.so";
        let at =
            |mappings: &Mappings| [0xfff, 0x1000, 0x2fff, 0x37ff, 0x3800].map(|at| mappings.is_reused(at));
        assert_eq!(at(&looks(&[first, first])), [false; 5], "it was looked at twice");
        assert_eq!(at(&looks(&[first, other, first])), [false, true, true, true, false]);
        let replaced = first.replace("08:01 1", "08:01 3");
        assert_eq!(
            at(&looks(&[first, &replaced])),
            [false, true, true, false, false],
            "a file of the same name"
        );
        assert_eq!(at(&looks(&[first, &first.replace("a.so", "a.so (deleted)")])), [false; 5]);
        let data = "1000-2000 r--p 00000000 08:01 4 /data";
        assert_eq!(at(&looks(&[data, &data.replace("data", "more")])), [false; 5], "no code");
        assert_eq!(at(&looks(&[data, other])), [false, true, true, true, false]);
        let mixed = looks(&[first, other]);
        let names: Vec<_> = mixed.reused()[0].files.iter().map(|path| &**path).collect();
        assert_eq!(names, ["/a.so", "/b.so"]);
        assert_eq!(at(&looks(&[data]).and_inherited(&mixed)), at(&mixed));
        assert_eq!(looks(&[first, other]).and_inherited(&mixed).reused().len(), 1);
    }

    proptest! {
        /// As a search from the first to the last finds it.
        #[test]
        #[cfg_attr(miri, ignore = "takes many minutes under Miri")]
        fn the_first_that_contains_an_address_counts(
            list in prop::collection::vec((0u64..40, 1u64..20), 0..20), address in 0u64..64,
        ) {
            let list: Vec<_> = list.into_iter().map(|(start, length)| (start, start + length)).collect();
            let mappings = mappings(&list);
            let contains = |&&(start, end): &&(u64, u64)| (start..end).contains(&address);
            let found = mappings.at(address).map(|m| (m.start, m.end));
            prop_assert_eq!(found, list.iter().find(contains).copied());
            let before = list.iter().map(|&(_, end)| end).filter(|&end| end <= address).max();
            prop_assert_eq!(mappings.before(address).map(|m| m.end), before);
            let start = list.iter().take(1).map(|&(start, _)| start).find(|&start| start <= address);
            prop_assert_eq!(mappings.start_of("/file", address), start);
        }
    }
}
