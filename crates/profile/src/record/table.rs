//! A thread's table from a lock's number and mode to its pair.

use crate::format::Pair;

/// A line: the key of a pair, and the pair. Key 0 is an empty line.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) key: u64,
    pub(super) pair: *const Pair,
}

/// An open-addressing table with linear probing. Its length is a power of two, and at least one line is empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    lines: *mut Entry,
    length: usize,
    used: usize,
}

/// Where the search for a key starts. Numbers of locks are in steps of 3, and both modes of a lock are neighbours.
#[inline]
pub(super) fn home(key: u64) -> usize {
    (key >> 1) as usize
}

impl Table {
    /// A table over zeroed memory.
    ///
    /// # Safety
    /// `lines` starts `length` lines, a power of two, that belong to the table alone and stay as long as it is used.
    pub(super) unsafe fn over(lines: *mut Entry, length: usize) -> Self {
        Self { lines, length, used: 0 }
    }

    pub(super) fn lines(&self) -> *mut Entry {
        self.lines
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Whether another key should only come after growing.
    pub(super) fn full(&self) -> bool {
        (self.used + 1) * 4 > self.length * 3
    }

    /// The line at `index`, modulo the length.
    pub(super) fn line(&self, index: usize) -> Entry {
        // SAFETY: the index is below the length.
        unsafe { *self.lines.add(index & (self.length - 1)) }
    }

    /// All pairs.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &Pair> {
        // SAFETY: the pair of an occupied line lies in the mapping, which stays.
        (0..self.length).filter_map(|index| unsafe { self.line(index).pair.as_ref() })
    }

    fn set(&mut self, index: usize, entry: Entry) {
        // SAFETY: the index is below the length.
        unsafe { *self.lines.add(index & (self.length - 1)) = entry };
    }

    pub(super) fn find(&self, key: u64) -> Option<*const Pair> {
        let mut index = home(key);
        loop {
            match self.line(index) {
                Entry { key: 0, .. } => return None,
                found if found.key == key => return Some(found.pair),
                _ => index += 1,
            }
        }
    }

    /// Puts a pair into a table that does not have its key.
    pub(super) fn put(&mut self, key: u64, pair: *const Pair) {
        let mut index = home(key);
        while self.line(index).key != 0 {
            index += 1;
        }
        self.set(index, Entry { key, pair });
        self.used += 1;
    }

    /// Removes a key, moving up the lines that a search would no longer reach (Knuth, 6.4, algorithm R).
    pub(super) fn remove(&mut self, key: u64) {
        let mask = self.length - 1;
        let mut hole = home(key);
        while self.line(hole).key != key {
            if self.line(hole).key == 0 {
                return;
            }
            hole += 1;
        }
        let mut index = hole;
        loop {
            index += 1;
            let entry = self.line(index);
            if entry.key == 0 {
                break;
            }
            let from_home = index.wrapping_sub(home(entry.key)) & mask;
            if from_home >= index.wrapping_sub(hole) & mask {
                self.set(hole, entry);
                hole = index;
            }
        }
        self.set(hole, Entry { key: 0, pair: core::ptr::null() });
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys whose searches start close together, over and over.
    #[test]
    fn what_was_put_is_found_until_it_is_removed() {
        let mut lines = vec![Entry { key: 0, pair: core::ptr::null() }; 64];
        // SAFETY: the vector is not used otherwise while the table is.
        let mut table = unsafe { Table::over(lines.as_mut_ptr(), lines.len()) };
        let pair = Pair::zeroed();
        let mut present = std::collections::BTreeSet::new();
        let mut random = 1u64;
        for _ in 0..if cfg!(miri) { 4 } else { 20_000 } {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = 2 + (random >> 40) % 70 + 128 * ((random >> 50) % 3);
            if present.remove(&key) {
                table.remove(key);
            } else if !table.full() {
                table.put(key, &raw const pair);
                present.insert(key);
            }
            assert!((1..600).all(|key| table.find(key).is_some() == present.contains(&key)));
        }
    }
}
