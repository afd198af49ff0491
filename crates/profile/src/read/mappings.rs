//! The files that a process had mapped, by address.

use std::collections::{BTreeMap, BinaryHeap, HashMap};
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
    /// The file.
    pub path: Arc<str>,
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
}

impl Mappings {
    /// The mappings with those first that count most.
    pub(super) fn new(list: Vec<Mapping>) -> Self {
        let mut starts: HashMap<Arc<str>, Vec<u64>> = HashMap::new();
        for mapping in list.iter().filter(|mapping| mapping.offset == 0) {
            starts.entry(Arc::clone(&mapping.path)).or_default().push(mapping.start);
        }
        starts.values_mut().for_each(|starts| starts.sort_unstable());
        let mut by_end: Vec<u32> = (0..list.len() as u32).collect();
        by_end.sort_by_key(|&index| list[index as usize].end);
        Self { stretches: stretches(&list), by_end, starts, list }
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
    pub(super) fn into_list(self) -> Vec<Mapping> {
        self.list
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
        let offset = hexadecimal(fields.nth(1)?)?;
        let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
        let path = fields.nth(2)?.trim_start();
        (start < end && path.len() <= LONGEST_PATH).then(|| Mapping {
            start,
            end,
            offset,
            path: self.keep(path),
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
            path: Arc::clone(&path),
        };
        Mappings::new(list.iter().enumerate().map(mapping).collect())
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
